//! What the driver asks and tells of the connections to servers. A number below [`LANES`](super::LANES) is that of a server and of its first
//! connection, others are those of lanes.

use krarup_units::{Nanos, Outbox, Stamp};

use super::Core;
use crate::ids::{ConnectionId, ServerId};

impl Core {
    /// A connection to the server stands: it is asked for its version, and is up when it has told.
    pub fn server_connected(&mut self, server: usize) {
        self.upstreams.connected(ConnectionId::new(server));
    }

    /// Connections to servers that have something to write, since the last call; `into` is emptied first.
    pub fn take_dirty_servers(&mut self, into: &mut Vec<usize>) {
        self.upstreams.take_dirty(into);
    }

    /// How many bytes of memory the requests hold that wait for this server.
    pub fn server_waiting(&self, server: usize) -> usize {
        self.upstreams.outbox(ConnectionId::new(server)).held()
    }

    /// Requests that wait to be written to this server, as many as lie together.
    pub fn server_output(&self, server: usize) -> &[u8] {
        self.upstreams.outbox(ConnectionId::new(server)).unsent()
    }

    /// All that waits to be written to this server.
    pub fn server_outbox(&self, server: usize) -> &Outbox {
        self.upstreams.outbox(ConnectionId::new(server))
    }

    /// The first `count` bytes of the output left in a write begun at `before`.
    pub fn server_written(&mut self, server: usize, count: usize, before: Stamp) {
        self.upstreams.written(ConnectionId::new(server), count, before);
    }

    /// Whether an answer is overdue at `now`.
    pub fn server_overdue(&mut self, server: usize, now: Stamp) -> bool {
        let overdue = self.server_deadline(server).is_some_and(|deadline| deadline <= now);
        self.books.count_if(overdue, |events| &mut events.timeouts);
        overdue
    }

    /// When the oldest answer will be overdue.
    pub fn server_deadline(&self, server: usize) -> Option<Stamp> {
        self.upstreams.deadline(ConnectionId::new(server))
    }

    /// How long to wait before connecting to a lost server again: longer with each failure in a row, and longer still where
    /// it has been ejected.
    pub fn reconnect_delay(&self, server: usize) -> Nanos {
        self.upstreams.reconnect_delay(ConnectionId::new(server))
    }

    /// Whether the server takes requests.
    pub fn server_is_up(&self, server: usize) -> bool {
        self.upstreams.carries(ConnectionId::new(server))
    }

    /// What a server has said its version is.
    pub fn server_version(&self, server: usize) -> Option<&str> {
        self.upstreams.servers()[server].version()
    }

    /// How many servers there are.
    pub fn server_count(&self) -> usize {
        self.upstreams.servers().len()
    }

    /// From now on this is said on every new connection to a server, before anything else.
    pub fn sign_in_with(&mut self, login: Option<Vec<u8>>) {
        self.upstreams.sign_in_with(login);
    }

    // ---- servers that come and go ---------------------------------------------------------------------------

    /// Whether the server is in no pool any more and owes no answer: its connection can be closed.
    pub fn server_can_go(&self, server: usize) -> bool {
        self.upstreams.can_go(ServerId::new(server))
    }

    /// Whether the server is in a pool, or will be.
    pub fn server_is_wanted(&self, server: usize) -> bool {
        self.upstreams.is_wanted(ServerId::new(server))
    }

    /// These servers, and no others, will be in the topology that is to come: they can be connected to before it holds, so that
    /// nothing waits or fails when it does. Returns their numbers.
    pub fn announce(&mut self, names: Vec<String>) -> Vec<usize> {
        self.upstreams.announce(names).into_iter().map(ServerId::index).collect()
    }

    /// A server that is in no pool any more has been closed.
    pub fn server_let_go(&mut self, server: usize) {
        debug_assert!(self.server_can_go(server), "nothing it owes is lost");
        self.upstreams.let_go(ServerId::new(server));
        self.routing.went_down(ServerId::new(server));
    }

    // ---- lanes ----------------------------------------------------------------------------------------------

    /// Lanes that are to be connected, since the last call, each with its server.
    pub fn take_new_lanes(&mut self) -> Vec<(usize, usize)> {
        let new = self.upstreams.take_new_lanes().into_iter();
        new.map(|(lane, server)| (lane.number(), server.index())).collect()
    }

    /// Whether there are any.
    pub fn has_new_lanes(&self) -> bool {
        self.upstreams.has_new_lanes()
    }

    /// Whether a lane is still to be used.
    pub fn lane_is_wanted(&self, lane: usize) -> bool {
        self.upstreams.lane_is_wanted(ConnectionId::new(lane))
    }

    /// Whether a lane that is not wanted any more owes nothing, so that it can be closed.
    pub fn lane_can_go(&self, lane: usize) -> bool {
        self.upstreams.lane_can_go(ConnectionId::new(lane))
    }

    /// A lane has been closed. The number of a client's own one will be another's.
    pub fn lane_closed(&mut self, lane: usize) {
        self.upstreams.lane_closed(ConnectionId::new(lane));
        self.admit_waiting(ConnectionId::new(lane));
        self.upstreams.reopen_lane(ConnectionId::new(lane));
    }
}
