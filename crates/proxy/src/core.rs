//! The drawing of one request, in code. No socket, no clock: bytes and stamps come in, bytes go out.
//!
//! ```text
//! client_bytes ─▶ accept ─▶ (queue) ─▶ ask ─▶ [server outbox] ─▶ server_written  stamps `sent`
//!   `received`     route   `queued`                                    │
//!                          `taken`                                     ▼
//! client_written ◀─ [client outbox] ◀─ render ◀─ complete ◀─ server_bytes  stamps `answered`
//!   stamps `replied`                    merge
//!        └──▶ finish: one row, and the worker takes the next request
//! ```
//!
//! The engine around it moves the bytes. Whatever it does, in whatever order it does it, every request that was
//! accepted is answered exactly once, in the order of its client.

use std::collections::VecDeque;

use krarup_memcache::request::{self, Refusal, TOO_LARGE};
use krarup_memcache::{Class, Expect, Limits, MetaCommand, Parsed, Reply, Request, Storage, response, write};
use krarup_record::{Operation, Outcome, Recorder, ServerVisit, Visit};
use krarup_units::{Nanos, Stamp};

use crate::arena::{Arena, NOBODY};
use crate::balance::Balance;
use crate::client::{Client, Refused};
use crate::dispatch::{Dispatch, Taken, Workers};
use crate::exchange::{Exchange, Stage};
use crate::merge::{How, Merged};
use crate::route::{self, MultiGet, Plan};
use crate::server::{Health, Pending, Server};

/// Memory kept for the replies of a client that has read them all, in bytes.
const CLIENT_KEEP: usize = 64 << 10;

/// What the core must know before it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What clients may send.
    pub limits: Limits,
    /// What to do with retrievals of several keys.
    pub multi_get: MultiGet,
    /// How many requests may be with the servers at once.
    pub workers: Workers,
    /// How many requests may wait for a worker; beyond that clients are not listened to.
    pub queue: usize,
    /// How many requests of one client may be under way; beyond that it is not listened to.
    pub pipeline: u32,
    /// How many bytes of replies may wait for one client; beyond that it is not listened to.
    pub reply_buffer: usize,
    /// How long a server may take over one answer before its connection counts as lost.
    pub timeout: Nanos,
}

/// Things that happened, each counted when it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Events {
    /// Connections accepted.
    pub clients_accepted: u64,
    /// Connections that are gone, for whatever reason.
    pub clients_closed: u64,
    /// Connections refused because there were too many.
    pub clients_refused: u64,
    /// Requests accepted. Each ends as one recorded visit.
    pub requests: u64,
    /// Requests that several servers answered differently.
    pub disagreements: u64,
    /// Connections to servers lost, or attempts that failed.
    pub server_losses: u64,
    /// Connections to servers that were closed because an answer was not what was asked for.
    pub desynchronised: u64,
    /// Connections to servers that were closed because an answer did not come in time.
    pub timeouts: u64,
    /// Times a client was not listened to because a bound was reached.
    pub held_back: u64,
}

/// Where recorded rows go besides the recorder.
pub trait RowSink: Send {
    /// One row, complete.
    fn row(&mut self, visit: &Visit, servers: &[ServerVisit]);
}

/// How a request came.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// Its bytes, framing included.
    bytes: usize,
    /// After the read that brought the last of them.
    received: Stamp,
    /// When it was read as a request: later than received only if it was held back.
    now: Stamp,
}

/// The middleware without its sockets.
pub struct Core {
    settings: Settings,
    clients: Arena<Client>,
    servers: Vec<Server>,
    exchanges: Arena<Exchange>,
    dispatch: Dispatch,
    balance: Balance,
    recorder: Recorder,
    rows: Option<Box<dyn RowSink>>,
    events: Events,
    /// Clients that wait for room in the queue, first come first served.
    starving: VecDeque<u32>,
    in_flight: usize,
    started: Stamp,
    /// Since when is counted: the start, or the last reset.
    counting_since: Stamp,
    dirty_servers: Vec<usize>,
    dirty_clients: Vec<u32>,
    runnable: Vec<u32>,
}

impl Core {
    /// A middleware before `servers`, all of them down yet.
    pub fn new(settings: Settings, servers: Vec<String>, recorder: Recorder, started: Stamp) -> Self {
        let count = servers.len();
        Self {
            dispatch: Dispatch::new(settings.workers, settings.queue),
            settings,
            clients: Arena::new(),
            servers: servers.into_iter().map(Server::new).collect(),
            exchanges: Arena::new(),
            balance: Balance::new(count),
            recorder,
            rows: None,
            events: Events::default(),
            starving: VecDeque::new(),
            in_flight: 0,
            started,
            counting_since: started,
            dirty_servers: Vec::new(),
            dirty_clients: Vec::new(),
            runnable: Vec::new(),
        }
    }

