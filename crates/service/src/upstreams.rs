//! Connections that a service has itself, to servers.
//!
//! ```text
//!            server_connected(connection)                 server_output(connection) → bytes that may leave
//! driver ──▶ server_read(connection, bytes, now)     ──▶  server_deadline(connection) → when an answer is overdue
//!            server_written(connection, count, before)    take_dirty_servers(…) → which to write to
//!            server_lost / server_closed                  take_new_connections() → which to make besides
//! ```
//!
//! The driver makes them, and makes them again when they are lost; the service says what is sent
//! and what the answers mean.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use krarup_units::{Nanos, Outbox, Stamp};

/// A connection to a server. Below [`LANES`] it is the server's first one, and the number is the
/// server's.
pub type ConnectionNumber = usize;

/// Numbers of lanes begin here: of connections beside the first one.
pub const LANES: ConnectionNumber = 1 << 12;

/// Why a connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionLoss {
    /// It could not be made, or has broken.
    Broken,
    /// It could not be made, or an answer did not come, in time.
    TimedOut,
    /// What came is no answer to what was asked: see [`ProtocolError`].
    Untrusted,
}

/// Why a connection is not trusted any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    /// What is wrong with what came: for every client that waits on the connection.
    pub why: &'static str,
    /// The line that came. It may hold a key of any client, so that it is for the log alone.
    pub line: String,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: `{}`", self.why, self.line.escape_debug())
    }
}

impl std::error::Error for ProtocolError {}

/// A service that sends requests to servers and is sent answers, in the order in which it asked.
/// The rules of [`Service`](crate::Service) hold here too.
pub trait Upstreams {
    /// The connection stands.
    fn server_connected(&mut self, connection: ConnectionNumber);

    /// Bytes that the server has sent and that were not used so far; the last of them came by
    /// `now`. Returns how many are used up. The rest is offered again with more behind it.
    ///
    /// # Errors
    /// Why the connection must not be trusted any more. Then it is closed and [`Self::server_lost`]
    /// called: failing closed is what keeps one client's data from another when requests and
    /// answers are out of step.
    fn server_read(
        &mut self,
        connection: ConnectionNumber,
        bytes: &[u8],
        now: Stamp,
    ) -> Result<usize, ProtocolError>;

    /// Whether `bytes` of the server begin with a whole answer that is better lent than copied.
    fn server_begins_large(&self, connection: ConnectionNumber, bytes: &[u8]) -> bool;

    /// The same as [`Self::server_read`] for the bytes `unread` of memory of which pieces may be
    /// kept.
    ///
    /// # Errors
    /// As there.
    fn server_read_lent(
        &mut self,
        connection: ConnectionNumber,
        memory: &Arc<Vec<u8>>,
        unread: Range<usize>,
        now: Stamp,
    ) -> Result<usize, ProtocolError>;

    /// What may leave to the server.
    fn server_output(&self, connection: ConnectionNumber) -> &Outbox;

    /// So many bytes at the front of the output have left, in a write begun at `before`.
    fn server_written(&mut self, connection: ConnectionNumber, count: usize, before: Stamp);

    /// The connection is lost, or could not be made. Everything asked on it is answered with an
    /// error that says `why`.
    fn server_lost(&mut self, connection: ConnectionNumber, why: &str, loss: ConnectionLoss, now: Stamp);

    /// How long to wait before a lost connection is made again.
    fn reconnect_delay(&self, connection: ConnectionNumber) -> Nanos;

    /// Whether the server takes requests.
    fn server_is_up(&self, connection: ConnectionNumber) -> bool;

    /// When the oldest answer will be overdue; none: nothing is owed.
    fn server_deadline(&self, connection: ConnectionNumber) -> Option<Stamp>;

    /// Whether an answer is overdue at `now`, which is counted.
    fn server_overdue(&mut self, connection: ConnectionNumber, now: Stamp) -> bool;

    /// Whether the connection is to be made, and made again when it is lost.
    fn server_is_wanted(&self, connection: ConnectionNumber) -> bool;

    /// Whether the connection is not wanted any more and owes no answer, so that it can be closed.
    fn server_can_go(&self, connection: ConnectionNumber) -> bool;

    /// Such a connection has been closed. The number of a lane may be another's from now on.
    fn server_closed(&mut self, connection: ConnectionNumber);

    /// Takes the connections to which something may be written; `into` is emptied first.
    fn take_dirty_servers(&mut self, into: &mut Vec<ConnectionNumber>);

    /// Takes the lanes that are to be made, each with the first connection to the same server.
    fn take_new_lanes(&mut self) -> Vec<(ConnectionNumber, ConnectionNumber)>;

    /// Whether there are any.
    fn has_new_lanes(&self) -> bool;
}
