//! One event loop: every client of the broker on one thread, edge-triggered.
//!
//! ```text
//!        ┌─▶ wait for readiness, or for what is due next
//!        │   store          ─▶ what it has committed
//!        │   read clients   ─▶ requests         one read each
//!        │   store          ◀─ all that waits   one batch, if it is free
//!        └── write clients  ◀─ answers          one write each, however many answers
//! ```

use std::io;
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use krarup_net::mio::{Events, Poll, Token, Waker};
use krarup_net::snapshots::{SnapshotSlot, SnapshotSlots};
use krarup_net::tls::Acceptor;
use krarup_net::{Clock, Listener, listen};
use krarup_service::Service;
use krarup_units::{Address, Mistake, Nanos, Stamp};

use super::live::{self, BrokerHeadroom, BrokerLive};
use super::message_store::MessageStore;
use super::silence::{SILENT, StoreSilence};
use crate::admin::{AdminAddress, Monitoring, ShownMonitoring};
use crate::driver::{self, ClientLimits, Driver};
use crate::memory_notice::MemoryNotice;
use krarup_beanstalk::Put;
use krarup_broker::broker::{Broker, MEMCACHED};
use krarup_broker::metrics::BrokerSnapshot;
use krarup_store::journal::{Journal, JournalEvent};
use krarup_store::pool::{self, ConnectionPool};
use krarup_store::postgres::{self, OutboxMessage, OutboxPart};

const WOKEN: Token = Token(4);
/// A client that vanished without a word is noticed after this time.
pub(super) const KEEP_ALIVE: Nanos = Nanos::from_secs(60);
/// How often it is looked whether the outbox has messages.
const SWEEP: Nanos = Nanos::from_millis(250);
/// How long to wait before a store that has refused a batch is offered the next.
const RELUCTANT: Nanos = Nanos::from_millis(100);
/// A store that takes something again has refused nothing for so long before it is said to: where
/// the last room goes, each second change may still fit.
const CALM: Nanos = Nanos::from_secs(1);
/// A store that is offered nothing any more is taken to be well after this time.
const FORGIVEN: Nanos = Nanos::from_secs(10);

/// How to serve.
#[derive(Debug)]
pub struct BrokerEngineSettings {
    /// Where clients of beanstalkd's protocol connect.
    pub listen: Address,
    /// Where brokers that wait for their turn reach this one; none: where it listens.
    pub advertise: Option<Address>,
    /// Where clients of memcached's protocol connect; none: nowhere.
    pub memcached: Option<Address>,
    /// Greets clients of either, who then speak TLS; none: in plain text.
    pub tls: Option<Acceptor>,
    /// Where monitoring may ask.
    pub admin: Option<AdminAddress>,
    /// How many clients may be connected at once.
    pub connections: usize,
    /// What clients may take.
    pub clients: ClientLimits,
    /// How long a stop waits for what is in flight.
    pub shutdown_limit: Nanos,
    /// Listening sockets that this process was given, in the order of the two addresses; they stand
    /// in for the addresses above.
    pub inherited: Vec<Listener>,
    /// How it is told to end, and to accept no more messages.
    pub ending: Arc<Ending>,
    /// It serves one shard of several, to other brokers alone.
    pub part: Option<ServedShard>,
    /// What monitoring is answered about the headroom.
    pub headroom: BrokerHeadroom,
}

/// An engine that serves one shard: it tells its clients that the shard has moved.
#[derive(Clone, Debug)]
pub struct ServedShard {
    /// The machine's name for other brokers; none: the address it listens on.
    pub host: Option<String>,
}

/// Tells an engine on another thread to end, or to accept no more messages. What it is told before
/// it begins holds as well.
#[derive(Debug, Default)]
pub struct Ending {
    /// How often it was asked to.
    asked: AtomicU8,
    announced: AtomicBool,
    drains: AtomicBool,
    waker: OnceLock<Arc<Waker>>,
}

impl Ending {
    /// It shall end soon: until then it serves, and monitoring hears that it is not ready.
    pub fn announce(&self) {
        self.announced.store(true, Ordering::SeqCst);
    }

    /// It shall end; what has arrived is still answered.
    pub fn ask(&self) {
        self.say(1);
    }

    /// It shall end at once.
    pub fn hurry(&self) {
        self.say(2);
    }

