//! The right solver for a description, what it assumes, and what it refuses.

use krarup_record::{quantities, stamps};
use krarup_units::Unit;
use serde::{Deserialize, Serialize};

use self::alone::{is_exact, lone_station, ranked_station};
use crate::Error;
use crate::layered::{self, PathPart};
use crate::multi::{self, Customers, MulticlassStation, PopulationPoint};
use crate::network::{
    Class, Demand, Discipline, Feature, FeatureKind, Network, Station, StationId, StationKind, Step,
    WhenFull, equal_means,
};
use crate::open::{self, OpenClass};
use crate::single;
use crate::table::ResultTable;

mod alone;
mod point;
mod waits;

use point::point;
pub use point::{ClassPoint, PoolPoint, SolutionPoint, StationPoint};
pub use waits::{WaitPercentile, Waits};

/// How networks of several closed classes are solved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SolutionMethod {
    /// Exactly where memory allows, else by Linearizer; where that comes out above what is
    /// possible, by Schweitzer's approximation.
    #[default]
    Auto,
    /// Exactly, or not at all.
    Exact,
    /// By Linearizer.
    Linearizer,
    /// By Schweitzer's approximation.
    Schweitzer,
}

/// An answer with its assumptions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Solution {
    /// Name of the network.
    pub network: String,
    /// The solver that answered.
    pub method: String,
    /// Whether every feature of the description was treated exactly.
    pub exact: bool,
    /// What was approximated, and how.
    pub notes: Vec<String>,
    /// A closed network of one class: one entry for each population 1..=N. Others: one entry.
    pub points: Vec<SolutionPoint>,
}

