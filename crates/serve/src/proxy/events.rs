//! One event loop: every client and every server of the proxy on one thread, edge-triggered.
//!
//! ```text
//!        ┌─▶ wait for readiness: of the servers alone while they work, else of anybody
//!        │   read servers   ─▶ answers           one large read each
//!        │   read clients   ─▶ requests          one read each
//!        │   write servers  ◀─ requests          one write each, however many requests
//!        └── write clients  ◀─ replies           one write each, however many replies
//! ```
//!
//! Each of these has a slice of time (2 ms); what takes longer goes on in the next pass.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use krarup_net::datagram::Datagrams;
use krarup_net::mio::{Poll, Token, Waker};
use krarup_net::signal::Signals;
use krarup_net::{Clock, Conn, Listener, Moved, http, listen};
use krarup_units::{Address, Inbox};
use krarup_units::{Nanos, Stamp};

use crate::admin::{self, Desk, Reload};
use crate::proxy::credentials::{Credentials, credentials};
use crate::proxy::hold::Hold;
use crate::proxy::memory::{Memory, of_one_loop};
use crate::proxy::outlook::{Hearer, Numbers, Outlook, Resolved, Source};
use crate::proxy::patience::Patience;
use crate::slice::Slice;
use krarup_net::board::{Board, Boards};
use krarup_proxy::config::Config;
use krarup_proxy::core::{Core, LANES};
use krarup_proxy::dispatch::Common;
use krarup_proxy::metrics::Snapshot;
use krarup_proxy::topology::Topology;

mod bounds;
mod clients;
mod crew;
mod logins;
mod looking;
mod reload;
mod servers;
mod writing;

use clients::{Came, READS_A_PASS};
use crew::{Books, Crew, Order, Place};
use logins::{Login, Logins};
use looking::{Alarm, Answers, Looks};
use writing::Written;

const STOP: Token = Token(1);
const RELOAD: Token = Token(2);
/// Monitoring wants numbers, or there are news from outside.
const ASKED: Token = Token(3);
/// Something is due.
const ALARM: Token = Token(4);
/// Tokens of listening sockets begin here, those of servers behind them, then those of clients.
const LISTENERS: usize = 16;
const SERVERS: usize = 1 << 16;
const CLIENTS: usize = 1 << 20;

/// What one read from a client may bring. Clients share the buffer; what makes no whole request is kept apart.
const CLIENT_READ: usize = 256 << 10;
/// Bytes from clients after which servers are written to in the middle of a pass: large values go on while they are in
/// the processor's cache, and the server begins with the first while the last is still read.
const PASS_ON: usize = 64 << 10;
/// What one read from a server may bring at least.
const SERVER_READ: usize = 128 << 10;
/// While requests are with the servers, what is due is found out so often at least.
const SETTLED: Nanos = Nanos::from_millis(100);
/// So many lanes are looked at in every pass; where there are more, all of them so long after the last time.
const FEW_LANES: usize = 64;

/// Something the operator should know, told as it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Clients can connect here.
    Listening(Address),
    /// Monitoring can ask here.
    Admin(Address),
    /// A server takes requests.
    ServerUp(String),
    /// A server does not take requests, and why. Told when it changes, not at every attempt.
    ServerDown(String, String),
    /// A stop was asked for: no more clients are accepted.
    Stopping,
    /// What was in flight was not finished within the limit: this many requests are without a reply.
    Unfinished(usize),
    /// Clients cannot be accepted, and why.
    NotAccepting(String),
    /// The configuration was read again and holds from now on.
    Reloaded,
    /// The configuration was read again and is no good, why; the one before goes on.
    NotReloaded(String),
    /// Something that was asked for will do no good.
    Warning(String),
    /// Anybody can connect here from other machines, and is asked for nothing.
    Open(Address),
    /// The bound on memory was reached, and this client, which held this many bytes without getting on, was disconnected.
    Cut(u32, usize),
    /// Clients wait for memory from now on, of which there is so much.
    MemoryShort(usize),
    /// They do not any more; so many were disconnected meanwhile.
    MemoryEnough(u64),
}

