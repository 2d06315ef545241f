//! How long requests of an open load waited for answers, and not for the generator.
//!
//! What is due while no connection is free waits for an answer as long as the thread sleeps: none
//! has come then. While the thread runs an answer may lie in its socket already, and the request
//! waits for the thread; where the next poll brings none, there was none, and it waited for that.
//! A thread that is to wake up and waits for a processor does not sleep.

use std::collections::VecDeque;

use krarup_units::{Nanos, Stamp};

/// Sleeps that begin so close to each other are kept as one, spread evenly: a backlog of an hour
/// takes a few megabytes.
const CLOSE: Nanos = Nanos::from_millis(10);

/// Of a shorter sleep it is not asked how much of it was a wait for a processor.
const LONG: Nanos = Nanos::from_millis(1);

/// The sleeps of a thread while no connection was free, as far back as requests are still to be
/// sent that were due then. Where it ran and no answer had come, it might as well have slept.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    spans: VecDeque<SleptSpan>,
    /// The sum of what was slept in all spans.
    slept: Nanos,
    /// When the poll before ended, if no connection was free and it brought nothing.
    silent: Option<Stamp>,
}

/// Sleeps between two stamps.
#[derive(Clone, Copy, Debug)]
struct SleptSpan {
    from: Stamp,
    to: Stamp,
    slept: Nanos,
}

impl Shortage {
    /// A poll between these stamps, in which the thread slept for so long, brought something, and
    /// no connection was free before.
    pub(crate) fn slept(&mut self, from: Stamp, to: Stamp, slept: Nanos) {
        self.silent = None;
        self.add(from, to, slept);
    }

    /// A poll between these stamps brought nothing, and no connection was free: nothing had come
    /// since the poll before it either.
    pub(crate) fn silent(&mut self, from: Stamp, to: Stamp) {
        let from = self.silent.replace(to).unwrap_or(from);
        self.add(from, to, to - from);
    }

    /// A connection is free.
    pub(crate) fn end(&mut self) {
        self.silent = None;
    }

    fn add(&mut self, from: Stamp, to: Stamp, slept: Nanos) {
        self.slept += slept;
        match self.spans.back_mut() {
            Some(last) if from < last.from + CLOSE => {
                last.to = to;
                last.slept += slept;
            }
            _ => self.spans.push_back(SleptSpan { from, to, slept }),
        }
    }

    /// How long it slept so since `due`. No request that is asked about later was due earlier.
    pub(crate) fn since(&mut self, due: Stamp) -> Nanos {
        while let Some(first) = self.spans.front_mut()
            && first.from < due
        {
            self.slept = self.slept - first.slept;
            if due < first.to {
                let left = (first.to - due).as_seconds() / (first.to - first.from).as_seconds();
                first.slept = Nanos((first.slept.0 as f64 * left).round() as u64);
                first.from = due;
                self.slept += first.slept;
            } else {
                self.spans.pop_front();
            }
        }
        self.slept
    }
}

/// How long a thread waited for a processor, read before and after sleeps: what it waited within
/// one was no sleep.
#[derive(Debug, Default)]
pub(crate) struct ProcessorWaits {
    /// When that was read last.
    at: Stamp,
    /// What was read then.
    sum: Nanos,
}

impl ProcessorWaits {
    /// At stamp zero the thread had waited for so long.
    pub(crate) fn new(sum: Nanos) -> Self {
        Self { at: Stamp(0), sum }
    }

    /// The thread is to sleep from this stamp on. A reading costs a system call: one that is not
    /// older than a short sleep does.
    pub(crate) fn before(&mut self, from: Stamp, read: impl FnOnce() -> Nanos) {
        if from >= self.at + LONG {
            *self = Self { at: from, sum: read() };
        }
    }

    /// How much of the sleep between these stamps was none.
    pub(crate) fn within(&mut self, from: Stamp, to: Stamp, read: impl FnOnce() -> Nanos) -> Nanos {
        if to - from <= LONG {
            return Nanos::ZERO;
        }
        let before = std::mem::replace(self, Self { at: to, sum: read() });
        self.sum.saturating_sub(before.sum).min(to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_answers_while_the_thread_sleeps() {
        let mut shortage = Shortage::default();
        assert_eq!(shortage.since(Stamp(0)), Nanos::ZERO, "the thread ran all the time");
        shortage.slept(Stamp(110), Stamp(190), Nanos(80));
        assert_eq!(shortage.since(Stamp(0)), Nanos(80));
        assert_eq!(shortage.since(Stamp(150)), Nanos(40));
        assert_eq!(shortage.since(Stamp(190)), Nanos::ZERO);
        assert!(shortage.spans.is_empty());
    }

    /// A busy thread polls and does not sleep.
    #[test]
    fn what_a_poll_does_not_bring_had_not_come_before() {
        let mut shortage = Shortage::default();
        shortage.slept(Stamp(100), Stamp(100), Nanos::ZERO);
        for at in [110, 210, 310] {
            shortage.silent(Stamp(at), Stamp(at));
        }
        assert_eq!(shortage.since(Stamp(0)), Nanos(200), "from the first poll after the request on");
        shortage.slept(Stamp(400), Stamp(410), Nanos(10));
        assert_eq!(shortage.since(Stamp(0)), Nanos(210), "an answer may have come at 320");
        shortage.silent(Stamp(500), Stamp(510));
        shortage.end();
        shortage.silent(Stamp(900), Stamp(930));
        assert_eq!(shortage.since(Stamp(0)), Nanos(250), "a connection was free meanwhile");
    }

    #[test]
    fn a_wait_for_a_processor_is_no_sleep() {
        let at = |micros| Stamp(Nanos::from_micros(micros).0);
        let mut waits = ProcessorWaits::new(Nanos(7));
        waits.before(at(900), || unreachable!("the reading is young"));
        assert_eq!(waits.within(at(900), at(1_900), || unreachable!("the sleep is short")), Nanos::ZERO);
        waits.before(at(2_000), || Nanos(500_007));
        // Throttled in a sleep of 50 ms: its answer came after 2 ms.
        let waited = || Nanos(500_007) + Nanos::from_millis(48);
        assert_eq!(waits.within(at(2_000), at(52_000), waited), Nanos::from_millis(48));
        waits.before(at(52_000), || unreachable!("it was read just now"));
        assert_eq!(waits.within(at(52_000), at(102_000), waited), Nanos::ZERO);
        let long = || Nanos::from_secs(1);
        assert_eq!(waits.within(at(102_000), at(104_000), long), Nanos::from_millis(2), "no more than it");
    }

    #[test]
    fn sleeps_that_are_close_are_kept_as_one() {
        let mut shortage = Shortage::default();
        for turn in (0..30_000).map(|turn| turn * 1_000_000) {
            shortage.slept(Stamp(turn), Stamp(turn + 250_000), Nanos(250_000));
        }
        assert_eq!(shortage.spans.len(), 3_000);
        assert_eq!(shortage.since(Stamp(0)), Nanos(30_000 * 250_000));
        // In the middle of the last span of 2.5 ms in 9.25.
        let since = shortage.since(Stamp(29_995 * 1_000_000)).as_seconds();
        assert!((since - 0.001_25).abs() < 0.000_2, "{since}");
    }
}
