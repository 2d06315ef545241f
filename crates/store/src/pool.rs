//! The queue before the database connections, and the connections that take from it.
//!
//! ```text
//!                    ┌─ queue ─▶ connection ─▶ BEGIN, statement, COMMIT ─┐
//!  loop ── queries ──▶┤   ⋮                                               ├─▶ answers ── loop
//!                    └─ queue ─▶ connection ─────────────────────────────┘
//! ```
//!
//! **direct**: one queue before C connections; each takes one request, for one statement.
//! **batch**: a queue for each class of queries and one connection for each queue; it takes all
//! that wait of the kind of the first. There is no timer: the next batch is what has come while the
//! last was at the database. One thread moves all of it.

use krarup_units::{Mistake, Nanos, Stamp};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::pending;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::future::{Either, select};
use krarup_net::Clock;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::postgres::low_water::LowWaterMarks;
use crate::postgres::session::{Clearing, CommitMarker, DatabaseSession, Known, RefusedUntil, Trouble};
use crate::postgres::{Database, Sharing, StoreError};
use krarup_broker::changes::MOST_BODIES;
use krarup_broker::database::{DatabaseReply, DatabaseRequest, QueuedRequest, RequestTimes, StatementKind};

/// Requests that share a statement at most.
pub const MOST_TOGETHER: usize = 512;
/// How soon to try again what failed, at first and at most; the time doubles in between.
const RETRY_AFTER: Duration = Duration::from_millis(100);
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(1);
/// How long a session of the sweeps stands at most while nothing is written. Brokers that write
/// again take for dead those that have not swept for 1.5 s.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// How long its own last requests may keep a broker from ending.
const END_AT_MOST: Duration = Duration::from_secs(2);
/// How often it is asked at once what became of a transaction, before that is left to a task of its
/// own.
const TRIES: u32 = 3;
/// How often a request that may be too long by itself is tried, where the database cancels it each
/// time.
const CANCELLED_AT_MOST: u32 = 2;

/// No stamp: the database owes no answer.
const NEVER: u64 = u64::MAX;

/// How the database is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionPoolSettings {
    /// Whether waiting queries share a statement; then there is one connection for each class of
    /// queries.
    pub gathers: bool,
    /// Connections, where they do not.
    pub connections: u32,
    /// How long a key of `put-unique` is remembered.
    pub remember_keys: Duration,
}

/// What the thread tells.
#[derive(Debug)]
pub enum PoolEvent {
    /// What came of queries.
    Answered(Vec<(u64, DatabaseReply)>, RequestTimes),
    /// The database refused something that it may take another time, and why.
    Refused(String),
    /// It takes again what it refused.
    Takes,
    /// The database is out of reach, and why; told once until it is back.
    Lost(String),
    /// It answers again.
    Back,
    /// A broker owns the queues now.
    Deposed,
}

/// The loop's end of the thread.
#[derive(Debug)]
pub struct ConnectionPool {
    queries: Option<UnboundedSender<Vec<QueuedRequest>>>,
    news: Receiver<PoolEvent>,
    owed_since: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl ConnectionPool {
    /// Begins to take queries; `wake` is called whenever there are news.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin(
        sharing: Sharing,
        settings: ConnectionPoolSettings,
        clock: Clock,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, Mistake> {
        let (queries, received) = unbounded_channel();
        let (tell, news) = mpsc::channel();
        let owed_since = Arc::new(AtomicU64::new(NEVER));
        let sender = EventSender { tell, wake: Box::new(wake), owed_since: Arc::clone(&owed_since) };
        let thread = thread::Builder::new()
            .name("pool".into())
            .spawn(move || work(sharing, settings, clock, sender, received))
            .map_err(|error| format!("no thread can be had: {error}"))?;
        Ok(Self { queries: Some(queries), news, owed_since, thread: Some(thread) })
    }

    /// Carries these out, in any order.
    pub fn ask(&self, queries: Vec<QueuedRequest>) {
        if let Some(sender) = &self.queries {
            // A thread that is no more has said why.
            let _ = sender.send(queries);
        }
    }

    /// The next news, if there are any.
    pub fn news(&self) -> Option<PoolEvent> {
        self.news.try_recv().ok()
    }

    /// Since when the database, which has been asked something, has answered no connection; none:
    /// it owes no answer. One statement may take long where others are answered, as the sweeps are
    /// four times a second.
    pub fn owes_since(&self) -> Option<Stamp> {
        let since = self.owed_since.load(Ordering::Relaxed);
        (since != NEVER).then_some(Stamp(since))
    }

    /// Ends the thread; where nothing is left to be done, its connections are closed in order.
    pub fn end(mut self, nothing_left: bool) {
        self.queries = None;
        if let Some(thread) = self.thread.take()
            && nothing_left
        {
            let _ = thread.join();
        }
    }
}

struct EventSender {
    tell: Sender<PoolEvent>,
    wake: Box<dyn Fn() + Send>,
    owed_since: Arc<AtomicU64>,
}

/// What the connections share.
struct PoolState {
    settings: ConnectionPoolSettings,
    sharing_number: i64,
    place: Database,
    clock: Clock,
    sender: EventSender,
    queues: Vec<RequestQueue>,
    busy: Cell<u32>,
    /// Statements that the database has not answered.
    statements: Cell<u32>,
    /// Requests in all queues and with all connections.
    open: Cell<usize>,
    over: Notify,
    ending: Cell<bool>,
    /// There is an owner now.
    deposed: Notify,
    is_deposed: Cell<bool>,
    next_serial: Cell<i64>,
    /// Transactions whose end is not known.
    serials: RefCell<BTreeSet<i64>>,
    /// Below this serial the present session of the sweeps has cleared away the rows of
    /// transactions.
    cleared: Cell<i64>,
    marks: Rc<RefCell<LowWaterMarks>>,
    /// Of the database's log, as the last session has found it.
    timeline: Rc<RefCell<Option<String>>>,
    lost: Cell<bool>,
    /// When that was last told.
    lost_at: Cell<Option<Instant>>,
    /// What the database refuses for now: of which kinds, and whether because it writes nothing at
    /// all.
    refused: RefCell<BTreeMap<StatementKind, bool>>,
    /// Kinds that are not asked until then, and for how long they were kept back.
    held: RefCell<BTreeMap<StatementKind, Attempts>>,
    /// Sessions that began no later than this are had anew.
    outdated: Cell<Option<Instant>>,
}

/// A transaction that broke at its end: it is not known whether it was committed.
struct Unknown {
    marker: CommitMarker,
    /// The session that it was in.
    session: Known,
    /// Its answers, if they were heard.
    replies: Option<Vec<DatabaseReply>>,
}

#[derive(Default)]
struct RequestQueue {
    waiting: RefCell<VecDeque<QueuedRequest>>,
    come: Notify,
    /// Those of its connections.
    sessions: RefCell<Vec<Weak<DatabaseSession>>>,
    attempts: RefCell<Attempts>,
}

impl RequestQueue {
    /// Until when its connections do not try to have a session; none: one may try now.
    fn rest(&self) -> Option<Instant> {
        self.attempts.borrow().rest(Instant::now())
    }

