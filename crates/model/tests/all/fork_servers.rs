//! How far the solution of a fork is off where its stations have several servers, delay or rates of
//! their own, are not alike, or are visited by other requests, too: against Markov chains of small
//! closed networks, and against simulation of larger and open ones.
//!
//! A few networks run always. All of them, and the table of errors:
//!
//! ```text
//! cargo test --release -p krarup-model --test all fork_servers:: -- --ignored --nocapture
//! ```

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use krarup_model::network::{
    Branch, Class, Discipline, Fork, ForkWait, Network, Station, StationId, StationKind, Step, Work,
};
use krarup_model::simulate::{SimulationSettings, simulate};
use krarup_model::solve::{SolutionMethod, solve};
use krarup_model::{Distribution, limits};
use rand::rngs::Xoshiro256PlusPlus as Random;
use rand::{RngExt, SeedableRng};

/// A fork to stations that have a service time of one second, and visits to one of them by the
/// other requests.
#[derive(Clone, Debug)]
struct Case {
    stations: Vec<Station>,
    choose: u32,
    wait: ForkWait,
    /// Share of the requests that visit one station instead of sending copies.
    visits: f64,
}

impl Case {
    fn path(&self) -> Vec<Step> {
        let stations: Vec<StationId> = (0..self.stations.len()).map(StationId).collect();
        let to = |choose, wait| {
            let work = Work::Time(Distribution::exponential(1.0));
            vec![Step::Fork(Fork { stations: stations.clone(), choose, wait, work })]
        };
        let fork = to(self.choose, self.wait);
        if self.visits == 0.0 {
            return fork;
        }
        let branch = |share, path| Branch { share, path };
        vec![Step::OneOf {
            branches: vec![branch(1.0 - self.visits, fork), branch(self.visits, to(1, ForkWait::All))],
        }]
    }

    fn network(&self, class: impl FnOnce(Vec<Step>) -> Class) -> Network {
        Network {
            name: "case".into(),
            stations: self.stations.clone(),
            pools: Vec::new(),
            classes: vec![class(self.path())],
        }
    }

    /// What the solver says: X and R.
    fn solved(&self, class: impl FnOnce(Vec<Step>) -> Class) -> (f64, f64) {
        let network = self.network(class);
        let solution = solve(&network, SolutionMethod::Auto).expect("such networks are solved");
        let point = &solution.last().classes[0];
        let limits = limits::of(&network).expect("one class");
        if let Some(population) = point.population {
            let range = limits.asymptotic(population as f64);
            assert!(range.holds(point.throughput, 1e-9), "{} outside {range:?}: {self:?}", point.throughput);
        }
        (point.throughput, point.response)
    }

    fn kinds(&self) -> &'static str {
        let is = |wanted: fn(&StationKind) -> bool| self.stations.iter().all(|s| wanted(&s.kind));
        let alike = self.stations.iter().all(|s| s.kind == self.stations[0].kind);
        match &self.stations[0].kind {
            _ if self.stations.iter().any(|s| s.discipline == Discipline::ProcessorSharing) => "shared",
            _ if !alike => "not alike",
            StationKind::Servers { count: 1 } => "single servers",
            _ if is(|kind| matches!(kind, StationKind::Servers { .. })) => "several servers",
            StationKind::Delay => "delays",
            _ => "rates",
        }
    }
}

fn kind(random: &mut Random, most: u32) -> StationKind {
    match random.random_range(0..10) {
        0..2 => StationKind::Servers { count: 1 },
        2..7 => StationKind::Servers { count: random.random_range(2..=most) },
        7 => StationKind::Delay,
        _ => {
            let mut rate = 1.0;
            let more = |_| {
                rate += random.random_range(0.0..1.0);
                rate
            };
            StationKind::LoadDependent { rates: [1.0].into_iter().chain((1..most).map(more)).collect() }
        }
    }
}

fn case(random: &mut Random, stations: usize, most: u32) -> Case {
    let one = kind(random, most);
    let alike = random.random_bool(0.7);
    let station = |place: usize, random: &mut Random| {
        let kind = if alike { one.clone() } else { kind(random, most) };
        Station { kind, ..Station::single(format!("s{place}")) }
    };
    let mut stations: Vec<Station> = (0..stations).map(|place| station(place, random)).collect();
    if random.random_bool(0.1) {
        stations.iter_mut().for_each(|s| s.discipline = Discipline::ProcessorSharing);
    }
    let choose = if random.random_bool(0.7) {
        stations.len() as u32
    } else {
        random.random_range(2..=stations.len() as u32)
    };
    let visits = if random.random_bool(0.5) { 0.0 } else { random.random_range(0.1..0.9) };
    Case { stations, choose, wait: ForkWait::All, visits }
}

