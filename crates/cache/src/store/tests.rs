use proptest::prelude::*;

use super::*;

const NOW: Nanos = Nanos::from_secs(1_700_000_000);

fn after(seconds: u64) -> Nanos {
    NOW + Nanos::from_secs(seconds)
}

fn request<'a>(command: Storage, key: &'a str, data: &'a str, exptime: i32) -> memcache::StorageRequest<'a> {
    memcache::StorageRequest {
        command,
        key: key.as_bytes(),
        flags: 5,
        exptime,
        unique: 0,
        data: data.as_bytes(),
        noreply: false,
        verbatim: None,
    }
}

impl ItemStore {
    fn bring(&mut self, command: Storage, key: &str, data: &str) -> Stored {
        self.store(&request(command, key, data, 0), NOW)
    }

    fn value(&mut self, key: &str, now: Nanos) -> Option<String> {
        self.get(key.as_bytes(), now).map(|found| String::from_utf8_lossy(found.data).into_owned())
    }

    fn unique(&mut self, key: &str) -> u64 {
        self.get(key.as_bytes(), NOW).expect("the item is there").unique
    }
}

fn store() -> ItemStore {
    ItemStore::new(Bounds::default())
}

#[test]
fn an_item_is_there_until_its_time_has_passed() {
    let mut store = store();
    for (key, exptime) in [("never", 0), ("relative", 10), ("absolute", 1_700_000_010), ("passed", -1)] {
        assert_eq!(store.store(&request(Storage::Set, key, "x", exptime), NOW), Stored::Stored);
    }
    let here = |store: &mut ItemStore, now| {
        ["never", "relative", "absolute", "passed"].map(|key| store.value(key, now).is_some())
    };
    assert_eq!(here(&mut store, Nanos(after(10).0 - 1)), [true, true, true, false]);
    assert_eq!(here(&mut store, after(10)), [true, false, false, false]);
    assert_eq!((store.len(), store.bytes()), (1, 5 + 1 + ITEM_OVERHEAD));
    assert_eq!(store.counts().reclaimed, 3);
}

#[test]
fn an_item_whose_time_has_passed_is_no_item_to_any_command() {
    let dead = || {
        let mut store = ItemStore::new(Bounds::default());
        store.store(&request(Storage::Set, "k", "5", -1), NOW);
        store
    };
    assert_eq!(dead().bring(Storage::Add, "k", "y"), Stored::Stored);
    assert_eq!(dead().bring(Storage::Replace, "k", "y"), Stored::NotStored);
    assert_eq!(dead().bring(Storage::Append, "k", "y"), Stored::NotStored);
    assert_eq!(dead().bring(Storage::Cas, "k", "y"), Stored::NotFound);
    assert_eq!(dead().arithmetic(Arithmetic::Incr, b"k", 1, NOW), Err(NoNumber::NotFound));
    assert!(!dead().delete(b"k", NOW));
    assert!(!dead().touch(b"k", 0, NOW));
    assert!(dead().get_and_touch(b"k", 0, NOW).is_none());
}

#[test]
fn touch_and_gat_set_the_expiry_time_anew() {
    let mut store = store();
    store.store(&request(Storage::Set, "k", "x", 10), NOW);
    assert!(store.touch(b"k", 100, NOW));
    assert_eq!(store.value("k", after(99)).as_deref(), Some("x"));
    assert_eq!(store.get_and_touch(b"k", -1, after(99)).map(|found| found.flags), Some(5));
    assert_eq!(store.value("k", after(99)), None);
}

#[test]
fn conditions_hold_or_nothing_is_stored() {
    let mut store = store();
    assert_eq!(store.bring(Storage::Replace, "k", "1"), Stored::NotStored);
    assert_eq!(store.bring(Storage::Append, "k", "1"), Stored::NotStored);
    assert_eq!(store.bring(Storage::Add, "k", "2"), Stored::Stored);
    assert_eq!(store.bring(Storage::Add, "k", "3"), Stored::NotStored);
    assert_eq!(store.bring(Storage::Replace, "k", "4"), Stored::Stored);
    assert_eq!(store.value("k", NOW).as_deref(), Some("4"));
}