    /// Whether one of its connections may try now to have a session.
    fn begins_attempt(&self) -> bool {
        self.attempts.borrow_mut().begin(Instant::now())
    }
}

/// Attempts at what failed, to have a session or to write: after one that failed, one at a time,
/// each after a longer pause.
struct Attempts {
    /// None: the last one succeeded.
    not_before: Option<Instant>,
    pauses: Backoff,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { not_before: None, pauses: backoff() }
    }
}

impl Attempts {
    /// Until when there is no attempt; none: there may be one now.
    fn rest(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|until| *until > now)
    }

    /// Whether there may be one now; where the last one failed the next is later. One that failed
    /// long before is forgotten: since then nothing has waited for it.
    fn begin(&mut self, now: Instant) -> bool {
        if self.not_before.is_some_and(|until| until + RETRY_AFTER_AT_MOST < now) {
            *self = Self::default();
        }
        let may_begin = self.rest(now).is_none();
        if may_begin && self.not_before.is_some() {
            self.put_off(now);
        }
        may_begin
    }

    /// Until when this puts off the next one; none: others that began before have failed as well.
    fn failed(&mut self, now: Instant) -> Option<Instant> {
        self.rest(now).is_none().then(|| self.put_off(now))
    }

    fn put_off(&mut self, now: Instant) -> Instant {
        let until = now + self.pauses.pause();
        self.not_before = Some(until);
        until
    }
}

/// The queues are not shared any more: there is an owner.
struct Over;

fn work(
    sharing: Sharing,
    settings: ConnectionPoolSettings,
    clock: Clock,
    sender: EventSender,
    mut queries: UnboundedReceiver<Vec<QueuedRequest>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return sender.say(PoolEvent::Lost(format!("no runtime can be had: {error}"))),
    };
    let Sharing { place, number, first } = sharing;
    let state = Rc::new(PoolState::new(settings, number, place, clock, sender));
    LocalSet::new().block_on(&runtime, async {
        for queue in 0..state.queues.len() {
            for number in 0..state.connections(queue) {
                // The first queue is that of the sweeps, for which no client waits.
                let connection = if settings.gathers { queue.saturating_sub(1) as u32 } else { number };
                let state = Rc::clone(&state);
                tokio::task::spawn_local(async move { state.serve(queue, connection as u16).await });
            }
        }
        loop {
            let received = pin!(queries.recv());
            let deposed = pin!(state.deposed.notified());
            match select(received, deposed).await {
                Either::Left((Some(some), _)) => state.take_in(some),
                Either::Left((None, _)) => break,
                // All connections end here and now: what they held must not stand in the way of who
                // comes next.
                Either::Right(_) => return,
            }
        }
        state.ending.set(true);
        let rest = async {
            while state.open.get() > 0 && !state.is_deposed.get() {
                state.over.notified().await;
            }
        };
        // A database that does not answer is not waited for: what is left is the broker's own.
        let _ = tokio::time::timeout(END_AT_MOST, rest).await;
    });
    // A name server that does not answer is not waited for either: a thread of the runtime may
    // still ask it for the database's address.
    runtime.shutdown_background();
    // It also held the lock while the connections came.
    drop(first);
}

impl EventSender {
    fn say(&self, news: PoolEvent) {
        // It is not received any more: the loop has ended.
        let _ = self.tell.send(news);
        (self.wake)();
    }
}

