//! What clients ask by memcached's protocol, carried out as requests of the broker's own.

use krarup_beanstalk::{Put, ReplyWord, Request, Verb, name, write};
use krarup_memcache::request::{Refusal, Request as Cached, Retrieve, Storage, StorageRequest};
use krarup_record::{Operation, Visit};
use krarup_service::Service;
use krarup_units::Stamp;

use super::session::QueueSession;
use super::{Broker, Discard, Hold};
use crate::counts::operation;
use crate::job::{ClientId, Id};
use crate::memcached::{
    self, CloseOption, NONE_OPEN, NOT_ALL, NOT_FOR_QUEUES, ONE_KEY, QueueGet, QueueRequest, RAN_OUT,
    ReplyFormat, STILL_OPEN, TakeOption, UNAUTHENTICATED,
};
use crate::queues::Queues;
use crate::shared::SharedQueues;
use crate::statistics::{self, QueueFigures};

/// A request, as its rows begin.
#[derive(Clone, Copy)]
struct Asking {
    id: ClientId,
    received: Stamp,
    now: Stamp,
    /// Its length, until a row has it.
    length: usize,
}

impl Asking {
    /// Its visit, where it is carried out as this verb.
    fn visit(self, verb: Verb) -> Visit {
        Visit { bytes_in: self.length as u64, ..Visit::at(self.received, operation(verb)) }
    }
}

impl Broker {
    /// A client connects that speaks memcached's protocol.
    pub(super) fn opened_memcached(&mut self) -> ClientId {
        let id = self.opened();
        self.dialog(id).memcached = Some(QueueSession::default());
        self.queues.wants_flags(id);
        id
    }

    /// Carries out the first request in these bytes; how many bytes are done with: none if it must
    /// wait, or more must come.
    pub(super) fn memcached_bytes(
        &mut self,
        id: ClientId,
        bytes: &[u8],
        received: Stamp,
        now: Stamp,
    ) -> usize {
        let asked = memcached::parse(bytes, self.settings.largest);
        if let QueueRequest::Incomplete(needed) = asked {
            return self.incomplete(id, bytes, needed, received);
        }
        let puts = matches!(asked, QueueRequest::Request(Cached::Store(_), _));
        let committed = self.committed;
        // What is open must be known, and a client that asks what there is sees what it has put.
        let asking = self.shared.as_ref().is_some_and(|shared| !may_go(shared, id, &asked));
        let dialog = self.dialog(id);
        let opening = dialog.memcached.as_ref().is_some_and(|session| session.opening.is_some());
        if asking || opening || (!puts && dialog.put_with > Some(committed)) {
            dialog.stuck = true;
            return 0;
        }
        if self.lacks(id, |queues| lacks(queues, id, &asked, now)) {
            return 0;
        }
        let mut asking = Asking { id, received, now, length: 0 };
        let open = self.dialog(id).admitted;
        match asked {
            QueueRequest::Incomplete(_) => 0,
            QueueRequest::Request(request, used) => {
                asking.length = used;
                let harmless = matches!(request, Cached::Store(_) | Cached::Version | Cached::Quit);
                if !open && !harmless {
                    self.tell(asking, UNAUTHENTICATED);
                } else {
                    self.memcached_request(asking, &request, open);
                }
                // Of a `get` only the first part may be done: it is read once more.
                if self.dialog(id).stuck { 0 } else { used }
            }
            QueueRequest::Flush(key, used) => {
                asking.length = used;
                match memcached::queue(key) {
                    _ if !open => self.tell(asking, UNAUTHENTICATED),
                    Ok(queue) => self.empty(asking, queue, false),
                    Err(line) => self.tell(asking, line),
                }
                used
            }
            QueueRequest::Refused(Refusal::Answer { reply, used }) => {
                asking.length = used;
                self.tell(asking, reply);
                used
            }
            QueueRequest::Refused(Refusal::TooLarge { used, discard, noreply, .. }) => {
                self.dialog(id).discard = Some(Discard {
                    left: discard,
                    reply: krarup_memcache::request::TOO_LARGE,
                    reply_format: if noreply { ReplyFormat::Not } else { ReplyFormat::AsItIs },
                    operation: Operation::Put,
                });
                used
            }
            QueueRequest::Refused(Refusal::Discard { reply, used, discard }) => {
                self.dialog(id).discard = Some(Discard {
                    left: discard,
                    reply,
                    reply_format: ReplyFormat::AsItIs,
                    operation: Operation::Other,
                });
                used
            }
            QueueRequest::Refused(Refusal::Close { reply }) => {
                self.close_with(asking, bytes, reply);
                bytes.len()
            }
        }
    }

