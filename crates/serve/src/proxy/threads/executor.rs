//! Carries requests to servers over connections of its own, waits, and says the replies to the
//! clients.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use krarup_net::Clock;
use krarup_net::blocking::{BlockingConnection, wait};
use krarup_service::{ConnectionLoss, Service as _, Upstreams as _};
use krarup_units::Inbox;
use krarup_units::{Nanos, Stamp};

use super::books::SharedBooks;
use super::client::ClientHandle;
use super::queue::{Queue, ReceivedRequest};
use krarup_proxy::config::Config;
use krarup_proxy::core::QueueState;
use krarup_proxy::core::{Core, Events};

/// What one read from a server may bring at least.
const SERVER_READ: usize = 64 << 10;

/// One thread's core, connections and clients.
pub(super) struct Executor {
    core: Core,
    config: Arc<Config>,
    clock: Clock,
    books: SharedBooks,
    /// What has been entered into the books.
    entered: Events,
    servers: Vec<Server>,
    /// Whose requests are under way, by the core's number for them.
    clients: BTreeMap<u32, Arc<ClientHandle>>,
}

struct Server {
    connection: Option<BlockingConnection>,
    inbox: Inbox,
    /// When to connect again.
    retry_at: Stamp,
}

impl Executor {
    pub(super) fn new(core: Core, config: Arc<Config>, clock: Clock, books: SharedBooks) -> Self {
        let server = || Server { connection: None, inbox: Inbox::default(), retry_at: Stamp(0) };
        let servers = std::iter::repeat_with(server).take(core.server_count()).collect();
        Self { core, config, clock, books, entered: Events::default(), servers, clients: BTreeMap::new() }
    }

    /// A worker: one request after the other, until there will be no more.
    pub(super) fn work(mut self, queue: &Queue) {
        self.connect();
        while let Some((job, seen)) = queue.take() {
            self.connect();
            self.begin(job, seen);
            self.hand_on(queue);
            while !self.clients.is_empty() {
                // What is owed the longest is waited for; the others' answers lie where they are.
                let Some(server) = (0..self.servers.len()).find(|&server| self.owes(server)) else {
                    self.give_up(queue);
                    break;
                };
                self.receive(server);
                self.hand_on(queue);
            }
        }
    }

    /// A writer: whatever waits is asked at once, and answers are taken as they come.
    pub(super) fn stream(mut self, queue: &Queue) {
        let wakeup = queue.wakeup().expect("a writer's queue has a wakeup");
        self.connect();
        loop {
            let first = if self.clients.is_empty() {
                let Some(first) = queue.take() else { return };
                Some(first)
            } else {
                queue.take_now()
            };
            self.connect();
            let mut next = first;
            while let Some((job, seen)) = next {
                self.begin(job, seen);
                next = queue.take_now();
            }
            self.hand_on(queue);
            if self.clients.is_empty() {
                continue;
            }
            let owing = self.servers.iter().enumerate().filter(|&(server, _)| self.owes(server));
            let connections: Vec<(usize, &BlockingConnection)> =
                owing.filter_map(|(number, server)| Some((number, server.connection.as_ref()?))).collect();
            if connections.is_empty() {
                self.give_up(queue);
                continue;
            }
            let ready = wait(&connections, wakeup, self.config.timeout).unwrap_or_default();
            for server in ready {
                self.receive(server);
            }
            let now = self.clock.now();
            for server in 0..self.servers.len() {
                if self.core.server_overdue(server, now) {
                    self.lose(server, "no answer within the time allowed", ConnectionLoss::TimedOut);
                }
            }
            self.hand_on(queue);
        }
    }

    fn owes(&self, server: usize) -> bool {
        self.core.server_deadline(server).is_some()
    }

    /// No server owes an answer, and still a request is not done: it never will be.
    fn give_up(&mut self, queue: &Queue) {
        for (id, client) in std::mem::take(&mut self.clients) {
            self.core.gone(id, self.clock.now());
            client.done(true);
            queue.done();
        }
    }

    /// A request begins here.
    fn begin(&mut self, job: ReceivedRequest, seen: QueueState) {
        let now = self.clock.now();
        self.core.tidy(now);
        let id = self.core.connected(0, now);
        self.core.taken_elsewhere(seen);
        self.core.read(id, &job.bytes, job.received, now);
        let mut discarded = job.discarded;
        while discarded > 0 {
            // Their number is all that counts.
            let gone = discarded.min(1 << 16);
            self.core.read(id, &[0; 1 << 16][..gone as usize], job.received, now);
            discarded -= gone;
        }
        self.clients.insert(id, job.client);
    }

