//! One virtual client: what it has asked, what it is owed, and when it wants to ask again. Bytes
//! in, bytes out.
//!
//! ```text
//!  a slot is free from `due` ─▶ issue ─▶ outbox ─▶ (sent) ~~~ (answered) ─▶ receive ─▶ the slot is free again,
//!        ▲                                                                     │        from answered + think time
//!        └─────────────────────────────────────────────────────────────────────┘
//! ```
//! A client has as many slots as requests may be under way (its pipeline depth). **Response time
//! counts from `due`, not from `sent`**: a client that is itself late, or whose connection is down,
//! would otherwise hide the very delays it is there to measure (coordinated omission).

use std::collections::{BTreeMap, VecDeque};
use std::iter::Enumerate;

use krarup_beanstalk::Verb;
use krarup_memcache::response::{self, Anything, Expect, Response, ValuesRead};
use krarup_memcache::{MetaCommand, Parsed, ReplyClass, Value, Values};
use krarup_record::{KeyDigest, ServerVisit, Visit};
use krarup_units::Stamp;
use krarup_units::{Inbox, Outbox};

use crate::account::{Account, LossReason};
use crate::keys::GeneratedKey;
use crate::queue::{self, Said};
use crate::random::{self, Random};
use crate::schedule::Think;
use crate::trace::TraceRow;
use crate::workload::{Owed, PreparedWorkload, RequestStream, Scratch, Then, WrittenRequest};

/// One request under way.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    asked: WrittenRequest,
    key: KeyDigest,
    due: Stamp,
    sent: Stamp,
}

/// A request that an answer gave rise to; it goes before all others that the client's own slots
/// bring about.
#[derive(Clone, Copy, Debug)]
enum FollowUp {
    Refill(GeneratedKey),
    Cas(GeneratedKey, u64, Option<TraceRow>),
    End(Verb, u64),
}

/// What all clients of a thread share while they work.
#[derive(Debug)]
pub struct ThreadContext<'a> {
    /// The workload.
    pub plan: &'a PreparedWorkload,
    /// Where every request is accounted for.
    pub account: &'a mut Account,
    /// Room to write in.
    pub scratch: &'a mut Scratch,
    /// Whether values that come are compared with what must have been stored.
    pub verify: bool,
}

/// What came was no answer to what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfStep;

/// A virtual client.
#[derive(Debug)]
pub struct Client {
    /// What waits to leave.
    pub outbox: Outbox,
    inbox: Inbox,
    /// Reading fewer bytes than this completes no answer.
    needed: usize,
    /// How far the answer that is not whole was read: one with many values takes time by their
    /// number, and not by its square.
    read: ValuesRead,
    in_flight: VecDeque<InFlight>,
    /// The keys that answers under way may name, in order.
    keys: VecDeque<GeneratedKey>,
    /// From when on each free slot wants to be used, earliest first.
    free: VecDeque<Stamp>,
    follow: VecDeque<(Stamp, FollowUp)>,
    /// None in an open load, where no client waits for its answers.
    think: Option<Think>,
    thoughts: Random,
    target: u16,
    class: u16,
}

impl Client {
    /// A client of a class with `depth` free slots that want to be used from stamp zero on. Its
    /// think times are stream `number` of `seed`, none in an open load; its records name `target`
    /// and `class`.
    pub fn new(seed: u64, number: u64, depth: u32, think: Option<Think>, target: u16, class: u16) -> Self {
        Self {
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            needed: 0,
            read: ValuesRead::default(),
            in_flight: VecDeque::with_capacity(depth as usize),
            keys: VecDeque::new(),
            free: (0..depth).map(|_| Stamp(0)).collect(),
            follow: VecDeque::new(),
            think,
            thoughts: random::stream(seed, "think", number),
            target,
            class,
        }
    }

    /// How many slots are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// From when on the next free slot wants to be used.
    pub fn wants(&self) -> Option<Stamp> {
        self.free.front().copied()
    }

    /// How many free slots want to be used before `end`.
    pub fn due_before(&self, end: Stamp) -> u64 {
        self.free.partition_point(|&from| from < end) as u64
    }

    /// How many such requests wait.
    pub fn follow_ups(&self) -> usize {
        self.follow.len()
    }

    /// Takes the next free slot away; from when on it wants to be used.
    pub fn take_slot(&mut self) -> Option<Stamp> {
        self.free.pop_front()
    }

    /// Adds a free slot that wants to be used `from` on.
    pub fn put_slot(&mut self, from: Stamp) {
        // Think times differ: the slots are kept in the order in which they want to be used.
        let place = self.free.iter().rposition(|&other| other <= from).map_or(0, |place| place + 1);
        self.free.insert(place, from);
    }

