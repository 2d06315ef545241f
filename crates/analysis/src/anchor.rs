//! One cell repeated through the whole run: whether the machine was the same from its beginning to
//! its end.
//!
//! Runs of one configuration that disagree were not made on one system, whatever their names say.
//! What was measured beside an anchor that disagrees with most others is left out of every
//! estimate; nothing is averaged over the difference. Of how much sessions differ all its blocks
//! are evidence ([`crate::compare`]). Its runs in one block share the state of the machine: what
//! chance explains is judged by the blocks' means, and more runs within a block are no more
//! evidence.

use std::collections::BTreeMap;

use krarup_stats::{Intercept, Predictor, Regression, USUAL_LEVEL};
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::quantity::{IntervalBasis, Quantity};
use crate::warning::Warning;

/// One run of the anchor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnchorRun {
    /// In which block, from 0: the repetition of the trials around it.
    pub block: u32,
    /// When it began, in seconds since 1970 (UTC).
    pub started_unix: Seconds,
    /// Requests answered per second.
    pub throughput: f64,
    /// Mean response time at the clients.
    pub response: Seconds,
}

/// What its runs say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnchorRuns {
    /// The cell, in words.
    pub about: String,
    /// Blocks whose throughput differs by more than this share of it are not pooled.
    pub within: f64,
    /// Its runs, by time.
    pub runs: Vec<AnchorRun>,
    /// Blocks that disagree with most of the others.
    pub left_out: Vec<u32>,
    /// By which share the throughput changed from the first run to the last of those whose blocks
    /// are pooled, by the straight line through the blocks' means: three at least.
    pub drift: Option<Quantity>,
}

/// Judges the runs of an anchor; none where there is no run.
pub fn judge(about: &str, within: f64, mut runs: Vec<AnchorRun>) -> Option<AnchorRuns> {
    runs.sort_by(|one, other| one.started_unix.total_cmp(&other.started_unix));
    let means: Vec<(u32, f64)> = block_means(&runs, |run| run.throughput).into_iter().collect();
    let agree = |one: f64, other: f64| (one - other).abs() <= within * other;
    let friends = |of: f64| means.iter().filter(|(_, mean)| agree(*mean, of)).count();
    // The block that most others agree with; of equals the first.
    let (_, usual) = means.iter().rev().max_by_key(|(_, mean)| friends(*mean))?;
    let left_out = means.iter().filter(|(_, mean)| !agree(*mean, *usual));
    let left_out: Vec<u32> = left_out.map(|(block, _)| *block).collect();
    let pooled: Vec<AnchorRun> = runs.iter().filter(|run| !left_out.contains(&run.block)).copied().collect();
    let drift = drift(&pooled);
    Some(AnchorRuns { about: about.to_owned(), within, runs, left_out, drift })
}

/// The mean of the runs of each block.
pub(crate) fn block_means(runs: &[AnchorRun], of: impl Fn(&AnchorRun) -> f64) -> BTreeMap<u32, f64> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for run in runs {
        blocks.entry(run.block).or_default().push(of(run));
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    blocks.into_iter().map(|(block, values)| (block, mean(values))).collect()
}

fn drift(runs: &[AnchorRun]) -> Option<Quantity> {
    let (first, last) = (runs.first()?, runs.last()?);
    let length = last.started_unix - first.started_unix;
    let time = |run: &AnchorRun| (run.started_unix - first.started_unix) / length;
    let times: Vec<f64> = block_means(runs, time).into_values().collect();
    let throughputs: Vec<f64> = block_means(runs, |run| run.throughput).into_values().collect();
    let mean = throughputs.iter().sum::<f64>() / throughputs.len() as f64;
    let line =
        Regression::fit(&[Predictor::new("time", &times)], Intercept::Fitted, &throughputs, USUAL_LEVEL)
            .ok()?;
    let change = &line.coefficients.get(1)?.estimate;
    let share = change.map(|value| value / mean).ok()?;
    Some(Quantity {
        value: share.value,
        interval: Some(share.interval),
        n: throughputs.len() as u64,
        basis: IntervalBasis::Repetitions,
    })
}

/// That some of these repetitions, which have trials, have no run of the anchor beside them.
pub fn lacking(anchor: Option<&AnchorRuns>, repetitions: impl Iterator<Item = u32>) -> Option<Warning> {
    let runs = anchor.map_or(&[][..], |anchor| &anchor.runs);
    let mut blocks: Vec<u32> =
        repetitions.filter(|block| runs.iter().all(|run| run.block != *block)).collect();
    blocks.sort_unstable();
    blocks.dedup();
    (!blocks.is_empty()).then_some(Warning::AnchorMissing { blocks })
}