/// How a solver treats a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Without loss.
    Exact,
    /// Approximately: how.
    Approximate(&'static str),
    /// Not at all: what to do instead.
    Refused(&'static str),
}

/// How [`solve`] treats a feature of a network, and which solver that is.
///
/// One class may have pools, forks and load-dependent rates; several classes need product form; a
/// single open station may lose requests and have any distribution, or serve several classes in
/// order or by priority.
pub fn treatment(network: &Network, feature: &Feature) -> (&'static str, Treatment) {
    use Treatment::{Approximate, Exact, Refused};
    let solver = solver_name(network);
    let one_class = network.classes.len() == 1;
    let lone = lone_station(network).map(|place| &network.stations[place]);
    let alone = lone.is_some();
    let limited = lone.is_some_and(|station| station.capacity.is_some());
    let ranked = ranked_station(network).is_some();
    let treatment = match feature.kind {
        FeatureKind::OpenClass | FeatureKind::ClosedClass | FeatureKind::SeveralClasses => Exact,
        FeatureKind::MultiServer => Exact,
        FeatureKind::LoadDependent if one_class => Exact,
        FeatureKind::LoadDependent => Refused("give the network one class, or simulate"),
        FeatureKind::FiniteCapacity if lone.is_some_and(|there| there.when_full == WhenFull::Lose) => Exact,
        FeatureKind::FiniteCapacity | FeatureKind::FinitePoolQueue => {
            Refused("take the limit away where it is rarely reached, or simulate")
        }
        FeatureKind::NotExponential | FeatureKind::NotPoisson | FeatureKind::UnequalService if limited => {
            Approximate("with limited room taken as exponential")
        }
        FeatureKind::NotExponential | FeatureKind::UnequalService if lone.is_some_and(overtakes) => {
            Approximate(
                "where the newest takes one of several servers at once, taken as exponential: R up to 27 % off for c² up to 4",
            )
        }
        FeatureKind::NotExponential | FeatureKind::NotPoisson if is_exact(network) => Exact,
        FeatureKind::NotExponential if ranked => Exact,
        FeatureKind::NotExponential if alone => Approximate("the wait is that of G/G/m, from two moments"),
        FeatureKind::UnequalService if ranked => Exact,
        FeatureKind::UnequalService if alone => {
            Approximate("the wait is that of M/G/1 or G/G/m for all services together, from two moments")
        }
        FeatureKind::NotExponential if has_phases(network) => Approximate(
            "rates that depend on the queue, found in turns (Marie): X within 5 % and R within 12 % in 220 networks of c² up to 6",
        ),
        // Taken as exponential, X was up to 150 % too high and 60 % too low.
        FeatureKind::NotExponential => Refused(
            "simulate; or say `discipline = \"ps\"` where those there are served at once: then only means count",
        ),
        FeatureKind::UnequalService if has_phases(network) => Approximate(
            "a choice that each visit makes anew (Marie): X and R within 9 % in 92 networks of 2 to 4 clients without think time, c² up to 6",
        ),
        // As if all there needed the time of the one that waits, R was up to 40 times too short.
        FeatureKind::UnequalService => Refused(
            "simulate; or say `discipline = \"ps\"` where those there are served at once; open classes at one server alone are solved in any order",
        ),
        FeatureKind::Priority if ranked || one_class => Exact, // one class has no other to overtake
        FeatureKind::Priority => {
            Refused("one server alone that serves open classes by priority is solved; simulate the rest")
        }
        FeatureKind::HeldPool if one_class => {
            Approximate("decomposition: the inside is solved for each number of held slots")
        }
        FeatureKind::HeldPool => Refused("give the network one class, or simulate"),
        FeatureKind::Fork if one_class && closed_classes(network) == 1 => Approximate(
            "a request waits for its own copies and those ahead; X within 5 % and R within 8 % in 348 networks, within 12 and 15 % in 102 with rates or shared stations",
        ),
        FeatureKind::Fork if one_class => Approximate(
            "waits that are partly alike; R within 10 % in 90 networks, within 13 % in 21 with rates or shared stations",
        ),
        FeatureKind::PartialFork if one_class && closed_classes(network) == 0 => {
            Approximate("servers as if independent: R was up to 27 % too short in 39 networks")
        }
        FeatureKind::PartialFork => Refused("late copies have no closed solution: simulate"),
        FeatureKind::Fork => Refused("give the network one class, or simulate"),
        FeatureKind::NotPoisson if alone => Approximate("the wait is that of G/G/m, from two moments"),
        FeatureKind::NotPoisson => Refused(
            "simulate: bursts wait longer than Poisson arrivals, regular ones shorter, and no measured formula says how much",
        ),
        FeatureKind::TimeVarying => Refused("a long run has no time: solve for each rate, or simulate"),
    };
    (solver, treatment)
}

/// Squared coefficient of variation of services up to which the error of
/// [`variable`](crate::variable) was measured.
const MOST_VARIABLE: f64 = 6.0;

/// Whether service that is not exponential has a solution: a closed network of one class, without
/// forks and held slots, in which no request has unequal services at one station.
fn has_phases(network: &Network) -> bool {
    let [class] = &network.classes[..] else { return false };
    let measured = |part: &PathPart| match part {
        PathPart::Station { station, scv, .. } => {
            *scv <= MOST_VARIABLE && (*scv == 1.0 || !overtakes(&network.stations[*station]))
        }
        PathPart::Pool { .. } | PathPart::Cluster { .. } => false,
    };
    class.population().is_some()
        && network.stations.iter().enumerate().all(|(place, station)| {
            !matches!(station.kind, StationKind::LoadDependent { .. })
                && (station.insensitive() || !in_turn(network, &class.path, StationId(place)))
        })
        && layered::parts(network, class).is_ok_and(|parts| parts.iter().all(measured))
}

/// Whether a request may have unequal services at a station, one after the other. What it meets
/// there then depends on which one is next: taken as a choice, X was up to 57 % too high.
fn in_turn(network: &Network, path: &[Step], station: StationId) -> bool {
    let means = |path: &[Step]| {
        let mut means = Vec::new();
        network.walk(path, 1.0, &mut |_, visited, work| {
            if visited == station {
                means.push(network.stations[station.0].service(work));
            }
        });
        means
    };
    let all = means(path);
    let (least, most) =
        all.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), mean| (least.min(*mean), most.max(*mean)));
    if equal_means(least, most) {
        return false;
    }
    let there = path.iter().filter(|step| !means(std::slice::from_ref(*step)).is_empty());
    match &there.collect::<Vec<_>>()[..] {
        [Step::OneOf { branches }] => branches.iter().any(|branch| in_turn(network, &branch.path, station)),
        _ => true,
    }
}

/// Whether the newest takes a server at once from another, and it matters how long service takes.
fn overtakes(station: &Station) -> bool {
    station.discipline == Discipline::LifoPreemptive && !station.insensitive()
}

fn closed_classes(network: &Network) -> usize {
    network.classes.iter().filter(|c| c.population().is_some()).count()
}

fn solver_name(network: &Network) -> &'static str {
    match (network.classes.len(), closed_classes(network)) {
        (1, 1) => "the closed single-class solver",
        _ if lone_station(network).is_some() || ranked_station(network).is_some() => {
            "the single-station formulas"
        }
        (_, 0) => "the open-network solver",
        (all, closed) if all == closed => "the multi-class solver",
        _ => "the mixed-network solver",
    }
}