    /// It shall accept no more messages.
    pub fn drain(&self) {
        self.drains.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn say(&self, asked: u8) {
        self.asked.fetch_max(asked, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            // A loop that cannot be woken hears of it at its next pass.
            let _ = waker.wake();
        }
    }

    /// Whether it shall.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > 0
    }

    /// Whether it shall at once.
    pub fn is_hurried(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > 1
    }
}

/// What is spoken at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// beanstalkd's, with more verbs.
    Beanstalkd,
    /// memcached's, in Kestrel's manner.
    Memcached,
}

/// Something the operator should know, told as it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokerNotice {
    /// Clients can connect here, and speak this.
    Listening(Address, Protocol),
    /// Every client can connect here from other machines.
    Open(Address),
    /// A stop was asked for: no more clients are accepted.
    Stopping,
    /// So many requests are without an answer that will have none.
    Unfinished(u64),
    /// No more messages are accepted.
    Draining,
    /// Clients cannot be accepted, and why.
    NotAccepting(String),
    /// Clients wait for the memory of buffers, or were disconnected for it.
    Memory(MemoryNotice),
    /// The store refuses what is to be written, and why; told once until it takes it again.
    Refused(String),
    /// The store takes again what it refused.
    Takes,
    /// The store refuses to read what is not in memory, and why: requests that need it wait.
    Unread(String),
    /// The store refuses a sweep of the outbox, or to clear away what is over, and why; told once,
    /// until a sweep passes.
    Unswept(String),
    /// It takes sweeps again.
    Swept,
    /// The store is out of reach, and why: requests that change something wait.
    Lost(String),
    /// The store is there again.
    Back,
    /// The store has owed an answer for so long: requests that change something wait.
    Silent(Nanos),
    /// The store answers again.
    Answers,
    /// Another broker has taken the queues over: this one answers nothing more.
    Deposed,
}

/// How the loop ended.
#[derive(Debug)]
pub struct BrokerEnd {
    /// The broker, with everything recorded.
    pub broker: Broker,
    /// When it began, or a client last asked to begin anew what is recorded.
    pub started: Stamp,
    /// When it ended.
    pub stopped: Stamp,
    /// Whether it ended because another has taken the queues over.
    pub deposed: bool,
}

/// Serves until it is told to end. What changes is written to `store`, if there is one, before it
/// is answered.
///
/// # Errors
/// Where it cannot be listened, with what would do; the system refuses.
pub fn run(
    settings: BrokerEngineSettings,
    broker: Broker,
    store: Option<MessageStore>,
    clock: Clock,
    notice: impl FnMut(BrokerNotice),
) -> Result<BrokerEnd, Mistake> {
    let started = clock.now();
    let mut engine = Engine::start(settings, broker, store, clock, notice)?;
    engine.run().map_err(|error| format!("the event loop failed: {error}"))?;
    let next_id = engine.broker.queues().next_id();
    if let Some(journal) = engine.journal.take() {
        journal.end(next_id);
    }
    if let Some(pool) = engine.pool.take() {
        pool.end(!engine.deposed && engine.broker.has_no_query());
    }
    let started = engine.broker.reset_at().unwrap_or(started);
    Ok(BrokerEnd { broker: engine.broker, started, stopped: clock.now(), deposed: engine.deposed })
}

/// Whether the journal takes what the broker has gathered.
fn may_write(journal: &Journal, broker: &Broker) -> bool {
    let queues = broker.queues();
    queues.has_batch() && journal.may_write(queues.gathered(), queues.next_id())
}

/// Whether it is the turn of reading: it takes turns with writing where there is both to do.
fn wants_to_read(broker: &Broker, has_read: bool) -> bool {
    let queues = broker.queues();
    queues.has_fetch() && !(has_read && queues.has_batch())
}

/// What the store is given next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreStep {
    Fetch,
    Write,
}

/// What it is, where it is the turn of reading or not. What is read is what has been committed:
/// reading waits until nothing is under way, and writing waits for its turn.
fn store_next(reads: bool, may_fetch: bool, may_write: bool) -> Option<StoreStep> {
    if reads { may_fetch.then_some(StoreStep::Fetch) } else { may_write.then_some(StoreStep::Write) }
}

/// The same of this journal and this broker.
fn store_step(journal: &Journal, broker: &Broker, has_read: bool) -> Option<StoreStep> {
    store_next(wants_to_read(broker, has_read), journal.may_fetch(), may_write(journal, broker))
}