impl Notice {
    /// Whether each of several loops tells it for itself.
    fn is_of_one_loop(&self) -> bool {
        matches!(self, Self::Cut(..) | Self::Unfinished(_) | Self::MemoryShort(_) | Self::MemoryEnough(_))
    }
}

/// What several loops say of their memory, told as one.
#[derive(Debug, Default)]
struct Together {
    /// Loops in which clients wait for memory.
    short: usize,
    cut: u64,
}

impl Together {
    /// What is told; none while another loop is as this one was.
    fn summed(&mut self, told: Notice) -> Option<Notice> {
        match told {
            Notice::MemoryShort(_) => {
                self.short += 1;
                (self.short == 1).then_some(told)
            }
            Notice::MemoryEnough(cut) => {
                self.short -= 1;
                self.cut += cut;
                (self.short == 0).then(|| Notice::MemoryEnough(std::mem::take(&mut self.cut)))
            }
            told => Some(told),
        }
    }
}

/// How the loop ended.
#[derive(Debug)]
pub struct Ended {
    /// The core, with everything recorded.
    pub core: Core,
    /// When it began.
    pub started: Stamp,
    /// When it ended.
    pub stopped: Stamp,
}

/// Tells the operator.
type Tell = Box<dyn FnMut(Notice) + Send>;

/// Runs the proxy until SIGINT or SIGTERM. At SIGHUP the configuration is read again. There is an event loop for each of `cores`, which are
/// for the configuration as it was resolved; what they recorded is added up at the end.
///
/// # Errors
/// Before the first client is accepted: the port cannot be had, a name cannot be resolved, the system refuses.
pub fn run(
    source: Source,
    cores: Vec<Core>,
    clock: Clock,
    mut notice: impl FnMut(Notice) + Send + 'static,
) -> Result<Ended, String> {
    let started = clock.now();
    let system = |error: io::Error| format!("cannot start an event loop: {error}");
    let polls: Vec<Poll> = cores.iter().map(|_| Poll::new()).collect::<Result<_, _>>().map_err(system)?;
    let wakers = polls.iter().map(|poll| Waker::new(poll.registry(), ASKED).map(Arc::new));
    let wakers: Vec<_> = wakers.collect::<Result<_, _>>().map_err(system)?;
    let resolved = source.resolved.clone();
    let credentials = Arc::new(credentials(&resolved.config.edge)?);
    for warning in &credentials.warnings {
        notice(Notice::Warning(warning.clone()));
    }
    let mut places = Vec::new();
    let mut cores = cores;
    if cores.len() > 1 {
        let common = Common::new(cores.len(), resolved.config.workers, resolved.config.queue);
        let common = Arc::new(common);
        places = Crew::gather(&wakers, &common)?;
        for (place, core) in cores.iter_mut().enumerate() {
            core.join(Arc::clone(&common), place);
        }
    }
    let notice = Arc::new(Mutex::new((Together::default(), notice)));
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
    let mut places = places.into_iter();
    let mut engines = Vec::new();
    for (number, (poll, core)) in polls.into_iter().zip(cores).enumerate() {
        let (place, tell) = (places.next(), tell(number == 0));
        let engine = Engine::before(&resolved, core, clock, tell, poll, Arc::clone(&credentials), place);
        engines.push(engine.map_err(system)?);
    }
    let mut others = engines.split_off(1).into_iter();
    let mut first = engines.pop().ok_or("there is no core to run")?;
    first.lead(source, &wakers[0])?;
    let spawn = |mut engine: Engine<Tell>| {
        let name = "krarup-loop".into();
        thread::Builder::new().name(name).spawn(move || engine.run().map(|()| engine.ended())).map_err(system)
    };
    let threads = others.by_ref().map(spawn).collect::<Result<Vec<_>, _>>()?;
    first.run().map_err(|error| format!("the event loop failed: {error}"))?;
    let mut core = first.ended();
    for thread in threads {
        let other = thread.join().map_err(|_| "an event loop has panicked".to_owned())?;
        core.absorb(&other.map_err(|error| format!("an event loop failed: {error}"))?);
    }
    let stopped = clock.now();
    core.advance(stopped);
    Ok(Ended { core, started, stopped })
}

