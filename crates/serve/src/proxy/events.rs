//! One event loop: every client and every server of the proxy on one thread, edge-triggered.
//!
//! ```text
//!        ┌─▶ wait for readiness: of the servers alone while they work, else of all
//!        │   read servers   ─▶ answers           one large read each
//!        │   read clients   ─▶ requests          one read each
//!        │   write servers  ◀─ requests          one write each, however many requests
//!        └── write clients  ◀─ replies           one write each, however many replies
//! ```
//!
//! Each of these has a slice of time (2 ms); what takes longer goes on in the next pass.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use krarup_memcache::request::NO_DATAGRAMS;
use krarup_model::headroom::LiveSystem;
use krarup_net::mio::{Poll, Token, Waker};
use krarup_net::signal::Signals;
use krarup_net::{Clock, Listener, WallWatch, http, listen, processors};
use krarup_record::LiveSnapshot;
use krarup_service::{LANES, Service as _, Upstreams as _};
use krarup_units::{Address, Mistake, Nanos, Stamp};

use super::listening;
use crate::admin::{self, Monitoring, Reload};
use crate::clients::{CountedClients, LiveClients};
use crate::driver::{
    self, ALARM, CLIENTS, ConnectSettings, ConnectionState, Driver, FEW_LANES, HoldPolicy, Readiness,
    ServerConnection, ServerConnections, ServerPoll, UPSTREAMS, of_one_loop, uninterrupted,
};
use crate::headroom::{HeadroomPage, LiveHeadroom};
use crate::live::{LiveQuestion, LiveState};
use crate::orders::LoopOrders;
use crate::proxy::configuration::{
    ConfigurationSource, ConfigurationWatcher, ReloadReply, Resolved, STOPPING,
};
use crate::proxy::credentials::{Credentials, credentials};
use crate::redline::LiveRedline;
use crate::workers::WorkerControl;
use krarup_net::snapshots::{SnapshotSlot, SnapshotSlots};
use krarup_proxy::config::Config;
use krarup_proxy::core::Core;
use krarup_proxy::dispatch::{Common, WorkerSetting};
use krarup_proxy::live::{self, KeyState};
use krarup_proxy::metrics::ProxySnapshot;
use krarup_proxy::topology::Topology;

mod event_loops;
mod notice;
mod reload;

pub use notice::ProxyNotice;

use event_loops::{LoopCounts, LoopGroup, LoopHandle, Message};
use notice::MemoryNotices;

const STOP: Token = Token(1);
const RELOAD: Token = Token(2);
/// Monitoring wants numbers, or the configuration has changed.
const ASKED: Token = Token(3);
/// Tokens of listening sockets begin here.
const LISTENERS: usize = 16;

/// While requests are with the servers, what is due is found out so often at least.
const SETTLED: Nanos = Nanos::from_millis(100);

/// How the loop ended.
#[derive(Debug)]
pub struct ProxyEnd {
    /// The core, with everything recorded.
    pub core: Core,
    /// What all loops kept of the last minutes' traffic.
    pub traffic: LiveSnapshot,
    /// The system that it went through.
    pub system: LiveSystem,
    /// When it began.
    pub started: Stamp,
    /// When it ended.
    pub stopped: Stamp,
}

/// Tells the operator.
type Tell = Box<dyn FnMut(ProxyNotice) + Send>;

