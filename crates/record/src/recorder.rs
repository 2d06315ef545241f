//! Everything that is kept of every request, behind one call.
//!
//! A recorder belongs to one thread, so recording takes no lock; recorders of several threads are
//! merged, and the merged one is exactly what a single recorder would have been. It records one
//! station: give each station its own.

use std::borrow::Cow;
use std::fmt;

use krarup_units::{Nanos, Stamp};

use crate::histogram::{Histograms, MeasuredDistribution};
use crate::holds::Holds;
use crate::tally::VisitTally;
use crate::window::{self, WindowError, Windows};
use crate::{Operation, Parts, ServerVisit, Visit};

/// Requests that [`Recorder::record_all`] looks at together.
pub const TOGETHER: usize = 32;

/// Servers beyond this number share the last place, so that a wrong number costs no memory.
pub const MOST_SERVERS: usize = 4_096;

/// What is kept, and how finely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderSettings {
    /// The width of a window.
    pub window: Nanos,
    /// How many windows are kept one by one.
    pub keep_windows: usize,
}

impl Default for RecorderSettings {
    /// Windows of one second, for a day.
    fn default() -> Self {
        Self { window: Nanos::from_secs(1), keep_windows: window::KEEP }
    }
}

/// What one server did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerTotals {
    /// Requests, or parts of requests, that were sent to it.
    pub requests: u64,
    /// Those that did not end with [`crate::Outcome::Ok`].
    pub errors: u64,
    /// Its times. See [`crate::stamps::ONE_SERVER_TIME`].
    pub time: MeasuredDistribution,
}

impl ServerTotals {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.time.merge(&other.time);
    }
}

/// Windows, histograms, totals and hold times of one station, filled by one thread.
#[derive(Clone, Debug)]
pub struct Recorder {
    settings: RecorderSettings,
    windows: Windows,
    histograms: Histograms,
    holds: Holds,
    servers: Vec<Option<Box<ServerTotals>>>,
    disordered: u64,
}

impl Recorder {
    /// An empty recorder.
    ///
    /// # Errors
    /// As [`Windows::new`].
    pub fn new(settings: RecorderSettings) -> Result<Self, WindowError> {
        Ok(Self {
            settings,
            windows: Windows::new(settings.window, settings.keep_windows)?,
            histograms: Histograms::new(),
            holds: Holds::new(),
            servers: Vec::new(),
            disordered: 0,
        })
    }

    /// Counts one request. Called once, when its reply has left or cannot leave any more.
    ///
    /// Allocates at the first visit of an operation or a server, when more workers are busy than
    /// ever before, and once per window.
    #[inline]
    pub fn record(&mut self, visit: &Visit, servers: &[ServerVisit]) {
        let parts = self.count(visit, servers);
        self.histograms.record(visit.operation, &parts);
        for one in servers {
            self.late(one);
        }
    }

    /// Counts requests for each of which one server was asked, as [`Self::record`] would one by
    /// one. Together it is quicker: buckets of histograms lie far apart, and are waited for at the
    /// same time.
    pub fn record_all(&mut self, rows: &[(Visit, ServerVisit)]) {
        for rows in rows.chunks(TOGETHER) {
            let mut all = [(Operation::Other, Parts::default()); TOGETHER];
            for ((visit, server), counted) in rows.iter().zip(&mut all) {
                *counted = (visit.operation, self.count(visit, std::slice::from_ref(server)));
            }
            self.histograms.record_all(&all[..rows.len()]);
            for (_, server) in rows {
                self.late(server);
            }
        }
    }

    /// Counts one request everywhere but in histograms and at its servers; where its time went.
    #[inline]
    fn count(&mut self, visit: &Visit, servers: &[ServerVisit]) -> Parts {
        let parts = visit.parts(servers);
        self.disordered += u64::from(!visit.is_ordered(servers));
        self.windows.add(visit, &parts);
        self.holds.record(visit, &parts);
        parts
    }

    /// Counts a server's answer that came after its request had been replied to, so that no row
    /// shows it.
    #[inline]
    pub fn late(&mut self, one: &ServerVisit) {
        let server = self.server_mut(usize::from(one.server));
        server.requests += 1;
        server.errors += u64::from(one.outcome.is_error());
        server.time.record(one.time());
    }

    #[inline]
    fn server_mut(&mut self, server: usize) -> &mut ServerTotals {
        let server = server.min(MOST_SERVERS - 1);
        if server >= self.servers.len() {
            self.servers.resize_with(server + 1, || None);
        }
        self.servers[server].get_or_insert_default()
    }

    /// Opens the windows up to `now`. See [`Windows::advance`].
    pub fn advance(&mut self, now: Stamp) {
        self.windows.advance(now);
    }