struct Engine<N> {
    config: Config,
    /// Where news come from; of several loops only the first hears them.
    outlook: Option<Outlook>,
    core: Core,
    clock: Clock,
    notice: N,
    poll: Poll,
    /// Rings in `poll` when something is due.
    alarm: Alarm,
    answers: Answers,
    signals: Option<Signals>,
    /// Its place among several.
    crew: Option<Place>,
    entrances: Vec<Entrance>,
    /// One more with each listening socket: two never have the same token.
    entrances_made: usize,
    coming: Option<Coming>,
    credentials: Arc<Credentials>,
    patience: Patience,
    logins: Logins,
    memory: Memory,
    /// Clients that are still to be disconnected, the largest last: whether for a half request or for replies, and how many bytes that holds.
    to_cut: Vec<(bool, usize, u32)>,
    accepting: Accepting,
    servers: Links,
    /// When lanes are next looked at, where there are many.
    lanes_due: Stamp,
    /// Whether some of them may not be wanted any more.
    lanes_to_close: bool,
    clients: Vec<Option<ClientLink>>,
    /// Closed on our side, waiting for the other, so that it can read its last reply.
    lingering: Vec<(u32, ClientLink, Stamp)>,
    /// Clients that may have more to read than one pass took.
    ready: Vec<u32>,
    /// Servers of which the same is known, and whether their end has been announced.
    ready_servers: Vec<(usize, bool)>,
    /// Clients with long replies, in the order in which they are written.
    unwritten: VecDeque<u32>,
    slice: Slice,
    scratch: Vec<u8>,
    hold: Hold,
    /// Where numbers are laid down for monitoring, if this is the only loop.
    board: Option<Arc<Board<Snapshot>>>,
    /// What answers monitoring, and where that was said to be.
    admin: Option<(Address, http::Server)>,
    waker: Option<Arc<Waker>>,
    /// When what is in flight must be done, once a stop was asked for.
    stop_by: Option<Stamp>,
    /// Bytes read from clients since servers were last written to.
    taken_in: usize,
    /// Bytes read in this pass from clients one by one.
    taken_apart: usize,
    /// Nothing is due before, unless something unusual happens: then it is zero.
    settled_until: Stamp,
    /// Whether no server owed anything when that was found out: what is asked of one from then on may be due before.
    settled_idle: bool,
    some_servers: Vec<usize>,
    some_clients: Vec<u32>,
    /// Clients whose first replies wait for those that follow, while the servers are listened to.
    partly: Vec<u32>,
    /// What was read from clients and not looked at yet.
    came: Vec<Came>,
    /// Clients that are read one by one, after these.
    apart: Vec<u32>,
    /// What was written to clients and not entered yet.
    unentered: Vec<Written>,
}

/// A socket that clients connect to.
struct Entrance {
    /// As it was configured.
    address: Address,
    /// The pool of those who come in here.
    pool: usize,
    listener: Listener,
    /// Where datagrams are refused at the same port, on this machine's own addresses.
    datagrams: Option<Datagrams>,
    token: Token,
}

/// A configuration that was read and is good, and waits until its servers have been connected to.
struct Coming {
    config: Config,
    topology: Topology,
    entrances: Vec<(Address, usize)>,
    /// Listening sockets that are new.
    opened: Vec<(Address, Listener)>,
    /// What answers monitoring, where it is new.
    admin: Option<(Address, http::Server)>,
    credentials: Arc<Credentials>,
    servers: Vec<usize>,
    /// Who wants to hear of it.
    hearer: Option<Hearer>,
    /// It does not wait longer than this.
    until: Stamp,
}