    /// How many requests are under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// When the oldest request under way was sent.
    pub fn oldest(&self) -> Option<Stamp> {
        self.in_flight.front().map(|one| one.sent)
    }

    /// Whether an answer has given rise to a request that waits for a slot.
    pub fn has_follow_up(&self) -> bool {
        !self.follow.is_empty()
    }

    /// Whether it is still to say what becomes of a message, which only the connection can that
    /// reserved it.
    pub fn owes_end(&self) -> bool {
        matches!(self.follow.front(), Some((_, FollowUp::End(..))))
    }

    /// Writes the next request to the outbox; a slot must be free. `due` is when it should have
    /// been sent at the latest, where that is not up to the client's own slots: it is one of the
    /// stream's then, whatever else waits. Says whether it was one of the stream's, and not one
    /// that an answer gave rise to.
    pub fn issue(
        &mut self,
        due: Option<Stamp>,
        now: Stamp,
        stream: &mut RequestStream,
        shared: &mut ThreadContext<'_>,
    ) -> bool {
        let free_from = self.free.pop_front().expect("a slot is free");
        // In a closed loop what an answer gave rise to is due once its client has a slot for it and
        // has thought: several such requests do not wait for each other. In an open load they do.
        let waits = self.think.is_some();
        let follow_up = if due.is_none() { self.follow.pop_front() } else { None };
        let follow_up = follow_up.map(|(due, what)| (if waits { due.max(free_from) } else { due }, what));
        let is_new = follow_up.is_none();
        let (due, asked) = match follow_up {
            Some((due, FollowUp::Refill(key))) => {
                (due, stream.refill(key, shared.scratch, self.outbox.tail()))
            }
            Some((due, FollowUp::Cas(key, unique, row))) => {
                (due, stream.cas(key, unique, row.as_ref(), shared.scratch, self.outbox.tail()))
            }
            Some((due, FollowUp::End(verb, id))) => (due, stream.end(verb, id, self.outbox.tail())),
            None => {
                let due = due.unwrap_or(free_from);
                (due, stream.next(shared.scratch, self.outbox.tail(), &mut self.keys))
            }
        };
        shared.account.sent += 1;
        let key = match &shared.account.rows {
            Some(rows) if rows.needs_keys() && asked.keys > 0 => KeyDigest::of(shared.scratch.first_key()),
            _ => KeyDigest::NONE,
        };
        self.in_flight.push_back(InFlight { asked, key, due, sent: now.max(due) });
        is_new
    }

    /// Takes bytes that came at `now`, and settles every answer that they complete. Says how many
    /// there were.
    ///
    /// # Errors
    /// When they are no answers to what was asked: then [`Self::give_up`].
    pub fn receive(
        &mut self,
        fresh: &[u8],
        now: Stamp,
        shared: &mut ThreadContext<'_>,
    ) -> Result<usize, OutOfStep> {
        shared.account.bytes_received += fresh.len() as u64;
        if self.inbox.is_empty() {
            // The usual case: whole answers, settled where they lie, without a copy.
            let (settled, used) = self.settle(fresh, now, shared)?;
            if used < fresh.len() {
                self.inbox.append(&fresh[used..]);
            }
            return Ok(settled);
        }
        self.inbox.append(fresh);
        let inbox = std::mem::take(&mut self.inbox);
        let result = self.settle(inbox.unread(), now, shared);
        self.inbox = inbox;
        let (settled, used) = result?;
        self.inbox.consume(used);
        self.inbox.shrink(KEEP);
        Ok(settled)
    }

    /// Settles the answers at the front of `bytes`: how many, and how many bytes they took.
    fn settle(
        &mut self,
        bytes: &[u8],
        now: Stamp,
        shared: &mut ThreadContext<'_>,
    ) -> Result<(usize, usize), OutOfStep> {
        let (mut settled, mut used) = (0, 0);
        while used < bytes.len() {
            let rest = &bytes[used..];
            if rest.len() < self.needed {
                break;
            }
            let Some(&request) = self.in_flight.front() else { return Err(OutOfStep) };
            let settling = match request.asked.owed {
                Owed::Cache(expect) => {
                    match response::parse_asked(rest, expect, &mut Anything, &mut self.read) {
                        Parsed::Complete { message, used } => {
                            self.answer(&request, expect, &message, now, shared);
                            Ok(used)
                        }
                        Parsed::Incomplete { needed } => Err(needed),
                        Parsed::Invalid(_) => return Err(OutOfStep),
                    }
                }
                Owed::Queue(verb) => match queue::parse(rest, verb) {
                    Parsed::Complete { message, used } => {
                        self.answer_of_queue(&request, message, used, now, shared);
                        Ok(used)
                    }
                    Parsed::Incomplete { needed } => Err(needed),
                    Parsed::Invalid(_) => return Err(OutOfStep),
                },
            };
            match settling {
                Ok(length) => {
                    (self.needed, self.read) = (0, ValuesRead::default());
                    used += length;
                    settled += 1;
                }
                Err(needed) => {
                    self.needed = needed;
                    break;
                }
            }
        }
        Ok((settled, used))
    }

