//! One connection to queues that no broker owns: queries as the columns of prepared statements,
//! rows as their answers.
//!
//! ```text
//! one statement for all queries of a kind, committed at once ──▶ their answers, which may be told
//!
//! BEGIN; one statement ──▶ their answers                       where they could not be had again
//! COMMIT               ──▶ they may be told
//! ```
//!
//! The statement also writes one row that names the transaction. Where the connection breaks, the
//! next one ends the session that it had, and looks whether that row is there: then everything has
//! happened, otherwise nothing. The answers to puts, deletes and leases are in that row, or follow
//! from it; others, whose messages are gone when they are told, are heard before their commit.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use krarup_units::Nanos;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

use super::failure::words;
use super::low_water::{LowWaterMarks, TubeParts};
use super::place::{Database, MARK, StoreError, is_fatal, only_reads};
use super::rows::at_most;
use super::schema::SchemaClient;
use super::{IDS_AHEAD, SETTINGS};
use krarup_broker::database::{
    Backlog, DatabaseReply, DatabaseRequest, Lookup, MessageSelector, QueuedRequest, RareRequest, ResultCode,
    ResultRow, StateChange, StatementKind, TubeBacklog, TubeFacts,
};
use krarup_broker::job::{Id, JobCounts};
use krarup_broker::queues::{JobView, Totals};

const PUT: &str = include_str!("shared/put.sql");
const PUT_ONE: &str = include_str!("shared/put_one.sql");
const SEND: &str = include_str!("shared/send.sql");
const TAKE: &str = include_str!("shared/take.sql");
const TAKE_ONE: &str = include_str!("shared/take_one.sql");
const TAKE_MANY: &str = concat!(include_str!("shared/take_many.sql"), include_str!("shared/lease_first.sql"));
const TAKE_ONE_FROM: &str = include_str!("shared/take_one_from.sql");
const TAKE_FROM: &str = concat!(include_str!("shared/take_from.sql"), include_str!("shared/lease_first.sql"));
const WAITS: &str = include_str!("shared/waits.sql");
const FULLEST: &str = include_str!("shared/fullest.sql");
const OLDEST: &str = include_str!("shared/oldest.sql");
const FINISH: &str = include_str!("shared/finish.sql");
const FINISH_ONE: &str = include_str!("shared/finish_one.sql");
const MOVE: &str = include_str!("shared/move.sql");
const LOOK: &str = include_str!("shared/look.sql");
const LIST: &str = include_str!("shared/list.sql");
const EMPTY: &str = include_str!("shared/empty.sql");
const EMPTY_REST: &str = include_str!("shared/empty_rest.sql");
/// What the row of a transaction tells of its answers.
const KEPT: &str = "SELECT place, 0::smallint, kept.id, 0, NULL::bytea \
                    FROM krarup.outcome, unnest(coalesce(places, ARRAY[1::bigint]), coalesce(ids, ARRAY[outcome.id])) AS kept (place, id) \
                    WHERE broker = $1 AND serial = $2 AND kept.id IS NOT NULL";
const KEPT_LEASES: &str = "SELECT place, 0::smallint, message.id, message.ttr, message.body, message.flags, message.tube \
                           FROM krarup.outcome, unnest(coalesce(places, ARRAY[1::bigint]), coalesce(ids, ARRAY[outcome.id])) AS kept (place, id) \
                                JOIN krarup.message ON message.id = kept.id \
                           WHERE broker = $1 AND serial = $2 AND state = 3 AND holder = ANY ($3) \
                             AND coalesce(due > clock_timestamp(), false) ORDER BY priority, message.id";
/// After a statement that took so long, its leases may have ended (none is shorter), and clients
/// may have gone.
const LATE: Duration = Duration::from_secs(1);
const SWEEP: &str = "SELECT CASE WHEN set_config('krarup.counts', 'no', true) = 'no' THEN krarup.expire() END, \
                            krarup.sweep($1, $2, $3, $4, $5), krarup.sum_up()";
/// Clears the archive by one more step, and tells whether a sweep's worth lies in the outbox, or
/// the last sweep found as much as it takes: the next one looks from where that one began.
const PRUNE: &str = "SELECT krarup.prune(), EXISTS (SELECT FROM krarup.incoming ORDER BY number OFFSET 999) \
                            OR EXISTS (SELECT FROM krarup.broker WHERE number = $1 AND looked = looks_from)";
/// Rows of one kind that a sweep takes at most.
const SWEPT_AT_ONCE: i32 = 1_000;
/// Messages of one state that a kick, or the end of a tube, changes in one statement: it is over
/// long before any time that a statement may take.
const PART: u32 = 1_000;
/// Steps by which the archive is cleared after a sweep, beside the sweep's own.
const MOST_STEPS: usize = 4;
/// After this time there is no further step: the answers of the sweep wait for it.
const STEPS_TAKE: Duration = Duration::from_millis(50);
const TUBES: &str = "SELECT tube FROM krarup.message UNION SELECT name FROM krarup.tube ORDER BY 1";
const ENTRIES: &str = "SELECT tube, krarup.entries_to_first(tube) FROM unnest($1::text[]) AS wish (tube)";
/// The lock of all that share the queues, and that of this broker: others see by it that it is
/// there. And by what this session is known to others.
const SHARE: &str = "SELECT pg_try_advisory_lock_shared(1802658162, 2), pg_advisory_lock_shared(1802658164, $1), (SELECT shards = 0 FROM krarup.layout), \
                            pg_backend_pid(), (SELECT (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity WHERE pid = pg_backend_pid())";
/// Ends a session of ours that broke, if it is still there; whether it is, or nothing can be known
/// here: a replica hears of commits late. One that a pooler has given on is over: it is this one,
/// or has no longer a broker's lock. What EXISTS selects is not called, what is counted is.
const STILL_THERE: &str = "SELECT pg_is_in_recovery() OR (SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity AS its \
                           WHERE pid = $1 AND (extract(epoch FROM backend_start) * 1000000)::bigint = $2 AND pid <> pg_backend_pid() \
                             AND EXISTS (SELECT FROM pg_locks AS held WHERE held.pid = its.pid AND locktype = 'advisory' \
                                         AND classid = 1802658164 AND granted))";
