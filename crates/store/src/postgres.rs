//! Queues in PostgreSQL: who owns them, what is there, and how a batch is written. The SQL stands
//! in `.sql` files beside this one.
//!
//! **One owner.** The owner holds an advisory lock in a session that keeps nothing else. No other
//! session can hold it. It writes in other sessions, its writers, whose statements fail as soon as
//! there is another owner; and no broker becomes the owner before all that the last one had begun
//! to write is over. So the broker that gets the lock finds a table at rest.
//!
//! **An owner that hangs.** It renews one row three times a second. A broker that waits ends its
//! session when the row is older than [`LEASE`] by the database's own clock, and has not changed
//! for most of that by the broker's; what it writes afterwards goes nowhere.

pub(crate) mod batch_writer;
pub(crate) mod blocking;
mod connecting;
mod conninfo;
mod failure;
pub(crate) mod heads;
pub(crate) mod low_water;
pub mod members;
mod parameters;
mod place;
mod replication;
mod rows;
mod schema;
pub(crate) mod session;
mod sharing;
mod silence;
pub(crate) mod sweeper;

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use krarup_units::Nanos;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Row};

use krarup_broker::changes::{KeyRow, MessageRow, TubeRow};
use krarup_broker::job::Id;
use krarup_broker::queues::Resident;
use krarup_broker::shards::Shard;

pub use failure::words;
pub use heads::QueueCounts;
pub use parameters::ProcessEnvironment;
pub use place::{Database, LEASE, StoreError};
pub use schema::QueueSchema;
pub use sharing::Sharing;
pub use sweeper::{OutboxMessage, OutboxPart};

use blocking::BlockingSession;
use place::{
    END_HOLDER, IS_OVERDUE, LIGHT, LOOK, OWN, SETTINGS, TIMED, fence_of, is_fatal, lock_of, migrate,
};
pub(crate) use place::{Reconnecting, only_reads};
use rows::{NameTable, read, since_1970, wall};
use silence::OwnerSilence;

/// Who takes over from another reads no more than so many bytes of messages before it serves; more
/// of them are counted, and read when they are needed.
const READ_AT_ONCE: u64 = 32 << 20;
/// Ids that may be given before the number of the next one is written again.
pub(crate) const IDS_AHEAD: Id = 1_000_000;

const END_SHARING: &str = include_str!("postgres/shared/end.sql");
const LOAD: &str = include_str!("postgres/load.sql");

/// Waits until an owner before has written what it has begun, and keeps it from beginning more,
/// until the end of the transaction.
const FENCE: &str = "SELECT set_config('lock_timeout', '500ms', true), pg_advisory_xact_lock(1802658162, $1)";
/// The queues, owned.
pub struct Owned {
    place: Database,
    client: BlockingSession,
    shard: Shard,
    address: String,
    memcached: Option<String>,
    epoch: i64,
    process: i32,
    /// Messages of a line that are read at a time.
    heads: usize,
    /// Whether another broker was the owner until now.
    took_over: bool,
}

/// What was in the database when this owner began, besides its messages.
#[derive(Debug, Default)]
pub struct Contents {
    /// Tubes by name.
    pub tubes: Vec<(String, TubeRow)>,
    /// Who is registered.
    pub clients: Vec<String>,
    /// Keys by tube and key, in the order of their ends.
    pub keys: Vec<(String, String, KeyRow)>,
    /// Ids from here on were never given.
    pub next_id: Id,
    /// Where there were too many messages to read them all: how many there are.
    pub counts: Option<QueueCounts>,
}

