//! What changed from one cell to another, and whether the data can say so.

use std::fmt;

use krarup_record::quantities;
use krarup_stats::compare::Direction;
use krarup_stats::multiple::holm;
use krarup_stats::{Interval, Summary, USUAL_LEVEL, t_two_sided};
use serde::{Deserialize, Serialize};

use crate::anchor::{AnchorRun, AnchorRuns, block_means};
use crate::blocks;
use crate::cell::{Cell, Repetition};
use crate::quantity::Quantity;

/// All comparisons of one table together may be wrong with this probability.
const ERROR: f64 = 0.05;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Requests answered per second.
    Throughput,
    /// Mean response time at the clients.
    Response,
    /// 99th percentile of the response time at the clients.
    P99,
}

impl Measure {
    /// All, in the order of every list of them.
    pub const ALL: [Self; 3] = [Self::Throughput, Self::Response, Self::P99];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => quantities::THROUGHPUT.name,
            Self::Response => quantities::RESPONSE_TIME.name,
            Self::P99 => "p99",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput)
    }

    pub(crate) const fn of_run(self, run: &Repetition) -> f64 {
        match self {
            Self::Throughput => run.throughput,
            Self::Response => run.response,
            Self::P99 => run.p99,
        }
    }

    pub(crate) const fn of_cell(self, cell: &Cell) -> Quantity {
        match self {
            Self::Throughput => cell.throughput,
            Self::Response => cell.response.mean,
            Self::P99 => cell.response.p99,
        }
    }
}

/// What may be said of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// The other is better.
    Better,
    /// The other is worse.
    Worse,
    /// The interval covers no difference at all.
    NoConclusion,
    /// Fewer than two runs on a side, or fewer than two repetitions that both cells of a directory
    /// have: there is no interval.
    TooFewRuns,
    /// By itself it would differ, and so would others by chance, among so many comparisons.
    ByChance,
    /// The cells differ alike, and nothing says how much two sessions of the same differ.
    SessionsUnknown,
}

impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoConclusion => "no conclusion",
            Self::ByChance => "no conclusion: chance shows it among so many",
            Self::TooFewRuns => "no conclusion: too few runs",
            Self::SessionsUnknown => "no conclusion: how much two sessions of the same differ is not known",
        })
    }
}

/// One measure of one cell, or of all, on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureChange {
    /// What.
    pub measure: Measure,
    /// On the side that is compared with.
    pub base: Quantity,
    /// On the side that is compared.
    pub other: Quantity,
    /// other − base, with Welch's interval at 95 %; of two cells of one directory over the
    /// repetitions that both have, over all runs where these are fewer than two.
    pub difference: f64,
    /// Where the true difference may lie.
    pub difference_interval: Option<Interval>,
    /// other ÷ base, over the same runs; none where the base is 0.
    pub ratio: Option<f64>,
    /// Where the true ratio may lie, from the runs' logarithms.
    pub ratio_interval: Option<Interval>,
    /// What may be said.
    pub verdict: Conclusion,
    /// Runs of both that are compared, where these are not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<u64>,
}

impl MeasureChange {
    /// Whether something changed, as far as its verdict says.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.verdict, Conclusion::Better | Conclusion::Worse)
    }
}

/// How much one and the same cell differs from time to time: variances of logarithms, from the
/// means of the blocks of both anchors. Blocks that are left out of estimates count, too: what a
/// machine did once within a session, it may have done to all of another.
pub(crate) struct Sessions {
    pub(crate) throughput: f64,
    response: f64,
    /// Degrees of freedom of both.
    degrees: f64,
}

impl Sessions {
    /// None where a side has no anchor, or usable runs of it in fewer than two blocks.
    pub(crate) fn of(base: Option<&AnchorRuns>, other: Option<&AnchorRuns>) -> Option<Self> {
        let (base, other) = (base?, other?);
        let pooled = |of: fn(&AnchorRun) -> f64| {
            let side = |anchor: &AnchorRuns| {
                // One that answered nothing has no logarithm.
                let usable = anchor.runs.iter().filter(|run| run.throughput > 0.0).copied();
                let means = block_means(&usable.collect::<Vec<_>>(), |run| of(run).ln());
                let summary = Summary::of(&means.into_values().collect::<Vec<f64>>()).ok()?;
                Some((summary.variance().ok()?, (summary.n - 1) as f64))
            };
            let ((one, n), (two, m)) = (side(base)?, side(other)?);
            Some(((one * n + two * m) / (n + m), n + m))
        };
        let ((throughput, degrees), (response, _)) =
            (pooled(|run| run.throughput)?, pooled(|run| run.response)?);
        Some(Self { throughput, response, degrees })
    }