#[test]
fn what_is_added_to_an_item_leaves_its_flags_and_expiry() {
    let mut store = store();
    store.store(&request(Storage::Set, "k", "b", 10), NOW);
    let more = |command, data| memcache::StorageRequest { flags: 9, ..request(command, "k", data, 0) };
    assert_eq!(store.store(&more(Storage::Append, "c"), NOW), Stored::Stored);
    assert_eq!(store.store(&more(Storage::Prepend, "a"), NOW), Stored::Stored);
    assert_eq!(store.get(b"k", after(9)).map(|found| (found.flags, found.data)), Some((5, &b"abc"[..])));
    assert_eq!(store.value("k", after(10)), None);
}

#[test]
fn cas_stores_only_over_the_item_that_was_seen() {
    let mut store = store();
    let cas = |unique| memcache::StorageRequest { unique, ..request(Storage::Cas, "k", "new", 0) };
    assert_eq!(store.store(&cas(1), NOW), Stored::NotFound);
    store.bring(Storage::Set, "k", "old");
    let seen = store.unique("k");
    store.touch(b"k", 0, NOW);
    assert_eq!(store.unique("k"), seen, "touching changes no value");
    assert_eq!(store.store(&cas(seen + 1), NOW), Stored::Exists);
    assert_eq!(store.store(&cas(seen), NOW), Stored::Stored);
    assert_eq!(store.store(&cas(seen), NOW), Stored::Exists);
    let counts = store.counts();
    assert_eq!((counts.cas_hits, counts.cas_badval, counts.cas_misses), (1, 2, 1));
}

#[test]
fn every_change_has_its_own_unique() {
    let mut store = store();
    store.bring(Storage::Set, "k", "9");
    let mut last = store.unique("k");
    for change in 0..4 {
        match change {
            0 => assert_eq!(store.arithmetic(Arithmetic::Incr, b"k", 1, NOW), Ok(10)),
            1 => assert_eq!(store.arithmetic(Arithmetic::Decr, b"k", 1, NOW), Ok(9)),
            2 => assert_eq!(store.bring(Storage::Append, "k", "x"), Stored::Stored),
            _ => assert_eq!(store.bring(Storage::Set, "k", "x"), Stored::Stored),
        }
        assert!(store.unique("k") > last);
        last = store.unique("k");
    }
}

#[test]
fn numbers_keep_their_length_or_grow() {
    let mut store = store();
    store.bring(Storage::Set, "n", "10");
    assert_eq!(store.arithmetic(Arithmetic::Decr, b"n", 1, NOW), Ok(9));
    assert_eq!(store.value("n", NOW).as_deref(), Some("9 "));
    assert_eq!(store.arithmetic(Arithmetic::Incr, b"n", 91, NOW), Ok(100));
    assert_eq!(store.value("n", NOW).as_deref(), Some("100"));
    assert_eq!(store.arithmetic(Arithmetic::Decr, b"n", 500, NOW), Ok(0));
    assert_eq!(store.arithmetic(Arithmetic::Incr, b"n", u64::MAX, NOW), Ok(u64::MAX));
    assert_eq!(store.arithmetic(Arithmetic::Incr, b"n", 3, NOW), Ok(2));
    assert_eq!(store.value("n", NOW), Some(format!("{:<20}", 2)));
    store.bring(Storage::Set, "n", &format!("5{}", " ".repeat(69_999)));
    assert_eq!(store.arithmetic(Arithmetic::Incr, b"n", 1, NOW), Ok(6));
    assert_eq!(store.value("n", NOW).map(|value| value.len()), Some(70_000));
    store.bring(Storage::Set, "n", "ten");
    assert_eq!(store.arithmetic(Arithmetic::Incr, b"n", 3, NOW), Err(NoNumber::NotNumeric));
    assert_eq!(store.arithmetic(Arithmetic::Incr, b"m", 3, NOW), Err(NoNumber::NotFound));
}

#[test]
fn a_number_that_outgrows_all_memory_has_no_room() {
    let mut store = ItemStore::new(Bounds { memory: ITEM_OVERHEAD + 2, ..Bounds::default() });
    store.bring(Storage::Set, "n", "9");
    assert_eq!(store.arithmetic(Arithmetic::Incr, b"n", 1, NOW), Err(NoNumber::NoMemory));
}

