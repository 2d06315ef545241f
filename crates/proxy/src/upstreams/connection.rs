//! One connection to one server: what was asked on it, in order, and waits for its answer.
//!
//! ```text
//!          connect            version answered
//!   Down ───────────▶ Greeting ───────────────▶ Up
//!    ▲                   │                       │
//!    └───────────────────┴───── any failure ─────┘   everything asked is answered with an error
//! ```
//!
//! A server is up when it has told its version: a port that accepts connections is no memcached
//! yet.

use std::collections::{HashMap, VecDeque};

use krarup_memcache::Expect;
use krarup_memcache::response::ValuesRead;
use krarup_units::{Nanos, Outbox, Stamp};

use super::window::{RequestLength, SendWindow};
use crate::ids::{ClientId, PoolId, RequestId, ServerId};

/// Where the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// There is none.
    Down,
    /// It was made; the version has been asked for.
    Greeting,
    /// It carries requests.
    Up,
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// It belongs to the greeting.
    Greeting,
    /// No request waits for it: a refill, a shadow.
    Detached,
    /// The same of a copy behind a write, for which this pool counts.
    Copy(PoolId),
    /// The request of this number.
    Request(RequestId),
}

/// A request, or a part of one, whose answer has not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) recipient: Recipient,
    /// Which part of it.
    pub(crate) part: u16,
    /// Whether only errors of this part count.
    pub(crate) follows: bool,
    /// What kind of answer it is owed.
    pub(crate) expect: Expect,
    /// The position of its first byte on this connection.
    start: u64,
    /// Before the write that carried the first byte; none while that has not left.
    pub(crate) sent: Option<Stamp>,
}

const _: () = assert!(size_of::<Pending>() <= 48, "thousands may be owed on one connection");

impl Pending {
    /// A part of a request that is going to be sent.
    pub(crate) fn of(number: RequestId, part: u16, follows: bool, expect: Expect) -> Self {
        Self { part, follows, ..Self::to(Recipient::Request(number), expect) }
    }

    /// What is going to be sent for no request.
    pub(crate) fn detached(expect: Expect) -> Self {
        Self::to(Recipient::Detached, expect)
    }

    /// A copy behind a write of this pool, which is going to be sent.
    pub(crate) fn copy(pool: PoolId, expect: Expect) -> Self {
        Self::to(Recipient::Copy(pool), expect)
    }

    fn greeting(expect: Expect) -> Self {
        Self::to(Recipient::Greeting, expect)
    }

    fn to(recipient: Recipient, expect: Expect) -> Self {
        Self { recipient, part: 0, follows: false, expect, start: 0, sent: None }
    }
}

/// A connection, without its socket.
#[derive(Debug)]
pub(super) struct Connection {
    /// The server that it leads to.
    pub(super) server: ServerId,
    pub(super) health: Health,
    /// Losses in a row, with no request answered between.
    pub(super) failures: u32,
    /// Requests on their way out.
    pub(super) out: Outbox,
    pending: VecDeque<Pending>,
    /// How far the answer to the first of them has been read, where it is not whole.
    pub(super) read: ValuesRead,
    /// How many of the pending, from the front, have been stamped as sent.
    stamped: usize,
    /// Whether the driver has been told that there is something to write.
    pub(super) dirty: bool,
    /// Whether it is one client's own, and whose.
    pub(super) dedicated: bool,
    pub(super) owner: Option<ClientId>,
    /// Clients whose requests went by the server's first connection while this one was down, and
    /// where the last of them begins there.
    pub(super) by_first: HashMap<ClientId, u64>,
    pub(super) window: SendWindow,
}

impl Connection {
    pub(super) fn to(server: ServerId) -> Self {
        Self {
            server,
            health: Health::Down,
            failures: 0,
            out: Outbox::default(),
            pending: VecDeque::new(),
            read: ValuesRead::default(),
            stamped: 0,
            dirty: false,
            dedicated: false,
            owner: None,
            by_first: HashMap::new(),
            window: SendWindow::default(),
        }
    }

    /// One that can be made anew in its place; the clients that have room on it keep that.
    pub(super) fn reopened(&self) -> Self {
        Self { dedicated: self.dedicated, window: self.window.reopened(), ..Self::to(self.server) }
    }

    /// A request will be appended to `out`: remembers what is owed. Call it before appending.
    #[inline]
    pub(super) fn expect(&mut self, pending: Pending) {
        let start = self.out.end();
        self.pending.push_back(Pending { start, ..pending });
    }

    /// What was expected last is likely to be a reply of so many bytes, which is long.
    pub(super) fn expect_long(&mut self, length: RequestLength, bytes: usize) {
        let start = self.pending.back().expect("something was expected").start;
        self.window.expect(start, length, bytes);
    }