    fn memcached_request(&mut self, asking: Asking, request: &Cached<'_>, open: bool) {
        let noreply = request.noreply();
        match request {
            Cached::Store(store) if !open => self.log_in(asking, store),
            Cached::Store(store) => self.put_value(asking, store),
            Cached::Retrieve(retrieve) if !retrieve.command.touches() => self.get(asking, retrieve),
            Cached::Delete { key, .. } => match memcached::queue(key) {
                Ok(queue) => self.empty(asking, queue, noreply),
                Err(line) => self.tell(asking, if noreply { b"" } else { line }),
            },
            Cached::Stats { argument: b"open" } => {
                let open = self.holds_lease(asking.id, asking.now);
                self.tell(asking, if open { b"STAT open 1\r\nEND\r\n" } else { NONE_OPEN });
            }
            Cached::Stats { .. } => {
                self.counts.count(Verb::Stats);
                // It walks through all queues.
                self.turn = 0;
                let text = self.memcached_statistics(asking.now);
                self.tell(asking, text.as_bytes());
            }
            Cached::Version => {
                let line = format!("VERSION {}\r\n", self.settings.about.version);
                self.tell(asking, line.as_bytes());
            }
            Cached::Verbosity { .. } => self.tell(asking, if noreply { b"" } else { b"OK\r\n" }),
            Cached::NoOp => self.tell(asking, krarup_memcache::request::NO_OP),
            Cached::FlushAll { .. } => self.tell(asking, if noreply { b"" } else { NOT_ALL }),
            Cached::Quit => {
                self.counts.count(Verb::Quit);
                self.dialog(asking.id).quitting = true;
                self.dirty.push(asking.id);
            }
            Cached::Retrieve(_) | Cached::Arithmetic { .. } | Cached::Touch { .. } | Cached::Meta(_) => {
                self.tell(asking, if noreply { b"" } else { NOT_FOR_QUEUES });
            }
        }
    }

    /// As to memcached itself: the value of the first `set` is a name and the secret.
    fn log_in(&mut self, asking: Asking, store: &StorageRequest<'_>) {
        let mut words = store.data.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let mut word = || words.next().and_then(name::name);
        match (word(), word()) {
            (Some(client), secret) => {
                let reply_format = if store.noreply { ReplyFormat::Not } else { ReplyFormat::Login };
                self.ask(asking, &Request::Login { client, secret }, reply_format);
            }
            _ if store.noreply => self.tell(asking, b""),
            _ => self.tell(asking, b"CLIENT_ERROR bad authentication token format\r\n"),
        }
    }

    fn put_value(&mut self, asking: Asking, store: &StorageRequest<'_>) {
        let put = match memcached::put_of_key(store.key) {
            _ if store.command != Storage::Set => Err(NOT_FOR_QUEUES),
            put => put,
        };
        match put {
            Ok(put) => {
                let reply_format = if store.noreply { ReplyFormat::Not } else { ReplyFormat::Put };
                let lives = memcached::lives(store.exptime, self.queues.wall_now(asking.now));
                self.ask(
                    asking,
                    &Request::Put(Put { flags: store.flags, lives, body: store.data, ..put }),
                    reply_format,
                );
            }
            Err(line) => self.tell(asking, if store.noreply { b"" } else { line }),
        }
    }

