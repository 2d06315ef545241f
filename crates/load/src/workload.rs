//! What is asked for: a mix of commands over a range of keys, as a stream of requests that a seed
//! decides.

use krarup_settings::Mistake;
use krarup_settings::kind::{Count, Kind, Whole};
use std::sync::Arc;

use krarup_beanstalk::Verb;
use krarup_memcache::{Arithmetic, Expect, MetaCommand, Retrieval, Storage, write};
use krarup_record::Operation;
use krarup_units::Seconds;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::command::{Command, RequestTemplate};
use crate::keys::{Draw, GeneratedKey, KeyFamily, KeyLaw, KeyRange};
pub use crate::limits::{LARGEST_VALUE, MOST_KEYS};
use crate::queue;
use crate::random::{self, Random, below};
use crate::sizes::SizeLaw;
use crate::trace::{Trace, TraceRow};
use crate::values::{Mismatch, ValueGenerator};

/// In what proportion commands are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// Each client in a cycle of its own: first `sets` SETs, then GETs of `gets` keys in all. With
    /// multi-gets of K each takes the lesser of K and what the cycle has left, as memtier_benchmark
    /// counts.
    Ratio {
        /// SETs in a cycle.
        sets: u32,
        /// Keys got in a cycle.
        gets: u32,
    },
    /// Each request is drawn anew, in proportion to the weights.
    Weights(Vec<(Command, f64)>),
}

/// What happens when a `get` misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMiss {
    /// The miss is counted.
    #[default]
    Count,
    /// The client stores the key before it asks for anything else, as an application does that
    /// fetched the value from its database.
    Set,
}

/// Whether clients draw keys of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sequence {
    /// Each its own, independent of all others.
    #[default]
    Own,
    /// All the same keys in the same order, as memtier_benchmark does unless it is told otherwise:
    /// what the first fetches, the others find in every cache on the way.
    Same,
}

/// Which requests are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// In what proportion.
    pub mix: Mix,
    /// The keys there are.
    pub keys: KeyRange,
    /// How commands that only fetch draw their keys.
    pub get_law: KeyLaw,
    /// How all other commands draw theirs, `cas` among them.
    pub set_law: KeyLaw,
    /// Whether clients draw keys of their own.
    pub sequence: Sequence,
    /// Keys in one multi-get; 1 makes single gets.
    pub multi_get: u32,
    /// Which keys are stored before a run. `None`: this is the run.
    #[serde(skip)]
    pub populated: Option<KeyFamily>,
    /// How large values are.
    pub value_size: SizeLaw,
    /// Expiry times in seconds are drawn between these two, both included; 0 never expires. `None`:
    /// those of the trace that is replayed, else 0.
    pub expiry: Option<(i32, i32)>,
    /// The times to live of a trace are so many times as long.
    #[serde(skip)]
    pub ttl_times: f64,
    /// What happens when a `get` misses.
    pub on_miss: OnMiss,
    /// How many queues of a message broker are used.
    pub tubes: u32,
    /// Under how many names the clients of a message broker log in, where they need one. 0: each
    /// under its own.
    pub names: u32,
    /// For how long clients think at most before they say what becomes of a message.
    #[serde(skip)]
    pub longest_think: Seconds,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            mix: Mix::Ratio { sets: 1, gets: 10 },
            keys: KeyRange::default(),
            get_law: KeyLaw::Uniform,
            set_law: KeyLaw::Uniform,
            sequence: Sequence::Own,
            multi_get: 1,
            populated: None,
            value_size: SizeLaw::Fixed(32),
            expiry: None,
            ttl_times: 1.0,
            on_miss: OnMiss::Count,
            tubes: 1,
            names: 0,
            longest_think: 0.0,
        }
    }
}

/// The longest expiry time, 30 days: memcached takes a larger number for a point in time. What
/// lives longer is sent with this, which is the same in a replay that is shorter.
const LONGEST_EXPIRY: u32 = 30 * 24 * 60 * 60;

/// An expiry time that is so many times as long, in whole seconds. 0 is for ever, and below 0 is at
/// once: both stay.
fn longer(expiry: i32, times: f64) -> i32 {
    if expiry <= 0 {
        return expiry;
    }
    (f64::from(expiry) * times).ceil().min(f64::from(LONGEST_EXPIRY)) as i32
}

/// Whether expiry times in seconds may be drawn between these two.
///
/// # Errors
/// A range that ends before it begins, or is of points in time.
pub(crate) fn check_expiry((from, to): (i32, i32)) -> Result<(), Mistake> {
    if from > to {
        let what = format!("the expiry range {from}-{to} ends before it begins");
        return Err(Mistake::new(what, "write the lower end first, like 60-120"));
    }
    if i64::from(to) > i64::from(LONGEST_EXPIRY) {
        let what = format!("{to} is no expiry time: above 30 days memcached takes it for a point in time");
        return Err(Mistake::new(what, format!("write {LONGEST_EXPIRY} at most, or 0 for ever")));
    }
    Ok(())
}

