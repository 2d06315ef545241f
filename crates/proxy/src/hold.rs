//! How long a busy loop leaves the processor to others, so that more arrives. A policy without a clock.
//!
//! A system call costs the same for one request as for ten, and so does waking a peer. Under load the
//! loop therefore gives way for some microseconds after a pass: clients and servers on the same processor get on, more comes together, and
//! one read, one write per server and one write per client carry more. With one request in flight nothing can join it, so
//! it never waits.
//!
//! It gives way (`sched_yield`) and does not sleep: a sleep of 20 µs sets a timer, halts the processor and is woken by an
//! interrupt, which in a virtual machine costs more than the batch saves and lasts six times as long. Where nobody else wants the
//! processor, giving way returns at once, and the loop goes on after a few attempts.

use krarup_units::{Nanos, Stamp};

/// Attempts to give way in one pass: where nobody else wants the processor, more would only heat it.
const TURNS: u32 = 4;

/// The wait, in proportion to what is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// For each request in flight.
    each: Nanos,
    /// No longer than this.
    longest: Nanos,
}

impl Hold {
    pub(crate) fn new(longest: Nanos) -> Self {
        Self { each: Nanos(400), longest }
    }

    /// How long to give way after a pass that moved `moved` pieces of work (reads that brought something)
    /// and left `in_flight` requests with the servers.
    pub(crate) fn after(&self, moved: usize, in_flight: usize) -> Nanos {
        if moved < 2 || in_flight < 2 {
            return Nanos::ZERO;
        }
        Nanos(self.each.0 * in_flight as u64).min(self.longest)
    }

    /// Gives way for about `length`, which is none most of the time.
    pub(crate) fn wait(length: Nanos, mut now: impl FnMut() -> Stamp, mut give_way: impl FnMut()) {
        if length == Nanos::ZERO {
            return;
        }
        let until = now() + length;
        for _ in 0..TURNS {
            give_way();
            if now() >= until {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn nothing_waits_alone_and_nothing_waits_long() {
        let hold = Hold::new(Nanos::from_micros(50));
        assert_eq!(hold.after(1, 100), Nanos::ZERO);
        assert_eq!(hold.after(2, 1), Nanos::ZERO);
        assert_eq!(hold.after(2, 10), Nanos(4_000));
        assert_eq!(hold.after(50, 1_000), Nanos::from_micros(50));
        assert_eq!(Hold::new(Nanos::ZERO).after(50, 1_000), Nanos::ZERO);
    }

    /// How often, and until when, a loop gives way for `length` where each turn of the others takes `turn`.
    fn simulate(length: Nanos, turn: Nanos) -> (u32, Stamp) {
        let (clock, turns) = (Cell::new(Stamp(1_000)), Cell::new(0));
        Hold::wait(
            length,
            || clock.get(),
            || {
                clock.set(clock.get() + turn);
                turns.set(turns.get() + 1);
            },
        );
        (turns.get(), clock.get())
    }

    #[test]
    fn giving_way_ends_when_the_time_is_over_or_nobody_wants_the_processor() {
        assert_eq!(simulate(Nanos::ZERO, Nanos(300)), (0, Stamp(1_000)));
        assert_eq!(simulate(Nanos(20_000), Nanos(15_000)), (2, Stamp(31_000)));
        assert_eq!(simulate(Nanos(20_000), Nanos(3_000_000)), (1, Stamp(3_001_000)));
        assert_eq!(simulate(Nanos(20_000), Nanos(300)), (TURNS, Stamp(1_000 + 300 * u64::from(TURNS))));
    }
}