/// Runs the proxy until SIGINT or SIGTERM. At SIGHUP the configuration is read again. There is an
/// event loop for each of `cores`, which are for the configuration as it was resolved; what they
/// recorded is added up at the end. A browser that asks for the headroom is given a `page`.
///
/// # Errors
/// Before the first client is accepted: the port cannot be had, a name cannot be resolved, the
/// system refuses.
pub fn run(
    source: ConfigurationSource,
    cores: Vec<Core>,
    clock: Clock,
    page: HeadroomPage,
    mut notice: impl FnMut(ProxyNotice) + Send + 'static,
) -> Result<ProxyEnd, Mistake> {
    let started = clock.now();
    let system = |error: io::Error| format!("cannot start an event loop: {error}");
    let polls: Vec<Poll> = cores.iter().map(|_| Poll::new()).collect::<Result<_, _>>().map_err(system)?;
    let wakers = polls.iter().map(|poll| Waker::new(poll.registry(), ASKED).map(Arc::new));
    let wakers: Vec<_> = wakers.collect::<Result<_, _>>().map_err(system)?;
    let resolved = source.resolved.clone();
    let credentials = Arc::new(credentials(&resolved.config.edge)?);
    for warning in &credentials.warnings {
        notice(ProxyNotice::Warning(warning.clone()));
    }
    let mut members = Vec::new();
    let mut cores = cores;
    if cores.len() > 1 {
        let common = Common::new(cores.len(), resolved.config.workers.at_start(), resolved.config.queue);
        let common = Arc::new(common);
        members = LoopGroup::members(&wakers, &common)?;
        for (member, core) in cores.iter_mut().enumerate() {
            core.join(Arc::clone(&common), member);
        }
    }
    let notice = Arc::new(Mutex::new((MemoryNotices::default(), notice)));
    let tell = |all: bool| -> Tell {
        let notice = Arc::clone(&notice);
        Box::new(move |told| {
            let (together, notice) = &mut *notice.lock().unwrap_or_else(PoisonError::into_inner);
            // What every loop sees, the first one tells.
            if let Some(told) = together.summed(told)
                && (all || told.is_of_one_loop())
            {
                notice(told);
            }
        })
    };
    let mut members = members.into_iter();
    let mut engines = Vec::new();
    let orders = Arc::<LoopOrders>::default();
    let live: Vec<_> = wakers.iter().map(|waker| SnapshotSlot::new(Arc::clone(waker))).collect();
    let clients: Vec<_> = wakers.iter().map(|waker| SnapshotSlot::new(Arc::clone(waker))).collect();
    for (number, (poll, core)) in polls.into_iter().zip(cores).enumerate() {
        let (member, tell) = (members.next(), tell(number == 0));
        let (live, clients) = (Arc::clone(&live[number]), Arc::clone(&clients[number]));
        let place = LoopPlace { group: member, live, clients, orders: Arc::clone(&orders) };
        let engine = Engine::before(&resolved, core, clock, tell, poll, Arc::clone(&credentials), place);
        engines.push(engine.map_err(system)?);
    }
    let mut others = engines.split_off(1).into_iter();
    let mut first = engines.pop().ok_or("there is no core to run")?;
    first.headroom(LiveQuestion::new(live), page);
    first.all_clients = clients;
    first.lead(source, &wakers[0])?;
    let spawn = |mut engine: Engine<Tell>| {
        let name = "krarup-loop".into();
        thread::Builder::new().name(name).spawn(move || engine.run().map(|()| engine.ended())).map_err(system)
    };
    let threads = others.by_ref().map(spawn).collect::<Result<Vec<_>, _>>()?;
    first.run().map_err(|error| format!("the event loop failed: {error}"))?;
    let (config, processors) = (first.config.clone(), first.processors);
    let mut core = first.ended();
    let mut traffic = core.live(clock.now());
    for thread in threads {
        let other = thread.join().map_err(|_| "an event loop has panicked".to_owned())?;
        let other = other.map_err(|error| format!("an event loop failed: {error}"))?;
        traffic.merge(&other.live(clock.now()));
        core.absorb(&other);
    }
    let stopped = clock.now();
    core.advance(stopped);
    let system = live::system(&core, &config, processors);
    Ok(ProxyEnd { core, traffic, system, started, stopped })
}

/// What a loop is among all of the process.
struct LoopPlace {
    /// None: it is the only one.
    group: Option<LoopHandle>,
    /// Where it puts what it keeps for a model of the traffic.
    live: Arc<SnapshotSlot<LiveState>>,
    /// Where it puts what it has counted of its clients.
    clients: Arc<SnapshotSlot<CountedClients>>,
    /// What it is to do with reads and workers.
    orders: Arc<LoopOrders>,
}

struct Engine<N> {
    config: Config,
    /// Where changes of the configuration come from; of several loops only the first has it.
    watcher: Option<ConfigurationWatcher>,
    core: Core,
    clock: Clock,
    /// By what it shows expiry times are judged.
    wall: WallWatch,
    notice: N,
    /// The connections of clients,
    driver: Driver,
    /// and those to servers.
    servers: ServerConnections,
    signals: Option<Signals>,
    /// What it is among several.
    group: Option<LoopHandle>,
    next: Option<NextConfiguration>,
    credentials: Arc<Credentials>,
    /// Clients may not connect before the servers have been tried, until this instant at most.
    open_by: Stamp,
    hold: HoldPolicy,
    /// Where a snapshot is put for monitoring, if this is the only loop.
    slot: Option<Arc<SnapshotSlot<ProxySnapshot>>>,
    /// Where what it keeps for a model of the traffic is put, and, in the first loop, what answers
    /// about all.
    live: Arc<SnapshotSlot<LiveState>>,
    headroom: Option<Arc<LiveHeadroom>>,
    /// Where what it has counted of its clients is put, and, in the first loop, where all put it.
    clients: Arc<SnapshotSlot<CountedClients>>,
    all_clients: Vec<Arc<SnapshotSlot<CountedClients>>>,
    redline: Option<Arc<LiveRedline>>,
    /// What asks all loops what they have kept.
    question: Option<LiveQuestion>,
    /// Sets the number of workers, where that is automatic.
    workers: Option<WorkerControl>,
    /// What it is to do with reads and workers.
    orders: Arc<LoopOrders>,
    /// How many processors the process may use.
    processors: f64,
    /// What answers monitoring, and where that was said to be.
    admin: Option<(Address, http::HttpServer)>,
    waker: Option<Arc<Waker>>,
    /// When clients that have not left by themselves are stopped, once a stop was asked for.
    drain_by: Option<Stamp>,
    /// When what is in flight must be done, once it stops.
    stop_by: Option<Stamp>,
    /// Nothing is due before, unless something unusual happens: then it is zero.
    settled_until: Stamp,
    /// Whether no server owed anything when that was found out: what is asked of one from then on
    /// may be due before.
    settled_idle: bool,
}

