//! Keys that have changed a moment ago: what was read of them before is not stored any more.

use std::collections::HashSet;

use krarup_record::KeyDigest;
use krarup_units::{Nanos, Stamp};

/// So many keys of one span are kept; where there are more, every key counts as changed.
const MOST: usize = 10_000;

/// Keys that have changed: each for one span of time at least, and two at most.
#[derive(Debug, Default)]
pub(super) struct RecentChanges {
    /// When the span began.
    begun: Stamp,
    recent: ChangedKeys,
    /// Those of the span before.
    before: ChangedKeys,
}

#[derive(Debug, Default)]
struct ChangedKeys {
    keys: HashSet<KeyDigest>,
    every: bool,
}

impl ChangedKeys {
    fn clear(&mut self) {
        self.keys.clear();
        self.every = false;
    }
}

impl RecentChanges {
    /// A key changes; none: every key.
    pub(super) fn note(&mut self, key: Option<KeyDigest>, now: Stamp, span: Nanos) {
        self.turn(now, span);
        match key.filter(|_| self.recent.keys.len() < MOST) {
            Some(key) => _ = self.recent.keys.insert(key),
            None => self.recent.every = true,
        }
    }

    /// Whether a key has changed less than a span ago.
    pub(super) fn has(&mut self, key: KeyDigest, now: Stamp, span: Nanos) -> bool {
        self.turn(now, span);
        [&self.recent, &self.before].into_iter().any(|changed| changed.every || changed.keys.contains(&key))
    }

    /// Begins a new span where one is over.
    fn turn(&mut self, now: Stamp, span: Nanos) {
        let passed = now.0.saturating_sub(self.begun.0);
        if passed < span.0 {
            return;
        }
        std::mem::swap(&mut self.recent, &mut self.before);
        self.recent.clear();
        if passed / 2 >= span.0 {
            self.before.clear();
        }
        self.begun = now;
    }
}