/// Solves a network: a closed one of one class for every population up to its own, others once.
///
/// # Errors
/// [`Error::Refused`], naming the first feature that the solver does not treat;
/// [`Error::Unstable`], naming the station; what [`Network::check`] finds; and [`Error::Violated`]
/// when the answer breaks a law.
pub fn solve(network: &Network, method: SolutionMethod) -> Result<Solution, Error> {
    network.check()?;
    let mut notes = Vec::new();
    for feature in network.features() {
        match treatment(network, &feature) {
            (_, Treatment::Exact) => {}
            (_, Treatment::Approximate(how)) => notes.push(format!("{feature}: {how}")),
            (solver, Treatment::Refused(hint)) => {
                return Err(Error::Refused {
                    solver: solver.into(),
                    feature: feature.to_string(),
                    hint: hint.into(),
                });
            }
        }
    }
    let (points, method, more) = match &network.classes[..] {
        [class] => match (class.population(), lone_station(network)) {
            (Some(population), _) => (closed(network, class, population)?, "joined stations", None),
            (None, Some(place)) => (vec![alone::lone(network, class, place)?], "station formulas", None),
            (None, None) => (vec![open_single(network, class)?], "each station as if alone", None),
        },
        _ => match ranked_station(network) {
            Some(place) => (vec![alone::ranked(network, place)?], "station formulas", None),
            None => several(network, method)?,
        },
    };
    notes.extend(more.map(str::to_owned));
    Ok(Solution {
        network: network.name.clone(),
        method: method.into(),
        exact: notes.is_empty(),
        notes,
        points,
    })
}

/// The most clients times stations: each station has its figures at every population.
const MOST_FIGURES: u64 = 20_000_000;

fn closed(network: &Network, class: &Class, population: u64) -> Result<Vec<SolutionPoint>, Error> {
    let parts = layered::parts(network, class)?;
    let demands = &network.demands()[0];
    single::check_population(population)?;
    let stations = network.stations.len();
    if population.saturating_mul(stations as u64) > MOST_FIGURES {
        return Err(Error::TooLarge {
            what: format!("exact solution for {population} clients at {stations} stations"),
            hint: "use bounds, or an open class of the same rate".into(),
        });
    }
    let population = usize::try_from(population).unwrap_or(usize::MAX);
    let level = layered::solve_closed(network, &parts, class.think(), population)?;
    Ok((1..=population)
        .map(|n| {
            let throughput = level.sweep.throughput(n);
            let means = level.means.iter().map(|m| (&m.of, m.values[n]));
            let class_point = |residence| ClassPoint {
                name: class.name.clone(),
                population: Some(n as u64),
                throughput,
                response: level.sweep.response(n),
                residence,
            };
            point(network, demands, throughput, means, class_point)
        })
        .collect())
}

fn open_single(network: &Network, class: &Class) -> Result<SolutionPoint, Error> {
    let parts = layered::parts(network, class)?;
    let rate = class.rate().expect("the class is open");
    let level = layered::solve_open(network, &parts, rate)?;
    let response = level.present.iter().sum::<f64>() / rate;
    let class_point = |residence| ClassPoint {
        name: class.name.clone(),
        population: None,
        throughput: rate,
        response,
        residence,
    };
    Ok(point(network, &network.demands()[0], rate, level.means.iter().map(|(of, v)| (of, *v)), class_point))
}

/// What is said beside answers by these methods.
const SCHWEITZER: &str = "several closed classes: Schweitzer's approximation, X up to 21 % off";
const LINEARIZER: &str = "several closed classes: Linearizer, mostly within 1 to 5 % of X; several servers by Seidmann's split, within 10 %";

type Several = (Vec<SolutionPoint>, &'static str, Option<&'static str>);

fn multiclass_station(station: &Station) -> MulticlassStation {
    let servers = match station.kind {
        StationKind::Delay => None,
        StationKind::Servers { count } => Some(count),
        StationKind::Link { .. } | StationKind::LoadDependent { .. } => Some(1),
    };
    MulticlassStation { name: station.name.clone(), servers }
}

/// The open classes of a network, and the closed ones, with these demands.
fn open_and_closed(network: &Network, all: &[Vec<Demand>]) -> (Vec<OpenClass>, Vec<Customers>) {
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    for (class, demands) in network.classes.iter().zip(all) {
        let (name, demands) = (class.name.clone(), demands.iter().map(|demand| demand.seconds).collect());
        match class.population() {
            Some(population) => closed.push(Customers { name, population, think: class.think(), demands }),
            None => {
                let rate = class.rate().expect("a class without population has a rate");
                open.push(OpenClass { name, rate, demands });
            }
        }
    }
    (open, closed)
}

/// The name of the method whose answers never are above what is possible.
pub(crate) const BY_SCHWEITZER: &str = "Schweitzer's approximation";

