//! What would have been said about headroom at each trial of a sweep, beside what the sweep
//! measured.

use std::collections::BTreeMap;

use krarup_model::headroom::{Headroom, ResponseTarget};
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::distribution::share_of;
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

/// Whether the clients saw the target kept, by the quantile kept that is not below it.
fn keeps(trial: &Trial, target: ResponseTarget) -> bool {
    let kept = trial.client.quantiles.iter().enumerate();
    let at = kept.map(|(place, time): (usize, &Seconds)| (share_of(place), *time));
    let mut above = at.filter(|(share, _)| *share >= target.quantile - 1e-9);
    above.next().is_some_and(|(_, time)| time < target.seconds)
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
}
