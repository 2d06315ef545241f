//! One thread of the generator: an event loop that drives its share of the clients over real
//! sockets.
//!
//! Each turn of a connection is one read, the answers it completed, the requests that became due by
//! them, and one write. Its one clock read stands between: after the read, before the write. So
//! `answered` of the one request is `due` and `sent` of the next where a client does not think, and
//! nothing between two requests is left out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use krarup_net::mio::{Events, Poll, Token, Waker};
use krarup_net::{Clock, Conn, Moved, Timer, cpu};
use krarup_record::file::rows::Lane;
use krarup_units::mistake::system_words;
use krarup_units::{Nanos, Stamp};

use crate::account::{Account, LateArrivals, LossReason, MeasuredSpan, Segment};
use crate::client::{Client, ThreadContext};
use crate::config::Habits;
use crate::queue::Hello;
use crate::schedule::Schedule;
use crate::shortage::{ProcessorWaits, Shortage};
use crate::target::{Greeting, Target};
use crate::trace::Dues;
use crate::workload::{PreparedWorkload, RequestStream, Scratch};

/// Tokens below are connections.
const WAKE: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);

/// How many events one poll may bring.
const EVENTS: usize = 1_024;
/// How many bytes one read may bring.
const READ: usize = 1 << 16;
/// The first pause before a lost connection is tried again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Nanos = Nanos::from_millis(10);
/// The longest pause between two attempts to connect.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(1_000);
/// How long one attempt to connect may take.
const LONGEST_ATTEMPT: Nanos = Nanos::from_secs(5);
/// No stamp of any run.
const NEVER: Stamp = Stamp(u64::MAX);
/// How often it is asked, while connections are made, whether the run is to stop.
const ASK_AGAIN: Nanos = Nanos::from_millis(100);
/// Sleeps shorter than this are timed to the microsecond.
const FINE: Nanos = Nanos::from_millis(50);

/// When all clients are to stop, unless the run ends before.
#[derive(Debug)]
pub struct StopTime(AtomicU64);

impl Default for StopTime {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl StopTime {
    /// Nothing new is begun from `now` on. The first call counts.
    pub fn at(&self, now: Stamp) {
        self.0.fetch_min(now.0, Ordering::Relaxed);
    }

    fn get(&self) -> Stamp {
        Stamp(self.0.load(Ordering::Relaxed))
    }
}

/// The connections that stand, of all threads.
#[derive(Debug, Default)]
pub struct StandingConnections {
    count: AtomicUsize,
    /// When the latest of those that stand no more was lost.
    lost: AtomicU64,
}

impl StandingConnections {
    fn add(&self, count: usize) {
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    /// So many, at least one, stand no more from `now` on.
    fn remove(&self, count: usize, now: Stamp) {
        self.lost.fetch_max(now.0, Ordering::Relaxed);
        // Who sees that none is left sees since when.
        self.count.fetch_sub(count, Ordering::AcqRel);
    }

    /// Since when none stands, if none does.
    fn none_since(&self) -> Option<Stamp> {
        let is_none = self.count.load(Ordering::Acquire) == 0;
        is_none.then(|| Stamp(self.lost.load(Ordering::Relaxed)))
    }
}

/// What one thread is to do.
#[derive(Debug)]
pub struct Task {
    /// The servers, in the order of the configuration.
    pub targets: Arc<[Target]>,
    /// Its part of each class of clients that it has a part of.
    pub groups: Vec<ClientGroup>,
    /// Its clients.
    pub owners: Vec<ClosedClient>,
    /// Its connections; those of one client that has several stand next to each other.
    pub connections: Vec<NewConnection>,
    /// How many classes there are in all.
    pub classes: usize,
    /// Which part of the run is measured.
    pub measured: MeasuredSpan,
    /// When the run is over; the largest stamp where requests are counted instead.
    pub end: Stamp,
    /// How long last answers are waited for.
    pub drain: Nanos,
    /// After how long without an answer a connection is given up; zero: never.
    pub request_timeout: Nanos,
    /// After how long without any connection of any thread this one ends, and after how long
    /// without its own a client that has so many requests to send gives them up.
    pub give_up: Nanos,
    /// The connections of all threads.
    pub standing: Arc<StandingConnections>,
    /// Whether values are verified.
    pub verify: bool,
    /// Set when the run is to stop early.
    pub stop: Arc<StopTime>,
}

/// A thread's part of one class of clients.
#[derive(Debug)]
pub struct ClientGroup {
    /// The number of their class.
    pub class: u16,
    /// What they ask.
    pub plan: Arc<PreparedWorkload>,
    /// How they treat their connections.
    pub habits: Habits,
    /// Whose requests are sent.
    pub source: RequestSource,
    /// The next arrival of an open load that is due for this thread.
    arrival: Option<Stamp>,
    /// In an open load, one entry for each free slot. Those of connections that do not stand are
    /// passed over when their turn comes.
    idle: VecDeque<u32>,
    /// How long its requests waited for answers while no such slot was free.
    shortage: Shortage,
    /// Whether the latest poll while it was short brought anything for one of its connections.
    has_events: bool,
}

impl ClientGroup {
    /// A group that has not begun.
    pub fn new(class: u16, plan: Arc<PreparedWorkload>, habits: Habits, source: RequestSource) -> Self {
        Self {
            class,
            plan,
            habits,
            source,
            arrival: None,
            idle: VecDeque::new(),
            shortage: Shortage::default(),
            has_events: false,
        }
    }

    /// When the next arrival that this thread is still to send was due; none if there is none
    /// before `end`.
    fn waiting(&self, end: Stamp) -> Option<Stamp> {
        match &self.source {
            RequestSource::Open(arriving) if arriving.budget > 0 => self.arrival.filter(|&due| due < end),
            _ => None,
        }
    }

    /// Whether no request of its schedule is left to be sent. Closed clients have none.
    fn has_begun_all(&self) -> bool {
        match &self.source {
            RequestSource::Closed => true,
            RequestSource::Open(arriving) => arriving.budget == 0 || self.arrival.is_none(),
        }
    }