    fn get(&mut self, mut asking: Asking, retrieve: &Retrieve<'_>) {
        let mut queries = Vec::with_capacity(retrieve.keys.len());
        for key in retrieve.keys.iter() {
            match memcached::queue_get(key) {
                // Waiting for one would keep the others, and they may have been taken already.
                Ok(query) if retrieve.keys.len() > 1 && (query.end.is_some() || query.wait.0 > 0) => {
                    return self.tell(asking, ONE_KEY);
                }
                Ok(QueueGet { take: Some(TakeOption::Open), .. }) if retrieve.keys.len() > 1 => {
                    return self.tell(asking, ONE_KEY);
                }
                Ok(query) => queries.push((key, query)),
                Err(line) => return self.tell(asking, line),
            }
        }
        let count = queries.len();
        if count > 1 && self.shared.is_some() {
            return self.tell(asking, ONE_KEY);
        }
        for (place, (key, query)) in queries.into_iter().enumerate() {
            if self.dialog(asking.id).is_full() {
                // The messages of the other keys stay where they are, for the next `get`.
                return self.tell(asking, b"END\r\n");
            }
            let session = self.dialog(asking.id).memcached.as_mut().expect("he speaks this protocol");
            if query.take == Some(TakeOption::Open) && query.end.is_none() && session.is_open(query.queue) {
                return self.tell(asking, STILL_OPEN);
            }
            let ended = query.end.and_then(|end| Some((end, session.end(query.queue)?)));
            if let Some((end, open)) = ended {
                let (reply_format, length) = match query.take {
                    // The row of what is taken has the request's bytes.
                    Some(_) => (ReplyFormat::Not, 0),
                    None => (ReplyFormat::Ended, asking.length),
                };
                self.end_open(Asking { length, ..asking }, end, open, reply_format);
                let is_asked =
                    self.shared.as_ref().is_some_and(|shared| !shared.has_nothing_under_way(asking.id));
                if query.take.is_some() && is_asked {
                    // What goes back may be the next: it must be there when that is asked for.
                    self.dialog(asking.id).stuck = true;
                    return;
                }
            } else if query.take.is_none() {
                self.tell(asking, b"END\r\n");
            }
            let Some(take) = query.take else { continue };
            let reply_format = ReplyFormat::Value {
                key: key.into(),
                unique: retrieve.command.with_unique(),
                open: take == TakeOption::Open,
                last: place + 1 == count,
            };
            let session = self.dialog(asking.id).memcached.as_mut().expect("he speaks this protocol");
            if reply_format.opens() {
                session.opening = Some(query.queue.into());
            }
            match take {
                TakeOption::Peek => {
                    self.queues.use_tube(asking.id, query.queue);
                    self.ask(asking, &Request::PeekReady, reply_format);
                }
                TakeOption::Open | TakeOption::Pop => {
                    self.watch_only(asking.id, query.queue);
                    let request = if take == TakeOption::Pop {
                        Request::Pop { timeout: query.wait }
                    } else {
                        Request::ReserveWithTimeout { timeout: query.wait }
                    };
                    self.ask(asking, &request, reply_format);
                }
            }
            asking.length = 0;
        }
    }

    fn end_open(&mut self, asking: Asking, end: CloseOption, open: Id, reply_format: ReplyFormat) {
        let holds = match &self.shared {
            Some(shared) => shared.holds(asking.id, open, asking.now),
            None => self.queues.holds(asking.id, open),
        };
        if !holds {
            // A delete by its number would take it from those that it waits for.
            return self.tell(asking, if reply_format == ReplyFormat::Not { b"" } else { RAN_OUT });
        }
        if end == CloseOption::Abort
            && let Some(shared) = &mut self.shared
        {
            let number = shared.query_give_back(asking.id, open);
            let verb = Verb::Release;
            self.counts.count(verb);
            self.reply_format = reply_format;
            return self.wait_for_answer(asking.id, Hold::Asked(number), verb, asking.visit(verb));
        }
        let request = match end {
            CloseOption::Close => Request::Delete(open),
            CloseOption::Abort => {
                // It goes back to where it was.
                let priority = self.queues.view_job(open, asking.now).map_or(0, |job| job.priority);
                Request::Release { id: open, priority, delay: 0 }
            }
        };
        self.ask(asking, &request, reply_format);
    }

    /// Messages are taken from this queue alone.
    fn watch_only(&mut self, id: ClientId, queue: &str) {
        let session = self.dialog(id).memcached.as_mut().expect("he speaks this protocol");
        let before = session.watched.replace(queue.into());
        let before = before.as_deref().unwrap_or(krarup_beanstalk::DEFAULT_TUBE);
        if before != queue {
            self.queues.watch(id, queue);
            self.queues.ignore(id, before);
        }
    }

