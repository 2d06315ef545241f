//! Where the messages of a tube begin that are still there.
//!
//! Leases and deletions leave entries at the beginning of a tube's index. They go when no session
//! can see them any more, and stay as long as another session keeps its snapshot; until then each
//! lease reads over all of them. So a low-water mark is kept of each priority in a tube: below it
//! everything was given out. To look from a mark costs some twenty microseconds, so there are none
//! where few entries are read.
//!
//! New messages come behind the mark, since their numbers rise. Those that come back with the
//! number they had are in an index of their own. What remains is a message whose transaction took
//! longer than a mark needs to settle, or a lease that was undone: for these the whole tube is
//! looked through now and then.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Marks of a tube are kept where so many entries are read until its first message is found, and no
/// longer where they are fewer than half of that.
const MANY_ENTRIES: i64 = 100;
/// Counting them may take one part in so many of the time, of so many tubes at once.
const COUNT_SHARE: u32 = 50;
const COUNTED_AT_ONCE: usize = 16;
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
    /// What that will be, if no smaller number is given out until then; and since when.
    settling: (i64, Instant),
}

/// The marks of a tube.
#[derive(Debug, Default)]
struct TubeMarks {
    by_priority: BTreeMap<i64, Mark>,
    /// When it was last looked through as a whole; none: not yet.
    whole_at: Option<Instant>,
    /// Something is there that was not taken, perhaps below a mark.
    has_more: bool,
}

/// The parts of tubes that may have messages, as columns: from a place, which is a priority and a
/// number, to below another priority.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TubeParts<'a> {
    pub(super) tubes: Vec<&'a str>,
    pub(super) priorities: Vec<i64>,
    pub(super) ids: Vec<i64>,
    pub(super) below: Vec<i64>,
    /// Tubes with marks of which one part is all, because they are due.
    pub(super) whole: Vec<&'a str>,
    /// Whether some tube need not be looked through as a whole.
    pub(super) marked: bool,
}

impl<'a> TubeParts<'a> {
    /// A tube from its marks on; as a whole, where it has none.
    fn push_tube(&mut self, tube: &'a str, marks: Option<&TubeMarks>) {
        let mut from = (-1, 0);
        for (priority, mark) in marks.iter().flat_map(|marks| &marks.by_priority) {
            self.push(tube, from, *priority);
            from = (*priority, mark.settled);
            self.marked = true;
        }
        self.push(tube, from, i64::MAX);
    }

    fn push(&mut self, tube: &'a str, (priority, id): (i64, i64), below: i64) {
        self.tubes.push(tube);
        self.priorities.push(priority);
        self.ids.push(id);
        self.below.push(below);
    }
}

/// Low-water marks of tubes, of those where it is worth keeping some.
#[derive(Debug, Default)]
pub(crate) struct LowWaterMarks {
    tubes: HashMap<Arc<str>, TubeMarks>,
    /// No tube is looked through as a whole before, unless something must be there.
    whole_from: Option<Instant>,
    /// Tubes that were asked for their first message since entries were counted, and when they are
    /// counted again.
    asked: HashSet<Arc<str>>,
    count_from: Option<Instant>,
}

impl LowWaterMarks {
    /// This tube was asked for its first message.
    pub(super) fn asked(&mut self, tube: &str) {
        if self.asked.len() < COUNTED_AT_ONCE && !self.asked.contains(tube) {
            self.asked.insert(tube.into());
        }
    }

    /// Takes the tubes of which entries are to be counted now.
    pub(super) fn take_asked(&mut self, now: Instant) -> Vec<Arc<str>> {
        if self.count_from.is_some_and(|from| now < from) {
            return Vec::new();
        }
        self.asked.drain().collect()
    }

