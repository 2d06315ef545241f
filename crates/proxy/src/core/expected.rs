//! Whether a server's answer is about what it was asked: the keys of values, and what a meta answer
//! repeats of its request.
//!
//! An answer too few or too many is often followed by others of the kind that is expected; that
//! they speak of other keys is what tells them apart, before a client is given what belongs to
//! another.

use krarup_memcache::{Expect, ReplyClass, Response, response};

use crate::exchange::{Exchange, Stage};
use crate::keys::KeysOfPart;
use crate::placement::KeyHash;
use crate::upstreams::Pending;

/// What may be spoken of.
pub(super) enum Expected<'a> {
    /// The answer will not be used, or it names nothing.
    Anything,
    /// The one key with this hash.
    One(u64),
    /// These keys in this order, of which some may be missing.
    InOrder(KeysOfPart<'a>),
    /// A meta request for the key with this hash, which told the opaque word with that one.
    Meta(u64, Option<u64>),
}

/// What is compared of a key or an opaque word.
pub(super) fn trace(word: &[u8]) -> u64 {
    KeyHash::Xxh3.number(word)
}

impl<'a> Expected<'a> {
    pub(super) fn by(exchange: &'a Exchange, pending: &Pending, place: usize) -> Self {
        let rest = exchange.rest.used();
        let part = rest.and_then(|rest| rest.parts.get(usize::from(pending.part)));
        if exchange.stage != Stage::Sent || part.is_some_and(|part| part.answered) || pending.follows {
            return Self::Anything;
        }
        match pending.expect {
            Expect::Values { .. } => match rest.filter(|rest| rest.keys.len() > 0) {
                Some(rest) => Self::InOrder(rest.keys.of(pending.part).gone_on_to(place)),
                None => Self::One(exchange.visit.key.0),
            },
            Expect::Meta { .. } => Self::Meta(exchange.visit.key.0, rest.and_then(|rest| rest.opaque)),
            _ => Self::Anything,
        }
    }

    /// Whether what a meta answer repeats is what was said.
    pub(super) fn is_answered_by(&self, reply: &Response<'_>) -> bool {
        let Self::Meta(key, opaque) = *self else { return true };
        if matches!(reply.class, ReplyClass::MetaDebug) {
            return true;
        }
        let encoded = || reply.meta_flags().any(|(letter, _)| letter == b'b');
        reply.meta_flags().all(|(letter, word)| match letter {
            b'O' => opaque == Some(trace(word)),
            b'k' => trace(word) == key || encoded(),
            _ => true,
        })
    }
}

impl response::RequestedKeys for Expected<'_> {
    #[inline]
    fn is_next(&mut self, key: &[u8]) -> bool {
        match self {
            Self::One(trace_of_key) => trace(key) == *trace_of_key,
            Self::InOrder(keys) => keys.any(|asked| asked == key),
            Self::Anything | Self::Meta(..) => true,
        }
    }

    #[inline]
    fn begins(&mut self, line: &[u8]) -> Option<usize> {
        match self {
            Self::InOrder(keys) => keys.begins(line),
            Self::One(_) | Self::Anything | Self::Meta(..) => None,
        }
    }

    #[inline]
    fn place(&self) -> usize {
        match self {
            Self::InOrder(keys) => keys.place(),
            Self::One(_) | Self::Anything | Self::Meta(..) => 0,
        }
    }
}
