//! The servers and the connections to them, without their sockets. A server is not a connection:
//! several may lead to it.
//!
//! Every server has a first connection, which tells whether it is up, and by which goes what
//! belongs to no client (refills, copies that no client waits for). Others are its *lanes*: some
//! that clients share in turn, or one of each client's own. A client uses the same one all the
//! time, so that what it asks of a server is carried out in its order; what two clients ask by
//! different lanes may overtake each other.

use krarup_memcache::response::ValuesRead;
use krarup_memcache::{Expect, MetaCommand, ReplyClass, Response};
use krarup_units::{Nanos, Outbox, Stamp};

use crate::ids::{ClientId, ConnectionId, Identifier, ServerId};
use crate::large::LARGE_REQUEST;

mod connection;
mod server;
mod window;

use connection::{Connection, Health};
use window::fits;

pub(crate) use connection::{Pending, Recipient};
pub(crate) use server::Server;
pub(crate) use window::{RequestLength, WINDOW, WindowWait};

/// Memory kept for the requests to a server that has taken them all, in bytes.
const KEEP: usize = 256 << 10;

/// Bytes that may wait for a server before nothing is sent to it on the side.
const ASIDE_BYTES: usize = 1 << 20;
/// Answers a server may owe before nothing is sent to it on the side.
const ASIDE_REQUESTS: usize = 10_000;

/// A reply to a client that has been given none yet counts as so long, where its server had no long
/// values of late: 16 of them go at once, whatever else is under way.
const UNKNOWN: usize = 256 << 10;
/// Where it had, it counts as long as these were, up to this.
const UNKNOWN_BESIDE_LONG: usize = 1 << 20;
/// Of late.
const OF_LATE: Nanos = Nanos::from_secs(60);

/// How servers are connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpstreamSettings {
    /// How long a server may take over one answer.
    pub(crate) timeout: Nanos,
    /// The first wait before connecting again; each failure doubles it.
    pub(crate) reconnect_after: Nanos,
    /// The longest wait before connecting again.
    pub(crate) reconnect_at_most: Nanos,
    /// Failures in a row after which a server is ejected; none: never.
    pub(crate) eject_after: Option<u32>,
    /// How long an ejected server is left alone.
    pub(crate) eject_for: Nanos,
    /// Connections to each server, which clients use in turn.
    pub(crate) connections: u32,
    /// Whether each client has connections of its own instead.
    pub(crate) dedicated: bool,
    /// How much that is long may be under way on a connection.
    pub(crate) window: usize,
}

/// What the loss of a connection means.
pub(crate) struct LostConnection {
    /// The server that it led to.
    pub(crate) server: ServerId,
    /// Whether it was one of its lanes; then the server may be up all the same.
    pub(crate) by_lane: bool,
    /// Whether it had been made.
    pub(crate) stood: bool,
    /// Whether the server is ejected from now on.
    pub(crate) ejected: bool,
    /// What is said to the clients that wait for its answers.
    pub(crate) text: String,
}

/// The servers, and the connections to them by number.
#[derive(Debug)]
pub(crate) struct Servers {
    settings: UpstreamSettings,
    /// What is said to servers before anything else.
    login: Option<Vec<u8>>,
    servers: Vec<Server>,
    /// The first connection to each server.
    first: Vec<Connection>,
    lanes: Vec<Connection>,
    /// Lanes that are closed, whose numbers may be used again.
    free_lanes: Vec<ConnectionId>,
    /// Lanes that the driver has not been told of.
    new_lanes: Vec<ConnectionId>,
    /// The clients' own lanes, each with its server, by the client's number.
    own_lanes: Vec<Vec<(ServerId, ConnectionId)>>,
    /// The numbers of connections that have something to write.
    dirty: Vec<usize>,
    /// Answers that are owed, those to greetings aside.
    in_flight: usize,
}

/// One of all connections.
#[inline]
fn of_all<'a>(
    first: &'a mut [Connection],
    lanes: &'a mut [Connection],
    connection: ConnectionId,
) -> &'a mut Connection {
    match connection.place() {
        Ok(server) => &mut first[server],
        Err(lane) => &mut lanes[lane],
    }
}

