//! What is asked besides: the next holder after an error or a miss, a second holder when the first is slow, copies
//! for which nobody waits, and gets that share one answer.

use std::cmp::Reverse;

use krarup_memcache::{Class, Expect, Reply, Retrieval, Storage, write};
use krarup_units::Outbox;
use krarup_units::Stamp;
use smallvec::SmallVec;

use super::Core;
use crate::exchange::{Part, Stage};
use crate::ids::{PoolId, RequestId, ServerId};
use crate::meta;
use crate::pool::Pool;
use crate::upstreams::{Pending, Upstreams};

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

/// Sends to a server what no request waits for, unless it has too much before it; then `pool` counts that.
pub(super) fn send_aside(
    upstreams: &mut Upstreams,
    pool: &mut Pool,
    server: ServerId,
    expect: Expect,
    request: impl FnOnce(&mut Outbox),
) {
    if upstreams.takes_aside(server) {
        upstreams.send(server.into(), Pending::detached(expect), request);
    } else {
        pool.count(|counts| &mut counts.dropped);
    }
}

impl Core {
    // ---- the next holder ------------------------------------------------------------------------------------

    /// Whether a part that failed is tried again at other holders of its keys; if so, it is on its way.
    pub(super) fn fall_back(&mut self, number: RequestId, part: u16, now: Stamp) -> bool {
        let exchange = &self.requests[number];
        let pool = exchange.rest.parts[usize::from(part)].pool;
        if exchange.rest.retrieval.0 != Retrieval::Get || !self.routing[pool].spec().fall_back_on_error {
            return false;
        }
        let mut moves = Moves::new();
        let places = 0..exchange.rest.keys.len();
        let mine = |&place: &usize| self.requests[number].rest.keys.get(place).part == part;
        let all: Vec<usize> = places.filter(mine).collect();
        let found = all.iter().all(|&place| match self.next_holder(number, part, place, pool, now) {
            Some(server) => {
                moves.push(Move { place, pool, server });
                true
            }
            None => false,
        });
        let moved = found && self.routing[pool].may_retry();
        if moved {
            self.routing[pool].count(|counts| &mut counts.retries);
            let exchange = &mut self.requests[number];
            exchange.rest.parts[usize::from(part)].answered = true;
            exchange.waiting -= 1;
            self.move_keys(number, part, &moves, now);
        }
        moved
    }

    /// Keys that a part's server does not have are looked for at the next holder, then in the pool that is warm. Whether there are
    /// any.
    pub(super) fn look_elsewhere(
        &mut self,
        number: RequestId,
        part: u16,
        reply: &Reply<'_>,
        now: Stamp,
    ) -> bool {
        let exchange = &self.requests[number];
        let pool = exchange.rest.parts[usize::from(part)].pool;
        let spec = &self.routing[pool].spec();
        if exchange.rest.retrieval.0 != Retrieval::Get || !(spec.fall_back_on_miss || spec.warm.is_some()) {
            return false;
        }
        if exchange.as_meta && reply.class != Class::MetaMiss {
            return false;
        }
        let (on_miss, warm) = (spec.fall_back_on_miss, spec.warm);
        let mut values = reply.values().peekable();
        let mut missing = Vec::new();
        for place in 0..exchange.rest.keys.len() {
            let key = exchange.rest.keys.get(place);
            if key.part == part && values.next_if(|value| value.key == key.sent).is_none() {
                missing.push(place);
            }
        }
        let mut moves = Moves::new();
        for place in missing {
            let next = on_miss.then(|| self.next_holder(number, part, place, pool, now)).flatten();
            if let Some(server) = next {
                moves.push(Move { place, pool, server });
            } else if let Some(warm) = warm
                && let pool = PoolId::new(warm.pool)
                && let Some(server) = self.next_holder(number, part, place, pool, now)
            {
                moves.push(Move { place, pool, server });
            }
        }
        let any = !moves.is_empty();
        if any {
            self.routing[pool].count(|counts| &mut counts.miss_retries);
            self.requests[number].rest.parts[usize::from(part)].missed = true;
            self.move_keys(number, part, &moves, now);
        }
        any
    }

