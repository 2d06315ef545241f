//! Messages, tubes, leases: what each operation does to them. No socket, no clock, no disk; time is
//! an argument.
//!
//! The owner of the queues decides here and at once. Where a store keeps them, what was decided is
//! also written into a [`CommitBatch`], and each operation that changes something says after which
//! batch it may be answered. A message that was put is seen by no client before its batch is
//! committed; one that was deleted is seen by none from now on.
//!
//! | file | what is done there |
//! |---|---|
//! | this | clients, tubes, putting, committing |
//! | `take` | reserving, popping, waiting for a message |
//! | `moves` | what the holder of a lease, or any client, does to a message that is there |
//! | `time` | what happens when no client does anything |
//! | `heads` | which messages are only in the store, and are read when they are needed |
//! | `look` | questions that change nothing |
//! | `waits` | what happens to messages is written into the books of their tubes |
//! | `reservation`, `store`, `view` | what is asked and written: when messages are taken, of a store, by questions |

mod heads;
mod look;
mod moves;
mod reservation;
mod store;
mod take;
#[cfg(test)]
mod tests;
mod time;
mod view;
mod waits;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use krarup_beanstalk::{DEFAULT_TUBE, Put};
use krarup_units::{Nanos, Stamp};

use crate::books::TubeBooks;
use crate::changes::{CommitBatch, KeyRow, MessageRow, StoredState, TubeRow};
use reservation::WaitingClient;
use store::{FromTo, Heads};

use crate::job::{ClientId, Id, IdMap, Job, JobCounts, JobState, TubeId};
use crate::settings::TubeSettings;
use crate::shards::Shard;
use crate::tube::{Tubes, URGENT};
use crate::window::KeyWindow;

pub use crate::job::OVERHEAD;
pub use moves::Released;
pub(crate) use reservation::MOST_AT_ONCE;
pub use reservation::{After, Reserve, ReserveResult, TakeMode, TakenMessage};
pub use store::{Fetch, Fetched, READ_FOR_AGE, Resident, StoredQueue};
pub(crate) use take::SAFETY_MARGIN;
pub use view::{JobView, Nothing, Totals, TubeView};

/// Settings of the queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSettings {
    /// Bytes that all messages may have, each with [`OVERHEAD`], and the keys that are remembered,
    /// these in at most half of them.
    pub memory: u64,
    /// Whether a store keeps them: then operations are answered after their batch.
    pub durable: bool,
    /// The wall time of the first stamp, since 1970, as the machine has it when they begin.
    pub wall: Nanos,
    /// How long a key of `put-unique` is remembered, counted from the put.
    pub remember_keys: Nanos,
    /// How much of what waits is here, where a store keeps it; none: all.
    pub resident: Option<Resident>,
    /// Which part of all queues these are: its ids are given.
    pub shard: Shard,
    /// What is said about their tubes.
    pub tubes: TubeSettings,
}

impl Default for QueueSettings {
    /// All queues in a mebibyte of memory alone, which remember keys for a minute.
    fn default() -> Self {
        Self {
            memory: 1 << 20,
            durable: false,
            wall: Nanos::ZERO,
            remember_keys: Nanos::from_secs(60),
            resident: None,
            shard: Shard::WHOLE,
            tubes: TubeSettings::default(),
        }
    }
}

/// The name of a tube, and a key in it.
type Key = (Arc<str>, Arc<str>);
/// Bytes that a key costs beside its letters and those of its tube: its places in tables.
const KEY_OVERHEAD: u64 = 200;

/// A wall clock that differs by less was not set: it is not read at the same instant as the other.
const CLOCK_STEP: Nanos = Nanos::from_secs(1);

/// What a key is counted with, in bytes.
fn key_cost((tube, key): &Key) -> u64 {
    (tube.len() + key.len()) as u64 + KEY_OVERHEAD
}

/// Why a message was not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutRefused {
    /// All memory is in use.
    OutOfMemory,
    /// No client has created the tube.
    UnknownTube,
    /// No client of this name is registered.
    UnknownClient,
    /// The sender has not said its name.
    NotLoggedIn,
    /// Its key is that of an earlier message, to be answered after this batch.
    Duplicate(Id, After),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A lease runs out.
    Lease(Id),
    /// A message has waited too long.
    Expiry(Id),
    /// A delay is over.
    Delay(Id),
    /// A tube is no longer paused.
    Pause(TubeId),
    /// A client has waited long enough.
    Client(ClientId),
}