/// Whether clients are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepting {
    /// Not before the servers have been tried, until this instant at most.
    After(Stamp),
    Yes,
    /// The system refused; it is asked again then.
    Retry(Stamp),
}

struct ServerLink {
    /// As it was configured.
    address: Address,
    addresses: Vec<SocketAddr>,
    /// Which of them is tried next.
    turn: usize,
    conn: Option<Conn>,
    inbox: Inbox,
    state: Link,
    writable: bool,
    /// Whether the operator knows that it is down.
    told_down: bool,
    told_up: bool,
    /// Whether the first attempt has ended, one way or the other.
    tried: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Waiting(Stamp),
    Connecting(Stamp),
    Connected,
    /// No pool has it any more.
    Retired,
}

struct ClientLink {
    conn: Conn,
    inbox: Inbox,
    /// When the last read brought something; before that, when it connected.
    received: Stamp,
    /// Since when it is sending what is no whole request yet.
    begun: Option<Stamp>,
    /// Whether it may ask for anything, as everybody may where nobody need say who he is.
    admitted: bool,
    login: Login,
    readable: bool,
    writable: bool,
    /// The system has announced the end: reads go on until they find it.
    end_near: bool,
    /// The peer will send no more.
    ended: bool,
    /// Whether what was written last is not entered yet.
    unentered: bool,
    /// When it last took something.
    wrote: Stamp,
    /// How long the request may be, in bytes, for which memory is reserved; zero where none is.
    reserved: usize,
    /// What that takes: the request may be copied for several servers.
    reserved_in_all: usize,
    /// Whether it waits for memory.
    waits: bool,
    /// Whether it stands among those that are to be read.
    listed: bool,
    /// What it had sent of a long request when the progress was last looked at.
    had: usize,
}

/// The servers' first connections and their lanes, by the core's numbers.
struct Links {
    first: Vec<ServerLink>,
    lanes: Vec<ServerLink>,
}

impl Links {
    /// A lane leads where the first connection does.
    fn open(&mut self, lane: usize, server: usize, now: Stamp) {
        let first = &self.first[server];
        let numbers = Numbers::from([(first.address.clone(), first.addresses.clone())]);
        let link = ServerLink::to(first.address.clone(), &numbers, now);
        // They are made one after the other.
        if lane - LANES == self.lanes.len() {
            self.lanes.push(link);
        } else {
            self[lane] = link;
        }
    }

    /// The numbers of all lanes.
    fn lanes(&self) -> std::ops::Range<usize> {
        LANES..LANES + self.lanes.len()
    }

    /// Every connection with its number.
    fn all(&self) -> impl Iterator<Item = (usize, &ServerLink)> {
        self.first.iter().enumerate().chain(self.lanes().zip(&self.lanes))
    }
}

impl std::ops::Index<usize> for Links {
    type Output = ServerLink;

    fn index(&self, number: usize) -> &ServerLink {
        if number < LANES { &self.first[number] } else { &self.lanes[number - LANES] }
    }
}

impl std::ops::IndexMut<usize> for Links {
    fn index_mut(&mut self, number: usize) -> &mut ServerLink {
        if number < LANES { &mut self.first[number] } else { &mut self.lanes[number - LANES] }
    }
}

impl ServerLink {
    /// A server that has not been connected to.
    fn to(address: Address, numbers: &Numbers, now: Stamp) -> Self {
        Self {
            addresses: numbers.get(&address).cloned().unwrap_or_default(),
            address,
            turn: 0,
            conn: None,
            inbox: Inbox::default(),
            state: Link::Waiting(now),
            writable: false,
            told_down: false,
            told_up: false,
            tried: false,
        }
    }
}

