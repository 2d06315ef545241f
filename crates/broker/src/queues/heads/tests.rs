//! A queue of which only the first messages are in memory answers as one that has them all: random
//! histories, and the smallest bounds there are.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::changes::CommitBatch;
use crate::owner::{self, OwnerOutcome};
use crate::queues::{QueueSettings, READ_FOR_AGE};
use crate::shards::{Shard, shard_of};
use krarup_beanstalk::{Ids, Put, ReplyWord, Request};

/// A store, as a table.
#[derive(Default)]
struct Table(BTreeMap<Id, MessageRow>);

impl Table {
    fn write(&mut self, batch: &CommitBatch) {
        for (id, change) in &batch.messages {
            match change {
                MessageChange::Insert(row) => assert!(self.0.insert(*id, (**row).clone()).is_none()),
                MessageChange::Update(row) => {
                    assert!(self.0.insert(*id, (**row).clone()).is_some(), "{id} is there");
                }
                MessageChange::Delete => assert!(self.0.remove(id).is_some(), "{id} is there"),
            }
        }
    }

    /// The lines of the table, each row with its place.
    fn lines(&self) -> Vec<(StoredQueue, (u64, Id), &MessageRow)> {
        let mut lines = Vec::new();
        for (id, row) in &self.0 {
            let (line, place) = match row.standing {
                StoredState::Ready => {
                    (StoredQueue::Ready(Arc::clone(&row.tube), row.receiver.clone()), row.priority.into())
                }
                StoredState::Delayed(until) => (StoredQueue::Delayed(Arc::clone(&row.tube)), until.0),
                StoredState::Buried(order) => (StoredQueue::Buried(Arc::clone(&row.tube)), order),
            };
            lines.push((line, (place, *id), row));
            if let (StoredState::Ready, Some(sender)) = (row.standing, &row.sender) {
                lines.push((StoredQueue::Sent((Arc::clone(sender), row.receiver.clone())), (0, *id), row));
            }
        }
        lines.sort_by_key(|(_, place, _)| *place);
        lines
    }

    fn answer(&self, fetch: &Fetch, most: usize) -> Fetched {
        let (line, from, most) = match fetch {
            Fetch::Begin => return Fetched::default(),
            Fetch::Named(ids) => {
                let rows = ids.iter().filter_map(|id| self.0.get(id).cloned()).collect();
                return Fetched { rows, ..Fetched::default() };
            }
            Fetch::Heads(line, from) => (line, *from, most),
            Fetch::First(line) => (line, (0, 0), READ_FOR_AGE),
        };
        let lines = self.lines();
        let of = lines.iter().filter(|(other, place, _)| other == line && *place >= from);
        let (rows, complete): (Vec<MessageRow>, _) =
            (of.clone().take(most).map(|(_, _, row)| (*row).clone()).collect(), of.count() < most);
        match line {
            StoredQueue::Sent(_) => {
                Fetched { ids: rows.iter().map(|row| row.id).collect(), complete, ..Fetched::default() }
            }
            _ => Fetched { rows, complete, ..Fetched::default() },
        }
    }
}

/// Queues over a table, with a batch or a question that may be on its way.
struct Stored {
    queues: Queues,
    table: Table,
    writing: Option<(u64, CommitBatch)>,
    asking: Option<Fetch>,
    heads: usize,
}

impl Stored {
    fn new(resident: Option<Resident>) -> Self {
        let wall = Nanos::from_secs(1_000);
        let settings = QueueSettings { durable: true, wall, resident, ..QueueSettings::default() };
        let mut queues = Queues::new(settings);
        for name in ["anna", "bert"] {
            queues.register(name);
        }
        let heads = resident.map_or(1, |resident| resident.heads);
        Self { queues, table: Table::default(), writing: None, asking: None, heads }
    }

    fn begin_to_write(&mut self) {
        if self.writing.is_none() && self.asking.is_none() {
            self.writing = self.queues.take_batch();
        }
    }

    fn is_written(&mut self, now: Stamp) {
        if let Some((number, batch)) = self.writing.take() {
            self.table.write(&batch);
            self.queues.committed(number, now);
        }
    }

