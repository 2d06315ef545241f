//! The same network with something changed, before and after; and what matters most.

use std::ops::ControlFlow;
use std::str::FromStr;

use krarup_record::quantities;
use krarup_units::{Unit, text};

use crate::Error;
use crate::network::{
    ClassWorkload, Fork, ForkWait, Network, PathVisit, Station, StationId, StationKind, Step,
};
use crate::simulate::result::{SimulatedEstimate, percent};
use crate::simulate::{self, SimulationSettings};
use crate::solve::{BY_SCHWEITZER, Solution, SolutionMethod, solve};
use crate::table::{ResultTable, TableCell};

/// Of networks with more stations it is not told which matters most.
const MOST_CHANGED: usize = 500;
/// More replicas of a station are not made.
const MOST_REPLICAS: u32 = 10_000;

/// One change, written `name.key=value`.
///
/// | change | on | |
/// |---|---|---|
/// | `memcached.servers=4` | station | so many servers behind its queue |
/// | `memcached.speed=2` | station | twice as fast (a link: twice the bandwidth; a delay: half the delay) |
/// | `memcached.replicas=3` | station | three of them, each with its own queue, chosen at random |
/// | `workers.size=128` | pool | so many slots |
/// | `get.population=300` | closed class | so many clients |
/// | `get.think=1ms` | closed class | mean think time, its distribution kept |
/// | `get.rate=5000` | open class | arrivals per second, the distribution of gaps kept |
/// | `get.mix=9:1` | class | shares of the branches of its first choice |
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Name of a station, pool or class.
    pub name: String,
    /// What is changed.
    pub key: String,
    /// The new value, as text.
    pub value: String,
}

impl FromStr for Change {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = text.split_once('=').and_then(|(left, value)| {
            let (name, key) = left.rsplit_once('.')?;
            Some(Self { name: name.trim().into(), key: key.trim().into(), value: value.trim().into() })
        });
        parsed.filter(|c| !c.name.is_empty() && !c.value.is_empty()).ok_or_else(|| {
            Error::invalid(
                format!("change `{text}`"),
                "does not read",
                "write it like memcached.servers=4 or get.population=300",
            )
        })
    }
}

impl Change {
    fn wrong(&self, why: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::invalid(format!("change `{}.{}={}`", self.name, self.key, self.value), why, hint)
    }

    fn number(&self) -> Result<f64, Error> {
        match self.value.parse::<f64>() {
            Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
            _ => Err(self.wrong("is not a number above 0", "write a plain number")),
        }
    }

    fn count(&self) -> Result<u32, Error> {
        let value = self.number()?;
        if value.fract() != 0.0 {
            return Err(self.wrong("is not a whole number", "write a whole number from 1"));
        }
        if value > f64::from(u32::MAX) {
            return Err(self.wrong("is too many", format!("write {} at most", u32::MAX)));
        }
        Ok(value as u32)
    }
}

/// The network with all changes made, in order.
///
/// # Errors
/// [`Error::Invalid`] naming a change that fits nothing, with what there is.
pub fn apply(network: &Network, changes: &[Change]) -> Result<Network, Error> {
    let mut changed = network.clone();
    for change in changes {
        if let Some(station) = changed.station(&change.name) {
            change_station(&mut changed, station, change)?;
        } else if let Some(pool) = changed.pool(&change.name) {
            match change.key.as_str() {
                "size" => changed.pools[pool.0].size = change.count()?,
                _ => return Err(change.wrong("a pool knows no such change", "a pool has a size")),
            }
        } else if let Some(class) = changed.class(&change.name) {
            change_class(&mut changed, class.0, change)?;
        } else {
            let names: Vec<&str> = changed
                .stations
                .iter()
                .map(|s| s.name.as_str())
                .chain(changed.pools.iter().map(|p| p.name.as_str()))
                .chain(changed.classes.iter().map(|c| c.name.as_str()))
                .collect();
            return Err(change.wrong("nothing has this name", format!("there are: {}", names.join(", "))));
        }
    }
    changed.check()?;
    Ok(changed)
}