/// Closed classes by the method asked for, and by which one it was.
fn several_closed(
    places: &[MulticlassStation],
    classes: &[Customers],
    method: SolutionMethod,
) -> Result<(PopulationPoint, SolutionMethod), Error> {
    use SolutionMethod::{Auto, Exact, Linearizer, Schweitzer};
    let by = |method| several_closed(places, classes, method);
    match method {
        Auto => match by(Exact) {
            Err(Error::TooLarge { .. }) => match by(Linearizer) {
                Err(Error::Refused { .. }) => by(Schweitzer),
                other => other,
            },
            other => other,
        },
        Exact => Ok((multi::exact(places, classes)?, method)),
        Linearizer => match multi::linearizer(places, classes) {
            Err(broken @ Error::Violated { .. }) => Err(Error::Refused {
                solver: "Linearizer".into(),
                feature: format!("a load so near saturation: {broken}"),
                hint:
                    "it comes out a little above what is possible here: use --method schweitzer, or simulate"
                        .into(),
            }),
            other => Ok((other?, method)),
        },
        Schweitzer => Ok((multi::schweitzer(places, classes)?, method)),
    }
}

/// Several classes: closed, open, or both.
fn several(network: &Network, method: SolutionMethod) -> Result<Several, Error> {
    let places: Vec<MulticlassStation> = network.stations.iter().map(multiclass_station).collect();
    let all = network.demands();
    let (open_classes, closed_classes) = open_and_closed(network, &all);
    // Exact, unless the closed classes are solved by something else.
    let mut used = SolutionMethod::Exact;
    let (open_answer, closed_answer) =
        open::mixed(&places, &open_classes, &closed_classes, |places, classes| {
            let (answer, by) = several_closed(places, classes, method)?;
            used = by;
            Ok(answer)
        })?;
    let (mut opens, mut closeds) = (0, 0);
    let mut classes = Vec::new();
    let mut queue = vec![0.0; places.len()];
    let mut visits = vec![0.0; places.len()];
    for (c, class) in network.classes.iter().enumerate() {
        let (throughput, residence, numbers) = match class.population() {
            Some(_) => {
                closeds += 1;
                let i = closeds - 1;
                (closed_answer.throughput[i], &closed_answer.residence[i], &closed_answer.queue[i])
            }
            None => {
                opens += 1;
                let i = opens - 1;
                (open_classes[i].rate, &open_answer.residence[i], &open_answer.queue[i])
            }
        };
        for k in 0..places.len() {
            queue[k] += numbers[k];
            visits[k] += throughput * all[c][k].visits;
        }
        classes.push(ClassPoint {
            name: class.name.clone(),
            population: class.population(),
            throughput,
            response: residence.iter().sum(),
            residence: residence.iter().copied().map(Some).collect(),
        });
    }
    let stations = places
        .iter()
        .enumerate()
        .map(|(k, place)| StationPoint {
            name: place.name.clone(),
            throughput: visits[k],
            utilization: open_answer.utilization[k],
            queue: Some(queue[k]),
            residence: (visits[k] > 0.0).then(|| queue[k] / visits[k]),
        })
        .collect();
    let (name, note) = match used {
        _ if closed_classes.is_empty() => ("each station as if alone", None),
        SolutionMethod::Auto | SolutionMethod::Exact => ("mean value analysis", None),
        SolutionMethod::Linearizer => ("Linearizer", Some(LINEARIZER)),
        SolutionMethod::Schweitzer => (BY_SCHWEITZER, Some(SCHWEITZER)),
    };
    Ok((vec![SolutionPoint { classes, stations, pools: Vec::new(), waits: Vec::new() }], name, note))
}

impl Solution {
    /// The last point: the whole population, or the only one.
    pub fn last(&self) -> &SolutionPoint {
        self.points.last().expect("a solution has at least one point")
    }

    /// Classes: X and R at each point (all populations of a closed class).
    pub fn class_table(&self) -> ResultTable {
        let columns = [
            ("class", Unit::Text),
            quantities::POPULATION.column(),
            quantities::THROUGHPUT.column(),
            quantities::RESPONSE_TIME.column(),
        ];
        let mut table = ResultTable::new(self.title("classes"), &columns);
        for class in self.points.iter().flat_map(|p| &p.classes) {
            table.push(vec![
                class.name.as_str().into(),
                class.population.map(|n| n as f64).into(),
                class.throughput.into(),
                class.response.into(),
            ]);
        }
        table
    }

