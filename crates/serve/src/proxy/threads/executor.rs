//! Carries requests to servers over connections of its own, waits, and says the replies to the
//! clients.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use krarup_net::blocking::{BlockingConnection, Wakeup, wait};
use krarup_net::{Clock, WallWatch};
use krarup_service::{ConnectionLoss, Service as _, Upstreams as _};
use krarup_units::Inbox;
use krarup_units::{Nanos, Stamp};

use super::books::SharedBooks;
use super::client::{ClientHandle, Finished};
use super::queue::{Queue, QueueOffer, ReceivedRequest};
use crate::descriptor::HeldDescriptor;
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
    /// By what it shows expiry times are judged.
    wall: WallWatch,
    books: SharedBooks,
    /// What has been entered into the books.
    entered: Events,
    servers: Vec<Server>,
    /// Whose requests are under way, by the core's number for them.
    clients: BTreeMap<u32, Arc<ClientHandle>>,
    /// Where it tells which servers' answers were not taken.
    finished: Arc<Finished>,
    /// Ends its wait for servers where a request comes that it would take.
    wakeup: Arc<Wakeup>,
}

struct Server {
    connection: Option<BlockingConnection>,
    /// Held while it is to be made anew.
    descriptor: HeldDescriptor,
    inbox: Inbox,
    /// When to connect again.
    retry_at: Stamp,
    /// Whether the books have it that the connection stands.
    stands: bool,
}

impl Executor {
    pub(super) fn new(
        mut core: Core,
        config: Arc<Config>,
        clock: Clock,
        books: SharedBooks,
        finished: Arc<Finished>,
    ) -> io::Result<Self> {
        // Each request comes once, and could not be offered again later.
        core.lift_windows();
        let server = || Server {
            connection: None,
            descriptor: HeldDescriptor::default(),
            inbox: Inbox::default(),
            retry_at: Stamp(0),
            stands: false,
        };
        let servers = std::iter::repeat_with(server).take(core.server_count()).collect();
        let (entered, clients) = (Events::default(), BTreeMap::new());
        let wall = WallWatch::new(clock);
        let wakeup = Arc::new(Wakeup::new()?);
        Ok(Self { core, config, clock, wall, books, entered, servers, clients, finished, wakeup })
    }

    /// A reader of this server: what several could answer is asked of it, while it is up.
    pub(super) fn reading_from(mut self, server: usize) -> Self {
        self.core.read_from(server);
        self
    }

    /// A worker: one request after the other, until there will be no more.
    pub(super) fn work(mut self, queue: &Queue) {
        self.connect();
        while let Some((job, seen)) = self.take_next(queue) {
            let taken = self.clock.now();
            self.connect();
            self.begin(job, seen, taken);
            self.hand_on(queue);
            while !self.clients.is_empty() {
                if !self.receive_any() {
                    self.give_up(queue);
                }
                self.hand_on(queue);
            }
        }
        self.take_copies(queue);
    }

    /// A writer: whatever waits is asked at once, and answers are taken as they come.
    pub(super) fn stream(mut self, queue: &Queue) {
        self.connect();
        while let Some(first) = self.take_next(queue) {
            let mut taken = self.clock.now();
            self.connect();
            let mut next = Some(first);
            while let Some((job, seen)) = next {
                self.begin(job, seen, taken);
                next = queue.take_now();
                taken = self.clock.now();
            }
            self.hand_on(queue);
        }
        self.take_copies(queue);
    }

    /// The next request, as soon as there is one; none: there will be no more. Answers are read
    /// meanwhile as they come, also those that no client waits for: one that lay there until the
    /// next request would count as long as that.
    fn take_next(&mut self, queue: &Queue) -> Option<(ReceivedRequest, QueueState)> {
        if self.is_owed() {
            self.receive_within(Nanos::ZERO);
            self.hand_on(queue);
        }
        let mut was_idle = false;
        while self.is_owed() {
            match queue.offer(&self.wakeup, was_idle) {
                QueueOffer::Request(job, seen) => return Some((job, seen)),
                QueueOffer::Never if self.clients.is_empty() => return None,
                QueueOffer::Later | QueueOffer::Never => {}
            }
            was_idle = self.clients.is_empty();
            self.receive_within(self.config.timeout);
            queue.leave(&self.wakeup);
            self.hand_on(queue);
        }
        self.give_up(queue);
        queue.take()
    }

