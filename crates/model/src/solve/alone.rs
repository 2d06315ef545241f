//! A station alone, fed by arrivals: the formulas of [`station`], with percentiles where they are
//! known, and several classes.

use krarup_units::{Seconds, Unit};

use super::point::{ClassPoint, SolutionPoint, StationPoint, point};
use super::waits::{WaitPercentile, Waits};
use crate::layered::{self, Of, PathPart};
use crate::network::{Class, ClassWorkload, Discipline, Network, StationKind, Step};
use crate::station::{self, PriorityClass, Tail};
use crate::table::{ResultTable, TableCell};
use crate::{Distribution, Error};

const SHARES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// How many visits each request makes on a path; `None` where not all make as many, or hold a slot
/// or send several copies on the way.
fn visits(path: &[Step]) -> Option<u32> {
    let of_step = |step: &Step| match step {
        Step::Visit(visit) => ((visit.count - 1.0).abs() < 1e-12).then_some(1),
        Step::Fork(fork) => (fork.choose == 1).then_some(1),
        Step::OneOf { branches } => {
            let first = visits(&branches.first()?.path)?;
            branches.iter().all(|branch| visits(&branch.path) == Some(first)).then_some(first)
        }
        Step::Hold { .. } => None,
    };
    path.iter().map(of_step).sum()
}

/// The only station of an open class, if each request visits it once.
fn only_station(network: &Network, class: &Class) -> Option<usize> {
    class.rate()?;
    let parts = layered::parts(network, class).ok()?;
    match parts[..] {
        [PathPart::Station { station, .. }] if visits(&class.path) == Some(1) => Some(station),
        _ => None,
    }
}

/// The only station of an open network of one class, if it is one with servers and each request
/// visits it once.
pub(super) fn lone_station(network: &Network) -> Option<usize> {
    let [class] = &network.classes[..] else { return None };
    let place = only_station(network, class)?;
    matches!(network.stations[place].kind, StationKind::Servers { .. }).then_some(place)
}

/// Whether the mean wait at a lone station follows exactly, although its service, or the gaps
/// between arrivals, are not exponential: Poisson arrivals to one server (Pollaczek and Khinchine),
/// an order that leaves the mean number as it is, or exponential service by one server, whatever
/// the gaps between arrivals are ([`station::gm1`]).
pub(super) fn is_exact(network: &Network) -> bool {
    let (Some(place), [class]) = (lone_station(network), &network.classes[..]) else { return false };
    let there = &network.stations[place];
    let once = matches!(class.path[..], [Step::Visit(_)]);
    let alike = there.kind == StationKind::Servers { count: 1 } && there.capacity.is_none() && once;
    let ClassWorkload::Open { gap, .. } = &class.workload else { return false };
    alike
        && (gap.is_exponential() || gap.transform(0.0).is_some() && service(network, class).is_exponential())
}

/// The only station of several open classes, if it is one server that serves one request after the
/// other: by priority, or in an order that knows no classes, in which all are of the same.
pub(super) fn ranked_station(network: &Network) -> Option<usize> {
    let mut visited = network.classes.iter().map(|class| only_station(network, class));
    let place = visited.next()??;
    let there = &network.stations[place];
    let ranked = matches!(there.discipline, Discipline::Fcfs | Discipline::Lifo | Discipline::Priority)
        && there.kind == (StationKind::Servers { count: 1 })
        && there.capacity.is_none();
    (ranked && network.classes.len() > 1 && visited.all(|other| other == Some(place))).then_some(place)
}

