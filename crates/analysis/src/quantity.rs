//! An estimate: a value, how far off it may be, and what that rests on.

use krarup_stats::autocorrelation::effective_size;
use krarup_stats::{Interval, Summary, USUAL_LEVEL};
use serde::{Deserialize, Serialize};

/// What an interval is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalBasis {
    /// Independent runs: the spread between them.
    Repetitions,
    /// The windows of a single run: the spread within it, which says nothing about another run.
    Windows,
}

/// An estimate: its value, what it rests on, and where the true value may lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The mean over repetitions, in the base unit.
    pub value: f64,
    /// Student's t interval at 95 %; none where a single observation gives none.
    pub interval: Option<Interval>,
    /// How many observations it rests on.
    pub n: u64,
    /// What those are.
    pub basis: IntervalBasis,
}

/// Estimates of one kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeQuantities {
    /// Mean.
    pub mean: Quantity,
    /// 50th percentile: the mean of the repetitions' own.
    pub p50: Quantity,
    /// 90th percentile, likewise.
    pub p90: Quantity,
    /// 99th percentile, likewise.
    pub p99: Quantity,
}

/// A value whose interval reaches farther than this share of it to either side is not known well:
/// the interval is wider than a fifth of it.
pub const CERTAIN: f64 = 0.1;

/// Fewer windows do not show how much they repeat each other.
const MANY_WINDOWS: usize = 12;

impl Quantity {
    /// Half of its interval as a share of its value; none where it has no interval. Of a value of 0
    /// any interval is too wide.
    pub fn half_share(&self) -> Option<f64> {
        let half = self.interval?.half_width();
        Some(if half > 0.0 { half / self.value.abs() } else { 0.0 })
    }

    /// Whether its interval allows a conclusion to be drawn from it. A value without one is not
    /// refused; the conclusion is told with the remark that there is no interval.
    pub fn is_certain(&self) -> bool {
        self.half_share().is_none_or(|half| half <= CERTAIN)
    }

    /// The mean of one value for each repetition, with its t interval where there are two or more.
    ///
    /// # Errors
    /// If there is no value, or one is not finite.
    pub fn of_repetitions(values: &[f64]) -> Result<Self, krarup_stats::StatsError> {
        let summary = Summary::of(values)?;
        let interval = summary.mean_estimate(USUAL_LEVEL).ok().map(|estimate| estimate.interval);
        Ok(Self { value: summary.mean, interval, n: summary.n, basis: IntervalBasis::Repetitions })
    }

    /// As [`Quantity::of_repetitions`]; of a single one, the interval is made from its windows: the
    /// same half width as their mean has, around the value of the run as a whole. Windows that
    /// repeat each other are worth as many as [`effective_size`] says, in the standard error and in
    /// the degrees of freedom, where there are enough to tell.
    ///
    /// # Errors
    /// As [`Quantity::of_repetitions`].
    pub fn of_run(values: &[f64], windows: &[f64]) -> Result<Self, krarup_stats::StatsError> {
        let plain = Self::of_repetitions(values)?;
        if values.len() > 1 || windows.len() < 2 {
            return Ok(plain);
        }
        let spread = Summary::of(windows)?;
        let alike = if windows.len() < MANY_WINDOWS { None } else { effective_size(windows).ok() };
        let (wider, size) = alike.map_or((1.0, spread.n as f64), |size| (size.time.sqrt(), size.effective));
        let interval = spread.standard_error().ok().and_then(|error| {
            Interval::student(plain.value, wider * error, (size - 1.0).max(1.0), USUAL_LEVEL).ok()
        });
        Ok(Self { interval, n: spread.n, basis: IntervalBasis::Windows, ..plain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_has_the_interval_of_its_windows_and_says_so() {
        let one = Quantity::of_run(&[100.0], &[98.0, 100.0, 102.0]).unwrap();
        assert_eq!((one.n, one.basis), (3, IntervalBasis::Windows));
        let half = one.interval.unwrap().half_width();
        assert!((half - 4.303 * 2.0 / 3.0_f64.sqrt()).abs() < 0.01, "{half}");
    }

    #[test]
    fn windows_that_repeat_each_other_make_a_wider_interval() {
        let half =
            |windows: &[f64]| Quantity::of_run(&[100.0], windows).unwrap().interval.unwrap().half_width();
        // Ten seconds high, ten seconds low, and so on: six values, not sixty.
        let slow: Vec<f64> = (0..60).map(|place| 95.0 + 10.0 * f64::from(place / 10 % 2)).collect();
        let quick: Vec<f64> = (0..60).map(|place| 95.0 + 10.0 * f64::from(place % 2)).collect();
        assert!(half(&slow) > 2.0 * half(&quick), "{} {}", half(&slow), half(&quick));
        assert!((half(&quick) - 2.001 * 5.0425 / 60.0_f64.sqrt()).abs() < 0.01, "{}", half(&quick));
        // They are worth about eleven independent values.
        let worth = effective_size(&slow).unwrap().effective;
        let sd = Summary::of(&slow).unwrap().sd().unwrap();
        assert!((10.0..12.0).contains(&worth), "{worth}");
        let expected = Interval::student(0.0, sd / worth.sqrt(), worth - 1.0, USUAL_LEVEL).unwrap();
        assert!((half(&slow) - expected.high).abs() < 1e-9, "{} {}", half(&slow), expected.high);
    }

    #[test]
    fn several_runs_have_the_interval_of_their_spread() {
        let three = Quantity::of_run(&[99.0, 100.0, 101.0], &[1.0, 200.0]).unwrap();
        assert_eq!((three.value, three.n, three.basis), (100.0, 3, IntervalBasis::Repetitions));
        assert!((three.interval.unwrap().half_width() - 4.303 / 3.0_f64.sqrt()).abs() < 0.01);
    }

    #[test]
    fn a_single_observation_has_no_interval() {
        assert_eq!(Quantity::of_run(&[5.0], &[]).unwrap().interval, None);
        assert!(Quantity::of_repetitions(&[]).is_err());
        assert!(Quantity::of_repetitions(&[f64::NAN]).is_err());
    }
}
