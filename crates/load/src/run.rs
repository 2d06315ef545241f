//! A whole run: threads are started together on one clock, their accounts are collected second by
//! second, and summed up.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use krarup_net::clock::wall;
use krarup_net::mio::{Events, Poll, Token, Waker};
use krarup_net::signal::SignalStream;
use krarup_net::{Clock, processors};
use krarup_record::file::rows::{RowPlan, RowWriter};
use krarup_record::file::{FileError, RunMetadata};
use krarup_settings::Mistake;
use krarup_units::mistake::system_words;
use krarup_units::{Address, Nanos, Seconds};

use crate::account::{Segment, Verified};
use crate::asking;
use crate::clocks::ServerSecond;
use crate::collect::Collected;
use crate::config::Load;
use crate::engine::{GeneratorThread, StopTime};
use crate::keys::KeyFamily;
pub use crate::progress::{LoadProgress, Phase};
use crate::result::LoadResult;
use crate::schedule::Arrivals;
use crate::target::Target;
use crate::tasks::{self, Traces};
use crate::trace::Trace;
use crate::workload::Workload;

/// What is said first of an instant at which a load was to begin and that has passed.
pub const TOO_LATE: &str = "the load was to begin";

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The configuration makes no sense; nothing was sent.
    #[error("{0}")]
    Config(Mistake),
    /// A server's name or port leads nowhere.
    #[error("{0}")]
    Unreachable(Mistake),
    /// A trace that was to be replayed cannot be read.
    #[error("{}: {why}", path.display())]
    Trace {
        /// Its file.
        path: PathBuf,
        /// Why.
        why: Mistake,
    },
    /// The rows of the requests could not be written.
    #[error(transparent)]
    Rows(FileError),
    /// The keys could not all be stored, or are not there afterwards.
    #[error("populating {address}: {why}")]
    Populate {
        /// Which server.
        address: String,
        /// What went wrong.
        why: String,
    },
    /// The instant at which the load was to begin has passed.
    #[error("{} {} ago", TOO_LATE, krarup_units::text::duration(*by))]
    TooLate {
        /// For how long.
        by: Seconds,
    },
    /// It was ended on request before it had anything to report.
    #[error("{0}")]
    Interrupted(String),
    /// The operating system refused.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The threads of a load whose clients are connected, and what wakes each.
type Connected = Vec<(GeneratorThread, Waker)>;

/// Traces by their files.
type KnownTraces = Vec<(PathBuf, Arc<Trace>)>;

/// Makes every thread's clients and connects them to the targets, as far as these are up, unless
/// `stopped` says that the run is to stop.
fn connect(
    load: &Load,
    traces: &Traces,
    stop: &Arc<StopTime>,
    stopped: &mut dyn FnMut() -> bool,
) -> Result<(Connected, Arc<[Target]>), LoadError> {
    // A stop is told once.
    let mut is_stopped = false;
    let mut stopped = || {
        is_stopped |= stopped();
        is_stopped
    };
    let encryption = Target::encryption(load).map_err(LoadError::Config)?;
    let targets = Target::all(load, encryption.as_ref(), &mut stopped).map_err(LoadError::Unreachable)?;
    if stopped() {
        return Err(interrupted());
    }
    let targets: Arc<[Target]> = targets.into();
    let limit = Nanos::from_seconds(load.connect_timeout);
    let mut engines = Vec::new();
    let (mut is_any_up, mut refused) = (false, None);
    for task in tasks::tasks(load, &targets, traces, stop) {
        let (mut engine, waker) = GeneratorThread::new(task)?;
        match engine.connect(limit, &mut stopped) {
            Ok(_) => is_any_up = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(interrupted()),
            Err(error) => refused = Some(error),
        }
        engines.push((engine, waker));
        // Another thread's clients may be those of another server: as many threads ask all.
        if !is_any_up && engines.len() >= targets.len() {
            break;
        }
    }
    if let Some(error) = refused.filter(|_| !is_any_up) {
        let targets: Vec<_> = load.targets.iter().map(Address::to_string).collect();
        let what = format!("cannot connect to {}: {}", targets.join(", "), system_words(&error));
        return Err(LoadError::Unreachable(Mistake::plain(what)));
    }
    Ok((engines, targets))
}

fn interrupted() -> LoadError {
    LoadError::Interrupted("interrupted before the load began".to_owned())
}

