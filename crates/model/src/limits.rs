//! What bounds a network whatever its distributions, and how near measurements come to a model.

use krarup_record::quantities;
use krarup_units::{Seconds, Unit};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::bounds::{Demands, Range};
use crate::calibrate::{Calibration, PopulationMeasurement};
use crate::layered::{self, PathPart};
use crate::network::{Feature, Network, StationKind};
use crate::single::Pace;
use crate::solve::{Solution, Treatment, treatment};
use crate::table::ResultTable;

/// What each station and pool of a network can do at most, and what follows for the whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityLimits {
    /// By station, pool and fork.
    pub parts: Vec<PartLimit>,
    /// D: the shortest time inside, without waiting.
    pub shortest: Seconds,
    /// The longest time inside of a request that is alone, at the slowest rate of each station.
    #[serde(default)]
    pub slowest: Seconds,
    /// Z.
    pub think: Seconds,
    /// N* = (D + Z)·capacity of the bottleneck; infinite (and `null` in JSON) where nothing
    /// saturates.
    #[serde(deserialize_with = "crate::infinite::number")]
    pub knee: f64,
    /// Name of the bottleneck; none where nothing saturates.
    pub bottleneck: Option<String>,
    /// X at most, at any load.
    #[serde(deserialize_with = "crate::infinite::number")]
    pub capacity: f64,
    /// Demands at single servers, delays counted as think time, where the network has product form:
    /// tighter bounds hold.
    #[serde(skip)]
    pub product_form: Option<Demands>,
}

/// What one part can do at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartLimit {
    /// Name of the station or pool.
    pub name: String,
    /// D: its shortest time per request.
    pub demand: Seconds,
    /// Requests per second that it can take; infinite at a delay.
    #[serde(deserialize_with = "crate::infinite::number")]
    pub capacity: f64,
}

/// The limits of a network of one class.
///
/// # Errors
/// [`Error::Refused`] for several classes, and for a closed one with forks to servers that do not
/// wait for all answers; [`Error::Invalid`] for a closed one that takes no time; what
/// [`Network::check`] finds.
pub fn of(network: &Network) -> Result<CapacityLimits, Error> {
    network.check()?;
    let [class] = &network.classes[..] else {
        return Err(several("the bounds", &network.classes[1].name));
    };
    let mut limits = Vec::new();
    let parts = layered::parts(network, class)?;
    if let (Some(_), Some(name)) = (class.population(), late_copies(&parts)) {
        return Err(Error::Refused {
            solver: "the bounds".into(),
            feature: format!("a fork that does not wait for all answers, to `{name}`"),
            hint: "late copies load servers for ever longer, and bound nothing: simulate".into(),
        });
    }
    let shortest = collect(network, &parts, &mut limits);
    let slowest = slowest(network, &parts);
    let think = class.think();
    if class.population().is_some() && slowest + think <= 0.0 {
        return Err(Error::takes_no_time());
    }
    let least =
        limits.iter().filter(|l| l.capacity.is_finite()).min_by(|a, b| a.capacity.total_cmp(&b.capacity));
    let capacity = least.map_or(f64::INFINITY, |l| l.capacity);
    let bottleneck = least.map(|l| l.name.clone());
    let knee = if capacity.is_finite() { (shortest + think) * capacity } else { capacity };
    let product_form = product_form(network);
    Ok(CapacityLimits { shortest, slowest, think, knee, bottleneck, capacity, parts: limits, product_form })
}

/// Why there is nothing for several classes.
fn several(solver: &str, second: &str) -> Error {
    Error::Refused {
        solver: solver.into(),
        feature: format!("several classes, the second of which is `{second}`"),
        hint: "leave one class in the file, or solve".into(),
    }
}

/// A station at which copies wait after their request has gone on.
fn late_copies(parts: &[PathPart]) -> Option<&str> {
    parts.iter().find_map(|part| match part {
        PathPart::Station { .. } => None,
        PathPart::Pool { parts, .. } => late_copies(parts),
        PathPart::Cluster { cluster, .. } => {
            let partial = cluster.forks.iter().filter(|fork| fork.needed < fork.choose);
            let mut sites = partial.flat_map(|fork| &fork.service).map(|(site, _)| &cluster.sites[*site]);
            sites.find(|site| site.pace != Pace::Delay).map(|site| site.name.as_str())
        }
    })
}

