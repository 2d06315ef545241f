//! What a trace of requests asks: how fast, of which keys, and how much memory a cache needs for
//! it.
//!
//! A cache that throws out the least recently used finds a key if what was used since its last use
//! fits in (the stack distance of Mattson et al., "Evaluation techniques for storage hierarchies",
//! IBM Systems Journal 9(2), 1970), so one reading tells the hit ratio of every size. It is taken
//! that what was missed is stored, for as long as it was stored before. An `add` of what a request
//! has stored changes nothing, and what is appended makes a value longer that is there.
//!
//! Where nothing is removed and nothing expires this is exact. What does is a miss afterwards at
//! any size, and takes no room. The highest hit ratio is exact then too; that of a smaller cache is
//! not: it cannot use the room for what it had thrown out, and stores anew, for its whole time to
//! live, what it threw out before its time was over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use krarup_stats::Summary;
use krarup_units::{Nanos, Seconds};
use serde::Serialize;

/// What memcached keeps of an item beside its key and its value, in bytes: its header, with the
/// unique of `cas`.
pub const ITEM_HEADER: u64 = 56;

/// What a request does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceUse {
    /// It reads it: a hit or a miss.
    Read,
    /// It stores it, whatever was there.
    Write,
    /// It stores it unless it is there.
    Add,
    /// It adds to the value that is there.
    Extend,
    /// It changes what is there.
    Change,
    /// It removes it.
    Remove,
}

/// What a trace asks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceEstimates {
    /// How many requests there are.
    pub requests: u64,
    /// From the first to the last, in seconds.
    pub length: Seconds,
    /// Requests per second, the mean; none of a trace without length.
    pub rate: Option<f64>,
    /// Requests in the busiest whole second.
    pub busiest_second: u64,
    /// The variance of the requests in a second over their mean: 1 as of independent users; none
    /// of fewer than ten whole seconds.
    pub dispersion: Option<f64>,
    /// Each command, the most frequent first.
    pub operations: Vec<TracedOperation>,
    /// How often which keys are asked for; none where no key is known.
    pub keys: Option<KeyUse>,
    /// Bytes of what is stored; none where no size is known.
    pub values: Option<ValueSizes>,
    /// For how long what is stored is to live; none where all of it is for ever.
    pub lifetimes: Option<StoredLifetimes>,
    /// Who asks; none where clients are not known.
    pub clients: Option<ClientUse>,
    /// How much memory it takes for which hit ratio; none where no key is read twice.
    pub memory: Option<MemoryNeed>,
}

/// One command of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TracedOperation {
    /// Its name on the wire.
    pub name: String,
    /// How many requests.
    pub count: u64,
    /// Their share of all.
    pub share: f64,
}

/// How often which keys are asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyUse {
    /// How many keys there are.
    pub distinct: u64,
    /// How many of them are asked for once.
    pub once: u64,
    /// The share of all uses that the most used key has, that the most used 1 % have, and 10 %.
    pub top_shares: [f64; 3],
    /// The exponent of Zipf's law that explains the uses, 0 to 4: the middle of `zipf_range`; none
    /// where keys are used alike, as far as can be seen.
    pub zipf: Option<f64>,
    /// Between which exponents it may lie.
    pub zipf_range: Option<[f64; 2]>,
}

/// Bytes of values that are stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueSizes {
    /// The mean.
    pub mean: f64,
    /// Half of them are not larger.
    pub p50: u64,
    /// 99 of 100 are not larger.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// Times to live of what is stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredLifetimes {
    /// The share of what is stored that expires.
    pub expiring: f64,
    /// Half of the times to live of what expires are not longer, in seconds.
    pub p50: u32,
    /// 90 of 100 are not longer.
    pub p90: u32,
    /// The longest.
    pub max: u32,
}

/// How many clients ask, and how unevenly.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientUse {
    /// How many there are.
    pub count: u64,
    /// The share of all requests that the busiest has, that the busiest 1 % have, and 10 %.
    pub top_shares: [f64; 3],
}

/// How much memory it takes for which hit ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryNeed {
    /// Reads of keys.
    pub reads: u64,
    /// Reads that come when their key's time to live is over: misses of a cache of any size.
    pub expired: u64,
    /// The share of them that finds its key if nothing is ever thrown out before its time.
    pub most_hits: f64,
    /// For shares of those hits from 50 % to all.
    pub sizes: Vec<CacheSize>,
}

/// A cache that throws out the least recently used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheSize {
    /// The share of all reads that finds its key.
    pub hit_ratio: f64,
    /// How many keys it must hold.
    pub keys: u64,
    /// And how many bytes, keys and [`ITEM_HEADER`] included: what memcached's slabs leave unused
    /// comes on top. None where no size is known.
    pub bytes: Option<u64>,
}