/// Writes a row in the place of a transaction's, which no transaction writes so; whether there was
/// none.
const MINE: &str = "WITH mine AS (INSERT INTO krarup.outcome (broker, serial, places) VALUES ($1, $2, '{}') \
                                  ON CONFLICT DO NOTHING RETURNING serial) \
                    SELECT EXISTS (SELECT FROM mine)";
/// Whether the row of a transaction is there: one that only stands in its place is none.
const WRITTEN: &str = "SELECT EXISTS (SELECT FROM krarup.outcome \
                       WHERE broker = $1 AND serial = $2 AND places IS DISTINCT FROM '{}')";
/// A server that becomes the primary begins another: so far it has what the one before has sent.
const TIMELINE: &str = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)";

/// The statements of this session count the messages that they change. Those that call a function
/// which changes some have the table's triggers count them, and say so for their transaction. Not
/// the function itself: for that PostgreSQL asks for a superuser, who no broker is.
const COUNTS: &str = "SET krarup.counts = 'itself'";

type Columns<'a> = [&'a (dyn ToSql + Sync)];

/// A session, as other sessions know it: its process, and when that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    process: i32,
    begun: Option<i64>,
}

/// What a batch came to when it was not answered.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection broke before anything could have been committed.
    Broken(String),
    /// The connection broke, and the transaction of this serial may have been committed; then these
    /// are the answers, or those that its row tells.
    Unknown(Option<Vec<DatabaseReply>>),
    /// Nothing was committed: of those that take something a client has gone meanwhile.
    Unwanted,
    /// The database refuses, and until when.
    Refused { why: String, until: RefusedUntil },
}

/// Until when a database refuses what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedUntil {
    /// It will not do it at any time.
    Never,
    /// Until it is repaired: a right, a table or an index is missing or broken.
    Repaired,
    /// Perhaps until it is asked again: something stood in the way of this statement.
    TryLater,
    /// As before, unless it is too long by itself: it was cancelled, as what takes longer than a
    /// statement may.
    TooLong,
    /// Until it has room again: its disk is full, its memory or its connections are used up.
    Room,
    /// Until it writes at all.
    Writes,
}

/// Transactions are told apart by the broker's number and a serial of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitMarker {
    pub(crate) broker: i64,
    pub(crate) serial: i64,
}

/// Serials up to one bound, exclusive, are no longer of interest; those below the other were
/// cleared away before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clearing {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

pub(crate) struct DatabaseSession {
    client: SchemaClient,
    known: Known,
    since: Instant,
    put: Statement,
    put_one: Statement,
    send: Statement,
    take: Statement,
    take_one: Statement,
    take_many: Statement,
    take_one_from: Statement,
    take_from: Statement,
    waits: Statement,
    entries: Statement,
    fullest: Statement,
    oldest: Statement,
    /// Those of all sessions.
    marks: Rc<RefCell<LowWaterMarks>>,
    /// That of all sessions, and whether this one has compared its own.
    timeline: Rc<RefCell<Option<String>>>,
    follows_timeline: Cell<bool>,
    finish: Statement,
    finish_one: Statement,
    r#move: Statement,
    look: Statement,
    list: Statement,
    sweep: Statement,
    prune: Statement,
}

impl DatabaseSession {
    /// Connects and prepares everything, for the broker of this number.
    ///
    /// # Errors
    /// [`StoreError::Deposed`] where a broker owns the queues.
    pub(crate) async fn connect(
        place: &Database,
        number: i64,
        marks: Rc<RefCell<LowWaterMarks>>,
        timeline: Rc<RefCell<Option<String>>>,
    ) -> Result<Self, StoreError> {
        let client = place.connect_here().await?;
        client.batch_execute(SETTINGS).await?;
        client.batch_execute(COUNTS).await?;
        let shares = client.query_one(SHARE, &[&(number as i32 & i32::MAX)]).await?;
        may_share(shares.get(0), shares.get(2))?;
        Ok(Self {
            since: Instant::now(),
            known: Known { process: shares.get(3), begun: shares.get(4) },
            put: client.prepare(PUT).await?,
            put_one: client.prepare(PUT_ONE).await?,
            send: client.prepare(SEND).await?,
            take: client.prepare(TAKE).await?,
            take_one: client.prepare(TAKE_ONE).await?,
            take_many: client.prepare(TAKE_MANY).await?,
            take_one_from: client.prepare(TAKE_ONE_FROM).await?,
            take_from: client.prepare(TAKE_FROM).await?,
            waits: client.prepare(WAITS).await?,
            entries: client.prepare(ENTRIES).await?,
            fullest: client.prepare(FULLEST).await?,
            oldest: client.prepare(OLDEST).await?,
            marks,
            timeline,
            follows_timeline: Cell::new(false),
            finish: client.prepare(FINISH).await?,
            finish_one: client.prepare(FINISH_ONE).await?,
            r#move: client.prepare(MOVE).await?,
            look: client.prepare(LOOK).await?,
            list: client.prepare(LIST).await?,
            sweep: client.prepare(SWEEP).await?,
            prune: client.prepare(PRUNE).await?,
            client,
        })
    }

    /// Whether it has ended: nothing more can be sent.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Since when it stands.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// How others know this session.
    pub(crate) fn known(&self) -> Known {
        self.known
    }

    /// Whether this transaction was committed, which was begun in the session `its` that broke;
    /// none: that session is not over, or it is not known.
    ///
    /// # Errors
    /// The database refuses, or this session broke as well.
    pub(crate) async fn was_committed(
        &self,
        marker: CommitMarker,
        its: Known,
    ) -> Result<Option<bool>, Trouble> {
        self.outcome(marker, its).await.map_err(|error| self.trouble(&error))
    }