struct Engine<N> {
    settings: BrokerEngineSettings,
    broker: Broker,
    clock: Clock,
    notice: N,
    driver: Driver,
    /// Held here as well: a thread that ends must not take along its last news.
    _waker: Arc<Waker>,
    drains: bool,
    journal: Option<Journal>,
    pool: Option<ConnectionPool>,
    /// The batch with what was in the outbox, until it is committed.
    taking_in: Option<u64>,
    sweep_at: Stamp,
    /// Whether the store was last asked to read.
    has_read: bool,
    /// The store has refused something: when it is offered more.
    write_at: Stamp,
    reluctant: Option<Refusal>,
    /// The store has refused to read something.
    unread: Option<Refusal>,
    /// Whether the store has refused something of the last sweep.
    unswept: bool,
    deposed: bool,
    /// Whether the store cannot be reached.
    store_lost: bool,
    silence: StoreSilence,
    /// Where a snapshot is put for monitoring, and the server that answers from it.
    admin: Option<BrokerAdmin>,
    stop_by: Option<Stamp>,
}

/// The store refuses what is to be written, or read.
#[derive(Clone, Copy)]
struct Refusal {
    /// When it last did.
    last: Stamp,
    /// Whether it has done something of the kind since.
    takes: bool,
}

impl Refusal {
    /// When it is over, if nothing is refused until then.
    fn end(self) -> Stamp {
        self.last + if self.takes { CALM } else { FORGIVEN }
    }
}

/// Where the loop lays down what monitoring is answered from.
struct BrokerAdmin {
    slot: Arc<SnapshotSlot<BrokerSnapshot>>,
    live: BrokerLive,
    _shown: ShownMonitoring,
}

/// Answers monitoring at `address`, from what the loop behind `waker` shows.
fn monitor(
    address: &AdminAddress,
    waker: &Arc<Waker>,
    settings: &BrokerEngineSettings,
    store: Option<&MessageStore>,
) -> BrokerAdmin {
    let slot = SnapshotSlot::new(Arc::clone(waker));
    let slots = SnapshotSlots::of(Arc::clone(&slot));
    let ask = Box::new(move || slots.ask());
    let (live, headroom) =
        BrokerLive::new(SnapshotSlot::new(Arc::clone(waker)), settings.headroom, store, settings.connections);
    let (headroom, reload) = (Some(headroom), address.reload());
    let monitoring =
        Monitoring { program: "krarup broker", ask, headroom, clients: None, redline: None, reload };
    BrokerAdmin { slot, live, _shown: address.show(monitoring) }
}

/// Where other brokers' clients find this one: by beanstalkd's protocol, and by memcached's if it
/// is spoken.
fn addresses(settings: &BrokerEngineSettings, driver: &Driver) -> io::Result<(String, Option<String>)> {
    let seen = |listener: &Listener| -> io::Result<String> {
        let address = listener.address()?.to_string();
        let host = settings.part.as_ref().and_then(|part| part.host.as_ref());
        Ok(match (host, address.rsplit_once(':')) {
            (Some(host), Some((_, port))) => format!("{host}:{port}"),
            _ => address,
        })
    };
    let advertised = match &settings.advertise {
        Some(address) => address.to_string(),
        None => seen(&driver.entrances()[0].listener)?,
    };
    let memcached = driver.entrances().get(MEMCACHED).map(|entrance| seen(&entrance.listener)).transpose()?;
    Ok((advertised, memcached))
}

/// Why clients cannot connect at an address, and what would do.
fn cannot_listen(why: Mistake, address: &Address) -> Mistake {
    if why.hint.is_empty() { Mistake { hint: address.listening_hint("127.0.0.1:11300"), ..why } } else { why }
}

