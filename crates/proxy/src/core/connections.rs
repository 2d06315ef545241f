//! The connections to servers, as the driver asks and tells of them.

use std::ops::Range;
use std::sync::Arc;

use krarup_record::Outcome;
use krarup_service::{ConnectionLoss, ProtocolError, Upstreams};
use krarup_units::{Nanos, Outbox, Stamp};

use super::Core;
use crate::ids::{ConnectionId, ServerId};
use crate::large::RequestBytes;
use crate::topology::PoolSpec;

/// The number of a server's first connection is the server's.
impl Upstreams for Core {
    /// The server is asked for its version, and is up when it has told.
    fn server_connected(&mut self, connection: usize) {
        self.upstreams.connected(ConnectionId::new(connection));
    }

    #[inline]
    fn server_read(&mut self, connection: usize, bytes: &[u8], now: Stamp) -> Result<usize, ProtocolError> {
        self.read_server(ConnectionId::new(connection), RequestBytes { bytes, memory: None }, now)
    }

    fn server_begins_large(&self, connection: usize, bytes: &[u8]) -> bool {
        self.answers_large(ConnectionId::new(connection), bytes)
    }

    fn server_read_lent(
        &mut self,
        connection: usize,
        memory: &Arc<Vec<u8>>,
        unread: Range<usize>,
        now: Stamp,
    ) -> Result<usize, ProtocolError> {
        let source = RequestBytes { bytes: &memory[unread], memory: Some(memory) };
        self.read_server(ConnectionId::new(connection), source, now)
    }

    #[inline]
    fn server_output(&self, connection: usize) -> &Outbox {
        self.upstreams.outbox(ConnectionId::new(connection))
    }

    #[inline]
    fn server_written(&mut self, connection: usize, count: usize, before: Stamp) {
        self.upstreams.written(ConnectionId::new(connection), count, before);
    }

    fn server_lost(&mut self, connection: usize, why: &str, loss: ConnectionLoss, now: Stamp) {
        let outcome = match loss {
            ConnectionLoss::Broken => Outcome::ServerLost,
            ConnectionLoss::TimedOut => Outcome::Timeout,
            ConnectionLoss::Untrusted => Outcome::ServerError,
        };
        self.lost(ConnectionId::new(connection), why, outcome, now);
    }

    /// Longer with each failure in a row, and longer still where the server has been ejected.
    fn reconnect_delay(&self, connection: usize) -> Nanos {
        self.upstreams.reconnect_delay(ConnectionId::new(connection))
    }

    #[inline]
    fn server_is_up(&self, connection: usize) -> bool {
        self.upstreams.carries(ConnectionId::new(connection))
    }

    fn server_deadline(&self, connection: usize) -> Option<Stamp> {
        self.upstreams.deadline(ConnectionId::new(connection))
    }

    fn server_overdue(&mut self, connection: usize, now: Stamp) -> bool {
        let overdue = self.server_deadline(connection).is_some_and(|deadline| deadline <= now);
        self.books.count_if(overdue, |events| &mut events.timeouts);
        overdue
    }

    fn server_is_wanted(&self, connection: usize) -> bool {
        let connection = ConnectionId::new(connection);
        match connection.place() {
            Ok(server) => self.upstreams.is_wanted(ServerId::new(server)),
            Err(_) => self.upstreams.lane_is_wanted(connection),
        }
    }

    fn server_can_go(&self, connection: usize) -> bool {
        let connection = ConnectionId::new(connection);
        match connection.place() {
            Ok(server) => self.upstreams.can_go(ServerId::new(server)),
            Err(_) => self.upstreams.lane_can_go(connection),
        }
    }

    fn server_closed(&mut self, connection: usize) {
        debug_assert!(self.server_can_go(connection), "nothing it owes is lost");
        let connection = ConnectionId::new(connection);
        match connection.place() {
            Ok(server) => {
                self.upstreams.let_go(ServerId::new(server));
                self.routing.went_down(ServerId::new(server), true);
            }
            Err(_) => {
                self.upstreams.lane_closed(connection);
                self.admit_waiting(connection);
                self.upstreams.reopen_lane(connection);
            }
        }
    }

    fn take_dirty_servers(&mut self, into: &mut Vec<usize>) {
        self.upstreams.take_dirty(into);
    }

    fn take_new_lanes(&mut self) -> Vec<(usize, usize)> {
        let new = self.upstreams.take_new_lanes().into_iter();
        new.map(|(lane, server)| (lane.number(), server.index())).collect()
    }

    #[inline]
    fn has_new_lanes(&self) -> bool {
        self.upstreams.has_new_lanes()
    }
}

impl Core {
    /// What a server has said its version is.
    pub fn server_version(&self, server: usize) -> Option<&str> {
        self.upstreams.servers()[server].version()
    }

    /// How many servers there are.
    pub fn server_count(&self) -> usize {
        self.upstreams.servers().len()
    }

    /// A server that owes the answer to a copy behind a write, which belongs to no request.
    pub fn owes_copy(&self) -> Option<usize> {
        self.upstreams.owes_copy().map(ServerId::index)
    }

    /// From now on this is said on every new connection to a server, before anything else.
    pub fn sign_in_with(&mut self, login: Option<Vec<u8>>) {
        self.upstreams.sign_in_with(login);
    }

    /// How many servers there would be with these, where each that there was since the start
    /// counts: one that is in no pool any more keeps its number. [`krarup_service::LANES`] are the
    /// most.
    pub fn servers_with(&self, names: &[String]) -> usize {
        self.upstreams.count_with(names)
    }

    /// The most pools that there can be since the start.
    pub const MOST_POOLS: usize = 65_535;

    /// How many pools there would be with these, counted as servers are: [`Self::MOST_POOLS`] are
    /// the most.
    pub fn pools_with(&self, pools: &[PoolSpec]) -> usize {
        self.routing.count_with(pools)
    }

    /// These servers, and no others, will be in the topology that is to come: they can be connected
    /// to before it holds, so that nothing waits or fails when it does. Returns their numbers.
    pub fn announce(&mut self, names: Vec<String>) -> Vec<usize> {
        self.upstreams.announce(names).into_iter().map(ServerId::index).collect()
    }
}
