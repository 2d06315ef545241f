//! What it costs the event loop that metrics are asked for: laying down the numbers of three
//! operations and three servers.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use krarup_proxy::metrics::ProxySnapshot;
use krarup_proxy::{Config, Core, MultiGet, Topology};
use krarup_record::{KeyDigest, Operation, Outcome, Recorder, ServerVisit, Visit, recorder};
use krarup_units::Stamp;

/// A core that has seen requests of `longest` nanoseconds at most.
fn core(longest: u64) -> Core {
    let mut recorder =
        Recorder::new(recorder::RecorderSettings::default()).expect("the default settings are valid");
    for number in 0..30_000u64 {
        let received = number * 1_000;
        let time = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % longest;
        let at = |share: u64| Stamp(received + time * share / 4);
        let visit = Visit {
            station: 0,
            operation: [Operation::Get, Operation::Set, Operation::MultiGet][number as usize % 3],
            outcome: Outcome::Ok,
            worker_was_idle: true,
            received: at(0),
            queued: at(0),
            taken: at(1),
            replied: at(4),
            busy_workers: 1,
            queue_length: 0,
            keys: 1,
            hits: 1,
            misses: 0,
            bytes_in: 30,
            bytes_out: 100,
            key: KeyDigest(number),
        };
        recorder.record(&visit, &[ServerVisit::ok(number as u16 % 3, at(1), at(3))]);
    }
    let servers = (1..4).map(|number| format!("10.0.0.{number}:11211")).collect();
    let topology = Topology::replicated(servers, MultiGet::Whole);
    Core::new(Config::default().settings(), topology, recorder, Stamp(0))
}

fn snapshot(criterion: &mut Criterion) {
    for (longest, name) in [(1_000_000, "1 ms"), (100_000_000, "100 ms")] {
        let core = core(longest);
        criterion.bench_function(&format!("snapshot/times up to {name}"), |bencher| {
            bencher.iter(|| black_box(ProxySnapshot::of(&core, Stamp(1 << 40), false)));
        });
    }
}

criterion_group!(benches, snapshot);
criterion_main!(benches);
