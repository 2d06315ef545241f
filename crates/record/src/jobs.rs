//! What a broker keeps of the last minutes of one tube, so that a model can say how many workers
//! the tube needs.
//!
//! ```text
//! a message becomes ready ─▶ JobBooks::arrived(at)            no lock, no allocation
//! it is handed out        ─▶ JobBooks::handed_out(waited, …)
//! its lease ends          ─▶ JobBooks::ended(time, done)
//! JobBooks::snapshot      ─▶ JobSnapshot                      plain data
//! ```
//!
//! | time | from | to |
//! |---|---|---|
//! | waiting time | the message becomes ready | it is handed out |
//! | service time | it is handed out | it is deleted by the holder of its lease (done), or the lease ends otherwise (given up) |
//!
//! A message that is given back and becomes ready once more arrives once more, and waits anew. A
//! lease that is touched goes on.
//!
//! Memory is bounded: arrivals are counted in slots of 100 ms for a minute and of a second for ten
//! minutes, with the sums of the gaps before them; of services and waiting times the latest
//! [`KEPT_JOBS`] are kept. That is [`KEPT_BYTES`], allocated when the books are made.

use krarup_units::{Nanos, Seconds, Stamp};

use crate::exposition::{TimeBuckets, WAITING_BOUNDS};
use crate::tally::in_seconds;

/// The width of a fine slot of arrivals.
pub const FINE_SLOT: Nanos = Nanos::from_millis(100);

/// The width of a coarse slot.
pub const COARSE_SLOT: Nanos = Nanos::from_secs(1);

/// Fine slots that are kept: a minute.
pub const FINE_SLOTS: usize = 600;

/// Coarse slots that are kept: ten minutes.
pub const COARSE_SLOTS: usize = 600;

/// Services, and waiting times, that are kept.
pub const KEPT_JOBS: usize = 1_024;

/// Memory of the books of one tube, at most.
pub const KEPT_BYTES: usize = 25_000;

/// With so many arrivals in the last minute, fifty a second, a coarse slot holds more than a model
/// needs to tell how the rate changes.
const FAST: u64 = 3_000;

/// Fine slots in a coarse one.
const FINE_IN_COARSE: u64 = COARSE_SLOT.0 / FINE_SLOT.0;

/// A gap that is longer separates two times of traffic, and is none of it.
const LONGEST_GAP: Nanos = Nanos(COARSE_SLOT.0 * COARSE_SLOTS as u64);

/// Arrivals of one coarse slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArrivalSlot {
    /// How many.
    pub count: u32,
    /// The sum of the squares of their gaps, in square seconds.
    pub gap_squares: f32,
    /// The sum of the gaps: from the arrival before to each of these.
    pub gaps: Nanos,
}

/// One service: a lease that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedLease {
    /// From the hand-out to the end.
    pub time: Nanos,
    /// Whether the message was done with; else it was given up.
    pub done: bool,
}

/// What is kept of one tube. See the [module](self).
#[derive(Clone, Debug)]
pub struct JobBooks {
    /// The latest arrival; none: there was none.
    latest: Option<Stamp>,
    /// The fine slot of the first and of the latest arrival, counted from stamp zero.
    first_slot: u64,
    slot: u64,
    /// Where the latest slots stand among those that are kept.
    fine_place: usize,
    coarse_place: usize,
    arrived: u64,
    redelivered: u64,
    done: u64,
    given_up: u64,
    /// The sum of the times of what was done, and of all leases, in nanoseconds: where a million
    /// messages wait or are held, 64 bits are full within hours.
    service: u128,
    held: u128,
    waits: u64,
    /// The sum of all waiting times, and how many ended in each bucket: up to a bound and above the
    /// one before; the last holds those above all.
    waiting: u128,
    waiting_buckets: [u64; WAITING_BOUNDS.len() + 1],
    fine: Box<[u32; FINE_SLOTS]>,
    coarse: Box<[ArrivalSlot; COARSE_SLOTS]>,
    /// Times of services in nanoseconds, the lowest bit says whether it was done.
    kept_services: Box<[u64; KEPT_JOBS]>,
    /// Waiting times in seconds.
    kept_waits: Box<[f32; KEPT_JOBS]>,
}

