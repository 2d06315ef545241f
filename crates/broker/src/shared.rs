//! Requests to queues without an owner: what is asked of the database, what is sent, and which
//! clients wait.
//!
//! A connection's name and tubes are in the memory of its broker; messages are not. So a request
//! becomes a [`DatabaseRequest`], and its answer is written when the reply is here. A client that
//! waits asks again when there is reason to: a message was put here, or the sweep, four times a
//! second, has found something for it that others have put.
//!
//! | file | what is done there |
//! |---|---|
//! | this | asking: which request a request is, and what may be asked beside what |
//! | `replies` | answering: what a reply of the database is in words |
//! | `waiting` | waiting for a message |
//! | `pending` | what is waited for |
//! | `waits` | what is seen of the tubes that are shared |
//! | `backlog` | what the database says waits in them |
//! | `tubes` | what is said of them |

mod backlog;
mod pending;
mod replies;
#[cfg(test)]
mod tests;
mod tubes;
mod waiting;
mod waits;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use krarup_beanstalk::{Ids, Put, ReplyWord, Request, write};
use krarup_units::Stamp;

use crate::database::{
    DatabaseReply, DatabaseRequest, Lookup, MessageSelector, NewMessage, QueuedRequest, RareRequest,
    RequestTimes, StateChange, StatementKind, Taker,
};
use crate::job::{ClientId, Id, IdMap};
use crate::queues::{MOST_AT_ONCE, Queues, Reserve, TakeMode};
use backlog::KnownBacklog;
pub(crate) use pending::PendingReply;
use pending::{For, Holder, MOST_LEASES, Underway};
use waits::SharedWaits;

/// Bytes that a message on its way to the database is counted with beside its body.
const OVERHEAD: u64 = 320;
/// Seconds by which a message that is over at once is delayed: a sweep finds it before any client.
const UNSEEN: u32 = 60;

/// Settings of a broker that shares its queues with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSettings {
    /// Whether queries of one kind share a statement; then one client may have several of them
    /// under way.
    pub gathers: bool,
    /// Our number among the brokers.
    pub number: i64,
    /// Bytes that messages on their way to the database may have.
    pub memory: u64,
}

/// A request that is several queries.
#[derive(Clone, Copy, Debug)]
struct PartCount {
    /// Queries that are not answered yet.
    left: usize,
    /// Those that did what was asked.
    done: u64,
    /// What the client is answered, before how many those were.
    word: ReplyWord,
}

/// The queues as one of their brokers sees them.
#[derive(Debug)]
pub(crate) struct SharedQueues {
    settings: SharedSettings,
    next: u64,
    connections: u32,
    holders: Vec<Option<Holder>>,
    underway: HashMap<u64, Underway>,
    /// What is left of requests that are several queries, by their numbers.
    several: HashMap<u64, PartCount>,
    asked: Vec<QueuedRequest>,
    replies: Vec<PendingReply>,
    /// Trips that looked for messages and of which no client is told.
    without_reply: Vec<RequestTimes>,
    /// Bytes of bodies on their way.
    used: u64,
    put: u64,
    // ---- waiting
    turn: u64,
    waiting: HashMap<Arc<str>, BTreeMap<u64, ClientId>>,
    alarms: BTreeSet<(Stamp, ClientId)>,
    /// How often something became ready, and when it last did in each tube.
    events: u64,
    latest: HashMap<Arc<str>, u64>,
    sweep_at: Stamp,
    sweeping: bool,
    waits: SharedWaits,
    backlog: KnownBacklog,
}

impl SharedQueues {
    pub(crate) fn new(settings: SharedSettings) -> Self {
        Self {
            settings,
            next: 1,
            connections: 0,
            holders: Vec::new(),
            underway: HashMap::new(),
            several: HashMap::new(),
            asked: Vec::new(),
            replies: Vec::new(),
            without_reply: Vec::new(),
            used: 0,
            put: 0,
            turn: 0,
            waiting: HashMap::new(),
            alarms: BTreeSet::new(),
            events: 0,
            latest: HashMap::new(),
            sweep_at: Stamp(0),
            sweeping: false,
            waits: SharedWaits::default(),
            backlog: KnownBacklog::default(),
        }
    }

