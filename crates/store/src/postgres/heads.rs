//! Reading what an owner does not hold in memory: the next messages of a line, and messages by
//! their numbers.
//!
//! Each line has an index, made when the first is cut, and is read on from where the last reading
//! ended: rows that are gone and that another session's snapshot keeps lie before that place, and
//! are never met again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::SystemTime;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::blocking::BlockingSession;
use super::place::{Database, LEASE, Reconnecting, StoreError, TIMED, UNTIMED, is_fatal};
use super::rows::{NameTable, read, wall};
use krarup_broker::job::Id;
use krarup_broker::queues::{Fetch, Fetched, OVERHEAD, READ_FOR_AGE, StoredQueue};
use krarup_broker::shards::Shard;
use krarup_units::Nanos;

pub(super) const INDEXES: &str = include_str!("lines.sql");
const COUNT: &str = include_str!("count.sql");
const TUBES: &str = include_str!("tubes.sql");
/// Messages of some tubes alone, by the lines' indexes where those find them sooner than the whole
/// table is read.
pub(super) const OF_TUBES: &str = "tube = ANY ($1) AND ((state = 0 AND receiver IS NULL) OR (state = 0 AND receiver IS NOT NULL) \
                                   OR state = 1 OR state = 2 OR state = 3)";
/// What would else be sorted on disk, in the belief that there are many lines, is counted in
/// memory.
const IN_MEMORY: &str = "SET LOCAL work_mem = '64MB'; SET LOCAL enable_sort = off; SET LOCAL jit = off";
/// What was held, or was delayed until before then, is ready.
const READY: &str = "UPDATE krarup.message SET state = 0, due = NULL, holder = NULL \
                     WHERE (state = 3 OR (state = 1 AND due <= $1))";
/// Names are found in an index, however small the table is.
const BY_INDEX: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off";
const EITHER: &str = "SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on";
const NEXT: &str = include_str!("heads.sql");
const LOAD: &str = include_str!("load.sql");
const NUMBERS: [&str; 2] = [
    "SELECT id FROM krarup.message WHERE sender = $1 AND receiver IS NULL AND state = 0 AND id >= $2 ORDER BY id LIMIT $3",
    "SELECT id FROM krarup.message WHERE sender = $1 AND receiver = $4 AND state = 0 AND id >= $2 ORDER BY id LIMIT $3",
];

/// The lines' indexes wait for other programs no longer than this, as nothing is written meanwhile.
/// Autovacuum gives way after deadlock_timeout, a second.
const LOCK_LIMIT: &str = "SELECT set_config('lock_timeout', least(nullif(setting, '0')::integer, 1500)::text, false) \
                          FROM pg_settings WHERE name = 'lock_timeout'";

/// Bytes of bodies that are read at a time, beside the first.
const BYTES_AT_ONCE: i64 = 1 << 20;

/// What an owner finds that does not read everything.
#[derive(Clone, Debug, Default)]
pub struct QueueCounts {
    /// How many messages each line has, and how many of them are urgent.
    pub lines: Vec<(StoredQueue, u64, u64)>,
    /// The first place behind all that were set aside.
    pub aside_from: u64,
    /// Messages, each counted once.
    pub messages: u64,
}

