//! Whether one measurement is worse than another by more than what is allowed, and how many more
//! repetitions would tell: a limit as `throughput < -5%`, and the runs of both sides.
//!
//! Each cell's ratio is the difference of the means of its runs' logarithms; the change is the mean
//! over the cells, which are those of the spec and no sample. Its interval is Welch's (1947, with
//! Satterthwaite's degrees of freedom), from the scatter of the runs alone, and with the variance
//! between sessions where anchors show it. Several limits share the error: with k of them each has
//! the level 1 − (1 − level)/k (Bonferroni).
//!
//! Repetitions of an experiment are blocks: what the machine does in one is in the runs of all
//! cells, and no number of cells averages it away. So a side's variance is that of its repetitions,
//! robust to these clusters (Liang and Zeger 1986), with one degree of freedom less than there are:
//! where all cells have the same r, the variance of the r means over the cells, divided by r. Where
//! some have more, each counts by its weight (Kish 1965). Runs without a number are independent.
//!
//! | the interval of the change lies | verdict |
//! |---|---|
//! | beyond the limit with all of it | broken |
//! | within the limit with all of it | kept |
//! | on both sides | no conclusion |
//!
//! Runs that are all alike have no scatter. Of whole numbers, as of counts, that leaves no doubt;
//! others are alike to the digits that were kept of them, and a difference may be off by one step
//! of these: that is the interval.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use krarup_stats::{Interval, Summary};
use krarup_units::Mistake;
use serde::{Deserialize, Serialize};

use crate::blocks;
use crate::cell::Cell;
use crate::change::{Measure, Sessions, error_of_sum};
use crate::pairs::pairs;
use crate::results::Results;

/// A change that is too much, as a share of the base: `throughput < -5%`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegressionLimit {
    /// The name of what is compared.
    pub measure: String,
    /// Whether a change above the share is too much, or one below it.
    pub above: bool,
    /// The change, other ÷ base − 1.
    pub share: f64,
}

impl FromStr for RegressionLimit {
    type Err = Mistake;

    /// # Errors
    /// Names the text, and how a limit is written.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || {
            let hint = "write it like 'throughput < -5%', 'response > 10%' or 'p99 > 10%'";
            Mistake::new(format!("`{text}` is no limit of a change"), hint)
        };
        let place = text.find(['<', '>']).ok_or_else(wrong)?;
        let (measure, rest) = text.split_at(place);
        let share = rest[1..].trim().strip_suffix('%').ok_or_else(wrong)?.trim();
        let share = share.parse::<f64>().map_err(|_| wrong())? / 100.0;
        let measure = measure.trim().to_owned();
        if measure.is_empty() || !share.is_finite() || share <= -1.0 {
            return Err(wrong());
        }
        Ok(Self { measure, above: rest.starts_with('>'), share })
    }
}

impl fmt::Display for RegressionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.above { '>' } else { '<' };
        write!(f, "{} {sign} {:+}%", self.measure, (self.share * 1e4).round() / 100.0)
    }
}

/// The runs of one cell on both sides, of one measure; each is above 0.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPair {
    /// On the side that is compared with.
    pub base: Vec<f64>,
    /// On the side that is compared.
    pub other: Vec<f64>,
    /// In which repetition each of the base was made, and each of the other; none where that is not
    /// known of a side, and its runs are independent of those of other cells.
    pub repetitions: [Option<Vec<u32>>; 2],
}

/// The runs of one cell on one side, in logarithms.
struct CellRuns<'a> {
    logarithms: Vec<f64>,
    summary: Summary,
    repetitions: Option<&'a [u32]>,
}

impl<'a> CellRuns<'a> {
    /// None where there are none.
    fn of(runs: &[f64], repetitions: Option<&'a [u32]>) -> Option<Self> {
        let logarithms: Vec<f64> = runs.iter().map(|run| run.ln()).collect();
        let summary = Summary::of(&logarithms).ok()?;
        Some(Self { logarithms, summary, repetitions })
    }
}

