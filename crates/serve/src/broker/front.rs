//! Clients of queues that are divided among several brokers: each request is sent to the owner of
//! the shard that it is for.
//!
//! ```text
//!                        ┌──▶ owner of shard 0, perhaps in this process
//! client ──▶ session ────┼──▶ owner of shard 1
//!        ◀──             └──▶ …           one connection each, made when it is needed
//! ```
//!
//! | file | what is done there |
//! |---|---|
//! | this | clients come and go, one thread each |
//! | `serving` | what the threads of all clients share |
//! | `session` | beanstalkd's protocol: which shard a request is for |
//! | `several_shards` | requests that are for several: waiting in tubes of different shards, lists, sums |
//! | `memcached` | memcached's protocol |
//! | `owner_connection` | a connection to an owner |
//! | `retry` | how long an owner is waited for, and what becomes of a request whose owner is lost |
//!
//! A session keeps what its client uses, watches and is called, and tells it to an owner before the
//! first request that needs it. **When a shard moves**, its owner says so in place of an answer,
//! and the request is sent to the next one. When an owner is lost it is so as well, unless it is
//! not known whether the request was carried out, or the client holds messages of that shard: then
//! its connection ends, as it would with the broker itself.

mod memcached;
mod owner_connection;
mod retry;
mod serving;
mod session;
mod several_shards;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use krarup_net::blocking::{BlockingClient, ShutdownHandle};
use krarup_net::{Listener, Stream};
use krarup_units::{Address, Mistake, Stamp};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::broker::accepting;
use crate::broker::engine::{KEEP_ALIVE, Protocol};
use krarup_store::owners::Owners;
use owner_connection::wait_for;
pub use serving::FrontSettings;
use serving::{ABANDONED, ENDS, Inner};

/// Memory for the stack of a client's thread.
const STACK: usize = 512 << 10;
/// How long the threads of clients that are given up may take to end: none waits for anything any
/// more.
const LAST: Duration = Duration::from_secs(5);
/// How long a connection that was closed on our side may take to be closed on the other.
const LINGER: Duration = Duration::from_secs(1);

/// Serves clients until it goes; then neither its listener nor a thread of a client is left.
#[derive(Debug)]
pub struct Front {
    /// Where clients connect.
    pub address: Address,
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl Front {
    /// Begins to accept clients. The operator is told by `refused` why one is turned away, not of
    /// each: `now` says what time it is.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin(
        listener: Listener,
        protocol: Protocol,
        settings: FrontSettings,
        owners: Arc<Owners>,
        now: impl Fn() -> Stamp + Send + 'static,
        refused: impl Fn(String) + Send + 'static,
    ) -> Result<Self, Mistake> {
        let told = |error: io::Error| format!("clients cannot be accepted: {error}");
        let address = listener.address().map_err(told)?;
        let inner = Arc::new(Inner::new(protocol, settings, owners).map_err(told)?);
        let its = Arc::clone(&inner);
        let thread = thread::Builder::new()
            .name("front".into())
            .spawn(move || {
                let most = its.settings.connections;
                accepting::accept_each(&listener, &its.over, now, refused, |client, number| {
                    if its.settings.connected.load(Ordering::SeqCst) < most {
                        return serve(client, number, &its);
                    }
                    Err(io::Error::other(format!("{most} are connected, as many as may be")))
                });
            })
            .map_err(|error| format!("no thread can be had: {error}"))?;
        Ok(Self { address, inner, thread: Some(thread) })
    }

    /// No more clients are accepted, and nothing more is heard of those that are there; what they
    /// have asked is answered.
    pub fn close(&mut self) {
        self.inner.phase.fetch_max(ENDS, Ordering::SeqCst);
        self.inner.over.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.inner.clients().values().for_each(ShutdownHandle::close_read);
    }

    /// How many clients are there.
    pub fn clients(&self) -> usize {
        self.inner.clients().len()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.inner.phase.fetch_max(ABANDONED, Ordering::SeqCst);
        self.close();
        let clients = self.inner.clients();
        clients.values().for_each(ShutdownHandle::close);
        let _ = self.inner.gone.wait_timeout_while(clients, LAST, |clients| !clients.is_empty());
    }
}

fn serve(client: Stream, number: u64, inner: &Arc<Inner>) -> io::Result<()> {
    let client = BlockingClient::accepted(client, inner.settings.tls.as_ref(), inner.settings.handshake)?;
    // Whose socket does not know it does without.
    let _ = client.keep_alive(KEEP_ALIVE);
    let handle = client.handle()?;
    begin_session(handle, number, inner, move |its| {
        let client = match its.protocol {
            Protocol::Beanstalkd => session::BeanstalkSession::new(client, its).run(),
            Protocol::Memcached => memcached::MemcachedSession::new(client, its).run(),
        };
        linger(&client);
    })
}

/// What a client still sends that was told its last is read and dropped: closing over unread bytes
/// would reset the connection, and the reset could overtake the last reply.
fn linger(client: &BlockingClient) {
    let (end, mut room) = (Instant::now() + LINGER, [0_u8; 16 << 10]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !wait_for(&mut [PollFd::new(client, PollFlags::IN)], left) {
            return;
        }
        // Encrypted or not.
        match rustix::io::read(client, &mut room[..]) {
            Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// Serves a client by this `session`, on a thread of its own.
fn begin_session(
    handle: ShutdownHandle,
    number: u64,
    inner: &Arc<Inner>,
    session: impl FnOnce(&Arc<Inner>) + Send + 'static,
) -> io::Result<()> {
    inner.clients().insert(number, handle);
    inner.settings.connected.fetch_add(1, Ordering::SeqCst);
    let listed = ListedClient { inner: Arc::clone(inner), number };
    let serving = move || session(&listed.inner);
    thread::Builder::new().name("client".into()).stack_size(STACK).spawn(serving).map(drop)
}

/// A client is there as long as this, also where its thread panics or cannot be had.
struct ListedClient {
    inner: Arc<Inner>,
    number: u64,
}

impl Drop for ListedClient {
    fn drop(&mut self) {
        self.inner.settings.connected.fetch_sub(1, Ordering::SeqCst);
        self.inner.clients().remove(&self.number);
        self.inner.gone.notify_all();
    }
}

#[cfg(test)]
mod tests;
