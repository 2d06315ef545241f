//! Requests on their way, by number; and the memory in which replies of several parts are put
//! together.

use std::sync::Arc;

use krarup_memcache::Response;
use krarup_record::Operation;
use krarup_units::Stamp;

use crate::arena::Arena;
use crate::exchange::{Exchange, Stage};
use crate::free_buffers::FreeBuffers;
use crate::ids::{ClientId, PoolId, RequestId, SampleId};
use crate::large::{self, BufferMemory, RequestBytes};

/// All requests that are not finished.
#[derive(Debug)]
pub(crate) struct Requests {
    all: Arena<RequestId, Exchange>,
    /// Those whose reply has left, and to which servers owe an answer all the same.
    left: usize,
    /// Bytes of replies that are likely to come for them.
    expected: usize,
    /// Memory for the next replies of several parts.
    buffers: FreeBuffers,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self { all: Arena::new(), left: 0, expected: 0, buffers: FreeBuffers::default() }
    }

    /// A new request of `client`, which belongs to the pool `entry`; its last byte came at
    /// `received`.
    pub(crate) fn begin(
        &mut self,
        client: ClientId,
        entry: PoolId,
        operation: Operation,
        received: Stamp,
    ) -> RequestId {
        let number = self.all.take();
        self.all[number].begin(client, entry, operation, received);
        number
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.used()
    }

    /// How many there are whose reply has not left.
    pub(crate) fn in_progress(&self) -> usize {
        self.all.used() - self.left
    }

    /// Bytes of replies that are likely to come for all of them.
    pub(crate) fn expected(&self) -> usize {
        self.expected
    }

    /// The reply to a request is likely to have so many bytes.
    #[inline]
    pub(crate) fn expect(&mut self, number: RequestId, bytes: usize) {
        let exchange = &mut self.all[number];
        exchange.expected = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.expected += exchange.expected as usize;
    }

    /// The reply to a request is there, or will not come.
    #[inline]
    pub(crate) fn expect_no_more(&mut self, number: RequestId) {
        self.expected -= std::mem::take(&mut self.all[number].expected) as usize;
    }

    /// The request's bytes are needed later.
    pub(crate) fn keep(&mut self, number: RequestId, source: RequestBytes<'_>) {
        let exchange = &mut self.all[number];
        match large::request(source) {
            Some(piece) => exchange.rest.lent = Some(piece),
            None => exchange.rest.request.extend_from_slice(source.bytes),
        }
    }

    /// A server has answered a part.
    pub(crate) fn add(
        &mut self,
        number: RequestId,
        part: u16,
        reply: &Response<'_>,
        memory: BufferMemory<'_>,
    ) {
        self.all[number].rest.merge.add(part, reply, memory, &mut self.buffers);
    }

    /// The reply to a request has left: its number is free when no server owes it an answer.
    /// Returns as what it was sampled, where it was and is free now.
    #[inline]
    pub(crate) fn leave(&mut self, number: RequestId) -> Option<SampleId> {
        let exchange = &mut self.all[number];
        exchange.stage = Stage::Left;
        if exchange.owed != 0 {
            self.left += 1;
            return None;
        }
        self.free(number)
    }

    /// The same when a server owes one answer less to a request, whose reply may have left.
    #[inline]
    pub(crate) fn free_if_left(&mut self, number: RequestId) -> Option<SampleId> {
        let exchange = &self.all[number];
        if exchange.stage != Stage::Left || exchange.owed != 0 {
            return None;
        }
        self.left -= 1;
        self.free(number)
    }

    #[inline]
    fn free(&mut self, number: RequestId) -> Option<SampleId> {
        let exchange = &mut self.all[number];
        let sample = exchange.sample.take();
        exchange.rest.end(&mut self.buffers);
        self.all.give_back(number);
        sample
    }

    /// Memory of a reply that has left may serve the next.
    pub(crate) fn reuse(&mut self, memory: Arc<Vec<u8>>) {
        self.buffers.put(memory);
    }

    /// Gives back memory that was not needed for a while.
    pub(crate) fn tidy(&mut self, now: Stamp) {
        self.buffers.tick(now);
    }
}

impl std::ops::Index<RequestId> for Requests {
    type Output = Exchange;

    #[inline]
    fn index(&self, number: RequestId) -> &Exchange {
        &self.all[number]
    }
}

impl std::ops::IndexMut<RequestId> for Requests {
    #[inline]
    fn index_mut(&mut self, number: RequestId) -> &mut Exchange {
        &mut self.all[number]
    }
}