/// A configuration that was read and is good, and waits until its servers have been connected to.
struct NextConfiguration {
    config: Config,
    topology: Topology,
    entrances: Vec<(Address, usize)>,
    /// Listening sockets that are new.
    opened: Vec<(Address, Listener)>,
    /// What answers monitoring, where it is new.
    admin: Option<(Address, http::HttpServer)>,
    credentials: Arc<Credentials>,
    servers: Vec<usize>,
    /// Where the outcome is sent: also to those that asked for one that this has superseded.
    replies: Vec<ReloadReply>,
    /// Whether it is the one that runs, with what the files hold that it names.
    renews: bool,
    /// It does not wait longer than this.
    until: Stamp,
}

impl<N: FnMut(ProxyNotice)> Engine<N> {
    /// A loop before the servers of a configuration. No client can connect yet.
    fn before(
        resolved: &Resolved,
        core: Core,
        clock: Clock,
        notice: N,
        poll: Poll,
        credentials: Arc<Credentials>,
        place: LoopPlace,
    ) -> io::Result<Self> {
        let LoopPlace { group, live, clients, orders } = place;
        // Loops sample independently of each other, and the same requests in each run.
        let seed = group.as_ref().map_or(0, |member| member.number as u64);
        let Resolved { config, numbers, .. } = resolved.clone();
        let now = clock.now();
        let addresses = config.addresses().into_iter();
        let found = |address: &Address| numbers.get(address).cloned().unwrap_or_default();
        let first = addresses.map(|address| ServerConnection::to(address.clone(), found(&address), now));
        let first = first.collect();
        let registry = poll.registry().try_clone()?;
        let settings = server_settings(&config, &credentials);
        let servers = ServerConnections::new(settings, first, clock, registry, ServerPoll::new()?);
        let mut driver = Driver::new(client_settings(&config, &credentials), poll, clock)?;
        driver.loops = group.as_ref().map(LoopHandle::distribution);
        let mut core = core;
        core.sign_in_with(credentials.login.clone());
        core.keep_live();
        core.sample_keys(seed);
        Ok(Self {
            watcher: None,
            core,
            clock,
            wall: WallWatch::new(clock),
            notice,
            driver,
            servers,
            signals: None,
            group,
            next: None,
            credentials,
            open_by: now + config.connect_timeout,
            hold: HoldPolicy::new(config.hold),
            slot: None,
            live,
            headroom: None,
            clients,
            all_clients: Vec::new(),
            redline: None,
            question: None,
            workers: None,
            orders,
            processors: processors::usable(),
            admin: None,
            waker: None,
            drain_by: None,
            stop_by: None,
            settled_until: Stamp(0),
            settled_idle: true,
            config,
        })
    }

    /// Answers about the headroom of the loops that `live` asks, and moves reads among their
    /// servers.
    fn headroom(&mut self, live: LiveQuestion, page: HeadroomPage) {
        let headroom = Arc::new(LiveHeadroom::new(live.clone(), page));
        let redline = LiveRedline::new(live.clone(), Arc::clone(&self.orders), Arc::clone(&headroom));
        (self.headroom, self.redline) = (Some(headroom), Some(Arc::new(redline)));
        self.question = Some(live);
    }

    /// Begins to set the number of workers where the configuration says so, and ends where not.
    fn steer_workers(&mut self) {
        let automatic = self.config.workers == WorkerSetting::Automatic;
        let question = self.question.as_ref().filter(|_| automatic);
        match question {
            Some(_) if self.workers.is_some() => {}
            // Without memory for a thread they stay as many as they are.
            Some(live) => self.workers = WorkerControl::begin(live.clone(), Arc::clone(&self.orders)).ok(),
            None => self.workers = None,
        }
    }

