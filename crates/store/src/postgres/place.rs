//! A database: its address, how it is reached and prepared, and what can go wrong before it.

use std::time::Duration;

use krarup_broker::shards::Shard;
use postgres::{Client, Config, Error, NoTls};

/// How long an owner may be silent before another takes over.
pub const LEASE: Duration = Duration::from_millis(1_200);
/// How often it is looked whether another broker has become the owner, or no longer is.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Saying that the owner is there needs no disk: what it writes afterwards is on disk only together
/// with it.
pub(super) const LIGHT: &str = "SET synchronous_commit = off";
/// How often it is looked whether a pooler stands between.
const LOOKS_FOR_A_POOLER: usize = 3;
const MIGRATIONS: [&str; 9] = [
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
    include_str!("migrations/0007.sql"),
    include_str!("migrations/0008.sql"),
    include_str!("migrations/0009.sql"),
];

/// The two numbers of our advisory locks: ours, and what is locked.
const MIGRATING: &str = "SELECT pg_advisory_xact_lock(1802658162, 1)";
pub(super) const OWN: &str = "SELECT pg_try_advisory_lock(1802658162, 2)";
/// Ends other sessions that hold one of our locks.
pub(super) const END_HOLDER: &str = include_str!("end_holder.sql");

/// What stops a broker before a database. Addresses are told, passwords are not.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The text after `--store` is no address of a database.
    #[error("the address of the database is not understood: {0}")]
    Address(String),
    /// The database cannot be reached, or refuses.
    #[error("the database: {0}")]
    Database(String),
    /// Between this broker and the database is a pooler that gives its sessions to one transaction
    /// after the other.
    #[error(
        "the database is reached through a pooler that gives each transaction another session, and a broker holds locks in its sessions"
    )]
    Pooled,
    /// Another broker has become the owner.
    #[error("another broker has taken the queues over")]
    Deposed,
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        Self::Database(words(&error))
    }
}

/// An error in the server's own words, without the statement.
pub fn words(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(told), _) => told.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Where the queues are, and how to get there.
#[derive(Clone, Debug)]
pub struct Database {
    config: tokio_postgres::Config,
    largest: Option<u32>,
}

impl Database {
    /// Reads `postgres://user:password@host:port/database?option=…`.
    ///
    /// # Errors
    /// Without the password.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let mut config: tokio_postgres::Config =
            url.parse().map_err(|error: Error| StoreError::Address(words(&error)))?;
        config.application_name("krarup broker");
        config.connect_timeout(Duration::from_secs(5));
        // A database that vanished without a word is noticed.
        config.keepalives_idle(Duration::from_secs(5)).tcp_user_timeout(Duration::from_secs(10));
        Ok(Self { config, largest: None })
    }

    /// The same for brokers that take no larger messages: applications that put theirs by SQL are
    /// held to it, too.
    #[must_use]
    pub fn limited(self, largest: u32) -> Self {
        Self { largest: Some(largest), ..self }
    }

    /// Tells applications how large messages may be.
    pub(super) fn tell_largest(&self, client: &mut Client) -> Result<(), Error> {
        let Some(largest) = self.largest else { return Ok(()) };
        let statement = "UPDATE krarup.layout SET largest = $1 WHERE largest IS DISTINCT FROM $1";
        client.execute(statement, &[&i64::from(largest)]).map(drop)
    }

    /// Whether the database can be reached, and has, or may be given, the tables.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub fn reach(&self) -> Result<(), StoreError> {
        if self.is_pooled()? {
            return Err(StoreError::Pooled);
        }
        migrate(&mut self.connect()?).map_err(StoreError::from)
    }

    /// Whether a connection does not keep its session: a pooler gives another one to each
    /// transaction. Two connections are made, one of them in a transaction, and each is asked for
    /// the number of its process: whatever order a pooler gives its sessions out in, either both
    /// have the same, or that of the first changes.
    fn is_pooled(&self) -> Result<bool, Error> {
        let connect = || Config::from(self.config.clone()).connect(NoTls);
        // Nothing is prepared: a statement would be prepared in one session and executed in
        // another.
        let process = |client: &mut Client| -> Result<Option<String>, Error> {
            let rows = client.simple_query("SELECT pg_backend_pid()")?;
            Ok(rows.iter().find_map(|row| match row {
                postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            }))
        };
        let mut first = connect()?;
        let its = process(&mut first)?;
        // Where the pooler has other clients, one of them may come in between.
        for _ in 0..LOOKS_FOR_A_POOLER {
            let mut second = connect()?;
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

    /// For callers that connect by themselves.
    pub(crate) fn into_config(self) -> tokio_postgres::Config {
        self.config
    }

    pub(super) fn connect(&self) -> Result<Client, Error> {
        let mut client = Config::from(self.config.clone()).connect(NoTls)?;
        // An answer means that the message is on disk, whatever the default of this database.
        let durable: String = client.query_one("SHOW synchronous_commit", &[])?.get(0);
        if durable == "off" {
            client.batch_execute("SET synchronous_commit = on")?;
        }
        Ok(client)
    }
}

/// A connection that can be had again after it broke.
pub(crate) trait Reconnecting {
    /// Whether this error is the session's last: whatever it had begun has been committed, or will
    /// be, or is undone. Only an error that the server tells, and goes on, means that nothing was
    /// written.
    fn is_over(&self, error: &Error) -> bool;

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

/// Whether an error ends the session that it came from.
pub(super) fn is_fatal(error: &Error) -> bool {
    use postgres::error::Severity;
    let fatal = |told: &postgres::error::DbError| {
        matches!(told.parsed_severity(), None | Some(Severity::Fatal | Severity::Panic))
    };
    error.as_db_error().is_none_or(fatal)
}

pub(super) fn migrate(client: &mut Client) -> Result<(), Error> {
    let mut transaction = client.transaction()?;
    transaction.execute(MIGRATING, &[])?;
    let there: bool =
        transaction.query_one("SELECT to_regclass('krarup.migration') IS NOT NULL", &[])?.get(0);
    if !there {
        transaction.batch_execute(
            "CREATE SCHEMA IF NOT EXISTS krarup; \
             CREATE TABLE krarup.migration (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())",
        )?;
    }
    let done: i32 =
        transaction.query_one("SELECT coalesce(max(version), 0) FROM krarup.migration", &[])?.get(0);
    for (version, script) in (1..).zip(MIGRATIONS).skip(done as usize) {
        transaction.batch_execute(script)?;
        transaction.execute("INSERT INTO krarup.migration (version) VALUES ($1)", &[&version])?;
    }
    transaction.commit()
}