    /// Stations at the last point: visits, U, Q, R.
    pub fn station_table(&self) -> ResultTable {
        let columns = [
            ("station", Unit::Text),
            ("visits", Unit::PerSecond),
            // Of a delay it is the mean number there, which is no share.
            (quantities::UTILIZATION.name, Unit::Count),
            quantities::AT_STATION.column(),
            ("residence time per visit", Unit::Seconds),
        ];
        let mut table = ResultTable::new(self.title("stations"), &columns);
        for station in &self.last().stations {
            table.push(vec![
                station.name.as_str().into(),
                station.throughput.into(),
                station.utilization.into(),
                station.queue.into(),
                station.residence.into(),
            ]);
        }
        table
    }

    /// Pools at the last point; `None` without pools.
    pub fn pool_table(&self) -> Option<ResultTable> {
        let columns = [
            ("pool", Unit::Text),
            ("slots", Unit::Count),
            ("held", Unit::Count),
            ("waiting", Unit::Count),
            quantities::WAITING_TIME.column(),
            stamps::HOLD_TIME.column(),
        ];
        let mut table = ResultTable::new(self.title("pools"), &columns);
        for pool in &self.last().pools {
            table.push(vec![
                pool.name.as_str().into(),
                f64::from(pool.size).into(),
                pool.held.into(),
                pool.waiting.into(),
                pool.wait.into(),
                pool.hold.into(),
            ]);
        }
        (!table.rows.is_empty()).then_some(table)
    }

    /// How waiting and response times are spread at a station alone; `None` in a network.
    pub fn waits_table(&self) -> Option<ResultTable> {
        alone::table(self.title("waiting and response times"), &self.last().waits)
    }