/// The traces of those classes that replay one, in the order of the classes: known ones, and those
/// that are known from now on. What comes by a pipe can be read once.
fn read_traces(load: &Load, known: &mut KnownTraces) -> Result<Traces, LoadError> {
    let checked = |trace: Arc<Trace>| {
        if load.verify && trace.changes_in_place() {
            let what = "it changes values of keys that it names in place: such values cannot be verified";
            return Err(Mistake::new(what, "leave out --verify"));
        }
        Ok(Some(trace))
    };
    let mut read = |path: &PathBuf| -> Result<Arc<Trace>, Mistake> {
        if let Some((_, trace)) = known.iter().find(|(other, _)| other == path) {
            return Ok(Arc::clone(trace));
        }
        let trace = Arc::new(Trace::read(path)?);
        known.push((path.clone(), Arc::clone(&trace)));
        Ok(trace)
    };
    let mut replayed = |arrivals: &Arrivals| match arrivals {
        Arrivals::Replay(replay) => read(&replay.trace)
            .and_then(checked)
            .map_err(|why| LoadError::Trace { path: replay.trace.clone(), why }),
        _ => Ok(None),
    };
    load.parts().iter().map(|class| replayed(&class.arrivals)).collect()
}

/// A thread and a segment of its account that is over; nothing where the thread is.
type Message = (usize, Option<Segment>);

/// What a thread tells the conductor by. Its last word is that the thread is over, however it
/// ended.
struct Line {
    thread: usize,
    send: mpsc::Sender<Message>,
    waker: Arc<Waker>,
}

impl Line {
    fn say(&self, segment: Option<Segment>) {
        // The receiver is gone only if the conductor has failed; then there is no result anyway.
        let _ = self.send.send((self.thread, segment));
        let _ = self.waker.wake();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.say(None);
    }
}

/// Runs loads, and listens to what their threads and the signals have to say.
#[derive(Debug)]
pub struct Conductor {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    signals: Option<SignalStream>,
    rows: Option<RowPlan>,
    rows_problem: Option<FileError>,
    begin: Option<Beginning>,
    /// What populating has read, for the load that follows.
    traces: KnownTraces,
}

/// When a load begins.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    instant: Nanos,
    is_clock_checked: bool,
}

/// How long before a load begins the first server is asked when its second begins: that is over,
/// and the server at rest again, when the load comes.
const ASK_BEFORE: Nanos = Nanos::from_millis(1_500);
/// For how long it is asked: some more than a second.
const ASK_FOR: Nanos = Nanos::from_millis(1_100);

/// A poll wakes up at whole milliseconds: the last of them are slept through.
const COARSE: Duration = Duration::from_millis(3);

const WAKE: Token = Token(0);
const STOP: Token = Token(1);