fn change_station(network: &mut Network, station: StationId, change: &Change) -> Result<(), Error> {
    match change.key.as_str() {
        "servers" => {
            let there = &mut network.stations[station.0];
            if !matches!(there.kind, StationKind::Servers { .. }) {
                return Err(change.wrong("this station has no servers", "change its speed"));
            }
            there.kind = StationKind::Servers { count: change.count()? };
        }
        "speed" => {
            network.stations[station.0].factor *= change.number()?;
        }
        "replicas" => {
            let count = change.count()?;
            if count > MOST_REPLICAS {
                return Err(change.wrong("is too many", format!("write {MOST_REPLICAS} at most")));
            }
            let original = network.stations[station.0].clone();
            let mut copies = vec![station];
            for number in 2..=count {
                let name = format!("{} {number}", original.name);
                copies.push(StationId(network.stations.len()));
                network.stations.push(Station { name, ..original.clone() });
            }
            for class in &mut network.classes {
                spread(&mut class.path, station, &copies, change)?;
            }
        }
        _ => {
            return Err(
                change.wrong("a station knows no such change", "a station has servers, speed and replicas")
            );
        }
    }
    Ok(())
}

fn each_step(path: &mut [Step], each: &mut dyn FnMut(&mut Step)) {
    for step in path {
        each(step);
        match step {
            Step::Hold { path, .. } => each_step(path, each),
            Step::OneOf { branches } => branches.iter_mut().for_each(|b| each_step(&mut b.path, each)),
            Step::Visit(_) | Step::Fork(_) => {}
        }
    }
}

/// Visits to one station become visits to one of its copies.
fn spread(path: &mut [Step], station: StationId, copies: &[StationId], change: &Change) -> Result<(), Error> {
    let mut fault = None;
    each_step(path, &mut |step| match step {
        Step::Visit(PathVisit { station: visited, count, work }) if *visited == station => {
            if (*count - 1.0).abs() > 1e-12 {
                fault = Some("visits it several times in a row, each of which would choose anew");
            }
            *step = Step::Fork(Fork {
                stations: copies.to_vec(),
                choose: 1,
                wait: ForkWait::All,
                work: work.clone(),
            });
        }
        Step::Fork(fork) if fork.stations.contains(&station) => {
            fault = Some("a fork goes there already");
        }
        _ => {}
    });
    fault.map_or(Ok(()), |why| Err(change.wrong(why, "describe the replicas in the file")))
}

fn change_class(network: &mut Network, class: usize, change: &Change) -> Result<(), Error> {
    let class = &mut network.classes[class];
    match (change.key.as_str(), &mut class.workload) {
        ("population", ClassWorkload::Closed { population, .. }) => *population = u64::from(change.count()?),
        ("think", ClassWorkload::Closed { think, .. }) => {
            let seconds =
                text::parse_duration(&change.value).map_err(|why| change.wrong(why.what, why.hint))?;
            *think = if think.mean() > 0.0 {
                think.scaled(seconds / think.mean())
            } else {
                crate::Distribution::exponential(seconds)
            };
        }
        ("rate", ClassWorkload::Open { gap, .. }) => *gap = gap.scaled(1.0 / (change.number()? * gap.mean())),
        ("mix", _) => {
            let shares: Vec<f64> = change
                .value
                .split(':')
                .map(|share| share.trim().parse::<f64>().ok().filter(|s| s.is_finite() && *s > 0.0))
                .collect::<Option<_>>()
                .ok_or_else(|| change.wrong("is no list of shares", "write it like 9:1, each above 0"))?;
            let mut wanted = Some(shares);
            let mut branches = 0;
            each_step(&mut class.path, &mut |step| {
                if let Step::OneOf { branches: choices } = step
                    && wanted.is_some()
                {
                    branches = choices.len();
                    if let Some(shares) = wanted.take_if(|shares| shares.len() == choices.len()) {
                        for (choice, share) in choices.iter_mut().zip(shares) {
                            choice.share = share;
                        }
                    }
                }
            });
            if wanted.is_some() {
                return Err(
                    change.wrong(format!("the class has a choice of {branches}"), "give one share for each")
                );
            }
        }
        _ => {
            return Err(change.wrong(
                "this class knows no such change",
                "a closed class has population, think and mix, an open one rate and mix",
            ));
        }
    }
    Ok(())
}

