//! One connection to one server: what was asked on it, in order, and waits for its answer.
//!
//! ```text
//!          connect            version answered
//!   Down ───────────▶ Greeting ───────────────▶ Up
//!    ▲                   │                       │
//!    └───────────────────┴───── any failure ─────┘   everything asked is answered with an error
//! ```
//!
//! A server is up when it has told its version: a port that accepts connections is no memcached yet.

use std::collections::VecDeque;

use krarup_memcache::Expect;
use krarup_units::Outbox;
use krarup_units::Stamp;

use crate::arena::NOBODY;

/// Where the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// There is none.
    Down,
    /// It was made; the version has been asked for.
    Greeting,
    /// It carries requests.
    Up,
}

/// A request, or a part of one, whose answer has not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// The request; [`NOBODY`] for the greeting.
    pub(crate) exchange: u32,
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

/// What is known of how long a request or its reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// It is long.
    Known,
    /// The client has been given no value yet.
    Unknown,
}

/// A server, as one event loop sees it.
#[derive(Debug)]
pub(crate) struct Server {
    /// `host:port`, as configured.
    pub(crate) name: String,
    pub(crate) health: Health,
    /// Requests on their way out.
    pub(crate) out: Outbox,
    pending: VecDeque<Pending>,
    /// How many of the pending, from the front, have been stamped as sent.
    stamped: usize,
    /// Whether the engine has been told that there is something to write.
    pub(crate) dirty: bool,
    /// The server's own words for its version, once it has told.
    pub(crate) version: Option<String>,
    /// Whether it takes meta commands, as far as its version tells: memcached does from 1.6 on.
    pub(crate) knows_meta: bool,
    /// How often a connection was lost or could not be made.
    pub(crate) losses: u64,
    /// Why, the last time.
    pub(crate) last_loss: Option<String>,
    /// Requests answered on the connection that stands now.
    pub(crate) answered_since_up: u64,
    /// Losses in a row, with no request answered between.
    pub(crate) failures: u32,
    /// Whether there have been so many of them that it is left alone for a while.
    pub(crate) ejected: bool,
    /// Whether no pool has it any more, or yet.
    pub(crate) retired: bool,
    /// Whether a pool will have it soon, so that it is connected to already.
    pub(crate) announced: bool,
    /// Answers it owes by its lanes, or to loops whose books these are.
    pub(crate) besides: usize,
    /// The server that it leads to, if it is a lane.
    pub(crate) lane_of: Option<usize>,
    /// Lanes that clients share.
    pub(crate) lanes: Vec<usize>,
    /// Whether it is one client's own lane, and whose.
    pub(crate) dedicated: bool,
    pub(crate) owner: u32,
    /// Replies that are likely to be long, or may be: the positions of their requests, which of both, and how long.
    long: VecDeque<(u64, Length, usize)>,
    /// All of these together, by [`Length`].
    long_bytes: [usize; 2],
    /// Clients whose next request waits for room on this connection, and how much that takes; by [`Length`].
    pub(crate) crowd: [VecDeque<(u32, usize)>; 2],
    /// The same of those that have room and have not asked yet.
    pub(crate) let_in: [usize; 2],
    /// When a long value last went this way.
    pub(crate) had_long: Option<Stamp>,
}

impl Default for Server {
    fn default() -> Self {
        Self::new(String::new())
    }
}

