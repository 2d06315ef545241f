//! The clients, as the driver asks and tells of them.

use std::ops::Range;
use std::sync::Arc;

use krarup_memcache::{Limits, Parsed, request};
use krarup_record::LoopUse;
use krarup_service::{Disconnect, Service, ThreadUse};
use krarup_units::{Outbox, Stamp};

use super::{Arrival, Core, class_of};
use crate::dispatch::Workers;
use crate::exchange::Stage;
use crate::ids::{ClientId, Identifier, PoolId};
use crate::large::{LARGE, LARGE_REQUEST, RequestBytes};

/// What a client is sent that is turned away, in memcached's words.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// The number of a listener is that of the pool whose keys are asked for there, unless a route says
/// otherwise.
impl Service for Core {
    fn connected(&mut self, listener: usize, _now: Stamp) -> u32 {
        debug_assert!(listener < self.routing.pools().len(), "an address belongs to a pool");
        self.books.count(|events| &mut events.clients_accepted);
        // As long as nothing is known of it, its replies may be long.
        self.clients.open(PoolId::new(listener), LARGE.min(self.settings.limits.value)).number()
    }

    /// What it has sent beyond a turn's requests is offered again, too: others have theirs
    /// meanwhile.
    #[inline]
    fn read(&mut self, client: u32, bytes: &[u8], received: Stamp, now: Stamp) -> usize {
        self.read_client(ClientId::new(client), RequestBytes { bytes, memory: None }, received, now)
    }

    fn needed(&self, client: u32) -> usize {
        self.clients.needed(ClientId::new(client))
    }

    #[inline]
    fn paused(&self, client: u32) -> bool {
        self.clients.is_held_back(ClientId::new(client))
    }

    fn ended(&mut self, client: u32, _now: Stamp) {
        self.close_after_replies(ClientId::new(client));
    }

    fn dismissed(&mut self, client: u32, now: Stamp) {
        self.ended(client, now);
    }

    /// What it asked is carried out; the replies go nowhere.
    fn gone(&mut self, client: u32, now: Stamp) {
        let id = ClientId::new(client);
        self.books.count(|events| &mut events.clients_closed);
        let mut next = self.clients.abandon(id);
        while let Some(exchange) = next {
            next = self.requests[exchange].next;
            self.requests[exchange].client = None;
            if matches!(self.requests[exchange].stage, Stage::Done | Stage::Rendered(_)) {
                self.finish(exchange, now);
            }
        }
        self.upstreams.disown(id);
        self.leave_window(id);
        self.clients.close(id);
        self.pump(now);
    }

    #[inline]
    fn output(&self, client: u32) -> &Outbox {
        self.clients.outbox(ClientId::new(client))
    }

    #[inline]
    fn written(&mut self, client: u32, count: usize, now: Stamp) {
        let id = ClientId::new(client);
        self.clients.written(id, count, &mut self.requests);
        self.settle(id, now);
        self.pump(now);
    }

    #[inline]
    fn finished(&self, client: u32) -> bool {
        self.clients.is_finished(ClientId::new(client))
    }

    fn clients(&self) -> usize {
        self.clients.len() + self.books.elsewhere().clients
    }

    fn requests(&self, client: u32) -> (u64, u64) {
        self.clients.requests(ClientId::new(client))
    }

    fn deadline(&self) -> Option<Stamp> {
        self.deadlines.next()
    }

    fn tick(&mut self, now: Stamp) {
        self.requests.tidy(now);
        self.hedge_due(now);
    }

    #[inline]
    fn runnable(&self) -> usize {
        self.clients.runnable()
    }

    fn next_runnable(&mut self) -> Option<u32> {
        self.clients.next_runnable().map(ClientId::number)
    }

    #[inline]
    fn take_dirty(&mut self, into: &mut Vec<u32>) {
        self.clients.take_dirty(into);
    }

    fn turned_away(&mut self) -> &'static [u8] {
        self.books.count(|events| &mut events.clients_refused);
        TOO_MANY
    }

    fn disconnected(&mut self, why: Disconnect) {
        self.books.count(|events| match why {
            Disconnect::TimeLimit => &mut events.clients_timed_out,
            Disconnect::Memory => &mut events.clients_cut,
            Disconnect::Unauthenticated => &mut events.clients_unknown,
        });
    }

    fn authentication_failed(&mut self) {
        self.books.count(|events| &mut events.logins_failed);
    }

    fn respond(&mut self, client: u32, reply: &[u8], length: usize, received: Stamp, now: Stamp) {
        let arrival = Arrival { bytes: length, received, now };
        self.answer_here(ClientId::new(client), reply, class_of(reply), false, arrival);
        self.pump(now);
    }

    fn begins_large(&self, bytes: &[u8]) -> bool {
        // What is too large is refused afterwards; a value that was begun under a higher bound is
        // not.
        let limits = Limits { value: usize::MAX, ..self.settings.limits };
        bytes.len() >= LARGE_REQUEST
            && matches!(request::parse(bytes, &limits), Parsed::Complete { used, .. } if used >= LARGE_REQUEST)
    }

    fn read_lent(
        &mut self,
        client: u32,
        memory: &Arc<Vec<u8>>,
        unread: Range<usize>,
        received: Stamp,
        now: Stamp,
    ) -> usize {
        let source = RequestBytes { bytes: &memory[unread], memory: Some(memory) };
        self.read_client(ClientId::new(client), source, received, now)
    }

    /// Such is a value that was refused.
    #[inline]
    fn discards(&self, client: u32) -> bool {
        self.clients.discards(ClientId::new(client))
    }

    /// The reply that comes next is one that a server is working on. Not where workers or requests
    /// under way are limited: a reply is one of them until it has left, and others may wait for
    /// that.
    #[inline]
    fn expects_more(&self, client: u32) -> bool {
        let next = self.clients.next_to_render(ClientId::new(client));
        next.filter(|_| self.settings.workers == Workers::Unlimited).is_some_and(|next| {
            let exchange = &self.requests[next];
            let limited =
                exchange.counted_pools().any(|pool| self.routing[pool].spec().concurrency.is_some());
            exchange.stage == Stage::Sent && !limited
        })
    }

    /// Answers that wait for older ones hold memory, too.
    fn held(&self, client: u32) -> usize {
        self.clients.waiting(ClientId::new(client), &self.requests)
    }

    fn queued_bytes(&self) -> usize {
        self.dispatch.queued_bytes()
    }

    /// A short request is copied for each of its servers, a large one is lent to all.
    fn memory_of(&self, request: usize) -> usize {
        if request < LARGE_REQUEST { request * self.routing.most_copies() } else { request }
    }

    fn is_idle(&self, client: u32) -> bool {
        self.clients.is_idle(ClientId::new(client))
    }

    fn rests(&mut self, client: u32) {
        self.clients.rest(ClientId::new(client));
    }

    fn loop_used(&mut self, used: ThreadUse, now: Stamp) {
        let ThreadUse { passes, processor, run_queue, machine_busy, machine_time, link_busy, link_time } =
            used;
        let clients = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
        let used = LoopUse {
            passes,
            processor,
            run_queue,
            clients,
            machine_busy,
            machine_time,
            link_busy,
            link_time,
        };
        self.books.loop_used(used, now);
    }

    fn note_memory(&mut self, used: usize, short: bool) {
        self.clients.note_memory(used, short);
    }
}
