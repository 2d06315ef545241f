//! Connections to servers: made, read, written, lost, kept up, and given up.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use krarup_net::mio::event::Event;
use krarup_net::mio::{Registry, Token};
use krarup_net::tls::Connector;
use krarup_net::{Clock, Conn, Moved};
use krarup_service::{ConnectionLoss, LANES, ProtocolError, Upstreams};
use krarup_units::{Address, Inbox, Nanos, Stamp};

use super::clients::{DriverNotice, Outbound, UPSTREAMS};
use super::readiness::ServerPoll;
use crate::descriptor::HeldDescriptor;
use crate::refusal::RefusalNotices;
use crate::slice::Slice;

/// So many lanes are looked at in every pass; where there are more, all of them so long after the
/// last time.
pub(crate) const FEW_LANES: usize = 64;

/// What one read from a server may bring at least.
const SERVER_READ: usize = 128 << 10;

/// Bytes from one server in a pass: who sends much must neither fill the memory nor keep others
/// waiting.
const READ_A_PASS: usize = 1 << 20;

/// Memory a quiet server connection keeps.
const SERVER_KEEP: usize = 1 << 20;

/// Why a connection is given up whose answer takes the memory that others need.
const TOO_LONG: &str = "its answer is larger than half of what an event loop may hold (`memory`)";

const LANES_LOOKED_AT: Nanos = Nanos::from_millis(5);

pub(crate) struct ServerConnection {
    /// As it was configured.
    pub(crate) address: Address,
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where it stands, or is tried next; none: at the first of them.
    at: Option<SocketAddr>,
    /// How many attempts have failed since it stood, or since all of them had been tried.
    failed_attempts: usize,
    pub(crate) conn: Option<Conn>,
    /// Held while it is to be made anew.
    descriptor: HeldDescriptor,
    pub(crate) inbox: Inbox,
    pub(crate) state: ConnectionState,
    pub(crate) writable: bool,
    /// Whether the operator knows that it is down.
    pub(crate) reported_down: bool,
    pub(crate) reported_up: bool,
    /// Whether the first attempt has ended, one way or the other.
    pub(crate) tried: bool,
    /// When the operator was told of an answer of this server that was not taken.
    answer_notices: RefusalNotices,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Waiting(Stamp),
    Connecting(Stamp),
    Connected,
    /// No pool has it any more.
    Retired,
}

/// The servers' first connections and their lanes, by the service's numbers.
pub(crate) struct Connections {
    pub(crate) first: Vec<ServerConnection>,
    pub(crate) lanes: Vec<ServerConnection>,
}

impl Connections {
    /// A lane leads where the first connection does.
    pub(crate) fn open(&mut self, lane: usize, server: usize, now: Stamp) {
        let first = &self.first[server];
        let link = ServerConnection {
            at: first.at,
            ..ServerConnection::to(first.address.clone(), first.addresses.clone(), now)
        };
        // They are made one after the other.
        if lane - LANES == self.lanes.len() {
            self.lanes.push(link);
        } else {
            self[lane] = link;
        }
    }

    /// The numbers of all lanes.
    pub(crate) fn lanes(&self) -> std::ops::Range<usize> {
        LANES..LANES + self.lanes.len()
    }

    /// Every connection with its number.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &ServerConnection)> {
        self.first.iter().enumerate().chain(self.lanes().zip(&self.lanes))
    }
}

impl std::ops::Index<usize> for Connections {
    type Output = ServerConnection;

    fn index(&self, number: usize) -> &ServerConnection {
        if number < LANES { &self.first[number] } else { &self.lanes[number - LANES] }
    }
}

impl std::ops::IndexMut<usize> for Connections {
    fn index_mut(&mut self, number: usize) -> &mut ServerConnection {
        if number < LANES { &mut self.first[number] } else { &mut self.lanes[number - LANES] }
    }
}

impl ServerConnection {
    /// A server that has not been connected to.
    pub(crate) fn to(address: Address, addresses: Vec<SocketAddr>, now: Stamp) -> Self {
        Self {
            address,
            addresses,
            at: None,
            failed_attempts: 0,
            conn: None,
            descriptor: HeldDescriptor::default(),
            inbox: Inbox::default(),
            state: ConnectionState::Waiting(now),
            writable: false,
            reported_down: false,
            reported_up: false,
            tried: false,
            answer_notices: RefusalNotices::default(),
        }
    }