/// Shares of the hits that are possible.
const SHARES: [f64; 6] = [0.5, 0.8, 0.9, 0.95, 0.99, 1.0];

/// A trace while it is read.
#[derive(Debug, Default)]
pub struct TraceReading {
    requests: u64,
    first: Option<Nanos>,
    last: Nanos,
    /// Requests by whole second.
    seconds: Vec<u64>,
    operations: Vec<(&'static str, u64)>,
    uses: Vec<TimedUse>,
    sizes: Vec<u64>,
    /// Times to live of what was stored, in seconds; 0 for ever.
    lifetimes: Vec<u32>,
    /// By key.
    keys: Vec<TracedKey>,
}

/// What is known of a key while a trace is read.
#[derive(Clone, Copy, Debug, Default)]
struct TracedKey {
    /// How often it is used.
    uses: u64,
    /// How large its value was the last time it was stored.
    size: Option<u64>,
    /// Until when a cache that throws out nothing has what a request stored; zero: it has nothing.
    /// A read that misses stores nothing here: what stores for it may follow, perhaps as an `add`.
    stored_until: Nanos,
}

impl TracedKey {
    /// Takes account of a use. For how long the value is to live from now on, as of [`TimedUse`].
    fn see(&mut self, at: Nanos, used: TraceUse, size: Option<u64>, lifetime: Option<u32>) -> Option<u32> {
        self.uses += 1;
        let is_stored = at < self.stored_until;
        match used {
            TraceUse::Add if is_stored => return None,
            TraceUse::Write | TraceUse::Add => {
                self.stored_until = expiry(at, lifetime.unwrap_or(0));
                self.size = size.or(self.size);
            }
            TraceUse::Extend => {
                let longer = size.filter(|_| is_stored).unwrap_or(0);
                self.size = self.size.map(|size| size + longer);
            }
            TraceUse::Read | TraceUse::Change => {
                if is_stored && let Some(seconds) = lifetime {
                    self.stored_until = expiry(at, seconds);
                }
                self.size = size.or(self.size);
            }
            TraceUse::Remove => self.stored_until = Nanos::ZERO,
        }
        lifetime
    }
}

/// One use of a key.
#[derive(Clone, Copy, Debug)]
struct TimedUse {
    at: Nanos,
    key: u32,
    used: TraceUse,
    /// For how long the value is to live from now on, in seconds, 0 for ever; none: as it was.
    lifetime: Option<u32>,
}

impl TraceReading {
    /// The next request, `at` so long after any beginning, in the order of time: of these keys, by
    /// their numbers from zero, with a value of so many bytes where it stores one, and for how many
    /// seconds that is to live, 0 for ever, where it says so.
    pub fn see(
        &mut self,
        at: Nanos,
        operation: &'static str,
        used: TraceUse,
        keys: &[u32],
        (size, lifetime): (Option<u32>, Option<u32>),
    ) {
        self.requests += 1;
        let since = at.saturating_sub(*self.first.get_or_insert(at));
        self.last = self.last.max(since);
        let second = (since.0 / 1_000_000_000) as usize;
        // A longer trace is in another unit, or has months in which nothing is asked.
        if second < MOST_SECONDS {
            if self.seconds.len() <= second {
                self.seconds.resize(second + 1, 0);
            }
            self.seconds[second] += 1;
        }
        match self.operations.iter_mut().find(|(name, _)| *name == operation) {
            Some((_, count)) => *count += 1,
            None => self.operations.push((operation, 1)),
        }
        let size = size.map(u64::from);
        self.sizes.extend(size.filter(|_| !matches!(used, TraceUse::Read | TraceUse::Remove)));
        self.lifetimes.extend(lifetime);
        for &key in keys {
            let place = key as usize;
            if self.keys.len() <= place {
                self.keys.resize(place + 1, TracedKey::default());
            }
            let lifetime = self.keys[place].see(at, used, size, lifetime);
            self.uses.push(TimedUse { at, key, used, lifetime });
        }
    }

