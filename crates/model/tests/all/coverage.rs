//! How often the intervals of a simulation hold the truth when it ends by its own rule, and how far
//! its means are off then.
//!
//! An interval at 95 % that ends a run as soon as it is narrow holds the truth less often than it
//! says, because runs that happen to look calm end early. Here each case is simulated hundreds of
//! times with other seeds, and each answer is known exactly. One small case runs always. All of
//! them, and the table:
//!
//! ```text
//! cargo test --release -p krarup-model --test all coverage:: -- --ignored --nocapture
//! ```
//!
//! `KRARUP_CASES=0.1` makes a tenth of the runs of each case, and `KRARUP_ONLY=', 0.05'` those
//! whose name and precision have that in them.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use krarup_model::Distribution;
use krarup_model::network::{Class, Network, Station, StationId, Step};
use krarup_model::simulate::result::{ClassReading, SimulatedEstimate, StopReason};
use krarup_model::simulate::{Runs, SimulationSettings, simulate};
use krarup_model::solve::{SolutionMethod, solve};
use krarup_model::station::{mg1, mm1, mmm};
use krarup_stats::interval::proportion;

/// Which percentiles are looked at, where they are known.
const SHARES: [f64; 3] = [0.5, 0.95, 0.99];

struct Case {
    name: String,
    network: Network,
    precision: f64,
    runs: Runs,
    times: u64,
    throughput: f64,
    response: f64,
    /// The response time is exponential, so that its percentiles are known.
    exponential: bool,
}

fn open(stations: Vec<Station>, rate: f64, services: &[Distribution]) -> Network {
    let path = services.iter().enumerate().map(|(place, s)| Step::visit(StationId(place), s.clone()));
    let classes = vec![Class::open("job", rate, path.collect())];
    Network { name: "case".into(), stations, pools: Vec::new(), classes }
}

fn one_server(load: f64, precision: f64, times: u64) -> Case {
    Case {
        name: format!("M/M/1, {load} busy"),
        network: open(vec![Station::single("s")], load, &[Distribution::exponential(1.0)]),
        precision,
        runs: Runs::Long,
        times,
        throughput: load,
        response: mm1(load, 1.0).expect("stable").response,
        exponential: true,
    }
}

fn several_servers(load: f64, precision: f64, times: u64) -> Case {
    Case {
        name: format!("M/M/4, {load} busy"),
        network: open(vec![Station::servers("s", 4)], 4.0 * load, &[Distribution::exponential(1.0)]),
        throughput: 4.0 * load,
        response: mmm(4.0 * load, 1.0, 4).expect("stable").response,
        exponential: false,
        ..one_server(load, precision, times)
    }
}

fn uneven_service(load: f64, precision: f64, times: u64) -> Case {
    let service = Distribution::Hyperexponential { mean: 1.0, scv: 4.0 };
    Case {
        name: format!("M/H₂/1 (scv 4), {load} busy"),
        response: mg1(load, &service).expect("stable").response,
        network: open(vec![Station::single("s")], load, &[service]),
        exponential: false,
        ..one_server(load, precision, times)
    }
}

fn two_in_line(precision: f64, times: u64) -> Case {
    let services = [1.0, 0.75].map(Distribution::exponential);
    Case {
        name: "two M/M/1 in line, 0.8 and 0.6 busy".into(),
        network: open(vec![Station::single("a"), Station::single("b")], 0.8, &services),
        response: [1.0, 0.75].iter().map(|service| mm1(0.8, *service).expect("stable").response).sum(),
        exponential: false,
        ..one_server(0.8, precision, times)
    }
}

fn closed(precision: f64, times: u64) -> Case {
    let services = [1.0, 0.8].map(Distribution::exponential);
    let mut network = open(vec![Station::single("a"), Station::servers("b", 2)], 1.0, &services);
    let path = network.classes.remove(0).path;
    network.classes.push(Class::closed("client", 12, 8.0, path));
    let solution = solve(&network, SolutionMethod::Exact).expect("product form");
    let exact = &solution.last().classes[0];
    Case {
        name: "12 clients, stations of 1 and 2".into(),
        throughput: exact.throughput,
        response: exact.response,
        network,
        exponential: false,
        ..one_server(0.5, precision, times)
    }
}

/// Runs of a given length, again and again. They begin empty, so that what is true of them is what
/// all of them say together.
fn replicated(load: f64, length: f64, precision: f64, times: u64) -> Case {
    let case = one_server(load, precision, times);
    Case {
        name: format!("{}, replications of {length} s", case.name),
        runs: Runs::Replications { length },
        ..case
    }
}

/// What was seen of one quantity.
#[derive(Default)]
struct Seen {
    values: Vec<f64>,
    /// Intervals known, and those that hold the exact value.
    known: u64,
    held: u64,
    half_widths: f64,
}

impl Seen {
    fn add(&mut self, reading: SimulatedEstimate, exact: f64) {
        self.values.push(reading.value / exact - 1.0);
        if let Some(interval) = reading.interval {
            self.known += 1;
            self.held += u64::from(interval.contains(exact));
            self.half_widths += interval.half_width() / exact;
        }
    }

    /// Mean relative error, and its standard error.
    fn bias(&self) -> (f64, f64) {
        let n = self.values.len() as f64;
        let mean = self.values.iter().sum::<f64>() / n;
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        (mean, (squares / (n - 1.0) / n).sqrt())
    }
}

