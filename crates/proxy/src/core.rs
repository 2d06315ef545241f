//! The drawing of one request, in code. No socket, no clock: bytes and stamps come in, bytes go
//! out.
//!
//! ```text
//! read ─▶ accept ─▶ (queue) ─▶ ask ─▶ [server outbox] ─▶ server_written  stamps `sent`
//! `received` route `queued`                                   │
//!                   `taken`                                   ▼
//! written ◀─ [client outbox] ◀─ render ◀─ complete ◀─ server_read  stamps `answered`
//! stamps `replied`              merge
//!        └──▶ finish: one row, and the worker takes the next request
//! ```
//!
//! The engine around it moves the bytes. Whatever it does, in whatever order it does it, every
//! request that was accepted is answered exactly once, in the order of its client.

use std::collections::HashMap;

use krarup_memcache::request::{self, Refusal, TOO_LARGE};
use krarup_memcache::{Limits, Parsed, ReplyClass, Request, Storage, write};
use krarup_record::{HotKeySnapshot, KeyDigest, LiveSnapshot, Operation, Recorder};
use krarup_units::Stamp;
use smallvec::SmallVec;

use crate::books::Books;
use crate::clients::{Clients, Refused};
use crate::deadlines::Deadlines;
use crate::dispatch::Dispatch;
use crate::edge::Dangerous;
use crate::exchange::Stage;
use crate::hot_keys::HotKeyMode;
use crate::ids::{ClientId, RequestId};
use crate::large::RequestBytes;
use crate::merge::How;
use crate::pool::{Pool, PoolCounts, ReadPush};
use crate::requests::Requests;
use crate::route::{self, Routes};
use crate::routing::Routing;
use crate::slow::Slowest;
use crate::topology::Topology;
use crate::upstreams::Servers;

mod answer;
mod clients;
mod coalesce;
mod connections;
mod decisions;
mod detached;
mod expected;
mod fallback;
mod forward;
mod hedging;
mod inquiry;
mod large;
mod loops;
mod meta;
mod reload;
mod reply;
mod threads;
mod window;

pub use crate::books::{Events, RowSink};
pub use crate::dispatch::QueueState;
pub use crate::large::LARGE_REQUEST;
pub use crate::settings::CoreSettings;
pub use inquiry::Inquiry;
pub use reload::Reconfigured;
pub use threads::QueueChoice;

/// So many requests of one client are accepted before others have their turn.
const A_TURN: u32 = 32;

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
    settings: CoreSettings,
    clients: Clients,
    upstreams: Servers,
    requests: Requests,
    /// The writes that first holders are asked for before the others, by their keys, in the order
    /// they were sent.
    deciding: HashMap<KeyDigest, SmallVec<[RequestId; 2]>>,
    dispatch: Dispatch,
    routing: Routing,
    deadlines: Deadlines,
    books: Books,
    /// Whether it is one of several, so that statistics are not its own alone; and what clients
    /// have asked of all.
    one_of_several: bool,
    inquiries: Vec<Inquiry>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("events", self.events()).finish_non_exhaustive()
    }
}

impl Core {
    /// A middleware before the servers of `topology`, all of them down yet. It has at least one
    /// pool.
    pub fn new(settings: CoreSettings, topology: Topology, recorder: Recorder, started: Stamp) -> Self {
        assert!(!topology.pools.is_empty(), "there is at least one pool");
        let books = Books::new(recorder, settings.slow_requests, settings.hot_keys, started);
        let (unix, ramp) = (settings.unix, settings.return_over);
        let routing = Routing::new(topology.pools, topology.routes, unix, ramp);
        let upstreams = Servers::new(topology.servers, settings.upstreams());
        let mut dispatch = Dispatch::new(settings.workers, settings.queue);
        for number in routing.ids() {
            let pool = &routing[number];
            dispatch.readers_mut().set(number, pool.servers(), pool.spec().readers);
        }
        Self::of(settings, routing, upstreams, dispatch, books)
    }

