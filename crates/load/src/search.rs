//! The highest rate that a system carries with its response times below a limit: which rate to try
//! next. Pure.
//!
//! The rate doubles until a trial fails, then halves the gap (by ratio) until it is narrow. From
//! one trial to the next chance decides near the limit, so a search is repeated, each time over
//! other rates, and the answers are an estimate with an interval.

use krarup_stats::{Estimate, summary::Summary};
use krarup_units::{Nanos, PerSecond, Seconds};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::account::{LateArrivals, MOSTLY_OF_SYSTEM};
use crate::collect::late_because;
use crate::random;
use crate::result::{LoadResult, LoadWarning};

/// What a trial must keep to count as carried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialLimit {
    /// The 99th percentile of the response time may be this long, in seconds.
    pub p99: Seconds,
    /// This share of the requests that were due must have been answered without an error, 0 to 1.
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
/// How finely the highest rate is searched for.
const PRECISION: f64 = 0.05;

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

    /// The middle, by ratio, between that and the lowest rate that was not carried: the limit lies
    /// between them.
    fn middle(&self) -> f64 {
        if self.failed.is_finite() { (self.carried * self.failed).sqrt() } else { self.carried }
    }
}

impl TrialLimit {
    /// Whether a trial with this 99th percentile was carried: all that was due was sent, and enough
    /// of it was answered, be it after the measured part. How many were due by chance, and how long
    /// the last answers took, decides nothing.
    fn holds(self, p99: Option<Seconds>, result: &LoadResult) -> bool {
        let account = &result.account;
        let done = account.answered - account.error_answers();
        account.unsent == 0
            && p99.is_some_and(|p99| p99 <= self.p99)
            && done as f64 >= self.carried * account.sent as f64
    }

    /// Whether response times are over the limit by the generator's lateness: those from when
    /// requests were sent are below it, and the system had answered most of what came before.
    fn was_missed_by_the_generator(self, p99: Seconds, result: &LoadResult, sent: LateArrivals) -> bool {
        let is_missed = p99 > self.p99 && result.overall.time_from_sent.p99 <= self.p99;
        is_missed && sent.share_waited() < MOSTLY_OF_SYSTEM
    }
}

/// One trial of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchTrial {
    /// Which search it belongs to, from zero.
    pub search: u32,
    /// The rate that was asked for.
    pub rate: PerSecond,
    /// The rate at which requests were answered without an error in the measured part.
    pub throughput: PerSecond,
    /// Its 99th percentile of response time from the end of the warm-up to the last answer, in
    /// seconds; 0 where nothing was answered.
    pub p99: Seconds,
    /// Whether it was carried.
    pub carried: bool,
    /// What to know before believing it.
    pub warnings: Vec<LoadWarning>,
}

impl SearchTrial {
    /// What came of trying `rate` in a search.
    pub fn new(search: u32, rate: PerSecond, limit: TrialLimit, result: LoadResult) -> Self {
        let p99 = result.p99_to_last_answer();
        let carried = limit.holds(p99, &result);
        let of = Nanos::from_seconds;
        let sent = LateArrivals { late: of(result.generator.late), waited: of(result.generator.waited) };
        let failed_late = !carried && limit.was_missed_by_the_generator(p99.unwrap_or(0.0), &result, sent);
        let mut warnings = result.warnings;
        let is_of_lateness = |one: &LoadWarning| {
            matches!(one, LoadWarning::GeneratorLate { .. } | LoadWarning::ConnectionsWaited { .. })
        };
        if failed_late && !warnings.iter().any(is_of_lateness) {
            warnings.push(late_because("", &result.overall, sent));
        }
        Self {
            search,
            rate,
            throughput: result.overall.throughput,
            p99: p99.unwrap_or(0.0),
            carried,
            warnings,
        }
    }

    /// Whether the generator itself may have been what kept it from being carried.
    fn is_of_generator(&self) -> bool {
        !self.carried && self.warnings.iter().any(LoadWarning::blames_generator)
    }
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
    /// The mean, requests per second, of the middles between these and the lowest rates that were
    /// not carried, with its 95 % interval (Student's t). `None` with fewer than two.
    pub rate: Option<Estimate>,
}

impl FoundMax {
    /// How many searches there were.
    pub(crate) fn searches(&self) -> usize {
        self.trials.last().map_or(0, |trial| trial.search as usize + 1)
    }