impl PoolState {
    fn new(
        settings: ConnectionPoolSettings,
        sharing_number: i64,
        place: Database,
        clock: Clock,
        sender: EventSender,
    ) -> Self {
        let queues = if settings.gathers { QUEUES } else { 2 };
        Self {
            settings,
            sharing_number,
            place,
            clock,
            sender,
            queues: (0..queues).map(|_| RequestQueue::default()).collect(),
            busy: Cell::new(0),
            statements: Cell::new(0),
            open: Cell::new(0),
            over: Notify::new(),
            ending: Cell::new(false),
            deposed: Notify::new(),
            is_deposed: Cell::new(false),
            next_serial: Cell::new(1),
            serials: RefCell::default(),
            cleared: Cell::new(0),
            marks: Rc::default(),
            timeline: Rc::default(),
            lost: Cell::new(false),
            lost_at: Cell::new(None),
            refused: RefCell::default(),
            held: RefCell::default(),
            outdated: Cell::new(None),
        }
    }

    /// In which queue a request waits; the first is that of the sweeps, which wait for no client.
    fn queue(&self, kind: StatementKind) -> usize {
        match kind {
            StatementKind::Sweep => 0,
            _ if !self.settings.gathers => 1,
            StatementKind::Put | StatementKind::Send => 1,
            StatementKind::Take => 2,
            StatementKind::Finish | StatementKind::Move => 3,
            StatementKind::Look | StatementKind::List | StatementKind::Once => 4,
        }
    }

    fn connections(&self, queue: usize) -> u32 {
        if queue == 0 || self.settings.gathers { 1 } else { self.settings.connections }
    }

    fn take_in(&self, queries: Vec<QueuedRequest>) {
        self.open.set(self.open.get() + queries.len());
        for asked in queries {
            let queue = &self.queues[self.queue(asked.query.kind())];
            queue.waiting.borrow_mut().push_back(asked);
            queue.come.notify_one();
        }
    }

    /// What one connection does all its life.
    async fn serve(self: Rc<Self>, queue: usize, connection: u16) {
        // Where there is none to be had it is looked for when it is needed.
        let mut session = self.connect(queue).await.ok();
        loop {
            let (asked, mut way) = self.next(queue, session.is_some()).await;
            way.connection = connection;
            let count = asked.len();
            let done = self.carry_out(&mut session, asked, &mut way).await;
            self.busy.set(self.busy.get() - 1);
            match done {
                Ok(later) => {
                    self.answered(count - later.len());
                    self.put_back(later);
                }
                Err(Over) => {
                    self.depose();
                    pending::<()>().await;
                }
            }
        }
    }

    /// So many queries are no longer open.
    fn answered(&self, count: usize) {
        self.open.set(self.open.get() - count);
        if self.ending.get() {
            self.over.notify_one();
        }
    }

    /// Nothing is answered any more.
    fn depose(&self) {
        self.sender.say(PoolEvent::Deposed);
        self.is_deposed.set(true);
        self.deposed.notify_one();
        self.over.notify_one();
    }

    /// Requests that were taken wait again, before those that came later.
    fn put_back(&self, mut later: Vec<QueuedRequest>) {
        let Some(first) = later.first_mut() else { return };
        // What it joined has been answered.
        first.joins = false;
        let queue = &self.queues[self.queue(first.query.kind())];
        for asked in later.into_iter().rev() {
            queue.waiting.borrow_mut().push_front(asked);
        }
        queue.come.notify_one();
    }

    /// The next queries of a queue, when there are some. As long as no session can be had they are
    /// for connections that have one.
    async fn next(&self, queue: usize, has_session: bool) -> (Vec<QueuedRequest>, RequestTimes) {
        let queue = &self.queues[queue];
        let rest = || if has_session { None } else { queue.rest() };
        loop {
            while let Some(until) = rest() {
                tokio::time::sleep_until(until).await;
            }
            if let Some(next) = self.take(queue) {
                return next;
            }
            queue.come.notified().await;
            // What has come is for others.
            if rest().is_some() {
                queue.come.notify_one();
            }
        }
    }

    fn take(&self, queue: &RequestQueue) -> Option<(Vec<QueuedRequest>, RequestTimes)> {
        let mut waiting = queue.waiting.borrow_mut();
        let place = waiting.iter().position(|asked| !self.is_held(&asked.query))?;
        let first = waiting.remove(place)?;
        let kind = first.query.kind();
        let mut shared = SharedStatement::of(first, MOST_BODIES);
        if !self.settings.gathers {
            shared.join(&mut waiting, place, kind);
        } else if !matches!(kind, StatementKind::Once | StatementKind::Sweep) {
            shared.gather(&mut waiting, kind);
        }
        let some = shared.requests;
        self.busy.set(self.busy.get() + 1);
        let way = RequestTimes {
            taken: self.clock.now(),
            busy: self.busy.get(),
            left: waiting.len() as u32,
            ..RequestTimes::default()
        };
        Some((some, way))
    }

    /// Remembers that the database is there, and what it has just done.
    fn committed(&self, query: &DatabaseRequest, clearing: Clearing) {
        if matches!(query, DatabaseRequest::Sweep(_)) {
            self.cleared.set(clearing.to);
        }
        self.is_back();
        self.takes(query);
    }

    /// Remembers why the database refused a request that writes; whether it is not to be tried
    /// again. A sweep is no client's: whatever it is refused for is not a request's fault.
    fn is_final(&self, query: &DatabaseRequest, why: &str, until: RefusedUntil, cancelled: u32) -> bool {
        let may_be_long =
            matches!(query.kind(), StatementKind::Look | StatementKind::List | StatementKind::Once);
        if until == RefusedUntil::TooLong && may_be_long {
            // It is refused alone: others of its kind, which wait for this connection, are not.
            return cancelled >= CANCELLED_AT_MOST;
        }
        let sweeps = matches!(query, DatabaseRequest::Sweep(_));
        if (until != RefusedUntil::Never || sweeps) && query.writes() {
            self.refuse(query.kind(), why, until);
        }
        sweeps
            || matches!(query, DatabaseRequest::New(_))
            || matches!(until, RefusedUntil::Never | RefusedUntil::Repaired)
    }

