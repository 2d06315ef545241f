//! Threads that write batches, one that keeps the lease and nothing else, and one that sweeps; what
//! became of each batch is reported in their order.
//!
//! ```text
//!  loop ──batch──▶ writer ───one statement, one commit──▶ PostgreSQL
//!   ▲  └──batch──▶ writer ───────────────────────────────▶
//!   │       fetch▶ reader ─what is not in memory, while nothing is written──▶
//!   │       sweep▶ sweeper ─reads what is in the outbox, clears away─▶
//!   │              keeper ──renews─────────────────────────▶
//!   └─committed, in order─┘   └─ session broken: have it back, write the same batch again
//! ```
//!
//! What comes while batches are under way makes the next. So no request waits for a timer, and the
//! more there is to do the more each commit carries. Two batches of moderate size are written side
//! by side, so that one is worked on while the other waits for the disk; three where that is slow.
//! They have no message in common: the order in which their commits end does not matter.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use krarup_net::Clock;
use krarup_units::{Mistake, Nanos, Stamp};

use crate::backoff::Backoff;
use crate::postgres::batch_writer::BatchWriter;
use crate::postgres::heads::Reader;
use crate::postgres::sweeper::Sweeper;
use crate::postgres::{
    IDS_AHEAD, OutboxPart, Owned, Reconnecting, StoreError, is_deposed, only_reads, words,
};
use krarup_broker::changes::CommitBatch;
use krarup_broker::job::Id;
use krarup_broker::queues::{Fetch, Fetched};

/// How often an owner says that it is there.
const RENEW: Duration = Duration::from_millis(300);
/// How often expired keys are cleared away.
const FORGET: Duration = Duration::from_secs(60);
/// Steps of clearing away after a sweep, each of its own: a caller that waits for the next one
/// waits no longer than for these.
const STEPS: usize = 5;
/// How soon to try again to have a session, at first and at most; the time doubles in between.
const RETRY_AFTER: Duration = Duration::from_millis(100);
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(1);
/// How soon at most, where all goes on without it: another program may need the slot more.
const SPARE_AFTER_AT_MOST: Duration = Duration::from_secs(30);
/// How long the last word to the database may take at the end: it saves the next owner from
/// waiting, and nothing more.
const LAST: Duration = Duration::from_secs(1);
/// Batches that may be under way at once.
const WRITERS: usize = 3;
/// Lines that batches side by side may have together. Larger ones keep PostgreSQL busy rather than
/// the disk: apart they would only be more statements for the same work.
pub const SIDE_BY_SIDE: usize = 256;
/// Work on a line of a batch, about.
const LINE: Nanos = Nanos::from_micros(20);
/// A batch whose time beside that was longer waited for the disk. While that is so the last writer
/// is used, too; otherwise it would only take the processor from the others.
const LONG: Nanos = Nanos::from_millis(1);

/// What a line, and a byte of a message, may take on a slow disk: meanwhile the database owes no
/// answer for them.
const SLOW_LINE: Nanos = Nanos::from_micros(100);
const SLOW_BYTE: Nanos = Nanos(100);

/// What the threads tell.
#[derive(Debug)]
pub enum JournalEvent {
    /// A batch is on disk, and all before it.
    Committed {
        /// The number that it was given with [`Journal::write`].
        number: u64,
        /// When its first statement was sent.
        sent: Stamp,
        /// When its commit was answered.
        answered: Stamp,
    },
    /// A batch was refused, whole.
    Refused {
        /// The number that it was given with [`Journal::write`].
        number: u64,
        /// What it held.
        batch: Arc<CommitBatch>,
        /// The database's reason.
        why: String,
    },
    /// A sweep is over.
    Swept {
        /// What applications have put into the outbox.
        found: OutboxPart,
        /// Why the database refused it, or the clearing away after the one before.
        refused: Option<String>,
    },
    /// What the queues wanted to read, or why it cannot be read now.
    Fetched(Result<Fetched, String>),
    /// The first session broke, and why.
    Lost(String),
    /// All are back.
    Back,
    /// It is another's turn.
    Deposed,
}

