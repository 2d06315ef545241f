//! Clients of queues that are divided among several brokers: each request is sent to the owner of the shard that it is for.
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
//! | `session` | beanstalkd's protocol: which shard a request is for |
//! | `together` | requests that are for several: waiting in tubes of different shards, lists, sums |
//! | `memcached` | memcached's protocol |
//! | `behind` | a connection to an owner |
//!
//! A session keeps what its client uses, watches and is called, and tells it to an owner before the first request that needs it. **When a shard
//! moves**, its owner says so in place of an answer, and the request is sent to the next one. When an owner is lost it is so as well, unless nobody knows whether
//! the request was carried out, or the client holds messages of that shard: then his connection ends, as it would with the broker itself.

mod behind;
mod memcached;
mod session;
mod together;

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use krarup_net::{Address, listen};

use crate::door;
use crate::engine::Protocol;
use crate::shards::Owners;

/// Memory for the stack of a client's thread.
const STACK: usize = 512 << 10;
/// How long a request waits for its shard to have an owner.
const PATIENCE: Duration = Duration::from_secs(30);

/// How clients are served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest body, in bytes.
    pub largest: u32,
    /// What a client must say with `login` before anything else.
    pub secret: Option<String>,
    /// How many clients may be connected at once.
    pub connections: usize,
}

/// Serves clients until it goes.
#[derive(Debug)]
pub struct Front {
    /// Where clients connect.
    pub address: SocketAddr,
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    owners: Arc<Owners>,
    protocol: Protocol,
    over: AtomicBool,
    clients: Mutex<HashMap<u64, TcpStream>>,
}

impl Inner {
    /// What another thread has left is as good as what it was.
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Front {
    /// Begins to accept clients.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn begin(
        address: &Address,
        protocol: Protocol,
        settings: Settings,
        owners: Arc<Owners>,
    ) -> Result<Self, String> {
        let listener = TcpListener::from(OwnedFd::from(listen::listen(address)?));
        let told = |error: io::Error| format!("{address} cannot be listened on: {error}");
        listener.set_nonblocking(false).map_err(told)?;
        let address = listener.local_addr().map_err(told)?;
        let clients = Mutex::new(HashMap::new());
        let inner = Arc::new(Inner { settings, owners, protocol, over: AtomicBool::new(false), clients });
        let its = Arc::clone(&inner);
        let thread = thread::Builder::new()
            .name("front".into())
            .spawn(move || {
                door::each(&listener, &its.over, |client, number| {
                    if its.clients().len() < its.settings.connections {
                        // Whoever cannot be served finds his connection closed.
                        let _ = serve(client, number, &its);
                    }
                });
            })
            .map_err(|error| format!("no thread can be had: {error}"))?;
        Ok(Self { address, inner, thread: Some(thread) })
    }

    /// No more clients are accepted, and nothing more is heard of those that are there; waits so long for them to have their answers. How many had not.
    pub fn end(mut self, patience: Duration) -> usize {
        let end = Instant::now() + patience;
        self.inner.over.store(true, Ordering::SeqCst);
        // It waits for a client: this is the last one.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for client in self.inner.clients().values() {
            let _ = client.shutdown(Shutdown::Read);
        }
        loop {
            let left = self.inner.clients().len();
            if left == 0 || Instant::now() >= end {
                return left;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn serve(client: TcpStream, number: u64, inner: &Arc<Inner>) -> io::Result<()> {
    client.set_nodelay(true)?;
    inner.clients().insert(number, client.try_clone()?);
    let its = Arc::clone(inner);
    let spawned = thread::Builder::new().name("client".into()).stack_size(STACK).spawn(move || {
        let owners = Arc::clone(&its.owners);
        match its.protocol {
            Protocol::Beanstalkd => session::Session::new(client, &its.settings, &owners, &its.over).run(),
            Protocol::Memcached => memcached::Session::new(client, &its.settings, &owners, &its.over).run(),
        }
        its.clients().remove(&number);
    });
    if let Err(error) = spawned {
        inner.clients().remove(&number);
        return Err(error);
    }
    Ok(())
}
