//! What one request demands of each resource, by the utilization law, and the rate at which each
//! would be full.
//!
//! ```text
//! B = X · D      processors or links kept busy, throughput, demand: a line through zero over the cells of one workload
//! X ≤ C / D      C: how many of it can be busy at once
//! ```
//! The least of these bounds is the bottleneck's. What a process does without requests is in its
//! demand, too, so that bounds are a little low.

use krarup_stats::regression::{Intercept, Predictor, Regression};
use krarup_stats::{Estimate, USUAL_LEVEL};
use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::quantity::{IntervalBasis, Quantity};
use crate::trial::SystemPart;

/// What kind of thing is demanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Processor time of a process.
    Processor,
    /// Time of a host's link.
    Link,
}

/// What the requests of one workload demand of one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredDemand {
    /// The workload.
    pub workload: String,
    /// Where the resource is.
    pub station: SystemPart,
    /// Its name.
    pub name: String,
    /// What it is.
    pub resource: Resource,
    /// D: time of it for one request.
    pub demand: Quantity,
    /// The rate at which it would be full, at least the highest that was measured.
    pub bound: f64,
    /// The highest throughput measured, as a share of the bound.
    pub reached: f64,
}

/// How much of each resource a cell used: station, name, what it is, how many of it were busy, and
/// how many can be.
type Use<'a> = (SystemPart, &'a str, Resource, f64, f64);

fn used(cell: &Cell) -> impl Iterator<Item = Use<'_>> {
    let processes = cell
        .load
        .iter()
        .map(|one| (one.station, one.name.as_str(), Resource::Processor, one.busy, one.cores));
    let links =
        cell.links.iter().map(|one| (one.station, one.name.as_str(), Resource::Link, one.utilization(), 1.0));
    processes.chain(links)
}

/// The demands of each workload that was measured with two numbers of clients or more, nearest to
/// their bounds first.
pub fn demands(all: &[Cell]) -> Vec<MeasuredDemand> {
    let of_workload = |workload: &str| {
        let cells: Vec<&Cell> = all.iter().filter(|cell| cell.levels.workload == workload).collect();
        let mut found: Vec<MeasuredDemand> =
            used(cells.first()?).filter_map(|resource| demand(workload, &cells, resource)).collect();
        found.sort_by(|one, other| other.reached.total_cmp(&one.reached));
        Some(found)
    };
    let mut workloads: Vec<&str> = Vec::new();
    for cell in all {
        if !workloads.contains(&cell.levels.workload.as_str()) {
            workloads.push(&cell.levels.workload);
        }
    }
    workloads.into_iter().filter_map(of_workload).flatten().collect()
}

fn demand(workload: &str, cells: &[&Cell], (station, name, resource, ..): Use<'_>) -> Option<MeasuredDemand> {
    let of_cell = |cell: &&Cell| {
        let found =
            used(cell).find(|(at, known, what, ..)| (*at, *known, *what) == (station, name, resource));
        found.map(|(.., busy, most)| (cell.throughput.value, busy, most))
    };
    let points: Vec<(f64, f64, f64)> = cells.iter().filter_map(of_cell).collect();
    let (rates, busy): (Vec<f64>, Vec<f64>) = points.iter().map(|(x, busy, _)| (*x, *busy)).unzip();
    let most = points.iter().map(|(.., most)| *most).fold(0.0, f64::max);
    let line = Regression::fit(&[Predictor::new("X", &rates)], Intercept::Zero, &busy, USUAL_LEVEL).ok()?;
    let Estimate { value, interval, .. } = line.coefficients.first()?.estimate;
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let bound = (most / value).max(highest);
    let reached = highest / bound;
    (value > 0.0 && bound.is_finite() && reached.is_finite()).then(|| MeasuredDemand {
        workload: workload.to_owned(),
        station,
        name: name.to_owned(),
        resource,
        demand: Quantity {
            value,
            interval: Some(interval),
            n: rates.len() as u64,
            basis: IntervalBasis::Repetitions,
        },
        bound,
        reached,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::{HostLink, ProcessCpu};

    #[test]
    fn a_demand_is_the_slope_of_utilization_over_throughput() {
        let trials: Vec<_> = [(4, 10_000.0), (8, 20_000.0), (16, 30_000.0)]
            .map(|(clients, rate)| {
                let mut trial = steady_trial("read", clients, rate);
                let busy = 20e-6 * rate * trial.length;
                trial.cpu = vec![ProcessCpu {
                    station: SystemPart::Middleware,
                    name: "proxy".into(),
                    busy,
                    cores: 1.0,
                }];
                let link = |name: &str, bits: f64| HostLink {
                    station: SystemPart::Server,
                    name: name.into(),
                    bandwidth: 1e9,
                    sent: bits * rate,
                };
                trial.links = vec![link("s1", 33_000.0), link("s2", 100.0)];
                trial
            })
            .to_vec();
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let found: Vec<(&str, Resource, f64, f64)> = results
            .demands
            .iter()
            .map(|one| (one.name.as_str(), one.resource, (one.demand.value * 1e9).round(), one.bound.round()))
            .collect();
        assert_eq!(
            found,
            [
                ("s1", Resource::Link, 33_000.0, 30_303.0),
                ("proxy", Resource::Processor, 20_000.0, 50_000.0),
                ("s2", Resource::Link, 100.0, 10_000_000.0),
            ]
        );
        assert!((results.demands[0].reached - 0.99).abs() < 1e-6);
    }

    #[test]
    fn a_processor_and_a_link_that_are_equally_full_on_a_scaled_testbed_are_demanded_alike() {
        let trials: Vec<_> = [(4, 1_000.0), (8, 2_000.0)]
            .map(|(clients, rate)| {
                let mut trial = steady_trial("read", clients, rate);
                let (station, share, used) = (SystemPart::Server, 1.0 / 16.0, rate / 4_000.0);
                let busy = used * share * trial.length;
                trial.cpu = vec![ProcessCpu { station, name: "s".into(), busy, cores: share }];
                trial.links = vec![HostLink { station, name: "s1".into(), bandwidth: 1e6, sent: used * 1e6 }];
                trial.scaled_back(16.0)
            })
            .to_vec();
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let demand = |resource| {
            let found = results.demands.iter().find(|one| one.resource == resource);
            found.unwrap().demand.value
        };
        // One over the rate at which both are full.
        for found in [demand(Resource::Processor), demand(Resource::Link)] {
            assert!((found * 64_000.0 - 1.0).abs() < 1e-3, "{found}");
        }
    }

    #[test]
    fn one_cell_makes_no_line() {
        let mut trial = steady_trial("read", 4, 10_000.0);
        trial.cpu =
            vec![ProcessCpu { station: SystemPart::Middleware, name: "proxy".into(), busy: 1.0, cores: 1.0 }];
        assert!(summarise("t", Environment::default(), &[trial]).unwrap().demands.is_empty());
    }
}
