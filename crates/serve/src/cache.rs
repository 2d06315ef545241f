//! The cache with its sockets: one thread, one loop, all clients.

use std::fmt;
use std::io;
use std::sync::Arc;

use krarup_cache::{About, Bounds, Cache, ItemCounts, Traffic};
use krarup_net::mio::{Events, Poll, Token, Waker};
use krarup_net::signal::Signals;
use krarup_net::tls::Acceptor;
use krarup_net::{Clock, listen};
use krarup_units::{Address, Mistake, Nanos, Stamp};

use crate::driver::{self, ClientLimits, Driver};
use crate::memory_notice::MemoryNotice;

const STOP: Token = Token(1);
const RELOAD: Token = Token(2);
const WAKE: Token = Token(3);
/// A client that vanished without a word must not keep its place for ever.
const KEEP_ALIVE: Nanos = Nanos::from_secs(300);

/// How to serve.
#[derive(Debug)]
pub struct CacheSettings {
    /// Where to listen; port 0 asks the system for a free one.
    pub listen: Address,
    /// Makes the sessions of clients, which then speak TLS; none: in plain text.
    pub tls: Option<Acceptor>,
    /// How much to hold.
    pub bounds: Bounds,
    /// How many clients may be connected at once; who comes then is told so and turned away.
    pub connections: usize,
    /// What clients may take.
    pub clients: ClientLimits,
    /// How long a stop waits for clients to take the answers they are owed.
    pub shutdown_limit: Nanos,
    /// What to answer to `version`.
    pub version: String,
}

/// A server that listens, and does not serve yet.
pub struct CacheServer {
    driver: Driver,
    cache: Cache,
    clock: Clock,
    address: Address,
    signals: Option<Signals>,
    /// What SIGHUP is for.
    reload: Box<dyn FnMut() + Send>,
    /// Told why clients cannot be accepted.
    refusal: Box<dyn FnMut(&str) + Send>,
    /// Told that clients wait for the memory of buffers, or were disconnected for it.
    memory_notice: Box<dyn FnMut(MemoryNotice) + Send>,
    /// What clients may take of it.
    memory: usize,
    waker: Arc<Waker>,
    shutdown_limit: Nanos,
}

impl fmt::Debug for CacheServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Stops a server that runs on another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    waker: Arc<Waker>,
}

impl Stopper {
    /// The server finishes what is in flight and comes back from [`CacheServer::run`]; a second
    /// call cuts that short.
    pub fn stop(&self) {
        // The only failure is that of a server that is gone already.
        let _ = self.waker.wake();
    }
}

/// What a server leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheEnd {
    /// What was done to the items.
    pub counts: ItemCounts,
    /// What went over the connections. Those still counted as connected were cut off while they
    /// were owed an answer.
    pub traffic: Traffic,
}

impl CacheServer {
    /// Listens, so that clients may connect; [`Self::run`] then serves them.
    ///
    /// # Errors
    /// In plain words, with the address and what to do about it.
    pub fn bind(settings: CacheSettings) -> Result<Self, Mistake> {
        let elsewhere = settings.listen.listening_hint("127.0.0.1:11211");
        let listener = listen::listen_with(&settings.listen, settings.clients.listening)
            .map_err(|why| if why.hint.is_empty() { Mistake { hint: elsewhere, ..why } } else { why })?;
        let system = |error: io::Error| format!("the system refuses what a server needs: {error}");
        let address = listener.address().map_err(system)?;
        let poll = Poll::new().map_err(system)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE).map_err(system)?);
        let clock = Clock::start();
        let about = About {
            pid: std::process::id(),
            version: settings.version,
            started: clock.wall_epoch(),
            host: address.host.clone(),
            port: address.port,
            connections: settings.connections as u64,
        };
        let clients = driver::DriverSettings {
            connections: settings.connections,
            tls: settings.tls,
            keep_alive: KEEP_ALIVE,
            ..settings.clients.into()
        };
        let mut driver = Driver::new(clients, poll, clock).map_err(system)?;
        driver.listen(address.clone(), 0, listener);
        let cache = Cache::new(settings.bounds, about);
        Ok(Self {
            driver,
            cache,
            clock,
            address,
            signals: None,
            reload: Box::new(|| ()),
            refusal: Box::new(|_| ()),
            memory_notice: Box::new(|_| ()),
            memory: settings.clients.memory,
            waker,
            shutdown_limit: settings.shutdown_limit,
        })
    }

    /// Where it listens, with the port the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A handle that stops it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper { waker: Arc::clone(&self.waker) }
    }

    /// From now on SIGINT and SIGTERM stop it, and SIGHUP calls `reload`.
    ///
    /// # Errors
    /// From the system, when signals are refused.
    pub fn obey_signals(&mut self, reload: impl FnMut() + Send + 'static) -> io::Result<()> {
        self.reload = Box::new(reload);
        self.signals = Some(Signals::register(self.driver.registry(), STOP, RELOAD)?);
        Ok(())
    }

    /// From now on `tell` hears, not at every attempt, why clients cannot be accepted.
    pub fn tell_refusals(&mut self, tell: impl FnMut(&str) + Send + 'static) {
        self.refusal = Box::new(tell);
    }

    /// From now on `tell` hears that clients wait for the memory of buffers, or were disconnected
    /// for it.
    pub fn tell_memory(&mut self, tell: impl FnMut(MemoryNotice) + Send + 'static) {
        self.memory_notice = Box::new(tell);
    }

    /// Serves until stopped: then accepts no client any more, answers what has arrived, and closes
    /// each connection when its answers have left.
    ///
    /// # Errors
    /// From the system, when readiness itself fails.
    pub fn run(mut self) -> io::Result<CacheEnd> {
        let mut events = Events::with_capacity(1_024);
        // Once stopping: until when.
        let mut deadline: Option<Stamp> = None;
        self.driver.open();
        while deadline.is_none() || !self.driver.is_over(&self.cache) {
            self.driver.wait_for(&self.cache, &mut events, deadline)?;
            let mut stops = 0;
            for event in &events {
                match event.token() {
                    STOP => stops += self.signals.as_mut().map_or(0, Signals::stops),
                    RELOAD if self.signals.as_mut().is_some_and(|signals| signals.reloads() > 0) => {
                        (self.reload)();
                    }
                    WAKE => stops += 1,
                    _ => {}
                }
            }
            self.driver.serve(&mut self.cache, &events);
            let now = self.clock.now();
            for _ in 0..stops {
                if deadline.is_none() {
                    deadline = Some(Stamp(now.0.saturating_add(self.shutdown_limit.0)));
                    self.driver.stop(&mut self.cache);
                } else {
                    deadline = Some(now);
                }
            }
            self.driver.flush_clients(&mut self.cache);
            for notice in self.driver.notices.drain(..) {
                if let Some(memory) = MemoryNotice::of(&notice, self.memory) {
                    (self.memory_notice)(memory);
                }
                // Where it listens is known.
                if let driver::DriverNotice::NotAccepting(why) = notice {
                    (self.refusal)(&why);
                }
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                break;
            }
        }
        Ok(CacheEnd { counts: self.cache.counts(), traffic: self.cache.traffic() })
    }
}
