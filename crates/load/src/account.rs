//! What became of every request that was sent. None is lost in silence: `sent = answered + lost`,
//! to the unit.
//!
//! A thread keeps its account in segments: one per second of the run, cut once more where the
//! measured part begins and ends, so that no segment is partly measured. A segment that is over
//! goes to what collects them; segments add up exactly, across seconds, threads and machines.

use std::borrow::Cow;

use krarup_memcache::ReplyClass;
use krarup_record::file::rows::Lane;
use krarup_record::{Histograms, Operation, Outcome, ServerVisit, Visit, VisitTally};
use krarup_units::{Nanos, Stamp};
use serde::{Deserialize, Serialize};

/// The length of a segment that is not cut.
pub const SECOND: Nanos = Nanos::from_secs(1);

/// Why a request that was sent got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// The connection was closed or reset by the other side.
    ConnectionLost,
    /// What came was no answer to what was asked. The connection is given up, for nothing on it can
    /// be trusted.
    OutOfStep,
    /// Nothing came within the time limit. The connection is given up.
    TimedOut,
    /// The run was over, and the time to wait for last answers too.
    Unanswered,
}

impl LossReason {
    /// Every reason, in the order of [`OperationCounts::losses`].
    pub const ALL: [Self; 4] = [Self::ConnectionLost, Self::OutOfStep, Self::TimedOut, Self::Unanswered];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectionLost => "connection_lost",
            Self::OutOfStep => "out_of_step",
            Self::TimedOut => "timed_out",
            Self::Unanswered => "unanswered",
        }
    }

    const fn outcome(self) -> Outcome {
        match self {
            Self::ConnectionLost | Self::OutOfStep => Outcome::ServerLost,
            Self::TimedOut | Self::Unanswered => Outcome::Timeout,
        }
    }
}

/// Every kind of answer, in the order of [`OperationCounts::answers`].
pub const CLASSES: [(ReplyClass, &str); 18] = [
    (ReplyClass::Values, "values"),
    (ReplyClass::Stored, "stored"),
    (ReplyClass::NotStored, "not_stored"),
    (ReplyClass::Exists, "exists"),
    (ReplyClass::NotFound, "not_found"),
    (ReplyClass::Deleted, "deleted"),
    (ReplyClass::Touched, "touched"),
    (ReplyClass::Number, "number"),
    (ReplyClass::Ok, "ok"),
    (ReplyClass::Version, "version"),
    (ReplyClass::Stats, "stats"),
    (ReplyClass::MetaDone, "meta_done"),
    (ReplyClass::MetaValue, "meta_value"),
    (ReplyClass::MetaMiss, "meta_miss"),
    (ReplyClass::MetaDebug, "meta_debug"),
    (ReplyClass::Error, "error"),
    (ReplyClass::ClientError, "client_error"),
    (ReplyClass::ServerError, "server_error"),
];

/// Counts of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// What the visits add up to: `received` is when the request was due, `taken` when it was sent,
    /// `replied` when it was answered or given up. So the queue time is the lateness, and the
    /// server time counts from the sending.
    pub tally: VisitTally,
    /// Answers by kind, in the order of [`CLASSES`].
    pub answers: [u64; CLASSES.len()],
    /// Requests without an answer, in the order of [`LossReason::ALL`].
    pub losses: [u64; LossReason::ALL.len()],
}

impl OperationCounts {
    /// Requests that were answered, with errors too.
    pub fn answered(&self) -> u64 {
        self.answers.iter().sum()
    }

    /// Requests that were not.
    pub fn lost(&self) -> u64 {
        self.losses.iter().sum()
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        self.answers.iter_mut().zip(other.answers).for_each(|(ours, theirs)| *ours += theirs);
        self.losses.iter_mut().zip(other.losses).for_each(|(ours, theirs)| *ours += theirs);
    }
}

/// What was found when values were verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Values compared with what must have been stored.
    pub checked: u64,
    /// Values that were something else.
    pub mismatched: u64,
    /// The first of them, in words.
    pub first: Option<String>,
}

impl Verified {
    /// Adds what another found.
    pub fn merge(&mut self, other: Self) {
        self.checked += other.checked;
        self.mismatched += other.mismatched;
        self.first = self.first.take().or(other.first);
    }
}

