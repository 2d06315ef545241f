//! A database: its address, how it is reached and prepared, and what can go wrong before it.

use std::sync::Arc;
use std::time::Duration;

use krarup_broker::shards::Shard;
use krarup_units::Mistake;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::blocking::BlockingSession;
use super::connecting::{self, ServerSession};
use super::conninfo;
use super::failure::{hint_of, words};
use super::parameters::{ConnectionParameters, DatabaseServer, ProcessEnvironment, TargetSession};
use super::replication::Replication;
use super::schema::{QueueSchema, SchemaClient};

/// How long an owner may be silent before another takes over.
pub const LEASE: Duration = Duration::from_millis(1_200);
/// How often it is looked whether another broker has become the owner, or no longer is.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Saying that the owner is there needs no disk: what it writes afterwards is on disk only together
/// with it.
pub(super) const LIGHT: &str = "SET synchronous_commit = off";
/// A broker that begins counts, reads or indexes all messages in one statement each, which takes as
/// long as there are many; afterwards statements may take what the server says. Locks are waited
/// for no longer than a statement might have taken: others wait behind one that waits. From
/// PostgreSQL 17 on a transaction may have a time, too, and its session would end with that.
pub(super) const UNTIMED: &str = "SELECT set_config('lock_timeout', \
     coalesce(min(nullif(setting, '0')::integer), 0)::text, false) \
     FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout', 'lock_timeout'); \
     SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')";
pub(super) const TIMED: &str = "RESET statement_timeout; RESET lock_timeout; DO $$ BEGIN \
     IF current_setting('transaction_timeout', true) IS NOT NULL THEN RESET transaction_timeout; END IF; END $$";
/// What makes plans in all sessions that read and write messages.
pub(super) const SETTINGS: &str = include_str!("session.sql");
/// How often it is looked whether a pooler stands between.
const LOOKS_FOR_A_POOLER: usize = 3;
const MIGRATIONS: [&str; 17] = [
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
    include_str!("migrations/0007.sql"),
    include_str!("migrations/0008.sql"),
    include_str!("migrations/0009.sql"),
    include_str!("migrations/0010.sql"),
    include_str!("migrations/0011.sql"),
    include_str!("migrations/0012.sql"),
    include_str!("migrations/0013.sql"),
    include_str!("migrations/0014.sql"),
    include_str!("migrations/0015.sql"),
    include_str!("migrations/0016.sql"),
    include_str!("migrations/0017.sql"),
];

/// To rename a schema changes no text of its functions.
const IS_RENAMED: &str = "SELECT EXISTS (SELECT FROM pg_proc WHERE oid = to_regprocedure('krarup.still_owner(bigint, integer, integer)') \
                          AND strpos(prosrc, ' krarup.') = 0)";

/// The two numbers of our advisory locks: ours, and what is locked.
const MIGRATING: &str = "SELECT pg_advisory_xact_lock(1802658162, 1)";
pub(super) const OWN: &str = "SELECT pg_try_advisory_lock(1802658162, 2)";
/// Whether an owner's row is older than $1 seconds, and its session holds the lock $2 of this
/// database: a copy of the row names a session that is at work in another.
pub(super) const IS_OVERDUE: &str = "renewed < clock_timestamp() - make_interval(secs => $1) \
     AND EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 1802658162 AND objid = $2::int4::oid \
                 AND mode = 'ExclusiveLock' AND granted AND pid = process \
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
/// Ends other sessions that hold one of our locks.
pub(super) const END_HOLDER: &str = include_str!("end_holder.sql");

/// What stops a broker before a database. Addresses are told, passwords are not.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The text after `--store` is no address of a database.
    #[error("the address of the database is not understood: {}", .0.what)]
    Address(Mistake),
    /// The database cannot be reached, or not used yet.
    #[error("{}", .0.what)]
    Database(Mistake),
    /// The database answers, and refuses.
    #[error("{}", .0.what)]
    Refused(Mistake),
    /// Between this broker and the database is a pooler that gives its sessions to one transaction
    /// after the other.
    #[error(
        "the database is reached through a pooler that gives each transaction another session (pgbouncer with pool_mode = transaction or statement does), and a broker holds locks in its sessions"
    )]
    Pooled,
    /// A later version of this program has changed the tables.
    #[error("the tables are those of a later version of krarup (version {found}; this one knows {known})")]
    Later {
        /// The version that the tables have.
        found: i32,
        /// The last that this program knows.
        known: i32,
    },
    /// The schema had another name when its functions were made, and they have that one.
    #[error("the schema `{0}` was renamed, and its functions work on tables of the name that it had")]
    Renamed(QueueSchema),
    /// Another broker has become the owner.
    #[error("another broker has taken the queues over")]
    Deposed,
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let mistake = Mistake::new(words(&error), hint_of(&error));
        if is_fatal(&error) { Self::Database(mistake) } else { Self::Refused(mistake) }
    }
}