    /// The next attempt is made at the address after the one of the last; says whether an attempt
    /// has been made at every one of them in vain.
    fn try_next(&mut self) -> bool {
        let last = self.addresses.iter().position(|&one| Some(one) == self.at);
        let next = last.map_or(0, |place| place + 1);
        self.at = self.addresses.get(next).copied();
        self.failed_attempts += 1;
        self.failed_attempts >= self.addresses.len()
    }

    /// It is not wanted any more.
    fn retire(&mut self) {
        self.conn = None;
        self.descriptor.release();
        self.inbox.clear();
        self.inbox.shrink(0);
        self.state = ConnectionState::Retired;
        self.failed_attempts = 0;
        self.reported_up = false;
        self.reported_down = false;
    }
}

/// How servers are connected to.
pub(crate) struct ConnectSettings {
    pub(crate) connect_timeout: Nanos,
    pub(crate) keep_alive: Nanos,
    /// What speaks TLS to them, and the name in their certificates; none: the host's.
    pub(crate) tls: Option<(Connector, Option<String>)>,
}

/// All of them.
pub(crate) struct ServerConnections {
    pub(crate) settings: ConnectSettings,
    pub(crate) links: Connections,
    clock: Clock,
    registry: Registry,
    pub(crate) poll: ServerPoll,
    /// When lanes are next looked at, where there are many.
    pub(crate) lanes_due: Stamp,
    /// Whether some of them may not be wanted any more.
    pub(crate) lanes_to_close: bool,
    /// Servers that may have more to read than one pass took, and whether their end has been
    /// announced.
    pub(crate) ready: Vec<(usize, bool)>,
    some: Vec<usize>,
    /// Bytes read since this was last reset.
    pub(crate) read: usize,
    /// Whether something may be due that was not when deadlines were last looked at.
    pub(crate) changed: bool,
    /// For the operator, until they are taken.
    pub(crate) notices: Vec<DriverNotice>,
}

impl ServerConnections {
    /// None is connected to yet.
    pub(crate) fn new(
        settings: ConnectSettings,
        first: Vec<ServerConnection>,
        clock: Clock,
        registry: Registry,
        poll: ServerPoll,
    ) -> Self {
        Self {
            settings,
            links: Connections { first, lanes: Vec::new() },
            lanes_due: clock.now(),
            clock,
            registry,
            poll,
            lanes_to_close: false,
            ready: Vec::new(),
            some: Vec::new(),
            read: 0,
            changed: true,
            notices: Vec::new(),
        }
    }

    /// Whether no server has to make room before more can be sent to it: of that they do not tell a
    /// loop that listens for answers alone.
    pub(crate) fn can_be_written_to(&self) -> bool {
        self.links.all().take(self.links.first.len() + FEW_LANES).all(|(_, link)| {
            link.state != ConnectionState::Connected
                || link.writable && link.conn.as_ref().is_none_or(|conn| !conn.is_waiting())
        })
    }
}

impl<S: Upstreams> Outbound<S> for ServerConnections {
    /// One write for each server that was asked something.
    fn write(&mut self, service: &mut S, slice: &mut Slice) -> bool {
        let mut servers = std::mem::take(&mut self.some);
        service.take_dirty_servers(&mut servers);
        if service.has_new_lanes() {
            self.open_lanes(service, self.clock.now());
        }
        for &server in &servers {
            self.write_server(service, slice, server);
        }
        let any = !servers.is_empty();
        self.some = servers;
        any
    }

    fn buffered(&self, service: &S) -> usize {
        self.links
            .all()
            .map(|(server, link)| link.inbox.capacity() + service.server_output(server).held())
            .sum()
    }

    fn shed(&mut self, service: &mut S, most: usize) -> usize {
        let longest = self.links.all().map(|(server, link)| (link.inbox.unread().len(), server)).max();
        let Some((_, server)) = longest.filter(|&(length, _)| length > most) else { return 0 };
        let before = self.links[server].inbox.capacity();
        self.note_refused(service, server, TOO_LONG);
        self.lose(service, server, TOO_LONG, ConnectionLoss::Broken);
        before - self.links[server].inbox.capacity()
    }
}

