//! Tallies second by second: which visits ended when, per operation, in bounded memory.
//!
//! A visit belongs to the window in which it was `replied`; window k is [k·width, (k+1)·width) on
//! the clock of the run. Windows without a completion are windows too, with a tally of zeros.
//!
//! ```text
//!   opened                     first kept                              newest
//!     │◀── folded: one tally ────▶│◀───────── kept, at most `keep` ───────▶│
//! ```
//! At most `keep` windows are kept one by one. What is older is folded into one tally per
//! operation: nothing is lost but the place in time, and [`Windows::folded`] says of how many
//! windows. Which windows are folded depends only on the newest one, so the order of visits and of
//! merges makes no difference.

use std::collections::VecDeque;

use krarup_units::{Nanos, Stamp};

use crate::{Operation, Parts, ServerVisit, Visit, VisitTally};

/// The widest window: wider ones would hide what a window is there to show.
pub const WIDEST: Nanos = Nanos::from_secs(5);
/// The narrowest window: below, most windows would hold a handful of visits.
pub const NARROWEST: Nanos = Nanos::from_millis(1);
/// A day of windows of one second.
pub const KEEP: usize = 24 * 3_600;

/// One tally for each operation.
type ByOperation = [VisitTally; Operation::COUNT];

/// One closed window: only the operations that completed in it, so that a quiet second costs no
/// memory.
type Closed = Vec<(Operation, VisitTally)>;

/// Tallies per window and operation. See the [module](self) for what is kept and what is folded.
#[derive(Clone, Debug)]
pub struct Windows {
    width: Nanos,
    keep: u64,
    /// `None` until a first stamp is seen.
    span: Option<Span>,
    /// Windows `first_kept..newest`; each without empty tallies.
    closed: VecDeque<Closed>,
    /// Window `newest`.
    current: Box<ByOperation>,
    /// Windows `opened..first_kept`, in one.
    older: Box<ByOperation>,
    /// Windows `opened..newest`, in one: with `current` the total, without a second addition per
    /// visit.
    before: Box<ByOperation>,
}

/// Which windows there are. `first_kept = max(opened, newest + 1 - keep)`, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    opened: u64,
    first_kept: u64,
    newest: u64,
}

/// One operation in one window, or in the windows folded into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRow {
    /// When the window begins, on the clock of the run.
    pub start: Stamp,
    /// How long it is: the width, or of the folded ones the sum of their widths.
    pub length: Nanos,
    /// Whether these are the folded windows.
    pub folded: bool,
    /// The operation that is tallied.
    pub operation: Operation,
    /// What completed in the window.
    pub tally: VisitTally,
}

/// Why windows cannot be made, or not be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// The width is not between [`NARROWEST`] and [`WIDEST`].
    #[error("a window of {0} is not between {NARROWEST} and {WIDEST}")]
    Width(Nanos),
    /// Not one window would be kept.
    #[error("at least one window must be kept")]
    KeepNone,
    /// Windows of two widths or two limits do not add up.
    #[error("{} windows of {} do not merge with {} windows of {}", ours.1, ours.0, theirs.1, theirs.0)]
    Different {
        /// Width and number of windows kept of the one.
        ours: (Nanos, u64),
        /// Width and number of windows kept of the other.
        theirs: (Nanos, u64),
    },
}

impl Windows {
    /// Windows of `width`, the newest `keep` of them kept one by one.
    ///
    /// # Errors
    /// A width outside [`NARROWEST`]..=[`WIDEST`], or nothing to keep.
    pub fn new(width: Nanos, keep: usize) -> Result<Self, WindowError> {
        if width < NARROWEST || width > WIDEST {
            return Err(WindowError::Width(width));
        }
        if keep == 0 {
            return Err(WindowError::KeepNone);
        }
        Ok(Self {
            width,
            keep: keep as u64,
            span: None,
            closed: VecDeque::new(),
            current: Box::new([VisitTally::EMPTY; Operation::COUNT]),
            older: Box::new([VisitTally::EMPTY; Operation::COUNT]),
            before: Box::new([VisitTally::EMPTY; Operation::COUNT]),
        })
    }

    /// The width of one window.
    pub fn width(&self) -> Nanos {
        self.width
    }

    /// Adds one visit to the window in which it was replied.
    #[inline]
    pub fn record(&mut self, visit: &Visit, servers: &[ServerVisit]) {
        self.add(visit, &visit.parts(servers));
    }

