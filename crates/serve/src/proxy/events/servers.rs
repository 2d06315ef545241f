//! Connections to servers: made, read, written, lost, kept up, and given up.

use std::net::SocketAddr;

use krarup_net::mio::event::Event;
use krarup_net::mio::{Registry, Token};
use krarup_net::tls::Connector;
use krarup_net::{Clock, Conn, Moved};
use krarup_record::Outcome;
use krarup_units::{Address, Inbox, Nanos, Stamp};

use super::looking::Answers;
use super::notice::Notice;
use crate::driver::{Outbound, UPSTREAMS};
use crate::proxy::outlook::Numbers;
use crate::proxy::plain;
use crate::slice::Slice;
use krarup_proxy::core::{Core, Distrust, LANES};

/// So many lanes are looked at in every pass; where there are more, all of them so long after the last time.
pub(super) const FEW_LANES: usize = 64;

/// What one read from a server may bring at least.
const SERVER_READ: usize = 128 << 10;

/// Bytes from one server in a pass: who sends much must neither fill the memory nor keep others waiting.
const READ_A_PASS: usize = 1 << 20;

/// Memory a quiet server connection keeps.
const SERVER_KEEP: usize = 1 << 20;

const LANES_LOOKED_AT: Nanos = Nanos::from_millis(5);

pub(super) struct ServerLink {
    /// As it was configured.
    pub(super) address: Address,
    pub(super) addresses: Vec<SocketAddr>,
    /// Which of them is tried next.
    pub(super) turn: usize,
    pub(super) conn: Option<Conn>,
    pub(super) inbox: Inbox,
    pub(super) state: Link,
    pub(super) writable: bool,
    /// Whether the operator knows that it is down.
    pub(super) told_down: bool,
    pub(super) told_up: bool,
    /// Whether the first attempt has ended, one way or the other.
    pub(super) tried: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Waiting(Stamp),
    Connecting(Stamp),
    Connected,
    /// No pool has it any more.
    Retired,
}

/// The servers' first connections and their lanes, by the core's numbers.
pub(super) struct Links {
    pub(super) first: Vec<ServerLink>,
    pub(super) lanes: Vec<ServerLink>,
}