impl ServerConnections {
    pub(crate) fn connect(&mut self, service: &mut impl Upstreams, server: usize, now: Stamp) {
        let link = &mut self.links[server];
        link.inbox.clear();
        link.writable = false;
        link.descriptor.release();
        let token = Token(UPSTREAMS + server);
        let address = &link.address;
        let begun = match address.file() {
            Some(path) => Conn::connect_file(path, &self.registry, token),
            None if link.addresses.is_empty() => {
                return self.lose(service, server, "its name has no address", ConnectionLoss::Broken);
            }
            None => {
                let known = link.at.filter(|at| link.addresses.contains(at));
                let number = known.unwrap_or(link.addresses[0]);
                link.at = Some(number);
                Conn::connect(number, &self.registry, token)
            }
        };
        let begun = begun.and_then(|mut conn| {
            self.poll.listen_to(&conn, token)?;
            if self.settings.keep_alive > Nanos::ZERO {
                let _ = conn.keep_alive(self.settings.keep_alive);
            }
            if let Some((connector, name)) = &self.settings.tls {
                conn.encrypt_to(connector, name.as_deref().unwrap_or(&address.host))?;
            }
            Ok(conn)
        });
        match begun {
            Ok(conn) => {
                link.conn = Some(conn);
                link.state = ConnectionState::Connecting(now + self.settings.connect_timeout);
            }
            Err(error) => self.lose(service, server, &plain(&error), ConnectionLoss::Broken),
        }
    }

    /// The connection to a server is no good: everything asked on it is answered with an error, and
    /// another is made later, at the address at which the server was up. Where it could not be
    /// made, that is tried at the server's other addresses before.
    pub(crate) fn lose(
        &mut self,
        service: &mut impl Upstreams,
        server: usize,
        why: &str,
        loss: ConnectionLoss,
    ) {
        self.lose_and_log(service, server, why, loss, why);
    }

    /// The same for what a server has said: the log has the line, and clients have the reason
    /// alone.
    pub(crate) fn distrust(&mut self, service: &mut impl Upstreams, server: usize, distrust: &ProtocolError) {
        let log = distrust.to_string();
        self.note_refused(service, server, &log);
        self.lose_and_log(service, server, distrust.why, ConnectionLoss::Untrusted, &log);
    }

    /// Tells why an answer is not taken, on whichever connection it came: of lanes, and of other
    /// loops, it is not told that they are lost. What comes before a server takes requests comes at
    /// each attempt, and is why it is down.
    fn note_refused(&mut self, service: &impl Upstreams, server: usize, why: &str) {
        if !service.server_is_up(server) {
            return;
        }
        let (address, now) = (self.links[server].address.clone(), self.clock.now());
        let mut servers = self.links.first.iter_mut();
        let first = servers.find(|first| first.address == address);
        if first.is_some_and(|first| first.answer_notices.is_due(now)) {
            self.notices.push(DriverNotice::AnswerRefused(address, why.to_owned()));
        }
    }

    fn lose_and_log(
        &mut self,
        service: &mut impl Upstreams,
        server: usize,
        why: &str,
        loss: ConnectionLoss,
        log: &str,
    ) {
        let now = self.clock.now();
        self.changed = true;
        self.lanes_to_close |= server >= LANES;
        let link = &mut self.links[server];
        link.conn = None;
        link.descriptor.hold();
        link.inbox.clear();
        link.inbox.shrink(SERVER_KEEP);
        let was_up = std::mem::replace(&mut link.reported_up, false);
        let is_down = was_up || link.try_next();
        // Of one that stood the service knows, and must know that it is lost.
        if !is_down && link.state != ConnectionState::Connected {
            link.state = ConnectionState::Waiting(now);
            return;
        }
        link.failed_attempts = 0;
        link.tried = true;
        // Of lanes no event is needed: the first connection tells whether a server is up.
        let tell = !std::mem::replace(&mut link.reported_down, true) && server < LANES;
        service.server_lost(server, why, loss, now);
        self.links[server].state = ConnectionState::Waiting(now + service.reconnect_delay(server));
        if tell {
            self.notices.push(DriverNotice::ServerDown(self.links[server].address.clone(), log.to_owned()));
        }
    }

    /// A server's connection has become ready.
    pub(crate) fn note_server(&mut self, service: &mut impl Upstreams, slice: &mut Slice, event: &Event) {
        let server = event.token().0 - UPSTREAMS;
        let link = &mut self.links[server];
        link.writable |= event.is_writable();
        if event.is_writable()
            && let Some(conn) = &mut link.conn
            && conn.is_waiting()
        {
            // Where it fails, reading will find out.
            let _ = conn.flush();
        }
        let end_near = event.is_read_closed() || event.is_error();
        if end_near || event.is_readable() || matches!(link.state, ConnectionState::Connecting(_)) {
            self.read_server(service, slice, server, end_near);
        } else if !service.server_output(server).is_empty() {
            self.write_server(service, slice, server);
        }
    }