/// Solves before and after, and sets them side by side.
///
/// # Errors
/// Those of [`apply`] and [`solve`].
pub fn what_if(
    network: &Network,
    changes: &[Change],
    method: SolutionMethod,
) -> Result<(Solution, Solution, ResultTable), Error> {
    let [before, after] = solve_both(network, &apply(network, changes)?, method)?;
    let table = beside(&before, &after);
    Ok((before, after, table))
}

/// Two networks solved alike: between Schweitzer's and another method the difference would be that
/// of the methods, and not that of the change.
fn solve_both(one: &Network, other: &Network, method: SolutionMethod) -> Result<[Solution; 2], Error> {
    let both = [solve(one, method)?, solve(other, method)?];
    if both[0].method != both[1].method && both.iter().any(|solution| solution.method == BY_SCHWEITZER) {
        return Ok([solve(one, SolutionMethod::Schweitzer)?, solve(other, SolutionMethod::Schweitzer)?]);
    }
    Ok(both)
}

/// Before and after: X and R of each class, U and Q of each station, wait and slots of each pool,
/// with the change.
pub fn beside(before: &Solution, after: &Solution) -> ResultTable {
    let columns = [
        ("what", Unit::Text),
        ("of", Unit::Text),
        ("unit", Unit::Text),
        ("before", Unit::Count),
        ("after", Unit::Count),
        ("change", Unit::Share),
    ];
    let mut table = ResultTable::new("Before and after", &columns);
    let mut row = |what: &str, of: &str, unit: &str, old: Option<f64>, new: Option<f64>| {
        let change = old.zip(new).filter(|(old, _)| *old != 0.0).map(|(old, new)| new / old - 1.0);
        table.push(vec![
            what.into(),
            of.into(),
            unit.into(),
            old.into(),
            new.into(),
            TableCell::from(change),
        ]);
    };
    let (old, new) = (before.last(), after.last());
    for class in &new.classes {
        let was = old.classes.iter().find(|c| c.name == class.name);
        row(
            quantities::THROUGHPUT.name,
            &class.name,
            "1/s",
            was.map(|c| c.throughput),
            Some(class.throughput),
        );
        row(quantities::RESPONSE_TIME.name, &class.name, "s", was.map(|c| c.response), Some(class.response));
    }
    for station in &new.stations {
        let was = old.stations.iter().find(|s| s.name == station.name);
        row(
            quantities::UTILIZATION.name,
            &station.name,
            "",
            was.map(|s| s.utilization),
            Some(station.utilization),
        );
        row(quantities::AT_STATION.name, &station.name, "", was.and_then(|s| s.queue), station.queue);
    }
    for pool in &new.pools {
        let was = old.pools.iter().find(|p| p.name == pool.name);
        row("slots held", &pool.name, "", was.map(|p| p.held), Some(pool.held));
        row("wait for a slot", &pool.name, "s", was.map(|p| p.wait), Some(pool.wait));
    }
    table
}

/// What [`beside`] tells, for people: each value with its own unit, since rates and times stand in
/// one column.
pub fn with_units(table: &ResultTable) -> ResultTable {
    let texts = ["what", "of", "before", "after"].map(|name| (name, Unit::Text));
    let columns: Vec<_> = texts.into_iter().chain([("change", Unit::Share)]).collect();
    let mut shown = ResultTable::new(table.title.as_str(), &columns);
    for row in &table.rows {
        let [what, of, base, old, new, change] = &row[..] else { continue };
        let mut known = [Unit::Seconds, Unit::PerSecond].into_iter();
        let unit = known.find(|unit| *base == unit.base().into()).unwrap_or(Unit::Count);
        let cell = |cell: &TableCell| -> TableCell {
            match cell {
                TableCell::Number(value) => unit.show(*value).into(),
                other => other.clone(),
            }
        };
        shown.push(vec![what.clone(), of.clone(), cell(old), cell(new), change.clone()]);
    }
    shown
}

