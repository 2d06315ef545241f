//! Where the messages of a tube begin that are still there.
//!
//! Leases and deletions leave entries at the beginning of a tube's index. They go when no session
//! can see them any more, and stay as long as another session keeps its snapshot; until then each
//! lease reads over all of them. So a low-water mark is kept of each priority in a tube: below it
//! everything was given out. To look from a mark costs some twenty microseconds, so there are none
//! where few entries are read.
//!
//! New messages come behind the mark, since their numbers rise. Those that come back with the number
//! they had are in an index of their own. What remains is a message whose transaction took longer
//! than a mark needs to settle, or a lease that was undone: for these the whole tube is looked
//! through now and then.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Marks are kept where so many entries are read until the first message is found, and no longer
/// where they are fewer than half of that.
const MANY_ENTRIES: i64 = 100;
/// Counting them may take one part in so many of the time.
const PROBE_SHARE: u32 = 50;
/// How long a mark takes to settle: transactions that store a message are shorter.
const SETTLES: Duration = Duration::from_millis(500);
/// After this time a tube is looked through as a whole.
const WHOLE_AFTER: Duration = Duration::from_secs(10);
/// Looking through whole tubes may take one part in so many of the time.
const WHOLE_SHARE: u32 = 30;
/// Priorities of a tube, and tubes, that have marks.
const MOST_PRIORITIES: usize = 16;
const MOST_TUBES: usize = 10_000;

/// The mark of one priority.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The least number that may still be there.
    settled: i64,
    /// What it will be when it has settled, and since when that is known.
    settling: (i64, Instant),
    /// The largest number that was given out.
    latest: i64,
}

/// The marks of a tube.
#[derive(Debug)]
struct TubeMarks {
    by_priority: BTreeMap<i64, Mark>,
    /// When it was last looked through as a whole.
    whole_at: Instant,
}

/// The parts of tubes that may have messages, as columns: from a place, which is a priority and a
/// number, to below another priority.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TubeParts<'a> {
    pub(super) tubes: Vec<&'a str>,
    pub(super) priorities: Vec<i64>,
    pub(super) ids: Vec<i64>,
    pub(super) below: Vec<i64>,
    /// Tubes of which one part is all.
    pub(super) whole: Vec<&'a str>,
}

impl<'a> TubeParts<'a> {
    /// Whether some tube need not be looked through as a whole.
    pub(super) fn have_marks(&self) -> bool {
        self.whole.len() < self.tubes.len()
    }

    fn push(&mut self, tube: &'a str, (priority, id): (i64, i64), below: i64) {
        self.tubes.push(tube);
        self.priorities.push(priority);
        self.ids.push(id);
        self.below.push(below);
    }
}

/// Low-water marks of all tubes, while it is worth to keep some.
#[derive(Debug, Default)]
pub(crate) struct LowWaterMarks {
    tubes: HashMap<Arc<str>, TubeMarks>,
    /// Whether there are enough entries of messages that are gone.
    kept: bool,
    /// The tube that was asked for last, and when entries are counted again.
    asked: Option<Arc<str>>,
    probe_from: Option<Instant>,
    /// No tube that has marks is looked through as a whole before.
    whole_from: Option<Instant>,
}

impl LowWaterMarks {
    /// This tube was asked for its first message.
    pub(super) fn asked(&mut self, tube: &str) {
        if self.asked.as_deref() != Some(tube) {
            self.asked = Some(tube.into());
        }
    }

    /// The tube of which entries are to be counted now.
    pub(super) fn to_probe(&self, now: Instant) -> Option<Arc<str>> {
        self.asked.clone().filter(|_| self.probe_from.is_none_or(|from| now >= from))
    }

    /// So many entries were read until its first message was found, which took so long.
    pub(super) fn probed(&mut self, entries: i64, took: Duration, now: Instant) {
        self.probe_from = Some(now + took * PROBE_SHARE);
        self.kept = entries >= if self.kept { MANY_ENTRIES / 2 } else { MANY_ENTRIES };
        if !self.kept {
            self.tubes.clear();
        }
    }

