//! What one event loop keeps of the keys that take the most time of servers and the most bytes.
//!
//! ```text
//! a request is let in  ─▶ RequestSampler::samples       one of N requests, drawn; N follows the rate
//! a sampled one ends   ─▶ HotKeyBooks::add              its key's counters, by time and by bytes
//! HotKeyBooks::snapshot ─▶ HotKeySnapshot               plain data; those of several loops merge
//! ```
//!
//! Each request is sampled by itself with probability 1/N, and what is sampled counts N times: so
//! every sum is right in the mean, whatever the order of the requests (Horvitz and Thompson 1952).
//! Keys are counted by [Space-Saving](SpaceSaving) in windows of five seconds, of which the last
//! two are told: the answer is of the last five to ten seconds.

use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

use crate::Operation;
use crate::random::fraction_of;

mod space_saving;

pub use space_saving::{SpaceSaving, TrackedKey};

/// The counters of one pool, by time or by bytes, in one window of one loop.
pub const TRACKED_KEYS: u16 = 256;

/// How long a window is.
pub const HOT_WINDOW: Nanos = Nanos::from_secs(5);

/// Of each second so many requests at most are sampled, once the rate is known.
const SAMPLES: u64 = 2_000;

/// One of so many requests is sampled at least, and at most.
const ONE_OF: std::ops::RangeInclusive<u32> = 8..=1 << 16;

const SECOND: Nanos = Nanos::from_secs(1);

/// Decides which requests are sampled: each by itself, with the same probability, which follows the
/// rate. The seed decides all draws.
#[derive(Clone, Debug)]
pub struct RequestSampler {
    /// Requests up to the next that is sampled, that one included.
    left: u64,
    one_of: u32,
    /// When the rate is looked at next.
    ends: Stamp,
    began: Stamp,
    /// What of `left` was drawn in the second that goes on, so that its requests are known.
    drawn: u64,
    sampled: u64,
    random: u64,
}

impl RequestSampler {
    /// One of eight requests at first.
    pub fn new(seed: u64) -> Self {
        let mut new = Self {
            left: 0,
            one_of: *ONE_OF.start(),
            ends: Stamp(0),
            began: Stamp(0),
            drawn: 0,
            sampled: 0,
            // The streams of neighbouring seeds lie far apart.
            random: seed.wrapping_mul(0xd134_2543_de82_ef95),
        };
        new.draw();
        new
    }

    /// Samples no request, ever.
    pub fn none() -> Self {
        Self { left: u64::MAX, ends: Stamp(u64::MAX), ..Self::new(0) }
    }

    /// Whether the next request, which comes at `now`, is sampled: then for so many it stands.
    #[inline]
    pub fn samples(&mut self, now: Stamp) -> Option<u32> {
        self.left -= 1;
        if self.left != 0 && now < self.ends {
            return None;
        }
        self.look(now)
    }

    #[cold]
    fn look(&mut self, now: Stamp) -> Option<u32> {
        let sampled = (self.left == 0).then_some(self.one_of);
        if now >= self.ends {
            self.follow_rate(now);
        } else if self.sampled >= 2 * SAMPLES {
            // The rate has risen at once.
            self.one_of = (2 * self.one_of).min(*ONE_OF.end());
            self.sampled = 0;
        }
        if sampled.is_some() {
            self.sampled += 1;
            self.draw();
        }
        sampled
    }

    /// A whole number below `end`, each with the same probability.
    pub fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_add(1);
        (fraction_of(self.random) * end as f64) as usize
    }

    /// A second has ended: the next one samples as its rate needs.
    fn follow_rate(&mut self, now: Stamp) {
        let requests = self.drawn - self.left;
        let seconds = (now.0.saturating_sub(self.began.0) / SECOND.0).max(1);
        let wanted = (requests / seconds).div_ceil(SAMPLES).next_power_of_two();
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).clamp(*ONE_OF.start(), *ONE_OF.end());
        (self.began, self.ends, self.sampled) = (now, now + SECOND, 0);
        if wanted != self.one_of && self.left != 0 {
            // How many are left does not depend on how many have passed, so it may be drawn anew.
            self.one_of = wanted;
            self.draw();
        }
        self.one_of = wanted;
        self.drawn = self.left;
    }

    /// Draws how many requests there are up to the next one: geometric, mean `one_of`.
    fn draw(&mut self) {
        self.random = self.random.wrapping_add(1);
        let kept = 1.0 - 1.0 / f64::from(self.one_of);
        let passed = (1.0 - fraction_of(self.random)).ln() / kept.ln();
        let gap = 1 + passed as u64;
        self.drawn = self.drawn - self.left + gap;
        self.left = gap;
    }
}