    /// Of each tube so many entries were read until its first message was found; counting took so
    /// long.
    pub(super) fn counted<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a str, i64)>,
        took: Duration,
        now: Instant,
    ) {
        self.count_from = Some(now + took * COUNT_SHARE);
        for (tube, entries) in entries {
            if entries < MANY_ENTRIES / 2 {
                self.tubes.remove(tube);
            } else if entries >= MANY_ENTRIES && !self.tubes.contains_key(tube) {
                if self.tubes.len() >= MOST_TUBES {
                    self.tubes.clear();
                }
                self.tubes.insert(tube.into(), TubeMarks::default());
            }
        }
    }

    /// Where to look for the first messages of these tubes. None: everywhere, as none of them has
    /// marks.
    pub(super) fn parts<'a>(
        &self,
        tubes: impl IntoIterator<Item = &'a str>,
        now: Instant,
    ) -> Option<TubeParts<'a>> {
        if self.tubes.is_empty() {
            return None;
        }
        let (mut parts, mut seen) = (TubeParts::default(), HashSet::new());
        for tube in tubes.into_iter().filter(|tube| seen.insert(*tube)) {
            match self.tubes.get(tube) {
                Some(marks) if self.is_due(marks, now) => {
                    parts.whole.push(tube);
                    parts.push_tube(tube, None);
                }
                marks => parts.push_tube(tube, marks),
            }
        }
        (parts.marked || !parts.whole.is_empty()).then_some(parts)
    }

    /// Where the first messages of these tubes are, but for one that is below a mark: for what need
    /// not be exact.
    pub(super) fn parts_from_marks<'a>(&self, tubes: impl IntoIterator<Item = &'a str>) -> TubeParts<'a> {
        let mut parts = TubeParts::default();
        tubes.into_iter().for_each(|tube| parts.push_tube(tube, self.tubes.get(tube)));
        parts
    }

    /// Whether a tube is to be looked through as a whole.
    fn is_due(&self, marks: &TubeMarks, now: Instant) -> bool {
        let rests = |at: Instant| now.duration_since(at) < WHOLE_AFTER;
        let may = self.whole_from.is_none_or(|from| now >= from);
        marks.has_more || marks.whole_at.is_none_or(|at| !rests(at) && may)
    }

    /// These tubes were looked through as a whole, which took so long, and this was the last
    /// message of each that was given out. One that was before a mark hides what is behind it:
    /// the tube stays due.
    pub(super) fn looked_through(
        &mut self,
        tubes: &[&str],
        last: impl Fn(&str) -> Option<(i64, i64)>,
        took: Duration,
        now: Instant,
    ) {
        if tubes.is_empty() {
            return;
        }
        self.whole_from = Some(now + took * WHOLE_SHARE);
        for tube in tubes {
            let Some(marks) = self.tubes.get_mut(*tube) else { continue };
            marks.has_more = false;
            let last = last(tube);
            let behind =
                |(priority, mark): (&i64, &Mark)| last.is_none_or(|last| (*priority, mark.settled) <= last);
            if marks.by_priority.iter().all(behind) {
                marks.whole_at = Some(now);
            }
        }
    }

    /// Something is there that a look through this whole tube has found and left.
    pub(super) fn has_more(&mut self, tube: &str) {
        if let Some(marks) = self.tubes.get_mut(tube) {
            marks.has_more = true;
        }
    }

    /// This message was stored: its transaction may have begun before a mark had settled.
    pub(super) fn was_stored(&mut self, tube: &str, (priority, id): (i64, i64), now: Instant) {
        let mark = self.tubes.get_mut(tube).and_then(|marks| marks.by_priority.get_mut(&priority));
        if let Some(mark) = mark {
            mark.lower(id, now);
        }
    }

    /// This message was the first of its tube, and was given out.
    pub(super) fn gave_out(&mut self, tube: &str, (priority, id): (i64, i64), now: Instant) {
        let Some(marks) = self.tubes.get_mut(tube).filter(|marks| marks.whole_at.is_some()) else { return };
        let mark = marks.by_priority.entry(priority).or_insert(Mark { settled: 0, settling: (id, now) });
        mark.lower(id, now);
        if now.duration_since(mark.settling.1) >= SETTLES {
            mark.settled = mark.settling.0;
            mark.settling = (id, now);
        }
        if marks.by_priority.len() > MOST_PRIORITIES {
            self.tubes.remove(tube);
        }
    }
}

impl Mark {
    /// This number is there, or was until now: there may be others behind it.
    fn lower(&mut self, id: i64, now: Instant) {
        self.settled = self.settled.min(id);
        if id < self.settling.0 {
            self.settling = (id, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks of these tubes, which were looked through.
    fn kept(tubes: &[&str], now: Instant) -> LowWaterMarks {
        let mut marks = LowWaterMarks::default();
        marks.counted(tubes.iter().map(|tube| (*tube, MANY_ENTRIES)), Duration::ZERO, now);
        marks.looked_through(tubes, |_| None, Duration::ZERO, now);
        marks
    }

    /// Parts of one tube, as places and the priority below which they end.
    fn parts(marks: &LowWaterMarks, now: Instant) -> Vec<(i64, i64, i64)> {
        let parts = marks.parts(["t"], now).unwrap();
        let places = parts.priorities.into_iter().zip(parts.ids).zip(parts.below);
        places.map(|((priority, id), below)| (priority, id, below)).collect()
    }

    /// Tubes that are looked through as a whole.
    fn whole<'a>(marks: &LowWaterMarks, tubes: &[&'a str], now: Instant) -> Vec<&'a str> {
        marks.parts(tubes.iter().copied(), now).map_or(Vec::new(), |parts| parts.whole)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn where_few_entries_are_read_nothing_is_kept() {
        let (mut marks, now) = (LowWaterMarks::default(), Instant::now());
        assert!(marks.parts(["t"], now).is_none() && marks.take_asked(now).is_empty());
        (0..2).for_each(|_| marks.asked("t"));
        assert_eq!(marks.take_asked(now), ["t".into()]);
        assert!(marks.take_asked(now).is_empty(), "it was not asked since");
        marks.counted([("t", MANY_ENTRIES - 1)], SECOND, now);
        assert!(marks.tubes.is_empty());
        marks.asked("t");
        assert!(marks.take_asked(now + 49 * SECOND).is_empty());
        assert_eq!(marks.take_asked(now + 50 * SECOND).len(), 1);
        marks.counted([("t", MANY_ENTRIES), ("u", 1)], SECOND, now);
        assert_eq!(whole(&marks, &["t", "u"], now), ["t"]);
        for (entries, kept) in [(MANY_ENTRIES / 2, true), (MANY_ENTRIES / 2 - 1, false)] {
            marks.counted([("t", entries)], SECOND, now);
            assert_eq!(marks.tubes.contains_key("t"), kept);
        }
    }

    #[test]
    fn a_mark_rises_when_it_has_settled() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut marks = kept(&["t"], begin);
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
        assert_eq!(parts(&marks, at(2_200)), [(-1, 0, 2), (2, 50, 5), (5, 200, i64::MAX)]);
    }