    /// Adds what another recorder counted, as if its visits had been recorded here.
    ///
    /// # Errors
    /// Recorders with other settings do not add up; then nothing was added.
    pub fn merge(&mut self, other: &Self) -> Result<(), WindowError> {
        self.windows.merge(&other.windows)?;
        self.histograms.merge(&other.histograms);
        self.holds.merge(&other.holds);
        for (server, theirs) in other.servers() {
            self.server_mut(server).merge(theirs);
        }
        self.disordered += other.disordered;
        Ok(())
    }

    /// Forgets everything that was counted, as after a warm-up; keeps the memory of the histograms.
    pub fn reset(&mut self) {
        self.windows.reset();
        self.histograms.reset();
        self.holds.reset();
        self.servers.clear();
        self.disordered = 0;
    }

    /// A copy for sums: of windows it has the newest alone and the others folded, and of servers
    /// those whose numbers are `wanted`. A day of windows and every server since the start are too
    /// much to be copied between two requests. It merges with others of its kind.
    pub fn summed(&self, wanted: impl Fn(usize) -> bool) -> Self {
        let servers = self.servers.iter().enumerate();
        Self {
            settings: RecorderSettings { keep_windows: 1, ..self.settings },
            windows: self.windows.summed(),
            histograms: self.histograms.clone(),
            holds: self.holds.clone(),
            servers: servers.map(|(number, one)| one.as_ref().filter(|_| wanted(number)).cloned()).collect(),
            disordered: self.disordered,
        }
    }

    /// This, and what was recorded before it began anew, if it did: then as [`Self::summed`] of the
    /// servers that are `wanted`.
    ///
    /// # Panics
    ///
    /// If the windows of `earlier` have another width.
    pub fn with_earlier(&self, earlier: Option<&Self>, wanted: impl Fn(usize) -> bool) -> Cow<'_, Self> {
        let Some(earlier) = earlier else { return Cow::Borrowed(self) };
        let mut all = earlier.summed(&wanted);
        all.merge(&self.summed(wanted)).expect("their windows have the same width");
        Cow::Owned(all)
    }

    /// What is kept, and how finely.
    pub fn settings(&self) -> RecorderSettings {
        self.settings
    }

    /// Second by second.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// How the times are distributed.
    pub fn histograms(&self) -> &Histograms {
        &self.histograms
    }

    /// Hold times by busy workers and queue length.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// What all visits of one operation add up to.
    pub fn total(&self, operation: Operation) -> VisitTally {
        self.windows.total(operation)
    }

    /// What all visits add up to.
    pub fn overall(&self) -> VisitTally {
        Operation::ALL.iter().fold(VisitTally::EMPTY, |mut sum, &operation| {
            sum.merge(&self.total(operation));
            sum
        })
    }

    /// The servers that were ever asked, with their numbers. The last possible number,
    /// [`MOST_SERVERS`] - 1, stands for all above it too.
    pub fn servers(&self) -> impl Iterator<Item = (usize, &ServerTotals)> {
        self.servers.iter().enumerate().filter_map(|(server, totals)| Some((server, totals.as_deref()?)))
    }

    /// The server of this number, if it was ever asked.
    pub fn server(&self, number: usize) -> Option<&ServerTotals> {
        self.servers.get(number)?.as_deref()
    }

    /// Visits whose stamps were not in the order of their definitions. More than none is a bug of
    /// the station.
    pub fn disordered(&self) -> u64 {
        self.disordered
    }
}

