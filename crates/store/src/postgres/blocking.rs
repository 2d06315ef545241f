//! A session whose calls wait for their answers, for threads that do one thing at a time. It is
//! connected as those of the pool are ([`super::connecting`]), on a runtime of its own.

use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::runtime::Runtime;
use tokio_postgres::{Error, Row, SimpleQueryMessage, Statement};

use super::connecting::SessionConnection;
use super::schema::{QueueSchema, SchemaClient, SqlStatement, StatementValues};

/// How long the last word to the server may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// A session. It is ended in order when this value goes.
pub(crate) struct BlockingSession {
    runtime: Runtime,
    /// There until the end.
    client: Option<SchemaClient>,
    /// None: it has ended.
    connection: Option<SessionConnection>,
}

impl BlockingSession {
    pub(super) fn new(runtime: Runtime, client: SchemaClient, connection: SessionConnection) -> Self {
        Self { runtime, client: Some(client), connection: Some(connection) }
    }

    /// Whether the session has ended, as far as is known.
    pub(crate) fn is_closed(&self) -> bool {
        self.connection.is_none() || self.client.as_ref().is_none_or(SchemaClient::is_closed)
    }

    /// The schema that its statements are about.
    pub(crate) fn schema(&self) -> &QueueSchema {
        self.client.as_ref().expect("a session has a client until its end").schema()
    }

    /// Rows of a statement.
    pub(crate) fn query<'a>(
        &mut self,
        statement: impl Into<SqlStatement<'a>>,
        values: StatementValues<'_>,
    ) -> Result<Vec<Row>, Error> {
        self.wait(async |client| client.query(statement, values).await)
    }

    /// The one row of a statement.
    pub(crate) fn query_one<'a>(
        &mut self,
        statement: impl Into<SqlStatement<'a>>,
        values: StatementValues<'_>,
    ) -> Result<Row, Error> {
        self.wait(async |client| client.query_one(statement, values).await)
    }

    /// The row of a statement that has one at most.
    pub(crate) fn query_opt(
        &mut self,
        statement: &str,
        values: StatementValues<'_>,
    ) -> Result<Option<Row>, Error> {
        self.wait(async |client| client.query_opt(statement, values).await)
    }

    /// Hands over the rows of a statement one after the other, however many they are.
    pub(crate) fn for_each_row(
        &mut self,
        statement: &str,
        values: StatementValues<'_>,
        mut each: impl FnMut(&Row),
    ) -> Result<(), Error> {
        self.wait(async |client| {
            let mut rows = pin!(client.query_raw(statement, values).await?);
            while let Some(row) = rows.try_next().await? {
                each(&row);
            }
            Ok(())
        })
    }

    /// How many rows a statement changed, or has.
    pub(crate) fn execute<'a>(
        &mut self,
        statement: impl Into<SqlStatement<'a>>,
        values: StatementValues<'_>,
    ) -> Result<u64, Error> {
        self.wait(async |client| client.execute(statement, values).await)
    }

    /// Several statements, without values.
    pub(crate) fn batch_execute(&mut self, statements: &str) -> Result<(), Error> {
        self.wait(async |client| client.batch_execute(statements).await)
    }

    /// Gives up all locks that it holds.
    pub(crate) fn unlock_all(&mut self) -> Result<(), Error> {
        self.execute("SELECT pg_advisory_unlock_all()", &[]).map(drop)
    }

    /// The first column of the first row of a statement that is not prepared.
    pub(crate) fn simple_text(&mut self, statement: &str) -> Result<Option<String>, Error> {
        let rows = self.wait(async |client| client.simple_query(statement).await)?;
        Ok(rows.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }

    pub(crate) fn prepare(&mut self, statement: &str) -> Result<Statement, Error> {
        self.wait(async |client| client.prepare(statement).await)
    }

    /// Begins a transaction, which is undone unless it is committed.
    pub(crate) fn transaction(&mut self) -> Result<BlockingTransaction<'_>, Error> {
        self.batch_execute("BEGIN")?;
        Ok(BlockingTransaction { client: self, is_open: true })
    }

    fn wait<T>(&mut self, ask: impl AsyncFnOnce(&SchemaClient) -> Result<T, Error>) -> Result<T, Error> {
        let Self { runtime, client, connection } = self;
        let client = client.as_ref().expect("a session has a client until its end");
        let mut asked = pin!(ask(client));
        runtime.block_on(poll_fn(|context| {
            let mut ended = None;
            if let Some(open) = connection
                && let Poll::Ready(outcome) = Pin::new(open).poll(context)
            {
                *connection = None;
                ended = outcome.err();
            }
            match (asked.as_mut().poll(context), ended) {
                // What ended the connection says more than that it is closed.
                (Poll::Ready(Err(error)), Some(ended)) if error.as_db_error().is_none() => {
                    Poll::Ready(Err(ended))
                }
                (Poll::Pending, Some(ended)) => Poll::Ready(Err(ended)),
                (answered, _) => answered,
            }
        }))
    }
}

impl Drop for BlockingSession {
    fn drop(&mut self) {
        // Without a client the connection says goodbye and ends.
        self.client = None;
        if let Some(connection) = self.connection.take() {
            let _ = self.runtime.block_on(async { tokio::time::timeout(GOODBYE, connection).await });
        }
    }
}

/// A transaction of a session.
pub(crate) struct BlockingTransaction<'a> {
    client: &'a mut BlockingSession,
    is_open: bool,
}

impl BlockingTransaction<'_> {
    pub(crate) fn commit(mut self) -> Result<(), Error> {
        self.is_open = false;
        self.client.batch_execute("COMMIT")
    }
}

impl Deref for BlockingTransaction<'_> {
    type Target = BlockingSession;

    fn deref(&self) -> &BlockingSession {
        self.client
    }
}

impl DerefMut for BlockingTransaction<'_> {
    fn deref_mut(&mut self) -> &mut BlockingSession {
        self.client
    }
}

impl Drop for BlockingTransaction<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // Where the session is over, so is the transaction.
            let _ = self.client.batch_execute("ROLLBACK");
        }
    }
}