    /// Messages that were put here.
    pub(crate) fn put_here(&self) -> u64 {
        self.put
    }

    /// Bytes of messages on their way to the database.
    pub(crate) fn memory_used(&self) -> u64 {
        self.used
    }

    /// How many of these answers tell that something was changed for a client.
    pub(crate) fn written(&self, answers: &[(u64, DatabaseReply)]) -> u64 {
        let writes = |number: &u64| self.underway.get(number).is_some_and(|one| one.writes);
        answers.iter().filter(|(number, reply)| writes(number) && reply.is_done()).count() as u64
    }

    /// Clients that wait for a message.
    pub(crate) fn waiting_count(&self) -> u64 {
        self.holders.iter().flatten().filter(|holder| holder.wait.is_some()).count() as u64
    }

    /// Whether no reply to a client, and no message that was given back, is under way.
    pub(crate) fn is_idle(&self) -> bool {
        !self.underway.values().any(|one| one.what.is_of_a_client())
    }

    // ---- connections ----------------------------------------------------------------------------

    pub(crate) fn open(&mut self, client: ClientId) {
        let place = client as usize;
        if self.holders.len() <= place {
            self.holders.resize_with(place + 1, || None);
        }
        self.connections = self.connections.wrapping_add(1);
        let taker = self.settings.number << 32 | Taker::from(self.connections);
        let leases = IdMap::default();
        let here = Arc::default();
        self.holders[place] =
            Some(Holder { taker, here, out: None, leases, look_at: MOST_LEASES, wait: None });
    }

    /// It goes: what it held is ready again.
    pub(crate) fn close(&mut self, client: ClientId, now: Stamp) {
        self.stop_waiting(client);
        let holder = self.holders[client as usize].take().expect("he was connected");
        for (id, lease) in holder.leases {
            self.waits.ended(&lease, false, now);
            self.give_back(id, holder.taker, lease.tube);
        }
    }

    fn give_back(&mut self, id: Id, taker: Taker, tube: Option<Arc<str>>) {
        let number = self.next_number();
        let query = DatabaseRequest::Move { id, taker, what: StateChange::GiveBack };
        let what = For::GiveBack(id, tube);
        self.underway.insert(number, Underway { client: 0, taker, number, what, writes: true });
        self.asked.push(QueuedRequest { number, query, joins: false, client: None });
    }

    fn holder(&mut self, client: ClientId) -> &mut Holder {
        self.holders[client as usize].as_mut().expect("he is connected")
    }

    // ---- asking ---------------------------------------------------------------------------------

    fn next_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// What is to be asked of the database.
    pub(crate) fn take_queries(&mut self) -> Vec<QueuedRequest> {
        std::mem::take(&mut self.asked)
    }

    /// Whether a request may be carried out beside what of this client is under way, and still be
    /// answered in its order and see what it has done before.
    pub(crate) fn may_go(&self, client: ClientId, request: &Request<'_>) -> bool {
        let Some(holder) = self.holders[client as usize].as_ref() else { return true };
        if holder.wait.is_some() {
            return false;
        }
        let Some((under_way, _)) = holder.out else { return true };
        match kind(request) {
            None => under_way != StatementKind::Take,
            Some(kind) => {
                self.settings.gathers
                    && kind == under_way
                    && matches!(kind, StatementKind::Put | StatementKind::Send | StatementKind::Finish)
            }
        }
    }

    /// Wishes of clients that the database has not answered.
    pub(crate) fn under_way(&self) -> u64 {
        self.underway.values().filter(|one| one.what.is_of_a_client()).count() as u64
    }

    /// Whether all that this client has asked before is answered.
    pub(crate) fn has_nothing_under_way(&self, client: ClientId) -> bool {
        let holder = self.holders[client as usize].as_ref();
        holder.is_none_or(|holder| holder.wait.is_none() && holder.out.is_none())
    }

    /// A message goes back to where its holder took it from; under which number it will be written.
    pub(crate) fn query_give_back(&mut self, client: ClientId, id: Id) -> u64 {
        let taker = self.holder(client).taker;
        let slot = self.next_number();
        self.send(
            client,
            slot,
            DatabaseRequest::Move { id, taker, what: StateChange::GiveBack },
            For::Release(id, 0),
        );
        slot
    }

