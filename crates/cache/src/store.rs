//! What each command does to the items.
//!
//! Pure: the time is handed in, as nanoseconds since 1970, and must not run backwards.

use krarup_memcache as memcache;
use krarup_memcache::{Arithmetic, Storage};
use krarup_units::Nanos;

use crate::ItemCounts;
use crate::counter;
use crate::expiry::Expiry;
use crate::items::{Item, Items, charge};

pub use crate::items::ITEM_OVERHEAD;

/// memcached counts its own item header towards its limit on items: 48 bytes and 8 of the cas
/// unique, the key's final zero, the value's line end.
const MEMCACHED_HEADER: u64 = 48 + 8 + 1 + 2;
/// … and the flags, unless they are zero.
const MEMCACHED_FLAGS: u64 = 4;

/// How much the store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Memory for all items, in bytes: keys, values and [`ITEM_OVERHEAD`] each.
    pub memory: u64,
    /// The largest item, in bytes, counted as memcached counts it (`-I`): key and value and 59 or
    /// 63 bytes more.
    pub item: u64,
}

impl Default for Bounds {
    /// memcached's: 64 MiB, items up to 1 MiB.
    fn default() -> Self {
        Self { memory: 64 << 20, item: 1 << 20 }
    }
}

/// What became of a value that a client brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is there.
    Stored,
    /// The condition of `add`, `replace`, `append` or `prepend` did not hold, or the outcome would
    /// be too large.
    NotStored,
    /// `cas`: another client has changed the item.
    Exists,
    /// `cas`: there is no such item.
    NotFound,
    /// Larger than [`Bounds::item`]. After a `set` nothing is stored under the key any more.
    TooLarge,
    /// Larger than all the memory there is. Nothing is stored under the key any more.
    NoMemory,
}

/// Why `incr` or `decr` has no number to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNumber {
    /// There is no such item.
    NotFound,
    /// The value is not a number.
    NotNumeric,
    /// The longer number has no room in all the memory there is.
    NoMemory,
}

/// An item that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The client's own 32 bits.
    pub flags: u32,
    /// Changes with every change of the item; no two changes in the store's life give the same.
    pub unique: u64,
    /// The value.
    pub data: &'a [u8],
}

impl<'a> From<&'a mut Item> for Found<'a> {
    fn from(item: &'a mut Item) -> Self {
        Self { flags: item.flags, unique: item.unique, data: &item.data }
    }
}

/// The items, within their bounds, and the count of what was done to them.
#[derive(Debug)]
pub struct ItemStore {
    items: Items,
    bounds: Bounds,
    last_unique: u64,
    /// A `flush_all` that is yet to come.
    flush: Option<Nanos>,
    counts: ItemCounts,
}

/// Adds one to one of two counts.
fn count(first: bool, one: &mut u64, other: &mut u64) {
    *(if first { one } else { other }) += 1;
}

impl ItemStore {
    /// An empty store.
    pub fn new(bounds: Bounds) -> Self {
        let items = Items::within(bounds.memory);
        Self { items, bounds, last_unique: 0, flush: None, counts: ItemCounts::default() }
    }

    /// The bounds it keeps to.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Bytes that its items take; at most [`Bounds::memory`].
    pub fn bytes(&self) -> u64 {
        self.items.bytes()
    }

    /// How many items there are, those included whose time has passed but that no client has asked
    /// for since.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What has been done so far.
    pub fn counts(&self) -> ItemCounts {
        let (evictions, reclaimed) = self.items.left();
        ItemCounts { evictions, reclaimed, ..self.counts }
    }

    /// `stats reset`: counts anew.
    pub fn reset_counts(&mut self) {
        self.items.recount();
        self.counts = ItemCounts::default();
    }

