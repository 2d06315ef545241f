//! A session in which an owner writes batches. It has several: while one is at its commit, another
//! writes what has come meanwhile.
//!
//! **Fenced.** Each statement that writes takes part in a lock first (`krarup.still_owner`), which
//! the broker that takes over holds exclusively while it becomes the owner: what an owner before
//! has begun is there when the next one reads, and what it sends later fails.
//!
//! **One session at a time.** A writer's session holds a lock of its own. When it broke, its next
//! one waits until that lock is free: then whatever the one before had begun has been committed, or
//! undone, and the same batch may be written again. If the database then refuses it, it is looked
//! whether it is there.

use std::time::SystemTime;

use krarup_units::Nanos;
use tokio_postgres::{Error, Statement};

use super::blocking::BlockingSession;
use super::heads::open;
use super::place::{Database, END_HOLDER, MARK, Reconnecting, StoreError, fence_of, is_fatal};
use super::rows::{at_most, wall};
use super::{SETTINGS, is_deposed};
use krarup_broker::changes::{CommitBatch, KeyRow, MessageChange, MessageRow, StoredState};
use krarup_broker::job::JobCounts;
use krarup_broker::shards::{self, Shard};

const WRITE: &str = include_str!("write.sql");
const WRITE_PLAIN: &str = include_str!("write_plain.sql");
/// The archive's trigger works where a tube archives.
const FOLLOW_TUBES: &str = "SELECT krarup.follow_tubes(false)";
/// Whether a batch is there, which is there whole or not at all, by one of its new messages.
const WRITTEN: &str = "SELECT EXISTS (SELECT FROM krarup.message_row WHERE id = $1)";
/// Writers have numbers below this one.
const WRITERS: i64 = 8;

/// One of the sessions in which an owner writes.
pub(crate) struct BatchWriter {
    place: Database,
    epoch: i64,
    shard: Shard,
    /// The second number of its lock: no other writer of any owner has it.
    lock: i32,
    client: BlockingSession,
    statements: Statements,
    /// Whether the session before may have written the batch that comes next.
    follows: bool,
}

/// How a batch is written.
struct Statements {
    any: Statement,
    plain: Statement,
}

impl BatchWriter {
    /// The session of one of this owner's writers, once the one before of the same writer is over.
    ///
    /// # Errors
    /// [`StoreError::Deposed`] is the last word; after others it can be tried again.
    pub(crate) fn begin(place: Database, epoch: i64, shard: Shard, writer: u32) -> Result<Self, StoreError> {
        // Of thirty-one bits those of the shard and of the writer are its own.
        let owner = epoch * i64::from(shards::MOST) + i64::from(shard.number);
        let lock = (owner * WRITERS + i64::from(writer)) as i32 & i32::MAX;
        Self::with_lock(place, epoch, shard, lock)
    }

    fn with_lock(place: Database, epoch: i64, shard: Shard, lock: i32) -> Result<Self, StoreError> {
        let mut client = open(&place, epoch, shard)?;
        if !client.query_one("SELECT pg_try_advisory_lock(1802658163, $1)", &[&lock])?.get::<_, bool>(0) {
            // The session before has not noticed its end yet: it shall not do anything any more.
            client.execute(END_HOLDER, &[&client.schema().lock(1_802_658_163), &lock])?;
            return Err(StoreError::Database("the session before is not over yet".into()));
        }
        // Planning a batch anew each time took as long as writing it.
        client.batch_execute(SETTINGS)?;
        let statements = Statements { any: client.prepare(WRITE)?, plain: client.prepare(WRITE_PLAIN)? };
        Ok(Self { place, epoch, shard, lock, client, statements, follows: false })
    }