/// The demands of a closed class at single servers and delays alone, all of it exactly as product
/// form has it.
fn product_form(network: &Network) -> Option<Demands> {
    let class = network.classes.first().filter(|class| class.population().is_some())?;
    let exact = |feature: &Feature| matches!(treatment(network, feature).1, Treatment::Exact);
    if !network.features().iter().all(exact) {
        return None;
    }
    let mut demands = Vec::new();
    let mut think = class.think();
    for part in layered::parts(network, class).ok()? {
        let PathPart::Station { station, demand, .. } = part else { return None };
        match network.stations[station].kind {
            StationKind::Delay => think += demand,
            StationKind::Servers { count: 1 } | StationKind::Link { .. } => demands.push(demand),
            StationKind::Servers { .. } | StationKind::LoadDependent { .. } => return None,
        }
    }
    (!demands.is_empty()).then(|| Demands::single_servers(&demands, think))
}

/// The most a station ever does at once, and the shortest a request ever stays, both relative to
/// one server alone.
pub(crate) fn extremes(kind: &StationKind) -> (f64, f64) {
    match kind {
        StationKind::Servers { count } => (f64::from(*count), 1.0),
        StationKind::Delay => (f64::INFINITY, 1.0),
        StationKind::Link { .. } => (1.0, 1.0),
        StationKind::LoadDependent { rates } => (
            rates.iter().copied().fold(0.0, f64::max),
            rates.iter().enumerate().map(|(i, r)| (i + 1) as f64 / r).fold(f64::INFINITY, f64::min),
        ),
    }
}

/// What the parts take one after another, each at its slowest: so long a request takes that shares
/// its way with no other, and N of them take no more than N times as long.
fn slowest(network: &Network, parts: &[PathPart]) -> Seconds {
    let least = |kind: &StationKind| match kind {
        StationKind::LoadDependent { rates } => rates.iter().copied().fold(f64::INFINITY, f64::min),
        _ => 1.0,
    };
    parts
        .iter()
        .map(|part| match part {
            PathPart::Station { station, demand, .. } => demand / least(&network.stations[*station].kind),
            PathPart::Pool { parts, .. } => slowest(network, parts),
            PathPart::Cluster { stations, cluster } => {
                let visits = stations.iter().zip(&cluster.sites);
                let least = |station: usize| least(&network.stations[station].kind);
                visits.map(|(station, site)| site.demand / least(*station)).sum::<f64>()
                    + cluster
                        .forks
                        .iter()
                        .map(|fork| {
                            // Alone, a copy is served at the first rate, which may be a fast one.
                            let slower = fork.service.iter().map(|(site, _)| {
                                let first = network.stations[stations[*site]].speed(1);
                                first.max(1.0) / least(stations[*site]).min(1.0)
                            });
                            fork.weight * cluster.alone(fork) * slower.fold(1.0, f64::max)
                        })
                        .sum::<f64>()
            }
        })
        .sum()
}

/// Adds the limits of the parts and returns their shortest time.
fn collect(network: &Network, parts: &[PathPart], limits: &mut Vec<PartLimit>) -> Seconds {
    let mut total = 0.0;
    for part in parts {
        match part {
            PathPart::Station { station, demand, .. } => {
                let there = &network.stations[*station];
                let (most, stretch) = extremes(&there.kind);
                total += demand * stretch;
                limits.push(PartLimit {
                    name: there.name.clone(),
                    demand: demand * stretch,
                    capacity: if *demand > 0.0 { most / demand } else { f64::INFINITY },
                });
            }
            PathPart::Cluster { stations, cluster } => {
                for fork in &cluster.forks {
                    total += fork.weight * cluster.shortest(fork);
                }
                for (place, station) in stations.iter().enumerate() {
                    let there = &network.stations[*station];
                    let (most, stretch) = extremes(&there.kind);
                    total += cluster.sites[place].demand * stretch;
                    let demand = cluster.demand(place);
                    let capacity = if demand > 0.0 { most / demand } else { f64::INFINITY };
                    limits.push(PartLimit { name: there.name.clone(), demand: demand * stretch, capacity });
                }
            }
            PathPart::Pool { pool, parts } => {
                let inside = collect(network, parts, limits);
                total += inside;
                let pool = &network.pools[*pool];
                let capacity = f64::from(pool.size) / inside;
                limits.push(PartLimit { name: pool.name.clone(), demand: inside, capacity });
            }
        }
    }
    total
}

impl CapacityLimits {
    /// Asymptotic bounds of X with `population` customers.
    pub fn asymptotic(&self, population: f64) -> Range {
        Range {
            low: population / (population * self.slowest + self.think),
            high: self.capacity.min(population / (self.shortest + self.think)),
        }
    }

