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
use crate::slice::Slice;

/// How long a connection that was closed on our side may take to be closed on the other.
const LINGER: Nanos = Nanos::from_secs(1);

/// How often what those still send is read. In each pass they would cost others more than their own
/// requests do.
const LINGERING_READ: Nanos = Nanos::from_millis(20);

/// So many linger at most: no limit on clients counts them.
const MOST_LINGERING: usize = 1_024;

/// Slices in which connections that wait are accepted before the socket is closed: a full backlog
/// fits, and clients that connect without end do not hold up a stop.
const LAST_SLICES: usize = 50;

/// How soon to try again after the system would give no more sockets, if no client goes before.
pub(crate) const BACK_OFF: Nanos = Nanos::from_millis(100);

impl Driver {
    /// Clients are to connect here, once the loop is open.
    pub(crate) fn listen(&mut self, address: Address, number: usize, listener: Listener) {
        let token = Token(LISTENERS + self.entrances_made % (UPSTREAMS - LISTENERS));
        self.entrances_made += 1;
        self.entrances.push(Entrance { address, number, listener, datagrams: None, token, opened: false });
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
        self.open_entrances();
    }

    /// Takes no descriptor but for datagrams: with the last one a client may have connected.
    fn open_entrance(&mut self, entrance: usize) {
        let registry = self.poll.registry();
        let Entrance { listener, datagrams, token, opened, .. } = &mut self.entrances[entrance];
        if let Err(error) = listener.register(registry, *token) {
            return self.back_off(&error);
        }
        *opened = true;
        let address = listener.address();
        if let Ok(address) = &address
            && self.settings.no_datagrams.is_some()
        {
            *datagrams = refuse_datagrams(address, registry, *token);
        }
        self.notices.push(match address {
            Ok(address) => DriverNotice::Listening(address, !self.settings.asks),
            Err(error) => DriverNotice::NotAccepting(error.to_string()),
        });
    }

    /// The same for each that is not open: all at first, then those that the system refused.
    pub(super) fn open_entrances(&mut self) {
        for entrance in 0..self.entrances.len() {
            if !self.entrances[entrance].opened {
                self.open_entrance(entrance);
            }
        }
    }

    /// Connections that wait are accepted, at each socket for a [`Slice`]; the rest with the next
    /// pass.
    pub(crate) fn accept(&mut self, service: &mut impl Service) {
        self.unaccepted = false;
        for entrance in 0..self.entrances.len() {
            self.accept_at(service, entrance, Slice::default());
            if let Some(datagrams) = &self.entrances[entrance].datagrams
                && let Some(refusal) = self.settings.no_datagrams
            {
                datagrams.refuse(refusal);
            }
        }
    }

    /// The same for all that wait, as long as these are no more than a backlog.
    pub(super) fn accept_the_last(&mut self, service: &mut impl Service) {
        for _ in 0..LAST_SLICES {
            self.accept(service);
            if !self.unaccepted {
                break;
            }
        }
        self.unaccepted = false;
    }

    /// How many clients there are, those of other loops too.
    pub(crate) fn clients_of_all(&self, service: &impl Service) -> usize {
        self.loops.as_ref().map_or_else(|| service.clients(), |loops| loops.clients())
    }