    fn answer_of_queue(
        &mut self,
        request: &InFlight,
        said: Said<'_>,
        bytes: usize,
        now: Stamp,
        shared: &mut ThreadContext<'_>,
    ) {
        self.in_flight.pop_front();
        let (mut visit, server) = self.visit(request, now);
        visit.bytes_out = bytes as u64;
        if let Some((id, body)) = said.message {
            if shared.verify {
                verify(shared, queue::NAME, body);
            }
            if let Then::End(verb) = request.asked.then {
                self.follow.push_back((now, FollowUp::End(verb, id)));
            }
        }
        shared.account.answered(said.class, &mut visit, server);
        self.free_slot(now);
    }

    fn answer(
        &mut self,
        request: &InFlight,
        expect: Expect,
        reply: &Response<'_>,
        now: Stamp,
        shared: &mut ThreadContext<'_>,
    ) {
        self.in_flight.pop_front();
        let (mut visit, server) = self.visit(request, now);
        visit.bytes_out = reply.bytes.len() as u64;
        let fetched = match expect {
            Expect::Values { keys, .. } => Some(keys),
            Expect::Meta { command: MetaCommand::Get, .. } => Some(1),
            _ => None,
        };
        if let Some(keys) = fetched {
            let found =
                matches!(reply.class, ReplyClass::Values | ReplyClass::MetaValue | ReplyClass::MetaMiss);
            if found {
                visit.hits = reply.hits + u32::from(reply.class == ReplyClass::MetaValue);
                visit.misses = keys - visit.hits;
            }
            if found && (shared.verify || request.asked.then != Then::Nothing) {
                self.look(request, reply, now, shared);
            } else {
                self.keys.drain(..keys as usize);
            }
        }
        shared.account.answered(reply.class, &mut visit, server);
        self.free_slot(now);
    }

    /// Looks at every value of an answer: verifies it, and notes what is to follow.
    fn look(&mut self, request: &InFlight, reply: &Response<'_>, now: Stamp, shared: &mut ThreadContext<'_>) {
        if reply.class != ReplyClass::Values {
            return self.look_at_one(request, reply, now, shared);
        }
        let mut left = request.asked.keys;
        let (mut values, mut passed) = (reply.values().enumerate(), BTreeMap::new());
        let mut text = std::mem::take(&mut shared.scratch.key);
        while left > 0 {
            left -= 1;
            let key = self.keys.pop_front().expect("the keys of every request under way are kept");
            text.clear();
            shared.plan.write_key(key, &mut text);
            match value_of(&text, &mut values, &mut passed) {
                Some(value) => {
                    if shared.verify {
                        verify(shared, &text, value.data);
                    }
                    if let (Then::Cas(row), Some(unique)) = (request.asked.then, value.unique) {
                        self.follow.push_back((now, FollowUp::Cas(key, unique, row)));
                    }
                }
                None if request.asked.then == Then::Refill => {
                    self.follow.push_back((now, FollowUp::Refill(key)));
                }
                None => {}
            }
        }
        shared.scratch.key = text;
        if shared.verify {
            for value in passed.into_values().chain(values.map(|(_, value)| value)) {
                shared.account.verified.checked += 1;
                mismatch(shared, &format!("a value for {} that was not asked for here", show(value.key)));
            }
        }
    }

    /// The same for the answer to a meta get, which has one value or none, and does not name its
    /// key.
    fn look_at_one(
        &mut self,
        request: &InFlight,
        reply: &Response<'_>,
        now: Stamp,
        shared: &mut ThreadContext<'_>,
    ) {
        let key = self.keys.pop_front().expect("the keys of every request under way are kept");
        match reply.meta_value() {
            Some(value) if shared.verify => {
                let mut text = std::mem::take(&mut shared.scratch.key);
                text.clear();
                shared.plan.write_key(key, &mut text);
                verify(shared, &text, value);
                shared.scratch.key = text;
            }
            None if request.asked.then == Then::Refill => {
                self.follow.push_back((now, FollowUp::Refill(key)));
            }
            _ => {}
        }
    }

