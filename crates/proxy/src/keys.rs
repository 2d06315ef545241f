//! The keys of one retrieval: as the client wrote them, as servers see them, and who was asked for
//! each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use krarup_memcache::request::Keys;

use crate::ids::PoolId;

/// Up to so many are compared with each other, which is quicker than a table of them.
pub(crate) const FEW: usize = 16;

/// Behind the last key of a part.
const END: u32 = u32::MAX;

/// Keys in the client's order, in one piece of memory that serves one request after another.
#[derive(Debug, Default)]
pub(crate) struct KeyList {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// The keys of each part.
    chains: Vec<Chain>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    asked: (u32, u32),
    sent: (u32, u32),
    pool: PoolId,
    part: u16,
    /// The place of the next key of the part.
    next: u32,
}

/// The places of the first and the last key of a part, and how many it has.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u32,
    last: u32,
    count: u32,
}

impl Chain {
    const EMPTY: Self = Self { first: END, last: END, count: 0 };
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    /// As the client wrote it.
    pub(crate) asked: &'a [u8],
    /// As its server sees it.
    pub(crate) sent: &'a [u8],
    /// The pool it belongs to.
    pub(crate) pool: PoolId,
    /// The part of the request that looks for it.
    pub(crate) part: u16,
}

/// The keys of a part, one after the other.
#[derive(Debug)]
pub(crate) struct KeysOfPart<'a> {
    list: &'a KeyList,
    at: usize,
}

impl<'a> Iterator for KeysOfPart<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let span = self.list.spans.get(self.at)?;
        self.at = span.next as usize;
        Some(self.list.cut(span.sent))
    }
}

impl<'a> KeysOfPart<'a> {
    /// The place that it has come to.
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// The same from a place on that it had come to before; zero: from the first key on.
    pub(crate) fn gone_on_to(self, at: usize) -> Self {
        Self { at: self.at.max(at), ..self }
    }

    /// The length of the next key where `line` begins with it and a blank; then it is gone.
    #[inline]
    pub(crate) fn begins(&mut self, line: &[u8]) -> Option<usize> {
        let span = self.list.spans.get(self.at)?;
        let key = self.list.cut(span.sent);
        let begins = line.get(key.len()) == Some(&b' ') && line.starts_with(key);
        if begins {
            self.at = span.next as usize;
        }
        begins.then_some(key.len())
    }
}

/// The part of a key that no server has been asked for.
pub(crate) const NO_PART: u16 = u16::MAX;

/// So many parts a request may have, as they are numbered; few in tests.
pub(crate) const MOST_PARTS: usize = if cfg!(test) { 64 } else { NO_PART as usize };

