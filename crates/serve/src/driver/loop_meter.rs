//! What the loop's own thread uses: passes, processor time, and time in which it was ready to run
//! and had no processor; and how busy the machine's processors and links are.
//!
//! The kernel is asked once a second: four system calls.

use std::fs::File;
use std::os::unix::fs::FileExt;

use krarup_net::cpu::{self, RunQueue};
use krarup_service::ThreadUse;
use krarup_units::{Nanos, Stamp};

use super::links::Links;

/// The unit of times in `stat`: what programs are given is a hundredth of a second everywhere.
const TICK: Nanos = Nanos::from_millis(10);

/// How often the kernel is asked at most.
const EVERY: Nanos = Nanos::from_secs(1);

/// Counts passes, and reads the rest where it belongs: on the loop's own thread.
#[derive(Debug, Default)]
pub(super) struct LoopMeter {
    passes: u64,
    next: Stamp,
    /// Bits per second of links whose rates the kernel does not know.
    link: Option<f64>,
    /// What the kernel said last; none before the first reading.
    last: Option<KernelTimes>,
}

#[derive(Debug)]
struct KernelTimes {
    processor: Nanos,
    /// How long the thread had waited for a processor, and where the kernel says so.
    waited: Nanos,
    run_queue: RunQueue,
    /// Where it says what the processors did, kept open; none where it does not.
    stat: Option<File>,
    machine: MachineTimes,
    links: Links,
    /// When it was.
    at: Stamp,
}

/// What all processors of the machine have done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MachineTimes {
    busy: Nanos,
    all: Nanos,
}

impl LoopMeter {
    /// One that takes this for the rate of links whose own the kernel does not know.
    pub(super) fn new(link: Option<f64>) -> Self {
        Self { link, ..Self::default() }
    }

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
            let run_queue = RunQueue::of_thread();
            let waited = run_queue.waited();
            let stat = File::open("/proc/stat").ok();
            let machine = machine(stat.as_ref());
            let (processor, links) = (cpu::thread(), Links::of_machine(self.link));
            self.last = Some(KernelTimes { processor, waited, run_queue, stat, machine, links, at: now });
            return None;
        };
        let (processor, waited) = (cpu::thread(), last.run_queue.waited());
        let machine = machine(last.stat.as_ref());
        let elapsed = now - last.at;
        let carried = last.links.busiest(elapsed);
        let used = ThreadUse {
            passes,
            processor: processor.saturating_sub(last.processor),
            run_queue: waited.saturating_sub(last.waited),
            machine_busy: machine.busy.saturating_sub(last.machine.busy),
            machine_time: machine.all.saturating_sub(last.machine.all),
            link_busy: carried.unwrap_or(Nanos::ZERO),
            link_time: carried.map_or(Nanos::ZERO, |_| elapsed),
        };
        (last.processor, last.waited, last.machine, last.at) = (processor, waited, machine, now);
        Some(used)
    }
}

/// What the processors have done; nothing where that is not known.
fn machine(stat: Option<&File>) -> MachineTimes {
    let mut text = [0; 256];
    let read = stat.and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
    processors(&text[..read]).unwrap_or_default()
}

/// The first line of `stat`: hundredths of a second in user, nice, system, idle, waiting for a
/// disk, interrupts, soft interrupts, taken by the host (proc(5)). What guests used is in the first
/// two.
fn processors(stat: &[u8]) -> Option<MachineTimes> {
    let line = stat.split(|byte| *byte == b'\n').next()?;
    let words = std::str::from_utf8(line).ok()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, disk, interrupts, soft, host] = ticks[..] else { return None };
    let time = |ticks: u64| Nanos(ticks * TICK.0);
    let busy = user + nice + system + interrupts + soft + host;
    Some(MachineTimes { busy: time(busy), all: time(busy + idle + disk) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_busy_or_idle() {
        let text = b"cpu  10 2 30 900 50 3 4 1 7 0\ncpu0 10 2";
        let seconds = |hundredths: u64| Nanos::from_millis(10 * hundredths);
        let known = MachineTimes { busy: seconds(50), all: seconds(1_000) };
        assert_eq!(processors(text), Some(known));
        assert_eq!((processors(b"cpu  10 2 30"), processors(b"")), (None, None));
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