/// Mean number of requests inside, exactly: the Markov chain of lists of requests in the order of
/// their arrival, each as the set of the stations that owe it an answer.
fn chain(case: &Case, population: usize, think: f64) -> f64 {
    let count = case.stations.len();
    let sets: Vec<u8> = (1..1_u8 << count).filter(|set| set.count_ones() == case.choose).collect();
    let mut come: Vec<(u8, f64)> =
        sets.iter().map(|set| (*set, (1.0 - case.visits) / sets.len() as f64)).collect();
    come.extend((0..count).map(|station| (1 << station, case.visits / count as f64)));
    come.retain(|(_, share)| *share > 0.0);
    let mut index: HashMap<Vec<u8>, usize> = HashMap::from([(Vec::new(), 0)]);
    let mut states: Vec<Vec<u8>> = vec![Vec::new()];
    let mut into: Vec<Vec<(usize, f64)>> = vec![Vec::new()];
    let mut leave = Vec::new();
    let mut next = 0;
    while next < states.len() {
        let state = states[next].clone();
        let mut out: Vec<(Vec<u8>, f64)> = Vec::new();
        let outside = (population - state.len()) as f64;
        if outside > 0.0 {
            out.extend(
                come.iter().map(|(set, share)| ([&state[..], &[*set]].concat(), share * outside / think)),
            );
        }
        for (place, station) in case.stations.iter().enumerate() {
            let there: Vec<usize> =
                (0..state.len()).filter(|request| state[*request] >> place & 1 == 1).collect();
            let speed = station.speed(there.len() as u64);
            let serving = match (&station.kind, station.discipline) {
                (_, Discipline::ProcessorSharing) | (StationKind::Delay, _) => there.len(),
                (StationKind::Servers { count }, _) => there.len().min(*count as usize),
                _ => there.len().min(1),
            };
            for request in &there[..serving] {
                let mut after = state.clone();
                after[*request] &= !(1 << place);
                after.retain(|set| *set != 0);
                out.push((after, speed / serving as f64));
            }
        }
        leave.push(out.iter().map(|(_, rate)| rate).sum::<f64>());
        for (after, rate) in out {
            let place = *index.entry(after.clone()).or_insert_with(|| {
                states.push(after);
                into.push(Vec::new());
                states.len() - 1
            });
            into[place].push((next, rate));
        }
        next += 1;
    }
    let mut share = vec![1.0 / states.len() as f64; states.len()];
    for _ in 0..5_000 {
        let mut apart = 0.0_f64;
        for state in 0..states.len() {
            let flow: f64 = into[state].iter().map(|(from, rate)| share[*from] * rate).sum();
            let new = flow / leave[state];
            apart = apart.max((new - share[state]).abs() / new.max(1e-9));
            share[state] = new;
        }
        let total: f64 = share.iter().sum();
        share.iter_mut().for_each(|s| *s /= total);
        if apart < 1e-8 {
            break;
        }
    }
    states.iter().zip(&share).map(|(state, share)| state.len() as f64 * share).sum()
}

/// Errors of X and R by what the stations are.
#[derive(Default)]
struct Errors(BTreeMap<String, Vec<(f64, f64)>>);

impl Errors {
    fn add(&mut self, what: &str, case: &Case, x: f64, r: f64) {
        let visits = if case.visits > 0.0 { ", visited" } else { "" };
        self.0.entry(format!("{what}: {}{visits}", case.kinds())).or_default().push((x, r));
    }

    #[allow(clippy::print_stdout)] // the table is what the study is for
    fn print(&self) {
        println!(
            "{:<44} {:>5} {:>23} {:>23}",
            "in percent", "cases", "X: median, 95 %, worst", "R: median, 95 %, worst"
        );
        for (what, errors) in &self.0 {
            let of = |which: fn(&(f64, f64)) -> f64| {
                let mut sorted: Vec<f64> = errors.iter().map(which).collect();
                sorted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
                let at = |share: f64| 100.0 * sorted[((sorted.len() - 1) as f64 * share).round() as usize];
                format!("{:7.1} {:7.1} {:7.1}", at(0.5), at(0.95), at(1.0))
            };
            println!("{what:<44} {:>5} {} {}", errors.len(), of(|e| e.0), of(|e| e.1));
        }
    }

    /// The largest error of X and of R.
    fn worst<'a>(of: impl Iterator<Item = (&'a String, &'a Vec<(f64, f64)>)>) -> (f64, f64) {
        of.flat_map(|(_, errors)| errors)
            .fold((0.0, 0.0), |(x, r), error| (error.0.abs().max(x), error.1.abs().max(r)))
    }
}

