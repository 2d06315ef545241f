//! Counts and sums of visits: whole numbers only, so that they add up exactly in any order.

use krarup_units::{Nanos, PerSecond, Seconds};
use serde::{Deserialize, Serialize};

use crate::{Parts, Visit};

/// What a set of visits adds up to. Sums stop at the largest number instead of wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VisitTally {
    /// Visits completed, errors included.
    pub count: u64,
    /// Visits that ended in an error ([`crate::Outcome::is_error`]).
    pub errors: u64,
    /// Keys named.
    pub keys: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys asked for and not found.
    pub misses: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// Sum of the queue times.
    pub queue_time: Nanos,
    /// Sum of the server times.
    pub server_time: Nanos,
    /// Sum of the own times.
    pub own_time: Nanos,
    /// Sum of the response times: the three sums above, added.
    pub response_time: Nanos,
    /// The shortest response time; the longest there is where nothing was counted.
    pub response_min: Nanos,
    /// The longest response time.
    pub response_max: Nanos,
    /// Visits that a worker took: those that saw a queue.
    pub taken: u64,
    /// Sum of the queue lengths seen at `taken`.
    pub queue_length: u64,
    /// The longest queue seen at `taken`.
    pub queue_length_max: u64,
    /// Sum of the busy workers seen at `taken`.
    pub busy_workers: u64,
}

impl Default for VisitTally {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl VisitTally {
    /// Of no visit at all.
    pub const EMPTY: Self = Self {
        count: 0,
        errors: 0,
        keys: 0,
        hits: 0,
        misses: 0,
        bytes_in: 0,
        bytes_out: 0,
        queue_time: Nanos::ZERO,
        server_time: Nanos::ZERO,
        own_time: Nanos::ZERO,
        response_time: Nanos::ZERO,
        response_min: Nanos(u64::MAX),
        response_max: Nanos::ZERO,
        taken: 0,
        queue_length: 0,
        queue_length_max: 0,
        busy_workers: 0,
    };

    /// Adds one visit, whose parts are known.
    #[inline]
    pub fn add(&mut self, visit: &Visit, parts: &Parts) {
        add(&mut self.count, 1);
        add(&mut self.errors, u64::from(visit.outcome.is_error()));
        add(&mut self.keys, u64::from(visit.keys));
        add(&mut self.hits, u64::from(visit.hits));
        add(&mut self.misses, u64::from(visit.misses));
        add(&mut self.bytes_in, visit.bytes_in);
        add(&mut self.bytes_out, visit.bytes_out);
        add(&mut self.queue_time.0, parts.queue.0);
        add(&mut self.server_time.0, parts.server.0);
        add(&mut self.own_time.0, parts.own.0);
        add(&mut self.response_time.0, parts.response.0);
        self.response_min = self.response_min.min(parts.response);
        self.response_max = self.response_max.max(parts.response);
        if visit.busy_workers > 0 {
            add(&mut self.taken, 1);
            add(&mut self.queue_length, u64::from(visit.queue_length));
            self.queue_length_max = self.queue_length_max.max(u64::from(visit.queue_length));
            add(&mut self.busy_workers, u64::from(visit.busy_workers));
        }
    }