    /// What the first loop, or the only one, does for all: it listens, receives signals and changes
    /// of the configuration, and answers monitoring. The admin address comes first: once a port is
    /// listened on that another proxy has, too, clients connect here.
    fn lead(&mut self, source: ConfigurationSource, waker: &Arc<Waker>) -> Result<(), Mistake> {
        let system = |error: io::Error| format!("cannot start an event loop: {error}");
        self.signals = Some(Signals::register(self.driver.registry(), STOP, RELOAD).map_err(system)?);
        // Before there are threads that look up names: it changes the environment.
        let (inherited, listeners) = (listen::inherited(), self.config.listeners()?);
        listen::all_used(inherited.len(), listeners.len())?;
        self.waker = Some(Arc::clone(waker));
        // A loop that cannot be woken looks for changes when something is next due.
        let wake = Arc::clone(waker);
        self.watcher = Some(ConfigurationWatcher::begin(source, move || _ = wake.wake()));
        if let Some(address) = self.config.admin.clone() {
            let server = self.monitor(&address).map_err(|why| self.of_the_replaced(why))?;
            self.admin = Some((address, server));
        }
        let inherited = in_place_of(&listeners, inherited);
        for ((address, pool), inherited) in listeners.into_iter().zip(inherited) {
            let listener = match inherited {
                Some(listener) => listener,
                None => listen_at(&self.config, &address)?,
            };
            self.driver.listen(address, pool, listener);
        }
        self.steer_workers();
        self.tell_admin();
        Ok(())
    }

    /// Why monitoring cannot ask at its address, where the proxy that has it may be the one that
    /// this one is to replace.
    fn of_the_replaced(&self, why: Mistake) -> Mistake {
        if !self.config.edge.reuse_port || !why.what.ends_with(listen::TAKEN) {
            return why;
        }
        Mistake::new(why.what, "beside a proxy that it replaces, give it another --admin")
    }

    /// Answers monitoring at `address`.
    fn monitor(&mut self, address: &Address) -> Result<http::HttpServer, Mistake> {
        let ask: Box<dyn Fn() -> Option<Arc<ProxySnapshot>> + Send + Sync> = match &self.group {
            Some(member) => {
                let group = Arc::clone(&member.group);
                Box::new(move || {
                    let books = group.books()?;
                    Some(Arc::new(ProxySnapshot::of(&books.core, books.now, books.stopping)))
                })
            }
            None => {
                let waker = self.waker.as_ref().expect("the loop can be woken");
                let slot = Arc::clone(self.slot.get_or_insert_with(|| SnapshotSlot::new(Arc::clone(waker))));
                let slots = SnapshotSlots::of(slot);
                Box::new(move || slots.ask())
            }
        };
        let reload = self.watcher.as_ref().expect("the first loop has it").reload();
        let reload = Box::new(move || reload().map(|()| None));
        let reload = Reload { what: "configuration", reload, alone: Mutex::default() };
        let headroom = self.headroom.clone();
        let redline = self.redline.clone();
        let reload = Some(Arc::new(reload));
        let clients = Some(LiveClients::new(self.all_clients.clone()));
        let monitoring = Monitoring { program: "krarup proxy", ask, headroom, clients, redline, reload };
        admin::serve(address, "`admin`", monitoring)
    }

    fn tell_admin(&mut self) {
        if let Some((_, server)) = &self.admin {
            (self.notice)(ProxyNotice::Admin(server.address.clone()));
        }
    }

    /// Its core, when it has run, with everything recorded.
    fn ended(self) -> Core {
        let mut core = self.core;
        core.settle_books();
        core
    }

