//! One thread of the generator: an event loop that drives its share of the clients over real sockets.
//!
//! Each turn of a connection is one read, the answers it completed, the requests that became due by them, and one write.
//! Its one clock read stands between: after the read, before the write. So `answered` of the one request is
//! `due` and `sent` of the next where a client does not think, and nothing between two requests is left out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use krarup_net::mio::{Events, Poll, Token, Waker};
use krarup_net::{Clock, Conn, Moved, Timer, cpu};
use krarup_units::{Nanos, Stamp};

use crate::account::{Account, Loss, Measured, Segment};
use crate::client::{Client, Shared};
use crate::schedule::Schedule;
use crate::workload::{Plan, Scratch, Stream};

/// Tokens below are connections.
const WAKE: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);

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
/// Sleeps shorter than this are timed to the microsecond.
const FINE: Nanos = Nanos::from_millis(50);

/// When everybody is to stop, unless the run ends before.
#[derive(Debug)]
pub struct Stop(AtomicU64);

impl Default for Stop {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Stop {
    /// Nothing new is begun from `now` on. The first call counts.
    pub fn at(&self, now: Stamp) {
        self.0.fetch_min(now.0, Ordering::Relaxed);
    }

    fn get(&self) -> Stamp {
        Stamp(self.0.load(Ordering::Relaxed))
    }
}

/// What one thread is to do.
#[derive(Debug)]
pub struct Task {
    /// The workload of all threads.
    pub plan: Arc<Plan>,
    /// Its clients, and where each is connected to.
    pub clients: Vec<(Client, SocketAddr)>,
    /// Whose requests are sent.
    pub source: Source,
    /// Which part of the run is measured.
    pub measured: Measured,
    /// When the run is over; the largest stamp where requests are counted instead.
    pub end: Stamp,
    /// How long last answers are waited for.
    pub drain: Nanos,
    /// After how long without an answer a connection is given up; zero: never.
    pub request_timeout: Nanos,
    /// After how long without any connection this thread ends, and after how long without its own a client that has so many
    /// requests to send gives them up.
    pub give_up: Nanos,
    /// Whether values are verified.
    pub verify: bool,
    /// Set when the run is to stop early.
    pub stop: Arc<Stop>,
}

/// Whose requests are sent, and when.
#[derive(Debug)]
pub enum Source {
    /// Each client's own, when it wants to.
    Closed(Vec<Stream>),
    /// Those of a schedule, by whichever client has a free slot.
    Open(Box<Arriving>),
}

/// Requests that come at their own pace.
#[derive(Debug)]
pub struct Arriving {
    /// When requests of all threads are due.
    pub schedule: Schedule,
    /// This thread takes every so-manieth.
    pub stride: u64,
    /// How many it skips at first.
    pub offset: u64,
    /// How many it may still take.
    pub budget: u64,
    /// What they ask.
    pub stream: Stream,
}

/// What a thread has to say when it is done.
#[derive(Debug)]
pub struct Done {
    /// Requests handed to a connection.
    pub sent: u64,
    /// Requests that were due and never sent, because no connection had a free slot until the end.
    pub unsent: u64,
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
    /// Whether a part of the run was given up because connections did not stand any more.
    pub gave_up: bool,
}

#[derive(Debug)]
enum Link {
    Down,
    Connecting { conn: Conn, since: Stamp },
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
    address: SocketAddr,
    link: Link,
    pause: Nanos,
    /// The earliest alarm that is set for the client; the largest stamp where none is.
    alarm: Stamp,
    /// How often it stands in the queue of free slots.
    queued: usize,
    /// Since when it does not stand.
    down: Option<Stamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    /// A client's slot wants to be used.
    Client(u32),
    /// A connection is to be tried again.
    Connect(u32),
}

/// One thread of the generator.
#[derive(Debug)]
pub struct Engine {
    plan: Arc<Plan>,
    poll: Poll,
    timer: Timer,
    timer_set: Stamp,
    clock: Clock,
    connections: Vec<Connection>,
    source: Source,
    /// The next arrival of an open load that is due for this thread.
    arrival: Option<Stamp>,
    /// In an open load, one entry for each free slot of a connection that stands.
    idle: VecDeque<u32>,
    alarms: BinaryHeap<Reverse<(Stamp, Alarm)>>,
    account: Account,
    scratch: Scratch,
    room: Vec<u8>,
    end: Stamp,
    drain: Nanos,
    request_timeout: Nanos,
    give_up: Nanos,
    verify: bool,
    stop: Arc<Stop>,
    running: bool,
    up: usize,
    /// Since when no connection stands, if none does.
    alone: Option<Stamp>,
    next_check: Stamp,
    last: Stamp,
    last_error: Option<io::Error>,
    gave_up: bool,
}

impl Engine {
    /// Makes a thread's event loop, and what wakes it.
    ///
    /// # Errors
    /// From the system.
    pub fn new(task: Task) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let timer = Timer::register(poll.registry(), TIMER)?;
        let clients = task.clients.into_iter();
        let connections = clients
            .map(|(client, address)| Connection {
                client,
                address,
                link: Link::Down,
                pause: FIRST_PAUSE,
                alarm: NEVER,
                queued: 0,
                down: None,
            })
            .collect();
        let engine = Self {
            plan: task.plan,
            poll,
            timer,
            timer_set: Stamp(0),
            clock: Clock::start(),
            connections,
            source: task.source,
            arrival: None,
            idle: VecDeque::new(),
            alarms: BinaryHeap::new(),
            account: Account::new(task.measured),
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
            alone: None,
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
    /// When none does: why the last attempt failed.
    pub fn connect(&mut self, limit: Nanos) -> Result<usize, io::Error> {
        let begun = self.clock.now();
        let deadline = begun + limit;
        for number in 0..self.connections.len() {
            self.begin_to_connect(number, begun);
        }
        let mut events = Events::with_capacity(1_024);
        while self.up < self.connections.len() {
            let now = self.clock.now();
            if now >= deadline || self.stop.get() <= now {
                break;
            }
            self.ring(now);
            let next = self.alarms.peek().map_or(deadline, |Reverse((at, _))| (*at).min(deadline));
            self.sleep(now, next, &mut events)?;
            for event in &events {
                if event.token() != WAKE && event.token() != TIMER {
                    self.turn(event.token().0, &Ready::of(event));
                }
            }
        }
        if self.up == 0 {
            let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "no answer to the attempt to connect");
            return Err(self.last_error.take().unwrap_or_else(timed_out));
        }
        Ok(self.up)
    }