    fn title(&self, what: &str) -> String {
        let name = if self.network.is_empty() { "the network" } else { &self.network };
        let how = if self.exact { "exact" } else { "approximate, see the notes" };
        format!("{name}: {what} ({how}; {})", self.method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;
    use crate::form::from_toml;

    fn solved(source: &str) -> Solution {
        solve(&from_toml(source).unwrap(), SolutionMethod::Auto).unwrap()
    }

    #[test]
    fn the_commented_example_is_solved_and_says_what_it_assumed() {
        let solution = solved(crate::form::EXAMPLE);
        assert_eq!(solution.points.len(), 192);
        assert!(!solution.exact && solution.notes[0].contains("workers"), "{:?}", solution.notes);
        let last = solution.last();
        // The link is the bottleneck: 101 Mbit/s over (4132 + 156) bytes.
        let cap = 101e6 / 8.0 / 4288.0;
        assert!((last.classes[0].throughput / cap - 1.0).abs() < 1e-6);
        assert!((last.pools[0].held - 64.0).abs() < 1e-6);
        // Little over the whole loop: nothing is lost between parts.
        let all: f64 = last.stations.iter().filter_map(|s| s.queue).sum::<f64>() + last.pools[0].waiting;
        assert!((all - 192.0).abs() < 1e-6, "{all}");
    }

    /// Clients are few enough, and stations, but not both together.
    #[test]
    fn more_figures_than_memory_has_room_for_are_refused() {
        let stations: Vec<String> = (0..1_000).map(|place| format!("{{ name = \"s{place}\" }}")).collect();
        let class = r#"class = [{ name = "c", population = 100000, path = [{ at = "s0", service = 1 }] }]"#;
        let source = format!("station = [{}]\n{class}", stations.join(", "));
        let error = solve(&from_toml(&source).unwrap(), SolutionMethod::Auto).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }

    #[test]
    fn what_a_solver_cannot_do_it_refuses_by_name() {
        let source = r#"
            station = [{ name = "db", capacity = 5 }, { name = "net", delay = true }]
            class = [{ name = "c", population = 3, path = [{ at = "db", service = 1 }, { at = "net", service = 1 }] }]
        "#;
        let error = solve(&from_toml(source).unwrap(), SolutionMethod::Auto).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the closed single-class solver does not treat the finite capacity of `db`"
        );
        // Requests that wait outside are not lost: the formulas of a room do not hold for them.
        let source = r#"
            station = [{ name = "db", capacity = 3, full = "block" }]
            class = [{ name = "c", rate = 0.5, path = [{ at = "db", service = 1 }] }]
        "#;
        let error = solve(&from_toml(source).unwrap(), SolutionMethod::Auto).unwrap_err();
        assert!(matches!(&error, Error::Refused { feature, .. } if feature.contains("`db`")), "{error}");
    }

    /// Taken as exponential, X of two stations in turn was up to 150 % too high and 60 % too low.
    #[test]
    fn service_that_is_not_exponential_counts_with_two_moments_or_is_refused() {
        let source = |station: &str, come: &str, time: &str| {
            format!(
                r#"station = [{{ name = "db"{station} }}, {{ name = "disk" }}]
                   class = [{{ name = "c", {come}, path = [
                       {{ at = "db", service = {time} }}, {{ at = "disk", service = 1 }}] }}]"#
            )
        };
        let constant = "{ constant = 1 }";
        let closed = |time: &str| solved(&source("", "population = 3", time));
        let x = |solution: &Solution| solution.last().classes[0].throughput;
        let found = closed(constant);
        assert!(
            !found.exact && found.notes[0].contains("not exponential in FCFS order at `db`"),
            "{found:?}"
        );
        assert!((x(&closed("1")) - 0.75).abs() < 1e-12, "three at two equal stations");
        assert!(x(&found) > 0.8 && x(&closed("{ hyperexponential = 1, scv = 4 }")) < 0.7);
        // A customer alone delays no other.
        assert!((found.points[0].classes[0].throughput - 0.5).abs() < 1e-6);
        for elsewhere in [", discipline = \"ps\"", ", delay = true"] {
            assert!(solved(&source(elsewhere, "population = 3", constant)).exact);
        }
        for refused in [
            source("", "population = 3", "{ pareto = 1, shape = 1.5 }"),
            source(", rates = [1, 1.5]", "population = 3", constant),
            source("", "population = 3", constant).replace(
                "class = [",
                "class = [{ name = \"other\", population = 2, think = 1, path = [{ at = \"disk\", service = 1 }] }, ",
            ),
            source("", "rate = 0.5", constant),
            source("", "gap = { constant = 3 }", "1"),
            source("", "population = 3", "{ hyperexponential = 1, scv = 9 }"),
        ] {
            let error = solve(&from_toml(&refused).unwrap(), SolutionMethod::Auto).unwrap_err();
            assert!(matches!(&error, Error::Refused { hint, .. } if hint.contains("simulate")), "{error}");
        }
    }

    /// In order of arrival all wait alike: a quick request beside rare long ones waits for these.
    #[test]
    fn unequal_services_in_order_are_exact_alone_and_else_refused() {
        let class = |name: &str, come: &str, service: &str, priority: u32| {
            format!(
                r#"{{ name = "{name}", {come}, priority = {priority}, path = [{{ at = "db", service = {service} }}] }}"#
            )
        };
        let network = |station: &str, classes: [String; 2]| {
            format!("station = [{{ name = \"db\"{station} }}]\nclass = [{}]", classes.join(", "))
        };
        let open =
            |fast: u32| [class("fast", "rate = 100", "0.001", fast), class("slow", "rate = 4", "0.1", 1)];
        let response = |solution: &Solution| [0, 1].map(|class| solution.last().classes[class].response);
        let ranked = solved(&network(", discipline = \"priority\"", open(1)));
        // W = Σ λ·S² / (1 − ρ), S² being half the second moment of an exponential time.
        let wait = (100.0 * 0.001_f64.powi(2) + 4.0 * 0.1_f64.powi(2)) / (1.0 - 0.5);
        for station in ["", ", discipline = \"lifo\""] {
            let plain = solved(&network(station, open(0)));
            assert!(plain.exact && plain.method == "station formulas", "{plain:?}");
            for (found, known) in response(&plain).iter().zip(response(&ranked)) {
                assert!((found / known - 1.0).abs() < 1e-12, "{found} {known}");
            }
            assert!((response(&plain)[0] - 0.001 - wait).abs() < 1e-12, "{plain:?}");
        }
        let varied = class("slow", "rate = 4", "{ gamma = 0.1, scv = 3 }", 0);
        assert!(solved(&network("", [class("fast", "rate = 100", "0.001", 0), varied])).exact);
        let few = |slow: &str| {
            [class("fast", "population = 1, think = 0.01", "0.001", 0), class("slow", slow, "0.1", 0)]
        };
        for (station, classes) in
            [(", servers = 2", open(1)), ("", few("population = 1")), ("", few("rate = 4"))]
        {
            let source = network(station, classes.clone());
            let error = solve(&from_toml(&source).unwrap(), SolutionMethod::Auto).unwrap_err();
            assert!(error.to_string().contains("unequal service times in FCFS order at `db`"), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.starts_with("simulate; or say")), "{error:?}");
            let shared = format!("{station}, discipline = \"ps\"");
            assert!(solved(&network(&shared, classes)).exact);
        }
    }

