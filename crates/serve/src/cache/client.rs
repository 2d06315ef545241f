//! One client's connection: what has come, what waits to leave, and whose turn it is to act.

use std::io;

use krarup_net::mio::net::TcpStream;
use krarup_net::mio::{Registry, Token};
use krarup_net::{Conn, Moved};
use krarup_units::Nanos;
use krarup_units::{Inbox, Outbox};

use krarup_cache::session::{Progress, Session};
use krarup_cache::statistics::Service;

/// How much to read at once, in bytes; also what an idle connection keeps.
const READ: usize = 16 << 10;
/// With this many bytes unsent a client gets no more answers until it takes some.
pub(crate) const MOST_UNSENT: usize = 256 << 10;
/// How long a connection may be silent before the kernel asks whether the other end is still there.
const KEEP_ALIVE: Nanos = Nanos::from_secs(300);

/// A connection and what is under way on it.
#[derive(Debug)]
pub(crate) struct Client {
    conn: Conn,
    inbox: Inbox,
    outbox: Outbox,
    session: Session,
    /// Whether the server has it in line for a turn.
    pub(crate) in_line: bool,
    /// The socket may have bytes for us.
    readable: bool,
    /// The socket may take bytes from us.
    writable: bool,
    /// The other end has said that it will send no more: there is an end to be read.
    ended: bool,
    /// Nothing more is read once the socket is empty, or at its end.
    finishing: bool,
    stage: Stage,
}

/// What the session is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// For the inbox to hold so many bytes.
    Hungry { needed: usize },
    /// For answers to leave.
    Full,
    /// For the last answers to leave; then the connection closes.
    Closing,
}

/// What comes after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing, until the socket is ready again.
    Wait,
    /// Another turn.
    Again,
    /// The connection is over.
    Gone,
}

impl Client {
    pub(crate) fn accept(stream: TcpStream, registry: &Registry, token: Token) -> io::Result<Self> {
        let conn = Conn::accepted(stream, registry, token)?;
        // A client that vanished without a word must not keep its place for ever.
        conn.keep_alive(KEEP_ALIVE)?;
        Ok(Self {
            conn,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            session: Session::default(),
            in_line: false,
            readable: false,
            writable: true,
            ended: false,
            finishing: false,
            stage: Stage::Hungry { needed: 1 },
        })
    }

    /// Readiness is told once; it lasts until the socket says otherwise.
    pub(crate) fn notice(&mut self, readable: bool, writable: bool, ended: bool) {
        self.readable |= readable || ended;
        self.writable |= writable;
        self.ended |= ended;
    }

    /// Answers what has arrived by now; the connection closes when those answers have left.
    pub(crate) fn finish(&mut self) {
        self.finishing = true;
        // Whatever readiness was told: the socket itself says whether something is there.
        self.readable = true;
    }

    /// Reads, answers and writes, each once at most, so that nobody waits long behind a busy client.
    pub(crate) fn turn(&mut self, service: &mut Service, now: Nanos) -> Turn {
        if let Stage::Hungry { needed } = self.stage
            && self.readable
            && !self.read(needed, service)
        {
            return Turn::Gone;
        }
        self.answer(service, now);
        if let Stage::Hungry { .. } = self.stage
            && self.finishing
            && !self.readable
        {
            // What is left over is half a request that will get no other half.
            self.stage = Stage::Closing;
        }
        if !self.write(service) {
            return Turn::Gone;
        }
        match self.stage {
            Stage::Closing if self.outbox.is_empty() => Turn::Gone,
            Stage::Hungry { .. } if self.readable && self.outbox.len() < MOST_UNSENT => Turn::Again,
            Stage::Full if self.outbox.len() < MOST_UNSENT => Turn::Again,
            _ => Turn::Wait,
        }
    }

    /// Whether the connection still stands.
    fn read(&mut self, needed: usize, service: &mut Service) -> bool {
        if self.outbox.len() >= MOST_UNSENT {
            return true;
        }
        let missing = needed.saturating_sub(self.inbox.unread().len());
        let room = self.inbox.room(missing.max(READ));
        let size = room.len();
        match self.conn.read(room) {
            Moved::Some(count) => {
                self.inbox.filled(count);
                service.traffic.bytes_read += count as u64;
                // Less than there was room for: the socket is empty, unless its end is yet to be read.
                if count < size && !self.ended && !self.finishing {
                    self.readable = false;
                }
            }
            Moved::None => self.readable = false,
            Moved::Closed => {
                self.readable = false;
                self.finishing = true;
            }
            Moved::Failed(_) => return false,
        }
        true
    }

    fn answer(&mut self, service: &mut Service, now: Nanos) {
        let ready = match self.stage {
            Stage::Hungry { needed } => self.inbox.unread().len() >= needed,
            Stage::Full => true,
            Stage::Closing => false,
        };
        let allowance = MOST_UNSENT.saturating_sub(self.outbox.len());
        if !ready || allowance == 0 {
            return;
        }
        let (used, progress) =
            self.session.serve(service, now, self.inbox.unread(), self.outbox.tail(), allowance);
        self.inbox.consume(used);
        self.inbox.shrink(READ);
        self.stage = match progress {
            Progress::Hungry { needed } => Stage::Hungry { needed },
            Progress::Full => Stage::Full,
            Progress::Close => Stage::Closing,
        };
    }

    /// Whether the connection still stands.
    fn write(&mut self, service: &mut Service) -> bool {
        while self.writable && !self.outbox.is_empty() {
            match self.conn.write(self.outbox.unsent()) {
                Moved::Some(count) => {
                    self.outbox.advance(count);
                    service.traffic.bytes_written += count as u64;
                }
                Moved::None => self.writable = false,
                Moved::Closed | Moved::Failed(_) => return false,
            }
        }
        self.outbox.shrink(READ);
        true
    }
}
