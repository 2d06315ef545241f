//! Whom the loop waits for: the servers alone while they work (see [`Hold`](crate::proxy::hold::Hold)), else anybody.
//!
//! Servers are registered twice: in the loop's poll as everybody is, and for reading in a poll of their own. What came was told by
//! both, so one of them tells of a server that has nothing more to read: such an event is no reason to read.
//!
//! No wait has a limit of its own: a limit sets a timer before each wait and takes it back after, and in a virtual machine both may leave the
//! guest. An [`Alarm`] is set once, and rings early rather than being set again for later.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use krarup_net::mio::unix::SourceFd;
use krarup_net::mio::{Events, Interest, Poll, Token};
use krarup_net::{Conn, Timer};
use krarup_units::{Nanos, Stamp};

use super::{ALARM, Engine, FEW_LANES, Link, Notice};

/// What was found ready.
pub(super) struct Looks {
    /// Of everybody.
    pub(super) events: Events,
    /// Of the servers, where they were listened to alone.
    pub(super) answers: Events,
    /// Whether the last pass did not look at the clients.
    skipped: bool,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self { events: Events::with_capacity(1_024), answers: Events::with_capacity(256), skipped: false }
    }
}

/// Rings at the latest when it was asked to.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: Timer,
    rings: Option<Stamp>,
}

impl Alarm {
    pub(super) fn register(poll: &Poll) -> io::Result<Self> {
        Ok(Self { timer: Timer::register(poll.registry(), ALARM)?, rings: None })
    }

    /// Rings at `due` or, where that was asked for before, earlier.
    pub(super) fn by(&mut self, due: Stamp, now: Stamp) -> io::Result<()> {
        if self.rings.is_none_or(|rings| rings > due) {
            self.timer.set(Nanos(due.0.saturating_sub(now.0)))?;
            self.rings = Some(due);
        }
        Ok(())
    }

    /// Takes note of it where it has rung.
    fn heard(&mut self, events: &Events) {
        if events.iter().any(|event| event.token() == ALARM) {
            self.rings = None;
        }
    }
}

/// The servers by themselves.
pub(super) struct Answers {
    poll: Poll,
    alarm: Alarm,
}

impl Answers {
    pub(super) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        Ok(Self { alarm: Alarm::register(&poll)?, poll })
    }

    /// Listens to a server's connection too, until it is closed.
    pub(super) fn listen_to(&self, conn: &Conn, token: Token) -> io::Result<()> {
        self.poll.registry().register(&mut SourceFd(&conn.as_raw_fd()), token, Interest::READABLE)
    }
}

impl<N: FnMut(Notice)> Engine<N> {
    /// Waits until somebody is ready or something is due.
    pub(super) fn look(&mut self, looks: &mut Looks, before: Stamp) -> io::Result<()> {
        looks.answers.clear();
        looks.events.clear();
        let due = self.next_due(before);
        let at_once = due == Some(before);
        if let Some(due) = due.filter(|_| !at_once) {
            self.alarm.by(due, before)?;
        }
        let in_flight = self.core.in_flight();
        let hold = self.hold.begins(in_flight, before).filter(|_| !at_once);
        let Some(limit) = hold.filter(|_| self.can_write_to_servers()) else {
            looks.skipped = false;
            let waited = std::mem::take(&mut self.partly);
            self.write_clients(waited);
            let more = self.core.has_more_to_do();
            if more && !self.slice.is_spent() {
                // Something may be due, or to be read, that was not before.
                self.flush();
            }
            return self.at_all(looks, at_once || more);
        };
        let due = due.map_or(before + limit, |due| due.min(before + limit));
        self.answers.alarm.by(due, before)?;
        uninterrupted(self.answers.poll.poll(&mut looks.answers, None))?;
        self.answers.alarm.heard(&looks.answers);
        let now = self.clock.now();
        // An alarm that was set in an earlier hold and rings early says nothing of the servers.
        let answered = looks.answers.iter().any(|event| event.token() != ALARM);
        if answered || now >= due {
            self.hold.ended(Nanos(now.0 - before.0), now);
        }
        // Where every client waits for its answer, none is likely to have asked again.
        looks.skipped = !looks.skipped && in_flight >= self.core.clients() && answered;
        if looks.skipped { Ok(()) } else { self.at_all(looks, true) }
    }

    /// Waits for anybody, or only looks who is ready.
    fn at_all(&mut self, looks: &mut Looks, only_look: bool) -> io::Result<()> {
        let limit = only_look.then_some(Duration::ZERO);
        uninterrupted(self.poll.poll(&mut looks.events, limit))?;
        self.alarm.heard(&looks.events);
        Ok(())
    }

    /// Whether no server has to make room before more can be sent to it: of that they do not tell those who listen for answers alone.
    fn can_write_to_servers(&self) -> bool {
        self.servers.all().take(self.servers.first.len() + FEW_LANES).all(|(_, link)| {
            link.state != Link::Connected
                || link.writable && link.conn.as_ref().is_none_or(|conn| !conn.is_waiting())
        })
    }
}

/// A signal that interrupts a wait is announced by the poll itself.
fn uninterrupted(waited: io::Result<()>) -> io::Result<()> {
    match waited {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use krarup_net::{Clock, Moved};

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
        alarm.heard(&events);
        assert_eq!(alarm.rings, None);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty(), "it rings once");
    }

    /// Both polls tell of an answer; whoever comes second finds nothing to read, and an alarm of an earlier hold is no answer.
    #[test]
    fn a_server_is_heard_by_both_polls_and_read_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut all = Poll::new().unwrap();
        let mut answers = Answers::new().unwrap();
        let token = Token(super::super::SERVERS);
        let mut conn = Conn::connect(listener.local_addr().unwrap(), all.registry(), token).unwrap();
        answers.listen_to(&conn, token).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"END\r\n").unwrap();
        let mut events = Events::with_capacity(4);
        let told = |events: &Events| events.iter().any(|event| event.token() == token && event.is_readable());
        while !told(&events) {
            answers.poll.poll(&mut events, None).unwrap();
        }
        events.clear();
        while !told(&events) {
            all.poll(&mut events, None).unwrap();
        }
        let mut room = [0; 64];
        assert!(matches!(conn.read(&mut room), Moved::Some(5)));
        assert!(matches!(conn.read(&mut room), Moved::None), "for the second of them there is nothing left");

        let clock = Clock::start();
        let begun = clock.now();
        answers.alarm.by(begun, begun).unwrap();
        answers.alarm.by(begun + Nanos::from_secs(60), begun).unwrap();
        answers.poll.poll(&mut events, None).unwrap();
        assert!(events.iter().all(|event| event.token() == ALARM), "it rings early, and nobody has answered");
        answers.alarm.heard(&events);
        assert_eq!(answers.alarm.rings, None, "the next hold sets it anew");
    }

    #[test]
    fn an_alarm_for_what_is_due_already_rings_at_once() {
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(4);
        let mut alarm = Alarm::register(&poll).unwrap();
        for now in [Stamp(10), Stamp(5)] {
            alarm.by(Stamp(5), now).unwrap();
            poll.poll(&mut events, None).unwrap();
            alarm.heard(&events);
            assert_eq!(alarm.rings, None);
        }
    }
}