/// The loop's end of the threads.
#[derive(Debug)]
pub struct Journal {
    /// Hears that no message will be given an id any more.
    keeper: Sender<()>,
    /// Disconnected when the keeper has ended.
    keeping: Receiver<()>,
    sweeper: Sender<()>,
    /// Whether nothing more is to be done: sessions that are broken stay so.
    over: Arc<AtomicBool>,
    /// Since when it is being looked what is in the outbox.
    sweeping: Option<Stamp>,
    reader: Sender<Fetch>,
    /// Whether something is being read, and since when; none: an index is made, for as long as that
    /// takes.
    reading: bool,
    read_asked: Option<Stamp>,
    writers: Vec<Sender<Job>>,
    free: Vec<usize>,
    /// Whether the last batch that came back had waited long.
    waits_for_disk: bool,
    /// Batches under way, in their order.
    under_way: VecDeque<UnderWay>,
    /// When the database last answered a batch.
    answered: Stamp,
    events: Receiver<ThreadEvent>,
    /// Sessions that are broken, whether that was told, and when it last was.
    lost: usize,
    is_reported: bool,
    lost_at: Option<Instant>,
    ids: Arc<Ids>,
}

/// Ids that were given, and those that the database knows may be.
#[derive(Debug)]
struct Ids {
    next: AtomicU64,
    promised: AtomicU64,
}

#[derive(Debug)]
struct UnderWay {
    number: u64,
    batch: Arc<CommitBatch>,
    /// When it was given to a writer.
    asked: Stamp,
    outcome: Option<BatchOutcome>,
}

impl UnderWay {
    /// From when on its answer is owed.
    fn owed_from(&self) -> Stamp {
        let (lines, bytes) = (self.batch.lines() as u64, self.batch.bytes() as u64);
        self.asked + Nanos(lines * SLOW_LINE.0 + bytes * SLOW_BYTE.0)
    }

    /// Whether what it holds is still to be written: where it was refused, with a later batch.
    fn is_unwritten(&self) -> bool {
        self.outcome.as_ref().is_none_or(|outcome| outcome.written.is_err())
    }
}

/// What came of a batch.
#[derive(Debug)]
struct BatchOutcome {
    sent: Stamp,
    answered: Stamp,
    written: Result<(), String>,
}

struct Job {
    number: u64,
    batch: Arc<CommitBatch>,
}

#[derive(Debug)]
enum ThreadEvent {
    /// A writer has a session.
    Begun {
        writer: usize,
    },
    Wrote {
        writer: usize,
        number: u64,
        outcome: BatchOutcome,
    },
    Swept {
        found: OutboxPart,
        refused: Option<String>,
    },
    Fetched(Result<Fetched, String>),
    /// A session broke that stood since then.
    Lost(String, Instant),
    Back,
    Deposed,
}

impl Journal {
    /// Begins to write; `wake` is called whenever there are news. Ids below `next_id` have been
    /// given.
    pub fn begin(
        owned: Owned,
        next_id: Id,
        clock: Clock,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Mistake> {
        let (tell, events) = mpsc::channel();
        let over = Arc::new(AtomicBool::new(false));
        let sender =
            EventSender { tell, wake: Arc::new(wake), over: Arc::clone(&over), moves: Arc::default() };
        let next = AtomicU64::new(next_id);
        let ids = Arc::new(Ids { next, promised: AtomicU64::new(next_id + IDS_AHEAD) });
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let (jobs, received) = mpsc::channel();
            let (place, epoch, shard, sender) =
                (owned.place().clone(), owned.epoch(), owned.shard(), sender.clone());
            let begin = move || BatchWriter::begin(place.clone(), epoch, shard, writer as u32);
            spawn("pen", move || write(writer, received, clock, sender, begin))?;
            writers.push(jobs);
        }
        let (reader, wanted) = mpsc::channel();
        let (place, epoch, heads, its) =
            (owned.place().clone(), owned.epoch(), owned.heads(), sender.clone());
        let shard = owned.shard();
        spawn("reader", move || read(&wanted, &its, || Reader::begin(place.clone(), epoch, shard, heads)))?;
        let (sweeper, sweeps) = mpsc::channel();
        let (place, its) = (owned.place().clone(), sender.clone());
        spawn("sweeper", move || sweep(&sweeps, &its, || Sweeper::begin(place.clone(), epoch, shard)))?;
        let (keeper, retires) = mpsc::channel();
        // Others look for queues without an owner as often as the owner tries to have them again.
        let mut keeps =
            LeaseKeeper { session: Reconnector::new(owned, sender, RETRY_AFTER), ids: Arc::clone(&ids) };
        let (ends, keeping) = mpsc::channel();
        spawn("keeper", move || {
            keeps.run(&retires);
            drop(keeps);
            drop(ends);
        })?;
        Ok(Self {
            keeper,
            keeping,
            sweeper,
            over,
            sweeping: None,
            reader,
            reading: false,
            read_asked: None,
            writers,
            free: Vec::new(),
            waits_for_disk: false,
            under_way: VecDeque::new(),
            answered: Stamp(0),
            events,
            lost: 0,
            is_reported: false,
            lost_at: None,
            ids,
        })
    }

