//! The flags of a server that say what its clients may take: settings of the proxy's edge.

use krarup_proxy::Edge;
use krarup_serve::ClientLimits;
use krarup_serve::proxy::listening;

use crate::flags::Chosen;

/// Those of the cache.
#[derive(Clone)]
pub(crate) struct CacheEdge;

impl Chosen for CacheEdge {
    type Of = Edge;
    const KEYS: &'static [&'static str] = &["backlog", "idle_timeout", "login_timeout", "memory"];
}

/// Those of the broker.
#[derive(Clone)]
pub(crate) struct BrokerEdge;

impl Chosen for BrokerEdge {
    type Of = Edge;
    const KEYS: &'static [&'static str] =
        &["socket_mode", "backlog", "idle_timeout", "login_timeout", "memory"];
}

/// What the driver must know of them.
pub(crate) fn limits(edge: &Edge) -> ClientLimits {
    ClientLimits {
        idle: edge.idle_timeout,
        handshake: edge.login_timeout,
        memory: edge.memory,
        listening: listening(edge),
    }
}
