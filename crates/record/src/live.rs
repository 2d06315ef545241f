//! What one event loop keeps of the last minutes, so that a model can say how much headroom is
//! left while the traffic runs.
//!
//! ```text
//! a request is replied ─▶ LiveBooks::finish(&visit, &servers)   one per loop; no lock, no allocation
//!                              ├─▶ visits      of a stretch of each second, one entry per server asked
//!                              ├─▶ arrivals    requests received in each 50 ms
//! once a second        ─▶ LiveBooks::loop_use(…)                what the loop itself took meanwhile
//! LiveBooks::snapshot  ─▶ LiveSnapshot                          plain data; those of several loops merge
//! ```
//!
//! Memory is bounded, so at high rates not every request is kept. What is kept are **stretches**:
//! in each second all visits that end within one interval, whose length follows the rate of the
//! second before and whose place in the second is drawn from the second's number. Within a stretch
//! nothing is missing, so the order of answers on each connection can be told; stretches lie in
//! time without regard to what happens, so shares of time are not biased.

use std::collections::VecDeque;

use krarup_units::{Nanos, Stamp};

use crate::random::fraction_of;
use crate::{Operation, ServerVisit, Visit};

mod rows;

pub use rows::{KEPT_OF_ROWS, LiveRows};

/// Visits that a loop keeps: 1.5 MiB.
pub const KEPT_VISITS: usize = 48 << 10;

/// Seconds over which the kept visits are spread while they come faster than can be kept.
pub const KEPT_SECONDS: usize = 64;

/// The width of a slot in which arrivals are counted.
pub const SLOT: Nanos = Nanos::from_millis(50);

/// Slots that are kept: ten minutes.
pub const KEPT_SLOTS: usize = 12_000;

/// Windows of the loop's own use that are kept.
pub const KEPT_WINDOWS: usize = 600;

const SECOND: u64 = 1_000_000_000;

/// One server's part of a request, with the request's own stamps as offsets from `received`.
///
/// Offsets are nanoseconds and end at 4.29 s: what took longer counts as that long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveVisit {
    /// See [`crate::stamps::RECEIVED`]; of an answer that came after its request had been replied
    /// to, when it was sent.
    pub received: Stamp,
    /// From `received` to `taken`.
    pub taken: u32,
    /// From `received` to `sent`.
    pub sent: u32,
    /// From `received` to `answered`.
    pub answered: u32,
    /// From `received` to `replied`.
    pub replied: u32,
    /// Bytes of the request and its reply: of a write all of them, because each server gets the
    /// whole value, else divided evenly among the servers asked. Zero where
    /// [`LiveVisit::is_late`]: they are not known.
    pub bytes: u32,
    server: u16,
    lane: u16,
}

/// The number that stands for a server in the visit of a request that asked none.
const NO_SERVER: u16 = !(WRITES | WAITED);
const WRITES: u16 = 1 << 15;
const WAITED: u16 = 1 << 14;
const FOLLOWS: u16 = 1 << 15;
const LATE: u16 = 1 << 14;

/// A request that was longer in the queue than this waited there.
const NO_WAIT: Nanos = Nanos(1_000);

impl LiveVisit {
    fn of(visit: &Visit, one: &ServerVisit, bytes: u32, flags: u16) -> Self {
        let since =
            |stamp: Stamp| u32::try_from(stamp.0.saturating_sub(visit.received.0)).unwrap_or(u32::MAX);
        let writes = if is_write(visit.operation) { WRITES } else { 0 };
        let waited = !visit.worker_was_idle && visit.queue_time() > NO_WAIT;
        let waited = if waited { WAITED } else { 0 };
        Self {
            received: visit.received,
            taken: since(visit.taken),
            sent: since(one.sent),
            answered: since(one.answered),
            replied: since(visit.replied),
            bytes,
            server: (one.server & NO_SERVER) | writes | waited,
            lane: (one.lane & !(FOLLOWS | LATE)) | flags,
        }
    }

    /// The server's place in the configuration, from zero.
    #[inline]
    pub const fn server(&self) -> usize {
        (self.server & NO_SERVER) as usize
    }

