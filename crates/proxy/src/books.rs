//! What is recorded and counted: a row for each request, windows and histograms of them, the
//! slowest, the hottest keys, events, and what a model of the running traffic needs
//! ([`krarup_record::live`]).
//!
//! A client may begin its own statistics anew with `stats reset`; what monitoring reads never goes
//! back.

use std::borrow::Cow;

use krarup_record::recorder::{MOST_SERVERS, TOGETHER};
use krarup_record::{HotKeySnapshot, LiveBooks, LiveSnapshot, LoopUse, Recorder, ServerVisit, Visit};
use krarup_service::LANES;
use krarup_units::{Nanos, Stamp};

use crate::hot_keys::{HotKeyMode, KeySampling};
use crate::ids::PoolId;
use crate::pool::PoolCounts;
use crate::slow::Slowest;

mod events;
mod rows;

pub use events::Events;
pub use rows::RowSink;

use rows::Rows;

/// How long a window of requests is where no event loop says what it used.
const WINDOW: Nanos = Nanos::from_secs(1);

const _: () = assert!(MOST_SERVERS >= LANES, "each server that there can be has a place of its own");

/// What several loops have at work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtWork {
    /// Clients connected.
    pub(crate) clients: usize,
    /// Requests accepted whose reply has not left.
    pub(crate) in_progress: usize,
    /// Requests, or parts of them, that servers owe an answer.
    pub(crate) in_flight: usize,
}

/// What was counted before the last `stats reset`.
#[derive(Clone, Debug)]
struct BeforeReset {
    /// Its sums alone.
    recorder: Recorder,
    events: Events,
    /// By the pool's number.
    pools: Vec<PoolCounts>,
}

impl BeforeReset {
    fn absorb(&mut self, other: &Self) {
        self.recorder.merge(&other.recorder).expect("all loops of a process keep the same windows");
        self.events.absorb(&other.events);
        if self.pools.len() < other.pools.len() {
            self.pools.resize_with(other.pools.len(), PoolCounts::default);
        }
        for (ours, theirs) in self.pools.iter_mut().zip(&other.pools) {
            ours.absorb(theirs);
        }
    }
}

/// The books of one loop, or the sum of several.
pub(crate) struct Books {
    recorder: Recorder,
    /// Finished requests, of one server each, that are not recorded yet: together it is quicker.
    finished: Vec<(Visit, ServerVisit)>,
    slowest: Slowest,
    sampling: KeySampling,
    rows: Option<Rows>,
    /// None where it is not asked for: of a copy, and of a core that hands its rows to another's
    /// books.
    live: Option<LiveBooks>,
    /// What each of the loops summed up here has used since it began.
    used: Vec<LoopUse>,
    events: Events,
    started: Stamp,
    /// Since when is counted: the start, or the last reset.
    counting_since: Stamp,
    before_reset: Option<Box<BeforeReset>>,
    /// What the other loops had at work that are summed up here, or threads.
    elsewhere: AtWork,
}

impl Books {
    /// Empty books, which keep so many of the slowest requests of each second, and so much of the
    /// hottest keys.
    pub(crate) fn new(
        recorder: Recorder,
        slow_requests: usize,
        hot_keys: HotKeyMode,
        started: Stamp,
    ) -> Self {
        Self {
            recorder,
            finished: Vec::with_capacity(TOGETHER),
            slowest: Slowest::new(slow_requests),
            sampling: KeySampling::new(hot_keys),
            rows: None,
            live: None,
            used: vec![LoopUse::default()],
            events: Events::default(),
            started,
            counting_since: started,
            before_reset: None,
            elsewhere: AtWork::default(),
        }
    }

    // ---- writing --------------------------------------------------------------------------------

    /// Counts an event.
    #[inline]
    pub(crate) fn count(&mut self, event: impl FnOnce(&mut Events) -> &mut u64) {
        *event(&mut self.events) += 1;
    }

    /// Counts an event if it `happened`.
    #[inline]
    pub(crate) fn count_if(&mut self, happened: bool, event: impl FnOnce(&mut Events) -> &mut u64) {
        *event(&mut self.events) += u64::from(happened);
    }

    /// Every row from now on also goes to `sink`, as that of the core at `place` among `of`.
    pub(crate) fn keep_rows(&mut self, sink: Box<dyn RowSink>, place: u16, of: u16) {
        self.rows = Some(Rows::new(sink, place, of));
    }

    /// What a model of the running traffic needs is kept from now on.
    pub(crate) fn keep_live(&mut self) {
        self.live.get_or_insert_default();
    }

    /// No more rows will come: the sink can finish.
    pub(crate) fn end_rows(&mut self) {
        self.rows = None;
    }