    fn visit(&self, request: &InFlight, now: Stamp) -> (Visit, ServerVisit) {
        let mut visit = Visit::at(request.due, request.asked.operation);
        visit.station = self.class;
        visit.taken = request.sent;
        visit.replied = now.max(request.sent);
        (visit.keys, visit.key) = (request.asked.keys, request.key);
        visit.bytes_in = u64::from(request.asked.bytes);
        (visit, ServerVisit::ok(self.target, request.sent, visit.replied))
    }

    fn free_slot(&mut self, now: Stamp) {
        let from = now + self.think.unwrap_or_default().draw(&mut self.thoughts);
        self.put_slot(from);
    }

    /// Forgets the requests that answers gave rise to and that wait for a slot.
    pub fn forget_follow_ups(&mut self) {
        self.follow.clear();
    }

    /// Gives up everything that is under way, for this reason, and forgets half-read and
    /// half-written bytes.
    pub fn give_up(&mut self, loss: LossReason, now: Stamp, account: &mut Account) {
        while let Some(request) = self.in_flight.pop_front() {
            let (mut visit, server) = self.visit(&request, now);
            account.lost(loss, &mut visit, server);
            self.free_slot(now);
        }
        self.keys.clear();
        self.follow.clear();
        self.inbox.clear();
        self.outbox.clear();
        (self.needed, self.read) = (0, ValuesRead::default());
    }
}

/// Bytes of memory that a client keeps for answers that came in pieces.
const KEEP: usize = 1 << 14;

/// Values of an answer by their keys and their places in it.
type ValuesByKey<'a> = BTreeMap<(&'a [u8], usize), Value<'a>>;

/// The first value of this key that was not taken yet. Most servers answer in the order of the
/// keys, some proxies do not: values that stood before it are kept in `passed`.
fn value_of<'a>(
    key: &[u8],
    values: &mut Enumerate<Values<'a>>,
    passed: &mut ValuesByKey<'a>,
) -> Option<Value<'a>> {
    let first = passed.range((key, 0_usize)..).next().map(|(&(_, place), value)| (value.key, place));
    if let Some(at) = first.filter(|(found, _)| *found == key) {
        return passed.remove(&at);
    }
    for (place, value) in values {
        if value.key == key {
            return Some(value);
        }
        passed.insert((value.key, place), value);
    }
    None
}

fn verify(shared: &mut ThreadContext<'_>, key: &[u8], data: &[u8]) {
    shared.account.verified.checked += 1;
    if let Err(wrong) = shared.plan.check(key, data) {
        mismatch(shared, &format!("{} ({} bytes): {wrong}", show(key), data.len()));
    }
}

#[cold]
fn mismatch(shared: &mut ThreadContext<'_>, what: &str) {
    let verified = &mut shared.account.verified;
    verified.mismatched += 1;
    verified.first.get_or_insert_with(|| what.to_owned());
}