    /// Writes a batch and commits it.
    ///
    /// # Errors
    /// If the session still stands ([`Reconnecting::is_over`]), nothing of it was written;
    /// otherwise it is not known, and it is to be written again after [`Reconnecting::mend`].
    pub(crate) fn write(&mut self, batch: &CommitBatch) -> Result<(), Error> {
        let outcome = self.write_once(batch);
        let is_refused = outcome.as_ref().is_err_and(|error| !self.has_ended(error) && !is_deposed(error));
        if self.follows && is_refused {
            // This session has not written it, but the one before may have. As long as that cannot
            // be known this one is over, too. Where nothing is new it may be written twice.
            let new = batch.messages.iter().find(|(_, change)| matches!(change, MessageChange::Insert(_)));
            if let Some((id, _)) = new
                && self.client.query_one(&format!("{WRITTEN}, {MARK}"), &[&(*id as i64)])?.get::<_, bool>(0)
            {
                self.follows = false;
                return Ok(());
            }
        }
        self.follows = false;
        outcome
    }

    fn has_ended(&self, error: &Error) -> bool {
        self.client.is_closed() || is_fatal(error)
    }

    fn write_once(&mut self, batch: &CommitBatch) -> Result<(), Error> {
        let lists = Lists::of(batch);
        if !self.follows && batch.is_of_messages() && batch.last.is_empty() {
            let (epoch, shard) = (self.epoch, self.shard);
            let Statements { any, plain } = &self.statements;
            let execute =
                |statement: &Statement, values: Values<'_>| self.client.execute(statement, values).map(drop);
            if lists.are_plain() {
                return lists.write_plain(plain, (epoch, shard), execute);
            }
            return lists.write(any, (epoch, shard), execute);
        }
        let mut transaction = self.client.transaction()?;
        if self.follows {
            // Where all of it is there this would be no commit, and wait for no standby.
            transaction.execute(&format!("SELECT {MARK}"), &[])?;
        }
        keep_tubes(&mut transaction, batch)?;
        let (any, owner) = (&self.statements.any, (self.epoch, self.shard));
        let mut execute =
            |statement: &Statement, values: Values<'_>| transaction.execute(statement, values).map(drop);
        if !batch.last.is_empty() {
            Lists::of_last(batch).write(any, owner, &mut execute)?;
        }
        // What goes with this batch goes as its tube was told to let it go, also one that goes
        // itself.
        lists.write(any, owner, execute)?;
        let gone: Vec<&str> =
            batch.tubes.iter().filter(|(_, row)| row.is_none()).map(|(name, _)| &**name).collect();
        if !gone.is_empty() {
            transaction.execute("DELETE FROM krarup.tube WHERE name = ANY ($1)", &[&gone])?;
        }
        for (name, registered) in &batch.clients {
            let statement = if *registered {
                "INSERT INTO krarup.client VALUES ($1) ON CONFLICT DO NOTHING"
            } else {
                "DELETE FROM krarup.client WHERE name = $1"
            };
            transaction.execute(statement, &[&&**name])?;
        }
        if !batch.keys.is_empty() {
            let (names, rows): (Vec<_>, Vec<&KeyRow>) = batch.keys.iter().unzip();
            let (tubes, keys): (Vec<&str>, Vec<&str>) =
                names.iter().map(|(tube, key)| (&**tube, &**key)).unzip();
            let (ids, ends): (Vec<i64>, Vec<SystemTime>) =
                rows.iter().map(|row| (row.id as i64, wall(row.until))).unzip();
            transaction.execute(
                "INSERT INTO krarup.key SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[]) \
                 ON CONFLICT (tube, key) DO UPDATE SET id = excluded.id, until = excluded.until",
                &[&tubes, &keys, &ids, &ends],
            )?;
        }
        if !batch.taken_in.is_empty() {
            transaction.execute("DELETE FROM krarup.incoming WHERE number = ANY ($1)", &[&batch.taken_in])?;
        }
        transaction.commit()?;
        if !gone.is_empty() {
            // By itself: owners of two shards that have written would wait for each other's lock of
            // the table. Where it fails, the trigger works in vain.
            let _ = self.client.execute(FOLLOW_TUBES, &[]);
        }
        Ok(())
    }
}

