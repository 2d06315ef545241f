//! Which keys take most of the servers' time and of the bytes, and what would relieve the servers
//! of them.
//!
//! ```text
//! HotKeySnapshot ─▶ shares of each pool, with intervals ─▶ HotKeys: the first ten by time, by bytes
//!                └▶ what coalescing or a second copy would save, as shares of a server's busy time
//! ```
//!
//! **Time** is that for which a connection to a server was occupied: the effective service time of
//! the [headroom](crate::headroom), e = answered − max(previous answered, sent), without the round
//! trip taken off. Over all requests of a connection these add up to the time in which it had
//! anything to do, so a share of them is a share of that. The whole time at the server would count
//! the wait behind other keys as well, and with load all keys would seem alike.
//!
//! **A share** p of a weight W is estimated from n sampled requests with weights w_i, each of which
//! stands for N requests:
//!
//! ```text
//! se² = Σ w_i² (1{key} − p)² / W²        of a ratio (Cochran 1977, §6.4)
//! n_e = p (1 − p) / se²                  trials of equal weight with that standard error
//! ```
//!
//! and its interval is Wilson's score for n_e trials, widened upwards by the error of the counter.
//!
//! Everything here is a pure function of a snapshot and of what is known beside it.

use std::cmp::Reverse;

use krarup_record::hot_keys::{HotKeySnapshot, KeyTally, PoolKeys, SpaceSaving, TrackedKey};
use krarup_stats::interval::score_interval;
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::station::erlang_b;

/// The version of the JSON that [`HotKeys`] are written as.
pub const HOT_KEYS_SCHEMA: u32 = 1;

/// So many keys of a pool are listed by time, and by bytes.
pub const LISTED_KEYS: usize = 10;

/// A key of which fewer sampled requests were seen is not listed: its share says nothing.
pub const LEAST_SAMPLES: u64 = 5;

/// How often the intervals hold the share.
pub const LEVEL: f64 = 0.95;

/// What is known of a pool beside its traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPool {
    /// Its name.
    pub name: String,
    /// Whether reads of one key that are under way together share one answer already.
    pub coalesces: bool,
    /// How many servers hold a key, at least one.
    pub copies: usize,
    /// How many servers there are.
    pub servers: usize,
    /// Whether all reads of a key go to one of its holders.
    pub reads_one: bool,
}

/// What is known beside a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySystem {
    /// The pools, by their numbers in the snapshot; none: it is configured no more.
    pub pools: Vec<Option<KeyPool>>,
    /// The names of the servers, by their numbers in the snapshot.
    pub servers: Vec<String>,
    /// How many event loops there are: each shares the answers of its own clients alone.
    pub loops: usize,
    /// What is kept of each key, in the word of the configuration: `digest`, `name` or `off`.
    pub keys: String,
}

/// A share of something, from a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyShare {
    /// The share, from 0 to 1.
    pub mean: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Its standard error.
    pub se: f64,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotKey {
    /// XXH3 of the key as its servers see it, in 16 hexadecimal digits.
    pub key: String,
    /// The key as its servers see it, bytes that are not printable escaped; only where the
    /// configuration allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its share of what the list is by, in its pool.
    pub share: KeyShare,
    /// Sampled requests that name it.
    pub samples: u64,
    /// Requests per second that name it.
    pub requests_per_s: f64,
    /// Of these, the share that only reads.
    pub reads: f64,
    /// Its share of the time that all requests of the pool occupied servers.
    pub time: f64,
    /// Its share of the bytes of all requests of the pool.
    pub bytes: f64,
    /// The server that was asked last for it.
    pub server: Option<String>,
    /// The server that is asked for it if that one is lost; none: several are, or none.
    #[serde(default)]
    pub heir: Option<String>,
    /// Its share of that server's busy time, of all pools.
    pub of_server: Option<f64>,
    /// By how much less that server would be busy, as a share of its busy time, if gets for this
    /// key that are under way together shared one answer; none: they do, or none was seen.
    pub coalescing_saves: Option<f64>,
    /// The same if one more server held the key and were read as often; none: all hold it, or one
    /// holder has all reads.
    pub copy_saves: Option<f64>,
}