    /// Each part, the tightest first.
    pub fn table(&self) -> ResultTable {
        let columns = [
            ("station or pool", Unit::Text),
            quantities::SERVICE_DEMAND.column(),
            quantities::CAPACITY.column(),
        ];
        let mut table = ResultTable::new("What each part can do", &columns);
        let mut sorted = self.parts.clone();
        sorted.sort_by(|a, b| a.capacity.total_cmp(&b.capacity));
        for limit in sorted {
            table.push(vec![limit.name.into(), limit.demand.into(), limit.capacity.into()]);
        }
        table
    }

    /// Bounds of X and R at some populations.
    pub fn bounds_table(&self, populations: &[u64]) -> ResultTable {
        let columns = [
            quantities::POPULATION.column(),
            ("throughput at least", Unit::PerSecond),
            ("throughput at most", Unit::PerSecond),
            ("response time at least", Unit::Seconds),
            ("response time at most", Unit::Seconds),
        ];
        let mut table = ResultTable::new("Asymptotic bounds", &columns);
        for population in populations {
            let n = *population as f64;
            let range = self.asymptotic(n);
            let response = |throughput: f64| n / throughput - self.think;
            table.push(vec![
                n.into(),
                range.low.into(),
                range.high.into(),
                response(range.high).into(),
                response(range.low).into(),
            ]);
        }
        table
    }
}

impl CapacityLimits {
    /// Balanced job bounds and geometric bounds of X at some populations, where they hold.
    pub fn product_form_table(&self, populations: &[u64]) -> Option<ResultTable> {
        let demands = self.product_form.as_ref()?;
        let columns = [
            quantities::POPULATION.column(),
            ("balanced jobs, at least", Unit::PerSecond),
            ("balanced jobs, at most", Unit::PerSecond),
            ("geometric, at least", Unit::PerSecond),
            ("geometric, at most", Unit::PerSecond),
        ];
        let mut table = ResultTable::new("Tighter bounds of throughput, for product form", &columns);
        for population in populations {
            let n = *population as f64;
            let (balanced, geometric) = (demands.balanced(n).ok()?, demands.geometric(n).ok()?);
            table.push(vec![
                n.into(),
                balanced.low.into(),
                balanced.high.into(),
                geometric.low.into(),
                geometric.high.into(),
            ]);
        }
        Some(table)
    }
}

const COMPARED: [(&str, Unit); 8] = [
    quantities::POPULATION.column(),
    ("throughput measured", Unit::PerSecond),
    ("throughput model", Unit::PerSecond),
    ("error of X", Unit::Share),
    ("response time measured", Unit::Seconds),
    ("response time model", Unit::Seconds),
    ("error of R", Unit::Share),
    ("calibrated on", Unit::Text),
];

/// A solution of a closed class beside what was measured. Rows beyond its population are left
/// empty.
///
/// # Errors
/// [`Error::Refused`] for several classes: rows do not say of which they are.
pub fn compare_solution(
    solution: &Solution,
    measured: &[PopulationMeasurement],
) -> Result<ResultTable, Error> {
    if let Some(second) = solution.last().classes.get(1) {
        return Err(several("the comparison with rows", &second.name));
    }
    let mut table = ResultTable::new(format!("{}: measured and model", solution.network), &COMPARED);
    for row in measured {
        let class = solution
            .points
            .iter()
            .find_map(|p| p.classes.iter().find(|c| c.population == Some(row.population)));
        let (x, r) = (class.map(|c| c.throughput), class.map(|c| c.response));
        table.push(vec![
            (row.population as f64).into(),
            row.throughput.into(),
            x.into(),
            x.map(|x| x / row.throughput - 1.0).into(),
            row.response.into(),
            r.into(),
            row.response.zip(r).map(|(measured, model)| model / measured - 1.0).into(),
            "no".into(),
        ]);
    }
    Ok(table)
}

/// A calibrated model beside rows that were measured; those of a configuration that it was
/// calibrated on are marked, since agreement there is no evidence, measured again or not.
///
/// # Errors
/// As [`crate::flow::FlowModel::solve`].
pub fn compare_calibration(
    calibration: &Calibration,
    rows: &[crate::calibrate::CalibrationRow],
) -> Result<ResultTable, Error> {
    let columns: Vec<_> = [("workers", Unit::Count)].into_iter().chain(COMPARED).collect();
    let mut table = ResultTable::new(format!("measured and model ({})", calibration.model.name()), &columns);
    for row in rows {
        let answer = calibration.model.solve(row.population as usize, row.workers as usize)?;
        let used =
            calibration.rows.iter().any(|r| (r.population, r.workers) == (row.population, row.workers));
        table.push(vec![
            (row.workers as f64).into(),
            (row.population as f64).into(),
            row.throughput.into(),
            answer.throughput.into(),
            (answer.throughput / row.throughput - 1.0).into(),
            row.response.into(),
            answer.response.into(),
            (answer.response / row.response - 1.0).into(),
            if used { "yes" } else { "no" }.into(),
        ]);
    }
    Ok(table)
}