/// Tubes that are there do from now on what they were told to do.
fn keep_tubes(client: &mut BlockingSession, batch: &CommitBatch) -> Result<(), Error> {
    let kept = batch.tubes.iter().filter_map(|(name, row)| Some((name, row.as_ref()?)));
    for (name, row) in kept {
        client.execute(
            "INSERT INTO krarup.tube VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (name) DO UPDATE SET created = excluded.created, most = excluded.most, dead = excluded.dead, \
                 expires = excluded.expires, keeps = excluded.keeps",
            &[
                &&**name,
                &row.created,
                &at_most(row.most),
                &row.dead.as_deref(),
                &at_most(row.expires),
                &at_most(row.keeps),
            ],
        )?;
    }
    if batch.tubes.values().any(Option::is_some) {
        client.execute(FOLLOW_TUBES, &[])?;
    }
    Ok(())
}

impl Reconnecting for BatchWriter {
    fn is_over(&self, error: &Error) -> bool {
        self.has_ended(error) || self.follows
    }

    fn place(&self) -> &Database {
        &self.place
    }

    fn mend(&mut self) -> Result<(), StoreError> {
        // One that stands would stand in the way; one that has ended has none.
        let _ = self.client.unlock_all();
        let next = Self::with_lock(self.place.clone(), self.epoch, self.shard, self.lock)?;
        *self = Self { follows: true, ..next };
        Ok(())
    }
}

/// A batch as the columns of its statements.
struct Lists<'a> {
    new: Vec<&'a MessageRow>,
    changed: Vec<&'a MessageRow>,
    gone: Vec<i64>,
}

/// The columns that a new message and a changed one have alike.
struct Columns<'a> {
    ids: Vec<i64>,
    tubes: Vec<&'a str>,
    states: Vec<i16>,
    priorities: Vec<i64>,
    dues: Vec<Option<SystemTime>>,
    delays: Vec<i32>,
}

