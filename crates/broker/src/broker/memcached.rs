//! What clients ask by memcached's protocol, carried out as requests of the broker's own.

use krarup_beanstalk::{Put, Request, Verb, name};
use krarup_memcache::request::{Refusal, Request as Cached, Retrieve, Storage, Store};
use krarup_record::{Operation, Visit};
use krarup_units::Stamp;

use super::session::Session;
use super::{Broker, Hold};
use crate::counts::operation;
use crate::job::{ClientId, Id};
use crate::memcached::{
    self, Asked, End, NOT_ALL, NOT_FOR_QUEUES, ONE_KEY, STILL_OPEN, Take, Told, UNAUTHENTICATED, Wish,
};
use crate::queues::Queues;
use crate::statistics;

/// A request, as its rows begin.
#[derive(Clone, Copy)]
struct Asking {
    id: ClientId,
    received: Stamp,
    now: Stamp,
    /// Its length, until a row has it.
    length: usize,
}

impl Broker {
    /// Somebody connects who speaks memcached's protocol.
    pub fn memcached_opened(&mut self) -> ClientId {
        let id = self.client_opened();
        self.dialog(id).memcached = Some(Session::default());
        self.queues.wants_flags(id);
        id
    }

    /// Carries out the first request in these bytes; how many bytes are done with: none if it must wait, or more must come.
    pub(super) fn memcached_bytes(
        &mut self,
        id: ClientId,
        bytes: &[u8],
        received: Stamp,
        now: Stamp,
    ) -> usize {
        let asked = memcached::parse(bytes, self.settings.largest);
        if matches!(asked, Asked::Incomplete(_)) {
            return 0;
        }
        let puts = matches!(asked, Asked::Request(Cached::Store(_), _));
        let committed = self.committed;
        // What is open must be known, and whoever asks what there is sees what he has put.
        let asking = self.shared.as_ref().is_some_and(|shared| !shared.may_put_or_begin(id, puts));
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
            Asked::Incomplete(_) => 0,
            Asked::Request(request, used) => {
                asking.length = used;
                let harmless = matches!(request, Cached::Store(_) | Cached::Version | Cached::Quit);
                if !open && !harmless {
                    self.tell(asking, UNAUTHENTICATED);
                } else {
                    self.memcached_request(asking, &request, open);
                }
                used
            }
            Asked::Flush(key, used) => {
                asking.length = used;
                match memcached::queue(key) {
                    _ if !open => self.tell(asking, UNAUTHENTICATED),
                    Ok(queue) => self.empty(asking, queue, false),
                    Err(line) => self.tell(asking, line),
                }
                used
            }
            Asked::Refused(Refusal::Answer { reply, used }) => {
                asking.length = used;
                self.tell(asking, reply);
                used
            }
            Asked::Refused(Refusal::TooLarge { used, discard: swallow, noreply, .. }) => {
                let reply = if noreply { b"" } else { krarup_memcache::request::TOO_LARGE };
                self.dialog(id).swallow = Some((swallow, reply));
                used
            }
            Asked::Refused(Refusal::Discard { reply, used, discard: swallow }) => {
                self.dialog(id).swallow = Some((swallow, reply));
                used
            }
            Asked::Refused(Refusal::Close { reply }) => {
                asking.length = bytes.len();
                self.tell(asking, reply);
                self.dialog(id).quitting = true;
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
                Err(line) => self.tell(asking, line),
            },
            Cached::Stats { .. } => {
                self.counts.count(Verb::Stats);
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
    fn log_in(&mut self, asking: Asking, store: &Store<'_>) {
        let mut words = store.data.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let mut word = || words.next().and_then(name::name);
        match (word(), word()) {
            (Some(client), secret) => {
                let told = if store.noreply { Told::Not } else { Told::Login };
                self.ask(asking, &Request::Login { client, secret }, told);
            }
            _ => self.tell(asking, b"CLIENT_ERROR bad authentication token format\r\n"),
        }
    }

    fn put_value(&mut self, asking: Asking, store: &Store<'_>) {
        let put = match memcached::letter(store.key) {
            _ if store.command != Storage::Set => Err(NOT_FOR_QUEUES),
            put => put,
        };
        match put {
            Ok(put) => {
                let told = if store.noreply { Told::Not } else { Told::Put };
                let lives = memcached::lives(store.exptime, self.queues.wall(asking.now));
                self.ask(
                    asking,
                    &Request::Put(Put { flags: store.flags, lives, body: store.data, ..put }),
                    told,
                );
            }
            Err(line) => self.tell(asking, if store.noreply { b"" } else { line }),
        }
    }

    fn get(&mut self, mut asking: Asking, retrieve: &Retrieve<'_>) {
        let mut wishes = Vec::with_capacity(retrieve.keys.len());
        for key in retrieve.keys.iter() {
            match memcached::wish(key) {
                // Waiting for one would keep the others, and they may have been taken already.
                Ok(wish) if retrieve.keys.len() > 1 && (wish.end.is_some() || wish.wait.0 > 0) => {
                    return self.tell(asking, ONE_KEY);
                }
                Ok(Wish { take: Some(Take::Open), .. }) if retrieve.keys.len() > 1 => {
                    return self.tell(asking, ONE_KEY);
                }
                Ok(wish) => wishes.push((key, wish)),
                Err(line) => return self.tell(asking, line),
            }
        }
        let count = wishes.len();
        if count > 1 && self.shared.is_some() {
            return self.tell(asking, ONE_KEY);
        }
        for (place, (key, wish)) in wishes.into_iter().enumerate() {
            let session = self.dialog(asking.id).memcached.as_mut().expect("he speaks this protocol");
            if wish.take == Some(Take::Open) && wish.end.is_none() && session.is_open(wish.queue) {
                return self.tell(asking, STILL_OPEN);
            }
            let ended = wish.end.and_then(|end| Some((end, session.end(wish.queue)?)));
            if let Some((end, open)) = ended {
                let told = if wish.take.is_some() { Told::Not } else { Told::Ended };
                self.end_open(asking, end, open, told);
                // The first row has the request's bytes.
                asking.length = 0;
            } else if wish.take.is_none() {
                self.tell(asking, b"END\r\n");
            }
            let Some(take) = wish.take else { continue };
            let told = Told::Value {
                key: key.into(),
                unique: retrieve.command.with_unique(),
                open: take == Take::Open,
                last: place + 1 == count,
            };
            let session = self.dialog(asking.id).memcached.as_mut().expect("he speaks this protocol");
            if told.opens() {
                session.opening = Some(wish.queue.into());
            }
            match take {
                Take::Peek => {
                    self.queues.use_tube(asking.id, wish.queue);
                    self.ask(asking, &Request::PeekReady, told);
                }
                Take::Open | Take::Pop => {
                    self.watch_only(asking.id, wish.queue);
                    let request = if take == Take::Pop {
                        Request::Pop { timeout: wish.wait }
                    } else {
                        Request::ReserveWithTimeout { timeout: wish.wait }
                    };
                    self.ask(asking, &request, told);
                }
            }
            asking.length = 0;
        }
    }

    fn end_open(&mut self, asking: Asking, end: End, open: Id, told: Told) {
        if end == End::Abort
            && let Some(shared) = &mut self.shared
        {
            let number = shared.ask_back(asking.id, open);
            let verb = Verb::Release;
            self.counts.count(verb);
            self.told = told;
            let visit =
                Visit { bytes_in: asking.length as u64, ..Visit::at(asking.received, operation(verb)) };
            return self.wait_for_answer(asking.id, Hold::Asked(number), verb, visit);
        }
        let request = match end {
            End::Close => Request::Delete(open),
            End::Abort => {
                // It goes back to where it was.
                let priority = self.queues.view_job(open, asking.now).map_or(0, |job| job.priority);
                Request::Release { id: open, priority, delay: 0 }
            }
        };
        self.ask(asking, &request, told);
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

    fn empty(&mut self, asking: Asking, queue: &str, noreply: bool) {
        let told = if noreply { Told::Not } else { Told::Deleted };
        self.ask(asking, &Request::DeleteTube(queue), told);
    }

    /// A request of the broker's own; its answer is told so.
    fn ask(&mut self, asking: Asking, request: &Request<'_>, told: Told) {
        let visit =
            Visit { bytes_in: asking.length as u64, ..Visit::at(asking.received, operation(request.verb())) };
        self.told = told;
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

    fn memcached_statistics(&self, now: Stamp) -> String {
        let names = self.queues.tube_names();
        let tubes = names.iter().filter_map(|name| self.queues.view_tube(name, now));
        statistics::memcached(
            &self.settings.about,
            &self.service(now),
            &self.queues.totals(),
            self.queues.memory_used(),
            &self.counts,
            tubes,
        )
    }
}

/// Whether a request needs messages that are only in the store.
fn lacks(queues: &mut Queues, id: ClientId, asked: &Asked<'_>, now: Stamp) -> bool {
    let mut ends =
        |key| memcached::queue(key).is_ok_and(|queue| queues.lacks(id, &Request::DeleteTube(queue), now));
    match asked {
        Asked::Request(Cached::Retrieve(retrieve), _) if !retrieve.command.touches() => {
            let wishes = retrieve.keys.iter().filter_map(|key| memcached::wish(key).ok());
            let taken = wishes.filter(|wish| wish.take.is_some()).map(|wish| wish.queue);
            // A key may stand there more than once.
            let count = retrieve.keys.len();
            // Every one is looked at, so that all are read together.
            taken.filter(|queue| queues.lacks_first_of(id, queue, count)).count() > 0
        }
        Asked::Request(Cached::Delete { key, .. }, _) => ends(key),
        Asked::Flush(key, _) => ends(key),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