impl<N: FnMut(Notice)> Engine<N> {
    /// A loop before the servers of a configuration. Nobody can come in yet.
    fn before(
        resolved: &Resolved,
        core: Core,
        clock: Clock,
        notice: N,
        poll: Poll,
        credentials: Arc<Credentials>,
        crew: Option<Place>,
    ) -> io::Result<Self> {
        let Resolved { config, numbers } = resolved.clone();
        let (alarm, answers) = (Alarm::register(&poll)?, Answers::new()?);
        let now = clock.now();
        let addresses = config.addresses().into_iter();
        let first = addresses.map(|address| ServerLink::to(address, &numbers, now)).collect();
        let servers = Links { first, lanes: Vec::new() };
        let mut core = core;
        core.sign_in_with(credentials.login.clone());
        Ok(Self {
            outlook: None,
            core,
            clock,
            notice,
            poll,
            alarm,
            answers,
            signals: None,
            crew,
            entrances_made: 0,
            entrances: Vec::new(),
            coming: None,
            credentials,
            patience: Patience::new(config.edge.idle_timeout, config.edge.request_timeout, now),
            logins: Logins::default(),
            memory: Memory::new(of_one_loop(config.edge.memory, config.threads)),
            to_cut: Vec::new(),
            accepting: Accepting::After(now + config.connect_timeout),
            servers,
            lanes_due: now,
            lanes_to_close: false,
            clients: Vec::new(),
            lingering: Vec::new(),
            ready: Vec::new(),
            ready_servers: Vec::new(),
            unwritten: VecDeque::new(),
            slice: Slice::default(),
            scratch: vec![0; CLIENT_READ],
            hold: Hold::new(config.hold),
            board: None,
            admin: None,
            waker: None,
            stop_by: None,
            taken_in: 0,
            taken_apart: 0,
            settled_until: Stamp(0),
            settled_idle: true,
            some_servers: Vec::new(),
            some_clients: Vec::new(),
            partly: Vec::new(),
            came: Vec::new(),
            apart: Vec::new(),
            unentered: Vec::new(),
            config,
        })
    }

    /// What the first loop, or the only one, does for all: it listens, hears signals and news, and answers monitoring.
    fn lead(&mut self, source: Source, waker: &Arc<Waker>) -> Result<(), String> {
        let system = |error: io::Error| format!("cannot start an event loop: {error}");
        self.signals = Some(Signals::register(self.poll.registry(), STOP, RELOAD).map_err(system)?);
        let mut inherited = listen::inherited().into_iter();
        for (address, pool) in self.config.listeners()? {
            let listener = match inherited.next() {
                Some(listener) => listener,
                None => listen_at(&self.config, &address)?,
            };
            let token = Token(LISTENERS + self.entrances.len());
            self.entrances.push(Entrance { address, pool, listener, datagrams: None, token });
        }
        self.entrances_made = self.entrances.len();
        self.waker = Some(Arc::clone(waker));
        // A loop that cannot be woken hears the news when it next looks what is due.
        let wake = Arc::clone(waker);
        self.outlook = Some(Outlook::begin(source, move || _ = wake.wake()));
        if let Some(address) = self.config.admin.clone() {
            self.admin = Some((address.clone(), self.monitor(&address)?));
            self.tell_admin();
        }
        Ok(())
    }

    /// Answers monitoring at `address`.
    fn monitor(&mut self, address: &Address) -> Result<http::Server, String> {
        let ask: Box<dyn Fn() -> Option<Arc<Snapshot>> + Send + Sync> = match &self.crew {
            Some(place) => {
                let crew = Arc::clone(&place.crew);
                Box::new(move || {
                    let books = crew.books()?;
                    Some(Arc::new(Snapshot::of(&books.core, books.now, books.stopping)))
                })
            }
            None => {
                let waker = self.waker.as_ref().expect("the loop can be woken");
                let board = Arc::clone(self.board.get_or_insert_with(|| Board::new(Arc::clone(waker))));
                let boards = Boards::of(board);
                Box::new(move || boards.ask())
            }
        };
        let reload = self.outlook.as_ref().expect("it hears the news").reload();
        let reload = Reload { reload: Box::new(reload), alone: Mutex::default() };
        admin::serve(address, "`admin`", Desk { program: "krarup proxy", ask, reload: Some(reload) })
    }