impl Servers {
    /// Servers none of which has a connection.
    pub(crate) fn new(names: Vec<String>, settings: UpstreamSettings) -> Self {
        let mut upstreams = Self::empty(settings);
        for name in names {
            upstreams.add(name);
        }
        upstreams
    }

    fn empty(settings: UpstreamSettings) -> Self {
        Self {
            settings,
            login: None,
            servers: Vec::new(),
            first: Vec::new(),
            lanes: Vec::new(),
            free_lanes: Vec::new(),
            new_lanes: Vec::new(),
            own_lanes: Vec::new(),
            dirty: Vec::new(),
            in_flight: 0,
        }
    }

    #[inline]
    fn at(&self, connection: ConnectionId) -> &Connection {
        match connection.place() {
            Ok(first) => &self.first[first],
            Err(lane) => &self.lanes[lane],
        }
    }

    #[inline]
    fn at_mut(&mut self, connection: ConnectionId) -> &mut Connection {
        of_all(&mut self.first, &mut self.lanes, connection)
    }

    // ---- servers --------------------------------------------------------------------------------

    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The numbers of all servers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ServerId> + use<> {
        (0..self.servers.len()).map(ServerId::new)
    }

    /// Whether no pool has a server any more, or yet.
    pub(crate) fn is_retired(&self, server: ServerId) -> bool {
        self.servers[server.index()].retired
    }

    /// Whether a server takes requests.
    #[inline]
    pub(crate) fn is_up(&self, server: ServerId) -> bool {
        self.servers[server.index()].up
    }

    /// Whether it does, as one of the loops sees it that are summed up here.
    pub(crate) fn is_up_in_a_loop(&self, server: ServerId) -> bool {
        let server = &self.servers[server.index()];
        server.up || server.up_elsewhere
    }

    pub(crate) fn name(&self, server: ServerId) -> &str {
        &self.servers[server.index()].name
    }

    /// The server of this name.
    pub(crate) fn find(&self, name: &str) -> Option<ServerId> {
        self.servers.iter().position(|server| server.name() == name).map(ServerId::new)
    }

    /// What a part is answered whose server is down.
    pub(crate) fn down_text(&self, server: ServerId) -> String {
        format!("SERVER_ERROR {} is down\r\n", self.servers[server.index()].name)
    }

    /// Whether a server takes a request that it owes such an answer, as far as is known. One that
    /// does not know a meta set takes its value for the next command, and is out of step then.
    pub(crate) fn takes(&self, server: ServerId, expect: Expect) -> bool {
        let set = matches!(expect, Expect::Meta { command: MetaCommand::Set, .. });
        !set || self.servers[server.index()].knows_meta
    }

    /// Answers that a server owes.
    #[inline]
    pub(crate) fn outstanding(&self, server: ServerId) -> usize {
        self.first[server.index()].outstanding() + self.servers[server.index()].owed_elsewhere
    }

    /// The version that `version` and `stats` tell alike: the oldest of the servers', because that
    /// is what clients can count on. None until a server has told its own.
    pub(crate) fn oldest_version(&self) -> Option<&str> {
        let living = self.servers.iter().filter(|server| !server.retired);
        living.filter_map(Server::version).min_by_key(|version| server::numbers(version).collect::<Vec<_>>())
    }

    /// A thread's connection to a server stands, or why it does not; whether it `stood` before. The
    /// server is up while one does.
    pub(crate) fn enter(&mut self, server: ServerId, state: Result<Option<&str>, &str>, stood: bool) {
        let server = &mut self.servers[server.index()];
        server.standing -= usize::from(stood);
        match state {
            Ok(version) => {
                server.standing += 1;
                if let Some(version) = version {
                    server.version = Some(version.to_owned());
                }
            }
            Err(why) => {
                server.losses += 1;
                server.last_loss = Some(why.to_owned());
            }
        }
        server.up = server.standing > 0;
    }

    fn add(&mut self, name: String) -> ServerId {
        let server = ServerId::new(self.servers.len());
        self.servers.push(Server::new(name));
        self.first.push(Connection::to(server));
        if !self.settings.dedicated {
            for _ in 1..self.settings.connections {
                let lane = self.open_lane(server);
                self.servers[server.index()].lanes.push(lane);
            }
        }
        server
    }