    /// As [`Windows::record`], where the parts are known already.
    #[inline]
    pub fn add(&mut self, visit: &Visit, parts: &Parts) {
        let window = visit.replied.0 / self.width.0;
        if self.span.is_none_or(|span| span.newest < window) {
            self.open(window);
        }
        if self.span.is_some_and(|span| span.newest == window) {
            self.current[visit.operation.index()].add(visit, parts);
        } else {
            self.add_late(window, visit, parts);
        }
    }

    #[cold]
    fn add_late(&mut self, window: u64, visit: &Visit, parts: &Parts) {
        let mut tally = VisitTally::EMPTY;
        tally.add(visit, parts);
        self.merge_into(window, visit.operation, &tally);
    }

    /// Opens the windows up to the one that holds `now`. Called at the start and the end of a run,
    /// the seconds before the first and after the last completion appear too.
    pub fn advance(&mut self, now: Stamp) {
        self.open(now.0 / self.width.0);
    }

    /// Adds a tally to any window, opened or not.
    fn merge_into(&mut self, window: u64, operation: Operation, tally: &VisitTally) {
        let span = self.open(window);
        let slot = if window == span.newest {
            &mut self.current[operation.index()]
        } else {
            self.before[operation.index()].merge(tally);
            match window.checked_sub(span.first_kept) {
                None => &mut self.older[operation.index()],
                Some(place) => tally_of(&mut self.closed[place as usize], operation),
            }
        };
        slot.merge(tally);
    }

    /// Makes room for `window`, wherever it lies, and keeps the invariant of [`Span`].
    #[cold]
    fn open(&mut self, window: u64) -> Span {
        let mut span = self.span.unwrap_or(Span { opened: window, first_kept: window, newest: window });
        if window > span.newest {
            self.close(&mut span, window);
        }
        span.opened = span.opened.min(window);
        let first_kept = self.first_kept(span);
        while span.first_kept > first_kept {
            self.closed.push_front(Closed::new());
            span.first_kept -= 1;
        }
        self.span = Some(span);
        span
    }

    /// Closes the newest window and opens `window`, a later one; folds what is too old then.
    fn close(&mut self, span: &mut Span, window: u64) {
        let all = Operation::ALL.iter().map(|&operation| (operation, self.current[operation.index()]));
        let closing: Closed = all.filter(|(_, tally)| *tally != VisitTally::EMPTY).collect();
        for (operation, tally) in &closing {
            self.before[operation.index()].merge(tally);
        }
        self.current.fill(VisitTally::EMPTY);
        self.closed.push_back(closing);
        let quiet_from = span.newest + 1;
        span.newest = window;
        let first_kept = self.first_kept(*span);
        let too_old = usize::try_from(first_kept - span.first_kept).unwrap_or(usize::MAX);
        for oldest in self.closed.drain(..too_old.min(self.closed.len())) {
            for (operation, tally) in oldest {
                self.older[operation.index()].merge(&tally);
            }
        }
        span.first_kept = first_kept;
        // Of a gap longer than what is kept, only its kept end is opened: a leap of the clock costs
        // no memory.
        let quiet = quiet_from.max(first_kept)..window;
        self.closed.extend(quiet.map(|_| Closed::new()));
    }

    fn first_kept(&self, span: Span) -> u64 {
        span.opened.max(span.newest.saturating_sub(self.keep - 1))
    }

    /// Adds what another recorder's windows counted: as if its visits had been recorded here.
    ///
    /// # Errors
    /// Windows of another width or limit.
    pub fn merge(&mut self, other: &Self) -> Result<(), WindowError> {
        if (self.width, self.keep) != (other.width, other.keep) {
            return Err(WindowError::Different {
                ours: (self.width, self.keep),
                theirs: (other.width, other.keep),
            });
        }
        let Some(theirs) = other.span else { return Ok(()) };
        self.open(theirs.newest);
        self.open(theirs.opened);
        for &operation in Operation::ALL {
            let folded = &other.older[operation.index()];
            self.older[operation.index()].merge(folded);
            self.before[operation.index()].merge(folded);
        }
        for (window, operation, tally) in other.tallies(theirs) {
            self.merge_into(window, operation, &tally);
        }
        Ok(())
    }