    /// In how many of them the generator itself may have kept the lowest rate that was not carried
    /// from being so: the limit is below that rate, and may be the generator's.
    pub(crate) fn of_generator(&self) -> usize {
        let failed = |search: usize| {
            let trials = self.trials.iter().filter(move |one| one.search as usize == search && !one.carried);
            trials.min_by(|one, other| one.rate.0.total_cmp(&other.rate.0))
        };
        (0..self.searches()).filter_map(failed).filter(|one| one.is_of_generator()).count()
    }

    /// Searches so often, first from `start`, then from below the last answer by up to a half,
    /// drawn under `seed`: over the same rates a steady system would give the same answer each
    /// time, however far from its limit. `attempt` tries a rate in the search of this number.
    ///
    /// # Errors
    /// The first of `attempt`.
    pub fn search<E>(
        limit: TrialLimit,
        repetitions: u32,
        start: PerSecond,
        seed: u64,
        mut attempt: impl FnMut(u32, PerSecond) -> Result<SearchTrial, E>,
    ) -> Result<Self, E> {
        let (mut trials, mut found, mut middles) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..repetitions {
            let begin = found.last().map_or(start, |last: &PerSecond| {
                let mut shift = random::stream(seed, "find max", number.into());
                PerSecond(last.0 * (-shift.random::<f64>()).exp2())
            });
            let mut search = Search::new(begin, PRECISION);
            while let Some(rate) = search.next() {
                let trial = attempt(number, rate)?;
                search.tell(rate, trial.carried);
                trials.push(trial);
            }
            if let Some(rate) = search.found() {
                found.push(rate);
                middles.push(search.middle());
            }
        }
        let rate = Summary::of(&middles).and_then(|summary| summary.mean_estimate(0.95)).ok();
        Ok(Self { limit, trials, found, rate })
    }
}

#[cfg(test)]
mod tests {
    use krarup_memcache::ReplyClass;
    use krarup_record::{Operation, ServerVisit, Visit};
    use krarup_units::Stamp;
    use proptest::prelude::*;

    use super::*;
    use crate::account::{Account, MeasuredSpan};
    use crate::collect::reported;
    use crate::config::{Extent, Load};
    use crate::engine::Done;
    use crate::merge::merge;
    use crate::schedule::{ArrivalProcess, Arrivals, Leg, Open};

    const LIMIT: TrialLimit = TrialLimit { p99: 0.5, carried: 0.98 };

    /// A run of ten seconds at 1,000 requests per second, each answered after its time.
    fn run(took: impl Fn(u64) -> Nanos) -> LoadResult {
        run_late(Nanos::ZERO, took)
    }