/// How late the arrivals of an open load were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateArrivals {
    /// In sum.
    pub late: Nanos,
    /// The part of it in which no connection was free and no answer had come: the thread slept, or
    /// found none when it looked.
    pub waited: Nanos,
}

/// A generator that is itself the limit finds an answer whenever it looks for one, and hardly
/// sleeps. From this share of lateness on the system has a part in it.
const PART_OF_SYSTEM: f64 = 0.2;

/// Where less than this share of lateness was a wait for answers, the generator has a part in it.
pub(crate) const MOSTLY_OF_SYSTEM: f64 = 0.5;

impl LateArrivals {
    /// Adds what others were late.
    pub fn merge(&mut self, other: Self) {
        self.late += other.late;
        self.waited += other.waited;
    }

    /// The share of the time in which they waited for answers; 0 where nothing was late.
    pub fn share_waited(self) -> f64 {
        if self.late > Nanos::ZERO { self.waited.as_seconds() / self.late.as_seconds() } else { 0.0 }
    }

    /// Whether it was the system that they waited for, be it beside the generator.
    pub fn is_of_system(self) -> bool {
        self.share_waited() > PART_OF_SYSTEM
    }
}

/// What was counted of one class of clients, or of all together.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Counts per operation, indexed by [`Operation::index`].
    pub counts: Box<[OperationCounts; Operation::COUNT]>,
    /// Distributions of response time, of the part of it since the request was sent (server time),
    /// and of lateness (queue time).
    pub histograms: Histograms,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            counts: Box::new([OperationCounts::default(); Operation::COUNT]),
            histograms: Histograms::new(),
        }
    }
}

impl Share {
    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(ours, theirs)| ours.merge(theirs));
        self.histograms.merge(&other.histograms);
    }

    /// The counts of all operations together.
    pub fn overall(&self) -> OperationCounts {
        self.counts.iter().fold(OperationCounts::default(), |mut sum, counts| {
            sum.merge(counts);
            sum
        })
    }
}

/// The account of one stretch of time: whatever was answered or given up in it.
#[derive(Clone, Debug)]
pub struct Segment {
    /// When it begins, counted from the start of the run.
    pub start: Stamp,
    /// When the next one begins; earlier than that where the run ended in it.
    pub end: Stamp,
    /// Whether it lies in the part of the run that is measured.
    pub measured: bool,
    /// What was counted of each class of clients, in the order of the configuration; at least one.
    pub classes: Vec<Share>,
    /// Connections that stood and were lost.
    pub connections_lost: u64,
    /// Attempts to connect that failed.
    pub connects_failed: u64,
    /// Connections that were closed on purpose, to be made anew.
    pub connections_renewed: u64,
}

impl Segment {
    /// Of nothing, between two stamps, with room for so many classes.
    pub fn new(start: Stamp, end: Stamp, measured: bool, classes: usize) -> Self {
        Self {
            start,
            end,
            measured,
            classes: (0..classes).map(|_| Share::default()).collect(),
            connections_lost: 0,
            connects_failed: 0,
            connections_renewed: 0,
        }
    }

    /// Adds what another counted; the stretch of time becomes the one that holds both.
    pub fn merge(&mut self, other: &Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.classes.iter_mut().zip(&other.classes).for_each(|(ours, theirs)| ours.merge(theirs));
        self.connections_lost += other.connections_lost;
        self.connects_failed += other.connects_failed;
        self.connections_renewed += other.connections_renewed;
    }

    /// All classes together.
    pub fn all(&self) -> Cow<'_, Share> {
        match self.classes.as_slice() {
            [only] => Cow::Borrowed(only),
            several => {
                let mut sum = Share::default();
                several.iter().for_each(|one| sum.merge(one));
                Cow::Owned(sum)
            }
        }
    }

    /// The counts of all classes and operations together.
    pub fn overall(&self) -> OperationCounts {
        self.classes.iter().fold(OperationCounts::default(), |mut sum, class| {
            sum.merge(&class.overall());
            sum
        })
    }
}