    /// What it asks. `key_length` says how many bytes a key has, `clients` how many requests each
    /// client sent, where that is known.
    pub fn end(self, key_length: impl Fn(u32) -> usize, clients: &[u64]) -> TraceEstimates {
        let length = self.last.as_seconds();
        let mut operations = self.operations.clone();
        operations.sort_by_key(|&(name, count)| (Reverse(count), name));
        // The last second is none whole.
        let whole = &self.seconds[..self.seconds.len().saturating_sub(1)];
        let whole: Vec<f64> = whole.iter().map(|&count| count as f64).collect();
        TraceEstimates {
            requests: self.requests,
            length,
            rate: (length > 0.0).then(|| self.requests as f64 / length),
            busiest_second: self.seconds.iter().copied().max().unwrap_or(0),
            dispersion: dispersion(&whole),
            operations: operations
                .into_iter()
                .map(|(name, count)| TracedOperation {
                    name: name.to_owned(),
                    count,
                    share: count as f64 / self.requests as f64,
                })
                .collect(),
            keys: self.key_use(),
            values: value_sizes(self.sizes.clone()),
            lifetimes: lifetimes(&self.lifetimes),
            clients: top_shares(clients)
                .map(|(counts, top_shares)| ClientUse { count: counts.len() as u64, top_shares }),
            memory: self.memory(key_length),
        }
    }

    fn key_use(&self) -> Option<KeyUse> {
        let counts: Vec<u64> = self.keys.iter().map(|key| key.uses).filter(|&count| count > 0).collect();
        let (counts, top_shares) = top_shares(&counts)?;
        let zipf_range = zipf(&counts, &self.halves());
        Some(KeyUse {
            distinct: counts.len() as u64,
            once: counts.iter().filter(|&&count| count == 1).count() as u64,
            top_shares,
            zipf: zipf_range.map(|[low, high]| low.midpoint(high)),
            zipf_range,
        })
    }

    /// How often each key is used in every other sixteenth of the trace, and in those between: what
    /// is used several times at once, as a read and the store after it, is in one of the two.
    fn halves(&self) -> [Vec<u64>; 2] {
        let mut halves = [vec![0; self.keys.len()], vec![0; self.keys.len()]];
        for (place, one) in self.uses.iter().enumerate() {
            halves[place * 16 / self.uses.len() % 2][one.key as usize] += 1;
        }
        halves
    }