    fn is_refused(&mut self) {
        if let Some((number, batch)) = self.writing.take() {
            self.queues.refused(number, batch);
        }
    }

    fn begin_to_ask(&mut self) {
        if self.writing.is_none() && self.asking.is_none() {
            self.asking = self.queues.take_fetch();
        }
    }

    fn is_asked(&mut self, now: Stamp) {
        if let Some(fetch) = self.asking.take() {
            let answer = self.table.answer(&fetch, self.heads);
            self.queues.fetched(answer, now);
        }
    }

    /// Until nothing is left to be read; whether there was anything.
    fn read_all(&mut self, now: Stamp) -> bool {
        let mut any = self.asking.is_some();
        self.is_asked(now);
        while self.queues.has_fetch() {
            any = true;
            self.begin_to_ask();
            self.is_asked(now);
        }
        any
    }

    fn pass(&mut self, now: Stamp) {
        self.queues.tick(now);
        while self.read_all(now) {
            self.queues.tick(now);
        }
    }

    fn request(&mut self, client: ClientId, request: &Request<'_>, now: Stamp) -> (Vec<u8>, bool) {
        for turn in 0.. {
            if !self.queues.lacks(client, request, now) {
                break;
            }
            assert!(turn < 1_000 && self.read_all(now), "nothing comes of {request:?}");
        }
        let mut out = Vec::new();
        let outcome = owner::carry_out(&mut self.queues, client, request, now, &mut out);
        (out, outcome == OwnerOutcome::Waits)
    }

    /// A message of so many bytes is put, and written.
    fn put(&mut self, client: ClientId, tube: &str, priority: u32, length: usize) {
        let body = vec![b'x'; length];
        let put = Put { tube: Some(tube), priority, ttr: 60, body: &body, ..Put::default() };
        let (reply, _) = self.request(client, &Request::Put(put), Stamp(0));
        assert!(reply.starts_with(b"INSERTED "), "{}", String::from_utf8_lossy(&reply));
        self.begin_to_write();
        self.is_written(Stamp(0));
    }