    async fn outcome(&self, marker: CommitMarker, its: Known) -> Result<Option<bool>, Error> {
        // A session that broke may not have come to its row yet, and goes on: one that is written
        // here would be cleared away before it is met.
        let there = self.client.query_one(STILL_THERE, &[&its.process, &its.begun]).await?;
        if there.get(0) {
            return Ok(None);
        }
        let columns: &Columns<'_> = &[&marker.broker, &marker.serial];
        // One that this user may not see may be at its commit: this row waits for that.
        let statement = format!("{MINE}, {MARK}");
        match self.client.query_one(&statement, columns).await {
            Ok(written) if written.get::<_, bool>(0) => return Ok(Some(false)),
            Err(error) if self.is_over(&error) => return Err(error),
            // There is one, perhaps of a look before, whose answer was lost; or nothing can be
            // written.
            Ok(_) | Err(_) => {}
        }
        let statement = format!("{WRITTEN}, {MARK}");
        Ok(Some(self.client.query_one(&statement, columns).await?.get(0)))
    }

    /// A server that becomes the primary may not have heard of the last ids that were given. Where
    /// a session finds another timeline than those before it, the ids go on far above before it
    /// writes: one that a client still knows is given to no other message.
    async fn follow_timeline(&self) -> Result<(), Error> {
        if self.follows_timeline.get() {
            return Ok(());
        }
        match self.client.query_one(TIMELINE, &[]).await {
            Ok(row) => {
                let (timeline, before): (String, _) = (row.get(0), self.timeline.borrow().clone());
                if before.is_some_and(|before| before != timeline) {
                    // One after the other: else one might set what another has set and given.
                    let statements = format!(
                        "SELECT pg_advisory_xact_lock(1802658162, 6); \
                         SELECT setval('krarup.message_id', (SELECT last_value + {IDS_AHEAD} FROM krarup.message_id))"
                    );
                    self.client.batch_execute(&statements).await?;
                }
                self.timeline.replace(Some(timeline));
            }
            Err(error) if self.is_over(&error) => return Err(error),
            Err(error)
                if error.code().is_some_and(|code| matches!(&code.code()[..2], "53" | "57" | "58")) =>
            {
                return Err(error);
            }
            // Not every database tells it.
            Err(_) => {}
        }
        self.follows_timeline.set(true);
        Ok(())
    }

    /// The answers of a transaction that was committed, by its row.
    ///
    /// # Errors
    /// The database refuses, or the session broke.
    pub(crate) async fn replies(
        &self,
        asked: &[QueuedRequest],
        marker: CommitMarker,
    ) -> Result<Vec<DatabaseReply>, Trouble> {
        self.kept(asked, marker).await.map_err(|error| self.trouble(&error))
    }

    async fn kept(&self, asked: &[QueuedRequest], marker: CommitMarker) -> Result<Vec<DatabaseReply>, Error> {
        let mut takers: Vec<i64> = Vec::new();
        for one in asked {
            if let DatabaseRequest::Take { taker, .. } = one.query {
                takers.push(taker);
            }
        }
        let rows = if takers.is_empty() {
            self.client.query(KEPT, &[&marker.broker, &marker.serial]).await?
        } else {
            // Where a lease has ended meanwhile, another client may have the message.
            self.client.query(KEPT_LEASES, &[&marker.broker, &marker.serial, &takers]).await?
        };
        Ok(lines(asked.len(), rows))
    }

    /// Carries out queries of one kind, all or none; their answers in order.
    pub(crate) async fn carry_out(
        &self,
        asked: &[QueuedRequest],
        marker: CommitMarker,
        remember: Duration,
        clearing: Clearing,
    ) -> Result<Vec<DatabaseReply>, Trouble> {
        let read = |result: Result<Vec<DatabaseReply>, Error>| result.map_err(|error| self.trouble(&error));
        if asked[0].query.writes() {
            self.follow_timeline().await.map_err(|error| self.trouble(&error))?;
        }
        match asked[0].query.kind() {
            StatementKind::Look => read(self.look(asked).await),
            StatementKind::List => read(self.list(asked).await),
            StatementKind::Sweep => read(self.sweep(asked, marker, clearing).await),
            StatementKind::Once if !asked[0].query.writes() => read(self.once(&asked[0].query).await),
            StatementKind::Put => self.at_once(self.put(asked, marker).await),
            StatementKind::Finish => self.at_once(self.finish(asked, marker).await),
            StatementKind::Take
                if asked.iter().all(|one| matches!(one.query, DatabaseRequest::Take { pops: false, .. })) =>
            {
                self.at_once(self.lease(asked, marker).await)
            }
            _ => self.transaction(asked, marker, remember).await,
        }
    }

    /// What came of a statement that was a transaction of its own.
    fn at_once(&self, came: Result<Vec<DatabaseReply>, Error>) -> Result<Vec<DatabaseReply>, Trouble> {
        came.map_err(|error| if self.is_over(&error) { Trouble::Unknown(None) } else { self.trouble(&error) })
    }

    async fn transaction(
        &self,
        asked: &[QueuedRequest],
        marker: CommitMarker,
        remember: Duration,
    ) -> Result<Vec<DatabaseReply>, Trouble> {
        let statement = async {
            match asked[0].query.kind() {
                StatementKind::Send => self.send(asked, marker, remember).await,
                StatementKind::Take => self.take(asked, marker).await,
                StatementKind::Move => self.moves(asked, marker).await,
                _ => {
                    let statement = "INSERT INTO krarup.outcome VALUES ($1, $2)";
                    self.client.execute(statement, &[&marker.broker, &marker.serial]).await?;
                    self.once(&asked[0].query).await
                }
            }
        };
        let asked_at = Instant::now();
        let (begun, answered) = join(self.client.batch_execute("BEGIN"), statement).await;
        let replies = match (begun, answered) {
            (Ok(()), Ok(replies)) => replies,
            // Without its beginning the statement was a transaction of its own.
            (Err(_), Ok(replies)) => return Err(Trouble::Unknown(Some(replies))),
            (_, Err(error)) => return Err(self.roll_back(self.trouble(&error)).await),
        };
        // What is popped for a client that has gone would be lost.
        let is_lost = |one: &QueuedRequest| {
            !one.is_wanted() && matches!(one.query, DatabaseRequest::Take { pops: true, .. })
        };
        if asked_at.elapsed() >= LATE && asked.iter().any(is_lost) {
            return Err(self.roll_back(Trouble::Unwanted).await);
        }
        match self.client.batch_execute("COMMIT").await {
            Ok(()) => Ok(replies),
            Err(error) if self.is_over(&error) => Err(Trouble::Unknown(Some(replies))),
            Err(error) => Err(self.trouble(&error)),
        }
    }

