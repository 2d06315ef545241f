//! The solvers at the sizes by which other tools are compared (`bench/models.py` runs the same in
//! GNU Octave).

#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use krarup_model::flow::{Curve, FlowModel, OutsideCount};
use krarup_model::multi::{self, Customers, MulticlassStation};
use krarup_model::single::{self, ClassStation};

/// Ten single servers, a thousand customers: every population on the way.
fn ten_stations(c: &mut Criterion) {
    let stations: Vec<_> =
        (1..=10).map(|k| ClassStation::fixed(format!("s{k}"), 0.001 * f64::from(k))).collect();
    c.bench_function("MVA K=10 N=1000", |b| {
        b.iter(|| single::solve(black_box(&stations), 0.1, 1_000).expect("solvable"));
    });
}

/// A delay, a station of 64 servers and two single ones: all populations 1 to 300 in one pass.
fn many_servers(c: &mut Criterion) {
    let stations = [
        ClassStation::delay("network", 0.001),
        ClassStation::servers("workers", 0.02, 64),
        ClassStation::fixed("server", 0.000_3),
        ClassStation::fixed("link", 0.000_25),
    ];
    c.bench_function("sweep N=1..300 m=64 K=4", |b| {
        b.iter(|| single::solve(black_box(&stations), 0.0, 300).expect("solvable"));
    });
    let two = [
        ClassStation::delay("client", 0.866_723e-3),
        ClassStation::servers("middleware", 0.844_386e-3, 95),
        ClassStation::servers("database", 1.327_447e-3, 30),
    ];
    c.bench_function("sweep N=1..300 m=95 and 30", |b| {
        b.iter(|| single::solve(black_box(&two), 0.0, 300).expect("solvable"));
    });
}

/// Three classes of fifty at five stations.
fn three_classes(c: &mut Criterion) {
    let by_station =
        [[0.02, 0.01, 0.03], [0.01, 0.02, 0.01], [0.03, 0.01, 0.02], [0.02, 0.02, 0.02], [0.01, 0.03, 0.02]];
    let classes: Vec<_> = (0..3)
        .map(|class| Customers {
            name: format!("class {class}"),
            population: 50,
            think: 0.0,
            demands: by_station.iter().map(|s| s[class]).collect(),
        })
        .collect();
    let places: Vec<_> =
        (0..5).map(|k| MulticlassStation { name: format!("s{k}"), servers: Some(1) }).collect();
    c.bench_function("exact 3x50x5", |b| {
        b.iter(|| multi::exact(black_box(&places), black_box(&classes)).expect("solvable"));
    });
    c.bench_function("Linearizer 3x50x5", |b| {
        b.iter(|| multi::linearizer(black_box(&places), black_box(&classes)).expect("solvable"));
    });
}

/// The flow model of held workers, for one configuration.
fn held_workers(c: &mut Criterion) {
    let model = FlowModel {
        hold: Curve::Line { constant: 1.013e-3, slope: 0.0864e-3 },
        outside: Curve::Square { constant: 0.849e-3, square: 1.5e-7 },
        outside_over: OutsideCount::BusyWorkers,
    };
    c.bench_function("held workers N=288 M=128", |b| {
        b.iter(|| black_box(&model).solve(288, 128).expect("solvable"));
    });
}

criterion_group!(benches, ten_stations, many_servers, three_classes, held_workers);
criterion_main!(benches);