/// Which part of the run is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredSpan {
    /// The end of the warm-up.
    pub from: Stamp,
    /// The beginning of the cool-down; the largest stamp where the run's end is not known
    /// beforehand.
    pub to: Stamp,
}

impl MeasuredSpan {
    /// The segment that holds `now`.
    fn segment(self, now: Stamp, classes: usize) -> Segment {
        let begun = now.0 / SECOND.0 * SECOND.0;
        let (mut start, mut end) = (begun, begun.saturating_add(SECOND.0));
        for edge in [self.from.0, self.to.0] {
            if edge <= now.0 {
                start = start.max(edge);
            } else {
                end = end.min(edge);
            }
        }
        Segment::new(Stamp(start), Stamp(end), self.from <= now && now < self.to, classes)
    }
}

/// One thread's account.
#[derive(Debug)]
pub struct Account {
    measured: MeasuredSpan,
    segment: Segment,
    /// Where every request leaves a row, if rows are kept.
    pub rows: Option<Lane>,
    /// Segments that are over and were not collected yet.
    pub over: Vec<Segment>,
    /// Requests handed to a connection.
    pub sent: u64,
    /// How late arrivals were sent, by class.
    pub late: Vec<LateArrivals>,
    /// Bytes that the sockets took.
    pub bytes_sent: u64,
    /// Bytes that came from the sockets.
    pub bytes_received: u64,
    /// What was found when values were verified.
    pub verified: Verified,
}

impl Account {
    /// An empty account of so many classes that begins at stamp zero.
    pub fn new(measured: MeasuredSpan, classes: usize) -> Self {
        Self {
            measured,
            segment: measured.segment(Stamp(0), classes),
            rows: None,
            over: Vec::new(),
            sent: 0,
            late: vec![LateArrivals::default(); classes],
            bytes_sent: 0,
            bytes_received: 0,
            verified: Verified::default(),
        }
    }

    /// When the segment that is being filled is over.
    pub fn next_roll(&self) -> Stamp {
        self.segment.end
    }

    /// Puts away every segment that is over at `now`.
    #[inline]
    pub fn roll(&mut self, now: Stamp) {
        while now >= self.segment.end {
            self.put_away();
        }
    }

    #[cold]
    fn put_away(&mut self) {
        let next = self.measured.segment(self.segment.end, self.segment.classes.len());
        self.over.push(std::mem::replace(&mut self.segment, next));
    }

    /// From `to` on nothing is measured any more, though it was planned otherwise.
    pub fn cut(&mut self, to: Stamp) {
        self.measured.to = self.measured.to.min(to);
        if self.segment.start >= to {
            // A thread that is busy hears of it when the next second has begun.
            self.segment.measured = false;
        } else if to < self.segment.end {
            self.segment.end = to;
        }
    }

    /// Puts the last segment away too, as ending at `now`.
    pub fn close(&mut self, now: Stamp) {
        self.roll(now);
        self.segment.end = now.max(self.segment.start);
        let next = self.measured.segment(self.segment.end, self.segment.classes.len());
        self.over.push(std::mem::replace(&mut self.segment, next));
    }

    /// A request was answered; the visit's station is the number of its client's class.
    #[inline]
    pub fn answered(&mut self, class: ReplyClass, visit: &mut Visit, server: ServerVisit) {
        visit.outcome = match class {
            ReplyClass::ServerError => Outcome::ServerError,
            ReplyClass::Error | ReplyClass::ClientError => Outcome::ClientError,
            _ => Outcome::Ok,
        };
        let counts = self.record(visit, server);
        counts.answers[class as usize] += 1;
    }

    /// A request was given up.
    pub fn lost(&mut self, loss: LossReason, visit: &mut Visit, server: ServerVisit) {
        visit.outcome = loss.outcome();
        let counts = self.record(visit, server);
        counts.losses[loss as usize] += 1;
    }

    #[inline]
    fn record(&mut self, visit: &Visit, mut server: ServerVisit) -> &mut OperationCounts {
        self.roll(visit.replied);
        server.outcome = visit.outcome;
        let parts = visit.parts(&[server]);
        if let Some(rows) = &mut self.rows {
            rows.push(visit, &[server]);
        }
        let share = &mut self.segment.classes[usize::from(visit.station)];
        share.histograms.record(visit.operation, &parts);
        let counts = &mut share.counts[visit.operation.index()];
        counts.tally.add(visit, &parts);
        counts
    }

