//! What a client may ask, and what is answered where it asks for nothing that there is.

use super::meta::Meta;
use super::verb::{Arithmetic, Retrieval, Storage};
use crate::find;

/// One request, borrowed from the bytes that carried it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get gets gat gats`
    Retrieve(Retrieve<'a>),
    /// `set add replace append prepend cas`
    Store(StorageRequest<'a>),
    /// `delete`
    Delete {
        /// The key.
        key: &'a [u8],
        /// The client wants no answer.
        noreply: bool,
    },
    /// `incr decr`
    Arithmetic {
        /// Which of the two.
        command: Arithmetic,
        /// The key.
        key: &'a [u8],
        /// How much to add or take away; sums wrap at 2⁶⁴, differences stop at zero.
        delta: u64,
        /// The client wants no answer.
        noreply: bool,
    },
    /// `touch`
    Touch {
        /// The key.
        key: &'a [u8],
        /// The new expiry time, as in [`StorageRequest::exptime`].
        exptime: i32,
        /// The client wants no answer.
        noreply: bool,
    },
    /// `flush_all`
    FlushAll {
        /// Seconds to wait before everything stored until then expires; negative means at once.
        delay: Option<i32>,
        /// The client wants no answer.
        noreply: bool,
    },
    /// `verbosity`
    Verbosity {
        /// How much the server shall log.
        level: u32,
        /// The client wants no answer.
        noreply: bool,
    },
    /// `stats`
    Stats {
        /// What follows the word, without the blanks around it; empty for the general statistics.
        argument: &'a [u8],
    },
    /// `mg ms md ma me`
    Meta(Meta<'a>),
    /// `mn`: answered when all that came before it has been.
    NoOp,
    /// `version`
    Version,
    /// `quit`
    Quit,
}

/// A retrieval: one command, one or more keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retrieve<'a> {
    /// Which command.
    pub command: Retrieval,
    /// The new expiry time of `gat` and `gats`; 0 and meaningless for the others.
    pub exptime: i32,
    /// The keys, in the client's order, repetitions included.
    pub keys: Keys<'a>,
}

/// The keys of a retrieval, as they stand in its line: parted by one or more blanks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys<'a> {
    pub(super) text: &'a [u8],
    pub(super) count: usize,
    /// Whether there is one blank before each and nothing else.
    pub(super) plain: bool,
}

/// A storage request with its whole value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageRequest<'a> {
    /// Which command.
    pub command: Storage,
    /// The key.
    pub key: &'a [u8],
    /// The client's own 32 bits.
    pub flags: u32,
    /// 0 never expires, negative at once, up to 30 days in seconds from now, beyond that Unix time.
    pub exptime: i32,
    /// The cas unique of `cas`; 0 and meaningless for the others.
    pub unique: u64,
    /// The value.
    pub data: &'a [u8],
    /// The client wants no answer.
    pub noreply: bool,
    /// The request's own bytes, if a server can be sent them as they are and will answer: single
    /// blanks between words and none elsewhere, CR LF, no `noreply`.
    pub verbatim: Option<&'a [u8]>,
}

/// What is answered, skipped or closed where no request could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// Answer `reply`, go on after `used` bytes.
    Answer {
        /// A whole line with its end; empty where the client wanted no answer.
        reply: &'static [u8],
        /// Bytes to go past, the line's end included.
        used: usize,
    },
    /// A value over the limit: answer [`TOO_LARGE`] after `used` and then `discard` further bytes
    /// have gone by. As memcached does, `set` also removes what was stored under the key: better
    /// nothing than the value from before.
    TooLarge {
        /// Which command.
        command: Storage,
        /// The key.
        key: &'a [u8],
        /// The key is written in base64.
        base64: bool,
        /// Bytes of the command line, its end included.
        used: usize,
        /// Bytes of the value and its line end, yet to come or in part already there.
        discard: u64,
        /// The client wants no answer.
        noreply: bool,
    },
    /// A meta set whose line is at fault: answer `reply` after `used` and then `discard` further
    /// bytes have gone by.
    Discard {
        /// A whole line with its end.
        reply: &'static [u8],
        /// Bytes of the command line, its end included.
        used: usize,
        /// Bytes of the value and its line end, yet to come or in part already there.
        discard: u64,
    },
    /// Say `reply` (empty: nothing) and close, as memcached does with lines that never end and with
    /// web browsers.
    Close {
        /// A whole line with its end, or nothing.
        reply: &'static [u8],
    },
}

/// memcached's answer to a command it does not know, or with too few or too many words.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// memcached's answer to a line whose numbers or key it cannot take.
pub const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
/// The answer to [`Request::NoOp`].
pub const NO_OP: &[u8] = b"MN\r\n";
/// memcached's answer to a value whose length is not what was announced.
pub const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// memcached's answer to a value over its limit.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// memcached's answer to a meta command, other than `mg`, with more flags than it reads.
pub const TOO_MANY_FLAGS: &[u8] = b"CLIENT_ERROR options flags too long\r\n";
/// memcached's answer to an expiry time that is no number.
pub const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
/// memcached's answer to a delta that is no number.
pub const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
/// memcached's answer to a `delete` with words it does not know.
pub const BAD_DELETE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
/// memcached's answer when a retrieval line is longer than it can hold.
pub const LINE_TOO_LONG: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";
/// Our answer to datagrams.
pub const NO_DATAGRAMS: &[u8] = b"CLIENT_ERROR UDP is not supported, use TCP\r\n";
/// Our answer to the binary protocol, which memcached itself has deprecated.
pub const NO_BINARY: &[u8] = b"CLIENT_ERROR the binary protocol is not supported, use the text protocol\r\n";

impl Request<'_> {
    /// Whether the client asked to be told nothing. A quiet meta request is told what is not as
    /// usual: see [`crate::response::suppressed`].
    pub fn noreply(&self) -> bool {
        match *self {
            Self::Store(StorageRequest { noreply, .. })
            | Self::Delete { noreply, .. }
            | Self::Arithmetic { noreply, .. }
            | Self::Touch { noreply, .. }
            | Self::FlushAll { noreply, .. }
            | Self::Verbosity { noreply, .. } => noreply,
            Self::Retrieve(_)
            | Self::Meta(_)
            | Self::NoOp
            | Self::Stats { .. }
            | Self::Version
            | Self::Quit => false,
        }
    }
}

impl<'a> Keys<'a> {
    /// How many keys; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a retrieval without keys is an error, not a request")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        find::words(self.text)
    }

    /// The keys as they stand in their line, a blank before each, where there is nothing else: what
    /// a server can be sent as it is.
    #[inline]
    pub fn plain(&self) -> Option<&'a [u8]> {
        self.plain.then_some(self.text)
    }

    /// The first key.
    #[inline]
    pub fn first(&self) -> &'a [u8] {
        if self.plain && self.count == 1 {
            return &self.text[1..];
        }
        self.iter().next().expect("a retrieval has a key")
    }
}