/// The keys of one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolHotKeys {
    /// Its name.
    pub pool: String,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Requests that were sampled.
    pub samples: u64,
    /// For so many requests each of these stands, in the mean.
    pub one_of: f64,
    /// No key that is not listed has a larger share of the sampled time than this.
    pub unseen_time: f64,
    /// The same of the bytes.
    pub unseen_bytes: f64,
    /// The keys with the largest shares of the time.
    pub by_time: Vec<HotKey>,
    /// The keys with the largest shares of the bytes.
    pub by_bytes: Vec<HotKey>,
}

/// The hottest keys of each pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotKeys {
    /// [`HOT_KEYS_SCHEMA`].
    pub schema: u32,
    /// What is kept of each key: `digest`, `name`, or `off`, and then there is nothing else.
    pub keys: String,
    /// Of how many seconds, the last ones, this is.
    pub covers_s: Seconds,
    /// Every pool of which a request was sampled.
    pub pools: Vec<PoolHotKeys>,
}

/// Of the reads of one key, the share that arrive while another is under way, where such a read
/// waits for that one's answer: Erlang's loss of one line with an offered load a = λT, a / (1 + a).
///
/// It holds for Poisson arrivals at rate λ, and any law of the time T under way (Sevastyanov 1957):
/// in each cycle one read goes to the server, and in the mean λT arrive before its answer.
pub fn shared_reads(offered: f64) -> f64 {
    erlang_b(1, offered)
}

/// What a snapshot says of the hottest keys.
pub fn hottest(kept: &HotKeySnapshot, system: &KeySystem) -> HotKeys {
    let covers_s = (kept.to - kept.from).as_seconds();
    let pool = |(number, pool): (usize, &Option<KeyPool>)| {
        let (pool, keys) = (pool.as_ref()?, kept.pool(number)?);
        Some(KeyJudge { kept, system, pool, keys: &keys, covers_s: covers_s.max(f64::MIN_POSITIVE) }.judge())
    };
    let pools = system.pools.iter().enumerate().filter_map(pool).collect();
    HotKeys { schema: HOT_KEYS_SCHEMA, keys: system.keys.clone(), covers_s, pools }
}

/// The keys of one pool, and all that they are judged by.
struct KeyJudge<'a> {
    kept: &'a HotKeySnapshot,
    system: &'a KeySystem,
    pool: &'a KeyPool,
    keys: &'a PoolKeys,
    covers_s: Seconds,
}

