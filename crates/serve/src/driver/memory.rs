//! How much waits in the buffers of one event loop, and for which clients there is room. A policy
//! without a clock.
//!
//! ```text
//!   0                      half of the bound                          7/8                  the bound
//!   ├── room may be reserved ──────┼── replies, requests to servers ────┼── small requests ────┤
//! ```
//!
//! Room for a long request is reserved before it is read, so that what was begun can be finished. A
//! client whose request does not fit waits alone. Where no client has reserved anything, a request
//! fits whatever its length: there is always one that goes on. Short requests need no reservation.

use std::collections::VecDeque;

use krarup_units::{Nanos, Stamp};

/// A request of up to so many bytes is read without a reservation.
pub(crate) const SMALL: usize = 16 << 10;
/// While memory is short, a read of a client that has nothing reserved brings at most so much.
pub(crate) const CAREFUL: usize = 4 << 10;
/// Less than this in a second, from all long requests together, is no progress.
const PROGRESS: usize = 64 << 10;
/// A look at the progress comes so long after the one before, at the earliest.
const LOOK: Nanos = Nanos::from_millis(100);
/// So many looks in a row without progress, and memory is taken back. Looks are counted, not time:
/// a process that was stopped for a while has not looked.
const LOOKS: u32 = 10;
/// So many others, whose requests are shorter, may have room before the client that has waited
/// longest.
const PASSED_OVER: u32 = 64;
/// Memory is short until so long after the last client has waited for it.
const SHORT_FOR: Nanos = Nanos::from_secs(1);

/// How many bytes the buffers of one of `loops` may hold, so that the process holds no more than
/// `memory`: a fifth is for pieces that were given back and fit nothing that is needed, which a
/// third of the buffers was at most where replies were not read; a quarter with several loops, of
/// which each has pieces of its own.
pub(crate) fn of_one_loop(memory: usize, loops: usize) -> usize {
    if loops == 1 { memory / 5 * 4 } else { memory / 4 * 3 / loops }
}

/// What changed for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryEvent {
    /// Clients wait for memory from now on.
    Short,
    /// They do not any more; so many were disconnected meanwhile.
    Enough { cut: u64 },
}

/// The account.
#[derive(Debug)]
pub(crate) struct MemoryAccount {
    bound: usize,
    /// What waited in all buffers when it was last added up, reservations included.
    counted: usize,
    /// What may have been added since.
    since: usize,
    /// Whether anything has left since.
    shrank: bool,
    /// Clients that have room reserved, and how much in all.
    holders: usize,
    reserved: usize,
    /// Clients that wait for room, first come first served.
    pub(crate) waiting: VecDeque<u32>,
    /// The one that has waited longest for room that is not there, and how many others have had
    /// some since.
    eldest: Option<u32>,
    passed_over: u32,
    /// Bytes of long requests that have come since the last progress.
    brought: usize,
    looks: u32,
    next_look: Stamp,
    /// The last time that a client waited, while that is not long ago.
    short: Option<Stamp>,
    cut: u64,
}

