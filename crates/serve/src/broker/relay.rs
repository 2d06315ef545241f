//! A broker that waits for its turn sends its clients on to the owner, byte by byte.
//!
//! ```text
//! client ──▶ this broker, waiting ──▶ the owner
//!        ◀──                      ◀──
//! ```
//!
//! What a client says and hears is the owner's business alone, its protocol, its TLS and its place
//! in order included. When this broker becomes the owner, or the owner ends, the connections end,
//! and clients connect again, as they would to a broker that was started anew.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use krarup_net::blocking::Wakeup;
use krarup_net::snapshots::lock;
use krarup_net::{Listener, Stream, conn};
use krarup_units::{Address, Mistake, Stamp};

use crate::broker::accepting;
use crate::broker::engine::KEEP_ALIVE;
use crate::threads::{Spawn, spawn};

/// How long the owner may take to accept a client.
const CONNECT: Duration = Duration::from_secs(1);
/// Clients that are sent on at once; each costs two threads.
const MOST: usize = 500;

/// Sends clients on until it goes.
#[derive(Debug)]
pub struct Relay {
    /// Where clients connect.
    pub address: Address,
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    over: Wakeup,
    listens: Address,
    owner: Mutex<Option<Address>>,
    /// Both ends of each client that is being sent on; its own alone until the owner has accepted.
    clients: Mutex<HashMap<u64, Vec<TcpStream>>>,
}

impl Inner {
    /// Closes the ends of a client, if it is still being sent on.
    fn close(&self, number: u64) {
        if let Some(ends) = lock(&self.clients).remove(&number) {
            shut_down(&ends);
        }
    }
}

fn shut_down(ends: &[TcpStream]) {
    for end in ends {
        let _ = end.shutdown(Shutdown::Both);
    }
}

impl Relay {
    /// Begins to accept clients; clients that connect before the owner is known are sent away. The
    /// operator is told by `refused` why another one is, not of each: `now` says what time it is.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin(
        listener: Listener,
        now: impl Fn() -> Stamp + Send + 'static,
        refused: impl Fn(String) + Send + 'static,
    ) -> Result<Self, Mistake> {
        let told = |error: io::Error| format!("clients cannot be accepted: {error}");
        let address = listener.address().map_err(told)?;
        let over = Wakeup::new().map_err(told)?;
        let listens = address.clone();
        let inner = Arc::new(Inner { over, listens, owner: Mutex::default(), clients: Mutex::default() });
        let its = Arc::clone(&inner);
        let thread = thread::Builder::new()
            .name("relay".into())
            .spawn(move || {
                let serve = |client: Stream, number: u64| match client {
                    Stream::Tcp(client) => admit(OwnedFd::from(client).into(), number, &its),
                    Stream::Unix(_) => Ok(()),
                };
                accepting::accept_each(&listener, &its.over, now, refused, serve);
            })
            .map_err(|error| format!("no thread can be had: {error}"))?;
        Ok(Self { address, inner, thread: Some(thread) })
    }

    /// Who owns the queues from now on; none: it is not known.
    pub fn send_to(&self, owner: Option<Address>) {
        *lock(&self.inner.owner) = owner;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.inner.over.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // A client that is not connected to the owner yet is not found any more when it is.
        for (_, ends) in lock(&self.inner.clients).drain() {
            shut_down(&ends);
        }
    }
}

/// Sends a client on, where not too many are.
fn admit(client: TcpStream, number: u64, inner: &Arc<Inner>) -> io::Result<()> {
    if lock(&inner.clients).len() < MOST {
        return send_on(client, number, inner, spawn);
    }
    Err(io::Error::other(format!("{MOST} are connected, as many as are sent on")))
}