impl Links {
    /// A lane leads where the first connection does.
    pub(super) fn open(&mut self, lane: usize, server: usize, now: Stamp) {
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
    pub(super) fn lanes(&self) -> std::ops::Range<usize> {
        LANES..LANES + self.lanes.len()
    }

    /// Every connection with its number.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &ServerLink)> {
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
    pub(super) fn to(address: Address, numbers: &Numbers, now: Stamp) -> Self {
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

/// How servers are connected to.
pub(super) struct ServerSettings {
    pub(super) connect_timeout: Nanos,
    pub(super) keep_alive: Nanos,
    /// Whoever speaks TLS to them, and the name in their certificates; none: the host's.
    pub(super) tls: Option<(Connector, Option<String>)>,
}

/// All of them.
pub(super) struct Servers {
    pub(super) settings: ServerSettings,
    pub(super) links: Links,
    clock: Clock,
    registry: Registry,
    pub(super) answers: Answers,
    /// When lanes are next looked at, where there are many.
    pub(super) lanes_due: Stamp,
    /// Whether some of them may not be wanted any more.
    pub(super) lanes_to_close: bool,
    /// Servers that may have more to read than one pass took, and whether their end has been announced.
    pub(super) ready: Vec<(usize, bool)>,
    some: Vec<usize>,
    /// Bytes read since this was last reset.
    pub(super) read: usize,
    /// Whether something may be due that was not when deadlines were last looked at.
    pub(super) changed: bool,
    /// For the operator, until they are taken.
    pub(super) notices: Vec<Notice>,
}

impl Servers {
    /// None is connected to yet.
    pub(super) fn new(
        settings: ServerSettings,
        first: Vec<ServerLink>,
        clock: Clock,
        registry: Registry,
        answers: Answers,
    ) -> Self {
        Self {
            settings,
            links: Links { first, lanes: Vec::new() },
            lanes_due: clock.now(),
            clock,
            registry,
            answers,
            lanes_to_close: false,
            ready: Vec::new(),
            some: Vec::new(),
            read: 0,
            changed: true,
            notices: Vec::new(),
        }
    }

    /// Whether no server has to make room before more can be sent to it: of that they do not tell those who listen for answers alone.
    pub(super) fn can_be_written_to(&self) -> bool {
        self.links.all().take(self.links.first.len() + FEW_LANES).all(|(_, link)| {
            link.state != Link::Connected
                || link.writable && link.conn.as_ref().is_none_or(|conn| !conn.is_waiting())
        })
    }
}

impl Outbound<Core> for Servers {
    /// One write for each server that was asked something.
    fn write(&mut self, core: &mut Core, slice: &mut Slice) -> bool {
        let mut servers = std::mem::take(&mut self.some);
        core.take_dirty_servers(&mut servers);
        if core.has_new_lanes() {
            self.open_lanes(core, self.clock.now());
        }
        for &server in &servers {
            self.write_server(core, slice, server);
        }
        let any = !servers.is_empty();
        self.some = servers;
        any
    }

    fn buffered(&self, core: &Core) -> usize {
        self.links.all().map(|(server, link)| link.inbox.capacity() + core.server_waiting(server)).sum()
    }
}

impl Servers {
    pub(super) fn connect(&mut self, core: &mut Core, server: usize, now: Stamp) {
        let link = &mut self.links[server];
        link.inbox.clear();
        link.writable = false;
        let token = Token(UPSTREAMS + server);
        let address = &link.address;
        let begun = match address.file() {
            Some(path) => Conn::connect_file(path, &self.registry, token),
            None if link.addresses.is_empty() => {
                return self.lose(core, server, "its name has no address", Outcome::ServerLost);
            }
            None => {
                let number = link.addresses[link.turn % link.addresses.len()];
                link.turn += 1;
                Conn::connect(number, &self.registry, token)
            }
        };
        let begun = begun.and_then(|mut conn| {
            self.answers.listen_to(&conn, token)?;
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
                link.state = Link::Connecting(now + self.settings.connect_timeout);
            }
            Err(error) => self.lose(core, server, &plain(&error), Outcome::ServerLost),
        }
    }

    /// The connection to a server is no good: everything asked on it is answered with an error, and another is made later.
    pub(super) fn lose(&mut self, core: &mut Core, server: usize, why: &str, outcome: Outcome) {
        self.lose_and_log(core, server, why, outcome, why);
    }

    /// The same for what a server has said: the log has the line, and clients have the reason alone.
    pub(super) fn distrust(&mut self, core: &mut Core, server: usize, distrust: &Distrust) {
        self.lose_and_log(core, server, distrust.why, Outcome::ServerError, &distrust.to_string());
    }

    fn lose_and_log(&mut self, core: &mut Core, server: usize, why: &str, outcome: Outcome, log: &str) {
        let now = self.clock.now();
        self.changed = true;
        let link = &mut self.links[server];
        link.conn = None;
        link.inbox.clear();
        link.inbox.shrink(SERVER_KEEP);
        link.tried = true;
        link.told_up = false;
        // Of lanes nobody need hear: the first connection tells whether a server is up.
        let tell = !std::mem::replace(&mut link.told_down, true) && server < LANES;
        self.lanes_to_close |= server >= LANES;
        core.server_lost(server, why, outcome, now);
        self.links[server].state = Link::Waiting(now + core.reconnect_delay(server));
        if tell {
            self.notices.push(Notice::ServerDown(self.links[server].address.to_string(), log.to_owned()));
        }
    }

    /// A server's connection has become ready.
    pub(super) fn hear_server(&mut self, core: &mut Core, slice: &mut Slice, event: &Event) {
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
        if end_near || event.is_readable() || matches!(link.state, Link::Connecting(_)) {
            self.server_ready(core, slice, server, end_near);
        } else if !core.server_output(server).is_empty() {
            self.write_server(core, slice, server);
        }
    }

    /// Something happened to a server's connection.
    pub(super) fn server_ready(&mut self, core: &mut Core, slice: &mut Slice, server: usize, end_near: bool) {
        if slice.is_spent() {
            return self.ready_again(server, end_near);
        }
        let link = &mut self.links[server];
        let Some(conn) = &mut link.conn else { return };
        if matches!(link.state, Link::Connecting(_)) {
            self.changed = true;
            match conn.connected() {
                Ok(true) => {
                    link.state = Link::Connected;
                    link.writable = true;
                    core.server_connected(server);
                    self.write_server(core, slice, server);
                }
                Ok(false) => return,
                Err(error) => {
                    self.lose(core, server, &plain(&error), Outcome::ServerLost);
                    return;
                }
            }
        }
        if !core.server_output(server).is_empty() {
            self.write_server(core, slice, server);
        }
        let mut taken = 0;
        loop {
            let link = &mut self.links[server];
            let Some(conn) = &mut link.conn else { return };
            let room = link.inbox.room(SERVER_READ);
            let length = room.len();
            match conn.read(room) {
                Moved::Some(count) => {
                    self.read += count;
                    link.inbox.filled(count);
                    let now = self.clock.now();
                    let used = if core.answers_large(server, link.inbox.unread()) {
                        let (memory, unread) = link.inbox.hand_out();
                        let used = core.server_bytes_lent(server, &memory, unread.clone(), now);
                        used.map(|used| link.inbox.give_back(memory, unread.start + used..unread.end))
                    } else {
                        let used = core.server_bytes(server, link.inbox.unread(), now);
                        used.map(|used| link.inbox.consume(used))
                    };
                    match used {
                        Ok(()) => {}
                        Err(why) => {
                            self.distrust(core, server, &why);
                            return;
                        }
                    }
                    if core.server_is_up(server) {
                        let link = &mut self.links[server];
                        link.tried = true;
                        link.told_down = false;
                        if !std::mem::replace(&mut link.told_up, true) && server < LANES {
                            self.notices.push(Notice::ServerUp(link.address.to_string()));
                        }
                    }
                    // A read that did not fill the room has emptied the socket; it will say when there is more.
                    if count < length && !end_near {
                        return;
                    }
                    taken += count;
                    if slice.passes(now) || taken >= READ_A_PASS {
                        self.ready_again(server, end_near);
                        return;
                    }
                }
                Moved::None => return,
                Moved::Closed => {
                    self.lose(core, server, "the server closed the connection", Outcome::ServerLost);
                    return;
                }
                Moved::Failed(error) => {
                    self.lose(core, server, &plain(&error), Outcome::ServerLost);
                    return;
                }
            }
        }
    }

    /// There may be more to read from a server, or to write to it, than was in this pass.
    pub(super) fn ready_again(&mut self, server: usize, end_near: bool) {
        match self.ready.iter_mut().find(|(other, _)| *other == server) {
            Some((_, near)) => *near |= end_near,
            None => self.ready.push((server, end_near)),
        }
    }

    /// Makes a connection that is wanted, and gives up one that takes too long.
    pub(super) fn keep(&mut self, core: &mut Core, server: usize, now: Stamp) {
        if self.links[server].state == Link::Retired {
            self.links[server].state = Link::Waiting(now);
        }
        match self.links[server].state {
            Link::Waiting(until) if until <= now => self.connect(core, server, now),
            Link::Connecting(until) if until <= now => {
                self.lose(core, server, "no connection within the time allowed", Outcome::Timeout);
            }
            Link::Connected if core.server_overdue(server, now) => {
                self.lose(core, server, "no answer within the time allowed", Outcome::Timeout);
            }
            _ => {}
        }
    }

    /// Connects lanes that are new.
    pub(super) fn open_lanes(&mut self, core: &mut Core, now: Stamp) {
        for (lane, server) in core.take_new_lanes() {
            self.links.open(lane, server, now);
            self.keep(core, lane, now);
        }
    }

    /// The same for lanes, new ones at once, and the others, where there are many, now and then.
    pub(super) fn keep_lanes(&mut self, core: &mut Core, now: Stamp) {
        self.open_lanes(core, now);
        if self.links.lanes.len() > FEW_LANES {
            if self.lanes_due > now {
                return;
            }
            self.lanes_due = now + LANES_LOOKED_AT;
        }
        self.lanes_to_close = false;
        for lane in self.links.lanes() {
            let wanted = core.lane_is_wanted(lane);
            if !wanted && self.links[lane].state == Link::Retired {
                continue;
            }
            if wanted || !core.lane_can_go(lane) {
                self.keep(core, lane, now);
                continue;
            }
            let link = &mut self.links[lane];
            link.conn = None;
            link.inbox.clear();
            link.inbox.shrink(0);
            link.state = Link::Retired;
            core.lane_closed(lane);
        }
    }

    /// Closes the connection to a server that no pool has any more, as soon as it owes nothing.
    pub(super) fn retire(&mut self, core: &mut Core, server: usize) {
        let link = &mut self.links[server];
        match link.state {
            Link::Connected if !core.server_can_go(server) => {
                if core.server_overdue(server, self.clock.now()) {
                    self.lose(core, server, "no answer within the time allowed", Outcome::Timeout);
                }
                return;
            }
            Link::Connected => core.server_let_go(server),
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

    pub(super) fn write_server(&mut self, core: &mut Core, slice: &mut Slice, server: usize) {
        let link = &mut self.links[server];
        let Some(conn) = &mut link.conn else { return };
        while link.writable && !core.server_output(server).is_empty() {
            let before = self.clock.now();
            if slice.passes(before) {
                return self.ready_again(server, false);
            }
            let (length, moved) = conn.write_from(core.server_outbox(server));
            match moved {
                Moved::Some(count) => {
                    core.server_written(server, count, before);
                    // A short write means that the kernel has no more room; it will say when it has.
                    link.writable = count == length;
                }
                Moved::None => link.writable = false,
                Moved::Closed => return self.last_answers(core, server, "the server closed the connection"),
                Moved::Failed(error) => return self.last_answers(core, server, &plain(&error)),
            }
        }
    }

    /// Nothing can be written to a server any more. What it answered before that has been carried out and counted there, and is
    /// still to be read; everything else is lost.
    pub(super) fn last_answers(&mut self, core: &mut Core, server: usize, why: &str) {
        loop {
            let link = &mut self.links[server];
            let Some(conn) = &mut link.conn else { return };
            let Moved::Some(count) = conn.read(link.inbox.room(SERVER_READ)) else { break };
            link.inbox.filled(count);
            match core.server_bytes(server, link.inbox.unread(), self.clock.now()) {
                Ok(used) => link.inbox.consume(used),
                Err(why) => return self.distrust(core, server, &why),
            }
        }
        self.lose(core, server, why, Outcome::ServerLost);
    }
}