#[derive(Debug)]
struct Client {
    name: Option<Arc<str>>,
    used: TubeId,
    watched: Vec<TubeId>,
    /// Whether it is sent the flags of messages.
    flagged: bool,
    leases: BTreeSet<(Stamp, Id)>,
    waiting: Option<WaitingClient>,
    producer: bool,
    worker: bool,
}

/// All queues of one owner.
#[derive(Debug)]
pub struct Queues {
    settings: QueueSettings,
    /// By how many nanoseconds the machine's wall clock was set since they began: whole
    /// microseconds.
    clock_shift: i64,
    jobs: IdMap<Job>,
    tubes: Tubes,
    clients: Vec<Option<Client>>,
    free_clients: Vec<ClientId>,
    registered: HashSet<Arc<str>>,
    /// Ready messages of each sender, for each receiver.
    sent: HashMap<FromTo, KeyWindow<Id>>,
    heads: Heads,
    /// Whether any messages expire, those of a tube or single ones.
    expiring: bool,
    keys: HashMap<Key, KeyRow>,
    keys_by_age: BTreeSet<(Nanos, Key)>,
    /// Bytes that the keys are counted with.
    key_bytes: u64,
    due: BTreeSet<(Stamp, Due)>,
    next_id: Id,
    next_order: u64,
    next_turn: u64,
    used: u64,
    /// What will be in the next batch, and its number.
    batch: CommitBatch,
    gathering: u64,
    /// Messages that no client sees before their batch is committed, in order.
    pending: VecDeque<(u64, Id)>,
    answers: Vec<(ClientId, ReserveResult)>,
    totals: Totals,
    books: TubeBooks,
}

impl Queues {
    /// No messages and no client connected.
    pub fn new(settings: QueueSettings) -> Self {
        let mut tubes = Tubes::default();
        let default = tubes.find_or_make(DEFAULT_TUBE);
        // It is always there.
        tubes.get_mut(default).using = 1;
        Self {
            settings,
            clock_shift: 0,
            jobs: IdMap::default(),
            tubes,
            clients: Vec::new(),
            free_clients: Vec::new(),
            registered: HashSet::new(),
            sent: HashMap::new(),
            heads: Heads::default(),
            expiring: false,
            keys: HashMap::new(),
            keys_by_age: BTreeSet::new(),
            key_bytes: 0,
            due: BTreeSet::new(),
            next_id: settings.shard.id_from(1),
            next_order: 1,
            next_turn: 1,
            used: 0,
            batch: CommitBatch::default(),
            gathering: 1,
            pending: VecDeque::new(),
            answers: Vec::new(),
            totals: Totals::default(),
            books: TubeBooks::default(),
        }
    }

    // ---- clients --------------------------------------------------------------------------------