    /// Variance of the difference of two sessions, with its degrees of freedom. Of a 99th
    /// percentile as of the response time: at least that.
    pub(crate) fn of_difference(&self, measure: Measure) -> (f64, f64) {
        let one = match measure {
            Measure::Throughput => self.throughput,
            Measure::Response | Measure::P99 => self.response,
        };
        (2.0 * one, self.degrees)
    }
}

/// The standard error of a sum of independent parts, each with its variance and degrees of freedom,
/// and the degrees of freedom of all (Welch 1947, Satterthwaite 1946), which mean nothing where
/// nothing varies.
pub(crate) fn error_of_sum(parts: &[(f64, f64)]) -> (f64, f64) {
    let variance: f64 = parts.iter().map(|(variance, _)| variance).sum();
    // Shares of the variance instead of its square: nothing underflows for nanoseconds written in
    // seconds.
    let inverse: f64 = parts.iter().map(|(part, degrees)| (part / variance).powi(2) / degrees).sum();
    (variance.sqrt(), 1.0 / inverse)
}

/// Student's interval around such a sum. None where nothing varies.
pub(crate) fn around(value: f64, parts: &[(f64, f64)]) -> Option<Interval> {
    match error_of_sum(parts) {
        (error, degrees) if error > 0.0 => Interval::student(value, error, degrees, USUAL_LEVEL).ok(),
        _ => None,
    }
}

pub(crate) fn direction(interval: Interval) -> Direction {
    match interval {
        interval if interval.low > 0.0 => Direction::Higher,
        interval if interval.high < 0.0 => Direction::Lower,
        _ => Direction::NoConclusion,
    }
}

/// One measure of two cells of one directory.
pub(crate) fn change(measure: Measure, base: &Cell, other: &Cell) -> MeasureChange {
    tested_in_common(measure, base, other).0
}

/// One measure of two cells of two directories, whose runs are independent, of two sessions where
/// it is known how much these differ.
pub(crate) fn between(
    measure: Measure,
    base: &Cell,
    other: &Cell,
    sessions: Option<&Sessions>,
) -> MeasureChange {
    tested(measure, base, other, sessions).0
}

/// The same, and the probability of a difference at least this large if there were none; none where
/// there is no interval. It is below 5 % where the verdict tells a difference, and nowhere else.
pub(crate) fn tested(
    measure: Measure,
    base: &Cell,
    other: &Cell,
    sessions: Option<&Sessions>,
) -> (MeasureChange, Option<f64>) {
    let all = |cell: &Cell| cell.repetitions.iter().map(|run| measure.of_run(run)).collect();
    let sides = [measure.of_cell(base), measure.of_cell(other)];
    let session = sessions.map(|sessions| sessions.of_difference(measure));
    let values = sides.map(|side| side.value);
    concluded(measure, sides, values, &[all(base), all(other)], session)
}

/// As [`tested`], of two cells of one directory, over the repetitions that both have: beyond these
/// a cell was run on a machine that may have changed.
pub(crate) fn tested_in_common(measure: Measure, base: &Cell, other: &Cell) -> (MeasureChange, Option<f64>) {
    let common = blocks::common(&[base, other]);
    let of = |side: usize| -> Vec<f64> { common[side].iter().map(|run| measure.of_run(run)).collect() };
    let samples = [of(0), of(1)];
    let sides = [measure.of_cell(base), measure.of_cell(other)];
    // One pair alone says less than all runs do.
    let is_part = samples.iter().all(|sample| sample.len() > 1);
    let mean = |side: usize, cell: &Cell| {
        let is_all = samples[side].len() == cell.repetitions.len();
        let mean = Summary::of(&samples[side]).ok().filter(|_| is_part && !is_all);
        mean.map_or(sides[side].value, |summary| summary.mean)
    };
    let (mut change, p_value) = concluded(measure, sides, [mean(0, base), mean(1, other)], &samples, None);
    let all = base.repetitions.len() + other.repetitions.len();
    let compared = samples[0].len() + samples[1].len();
    change.compared = (is_part && compared < all).then_some(compared as u64);
    (change, p_value)
}

