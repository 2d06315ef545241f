//! The answers to `stats`.

use std::fmt::Display;

use krarup_memcache::{request, write};
use krarup_units::Nanos;

use crate::{ItemCounts, ItemStore, Traffic};

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its process.
    pub pid: u32,
    /// It begins with memcached's numbers, as `1.4.39`, because clients compare them.
    pub version: String,
    /// When it started, since 1970 (UTC).
    pub started: Nanos,
    /// The host it listens on.
    pub host: String,
    /// The port it listens on.
    pub port: u16,
    /// How many clients may be connected at once.
    pub connections: u64,
}

/// What all sessions of one server share.
#[derive(Debug)]
pub struct State {
    /// The items.
    pub store: ItemStore,
    /// What went over the connections.
    pub traffic: Traffic,
    /// What the server says about itself.
    pub about: About,
    /// What `verbosity` was set to; nothing listens to it.
    pub verbosity: u32,
}

/// Answers `stats`, or `stats argument`. What memcached tells about its slabs, connections and
/// threads has no counterpart here: those answers are empty.
pub fn answer(state: &mut State, argument: &[u8], now: Nanos, out: &mut Vec<u8>) {
    let first = argument.split(|&byte| byte == b' ').next().unwrap_or(argument);
    match first {
        b"" => general(state, now, out),
        b"settings" => settings(state, out),
        b"items" | b"slabs" | b"sizes" | b"conns" | b"extstore" => {}
        b"reset" => {
            state.store.reset_counts();
            state.traffic =
                Traffic { curr_connections: state.traffic.curr_connections, ..Traffic::default() };
            out.extend_from_slice(b"RESET\r\n");
            return;
        }
        _ => {
            out.extend_from_slice(request::ERROR);
            return;
        }
    }
    out.extend_from_slice(b"END\r\n");
}

fn line(out: &mut Vec<u8>, name: &str, value: impl Display) {
    write::stat(out, name, &value.to_string());
}

fn general(state: &State, now: Nanos, out: &mut Vec<u8>) {
    let State { store, traffic, about, .. } = state;
    line(out, "pid", about.pid);
    // In seconds of the clock, so that both change at once, as memcached's do.
    let (time, started) = (now.0 / 1_000_000_000, about.started.0 / 1_000_000_000);
    line(out, "uptime", time.saturating_sub(started));
    line(out, "time", time);
    line(out, "version", &about.version);
    line(out, "pointer_size", usize::BITS);
    line(out, "max_connections", about.connections);
    for (name, value) in self::traffic(traffic).into_iter().chain(counts(&store.counts())) {
        line(out, name, value);
    }
    line(out, "limit_maxbytes", store.bounds().memory);
    line(out, "threads", 1);
    line(out, "bytes", store.bytes());
    line(out, "curr_items", store.len());
}

fn settings(state: &State, out: &mut Vec<u8>) {
    let State { store, about, verbosity, .. } = state;
    line(out, "maxbytes", store.bounds().memory);
    line(out, "maxconns", about.connections);
    line(out, "tcpport", about.port);
    line(out, "udpport", 0);
    line(out, "inter", &about.host);
    line(out, "verbosity", verbosity);
    line(out, "evictions", "on");
    line(out, "num_threads", 1);
    line(out, "cas_enabled", "yes");
    line(out, "item_size_max", store.bounds().item);
    line(out, "maxconns_fast", "yes");
    line(out, "flush_enabled", "yes");
}

/// The counts under their names, in memcached's order.
pub fn counts(counts: &ItemCounts) -> [(&'static str, u64); 22] {
    [
        ("cmd_get", counts.cmd_get),
        ("cmd_set", counts.cmd_set),
        ("cmd_flush", counts.cmd_flush),
        ("cmd_touch", counts.cmd_touch),
        ("get_hits", counts.get_hits),
        ("get_misses", counts.get_misses),
        ("delete_misses", counts.delete_misses),
        ("delete_hits", counts.delete_hits),
        ("incr_misses", counts.incr_misses),
        ("incr_hits", counts.incr_hits),
        ("decr_misses", counts.decr_misses),
        ("decr_hits", counts.decr_hits),
        ("cas_misses", counts.cas_misses),
        ("cas_hits", counts.cas_hits),
        ("cas_badval", counts.cas_badval),
        ("touch_hits", counts.touch_hits),
        ("touch_misses", counts.touch_misses),
        ("store_too_large", counts.store_too_large),
        ("store_no_memory", counts.store_no_memory),
        ("total_items", counts.total_items),
        ("evictions", counts.evictions),
        ("reclaimed", counts.reclaimed),
    ]
}

/// What went over the connections, under memcached's names.
pub fn traffic(traffic: &Traffic) -> [(&'static str, u64); 6] {
    [
        ("curr_connections", traffic.curr_connections),
        ("total_connections", traffic.total_connections),
        ("rejected_connections", traffic.rejected_connections),
        ("listen_disabled_num", traffic.listen_disabled_num),
        ("bytes_read", traffic.bytes_read),
        ("bytes_written", traffic.bytes_written),
    ]
}
