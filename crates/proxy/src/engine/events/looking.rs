//! Whom the loop waits for: the servers alone while they work (see [`Hold`](crate::hold::Hold)), else anybody.
//!
//! The servers' poll stands in the loop's as one more source, edge-triggered: that a server is ready is told once. So it is remembered
//! until the servers have been looked at, and the loop does not sleep before.

use std::io;
use std::time::Duration;

use krarup_net::mio::{Events, Poll};
use krarup_units::Nanos;

use super::{Engine, Notice, SERVERS_READY};

/// What was found ready, and what is known of what was not looked at.
pub(super) struct Looks {
    /// Of anybody but the servers.
    pub(super) events: Events,
    /// Of the servers.
    pub(super) answers: Events,
    /// Whether the last pass did not look at the clients.
    skipped: bool,
    /// Whether a server is ready that has not been looked at.
    servers_told: bool,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self {
            events: Events::with_capacity(1_024),
            answers: Events::with_capacity(256),
            skipped: false,
            servers_told: false,
        }
    }

    fn at_servers(&mut self, poll: &mut Poll, wait: Duration) -> io::Result<()> {
        uninterrupted(poll.poll(&mut self.answers, Some(wait)))?;
        // As many as there is room for: there may be more.
        self.servers_told = self.answers.iter().count() == self.answers.capacity();
        Ok(())
    }

    fn at_all(&mut self, poll: &mut Poll, wait: Option<Duration>) -> io::Result<()> {
        uninterrupted(poll.poll(&mut self.events, wait))?;
        self.servers_told |= self.events.iter().any(|event| event.token() == SERVERS_READY);
        Ok(())
    }
}

impl<N: FnMut(Notice)> Engine<N> {
    /// Waits until somebody is ready or something is due.
    pub(super) fn look(&mut self, looks: &mut Looks) -> io::Result<()> {
        looks.answers.clear();
        looks.events.clear();
        let wait = self.wait();
        let (in_flight, before) = (self.core.in_flight(), self.clock.now());
        let hold = self.hold.begins(in_flight, before).filter(|_| wait != Some(Duration::ZERO));
        let Some(limit) = hold.map(Nanos::as_duration) else {
            let waited = std::mem::take(&mut self.partly);
            self.write_clients(waited);
            looks.at_all(&mut self.poll, if looks.servers_told { Some(Duration::ZERO) } else { wait })?;
            return if looks.servers_told {
                looks.at_servers(&mut self.server_poll, Duration::ZERO)
            } else {
                Ok(())
            };
        };
        looks.at_servers(&mut self.server_poll, wait.map_or(limit, |wait| wait.min(limit)))?;
        let now = self.clock.now();
        self.hold.ended(Nanos(now.0 - before.0), now);
        // Where every client waits for its answer, none is likely to have asked again.
        looks.skipped = !looks.skipped && in_flight >= self.core.clients() && !looks.answers.is_empty();
        if looks.skipped { Ok(()) } else { looks.at_all(&mut self.poll, Some(Duration::ZERO)) }
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
    use std::os::fd::AsRawFd;

    use krarup_net::mio::net::UnixStream;
    use krarup_net::mio::unix::SourceFd;
    use krarup_net::mio::{Interest, Token};

    use super::*;

    /// A poll of all with that of the servers in it, a server that can be read, and the server's own end.
    fn polls() -> (Poll, Poll, UnixStream, UnixStream) {
        let (all, servers) = (Poll::new().unwrap(), Poll::new().unwrap());
        let number = servers.as_raw_fd();
        all.registry().register(&mut SourceFd(&number), SERVERS_READY, Interest::READABLE).unwrap();
        let (mut here, there) = UnixStream::pair().unwrap();
        servers.registry().register(&mut here, Token(7), Interest::READABLE).unwrap();
        (all, servers, here, there)
    }

    #[test]
    fn a_server_that_was_told_to_be_ready_is_remembered_until_it_is_looked_at() {
        let (mut all, mut servers, _here, mut there) = polls();
        let mut looks = Looks::new();
        there.write_all(b"END\r\n").unwrap();
        looks.at_all(&mut all, None).unwrap();
        assert!(looks.servers_told);
        // It is told once. Whoever slept now would sleep for ever.
        looks.at_all(&mut all, Some(Duration::ZERO)).unwrap();
        assert!(looks.events.is_empty() && looks.servers_told);
        looks.at_servers(&mut servers, Duration::ZERO).unwrap();
        let tokens: Vec<_> = looks.answers.iter().map(krarup_net::mio::event::Event::token).collect();
        assert_eq!((tokens, looks.servers_told), (vec![Token(7)], false));
    }

    #[test]
    fn what_comes_after_the_servers_were_looked_at_is_told_again() {
        let (mut all, mut servers, _here, mut there) = polls();
        let mut looks = Looks::new();
        for _ in 0..3 {
            there.write_all(b"END\r\n").unwrap();
            looks.at_all(&mut all, None).unwrap();
            assert!(looks.servers_told);
            looks.at_servers(&mut servers, Duration::ZERO).unwrap();
            assert!(!looks.answers.is_empty() && !looks.servers_told);
        }
    }
}