    fn run(&mut self) -> io::Result<()> {
        let mut ready = Readiness::new();
        loop {
            self.driver.count_pass();
            let mut now = self.clock.now();
            let settled = self.is_settled(now);
            if !settled {
                self.tick(now);
                if self.finished() {
                    return Ok(());
                }
                now = self.clock.now();
            } else if self.core.has_more_to_do() && !self.driver.slice().is_spent() {
                self.flush();
            }
            self.wait(&mut ready, now)?;
            if self.settled_idle {
                // It may have waited for long, and the machine been suspended meanwhile.
                self.look_at_wall(self.clock.now());
            }
            let mut accept = false;
            let mut reload = false;
            let mut woken = false;
            self.driver.slice().begin();
            for (server, end_near) in std::mem::take(&mut self.servers.ready) {
                self.servers.read_server(&mut self.core, self.driver.slice(), server, end_near);
                self.note_read();
            }
            for event in ready.answers.iter().chain(&ready.events) {
                if (UPSTREAMS..CLIENTS).contains(&event.token().0) {
                    self.servers.note_server(&mut self.core, self.driver.slice(), event);
                    self.note_read();
                }
            }
            self.driver.slice().begin();
            for event in &ready.events {
                match event.token() {
                    STOP => self.stop(),
                    RELOAD => reload = self.signals.as_mut().is_some_and(|signals| signals.reloads() > 0),
                    // It is answered below.
                    ASKED => woken = true,
                    ALARM => self.settled_until = Stamp(0),
                    Token(token) if token < UPSTREAMS => accept |= token >= LISTENERS,
                    Token(token) if token < CLIENTS => {}
                    _ => self.driver.note(&mut self.core, event),
                }
            }
            self.driver.read_clients(&mut self.core, &mut self.servers);
            if accept {
                self.driver.accept(&mut self.core);
            }
            if reload && let Some(watcher) = &self.watcher {
                watcher.reread();
            }
            while let Some(change) =
                self.watcher.as_ref().filter(|_| woken || !settled).and_then(ConfigurationWatcher::next)
            {
                self.settled_until = Stamp(0);
                self.apply(change);
            }
            if self.group.is_some() {
                self.handle_messages(woken);
            }
            let delayed = self.driver.take_delayed();
            self.flush();
            self.driver.write_delayed(&mut self.core, delayed);
            self.driver.look_after_memory(&mut self.core, &mut self.servers);
            self.tell();
            self.publish_live();
            self.publish_clients();
            let stopping = self.is_stopping();
            if let Some(slot) = &self.slot {
                slot.publish(|| {
                    self.driver.note_memory(&mut self.core);
                    self.core.settle_books();
                    ProxySnapshot::of(&self.core, self.clock.now(), stopping)
                });
            }
        }
    }

    /// Lays down what is kept for a model of the traffic, if a thread has asked for it, and does
    /// with reads what is ordered from then on.
    fn publish_live(&mut self) {
        self.live.publish(|| {
            let now = self.clock.now();
            self.core.push_reads(self.orders.push().as_ref());
            if let Some(workers) = self.orders.workers() {
                self.core.set_workers(workers, now);
            }
            LiveState {
                kept: self.core.live(now),
                system: live::system(&self.core, &self.config, self.processors),
                target: self.config.headroom_target,
                pools: live::replicated_pools(&self.core, now),
                redline_lock: self.config.redline_lock.clone(),
                config: Some(Box::new(self.config.clone())),
                keys: vec![KeyState::of(&self.core, now)],
            }
        });
    }

    /// Lays down what clients have done, if a thread has asked for it.
    fn publish_clients(&mut self) {
        let number = self.group.as_ref().map_or(0, |member| member.number);
        let (core, driver, clock) = (&self.core, &mut self.driver, self.clock);
        self.clients
            .publish(|| CountedClients { now: clock.now(), counts: driver.client_counts(core, number) });
    }

    /// Writes until no client has anything to write that can be written: replies free workers, and
    /// these ask servers again.
    fn flush(&mut self) {
        self.driver.flush(&mut self.core, &mut self.servers);
    }

    /// What was read from servers takes memory as well.
    #[inline]
    fn note_read(&mut self) {
        self.driver.read_elsewhere(std::mem::take(&mut self.servers.read));
        self.driver.count_memory(&mut self.core, &mut self.servers);
    }

    /// Tells the operator what the two kinds of connections have to tell.
    fn tell(&mut self) {
        for notice in self.servers.notices.drain(..).chain(self.driver.notices.drain(..)) {
            let notice = match notice {
                driver::DriverNotice::Listening(address, open) => {
                    (self.notice)(ProxyNotice::Listening(address.clone()));
                    if address.is_local() || !open {
                        continue;
                    }
                    ProxyNotice::Open(address)
                }
                driver::DriverNotice::NotAccepting(why) => ProxyNotice::NotAccepting(why),
                driver::DriverNotice::Cut(client, bytes) => ProxyNotice::Cut(client, bytes),
                driver::DriverNotice::MemoryShort => ProxyNotice::MemoryShort(self.config.edge.memory),
                driver::DriverNotice::MemoryEnough(cut) => ProxyNotice::MemoryEnough(cut),
                driver::DriverNotice::ServerUp(server) => ProxyNotice::ServerUp(server.to_string()),
                driver::DriverNotice::ServerDown(server, why) => {
                    ProxyNotice::ServerDown(server.to_string(), why)
                }
                driver::DriverNotice::AnswerRefused(server, why) => {
                    ProxyNotice::AnswerRefused(server.to_string(), why)
                }
            };
            (self.notice)(notice);
        }
    }

