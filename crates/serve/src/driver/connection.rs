//! One client's socket, and what is known of it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

use krarup_net::Conn;
use krarup_service::{ClientId, Service};
use krarup_units::{Inbox, Stamp};

/// A client's connection.
#[derive(Debug)]
pub(super) struct ClientConnection {
    pub(super) conn: Conn,
    /// The address of its other end, once it was asked for; none: a unix socket.
    pub(super) peer: Option<Option<SocketAddr>>,
    /// Bytes read from it, and written to it.
    pub(super) bytes: (u64, u64),
    pub(super) inbox: Inbox,
    /// When the last read brought something; before that, when it connected.
    pub(super) received: Stamp,
    /// Since when it is sending what is no whole request yet.
    pub(super) begun: Option<Stamp>,
    /// Whether its requests are carried out: it has authenticated, or need not.
    pub(super) admitted: bool,
    pub(super) login: AdmissionProgress,
    pub(super) readable: bool,
    /// Whether the socket may have room: while encrypted replies wait for it, only where the
    /// connection is broken.
    pub(super) writable: bool,
    /// The end is announced, by the system or behind what was read: reads go on until they find it.
    pub(super) end_near: bool,
    /// The client will send no more.
    pub(super) ended: bool,
    /// Whether the service knows that no more will come.
    pub(super) concluded: bool,
    /// Whether the service has not been told yet what was written last.
    pub(super) unentered: bool,
    /// When it last took something.
    pub(super) wrote: Stamp,
    /// How many encrypted bytes it had taken by then.
    pub(super) sent: u64,
    /// How long the request may be, in bytes, for which memory is reserved; zero where none is.
    pub(super) reserved: usize,
    /// What that takes: the request may be copied several times.
    pub(super) reserved_in_all: usize,
    /// Whether it waits for memory.
    pub(super) waits: bool,
    /// Whether it stands among those that are to be read.
    pub(super) listed: bool,
    /// What it had sent of a long request when the progress was last looked at.
    pub(super) had: usize,
}

impl ClientConnection {
    /// The socket may have room again: it is given what waits for it in front of the replies.
    pub(super) fn flush(&mut self, now: Stamp) {
        // Where it fails nothing waits any more: the next read, or else the next write, finds it.
        self.writable = self.conn.flush().unwrap_or(true);
        self.note_taken(now);
    }

    /// It takes something also while it is read: what waited encrypted leaves then.
    pub(super) fn note_taken(&mut self, now: Stamp) {
        let sent = self.conn.sent();
        if sent > self.sent {
            (self.sent, self.wrote) = (sent, now);
        }
    }

    /// Bytes of its replies that it has not taken.
    pub(super) fn replies(&self, service: &impl Service, id: ClientId) -> usize {
        service.held(id) + self.conn.waiting()
    }
}

/// How far a client is with its TLS handshake and its authentication.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionProgress {
    /// When it connected.
    pub(super) since: Stamp,
    /// Whether both are complete, where they are asked for.
    pub(super) complete: bool,
    /// Wrong passwords it has sent.
    pub(super) failures: u32,
    /// Whether the last one is not answered yet: until then it is not read.
    pub(super) answer_due: bool,
}

impl AdmissionProgress {
    pub(super) fn begun(since: Stamp, complete: bool) -> Self {
        Self { since, complete, failures: 0, answer_due: false }
    }
}

/// Clients of which it is not known yet who they are. Numbers of clients are used again; with the
/// instant of its accept each is itself.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// In the order in which they came. Some may be known or gone by now.
    pub(super) order: VecDeque<(ClientId, Stamp)>,
    pub(super) count: usize,
    /// Those that said a wrong password, and when they are told, in that order.
    pub(super) refused: VecDeque<(Stamp, ClientId, Stamp)>,
}

/// One read from a client: where in the common read buffer it lies, and when it had come.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) id: ClientId,
    pub(super) at: Range<usize>,
    pub(super) received: Stamp,
}

/// One write to a client: how many bytes of its output have left, and when.
#[derive(Debug)]
pub(super) struct WrittenBytes {
    pub(super) id: ClientId,
    pub(super) count: usize,
    pub(super) after: Stamp,
}
