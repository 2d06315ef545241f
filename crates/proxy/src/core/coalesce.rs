//! Gets for one key that are under way together share one answer.

use std::sync::Arc;

use krarup_memcache::{ReplyClass, Response, Retrieval};
use krarup_record::{KeyDigest, Operation};
use krarup_units::{Outbox, Stamp};

use super::Core;
use crate::ids::{PoolId, RequestId};
use crate::meta;
use crate::pool::Pool;

impl Core {
    /// Whether a get for the same key is under way; then this one waits for its answer. If not,
    /// others may wait for this one's.
    pub(super) fn join_leader(&mut self, number: RequestId) -> bool {
        let exchange = &self.requests[number];
        let (key, digest, as_meta) = (exchange.rest.keys.get(0), exchange.visit.key, exchange.as_meta);
        let pool = &mut self.routing[key.pool];
        // Of `mg` those that ask in the very words of this one.
        let words = |leader: &RequestId| self.requests[*leader].rest.request == exchange.rest.request;
        let named_alike = |leader: &RequestId| self.requests[*leader].rest.keys.get(0).asked == key.asked;
        let leader = match as_meta {
            true => pool.meta_leaders(digest).iter().copied().find(words),
            // The answer has the key as its client wrote it.
            false => pool.leader(digest).filter(named_alike),
        };
        // By another connection it may be carried out before what this one's client has written.
        let has_lanes = self.settings.server_connections > 1 || self.settings.dedicated;
        let awaits_change = |client| self.clients.awaits_change(client, number, &self.requests);
        let leader = leader.filter(|_| !(has_lanes && exchange.client.is_some_and(awaits_change)));
        let Some(leader) = leader else {
            pool.lead(digest, number, as_meta);
            self.requests[number].leads = true;
            return false;
        };
        pool.count(|counts| &mut counts.coalesced);
        self.requests[leader].rest.followers.push(number);
        self.requests[number].waiting = 1;
        true
    }

    /// A write of a key in a pool whose gets share answers begins: no get from now on may be given
    /// an answer from before, nor when the write has ended.
    #[cold]
    pub(super) fn write_parts_gets(&mut self, number: RequestId, pool: PoolId) {
        let exchange = &mut self.requests[number];
        exchange.leads = true;
        self.routing[pool].forget_leaders(exchange.visit.key);
    }

    /// The same for a read that changes its keys: their time, or whether they are there.
    pub(super) fn touch_parts_gets(&mut self, number: RequestId) {
        let exchange = &mut self.requests[number];
        for key in exchange.rest.keys.iter() {
            let pool = &mut self.routing[key.pool];
            if pool.spec().coalesce {
                exchange.leads = true;
                pool.forget_leaders(KeyDigest::of(key.sent));
            }
        }
    }

    /// The same for a change of all keys.
    pub(super) fn flush_parts_gets(&mut self, number: RequestId) {
        self.requests[number].leads = true;
        self.routing.pools_mut().iter_mut().for_each(Pool::forget_all_leaders);
    }

    /// A request is going to be replied to on which the gets of other clients depend. After a write
    /// no get may be given an answer from before: by another connection, the server may have been
    /// asked for the key after the write was sent, and have answered before it was carried out.
    pub(super) fn end_of_sharing(&mut self, number: RequestId, now: Stamp) {
        let exchange = &self.requests[number];
        match exchange.visit.operation {
            // What touches leads no others.
            _ if exchange.rest.retrieval.0 != Retrieval::Get => self.touch_parts_gets(number),
            Operation::Get => self.answer_followers(number, now),
            Operation::Flush => self.routing.pools_mut().iter_mut().for_each(Pool::forget_all_leaders),
            _ => self.routing[exchange.home].forget_leaders(exchange.visit.key),
        }
    }

    /// A get that others wait for has its answer: they have it too.
    fn answer_followers(&mut self, number: RequestId, now: Stamp) {
        let exchange = &mut self.requests[number];
        exchange.leads = false;
        let pool = exchange.rest.keys.get(0).pool;
        self.routing[pool].lead_no_more(exchange.visit.key, number, exchange.as_meta);
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
        let bytes = Arc::new(bytes);
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