/// Sends a client on, on threads of its own: an owner that does not answer makes no other client
/// wait.
fn send_on(client: TcpStream, number: u64, inner: &Arc<Inner>, spawn: Spawn) -> io::Result<()> {
    let end = client.try_clone()?;
    lock(&inner.clients).insert(number, vec![end]);
    let its = Arc::clone(inner);
    let begun = spawn(
        "relay",
        Box::new(move || {
            // A client that cannot be relayed finds its connection closed.
            let _ = connect_and_carry(client, number, &its, spawn);
            its.close(number);
        }),
    );
    if begun.is_err() {
        inner.close(number);
    }
    begun
}

/// Whether a relay that listens here would send its clients on to itself: an owner that advertises
/// `0.0.0.0` or a loopback address seems to be on every machine.
fn is_itself(owner: SocketAddr, listens: &Address) -> bool {
    let (theirs, ours) = (owner.ip(), listens.host.parse::<IpAddr>());
    let same = |ours: IpAddr| ours == theirs || ours.is_unspecified() && theirs.is_loopback();
    owner.port() == listens.port && (theirs.is_unspecified() || ours.is_ok_and(same))
}

/// Connects to the owner, and carries until both ends are over.
fn connect_and_carry(client: TcpStream, number: u64, inner: &Inner, spawn: Spawn) -> io::Result<()> {
    let owner = lock(&inner.owner).clone();
    let addresses = owner.and_then(|owner| krarup_net::resolve(&owner).ok()).unwrap_or_default();
    let others = addresses.into_iter().filter(|owner| !is_itself(*owner, &inner.listens));
    let server = krarup_net::connect_any(&others.collect::<Vec<_>>(), CONNECT)?;
    client.set_nonblocking(false)?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
        conn::keep_alive(end, KEEP_ALIVE)?;
    }
    let (from_client, to_server, end) = (client.try_clone()?, server.try_clone()?, server.try_clone()?);
    match lock(&inner.clients).get_mut(&number) {
        Some(ends) => ends.push(end),
        // The relay has ended meanwhile.
        None => return Ok(()),
    }
    spawn("relay", Box::new(move || carry(from_client, to_server)))?;
    carry(server, client);
    Ok(())
}