    /// Of each second so many of the slowest requests are kept from now on.
    pub(crate) fn keep_slowest(&mut self, slow_requests: usize) {
        self.slowest.keep(slow_requests);
    }

    /// What samples requests for the hottest keys.
    #[inline]
    pub(crate) fn sampling(&mut self) -> &mut KeySampling {
        &mut self.sampling
    }

    /// A request is finished. `pool` is that of its first key.
    #[inline]
    pub(crate) fn finish(&mut self, visit: &Visit, servers: &[ServerVisit], pool: PoolId) {
        if let [server] = *servers {
            self.finished.push((*visit, server));
        } else {
            self.recorder.record(visit, servers);
        }
        self.pass_on(visit, servers, pool);
        if self.finished.len() == TOGETHER {
            self.settle();
        }
    }

    /// A request that was finished elsewhere, where no loop says what it used.
    pub(crate) fn enter(&mut self, visit: &Visit, servers: &[ServerVisit], pool: PoolId) {
        self.recorder.record(visit, servers);
        self.pass_on(visit, servers, pool);
        if let Some(live) = &mut self.live
            && live.window_begun() + WINDOW <= visit.replied
        {
            live.loop_use(visit.replied, LoopUse::default());
        }
    }

    /// A finished request goes to whatever keeps more of it than the recorder.
    #[inline]
    fn pass_on(&mut self, visit: &Visit, servers: &[ServerVisit], pool: PoolId) {
        self.slowest.offer(visit, servers, pool.index());
        if let Some(live) = &mut self.live {
            live.finish(visit, servers);
        }
        if let Some(rows) = &mut self.rows {
            rows.row(visit, servers, pool.index());
        }
    }

    /// So many requests are in progress elsewhere, of which this core keeps the books.
    pub(crate) fn enter_in_progress(&mut self, count: usize) {
        self.elsewhere.in_progress = count;
    }

    /// A server has answered a request that is finished already.
    pub(crate) fn late(&mut self, visit: &ServerVisit) {
        self.recorder.late(visit);
        if let Some(live) = &mut self.live {
            live.late(visit);
        }
        if let Some(rows) = &mut self.rows {
            rows.late(visit);
        }
    }

    /// A server has answered what no request waits for: it was occupied, which is all that counts.
    pub(crate) fn detached(&mut self, visit: &ServerVisit) {
        if let Some(live) = &mut self.live {
            live.late(visit);
        }
        if let Some(rows) = &mut self.rows {
            rows.detached(visit);
        }
    }

    /// A client has waited for replies since then, and does no longer.
    #[inline]
    pub(crate) fn client_waited(&mut self, since: Stamp, now: Stamp) {
        if let Some(live) = &mut self.live {
            live.client_waited(since, now);
        }
    }

    /// What the loop has used since this was last called, up to `now`.
    pub(crate) fn loop_used(&mut self, used: LoopUse, now: Stamp) {
        let all = &mut self.used[0];
        all.passes += used.passes;
        all.processor += used.processor;
        all.run_queue += used.run_queue;
        all.clients = used.clients;
        if let Some(live) = &mut self.live {
            live.loop_use(now, used);
        }
    }

    /// Events that happened elsewhere since `earlier`. Clients are counted where they connect.
    pub(crate) fn enter_events(&mut self, now: &Events, earlier: &Events) {
        let Events {
            requests,
            disagreements,
            server_losses,
            desynchronised,
            timeouts,
            ejections,
            commands_refused,
            ..
        } = &mut self.events;
        *requests += now.requests - earlier.requests;
        *disagreements += now.disagreements - earlier.disagreements;
        *server_losses += now.server_losses - earlier.server_losses;
        *desynchronised += now.desynchronised - earlier.desynchronised;
        *timeouts += now.timeouts - earlier.timeouts;
        *ejections += now.ejections - earlier.ejections;
        *commands_refused += now.commands_refused - earlier.commands_refused;
    }

    /// Records all that is finished.
    pub(crate) fn settle(&mut self) {
        self.recorder.record_all(&self.finished);
        self.finished.clear();
    }

    /// Opens the windows up to `now`, also those in which nothing happened.
    pub(crate) fn advance(&mut self, now: Stamp) {
        self.settle();
        self.recorder.advance(now);
    }

    /// `stats` begins anew; `pools` is what pools have counted until now.
    pub(crate) fn reset(&mut self, pools: Vec<PoolCounts>, now: Stamp) {
        self.settle();
        let recorder = self.recorder.summed(|_| true);
        let counted = BeforeReset { recorder, events: self.events, pools };
        match &mut self.before_reset {
            Some(before) => before.absorb(&counted),
            None => self.before_reset = Some(Box::new(counted)),
        }
        self.recorder.reset();
        self.recorder.advance(now);
        self.events = Events::default();
        self.slowest.reset();
        self.sampling.reset();
        self.counting_since = now;
    }

