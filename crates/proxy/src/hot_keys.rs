//! Which requests are sampled for the hottest keys, and what is known of each of these until it has
//! ended.
//!
//! ```text
//! admitted ─▶ samples? ─no─▶ nothing more is done                  (all but one of N)
//!                │ yes
//!                ▼
//!              begin ─▶ answered … end_unit ─▶ replied ─▶ ended ─▶ HotKeyBooks
//! ```
//!
//! Answers that one reading of a connection brought have one stamp. They share its time evenly:
//! which of them took how long of it is not known.

use krarup_record::{
    HotKeyBooks, HotKeySnapshot, Operation, RequestSampler, SampledRequest, ServerVisit, Visit,
};
use krarup_units::{Nanos, Stamp};
use smallvec::SmallVec;

use crate::arena::Arena;
use crate::ids::{PoolId, SampleId};

/// What is kept of the hottest keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HotKeyMode {
    /// Nothing.
    Off,
    /// A digest: a reader that suspects a key can tell whether it is that one, no other reader
    /// learns it.
    #[default]
    Digest,
    /// The key itself.
    Name,
}

impl HotKeyMode {
    /// Every mode with its word in a configuration.
    pub const ALL: [(Self, &str); 3] = [(Self::Digest, "digest"), (Self::Name, "name"), (Self::Off, "off")];

    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, _)| *mode == self).expect("every mode is listed").1
    }
}

/// The key that a sampled request stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampledKey<'a> {
    pub(crate) pool: PoolId,
    pub(crate) digest: u64,
    pub(crate) name: &'a [u8],
    /// The one server that takes it over if its server is lost; none: several do, or none.
    pub(crate) heir: Option<u16>,
    /// The number by which its pool places it; none: every server has every key.
    pub(crate) placed_by: Option<u64>,
}

/// A sampled request that has not ended.
#[derive(Debug)]
struct Sample {
    one_of: u32,
    pool: PoolId,
    key: u64,
    heir: Option<u16>,
    placed_by: Option<u64>,
    /// Empty where names are not kept.
    name: Vec<u8>,
    operation: Operation,
    bytes: u64,
    replied: Stamp,
    sent: Stamp,
    answered: Stamp,
    /// Servers that have answered, and for how long it occupied each.
    servers: SmallVec<[(u16, Nanos); 2]>,
    /// Of these the last so many belong to the reading that goes on.
    in_unit: usize,
    ended: bool,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            one_of: 1,
            pool: PoolId::default(),
            key: 0,
            heir: None,
            placed_by: None,
            name: Vec::new(),
            operation: Operation::Other,
            bytes: 0,
            replied: Stamp(0),
            sent: Stamp(0),
            answered: Stamp(0),
            servers: SmallVec::new(),
            in_unit: 0,
            ended: false,
        }
    }
}

/// The answers that one reading of a connection brings, and the time that they took together.
#[derive(Debug, Default)]
struct AnswerUnit {
    answers: u32,
    time: Nanos,
    /// Sampled requests among them, once for each answer.
    sampled: Vec<SampleId>,
}

/// Samples requests, and keeps the books of their keys.
#[derive(Debug)]
pub(crate) struct KeySampling {
    mode: HotKeyMode,
    /// None: nothing is sampled here, whatever the mode.
    seed: Option<u64>,
    sampler: RequestSampler,
    under_way: Arena<SampleId, Sample>,
    unit: AnswerUnit,
    books: HotKeyBooks,
}

impl KeySampling {
    /// Samples nothing before [`Self::begin_sampling`].
    pub(crate) fn new(mode: HotKeyMode) -> Self {
        Self {
            mode,
            seed: None,
            sampler: RequestSampler::none(),
            under_way: Arena::new(),
            unit: AnswerUnit::default(),
            books: HotKeyBooks::default(),
        }
    }

    /// Samples requests from now on, unless the mode is off; the seed decides which.
    pub(crate) fn begin_sampling(&mut self, seed: u64) {
        self.seed = Some(seed);
        self.restart();
    }

    fn restart(&mut self) {
        self.sampler = match self.seed {
            Some(seed) if self.mode != HotKeyMode::Off => RequestSampler::new(seed),
            _ => RequestSampler::none(),
        };
    }

    /// Another mode holds from now on. What was kept under the one before is forgotten.
    pub(crate) fn set_mode(&mut self, mode: HotKeyMode) {
        if self.mode != mode {
            self.mode = mode;
            self.books.reset();
            self.restart();
        }
    }

    /// What is kept; nothing where no request is sampled.
    pub(crate) fn mode(&self) -> HotKeyMode {
        if self.seed.is_some() { self.mode } else { HotKeyMode::Off }
    }

    // ---- one request ----------------------------------------------------------------------------