/// A single open station: the formulas of [`station`].
pub(super) fn lone(network: &Network, class: &Class, place: usize) -> Result<SolutionPoint, Error> {
    let there = &network.stations[place];
    let StationKind::Servers { count } = there.kind else { unreachable!("lone_station checks the kind") };
    let ClassWorkload::Open { gap, .. } = &class.workload else {
        unreachable!("lone_station checks the class")
    };
    let rate = 1.0 / gap.mean();
    let service = service(network, class);
    let in_order = there.discipline == Discipline::Fcfs || there.discipline == Discipline::Priority;
    let (throughput, present, mut waits) = if let Some(room) = there.capacity {
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let levels = station::mmm_k(rate, service.mean(), count, room)?;
        let waits = Waits {
            class: class.name.clone(),
            delayed: Some(levels.wait_tail(0.0)),
            lost: levels.lost,
            mean: levels.wait,
            response: levels.response,
            percentiles: SHARES
                .map(|share| WaitPercentile {
                    share,
                    wait: levels.wait_percentile(share),
                    response: levels.response_percentile(share),
                })
                .into(),
            exact: service.is_exponential() && gap.is_exponential(),
            at_most: None,
        };
        (levels.throughput, levels.present, waits)
    } else {
        // Preemptive LIFO at several servers is nearer to exponential service than to G/G/m.
        let shared = matches!(there.discipline, Discipline::ProcessorSharing | Discipline::LifoPreemptive);
        let service = if shared { Distribution::exponential(service.mean()) } else { service };
        let alone = if count == 1 && gap.is_exponential() {
            station::mg1(rate, &service)
        } else if is_exact(network) {
            station::gm1(gap, service.mean())
        } else {
            station::ggm(rate, gap.scv(), service.mean(), service.scv(), count)
        };
        let alone = alone.map_err(|error| named(error, &there.name))?;
        let waits = Waits {
            class: class.name.clone(),
            // G/G/m knows as little of who waits at all as of who finds nothing there.
            delayed: (!alone.empty.is_nan()).then_some(alone.delayed),
            lost: 0.0,
            mean: alone.wait,
            response: alone.response,
            percentiles: SHARES
                .map(|share| WaitPercentile {
                    share,
                    wait: alone.wait_percentile(share),
                    response: alone.response_percentile(share),
                })
                .into(),
            exact: alone.tail != Tail::Approximate,
            at_most: (count == 1)
                .then(|| station::kingman(rate, gap.scv(), service.mean(), service.scv()).ok())
                .flatten(),
        };
        (alone.throughput, alone.present, waits)
    };
    let class_point = |residence| ClassPoint {
        name: class.name.clone(),
        population: None,
        throughput,
        response: present / throughput,
        residence,
    };
    let of = Of::Queue(place);
    let means = std::iter::once((&of, present));
    let mut point = point(network, &network.demands()[0], throughput, means, class_point);
    // Who shares a server, or overtakes, has the same mean and other percentiles.
    if !in_order {
        waits.delayed = None;
        waits.percentiles.clear();
    }
    point.waits.extend((in_order || there.capacity.is_some()).then_some(waits));
    Ok(point)
}

/// The service time of a class that visits one station once: as it is written, or the two moments
/// of all that it may be.
fn service(network: &Network, class: &Class) -> Distribution {
    let mut times = Vec::new();
    network.walk(&class.path, 1.0, &mut |visits, station, work| {
        let time = network.stations[station.0].service_time(work);
        times.push((visits, time));
    });
    mixture(&times)
}

/// One of several times, each as often as it weighs.
fn mixture(times: &[(f64, Distribution)]) -> Distribution {
    if let [(_, only)] = times {
        return only.clone();
    }
    let weight: f64 = times.iter().map(|(weight, _)| weight).sum();
    let mean = times.iter().map(|(weight, time)| weight * time.mean()).sum::<f64>() / weight;
    let squares = times.iter().map(|(weight, time)| weight * time.mean().powi(2) * (1.0 + time.scv()));
    let square = squares.sum::<f64>() / weight;
    Distribution::Moments { mean, scv: (square / (mean * mean) - 1.0).max(0.0) }
}

fn named(error: Error, name: &str) -> Error {
    match error {
        Error::Unstable { utilization, .. } => Error::Unstable { station: name.into(), utilization },
        other => other,
    }
}

/// Open classes at one server that serves the most urgent first (Cobham 1954). Classes of the same
/// priority are one to the others, and wait for their turn among themselves; without priorities all
/// are, and wait alike (Pollaczek and Khinchine).
pub(super) fn ranked(network: &Network, place: usize) -> Result<SolutionPoint, Error> {
    let there = &network.stations[place];
    let services: Vec<Distribution> = network.classes.iter().map(|class| service(network, class)).collect();
    let urgency = |class: &Class| if there.discipline == Discipline::Priority { class.priority } else { 0 };
    let mut priorities: Vec<u32> = network.classes.iter().map(urgency).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let ranks: Vec<PriorityClass> = priorities
        .iter()
        .map(|priority| {
            let of_rank =
                network.classes.iter().zip(&services).filter(|(class, _)| urgency(class) == *priority);
            let times: Vec<(f64, Distribution)> = of_rank
                .map(|(class, service)| {
                    (class.rate().expect("ranked_station checks the classes"), service.clone())
                })
                .collect();
            PriorityClass { arrival: times.iter().map(|(rate, _)| rate).sum(), service: mixture(&times) }
        })
        .collect();
    let found = station::mg1_priority(&ranks).map_err(|error| named(error, &there.name))?;
    let (mut classes, mut waits) = (Vec::new(), Vec::new());
    let (mut busy, mut queue, mut visits) = (0.0, 0.0, 0.0);
    for (class, service) in network.classes.iter().zip(&services) {
        let rate = class.rate().expect("ranked_station checks the classes");
        let rank = priorities.partition_point(|other| *other < urgency(class));
        let response = found[rank] + service.mean();
        busy += rate * service.mean();
        queue += rate * response;
        visits += rate;
        let residence = (0..network.stations.len()).map(|k| (k == place).then_some(response));
        classes.push(ClassPoint {
            name: class.name.clone(),
            population: None,
            throughput: rate,
            response,
            residence: residence.collect(),
        });
        waits.push(Waits {
            class: class.name.clone(),
            delayed: None,
            lost: 0.0,
            mean: found[rank],
            response,
            percentiles: Vec::new(),
            exact: false,
            at_most: None,
        });
    }
    let stations = network.stations.iter().enumerate().map(|(k, station)| {
        let here = |value: f64| if k == place { value } else { 0.0 };
        StationPoint {
            name: station.name.clone(),
            throughput: here(visits),
            utilization: here(busy),
            queue: Some(here(queue)),
            residence: (k == place).then_some(queue / visits),
        }
    });
    Ok(SolutionPoint { classes, stations: stations.collect(), pools: Vec::new(), waits })
}

