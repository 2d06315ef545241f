//! The driver's state, and one pass of an event loop that has nothing but clients.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use krarup_net::datagram::Datagrams;
use krarup_net::mio::event::Event;
use krarup_net::mio::{Events, Poll, Registry, Token};
use krarup_net::tls::Acceptor;
use krarup_net::{Clock, Listener, listen};
use krarup_record::ClientCounts;
use krarup_service::{ClientId, Service};
use krarup_units::{Address, Nanos, Stamp};

use super::alarm::{ALARM, Alarm, uninterrupted};
use super::authentication::Users;
use super::connection::{ClientConnection, Logins, Read, WrittenBytes};
use super::event_loops::EventLoops;
use super::loop_meter::LoopMeter;
use super::memory::MemoryAccount;
use super::time_limits::TimeLimits;
use crate::refusal::RefusalNotices;
use crate::slice::Slice;

/// Tokens below this, but for that of the alarm, are the loop's own, for what else it waits for.
/// Those of listening sockets begin here.
pub(crate) const LISTENERS: usize = 16;
/// Those of connections that the service has itself begin here,
pub(crate) const UPSTREAMS: usize = 1 << 16;
/// and those of clients.
pub(crate) const CLIENTS: usize = 1 << 20;

/// What one read may bring. Clients share the buffer; what makes no whole request is kept apart.
pub(super) const READ: usize = 256 << 10;

/// How clients connect, and what they may take.
#[derive(Clone, Debug)]
pub(crate) struct DriverSettings {
    /// How many may be connected at once.
    pub(crate) connections: usize,
    /// Accepts clients that speak TLS; none: they speak plain text.
    pub(crate) tls: Option<Acceptor>,
    /// One of these a client must say it is before anything else; none: it need not.
    pub(crate) users: Option<Arc<Users>>,
    /// Whether clients must show who they are, in the one way or the other.
    pub(crate) asks: bool,
    /// A client that vanished without a word is noticed after this time; zero: never.
    pub(crate) keep_alive: Nanos,
    /// How long a client may be idle; zero: for ever.
    pub(crate) idle: Nanos,
    /// How long a request may take from its first byte to its last, and how long a client may take
    /// nothing of its replies; zero: for ever.
    pub(crate) request: Nanos,
    /// How long the TLS handshake and authentication may take together; zero: for ever.
    pub(crate) login: Nanos,
    /// How many clients there may be that have not completed these.
    pub(crate) unauthenticated: usize,
    /// How many bytes the buffers may hold.
    pub(crate) memory: usize,
    /// How a datagram at the port of a listener is refused; none: no datagram is received.
    pub(crate) no_datagrams: Option<&'static [u8]>,
    /// Bits per second of the machine's links whose rates the kernel does not know.
    pub(crate) link: Option<f64>,
}

/// What the clients of a cache or a broker may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// How long a client may be idle; zero: for ever.
    pub idle: Nanos,
    /// How long a TLS handshake may take; zero: for ever.
    pub handshake: Nanos,
    /// How many bytes the buffers of connections may hold.
    pub memory: usize,
    /// How their sockets are listened on.
    pub listening: listen::Options,
}

impl Default for ClientLimits {
    fn default() -> Self {
        let listening = listen::Options::default();
        Self { idle: Nanos::ZERO, handshake: Nanos::from_secs(10), memory: 1 << 30, listening }
    }
}

impl From<ClientLimits> for DriverSettings {
    /// Those of a service that leaves out what it does not set.
    fn from(limits: ClientLimits) -> Self {
        Self {
            connections: 4_096,
            tls: None,
            users: None,
            asks: false,
            keep_alive: Nanos::from_secs(60),
            idle: limits.idle,
            request: Nanos::ZERO,
            login: limits.handshake,
            unauthenticated: 1_000,
            memory: super::memory::of_one_loop(limits.memory, 1),
            no_datagrams: None,
            link: None,
        }
    }
}

/// Something the operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DriverNotice {
    /// Clients can connect here, and whether they need show nothing.
    Listening(Address, bool),
    /// Clients cannot be accepted, and why.
    NotAccepting(String),
    /// The bound on memory was reached, and this client, which held this many bytes without getting
    /// on, was disconnected.
    Cut(ClientId, usize),
    /// Clients wait for memory from now on.
    MemoryShort,
    /// They do not any more; so many were disconnected meanwhile.
    MemoryEnough(u64),
    /// A server takes requests.
    ServerUp(Address),
    /// A server does not take requests, and why. Reported when it changes, not at every attempt.
    ServerDown(Address, String),
    /// A connection to a server that takes requests was closed for its answer, and why.
    AnswerRefused(Address, String),
}

