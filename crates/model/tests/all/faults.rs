//! Cases in which other tools give impossible answers: ours must give the true ones.
//!
//! The wrong answers are those of GNU Octave's queueing package 1.2.7, LINE 3.0.8 and the textbook
//! form of load-dependent mean value analysis, as they were run when these cases were collected.

use krarup_model::multi::{self, Customers, MulticlassStation};
use krarup_model::single::{self, ClassStation, Pace};

/// Delay 0.866723 ms, then 95 servers of 0.844386 ms and 30 of 1.327447 ms: the 2015 report's
/// model.
fn report_of_2015(population: usize) -> single::Sweep {
    let stations = [
        ClassStation::delay("client, network and think", 0.866_723e-3),
        ClassStation::servers("middleware", 0.844_386e-3, 95),
        ClassStation::servers("database", 1.327_447e-3, 30),
    ];
    single::solve(&stations, 0.0, population).expect("the stations have demands")
}

#[test]
fn two_stations_of_many_servers_never_go_negative() {
    // Octave: −11235, −9885 and NaN at 120; the textbook 4241, 7041, 14829, 10602; LINE 6866
    // and 16872.
    let sweep = report_of_2015(120);
    for (population, truth) in
        [(60, 19_592.1), (70, 21_841.0), (80, 22_545.0), (100, 22_600.0), (120, 22_599.8)]
    {
        let x = sweep.throughput(population);
        assert!((x - truth).abs() < 0.6, "N = {population}: {x}, true {truth}");
    }
    assert!((sweep.throughput(60) - 19_592.1).abs() < 0.05);
    assert!((sweep.throughput(120) - 22_599.8).abs() < 0.05);
}

#[test]
fn ten_equal_stations_and_a_thousand_customers_are_finite() {
    // Octave's convolution: NaN.
    let stations: Vec<_> =
        (0..10).map(|k| ClassStation::fixed(format!("s{k}"), 0.01 / (1.0 + f64::from(k)))).collect();
    let sweep = single::solve(&stations, 0.0, 1_000).unwrap();
    assert!((sweep.throughput(1_000) - 100.0).abs() < 1e-9);
}

/// Two stations of m servers are one chain with N + 1 states: summed here directly in logarithms.
#[test]
fn two_stations_of_many_servers_stay_exact_where_others_drift() {
    // Octave's relative error passes 1e-6 at these populations.
    for (m, population) in [(8_u32, 46_usize), (16, 44), (32, 64), (64, 300), (128, 2_000)] {
        let (a, b) = (1.0, 1.1);
        let sweep = single::solve(
            &[ClassStation::servers("a", a, m), ClassStation::servers("b", b, m)],
            0.0,
            population,
        )
        .unwrap();
        let rate = |jobs: usize, demand: f64| jobs.min(m as usize) as f64 / demand;
        let births: Vec<f64> = (0..population).map(|k| rate(population - k, a)).collect();
        let deaths: Vec<f64> = (1..=population).map(|k| rate(k, b)).collect();
        let shares = krarup_model::station::birth_death(&births, &deaths).unwrap();
        let x: f64 = (1..=population).map(|k| shares[k] * rate(k, b)).sum();
        let q: f64 = (1..=population).map(|k| shares[k] * k as f64).sum();
        assert!((sweep.throughput(population) / x - 1.0).abs() < 1e-11, "m = {m}");
        assert!((sweep.queue(1, population) / q - 1.0).abs() < 1e-10, "m = {m}");
    }
}

#[test]
fn the_model_of_2018_for_writes_is_not_sampled() {
    // LINE's default (sampling): 208.5 per ms. The published table: 11545.00.
    let stations = [
        ClassStation::delay("network", 0.6e-3),
        ClassStation::fixed("net thread", 1.0 / 11_545.0),
        ClassStation::servers("workers", 0.172_963e-3, 64),
        ClassStation::fixed("memcached", 1.0 / 16_335.0),
    ];
    let sweep = single::solve(&stations, 0.0, 192).unwrap();
    assert!((sweep.throughput(192) - 11_545.0).abs() < 0.005);
}

