//! Large answers, whose memory is lent.

use krarup_memcache::{Expect, Parsed, response};

use super::Core;
use crate::ids::ConnectionId;
use crate::large::LARGE;
use crate::upstreams::Pending;

impl Core {
    /// Whether a large answer of a server stands at the front of its bytes, whole.
    pub(super) fn answers_large(&self, server: ConnectionId, bytes: &[u8]) -> bool {
        let Some(&Pending { expect, .. }) = self.upstreams.front(server) else { return false };
        let read = self.upstreams.read_of_front(server);
        let parsed = || response::parse_on(bytes, expect, read);
        bytes.len() >= LARGE
            && matches!(expect, Expect::Values { .. } | Expect::Meta { .. })
            && matches!(parsed(), Parsed::Complete { used, .. } if used >= LARGE)
    }
}