    /// Whether what has been gathered may be written now, beside what is under way; ids below
    /// `next_id` have been given.
    pub fn may_write(&self, gathered: &CommitBatch, next_id: Id) -> bool {
        // Those of what is gathered must be promised before it is written.
        self.ids.next.fetch_max(next_id, Ordering::Relaxed);
        let beside = |other: &CommitBatch| gathered.may_go_beside(other);
        let others = || self.under_way.iter().filter(|one| one.outcome.is_none()).map(|one| &*one.batch);
        let lines = gathered.lines() + others().map(CommitBatch::lines).sum::<usize>();
        let writers = if self.waits_for_disk { WRITERS } else { WRITERS - 1 };
        let is_first = others().next().is_none();
        // What a refused one held would be written over what this one has written.
        let mut unwritten = self.under_way.iter().filter(|one| one.is_unwritten()).map(|one| &*one.batch);
        !self.free.is_empty()
            && !self.reading
            && next_id <= self.ids.promised.load(Ordering::Relaxed)
            && (is_first || (others().count() < writers && lines <= SIDE_BY_SIDE))
            && unwritten.all(beside)
    }

    /// How many batches are under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Writes a batch that may be written now.
    pub fn write(&mut self, number: u64, batch: CommitBatch, now: Stamp) {
        let writer = self.free.pop().expect("a pen is free where a batch may be written");
        if let Some(highest) = batch.messages.keys().max() {
            self.ids.next.fetch_max(highest + 1, Ordering::Relaxed);
        }
        let batch = Arc::new(batch);
        let its = Arc::clone(&batch);
        self.under_way.push_back(UnderWay { number, batch: its, asked: now, outcome: None });
        // A thread that is no more has said why.
        let _ = self.writers[writer].send(Job { number, batch });
    }

    /// Whether no thread is looking what is in the outbox.
    pub fn may_sweep(&self) -> bool {
        self.sweeping.is_none()
    }

    /// Collects what applications have put into the table of messages that come.
    pub fn sweep(&mut self, now: Stamp) {
        self.sweeping = Some(now);
        let _ = self.sweeper.send(());
    }

    /// Whether nothing is being written or read.
    pub fn may_fetch(&self) -> bool {
        self.under_way.is_empty() && !self.reading
    }

    /// Reads what the queues want; nothing is written meanwhile.
    pub fn fetch(&mut self, wanted: Fetch, now: Stamp) {
        self.reading = true;
        self.read_asked = (wanted != Fetch::Begin).then_some(now);
        let _ = self.reader.send(wanted);
    }

    /// Since when the database owes an answer; none: it owes none. The sweeper may have much to
    /// clear away before it sweeps: that is no silence while batches are answered.
    pub fn owes_since(&self) -> Option<Stamp> {
        let batches = self.under_way.iter().filter(|one| one.outcome.is_none()).map(UnderWay::owed_from);
        let sweep = self.sweeping.map(|asked| asked.max(self.answered));
        batches.chain(self.read_asked).chain(sweep).min()
    }