    /// Undoes the transaction that has begun: what that comes to, because of this.
    async fn roll_back(&self, trouble: Trouble) -> Trouble {
        match self.client.batch_execute("ROLLBACK").await {
            Ok(()) => trouble,
            Err(error) => Trouble::Broken(words(&error)),
        }
    }

    fn is_over(&self, error: &Error) -> bool {
        self.client.is_closed() || is_fatal(error)
    }

    fn trouble(&self, error: &Error) -> Trouble {
        if self.is_over(error) {
            return Trouble::Broken(words(error));
        }
        let code = error.code().map_or("", |code| code.code());
        // Resources and failures of the system; deadlocks, locks and timeouts; a database that is
        // read-only for now; and what no request brings with it.
        let until = match code.get(..2).unwrap_or_default() {
            "53" | "58" => RefusedUntil::Room,
            "57" if code == "57014" => RefusedUntil::TooLong,
            "40" | "55" | "57" => RefusedUntil::TryLater,
            "0A" | "3F" | "42" | "XX" => RefusedUntil::Repaired,
            _ if only_reads(error) => RefusedUntil::Writes,
            _ => RefusedUntil::Never,
        };
        Trouble::Refused { why: words(error), until }
    }

    // ---- the kinds ------------------------------------------------------------------------------

    // Lists of one are as long to take apart as the work itself: what comes alone has a statement
    // of its own.