/// What there is of each line at this time on the wall, and the bytes that all messages would take
/// in memory: what a takeover waits for. All queues are counted in one pass over the table, and a
/// shard by its own messages. What was held, or was delayed until before then, is ready.
fn count(
    client: &mut BlockingSession,
    shard: Shard,
    now: Nanos,
) -> Result<(QueueCounts, u64, Vec<Arc<str>>), Error> {
    let mut tubes: BTreeSet<Arc<str>> = BTreeSet::new();
    let (mut counts, mut bytes, mut late) = (QueueCounts::default(), 0, false);
    let mut names = NameTable::default();
    let mut lines: BTreeMap<StoredQueue, (u64, u64)> = BTreeMap::new();
    let urgent = i64::from(krarup_broker::tube::URGENT);
    let mut counting = client.transaction()?;
    counting.batch_execute(IN_MEMORY)?;
    let (overhead, now) = (OVERHEAD as i64, wall(now));
    let mut its: Vec<String> = Vec::new();
    let found = if shard.is_whole() {
        counting.query(COUNT, &[&urgent, &overhead, &now])?
    } else {
        counting.batch_execute(BY_INDEX)?;
        let found = counting.query(TUBES, &[&(shard.of as i32), &(shard.number as i32)])?;
        its.extend(found.iter().map(|row| row.get::<_, String>(0)));
        counting.batch_execute(EITHER)?;
        let condition = OF_TUBES.replace("$1", "$4");
        let statement = COUNT.replace("krarup.message)", &format!("krarup.message WHERE {condition})"));
        counting.query(&statement, &[&urgent, &overhead, &now, &its])?
    };
    counting.commit()?;
    for row in found {
        let mut name = |column| row.get::<_, Option<&str>>(column).map(|name| names.one(name));
        let (tube, to, sender) = (name(0).expect("not null"), name(1), name(2));
        tubes.insert(Arc::clone(&tube));
        let (state, count, urgent) =
            (row.get::<_, i16>(3), row.get::<_, i64>(5) as u64, row.get::<_, i64>(6));
        late |= row.get::<_, bool>(4);
        counts.messages += count;
        counts.aside_from = counts.aside_from.max((row.get::<_, i64>(7) + 1) as u64);
        bytes += row.get::<_, i64>(8) as u64;
        let line = match state {
            1 => StoredQueue::Delayed(tube),
            2 => StoredQueue::Buried(tube),
            _ => StoredQueue::Ready(tube, to.clone()),
        };
        let sent = sender.filter(|_| state == 0).map(|sender| StoredQueue::Sent((sender, to)));
        for (line, urgent) in [(Some(line), urgent), (sent, 0)] {
            let Some(line) = line else { continue };
            let of_line = lines.entry(line).or_default();
            *of_line = (of_line.0 + count, of_line.1 + urgent as u64);
        }
    }
    counts.lines = lines.into_iter().map(|(line, (count, urgent))| (line, count, urgent)).collect();
    if late && shard.is_whole() {
        client.execute(READY, &[&now])?;
    } else if late {
        let statement = format!("{READY} AND {}", OF_TUBES.replace("$1", "$2"));
        client.execute(&statement, &[&now, &its])?;
    }
    Ok((counts, bytes, tubes.into_iter().collect()))
}

/// A session in which an owner reads: an index that takes long to make does not keep the owner from
/// saying that it is there.
pub(crate) struct Reader {
    place: Database,
    epoch: i64,
    shard: Shard,
    client: BlockingSession,
    /// Messages of a line that are read at a time.
    heads: usize,
}

impl Reader {
    /// A session of this owner.
    ///
    /// # Errors
    /// [`StoreError::Deposed`] is the last word; after others it can be tried again.
    pub(crate) fn begin(place: Database, epoch: i64, shard: Shard, heads: usize) -> Result<Self, StoreError> {
        let client = open(&place, epoch, shard)?;
        Ok(Self { place, epoch, shard, client, heads })
    }

    /// What the queues want; to be asked while nothing is written.
    ///
    /// # Errors
    /// The session is broken, or the database refuses.
    pub(crate) fn fetch(&mut self, wanted: &Fetch) -> Result<Fetched, Error> {
        fetch(&mut self.client, self.shard, wanted, self.heads)
    }
}

impl Reconnecting for Reader {
    fn is_over(&self, error: &Error) -> bool {
        self.client.is_closed() || is_fatal(error)
    }

    fn place(&self) -> &Database {
        &self.place
    }

    fn mend(&mut self) -> Result<(), StoreError> {
        self.client = open(&self.place, self.epoch, self.shard)?;
        Ok(())
    }
}

/// A session of this owner.
///
/// # Errors
/// [`StoreError::Deposed`] is the last word.
pub(super) fn open(place: &Database, epoch: i64, shard: Shard) -> Result<BlockingSession, StoreError> {
    let mut client = place.connect()?;
    let statement = "SELECT epoch FROM krarup.owner WHERE shard = $1";
    let now: i64 = client.query_one(statement, &[&(shard.number as i32)])?.get(0);
    if now == epoch { Ok(client) } else { Err(StoreError::Deposed) }
}

/// Says that an owner is there that is still reading what there is, until it is dropped.
pub(super) struct Alive(Sender<()>);

impl Alive {
    pub(super) fn begin(place: Database, epoch: i64, shard: Shard) -> Result<Self, StoreError> {
        let (over, is_over) = mpsc::channel();
        let work = move || {
            let mut client: Option<BlockingSession> = None;
            while is_over.recv_timeout(LEASE / 3) == Err(RecvTimeoutError::Timeout) {
                // What fails is tried again: without a word the owner is taken for gone.
                let Some(mut open) = client.take().or_else(|| place.connect().ok()) else { continue };
                let renewed = open.execute(
                    "UPDATE krarup.owner SET renewed = clock_timestamp() WHERE epoch = $1 AND shard = $2",
                    &[&epoch, &(shard.number as i32)],
                );
                client = renewed.is_ok().then_some(open);
            }
        };
        thread::Builder::new()
            .name("alive".into())
            .spawn(work)
            .map_err(|error| StoreError::Database(format!("no thread can be had: {error}").into()))?;
        Ok(Self(over))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.send(());
    }
}

