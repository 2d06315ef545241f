//! What is sent though no request waits for its answer: copies, refills and shadows.

use krarup_memcache::{Expect, Retrieval, write};
use krarup_record::ServerVisit;
use krarup_units::{Outbox, Stamp};

use super::Core;
use crate::ids::{PoolId, RequestId, ServerId};
use crate::pool::Pool;
use crate::upstreams::{Pending, Recipient, Servers};

/// What a server is sent that no request waits for.
#[derive(Clone, Copy)]
pub(super) enum Detached {
    /// A copy behind a write of this pool.
    Copy(PoolId),
    /// A value that was found elsewhere.
    Refill,
    /// What the shadow of the pool is asked.
    Shadow,
}

/// Sends to a server what no request waits for, unless it has too much before it or does not know
/// such a request; `pool` counts what becomes of it.
pub(super) fn send_detached_to(
    upstreams: &mut Servers,
    pool: &mut Pool,
    server: ServerId,
    what: Detached,
    expect: Expect,
    request: impl FnOnce(&mut Outbox),
) {
    if !(upstreams.takes_aside(server) && upstreams.takes(server, expect)) {
        return pool.count(|counts| &mut counts.dropped);
    }
    let pending = match what {
        Detached::Copy(pool) => Pending::copy(pool, expect),
        Detached::Refill | Detached::Shadow => Pending::detached(expect),
    };
    upstreams.send(server.into(), pending, request);
    match what {
        Detached::Copy(_) => {}
        Detached::Refill => pool.count(|counts| &mut counts.refills),
        Detached::Shadow => pool.count(|counts| &mut counts.shadowed),
    }
}

impl Core {
    /// Asks a server for something that no client waits for, unless it has too much before it.
    pub(super) fn send_detached(
        &mut self,
        pool: PoolId,
        server: ServerId,
        what: Detached,
        expect: Expect,
        request: &mut dyn FnMut(&mut Outbox),
    ) {
        let pool = &mut self.routing[pool];
        send_detached_to(&mut self.upstreams, pool, server, what, expect, |out| request(out));
    }

    /// What no request waits for has its answer, or will have none. A copy that was not carried out
    /// is missing at its server, as one that was not sent.
    pub(super) fn detached_ended(&mut self, recipient: Recipient, failed: bool, visit: Option<&ServerVisit>) {
        if let Recipient::Copy(pool) = recipient
            && failed
        {
            self.routing[pool].count(|counts| &mut counts.dropped);
        }
        if let Some(visit) = visit {
            self.books.detached(visit);
        }
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
        let holders = self.routing[shadow].holders(key);
        for &server in &*holders {
            self.send_detached(pool, server, Detached::Shadow, expect, request);
        }
    }

    /// The shadow of the first key's pool gets the same read of the keys that belong to this pool,
    /// each at its first holder there.
    pub(super) fn shadow_read(&mut self, number: RequestId, command: Retrieval, now: Stamp) {
        let pool = self.requests[number].rest.keys.get(0).pool;
        let Some(shadow) = self.routing[pool].shadows_next() else { return };
        if self.requests[number].as_meta {
            return self.shadow_meta(number, pool, shadow, now);
        }
        let rest = &self.requests[number].rest;
        let exptime = self.routing.lifetimes(pool, pool, now).of(rest.retrieval.1);
        for key in rest.keys.iter().filter(|key| key.pool == pool) {
            let holders = self.routing[shadow].holders(key.sent);
            let expect = Expect::Values { keys: 1, unique: command.with_unique() };
            let pool = &mut self.routing[pool];
            send_detached_to(&mut self.upstreams, pool, holders[0], Detached::Shadow, expect, |out| {
                write::retrieve(out.tail(), command, exptime, [key.sent]);
            });
        }
    }
}
