//! What an owner does beside its batches: it looks what applications have put into the outbox, and
//! clears away what is over. It has a session for that: whatever it takes, the owner says meanwhile
//! that it is there.

use std::time::{Duration, Instant, SystemTime};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Statement};

use super::blocking::BlockingSession;
use super::heads::open;
use super::place::{Database, LIGHT, Reconnecting, SETTINGS, StoreError, UNTIMED, is_fatal};
use krarup_broker::shards::Shard;

const SWEEP: &str = include_str!("sweep.sql");
/// Messages of the outbox that are read at once, and bytes of their bodies beside the first: what
/// there is no room for is read in vain.
const SWEPT_AT_ONCE: i64 = 1_000;
const SWEPT_BYTES: i64 = 4 << 20;
/// By the clock of the owner, as they were written. A key that is put once more just now stays.
const OLD_KEYS: &str = "DELETE FROM krarup.key WHERE ctid = ANY (ARRAY( \
     SELECT ctid FROM krarup.key WHERE until <= $1 ORDER BY until LIMIT 1000 FOR UPDATE SKIP LOCKED))";
/// How many keys, and rows of the archive, are cleared away at a time.
const CLEARED_AT_ONCE: u64 = 1_000;

/// A sweep that takes longer passes over much: messages of other shards, or rows that are gone and
/// that a snapshot keeps.
const LONG_SWEEP: Duration = Duration::from_millis(50);
/// The next such sweep comes after so many times what it took.
const REST: u32 = 20;
/// How long a transaction may be open whose messages, put before those of others, are still found
/// by the sweeps in between.
const OPEN: Duration = Duration::from_secs(10);

/// A message that an application has put into the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the columns of krarup.incoming")]
pub struct OutboxMessage {
    pub number: i64,
    pub tube: String,
    pub priority: u32,
    pub delay: u32,
    pub ttr: u32,
    pub body: Vec<u8>,
}

/// The oldest messages of the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxPart {
    /// In their order.
    pub messages: Vec<OutboxMessage>,
    /// Whether there are more behind them.
    pub more: bool,
}

/// From which number on sweeps read the outbox: from its front as long as that is short, because
/// what is committed late has lower numbers than others that are gone. Between two long ones they
/// begin behind what is known to be gone.
#[derive(Debug)]
struct SweepStart {
    /// Where sweeps in between begin.
    from: i64,
    /// No number from here on had been given then.
    next: i64,
    noted: Instant,
    /// When the next reads all.
    whole_at: Instant,
}

impl SweepStart {
    fn new(next: i64, now: Instant) -> Self {
        Self { from: 0, next, noted: now, whole_at: now }
    }

    /// Where a sweep that begins now begins.
    fn at(&self, now: Instant) -> i64 {
        if now >= self.whole_at { 0 } else { self.from }
    }

    /// A sweep is over, answered or refused.
    fn end(&mut self, begun: Instant, ended: Instant) {
        let took = ended.duration_since(begun);
        if begun >= self.whole_at && took > LONG_SWEEP {
            self.whole_at = ended + took * REST;
        }
    }

    /// It was answered, and this was the lowest number that it found. Whether it is to be noted
    /// which number is the next: sweeps in between begin from now on where that was before.
    fn advance(&mut self, begun: Instant, lowest: Option<i64>) -> bool {
        let is_gone = lowest.is_none_or(|lowest| lowest >= self.next);
        let advances = is_gone && begun.duration_since(self.noted) >= OPEN;
        if advances {
            self.from = self.next;
        }
        advances
    }

    fn note(&mut self, next: i64, now: Instant) {
        (self.next, self.noted) = (next, now);
    }
}

/// A session in which an owner sweeps the outbox and clears away.
pub(crate) struct Sweeper {
    place: Database,
    epoch: i64,
    shard: Shard,
    client: BlockingSession,
    statement: Statement,
    start: SweepStart,
}

impl Sweeper {
    /// A session of this owner.
    ///
    /// # Errors
    /// [`StoreError::Deposed`] is the last word; after others it can be tried again.
    pub(crate) fn begin(place: Database, epoch: i64, shard: Shard) -> Result<Self, StoreError> {
        let mut client = open(&place, epoch, shard)?;
        client.batch_execute(SETTINGS)?;
        client.batch_execute(LIGHT)?;
        // A look that is cut off would be no shorter the next time.
        client.batch_execute(UNTIMED)?;
        let own = if shard.is_whole() { "true" } else { "krarup.shard_of(tube, $4) = $5" };
        let statement = client.prepare(&SWEEP.replace("OWN", own))?;
        let start = SweepStart::new(next_number(&mut client)?, Instant::now());
        Ok(Self { place, epoch, shard, client, statement, start })
    }

