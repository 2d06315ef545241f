//! The thread that reads the clients: it accepts, cuts requests, and puts them where a thread will
//! take them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use krarup_net::blocking::ClientWriter;
use krarup_net::mio::{Events, Poll, Token};
use krarup_net::signal::Signals;
use krarup_net::{Clock, Conn, Listener, Moved, listen};
use krarup_service::Service as _;
use krarup_units::{Inbox, Nanos, Stamp};

use super::books::SharedBooks;
use super::client::{ClientHandle, Finished};
use super::queue::{Queue, ReceivedRequest};
use crate::driver::BACK_OFF;
use crate::proxy::events::ProxyNotice;
use crate::refusal::RefusalNotices;
use krarup_proxy::config::Config;
use krarup_proxy::core::{Core, QueueChoice};

pub(super) const LISTENER: Token = Token(0);
pub(super) const STOP: Token = Token(1);
pub(super) const RELOAD: Token = Token(2);
pub(super) const FINISHED: Token = Token(3);
/// Tokens of clients begin here.
const CLIENTS: usize = 16;
/// What one read from a client may bring at least.
const CLIENT_READ: usize = 16 << 10;

/// Where requests go.
pub(super) struct RequestQueues {
    /// The one of all workers; or, one after the other, those of the servers' readers.
    pub(super) reads: Vec<Arc<Queue>>,
    /// Those of the servers' writers, where there are any.
    pub(super) writes: Vec<Arc<Queue>>,
}

impl RequestQueues {
    fn of(&self, choice: QueueChoice) -> &Queue {
        match choice {
            QueueChoice::Write(server) if !self.writes.is_empty() => &self.writes[server],
            QueueChoice::Read(server) => &self.reads[server % self.reads.len()],
            _ => &self.reads[0],
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.reads.iter().chain(&self.writes)
    }

    /// Requests that are not done.
    pub(super) fn unfinished(&self) -> usize {
        self.all().map(|queue| queue.at_work()).map(|(waiting, busy)| waiting + busy as usize).sum()
    }

    /// Enters into the books how much is at work, and the longest that a queue has been.
    pub(super) fn enter_into(&self, books: &mut Core) {
        let (mut waiting, mut busy, mut longest) = (0, 0, 0);
        for queue in self.all() {
            let at_work = queue.at_work();
            waiting += at_work.0;
            busy += at_work.1;
            longest = longest.max(queue.take_longest());
        }
        books.enter_queues(busy, waiting, longest);
    }
}

pub(super) struct ThreadSockets<'a, N> {
    pub(super) config: &'a Config,
    pub(super) clock: Clock,
    pub(super) notice: N,
    pub(super) poll: Poll,
    pub(super) signals: Signals,
    pub(super) listener: Option<Listener>,
    pub(super) finished: Arc<Finished>,
    pub(super) queues: RequestQueues,
    pub(super) books: SharedBooks,
    /// When what is in flight must be done, once a stop was asked for.
    pub(super) stop_by: Option<Stamp>,
    pub(super) clients: Vec<Option<ClientSocket>>,
    pub(super) accepting: RefusedSockets,
    /// When the operator was told of an answer that was not taken, by the server's number.
    pub(super) answer_notices: BTreeMap<usize, RefusalNotices>,
    /// Counts reads: of servers that have the same, the readers of each get one in turn.
    pub(super) turn: usize,
}

/// Whether clients are accepted.
#[derive(Default)]
pub(super) struct RefusedSockets {
    /// The system gave no socket: it is asked again, for no readiness tells of those that wait.
    retry: bool,
    notices: RefusalNotices,
}

/// What a client has sent and no thread has taken, and when which of it was read.
#[derive(Default)]
struct StampedInbox {
    bytes: Inbox,
    /// How much each read has brought of it, the oldest first.
    reads: VecDeque<(usize, Stamp)>,
}

impl StampedInbox {
    /// The first `count` bytes of the room were filled by a read that ended then.
    fn filled(&mut self, count: usize, now: Stamp) {
        self.bytes.filled(count);
        self.reads.push_back((count, now));
    }