    /// There will be no more requests. No client waits for what servers still owe, but copies
    /// behind writes would be lost with their connection.
    fn take_copies(&mut self, queue: &Queue) {
        while self.core.owes_copy().is_some() && self.receive_any() {
            self.hand_on(queue);
        }
    }

    fn owes(&self, server: usize) -> bool {
        self.core.server_deadline(server).is_some()
    }

    /// Whether any server owes an answer.
    fn is_owed(&self) -> bool {
        (0..self.servers.len()).any(|server| self.owes(server))
    }

    /// Reads the answer that comes first. Whether any is owed.
    fn receive_any(&mut self) -> bool {
        let mut owing = (0..self.servers.len()).filter(|&server| self.owes(server));
        let Some(first) = owing.next() else { return false };
        if owing.next().is_some() {
            self.receive_within(self.config.timeout);
        } else {
            // The wait is the read's own.
            self.receive(first);
        }
        true
    }

    /// Reads what there is of all servers that owe an answer, waiting for the first so long at
    /// most, or until the wakeup is notified. What is overdue is lost then.
    fn receive_within(&mut self, limit: Nanos) {
        let (servers, now) = (0..self.servers.len(), self.clock.now());
        let deadline = servers.clone().filter_map(|server| self.core.server_deadline(server)).min();
        let left = deadline.map_or(limit, |deadline| Nanos(deadline.0.saturating_sub(now.0)));
        let owing = servers.clone().filter(|&server| self.owes(server));
        let connections: Vec<(usize, &BlockingConnection)> =
            owing.filter_map(|server| Some((server, self.servers[server].connection.as_ref()?))).collect();
        let ready = wait(&connections, &self.wakeup, limit.min(left)).unwrap_or_default();
        for server in ready {
            self.receive(server);
        }
        let now = self.clock.now();
        for server in servers {
            if self.core.server_overdue(server, now) {
                self.lose(server, "no answer within the time allowed", ConnectionLoss::TimedOut);
            }
        }
    }

    /// No server owes an answer, and still a request is not done: it never will be.
    fn give_up(&mut self, queue: &Queue) {
        for (id, client) in std::mem::take(&mut self.clients) {
            self.core.gone(id, self.clock.now());
            client.done(true);
            queue.done();
        }
    }

    /// A request begins here that was `taken` before servers were connected to: waiting for these
    /// is no time in the queue.
    fn begin(&mut self, job: ReceivedRequest, seen: QueueState, taken: Stamp) {
        let now = self.clock.now();
        self.core.tidy(now);
        if let Some(epoch) = self.wall.look(now) {
            self.core.set_unix(epoch.0 / 1_000_000_000);
        }
        let id = self.core.connected(0, now);
        self.core.taken_elsewhere(seen);
        self.core.read(id, &job.bytes, job.received, taken);
        let mut discarded = job.discarded;
        while discarded > 0 {
            // Their number is all that counts.
            let gone = discarded.min(1 << 16);
            self.core.read(id, &[0; 1 << 16][..gone as usize], job.received, taken);
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
                    Err(distrust) => {
                        self.finished.refuse(server, distrust.to_string());
                        self.lose(server, distrust.why, ConnectionLoss::Untrusted);
                    }
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
            let link = &mut self.servers[server];
            if link.connection.is_some() || link.retry_at > self.clock.now() {
                continue;
            }
            link.descriptor.release();
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
                        self.servers[server].stands = true;
                        self.books.lock().enter_server(server, Ok(self.core.server_version(server)), false);
                    }
                }
            }
        }
    }

    fn lose(&mut self, server: usize, why: &str, loss: ConnectionLoss) {
        let now = self.clock.now();
        let link = &mut self.servers[server];
        link.connection = None;
        link.descriptor.hold();
        link.inbox.clear();
        let stood = std::mem::take(&mut link.stands);
        self.core.server_lost(server, why, loss, now);
        link.retry_at = now + self.core.reconnect_delay(server).max(Nanos::from_millis(1));
        self.books.lock().enter_server(server, Err(why), stood);
    }
}