impl KeyList {
    /// Forgets all keys, and gives back memory beyond `keep` bytes.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        self.spans.clear();
        self.chains.clear();
        if self.bytes.capacity() > keep {
            *self = Self::default();
        }
    }

    /// Appends a key; `add` goes before it, `strip` bytes of it are taken off, before a server sees
    /// it.
    pub(crate) fn push(&mut self, key: &[u8], pool: PoolId, strip: usize, add: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        let asked = (start, self.bytes.len() as u32);
        let sent = if add.is_empty() {
            (asked.0 + strip as u32, asked.1)
        } else {
            self.bytes.extend_from_slice(add);
            self.bytes.extend_from_slice(&key[strip..]);
            (asked.1, self.bytes.len() as u32)
        };
        self.spans.push(Span { asked, sent, pool, part: NO_PART, next: END });
    }

    /// Takes keys that servers see as the client wrote them, and that the first part looks for.
    /// There are no others in the list.
    pub(crate) fn take(&mut self, keys: &Keys<'_>, pool: PoolId) {
        debug_assert!(self.spans.is_empty(), "they stand in it one behind the other");
        match keys.plain() {
            Some(text) => self.bytes.extend_from_slice(text),
            None => keys.iter().for_each(|key| {
                self.bytes.push(b' ');
                self.bytes.extend_from_slice(key);
            }),
        }
        let (mut end, mut next) = (0, 0);
        self.spans.extend(keys.iter().map(|key| {
            let at = (end + 1, end + 1 + key.len() as u32);
            (end, next) = (at.1, next + 1);
            Span { asked: at, sent: at, pool, part: 0, next }
        }));
        self.chain(0..self.len());
    }

    /// The next part has this run of keys, each of which leads to the one behind it.
    fn chain(&mut self, run: Range<usize>) {
        self.spans[run.end - 1].next = END;
        let (first, last) = (run.start as u32, run.end as u32 - 1);
        self.chains.push(Chain { first, last, count: run.len() as u32 });
    }

    /// Keys that were [taken](Self::take), a blank before each.
    pub(crate) fn run(&self, places: Range<usize>) -> &[u8] {
        let (first, last) = (self.spans[places.start], self.spans[places.end - 1]);
        self.cut((first.asked.0 - 1, last.asked.1))
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn get(&self, place: usize) -> Key<'_> {
        self.of_span(&self.spans[place])
    }

    fn of_span(&self, span: &Span) -> Key<'_> {
        let (pool, part) = (span.pool, span.part);
        Key { asked: self.cut(span.asked), sent: self.cut(span.sent), pool, part }
    }

    fn cut(&self, (from, to): (u32, u32)) -> &[u8] {
        &self.bytes[from as usize..to as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Key<'_>> {
        self.spans.iter().map(|span| self.of_span(span))
    }

    /// How many keys a part has.
    pub(crate) fn count_of(&self, part: u16) -> usize {
        self.chains.get(usize::from(part)).map_or(0, |chain| chain.count as usize)
    }

    /// The keys of one part, as its server sees them.
    pub(crate) fn of(&self, part: u16) -> KeysOfPart<'_> {
        let first = self.chains.get(usize::from(part)).map_or(END, |chain| chain.first);
        KeysOfPart { list: self, at: first as usize }
    }

    /// The places of the keys of one part, in order.
    pub(crate) fn places_of(&self, part: u16) -> impl Iterator<Item = usize> {
        let mut keys = self.of(part);
        std::iter::from_fn(move || {
            let place = keys.place();
            keys.next().map(|_| place)
        })
    }

    /// A part has one more key, the last of its keys in the client's order. Parts are numbered as
    /// they are given their first key.
    #[inline]
    pub(crate) fn assign(&mut self, place: usize, part: u16) {
        let index = usize::from(part);
        if index == self.chains.len() {
            self.chains.push(Chain::EMPTY);
        }
        let chain = &mut self.chains[index];
        match chain.count {
            0 => chain.first = place as u32,
            _ => self.spans[chain.last as usize].next = place as u32,
        }
        (chain.last, chain.count) = (place as u32, chain.count + 1);
        let span = &mut self.spans[place];
        (span.part, span.next) = (part, END);
    }

    /// The next part has a run of keys that were [taken](Self::take). The runs of all parts, in
    /// order, are all keys.
    pub(crate) fn assign_run(&mut self, run: Range<usize>, part: u16) {
        self.chains.truncate(usize::from(part));
        self.spans[run.clone()].iter_mut().for_each(|span| span.part = part);
        self.chain(run);
    }

    /// Each key of a part goes to the part that `to` says for its place, or stays.
    pub(crate) fn move_from(&mut self, part: u16, mut to: impl FnMut(usize) -> Option<u16>) {
        let mut at = std::mem::replace(&mut self.chains[usize::from(part)], Chain::EMPTY).first;
        while let Some(span) = self.spans.get(at as usize) {
            let (place, next) = (at as usize, span.next);
            self.assign(place, to(place).unwrap_or(part));
            at = next;
        }
    }

    /// The places of the keys that the client wrote before, each with that of the first alike, in
    /// order.
    pub(crate) fn repeated(&self) -> Vec<(usize, usize)> {
        let asked = |place: usize| self.cut(self.spans[place].asked);
        let places = 0..self.len();
        if self.len() <= FEW {
            let first = |place| (0..place).find(|&before| asked(before) == asked(place));
            return places.filter_map(|place| Some((place, first(place)?))).collect();
        }
        let mut firsts = HashMap::with_capacity(self.len());
        let first = |place| match firsts.entry(asked(place)) {
            Entry::Occupied(first) => Some((place, *first.get())),
            Entry::Vacant(new) => {
                new.insert(place);
                None
            }
        };
        places.filter_map(first).collect()
    }
}

#[cfg(test)]
mod tests {
    use krarup_memcache::{Limits, Parsed, Request, request};

    use super::*;

    #[test]
    fn a_key_is_known_by_both_its_names() {
        let mut keys = KeyList::default();
        keys.push(b"user:1", PoolId::new(0), 0, b"");
        keys.push(b"user:2", PoolId::new(1), 5, b"");
        keys.push(b"user:3", PoolId::new(2), 5, b"u/");
        let names: Vec<_> =
            keys.iter().map(|key| (key.asked.to_vec(), key.sent.to_vec(), key.pool.index())).collect();
        assert_eq!(names[0], (b"user:1".to_vec(), b"user:1".to_vec(), 0));
        assert_eq!(names[1], (b"user:2".to_vec(), b"2".to_vec(), 1));
        assert_eq!(names[2], (b"user:3".to_vec(), b"u/3".to_vec(), 2));
        keys.assign(1, 0);
        keys.assign(2, 0);
        assert_eq!(keys.of(0).collect::<Vec<_>>(), [&b"2"[..], b"u/3"]);
        assert_eq!((keys.count_of(0), keys.count_of(1), keys.get(0).part), (2, 0, NO_PART));
    }

