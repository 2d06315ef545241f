//! More connections to a server than one: some that clients share in turn, or one of each client's own.
//!
//! Every server has a first connection, which tells whether it is up, and by which goes what belongs to no client (refills, copies that
//! nobody waits for). Others are its *lanes*. A client uses the same one all the time, so that what it asks of a server is carried out in its
//! order; what two clients ask by different lanes may overtake each other.

use std::ops::{Index, IndexMut};

use super::Core;
use crate::arena::NOBODY;
use crate::server::{Health, Server};

/// Numbers of lanes begin here, those of servers below. There are at most a thousand of these.
pub const LANES: usize = 1 << 12;

/// The servers' first connections and their lanes, by number.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    first: Vec<Server>,
    lanes: Vec<Server>,
    /// Lanes that are closed, whose numbers may be used again.
    free: Vec<usize>,
    /// Lanes that the engine has not heard of.
    new: Vec<usize>,
}

impl Servers {
    pub(crate) fn of(servers: impl Iterator<Item = Server>) -> Self {
        Self { first: servers.collect(), ..Self::default() }
    }

    pub(crate) fn as_slice(&self) -> &[Server] {
        &self.first
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Server> {
        self.first.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Server> {
        self.first.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    pub(crate) fn get_mut(&mut self, server: usize) -> Option<&mut Server> {
        self.first.get_mut(server)
    }

    pub(crate) fn push(&mut self, server: Server) {
        self.first.push(server);
    }

    /// One more lane to a server; its number.
    fn open(&mut self, server: usize) -> usize {
        let mut lane = Server::new(self.first[server].name.clone());
        lane.lane_of = Some(server);
        let number = match self.free.pop() {
            Some(number) => {
                self[number] = lane;
                number
            }
            None => {
                self.lanes.push(lane);
                LANES + self.lanes.len() - 1
            }
        };
        self.new.push(number);
        number
    }
}

impl Index<usize> for Servers {
    type Output = Server;

    #[inline]
    fn index(&self, number: usize) -> &Server {
        if number < LANES { &self.first[number] } else { &self.lanes[number - LANES] }
    }
}

impl IndexMut<usize> for Servers {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut Server {
        if number < LANES { &mut self.first[number] } else { &mut self.lanes[number - LANES] }
    }
}

impl Core {
    /// The server that a connection leads to.
    #[inline]
    pub(super) fn server_of(&self, number: usize) -> usize {
        if number < LANES { number } else { self.servers[number].lane_of.expect("a lane leads somewhere") }
    }

    /// The connection by which a request goes to a server that is up.
    #[inline]
    pub(super) fn connection(&mut self, server: usize, request: u32) -> usize {
        if self.settings.server_connections == 1 && !self.settings.dedicated {
            return server;
        }
        let lane = self.lane(server, self.requests[request].client);
        if lane != server {
            // What a server owes by its lanes counts as its own.
            self.servers[server].besides += 1;
        }
        lane
    }

    pub(super) fn lane(&mut self, server: usize, client: u32) -> usize {
        if client == NOBODY {
            return server;
        }
        if self.settings.dedicated {
            return match self.clients.lane_to(client, server) {
                Some(lane) => lane,
                None => self.open_dedicated(server, client),
            };
        }
        match (client % self.settings.server_connections) as usize {
            0 => server,
            turn => {
                let lane = self.servers[server].lanes[turn - 1];
                if self.servers[lane].health == Health::Up { lane } else { server }
            }
        }
    }

    /// A client's own connection to a server. Requests may be appended at once; they leave when it stands.
    fn open_dedicated(&mut self, server: usize, client: u32) -> usize {
        let lane = self.servers.open(server);
        let link = &mut self.servers[lane];
        (link.owner, link.dedicated) = (client, true);
        link.greet(self.login.as_deref());
        self.clients.add_lane(client, server, lane);
        lane
    }

    /// A server that is new has as many lanes as were wished.
    pub(super) fn open_shared(&mut self, server: usize) {
        if self.settings.dedicated {
            return;
        }
        for _ in 1..self.settings.server_connections {
            let lane = self.servers.open(server);
            self.servers[server].lanes.push(lane);
        }
    }

    /// A client is gone: its own connections are closed as soon as they owe nothing.
    pub(super) fn close_dedicated(&mut self, client: u32) {
        for (_, lane) in self.clients.take_lanes(client) {
            self.servers[lane].owner = NOBODY;
        }
    }

    /// A lane is lost. One of a client's own is not made again before the client asks for something.
    pub(super) fn lane_lost(&mut self, lane: usize) {
        let owner = std::mem::replace(&mut self.servers[lane].owner, NOBODY);
        if owner != NOBODY {
            self.clients.drop_lane(owner, lane);
        }
    }

    /// Lanes that are to be connected, since the last call, each with its server.
    pub fn take_new_lanes(&mut self) -> Vec<(usize, usize)> {
        let new = std::mem::take(&mut self.servers.new);
        new.into_iter().map(|lane| (lane, self.server_of(lane))).collect()
    }

    /// Whether there are any.
    pub fn has_new_lanes(&self) -> bool {
        !self.servers.new.is_empty()
    }

    /// Whether a lane is still to be used.
    pub fn lane_is_wanted(&self, lane: usize) -> bool {
        let link = &self.servers[lane];
        self.server_is_wanted(self.server_of(lane)) && (!link.dedicated || link.owner != NOBODY)
    }

    /// Whether a lane that is not wanted any more owes nothing, so that it can be closed.
    pub fn lane_can_go(&self, lane: usize) -> bool {
        !self.servers[lane].owes_somebody()
    }

    /// A lane has been closed. The number of a client's own one will be another's.
    pub fn lane_closed(&mut self, lane: usize) {
        self.lane_lost(lane);
        self.servers[lane].health = Health::Down;
        self.let_in(lane);
        let Server { lane_of, dedicated, name, let_in, .. } = std::mem::take(&mut self.servers[lane]);
        let mut closed = Server::new(name);
        (closed.lane_of, closed.dedicated) = (lane_of, dedicated);
        closed.let_in = let_in;
        self.servers[lane] = closed;
        if dedicated {
            self.servers.free.push(lane);
        }
    }

    /// The connection that is a lane stands.
    pub(super) fn lane_connected(&mut self, lane: usize) {
        if !self.servers[lane].dedicated {
            self.servers[lane].greet(self.login.as_deref());
        }
        self.touch_server(lane);
    }
}