fn show(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use krarup_record::Operation;
    use krarup_units::Nanos;
    use proptest::prelude::*;

    use super::*;
    use crate::account::{MeasuredSpan, Segment};
    use crate::command::Command;
    use crate::keys::KeyLaw;
    use crate::sizes::SizeLaw;
    use crate::trace::Trace;
    use crate::workload::{Mix, OnMiss, Workload};

    /// A client by hand: its bytes in and out, and what the account says at the end.
    struct Hand {
        client: Client,
        stream: RequestStream,
        plan: Arc<PreparedWorkload>,
        account: Account,
        scratch: Scratch,
        verify: bool,
    }

    impl Hand {
        fn new(workload: Workload, depth: u32, think: Think) -> Self {
            let plan = PreparedWorkload::new(workload, 1, 1);
            Self {
                client: Client::new(1, 0, depth, Some(think), 0, 0),
                stream: plan.stream(0),
                plan,
                account: Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(u64::MAX) }, 1),
                scratch: Scratch::default(),
                verify: false,
            }
        }

        fn issue(&mut self, now: u64) -> String {
            self.issue_due(None, now)
        }

        fn issue_due(&mut self, due: Option<Stamp>, now: u64) -> String {
            let mut shared = ThreadContext {
                plan: &self.plan,
                account: &mut self.account,
                scratch: &mut self.scratch,
                verify: self.verify,
            };
            self.client.issue(due, Stamp(now), &mut self.stream, &mut shared);
            let written = String::from_utf8(self.client.outbox.unsent().to_vec()).unwrap();
            self.client.outbox.advance(written.len());
            written
        }

        fn receive(&mut self, bytes: &[u8], now: u64) -> Result<usize, OutOfStep> {
            let mut shared = ThreadContext {
                plan: &self.plan,
                account: &mut self.account,
                scratch: &mut self.scratch,
                verify: self.verify,
            };
            self.client.receive(bytes, Stamp(now), &mut shared)
        }

        fn segment(mut self) -> Segment {
            self.account.close(Stamp(1 << 40));
            let mut segments = self.account.over.into_iter();
            let first = segments.next().unwrap();
            segments.fold(first, |mut sum, one| {
                sum.merge(&one);
                sum
            })
        }
    }

    fn gets() -> Workload {
        Workload {
            mix: Mix::Ratio { sets: 0, gets: 1 },
            get_law: KeyLaw::Sequential,
            value_size: SizeLaw::Fixed(40),
            ..Workload::default()
        }
    }

    #[test]
    fn response_time_counts_from_due_and_lateness_is_apart() {
        let mut hand = Hand::new(gets(), 1, Think::None);
        assert_eq!(hand.issue(100), "get key-0\r\n");
        assert_eq!(hand.receive(b"END\r\n", 700), Ok(1));
        // The next is due when the answer came, though it is sent later.
        assert_eq!(hand.client.wants(), Some(Stamp(700)));
        hand.issue(900);
        assert_eq!(hand.receive(b"END\r\n", 1_000), Ok(1));
        let tally = hand.segment().all().counts[Operation::Get.index()].tally;
        assert_eq!((tally.count, tally.misses), (2, 2));
        assert_eq!(tally.response_time, Nanos(700 + 300));
        assert_eq!(tally.queue_time, Nanos(100 + 200));
        assert_eq!(tally.server_time, Nanos(600 + 100));
        assert_eq!(tally.own_time, Nanos(0));
    }

    #[test]
    fn a_client_that_thinks_wants_its_slot_later() {
        let mut hand = Hand::new(gets(), 2, Think::Fixed(1e-6));
        hand.issue(0);
        hand.issue(0);
        assert_eq!(hand.client.free(), 0);
        assert_eq!(hand.receive(b"END\r\nEND\r\n", 500), Ok(2));
        assert_eq!((hand.client.free(), hand.client.wants()), (2, Some(Stamp(1_500))));
    }

    #[test]
    fn a_client_that_thinks_does_so_before_it_sets_what_missed() {
        let mut hand = Hand::new(Workload { on_miss: OnMiss::Set, ..gets() }, 1, Think::Fixed(1e-6));
        hand.issue(0);
        assert_eq!(hand.receive(b"END\r\n", 500), Ok(1));
        assert!(hand.issue(1_500).starts_with("set key-0 "));
        assert_eq!(hand.receive(b"STORED\r\n", 1_600), Ok(1));
        let tally = hand.segment().all().counts[Operation::Set.index()].tally;
        assert_eq!((tally.response_time, tally.queue_time), (Nanos(100), Nanos(0)));
    }

    #[test]
    fn what_missed_is_set_before_anything_else() {
        let workload =
            Workload { on_miss: OnMiss::Set, multi_get: 3, mix: Mix::Ratio { sets: 0, gets: 3 }, ..gets() };
        let mut hand = Hand::new(workload, 1, Think::None);
        assert_eq!(hand.issue(0), "get key-0 key-1 key-2\r\n");
        assert_eq!(hand.receive(b"VALUE key-1 0 1\r\nx\r\nEND\r\n", 10), Ok(1));
        assert!(hand.issue(10).starts_with("set key-0 0 0 40\r\n"));
        assert_eq!(hand.receive(b"STORED\r\n", 20), Ok(1));
        assert!(hand.issue(20).starts_with("set key-2 0 0 40\r\n"));
        assert_eq!(hand.receive(b"STORED\r\n", 30), Ok(1));
        assert_eq!(hand.issue(30), "get key-3 key-4 key-5\r\n");
    }

    #[test]
    fn each_set_of_what_missed_is_due_at_the_answer_before_it_unless_no_client_waits() {
        let workload =
            Workload { on_miss: OnMiss::Set, multi_get: 3, mix: Mix::Ratio { sets: 0, gets: 3 }, ..gets() };
        for (think, response, lateness) in [(Some(Think::None), 10 + 10, 0), (None, 10 + 20, 10)] {
            let mut hand = Hand::new(workload.clone(), 1, Think::None);
            hand.client.think = think;
            hand.issue_due(think.is_none().then_some(Stamp(0)), 0);
            assert_eq!(hand.receive(b"VALUE key-1 0 1\r\nx\r\nEND\r\n", 10), Ok(1));
            for now in [10, 20] {
                assert!(hand.issue(now).starts_with("set "));
                assert_eq!(hand.receive(b"STORED\r\n", now + 10), Ok(1));
            }
            let tally = hand.segment().all().counts[Operation::Set.index()].tally;
            assert_eq!((tally.response_time, tally.queue_time), (Nanos(response), Nanos(lateness)));
        }
    }

    #[test]
    fn a_cas_of_a_trace_has_the_size_and_the_time_to_live_of_its_row() {
        let trace = Trace::of_csv("time,op,key,size,ttl\n0,cas,a,100,60\n".as_bytes()).unwrap();
        let mut hand = Hand::new(gets(), 1, Think::None);
        hand.plan = PreparedWorkload::replaying(gets(), 1, 1, Some(Arc::new(trace)), 0);
        hand.stream = hand.plan.stream(0);
        assert_eq!(hand.issue(0), "gets a\r\n");
        assert_eq!(hand.receive(b"VALUE a 0 1 7\r\nx\r\nEND\r\n", 10), Ok(1));
        assert!(hand.issue(10).starts_with("cas a 0 60 100 7\r\n"));
    }

    #[test]
    fn what_a_trace_missed_is_stored_with_the_size_that_the_trace_says() {
        let workload = Workload { on_miss: OnMiss::Set, ..gets() };
        for (lines, stored) in [
            ("0,get,a,100\n", "set a 0 0 100\r\n"),
            ("0,get,a,\n1,set,a,70\n2,append,a,9\n", "set a 0 0 70\r\n"),
            ("0,get,a,\n", "set a 0 0 40\r\n"),
        ] {
            let trace = Trace::of_csv(format!("time,op,key,size\n{lines}").as_bytes()).unwrap();
            let mut hand = Hand::new(workload.clone(), 1, Think::None);
            hand.plan = PreparedWorkload::replaying(workload.clone(), 1, 1, Some(Arc::new(trace)), 0);
            hand.stream = hand.plan.stream(0);
            assert_eq!(hand.issue(0), "get a\r\n");
            assert_eq!(hand.receive(b"END\r\n", 10), Ok(1));
            let written = hand.issue(10);
            assert!(written.starts_with(stored), "{written}");
        }
    }

    #[test]
    fn an_arrival_is_sent_and_counted_though_something_that_missed_waits() {
        let mut hand = Hand::new(Workload { on_miss: OnMiss::Set, ..gets() }, 1, Think::None);
        assert_eq!(hand.issue_due(Some(Stamp(0)), 0), "get key-0\r\n");
        assert_eq!(hand.receive(b"END\r\n", 20), Ok(1));
        assert_eq!(hand.issue_due(Some(Stamp(5)), 20), "get key-1\r\n");
        assert_eq!(hand.receive(b"VALUE key-1 0 1\r\nx\r\nEND\r\n", 30), Ok(1));
        assert!(hand.issue(30).starts_with("set key-0 "));
        let tally = hand.segment().all().counts[Operation::Get.index()].tally;
        assert_eq!((tally.count, tally.response_time), (2, Nanos(20 + 25)));
    }

    #[test]
    fn a_meta_get_is_a_hit_or_a_miss_and_its_value_is_verified() {
        let mix = Mix::Weights(vec![(Command::MetaGet, 1.0)]);
        let mut hand = Hand::new(Workload { mix, on_miss: OnMiss::Set, ..gets() }, 1, Think::None);
        hand.verify = true;
        assert_eq!(hand.issue(0), "mg key-0 v\r\n");
        let mut value = Vec::new();
        hand.plan.values.write(b"key-0", 1, 40, &mut value);
        let answer = [b"VA 40\r\n", &value[..], b"\r\n"].concat();
        assert_eq!(hand.receive(&answer, 10), Ok(1));
        assert_eq!(hand.issue(10), "mg key-1 v\r\n");
        assert_eq!(hand.receive(&answer, 20), Ok(1));
        assert_eq!((hand.account.verified.checked, hand.account.verified.mismatched), (2, 1));
        assert_eq!(hand.issue(20), "mg key-2 v\r\n");
        assert_eq!(hand.receive(b"EN\r\n", 30), Ok(1));
        assert!(hand.issue(30).starts_with("set key-2 0 0 40\r\n"));
        let tally = hand.segment().all().counts[Operation::Get.index()].tally;
        assert_eq!((tally.count, tally.hits, tally.misses), (3, 2, 1));
    }

    #[test]
    fn each_command_that_fetches_sets_what_it_missed() {
        for (command, asks) in [
            (Command::Gets, "gets key-0\r\n"),
            (Command::Gat, "gat 0 key-0\r\n"),
            (Command::Gats, "gats 0 key-0\r\n"),
        ] {
            let mix = Mix::Weights(vec![(command, 1.0)]);
            let mut hand = Hand::new(Workload { mix, on_miss: OnMiss::Set, ..gets() }, 1, Think::None);
            assert_eq!(hand.issue(0), asks);
            assert_eq!(hand.receive(b"END\r\n", 10), Ok(1));
            assert!(hand.issue(10).starts_with("set key-0 0 0 40\r\n"));
        }
    }

    #[test]
    fn a_message_that_was_reserved_is_given_back_or_set_aside_where_that_is_asked_for() {
        for (command, ends, answer) in [
            (Command::Release, "release 7 1024 0\r\n", "RELEASED\r\n"),
            (Command::Bury, "bury 7 1024\r\n", "BURIED\r\n"),
        ] {
            let mix = Mix::Weights(vec![(command, 1.0)]);
            let mut hand = Hand::new(Workload { mix, ..gets() }, 1, Think::None);
            assert_eq!(hand.issue(0), "reserve-with-timeout 0\r\n");
            assert_eq!(hand.receive(b"RESERVED 7 1\r\nx\r\n", 10), Ok(1));
            assert_eq!(hand.issue(10), ends);
            assert_eq!(hand.receive(answer.as_bytes(), 20), Ok(1));
            assert_eq!(hand.segment().overall().tally.errors, 0);
        }
    }

    #[test]
    fn a_value_for_another_key_is_found_out() {
        let mut hand = Hand::new(gets(), 1, Think::None);
        hand.verify = true;
        hand.issue(0);
        let mut reply = Vec::new();
        let mut value = Vec::new();
        hand.plan.values.write(b"key-7", 1, 40, &mut value);
        krarup_memcache::write::value(&mut reply, b"key-7", 0, None, &value);
        reply.extend_from_slice(b"END\r\n");
        assert_eq!(hand.receive(&reply, 10), Ok(1));
        assert_eq!(hand.account.verified.mismatched, 1);
        assert!(hand.account.verified.first.unwrap().contains("key-7"));
    }

    #[test]
    fn nothing_is_no_value_where_none_is_stored_without_a_byte() {
        let mismatched = |value_size| {
            let mut hand = Hand::new(Workload { value_size, ..gets() }, 1, Think::None);
            hand.verify = true;
            hand.issue(0);
            assert_eq!(hand.receive(b"VALUE key-0 0 0\r\n\r\nEND\r\n", 10), Ok(1));
            hand.account.verified.mismatched
        };
        assert_eq!(mismatched(SizeLaw::Fixed(40)), 1);
        assert_eq!(mismatched(SizeLaw::Uniform { from: 0, to: 10 }), 0);
    }

    #[test]
    fn values_that_come_in_another_order_than_their_keys_are_hits() {
        let workload =
            Workload { on_miss: OnMiss::Set, multi_get: 3, mix: Mix::Ratio { sets: 0, gets: 3 }, ..gets() };
        let mut hand = Hand::new(workload, 1, Think::None);
        hand.verify = true;
        assert_eq!(hand.issue(0), "get key-0 key-1 key-2\r\n");
        let mut reply = Vec::new();
        for key in [b"key-2", b"key-1"] {
            let mut value = Vec::new();
            hand.plan.values.write(key, 1, 40, &mut value);
            krarup_memcache::write::value(&mut reply, key, 0, None, &value);
        }
        reply.extend_from_slice(b"END\r\n");
        assert_eq!(hand.receive(&reply, 10), Ok(1));
        assert_eq!((hand.account.verified.checked, hand.account.verified.mismatched), (2, 0));
        assert_eq!(hand.client.follow_ups(), 1);
        assert!(hand.issue(10).starts_with("set key-0 "));
    }

    #[test]
    fn values_that_were_read_are_not_read_again_when_more_of_their_answer_comes() {
        let workload = Workload { multi_get: 3, mix: Mix::Ratio { sets: 0, gets: 3 }, ..gets() };
        let mut hand = Hand::new(workload, 1, Think::None);
        let value = b"VALUE key-0 0 1\r\nx\r\n";
        hand.issue(0);
        assert_eq!(hand.receive(value, 10), Ok(0));
        // What is not looked at may be anything.
        hand.client.inbox.clear();
        hand.client.inbox.append(&[0; 20]);
        assert_eq!(hand.receive(b"VALUE key-2 0 1\r\ny\r\nEND\r\n", 10), Ok(1));
        // The next answer is read from its beginning, and so is the first of another connection.
        hand.issue(10);
        assert_eq!(hand.receive(value, 20), Ok(0));
        hand.client.give_up(LossReason::OutOfStep, Stamp(20), &mut hand.account);
        hand.issue(20);
        assert_eq!(hand.receive(b"END\r\n", 30), Ok(1));
        assert_eq!(hand.segment().overall().tally.hits, 2);
    }

    #[test]
    fn values_of_one_key_are_taken_in_the_order_of_the_answer() {
        let mut reply = Vec::new();
        for (key, value) in [("b", "1"), ("c", "2"), ("a", "3"), ("b", "4"), ("a", "5")] {
            krarup_memcache::write::value(&mut reply, key.as_bytes(), 0, None, value.as_bytes());
        }
        reply.extend_from_slice(b"END\r\n");
        let expect = Expect::Values { keys: 6, unique: false };
        let Parsed::Complete { message, .. } = response::parse(&reply, expect) else { panic!() };
        let (mut values, mut passed) = (message.values().enumerate(), BTreeMap::new());
        let asked = ["a", "none", "b", "b", "b", "a", "c"];
        let taken = asked.map(|key| {
            let value = value_of(key.as_bytes(), &mut values, &mut passed);
            value.map_or("", |value| std::str::from_utf8(value.data).unwrap())
        });
        assert_eq!(taken, ["3", "", "1", "4", "", "5", "2"]);
        assert!(passed.is_empty() && values.next().is_none());
    }

    #[test]
    fn an_answer_that_was_not_asked_for_is_out_of_step() {
        let mut hand = Hand::new(gets(), 1, Think::None);
        assert_eq!(hand.receive(b"END\r\n", 5), Err(OutOfStep));
        hand.issue(10);
        assert_eq!(hand.receive(b"STORED\r\n", 20), Err(OutOfStep));
        hand.client.give_up(LossReason::OutOfStep, Stamp(20), &mut hand.account);
        assert_eq!((hand.client.free(), hand.client.in_flight(), hand.account.sent), (1, 0, 1));
        let counts = hand.segment().overall();
        assert_eq!((counts.lost(), counts.answered(), counts.tally.errors), (1, 0, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Where the network cuts the answers must not matter.
        #[test]
        fn any_cut_of_the_answers_settles_the_same(
            hits in prop::collection::vec(any::<bool>(), 1..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut hand = Hand::new(gets(), 12, Think::None);
            hand.verify = true;
            let mut replies = Vec::new();
            for (place, &hit) in hits.iter().enumerate() {
                hand.issue(0);
                if hit {
                    let (key, mut value) = (format!("key-{place}").into_bytes(), Vec::new());
                    hand.plan.values.write(&key, 9, 40, &mut value);
                    krarup_memcache::write::value(&mut replies, &key, 0, None, &value);
                }
                replies.extend_from_slice(b"END\r\n");
            }
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(replies.len())).collect();
            places.sort_unstable();
            places.push(replies.len());
            let (mut from, mut settled) = (0, 0);
            for to in places {
                if to > from {
                    settled += hand.receive(&replies[from..to], 10).unwrap();
                    from = to;
                }
            }
            prop_assert_eq!(settled, hits.len());
            let found = hits.iter().filter(|&&hit| hit).count() as u64;
            let verified = &hand.account.verified;
            prop_assert_eq!((verified.checked, verified.mismatched), (found, 0));
            prop_assert_eq!(hand.account.bytes_received, replies.len() as u64);
            let tally = hand.segment().overall().tally;
            prop_assert_eq!((tally.count, tally.hits, tally.bytes_out), (hits.len() as u64, found, replies.len() as u64));
        }

        #[test]
        fn no_bytes_make_a_client_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), depth in 1_u32..4) {
            let mut hand = Hand::new(Workload { on_miss: OnMiss::Set, ..gets() }, depth, Think::None);
            hand.verify = true;
            (0..depth).for_each(|_| drop(hand.issue(0)));
            let _ = hand.receive(&bytes, 1);
            hand.client.give_up(LossReason::OutOfStep, Stamp(1), &mut hand.account);
            prop_assert_eq!(hand.client.free(), depth as usize);
        }
    }
}