/// The system's words for an error, without its number.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "no connection within the time allowed".into(),
        _ => crate::driver::plain(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Mutex;
    use std::thread;

    use krarup_net::Stream;
    use krarup_net::blocking::ClientWriter;
    use krarup_net::mio::{self, Poll, Token, Waker};
    use krarup_proxy::core::RowSink;
    use krarup_record::recorder::{Recorder, RecorderSettings};
    use krarup_record::{ServerVisit, Visit};

    use super::*;

    /// What a thread does until there will be no more requests.
    type Begin = fn(Executor, &Queue);

    /// Rows of requests, the last one last.
    #[derive(Clone, Default)]
    struct Rows(Arc<Mutex<Vec<Visit>>>);

    impl RowSink for Rows {
        fn row(&mut self, visit: &Visit, _: &[ServerVisit], _: usize) {
            self.0.lock().unwrap().push(*visit);
        }
    }

    /// An executor before one server, and the rows of what it carries out.
    fn executor(server: &TcpListener, clock: Clock, finished: &Arc<Finished>) -> (Executor, Rows) {
        let text = format!("servers = [\"{}\"]\n", server.local_addr().unwrap());
        let config = Config::parse(&text, "test").unwrap();
        let core = || {
            let recorder = Recorder::new(RecorderSettings::default()).unwrap();
            Core::new(config.settings(), config.topology().unwrap(), recorder, Stamp(0))
        };
        let (mut core, books, rows) = (core(), SharedBooks::new(core()), Rows::default());
        core.keep_rows(Box::new(rows.clone()), 0, 1);
        let made = Executor::new(core, Arc::new(config), clock, books, Arc::clone(finished));
        (made.unwrap(), rows)
    }

    /// A server that loses its first connection, and answers one request on the next: when it was
    /// greeted there.
    fn play(server: &TcpListener, clock: Clock) -> Stamp {
        drop(server.accept().unwrap());
        let mut line = BufReader::new(server.accept().unwrap().0);
        let mut heard = String::new();
        line.read_line(&mut heard).unwrap();
        let greeted = clock.now();
        line.get_mut().write_all(b"VERSION 1.6.18\r\n").unwrap();
        line.read_line(&mut heard).unwrap();
        assert_eq!(heard, "version\r\nget a\r\n");
        line.get_mut().write_all(b"END\r\n").unwrap();
        greeted
    }

    #[test]
    fn a_request_does_not_wait_in_the_queue_while_its_thread_connects() {
        for begin in [Executor::work as Begin, Executor::stream as Begin] {
            let server = TcpListener::bind("127.0.0.1:0").unwrap();
            let clock = Clock::start();
            let poll = Poll::new().unwrap();
            let finished = Arc::new(Finished::new(Waker::new(poll.registry(), Token(0)).unwrap()));
            let (executor, rows) = executor(&server, clock, &finished);
            let clients = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut heard = BufReader::new(TcpStream::connect(clients.local_addr().unwrap()).unwrap());
            let stream = Stream::Tcp(mio::net::TcpStream::from_std(clients.accept().unwrap().0));
            let client = Arc::new(ClientHandle::new(0, ClientWriter::of(&stream).unwrap(), finished));
            let queue = Queue::new(1);
            let greeted = thread::scope(|scope| {
                let server = scope.spawn(|| play(&server, clock));
                scope.spawn(|| begin(executor, &queue));
                let mut reply = String::new();
                // Until the time to connect again has come there are errors.
                while reply != "END\r\n" {
                    reply.clear();
                    let (bytes, now) = (b"get a\r\n".to_vec(), clock.now());
                    let client = Arc::clone(&client);
                    queue.put(ReceivedRequest { client, bytes, discarded: 0, received: now, queued: now });
                    assert!(heard.read_line(&mut reply).unwrap() > 0);
                }
                queue.close();
                server.join().unwrap()
            });
            let visit = *rows.0.lock().unwrap().last().unwrap();
            assert!(visit.queued <= visit.taken && visit.taken < greeted && greeted <= visit.replied);
        }
    }

    /// It was up for as long as it took to read on.
    #[test]
    fn a_server_that_is_lost_with_its_greeting_has_not_stood_in_the_books() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let poll = Poll::new().unwrap();
        let finished = Arc::new(Finished::new(Waker::new(poll.registry(), Token(0)).unwrap()));
        let (mut executor, _) = executor(&server, Clock::start(), &finished);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut line = BufReader::new(server.accept().unwrap().0);
                line.read_line(&mut String::new()).unwrap();
                line.get_mut().write_all(b"VERSION 1.6.18\r\nEND\r\n").unwrap();
            });
            executor.connect();
        });
        assert!(executor.servers[0].connection.is_none() && !executor.servers[0].stands);
    }
}