    /// Where to look for the first messages of these tubes; none: everywhere, as there are no marks.
    pub(super) fn parts<'a>(
        &self,
        tubes: impl IntoIterator<Item = &'a str>,
        now: Instant,
    ) -> Option<TubeParts<'a>> {
        if !self.kept {
            return None;
        }
        let mut parts = TubeParts::default();
        for tube in tubes {
            if parts.tubes.contains(&tube) {
                continue;
            }
            let (mut from, marks) = ((-1, 0), self.tubes.get(tube));
            match marks {
                Some(marks) if !self.is_due(marks, now) => {
                    for (priority, mark) in &marks.by_priority {
                        parts.push(tube, from, *priority);
                        from = (*priority, mark.settled);
                    }
                }
                _ => parts.whole.push(tube),
            }
            parts.push(tube, from, i64::MAX);
        }
        Some(parts)
    }

    /// Whether a tube is to be looked through as a whole.
    fn is_due(&self, marks: &TubeMarks, now: Instant) -> bool {
        now.duration_since(marks.whole_at) >= WHOLE_AFTER && self.whole_from.is_none_or(|from| now >= from)
    }

    /// These tubes were looked through as a whole, which took so long.
    pub(super) fn looked_through(&mut self, tubes: &[&str], took: Duration, now: Instant) {
        if tubes.is_empty() || !self.kept {
            return;
        }
        self.whole_from = Some(now + took * WHOLE_SHARE);
        if self.tubes.len() + tubes.len() > MOST_TUBES {
            self.tubes.clear();
        }
        for tube in tubes {
            match self.tubes.get_mut(*tube) {
                Some(marks) => marks.whole_at = now,
                None => {
                    let marks = TubeMarks { by_priority: BTreeMap::new(), whole_at: now };
                    self.tubes.insert((*tube).into(), marks);
                }
            }
        }
    }

    /// This message was stored: its transaction may have begun before a mark had settled.
    pub(super) fn came(&mut self, tube: &str, (priority, id): (i64, i64)) {
        let mark = self.tubes.get_mut(tube).and_then(|marks| marks.by_priority.get_mut(&priority));
        if let Some(mark) = mark {
            mark.settled = mark.settled.min(id);
            mark.settling.0 = mark.settling.0.min(id);
        }
    }

    /// This message was the first of its tube, and was given out.
    pub(super) fn gave_out(&mut self, tube: &str, (priority, id): (i64, i64), now: Instant) {
        // A tube that was never looked through as a whole has no marks.
        let Some(marks) = self.tubes.get_mut(tube) else { return };
        let fresh = Mark { settled: 0, settling: (id, now), latest: id };
        let mark = marks.by_priority.entry(priority).or_insert(fresh);
        if id < mark.settled {
            // One that had stayed behind: there may be more.
            *mark = fresh;
        }
        mark.latest = mark.latest.max(id);
        if now.duration_since(mark.settling.1) >= SETTLES {
            mark.settled = mark.settling.0;
            mark.settling = (mark.latest, now);
        }
        if marks.by_priority.len() > MOST_PRIORITIES {
            self.tubes.remove(tube);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn kept() -> LowWaterMarks {
        let mut marks = LowWaterMarks::default();
        marks.probed(MANY_ENTRIES, Duration::ZERO, Instant::now());
        marks
    }

    /// Parts of one tube, as places and the priority below which they end.
    fn parts(marks: &LowWaterMarks, now: Instant) -> Vec<(i64, i64, i64)> {
        let parts = marks.parts(["t"], now).unwrap();
        let places = parts.priorities.into_iter().zip(parts.ids).zip(parts.below);
        places.map(|((priority, id), below)| (priority, id, below)).collect()
    }

    const ALL: (i64, i64, i64) = (-1, 0, i64::MAX);

    #[test]
    fn where_few_entries_are_read_nothing_is_kept() {
        let (mut marks, now) = (LowWaterMarks::default(), Instant::now());
        assert!(marks.parts(["t"], now).is_none() && marks.to_probe(now).is_none());
        marks.asked("t");
        assert_eq!(marks.to_probe(now).as_deref(), Some("t"));
        marks.probed(MANY_ENTRIES, Duration::from_secs(1), now);
        assert!(marks.to_probe(now + Duration::from_secs(49)).is_none());
        assert!(marks.to_probe(now + Duration::from_secs(50)).is_some());
        marks.looked_through(&["t"], Duration::ZERO, now);
        marks.gave_out("t", (5, 100), now);
        for (entries, kept) in
            [(MANY_ENTRIES / 2, true), (MANY_ENTRIES / 2 - 1, false), (MANY_ENTRIES - 1, false)]
        {
            marks.probed(entries, Duration::ZERO, now);
            assert_eq!((marks.parts(["t"], now).is_some(), marks.tubes.len()), (kept, kept.into()));
        }
    }

    #[test]
    fn a_mark_rises_when_it_has_settled() {
        let (mut marks, begin) = (kept(), Instant::now());
        let at = |millis| begin + Duration::from_millis(millis);
        assert_eq!(marks.parts(["t"], begin).unwrap().whole, ["t"]);
        marks.gave_out("t", (5, 90), begin);
        assert_eq!(parts(&marks, begin), [ALL], "it was never looked through as a whole");
        marks.looked_through(&["t"], Duration::ZERO, begin);
        for (millis, id, settled) in [
            (0, 100, 0),
            (499, 150, 0),
            (500, 160, 100),
            (600, 170, 100),
            (1_000, 200, 160),
            (1_600, 300, 200),
        ] {
            marks.gave_out("t", (5, id), at(millis));
            assert_eq!(parts(&marks, at(millis)), [(-1, 0, 5), (5, settled, i64::MAX)], "{millis} ms");
        }
        // Another priority has a mark of its own, and what lies between is looked through.
        marks.gave_out("t", (2, 50), at(1_600));
        marks.gave_out("t", (2, 60), at(2_200));
        let three = [(-1, 0, 2), (2, 50, 5), (5, 200, i64::MAX)];
        assert_eq!(parts(&marks, at(2_200)), three);
    }

    #[test]
    fn a_tube_is_looked_through_now_and_then_in_a_small_part_of_the_time() {
        let (mut marks, begin) = (kept(), Instant::now());
        marks.looked_through(&["t", "u"], Duration::ZERO, begin);
        let later = begin + WHOLE_AFTER;
        assert!(marks.parts(["t"], later - Duration::from_millis(1)).unwrap().whole.is_empty());
        assert_eq!(marks.parts(["t", "u", "t"], later).unwrap().whole, ["t", "u"]);
        marks.looked_through(&["t"], Duration::from_secs(1), later);
        assert!(marks.parts(["u"], later + Duration::from_secs(29)).unwrap().whole.is_empty());
        assert_eq!(marks.parts(["u"], later + Duration::from_secs(30)).unwrap().whole, ["u"]);
        // A tube without marks is looked through whenever it is asked for.
        assert_eq!(marks.parts(["v"], later).unwrap().whole, ["v"]);
    }

    #[test]
    fn one_that_stayed_behind_lowers_the_mark() {
        let (mut marks, begin) = (kept(), Instant::now());
        marks.looked_through(&["t"], Duration::ZERO, begin);
        for second in 0..10 {
            marks.gave_out("t", (5, 100 + second as i64), begin + Duration::from_secs(second));
        }
        let now = begin + MINUTE;
        marks.gave_out("t", (5, 20), now);
        assert_eq!(parts(&marks, begin + Duration::from_secs(9)), [(-1, 0, 5), (5, 0, i64::MAX)]);
        marks.gave_out("t", (5, 21), now + SETTLES);
        assert_eq!(parts(&marks, begin), [(-1, 0, 5), (5, 20, i64::MAX)]);
    }

    #[test]
    fn one_that_took_long_to_store_lowers_the_mark() {
        let (mut marks, begin) = (kept(), Instant::now());
        marks.came("t", (5, 1));
        marks.looked_through(&["t"], Duration::ZERO, begin);
        for (id, second) in (100..).zip(0..10) {
            marks.gave_out("t", (5, id), begin + Duration::from_secs(second));
        }
        marks.came("t", (6, 50));
        assert_eq!(parts(&marks, begin), [(-1, 0, 5), (5, 108, i64::MAX)]);
        marks.came("t", (5, 103));
        assert_eq!(parts(&marks, begin), [(-1, 0, 5), (5, 103, i64::MAX)]);
        // And it does not settle above it before that one was given out.
        marks.gave_out("t", (5, 103), begin + MINUTE);
        assert_eq!(parts(&marks, begin), [(-1, 0, 5), (5, 103, i64::MAX)]);
    }

    #[test]
    fn a_tube_with_a_priority_for_each_message_has_no_marks() {
        let (mut marks, now) = (kept(), Instant::now());
        marks.looked_through(&["t"], Duration::ZERO, now);
        (0..=MOST_PRIORITIES as i64).for_each(|priority| marks.gave_out("t", (priority, 9), now));
        assert_eq!(marks.parts(["t"], now).unwrap().whole, ["t"]);
    }
}