    /// All messages of a tube go, and it stays, known here or not; under which number it will be
    /// answered.
    pub(crate) fn query_empty(&mut self, client: ClientId, tube: &str, known: bool, now: Stamp) -> u64 {
        let slot = self.next_number();
        let query = RareRequest::DeleteTube { tube: tube.into(), known, whole: false, last: None };
        self.send(client, slot, DatabaseRequest::Once(query), For::DeleteTube(tube.into(), now));
        slot
    }

    /// Asks; under which number it will be answered. None: its answer is in `out` already.
    #[expect(clippy::too_many_lines, reason = "a table: one arm for each verb")]
    pub(crate) fn ask(
        &mut self,
        queues: &mut Queues,
        client: ClientId,
        request: &Request<'_>,
        secret_told: bool,
        now: Stamp,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let taker = self.holder(client).taker;
        let name = queues.name(client);
        let used = || -> Arc<str> { queues.used(client).into() };
        let once = |once| DatabaseRequest::Once(once);
        let look = |what| DatabaseRequest::Look { what, client: name.clone() };
        let at = |id, what| DatabaseRequest::Move { id, taker, what };
        let pop = |which| DatabaseRequest::Take { which, client: name.clone(), taker, most: 1, pops: true };
        let (query, what) = match *request {
            Request::Put(put) => return self.ask_put(queues, client, &put, out),
            Request::Reserve => {
                let query = Reserve { how: TakeMode::Lease, most: 1, timeout: None };
                return Some(self.ask_to_wait(queues, client, query, ReplyWord::Reserved, now));
            }
            Request::ReserveWithTimeout { timeout } => {
                let query = Reserve { how: TakeMode::Lease, most: 1, timeout: Some(timeout) };
                return Some(self.ask_to_wait(queues, client, query, ReplyWord::Reserved, now));
            }
            Request::ReserveBatch { most, timeout } => {
                let most = most.min(MOST_AT_ONCE);
                let query = Reserve { how: TakeMode::Lease, most, timeout: Some(timeout) };
                return Some(self.ask_to_wait(queues, client, query, ReplyWord::ReservedBatch, now));
            }
            Request::Pop { timeout } => {
                let query = Reserve { how: TakeMode::Pop, most: 1, timeout: Some(timeout) };
                return Some(self.ask_to_wait(queues, client, query, ReplyWord::Popped, now));
            }
            Request::ReserveJob(id) => {
                queues.is_worker(client);
                let which = MessageSelector::Number(id);
                let query = DatabaseRequest::Take { which, client: name, taker, most: 1, pops: false };
                (query, For::Take(ReplyWord::Reserved, None))
            }
            Request::PopTube(tube) => {
                let tube: Arc<str> = tube.into();
                let what = For::Take(ReplyWord::Popped, Some(Arc::clone(&tube)));
                (pop(MessageSelector::Created(tube)), what)
            }
            Request::PopSender(from) => {
                (pop(MessageSelector::Sender(from.into())), For::Take(ReplyWord::Popped, None))
            }
            Request::Delete(id) => (DatabaseRequest::Finish { id, taker }, For::Delete(id)),
            Request::DeleteBatch(ids) => {
                let query = |id| (DatabaseRequest::Finish { id, taker }, For::Delete(id));
                return Some(self.ask_about(client, &ids, ReplyWord::Deleted, query));
            }
            Request::Release { id, priority, delay } => {
                (at(id, StateChange::Release { priority, delay }), For::Release(id, delay))
            }
            Request::Bury { id, priority } => (at(id, StateChange::Bury { priority }), For::Bury(id)),
            Request::Touch(id) => (at(id, StateChange::Touch), For::Touch(id)),
            Request::TouchBatch(ids) => {
                let query = |id| (at(id, StateChange::Touch), For::Touch(id));
                return Some(self.ask_about(client, &ids, ReplyWord::Touched, query));
            }
            Request::KickJob(id) => (at(id, StateChange::Kick), For::KickJob),
            Request::Peek(id) => (look(Lookup::Number(id)), For::Look),
            Request::PeekReady => (look(Lookup::Ready(used())), For::Look),
            Request::PeekDelayed => (look(Lookup::Delayed(used())), For::Look),
            Request::PeekBuried => (look(Lookup::Buried(used())), For::Look),
            Request::PeekTube(tube) => (look(Lookup::Created(tube.into())), For::Seek),
            Request::PeekSender(sender) => (look(Lookup::Sender(sender.into())), For::Seek),
            Request::ListTubesForMe => match name {
                Some(name) => (DatabaseRequest::List(name), For::List),
                None => {
                    write::line(out, ReplyWord::NotLoggedIn);
                    return None;
                }
            },
            Request::Kick(bound) => {
                (once(RareRequest::Kick { tube: used(), bound, buried: None }), For::Kick(0))
            }
            Request::StatsJob(id) => (once(RareRequest::StatsJob(id)), For::StatsJob),
            Request::StatsTube(tube) => {
                (once(RareRequest::StatsTube(tube.into())), For::StatsTube(tube.into()))
            }
            Request::Stats => (once(RareRequest::Stats), For::Stats),
            Request::ListTubes => (once(RareRequest::Tubes), For::Tubes),
            Request::PauseTube { tube, seconds } => {
                let known = queues.has_tube(tube);
                (once(RareRequest::Pause { tube: tube.into(), length: seconds, known }), For::Pause)
            }
            Request::Login { client: name, .. } => {
                let query = RareRequest::Login { client: name.into(), knows_the_secret: secret_told };
                (once(query), For::Login(name.into()))
            }
            Request::Register(name) => (once(RareRequest::Register(name.into())), For::Register),
            Request::Unregister(name) => (once(RareRequest::Unregister(name.into())), For::Unregister),
            Request::CreateTube(tube) => (once(RareRequest::Create(tube.into())), For::Create),
            Request::DeleteTube(tube) => {
                let known = queues.has_tube(tube);
                let query = RareRequest::DeleteTube { tube: tube.into(), known, whole: true, last: None };
                (once(query), For::DeleteTube(tube.into(), now))
            }
            Request::LimitTube { tube, most, dead } => {
                let dead = dead.filter(|_| most > 0).map(Into::into);
                (once(RareRequest::Limit { tube: tube.into(), most, dead }), For::Limit)
            }
            Request::ExpireTube { tube, seconds } => {
                let query = RareRequest::Keep { tube: tube.into(), expires: Some(seconds), keeps: None };
                (once(query), For::Expire)
            }
            Request::ArchiveTube { tube, seconds } => {
                let query = RareRequest::Keep { tube: tube.into(), expires: None, keeps: Some(seconds) };
                (once(query), For::Archive)
            }
            Request::Use(_)
            | Request::Watch(_)
            | Request::Ignore(_)
            | Request::ListTubeUsed
            | Request::ListTubesWatched
            | Request::Await { .. }
            | Request::StatsReset
            | Request::Quit
            | Request::Ping => unreachable!("it is about the connection alone"),
            Request::PutBatch(_) => unreachable!("each of its messages is a request of its own"),
        };
        let slot = self.next_number();
        self.send(client, slot, query, what);
        Some(slot)
    }