impl StoreError {
    /// What would do about it; empty: nothing is known.
    pub fn hint(&self) -> &str {
        match self {
            Self::Address(mistake) | Self::Database(mistake) | Self::Refused(mistake) => &mistake.hint,
            Self::Pooled => {
                "connect to PostgreSQL itself, or set pool_mode = session for this database in pgbouncer"
            }
            Self::Later { .. } => "start that version, or restore the backup that was made before it ran",
            Self::Renamed(_) => "give it its name back: ALTER SCHEMA … RENAME TO …",
            Self::Deposed => "start all brokers of this database in the same mode, with the same --shards",
        }
    }
}

/// Where the queues are, and how to get there.
#[derive(Clone, Debug)]
pub struct Database {
    parameters: Arc<ConnectionParameters>,
    schema: QueueSchema,
    largest: Option<u32>,
}

impl Database {
    /// Reads `postgres://user@host1,host2/database?keyword=…`, or `host=… dbname=…`; what it does
    /// not say comes from the environment, as libpq has it
    /// (<https://www.postgresql.org/docs/current/libpq-envars.html>).
    ///
    /// # Errors
    /// Without the password.
    pub fn parse(address: &str, environment: &ProcessEnvironment) -> Result<Self, StoreError> {
        let parameters = ConnectionParameters::read(address, environment).map_err(StoreError::Address)?;
        Ok(Self { parameters: Arc::new(parameters), schema: QueueSchema::default(), largest: None })
    }

    /// Whether the address itself has a password.
    pub fn tells_password(address: &str) -> bool {
        conninfo::parse(address).is_ok_and(|keywords| keywords.contains_key("password"))
    }

    /// The servers that it may be on, by their addresses.
    pub fn servers(&self) -> String {
        self.parameters.servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// The same, in this schema.
    #[must_use]
    pub fn in_schema(self, schema: QueueSchema) -> Self {
        Self { schema, ..self }
    }

    /// The same for brokers that take no larger messages: applications that put theirs by SQL are
    /// held to it, too.
    #[must_use]
    pub fn limited(self, largest: u32) -> Self {
        Self { largest: Some(largest), ..self }
    }

    /// Tells applications how large messages may be.
    pub(super) fn tell_largest(&self, client: &mut BlockingSession) -> Result<(), Error> {
        let Some(largest) = self.largest else { return Ok(()) };
        let statement = "UPDATE krarup.layout SET largest = $1 WHERE largest IS DISTINCT FROM $1";
        client.execute(statement, &[&i64::from(largest)]).map(drop)
    }

    /// Whether the database can be reached, and has, or may be given, the tables; what the operator
    /// should know of it.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub fn reach(&self) -> Result<Vec<String>, StoreError> {
        if self.is_pooled()? {
            return Err(StoreError::Pooled);
        }
        let (mut client, unencrypted) = self.begin()?;
        client.batch_execute(UNTIMED)?;
        migrate(&mut client)?;
        let mut warnings = Replication::of(&mut client)?.warnings();
        warnings.extend(unencrypted);
        Ok(warnings)
    }

    /// Whether a connection does not keep its session: a pooler gives another one to each
    /// transaction. Two connections are made, one of them in a transaction, and each is asked for
    /// the number of its process: whatever order a pooler gives its sessions out in, either both
    /// have the same, or that of the first changes.
    fn is_pooled(&self) -> Result<bool, StoreError> {
        // Nothing is prepared: a statement would be prepared in one session and executed in
        // another.
        let process = |client: &mut BlockingSession| client.simple_text("SELECT pg_backend_pid()");
        let (mut first, server, _) = self.open(&self.parameters)?;
        let its = process(&mut first)?;
        // The same server, which is asked nothing before that counts.
        let there = ConnectionParameters {
            servers: vec![server],
            target: TargetSession::Any,
            ..ConnectionParameters::clone(&self.parameters)
        };
        // Where the pooler has other clients, one of them may come in between.
        for _ in 0..LOOKS_FOR_A_POOLER {
            let (mut second, ..) = self.open(&there)?;
            second.batch_execute("BEGIN")?;
            let others = process(&mut second)?;
            // The second holds a session until here; a pooler that has no more of them would let
            // the first wait.
            second.batch_execute("COMMIT")?;
            if its == others || process(&mut first)? != its {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A session for the runtime of this thread, which moves it.
    pub(crate) async fn connect_here(&self) -> Result<SchemaClient, StoreError> {
        let session = connecting::connect(&self.parameters).await.map_err(StoreError::Database)?;
        let ServerSession { client, connection, .. } = session;
        let client = SchemaClient::new(client, self.schema.clone());
        tokio::task::spawn_local(async move {
            // Every waiting request gets the same answer.
            let _ = connection.await;
        });
        client.batch_execute(BEGIN_SESSION).await?;
        Ok(client)
    }

    /// A session, the server that it is with, and what to know where it is not encrypted and was to
    /// be.
    fn open(
        &self,
        parameters: &ConnectionParameters,
    ) -> Result<(BlockingSession, DatabaseServer, Option<String>), StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| StoreError::Database(format!("no runtime can be had: {error}").into()))?;
        let session = runtime.block_on(connecting::connect(parameters)).map_err(StoreError::Database)?;
        let ServerSession { client, connection, server, unencrypted } = session;
        let client = SchemaClient::new(client, self.schema.clone());
        Ok((BlockingSession::new(runtime, client, connection), server, unencrypted))
    }

    /// A session whose calls wait for their answers.
    pub(super) fn connect(&self) -> Result<BlockingSession, StoreError> {
        Ok(self.begin()?.0)
    }

    /// The same, for a broker that begins: its statements take as long as they need, until
    /// [`TIMED`].
    pub(super) fn connect_untimed(&self) -> Result<BlockingSession, StoreError> {
        let mut client = self.connect()?;
        client.batch_execute(UNTIMED)?;
        Ok(client)
    }

    /// The same, and what to know where it is not encrypted and was to be.
    fn begin(&self) -> Result<(BlockingSession, Option<String>), StoreError> {
        let (mut client, _, unencrypted) = self.open(&self.parameters)?;
        client.batch_execute(BEGIN_SESSION)?;
        Ok((client, unencrypted))
    }

    /// Whether a session that begins now may write.
    ///
    /// # Errors
    /// None can be had.
    pub(crate) fn takes_writes(&self) -> Result<bool, StoreError> {
        let mut client = self.connect()?;
        Ok(client.query_one("SELECT current_setting('transaction_read_only') = 'off'", &[])?.get(0))
    }
}

/// What a session begins with, whatever the defaults of this database: an answer means that the
/// message is on disk, and each statement sees what was committed before it. An owner's writes look
/// whether there is another once they have its lock, and no commit is refused because of others. A
/// session that rests stands: its end would be told as that of the database. PostgreSQL 13 ends
/// none for that.
const BEGIN_SESSION: &str = "SELECT set_config('default_transaction_isolation', 'read committed', false), \
     CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END, \
     CASE WHEN current_setting('idle_session_timeout', true) <> '0' THEN set_config('idle_session_timeout', '0', false) END";

/// A connection that can be had again after it broke.
pub(crate) trait Reconnecting {
    /// Whether this error is the session's last: whatever it had begun has been committed, or will
    /// be, or is undone. Only an error that the server tells, and goes on, means that nothing was
    /// written.
    fn is_over(&self, error: &Error) -> bool;

