//! How long a request holds its worker, by what it saw when it was taken.
//!
//! The mean hold time while n workers are busy, n = 1, 2, …, is the curve T(n) of a flow-equivalent
//! server: the one measurement from which a closed network of held workers can be predicted
//! (Lazowska et al. 1984, chapter 8). A run with varying load gives the whole curve at once; the
//! sum of squares gives each point its interval, the server time beside it says how much of the
//! hold is the servers' and how much contention.

use krarup_units::{Nanos, Seconds};

use crate::tally::add;
use crate::visit::named;
use crate::{Operation, Parts, Visit};

/// From this level on, all levels are counted as this one.
pub const HIGHEST_LEVEL: usize = 4_096;

/// Hold times of the requests that saw one and the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Requests.
    pub count: u64,
    /// Sum of their hold times. See [`crate::stamps::HOLD_TIME`].
    pub hold: Nanos,
    /// Sum of the squares of their hold times, in ns². Stops at the largest number.
    pub hold_squares: u128,
    /// Sum of their server times.
    pub server: Nanos,
}

impl Hold {
    #[inline]
    fn add(&mut self, hold: Nanos, server: Nanos) {
        add(&mut self.count, 1);
        add(&mut self.hold.0, hold.0);
        self.hold_squares = self.hold_squares.saturating_add(u128::from(hold.0) * u128::from(hold.0));
        add(&mut self.server.0, server.0);
    }

    fn merge(&mut self, other: &Self) {
        add(&mut self.count, other.count);
        add(&mut self.hold.0, other.hold.0);
        self.hold_squares = self.hold_squares.saturating_add(other.hold_squares);
        add(&mut self.server.0, other.server.0);
    }

    /// The mean hold time. `None` without requests.
    pub fn mean(&self) -> Option<Seconds> {
        (self.count > 0).then(|| self.hold.as_seconds() / self.count as f64)
    }

    /// The standard deviation of the hold times. `None` with fewer than two requests.
    pub fn deviation(&self) -> Option<Seconds> {
        if self.count < 2 {
            return None;
        }
        let count = u128::from(self.count);
        // Whole numbers until the last step: squares of close values would cancel in floating
        // point.
        let squares = self.hold_squares.checked_mul(count)?;
        let spread = squares.checked_sub(u128::from(self.hold.0).checked_pow(2)?)?;
        Some((spread as f64 / (self.count as f64 * (self.count - 1) as f64)).sqrt() / 1e9)
    }
}

named! {
    /// What a request saw when a worker took it.
    Seen {
        /// Workers busy, its own included.
        BusyWorkers = "busy_workers",
        /// Requests still waiting in the queue.
        QueueLength = "queue_length",
    }
}

/// The requests of one operation that saw one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldRow {
    /// What they asked for.
    pub operation: Operation,
    /// What they saw.
    pub seen: Seen,
    /// How much of it: n. [`HIGHEST_LEVEL`] stands for itself and all above.
    pub level: usize,
    /// Whether their worker had been idle, and had to be woken, or came straight from another
    /// request.
    pub worker_was_idle: bool,
    /// Their hold times.
    pub hold: Hold,
}

/// Hold times by level: first of workers that came straight from another request, then of those
/// that were idle.
type Level = [Hold; 2];

/// For one operation and each thing seen: its levels from zero to the highest met.
type Levels = [Vec<Level>; Seen::COUNT];

/// Hold times by operation and what was seen. Memory grows with the highest level met, and only to
/// [`HIGHEST_LEVEL`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    operations: [Levels; Operation::COUNT],
}

impl Holds {
    /// Of no request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one visit, if a worker took it.
    #[inline]
    pub fn record(&mut self, visit: &Visit, parts: &Parts) {
        if visit.busy_workers == 0 {
            return;
        }
        let levels = &mut self.operations[visit.operation.index()];
        for (seen, level) in
            [(Seen::BusyWorkers, visit.busy_workers), (Seen::QueueLength, visit.queue_length)]
        {
            let level = level_of(&mut levels[seen.index()], level as usize);
            level[usize::from(visit.worker_was_idle)].add(visit.hold_time(), parts.server);
        }
    }

    /// Adds what others counted.
    pub fn merge(&mut self, other: &Self) {
        for row in other.rows() {
            let levels = &mut self.operations[row.operation.index()][row.seen.index()];
            level_of(levels, row.level)[usize::from(row.worker_was_idle)].merge(&row.hold);
        }
    }