/// The connections that a service has itself, as far as reading from clients concerns them.
pub(crate) trait Outbound<S> {
    /// Writes what the service has for them; whether there was anything.
    fn write(&mut self, service: &mut S, slice: &mut Slice) -> bool;
    /// Bytes in their buffers.
    fn buffered(&self, service: &S) -> usize;
    /// Gives up the connection whose answer is the longest, if `most` bytes of it have come and it
    /// still has no end; how many bytes its buffer holds less.
    fn shed(&mut self, service: &mut S, most: usize) -> usize;
    /// Whether replies come from there. A service without such holds for a client no more than a
    /// bound and one answer: that goes on where it is the only one, however large.
    fn has_answers(&self) -> bool {
        true
    }
}

/// That of a service that has none.
#[derive(Debug)]
struct NoUpstreams;

impl<S> Outbound<S> for NoUpstreams {
    fn write(&mut self, _: &mut S, _: &mut Slice) -> bool {
        false
    }

    fn buffered(&self, _: &S) -> usize {
        0
    }

    fn shed(&mut self, _: &mut S, _: usize) -> usize {
        0
    }

    fn has_answers(&self) -> bool {
        false
    }
}

/// A socket that clients connect to.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// As it was configured.
    pub(crate) address: Address,
    /// Its number for the service.
    pub(crate) number: usize,
    pub(crate) listener: Listener,
    /// Where datagrams are refused at the same port, on this machine's own addresses.
    pub(super) datagrams: Option<Datagrams>,
    pub(super) token: Token,
    /// Whether the loop is told of clients that connect here.
    pub(super) opened: bool,
}

/// Whether clients are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepting {
    /// Not before the loop is ready.
    Later,
    Yes,
    /// The system refused; it is asked again then, or when a client has gone.
    Retry(Stamp),
}