    /// Every row from now on also goes to `sink`.
    pub fn keep_rows(&mut self, sink: Box<dyn RowSink>) {
        self.rows = Some(sink);
    }

    /// No more rows will come: whoever takes them can finish.
    pub fn end_rows(&mut self) {
        self.rows = None;
    }

    // ---- clients ----------------------------------------------------------------------------------------

    /// A client has connected; its number is good until it is gone or closed.
    pub fn client_opened(&mut self) -> u32 {
        self.events.clients_accepted += 1;
        let id = self.clients.take();
        self.clients[id] = Client { out: std::mem::take(&mut self.clients[id].out), ..Client::default() };
        id
    }

    /// A connection was turned away.
    pub fn client_refused(&mut self) {
        self.events.clients_refused += 1;
    }

    /// Offers the bytes a client has sent and that were not used so far; the last of them came at `received`. Returns how
    /// many are used up. The rest must be offered again, with more behind it or when [`Self::take_runnable`] names the client.
    pub fn client_bytes(&mut self, id: u32, bytes: &[u8], received: Stamp, now: Stamp) -> usize {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            if self.clients[id].swallow > 0 {
                let client = &mut self.clients[id];
                let gone = client.swallow.min(rest.len() as u64);
                client.swallow -= gone;
                used += gone as usize;
                if client.swallow > 0 {
                    break;
                }
                self.refuse_large(id, now);
                continue;
            }
            if rest.is_empty() || !self.listens_to(id) {
                break;
            }
            match request::parse(rest, &self.settings.limits) {
                Parsed::Complete { message, used: length } => {
                    self.accept(id, &message, &rest[..length], Arrival { bytes: length, received, now });
                    used += length;
                }
                Parsed::Incomplete { .. } => break,
                Parsed::Invalid(Refusal::Answer { reply, used: length }) => {
                    let arrival = Arrival { bytes: length, received, now };
                    self.answer_here(id, reply, class_of(reply), reply.is_empty(), arrival);
                    used += length;
                }
                Parsed::Invalid(Refusal::TooLarge {
                    command,
                    key,
                    base64,
                    used: length,
                    swallow,
                    noreply,
                }) => {
                    let key = (command == Storage::Set).then(|| (key.to_vec(), base64));
                    let bytes_in = length as u64 + swallow;
                    let client = &mut self.clients[id];
                    client.swallow = swallow;
                    client.refused =
                        Some(Box::new(Refused { received, reply: TOO_LARGE, key, noreply, bytes_in }));
                    used += length;
                }
                Parsed::Invalid(Refusal::Swallow { reply, used: length, swallow }) => {
                    let bytes_in = length as u64 + swallow;
                    let client = &mut self.clients[id];
                    client.swallow = swallow;
                    client.refused =
                        Some(Box::new(Refused { received, reply, key: None, noreply: false, bytes_in }));
                    used += length;
                }
                Parsed::Invalid(Refusal::Close { reply }) => {
                    let arrival = Arrival { bytes: rest.len(), received, now };
                    self.answer_here(id, reply, class_of(reply), reply.is_empty(), arrival);
                    self.close_after_replies(id);
                    used = bytes.len();
                }
            }
        }
        self.pump(now);
        used
    }

    /// The client will send no more; what it asked is still answered.
    pub fn client_ended(&mut self, id: u32) {
        self.close_after_replies(id);
    }

    /// Whether the client can take no more requests just now: its bytes should be left where they are.
    pub fn client_held_back(&self, id: u32) -> bool {
        self.clients[id].held_back
    }

    /// Whether everything asked has been replied to and nothing more will be: the connection can be closed.
    pub fn client_finished(&self, id: u32) -> bool {
        let client = &self.clients[id];
        client.closing && client.outstanding == 0 && client.out.is_empty()
    }

    /// Whether nothing of this client is under way.
    pub fn client_idle(&self, id: u32) -> bool {
        let client = &self.clients[id];
        client.outstanding == 0 && client.out.is_empty() && client.swallow == 0
    }

    /// Replies that wait to be written to this client.
    pub fn client_output(&self, id: u32) -> &[u8] {
        self.clients[id].out.unsent()
    }

    /// The first `count` bytes of the output were written by `after`.
    pub fn client_written(&mut self, id: u32, count: usize, after: Stamp) {
        let out = &mut self.clients[id].out;
        out.advance(count);
        out.shrink(CLIENT_KEEP);
        self.settle(id, after);
        self.pump(after);
    }

    /// The client is gone, or its connection was closed. What it asked is carried out; the replies go nowhere.
    pub fn client_gone(&mut self, id: u32, now: Stamp) {
        self.events.clients_closed += 1;
        let mut next = std::mem::replace(&mut self.clients[id].oldest, NOBODY);
        while next != NOBODY {
            let exchange = next;
            next = self.exchanges[exchange].next;
            self.exchanges[exchange].client = NOBODY;
            if matches!(self.exchanges[exchange].stage, Stage::Done | Stage::Rendered(_)) {
                self.finish(exchange, now);
            }
        }
        let client = &mut self.clients[id];
        client.out.clear();
        client.out.shrink(0);
        let (dirty, runnable, starving) = (client.dirty, client.runnable, client.starving);
        if dirty {
            self.dirty_clients.retain(|&other| other != id);
        }
        if runnable {
            self.runnable.retain(|&other| other != id);
        }
        if starving {
            self.starving.retain(|&other| other != id);
        }
        self.clients.give_back(id);
        self.pump(now);
    }

    fn close_after_replies(&mut self, id: u32) {
        self.clients[id].closing = true;
        self.touch_client(id);
    }

    /// Whether one more request of this client may be read; if not, it is told when to come back.
    fn listens_to(&mut self, id: u32) -> bool {
        let room = self.dispatch.has_room();
        let client = &mut self.clients[id];
        let own = !client.closing
            && client.barrier == NOBODY
            && client.outstanding < self.settings.pipeline
            && client.out.len() < self.settings.reply_buffer;
        if own && !room && !client.starving {
            client.starving = true;
            self.starving.push_back(id);
        }
        let listens = own && room;
        self.events.held_back += u64::from(!listens && !client.held_back && !client.closing);
        client.held_back = !listens;
        listens
    }

    /// The engine shall look at this client's output.
    fn touch_client(&mut self, id: u32) {
        let client = &mut self.clients[id];
        if !client.dirty {
            client.dirty = true;
            self.dirty_clients.push(id);
        }
    }

    // ---- requests ---------------------------------------------------------------------------------------

    /// A new request, the youngest of its client.
    fn begin(&mut self, id: u32, operation: Operation, arrival: Arrival) -> u32 {
        self.events.requests += 1;
        let number = self.exchanges.take();
        let exchange = &mut self.exchanges[number];
        exchange.begin(id, operation, arrival.received);
        exchange.visit.bytes_in = arrival.bytes as u64;
        exchange.visit.queued = arrival.now;
        exchange.visit.taken = arrival.now;
        let client = &mut self.clients[id];
        client.outstanding += 1;
        if client.next_to_render == NOBODY {
            client.next_to_render = number;
        }
        let before = std::mem::replace(&mut client.youngest, number);
        if client.oldest == NOBODY {
            client.oldest = number;
        } else {
            self.exchanges[before].next = number;
        }
        number
    }

    fn accept(&mut self, id: u32, request: &Request<'_>, raw: &[u8], arrival: Arrival) {
        match request {
            Request::Quit => {
                self.answer_here(id, b"", Class::Ok, true, arrival);
                return self.close_after_replies(id);
            }
            Request::NoOp => return self.answer_here(id, request::NO_OP, Class::Ok, false, arrival),
            Request::Version => {
                let (class, text) = self.version();
                return self.answer_here(id, text.as_bytes(), class, false, arrival);
            }
            Request::Stats { argument: b"reset" } => {
                self.reset(arrival.now);
                return self.answer_here(id, b"RESET\r\n", Class::Ok, false, arrival);
            }
            Request::Stats { argument } => {
                let (class, text) = crate::stats::answer(self, argument, arrival.now);
                return self.answer_here(id, &text, class, false, arrival);
            }
            _ => {}
        }
        let (operation, keys) = route::operation(request);
        let number = self.begin(id, operation, arrival);
        let exchange = &mut self.exchanges[number];
        exchange.visit.keys = keys;
        exchange.noreply = request.noreply();
        exchange.quiet = match request {
            Request::Meta(meta) if meta.quiet => Some(meta.command),
            _ => None,
        };
        if operation == Operation::Cas {
            // Its second step reads the value again, and what the client sends next may depend on it.
            exchange.request.extend_from_slice(raw);
            self.clients[id].barrier = number;
        }
        if self.dispatch.has_idle_worker() {
            let taken = self.dispatch.take_at_once();
            self.carry_out(number, request, taken, arrival.now);
        } else {
            let exchange = &mut self.exchanges[number];
            if exchange.request.is_empty() {
                exchange.request.extend_from_slice(raw);
            }
            self.dispatch.enqueue(number);
        }
    }

    /// An answer that needs no server.
    fn answer_here(&mut self, id: u32, reply: &[u8], class: Class, noreply: bool, arrival: Arrival) {
        let number = self.begin(id, Operation::Other, arrival);
        let exchange = &mut self.exchanges[number];
        exchange.noreply = noreply;
        exchange.merge.local(class, reply);
        self.complete(number, arrival.now);
    }

    /// A value over the limit has gone by. As memcached does, `set` also removes the old value.
    fn refuse_large(&mut self, id: u32, now: Stamp) {
        let refused = self.clients[id].refused.take().expect("what is swallowed was refused");
        let Refused { received, reply, key, noreply, bytes_in } = *refused;
        let arrival = Arrival { bytes: bytes_in as usize, received, now };
        let Some((key, base64)) = key else {
            return self.answer_here(id, reply, class_of(reply), noreply, arrival);
        };
        let number = self.begin(id, Operation::Set, arrival);
        let exchange = &mut self.exchanges[number];
        exchange.noreply = noreply;
        exchange.visit.keys = 1;
        exchange.stage = Stage::Asked;
        exchange.merge.begin(How::Fixed(TOO_LARGE));
        let expect = match base64 {
            true => Expect::Meta { command: MetaCommand::Delete, value: false },
            false => Expect::Deleted,
        };
        for server in 0..self.servers.len() {
            self.ask(server, number, server as u16, true, expect, |out| match base64 {
                true => write::meta_delete(out, &key, true),
                false => write::delete(out, &key),
            });
        }
        self.complete_if_answered(number, now);
    }

    /// A worker takes the request and asks the servers its plan names.
    fn carry_out(&mut self, number: u32, request: &Request<'_>, taken: Taken, now: Stamp) {
        let exchange = &mut self.exchanges[number];
        exchange.stage = Stage::Asked;
        exchange.holds_worker = true;
        exchange.visit.taken = now;
        exchange.visit.busy_workers = taken.busy;
        exchange.visit.queue_length = taken.waiting;
        exchange.visit.worker_was_idle = taken.was_idle;
        let plan = route::plan(request, self.settings.multi_get);
        exchange.merge.begin(match plan {
            Plan::Sharded => How::InOrder,
            Plan::Everyone => How::Worst,
            _ => How::One,
        });
        exchange.decides_first = plan == Plan::FirstThenOthers;
        match request {
            Request::Retrieve(retrieve) => self.carry_out_retrieval(number, retrieve, plan),
            Request::Store(store) if plan == Plan::FirstThenOthers => {
                self.ask(0, number, 0, false, Expect::Stored, |out| write::store(out, store));
            }
            Request::Store(store) => self.ask_all(number, Expect::Stored, |out| write::store(out, store)),
            Request::Delete { key, .. } => {
                self.ask_all(number, Expect::Deleted, |out| write::delete(out, key));
            }
            Request::Arithmetic { command, key, delta, .. } => {
                self.ask_all(number, Expect::Number, |out| write::arithmetic(out, *command, key, *delta));
            }
            Request::Touch { key, exptime, .. } => {
                self.ask_all(number, Expect::Touched, |out| write::touch(out, key, *exptime));
            }
            Request::FlushAll { delay, .. } => {
                self.ask_all(number, Expect::Ok, |out| write::flush_all(out, *delay));
            }
            Request::Verbosity { level, .. } => {
                self.ask_all(number, Expect::Ok, |out| write::verbosity(out, *level));
            }
            Request::Meta(meta) if plan == Plan::First => {
                self.ask(0, number, 0, false, meta.expect(), |out| write::meta(out, meta));
            }
            Request::Meta(meta) => self.ask_all(number, meta.expect(), |out| write::meta(out, meta)),
            Request::NoOp | Request::Stats { .. } | Request::Version | Request::Quit => {
                unreachable!("answered without a worker")
            }
        }
        self.complete_if_answered(number, now);
    }

    fn carry_out_retrieval(&mut self, number: u32, retrieve: &krarup_memcache::Retrieve<'_>, plan: Plan) {
        let count = retrieve.keys.len();
        let (command, exptime) = (retrieve.command, retrieve.exptime);
        let expect = |keys: usize| Expect::Values { keys: keys as u32, unique: command.with_unique() };
        let asked = match plan {
            Plan::Sharded => {
                let mut runs = [(0, 0); 16];
                let mut many = Vec::new();
                let mut used = 0;
                self.balance.even(count, |server, keys| {
                    // More servers than the usual few are the only case that allocates.
                    match runs.get_mut(used) {
                        Some(run) => *run = (server, keys),
                        None => many.push((server, keys)),
                    }
                    used += 1;
                });
                let mut keys = retrieve.keys.iter();
                let runs = runs.iter().take(used).chain(&many);
                for (part, &(server, length)) in runs.enumerate() {
                    self.ask(server, number, part as u16, false, expect(length), |out| {
                        write::retrieve(out, command, exptime, keys.by_ref().take(length));
                    });
                }
                if used == 0 {
                    self.nobody_is_up(number);
                }
                return;
            }
            Plan::First | Plan::FirstAndTouch => Some(0),
            _ => self.balance.one(count),
        };
        let Some(server) = asked else { return self.nobody_is_up(number) };
        self.ask(server, number, 0, false, expect(count), |out| {
            write::retrieve(out, command, exptime, retrieve.keys.iter());
        });
        if command.touches() {
            let mut part = 0;
            for other in (0..self.servers.len()).filter(|&other| other != server) {
                for key in retrieve.keys.iter() {
                    part += 1;
                    self.ask(other, number, part, true, Expect::Touched, |out| {
                        write::touch(out, key, exptime);
                    });
                }
            }
        }
    }

    fn ask_all(&mut self, number: u32, expect: Expect, mut request: impl FnMut(&mut Vec<u8>)) {
        for server in 0..self.servers.len() {
            self.ask(server, number, server as u16, false, expect, &mut request);
        }
    }

    /// Puts a part of a request on its way to a server; where that is down, the part has failed already.
    fn ask(
        &mut self,
        server: usize,
        number: u32,
        part: u16,
        follows: bool,
        expect: Expect,
        request: impl FnOnce(&mut Vec<u8>),
    ) {
        let exchange = &mut self.exchanges[number];
        let link = &mut self.servers[server];
        if link.health != Health::Up {
            exchange.failure = Some(Outcome::ServerLost);
            let text = format!("SERVER_ERROR {} is down\r\n", link.name);
            return exchange.merge.fail(part, Class::ServerError, text.as_bytes());
        }
        exchange.waiting += 1;
        self.in_flight += 1;
        link.expect(number, part, follows, expect);
        request(link.out.tail());
        self.touch_server(server);
    }

    fn nobody_is_up(&mut self, number: u32) {
        let exchange = &mut self.exchanges[number];
        exchange.failure = Some(Outcome::ServerLost);
        let names = self.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(", ");
        let text = format!("SERVER_ERROR no server is up ({names})\r\n");
        exchange.merge.fail(0, Class::ServerError, text.as_bytes());
    }

    fn touch_server(&mut self, server: usize) {
        let link = &mut self.servers[server];
        if !link.dirty {
            link.dirty = true;
            self.dirty_servers.push(server);
        }
    }

    // ---- servers ----------------------------------------------------------------------------------------

    /// A connection to the server stands: it is asked for its version, and is up when it has told.
    pub fn server_connected(&mut self, server: usize) {
        self.servers[server].greet();
        self.touch_server(server);
    }

    /// Requests that wait to be written to this server.
    pub fn server_output(&self, server: usize) -> &[u8] {
        self.servers[server].out.unsent()
    }

    /// The first `count` bytes of the output left in a write begun at `before`.
    pub fn server_written(&mut self, server: usize, count: usize, before: Stamp) {
        self.servers[server].written(count, before);
    }

    /// Offers the bytes a server has sent and that were not used so far; the last came at `now`. Returns how many are used up.
    ///
    /// # Errors
    /// Why the connection must not be trusted any more. Then it is closed and [`Self::server_lost`] called: failing closed is
    /// what keeps one client's data from another when requests and answers are out of step.
    pub fn server_bytes(&mut self, server: usize, bytes: &[u8], now: Stamp) -> Result<usize, String> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let distrust = |why: &str| {
                let line = rest.split(|&byte| byte == b'\n').next().unwrap_or(rest);
                let shown = String::from_utf8_lossy(&line[..line.len().min(60)]).trim_end().to_owned();
                Err(format!("{why}: `{}`", shown.escape_debug()))
            };
            let Some(front) = self.servers[server].front() else {
                self.events.desynchronised += 1;
                return distrust("an answer to nothing");
            };
            if front.sent.is_none() {
                self.events.desynchronised += 1;
                return distrust("an answer before its question");
            }
            match response::parse(rest, front.expect) {
                Parsed::Complete { message, used: length } => {
                    let read_whole = front.expect.read_whole(&message);
                    let pending = self.servers[server].pop().expect("somebody is owed the answer");
                    self.answered(server, pending, &message, now);
                    used += length;
                    if !read_whole {
                        self.events.desynchronised += 1;
                        self.pump(now);
                        return distrust("fault found with a request that is well formed");
                    }
                }
                Parsed::Incomplete { .. } => break,
                Parsed::Invalid(why) => {
                    self.events.desynchronised += 1;
                    self.pump(now);
                    return distrust(why);
                }
            }
        }
        self.pump(now);
        Ok(used)
    }

    /// The connection to a server is lost, or could not be made. Everything asked of it is answered with an error that says `why`.
    pub fn server_lost(&mut self, server: usize, why: &str, outcome: Outcome, now: Stamp) {
        self.events.server_losses += 1;
        self.balance.went_down(server);
        let link = &mut self.servers[server];
        link.health = Health::Down;
        link.out.clear();
        link.losses += 1;
        link.last_loss = Some(why.to_owned());
        link.answered_since_up = 0;
        // The text is one line whatever the system or the server said.
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let text = format!("SERVER_ERROR {}: {why}\r\n", link.name);
        while let Some(pending) = self.servers[server].pop() {
            if pending.exchange == NOBODY {
                continue;
            }
            self.in_flight -= 1;
            let exchange = &mut self.exchanges[pending.exchange];
            exchange.failure = Some(outcome);
            if let Some(sent) = pending.sent {
                exchange.servers.push(ServerVisit { server: server as u16, outcome, sent, answered: now });
            }
            exchange.merge.fail(pending.part, Class::ServerError, text.as_bytes());
            exchange.waiting -= 1;
            exchange.decides_first = false;
            self.complete_if_answered(pending.exchange, now);
        }
        self.pump(now);
    }

    /// Whether an answer is overdue at `now`.
    pub fn server_overdue(&mut self, server: usize, now: Stamp) -> bool {
        let overdue = self.server_deadline(server).is_some_and(|deadline| deadline <= now);
        self.events.timeouts += u64::from(overdue);
        overdue
    }

    /// When the oldest answer will be overdue.
    pub fn server_deadline(&self, server: usize) -> Option<Stamp> {
        self.servers[server].oldest_sent().map(|sent| sent + self.settings.timeout)
    }

    /// Whether the server takes requests.
    pub fn server_is_up(&self, server: usize) -> bool {
        self.servers[server].health == Health::Up
    }

    fn answered(&mut self, server: usize, pending: Pending, reply: &Reply<'_>, now: Stamp) {
        if pending.exchange == NOBODY {
            return self.greeted(server, reply);
        }
        self.in_flight -= 1;
        self.servers[server].answered_since_up += 1;
        let number = pending.exchange;
        let exchange = &mut self.exchanges[number];
        let sent = pending.sent.expect("only what was sent is answered");
        let outcome = outcome_of(reply.class);
        exchange.servers.push(ServerVisit { server: server as u16, outcome, sent, answered: now });
        exchange.waiting -= 1;
        let client = exchange.client;
        let told = !exchange.noreply && exchange.quiet.is_none();
        let plain = exchange.merge.is_plain() && exchange.waiting == 0 && told;
        if plain
            && !exchange.decides_first
            && client != NOBODY
            && self.clients[client].next_to_render == number
        {
            self.render_directly(client, number, reply);
            // Others behind it may have been answered before it.
            self.render(client);
            return self.settle(client, now);
        }
        if pending.follows {
            exchange.merge.follow(pending.part, reply);
        } else {
            exchange.merge.add(pending.part, reply);
        }
        if exchange.decides_first {
            exchange.decides_first = false;
            if reply.class == Class::Stored {
                self.copy_to_others(number);
            }
        }
        self.complete_if_answered(number, now);
    }

    fn greeted(&mut self, server: usize, reply: &Reply<'_>) {
        let link = &mut self.servers[server];
        link.health = Health::Up;
        if reply.class == Class::Version {
            let line = String::from_utf8_lossy(reply.line());
            link.version = Some(line.trim_start_matches("VERSION ").to_owned());
        }
        self.balance.came_up(server);
    }

    /// The first server has stored what a `cas` brought: the others get it as it is.
    fn copy_to_others(&mut self, number: u32) {
        let raw = std::mem::take(&mut self.exchanges[number].request);
        if let Parsed::Complete { message: Request::Store(store), .. } =
            request::parse(&raw, &self.settings.limits)
        {
            self.exchanges[number].merge.widen();
            for server in 1..self.servers.len() {
                self.ask(server, number, server as u16, false, Expect::Stored, |out| {
                    write::storage(out, Storage::Set, store.key, store.flags, store.exptime, 0, store.data);
                });
            }
        }
        self.exchanges[number].request = raw;
    }

    // ---- replies ----------------------------------------------------------------------------------------

    fn complete_if_answered(&mut self, number: u32, now: Stamp) {
        if self.exchanges[number].waiting == 0 {
            self.complete(number, now);
        }
    }

    fn complete(&mut self, number: u32, now: Stamp) {
        let exchange = &mut self.exchanges[number];
        exchange.stage = Stage::Done;
        let client = exchange.client;
        if client == NOBODY {
            return self.finish(number, now);
        }
        if self.clients[client].next_to_render == number {
            self.render(client);
            self.settle(client, now);
        }
    }

    /// Moves all replies whose turn it is into the client's outbox.
    fn render(&mut self, id: u32) {
        loop {
            let client = &mut self.clients[id];
            let number = client.next_to_render;
            if number == NOBODY || self.exchanges[number].stage != Stage::Done {
                break;
            }
            let exchange = &mut self.exchanges[number];
            let start = client.out.end();
            let merged = exchange.merge.render(client.out.tail());
            let quiet = exchange.quiet.is_some_and(|command| response::suppressed(command, merged.class));
            if exchange.noreply || quiet {
                let written = (client.out.end() - start) as usize;
                let tail = client.out.tail();
                tail.truncate(tail.len() - written);
            }
            self.rendered(id, number, start, merged);
        }
        if self.clients[id].closing {
            self.touch_client(id);
        }
    }

    /// The one answer of a request whose turn it is goes straight into the client's outbox: the usual case.
    fn render_directly(&mut self, id: u32, number: u32, reply: &Reply<'_>) {
        let out = &mut self.clients[id].out;
        let start = out.end();
        out.tail().extend_from_slice(reply.bytes);
        self.rendered(id, number, start, Merged { class: reply.class, hits: reply.hits, disagreed: false });
    }

    /// The reply of `number` stands in the client's outbox from `start` on.
    fn rendered(&mut self, id: u32, number: u32, start: u64, merged: Merged) {
        let client = &mut self.clients[id];
        let exchange = &mut self.exchanges[number];
        let visit = &mut exchange.visit;
        visit.bytes_out = client.out.end() - start;
        visit.outcome = match outcome_of(merged.class) {
            Outcome::ServerError => exchange.failure.unwrap_or(Outcome::ServerError),
            outcome => outcome,
        };
        if merged.class == Class::Values {
            visit.hits = merged.hits;
            visit.misses = visit.keys - merged.hits;
        }
        self.events.disagreements += u64::from(merged.disagreed);
        exchange.stage = Stage::Rendered(client.out.end());
        client.next_to_render = exchange.next;
        if visit.bytes_out > 0 {
            self.touch_client(id);
        }
    }

    /// Everything whose reply has left is finished.
    fn settle(&mut self, id: u32, now: Stamp) {
        loop {
            let client = &mut self.clients[id];
            let number = client.oldest;
            if number == NOBODY {
                client.youngest = NOBODY;
                break;
            }
            match self.exchanges[number].stage {
                Stage::Rendered(end) if end <= client.out.position() => {
                    client.oldest = self.exchanges[number].next;
                    client.outstanding -= 1;
                    if client.barrier == number {
                        client.barrier = NOBODY;
                    }
                    self.finish(number, now);
                }
                _ => break,
            }
        }
        let client = &mut self.clients[id];
        if client.held_back && !client.starving && !client.runnable {
            client.runnable = true;
            self.runnable.push(id);
        }
    }

    /// The reply has left, or has nowhere to go: one row, and the worker is free.
    fn finish(&mut self, number: u32, now: Stamp) {
        let exchange = &mut self.exchanges[number];
        exchange.visit.replied = now;
        if exchange.client == NOBODY {
            exchange.visit.outcome = Outcome::ClientGone;
        }
        self.recorder.record(&exchange.visit, &exchange.servers);
        if let Some(rows) = &mut self.rows {
            rows.row(&exchange.visit, &exchange.servers);
        }
        if exchange.holds_worker {
            self.dispatch.release();
        }
        self.exchanges[number].end();
        self.exchanges.give_back(number);
    }

    /// Free workers take what waits; then those who waited for room are listened to again.
    fn pump(&mut self, now: Stamp) {
        while let Some((number, taken)) = self.dispatch.take_next() {
            // Taken out while it is read, and put back with its memory: a `cas` needs it once more.
            let raw = std::mem::take(&mut self.exchanges[number].request);
            match request::parse(&raw, &self.settings.limits) {
                Parsed::Complete { message, .. } => self.carry_out(number, &message, taken, now),
                other => unreachable!("what was a request when it was queued is none now: {other:?}"),
            }
            self.exchanges[number].request = raw;
        }
        while self.dispatch.has_room()
            && let Some(id) = self.starving.pop_front()
        {
            let client = &mut self.clients[id];
            client.starving = false;
            if !client.runnable {
                client.runnable = true;
                self.runnable.push(id);
            }
            // One place in the queue wakes one client; the next place, the next.
            if self.runnable.len() + self.dispatch.waiting() >= self.settings.queue.max(1) {
                break;
            }
        }
    }

    // ---- for the engine ---------------------------------------------------------------------------------

    /// Servers that have something to write, since the last call; `into` is emptied first.
    pub fn take_dirty_servers(&mut self, into: &mut Vec<usize>) {
        into.clear();
        std::mem::swap(&mut self.dirty_servers, into);
        for &server in &*into {
            self.servers[server].dirty = false;
        }
    }

    /// Clients that have something to write, or to be closed, since the last call; `into` is emptied first.
    pub fn take_dirty_clients(&mut self, into: &mut Vec<u32>) {
        into.clear();
        std::mem::swap(&mut self.dirty_clients, into);
        for &client in &*into {
            self.clients[client].dirty = false;
        }
    }

    /// Clients that were held back and are listened to again, since the last call; `into` is emptied first.
    pub fn take_runnable(&mut self, into: &mut Vec<u32>) {
        into.clear();
        std::mem::swap(&mut self.runnable, into);
        for &client in &*into {
            self.clients[client].runnable = false;
            self.clients[client].held_back = false;
        }
    }

    /// Requests, or parts of them, that servers owe an answer.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Clients connected now.
    pub fn clients(&self) -> usize {
        self.clients.used()
    }

    /// Requests accepted and not finished.
    pub fn unfinished(&self) -> usize {
        self.exchanges.used()
    }

    /// What was recorded.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Opens the windows up to `now`, also those in which nothing happened.
    pub fn advance(&mut self, now: Stamp) {
        self.recorder.advance(now);
    }

    /// What happened.
    pub fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub(crate) fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Everything counted is forgotten; what is under way is counted when it ends.
    fn reset(&mut self, now: Stamp) {
        self.recorder.reset();
        self.recorder.advance(now);
        self.events = Events::default();
        self.dispatch.forget_longest();
        self.counting_since = now;
    }

    pub(crate) fn counting_since(&self) -> Stamp {
        self.counting_since
    }

    pub(crate) fn started(&self) -> Stamp {
        self.started
    }

    /// `VERSION`: the oldest of the servers', because that is what clients can count on, and our own.
    fn version(&self) -> (Class, String) {
        let number = |version: &str| {
            version.split('.').map(|part| part.parse::<u32>().unwrap_or(0)).collect::<Vec<_>>()
        };
        let oldest =
            self.servers.iter().filter_map(|server| server.version.as_deref()).min_by_key(|v| number(v));
        match oldest {
            Some(version) => {
                (Class::Version, format!("VERSION {version} krarup-{}\r\n", env!("CARGO_PKG_VERSION")))
            }
            None => (Class::ServerError, "SERVER_ERROR no server has told its version yet\r\n".to_owned()),
        }
    }
}

fn outcome_of(class: Class) -> Outcome {
    match class.severity() {
        0 | 1 => Outcome::Ok,
        2 => Outcome::ClientError,
        _ => Outcome::ServerError,
    }
}

/// The kind of an answer of our own making.
fn class_of(reply: &[u8]) -> Class {
    if reply.starts_with(b"SERVER_ERROR") {
        Class::ServerError
    } else if reply.starts_with(b"CLIENT_ERROR") || reply.is_empty() {
        Class::ClientError
    } else if reply == b"END\r\n" {
        Class::Values
    } else {
        Class::Error
    }
}

#[cfg(test)]
mod tests;