    /// A connection that had carried its number of requests was closed.
    pub fn connection_renewed(&mut self) {
        self.segment.connections_renewed += 1;
    }

    /// A connection that stood was lost.
    pub fn connection_lost(&mut self) {
        self.segment.connections_lost += 1;
    }

    /// An attempt to connect failed.
    pub fn connect_failed(&mut self) {
        self.segment.connects_failed += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(account: &mut Account, at: u64) {
        let mut visit = Visit::at(Stamp(at), Operation::Get);
        account.answered(ReplyClass::Values, &mut visit, ServerVisit::ok(0, Stamp(at), Stamp(at)));
    }

    #[test]
    fn every_class_has_its_place() {
        for (place, (class, _)) in CLASSES.iter().enumerate() {
            assert_eq!(*class as usize, place);
        }
        for (place, loss) in LossReason::ALL.iter().enumerate() {
            assert_eq!(*loss as usize, place);
        }
    }

    #[test]
    fn segments_are_seconds_cut_where_the_measured_part_begins_and_ends() {
        let measured = MeasuredSpan { from: Stamp(1_500_000_000), to: Stamp(3_000_000_000) };
        let mut account = Account::new(measured, 1);
        for at in [0, 1_499_999_999, 1_500_000_000, 2_999_999_999, 3_000_000_000] {
            answer(&mut account, at);
        }
        account.close(Stamp(3_200_000_000));
        let millis = |stamp: Stamp| stamp.0 / 1_000_000;
        let segments: Vec<_> = account
            .over
            .iter()
            .map(|one| (millis(one.start), millis(one.end), one.measured, one.overall().tally.count))
            .collect();
        assert_eq!(
            segments,
            [
                (0, 1_000, false, 1),
                (1_000, 1_500, false, 1),
                (1_500, 2_000, true, 1),
                (2_000, 3_000, true, 1),
                (3_000, 3_200, false, 1)
            ]
        );
    }

    #[test]
    fn a_run_that_is_stopped_is_measured_until_then() {
        let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(9_000_000_000) }, 1);
        answer(&mut account, 1_200_000_000);
        account.cut(Stamp(1_300_000_000));
        answer(&mut account, 1_300_000_000);
        account.close(Stamp(1_400_000_000));
        let measured: Vec<_> =
            account.over.iter().map(|one| (one.measured, one.overall().tally.count)).collect();
        assert_eq!(measured, [(true, 0), (true, 1), (false, 1)]);
    }

    #[test]
    fn a_second_that_began_after_the_stop_is_not_measured() {
        let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(9_000_000_000) }, 1);
        answer(&mut account, 1_900_000_000);
        answer(&mut account, 2_000_000_100);
        account.cut(Stamp(1_999_999_900));
        answer(&mut account, 2_300_000_000);
        account.close(Stamp(2_400_000_000));
        let measured: Vec<_> =
            account.over.iter().map(|one| (one.measured, one.overall().tally.count)).collect();
        assert_eq!(measured, [(true, 0), (true, 1), (false, 2)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn segments_lie_side_by_side_and_lose_nothing(
            mut stamps in prop::collection::vec(0_u64..6_000_000_000, 0..30),
            from in 0_u64..4_000_000_000,
            length in 0_u64..4_000_000_000,
        ) {
            stamps.sort_unstable();
            let measured = MeasuredSpan { from: Stamp(from), to: Stamp(from + length) };
            let mut account = Account::new(measured, 1);
            stamps.iter().for_each(|&at| answer(&mut account, at));
            account.close(Stamp(6_000_000_000));
            prop_assert!(account.over.windows(2).all(|pair| pair[0].end == pair[1].start));
            let inside = |at: &&u64| (from..from + length).contains(*at);
            let counted = |measured: bool| -> u64 {
                account.over.iter().filter(|one| one.measured == measured).map(|one| one.overall().answered()).sum()
            };
            prop_assert_eq!(counted(true), stamps.iter().filter(inside).count() as u64);
            prop_assert_eq!(counted(true) + counted(false), stamps.len() as u64);
        }
    }
}