    // ---- another configuration ------------------------------------------------------------------

    /// From now on this is said on every new connection, before anything else.
    pub(crate) fn sign_in_with(&mut self, login: Option<Vec<u8>>) {
        self.login = login;
    }

    /// Goes on with other settings and the servers of these names; others are retired. Returns the
    /// numbers of these.
    pub(crate) fn reconfigure(&mut self, names: Vec<String>, settings: UpstreamSettings) -> Vec<ServerId> {
        self.settings = settings;
        let numbers: Vec<ServerId> = names.into_iter().map(|name| self.number_of(name)).collect();
        for (number, server) in self.servers.iter_mut().enumerate() {
            server.retired = !numbers.contains(&ServerId::new(number));
            server.announced = false;
            server.ejected &= settings.eject_after.is_some();
        }
        numbers
    }

    /// The servers of these names, and no others, will be wanted soon. Returns their numbers.
    pub(crate) fn announce(&mut self, names: Vec<String>) -> Vec<ServerId> {
        for server in &mut self.servers {
            server.announced = false;
        }
        let before = self.servers.len();
        let numbers: Vec<ServerId> = names.into_iter().map(|name| self.number_of(name)).collect();
        for &number in &numbers {
            self.servers[number.index()].announced = true;
            self.servers[number.index()].retired |= number.index() >= before;
        }
        numbers
    }

    /// How many there would be with those of these names.
    pub(crate) fn count_with(&self, names: &[String]) -> usize {
        self.servers.len() + names.iter().filter(|name| self.find(name).is_none()).count()
    }

    fn number_of(&mut self, name: String) -> ServerId {
        self.find(&name).unwrap_or_else(|| self.add(name))
    }

    /// Whether a server is in a pool, or will be.
    pub(crate) fn is_wanted(&self, server: ServerId) -> bool {
        self.wants(server.index())
    }

    /// The same by its number, which may be no server's.
    pub(crate) fn wants(&self, number: usize) -> bool {
        self.servers.get(number).is_some_and(|server| !server.retired || server.announced)
    }

    /// Whether a server is in no pool any more and owes no answer.
    pub(crate) fn can_go(&self, server: ServerId) -> bool {
        self.servers[server.index()].retired
            && self.outstanding(server) == 0
            && self.first[server.index()].out.is_empty()
    }

    /// The connection to a server that is in no pool any more has been closed.
    pub(crate) fn let_go(&mut self, server: ServerId) {
        self.first[server.index()].health = Health::Down;
        self.servers[server.index()].up = false;
    }

    // ---- lanes ----------------------------------------------------------------------------------

    /// The server that a connection leads to.
    #[inline]
    pub(crate) fn server_of(&self, connection: ConnectionId) -> ServerId {
        self.at(connection).server
    }

    fn open_lane(&mut self, server: ServerId) -> ConnectionId {
        let lane = match self.free_lanes.pop() {
            Some(lane) => {
                *self.at_mut(lane) = Connection::to(server);
                lane
            }
            None => {
                self.lanes.push(Connection::to(server));
                ConnectionId::lane(self.lanes.len() - 1)
            }
        };
        self.new_lanes.push(lane);
        lane
    }

    /// The connection by which a request of `client` goes to a server that is up. It belongs to no
    /// client where that is gone.
    #[inline]
    pub(crate) fn connection(&mut self, server: ServerId, client: Option<ClientId>) -> ConnectionId {
        if self.settings.connections == 1 && !self.settings.dedicated {
            return server.into();
        }
        self.lane(server, client)
    }

    fn lane(&mut self, server: ServerId, client: Option<ClientId>) -> ConnectionId {
        let Some(client) = client else { return server.into() };
        if self.settings.dedicated {
            let own = self.own_lanes.get(client.number() as usize);
            let own = own.and_then(|own| own.iter().find(|&&(other, _)| other == server));
            return match own {
                Some(&(_, lane)) => lane,
                None => self.open_own(server, client),
            };
        }
        match (client.number() % self.settings.connections) as usize {
            0 => server.into(),
            turn => {
                let lane = self.servers[server.index()].lanes[turn - 1];
                let link = self.at(lane);
                if link.health == Health::Up && link.by_first.is_empty() {
                    lane
                } else {
                    self.lane_or_first(lane, server, client)
                }
            }
        }
    }