/// Keys of a range.
pub(crate) const KEYS: Whole = Count::from(1);
/// Keys in one multi-get.
pub(crate) const MULTI_GET: Whole = Count::between(1, MOST_KEYS as u64);
/// Queues of a message broker.
pub(crate) const TUBES: Whole = Count::between(1, 100_000);
/// Names of its clients.
pub(crate) const NAMES: Whole = Count::between(0, 100_000);

impl Workload {
    /// Lets what is stored live so many times as long.
    pub(crate) fn slow_down(&mut self, times: f64) {
        self.expiry = self.expiry.map(|(from, to)| (longer(from, times), longer(to, times)));
        self.ttl_times *= times;
    }

    /// What is wrong with it.
    ///
    /// # Errors
    /// In plain words, naming the thing.
    pub fn check(&self) -> Result<(), Mistake> {
        match &self.mix {
            Mix::Ratio { sets: 0, gets: 0 } => return Err("a ratio of 0:0 sends nothing".into()),
            Mix::Ratio { .. } => {}
            Mix::Weights(weights) => {
                if let Some((command, weight)) =
                    weights.iter().find(|(_, weight)| !weight.is_finite() || *weight < 0.0)
                {
                    return Err(Mistake::new(
                        format!("the weight of {} is {weight}, not 0 or more", command.name()),
                        "",
                    ));
                }
                let sent = || weights.iter().filter(|(_, weight)| *weight > 0.0);
                let of_queue = |(command, _): &&(Command, f64)| command.is_of_queue();
                if let (Some((queue, _)), Some((cache, _))) =
                    (sent().find(of_queue), sent().find(|one| !of_queue(one)))
                {
                    let (queue, cache) = (queue.name(), cache.name());
                    let what =
                        format!("{queue} is for a queue and {cache} for a cache: no server takes both");
                    return Err(Mistake::new(what, "give each a class of its own"));
                }
                if weights.iter().map(|(_, weight)| weight).sum::<f64>() <= 0.0 {
                    return Err("no command has a weight above 0".into());
                }
            }
        }
        KEYS.check("keys", &self.keys.count)?;
        if self.keys.minimum.checked_add(self.keys.count).is_none() {
            return Err("the key range ends beyond 2^64".into());
        }
        if self.keys.longest() > crate::keys::LONGEST_KEY {
            let what = format!("keys would have up to {} bytes", self.keys.longest());
            return Err(Mistake::new(what, "memcached takes 250"));
        }
        if self.keys.prefix.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(Mistake::new(
                format!("the key prefix {:?} has blanks or control characters", self.keys.prefix),
                "",
            ));
        }
        MULTI_GET.check("multi_get", &self.multi_get)?;
        TUBES.check("tubes", &self.tubes)?;
        NAMES.check("names", &self.names)?;
        self.keys.size.check()?;
        self.get_law.check()?;
        self.set_law.check()?;
        self.value_size.check()?;
        self.expiry.map_or(Ok(()), check_expiry)
    }

    /// The most keys that a GET takes, where that is fewer than `multi_get` asks for.
    pub fn multi_get_cut(&self) -> Option<u32> {
        let most = match &self.mix {
            Mix::Ratio { sets: _, gets: 0 } => return None,
            Mix::Ratio { gets, .. } => *gets,
            Mix::Weights(_) if self.sends(|command| command == Command::Mget) => return None,
            Mix::Weights(_) => 1,
        };
        (most < self.multi_get).then_some(most)
    }

    /// Whether messages are sent to a queue, and no keys to a cache.
    pub fn is_of_queue(&self) -> bool {
        self.sends(Command::is_of_queue)
    }

    /// Whether clients need names at their broker.
    pub fn needs_names(&self) -> bool {
        self.sends(Command::needs_name)
    }

    /// Whether any command works on keys of this family.
    pub fn uses(&self, family: KeyFamily) -> bool {
        self.sends(|command| command.family() == family)
    }

    /// Whether keys that are stored may be gone after a while: they are removed, or expire.
    pub fn loses_keys(&self) -> bool {
        self.expires() || self.sends(Command::removes)
    }

    /// Whether an expiry time is said.
    pub fn expires(&self) -> bool {
        self.expiry.is_some_and(|expiry| expiry != (0, 0))
    }

    /// The expiry time that lets keys live longer: this one's, or the other's.
    pub(crate) fn longer_expiry(&self, other: &Self) -> Option<(i32, i32)> {
        let life = |seconds: i32| if seconds == 0 { i32::MAX } else { seconds };
        let lives = |one: &Self| {
            let (from, to) = one.expiry.unwrap_or((0, 0));
            (life(to), life(from))
        };
        if lives(other) > lives(self) { other.expiry } else { self.expiry }
    }

    fn sends(&self, is_such: impl Fn(Command) -> bool) -> bool {
        match &self.mix {
            Mix::Ratio { .. } => is_such(Command::Get),
            Mix::Weights(weights) => {
                weights.iter().any(|(command, weight)| *weight > 0.0 && is_such(*command))
            }
        }
    }
}

/// Which answer a request is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    /// One of a cache.
    Cache(Expect),
    /// One of a queue.
    Queue(Verb),
}

