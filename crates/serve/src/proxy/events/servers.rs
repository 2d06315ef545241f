//! Connections to servers: made, read, lost, kept up, and given up.

use krarup_net::mio::Token;
use krarup_net::mio::event::Event;
use krarup_net::{Conn, Moved};
use krarup_record::Outcome;
use krarup_units::{Nanos, Stamp};

use super::{Engine, FEW_LANES, Link, Notice, SERVER_READ, SERVERS, link_has_output};
use crate::proxy::plain;
use krarup_proxy::core::{Distrust, LANES};

/// Bytes from one server in a pass: who sends much must neither fill the memory nor keep others waiting.
const READ_A_PASS: usize = 1 << 20;

/// Memory a quiet server connection keeps.
const SERVER_KEEP: usize = 1 << 20;

const LANES_LOOKED_AT: Nanos = Nanos::from_millis(5);

impl<N: FnMut(Notice)> Engine<N> {
    pub(super) fn connect(&mut self, server: usize, now: Stamp) {
        let link = &mut self.servers[server];
        link.inbox.clear();
        link.writable = false;
        let token = Token(SERVERS + server);
        let address = &link.address;
        let begun = match address.file() {
            Some(path) => Conn::connect_file(path, self.poll.registry(), token),
            None if link.addresses.is_empty() => {
                return self.lose(server, "its name has no address", Outcome::ServerLost);
            }
            None => {
                let number = link.addresses[link.turn % link.addresses.len()];
                link.turn += 1;
                Conn::connect(number, self.poll.registry(), token)
            }
        };
        let begun = begun.and_then(|mut conn| {
            self.answers.listen_to(&conn, token)?;
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
    pub(super) fn lose(&mut self, server: usize, why: &str, outcome: Outcome) {
        self.lose_and_log(server, why, outcome, why);
    }

    /// The same for what a server has said: the log has the line, and clients have the reason alone.
    pub(super) fn distrust(&mut self, server: usize, distrust: &Distrust) {
        self.lose_and_log(server, distrust.why, Outcome::ServerError, &distrust.to_string());
    }

    fn lose_and_log(&mut self, server: usize, why: &str, outcome: Outcome, log: &str) {
        let now = self.clock.now();
        self.settled_until = Stamp(0);
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
            (self.notice)(Notice::ServerDown(self.servers[server].address.to_string(), log.to_owned()));
        }
    }

    /// A server's connection has become ready.
    pub(super) fn hear_server(&mut self, event: &Event) {
        let server = event.token().0 - SERVERS;
        let link = &mut self.servers[server];
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
            self.server_ready(server, end_near);
        } else if link_has_output(&self.core, server) {
            self.write_server(server);
        }
    }

    /// Something happened to a server's connection.
    pub(super) fn server_ready(&mut self, server: usize, end_near: bool) {
        if self.slice.is_spent() {
            return self.ready_again(server, end_near);
        }
        let link = &mut self.servers[server];
        let Some(conn) = &mut link.conn else { return };
        if matches!(link.state, Link::Connecting(_)) {
            self.settled_until = Stamp(0);
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
                    self.memory.came(count);
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
                            self.distrust(server, &why);
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
                    if self.slice.passes(now) || taken >= READ_A_PASS {
                        self.ready_again(server, end_near);
                        return self.count_memory();
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

    /// There may be more to read from a server, or to write to it, than was in this pass.
    pub(super) fn ready_again(&mut self, server: usize, end_near: bool) {
        match self.ready_servers.iter_mut().find(|(other, _)| *other == server) {
            Some((_, near)) => *near |= end_near,
            None => self.ready_servers.push((server, end_near)),
        }
    }

    /// Makes a connection that is wanted, and gives up one that takes too long.
    pub(super) fn keep(&mut self, server: usize, now: Stamp) {
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
    pub(super) fn open_lanes(&mut self, now: Stamp) {
        for (lane, server) in self.core.take_new_lanes() {
            self.servers.open(lane, server, now);
            self.keep(lane, now);
        }
    }

    /// The same for lanes, new ones at once, and the others, where there are many, now and then.
    pub(super) fn keep_lanes(&mut self, now: Stamp) {
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
    pub(super) fn retire(&mut self, server: usize) {
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
}