impl MemoryAccount {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            bound,
            counted: 0,
            since: 0,
            shrank: false,
            holders: 0,
            reserved: 0,
            waiting: VecDeque::new(),
            eldest: None,
            passed_over: 0,
            brought: 0,
            looks: 0,
            next_look: Stamp(0),
            short: None,
            cut: 0,
        }
    }

    /// From now on there may be so much; what waits stays.
    pub(crate) fn resize(&mut self, bound: usize) {
        self.bound = bound;
    }

    /// What waits, at most.
    pub(crate) fn used(&self) -> usize {
        self.counted + self.since
    }

    /// What is to be cut so that the bound holds.
    pub(crate) fn excess(&self) -> usize {
        self.used().saturating_sub(self.bound)
    }

    /// So many bytes were read, from whatever connection, or made into replies by the service.
    #[inline]
    pub(crate) fn grew(&mut self, bytes: usize) {
        self.since += bytes;
    }

    /// Replies have left, or a client is gone.
    #[inline]
    pub(crate) fn shrank(&mut self) {
        self.shrank = true;
    }

    /// Whether it is time to add up what waits.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.since >= self.bound / 16
    }

    /// What waits was added up.
    pub(crate) fn counted(&mut self, bytes: usize) {
        (self.counted, self.since, self.shrank) = (bytes, 0, false);
    }

    /// Whether clients are to be read with care: a usual read, of `read` bytes, could be the
    /// beginning of requests for which there is no room.
    #[inline]
    pub(crate) fn is_tight(&self, read: usize) -> bool {
        self.used() + read > self.bound / 8
    }

    /// Whether there is no room but for short requests of clients that have nothing under way.
    pub(crate) fn is_full(&self) -> bool {
        self.used() > self.bound - self.bound / 16
    }

    /// Reserves `bytes` more for a client, which may be its `first`; whether they fit. A long
    /// request is not passed over for ever by shorter ones: after some of these no other begins
    /// before it.
    pub(crate) fn reserve(&mut self, id: u32, bytes: usize, first: bool) -> bool {
        let passes = first && self.eldest.is_some_and(|eldest| eldest != id);
        if passes && self.passed_over >= PASSED_OVER {
            return false;
        }
        // One that is the only one may grow as well.
        let alone = self.holders == usize::from(!first);
        let fits =
            self.reserved + bytes <= self.bound / 2 && self.used() + bytes <= self.bound - self.bound / 8;
        if !alone && !fits {
            return false;
        }
        self.since += bytes;
        self.reserved += bytes;
        self.holders += usize::from(first);
        self.passed_over += u32::from(passes);
        true
    }

    /// Those that wait were offered room, and `first` is the first for which there was none.
    pub(crate) fn offered(&mut self, first: Option<u32>) {
        if self.eldest != first {
            (self.eldest, self.passed_over) = (first, 0);
        }
    }

    /// A long request has come to its end, or its client has, which had so many `bytes` reserved.
    /// The memory is counted where it is now, or gone, when it is next added up.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.holders -= 1;
        self.reserved -= bytes;
        self.brought = PROGRESS;
    }

    /// So many bytes of a long request have come.
    pub(crate) fn progressed(&mut self, bytes: usize) {
        self.brought += bytes;
    }

    /// A client is disconnected for the memory it held. Whether it is the first of late, of which
    /// the operator hears at once.
    pub(crate) fn cut_one(&mut self) -> bool {
        self.cut += 1;
        self.cut == 1
    }

    /// Whether anything has come or gone since it was last added up.
    pub(crate) fn has_changed(&self) -> bool {
        self.since > 0 || self.shrank
    }

    /// Whether no client waits, nor has of late.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.short.is_none() && self.used() <= self.bound
    }

    /// Whether clients wait, or have not long ago.
    pub(crate) fn is_short(&self) -> bool {
        self.short.is_some()
    }

    /// When to look again, while clients wait.
    pub(crate) fn due(&self) -> Option<Stamp> {
        self.is_short().then_some(self.next_look)
    }

    /// Looks at the progress. Whether there was none for a second while clients waited, and what
    /// changed for the operator.
    pub(crate) fn look(&mut self, now: Stamp) -> (bool, Option<MemoryEvent>) {
        let mut change = None;
        if !self.waiting.is_empty() || self.excess() > 0 {
            if self.short.replace(now).is_none() {
                change = Some(MemoryEvent::Short);
                (self.looks, self.brought, self.next_look) = (0, 0, now + LOOK);
            }
        } else if self.short.is_some_and(|last| now.0.saturating_sub(last.0) >= SHORT_FOR.0) {
            self.short = None;
            change = Some(MemoryEvent::Enough { cut: std::mem::take(&mut self.cut) });
        }
        if !self.is_short() || now < self.next_look {
            return (false, change);
        }
        self.next_look = now + LOOK;
        if self.waiting.is_empty() || self.brought >= PROGRESS {
            (self.looks, self.brought) = (0, 0);
            return (false, change);
        }
        self.looks += 1;
        if self.looks < LOOKS {
            return (false, change);
        }
        (self.looks, self.brought) = (0, 0);
        (true, change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn at(millis: u64) -> Stamp {
        Stamp(millis * 1_000_000)
    }

    #[test]
    fn what_is_reserved_never_exceeds_its_share_and_one_always_fits() {
        let mut memory = MemoryAccount::new(8 * MIB);
        assert!(memory.reserve(1, 100 * MIB, true), "no other client has any");
        assert!(memory.reserve(1, MIB, false), "it may grow while it is alone");
        assert!(!memory.reserve(2, 1, true), "a second one does not fit");
        memory.release(101 * MIB);
        memory.counted(0);
        let granted = (0..20).filter(|&id| memory.reserve(id, MIB, true)).count();
        assert_eq!(granted, 4, "the other half is for what goes on");
        assert!(!memory.is_full() && memory.is_tight(1));
        memory.release(MIB);
        assert!(memory.reserve(9, MIB, true));
        memory.release(MIB);
        memory.counted(7 * MIB);
        assert!(!memory.reserve(9, MIB, true), "others hold what is left");
        assert!(!memory.is_full());
        memory.counted(7 * MIB + MIB * 3 / 4);
        assert!(memory.is_full());
    }

    #[test]
    fn a_long_request_is_not_passed_over_for_ever_by_shorter_ones() {
        let mut memory = MemoryAccount::new(8 * MIB);
        assert!(memory.reserve(1, MIB, true));
        assert!(!memory.reserve(2, 4 * MIB, true));
        memory.offered(Some(2));
        let mut passed = 0;
        while memory.reserve(3, MIB, true) {
            passed += 1;
            memory.release(MIB);
            memory.counted(MIB);
        }
        assert_eq!(passed, PASSED_OVER);
        assert!(memory.reserve(1, MIB, false), "who has begun goes on");
        memory.release(2 * MIB);
        memory.counted(0);
        assert!(memory.reserve(2, 4 * MIB, true), "its turn has come");
        memory.offered(None);
        memory.counted(0);
        memory.release(4 * MIB);
        assert!(memory.reserve(3, MIB, true));
    }

    #[test]
    fn memory_is_taken_back_after_a_second_of_looks_without_progress_while_a_client_waits() {
        let mut memory = MemoryAccount::new(8 * MIB);
        memory.waiting.push_back(7);
        assert_eq!(memory.look(at(0)), (false, Some(MemoryEvent::Short)));
        let mut now = 0;
        let mut looks = |memory: &mut MemoryAccount, count: usize| {
            let looked = (0..count).map(|_| {
                now += 100;
                memory.look(at(now)).0
            });
            looked.filter(|&stalled| stalled).count()
        };
        assert_eq!(looks(&mut memory, 9), 0);
        memory.progressed(PROGRESS);
        assert_eq!(looks(&mut memory, 10), 0, "there was progress before the first of them");
        memory.progressed(PROGRESS / 20);
        assert_eq!(looks(&mut memory, 1), 1, "a few bytes are none");
        memory.waiting.clear();
        assert_eq!(looks(&mut memory, 9), 0, "no client waits");
    }

    /// Else those that wait would look as if they stood still.
    #[test]
    fn what_has_left_is_a_reason_to_add_up_what_waits_although_nothing_came() {
        let mut memory = MemoryAccount::new(8 * MIB);
        memory.counted(8 * MIB);
        assert!(!memory.has_changed());
        memory.shrank();
        assert!(memory.has_changed());
        memory.counted(MIB);
        assert!(!memory.has_changed());
    }

    #[test]
    fn a_process_that_was_stopped_takes_nothing_back_when_it_goes_on() {
        let mut memory = MemoryAccount::new(8 * MIB);
        memory.waiting.push_back(7);
        memory.look(at(0));
        assert!(!memory.look(at(60_000)).0 && !memory.look(at(60_001)).0);
    }

    #[test]
    fn the_operator_hears_of_it_once_however_often_clients_wait() {
        let mut memory = MemoryAccount::new(8 * MIB);
        let mut changes = Vec::new();
        for millis in 0..5_000 {
            memory.waiting.clear();
            if millis % 7 == 0 && millis < 2_000 {
                memory.waiting.push_back(1);
                memory.progressed(PROGRESS);
            }
            changes.extend(memory.look(at(millis)).1);
        }
        assert_eq!(changes, [MemoryEvent::Short, MemoryEvent::Enough { cut: 0 }]);
        assert!(!memory.is_short() && memory.due().is_none());
    }
}