    fn memory(&self, key_length: impl Fn(u32) -> usize) -> Option<MemoryNeed> {
        let known: Vec<u64> = self.keys.iter().filter_map(|key| key.size).collect();
        let mean = known.iter().sum::<u64>().checked_div(known.len() as u64);
        let bytes = |key: u32| {
            let value = self.keys[key as usize].size.or(mean).unwrap_or(0);
            value + key_length(key) as u64 + ITEM_HEADER
        };
        let Distances { reads, expired, found } = distances(&self.uses, self.keys.len(), bytes);
        // A read across few keys may be one across many bytes.
        let (mut in_keys, mut in_bytes): (Vec<u64>, Vec<u64>) = found.iter().copied().unzip();
        in_keys.sort_unstable();
        in_bytes.sort_unstable();
        let needs = |share: f64| {
            let place = share_of(share, found.len());
            let hit_ratio = place as f64 / reads as f64;
            CacheSize { hit_ratio, keys: in_keys[place - 1], bytes: mean.map(|_| in_bytes[place - 1]) }
        };
        (!found.is_empty()).then(|| MemoryNeed {
            reads,
            expired,
            most_hits: found.len() as f64 / reads as f64,
            sizes: SHARES.into_iter().map(needs).collect(),
        })
    }
}

/// The variance of counts over their mean; none of fewer than ten.
fn dispersion(counts: &[f64]) -> Option<f64> {
    let summary = Summary::of(counts).ok().filter(|_| counts.len() >= 10)?;
    Some(summary.variance().ok()? / summary.mean).filter(|dispersion| dispersion.is_finite())
}

/// More seconds than this, some four months, are not counted one by one: they take 80 MB.
const MOST_SECONDS: usize = 10_000_000;

/// How many of so many a share is, at least one of them.
fn share_of(share: f64, all: usize) -> usize {
    ((all as f64 * share).ceil() as usize).clamp(1, all.max(1))
}

/// Counts, the largest first, and the share of all that the first has, the first 1 % have, and
/// 10 %; none where there is nothing to count.
fn top_shares(counts: &[u64]) -> Option<(Vec<u64>, [f64; 3])> {
    let mut counts = counts.to_vec();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let all: u64 = counts.iter().sum();
    let of_first = |first: usize| counts[..first].iter().sum::<u64>() as f64 / all as f64;
    let firsts = [1, share_of(0.01, counts.len()), share_of(0.1, counts.len())];
    (all > 0).then(|| firsts.map(of_first)).map(|shares| (counts, shares))
}

fn lifetimes(all: &[u32]) -> Option<StoredLifetimes> {
    let mut some: Vec<u32> = all.iter().copied().filter(|&seconds| seconds > 0).collect();
    some.sort_unstable();
    let max = *some.last()?;
    let at = |share: f64| some[share_of(share, some.len()) - 1];
    Some(StoredLifetimes { expiring: some.len() as f64 / all.len() as f64, p50: at(0.5), p90: at(0.9), max })
}

fn value_sizes(mut sizes: Vec<u64>) -> Option<ValueSizes> {
    sizes.sort_unstable();
    let max = *sizes.last()?;
    let at = |share: f64| sizes[share_of(share, sizes.len()) - 1];
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
    Some(ValueSizes { mean, p50: at(0.5), p99: at(0.99), max })
}

/// Between which exponents Zipf's law explains the uses of keys, of all, the most used first, and
/// of each in two halves of a trace; none where keys are used alike, as far as can be seen.
///
/// Ranks by the very uses that are counted show chance, too: of keys that are used alike, three
/// times on average, the exponent would be 0.35. Ranks by one half of the uses show no chance in
/// the other half, and too little of the law where chance disturbs them. Where many keys are used
/// once or not at all it is the first that is too low. The truth lies between the two, give or take
/// two standard errors.
fn zipf(counts: &[u64], [even, odd]: &[Vec<u64>; 2]) -> Option<[f64; 2]> {
    let logs: Vec<f64> = (1..=counts.len()).map(|rank| (rank as f64).ln()).collect();
    let halves = across(even, odd, &logs).zip(across(odd, even, &logs));
    // Where each key has a time of its own, one half says nothing of the other, and yet chance
    // does not explain the counts, not even with a read, a store and more behind each other.
    let unequal = || {
        let counts: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
        dispersion(&counts).is_some_and(|dispersion| dispersion > 4.0)
    };
    let apart = halves.map(|(one, other)| one.midpoint(other)).or_else(|| unequal().then_some(0.0))?;
    let all: u64 = counts.iter().sum();
    let seen = logs.iter().zip(counts).map(|(log, &count)| log * count as f64).sum::<f64>() / all as f64;
    let (together, error) = (exponent(&logs, seen), exponent_error(&logs, all));
    Some([(apart.min(together) - 2.0 * error).max(0.0), apart.max(together) + 2.0 * error])
}

/// The standard error of the exponent of keys that are used alike, and about that of others: d(mean
/// of ln rank) / d(exponent) is minus the variance of ln rank.
fn exponent_error(logs: &[f64], uses: u64) -> f64 {
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64;
    (variance * uses as f64).sqrt().recip()
}

/// The exponent by the uses of one half of the keys that the other half has, in its order; none
/// where it is within three standard errors of 0.
fn across(order: &[u64], uses: &[u64], logs: &[f64]) -> Option<f64> {
    let both = order.iter().copied().zip(uses.iter().copied());
    let mut keys: Vec<(u64, u64)> = both.filter(|&(rank, _)| rank > 0).collect();
    keys.sort_unstable_by_key(|&(rank, _)| Reverse(rank));
    let logs = &logs[..keys.len()];
    let (mut place, mut weighed, mut all) = (0, 0.0, 0);
    // Keys that are used as often have one rank, whichever of them was seen first.
    for equal in keys.chunk_by(|one, other| one.0 == other.0) {
        let uses: u64 = equal.iter().map(|&(_, uses)| uses).sum();
        let mean = logs[place..place + equal.len()].iter().sum::<f64>() / equal.len() as f64;
        weighed += mean * uses as f64;
        all += uses;
        place += equal.len();
    }
    let error = exponent_error(logs, all);
    Some(exponent(logs, weighed / all as f64)).filter(|found| *found > 3.0 * error)
}

/// The exponent of Zipf's law over so many keys, by the mean of ln rank over all uses: the
/// likelihood is greatest where that is the law's.
fn exponent(logs: &[f64], seen: f64) -> f64 {
    let of_law = |exponent: f64| {
        let (mut sum, mut weighed) = (0.0, 0.0);
        for log in logs {
            let weight = (-exponent * log).exp();
            sum += weight;
            weighed += weight * log;
        }
        weighed / sum
    };
    let (mut low, mut high) = (0.0_f64, 4.0_f64);
    // To a hundred thousandth.
    for _ in 0..20 {
        let middle = low.midpoint(high);
        if of_law(middle) > seen { low = middle } else { high = middle }
    }
    low.midpoint(high)
}

/// What the reads of a trace find.
struct Distances {
    reads: u64,
    /// Reads that came when their key's time to live was over.
    expired: u64,
    /// For each that can find its key the stack distance, itself included, in keys and in bytes.
    found: Vec<(u64, u64)>,
}

/// What is known of a key while a trace is played through.
#[derive(Clone, Copy)]
struct PlayedKey {
    /// The number of its last use; none where it is not held.
    held: Option<usize>,
    /// For how long it was stored the last time, in seconds; 0 for ever.
    lifetime: u32,
    /// When that is over.
    expires: Nanos,
}

const NEVER: Nanos = Nanos(u64::MAX);

/// When the time is over of what is stored for so many seconds, 0 for ever.
fn expiry(at: Nanos, seconds: u32) -> Nanos {
    match u64::from(seconds) {
        0 => NEVER,
        seconds => Nanos(at.0.saturating_add(seconds * 1_000_000_000)),
    }
}

fn distances(uses: &[TimedUse], keys: usize, bytes: impl Fn(u32) -> u64) -> Distances {
    let mut played = vec![PlayedKey { held: None, lifetime: 0, expires: NEVER }; keys];
    let mut held = Sums::of(uses.len());
    let (mut reads, mut expired, mut found) = (0, 0, Vec::new());
    let mut due: BinaryHeap<Reverse<(Nanos, u32)>> = BinaryHeap::new();
    for (now, one) in uses.iter().enumerate() {
        while let Some(&Reverse((at, key))) = due.peek()
            && at <= one.at
        {
            due.pop();
            let over = &mut played[key as usize];
            // One that was stored again meanwhile lives longer.
            if over.expires == at
                && let Some(before) = over.held.take()
            {
                held.remove(before, bytes(key));
            }
        }
        let own = bytes(one.key);
        let key = &mut played[one.key as usize];
        let before = key.held.take();
        if one.used == TraceUse::Read {
            reads += 1;
            found.extend(before.map(|before| held.since(before)));
            expired += u64::from(before.is_none() && key.expires <= one.at);
        }
        if let Some(before) = before {
            held.remove(before, own);
        }
        if one.used == TraceUse::Remove {
            key.expires = NEVER;
            continue;
        }
        held.add(now, own);
        key.held = Some(now);
        key.lifetime = one.lifetime.unwrap_or(key.lifetime);
        // What was missed is stored for as long as it was before.
        if one.lifetime.is_some() || before.is_none() {
            key.expires = expiry(one.at, key.lifetime);
            if key.expires < NEVER {
                due.push(Reverse((key.expires, one.key)));
            }
        }
    }
    Distances { reads, expired, found }
}

/// What is held, by the instant of its last use: keys and bytes from one instant on (a Fenwick
/// tree, so that each question and change takes the logarithm of their number).
struct Sums {
    tree: Vec<(u64, u64)>,
    all: (u64, u64),
}

impl Sums {
    fn of(places: usize) -> Self {
        Self { tree: vec![(0, 0); places + 1], all: (0, 0) }
    }