    /// The next news, if there are any.
    pub fn next_event(&mut self) -> Option<JournalEvent> {
        loop {
            if self.under_way.front().is_some_and(|first| first.outcome.is_some()) {
                return self.first_done();
            }
            match self.events.try_recv().ok()? {
                ThreadEvent::Begun { writer } => self.free.push(writer),
                ThreadEvent::Wrote { writer, number, outcome } => {
                    self.free.push(writer);
                    let one = self.under_way.iter_mut().find(|one| one.number == number);
                    let one = one.expect("it is under way");
                    let work = LONG.0 + one.batch.lines() as u64 * LINE.0;
                    self.waits_for_disk = outcome.answered.0.saturating_sub(outcome.sent.0) > work;
                    self.answered = self.answered.max(outcome.answered);
                    one.outcome = Some(outcome);
                }
                ThreadEvent::Swept { found, refused } => {
                    self.sweeping = None;
                    return Some(JournalEvent::Swept { found, refused });
                }
                ThreadEvent::Fetched(fetched) => {
                    self.reading = false;
                    self.read_asked = None;
                    return Some(JournalEvent::Fetched(fetched));
                }
                ThreadEvent::Lost(why, since) => {
                    self.lost += 1;
                    // What breaks all sessions is noticed by each when it is used: that is no news
                    // where others are back.
                    if !self.is_reported && self.lost_at.is_none_or(|lost| since > lost) {
                        self.is_reported = true;
                        self.lost_at = Some(Instant::now());
                        return Some(JournalEvent::Lost(why));
                    }
                }
                ThreadEvent::Back => {
                    self.lost -= 1;
                    if self.lost == 0 && std::mem::take(&mut self.is_reported) {
                        return Some(JournalEvent::Back);
                    }
                }
                ThreadEvent::Deposed => return Some(JournalEvent::Deposed),
            }
        }
    }

    fn first_done(&mut self) -> Option<JournalEvent> {
        let UnderWay { number, batch, outcome, .. } = self.under_way.pop_front()?;
        let BatchOutcome { sent, answered, written } = outcome?;
        Some(match written {
            Ok(()) => JournalEvent::Committed { number, sent, answered },
            Err(why) => JournalEvent::Refused { number, batch, why },
        })
    }

    /// Ends the threads: ids below this one were given. A database that does not answer is not
    /// waited for.
    pub fn end(mut self, next_id: Id) {
        self.ids.next.fetch_max(next_id, Ordering::Relaxed);
        self.writers.clear();
        self.over.store(true, Ordering::SeqCst);
        // Where the keeper has ended, the session that held the lock has ended with it.
        let _ = self.keeper.send(());
        let _ = self.keeping.recv_timeout(LAST);
    }
}

fn spawn(name: &str, what: impl FnOnce() + Send + 'static) -> Result<(), Mistake> {
    let spawned = thread::Builder::new().name(name.into()).spawn(what);
    spawned.map(drop).map_err(|error| Mistake::plain(format!("no thread can be had: {error}")))
}

#[derive(Clone)]
struct EventSender {
    tell: Sender<ThreadEvent>,
    wake: Arc<dyn Fn() + Send + Sync>,
    over: Arc<AtomicBool>,
    /// How often all sessions were to be had anew though they stood.
    moves: Arc<AtomicU64>,
}

impl EventSender {
    fn say(&self, events: ThreadEvent) {
        // It is not received any more: the loop has ended.
        let _ = self.tell.send(events);
        (self.wake)();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Waits that long, or until nothing more is to be done.
    fn wait(&self, mut left: Duration) {
        while !left.is_zero() && !self.is_over() {
            let step = left.min(RETRY_AFTER);
            thread::sleep(step);
            left -= step;
        }
    }
}

/// Nothing more is to be done: another owns the queues, or this broker ends.
struct Over;

/// A session that is had again whenever it breaks.
struct Reconnector<S> {
    session: S,
    sender: EventSender,
    /// How long it is waited at most before it is tried again.
    longest: Duration,
    lost: bool,
    since: Instant,
    /// Whether the session last said that it writes nothing at all, and when it was last looked
    /// whether a new one does.
    only_reads: bool,
    looked: Instant,
    /// Of the moves of all sessions, those that this one has followed.
    moves: u64,
}

impl<S: Reconnecting> Reconnector<S> {
    fn new(session: S, sender: EventSender, longest: Duration) -> Self {
        let since = Instant::now();
        Self { session, sender, longest, lost: false, since, only_reads: false, looked: since, moves: 0 }
    }

