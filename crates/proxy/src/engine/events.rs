//! One event loop: every client and every server of the proxy on one thread, edge-triggered.
//!
//! ```text
//!        ┌─▶ wait for readiness: of the servers alone while they work, else of anybody
//!        │   read servers   ─▶ answers           one large read each
//!        │   read clients   ─▶ requests          one read each
//!        │   write servers  ◀─ requests          one write each, however many requests
//!        └── write clients  ◀─ replies           one write each, however many replies
//! ```

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use krarup_memcache::request::NO_DATAGRAMS;
use krarup_net::datagram::Datagrams;
use krarup_net::mio::unix::SourceFd;
use krarup_net::mio::{Events, Interest, Poll, Token, Waker};
use krarup_net::signal::Signals;
use krarup_net::{Address, Clock, Conn, Inbox, Listener, Moved, Stream, http, listen};
use krarup_record::Outcome;
use krarup_units::{Nanos, Stamp};

use crate::admin::{self, Board, Desk, Snapshot};
use crate::config::Config;
use crate::core::{Core, LANES};
use crate::dispatch::Common;
use crate::edge::Credentials;
use crate::engine::outlook::{Hearer, News, Numbers, Outlook, Resolved, Source};
use crate::engine::plain;
use crate::gate::Knock;
use crate::hold::Hold;
use crate::patience::{Patience, Waited};
use crate::topology::Topology;

mod crew;

use crew::{Books, Crew, Order, Place};

const STOP: Token = Token(1);
const RELOAD: Token = Token(2);
/// Monitoring wants numbers, or there are news from outside.
const ASKED: Token = Token(3);
/// A server's connection is ready.
const SERVERS_READY: Token = Token(4);
/// Tokens of listening sockets begin here, those of servers behind them, then those of clients.
const LISTENERS: usize = 16;
const SERVERS: usize = 1 << 16;
const CLIENTS: usize = 1 << 20;