    /// Whether the request was answered without a server.
    #[inline]
    pub const fn asked_no_server(&self) -> bool {
        self.server & NO_SERVER == NO_SERVER
    }

    /// Which of the connections to the server, from zero.
    #[inline]
    pub const fn lane(&self) -> u16 {
        self.lane & !(FOLLOWS | LATE)
    }

    /// Whether the request changes values.
    #[inline]
    pub const fn is_write(&self) -> bool {
        self.server & WRITES != 0
    }

    /// Whether the request waited for a worker: all were busy.
    #[inline]
    pub const fn waited(&self) -> bool {
        self.server & WAITED != 0
    }

    /// Whether this is a further part of the request of the entry before it.
    #[inline]
    pub const fn follows(&self) -> bool {
        self.lane & FOLLOWS != 0
    }

    /// Whether the answer came when its request had been replied to already: it occupied its
    /// server, and no client waited for it.
    #[inline]
    pub const fn is_late(&self) -> bool {
        self.lane & LATE != 0
    }

    /// When the part was sent.
    #[inline]
    pub const fn sent_at(&self) -> Stamp {
        Stamp(self.received.0 + self.sent as u64)
    }

    /// When the part was answered.
    #[inline]
    pub const fn answered_at(&self) -> Stamp {
        Stamp(self.received.0 + self.answered as u64)
    }

    /// When the reply had left.
    #[inline]
    pub const fn replied_at(&self) -> Stamp {
        Stamp(self.received.0 + self.replied as u64)
    }
}

const fn is_write(operation: Operation) -> bool {
    !matches!(
        operation,
        Operation::Get | Operation::MultiGet | Operation::Peek | Operation::List | Operation::Other
    )
}

/// Whether each server that is asked gets all of it. A `gat` asks each for keys of its own.
const fn is_copied(operation: Operation) -> bool {
    is_write(operation) && !matches!(operation, Operation::Gat)
}

/// An interval of which every visit was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitStretch {
    /// Which loop kept it, from zero.
    pub in_loop: u16,
    /// Where its visits begin among those of the snapshot.
    pub first: usize,
    /// How many visits it has.
    pub count: usize,
    /// When it begins: visits that were replied before are not in it.
    pub from: Stamp,
    /// When it ends.
    pub to: Stamp,
}

/// What a loop used between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopUse {
    /// Passes of the loop.
    pub passes: u64,
    /// Processor time of the loop's thread.
    pub processor: Nanos,
    /// Time in which the thread was ready to run and had no processor.
    pub run_queue: Nanos,
    /// Clients that were connected at the end.
    pub clients: u32,
    /// Time in which processors of the machine were at work, whatever for; zero where that is not
    /// known.
    pub machine_busy: Nanos,
    /// The same with the time in which they were idle.
    pub machine_time: Nanos,
    /// Time in which the machine's busiest link carried bytes at its rate; zero where that is not
    /// known.
    pub link_busy: Nanos,
    /// The same with the time in which it carried none; zero where no link's rate is known.
    pub link_time: Nanos,
}

/// [`LoopUse`] with the interval it belongs to, and what was done in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopWindow {
    /// Which loop, from zero.
    pub in_loop: u16,
    /// When it begins.
    pub from: Stamp,
    /// When it ends.
    pub to: Stamp,
    /// Requests replied to.
    pub requests: u64,
    /// Those that ended in an error that is not the client's.
    pub failures: u64,
    /// Most requests that one reading of clients found unfinished at once: the workers busy.
    pub most_busy: u32,
    /// Time in which clients waited for replies, of all clients together.
    pub waited: Nanos,
    /// What the loop used.
    pub used: LoopUse,
}

impl LoopWindow {
    /// How long it is, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.to.0 - self.from.0) as f64 / 1e9
    }
}

/// What one loop keeps for a model of its traffic. See the [module](self).
#[derive(Clone, Debug)]
pub struct LiveBooks {
    visits: Vec<LiveVisit>,
    /// Visits ever kept; the place of the next one is this modulo the room.
    pushed: u64,
    room: usize,
    stretches: VecDeque<KeptStretch>,
    second: u64,
    /// Visits in the second that goes on, kept or not.
    in_second: u64,
    keep_from: u64,
    keep_to: u64,
    keep_until_pushed: u64,
    slots: Vec<u32>,
    /// The newest slot that was opened, and the first.
    slot: u64,
    first_slot: u64,
    windows: VecDeque<LoopWindow>,
    window: LoopWindow,
    /// Whether anything has been seen.
    begun: bool,
}

