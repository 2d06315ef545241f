//! One thread, one loop, all clients.
//!
//! ```text
//! poll ─▶ ready clients in turn:  read ─▶ session ─▶ write
//!              ▲                                       │ more to do: back in line, behind the others
//!              └───────────────────────────────────────┘
//! ```
//!
//! A client that does not read its answers is not read from: what waits for it stays below `client::MOST_UNSENT` and one value.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use krarup_net::mio::net::{TcpListener, TcpStream};
use krarup_net::mio::{Events, Interest, Poll, Token, Waker};
use krarup_net::signal::Signals;
use krarup_net::{Clock, listen};
use krarup_units::Address;
use krarup_units::{Nanos, Stamp};

use super::client::{Client, Turn};
use krarup_cache::statistics::{About, Service};
use krarup_cache::{Bounds, Counts, Store, Traffic};

/// memcached's answer to a client beyond the limit.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";
/// How soon to try again after the system would give no more sockets.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(50);

const LISTENER: Token = Token(0);
const STOP: Token = Token(1);
const RELOAD: Token = Token(2);
const WAKE: Token = Token(3);
/// Clients have the tokens from here on.
const FIRST_CLIENT: usize = 4;

/// How to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen; port 0 asks the system for a free one.
    pub listen: Address,
    /// How much to hold.
    pub bounds: Bounds,
    /// How many clients may be connected at once; who comes then is told so and turned away.
    pub connections: usize,
    /// How long a stop waits for clients to take the answers they are owed.
    pub patience: Nanos,
    /// What to answer to `version`.
    pub version: String,
}

/// A server that listens, and does not serve yet.
#[derive(Debug)]
pub struct Server {
    poll: Poll,
    listener: Option<TcpListener>,
    address: Address,
    signals: Option<Signals>,
    waker: Arc<Waker>,
    clock: Clock,
    service: Service,
    patience: Nanos,
    clients: Vec<Option<Box<Client>>>,
    free: Vec<usize>,
    /// Clients that may have something to do, each at most once, in the order of their turns.
    ready: VecDeque<usize>,
    accept: Accept,
}

/// Whether somebody may be waiting to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accept {
    /// The listener will tell.
    Idle,
    /// As soon as a client has gone, or at this time.
    Again(Stamp),
}

/// Stops a server that runs on another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    waker: Arc<Waker>,
}

impl Stopper {
    /// The server finishes what is in flight and comes back from [`Server::run`]; a second call cuts that short.
    pub fn stop(&self) {
        // The only failure is that of a server that is gone already.
        let _ = self.waker.wake();
    }
}

/// What a server leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was done to the items.
    pub counts: Counts,
    /// What went over the connections. Those still counted as connected were cut off while they were owed an answer.
    pub traffic: Traffic,
}

