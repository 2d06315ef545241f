//! On random networks the solvers agree with each other and with the bounds.
//!
//! `KRARUP_CASES=20000 cargo test --release` runs more and larger ones.

use krarup_model::Error;
use krarup_model::bounds::Demands;
use krarup_model::multi::{self, Customers, MulticlassStation};
use krarup_model::single::{self, ClassStation, Pace};
use proptest::prelude::*;

/// Many cases and large networks only when asked for.
fn thorough() -> Option<u32> {
    std::env::var("KRARUP_CASES").ok().and_then(|cases| cases.parse().ok())
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases: thorough().unwrap_or(cases), ..ProptestConfig::default() }
}

/// Seven decades around a millisecond.
fn demand() -> impl Strategy<Value = f64> {
    (-6.0..1.0_f64).prop_map(|exponent| 10_f64.powf(exponent))
}

fn pace(most: u32) -> impl Strategy<Value = Pace> {
    prop_oneof![
        3 => Just(Pace::Fixed),
        1 => Just(Pace::Delay),
        3 => (2..=most).prop_map(Pace::Servers),
        1 => prop::collection::vec(0.1..10.0_f64, 1..40).prop_map(Pace::Speeds),
    ]
}

fn network(stations: usize, most: u32) -> impl Strategy<Value = (Vec<ClassStation>, f64)> {
    let station =
        (demand(), pace(most)).prop_map(|(demand, pace)| ClassStation { name: "s".into(), demand, pace });
    (prop::collection::vec(station, 1..=stations), prop_oneof![Just(0.0), demand()])
}

/// An independent solver: Buzen's convolution, every coefficient in logarithms.
fn convolution(resources: &[ClassStation], think: f64, population: usize) -> Vec<f64> {
    let mut sum: Vec<f64> = (0..=population).map(|n| if n == 0 { 0.0 } else { f64::NEG_INFINITY }).collect();
    let mut all = resources.to_vec();
    if think > 0.0 {
        all.push(ClassStation::delay("think", think));
    }
    for resource in &all {
        let mut factor = vec![0.0];
        for j in 1..=population {
            factor.push(factor[j - 1] - resource.rate(j).ln());
        }
        sum = (0..=population)
            .map(|n| {
                let terms: Vec<f64> = (0..=n).map(|j| factor[j] + sum[n - j]).collect();
                let most = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                if most == f64::NEG_INFINITY {
                    return most;
                }
                most + terms.iter().map(|t| (t - most).exp()).sum::<f64>().ln()
            })
            .collect();
    }
    (1..=population).map(|n| (sum[n - 1] - sum[n]).exp()).collect()
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn joined_stations_and_convolution_give_the_same((resources, think) in network(6, 32), population in 1_usize..60) {
        let sweep = single::solve(&resources, think, population).unwrap();
        for (n, expected) in convolution(&resources, think, population).iter().enumerate() {
            let x = sweep.throughput(n + 1);
            prop_assert!((x / expected - 1.0).abs() < 1e-9, "N = {}: {} {}", n + 1, x, expected);
        }
    }

    /// The answer's own checks (0 < X ≤ bounds, ΣQ + X·Z = N) run inside; here they must never
    /// fire.
    #[test]
    fn large_networks_break_no_law((resources, think) in network(if thorough().is_some() { 20 } else { 8 }, 128),
                                   size in 1_usize..2_000) {
        let population = if thorough().is_some() { size } else { size / 10 + 1 };
        let sweep = single::solve(&resources, think, population).unwrap();
        let elasticity: f64 = sweep.elasticity(population).iter().sum();
        prop_assert!((elasticity + 1.0).abs() < 1e-6, "elasticities add up to {}", elasticity);
    }

    #[test]
    fn exact_answers_lie_inside_all_bounds(demands in prop::collection::vec(demand(), 1..10),
                                           think in prop_oneof![Just(0.0), demand()], population in 1_usize..300) {
        let resources: Vec<_> = demands.iter().map(|d| ClassStation::fixed("s", *d)).collect();
        let x = single::solve(&resources, think, population).unwrap().throughput(population);
        let bounds = Demands::single_servers(&demands, think);
        let n = population as f64;
        let asymptotic = bounds.asymptotic(n);
        let balanced = bounds.balanced(n).unwrap();
        let geometric = bounds.geometric(n).unwrap();
        for range in [asymptotic, balanced, geometric] {
            prop_assert!(range.holds(x, 1e-9), "{} outside {:?}", x, range);
        }
        prop_assert!(balanced.low >= asymptotic.low * (1.0 - 1e-9) && balanced.high <= asymptotic.high * (1.0 + 1e-9));
        prop_assert!(geometric.low >= balanced.low && geometric.high <= balanced.high);
    }

    /// One class, split at random into up to three that do the same.
    #[test]
    fn equal_classes_are_one_class(stations in prop::collection::vec((demand(), prop_oneof![Just(None), (1_u32..6).prop_map(Some)]), 1..4),
                                   think in demand(), split in prop::collection::vec(0_u64..7, 1..=3)) {
        let total: u64 = split.iter().sum();
        prop_assume!(total > 0);
        let places: Vec<_> = stations.iter().map(|(_, servers)| MulticlassStation { name: "s".into(), servers: *servers }).collect();
        let classes: Vec<_> = split.iter().map(|n| Customers {
            name: "c".into(), population: *n, think, demands: stations.iter().map(|s| s.0).collect(),
        }).collect();
        let answer = multi::exact(&places, &classes).unwrap();
        let resources: Vec<_> = stations.iter().map(|(demand, servers)| match servers {
            None => ClassStation::delay("s", *demand),
            Some(m) => ClassStation::servers("s", *demand, *m),
        }).collect();
        let single = single::solve(&resources, think, total as usize).unwrap();
        let x: f64 = answer.throughput.iter().sum();
        prop_assert!((x / single.throughput(total as usize) - 1.0).abs() < 1e-9);
    }

    /// Single servers: the approximations are near, and nearer the better they claim to be.
    #[test]
    fn approximations_stay_near(demands in prop::collection::vec(prop::collection::vec(0.001..0.1_f64, 4), 2..=3),
                                population in 1_u64..12, think in 0.0..0.5_f64) {
        let places: Vec<_> = (0..4).map(|_| MulticlassStation { name: "s".into(), servers: Some(1) }).collect();
        let classes: Vec<_> = demands.iter().map(|d| Customers { name: "c".into(), population, think, demands: d.clone() }).collect();
        let exact = multi::exact(&places, &classes).unwrap();
        for (near, within) in [(multi::schweitzer(&places, &classes), 0.12), (multi::linearizer(&places, &classes), 0.03)] {
            match near {
                Ok(near) => for (x, truth) in near.throughput.iter().zip(&exact.throughput) {
                    prop_assert!((x / truth - 1.0).abs() < within, "{} {}", x, truth);
                },
                // Near saturation an approximation may come out a little above what is possible.
                // Then it must say so and name the station, never print the number.
                Err(Error::Violated { station, law }) => {
                    prop_assert_eq!(station, "s");
                    let busy: f64 = law.split(' ').next().and_then(|number| number.parse().ok()).unwrap();
                    prop_assert!(busy > 1.0 && busy < 1.0 + within, "{}", law);
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