    /// Takes the first `count` bytes. Returns after which read the last of them was there: later
    /// ones, while they waited, have brought what comes behind.
    fn consume(&mut self, mut count: usize) -> Stamp {
        self.bytes.consume(count);
        let mut received = Stamp(0);
        while count > 0 {
            let (left, now) = self.reads.front_mut().expect("each byte was read once");
            received = *now;
            let gone = count.min(*left);
            count -= gone;
            *left -= gone;
            if *left == 0 {
                self.reads.pop_front();
            }
        }
        received
    }
}

pub(super) struct ClientSocket {
    conn: Conn,
    client: Arc<ClientHandle>,
    inbox: StampedInbox,
    /// Bytes of a refused value that are still to come, and the request they belong to.
    discard: Option<(Vec<u8>, u64, u64)>,
    /// It will send no more, or is read no more.
    ended: bool,
}

impl<N: FnMut(ProxyNotice)> ThreadSockets<'_, N> {
    /// Until a stop is asked for and all threads have ended, or the time for that is over.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1_024);
        while self.stop_by.is_none_or(|end| end > self.clock.now() && self.finished.threads() > 0) {
            let left = self.stop_by.map(|end| Nanos(end.0.saturating_sub(self.clock.now().0)));
            let wait = self.accepting.retry.then_some(BACK_OFF).into_iter().chain(left).min();
            match self.poll.poll(&mut events, wait.map(Nanos::as_duration)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => result?,
            }
            if std::mem::take(&mut self.accepting.retry) {
                self.accept();
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    RELOAD if self.signals.reloads() > 0 => {
                        let why = "threads keep the configuration they began with";
                        (self.notice)(ProxyNotice::NotReloaded(why.to_owned()));
                    }
                    STOP if self.signals.stops() > 0 => self.stop(),
                    RELOAD | STOP => {}
                    FINISHED => {
                        self.tell_refused();
                        self.finished.take().into_iter().for_each(|id| self.read(id));
                    }
                    Token(token) => self.read((token - CLIENTS) as u32),
                }
            }
            if self.stop_by.is_some() && self.books.lock().clients() == 0 {
                self.queues.all().for_each(|queue| queue.close());
            }
        }
        Ok(())
    }

    /// No client may connect any more. What has arrived is still answered, then each client gets
    /// the end; the second time there is no time left for that.
    fn stop(&mut self) {
        let now = self.clock.now();
        if self.stop_by.replace(now).is_some() {
            return;
        }
        self.stop_by = Some(now + self.config.shutdown_limit);
        (self.notice)(ProxyNotice::Stopping);
        self.listener = None;
        (0..self.clients.len() as u32).for_each(|id| self.read(id));
    }

    /// Tells which servers' answers were not taken.
    pub(super) fn tell_refused(&mut self) {
        for (server, why) in self.finished.take_refused() {
            if self.answer_notices.entry(server).or_default().is_due(self.clock.now()) {
                let name = self.config.addresses()[server].to_string();
                (self.notice)(ProxyNotice::AnswerRefused(name, why));
            }
        }
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            let stream = match listener.accept() {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The one that was to be accepted has gone again.
                Err(error) if listen::is_of_one(&error) => continue,
                Err(error) => return self.refused(&error),
            };
            let mut books = self.books.lock();
            if books.clients() >= self.config.max_connections {
                books.turned_away();
                if let Ok(writer) = ClientWriter::of(&stream) {
                    let _ = writer.write(b"ERROR Too many open connections\r\n", self.config.timeout);
                }
                continue;
            }
            let id = books.connected(0, self.clock.now());
            drop(books);
            let token = Token(CLIENTS + id as usize);
            let begun = ClientWriter::of(&stream)
                .and_then(|writer| Ok((writer, Conn::accepted(stream, self.poll.registry(), token)?)));
            let (writer, conn) = match begun {
                Ok(begun) => begun,
                Err(error) => {
                    self.books.lock().gone(id, self.clock.now());
                    return self.refused(&error);
                }
            };
            let client = Arc::new(ClientHandle::new(id, writer, self.finished.clone()));
            if self.clients.len() <= id as usize {
                self.clients.resize_with(id as usize + 1, || None);
            }
            let inbox = StampedInbox::default();
            self.clients[id as usize] =
                Some(ClientSocket { conn, client, inbox, discard: None, ended: false });
            self.read(id);
        }
    }

    /// Out of descriptors, most likely: others must close first.
    fn refused(&mut self, error: &io::Error) {
        self.books.lock().out_of_sockets();
        self.accepting.retry = true;
        if self.accepting.notices.is_due(self.clock.now()) {
            (self.notice)(ProxyNotice::NotAccepting(error.to_string()));
        }
    }

    /// Reads what has come, and goes on with it.
    fn read(&mut self, id: u32) {
        let bound = self.config.max_value + CLIENT_READ;
        let mut more = true;
        while more {
            let Some(client) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
            more = !client.ended;
            // Beyond one whole request nothing more is read: it stays where it is until that is
            // done.
            while more && client.inbox.bytes.unread().len() < bound {
                match client.conn.read(client.inbox.bytes.room(CLIENT_READ)) {
                    Moved::Some(count) => client.inbox.filled(count, self.clock.now()),
                    // Once it stops, what it sends from here on is not read.
                    Moved::None => (client.ended, more) = (self.stop_by.is_some(), false),
                    Moved::Closed | Moved::Failed(_) => (client.ended, more) = (true, false),
                }
            }
            self.advance(id);
            // Where there is room again the rest is read now: no readiness will tell of it.
            let client = self.clients.get(id as usize).and_then(Option::as_ref);
            more &= client.is_some_and(|client| client.inbox.bytes.unread().len() < bound);
        }
    }

    /// Puts the client's next request into its queue, if it is whole and none other is under way.
    fn advance(&mut self, id: u32) {
        let Some(client) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if !client.client.is_free() {
            return;
        }
        let now = self.clock.now();
        let mut books = self.books.lock();
        loop {
            if let Some((bytes, length, left)) = &mut client.discard {
                let gone = (*left).min(client.inbox.bytes.unread().len() as u64);
                let received = client.inbox.consume(gone as usize);
                *left -= gone;
                if *left > 0 {
                    break;
                }
                let (bytes, discarded) = (std::mem::take(bytes), *length);
                client.discard = None;
                client.client.take(client.ended || !client.inbox.bytes.is_empty());
                let client = client.client.clone();
                drop(books);
                return self.queues.reads[0].put(ReceivedRequest {
                    client,
                    bytes,
                    discarded,
                    received,
                    queued: now,
                });
            }
            if client.inbox.bytes.is_empty() {
                client.inbox.bytes.shrink(0);
                client.inbox.reads.shrink_to(8);
                break;
            }
            let Some((length, discard)) = books.first_request(client.inbox.bytes.unread()) else { break };
            let bytes = client.inbox.bytes.unread()[..length].to_vec();
            let received = client.inbox.consume(length);
            if discard > 0 {
                client.discard = Some((bytes, discard, discard));
                continue;
            }
            let choice = books.choose_queue(0, &bytes, self.turn);
            if matches!(choice, QueueChoice::Read(_)) {
                self.turn = self.turn.wrapping_add(1);
            }
            if choice == QueueChoice::Statistics {
                // The books are here.
                self.queues.enter_into(&mut books);
                books.read(id, &bytes, received, now);
                let reply = books.output(id).unsent().to_vec();
                let heard = client.client.writer.write(&reply, self.config.timeout).is_ok();
                books.written(id, reply.len(), self.clock.now());
                if !heard {
                    client.ended = true;
                }
                continue;
            }
            client.client.take(client.ended || !client.inbox.bytes.is_empty());
            let client = client.client.clone();
            // Waiting for room in the queue must not keep others from the books.
            drop(books);
            return self.queues.of(choice).put(ReceivedRequest {
                client,
                bytes,
                discarded: 0,
                received,
                queued: now,
            });
        }
        if client.ended {
            books.gone(id, now);
            drop(books);
            self.clients[id as usize] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_was_received_when_its_last_byte_was_read_however_much_was_read_since() {
        let mut inbox = StampedInbox::default();
        let reads = [&b"get a\r\nget b\r\nge"[..], b"t c\r\n", b"get d", b"\r\n"];
        for (bytes, now) in reads.into_iter().zip(1..) {
            inbox.bytes.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
            inbox.filled(bytes.len(), Stamp(now));
        }
        let received: Vec<_> = (0..4).map(|_| inbox.consume(b"get a\r\n".len())).collect();
        assert_eq!(received, [Stamp(1), Stamp(1), Stamp(2), Stamp(4)]);
        assert!(inbox.bytes.is_empty() && inbox.reads.is_empty());
    }
}