impl Server {
    /// Listens, so that clients may connect; [`Self::run`] then serves them.
    ///
    /// # Errors
    /// In plain words, with the address and what to do about it.
    pub fn bind(settings: Settings) -> Result<Self, String> {
        let mut listener = listen::listen(&settings.listen)?;
        let system = |error: io::Error| format!("the system refuses what a server needs: {error}");
        let address = Address::from(listener.local_addr().map_err(system)?);
        let poll = Poll::new().map_err(system)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(system)?;
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
        let store = Store::new(settings.bounds);
        Ok(Self {
            poll,
            listener: Some(listener),
            address,
            signals: None,
            waker,
            clock,
            service: Service { store, traffic: Traffic::default(), about, verbosity: 0 },
            patience: settings.patience,
            clients: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            accept: Accept::Idle,
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

    /// From now on SIGINT and SIGTERM stop it.
    ///
    /// # Errors
    /// From the system, when signals are refused.
    pub fn stop_on_signals(&mut self) -> io::Result<()> {
        self.signals = Some(Signals::register(self.poll.registry(), STOP, RELOAD)?);
        Ok(())
    }

    /// Serves until stopped: then lets nobody in any more, answers what has arrived, and closes each connection when its
    /// answers have left.
    ///
    /// # Errors
    /// From the system, when readiness itself fails.
    pub fn run(mut self) -> io::Result<Outcome> {
        let mut events = Events::with_capacity(1_024);
        // Once stopping: until when.
        let mut deadline = None;
        while deadline.is_none() || self.service.traffic.curr_connections > 0 {
            let timeout = self.timeout(deadline);
            match self.poll.poll(&mut events, timeout.map(Nanos::as_duration)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            let mut stops = 0;
            for event in &events {
                match event.token() {
                    LISTENER => self.accept_all(),
                    STOP => stops += self.signals.as_mut().map_or(0, Signals::stops),
                    RELOAD => drop(self.signals.as_mut().map(Signals::reloads)),
                    WAKE => stops += 1,
                    Token(token) => {
                        let at = token - FIRST_CLIENT;
                        // One that has gone in this very batch may still be told of.
                        if let Some(client) = &mut self.clients[at] {
                            // A broken connection says so to whoever tries to write.
                            let writable = event.is_writable() || event.is_write_closed() || event.is_error();
                            client.notice(event.is_readable(), writable, event.is_read_closed());
                            self.enqueue(at);
                        }
                    }
                }
            }
            let now = self.clock.now();
            for _ in 0..stops {
                if deadline.is_none() {
                    deadline = Some(Stamp(now.0.saturating_add(self.patience.0)));
                    self.begin_to_stop();
                } else {
                    deadline = Some(now);
                }
            }
            for _ in 0..self.ready.len() {
                let at = self.ready.pop_front().expect("as many as were counted");
                self.turn(at);
            }
            if matches!(self.accept, Accept::Again(time) if time <= now) {
                self.accept_all();
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                break;
            }
        }
        Ok(Outcome { counts: self.service.store.counts(), traffic: self.service.traffic })
    }

    /// How long the next poll may wait; `None` until something happens.
    fn timeout(&self, deadline: Option<Stamp>) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(Nanos::ZERO);
        }
        let again = match self.accept {
            Accept::Again(time) => Some(time),
            Accept::Idle => None,
        };
        let next = deadline.into_iter().chain(again).min()?;
        let now = self.clock.now();
        Some(if next > now { next - now } else { Nanos::ZERO })
    }

    fn enqueue(&mut self, at: usize) {
        if let Some(client) = &mut self.clients[at]
            && !client.in_line
        {
            client.in_line = true;
            self.ready.push_back(at);
        }
    }

    /// One client reads, is answered and is written to, each once at most.
    fn turn(&mut self, at: usize) {
        // Each turn has its own time: an item must not outlive its expiry by the length of a batch.
        let now = self.clock.wall_epoch() + Nanos(self.clock.now().0);
        let Some(client) = &mut self.clients[at] else { return };
        client.in_line = false;
        match client.turn(&mut self.service, now) {
            Turn::Wait => {}
            Turn::Again => self.enqueue(at),
            Turn::Gone => {
                self.clients[at] = None;
                self.free.push(at);
                self.service.traffic.curr_connections -= 1;
                if self.accept != Accept::Idle {
                    self.accept_all();
                }
            }
        }
    }

    fn accept_all(&mut self) {
        self.accept = Accept::Idle;
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if listen::is_of_one(&error) => {}
                Err(_) => {
                    // No more sockets or memory: those who wait are let in when some are given back.
                    self.service.traffic.listen_disabled_num += 1;
                    self.accept = Accept::Again(self.clock.now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, mut stream: TcpStream) {
        let traffic = &mut self.service.traffic;
        if traffic.curr_connections >= self.service.about.connections {
            traffic.rejected_connections += 1;
            // An empty socket takes one line at once, or its client is gone.
            let _ = stream.write(TOO_MANY);
            return;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        match Client::accept(stream, self.poll.registry(), Token(at + FIRST_CLIENT)) {
            Ok(client) => {
                traffic.total_connections += 1;
                traffic.curr_connections += 1;
                self.clients[at] = Some(Box::new(client));
            }
            // Gone before it could be greeted.
            Err(_) => self.free.push(at),
        }
    }

    fn begin_to_stop(&mut self) {
        // Who has connected but was not let in yet may have asked already.
        self.accept_all();
        self.listener = None;
        self.accept = Accept::Idle;
        for at in 0..self.clients.len() {
            if let Some(client) = &mut self.clients[at] {
                client.finish();
                self.enqueue(at);
            }
        }
    }
}
