//! Reads that are tried again: at the next holder after an error or a miss, then in the pool that
//! is warm; what is found there is stored where it was missed.

use krarup_memcache::{Expect, ReplyClass, Response, Retrieval, Storage, write};
use krarup_record::KeyDigest;
use krarup_units::Stamp;
use smallvec::SmallVec;

use super::Core;
use super::detached::Detached;
use super::forward::work_before;
use crate::exchange::{Needs, PartsByServer, RetrievalPart};
use crate::ids::{PoolId, RequestId, ServerId};
use crate::keys::MOST_PARTS;

/// A key, by its place in its request, goes on to that server of that pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) place: usize,
    pub(super) pool: PoolId,
    pub(super) server: ServerId,
}

type Moves = SmallVec<[Move; 4]>;

/// Servers of pools that had not what was found elsewhere, and for how many seconds they store it.
type Missed = SmallVec<[(PoolId, ServerId, i32); 4]>;

impl Core {
    /// Whether a part that failed is tried again at other holders of its keys; if so, it is on its
    /// way.
    pub(super) fn fall_back(&mut self, number: RequestId, part: u16, now: Stamp) -> bool {
        let exchange = &self.requests[number];
        let pool = exchange.rest.parts[usize::from(part)].pool;
        if exchange.rest.retrieval.0 != Retrieval::Get || !self.routing[pool].spec().fall_back_on_error {
            return false;
        }
        if !self.routing[pool].may_retry() {
            return false;
        }
        let mut moves = Moves::new();
        let parts = exchange.rest.parts.len();
        let all: Vec<usize> = exchange.rest.keys.places_of(part).collect();
        let found = all.iter().all(|&place| match self.next_holder(number, part, place, pool, true, now) {
            Some(server) => {
                moves.push(Move { place, pool, server });
                true
            }
            None => false,
        });
        // Each of the pool's servers may be asked by one part more.
        let fits = parts + moves.len().min(self.routing[pool].servers().len()) <= MOST_PARTS;
        if !(found && fits) {
            moves.iter().for_each(|one| self.routing[pool].is_not_asked(one.server));
            return false;
        }
        let exchange = &mut self.requests[number];
        exchange.rest.parts[usize::from(part)].answered = true;
        exchange.waiting -= 1;
        let requests = self.move_keys(number, part, &moves, now);
        self.routing[pool].retries_one(requests);
        true
    }

    /// Whether keys of a part are missing in this answer, and such keys are looked for elsewhere.
    pub(super) fn looks_on(&self, number: RequestId, part: u16, reply: &Response<'_>) -> bool {
        let exchange = &self.requests[number];
        let spec = self.routing[exchange.rest.parts[usize::from(part)].pool].spec();
        if exchange.rest.retrieval.0 != Retrieval::Get || !(spec.fall_back_on_miss || spec.warm.is_some()) {
            return false;
        }
        match reply.class {
            ReplyClass::MetaMiss => true,
            ReplyClass::Values => (reply.hits as usize) < exchange.rest.keys.count_of(part),
            _ => false,
        }
    }

    /// Keys that a part's server does not have are looked for at the next holder, then in the pool
    /// that is warm. Whether there are any.
    pub(super) fn fall_back_on_miss(
        &mut self,
        number: RequestId,
        part: u16,
        reply: &Response<'_>,
        now: Stamp,
    ) -> bool {
        if !self.looks_on(number, part, reply) {
            return false;
        }
        let exchange = &self.requests[number];
        let pool = exchange.rest.parts[usize::from(part)].pool;
        let spec = self.routing[pool].spec();
        let (on_miss, warm) = (spec.fall_back_on_miss, spec.warm);
        let mut values = reply.values().peekable();
        let keys = &exchange.rest.keys;
        let is_missing = |&place: &usize| values.next_if(|value| value.key == keys.get(place).sent).is_none();
        let missing: Vec<usize> = keys.places_of(part).filter(is_missing).collect();
        let mut moves = Moves::new();
        for place in missing {
            let next = on_miss.then(|| self.next_holder(number, part, place, pool, true, now)).flatten();
            if let Some(server) = next {
                moves.push(Move { place, pool, server });
            } else if let Some(warm) = warm
                && let pool = PoolId::new(warm.pool)
                && let Some(server) = self.next_holder(number, part, place, pool, true, now)
            {
                moves.push(Move { place, pool, server });
            }
        }
        if moves.is_empty() {
            return false;
        }
        self.requests[number].rest.parts[usize::from(part)].missed = true;
        let any = self.move_keys(number, part, &moves, now) > 0;
        if any {
            self.routing[pool].count(|counts| &mut counts.miss_retries);
        }
        any
    }