    /// Of these parts, without clients and requests.
    fn of(
        settings: CoreSettings,
        routing: Routing,
        upstreams: Servers,
        dispatch: Dispatch,
        books: Books,
    ) -> Self {
        Self {
            settings,
            clients: Clients::new(),
            upstreams,
            requests: Requests::new(),
            deciding: HashMap::new(),
            dispatch,
            routing,
            deadlines: Deadlines::default(),
            books,
            one_of_several: false,
            inquiries: Vec::new(),
        }
    }

    /// Every row from now on also goes to `sink`. It is the core at `place` among `of` whose rows
    /// go to the same place, so that no two of their connections have one number.
    pub fn keep_rows(&mut self, sink: Box<dyn RowSink>, place: u16, of: u16) {
        self.books.keep_rows(sink, place, of);
    }

    /// Keeps what a model of the running traffic needs, from now on: 1.6 MiB.
    pub fn keep_live(&mut self) {
        self.books.keep_live();
    }

    /// What is kept of it at `now`; nothing without [`Self::keep_live`].
    pub fn live(&self, now: Stamp) -> LiveSnapshot {
        self.books.live(now)
    }

    /// Gives a server a set share of its pool's reads; none: every pool chooses by itself again.
    pub fn push_reads(&mut self, push: Option<&ReadPush>) {
        let server = push.and_then(|push| self.upstreams.find(&push.server));
        for pool in self.routing.pools_mut() {
            let of_it = push.filter(|push| !pool.is_retired() && pool.spec().name == push.pool);
            let share = of_it.and_then(|push| Some((server?, push.share, push.until)));
            pool.push(share);
        }
    }

    /// Samples requests for the keys that take most, from now on, unless the settings say
    /// [`HotKeyMode::Off`]. The seed decides which.
    pub fn sample_keys(&mut self, seed: u64) {
        self.books.sampling().begin_sampling(seed);
    }

    /// What is kept of the keys that take most, and what that is.
    pub(crate) fn hot_keys(&self, now: Stamp) -> (HotKeyMode, HotKeySnapshot) {
        self.books.hot_keys(now)
    }

    /// The time of day at the clock's zero is this by what the wall shows now, in seconds since
    /// 1970. By it expiry times are judged, which clients write in the time of day.
    pub fn set_unix(&mut self, unix: u64) {
        self.routing.set_unix(unix);
    }

    /// No more rows will come: the writer that takes them can finish.
    pub fn end_rows(&mut self) {
        self.books.end_rows();
    }

    // ---- clients --------------------------------------------------------------------------------

    fn read_client(&mut self, id: ClientId, source: RequestBytes<'_>, received: Stamp, now: Stamp) -> usize {
        let RequestBytes { bytes, memory } = source;
        let mut used = 0;
        let value = self.settings.limits.value;
        let mut limits = Limits { value: value.max(self.clients.promised(id)), ..self.settings.limits };
        let mut turn = A_TURN;
        loop {
            let rest = &bytes[used..];
            if self.clients.discards(id) {
                let (gone, refused) = self.clients.discard(id, rest.len());
                used += gone;
                let Some(refused) = refused else { break };
                self.refuse_large(id, *refused, received, now);
                continue;
            }
            if rest.is_empty() || !self.listens_to(id) {
                break;
            }
            if turn == 0 {
                self.clients.hold_back(id);
                self.clients.make_runnable(id);
                break;
            }
            turn -= 1;
            match request::parse(rest, &limits) {
                Parsed::Complete { message, used: length } => {
                    if self.expects_too_much(id, &message) || self.flushes_too_early(id, &message) {
                        self.books.count(|events| &mut events.held_back);
                        self.clients.hold_back(id);
                        break;
                    }
                    if self.waits_for_window(id, &message, length, now) {
                        self.clients.hold_back(id);
                        break;
                    }
                    let source = RequestBytes { bytes: &rest[..length], memory };
                    self.accept(id, &message, source, Arrival { bytes: length, received, now });
                    self.leave_window(id);
                    used += length;
                }
                Parsed::Incomplete { needed } => {
                    // As long as its line is not whole, its value is not known of.
                    let promised = if rest.contains(&b'\n') { needed } else { 0 };
                    self.clients.needs(id, needed, promised);
                    break;
                }
                Parsed::Invalid(refusal) => {
                    if matches!(refusal, Refusal::TooLarge { command: Storage::Set, .. })
                        && self.clients.has_unsent(id, &self.requests)
                    {
                        // What the client asked before is sent before the old value is removed.
                        self.books.count(|events| &mut events.held_back);
                        self.clients.hold_back(id);
                        break;
                    }
                    used += self.refuse_invalid(id, refusal, rest, received, now);
                }
            }
            // It has passed, and the next one is taken under the limits of now.
            limits.value = value;
            self.clients.needs(id, 0, 0);
        }
        if self.clients.window_wait(id).is_some_and(|wait| wait.admitted) {
            // It had its turn, and cannot take it.
            self.leave_window(id);
        }
        self.pump(now);
        used
    }