    /// The lane that a client shares, or the first connection while that is down; also when it is
    /// back, as long as what the client has asked by the first is not answered: the next request
    /// would overtake it.
    #[cold]
    fn lane_or_first(&mut self, lane: ConnectionId, server: ServerId, client: ClientId) -> ConnectionId {
        let Self { first, lanes, .. } = self;
        let (Some(first), Err(place)) = (first.get(server.index()), lane.place()) else { return lane };
        let link = &mut lanes[place];
        if link.health == Health::Up {
            link.by_first.retain(|_, asked| first.owes(*asked));
            if !link.by_first.contains_key(&client) {
                return lane;
            }
        }
        link.by_first.insert(client, first.out.end());
        server.into()
    }

    /// A client's own connection to a server. Requests may be appended at once; they leave when it
    /// stands.
    fn open_own(&mut self, server: ServerId, client: ClientId) -> ConnectionId {
        let lane = self.open_lane(server);
        let link = of_all(&mut self.first, &mut self.lanes, lane);
        (link.owner, link.dedicated) = (Some(client), true);
        link.greet(self.login.as_deref());
        let client = client.number() as usize;
        if self.own_lanes.len() <= client {
            self.own_lanes.resize_with(client + 1, Vec::new);
        }
        self.own_lanes[client].push((server, lane));
        lane
    }

    /// A client is gone: its own connections are closed as soon as they owe nothing.
    pub(crate) fn disown(&mut self, client: ClientId) {
        let Some(own) = self.own_lanes.get_mut(client.number() as usize) else { return };
        for (_, lane) in std::mem::take(own) {
            self.at_mut(lane).owner = None;
        }
    }

    /// A lane is lost. A client's own one is not made again before the client asks for something.
    fn lane_lost(&mut self, lane: ConnectionId) {
        if let Some(owner) = self.at_mut(lane).owner.take() {
            self.own_lanes[owner.number() as usize].retain(|&(_, other)| other != lane);
        }
    }

    /// Takes the lanes that are to be connected, each with its server.
    pub(crate) fn take_new_lanes(&mut self) -> Vec<(ConnectionId, ServerId)> {
        let new = std::mem::take(&mut self.new_lanes);
        new.into_iter().map(|lane| (lane, self.server_of(lane))).collect()
    }

    pub(crate) fn has_new_lanes(&self) -> bool {
        !self.new_lanes.is_empty()
    }

    /// Whether a lane is still to be used.
    pub(crate) fn lane_is_wanted(&self, lane: ConnectionId) -> bool {
        let link = self.at(lane);
        self.is_wanted(link.server) && (!link.dedicated || link.owner.is_some())
    }

    /// Whether a lane that is not wanted any more owes nothing.
    pub(crate) fn lane_can_go(&self, lane: ConnectionId) -> bool {
        !self.at(lane).owes_any()
    }

    /// A lane has been closed; the clients that wait for room there are to be admitted before
    /// [`Self::reopen_lane`].
    pub(crate) fn lane_closed(&mut self, lane: ConnectionId) {
        self.lane_lost(lane);
        self.at_mut(lane).health = Health::Down;
    }

    /// The lane can be connected again, or its number be another's where it was a client's own.
    pub(crate) fn reopen_lane(&mut self, lane: ConnectionId) {
        let link = self.at_mut(lane);
        let dedicated = link.dedicated;
        *link = link.reopened();
        if dedicated {
            self.free_lanes.push(lane);
        }
    }

    // ---- a connection's life --------------------------------------------------------------------

    /// A connection stands: the server is asked for its version, and is up when it has told.
    pub(crate) fn connected(&mut self, connection: ConnectionId) {
        let login = self.login.as_deref();
        match connection.place() {
            Ok(first) => self.first[first].greet(login),
            // A client's own was greeted before its first request.
            Err(lane) if self.lanes[lane].dedicated => {}
            Err(lane) => self.lanes[lane].greet(login),
        }
        self.touch(connection);
    }

