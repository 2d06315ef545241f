//! The highest throughput of each mix, and the fewest workers and clients that come near to it.

use serde::{Deserialize, Serialize};

use crate::blocks;
use crate::cell::Cell;
use crate::saturation;
use crate::trial::CellLevels;

/// A configuration within this share of the best is as good, and may be cheaper.
pub const NEAR: f64 = 0.05;

/// What it takes for one mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The mix: what distinguishes workloads but the number of workers.
    pub mix: String,
    /// The cell of the highest throughput.
    pub best: CellLevels,
    /// The cell with the fewest workers, then the fewest clients, within 5 % of it.
    pub least: CellLevels,
    /// The throughput there as a share of the best, over the repetitions that all of the mix have.
    pub share: f64,
}

/// A workload without its number of workers: `read, workers 8` is `read`.
pub fn mix(workload: &str) -> String {
    let parts: Vec<&str> = workload.split(", ").filter(|part| !is_workers(part)).collect();
    if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
}

fn is_workers(part: &str) -> bool {
    let number = part.strip_prefix("workers ").or_else(|| part.strip_prefix("worker threads "));
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

/// Workers of a cell: its middleware's, and more than any number where they are unlimited or there
/// is none.
fn workers(cell: &Cell) -> u32 {
    cell.middleware.as_ref().and_then(|middleware| middleware.workers).unwrap_or(u32::MAX)
}

/// One configuration for each mix that has a cell that is known well, in the order of the cells;
/// none where a cell that is not known well carries more for certain.
pub fn configurations(all: &[Cell]) -> Vec<Configuration> {
    let mut mixes: Vec<String> = Vec::new();
    for cell in all {
        let mix = mix(&cell.levels.workload);
        if !mixes.contains(&mix) {
            mixes.push(mix);
        }
    }
    let of = |mix_name: String| {
        let of_mix = || all.iter().filter(|cell| mix(&cell.levels.workload) == mix_name);
        let known: Vec<&Cell> = of_mix().filter(|cell| saturation::is_known(cell)).collect();
        let rates = blocks::means(&known, |run| run.throughput);
        let cells = || known.iter().zip(&rates);
        let (best, highest) = cells().max_by(|one, other| one.1.total_cmp(other.1))?;
        if saturation::is_outdone(*highest, of_mix()) {
            return None;
        }
        let near = cells().filter(|(_, rate)| **rate >= (1.0 - NEAR) * highest);
        let (least, rate) = near.min_by_key(|(cell, _)| (workers(cell), cell.levels.clients))?;
        let share = rate / highest;
        share.is_finite().then(|| Configuration {
            best: best.levels.clone(),
            least: least.levels.clone(),
            share,
            mix: mix_name.clone(),
        })
    };
    mixes.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::Trial;

    #[test]
    fn a_mix_is_a_workload_without_its_workers() {
        assert_eq!(mix("write, workers 8"), "write");
        assert_eq!(mix("workers 8"), "all");
        assert_eq!(mix("write, servers 3"), "write, servers 3");
    }

    #[test]
    fn the_cheapest_of_those_that_are_as_good_is_chosen() {
        let trial = |workers: u32, clients: u32, rate: f64| -> Trial {
            let mut trial = steady_trial(&format!("read, workers {workers}"), clients, rate);
            trial.middleware.as_mut().unwrap().workers = Some(workers);
            trial
        };
        let trials = [
            trial(8, 16, 6_000.0),
            trial(8, 64, 8_000.0),
            trial(32, 16, 9_600.0),
            trial(32, 64, 9_900.0),
            trial(64, 16, 9_700.0),
            trial(64, 64, 10_000.0),
        ];
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let found = configurations(&results.cells);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (one.mix.as_str(), one.best.workload.as_str(), one.best.clients),
            ("read", "read, workers 64", 64)
        );
        assert_eq!((one.least.workload.as_str(), one.least.clients), ("read, workers 32", 16));
        assert!((one.share - 0.96).abs() < 1e-9);
    }
}
