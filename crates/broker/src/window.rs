//! One line of messages, of which perhaps only the first are in memory.
//!
//! ```text
//!            in memory                     only in the store
//!  first ▶ [k][k][k][k] … [k]  │  from ▶  · · · · · · · ·  beyond: how many
//! ```
//!
//! Everything before `from` is here, everything from there on is not. So a message that comes is
//! either in its place here or counted, and a client that takes from the front never has to ask
//! whether something was left out.

use std::collections::BTreeSet;

/// What is first in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstKey<K> {
    /// This one.
    Is(K),
    /// One that must be read from the store; it is not before this place.
    Beyond(K),
    /// The line is empty.
    Nothing,
}

impl<K> FirstKey<K> {
    /// The first, if it is known; a client that asks has had the line read before.
    pub(crate) fn here(self) -> Option<K> {
        match self {
            Self::Is(key) => Some(key),
            Self::Beyond(_) | Self::Nothing => None,
        }
    }
}

/// The first part of a line, and how long the rest is.
#[derive(Debug)]
pub(crate) struct KeyWindow<K> {
    here: BTreeSet<K>,
    beyond: u64,
    /// Where the rest begins, if there is one.
    from: Option<K>,
    /// With so few here it is time to read on.
    low: usize,
}

impl<K> Default for KeyWindow<K> {
    fn default() -> Self {
        Self { here: BTreeSet::new(), beyond: 0, from: None, low: 0 }
    }
}

impl<K: Ord + Copy> KeyWindow<K> {
    /// How many are in the line, wherever they are.
    pub(crate) fn len(&self) -> u64 {
        self.here.len() as u64 + self.beyond
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn first(&self) -> FirstKey<K> {
        match (self.here.first(), self.from) {
            (Some(key), _) => FirstKey::Is(*key),
            (None, Some(from)) => FirstKey::Beyond(from),
            (None, None) => FirstKey::Nothing,
        }
    }

    /// The first, if it is here.
    pub(crate) fn first_here(&self) -> Option<K> {
        self.here.first().copied()
    }

    /// The first from `key` on, if it is here.
    pub(crate) fn first_from(&self, key: K) -> Option<K> {
        self.here.range(key..).next().copied()
    }

    pub(crate) fn here(&self) -> impl Iterator<Item = K> + '_ {
        self.here.iter().copied()
    }

    pub(crate) fn count_here(&self) -> usize {
        self.here.len()
    }

    pub(crate) fn holds(&self, key: K) -> bool {
        self.here.contains(&key)
    }

    /// Where the rest begins that is only in the store; none if all are here.
    pub(crate) fn rest(&self) -> Option<K> {
        self.from
    }

    /// Whether so many, or all there are, are here.
    pub(crate) fn has(&self, count: usize) -> bool {
        self.from.is_none() || self.here.len() >= count
    }

    /// Whether it is time to read on.
    pub(crate) fn is_low(&self) -> bool {
        self.from.is_some() && self.here.len() <= self.low
    }

    /// One more; whether it is among those that are here.
    pub(crate) fn insert(&mut self, key: K) -> bool {
        if self.from.is_some_and(|from| from <= key) {
            self.beyond += 1;
            return false;
        }
        self.here.insert(key);
        true
    }

    /// One less, wherever it was.
    pub(crate) fn remove(&mut self, key: K) {
        if !self.here.remove(&key) {
            self.less_beyond();
        }
    }

    /// The last of those that are here is counted from now on.
    pub(crate) fn cut(&mut self) -> Option<K> {
        let key = self.here.pop_last()?;
        self.beyond += 1;
        self.from = Some(key);
        self.low = self.low.max(self.here.len() / 2);
        Some(key)
    }

    /// So many are in the line, and none of them is here.
    pub(crate) fn unread(&mut self, least: K, count: u64) {
        self.beyond += count;
        self.from = Some(least).filter(|_| self.beyond > 0);
    }

    /// One of the rest has been read, or was here beside the line: it is in its place from now on.
    pub(crate) fn read(&mut self, key: K) {
        if self.here.insert(key) {
            self.beyond = self.beyond.saturating_sub(1);
        }
    }

    /// The rest has been read up to here, or to its end; `count` of it. How many were counted that
    /// are not there.
    pub(crate) fn read_up_to(&mut self, end: Option<K>, count: usize) -> u64 {
        let missing = if end.is_none() { std::mem::take(&mut self.beyond) } else { 0 };
        // Meanwhile all may have gone, and others come and been cut.
        self.from = end.max(self.from.filter(|_| end.is_some())).filter(|_| self.beyond > 0);
        self.low = count / 2;
        missing
    }

    fn less_beyond(&mut self) {
        debug_assert!(self.beyond > 0, "what is not here was counted");
        self.beyond = self.beyond.saturating_sub(1);
        if self.beyond == 0 {
            self.from = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_behind_the_cut_is_only_counted() {
        let mut line = KeyWindow::default();
        for key in [1, 2, 3] {
            assert!(line.insert(key));
        }
        assert_eq!(line.cut(), Some(3));
        assert!(!line.insert(4) && !line.insert(3) && line.insert(0));
        assert_eq!((line.len(), line.count_here(), line.rest()), (6, 3, Some(3)));
        assert!(line.has(3) && !line.has(4));
    }

    #[test]
    fn the_first_is_known_as_long_as_anything_is_here() {
        let mut line = KeyWindow::default();
        assert_eq!(line.first(), FirstKey::Nothing);
        line.unread(0, 2);
        assert_eq!(line.first(), FirstKey::Beyond(0));
        line.read(5);
        assert_eq!(line.read_up_to(Some(6), 1), 0);
        assert_eq!((line.first(), line.rest()), (FirstKey::Is(5), Some(6)));
        line.remove(5);
        assert_eq!(line.first(), FirstKey::Beyond(6));
        line.remove(7);
        assert_eq!((line.first(), line.rest()), (FirstKey::Nothing, None));
    }

    #[test]
    fn a_line_that_was_read_to_its_end_holds_what_was_read() {
        let mut line = KeyWindow::default();
        line.unread(0, 3);
        line.read(1);
        assert_eq!(line.read_up_to(None, 1), 2, "another reader has taken two");
        assert_eq!((line.len(), line.rest()), (1, None));
    }
}