    /// Runs until the end, on this clock. Hands over every segment of its account that is over.
    ///
    /// # Errors
    /// From the system, when waiting for events fails.
    pub fn run(mut self, clock: Clock, mut over: impl FnMut(Segment)) -> io::Result<Done> {
        let cpu_before = cpu::thread();
        self.begin(clock);
        let mut events = Events::with_capacity(1_024);
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
            if self.alone.is_some_and(|since| now >= since + self.give_up) {
                self.gave_up = true;
                break;
            }
            self.sleep(now, self.next_wake(now), &mut events)?;
            for event in &events {
                match event.token() {
                    WAKE | TIMER => {}
                    Token(number) => self.turn(number, &Ready::of(event)),
                }
            }
        }
        let now = self.clock.now();
        for connection in &mut self.connections {
            if connection.client.in_flight() > 0 {
                self.last = now;
            }
            connection.client.give_up(Loss::Unanswered, now, &mut self.account);
        }
        let unsent = self.unsent(now);
        self.account.close(now.max(self.last));
        self.account.over.drain(..).for_each(&mut over);
        Ok(Done {
            sent: self.account.sent,
            unsent,
            bytes_sent: self.account.bytes_sent,
            bytes_received: self.account.bytes_received,
            verified: self.account.verified,
            last: self.last,
            cpu: cpu::thread().saturating_sub(cpu_before),
            gave_up: self.gave_up,
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
        if let Source::Open(arriving) = &mut self.source {
            self.arrival = arriving.schedule.nth(arriving.offset as usize);
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
            // A client with so many requests to send would never be done without a connection.
            let counted = connection.client.budget > 0 && connection.client.budget != u64::MAX;
            if counted && connection.down.is_some_and(|since| now > since + self.give_up) {
                connection.client.budget = 0;
                self.gave_up = true;
            }
            let limit = self.request_timeout;
            if limit > Nanos::ZERO && connection.client.oldest().is_some_and(|sent| now > sent + limit) {
                self.lose(number, now, Loss::TimedOut);
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
        if let Some(due) = self.arrival
            && due < self.end
            && !self.idle.is_empty()
        {
            next = next.min(due);
        }
        if now < self.end { next.min(self.end) } else { next.min(self.end + self.drain) }
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
            return now >= self.end + self.drain
                || self.connections.iter().all(|one| one.client.in_flight() == 0);
        }
        let begun_all = match &self.source {
            Source::Closed(_) => self.connections.iter().all(|one| one.client.budget == 0),
            Source::Open(arriving) => arriving.budget == 0 || self.arrival.is_none(),
        };
        begun_all
            && self.connections.iter().all(|one| one.client.in_flight() == 0 && !one.client.has_follow_up())
    }

    /// Arrivals that were due before the end and never sent.
    fn unsent(&mut self, now: Stamp) -> u64 {
        let end = self.end.min(now);
        let Source::Open(arriving) = &mut self.source else { return 0 };
        let mut count = 0;
        while let Some(due) = self.arrival
            && due < end
            && arriving.budget > 0
        {
            count += 1;
            arriving.budget -= 1;
            self.arrival = arriving.after();
        }
        count
    }

    /// Sends every arrival that is due and finds a free slot.
    fn serve_arrivals(&mut self, now: Stamp) {
        while let Some(number) = self.issue_arrival(now) {
            self.flush(number);
        }
    }

    /// Writes the next arrival, if it is due, to the connection whose slot has been free for longest.
    fn issue_arrival(&mut self, now: Stamp) -> Option<usize> {
        let Source::Open(arriving) = &mut self.source else { return None };
        let due = self.arrival.filter(|&due| due <= now && due < self.end && arriving.budget > 0)?;
        let number = loop {
            let number = self.idle.pop_front()? as usize;
            let connection = &mut self.connections[number];
            connection.queued -= 1;
            // A slot may have been taken by a follow-up, or the connection be busy writing: then `serve` queues it again.
            if connection.client.free() > 0 && connection.client.outbox.is_empty() {
                break number;
            }
        };
        let mut shared = Shared {
            plan: &self.plan,
            account: &mut self.account,
            scratch: &mut self.scratch,
            verify: self.verify,
        };
        self.connections[number].client.issue(Some(due), now, &mut arriving.stream, &mut shared);
        arriving.budget -= 1;
        self.arrival = arriving.after();
        Some(number)
    }

    /// Sends what a client wants to send by now, as far as it may; what it cannot send yet is noted for later.
    fn serve(&mut self, number: usize, now: Stamp) {
        let connection = &mut self.connections[number];
        // Only when all has left is a request written: so `sent` stands before the write that carries its first byte.
        if !matches!(connection.link, Link::Up(_)) || !connection.client.outbox.is_empty() {
            return;
        }
        let mut shared = Shared {
            plan: &self.plan,
            account: &mut self.account,
            scratch: &mut self.scratch,
            verify: self.verify,
        };
        let client = &mut connection.client;
        match &mut self.source {
            Source::Closed(streams) => {
                while now < self.end
                    && (client.budget > 0 || client.has_follow_up())
                    && client.wants().is_some_and(|from| from <= now)
                {
                    client.issue(None, now, &mut streams[number], &mut shared);
                }
                if let Some(from) = client.wants()
                    && from < connection.alarm
                    && from > now
                {
                    connection.alarm = from;
                    self.alarms.push(Reverse((from, Alarm::Client(number as u32))));
                }
            }
            Source::Open(arriving) => {
                while now < self.end && client.has_follow_up() && client.free() > 0 {
                    client.issue(None, now, &mut arriving.stream, &mut shared);
                }
                let new = client.free().saturating_sub(connection.queued);
                connection.queued += new;
                self.idle.extend((0..new).map(|_| number as u32));
            }
        }
        self.flush(number);
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
                self.lose(number, now, Loss::ConnectionLost);
            }
        }
    }