    /// Answers what is no request, at the front of `bytes`; how many of these are used up. What is
    /// too large is gone past.
    fn refuse_invalid(
        &mut self,
        id: ClientId,
        refusal: Refusal<'_>,
        bytes: &[u8],
        received: Stamp,
        now: Stamp,
    ) -> usize {
        match refusal {
            Refusal::Answer { reply, used } => {
                let arrival = Arrival { bytes: used, received, now };
                self.answer_here(id, reply, class_of(reply), reply.is_empty(), arrival);
                used
            }
            Refusal::TooLarge { command, key, base64, used, discard, noreply } => {
                let key = (command == Storage::Set).then(|| (key.to_vec(), base64));
                let bytes_in = used as u64 + discard;
                let refused = Refused { reply: TOO_LARGE, key, noreply, bytes_in };
                self.clients.refuse(id, discard, refused);
                used
            }
            Refusal::Discard { reply, used, discard } => {
                let bytes_in = used as u64 + discard;
                let refused = Refused { reply, key: None, noreply: false, bytes_in };
                self.clients.refuse(id, discard, refused);
                used
            }
            Refusal::Close { reply } => {
                let mut last = Vec::new();
                write::closing_reply(&mut last, bytes, reply);
                let arrival = Arrival { bytes: bytes.len(), received, now };
                self.answer_here(id, &last, class_of(&last), last.is_empty(), arrival);
                self.close_after_replies(id);
                bytes.len()
            }
        }
    }

    /// What the driver's buffers hold, and whether clients wait because that is too much, as it was
    /// noted.
    pub(crate) fn memory(&self) -> (usize, bool) {
        self.clients.memory()
    }

    fn close_after_replies(&mut self, id: ClientId) {
        self.leave_window(id);
        self.clients.end(id);
    }

    /// Whether one more request can be taken, or wait.
    fn has_room(&self) -> bool {
        self.dispatch.has_room() && self.dispatch.readers().waiting() < self.settings.queue
    }

    /// Whether one more request of this client may be read; if not, it is told when to come back.
    fn listens_to(&mut self, id: ClientId) -> bool {
        let room = self.has_room();
        let CoreSettings { pipeline, reply_buffer, .. } = self.settings;
        self.clients.listens(id, room, pipeline, reply_buffer, &mut self.books)
    }

    /// Whether a retrieval waits until a reply to its client has left, because so much is likely to
    /// come for what is under way.
    fn expects_too_much(&self, id: ClientId, request: &Request<'_>) -> bool {
        self.clients.has_outstanding(id)
            && self.requests.expected() + self.clients.typical_reply(id) > self.settings.replies
            && route::retrieves(request)
    }

    /// Whether all values are to go while what the client asked before is still to be sent: the
    /// copy behind a write would bring back what has gone.
    fn flushes_too_early(&self, id: ClientId, request: &Request<'_>) -> bool {
        matches!(request, Request::FlushAll { .. }) && self.clients.has_unsent(id, &self.requests)
    }