    /// Whether what becomes due now would wait for an answer.
    fn is_short(&self) -> bool {
        matches!(self.source, RequestSource::Open(_)) && self.idle.is_empty()
    }
}

/// One client of a closed load, over all of its connections. In an open load there is none: no
/// client waits.
#[derive(Debug)]
pub struct ClosedClient {
    /// What it asks.
    pub stream: RequestStream,
    /// How many requests of its own it may still begin.
    pub budget: u64,
}

/// One connection before it is made.
#[derive(Debug)]
pub struct NewConnection {
    /// Its side of the conversation.
    pub client: Client,
    /// Which of the targets it leads to.
    pub target: u16,
    /// Which of the groups it belongs to.
    pub group: u16,
    /// Which of the owners it belongs to; none in an open load.
    pub owner: Option<u32>,
    /// Which connection of its owner is to carry the request after the one that it carried; none
    /// where there is only this one.
    pub next: Option<u32>,
    /// What it says first.
    pub hello: Option<Hello>,
}

/// Whose requests are sent, and when.
#[derive(Debug)]
pub enum RequestSource {
    /// Each client's own, when it wants to.
    Closed,
    /// Those of a schedule, by whichever client has a free slot.
    Open(Box<Arriving>),
}

/// When requests are due.
#[derive(Debug)]
pub enum DueTimes {
    /// When a law says.
    Law(Schedule),
    /// When they came as a trace was recorded.
    Trace(Dues),
}

impl DueTimes {
    fn nth(&mut self, skip: usize) -> Option<Stamp> {
        match self {
            Self::Law(schedule) => schedule.nth(skip),
            Self::Trace(dues) => dues.nth(skip),
        }
    }
}

/// Requests that come at their own pace.
#[derive(Debug)]
pub struct Arriving {
    /// When requests of all threads are due.
    pub due: DueTimes,
    /// This thread takes every so-manieth.
    pub stride: u64,
    /// How many it skips at first.
    pub offset: u64,
    /// How many it may still take.
    pub budget: u64,
    /// What they ask.
    pub stream: RequestStream,
}

/// What a thread has to say when it is done.
#[derive(Debug, Default)]
pub struct Done {
    /// Requests handed to a connection.
    pub sent: u64,
    /// Requests that were due and never sent: no connection had a free slot until the end, or that
    /// of a closed client did not stand.
    pub unsent: u64,
    /// How late arrivals were sent, by class.
    pub late: Vec<LateArrivals>,
    /// Bytes that the sockets took.
    pub bytes_sent: u64,
    /// Bytes that came.
    pub bytes_received: u64,
    /// What was found when values were verified.
    pub verified: crate::account::Verified,
    /// When the last answer was there, or the last request was given up.
    pub last: Stamp,
    /// Processor time the thread used from the start of the run on.
    pub cpu: Nanos,
    /// How long it was ready to run since then and had no processor.
    pub run_queue: Nanos,
    /// Whether a part of the run was given up because connections did not stand any more.
    pub gave_up: bool,
    /// Why the last connection could not be made, or ended; none where none failed.
    pub failure: Option<String>,
}

#[derive(Debug)]
enum Link {
    Down,
    Connecting { greeting: Box<Greeting>, since: Stamp },
    Up(Conn),
}

/// What an event says about its connection.
struct Ready {
    readable: bool,
    /// The other side has said its last, or the connection is broken.
    closed: bool,
}

impl Ready {
    fn of(event: &krarup_net::mio::event::Event) -> Self {
        Self {
            readable: event.is_readable() || event.is_error(),
            closed: event.is_read_closed() || event.is_error(),
        }
    }
}

#[derive(Debug)]
struct Connection {
    client: Client,
    target: u16,
    group: u16,
    owner: Option<u32>,
    next: Option<u32>,
    hello: Option<Hello>,
    link: Link,
    pause: Nanos,
    /// The earliest alarm that is set for the client; the largest stamp where none is.
    alarm: Stamp,
    /// How often it stands in the queue of free slots.
    queued: usize,
    /// Since when it does not stand; one that is being made anew on purpose does until that fails.
    down: Option<Stamp>,
    /// How many requests it may still carry before it is made anew.
    left: u64,
    /// When a slow reader may read again, and whether an alarm is set for it.
    sip: Stamp,
    sipping: bool,
    /// What is there to be read was the last the other side had to say.
    closing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    /// A client's slot wants to be used.
    Client(u32),
    /// A connection is to be tried again.
    Connect(u32),
    /// A slow reader reads on.
    Sip(u32),
}

/// One thread of the generator.
#[derive(Debug)]
pub struct GeneratorThread {
    poll: Poll,
    timer: Timer,
    timer_set: Stamp,
    clock: Clock,
    targets: Arc<[Target]>,
    groups: Vec<ClientGroup>,
    owners: Vec<ClosedClient>,
    connections: Vec<Connection>,
    alarms: BinaryHeap<Reverse<(Stamp, Alarm)>>,
    account: Account,
    scratch: Scratch,
    room: Vec<u8>,
    end: Stamp,
    drain: Nanos,
    request_timeout: Nanos,
    give_up: Nanos,
    verify: bool,
    stop: Arc<StopTime>,
    running: bool,
    up: usize,
    /// The connections of all threads.
    standing: Arc<StandingConnections>,
    processor_waits: ProcessorWaits,
    next_check: Stamp,
    last: Stamp,
    last_error: Option<io::Error>,
    gave_up: bool,
}

impl GeneratorThread {
    /// Makes a thread's event loop, and what wakes it.
    ///
    /// # Errors
    /// From the system.
    pub fn new(task: Task) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let timer = Timer::register(poll.registry(), TIMER)?;
        let connections = task.connections.into_iter().map(Connection::from).collect();
        let engine = Self {
            poll,
            timer,
            timer_set: Stamp(0),
            clock: Clock::start(),
            targets: task.targets,
            groups: task.groups,
            owners: task.owners,
            connections,
            alarms: BinaryHeap::new(),
            account: Account::new(task.measured, task.classes),
            scratch: Scratch::default(),
            room: vec![0; READ],
            end: task.end,
            drain: task.drain,
            request_timeout: task.request_timeout,
            give_up: task.give_up,
            verify: task.verify,
            stop: task.stop,
            running: false,
            up: 0,
            standing: task.standing,
            processor_waits: ProcessorWaits::default(),
            next_check: Stamp(0),
            last: Stamp(0),
            last_error: None,
            gave_up: false,
        };
        Ok((engine, waker))
    }