    /// The kept tallies that are not empty, with the number of their window.
    fn tallies(&self, span: Span) -> impl Iterator<Item = (u64, Operation, VisitTally)> {
        let closed = (span.first_kept..).zip(&self.closed);
        let closed = closed.flat_map(|(window, closed)| {
            closed.iter().map(move |&(operation, tally)| (window, operation, tally))
        });
        let current = Operation::ALL
            .iter()
            .map(move |&operation| (span.newest, operation, self.current[operation.index()]));
        closed.chain(current.filter(|(_, _, tally)| *tally != VisitTally::EMPTY))
    }

    /// What they add up to, in the memory of one: all but the newest are folded.
    pub(crate) fn summed(&self) -> Self {
        Self {
            width: self.width,
            keep: 1,
            span: self.span.map(|span| Span { first_kept: span.newest, ..span }),
            closed: VecDeque::new(),
            current: self.current.clone(),
            older: self.before.clone(),
            before: self.before.clone(),
        }
    }

    /// From when on, and for how long, there are windows, the folded ones included.
    pub fn span(&self) -> (Stamp, Nanos) {
        let Some(span) = self.span else { return (Stamp(0), Nanos::ZERO) };
        let windows = span.newest - span.opened + 1;
        (Stamp(span.opened * self.width.0), Nanos(windows.saturating_mul(self.width.0)))
    }

    /// Forgets all windows.
    pub fn reset(&mut self) {
        self.span = None;
        self.closed.clear();
        self.current.fill(VisitTally::EMPTY);
        self.older.fill(VisitTally::EMPTY);
        self.before.fill(VisitTally::EMPTY);
    }

    /// How many windows were folded into one tally, those without completions included.
    pub fn folded(&self) -> u64 {
        self.span.map_or(0, |span| span.first_kept - span.opened)
    }

    /// How many windows there are one by one.
    pub fn len(&self) -> usize {
        self.span.map_or(0, |span| (span.newest - span.first_kept) as usize + 1)
    }

    /// Whether no stamp was ever seen.
    pub fn is_empty(&self) -> bool {
        self.span.is_none()
    }

    /// One row per window and operation, in this order, quiet windows as zeros; first of all the
    /// folded windows, if any. Operations that never completed are left out.
    pub fn rows(&self) -> impl Iterator<Item = WindowRow> {
        let seen: Vec<Operation> =
            Operation::ALL.iter().copied().filter(|&one| self.total(one) != VisitTally::EMPTY).collect();
        let span = self.span.unwrap_or(Span { opened: 1, first_kept: 1, newest: 0 });
        let folded = (span.first_kept > span.opened).then_some(span.opened);
        let windows = folded.into_iter().chain(span.first_kept..=span.newest);
        windows.flat_map(move |window| {
            let folded = window < span.first_kept;
            let windows = if folded { span.first_kept - span.opened } else { 1 };
            let row = move |operation| WindowRow {
                start: Stamp(window * self.width.0),
                length: Nanos(windows * self.width.0),
                folded,
                operation,
                tally: self.tally(span, window, operation),
            };
            seen.clone().into_iter().map(row)
        })
    }

    fn tally(&self, span: Span, window: u64, operation: Operation) -> VisitTally {
        if window == span.newest {
            self.current[operation.index()]
        } else if window < span.first_kept {
            self.older[operation.index()]
        } else {
            let closed = &self.closed[(window - span.first_kept) as usize];
            closed
                .iter()
                .find(|(other, _)| *other == operation)
                .map_or(VisitTally::EMPTY, |&(_, tally)| tally)
        }
    }

    /// The sum of all windows of one operation.
    pub fn total(&self, operation: Operation) -> VisitTally {
        let mut total = self.before[operation.index()];
        total.merge(&self.current[operation.index()]);
        total
    }
}