impl<N: FnMut(BrokerNotice)> Engine<N> {
    fn start(
        mut settings: BrokerEngineSettings,
        mut broker: Broker,
        store: Option<MessageStore>,
        clock: Clock,
        mut notice: N,
    ) -> Result<Self, Mistake> {
        let system = |error: io::Error| format!("cannot start an event loop: {error}");
        let poll = Poll::new().map_err(system)?;
        let waker = Arc::new(Waker::new(poll.registry(), WOKEN).map_err(system)?);
        let next_id = broker.queues().next_id();
        let admin = settings.admin.as_ref().map(|admin| monitor(admin, &waker, &settings, store.as_ref()));
        if admin.is_some() {
            broker.keep_live(live::lanes(store.as_ref()));
        }
        let mut inherited = std::mem::take(&mut settings.inherited).into_iter();
        let clients = driver::DriverSettings {
            connections: settings.connections,
            tls: settings.tls.take(),
            keep_alive: KEEP_ALIVE,
            ..settings.clients.into()
        };
        let mut driver = Driver::new(clients, poll, clock).map_err(system)?;
        for (number, address) in iter::once(&settings.listen).chain(&settings.memcached).enumerate() {
            let listener = match inherited.next() {
                Some(listener) => listener,
                None => listen::listen_with(address, settings.clients.listening)
                    .map_err(|why| cannot_listen(why, address))?,
            };
            driver.listen(address.clone(), number, listener);
        }
        // It is this engine's alone: there is no other waker.
        let _ = settings.ending.waker.set(Arc::clone(&waker));
        let (advertised, memcached) = addresses(&settings, &driver).map_err(system)?;
        // A loop that cannot be woken hears the news at its next pass.
        let woken = Arc::clone(&waker);
        let wake = move || _ = woken.wake();
        let (journal, pool) = match store {
            None => (None, None),
            Some(MessageStore::Owned(mut owned)) => {
                owned.listens_at(advertised, memcached);
                if settings.part.is_some() {
                    // The brokers that are to send requests here shall know at once.
                    owned.renew(next_id).map_err(|error| postgres::words(&error))?;
                }
                (Some(Journal::begin(owned, next_id, clock, wake)?), None)
            }
            Some(MessageStore::Shared(sharing, how)) => {
                (None, Some(ConnectionPool::begin(sharing, how, clock, wake)?))
            }
        };
        driver.open();
        for (place, entrance) in driver.entrances().iter().enumerate() {
            let address = entrance.listener.address().map_err(system)?;
            let protocol = if place == MEMCACHED { Protocol::Memcached } else { Protocol::Beanstalkd };
            notice(BrokerNotice::Listening(address.clone(), protocol));
            if !address.is_local() {
                notice(BrokerNotice::Open(address));
            }
        }
        Ok(Self {
            settings,
            broker,
            clock,
            notice,
            driver,
            _waker: waker,
            drains: false,
            journal,
            pool,
            taking_in: None,
            sweep_at: clock.now(),
            has_read: false,
            write_at: clock.now(),
            reluctant: None,
            unread: None,
            unswept: false,
            deposed: false,
            store_lost: false,
            silence: StoreSilence::new(clock.now()),
            admin,
            stop_by: None,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1_024);
        loop {
            self.obey();
            self.tick();
            // Before it waits, maybe for long.
            self.tell();
            if self.finished() {
                return Ok(());
            }
            let due = self.due();
            self.driver.wait_for(&self.broker, &mut events, due)?;
            // The machine may have been suspended, or its wall clock set. In every pass: what comes
            // now may be written.
            self.broker.queues_mut().set_wall(self.clock.wall_epoch_now());
            // What is due by now comes before what comes now.
            self.broker.tick(self.clock.now());
            self.hear();
            if self.deposed {
                return Ok(());
            }
            self.driver.serve(&mut self.broker, &events);
        }
    }

    // ---- the store ------------------------------------------------------------------------------

    /// Hears what the store has done.
    fn hear(&mut self) {
        while let Some(news) = self.journal.as_mut().and_then(Journal::next_event) {
            match news {
                JournalEvent::Committed { number, sent, answered } => {
                    self.broker.committed(number, sent, answered);
                    self.taking_in.take_if(|batch| *batch <= number);
                    self.takes();
                }
                JournalEvent::Refused { number, batch, why } => {
                    let now = self.clock.now();
                    self.broker.refused(number, Arc::unwrap_or_clone(batch), now);
                    self.taking_in.take_if(|batch| *batch <= number);
                    self.write_at = now + RELUCTANT;
                    self.is_refused(why);
                }
                JournalEvent::Swept { found, refused } => {
                    self.take_in(&found);
                    self.is_swept(refused);
                }
                JournalEvent::Fetched(Ok(fetched)) => {
                    if let Some(refusal) = &mut self.unread {
                        refusal.takes = true;
                    }
                    self.broker.fetched(fetched, self.clock.now());
                }
                JournalEvent::Fetched(Err(why)) => {
                    self.broker.not_fetched();
                    self.is_unread(why);
                }
                JournalEvent::Lost(why) => self.is_lost(why),
                JournalEvent::Back => self.is_back(),
                JournalEvent::Deposed => self.is_deposed(),
            }
        }
        while let Some(news) = self.pool.as_ref().and_then(ConnectionPool::news) {
            match news {
                pool::PoolEvent::Answered(answers, way) => {
                    self.broker.database_replied(answers, &way, self.clock.now());
                }
                pool::PoolEvent::Refused(why) => self.is_refused(why),
                pool::PoolEvent::Takes => self.takes(),
                pool::PoolEvent::Lost(why) => self.is_lost(why),
                pool::PoolEvent::Back => self.is_back(),
                pool::PoolEvent::Deposed => self.is_deposed(),
            }
        }
    }

    fn is_refused(&mut self, why: String) {
        if self.reluctant.is_none() {
            (self.notice)(BrokerNotice::Refused(why));
        }
        self.reluctant = Some(Refusal { last: self.clock.now(), takes: false });
    }

    /// What is only in the store cannot be read now, and is asked for once more. The store is still
    /// given what is to be written.
    fn is_unread(&mut self, why: String) {
        let now = self.clock.now();
        self.write_at = now + RELUCTANT;
        if self.unread.is_none_or(|before| before.takes && before.end() <= now) {
            (self.notice)(BrokerNotice::Unread(why));
        }
        self.unread = Some(Refusal { last: now, takes: false });
    }

    /// A sweep is over, of which the store has refused something for this reason.
    fn is_swept(&mut self, refused: Option<String>) {
        let before = std::mem::replace(&mut self.unswept, refused.is_some());
        if before != self.unswept {
            (self.notice)(refused.map_or(BrokerNotice::Swept, BrokerNotice::Unswept));
        }
    }

    fn takes(&mut self) {
        if let Some(refusal) = &mut self.reluctant {
            refusal.takes = true;
        }
    }

    fn is_lost(&mut self, why: String) {
        self.store_lost = true;
        self.silence.restart(self.clock.now());
        (self.notice)(BrokerNotice::Lost(why));
    }

    fn is_back(&mut self) {
        self.store_lost = false;
        self.silence.restart(self.clock.now());
        (self.notice)(BrokerNotice::Back);
    }

    fn is_deposed(&mut self) {
        (self.notice)(BrokerNotice::Deposed);
        self.deposed = true;
    }

    /// What the outbox holds goes into the queues, as far as there is room; it is looked
    /// for again when that is committed.
    fn take_in(&mut self, found: &OutboxPart) {
        let now = self.clock.now();
        let queues = self.broker.queues_mut();
        for one in &found.messages {
            if !queues.has_room(one.body.len()) {
                // What is left is read again with the next sweep.
                return;
            }
            let &OutboxMessage { number, ref tube, priority, delay, ttr, ref body } = one;
            let put = Put { priority, delay, ttr, body, ..Put::default() };
            queues.take_in(number, tube, &put, now);
            self.taking_in = Some(queues.next_batch());
        }
        if found.more {
            self.sweep_at = now;
        }
    }

    /// Gives the store something to do if it has nothing.
    fn feed(&mut self) {
        let now = self.clock.now();
        if let Some(pool) = &self.pool {
            let asked = self.broker.take_queries();
            if !asked.is_empty() {
                pool.ask(asked);
            }
        }
        let Some(journal) = &mut self.journal else { return };
        if self.sweep_at <= now && journal.may_sweep() && self.taking_in.is_none() {
            journal.sweep(now);
            self.sweep_at = now + SWEEP;
        }
        if self.write_at > now {
            return;
        }
        match store_step(journal, &self.broker, self.has_read) {
            Some(StoreStep::Fetch) => {
                if let Some(wanted) = self.broker.take_fetch() {
                    self.has_read = true;
                    journal.fetch(wanted, now);
                }
            }
            Some(StoreStep::Write) => {
                if let Some((number, batch)) = self.broker.take_batch(now, journal.under_way() as u32) {
                    self.has_read = false;
                    journal.write(number, batch, now);
                }
            }
            None => {}
        }
    }

    // ---- time -----------------------------------------------------------------------------------

    fn tick(&mut self) {
        let now = self.clock.now();
        self.broker.tick(now);
        if self.reluctant.take_if(|refusal| refusal.end() <= now).is_some() {
            (self.notice)(BrokerNotice::Takes);
        }
        let owes_since = self.owes_since();
        if self.silence.look(owes_since, now) {
            let begins = self.silence.lasts();
            (self.notice)(if begins { BrokerNotice::Silent(SILENT) } else { BrokerNotice::Answers });
        }
        self.feed();
        self.driver.flush_clients(&mut self.broker);
        // What those did who could go on.
        self.feed();
        if let Some(BrokerAdmin { slot, live, .. }) = &self.admin {
            let takes = !self.store_lost && !self.silence.lasts() && self.reluctant.is_none();
            let reads = self.unread.is_none_or(|refusal| refusal.end() <= now);
            live.publish(takes, || self.broker.live(self.clock.now()));
            let stops = self.stop_by.is_some() || self.settings.ending.announced.load(Ordering::SeqCst);
            slot.publish(|| {
                self.driver.note_memory(&mut self.broker);
                let is_well = takes && reads && !self.unswept;
                BrokerSnapshot::of(&self.broker, self.clock.now(), is_well, stops)
            });
        }
    }

    /// Tells the operator what the connections of clients have to tell.
    fn tell(&mut self) {
        for notice in self.driver.notices.drain(..) {
            let memory = MemoryNotice::of(&notice, self.settings.clients.memory);
            let notice = match notice {
                driver::DriverNotice::NotAccepting(why) => Some(BrokerNotice::NotAccepting(why)),
                // Where it listens was told.
                _ => memory.map(BrokerNotice::Memory),
            };
            notice.into_iter().for_each(&mut self.notice);
        }
    }

    /// Since when the store owes an answer, while it can be reached; none: it owes none.
    fn owes_since(&self) -> Option<Stamp> {
        let journal = self.journal.as_ref().and_then(Journal::owes_since);
        let since = journal.or_else(|| self.pool.as_ref().and_then(ConnectionPool::owes_since));
        since.filter(|_| !self.store_lost)
    }

    /// Until when there is nothing to do unless something happens; none: for ever.
    fn due(&self) -> Option<Stamp> {
        let journal = self.journal.as_ref();
        let step = journal.and_then(|journal| store_step(journal, &self.broker, self.has_read));
        let sweeps = journal.is_some_and(|journal| journal.may_sweep() && self.taking_in.is_none());
        let store = step.map(|_| self.write_at).into_iter().chain(sweeps.then_some(self.sweep_at));
        let calm = self.reluctant.map(Refusal::end);
        // The pool's thread may not have begun with the sweep that it was given just now.
        let owes = self.owes_since().is_some() || (self.pool.is_some() && !self.store_lost);
        let look = owes.then(|| self.silence.next_look());
        // Clients go on at once for which there was nothing to read.
        let go_on = (self.broker.runnable() > 0).then_some(Stamp(0));
        let store = store.chain(calm).chain(look);
        self.broker.deadline().into_iter().chain(self.stop_by).chain(store).chain(go_on).min()
    }

    /// Does what it was told since the last pass: to accept no more messages, to end, to end at
    /// once.
    fn obey(&mut self) {
        let ending = Arc::clone(&self.settings.ending);
        if !self.drains && ending.drains.load(Ordering::SeqCst) {
            self.drains = true;
            self.broker.drain();
            (self.notice)(BrokerNotice::Draining);
        }
        if !ending.is_asked() {
            return;
        }
        let hurried = ending.is_hurried();
        if self.stop_by.is_none() {
            self.begin_to_stop();
        }
        if hurried {
            self.stop_by = self.stop_by.min(Some(self.clock.now()));
        }
    }

    fn begin_to_stop(&mut self) {
        let now = self.clock.now();
        self.stop_by = Some(now + self.settings.shutdown_limit);
        (self.notice)(BrokerNotice::Stopping);
        self.driver.stop(&mut self.broker);
    }

    /// Whether a stop was asked for and everything is done, or the time for it is over.
    fn finished(&mut self) -> bool {
        let Some(stop_by) = self.stop_by else { return false };
        let written = !self.broker.queues().has_batch()
            && self.journal.as_ref().is_none_or(|journal| journal.under_way() == 0);
        if self.driver.is_over(&self.broker) && written && self.broker.has_no_query() {
            return true;
        }
        if stop_by > self.clock.now() {
            return false;
        }
        if self.broker.unanswered() > 0 {
            (self.notice)(BrokerNotice::Unfinished(self.broker.unanswered()));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_due_at_the_store_while_reading_waits_for_a_commit() {
        assert_eq!(store_next(true, false, true), None);
        assert_eq!(store_next(true, true, true), Some(StoreStep::Fetch));
        assert_eq!(store_next(false, true, true), Some(StoreStep::Write));
        assert_eq!(store_next(false, true, false), None);
    }
}
