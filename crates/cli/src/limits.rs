//! The flags of a server that say what its clients may take: settings of the proxy's edge.

use krarup_proxy::Edge;
use krarup_serve::proxy::listening;
use krarup_serve::{ClientLimits, MemoryNotice};
use krarup_units::Nanos;

use crate::failure::Failure;
use crate::flags::Chosen;

/// The longest time that a flag may ask for, in seconds: a hundred years, about. Times are counted
/// in nanoseconds.
pub(crate) const LONGEST: f64 = 36_500.0 * 86_400.0;

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

/// How long a stop may take, of that many seconds.
///
/// # Errors
/// They are more than can be counted.
pub(crate) fn shutdown_limit(seconds: f64) -> Result<Nanos, Failure> {
    if seconds > LONGEST {
        return Err(Failure::usage("--shutdown-limit is at most 36500d")
            .hint("clients take their answers within seconds: --shutdown-limit 30s"));
    }
    Ok(Nanos::from_seconds(seconds))
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

/// Tells the operator that clients wait for memory, or were disconnected for it.
pub(crate) fn tell_memory(notice: MemoryNotice) {
    match notice {
        MemoryNotice::Short(memory) => eprintln!(
            "warning: clients wait for memory: long requests do not fit into their half of what buffers may hold of --buffer-memory \
             ({memory} bytes), or these are full; small requests pass"
        ),
        MemoryNotice::Cut(client, bytes) => {
            eprintln!(
                "warning: the memory is used up; client {client} was disconnected, which held {bytes} bytes of it and did not get on"
            );
        }
        MemoryNotice::Enough(cut) => {
            eprintln!("no client waits for memory any more; {cut} were disconnected meanwhile");
        }
    }
}
