//! Large values are not copied: who reads them lends their memory, and outboxes keep a piece of it until it has left.
//!
//! A value is held once, however many servers get it, from its last byte's arrival until the slowest of them has taken it; and a value that
//! a server has sent, until its client has. Small ones are copied: that is cheaper than to keep count.

use std::ops::Range;
use std::sync::Arc;

use krarup_memcache::{Expect, Limits, Parsed, request, response};
use krarup_units::Lent;
use krarup_units::Stamp;

use super::{Core, Distrust};

/// What is shorter is copied, in bytes: into memory that is there already, which is cheaper than new memory for each.
pub(crate) const LARGE: usize = 1 << 20;

/// The same for requests. One that is longer than a usual read lies in memory of its own already.
pub const LARGE_REQUEST: usize = 128 << 10;

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
        self.lent = Some(Arc::clone(memory));
        let used = self.client_bytes(id, &memory[unread], received, now);
        self.lent = None;
        used
    }

    /// Whether a large answer of a server stands at the front of its bytes, whole.
    pub fn answers_large(&self, server: usize, bytes: &[u8]) -> bool {
        let front = self.servers[server].front().map(|front| front.expect);
        bytes.len() >= LARGE
            && matches!(front, Some(Expect::Values { .. } | Expect::Meta { .. }))
            && front.is_some_and(|expect| {
                matches!(response::parse(bytes, expect), Parsed::Complete { used, .. } if used >= LARGE)
            })
    }

    /// The same as [`Self::server_bytes`] for the bytes `unread` of memory of which pieces may be kept.
    ///
    /// # Errors
    /// As there.
    pub fn server_bytes_lent(
        &mut self,
        server: usize,
        memory: &Arc<Vec<u8>>,
        unread: Range<usize>,
        now: Stamp,
    ) -> Result<usize, Distrust> {
        self.lent = Some(Arc::clone(memory));
        let used = self.server_bytes(server, &memory[unread], now);
        self.lent = None;
        used
    }

    /// The piece that `bytes` are of what is lent, if they are worth keeping as such.
    #[inline]
    pub(super) fn lent_piece(&self, bytes: &[u8]) -> Option<Lent> {
        self.lent_from(LARGE, bytes)
    }

    #[inline]
    fn lent_from(&self, least: usize, bytes: &[u8]) -> Option<Lent> {
        let memory = self.lent.as_ref().filter(|_| bytes.len() >= least)?;
        Lent::of(memory, bytes)
    }

    /// The piece of a value and the line end behind it, if it is lent.
    #[inline]
    pub(super) fn lent_value(&self, data: &[u8]) -> Option<Lent> {
        self.lent_from(LARGE_REQUEST / 2, data)?.longer(2)
    }

    /// A request's words are needed later.
    pub(super) fn keep_words(&mut self, number: u32, raw: &[u8]) {
        let piece = self.lent_from(LARGE_REQUEST, raw);
        let exchange = &mut self.exchanges[number];
        match piece {
            Some(piece) => exchange.rest.lent = Some(piece),
            None => exchange.rest.request.extend_from_slice(raw),
        }
    }
}