/// Percentiles of each class's response time before and after, simulated with the same random
/// numbers, and the warnings of both simulations. How well they are known is the larger half width
/// of the two, relative to the value.
///
/// # Errors
/// Those of [`apply`] and [`simulate::simulate`].
pub fn percentiles(
    network: &Network,
    changes: &[Change],
    settings: &SimulationSettings,
) -> Result<(ResultTable, Vec<String>), Error> {
    let simulated = |network: &Network| {
        simulate::simulate(network, settings, &mut |_: &simulate::SimulationProgress| {
            ControlFlow::Continue(())
        })
    };
    let (before, after) = (simulated(network)?, simulated(&apply(network, changes)?)?);
    let columns = [
        ("class", Unit::Text),
        ("percentile", Unit::Text),
        ("before", Unit::Seconds),
        ("after", Unit::Seconds),
        ("change", Unit::Share),
        ("known to ±", Unit::Share),
    ];
    let mut table = ResultTable::new("Percentiles of the response time, simulated", &columns);
    let known = |one: &SimulatedEstimate| Some(one.half_width()? / one.value);
    for (old, new) in before.classes.iter().zip(&after.classes) {
        for (was, is) in old.percentiles.iter().zip(&new.percentiles) {
            let widths = known(&was.response).zip(known(&is.response));
            table.push(vec![
                new.name.as_str().into(),
                percentile_name(was.share).into(),
                was.response.value.into(),
                is.response.value.into(),
                (is.response.value / was.response.value - 1.0).into(),
                widths.map(|(was, is)| was.max(is)).into(),
            ]);
        }
    }
    let warnings = [("before", &before), ("after", &after)].into_iter().flat_map(|(when, simulated)| {
        simulated.warnings.iter().map(move |warning| format!("{when}: {warning}"))
    });
    Ok((table, warnings.collect()))
}

/// Of 0.99999, p99.999.
fn percentile_name(share: f64) -> String {
    format!("p{}", percent(share))
}