    /// Bytes under way on this connection: of requests without an answer, and of long replies that
    /// are likely to come; or of replies that may be long.
    pub(super) fn under_way(&self, length: RequestLength) -> usize {
        let asked = match length {
            RequestLength::Known => self.pending.front().map_or(0, |front| self.out.end() - front.start),
            RequestLength::Unknown => 0,
        };
        asked as usize + self.window.bytes(length)
    }

    /// Sends the login, where servers want one, and asks for the version.
    pub(super) fn greet(&mut self, login: Option<&[u8]>) {
        debug_assert!(self.pending.is_empty(), "the greeting comes first");
        self.health = Health::Greeting;
        if let Some(login) = login {
            self.expect(Pending::greeting(Expect::Stored));
            self.out.tail().extend_from_slice(login);
        }
        self.expect(Pending::greeting(Expect::Version));
        self.out.tail().extend_from_slice(b"version\r\n");
    }

    /// `count` bytes have left in a write begun at `before`.
    pub(super) fn written(&mut self, count: usize, before: Stamp) {
        self.out.advance(count);
        let position = self.out.position();
        while let Some(next) = self.pending.get_mut(self.stamped)
            && next.start < position
        {
            next.sent = Some(before);
            self.stamped += 1;
        }
    }

    /// What the next answer belongs to, if anything was asked.
    #[inline]
    pub(super) fn front(&self) -> Option<&Pending> {
        self.pending.front()
    }

    /// The next answer has come, or never will.
    #[inline]
    pub(super) fn pop(&mut self) {
        if let Some(pending) = self.take_front() {
            self.window.answered(pending.start);
        }
    }

    #[inline]
    fn take_front(&mut self) -> Option<Pending> {
        let pending = self.pending.pop_front()?;
        self.read = ValuesRead::default();
        self.stamped = self.stamped.saturating_sub(1);
        Some(pending)
    }

    /// The next answer has come at `now`, of so many bytes. Returns how long the connection was
    /// occupied since the one before, or since this was asked.
    #[inline]
    pub(super) fn answered(&mut self, reply: usize, now: Stamp) -> Nanos {
        let Some(Pending { start, sent, .. }) = self.take_front() else { return Nanos::ZERO };
        self.window.answered(start);
        let end = self.pending.front().map_or_else(|| self.out.end(), |next| next.start);
        self.window.keep_pace(reply.max((end - start) as usize), sent, now)
    }

    /// Whether the answer is to come to what begins at this position.
    pub(super) fn owes(&self, position: u64) -> bool {
        self.pending.front().is_some_and(|oldest| oldest.start <= position)
    }

    /// Whether an answer is to come that is none to the greeting.
    pub(super) fn owes_any(&self) -> bool {
        self.pending.iter().any(|pending| pending.recipient != Recipient::Greeting)
    }

    /// Whether the answer to a copy behind a write is to come.
    pub(super) fn owes_copy(&self) -> bool {
        self.pending.iter().any(|pending| matches!(pending.recipient, Recipient::Copy(_)))
    }

    /// When the oldest unanswered request was sent.
    pub(super) fn oldest_sent(&self) -> Option<Stamp> {
        self.pending.front().and_then(|pending| pending.sent)
    }

    /// Answers that it owes.
    #[inline]
    pub(super) fn outstanding(&self) -> usize {
        self.pending.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Identifier;

    /// When the next of what was asked was sent, which is answered now.
    fn take(connection: &mut Connection) -> Option<Option<Stamp>> {
        let sent = connection.front().map(|pending| pending.sent);
        connection.pop();
        sent
    }

    #[test]
    fn a_request_is_stamped_with_the_write_that_carried_its_first_byte() {
        let mut connection = Connection::to(ServerId::new(0));
        for text in [&b"get a\r\n"[..], b"get b\r\n", b"get c\r\n"] {
            connection.expect(Pending::of(
                RequestId::new(1),
                0,
                false,
                Expect::Values { keys: 1, unique: false },
            ));
            connection.out.tail().extend_from_slice(text);
        }
        connection.written(8, Stamp(5));
        connection.written(6, Stamp(9));
        let sent: Vec<_> = std::iter::from_fn(|| take(&mut connection)).collect();
        assert_eq!(sent, [Some(Stamp(5)), Some(Stamp(5)), None]);
    }

    #[test]
    fn stamps_stay_with_their_requests_when_answers_come_between_writes() {
        let mut connection = Connection::to(ServerId::new(0));
        for round in 0..5 {
            connection.expect(Pending::of(RequestId::new(round), 0, false, Expect::Stored));
            connection.out.tail().push(b'x');
            connection.written(1, Stamp(u64::from(round)));
            connection.expect(Pending::of(RequestId::new(round), 1, false, Expect::Stored));
            connection.out.tail().push(b'y');
            assert_eq!(take(&mut connection), Some(Some(Stamp(u64::from(round)))));
            connection.written(1, Stamp(u64::from(round) + 100));
            assert_eq!(take(&mut connection), Some(Some(Stamp(u64::from(round) + 100))));
        }
    }
}
