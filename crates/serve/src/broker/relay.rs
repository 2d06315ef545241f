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
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use krarup_net::blocking::Wakeup;
use krarup_net::snapshots::lock;
use krarup_net::{Listener, Stream};
use krarup_units::{Address, Mistake};
use socket2::{SockRef, TcpKeepalive};

use crate::broker::accepting;
use crate::broker::engine::KEEP_ALIVE;

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
    owner: Mutex<Option<Address>>,
    /// Both ends of each client that is being sent on.
    clients: Mutex<HashMap<u64, [TcpStream; 2]>>,
}

impl Relay {
    /// Begins to accept clients; clients that connect before the owner is known are sent away.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin(listener: Listener) -> Result<Self, Mistake> {
        let told = |error: io::Error| format!("clients cannot be accepted: {error}");
        let address = listener.address().map_err(told)?;
        let over = Wakeup::new().map_err(told)?;
        let inner = Arc::new(Inner { over, owner: Mutex::default(), clients: Mutex::default() });
        let its = Arc::clone(&inner);
        let thread = thread::Builder::new()
            .name("relay".into())
            .spawn(move || {
                accepting::accept_each(&listener, &its.over, |client, number| {
                    if let Stream::Tcp(client) = client
                        && lock(&its.clients).len() < MOST
                    {
                        // A client that cannot be relayed finds its connection closed.
                        let _ = send_on(OwnedFd::from(client).into(), number, &its);
                    }
                });
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
        for ends in lock(&self.inner.clients).values() {
            for end in ends {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }
}

fn send_on(client: TcpStream, number: u64, inner: &Arc<Inner>) -> io::Result<()> {
    let owner = lock(&inner.owner).clone();
    let addresses = owner.and_then(|owner| krarup_net::resolve(&owner).ok()).unwrap_or_default();
    let address = addresses.first().ok_or(io::ErrorKind::NotFound)?;
    let server = TcpStream::connect_timeout(address, CONNECT)?;
    client.set_nonblocking(false)?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
        let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE.as_duration());
        SockRef::from(end).set_tcp_keepalive(&keep_alive)?;
    }
    let ends = [client.try_clone()?, server.try_clone()?];
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    lock(&inner.clients).insert(number, ends);
    thread::Builder::new().spawn(move || carry(from_client, to_server))?;
    let its = Arc::clone(inner);
    thread::Builder::new().spawn(move || {
        carry(server, client);
        if let Some(ends) = lock(&its.clients).remove(&number) {
            for end in ends {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    })?;
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

    use super::*;

    #[test]
    fn what_a_client_sends_reaches_the_owner_and_the_answer_comes_back() {
        let owner = TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = Listener::Tcp(listen(&"127.0.0.1:0".parse().unwrap()).unwrap());
        let relay = Relay::begin(listener).unwrap();
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
        let noticed = ends.map(|end| end.keepalive().unwrap().then(|| end.tcp_keepalive_time().unwrap()));
        assert_eq!(noticed.collect::<Vec<_>>(), [Some(KEEP_ALIVE.as_duration()); 2]);
        drop(clients);
        // It becomes the owner itself: who was sent on connects again.
        drop(relay);
        assert_eq!(client.read(&mut heard).unwrap(), 0);
    }
}