/// Mean |error| of X and R over the rows of a comparison that were not used for calibration; none
/// without any, and none of R where it was not measured.
pub fn mean_error(comparison: &ResultTable) -> Option<(f64, Option<f64>)> {
    let used = comparison.columns.iter().position(|c| c.name == "calibrated on")?;
    let held_out = |column: &str| -> Option<f64> {
        let errors: Vec<f64> = comparison
            .numbers(column)
            .into_iter()
            .zip(&comparison.rows)
            .filter(|(_, row)| row[used] == "no".into())
            .filter_map(|(error, _)| error.map(f64::abs))
            .collect();
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    };
    Some((held_out("error of X")?, held_out("error of R")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::calibrate::{CalibrationRow, CurveFamily, calibrate_as};
    use crate::form::{EXAMPLE, from_toml};
    use crate::solve::{SolutionMethod, solve};

    #[test]
    fn the_example_is_limited_by_its_link() {
        let limits = of(&from_toml(EXAMPLE).unwrap()).unwrap();
        assert_eq!(limits.bottleneck.as_deref(), Some("uplink"));
        assert!((limits.capacity - 101e6 / 8.0 / 4288.0).abs() < 1e-6);
        let solution = solve(&from_toml(EXAMPLE).unwrap(), SolutionMethod::Auto).unwrap();
        for point in &solution.points {
            let class = &point.classes[0];
            let range = limits.asymptotic(class.population.unwrap() as f64);
            assert!(range.holds(class.throughput, 1e-9));
        }
    }

    #[test]
    fn product_form_has_tighter_bounds_and_held_workers_have_none() {
        let network = from_toml(
            r#"station = [{ name = "a" }, { name = "b" }, { name = "net", delay = true }]
               class = [{ name = "c", population = 30, think = 1, path = [
                   { at = "a", service = 0.05 }, { at = "b", service = 0.03 }, { at = "net", service = 0.2 }] }]"#,
        )
        .unwrap();
        let limits = of(&network).unwrap();
        let solution = solve(&network, SolutionMethod::Auto).unwrap();
        let table = limits.product_form_table(&[1, 10, 30]).unwrap();
        let names: BTreeSet<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names.len(), table.columns.len(), "a program reads columns by their names");
        for row in &table.rows {
            let numbers: Vec<f64> = row
                .iter()
                .map(
                    |cell| {
                        if let crate::table::TableCell::Number(number) = cell { *number } else { f64::NAN }
                    },
                )
                .collect();
            let [n, low, high, tighter_low, tighter_high] = numbers[..] else { panic!("{row:?}") };
            let x = solution.points[n as usize - 1].classes[0].throughput;
            let range = limits.asymptotic(n);
            assert!(range.low <= low * (1.0 + 1e-9) && high <= range.high * (1.0 + 1e-9), "{n}");
            assert!(low <= tighter_low && tighter_high <= high, "{n}");
            assert!(tighter_low <= x * (1.0 + 1e-9) && x <= tighter_high * (1.0 + 1e-9), "{n}: {x}");
        }
        assert!(of(&from_toml(EXAMPLE).unwrap()).unwrap().product_form_table(&[1]).is_none());
    }

    #[test]
    fn limits_without_a_bottleneck_are_read_back() {
        let network = from_toml(
            r#"station = [{ name = "net", delay = true }]
               class = [{ name = "c", population = 3, think = 1, path = [{ at = "net", service = 1 }] }]"#,
        )
        .unwrap();
        let limits = of(&network).unwrap();
        assert!(limits.knee.is_infinite());
        let text = serde_json::to_string(&limits).unwrap();
        assert_eq!(serde_json::from_str::<CapacityLimits>(&text).unwrap(), limits);
    }

    /// As solving it does: nothing bounds X, and the knee would be 0 · ∞.
    #[test]
    fn a_closed_network_that_takes_no_time_has_no_bounds() {
        let network = |come: &str| {
            let class = format!(r#"{{ name = "c", {come}, path = [{{ at = "db", service = 0 }}] }}"#);
            from_toml(&format!("station = [{{ name = \"db\" }}]\nclass = [{class}]")).unwrap()
        };
        let error = of(&network("population = 3")).unwrap_err();
        assert_eq!(error.to_string(), "network: takes no time at all");
        assert!(error.hint().is_some(), "{error:?}");
        // What arrives, or thinks, comes at a rate of its own.
        for come in ["rate = 3", "population = 3, think = 1"] {
            let limits = of(&network(come)).unwrap();
            assert!(limits.knee.is_infinite() && limits.bottleneck.is_none(), "{come}: {limits:?}");
        }
    }

    #[test]
    fn a_small_pool_may_be_the_bottleneck() {
        let small = EXAMPLE.replace("size = 64", "size = 1");
        let limits = of(&from_toml(&small).unwrap()).unwrap();
        assert_eq!(limits.bottleneck.as_deref(), Some("workers"));
    }

    #[test]
    fn forks_have_bounds_where_these_hold() {
        let network = |station: &str, wait: &str, population: u64| {
            let source = format!(
                r#"station = [{{ name = "s1"{station} }}, {{ name = "s2"{station} }}]
                   class = [{{ name = "set", population = {population}, path = [
                       {{ fork = ["s1", "s2"], wait = "{wait}", service = 0.6 }}] }}]"#
            );
            from_toml(&source).unwrap()
        };
        // One request waits 0.3 s for the first of two, and each server needs 0.6 s for its copy.
        let error = of(&network("", "any", 1)).unwrap_err();
        assert!(matches!(&error, Error::Refused { hint, .. } if hint.contains("simulate")), "{error}");
        assert!(of(&network(", delay = true", "any", 1)).is_ok());
        // Fast alone, and slow in company.
        let range = of(&network(", rates = [2, 1]", "all", 50)).unwrap().asymptotic(50.0);
        assert!(range.low <= 1.0 / 0.6 && range.low > 0.0, "{range:?}");
    }

    #[test]
    fn a_calibrated_configuration_that_is_measured_again_is_no_new_row() {
        let row = |(population, workers): (u32, u32)| {
            let said = crate::station::mmm_n(population, 2e-3, 4e-3, workers).unwrap();
            CalibrationRow::measured(u64::from(population), u64::from(workers), said.throughput)
                .with_times(said.response, said.wait)
        };
        let rows = [(2, 4), (12, 4), (48, 4), (12, 8), (96, 8)].map(row);
        let calibration = calibrate_as(&rows, &[CurveFamily::Lines]).unwrap();
        let again = CalibrationRow { throughput: rows[1].throughput * 1.01, ..rows[1].clone() };
        let table = compare_calibration(&calibration, &[again, row((24, 8))]).unwrap();
        assert!(table.rows[0][8] == "yes".into() && table.rows[1][8] == "no".into(), "{table:?}");
    }

    #[test]
    fn errors_count_only_where_the_model_had_not_seen_the_row() {
        let solution = solve(&from_toml(EXAMPLE).unwrap(), SolutionMethod::Auto).unwrap();
        let x = solution.points[9].classes[0].throughput;
        let measured = [PopulationMeasurement { population: 10, throughput: x / 1.1, response: Some(1.0) }];
        let table = compare_solution(&solution, &measured).unwrap();
        assert!((mean_error(&table).unwrap().0 - 0.1).abs() < 1e-9);
        let without = measured.map(|row| PopulationMeasurement { response: None, ..row });
        let (of_x, of_r) = mean_error(&compare_solution(&solution, &without).unwrap()).unwrap();
        assert!((of_x - 0.1).abs() < 1e-9 && of_r.is_none(), "{of_x} {of_r:?}");
        let mut seen = table;
        seen.rows[0][7] = "yes".into();
        assert_eq!(mean_error(&seen), None);
    }

    /// A row tells how many clients there were, and not of which class.
    #[test]
    fn rows_beside_several_classes_are_refused_by_name() {
        let class = |name: &str| {
            format!(
                r#"{{ name = "{name}", population = 50, think = 1, path = [{{ at = "db", service = 0.01 }}] }}"#
            )
        };
        let source = format!("station = [{{ name = \"db\" }}]\nclass = [{}, {}]", class("get"), class("set"));
        let solution = solve(&from_toml(&source).unwrap(), SolutionMethod::Auto).unwrap();
        let measured = [PopulationMeasurement { population: 50, throughput: 49.0, response: Some(0.02) }];
        let error = compare_solution(&solution, &measured).unwrap_err();
        assert!(matches!(&error, Error::Refused { feature, .. } if feature.contains("`set`")), "{error}");
    }
}