    /// What comes before queries of one kind are sent, for the first time or anew: an attempt to
    /// connect where there is no session, and after a while only what is still wanted stays.
    async fn begin_round(
        &self,
        queue: usize,
        session: &mut Option<Rc<DatabaseSession>>,
        asked: &mut Vec<QueuedRequest>,
        begun: Instant,
    ) -> Result<(), Over> {
        if session.is_none() && self.queues[queue].begins_attempt() {
            *session = self.try_to_connect(queue, asked).await?;
        }
        // A client that has ended its side is owed what it asked for just now.
        if begun.elapsed() >= RETRY_AFTER_AT_MOST {
            self.drop_unwanted(queue, asked);
        }
        Ok(())
    }

    /// Carries out queries of one kind until the answers are known, and tells them; those that come
    /// back are to be tried again later.
    async fn carry_out(
        self: &Rc<Self>,
        session: &mut Option<Rc<DatabaseSession>>,
        mut asked: Vec<QueuedRequest>,
        way: &mut RequestTimes,
    ) -> Result<Vec<QueuedRequest>, Over> {
        let queue = self.queue(asked[0].query.kind());
        let mut unknown: Option<Unknown> = None;
        let (begun, mut pauses, mut tries, mut cancelled) = (Instant::now(), backoff(), 0, 0);
        loop {
            self.drop_closed(session, queue);
            if unknown.is_none() {
                self.begin_round(queue, session, &mut asked, begun).await?;
            } else if session.is_none() {
                *session = Some(self.reconnect(queue).await?);
            }
            // Another connection may have a session.
            let Some(open) = session.as_ref().filter(|_| !asked.is_empty()) else { return Ok(asked) };
            if let Some(one) = unknown.take() {
                match self.settle(open, &asked, &one).await {
                    Ok(Some(Some(replies))) => {
                        self.answer(&asked, replies, way);
                        return Ok(Vec::new());
                    }
                    Ok(Some(None)) => {}
                    Ok(None) | Err(Trouble::Refused { .. }) if tries == TRIES => {
                        self.leave_to_a_task(asked, one, *way);
                        return Ok(Vec::new());
                    }
                    tried => {
                        unknown = Some(one);
                        if let Err(Trouble::Broken(_) | Trouble::Unknown(_)) = tried {
                            *session = None;
                        } else {
                            tries += 1;
                            tokio::time::sleep(RETRY_AFTER).await;
                        }
                    }
                }
                continue;
            }
            let marker = self.marker();
            (way.sent, way.together) = (self.clock.now(), asked.len() as u32);
            let clearing = self.clearing();
            self.asks();
            let received = open.carry_out(&asked, marker, self.settings.remember_keys, clearing).await;
            self.is_answered(self.clock.now());
            match received {
                Ok(replies) => {
                    self.done(marker);
                    self.committed(&asked[0].query, clearing);
                    self.answer(&asked, replies, way);
                    return Ok(Vec::new());
                }
                Err(Trouble::Broken(why)) => {
                    self.done(marker);
                    self.lose(&why, Some(open.since()));
                    *session = None;
                }
                Err(Trouble::Unknown(replies)) => {
                    self.lose("the connection broke during a commit", Some(open.since()));
                    unknown = Some(Unknown { marker, session: open.known(), replies });
                    *session = None;
                }
                // It took so long that the next round drops what is not wanted any more.
                Err(Trouble::Unwanted) => self.done(marker),
                // Where nothing is written that is so of each of them.
                Err(Trouble::Refused { until, .. }) if asked.len() > 1 && until != RefusedUntil::Writes => {
                    self.done(marker);
                    self.is_back();
                    return self.carry_out_each(session, asked, way).await;
                }
                Err(Trouble::Refused { why, until }) => {
                    self.done(marker);
                    self.is_back();
                    cancelled += u32::from(until == RefusedUntil::TooLong);
                    if self.is_final(&asked[0].query, &why, until, cancelled) {
                        self.answer(&asked, vec![DatabaseReply::Failed(why); asked.len()], way);
                        return Ok(Vec::new());
                    }
                    if !matches!(until, RefusedUntil::TryLater | RefusedUntil::TooLong) {
                        // Meanwhile this connection is for others.
                        return Ok(self.wait_for_room(asked));
                    }
                    tokio::time::sleep(pauses.pause()).await;
                }
            }
        }
    }

    /// A statement goes to the database.
    fn asks(&self) {
        if self.statements.replace(self.statements.get() + 1) == 0 {
            self.sender.owed_since.store(self.clock.now().0, Ordering::Relaxed);
        }
    }

    /// One has come back: the others are owed from now on. Where the database has answered nothing
    /// for long, what has waited meanwhile is only asked where it is still wanted.
    fn is_answered(&self, now: Stamp) {
        let left = self.statements.get() - 1;
        self.statements.set(left);
        let since = if left == 0 { NEVER } else { now.0 };
        let before = self.sender.owed_since.swap(since, Ordering::Relaxed);
        if Nanos(now.0.saturating_sub(before)) >= Nanos::from(RETRY_AFTER_AT_MOST) {
            (0..self.queues.len()).for_each(|queue| self.drop_unwanted(queue, &mut Vec::new()));
        }
    }