    async fn put(&self, asked: &[QueuedRequest], marker: CommitMarker) -> Result<Vec<DatabaseReply>, Error> {
        if let [QueuedRequest { query: DatabaseRequest::New(new), .. }] = asked {
            let columns: &Columns<'_> = &[
                &marker.broker,
                &marker.serial,
                &&*new.tube,
                &new.sender.as_deref(),
                &i64::from(new.priority),
                &at_most(new.delay),
                &i64::from(new.delay),
                &at_most(new.ttr),
                &&*new.body,
                &i64::from(new.flags),
                &new.lives.map(i64::from),
            ];
            let rows = self.client.query(&self.put_one, columns).await?;
            self.stored(asked, &rows);
            return Ok(lines(1, rows));
        }
        let new = News::of(asked);
        let columns: &Columns<'_> = &[
            &marker.broker,
            &marker.serial,
            &new.tubes,
            &new.senders,
            &new.priorities,
            &new.delays,
            &new.seconds,
            &new.ttrs,
            &new.bodies,
            &new.flags,
            &new.lives,
        ];
        let rows = self.client.query(&self.put, columns).await?;
        self.stored(asked, &rows);
        Ok(lines(asked.len(), rows))
    }

    fn stored(&self, asked: &[QueuedRequest], rows: &[Row]) {
        let (mut marks, now) = (self.marks.borrow_mut(), Instant::now());
        for row in rows {
            let place: i64 = row.get(0);
            if let DatabaseRequest::New(new) = &asked[place as usize - 1].query {
                marks.was_stored(&new.tube, (new.priority.into(), row.get(2)), now);
            }
        }
    }

    async fn send(
        &self,
        asked: &[QueuedRequest],
        marker: CommitMarker,
        remember: Duration,
    ) -> Result<Vec<DatabaseReply>, Error> {
        let new = News::of(asked);
        let columns: &Columns<'_> = &[
            &marker.broker,
            &marker.serial,
            &new.tubes,
            &new.senders,
            &new.receivers,
            &new.keys,
            &new.strict,
            &new.priorities,
            &new.delays,
            &new.seconds,
            &new.ttrs,
            &new.bodies,
            &remember.as_secs_f64(),
            &new.flags,
            &new.lives,
        ];
        Ok(lines(asked.len(), self.client.query(&self.send, columns).await?))
    }

    async fn take(&self, asked: &[QueuedRequest], marker: CommitMarker) -> Result<Vec<DatabaseReply>, Error> {
        let plain: Option<Vec<(&str, i64)>> =
            asked.iter().map(|one| leases_first_of_one_tube(&one.query)).collect();
        if let Some(plain) = plain {
            return self.take_first(&plain, marker).await;
        }
        let (mut kinds, mut names, mut clients) = (Vec::new(), Vec::new(), Vec::new());
        let (mut wanted, mut takers, mut most, mut pops) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for one in asked {
            let DatabaseRequest::Take { which, client, taker, most: bound, pops: gone } = &one.query else {
                continue;
            };
            let (kind, name, number) = match which {
                // Names have no blanks in them.
                MessageSelector::Tubes(tubes) => (1, tubes.join(" "), 0),
                MessageSelector::Created(tube) => (2, tube.to_string(), 0),
                MessageSelector::Sender(sender) => (3, sender.to_string(), 0),
                MessageSelector::Number(id) => (4, String::new(), number(*id)),
            };
            kinds.push(kind);
            names.push(name);
            clients.push(client.as_deref());
            wanted.push(number);
            takers.push(*taker);
            most.push(*bound as i32);
            pops.push(*gone);
        }
        let columns: &Columns<'_> =
            &[&marker.broker, &marker.serial, &kinds, &names, &clients, &wanted, &takers, &most, &pops];
        Ok(lines(asked.len(), self.client.query(&self.take, columns).await?))
    }

    /// Leases messages. Where that took as long as a lease may last, those that have ended by now
    /// are left out: another client may have the message.
    async fn lease(
        &self,
        asked: &[QueuedRequest],
        marker: CommitMarker,
    ) -> Result<Vec<DatabaseReply>, Error> {
        let begun = Instant::now();
        let leased = self.take(asked, marker).await?;
        if begun.elapsed() < LATE {
            return Ok(leased);
        }
        match self.kept(asked, marker).await {
            // They are leased already: not handed out, they would wait for their leases' ends.
            Err(error) if !self.is_over(&error) => Ok(leased),
            kept => kept,
        }
    }

    /// Leases the first message of each of these tubes, for each of these takers.
    async fn take_first(
        &self,
        asked: &[(&str, i64)],
        marker: CommitMarker,
    ) -> Result<Vec<DatabaseReply>, Error> {
        let begun = Instant::now();
        let parts = self.marks.borrow().parts(asked.iter().map(|(tube, _)| *tube), begun);
        let (tubes, takers): (Vec<&str>, Vec<i64>) = asked.iter().copied().unzip();
        let from = parts.as_ref().filter(|parts| parts.marked);
        let rows = match (from, asked) {
            (None, [(tube, taker)]) => {
                let columns: &Columns<'_> = &[&marker.broker, &marker.serial, tube, taker];
                self.client.query(&self.take_one, columns).await?
            }
            (None, _) => {
                let columns: &Columns<'_> = &[&marker.broker, &marker.serial, &tubes, &takers];
                self.client.query(&self.take_many, columns).await?
            }
            (Some(TubeParts { priorities, ids, .. }), [(tube, taker)]) if ids.len() == 2 => {
                let columns: &Columns<'_> =
                    &[&marker.broker, &marker.serial, tube, taker, &priorities[1], &ids[1]];
                self.client.query(&self.take_one_from, columns).await?
            }
            (Some(parts), _) => {
                let columns: &Columns<'_> = &[
                    &marker.broker,
                    &marker.serial,
                    &tubes,
                    &takers,
                    &parts.tubes,
                    &parts.priorities,
                    &parts.ids,
                    &parts.below,
                ];
                self.client.query(&self.take_from, columns).await?
            }
        };
        let (mut marks, now) = (self.marks.borrow_mut(), Instant::now());
        asked.iter().for_each(|(tube, _)| marks.asked(tube));
        if let Some(parts) = parts {
            let given = || {
                rows.iter().map(|row| {
                    let place: i64 = row.get(0);
                    (tubes[place as usize - 1], (row.get(6), row.get(2)))
                })
            };
            let last = |tube: &str| given().filter(|(its, _)| *its == tube).map(|(_, message)| message).max();
            marks.looked_through(&parts.whole, last, now.duration_since(begun), now);
            given().for_each(|(tube, message)| marks.gave_out(tube, message, now));
        }
        drop(marks);
        Ok(lines(asked.len(), rows))
    }

    async fn finish(
        &self,
        asked: &[QueuedRequest],
        marker: CommitMarker,
    ) -> Result<Vec<DatabaseReply>, Error> {
        if let [QueuedRequest { query: DatabaseRequest::Finish { id, taker }, .. }] = asked {
            let columns: &Columns<'_> = &[&marker.broker, &marker.serial, &number(*id), taker];
            return Ok(lines(1, self.client.query(&self.finish_one, columns).await?));
        }
        let query = |one: &QueuedRequest| match one.query {
            DatabaseRequest::Finish { id, taker } => Some((number(id), taker)),
            _ => None,
        };
        let (ids, takers): (Vec<i64>, Vec<i64>) = asked.iter().filter_map(query).unzip();
        let columns: &Columns<'_> = &[&marker.broker, &marker.serial, &ids, &takers];
        Ok(lines(asked.len(), self.client.query(&self.finish, columns).await?))
    }

    async fn moves(
        &self,
        asked: &[QueuedRequest],
        marker: CommitMarker,
    ) -> Result<Vec<DatabaseReply>, Error> {
        let (mut kinds, mut ids, mut takers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut priorities, mut delays, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
        for one in asked {
            let DatabaseRequest::Move { id, taker, what } = one.query else { continue };
            let (kind, priority, delay) = match what {
                StateChange::Release { priority, delay } => (1, priority, delay),
                StateChange::Bury { priority } => (2, priority, 0),
                StateChange::Touch => (3, 0, 0),
                StateChange::Kick => (4, 0, 0),
                StateChange::GiveBack => (5, 0, 0),
            };
            kinds.push(kind);
            ids.push(number(id));
            takers.push(taker);
            priorities.push(i64::from(priority));
            delays.push(at_most(delay));
            seconds.push(i64::from(delay));
        }
        let columns: &Columns<'_> =
            &[&marker.broker, &marker.serial, &kinds, &ids, &takers, &priorities, &delays, &seconds];
        Ok(lines(asked.len(), self.client.query(&self.r#move, columns).await?))
    }

    async fn look(&self, asked: &[QueuedRequest]) -> Result<Vec<DatabaseReply>, Error> {
        let (mut kinds, mut names, mut clients, mut wanted) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for one in asked {
            let DatabaseRequest::Look { what, client } = &one.query else { continue };
            let (kind, name, id) = match what {
                Lookup::Number(id) => (1, None, number(*id)),
                Lookup::Ready(tube) => (2, Some(&**tube), 0),
                Lookup::Delayed(tube) => (3, Some(&**tube), 0),
                Lookup::Buried(tube) => (4, Some(&**tube), 0),
                Lookup::Created(tube) => (5, Some(&**tube), 0),
                Lookup::Sender(sender) => (6, Some(&**sender), 0),
            };
            kinds.push(kind);
            names.push(name);
            clients.push(client.as_deref());
            wanted.push(id);
        }
        let columns: &Columns<'_> = &[&kinds, &names, &clients, &wanted];
        Ok(lines(asked.len(), self.client.query(&self.look, columns).await?))
    }

    async fn list(&self, asked: &[QueuedRequest]) -> Result<Vec<DatabaseReply>, Error> {
        let client = |one: &QueuedRequest| match &one.query {
            DatabaseRequest::List(client) => client.to_string(),
            _ => String::new(),
        };
        let clients: Vec<String> = asked.iter().map(client).collect();
        let mut replies = vec![DatabaseReply::Names(Vec::new()); asked.len()];
        for row in self.client.query(&self.list, &[&clients]).await? {
            let place: i64 = row.get(0);
            replies[place as usize - 1] = DatabaseReply::Names(names(row.get(1)));
        }
        Ok(replies)
    }

    async fn sweep(
        &self,
        asked: &[QueuedRequest],
        marker: CommitMarker,
        clearing: Clearing,
    ) -> Result<Vec<DatabaseReply>, Error> {
        let DatabaseRequest::Sweep(waited) = &asked[0].query else { return Ok(Vec::new()) };
        let (mut tubes, mut clients): (Vec<&str>, Vec<Option<&str>>) =
            waited.iter().map(|(tube, client)| (&**tube, client.as_deref())).unzip();
        let marked = self.marks.borrow().parts(tubes.iter().copied(), Instant::now());
        // Where there are marks, it is looked from there on by a statement of its own.
        let later = marked.map(|parts| (parts, std::mem::take(&mut tubes), std::mem::take(&mut clients)));
        let columns: &Columns<'_> = &[&marker.broker, &clearing.from, &clearing.to, &tubes, &clients];
        let row = self.client.query_one(&self.sweep, columns).await?;
        let (expired, mut places): (i64, Vec<i32>) = (row.get(0), row.get(1));
        if let Some((parts, tubes, clients)) = later {
            places = self.find_for_waiting(&parts, &tubes, &clients).await?;
        }
        self.count_entries().await?;
        let more = match self.prune(marker.broker).await {
            Err(error) if self.is_over(&error) => return Err(error),
            // The sweep is committed: what cannot be cleared now is cleared after the next one.
            pruned => pruned.unwrap_or_default() || expired >= i64::from(SWEPT_AT_ONCE),
        };
        let places = places.into_iter().map(|place| place as usize - 1).collect();
        Ok(vec![DatabaseReply::Places { places, expired: expired as u64, more }])
    }

    /// Clears what was archived long enough, some steps at a time, each of its own; whether the
    /// sweep before left what is due.
    async fn prune(&self, broker: i64) -> Result<bool, Error> {
        let begun = Instant::now();
        let mut more = false;
        for _ in 0..MOST_STEPS {
            let row = self.client.query_one(&self.prune, &[&broker]).await?;
            more = row.get(1);
            if row.get::<_, i32>(0) < SWEPT_AT_ONCE || begun.elapsed() >= STEPS_TAKE {
                break;
            }
        }
        Ok(more)
    }

    /// What waits in the tubes, in so many of them one by one.
    async fn backlog(&self, most: usize) -> Result<Backlog, Error> {
        let begun = Instant::now();
        let counted = self.client.query(&self.fullest, &[&(most as i64)]).await?;
        let fullest = || counted.iter().filter(|row| row.get::<_, i64>(8) > 0);
        let tubes: Vec<&str> = fullest().map(|row| row.get(7)).collect();
        let parts = self.marks.borrow().parts_from_marks(tubes.iter().copied());
        let columns: &Columns<'_> = &[&parts.tubes, &parts.priorities, &parts.ids, &parts.below, &tubes];
        let oldest = self.client.query(&self.oldest, columns).await?;
        let ages: HashMap<&str, f64> = oldest.iter().map(|row| (row.get(0), row.get(1))).collect();
        let first = counted.first();
        Ok(Backlog {
            tubes: first.map_or(0, |row| row.get::<_, i64>(6) as u64),
            messages: first.map(totals).unwrap_or_default(),
            fullest: fullest()
                .map(|row| (row.get::<_, &str>(7), row.get::<_, i64>(8) as u64))
                .map(|(tube, ready)| TubeBacklog {
                    tube: tube.into(),
                    ready,
                    age: ages.get(tube).copied().map(seconds),
                })
                .collect(),
            took: begun.elapsed().into(),
        })
    }

    /// The places of waiting clients that something is ready for.
    async fn find_for_waiting(
        &self,
        parts: &TubeParts<'_>,
        tubes: &[&str],
        clients: &[Option<&str>],
    ) -> Result<Vec<i32>, Error> {
        let begun = Instant::now();
        let columns: &Columns<'_> =
            &[&tubes, &clients, &parts.tubes, &parts.priorities, &parts.ids, &parts.below];
        let rows = self.client.query(&self.waits, columns).await?;
        let places: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        let (mut marks, now) = (self.marks.borrow_mut(), Instant::now());
        marks.looked_through(&parts.whole, |_| None, now.duration_since(begun), now);
        // What was found there is still to be taken.
        for tube in places.iter().map(|place| tubes[*place as usize - 1]) {
            if parts.whole.contains(&tube) {
                marks.has_more(tube);
            }
        }
        Ok(places)
    }

    /// Counts how many entries lie before the first messages of tubes that were asked for.
    async fn count_entries(&self) -> Result<(), Error> {
        let begun = Instant::now();
        let tubes = self.marks.borrow_mut().take_asked(begun);
        if !tubes.is_empty() {
            let names: Vec<&str> = tubes.iter().map(|tube| &**tube).collect();
            let rows = self.client.query(&self.entries, &[&names]).await?;
            let entries = rows.iter().map(|row| (row.get(0), row.get(1)));
            let mut marks = self.marks.borrow_mut();
            marks.counted(entries, begun.elapsed(), Instant::now());
        }
        Ok(())
    }

    // ---- what is rare ---------------------------------------------------------------------------

    async fn once(&self, query: &DatabaseRequest) -> Result<Vec<DatabaseReply>, Error> {
        let DatabaseRequest::Once(once) = query else { return Ok(Vec::new()) };
        let client = &self.client;
        let yes = |count: u64| DatabaseReply::Yes(count > 0);
        let reply = match once {
            RareRequest::Kick { tube, bound, buried } => self.kick(tube, *bound, *buried).await?,
            RareRequest::StatsJob(id) => {
                let rows = client.query(include_str!("shared/stats_job.sql"), &[&number(*id)]).await?;
                DatabaseReply::Job(rows.first().map(|row| Box::new(job(*id, row))))
            }
            RareRequest::StatsTube(tube) => {
                let row = client.query_one(include_str!("shared/stats_tube.sql"), &[&&**tube]).await?;
                DatabaseReply::Tube(TubeFacts {
                    totals: totals(&row),
                    kept: row.get(6),
                    pause: seconds(row.get(7)),
                    pause_left: seconds(row.get(8)),
                    expires: Nanos::from_secs(row.get::<_, i32>(9) as u64),
                    keeps: Nanos::from_secs(row.get::<_, i32>(10) as u64),
                })
            }
            RareRequest::Stats => {
                let row = client.query_one(include_str!("shared/stats.sql"), &[]).await?;
                DatabaseReply::Totals(totals(&row), row.get::<_, i64>(6) as u64)
            }
            RareRequest::Tubes => {
                let rows = client.query(TUBES, &[]).await?;
                DatabaseReply::Names(rows.iter().map(|row| row.get::<_, &str>(0).into()).collect())
            }
            RareRequest::Backlog { fullest } => DatabaseReply::Backlog(self.backlog(*fullest).await?),
            RareRequest::Pause { tube, length, known } => yes(client
                .execute(include_str!("shared/pause.sql"), &[&&**tube, &i64::from(*length), known])
                .await?),
            RareRequest::Login { client: name, knows_the_secret } => {
                if *knows_the_secret {
                    self.register(name).await?;
                }
                let statement = "SELECT EXISTS (SELECT FROM krarup.client WHERE name = $1)";
                DatabaseReply::Yes(client.query_one(statement, &[&&**name]).await?.get(0))
            }
            RareRequest::Register(name) => DatabaseReply::Yes(self.register(name).await?),
            RareRequest::Unregister(name) => {
                yes(client.execute("DELETE FROM krarup.client WHERE name = $1", &[&&**name]).await?)
            }
            RareRequest::Create(tube) => {
                let statement = "INSERT INTO krarup.tube VALUES ($1, true, 0, NULL) \
                     ON CONFLICT (name) DO UPDATE SET created = true WHERE NOT tube.created";
                yes(client.execute(statement, &[&&**tube]).await?)
            }
            RareRequest::DeleteTube { tube, known, whole, last } => {
                self.delete_tube(tube, *known, *whole, *last).await?
            }
            RareRequest::Keep { tube, expires, keeps } => {
                let number = |seconds: &Option<u32>| seconds.map(at_most);
                let statement = "SELECT krarup.keep_tube($1, $2, $3)";
                client.execute(statement, &[&&**tube, &number(expires), &number(keeps)]).await?;
                DatabaseReply::Yes(true)
            }
            RareRequest::Limit { tube, most, dead } => {
                let statement = "INSERT INTO krarup.tube VALUES ($1, false, $2, $3) \
                     ON CONFLICT (name) DO UPDATE SET most = excluded.most, dead = excluded.dead";
                client.execute(statement, &[&&**tube, &at_most(*most), &dead.as_deref()]).await?;
                let statement = "DELETE FROM krarup.tube WHERE name = $1 AND NOT created AND most = 0 AND expires = 0 AND keeps = 0";
                client.execute(statement, &[&&**tube]).await?;
                DatabaseReply::Yes(true)
            }
        };
        Ok(vec![reply])
    }

    /// Makes a part of those messages of a tube ready that are buried, or else delayed.
    async fn kick(&self, tube: &Arc<str>, bound: u32, buried: Option<bool>) -> Result<DatabaseReply, Error> {
        let (most, mut are_buried) = (bound.min(PART), buried.unwrap_or(true));
        let mut done = self.kick_part(tube, most, are_buried).await?;
        if done == 0 && buried.is_none() {
            are_buried = false;
            done = self.kick_part(tube, most, are_buried).await?;
        }
        if done < u64::from(most) || most == bound {
            return Ok(DatabaseReply::Count(done));
        }
        let (tube, buried) = (Arc::clone(tube), Some(are_buried));
        Ok(DatabaseReply::Part { done, rest: RareRequest::Kick { tube, bound: bound - most, buried } })
    }

    /// The table's triggers count them.
    async fn kick_part(&self, tube: &str, most: u32, buried: bool) -> Result<u64, Error> {
        let first = if buried { "state = 2 ORDER BY buried" } else { "state = 1 ORDER BY due" };
        let statement = format!(
            "UPDATE krarup.message SET state = 0, due = NULL, buried = NULL, kicks = LEAST(kicks, 2147483646) + 1 \
             WHERE (SELECT set_config('krarup.counts', 'no', true)) = 'no' AND id = ANY ( \
                 ARRAY(SELECT id FROM krarup.message WHERE tube = $1 AND {first} LIMIT $2 FOR UPDATE))"
        );
        self.client.execute(&statement, &[&tube, &i64::from(most)]).await
    }

    /// Deletes a part of a tube's messages, and with the last of them the tube, if it is to go.
    async fn delete_tube(
        &self,
        tube: &Arc<str>,
        known: bool,
        whole: bool,
        last: Option<Id>,
    ) -> Result<DatabaseReply, Error> {
        let columns: &Columns<'_> = &[&&**tube, &last.map_or(i64::MAX, number), &i64::from(PART)];
        let mut gone = self.client.execute(EMPTY, columns).await?;
        if gone < u64::from(PART) {
            gone += self.client.execute(EMPTY_REST, columns).await?;
        }
        if gone >= u64::from(PART) {
            // What is put from now on stays: else there might be no end.
            let last = match last {
                Some(last) => last,
                None => self.client.query_one(LAST_ID, &[]).await?.get::<_, i64>(0) as Id,
            };
            let (tube, known, last) = (Arc::clone(tube), true, Some(last));
            let rest = RareRequest::DeleteTube { tube, known, whole, last };
            return Ok(DatabaseReply::Part { done: gone, rest });
        }
        // After its messages: they go as it was told to let them go.
        let verb = if whole { "DELETE" } else { "SELECT" };
        let statement = format!("{verb} FROM krarup.tube WHERE name = $1");
        let rows = self.client.execute(&statement, &[&&**tube]).await?;
        Ok(DatabaseReply::Yes(known || gone + rows > 0))
    }

    /// Whether the client was not registered before. The first one needs the indexes by which its
    /// messages are found.
    async fn register(&self, name: &str) -> Result<bool, Error> {
        let is_new = self.client.execute(REGISTER, &[&name]).await? > 0;
        if is_new {
            self.client.execute("SELECT krarup.follow_clients()", &[]).await?;
        }
        Ok(is_new)
    }
}

/// The last number that was given to a message.
const LAST_ID: &str = "SELECT last_value FROM krarup.message_id";

const REGISTER: &str = "INSERT INTO krarup.client VALUES ($1) ON CONFLICT DO NOTHING";

/// Of which tube, and for which client: the common case, in which no client has a name and nothing
/// is compared.
fn leases_first_of_one_tube(query: &DatabaseRequest) -> Option<(&str, i64)> {
    match query {
        DatabaseRequest::Take {
            which: MessageSelector::Tubes(tubes),
            client: None,
            taker,
            most: 1,
            pops: false,
        } => <&[_; 1]>::try_from(&tubes[..]).ok().map(|[tube]| (&**tube, *taker)),
        _ => None,
    }
}

/// New messages as columns.
#[derive(Default)]
struct News<'a> {
    tubes: Vec<&'a str>,
    senders: Vec<Option<&'a str>>,
    receivers: Vec<Option<&'a str>>,
    keys: Vec<Option<&'a str>>,
    strict: Vec<bool>,
    priorities: Vec<i64>,
    delays: Vec<i32>,
    seconds: Vec<i64>,
    ttrs: Vec<i32>,
    flags: Vec<i64>,
    lives: Vec<Option<i64>>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> News<'a> {
    fn of(asked: &'a [QueuedRequest]) -> Self {
        let mut columns = Self::default();
        for one in asked {
            let DatabaseRequest::New(new) = &one.query else { continue };
            columns.tubes.push(&new.tube);
            columns.senders.push(new.sender.as_deref());
            columns.receivers.push(new.receiver.as_deref());
            columns.keys.push(new.key.as_deref());
            columns.strict.push(new.strict);
            columns.priorities.push(new.priority.into());
            columns.delays.push(at_most(new.delay));
            columns.seconds.push(new.delay.into());
            columns.ttrs.push(at_most(new.ttr));
            columns.flags.push(new.flags.into());
            columns.lives.push(new.lives.map(i64::from));
            columns.bodies.push(&new.body);
        }
        columns
    }
}

/// Whether a session goes on that has its share of the owners' lock, or does not, where no broker
/// owns the queues, or one does.
fn may_share(has_lock: bool, without_owner: bool) -> Result<(), StoreError> {
    if !without_owner {
        return Err(StoreError::Deposed);
    }
    // Who begins to share the queues has the lock for itself until the tables are prepared.
    if !has_lock {
        return Err(StoreError::Database("another broker begins to use the queues".into()));
    }
    Ok(())
}

/// Numbers beyond the column's range belong to no message.
fn number(id: Id) -> i64 {
    i64::try_from(id).unwrap_or(-1)
}

fn names(list: Vec<String>) -> Vec<Arc<str>> {
    list.into_iter().map(Into::into).collect()
}

/// Rows of the columns that all functions answer with, flags behind them where there may be any,
/// and the tube where it may be one of several, by the place of their request.
fn lines(queries: usize, rows: Vec<Row>) -> Vec<DatabaseReply> {
    let mut by_place = vec![Vec::new(); queries];
    // All rows of a statement have the same columns.
    let tells_tube =
        rows.first().and_then(|row| row.columns().get(6)).is_some_and(|column| column.name() == "tube");
    for row in rows {
        let (place, word): (i64, i16) = (row.get(0), row.get(1));
        by_place[place as usize - 1].push(ResultRow {
            word: match word {
                0 => ResultCode::Done,
                1 => ResultCode::None,
                2 => ResultCode::Tube,
                _ => ResultCode::Client,
            },
            id: row.get::<_, i64>(2) as Id,
            ttr: row.get::<_, i32>(3) as u32,
            flags: if row.len() > 5 { row.get::<_, i64>(5) as u32 } else { 0 },
            tube: if tells_tube { row.get::<_, Option<&str>>(6).map(Into::into) } else { None },
            body: row.get::<_, Option<&[u8]>>(4).unwrap_or_default().into(),
        });
    }
    by_place.into_iter().map(DatabaseReply::Lines).collect()
}

fn seconds(time: f64) -> Nanos {
    Nanos::from_seconds(time.max(0.0))
}

fn totals(row: &Row) -> Totals {
    let count = |column: usize| row.get::<_, i64>(column).max(0) as u64;
    Totals {
        urgent: count(0),
        ready: count(1),
        reserved: count(2),
        delayed: count(3),
        buried: count(4),
        jobs: count(5),
        ..Totals::default()
    }
}

fn job(id: Id, row: &Row) -> JobView {
    let count = |column: usize| row.get::<_, i32>(column) as u32;
    let whole = |column: usize| Nanos::from_secs(count(column).into());
    let name = |column: usize| row.get::<_, Option<&str>>(column).map(Into::into);
    JobView {
        id,
        tube: row.get::<_, &str>(0).into(),
        state: match row.get::<_, i16>(1) {
            1 => "delayed",
            2 => "buried",
            3 => "reserved",
            _ => "ready",
        },
        priority: row.get::<_, i64>(2) as u32,
        age: seconds(row.get(3)),
        delay: whole(4),
        ttr: whole(5),
        time_left: seconds(row.get(6)),
        happened: JobCounts {
            reserves: count(7),
            timeouts: count(8),
            releases: count(9),
            buries: count(10),
            kicks: count(11),
        },
        sender: name(12),
        receiver: name(13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_begins_to_share_the_queues_is_no_owner() {
        assert!(may_share(true, true).is_ok());
        assert!(matches!(may_share(false, true), Err(StoreError::Database(_))));
        for has_lock in [false, true] {
            assert!(matches!(may_share(has_lock, false), Err(StoreError::Deposed)));
        }
    }
}