    fn accept_at(&mut self, service: &mut impl Service, entrance: usize, mut slice: Slice) {
        while self.accepting == Accepting::Yes {
            if slice.passes(self.clock.now()) {
                self.unaccepted = true;
                return;
            }
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
                    return self.back_off(&error);
                }
            }
        }
    }

    /// The system is asked again later for what it refused.
    fn back_off(&mut self, error: &io::Error) {
        let now = self.clock.now();
        self.tell_refusal(error.to_string(), now);
        self.accepting = Accepting::Retry(now + BACK_OFF);
        self.changed = true;
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
        // At a stop no more come, and each may still be sending.
        let most = MOST_LINGERING.min(self.settings.connections);
        if !self.stopping && self.lingering.len() >= most {
            self.lingering.pop_front();
        }
        self.lingering.push_back((link, now + LINGER));
        self.changed = true;
    }

    /// The connection is broken, it is not read any more.
    pub(super) fn drop_client(&mut self, service: &mut impl Service, id: ClientId) {
        if let Some(mut link) = self.clients[id as usize].take() {
            self.free_memory_of(&mut link);
            self.forget_login(link.login);
        }
        self.leave(service, id, self.clock.now());
    }

    /// Reads what those still send that were closed on our side, where that is due, for a
    /// [`Slice`]: the others are the first the next time.
    pub(super) fn listen_to_lingering(&mut self, now: Stamp) {
        if now < self.lingering_due {
            return;
        }
        self.lingering_due = now + LINGERING_READ;
        let mut slice = Slice::default();
        for _ in 0..self.lingering.len() {
            if slice.passes(self.clock.now()) {
                break;
            }
            let Some((mut link, until)) = self.lingering.pop_front() else { break };
            let mut gone = until <= now;
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
            if !gone {
                self.lingering.push_back((link, until));
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
    use std::os::unix::net::UnixStream;

    use krarup_net::Clock;
    use krarup_net::mio::Poll;

    use super::super::clients::{ClientLimits, DriverSettings};
    use super::super::testing;
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

    /// The kernel may have no room for one more socket that is waited for. Here it refuses one that
    /// is waited for already.
    #[test]
    fn a_listener_that_the_system_refuses_is_opened_later_while_others_are_served() {
        let (mut driver, mut cache) = (driver(), testing::cache());
        let files = ["refused", "served"]
            .map(|name| std::env::temp_dir().join(format!("krarup-accepting-{name}-{}", std::process::id())));
        for (number, file) in files.iter().enumerate() {
            let address = Address::of_file(file);
            let listener = listen::listen_with(&address, listen::Options::default()).unwrap();
            driver.listen(address, number, listener);
        }
        driver.entrances[0].listener.register(driver.poll.registry(), Token(LISTENERS)).unwrap();
        driver.open();
        let [DriverNotice::NotAccepting(_), DriverNotice::Listening(..)] = driver.notices.as_slice() else {
            panic!("{:?}", driver.notices);
        };
        assert!(matches!(driver.accepting, Accepting::Retry(_)) && !driver.is_settled());
        let _clients = files.map(|file| UnixStream::connect(file).unwrap());
        let Listener::Unix { listener, .. } = &mut driver.entrances[0].listener else { panic!("a file") };
        driver.poll.registry().deregister(listener).unwrap();
        let due = driver.deadline(&cache).unwrap();
        driver.tick(&mut cache, due);
        assert!(driver.entrances[0].opened && driver.accepting == Accepting::Yes);
        assert_eq!((cache.clients(), driver.notices.len()), (2, 3));
    }

    #[test]
    fn connections_that_one_slice_is_too_short_for_are_accepted_in_the_next_pass() {
        let file = std::env::temp_dir().join(format!("krarup-accepting-{}", std::process::id()));
        let address = Address::of_file(&file);
        let listener = listen::listen_with(&address, listen::Options::default()).unwrap();
        let (mut driver, mut cache) = (driver(), testing::cache());
        driver.listen(address, 0, listener);
        driver.open();
        driver.changed = false;
        assert!(driver.is_settled() && !driver.has_more_to_do());
        let _clients = [(); 2].map(|()| UnixStream::connect(&file).unwrap());
        let mut spent = Slice::default();
        spent.passes(Stamp(0));
        spent.passes(Stamp(0) + Nanos::from_secs(1));
        driver.accept_at(&mut cache, 0, spent);
        assert_eq!(cache.clients(), 0);
        assert!(driver.has_more_to_do() && !driver.is_settled());
        while driver.unaccepted {
            driver.tick(&mut cache, driver.clock.now());
        }
        assert_eq!(cache.clients(), 2);
    }

    #[test]
    fn those_that_linger_are_few_and_are_read_now_and_then() {
        let settings = DriverSettings { connections: 1, ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        let [mut first, mut second] = [(); 2].map(|()| {
            let client = testing::connect(&mut driver, &mut cache);
            driver.close_client(&mut cache, 0);
            client
        });
        assert!(first.write_all(b"x").is_err(), "it made place");
        assert!(second.write_all(b"x").is_ok());
        driver.listen_to_lingering(Stamp(0));
        drop(second);
        driver.listen_to_lingering(Stamp(LINGERING_READ.0 - 1));
        assert_eq!(driver.lingering.len(), 1);
        driver.listen_to_lingering(Stamp(0) + LINGERING_READ);
        assert!(driver.lingering.is_empty());
        driver.stopping = true;
        let _clients = [(); 2].map(|()| {
            let client = testing::connect(&mut driver, &mut cache);
            driver.close_client(&mut cache, 0);
            client
        });
        assert_eq!(driver.lingering.len(), 2, "at a stop all have their time");
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
