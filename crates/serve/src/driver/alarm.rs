//! The timer of a loop that waits without a limit.
//!
//! A limit sets a timer before each wait and takes it back after, and in a virtual machine both may
//! leave the guest. An [`Alarm`] is set once, and rings early rather than being set again for
//! later.

use std::io;

use krarup_net::Timer;
use krarup_net::mio::{Events, Poll, Token};
use krarup_units::{Nanos, Stamp};

/// Something is due.
pub(crate) const ALARM: Token = Token(15);

/// Rings at the latest when it was asked to.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: Timer,
    rings: Option<Stamp>,
}

impl Alarm {
    pub(crate) fn register(poll: &Poll) -> io::Result<Self> {
        Ok(Self { timer: Timer::register(poll.registry(), ALARM)?, rings: None })
    }

    /// Rings at `due` or, where that was asked for before, earlier.
    pub(crate) fn by(&mut self, due: Stamp, now: Stamp) -> io::Result<()> {
        if self.rings.is_none_or(|rings| rings > due) {
            self.timer.set(Nanos(due.0.saturating_sub(now.0)))?;
            self.rings = Some(due);
        }
        Ok(())
    }

    /// Takes note of it where it has rung.
    pub(crate) fn note(&mut self, events: &Events) {
        if events.iter().any(|event| event.token() == ALARM) {
            self.rings = None;
        }
    }

    /// When it rings.
    #[cfg(test)]
    pub(crate) fn rings(&self) -> Option<Stamp> {
        self.rings
    }
}

/// A signal that interrupts a wait is announced by the poll itself.
pub(crate) fn uninterrupted(waited: io::Result<()>) -> io::Result<()> {
    match waited {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use krarup_net::Clock;

    use super::*;

    #[test]
    fn an_alarm_is_not_set_again_for_later_and_rings_once() {
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(4);
        let mut alarm = Alarm::register(&poll).unwrap();
        let clock = Clock::start();
        let begun = clock.now();
        alarm.by(begun + Nanos::from_secs(3_600), begun).unwrap();
        alarm.by(begun + Nanos::from_millis(1), begun).unwrap();
        alarm.by(begun + Nanos::from_secs(60), begun).unwrap();
        assert_eq!(alarm.rings, Some(begun + Nanos::from_millis(1)));
        poll.poll(&mut events, None).unwrap();
        assert!(clock.now() >= begun + Nanos::from_millis(1));
        alarm.note(&events);
        assert_eq!(alarm.rings, None);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty(), "it rings once");
    }

    #[test]
    fn an_alarm_for_what_is_due_already_rings_at_once() {
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(4);
        let mut alarm = Alarm::register(&poll).unwrap();
        for now in [Stamp(10), Stamp(5)] {
            alarm.by(Stamp(5), now).unwrap();
            poll.poll(&mut events, None).unwrap();
            alarm.note(&events);
            assert_eq!(alarm.rings, None);
        }
    }
}