    /// Sends what is to be asked, says what is to be replied, until there is nothing of either.
    fn hand_on(&mut self, queue: &Queue) {
        let mut dirty = Vec::new();
        loop {
            self.core.take_dirty_servers(&mut dirty);
            let sent = !dirty.is_empty();
            for &server in &dirty {
                self.send(server);
            }
            if !self.reply(queue) && !sent {
                break;
            }
        }
        let events = *self.core.events();
        if events != self.entered || self.core.pools_have_counted() {
            let mut books = self.books.lock();
            books.enter_events(&events, &self.entered);
            books.take_pool_counts(&mut self.core);
            self.entered = events;
        }
    }

    fn send(&mut self, server: usize) {
        // What is lent lies in pieces.
        while let Some(connection) = &self.servers[server].connection
            && !self.core.server_output(server).is_empty()
        {
            let output = self.core.server_output(server).unsent();
            let (before, length) = (self.clock.now(), output.len());
            match connection.send(output) {
                Ok(()) => self.core.server_written(server, length, before),
                Err(error) => self.lose(server, &plain(&error), ConnectionLoss::Broken),
            }
        }
    }

    /// Says what can be said; whether anything was done.
    fn reply(&mut self, queue: &Queue) -> bool {
        let mut done = Vec::new();
        for (&id, client) in &self.clients {
            let mut heard = true;
            while !self.core.output(id).is_empty() {
                let output = self.core.output(id).unsent();
                let length = output.len();
                // Who does not hear one piece gets none of the others.
                heard = heard && client.writer.write(output, self.config.timeout).is_ok();
                self.core.written(id, length, self.clock.now());
            }
            if self.core.is_idle(id) {
                done.push((id, self.core.finished(id) || !heard));
            }
        }
        for &(id, close) in &done {
            self.core.gone(id, self.clock.now());
            if let Some(client) = self.clients.remove(&id) {
                queue.done();
                client.done(close);
            }
        }
        !done.is_empty()
    }

    fn receive(&mut self, server: usize) {
        let link = &mut self.servers[server];
        let Some(connection) = &link.connection else { return };
        match connection.receive(link.inbox.room(SERVER_READ)) {
            Ok(0) => self.lose(server, "the server closed the connection", ConnectionLoss::Broken),
            Ok(count) => {
                link.inbox.filled(count);
                match self.core.server_read(server, link.inbox.unread(), self.clock.now()) {
                    Ok(used) => self.servers[server].inbox.consume(used),
                    Err(distrust) => self.lose(server, distrust.why, ConnectionLoss::Untrusted),
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                self.core.server_overdue(server, self.clock.now());
                self.lose(server, "no answer within the time allowed", ConnectionLoss::TimedOut);
            }
            Err(error) => self.lose(server, &plain(&error), ConnectionLoss::Broken),
        }
    }

    /// Connects to every server to which there is no connection and whose time has come again.
    fn connect(&mut self) {
        for server in 0..self.servers.len() {
            let link = &self.servers[server];
            if link.connection.is_some() || link.retry_at > self.clock.now() {
                continue;
            }
            let address = &self.config.addresses()[server];
            let (limit, answer) = (self.config.connect_timeout, self.config.timeout);
            let made = match address.file() {
                Some(path) => {
                    BlockingConnection::connect_file(path, limit, answer).map_err(|error| plain(&error))
                }
                None => krarup_net::resolve(address).map_err(|why| why.to_string()).and_then(|found| {
                    BlockingConnection::connect(&found, limit, answer).map_err(|error| plain(&error))
                }),
            };
            match made {
                Err(why) => self.lose(server, &why, ConnectionLoss::Broken),
                Ok(connection) => {
                    self.servers[server].connection = Some(connection);
                    self.core.server_connected(server);
                    self.send(server);
                    while self.servers[server].connection.is_some() && !self.core.server_is_up(server) {
                        self.receive(server);
                    }
                    if self.core.server_is_up(server) {
                        self.books.lock().enter_server(server, Ok(self.core.server_version(server)));
                    }
                }
            }
        }
    }

    fn lose(&mut self, server: usize, why: &str, loss: ConnectionLoss) {
        let now = self.clock.now();
        let link = &mut self.servers[server];
        link.connection = None;
        link.inbox.clear();
        self.core.server_lost(server, why, loss, now);
        link.retry_at = now + self.core.reconnect_delay(server).max(Nanos::from_millis(1));
        self.books.lock().enter_server(server, Err(why));
    }
}

/// The system's words for an error, without its number.
fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "no connection within the time allowed".into(),
        _ => crate::driver::plain(error),
    }
}
