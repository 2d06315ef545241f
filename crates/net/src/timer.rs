//! A moment to wake up at, to the microsecond: what a poll's own timeout, in whole milliseconds,
//! cannot do.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use krarup_units::Nanos;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A timer of the kernel's, heard as readiness of one event loop.
#[derive(Debug)]
pub struct Timer {
    file: OwnedFd,
}

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// From the system, when it has no more of them.
    pub fn register(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let file = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { file })
    }

    /// Makes the timer ready once, `after` from now; what it was set to before is forgotten. No
    /// time at all is one nanosecond. There is nothing to read from it: setting it anew also clears
    /// its readiness.
    ///
    /// # Errors
    /// From the system.
    pub fn set(&self, after: Nanos) -> io::Result<()> {
        let after = after.0.max(1);
        let it_value = Timespec {
            tv_sec: (after / 1_000_000_000).try_into().unwrap_or(i64::MAX),
            tv_nsec: (after % 1_000_000_000) as _,
        };
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.file, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mio::{Events, Poll};

    use super::*;
    use crate::Clock;

    #[test]
    fn a_timer_is_ready_at_its_time_and_once_more_when_set_anew() {
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(4);
        let timer = Timer::register(poll.registry(), Token(7)).unwrap();
        let clock = Clock::start();
        for micros in [300, 0, 200] {
            let set = clock.now();
            timer.set(Nanos::from_micros(micros)).unwrap();
            poll.poll(&mut events, None).unwrap();
            assert!(clock.now() - set >= Nanos::from_micros(micros));
            let tokens: Vec<Token> = events.iter().map(mio::event::Event::token).collect();
            assert_eq!(tokens, [Token(7)]);
        }
    }
}