    /// Adds what another tally counted: as if its visits had been added one by one.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            count,
            errors,
            keys,
            hits,
            misses,
            bytes_in,
            bytes_out,
            queue_time,
            server_time,
            own_time,
            response_time,
            response_min,
            response_max,
            taken,
            queue_length,
            queue_length_max,
            busy_workers,
        } = other;
        add(&mut self.count, *count);
        add(&mut self.errors, *errors);
        add(&mut self.keys, *keys);
        add(&mut self.hits, *hits);
        add(&mut self.misses, *misses);
        add(&mut self.bytes_in, *bytes_in);
        add(&mut self.bytes_out, *bytes_out);
        add(&mut self.queue_time.0, queue_time.0);
        add(&mut self.server_time.0, server_time.0);
        add(&mut self.own_time.0, own_time.0);
        add(&mut self.response_time.0, response_time.0);
        self.response_min = self.response_min.min(*response_min);
        self.response_max = self.response_max.max(*response_max);
        add(&mut self.taken, *taken);
        add(&mut self.queue_length, *queue_length);
        self.queue_length_max = self.queue_length_max.max(*queue_length_max);
        add(&mut self.busy_workers, *busy_workers);
    }

    /// Throughput X over `length`: visits that ended without an error, per second.
    pub fn throughput(&self, length: Nanos) -> PerSecond {
        PerSecond::over(self.count.saturating_sub(self.errors), length)
    }

    /// The mean of `sum`, one of this tally's sums of times, over its visits. `None` without
    /// visits.
    pub fn mean(&self, sum: Nanos) -> Option<Seconds> {
        (self.count > 0).then(|| sum.as_seconds() / self.count as f64)
    }

    /// The mean queue length that requests saw when a worker took them. `None` where none was
    /// taken.
    pub fn mean_queue_length_seen(&self) -> Option<f64> {
        (self.taken > 0).then(|| self.queue_length as f64 / self.taken as f64)
    }

    /// The queue length averaged over `length` of time: Σ queue time / length.
    ///
    /// Little's law, L = λ W, with the queue times of the visits that *ended* in this time: exact
    /// where all of them also waited in it, that is up to those in flight at either end.
    pub fn mean_queue_length(&self, length: Nanos) -> f64 {
        over(self.queue_time, length)
    }

    /// Misses per key asked for and either found or not. `None` where none was.
    pub fn miss_ratio(&self) -> Option<f64> {
        let asked = self.hits.saturating_add(self.misses);
        (asked > 0).then(|| self.misses as f64 / asked as f64)
    }
}

/// A sum of times over a length of time; zero over no time at all.
fn over(sum: Nanos, length: Nanos) -> f64 {
    if length == Nanos::ZERO { 0.0 } else { sum.as_seconds() / length.as_seconds() }
}

/// A sum of nanoseconds in seconds.
pub(crate) fn in_seconds(sum: u128) -> Seconds {
    sum as f64 / 1e9
}

/// Adds and stops at the largest number. Unlike wrapping this never shows a small sum for a huge
/// one, and unlike a checked addition it is the same in any order.
#[inline]
pub(crate) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

#[cfg(test)]
mod tests {
    use krarup_units::Stamp;
    use proptest::prelude::*;

    use super::*;
    use crate::visit::tests::any_visit;
    use crate::{Operation, Outcome, ServerVisit};

    fn tally(visits: &[(Visit, Vec<ServerVisit>)]) -> VisitTally {
        let mut tally = VisitTally::EMPTY;
        for (visit, servers) in visits {
            tally.add(visit, &visit.parts(servers));
        }
        tally
    }

    #[test]
    fn two_requests_that_wait_half_of_the_time_are_a_queue_of_one() {
        let mut visit = Visit::at(Stamp(0), Operation::Get);
        visit.taken = Stamp(500_000_000);
        visit.replied = Stamp(1_000_000_000);
        visit.busy_workers = 1;
        visit.queue_length = 3;
        let both = tally(&[(visit, vec![]), (visit, vec![])]);
        assert_eq!(both.mean_queue_length(Nanos::from_secs(1)), 1.0);
        assert_eq!(both.mean_queue_length_seen(), Some(3.0));
        assert_eq!(both.mean(both.response_time), Some(1.0));
        assert_eq!(both.throughput(Nanos::from_secs(1)), PerSecond(2.0));
    }

    #[test]
    fn errors_are_counted_and_are_no_throughput() {
        let mut visit = Visit::at(Stamp(0), Operation::Get);
        visit.outcome = Outcome::Timeout;
        let one = tally(&[(visit, vec![])]);
        assert_eq!((one.count, one.errors), (1, 1));
        assert_eq!(one.throughput(Nanos::from_secs(1)), PerSecond(0.0));
        assert_eq!(one.mean_queue_length_seen(), None);
        assert_eq!(one.miss_ratio(), None);
    }

    proptest! {
        #[test]
        fn merged_parts_are_the_whole(
            visits in prop::collection::vec(any_visit(), 0..20),
            cut in 0_usize..20,
        ) {
            let (left, right) = visits.split_at(cut.min(visits.len()));
            let mut merged = tally(right);
            merged.merge(&tally(left));
            prop_assert_eq!(merged, tally(&visits));
        }
    }
}