/// What was seen of a case: X, R and the percentiles.
#[derive(Default)]
struct Results {
    seen: [Seen; 2 + SHARES.len()],
    events: u64,
    precise: u64,
}

impl Results {
    fn add(&mut self, case: &Case, class: &ClassReading) {
        self.seen[0].add(class.throughput, case.throughput);
        self.seen[1].add(class.response.expect("some were completed"), case.response);
        for (seen, percentile) in self.seen[2..].iter_mut().zip(&class.percentiles) {
            seen.add(percentile.response, -case.response * (1.0 - percentile.share).ln());
        }
    }
}

/// Simulates a case with as many seeds as it says, on all processors.
fn simulated(case: &Case) -> Results {
    let (next, results) = (AtomicU64::new(0), Mutex::new(Results::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= case.times {
                break;
            }
            let settings = SimulationSettings {
                seed,
                precision: case.precision,
                runs: case.runs,
                max_events: u64::MAX,
                percentiles: if case.exponential { SHARES.to_vec() } else { Vec::new() },
                ..SimulationSettings::default()
            };
            let simulated = simulate(&case.network, &settings, &mut |_| ControlFlow::Continue(()));
            let simulated = simulated.expect("the network can be simulated");
            let mut results = results.lock().expect("no thread panics with it");
            results.add(case, &simulated.classes[0]);
            results.events += simulated.events;
            results.precise += u64::from(simulated.stop == StopReason::Precise);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    results.into_inner().expect("no thread panicked")
}

/// Prints what was seen, and gives what is not as it should be.
#[allow(clippy::print_stdout)] // the table is what the study is for
fn judged(case: &Case, results: &Results) -> Vec<String> {
    let mut wrong = Vec::new();
    let names = ["X", "R", "p50", "p95", "p99"];
    for (name, seen) in names.iter().zip(&results.seen).filter(|(_, seen)| !seen.values.is_empty()) {
        let held = proportion(seen.held, seen.known.max(1), 0.95).expect("a share");
        let (bias, error) = seen.bias();
        let line = format!(
            "| {} | {} | {} | {name} | {:.1} | {:.1}–{:.1} | {:+.2} ± {:.2} | {:.2} | {:.1} | {:.0} |",
            case.name,
            case.precision,
            case.times,
            100.0 * seen.held as f64 / seen.known.max(1) as f64,
            100.0 * held.interval.low,
            100.0 * held.interval.high,
            100.0 * bias,
            196.0 * error,
            100.0 * seen.half_widths / seen.known.max(1) as f64,
            100.0 * seen.known as f64 / case.times as f64,
            results.events as f64 / case.times as f64,
        );
        println!("{line}");
        // 93 to 97 % is what is asked for, and the share in some hundred runs is known to a few
        // percent only: it says otherwise when its whole interval lies outside. So the rule is one
        // at every number of runs, and more runs make it sharper; one that asks the share itself to
        // lie inside fails by chance where the truth is near an end.
        let honest = held.interval.high >= 0.93 && held.interval.low <= 0.97;
        let honest = honest && 100 * seen.known >= 98 * case.times;
        if !honest || bias.abs() > f64::max(0.002, 3.0 * error) {
            wrong.push(line);
        }
    }
    if results.precise < case.times {
        wrong.push(format!("{}: {} of {} precise", case.name, results.precise, case.times));
    }
    wrong
}

const HEAD: &str = "| network | precision | runs | of | held, % | 95 % | off by, % | ± , % | known, % | events |\n|---|---:|---:|---|---:|---:|---:|---:|---:|---:|";

#[test]
fn intervals_of_a_small_case_hold_the_truth_as_often_as_they_say() {
    let case = one_server(0.5, 0.05, 300);
    let wrong = judged(&case, &simulated(&case));
    assert!(wrong.is_empty(), "not as it should be:\n{HEAD}\n{}", wrong.join("\n"));
}

#[test]
#[ignore = "the study of all cases takes many minutes"]
#[allow(clippy::print_stdout)]
fn study_of_all_cases() {
    let share: f64 = std::env::var("KRARUP_CASES").ok().and_then(|said| said.parse().ok()).unwrap_or(1.0);
    let only = std::env::var("KRARUP_ONLY").unwrap_or_default();
    let cases = [
        one_server(0.5, 0.05, 2_000),
        one_server(0.7, 0.05, 2_000),
        one_server(0.9, 0.05, 1_000),
        several_servers(0.7, 0.05, 2_000),
        uneven_service(0.7, 0.05, 1_000),
        two_in_line(0.05, 2_000),
        closed(0.05, 2_000),
        replicated(0.5, 4_000.0, 0.05, 1_000),
        one_server(0.5, 0.02, 1_000),
        one_server(0.7, 0.02, 1_000),
        several_servers(0.7, 0.02, 1_000),
        uneven_service(0.7, 0.02, 300),
        two_in_line(0.02, 1_000),
        closed(0.02, 1_000),
        one_server(0.5, 0.01, 1_200),
        one_server(0.9, 0.02, 300),
    ];
    println!("{HEAD}");
    let mut wrong = Vec::new();
    for mut case in cases {
        case.times = ((case.times as f64 * share) as u64).max(20);
        if format!("{}, {}", case.name, case.precision).contains(&only) {
            wrong.extend(judged(&case, &simulated(&case)));
        }
    }
    assert!(wrong.is_empty(), "not as it should be:\n{}", wrong.join("\n"));
}