impl std::fmt::Debug for Owned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owned").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Owned {
    /// Makes the tables if they are not there, and waits until no other broker owns the queues;
    /// `waits` is told where that broker is, whenever it is another.
    ///
    /// # Errors
    /// The database cannot be reached, or refuses.
    pub fn take(place: Database, address: &str, mut waits: impl FnMut(&str)) -> Result<Self, StoreError> {
        let mut client = place.connect_untimed()?;
        migrate(&mut client)?;
        let look = format!(
            "SELECT coalesce(address, ''), process, renewed, {IS_OVERDUE} FROM krarup.owner WHERE shard = 0"
        );
        let (mut told, mut silence) = (None, OwnerSilence::default());
        while !client.query_one(OWN, &[])?.get::<_, bool>(0) {
            let owner = client.query_one(&look, &[&LEASE.as_secs_f64(), &lock_of(Shard::WHOLE)])?;
            let address: String = owner.get(0);
            if told.as_ref() != Some(&address) {
                waits(&address);
                told = Some(address);
            }
            let silent = silence.lasts(owner.get(2), Instant::now()) && owner.get(3);
            if let (Some(process), true) = (owner.get::<_, Option<i32>>(1), silent) {
                client.execute("SELECT pg_terminate_backend($1)", &[&process])?;
            }
            thread::sleep(LOOK);
        }
        members::lay_out(&mut client, Shard::WHOLE.of)?;
        place.tell_largest(&mut client)?;
        Self::begin(place, client, Shard::WHOLE, (address, None), told.is_some())
    }

    /// Tries once to become the owner of a shard, as this member of those that share them; none:
    /// another broker is. An owner that is silent for too long is ended first.
    ///
    /// # Errors
    /// The database cannot be reached, or refuses; [`StoreError::Deposed`]: the queues are no
    /// longer divided so.
    pub fn take_shard(place: Database, shard: Shard, member: i64) -> Result<Option<Self>, StoreError> {
        let mut client = place.connect_untimed()?;
        if !members::join(&mut client, shard.of)? {
            return Err(StoreError::Deposed);
        }
        // A session that was ended holds its lock a little longer.
        let mut tries = if members::end_silent(&mut client, shard)? { 20 } else { 1 };
        while !own(&mut client, shard)? {
            tries -= 1;
            if tries == 0 {
                return Ok(None);
            }
            thread::sleep(LOOK / 5);
        }
        Self::begin(place, client, shard, ("", Some(member)), true).map(Some)
    }

    fn begin(
        place: Database,
        mut client: BlockingSession,
        shard: Shard,
        (address, member): (&str, Option<i64>),
        took_over: bool,
    ) -> Result<Self, StoreError> {
        let (epoch, process) = succeed(&mut client, shard, address, member)?;
        client.batch_execute(LIGHT)?;
        let address = address.to_owned();
        Ok(Self { place, client, shard, address, memcached: None, epoch, process, heads: 1, took_over })
    }

    /// Which part of the queues this is.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Its number: no other owner of this part has it.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Everything that is there at this time on the wall, each message handed to `message` in the
    /// order of the ids; where they would take more memory than messages that wait may have, they
    /// are only counted.
    ///
    /// # Errors
    /// The database cannot be reached, or refuses.
    pub fn load(
        &mut self,
        resident: Resident,
        now: Nanos,
        mut message: impl FnMut(MessageRow),
    ) -> Result<Contents, StoreError> {
        self.heads = resident.heads;
        let shard = self.shard;
        let alive = heads::Alive::begin(self.place.clone(), self.epoch, shard)?;
        let mut contents = Contents::default();
        for row in
            self.client.query("SELECT name, created, most, dead, expires, keeps FROM krarup.tube", &[])?
        {
            let dead: Option<String> = row.get(3);
            let kept = TubeRow {
                created: row.get(1),
                most: row.get::<_, i32>(2) as u32,
                dead: dead.map(Into::into),
                expires: row.get::<_, i32>(4) as u32,
                keeps: row.get::<_, i32>(5) as u32,
            };
            if shard.has(row.get(0)) {
                contents.tubes.push((row.get(0), kept));
            }
        }
        for row in self.client.query("SELECT name FROM krarup.client", &[])? {
            contents.clients.push(row.get(0));
        }
        // By the clock of the owner, as they were written. The others are cleared away by and by.
        let keys = "SELECT tube, key, id, until FROM krarup.key WHERE until > $1";
        for row in self.client.query(keys, &[&wall(now)])? {
            let kept = KeyRow { id: row.get::<_, i64>(2) as Id, until: since_1970(row.get(3)) };
            if shard.has(row.get(0)) {
                contents.keys.push((row.get(0), row.get(1), kept));
            }
        }
        // Where the queues were shared before, the database gave the numbers.
        let given = "SELECT greatest(next_id, (SELECT last_value + is_called::int FROM krarup.message_id)) FROM krarup.owner WHERE shard = $1";
        let next: i64 = self.client.query_one(given, &[&(shard.number as i32)])?.get(0);
        contents.next_id = next as Id;
        let bytes = if self.took_over { resident.bytes.min(READ_AT_ONCE) } else { resident.bytes };
        let (counts, tubes) = heads::look(&mut self.client, shard, bytes, now)?;
        contents.counts = counts;
        if contents.counts.is_some() {
            let above = "SELECT coalesce(max(id), 0) + 1 FROM krarup.message";
            let above: i64 = self.client.query_one(above, &[])?.get(0);
            contents.next_id = contents.next_id.max(above as Id);
        } else {
            contents.next_id = contents.next_id.max(self.read_all(&tubes, &mut message)?);
        }
        drop(alive);
        self.client.batch_execute(TIMED)?;
        self.renew(contents.next_id)?;
        Ok(contents)
    }

    /// Hands over every message; the first id above all of them.
    fn read_all(&mut self, tubes: &[Arc<str>], message: &mut impl FnMut(MessageRow)) -> Result<Id, Error> {
        let mut above = 0;
        let mut names = NameTable::default();
        let tubes: Vec<&str> = tubes.iter().map(|tube| &**tube).collect();
        let hand_over = |row: &Row| {
            let row = read(row, &mut names);
            above = above.max(row.id + 1);
            message(row);
        };
        if self.shard.is_whole() {
            match self.client.batch_execute(END_SHARING) {
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {}
                result => result?,
            }
            self.client.for_each_row(LOAD, &[], hand_over)?;
        } else {
            let statement = LOAD.replace("ORDER BY", &format!("WHERE {} ORDER BY", heads::OF_TUBES));
            self.client.for_each_row(&statement, &[&tubes], hand_over)?;
        }
        Ok(above)
    }

    /// Messages of a line that are read at a time.
    pub(crate) fn heads(&self) -> usize {
        self.heads
    }

    /// Says that the owner is there, and which id it will give next.
    ///
    /// # Errors
    /// The session is broken, or the database refuses.
    pub fn renew(&mut self, next_id: Id) -> Result<(), Error> {
        self.set_next_id(next_id + IDS_AHEAD)
    }

    /// The owner goes, and has given all ids below this one; a waiting broker may take over at
    /// once.
    ///
    /// # Errors
    /// As [`Self::renew`].
    pub fn set_down(&mut self, next_id: Id) -> Result<(), Error> {
        self.set_next_id(next_id)?;
        self.client.unlock_all()
    }

    fn set_next_id(&mut self, next_id: Id) -> Result<(), Error> {
        let statement = "UPDATE krarup.owner SET renewed = clock_timestamp(), next_id = $1, address = $2, memcached = $3 \
                         WHERE epoch = $4 AND shard = $5";
        let shard = self.shard.number as i32;
        self.client
            .execute(statement, &[&(next_id as i64), &self.address, &self.memcached, &self.epoch, &shard])
            .map(drop)
    }

    /// Where the brokers that wait for their turn send their clients.
    pub fn listens_at(&mut self, address: String, memcached: Option<String>) {
        self.address = address;
        self.memcached = memcached;
    }
}

