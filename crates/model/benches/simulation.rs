//! Events per second of the simulator on one core.
//!
//! `cargo bench -p krarup-model --bench simulation`. Throughput is events (arrivals, ends of
//! thinking, completed services) per second; statistics, warm-up detection, histograms and
//! intervals are part of it.

use std::ops::ControlFlow;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use krarup_model::Network;
use krarup_model::form::from_toml;
use krarup_model::simulate::{SimulationSettings, simulate};

/// Poisson arrivals to 16 exponential servers, 0.9 busy.
const MM16: &str = r#"
    station = [{ name = "servers", servers = 16 }]
    class = [{ name = "job", rate = 14.4, path = [{ at = "servers", service = 1 }] }]
"#;

/// 288 clients, 128 workers held while copies go to three servers and all have answered.
const HELD: &str = r#"
    station = [{ name = "a" }, { name = "b" }, { name = "c" }]
    pool = [{ name = "workers", size = 128 }]
    [[class]]
    name = "set"
    population = 288
    think = "0.8 ms"
    path = [{ hold = "workers", path = [{ fork = ["a", "b", "c"], wait = "all", service = 6.1199e-5 }] }]
"#;

/// Twelve clients at a shared processor and a station whose speed depends on the number there.
const SHARED: &str = r#"
    station = [{ name = "cpu", discipline = "ps" }, { name = "lock", rates = [1.0, 1.6, 1.9, 1.7] }]
    [[class]]
    name = "user"
    population = 12
    think = 3
    path = [{ at = "cpu", service = 0.2 }, { at = "lock", service = 0.3 }]
"#;

fn simulations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulation");
    let events = 1_000_000;
    group.throughput(Throughput::Elements(events)).sample_size(10);
    for (name, text) in [("M/M/16", MM16), ("held workers, fork to 3, N = 288", HELD), ("shared", SHARED)] {
        let network: Network = from_toml(text).expect("the network is well-formed");
        let settings = SimulationSettings { max_events: events, precision: 0.0, ..Default::default() };
        group.bench_function(name, |bencher| {
            let run = |network: Network| simulate(&network, &settings, &mut |_| ControlFlow::Continue(()));
            bencher.iter_batched(|| network.clone(), run, BatchSize::LargeInput);
        });
    }
}

criterion_group!(benches, simulations);
criterion_main!(benches);
