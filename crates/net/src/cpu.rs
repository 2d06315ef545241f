//! How much processor time was used: a clock too, only that it stands still while others run.

use krarup_units::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// Processor time of the whole process, user and system together.
pub fn process() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

/// Processor time of the calling thread, user and system together.
pub fn thread() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    Nanos::from_secs(time.tv_sec.try_into().unwrap_or(0)) + Nanos(time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_uses_processor_time() {
        let (before, whole) = (thread(), process());
        let mut sum = 0_u64;
        while thread() - before < Nanos::from_micros(50) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(process() > whole);
    }
}