impl RunPair {
    /// Both sides; none where one has no runs.
    fn sides(&self) -> Option<(CellRuns<'_>, CellRuns<'_>)> {
        let [before, after] = self.repetitions.each_ref().map(Option::as_deref);
        Some((CellRuns::of(&self.base, before)?, CellRuns::of(&self.other, after)?))
    }

    /// Whether they have a ratio.
    pub(crate) fn is_above_zero(&self) -> bool {
        self.base.iter().chain(&self.other).all(|run| *run > 0.0)
    }

    /// By how much a difference between them may be off where they are alike to their digits, as a
    /// share; 0 of whole numbers, as counts are.
    fn step(&self) -> f64 {
        let runs = || self.base.iter().chain(&self.other);
        if runs().all(|run| run.fract() == 0.0) {
            return 0.0;
        }
        let least = runs().copied().fold(f64::INFINITY, f64::min);
        let digit = runs().map(|run| last_digit(*run)).fold(f64::INFINITY, f64::min);
        (digit / least).max(WIDEST_BUCKET)
    }

    /// Checks that they have a ratio, as a limit needs.
    ///
    /// # Errors
    /// Names the cell, where a run is not above 0.
    pub(crate) fn check(&self, cell: &str, measure: &str) -> Result<(), Mistake> {
        if self.is_above_zero() {
            return Ok(());
        }
        let what = format!("{cell} has a run with a {measure} that is not above 0");
        Err(Mistake::new(what, "a limit is about ratios: see why nothing was answered there"))
    }
}

/// What follows of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegressionVerdict {
    /// The change is within the limit.
    Kept,
    /// The interval lies on both sides of the limit, or there is none.
    NoConclusion,
    /// The change is beyond the limit.
    Broken,
}

/// How many more repetitions of each cell, on each side, would decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoreRepetitions {
    /// So many.
    Some(u64),
    /// More than [`MOST`]: the change is too near to the limit.
    TooMany,
    /// None do: two sessions of the same differ by too much.
    Sessions,
    /// It is not known: a side has one run, or all are alike, which shows no scatter.
    Unknown,
}

/// How wide a bucket of a program's percentiles may be, as a share: 8 µs from 256 on, as of
/// memtier_benchmark.
const WIDEST_BUCKET: f64 = 1.0 / 32.0;

/// The most repetitions that are worth naming.
pub const MOST: u64 = 10_000;

/// A limit, and what the runs say of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegressionAnswer {
    /// The limit.
    pub limit: RegressionLimit,
    /// Over how many cells.
    pub cells: u64,
    /// The least number of runs that a cell has on a side.
    pub repetitions: u64,
    /// other ÷ base.
    pub ratio: f64,
    /// Where the true ratio may lie; none where a side has one run.
    pub interval: Option<Interval>,
    /// What follows.
    pub verdict: RegressionVerdict,
    /// Of the verdict `no_conclusion`: how many more would decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<MoreRepetitions>,
    /// The probability with which they would, where the change is as it was seen.
    pub power: f64,
}

/// How sure an answer is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegressionLevels {
    /// The level of each interval.
    pub level: f64,
    /// The probability with which more repetitions decide, above 0.5 and below 1.
    pub power: f64,
}

impl RegressionLevels {
    /// An error of 5 % shared by so many limits.
    pub fn shared(limits: usize, power: f64) -> Self {
        Self { level: 1.0 - 0.05 / limits.max(1) as f64, power }
    }
}

/// A part of a variance that shrinks with repetitions.
struct VarianceComponent {
    variance: f64,
    degrees: f64,
    /// At so many runs.
    runs: f64,
}