/// A sampled request that has ended, with one of its keys.
#[derive(Clone, Copy, Debug)]
pub struct SampledRequest<'a> {
    /// The number of the key's pool.
    pub pool: usize,
    /// The key's digest. Of a request for several keys each is taken with the same probability, and
    /// stands for all: its time and bytes are divided evenly among them, in the mean.
    pub key: u64,
    /// The key itself, where it may be kept.
    pub name: Option<&'a [u8]>,
    /// The one server that takes the key over if its server is lost; none: several do, or none.
    pub heir: Option<u16>,
    /// The number by which its pool places the key; none: every server has every key.
    pub placed_by: Option<u64>,
    /// For so many requests it stands.
    pub one_of: u32,
    /// What was asked.
    pub operation: Operation,
    /// Bytes of the request and its reply.
    pub bytes: u64,
    /// From the first part sent to the last answered.
    pub residence: Nanos,
    /// For how long it occupied which server's connection.
    pub servers: &'a [(u16, Nanos)],
}

/// What is known of a key since it has its counter: sums over the sampled requests, each as often
/// as it stands for others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyTally {
    /// Sampled requests, each once.
    pub samples: u64,
    /// Requests.
    pub requests: u64,
    /// Those that read.
    pub reads: u64,
    /// Those that read this key alone.
    pub gets: u64,
    /// Nanoseconds for which all occupied a server's connection.
    pub time: u64,
    /// Those of the reads.
    pub read_time: u64,
    /// Those of the reads of this key alone.
    pub get_time: u64,
    /// Nanoseconds that the reads of this key alone spent at their server, their wait included.
    pub get_residence: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// The sum of the squares of what the key is counted by, one term for each sampled request.
    pub squares: f64,
    /// The server that was asked last.
    pub server: Option<u16>,
    /// The one server that takes the key over if its server is lost; none: several do, or none.
    pub heir: Option<u16>,
    /// The number by which its pool places the key; none: every server has every key.
    pub placed_by: Option<u64>,
    /// The key itself, where it may be kept.
    pub name: Option<Arc<[u8]>>,
}

impl KeyTally {
    fn count(&mut self, sample: &SampledRequest<'_>, time: u64, square: f64) {
        let times = u64::from(sample.one_of);
        self.samples += 1;
        self.requests += times;
        if matches!(sample.operation, Operation::Get | Operation::MultiGet) {
            self.reads += times;
            self.read_time += time;
        }
        if sample.operation == Operation::Get {
            self.gets += times;
            self.get_time += time;
            self.get_residence += times * sample.residence.0;
        }
        self.time += time;
        self.bytes += times * sample.bytes;
        self.squares += square;
        self.server = sample.servers.last().map(|&(server, _)| server).or(self.server);
        (self.heir, self.placed_by) = (sample.heir, sample.placed_by);
        if self.name.is_none() {
            self.name = sample.name.map(Arc::from);
        }
    }

    /// Adds what is known of the same key from another window or loop.
    pub fn absorb(&mut self, other: &Self) {
        self.samples += other.samples;
        self.requests += other.requests;
        self.reads += other.reads;
        self.gets += other.gets;
        self.time += other.time;
        self.read_time += other.read_time;
        self.get_time += other.get_time;
        self.get_residence += other.get_residence;
        self.bytes += other.bytes;
        self.squares += other.squares;
        self.server = self.server.or(other.server);
        self.heir = self.heir.or(other.heir);
        self.placed_by = self.placed_by.or(other.placed_by);
        if self.name.is_none() {
            self.name.clone_from(&other.name);
        }
    }
}

/// The keys of one pool in one window. All sums count a sampled request as often as it stands for
/// others.
#[derive(Clone, Debug)]
pub struct PoolKeys {
    /// By the nanoseconds for which they occupied a server's connection.
    pub by_time: SpaceSaving<KeyTally>,
    /// By the bytes of requests and replies.
    pub by_bytes: SpaceSaving<KeyTally>,
    /// Sampled requests, each once.
    pub samples: u64,
    /// Requests.
    pub requests: u64,
    /// The sum of the squares of all weights by time.
    pub time_squares: f64,
    /// The same of those by bytes.
    pub byte_squares: f64,
}

impl Default for PoolKeys {
    fn default() -> Self {
        Self {
            by_time: SpaceSaving::new(TRACKED_KEYS),
            by_bytes: SpaceSaving::new(TRACKED_KEYS),
            samples: 0,
            requests: 0,
            time_squares: 0.0,
            byte_squares: 0.0,
        }
    }
}

