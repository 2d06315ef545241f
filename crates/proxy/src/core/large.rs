//! Large requests and answers, whose memory is lent.

use std::ops::Range;
use std::sync::Arc;

use krarup_memcache::{Expect, Limits, Parsed, request, response};
use krarup_units::Stamp;

use super::Core;
use crate::ids::{ClientId, ConnectionId, Identifier};
use crate::large::{LARGE, LARGE_REQUEST, Source};

impl Core {
    /// Whether a large request stands at the front of a client's bytes, whole: then they are better lent.
    pub fn begins_large(&self, bytes: &[u8]) -> bool {
        // What is too large is refused afterwards; a value that was begun under a higher bound is not.
        let limits = Limits { value: usize::MAX, ..self.settings.limits };
        bytes.len() >= LARGE_REQUEST
            && matches!(request::parse(bytes, &limits), Parsed::Complete { used, .. } if used >= LARGE_REQUEST)
    }

    /// The same as [`Self::client_bytes`] for the bytes `unread` of memory of which pieces may be kept.
    pub fn client_bytes_lent(
        &mut self,
        id: u32,
        memory: &Arc<Vec<u8>>,
        unread: Range<usize>,
        received: Stamp,
        now: Stamp,
    ) -> usize {
        self.read_client(
            ClientId::new(id),
            Source { bytes: &memory[unread], memory: Some(memory) },
            received,
            now,
        )
    }

    /// Whether a large answer of a server stands at the front of its bytes, whole.
    pub(super) fn answers_large(&self, server: ConnectionId, bytes: &[u8]) -> bool {
        let front = self.upstreams.front(server).map(|front| front.expect);
        bytes.len() >= LARGE
            && matches!(front, Some(Expect::Values { .. } | Expect::Meta { .. }))
            && front.is_some_and(|expect| {
                matches!(response::parse(bytes, expect), Parsed::Complete { used, .. } if used >= LARGE)
            })
    }
}