    /// A server has answered a part of the greeting, which is owed no more. Returns the server that
    /// is up from now on, and whether its share shall grow gradually.
    pub(crate) fn greeted(
        &mut self,
        connection: ConnectionId,
        reply: &Response<'_>,
    ) -> Option<(ServerId, bool)> {
        self.at_mut(connection).pop();
        if reply.class == ReplyClass::Stored {
            // The login is accepted; the version is still to come.
            return None;
        }
        self.at_mut(connection).health = Health::Up;
        if connection.is_lane() {
            return None;
        }
        let id = self.server_of(connection);
        let server = &mut self.servers[id.index()];
        server.up = true;
        let line = String::from_utf8_lossy(reply.line());
        server.set_version(line.trim_start_matches("VERSION "));
        Some((id, server.ejected))
    }

    /// Whether a connection carries requests.
    pub(crate) fn carries(&self, connection: ConnectionId) -> bool {
        self.at(connection).health == Health::Up
    }

    /// A connection is lost, or could not be made. What it owes is to be taken with [`Self::pop`].
    pub(crate) fn lost(&mut self, connection: ConnectionId, why: &str) -> LostConnection {
        let link = self.at_mut(connection);
        let (server, by_lane) = (link.server, connection.is_lane());
        let stood = link.health != Health::Down;
        link.health = Health::Down;
        link.out.clear();
        link.failures += 1;
        let failures = link.failures;
        let mut newly_ejected = false;
        if by_lane {
            // The others may stand as they stood.
            self.lane_lost(connection);
        }
        let known = &mut self.servers[server.index()];
        if !by_lane {
            known.up = false;
            let ejected = self.settings.eject_after.is_some_and(|most| failures >= most);
            newly_ejected = ejected && !known.ejected;
            known.ejected |= ejected;
            known.answered_since_up = 0;
        }
        known.losses += 1;
        known.last_loss = Some(why.to_owned());
        // The text is one line whatever the system or the server said.
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let text = format!("SERVER_ERROR {}: {why}\r\n", known.name);
        LostConnection { server, by_lane, stood, ejected: newly_ejected, text }
    }

    /// When the oldest answer on a connection is overdue.
    pub(crate) fn deadline(&self, connection: ConnectionId) -> Option<Stamp> {
        self.at(connection).oldest_sent().map(|sent| sent + self.settings.timeout)
    }

    /// How long to wait before a lost connection is made again: longer with each failure in a row,
    /// and longer still where the server has been ejected.
    pub(crate) fn reconnect_delay(&self, connection: ConnectionId) -> Nanos {
        let link = self.at(connection);
        let doubled =
            self.settings.reconnect_after.0.saturating_mul(1 << link.failures.saturating_sub(1).min(32));
        let delay = Nanos(doubled).min(self.settings.reconnect_at_most);
        let ejected = !connection.is_lane() && self.servers[link.server.index()].ejected;
        if ejected { delay.max(self.settings.eject_for) } else { delay }
    }

    // ---- requests and answers -------------------------------------------------------------------

    /// Appends what `request` writes to a connection's outbox. Returns how many bytes that are.
    #[inline]
    pub(crate) fn send(
        &mut self,
        connection: ConnectionId,
        pending: Pending,
        request: impl FnOnce(&mut Outbox),
    ) -> usize {
        self.in_flight += 1;
        let Self { first, lanes, servers, dirty, .. } = self;
        let link = of_all(first, lanes, connection);
        link.expect(pending);
        let start = link.out.end();
        request(&mut link.out);
        let length = (link.out.end() - start) as usize;
        if connection.is_lane() {
            // What a server owes by its lanes counts as its own.
            servers[link.server.index()].owed_elsewhere += 1;
        }
        if !link.dirty {
            link.dirty = true;
            dirty.push(connection.number());
        }
        length
    }

    /// What the next answer on a connection belongs to.
    #[inline]
    pub(crate) fn front(&self, connection: ConnectionId) -> Option<&Pending> {
        self.at(connection).front()
    }

    /// How far the next answer on a connection has been read, where it is not whole.
    #[inline]
    pub(crate) fn read_of_front(&self, connection: ConnectionId) -> ValuesRead {
        self.at(connection).read
    }