    /// A session that ended before anything is sent leaves nothing unknown; nor does one that is to
    /// be had anew.
    fn drop_closed(&self, session: &mut Option<Rc<DatabaseSession>>, queue: usize) {
        if let Some(open) = session.take_if(|open| open.is_closed()) {
            self.lose("the connection has ended", Some(open.since()));
        }
        // Where nothing is written a name, or a setting that sessions keep, may have moved on: the
        // sweeps find out, for which no client waits.
        let looks = queue == 0 && self.refused.borrow().values().any(|only_reads| *only_reads);
        session.take_if(|open| self.is_outdated(open) || (looks && open.since().elapsed() >= LOOK_AFTER));
    }

    /// The same, each for itself: one of them spoils their statement.
    async fn carry_out_each(
        self: &Rc<Self>,
        session: &mut Option<Rc<DatabaseSession>>,
        asked: Vec<QueuedRequest>,
        way: &mut RequestTimes,
    ) -> Result<Vec<QueuedRequest>, Over> {
        let mut later = Vec::new();
        for one in asked {
            // One that broke meanwhile cannot be had again now, nor for the next.
            if session.is_none() {
                later.push(one);
            } else {
                later.extend(Box::pin(self.carry_out(session, vec![one], way)).await?);
            }
        }
        Ok(later)
    }

    /// Until there is room nothing of a kind that writes is carried out: those that come back wait
    /// with the others. What only reads is never held back as a kind, and waits by itself.
    fn wait_for_room(self: &Rc<Self>, asked: Vec<QueuedRequest>) -> Vec<QueuedRequest> {
        if asked[0].query.writes() {
            self.hold(asked[0].query.kind());
            return asked;
        }
        self.open.set(self.open.get() + asked.len());
        tokio::task::spawn_local(Rc::clone(self).read_later(asked));
        Vec::new()
    }

    /// They wait again behind what has come meanwhile. At the end it is the broker's own, and
    /// nothing waits for its answer.
    async fn read_later(self: Rc<Self>, mut asked: Vec<QueuedRequest>) {
        tokio::time::sleep(RETRY_AFTER_AT_MOST).await;
        if self.ending.get() {
            return self.answered(asked.len());
        }
        // What it joined has been answered.
        asked[0].joins = false;
        self.open.set(self.open.get() - asked.len());
        self.take_in(asked);
    }

    /// What became of a transaction is found out by a task of its own: the requests stay open, and
    /// this connection has done with them.
    fn leave_to_a_task(self: &Rc<Self>, asked: Vec<QueuedRequest>, unknown: Unknown, way: RequestTimes) {
        self.open.set(self.open.get() + asked.len());
        tokio::task::spawn_local(Rc::clone(self).find_out(asked, unknown, way));
    }

    /// What became of a transaction: its answers if it was committed; none: it cannot be known yet.
    async fn settle(
        &self,
        open: &DatabaseSession,
        asked: &[QueuedRequest],
        one: &Unknown,
    ) -> Result<Option<Option<Vec<DatabaseReply>>>, Trouble> {
        let received = match (open.was_committed(one.marker, one.session).await?, &one.replies) {
            (None, _) => return Ok(None),
            (Some(false), _) => None,
            (Some(true), Some(replies)) => Some(replies.clone()),
            (Some(true), None) => Some(open.replies(asked, one.marker).await?),
        };
        self.is_back();
        self.done(one.marker);
        Ok(Some(received))
    }

    /// Asks what became of a transaction for as long as it takes; where it was not committed its
    /// queries are carried out anew.
    async fn find_out(self: Rc<Self>, asked: Vec<QueuedRequest>, one: Unknown, mut way: RequestTimes) {
        let (queue, mut pauses) = (self.queue(asked[0].query.kind()), backoff());
        loop {
            let Ok(session) = self.reconnect(queue).await else { return self.depose() };
            if let Ok(Some(received)) = self.settle(&session, &asked, &one).await {
                match received {
                    Some(replies) => {
                        self.answer(&asked, replies, &mut way);
                        self.answered(asked.len());
                    }
                    None => self.put_back(asked),
                }
                return;
            }
            tokio::time::sleep(pauses.pause()).await;
        }
    }

    // ---- what the database refuses --------------------------------------------------------------

    /// Whether this one is kept back now. What only reads never is.
    fn is_held(&self, query: &DatabaseRequest) -> bool {
        let held = self.held.borrow();
        let attempts = held.get(&query.kind()).filter(|_| query.writes());
        attempts.is_some_and(|attempts| attempts.rest(Instant::now()).is_some())
    }