    /// Waits until a socket is ready or something is due.
    fn wait(&mut self, ready: &mut Readiness, before: Stamp) -> io::Result<()> {
        ready.answers.clear();
        ready.events.clear();
        let due = self.next_due(before);
        let at_once = due == Some(before);
        let alarm = due.filter(|_| !at_once);
        let in_flight = self.core.in_flight();
        let hold = self.hold.begins(in_flight, before).filter(|_| !at_once);
        let Some(limit) = hold.filter(|_| self.servers.can_be_written_to()) else {
            ready.skipped = false;
            let delayed = self.driver.take_delayed();
            self.driver.write_delayed(&mut self.core, delayed);
            let more = self.core.has_more_to_do();
            if more && !self.driver.slice().is_spent() {
                // Something may be due, or to be read, that was not before.
                self.flush();
            }
            return self.driver.wait(&mut ready.events, alarm, before, at_once || more);
        };
        let due = due.map_or(before + limit, |due| due.min(before + limit));
        self.servers.poll.alarm.by(due, before)?;
        uninterrupted(self.servers.poll.poll.poll(&mut ready.answers, None))?;
        self.servers.poll.alarm.note(&ready.answers);
        let now = self.clock.now();
        // An alarm that was set in an earlier hold and rings early says nothing of the servers.
        let answered = ready.answers.iter().any(|event| event.token() != ALARM);
        if answered || now >= due {
            self.hold.ended(Nanos(now.0 - before.0), now);
        }
        // Where every client waits for its answer, none is likely to have asked again.
        ready.skipped = !ready.skipped && in_flight >= self.core.clients() && answered;
        if ready.skipped { Ok(()) } else { self.driver.wait(&mut ready.events, alarm, before, true) }
    }

    // ---- time -----------------------------------------------------------------------------------

    /// Whether nothing can be due at `now`: what is due next was found out not long ago, and
    /// nothing but requests and answers has come since. What these make due is later.
    fn is_settled(&self, now: Stamp) -> bool {
        now < self.settled_until
            && (!self.settled_idle || self.core.in_flight() == 0)
            && !self.servers.changed
            && self.driver.is_settled()
            && !self.servers.lanes_to_close
            && !(self.config.dedicated && self.driver.one_gone)
            && !self.core.has_new_lanes()
            && self.core.deadline().is_none()
            && self.next.is_none()
            && !self.is_stopping()
    }

    fn look_at_wall(&mut self, now: Stamp) {
        if let Some(epoch) = self.wall.look(now) {
            self.core.set_unix(epoch.0 / 1_000_000_000);
        }
    }

    /// Does what is due.
    fn tick(&mut self, now: Stamp) {
        self.look_at_wall(now);
        self.take_over_when_ready(now);
        for server in 0..self.servers.links.first.len() {
            if self.core.server_is_wanted(server) {
                self.servers.keep(&mut self.core, server, now);
            } else {
                self.servers.retire(&mut self.core, server);
            }
        }
        if std::mem::take(&mut self.driver.one_gone) {
            self.servers.lanes_to_close |= self.config.dedicated;
        }
        self.servers.keep_lanes(&mut self.core, now);
        self.core.tick(now);
        if self.driver.is_closed() && self.stop_by.is_none() {
            self.open_when_ready(now);
        }
        self.tick_drain(now);
        self.driver.tick(&mut self.core, now);
        if !self.driver.slice().is_spent() {
            self.flush();
        }
        self.tell();
    }

    /// Clients may connect once the servers have been tried, by all loops.
    fn open_when_ready(&mut self, now: Stamp) {
        let late = self.open_by <= now;
        if !late && !self.servers.links.first.iter().all(|link| link.tried) {
            return;
        }
        let others = self.group.as_ref().is_none_or(|member| {
            member.has_tried();
            late || !member.is_first() || member.others_have_tried()
        });
        if others {
            self.driver.open();
        }
    }

    // ---- among several --------------------------------------------------------------------------

    /// Does what other loops have ordered, and asks what clients want to know of all.
    fn handle_messages(&mut self, woken: bool) {
        let now = self.clock.now();
        while let Some(message) = self.group.as_ref().and_then(|member| member.messages.try_recv().ok()) {
            self.settled_until = Stamp(0);
            match message {
                Message::Client(stream, pool) => self.driver.admit(&mut self.core, stream, pool),
                Message::Inform { number, class, text } => self.core.inform(number, class, &text, now),
                Message::Reset(done) => {
                    self.core.reset(now);
                    // It may have given up waiting.
                    let _ = done.send(());
                }
                Message::Announce(resolved, credentials, generation) => {
                    if let Some(member) = &mut self.group {
                        member.generation = generation;
                    }
                    // The first loop has found it good.
                    if let Ok(topology) = resolved.config.topology() {
                        self.next = Some(self.announce(*resolved, topology, credentials));
                    }
                }
                Message::TakeOver => {
                    if let Some(next) = self.next.take() {
                        self.take_over(next, now);
                    }
                }
                Message::Refuse => self.refuse_next(),
                Message::Numbers(numbers) => self.update_addresses(&numbers),
                Message::Stop => self.stop_now(),
            }
        }
        if woken {
            self.core.resume(now);
        }
        let inquiries = self.core.take_inquiries();
        let stopping = self.is_stopping();
        let Some(member) = &self.group else { return };
        inquiries.into_iter().for_each(|inquiry| member.inquire(inquiry));
        self.driver.note_memory(&mut self.core);
        member.slot.publish(|| LoopCounts { core: self.core.books(), now, stopping });
    }

