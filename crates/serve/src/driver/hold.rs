//! When a loop listens to the servers alone, so that requests which arrive meanwhile go on
//! together. A policy without a clock.
//!
//! A system call costs the same for one request as for ten, and so does waking up. While servers
//! work on what they were asked, the loop need not be woken by each client that asks for more: it
//! waits for the next answer, then reads every client that has become ready, writes each server
//! once, and each client once. It is what Nagle's algorithm does with small packets (RFC 896): what
//! is under way clocks what follows. With little under way nothing is held, so that an idle proxy
//! adds no delay; and there is no timer whose end would have to be waited for.
//!
//! A request that is held could at best have stood in the server's queue earlier, behind what the
//! server is working on. Where servers are far away or slow to answer, that is worth more than the
//! processor's time: a hold that turns out to be long is followed by a time without, longer with
//! each such hold in a row.

use krarup_units::{Nanos, Stamp};

/// A hold never lasts longer than this, even when the servers fall silent. A timer that runs out
/// after the next tick of the system's clock costs nothing to set; one before it does, and in a
/// virtual machine dearly.
const LIMIT: Nanos = Nanos::from_millis(5);
/// With fewer requests under way than this nothing is held: little is saved, clients wait for the
/// answers of others, and servers run dry while the loop reads what it had held.
const FEW: usize = 16;
/// The time without, after a hold that was too long, is at most so many times (as a power of two)
/// that hold.
const DOUBLINGS: u32 = 8;

/// Whether to hold, from how long it took before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldPolicy {
    /// Answers that come within this time are worth waiting for.
    longest: Nanos,
    /// None begins before.
    not_before: Stamp,
    /// Holds in a row that were too long.
    too_long: u32,
}

impl HoldPolicy {
    /// Zero: never.
    pub(crate) fn new(longest: Nanos) -> Self {
        Self { longest, not_before: Stamp(0), too_long: 0 }
    }

    /// How long the servers alone may be listened to at most, where `in_flight` requests are with
    /// them; none: not now.
    pub(crate) fn begins(&self, in_flight: usize, now: Stamp) -> Option<Nanos> {
        (in_flight >= FEW && self.longest > Nanos::ZERO && now >= self.not_before).then_some(LIMIT)
    }

    /// A hold that ended at `now` took so long.
    pub(crate) fn ended(&mut self, took: Nanos, now: Stamp) {
        if took <= self.longest {
            self.too_long = 0;
            return;
        }
        // Where it took longer the process itself stood still, which says nothing of the servers.
        let took = took.min(LIMIT);
        self.too_long = if took < LIMIT { (self.too_long + 1).min(DOUBLINGS) } else { DOUBLINGS };
        self.not_before = now + Nanos(took.0 << self.too_long);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Nanos = Nanos::from_micros(200);

    #[test]
    fn nothing_is_held_where_little_is_under_way_or_it_was_turned_off() {
        let hold = HoldPolicy::new(LONGEST);
        assert_eq!((hold.begins(0, Stamp(1_000)), hold.begins(FEW - 1, Stamp(1_000))), (None, None));
        assert_eq!(hold.begins(FEW, Stamp(1_000)), Some(LIMIT));
        assert_eq!(HoldPolicy::new(Nanos::ZERO).begins(100, Stamp(1_000)), None);
    }

    #[test]
    fn servers_that_answer_at_once_are_always_waited_for() {
        let mut hold = HoldPolicy::new(LONGEST);
        for pass in 1..1_000 {
            let now = Stamp(pass * 200_000);
            hold.ended(LONGEST, now);
            assert!(hold.begins(FEW, now).is_some());
        }
    }

    /// The share of its time that a loop spends in holds of `each`, where it begins one whenever it
    /// may.
    fn share(each: Nanos) -> f64 {
        let mut hold = HoldPolicy::new(LONGEST);
        let (mut now, mut held) = (Stamp(1), Nanos::ZERO);
        while now < Stamp(10_000_000_000) {
            if hold.begins(FEW, now).is_some() {
                now = now + each;
                held += each;
                hold.ended(each, now);
            } else {
                now = now + Nanos::from_micros(50);
            }
        }
        held.0 as f64 / now.0 as f64
    }

    #[test]
    fn servers_that_are_far_away_are_hardly_ever_waited_for_alone() {
        for each in [Nanos::from_micros(201), Nanos::from_micros(500), LIMIT] {
            let share = share(each);
            assert!(share > 0.0 && share < 0.01, "{each}: {share}");
        }
        assert!(share(LONGEST) > 0.99);
    }

    #[test]
    fn one_long_hold_is_soon_forgotten() {
        let mut hold = HoldPolicy::new(LONGEST);
        hold.ended(Nanos::from_millis(1), Stamp(5_000_000));
        assert_eq!(hold.begins(FEW, Stamp(6_999_999)), None);
        assert!(hold.begins(FEW, Stamp(7_000_000)).is_some());
        hold.ended(LONGEST, Stamp(7_200_000));
        hold.ended(Nanos::from_millis(1), Stamp(9_000_000));
        assert!(hold.begins(FEW, Stamp(11_000_000)).is_some(), "the count begins again");
    }

    #[test]
    fn silent_servers_are_waited_for_once_and_not_again_for_a_second() {
        let mut hold = HoldPolicy::new(LONGEST);
        hold.ended(LIMIT, Stamp(5_000_000));
        assert_eq!(hold.begins(FEW, Stamp(1_000_000_000)), None);
        assert!(hold.begins(FEW, Stamp(1_300_000_000)).is_some());
    }

    #[test]
    fn a_process_that_was_stopped_for_long_holds_again_soon() {
        let mut hold = HoldPolicy::new(LONGEST);
        let now = Stamp(20_000_000_000);
        hold.ended(Nanos::from_secs(10), now);
        assert!(hold.begins(FEW, now + Nanos::from_secs(2)).is_some());
    }
}
