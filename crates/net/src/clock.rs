//! Time: nanoseconds on the monotonic clock since the start of the run.
//!
//! A wall clock may be set, and goes on while the machine is suspended, when the monotonic clock
//! stands still: an instant that comes from outside is judged by what the wall shows now.

use std::time::{SystemTime, UNIX_EPOCH};

use krarup_units::{Nanos, Stamp};
use rustix::time::{ClockId, clock_gettime};

/// The clock of one run. Copies tell the same time.
///
/// Stamps come from the monotonic clock, so that a step of the wall clock is never a response time.
/// The wall time of the epoch is read at the start, to say when the run was.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What the monotonic clock said when the run began.
    epoch: u64,
    wall: Nanos,
}

impl Clock {
    /// Starts a run: its epoch is now.
    pub fn start() -> Self {
        let wall = wall();
        Self { epoch: monotonic(), wall }
    }

    /// The time now. One read costs some 25 ns; take one per batch of events.
    #[inline]
    pub fn now(&self) -> Stamp {
        Stamp(monotonic().saturating_sub(self.epoch))
    }

    /// What tells this run of a process from every other; in containers all have one number.
    pub fn run_id(&self) -> u64 {
        self.wall.0 ^ u64::from(std::process::id()).rotate_right(16)
    }

    /// What time it was on the wall when the run started, in nanoseconds since 1970 (UTC).
    pub fn wall_epoch(&self) -> Nanos {
        self.wall
    }

    /// The same by what the wall shows now: a stamp of now added to it is the time of day, whatever
    /// became of the wall since the start.
    pub fn wall_epoch_now(&self) -> Nanos {
        wall().saturating_sub(Nanos(self.now().0))
    }
}

/// Looks at the wall once a second, for those that count with instants of it all the time.
#[derive(Clone, Copy, Debug)]
pub struct WallWatch {
    clock: Clock,
    due: Stamp,
}

impl WallWatch {
    /// How long nothing is known of a wall that was set.
    const EVERY: Nanos = Nanos::from_secs(1);

    /// The first look is due at once.
    pub fn new(clock: Clock) -> Self {
        Self { clock, due: Stamp(0) }
    }

    /// It is `now`: what [`Clock::wall_epoch_now`] says, where a look is due.
    #[inline]
    pub fn look(&mut self, now: Stamp) -> Option<Nanos> {
        if now < self.due {
            return None;
        }
        self.due = now + Self::EVERY;
        Some(self.clock.wall_epoch_now())
    }
}

/// The time on the wall, in nanoseconds since 1970 (UTC).
pub fn wall() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(Nanos::ZERO, Nanos::from)
}

/// Nanoseconds on the system's monotonic clock, which is never before its zero.
#[inline]
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards_and_copies_agree() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        let second = copy.now();
        assert!(second >= first);
        assert!(clock.wall_epoch() > Nanos::from_secs(1_700_000_000));
    }

    #[test]
    fn the_wall_is_that_of_now_and_not_of_the_start() {
        let set_by = Nanos::from_secs(2 * 3_600);
        let started = Clock::start();
        let behind = Clock { wall: started.wall.saturating_sub(set_by), ..started };
        let found = behind.wall_epoch_now().saturating_sub(behind.wall_epoch());
        assert!(found.0.abs_diff(set_by.0) < Nanos::from_secs(60).0, "{found:?}");
    }

    #[test]
    fn the_wall_is_looked_at_once_a_second() {
        let mut watch = WallWatch::new(Clock::start());
        let due = [0, 1, 999, 1_000, 1_999, 2_500, 3_000, 3_500].map(Nanos::from_millis);
        let looked = due.map(|at| watch.look(Stamp(at.0)).is_some());
        assert_eq!(looked, [true, false, false, true, false, true, false, true]);
    }
}