    /// A client connects: it uses and watches the tube `default`.
    pub fn open(&mut self) -> ClientId {
        let default = self.tubes.find_or_make(DEFAULT_TUBE);
        let tube = self.tubes.get_mut(default);
        tube.using += 1;
        tube.watching += 1;
        let client = Client {
            name: None,
            used: default,
            watched: vec![default],
            flagged: false,
            leases: BTreeSet::new(),
            waiting: None,
            producer: false,
            worker: false,
        };
        self.totals.connections += 1;
        self.totals.all_connections += 1;
        let place = self.free_clients.pop().unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() as ClientId - 1
        });
        self.clients[place as usize] = Some(client);
        place
    }

    /// It goes: what it had reserved is ready again.
    pub fn close(&mut self, client: ClientId, now: Stamp) {
        self.stop_waiting(client);
        self.heads_left(client);
        let leases: Vec<Id> = self.client(client).leases.iter().map(|(_, id)| *id).collect();
        for id in leases {
            self.service_ended(id, false, now);
            self.end_lease(id);
            self.give_back(id, now);
        }
        let gone = self.clients[client as usize].take().expect("he was connected");
        self.free_clients.push(client);
        self.tubes.get_mut(gone.used).using -= 1;
        self.tubes.let_go(gone.used);
        for tube in gone.watched {
            self.tubes.get_mut(tube).watching -= 1;
            self.tubes.let_go(tube);
        }
        self.totals.connections -= 1;
        self.totals.producers -= u64::from(gone.producer);
        self.totals.workers -= u64::from(gone.worker);
    }

    fn client(&self, client: ClientId) -> &Client {
        self.clients[client as usize].as_ref().expect("he is connected")
    }

    fn client_mut(&mut self, client: ClientId) -> &mut Client {
        self.clients[client as usize].as_mut().expect("he is connected")
    }

    /// Messages are put into this tube from now on.
    pub fn use_tube(&mut self, client: ClientId, name: &str) {
        let tube = self.tubes.find_or_make(name);
        self.tubes.get_mut(tube).using += 1;
        let before = std::mem::replace(&mut self.client_mut(client).used, tube);
        self.tubes.get_mut(before).using -= 1;
        self.tubes.let_go(before);
    }

    /// Messages are also taken from this tube; how many tubes that makes.
    pub fn watch(&mut self, client: ClientId, name: &str) -> usize {
        let tube = self.tubes.find_or_make(name);
        if !self.client(client).watched.contains(&tube) {
            self.tubes.get_mut(tube).watching += 1;
            self.client_mut(client).watched.push(tube);
        }
        self.client(client).watched.len()
    }

    /// No longer from this one; how many tubes are left, or none if it was the last.
    pub fn ignore(&mut self, client: ClientId, name: &str) -> Option<usize> {
        let watched = &self.client(client).watched;
        let place = self.tubes.find(name).and_then(|tube| watched.iter().position(|other| *other == tube));
        if let Some(place) = place {
            if watched.len() < 2 {
                return None;
            }
            let tube = self.client_mut(client).watched.remove(place);
            self.tubes.get_mut(tube).watching -= 1;
            self.tubes.let_go(tube);
        }
        Some(self.client(client).watched.len())
    }

    /// A client may be sent messages from now on; whether it was not registered before.
    pub fn register(&mut self, name: &str) -> (bool, After) {
        let name: Arc<str> = name.into();
        let new = self.registered.insert(Arc::clone(&name));
        if new && self.settings.durable {
            self.batch.clients.insert(name, true);
        }
        (new, self.after())
    }

    /// No client of this name any more; whether it was registered. Messages for it stay until it is
    /// back.
    pub fn unregister(&mut self, name: &str) -> (bool, After) {
        let was = self.registered.remove(name);
        if was && self.settings.durable {
            self.batch.clients.insert(name.into(), false);
        }
        (was, self.after())
    }

    /// The client says its name; whether it is registered.
    pub fn login(&mut self, client: ClientId, name: &str) -> bool {
        let Some(name) = self.registered.get(name).cloned() else { return false };
        self.client_mut(client).name = Some(name);
        true
    }

    /// Its name from now on: others know that it is registered.
    pub(crate) fn call(&mut self, client: ClientId, name: &str) {
        self.client_mut(client).name = Some(name.into());
    }

    /// The name that it has said.
    pub(crate) fn name(&self, client: ClientId) -> Option<Arc<str>> {
        self.client(client).name.clone()
    }

    /// It is sent the flags of messages from now on.
    pub(crate) fn wants_flags(&mut self, client: ClientId) {
        self.client_mut(client).flagged = true;
    }

    /// The flags of a message, if it is sent them.
    pub(crate) fn shown_flags(&self, client: ClientId, flags: u32) -> Option<u32> {
        self.client(client).flagged.then_some(flags)
    }

    /// It puts messages.
    pub(crate) fn is_producer(&mut self, client: ClientId) {
        let known = self.client_mut(client);
        self.totals.producers += u64::from(!std::mem::replace(&mut known.producer, true));
    }

    /// It takes messages.
    pub(crate) fn is_worker(&mut self, client: ClientId) {
        let known = self.client_mut(client);
        self.totals.workers += u64::from(!std::mem::replace(&mut known.worker, true));
    }

    // ---- tubes ----------------------------------------------------------------------------------

    /// A tube that stays; whether it had not been created before.
    pub fn create_tube(&mut self, name: &str) -> (bool, After) {
        let tube = self.tubes.find_or_make(name);
        let new = !std::mem::replace(&mut self.tubes.get_mut(tube).kept.created, true);
        if new {
            self.write_tube(tube);
        }
        (new, self.after())
    }

    /// A tube and all its messages are no more; none if there is no such tube.
    pub fn delete_tube(&mut self, name: &str) -> Option<After> {
        let tube = self.tubes.find(name)?;
        // Its last message must not take it along yet.
        self.tubes.get_mut(tube).using += 1;
        self.remove_messages(tube);
        self.tubes.get_mut(tube).kept = TubeRow::default();
        self.write_tube(tube);
        self.tubes.get_mut(tube).using -= 1;
        self.tubes.let_go(tube);
        Some(self.after())
    }

    /// All messages of a tube are no more, and what it was told to do holds on; none if there is no
    /// such tube.
    pub fn empty_tube(&mut self, name: &str) -> Option<After> {
        let tube = self.tubes.find(name)?;
        self.remove_messages(tube);
        Some(self.after())
    }

    /// What clients have reserved of it is theirs no more. What is not committed yet has not
    /// happened yet: it will be in the tube, or in the new one of this name.
    fn remove_messages(&mut self, tube: TubeId) {
        for id in self.messages_here(tube) {
            self.remove(id);
        }
    }

    /// The messages of a tube that are in memory and committed, wherever they stand.
    fn messages_here(&self, tube: TubeId) -> Vec<Id> {
        let of = self.tubes.get(tube);
        let ready = std::iter::once(&of.ready).chain(of.addressed.values());
        let mut ids: Vec<Id> = ready.flat_map(|line| line.here().map(|(_, id)| id)).collect();
        ids.extend(of.delayed.here().map(|(_, id)| id));
        ids.extend(of.buried.here().map(|(_, id)| id));
        let is_of = |id: &Id| self.jobs[id].tube == tube;
        if of.reserved > 0 {
            let leases = self.clients.iter().flatten().flat_map(|client| &client.leases);
            ids.extend(leases.map(|(_, id)| *id).filter(is_of));
        }
        // Their lines only count them.
        ids.extend(self.heads.leaving.keys().copied().filter(is_of));
        ids
    }

    /// From now on a message that was reserved `most` times goes to `dead` instead of back, or is
    /// buried.
    pub fn limit_tube(&mut self, name: &str, most: u32, dead: Option<&str>) -> After {
        let tube = self.tubes.find_or_make(name);
        let kept = &mut self.tubes.get_mut(tube).kept;
        kept.most = most;
        kept.dead = dead.filter(|_| most > 0).map(Into::into);
        self.write_tube(tube);
        self.tubes.let_go(tube);
        self.after()
    }

    /// From now on a message of this tube that still waits so many seconds after its put is gone;
    /// zero: none is.
    pub fn expire_tube(&mut self, name: &str, seconds: u32, now: Stamp) -> After {
        let tube = self.tubes.find_or_make(name);
        let before = std::mem::replace(&mut self.tubes.get_mut(tube).kept.expires, seconds);
        self.expiring |= seconds > 0;
        self.write_tube(tube);
        if before != seconds {
            self.watch_expiries(tube);
        }
        if seconds > 0 {
            // Of a line that is only in the store, none would be seen to have waited too long.
            let of = self.tubes.get(tube);
            let receivers = std::iter::once(None).chain(of.addressed.keys().cloned().map(Some));
            let lines: Vec<StoredQueue> =
                receivers.map(|to| StoredQueue::Ready(Arc::clone(&of.name), to)).collect();
            for line in lines {
                self.look_ahead(&line);
            }
        }
        self.tubes.let_go(tube);
        let after = self.after();
        self.tick(now);
        after
    }

    /// From now on a message of this tube that is gone is kept in the archive for so many seconds;
    /// none if there is no archive.
    pub fn archive_tube(&mut self, name: &str, seconds: u32) -> Option<After> {
        if !self.settings.durable {
            return None;
        }
        let tube = self.tubes.find_or_make(name);
        self.tubes.get_mut(tube).kept.keeps = seconds;
        self.write_tube(tube);
        self.tubes.let_go(tube);
        Some(self.after())
    }

    fn write_tube(&mut self, tube: TubeId) {
        if self.settings.durable {
            let tube = self.tubes.get(tube);
            let row = (tube.kept != TubeRow::default()).then(|| tube.kept.clone());
            self.batch.tubes.insert(Arc::clone(&tube.name), row);
        }
    }

    // ---- putting --------------------------------------------------------------------------------

    /// A message comes.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn put(&mut self, client: ClientId, put: &Put<'_>, now: Stamp) -> Result<(Id, After), PutRefused> {
        let sender = self.client(client).name.clone();
        if put.strict {
            if sender.is_none() {
                return Err(PutRefused::NotLoggedIn);
            }
            let tube = put.tube.and_then(|name| self.tubes.find(name));
            if !tube.is_some_and(|tube| self.tubes.get(tube).kept.created) {
                return Err(PutRefused::UnknownTube);
            }
        }
        let receiver = match put.receiver {
            None => None,
            Some(name) => Some(self.registered.get(name).cloned().ok_or(PutRefused::UnknownClient)?),
        };
        if !self.has_room(put.body.len()) {
            return Err(PutRefused::OutOfMemory);
        }
        let tube = match put.tube {
            Some(name) => self.tubes.find_or_make(name),
            None => self.client(client).used,
        };
        let name = Arc::clone(&self.tubes.get(tube).name);
        if let Some(key) = put.key {
            let key = (name, Arc::from(key));
            if let Some(id) = self.keys.get(&key).map(|there| there.id) {
                self.tubes.let_go(tube);
                return Err(PutRefused::Duplicate(id, self.committed_with(id)));
            }
            if self.key_bytes + key_cost(&key) > self.settings.memory / 2 {
                self.tubes.let_go(tube);
                return Err(PutRefused::OutOfMemory);
            }
            self.remember(
                key,
                KeyRow { id: self.next_id, until: self.wall(now) + self.settings.remember_keys },
            );
        }
        self.is_producer(client);
        let id = self.add(tube, sender, receiver, put, now);
        Ok((id, self.after()))
    }

    /// Whether there is memory for a body of this length, and room in what is written next. Keys
    /// leave messages half of the memory, also those of a store, which may need more.
    pub fn has_room(&self, length: usize) -> bool {
        let keys = self.key_bytes.min(self.settings.memory / 2);
        let used = self.used + keys + length as u64 + OVERHEAD;
        self.batch.has_room(length) && used <= self.settings.memory
    }

    /// Ids from here on were never given.
    pub fn next_id(&self) -> Id {
        self.next_id
    }

    /// Messages that applications had stored beside the queues come in, each under its number
    /// there.
    pub fn take_in(&mut self, number: i64, tube: &str, put: &Put<'_>, now: Stamp) {
        let tube = self.tubes.find_or_make(tube);
        self.batch.taken_in.push(number);
        self.add(tube, None, None, put, now);
    }

    fn add(
        &mut self,
        tube: TubeId,
        sender: Option<Arc<str>>,
        receiver: Option<Arc<str>>,
        put: &Put<'_>,
        now: Stamp,
    ) -> Id {
        let id = self.next_id;
        self.next_id += Id::from(self.settings.shard.of);
        let delay = Nanos::from_secs(put.delay.into());
        let job = Job {
            tube,
            sender,
            receiver,
            priority: put.priority,
            delay,
            ttr: Nanos::from_secs(put.ttr.max(1).into()),
            created: self.wall(now),
            state: JobState::Pending,
            flags: put.flags,
            lives_until: put.lives.map(|seconds| self.wall(now) + Nanos::from_secs(seconds.into())),
            expires: None,
            since: None,
            happened: JobCounts::default(),
            saved: true,
            body: put.body.into(),
        };
        self.expiring |= put.lives.is_some();
        self.used += job.cost();
        self.tubes.get_mut(tube).pending += 1;
        self.jobs.insert(id, job);
        if self.settings.durable {
            let until = self.on_the_microsecond(now + delay);
            let row = self.row(id, if delay > Nanos::ZERO { self.delayed(until) } else { JobState::Ready });
            self.batch.insert(row);
            self.pending.push_back((self.gathering, id));
        } else {
            self.appear(id, now);
        }
        id
    }

    /// What was put is there from now on.
    fn appear(&mut self, id: Id, now: Stamp) {
        let job = &self.jobs[&id];
        let (tube, delay) = (job.tube, job.delay);
        let in_tube = self.tubes.get_mut(tube);
        in_tube.pending -= 1;
        in_tube.total_jobs += 1;
        self.totals.jobs += 1;
        if delay > Nanos::ZERO {
            // Counted from the put, as its row says, even if the commit took long.
            let until = self.on_the_microsecond(self.stamp(job.created + delay));
            self.delay(id, until);
        } else {
            self.make_ready(id, now);
        }
    }

    fn remember(&mut self, key: Key, row: KeyRow) {
        if self.settings.durable {
            let until = self.stored_time(row.until);
            self.batch.keys.insert(key.clone(), KeyRow { until, ..row });
        }
        self.keep_key(key, row);
    }

    fn keep_key(&mut self, key: Key, row: KeyRow) {
        if self.keys.insert(key.clone(), row).is_none() {
            self.key_bytes += key_cost(&key);
        }
        self.keys_by_age.insert((row.until, key));
    }

    /// A key is remembered no more, if what is kept of it is still that.
    fn forget_key(&mut self, key: &Key, is_it: impl FnOnce(&KeyRow) -> bool) {
        if self.keys.get(key).is_some_and(is_it) {
            self.keys.remove(key);
            self.key_bytes -= key_cost(key);
        }
    }

    // ---- committing -----------------------------------------------------------------------------

    /// After which batch what was just decided may be answered.
    fn after(&self) -> After {
        (self.settings.durable && !self.batch.is_empty()).then_some(self.gathering)
    }

    fn committed_with(&self, id: Id) -> After {
        // Later ones have higher numbers.
        let place = self.pending.binary_search_by_key(&id, |(_, other)| *other).ok()?;
        Some(self.pending[place].0)
    }

    /// What waits to be written, under its number; none if nothing does.
    pub fn take_batch(&mut self) -> Option<(u64, CommitBatch)> {
        if self.batch.is_empty() {
            return None;
        }
        let number = self.gathering;
        self.gathering += 1;
        Some((number, std::mem::take(&mut self.batch)))
    }

    /// The number of the batch that is being gathered.
    pub fn next_batch(&self) -> u64 {
        self.gathering
    }

    /// What waits to be written.
    pub fn gathered(&self) -> &CommitBatch {
        &self.batch
    }

    /// Whether something waits to be written.
    pub fn has_batch(&self) -> bool {
        !self.batch.is_empty()
    }

    /// All batches up to this one are on disk: what was put with them is there.
    pub fn committed(&mut self, number: u64, now: Stamp) {
        self.heads_committed(number);
        while let Some(&(batch, id)) = self.pending.front()
            && batch <= number
        {
            self.pending.pop_front();
            self.appear(id, now);
        }
    }

    /// The store refused this batch, whole: what was put with it never was. Everything else of it
    /// waits for the next.
    pub fn refused(&mut self, number: u64, batch: CommitBatch) {
        while let Some(&(its, id)) = self.pending.front()
            && its <= number
        {
            self.pending.pop_front();
            let job = self.jobs.remove(&id).expect("it was put");
            self.used -= job.cost();
            self.tubes.get_mut(job.tube).pending -= 1;
            self.tubes.let_go(job.tube);
        }
        let newer = std::mem::take(&mut self.batch);
        let mut kept = batch;
        kept.messages.retain(|_, change| !matches!(change, crate::changes::MessageChange::Insert(_)));
        // All of them are of what was put with it.
        for (key, row) in kept.keys.drain() {
            let there = self.keys.get(&key).copied().filter(|there| there.id == row.id);
            if let Some(there) = there {
                self.forget_key(&key, |_| true);
                self.keys_by_age.remove(&(there.until, key));
            }
        }
        // They are found again where they were stored.
        kept.taken_in.clear();
        kept.bodies = newer.bodies;
        kept.keep_last_before(&newer);
        kept.messages.extend(newer.messages);
        kept.tubes.extend(newer.tubes);
        kept.clients.extend(newer.clients);
        kept.keys.extend(newer.keys);
        kept.taken_in.extend(newer.taken_in);
        kept.last.extend(newer.last);
        self.batch = kept;
        self.heads_refused(number);
    }

    /// A message that was in the store when this owner began.
    pub fn load(&mut self, row: MessageRow, now: Stamp) {
        let tube = self.tubes.find_or_make(&row.tube);
        self.ids_from(row.id + 1);
        self.expiring |= row.lives_until.is_some();
        let (id, standing) = (row.id, row.standing);
        let job = self.with_own_times(row).into_job(tube, JobState::Pending);
        self.used += job.cost();
        self.jobs.insert(id, job);
        match standing {
            StoredState::Ready => self.offer(id, now),
            StoredState::Delayed(due) => {
                let until = self.stamp(self.own_time(due));
                if until > now { self.delay(id, until) } else { self.offer(id, now) }
            }
            StoredState::Buried(order) => {
                self.next_order = self.next_order.max(order + 1);
                self.set_aside(id, order);
            }
        }
    }

    /// A tube that was in the store, as its messages were.
    pub fn load_tube(&mut self, name: &str, row: TubeRow) {
        let tube = self.tubes.find_or_make(name);
        let expires = row.expires > 0;
        self.expiring |= expires;
        self.tubes.get_mut(tube).kept = row;
        if expires {
            self.watch_expiries(tube);
        }
    }

    /// A client that was in the store.
    pub fn load_client(&mut self, name: &str) {
        self.registered.insert(name.into());
    }

    /// A key that was in the store.
    pub fn load_key(&mut self, tube: &str, key: &str, row: KeyRow) {
        let until = self.own_time(row.until);
        self.keep_key((Arc::from(tube), Arc::from(key)), KeyRow { until, ..row });
        self.ids_from(row.id + 1);
    }

    /// Ids below this one have been given before.
    pub fn ids_from(&mut self, first: Id) {
        self.next_id = self.next_id.max(self.settings.shard.id_from(first));
    }

    fn row(&self, id: Id, state: JobState) -> MessageRow {
        let job = &self.jobs[&id];
        let standing = match state {
            JobState::Pending | JobState::Ready | JobState::Reserved { .. } => StoredState::Ready,
            JobState::Delayed { due, .. } => StoredState::Delayed(due),
            JobState::Buried { order } => StoredState::Buried(order),
        };
        MessageRow {
            id,
            tube: Arc::clone(&self.tubes.get(job.tube).name),
            sender: job.sender.clone(),
            receiver: job.receiver.clone(),
            priority: job.priority,
            delay: job.delay,
            ttr: job.ttr,
            created: self.stored_time(job.created),
            standing,
            happened: job.happened,
            flags: job.flags,
            lives_until: job.lives_until.map(|end| self.stored_time(end)),
            body: Arc::clone(&job.body),
        }
    }

    /// What has become of a message is written with the next batch.
    fn write(&mut self, id: Id) {
        if self.settings.durable {
            let row = self.row(id, self.jobs[&id].state);
            self.batch.update(row);
            self.jobs.get_mut(&id).expect("it is there").saved = true;
        }
    }

    /// Messages have expired where the database decides.
    pub(crate) fn have_expired(&mut self, count: u64) {
        self.totals.expired += count;
    }

    // ---- the wall clock -------------------------------------------------------------------------

    /// The time on the wall, if it was not set since they began: what is in memory goes by this one
    /// alone, so that nothing ends because a clock was set.
    pub(crate) fn wall(&self, now: Stamp) -> Nanos {
        self.settings.wall + Nanos(now.0)
    }

    /// The time on the wall as it is now.
    pub(crate) fn wall_now(&self, now: Stamp) -> Nanos {
        self.stored_time(self.wall(now))
    }

    /// The wall time of the first stamp, as the machine has it now. What is in memory goes on as it
    /// was; what is written from now on is by this wall, and so is what comes out of a store.
    pub fn set_wall(&mut self, wall: Nanos) {
        let shift = wall.0.cast_signed() - self.settings.wall.0.cast_signed();
        let shift = shift - shift % 1_000;
        if shift.abs_diff(self.clock_shift) < CLOCK_STEP.0 {
            return;
        }
        self.clock_shift = shift;
        // Rows that are on their way are by the wall as it was.
        for (_, id) in &self.pending {
            self.jobs.get_mut(id).expect("it was put").saved = false;
        }
    }

    /// A time of these queues as a store has it.
    fn stored_time(&self, time: Nanos) -> Nanos {
        Nanos(time.0.saturating_add_signed(self.clock_shift))
    }

    /// A time of a store as these queues have it.
    fn own_time(&self, stored: Nanos) -> Nanos {
        Nanos(stored.0.saturating_add_signed(-self.clock_shift))
    }

    /// A message of a store, put and gone when these queues have it.
    fn with_own_times(&self, row: MessageRow) -> MessageRow {
        let created = self.own_time(row.created);
        MessageRow { created, lives_until: row.lives_until.map(|end| self.own_time(end)), ..row }
    }

    /// The state of a message that is delayed from now on.
    fn delayed(&self, until: Stamp) -> JobState {
        JobState::Delayed { until, due: self.wall_now(until) }
    }

    /// The end of a delay, as exact as a store can keep it.
    fn on_the_microsecond(&self, until: Stamp) -> Stamp {
        let wall = self.wall(until).0;
        Stamp(until.0.saturating_add(wall.next_multiple_of(1_000) - wall))
    }

    // ---- lines ----------------------------------------------------------------------------------

    /// Puts a message that is in no line into that of the delayed.
    fn delay(&mut self, id: Id, until: Stamp) {
        let due = self.wall_now(until);
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.state = JobState::Delayed { until, due };
        job.since = None;
        let here = self.tubes.get_mut(job.tube).delayed.insert((due, id));
        self.due.insert((until, Due::Delay(id)));
        self.totals.delayed += 1;
        self.watch_expiry(id);
        self.settle(id, here);
    }

    /// Puts a message that is in no line into that of the buried.
    fn set_aside(&mut self, id: Id, order: u64) {
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.state = JobState::Buried { order };
        job.since = None;
        let here = self.tubes.get_mut(job.tube).buried.insert((order, id));
        self.totals.buried += 1;
        self.settle(id, here);
    }

    /// A message that is in no line becomes ready.
    fn make_ready(&mut self, id: Id, now: Stamp) {
        if self.has_expired(id, now) {
            return self.expire(id);
        }
        self.became_ready(id, now);
        self.offer(id, now);
    }

    /// A message that is in no line is ready: a client that waits for it longest has it, or it goes
    /// into its line.
    fn offer(&mut self, id: Id, now: Stamp) {
        if self.has_expired(id, now) {
            return self.expire(id);
        }
        while let Some(client) = self.longest_waiting_client(id) {
            if self.grant(client, id, now) {
                return;
            }
        }
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.state = JobState::Ready;
        let tube = self.tubes.get_mut(job.tube);
        let here = tube.line_mut(job.receiver.as_ref()).insert((job.priority, id));
        let urgent = u64::from(job.priority < URGENT);
        tube.urgent += urgent;
        self.totals.urgent += urgent;
        self.totals.ready += 1;
        if let Some(sender) = &job.sender {
            let line = (Arc::clone(sender), job.receiver.clone());
            self.sent.entry(line.clone()).or_default().insert(id);
            self.settle_sent(&line);
        }
        self.watch_expiry(id);
        self.settle(id, here);
    }

    /// Takes a message out of the line it is in, or away from the client that has it.
    fn unlist(&mut self, id: Id) {
        self.unwatch_expiry(id);
        let job = &self.jobs[&id];
        match job.state {
            JobState::Pending => {}
            JobState::Ready => {
                let tube = self.tubes.get_mut(job.tube);
                let line = tube.line_mut(job.receiver.as_ref());
                line.remove((job.priority, id));
                let low =
                    line.is_low().then(|| StoredQueue::Ready(Arc::clone(&tube.name), job.receiver.clone()));
                if let Some(receiver) = &job.receiver
                    && tube.addressed[receiver].is_empty()
                {
                    tube.addressed.remove(receiver);
                }
                let urgent = u64::from(job.priority < URGENT);
                tube.urgent -= urgent;
                if let Some(sender) = &job.sender {
                    let key = (Arc::clone(sender), job.receiver.clone());
                    if let Some(line) = self.sent.get_mut(&key) {
                        line.remove(id);
                        if line.is_empty() {
                            self.sent.remove(&key);
                        }
                    }
                }
                self.totals.urgent -= urgent;
                self.totals.ready -= 1;
                if let Some(line) = low {
                    self.look_ahead(&line);
                }
            }
            JobState::Reserved { .. } => self.end_lease(id),
            JobState::Delayed { until, due } => {
                let tube = self.tubes.get_mut(job.tube);
                tube.delayed.remove((due, id));
                let low = tube.delayed.is_low().then(|| StoredQueue::Delayed(Arc::clone(&tube.name)));
                self.due.remove(&(until, Due::Delay(id)));
                self.totals.delayed -= 1;
                if let Some(line) = low {
                    self.look_ahead(&line);
                }
            }
            JobState::Buried { order } => {
                self.tubes.get_mut(job.tube).buried.remove((order, id));
                self.totals.buried -= 1;
            }
        }
        self.is_needed(id);
    }

    /// A message is no more.
    fn remove(&mut self, id: Id) -> Job {
        self.unlist(id);
        let job = self.jobs.remove(&id).expect("it is there");
        self.used -= job.cost();
        if self.settings.durable {
            match self.tubes.get(job.tube).kept.keeps {
                0 => self.batch.delete(id),
                _ => self.batch.archive(id),
            }
        }
        self.tubes.let_go(job.tube);
        job
    }
}
