//! Headroom of any service of which three series are kept: rate, number in flight, mean response
//! time.
//!
//! ```text
//! points (X, N, R) ─▶ Little's law ─▶ does the load vary, is there a queue? ─▶ laws R(X) ─▶
//! verdict N = X·R the best by blocks left out
//! ```
//!
//! No request is seen here, only means over some seconds or minutes. So less can be told than by
//! [`judge`](super::judge()): no percentile, no resource by name, and a limit that acts for less
//! than a step of the series does not show. How much slower requests are when there are more of
//! them is seen, and that decides where the mean response time breaks a target, and where
//! throughput ends.
//!
//! Each law is fitted to the throughput at the number present, with N = X·R (relative errors):
//! where little waits this is a fit of R, where much waits one of X. The law that predicts
//! stretches of time left out of its fit best is taken. Its interval has the spread between fits
//! without one stretch (jackknife) and holds what all laws say that predict nearly as well.

mod laws;

pub use laws::{SeriesLaw, SeriesPoint};

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::answer::{CapacityEstimate, HeadroomVerdict, PROJECTED, SCHEMA, STATED};
use super::fitted::{NORMAL_90, SPREAD};
use super::judge::WIDE;
use super::kept::quantile;
use crate::laws::little;
use laws::LawKind;

/// Why nothing is said of a service. The names are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesSilence {
    /// Fewer than 20 points have all three values.
    FewPoints,
    /// The number in flight is not rate × response time.
    LittlesLawBroken,
    /// The 95th percentile of the rate is less than 1.5 times the 5th.
    LoadVariedLittle,
    /// The response time is hardly longer at the highest rates than at the lowest.
    NoQueueSeen,
    /// No law predicts the stretches of time that were left out of its fit.
    CheckFailed,
    /// The response time is above the target at any rate.
    TargetBelowIdle,
    /// High end over low end of the interval is above 1.9.
    IntervalTooWide,
    /// The capacity is more than [`PROJECTED`] times the highest rate seen.
    TooFar,
}

impl SeriesSilence {
    /// What it means and what to do, in one sentence.
    pub const fn text(self) -> &'static str {
        match self {
            Self::FewPoints => {
                "fewer than 20 points have a rate, a number in flight and a response time above 0: look at a longer time"
            }
            Self::LittlesLawBroken => {
                "the number in flight is not rate × response time: the three are not of the same requests, or in other units (seconds, requests per second)"
            }
            Self::LoadVariedLittle => {
                "the rate varied by less than a factor of 1.5: look at a time that has quiet and busy hours"
            }
            Self::NoQueueSeen => {
                "requests take hardly longer at the highest rates than at the lowest: the load is too low to tell"
            }
            Self::CheckFailed => {
                "no law predicts the stretches of time that were left out of its fit: something else than the rate changes the response time"
            }
            Self::TargetBelowIdle => "the mean response time is above the target at any rate",
            Self::IntervalTooWide => {
                "the interval is too wide to be of use: look at a longer time, or at one with a higher load"
            }
            Self::TooFar => {
                "the capacity is more than four times the highest rate seen: look at a time with a higher load"
            }
        }
    }
}

/// Rates of the series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesTraffic {
    /// Of the last step, per second; 0 where that is long ago.
    pub now_per_s: f64,
    /// How long ago the last point is, where that is long: in more than three steps and more than
    /// five minutes there was no traffic, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_s: Option<Seconds>,
    /// Of the step with the highest, per second.
    pub highest_per_s: f64,
    /// From the first step to the last.
    pub over_s: Seconds,
    /// Points that have all three values.
    pub points: usize,
}

/// A law that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedLaw {
    /// The law as fitted to all points.
    #[serde(flatten)]
    pub law: SeriesLaw,
    /// Mean relative error of the throughput over points left out of the fit.
    pub error: f64,
    /// What it gives for the capacity, per second; none where no rate keeps the target.
    pub capacity_per_s: Option<f64>,
}

/// What can be said of a service from its series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesHeadroom {
    /// [`SCHEMA`].
    pub schema: u32,
    /// When: the last point, in seconds since 1970; 0 without points.
    pub at_unix_s: Seconds,
    /// Rates seen.
    pub traffic: SeriesTraffic,
    /// The mean response time that was asked for.
    pub target_mean_s: Option<Seconds>,
    /// How far the answer reaches.
    pub verdict: HeadroomVerdict,
    /// Why nothing is said; empty unless the verdict is [`HeadroomVerdict::Silent`].
    pub silent: Vec<SeriesSilence>,
    /// Whether the last point misses the target; none without a target, without points, and where
    /// the last one is long ago.
    pub broken_now: Option<bool>,
    /// The rate at which the mean response time breaks the target or, without one, where throughput
    /// ends; also where silent, if it was computed: then it is not to be relied on.
    pub capacity_per_s: Option<CapacityEstimate>,
    /// The rate at which throughput ends, by the law that was taken.
    pub saturation_per_s: Option<f64>,
    /// Capacity over the rate of the last point; none where that is long ago.
    pub headroom_ratio: Option<CapacityEstimate>,
    /// Number in flight over rate × response time, over all points: 1 by Little's law.
    pub little: Option<f64>,
    /// The law that was taken and, behind it, those that predict nearly as well: what they say is
    /// in the interval.
    pub laws: Vec<TriedLaw>,
}