    /// Against the Markov chain of four clients. Of services that come in turn no formula knows
    /// which one is next.
    #[test]
    fn a_choice_of_services_in_order_varies_more_than_an_exponential_time() {
        let source = |quick: f64, slow: f64| {
            format!(
                r#"station = [{{ name = "db" }}, {{ name = "disk" }}]
                   class = [{{ name = "c", population = 4, path = [{{ one_of = [
                       {{ share = 9, path = [{{ at = "db", service = {quick} }}] }},
                       {{ share = 1, path = [{{ at = "db", service = {slow} }}] }} ] }},
                       {{ at = "disk", service = 1 }}] }}]"#
            )
        };
        let found = solved(&source(0.55, 5.05)); // c² = 4.6
        let x = found.last().classes[0].throughput;
        assert!(!found.exact && found.notes[0].contains("unequal service times"), "{:?}", found.notes);
        assert!((x / 0.723_816 - 1.0).abs() < 0.05, "{x}");
        // Two ways, the service of each short where that of the other is long.
        let way = |db: f64, disk: f64| {
            format!(
                r#"{{ share = 1, path = [{{ at = "db", service = {db} }}, {{ at = "disk", service = {disk} }}] }}"#
            )
        };
        let opposite = format!(
            r#"station = [{{ name = "db" }}, {{ name = "disk" }}]
               class = [{{ name = "c", population = 4, path = [{{ one_of = [{}, {}] }}] }}]"#,
            way(1.0, 0.001),
            way(0.001, 1.0)
        );
        let x = solved(&opposite).last().classes[0].throughput;
        assert!((x / 1.318_557 - 1.0).abs() < 0.09, "{x}");
        assert!((solved(&source(1.0, 1.0)).last().classes[0].throughput - 0.8).abs() < 1e-12);
        let both =
            source(0.55, 5.05).replace("{ at = \"disk\"", "{ at = \"db\", service = 2 }, { at = \"disk\"");
        for refused in [source(0.2, 8.2), both, source(0.55, 5.05).replace("population = 4", "rate = 0.1")] {
            let error = solve(&from_toml(&refused).unwrap(), SolutionMethod::Auto).unwrap_err();
            assert!(matches!(&error, Error::Refused { hint, .. } if hint.contains("simulate")), "{error}");
        }
    }