    /// Until when there is nothing to do unless something happens; none: for ever.
    fn next_due(&mut self, now: Stamp) -> Option<Stamp> {
        if self.driver.has_more_to_do() || !self.servers.ready.is_empty() || self.core.has_new_lanes() {
            return Some(now);
        }
        if self.is_settled(now) {
            return Some(self.settled_until);
        }
        let clients_due = self.driver.deadline(&self.core);
        if std::mem::take(&mut self.driver.one_gone) {
            self.servers.lanes_to_close |= self.config.dedicated;
        }
        // Clients of other loops leave without a word to this one.
        let mut next = self.stop_by.or(self.drain_by.map(|until| until.min(now + SETTLED)));
        let mut at = |stamp: Stamp| next = Some(next.map_or(stamp, |next| next.min(stamp)));
        let many = self.servers.links.lanes.len() > FEW_LANES;
        if many && (self.servers.lanes_to_close || self.core.in_flight() > 0) {
            at(self.servers.lanes_due);
        }
        for (server, link) in self.servers.links.all().take_while(|&(server, _)| !many || server < LANES) {
            match link.state {
                ConnectionState::Waiting(until) | ConnectionState::Connecting(until) => at(until),
                ConnectionState::Connected => {
                    if let Some(deadline) = self.core.server_deadline(server) {
                        at(deadline);
                    }
                }
                ConnectionState::Retired => {}
            }
        }
        if self.driver.is_closed() && self.stop_by.is_none() {
            at(self.open_by);
        }
        if let Some(due) = self.core.deadline() {
            at(due);
        }
        if let Some(next) = &self.next {
            at(next.until);
        }
        if let Some(due) = clients_due {
            at(due);
        }
        (self.servers.changed, self.driver.changed) = (false, false);
        self.settled_idle = self.core.in_flight() == 0;
        if !self.settled_idle {
            // A request that comes after this is not due before.
            at(now + SETTLED.min(self.config.timeout));
        }
        self.settled_until = next.unwrap_or(Stamp(0));
        // Never before a moment from now, so that what is due at an instant is due when it is
        // looked at.
        next.map(|next| next.max(now) + Nanos(1))
    }

    /// Whether clients should go elsewhere.
    fn is_stopping(&self) -> bool {
        self.stop_by.is_some() || self.drain_by.is_some()
    }

    /// A stop was asked for: first clients may leave by themselves, where there is a time for that.
    fn stop(&mut self) {
        if self.signals.as_mut().is_none_or(|signals| signals.stops() == 0) {
            return;
        }
        if self.is_stopping() || self.config.drain == Nanos::ZERO {
            return self.stop_now();
        }
        // Those that have just connected, and wait to be accepted, are served as well.
        self.refuse_next();
        self.driver.close_entrances(&mut self.core);
        if self.driver.clients_of_all(&self.core) == 0 {
            return self.stop_now();
        }
        self.drain_by = Some(self.clock.now() + self.config.drain);
        (self.notice)(ProxyNotice::Draining);
    }

    /// No other configuration is taken over, which would listen: servers are connected to as the
    /// one says that stays.
    fn refuse_next(&mut self) {
        let Some(next) = self.next.take() else { return };
        self.core.announce(Vec::new());
        self.core.sign_in_with(self.credentials.login.clone());
        self.servers.settings = server_settings(&self.config, &self.credentials);
        if let Some(member) = self.group.as_ref().filter(|member| member.is_first()) {
            member.tell(|| Message::Refuse);
        }
        for reply in next.replies {
            // It may have given up waiting.
            let _ = reply.send(Err(STOPPING.into()));
        }
    }

    /// Stops once all clients have left, or their time for it is over.
    fn tick_drain(&mut self, now: Stamp) {
        let over = |until| until <= now || self.driver.clients_of_all(&self.core) == 0;
        if self.stop_by.is_none() && self.drain_by.is_some_and(over) {
            self.stop_now();
        }
    }

