//! Large answers, whose memory is lent.

use krarup_memcache::{Expect, Parsed, response};

use super::Core;
use crate::ids::ConnectionId;
use crate::large::LARGE;

impl Core {
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
