//! What the loop's own thread uses: passes, processor time, and time in which it was ready to run
//! and had no processor.
//!
//! The kernel is asked once a second: two system calls.

use std::fs::File;
use std::os::unix::fs::FileExt;

use krarup_net::cpu;
use krarup_units::{Nanos, Stamp};

/// How often the kernel is asked at most.
const EVERY: Nanos = Nanos::from_secs(1);

/// What was used between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadUse {
    pub(super) passes: u64,
    pub(super) processor: Nanos,
    pub(super) run_queue: Nanos,
}

/// Counts passes, and reads the rest where it belongs: on the loop's own thread.
#[derive(Debug, Default)]
pub(super) struct LoopMeter {
    passes: u64,
    next: Stamp,
    /// What the kernel said last; none before the first reading.
    last: Option<KernelTimes>,
}

#[derive(Debug)]
struct KernelTimes {
    processor: Nanos,
    run_queue: Nanos,
    /// Where the kernel says how long the thread waited, kept open; none where it does not.
    schedstat: Option<File>,
}

impl LoopMeter {
    /// The loop has begun one more pass.
    #[inline]
    pub(super) fn pass(&mut self) {
        self.passes += 1;
    }

    /// What was used since the last reading, if that is a second ago; the first one begins to
    /// count.
    pub(super) fn read(&mut self, now: Stamp) -> Option<ThreadUse> {
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        let passes = std::mem::take(&mut self.passes);
        let Some(last) = &mut self.last else {
            // The thread that opens it is the one that it speaks of.
            let schedstat = File::open("/proc/thread-self/schedstat").ok();
            let run_queue = run_queue(schedstat.as_ref());
            self.last = Some(KernelTimes { processor: cpu::thread(), run_queue, schedstat });
            return None;
        };
        let (processor, run_queue) = (cpu::thread(), run_queue(last.schedstat.as_ref()));
        let used = ThreadUse {
            passes,
            processor: processor.saturating_sub(last.processor),
            run_queue: run_queue.saturating_sub(last.run_queue),
        };
        (last.processor, last.run_queue) = (processor, run_queue);
        Some(used)
    }
}

/// How long the thread has waited for a processor since it began; zero where that is not known.
fn run_queue(schedstat: Option<&File>) -> Nanos {
    let mut text = [0; 128];
    let read = schedstat.and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
    waited(&text[..read]).unwrap_or_default()
}

/// The second of the numbers in `schedstat`: nanoseconds run, nanoseconds waited, times run.
fn waited(schedstat: &[u8]) -> Option<Nanos> {
    let text = std::str::from_utf8(schedstat).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_wait() {
        assert_eq!(waited(b"217350182 1928374 1021\n"), Some(Nanos(1_928_374)));
        assert_eq!(waited(b"217350182"), None);
        assert_eq!(waited(b""), None);
    }

    #[test]
    fn a_second_is_read_once_and_without_the_time_before_the_first() {
        let mut meter = LoopMeter::default();
        (0..3).for_each(|_| meter.pass());
        assert_eq!(meter.read(Stamp(5)), None, "nothing is known of before");
        (0..7).for_each(|_| meter.pass());
        let (before, mut sum) = (cpu::thread(), 0_u64);
        while cpu::thread() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert_eq!(meter.read(Stamp(5 + EVERY.0 - 1)), None);
        let used = meter.read(Stamp(5 + EVERY.0)).unwrap();
        assert_eq!(used.passes, 7);
        assert!(used.processor > Nanos::ZERO && used.processor < Nanos::from_secs(60));
        let again = meter.read(Stamp(5 + 2 * EVERY.0)).unwrap();
        assert_eq!(again.passes, 0);
    }
}