impl AnchorRuns {
    /// What a reader of the other figures must know.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if !self.left_out.is_empty() {
            warnings.push(Warning::NotPooled { blocks: self.left_out.clone(), within: self.within });
        }
        let throughputs =
            || self.runs.iter().filter(|run| !self.left_out.contains(&run.block)).map(|run| run.throughput);
        let (least, most) =
            (throughputs().fold(f64::INFINITY, f64::min), throughputs().fold(0.0_f64, f64::max));
        if most - least > self.within * most {
            warnings.push(Warning::AnchorScatters { least, most });
        }
        // A drift that chance explains is none.
        if let Some(Quantity { value, interval: Some(interval), .. }) = self.drift
            && !interval.contains(0.0)
        {
            warnings.push(Warning::Drift { change: value, half: interval.half_width() });
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(throughputs: &[(u32, f64)]) -> Vec<AnchorRun> {
        let run = |(number, (block, throughput)): (usize, &(u32, f64))| AnchorRun {
            block: *block,
            started_unix: 100.0 * number as f64,
            throughput: *throughput,
            response: 0.01,
        };
        throughputs.iter().enumerate().map(run).collect()
    }

    #[test]
    fn a_block_that_disagrees_with_most_is_left_out() {
        let all = [(0, 100.0), (0, 101.0), (1, 80.0), (1, 82.0), (2, 99.0), (2, 103.0)];
        let anchor = judge("read", 0.1, runs(&all)).unwrap();
        assert_eq!(anchor.left_out, [1]);
        assert_eq!(anchor.warnings(), [Warning::NotPooled { blocks: vec![1], within: 0.1 }]);
        let steady = judge("read", 0.1, runs(&[(0, 100.0), (1, 104.0), (2, 98.0)])).unwrap();
        assert!(steady.left_out.is_empty() && steady.warnings().is_empty());
        assert_eq!(judge("read", 0.1, Vec::new()), None);
    }

    /// Two that disagree cannot both be right, and the data does not say which is: the first stays,
    /// and it is said.
    #[test]
    fn of_two_blocks_that_disagree_the_first_stays() {
        let anchor = judge("read", 0.1, runs(&[(0, 100.0), (1, 60.0)])).unwrap();
        assert_eq!(anchor.left_out, [1]);
    }

    /// It is in no figure, and so its intervals hold none of it.
    #[test]
    fn what_is_left_out_is_no_drift() {
        let all = [(0, 100.0), (0, 101.0), (1, 101.0), (1, 100.0), (2, 60.0), (2, 61.0)];
        let anchor = judge("read", 0.1, runs(&all)).unwrap();
        assert_eq!(anchor.warnings(), [Warning::NotPooled { blocks: vec![2], within: 0.1 }]);
    }

    #[test]
    fn trials_without_a_run_of_the_anchor_beside_them_are_named() {
        let anchor = judge("read", 0.1, runs(&[(0, 100.0), (2, 101.0)])).unwrap();
        let blocks = vec![1];
        assert_eq!(lacking(Some(&anchor), [2, 1, 0, 1].into_iter()), Some(Warning::AnchorMissing { blocks }));
        assert_eq!(lacking(Some(&anchor), [0, 2].into_iter()), None);
        let blocks = vec![0, 1];
        assert_eq!(lacking(None, [0, 1].into_iter()), Some(Warning::AnchorMissing { blocks }));
    }

    /// Three states of the machine in this order are one in six, however often each was seen.
    #[test]
    fn many_runs_of_few_blocks_show_no_drift() {
        let of_block =
            |(block, mean): (u32, f64)| [-0.5, -0.25, 0.0, 0.25, 0.5].map(|off| (block, mean + off));
        let all: Vec<(u32, f64)> =
            [(0, 100.0), (1, 98.0), (2, 94.0)].into_iter().flat_map(of_block).collect();
        let anchor = judge("read", 0.1, runs(&all)).unwrap();
        let drift = anchor.drift.unwrap();
        assert!(drift.n == 3 && drift.interval.unwrap().contains(0.0), "{drift:?}");
        assert_eq!(anchor.warnings(), []);
    }

    #[test]
    fn a_steady_change_is_a_drift_and_scatter_within_a_block_is_reported() {
        let falling: Vec<(u32, f64)> = (0..6).map(|k| (k / 2, 100.0 - 1.5 * f64::from(k))).collect();
        let anchor = judge("read", 0.1, runs(&falling)).unwrap();
        assert!(anchor.left_out.is_empty());
        let drift = anchor.drift.unwrap();
        assert!((drift.value + 7.5 / 96.25).abs() < 1e-9, "{drift:?}");
        assert!(matches!(anchor.warnings()[..], [Warning::Drift { change, .. }] if change < 0.0));
        let jumps = judge("read", 0.1, runs(&[(0, 100.0), (0, 70.0), (0, 99.0), (0, 71.0)])).unwrap();
        assert!(matches!(jumps.warnings()[..], [Warning::AnchorScatters { .. }]), "{:?}", jumps.warnings());
    }
}