impl Default for JobBooks {
    fn default() -> Self {
        Self::new()
    }
}

impl JobBooks {
    /// Empty books. All memory is allocated now.
    pub fn new() -> Self {
        Self {
            latest: None,
            first_slot: 0,
            slot: 0,
            fine_place: 0,
            coarse_place: 0,
            arrived: 0,
            redelivered: 0,
            done: 0,
            given_up: 0,
            service: 0,
            held: 0,
            waits: 0,
            waiting: 0,
            waiting_buckets: [0; WAITING_BOUNDS.len() + 1],
            fine: Box::new([0; FINE_SLOTS]),
            coarse: Box::new([ArrivalSlot::default(); COARSE_SLOTS]),
            kept_services: Box::new([0; KEPT_JOBS]),
            kept_waits: Box::new([0.0; KEPT_JOBS]),
        }
    }

    /// Forgets everything, keeps the memory.
    pub fn reset(&mut self) {
        self.fine.fill(0);
        self.coarse.fill(ArrivalSlot::default());
        (self.latest, self.first_slot, self.slot) = (None, 0, 0);
        (self.fine_place, self.coarse_place) = (0, 0);
        (self.arrived, self.redelivered, self.done, self.given_up) = (0, 0, 0, 0);
        (self.service, self.held, self.waits) = (0, 0, 0);
        (self.waiting, self.waiting_buckets) = (0, [0; WAITING_BOUNDS.len() + 1]);
    }

    /// A message becomes ready. One that is stamped before another that came earlier counts as of
    /// the same instant: commits are heard of a little late.
    #[inline]
    pub fn arrived(&mut self, at: Stamp) {
        let slot = at.0 / FINE_SLOT.0;
        if slot > self.slot || self.latest.is_none() {
            self.open(slot);
        }
        self.arrived += 1;
        self.fine[self.fine_place] = self.fine[self.fine_place].saturating_add(1);
        let coarse = &mut self.coarse[self.coarse_place];
        coarse.count = coarse.count.saturating_add(1);
        let latest = self.latest.unwrap_or(at);
        let gap = Nanos(at.0.saturating_sub(latest.0));
        if gap <= LONGEST_GAP {
            let seconds = gap.as_seconds();
            coarse.gaps.0 += gap.0;
            coarse.gap_squares += (seconds * seconds) as f32;
        }
        self.latest = Some(latest.max(at));
    }

    /// Slots pass in which nothing arrived.
    #[cold]
    fn open(&mut self, slot: u64) {
        if self.latest.is_none() {
            (self.first_slot, self.slot) = (slot, slot);
            return;
        }
        for _ in 0..(slot - self.slot).min(FINE_SLOTS as u64) {
            self.fine_place = (self.fine_place + 1) % FINE_SLOTS;
            self.fine[self.fine_place] = 0;
        }
        let coarse = slot / FINE_IN_COARSE - self.slot / FINE_IN_COARSE;
        for _ in 0..coarse.min(COARSE_SLOTS as u64) {
            self.coarse_place = (self.coarse_place + 1) % COARSE_SLOTS;
            self.coarse[self.coarse_place] = ArrivalSlot::default();
        }
        self.slot = slot;
    }

    /// A message is handed out that became ready so long ago, if that is known; `redelivered`: it
    /// had been handed out before.
    #[inline]
    pub fn handed_out(&mut self, waited: Option<Nanos>, redelivered: bool) {
        self.redelivered += u64::from(redelivered);
        if let Some(waited) = waited {
            self.kept_waits[(self.waits % KEPT_JOBS as u64) as usize] = waited.as_seconds() as f32;
            self.waits += 1;
            self.waiting += u128::from(waited.0);
            self.waiting_buckets[WAITING_BOUNDS.partition_point(|&bound| bound < waited.0)] += 1;
        }
    }