/// See the module.
pub(crate) struct Driver {
    pub(super) settings: DriverSettings,
    pub(super) clock: Clock,
    pub(super) poll: Poll,
    /// Rings in `poll` when something is due.
    alarm: Alarm,
    pub(super) entrances: Vec<Entrance>,
    /// One more with each listening socket: two never have the same token.
    pub(super) entrances_made: usize,
    pub(super) accepting: Accepting,
    /// Whether connections may wait that a slice was too short for.
    pub(super) unaccepted: bool,
    pub(super) refusal_notices: RefusalNotices,
    /// Others that clients are distributed over.
    pub(crate) loops: Option<Box<dyn EventLoops + Send>>,
    meter: LoopMeter,
    pub(super) time_limits: TimeLimits,
    pub(super) logins: Logins,
    pub(super) memory: MemoryAccount,
    /// Clients that are still to be disconnected, the largest last: whether for a half request or
    /// for replies, and how many bytes that holds.
    pub(super) to_cut: Vec<(bool, usize, ClientId)>,
    pub(super) clients: Vec<Option<ClientConnection>>,
    /// Closed on our side, waiting for the other, so that it can read its last reply; and when they
    /// are read next.
    pub(super) lingering: VecDeque<(ClientConnection, Stamp)>,
    pub(super) lingering_due: Stamp,
    /// Clients that may have more to read than one pass took.
    pub(super) ready: Vec<ClientId>,
    /// Clients with long replies, in the order in which they are written.
    pub(super) unwritten: VecDeque<ClientId>,
    pub(super) slice: Slice,
    pub(super) scratch: Vec<u8>,
    /// Whether nothing more is read than what has arrived.
    pub(super) stopping: bool,
    /// Bytes read from clients since upstreams were last written to.
    pub(super) taken_in: usize,
    /// Bytes read in this pass from clients one by one.
    pub(super) taken_apart: usize,
    /// Whether something may be due that was not when deadlines were last looked at.
    pub(crate) changed: bool,
    /// Whether a client has gone since this was last reset.
    pub(crate) one_gone: bool,
    pub(super) some: Vec<ClientId>,
    /// Clients whose first replies wait for those that follow.
    pub(super) partly: Vec<ClientId>,
    /// What was read from clients and not looked at yet.
    pub(super) reads: Vec<Read>,
    /// Clients that are read one by one, after these.
    pub(super) apart: Vec<ClientId>,
    /// What was written to clients and the service was not told yet.
    pub(super) unentered: Vec<WrittenBytes>,
    /// For the operator, until they are taken.
    pub(crate) notices: Vec<DriverNotice>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Driver {
    /// One that listens nowhere yet. Its owner may have registered something with `poll` under
    /// tokens below sixteen.
    pub(crate) fn new(settings: DriverSettings, poll: Poll, clock: Clock) -> io::Result<Self> {
        let now = clock.now();
        Ok(Self {
            alarm: Alarm::register(&poll)?,
            poll,
            entrances: Vec::new(),
            entrances_made: 0,
            accepting: Accepting::Later,
            unaccepted: false,
            refusal_notices: RefusalNotices::default(),
            loops: None,
            meter: LoopMeter::new(settings.link),
            time_limits: TimeLimits::new(settings.idle, settings.request, now),
            logins: Logins::default(),
            memory: MemoryAccount::new(settings.memory),
            to_cut: Vec::new(),
            clients: Vec::new(),
            lingering: VecDeque::new(),
            lingering_due: Stamp(0),
            ready: Vec::new(),
            unwritten: VecDeque::new(),
            slice: Slice::default(),
            scratch: vec![0; READ],
            stopping: false,
            taken_in: 0,
            taken_apart: 0,
            changed: true,
            one_gone: false,
            some: Vec::new(),
            partly: Vec::new(),
            reads: Vec::new(),
            apart: Vec::new(),
            unentered: Vec::new(),
            notices: Vec::new(),
            settings,
            clock,
        })
    }

    /// Other settings hold from now on; who is connected stays.
    pub(crate) fn configure(&mut self, settings: DriverSettings) {
        self.time_limits = TimeLimits::new(settings.idle, settings.request, self.clock.now());
        self.memory.resize(settings.memory);
        if settings.link != self.settings.link {
            self.meter = LoopMeter::new(settings.link);
        }
        self.settings = settings;
        self.changed = true;
        if self.settings.users.is_none() {
            for id in 0..self.clients.len() {
                self.admit_without_login(id as ClientId);
            }
        }
    }

    /// Where its owner registers what else it waits for.
    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Whether there is something to do at once.
    pub(crate) fn has_more_to_do(&self) -> bool {
        !self.ready.is_empty()
            || self.slice.is_spent()
            || !self.unwritten.is_empty()
            || !self.to_cut.is_empty()
            || self.unaccepted
    }

    /// Whether its connections make nothing due that [`Self::deadline`] did not tell.
    pub(crate) fn is_settled(&self) -> bool {
        !self.changed && self.accepting == Accepting::Yes && !self.unaccepted && !self.memory.is_short()
    }

    /// When [`Self::tick`] is next to be called, if nothing else happens before; none: never.
    pub(crate) fn deadline(&mut self, service: &impl Service) -> Option<Stamp> {
        let login = self.logins_due();
        let retry = match self.accepting {
            Accepting::Retry(until) => Some(until),
            _ => None,
        };
        let limits = if service.clients() > 0 { self.time_limits.due() } else { None };
        let lingering = (!self.lingering.is_empty()).then_some(self.lingering_due);
        [login, retry, limits, self.memory.due(), lingering].into_iter().flatten().min()
    }

    /// A pass of the loop begins.
    #[inline]
    pub(crate) fn count_pass(&mut self) {
        self.meter.pass();
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, service: &mut impl Service, now: Stamp) {
        if let Some(used) = self.meter.read(now) {
            service.loop_used(used, now);
        }
        self.apply_time_limits(service, now);
        self.tick_logins(service, now);
        if let Accepting::Retry(until) = self.accepting
            && until <= now
        {
            self.accepting = Accepting::Yes;
            self.unaccepted = true;
        }
        if self.unaccepted {
            self.accept(service);
            self.open_entrances();
        }
        self.listen_to_lingering(now);
    }

    /// Waits for any client until something is `due`, or only looks which is ready.
    pub(crate) fn wait(
        &mut self,
        events: &mut Events,
        due: Option<Stamp>,
        now: Stamp,
        only_look: bool,
    ) -> io::Result<()> {
        if let Some(due) = due {
            self.alarm.by(due, now)?;
        }
        let limit = only_look.then_some(Duration::ZERO);
        uninterrupted(self.poll.poll(events, limit))?;
        self.alarm.note(events);
        Ok(())
    }

    // ---- one pass of a loop that has nothing but clients ----------------------------------------

    /// Waits until a socket is ready, or something is due, of its own or of its owner.
    pub(crate) fn wait_for(
        &mut self,
        service: &impl Service,
        events: &mut Events,
        due: Option<Stamp>,
    ) -> io::Result<()> {
        let now = self.clock.now();
        events.clear();
        let more = self.has_more_to_do();
        // Never before a moment from now, so that what is due at an instant is due when it is
        // looked at.
        let due = self.deadline(service).into_iter().chain(due).min();
        let due = due.filter(|_| !more).map(|due| due.max(now) + Nanos(1));
        self.wait(events, due, now, more)
    }

    /// Does what is due, reads from clients and lets new ones connect. Events under its owner's
    /// tokens are the owner's.
    pub(crate) fn serve(&mut self, service: &mut impl Service, events: &Events) {
        let now = self.clock.now();
        self.count_pass();
        self.slice.begin();
        self.tick(service, now);
        self.slice.begin();
        let mut accept = false;
        for event in events {
            match event.token() {
                ALARM => {}
                Token(token) if token >= CLIENTS => self.note(service, event),
                Token(token) => accept |= token >= LISTENERS,
            }
        }
        self.read_clients(service, &mut NoUpstreams);
        if accept {
            self.accept(service);
        }
    }

    /// Writes until no client has anything that can be written.
    pub(crate) fn flush_clients(&mut self, service: &mut impl Service) {
        self.look_after_memory(service, &mut NoUpstreams);
        loop {
            self.one_gone = false;
            self.flush(service, &mut NoUpstreams);
            // What a client leaves behind may be for another.
            if !self.one_gone || self.slice.is_spent() {
                break;
            }
        }
    }

    /// A client's connection has become ready.
    pub(crate) fn note(&mut self, service: &mut impl Service, event: &Event) {
        let id = (event.token().0 - CLIENTS) as ClientId;
        // One that has gone in this very batch may still be told of.
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        link.writable |= event.is_writable();
        link.end_near |= event.is_read_closed() || event.is_error();
        let broken = event.is_error() || event.is_read_closed() && event.is_write_closed();
        if link.waits && link.end_near {
            return self.ends_while_it_waits(service, id, broken);
        }
        let end_near = event.is_read_closed() || event.is_error();
        let readable = event.is_readable() || end_near;
        if readable
            && (!std::mem::replace(&mut link.readable, true) || end_near && service.heeds_end(id))
            && !std::mem::replace(&mut link.listed, true)
        {
            self.ready.push(id);
        }
        let waits = link.conn.is_waiting();
        if event.is_writable() && waits {
            link.flush(self.clock.now());
        }
        if event.is_writable() && (waits || !service.output(id).is_empty()) {
            self.write_in_turn(service, id);
        }
    }

    /// No client may connect any more. Who has connected is served: with a shared port or a shared
    /// socket another process takes the clients that connect from now on.
    pub(crate) fn close_entrances(&mut self, service: &mut impl Service) {
        self.accept_the_last(service);
        self.entrances.clear();
    }

    /// No client may connect any more. What has arrived is still answered; then each client gets
    /// the end.
    pub(crate) fn stop(&mut self, service: &mut impl Service) {
        self.close_entrances(service);
        self.stopping = true;
        self.changed = true;
        self.slice.begin();
        for id in 0..self.clients.len() as ClientId {
            if let Some(link) = &mut self.clients[id as usize]
                && !std::mem::replace(&mut link.readable, true)
            {
                // The last look into its socket; one that is readable already will be looked at in
                // its turn.
                self.read_client(service, id);
            }
            if let Some(Some(link)) = self.clients.get_mut(id as usize)
                && service.paused(id)
                && service.heeds_end(id)
                && !std::mem::replace(&mut link.concluded, true)
            {
                service.dismissed(id, self.clock.now());
            }
        }
    }

    /// Whether all have gone.
    pub(crate) fn is_over(&self, service: &impl Service) -> bool {
        service.clients() == 0 && self.lingering.is_empty()
    }

    /// So many bytes were read from a connection that is no client's.
    pub(crate) fn read_elsewhere(&mut self, bytes: usize) {
        self.memory.grew(bytes);
    }

    /// What each client has done since it connected, by this loop of that `number`. Takes some
    /// 100 ns a client, and the first time a call of the system.
    pub(crate) fn client_counts(&mut self, service: &impl Service, number: usize) -> Vec<ClientCounts> {
        let mut counts = Vec::with_capacity(service.clients());
        for (id, link) in self.clients.iter_mut().enumerate() {
            let Some(link) = link else { continue };
            let (requests, in_progress) = service.requests(id as ClientId);
            counts.push(ClientCounts {
                number: (number, id as u32),
                since: link.login.since,
                peer: *link.peer.get_or_insert_with(|| link.conn.peer()),
                requests,
                in_progress,
                received: link.bytes.0,
                sent: link.bytes.1,
            });
        }
        counts
    }

    /// Tells the service what the buffers hold.
    pub(crate) fn note_memory(&self, service: &mut impl Service) {
        service.note_memory(self.memory.used(), self.memory.is_short());
    }

    /// The slice of the phase that goes on.
    pub(crate) fn slice(&mut self) -> &mut Slice {
        &mut self.slice
    }
}
