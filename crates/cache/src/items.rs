//! Items within a bound on memory: those used least recently make room for new ones.

use krarup_units::Nanos;
use lru::LruCache;

use crate::expiry::Expiry;

/// What the map and the allocator take for each item beside its key and its value, in bytes,
/// rounded up: the list node (72), three allocations' headers and rounding (8 + 8 on average,
/// each), a slot of the hash table at its emptiest (17 × 16 / 7).
pub const ITEM_OVERHEAD: u64 = 160;

/// A value and what belongs to it.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) data: Box<[u8]>,
    pub(crate) flags: u32,
    pub(crate) expiry: Expiry,
    pub(crate) unique: u64,
}

/// Items under keys, in the order of their last use.
#[derive(Debug)]
pub(crate) struct Items {
    map: LruCache<Box<[u8]>, Item>,
    /// Always the sum of [`charge`] over all items, and at most `memory`.
    bytes: u64,
    memory: u64,
    /// Items that had to leave before their time.
    evicted: u64,
    /// Items whose time had passed when they were asked for, or in the way.
    reclaimed: u64,
}

/// What an item costs, in bytes.
pub(crate) fn charge(key: &[u8], length: usize) -> u64 {
    key.len() as u64 + length as u64 + ITEM_OVERHEAD
}

impl Items {
    /// No items, in at most `memory` bytes.
    pub(crate) fn within(memory: u64) -> Self {
        Self { map: LruCache::unbounded(), bytes: 0, memory, evicted: 0, reclaimed: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// How many had to leave before their time, and how many were removed after it, since the last
    /// [`Self::recount`].
    pub(crate) fn left(&self) -> (u64, u64) {
        (self.evicted, self.reclaimed)
    }

    /// Counts anew who leaves.
    pub(crate) fn recount(&mut self) {
        (self.evicted, self.reclaimed) = (0, 0);
    }

    /// The item under `key`, which is now the most recently used; `None` where there is none or its
    /// time has passed.
    pub(crate) fn live(&mut self, key: &[u8], now: Nanos) -> Option<&mut Item> {
        if self.map.peek(key)?.expiry.passed(now) {
            self.reclaimed += 1;
            self.remove(key);
            return None;
        }
        self.map.get_mut(key)
    }

    /// Puts an item under `key`, whatever was there, and makes room for it. Where all memory would
    /// not do, it gives `false`, and nothing is under `key`.
    pub(crate) fn put(&mut self, key: &[u8], item: Item, now: Nanos) -> bool {
        self.remove(key);
        let charge = charge(key, item.data.len());
        if charge > self.memory {
            return false;
        }
        while self.bytes + charge > self.memory {
            let (key, item) = self.map.pop_lru().expect("bytes are held by items");
            self.bytes -= self::charge(&key, item.data.len());
            *(if item.expiry.passed(now) { &mut self.reclaimed } else { &mut self.evicted }) += 1;
        }
        self.bytes += charge;
        self.map.put(key.into(), item);
        true
    }

    /// Whether there was something to remove.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let removed = self.map.pop(key);
        if let Some(item) = &removed {
            self.bytes -= charge(key, item.data.len());
        }
        removed.is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.map.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(length: usize) -> Item {
        Item { data: vec![0; length].into(), flags: 0, expiry: Expiry::Never, unique: 0 }
    }

    #[test]
    fn what_is_larger_than_all_memory_has_no_place_and_takes_none() {
        let mut items = Items::within(ITEM_OVERHEAD + 10);
        assert!(items.put(b"key", item(7), Nanos::ZERO));
        assert!(!items.put(b"key", item(8), Nanos::ZERO));
        assert_eq!((items.len(), items.bytes()), (0, 0));
    }

    #[test]
    fn the_one_used_least_recently_leaves_first() {
        let mut items = Items::within(3 * (ITEM_OVERHEAD + 2));
        for key in [b"a", b"b", b"c"] {
            assert!(items.put(key, item(1), Nanos::ZERO));
        }
        assert!(items.live(b"a", Nanos::ZERO).is_some());
        assert!(items.put(b"d", item(1), Nanos::ZERO));
        let here: Vec<bool> =
            [b"a", b"b", b"c", b"d"].map(|key| items.live(key, Nanos::ZERO).is_some()).into();
        assert_eq!(here, [true, false, true, true]);
        assert_eq!(items.left(), (1, 0));
    }

    proptest! {
        /// Against a list that is plainly in order of use: the same items, never more memory than
        /// allowed.
        #[test]
        fn memory_is_counted_exactly_and_the_oldest_leave(
            memory in 0_u64..2_000,
            steps in proptest::collection::vec((0_u8..12, 0_usize..400, 0_u8..4), 0..80),
        ) {
            let mut items = Items::within(memory);
            let mut model: Vec<(u8, usize)> = Vec::new();
            let cost = |length: usize| 1 + length as u64 + ITEM_OVERHEAD;
            for (key, length, action) in steps {
                let found = model.iter().position(|(other, _)| *other == key);
                match action {
                    0 => {
                        prop_assert_eq!(items.live(&[key], Nanos::ZERO).map(|item| item.data.len()), found.map(|at| model[at].1));
                        if let Some(at) = found {
                            let used = model.remove(at);
                            model.push(used);
                        }
                    }
                    1 => {
                        prop_assert_eq!(items.remove(&[key]), found.is_some());
                        if let Some(at) = found {
                            model.remove(at);
                        }
                    }
                    _ => {
                        prop_assert_eq!(items.put(&[key], item(length), Nanos::ZERO), cost(length) <= memory);
                        if let Some(at) = found {
                            model.remove(at);
                        }
                        if cost(length) <= memory {
                            model.push((key, length));
                            while model.iter().map(|(_, length)| cost(*length)).sum::<u64>() > memory {
                                model.remove(0);
                            }
                        }
                    }
                }
                prop_assert_eq!(items.bytes(), model.iter().map(|(_, length)| cost(*length)).sum::<u64>());
                prop_assert_eq!(items.len(), model.len());
                prop_assert!(items.bytes() <= memory);
            }
        }
    }
}
