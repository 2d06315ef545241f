//! The life of a request, without sockets or a clock: bytes come, are understood, carried out,
//! answered in order.
//!
//! ```text
//! client ─▶ bytes ─▶ request ─▶ queues ─▶ answer ──────────────────▶ outbox ─▶ client
//!           received    parse    decide      │                          ▲      replied
//!                                            └─ changed something: ─────┤
//!                                               waits for its commit    │
//!                       ┌────────────────────────────────────────────── │ ──┐
//!                       │ batch: all that waits ─▶ store ─▶ committed ──┘   │
//!                       └────────────── taken, sent ──── answered ──────────┘
//! ```
//!
//! Each client's requests are carried out one after the other and answered in their order. Puts,
//! and what names another message by its number, may be carried out while earlier puts of the same
//! client wait for their commit; whatever asks what there is waits until they are committed, so
//! that every client sees what it has put.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use krarup_beanstalk::{LineError, PutBatch, ReplyWord, Request, RequestSubject, Verb, reply, write};
use krarup_record::file::rows::Lane;
use krarup_record::{LiveSnapshot, Operation, Outcome as Ending, Recorder, ServerVisit, Visit};
use krarup_units::{Nanos, Outbox, Stamp};

use crate::batches::BatchStatistics;
use crate::changes::CommitBatch;
use crate::counts::{VerbCounts, operation};
use crate::database::{DatabaseReply, QueuedRequest, RequestTimes};
use crate::job::ClientId;
use crate::memcached::{ReplyFormat, UNAUTHENTICATED};
use crate::owner::{self, OwnerOutcome};
use crate::queues::{After, Fetch, Fetched, Queues, ReserveResult, Totals};
use crate::report::TubesState;
use crate::shared::{self, SharedQueues};
use crate::statistics::{self, BrokerState, ProcessFacts};
use crate::visits::{StoreLanes, VisitRecords};
use session::QueueSession;

mod memcached;
mod service;
mod session;

pub use service::MEMCACHED;

/// Bytes of replies that wait to leave: a client with more is not read.
pub const MOST_UNSENT: usize = 256 << 10;
/// The same of those that wait for their commit, which takes longer than to leave.
const MOST_UNCOMMITTED: usize = 1 << 20;
/// A client that has said so many wrong secrets is heard no more.
pub const MOST_WRONG_SECRETS: u8 = 3;
/// No request that says the secret is longer, in either protocol.
const LONGEST_LOGIN: usize = 1_024;
/// Answers of one client that wait for a commit.
const MOST_SLOTS: usize = 4_096;
/// So many short requests of one client, or fewer that take longer, are carried out before others
/// have their turn: what they put still shares a batch, and what they are answered a write.
const A_TURN: u32 = 1_024;
/// So many tubes are looked at in the time of a short request.
const TUBES_A_REQUEST: usize = 64;
/// Memory that a quiet client keeps.
const KEEP: usize = 4 << 10;

/// Settings of the broker.
#[derive(Clone, Debug)]
pub struct BrokerSettings {
    /// What does not change, for `stats`.
    pub about: ProcessFacts,
    /// The largest body, in bytes.
    pub largest: u32,
    /// What a client must say with `login` before anything else.
    pub secret: Option<String>,
    /// Processor time of the process so far.
    pub processor: fn() -> Nanos,
    /// What clients hear last when it stops; none: nothing.
    pub final_reply: Option<ReplyWord>,
}

impl Default for BrokerSettings {
    /// Messages of 65,535 bytes, and nothing that is told or asked beyond that.
    fn default() -> Self {
        let processor = || Nanos::ZERO;
        Self { about: ProcessFacts::default(), largest: 65_535, secret: None, processor, final_reply: None }
    }
}

/// An answer that is not yet with those that may leave.
#[derive(Debug)]
struct Slot {
    hold: Hold,
    verb: Option<Verb>,
    /// In the broker's words.
    bytes: Vec<u8>,
    reply_format: ReplyFormat,
    visit: Visit,
    server: Option<ServerVisit>,
    /// From when on it could be served, where it waited for a message until then.
    ready: Option<Stamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// It only waits for those before it.
    Free,
    /// It leaves after this batch.
    Commit(u64),
    /// It is not known yet.
    Open(ReplyWord),
    /// It is not known yet: the database was asked under this number.
    Asked(u64),
}

/// What is before the store and with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLoad {
    /// Requests that wait for a connection to be free.
    pub waiting: u64,
    /// Requests whose answer is awaited.
    pub asked: u64,
    /// Connections at work.
    pub busy: u64,
}

