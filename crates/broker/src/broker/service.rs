//! The broker as the service that a driver moves the bytes of.

use krarup_service::{ClientId, Service};
use krarup_units::{Outbox, Stamp};

use super::Broker;

/// The listener at which clients speak memcached's protocol; at the other they speak beanstalkd's.
pub const MEMCACHED: usize = 1;

impl Service for Broker {
    fn connected(&mut self, listener: usize, _now: Stamp) -> ClientId {
        if listener == MEMCACHED { self.memcached_opened() } else { self.client_opened() }
    }

    fn read(&mut self, client: ClientId, bytes: &[u8], received: Stamp, now: Stamp) -> usize {
        self.client_bytes(client, bytes, received, now)
    }

    fn paused(&self, client: ClientId) -> bool {
        self.client_held_back(client)
    }

    fn needed(&self, _client: ClientId) -> usize {
        0
    }

    fn ended(&mut self, client: ClientId, now: Stamp) {
        self.client_ended(client, now);
    }

    fn dismissed(&mut self, client: ClientId, now: Stamp) {
        self.client_dismissed(client, now);
    }

    fn gone(&mut self, client: ClientId, now: Stamp) {
        self.client_gone(client, now);
    }

    fn output(&self, client: ClientId) -> &Outbox {
        self.client_outbox(client)
    }

    fn written(&mut self, client: ClientId, count: usize, now: Stamp) {
        self.client_written(client, count, now);
    }

    fn finished(&self, client: ClientId) -> bool {
        self.client_finished(client)
    }

    fn clients(&self) -> usize {
        self.queues().totals().connections as usize
    }

    fn deadline(&self) -> Option<Stamp> {
        self.due()
    }

    fn tick(&mut self, now: Stamp) {
        Self::tick(self, now);
    }

    fn runnable(&self) -> usize {
        Self::runnable(self)
    }

    fn next_runnable(&mut self) -> Option<ClientId> {
        Self::next_runnable(self)
    }

    fn take_dirty(&mut self, into: &mut Vec<ClientId>) {
        Self::take_dirty(self, into);
    }

    fn has_silent_replies(&self, client: ClientId) -> bool {
        self.has_silent_answers(client)
    }

    /// A client that waits for a message and vanishes must not be given one.
    fn heeds_end(&self, _client: ClientId) -> bool {
        true
    }
}