    /// Forgets all requests, keeps the memory.
    pub fn reset(&mut self) {
        self.operations.iter_mut().flatten().for_each(|levels| levels.fill(Level::default()));
    }

    /// Every level that was met, by operation, what was seen, level, and whether the worker had
    /// been idle.
    pub fn rows(&self) -> impl Iterator<Item = HoldRow> {
        Operation::ALL.iter().flat_map(move |&operation| {
            Seen::ALL.iter().flat_map(move |&seen| {
                let levels = &self.operations[operation.index()][seen.index()];
                levels.iter().enumerate().flat_map(move |(level, holds)| {
                    [false, true].into_iter().zip(holds).filter(|(_, hold)| hold.count > 0).map(
                        move |(worker_was_idle, &hold)| HoldRow {
                            operation,
                            seen,
                            level,
                            worker_was_idle,
                            hold,
                        },
                    )
                })
            })
        })
    }

    /// The curve over all operations and workers: each level that was met, and its hold times.
    pub fn curve(&self, seen: Seen) -> Vec<(usize, Hold)> {
        let mut levels: Vec<Hold> = Vec::new();
        for row in self.rows().filter(|row| row.seen == seen) {
            levels.resize(levels.len().max(row.level + 1), Hold::default());
            levels[row.level].merge(&row.hold);
        }
        levels.into_iter().enumerate().filter(|(_, hold)| hold.count > 0).collect()
    }
}

#[inline]
fn level_of(levels: &mut Vec<Level>, level: usize) -> &mut Level {
    let level = level.min(HIGHEST_LEVEL);
    if level >= levels.len() {
        grow(levels, level);
    }
    &mut levels[level]
}

/// Doubles, so that a rising load allocates a dozen times in all.
#[cold]
fn grow(levels: &mut Vec<Level>, level: usize) {
    levels.resize((level + 1).next_power_of_two().min(HIGHEST_LEVEL + 1), Level::default());
}

#[cfg(test)]
mod tests {
    use krarup_units::Stamp;
    use proptest::prelude::*;

    use super::*;
    use crate::ServerVisit;
    use crate::visit::tests::any_visit;

    fn holds(visits: &[(Visit, Vec<ServerVisit>)]) -> Holds {
        let mut holds = Holds::new();
        visits.iter().for_each(|(visit, servers)| holds.record(visit, &visit.parts(servers)));
        holds
    }

    fn held(busy_workers: u32, nanos: u64) -> (Visit, Vec<ServerVisit>) {
        let mut visit = Visit::at(Stamp(0), Operation::Set);
        visit.busy_workers = busy_workers;
        visit.replied = Stamp(nanos);
        (visit, vec![])
    }

    #[test]
    fn the_curve_is_the_mean_hold_by_busy_workers() {
        let holds = holds(&[held(1, 10), held(2, 20), held(2, 40), held(0, 7), held(u32::MAX, 9)]);
        let curve: Vec<_> = holds
            .curve(Seen::BusyWorkers)
            .into_iter()
            .map(|(n, hold)| (n, hold.count, hold.hold.0))
            .collect();
        assert_eq!(curve, [(1, 1, 10), (2, 2, 60), (HIGHEST_LEVEL, 1, 9)]);
        assert_eq!(holds.curve(Seen::QueueLength).len(), 1);
    }

    #[test]
    fn the_deviation_of_huge_close_times_is_not_lost() {
        let base = 3_600_000_000_000_u64;
        let holds = holds(&[held(1, base), held(1, base + 2_000)]);
        let (_, hold) = holds.curve(Seen::BusyWorkers)[0];
        let deviation = hold.deviation().unwrap();
        assert!((deviation / (2e-6 / 2_f64.sqrt()) - 1.0).abs() < 1e-9, "{deviation}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merged_holds_are_those_of_the_whole(
            visits in prop::collection::vec(any_visit(), 0..20),
            cut in 0_usize..20,
        ) {
            let (left, right) = visits.split_at(cut.min(visits.len()));
            let mut merged = holds(right);
            merged.merge(&holds(left));
            let whole = holds(&visits);
            prop_assert_eq!(merged.rows().collect::<Vec<_>>(), whole.rows().collect::<Vec<_>>());
            whole.rows().for_each(|row| { row.hold.deviation(); });
        }
    }
}