/// What the runs of a side add to the variance of the mean over its cells; none where one has a
/// single run.
fn components(cells: &[CellRuns<'_>]) -> Option<Vec<VarianceComponent>> {
    let apart = cells.iter().map(|cell| {
        let n = cell.summary.n as f64;
        let variance = cell.summary.variance().ok()? / n / (cells.len() as f64).powi(2);
        Some(VarianceComponent { variance, degrees: n - 1.0, runs: n })
    });
    let apart = apart.collect::<Option<Vec<_>>>()?;
    let Some(blocks) = of_blocks(cells) else { return Some(apart) };
    // Where repetitions are missing in some cells, the spread may be of these alone.
    let of_cells: Vec<(f64, f64)> = apart.iter().map(|one| (one.variance, one.degrees)).collect();
    let (_, most) = error_of_sum(&of_cells);
    let alike = cells.windows(2).all(|pair| pair[0].repetitions == pair[1].repetitions);
    let degrees = if alike { blocks.degrees } else { blocks.degrees.min(most) };
    Some(vec![VarianceComponent { degrees, ..blocks }])
}

/// The same where all runs have a repetition, which is in the runs of all cells alike.
fn of_blocks(cells: &[CellRuns<'_>]) -> Option<VarianceComponent> {
    // Of each repetition how far its runs move the mean, and their weight in it.
    let mut blocks: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for cell in cells {
        let n = cell.summary.n as f64;
        let weight = 1.0 / (n * cells.len() as f64);
        for (repetition, run) in cell.repetitions?.iter().zip(&cell.logarithms) {
            let (moved, weights) = blocks.entry(*repetition).or_default();
            *moved += weight * (run - cell.summary.mean) * (n / (n - 1.0)).sqrt();
            *weights += weight;
        }
    }
    let squares: f64 = blocks.values().map(|(_, weights)| weights * weights).sum();
    let runs = cells.iter().map(|cell| cell.summary.n).max()?;
    Some(VarianceComponent {
        variance: blocks.values().map(|(moved, _)| moved * moved).sum(),
        degrees: 1.0 / squares - 1.0,
        runs: runs as f64,
    })
}

/// A sum of independent parts of one variance: those that shrink with repetitions, and the rest.
struct Scatter {
    runs: Vec<VarianceComponent>,
    session: Option<(f64, f64)>,
}

impl Scatter {
    /// The standard error and its degrees of freedom where each side of each cell has so many more
    /// runs.
    fn error(&self, more: u64) -> (f64, f64) {
        let more = more as f64;
        let runs =
            self.runs.iter().map(|one| (one.variance * one.runs / (one.runs + more), one.degrees + more));
        error_of_sum(&runs.chain(self.session).collect::<Vec<_>>())
    }
}

/// One in the last digit of a number: 0.001 of 0.319. What a change of the unit leaves behind the
/// twelfth is no digit.
fn last_digit(of: f64) -> f64 {
    let shown = format!("{of:.11e}");
    let (digits, exponent) = shown.split_once('e').unwrap_or((shown.as_str(), "0"));
    let behind = digits.trim_end_matches('0').split('.').nth(1).map_or(0, str::len);
    10_f64.powi(exponent.parse::<i32>().unwrap_or(0) - behind as i32)
}

/// Whether the change of the cells' runs keeps a limit; `session` is the variance of the difference
/// of two sessions in logarithms, with its degrees of freedom. None where no cell has runs on both
/// sides.
pub fn judge(
    limit: &RegressionLimit,
    pairs: &[RunPair],
    session: Option<(f64, f64)>,
    levels: RegressionLevels,
) -> Option<RegressionAnswer> {
    let sides: Option<(Vec<CellRuns<'_>>, Vec<CellRuns<'_>>)> = pairs.iter().map(RunPair::sides).collect();
    let (base, other) = sides.filter(|(base, _)| !base.is_empty())?;
    let cells = base.len() as f64;
    let difference = |(base, other): (&CellRuns<'_>, &CellRuns<'_>)| other.summary.mean - base.summary.mean;
    let change = base.iter().zip(&other).map(difference).sum::<f64>() / cells;
    let repetitions = base.iter().chain(&other).map(|cell| cell.summary.n).min().unwrap_or(0);
    let scatter = components(&base).zip(components(&other)).map(|(mut runs, of_other)| {
        runs.extend(of_other);
        Scatter { runs, session }
    });
    let step = pairs.iter().map(RunPair::step).sum::<f64>() / cells;
    let step = if change == 0.0 { 0.0 } else { step };
    let interval = scatter.as_ref().and_then(|scatter| match scatter.error(0) {
        (error, degrees) if error > 0.0 => Interval::student(change, error, degrees, levels.level).ok(),
        _ => Some(Interval { low: change - step, high: change + step, level: levels.level }),
    });
    let bound = limit.share.ln_1p();
    let verdict = match interval {
        Some(interval) if limit.above && interval.low > bound => RegressionVerdict::Broken,
        Some(interval) if !limit.above && interval.high < bound => RegressionVerdict::Broken,
        Some(interval) if limit.above && interval.high <= bound => RegressionVerdict::Kept,
        Some(interval) if !limit.above && interval.low >= bound => RegressionVerdict::Kept,
        _ => RegressionVerdict::NoConclusion,
    };
    let more = (verdict == RegressionVerdict::NoConclusion).then(|| {
        let scatter = scatter.filter(|scatter| scatter.error(0).0 > 0.0);
        scatter.map_or(MoreRepetitions::Unknown, |scatter| more((change - bound).abs(), &scatter, levels))
    });
    Some(RegressionAnswer {
        limit: limit.clone(),
        cells: base.len() as u64,
        repetitions,
        ratio: change.exp(),
        interval: interval.and_then(|interval| interval.map(f64::exp).ok()),
        verdict,
        more,
        power: levels.power,
    })
}

/// The least number of further repetitions with which an interval leaves out a limit `distance`
/// away, with the wanted probability: distance ≥ (t[1−α/2; ν] + t[power; ν]) · standard error.
fn more(distance: f64, scatter: &Scatter, levels: RegressionLevels) -> MoreRepetitions {
    let needed = |(error, degrees): (f64, f64)| {
        let half = |level| Interval::student(0.0, error, degrees, level).ok().map(|interval| interval.high);
        // One side of it has the probability `power`.
        Some(half(levels.level)? + half(2.0 * levels.power - 1.0)?)
    };
    let decides = |more: u64| needed(scatter.error(more)).is_some_and(|needed| needed <= distance);
    if !decides(MOST) {
        // Even without the runs' own scatter.
        let of_sessions = scatter.session.and_then(|session| needed(error_of_sum(&[session])));
        return if of_sessions.is_some_and(|needed| needed > distance) {
            MoreRepetitions::Sessions
        } else {
            MoreRepetitions::TooMany
        };
    }
    let (mut too_few, mut enough) = (0, MOST);
    while enough - too_few > 1 {
        let middle = too_few.midpoint(enough);
        if decides(middle) { enough = middle } else { too_few = middle }
    }
    MoreRepetitions::Some(enough)
}

/// The names of what two directories of results are compared by.
pub const MEASURES: [&str; 3] = ["throughput", "response", "p99"];

/// What two directories of results say of each limit.
///
/// # Errors
/// Names a measure that there is not, the first cell with a run that is not above 0, and cells that
/// have nothing in common.
pub fn judge_results(
    limits: &[RegressionLimit],
    (base, other): (&Results, &Results),
    power: f64,
) -> Result<Vec<RegressionAnswer>, Mistake> {
    let levels = RegressionLevels::shared(limits.len(), power);
    let cells: Vec<(&Cell, &Cell)> = pairs(base, other).collect();
    let sessions = Sessions::of(base.anchor.as_ref(), other.anchor.as_ref());
    let answer = |limit: &RegressionLimit| {
        let place = MEASURES.iter().position(|name| *name == limit.measure);
        let measure = place.map(|place| Measure::ALL[place]).ok_or_else(|| no_measure(limit, &MEASURES))?;
        let runs =
            |cell: &Cell| -> Vec<f64> { cell.repetitions.iter().map(|run| measure.of_run(run)).collect() };
        let of_runs = |(before, after)| RunPair {
            base: runs(before),
            other: runs(after),
            repetitions: [before, after].map(blocks::numbers),
        };
        let pairs: Vec<RunPair> = cells.iter().copied().map(of_runs).collect();
        for ((cell, _), pair) in cells.iter().zip(&pairs) {
            pair.check(&cell.levels.in_words(), &limit.measure)?;
        }
        let session = sessions.as_ref().map(|sessions| sessions.of_difference(measure));
        judge(limit, &pairs, session, levels)
            .ok_or_else(|| Mistake::plain(format!("no cell has a {} above 0 on both sides", limit.measure)))
    };
    limits.iter().map(answer).collect()
}

/// The mistake of a limit on what was not measured.
pub fn no_measure(limit: &RegressionLimit, names: &[&str]) -> Mistake {
    let what = format!("`{}` was not measured on both sides", limit.measure);
    Mistake::none_of(what, &limit.measure, names.iter().copied())
}

impl RegressionAnswer {
    /// The answer in a sentence.
    pub fn sentence(&self) -> String {
        let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        let range = self.interval.map_or_else(
            || " (no interval: one run shows no scatter)".to_owned(),
            |interval| {
                let level = (interval.level * 1e3).round() / 10.0;
                format!(" ({} to {} at {level} %)", percent(interval.low), percent(interval.high))
            },
        );
        let verdict = match self.verdict {
            RegressionVerdict::Kept => "no: it is not beyond the limit".to_owned(),
            RegressionVerdict::Broken => "yes: it is beyond the limit".to_owned(),
            RegressionVerdict::NoConclusion => format!("no conclusion{}", self.more_in_words()),
        };
        format!("{}: {}{range}: {verdict}", self.limit, percent(self.ratio))
    }

    fn more_in_words(&self) -> String {
        let sure = (self.power * 100.0).round();
        match self.more {
            Some(MoreRepetitions::Some(more)) => format!(
                "; {more} more repetitions of each side would decide with a probability of {sure} %, where the change is as it was seen"
            ),
            Some(MoreRepetitions::TooMany) => {
                format!("; the change is so near to the limit that {MOST} more repetitions would not decide")
            }
            Some(MoreRepetitions::Sessions) => {
                "; no more repetitions decide: two sessions of the same differ by too much (see the anchor)"
                    .to_owned()
            }
            Some(MoreRepetitions::Unknown) if self.interval.is_some() => {
                "; all runs are alike, and the difference may be one step of their digits: keep more of these"
                    .to_owned()
            }
            Some(MoreRepetitions::Unknown) => "; measure each side at least twice".to_owned(),
            None => String::new(),
        }
    }
}

/// The verdict of all: broken where one is, kept where all are.
pub fn verdict(answers: &[RegressionAnswer]) -> RegressionVerdict {
    answers.iter().map(|answer| answer.verdict).max().unwrap_or(RegressionVerdict::Kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::{results, silent, uniform_from};

    fn limit(text: &str) -> RegressionLimit {
        text.parse().unwrap()
    }

    fn pair(base: &[f64], other: &[f64]) -> RunPair {
        RunPair { base: base.to_vec(), other: other.to_vec(), repetitions: [None, None] }
    }

    /// The same where the runs are those of the repetitions from 0.
    fn numbered(pair: RunPair) -> RunPair {
        let numbers = |runs: &[f64]| -> Option<Vec<u32>> { Some((0..).take(runs.len()).collect()) };
        RunPair { repetitions: [numbers(&pair.base), numbers(&pair.other)], ..pair }
    }

    fn of(text: &str, pairs: &[RunPair]) -> RegressionAnswer {
        judge(&limit(text), pairs, None, RegressionLevels::shared(1, 0.8)).unwrap()
    }

    #[test]
    fn a_limit_is_read_as_it_is_written() {
        for text in ["throughput < -5%", "p99 > +10%", "time > +2.5%"] {
            assert_eq!(limit(text).to_string(), text);
        }
        assert_eq!(limit(" response>10 % ").to_string(), "response > +10%");
        for text in ["", "throughput", "throughput < -5", "< -5%", "x < five%", "x < -100%"] {
            assert!(text.parse::<RegressionLimit>().unwrap_err().hint.contains("-5%"), "{text}");
        }
    }

    #[test]
    fn a_verdict_needs_the_whole_interval_on_one_side() {
        let base = [100.0, 101.0, 99.0, 100.0];
        let worse = [80.0, 81.0, 79.0, 80.0];
        assert_eq!(of("x < -5%", &[pair(&base, &worse)]).verdict, RegressionVerdict::Broken);
        assert_eq!(of("x < -5%", &[pair(&base, &base)]).verdict, RegressionVerdict::Kept);
        assert_eq!(of("x > 5%", &[pair(&worse, &base)]).verdict, RegressionVerdict::Broken);
        assert_eq!(of("x > 5%", &[pair(&base, &worse)]).verdict, RegressionVerdict::Kept);
        let near = of("x < -5%", &[pair(&base, &[94.0, 97.0, 95.0, 96.0])]);
        assert_eq!(near.verdict, RegressionVerdict::NoConclusion);
        assert!(near.sentence().contains("no conclusion; "), "{}", near.sentence());
        let once = of("x < -5%", &[pair(&[100.0], &[50.0])]);
        assert_eq!(
            (once.verdict, once.more),
            (RegressionVerdict::NoConclusion, Some(MoreRepetitions::Unknown))
        );
        assert!(judge(&limit("x < -5%"), &[], None, RegressionLevels::shared(1, 0.8)).is_none());
    }

    /// Percentiles of buckets that are 2.5 % wide: what is known of the change is 0 to 5 %.
    #[test]
    fn runs_that_are_alike_to_their_digits_prove_nothing_and_counts_do() {
        let rounded = of("p99 > 2%", &[pair(&[0.319; 2], &[0.327; 2])]);
        assert_eq!(
            (rounded.verdict, rounded.more),
            (RegressionVerdict::NoConclusion, Some(MoreRepetitions::Unknown))
        );
        assert!(rounded.sentence().ends_with("keep more of these"), "{}", rounded.sentence());
        // In whatever unit; and of one digit a step is a third.
        for (base, other) in [(0.319e-3, 0.327e-3), (0.3e-3, 0.4e-3)] {
            let one = of("p99 > 2%", &[pair(&[base; 2], &[other; 2])]);
            assert_eq!(one.verdict, RegressionVerdict::NoConclusion, "{}", one.sentence());
        }
        // Farther from the limit than a step.
        for (other, verdict) in [(0.223, RegressionVerdict::Kept), (0.415, RegressionVerdict::Broken)] {
            let one = of("p99 > 2%", &[pair(&[0.319; 2], &[other; 2])]);
            assert_eq!(one.verdict, verdict, "{}", one.sentence());
        }
        let counted = of("allocations > 5%", &[pair(&[1_000.0; 2], &[1_100.0; 2])]);
        assert_eq!(counted.verdict, RegressionVerdict::Broken);
        let same = of("p99 > 2%", &[pair(&[0.319; 2], &[0.319; 2])]);
        assert_eq!(same.verdict, RegressionVerdict::Kept);
    }

    #[test]
    fn cells_that_are_slower_together_count_together() {
        let cell = |scale: f64| pair(&[100.0 * scale, 103.0 * scale], &[91.0 * scale, 94.0 * scale]);
        assert_eq!(of("x < -5%", &[cell(1.0)]).verdict, RegressionVerdict::NoConclusion);
        let many: Vec<RunPair> = (1..=12).map(|number| cell(f64::from(number))).collect();
        assert_eq!(of("x < -5%", &many).verdict, RegressionVerdict::Broken);
    }

    /// Runs that scatter by 3 %, drawn from a seed.
    fn drawn(seed: u64, mean: f64, runs: usize) -> Vec<f64> {
        let mut uniform = uniform_from(seed);
        // Twelve uniform draws have a normal sum, nearly, of variance 1.
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        (0..runs).map(|_| mean * (0.03 * normal()).exp()).collect()
    }

    /// 1,000 comparisons of the same with the same. A limit of no change at all is the hardest.
    #[test]
    fn the_same_raises_an_alarm_in_at_most_one_of_twenty() {
        for (text, most) in [("x < 0%", 50), ("x > 0%", 50), ("x < -5%", 1)] {
            let alarms = (0..1_000)
                .filter(|seed| {
                    let pairs = pair(&drawn(2 * seed, 100.0, 5), &drawn(2 * seed + 1, 100.0, 5));
                    of(text, &[pairs]).verdict == RegressionVerdict::Broken
                })
                .count();
            assert!(alarms <= most, "{text}: {alarms} of 1,000");
            assert!(alarms > 0 || most < 50, "{text}: an alarm that never rings checks nothing");
        }
    }

    /// What was promised for more repetitions comes about as often as was said.
    #[test]
    fn the_repetitions_that_are_named_decide() {
        let seen = of("x < -5%", &[pair(&[100.0, 103.0, 97.0, 100.0], &[98.0, 101.0, 95.0, 98.0])]);
        let Some(MoreRepetitions::Some(more)) = seen.more else { panic!("{seen:?}") };
        let all = more as usize + 4;
        let spread = |mean: f64, seed: u64| -> Vec<f64> {
            // The scatter of the runs that were seen.
            let scale = Summary::of(&[100.0_f64.ln(), 103.0_f64.ln(), 97.0_f64.ln(), 100.0_f64.ln()])
                .unwrap()
                .sd()
                .unwrap()
                / 0.03;
            drawn(seed, 1.0, all).iter().map(|run| mean * run.powf(scale)).collect()
        };
        let decided = (0..500)
            .filter(|seed| {
                let pairs = pair(&spread(100.0, 2 * seed), &spread(98.0, 2 * seed + 1));
                of("x < -5%", &[pairs]).verdict == RegressionVerdict::Kept
            })
            .count();
        assert!((350..=470).contains(&decided), "{decided} of 500 with {all} runs, 80 % were promised");
    }

    /// What a repetition does to all cells is averaged away by no number of them.
    #[test]
    fn cells_of_the_same_repetitions_are_no_independent_runs() {
        let side = |logarithms: [f64; 3], scale: f64| logarithms.map(|one| 1_000.0 * scale * one.exp());
        let cell = |scale| pair(&side([0.0, -0.20, 0.18], scale), &side([0.0, -0.25, -0.10], scale));
        let cells: Vec<RunPair> = (1..=24).map(|number| cell(f64::from(number))).collect();
        assert_eq!(of("x < -5%", &cells).verdict, RegressionVerdict::Broken);
        let cells: Vec<RunPair> = cells.into_iter().map(numbered).collect();
        let answer = of("x < -5%", &cells);
        assert_eq!((answer.verdict, answer.cells), (RegressionVerdict::NoConclusion, 24));
        // Three repetitions and three: 3.47 degrees of freedom.
        let interval = answer.interval.unwrap();
        assert!((interval.low - 0.607).abs() < 1e-3 && (interval.high - 1.321).abs() < 1e-3, "{interval:?}");
        assert!(matches!(answer.more, Some(MoreRepetitions::Some(100..=135))), "{answer:?}");
        // Nor where the base is of an earlier build, which wrote no numbers.
        let of_one = |pair: RunPair| {
            let [_, other] = pair.repetitions;
            RunPair { repetitions: [None, other], ..pair }
        };
        let cells: Vec<RunPair> = cells.into_iter().map(of_one).collect();
        assert_eq!(of("x < -5%", &cells).verdict, RegressionVerdict::NoConclusion);
    }

    /// The runs of cells that have so many, from the first repetition on: each repetition 17 %
    /// (standard deviation) beside the next, each run 3 %.
    fn of_shared_repetitions(normal: &mut impl FnMut() -> f64, lengths: &[usize]) -> Vec<Vec<f64>> {
        let blocks: Vec<f64> = (0..10).map(|_| 0.17 * normal()).collect();
        let mut cells = Vec::new();
        for runs in lengths {
            cells.push(blocks.iter().take(*runs).map(|block| (block + 0.03 * normal()).exp()).collect());
        }
        cells
    }

    /// 400 comparisons of the same with the same, also where a cell was run until it agreed.
    #[test]
    fn what_repetitions_share_raises_an_alarm_in_at_most_one_of_twenty() {
        for longest in [3, 10] {
            let lengths = [3, 3, 3, 3, 3, 3, 3, longest];
            let alarms = (0..400)
                .filter(|seed| {
                    let mut uniform = uniform_from(*seed);
                    let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
                    let base = of_shared_repetitions(&mut normal, &lengths);
                    let other = of_shared_repetitions(&mut normal, &lengths);
                    let pairs = base.iter().zip(&other).map(|(base, other)| numbered(pair(base, other)));
                    of("x < 0%", &pairs.collect::<Vec<_>>()).verdict == RegressionVerdict::Broken
                })
                .count();
            assert!((1..=20).contains(&alarms), "{alarms} of 400 with up to {longest} runs");
        }
    }

    /// Of one cell there is nothing to share; of eight, three repetitions have fewer degrees of
    /// freedom than 24 runs.
    #[test]
    fn where_repetitions_share_nothing_their_numbers_cost_the_degrees_of_freedom_alone() {
        let cells: Vec<RunPair> =
            (0..800).map(|seed| pair(&drawn(2 * seed, 100.0, 3), &drawn(2 * seed + 1, 100.0, 3))).collect();
        let width = |pairs: &[RunPair]| {
            let interval = of("x < -5%", pairs).interval.unwrap();
            (interval.high / interval.low).ln()
        };
        let wider = |pairs: &[RunPair]| {
            let numbered: Vec<RunPair> = pairs.iter().cloned().map(numbered).collect();
            width(&numbered) / width(pairs)
        };
        assert!((wider(&cells[..1]) - 1.0).abs() < 1e-9);
        let mean = cells.chunks(8).map(wider).sum::<f64>() / 100.0;
        assert!((1.2..1.7).contains(&mean), "{mean}");
    }

    /// Earlier builds wrote no numbers: all are 0, and nothing is known of what they share.
    #[test]
    fn runs_without_numbers_are_independent() {
        let rates = [1_000.0, 1_010.0, 990.0];
        let [mut base, mut other] = [results(&rates), results(&rates.map(|rate| rate * 1.01))];
        for cell in base.cells.iter_mut().chain(&mut other.cells) {
            cell.repetitions.iter_mut().for_each(|run| run.repetition = 0);
        }
        let answer = &judge_results(&[limit("throughput < -5%")], (&base, &other), 0.8).unwrap()[0];
        let interval = answer.interval.unwrap();
        assert!(interval.high - interval.low > 0.01, "{interval:?}");
    }

    /// Each cell gets as many more, however many it has: what scatters most has the most already.
    #[test]
    fn cells_with_more_runs_do_not_shorten_the_way() {
        let scaled = |runs: &[f64]| pair(runs, &runs.iter().map(|run| run * 0.98).collect::<Vec<f64>>());
        let quiet = scaled(&[100.0, 101.0, 99.0]);
        let noisy = scaled(&[90.0, 110.0, 90.0, 110.0, 90.0, 110.0, 90.0, 110.0, 90.0, 110.0]);
        let seen = of("x < -5%", &[quiet, noisy]);
        let Some(MoreRepetitions::Some(more)) = seen.more else { panic!("{seen:?}") };
        assert!((30..50).contains(&more), "{more}");
    }

    #[test]
    fn sessions_that_differ_are_not_outvoted_by_repetitions() {
        let base = [100.0, 101.0, 99.0, 100.0];
        // The second scatters less than the limit, and has too few degrees of freedom to show it.
        for (text, session) in [("x < -5%", (0.05_f64.powi(2), 4.0)), ("x < -3%", (0.01_f64.powi(2), 2.0))] {
            let pairs = [pair(&base, &base)];
            let answer =
                judge(&limit(text), &pairs, Some(session), RegressionLevels::shared(1, 0.8)).unwrap();
            assert_eq!(
                (answer.verdict, answer.more),
                (RegressionVerdict::NoConclusion, Some(MoreRepetitions::Sessions)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_cell_that_answered_nothing_is_named() {
        let base = results(&[1_000.0, 1_010.0, 990.0]);
        let other = silent(base.clone(), 1);
        let judged = |text: &str| judge_results(&[limit(text)], (&base, &other), 0.8);
        let mistake = judged("throughput < -5%").unwrap_err();
        assert!(mistake.what.contains("read, 8 clients has a run with"), "{mistake:?}");
        assert_eq!(judged("response > 5%").unwrap()[0].cells, 2);
    }
}
