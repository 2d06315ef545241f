//! mcrouter's own: a walk down a binary tree of servers, a bit of the key's hash at each fork.
//!
//! With m servers and 2ᵈ the next power of two, bits are drawn until one is set: each that is not
//! halves the tree. The d - 1 bits that follow name a server of that half; if there is none of that
//! number, the draw is repeated. Adding a server at the end moves keys to it alone. The bits come
//! from Appleby's second Murmur hash in 64 bits, and when they are used up, from the hash of the
//! hash.

/// How far apart the bits of one draw stand.
const STRIDE: usize = 23;
/// Draws before the first server is taken for want of a better.
const DRAWS: usize = 32;
const SEED: u64 = 4_193_360_111;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;

/// What stands behind it is no part of the key as far as its place is concerned.
const STOP: &[u8] = b"|#|";

/// The first word of a key's bits.
pub(super) fn number(key: &[u8]) -> u64 {
    let stop = key.windows(STOP.len()).position(|three| three == STOP);
    murmur64(&key[..stop.unwrap_or(key.len())])
}

/// The place of the server of a key with this [number] among `servers` of them, which must be 1 to
/// 2²³.
pub(super) fn place(number: u64, servers: usize) -> usize {
    if servers <= 1 {
        return 0;
    }
    let mut bits = Bits { first: number, word: number, number: 0 };
    let mut depth = servers.next_power_of_two().trailing_zeros() as usize;
    let mut at = depth;
    for _ in 0..DRAWS {
        while !bits.at(at) {
            depth -= 1;
            if depth == 0 {
                return 0;
            }
            at = depth;
        }
        at += STRIDE;
        let mut place = 1;
        for _ in 1..depth {
            place = place << 1 | usize::from(bits.at(at));
            at += STRIDE;
        }
        if place < servers {
            return place;
        }
    }
    0
}

/// An endless row of bits, of which one word is at hand.
struct Bits {
    first: u64,
    word: u64,
    number: usize,
}

impl Bits {
    fn at(&mut self, bit: usize) -> bool {
        if bit / 64 < self.number {
            (self.word, self.number) = (self.first, 0);
        }
        while self.number < bit / 64 {
            self.word = murmur64(&self.word.to_le_bytes());
            self.number += 1;
        }
        self.word >> (bit % 64) & 1 == 1
    }
}

fn murmur64(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let tail = words.remainder();
    let mut hash = words.fold(SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER), |hash, word| {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes")).wrapping_mul(MULTIPLIER);
        (hash ^ (word ^ word >> 47).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER)
    });
    if !tail.is_empty() {
        let tail = tail.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        hash = (hash ^ tail).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    fn place(key: &[u8], servers: usize) -> usize {
        super::place(super::number(key), servers)
    }

    #[test]
    fn what_stands_behind_the_first_stop_does_not_count() {
        for servers in [2, 3, 17, 100] {
            for (key, counts) in [
                ("user7|#|name", "user7"),
                ("user7|#|a|#|b", "user7"),
                ("|#|b", ""),
                ("user7|#b", "user7|#b"),
            ] {
                assert_eq!(place(key.as_bytes(), servers), place(counts.as_bytes(), servers), "{key}");
            }
        }
        let places = (0..50).map(|number| place(format!("user{number}|#|same").as_bytes(), 100));
        assert!(places.collect::<std::collections::BTreeSet<_>>().len() > 20, "what stands before it does");
    }
}
