//! What the threads report second by second, put together: the series while it goes on, the result
//! at the end.

use std::collections::VecDeque;

use krarup_net::Clock;
use krarup_units::{Nanos, Seconds, Stamp};

use crate::account::{LateArrivals, Segment, Verified};
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

    /// What the run found out, on so many processors.
    pub(crate) fn result(self, load: &Load, done: &[Done], interrupted: bool, processors: f64) -> LoadResult {
        let last = done.iter().map(|one| one.last).max().unwrap_or(Stamp(0));
        let mut account = WholeRun::of(&self.whole);
        let mut verified = Verified::default();
        let mut late = vec![LateArrivals::default(); self.names.len()];
        for one in done {
            late.iter_mut().zip(&one.late).for_each(|(sum, one)| sum.merge(*one));
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
        let classes: Vec<ClassResult> = classes
            .map(|((class, measured), whole)| ClassResult {
                name: class.name,
                connections: class.connections,
                answered: whole.overall().answered(),
                overall: measured.overall_result(length),
                operations: measured.operations(length),
            })
            .collect();
        let elapsed = Nanos(self.whole.end.max(last).0.max(1)).as_seconds();
        let generator = generator(done, account.sent, elapsed, &late, processors);
        let mut warnings = Vec::from_iter(warning_of_generator(&generator));
        let parts = load.parts();
        let open = parts.iter().zip(&classes).zip(&late).filter(|((part, _), _)| !part.arrivals.is_closed());
        warnings.extend(
            open.filter_map(|((_, class), late)| warning_of_lateness(&class.name, &class.overall, *late)),
        );
        warnings.extend(warnings_of_counts(&account, &overall, &[load]));
        warnings.extend(warnings_of_classes(&parts));
        warnings.extend(warnings_of_connections(&account, done));
        let mut result = LoadResult {
            format: FORMAT,
            config: load.clone(),
            started_unix: self.epoch_unix.as_seconds(),
            seconds: length.as_seconds(),
            interrupted,
            account,
            operations: all.operations(length),
            overall,
            classes: if several { classes } else { Vec::new() },
            series: self.series,
            generator,
            verified: load.verify.then_some(verified),
            rows: None,
            clock: None,
            clocks: None,
            merged_from: Vec::new(),
            warnings,
        };
        let backlog = warning_of_backlog(&result);
        result.warnings.extend(backlog);
        result
    }
}

fn pop_if(segments: &mut VecDeque<Segment>, start: Stamp) -> Option<Segment> {
    segments.front().is_some_and(|front| front.start == start).then(|| segments.pop_front()).flatten()
}

/// What the threads used of so many processors in `elapsed` seconds, and how late they sent the
/// arrivals of each class.
fn generator(
    done: &[Done],
    sent: u64,
    elapsed: Seconds,
    late: &[LateArrivals],
    processors: f64,
) -> Generator {
    let cpu: Seconds = done.iter().map(|one| one.cpu.as_seconds()).sum();
    let most = |of: fn(&Done) -> Nanos| {
        done.iter().map(|one| of(one).as_seconds() / elapsed).fold(0.0, f64::max).min(1.0)
    };
    Generator {
        cpu_seconds: cpu,
        cpu_per_request: if sent > 0 { cpu / sent as f64 } else { 0.0 },
        busiest_thread: most(|one| one.cpu),
        runnable: most(|one| one.cpu + one.run_queue),
        processors,
        elapsed,
        late: late.iter().map(|one| one.late.as_seconds()).sum(),
        waited: late.iter().map(|one| one.waited.as_seconds()).sum(),
    }
}

/// A thread that runs for a larger share of its time than this has no time left to be on time; nor
/// has one that is ready to run for so long, or one among threads that use so much of all
/// processors.
const BUSY: f64 = 0.9;
/// Misses are worth a warning from this share on.
const MISSES: f64 = 0.01;

/// What was given up, and why connections failed: where some could not be made, or nothing was
/// answered.
fn warnings_of_connections(account: &WholeRun, done: &[Done]) -> Vec<LoadWarning> {
    let mut warnings = Vec::new();
    if done.iter().any(|one| one.gave_up) {
        warnings.push(LoadWarning::GaveUp);
    }
    if (account.connects_failed > 0 || account.answered == 0)
        && let Some(why) = done.iter().find_map(|one| one.failure.clone())
    {
        warnings.push(LoadWarning::ConnectionFailed { why });
    }
    warnings
}