/// What matters most: for each station, by how many percent X (all classes) and R of the first
/// class change when it is 1 % faster, from solving with half a percent more and less (as it is,
/// where with less it could not keep up). The strongest first.
///
/// In a product-form network of one closed class this is Q(N) − Q(N − 1) exactly
/// ([`crate::single::Sweep::elasticity`]).
///
/// # Errors
/// Those of [`solve`]; [`Error::TooLarge`] for more than 500 stations.
pub fn sensitivity(network: &Network, method: SolutionMethod) -> Result<ResultTable, Error> {
    let columns =
        [("station", Unit::Text), ("of throughput", Unit::Count), ("of response time", Unit::Count)];
    let mut table = ResultTable::new("Change in percent when a station is 1 % faster", &columns);
    let count = network.stations.len();
    if count > MOST_CHANGED {
        return Err(Error::TooLarge {
            what: format!("each of {count} stations would be changed alone: {MOST_CHANGED} are the most"),
            hint: "change those that matter, as `krarup model whatif` does".into(),
        });
    }
    let step = 0.005_f64;
    let mut rows = Vec::new();
    for (station, there) in network.stations.iter().enumerate() {
        let at = |factor: f64| {
            let mut changed = network.clone();
            changed.stations[station].factor *= factor;
            changed
        };
        let (faster, least) = (at(1.0 + step), 1.0 - step);
        let (solutions, least) = match solve_both(&faster, &at(least), method) {
            Err(Error::Unstable { .. }) => (solve_both(&faster, network, method)?, 1.0),
            found => (found?, least),
        };
        let [up, down] = solutions.map(|solution| {
            let classes = &solution.last().classes;
            (classes.iter().map(|c| c.throughput).sum::<f64>(), classes[0].response)
        });
        let logarithm = ((1.0 + step) / least).ln();
        rows.push((there.name.clone(), (up.0 / down.0).ln() / logarithm, (up.1 / down.1).ln() / logarithm));
    }
    rows.sort_by(|a, b| (b.1.abs() + b.2.abs()).total_cmp(&(a.1.abs() + a.2.abs())));
    for (name, throughput, response) in rows {
        table.push(vec![name.into(), throughput.into(), response.into()]);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{EXAMPLE, from_toml};
    use crate::single::{self, ClassStation};

    fn changes(texts: &[&str]) -> Vec<Change> {
        texts.iter().map(|t| t.parse().unwrap()).collect()
    }

    fn example() -> Network {
        // Few clients, so that the tests are quick.
        apply(&from_toml(EXAMPLE).unwrap(), &changes(&["get.population=40"])).unwrap()
    }

    #[test]
    fn a_link_twice_as_wide_carries_twice_as_much() {
        let (before, after, table) =
            what_if(&example(), &changes(&["uplink.speed=2"]), SolutionMethod::Auto).unwrap();
        assert_eq!(table.rows[0][0], "throughput".into());
        let ratio = after.last().classes[0].throughput / before.last().classes[0].throughput;
        assert!((ratio - 2.0).abs() < 0.01, "{ratio}");
        let TableCell::Number(change) = table.rows[0][5] else { panic!("no change") };
        assert!((change - (ratio - 1.0)).abs() < 1e-12);
    }

    /// Of three copies one goes to a station that is changed: its servers and its speed count.
    #[test]
    fn a_station_of_a_fork_may_change_alone() {
        let network = from_toml(
            r#"station = [{ name = "a", servers = 4 }, { name = "b", servers = 4 }, { name = "c", servers = 1 }]
               class = [{ name = "set", population = 60, path = [{ fork = ["a", "b", "c"], service = 0.004 }] }]"#,
        )
        .unwrap();
        let x = |change: &str| {
            let (_, after, _) = what_if(&network, &changes(&[change]), SolutionMethod::Auto).unwrap();
            after.last().classes[0].throughput
        };
        let before = x("set.population=60");
        assert!((before / 250.0 - 1.0).abs() < 0.01, "{before}");
        assert!((x("c.servers=2") / 500.0 - 1.0).abs() < 0.03, "{}", x("c.servers=2"));
        assert!((x("c.speed=2") / 500.0 - 1.0).abs() < 0.01, "{}", x("c.speed=2"));
        let table = sensitivity(&network, SolutionMethod::Auto).unwrap();
        assert_eq!(table.rows[0][0], "c".into());
        assert!(table.numbers("of throughput")[0].unwrap() > 0.9);
        let limits = crate::limits::of(&network).unwrap();
        assert_eq!((limits.bottleneck.as_deref(), limits.capacity), (Some("c"), 250.0));
    }

    #[test]
    fn replicas_halve_the_load_of_each() {
        let (before, after, _) =
            what_if(&example(), &changes(&["memcached.replicas=2"]), SolutionMethod::Auto).unwrap();
        let load =
            |s: &Solution, name: &str| s.last().stations.iter().find(|s| s.name == name).unwrap().utilization;
        assert!((load(&after, "memcached") - load(&before, "memcached") / 2.0).abs() < 1e-3);
        assert!((load(&after, "memcached 2") - load(&after, "memcached")).abs() < 1e-9);
    }

    #[test]
    fn clients_workers_and_think_time_can_change() {
        let changed =
            apply(&example(), &changes(&["get.population=7", "get.think=3ms", "workers.size=2"])).unwrap();
        assert_eq!(changed.classes[0].population(), Some(7));
        assert!((changed.classes[0].think() - 3e-3).abs() < 1e-15);
        assert_eq!(changed.pools[0].size, 2);
    }

    #[test]
    fn a_mix_needs_a_share_for_each_branch() {
        let mut network = example();
        let path = std::mem::take(&mut network.classes[0].path);
        let branch = |path| crate::network::Branch { share: 1.0, path };
        network.classes[0].path = vec![Step::OneOf { branches: vec![branch(path), branch(Vec::new())] }];
        let changed = apply(&network, &changes(&["get.mix=9:1"])).unwrap();
        assert!((changed.demands()[0][1].visits - 0.9).abs() < 1e-12);
        let error = apply(&network, &changes(&["get.mix=9:1:1"])).unwrap_err();
        assert!(error.to_string().contains("choice of 2"), "{error}");
    }

    #[test]
    fn a_change_that_fits_nothing_says_what_there_is() {
        let error = apply(&example(), &changes(&["memcache.speed=2"])).unwrap_err();
        assert!(error.hint().unwrap().contains("memcached"), "{error}");
        assert!(Change::from_str("faster please").is_err());
        assert!(apply(&example(), &changes(&["uplink.servers=2"])).is_err());
    }

    #[test]
    fn too_many_is_said_to_be_too_many() {
        for change in ["memcached.replicas=10001", "get.population=10000000000"] {
            let error = apply(&example(), &changes(&[change])).unwrap_err();
            assert!(error.to_string().contains("is too many"), "{error}");
        }
        let error = apply(&example(), &changes(&["get.population=1.5"])).unwrap_err();
        assert!(error.to_string().contains("is not a whole number"), "{error}");
    }

    #[test]
    fn percentiles_are_named_with_all_their_digits() {
        assert_eq!([0.5, 0.999, 0.999_99].map(percentile_name), ["p50", "p99.9", "p99.999"]);
    }

    #[test]
    fn warnings_of_both_simulations_are_told() {
        let network = from_toml(
            r#"station = [{ name = "s" }]
               class = [{ name = "c", rate = 0.5, path = [{ at = "s", service = 1 }] }]"#,
        )
        .unwrap();
        let settings = SimulationSettings { max_events: 5_000, ..SimulationSettings::default() };
        let (table, warnings) = percentiles(&network, &changes(&["s.speed=2"]), &settings).unwrap();
        assert_eq!(table.rows.len(), settings.percentiles.len());
        for when in ["before: ", "after: "] {
            let told =
                |warning: &String| warning.starts_with(when) && warning.contains("the most events allowed");
            assert!(warnings.iter().any(told), "{warnings:?}");
        }
    }

    #[test]
    fn a_network_too_large_to_change_each_station_is_refused() {
        let mut network = example();
        let one = network.stations[0].clone();
        let further = |number: usize| Station { name: format!("further {number}"), ..one.clone() };
        network.stations.extend((0..MOST_CHANGED).map(further));
        let refused = sensitivity(&network, SolutionMethod::Auto);
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    }

    /// Half a percent slower it could not keep up. R = S/(1 − ρ), from 0.997 busy to 0.997/1.005.
    #[test]
    fn a_station_near_saturation_has_its_sensitivity() {
        let network = from_toml(
            r#"station = [{ name = "db" }]
               class = [{ name = "c", rate = 997, path = [{ at = "db", service = 0.001 }] }]"#,
        )
        .unwrap();
        let table = sensitivity(&network, SolutionMethod::Auto).unwrap();
        let response = |speed: f64| 0.001 / speed / (1.0 - 0.997 / speed);
        let expected = (response(1.005) / response(1.0)).ln() / 1.005_f64.ln();
        let found = table.numbers("of response time")[0].unwrap();
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        let full = apply(&network, &changes(&["c.rate=1001"])).unwrap();
        assert!(matches!(sensitivity(&full, SolutionMethod::Auto), Err(Error::Unstable { .. })));
    }

    #[test]
    fn sensitivity_is_the_exact_elasticity_where_there_is_one() {
        let network = from_toml(
            r#"station = [{ name = "a" }, { name = "b", servers = 3 }]
               class = [{ name = "c", population = 12, think = 1, path = [{ at = "a", service = 0.05 }, { at = "b", service = 0.3 }] }]"#,
        )
        .unwrap();
        let exact =
            single::solve(&[ClassStation::fixed("a", 0.05), ClassStation::servers("b", 0.3, 3)], 1.0, 12)
                .unwrap();
        let elasticity = exact.elasticity(12);
        let table = sensitivity(&network, SolutionMethod::Auto).unwrap();
        assert_eq!(table.rows[0][0], "b".into());
        let found = table.numbers("of throughput");
        assert!((found[0].unwrap() + elasticity[1]).abs() < 1e-3);
        assert!((found[1].unwrap() + elasticity[0]).abs() < 1e-3);
    }
}