    /// Whether the request that is admitted at `now` is sampled: then for so many it stands.
    #[inline]
    pub(crate) fn samples(&mut self, now: Stamp) -> Option<u32> {
        self.sampler.samples(now)
    }

    /// A place among so many, each with the same probability.
    pub(crate) fn place_among(&mut self, places: usize) -> usize {
        self.sampler.below(places)
    }

    /// A request is sampled that stands for `one_of`, with this key of it.
    pub(crate) fn begin(&mut self, one_of: u32, key: SampledKey<'_>) -> SampleId {
        let id = self.under_way.take();
        let sample = &mut self.under_way[id];
        sample.servers.clear();
        (sample.one_of, sample.bytes, sample.in_unit, sample.ended) = (one_of, 0, 0, false);
        self.choose(id, key);
        id
    }

    /// The request is sampled with this key of it.
    pub(crate) fn choose(&mut self, id: SampleId, key: SampledKey<'_>) {
        let sample = &mut self.under_way[id];
        (sample.pool, sample.key) = (key.pool, key.digest);
        (sample.heir, sample.placed_by) = (key.heir, key.placed_by);
        sample.name.clear();
        if self.mode == HotKeyMode::Name {
            sample.name.extend_from_slice(key.name);
        }
    }

    /// One more answer of the reading that goes on: the connection was occupied so long since the
    /// one before, or since it was asked.
    #[inline]
    pub(crate) fn occupied(&mut self, time: Nanos) {
        self.unit.answers += 1;
        self.unit.time.0 += time.0;
    }

    /// That answer is one to a sampled request.
    pub(crate) fn answered(&mut self, id: SampleId, visit: &ServerVisit) {
        let sample = &mut self.under_way[id];
        sample.sent = if sample.servers.is_empty() { visit.sent } else { sample.sent.min(visit.sent) };
        sample.answered = visit.answered;
        sample.servers.push((visit.server, Nanos::ZERO));
        sample.in_unit += 1;
        self.unit.sampled.push(id);
    }

    /// The reading has ended: its answers share its time.
    #[inline]
    pub(crate) fn end_unit(&mut self) {
        if !self.unit.sampled.is_empty() {
            self.share_time();
        }
        (self.unit.answers, self.unit.time) = (0, Nanos::ZERO);
    }

    #[cold]
    fn share_time(&mut self) {
        let each = Nanos(self.unit.time.0 / u64::from(self.unit.answers.max(1)));
        let mut sampled = std::mem::take(&mut self.unit.sampled);
        for id in sampled.drain(..) {
            let sample = &mut self.under_way[id];
            let place = sample.servers.len() - sample.in_unit;
            sample.servers[place].1 = each;
            sample.in_unit -= 1;
            if sample.ended && sample.in_unit == 0 {
                self.count(id);
            }
        }
        self.unit.sampled = sampled;
    }

    /// The reply of a sampled request has left.
    pub(crate) fn replied(&mut self, id: SampleId, visit: &Visit) {
        let sample = &mut self.under_way[id];
        sample.operation = visit.operation;
        sample.bytes = visit.bytes_in + visit.bytes_out;
        sample.replied = visit.replied;
    }

    /// Nothing more will come for a sampled request.
    pub(crate) fn ended(&mut self, id: SampleId) {
        let sample = &mut self.under_way[id];
        sample.ended = true;
        if sample.in_unit == 0 {
            self.count(id);
        }
    }

    fn count(&mut self, id: SampleId) {
        let sample = &self.under_way[id];
        if self.mode != HotKeyMode::Off {
            let name = self.mode == HotKeyMode::Name && !sample.name.is_empty();
            let residence = if sample.servers.is_empty() { 0 } else { sample.answered.0 - sample.sent.0 };
            let sampled = SampledRequest {
                pool: sample.pool.index(),
                key: sample.key,
                name: name.then_some(&sample.name[..]),
                heir: sample.heir,
                placed_by: sample.placed_by,
                one_of: sample.one_of,
                operation: sample.operation,
                bytes: sample.bytes,
                residence: Nanos(residence),
                servers: &sample.servers,
            };
            self.books.add(&sampled, sample.replied.max(sample.answered));
        }
        self.under_way.give_back(id);
    }

    /// How many sampled requests have not ended.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.used()
    }

    // ---- all of them ----------------------------------------------------------------------------

    /// What is kept at `now`.
    pub(crate) fn snapshot(&self, now: Stamp) -> HotKeySnapshot {
        self.books.snapshot(now)
    }

    /// Forgets everything that was kept.
    pub(crate) fn reset(&mut self) {
        self.books.reset();
    }

    /// A copy for the sum of all loops, which samples nothing itself.
    pub(crate) fn copy(&self) -> Self {
        Self { seed: self.seed, books: self.books.clone(), ..Self::new(self.mode) }
    }

    /// Adds what another loop has kept.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.books.absorb(&other.books);
    }
}

#[cfg(test)]
mod tests;