    fn tell_admin(&mut self) {
        if let Some((_, server)) = &self.admin {
            (self.notice)(Notice::Admin(server.address.clone()));
        }
    }

    /// Its core, when it has run, with everything recorded.
    fn ended(self) -> Core {
        let mut core = self.core;
        core.settle_books();
        core
    }

    fn run(&mut self) -> io::Result<()> {
        let mut looks = Looks::new();
        loop {
            let mut now = self.clock.now();
            let settled = self.is_settled(now);
            if !settled {
                self.tick(now);
                if self.finished() {
                    return Ok(());
                }
                now = self.clock.now();
            } else if self.core.has_more_to_do() && !self.slice.is_spent() {
                self.flush();
            }
            self.look(&mut looks, now)?;
            let mut accept = false;
            let mut reload = false;
            let mut woken = false;
            let servers = SERVERS..CLIENTS;
            self.slice.begin();
            for (server, end_near) in std::mem::take(&mut self.ready_servers) {
                self.server_ready(server, end_near);
            }
            for event in looks.answers.iter().chain(&looks.events) {
                if servers.contains(&event.token().0) {
                    self.hear_server(event);
                }
            }
            self.slice.begin();
            for event in &looks.events {
                match event.token() {
                    STOP => self.stop(),
                    RELOAD => reload = self.signals.as_mut().is_some_and(|signals| signals.reloads() > 0),
                    // It is answered below.
                    ASKED => woken = true,
                    ALARM => self.settled_until = Stamp(0),
                    Token(token) if token < SERVERS => accept = true,
                    Token(token) if token < CLIENTS => {}
                    Token(token) => {
                        let id = (token - CLIENTS) as u32;
                        if let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) {
                            link.writable |= event.is_writable();
                            link.end_near |= event.is_read_closed() || event.is_error();
                            let broken =
                                event.is_error() || event.is_read_closed() && event.is_write_closed();
                            if link.waits && link.end_near {
                                self.ends_while_it_waits(id, broken);
                                continue;
                            }
                            let readable = event.is_readable() || event.is_read_closed() || event.is_error();
                            if readable
                                && !std::mem::replace(&mut link.readable, true)
                                && !std::mem::replace(&mut link.listed, true)
                            {
                                self.ready.push(id);
                            }
                            let waits = link.conn.is_waiting();
                            if event.is_writable() && waits {
                                let _ = link.conn.flush();
                            }
                            if event.is_writable() && (waits || !self.core.client_output(id).is_empty()) {
                                self.write_in_turn(id);
                            }
                        }
                    }
                }
            }
            self.read_clients();
            if accept {
                self.accept();
            }
            if reload && let Some(outlook) = &self.outlook {
                outlook.read_again();
            }
            while let Some(news) = self.outlook.as_ref().filter(|_| woken || !settled).and_then(Outlook::next)
            {
                self.settled_until = Stamp(0);
                self.hear(news);
            }
            if self.crew.is_some() {
                self.attend(woken);
            }
            let waited = std::mem::take(&mut self.partly);
            self.flush();
            self.write_clients(waited);
            self.look_after_memory();
            if let Some(board) = &self.board {
                board.lay(|| {
                    self.core.note_memory(self.memory.used(), self.memory.is_short());
                    self.core.settle_books();
                    Snapshot::of(&self.core, self.clock.now(), self.stop_by.is_some())
                });
            }
        }
    }

    // ---- time -------------------------------------------------------------------------------------------

    /// Whether nothing can be due at `now`: what is due next was found out not long ago, and nothing but requests and answers has come since. What
    /// these make due is later.
    fn is_settled(&self, now: Stamp) -> bool {
        now < self.settled_until
            && (!self.settled_idle || self.core.in_flight() == 0)
            && self.accepting == Accepting::Yes
            && !self.memory.is_short()
            && self.lingering.is_empty()
            && self.servers.lanes.is_empty()
            && !self.core.has_new_lanes()
            && self.core.due().is_none()
            && self.coming.is_none()
            && self.stop_by.is_none()
    }

    /// Does what is due.
    fn tick(&mut self, now: Stamp) {
        self.await_coming(now);
        for server in 0..self.servers.first.len() {
            if self.core.server_is_wanted(server) {
                self.keep(server, now);
            } else {
                self.retire(server);
            }
        }
        self.keep_lanes(now);
        self.core.tick(now);
        self.lose_patience(now);
        self.tick_logins(now);
        match self.accepting {
            Accepting::After(until) if until <= now || self.servers.first.iter().all(|link| link.tried) => {
                let others = self.crew.as_ref().is_none_or(|place| {
                    place.has_tried();
                    until <= now || !place.is_first() || place.others_have_tried()
                });
                if others {
                    self.open();
                }
            }
            Accepting::Retry(until) if until <= now => {
                self.accepting = Accepting::Yes;
                self.accept();
            }
            _ => {}
        }
        for place in (0..self.lingering.len()).rev() {
            let (_, link, until) = &mut self.lingering[place];
            let mut gone = *until <= now;
            // Who sends without end is not listened to all the time.
            for _ in 0..READS_A_PASS {
                match link.conn.read(&mut self.scratch) {
                    Moved::Some(_) => {}
                    Moved::None => break,
                    Moved::Closed | Moved::Failed(_) => {
                        gone = true;
                        break;
                    }
                }
            }
            if gone {
                self.lingering.swap_remove(place);
            }
        }
        if !self.slice.is_spent() {
            self.flush();
        }
    }

    // ---- among several ----------------------------------------------------------------------------------

    /// Does what other loops have ordered, and asks what clients want to know of all.
    fn attend(&mut self, woken: bool) {
        let now = self.clock.now();
        while let Some(order) = self.crew.as_ref().and_then(|place| place.orders.try_recv().ok()) {
            self.settled_until = Stamp(0);
            match order {
                Order::Guest(stream, pool) => self.welcome(stream, pool),
                Order::Told { number, class, text } => self.core.inform(number, class, &text, now),
                Order::Reset(done) => {
                    self.core.reset(now);
                    // Whoever has given up waiting need not hear it.
                    let _ = done.send(());
                }
                Order::Announce(resolved, credentials, generation) => {
                    if let Some(place) = &mut self.crew {
                        place.generation = generation;
                    }
                    // The first loop has found it good.
                    if let Ok(topology) = resolved.config.topology() {
                        self.coming = Some(self.announce(*resolved, topology, credentials));
                    }
                }
                Order::TakeOver => {
                    if let Some(coming) = self.coming.take() {
                        self.take_over(coming, now);
                    }
                }
                Order::Numbers(numbers) => self.renumber(&numbers),
                Order::Stop => self.stop_now(),
            }
        }
        if woken {
            self.core.resume(now);
        }
        let inquiries = self.core.take_inquiries();
        let Some(place) = &self.crew else { return };
        inquiries.into_iter().for_each(|inquiry| place.inquire(inquiry));
        self.core.note_memory(self.memory.used(), self.memory.is_short());
        place.board.lay(|| Books { core: self.core.books(), now, stopping: self.stop_by.is_some() });
    }

    /// Until when there is nothing to do unless something happens; none: for ever.
    fn next_due(&mut self, now: Stamp) -> Option<Stamp> {
        let more_to_read = !self.ready.is_empty() || !self.ready_servers.is_empty();
        let more_to_write = self.slice.is_spent() || !self.unwritten.is_empty();
        if more_to_read || more_to_write || !self.to_cut.is_empty() || self.core.has_new_lanes() {
            return Some(now);
        }
        if self.is_settled(now) {
            return Some(self.settled_until);
        }
        let logins_due = self.logins_due();
        let mut next: Option<Stamp> = self.stop_by;
        let mut at = |stamp: Stamp| next = Some(next.map_or(stamp, |next| next.min(stamp)));
        let many = self.servers.lanes.len() > FEW_LANES;
        if many && (self.lanes_to_close || self.core.in_flight() > 0) {
            at(self.lanes_due);
        }
        for (server, link) in self.servers.all().take_while(|&(server, _)| !many || server < LANES) {
            match link.state {
                Link::Waiting(until) | Link::Connecting(until) => at(until),
                Link::Connected => {
                    if let Some(deadline) = self.core.server_deadline(server) {
                        at(deadline);
                    }
                }
                Link::Retired => {}
            }
        }
        if let Accepting::After(until) | Accepting::Retry(until) = self.accepting {
            at(until);
        }
        if let Some(due) = self.core.due() {
            at(due);
        }
        if let Some(coming) = &self.coming {
            at(coming.until);
        }
        if self.core.clients() > 0
            && let Some(due) = self.patience.due()
        {
            at(due);
        }
        if let Some(due) = self.memory.due() {
            at(due);
        }
        if let Some(due) = logins_due {
            at(due);
        }
        if !self.lingering.is_empty() {
            at(now + Nanos::from_millis(20));
        }
        self.settled_idle = self.core.in_flight() == 0;
        if !self.settled_idle {
            // A request that comes after this is not due before.
            at(now + SETTLED.min(self.config.timeout));
        }
        self.settled_until = next.unwrap_or(Stamp(0));
        // Never before a moment from now, so that what is due at an instant is due when it is looked at.
        next.map(|next| next.max(now) + Nanos(1))
    }

    /// A stop was asked for; the second time, at once.
    fn stop(&mut self) {
        if self.signals.as_mut().is_some_and(|signals| signals.stops() > 0) {
            self.stop_now();
        }
    }

    fn stop_now(&mut self) {
        let now = self.clock.now();
        if self.stop_by.is_some() {
            self.stop_by = Some(now);
            return self.pass_on_stop();
        }
        self.stop_by = Some(now + self.config.shutdown_limit);
        // Who has connected is heard: with a shared port another process takes those who connect from now on.
        self.accept();
        self.entrances.clear();
        self.pass_on_stop();
        (self.notice)(Notice::Stopping);
        // What has arrived is still taken; then each client hears the end once it has its replies.
        for id in 0..self.clients.len() as u32 {
            if let Some(link) = &mut self.clients[id as usize]
                && !std::mem::replace(&mut link.readable, true)
            {
                // The last look into its socket; one that is readable already will be looked at in its turn.
                self.read_client(id);
            }
        }
    }

    /// The first loop tells the others, who have heard of every client by then.
    fn pass_on_stop(&self) {
        if let Some(place) = self.crew.as_ref().filter(|place| place.is_first()) {
            place.tell(|| Order::Stop);
        }
    }

    /// Whether a stop was asked for and everything is done, or the time for it is over.
    fn finished(&mut self) -> bool {
        let Some(stop_by) = self.stop_by else { return false };
        if self.core.clients() == 0 && self.core.unfinished() == 0 && self.lingering.is_empty() {
            // Others may want to know until the end what was counted here.
            if self.crew.as_mut().is_none_or(Place::rest) {
                return true;
            }
        }
        if stop_by > self.clock.now() {
            return false;
        }
        if let Some(place) = &mut self.crew {
            place.rest();
        }
        if self.core.unfinished() > 0 {
            (self.notice)(Notice::Unfinished(self.core.unfinished()));
        }
        true
    }
}

/// Refuses datagrams at an address of this machine's own, where the port can be had.
fn refuse_datagrams(address: &Address, poll: &Poll, token: Token) -> Option<Datagrams> {
    let number = format!("{address}").parse().ok()?;
    let mut datagrams = Datagrams::at(number).ok()?;
    datagrams.register(poll.registry(), token).ok()?;
    Some(datagrams)
}

fn listen_at(config: &Config, address: &Address) -> Result<Listener, String> {
    let options = listen::Options { mode: config.edge.socket_mode, share: config.edge.reuse_port };
    listen::listen_with(address, options)
}

fn link_has_output(core: &Core, server: usize) -> bool {
    !core.server_output(server).is_empty()
}