    /// What applications have put into the outbox, as much of it as may be read at once.
    ///
    /// # Errors
    /// The session is broken, or the database refuses.
    pub(crate) fn sweep(&mut self) -> Result<OutboxPart, Error> {
        let begun = Instant::now();
        let from = self.start.at(begun);
        let (of, number) = (self.shard.of as i32, self.shard.number as i32);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&SWEPT_BYTES, &SWEPT_AT_ONCE, &from];
        if !self.shard.is_whole() {
            values.extend([&of as &(dyn ToSql + Sync), &number]);
        }
        let answered = self.client.query(&self.statement, &values);
        self.start.end(begun, Instant::now());
        let rows = answered?;
        let lowest = rows.first().map(|row| row.get::<_, i64>(0));
        if self.start.advance(begun, lowest) {
            self.start.note(next_number(&mut self.client)?, Instant::now());
        }
        let found = rows.first().map_or(0, |row| row.get::<_, i64>(6));
        let more = found == SWEPT_AT_ONCE || (rows.len() as i64) < found;
        let messages = rows.into_iter().map(|row| OutboxMessage {
            number: row.get(0),
            tube: row.get(1),
            priority: row.get::<_, i64>(2) as u32,
            delay: row.get::<_, i32>(3) as u32,
            ttr: row.get::<_, i32>(4) as u32,
            body: row.get(5),
        });
        Ok(OutboxPart { messages: messages.collect(), more })
    }

    /// Clears away what was archived long enough ago, some of it at a time; whether there may be
    /// more.
    ///
    /// # Errors
    /// As [`Self::sweep`].
    pub(crate) fn prune(&mut self) -> Result<bool, Error> {
        let pruned: i32 = self.client.query_one("SELECT krarup.prune()", &[])?.get(0);
        Ok(pruned as u64 >= CLEARED_AT_ONCE)
    }

    /// Forgets keys whose time is over, some of them at a time; whether there may be more.
    ///
    /// # Errors
    /// As [`Self::sweep`].
    pub(crate) fn forget_keys(&mut self) -> Result<bool, Error> {
        let forgotten = self.client.execute(OLD_KEYS, &[&SystemTime::now()])?;
        Ok(forgotten >= CLEARED_AT_ONCE)
    }
}

impl Reconnecting for Sweeper {
    fn is_over(&self, error: &Error) -> bool {
        self.client.is_closed() || is_fatal(error)
    }

    fn place(&self) -> &Database {
        &self.place
    }

    fn mend(&mut self) -> Result<(), StoreError> {
        *self = Self::begin(self.place.clone(), self.epoch, self.shard)?;
        Ok(())
    }
}

/// A number of the outbox that was not given yet, or is the last that was.
fn next_number(client: &mut BlockingSession) -> Result<i64, Error> {
    Ok(client.query_one("SELECT last_value FROM krarup.incoming_number_seq", &[])?.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep that is answered; whether the next number is to be noted.
    fn sweep(start: &mut SweepStart, begun: Instant, ended: Instant, lowest: Option<i64>) -> bool {
        start.end(begun, ended);
        start.advance(begun, lowest)
    }

    #[test]
    fn sweeps_that_are_short_read_all_there_is() {
        let begin = Instant::now();
        let mut start = SweepStart::new(100, begin);
        for seconds in [0, 5, 10, 15] {
            let now = begin + Duration::from_secs(seconds);
            assert_eq!(start.at(now), 0);
            assert_eq!(sweep(&mut start, now, now + LONG_SWEEP, None), seconds >= OPEN.as_secs());
        }
    }

    /// As where millions of another shard's messages lie before its own.
    #[test]
    fn between_two_long_sweeps_they_begin_behind_what_is_gone() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut start = SweepStart::new(100, begin);
        assert!(!sweep(&mut start, at(0), at(4), Some(7)));
        // What it has found is not gone yet.
        assert!(!sweep(&mut start, at(10), at(10), Some(7)));
        assert_eq!(start.at(at(11)), 0);
        assert!(sweep(&mut start, at(11), at(11), Some(100)));
        start.note(500, at(11));
        assert_eq!(start.at(at(12)), 100);
        // A transaction may be open for some time that has a number below that.
        assert!(!sweep(&mut start, at(20), at(20), None));
        assert!(sweep(&mut start, at(21), at(21), None));
        assert_eq!((start.at(at(83)), start.at(at(84))), (500, 0));
        // By then it is short again.
        sweep(&mut start, at(84), at(84), None);
        assert_eq!(start.at(at(85)), 0);
    }

    /// As where an administrator cancels it.
    #[test]
    fn after_a_long_sweep_that_is_refused_others_begin_behind_what_is_gone() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut start = SweepStart::new(100, begin);
        assert!(sweep(&mut start, at(10), at(10), None));
        start.note(500, at(10));
        assert_eq!(start.at(at(11)), 0);
        start.end(at(11), at(12));
        assert_eq!((start.at(at(13)), start.at(at(32))), (100, 0));
    }
}