    /// All messages of a queue go. Unlike the verb `delete-tube` it leaves what the queue was told
    /// to do.
    fn empty(&mut self, asking: Asking, queue: &str, noreply: bool) {
        let verb = Verb::DeleteTube;
        self.counts.count(verb);
        self.reply_format = if noreply { ReplyFormat::Not } else { ReplyFormat::Deleted };
        let mut visit = asking.visit(verb);
        visit.queued = asking.now.max(visit.received);
        visit.taken = visit.queued;
        if let Some(shared) = &mut self.shared {
            let known = self.queues.has_tube(queue);
            let number = shared.query_empty(asking.id, queue, known, asking.now);
            return self.wait_for_answer(asking.id, Hold::Asked(number), verb, visit);
        }
        let after = self.queues.empty_tube(queue);
        let word = if after.is_some() { ReplyWord::Deleted } else { ReplyWord::UnknownTube };
        self.scratch.clear();
        write::line(&mut self.scratch, word);
        self.answer(asking.id, Some(verb), after.flatten(), visit);
    }

    /// A request of the broker's own; its answer is sent so.
    fn ask(&mut self, asking: Asking, request: &Request<'_>, reply_format: ReplyFormat) {
        let visit = asking.visit(request.verb());
        self.reply_format = reply_format;
        self.carry_out(asking.id, request, visit, asking.now);
    }

    /// An answer that stands.
    fn tell(&mut self, asking: Asking, line: &[u8]) {
        let mut visit = Visit::at(asking.received, Operation::Other);
        visit.bytes_in = asking.length as u64;
        self.scratch.clear();
        self.scratch.extend_from_slice(line);
        self.answer(asking.id, None, None, visit);
    }

    /// The last answer, to all that is there of a client's bytes.
    fn close_with(&mut self, asking: Asking, bytes: &[u8], reply: &[u8]) {
        let mut last = Vec::new();
        krarup_memcache::write::closing_reply(&mut last, bytes, reply);
        self.tell(Asking { length: bytes.len(), ..asking }, &last);
        self.dialog(asking.id).quitting = true;
    }

    fn memcached_statistics(&self, now: Stamp) -> String {
        let queues: Vec<QueueFigures> = match &self.shared {
            Some(shared) => shared.queue_figures(&self.queues, now),
            None => {
                let names = self.queues.tube_names();
                let views = names.iter().filter_map(|name| self.queues.view_tube(name, now));
                views.map(statistics::of_queue).collect()
            }
        };
        let (totals, known) = self.totals(now);
        statistics::memcached(
            &self.settings.about,
            &self.service(now),
            (&totals, known),
            self.memory_used(),
            &self.counts,
            queues.into_iter(),
        )
    }
}

/// Whether a request may be carried out beside what the database has not answered: a put as its
/// message may; all others want to know all that was asked before.
fn may_go(shared: &SharedQueues, id: ClientId, asked: &QueueRequest<'_>) -> bool {
    match asked {
        QueueRequest::Request(Cached::Store(store), _) => {
            shared.may_go(id, &Request::Put(memcached::put_of_key(store.key).unwrap_or_default()))
        }
        _ => shared.has_nothing_under_way(id),
    }
}

/// Whether a request needs messages that are only in the store.
fn lacks(queues: &mut Queues, id: ClientId, asked: &QueueRequest<'_>, now: Stamp) -> bool {
    let mut ends =
        |key| memcached::queue(key).is_ok_and(|queue| queues.lacks(id, &Request::DeleteTube(queue), now));
    match asked {
        QueueRequest::Request(Cached::Retrieve(retrieve), _) if !retrieve.command.touches() => {
            let queries = retrieve.keys.iter().filter_map(|key| memcached::queue_get(key).ok());
            let taken = queries.filter(|query| query.take.is_some()).map(|query| query.queue);
            // A key may stand there more than once.
            let count = retrieve.keys.len();
            // Every one is looked at, so that all are read together.
            taken.filter(|queue| queues.lacks_first_of(id, queue, count)).count() > 0
        }
        QueueRequest::Request(Cached::Delete { key, .. }, _) => ends(key),
        QueueRequest::Flush(key, _) => ends(key),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