    /// Asks one query about each of these messages; the answer is `word` with how many went well.
    fn ask_about(
        &mut self,
        client: ClientId,
        ids: &Ids<'_>,
        word: ReplyWord,
        query: impl Fn(Id) -> (DatabaseRequest, For),
    ) -> u64 {
        let number = self.next_number();
        let ids: BTreeSet<Id> = ids.iter().collect();
        self.several.insert(number, PartCount { left: ids.len(), done: 0, word });
        for (query, what) in ids.into_iter().map(query) {
            self.send(client, number, query, what);
        }
        number
    }

    fn ask_put(
        &mut self,
        queues: &mut Queues,
        client: ClientId,
        put: &Put<'_>,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let sender = queues.name(client);
        if put.strict && sender.is_none() {
            write::line(out, ReplyWord::NotLoggedIn);
            return None;
        }
        let is_over = put.lives == Some(0);
        if is_over && put.key.is_none() {
            // It would be gone before any client could see it. Keys are in the database alone.
            self.put += 1;
            queues.have_expired(1);
            write::numbered(out, ReplyWord::Inserted, 0);
            return None;
        }
        let size = put.body.len() as u64 + OVERHEAD;
        if self.used + size > self.settings.memory {
            write::line(out, ReplyWord::OutOfMemory);
            return None;
        }
        self.used += size;
        queues.is_producer(client);
        let tube: Arc<str> = put.tube.unwrap_or_else(|| queues.used(client)).into();
        let receiver: Option<Arc<str>> = put.receiver.map(Into::into);
        let delay = if is_over { put.delay.max(UNSEEN) } else { put.delay };
        let what = For::Put(Arc::clone(&tube), receiver.clone(), size, (!is_over).then_some(delay));
        let query = DatabaseRequest::New(NewMessage {
            tube,
            sender,
            receiver,
            key: put.key.map(Into::into),
            strict: put.strict,
            priority: put.priority,
            delay,
            ttr: put.ttr.max(1),
            flags: put.flags,
            lives: put.lives,
            body: put.body.into(),
        });
        let slot = self.next_number();
        self.send(client, slot, query, what);
        Some(slot)
    }