    /// Something happened on a connection.
    fn turn(&mut self, number: usize, ready: &Ready) {
        let connection = &mut self.connections[number];
        match &mut connection.link {
            Link::Down => {}
            Link::Connecting { conn, .. } => {
                let connected = conn.connected();
                let now = self.clock.now();
                match connected {
                    Ok(true) => self.connected(number, now),
                    Ok(false) => {}
                    Err(error) => self.connect_failed(number, now, error),
                }
            }
            Link::Up(_) => {
                if ready.readable {
                    self.read(number, ready.closed);
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
        loop {
            let connection = &mut self.connections[number];
            let Link::Up(conn) = &mut connection.link else { return };
            let moved = conn.read(&mut self.room);
            let (count, now) = match moved {
                Moved::Some(count) => (count, self.clock.now()),
                Moved::None => return,
                Moved::Closed | Moved::Failed(_) => {
                    let now = self.clock.now();
                    return self.lose(number, now, Loss::ConnectionLost);
                }
            };
            let mut shared = Shared {
                plan: &self.plan,
                account: &mut self.account,
                scratch: &mut self.scratch,
                verify: self.verify,
            };
            let received = connection.client.receive(&self.room[..count], now, &mut shared);
            let Ok(settled) = received else { return self.lose(number, now, Loss::OutOfStep) };
            if settled > 0 {
                self.last = now;
                self.serve(number, now);
            }
            // A read that did not fill the room has emptied the socket, and what comes later is a new event; only an end that was
            // there with the bytes is not.
            if count < self.room.len() && !closed {
                return;
            }
        }
    }

    fn begin_to_connect(&mut self, number: usize, now: Stamp) {
        let address = self.connections[number].address;
        match Conn::connect(address, self.poll.registry(), Token(number)) {
            Ok(conn) => self.connections[number].link = Link::Connecting { conn, since: now },
            Err(error) => self.connect_failed(number, now, error),
        }
    }

    fn connected(&mut self, number: usize, now: Stamp) {
        let connection = &mut self.connections[number];
        let Link::Connecting { conn, .. } = std::mem::replace(&mut connection.link, Link::Down) else {
            return;
        };
        connection.link = Link::Up(conn);
        connection.pause = FIRST_PAUSE;
        connection.down = None;
        self.up += 1;
        self.alone = None;
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

    /// A connection that stood is no more.
    fn lose(&mut self, number: usize, now: Stamp, loss: Loss) {
        let connection = &mut self.connections[number];
        if connection.client.in_flight() > 0 {
            self.last = now;
        }
        connection.client.give_up(loss, now, &mut self.account);
        connection.queued = 0;
        self.idle.retain(|&one| one != number as u32);
        self.up -= 1;
        if self.running {
            self.account.roll(now);
            self.account.connection_lost();
        }
        self.retry_later(number, now);
    }

    fn retry_later(&mut self, number: usize, now: Stamp) {
        let connection = &mut self.connections[number];
        connection.link = Link::Down;
        connection.down.get_or_insert(now);
        let pause = connection.pause;
        connection.pause = Nanos((pause.0 * 2).min(LONGEST_PAUSE.0));
        self.alarms.push(Reverse((now + pause, Alarm::Connect(number as u32))));
        if self.up == 0 && self.running {
            self.alone.get_or_insert(now);
        }
    }
}

impl Arriving {
    /// When this thread's next request is due.
    fn after(&mut self) -> Option<Stamp> {
        self.schedule.nth(self.stride as usize - 1)
    }
}