/// What one read from a client may bring. Clients share the buffer; what makes no whole request is kept apart.
const CLIENT_READ: usize = 256 << 10;
/// Bytes from clients after which servers are written to in the middle of a pass: large values go on while they are in
/// the processor's cache, and the server begins with the first while the last is still read.
const PASS_ON: usize = 64 << 10;
/// Bytes from one server after which clients are written to before more is read from it: who sends without end must not fill the memory.
const PASS_ON_ANSWERS: usize = 4 << 20;
/// What one read from a server may bring at least.
const SERVER_READ: usize = 128 << 10;
/// Memory a quiet server connection keeps.
const SERVER_KEEP: usize = 1 << 20;
/// Reads of one client in one pass: nobody else waits for a client that sends without end.
const READS_A_PASS: usize = 4;
/// A client that has been quiet for this long gives back the memory of its replies, when clients are next looked at.
const RESTS_AFTER: Nanos = Nanos::from_secs(2);
/// So many lanes are looked at in every pass; where there are more, all of them so long after the last time.
const FEW_LANES: usize = 64;
const LANES_LOOKED_AT: Nanos = Nanos::from_millis(5);
/// How long a connection that was closed on our side may take to be closed on the other.
const LINGER: Nanos = Nanos::from_secs(1);

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
    /// Anybody can connect here from other machines, and is asked for nothing.
    Open(Address),
    /// The bound on memory was reached, and this client, who did not read this many bytes, was disconnected.
    Cut(u32, usize),
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

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("events", self.events()).finish_non_exhaustive()
    }
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
    notice: impl FnMut(Notice) + Send + 'static,
) -> Result<Ended, String> {
    let started = clock.now();
    let system = |error: io::Error| format!("cannot start an event loop: {error}");
    let polls: Vec<Poll> = cores.iter().map(|_| Poll::new()).collect::<Result<_, _>>().map_err(system)?;
    let wakers = polls.iter().map(|poll| Waker::new(poll.registry(), ASKED).map(Arc::new));
    let wakers: Vec<_> = wakers.collect::<Result<_, _>>().map_err(system)?;
    let resolved = source.resolved.clone();
    let credentials = Arc::new(resolved.config.edge.credentials()?);
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
    let notice = Arc::new(Mutex::new(notice));
    let tell = |all: bool| -> Tell {
        let notice = Arc::clone(&notice);
        Box::new(move |told| {
            // What every loop sees, the first one tells.
            if all || matches!(told, Notice::Cut(..) | Notice::Unfinished(_)) {
                notice.lock().unwrap_or_else(PoisonError::into_inner)(told);
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
        thread::Builder::new().name(name).spawn(move || engine.run().map(|()| engine.core)).map_err(system)
    };
    let threads = others.by_ref().map(spawn).collect::<Result<Vec<_>, _>>()?;
    first.run().map_err(|error| format!("the event loop failed: {error}"))?;
    let mut core = first.core;
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
    /// The servers' connections alone; ready in `poll` when one of them is.
    server_poll: Poll,
    signals: Option<Signals>,
    /// Its place among several.
    crew: Option<Place>,
    entrances: Vec<Entrance>,
    /// One more with each listening socket: two never have the same token.
    entrances_made: usize,
    coming: Option<Coming>,
    credentials: Arc<Credentials>,
    patience: Patience,
    /// Whether so much waits in buffers that no more requests are read.
    full: bool,
    /// Bytes that have come since what waits was last added up.
    since_counted: usize,
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
    some_servers: Vec<usize>,
    some_clients: Vec<u32>,
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
    readable: bool,
    writable: bool,
    /// The system has announced the end: reads go on until they find it.
    end_near: bool,
    /// The peer will send no more.
    ended: bool,
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
        let server_poll = Poll::new()?;
        let servers_ready = server_poll.as_raw_fd();
        poll.registry().register(&mut SourceFd(&servers_ready), SERVERS_READY, Interest::READABLE)?;
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
            server_poll,
            signals: None,
            crew,
            entrances_made: 0,
            entrances: Vec::new(),
            coming: None,
            credentials,
            patience: Patience::new(config.edge.idle_timeout, config.edge.request_timeout, now),
            full: false,
            since_counted: 0,
            accepting: Accepting::After(now + config.connect_timeout),
            servers,
            lanes_due: now,
            lanes_to_close: false,
            clients: Vec::new(),
            lingering: Vec::new(),
            ready: Vec::new(),
            scratch: vec![0; CLIENT_READ],
            hold: Hold::new(config.hold),
            board: None,
            admin: None,
            waker: None,
            stop_by: None,
            taken_in: 0,
            some_servers: Vec::new(),
            some_clients: Vec::new(),
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
        // A loop that cannot be woken hears the news at its next pass.
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
        let ask: Box<dyn Fn() -> Option<Snapshot> + Send> = match &self.crew {
            Some(place) => {
                let crew = Arc::clone(&place.crew);
                Box::new(move || {
                    let books = crew.books()?;
                    Some(Snapshot::of(&books.core, books.now, books.stopping))
                })
            }
            None => {
                let waker = self.waker.as_ref().expect("the loop can be woken");
                let board = Arc::clone(self.board.get_or_insert_with(|| Board::new(Arc::clone(waker))));
                Box::new(move || Board::ask(std::slice::from_ref(&board))?.pop())
            }
        };
        let reload = self.outlook.as_ref().expect("it hears the news").reload();
        admin::serve(address, Desk { ask, reload: Box::new(reload) })
    }

    fn tell_admin(&mut self) {
        if let Some((_, server)) = &self.admin {
            (self.notice)(Notice::Admin(server.address.clone()));
        }
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1_024);
        let mut answers = Events::with_capacity(256);
        // Whether the last pass did not look at the clients.
        let mut skipped = false;
        loop {
            self.tick();
            if self.finished() {
                return Ok(());
            }
            answers.clear();
            events.clear();
            let wait = self.wait();
            let (in_flight, before) = (self.core.in_flight(), self.clock.now());
            if let Some(limit) = self.hold.begins(in_flight, before).filter(|_| wait != Some(Duration::ZERO))
            {
                let limit = limit.as_duration();
                uninterrupted(
                    self.server_poll.poll(&mut answers, Some(wait.map_or(limit, |wait| wait.min(limit)))),
                )?;
                let now = self.clock.now();
                self.hold.ended(Nanos(now.0 - before.0), now);
                // Where every client waits for its answer, none is likely to have asked again.
                skipped = !skipped && in_flight >= self.core.clients() && !answers.is_empty();
                if !skipped {
                    uninterrupted(self.poll.poll(&mut events, Some(Duration::ZERO)))?;
                }
            } else {
                uninterrupted(self.poll.poll(&mut events, wait))?;
                if events.iter().any(|event| event.token() == SERVERS_READY) {
                    uninterrupted(self.server_poll.poll(&mut answers, Some(Duration::ZERO)))?;
                }
            }
            let mut accept = false;
            let mut reload = false;
            let mut woken = false;
            for event in &answers {
                let server = event.token().0 - SERVERS;
                let link = &mut self.servers[server];
                link.writable |= event.is_writable();
                let end_near = event.is_read_closed() || event.is_error();
                if event.is_writable()
                    && let Some(conn) = &mut link.conn
                    && conn.is_waiting()
                {
                    // Where it fails, reading will find out.
                    let _ = conn.flush();
                }
                self.server_ready(server, end_near);
            }
            for event in &events {
                match event.token() {
                    STOP => self.stop(),
                    RELOAD => reload = self.signals.as_mut().is_some_and(|signals| signals.reloads() > 0),
                    // It is answered below.
                    ASKED => woken = true,
                    SERVERS_READY => {}
                    Token(token) if token < SERVERS => accept = true,
                    Token(token) => {
                        let id = (token - CLIENTS) as u32;
                        if let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) {
                            link.writable |= event.is_writable();
                            link.end_near |= event.is_read_closed() || event.is_error();
                            let readable = event.is_readable() || event.is_read_closed() || event.is_error();
                            if readable && !link.readable {
                                link.readable = true;
                                self.ready.push(id);
                            }
                            let waits = link.conn.is_waiting();
                            if event.is_writable() && waits {
                                let _ = link.conn.flush();
                            }
                            if event.is_writable() && (waits || !self.core.client_output(id).is_empty()) {
                                self.write_client(id);
                            }
                        }
                    }
                }
            }
            let ready = std::mem::take(&mut self.ready);
            for &id in &ready {
                if self.full {
                    self.ready.push(id);
                    continue;
                }
                self.read_client(id);
                if self.taken_in >= PASS_ON {
                    self.write_servers();
                    self.relieve();
                }
            }
            // What is still readable was pushed again; the emptied vector's memory is kept for next time.
            if self.ready.is_empty() {
                self.ready = ready;
                self.ready.clear();
            }
            if accept {
                self.accept();
            }
            if reload && let Some(outlook) = &self.outlook {
                outlook.read_again();
            }
            while let Some(news) = self.outlook.as_ref().and_then(Outlook::next) {
                self.hear(news);
            }
            if self.crew.is_some() {
                self.attend(woken);
            }
            self.flush();
            self.relieve();
            if let Some(board) = &self.board {
                board.lay(|| Snapshot::of(&self.core, self.clock.now(), self.stop_by.is_some()));
            }
        }
    }

    // ---- writing ----------------------------------------------------------------------------------------

    /// Writes until nobody has anything to write that can be written: replies free workers, and these ask servers again.
    fn flush(&mut self) {
        loop {
            let wrote = self.write_servers();
            let mut clients = std::mem::take(&mut self.some_clients);
            self.core.take_dirty_clients(&mut clients);
            let nothing = !wrote && clients.is_empty();
            for &id in &clients {
                self.write_client(id);
            }
            self.core.take_runnable(&mut clients);
            let nothing = nothing && clients.is_empty();
            for &id in &clients {
                self.offer(id);
            }
            self.some_clients = clients;
            if nothing {
                break;
            }
        }
    }

    /// One write for each server that was asked something; whether there was any.
    fn write_servers(&mut self) -> bool {
        self.taken_in = 0;
        let mut servers = std::mem::take(&mut self.some_servers);
        self.core.take_dirty_servers(&mut servers);
        if self.core.has_new_lanes() {
            self.open_lanes(self.clock.now());
        }
        for &server in &servers {
            self.write_server(server);
        }
        let any = !servers.is_empty();
        self.some_servers = servers;
        any
    }

    fn write_server(&mut self, server: usize) {
        let link = &mut self.servers[server];
        let Some(conn) = &mut link.conn else { return };
        while link.writable && !self.core.server_output(server).is_empty() {
            let before = self.clock.now();
            let output = self.core.server_output(server);
            let length = output.len();
            match conn.write(output) {
                Moved::Some(count) => {
                    self.core.server_written(server, count, before);
                    // A short write means that the kernel has no more room; it will say when it has.
                    link.writable = count == length;
                }
                Moved::None => link.writable = false,
                Moved::Closed => return self.last_answers(server, "the server closed the connection"),
                Moved::Failed(error) => return self.last_answers(server, &plain(&error)),
            }
        }
    }

    /// Nothing can be written to a server any more. What it answered before that has been carried out and counted there, and is
    /// still to be read; everything else is lost.
    fn last_answers(&mut self, server: usize, why: &str) {
        loop {
            let link = &mut self.servers[server];
            let Some(conn) = &mut link.conn else { return };
            let Moved::Some(count) = conn.read(link.inbox.room(SERVER_READ)) else { break };
            link.inbox.filled(count);
            match self.core.server_bytes(server, link.inbox.unread(), self.clock.now()) {
                Ok(used) => link.inbox.consume(used),
                Err(why) => return self.lose(server, &why, Outcome::ServerError),
            }
        }
        self.lose(server, why, Outcome::ServerLost);
    }

    fn write_client(&mut self, id: u32) {
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        while link.writable && !self.core.client_output(id).is_empty() {
            let output = self.core.client_output(id);
            let length = output.len();
            match link.conn.write(output) {
                Moved::Some(count) => {
                    link.writable = count == length;
                    self.core.client_written(id, count, self.clock.now());
                }
                Moved::None => link.writable = false,
                Moved::Closed | Moved::Failed(_) => return self.drop_client(id),
            }
        }
        if self.core.client_finished(id)
            && !self.clients[id as usize].as_ref().is_some_and(|link| link.conn.is_waiting())
        {
            self.close_client(id);
        }
    }

    // ---- clients ----------------------------------------------------------------------------------------

    fn accept(&mut self) {
        for entrance in 0..self.entrances.len() {
            self.accept_at(entrance);
            if let Some(datagrams) = &self.entrances[entrance].datagrams {
                datagrams.refuse(NO_DATAGRAMS);
            }
        }
    }

    fn accept_at(&mut self, entrance: usize) {
        while self.accepting == Accepting::Yes {
            let Entrance { listener, pool, .. } = &self.entrances[entrance];
            let pool = *pool;
            match listener.accept() {
                Ok(stream) => {
                    let clients = match &self.crew {
                        Some(place) => place.crew.clients(),
                        None => self.core.clients(),
                    };
                    if clients >= self.config.max_connections {
                        self.turn_away(stream);
                        continue;
                    }
                    let mine = match &self.crew {
                        Some(place) => place.seat(stream, pool),
                        None => Some(stream),
                    };
                    if let Some(stream) = mine {
                        self.welcome(stream, pool);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The one that was to be accepted has gone again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Out of descriptors, most likely: others must close first.
                    (self.notice)(Notice::NotAccepting(error.to_string()));
                    self.accepting = Accepting::Retry(self.clock.now() + Nanos::from_millis(100));
                    return;
                }
            }
        }
    }

    /// One client more than there may be is told so.
    fn turn_away(&mut self, stream: Stream) {
        self.core.client_refused();
        if let Ok(mut conn) = Conn::accepted(stream, self.poll.registry(), Token(usize::MAX - 1)) {
            let _ = conn.write(b"ERROR Too many open connections\r\n");
        }
    }

    /// A client is to be served here, where keys belong to the pool `entry`.
    fn welcome(&mut self, stream: Stream, entry: usize) {
        let id = self.core.client_opened_at(entry);
        let now = self.clock.now();
        let conn = Conn::accepted(stream, self.poll.registry(), Token(CLIENTS + id as usize));
        let conn = conn.and_then(|mut conn| {
            if self.config.edge.keep_alive > Nanos::ZERO {
                // Whose socket does not know it does without.
                let _ = conn.keep_alive(self.config.edge.keep_alive);
            }
            if let Some(acceptor) = &self.credentials.acceptor {
                conn.encrypt_accepted(acceptor)?;
            }
            Ok(conn)
        });
        let Ok(conn) = conn else { return self.leave(id, now) };
        let place = id as usize;
        if self.clients.len() <= place {
            self.clients.resize_with(place + 1, || None);
        }
        self.clients[place] = Some(ClientLink {
            conn,
            inbox: Inbox::default(),
            received: now,
            begun: None,
            admitted: self.credentials.users.is_none(),
            readable: true,
            writable: true,
            end_near: false,
            ended: false,
        });
        self.ready.push(id);
    }

    /// A client is no more.
    fn leave(&mut self, id: u32, now: Stamp) {
        self.core.client_gone(id, now);
        self.lanes_to_close |= self.config.dedicated;
        if let Some(place) = &self.crew {
            place.one_left();
        }
    }

    /// Reads what a client has sent, a few times at most.
    fn read_client(&mut self, id: u32) {
        for _ in 0..READS_A_PASS {
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
            if !link.readable || self.core.client_held_back(id) {
                return;
            }
            let kept = !link.inbox.is_empty();
            let room = if kept { link.inbox.room(CLIENT_READ / 4) } else { &mut self.scratch[..] };
            let length = room.len();
            match link.conn.read(room) {
                Moved::Some(count) => {
                    let now = self.clock.now();
                    link.received = now;
                    self.taken_in += count;
                    self.since_counted += count;
                    if kept {
                        link.inbox.filled(count);
                        self.offer(id);
                    } else if link.admitted {
                        let used = self.core.client_bytes(id, &self.scratch[..count], now, now);
                        let incomplete = used < count || self.core.client_swallows(id);
                        if incomplete {
                            link.begun = Some(now);
                            link.inbox.append(&self.scratch[used..count]);
                        } else {
                            link.begun = None;
                        }
                    } else {
                        link.inbox.append(&self.scratch[..count]);
                        self.offer(id);
                    }
                    // Less than there was room for: the socket is empty, and will say when it is not.
                    if count < length
                        && let Some(Some(link)) = self.clients.get_mut(id as usize)
                        && !link.end_near
                    {
                        link.readable = false;
                        self.conclude(id);
                        return;
                    }
                }
                Moved::None => {
                    link.readable = false;
                    self.conclude(id);
                    return;
                }
                Moved::Closed => {
                    link.readable = false;
                    link.ended = true;
                    self.conclude(id);
                    return;
                }
                Moved::Failed(_) => {
                    self.drop_client(id);
                    return;
                }
            }
        }
        self.ready.push(id);
    }

    /// Offers the core what a client sent earlier, and reads on where there was no more than that.
    fn offer(&mut self, id: u32) {
        self.knock(id);
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if !link.inbox.is_empty() && link.admitted {
            let now = self.clock.now();
            let used = if self.core.begins_large(link.inbox.unread()) {
                let (memory, unread) = link.inbox.hand_out();
                let used = self.core.client_bytes_lent(id, &memory, unread.clone(), link.received, now);
                link.inbox.give_back(memory, unread.start + used..unread.end);
                used
            } else {
                let used = self.core.client_bytes(id, link.inbox.unread(), link.received, now);
                link.inbox.consume(used);
                used
            };
            if link.inbox.is_empty() && !self.core.client_swallows(id) {
                link.begun = None;
            } else if used > 0 || link.begun.is_none() {
                link.begun = Some(link.received);
            }
            if link.inbox.is_empty() {
                link.inbox.shrink(0);
            }
        }
        if link.readable && !self.core.client_held_back(id) && !self.ready.contains(&id) {
            self.ready.push(id);
        }
        self.conclude(id);
    }

    /// Whoever must say who he is before anything else is heard until he has.
    fn knock(&mut self, id: u32) {
        let Some(users) = &self.credentials.users else { return };
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        while !link.admitted && !link.inbox.is_empty() {
            let now = self.clock.now();
            link.begun.get_or_insert(now);
            match users.judge(link.inbox.unread()) {
                Knock::Incomplete => return,
                Knock::Answered { reply, used, admitted } => {
                    link.inbox.consume(used);
                    link.admitted = admitted;
                    link.begun = None;
                    self.core.client_told(id, reply, used, link.received, now);
                }
                Knock::Close => {
                    link.inbox.clear();
                    link.readable = false;
                    return self.core.client_ended(id);
                }
            }
        }
    }

    /// No more requests of this client will be taken, if it has said its last or a stop was asked for, and everything that had arrived by
    /// then has been taken: what a bound holds back is not forgotten.
    fn conclude(&mut self, id: u32) {
        let Some(link) = self.clients.get(id as usize).and_then(Option::as_ref) else { return };
        let last = link.ended || self.stop_by.is_some();
        if last && !link.readable && !self.core.client_held_back(id) {
            self.core.client_ended(id);
        }
    }

    /// Everything asked is answered: the last reply is on its way, and then the end.
    fn close_client(&mut self, id: u32) {
        let Some(mut link) = self.clients[id as usize].take() else { return };
        let now = self.clock.now();
        self.leave(id, now);
        if link.ended {
            return;
        }
        // What it may still be sending is read and dropped: closing over unread bytes would reset the
        // connection, and the reset could overtake the last reply.
        link.conn.finish();
        self.lingering.push((id, link, now + LINGER));
    }

    /// The connection is broken, nobody reads any more.
    fn drop_client(&mut self, id: u32) {
        self.clients[id as usize] = None;
        self.leave(id, self.clock.now());
    }

    // ---- servers ----------------------------------------------------------------------------------------

    fn connect(&mut self, server: usize, now: Stamp) {
        let link = &mut self.servers[server];
        link.inbox.clear();
        link.writable = false;
        let token = Token(SERVERS + server);
        let address = &link.address;
        let begun = match address.file() {
            Some(path) => Conn::connect_file(path, self.server_poll.registry(), token),
            None if link.addresses.is_empty() => {
                return self.lose(server, "its name has no address", Outcome::ServerLost);
            }
            None => {
                let number = link.addresses[link.turn % link.addresses.len()];
                link.turn += 1;
                Conn::connect(number, self.server_poll.registry(), token)
            }
        };
        let begun = begun.and_then(|mut conn| {
            if self.config.edge.keep_alive > Nanos::ZERO {
                let _ = conn.keep_alive(self.config.edge.keep_alive);
            }
            if let Some(connector) = &self.credentials.connector {
                let name = self.config.edge.server_tls.as_ref().and_then(|tls| tls.name.as_deref());
                conn.encrypt_to(connector, name.unwrap_or(&address.host))?;
            }
            Ok(conn)
        });
        match begun {
            Ok(conn) => {
                link.conn = Some(conn);
                link.state = Link::Connecting(now + self.config.connect_timeout);
            }
            Err(error) => self.lose(server, &plain(&error), Outcome::ServerLost),
        }
    }

    /// The connection to a server is no good: everything asked on it is answered with an error, and another is made later.
    fn lose(&mut self, server: usize, why: &str, outcome: Outcome) {
        let now = self.clock.now();
        let link = &mut self.servers[server];
        link.conn = None;
        link.inbox.clear();
        link.inbox.shrink(SERVER_KEEP);
        link.tried = true;
        link.told_up = false;
        // Of lanes nobody need hear: the first connection tells whether a server is up.
        let tell = !std::mem::replace(&mut link.told_down, true) && server < LANES;
        self.lanes_to_close |= server >= LANES;
        self.core.server_lost(server, why, outcome, now);
        self.servers[server].state = Link::Waiting(now + self.core.reconnect_delay(server));
        if tell {
            (self.notice)(Notice::ServerDown(self.servers[server].address.to_string(), why.to_owned()));
        }
    }

    /// Something happened to a server's connection.
    fn server_ready(&mut self, server: usize, end_near: bool) {
        let link = &mut self.servers[server];
        let Some(conn) = &mut link.conn else { return };
        if matches!(link.state, Link::Connecting(_)) {
            match conn.connected() {
                Ok(true) => {
                    link.state = Link::Connected;
                    link.writable = true;
                    self.core.server_connected(server);
                    self.write_server(server);
                }
                Ok(false) => return,
                Err(error) => {
                    self.lose(server, &plain(&error), Outcome::ServerLost);
                    return;
                }
            }
        }
        if link_has_output(&self.core, server) {
            self.write_server(server);
        }
        let mut taken = 0;
        loop {
            let link = &mut self.servers[server];
            let Some(conn) = &mut link.conn else { return };
            let room = link.inbox.room(SERVER_READ);
            let length = room.len();
            match conn.read(room) {
                Moved::Some(count) => {
                    self.since_counted += count;
                    link.inbox.filled(count);
                    let now = self.clock.now();
                    let used = if self.core.answers_large(server, link.inbox.unread()) {
                        let (memory, unread) = link.inbox.hand_out();
                        let used = self.core.server_bytes_lent(server, &memory, unread.clone(), now);
                        used.map(|used| link.inbox.give_back(memory, unread.start + used..unread.end))
                    } else {
                        let used = self.core.server_bytes(server, link.inbox.unread(), now);
                        used.map(|used| link.inbox.consume(used))
                    };
                    match used {
                        Ok(()) => {}
                        Err(why) => {
                            self.lose(server, &why, Outcome::ServerError);
                            return;
                        }
                    }
                    if self.core.server_is_up(server) {
                        let link = &mut self.servers[server];
                        link.tried = true;
                        link.told_down = false;
                        if !std::mem::replace(&mut link.told_up, true) && server < LANES {
                            (self.notice)(Notice::ServerUp(link.address.to_string()));
                        }
                    }
                    // A read that did not fill the room has emptied the socket; it will say when there is more.
                    if count < length && !end_near {
                        return;
                    }
                    taken += count;
                    if taken >= PASS_ON_ANSWERS {
                        taken = 0;
                        self.flush();
                        self.relieve();
                    }
                }
                Moved::None => return,
                Moved::Closed => {
                    self.lose(server, "the server closed the connection", Outcome::ServerLost);
                    return;
                }
                Moved::Failed(error) => {
                    self.lose(server, &plain(&error), Outcome::ServerLost);
                    return;
                }
            }
        }
    }

    // ---- time -------------------------------------------------------------------------------------------

    /// Does what is due.
    fn tick(&mut self) {
        let now = self.clock.now();
        for server in 0..self.servers.first.len() {
            if self.core.server_is_wanted(server) {
                self.keep(server, now);
            } else {
                self.retire(server);
            }
        }
        self.keep_lanes(now);
        self.await_coming(now);
        self.core.tick(now);
        self.lose_patience(now);
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
            let gone = loop {
                match link.conn.read(&mut self.scratch) {
                    Moved::Some(_) => {}
                    Moved::None => break *until <= now,
                    Moved::Closed | Moved::Failed(_) => break true,
                }
            };
            if gone {
                self.lingering.swap_remove(place);
            }
        }
        self.flush();
    }

    /// Makes a connection that is wanted, and gives up one that takes too long.
    fn keep(&mut self, server: usize, now: Stamp) {
        if self.servers[server].state == Link::Retired {
            self.servers[server].state = Link::Waiting(now);
        }
        match self.servers[server].state {
            Link::Waiting(until) if until <= now => self.connect(server, now),
            Link::Connecting(until) if until <= now => {
                self.lose(server, "no connection within the time allowed", Outcome::Timeout);
            }
            Link::Connected if self.core.server_overdue(server, now) => {
                self.lose(server, "no answer within the time allowed", Outcome::Timeout);
            }
            _ => {}
        }
    }

    /// Connects lanes that are new.
    fn open_lanes(&mut self, now: Stamp) {
        for (lane, server) in self.core.take_new_lanes() {
            self.servers.open(lane, server, now);
            self.keep(lane, now);
        }
    }

    /// The same for lanes, new ones at once, and the others, where there are many, now and then.
    fn keep_lanes(&mut self, now: Stamp) {
        self.open_lanes(now);
        if self.servers.lanes.len() > FEW_LANES {
            if self.lanes_due > now {
                return;
            }
            self.lanes_due = now + LANES_LOOKED_AT;
        }
        self.lanes_to_close = false;
        for lane in self.servers.lanes() {
            let wanted = self.core.lane_is_wanted(lane);
            if !wanted && self.servers[lane].state == Link::Retired {
                continue;
            }
            if wanted || !self.core.lane_can_go(lane) {
                self.keep(lane, now);
                continue;
            }
            let link = &mut self.servers[lane];
            link.conn = None;
            link.inbox.clear();
            link.inbox.shrink(0);
            link.state = Link::Retired;
            self.core.lane_closed(lane);
        }
    }

    /// Closes the connection to a server that no pool has any more, as soon as it owes nothing.
    fn retire(&mut self, server: usize) {
        let link = &mut self.servers[server];
        match link.state {
            Link::Connected if !self.core.server_can_go(server) => {
                if self.core.server_overdue(server, self.clock.now()) {
                    self.lose(server, "no answer within the time allowed", Outcome::Timeout);
                }
                return;
            }
            Link::Connected => self.core.server_let_go(server),
            Link::Retired => return,
            Link::Waiting(_) | Link::Connecting(_) => {}
        }
        link.conn = None;
        link.inbox.clear();
        link.inbox.shrink(0);
        link.state = Link::Retired;
        link.told_up = false;
        link.told_down = false;
    }

    // ---- another configuration --------------------------------------------------------------------------

    fn hear(&mut self, news: News) {
        match news {
            News::Numbers(numbers) => {
                self.renumber(&numbers);
                if let Some(place) = &self.crew {
                    place.tell(|| Order::Numbers(numbers.clone()));
                }
            }
            News::Configuration(..) if self.stop_by.is_some() => {}
            // Where it is no good, nothing has changed.
            News::Configuration(read, hearer) => match read.and_then(|resolved| self.prepare(resolved)) {
                Ok(coming) => self.coming = Some(Coming { hearer, ..coming }),
                Err(why) => {
                    if let Some(hearer) = hearer {
                        // Whoever has gone need not hear it.
                        let _ = hearer.send(Err(why.clone()));
                    }
                    (self.notice)(Notice::NotReloaded(why));
                }
            },
        }
    }

    fn renumber(&mut self, numbers: &Numbers) {
        for link in self.servers.first.iter_mut().chain(&mut self.servers.lanes) {
            if let Some(found) = numbers.get(&link.address) {
                link.addresses.clone_from(found);
            }
        }
    }

    /// Everything that can fail, and the connections to servers that are new.
    fn prepare(&mut self, resolved: Resolved) -> Result<Coming, String> {
        let config = &resolved.config;
        if config.threads != self.config.threads {
            let (new, old) = (config.threads, self.config.threads);
            return Err(format!("`threads` is {new}, and {old} are running; that takes a restart"));
        }
        if (config.server_connections, config.dedicated)
            != (self.config.server_connections, self.config.dedicated)
        {
            return Err("`server_connections` or `dedicated` is another; that takes a restart".into());
        }
        if config.engine != self.config.engine {
            return Err("`engine` is another; that takes a restart".into());
        }
        let (topology, entrances) = (config.topology()?, config.listeners()?);
        let credentials = Arc::new(config.edge.credentials()?);
        let mut opened = Vec::new();
        for (address, _) in &entrances {
            if !self.entrances.iter().any(|entrance| entrance.address == *address) {
                opened.push((address.clone(), listen_at(config, address)?));
            }
        }
        let known = self.admin.as_ref().map(|(address, _)| address);
        let admin = match config.admin.clone().filter(|address| Some(address) != known) {
            Some(address) => Some((address.clone(), self.monitor(&address)?)),
            None => None,
        };
        if let Some(place) = &mut self.crew {
            place.generation += 1;
            place.tell(|| {
                Order::Announce(Box::new(resolved.clone()), Arc::clone(&credentials), place.generation)
            });
        }
        Ok(Coming { entrances, opened, admin, ..self.announce(resolved, topology, credentials) })
    }

    /// Connects to the servers of a configuration that is good.
    fn announce(&mut self, resolved: Resolved, topology: Topology, credentials: Arc<Credentials>) -> Coming {
        let Resolved { config, numbers } = resolved;
        let now = self.clock.now();
        for address in config.addresses() {
            if !self.servers.first.iter().any(|link| link.address == address) {
                self.servers.first.push(ServerLink::to(address, &numbers, now));
            }
        }
        let servers = self.core.announce(topology.servers.clone());
        for &server in &servers {
            let link = &mut self.servers[server];
            link.tried = link.state == Link::Connected;
        }
        let until = now + config.connect_timeout;
        let (entrances, opened, admin, hearer) = (Vec::new(), Vec::new(), None, None);
        Coming { config, topology, entrances, opened, admin, credentials, servers, hearer, until }
    }

    /// What comes is there once its servers have been tried, by all loops.
    fn await_coming(&mut self, now: Stamp) {
        let Some(coming) = &self.coming else { return };
        let late = coming.until <= now;
        if !late && !coming.servers.iter().all(|&server| self.servers[server].tried) {
            return;
        }
        if let Some(place) = &self.crew {
            place.has_tried();
            // The first loop says when.
            if !place.is_first() {
                if late && let Some(coming) = &mut self.coming {
                    coming.until = now + self.config.connect_timeout;
                }
                return;
            }
            if !late && !place.others_have_tried() {
                return;
            }
            place.tell(|| Order::TakeOver);
        }
        if let Some(coming) = self.coming.take() {
            self.take_over(coming, now);
        }
    }

    // ---- among several ----------------------------------------------------------------------------------

    /// Does what other loops have ordered, and asks what clients want to know of all.
    fn attend(&mut self, woken: bool) {
        let now = self.clock.now();
        while let Some(order) = self.crew.as_ref().and_then(|place| place.orders.try_recv().ok()) {
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
        place.board.lay(|| Books { core: self.core.books(), now, stopping: self.stop_by.is_some() });
    }

    /// The servers of the configuration that comes have been tried: from here on it holds.
    fn take_over(&mut self, coming: Coming, now: Stamp) {
        let Coming { config, topology, entrances, mut opened, admin, credentials, hearer, .. } = coming;
        let told = self.core.reconfigure(config.settings(), topology, now);
        self.core.sign_in_with(credentials.login.clone());
        let mut before = std::mem::take(&mut self.entrances);
        for (address, pool) in entrances {
            let pool = told.pools[pool];
            if let Some(known) = before.iter().position(|entrance| entrance.address == address) {
                self.entrances.push(Entrance { pool, ..before.swap_remove(known) });
                continue;
            }
            let here = opened.iter().position(|(other, _)| *other == address);
            let (_, listener) = opened.swap_remove(here.expect("it was not listened at before"));
            let token = Token(LISTENERS + self.entrances_made % (SERVERS - LISTENERS));
            self.entrances_made += 1;
            self.entrances.push(Entrance { address, pool, listener, datagrams: None, token });
            if self.accepting == Accepting::Yes {
                self.open_entrance(self.entrances.len() - 1);
            }
        }
        self.credentials = credentials;
        self.patience = Patience::new(config.edge.idle_timeout, config.edge.request_timeout, now);
        self.hold = Hold::new(config.hold);
        if admin.is_some() || config.admin.is_none() {
            // Where it was before nobody listens any more.
            self.admin = admin;
            self.tell_admin();
        }
        self.config = config;
        (self.notice)(Notice::Reloaded);
        if let Some(hearer) = hearer {
            let _ = hearer.send(Ok(()));
        }
    }

    /// Disconnects clients that have said nothing for too long, or take too long over one request.
    fn lose_patience(&mut self, now: Stamp) {
        if !self.patience.is_due(now) {
            return;
        }
        for id in 0..self.clients.len() as u32 {
            let Some(link) = self.clients[id as usize].as_mut() else { continue };
            let waited = Waited {
                begun: link.begun.filter(|_| !self.core.client_held_back(id)),
                quiet_since: self.core.client_idle(id).then_some(link.received),
            };
            if waited.quiet_since.is_some_and(|since| now.0.saturating_sub(since.0) > RESTS_AFTER.0) {
                self.core.client_rests(id);
            }
            let Some(last_words) = self.patience.ends(&waited, now) else { continue };
            link.inbox.clear();
            link.readable = false;
            link.begun = None;
            self.core.client_timed_out();
            if !last_words.is_empty() {
                self.core.client_told(id, last_words, 0, now, now);
            }
            self.core.client_ended(id);
        }
    }

    /// Adds up what waits in all buffers, now and then, and keeps it within the bound: no more requests are read, and where a
    /// client does not read its replies, the one with the most of them is disconnected.
    fn relieve(&mut self) {
        let bound = self.config.edge.memory / self.config.threads;
        if !self.full && self.since_counted < bound / 16 {
            return;
        }
        self.since_counted = 0;
        let servers: usize = self
            .servers
            .all()
            .map(|(server, link)| link.inbox.unread().len() + self.core.server_waiting(server))
            .sum();
        let mut total = servers + self.core.queued_bytes();
        let mut stuck = Vec::new();
        for (id, link) in self.clients.iter().enumerate() {
            let Some(link) = link else { continue };
            let replies = self.core.client_waiting(id as u32);
            total += link.inbox.unread().len() + replies;
            if !link.writable && replies > 0 {
                stuck.push((replies, id as u32));
            }
        }
        stuck.sort_unstable();
        while total > bound
            && let Some((replies, id)) = stuck.pop()
        {
            self.core.client_cut();
            self.drop_client(id);
            (self.notice)(Notice::Cut(id, replies));
            total -= replies;
        }
        self.full = total > bound - bound / 8;
    }

    /// The servers have been tried: clients may come.
    fn open(&mut self) {
        self.accepting = Accepting::Yes;
        for entrance in 0..self.entrances.len() {
            self.open_entrance(entrance);
        }
    }

    fn open_entrance(&mut self, entrance: usize) {
        let Entrance { listener, datagrams, token, .. } = &mut self.entrances[entrance];
        *datagrams =
            listener.address().ok().and_then(|address| refuse_datagrams(&address, &self.poll, *token));
        let registered = listener.register(self.poll.registry(), *token);
        match registered.and_then(|()| listener.address()) {
            Ok(address) => {
                let asked = self.credentials.users.is_some()
                    || self.config.edge.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
                (self.notice)(Notice::Listening(address.clone()));
                if !address.is_local() && !asked {
                    (self.notice)(Notice::Open(address));
                }
            }
            Err(error) => (self.notice)(Notice::NotAccepting(error.to_string())),
        }
    }

    /// How long there is nothing to do unless something happens; none: for ever.
    fn wait(&self) -> Option<Duration> {
        if !self.ready.is_empty() && !self.full {
            return Some(Duration::ZERO);
        }
        let mut next: Option<Stamp> = self.stop_by;
        let mut at = |stamp: Stamp| next = Some(next.map_or(stamp, |next| next.min(stamp)));
        if self.core.has_new_lanes() {
            return Some(Duration::ZERO);
        }
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
        if self.full {
            at(self.clock.now() + Nanos::from_millis(5));
        }
        if !self.lingering.is_empty() {
            at(self.clock.now() + Nanos::from_millis(20));
        }
        // One nanosecond more than nothing, so that what is due at an instant is due when it is looked at.
        next.map(|next| Nanos(next.0.saturating_sub(self.clock.now().0) + 1).as_duration())
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

/// A signal that interrupts a wait is announced by the poll itself.
fn uninterrupted(waited: io::Result<()>) -> io::Result<()> {
    match waited {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        result => result,
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