/// One request, as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenRequest {
    /// What is asked, as it is recorded.
    pub operation: Operation,
    /// Which answer it is owed.
    pub owed: Owed,
    /// Keys it names.
    pub keys: u32,
    /// Bytes it takes on the wire.
    pub bytes: u32,
    /// What the client does when it is answered.
    pub then: Then,
}

/// What a client does when a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// Sends a `cas` with the unique that came, and with the value of a trace's row.
    Cas(Option<TraceRow>),
    /// Stores what was missing.
    Refill,
    /// Says what becomes of the message that came.
    End(Verb),
}

/// A workload made ready, shared by all clients of a run.
#[derive(Debug)]
pub struct PreparedWorkload {
    /// What was asked for.
    pub workload: Workload,
    /// How values are written and verified.
    pub values: ValueGenerator,
    /// Weights summed up, the last one 1; empty for a ratio.
    cumulative: Vec<(Command, f64)>,
    /// What is sent instead of a mix.
    trace: Option<Arc<Trace>>,
    /// The fewest bytes of a value that is stored.
    least: u64,
    seed: u64,
    streams: u64,
}

impl PreparedWorkload {
    /// Makes a checked workload ready for so many streams.
    pub fn new(workload: Workload, seed: u64, streams: u64) -> Arc<Self> {
        let least = workload.value_size.least();
        Self::replaying(workload, seed, streams, None, least)
    }

    /// The same beside other classes, all of whose values have `least` bytes or more. With a trace,
    /// its requests are sent in its order, and the workload's laws say only what it does not know.
    pub fn replaying(
        workload: Workload,
        seed: u64,
        streams: u64,
        trace: Option<Arc<Trace>>,
        least: u64,
    ) -> Arc<Self> {
        let cumulative = match &workload.mix {
            Mix::Ratio { .. } => Vec::new(),
            Mix::Weights(weights) => {
                let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
                let mut sum = 0.0;
                let parts = weights.iter().filter(|(_, weight)| *weight > 0.0);
                parts
                    .map(|&(command, weight)| {
                        sum += weight;
                        (command, sum / total)
                    })
                    .collect()
            }
        };
        Arc::new(Self { workload, values: ValueGenerator::new(), cumulative, trace, least, seed, streams })
    }

    /// Whether `data` is what was stored under `key`, in any version. Another run may have stored
    /// it with another size: so only that there is something is known of its length.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub fn check(&self, key: &[u8], data: &[u8]) -> Result<(), Mismatch> {
        if data.is_empty() && self.least > 0 {
            return Err(Mismatch::Empty);
        }
        self.values.check(key, data)
    }

    /// Appends a key's text.
    #[inline]
    pub fn write_key(&self, key: GeneratedKey, out: &mut Vec<u8>) {
        match &self.trace {
            Some(trace) if key.family == KeyFamily::Named => out.extend_from_slice(trace.text(key.place)),
            _ => self.workload.keys.write(key, out),
        }
    }

    /// How large the value of a key is that a trace names, where that says so.
    fn traced_size(&self, key: GeneratedKey) -> Option<u32> {
        let trace = self.trace.as_ref().filter(|_| key.family == KeyFamily::Named)?;
        trace.size(key.place)
    }

    /// The requests of stream `client`. Of a trace it has every so-manieth, so that all streams
    /// together have each once.
    pub fn stream(self: &Arc<Self>, client: u64) -> RequestStream {
        let draw = |law: KeyLaw| law.draw(self.workload.keys.count, client, self.streams);
        let sequence = if self.workload.sequence == Sequence::Same { 0 } else { client };
        let first = client << 40;
        let sizes = |name: &str, number| random::stream(self.seed, name, number);
        let values = match self.workload.populated {
            None => ValueStream { sizes: sizes("sizes", client), version: first },
            // Else a run that stores its keys in order would overwrite each value with itself.
            Some(_) => {
                let keys = &self.workload.keys;
                let name = format!("populated {}", keys.prefix);
                ValueStream { sizes: sizes(&name, keys.minimum), version: POPULATED }
            }
        };
        let following = ValueStream { sizes: sizes("following sizes", client), version: first | FOLLOWING };
        RequestStream {
            row: client as usize,
            commands: random::stream(self.seed, "commands", client),
            get_keys: random::stream(self.seed, "get keys", sequence),
            set_keys: random::stream(self.seed, "set keys", sequence),
            values,
            following,
            get_draw: draw(self.workload.get_law),
            set_draw: draw(self.workload.set_law),
            cycle: 0,
            plan: Arc::clone(self),
        }
    }
}

/// Room that all streams of a thread share while they write a request.
#[derive(Debug, Default)]
pub struct Scratch {
    texts: Vec<u8>,
    ends: Vec<usize>,
    value: Vec<u8>,
    /// One key's text, while an answer is looked at.
    pub(crate) key: Vec<u8>,
}

impl Scratch {
    /// The one key that is there ends here.
    fn ends_here(&mut self) {
        self.ends.clear();
        self.ends.push(self.texts.len());
    }

    /// The first key of the request that was written last, if that named one.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.ends.first().and_then(|&end| self.texts.get(..end)).unwrap_or_default()
    }
}