    /// Something happened to a server's connection.
    pub(crate) fn read_server(
        &mut self,
        service: &mut impl Upstreams,
        slice: &mut Slice,
        server: usize,
        end_near: bool,
    ) {
        if slice.is_spent() {
            return self.queue_server(server, end_near);
        }
        let link = &mut self.links[server];
        let Some(conn) = &mut link.conn else { return };
        if matches!(link.state, ConnectionState::Connecting(_)) {
            self.changed = true;
            match conn.connected() {
                Ok(true) => {
                    link.state = ConnectionState::Connected;
                    link.writable = true;
                    service.server_connected(server);
                    self.write_server(service, slice, server);
                }
                Ok(false) => return,
                Err(error) => return self.lose(service, server, &plain(&error), ConnectionLoss::Broken),
            }
        }
        if !service.server_output(server).is_empty() {
            self.write_server(service, slice, server);
        }
        let mut taken = 0;
        loop {
            let link = &mut self.links[server];
            let Some(conn) = &mut link.conn else { return };
            let room = link.inbox.room(SERVER_READ);
            let length = room.len();
            let greeted = conn.is_greeted();
            let moved = conn.read(room);
            let end_near = end_near || conn.has_ended();
            if !greeted {
                // A handshake takes long, and brings nothing to read.
                slice.passes(self.clock.now());
            }
            match moved {
                Moved::Some(count) => {
                    self.read += count;
                    link.inbox.filled(count);
                    let now = self.clock.now();
                    let used = if service.server_begins_large(server, link.inbox.unread()) {
                        let (memory, unread) = link.inbox.hand_out();
                        let used = service.server_read_lent(server, &memory, unread.clone(), now);
                        used.map(|used| link.inbox.give_back(memory, unread.start + used..unread.end))
                    } else {
                        let used = service.server_read(server, link.inbox.unread(), now);
                        used.map(|used| link.inbox.consume(used))
                    };
                    if let Err(why) = used {
                        return self.distrust(service, server, &why);
                    }
                    if service.server_is_up(server) {
                        let link = &mut self.links[server];
                        link.tried = true;
                        link.reported_down = false;
                        if !std::mem::replace(&mut link.reported_up, true) && server < LANES {
                            self.notices.push(DriverNotice::ServerUp(link.address.clone()));
                        }
                    }
                    // A read that did not fill the room has emptied the socket; it will say when
                    // there is more.
                    if count < length && !end_near {
                        return;
                    }
                    taken += count;
                    if slice.passes(now) || taken >= READ_A_PASS {
                        self.queue_server(server, end_near);
                        return;
                    }
                }
                Moved::None => return,
                Moved::Closed => {
                    self.lose(service, server, "the server closed the connection", ConnectionLoss::Broken);
                    return;
                }
                Moved::Failed(error) => {
                    self.lose(service, server, &plain(&error), ConnectionLoss::Broken);
                    return;
                }
            }
        }
    }

    /// There may be more to read from a server, or to write to it, than was in this pass.
    pub(crate) fn queue_server(&mut self, server: usize, end_near: bool) {
        match self.ready.iter_mut().find(|(other, _)| *other == server) {
            Some((_, near)) => *near |= end_near,
            None => self.ready.push((server, end_near)),
        }
    }

    /// Makes a connection that is wanted, and gives up one that takes too long.
    pub(crate) fn keep(&mut self, service: &mut impl Upstreams, server: usize, now: Stamp) {
        if self.links[server].state == ConnectionState::Retired {
            self.links[server].state = ConnectionState::Waiting(now);
        }
        match self.links[server].state {
            ConnectionState::Waiting(until) if until <= now => self.connect(service, server, now),
            // One that none was left for takes what a client gives back before others are accepted.
            ConnectionState::Waiting(_) => self.links[server].descriptor.hold(),
            ConnectionState::Connecting(until) if until <= now => {
                self.lose(service, server, "no connection within the time allowed", ConnectionLoss::TimedOut);
            }
            ConnectionState::Connected if service.server_overdue(server, now) => {
                self.lose(service, server, "no answer within the time allowed", ConnectionLoss::TimedOut);
            }
            _ => {}
        }
    }