    /// Where the database is.
    fn place(&self) -> &Database;

    /// Tries once to have the session back.
    ///
    /// # Errors
    /// [`StoreError::Deposed`] is the last word; after others it can be tried again.
    fn mend(&mut self) -> Result<(), StoreError>;
}

/// The second number of the lock of a shard's owner.
pub(super) const fn lock_of(shard: Shard) -> i32 {
    if shard.is_whole() { 2 } else { 1_000 + shard.number as i32 }
}

/// The second number of the lock that a shard's writers take part in.
pub(super) const fn fence_of(shard: Shard) -> i32 {
    if shard.is_whole() { 3 } else { 2_000 + shard.number as i32 }
}

/// A commit that has written this waits for the standbys that commits wait for, and with it every
/// commit before: one whose session broke may be on the primary alone. It stands in no table, and
/// may be written where nothing else may.
pub(super) const MARK: &str = "pg_logical_emit_message(true, 'krarup', '')";

/// Whether an error says that its session writes nothing at all.
pub(crate) fn only_reads(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// Whether an error ends the session that it came from.
pub(super) fn is_fatal(error: &Error) -> bool {
    use tokio_postgres::error::Severity;
    let fatal = |told: &tokio_postgres::error::DbError| {
        matches!(told.parsed_severity(), None | Some(Severity::Fatal | Severity::Panic))
    };
    error.as_db_error().is_none_or(fatal)
}

/// Makes the tables, or gives those of an earlier version what they lack.
pub(super) fn migrate(client: &mut BlockingSession) -> Result<(), StoreError> {
    let mut transaction = client.transaction()?;
    transaction.execute(MIGRATING, &[])?;
    let there: bool =
        transaction.query_one("SELECT to_regclass('krarup.migration') IS NOT NULL", &[])?.get(0);
    if !there {
        // To make one takes a right in the database, even where it is there: its owner
        // may have made it.
        let schema = transaction.schema().name().to_owned();
        let is_there = "SELECT to_regnamespace($1) IS NOT NULL";
        if !transaction.query_one(is_there, &[&schema])?.get::<_, bool>(0) {
            transaction.batch_execute(&format!("CREATE SCHEMA {schema}"))?;
        }
        transaction.batch_execute(
            "CREATE TABLE krarup.migration (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())",
        )?;
    }
    let done: i32 =
        transaction.query_one("SELECT coalesce(max(version), 0) FROM krarup.migration", &[])?.get(0);
    let known = MIGRATIONS.len() as i32;
    if done > known {
        return Err(StoreError::Later { found: done, known });
    }
    if transaction.query_one(IS_RENAMED, &[])?.get(0) {
        return Err(StoreError::Renamed(transaction.schema().clone()));
    }
    for (version, script) in (1..).zip(MIGRATIONS).skip(done as usize) {
        transaction.batch_execute(script)?;
        transaction.execute("INSERT INTO krarup.migration (version) VALUES ($1)", &[&version])?;
    }
    Ok(transaction.commit()?)
}