    /// So much has been read of the next answer on a connection, which is not whole.
    pub(crate) fn note_read(&mut self, connection: ConnectionId, read: ValuesRead) {
        self.at_mut(connection).read = read;
    }

    /// The next answer on a connection that is lost will never come: what it belongs to.
    pub(crate) fn pop(&mut self, connection: ConnectionId) -> Option<Pending> {
        let link = self.at_mut(connection);
        let pending = link.front().copied()?;
        link.pop();
        if pending.recipient != Recipient::Greeting {
            if connection.is_lane() {
                let server = link.server;
                self.servers[server.index()].owed_elsewhere -= 1;
            }
            self.in_flight -= 1;
        }
        Some(pending)
    }

    /// The server has answered the next of what was asked on a connection, with a reply of so many
    /// bytes: that is owed no more, and the server is well. Returns its number, and how long the
    /// connection was occupied since the answer before, or since this was asked.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        connection: ConnectionId,
        bytes: usize,
        now: Stamp,
    ) -> (ServerId, Nanos) {
        self.in_flight -= 1;
        let link = self.at_mut(connection);
        let occupied = link.answered(bytes, now);
        link.failures = 0;
        let server = link.server;
        let known = &mut self.servers[server.index()];
        if connection.is_lane() {
            known.owed_elsewhere -= 1;
            self.first[server.index()].failures = 0;
        }
        known.answered_since_up += 1;
        known.ejected = false;
        if bytes >= LARGE_REQUEST {
            known.had_long(bytes, now);
        }
        (server, occupied)
    }

    /// A long request, of so many bytes, has been sent to a server.
    pub(crate) fn had_long(&mut self, server: ServerId, bytes: usize, now: Stamp) {
        self.servers[server.index()].had_long(bytes, now);
    }

    /// Answers that servers owe to requests.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A server that owes the answer to a copy behind a write. These go by first connections.
    pub(crate) fn owes_copy(&self) -> Option<ServerId> {
        self.ids().find(|server| self.first[server.index()].owes_copy())
    }

    /// Whether a server is up and has not too much before it for what no request waits for.
    pub(crate) fn takes_aside(&self, server: ServerId) -> bool {
        self.is_up(server)
            && self.first[server.index()].out.len() <= ASIDE_BYTES
            && self.outstanding(server) <= ASIDE_REQUESTS
    }

    // ---- written to -----------------------------------------------------------------------------

    #[inline]
    fn touch(&mut self, connection: ConnectionId) {
        let link = self.at_mut(connection);
        if !link.dirty {
            link.dirty = true;
            self.dirty.push(connection.number());
        }
    }

    pub(crate) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Takes the connections that have something to write; `into` is emptied first.
    pub(crate) fn take_dirty(&mut self, into: &mut Vec<usize>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        for &connection in &*into {
            self.at_mut(ConnectionId::new(connection)).dirty = false;
        }
    }

    /// Requests on their way out on a connection.
    #[inline]
    pub(crate) fn outbox(&self, connection: ConnectionId) -> &Outbox {
        &self.at(connection).out
    }

    /// So many bytes have left in a write begun at `before`.
    pub(crate) fn written(&mut self, connection: ConnectionId, count: usize, before: Stamp) {
        let link = self.at_mut(connection);
        link.written(count, before);
        link.out.shrink(KEEP);
    }

    // ---- flow control ---------------------------------------------------------------------------

    /// From now on long requests wait for no room.
    pub(crate) fn lift_windows(&mut self) {
        self.settings.window = usize::MAX;
    }

    /// Whether long requests wait for room at all.
    #[inline]
    pub(crate) fn has_windows(&self) -> bool {
        !self.settings.dedicated && self.settings.window < usize::MAX
    }

    /// Whether there is room for a client's next request on its connection to a server: that
    /// connection and how many bytes it needs there, if there is not. None if the connection is
    /// down.
    pub(crate) fn full(
        &mut self,
        server: ServerId,
        client: ClientId,
        length: RequestLength,
        long: usize,
        now: Stamp,
    ) -> Option<Result<(), (ConnectionId, usize)>> {
        let connection = self.lane(server, Some(client));
        let bytes = self.length(connection, length, long, now);
        let link = self.at(connection);
        if link.health != Health::Up {
            return None;
        }
        let under_way = link.under_way(length);
        let window = link.window.size(self.settings.window);
        let full = under_way > 0 && (!fits(window, under_way, bytes) || link.window.has_waiting(length));
        Some(if full { Err((connection, bytes)) } else { Ok(()) })
    }

    /// How long a reply counts.
    fn length(&self, connection: ConnectionId, length: RequestLength, long: usize, now: Stamp) -> usize {
        if length == RequestLength::Known {
            return long;
        }
        let of_late = self.servers[self.server_of(connection).index()].long_of_late(OF_LATE, now);
        of_late.map_or(UNKNOWN, |bytes| bytes.clamp(UNKNOWN, UNKNOWN_BESIDE_LONG))
    }

    /// A client's next request waits for room on a connection.
    pub(crate) fn wait(&mut self, client: ClientId, wait: &WindowWait) {
        self.at_mut(wait.connection).window.wait(wait.length, client, wait.bytes);
    }

    /// The reply to what was sent last on a connection is likely to be `long`.
    pub(crate) fn expect_long(
        &mut self,
        connection: ConnectionId,
        length: RequestLength,
        long: usize,
        now: Stamp,
    ) {
        let bytes = self.length(connection, length, long, now);
        self.at_mut(connection).expect_long(length, bytes);
    }

    /// The client whose turn it is on a connection.
    #[inline]
    pub(crate) fn next_waiting(&self, connection: ConnectionId, length: RequestLength) -> Option<ClientId> {
        self.at(connection).window.next(length).map(|(client, _)| client)
    }

    /// The client whose turn it was among those of which nothing is known is given long replies, of
    /// so many bytes: it waits among its like.
    pub(crate) fn next_is_known(&mut self, connection: ConnectionId, bytes: usize) {
        self.at_mut(connection).window.next_is_known(bytes);
    }

    /// How much the next request takes of the client whose turn it is on a connection, if there is
    /// room for it; then it has that. What takes few bytes, as is `known` by now, has room always.
    pub(crate) fn admit_next(
        &mut self,
        connection: ConnectionId,
        length: RequestLength,
        known: Option<usize>,
    ) -> Option<usize> {
        let link = self.at(connection);
        let (_, bytes) = link.window.next(length)?;
        // Replies may have turned out to be longer than one thought when this client came.
        let bytes =
            known.unwrap_or_else(|| self.length(connection, length, bytes, link.window.last_answered()));
        let window = link.window.size(self.settings.window);
        let room = fits(window, link.under_way(length), bytes) || link.health != Health::Up;
        if known.is_none() && !room {
            return None;
        }
        self.at_mut(connection).window.admit_next(length, bytes);
        Some(bytes)
    }

    /// A client waits no more for room on a connection, or needs it no more.
    pub(crate) fn leave_window(&mut self, client: ClientId, wait: &WindowWait) {
        self.at_mut(wait.connection).window.leave(client, wait);
    }

    // ---- several loops --------------------------------------------------------------------------

    /// How servers are and what they did, for the sum of all loops.
    pub(crate) fn copy(&self) -> Self {
        let mut copy = Self::empty(self.settings);
        for (number, server) in self.servers.iter().enumerate() {
            copy.push_copy(server, self.outstanding(ServerId::new(number)));
        }
        copy
    }

    fn push_copy(&mut self, server: &Server, outstanding: usize) {
        self.first.push(Connection::to(ServerId::new(self.servers.len())));
        self.servers.push(server.copy(outstanding));
    }

    /// Adds those of another loop.
    pub(crate) fn absorb(&mut self, other: &Self) {
        // A configuration reaches all, one after the other: what one does not have yet is at the
        // end.
        for (number, theirs) in other.servers.iter().enumerate() {
            let outstanding = other.outstanding(ServerId::new(number));
            match self.servers.get_mut(number) {
                Some(ours) => ours.absorb(theirs, outstanding),
                None => self.push_copy(theirs, outstanding),
            }
        }
    }
}