    /// Does something that may be done twice, again and again until the session has stood all the
    /// time: then what came of it is known.
    fn until_known<T>(
        &mut self,
        mut what: impl FnMut(&mut S) -> Result<T, tokio_postgres::Error>,
    ) -> Result<Result<T, String>, Over> {
        if self.is_outdated() {
            self.mend()?;
        }
        let mut breaks: Option<Backoff> = None;
        loop {
            match what(&mut self.session) {
                Ok(done) => {
                    self.only_reads = false;
                    return Ok(Ok(done));
                }
                Err(error) if is_deposed(&error) => return Err(Over),
                Err(error) if !self.session.is_over(&error) => {
                    self.only_reads = only_reads(&error);
                    return Ok(Err(words(&error)));
                }
                Err(error) => self.lose(&words(&error)),
            }
            // Each that can be had may break at once.
            if let Some(pauses) = &mut breaks {
                self.sender.wait(pauses.pause());
            } else {
                breaks = Some(Backoff::new(RETRY_AFTER, self.longest));
            }
            self.mend()?;
        }
    }

    /// Whether the session is to be had anew though it stands. Where it writes nothing and a new
    /// one does, a name has moved on, or a setting that sessions keep; then no other of this owner
    /// reads on where nothing is written any more.
    fn is_outdated(&mut self) -> bool {
        if self.only_reads && self.looked.elapsed() >= self.longest {
            if self.session.place().takes_writes().unwrap_or_default() {
                self.sender.moves.fetch_add(1, Ordering::Relaxed);
            }
            // However long that took.
            self.looked = Instant::now();
        }
        self.moves != self.sender.moves.load(Ordering::Relaxed)
    }

    /// Has the session back, however long that takes.
    fn mend(&mut self) -> Result<(), Over> {
        let mut pauses = Backoff::new(RETRY_AFTER, self.longest);
        loop {
            if self.sender.is_over() {
                return Err(Over);
            }
            self.moves = self.sender.moves.load(Ordering::Relaxed);
            match self.session.mend() {
                Ok(()) => break,
                Err(StoreError::Deposed) => return Err(Over),
                Err(problem) => {
                    self.lose(&problem.to_string());
                    self.sender.wait(pauses.pause());
                }
            }
        }
        (self.only_reads, self.since) = (false, Instant::now());
        if std::mem::take(&mut self.lost) {
            self.sender.say(ThreadEvent::Back);
        }
        Ok(())
    }