impl PoolKeys {
    fn add(&mut self, sample: &SampledRequest<'_>) {
        let times = u64::from(sample.one_of);
        let time = times * sample.servers.iter().map(|(_, time)| time.0).sum::<u64>();
        let bytes = times * sample.bytes;
        let (time_square, byte_square) = ((time as f64).powi(2), (bytes as f64).powi(2));
        self.samples += 1;
        self.requests += times;
        self.time_squares += time_square;
        self.byte_squares += byte_square;
        if let Some(tally) = self.by_time.add(sample.key, time) {
            tally.count(sample, time, time_square);
        }
        if let Some(tally) = self.by_bytes.add(sample.key, bytes) {
            tally.count(sample, time, byte_square);
        }
    }

    /// Adds those of another window or loop. The bounds of both summaries add up.
    pub fn merge(&mut self, other: &Self) {
        self.by_time.merge(&other.by_time, KeyTally::absorb);
        self.by_bytes.merge(&other.by_bytes, KeyTally::absorb);
        self.samples += other.samples;
        self.requests += other.requests;
        self.time_squares += other.time_squares;
        self.byte_squares += other.byte_squares;
    }

    fn clear(&mut self) {
        self.by_time.clear();
        self.by_bytes.clear();
        (self.samples, self.requests) = (0, 0);
        (self.time_squares, self.byte_squares) = (0.0, 0.0);
    }
}

/// The keys of all pools in one window.
#[derive(Clone, Debug, Default)]
pub struct HotKeyWindow {
    /// Which window: it begins so many times [`HOT_WINDOW`] after zero.
    pub number: u64,
    /// By the number of the pool.
    pub pools: Vec<PoolKeys>,
    /// For how many nanoseconds sampled requests occupied the connections to each server, by its
    /// number, each as often as it stands for others.
    pub servers: Vec<u64>,
}

impl HotKeyWindow {
    fn begin(&mut self, number: u64) {
        self.number = number;
        self.pools.iter_mut().for_each(PoolKeys::clear);
        self.servers.fill(0);
    }

    fn add(&mut self, sample: &SampledRequest<'_>) {
        if self.pools.len() <= sample.pool {
            self.pools.resize_with(sample.pool + 1, PoolKeys::default);
        }
        self.pools[sample.pool].add(sample);
        for &(server, time) in sample.servers {
            let server = usize::from(server);
            if self.servers.len() <= server {
                self.servers.resize(server + 1, 0);
            }
            self.servers[server] += u64::from(sample.one_of) * time.0;
        }
    }
}

/// What one loop keeps of its hottest keys, or several. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct HotKeyBooks {
    /// Of one loop at most two: the one that goes on first.
    windows: Vec<HotKeyWindow>,
    /// When the first sampled request ended.
    began: Option<Stamp>,
}

impl HotKeyBooks {
    /// Counts a sampled request that ended at `at`.
    pub fn add(&mut self, sample: &SampledRequest<'_>, at: Stamp) {
        self.began.get_or_insert(at);
        let number = at.0 / HOT_WINDOW.0;
        // Those of one write may end on either side of a window's end: then the later one has them.
        if self.windows.first().is_none_or(|window| window.number < number) {
            match &mut self.windows[..] {
                [current, before] => {
                    std::mem::swap(current, before);
                    current.begin(number);
                }
                _ => self.windows.insert(0, HotKeyWindow { number, ..HotKeyWindow::default() }),
            }
        }
        self.windows[0].add(sample);
    }

    /// Adds those of another loop.
    pub fn absorb(&mut self, other: &Self) {
        self.windows.extend_from_slice(&other.windows);
        self.began = self.began.into_iter().chain(other.began).min();
    }

    /// What is kept at `now`.
    pub fn snapshot(&self, now: Stamp) -> HotKeySnapshot {
        let before = (now.0 / HOT_WINDOW.0).saturating_sub(1);
        let windows = self.windows.iter().filter(|window| window.number >= before).cloned();
        let from = Stamp(before * HOT_WINDOW.0).max(self.began.unwrap_or(now)).min(now);
        HotKeySnapshot { from, to: now, windows: windows.collect() }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// What was kept, as plain data: of one loop, or of several.
#[derive(Clone, Debug, Default)]
pub struct HotKeySnapshot {
    /// Since when requests are counted.
    pub from: Stamp,
    /// Until when.
    pub to: Stamp,
    /// At most two of each loop.
    pub windows: Vec<HotKeyWindow>,
}

impl HotKeySnapshot {
    /// The keys of the pool of this number in all windows together; none where none was sampled.
    pub fn pool(&self, number: usize) -> Option<PoolKeys> {
        let mut windows = self.windows.iter().filter_map(|window| window.pools.get(number));
        let mut all = windows.next()?.clone();
        windows.for_each(|one| all.merge(one));
        (all.samples > 0).then_some(all)
    }

    /// For how many nanoseconds the connections to the server of this number were occupied.
    pub fn server_time(&self, number: usize) -> u64 {
        self.windows.iter().filter_map(|window| window.servers.get(number)).sum()
    }
}

#[cfg(test)]
mod tests;
