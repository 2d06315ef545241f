//! What the proxy's service must know before it starts.

use krarup_memcache::Limits;
use krarup_units::Nanos;

use crate::dispatch::Workers;
use crate::edge::Dangerous;
use crate::hot_keys::HotKeyMode;
use crate::upstreams::{UpstreamSettings, WINDOW};

/// What the core must know before it starts.
#[derive(Clone, Debug)]
pub struct CoreSettings {
    /// What clients may send.
    pub limits: Limits,
    /// How many requests may be with the servers at once.
    pub workers: Workers,
    /// Whether their number is set while it runs, by [`crate::Core::set_workers`].
    pub automatic: bool,
    /// How many requests may wait for a worker; beyond that clients are not listened to.
    pub queue: usize,
    /// How many requests of one client may be under way; beyond that it is not listened to.
    pub pipeline: u32,
    /// How many bytes of replies may wait for one client; beyond that it is not listened to.
    pub reply_buffer: usize,
    /// How many bytes of replies may be expected for all clients together; beyond that a client has
    /// one request under way.
    pub replies: usize,
    /// How long a server may take over one answer before its connection counts as lost.
    pub timeout: Nanos,
    /// The first wait before connecting again; each failure doubles it.
    pub reconnect_after: Nanos,
    /// The longest wait before connecting again.
    pub reconnect_at_most: Nanos,
    /// Failures in a row, with no request answered between, after which a server is ejected; none:
    /// never.
    pub eject_after: Option<u32>,
    /// How long an ejected server is left alone before it is tried again.
    pub eject_for: Nanos,
    /// Over which time an ejected server that is back is given its full share of reads again.
    pub return_over: Nanos,
    /// How many of the slowest requests of each second are kept with all their stamps.
    pub slow_requests: usize,
    /// What is kept of the keys that take most.
    pub hot_keys: HotKeyMode,
    /// The time of day at the clock's zero, in seconds since 1970, as it was at the start;
    /// [`crate::Core::set_unix`] corrects it.
    pub unix: u64,
    /// What tells this run of the process from every other.
    pub run_id: u64,
    /// Commands that are refused.
    pub refused: Vec<Dangerous>,
    /// Connections to each server, which clients use in turn; at least one.
    pub server_connections: u32,
    /// Whether each client has connections to servers of its own instead.
    pub dedicated: bool,
}

impl CoreSettings {
    /// How servers are connected to. With little memory less that is long may be under way, so that
    /// one client that reads slowly does not use it up.
    pub(crate) fn upstreams(&self) -> UpstreamSettings {
        UpstreamSettings {
            timeout: self.timeout,
            reconnect_after: self.reconnect_after,
            reconnect_at_most: self.reconnect_at_most,
            eject_after: self.eject_after,
            eject_for: self.eject_for,
            connections: self.server_connections,
            dedicated: self.dedicated,
            window: WINDOW.min(self.replies / 2),
        }
    }
}