    /// What is in flight is finished, then it ends; the second time, at once.
    fn stop_now(&mut self) {
        let now = self.clock.now();
        if self.stop_by.is_some() {
            self.stop_by = Some(now);
            return self.pass_on_stop();
        }
        self.stop_by = Some(now + self.config.shutdown_limit);
        self.refuse_next();
        self.driver.stop(&mut self.core);
        self.pass_on_stop();
        (self.notice)(ProxyNotice::Stopping);
    }

    /// The first loop tells the others, which know of every client by then.
    fn pass_on_stop(&self) {
        if let Some(member) = self.group.as_ref().filter(|member| member.is_first()) {
            member.tell(|| Message::Stop);
        }
    }

    /// Whether a stop was asked for and everything is done, or the time for it is over.
    fn finished(&mut self) -> bool {
        let Some(stop_by) = self.stop_by else { return false };
        let is_over = self.driver.is_over(&self.core) && self.core.unfinished() == 0;
        // Copies behind writes belong to no request, and would be lost with their connection.
        if is_over && self.core.owes_copy().is_none() {
            // Others may want to know until the end what was counted here.
            if self.group.as_mut().is_none_or(LoopHandle::rest) {
                return true;
            }
        }
        if stop_by > self.clock.now() {
            return false;
        }
        if let Some(member) = &mut self.group {
            member.rest();
        }
        if self.core.in_progress() > 0 {
            (self.notice)(ProxyNotice::Unfinished(self.core.in_progress()));
        }
        true
    }
}

/// What the configuration says of clients' connections, for one of its loops.
fn client_settings(config: &Config, credentials: &Credentials) -> driver::DriverSettings {
    let edge = &config.edge;
    let certified = edge.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
    driver::DriverSettings {
        connections: config.max_connections,
        tls: credentials.acceptor.clone(),
        users: credentials.users.clone(),
        asks: credentials.users.is_some() || certified,
        keep_alive: edge.keep_alive,
        idle: edge.idle_timeout,
        request: edge.request_timeout,
        login: edge.login_timeout,
        unauthenticated: edge.max_unauthenticated / config.threads,
        memory: of_one_loop(edge.memory, config.threads),
        no_datagrams: Some(NO_DATAGRAMS),
        link: config.link,
    }
}

/// The same for the connections to servers.
fn server_settings(config: &Config, credentials: &Credentials) -> ConnectSettings {
    let name = config.edge.server_tls.as_ref().and_then(|tls| tls.name.clone());
    ConnectSettings {
        connect_timeout: config.connect_timeout,
        keep_alive: config.edge.keep_alive,
        tls: credentials.connector.clone().map(|connector| (connector, name)),
    }
}

fn listen_at(config: &Config, address: &Address) -> Result<Listener, Mistake> {
    listen::listen_with(address, listening(&config.edge))
}

/// The sockets that were given, each in place of one of these: of the one with its address, or else
/// with its port, or else of the next that has none. Pools stand by name, and sockets as their unit
/// has them.
fn in_place_of(listeners: &[(Address, usize)], mut given: Vec<Listener>) -> Vec<Option<Listener>> {
    let fits: [fn(&Listener, &Address) -> bool; 3] = [
        |given, address| given.address().is_ok_and(|own| own == *address),
        |given, address| given.address().is_ok_and(|own| own.port > 0 && own.port == address.port),
        |_, _| true,
    ];
    let mut taken: Vec<Option<Listener>> = listeners.iter().map(|_| None).collect();
    for fits in fits {
        let places = listeners.iter().zip(&mut taken).filter(|(_, place)| place.is_none());
        for ((address, _), place) in places {
            let found = given.iter().position(|given| fits(given, address));
            *place = found.map(|found| given.remove(found));
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_was_given_is_in_place_of_its_address_or_its_port_and_the_others_in_order() {
        let free: Address = "127.0.0.1:0".parse().unwrap();
        let bound = || listen::listen_with(&free, listen::Options::default()).unwrap();
        let given: Vec<Listener> = (0..4).map(|_| bound()).collect();
        let own: Vec<Address> = given.iter().map(|listener| listener.address().unwrap()).collect();
        let everywhere = Address { host: "0.0.0.0".into(), port: own[2].port };
        let listeners = [free.clone(), everywhere, own[1].clone(), free.clone(), free.clone()];
        let listeners: Vec<(Address, usize)> = listeners.into_iter().zip(0..).collect();
        let taken = in_place_of(&listeners, given).into_iter();
        let taken: Vec<_> = taken.map(|taken| taken.map(|listener| listener.address().unwrap())).collect();
        let expected = [Some(&own[0]), Some(&own[2]), Some(&own[1]), Some(&own[3]), None];
        assert_eq!(taken, expected.map(Option::<&Address>::cloned));
    }
}
