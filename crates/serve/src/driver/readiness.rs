//! Which connections the loop has found ready: any, or the servers' alone while they work (see
//! [`HoldPolicy`](super::hold::Hold)).
//!
//! Servers are registered twice: in the loop's poll as all are, and for reading in a poll of
//! their own. What came was told by both, so one of them tells of a server that has nothing more to
//! read: such an event is no reason to read.
//!
//! No wait has a limit of its own: a limit sets a timer before each wait and takes it back after,
//! and in a virtual machine both may leave the guest. An [`Alarm`] is set once, and rings early
//! rather than being set again for later.

use std::io;
use std::os::fd::AsRawFd;

use krarup_net::Conn;
use krarup_net::mio::unix::SourceFd;
use krarup_net::mio::{Events, Interest, Poll, Token};

use super::alarm::Alarm;

/// What was found ready.
pub(crate) struct Readiness {
    /// Of all.
    pub(crate) events: Events,
    /// Of the servers, where they were listened to alone.
    pub(crate) answers: Events,
    /// Whether the last pass did not look at the clients.
    pub(crate) skipped: bool,
}

impl Readiness {
    pub(crate) fn new() -> Self {
        Self { events: Events::with_capacity(1_024), answers: Events::with_capacity(256), skipped: false }
    }
}

/// The servers by themselves.
pub(crate) struct ServerPoll {
    pub(crate) poll: Poll,
    pub(crate) alarm: Alarm,
}

impl ServerPoll {
    pub(crate) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        Ok(Self { alarm: Alarm::register(&poll)?, poll })
    }

    /// Listens to a server's connection too, until it is closed.
    pub(crate) fn listen_to(&self, conn: &Conn, token: Token) -> io::Result<()> {
        self.poll.registry().register(&mut SourceFd(&conn.as_raw_fd()), token, Interest::READABLE)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use krarup_net::{Clock, Moved};
    use krarup_units::Nanos;

    use super::*;
    use crate::driver::ALARM;

    /// Both polls tell of an answer; the second finds nothing to read, and an alarm of an
    /// earlier hold is no answer.
    #[test]
    fn a_server_is_heard_by_both_polls_and_read_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut all = Poll::new().unwrap();
        let mut answers = ServerPoll::new().unwrap();
        let token = Token(crate::driver::UPSTREAMS);
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
        assert!(
            events.iter().all(|event| event.token() == ALARM),
            "it rings early, and no server has answered"
        );
        answers.alarm.note(&events);
        assert_eq!(answers.alarm.rings(), None, "the next hold sets it anew");
    }
}