/// What the generator itself did that makes its figures doubtful.
fn warning_of_generator(generator: &Generator) -> Option<LoadWarning> {
    let Generator { busiest_thread, runnable, processors, cpu_seconds, elapsed, .. } = *generator;
    let used = (cpu_seconds / elapsed / processors).min(1.0);
    let is_thread_busy = busiest_thread > BUSY;
    // The share of a run shorter than this is an accident of scheduling.
    if elapsed <= 0.2 || !(is_thread_busy || runnable > BUSY || used > BUSY) {
        return None;
    }
    // A further thread helps where there are processors for it.
    Some(if is_thread_busy && used <= BUSY {
        LoadWarning::GeneratorBusy { share: busiest_thread }
    } else {
        LoadWarning::ProcessorsShort { runnable, used, processors }
    })
}

/// Whether requests of an open class were sent late, and why. Each class is looked at alone: many
/// requests of a quick one would hide that all of a slow one were late.
fn warning_of_lateness(class: &str, times: &OperationResult, sent: LateArrivals) -> Option<LoadWarning> {
    let (late, response) = (times.lateness, times.response_time);
    (late.p99 > 1e-3 && late.p99 > 0.1 * response.p50).then(|| late_because(class, times, sent))
}

/// Why requests of a class were sent late.
pub(crate) fn late_because(class: &str, times: &OperationResult, sent: LateArrivals) -> LoadWarning {
    let (class, p99) = (class.to_owned(), times.lateness.p99);
    if sent.is_of_system() {
        LoadWarning::ConnectionsWaited { class, p99, share: sent.share_waited() }
    } else {
        LoadWarning::GeneratorLate { class, p99, response_p50: times.response_time.p50 }
    }
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

/// Whether an open load had a backlog at the end of the measured part: its figures do not have it.
pub(crate) fn warning_of_backlog(result: &LoadResult) -> Option<LoadWarning> {
    // What becomes due in the cool-down is none.
    let tells = result.config.is_open() && result.config.cool_down == 0.0;
    let p99 = tells.then(|| result.p99_to_last_answer()).flatten()?;
    let is_late = p99 > 1e-3 && p99 > 2.0 * result.overall.response_time.p99;
    is_late.then_some(LoadWarning::AnsweredLate { p99 })
}

/// What the counts say that makes the figures doubtful.
pub(crate) fn warnings_of_counts(
    account: &WholeRun,
    overall: &OperationResult,
    loads: &[&Load],
) -> Vec<LoadWarning> {
    let any = |is_such: fn(&Load) -> bool| loads.iter().any(|load| is_such(load));
    let mut warnings = Vec::new();
    if account.unsent > 0 {
        let (count, due) = (account.unsent, account.unsent + account.sent);
        warnings.push(LoadWarning::Unsent { count, due, closed: !any(Load::is_open) });
    }
    let failed = overall.failed();
    if failed > 0 {
        warnings.push(LoadWarning::Errors { count: failed, of: overall.count });
    }
    let late = account.unanswered().saturating_sub(overall.unanswered());
    if late > 0 {
        warnings.push(LoadWarning::UnansweredUnmeasured { count: late, of: account.sent });
    }
    let beyond = overall.distributions.as_ref().map_or(0, |all| all.response_time.clamped);
    if beyond > 0 {
        warnings.push(LoadWarning::BeyondHistogram { count: beyond, of: overall.count });
    }
    if overall.count == 0 && account.answered > 0 {
        warnings.push(LoadWarning::NothingMeasured);
    }
    let asked = overall.hits + overall.misses;
    if overall.misses as f64 > MISSES * asked as f64 {
        let (replayed, expires) = (any(Load::replays), any(Load::expires));
        warnings.push(LoadWarning::Misses { count: overall.misses, of: asked, replayed, expires });
    }
    warnings
}

/// What is reported of one thread with this account, which is closed.
#[cfg(test)]
pub(crate) fn reported(load: &Load, account: crate::account::Account, done: Done) -> LoadResult {
    let mut collected = Collected::new(1, load, Phase::Run, Clock::start());
    for segment in account.over {
        collected.take(0, Some(segment), &mut |_| {});
    }
    collected.take(0, None, &mut |_| {});
    collected.result(load, &[done], false, 1.0)
}

#[cfg(test)]
mod tests {
    use krarup_memcache::ReplyClass;
    use krarup_record::{Operation, ServerVisit, Visit};
    use krarup_units::PerSecond;

    use super::*;
    use crate::account::{Account, LossReason, MeasuredSpan, Share};
    use crate::command::Command;
    use crate::merge::merge;
    use crate::schedule::{ArrivalProcess, Leg, Open};
    use crate::trace::{Replay, Speed};
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
        let mut generator =
            Generator { busiest_thread: 0.97, elapsed: 5.0, processors: 8.0, ..Generator::default() };
        let busy = warning_of_generator(&generator).unwrap();
        assert_eq!(busy, LoadWarning::GeneratorBusy { share: 0.97 });
        assert!(busy.to_string().contains("97 %") && busy.to_string().contains("--threads"));
        generator.busiest_thread = 0.5;
        assert_eq!(warning_of_generator(&generator), None);
    }

    /// No thread runs for most of its time where several share a processor, or a quota stops it.
    #[test]
    fn a_generator_that_is_short_of_processors_is_told_to_get_some_and_no_threads() {
        let warning = |processors, cpu_seconds, busiest_thread, runnable| {
            let elapsed = 10.0;
            warning_of_generator(&Generator {
                processors,
                cpu_seconds,
                busiest_thread,
                runnable,
                elapsed,
                ..Generator::default()
            })
        };
        // Four threads on two processors; one under a quota of half a processor.
        let short = warning(2.0, 19.0, 0.48, 0.6).unwrap();
        assert_eq!(short, LoadWarning::ProcessorsShort { runnable: 0.6, used: 0.95, processors: 2.0 });
        let words = short.to_string();
        assert!(words.contains("95 % of the 2.00 processors") && words.contains("would not help"), "{words}");
        assert!(matches!(warning(0.5, 4.9, 0.49, 0.5), Some(LoadWarning::ProcessorsShort { .. })));
        // Other programs take them.
        assert!(matches!(warning(8.0, 5.0, 0.5, 0.98), Some(LoadWarning::ProcessorsShort { .. })));
        // The only processor there is: a second thread would share it.
        assert!(matches!(warning(1.0, 9.7, 0.97, 0.97), Some(LoadWarning::ProcessorsShort { .. })));
        assert_eq!(warning(8.0, 20.0, 0.5, 0.5), None);
    }

    #[test]
    fn requests_that_are_late_are_told_with_what_they_waited_for() {
        let mut times = Share::default().overall_result(Nanos::from_secs(1));
        let warning = |times: &OperationResult, late, waited| {
            let sent = LateArrivals { late: Nanos::from_secs(late), waited: Nanos::from_secs(waited) };
            warning_of_lateness("", times, sent)
        };
        assert_eq!(warning(&times, 0, 0), None);
        times.lateness.p99 = 0.01;
        times.response_time.p50 = 0.02;
        let class = String::new();
        let late = LoadWarning::GeneratorLate { class: class.clone(), p99: 0.01, response_p50: 0.02 };
        assert_eq!(warning(&times, 0, 0).as_ref(), Some(&late));
        // A generator that is the limit sleeps little; one that stands still at times sleeps, too.
        assert_eq!(warning(&times, 10, 1), Some(late));
        let both = warning(&times, 10, 3).unwrap();
        let said = both.to_string();
        assert!(
            both.blames_generator()
                && said.contains("30 % of that time because all connections waited for answers")
                && said.contains("and the rest because the generator itself was late"),
            "{said}"
        );
        let waited = warning(&times, 4, 3).unwrap();
        assert_eq!(waited, LoadWarning::ConnectionsWaited { class, p99: 0.01, share: 0.75 });
        let said = waited.to_string();
        assert!(
            said.starts_with("requests were sent late")
                && said.contains("75 % of that time because all connections waited for answers")
                && !said.contains("the generator")
                && !waited.blames_generator(),
            "{said}"
        );
    }

    /// A connection that hangs at the end is given up when nothing is measured any more.
    #[test]
    fn what_is_given_up_after_the_measured_part_is_told() {
        let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(1_000_000_000) }, 1);
        let mut request = |due: u64, replied: u64, is_lost: bool| {
            let mut visit = Visit::at(Stamp(due), Operation::Get);
            (visit.taken, visit.replied) = (Stamp(due), Stamp(replied));
            let server = ServerVisit::ok(0, visit.taken, visit.replied);
            if is_lost {
                account.lost(LossReason::Unanswered, &mut visit, server);
            } else {
                account.answered(ReplyClass::Values, &mut visit, server);
            }
        };
        request(0, 5_000, false);
        request(500_000_000, 2_500_000_000, true);
        account.close(Stamp(2_500_000_000));
        let load = Load { extent: Extent::Seconds(1.0), ..Load::default() };
        let result = reported(&load, account, Done { sent: 2, ..Done::default() });
        assert_eq!((result.overall.failed(), result.failed()), (0, 1));
        assert_eq!(result.warnings, [LoadWarning::UnansweredUnmeasured { count: 1, of: 2 }]);
    }

    /// As where there are fewer file descriptors than connections: those that stand send all of it.
    #[test]
    fn connections_that_could_not_be_made_are_told_with_the_reason() {
        let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(1_000_000_000) }, 1);
        account.connect_failed();
        let mut visit = Visit::at(Stamp(0), Operation::Get);
        (visit.taken, visit.replied) = (Stamp(0), Stamp(5_000));
        let server = ServerVisit::ok(0, visit.taken, visit.replied);
        account.answered(ReplyClass::Values, &mut visit, server);
        account.close(Stamp(1_000_000_000));
        let load = Load { extent: Extent::Seconds(1.0), ..Load::default() };
        let why = "Too many open files".to_owned();
        let done = Done { sent: 1, failure: Some(why.clone()), ..Done::default() };
        let result = reported(&load, account, done);
        assert_eq!(result.warnings, [LoadWarning::ConnectionFailed { why }]);
    }

    #[test]
    fn what_closed_clients_could_not_send_is_told_as_theirs() {
        let overall = Share::default().overall_result(Nanos::from_secs(1));
        let account = WholeRun { sent: 3, unsent: 1, ..WholeRun::default() };
        let open = Arrivals::Open(Open { process: ArrivalProcess::Paced, legs: Vec::new() });
        for (arrivals, why) in
            [(Arrivals::default(), "their connection did not stand"), (open, "or connections did not stand")]
        {
            let load = Load { arrivals, ..Load::default() };
            let told = warnings_of_counts(&account, &overall, &[&load]);
            assert_eq!(told, [LoadWarning::Unsent { count: 1, due: 4, closed: !load.is_open() }]);
            assert!(told[0].to_string().ends_with(why), "{}", told[0]);
        }
    }

    #[test]
    fn keys_that_a_trace_missed_are_its_own_to_store() {
        let mut overall = Share::default().overall_result(Nanos::from_secs(1));
        overall.misses = 1;
        let replay = Arrivals::Replay(Replay { trace: "trace.csv".into(), speed: Speed::Fastest });
        for (arrivals, replayed, advice) in [
            (Arrivals::default(), false, "populate first with --populate"),
            (replay, true, "or --on-miss set"),
        ] {
            let load = Load { arrivals, ..Load::default() };
            let told = warnings_of_counts(&WholeRun::default(), &overall, &[&load]);
            assert_eq!(told, [LoadWarning::Misses { count: 1, of: 1, replayed, expires: false }]);
            assert!(told[0].to_string().contains(advice), "{}", told[0]);
        }
    }

    #[test]
    fn keys_that_expired_are_told_to_live_longer() {
        let mut overall = Share::default().overall_result(Nanos::from_secs(1));
        overall.misses = 1;
        for (expiry, expires) in [(Some((60, 60)), true), (Some((0, 0)), false), (None, false)] {
            let load = Load { workload: Workload { expiry, ..Workload::default() }, ..Load::default() };
            let told = warnings_of_counts(&WholeRun::default(), &overall, &[&load]);
            assert_eq!(told[0].to_string().contains("(--expiry)"), expires, "{}", told[0]);
        }
    }

    #[test]
    fn response_times_beyond_the_histograms_are_told() {
        let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(u64::MAX) }, 1);
        for seconds in [200, 300] {
            let mut visit = Visit::at(Stamp(0), Operation::Get);
            visit.replied = Stamp(0) + Nanos::from_secs(seconds);
            let server = ServerVisit::ok(0, visit.taken, visit.replied);
            account.answered(ReplyClass::Values, &mut visit, server);
        }
        account.close(Stamp(0) + Nanos::from_secs(301));
        let load = Load { extent: Extent::Seconds(301.0), ..Load::default() };
        let result = reported(&load, account, Done { sent: 2, ..Done::default() });
        let beyond = LoadWarning::BeyondHistogram { count: 2, of: 2 };
        assert_eq!(result.warnings, std::slice::from_ref(&beyond));
        assert!(beyond.to_string().contains("took longer than 100 s"), "{beyond}");
        let merged = merge(&[result], &["1.json".to_owned()]).unwrap();
        assert_eq!(merged.warnings, [beyond]);
    }

    #[test]
    fn a_run_that_ended_in_its_warm_up_has_measured_nothing() {
        let measured = MeasuredSpan { from: Stamp(1_000_000_000), to: Stamp(u64::MAX / 2) };
        let mut account = Account::new(measured, 1);
        let mut visit = Visit::at(Stamp(0), Operation::Get);
        (visit.taken, visit.replied) = (Stamp(0), Stamp(5_000));
        let server = ServerVisit::ok(0, visit.taken, visit.replied);
        account.answered(ReplyClass::Values, &mut visit, server);
        account.close(Stamp(5_000));
        let load = Load { extent: Extent::Requests(1), warm_up: 1.0, ..Load::default() };
        let result = reported(&load, account, Done { sent: 1, ..Done::default() });
        assert_eq!((result.overall.count, result.account.answered), (0, 1));
        assert_eq!(result.warnings, [LoadWarning::NothingMeasured]);
    }

    /// A closed class of 4,000 requests beside an open one of 10, which are sent seconds late: they
    /// are no percentile of all requests.
    #[test]
    fn a_class_that_is_late_is_told_beside_a_quick_one() {
        let class = |name: &str, arrivals| ClientClass {
            name: name.to_owned(),
            connections: 1,
            arrivals,
            ..ClientClass::default()
        };
        let leg = Leg { from: PerSecond(10.0), to: PerSecond(10.0), seconds: 0.0 };
        let open = Arrivals::Open(Open { process: ArrivalProcess::Paced, legs: vec![leg] });
        let load = Load {
            connections: 2,
            classes: vec![class("quick", Arrivals::default()), class("slow", open)],
            extent: Extent::Seconds(4.0),
            ..Load::default()
        };
        let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(u64::MAX) }, 2);
        let mut request = |station, due: Nanos, late: Nanos| {
            let mut visit = Visit::at(Stamp(due.0), Operation::Get);
            visit.station = station;
            visit.taken = visit.received + late;
            visit.replied = visit.taken + Nanos(10_000);
            let server = ServerVisit::ok(0, visit.taken, visit.replied);
            account.answered(ReplyClass::Values, &mut visit, server);
        };
        (0..4_000).for_each(|number| request(0, Nanos(number * 500_000), Nanos::ZERO));
        (0..10).for_each(|number| request(1, Nanos(number * 100_000_000), Nanos::from_secs(2)));
        account.close(Stamp(4_000_000_000));
        let late = LateArrivals { late: Nanos::from_secs(20), waited: Nanos::from_secs(20) };
        let done = Done { late: vec![LateArrivals::default(), late], ..Done::default() };
        let result = reported(&load, account, done);
        let [LoadWarning::ConnectionsWaited { class, p99, share }] = &result.warnings[..] else {
            panic!("{:?}", result.warnings)
        };
        assert!(class == "slow" && *p99 > 1.9 && *share == 1.0, "{class} {p99} {share}");
        let table = crate::table::table(&result, None);
        assert!(table.contains("warning: requests of the class slow were sent late"), "{table}");
        assert!(
            table.contains("\nslow: counted from when requests were sent")
                && !table.contains("quick: counted")
        );
    }
}