impl fmt::Display for Recorder {
    /// One line for people: how much was recorded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.overall();
        write!(f, "{} visits, {} errors, in {} windows", all.count, all.errors, self.windows.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::visit::tests::{any_visit, near_visit, ordered_visit};
    use crate::{Outcome, Quantity};

    fn recorder(visits: &[(Visit, Vec<ServerVisit>)]) -> Recorder {
        let mut recorder =
            Recorder::new(RecorderSettings { keep_windows: 5, ..RecorderSettings::default() }).unwrap();
        visits.iter().for_each(|(visit, servers)| recorder.record(visit, servers));
        recorder
    }

    fn assert_same(one: &Recorder, other: &Recorder) {
        assert_eq!(one.windows().rows().collect::<Vec<_>>(), other.windows().rows().collect::<Vec<_>>());
        assert_eq!(one.histograms(), other.histograms());
        assert_eq!(one.holds().rows().collect::<Vec<_>>(), other.holds().rows().collect::<Vec<_>>());
        assert_eq!(one.overall(), other.overall());
        assert_eq!(one.servers().collect::<Vec<_>>(), other.servers().collect::<Vec<_>>());
        assert_eq!(one.disordered(), other.disordered());
    }

    proptest! {
        #[test]
        fn together_or_one_by_one_is_the_same(visits in proptest::collection::vec((any_visit(), 0_u16..3, 0_u64..99), 0..100)) {
            let rows: Vec<_> = visits
                .iter()
                .map(|((visit, _), server, time)| {
                    let sent = visit.taken;
                    (*visit, ServerVisit::ok(*server, sent, Stamp(sent.0.saturating_add(*time))))
                })
                .collect();
            let one_by_one: Vec<_> = rows.iter().map(|&(visit, server)| (visit, vec![server])).collect();
            let mut together = recorder(&[]);
            together.record_all(&rows);
            assert_same(&together, &recorder(&one_by_one));
        }
    }

    #[test]
    fn a_server_is_asked_and_counted_even_if_it_fails() {
        let mut visit = Visit::at(Stamp(0), Operation::Set);
        visit.replied = Stamp(100);
        let lost = ServerVisit { outcome: Outcome::ServerLost, ..ServerVisit::ok(2, Stamp(10), Stamp(90)) };
        let recorder = recorder(&[(visit, vec![ServerVisit::ok(0, Stamp(10), Stamp(30)), lost])]);
        let seen: Vec<_> = recorder
            .servers()
            .map(|(n, one)| (n, one.requests, one.errors, one.time.exact().sum.0))
            .collect();
        assert_eq!(seen, [(0, 1, 0, 20), (2, 1, 1, 80)]);
        assert_eq!(recorder.disordered(), 0);
        assert_eq!(recorder.to_string(), "1 visits, 0 errors, in 1 windows");
    }

    #[test]
    fn a_wrong_server_number_costs_no_memory() {
        let visit = Visit::at(Stamp(0), Operation::Get);
        let recorder = recorder(&[(visit, vec![ServerVisit::ok(u16::MAX, Stamp(0), Stamp(0))])]);
        assert_eq!(recorder.servers().map(|(server, _)| server).collect::<Vec<_>>(), [MOST_SERVERS - 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_merged_recorder_is_that_of_the_whole(
            visits in prop::collection::vec(near_visit(), 0..12),
            cut in 0_usize..12,
        ) {
            let (left, right) = visits.split_at(cut.min(visits.len()));
            let mut merged = recorder(left);
            merged.merge(&recorder(right)).unwrap();
            assert_same(&merged, &recorder(&visits));
        }

        #[test]
        fn sums_merge_to_those_of_the_whole_and_have_one_window(
            visits in prop::collection::vec(near_visit(), 0..12),
            cut in 0_usize..12,
        ) {
            let (left, right) = visits.split_at(cut.min(visits.len()));
            let (all, whole) = (|_: usize| true, recorder(&visits));
            let mut merged = recorder(left).summed(all);
            merged.merge(&recorder(right).summed(all)).unwrap();
            assert_same(&merged, &whole.summed(all));
            prop_assert_eq!(merged.overall(), whole.overall());
            prop_assert!(merged.windows().len() <= 1);
            prop_assert!(whole.summed(|number| number == 1).servers().all(|(number, _)| number == 1));
        }

        #[test]
        fn after_a_reset_nothing_is_left_of_before(
            before in prop::collection::vec(any_visit(), 0..6),
            after in prop::collection::vec(any_visit(), 0..6),
        ) {
            let mut twice = recorder(&before);
            twice.reset();
            after.iter().for_each(|(visit, servers)| twice.record(visit, servers));
            // Histograms keep their memory, so what is compared is what they hold.
            let fresh = recorder(&after);
            prop_assert_eq!(twice.histograms().iter().collect::<Vec<_>>(), fresh.histograms().iter().collect::<Vec<_>>());
            prop_assert_eq!(twice.windows().rows().collect::<Vec<_>>(), fresh.windows().rows().collect::<Vec<_>>());
            prop_assert_eq!(twice.holds().rows().collect::<Vec<_>>(), fresh.holds().rows().collect::<Vec<_>>());
            prop_assert_eq!(twice.overall(), fresh.overall());
        }

        #[test]
        fn stamps_in_order_are_not_called_disordered(visits in prop::collection::vec(ordered_visit(), 0..12)) {
            prop_assert_eq!(recorder(&visits).disordered(), 0);
        }

        #[test]
        fn totals_and_histograms_count_every_visit_once(visits in prop::collection::vec(any_visit(), 0..12)) {
            let recorder = recorder(&visits);
            for &operation in Operation::ALL {
                let count = visits.iter().filter(|(visit, _)| visit.operation == operation).count() as u64;
                prop_assert_eq!(recorder.total(operation).count, count);
                for &quantity in Quantity::ALL {
                    let counted = recorder.histograms().get(operation, quantity).map_or(0, MeasuredDistribution::count);
                    prop_assert_eq!(counted, count);
                }
            }
        }
    }
}