/// Points below which nothing is said.
const FEWEST: usize = 20;
/// Stretches of time, of which each is left out once.
const BLOCKS: usize = 8;
/// How far N may be from X·R, beyond what chance explains: as a logarithm.
const LITTLE: f64 = 0.25;
/// How much the rate must vary: 95th over 5th percentile.
const VARIED: f64 = 1.5;
/// How much longer requests must take in the upper quarter of rates than in the lower one.
const QUEUED: f64 = 1.1;
/// A law whose mean error over what it has not seen is above this is not believed.
const CHECK: f64 = 0.15;
/// A law is not tried on stretches left out if it misses what it has seen by so much more than the
/// best one.
const HOPELESS: f64 = 1.5;
/// Laws whose error is at most this many times the least are all held possible.
const NEARLY: f64 = 1.1;
/// A last point that is more steps ago, and longer, is not of now: what scrapes and adds up may be
/// that late.
const LATE_STEPS: f64 = 3.0;
const LATE: Seconds = 300.0;
/// Student's quantile of an interval of 90 %, with one degree of freedom less than [`BLOCKS`].
const STUDENT_90: f64 = 1.895;

/// Judges a service by its points, in the order of time. `target` is the mean response time that
/// must hold; none: where throughput ends.
pub fn judge_series(points: &[SeriesPoint], target: Option<Seconds>) -> SeriesHeadroom {
    let is_whole = |point: &&SeriesPoint| {
        let (x, n, r) = (point.rate, point.in_flight, point.response);
        [x, n, r].iter().all(|value| value.is_finite()) && x > 0.0 && r > 0.0 && n >= 0.0
    };
    let points: Vec<SeriesPoint> = points.iter().filter(is_whole).copied().collect();
    let mut answer = seen(&points, target);
    answer.silent.extend(unfit(&points));
    if answer.silent.is_empty() {
        answer.tell(&points);
    }
    if !answer.silent.is_empty() {
        answer.verdict = HeadroomVerdict::Silent;
    }
    answer
}

/// What is known without a law; nothing is said yet.
fn seen(points: &[SeriesPoint], target: Option<Seconds>) -> SeriesHeadroom {
    let last = points.last();
    SeriesHeadroom {
        schema: SCHEMA,
        at_unix_s: last.map_or(0.0, |last| last.at),
        traffic: SeriesTraffic {
            now_per_s: last.map_or(0.0, |last| last.rate),
            quiet_s: None,
            highest_per_s: points.iter().map(|point| point.rate).fold(0.0, f64::max),
            over_s: last.map_or(0.0, |last| last.at - points[0].at),
            points: points.len(),
        },
        target_mean_s: target,
        verdict: HeadroomVerdict::Silent,
        silent: Vec::new(),
        broken_now: target.zip(last).map(|(target, last)| last.response > target),
        capacity_per_s: None,
        saturation_per_s: None,
        headroom_ratio: None,
        little: little_ratio(points).map(|(ratio, _)| ratio),
        laws: Vec::new(),
    }
}

/// N over X·R, and its standard error by the scatter of the points.
fn little_ratio(points: &[SeriesPoint]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let expected: f64 = points.iter().map(|point| little(point.rate, point.response)).sum();
    let ratio = points.iter().map(|point| point.in_flight).sum::<f64>() / expected;
    let scatter: f64 = points
        .iter()
        .map(|point| (point.in_flight - ratio * little(point.rate, point.response)).powi(2))
        .sum();
    let error = (scatter / (count - 1.0) * count).sqrt() / expected;
    (points.len() > 1).then_some((ratio, error))
}

/// Why the points allow no law at all.
fn unfit(points: &[SeriesPoint]) -> Option<SeriesSilence> {
    if points.len() < FEWEST {
        return Some(SeriesSilence::FewPoints);
    }
    let (ratio, error) = little_ratio(points)?;
    let (low, high) = ((-LITTLE).exp() - 2.0 * error, LITTLE.exp() + 2.0 * error);
    if !(low..=high).contains(&ratio) {
        return Some(SeriesSilence::LittlesLawBroken);
    }
    let mut rates: Vec<f64> = points.iter().map(|point| point.rate).collect();
    let [lowest, quarter, three_quarters, highest] =
        [0.05, 0.25, 0.75, 0.95].map(|share| quantile(&mut rates, share));
    if highest < VARIED * lowest {
        return Some(SeriesSilence::LoadVariedLittle);
    }
    let middle = |within: &dyn Fn(f64) -> bool| {
        let within = points.iter().filter(|point| within(point.rate));
        quantile(&mut within.map(|point| point.response).collect::<Vec<_>>(), 0.5)
    };
    let queued = middle(&|rate| rate >= three_quarters) / middle(&|rate| rate <= quarter);
    (queued < QUEUED).then_some(SeriesSilence::NoQueueSeen)
}