/// A row that waits until its answer has left.
#[derive(Debug)]
struct Leaving {
    end: u64,
    visit: Visit,
    server: Option<ServerVisit>,
    ready: Option<Stamp>,
}

/// Bytes that go by, and what is answered then.
#[derive(Debug)]
struct Discard {
    left: u64,
    reply: &'static [u8],
    reply_format: ReplyFormat,
    operation: Operation,
}

/// One connection, without its socket.
#[derive(Debug, Default)]
struct Dialog {
    slots: VecDeque<Slot>,
    /// Bytes of their answers.
    slot_bytes: usize,
    outbox: Outbox,
    leaving: VecDeque<Leaving>,
    discard: Option<Discard>,
    /// Everything up to the next end of line goes by.
    endless: bool,
    /// The batch of its latest put.
    put_with: After,
    /// It speaks memcached's protocol.
    memcached: Option<QueueSession>,
    admitted: bool,
    wrong_secrets: u8,
    /// It has sent its last request, or nothing more is read.
    quitting: bool,
    /// Its side of the connection has ended.
    ended: bool,
    /// Requests of it are there that had to wait.
    stuck: bool,
    /// They wait for nothing but the turns of others.
    turn_over: bool,
    /// Whether it is named among those to be read again.
    runnable: bool,
    /// The first of them waits for messages that are only in the store.
    lacking: bool,
}

/// The broker, without its sockets.
#[derive(Debug)]
pub struct Broker {
    settings: BrokerSettings,
    /// The queues; where others share them, only which clients are connected and the tubes they
    /// use.
    queues: Queues,
    shared: Option<SharedQueues>,
    dialogs: Vec<Option<Dialog>>,
    counts: VerbCounts,
    records: VisitRecords,
    batches: BatchStatistics,
    /// Requests that waited when a connection last took one, and connections at work then.
    pool: (u32, u32),
    draining: bool,
    committed: u64,
    commits: u64,
    written: u64,
    /// How many messages each batch is about that is with the store.
    sent: VecDeque<(u64, u64)>,
    /// Clients whose requests wait for messages that are only in the store.
    lacking: Vec<ClientId>,
    /// Clients whose answers wait for which batch.
    held: BTreeMap<u64, Vec<ClientId>>,
    unanswered: u64,
    clients_refused: u64,
    clients_cut: u64,
    /// What the buffers of clients hold, and whether clients wait because that is too much.
    buffers: (usize, bool),
    dirty: Vec<ClientId>,
    runnable: VecDeque<ClientId>,
    answers: Vec<(ClientId, ReserveResult)>,
    /// Bytes of answers that the driver was not told of yet.
    growth: usize,
    /// What is left of the turn of the client that is read, in short requests.
    turn: u32,
    scratch: Vec<u8>,
    /// How the answer in the scratch is sent.
    reply_format: ReplyFormat,
}

impl Broker {
    /// A broker before these queues.
    pub fn new(settings: BrokerSettings, queues: Queues, recorder: Recorder) -> Self {
        Self {
            settings,
            queues,
            shared: None,
            dialogs: Vec::new(),
            counts: VerbCounts::default(),
            records: VisitRecords::new(recorder),
            batches: BatchStatistics::default(),
            pool: (0, 0),
            draining: false,
            committed: 0,
            commits: 0,
            written: 0,
            sent: VecDeque::new(),
            lacking: Vec::new(),
            held: BTreeMap::new(),
            unanswered: 0,
            clients_refused: 0,
            clients_cut: 0,
            buffers: (0, false),
            dirty: Vec::new(),
            runnable: VecDeque::new(),
            answers: Vec::new(),
            growth: 0,
            turn: 0,
            scratch: Vec::new(),
            reply_format: ReplyFormat::AsItIs,
        }
    }

    /// A broker that shares its queues with others: messages are in the database, and it decides.
    pub fn sharing(
        settings: BrokerSettings,
        queues: Queues,
        recorder: Recorder,
        shared: shared::SharedSettings,
    ) -> Self {
        Self { shared: Some(SharedQueues::new(shared)), ..Self::new(settings, queues, recorder) }
    }

    /// What was recorded, since the last `stats-reset` if there was one.
    pub fn recorder(&self) -> &Recorder {
        &self.records.recorder
    }

    /// When that was; none: there was none.
    pub fn reset_at(&self) -> Option<Stamp> {
        self.records.reset_at
    }

