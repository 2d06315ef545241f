//! Listeners, new connections, and connections that are closed.

use std::io::{self, Write};

use krarup_net::datagram::Datagrams;
use krarup_net::mio::{Registry, Token};
use krarup_net::{Conn, Listener, Moved, Stream, listen};
use krarup_service::{ClientId, Service};
use krarup_units::{Address, Inbox, Nanos, Stamp};

use super::clients::{Accepting, CLIENTS, Driver, DriverNotice, Entrance, LISTENERS, UPSTREAMS};
use super::connection::{AdmissionProgress, ClientConnection};
use super::reading::READS_A_PASS;

/// How long a connection that was closed on our side may take to be closed on the other.
const LINGER: Nanos = Nanos::from_secs(1);

/// How soon to try again after the system would give no more sockets, if no client goes before.
pub(crate) const BACK_OFF: Nanos = Nanos::from_millis(100);

impl Driver {
    /// Clients are to connect here, once the loop is open.
    pub(crate) fn listen(&mut self, address: Address, number: usize, listener: Listener) {
        let token = Token(LISTENERS + self.entrances_made % (UPSTREAMS - LISTENERS));
        self.entrances_made += 1;
        self.entrances.push(Entrance { address, number, listener, datagrams: None, token });
        if !self.is_closed() {
            self.open_entrance(self.entrances.len() - 1);
        }
    }

    /// Where clients connect.
    pub(crate) fn entrances(&self) -> &[Entrance] {
        &self.entrances
    }

    /// Clients connect at these addresses and no others from now on; those that are new are among
    /// `opened`.
    pub(crate) fn listen_only(
        &mut self,
        addresses: impl IntoIterator<Item = (Address, usize)>,
        mut opened: Vec<(Address, Listener)>,
    ) {
        let mut before = std::mem::take(&mut self.entrances);
        for (address, number) in addresses {
            if let Some(known) = before.iter().position(|entrance| entrance.address == address) {
                self.entrances.push(Entrance { number, ..before.remove(known) });
                continue;
            }
            let here = opened.iter().position(|(other, _)| *other == address);
            let (_, listener) = opened.swap_remove(here.expect("it was not listened at before"));
            self.listen(address, number, listener);
        }
    }

    /// Whether clients may not connect yet.
    pub(crate) fn is_closed(&self) -> bool {
        self.accepting == Accepting::Later
    }

    /// The loop is ready: clients may connect.
    pub(crate) fn open(&mut self) {
        self.accepting = Accepting::Yes;
        self.changed = true;
        for entrance in 0..self.entrances.len() {
            self.open_entrance(entrance);
        }
    }

    fn open_entrance(&mut self, entrance: usize) {
        let refuses = self.settings.no_datagrams.is_some();
        let asks = self.settings.asks;
        let registry = self.registry().try_clone();
        let Entrance { listener, datagrams, token, .. } = &mut self.entrances[entrance];
        let registered = registry.and_then(|registry| {
            *datagrams = listener
                .address()
                .ok()
                .filter(|_| refuses)
                .and_then(|address| refuse_datagrams(&address, &registry, *token));
            listener.register(&registry, *token)
        });
        self.notices.push(match registered.and_then(|()| listener.address()) {
            Ok(address) => DriverNotice::Listening(address, !asks),
            Err(error) => DriverNotice::NotAccepting(error.to_string()),
        });
    }

    /// Connections that wait are accepted.
    pub(crate) fn accept(&mut self, service: &mut impl Service) {
        for entrance in 0..self.entrances.len() {
            self.accept_at(service, entrance);
            if let Some(datagrams) = &self.entrances[entrance].datagrams
                && let Some(refusal) = self.settings.no_datagrams
            {
                datagrams.refuse(refusal);
            }
        }
    }

    /// How many clients there are, those of other loops too.
    pub(crate) fn clients_of_all(&self, service: &impl Service) -> usize {
        self.loops.as_ref().map_or_else(|| service.clients(), |loops| loops.clients())
    }