#[derive(Clone, Copy, Debug)]
struct KeptStretch {
    first: u64,
    from: Stamp,
    to: Stamp,
}

impl Default for LiveBooks {
    fn default() -> Self {
        Self::new(KEPT_VISITS)
    }
}

impl LiveBooks {
    /// Empty books with room for so many visits, at least one per kept second. All memory is
    /// allocated now.
    pub fn new(room: usize) -> Self {
        let room = room.max(KEPT_SECONDS);
        Self {
            visits: Vec::with_capacity(room),
            pushed: 0,
            room,
            stretches: VecDeque::with_capacity(KEPT_WINDOWS + 1),
            second: 0,
            in_second: 0,
            keep_from: 0,
            keep_to: 0,
            keep_until_pushed: 0,
            slots: vec![0; KEPT_SLOTS],
            slot: 0,
            first_slot: 0,
            windows: VecDeque::with_capacity(KEPT_WINDOWS + 1),
            window: LoopWindow::default(),
            begun: false,
        }
    }

    /// Counts one request when its reply has left. Requests come in the order in which they were
    /// replied to, up to what one write carries.
    #[inline]
    pub fn finish(&mut self, visit: &Visit, servers: &[ServerVisit]) {
        if visit.replied.0 / SECOND != self.second || !self.begun {
            self.next_second(visit.replied);
        }
        self.window.requests += 1;
        self.window.failures += u64::from(is_failure(visit));
        self.window.most_busy = self.window.most_busy.max(visit.busy_workers);
        self.arrived(visit.received);
        self.in_second += servers.len().max(1) as u64;
        if self.keeps(visit.replied) {
            let shares = if is_copied(visit.operation) { 1 } else { servers.len().max(1) as u64 };
            let bytes = (visit.bytes_in + visit.bytes_out) / shares;
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            if servers.is_empty() {
                let none = ServerVisit::ok(NO_SERVER, visit.taken, visit.taken);
                self.push(LiveVisit::of(visit, &none, bytes, 0));
            }
            for (place, one) in servers.iter().enumerate() {
                let flags = if place == 0 { 0 } else { FOLLOWS };
                self.push(LiveVisit::of(visit, one, bytes, flags));
            }
        }
    }

    /// Counts an answer that came when its request had been replied to already.
    pub fn late(&mut self, one: &ServerVisit) {
        if one.answered.0 / SECOND != self.second || !self.begun {
            self.next_second(one.answered);
        }
        self.in_second += 1;
        if self.keeps(one.answered) {
            let mut visit = Visit::at(one.sent, Operation::Set);
            visit.replied = one.answered;
            self.push(LiveVisit::of(&visit, one, 0, LATE));
        }
    }

    /// A client has waited for replies since then, and does no longer.
    #[inline]
    pub fn client_waited(&mut self, since: Stamp, now: Stamp) {
        self.window.waited += Nanos(now.0.saturating_sub(since.0));
    }

    /// What the loop used since the last call; `now` ends the window.
    pub fn loop_use(&mut self, now: Stamp, used: LoopUse) {
        let window = LoopWindow { to: now, used, ..self.window };
        self.window = LoopWindow { from: now, ..LoopWindow::default() };
        if window.from >= now {
            return;
        }
        if self.windows.len() == KEPT_WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back(window);
    }

    /// When the window began that [`Self::loop_use`] ends.
    #[inline]
    pub fn window_begun(&self) -> Stamp {
        self.window.from
    }

    #[inline]
    fn keeps(&self, at: Stamp) -> bool {
        at.0 >= self.keep_from && at.0 < self.keep_to && self.pushed < self.keep_until_pushed
    }

