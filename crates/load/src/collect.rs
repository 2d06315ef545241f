//! What the threads report second by second, put together: the series while it goes on, the result
//! at the end.

use std::collections::VecDeque;

use krarup_net::Clock;
use krarup_units::{Nanos, Seconds, Stamp};

use crate::account::{Segment, Verified};
use crate::config::{ClientClass, Extent, Load};
use crate::engine::Done;
use crate::progress::{LoadProgress, Phase};
use crate::result::{
    ClassResult, FORMAT, Generator, LoadResult, LoadWarning, OperationResult, SeriesRow, WholeRun, series,
};
use crate::schedule::Arrivals;

/// What the threads have reported so far.
pub(crate) struct Collected {
    /// Segments that not all threads have reported, oldest first; the number of those that are
    /// still to come beside each.
    waiting: Vec<VecDeque<Segment>>,
    /// Which threads are done.
    pub(crate) finished: Vec<bool>,
    /// The classes' names.
    names: Vec<String>,
    whole: Segment,
    measured: Segment,
    series: Vec<SeriesRow>,
    phase: Phase,
    of: Extent,
    epoch_unix: Nanos,
}

impl Collected {
    /// Of nothing yet.
    pub(crate) fn new(threads: usize, load: &Load, phase: Phase, clock: Clock) -> Self {
        let from = Stamp(Nanos::from_seconds(load.warm_up).0);
        let names: Vec<String> = load.parts().into_iter().map(|class| class.name).collect();
        let classes = names.len();
        Self {
            names,
            waiting: (0..threads).map(|_| VecDeque::new()).collect(),
            finished: vec![false; threads],
            whole: Segment::new(Stamp(0), Stamp(0), false, classes),
            measured: Segment::new(from, from, true, classes),
            series: Vec::new(),
            phase,
            of: load.extent,
            epoch_unix: clock.wall_epoch(),
        }
    }

