//! The highest rate that a system carries with its response times below a limit: which rate to try
//! next. Pure.
//!
//! The rate doubles until a trial fails, then halves the gap (by ratio) until it is narrow. From
//! one trial to the next chance decides near the limit, so a search is repeated, and its answers
//! are an estimate with an interval.

use krarup_stats::{Estimate, summary::Summary};
use krarup_units::{PerSecond, Seconds};
use serde::{Deserialize, Serialize};

use crate::result::{LoadResult, LoadWarning};

/// What a trial must keep to count as carried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialLimit {
    /// The 99th percentile of the response time may be this long, in seconds.
    pub p99: Seconds,
    /// This share of the rate must have been answered without an error, 0 to 1.
    pub carried: f64,
}

/// One search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// The highest rate that was carried; 0 if none was yet.
    carried: f64,
    /// The lowest that was not; infinite if all were.
    failed: f64,
    /// Where it begins.
    start: f64,
    /// The search ends when failed / carried is below 1 + this.
    precision: f64,
}

/// Below this rate nothing is searched for.
const LEAST: f64 = 1.0;
/// Above this rate neither.
const MOST: f64 = 1e8;

impl Search {
    /// A search that begins at `start` (1 to 10⁸ per second) and ends when it knows the answer to
    /// `precision` (above 0, as a share).
    pub fn new(start: PerSecond, precision: f64) -> Self {
        Self {
            carried: 0.0,
            failed: f64::INFINITY,
            start: start.0.clamp(LEAST, MOST),
            precision: precision.max(1e-3),
        }
    }

    /// Which rate to try next. `None` when the search is over.
    pub fn next(&self) -> Option<PerSecond> {
        let next = match (self.carried > 0.0, self.failed.is_finite()) {
            (false, false) => self.start,
            (true, false) => self.carried * 2.0,
            (false, true) => self.failed / 2.0,
            (true, true) if self.failed / self.carried < 1.0 + self.precision => return None,
            (true, true) => (self.carried * self.failed).sqrt(),
        };
        (LEAST..=MOST).contains(&next).then_some(PerSecond(next))
    }

    /// What came of trying `rate`.
    pub fn tell(&mut self, rate: PerSecond, carried: bool) {
        if carried {
            self.carried = self.carried.max(rate.0);
        } else {
            self.failed = self.failed.min(rate.0);
        }
    }

    /// The highest rate that was carried. `None` if none was.
    pub fn found(&self) -> Option<PerSecond> {
        (self.carried > 0.0).then_some(PerSecond(self.carried))
    }
}

impl TrialLimit {
    /// Whether a trial at `rate` was carried.
    pub fn holds(&self, rate: PerSecond, result: &LoadResult) -> bool {
        let overall = &result.overall;
        result.account.unsent == 0
            && overall.response_time.count > 0
            && overall.response_time.p99 <= self.p99
            && overall.throughput.0 >= self.carried * rate.0
    }
}

/// One trial of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchTrial {
    /// Which search it belongs to, from zero.
    pub search: u32,
    /// The rate that was asked for.
    pub rate: PerSecond,
    /// The rate at which requests were answered without an error.
    pub throughput: PerSecond,
    /// Its 99th percentile of response time, in seconds.
    pub p99: Seconds,
    /// Whether it was carried.
    pub carried: bool,
    /// What to know before believing it.
    pub warnings: Vec<LoadWarning>,
}

/// What all searches found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundMax {
    /// What had to be kept.
    pub limit: TrialLimit,
    /// Every trial, in order.
    pub trials: Vec<SearchTrial>,
    /// The highest rate carried in each search; those that found none are left out.
    pub found: Vec<PerSecond>,
    /// Their mean, requests per second, with its 95 % interval (Student's t). `None` with fewer
    /// than two.
    pub rate: Option<Estimate>,
}

impl FoundMax {
    /// Sums the searches up.
    pub fn new(limit: TrialLimit, trials: Vec<SearchTrial>, found: Vec<PerSecond>) -> Self {
        let rates: Vec<f64> = found.iter().map(|rate| rate.0).collect();
        let rate = Summary::of(&rates).and_then(|summary| summary.mean_estimate(0.95)).ok();
        Self { limit, trials, found, rate }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches a system that carries everything up to `capacity`; the rates that were tried.
    fn search(start: f64, capacity: f64) -> (Search, Vec<f64>) {
        let mut search = Search::new(PerSecond(start), 0.05);
        let mut tried = Vec::new();
        while let Some(rate) = search.next() {
            tried.push(rate.0);
            search.tell(rate, rate.0 <= capacity);
        }
        (search, tried)
    }

    #[test]
    fn it_doubles_and_then_halves_the_gap() {
        let (found, tried) = search(1_000.0, 3_000.0);
        assert_eq!(&tried[..3], [1_000.0, 2_000.0, 4_000.0]);
        assert!((tried[3] - 2_828.4).abs() < 0.1);
        assert!((found.found().unwrap().0 / 3_000.0 - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_system_that_carries_nothing_ends_the_search() {
        let (found, tried) = search(1_000.0, 0.0);
        assert_eq!(found.found(), None);
        assert!(tried.len() <= 11, "{tried:?}");
    }

    proptest! {
        #[test]
        fn the_answer_is_within_the_precision_after_few_trials(start in 1.0_f64..1e6, capacity in 2.0_f64..1e7) {
            let (found, tried) = search(start, capacity);
            let rate = found.found().unwrap().0;
            prop_assert!(rate <= capacity && capacity / rate < 1.05 * 1.000_001, "{rate} of {capacity}");
            prop_assert!(tried.len() <= 30, "{tried:?}");
        }
    }
}
