//! What is sent though no request waits for its answer: copies, refills and shadows.

use krarup_memcache::{Expect, Retrieval, write};
use krarup_units::Outbox;

use super::Core;
use crate::ids::{PoolId, RequestId, ServerId};
use crate::pool::Pool;
use crate::upstreams::{Pending, Servers};

/// Sends to a server what no request waits for, unless it has too much before it or does not know
/// such a request; then `pool` counts that. Whether it was sent.
pub(super) fn send_detached_to(
    upstreams: &mut Servers,
    pool: &mut Pool,
    server: ServerId,
    expect: Expect,
    request: impl FnOnce(&mut Outbox),
) -> bool {
    let sent = upstreams.takes_aside(server) && upstreams.takes(server, expect);
    if sent {
        upstreams.send(server.into(), Pending::detached(expect), request);
    } else {
        pool.count(|counts| &mut counts.dropped);
    }
    sent
}

impl Core {
    /// Asks a server for something that no client waits for, unless it has too much before it;
    /// whether it was asked.
    pub(super) fn send_detached(
        &mut self,
        pool: PoolId,
        server: ServerId,
        expect: Expect,
        request: &mut dyn FnMut(&mut Outbox),
    ) -> bool {
        send_detached_to(&mut self.upstreams, &mut self.routing[pool], server, expect, |out| request(out))
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
            if self.send_detached(pool, server, expect, request) {
                self.routing[pool].count(|counts| &mut counts.shadowed);
            }
        }
    }

    /// The shadow gets the same read: one holder of the first key is asked for all keys of the
    /// request.
    pub(super) fn shadow_read(&mut self, number: RequestId, command: Retrieval) {
        let pool = self.requests[number].rest.keys.get(0).pool;
        let Some(shadow) = self.routing[pool].shadows_next() else { return };
        if self.requests[number].as_meta {
            return self.shadow_meta(number, pool, shadow);
        }
        let rest = &self.requests[number].rest;
        let exptime = rest.retrieval.1;
        for key in rest.keys.iter() {
            let holders = self.routing[shadow].holders(key.sent);
            let expect = Expect::Values { keys: 1, unique: command.with_unique() };
            let pool = &mut self.routing[pool];
            let sent = send_detached_to(&mut self.upstreams, pool, holders[0], expect, |out| {
                write::retrieve(out.tail(), command, exptime, [key.sent]);
            });
            if sent {
                pool.count(|counts| &mut counts.shadowed);
            }
        }
    }
}