/// Small closed networks against their Markov chains.
fn against_chains(cases: u64, errors: &mut Errors) {
    for seed in 0..cases {
        let mut random = Random::seed_from_u64(seed);
        let stations = random.random_range(2..=3);
        let case = case(&mut random, stations, 3);
        let population = random.random_range(2..=if stations == 2 { 7 } else { 4 });
        let think = 10_f64.powf(random.random_range(-1.0..1.0));
        let inside = chain(&case, population, think);
        let x = (population as f64 - inside) / think;
        let (solved_x, solved_r) = case.solved(|path| Class::closed("c", population as u64, think, path));
        errors.add("closed, chain", &case, solved_x / x - 1.0, solved_r / (inside / x) - 1.0);
    }
}

/// Larger closed networks, or open ones, against simulation.
fn against_simulation(cases: u64, open: bool, events: u64, errors: &mut Errors) {
    for seed in 0..cases {
        let mut random = Random::seed_from_u64(1_000_000 + seed);
        let stations = random.random_range(2..=6);
        let mut case = case(&mut random, stations, 12);
        let network = if open {
            let probe = limits::of(&case.network(|path| Class::open("c", 1.0, path))).expect("one class");
            let most = if probe.capacity.is_finite() { probe.capacity } else { 20.0 };
            let rate = most * random.random_range(0.1..0.9);
            if random.random_bool(0.25) && case.choose > 1 {
                case.wait = ForkWait::Quorum(random.random_range(1..case.choose));
            }
            case.network(|path| Class::open("c", rate, path))
        } else {
            let population = random.random_range(4..=120);
            let think = 10_f64.powf(random.random_range(-1.0..1.5));
            case.network(|path| Class::closed("c", population, think, path))
        };
        let settings =
            SimulationSettings { seed, max_events: events, precision: 0.0, ..SimulationSettings::default() };
        let simulated = simulate(&network, &settings, &mut |_| ControlFlow::Continue(())).expect("simulated");
        let class = &simulated.classes[0];
        let (x, r) = case.solved(|_| network.classes[0].clone());
        let response = class.response.expect("some were completed").value;
        let what = match (open, case.wait) {
            (true, ForkWait::All) => "open, simulated",
            (true, _) => "open, some answers",
            _ => "closed, simulated",
        };
        errors.add(what, &case, x / class.throughput.value - 1.0, r / response - 1.0);
    }
}

#[test]
fn small_networks_are_near_their_markov_chains() {
    let mut errors = Errors::default();
    against_chains(25, &mut errors);
    errors.print();
    let (x, r) = Errors::worst(errors.0.iter());
    assert!(x < 0.05 && r < 0.08, "{x} {r}");
}

/// Replicated writes to three memcached of four threads: a simulation of them has 3,879 ± 36
/// requests a second.
#[test]
fn replicated_writes_use_all_servers() {
    let network = |servers: u32, class: &str| {
        krarup_model::form::from_toml(&format!(
            r#"station = [{{ name = "a", servers = {servers} }}, {{ name = "b", servers = {servers} }}, {{ name = "c", servers = {servers} }}]
               class = [{{ name = "set", {class}, path = [{{ fork = ["a", "b", "c"], service = 0.001 }}] }}]"#
        ))
        .unwrap()
    };
    let x = |servers| {
        solve(&network(servers, "population = 24"), SolutionMethod::Auto).unwrap().last().classes[0]
            .throughput
    };
    println!("1 server {}, 4 servers {}", x(1), x(4));
    assert!((x(4) / 3_879.0 - 1.0).abs() < 0.02, "{}", x(4));
    assert!((limits::of(&network(4, "population = 24")).unwrap().capacity - 4_000.0).abs() < 1e-9);
    let open = solve(&network(4, "rate = 2000"), SolutionMethod::Auto).unwrap();
    assert!(open.last().classes[0].response < 0.0025);
    assert!(solve(&network(1, "rate = 2000"), SolutionMethod::Auto).is_err());
}

#[test]
#[ignore = "the study of all networks takes minutes"]
fn study_of_all_networks() {
    let mut errors = Errors::default();
    against_chains(300, &mut errors);
    against_simulation(150, false, 400_000, &mut errors);
    against_simulation(150, true, 800_000, &mut errors);
    errors.print();
    // What the notes of a solution say.
    for (what, within) in
        [("closed", [0.05, 0.08]), ("open, simulated", [0.02, 0.10]), ("open, some", [0.02, 0.27])]
    {
        let hard = |name: &str| ["rates", "shared"].iter().any(|kind| name.contains(kind));
        let of = |wanted: bool| {
            errors.0.iter().filter(move |(name, _)| name.starts_with(what) && hard(name) == wanted)
        };
        let (plain, others) = (Errors::worst(of(false)), Errors::worst(of(true)));
        println!("{what}: worst of X and R {plain:.3?}, with rates or shared stations {others:.3?}");
        assert!(plain.0 < within[0] && plain.1 < within[1], "{what}: {plain:?}");
        assert!(others.0 < 0.12 && others.1 < 0.15, "{what}: {others:?}");
    }
}