    /// `get` and `gets`, for one key.
    pub fn get(&mut self, key: &[u8], now: Nanos) -> Option<Found<'_>> {
        self.flush_when_due(now);
        let item = self.items.live(key, now);
        self.counts.cmd_get += 1;
        count(item.is_some(), &mut self.counts.get_hits, &mut self.counts.get_misses);
        item.map(Found::from)
    }

    /// `gat` and `gats`, for one key.
    pub fn get_and_touch(&mut self, key: &[u8], exptime: i32, now: Nanos) -> Option<Found<'_>> {
        self.flush_when_due(now);
        let item = self.items.live(key, now);
        self.counts.cmd_touch += 1;
        count(item.is_some(), &mut self.counts.touch_hits, &mut self.counts.touch_misses);
        let item = item?;
        item.expiry = Expiry::of(exptime, now);
        Some(item.into())
    }

    /// `touch`: whether there was something to touch.
    pub fn touch(&mut self, key: &[u8], exptime: i32, now: Nanos) -> bool {
        self.get_and_touch(key, exptime, now).is_some()
    }

    /// `set`, `add`, `replace`, `append`, `prepend` and `cas`.
    pub fn store(&mut self, request: &memcache::StorageRequest<'_>, now: Nanos) -> Stored {
        let &memcache::StorageRequest { command, key, flags, exptime, unique, data, .. } = request;
        if self.too_large(key, flags, data.len()) {
            self.refuse_too_large(command, key);
            return Stored::TooLarge;
        }
        self.flush_when_due(now);
        self.counts.cmd_set += 1;
        let found = self.items.live(key, now);
        match (command, found) {
            (Storage::Append | Storage::Prepend, Some(item)) => {
                let parts = if command == Storage::Append { [&item.data, data] } else { [data, &item.data] };
                let item = Item { data: parts.concat().into(), unique: 0, ..*item };
                let length = item.data.len();
                if self.too_large(key, item.flags, length) || charge(key, length) > self.bounds.memory {
                    return Stored::NotStored;
                }
                return self.put(key, item, now);
            }
            (Storage::Set, _) | (Storage::Add, None) | (Storage::Replace, Some(_)) => {}
            (Storage::Cas, None) => {
                self.counts.cas_misses += 1;
                return Stored::NotFound;
            }
            (Storage::Cas, Some(item)) => {
                let same = item.unique == unique;
                count(same, &mut self.counts.cas_hits, &mut self.counts.cas_badval);
                if !same {
                    return Stored::Exists;
                }
            }
            (Storage::Add, Some(_)) | (Storage::Replace | Storage::Append | Storage::Prepend, None) => {
                return Stored::NotStored;
            }
        }
        self.put(key, Item { data: data.into(), flags, expiry: Expiry::of(exptime, now), unique: 0 }, now)
    }

    /// A value that was too large to be read at all. As memcached, `set` removes what was there:
    /// better nothing than the value from before.
    pub fn refuse_too_large(&mut self, command: Storage, key: &[u8]) {
        self.counts.store_too_large += 1;
        if command == Storage::Set {
            self.items.remove(key);
        }
    }

    /// `delete`: whether there was something to delete.
    pub fn delete(&mut self, key: &[u8], now: Nanos) -> bool {
        self.flush_when_due(now);
        let deleted = self.items.live(key, now).is_some() && self.items.remove(key);
        count(deleted, &mut self.counts.delete_hits, &mut self.counts.delete_misses);
        deleted
    }

    /// `incr` and `decr`: the number that is left behind. The value never becomes shorter: blanks
    /// make up for digits.
    ///
    /// # Errors
    /// When there is none.
    pub fn arithmetic(
        &mut self,
        command: Arithmetic,
        key: &[u8],
        delta: u64,
        now: Nanos,
    ) -> Result<u64, NoNumber> {
        self.flush_when_due(now);
        let (hits, misses) = match command {
            Arithmetic::Incr => (&mut self.counts.incr_hits, &mut self.counts.incr_misses),
            Arithmetic::Decr => (&mut self.counts.decr_hits, &mut self.counts.decr_misses),
        };
        let Some(item) = self.items.live(key, now) else {
            *misses += 1;
            return Err(NoNumber::NotFound);
        };
        let number = counter::read(&item.data).ok_or(NoNumber::NotNumeric)?;
        *hits += 1;
        let number = counter::apply(command, number, delta);
        let data = counter::write(number, item.data.len());
        if data.len() == item.data.len() {
            self.last_unique += 1;
            item.data.copy_from_slice(&data);
            item.unique = self.last_unique;
            return Ok(number);
        }
        let item = Item { data: data.into(), ..*item };
        match self.put(key, item, now) {
            Stored::Stored => Ok(number),
            _ => Err(NoNumber::NoMemory),
        }
    }

    /// `flush_all`: everything stored until then is gone, at once (no delay, zero or negative) or
    /// later. A later call takes the place of one that is yet to come.
    pub fn flush(&mut self, delay: Option<i32>, now: Nanos) {
        self.flush_when_due(now);
        self.counts.cmd_flush += 1;
        match Expiry::of(delay.unwrap_or(0), now) {
            Expiry::At(time) if time > now => self.flush = Some(time),
            _ => {
                self.flush = None;
                self.items.clear();
                // memcached spends a cas unique on telling older items from newer ones; clients can
                // see the gap.
                self.last_unique += 1;
            }
        }
    }

    /// Carries out a `flush_all` whose time has come. All that is here was stored before that time,
    /// because every store passes here first.
    fn flush_when_due(&mut self, now: Nanos) {
        if self.flush.is_some_and(|time| time <= now) {
            self.flush = None;
            self.items.clear();
        }
    }

    /// Stores an item as a change of its own.
    fn put(&mut self, key: &[u8], item: Item, now: Nanos) -> Stored {
        let unique = self.last_unique + 1;
        if !self.items.put(key, Item { unique, ..item }, now) {
            self.counts.store_no_memory += 1;
            return Stored::NoMemory;
        }
        self.last_unique = unique;
        self.counts.total_items += 1;
        Stored::Stored
    }

    fn too_large(&self, key: &[u8], flags: u32, length: usize) -> bool {
        let flags = if flags == 0 { 0 } else { MEMCACHED_FLAGS };
        key.len() as u64 + length as u64 + MEMCACHED_HEADER + flags > self.bounds.item
    }
}

#[cfg(test)]
mod tests;