    /// Connects all clients, trying again until `limit` is over. Says how many connections stand.
    ///
    /// # Errors
    /// When none does: why the last attempt failed. [`io::ErrorKind::Interrupted`] where `stopped`
    /// says that the run is to stop.
    pub fn connect(&mut self, limit: Nanos, stopped: &mut dyn FnMut() -> bool) -> Result<usize, io::Error> {
        let begun = self.clock.now();
        let deadline = begun + limit;
        for number in 0..self.connections.len() {
            self.begin_to_connect(number, begun);
        }
        let mut events = Events::with_capacity(EVENTS);
        while self.up < self.connections.len() {
            let now = self.clock.now();
            if stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let next = if now < deadline {
                self.ring(now);
                let until = deadline.min(now + ASK_AGAIN);
                self.alarms.peek().map_or(until, |Reverse((at, _))| (*at).min(until))
            } else {
                now
            };
            self.sleep(now, next, &mut events)?;
            // What has come in time counts, however late this thread was to look.
            if now >= deadline && events.is_empty() {
                break;
            }
            self.turn_all(&events);
        }
        if self.up == 0 {
            let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "no answer to the attempt to connect");
            return Err(self.last_error.take().unwrap_or_else(timed_out));
        }
        Ok(self.up)
    }

    /// Runs until the end, on this clock. Hands over every segment of its account that is over, and
    /// leaves a row of every request in `rows`, if there is such a lane.
    ///
    /// # Errors
    /// From the system, when waiting for events fails.
    pub fn run(
        mut self,
        clock: Clock,
        rows: Option<Lane>,
        mut over: impl FnMut(Segment),
    ) -> io::Result<Done> {
        // The thread that opens it is the one that it speaks of.
        let run_queue = cpu::RunQueue::of_thread();
        let (cpu_before, waited_before) = (cpu::thread(), run_queue.waited());
        self.account.rows = rows;
        self.processor_waits = ProcessorWaits::new(waited_before);
        let mut events = Events::with_capacity(EVENTS);
        // Servers may have closed connections while the beginning of the load was waited for.
        loop {
            let now = self.clock.now();
            self.sleep(now, now, &mut events)?;
            self.turn_all(&events);
            if events.iter().count() < EVENTS {
                break;
            }
        }
        self.begin(clock);
        loop {
            let now = self.clock.now();
            let stopped = self.stop.get();
            if stopped < self.end {
                self.end = stopped;
                self.account.cut(stopped);
            }
            self.account.roll(now);
            self.account.over.drain(..).for_each(&mut over);
            self.ring(now);
            self.serve_arrivals(now);
            self.check(now);
            if self.is_done(now) {
                break;
            }
            if self.is_given_up(now) {
                self.gave_up = true;
                break;
            }
            self.rest(now, &mut events, &run_queue)?;
            self.turn_all(&events);
        }
        let now = self.clock.now();
        if self.up > 0 {
            self.standing.remove(self.up, now);
        }
        for connection in &mut self.connections {
            if connection.client.in_flight() > 0 {
                self.last = now;
            }
            connection.client.give_up(LossReason::Unanswered, now, &mut self.account);
        }
        let unsent = self.unsent(now);
        self.account.close(now.max(self.last));
        self.account.over.drain(..).for_each(&mut over);
        Ok(Done {
            sent: self.account.sent,
            unsent,
            late: self.account.late,
            bytes_sent: self.account.bytes_sent,
            bytes_received: self.account.bytes_received,
            verified: self.account.verified,
            last: self.last,
            cpu: cpu::thread().saturating_sub(cpu_before),
            run_queue: run_queue.waited().saturating_sub(waited_before),
            gave_up: self.gave_up,
            failure: self.last_error.as_ref().map(system_words),
        })
    }