    fn lose(&mut self, why: &str) {
        if !std::mem::replace(&mut self.lost, true) {
            self.sender.say(ThreadEvent::Lost(why.to_owned(), self.since));
        }
    }
}

/// A session, as soon as it can be had; none if it is not needed any more. That it cannot be had is
/// told where nothing goes on without it.
fn have<S>(sender: &EventSender, needed: bool, begin: impl Fn() -> Result<S, StoreError>) -> Option<S> {
    let (since, mut lost) = (Instant::now(), false);
    let longest = if needed { RETRY_AFTER_AT_MOST } else { SPARE_AFTER_AT_MOST };
    let mut pauses = Backoff::new(RETRY_AFTER, longest);
    loop {
        match begin() {
            Ok(session) => {
                if lost {
                    sender.say(ThreadEvent::Back);
                }
                return Some(session);
            }
            Err(StoreError::Deposed) => {
                sender.say(ThreadEvent::Deposed);
                return None;
            }
            Err(_) if sender.is_over() => return None,
            Err(problem) => {
                if needed && !std::mem::replace(&mut lost, true) {
                    sender.say(ThreadEvent::Lost(problem.to_string(), since));
                }
                sender.wait(pauses.pause());
            }
        }
    }
}

/// What the reader's thread does all its life. Its session is there before anything is wanted:
/// nothing is written while it reads.
fn read(wanted: &Receiver<Fetch>, sender: &EventSender, begin: impl Fn() -> Result<Reader, StoreError>) {
    let Some(session) = have(sender, true, begin) else { return };
    let mut session = Reconnector::new(session, sender.clone(), RETRY_AFTER_AT_MOST);
    for wanted in wanted {
        let Ok(fetched) = session.until_known(|session| session.fetch(&wanted)) else {
            return sender.say(ThreadEvent::Deposed);
        };
        sender.say(ThreadEvent::Fetched(fetched));
    }
}

/// What the thread of a writer does all its life.
fn write(
    writer: usize,
    jobs: Receiver<Job>,
    clock: Clock,
    sender: EventSender,
    begin: impl Fn() -> Result<BatchWriter, StoreError>,
) {
    // One writer is enough.
    let Some(session) = have(&sender, writer == 0, begin) else { return };
    sender.say(ThreadEvent::Begun { writer });
    let mut session = Reconnector::new(session, sender, RETRY_AFTER_AT_MOST);
    for Job { number, batch } in jobs {
        let sent = clock.now();
        let Ok(written) = session.until_known(|session| session.write(&batch)) else {
            return session.sender.say(ThreadEvent::Deposed);
        };
        drop(batch);
        let outcome = BatchOutcome { sent, answered: clock.now(), written };
        session.sender.say(ThreadEvent::Wrote { writer, number, outcome });
    }
}

/// What the sweeper's thread does all its life: whenever it is asked it looks what is in the
/// outbox, and clears away some of what is over.
fn sweep(asked: &Receiver<()>, sender: &EventSender, begin: impl Fn() -> Result<Sweeper, StoreError>) {
    let Some(session) = have(sender, true, begin) else { return };
    let mut session = Reconnector::new(session, sender.clone(), RETRY_AFTER_AT_MOST);
    let mut clearing = ClearingState::default();
    for () in asked {
        if sweep_once(&mut session, &mut clearing).is_err() {
            return sender.say(ThreadEvent::Deposed);
        }
    }
}

/// What is cleared away after the sweeps.
#[derive(Default)]
struct ClearingState {
    /// When all keys whose time was over were last forgotten.
    forgotten: Option<Instant>,
    /// Why the database refused it the last time, of the archive and of the keys.
    archive_refusal: Option<String>,
    key_refusal: Option<String>,
}

/// One sweep, and some clearing away.
fn sweep_once(session: &mut Reconnector<Sweeper>, clearing: &mut ClearingState) -> Result<(), Over> {
    // What cannot be read now is read next time.
    let (found, unread) = match session.until_known(Sweeper::sweep)? {
        Ok(found) => (found, None),
        Err(why) => (OutboxPart::default(), Some(why)),
    };
    let uncleared = || clearing.archive_refusal.as_ref().or(clearing.key_refusal.as_ref()).cloned();
    session.sender.say(ThreadEvent::Swept { found, refused: unread.or_else(uncleared) });
    clearing.archive_refusal = clear_away(session, Sweeper::prune)?.err();
    if clearing.forgotten.is_some_and(|then| then.elapsed() < FORGET) {
        return Ok(());
    }
    let forgotten = clear_away(session, Sweeper::forget_keys)?;
    if forgotten == Ok(false) {
        clearing.forgotten = Some(Instant::now());
    }
    clearing.key_refusal = forgotten.err();
    Ok(())
}

/// Some steps of clearing away: whether there may be more to clear, or why the database refuses.
fn clear_away(
    session: &mut Reconnector<Sweeper>,
    step: fn(&mut Sweeper) -> Result<bool, tokio_postgres::Error>,
) -> Result<Result<bool, String>, Over> {
    for _ in 0..STEPS {
        let cleared = session.until_known(step)?;
        if cleared != Ok(true) {
            return Ok(cleared);
        }
    }
    Ok(Ok(true))
}

/// Keeps the queues ours, and does nothing that may take long.
struct LeaseKeeper {
    session: Reconnector<Owned>,
    ids: Arc<Ids>,
}

impl LeaseKeeper {
    fn run(&mut self, retires: &Receiver<()>) {
        let mut renewed = Instant::now();
        loop {
            match retires.recv_timeout(RENEW.saturating_sub(renewed.elapsed())) {
                Ok(()) => {
                    // Where it fails, some ids will never be given.
                    let _ = self.session.session.set_down(self.ids.next.load(Ordering::Relaxed));
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            renewed = Instant::now();
            if self.renew().is_err() {
                return self.session.sender.say(ThreadEvent::Deposed);
            }
        }
    }

    fn renew(&mut self) -> Result<(), Over> {
        let next = self.ids.next.load(Ordering::Relaxed);
        if self.session.until_known(|owned| owned.renew(next))?.is_ok() {
            let promised = next + IDS_AHEAD;
            if self.ids.promised.swap(promised, Ordering::Relaxed) < promised {
                // What was gathered may wait for that.
                (self.session.sender.wake)();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal whose threads are the test.
    fn journal() -> (Journal, Sender<ThreadEvent>, Vec<Receiver<Job>>) {
        let (say, events) = mpsc::channel();
        let (writers, received): (Vec<_>, Vec<_>) = (0..WRITERS).map(|_| mpsc::channel()).unzip();
        let ids = Ids { next: AtomicU64::new(1), promised: AtomicU64::new(1_000) };
        let journal = Journal {
            keeper: mpsc::channel().0,
            keeping: mpsc::channel().1,
            sweeper: mpsc::channel().0,
            over: Arc::default(),
            sweeping: None,
            reader: mpsc::channel().0,
            reading: false,
            read_asked: None,
            writers,
            free: (0..WRITERS).collect(),
            waits_for_disk: false,
            under_way: VecDeque::new(),
            answered: Stamp(0),
            events,
            lost: 0,
            is_reported: false,
            lost_at: None,
            ids: Arc::new(ids),
        };
        (journal, say, received)
    }

    fn deletes(ids: std::ops::Range<Id>) -> CommitBatch {
        let mut batch = CommitBatch::default();
        ids.for_each(|id| batch.delete(id));
        batch
    }

    fn wrote(writer: usize, number: u64, took: Nanos) -> ThreadEvent {
        ThreadEvent::Wrote {
            writer,
            number,
            outcome: BatchOutcome { sent: Stamp(0), answered: Stamp(took.0), written: Ok(()) },
        }
    }

    fn committed(next_event: Option<JournalEvent>) -> Option<u64> {
        match next_event {
            Some(JournalEvent::Committed { number, .. }) => Some(number),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_became_of_batches_is_reported_in_their_order() {
        let (mut journal, say, _threads) = journal();
        journal.write(1, deletes(1..3), Stamp(0));
        journal.write(2, deletes(3..5), Stamp(0));
        say.send(wrote(WRITERS - 2, 2, Nanos::from_micros(100))).unwrap();
        assert_eq!(committed(journal.next_event()), None, "the first is not over");
        say.send(wrote(WRITERS - 1, 1, Nanos::from_micros(100))).unwrap();
        assert_eq!(committed(journal.next_event()), Some(1));
        assert_eq!(committed(journal.next_event()), Some(2));
        assert_eq!((journal.under_way(), journal.free.len()), (0, WRITERS));
    }

    fn after(millis: u64) -> Stamp {
        Stamp(0) + Nanos::from_millis(millis)
    }

    #[test]
    fn an_answer_is_owed_for_the_oldest_batch_and_for_a_large_one_later() {
        let (mut journal, say, _threads) = journal();
        assert_eq!(journal.owes_since(), None);
        journal.write(1, deletes(1..2), after(100));
        journal.write(2, deletes(2..3), after(200));
        say.send(wrote(WRITERS - 2, 2, Nanos::from_millis(300))).unwrap();
        assert_eq!(committed(journal.next_event()), None);
        assert_eq!(journal.owes_since(), Some(after(100) + SLOW_LINE));
        say.send(wrote(WRITERS - 1, 1, Nanos::from_millis(300))).unwrap();
        assert_eq!(committed(journal.next_event()), Some(1));
        assert_eq!(journal.owes_since(), None);
        assert_eq!(committed(journal.next_event()), Some(2));
        // What deletes all messages of a tube takes its time on a slow disk.
        journal.write(3, deletes(0..10_000), after(400));
        assert_eq!(journal.owes_since(), Some(after(1_400)));
    }

    #[test]
    fn an_answer_is_owed_for_what_is_read_and_looked_for_unless_an_index_is_made() {
        let (mut journal, say, _threads) = journal();
        journal.fetch(Fetch::Begin, after(100));
        assert_eq!(journal.owes_since(), None);
        journal.sweep(after(200));
        assert_eq!(journal.owes_since(), Some(after(200)));
        say.send(ThreadEvent::Fetched(Ok(Fetched::default()))).unwrap();
        assert!(matches!(journal.next_event(), Some(JournalEvent::Fetched(Ok(_)))));
        journal.fetch(Fetch::Named(vec![1]), after(150));
        assert_eq!(journal.owes_since(), Some(after(150)));
        say.send(ThreadEvent::Fetched(Ok(Fetched::default()))).unwrap();
        assert!(matches!(journal.next_event(), Some(JournalEvent::Fetched(Ok(_)))));
        // The sweeper clears away; batches are answered meanwhile.
        journal.write(1, deletes(1..2), after(300));
        say.send(wrote(WRITERS - 1, 1, Nanos::from_millis(400))).unwrap();
        assert_eq!(committed(journal.next_event()), Some(1));
        assert_eq!(journal.owes_since(), Some(after(400)));
        say.send(ThreadEvent::Swept { found: OutboxPart::default(), refused: None }).unwrap();
        assert!(matches!(journal.next_event(), Some(JournalEvent::Swept { refused: None, .. })));
        assert_eq!(journal.owes_since(), None);
    }

    #[test]
    fn one_batch_goes_beside_another_unless_they_are_large_or_have_a_message_in_common() {
        let (mut journal, _, _threads) = journal();
        assert!(journal.may_write(&deletes(0..2_000), 1), "one alone may be of any size");
        journal.write(1, deletes(1..100), Stamp(0));
        assert!(journal.may_write(&deletes(100..200), 1));
        assert!(!journal.may_write(&deletes(99..101), 1));
        assert!(!journal.may_write(&deletes(100..400), 1));
    }

    /// What it held comes back when those before it are over, and is written once more.
    #[test]
    fn no_batch_overtakes_a_refused_one_that_has_a_message_in_common_with_it() {
        let (mut journal, say, _threads) = journal();
        journal.write(1, deletes(1..3), Stamp(0));
        journal.write(2, deletes(3..5), Stamp(0));
        let outcome = BatchOutcome { sent: Stamp(0), answered: Stamp(0), written: Err("full".into()) };
        say.send(ThreadEvent::Wrote { writer: WRITERS - 2, number: 2, outcome }).unwrap();
        assert_eq!(committed(journal.next_event()), None, "the first is not over");
        assert!(!journal.may_write(&deletes(4..6), 1));
        assert!(journal.may_write(&deletes(5..7), 1));
        say.send(wrote(WRITERS - 1, 1, Nanos::from_micros(100))).unwrap();
        assert_eq!(committed(journal.next_event()), Some(1));
        assert!(matches!(journal.next_event(), Some(JournalEvent::Refused { number: 2, .. })));
        assert!(journal.may_write(&deletes(4..6), 1));
    }

    #[test]
    fn a_third_batch_goes_beside_two_only_where_the_disk_is_slow() {
        for (took, beside) in [(Nanos::from_micros(300), false), (Nanos::from_millis(2), true)] {
            let (mut journal, say, _threads) = journal();
            journal.write(1, deletes(1..3), Stamp(0));
            say.send(wrote(WRITERS - 1, 1, took)).unwrap();
            assert_eq!(committed(journal.next_event()), Some(1));
            journal.write(2, deletes(3..5), Stamp(0));
            journal.write(3, deletes(5..7), Stamp(0));
            assert_eq!(journal.may_write(&deletes(7..9), 1), beside);
        }
    }

    #[test]
    fn ids_that_the_database_does_not_know_are_not_given() {
        let (journal, _, _threads) = journal();
        assert!(journal.may_write(&deletes(1..2), 1_000));
        assert!(!journal.may_write(&deletes(1..2), 1_001));
        // So that they are promised next.
        assert_eq!(journal.ids.next.load(Ordering::Relaxed), 1_001);
    }

    fn sender() -> (EventSender, Receiver<ThreadEvent>) {
        let (tell, events) = mpsc::channel();
        let (over, moves) = (Arc::default(), Arc::default());
        (EventSender { tell, wake: Arc::new(|| ()), over, moves }, events)
    }

    /// The wait would otherwise outlast any test.
    #[test]
    fn a_wait_for_a_session_ends_when_nothing_more_is_to_be_done() {
        let (sender, _events) = sender();
        let over = Arc::clone(&sender.over);
        let waits = thread::spawn(move || sender.wait(Duration::MAX));
        over.store(true, Ordering::SeqCst);
        waits.join().unwrap();
    }

    #[test]
    fn a_session_that_cannot_be_had_at_first_is_reported() {
        let (sender, events) = sender();
        let tries = std::cell::Cell::new(0);
        let begin = || {
            tries.set(tries.get() + 1);
            if tries.get() > 1 { Ok(tries.get()) } else { Err(StoreError::Pooled) }
        };
        assert_eq!(have(&sender, true, begin), Some(2));
        let told: Vec<ThreadEvent> = events.try_iter().collect();
        assert!(
            matches!(&told[..], [ThreadEvent::Lost(why, _), ThreadEvent::Back] if why.contains("pooler")),
            "{told:?}"
        );
    }
}