/// Reads what the queues want, so many messages of a line at most.
fn fetch(client: &mut BlockingSession, shard: Shard, fetch: &Fetch, most: usize) -> Result<Fetched, Error> {
    let (line, from, most) = match fetch {
        Fetch::Begin => return make_indexes(client).map(|()| Fetched::default()),
        Fetch::Named(ids) => return named(client, ids),
        Fetch::Heads(line, from) => (line, *from, most),
        Fetch::First(line) => (line, (0, 0), READ_FOR_AGE),
    };
    let (id, number, limit) = (from.1 as i64, from.0 as i64, most as i64);
    let due: SystemTime = wall(Nanos(from.0));
    let (tube, ordered, condition, place): (_, _, _, &(dyn ToSql + Sync)) = match line {
        StoredQueue::Sent((sender, to)) => return numbers(client, shard, (sender, to.as_deref()), id, limit),
        StoredQueue::Ready(tube, None) => (tube, "priority", "receiver IS NULL AND state = 0", &number),
        StoredQueue::Ready(tube, Some(_)) => (tube, "priority", "receiver = $6 AND state = 0", &number),
        StoredQueue::Delayed(tube) => (tube, "due", "state = 1", &due),
        StoredQueue::Buried(tube) => (tube, "buried", "state = 2", &number),
    };
    let statement = NEXT.replace("PLACE", ordered).replace("LINE", condition);
    let tube = &**tube;
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&tube, place, &id, &limit, &BYTES_AT_ONCE];
    let to = if let StoredQueue::Ready(_, Some(to)) = line { Some(&**to) } else { None };
    if let Some(to) = &to {
        values.push(to);
    }
    let lines = client.query(&statement, &values)?;
    let found = lines.first().map_or(0, |line| line.get::<_, i64>(19));
    let complete = found < limit && lines.len() as i64 == found;
    Ok(Fetched { rows: rows(&lines), complete, ..Fetched::default() })
}

/// The lines' indexes take as long as there are many messages, once they have the table.
fn make_indexes(client: &mut BlockingSession) -> Result<(), Error> {
    client.batch_execute(UNTIMED)?;
    let made = client.batch_execute(LOCK_LIMIT).and_then(|()| client.batch_execute(INDEXES));
    let timed = client.batch_execute(TIMED);
    made.and(timed)
}

fn rows(lines: &[Row]) -> Vec<krarup_broker::changes::MessageRow> {
    let mut names = NameTable::default();
    lines.iter().map(|line| read(line, &mut names)).collect()
}

fn named(client: &mut BlockingSession, ids: &[Id]) -> Result<Fetched, Error> {
    let ids: Vec<i64> = ids.iter().map(|id| *id as i64).collect();
    let statement = LOAD.replace("ORDER BY", "WHERE id = ANY ($1) ORDER BY");
    let lines = client.query(&statement, &[&ids])?;
    Ok(Fetched { rows: rows(&lines), ..Fetched::default() })
}

fn numbers(
    client: &mut BlockingSession,
    shard: Shard,
    (sender, to): (&str, Option<&str>),
    from: i64,
    most: i64,
) -> Result<Fetched, Error> {
    let statement = NUMBERS[usize::from(to.is_some())];
    let (of, number) = (shard.of as i32, shard.number as i32);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&sender, &from, &most];
    if let Some(to) = &to {
        values.push(to);
    }
    let lines = if shard.is_whole() {
        client.query(statement, &values)?
    } else {
        // Its messages for each receiver are of all shards.
        values.extend([&of as &(dyn ToSql + Sync), &number]);
        let place = values.len();
        let condition = format!("state = 0 AND krarup.shard_of(tube, ${}) = ${place}", place - 1);
        client.query(&statement.replace("state = 0", &condition), &values)?
    };
    let ids: Vec<Id> = lines.iter().map(|line| line.get::<_, i64>(0) as Id).collect();
    let complete = (ids.len() as i64) < most;
    Ok(Fetched { ids, complete, ..Fetched::default() })
}

/// What an owner finds: few enough messages to read them all, or their counts; and the tubes they
/// are in.
pub(super) fn look(
    client: &mut BlockingSession,
    shard: Shard,
    bytes: u64,
    now: Nanos,
) -> Result<(Option<QueueCounts>, Vec<Arc<str>>), StoreError> {
    // What would take long to count takes more than may be read.
    let (counts, all, tubes) = count(client, shard, now)?;
    if all <= bytes {
        return Ok((None, tubes));
    }
    client.batch_execute(INDEXES)?;
    Ok((Some(counts), tubes))
}