    /// What was recorded in all, for monitoring: its counters never go back.
    pub fn recorder_since_start(&self) -> Cow<'_, Recorder> {
        self.records.recorder_since_start()
    }

    /// Every row goes here too from now on.
    pub fn keep_rows(&mut self, rows: Lane) {
        self.records.rows = Some(rows);
    }

    /// No more rows: the last of them are on their way.
    pub fn end_rows(&mut self) {
        self.records.rows = None;
    }

    /// Keeps what a model of the running traffic needs, from now on.
    pub fn keep_live(&mut self, lanes: StoreLanes) {
        self.records.keep_live(lanes);
    }

    /// What was kept for it until now; nothing unless it is kept.
    pub fn live(&self, now: Stamp) -> LiveSnapshot {
        self.records.live(now)
    }

    /// What shared a statement and its commit.
    pub fn batches(&self) -> &BatchStatistics {
        &self.batches
    }

    /// What is before the store and with it.
    pub fn store_load(&self) -> StoreLoad {
        if let Some(shared) = &self.shared {
            let (left, busy) = if shared.is_idle() { (0, 0) } else { self.pool };
            let waiting = u64::from(left).min(shared.under_way());
            return StoreLoad { waiting, asked: shared.under_way() - waiting, busy: busy.into() };
        }
        let next = self.queues.next_batch();
        let waiting = self.held.get(&next).map_or(0, Vec::len) as u64;
        let under_way = self.held.range(..next).filter(|(_, clients)| !clients.is_empty());
        let (asked, busy) =
            under_way.fold((0, 0), |(asked, busy), (_, clients)| (asked + clients.len() as u64, busy + 1));
        StoreLoad { waiting, asked, busy }
    }

    /// The queues.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// For what comes from outside.
    pub fn queues_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }

    /// What there is and what has happened; and whether it is known how many messages there are, of
    /// which the database tells where it decides.
    pub fn totals(&self, now: Stamp) -> (Totals, bool) {
        let messages = self.shared.as_ref().map(|shared| shared.messages(now));
        let known = messages.is_none_or(|messages| messages.is_some());
        (self.with_messages(messages.flatten().unwrap_or_default()), known)
    }

    /// How many tubes there are: those of clients here, or those in which messages are ready, of
    /// which the database tells, where they are more.
    pub fn tube_count(&self, now: Stamp) -> usize {
        let there = self.shared.as_ref().map_or(0, |shared| shared.ready_tubes(now));
        self.queues.tube_count().max(there as usize)
    }

    /// Bytes of memory that messages are counted with: where the database has them, those on their
    /// way to it.
    pub fn memory_used(&self) -> u64 {
        self.shared.as_ref().map_or_else(|| self.queues.memory_used(), SharedQueues::memory_used)
    }

    /// All tubes, as far as they are known here: those with the most messages that wait one by one.
    pub fn tubes_state(&self, now: Stamp) -> TubesState {
        match &self.shared {
            Some(shared) => shared.tubes_state(self.queues.tubes_in_metrics(), now),
            None => self.queues.tubes_state(now),
        }
    }

    /// How often each verb was asked for.
    pub fn counts(&self) -> &VerbCounts {
        &self.counts
    }

    /// No more messages are accepted from now on.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// What changes and is none of the queues'.
    pub fn service(&self, now: Stamp) -> BrokerState {
        BrokerState {
            uptime: Nanos(now.0),
            processor: (self.settings.processor)(),
            draining: self.draining,
            commits: self.commits,
            written: self.written,
            unanswered: self.unanswered,
            timeouts: self.shared.is_none().then(|| self.queues.totals().timeouts),
            clients_refused: self.clients_refused,
            clients_cut: self.clients_cut,
            buffers: self.buffers,
        }
    }

    // ---- clients --------------------------------------------------------------------------------

    /// A client that speaks beanstalkd's protocol connects.
    fn opened(&mut self) -> ClientId {
        let id = self.queues.open();
        if self.dialogs.len() <= id as usize {
            self.dialogs.resize_with(id as usize + 1, || None);
        }
        self.dialogs[id as usize] =
            Some(Dialog { admitted: self.settings.secret.is_none(), ..Dialog::default() });
        if let Some(shared) = &mut self.shared {
            shared.open(id);
        }
        id
    }

    /// Requests without an answer: they wait for a commit or a message.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    fn dialog(&mut self, id: ClientId) -> &mut Dialog {
        self.dialogs[id as usize].as_mut().expect("he is connected")
    }

    fn give_up_waiting(&mut self, id: ClientId) {
        match &mut self.shared {
            Some(shared) => shared.give_up_waiting(id),
            None => self.queues.give_up_waiting(id),
        }
    }

    // ---- requests -------------------------------------------------------------------------------

    /// Whether the next request of a client must wait for messages that are only in the store.
    fn lacks(&mut self, id: ClientId, what: impl FnOnce(&mut Queues) -> bool) -> bool {
        let lacks = self.shared.is_none() && self.dialog(id).admitted && what(&mut self.queues);
        if lacks {
            let dialog = self.dialog(id);
            (dialog.stuck, dialog.lacking) = (true, true);
            self.lacking.push(id);
        }
        lacks
    }

    /// The store has answered what the queues wanted to read: requests that waited for it go on.
    pub fn fetched(&mut self, fetched: Fetched, now: Stamp) {
        self.queues.fetched(fetched, now);
        self.go_on();
        self.spread(now);
    }

    /// What is to be read from the store next. Where nothing is left of what was wanted, the
    /// requests that waited for it go on.
    pub fn take_fetch(&mut self) -> Option<Fetch> {
        if !self.queues.has_fetch() {
            return None;
        }
        let fetch = self.queues.take_fetch();
        if fetch.is_none() {
            self.go_on();
        }
        fetch
    }

    /// Requests that waited for messages of the store are carried out again.
    fn go_on(&mut self) {
        for id in std::mem::take(&mut self.lacking) {
            if let Some(dialog) = self.dialogs[id as usize].as_mut().filter(|dialog| dialog.lacking) {
                dialog.lacking = false;
                self.make_runnable(id);
            }
        }
    }

    /// The store cannot answer now, and will be asked again.
    pub fn not_fetched(&mut self) {
        self.queues.not_fetched();
    }

    /// Each message of a batch is a request of its own, and is answered so: one may be refused and
    /// another not.
    fn put_batch(&mut self, id: ClientId, batch: &PutBatch<'_>, used: usize, received: Stamp, now: Stamp) {
        self.turn = self.turn.saturating_sub(batch.len() as u32);
        let bodies: usize = batch.iter().map(|put| put.body.len() + 2).sum();
        let (mut line, mut reply_format) = (used - bodies, ReplyFormat::Together(batch.len()));
        for put in batch.iter() {
            // The line's bytes are counted with the first.
            let length = std::mem::take(&mut line) + put.body.len() + 2;
            self.reply_format = std::mem::take(&mut reply_format);
            let row = Visit { bytes_in: length as u64, ..Visit::at(received, operation(Verb::Put)) };
            self.carry_out(id, &Request::Put(put), row, now);
        }
    }

    /// A request has not come whole and needs so many bytes; how many are done with: none, unless
    /// its client may not bring so many, of which nothing more is read then.
    fn incomplete(&mut self, id: ClientId, bytes: &[u8], needed: usize, received: Stamp) -> usize {
        let dialog = self.dialog(id);
        if is_awaited(dialog.admitted, needed) {
            return 0;
        }
        dialog.quitting = true;
        let reply = if dialog.memcached.is_some() { UNAUTHENTICATED } else { ReplyWord::NotLoggedIn.line() };
        let (reply_format, operation) = (ReplyFormat::AsItIs, Operation::Put);
        self.complain(id, Discard { left: 0, reply, reply_format, operation }, received, bytes.len());
        bytes.len()
    }

    /// Bytes that are no request have gone by.
    fn complain(&mut self, id: ClientId, gone: Discard, received: Stamp, length: usize) {
        let mut visit = Visit::at(received, gone.operation);
        visit.bytes_in = length as u64;
        self.scratch.clear();
        self.scratch.extend_from_slice(gone.reply);
        self.reply_format = gone.reply_format;
        self.answer(id, None, None, visit);
    }

    /// What a request takes of a turn beyond a short one: some walk through all that there is, or
    /// through all tubes that their client watches.
    fn length_of(&self, id: ClientId, request: &Request<'_>) -> u32 {
        match request.subject() {
            RequestSubject::Server => A_TURN,
            RequestSubject::Tube(_) if matches!(request, Request::ExpireTube { .. }) => A_TURN,
            RequestSubject::WatchedTubes | RequestSubject::Connection => {
                (self.queues.watched_count(id) / TUBES_A_REQUEST) as u32
            }
            _ => 0,
        }
    }

    /// The next request of this client waits for what holds it back, or else until others have had
    /// their turns.
    fn hold_back(&mut self, id: ClientId) {
        let dialog = self.dialog(id);
        let turn_over = !dialog.is_held_back();
        (dialog.stuck, dialog.turn_over) = (true, turn_over);
        if turn_over {
            self.make_runnable(id);
        }
    }

    /// It is to be read once more, after those that wait for that; it stands among them once.
    fn make_runnable(&mut self, id: ClientId) {
        if !std::mem::replace(&mut self.dialog(id).runnable, true) {
            self.runnable.push_back(id);
        }
    }

    /// What a client says next. If it is a broker that was to be told of a message for one of its
    /// own clients, that one waits no longer.
    fn next_bytes<'a>(&mut self, id: ClientId, rest: &'a [u8], now: Stamp) -> &'a [u8] {
        let dialog = self.dialogs[id as usize].as_ref().filter(|_| !rest.is_empty());
        let last = dialog.and_then(|dialog| dialog.slots.back());
        if last.is_some_and(|slot| slot.hold == Hold::Open(ReplyWord::Ready)) {
            self.give_up_waiting(id);
            self.spread(now);
        }
        rest
    }

    fn carry_out(&mut self, id: ClientId, request: &Request<'_>, mut visit: Visit, now: Stamp) {
        self.turn = self.turn.saturating_sub(self.length_of(id, request));
        let verb = request.verb();
        self.counts.count(verb);
        self.scratch.clear();
        visit.queued = now.max(visit.received);
        visit.taken = visit.queued;
        if let Some(word) = self.refusal(id, request) {
            write::line(&mut self.scratch, word);
            return self.answer(id, Some(verb), None, visit);
        }
        if let Some(shared) = &mut self.shared
            && !shared::is_of_connection(request)
        {
            let knows_the_secret = self.settings.secret.is_some();
            match shared.ask(&mut self.queues, id, request, knows_the_secret, now, &mut self.scratch) {
                None => self.answer(id, Some(verb), None, visit),
                Some(number) => {
                    self.wait_for_answer(id, Hold::Asked(number), verb, visit);
                    if self.dialog(id).ended {
                        self.give_up_waiting(id);
                    }
                }
            }
            return;
        }
        match owner::carry_out(&mut self.queues, id, request, now, &mut self.scratch) {
            OwnerOutcome::Answered(after) => {
                if verb == Verb::Put {
                    let dialog = self.dialog(id);
                    dialog.put_with = dialog.put_with.max(after);
                }
                self.answer(id, Some(verb), after, visit);
            }
            OwnerOutcome::Waits => {
                let shape = match request {
                    Request::ReserveBatch { .. } => ReplyWord::ReservedBatch,
                    Request::Pop { .. } => ReplyWord::Popped,
                    Request::Await { .. } if self.queues.is_divided() => ReplyWord::Ready,
                    _ => ReplyWord::Reserved,
                };
                self.wait_for_answer(id, Hold::Open(shape), verb, visit);
                if self.dialog(id).ended {
                    self.queues.give_up_waiting(id);
                }
            }
            OwnerOutcome::NotMine => {
                match request {
                    Request::Ping => write::line(&mut self.scratch, ReplyWord::Pong),
                    Request::StatsReset => {
                        self.records.reset(now);
                        write::line(&mut self.scratch, ReplyWord::Reset);
                    }
                    Request::Quit => {
                        self.dialog(id).quitting = true;
                        self.dirty.push(id);
                        return;
                    }
                    _ => {
                        let text = statistics::server(
                            &self.settings.about,
                            &self.service(now),
                            &self.queues.totals(),
                            self.queues.tube_count(),
                            &self.counts,
                        );
                        write::data(&mut self.scratch, text.as_bytes());
                    }
                }
                self.answer(id, Some(verb), None, visit);
            }
        }
    }

    /// The answer to this client's latest request comes later.
    fn wait_for_answer(&mut self, id: ClientId, hold: Hold, verb: Verb, visit: Visit) {
        let reply_format = std::mem::take(&mut self.reply_format);
        let slot = Slot {
            hold,
            verb: Some(verb),
            bytes: Vec::new(),
            reply_format,
            visit,
            server: None,
            ready: None,
        };
        self.dialog(id).slots.push_back(slot);
        self.unanswered += 1;
    }

    /// Why a request is not even looked at.
    fn refusal(&mut self, id: ClientId, request: &Request<'_>) -> Option<ReplyWord> {
        if self.draining && matches!(request, Request::Put(_)) {
            return Some(ReplyWord::Draining);
        }
        // A client would have to look again and again.
        if self.shared.is_some() && matches!(request, Request::Await { .. }) {
            return Some(ReplyWord::UnknownCommand);
        }
        let Some(wanted) = &self.settings.secret else { return None };
        if let Request::Login { client, secret } = request {
            if *secret != Some(wanted.as_str()) {
                let dialog = self.dialog(id);
                dialog.wrong_secrets += 1;
                dialog.quitting |= dialog.wrong_secrets == MOST_WRONG_SECRETS;
                return Some(ReplyWord::NotLoggedIn);
            }
            // Any client may know the secret.
            if self.shared.is_none() {
                let _ = self.queues.register(client);
            }
            self.dialog(id).admitted = true;
            return None;
        }
        let open = self.dialog(id).admitted || matches!(request, Request::Quit | Request::Ping);
        if open { None } else { Some(ReplyWord::NotLoggedIn) }
    }

    /// What stands in the scratch is the answer to this client's latest request.
    fn answer(&mut self, id: ClientId, verb: Option<Verb>, after: After, mut visit: Visit) {
        visit.outcome = ending(&self.scratch);
        let reply_format = std::mem::take(&mut self.reply_format);
        let after = after.filter(|batch| *batch > self.committed);
        self.growth += self.scratch.len();
        let dialog = self.dialogs[id as usize].as_mut().expect("he is connected");
        if dialog.slots.is_empty() && after.is_none() {
            dialog.tell(&reply_format, &self.scratch, Leaving { end: 0, visit, server: None, ready: None });
            self.dirty.push(id);
            return;
        }
        let hold = after.map_or(Hold::Free, Hold::Commit);
        dialog.slot_bytes += self.scratch.len();
        dialog.slots.push_back(Slot {
            hold,
            verb,
            bytes: self.scratch.clone(),
            reply_format,
            visit,
            server: None,
            ready: None,
        });
        self.unanswered += 1;
        if let Some(batch) = after {
            self.held.entry(batch).or_default().push(id);
        }
    }

    /// Sends the result to the clients that waited.
    fn spread(&mut self, now: Stamp) {
        let mut answers = std::mem::take(&mut self.answers);
        self.queues.take_answers(&mut answers);
        for (id, answer) in answers.drain(..) {
            let dialog = self.dialogs[id as usize].as_mut().expect("he is connected");
            let slot = dialog.slots.back_mut().expect("who waits has an open slot, the last");
            let Hold::Open(shape) = slot.hold else { panic!("who waits has an open slot, the last") };
            let after = owner::write_answer(&mut slot.bytes, shape, &answer);
            dialog.slot_bytes += slot.bytes.len();
            self.growth += slot.bytes.len();
            slot.visit.outcome = ending(&slot.bytes);
            slot.visit.queued = now.max(slot.visit.queued);
            slot.visit.taken = slot.visit.queued;
            slot.ready = Some(now);
            let after = after.filter(|batch| *batch > self.committed);
            slot.hold = after.map_or(Hold::Free, Hold::Commit);
            if let Some(batch) = after {
                self.held.entry(batch).or_default().push(id);
            }
            if dialog.stuck {
                self.make_runnable(id);
            }
            self.let_leave(id);
        }
        self.answers = answers;
        self.tell_replies(now);
    }

    /// Tells what the database has answered.
    fn tell_replies(&mut self, now: Stamp) {
        let reply_format = self.shared.as_mut().map(SharedQueues::take_replies).unwrap_or_default();
        for mut reply_format in reply_format {
            if let Some((messages, tubes)) = reply_format.stats {
                let text = self.server_statistics(messages, tubes as usize, now);
                write::data(&mut reply_format.bytes, text.as_bytes());
            }
            let Some(dialog) = self.dialogs[reply_format.client as usize].as_mut() else { continue };
            let hold = Hold::Asked(reply_format.number);
            let Some(slot) = dialog.slots.iter_mut().find(|slot| slot.hold == hold) else { continue };
            slot.hold = Hold::Free;
            slot.bytes = reply_format.bytes;
            dialog.slot_bytes += slot.bytes.len();
            self.growth += slot.bytes.len();
            slot.visit.outcome = ending(&slot.bytes);
            // Where the database was asked once more, it could be served from then on.
            let from = |queried| if reply_format.way.is_some() { queried } else { now };
            slot.ready = reply_format.repeated.map(from);
            if let Some(way) = reply_format.way {
                slot.visit.queued = slot.visit.queued.max(slot.ready.unwrap_or_default());
                slot.visit.taken = way.taken.max(slot.visit.queued);
                slot.visit.busy_workers = way.busy;
                slot.visit.queue_length = way.left;
                slot.server = Some(way.store_visit(slot.visit.taken));
            }
            self.let_leave(reply_format.client);
        }
    }

    /// What is to be asked of the database.
    pub fn take_queries(&mut self) -> Vec<QueuedRequest> {
        self.shared.as_mut().map(SharedQueues::take_queries).unwrap_or_default()
    }

    /// What the database has answered, and when.
    pub fn database_replied(&mut self, answers: Vec<(u64, DatabaseReply)>, way: &RequestTimes, now: Stamp) {
        let Some(shared) = &mut self.shared else { return };
        let written = shared.written(&answers);
        // What only looked, or found nothing, has committed nothing.
        if written > 0 {
            self.commits += 1;
            self.written += written;
            self.batches.record(way.together.into(), Nanos(way.answered.0.saturating_sub(way.sent.0)));
        }
        self.pool = (way.left, way.busy);
        for (number, reply) in answers {
            shared.answered(&mut self.queues, number, reply, way, now);
        }
        for way in shared.take_without_reply() {
            self.records.found_nothing(way.store_visit(way.sent));
        }
        self.spread(now);
    }

    /// Whether no query that a client waits for is on its way to the database.
    pub fn has_no_query(&self) -> bool {
        self.shared.as_ref().is_none_or(SharedQueues::is_idle)
    }

    /// What has happened here, and these messages, where they are in the database.
    fn with_messages(&self, messages: Totals) -> Totals {
        let here = self.queues.totals();
        let Some(shared) = &self.shared else { return here };
        Totals {
            urgent: messages.urgent,
            ready: messages.ready,
            reserved: messages.reserved,
            delayed: messages.delayed,
            buried: messages.buried,
            waiting: shared.waiting_count(),
            jobs: shared.put_here(),
            ..here
        }
    }

    fn server_statistics(&self, messages: Totals, tubes: usize, now: Stamp) -> String {
        statistics::server(
            &self.settings.about,
            &self.service(now),
            &Totals { jobs: messages.jobs, ..self.with_messages(messages) },
            tubes.max(self.queues.tube_count()),
            &self.counts,
        )
    }

    /// Moves answers that may leave to where they leave from.
    fn let_leave(&mut self, id: ClientId) {
        let Some(dialog) = self.dialogs[id as usize].as_mut() else { return };
        while let Some(first) = dialog.slots.front() {
            match first.hold {
                Hold::Free => {}
                Hold::Commit(batch) if batch <= self.committed => {}
                Hold::Commit(_) | Hold::Open(_) | Hold::Asked(_) => break,
            }
            let slot = dialog.slots.pop_front().expect("it is there");
            dialog.slot_bytes -= slot.bytes.len();
            self.unanswered -= 1;
            let Slot { visit, server, ready, .. } = slot;
            dialog.tell(&slot.reply_format, &slot.bytes, Leaving { end: 0, visit, server, ready });
        }
        self.dirty.push(id);
        if dialog.stuck {
            self.make_runnable(id);
        }
    }

    // ---- time and commits -----------------------------------------------------------------------

    /// What waits to be written to the store, under its number, while so many batches are under
    /// way.
    pub fn take_batch(&mut self, now: Stamp, under_way: u32) -> Option<(u64, CommitBatch)> {
        let (number, batch) = self.queues.take_batch()?;
        let waiting = self.held.get(&number).map_or(0, Vec::len) as u32;
        self.of_batch(number, |_, slot| {
            slot.visit.taken = now.max(slot.visit.queued);
            slot.visit.busy_workers = under_way + 1;
            slot.visit.queue_length = waiting.saturating_sub(1);
        });
        self.sent.push_back((number, batch.lines() as u64));
        Some((number, batch))
    }

    /// Each answer that waits for this batch, with its client: a client stands there once for each
    /// answer, and is looked through once for those in a row.
    fn of_batch(&mut self, number: u64, mut what: impl FnMut(ClientId, &mut Slot)) {
        let Some(clients) = self.held.get(&number) else { return };
        for of_one in clients.chunk_by(|one, next| one == next) {
            let id = of_one[0];
            let Some(Dialog { slots, slot_bytes, .. }) = &mut self.dialogs[id as usize] else { continue };
            for slot in slots.iter_mut().filter(|slot| slot.hold == Hold::Commit(number)) {
                *slot_bytes -= slot.bytes.len();
                what(id, slot);
                *slot_bytes += slot.bytes.len();
            }
        }
    }

    /// How many messages the batches up to this one are about: the store has answered to them.
    fn take_sent(&mut self, number: u64) -> u64 {
        let answered = self.sent.partition_point(|(batch, _)| *batch <= number);
        self.sent.drain(..answered).map(|(_, lines)| lines).sum()
    }

    /// A batch is on disk: it was sent then, and the store's answer arrived now.
    pub fn committed(&mut self, number: u64, sent: Stamp, now: Stamp) {
        self.of_batch(number, |_, slot| {
            let sent = sent.max(slot.visit.taken);
            slot.server = Some(ServerVisit::ok(0, sent, now.max(sent)));
        });
        self.committed = number;
        self.commits += 1;
        self.written += self.take_sent(number);
        let together = self.held.get(&number).map_or(0, Vec::len) as u64;
        self.batches.record(together, Nanos(now.0.saturating_sub(sent.0)));
        self.queues.committed(number, now);
        self.spread(now);
        if let Some(clients) = self.held.remove(&number) {
            for id in clients {
                self.let_leave(id);
            }
        }
    }

    /// The store refused a batch, whole, and nothing of it has happened there: what was to be put
    /// is refused, everything else waits for the next batch.
    pub fn refused(&mut self, number: u64, batch: CommitBatch, now: Stamp) {
        self.take_sent(number);
        self.queues.refused(number, batch);
        // Whether there is a next batch or not: its number is above all so far.
        let next = self.queues.next_batch();
        let nothing_left = !self.queues.has_batch();
        let mut waiting = Vec::new();
        self.of_batch(number, |id, slot| {
            if slot.verb == Some(Verb::Put) {
                slot.hold = Hold::Free;
                slot.bytes.clear();
                write::line(&mut slot.bytes, ReplyWord::OutOfMemory);
                slot.visit.outcome = Ending::Refused;
            } else if nothing_left {
                slot.hold = Hold::Free;
            } else {
                slot.hold = Hold::Commit(next);
                waiting.push(id);
            }
        });
        let clients = self.held.remove(&number).unwrap_or_default();
        for &id in &clients {
            if let Some(dialog) = self.dialogs[id as usize].as_mut()
                && dialog.put_with == Some(number)
            {
                dialog.put_with = None;
            }
            self.let_leave(id);
        }
        if !waiting.is_empty() {
            self.held.entry(next).or_default().extend(waiting);
        }
        self.spread(now);
    }
}

