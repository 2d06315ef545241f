//! The proxy as a service: what a driver of connections asks of it.

use std::ops::Range;
use std::sync::Arc;

use krarup_service::{ClientId, Disconnect, Service};
use krarup_units::{Outbox, Stamp};

use crate::core::{Core, LARGE_REQUEST};

/// What a client gets that is turned away, which are memcached's words.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// The number of a listener is that of the pool whose keys are asked for there.
impl Service for Core {
    fn connected(&mut self, listener: usize, _now: Stamp) -> ClientId {
        self.client_opened_at(listener)
    }

    #[inline]
    fn read(&mut self, client: ClientId, bytes: &[u8], received: Stamp, now: Stamp) -> usize {
        self.client_bytes(client, bytes, received, now)
    }

    fn needed(&self, client: ClientId) -> usize {
        self.client_needs(client)
    }

    #[inline]
    fn paused(&self, client: ClientId) -> bool {
        self.client_held_back(client)
    }

    fn ended(&mut self, client: ClientId, _now: Stamp) {
        self.client_ended(client);
    }

    fn dismissed(&mut self, client: ClientId, _now: Stamp) {
        self.client_ended(client);
    }

    fn gone(&mut self, client: ClientId, now: Stamp) {
        self.client_gone(client, now);
    }

    #[inline]
    fn output(&self, client: ClientId) -> &Outbox {
        self.client_outbox(client)
    }

    #[inline]
    fn written(&mut self, client: ClientId, count: usize, now: Stamp) {
        self.client_written(client, count, now);
    }

    #[inline]
    fn finished(&self, client: ClientId) -> bool {
        self.client_finished(client)
    }

    fn clients(&self) -> usize {
        Self::clients(self)
    }

    fn deadline(&self) -> Option<Stamp> {
        self.due()
    }

    fn tick(&mut self, now: Stamp) {
        Self::tick(self, now);
    }

    #[inline]
    fn runnable(&self) -> usize {
        Self::runnable(self)
    }

    fn next_runnable(&mut self) -> Option<ClientId> {
        Self::next_runnable(self)
    }

    #[inline]
    fn take_dirty(&mut self, into: &mut Vec<ClientId>) {
        self.take_dirty_clients(into);
    }

    fn turned_away(&mut self) -> &'static [u8] {
        self.client_refused();
        TOO_MANY
    }

    fn disconnected(&mut self, why: Disconnect) {
        match why {
            Disconnect::TimeLimit => self.client_timed_out(),
            Disconnect::Memory => self.client_cut(),
            Disconnect::Unauthenticated => self.client_unknown(),
        }
    }

    fn authentication_failed(&mut self) {
        self.login_failed();
    }

    fn told(&mut self, client: ClientId, reply: &[u8], length: usize, received: Stamp, now: Stamp) {
        self.client_told(client, reply, length, received, now);
    }

    fn begins_large(&self, bytes: &[u8]) -> bool {
        Self::begins_large(self, bytes)
    }

    fn read_lent(
        &mut self,
        client: ClientId,
        memory: &Arc<Vec<u8>>,
        unread: Range<usize>,
        received: Stamp,
        now: Stamp,
    ) -> usize {
        self.client_bytes_lent(client, memory, unread, received, now)
    }

    #[inline]
    fn discards(&self, client: ClientId) -> bool {
        self.client_swallows(client)
    }

    #[inline]
    fn expects_more(&self, client: ClientId) -> bool {
        self.client_expects_more(client)
    }

    fn held(&self, client: ClientId) -> usize {
        self.client_waiting(client)
    }

    fn queued_bytes(&self) -> usize {
        Self::queued_bytes(self)
    }

    /// A short request is copied for each of its servers, a large one is lent to all.
    fn memory_of(&self, request: usize) -> usize {
        if request < LARGE_REQUEST { request * self.most_copies() } else { request }
    }

    fn is_idle(&self, client: ClientId) -> bool {
        self.client_idle(client)
    }

    fn rests(&mut self, client: ClientId) {
        self.client_rests(client);
    }

    fn note_memory(&mut self, used: usize, short: bool) {
        Self::note_memory(self, used, short);
    }
}
