//! Every seed, and mutations of it that are the same every time: the fuzz targets' checks without a
//! fuzzer.

use std::fs;
use std::path::Path;

use krarup_fuzz::TARGETS;

/// Xorshift: the same numbers for ever.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Cuts, doubles, swaps and splices.
fn mutated(seeds: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seeds[numbers.below(seeds.len())].clone();
    for _ in 0..1 + numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, b" \r\n\0-9xE"[numbers.below(8)]),
            2 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            3 => {
                let end = (at + numbers.below(20)).min(bytes.len());
                bytes.extend_from_within(at..end);
            }
            _ => {
                let other = &seeds[numbers.below(seeds.len())];
                bytes.splice(at.., other[numbers.below(other.len() + 1)..].iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn every_seed_and_its_mutations_pass_every_check() {
    for (name, check) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        seeds.iter().for_each(|seed| check(seed));
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for _ in 0..3_000 {
            check(&mutated(&seeds, &mut numbers));
        }
    }
}