    /// Keeps a kind back, each time for longer.
    fn hold(self: &Rc<Self>, kind: StatementKind) {
        let put_off = self.held.borrow_mut().entry(kind).or_default().failed(Instant::now());
        let Some(until) = put_off else { return };
        let state = Rc::clone(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep_until(until).await;
            state.go_on(kind);
        });
    }

    /// Connections look again for what there is to do.
    fn go_on(&self, kind: StatementKind) {
        if kind == StatementKind::Take {
            self.drop_unwanted(self.queue(kind), &mut Vec::new());
        }
        let queue = &self.queues[self.queue(kind)];
        queue.come.notify_waiters();
        queue.come.notify_one();
    }

    fn refuse(&self, kind: StatementKind, why: &str, until: RefusedUntil) {
        self.refused.borrow_mut().insert(kind, until == RefusedUntil::Writes);
        self.sender.say(PoolEvent::Refused(why.to_owned()));
    }

    /// It has done this: also others of the kind are done again, and where it writes at all none is
    /// refused for that reason.
    fn takes(&self, query: &DatabaseRequest) {
        let kind = query.kind();
        if !query.writes() {
            return;
        }
        if self.held.borrow_mut().remove(&kind).is_some() {
            self.go_on(kind);
        }
        let mut refused = self.refused.borrow_mut();
        if refused.is_empty() {
            return;
        }
        if refused.values().any(|only_reads| *only_reads) {
            // Others may have begun while nothing was written, or where it is not written any more.
            self.have_all_anew();
        }
        refused.retain(|other, only_reads| *other != kind && !*only_reads);
        if refused.is_empty() {
            self.sender.say(PoolEvent::Takes);
        }
    }

    /// What has waited in a queue while nothing was done for it, and what one of its connections
    /// has taken and not sent, or undone, is not asked where the client has gone that would take
    /// something.
    fn drop_unwanted(&self, queue: usize, taken: &mut Vec<QueuedRequest>) {
        let mut dropped = Vec::new();
        let mut stays = |asked: &QueuedRequest| {
            let is_wanted = asked.is_wanted();
            if !is_wanted {
                dropped.push((asked.number, DatabaseReply::NotAsked));
            }
            is_wanted
        };
        let mut waiting = self.queues[queue].waiting.borrow_mut();
        let before = waiting.len();
        waiting.retain(&mut stays);
        // Those that are taken its connection counts.
        self.answered(before - waiting.len());
        taken.retain(&mut stays);
        if !dropped.is_empty() {
            let (busy, left) = (self.busy.get(), waiting.len() as u32);
            let way = RequestTimes { busy, left, ..RequestTimes::default() };
            self.sender.say(PoolEvent::Answered(dropped, way));
        }
    }

    fn answer(&self, asked: &[QueuedRequest], replies: Vec<DatabaseReply>, way: &mut RequestTimes) {
        way.answered = self.clock.now();
        let answers = asked.iter().map(|one| one.number).zip(replies).collect();
        self.sender.say(PoolEvent::Answered(answers, *way));
    }

    // ---- transactions ---------------------------------------------------------------------------

    fn marker(&self) -> CommitMarker {
        let serial = self.next_serial.replace(self.next_serial.get() + 1);
        self.serials.borrow_mut().insert(serial);
        CommitMarker { broker: self.sharing_number, serial }
    }

    fn done(&self, marker: CommitMarker) {
        self.serials.borrow_mut().remove(&marker.serial);
    }

    /// Which rows of transactions can go: all below the oldest whose end is not known.
    fn clearing(&self) -> Clearing {
        let to = self.serials.borrow().first().copied().unwrap_or(self.next_serial.get());
        Clearing { from: self.cleared.get(), to }
    }

    // ---- connections ----------------------------------------------------------------------------

    async fn connect(&self, queue: usize) -> Result<Rc<DatabaseSession>, StoreError> {
        let (marks, timeline) = (Rc::clone(&self.marks), Rc::clone(&self.timeline));
        let session = DatabaseSession::connect(&self.place, self.sharing_number, marks, timeline).await?;
        let session = Rc::new(session);
        if queue == 0 {
            // A server that has become the primary may not have heard of the last sweeps: what they
            // have cleared away is there.
            self.cleared.set(0);
        }
        let mut sessions = self.queues[queue].sessions.borrow_mut();
        sessions.retain(|one| one.strong_count() > 0);
        sessions.push(Rc::downgrade(&session));
        Ok(session)
    }

    /// A session for a queue; none: it cannot be had now. Of the queue, and of what was taken from
    /// it for this session, goes what is not wanted any more, where no connection served it and an
    /// attempt has failed.
    async fn try_to_connect(
        &self,
        queue: usize,
        taken: &mut Vec<QueuedRequest>,
    ) -> Result<Option<Rc<DatabaseSession>>, Over> {
        let was_served = self.is_served(queue);
        let connected = self.connect(queue).await;
        let mut attempts = self.queues[queue].attempts.borrow_mut();
        match connected {
            Ok(session) => {
                let failed_before = std::mem::take(&mut *attempts).not_before.is_some();
                if failed_before && !was_served {
                    self.drop_unwanted(queue, taken);
                }
                Ok(Some(session))
            }
            Err(StoreError::Deposed) => Err(Over),
            Err(problem) => {
                attempts.failed(Instant::now());
                // Where others have one, the database is there and has no more for this broker.
                if !self.is_served(queue) {
                    self.lose(&problem.to_string(), None);
                    self.drop_unwanted(queue, taken);
                }
                Ok(None)
            }
        }
    }

    /// From now on each session gives way to a new one when it is used next: what they read, too,
    /// is of where it is written.
    fn have_all_anew(&self) {
        self.outdated.set(Some(Instant::now()));
    }

    fn is_outdated(&self, session: &DatabaseSession) -> bool {
        self.outdated.get().is_some_and(|last| session.since() <= last)
    }

    async fn reconnect(&self, queue: usize) -> Result<Rc<DatabaseSession>, Over> {
        let mut pauses = backoff();
        loop {
            if let Some(session) = self.try_to_connect(queue, &mut Vec::new()).await? {
                return Ok(session);
            }
            tokio::time::sleep(pauses.pause()).await;
        }
    }

    /// Whether a connection of this queue has a session that has not ended; for sweeps, one of any
    /// queue. One that is not used does not notice its end by itself.
    fn is_served(&self, queue: usize) -> bool {
        let stands = |one: &Weak<DatabaseSession>| {
            one.upgrade().is_some_and(|one| !one.is_closed() && !self.is_outdated(&one))
        };
        let has_session = |queue: &RequestQueue| queue.sessions.borrow().iter().any(stands);
        if queue == 0 { self.queues.iter().any(has_session) } else { has_session(&self.queues[queue]) }
    }

    /// The database is out of reach: a connection cannot be had, or broke that was had then.
    fn lose(&self, why: &str, since: Option<Instant>) {
        // What breaks all connections is noticed by each when it is used. That is no news where
        // others have been had again meanwhile.
        let known = since.is_some_and(|since| self.lost_at.get().is_some_and(|lost| since <= lost));
        if !known && !self.lost.replace(true) {
            self.lost_at.set(Some(Instant::now()));
            self.sender.say(PoolEvent::Lost(why.to_owned()));
        }
    }

    /// It answers: a connection alone would not tell that it does.
    fn is_back(&self) {
        if self.lost.replace(false) {
            self.sender.say(PoolEvent::Back);
        }
    }
}

