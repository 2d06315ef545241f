//! The reply: its turn in the client's outbox, and what is done when it has left.

use krarup_memcache::{Request, request};
use krarup_record::Outcome;
use krarup_units::Lent;
use krarup_units::Stamp;

use super::Core;
use crate::exchange::Stage;
use crate::ids::{ClientId, RequestId, SampleId};
use crate::large::RequestBytes;

impl Core {
    pub(super) fn complete_if_answered(&mut self, number: RequestId, now: Stamp) {
        let exchange = &self.requests[number];
        if exchange.waiting == 0
            || exchange.rest.used().is_some_and(|rest| rest.merge.is_decided(exchange.waiting))
        {
            self.complete(number, now);
        }
    }

    pub(super) fn complete(&mut self, number: RequestId, now: Stamp) {
        let exchange = &mut self.requests[number];
        exchange.stage = Stage::Done;
        exchange.waiting = 0;
        if exchange.leads {
            self.end_of_sharing(number, now);
        }
        let Some(client) = self.requests[number].client else { return self.finish(number, now) };
        if self.clients.next_to_render(client) == Some(number) {
            self.clients.render(client, &mut self.requests, &mut self.books);
            self.settle(client, now);
        }
    }

    /// Everything whose reply has left is finished.
    pub(super) fn settle(&mut self, id: ClientId, now: Stamp) {
        while let Some(number) = self.clients.take_replied(id, &self.requests) {
            self.finish(number, now);
        }
        if let Some(since) = self.clients.take_wait(id) {
            self.books.client_waited(since, now);
        }
        self.clients.resume(id);
    }

    /// The reply has left, or has nowhere to go: one row, and the worker is free.
    pub(super) fn finish(&mut self, number: RequestId, now: Stamp) {
        self.requests.expect_no_more(number);
        let exchange = &mut self.requests[number];
        exchange.visit.replied = now;
        if exchange.client.is_none() {
            exchange.visit.outcome = Outcome::ClientGone;
        }
        self.books.finish(&exchange.visit, &exchange.servers, exchange.home);
        if let Some(sample) = exchange.sample {
            self.books.sampling().replied(sample, &exchange.visit);
        }
        if exchange.holds_worker {
            self.dispatch.release();
        }
        for pool in exchange.counted_pools() {
            self.routing[pool].end();
        }
        exchange.counted_in = None;
        exchange.client = None;
        let sampled = self.requests.leave(number);
        self.end_sample(sampled);
    }

    /// The place of a request is free when nothing more will come for it.
    #[inline]
    pub(super) fn free_if_left(&mut self, number: RequestId) {
        let sampled = self.requests.free_if_left(number);
        self.end_sample(sampled);
    }

    #[inline]
    fn end_sample(&mut self, sampled: Option<SampleId>) {
        if let Some(sample) = sampled {
            self.books.sampling().ended(sample);
        }
    }

    /// Free workers take what waits; then the clients that waited for room are read from again.
    pub(super) fn pump(&mut self, now: Stamp) {
        self.pump_readers(now);
        while let Some((number, taken)) = self.dispatch.take_next() {
            self.with_kept_words(number, |core, request, source| {
                core.carry_out(number, request, source, taken, now);
            });
        }
        // One place in the queue wakes one client; the next place, the next. Who is woken in vain
        // would lose its turn.
        while self.clients.any_waiting_for_room()
            && self.has_room()
            && self.clients.runnable() + self.dispatch.waiting() + self.dispatch.readers().waiting()
                < self.settings.queue.max(1)
        {
            self.clients.admit_one();
        }
    }

    /// Hands over a request whose words were kept. They are taken out while it is read, and put
    /// back with their memory: a `cas` needs them once more.
    pub(super) fn with_kept_words(
        &mut self,
        number: RequestId,
        carry_out: impl FnOnce(&mut Self, &Request<'_>, RequestBytes<'_>),
    ) {
        let raw = std::mem::take(&mut self.requests[number].rest.request);
        let large = self.requests[number].rest.lent.take();
        let words = large.as_ref().map_or(&raw[..], Lent::bytes);
        let source = RequestBytes { bytes: words, memory: large.as_ref().map(Lent::whole) };
        carry_out(self, &request::accepted(words), source);
        let exchange = &mut self.requests[number];
        // Where it was finished at once, its place is free, and keeps no memory of it.
        if exchange.stage != Stage::Left && exchange.rest.request.is_empty() {
            exchange.rest.request = raw;
        }
    }
}