    #[test]
    fn keys_that_are_taken_stand_one_behind_the_other_however_they_came() {
        for line in ["get a bc def\r\n", "get  a bc   def \r\n"] {
            let parsed = request::parse(line.as_bytes(), &Limits::default());
            let Parsed::Complete { message: Request::Retrieve(retrieve), .. } = parsed else {
                panic!("{line}")
            };
            let mut keys = KeyList::default();
            keys.take(&retrieve.keys, PoolId::new(3));
            let taken: Vec<_> = keys.iter().map(|key| (key.asked, key.sent, key.pool, key.part)).collect();
            assert_eq!(taken, [&b"a"[..], b"bc", b"def"].map(|key| (key, key, PoolId::new(3), 0)), "{line}");
            assert_eq!(
                (keys.run(0..2), keys.run(1..3), keys.run(2..3)),
                (&b" a bc"[..], &b" bc def"[..], &b" def"[..])
            );
            assert_eq!(keys.of(0).collect::<Vec<_>>(), [&b"a"[..], b"bc", b"def"]);
            keys.assign_run(0..2, 0);
            keys.assign_run(2..3, 1);
            assert_eq!((keys.count_of(0), keys.count_of(1)), (2, 1));
            assert_eq!(keys.of(0).chain(keys.of(1)).collect::<Vec<_>>(), [&b"a"[..], b"bc", b"def"]);
            assert_eq!([0, 1, 2].map(|place| keys.get(place).part), [0, 0, 1]);
        }
    }

    #[test]
    fn a_key_that_is_asked_for_again_is_found_among_few_and_among_many() {
        for others in [0, FEW, 10 * FEW] {
            let mut keys = KeyList::default();
            // Routes may make one key of two: only what the client wrote counts.
            keys.push(b"a:1", PoolId::new(1), 2, b"");
            keys.push(b"1", PoolId::new(1), 0, b"");
            (0..others)
                .for_each(|other| keys.push(format!("key-{other}").as_bytes(), PoolId::new(0), 0, b""));
            for again in ["1", "a:1", "1"] {
                keys.push(again.as_bytes(), PoolId::new(1), 0, b"");
            }
            let end = others + 2;
            assert_eq!(keys.repeated(), [(end, 1), (end + 1, 0), (end + 2, 1)], "{others} others");
        }
    }

    /// Each part of a large request was looked for among all its keys.
    #[test]
    fn a_step_leads_to_the_next_key_of_a_part_and_to_none_of_the_others() {
        const PARTS: u16 = 1_000;
        let mut keys = KeyList::default();
        for place in 0..10_000 {
            keys.push(format!("k{place}").as_bytes(), PoolId::new(0), 0, b"");
            keys.assign(place, place as u16 % PARTS);
        }
        let places = |keys: &KeyList, part| keys.places_of(part).collect::<Vec<_>>();
        for part in 0..PARTS {
            let mut of_part = keys.of(part);
            assert_eq!(of_part.place(), usize::from(part));
            assert_eq!(of_part.next(), Some(format!("k{part}").as_bytes()));
            assert_eq!(of_part.place(), usize::from(part + PARTS), "none between is come to");
            let on = keys.of(part).gone_on_to(of_part.place());
            assert_eq!((on.count(), keys.of(part).gone_on_to(0).count(), keys.count_of(part)), (9, 10, 10));
        }
        // Every second key goes to a part of its own, the others stay.
        let mut new = PARTS..;
        keys.move_from(7, |place| (place / usize::from(PARTS) % 2 == 0).then(|| new.next().unwrap()));
        assert_eq!(places(&keys, 7), [1_007, 3_007, 5_007, 7_007, 9_007]);
        assert_eq!((places(&keys, PARTS), places(&keys, PARTS + 4)), (vec![7], vec![8_007]));
        assert_eq!((keys.count_of(7), keys.get(8_007).part), (5, PARTS + 4));
        keys.move_from(7, |_| Some(PARTS + 5));
        assert_eq!((keys.count_of(7), keys.of(7).next(), keys.count_of(PARTS + 5)), (0, None, 5));
    }

    #[test]
    fn a_line_begins_with_the_next_key_or_says_nothing() {
        let mut keys = KeyList::default();
        for (part, key) in ["a", "ab", "c", "d"].into_iter().enumerate() {
            keys.push(key.as_bytes(), PoolId::new(0), 0, b"");
            keys.assign(part, u16::from(key == "c"));
        }
        let mut spoken = keys.of(0);
        assert_eq!(spoken.begins(b"ab 0 1\r\n"), None, "it is not its turn");
        assert_eq!(spoken.begins(b"a"), None, "there may be more of it");
        assert_eq!(spoken.begins(b"a 0 1\r\n"), Some(1));
        assert_eq!(spoken.begins(b"a 0 1\r\n"), None, "it was heard");
        assert!(spoken.any(|key| key == b"d"), "those between were not found");
        assert_eq!(spoken.begins(b"d 0 1\r\n"), None);
    }
}