    /// A lease ends so long after the hand-out; `done`: its holder is done with the message.
    #[inline]
    pub fn ended(&mut self, time: Nanos, done: bool) {
        let place = (self.done + self.given_up) % KEPT_JOBS as u64;
        self.kept_services[place as usize] = time.0 << 1 | u64::from(done);
        self.held += u128::from(time.0);
        if done {
            self.done += 1;
            self.service += u128::from(time.0);
        } else {
            self.given_up += 1;
        }
    }

    /// Messages that became ready, ever.
    pub fn arrivals(&self) -> u64 {
        self.arrived
    }

    /// Arrivals per second at `now`, as [`JobSnapshot::arrivals`] has them, without a copy of what
    /// is kept. `None` while no slot is complete.
    pub fn rate(&self, now: Stamp) -> Option<f64> {
        let [fine, coarse] = self.windows(now);
        let of_fine: u64 = fine.slots(&self.fine[..]).map(u64::from).sum();
        let (count, time) = if of_fine >= FAST {
            (of_fine, fine.count() as f64 * FINE_SLOT.as_seconds())
        } else {
            let of_coarse = coarse.slots(&self.coarse[..]).map(|slot| u64::from(slot.count)).sum();
            (of_coarse, coarse.count() as f64 * COARSE_SLOT.as_seconds())
        };
        (time > 0.0).then(|| count as f64 / time)
    }

    /// Where the fine and the coarse slots stand that are complete at `now`.
    fn windows(&self, now: Stamp) -> [SlotWindow; 2] {
        if self.latest.is_none() {
            return [SlotWindow::default(); 2];
        }
        let now = (now.0 / FINE_SLOT.0).max(self.slot);
        let window = |place, width: u64, room: usize| {
            let first = (self.first_slot / width).max((now / width).saturating_sub(room as u64 - 1));
            SlotWindow { place, slot: self.slot / width, first, end: now / width }
        };
        [window(self.fine_place, 1, FINE_SLOTS), window(self.coarse_place, FINE_IN_COARSE, COARSE_SLOTS)]
    }

    /// The histogram of all waiting times.
    fn waiting_times(&self) -> TimeBuckets {
        let mut below = 0;
        let up_to = self.waiting_buckets[..WAITING_BOUNDS.len()].iter().map(|count| {
            below += count;
            below
        });
        TimeBuckets { up_to: up_to.collect(), count: self.waits, sum: in_seconds(self.waiting) }
    }

    /// What is kept at `now`.
    pub fn snapshot(&self, now: Stamp) -> JobSnapshot {
        let latest_of = |count: u64| {
            let kept = count.min(KEPT_JOBS as u64);
            (count - kept..count).map(|one| (one % KEPT_JOBS as u64) as usize)
        };
        let service = |place: usize| {
            let kept = self.kept_services[place];
            EndedLease { time: Nanos(kept >> 1), done: kept & 1 == 1 }
        };
        let [fine, coarse] = self.windows(now);
        JobSnapshot {
            fine: fine.slots(&self.fine[..]).collect(),
            coarse: coarse.slots(&self.coarse[..]).collect(),
            arrived: self.arrived,
            redelivered: self.redelivered,
            done: self.done,
            given_up: self.given_up,
            service: in_seconds(self.service),
            held: in_seconds(self.held),
            waiting: self.waiting_times(),
            services: latest_of(self.done + self.given_up).map(service).collect(),
            waits: latest_of(self.waits).map(|place| self.kept_waits[place]).collect(),
        }
    }
}

/// Where complete slots stand in a ring.
#[derive(Clone, Copy, Debug, Default)]
struct SlotWindow {
    /// The place of `slot`, the latest that was counted into.
    place: usize,
    slot: u64,
    /// The oldest of the complete slots, and the one that goes on.
    first: u64,
    end: u64,
}