    fn answers(&mut self) -> Vec<(ClientId, Vec<u8>)> {
        let mut answers = Vec::new();
        self.queues.take_answers(&mut answers);
        let tell = |(client, answer)| {
            let mut out = Vec::new();
            owner::write_answer(&mut out, ReplyWord::Reserved, &answer);
            (client, out)
        };
        answers.into_iter().map(tell).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put { tube: usize, priority: u32, delay: u32, ttr: u32, to: Option<usize> },
    Ask(Kind),
    Pass,
    Leave,
    Write,
    Written,
    Refused,
    Read,
    HasRead,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Reserve(bool),
    Several(u32),
    Pop(bool),
    PopTube(usize),
    PeekTube(usize),
    PopSender(usize),
    PeekSender(usize),
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Kick(u32),
    Delete(u64),
    DeleteSome(u64),
    Release(u64, u32, u32),
    Bury(u64, u32),
    Touch(u64),
    TouchSome(u64),
    KickJob(u64),
    ReserveJob(u64),
    Peek(u64),
    Look(u64),
    Tubes,
    Pause(usize),
    DeleteTube(usize),
}

const TUBES: [&str; 2] = ["one", "two"];
const NAMES: [&str; 2] = ["anna", "bert"];

impl Kind {
    fn request(self, ids: &mut Vec<u64>) -> Request<'_> {
        let zero = Nanos::ZERO;
        match self {
            Self::Reserve(true) => Request::Reserve,
            Self::Reserve(false) => Request::ReserveWithTimeout { timeout: zero },
            Self::Several(most) => Request::ReserveBatch { most, timeout: zero },
            Self::Pop(wait) => Request::Pop { timeout: if wait { Nanos::from_secs(2) } else { zero } },
            Self::PopTube(tube) => Request::PopTube(TUBES[tube]),
            Self::PeekTube(tube) => Request::PeekTube(TUBES[tube]),
            Self::PopSender(name) => Request::PopSender(NAMES[name]),
            Self::PeekSender(name) => Request::PeekSender(NAMES[name]),
            Self::PeekReady => Request::PeekReady,
            Self::PeekDelayed => Request::PeekDelayed,
            Self::PeekBuried => Request::PeekBuried,
            Self::Kick(bound) => Request::Kick(bound),
            Self::Delete(id) => Request::Delete(id),
            Self::DeleteSome(id) => {
                *ids = vec![id, id + 1, id + 5];
                Request::DeleteBatch(Ids::of(ids))
            }
            Self::Release(id, priority, delay) => Request::Release { id, priority, delay },
            Self::Bury(id, priority) => Request::Bury { id, priority },
            Self::Touch(id) => Request::Touch(id),
            Self::TouchSome(id) => {
                *ids = vec![id, id + 1, id + 5];
                Request::TouchBatch(Ids::of(ids))
            }
            Self::KickJob(id) => Request::KickJob(id),
            Self::ReserveJob(id) => Request::ReserveJob(id),
            Self::Peek(id) => Request::Peek(id),
            Self::Look(id) => Request::StatsJob(id),
            Self::Tubes => Request::ListTubesForMe,
            Self::Pause(tube) => Request::PauseTube { tube: TUBES[tube], seconds: 1 },
            Self::DeleteTube(tube) => Request::DeleteTube(TUBES[tube]),
        }
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    let id = || 1..30_u64;
    let two = || 0..2_usize;
    prop_oneof![
        5 => any::<bool>().prop_map(Kind::Reserve),
        1 => (1..5_u32).prop_map(Kind::Several),
        3 => any::<bool>().prop_map(Kind::Pop),
        2 => two().prop_map(Kind::PopTube),
        1 => two().prop_map(Kind::PeekTube),
        2 => two().prop_map(Kind::PopSender),
        1 => two().prop_map(Kind::PeekSender),
        1 => Just(Kind::PeekReady),
        1 => Just(Kind::PeekDelayed),
        1 => Just(Kind::PeekBuried),
        2 => (1..6_u32).prop_map(Kind::Kick),
        2 => id().prop_map(Kind::Delete),
        1 => id().prop_map(Kind::DeleteSome),
        4 => (id(), 0..4_u32, 0..3_u32).prop_map(|(id, priority, delay)| Kind::Release(id, priority, delay)),
        4 => (id(), 0..4_u32).prop_map(|(id, priority)| Kind::Bury(id, priority)),
        1 => id().prop_map(Kind::Touch),
        1 => id().prop_map(Kind::TouchSome),
        1 => id().prop_map(Kind::KickJob),
        1 => id().prop_map(Kind::ReserveJob),
        1 => id().prop_map(Kind::Peek),
        1 => id().prop_map(Kind::Look),
        1 => Just(Kind::Tubes),
        1 => two().prop_map(Kind::Pause),
        1 => two().prop_map(Kind::DeleteTube),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let put = (0..2_usize, 0..4_u32, 0..3_u32, 1..4_u32, proptest::option::of(0..2_usize));
    prop_oneof![
        12 => put.prop_map(|(tube, priority, delay, ttr, to)| Step::Put { tube, priority, delay, ttr, to }),
        14 => kind().prop_map(Step::Ask),
        2 => Just(Step::Pass),
        1 => Just(Step::Leave),
        5 => Just(Step::Write),
        5 => Just(Step::Written),
        1 => Just(Step::Refused),
        3 => Just(Step::Read),
        3 => Just(Step::HasRead),
    ]
}

/// Client 0 is no client, watches both tubes and never waits; 1 and 2 watch one each and say their
/// name.
fn enter(queues: &mut Queues, place: usize) -> ClientId {
    let client = queues.open();
    for (tube, name) in TUBES.iter().enumerate() {
        if place == 0 || place == tube + 1 {
            queues.watch(client, name);
            queues.use_tube(client, name);
        }
    }
    queues.ignore(client, "default");
    if place > 0 {
        assert!(queues.login(client, NAMES[place - 1]));
    }
    client
}

fn compare(
    (heads, memory): (usize, u64),
    waits: bool,
    limited: bool,
    steps: Vec<(usize, Step)>,
) -> Result<(), TestCaseError> {
    let mut both = [None, Some(Resident { bytes: 0, heads })].map(Stored::new);
    both[1].queues.settings.memory = memory;
    let mut now = Stamp(0);
    let mut clients = [0, 1, 2];
    for stored in &mut both {
        clients = [0, 1, 2].map(|place| enter(&mut stored.queues, place));
        for tube in TUBES {
            stored.queues.create_tube(tube);
        }
        if limited {
            stored.queues.limit_tube("one", 2, Some("two"));
            stored.queues.limit_tube("two", 3, None);
        }
    }
    for (who, step) in steps {
        let client = clients[who];
        let mut output = Vec::new();
        // Both write at the same time.
        let free = both.iter().all(|stored| stored.writing.is_none());
        let has_room = both.iter().all(|stored| stored.queues.has_room(1));
        for stored in &mut both {
            match step {
                Step::Put { .. } | Step::Ask(_) if stored.queues.is_waiting(client) => {}
                Step::Put { .. } if !has_room => {}
                Step::Put { tube, priority, delay, ttr, to } => {
                    let put = Put {
                        tube: Some(TUBES[tube]),
                        receiver: to.map(|to| NAMES[to]),
                        priority,
                        delay: if waits { 0 } else { delay },
                        ttr,
                        body: b"x",
                        ..Put::default()
                    };
                    output.push(stored.request(client, &Request::Put(put), now));
                }
                Step::Ask(kind) => {
                    let kind = match kind {
                        Kind::Reserve(_) if !waits || who == 0 => Kind::Reserve(false),
                        Kind::Pop(_) if !waits || who == 0 => Kind::Pop(false),
                        // A client that waits may be written that its time is over while what it
                        // waits for is being read.
                        Kind::Pause(_) if waits => Kind::Tubes,
                        Kind::Release(id, priority, _) if waits => Kind::Release(id, priority, 0),
                        other => other,
                    };
                    // What is read must be committed; both see it at the same time.
                    stored.is_written(now);
                    output.push(stored.request(client, &kind.request(&mut Vec::new()), now));
                }
                Step::Pass => {
                    stored.is_written(now);
                    stored.pass(now + Nanos::from_secs(1));
                }
                Step::Leave => {
                    stored.queues.close(client, now);
                    clients[who] = enter(&mut stored.queues, who);
                }
                Step::Write if !free => {}
                Step::Write => {
                    stored.is_asked(now);
                    stored.begin_to_write();
                }
                Step::Written => stored.is_written(now),
                Step::Refused => stored.is_refused(),
                Step::Read => stored.begin_to_ask(),
                Step::HasRead => stored.is_asked(now),
            }
        }
        if matches!(step, Step::Pass) {
            now = now + Nanos::from_secs(1);
        }
        compare_after(step, &output, &mut both, now)?;
    }
    let [_, mut some] = both;
    some.is_written(now);
    some.read_all(now);
    some.begin_to_write();
    some.is_written(now);
    for bytes in [0, 1 << 20] {
        compare_after_takeover(Resident { bytes, heads }, &some)?;
    }
    Ok(())
}

/// Both have answered alike, and hold the same.
fn compare_after(
    step: Step,
    output: &[(Vec<u8>, bool)],
    both: &mut [Stored; 2],
    now: Stamp,
) -> Result<(), TestCaseError> {
    let [all, some] = both;
    if let [whole, bounded] = output {
        let shown = |output: &(Vec<u8>, bool)| (String::from_utf8_lossy(&output.0).into_owned(), output.1);
        prop_assert_eq!(shown(whole), shown(bounded), "after {:?}", step);
    }
    if matches!(step, Step::Pass) {
        some.read_all(now);
        prop_assert_eq!(all.answers(), some.answers());
    } else {
        let (a, b) = (all.answers(), some.answers());
        prop_assert_eq!(a, b, "after {:?}", step);
    }
    let (a, b) = (&all.queues, &some.queues);
    prop_assert_eq!(a.totals(), b.totals(), "after {:?}", step);
    for tube in TUBES {
        prop_assert_eq!(a.view_tube(tube, now), b.view_tube(tube, now));
    }
    prop_assert_eq!(a.outside(), 0);
    Ok(())
}

/// Another takes over from `some`, and finds what was left, as it was left.
fn compare_after_takeover(resident: Resident, some: &Stored) -> Result<(), TestCaseError> {
    let mut clients = [ClientId::default(); 3];
    let mut next = [None, Some(resident)].map(Stored::new);
    for stored in &mut next {
        let mut lines: Vec<(StoredQueue, u64, u64)> = Vec::new();
        for (line, _, row) in some.table.lines() {
            let urgent = u64::from(row.priority < crate::tube::URGENT);
            match lines.iter_mut().find(|(other, ..)| *other == line) {
                Some(found) => (found.1, found.2) = (found.1 + 1, found.2 + urgent),
                None => lines.push((line, 1, urgent)),
            }
        }
        for row in some.table.0.values() {
            stored.table.0.insert(row.id, row.clone());
            stored.queues.ids_from(row.id + 1);
            if stored.queues.settings.resident.is_none() {
                stored.queues.load(row.clone(), Stamp(0));
            }
            if let StoredState::Buried(order) = row.standing {
                stored.queues.set_aside_from(order + 1);
            }
        }
        if stored.queues.settings.resident.is_some() {
            lines.into_iter().for_each(|(line, count, urgent)| stored.queues.load_line(line, count, urgent));
        }
        clients = [0, 1, 2].map(|place| enter(&mut stored.queues, place));
        stored.begin_to_write();
        stored.is_written(Stamp(0));
    }
    compare_to_the_end(next, clients)
}

/// Both give the same messages in the same order until nothing is left.
fn compare_to_the_end([mut all, mut some]: [Stored; 2], clients: [ClientId; 3]) -> Result<(), TestCaseError> {
    prop_assert_eq!(all.queues.totals(), some.queues.totals());
    let end = Stamp(Nanos::from_secs(100).0);
    all.pass(end);
    some.pass(end);
    for client in clients {
        for kind in [Kind::PeekBuried, Kind::Kick(2), Kind::Kick(100)] {
            let mut ids = Vec::new();
            let request = kind.request(&mut ids);
            prop_assert_eq!(all.request(client, &request, end).0, some.request(client, &request, end).0);
        }
    }
    let kinds = [Kind::Pop(false), Kind::PopTube(0), Kind::PopTube(1), Kind::PopSender(0)];
    let mut nothing = 0;
    for (turn, kind) in kinds.into_iter().cycle().enumerate() {
        let mut ids = Vec::new();
        let request = match kind {
            Kind::Pop(_) => Request::Pop { timeout: Nanos::ZERO },
            other => other.request(&mut ids),
        };
        let client = clients[turn / kinds.len() % clients.len()];
        let (whole, bounded) = (all.request(client, &request, end), some.request(client, &request, end));
        nothing = if whole.0.starts_with(b"POPPED") { 0 } else { nothing + 1 };
        prop_assert_eq!(whole, bounded);
        if nothing > kinds.len() * clients.len() {
            break;
        }
    }
    prop_assert_eq!(all.queues.totals(), some.queues.totals());
    Ok(())
}

#[test]
fn what_is_only_in_the_store_expires_as_well() {
    let mut stored = Stored::new(Some(Resident { bytes: 0, heads: 1 }));
    let client = enter(&mut stored.queues, 0);
    for _ in 0..5 {
        let put = Put { tube: Some("one"), priority: 1, ttr: 1, body: b"x", ..Put::default() };
        stored.request(client, &Request::Put(put), Stamp(0));
    }
    stored.request(client, &Request::ExpireTube { tube: "one", seconds: 5 }, Stamp(0));
    stored.begin_to_write();
    stored.is_written(Stamp(0));
    assert_eq!(stored.queues.outside(), 4);
    stored.pass(Stamp(Nanos::from_secs(4).0));
    assert_eq!(stored.queues.totals().ready, 5);
    stored.pass(Stamp(Nanos::from_secs(5).0));
    assert_eq!((stored.queues.totals().ready, stored.queues.totals().expired), (0, 5));
    stored.begin_to_write();
    stored.is_written(Stamp(Nanos::from_secs(5).0));
    assert!(stored.table.0.is_empty());
}

#[test]
fn a_tube_of_which_nothing_is_in_memory_is_read_when_its_messages_are_to_expire() {
    let mut before = Stored::new(None);
    let client = enter(&mut before.queues, 0);
    for receiver in [None, None, Some("anna")] {
        let put = Put { tube: Some("one"), receiver, priority: 2_000, ttr: 1, body: b"x", ..Put::default() };
        before.request(client, &Request::Put(put), Stamp(0));
    }
    before.begin_to_write();
    before.is_written(Stamp(0));
    let mut stored = Stored { table: before.table, ..Stored::new(Some(Resident { bytes: 0, heads: 1 })) };
    stored.queues.ids_from(4);
    for (receiver, count) in [(None, 2), (Some("anna".into()), 1)] {
        stored.queues.load_line(StoredQueue::Ready("one".into(), receiver), count, 0);
    }
    let client = enter(&mut stored.queues, 0);
    stored.request(client, &Request::ExpireTube { tube: "one", seconds: 5 }, Stamp(0));
    assert_eq!(stored.queues.outside(), 3);
    stored.pass(Stamp(Nanos::from_secs(5).0));
    assert_eq!((stored.queues.totals().ready, stored.queues.totals().expired), (0, 3));
}

/// Nor does a client ask for them; where memory is full, what the others hold is not known.
#[test]
fn the_oldest_message_is_known_of_a_tube_of_which_nothing_is_in_memory() {
    let mut before = Stored::new(None);
    let client = enter(&mut before.queues, 0);
    (0..5).for_each(|_| before.put(client, "one", 2_000, 1));
    let mut table = before.table;
    let later = Stamp(Nanos::from_secs(100).0);
    for (bytes, age, outside) in [(1 << 20, Some(Nanos::from_secs(100)), 3), (0, None, 5)] {
        let resident = Some(Resident { bytes, heads: 2 });
        let mut stored = Stored { table: std::mem::take(&mut table), ..Stored::new(resident) };
        stored.queues.ids_from(6);
        stored.queues.load_line(StoredQueue::Ready("one".into(), None), 5, 0);
        stored.begin_to_write();
        stored.is_written(Stamp(0));
        stored.pass(later);
        let tubes = stored.queues.tubes_state(later);
        assert_eq!((&*tubes.first[0].name, tubes.first[0].oldest), ("one", age));
        assert_eq!(stored.queues.outside(), outside);
        table = stored.table;
    }
}

#[test]
fn for_the_age_of_the_oldest_little_is_read_and_nothing_while_there_is_to_write() {
    let mut before = Stored::new(None);
    let client = enter(&mut before.queues, 0);
    let lines = [("one", None), ("two", None), ("one", Some("anna"))];
    for (tube, receiver) in lines {
        for _ in 0..5 {
            let put = Put { tube: Some(tube), receiver, ttr: 60, body: b"x", ..Put::default() };
            before.request(client, &Request::Put(put), Stamp(0));
        }
    }
    before.begin_to_write();
    before.is_written(Stamp(0));
    let resident = Resident { bytes: 1 << 20, heads: 2_048 };
    let mut stored = Stored { table: before.table, ..Stored::new(Some(resident)) };
    stored.queues.ids_from(16);
    for (tube, receiver) in lines {
        stored.queues.load_line(StoredQueue::Ready(tube.into(), receiver.map(Into::into)), 5, 5);
    }
    let client = enter(&mut stored.queues, 0);
    assert!(stored.queues.has_batch() && !stored.queues.has_fetch());
    stored.begin_to_write();
    stored.is_written(Stamp(0));
    // The store cannot be asked at first.
    stored.begin_to_ask();
    assert!(matches!(stored.asking.take(), Some(Fetch::First(_))));
    stored.queues.not_fetched();
    stored.pass(Stamp(0));
    assert_eq!(stored.queues.outside(), 3 * (5 - READ_FOR_AGE as u64));
    let tubes = stored.queues.tubes_state(Stamp(0));
    let oldest = |name: &str| tubes.first.iter().find(|tube| tube.name == name).unwrap().oldest;
    assert!(oldest("one").is_some() && oldest("two").is_some());
    // A line of which a client takes messages is read on.
    let reserve = Request::ReserveWithTimeout { timeout: Nanos::ZERO };
    assert!(stored.request(client, &reserve, Stamp(0)).0.starts_with(b"RESERVED 1 "));
    stored.pass(Stamp(0));
    assert_eq!(stored.queues.outside(), 2 * (5 - READ_FOR_AGE as u64));
}

/// Few messages make a line then, and what is behind them may be smaller.
#[test]
fn large_messages_that_wait_leave_room_for_those_that_come() {
    const LARGE: u64 = 200;
    for small in [0, 400] {
        let mut stored = Stored::new(Some(Resident { bytes: 256 << 10, heads: 2_048 }));
        let client = enter(&mut stored.queues, 0);
        (0..small).for_each(|_| stored.put(client, "one", 2, 10));
        (0..LARGE).for_each(|_| stored.put(client, "one", 1, 10_000));
        assert!(stored.queues.memory_used() <= 640 << 10, "{} bytes", stored.queues.memory_used());
        assert!(stored.queues.outside() > 0);
        stored.put(client, "two", 3, 10_000);
        let order = (small + 1..=small + LARGE).chain(1..=small).chain([small + LARGE + 1]);
        for id in order {
            let reserve = Request::ReserveWithTimeout { timeout: Nanos::ZERO };
            let (reply, _) = stored.request(client, &reserve, Stamp(0));
            assert!(reply.starts_with(format!("RESERVED {id} ").as_bytes()), "{id}");
            assert_eq!(stored.request(client, &Request::Delete(id), Stamp(0)).0, b"DELETED\r\n");
        }
        assert_eq!(stored.queues.outside(), 0);
    }
}

#[test]
fn delays_that_are_only_in_the_store_end_whichever_way_the_wall_clock_was_set() {
    for wall in [998, 1_002] {
        let mut stored = Stored::new(Some(Resident { bytes: 0, heads: 1 }));
        let client = enter(&mut stored.queues, 0);
        // Before, while their rows are on their way, and after.
        for step in 0..3 {
            for delay in 1..=4 {
                let put = Put { tube: Some("one"), priority: 1, delay, ttr: 1, body: b"x", ..Put::default() };
                stored.request(client, &Request::Put(put), Stamp(0));
            }
            stored.begin_to_write();
            if step == 1 {
                stored.queues.set_wall(Nanos::from_secs(wall));
            }
            stored.is_written(Stamp(0));
        }
        stored.begin_to_write();
        stored.is_written(Stamp(0));
        assert_eq!((stored.queues.totals().delayed, stored.queues.outside()), (12, 11));
        stored.pass(Stamp(Nanos::from_secs(10).0));
        assert_eq!((stored.queues.totals().delayed, stored.queues.totals().ready), (0, 12), "{wall}");
    }
}

#[test]
fn a_message_of_another_shard_is_not_found_by_its_number() {
    let mut stored = Stored::new(Some(Resident { bytes: 0, heads: 1 }));
    let shard = Shard { number: shard_of("one", 2), of: 2 };
    stored.queues.settings.shard = shard;
    let client = enter(&mut stored.queues, 0);
    for _ in 0..3 {
        let put = Put { tube: Some("one"), priority: 1, ttr: 1, body: b"x", ..Put::default() };
        stored.request(client, &Request::Put(put), Stamp(0));
    }
    stored.begin_to_write();
    stored.is_written(Stamp(0));
    assert_eq!(stored.queues.outside(), 2);
    let other = (0..).map(|number| format!("t{number}")).find(|tube| !shard.has(tube)).unwrap();
    let row = stored.table.0[&1].clone();
    stored.table.0.insert(2, MessageRow { id: 2, tube: other.into(), ..row });
    let before = stored.queues.totals();
    for request in [Request::Delete(2), Request::ReserveJob(2), Request::Peek(2)] {
        assert_eq!(stored.request(client, &request, Stamp(0)), (b"NOT_FOUND\r\n".to_vec(), false));
    }
    assert_eq!((stored.queues.totals().ready, stored.queues.outside()), (before.ready, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_queue_whose_heads_alone_are_here_answers_as_a_whole_one(
        heads in 1..4_usize,
        memory in prop_oneof![Just(1_u64 << 20), 1_000..10_000_u64],
        waits in any::<bool>(),
        limited in any::<bool>(),
        steps in proptest::collection::vec((0..3_usize, step()), 1..120),
    ) {
        compare((heads, memory), waits, limited, steps)?;
    }
}