fn tally_of(closed: &mut Closed, operation: Operation) -> &mut VisitTally {
    let place = closed.iter().position(|(other, _)| *other == operation).unwrap_or_else(|| {
        closed.push((operation, VisitTally::EMPTY));
        closed.len() - 1
    });
    &mut closed[place].1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::visit::tests::{any_visit, near_visit};

    type Visits = Vec<(Visit, Vec<ServerVisit>)>;

    fn windows(keep: usize, visits: &[(Visit, Vec<ServerVisit>)]) -> Windows {
        let mut windows = Windows::new(Nanos::from_secs(1), keep).unwrap();
        for (visit, servers) in visits {
            windows.record(visit, servers);
        }
        windows
    }

    fn replied_at(seconds: u64) -> (Visit, Vec<ServerVisit>) {
        (Visit::at(Stamp(seconds * 1_000_000_000), Operation::Get), vec![])
    }

    fn counts(windows: &Windows) -> Vec<(u64, u64)> {
        windows.rows().map(|row| (row.start.0 / 1_000_000_000, row.tally.count)).collect()
    }

    fn some_visits() -> impl Strategy<Value = Visits> {
        prop::collection::vec(prop_oneof![9 => near_visit().boxed(), 1 => any_visit().boxed()], 0..30)
    }

    #[test]
    fn quiet_seconds_appear_as_zeros() {
        let mut windows = windows(10, &[replied_at(3), replied_at(5)]);
        windows.advance(Stamp(1_500_000_000));
        windows.advance(Stamp(6_000_000_000));
        assert_eq!(counts(&windows), [(1, 0), (2, 0), (3, 1), (4, 0), (5, 1), (6, 0)]);
        assert_eq!((windows.len(), windows.folded()), (6, 0));
    }

    #[test]
    fn what_is_too_old_is_folded_and_counted() {
        let windows = windows(3, &[replied_at(1), replied_at(2), replied_at(5), replied_at(1)]);
        assert_eq!(counts(&windows), [(1, 3), (3, 0), (4, 0), (5, 1)]);
        assert_eq!((windows.len(), windows.folded()), (3, 2));
        let folded = windows.rows().next().unwrap();
        assert!(folded.folded);
        assert_eq!(folded.length, Nanos::from_secs(2));
    }

    #[test]
    fn a_leap_of_the_clock_costs_no_memory() {
        let last = (Visit::at(Stamp(u64::MAX), Operation::Get), vec![]);
        let windows = windows(4, &[replied_at(1), last]);
        assert_eq!(windows.len(), 4);
        assert_eq!(windows.total(Operation::Get).count, 2);
    }

    #[test]
    fn windows_that_do_not_add_up_are_refused() {
        assert_eq!(
            Windows::new(Nanos::from_secs(6), 1).unwrap_err(),
            WindowError::Width(Nanos::from_secs(6))
        );
        assert_eq!(Windows::new(Nanos::ZERO, 1).unwrap_err(), WindowError::Width(Nanos::ZERO));
        assert_eq!(Windows::new(NARROWEST, 0).unwrap_err(), WindowError::KeepNone);
        let error = windows(3, &[]).merge(&windows(4, &[])).unwrap_err();
        assert_eq!(error.to_string(), "3 windows of 1.00 s do not merge with 4 windows of 1.00 s");
    }

    proptest! {
        #[test]
        fn windows_neither_lose_nor_make_visits(visits in some_visits(), keep in 1_usize..12) {
            let windows = windows(keep, &visits);
            for &operation in Operation::ALL {
                let mut sum = VisitTally::EMPTY;
                windows.rows().filter(|row| row.operation == operation).for_each(|row| sum.merge(&row.tally));
                prop_assert_eq!(sum.count, visits.iter().filter(|(one, _)| one.operation == operation).count() as u64);
                prop_assert_eq!(sum, windows.total(operation));
            }
            prop_assert!(windows.len() <= keep);
        }

        #[test]
        fn the_order_of_visits_makes_no_difference(visits in some_visits(), keep in 1_usize..12) {
            let mut sorted = visits.clone();
            sorted.sort_by_key(|(visit, _)| visit.replied);
            let (one, other) = (windows(keep, &visits), windows(keep, &sorted));
            prop_assert_eq!(one.rows().collect::<Vec<_>>(), other.rows().collect::<Vec<_>>());
        }

        #[test]
        fn merged_windows_are_those_of_the_whole(
            visits in some_visits(),
            cut in 0_usize..30,
            keep in 1_usize..12,
        ) {
            let (left, right) = visits.split_at(cut.min(visits.len()));
            let mut merged = windows(keep, right);
            merged.merge(&windows(keep, left)).unwrap();
            let whole = windows(keep, &visits);
            prop_assert_eq!(merged.folded(), whole.folded());
            prop_assert_eq!(merged.rows().collect::<Vec<_>>(), whole.rows().collect::<Vec<_>>());
        }
    }
}