/// The first version of what is populated: that of no client.
const POPULATED: u64 = 1 << 63;
/// Set in the versions of what a client stores as an answer asks for it.
const FOLLOWING: u64 = 1 << 39;

/// Sizes, expiry times and versions of what is stored.
#[derive(Debug)]
struct ValueStream {
    sizes: Random,
    version: u64,
}

/// The requests of one client, one after the other: the seed decides every byte of them.
#[derive(Debug)]
pub struct RequestStream {
    plan: Arc<PreparedWorkload>,
    /// The next request of a trace.
    row: usize,
    commands: Random,
    get_keys: Random,
    set_keys: Random,
    /// Of the requests of the mix.
    values: ValueStream,
    /// Of those that follow from an answer: when that comes changes nothing in the mix.
    following: ValueStream,
    get_draw: Draw,
    set_draw: Draw,
    /// How far in the cycle of a ratio.
    cycle: u32,
}

impl RequestStream {
    /// Writes the next request to `out`; where its answer names keys, appends these to `asked`.
    pub fn next(
        &mut self,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
        asked: &mut impl Extend<GeneratedKey>,
    ) -> WrittenRequest {
        let row = self.trace_row();
        let (command, keys) = row.map_or_else(|| self.command(), |row| (row.command, row.keys));
        if let Some(verb) = command.verb() {
            return self.ask_queue(command, verb, scratch, out);
        }
        let start = out.len();
        let mut named = 1;
        match command.form() {
            RequestTemplate::Fetch(retrieval) => {
                named = if retrieval == Retrieval::Get { keys } else { 1 };
                self.retrieve((command, retrieval), named, row.as_ref(), scratch, out, asked);
            }
            RequestTemplate::Store(storage) => self.storage(command, storage, row.as_ref(), scratch, out),
            RequestTemplate::Key => self.about_a_key(command, row.as_ref(), scratch, out, asked),
            RequestTemplate::Bare => {
                named = 0;
                match command {
                    Command::FlushAll => write::flush_all(out, None),
                    Command::Verbosity => write::verbosity(out, 0),
                    other => write::bare(out, other.name()),
                }
            }
        }
        let then = match command {
            Command::Cas => Then::Cas(row),
            Command::Get
            | Command::Mget
            | Command::Gets
            | Command::Gat
            | Command::Gats
            | Command::MetaGet
                if self.plan.workload.on_miss == OnMiss::Set =>
            {
                Then::Refill
            }
            _ => Then::Nothing,
        };
        WrittenRequest {
            operation: command.operation(named),
            owed: Owed::Cache(command.expect(named)),
            keys: named,
            bytes: (out.len() - start) as u32,
            then,
        }
    }

