//! The schema that the tables are in, and a client whose statements are about that one.
//!
//! All SQL is written for the schema `krarup` and its advisory locks. Of another schema the
//! statements have its name instead, and its locks have numbers of their own: queues in two schemas
//! of one database know nothing of each other.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use krarup_units::Mistake;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, RowStream, SimpleQueryMessage, Statement};

/// The name that stands in every statement.
const OWN: &str = "krarup";
/// What the numbers of the advisory locks in every statement begin with; two digits follow.
const LOCKS: &str = "18026581";
/// A setting of a session, in which the name is no schema's.
const SETTING: &str = "counts";

/// The schema that the tables are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSchema {
    name: Arc<str>,
}

impl Default for QueueSchema {
    fn default() -> Self {
        Self { name: OWN.into() }
    }
}

impl fmt::Display for QueueSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for QueueSchema {
    type Err = Mistake;

    /// A name that PostgreSQL takes without quotes.
    fn from_str(name: &str) -> Result<Self, Mistake> {
        let plain = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if plain && begins && name.len() <= 63 && !name.starts_with("pg_") {
            return Ok(Self { name: name.into() });
        }
        Err(Mistake::new(
            format!("`{name}` is no name of a schema here"),
            "1 to 63 of the characters a to z, 0 to 9 and _, a digit not first and pg_ neither",
        ))
    }
}

impl QueueSchema {
    /// A statement for the schema `krarup`, for this one.
    pub(super) fn of<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        if *self.name == *OWN {
            return Cow::Borrowed(sql);
        }
        let mut text = String::with_capacity(sql.len() + 64);
        let mut pieces = sql.split("krarup.");
        text.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let behind = piece.strip_prefix(SETTING);
            let is_setting = behind.is_some_and(|behind| behind.starts_with(['\'', ' ']));
            text.push_str(if is_setting { OWN } else { &self.name });
            text.push('.');
            text.push_str(piece);
        }
        Cow::Owned(self.with_locks(&text))
    }

    fn with_locks(&self, sql: &str) -> String {
        let mut text = String::with_capacity(sql.len());
        let mut pieces = sql.split(LOCKS);
        text.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (number, behind) = piece.split_at(2);
            let number: i32 = number.parse().expect("two digits end the number of a lock");
            // A String takes everything.
            let _ = write!(text, "{}", self.lock(1_802_658_100 + number));
            text.push_str(behind);
        }
        text
    }

    /// The first number of an advisory lock, of which this is that for the schema `krarup`.
    pub(super) fn lock(&self, number: i32) -> i32 {
        if *self.name == *OWN {
            return number;
        }
        // FNV-1a. The numbers of the schema `krarup` are above 2^30, those of others below. Two
        // schemas of one database have the same with a probability of one to 67 million, and then
        // wait for each other.
        let digest = self
            .name
            .bytes()
            .fold(0x811c_9dc5_u32, |digest, byte| (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        (digest & 0x3fff_fff0) as i32 + (number - 1_802_658_160)
    }

    /// Its name as SQL has it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// What is asked of a database: a text, or what was prepared from one.
pub(crate) enum SqlStatement<'a> {
    Text(&'a str),
    Prepared(&'a Statement),
}

impl<'a> From<&'a str> for SqlStatement<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for SqlStatement<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a Statement> for SqlStatement<'a> {
    fn from(statement: &'a Statement) -> Self {
        Self::Prepared(statement)
    }
}

pub(super) type StatementValues<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A session whose statements are about one schema.
pub(crate) struct SchemaClient {
    client: Client,
    schema: QueueSchema,
}

impl SchemaClient {
    pub(super) fn new(client: Client, schema: QueueSchema) -> Self {
        Self { client, schema }
    }

    pub(crate) fn schema(&self) -> &QueueSchema {
        &self.schema
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(crate) async fn query<'a>(
        &self,
        statement: impl Into<SqlStatement<'a>>,
        values: StatementValues<'_>,
    ) -> Result<Vec<Row>, Error> {
        match statement.into() {
            SqlStatement::Prepared(statement) => self.client.query(statement, values).await,
            SqlStatement::Text(text) => self.client.query(&*self.schema.of(text), values).await,
        }
    }

    pub(crate) async fn query_one<'a>(
        &self,
        statement: impl Into<SqlStatement<'a>>,
        values: StatementValues<'_>,
    ) -> Result<Row, Error> {
        match statement.into() {
            SqlStatement::Prepared(statement) => self.client.query_one(statement, values).await,
            SqlStatement::Text(text) => self.client.query_one(&*self.schema.of(text), values).await,
        }
    }

    pub(crate) async fn query_opt(
        &self,
        text: &str,
        values: StatementValues<'_>,
    ) -> Result<Option<Row>, Error> {
        self.client.query_opt(&*self.schema.of(text), values).await
    }

    pub(crate) async fn query_raw(
        &self,
        text: &str,
        values: StatementValues<'_>,
    ) -> Result<RowStream, Error> {
        let values = values.iter().map(|value| *value as &dyn ToSql);
        self.client.query_raw(&*self.schema.of(text), values).await
    }

    pub(crate) async fn execute<'a>(
        &self,
        statement: impl Into<SqlStatement<'a>>,
        values: StatementValues<'_>,
    ) -> Result<u64, Error> {
        match statement.into() {
            SqlStatement::Prepared(statement) => self.client.execute(statement, values).await,
            SqlStatement::Text(text) => self.client.execute(&*self.schema.of(text), values).await,
        }
    }

    pub(crate) async fn batch_execute(&self, text: &str) -> Result<(), Error> {
        self.client.batch_execute(&self.schema.of(text)).await
    }

    pub(crate) async fn simple_query(&self, text: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        self.client.simple_query(&self.schema.of(text)).await
    }

    pub(crate) async fn prepare(&self, text: &str) -> Result<Statement, Error> {
        self.client.prepare(&self.schema.of(text)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_locks_are_those_of_the_schema_and_settings_stay() {
        let sql = "SELECT pg_advisory_lock(1802658162, 2), set_config('krarup.counts', 'no', true), krarup.count_messages(true), \
                   '_krarup.count'::regclass FROM krarup.counts_of; SET krarup.counts = 'itself'";
        assert_eq!(QueueSchema::default().of(sql), sql);
        let other: QueueSchema = "jobs".parse().unwrap();
        let of = other.of(sql);
        let lock = other.lock(1_802_658_162);
        assert_eq!(
            of,
            format!(
                "SELECT pg_advisory_lock({lock}, 2), set_config('krarup.counts', 'no', true), jobs.count_messages(true), \
                 '_jobs.count'::regclass FROM jobs.counts_of; SET krarup.counts = 'itself'"
            )
        );
        let third: QueueSchema = "jobs2".parse().unwrap();
        let mut locks: Vec<i32> = [&QueueSchema::default(), &other, &third]
            .iter()
            .flat_map(|schema| (62..=68).map(|number| schema.lock(1_802_658_100 + number)))
            .collect();
        assert!(locks.iter().all(|lock| *lock > 0));
        locks.sort_unstable();
        locks.dedup();
        assert_eq!(locks.len(), 21, "no lock is another's");
    }

    #[test]
    fn a_name_that_would_take_quotes_is_refused() {
        for good in ["krarup", "q", "_1", "jobs_2"] {
            assert_eq!(good.parse::<QueueSchema>().unwrap().to_string(), good);
        }
        for wrong in ["", "1a", "Jobs", "a-b", "a.b", "a\"b", "pg_queues", &"a".repeat(64)] {
            assert!(wrong.parse::<QueueSchema>().is_err(), "{wrong}");
        }
    }
}
