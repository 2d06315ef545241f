//! A whole run: threads are started together on one clock, their accounts are collected second by second, and summed up.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;

use krarup_net::mio::{Events, Poll, Token, Waker};
use krarup_net::signal::Signals;
use krarup_net::{Address, Clock};
use krarup_record::{Distribution, Histograms, Operation, Quantity};
use krarup_units::{Nanos, Seconds, Stamp};
use serde::{Deserialize, Serialize};

use crate::account::{Measured, Segment, Verified};
use crate::client::Client;
use crate::config::{Extent, Load};
use crate::engine::{Arriving, Done, Engine, Source, Stop, Task};
use crate::keys::Family;
use crate::result::{FORMAT, Generator, LoadResult, OperationResult, SeriesRow, Warning, WholeRun, series};
use crate::schedule::{Arrivals, Schedule, Think};
use crate::workload::Plan;

/// Why there is no result.
#[derive(Debug)]
pub enum LoadError {
    /// The configuration makes no sense; nothing was sent.
    Config(String),
    /// A server's name or port leads nowhere.
    Unreachable {
        /// Which server.
        address: String,
        /// Why.
        why: String,
    },
    /// The keys could not all be stored, or are not there afterwards.
    Populate {
        /// Which server.
        address: String,
        /// What went wrong.
        why: String,
    },
    /// The operating system refused.
    System(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(why) => f.write_str(why),
            Self::Unreachable { address, why } => write!(f, "cannot connect to {address}: {why}"),
            Self::Populate { address, why } => write!(f, "populating {address}: {why}"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Keys are stored.
    Populate,
    /// It is verified that all are there.
    Check,
    /// The load itself.
    Run,
}

/// A second of a run is over, on all threads.
#[derive(Debug)]
pub struct Event<'a> {
    /// What is going on.
    pub phase: Phase,
    /// How long it will go on in all, where that is known.
    pub of: Extent,
    /// What time it was on the wall when the run began, since 1970 (UTC).
    pub epoch_unix: Nanos,
    /// The second's rows: all operations together first.
    pub rows: &'a [SeriesRow],
    /// Everything that was recorded in it.
    pub segment: &'a Segment,
}

/// Makes every thread's clients and connects them.
fn connect(load: &Load, stop: &Arc<Stop>) -> Result<Vec<(Engine, Waker)>, LoadError> {
    let mut targets = Vec::new();
    for target in &load.targets {
        let unreachable = |why: String| LoadError::Unreachable { address: target.to_string(), why };
        let found = target.resolve().map_err(unreachable)?;
        targets.push(*found.first().ok_or_else(|| unreachable("it has no address".to_owned()))?);
    }
    let plan = Plan::new(load.workload.clone(), load.seed, u64::from(load.connections));
    let limit = Nanos::from_seconds(load.connect_timeout);
    let mut engines = Vec::new();
    for thread in 0..load.threads {
        let (mut engine, waker) = Engine::new(task(load, &plan, &targets, thread, stop))?;
        engine.connect(limit).map_err(|error| LoadError::Unreachable {
            address: load.targets.iter().map(Address::to_string).collect::<Vec<_>>().join(", "),
            why: error.to_string(),
        })?;
        engines.push((engine, waker));
    }
    Ok(engines)
}

/// The part of one thread: every so-manieth client.
fn task(load: &Load, plan: &Arc<Plan>, targets: &[SocketAddr], thread: u32, stop: &Arc<Stop>) -> Task {
    let numbers = (thread..load.connections).step_by(load.threads as usize).map(u64::from);
    let (think, closed) = match load.arrivals {
        Arrivals::Closed(think) => (think, true),
        Arrivals::Open(_) => (Think::None, false),
    };
    let share = |of: u64, number: u64, parts: u64| of / parts + u64::from(number < of % parts);
    let budget = |number: u64, parts: u32| match load.extent {
        Extent::Seconds(_) => u64::MAX,
        Extent::Requests(requests) => share(requests, number, u64::from(parts)),
    };
    let clients = numbers.clone().map(|number| {
        let target = (number % targets.len() as u64) as usize;
        let budget = if closed { budget(number, load.connections) } else { 0 };
        let client = Client::new(load.seed, number, load.pipeline, think, target as u16, budget);
        (client, targets[target])
    });
    let source = match &load.arrivals {
        Arrivals::Closed(_) => Source::Closed(numbers.clone().map(|number| plan.stream(number)).collect()),
        Arrivals::Open(open) => Source::Open(Box::new(Arriving {
            schedule: Schedule::new(open, load.seed),
            stride: u64::from(load.threads),
            offset: u64::from(thread),
            budget: budget(u64::from(thread), load.threads),
            stream: plan.stream(u64::from(thread)),
        })),
    };
    let end = match load.extent {
        Extent::Seconds(seconds) => Stamp(Nanos::from_seconds(seconds).0),
        Extent::Requests(_) => Stamp(u64::MAX / 2),
    };
    Task {
        plan: Arc::clone(plan),
        clients: clients.collect(),
        source,
        measured: Measured {
            from: Stamp(Nanos::from_seconds(load.warm_up).0),
            to: Stamp(end.0 - Nanos::from_seconds(load.cool_down).0),
        },
        end,
        drain: Nanos::from_seconds(load.drain),
        request_timeout: Nanos::from_seconds(load.request_timeout),
        give_up: Nanos::from_seconds(load.give_up),
        verify: load.verify,
        stop: Arc::clone(stop),
    }
}

/// A thread and a segment of its account that is over; nothing where the thread is.
type Message = (usize, Option<Segment>);

/// What a thread tells the conductor by. Its last word is that the thread is over, however it ended.
struct Line {
    thread: usize,
    send: mpsc::Sender<Message>,
    waker: Arc<Waker>,
}

impl Line {
    fn say(&self, segment: Option<Segment>) {
        // Nobody listens any more only if the conductor has failed; then there is no result anyway.
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
    signals: Option<Signals>,
}

const WAKE: Token = Token(0);
const STOP: Token = Token(1);
const HANG_UP: Token = Token(2);

impl Conductor {
    /// Ready to run. With `signals`, SIGINT, SIGTERM and SIGHUP from now on end a run early and cleanly; otherwise they do
    /// what they always do.
    ///
    /// # Errors
    /// From the system.
    pub fn new(signals: bool) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let signals = signals.then(|| Signals::register(poll.registry(), STOP, HANG_UP)).transpose()?;
        Ok(Self { poll, events: Events::with_capacity(16), waker, signals })
    }