impl Discard {
    /// Of a line of beanstalkd's protocol that is no request.
    fn of_line(why: LineError, left: u64) -> Self {
        // The others may be anything.
        let operation = if why == LineError::JobTooBig { Operation::Put } else { Operation::Other };
        Self { left, reply: why.word().line(), reply_format: ReplyFormat::AsItIs, operation }
    }
}

impl Dialog {
    /// An answer leaves.
    fn tell(&mut self, reply_format: &ReplyFormat, answer: &[u8], mut row: Leaving) {
        let before = self.outbox.end();
        let open = reply_format.tell(answer, self.outbox.tail());
        if reply_format.opens()
            && let Some(session) = &mut self.memcached
        {
            session.opened(open);
        }
        row.end = self.outbox.end();
        row.visit.bytes_out = row.end - before;
        self.leaving.push_back(row);
    }

    /// Whether its answers are as many bytes as may wait.
    fn is_full(&self) -> bool {
        self.outbox.len() >= MOST_UNSENT || self.slot_bytes >= MOST_UNCOMMITTED
    }

    fn is_held_back(&self) -> bool {
        // What a broker says next that waits for one of its clients ends that.
        let waits = |slot: &Slot| matches!(slot.hold, Hold::Open(word) if word != ReplyWord::Ready);
        self.lacking
            || self.is_full()
            || self.slots.len() >= MOST_SLOTS
            || self.slots.back().is_some_and(waits)
            || (self.stuck && self.slots.iter().any(|slot| matches!(slot.hold, Hold::Asked(_))))
    }
}