    /// Connects lanes that are new.
    pub(crate) fn open_lanes(&mut self, service: &mut impl Upstreams, now: Stamp) {
        for (lane, server) in service.take_new_lanes() {
            self.changed = true;
            self.links.open(lane, server, now);
            self.keep(service, lane, now);
        }
    }

    /// The same for lanes, new ones at once, and the others, where there are many, now and then.
    pub(crate) fn keep_lanes(&mut self, service: &mut impl Upstreams, now: Stamp) {
        self.open_lanes(service, now);
        if self.links.lanes.len() > FEW_LANES {
            if self.lanes_due > now {
                return;
            }
            self.lanes_due = now + LANES_LOOKED_AT;
        }
        self.lanes_to_close = false;
        for lane in self.links.lanes() {
            let wanted = service.server_is_wanted(lane);
            if !wanted && self.links[lane].state == ConnectionState::Retired {
                continue;
            }
            if wanted || !service.server_can_go(lane) {
                self.keep(service, lane, now);
                continue;
            }
            self.links[lane].retire();
            service.server_closed(lane);
        }
    }

    /// Closes the connection to a server that no pool has any more, as soon as it owes nothing.
    pub(crate) fn retire(&mut self, service: &mut impl Upstreams, server: usize) {
        let link = &mut self.links[server];
        match link.state {
            ConnectionState::Connected if !service.server_can_go(server) => {
                if service.server_overdue(server, self.clock.now()) {
                    self.lose(service, server, "no answer within the time allowed", ConnectionLoss::TimedOut);
                }
                return;
            }
            ConnectionState::Connected => service.server_closed(server),
            ConnectionState::Retired => return,
            ConnectionState::Waiting(_) | ConnectionState::Connecting(_) => {}
        }
        link.retire();
    }

    pub(crate) fn write_server(&mut self, service: &mut impl Upstreams, slice: &mut Slice, server: usize) {
        let link = &mut self.links[server];
        let Some(conn) = &mut link.conn else { return };
        while link.writable && !service.server_output(server).is_empty() {
            let before = self.clock.now();
            if slice.passes(before) {
                return self.queue_server(server, false);
            }
            let (length, moved) = conn.write_from(service.server_output(server));
            match moved {
                Moved::Some(count) => {
                    service.server_written(server, count, before);
                    // A short write means that the kernel has no more room; it will say when it
                    // has.
                    link.writable = count == length;
                }
                Moved::None => link.writable = false,
                Moved::Closed => {
                    return self.last_answers(service, server, "the server closed the connection");
                }
                Moved::Failed(error) => return self.last_answers(service, server, &plain(&error)),
            }
        }
    }

    /// Nothing can be written to a server any more. What it answered before that has been carried
    /// out and counted there, and is still to be read; everything else is lost.
    pub(crate) fn last_answers(&mut self, service: &mut impl Upstreams, server: usize, why: &str) {
        loop {
            let link = &mut self.links[server];
            let Some(conn) = &mut link.conn else { return };
            let Moved::Some(count) = conn.read(link.inbox.room(SERVER_READ)) else { break };
            link.inbox.filled(count);
            match service.server_read(server, link.inbox.unread(), self.clock.now()) {
                Ok(used) => link.inbox.consume(used),
                Err(why) => return self.distrust(service, server, &why),
            }
        }
        self.lose(service, server, why, ConnectionLoss::Broken);
    }
}

