//! How far closed networks are off in which service is not exponential where requests wait in
//! order: against simulation of random ones.
//!
//! A few networks run always. All of them, and the table of errors:
//!
//! ```text
//! cargo test --release -p krarup-model --test all networks:: -- --ignored --nocapture
//! ```

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use krarup_model::network::{Branch, Class, Network, PathVisit, Station, StationId, StationKind, Step, Work};
use krarup_model::simulate::result::Simulated;
use krarup_model::simulate::{SimulationSettings, simulate};
use krarup_model::solve::{Solution, SolutionMethod, solve};
use krarup_model::{Distribution, limits};
use rand::rngs::Xoshiro256PlusPlus as Random;
use rand::{RngExt, SeedableRng};

/// A time of this mean: constant, less variable than exponential, exponential or more variable, as
/// far as `most`.
fn time(random: &mut Random, mean: f64, most: f64) -> Distribution {
    let scv = random.random_range(1.0..most);
    match random.random_range(0..7) {
        0 => Distribution::constant(mean),
        1 => Distribution::Erlang { stages: random.random_range(2..=6), mean },
        2 => Distribution::Uniform { low: 0.0, high: 2.0 * mean },
        3 => Distribution::exponential(mean),
        4 => Distribution::Lognormal { mean, scv },
        5 => Distribution::Gamma { mean, scv },
        _ => Distribution::Hyperexponential { mean, scv },
    }
}

fn visit(station: usize, count: f64, time: Distribution) -> Step {
    Step::Visit(PathVisit { station: StationId(station), count, work: Work::Time(time) })
}

/// One to five stations, mostly single servers, sometimes a delay.
fn stations(random: &mut Random) -> Vec<Station> {
    let count = random.random_range(1..=5);
    let one = |place: usize, random: &mut Random| {
        let name = format!("s{place}");
        match random.random_range(0..10) {
            0..6 => Station::single(name),
            6..9 => Station::servers(name, random.random_range(2..=8)),
            _ => Station::delay(name),
        }
    };
    (0..count).map(|place| one(place, random)).collect()
}

/// A way through the stations in any order: some twice, some by some requests only. Means are
/// relative to what a station can do.
fn path(random: &mut Random, stations: &[Station], most: f64) -> Vec<Step> {
    let mut steps = Vec::new();
    for (place, station) in stations.iter().enumerate() {
        let servers = if let StationKind::Servers { count } = station.kind { f64::from(count) } else { 1.0 };
        let mean = servers * 10_f64.powf(random.random_range(-0.6..0.0));
        let step = visit(place, 1.0, time(random, mean, most));
        steps.insert(random.random_range(0..=steps.len()), step);
    }
    let count = random.random_range(0.2..3.0);
    if random.random_bool(0.3)
        && let Step::Visit(visit) = &mut steps[0]
    {
        visit.count = count;
    }
    if steps.len() > 1 && random.random_bool(0.5) {
        let branch = |share, path| Branch { share, path };
        let last = steps.pop().expect("there are two");
        let share = random.random_range(0.2..0.8);
        let other = steps.pop().expect("there are two");
        steps.push(Step::OneOf {
            branches: vec![branch(share, vec![last]), branch(1.0 - share, vec![other])],
        });
    }
    steps
}

fn network(stations: Vec<Station>, classes: Vec<Class>) -> Network {
    Network { name: "case".into(), stations, pools: Vec::new(), classes }
}

/// A closed class at stations in order.
fn closed(seed: u64) -> Network {
    let mut random = Random::seed_from_u64(seed);
    let stations = stations(&mut random);
    let path = path(&mut random, &stations, MOST_CLOSED);
    let population = 2_f64.powf(random.random_range(1.0..6.5)) as u64;
    let think = if random.random_bool(0.2) { 0.0 } else { 10_f64.powf(random.random_range(-0.5..1.5)) };
    network(stations, vec![Class::closed("c", population, think, path)])
}