impl<'a> Columns<'a> {
    fn of(rows: &[&'a MessageRow]) -> Self {
        Self {
            ids: rows.iter().map(|row| row.id as i64).collect(),
            tubes: rows.iter().map(|row| &*row.tube).collect(),
            states: rows.iter().map(|row| state(row)).collect(),
            priorities: rows.iter().map(|row| row.priority.into()).collect(),
            dues: rows.iter().map(|row| due(row)).collect(),
            delays: rows.iter().map(|row| seconds(row.delay)).collect(),
        }
    }
}

type Values<'v> = &'v [&'v (dyn tokio_postgres::types::ToSql + Sync)];

impl<'a> Lists<'a> {
    fn of(batch: &'a CommitBatch) -> Self {
        let mut lists = Self { new: Vec::new(), changed: Vec::new(), gone: Vec::new() };
        for (id, change) in &batch.messages {
            match change {
                MessageChange::Insert(row) => lists.new.push(row),
                MessageChange::Update(row) => lists.changed.push(row),
                MessageChange::Delete => lists.gone.push(*id as i64),
            }
        }
        // Neighbours in the table are written together, and two batches never lock rows in opposite
        // orders.
        lists.new.sort_unstable_by_key(|row| row.id);
        lists.changed.sort_unstable_by_key(|row| row.id);
        lists.gone.sort_unstable();
        lists
    }

    /// What messages had become that are gone.
    fn of_last(batch: &'a CommitBatch) -> Self {
        let mut changed: Vec<&MessageRow> = batch.last.values().map(|row| &**row).collect();
        changed.sort_unstable_by_key(|row| row.id);
        Self { new: Vec::new(), changed, gone: Vec::new() }
    }

    /// Whether there is nothing but messages that are gone, and new ones in which only what every
    /// message has is filled in.
    fn are_plain(&self) -> bool {
        self.changed.is_empty() && self.new.iter().all(|row| is_plain(row))
    }

    /// Hands the columns of such messages to a statement.
    fn write_plain<E>(
        &self,
        statement: &Statement,
        (epoch, shard): (i64, Shard),
        execute: impl FnOnce(&Statement, Values<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let new = &self.new;
        let ids: Vec<i64> = new.iter().map(|row| row.id as i64).collect();
        let tubes: Vec<&str> = new.iter().map(|row| &*row.tube).collect();
        let priorities: Vec<i64> = new.iter().map(|row| row.priority.into()).collect();
        let Contents { ttrs, created, bodies } = Contents::of(new);
        let (number, fence) = (shard.number as i32, fence_of(shard));
        execute(
            statement,
            &[&ids, &tubes, &priorities, &ttrs, &created, &bodies, &self.gone, &epoch, &number, &fence],
        )
    }

    /// Hands the columns to a statement.
    fn write<E>(
        &self,
        statement: &Statement,
        (epoch, shard): (i64, Shard),
        execute: impl FnOnce(&Statement, Values<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let new = &self.new;
        let Contents { ttrs, created, bodies } = Contents::of(new);
        let senders: Vec<Option<&str>> = new.iter().map(|row| row.sender.as_deref()).collect();
        let receivers: Vec<Option<&str>> = new.iter().map(|row| row.receiver.as_deref()).collect();
        let flags: Vec<i64> = new.iter().map(|row| row.flags.into()).collect();
        let ends: Vec<Option<SystemTime>> = new.iter().map(|row| row.lives_until.map(wall)).collect();
        let rows = &self.changed;
        let buried: Vec<Option<i64>> = rows.iter().map(|row| place_aside(row)).collect();
        let count = |what: fn(&JobCounts) -> u32| -> Vec<i32> {
            rows.iter().map(|row| what(&row.happened).try_into().unwrap_or(i32::MAX)).collect()
        };
        let (reserves, timeouts) = (count(|happened| happened.reserves), count(|happened| happened.timeouts));
        let (releases, buries) = (count(|happened| happened.releases), count(|happened| happened.buries));
        let kicks = count(|happened| happened.kicks);
        let (new, changed) = (Columns::of(new), Columns::of(rows));
        execute(
            statement,
            &[
                &new.ids,
                &new.tubes,
                &new.states,
                &new.priorities,
                &new.dues,
                &new.delays,
                &ttrs,
                &created,
                &senders,
                &receivers,
                &bodies,
                &self.gone,
                &changed.ids,
                &changed.tubes,
                &changed.states,
                &changed.priorities,
                &changed.dues,
                &buried,
                &changed.delays,
                &reserves,
                &timeouts,
                &releases,
                &buries,
                &kicks,
                &epoch,
                &flags,
                &ends,
                &(shard.number as i32),
                &fence_of(shard),
            ],
        )
    }
}

/// What every new message brings that does not change.
struct Contents<'a> {
    ttrs: Vec<i32>,
    created: Vec<SystemTime>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> Contents<'a> {
    fn of(new: &[&'a MessageRow]) -> Self {
        Self {
            ttrs: new.iter().map(|row| seconds(row.ttr)).collect(),
            created: new.iter().map(|row| wall(row.created)).collect(),
            bodies: new.iter().map(|row| &*row.body).collect(),
        }
    }
}

/// Whether a new message is as `put` makes it without a delay: the columns that are left are as in
/// every such row.
fn is_plain(row: &MessageRow) -> bool {
    row.standing == StoredState::Ready
        && row.delay == Nanos::ZERO
        && row.sender.is_none()
        && row.receiver.is_none()
        && row.flags == 0
        && row.lives_until.is_none()
}

fn state(row: &MessageRow) -> i16 {
    match row.standing {
        StoredState::Ready => 0,
        StoredState::Delayed(_) => 1,
        StoredState::Buried(_) => 2,
    }
}

fn due(row: &MessageRow) -> Option<SystemTime> {
    match row.standing {
        StoredState::Delayed(until) => Some(wall(until)),
        StoredState::Ready | StoredState::Buried(_) => None,
    }
}

fn place_aside(row: &MessageRow) -> Option<i64> {
    match row.standing {
        StoredState::Buried(order) => Some(order as i64),
        StoredState::Ready | StoredState::Delayed(_) => None,
    }
}

/// Whole seconds, as the protocol has them.
fn seconds(time: Nanos) -> i32 {
    at_most(u32::try_from(time.0 / 1_000_000_000).unwrap_or(u32::MAX))
}