    /// Many that were stored together and came late are given out one by one, and none is passed.
    #[test]
    fn no_mark_settles_above_one_that_came_late() {
        let begin = Instant::now();
        let mut marks = kept(&["t"], begin);
        marks.gave_out("t", (5, 1_100), begin);
        for step in 0..90_u32 {
            let now = begin + step * Duration::from_millis(100);
            marks.gave_out("t", (5, 100 + i64::from(step)), now);
            let [_, (_, settled, _)] = parts(&marks, now)[..] else { panic!("two parts") };
            assert!(settled <= 100 + i64::from(step), "{settled} at step {step}");
        }
        // What this broker stores itself lowers a mark that has settled.
        marks.was_stored("t", (5, 40), begin + 9 * SECOND);
        assert_eq!(parts(&marks, begin + 9 * SECOND), [(-1, 0, 5), (5, 40, i64::MAX)]);
        marks.gave_out("t", (5, 190), begin + 9 * SECOND + SETTLES);
        assert_eq!(parts(&marks, begin + 9 * SECOND), [(-1, 0, 5), (5, 40, i64::MAX)]);
    }

    #[test]
    fn a_tube_is_looked_through_now_and_then_in_a_small_part_of_the_time() {
        let begin = Instant::now();
        let (mut marks, later) = (kept(&["t", "u"], begin), begin + WHOLE_AFTER);
        assert!(whole(&marks, &["t"], later - Duration::from_millis(1)).is_empty());
        assert_eq!(whole(&marks, &["t", "u", "t"], later), ["t", "u"]);
        marks.looked_through(&["t"], |_| None, SECOND, later);
        assert!(whole(&marks, &["u"], later + 29 * SECOND).is_empty());
        assert_eq!(whole(&marks, &["u"], later + 30 * SECOND), ["u"]);
    }

    /// What a look through a whole tube leaves is looked for again, at once where it is known that
    /// something is there.
    #[test]
    fn a_tube_stays_due_until_nothing_is_left_below_its_marks() {
        let begin = Instant::now();
        let mut marks = kept(&["t"], begin);
        for second in 0..5 {
            marks.gave_out("t", (5, 100 + i64::from(second)), begin + second * SECOND);
        }
        let later = begin + WHOLE_AFTER;
        let due = |marks: &LowWaterMarks| whole(marks, &["t"], later) == ["t"];
        for (last, stays) in [(Some((1, 7)), true), (Some((5, 20)), true), (Some((5, 104)), false)] {
            assert!(due(&marks));
            marks.looked_through(&["t"], |_| last, Duration::ZERO, later);
            assert_eq!(due(&marks), stays, "{last:?}");
        }
        marks.has_more("t");
        assert!(due(&marks));
        marks.looked_through(&["t"], |_| Some((5, 20)), SECOND, later);
        assert!(whole(&marks, &["t"], later + SECOND).is_empty(), "it may not take more time");
        marks.gave_out("t", (5, 20), later);
        let [_, (_, settled, _)] = parts(&marks, later)[..] else { panic!("two parts") };
        assert_eq!(settled, 20);
    }

    #[test]
    fn a_tube_with_a_priority_for_each_message_has_no_marks() {
        let now = Instant::now();
        let mut marks = kept(&["t"], now);
        (0..=MOST_PRIORITIES as i64).for_each(|priority| marks.gave_out("t", (priority, 9), now));
        assert!(marks.tubes.is_empty());
    }
}