const MOST_CLOSED: f64 = 6.0;

fn simulated(network: &Network, events: u64, seed: u64) -> Simulated {
    let settings =
        SimulationSettings { seed, max_events: events, precision: 0.0, ..SimulationSettings::default() };
    simulate(network, &settings, &mut |_| ControlFlow::Continue(())).expect("simulated")
}

fn solved(network: &Network) -> Solution {
    let solution =
        solve(network, SolutionMethod::Auto).unwrap_or_else(|error| panic!("{error}: {network:?}"));
    if let Some(population) = network.classes[0].population() {
        let range = limits::of(network).expect("one class").asymptotic(population as f64);
        let x = solution.last().classes[0].throughput;
        assert!(range.holds(x, 1e-3), "{x} outside {range:?}: {network:?}");
    }
    solution
}

/// Errors of X and R (the mean over all requests), by kind of network.
#[derive(Default)]
struct Errors(BTreeMap<String, Vec<(f64, f64, u64)>>);

impl Errors {
    fn add(&mut self, what: &str, seed: u64, network: &Network, events: u64) {
        let (simulated, solution) = (simulated(network, events, seed), solved(network));
        let (mut x, mut r, mut exact_r) = (0.0_f64, 0.0, 0.0);
        for (there, class) in solution.last().classes.iter().zip(&simulated.classes) {
            x = x.max((there.throughput / class.throughput.value - 1.0).abs());
            r += there.throughput * there.response;
            exact_r += there.throughput * class.response.expect("some were completed").value;
        }
        self.0.entry(what.to_owned()).or_default().push((x, r / exact_r - 1.0, seed));
    }

    #[allow(clippy::print_stdout)] // the table is what the study is for
    fn print(&self) {
        println!(
            "{:<32} {:>5} {:>23} {:>31}",
            "in percent", "cases", "X: median, 95 %, worst", "R: median, 95 %, worst, seed"
        );
        for (what, errors) in &self.0 {
            let of = |which: fn(&(f64, f64, u64)) -> f64| {
                let mut sorted: Vec<f64> = errors.iter().map(which).collect();
                sorted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
                let at = |share: f64| 100.0 * sorted[((sorted.len() - 1) as f64 * share).round() as usize];
                format!("{:7.1} {:7.1} {:7.1}", at(0.5), at(0.95), at(1.0))
            };
            let worst = errors.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).map_or(0, |e| e.2);
            println!("{what:<32} {:>5} {} {} {worst:>7}", errors.len(), of(|e| e.0), of(|e| e.1));
        }
    }

    /// The largest error of X and of R.
    fn worst(&self, of: &str) -> (f64, f64) {
        let chosen = self.0.iter().filter(|(what, _)| what.starts_with(of));
        chosen
            .flat_map(|(_, errors)| errors)
            .fold((0.0, 0.0), |(x, r), error| (error.0.max(x), error.1.abs().max(r)))
    }
}

fn kinds(network: &Network) -> &'static str {
    if network.stations.iter().any(|s| matches!(s.kind, StationKind::Servers { count } if count > 1)) {
        "several servers"
    } else {
        "single servers"
    }
}

#[test]
fn some_networks_are_near_their_simulation() {
    let mut errors = Errors::default();
    (0..8).for_each(|seed| errors.add("closed", seed, &closed(seed), 100_000));
    errors.print();
    let (x, r) = errors.worst("closed");
    assert!(x < 0.06 && r < 0.13, "{x} {r}");
}

#[test]
#[ignore = "the study takes minutes"]
fn study_of_closed_networks() {
    let mut errors = Errors::default();
    for seed in 0..220 {
        let network = closed(seed);
        errors.add(&format!("closed, {}", kinds(&network)), seed, &network, 200_000);
    }
    errors.print();
    // What the note of a solution says.
    let (x, r) = errors.worst("closed");
    assert!(x < 0.05 && r < 0.12, "{x} {r}");
}