    /// The same, each sent so late.
    fn run_late(late: Nanos, took: impl Fn(u64) -> Nanos) -> LoadResult {
        let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(10_000_000_000) }, 1);
        let request = |number: u64| (Stamp(number * 1_000_000), Stamp(number * 1_000_000) + took(number));
        let mut requests: Vec<(Stamp, Stamp)> = (0..10_000).map(request).collect();
        requests.sort_by_key(|(_, replied)| *replied);
        for (due, replied) in requests {
            let mut visit = Visit::at(due, Operation::Get);
            (visit.taken, visit.replied) = (due + late, replied);
            let server = ServerVisit::ok(0, visit.taken, replied);
            account.answered(ReplyClass::Values, &mut visit, server);
        }
        account.close(Stamp(20_000_000_000));
        let leg = Leg { from: PerSecond(1_000.0), to: PerSecond(1_000.0), seconds: 0.0 };
        let arrivals = Arrivals::Open(Open { process: ArrivalProcess::Paced, legs: vec![leg] });
        let load = Load { arrivals, extent: Extent::Seconds(10.0), ..Load::default() };
        reported(&load, account, Done { sent: 10_000, ..Done::default() })
    }

    fn tried(result: LoadResult) -> SearchTrial {
        SearchTrial::new(0, PerSecond(1_000.0), LIMIT, result)
    }

    #[test]
    fn what_is_answered_after_the_measured_part_is_carried_if_it_is_soon() {
        let even = run(|_| Nanos::from_millis(300));
        assert_eq!((even.overall.throughput.0, even.account.answered), (970.0, 10_000));
        assert_eq!(even.warnings, []);
        let trial = tried(even);
        assert!(trial.carried && (trial.p99 - 0.3).abs() < 0.001, "{trial:?}");
        // The last fiftieth waits behind a backlog, which is answered after the measured part.
        let backlog = run(|number| Nanos::from_millis(if number < 9_800 { 300 } else { 2_000 }));
        assert!(backlog.overall.response_time.p99 < 0.31);
        let merged = merge(std::slice::from_ref(&backlog), &["1.json".to_owned()]).unwrap();
        for warnings in [&backlog.warnings, &merged.warnings] {
            let [LoadWarning::AnsweredLate { p99 }] = warnings[..] else { panic!("{warnings:?}") };
            assert!(p99 > 1.9, "{p99}");
        }
        let trial = tried(backlog);
        assert!(!trial.carried && trial.p99 > 1.9, "{trial:?}");
    }

    /// Lateness that is none beside most limits decides where the limit is below a millisecond.
    #[test]
    fn a_trial_that_the_generator_itself_failed_says_so() {
        let limit = TrialLimit { p99: 0.000_5, carried: 0.98 };
        let tried = |late, took| {
            let result = run_late(Nanos::from_micros(late), |_| Nanos::from_micros(took));
            SearchTrial::new(0, PerSecond(1_000.0), limit, result)
        };
        let late = tried(700, 780);
        assert!(!late.carried && late.is_of_generator(), "{late:?}");
        assert!(matches!(late.warnings[..], [LoadWarning::GeneratorLate { .. }]), "{late:?}");
        let mut both = run_late(Nanos::from_micros(700), |_| Nanos::from_micros(780));
        (both.generator.late, both.generator.waited) = (7.0, 2.1);
        let both = SearchTrial::new(0, PerSecond(1_000.0), limit, both);
        assert!(both.is_of_generator(), "{both:?}");
        assert!(matches!(both.warnings[..], [LoadWarning::ConnectionsWaited { .. }]), "{both:?}");
        let slow = tried(0, 700);
        assert!(!slow.carried && !slow.is_of_generator(), "{slow:?}");
        assert_eq!(slow.warnings, []);
        assert_eq!(tried(300, 400).warnings, [], "it was carried all the same");
        // What is told of all searches is of the lowest rate that failed in each.
        let at = |search, rate, trial: &SearchTrial| SearchTrial {
            search,
            rate: PerSecond(rate),
            ..trial.clone()
        };
        let [low, high] = [5_000.0, 9_000.0];
        let trials = vec![at(0, high, &slow), at(0, low, &late), at(1, high, &late), at(1, low, &slow)];
        let max = FoundMax { limit, trials, found: Vec::new(), rate: None };
        assert_eq!((max.of_generator(), max.searches()), (1, 2));
        assert!(crate::table::found_max(&max).contains("in 1 of 2 searches"));
    }

    #[test]
    fn a_trial_is_carried_where_enough_of_what_was_due_was_answered_without_an_error() {
        // Fewer were due than the rate says, by chance, and all of them were answered.
        let mut result = run(|_| Nanos::from_millis(1));
        (result.account.sent, result.account.answered) = (9_700, 9_700);
        assert!(tried(result.clone()).carried);
        result.account.sent = 10_000;
        assert!(!tried(result.clone()).carried, "three of a hundred were lost");
        result.account.answered = 10_000;
        assert!(tried(result.clone()).carried);
        let errors = [("server_error".to_owned(), 300), ("stored".to_owned(), 700)];
        result.account.answers.insert("set".to_owned(), errors.into());
        assert!(!tried(result.clone()).carried, "three of a hundred were errors");
        result.account.answers.clear();
        result.account.unsent = 1;
        assert!(!tried(result).carried);
    }

    /// Searches a system that carries everything up to `capacity`; the rates that were tried.
    fn search(start: f64, capacity: f64) -> (Search, Vec<f64>) {
        let mut search = Search::new(PerSecond(start), PRECISION);
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

    #[test]
    fn repeated_searches_of_a_steady_system_tell_how_well_they_know_its_limit() {
        let attempt = |search, rate: PerSecond| {
            let carried = rate.0 <= 3_000.0;
            let trial =
                SearchTrial { search, rate, throughput: rate, p99: 0.0, carried, warnings: Vec::new() };
            Ok::<_, ()>(trial)
        };
        let max = FoundMax::search(LIMIT, 10, PerSecond(1_000.0), 1, attempt).unwrap();
        assert_eq!((max.found.len(), max.trials[0].rate), (10, PerSecond(1_000.0)));
        let interval = max.rate.unwrap().interval;
        assert!(interval.low < 3_000.0 && 3_000.0 < interval.high, "{interval:?}");
        let mut found: Vec<f64> = max.found.iter().map(|rate| rate.0).collect();
        found.sort_by(f64::total_cmp);
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
        assert!(found[0] * 1.05 > 3_000.0 && found[9] <= 3_000.0, "{found:?}");
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
