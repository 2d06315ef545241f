//! The keys of one retrieval: as the client wrote them, as servers see them, and who was asked for each.

/// Keys in the client's order, in one piece of memory that serves one request after another.
#[derive(Debug, Default)]
pub(crate) struct KeyList {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    asked: (u32, u32),
    sent: (u32, u32),
    pool: u16,
    part: u16,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    /// As the client wrote it.
    pub(crate) asked: &'a [u8],
    /// As its server sees it.
    pub(crate) sent: &'a [u8],
    /// The pool it belongs to.
    pub(crate) pool: usize,
    /// The part of the request that looks for it.
    pub(crate) part: u16,
}

/// The keys of a part, one after the other.
#[derive(Debug)]
pub(crate) struct Spoken<'a> {
    list: &'a KeyList,
    at: usize,
    part: u16,
}

impl<'a> Iterator for Spoken<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some(span) = self.list.spans.get(self.at) {
            self.at += 1;
            if span.part == self.part {
                return Some(self.list.cut(span.sent));
            }
        }
        None
    }
}

/// The part of a key that nobody has been asked for.
pub(crate) const NO_PART: u16 = u16::MAX;

impl KeyList {
    /// Forgets all keys, and gives back memory beyond `keep` bytes.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        self.spans.clear();
        if self.bytes.capacity() > keep {
            self.bytes = Vec::new();
            self.spans = Vec::new();
        }
    }

    /// Appends a key; `add` goes before it, `strip` bytes of it are taken off, before a server sees it.
    pub(crate) fn push(&mut self, key: &[u8], pool: usize, strip: usize, add: &[u8]) {
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
        self.spans.push(Span { asked, sent, pool: pool as u16, part: NO_PART });
    }

    /// Appends a key that servers see as the client wrote it, and that this part looks for.
    pub(crate) fn push_for(&mut self, key: &[u8], pool: usize, part: u16) {
        self.push(key, pool, 0, b"");
        if let Some(span) = self.spans.last_mut() {
            span.part = part;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn get(&self, place: usize) -> Key<'_> {
        self.of_span(&self.spans[place])
    }

    fn of_span(&self, span: &Span) -> Key<'_> {
        let (pool, part) = (usize::from(span.pool), span.part);
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
        self.spans.iter().filter(|span| span.part == part).count()
    }

    /// The keys of one part, as its server sees them.
    pub(crate) fn of(&self, part: u16) -> Spoken<'_> {
        Spoken { list: self, at: 0, part }
    }

    pub(crate) fn assign(&mut self, place: usize, part: u16) {
        self.spans[place].part = part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_both_its_names() {
        let mut keys = KeyList::default();
        keys.push(b"user:1", 0, 0, b"");
        keys.push(b"user:2", 1, 5, b"");
        keys.push(b"user:3", 2, 5, b"u/");
        let names: Vec<_> =
            keys.iter().map(|key| (key.asked.to_vec(), key.sent.to_vec(), key.pool)).collect();
        assert_eq!(names[0], (b"user:1".to_vec(), b"user:1".to_vec(), 0));
        assert_eq!(names[1], (b"user:2".to_vec(), b"2".to_vec(), 1));
        assert_eq!(names[2], (b"user:3".to_vec(), b"u/3".to_vec(), 2));
        keys.assign(1, 0);
        keys.assign(2, 0);
        assert_eq!(keys.of(0).collect::<Vec<_>>(), [&b"2"[..], b"u/3"]);
        assert_eq!((keys.count_of(0), keys.count_of(NO_PART)), (2, 1));
    }
}