    /// Six classes at four servers, where Linearizer has one of them busy for more than all the
    /// time.
    #[test]
    fn where_linearizer_is_above_what_is_possible_schweitzer_answers() {
        let classes = [
            (31, 1.0, [0.1, 0.1, 0.05, 0.001]),
            (34, 0.0, [0.1, 0.001, 0.005, 0.001]),
            (31, 0.1, [0.005, 0.02, 0.05, 0.001]),
            (38, 0.0, [0.001, 0.1, 0.005, 0.02]),
            (28, 0.0, [0.02, 0.005, 0.001, 0.005]),
            (39, 1.0, [0.02, 0.005, 0.005, 0.001]),
        ];
        let class = |(number, (population, think, services)): (usize, (u64, f64, [f64; 4]))| {
            let visit = |(place, time)| Step::visit(StationId(place), Distribution::exponential(time));
            Class::closed(
                format!("c{number}"),
                population,
                think,
                services.into_iter().enumerate().map(visit).collect(),
            )
        };
        let shared = |place: usize| Station {
            discipline: Discipline::ProcessorSharing,
            ..Station::single(format!("s{place}"))
        };
        let network = Network {
            name: "near saturation".into(),
            stations: (0..4).map(shared).collect(),
            pools: Vec::new(),
            classes: classes.into_iter().enumerate().map(class).collect(),
        };
        let found = solve(&network, SolutionMethod::Auto).unwrap();
        assert_eq!((found.method.as_str(), &found.notes[..]), (BY_SCHWEITZER, &[SCHWEITZER.to_owned()][..]));
        assert!(found.last().stations.iter().all(|station| station.utilization <= 1.0 + 1e-9));
        assert_eq!(found, solve(&network, SolutionMethod::Schweitzer).unwrap());
        let error = solve(&network, SolutionMethod::Linearizer).unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.contains("--method schweitzer")), "{error:?}");
    }

    #[test]
    fn a_lone_station_may_lose_requests_or_have_constant_service() {
        let lossy = solved(
            r#"station = [{ name = "db", capacity = 3 }]
               class = [{ name = "c", rate = 0.5, path = [{ at = "db", service = 1 }] }]"#,
        );
        assert!(lossy.exact);
        assert!((lossy.last().classes[0].throughput - 0.5 * (1.0 - 0.125 / 1.875)).abs() < 1e-12);
        let constant = solved(
            r#"station = [{ name = "db" }]
               class = [{ name = "c", rate = 0.5, path = [{ at = "db", service = { constant = 1 } }] }]"#,
        );
        assert!((constant.last().classes[0].response - 1.5).abs() < 1e-12);
        let either = solved(
            r#"station = [{ name = "db", capacity = 5 }]
               class = [{ name = "c", rate = 0.5, path = [{ one_of = [
                   { share = 1, path = [{ at = "db", service = 0.5 }] },
                   { share = 1, path = [{ at = "db", service = 1.5 }] } ] }] }]"#,
        );
        let notes = &either.notes;
        assert!(!notes.is_empty() && notes.iter().all(|n| n.contains("taken as exponential")), "{notes:?}");
    }

    #[test]
    fn open_closed_and_mixed_classes_each_find_their_solver() {
        let stations =
            r#"station = [{ name = "a" }, { name = "b", servers = 2 }, { name = "z", delay = true }]"#;
        let closed = |name| {
            format!(
                r#"{{ name = "{name}", population = 4, think = 1, path = [{{ at = "a", service = 0.1 }}, {{ at = "z", service = 1 }}] }}"#
            )
        };
        let open =
            r#"{ name = "o", rate = 2, path = [{ at = "a", service = 0.1 }, { at = "b", service = 0.2 }] }"#;
        let both = solved(&format!("{stations}\nclass = [{}, {}]", closed("x"), closed("y")));
        assert_eq!(both.method, "mean value analysis");
        let mixed = solved(&format!("{stations}\nclass = [{}, {open}]", closed("x")));
        assert!(mixed.exact);
        assert!(
            mixed.last().classes[0].throughput
                < solved(&format!("{stations}\nclass = [{}]", closed("x"))).last().classes[0].throughput
        );
        let total: f64 = mixed.last().stations.iter().filter_map(|s| s.queue).sum();
        let by_class: f64 = mixed.last().classes.iter().map(|c| c.throughput * c.response).sum();
        assert!((total - by_class).abs() < 1e-9);
    }

    #[test]
    fn a_fork_waits_for_as_many_answers_as_it_is_configured_to() {
        let source = |come: &str, wait: &str| {
            r#"station = [{ name = "s1" }, { name = "s2" }, { name = "s3" }]
               class = [{ name = "set", COME, path = [{ fork = ["s1", "s2", "s3"], wait = WAIT, service = 0.6 }] }]"#
                .replace("COME", come)
            .replace("WAIT", wait)
        };
        let response = |come: &str, wait: &str| solved(&source(come, wait)).last().classes[0].response;
        assert!((response("population = 1", "\"all\"") - 0.6 * (1.0 + 0.5 + 1.0 / 3.0)).abs() < 1e-9);
        let rare = "rate = 1e-9";
        assert!((response(rare, "\"all\"") - 0.6 * (1.0 + 0.5 + 1.0 / 3.0)).abs() < 1e-6);
        assert!((response(rare, "\"any\"") - 0.2).abs() < 1e-6);
        assert!((response(rare, "2") - 0.6 * (1.0 / 3.0 + 0.5)).abs() < 1e-6);
        let network = from_toml(&source("population = 4", "\"any\"")).unwrap();
        let error = solve(&network, SolutionMethod::Auto).unwrap_err();
        assert!(error.to_string().ends_with("a fork that does not wait for all answers, to `s1`"), "{error}");
    }

    #[test]
    fn copies_without_a_finite_variance_are_refused() {
        for station in ["delay = true", "discipline = \"ps\""] {
            for come in ["population = 4", "rate = 0.1"] {
                let source = format!(
                    r#"station = [{{ name = "s1", {station} }}, {{ name = "s2", {station} }}]
                       class = [{{ name = "set", {come}, path = [
                           {{ fork = ["s1", "s2"], service = {{ pareto = 1, shape = 1.5 }} }}] }}]"#
                );
                let error = solve(&from_toml(&source).unwrap(), SolutionMethod::Auto).unwrap_err();
                assert!(
                    matches!(&error, Error::Refused { hint, .. } if hint == "simulate"),
                    "{station}, {come}: {error}"
                );
            }
        }
    }

    #[test]
    fn copies_at_a_delay_count_as_visits_do() {
        for come in ["population = 4", "rate = 0.5"] {
            let solution = solved(&format!(
                r#"station = [{{ name = "net", delay = true }}, {{ name = "disk", delay = true }}]
                   class = [{{ name = "c", {come}, path = [
                       {{ at = "net", service = 1 }}, {{ fork = ["net", "disk"], service = 1 }}] }}]"#
            ));
            for station in &solution.last().stations {
                assert!((station.residence.unwrap() - 1.0).abs() < 1e-12, "{come}: {station:?}");
            }
        }
    }
}