impl Reconnecting for Owned {
    fn is_over(&self, error: &Error) -> bool {
        self.client.is_closed() || is_fatal(error)
    }

    fn place(&self) -> &Database {
        &self.place
    }

    fn mend(&mut self) -> Result<(), StoreError> {
        let mut client = self.place.connect()?;
        let shard = self.shard.number as i32;
        let epoch: i64 =
            client.query_one("SELECT epoch FROM krarup.owner WHERE shard = $1", &[&shard])?.get(0);
        if epoch != self.epoch || (!self.shard.is_whole() && !members::join(&mut client, self.shard.of)?) {
            return Err(StoreError::Deposed);
        }
        // One that stands would stand in the way; one that has ended has none.
        let _ = self.client.unlock_all();
        if !own(&mut client, self.shard)? {
            // The session before has not noticed its end yet: it shall not do anything any more.
            client.execute(
                "SELECT pg_terminate_backend(process) FROM krarup.owner WHERE process = $1 AND epoch = $2 AND shard = $3",
                &[&self.process, &self.epoch, &shard],
            )?;
            return Err(StoreError::Database("the lock of the session before is still held".into()));
        }
        let row = client.query_opt(
            "UPDATE krarup.owner SET address = $1, process = pg_backend_pid(), renewed = clock_timestamp() \
             WHERE epoch = $2 AND shard = $3 RETURNING process",
            &[&self.address, &self.epoch, &shard],
        )?;
        self.process = row.ok_or(StoreError::Deposed)?.get(0);
        client.batch_execute(LIGHT)?;
        self.client = client;
        Ok(())
    }
}

/// Whether this error says that another broker owns the queues.
pub(crate) fn is_deposed(error: &Error) -> bool {
    error.code().is_some_and(|code| code.code() == "KR001")
}

/// Whether this session has the lock of a shard's owner from now on.
fn own(client: &mut BlockingSession, shard: Shard) -> Result<bool, Error> {
    Ok(client.query_one("SELECT pg_try_advisory_lock(1802658162, $1)", &[&lock_of(shard)])?.get(0))
}

/// Becomes the next owner, in the session that holds the lock: its epoch and its process.
fn succeed(
    client: &mut BlockingSession,
    shard: Shard,
    address: &str,
    member: Option<i64>,
) -> Result<(i64, i32), Error> {
    let fence = fence_of(shard);
    loop {
        // What a broker has begun that hangs does not end by itself, and was never answered.
        client.execute(END_HOLDER, &[&client.schema().lock(1_802_658_162), &fence])?;
        let mut transaction = client.transaction()?;
        match transaction.query(FENCE, &[&fence]).map(drop) {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => continue,
            result => result?,
        }
        // By the time: a fail-over may lose that there was an owner, which goes on all the same,
        // and the next one must not have its number.
        let row = transaction.query_one(
            "UPDATE krarup.owner SET epoch = greatest(epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint), \
                 address = $1, process = pg_backend_pid(), renewed = clock_timestamp(), member = $2, memcached = NULL \
             WHERE shard = $3 RETURNING epoch, process",
            &[&address, &member, &(shard.number as i32)],
        )?;
        transaction.commit()?;
        return Ok((row.get(0), row.get(1)));
    }
}
