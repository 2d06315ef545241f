//! What would have been said about headroom at each trial of a sweep, beside what the sweep
//! measured.

use std::collections::BTreeMap;

use krarup_model::headroom::{Headroom, ResponseTarget};
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::distribution::{share_of, tail_share};
use crate::trial::Trial;

/// One trial: what was said from its rows alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialHeadroom {
    /// The workload of its cell.
    pub workload: String,
    /// Clients of all generators.
    pub clients: u32,
    /// Which run of the cell, from 0.
    pub repetition: u32,
    /// Requests per second that were answered.
    pub throughput: f64,
    /// What is said at its end.
    pub headroom: Headroom,
    /// The highest throughput of a trial of the same workload that kept the target, or of any trial
    /// where there is no target; none where no trial did.
    pub highest_measured: Option<f64>,
}

/// Puts what is said of each trial beside the highest throughput that was measured, trials without
/// an answer included.
pub fn beside_measured(
    trials: Vec<(Trial, Option<Headroom>)>,
    target: Option<ResponseTarget>,
) -> Vec<TrialHeadroom> {
    let mut highest: BTreeMap<String, f64> = BTreeMap::new();
    for (trial, _) in trials.iter().filter(|(trial, _)| target.is_none_or(|target| keeps(trial, target))) {
        let most = highest.entry(trial.levels.workload.clone()).or_insert(0.0);
        *most = most.max(throughput(trial));
    }
    let told = |(trial, answer): (Trial, Option<Headroom>)| {
        Some(TrialHeadroom {
            clients: trial.levels.clients,
            repetition: trial.repetition,
            throughput: throughput(&trial),
            headroom: answer?,
            highest_measured: highest.get(&trial.levels.workload).copied(),
            workload: trial.levels.workload,
        })
    };
    trials.into_iter().filter_map(told).collect()
}

fn throughput(trial: &Trial) -> f64 {
    trial.client.completed as f64 / trial.length
}

/// Whether the clients saw the target kept, by the nearest known quantile that is not below it.
fn keeps(trial: &Trial, target: ResponseTarget) -> bool {
    let known = shares(&trial.client.quantiles, share_of).chain(shares(&trial.client.tail, tail_share));
    let nearest = known
        .filter(|(share, _)| *share >= target.quantile - 1e-9)
        .min_by(|(one, _), (other, _)| one.total_cmp(other));
    nearest.is_some_and(|(_, time)| time < target.seconds)
}

fn shares(times: &[Seconds], share: fn(usize) -> f64) -> impl Iterator<Item = (f64, Seconds)> {
    times.iter().enumerate().map(move |(place, time)| (share(place), *time))
}

#[cfg(test)]
mod tests {
    use krarup_model::headroom::{HeadroomQuestion, LiveSystem, judge};
    use krarup_record::LiveSnapshot;

    use super::*;
    use crate::distribution::QUANTILES;
    use crate::trial::{CellLevels, ClientSide};

    /// A trial of a second whose response times are all the same.
    fn trial(workload: &str, clients: u32, completed: u64, response: Seconds) -> Trial {
        Trial {
            levels: CellLevels { workload: workload.to_owned(), clients },
            repetition: 0,
            length: 1.0,
            think: 0.0,
            client: ClientSide { completed, quantiles: vec![response; QUANTILES], ..ClientSide::default() },
            middleware: None,
            servers: Vec::new(),
            cpu: Vec::new(),
            links: Vec::new(),
            ways: Vec::new(),
            factors: Vec::new(),
            machine: None,
            machines: Vec::new(),
            course: Vec::new(),
            disturbed: None,
        }
    }

    fn nothing_seen() -> Headroom {
        let question = HeadroomQuestion { target: None, changes: Vec::new(), seed: 1 };
        judge(&LiveSnapshot::default(), &LiveSystem::of(["a".to_owned()]), &question)
    }

    fn told(target: Option<ResponseTarget>) -> Vec<TrialHeadroom> {
        let trials = vec![
            (trial("get", 1, 100, 0.001), Some(nothing_seen())),
            (trial("get", 8, 300, 0.004), None),
            (trial("get", 64, 900, 0.1), Some(nothing_seen())),
            (trial("set", 1, 50, 0.2), Some(nothing_seen())),
        ];
        beside_measured(trials, target)
    }

    #[test]
    fn the_highest_rate_that_kept_the_target_is_that_of_any_trial_of_the_workload() {
        let target = "p99 < 8ms".parse().ok();
        let highest: Vec<_> = told(target).iter().map(|one| (one.clients, one.highest_measured)).collect();
        assert_eq!(highest, [(1, Some(300.0)), (64, Some(300.0)), (1, None)]);
        let highest: Vec<_> = told(None).iter().map(|one| one.highest_measured).collect();
        assert_eq!(highest, [Some(900.0), Some(900.0), Some(50.0)]);
    }

    #[test]
    fn a_percentile_beyond_those_that_are_kept_is_never_said_to_be_kept() {
        let target = "p99.9 < 8ms".parse().ok();
        assert!(told(target).iter().all(|one| one.highest_measured.is_none()));
    }

    #[test]
    fn the_tail_has_the_percentile_of_a_target_itself() {
        let time = |share: f64| if share > 0.99 + 1e-9 { 0.02 } else { 0.004 };
        let mut one = trial("get", 1, 100, 0.004);
        one.client.quantiles = (0..QUANTILES).map(|place| time(share_of(place))).collect();
        one.client.tail = (0..25).map(|place| time(tail_share(place))).collect();
        for (target, kept) in [("p99 < 8ms", true), ("p99.9 < 8ms", false), ("p99.9 < 30ms", true)] {
            let found = beside_measured(vec![(one.clone(), Some(nothing_seen()))], target.parse().ok());
            assert_eq!(found[0].highest_measured.is_some(), kept, "{target}");
        }
    }
}
