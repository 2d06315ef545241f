//! What a look-up costs: where a key of 20 bytes lies, by distribution, servers and hash function.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use krarup_proxy::placement::{KeyDistribution, KeyHash, Member, Placement};

/// Keys in turn, so that no branch is learned by heart.
fn keys() -> Vec<Vec<u8>> {
    (0..1_024)
        .map(|number| format!("key:{:016x}", 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number)).into_bytes())
        .collect()
}

fn members(count: usize) -> Vec<Member> {
    (0..count).map(|number| Member::unnamed(&format!("10.0.0.{number}"), 11_211, 1)).collect()
}

fn look_up(criterion: &mut Criterion) {
    let keys = keys();
    for (distribution, name) in KeyDistribution::ALL {
        for servers in [3, 30] {
            let placement = Placement::new(distribution, KeyHash::Fnv1a64, None, &members(servers))
                .expect("a list of servers");
            let mut turn = keys.iter().cycle();
            criterion.bench_function(&format!("primary/{name}/{servers} servers"), |bencher| {
                bencher.iter(|| placement.primary(black_box(turn.next().expect("a cycle"))));
            });
        }
    }
    let placement = Placement::new(KeyDistribution::Ketama, KeyHash::Fnv1a64, None, &members(30))
        .expect("a list of servers");
    let mut turn = keys.iter().cycle();
    let mut into = Vec::with_capacity(30);
    for count in [3, 30] {
        criterion.bench_function(&format!("replicas/ketama/{count} of 30"), |bencher| {
            bencher.iter(|| placement.replicas(black_box(turn.next().expect("a cycle")), count, &mut into));
        });
    }
}

fn hash(criterion: &mut Criterion) {
    let keys = keys();
    for (hash, name) in KeyHash::ALL {
        let mut turn = keys.iter().cycle();
        criterion.bench_function(&format!("hash/{name}"), |bencher| {
            bencher.iter(|| hash.number(black_box(turn.next().expect("a cycle"))));
        });
    }
}

criterion_group!(benches, look_up, hash);
criterion_main!(benches);