    /// Runs a load to its end.
    ///
    /// # Errors
    /// Where there is nothing to report: a configuration that makes no sense, no server, no resources. Errors during the run
    /// are counted and are part of the result.
    pub fn run(&mut self, load: &Load, observe: &mut dyn FnMut(&Event<'_>)) -> Result<LoadResult, LoadError> {
        self.run_phase(Phase::Run, load, observe)
    }

    fn run_phase(
        &mut self,
        phase: Phase,
        load: &Load,
        observe: &mut dyn FnMut(&Event<'_>),
    ) -> Result<LoadResult, LoadError> {
        load.check().map_err(LoadError::Config)?;
        let stop = Arc::new(Stop::default());
        let engines = connect(load, &stop)?;
        let clock = Clock::start();
        let (send, receive) = mpsc::channel();
        let threads = engines.len();
        let mut wakers = Vec::new();
        let mut handles = Vec::new();
        for (number, (engine, waker)) in engines.into_iter().enumerate() {
            wakers.push(waker);
            let line = Line { thread: number, send: send.clone(), waker: Arc::clone(&self.waker) };
            let body = move || engine.run(clock, |segment| line.say(Some(segment)));
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
        Ok(collected.result(load, &done, interrupted))
    }

    /// Stores every key of the workload at every target, in order and exactly once, and verifies that each is there.
    ///
    /// # Errors
    /// The first thing that went wrong, in words.
    pub fn populate(&mut self, load: &Load, observe: &mut dyn FnMut(&Event<'_>)) -> Result<u64, LoadError> {
        load.check().map_err(LoadError::Config)?;
        let mut stored = 0;
        for target in &load.targets {
            let failed = |why: String| LoadError::Populate { address: target.to_string(), why };
            let mut families = vec![Family::Plain];
            families
                .extend([Family::Counter, Family::Text].into_iter().filter(|&one| load.workload.uses(one)));
            for family in families {
                let result = self.run_phase(Phase::Populate, &load.populating(target, family), observe)?;
                stored += all_stored(&result, load.workload.keys.count).map_err(failed)?;
            }
            let result = self.run_phase(Phase::Check, &load.checking(target), observe)?;
            all_there(&result, load.workload.keys.count).map_err(failed)?;
        }
        Ok(stored)
    }

    /// Takes what has come; waits if nothing has. `false` when all threads are done.
    fn listen(
        &mut self,
        receive: &mpsc::Receiver<Message>,
        collected: &mut Collected,
        observe: &mut dyn FnMut(&Event<'_>),
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
        self.signals.as_mut().is_some_and(|signals| signals.stops() + signals.reloads() > 0)
    }
}

/// What the threads have reported so far.
struct Collected {
    /// Segments that not all threads have reported, oldest first; the number of those that are still to come beside each.
    waiting: Vec<VecDeque<Segment>>,
    finished: Vec<bool>,
    whole: Segment,
    measured: Segment,
    series: Vec<SeriesRow>,
    phase: Phase,
    of: Extent,
    epoch_unix: Nanos,
}

impl Collected {
    fn new(threads: usize, load: &Load, phase: Phase, clock: Clock) -> Self {
        let from = Stamp(Nanos::from_seconds(load.warm_up).0);
        Self {
            waiting: (0..threads).map(|_| VecDeque::new()).collect(),
            finished: vec![false; threads],
            whole: Segment::new(Stamp(0), Stamp(0), false),
            measured: Segment::new(from, from, true),
            series: Vec::new(),
            phase,
            of: load.extent,
            epoch_unix: clock.wall_epoch(),
        }
    }

    fn take(&mut self, thread: usize, segment: Option<Segment>, observe: &mut dyn FnMut(&Event<'_>)) {
        match segment {
            Some(segment) => self.waiting[thread].push_back(segment),
            None => self.finished[thread] = true,
        }
        // All threads cut time at the same stamps, but where the run ended: the earliest start is next, and is complete
        // when every thread has reported it or is done.
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

    fn add(&mut self, segment: &Segment, observe: &mut dyn FnMut(&Event<'_>)) {
        self.whole.merge(segment);
        if segment.measured {
            self.measured.merge(segment);
        }
        if segment.end > segment.start || segment.overall().tally.count > 0 {
            let rows = series(segment);
            observe(&Event {
                phase: self.phase,
                of: self.of,
                epoch_unix: self.epoch_unix,
                rows: &rows,
                segment,
            });
            self.series.extend(rows);
        }
    }

    fn result(self, load: &Load, done: &[Done], interrupted: bool) -> LoadResult {
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
            Extent::Requests(_) => self.measured.end.min(last),
            Extent::Seconds(_) => self.measured.end,
        };
        let length = Nanos(end.0.saturating_sub(self.measured.start.0));
        let operations = Operation::ALL
            .iter()
            .filter_map(|&operation| {
                let times = distributions(&self.measured.histograms, operation)?;
                let counts = &self.measured.counts[operation.index()];
                Some((operation.name().to_owned(), OperationResult::new(counts, times, length)))
            })
            .collect();
        let overall = overall(&self.measured, length);
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
        };
        let gave_up = done.iter().any(|one| one.gave_up);
        let warnings = warnings(load, &account, &overall, &generator, gave_up);
        LoadResult {
            format: FORMAT,
            config: load.clone(),
            started_unix: self.epoch_unix.as_seconds(),
            seconds: length.as_seconds(),
            interrupted,
            account,
            overall,
            operations,
            series: self.series,
            generator,
            verified: load.verify.then_some(verified),
            warnings,
        }
    }
}

fn pop_if(segments: &mut VecDeque<Segment>, start: Stamp) -> Option<Segment> {
    segments.front().is_some_and(|front| front.start == start).then(|| segments.pop_front()).flatten()
}

fn distributions(histograms: &Histograms, operation: Operation) -> Option<[&Distribution; 3]> {
    Some([
        histograms.get(operation, Quantity::Response)?,
        histograms.get(operation, Quantity::Server)?,
        histograms.get(operation, Quantity::Queue)?,
    ])
}

fn overall(measured: &Segment, length: Nanos) -> OperationResult {
    let mut sums = [Distribution::new(), Distribution::new(), Distribution::new()];
    for &operation in Operation::ALL {
        for (sum, one) in
            sums.iter_mut().zip(distributions(&measured.histograms, operation).into_iter().flatten())
        {
            sum.merge(one);
        }
    }
    let [response, from_sent, lateness] = &sums;
    OperationResult::new(&measured.overall(), [response, from_sent, lateness], length)
}

/// A thread that runs for a larger share of its time than this has no time left to be on time.
const BUSY: f64 = 0.9;
/// Misses are worth a warning from this share on.
const MISSES: f64 = 0.01;

fn warnings(
    load: &Load,
    account: &WholeRun,
    overall: &OperationResult,
    generator: &Generator,
    gave_up: bool,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    // The share of a run shorter than this is an accident of scheduling.
    if generator.busiest_thread > BUSY && generator.elapsed > 0.2 {
        warnings.push(Warning::GeneratorBusy { share: generator.busiest_thread });
    }
    let (late, response) = (overall.lateness, overall.response_time);
    if matches!(load.arrivals, Arrivals::Open(_)) && late.p99 > 1e-3 && late.p99 > 0.1 * response.p50 {
        warnings.push(Warning::GeneratorLate { p99: late.p99, response_p50: response.p50 });
    }
    if account.unsent > 0 {
        warnings.push(Warning::Unsent { count: account.unsent, due: account.unsent + account.sent });
    }
    let failed = overall.failed();
    if failed > 0 {
        warnings.push(Warning::Errors { count: failed, of: overall.count });
    }
    let asked = overall.hits + overall.misses;
    if overall.misses as f64 > MISSES * asked as f64 {
        warnings.push(Warning::Misses { count: overall.misses, of: asked });
    }
    if gave_up {
        warnings.push(Warning::GaveUp);
    }
    warnings
}

fn all_stored(result: &LoadResult, keys: u64) -> Result<u64, String> {
    let stored =
        result.account.answers.get("set").and_then(|kinds| kinds.get("stored")).copied().unwrap_or(0);
    if result.interrupted {
        Err(format!("interrupted after {stored} of {keys} keys"))
    } else if stored == keys {
        Ok(stored)
    } else {
        Err(format!("{stored} of {keys} keys were stored; the others: {}", kinds(&result.overall.errors)))
    }
}

fn all_there(result: &LoadResult, keys: u64) -> Result<(), String> {
    let account = &result.account;
    if result.interrupted {
        return Err(format!("interrupted after {} of {keys} keys were verified", account.hits));
    }
    if let Some(Verified { first: Some(first), mismatched, .. }) = &result.verified {
        return Err(format!("{mismatched} of {keys} values are not what was stored; the first: {first}"));
    }
    if account.hits == keys {
        return Ok(());
    }
    if account.misses > 0 {
        return Err(format!(
            "{} of {keys} keys are not there after they were stored: the server's memory is too small for them, or they expire at once",
            account.misses
        ));
    }
    Err(format!(
        "{} of {keys} keys could be fetched; the others: {}",
        account.hits,
        kinds(&result.overall.errors)
    ))
}

fn kinds(errors: &std::collections::BTreeMap<String, u64>) -> String {
    if errors.is_empty() {
        return "never answered".to_owned();
    }
    errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}