    /// A holder of the key in `pool` that has not been asked for it.
    fn next_holder(
        &mut self,
        number: RequestId,
        part: u16,
        place: usize,
        pool: PoolId,
        now: Stamp,
    ) -> Option<ServerId> {
        let exchange = &self.requests[number];
        let key = exchange.rest.keys.get(place);
        let tried = |server: ServerId| exchange.lineage(part).any(|part| part.was_asked(server));
        let load = |server: ServerId| self.upstreams.outstanding(server);
        self.routing.choose_next(pool, key.sent, tried, now, load)
    }

    /// Keys of a part are asked for elsewhere, those that go to one server together.
    pub(super) fn move_keys(&mut self, number: RequestId, from: u16, moves: &[Move], now: Stamp) {
        let exchange = &mut self.requests[number];
        let old = exchange.rest.parts.len();
        for &Move { place, pool, server } in moves {
            let parts = &mut exchange.rest.parts;
            let same = |part: &Part| part.server == server && part.pool == pool;
            let part = match parts[old..].iter().position(same) {
                Some(found) => old + found,
                None => {
                    parts.push(Part::of(server, pool, Some(from)));
                    parts.len() - 1
                }
            };
            exchange.rest.keys.assign(place, part as u16);
        }
        for part in old..self.requests[number].rest.parts.len() {
            self.ask_part(number, part as u16, now);
        }
    }

    /// What a part found is stored where it had been missed before.
    pub(super) fn refill(&mut self, number: RequestId, part: u16, reply: &Reply<'_>) {
        if self.requests[number].rest.parts[usize::from(part)].before.is_none() {
            return;
        }
        if self.requests[number].as_meta {
            return self.refill_meta(number, part, reply);
        }
        for value in reply.values() {
            // `add`: what somebody has stored since is newer.
            for (pool, server, ttl) in self.where_missed(number, part, Some(value.key)) {
                self.routing[pool].count(|counts| &mut counts.refills);
                self.ask_aside(pool, server, Expect::Stored, &mut |out| {
                    write::storage(out.tail(), Storage::Add, value.key, value.flags, ttl, 0, value.data);
                });
            }
        }
    }

    /// The servers that did not have a key that a part has found, each with its pool and for how many seconds that stores what is found elsewhere.
    pub(super) fn where_missed(&mut self, number: RequestId, part: u16, key: Option<&[u8]>) -> Missed {
        let exchange = &self.requests[number];
        let key = key.unwrap_or_else(|| exchange.rest.keys.get(0).sent);
        let found_in = exchange.rest.parts[usize::from(part)].pool;
        let mut missed = Missed::new();
        for part in exchange.lineage(part).filter(|part| part.missed) {
            let pool = &mut self.routing[part.pool];
            let spec = pool.spec();
            if part.pool == found_in {
                missed.extend(spec.refill.map(|ttl| (part.pool, part.server, ttl)));
            } else if let Some(ttl) = spec.warm.map(|warm| warm.ttl) {
                missed.extend(pool.holders(key).iter().map(|&server| (part.pool, server, ttl)));
            }
        }
        missed
    }

    // ---- the second holder ----------------------------------------------------------------------------------

    /// Does what is due at `now`: reads that have taken long are sent to a second holder.
    pub fn tick(&mut self, now: Stamp) {
        self.tidy(now);
        while let Some(&Reverse((due, number, generation))) = self.hedges.peek()
            && due <= now
        {
            self.hedges.pop();
            let exchange = &self.requests[number];
            if exchange.generation == generation && exchange.stage == Stage::Asked {
                for part in 0..exchange.rest.parts.len() {
                    self.hedge(number, part as u16, now);
                }
            }
        }
    }

    /// Gives back memory that was not needed for a while.
    pub fn tidy(&mut self, now: Stamp) {
        self.requests.tidy(now);
    }