    // ---- requests -------------------------------------------------------------------------------

    /// A new request, the youngest of its client.
    fn begin(&mut self, id: ClientId, operation: Operation, arrival: Arrival) -> RequestId {
        self.books.count(|events| &mut events.requests);
        let number = self.requests.begin(id, self.clients.entry(id), operation, arrival.received);
        let visit = &mut self.requests[number].visit;
        visit.bytes_in = arrival.bytes as u64;
        visit.queued = arrival.now;
        visit.taken = arrival.now;
        self.clients.append(id, number, &mut self.requests);
        number
    }

    fn accept(&mut self, id: ClientId, request: &Request<'_>, source: RequestBytes<'_>, arrival: Arrival) {
        match request {
            Request::Quit => {
                self.answer_here(id, b"", ReplyClass::Ok, true, arrival);
                return self.close_after_replies(id);
            }
            Request::NoOp => return self.answer_here(id, request::NO_OP, ReplyClass::Ok, false, arrival),
            Request::Version => {
                let (class, text) = self.version();
                return self.answer_here(id, text.as_bytes(), class, false, arrival);
            }
            Request::Stats { argument } => return self.statistics(id, argument, arrival),
            Request::FlushAll { .. } if self.refuses(Dangerous::FlushAll) => {
                return self.refuse(id, Dangerous::FlushAll, request.noreply(), arrival);
            }
            Request::Verbosity { .. } if self.refuses(Dangerous::Verbosity) => {
                return self.refuse(id, Dangerous::Verbosity, request.noreply(), arrival);
            }
            _ => {}
        }
        let (operation, keys) = route::operation(request);
        let number = self.begin(id, operation, arrival);
        let exchange = &mut self.requests[number];
        exchange.visit.keys = keys;
        exchange.noreply = request.noreply();
        exchange.quiet = match request {
            Request::Meta(meta) if meta.quiet => Some(meta.command),
            _ => None,
        };
        exchange.decides = crate::meta::one_decides(request);
        if exchange.decides {
            // Its second step reads the value again, and what the client sends next may depend on
            // it.
            self.clients.wait_for_youngest(id);
        }
        if route::retrieves(request) {
            self.requests.expect(number, self.clients.typical_reply(id));
        }
        if let Some(mut taken) = self.dispatch.take_at_once() {
            if let Some(seen) = self.dispatch.take_seen() {
                self.requests[number].visit.queued = seen.queued;
                taken = seen.taken();
            }
            self.carry_out(number, request, source, taken, arrival.now);
        } else {
            self.requests.keep(number, source);
            self.dispatch.enqueue(number, source.bytes.len());
        }
    }

    fn refuses(&self, command: Dangerous) -> bool {
        self.settings.refused.contains(&command)
    }

    fn refuse(&mut self, id: ClientId, command: Dangerous, noreply: bool, arrival: Arrival) {
        self.books.count(|events| &mut events.commands_refused);
        self.answer_here(id, command.refusal(), ReplyClass::ClientError, noreply, arrival);
    }

    /// An answer that needs no server.
    fn answer_here(
        &mut self,
        id: ClientId,
        reply: &[u8],
        class: ReplyClass,
        noreply: bool,
        arrival: Arrival,
    ) {
        let number = self.begin(id, Operation::Other, arrival);
        let exchange = &mut self.requests[number];
        exchange.noreply = noreply;
        exchange.rest.merge.local(class, reply);
        self.complete(number, arrival.now);
    }

    /// A value over the limit has gone by, its last byte with what was `received`. As memcached
    /// does, `set` also removes the old value.
    fn refuse_large(&mut self, id: ClientId, refused: Refused, received: Stamp, now: Stamp) {
        let Refused { reply, key, noreply, bytes_in } = refused;
        let arrival = Arrival { bytes: bytes_in as usize, received, now };
        let Some((key, base64)) = key else {
            return self.answer_here(id, reply, class_of(reply), noreply, arrival);
        };
        let number = self.begin(id, Operation::Set, arrival);
        let exchange = &mut self.requests[number];
        exchange.entry = self.routing.living(exchange.entry);
        exchange.noreply = noreply;
        exchange.visit.keys = 1;
        exchange.stage = Stage::Sent;
        self.remove_quietly(number, &key, base64, now);
        self.requests[number].rest.merge.begin(How::Fixed(TOO_LARGE));
        self.complete_if_answered(number, now);
    }