    /// Writes a request to a queue.
    fn ask_queue(
        &mut self,
        command: Command,
        verb: Verb,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> WrittenRequest {
        let start = out.len();
        if verb.has_body() {
            scratch.texts.clear();
            scratch.texts.extend_from_slice(queue::NAME);
            self.value(KeyFamily::Plain, None, scratch);
        }
        let Workload { tubes, names, longest_think, .. } = self.plan.workload;
        let one_of = |many: u32, random: &mut Random| below(random, u64::from(many.max(1)));
        match verb {
            Verb::Put => queue::put(out, longest_think, &scratch.value),
            Verb::Send if command == Command::Send => {
                queue::send(out, one_of(tubes, &mut self.commands), None, &scratch.value);
            }
            Verb::Send => {
                let tube = one_of(tubes, &mut self.commands);
                queue::send(out, tube, Some(one_of(names, &mut self.commands)), &scratch.value);
            }
            Verb::PopTube | Verb::PeekTube => queue::ask(out, verb, one_of(tubes, &mut self.commands)),
            Verb::PopSender | Verb::PeekSender | Verb::Login => {
                queue::ask(out, verb, one_of(names, &mut self.commands));
            }
            Verb::Kick => queue::ask(out, verb, 1),
            _ => queue::ask(out, verb, 0),
        }
        let then = match command {
            Command::Reserve => Then::End(Verb::Delete),
            Command::Release => Then::End(Verb::Release),
            Command::Bury => Then::End(Verb::Bury),
            _ => Then::Nothing,
        };
        let bytes = (out.len() - start) as u32;
        WrittenRequest { operation: command.operation(0), owed: Owed::Queue(verb), keys: 0, bytes, then }
    }

    /// Writes what becomes of a message that was reserved.
    pub fn end(&mut self, verb: Verb, id: u64, out: &mut Vec<u8>) -> WrittenRequest {
        let start = out.len();
        queue::ask(out, verb, id);
        let operation = match verb {
            Verb::Release => Operation::Release,
            Verb::Bury => Operation::Bury,
            _ => Operation::Delete,
        };
        let bytes = (out.len() - start) as u32;
        WrittenRequest { operation, owed: Owed::Queue(verb), keys: 0, bytes, then: Then::Nothing }
    }

    /// Writes a `set` of `key`, which was missing. The value of a key that a trace names is as
    /// large as the trace says.
    pub fn refill(&mut self, key: GeneratedKey, scratch: &mut Scratch, out: &mut Vec<u8>) -> WrittenRequest {
        self.follow((Storage::Set, 0), Operation::Set, key, None, scratch, out)
    }

    /// Writes a `cas` of `key` with the unique that a `gets` brought, and the size and time to live
    /// of a trace's row.
    pub fn cas(
        &mut self,
        key: GeneratedKey,
        unique: u64,
        row: Option<&TraceRow>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> WrittenRequest {
        self.follow((Storage::Cas, unique), Operation::Cas, key, row, scratch, out)
    }

    /// Stores what an answer asks for.
    fn follow(
        &mut self,
        command: (Storage, u64),
        operation: Operation,
        key: GeneratedKey,
        row: Option<&TraceRow>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> WrittenRequest {
        std::mem::swap(&mut self.values, &mut self.following);
        let written = self.store(command, operation, key, row, scratch, out);
        std::mem::swap(&mut self.values, &mut self.following);
        written
    }

    fn store(
        &mut self,
        (command, unique): (Storage, u64),
        operation: Operation,
        key: GeneratedKey,
        row: Option<&TraceRow>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> WrittenRequest {
        let start = out.len();
        let size = row.map_or_else(|| self.plan.traced_size(key), |row| row.size);
        self.filled(key, size, scratch);
        let exptime = self.expiry(row);
        write::storage(out, command, &scratch.texts, 0, exptime, unique, &scratch.value);
        let bytes = (out.len() - start) as u32;
        WrittenRequest { operation, owed: Owed::Cache(Expect::Stored), keys: 1, bytes, then: Then::Nothing }
    }

    /// This stream's next request of a trace. Nothing where none is replayed, or it is at its end.
    fn trace_row(&mut self) -> Option<TraceRow> {
        let row = self.plan.trace.as_ref()?.row(self.row)?;
        self.row += self.plan.streams as usize;
        Some(row)
    }

    /// The key that a row of a trace names at `place`, if it names any.
    fn named(&self, row: Option<&TraceRow>, place: usize) -> Option<GeneratedKey> {
        let names = self.plan.trace.as_ref()?.names(row?)?;
        Some(GeneratedKey { family: KeyFamily::Named, place: u64::from(*names.get(place)?) })
    }

    /// Which command is next, and with how many keys.
    fn command(&mut self) -> (Command, u32) {
        let workload = &self.plan.workload;
        match workload.mix {
            Mix::Ratio { sets, gets } => {
                if self.cycle >= sets + gets {
                    self.cycle = 0;
                }
                if self.cycle < sets {
                    self.cycle += 1;
                    (Command::Set, 1)
                } else {
                    let keys = workload.multi_get.min(sets + gets - self.cycle);
                    self.cycle += keys;
                    (Command::Get, keys)
                }
            }
            Mix::Weights(_) => {
                let drawn: f64 = self.commands.random();
                let found = self.plan.cumulative.iter().find(|(_, cumulative)| drawn < *cumulative);
                let command = found.or(self.plan.cumulative.last()).map_or(Command::Get, |found| found.0);
                (command, if command == Command::Mget { workload.multi_get } else { 1 })
            }
        }
    }

    fn retrieve(
        &mut self,
        (command, retrieval): (Command, Retrieval),
        keys: u32,
        row: Option<&TraceRow>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
        asked: &mut impl Extend<GeneratedKey>,
    ) {
        scratch.texts.clear();
        scratch.ends.clear();
        for place in 0..keys {
            let key = match command {
                Command::Cas => self.written_key(command.family(), row),
                _ => self.fetched_key(row, place as usize),
            };
            self.plan.write_key(key, &mut scratch.texts);
            scratch.ends.push(scratch.texts.len());
            asked.extend([key]);
        }
        let exptime = if retrieval.touches() { self.expiry(row) } else { 0 };
        let mut start = 0;
        let texts = scratch.ends.iter().map(|&end| &scratch.texts[std::mem::replace(&mut start, end)..end]);
        write::retrieve(out, retrieval, exptime, texts);
    }

    fn storage(
        &mut self,
        command: Command,
        storage: Storage,
        row: Option<&TraceRow>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        let family = match command {
            Command::Set => self.plan.workload.populated.unwrap_or_default(),
            other => other.family(),
        };
        let key = self.written_key(family, row);
        if command == Command::MetaSet {
            self.filled(key, row.and_then(|row| row.size), scratch);
            let expiry = self.expiry(row);
            write::meta_set(out, &scratch.texts, expiry, &scratch.value);
        } else {
            self.store((storage, 0), command.operation(1), key, row, scratch, out);
        }
    }

    /// A request that is about one key, and brings no value.
    fn about_a_key(
        &mut self,
        command: Command,
        row: Option<&TraceRow>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
        asked: &mut impl Extend<GeneratedKey>,
    ) {
        let fetches = matches!(command, Command::MetaGet | Command::MetaDebug);
        let key = if fetches { self.fetched_key(row, 0) } else { self.written_key(command.family(), row) };
        scratch.texts.clear();
        self.plan.write_key(key, &mut scratch.texts);
        scratch.ends_here();
        let text = &scratch.texts;
        match command {
            Command::Delete => write::delete(out, text),
            Command::Incr => write::arithmetic(out, Arithmetic::Incr, text, 1),
            Command::Decr => write::arithmetic(out, Arithmetic::Decr, text, 1),
            Command::Touch => {
                let expiry = self.expiry(row);
                write::touch(out, text, expiry);
            }
            Command::MetaGet => {
                asked.extend([key]);
                write::meta_key(out, MetaCommand::Get, text, b" v");
            }
            Command::MetaDelete => write::meta_key(out, MetaCommand::Delete, text, b""),
            Command::MetaArithmetic => write::meta_key(out, MetaCommand::Arithmetic, text, b""),
            _ => write::meta_key(out, MetaCommand::Debug, text, b""),
        }
    }

    /// Draws a key by the law of commands that write, unless a trace names it.
    fn written_key(&mut self, family: KeyFamily, row: Option<&TraceRow>) -> GeneratedKey {
        self.named(row, 0).unwrap_or_else(|| GeneratedKey {
            family,
            place: self.set_draw.next(&mut self.set_keys, self.plan.workload.keys.count),
        })
    }

    /// The key at `place` among those that a request only fetches: drawn by the law of such
    /// commands, unless a trace names it.
    fn fetched_key(&mut self, row: Option<&TraceRow>, place: usize) -> GeneratedKey {
        self.named(row, place).unwrap_or_else(|| GeneratedKey {
            family: KeyFamily::Plain,
            place: self.get_draw.next(&mut self.get_keys, self.plan.workload.keys.count),
        })
    }

    /// Leaves a key's text and its next value in the scratch.
    fn filled(&mut self, key: GeneratedKey, size: Option<u32>, scratch: &mut Scratch) {
        scratch.texts.clear();
        self.plan.write_key(key, &mut scratch.texts);
        scratch.ends_here();
        self.value(key.family, size, scratch);
    }

    /// Leaves the next value of the key whose text is in the scratch there too; its size is drawn
    /// unless it is known.
    fn value(&mut self, family: KeyFamily, size: Option<u32>, scratch: &mut Scratch) {
        scratch.value.clear();
        if family == KeyFamily::Counter {
            scratch.value.push(b'0');
            return;
        }
        let size = size.map_or_else(|| self.plan.workload.value_size.draw(&mut self.values.sizes), u64::from);
        self.values.version += 1;
        self.plan.values.write(&scratch.texts, self.values.version, size as usize, &mut scratch.value);
    }

    /// The expiry time that a request says: drawn, or that of the trace's row.
    fn expiry(&mut self, row: Option<&TraceRow>) -> i32 {
        let Some((from, to)) = self.plan.workload.expiry else {
            let ttl = row.map_or(0, |row| row.ttl.min(LONGEST_EXPIRY) as i32);
            return longer(ttl, self.plan.workload.ttl_times);
        };
        if from == to {
            return from;
        }
        from + below(&mut self.values.sizes, (i64::from(to) - i64::from(from) + 1) as u64) as i32
    }
}

#[cfg(test)]
mod tests {
    use crate::keys::KeySize;
    use krarup_memcache::{Limits, Parsed, Request, request};
    use proptest::prelude::*;

    use super::*;

    fn bytes(workload: &Workload, seed: u64, client: u64, requests: usize) -> (Vec<u8>, Vec<WrittenRequest>) {
        assert_eq!(workload.check(), Ok(()));
        let mut stream = PreparedWorkload::new(workload.clone(), seed, 8).stream(client);
        let (mut scratch, mut out, mut keys) = (Scratch::default(), Vec::new(), Vec::new());
        let asked = (0..requests).map(|_| stream.next(&mut scratch, &mut out, &mut keys)).collect();
        (out, asked)
    }

    fn operations(asked: &[WrittenRequest]) -> Vec<(&'static str, u32)> {
        asked.iter().map(|one| (one.operation.name(), one.keys)).collect()
    }

    #[test]
    fn a_ratio_is_a_cycle_of_sets_and_then_gets() {
        let workload = Workload { mix: Mix::Ratio { sets: 1, gets: 2 }, ..Workload::default() };
        let (_, asked) = bytes(&workload, 1, 0, 7);
        let names: Vec<_> = asked.iter().map(|one| one.operation.name()).collect();
        assert_eq!(names, ["set", "get", "get", "set", "get", "get", "set"]);
    }

    #[test]
    fn a_multi_get_takes_no_more_than_its_cycle_has_left() {
        let mix = Mix::Ratio { sets: 1, gets: 8 };
        let workload = Workload { mix, multi_get: 6, ..Workload::default() };
        let (_, asked) = bytes(&workload, 1, 0, 4);
        assert_eq!(operations(&asked), [("set", 1), ("multiget", 6), ("multiget", 2), ("set", 1)]);
    }

    #[test]
    fn one_request_looks_like_this() {
        let workload = Workload {
            mix: Mix::Ratio { sets: 1, gets: 1 },
            get_law: KeyLaw::Sequential,
            set_law: KeyLaw::Sequential,
            value_size: SizeLaw::Fixed(3),
            expiry: Some((60, 60)),
            ..Workload::default()
        };
        let (out, _) = bytes(&workload, 1, 0, 2);
        assert_eq!(String::from_utf8(out).unwrap(), "set key-0 0 60 3\r\niiR\r\nget key-0\r\n");
    }

    #[test]
    fn a_cas_draws_its_key_by_the_law_of_commands_that_write() {
        let workload = Workload {
            mix: Mix::Weights(vec![(Command::Cas, 1.0)]),
            set_law: KeyLaw::Sequential,
            ..Workload::default()
        };
        let (out, _) = bytes(&workload, 1, 0, 3);
        assert_eq!(String::from_utf8(out).unwrap(), "gets key-0\r\ngets key-1\r\ngets key-2\r\n");
    }

    #[test]
    fn what_follows_from_an_answer_changes_nothing_in_the_mix() {
        let workload = Workload {
            mix: Mix::Weights(vec![(Command::Cas, 1.0), (Command::Set, 1.0)]),
            value_size: SizeLaw::Uniform { from: 40, to: 200 },
            expiry: Some((60, 120)),
            ..Workload::default()
        };
        let sent = |follows: bool| {
            let mut stream = PreparedWorkload::new(workload.clone(), 1, 1).stream(0);
            let (mut scratch, mut out, mut keys) = (Scratch::default(), Vec::new(), Vec::new());
            let (key, mut other) = (GeneratedKey { family: KeyFamily::Plain, place: 7 }, Vec::new());
            for _ in 0..50 {
                stream.next(&mut scratch, &mut out, &mut keys);
                if follows {
                    stream.refill(key, &mut scratch, &mut other);
                    stream.cas(key, 1, None, &mut scratch, &mut other);
                }
            }
            out
        };
        assert_eq!(sent(true), sent(false));
    }

    /// Else the first pass of a run over its keys would overwrite each value with itself.
    #[test]
    fn what_is_populated_is_not_what_the_run_stores() {
        let run = Workload {
            mix: Mix::Ratio { sets: 1, gets: 0 },
            set_law: KeyLaw::Sequential,
            value_size: SizeLaw::Uniform { from: 40, to: 10_000 },
            ..Workload::default()
        };
        let populating = Workload { populated: Some(KeyFamily::Plain), ..run.clone() };
        let lines = |workload: &Workload| {
            let text = String::from_utf8(bytes(workload, 1, 0, 50).0).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (before, during) = (lines(&populating), lines(&run));
        let differ = before.iter().zip(&during).filter(|(before, during)| before != during).count();
        assert!(differ > 95, "{differ} of 100 lines: sizes, and values");
        let fixed = |workload: &Workload| Workload { value_size: SizeLaw::Fixed(40), ..workload.clone() };
        let (before, during) = (lines(&fixed(&populating)), lines(&fixed(&run)));
        assert_eq!(before[0], during[0]);
        assert_ne!(before[1], during[1], "another version");
    }

    #[test]
    fn clients_with_one_sequence_ask_for_the_same_keys_and_others_for_their_own() {
        let mix = Mix::Ratio { sets: 0, gets: 1 };
        let own = Workload { mix, ..Workload::default() };
        let same = Workload { sequence: Sequence::Same, ..own.clone() };
        assert_eq!(bytes(&same, 1, 0, 50), bytes(&same, 1, 5, 50));
        assert_ne!(bytes(&own, 1, 0, 50), bytes(&own, 1, 5, 50));
    }

    #[test]
    fn a_trace_is_sent_as_it_was_and_what_it_does_not_know_is_drawn() {
        let text = "time,op,key,size\n0,set,a,3\n1,get,a b,\n2,get,,\n3,incr,n,\n4,set,,5\n";
        let trace = Arc::new(Trace::of_csv(text.as_bytes()).unwrap());
        let workload =
            Workload { get_law: KeyLaw::Sequential, set_law: KeyLaw::Sequential, ..Workload::default() };
        let sent = |streams: u64, stream: u64, requests: usize| {
            let plan = PreparedWorkload::replaying(workload.clone(), 1, streams, Some(Arc::clone(&trace)), 0);
            let (mut scratch, mut out, mut keys) = (Scratch::default(), Vec::new(), Vec::new());
            let mut stream = plan.stream(stream);
            for _ in 0..requests {
                stream.next(&mut scratch, &mut out, &mut keys);
            }
            let text = String::from_utf8(out).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let lines = sent(1, 0, 5);
        assert_eq!(lines[0], "set a 0 0 3");
        assert_eq!(lines[2..5], ["get a b", "get key-0", "incr n 1"]);
        assert_eq!((lines[5].as_str(), lines[6].len()), ("set key-0 0 0 5", 5));
        assert_eq!(sent(2, 1, 2), ["get a b", "incr n 1"]);
    }

    #[test]
    fn what_a_trace_stores_lives_as_long_as_it_did_unless_another_time_is_said() {
        let text =
            "time,op,key,size,ttl\n0,set,a,3,60\n1,set,b,3,2592001\n2,set,c,3,\n3,touch,a,,7\n4,get,a,,9\n";
        let trace = Arc::new(Trace::of_csv(text.as_bytes()).unwrap());
        let slower = |expiry, times| {
            let mut workload = Workload { expiry, ..Workload::default() };
            workload.slow_down(times);
            let plan = PreparedWorkload::replaying(workload, 1, 1, Some(Arc::clone(&trace)), 0);
            let (mut scratch, mut out, mut keys) = (Scratch::default(), Vec::new(), Vec::new());
            let mut stream = plan.stream(0);
            for _ in 0..5 {
                stream.next(&mut scratch, &mut out, &mut keys);
            }
            let text = String::from_utf8_lossy(&out).into_owned();
            text.lines().filter(|line| line.contains(' ')).map(str::to_owned).collect::<Vec<_>>()
        };
        let sent = |expiry| slower(expiry, 1.0);
        assert_eq!(sent(None), ["set a 0 60 3", "set b 0 2592000 3", "set c 0 0 3", "touch a 7", "get a"]);
        assert_eq!(sent(Some((5, 5)))[..2], ["set a 0 5 3", "set b 0 5 3"]);
        assert_eq!(sent(Some((0, 0)))[3], "touch a 0");
        let longer = ["set a 0 600 3", "set b 0 2592000 3", "set c 0 0 3", "touch a 70"];
        assert_eq!(slower(None, 10.0)[..4], longer);
        assert_eq!(slower(Some((5, 5)), 1.5)[..2], ["set a 0 8 3", "set b 0 8 3"]);
        assert_eq!(slower(Some((-1, -1)), 10.0)[3], "touch a -1");
    }

    #[test]
    fn weights_are_kept() {
        let weights = vec![(Command::Get, 3.0), (Command::Delete, 1.0), (Command::Touch, 0.0)];
        let (_, asked) = bytes(&Workload { mix: Mix::Weights(weights), ..Workload::default() }, 5, 0, 20_000);
        let deletes = asked.iter().filter(|one| one.operation == Operation::Delete).count();
        assert!((4_700..5_300).contains(&deletes), "{deletes}");
        assert!(asked.iter().all(|one| one.operation != Operation::Touch));
    }

    #[test]
    fn workloads_that_make_no_sense_are_named() {
        let range = |keys| Workload { keys, ..Workload::default() };
        for (workload, word) in [
            (Workload { mix: Mix::Ratio { sets: 0, gets: 0 }, ..Workload::default() }, "0:0"),
            (Workload { mix: Mix::Weights(vec![]), ..Workload::default() }, "weight"),
            (Workload { mix: Mix::Weights(vec![(Command::Incr, -1.0)]), ..Workload::default() }, "incr"),
            (
                Workload {
                    mix: Mix::Weights(vec![(Command::Put, 1.0), (Command::Get, 1.0)]),
                    ..Workload::default()
                },
                "no server takes both",
            ),
            (range(KeyRange { count: 0, ..KeyRange::default() }), "`keys` is 0"),
            (range(KeyRange { prefix: "a b".to_owned(), ..KeyRange::default() }), "blanks"),
            (range(KeyRange { size: KeySize::Fixed(251), ..KeyRange::default() }), "250"),
            (Workload { multi_get: 0, ..Workload::default() }, "`multi_get` is 0"),
            (Workload { expiry: Some((5, 4)), ..Workload::default() }, "expiry"),
        ] {
            let error = workload.check().unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    fn any_workload() -> impl Strategy<Value = Workload> {
        let cache = Command::ALL.iter().filter(|command| !command.is_of_queue());
        let mix = prop_oneof![
            (0_u32..4, 1_u32..12).prop_map(|(sets, gets)| Mix::Ratio { sets, gets }),
            Just(Mix::Weights(cache.map(|&command| (command, 1.0)).collect())),
        ];
        (mix, 1_u32..8, 0_u64..3_000, 1_u64..2_000).prop_map(|(mix, multi_get, size, count)| Workload {
            mix,
            multi_get,
            value_size: SizeLaw::Uniform { from: 0, to: size },
            keys: KeyRange { count, ..KeyRange::default() },
            expiry: Some((0, 1_000)),
            ..Workload::default()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_same_seed_gives_the_same_bytes_and_another_gives_others(workload in any_workload(), seed in 0_u64..100) {
            let one = bytes(&workload, seed, 3, 50);
            prop_assert_eq!(&one, &bytes(&workload, seed, 3, 50));
            // With one key and values without a size there may be nothing to differ in.
            if workload.keys.count > 100 {
                prop_assert_ne!(&one.0, &bytes(&workload, seed + 1, 3, 50).0);
                prop_assert_ne!(&one.0, &bytes(&workload, seed, 4, 50).0);
            }
        }

        #[test]
        fn every_request_is_one_that_memcached_takes(workload in any_workload(), seed: u64) {
            let (out, asked) = bytes(&workload, seed, 0, 60);
            let mut rest = &out[..];
            for one in asked {
                match request::parse(rest, &Limits::default()) {
                    Parsed::Complete { message, used } => {
                        prop_assert_eq!(used as u32, one.bytes);
                        if let Request::Retrieve(retrieve) = message {
                            prop_assert_eq!(retrieve.keys.len() as u32, one.keys);
                        }
                        rest = &rest[used..];
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert!(rest.is_empty());
        }
    }
}