    #[inline]
    fn push(&mut self, visit: LiveVisit) {
        let place = (self.pushed % self.room as u64) as usize;
        if place == self.visits.len() {
            self.visits.push(visit);
        } else {
            self.visits[place] = visit;
        }
        self.pushed += 1;
        if self.pushed == self.keep_until_pushed
            && let Some(stretch) = self.stretches.back_mut()
        {
            stretch.to = visit.replied_at();
        }
    }

    #[inline]
    fn arrived(&mut self, received: Stamp) {
        let slot = received.0 / SLOT.0;
        if slot > self.slot {
            self.open_slots(slot);
        }
        if slot >= self.first_slot && self.slot - slot < KEPT_SLOTS as u64 {
            let count = &mut self.slots[(slot % KEPT_SLOTS as u64) as usize];
            *count = count.saturating_add(1);
        }
    }

    #[cold]
    fn open_slots(&mut self, slot: u64) {
        let from = self.slot.max(slot.saturating_sub(KEPT_SLOTS as u64)) + 1;
        for quiet in from..=slot {
            self.slots[(quiet % KEPT_SLOTS as u64) as usize] = 0;
        }
        self.slot = slot;
    }

    /// Plans which stretch of a second that begins is kept.
    #[cold]
    fn next_second(&mut self, at: Stamp) {
        let second = at.0 / SECOND;
        if !self.begun {
            self.begun = true;
            self.slot = at.0 / SLOT.0;
            self.first_slot = self.slot;
            self.window.from = at;
        } else if second < self.second {
            // Replies of one write may end on either side of a second: the plan stays.
            return;
        }
        let quota = (self.room / KEPT_SECONDS) as u64;
        let share = if second == self.second + 1 && self.in_second > quota {
            quota as f64 / self.in_second as f64
        } else {
            1.0
        };
        let length = (share * SECOND as f64) as u64;
        let begin = second * SECOND;
        // So that stretches follow no period of the traffic.
        self.keep_from = begin + (fraction_of(second) * (SECOND - length) as f64) as u64;
        self.keep_to = self.keep_from + length;
        // A rate that rises at once must not push everything else out.
        self.keep_until_pushed = self.pushed + 4 * quota;
        self.second = second;
        self.in_second = 0;
        self.stretches.push_back(KeptStretch {
            first: self.pushed,
            from: Stamp(self.keep_from),
            to: Stamp(self.keep_to),
        });
        let oldest = self.pushed.saturating_sub(self.room as u64);
        while self.stretches.len() > KEPT_WINDOWS
            || self.stretches.get(1).is_some_and(|next| next.first <= oldest)
        {
            self.stretches.pop_front();
        }
    }

    /// What is kept at `now`.
    pub fn snapshot(&self, now: Stamp) -> LiveSnapshot {
        let oldest = self.pushed.saturating_sub(self.room as u64);
        let mut visits = Vec::with_capacity(self.visits.len());
        let mut stretches = Vec::with_capacity(self.stretches.len());
        for (place, stretch) in self.stretches.iter().enumerate() {
            let end = self.stretches.get(place + 1).map_or(self.pushed, |next| next.first);
            let begin = stretch.first.max(oldest);
            // One that lost all of its visits is not a quiet one.
            if begin != stretch.first && begin >= end {
                continue;
            }
            let first = visits.len();
            visits.extend((begin..end).map(|one| self.visits[(one % self.room as u64) as usize]));
            // Of a stretch that lost its first visits only the rest of its time is covered.
            let from = if begin == stretch.first {
                stretch.from
            } else {
                next_reply(&visits[first..], stretch.from)
            };
            let to = stretch.to.min(now);
            if from < to {
                stretches.push(VisitStretch { in_loop: 0, first, count: visits.len() - first, from, to });
            }
        }
        let first_slot = self.first_slot.max(self.slot.saturating_sub(KEPT_SLOTS as u64 - 1));
        // The slot that goes on is not complete.
        let arrivals =
            (first_slot..self.slot).map(|slot| self.slots[(slot % KEPT_SLOTS as u64) as usize]).collect();
        LiveSnapshot {
            at: now,
            visits,
            stretches,
            first_slot: Stamp(first_slot * SLOT.0),
            arrivals,
            windows: self.windows.iter().copied().collect(),
            loops: 1,
        }
    }
}