/// Waits and responses of a station alone, a row for the mean and for each percentile. What share
/// of the arrivals is lost, and how many of the others wait, are numbers, however small.
pub(super) fn table(title: String, waits: &[Waits]) -> Option<ResultTable> {
    let columns = [
        ("class", Unit::Text),
        ("of the requests", Unit::Text),
        ("waiting time at most", Unit::Seconds),
        ("response time at most", Unit::Seconds),
        ("wait at all", Unit::Share),
        ("lost", Unit::Share),
    ];
    let mut table = ResultTable::new(title, &columns);
    for class in waits {
        let lost = (class.lost > 0.0).then_some(class.lost);
        let others = if lost.is_some() { ", of those that find room" } else { "" };
        let mut row = |what: String, times: [Option<Seconds>; 2], shares: [Option<f64>; 2]| {
            let mut cells: Vec<TableCell> = vec![class.class.as_str().into(), what.into()];
            cells.extend(times.into_iter().chain(shares).map(TableCell::from));
            table.push(cells);
        };
        let mean = [class.mean, class.response].map(Some);
        row(format!("mean{others}"), mean, [class.delayed, lost]);
        for percentile in &class.percentiles {
            let nearly = if class.exact { "" } else { ", approximately" };
            let what = format!("{:.1} %{others}{nearly}", 100.0 * percentile.share);
            row(what, [percentile.wait, percentile.response].map(Some), [None; 2]);
        }
        if let Some(most) = class.at_most {
            row("mean, of any such G/G/1 (Kingman)".into(), [Some(most), None], [None; 2]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use crate::form::from_toml;
    use crate::solve::{Solution, SolutionMethod, solve};
    use crate::station::{gm1, md1, mm1};
    use crate::{Distribution, Error};

    fn solved(source: &str) -> Solution {
        solve(&from_toml(source).unwrap(), SolutionMethod::Auto).unwrap()
    }

    fn one(station: &str, come: &str, service: &str) -> Solution {
        solved(&format!(
            r#"station = [{{ name = "db"{station} }}]
            class = [{{ name = "c", {come}, path = [{{ at = "db", service = {service} }}] }}]"#
        ))
    }

    #[test]
    fn a_lone_station_tells_percentiles_and_whether_they_are_exact() {
        let solution = one("", "rate = 0.5", "1");
        let [waits] = &solution.last().waits[..] else { panic!("{:?}", solution.last().waits) };
        let exact = mm1(0.5, 1.0).unwrap();
        assert!(waits.exact && waits.delayed == Some(0.5) && waits.lost == 0.0);
        assert!((waits.percentiles[3].response - exact.response_percentile(0.99)).abs() < 1e-12);
        // Kingman's bound takes M/M/1's own wait and a little more: (1 + ρ²)/(2ρ²) times as much.
        assert!((waits.at_most.unwrap() / waits.mean - (1.0 + 0.25) / 0.5).abs() < 1e-9);
        let table = solution.waits_table().unwrap();
        assert_eq!(table.rows.len(), 6, "{table:?}");
        let constant = one("", "rate = 0.5", "{ constant = 1 }");
        assert!(constant.exact, "{:?}", constant.notes);
        let [waits] = &constant.last().waits[..] else { panic!("no waits") };
        assert!(waits.exact);
        assert!((waits.percentiles[1].wait - md1(0.5, 1.0).unwrap().wait_percentile(0.9)).abs() < 1e-12);
        // No request waits where all is regular, and two moments do not tell how many do elsewhere.
        let regular = one("", "gap = { constant = 2 }", "{ constant = 1 }");
        assert_eq!((regular.last().waits[0].mean, regular.last().waits[0].delayed), (0.0, None));
    }

    /// Else the mean number there would be told as 10¹⁶, where no queue settles.
    #[test]
    fn a_utilization_of_1_is_refused_however_it_is_rounded() {
        for (servers, rate, service) in [(1, 160, 6_250), (1, 1_250, 800), (1, 12_500, 80), (29, 50, 580_000)]
        {
            let source = format!(
                r#"station = [{{ name = "db", servers = {servers} }}]
                class = [{{ name = "c", rate = {rate}, path = [{{ at = "db", service = "{service} us" }}] }}]"#
            );
            let error = solve(&from_toml(&source).unwrap(), SolutionMethod::Auto).unwrap_err();
            assert!(error.to_string().starts_with("db cannot keep up: utilization 1.0000"), "{error}");
        }
    }

    #[test]
    fn room_for_more_requests_than_the_formulas_take_is_an_error() {
        let alone = r#"station = [{ name = "db", capacity = 1000000000 }]
            class = [{ name = "c", rate = 0.5, path = [{ at = "db", service = 1 }] }]"#;
        let servers = r#"station = [{ name = "db", servers = 1000000000 }, { name = "net", delay = true }]
            class = [{ name = "c", rate = 0.5, path = [
                { at = "db", service = 1 }, { at = "net", service = 1 }] }]"#;
        for source in [alone, servers] {
            let error = solve(&from_toml(source).unwrap(), SolutionMethod::Auto).unwrap_err();
            assert!(error.to_string().starts_with("up to 1000000000 requests at one station"), "{error}");
        }
    }

    #[test]
    fn gaps_that_are_not_exponential_are_exact_before_one_exponential_server() {
        let gaps = "gap = { hyperexponential = 2, scv = 4 }";
        let bursts = one("", gaps, "1");
        assert!(bursts.exact && bursts.last().waits[0].exact, "{:?}", bursts.notes);
        let exact = gm1(&Distribution::Hyperexponential { mean: 2.0, scv: 4.0 }, 1.0).unwrap();
        assert_eq!(bursts.last().waits[0].mean, exact.wait);
        // Sharing leaves the number that is there as it is.
        let shared = one(", discipline = \"ps\"", gaps, "1");
        assert!(shared.exact && (shared.last().classes[0].response - exact.response).abs() < 1e-12);
        for (station, gaps, service) in [
            (", servers = 2", gaps, "1"),
            ("", gaps, "{ constant = 1 }"),
            (", discipline = \"ps\"", gaps, "{ constant = 1 }"),
            ("", "gap = { lognormal = 2, scv = 4 }", "1"),
        ] {
            let other = one(station, gaps, service);
            assert!(!other.exact, "{station} {gaps} {service}");
        }
    }

    /// Half of the requests come twice and the others not at all, so that one visit is the mean.
    #[test]
    fn one_visit_in_the_mean_is_not_one_of_each_request() {
        let source = |station: &str| {
            format!(
                r#"station = [{{ name = "db"{station} }}]
                class = [{{ name = "c", rate = 0.5, path = [{{ one_of = [
                    {{ share = 1, path = [{{ at = "db", service = 1 }}, {{ at = "db", service = 1 }}] }},
                    {{ share = 1, path = [] }} ] }}] }}]"#
            )
        };
        let solution = solved(&source(""));
        assert!(solution.last().waits.is_empty() && solution.waits_table().is_none());
        let limited = from_toml(&source(", capacity = 3")).unwrap();
        let error = solve(&limited, SolutionMethod::Auto).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        let once = solved(&source("").replace("path = []", "path = [{ at = \"db\", service = 1 }]").replace(
            "{ at = \"db\", service = 1 }, { at = \"db\", service = 1 }",
            "{ at = \"db\", service = 1 }",
        ));
        assert_eq!(once.last().waits.len(), 1);
    }

    #[test]
    fn those_that_share_or_overtake_have_means_only() {
        let shared = one(", discipline = \"ps\"", "rate = 0.5", "1");
        assert!((shared.last().classes[0].response - 2.0).abs() < 1e-12);
        assert!(shared.last().waits.is_empty() && shared.waits_table().is_none());
    }

    #[test]
    fn a_small_room_loses_some_and_keeps_the_others_waiting_less() {
        let small = one(", capacity = 3", "rate = 0.5", "1");
        let [waits] = &small.last().waits[..] else { panic!("no waits") };
        assert!((waits.lost - 0.125 / 1.875).abs() < 1e-12);
        // Of those admitted, who find 0, 1 and 2 there in the ratio 4 : 2 : 1, three of seven wait.
        assert!((waits.delayed.unwrap() - 3.0 / 7.0).abs() < 1e-12);
        assert!(
            waits.percentiles[3].response
                < one("", "rate = 0.5", "1").last().waits[0].percentiles[3].response
        );
    }

    /// A room is made so large that little is lost: ρ^12·(1 − ρ)/(1 − ρ^13) in one for twelve.
    #[test]
    fn a_small_loss_keeps_its_digits() {
        let table = one(", capacity = 12", "rate = 0.5", "1").waits_table().unwrap();
        let lost = table.numbers("lost")[0].unwrap();
        assert!((lost * 8_191.0 - 1.0).abs() < 1e-9, "{table:?}");
        assert_eq!(table.numbers("lost")[1..], [None; 4]);
        let waits = table.numbers("wait at all")[0].unwrap();
        assert!((waits - 0.5).abs() < 1e-3, "{table:?}");
    }

    /// Two servers and no place to wait (Erlang's loss system), in order and shared.
    #[test]
    fn what_is_lost_stands_beside_the_times_of_the_others() {
        for station in ["", ", discipline = \"ps\""] {
            let full = one(&format!(", servers = 2, capacity = 2{station}"), "rate = 2", "1");
            assert!(full.exact && (full.last().waits[0].lost - 0.4).abs() < 1e-12, "{full:?}");
            let table = full.waits_table().unwrap();
            let lost = table.numbers("lost")[0].unwrap();
            assert!((lost - 0.4).abs() < 1e-12, "{table:?}");
            assert!(format!("{:?}", table.rows[0]).contains("mean, of those that find room"), "{table:?}");
            assert!(!format!("{table:?}").contains("-0.0"), "{table:?}");
        }
    }

    /// With equal constant services and equal priorities the classes are one M/D/1; with different
    /// ones the urgent gain what the others lose (the load-weighted mean wait stays: Kleinrock's
    /// conservation law).
    #[test]
    fn the_urgent_wait_less_and_the_others_more() {
        let source = |urgent: u32| {
            format!(
                r#"station = [{{ name = "db", discipline = "priority" }}]
                class = [
                  {{ name = "bulk", rate = 0.4, priority = 5, path = [{{ at = "db", service = {{ constant = 1 }} }}] }},
                  {{ name = "user", rate = 0.3, priority = {urgent}, path = [{{ at = "db", service = {{ constant = 1 }} }}] }},
                ]"#
            )
        };
        let alike = solved(&source(5));
        let wait = |solution: &Solution, class: usize| solution.last().waits[class].mean;
        let md1 = md1(0.7, 1.0).unwrap().wait;
        assert!(alike.exact, "{:?}", alike.notes);
        assert!((wait(&alike, 0) - md1).abs() < 1e-12 && (wait(&alike, 1) - md1).abs() < 1e-12);
        let ranked = solved(&source(1));
        assert!(wait(&ranked, 1) < md1 && md1 < wait(&ranked, 0));
        let mean = (0.4 * wait(&ranked, 0) + 0.3 * wait(&ranked, 1)) / 0.7;
        assert!((mean - md1).abs() < 1e-12, "{mean} {md1}");
        let station = &ranked.last().stations[0];
        assert!((station.utilization - 0.7).abs() < 1e-12);
        assert!((station.queue.unwrap() - 0.7 * (md1 + 1.0)).abs() < 1e-9);
        let too_much = from_toml(&source(1).replace("rate = 0.4", "rate = 0.8")).unwrap();
        let error = solve(&too_much, SolutionMethod::Auto).unwrap_err();
        assert!(error.to_string().contains("db"), "{error}");
    }

    #[test]
    fn priorities_among_several_stations_are_refused_by_name() {
        let source = r#"station = [{ name = "db", discipline = "priority" }, { name = "disk" }]
            class = [{ name = "a", rate = 0.1, path = [{ at = "db", service = 1 }, { at = "disk", service = 1 }] },
                     { name = "b", rate = 0.1, path = [{ at = "db", service = 1 }] }]"#;
        let error = solve(&from_toml(source).unwrap(), SolutionMethod::Auto).unwrap_err();
        assert!(error.to_string().contains("db"), "{error}");
    }
}