#[test]
fn flushing_empties_the_store_at_once_or_later() {
    let mut store = store();
    store.bring(Storage::Set, "k", "x");
    store.flush(Some(10), NOW);
    assert_eq!(store.value("k", after(9)).as_deref(), Some("x"));
    assert_eq!(store.store(&request(Storage::Set, "late", "x", 0), after(9)), Stored::Stored);
    assert_eq!(store.store(&request(Storage::Set, "after", "x", 0), after(10)), Stored::Stored);
    assert_eq!(["k", "late", "after"].map(|key| store.value(key, after(10)).is_some()), [false, false, true]);
    for delay in [None, Some(0), Some(-1)] {
        store.bring(Storage::Set, "k", "x");
        store.flush(delay, after(20));
        assert!(store.is_empty() && store.bytes() == 0, "{delay:?}");
    }
}

#[test]
fn a_later_flush_takes_the_place_of_one_to_come() {
    let mut store = store();
    store.flush(Some(10), NOW);
    store.flush(None, NOW);
    store.bring(Storage::Set, "k", "x");
    assert_eq!(store.value("k", after(11)).as_deref(), Some("x"));
}

#[test]
fn a_value_over_the_limit_is_refused_and_set_leaves_nothing() {
    let mut store = ItemStore::new(Bounds { item: 100, ..Bounds::default() });
    // 59 bytes of header, 4 of flags, 1 of key.
    let (fits, exceeds) = ("x".repeat(36), "x".repeat(37));
    assert_eq!(store.bring(Storage::Set, "k", &fits), Stored::Stored);
    assert_eq!(store.bring(Storage::Append, "k", "x"), Stored::NotStored);
    assert_eq!(store.bring(Storage::Replace, "k", &exceeds), Stored::TooLarge);
    assert_eq!(store.value("k", NOW), Some(fits));
    assert_eq!(store.bring(Storage::Set, "k", &exceeds), Stored::TooLarge);
    assert_eq!(store.value("k", NOW), None);
}

proptest! {
    /// Whatever is asked, and whenever: memory stays within its bound, and the parts of each count
    /// make the whole.
    #[test]
    fn memory_is_bounded_and_counts_add_up(
        memory in 200_u64..3_000,
        steps in proptest::collection::vec((0_u8..10, 0_u8..6, 0_usize..600, -1_i32..5), 0..120),
    ) {
        let mut store = ItemStore::new(Bounds { memory, item: 500 });
        let mut now = NOW;
        let (mut gets, mut touches, mut sets) = (0, 0, 0);
        for (action, key, length, exptime) in steps {
            let key = format!("key{key}");
            let key = key.as_str();
            match action {
                0 => { store.get(key.as_bytes(), now); gets += 1; }
                1 => { store.get_and_touch(key.as_bytes(), exptime, now); touches += 1; }
                2 => { store.delete(key.as_bytes(), now); }
                3 => { let _ = store.arithmetic(Arithmetic::Incr, key.as_bytes(), length as u64, now); }
                4 if exptime > 3 => store.flush(Some(exptime), now),
                5 => now += Nanos::from_millis(length as u64),
                _ => {
                    let command = [Storage::Set, Storage::Add, Storage::Append, Storage::Cas][usize::from(action % 4)];
                    let data = if length < 20 { length.to_string() } else { "x".repeat(length) };
                    let outcome = store.store(&request(command, key, &data, exptime), now);
                    sets += u64::from(outcome != Stored::TooLarge);
                }
            }
            prop_assert!(store.bytes() <= memory);
            prop_assert!(store.bytes() >= store.len() as u64 * ITEM_OVERHEAD);
            prop_assert_eq!(store.is_empty(), store.bytes() == 0);
        }
        let counts = store.counts();
        prop_assert_eq!((counts.cmd_get, counts.cmd_touch, counts.cmd_set), (gets, touches, sets));
        prop_assert_eq!(counts.get_hits + counts.get_misses, gets);
        prop_assert_eq!(counts.touch_hits + counts.touch_misses, touches);
        prop_assert!(counts.evictions + counts.reclaimed + store.len() as u64 <= counts.total_items);
    }
}