fn next_reply(visits: &[LiveVisit], otherwise: Stamp) -> Stamp {
    visits.first().map_or(otherwise, LiveVisit::replied_at)
}

fn is_failure(visit: &Visit) -> bool {
    use crate::Outcome::{Refused, ServerError, ServerLost, Timeout};
    matches!(visit.outcome, ServerError | ServerLost | Timeout | Refused)
}

/// What was kept, as plain data: of one loop, or merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveSnapshot {
    /// When it was taken.
    pub at: Stamp,
    /// The visits of all stretches, stretch by stretch, each in the order of the replies.
    pub visits: Vec<LiveVisit>,
    /// Which intervals the visits cover, each loop's in the order of time.
    pub stretches: Vec<VisitStretch>,
    /// When the first slot of `arrivals` begins.
    pub first_slot: Stamp,
    /// Requests received in each [`SLOT`], of complete slots.
    pub arrivals: Vec<u32>,
    /// What the loops used, each loop's windows in the order of time.
    pub windows: Vec<LoopWindow>,
    /// How many loops are merged here.
    pub loops: u16,
}

impl LiveSnapshot {
    /// Requests a second that all loops replied to in the windows that began within this time
    /// before the snapshot; zero without any.
    pub fn replied_per_s(&self, within: Nanos) -> f64 {
        let from = self.at.0.saturating_sub(within.0);
        let late = self.windows.iter().filter(|one| one.from.0 >= from);
        let (requests, begin, end) = late.fold((0, u64::MAX, 0), |(requests, begin, end), one| {
            (requests + one.requests, begin.min(one.from.0), end.max(one.to.0))
        });
        if end > begin { requests as f64 * 1e9 / (end - begin) as f64 } else { 0.0 }
    }

    /// The same as it was just after the last reply that was kept had left: what came later is no
    /// traffic, such as the time in which a program was asked no more, before it was ended.
    #[must_use]
    pub fn at_last_reply(mut self) -> Self {
        if let Some(last) = self.visits.iter().map(LiveVisit::replied_at).max() {
            // A stretch ends after its last reply, and none ends after the snapshot.
            self.at = Stamp(last.0 + 1);
            self.stretches.iter_mut().for_each(|one| one.to = one.to.min(self.at));
        }
        self
    }

    /// Adds what another loop kept. Its loops get the next numbers.
    pub fn merge(&mut self, other: &Self) {
        let (loops, first) = (self.loops, self.visits.len());
        self.visits.extend_from_slice(&other.visits);
        self.stretches.extend(other.stretches.iter().map(|one| VisitStretch {
            in_loop: one.in_loop + loops,
            first: one.first + first,
            ..*one
        }));
        self.windows
            .extend(other.windows.iter().map(|one| LoopWindow { in_loop: one.in_loop + loops, ..*one }));
        self.merge_arrivals(other);
        self.at = self.at.max(other.at);
        self.loops += other.loops;
    }