impl Server {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            health: Health::Down,
            out: Outbox::default(),
            pending: VecDeque::new(),
            stamped: 0,
            dirty: false,
            version: None,
            knows_meta: true,
            losses: 0,
            last_loss: None,
            answered_since_up: 0,
            failures: 0,
            ejected: false,
            retired: false,
            announced: false,
            besides: 0,
            lane_of: None,
            lanes: Vec::new(),
            dedicated: false,
            owner: NOBODY,
            long: VecDeque::new(),
            long_bytes: [0; 2],
            crowd: [VecDeque::new(), VecDeque::new()],
            let_in: [0; 2],
            had_long: None,
        }
    }

    /// A request will be appended to `out`: remembers who is owed which answer. Call it before appending.
    pub(crate) fn expect(&mut self, exchange: u32, part: u16, follows: bool, expect: Expect) {
        let start = self.out.end();
        self.pending.push_back(Pending { exchange, part, follows, expect, start, sent: None });
    }

    /// What was expected last is likely to be a reply of so many bytes, which is long.
    pub(crate) fn expect_long(&mut self, length: Length, bytes: usize) {
        let start = self.pending.back().expect("something was expected").start;
        self.long.push_back((start, length, bytes));
        self.long_bytes[length as usize] += bytes;
    }

    /// Bytes under way on this connection: of requests without an answer, and of long replies that are likely to come; or of replies that may be
    /// long.
    pub(crate) fn under_way(&self, length: Length) -> usize {
        let asked = match length {
            Length::Known => self.pending.front().map_or(0, |front| self.out.end() - front.start),
            Length::Unknown => 0,
        };
        asked as usize + self.long_bytes[length as usize] + self.let_in[length as usize]
    }

    /// Says who we are, where servers want to know, and asks for the version.
    pub(crate) fn greet(&mut self, login: Option<&[u8]>) {
        debug_assert!(self.pending.is_empty(), "the greeting comes first");
        self.health = Health::Greeting;
        if let Some(login) = login {
            self.expect(NOBODY, 0, false, Expect::Stored);
            self.out.tail().extend_from_slice(login);
        }
        self.expect(NOBODY, 0, false, Expect::Version);
        self.out.tail().extend_from_slice(b"version\r\n");
    }

    /// It has told its version.
    pub(crate) fn told(&mut self, version: &str) {
        let mut numbers = version.split(['.', '-', ' ']).map_while(|part| part.parse::<u32>().ok());
        // What does not number its versions may know them.
        self.knows_meta = match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => (major, minor) >= (1, 6),
            _ => true,
        };
        self.version = Some(version.to_owned());
    }

    /// `count` bytes have left in a write begun at `before`.
    pub(crate) fn written(&mut self, count: usize, before: Stamp) {
        self.out.advance(count);
        let position = self.out.position();
        while let Some(next) = self.pending.get_mut(self.stamped)
            && next.start < position
        {
            next.sent = Some(before);
            self.stamped += 1;
        }
    }

    /// Who is owed the next answer, if anything was asked.
    pub(crate) fn front(&self) -> Option<&Pending> {
        self.pending.front()
    }

    /// The next answer has come, or never will.
    pub(crate) fn pop(&mut self) -> Option<Pending> {
        let pending = self.pending.pop_front()?;
        self.stamped = self.stamped.saturating_sub(1);
        if let Some(&(start, length, bytes)) = self.long.front()
            && start == pending.start
        {
            self.long.pop_front();
            self.long_bytes[length as usize] -= bytes;
        }
        Some(pending)
    }

    /// Whether anybody's answer is to come by it.
    pub(crate) fn owes_somebody(&self) -> bool {
        self.pending.iter().any(|pending| pending.exchange != NOBODY)
    }

    /// When the oldest unanswered request was sent.
    pub(crate) fn oldest_sent(&self) -> Option<Stamp> {
        self.pending.front().and_then(|pending| pending.sent)
    }

    /// Requests without an answer.
    pub(crate) fn outstanding(&self) -> usize {
        self.pending.len() + self.besides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_stamped_with_the_write_that_carried_its_first_byte() {
        let mut server = Server::new("a:1".into());
        for text in [&b"get a\r\n"[..], b"get b\r\n", b"get c\r\n"] {
            server.expect(1, 0, false, Expect::Values { keys: 1, unique: false });
            server.out.tail().extend_from_slice(text);
        }
        server.written(8, Stamp(5));
        server.written(6, Stamp(9));
        let sent: Vec<_> = std::iter::from_fn(|| server.pop()).map(|pending| pending.sent).collect();
        assert_eq!(sent, [Some(Stamp(5)), Some(Stamp(5)), None]);
    }

    #[test]
    fn a_version_tells_whether_meta_commands_are_known() {
        for (version, knows) in [
            ("1.6.18", true),
            ("1.5.22", false),
            ("1.4.15-9", false),
            ("0.1.0 (krarup)", false),
            ("2.0", true),
            ("mine", true),
        ] {
            let mut server = Server::new("a:1".into());
            server.told(version);
            assert_eq!((server.knows_meta, server.version.as_deref()), (knows, Some(version)));
        }
    }

    #[test]
    fn stamps_stay_with_their_requests_when_answers_come_between_writes() {
        let mut server = Server::new("a:1".into());
        for round in 0..5 {
            server.expect(round, 0, false, Expect::Stored);
            server.out.tail().push(b'x');
            server.written(1, Stamp(u64::from(round)));
            server.expect(round, 1, false, Expect::Stored);
            server.out.tail().push(b'y');
            assert_eq!(server.pop().unwrap().sent, Some(Stamp(u64::from(round))));
            server.written(1, Stamp(u64::from(round) + 100));
            assert_eq!(server.pop().unwrap().sent, Some(Stamp(u64::from(round) + 100)));
        }
    }
}