    fn accept_at(&mut self, service: &mut impl Service, entrance: usize) {
        while self.accepting == Accepting::Yes {
            let Entrance { listener, number, .. } = &self.entrances[entrance];
            let number = *number;
            match listener.accept() {
                Ok(stream) => {
                    if self.clients_of_all(service) >= self.settings.connections {
                        self.turn_away(service, stream);
                        continue;
                    }
                    let mine = match &self.loops {
                        Some(loops) => loops.hand_over(stream, number),
                        None => Some(stream),
                    };
                    if let Some(stream) = mine {
                        self.admit(service, stream, number);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The one that was to be accepted has gone again.
                Err(error) if listen::is_of_one(&error) => {}
                Err(error) => {
                    // Out of descriptors, most likely: others must close first.
                    service.out_of_sockets();
                    let now = self.clock.now();
                    self.tell_refusal(error.to_string(), now);
                    self.accepting = Accepting::Retry(now + BACK_OFF);
                    self.changed = true;
                    return;
                }
            }
        }
    }

    /// The operator is told, not at every attempt, why no client can be accepted.
    fn tell_refusal(&mut self, why: String, now: Stamp) {
        if self.refusal_notices.is_due(now) {
            self.notices.push(DriverNotice::NotAccepting(why));
        }
    }

    /// One client more than there may be is told so.
    fn turn_away(&self, service: &mut impl Service, mut stream: Stream) {
        let reply = service.turned_away();
        if self.settings.tls.is_none() && !reply.is_empty() {
            // An empty socket takes one line at once, or its client is gone.
            let _ = stream.write(reply);
        }
    }

    /// A client is served here that was accepted at the listener of that `number`.
    pub(crate) fn admit(&mut self, service: &mut impl Service, stream: Stream, number: usize) {
        let now = self.clock.now();
        let id = service.connected(number, now);
        self.changed = true;
        let conn = Conn::accepted(stream, self.registry(), Token(CLIENTS + id as usize));
        let conn = conn.and_then(|mut conn| {
            if self.settings.keep_alive > Nanos::ZERO {
                // Whose socket does not know it does without.
                let _ = conn.keep_alive(self.settings.keep_alive);
            }
            if let Some(acceptor) = &self.settings.tls {
                conn.encrypt_accepted(acceptor)?;
            }
            Ok(conn)
        });
        let Ok(conn) = conn else { return self.leave(service, id, now) };
        let place = id as usize;
        if self.clients.len() <= place {
            self.clients.resize_with(place + 1, || None);
        }
        let admitted = self.settings.users.is_none();
        let complete = admitted && conn.is_greeted();
        self.clients[place] = Some(ClientConnection {
            conn,
            peer: None,
            bytes: (0, 0),
            inbox: Inbox::default(),
            received: now,
            begun: None,
            admitted,
            login: AdmissionProgress::begun(now, complete),
            readable: true,
            writable: true,
            end_near: false,
            ended: false,
            concluded: false,
            unentered: false,
            wrote: now,
            sent: 0,
            reserved: 0,
            reserved_in_all: 0,
            waits: false,
            listed: true,
            had: 0,
        });
        if !complete {
            self.await_login(service, id, now);
        }
        self.ready.push(id);
    }

    /// A client is no more.
    fn leave(&mut self, service: &mut impl Service, id: ClientId, now: Stamp) {
        service.gone(id, now);
        self.slice.passes(self.clock.now());
        self.to_cut.retain(|&(_, _, other)| other != id);
        self.one_gone = true;
        if let Accepting::Retry(_) = self.accepting {
            // There is a socket again.
            self.accepting = Accepting::Retry(now);
        }
        if let Some(loops) = &self.loops {
            loops.one_gone();
        }
    }

    /// Every request is answered: the last reply is on its way, and then the end.
    pub(super) fn close_client(&mut self, service: &mut impl Service, id: ClientId) {
        let Some(mut link) = self.clients[id as usize].take() else { return };
        let now = self.clock.now();
        self.leave(service, id, now);
        self.free_memory_of(&mut link);
        self.forget_login(link.login);
        if link.ended {
            link.conn.finish_encryption();
            return;
        }
        // What it may still be sending is read and dropped: closing over unread bytes would reset
        // the connection, and the reset could overtake the last reply.
        link.conn.finish();
        // The next client may have its number. What it still sends is looked for, and not waited
        // for.
        let _ = link.conn.deregister(self.registry());
        self.lingering.push((link, now + LINGER));
    }

    /// The connection is broken, it is not read any more.
    pub(super) fn drop_client(&mut self, service: &mut impl Service, id: ClientId) {
        if let Some(mut link) = self.clients[id as usize].take() {
            self.free_memory_of(&mut link);
            self.forget_login(link.login);
        }
        self.leave(service, id, self.clock.now());
    }

    /// Reads what those still send that were closed on our side.
    pub(super) fn listen_to_lingering(&mut self, now: Stamp) {
        for place in (0..self.lingering.len()).rev() {
            let (link, until) = &mut self.lingering[place];
            let mut gone = *until <= now;
            // Who sends without end is not listened to all the time.
            for _ in 0..READS_A_PASS {
                match link.conn.read(&mut self.scratch) {
                    Moved::Some(_) => {}
                    Moved::None => break,
                    Moved::Closed | Moved::Failed(_) => {
                        gone = true;
                        break;
                    }
                }
            }
            if gone {
                self.lingering.swap_remove(place);
            }
        }
    }
}

/// Refuses datagrams at an address of this machine's own, where the port can be had.
fn refuse_datagrams(address: &Address, registry: &Registry, token: Token) -> Option<Datagrams> {
    let number = format!("{address}").parse().ok()?;
    let mut datagrams = Datagrams::at(number).ok()?;
    datagrams.register(registry, token).ok()?;
    Some(datagrams)
}

#[cfg(test)]
mod tests {
    use krarup_net::Clock;
    use krarup_net::mio::Poll;

    use super::super::clients::ClientLimits;
    use super::*;

    fn driver() -> Driver {
        let settings = ClientLimits::default().into();
        Driver::new(settings, Poll::new().unwrap(), Clock::start()).unwrap()
    }

    #[test]
    fn a_listener_that_comes_while_the_system_gives_no_sockets_is_opened() {
        let mut driver = driver();
        driver.open();
        driver.accepting = Accepting::Retry(Stamp(0));
        let address: Address = "127.0.0.1:0".parse().unwrap();
        let listener = listen::listen_with(&address, listen::Options::default()).unwrap();
        driver.listen(address, 0, listener);
        assert!(matches!(driver.notices.as_slice(), [DriverNotice::Listening(..)]));
    }

    #[test]
    fn that_no_client_can_be_accepted_is_told_once_a_minute() {
        let mut driver = driver();
        let mut told_at = |second| {
            driver.tell_refusal("too many files".into(), Stamp(0) + Nanos::from_secs(second));
            driver.notices.drain(..).count()
        };
        assert_eq!([1, 2, 60, 61, 62].map(&mut told_at), [1, 0, 0, 1, 0]);
    }
}
