//! One client's connection: its requests in the order they came, its replies in the same order.

use krarup_units::Outbox;
use krarup_units::Stamp;

use crate::arena::NOBODY;
use crate::server::Length;

/// A client, without its socket.
#[derive(Debug)]
pub(crate) struct Client {
    /// The pool its keys belong to unless a route says otherwise.
    pub(crate) entry: usize,
    /// Replies on their way out.
    pub(crate) out: Outbox,
    /// The oldest request not yet replied to; requests are linked from old to young.
    pub(crate) oldest: u32,
    /// The youngest one.
    pub(crate) youngest: u32,
    /// The oldest one whose reply has not been put into `out`.
    pub(crate) next_to_render: u32,
    /// Requests not yet replied to.
    pub(crate) outstanding: u32,
    /// A request that must be done before the next may be read.
    pub(crate) barrier: u32,
    /// No more requests are read: it said `quit`, or broke the protocol.
    pub(crate) closing: bool,
    /// How long the request is that is not whole yet, from its first byte, as far as that is known; zero if none is.
    pub(crate) needed: usize,
    /// The same where its line is whole: the value that is coming was agreed to, and is taken under whatever limit holds then.
    pub(crate) promised: usize,
    /// How long a reply to it is: the longest of late.
    pub(crate) typical_reply: usize,
    /// Whether it has been given a value, so that this is known.
    pub(crate) known: bool,
    /// For what its next request waits, or has waited.
    pub(crate) crowd: Option<Crowded>,
    /// Bytes of a refused value that are still to come.
    pub(crate) swallow: u64,
    /// What to do when they have come.
    pub(crate) refused: Option<Box<Refused>>,
    /// Whether it waits for room in the queue.
    pub(crate) starving: bool,
    /// Whether the engine has been told that there is something to write.
    pub(crate) dirty: bool,
    /// Whether the engine has been told to offer its bytes again.
    pub(crate) runnable: bool,
    /// Whether it holds back requests the engine has offered.
    pub(crate) held_back: bool,
    /// Its own connections, each with its server.
    pub(crate) lanes: Vec<(usize, usize)>,
}

/// A request that waits for room on a connection to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowded {
    pub(crate) connection: usize,
    pub(crate) length: Length,
    pub(crate) bytes: usize,
    /// Whether there is room for it by now.
    pub(crate) let_in: bool,
}

/// A value that is not taken.
#[derive(Debug)]
pub(crate) struct Refused {
    /// After the read that brought the command line.
    pub(crate) received: Stamp,
    /// Why.
    pub(crate) reply: &'static [u8],
    /// The key whose old value must go, for a `set` with a value over the limit, and whether it is in base64.
    pub(crate) key: Option<(Vec<u8>, bool)>,
    pub(crate) noreply: bool,
    pub(crate) bytes_in: u64,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            entry: 0,
            out: Outbox::default(),
            oldest: NOBODY,
            youngest: NOBODY,
            next_to_render: NOBODY,
            outstanding: 0,
            barrier: NOBODY,
            closing: false,
            needed: 0,
            promised: 0,
            typical_reply: 0,
            known: false,
            crowd: None,
            swallow: 0,
            refused: None,
            starving: false,
            dirty: false,
            runnable: false,
            held_back: false,
            lanes: Vec::new(),
        }
    }
}