    fn begin(&mut self, clock: Clock) {
        self.clock = clock;
        self.running = true;
        self.timer_set = Stamp(0);
        // Pauses and attempts were on the clock of the connecting phase: begin them anew.
        self.alarms.clear();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            connection.down = connection.down.map(|_| Stamp(0));
            match &mut connection.link {
                Link::Up(_) => {}
                Link::Down => {
                    let at = Stamp(connection.pause.0);
                    self.alarms.push(Reverse((at, Alarm::Connect(number as u32))));
                }
                Link::Connecting { since, .. } => *since = Stamp(0),
            }
        }
        for group in &mut self.groups {
            if let RequestSource::Open(arriving) = &mut group.source {
                group.arrival = arriving.due.nth(arriving.offset as usize);
            }
        }
        let now = self.clock.now();
        for number in 0..self.connections.len() {
            self.serve(number, now);
        }
    }

    /// Everything that is due at `now` because of time alone.
    fn ring(&mut self, now: Stamp) {
        while let Some(&Reverse((at, alarm))) = self.alarms.peek() {
            if at > now {
                break;
            }
            self.alarms.pop();
            match alarm {
                Alarm::Client(number) => {
                    self.connections[number as usize].alarm = NEVER;
                    self.serve(number as usize, now);
                }
                Alarm::Sip(number) => {
                    self.connections[number as usize].sipping = false;
                    self.sip(number as usize, now);
                }
                Alarm::Connect(number) => {
                    if matches!(self.connections[number as usize].link, Link::Down) {
                        self.begin_to_connect(number as usize, now);
                    }
                }
            }
        }
    }

    /// Now and then: connections that are silent for too long.
    fn check(&mut self, now: Stamp) {
        if now < self.next_check {
            return;
        }
        self.next_check = now + Nanos::from_millis(100);
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            let is_gone = connection.down.is_some_and(|since| now > since + self.give_up);
            // A client with so many requests to send would never be done without a connection.
            if let Some(owner) = connection.owner {
                let budget = &mut self.owners[owner as usize].budget;
                let waits = *budget > 0 || connection.client.has_follow_up();
                let counted = waits && *budget != u64::MAX;
                if counted && is_gone {
                    *budget = 0;
                    connection.client.forget_follow_ups();
                    self.gave_up = true;
                }
            } else if is_gone
                && connection.client.has_follow_up()
                && self.groups[usize::from(connection.group)].has_begun_all()
            {
                // Nor would an open load be, whose last requests gave rise to these.
                connection.client.forget_follow_ups();
                self.gave_up = true;
            }
            let limit = self.request_timeout;
            if limit > Nanos::ZERO && connection.client.oldest().is_some_and(|sent| now > sent + limit) {
                self.lose(number, now, LossReason::TimedOut);
            } else if let Link::Connecting { since, .. } = connection.link
                && now > since + LONGEST_ATTEMPT
            {
                self.connect_failed(number, now, io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn next_wake(&self, now: Stamp) -> Stamp {
        let mut next = self.account.next_roll().min(self.next_check);
        if let Some(Reverse((at, _))) = self.alarms.peek() {
            next = next.min(*at);
        }
        for group in &self.groups {
            if let Some(due) = group.waiting(self.end)
                && !group.idle.is_empty()
            {
                next = next.min(due);
            }
        }
        if now < self.end { next.min(self.end) } else { next.min(self.end + self.drain) }
    }

    /// Whether no connection of any thread has stood for too long.
    fn is_given_up(&self, now: Stamp) -> bool {
        self.up == 0 && self.standing.none_since().is_some_and(|since| now >= since + self.give_up)
    }

    /// Waits until something is to be done. What becomes due meanwhile in a group without a free
    /// slot waits for answers.
    fn rest(&mut self, now: Stamp, events: &mut Events, run_queue: &cpu::RunQueue) -> io::Result<()> {
        let until = self.next_wake(now);
        let mut is_any_short = false;
        for group in &mut self.groups {
            if group.is_short() {
                is_any_short = true;
            } else {
                group.shortage.end();
            }
        }
        if !is_any_short {
            return self.sleep(now, until, events);
        }
        // `now` stands before requests that were written in this turn.
        let from = self.clock.now();
        self.processor_waits.before(from, || run_queue.waited());
        self.sleep(from, until, events)?;
        let to = self.clock.now();
        let waited = self.processor_waits.within(from, to, || run_queue.waited());
        // Where there was no room for all events, an answer may lie in a socket without one.
        let is_full = events.iter().count() >= EVENTS;
        self.groups.iter_mut().for_each(|group| group.has_events = is_full);
        for event in events.iter() {
            if let Some(connection) = self.connections.get(event.token().0) {
                self.groups[usize::from(connection.group)].has_events = true;
            }
        }
        self.polled(from, to, (to - from).saturating_sub(waited));
        Ok(())
    }

    /// The thread polled between these stamps, and slept for so long of that.
    fn polled(&mut self, from: Stamp, to: Stamp, slept: Nanos) {
        for group in self.groups.iter_mut().filter(|group| group.is_short()) {
            if group.has_events {
                group.shortage.slept(from, to, slept);
            } else {
                group.shortage.silent(from, to);
            }
        }
    }

    /// Waits for events until `until` at the latest.
    fn sleep(&mut self, now: Stamp, until: Stamp, events: &mut Events) -> io::Result<()> {
        let left = Nanos(until.0.saturating_sub(now.0));
        let timeout = if left == Nanos::ZERO {
            Some(left)
        } else if left < FINE {
            // A poll's own timeout is in whole milliseconds: too coarse to be on time.
            if self.timer_set != until {
                self.timer.set(left)?;
                self.timer_set = until;
            }
            None
        } else {
            Some(left - Nanos::from_millis(1))
        };
        match self.poll.poll(events, timeout.map(Nanos::as_duration)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    /// Whether nothing is left to do.
    fn is_done(&self, now: Stamp) -> bool {
        if now >= self.end {
            // A connection that stands or is being made takes what its class was to send before.
            let goes_on = |one: &Connection| {
                let waiting = self.groups[usize::from(one.group)].waiting(self.end);
                one.client.in_flight() > 0 || (waiting.is_some() && !matches!(one.link, Link::Down))
            };
            return now >= self.end + self.drain || !self.connections.iter().any(goes_on);
        }
        let begun_all = self.owners.iter().all(|owner| owner.budget == 0)
            && self.groups.iter().all(ClientGroup::has_begun_all);
        begun_all
            && self.connections.iter().all(|one| one.client.in_flight() == 0 && !one.client.has_follow_up())
    }

    /// Requests that were due before the end and never sent: arrivals, and those of closed clients
    /// whose connection does not stand.
    fn unsent(&mut self, now: Stamp) -> u64 {
        let end = self.end.min(now);
        let mut count = 0;
        for group in &mut self.groups {
            let RequestSource::Open(arriving) = &mut group.source else { continue };
            while let Some(due) = group.arrival
                && due < end
                && arriving.budget > 0
            {
                count += 1;
                arriving.budget -= 1;
                group.arrival = arriving.after();
            }
        }
        for connection in &self.connections {
            let Some(owner) = connection.owner else { continue };
            if connection.down.is_some() {
                let budget = &mut self.owners[owner as usize].budget;
                let due = connection.client.due_before(end).min(*budget);
                count += due;
                *budget -= due;
            }
        }
        count
    }

    /// Sends every arrival that is due and finds a free slot.
    fn serve_arrivals(&mut self, now: Stamp) {
        for group in 0..self.groups.len() {
            while let Some(number) = self.issue_arrival(group, now) {
                self.flush(number);
            }
        }
    }

    /// Writes the next arrival, if it is due, to the connection whose slot has been free for
    /// longest.
    fn issue_arrival(&mut self, group: usize, now: Stamp) -> Option<usize> {
        let group = &mut self.groups[group];
        let RequestSource::Open(arriving) = &mut group.source else { return None };
        let due = group.arrival.filter(|&due| due <= now && due < self.end && arriving.budget > 0)?;
        let number = loop {
            let number = group.idle.pop_front()? as usize;
            let connection = &mut self.connections[number];
            connection.queued -= 1;
            // The connection may be down, a slot have been taken by a follow-up, or the connection
            // be busy writing: then `serve` queues it again.
            if matches!(connection.link, Link::Up(_))
                && connection.client.free() > 0
                && connection.client.outbox.is_empty()
                && connection.left > 0
            {
                break number;
            }
        };
        let late = LateArrivals { late: now - due, waited: group.shortage.since(due) };
        self.account.late[usize::from(group.class)].merge(late);
        while let Some(&number) = group.idle.front() {
            let connection = &mut self.connections[number as usize];
            if matches!(connection.link, Link::Up(_)) {
                break;
            }
            connection.queued -= 1;
            group.idle.pop_front();
        }
        let mut shared = ThreadContext {
            plan: &group.plan,
            account: &mut self.account,
            scratch: &mut self.scratch,
            verify: self.verify,
        };
        let connection = &mut self.connections[number];
        connection.client.issue(Some(due), now, &mut arriving.stream, &mut shared);
        connection.left -= 1;
        arriving.budget -= 1;
        group.arrival = arriving.after();
        Some(number)
    }

    /// Sends what a client wants to send by now, as far as it may; what it cannot send yet is noted
    /// for later.
    fn serve(&mut self, number: usize, now: Stamp) {
        let connection = &mut self.connections[number];
        // Only when all has left is a request written: so `sent` stands before the write that
        // carries its first byte.
        if !matches!(connection.link, Link::Up(_)) || !connection.client.outbox.is_empty() {
            return;
        }
        let owes_end = now < self.end && connection.client.owes_end();
        if connection.left == 0 && !owes_end {
            // At the end it is made anew only for what was due before.
            let group = &self.groups[usize::from(connection.group)];
            let end = if group.waiting(self.end).is_some() { self.end + self.drain } else { self.end };
            if connection.client.in_flight() == 0 && now < end {
                self.renew(number, now);
            }
            return;
        }
        let group = &mut self.groups[usize::from(connection.group)];
        let mut shared = ThreadContext {
            plan: &group.plan,
            account: &mut self.account,
            scratch: &mut self.scratch,
            verify: self.verify,
        };
        let client = &mut connection.client;
        match (&mut group.source, connection.owner) {
            (RequestSource::Closed, Some(owner)) => {
                let owner = &mut self.owners[owner as usize];
                while now < self.end
                    && (connection.left > 0 || client.owes_end())
                    && (owner.budget > 0 || client.has_follow_up())
                    && client.wants().is_some_and(|from| from <= now)
                {
                    let is_new = client.issue(None, now, &mut owner.stream, &mut shared);
                    owner.budget -= u64::from(is_new && owner.budget != u64::MAX);
                    connection.left = connection.left.saturating_sub(1);
                }
                if let Some(from) = client.wants()
                    && from < connection.alarm
                    && from > now
                {
                    connection.alarm = from;
                    self.alarms.push(Reverse((from, Alarm::Client(number as u32))));
                }
            }
            (RequestSource::Closed, None) => {}
            (RequestSource::Open(arriving), _) => {
                while now < self.end
                    && (connection.left > 0 || client.owes_end())
                    && client.has_follow_up()
                    && client.free() > 0
                {
                    client.issue(None, now, &mut arriving.stream, &mut shared);
                    connection.left = connection.left.saturating_sub(1);
                }
                let new = client.free().saturating_sub(connection.queued);
                connection.queued += new;
                group.idle.extend((0..new).map(|_| number as u32));
            }
        }
        self.flush(number);
    }

    /// Hands the free slots of a client with several connections on to its next one: it asks every
    /// server in turn. Slots that a follow-up is to use stay, for that goes to the server whose
    /// answer gave rise to it.
    fn pass_on(&mut self, number: usize, now: Stamp) {
        let Some(next) = self.connections[number].next else { return };
        let client = &mut self.connections[number].client;
        let mut passed = Vec::new();
        while client.free() > client.follow_ups() {
            passed.extend(client.take_slot());
        }
        if passed.is_empty() {
            return;
        }
        let next = next as usize;
        passed.into_iter().for_each(|from| self.connections[next].client.put_slot(from));
        self.serve(next, now);
    }

    /// Closes a connection that has carried its number of requests, and begins the next.
    fn renew(&mut self, number: usize, now: Stamp) {
        let connection = &mut self.connections[number];
        if let Link::Up(mut conn) = std::mem::replace(&mut connection.link, Link::Down) {
            conn.finish();
        }
        self.account.roll(now);
        self.account.connection_renewed();
        self.begin_to_connect(number, now);
    }

    /// Writes what waits to leave, once.
    fn flush(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        let outbox = &mut connection.client.outbox;
        if outbox.is_empty() {
            return;
        }
        let Link::Up(conn) = &mut connection.link else { return };
        match conn.write(outbox.unsent()) {
            Moved::Some(count) => {
                outbox.advance(count);
                outbox.shrink(READ);
                self.account.bytes_sent += count as u64;
            }
            Moved::None => {}
            Moved::Closed | Moved::Failed(_) => {
                let now = self.clock.now();
                self.lose(number, now, LossReason::ConnectionLost);
            }
        }
    }

    /// Takes what a poll has brought.
    fn turn_all(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                WAKE | TIMER => {}
                Token(number) => self.turn(number, &Ready::of(event)),
            }
        }
    }

    /// Something happened on a connection.
    fn turn(&mut self, number: usize, ready: &Ready) {
        let connection = &mut self.connections[number];
        match &mut connection.link {
            Link::Down => {}
            Link::Connecting { greeting, .. } => {
                let stands = greeting.advance();
                let now = self.clock.now();
                match stands {
                    Ok(true) => self.connected(number, now),
                    Ok(false) => {}
                    Err(error) => self.connect_failed(number, now, error),
                }
            }
            Link::Up(conn) => {
                // Encrypted bytes that the socket had no room for before; where it fails, reading
                // will find out.
                if conn.is_waiting() {
                    let _ = conn.flush();
                }
                if ready.readable {
                    if self.groups[usize::from(connection.group)].habits.read_rate > 0 {
                        connection.closing |= ready.closed;
                        if !connection.sipping {
                            let now = self.clock.now();
                            self.sip(number, now);
                        }
                    } else {
                        self.read(number, ready.closed);
                    }
                }
                // What could not leave before can now; then the client may write more.
                if !self.connections[number].client.outbox.is_empty() {
                    self.flush(number);
                    let now = self.clock.now();
                    self.serve(number, now);
                }
            }
        }
    }

    /// Reads what has come; up to the end if the other side has closed.
    fn read(&mut self, number: usize, closed: bool) {
        // A read that did not fill the room has emptied the socket, and what comes later is a new
        // event; only an end that was there with the bytes is not.
        while let Some(count) = self.read_once(number, READ) {
            if count < READ && !closed {
                return;
            }
        }
    }

    /// Reads as much as a slow reader may, if it may by now.
    fn sip(&mut self, number: usize, now: Stamp) {
        let connection = &mut self.connections[number];
        let rate = self.groups[usize::from(connection.group)].habits.read_rate.max(1);
        if now >= connection.sip {
            // A hundred times per second, or a byte at a time where that is too much.
            let sip = (rate / 100).clamp(1, READ as u64);
            connection.sip = now + Nanos(sip.saturating_mul(1_000_000_000) / rate);
            let read = self.read_once(number, sip as usize);
            let closing = self.connections[number].closing;
            if read.is_none_or(|count| (count as u64) < sip && !closing) {
                return;
            }
        }
        let connection = &mut self.connections[number];
        connection.sipping = true;
        self.alarms.push(Reverse((connection.sip, Alarm::Sip(number as u32))));
    }

    /// Reads once, up to so many bytes, and settles what was answered. Nothing where nothing came
    /// or the connection is no more.
    fn read_once(&mut self, number: usize, most: usize) -> Option<usize> {
        let connection = &mut self.connections[number];
        let Link::Up(conn) = &mut connection.link else { return None };
        let (count, now) = match conn.read(&mut self.room[..most]) {
            Moved::Some(count) => (count, self.clock.now()),
            Moved::None => return None,
            Moved::Closed => {
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection");
                self.ended(number, error);
                return None;
            }
            Moved::Failed(error) => {
                self.ended(number, error);
                return None;
            }
        };
        let mut shared = ThreadContext {
            plan: &self.groups[usize::from(connection.group)].plan,
            account: &mut self.account,
            scratch: &mut self.scratch,
            verify: self.verify,
        };
        let Ok(settled) = connection.client.receive(&self.room[..count], now, &mut shared) else {
            self.lose(number, now, LossReason::OutOfStep);
            return None;
        };
        if settled > 0 {
            self.last = now;
            self.pass_on(number, now);
            self.serve(number, now);
        }
        Some(count)
    }

    fn begin_to_connect(&mut self, number: usize, now: Stamp) {
        let connection = &mut self.connections[number];
        let little = self.groups[usize::from(connection.group)].habits.read_rate > 0;
        let target = &self.targets[usize::from(connection.target)];
        match target.knock(self.poll.registry(), Token(number), connection.hello.as_ref(), little) {
            Ok(greeting) => {
                connection.link = Link::Connecting { greeting: Box::new(greeting), since: now };
            }
            Err(error) => self.connect_failed(number, now, error),
        }
    }

    fn connected(&mut self, number: usize, now: Stamp) {
        let connection = &mut self.connections[number];
        let Link::Connecting { greeting, .. } = std::mem::replace(&mut connection.link, Link::Down) else {
            return;
        };
        connection.link = Link::Up(greeting.into_conn());
        connection.pause = FIRST_PAUSE;
        connection.closing = false;
        connection.left = match self.groups[usize::from(connection.group)].habits.reconnect_after {
            0 => u64::MAX,
            limit => limit,
        };
        if connection.down.take().is_some() {
            self.up += 1;
            self.standing.add(1);
        }
        if self.running {
            self.serve(number, now);
        }
    }

    fn connect_failed(&mut self, number: usize, now: Stamp, error: io::Error) {
        self.last_error = Some(error);
        if self.running {
            self.account.roll(now);
            self.account.connect_failed();
        }
        self.retry_later(number, now);
    }

    /// A connection that stood was closed, or broke: of TLS 1.3 a server says only then what it has
    /// against our certificate.
    fn ended(&mut self, number: usize, error: io::Error) {
        self.last_error = Some(error);
        let now = self.clock.now();
        self.lose(number, now, LossReason::ConnectionLost);
    }

    /// A connection that stood is no more.
    fn lose(&mut self, number: usize, now: Stamp, loss: LossReason) {
        let connection = &mut self.connections[number];
        if connection.client.in_flight() > 0 {
            self.last = now;
        }
        connection.client.give_up(loss, now, &mut self.account);
        if self.running {
            self.account.roll(now);
            self.account.connection_lost();
        }
        self.retry_later(number, now);
    }

    fn retry_later(&mut self, number: usize, now: Stamp) {
        let connection = &mut self.connections[number];
        connection.link = Link::Down;
        if connection.down.is_none() {
            connection.down = Some(now);
            self.up -= 1;
            // The clock of the connecting phase is another.
            self.standing.remove(1, if self.running { now } else { Stamp(0) });
        }
        let pause = connection.pause;
        connection.pause = Nanos((pause.0 * 2).min(LONGEST_PAUSE.0));
        self.alarms.push(Reverse((now + pause, Alarm::Connect(number as u32))));
    }
}

impl Arriving {
    /// When this thread's next request is due.
    fn after(&mut self) -> Option<Stamp> {
        self.due.nth(self.stride as usize - 1)
    }
}

impl From<NewConnection> for Connection {
    fn from(connection: NewConnection) -> Self {
        let NewConnection { client, target, group, owner, next, hello } = connection;
        Self {
            client,
            target,
            group,
            owner,
            next,
            hello,
            link: Link::Down,
            pause: FIRST_PAUSE,
            alarm: NEVER,
            queued: 0,
            down: Some(Stamp(0)),
            left: u64::MAX,
            sip: Stamp(0),
            sipping: false,
            closing: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use krarup_net::mio::Interest;
    use krarup_net::mio::unix::SourceFd;
    use krarup_units::PerSecond;

    use super::*;
    use crate::config::{Extent, Load};
    use crate::schedule::{ArrivalProcess, Arrivals, Leg, Open};
    use crate::tasks::tasks;
    use crate::workload::{Mix, OnMiss, Workload};

    /// The threads of this load, none of whose connections stands.
    fn threads(load: Load) -> Vec<GeneratorThread> {
        let load = Load { extent: Extent::Requests(1), ..load };
        let targets: Arc<[Target]> = Target::all(&load, None, &mut || false).unwrap().into();
        let tasks = tasks(&load, &targets, &vec![None], &Arc::new(StopTime::default()));
        tasks.into_iter().map(|task| GeneratorThread::new(task).unwrap().0).collect()
    }

    /// The one thread of this load.
    fn thread(load: Load) -> GeneratorThread {
        threads(Load { threads: 1, ..load }).remove(0)
    }

    /// Lets all connections of a thread stand; each has one free slot, which its test queues.
    fn connect(thread: &mut GeneratorThread, server: &TcpListener) {
        let address = server.local_addr().unwrap();
        for (number, connection) in thread.connections.iter_mut().enumerate() {
            let conn = Conn::connect(address, thread.poll.registry(), Token(number)).unwrap();
            (connection.link, connection.down, connection.queued) = (Link::Up(conn), None, 1);
        }
        thread.up = thread.connections.len();
        thread.standing.add(thread.up);
    }

    fn open(connections: u32) -> Load {
        let leg = Leg { from: PerSecond(10.0), to: PerSecond(10.0), seconds: 0.0 };
        let arrivals = Arrivals::Open(Open { process: ArrivalProcess::Paced, legs: vec![leg] });
        Load { connections, arrivals, ..Load::default() }
    }

    /// Where many connections are lost at once, none of them is looked for among all free slots.
    #[test]
    fn a_free_slot_of_a_lost_connection_is_passed_over_when_its_turn_comes() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        for idle in [[0_u32, 1], [1, 0]] {
            let mut thread = thread(open(2));
            connect(&mut thread, &server);
            thread.groups[0].arrival = Some(Stamp(5));
            thread.groups[0].idle.extend(idle);
            thread.lose(1, Stamp(5), LossReason::ConnectionLost);
            assert_eq!(thread.groups[0].idle, idle);
            assert_eq!(thread.issue_arrival(0, Stamp(5)), Some(0));
            assert!(thread.groups[0].is_short(), "no other slot is free");
            assert_eq!((thread.connections[0].queued, thread.connections[1].queued), (0, 0));
        }
    }

    /// An answer that has come while the thread was busy is none that the system owes; one that a
    /// poll of a busy thread did not bring is.
    #[test]
    fn what_is_due_waits_for_answers_while_the_thread_sleeps_or_finds_none() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let sleep = vec![(110, 190, 70)];
        let busy: Vec<_> = (110..=190).step_by(10).map(|at| (at, at, 0)).collect();
        for (polls, has_events, waited) in
            [(vec![], true, 0), (sleep, true, 70), (busy.clone(), true, 0), (busy, false, 80)]
        {
            let mut thread = thread(open(2));
            connect(&mut thread, &server);
            let RequestSource::Open(arriving) = &mut thread.groups[0].source else { panic!() };
            arriving.budget = 2;
            thread.groups[0].arrival = Some(Stamp(100));
            thread.groups[0].idle.push_back(0);
            assert_eq!(thread.issue_arrival(0, Stamp(100)), Some(0));
            assert!(thread.groups[0].is_short());
            thread.groups[0].has_events = has_events;
            for (from, to, slept) in polls {
                thread.polled(Stamp(from), Stamp(to), Nanos(slept));
            }
            thread.groups[0].arrival = Some(Stamp(100));
            thread.groups[0].idle.push_back(1);
            assert_eq!(thread.issue_arrival(0, Stamp(200)), Some(1));
            let late = thread.account.late[0];
            assert_eq!((late.late, late.waited), (Nanos(100), Nanos(waited)));
        }
    }

    #[test]
    fn a_thread_without_connections_goes_on_while_another_has_some() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut threads = threads(Load { threads: 2, ..open(2) });
        connect(&mut threads[1], &server);
        threads[1].running = true;
        let late = Stamp(0) + threads[0].give_up;
        assert!(!threads[0].is_given_up(late), "its server may come back");
        threads[1].lose(0, late, LossReason::ConnectionLost);
        assert!(!threads[0].is_given_up(late), "the other's may, too");
        let later = late + threads[0].give_up;
        for thread in &threads {
            assert!(thread.is_given_up(later) && !thread.is_given_up(Stamp(later.0 - 1)));
        }
    }

    /// As idle ones are by some servers, while `--start-at` is waited for.
    #[test]
    fn a_connection_that_was_closed_before_the_load_begins_loses_no_request() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let targets = vec![server.local_addr().unwrap().to_string().parse().unwrap()];
        let workload = Workload { mix: Mix::Ratio { sets: 0, gets: 1 }, ..Workload::default() };
        let mut thread = thread(Load { targets, connections: 1, workload, ..Load::default() });
        assert_eq!(thread.connect(Nanos::from_secs(60), &mut || false).unwrap(), 1);
        let Link::Up(conn) = &thread.connections[0].link else { panic!() };
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(1));
        poll.registry().register(&mut SourceFd(&conn.as_raw_fd()), Token(0), Interest::READABLE).unwrap();
        drop(server.accept().unwrap());
        poll.poll(&mut events, None).unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            assert!(stream.read(&mut [0; 100]).unwrap() > 0);
            stream.write_all(b"END\r\n").unwrap();
        });
        let mut lost = 0;
        let done = thread.run(Clock::start(), None, |segment| lost += segment.overall().lost()).unwrap();
        assert_eq!((done.sent, lost), (1, 0));
        answering.join().unwrap();
    }

    #[test]
    fn a_connection_that_is_made_anew_is_given_up_only_once_that_fails() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let targets = vec![server.local_addr().unwrap().to_string().parse().unwrap()];
        let mut thread = thread(Load { targets, connections: 1, give_up: 0.0, ..Load::default() });
        connect(&mut thread, &server);
        thread.running = true;
        thread.renew(0, Stamp(5));
        thread.check(Stamp(6));
        assert!(!thread.gave_up && !thread.is_given_up(Stamp(6)));
        thread.connect_failed(0, Stamp(7), io::ErrorKind::TimedOut.into());
        assert!(thread.is_given_up(Stamp(7)));
        thread.next_check = Stamp(8);
        thread.check(Stamp(8));
        assert!(thread.gave_up);
    }

    #[test]
    fn an_arrival_that_will_never_be_sent_wakes_no_thread() {
        let mut thread = thread(open(1));
        thread.next_check = NEVER;
        thread.groups[0].arrival = Some(Stamp(5));
        thread.groups[0].idle.push_back(0);
        assert_eq!(thread.next_wake(Stamp(7)), Stamp(5));
        let RequestSource::Open(arriving) = &mut thread.groups[0].source else { panic!() };
        arriving.budget = 0;
        assert_eq!(thread.next_wake(Stamp(7)), thread.account.next_roll());
    }

    #[test]
    fn a_closed_client_has_not_sent_what_was_due_while_its_connection_was_down() {
        let mut thread = thread(Load::default());
        thread.owners[0].budget = u64::MAX;
        let connection = &mut thread.connections[0];
        connection.down = Some(Stamp(1));
        connection.client.take_slot();
        connection.client.put_slot(Stamp(1));
        assert_eq!(connection.client.wants(), Some(Stamp(1)));
        assert_eq!((thread.unsent(Stamp(1)), thread.unsent(Stamp(2))), (0, 1));
        thread.owners[0].budget = 0;
        assert_eq!(thread.unsent(Stamp(2)), 0, "it had nothing more to send");
        thread.owners[0].budget = u64::MAX;
        thread.connections[0].down = None;
        assert_eq!(thread.unsent(Stamp(2)), 0, "it stands, or is being made anew on purpose");
    }

    #[test]
    fn a_counted_run_gives_up_what_an_answer_gave_rise_to_on_a_lost_connection() {
        let mix = Mix::Ratio { sets: 0, gets: 1 };
        let workload = Workload { mix, on_miss: OnMiss::Set, ..Workload::default() };
        let mut thread = thread(Load { workload, ..Load::default() });
        let GeneratorThread { groups, owners, connections, account, scratch, .. } = &mut thread;
        let mut shared = ThreadContext { plan: &groups[0].plan, account, scratch, verify: false };
        let client = &mut connections[0].client;
        client.issue(None, Stamp(0), &mut owners[0].stream, &mut shared);
        assert_eq!(client.receive(b"END\r\n", Stamp(1), &mut shared), Ok(1));
        owners[0].budget = 0;
        connections[0].down = Some(Stamp(1));
        assert!(connections[0].client.has_follow_up() && !thread.is_done(Stamp(1)));
        let late = Stamp(2) + thread.give_up;
        thread.check(late);
        assert!(thread.gave_up && thread.is_done(late));
    }

    /// The other connection may stand: then the run does not end for want of one.
    #[test]
    fn what_an_answer_gave_rise_to_on_a_lost_connection_keeps_no_open_load_from_its_end() {
        let mix = Mix::Ratio { sets: 0, gets: 1 };
        let workload = Workload { mix, on_miss: OnMiss::Set, ..Workload::default() };
        let mut thread = thread(Load { workload, ..open(2) });
        let GeneratorThread { groups, connections, account, scratch, .. } = &mut thread;
        let group = &mut groups[0];
        let RequestSource::Open(arriving) = &mut group.source else { panic!() };
        let mut shared = ThreadContext { plan: &group.plan, account, scratch, verify: false };
        let client = &mut connections[0].client;
        client.issue(Some(Stamp(0)), Stamp(0), &mut arriving.stream, &mut shared);
        assert_eq!(client.receive(b"END\r\n", Stamp(1), &mut shared), Ok(1));
        (group.arrival, arriving.budget) = (Some(Stamp(5)), 1);
        (connections[0].down, connections[1].down) = (Some(Stamp(1)), None);
        let late = Stamp(2) + thread.give_up;
        thread.check(late);
        assert!(thread.connections[0].client.has_follow_up(), "more is to come, and it may come back");
        let RequestSource::Open(arriving) = &mut thread.groups[0].source else { panic!() };
        arriving.budget = 0;
        assert!(!thread.gave_up && !thread.is_done(late));
        thread.next_check = Stamp(0);
        thread.check(late);
        assert!(thread.gave_up && thread.is_done(late));
    }
}
