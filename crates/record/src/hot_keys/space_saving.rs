//! The heaviest keys of a stream in bounded memory: Space-Saving (Metwally, Agrawal and El Abbadi
//! 2005), with weights.
//!
//! Of m counters each belongs to one key. A key without a counter takes that of the lightest, with
//! its weight, which counts as the new key's error. So, for every key,
//!
//! ```text
//! weight − error ≤ true weight ≤ weight        where the key has a counter
//! true weight ≤ the lightest counter ≤ W / m   where it has none; W is the weight of the stream
//! ```
//!
//! and each key with more than W / m has a counter, in whatever order the stream comes. Two
//! summaries become one that keeps these bounds (Agarwal, Cormode, Huang, Phillips, Wei and Yi
//! 2012): errors and lightest counters add up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A key that has a counter.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackedKey<T> {
    /// The key's digest.
    pub key: u64,
    /// Its weight, in the unit of the stream: never less than the true one.
    pub weight: u64,
    /// How much of that may be the weight of other keys.
    pub error: u64,
    /// What is kept of the key beside, since it has its counter.
    pub about: T,
}

/// The counters of one stream of keys, each of which has a weight.
#[derive(Clone, Debug)]
pub struct SpaceSaving<T> {
    room: usize,
    tracked: Vec<TrackedKey<T>>,
    /// Places in `tracked` as a heap, the lightest first: none is lighter than that at half of its
    /// place.
    heap: Vec<u16>,
    /// Where in the heap each place of `tracked` stands.
    stands: Vec<u16>,
    places: HashMap<u64, u16, BuildHasherDefault<DigestHasher>>,
    total: u64,
}

/// A digest is spread well already: it is its own hash.
#[derive(Clone, Copy, Debug, Default)]
struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }
}

impl<T: Default> SpaceSaving<T> {
    /// No keys yet, and so many counters, from 1 to 65,535. Memory is allocated with the first key.
    pub fn new(room: u16) -> Self {
        Self {
            room: usize::from(room.max(1)),
            tracked: Vec::new(),
            heap: Vec::new(),
            stands: Vec::new(),
            places: HashMap::default(),
            total: 0,
        }
    }

    /// Counts a key with a weight. Returns what is kept of the key: as new where it takes a
    /// counter, none where it has no weight and no counter.
    pub fn add(&mut self, key: u64, weight: u64) -> Option<&mut T> {
        self.total = self.total.saturating_add(weight);
        let place = match self.places.get(&key) {
            Some(&place) => {
                let place = usize::from(place);
                self.tracked[place].weight = self.tracked[place].weight.saturating_add(weight);
                place
            }
            None if weight == 0 => return None,
            None if self.tracked.len() < self.room => self.append(key, weight),
            None => self.replace_lightest(key, weight),
        };
        self.settle(usize::from(self.stands[place]));
        Some(&mut self.tracked[place].about)
    }

    fn append(&mut self, key: u64, weight: u64) -> usize {
        if self.tracked.is_empty() {
            self.tracked.reserve_exact(self.room);
            self.heap.reserve_exact(self.room);
            self.stands.reserve_exact(self.room);
            self.places.reserve(self.room);
        }
        let place = self.tracked.len();
        self.tracked.push(TrackedKey { key, weight, error: 0, about: T::default() });
        self.heap.push(place as u16);
        self.stands.push(place as u16);
        self.places.insert(key, place as u16);
        self.rise(place);
        place
    }

    fn replace_lightest(&mut self, key: u64, weight: u64) -> usize {
        let place = self.heap[0];
        let tracked = &mut self.tracked[usize::from(place)];
        self.places.remove(&tracked.key);
        self.places.insert(key, place);
        let error = tracked.weight;
        *tracked = TrackedKey { key, weight: error.saturating_add(weight), error, about: T::default() };
        usize::from(place)
    }

    /// Forgets all keys; memory stays.
    pub fn clear(&mut self) {
        self.tracked.clear();
        self.heap.clear();
        self.stands.clear();
        self.places.clear();
        self.total = 0;
    }

    /// Adds the keys of another stream, whose `about` is added to that of the same key by `add`.
    pub fn merge(&mut self, other: &Self, add: impl Fn(&mut T, &T))
    where
        T: Clone,
    {
        let (ours, theirs) = (self.lightest(), other.lightest());
        for tracked in &mut self.tracked {
            let (weight, error) = match other.get(tracked.key) {
                Some(same) => {
                    add(&mut tracked.about, &same.about);
                    (same.weight, same.error)
                }
                None => (theirs, theirs),
            };
            tracked.weight = tracked.weight.saturating_add(weight);
            tracked.error = tracked.error.saturating_add(error);
        }
        for tracked in other.tracked.iter().filter(|tracked| !self.places.contains_key(&tracked.key)) {
            let weight = tracked.weight.saturating_add(ours);
            let error = tracked.error.saturating_add(ours);
            self.tracked.push(TrackedKey { weight, error, ..tracked.clone() });
        }
        // A list from the lightest to the heaviest is a heap.
        self.tracked.sort_unstable_by_key(|tracked| (tracked.weight, tracked.key));
        self.tracked.drain(..self.tracked.len().saturating_sub(self.room));
        self.heap = (0..self.tracked.len() as u16).collect();
        self.stands.clone_from(&self.heap);
        let tracked = self.tracked.iter().enumerate();
        self.places = tracked.map(|(place, tracked)| (tracked.key, place as u16)).collect();
        self.total = self.total.saturating_add(other.total);
    }
}