/// The system's words for an error, without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset => "the server reset the connection".into(),
        ErrorKind::BrokenPipe => "the server closed the connection".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use krarup_net::Stream;
    use krarup_net::mio::{Poll, net};

    use super::super::testing;
    use super::*;

    fn numbers() -> [SocketAddr; 2] {
        ["127.0.0.1:1", "127.0.0.1:2"].map(|text| text.parse().unwrap())
    }

    fn server() -> ServerConnection {
        ServerConnection::to("cache.example:1".parse().unwrap(), numbers().to_vec(), Stamp(0))
    }

    #[test]
    fn a_lane_leads_to_the_address_at_which_the_first_connection_stands() {
        let mut links = Connections { first: vec![server()], lanes: Vec::new() };
        for at in [None, Some(numbers()[1])] {
            links.first[0].at = at;
            links.open(LANES, 0, Stamp(0));
            assert_eq!(links[LANES].at, at);
        }
    }

    #[test]
    fn a_connection_that_is_lost_keeps_its_descriptor_until_it_is_made_or_not_wanted_any_more() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut core = testing::proxy();
        let settings = ConnectSettings { connect_timeout: Nanos::ZERO, keep_alive: Nanos::ZERO, tls: None };
        let registry = Poll::new().unwrap().registry().try_clone().unwrap();
        let address = listener.local_addr().unwrap();
        let link = ServerConnection::to(address.into(), vec![address], Stamp(0));
        let poll = ServerPoll::new().unwrap();
        let mut servers = ServerConnections::new(settings, vec![link], Clock::start(), registry, poll);
        for _ in 0..2 {
            servers.connect(&mut core, 0, Stamp(0));
            assert!(servers.links[0].conn.is_some() && !servers.links[0].descriptor.is_held());
            servers.lose(&mut core, 0, "gone", ConnectionLoss::Broken);
            assert!(servers.links[0].descriptor.is_held());
        }
        servers.links[0].descriptor.release();
        servers.keep(&mut core, 0, Stamp(0));
        assert!(servers.links[0].descriptor.is_held(), "none was left then");
        servers.retire(&mut core, 0);
        assert!(!servers.links[0].descriptor.is_held());
    }

    #[test]
    fn a_handshake_with_a_server_is_part_of_the_slice() {
        let file = std::env::temp_dir().join(format!("krarup-handshake-{}", std::process::id()));
        let listener = UnixListener::bind(&file).unwrap();
        let mut core = testing::proxy();
        let tls = Some((testing::connector(), Some("localhost".to_owned())));
        let settings = ConnectSettings { connect_timeout: Nanos::ZERO, keep_alive: Nanos::ZERO, tls };
        let registry = Poll::new().unwrap().registry().try_clone().unwrap();
        let link = ServerConnection::to(Address::of_file(&file), Vec::new(), Stamp(0));
        let poll = ServerPoll::new().unwrap();
        let mut servers = ServerConnections::new(settings, vec![link], Clock::start(), registry, poll);
        servers.connect(&mut core, 0, Stamp(0));
        let (stream, _) = listener.accept().unwrap();
        fs::remove_file(&file).unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = Stream::Unix(net::UnixStream::from_std(stream));
        let mut server = Conn::accepted(stream, &servers.registry, Token(0)).unwrap();
        server.encrypt_accepted(&testing::acceptor()).unwrap();
        servers.links[0].conn.as_mut().unwrap().flush().unwrap();
        servers.read_server(&mut core, &mut Slice::default(), 0, false);
        assert!(matches!(server.read(&mut [0; 8]), Moved::None), "it has been greeted, and greets");
        let mut slice = Slice::default();
        servers.read_server(&mut core, &mut slice, 0, false);
        assert!(servers.links[0].conn.as_ref().unwrap().is_greeted());
        let later = servers.clock.now() + Nanos::from_secs(1);
        assert!(slice.passes(later), "it has begun");
    }

    #[test]
    fn a_server_is_down_when_none_of_its_addresses_can_be_connected_to() {
        let mut core = testing::proxy();
        let settings = ConnectSettings { connect_timeout: Nanos::ZERO, keep_alive: Nanos::ZERO, tls: None };
        let registry = Poll::new().unwrap().registry().try_clone().unwrap();
        let poll = ServerPoll::new().unwrap();
        let mut servers = ServerConnections::new(settings, vec![server()], Clock::start(), registry, poll);
        let ([a, b], connecting) = (numbers(), ConnectionState::Connecting(Stamp(0)));
        let mut lose = |state, was_up| {
            let link = &mut servers.links[0];
            link.at.get_or_insert(a);
            (link.state, link.reported_up, link.reported_down) = (state, was_up, false);
            servers.lose(&mut core, 0, "connection refused", ConnectionLoss::Broken);
            let link = &servers.links[0];
            let (at, tried) = (link.at.unwrap_or(a), link.tried);
            (at, tried, servers.notices.drain(..).count())
        };
        assert_eq!(lose(connecting, false), (b, false, 0));
        assert_eq!(lose(connecting, false), (a, true, 1));
        // Where it was up it is looked for first, and at the other one at once.
        assert_eq!(lose(ConnectionState::Connected, true), (a, true, 1));
        assert_eq!(lose(connecting, false), (b, true, 0));
        assert_eq!(lose(ConnectionState::Connected, true), (b, true, 1));
        // One that answers nothing is down, and tried at its other address the next time.
        assert_eq!(lose(ConnectionState::Connected, false), (a, true, 1));
    }
}