    /// What a thread has said.
    pub(crate) fn take(
        &mut self,
        thread: usize,
        segment: Option<Segment>,
        observe: &mut dyn FnMut(&LoadProgress<'_>),
    ) {
        match segment {
            Some(segment) => self.waiting[thread].push_back(segment),
            None => self.finished[thread] = true,
        }
        // All threads cut time at the same stamps, but where the run ended: the earliest start is
        // next, and is complete when every thread has reported it or is done.
        while self
            .waiting
            .iter()
            .zip(&self.finished)
            .all(|(segments, &finished)| finished || !segments.is_empty())
        {
            let Some(start) = self.waiting.iter().filter_map(|one| one.front()).map(|one| one.start).min()
            else {
                return;
            };
            let fronts = self.waiting.iter_mut().filter_map(|one| pop_if(one, start));
            let Some(whole) = fronts.reduce(|mut sum, one| {
                sum.merge(&one);
                sum
            }) else {
                return;
            };
            self.add(&whole, observe);
        }
    }

    fn add(&mut self, segment: &Segment, observe: &mut dyn FnMut(&LoadProgress<'_>)) {
        self.whole.merge(segment);
        if segment.measured {
            self.measured.merge(segment);
        }
        if segment.end > segment.start || segment.overall().tally.count > 0 {
            let rows = series(segment, &self.names);
            observe(&LoadProgress {
                phase: self.phase,
                of: self.of,
                epoch_unix: self.epoch_unix,
                rows: &rows,
                segment,
            });
            self.series.extend(rows);
        }
    }

    /// What the run found out.
    pub(crate) fn result(self, load: &Load, done: &[Done], interrupted: bool) -> LoadResult {
        let last = done.iter().map(|one| one.last).max().unwrap_or(Stamp(0));
        let mut account = WholeRun::of(&self.whole);
        let mut verified = Verified::default();
        for one in done {
            account.sent += one.sent;
            account.unsent += one.unsent;
            account.bytes_sent += one.bytes_sent;
            account.bytes_received += one.bytes_received;
            verified.merge(one.verified.clone());
        }
        // A run of so many requests is measured until its last answer.
        let end = match load.extent {
            Extent::Requests(_) | Extent::Trace => self.measured.end.min(last),
            Extent::Seconds(_) => self.measured.end,
        };
        let length = Nanos(end.0.saturating_sub(self.measured.start.0));
        let all = self.measured.all();
        let overall = all.overall_result(length);
        let several = self.names.len() > 1;
        let classes = load.parts().into_iter().zip(&self.measured.classes).zip(&self.whole.classes);
        let classes = classes.filter(|_| several).map(|((class, measured), whole)| ClassResult {
            name: class.name,
            connections: class.connections,
            answered: whole.overall().answered(),
            overall: measured.overall_result(length),
            operations: measured.operations(length),
        });
        let elapsed = Nanos(self.whole.end.max(last).0.max(1)).as_seconds();
        let cpu: Seconds = done.iter().map(|one| one.cpu.as_seconds()).sum();
        let generator = Generator {
            cpu_seconds: cpu,
            cpu_per_request: if account.sent > 0 { cpu / account.sent as f64 } else { 0.0 },
            busiest_thread: done
                .iter()
                .map(|one| one.cpu.as_seconds() / elapsed)
                .fold(0.0, f64::max)
                .min(1.0),
            elapsed,
            late: done.iter().map(|one| one.late.as_seconds()).sum(),
            waited: done.iter().map(|one| one.waited.as_seconds()).sum(),
        };
        let mut warnings = warnings_of_generator(load.is_open(), &overall, &generator);
        warnings.extend(warnings_of_counts(&account, &overall));
        warnings.extend(warnings_of_classes(&load.parts()));
        if done.iter().any(|one| one.gave_up) {
            warnings.push(LoadWarning::GaveUp);
        }
        LoadResult {
            format: FORMAT,
            config: load.clone(),
            started_unix: self.epoch_unix.as_seconds(),
            seconds: length.as_seconds(),
            interrupted,
            account,
            operations: all.operations(length),
            overall,
            classes: classes.collect(),
            series: self.series,
            generator,
            verified: load.verify.then_some(verified),
            rows: None,
            clock: None,
            clocks: None,
            merged_from: Vec::new(),
            warnings,
        }
    }
}

fn pop_if(segments: &mut VecDeque<Segment>, start: Stamp) -> Option<Segment> {
    segments.front().is_some_and(|front| front.start == start).then(|| segments.pop_front()).flatten()
}

/// A thread that runs for a larger share of its time than this has no time left to be on time.
const BUSY: f64 = 0.9;
/// Misses are worth a warning from this share on.
const MISSES: f64 = 0.01;

/// What the generator itself did that makes its figures doubtful.
fn warnings_of_generator(
    is_open: bool,
    overall: &OperationResult,
    generator: &Generator,
) -> Vec<LoadWarning> {
    let mut warnings = Vec::new();
    // The share of a run shorter than this is an accident of scheduling.
    if generator.busiest_thread > BUSY && generator.elapsed > 0.2 {
        warnings.push(LoadWarning::GeneratorBusy { share: generator.busiest_thread });
    }
    let (late, response) = (overall.lateness, overall.response_time);
    if is_open && late.p99 > 1e-3 && late.p99 > 0.1 * response.p50 {
        let share = if generator.late > 0.0 { generator.waited / generator.late } else { 0.0 };
        warnings.push(if share > 0.5 {
            LoadWarning::ConnectionsWaited { p99: late.p99, share }
        } else {
            LoadWarning::GeneratorLate { p99: late.p99, response_p50: response.p50 }
        });
    }
    warnings
}

/// What was asked for and never sent.
fn warnings_of_classes(classes: &[ClientClass]) -> Vec<LoadWarning> {
    let drawn = classes.iter().filter(|class| !matches!(class.arrivals, Arrivals::Replay(_)));
    let cut = |class: &ClientClass| {
        let most = class.workload.multi_get_cut()?;
        Some(LoadWarning::MultiGetCut { asked: class.workload.multi_get, most })
    };
    drawn.filter_map(cut).collect()
}

/// What the counts say that makes the figures doubtful.
pub(crate) fn warnings_of_counts(account: &WholeRun, overall: &OperationResult) -> Vec<LoadWarning> {
    let mut warnings = Vec::new();
    if account.unsent > 0 {
        warnings.push(LoadWarning::Unsent { count: account.unsent, due: account.unsent + account.sent });
    }
    let failed = overall.failed();
    if failed > 0 {
        warnings.push(LoadWarning::Errors { count: failed, of: overall.count });
    }
    let asked = overall.hits + overall.misses;
    if overall.misses as f64 > MISSES * asked as f64 {
        warnings.push(LoadWarning::Misses { count: overall.misses, of: asked });
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Share;
    use crate::command::Command;
    use crate::workload::{Mix, Workload};

    #[test]
    fn multi_gets_that_never_have_their_keys_are_told() {
        let told = |mix, multi_get| {
            let workload = Workload { mix, multi_get, ..Workload::default() };
            warnings_of_classes(&[ClientClass { workload, ..ClientClass::default() }])
        };
        let cut = LoadWarning::MultiGetCut { asked: 24, most: 1 };
        assert_eq!(told(Mix::Ratio { sets: 0, gets: 1 }, 24), std::slice::from_ref(&cut));
        assert_eq!(told(Mix::Weights(vec![(Command::Get, 1.0)]), 24), [cut]);
        assert_eq!(told(Mix::Weights(vec![(Command::Mget, 1.0)]), 24), []);
        assert_eq!(told(Mix::Ratio { sets: 1, gets: 8 }, 6), []);
        assert_eq!(told(Mix::Ratio { sets: 1, gets: 0 }, 6), []);
    }

    #[test]
    fn a_generator_that_is_itself_the_bottleneck_is_told_with_the_evidence() {
        let mut overall = Share::default().overall_result(Nanos::from_secs(1));
        let mut generator = Generator { busiest_thread: 0.97, elapsed: 5.0, ..Generator::default() };
        let busy = warnings_of_generator(true, &overall, &generator);
        assert_eq!(busy, [LoadWarning::GeneratorBusy { share: 0.97 }]);
        assert!(busy[0].to_string().contains("97 %") && busy[0].to_string().contains("--threads"));
        generator.busiest_thread = 0.5;
        assert_eq!(warnings_of_generator(true, &overall, &generator), []);
        overall.lateness.p99 = 0.01;
        overall.response_time.p50 = 0.02;
        let late = LoadWarning::GeneratorLate { p99: 0.01, response_p50: 0.02 };
        assert_eq!(warnings_of_generator(true, &overall, &generator), std::slice::from_ref(&late));
        // Whose doing it is decides where most of the time went.
        (generator.late, generator.waited) = (4.0, 1.0);
        assert_eq!(warnings_of_generator(true, &overall, &generator), [late]);
        generator.waited = 3.0;
        let waited = warnings_of_generator(true, &overall, &generator);
        assert_eq!(waited, [LoadWarning::ConnectionsWaited { p99: 0.01, share: 0.75 }]);
        let said = waited[0].to_string();
        assert!(
            said.contains("75 % of that time because all connections waited for answers")
                && !said.contains("add"),
            "{said}"
        );
        // In a closed load no request has a time to be late for.
        assert_eq!(warnings_of_generator(false, &overall, &generator), []);
    }
}