impl<T> SpaceSaving<T> {
    /// The counter of a key, if it has one.
    pub fn get(&self, key: u64) -> Option<&TrackedKey<T>> {
        self.places.get(&key).map(|&place| &self.tracked[usize::from(place)])
    }

    /// All counters, in no order.
    pub fn tracked(&self) -> &[TrackedKey<T>] {
        &self.tracked
    }

    /// The weight of the stream: exact.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// No key without a counter has more weight than this; no error is larger.
    pub fn lightest(&self) -> u64 {
        if self.tracked.len() < self.room {
            return 0;
        }
        self.heap.first().map_or(0, |&place| self.tracked[usize::from(place)].weight)
    }

    // ---- the heap -------------------------------------------------------------------------------

    fn weight_at(&self, at: usize) -> u64 {
        self.tracked[usize::from(self.heap[at])].weight
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.stands[usize::from(self.heap[one])] = one as u16;
        self.stands[usize::from(self.heap[other])] = other as u16;
    }

    /// What has become heavier goes away from the front.
    fn settle(&mut self, mut at: usize) {
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                return;
            }
            if child + 1 < self.heap.len() && self.weight_at(child + 1) < self.weight_at(child) {
                child += 1;
            }
            if self.weight_at(at) <= self.weight_at(child) {
                return;
            }
            self.swap(at, child);
            at = child;
        }
    }

    /// What was appended goes towards the front.
    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.weight_at(at) < self.weight_at((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Keys of which some are heavy and most are rare.
    fn stream() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let key = prop_oneof![3 => 0_u64..4, 2 => 0_u64..60];
        prop::collection::vec((key, 0_u64..1_000), 0..400)
    }

    fn counted(room: u16, stream: &[(u64, u64)]) -> SpaceSaving<u64> {
        let mut sketch = SpaceSaving::new(room);
        for &(key, weight) in stream {
            if let Some(about) = sketch.add(key, weight) {
                *about += weight;
            }
        }
        sketch
    }

    fn exact(stream: &[(u64, u64)]) -> HashMap<u64, u64> {
        let mut exact = HashMap::new();
        for &(key, weight) in stream {
            *exact.entry(key).or_insert(0) += weight;
        }
        exact
    }

    /// The bounds of the module's first page, against an exact count.
    fn hold(sketch: &SpaceSaving<u64>, exact: &HashMap<u64, u64>) -> Result<(), TestCaseError> {
        let total: u64 = exact.values().sum();
        prop_assert_eq!(sketch.total(), total);
        prop_assert!(sketch.tracked().len() <= sketch.room);
        prop_assert!(sketch.lightest() <= total / sketch.room as u64);
        for (&key, &weight) in exact {
            match sketch.get(key) {
                Some(tracked) => {
                    prop_assert!(tracked.weight >= weight && tracked.weight - tracked.error <= weight);
                    prop_assert!(tracked.error <= sketch.lightest());
                    prop_assert!(tracked.about <= weight, "what is kept beside began later");
                    prop_assert!(tracked.about >= tracked.weight - tracked.error);
                }
                None => prop_assert!(weight <= sketch.lightest()),
            }
        }
        let lightest = sketch.tracked().iter().map(|tracked| tracked.weight).min();
        if sketch.tracked().len() == sketch.room {
            prop_assert_eq!(lightest, Some(sketch.lightest()), "the heap knows it");
        }
        Ok(())
    }

    #[test]
    fn with_room_for_all_keys_the_count_is_exact() {
        let stream: Vec<(u64, u64)> = (0..1_000).map(|number| (number % 7, number)).collect();
        let sketch = counted(8, &stream);
        for (key, weight) in exact(&stream) {
            let tracked = sketch.get(key).unwrap();
            assert_eq!((tracked.weight, tracked.error), (weight, 0));
        }
        assert_eq!(sketch.lightest(), 0);
    }

    #[test]
    fn a_key_without_weight_takes_no_counter() {
        let mut sketch = SpaceSaving::<()>::new(1);
        assert!(sketch.add(1, 5).is_some());
        assert!(sketch.add(2, 0).is_none() && sketch.add(1, 0).is_some());
        assert_eq!(sketch.tracked(), [TrackedKey { key: 1, weight: 5, error: 0, about: () }]);
        sketch.clear();
        assert_eq!((sketch.total(), sketch.lightest(), sketch.tracked().len()), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn the_bounds_hold_for_any_stream(room in 1_u16..20, stream in stream()) {
            hold(&counted(room, &stream), &exact(&stream))?;
        }

        #[test]
        fn they_hold_for_several_streams_merged(room in 1_u16..20, streams in prop::collection::vec(stream(), 1..5)) {
            let mut merged = SpaceSaving::new(room);
            for stream in &streams {
                merged.merge(&counted(room, stream), |ours, theirs| *ours += theirs);
            }
            hold(&merged, &exact(&streams.concat()))?;
        }

        #[test]
        fn a_merged_summary_goes_on(room in 1_u16..20, streams in prop::collection::vec(stream(), 2)) {
            let mut merged = counted(room, &streams[0]);
            merged.merge(&counted(room, &streams[1]), |ours, theirs| *ours += theirs);
            for &(key, weight) in &streams[0] {
                if let Some(about) = merged.add(key, weight) {
                    *about += weight;
                }
            }
            hold(&merged, &exact(&[&streams[0][..], &streams[1], &streams[0]].concat()))?;
        }
    }
}