/// Whether the rest of a request is awaited that needs so many bytes: what it brings is not kept
/// for a client that may not bring it.
pub const fn is_awaited(admitted: bool, needed: usize) -> bool {
    admitted || needed <= LONGEST_LOGIN
}

/// Whether a request says nothing about what uncommitted puts before it have changed.
fn goes_beside_puts(request: &Request<'_>, queues: &Queues) -> bool {
    match *request {
        Request::Put(_) | Request::Use(_) | Request::Watch(_) | Request::Ignore(_) | Request::Quit => true,
        // A client may guess the number that its put will have.
        Request::Delete(id) | Request::Release { id, .. } | Request::Bury { id, .. } | Request::Touch(id) => {
            !queues.is_pending(id)
        }
        _ => false,
    }
}

/// How a request ended, by its answer's first word, in this protocol or memcached's.
fn ending(answer: &[u8]) -> Ending {
    match reply::first_word(answer) {
        Some(word) if word.is_client_error() => Ending::ClientError,
        Some(word) if word.is_refusal() => Ending::Refused,
        Some(ReplyWord::InternalError) => Ending::ServerError,
        Some(_) => Ending::Ok,
        None if answer.starts_with(b"CLIENT_ERROR ") || answer.starts_with(b"ERROR\r") => Ending::ClientError,
        None if answer.starts_with(b"SERVER_ERROR ") => Ending::Refused,
        // memcached's binary protocol is refused in its own form.
        None if answer.first() == Some(&0x81) => Ending::ClientError,
        None => Ending::Ok,
    }
}

#[cfg(test)]
mod tests;