    fn hedge(&mut self, number: RequestId, part: u16, now: Stamp) {
        let exchange = &self.requests[number];
        let this = exchange.rest.parts[usize::from(part)];
        let first = (0..exchange.rest.keys.len()).find(|&place| exchange.rest.keys.get(place).part == part);
        let single = exchange.rest.keys.count_of(part) == 1 || self.routing[this.pool].is_replicated();
        let Some(place) = first else { return };
        if this.answered || this.hedged.is_some() || this.open != 1 || !single {
            return;
        }
        let Some(server) = self.next_holder(number, part, place, this.pool, now) else { return };
        if !self.routing[this.pool].may_hedge() {
            return;
        }
        self.routing[this.pool].count(|counts| &mut counts.hedges);
        self.requests[number].rest.parts[usize::from(part)].hedged = Some(server);
        self.ask_part_at(number, part, server, now);
    }

    // ---- on the side ----------------------------------------------------------------------------------------

    /// Asks a server for something that nobody waits for, unless it has too much before it.
    pub(super) fn ask_aside(
        &mut self,
        pool: PoolId,
        server: ServerId,
        expect: Expect,
        request: &mut dyn FnMut(&mut Outbox),
    ) {
        send_aside(&mut self.upstreams, &mut self.routing[pool], server, expect, |out| request(out));
    }

    /// The pool's shadow gets the same write, if it is its turn.
    pub(super) fn shadow(
        &mut self,
        pool: PoolId,
        key: &[u8],
        expect: Expect,
        request: &mut dyn FnMut(&mut Outbox),
    ) {
        let Some(shadow) = self.routing[pool].shadows_next() else { return };
        self.routing[pool].count(|counts| &mut counts.shadowed);
        let holders = self.routing[shadow].holders(key);
        for &server in &*holders {
            self.ask_aside(pool, server, expect, request);
        }
    }

    /// The shadow gets the same read: one holder of the first key is asked for all keys of the request.
    pub(super) fn shadow_read(&mut self, number: RequestId, command: Retrieval) {
        let pool = self.requests[number].rest.keys.get(0).pool;
        let Some(shadow) = self.routing[pool].shadows_next() else { return };
        self.routing[pool].count(|counts| &mut counts.shadowed);
        if self.requests[number].as_meta {
            return self.shadow_meta(number, pool, shadow);
        }
        let rest = &self.requests[number].rest;
        let exptime = rest.retrieval.1;
        for key in rest.keys.iter() {
            let holders = self.routing[shadow].holders(key.sent);
            let expect = Expect::Values { keys: 1, unique: command.with_unique() };
            send_aside(&mut self.upstreams, &mut self.routing[pool], holders[0], expect, |out| {
                write::retrieve(out.tail(), command, exptime, [key.sent]);
            });
        }
    }

    // ---- one answer for many --------------------------------------------------------------------------------

    /// Whether a get for the same key is under way; then this one waits for its answer. If not, others may wait for this one's.
    pub(super) fn join_leader(&mut self, number: RequestId) -> bool {
        let exchange = &self.requests[number];
        let (key, as_meta) = (exchange.rest.keys.get(0), exchange.as_meta);
        let pool = &mut self.routing[key.pool];
        // Of `mg` those that ask in the very words of this one.
        let words = |leader: &RequestId| self.requests[*leader].rest.request == exchange.rest.request;
        let leader = match as_meta {
            true => pool.meta_leaders(key.sent).iter().copied().find(words),
            false => pool.leader(key.sent),
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
        if exchange.as_meta && meta::is_stale(&Reply { class, hits, bytes: &bytes }) {
            // One of those who ask is told that it has won, and the others that it is somebody else.
            for follower in followers.drain(..) {
                self.requests[follower].waiting = 0;
                self.ask_meta(follower, now);
                self.complete_if_answered(follower, now);
            }
        }
        for follower in followers.drain(..) {
            let exchange = &mut self.requests[follower];
            exchange.rest.merge.known(class, hits, &bytes);
            exchange.failure = if class == Class::ServerError { failure } else { None };
            exchange.waiting = 0;
            self.complete(follower, now);
        }
        self.requests[number].rest.followers = followers;
    }
}