impl SlotWindow {
    const fn count(&self) -> u64 {
        self.end - self.first
    }

    /// The complete slots, the oldest first; those after the latest are empty.
    fn slots<T: Copy + Default>(self, ring: &[T]) -> impl Iterator<Item = T> {
        (self.first..self.end).map(move |slot| {
            if slot > self.slot {
                return T::default();
            }
            let back = (self.slot - slot) as usize;
            ring[(self.place + ring.len() - back) % ring.len()]
        })
    }
}

/// What was kept of one tube, as plain data.
#[derive(Clone, Debug, Default)]
pub struct JobSnapshot {
    /// Arrivals in each [`FINE_SLOT`] of the last minute, of complete slots, the oldest first.
    pub fine: Vec<u32>,
    /// Those in each [`COARSE_SLOT`] of the last ten minutes.
    pub coarse: Vec<ArrivalSlot>,
    /// Messages that became ready, ever.
    pub arrived: u64,
    /// Those that were handed out and had been before.
    pub redelivered: u64,
    /// Leases that ended with the message done.
    pub done: u64,
    /// Leases that ended otherwise.
    pub given_up: u64,
    /// The sum of the service times of what was done.
    pub service: Seconds,
    /// That of all leases that ended, those given up too.
    pub held: Seconds,
    /// The waiting times of all messages that were handed out.
    pub waiting: TimeBuckets,
    /// The latest services, at most [`KEPT_JOBS`].
    pub services: Vec<EndedLease>,
    /// The latest waiting times at hand-out, in seconds, at most [`KEPT_JOBS`].
    pub waits: Vec<f32>,
}

/// The arrivals of the last time, in slots that are wide enough to hold some and narrow enough to
/// show their changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivalWindow {
    /// Messages that became ready in each slot, without gaps.
    pub counts: Vec<f64>,
    /// The width of a slot.
    pub width: Nanos,
    /// Squared coefficient of variation of the gaps between arrivals; 1, that of random arrivals,
    /// while there are too few to tell.
    pub gap_variation: f64,
}

impl ArrivalWindow {
    /// Arrivals per second. `None` while no slot is complete.
    pub fn rate(&self) -> Option<f64> {
        let time = self.width.as_seconds() * self.counts.len() as f64;
        (time > 0.0).then(|| self.counts.iter().sum::<f64>() / time)
    }
}

impl JobSnapshot {
    /// The arrivals of the last minute in fine slots, if these are many; else those of the last ten
    /// minutes in coarse ones.
    pub fn arrivals(&self) -> ArrivalWindow {
        let fast = self.fine.iter().map(|&count| u64::from(count)).sum::<u64>() >= FAST;
        let (counts, width) = if fast {
            (self.fine.iter().map(|&count| f64::from(count)).collect(), FINE_SLOT)
        } else {
            (self.coarse.iter().map(|slot| f64::from(slot.count)).collect(), COARSE_SLOT)
        };
        let seconds = if fast { FINE_SLOTS / FINE_IN_COARSE as usize } else { COARSE_SLOTS };
        let slots = &self.coarse[self.coarse.len().saturating_sub(seconds)..];
        ArrivalWindow { counts, width, gap_variation: gap_variation(slots) }
    }
}

/// Of `n` gaps `g`: n Σg² / (Σg)² − 1.
fn gap_variation(slots: &[ArrivalSlot]) -> f64 {
    let count: f64 = slots.iter().map(|slot| f64::from(slot.count)).sum();
    let gaps: f64 = slots.iter().map(|slot| slot.gaps.as_seconds()).sum();
    let squares: f64 = slots.iter().map(|slot| f64::from(slot.gap_squares)).sum();
    if count < 2.0 || gaps <= 0.0 { 1.0 } else { (count * squares / (gaps * gaps) - 1.0).max(0.0) }
}

#[cfg(test)]
mod tests;