/// A law with what it says and how far that is to be believed.
struct JudgedLaw {
    tried: TriedLaw,
    /// Relative standard error of its capacity: over fits that leave out a stretch.
    spread: f64,
}

impl SeriesHeadroom {
    /// The same at this instant, in seconds since 1970, of series in such steps: of a service that
    /// was idle, or not seen, since long before it nothing is said of now.
    pub fn at(self, now_unix_s: Seconds, step: Seconds) -> Self {
        let quiet = now_unix_s - self.at_unix_s;
        if self.traffic.points == 0 || quiet <= LATE.max(LATE_STEPS * step) {
            return self;
        }
        let traffic = SeriesTraffic { now_per_s: 0.0, quiet_s: Some(quiet), ..self.traffic };
        Self { traffic, broken_now: None, headroom_ratio: None, ..self }
    }

    /// Fits the laws and says what they say.
    fn tell(&mut self, points: &[SeriesPoint]) {
        let judged = judged(points, self.target_mean_s);
        let Some(best) = judged.first() else { return self.silent.push(SeriesSilence::CheckFailed) };
        let possible = judged.iter().filter(|one| one.tried.error <= NEARLY * best.tried.error);
        self.laws = possible.map(|one| one.tried).collect();
        self.saturation_per_s = Some(best.tried.law.limit());
        if best.tried.error > CHECK {
            self.silent.push(SeriesSilence::CheckFailed);
        }
        let Some(mean) = best.tried.capacity_per_s else {
            return self.silent.push(SeriesSilence::TargetBelowIdle);
        };
        // A law by which no rate keeps the target says 0.
        let said = self.laws.iter().map(|one| one.capacity_per_s.unwrap_or(0.0));
        let (low, high) = said.fold((mean, mean), |(low, high), one| (one.min(low), one.max(high)));
        let margin = (NORMAL_90 * SPREAD).hypot(STUDENT_90 * best.spread).exp();
        let capacity = CapacityEstimate { low: low / margin, mean, high: high * margin };
        self.capacity_per_s = Some(capacity);
        self.headroom_ratio = Some(capacity.map(|rate| rate / self.traffic.now_per_s));
        // What is not a number is not narrow.
        let narrow = capacity.high <= WIDE * capacity.low;
        if !narrow {
            self.silent.push(SeriesSilence::IntervalTooWide);
        }
        let reach = mean / self.traffic.highest_per_s;
        if reach > PROJECTED {
            self.silent.push(SeriesSilence::TooFar);
        }
        self.verdict = if reach <= STATED { HeadroomVerdict::Stated } else { HeadroomVerdict::Projected };
    }
}

/// All laws that can be fitted and are not hopeless, the one that predicts best first.
fn judged(points: &[SeriesPoint], target: Option<Seconds>) -> Vec<JudgedLaw> {
    let fitted = LawKind::ALL.iter().filter_map(|kind| {
        let law = kind.fit(points)?;
        Some((*kind, law, error(&law, points)))
    });
    let fitted: Vec<_> = fitted.collect();
    let least = fitted.iter().map(|(_, _, error)| *error).fold(f64::INFINITY, f64::min);
    let hopeful = fitted.into_iter().filter(|(_, _, error)| *error <= HOPELESS * least);
    let mut judged: Vec<_> =
        hopeful.filter_map(|(kind, law, _)| left_out(kind, law, points, target)).collect();
    judged.sort_by(|one, other| one.tried.error.total_cmp(&other.tried.error));
    judged
}

/// Judges a law by stretches of time that it has not seen; none where it cannot be fitted without
/// one of them.
fn left_out(
    kind: LawKind,
    law: SeriesLaw,
    points: &[SeriesPoint],
    target: Option<Seconds>,
) -> Option<JudgedLaw> {
    let capacity_per_s = law.capacity(target);
    let (mut errors, mut logs) = (0.0, Vec::with_capacity(BLOCKS));
    for block in 0..BLOCKS {
        let [from, to] = [block, block + 1].map(|end| end * points.len() / BLOCKS);
        let rest = [&points[..from], &points[to..]].concat();
        let without = kind.fit(&rest)?;
        errors += error(&without, &points[from..to]) * (to - from) as f64;
        logs.extend(without.capacity(target).map(f64::ln));
    }
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    // The delete-one jackknife over blocks (Efron & Tibshirani 1993, 11.5).
    let spread = (squares * (BLOCKS - 1) as f64 / BLOCKS as f64).sqrt();
    // Whether any rate keeps the target hangs on one stretch.
    let spread = if capacity_per_s.is_some() && logs.len() < BLOCKS { f64::INFINITY } else { spread };
    let error = errors / points.len() as f64;
    let tried = TriedLaw { law, error, capacity_per_s };
    Some(JudgedLaw { tried, spread })
}

/// Mean relative error of the throughput at the number present.
fn error(law: &SeriesLaw, points: &[SeriesPoint]) -> f64 {
    let errors = points.iter().map(|point| {
        let present = little(point.rate, point.response);
        (law.throughput(present) / point.rate).ln().abs()
    });
    errors.sum::<f64>() / points.len() as f64
}

#[cfg(test)]
mod tests;