/// How long to wait before each further attempt.
const fn backoff() -> Backoff {
    Backoff::new(RETRY_AFTER, RETRY_AFTER_AT_MOST)
}

/// What each of the connections carries where waiting requests share a statement.
pub const KINDS: [&str; 4] =
    ["PostgreSQL: puts", "PostgreSQL: takes", "PostgreSQL: deletes and releases", "PostgreSQL: looks"];

/// Those, and that of the sweeps.
const QUEUES: usize = 1 + KINDS.len();

/// Requests that share a statement.
struct SharedStatement {
    requests: Vec<QueuedRequest>,
    /// Bytes of the messages that they put, and how many those may be.
    bodies: usize,
    most_bodies: usize,
}

impl SharedStatement {
    /// The first is among them, however long it is.
    fn of(first: QueuedRequest, most_bodies: usize) -> Self {
        Self { bodies: body_length(&first), most_bodies, requests: vec![first] }
    }

    fn has_room(&self, next: &QueuedRequest) -> bool {
        self.bodies + body_length(next) <= self.most_bodies
    }

    fn may_gather(&self, next: &QueuedRequest) -> bool {
        self.requests.len() < MOST_TOGETHER && self.has_room(next)
    }

    fn add(&mut self, next: Option<QueuedRequest>) {
        self.bodies += next.as_ref().map_or(0, body_length);
        self.requests.extend(next);
    }

    /// Takes those at this place of a queue that belong to the same request of a client: however
    /// many, they keep their order.
    fn join(&mut self, waiting: &mut VecDeque<QueuedRequest>, place: usize, kind: StatementKind) {
        let joins = |next: &&QueuedRequest| next.joins && next.query.kind() == kind;
        while waiting.get(place).filter(joins).is_some_and(|next| self.has_room(next)) {
            self.add(waiting.remove(place));
        }
    }

    /// Takes all of a kind out of a queue, as long as there is room, none before another of its
    /// kind. No client has queries of two kinds, so that none is overtaken by its own.
    fn gather(&mut self, waiting: &mut VecDeque<QueuedRequest>, kind: StatementKind) {
        while waiting.front().is_some_and(|next| next.query.kind() == kind && self.may_gather(next)) {
            self.add(waiting.pop_front());
        }
        let stops = waiting.front().is_none_or(|next| next.query.kind() == kind);
        if stops || self.requests.len() >= MOST_TOGETHER {
            return;
        }
        let mut full = false;
        for asked in std::mem::take(waiting) {
            full |= asked.query.kind() == kind && !self.may_gather(&asked);
            if !full && asked.query.kind() == kind {
                self.add(Some(asked));
            } else {
                waiting.push_back(asked);
            }
        }
    }
}