    fn merge_arrivals(&mut self, other: &Self) {
        if other.arrivals.is_empty() {
            return;
        }
        if self.arrivals.is_empty() {
            (self.first_slot, self.arrivals) = (other.first_slot, other.arrivals.clone());
            return;
        }
        let first = |one: &Self| one.first_slot.0 / SLOT.0;
        let end = |one: &Self| first(one) + one.arrivals.len() as u64;
        let last = end(self).max(end(other));
        // Of a loop that has been quiet for long what it had is older than what the other knows.
        let begin = first(self).min(first(other)).max(last.saturating_sub(KEPT_SLOTS as u64));
        let mut sum = vec![0_u32; (last - begin) as usize];
        for one in [&*self, other] {
            for (slot, count) in (first(one)..).zip(&one.arrivals) {
                if let Some(place) = slot.checked_sub(begin) {
                    let place = &mut sum[place as usize];
                    *place = place.saturating_add(*count);
                }
            }
        }
        (self.first_slot, self.arrivals) = (Stamp(begin * SLOT.0), sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request at server 0 that is answered and replied to after a millisecond.
    fn finished_at(books: &mut LiveBooks, replied: u64) {
        let mut visit = Visit::at(Stamp(replied - 1_000_000), Operation::Get);
        visit.replied = Stamp(replied);
        books.finish(&visit, &[ServerVisit::ok(0, visit.received, visit.replied)]);
    }

    fn steady(books: &mut LiveBooks, per_second: u64, seconds: u64) {
        for number in 0..per_second * seconds {
            finished_at(books, 5 * SECOND + number * SECOND / per_second);
        }
    }

    #[test]
    fn at_a_low_rate_every_visit_is_kept() {
        let mut books = LiveBooks::new(6_400);
        steady(&mut books, 50, 100);
        let kept = books.snapshot(Stamp(200 * SECOND));
        assert_eq!(kept.visits.len(), 5_000);
        assert_eq!(kept.stretches.len(), 100);
        assert_eq!(kept.arrivals.iter().map(|&count| u64::from(count)).sum::<u64>(), 4_997);
    }

    #[test]
    fn at_a_high_rate_each_second_has_its_stretch_and_nothing_is_missing_in_it() {
        let mut books = LiveBooks::new(64 * 100);
        steady(&mut books, 5_000, 80);
        let kept = books.snapshot(Stamp(200 * SECOND));
        assert_eq!(kept.visits.len(), 6_400);
        let whole: Vec<_> = kept.stretches.iter().skip(1).collect();
        assert!((62..=66).contains(&whole.len()), "{}", whole.len());
        let (mut at, mut early) = (0, 0);
        for stretch in whole {
            assert!((99..=101).contains(&stretch.count), "{stretch:?}");
            let visits = &kept.visits[stretch.first..stretch.first + stretch.count];
            for pair in visits.windows(2) {
                assert_eq!(pair[1].replied_at().0 - pair[0].replied_at().0, SECOND / 5_000);
            }
            assert!(stretch.from.0 / SECOND > at);
            at = stretch.from.0 / SECOND;
            early += u32::from(stretch.from.0 % SECOND < SECOND / 2);
        }
        assert!((20..=44).contains(&early), "stretches lie anywhere in their seconds: {early}");
    }

    #[test]
    fn a_stretch_that_lost_all_its_visits_is_not_told_as_a_quiet_one() {
        let mut books = LiveBooks::new(64 * 100);
        steady(&mut books, 5_000, 80);
        for number in 0..5_000 {
            let now = 85 * SECOND + number * SECOND / 5_000;
            finished_at(&mut books, now);
            // Each 10 ms.
            if number % 50 == 49 {
                let kept = books.snapshot(Stamp(now));
                assert!(kept.stretches.iter().all(|one| one.count > 0), "{:?}", kept.stretches);
            }
        }
    }

    #[test]
    fn a_rate_that_rises_at_once_leaves_the_past() {
        let mut books = LiveBooks::new(64 * 100);
        steady(&mut books, 100, 30);
        for number in 0..100_000 {
            finished_at(&mut books, 35 * SECOND + number * SECOND / 100_000);
        }
        let kept = books.snapshot(Stamp(60 * SECOND));
        assert_eq!(kept.visits.len(), 3_000 + 400);
        let last = kept.stretches.last().unwrap();
        assert_eq!(last.to.0 - last.from.0, 399 * SECOND / 100_000, "its time ends where its visits do");
    }

    #[test]
    fn parts_of_one_request_stand_together_and_late_answers_are_told_apart() {
        let mut books = LiveBooks::default();
        let mut visit = Visit::at(Stamp(SECOND), Operation::Set);
        visit.replied = Stamp(SECOND + 900);
        visit.bytes_in = 100;
        let second = ServerVisit { lane: 3, ..ServerVisit::ok(1, Stamp(SECOND + 10), Stamp(SECOND + 800)) };
        books.finish(&visit, &[ServerVisit::ok(0, Stamp(SECOND + 10), Stamp(SECOND + 500)), second]);
        books.late(&ServerVisit::ok(2, Stamp(SECOND + 10), Stamp(SECOND + 2_000)));
        let kept = books.snapshot(Stamp(2 * SECOND)).visits;
        let told: Vec<_> = kept
            .iter()
            .map(|one| (one.server(), one.lane(), one.follows(), one.is_late(), one.bytes))
            .collect();
        assert_eq!(told, [(0, 0, false, false, 100), (1, 3, true, false, 100), (2, 0, false, true, 0)]);
        assert_eq!(kept[1].answered_at(), Stamp(SECOND + 800));
        assert_eq!(kept[2].answered_at(), Stamp(SECOND + 2_000));
        assert!(kept[0].is_write());
    }

    #[test]
    fn a_write_takes_all_its_bytes_to_each_server_and_a_read_its_part_of_them() {
        use Operation::{Append, Delete, Gat, MultiGet, Set};
        for (operation, each) in [(Set, 100), (Append, 100), (Delete, 100), (MultiGet, 50), (Gat, 50)] {
            let mut books = LiveBooks::default();
            let mut visit = Visit::at(Stamp(SECOND), operation);
            (visit.bytes_in, visit.bytes_out) = (30, 70);
            books.finish(&visit, &[0, 1].map(|server| ServerVisit::ok(server, visit.taken, visit.replied)));
            let kept = books.snapshot(Stamp(2 * SECOND)).visits;
            assert_eq!(kept.iter().map(|one| one.bytes).collect::<Vec<_>>(), [each; 2], "{operation}");
        }
    }

    #[test]
    fn a_request_that_asked_no_server_is_kept_as_one() {
        let mut books = LiveBooks::default();
        let mut visit = Visit::at(Stamp(SECOND), Operation::Put);
        (visit.taken, visit.replied) = (Stamp(SECOND + 100), Stamp(SECOND + 900));
        books.finish(&visit, &[]);
        let kept = books.snapshot(Stamp(2 * SECOND)).visits;
        assert!(kept[0].asked_no_server() && kept[0].is_write() && !kept[0].follows());
        assert_eq!((kept[0].taken, kept[0].sent, kept[0].replied), (100, 100, 900));
    }

    /// What was read together with other requests is taken a little later, by an idle worker.
    #[test]
    fn a_request_waited_where_it_was_in_the_queue_and_not_where_it_was_read_with_others() {
        let mut books = LiveBooks::default();
        for (queued, taken, worker_was_idle) in [(0, 9_000, false), (9_000, 9_000, false), (0, 9_000, true)] {
            let mut visit = Visit::at(Stamp(SECOND), Operation::Set);
            (visit.queued, visit.taken) = (Stamp(SECOND + queued), Stamp(SECOND + taken));
            (visit.replied, visit.worker_was_idle) = (Stamp(SECOND + 20_000), worker_was_idle);
            books.finish(&visit, &[ServerVisit::ok(3, visit.taken, visit.replied)]);
        }
        let kept = books.snapshot(Stamp(2 * SECOND)).visits;
        let waited: Vec<_> = kept.iter().map(|one| (one.server(), one.is_write(), one.waited())).collect();
        assert_eq!(waited, [(3, true, true), (3, true, false), (3, true, false)]);
    }

    #[test]
    fn what_took_long_ends_at_the_longest_offset() {
        let mut books = LiveBooks::default();
        let mut visit = Visit::at(Stamp(SECOND), Operation::Get);
        visit.replied = Stamp(20 * SECOND);
        books.finish(&visit, &[ServerVisit::ok(0, visit.received, visit.replied)]);
        assert_eq!(books.snapshot(Stamp(30 * SECOND)).visits[0].replied, u32::MAX);
    }

    #[test]
    fn windows_hold_what_was_done_and_used_between_two_readings() {
        let mut books = LiveBooks::default();
        steady(&mut books, 10, 1);
        let used =
            LoopUse { passes: 7, processor: Nanos(9), run_queue: Nanos(1), clients: 2, ..LoopUse::default() };
        books.client_waited(Stamp(5 * SECOND + 10), Stamp(5 * SECOND + 40));
        books.client_waited(Stamp(5 * SECOND), Stamp(5 * SECOND + 5));
        books.loop_use(Stamp(6 * SECOND), used);
        books.loop_use(Stamp(7 * SECOND), LoopUse::default());
        let windows = books.snapshot(Stamp(8 * SECOND)).windows;
        assert_eq!(windows.iter().map(|one| one.requests).collect::<Vec<_>>(), [10, 0]);
        assert_eq!((windows[0].waited, windows[1].waited), (Nanos(35), Nanos::ZERO));
        assert_eq!(
            (windows[0].from, windows[0].to, windows[0].used),
            (Stamp(5 * SECOND), Stamp(6 * SECOND), used)
        );
    }

    #[test]
    fn loops_merge_into_one_snapshot() {
        let (mut a, mut b) = (LiveBooks::new(6_400), LiveBooks::new(6_400));
        steady(&mut a, 10, 3);
        steady(&mut b, 20, 4);
        let (mut sum, other) = (a.snapshot(Stamp(60 * SECOND)), b.snapshot(Stamp(61 * SECOND)));
        let arrived = |one: &LiveSnapshot| one.arrivals.iter().map(|&count| u64::from(count)).sum::<u64>();
        let expected = arrived(&sum) + arrived(&other);
        sum.merge(&other);
        assert_eq!((sum.loops, sum.at, arrived(&sum)), (2, Stamp(61 * SECOND), expected));
        assert_eq!(sum.visits.len(), 110);
        for stretch in &sum.stretches {
            for visit in &sum.visits[stretch.first..stretch.first + stretch.count] {
                assert!(visit.replied_at() >= stretch.from && visit.replied_at() < stretch.to);
            }
        }
    }

    /// What the loop with traffic keeps reaches ten minutes back, whichever loop comes first.
    #[test]
    fn a_loop_that_has_been_quiet_for_hours_makes_arrivals_reach_no_further_back() {
        let (mut quiet, mut busy) = (LiveBooks::new(6_400), LiveBooks::new(6_400));
        steady(&mut quiet, 10, 60);
        for number in 0..600 {
            finished_at(&mut busy, (7 * 3_600 + 5) * SECOND + number * SECOND / 10);
        }
        let now = Stamp((7 * 3_600 + 65) * SECOND);
        let (quiet, busy) = (quiet.snapshot(now), busy.snapshot(now));
        let mut sums = [(quiet.clone(), &busy), (busy.clone(), &quiet)].map(|(mut sum, other)| {
            sum.merge(other);
            sum
        });
        for sum in &sums {
            let end = sum.first_slot.0 + sum.arrivals.len() as u64 * SLOT.0;
            assert_eq!(end, busy.first_slot.0 + busy.arrivals.len() as u64 * SLOT.0);
            assert_eq!(sum.arrivals.len(), KEPT_SLOTS);
            let seen = &sum.arrivals[KEPT_SLOTS - busy.arrivals.len()..];
            assert_eq!(seen, busy.arrivals);
            assert_eq!(sum.arrivals.iter().sum::<u32>(), busy.arrivals.iter().sum::<u32>());
        }
        // A loop that is merged then has its traffic in what is left.
        sums[0].merge(&busy);
        assert_eq!(sums[0].arrivals.iter().sum::<u32>(), 2 * busy.arrivals.iter().sum::<u32>());
    }

    #[test]
    fn what_came_after_the_last_reply_is_no_traffic() {
        let mut books = LiveBooks::new(6_400);
        steady(&mut books, 10, 3);
        let seen = books.snapshot(Stamp(60 * SECOND));
        let last = seen.visits.iter().map(LiveVisit::replied_at).max().unwrap();
        let whole = seen.clone().at_last_reply();
        assert!(whole.at.0 == last.0 + 1 && seen.at > whole.at, "{} and {}", whole.at.0, seen.at.0);
        let ends: Vec<Stamp> = whole.stretches.iter().map(|one| one.to).collect();
        assert!(ends.iter().all(|&to| to <= whole.at) && ends.contains(&whole.at), "{ends:?}");
        assert_eq!((whole.visits.len(), whole.stretches.len()), (seen.visits.len(), seen.stretches.len()));
        assert_eq!(LiveSnapshot::default().at_last_reply(), LiveSnapshot::default());
    }

    #[test]
    fn a_visit_takes_thirty_two_bytes() {
        assert_eq!(size_of::<LiveVisit>(), 32);
    }
}