    // ---- for the engine -------------------------------------------------------------------------

    /// Whether there is a client to write to, or to read from again.
    pub fn has_more_to_do(&self) -> bool {
        self.upstreams.has_dirty() || self.clients.has_news()
    }

    /// Requests, or parts of them, that servers owe an answer.
    pub fn in_flight(&self) -> usize {
        self.upstreams.in_flight() + self.books.elsewhere().in_flight
    }

    /// Requests accepted whose reply has not left.
    pub fn in_progress(&self) -> usize {
        self.requests.in_progress() + self.books.elsewhere().in_progress
    }

    /// The same, and those whose reply has left before all servers had answered.
    pub fn unfinished(&self) -> usize {
        self.requests.len()
    }

    /// What was recorded, once [`Self::settle_books`] has been called.
    pub fn recorder(&self) -> &Recorder {
        self.books.recorder()
    }

    /// Records all that is finished.
    pub fn settle_books(&mut self) {
        self.books.settle();
    }

    /// Opens the windows up to `now`, also those in which nothing happened.
    pub fn advance(&mut self, now: Stamp) {
        self.books.advance(now);
    }

    /// What happened.
    pub fn events(&self) -> &Events {
        self.books.events()
    }

    pub(crate) fn counted(&self) -> &Books {
        &self.books
    }

    /// What the pool of this number did since the start.
    pub(crate) fn counts_since_start(&self, pool: usize) -> PoolCounts {
        let mut all = *self.routing.pools()[pool].counts();
        if let Some(before) = self.books.counts_before_reset(pool) {
            all.absorb(before);
        }
        all
    }

    pub(crate) fn upstreams(&self) -> &Servers {
        &self.upstreams
    }

    pub(crate) fn slowest(&self) -> &Slowest {
        self.books.slowest()
    }

    pub(crate) fn pools(&self) -> &[Pool] {
        self.routing.pools()
    }

    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    pub(crate) fn routes(&self) -> &Routes {
        self.routing.routes()
    }

    pub(crate) fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// How it was told to work.
    pub fn settings(&self) -> &CoreSettings {
        &self.settings
    }

    pub(crate) fn counting_since(&self) -> Stamp {
        self.books.counting_since()
    }

    pub(crate) fn started(&self) -> Stamp {
        self.books.started()
    }

    /// `VERSION`: the oldest of the servers', because that is what clients can count on, and our
    /// own.
    fn version(&self) -> (ReplyClass, String) {
        match self.version_text() {
            Some(version) => (ReplyClass::Version, format!("VERSION {version}\r\n")),
            None => {
                (ReplyClass::ServerError, "SERVER_ERROR no server has told its version yet\r\n".to_owned())
            }
        }
    }

    /// The version that `version` and `stats` tell alike; none until a server has told its own.
    pub(crate) fn version_text(&self) -> Option<String> {
        let oldest = self.upstreams.oldest_version();
        oldest.map(|version| format!("{version} krarup-{}", env!("CARGO_PKG_VERSION")))
    }
}

/// The kind of an answer of our own making.
fn class_of(reply: &[u8]) -> ReplyClass {
    if reply.starts_with(b"SERVER_ERROR") {
        ReplyClass::ServerError
    } else if reply.starts_with(b"CLIENT_ERROR") || reply.is_empty() {
        ReplyClass::ClientError
    } else if reply == b"END\r\n" {
        ReplyClass::Values
    } else if reply == b"STORED\r\n" {
        ReplyClass::Stored
    } else {
        ReplyClass::Error
    }
}

#[cfg(test)]
mod tests;