const THREE_CLASSES: [f64; 3] = [16.933_322, 17.256_279, 15.294_452];

fn three_classes_of_fifty() -> (Vec<MulticlassStation>, Vec<Customers>) {
    let by_station =
        [[0.02, 0.01, 0.03], [0.01, 0.02, 0.01], [0.03, 0.01, 0.02], [0.02, 0.02, 0.02], [0.01, 0.03, 0.02]];
    let classes = (0..3)
        .map(|c| Customers {
            name: format!("class {c}"),
            population: 50,
            think: 0.0,
            demands: by_station.iter().map(|s| s[c]).collect(),
        })
        .collect();
    let places = (0..5).map(|k| MulticlassStation { name: format!("s{k}"), servers: Some(1) }).collect();
    (places, classes)
}

#[test]
fn three_classes_of_fifty_are_exact() {
    let (places, classes) = three_classes_of_fifty();
    let answer = multi::exact(&places, &classes).unwrap();
    for (x, truth) in answer.throughput.iter().zip(THREE_CLASSES) {
        assert!((x - truth).abs() < 5e-7, "{x} {truth}");
    }
    // LINE's answers at such sizes exceed capacity up to 18 times; ours may not exceed it at all.
    for k in 0..5 {
        let busy: f64 = answer.throughput.iter().zip(&classes).map(|(x, c)| x * c.demands[k]).sum();
        assert!(busy <= 1.0 + 1e-9, "station {k}: {busy}");
    }
}

/// Octave's other approximation of several classes (`qncmmvaap`) ends in an error; this one is
/// within a percent, and Linearizer far nearer.
#[test]
fn approximations_of_three_classes_of_fifty_are_near() {
    let (places, classes) = three_classes_of_fifty();
    for (answer, within) in
        [(multi::schweitzer(&places, &classes), 0.01), (multi::linearizer(&places, &classes), 0.002)]
    {
        for (x, truth) in answer.unwrap().throughput.iter().zip(THREE_CLASSES) {
            assert!((x / truth - 1.0).abs() < within, "{x} {truth}");
        }
    }
}

/// 288 clients, 128 held workers, one server of 16.34 per ms: LINE's layered solver said 85.8 per
/// ms, LQNS up to 59.8.
#[test]
fn held_workers_in_front_of_one_server_never_exceed_it() {
    let network = krarup_model::form::from_toml(
        r#"
        station = [{ name = "outside", delay = true }, { name = "memcached" }]
        pool = [{ name = "workers", size = 128 }]
        [[class]]
        name = "set"
        population = 288
        path = [
            { at = "outside", service = "0.8 ms" },
            { hold = "workers", path = [{ at = "memcached", service = 6.1199e-5 }] },
        ]
        "#,
    )
    .unwrap();
    let solution = krarup_model::solve::solve(&network, Default::default()).unwrap();
    for point in &solution.points {
        assert!(point.classes[0].throughput <= 16_340.2);
    }
    assert!((solution.last().classes[0].throughput - 16_340.1).abs() < 0.5);
}

#[test]
fn speeds_of_every_size_stay_finite() {
    for (demand, think) in [(1e-9, 1e6), (1e6, 1e-9), (1e-300, 1.0), (1e9, 1e9)] {
        for pace in [Pace::Fixed, Pace::Servers(128), Pace::Speeds(vec![1.0, 5.0, 0.1])] {
            let odd = ClassStation { name: "odd".into(), demand, pace: pace.clone() };
            let sweep = single::solve(&[odd, ClassStation::fixed("a", demand)], think, 2_000);
            let sweep = sweep.unwrap_or_else(|error| panic!("{demand} {think} {pace:?}: {error}"));
            assert!(sweep.throughput(2_000).is_finite() && sweep.throughput(2_000) > 0.0);
        }
    }
}