/// What these runs of two cells, with these means, say of them.
fn concluded(
    measure: Measure,
    [base, other]: [Quantity; 2],
    [base_mean, other_mean]: [f64; 2],
    [before, after]: &[Vec<f64>; 2],
    session: Option<(f64, f64)>,
) -> (MeasureChange, Option<f64>) {
    let difference = other_mean - base_mean;
    let ratio = other_mean / base_mean;
    // What a session does is a share of the value.
    let scale = base_mean.abs().midpoint(other_mean.abs()).powi(2);
    let interval = |of: fn(f64) -> f64, scale: f64| {
        let part = |values: &[f64]| {
            let summary = Summary::of(&values.iter().copied().map(of).collect::<Vec<f64>>()).ok()?;
            Some((summary.mean, (summary.variance().ok()? / summary.n as f64, (summary.n - 1) as f64)))
        };
        let ((before, one), (after, two)) = (part(before)?, part(after)?);
        let session = session.map(|(variance, degrees)| (variance * scale, degrees));
        let parts: Vec<(f64, f64)> = [one, two].into_iter().chain(session).collect();
        let interval = around(after - before, &parts)?;
        let (error, degrees) = error_of_sum(&parts);
        Some((interval, t_two_sided((after - before) / error, degrees).ok()?))
    };
    let plain = interval(|value| value, scale);
    let of_logarithms = interval(f64::ln, 1.0);
    // What answers nothing has no logarithm: its difference alone says it.
    let silent = measure == Measure::Throughput && base_mean.min(other_mean) == 0.0;
    let forms = plain.zip(if silent { plain } else { of_logarithms });
    let opposed = forms.is_some_and(|(one, other)| direction(one.0) != direction(other.0));
    // Both forms must say so.
    let p_value = forms.map(|(one, other)| one.1.max(other.1));
    let p_value = p_value.map(|p_value| if opposed { p_value.max(1.0 - USUAL_LEVEL) } else { p_value });
    // A speed-up of 3 % ± 4 % is none, whichever of the two forms says so.
    let verdict = match (before.len().min(after.len()), forms) {
        (0 | 1, _) => Conclusion::TooFewRuns,
        (_, Some((one, _))) if !opposed => verdict(measure, direction(one.0)),
        _ => Conclusion::NoConclusion,
    };
    let change = MeasureChange {
        measure,
        base,
        other,
        difference,
        difference_interval: plain.map(|one| one.0),
        ratio: ratio.is_finite().then_some(ratio),
        ratio_interval: of_logarithms.and_then(|one| one.0.map(f64::exp).ok()),
        verdict,
        compared: None,
    };
    (change, p_value)
}

/// Takes back what only chance would show among so many: each change with its probability, which
/// becomes the one adjusted for all of them.
pub(crate) fn adjust(changes: &mut [(&mut MeasureChange, &mut Option<f64>)]) {
    let plain: Vec<f64> = changes.iter().filter_map(|(_, p_value)| **p_value).collect();
    let known = changes.iter_mut().filter(|(_, p_value)| p_value.is_some());
    for ((change, p_value), adjusted) in known.zip(holm(&plain)) {
        **p_value = Some(adjusted);
        if adjusted >= ERROR && change.is_real() {
            change.verdict = Conclusion::ByChance;
        }
    }
}

pub(crate) const fn verdict(measure: Measure, direction: Direction) -> Conclusion {
    match (direction, measure.more_is_better()) {
        (Direction::Higher, true) | (Direction::Lower, false) => Conclusion::Better,
        (Direction::Higher, false) | (Direction::Lower, true) => Conclusion::Worse,
        (Direction::NoConclusion, _) => Conclusion::NoConclusion,
    }
}