/// Of the message that a request puts.
fn body_length(asked: &QueuedRequest) -> usize {
    if let DatabaseRequest::New(new) = &asked.query { new.body.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use krarup_broker::database::{MessageSelector, NewMessage};

    use super::*;
    use crate::postgres::ProcessEnvironment;

    fn put(number: u64, length: usize, strict: bool) -> QueuedRequest {
        let new = NewMessage {
            tube: "jobs".into(),
            sender: None,
            receiver: None,
            key: None,
            strict,
            priority: 1,
            delay: 0,
            ttr: 60,
            flags: 0,
            lives: None,
            body: vec![0; length].into(),
        };
        QueuedRequest { number, query: DatabaseRequest::New(new), joins: false, client: None }
    }

    fn take(number: u64, client: &Arc<()>) -> QueuedRequest {
        let which = MessageSelector::Tubes(vec!["jobs".into()]);
        let query = DatabaseRequest::Take { which, client: None, taker: 1, most: 1, pops: true };
        QueuedRequest { number, query, joins: false, client: Some(Arc::downgrade(client)) }
    }

    /// Its database is out of reach.
    fn state() -> (Rc<PoolState>, Receiver<PoolEvent>) {
        let address = "host=/nowhere user=krarup dbname=queues";
        let place = Database::parse(address, &ProcessEnvironment::default()).unwrap();
        let (tell, news) = mpsc::channel();
        let sender = EventSender { tell, wake: Box::new(|| {}), owed_since: Arc::default() };
        let settings =
            ConnectionPoolSettings { gathers: false, connections: 1, remember_keys: Duration::ZERO };
        (Rc::new(PoolState::new(settings, 1, place, Clock::start(), sender)), news)
    }

    /// What was answered first.
    fn first_answers(news: &Receiver<PoolEvent>) -> Option<Vec<(u64, DatabaseReply)>> {
        news.try_iter().find_map(|event| match event {
            PoolEvent::Answered(answers, _) => Some(answers),
            _ => None,
        })
    }

    #[test]
    fn what_clients_that_have_gone_would_take_is_not_kept_while_the_database_is_out_of_reach() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (state, news) = state();
        let [here, gone] = [(); 2].map(Arc::new);
        state.take_in(vec![take(1, &gone), take(2, &here), take(3, &gone), put(4, 1, false)]);
        let (taken, mut way) = state.take(&state.queues[1]).unwrap();
        drop(gone);
        let later = LocalSet::new().block_on(&runtime, state.carry_out(&mut None, taken, &mut way));
        assert!(later.is_ok_and(|later| later.is_empty()));
        let waiting: Vec<u64> = state.queues[1].waiting.borrow().iter().map(|one| one.number).collect();
        assert_eq!((waiting, state.open.get()), (vec![2, 4], 3), "its connection counts what it has taken");
        assert_eq!(
            first_answers(&news),
            Some([3, 1].map(|number| (number, DatabaseReply::NotAsked)).to_vec())
        );
    }

    /// As where its processes were stopped, and their sessions stood.
    #[test]
    fn what_clients_that_have_gone_would_take_is_not_asked_when_a_database_that_hung_answers() {
        let (state, news) = state();
        let [here, gone] = [(); 2].map(Arc::new);
        state.take_in(vec![take(1, &gone), take(2, &here), put(3, 1, false), take(4, &gone)]);
        drop(gone);
        let answered = |after: Duration| -> Vec<u64> {
            state.asks();
            state.sender.owed_since.store(7, Ordering::Relaxed);
            state.is_answered(Stamp(7) + Nanos::from(after));
            let waiting = state.queues[1].waiting.borrow();
            assert_eq!(waiting.len(), state.open.get());
            waiting.iter().map(|one| one.number).collect()
        };
        assert_eq!(answered(RETRY_AFTER_AT_MOST - Duration::from_millis(1)), [1, 2, 3, 4]);
        assert_eq!(answered(RETRY_AFTER_AT_MOST), [2, 3]);
        assert_eq!(
            first_answers(&news),
            Some([1, 4].map(|number| (number, DatabaseReply::NotAsked)).to_vec())
        );
    }

    #[test]
    fn after_an_attempt_that_failed_there_is_one_at_a_time_each_after_a_longer_pause() {
        let mut now = Instant::now();
        let mut attempts = Attempts::default();
        assert!(attempts.begin(now) && attempts.begin(now), "none has failed");
        attempts.failed(now);
        attempts.failed(now);
        for pause in [100, 200, 400, 800, 1_000, 1_000].map(Duration::from_millis) {
            assert_eq!(attempts.rest(now), Some(now + pause));
            assert!(!attempts.begin(now));
            now += pause;
            assert!(attempts.begin(now) && !attempts.begin(now));
            attempts.failed(now);
        }
        now += 3 * RETRY_AFTER_AT_MOST;
        assert!(attempts.begin(now) && attempts.begin(now), "that one failed is forgotten");
    }

    /// The numbers of those that share a statement, where it holds 512 bytes of messages.
    fn statements(mut waiting: VecDeque<QueuedRequest>) -> Vec<Vec<u64>> {
        let mut statements = Vec::new();
        while let Some(first) = waiting.pop_front() {
            let kind = first.query.kind();
            let mut shared = SharedStatement::of(first, 512);
            shared.gather(&mut waiting, kind);
            statements.push(shared.requests.iter().map(|one| one.number).collect());
        }
        statements
    }

    #[test]
    fn a_statement_holds_no_more_bytes_than_it_may_but_any_message_alone_and_keeps_the_order() {
        let plain = |number, length| put(number, length, false);
        assert_eq!(statements([plain(1, 200), plain(2, 200), plain(3, 200)].into()), [vec![1, 2], vec![3]]);
        assert_eq!(statements([plain(1, 600), plain(2, 1)].into()), [vec![1], vec![2]]);
        let mixed = [plain(1, 400), put(2, 1, true), plain(3, 200), plain(4, 1)];
        assert_eq!(statements(mixed.into()), [vec![1], vec![2], vec![3, 4]]);
    }

    #[test]
    fn what_belongs_to_one_request_shares_a_statement_however_much_it_is() {
        let joined = |number| QueuedRequest { joins: true, ..put(number, 0, false) };
        let mut waiting: VecDeque<_> = (1..=MOST_TOGETHER as u64).map(joined).collect();
        waiting.push_back(put(1_000, 0, false));
        let mut shared = SharedStatement::of(put(0, 0, false), 512);
        shared.join(&mut waiting, 0, StatementKind::Put);
        assert_eq!((shared.requests.len(), waiting.len()), (MOST_TOGETHER + 1, 1));
    }
}