/// Everything from one end to the other, then the end of it.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    // An end that is lost is an end.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use krarup_net::listen::listen;
    use socket2::SockRef;

    use super::*;

    /// A relay without a thread that accepts, the client `0` at both its ends, and the owner.
    fn relay_of_one_client() -> (Relay, [TcpStream; 2], TcpListener) {
        let owner = TcpListener::bind("127.0.0.1:0").unwrap();
        owner.set_nonblocking(true).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let relay = relay_without_thread(&listener, owner.local_addr().unwrap().into());
        (relay, [client, accepted], owner)
    }

    fn relay_without_thread(listener: &TcpListener, owner: Address) -> Relay {
        let (over, owner) = (Wakeup::new().unwrap(), Mutex::new(Some(owner)));
        let address = Address::from(listener.local_addr().unwrap());
        let listens = address.clone();
        let inner = Arc::new(Inner { over, listens, owner, clients: Mutex::default() });
        Relay { address, inner, thread: None }
    }

    #[test]
    fn a_relay_sends_no_client_on_to_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = listener.local_addr().unwrap();
        for host in ["0.0.0.0", "127.0.0.1", "::"] {
            let relay = relay_without_thread(&listener, Address { host: host.into(), port: ours.port() });
            listener.set_nonblocking(false).unwrap();
            let mut client = TcpStream::connect(ours).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            listener.set_nonblocking(true).unwrap();
            connect_and_carry(accepted, 0, &relay.inner, |_, _| Ok(())).unwrap_err();
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
            assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "{host}");
        }
    }

    #[test]
    fn only_an_address_of_the_relay_itself_is_refused() {
        for (owner, listens, itself) in [
            ("127.0.0.1:1", "0.0.0.0:1", true),
            ("[::1]:1", "[::]:1", true),
            ("10.0.0.5:1", "10.0.0.5:1", true),
            ("127.0.0.1:2", "0.0.0.0:1", false),
            ("0.0.0.0:2", "0.0.0.0:1", false),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("127.0.0.1:1", "10.0.0.5:1", false),
            ("10.0.0.6:1", "0.0.0.0:1", false),
        ] {
            let found = is_itself(owner.parse().unwrap(), &listens.parse().unwrap());
            assert_eq!(found, itself, "{owner} of {listens}");
        }
    }

    #[test]
    fn accepting_clients_does_not_wait_for_the_owner() {
        let (relay, [mut client, accepted], owner) = relay_of_one_client();
        // Its thread does not get on.
        send_on(accepted, 0, &relay.inner, |_, _| Ok(())).unwrap();
        assert_eq!(owner.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(lock(&relay.inner.clients).len(), 1);
        drop(relay);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_client_for_which_no_thread_can_be_had_is_forgotten_and_hears_the_end() {
        let refuse: Spawn = |_, _| Err(io::ErrorKind::WouldBlock.into());
        let (relay, [mut client, accepted], _owner) = relay_of_one_client();
        send_on(accepted, 0, &relay.inner, refuse).unwrap_err();
        assert!(lock(&relay.inner.clients).is_empty());
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        // The first thread can be had, the second cannot.
        let (relay, [mut client, accepted], owner) = relay_of_one_client();
        let end = accepted.try_clone().unwrap();
        lock(&relay.inner.clients).insert(0, vec![end]);
        connect_and_carry(accepted, 0, &relay.inner, refuse).unwrap_err();
        relay.inner.close(0);
        assert!(lock(&relay.inner.clients).is_empty());
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        owner.set_nonblocking(false).unwrap();
        let (mut at_owner, _) = owner.accept().unwrap();
        assert_eq!(at_owner.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_client_beyond_the_bound_is_turned_away_with_the_reason() {
        let (relay, [mut client, accepted], _owner) = relay_of_one_client();
        // The places of those that are there.
        lock(&relay.inner.clients).extend((1..=MOST as u64).map(|number| (number, Vec::new())));
        let error = admit(accepted, 0, &relay.inner).unwrap_err();
        assert_eq!(error.to_string(), "500 are connected, as many as are sent on");
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn what_a_client_sends_reaches_the_owner_and_the_answer_comes_back() {
        let owner = TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = Listener::Tcp(listen(&"127.0.0.1:0".parse().unwrap()).unwrap());
        let relay = Relay::begin(listener, || Stamp(0), |why| panic!("{why}")).unwrap();
        let address = relay.address.to_string();
        // No broker is known to be the owner yet.
        let mut early = TcpStream::connect(&address).unwrap();
        assert_eq!(early.read(&mut [0]).unwrap(), 0);
        relay.send_to(Some(owner.local_addr().unwrap().to_string().parse().unwrap()));
        let mut client = TcpStream::connect(&address).unwrap();
        client.write_all(b"ping\r\n").unwrap();
        let (mut at_owner, _) = owner.accept().unwrap();
        let mut heard = [0; 6];
        at_owner.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"ping\r\n");
        at_owner.write_all(b"PONG\r\n").unwrap();
        client.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"PONG\r\n");
        let clients = lock(&relay.inner.clients);
        let ends = clients.values().flatten().map(SockRef::from);
        let noticed = ends.map(|end| {
            let (time, interval) = (end.tcp_keepalive_time(), end.tcp_keepalive_interval());
            assert!(end.keepalive().unwrap());
            (time.unwrap().as_secs(), interval.unwrap().as_secs(), end.tcp_keepalive_retries().unwrap())
        });
        assert_eq!(noticed.collect::<Vec<_>>(), [(60, 10, 3); 2]);
        drop(clients);
        // It becomes the owner itself: who was sent on connects again.
        drop(relay);
        assert_eq!(client.read(&mut heard).unwrap(), 0);
    }
}
