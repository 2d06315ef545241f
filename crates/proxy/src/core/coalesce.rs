//! Gets for one key that are under way together share one answer.

use krarup_memcache::{ReplyClass, Response};
use krarup_units::{Outbox, Stamp};

use super::Core;
use crate::ids::RequestId;
use crate::meta;

impl Core {
    /// Whether a get for the same key is under way; then this one waits for its answer. If not,
    /// others may wait for this one's.
    pub(super) fn join_leader(&mut self, number: RequestId) -> bool {
        let exchange = &self.requests[number];
        let (key, as_meta) = (exchange.rest.keys.get(0), exchange.as_meta);
        let pool = &mut self.routing[key.pool];
        // Of `mg` those that ask in the very words of this one.
        let words = |leader: &RequestId| self.requests[*leader].rest.request == exchange.rest.request;
        let named_alike = |leader: &RequestId| self.requests[*leader].rest.keys.get(0).asked == key.asked;
        let leader = match as_meta {
            true => pool.meta_leaders(key.sent).iter().copied().find(words),
            // The answer has the key as its client wrote it.
            false => pool.leader(key.sent).filter(named_alike),
        };
        let Some(leader) = leader else {
            pool.lead(key.sent, number, as_meta);
            self.requests[number].leads = true;
            return false;
        };
        pool.count(|counts| &mut counts.coalesced);
        self.requests[leader].rest.followers.push(number);
        self.requests[number].waiting = 1;
        true
    }

    /// A get that others wait for has its answer: they have it too.
    pub(super) fn answer_followers(&mut self, number: RequestId, now: Stamp) {
        let exchange = &mut self.requests[number];
        exchange.leads = false;
        let key = exchange.rest.keys.get(0);
        self.routing[key.pool].lead_no_more(key.sent, number, exchange.as_meta);
        if exchange.rest.followers.is_empty() {
            return;
        }
        let mut followers = std::mem::take(&mut exchange.rest.followers);
        let mut out = Outbox::default();
        let rest = &mut *exchange.rest;
        let merged = rest.merge.render(&rest.keys, &mut out);
        let mut bytes = Vec::with_capacity(out.len());
        while !out.is_empty() {
            bytes.extend_from_slice(out.unsent());
            out.advance(out.unsent().len());
        }
        let (class, hits, failure) = (merged.class, merged.hits, exchange.failure);
        exchange.rest.merge.known(class, hits, &bytes);
        if exchange.as_meta && meta::is_stale(&Response { class, hits, bytes: &bytes }) {
            // One of the clients that ask is told that it has won, and the others that another
            // client has.
            for follower in followers.drain(..) {
                self.requests[follower].waiting = 0;
                self.send_meta(follower, now);
                self.complete_if_answered(follower, now);
            }
        }
        for follower in followers.drain(..) {
            let exchange = &mut self.requests[follower];
            exchange.rest.merge.known(class, hits, &bytes);
            exchange.failure = if class == ReplyClass::ServerError { failure } else { None };
            exchange.waiting = 0;
            self.complete(follower, now);
        }
        self.requests[number].rest.followers = followers;
    }
}
