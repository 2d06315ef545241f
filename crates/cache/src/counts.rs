//! What has happened, under memcached's own names.

/// What was done to the items since the start, or since `stats reset`. Each field is the statistic
/// of the same name, counted when memcached counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCounts {
    /// Keys asked for with `get` and `gets`, not commands: `get a b` counts two.
    pub cmd_get: u64,
    /// Values brought by the six storage commands, those included that a condition kept out.
    pub cmd_set: u64,
    /// `flush_all`s.
    pub cmd_flush: u64,
    /// Keys of `touch`, `gat` and `gats`.
    pub cmd_touch: u64,
    /// Of `cmd_get`, those that were there.
    pub get_hits: u64,
    /// Of `cmd_get`, those that were not.
    pub get_misses: u64,
    /// `delete`s of nothing.
    pub delete_misses: u64,
    /// `delete`s of something.
    pub delete_hits: u64,
    /// `incr`s of nothing.
    pub incr_misses: u64,
    /// `incr`s of a number.
    pub incr_hits: u64,
    /// `decr`s of nothing.
    pub decr_misses: u64,
    /// `decr`s of a number.
    pub decr_hits: u64,
    /// `cas`es of nothing.
    pub cas_misses: u64,
    /// `cas`es that stored.
    pub cas_hits: u64,
    /// `cas`es that came too late.
    pub cas_badval: u64,
    /// Of `cmd_touch`, those that were there.
    pub touch_hits: u64,
    /// Of `cmd_touch`, those that were not.
    pub touch_misses: u64,
    /// Values over the limit on items.
    pub store_too_large: u64,
    /// Values larger than all memory.
    pub store_no_memory: u64,
    /// Items ever put in place.
    pub total_items: u64,
    /// Items that left before their time because memory was full.
    pub evictions: u64,
    /// Items that were removed because their time had passed: when a client asked for them, or
    /// memory was needed.
    pub reclaimed: u64,
}

/// What went over the connections since the start; all but the first since `stats reset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Clients connected now.
    pub curr_connections: u64,
    /// Clients that were ever let in.
    pub total_connections: u64,
    /// Clients that were turned away at the limit.
    pub rejected_connections: u64,
    /// How many times accepting had to pause because the system would give no more sockets.
    pub listen_disabled_num: u64,
    /// Bytes received.
    pub bytes_read: u64,
    /// Bytes sent.
    pub bytes_written: u64,
}