    fn add(&mut self, place: usize, bytes: u64) {
        self.all = (self.all.0 + 1, self.all.1 + bytes);
        self.change(place, |at| *at = (at.0 + 1, at.1 + bytes));
    }

    fn remove(&mut self, place: usize, bytes: u64) {
        self.all = (self.all.0 - 1, self.all.1 - bytes);
        self.change(place, |at| *at = (at.0 - 1, at.1 - bytes));
    }

    fn change(&mut self, place: usize, change: impl Fn(&mut (u64, u64))) {
        let mut at = place + 1;
        while at < self.tree.len() {
            change(&mut self.tree[at]);
            at += at & at.wrapping_neg();
        }
    }

    /// What was used at this instant or later.
    fn since(&self, place: usize) -> (u64, u64) {
        let (mut at, mut before) = (place, (0, 0));
        while at > 0 {
            before = (before.0 + self.tree[at].0, before.1 + self.tree[at].1);
            at -= at & at.wrapping_neg();
        }
        (self.all.0 - before.0, self.all.1 - before.1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::compare::tests::uniform_from;

    /// Uses, a second apart or at once.
    fn drawn() -> impl Strategy<Value = Vec<TimedUse>> {
        let used = prop_oneof![
            6 => Just(TraceUse::Read), 3 => Just(TraceUse::Write), 1 => Just(TraceUse::Remove)
        ];
        let lifetime = prop_oneof![Just(0_u32), 1_u32..60];
        proptest::collection::vec((0_u32..12, used, lifetime, 0_u64..2), 0..200).prop_map(|uses| {
            let mut at = Nanos(0);
            let one = |(key, used, lifetime, gap)| {
                at += Nanos::from_secs(gap);
                TimedUse { at, key, used, lifetime: (used == TraceUse::Write).then_some(lifetime) }
            };
            uses.into_iter().map(one).collect()
        })
    }

    /// The same where nothing expires.
    fn for_ever(uses: &[TimedUse]) -> Vec<TimedUse> {
        uses.iter().map(|one| TimedUse { lifetime: None, ..*one }).collect()
    }

    /// Reads that find their key in a cache that throws out nothing before its time, and those that
    /// come too late for it.
    fn hits_in_time(uses: &[TimedUse]) -> (u64, u64) {
        let mut stored: std::collections::HashMap<u32, Nanos> = std::collections::HashMap::new();
        let mut lifetimes = [0; 12];
        let (mut hits, mut late) = (0, 0);
        for one in uses {
            let until = stored.get(&one.key).copied();
            let is_there = until.is_some_and(|until| one.at < until);
            if one.used == TraceUse::Read {
                hits += u64::from(is_there);
                late += u64::from(until.is_some() && !is_there);
            }
            if one.used == TraceUse::Remove {
                stored.remove(&one.key);
            } else if one.lifetime.is_some() || !is_there {
                let lifetime = &mut lifetimes[one.key as usize];
                *lifetime = one.lifetime.unwrap_or(*lifetime);
                let until =
                    if *lifetime == 0 { NEVER } else { one.at + Nanos::from_secs(u64::from(*lifetime)) };
                stored.insert(one.key, until);
            }
        }
        (hits, late)
    }

    /// Reads that find their key in a cache of so many keys, or so many bytes: key k has k + 1.
    fn hits(uses: &[TimedUse], fits: impl Fn(usize, u64) -> bool) -> u64 {
        let (mut held, mut hits) = (VecDeque::new(), 0);
        for &TimedUse { key, used, .. } in uses {
            let place = held.iter().position(|&known| known == key);
            hits += u64::from(used == TraceUse::Read && place.is_some());
            place.and_then(|place| held.remove(place));
            if used != TraceUse::Remove {
                held.push_front(key);
            }
            while !fits(held.len(), held.iter().map(|&key| u64::from(key) + 1).sum()) {
                held.pop_back();
            }
        }
        hits
    }

    proptest! {
        /// The distances say how often a cache of any number of keys, or of bytes, hits, as one
        /// that is played through does.
        #[test]
        fn distances_are_those_of_a_cache_that_is_played_through(uses in drawn(), size in 1_usize..14) {
            let uses = for_ever(&uses);
            let Distances { reads, expired, found } = distances(&uses, 12, |key| u64::from(key) + 1);
            prop_assert_eq!(reads, uses.iter().filter(|one| one.used == TraceUse::Read).count() as u64);
            prop_assert_eq!(expired, 0);
            // A removal makes room, which a smaller cache cannot use: what it threw out is gone.
            let without: Vec<_> = uses.iter().copied().filter(|one| one.used != TraceUse::Remove).collect();
            let of_without = distances(&without, 12, |key| u64::from(key) + 1);
            let of_keys = of_without.found.iter().filter(|one| one.0 <= size as u64).count() as u64;
            prop_assert_eq!(of_keys, hits(&without, |keys, _| keys <= size));
            let most = 6 * size as u64;
            let of_bytes = of_without.found.iter().filter(|one| one.1 <= most).count() as u64;
            prop_assert_eq!(of_bytes, hits(&without, |_, bytes| bytes <= most));
            let all = found.len() as u64;
            prop_assert_eq!(all, hits(&uses, |_, _| true));
            for &(keys, bytes) in &found {
                prop_assert!((1..=12).contains(&keys) && (keys..=12 * keys).contains(&bytes));
            }
        }

        /// With times to live a cache that throws out nothing else hits as one that is played
        /// through, and no size hits more often than where nothing expires.
        #[test]
        fn what_expires_is_a_miss_at_every_size(uses in drawn()) {
            let Distances { expired, found, .. } = distances(&uses, 12, |key| u64::from(key) + 1);
            prop_assert_eq!((found.len() as u64, expired), hits_in_time(&uses));
            let ever = distances(&for_ever(&uses), 12, |key| u64::from(key) + 1);
            prop_assert!(found.len() <= ever.found.len());
            for &(keys, bytes) in &found {
                prop_assert!((1..=12).contains(&keys) && (keys..=12 * keys).contains(&bytes));
            }
        }
    }

    #[test]
    fn a_small_trace_is_told_whole() {
        let mut reading = TraceReading::default();
        let second = 1_000_000_000;
        for (at, name, used, keys, size) in [
            (5, "set", TraceUse::Write, &[0][..], Some(100)),
            (5, "get", TraceUse::Read, &[0], None),
            (6, "get", TraceUse::Read, &[1], None),
            (7, "get", TraceUse::Read, &[0, 1], None),
            (7, "delete", TraceUse::Remove, &[0], None),
            (9, "get", TraceUse::Read, &[0], None),
        ] {
            reading.see(Nanos(at * second), name, used, keys, (size, None));
        }
        let told = reading.end(|_| 4, &[]);
        assert_eq!((&told.lifetimes, &told.clients), (&None, &None));
        assert_eq!((told.requests, told.length, told.rate, told.busiest_second), (6, 4.0, Some(1.5), 2));
        let operations: Vec<(&str, u64)> =
            told.operations.iter().map(|one| (one.name.as_str(), one.count)).collect();
        assert_eq!(operations, [("get", 4), ("delete", 1), ("set", 1)]);
        let keys = told.keys.unwrap();
        assert_eq!((keys.distinct, keys.once, keys.top_shares[0]), (2, 0, 5.0 / 7.0));
        assert_eq!(told.values.unwrap(), ValueSizes { mean: 100.0, p50: 100, p99: 100, max: 100 });
        // Of five reads those of key 0 find it twice, that of key 1 once: both held have 160 bytes.
        let memory = told.memory.unwrap();
        assert_eq!((memory.reads, memory.most_hits), (5, 0.6));
        let [half, .., all] = &memory.sizes[..] else { panic!("{memory:?}") };
        assert_eq!(*all, CacheSize { hit_ratio: 0.6, keys: 2, bytes: Some(320) });
        assert_eq!((half.hit_ratio, half.keys), (0.4, 2));
    }

    #[test]
    fn a_large_value_that_is_read_at_once_takes_its_room() {
        let mut reading = TraceReading::default();
        for (key, used, size) in [
            (0, TraceUse::Write, Some(1_000_000)),
            (0, TraceUse::Read, None),
            (1, TraceUse::Write, Some(100)),
            (2, TraceUse::Write, Some(100)),
            (3, TraceUse::Write, Some(100)),
            (1, TraceUse::Read, None),
        ] {
            reading.see(Nanos(0), "any", used, &[key], (size, None));
        }
        let sizes = reading.end(|_| 4, &[]).memory.unwrap().sizes;
        assert_eq!(*sizes.last().unwrap(), CacheSize { hit_ratio: 1.0, keys: 3, bytes: Some(1_000_060) });
        assert!(sizes.is_sorted_by_key(|size| size.bytes), "{sizes:?}");
    }

    #[test]
    fn requests_that_are_years_apart_take_no_room_for_each_second_between() {
        let mut reading = TraceReading::default();
        for at in [0, 90_000_000] {
            reading.see(Nanos::from_secs(at), "get", TraceUse::Read, &[0], (None, None));
        }
        assert_eq!(reading.seconds, [1]);
        assert_eq!(reading.end(|_| 4, &[]).length, 90_000_000.0);
    }

    #[test]
    fn what_lives_for_a_time_is_gone_then_and_takes_no_room() {
        let mut reading = TraceReading::default();
        for (at, key, used, lifetime) in [
            (0, 0, TraceUse::Write, Some(10)),
            (1, 1, TraceUse::Write, Some(0)),
            // Found; that it is read makes it live no longer.
            (9, 0, TraceUse::Read, None),
            // Gone: a miss, and stored for ten seconds again.
            (10, 0, TraceUse::Read, None),
            (19, 0, TraceUse::Read, None),
            // Key 0 is gone, and takes no room beside key 1.
            (30, 1, TraceUse::Read, None),
            (30, 2, TraceUse::Write, Some(90)),
        ] {
            let name = if used == TraceUse::Read { "get" } else { "set" };
            reading.see(Nanos::from_secs(at), name, used, &[key], (None, lifetime));
        }
        let told = reading.end(|_| 4, &[3, 0, 4]);
        let memory = told.memory.unwrap();
        assert_eq!((memory.reads, memory.expired, memory.most_hits), (4, 1, 0.75));
        let keys: Vec<u64> = memory.sizes.iter().map(|size| size.keys).collect();
        assert_eq!(keys, [1, 2, 2, 2, 2, 2]);
        let lifetimes = StoredLifetimes { expiring: 2.0 / 3.0, p50: 10, p90: 90, max: 90 };
        assert_eq!(told.lifetimes, Some(lifetimes));
        assert_eq!(told.clients, Some(ClientUse { count: 3, top_shares: [4.0 / 7.0; 3] }));
    }

    /// What comes before the list is stored, or when its time is over, does not make it longer.
    #[test]
    fn what_is_appended_makes_a_value_longer_that_is_there() {
        let mut reading = TraceReading::default();
        let mut see = |at, name, used, size, lifetime| {
            reading.see(Nanos::from_secs(at), name, used, &[0], (size, lifetime));
        };
        see(0, "append", TraceUse::Extend, Some(7), None);
        see(0, "set", TraceUse::Write, Some(1_000), Some(20));
        for at in 1..10 {
            see(at, "append", TraceUse::Extend, Some(1_000), None);
        }
        see(11, "get", TraceUse::Read, None, None);
        see(20, "append", TraceUse::Extend, Some(1_000), None);
        let told = reading.end(|_| 4, &[]);
        assert_eq!(told.memory.unwrap().sizes[0].bytes, Some(10_000 + 4 + ITEM_HEADER));
        assert_eq!(told.values.unwrap().max, 1_000);
    }

    /// A lock that is taken while another one has it: neither its time nor its value is new.
    #[test]
    fn an_add_stores_only_what_no_request_has_stored() {
        let told = |uses: &[(u64, TraceUse)]| {
            let mut reading = TraceReading::default();
            for &(at, used) in uses {
                let stored = (used == TraceUse::Add).then_some(10);
                reading.see(Nanos::from_secs(at), "any", used, &[0], (stored, stored));
            }
            let memory = reading.end(|_| 4, &[]).memory.unwrap();
            (memory.reads, memory.expired)
        };
        let (read, add, change) = (TraceUse::Read, TraceUse::Add, TraceUse::Change);
        assert_eq!(told(&[(0, add), (5, read), (9, add), (15, read)]), (2, 1));
        assert_eq!(told(&[(0, add), (5, read), (9, TraceUse::Remove), (9, add), (15, read)]), (2, 0));
        // What was missed, or was not there to be counted up, is stored by the `add` that follows.
        assert_eq!(told(&[(0, read), (2, add), (11, read), (12, read)]), (3, 1));
        assert_eq!(told(&[(0, change), (2, add), (11, read), (12, read)]), (2, 1));
    }

    #[test]
    fn the_exponent_of_a_law_is_found_again() {
        for exponent in [0.0, 0.7, 0.99, 1.4] {
            let counts: Vec<u64> =
                (1..=1_000).map(|rank| (1e7 * f64::from(rank).powf(-exponent)).round() as u64).collect();
            let halves = [counts.clone(), counts.clone()];
            let found = zipf(&counts, &halves).unwrap_or_default();
            assert!(found.iter().all(|found| (found - exponent).abs() < 1e-3), "{exponent}: {found:?}");
        }
        assert_eq!(zipf(&[7], &[vec![3], vec![4]]), None);
    }

    /// Each key is used in a time of its own: of what half of the trace could the order be?
    #[test]
    fn keys_that_are_used_one_after_the_other_have_a_range_from_zero() {
        let mut reading = TraceReading::default();
        // In each sixteenth of the trace others.
        for key in 0..16 * 210 {
            let uses = if key % 210 < 10 { 40 } else { 1 };
            for _ in 0..uses {
                reading.see(Nanos(0), "get", TraceUse::Read, &[key], (None, None));
            }
        }
        let [low, high] = reading.key_use().unwrap().zipf_range.unwrap();
        assert!(low == 0.0 && (0.5..1.5).contains(&high), "{low} to {high}");
    }

    /// 6,000 reads of 2,000 keys by Zipf's law with this exponent, drawn from a seed.
    fn uses_by_law(exponent: f64) -> KeyUse {
        let mut sum = 0.0;
        let passed: Vec<f64> = (1..=2_000)
            .map(|rank| {
                sum += f64::from(rank).powf(-exponent);
                sum
            })
            .collect();
        let (mut reading, mut uniform) = (TraceReading::default(), uniform_from(1));
        for _ in 0..6_000 {
            let place = uniform() * sum;
            let key = passed.partition_point(|passed| *passed <= place) as u32;
            reading.see(Nanos(0), "get", TraceUse::Read, &[key], (None, None));
        }
        reading.key_use().unwrap()
    }

    #[test]
    fn keys_that_are_used_alike_have_no_exponent_and_others_lie_in_its_range() {
        let alike = uses_by_law(0.0);
        assert_eq!((alike.zipf, alike.zipf_range), (None, None));
        for exponent in [0.3, 0.7, 0.99] {
            let KeyUse { zipf, zipf_range: Some([low, high]), .. } = uses_by_law(exponent) else {
                panic!("{exponent} is seen")
            };
            assert!(low - 0.05 < exponent && exponent < high + 0.05, "{exponent}: {low} to {high}");
            assert!((zipf.unwrap() - exponent).abs() < 0.1, "{exponent}: {zipf:?}");
        }
    }
}