impl KeyJudge<'_> {
    fn judge(&self) -> PoolHotKeys {
        let PoolKeys { by_time, by_bytes, samples, requests, time_squares, byte_squares } = self.keys;
        let [first_by_time, first_by_bytes] = [by_time, by_bytes].map(listed);
        PoolHotKeys {
            pool: self.pool.name.clone(),
            requests_per_s: *requests as f64 / self.covers_s,
            samples: *samples,
            one_of: ratio(*requests, *samples),
            unseen_time: unlisted(by_time, &first_by_time),
            unseen_bytes: unlisted(by_bytes, &first_by_bytes),
            by_time: self.list(by_time, &first_by_time, *time_squares),
            by_bytes: self.list(by_bytes, &first_by_bytes, *byte_squares),
        }
    }

    /// What is told of these keys.
    fn list(
        &self,
        keys: &SpaceSaving<KeyTally>,
        listed: &[&TrackedKey<KeyTally>],
        squares: f64,
    ) -> Vec<HotKey> {
        let (total, samples) = (keys.total(), self.keys.samples);
        let key = |tracked: &&TrackedKey<KeyTally>| {
            let known = tracked.weight - tracked.error;
            let share = share(known, total, tracked.about.squares, squares, samples);
            let share = KeyShare { high: (share.high + ratio(tracked.error, total)).min(1.0), ..share };
            self.key(tracked.key, &tracked.about, share)
        };
        listed.iter().map(key).collect()
    }

    fn name_of(&self, server: Option<u16>) -> Option<String> {
        server.and_then(|server| self.system.servers.get(usize::from(server)).cloned())
    }

    fn key(&self, key: u64, tally: &KeyTally, share: KeyShare) -> HotKey {
        // What holds a key has an even part of what the key takes.
        let holders = if self.pool.reads_one { 1 } else { self.pool.copies.max(1) };
        let busy = tally.server.map(|server| self.kept.server_time(usize::from(server)));
        let busy = busy.filter(|&busy| busy > 0).map(|busy| busy as f64 * holders as f64);
        let of_server = |time: u64| busy.map(|busy| (time as f64 / busy).min(1.0));
        let offered = tally.get_residence as f64 / 1e9 / self.covers_s / self.system.loops.max(1) as f64;
        let shares = !self.pool.coalesces && tally.gets > 0;
        let copies = !self.pool.reads_one && self.pool.copies < self.pool.servers;
        HotKey {
            key: format!("{key:016x}"),
            name: tally.name.as_ref().map(|name| name.escape_ascii().to_string()),
            share,
            samples: tally.samples,
            requests_per_s: tally.requests as f64 / self.covers_s,
            reads: ratio(tally.reads, tally.requests),
            time: ratio(tally.time, self.keys.by_time.total()),
            bytes: ratio(tally.bytes, self.keys.by_bytes.total()),
            server: self.name_of(tally.server),
            heir: self.name_of(tally.heir).filter(|_| tally.heir != tally.server),
            of_server: of_server(tally.time),
            coalescing_saves: of_server(tally.get_time)
                .filter(|_| shares)
                .map(|gets| gets * shared_reads(offered)),
            // Of its reads each of R holders has 1/R, and would have 1/(R + 1).
            copy_saves: of_server(tally.read_time)
                .filter(|_| copies)
                .map(|reads| reads / (holders + 1) as f64),
        }
    }
}

/// The keys with the most weight that is known to be theirs, of those that were sampled often.
fn listed(keys: &SpaceSaving<KeyTally>) -> Vec<&TrackedKey<KeyTally>> {
    let often = keys.tracked().iter().filter(|tracked| tracked.about.samples >= LEAST_SAMPLES);
    let mut listed: Vec<_> = often.collect();
    listed.sort_by_key(|tracked| (Reverse(tracked.weight - tracked.error), tracked.key));
    listed.truncate(LISTED_KEYS);
    listed
}

/// The most that a key outside of the list can have: with a counter or without.
fn unlisted(keys: &SpaceSaving<KeyTally>, listed: &[&TrackedKey<KeyTally>]) -> f64 {
    let is_listed = |key: u64| listed.iter().any(|tracked| tracked.key == key);
    let others = keys.tracked().iter().filter(|tracked| !is_listed(tracked.key));
    let most = others.map(|tracked| tracked.weight).fold(keys.lightest(), u64::max);
    ratio(most, keys.total())
}

fn ratio(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// The share that `part` is of `whole`, where the squares of the sampled weights of the key and of
/// all add up to so much, and so many requests were sampled.
fn share(part: u64, whole: u64, squares: f64, all_squares: f64, samples: u64) -> KeyShare {
    let mean = ratio(part, whole);
    if whole == 0 || samples == 0 {
        return KeyShare { mean, low: 0.0, high: 1.0, se: 0.0 };
    }
    let others = (all_squares - squares).max(0.0);
    let variance = (squares * (1.0 - mean).powi(2) + others * mean.powi(2)) / (whole as f64).powi(2);
    // Where all weight is one key's, nothing varies; there were so many trials all the same.
    let most = samples as f64;
    let trials = if variance > 0.0 { (mean * (1.0 - mean) / variance).clamp(1.0, most) } else { most };
    let interval = score_interval(mean, trials, LEVEL).expect("a share of at least one trial");
    // Rounding must not leave the share outside its own interval.
    KeyShare { mean, low: interval.low.min(mean), high: interval.high.max(mean), se: variance.sqrt() }
}

#[cfg(test)]
mod tests;