    fn send(&mut self, client: ClientId, slot: u64, query: DatabaseRequest, what: For) {
        let kind = query.kind();
        let holder = self.holder(client);
        let taker = holder.taker;
        let taking = (kind == StatementKind::Take).then(|| Arc::downgrade(&holder.here));
        let joins = holder.out.is_some_and(|(other, _)| other == kind);
        holder.out = Some((kind, holder.out.map_or(0, |(_, count)| count) + 1));
        let number = self.next_number();
        let writes = query.writes();
        self.underway.insert(number, Underway { client, taker, number: slot, what, writes });
        self.asked.push(QueuedRequest { number, query, joins, client: taking });
    }

    /// A part of what was asked is done. The rest is asked behind what others have asked meanwhile,
    /// also where the client has gone: what was begun for it is done.
    fn ask_rest(&mut self, mut asked: Underway, done: u64, rest: RareRequest) {
        if let For::Kick(kicked) = &mut asked.what {
            *kicked += done;
        }
        let number = self.next_number();
        self.underway.insert(number, asked);
        let query = DatabaseRequest::Once(rest);
        self.asked.push(QueuedRequest { number, query, joins: false, client: None });
    }
}

/// The kind of statement of a request; none: it is about the connection alone.
fn kind(request: &Request<'_>) -> Option<StatementKind> {
    Some(match *request {
        Request::Put(put) if put.receiver.is_none() && put.key.is_none() && !put.strict => StatementKind::Put,
        Request::Put(_) => StatementKind::Send,
        Request::PutBatch(_) => StatementKind::Put,
        Request::Reserve
        | Request::ReserveWithTimeout { .. }
        | Request::ReserveBatch { .. }
        | Request::Pop { .. }
        | Request::ReserveJob(_)
        | Request::PopTube(_)
        | Request::PopSender(_) => StatementKind::Take,
        Request::Delete(_) | Request::DeleteBatch(_) => StatementKind::Finish,
        Request::Release { .. }
        | Request::Bury { .. }
        | Request::Touch(_)
        | Request::TouchBatch(_)
        | Request::KickJob(_) => StatementKind::Move,
        Request::Peek(_)
        | Request::PeekReady
        | Request::PeekDelayed
        | Request::PeekBuried
        | Request::PeekTube(_)
        | Request::PeekSender(_) => StatementKind::Look,
        Request::ListTubesForMe => StatementKind::List,
        Request::Use(_)
        | Request::Watch(_)
        | Request::Ignore(_)
        | Request::ListTubeUsed
        | Request::ListTubesWatched
        | Request::StatsReset
        | Request::Quit
        | Request::Ping => return None,
        _ => StatementKind::Once,
    })
}

/// Whether a request is about the connection alone, and is answered from memory in every mode.
pub(crate) fn is_of_connection(request: &Request<'_>) -> bool {
    kind(request).is_none()
}
