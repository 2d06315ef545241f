//! Where what clients' requests took is written: histograms, rows, and what a model of the running
//! traffic is given.

use std::borrow::Cow;

use krarup_record::file::rows::Lane;
use krarup_record::{LiveBooks, LiveSnapshot, LoopUse, Recorder, ServerVisit, Visit};
use krarup_units::Stamp;

/// How the connections to the store share its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreLanes {
    /// Each takes requests of its own kinds: to a model they are different servers.
    ByKind,
    /// Any of them takes any request.
    Alike,
}

/// Where visits are written.
#[derive(Debug)]
pub(crate) struct VisitRecords {
    pub(crate) recorder: Recorder,
    /// What had been recorded when recording began anew: its sums alone.
    before_reset: Option<Box<Recorder>>,
    /// When that was.
    pub(crate) reset_at: Option<Stamp>,
    /// Where every row is also written.
    pub(crate) rows: Option<Lane>,
    live: Option<(LiveBooks, StoreLanes)>,
}

impl VisitRecords {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self { recorder, before_reset: None, reset_at: None, rows: None, live: None }
    }

    /// Begins anew, as after a warm-up; rows, and what the running traffic is judged by, go on.
    pub(crate) fn reset(&mut self, now: Stamp) {
        self.before_reset = Some(Box::new(self.recorder_since_start().summed(|_| true)));
        self.recorder.reset();
        self.reset_at = Some(now);
    }

    /// What was recorded in all.
    pub(crate) fn recorder_since_start(&self) -> Cow<'_, Recorder> {
        self.recorder.with_earlier(self.before_reset.as_deref(), |_| true)
    }

    /// Keeps what a model of the running traffic needs, from now on.
    pub(crate) fn keep_live(&mut self, lanes: StoreLanes) {
        self.live = Some((LiveBooks::default(), lanes));
    }

    /// What was kept for it until now; nothing unless it is kept.
    pub(crate) fn live(&self, now: Stamp) -> LiveSnapshot {
        self.live.as_ref().map_or_else(LiveSnapshot::default, |(books, _)| books.snapshot(now))
    }

    /// What the loop used since the last call.
    pub(crate) fn loop_used(&mut self, used: LoopUse, now: Stamp) {
        if let Some((books, _)) = &mut self.live {
            books.loop_use(now, used);
        }
    }

    /// One request when its reply has left, or its client. `ready` is from when on it could be
    /// served, where it waited for a message until then: that wait is not the program's.
    pub(crate) fn keep(&mut self, visit: &Visit, store: Option<ServerVisit>, ready: Option<Stamp>) {
        self.recorder.record(visit, store.as_slice());
        if let Some(rows) = &mut self.rows {
            rows.push(visit, store.as_slice());
        }
        let Some((books, lanes)) = &mut self.live else { return };
        let mut visit = *visit;
        if let Some(ready) = ready {
            visit.received = ready.clamp(visit.received, visit.replied);
            visit.taken = visit.taken.max(visit.received);
        }
        let part = store.map(|one| at_store(one, *lanes));
        books.finish(&visit, part.as_slice());
    }

    /// A trip to the store of which no client is told: it found no message, and its client goes on
    /// waiting, or is gone.
    pub(crate) fn found_nothing(&mut self, store: ServerVisit) {
        if let Some((books, lanes)) = &mut self.live {
            books.late(&at_store(store, *lanes));
        }
    }
}

/// The visit as a model of the traffic sees it.
fn at_store(visit: ServerVisit, lanes: StoreLanes) -> ServerVisit {
    match lanes {
        StoreLanes::ByKind => ServerVisit { server: visit.lane, lane: 0, ..visit },
        StoreLanes::Alike => visit,
    }
}

#[cfg(test)]
mod tests {
    use krarup_record::Operation;
    use krarup_record::recorder::RecorderSettings;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn kept(lanes: StoreLanes, ready: Option<Stamp>) -> LiveSnapshot {
        let mut records = VisitRecords::new(Recorder::new(RecorderSettings::default()).unwrap());
        let mut visit = Visit::at(Stamp(SECOND), Operation::Reserve);
        (visit.taken, visit.replied) = (Stamp(SECOND + 50), Stamp(SECOND + 900));
        let store = ServerVisit { lane: 2, ..ServerVisit::ok(0, Stamp(SECOND + 200), Stamp(SECOND + 800)) };
        records.keep(&visit, Some(store), ready);
        assert_eq!(records.live(Stamp(2 * SECOND)), LiveSnapshot::default(), "it is not asked for");
        records.keep_live(lanes);
        records.keep(&visit, Some(store), ready);
        records.live(Stamp(2 * SECOND))
    }

    #[test]
    fn connections_for_kinds_of_requests_are_servers() {
        let by_kind = kept(StoreLanes::ByKind, None).visits[0];
        assert_eq!((by_kind.server(), by_kind.lane()), (2, 0));
        let alike = kept(StoreLanes::Alike, None).visits[0];
        assert_eq!((alike.server(), alike.lane(), alike.sent, alike.answered), (0, 2, 200, 800));
    }

    #[test]
    fn the_wait_for_a_message_is_left_out() {
        let visit = kept(StoreLanes::Alike, Some(Stamp(SECOND + 100))).visits[0];
        assert_eq!(
            (visit.received, visit.taken, visit.sent, visit.replied),
            (Stamp(SECOND + 100), 0, 100, 800)
        );
    }
}