    // ---- several loops --------------------------------------------------------------------------

    /// A copy of them for the sum of all loops, of the servers whose numbers are `wanted`;
    /// `at_work` is what this one has at work.
    pub(crate) fn copy(&mut self, at_work: AtWork, wanted: impl Fn(usize) -> bool) -> Self {
        self.settle();
        let before_reset = self.before_reset.as_ref().map(|before| {
            let recorder = before.recorder.summed(&wanted);
            Box::new(BeforeReset { recorder, events: before.events, pools: before.pools.clone() })
        });
        Self {
            recorder: self.recorder.summed(&wanted),
            finished: Vec::new(),
            slowest: self.slowest.clone(),
            sampling: self.sampling.copy(),
            rows: None,
            live: None,
            used: self.used.clone(),
            events: self.events,
            started: self.started,
            counting_since: self.counting_since,
            before_reset,
            elsewhere: at_work,
        }
    }

    /// Adds those of another loop, which has so much at work.
    pub(crate) fn absorb(&mut self, other: &Self, at_work: AtWork) {
        self.recorder.merge(other.recorder()).expect("all loops of a process keep the same windows");
        match (&mut self.before_reset, &other.before_reset) {
            (Some(ours), Some(theirs)) => ours.absorb(theirs),
            (ours @ None, Some(theirs)) => *ours = Some(theirs.clone()),
            (_, None) => {}
        }
        self.slowest.absorb(&other.slowest);
        self.sampling.absorb(&other.sampling);
        self.events.absorb(&other.events);
        self.elsewhere.clients += at_work.clients;
        self.elsewhere.in_progress += at_work.in_progress;
        self.elsewhere.in_flight += at_work.in_flight;
        self.used.extend_from_slice(&other.used);
        self.started = self.started.min(other.started);
        self.counting_since = self.counting_since.min(other.counting_since);
    }

    // ---- reading --------------------------------------------------------------------------------

    /// What was recorded, once [`Self::settle`] has been called.
    pub(crate) fn recorder(&self) -> &Recorder {
        debug_assert!(self.finished.is_empty(), "the books are settled before they are read");
        &self.recorder
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) fn slowest(&self) -> &Slowest {
        &self.slowest
    }

    /// What is kept of the hottest keys, and what that is.
    pub(crate) fn hot_keys(&self, now: Stamp) -> (HotKeyMode, HotKeySnapshot) {
        (self.sampling.mode(), self.sampling.snapshot(now))
    }

    pub(crate) fn started(&self) -> Stamp {
        self.started
    }

    pub(crate) fn counting_since(&self) -> Stamp {
        self.counting_since
    }

    /// How many loops are summed up here.
    pub(crate) fn loops(&self) -> usize {
        self.used.len()
    }

    /// What each of these loops has used since it began.
    pub(crate) fn used(&self) -> &[LoopUse] {
        &self.used
    }

    /// What a model of the running traffic needs; nothing where it is not kept.
    pub(crate) fn live(&self, now: Stamp) -> LiveSnapshot {
        self.live.as_ref().map(|live| live.snapshot(now)).unwrap_or_default()
    }

    /// What the other loops had at work.
    #[inline]
    pub(crate) fn elsewhere(&self) -> &AtWork {
        &self.elsewhere
    }

    /// What everything recorded since the start adds up to, at least of the servers whose numbers
    /// are `wanted`.
    pub(crate) fn recorder_since_start(&self, wanted: impl Fn(usize) -> bool) -> Cow<'_, Recorder> {
        self.recorder().with_earlier(self.before_reset.as_ref().map(|before| &before.recorder), wanted)
    }

    /// Everything that happened since the start.
    pub(crate) fn events_since_start(&self) -> Events {
        let mut all = self.events;
        if let Some(before) = &self.before_reset {
            all.absorb(&before.events);
        }
        all
    }

    /// What the pool of this number had counted before the last reset.
    pub(crate) fn counts_before_reset(&self, pool: usize) -> Option<&PoolCounts> {
        self.before_reset.as_ref()?.pools.get(pool)
    }
}

#[cfg(test)]
mod tests {
    use krarup_record::RecorderSettings;

    use super::*;

    #[test]
    fn what_has_happened_elsewhere_is_entered_but_for_clients() {
        let recorder = Recorder::new(RecorderSettings::default()).unwrap();
        let mut books = Books::new(recorder, 0, HotKeyMode::Off, Stamp(0));
        let earlier = Events { ejections: 1, timeouts: 2, ..Events::default() };
        let now = Events { ejections: 4, timeouts: 7, clients_accepted: 9, ..Events::default() };
        books.enter_events(&now, &earlier);
        assert_eq!(*books.events(), Events { ejections: 3, timeouts: 5, ..Events::default() });
    }
}
