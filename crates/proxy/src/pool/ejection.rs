//! Which member of a pool is so slow that it had better not be read for a while.

use krarup_units::{Nanos, Stamp};

/// Over which time the members' answers are summed up before they are compared.
const PERIOD: Nanos = Nanos::from_secs(1);
/// A mean of fewer answers says nothing.
const LEAST_READS: u64 = 50;

/// How long members take for reads.
#[derive(Debug)]
pub(super) struct SlowMembers {
    /// Slow is what takes so many times as long as the median of the others.
    factor: f64,
    begun: Option<Stamp>,
    /// Of reads that found nothing, and of those that found what they asked for.
    times: [Vec<ReadTimes>; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct ReadTimes {
    reads: u64,
    sum: u64,
}

impl ReadTimes {
    /// Nanoseconds a read; none of too few.
    fn mean(self) -> Option<f64> {
        (self.reads >= LEAST_READS).then(|| self.sum as f64 / self.reads as f64)
    }
}

/// The members that had enough of such reads, with their mean times; all begin from nothing.
fn take_means(times: &mut Vec<ReadTimes>) -> Vec<(usize, f64)> {
    times.drain(..).enumerate().filter_map(|(place, times)| Some((place, times.mean()?))).collect()
}

impl SlowMembers {
    pub(super) fn new(factor: f64) -> Self {
        Self { factor, begun: None, times: [Vec::new(), Vec::new()] }
    }

    /// The member at `place` took so long for a read, and whether it has `found` what was asked
    /// for. Returns whether a period is over, after which [`Self::slowest`] is to be asked.
    pub(super) fn took(&mut self, place: usize, time: Nanos, found: bool, now: Stamp) -> bool {
        let times = &mut self.times[usize::from(found)];
        if times.len() <= place {
            times.resize(place + 1, ReadTimes::default());
        }
        times[place].reads += 1;
        times[place].sum += time.0;
        now.0.saturating_sub(self.begun.get_or_insert(now).0) >= PERIOD.0
    }

    /// The slowest member of the period, if it is slow; a new period begins.
    pub(super) fn slowest(&mut self) -> Option<usize> {
        self.begun = None;
        let [missed, found] = self.times.each_mut().map(take_means);
        // One that has nothing yet answers sooner, and one that has everything is busy with that.
        let means = if found.is_empty() { missed } else { found };
        let &(slowest, longest) = means.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        let mut others: Vec<f64> =
            means.iter().filter(|&&(place, _)| place != slowest).map(|&(_, mean)| mean).collect();
        others.sort_by(f64::total_cmp);
        // Of an even number the upper one: it takes more to be slow.
        let median = others.get(others.len() / 2)?;
        (longest > self.factor * median).then_some(slowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slowest of members whose reads took so long, as many of each as are given.
    fn slowest(factor: f64, members: &[(u64, u64)]) -> Option<usize> {
        let mut times = SlowMembers::new(factor);
        for (place, &(reads, micros)) in members.iter().enumerate() {
            took(&mut times, place, reads, micros, true);
        }
        times.slowest()
    }

    /// So many reads, within the period.
    fn took(times: &mut SlowMembers, place: usize, reads: u64, micros: u64, found: bool) {
        let time = Nanos::from_micros(micros);
        (0..reads).for_each(|_| assert!(!times.took(place, time, found, Stamp(5))));
    }

    #[test]
    fn what_finds_nothing_is_compared_only_where_no_member_finds_enough() {
        for (found, expected) in [(49, Some(0)), (50, None)] {
            let mut times = SlowMembers::new(3.0);
            took(&mut times, 0, found, 430, true);
            took(&mut times, 0, 50, 350, false);
            took(&mut times, 1, 50, 100, false);
            assert_eq!(times.slowest(), expected, "{found} reads have found something");
            assert_eq!(times.slowest(), None, "the next period begins from nothing");
        }
    }

    #[test]
    fn slow_is_so_many_times_the_median_of_the_others() {
        for (members, expected) in [
            (&[(50, 100), (50, 301), (50, 100)][..], Some(1)),
            (&[(50, 100), (50, 300), (50, 100)], None),
            // Of two, the other; of an even number of others, the slower of the middle.
            (&[(50, 100), (50, 301)], Some(1)),
            (&[(50, 90), (50, 100), (50, 301)], Some(2)),
            (&[(50, 90), (50, 101), (50, 301)], None),
            // Two that are slow: the slower, beside the median of the rest.
            (&[(50, 100), (50, 100), (50, 100), (50, 900), (50, 800)], Some(3)),
            // Too few reads say nothing: not of one that would be slow, nor without another.
            (&[(50, 100), (49, 900), (50, 100)], None),
            (&[(50, 900)], None),
            (&[], None),
        ] {
            assert_eq!(slowest(3.0, members), expected, "{members:?}");
        }
    }

    #[test]
    fn a_period_is_over_after_a_second_and_the_next_begins_from_nothing() {
        let mut times = SlowMembers::new(2.0);
        let begun = Stamp(77);
        for read in 0..50 {
            assert!(!times.took(0, Nanos(1), true, Stamp(begun.0 + read)));
            assert!(!times.took(1, Nanos(10), true, Stamp(begun.0 + read)));
        }
        assert!(!times.took(0, Nanos(1), true, Stamp(begun.0 + PERIOD.0 - 1)));
        assert!(times.took(0, Nanos(1), true, Stamp(begun.0 + PERIOD.0)));
        assert_eq!((times.slowest(), times.slowest()), (Some(1), None));
    }
}