    /// A holder of the key in `pool` that has not been asked for it; with `stand_ins` a server that
    /// stands in for one, if there is no other.
    pub(super) fn next_holder(
        &mut self,
        number: RequestId,
        part: u16,
        place: usize,
        pool: PoolId,
        stand_ins: bool,
        now: Stamp,
    ) -> Option<ServerId> {
        let exchange = &self.requests[number];
        let key = exchange.rest.keys.get(place);
        let tried = |server: ServerId| exchange.lineage(part).any(|part| part.was_sent_to(server));
        let load = |server: ServerId| work_before(&self.upstreams, &self.dispatch, pool, server);
        self.routing.choose_next(pool, key.sent, stand_ins, tried, now, load)
    }

    /// Keys of a part are asked for elsewhere, those that go to one server together, as far as the
    /// request may have more parts; with how many requests. The `moves` are in the order of the
    /// keys.
    pub(super) fn move_keys(&mut self, number: RequestId, from: u16, moves: &[Move], now: Stamp) -> usize {
        let Needs { keys, parts, .. } = &mut *self.requests[number].rest;
        let old = parts.len();
        let mut by_server = PartsByServer::behind(old);
        let mut moves = moves.iter().peekable();
        keys.move_from(from, |place| {
            let &Move { pool, server, .. } = moves.next_if(|one| one.place == place)?;
            let part = by_server.find_or_add(parts, RetrievalPart::of(server, pool, Some(from)));
            if part.is_none() {
                self.routing[pool].is_not_asked(server);
            }
            part
        });
        let new = old..parts.len();
        for part in new.clone() {
            self.send_part(number, part as u16, now);
        }
        new.len()
    }

    /// What a part found is stored where it had been missed before.
    pub(super) fn refill(&mut self, number: RequestId, part: u16, reply: &Response<'_>, now: Stamp) {
        if self.requests[number].rest.parts[usize::from(part)].before.is_none() {
            return;
        }
        if self.requests[number].as_meta {
            return self.refill_meta(number, part, reply, now);
        }
        let mut values = reply.values().peekable();
        let places: Vec<usize> = self.requests[number].rest.keys.places_of(part).collect();
        for place in places {
            let key = self.requests[number].rest.keys.get(place);
            let Some(value) = values.next_if(|value| value.key == key.sent) else { continue };
            // `add`: what a client has stored since is newer.
            for (pool, server, ttl) in self.where_missed(number, part, place, now) {
                self.send_detached(pool, server, Detached::Refill, Expect::Stored, &mut |out| {
                    write::storage(out.tail(), Storage::Add, value.key, value.flags, ttl, 0, value.data);
                });
            }
        }
    }

    /// The servers that did not have a key that a part has found, each with its pool and for how
    /// many seconds that stores what is found elsewhere. Where other holders have it, only a server
    /// that has just come up may have lost it: elsewhere its time is mostly over. None where the
    /// key has changed meanwhile.
    pub(super) fn where_missed(&mut self, number: RequestId, part: u16, place: usize, now: Stamp) -> Missed {
        let timeout = self.settings.timeout;
        let exchange = &self.requests[number];
        let key = exchange.rest.keys.get(place);
        let digest = KeyDigest::of(key.sent);
        let found_in = exchange.rest.parts[usize::from(part)].pool;
        let mut missed = Missed::new();
        for part in exchange.lineage(part).filter(|part| part.missed) {
            let lifetimes = self.routing.lifetimes(key.pool, part.pool, now);
            let pool = &mut self.routing[part.pool];
            if pool.has_changed(digest, now, timeout) {
                continue;
            }
            let mut lacks = |server: ServerId, ttl: i32| {
                let known = missed.iter().any(|&(pool, other, _)| (pool, other) == (part.pool, server));
                if !known {
                    missed.push((part.pool, server, lifetimes.of(ttl)));
                }
            };
            let (refill, warm) = (pool.spec().refill, pool.spec().warm);
            if part.pool == found_in {
                if let Some(ttl) = refill.filter(|&ttl| pool.is_newly_up(part.server, ttl, now)) {
                    lacks(part.server, ttl);
                }
            } else if let Some(warm) = warm {
                pool.holders(key.sent).iter().for_each(|&server| lacks(server, warm.ttl));
            }
        }
        missed
    }
}