impl Conductor {
    /// Ready to run. With `signals`, those that end a work from now on end a run early and cleanly;
    /// otherwise they do what they always do.
    ///
    /// # Errors
    /// From the system.
    pub fn new(signals: bool) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let signals = signals.then(|| SignalStream::ending(poll.registry(), STOP)).transpose()?;
        let events = Events::with_capacity(16);
        let (rows, rows_problem, begin, traces) = (None, None, None, Vec::new());
        Ok(Self { poll, events, waker, signals, rows, rows_problem, begin, traces })
    }

    /// The loads that are run from now on write rows of their requests as planned; populating does
    /// not. In them a visit's station is the number of its client's class.
    pub fn keep_rows(&mut self, plan: Option<RowPlan>) {
        self.rows = plan;
    }

    /// What kept the rows of the last load from being completed: its result says nothing of rows.
    pub fn rows_problem(&mut self) -> Option<FileError> {
        self.rows_problem.take()
    }

    /// The next load that is run begins when the wall clock shows this, in nanoseconds since 1970
    /// (UTC): its clients are connected before, so that several generators that are told the same
    /// instant begin together. Populating does not wait. With `is_clock_checked` the first server
    /// is asked before, with `stats`, when its second begins.
    pub fn begin_at(&mut self, instant: Option<Nanos>, is_clock_checked: bool) {
        self.begin = instant.map(|instant| Beginning { instant, is_clock_checked });
    }

    /// When a second of the first server begins, shortly before a load does; none where that is too
    /// near, or the server tells no time, as a message queue.
    fn second_before(
        &mut self,
        load: &Load,
        target: &Target,
        instant: Nanos,
    ) -> Result<Option<ServerSecond>, LoadError> {
        let from = instant.saturating_sub(ASK_BEFORE);
        if wall() > from || load.parts().iter().any(|part| part.workload.is_of_queue()) {
            return Ok(None);
        }
        self.wait_until(from)?;
        Ok(asking::second(target, &load.targets[0].to_string(), from + ASK_FOR))
    }

    /// Waits until the wall clock shows an instant.
    fn wait_until(&mut self, instant: Nanos) -> Result<(), LoadError> {
        let by = wall().saturating_sub(instant);
        if by > Nanos::ZERO {
            return Err(LoadError::TooLate { by: by.as_seconds() });
        }
        loop {
            let left = instant.saturating_sub(wall()).as_duration();
            if left.is_zero() {
                return Ok(());
            }
            if let Some(early) = left.checked_sub(COARSE) {
                match self.poll.poll(&mut self.events, Some(early)) {
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                    _ => {}
                }
                if self.stop_asked() {
                    return Err(interrupted());
                }
            } else {
                thread::sleep(left);
            }
        }
    }

    /// Runs a load to its end.
    ///
    /// # Errors
    /// Where there is nothing to report: a configuration that makes no sense, no server, no
    /// resources. Errors during the run are counted and are part of the result.
    pub fn run(
        &mut self,
        load: &Load,
        observe: &mut dyn FnMut(&LoadProgress<'_>),
    ) -> Result<LoadResult, LoadError> {
        self.run_phase(Phase::Run, load, observe)
    }

    fn run_phase(
        &mut self,
        phase: Phase,
        load: &Load,
        observe: &mut dyn FnMut(&LoadProgress<'_>),
    ) -> Result<LoadResult, LoadError> {
        load.check().map_err(LoadError::Config)?;
        let traces = read_traces(load, &mut std::mem::take(&mut self.traces))?;
        let stop = Arc::new(StopTime::default());
        let (engines, targets) = connect(load, &traces, &stop, &mut || self.stop_asked())?;
        let mut second = None;
        if let Some(beginning) = self.begin.take_if(|_| phase == Phase::Run) {
            if beginning.is_clock_checked {
                second = self.second_before(load, &targets[0], beginning.instant)?;
            }
            self.wait_until(beginning.instant)?;
        }
        let clock = Clock::start();
        let run = RunMetadata { epoch_unix: clock.wall_epoch() };
        let rows = self.rows.as_ref().filter(|_| phase == Phase::Run);
        let (now, epoch) = (move || clock.now(), move || clock.wall_epoch_now());
        let begin = |plan| RowWriter::begin(plan, (run, true), now, epoch);
        let rows = rows.map(begin).transpose().map_err(LoadError::Rows)?;
        let (send, receive) = mpsc::channel();
        let threads = engines.len();
        let mut wakers = Vec::new();
        let mut handles = Vec::new();
        for (number, (engine, waker)) in engines.into_iter().enumerate() {
            wakers.push(waker);
            let line = Line { thread: number, send: send.clone(), waker: Arc::clone(&self.waker) };
            let lane = rows.as_ref().map(RowWriter::lane);
            let body = move || engine.run(clock, lane, |segment| line.say(Some(segment)));
            handles.push(thread::Builder::new().name(format!("load-{number}")).spawn(body)?);
        }
        drop(send);
        let mut collected = Collected::new(threads, load, phase, clock);
        let mut interrupted = false;
        while self.listen(&receive, &mut collected, observe)? {
            if self.stop_asked() && !std::mem::replace(&mut interrupted, true) {
                stop.at(clock.now());
                for waker in &wakers {
                    waker.wake()?;
                }
            }
        }
        let mut done = Vec::new();
        for handle in handles {
            done.push(handle.join().map_err(|_| io::Error::other("a thread of the generator panicked"))??);
        }
        // The result is had in any case.
        let finished = rows.map(RowWriter::finish).transpose();
        let written = finished.unwrap_or_else(|problem| {
            self.rows_problem = Some(problem);
            None
        });
        let mut result = collected.result(load, &done, interrupted, processors::usable());
        result.rows = written.map(Into::into);
        result.clock = second;
        Ok(result)
    }

    /// Stores every key of the workload at every target, in order and exactly once, and verifies
    /// each but those of commands that change values in place. Says how many were stored, and how
    /// many of them verified: none of a class whose trace names all its keys.
    ///
    /// # Errors
    /// The first thing that went wrong, in words.
    pub fn populate(
        &mut self,
        load: &Load,
        observe: &mut dyn FnMut(&LoadProgress<'_>),
    ) -> Result<(u64, u64), LoadError> {
        load.check().map_err(LoadError::Config)?;
        let mut known = Vec::new();
        let parts = load.parts().into_iter().zip(read_traces(load, &mut known)?);
        // A queue has no keys to be populated, and of a trace that names its own none is asked for.
        let populated = parts.filter(|(class, trace)| {
            !class.workload.is_of_queue() && trace.as_ref().is_none_or(|trace| !trace.names_all())
        });
        let workloads = ranges(populated.map(|(class, _)| class.workload));
        let (mut stored_keys, mut verified_keys) = (0, 0);
        for target in &load.targets {
            let failed = |result: &LoadResult, why: String| match result.interrupted {
                true => Err(LoadError::Interrupted(why)),
                false => Err(LoadError::Populate { address: target.to_string(), why }),
            };
            for (workload, families) in &workloads {
                for &family in families {
                    let one = load.populating(target, workload, family);
                    let result = self.run_phase(Phase::Populate, &one, observe)?;
                    unstored(&result, workload.keys.count).map_or(Ok(()), |why| failed(&result, why))?;
                    stored_keys += stored(&result);
                }
            }
            for (workload, _) in &workloads {
                let result = self.run_phase(Phase::Check, &load.checking(target, workload), observe)?;
                missing(&result, workload.keys.count).map_or(Ok(()), |why| failed(&result, why))?;
                verified_keys += result.account.hits;
            }
        }
        self.traces = known;
        Ok((stored_keys, verified_keys))
    }

    /// Takes what has come; waits if nothing has. `false` when all threads are done.
    fn listen(
        &mut self,
        receive: &mpsc::Receiver<Message>,
        collected: &mut Collected,
        observe: &mut dyn FnMut(&LoadProgress<'_>),
    ) -> io::Result<bool> {
        while let Ok((thread, segment)) = receive.try_recv() {
            collected.take(thread, segment, observe);
        }
        if collected.finished.iter().all(|&finished| finished) {
            return Ok(false);
        }
        match self.poll.poll(&mut self.events, None) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(true),
        }
    }

    /// Whether the run is to end: interrupted, terminated, or the terminal is gone.
    fn stop_asked(&mut self) -> bool {
        self.signals.as_mut().is_some_and(|signals| signals.count() > 0)
    }
}

/// What is stored for these workloads, and of which families. Those that share a range of keys
/// share what is stored: of the sizes of the last of them, for the longest life of any, so that the
/// keys of one do not expire by another's time.
fn ranges(workloads: impl Iterator<Item = Workload>) -> Vec<(Workload, Vec<KeyFamily>)> {
    let mut ranges: Vec<(Workload, Vec<KeyFamily>)> = Vec::new();
    for workload in workloads {
        let mut families = vec![KeyFamily::Plain];
        let further = [KeyFamily::Counter, KeyFamily::Text].into_iter();
        families.extend(further.filter(|&one| workload.uses(one)));
        match ranges.iter_mut().find(|(other, _)| other.keys == workload.keys) {
            Some((other, known)) => {
                families.retain(|family| !known.contains(family));
                known.extend(families);
                *other = Workload { expiry: other.longer_expiry(&workload), ..workload };
            }
            None => ranges.push((workload, families)),
        }
    }
    ranges
}

/// How many keys were stored.
fn stored(result: &LoadResult) -> u64 {
    result.account.answers.get("set").and_then(|kinds| kinds.get("stored")).copied().unwrap_or(0)
}

/// Why not all `keys` were stored; none: they were.
fn unstored(result: &LoadResult, keys: u64) -> Option<String> {
    let stored = stored(result);
    if result.interrupted {
        return Some(format!("interrupted after {stored} of {keys} keys"));
    }
    let errors = || kinds(&result.overall.errors);
    (stored != keys).then(|| format!("{stored} of {keys} keys were stored; the others: {}", errors()))
}

/// Why not all `keys` were found with their values; none: they were.
fn missing(result: &LoadResult, keys: u64) -> Option<String> {
    let account = &result.account;
    if result.interrupted {
        return Some(format!("interrupted after {} of {keys} keys were verified", account.hits));
    }
    if let Some(Verified { first: Some(first), mismatched, .. }) = &result.verified {
        return Some(format!("{mismatched} of {keys} values are not what was stored; the first: {first}"));
    }
    if account.hits == keys {
        return None;
    }
    if account.misses > 0 {
        return Some(format!(
            "{} of {keys} keys are not there after they were stored: the server's memory is too small for them, or they expire at once",
            account.misses
        ));
    }
    let errors = kinds(&result.overall.errors);
    Some(format!("{} of {keys} keys could be fetched; the others: {errors}", account.hits))
}

fn kinds(errors: &std::collections::BTreeMap<String, u64>) -> String {
    if errors.is_empty() {
        return "never answered".to_owned();
    }
    errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::command::Command;
    use crate::config::Extent;
    use crate::sizes::SizeLaw;
    use crate::trace::{Replay, Speed};
    use crate::workload::Mix;

    /// With as many threads as servers, all clients of one are a thread's.
    #[test]
    fn a_load_begins_where_one_of_its_servers_is_down_on_any_threads() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let up = server.local_addr().unwrap();
        // The listener has this port at one address only.
        let [up, down]: [Address; 2] =
            [up.to_string(), format!("127.0.0.2:{}", up.port())].map(|text| text.parse().unwrap());
        let connected = |targets: Vec<Address>, threads: u32| {
            let load = Load { targets, threads, connections: 2, connect_timeout: 0.05, ..Load::default() };
            connect(&load, &vec![None], &Arc::default(), &mut || false).map(|(engines, _)| engines.len())
        };
        assert_eq!(connected(vec![up.clone(), down.clone()], 1).unwrap(), 1);
        assert_eq!(connected(vec![up.clone(), down.clone()], 2).unwrap(), 2);
        assert_eq!(connected(vec![down.clone(), up], 2).unwrap(), 2);
        for targets in [vec![down.clone()], vec![down.clone(), down]] {
            assert!(matches!(connected(targets, 2), Err(LoadError::Unreachable(_))));
        }
    }

    /// As in `krarup load --populate --replay <(zstdcat trace.zst)`.
    #[test]
    fn a_trace_by_a_pipe_that_populating_has_read_is_there_for_the_run() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"time,op,key\n0,get,a\n1,get,b\n").unwrap();
        drop(writer);
        let trace = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        let arrivals = Arrivals::Replay(Replay { trace, speed: Speed::Fastest });
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        // The listener has this port at one address only.
        let down = format!("127.0.0.2:{}", server.local_addr().unwrap().port()).parse().unwrap();
        let load = Load {
            targets: vec![down],
            arrivals,
            extent: Extent::Trace,
            connections: 1,
            connect_timeout: 0.05,
            ..Load::default()
        };
        let mut conductor = Conductor::new(false).unwrap();
        assert_eq!(conductor.populate(&load, &mut |_| {}).unwrap(), (0, 0));
        let run = conductor.run(&load, &mut |_| {});
        assert!(matches!(run, Err(LoadError::Unreachable(_))), "{run:?}");
    }

    #[test]
    fn classes_that_share_keys_have_them_stored_once_for_the_longest_life_in_any_order() {
        let class = |expiry, size, command| Workload {
            mix: Mix::Weights(vec![(command, 1.0)]),
            expiry,
            value_size: SizeLaw::Fixed(size),
            ..Workload::default()
        };
        let minute = class(Some((60, 60)), 32, Command::Set);
        for (expiry, longest) in [
            (None, None),
            (Some((0, 0)), Some((0, 0))),
            (Some((1, 90)), Some((1, 90))),
            (Some((5, 60)), Some((60, 60))),
        ] {
            let other = class(expiry, 100, Command::Incr);
            for (order, size) in [([&minute, &other], 100), ([&other, &minute], 32)] {
                let stored = ranges(order.into_iter().cloned());
                let [(workload, families)] = &stored[..] else { panic!("{stored:?}") };
                assert_eq!((workload.expiry, &workload.value_size), (longest, &SizeLaw::Fixed(size)));
                assert_eq!(families, &[KeyFamily::Plain, KeyFamily::Counter]);
            }
        }
        let mut elsewhere = minute.clone();
        elsewhere.keys.minimum = 5;
        assert_eq!(ranges([minute, elsewhere].into_iter()).len(), 2);
    }
}
