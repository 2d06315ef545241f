//! How much processor time was used: a clock too, only that it stands still while others run. And
//! how long a thread waited for some.

use std::fs::File;
use std::os::unix::fs::FileExt;

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

/// Where the kernel says how long the thread that opened it was ready to run and had no processor,
/// kept open; none where it does not.
#[derive(Debug)]
pub struct RunQueue(Option<File>);

impl RunQueue {
    /// Of the calling thread.
    pub fn of_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// How long that thread has waited since it began; zero where that is not known.
    pub fn waited(&self) -> Nanos {
        let mut text = [0; 128];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        waited(&text[..read]).unwrap_or_default()
    }
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
        assert_eq!(RunQueue(None).waited(), Nanos::ZERO);
    }

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
