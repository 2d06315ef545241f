//! Databases that refuse: what is promised is answered, each change of state is told once, and a
//! pooler between is found at the start.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::durable::cluster::Cluster;
use crate::durable::shards::{admin, broker_with_admin};
use crate::durable::{BetweenTwoBatches, MODES, broker, full_disk, of_heads, say};
use crate::support::peer::{Peer, asked};
use crate::support::process::{Ended, Program, skipped};
use crate::support::until;

const PUT: &str = "put 1 0 60 1\r\nx\r\n";
/// More than a broker of these tests has connections to its database.
const MANY: usize = 8;
/// How long a statement of a session may take, and how long it may wait for a lock.
const TIMES: &str = "current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')";

/// How often each change of state was told.
fn told(ended: &Ended) -> [usize; 4] {
    let lines =
        ["is out of reach", "is there again", "refuses what is to be written", "takes messages again"];
    lines.map(|line| ended.errors.matches(line).count())
}

/// More clients than there are connections have a request that waits, and yet each put is answered,
/// for two seconds.
fn refuses_puts_for_a_while(cluster: &Cluster, name: &str, broker: &Program, waits: &str) -> Vec<Peer> {
    let mut waiting: Vec<Peer> = (0..MANY).map(|_| broker.connect()).collect();
    for (number, peer) in waiting.iter_mut().enumerate() {
        peer.send(waits.replace("ID", &(number + 1).to_string()).as_bytes()).unwrap();
    }
    let mut time = cluster.psql(name, "SELECT pg_sleep(2)").stdout(Stdio::null()).spawn().unwrap();
    let (mut peer, last) = (broker.connect(), MANY + 1);
    while time.try_wait().unwrap().is_none() {
        say(&mut peer, PUT, "OUT_OF_MEMORY\r\n");
        // What only reads is answered as ever.
        say(&mut peer, &format!("peek {last}\r\n"), &format!("FOUND {last} 1\r\nx\r\n"));
    }
    waiting
}

pub(crate) fn a_database_that_refuses_for_long_is_told_once(cluster: &Cluster, mode: &str) {
    let name = format!("for_long_{mode}");
    let store = cluster.database(&name);
    let mut broker = broker(&store, mode);
    let full = full_disk(cluster, &name);
    for _ in 0..=MANY {
        let mut peer = broker.connect();
        say(&mut peer, PUT, "INSERTED ");
        peer.line().unwrap();
    }
    full(true);
    let mut waiting = refuses_puts_for_a_while(cluster, &name, &broker, "delete ID\r\n");
    full(false);
    waiting.iter_mut().for_each(|peer| peer.expect(b"DELETED\r\n").unwrap());
    say(&mut broker.connect(), PUT, "INSERTED ");
    broker.says_text("takes messages again");
    let ended = broker.stop();
    assert!(ended.success && told(&ended) == [0, 0, 1, 1], "{mode}: {ended:?}");
}

/// Sessions that are there keep what they began with. No commit of this waits.
fn begin_to_read_only(cluster: &Cluster, name: &str) {
    let only_reads = format!(
        "SET synchronous_commit = local; ALTER DATABASE {name} SET default_transaction_read_only = on"
    );
    cluster.sql("postgres", &only_reads);
}

fn begin_to_write(cluster: &Cluster, name: &str) {
    cluster.sql("postgres", &format!("ALTER DATABASE {name} RESET default_transaction_read_only"));
}

pub(crate) fn a_broker_that_comes_back_to_a_database_that_only_reads_answers_puts(
    cluster: &Cluster,
    mode: &str,
) {
    let name = format!("comes_back_{mode}");
    let store = cluster.database(&name);
    let mut broker = broker(&store, mode);
    let mut first = broker.connect();
    say(
        &mut first,
        &PUT.repeat(MANY),
        &(1..=MANY).map(|id| format!("INSERTED {id}\r\n")).collect::<String>(),
    );
    // One put is at its commit when everything is cut: it is answered by what became of it, though
    // nothing can be written.
    cluster.commits_wait(&name, true);
    first.send(PUT.as_bytes()).unwrap();
    let at_commit = "wait_event = 'SyncRep' AND query LIKE '%krarup.message%'";
    until("it is at its commit", || cluster.has_session(&name, at_commit));
    let then = cluster.sql(&name, "SELECT clock_timestamp()");
    begin_to_read_only(cluster, &name);
    cluster.cut(&name, "true");
    // Also what became of it is answered when a replica has it.
    until("its outcome waits", || cluster.new_session_waits(&name, &then));
    cluster.commits_wait(&name, false);
    first.expect(format!("INSERTED {}\r\n", MANY + 1).as_bytes()).unwrap();
    let mut waiting = refuses_puts_for_a_while(cluster, &name, &broker, "reserve\r\n");
    begin_to_write(cluster, &name);
    broker.says_text("refuses what is to be written");
    // No session is cut: the broker itself has new ones.
    until("puts are accepted", || {
        first.send(PUT.as_bytes()).unwrap();
        first.line().unwrap().starts_with(b"INSERTED ")
    });
    waiting.iter_mut().for_each(|peer| peer.expect(b"RESERVED ").unwrap());
    broker.says_text("takes messages again");
    let ended = broker.stop();
    assert!(ended.success && told(&ended) == [1; 4], "{mode}: {ended:?}");
}

/// The batch that took it in is committed, and the session broke before that was heard of; the next
/// is refused. The outbox has it no longer.
pub(crate) fn a_message_of_the_outbox_is_found_where_its_batch_cannot_be_written_twice(cluster: &Cluster) {
    let name = "taken_in";
    let broker = broker(&cluster.database(name), "owned");
    let mut peer = broker.connect();
    cluster.commits_wait(name, true);
    cluster.sql(name, "SET synchronous_commit = local; SELECT krarup.put('default', 'x')");
    until("it is at its commit", || cluster.has_session(name, "wait_event = 'SyncRep'"));
    begin_to_read_only(cluster, name);
    cluster.cut(name, "true");
    cluster.commits_wait(name, false);
    say(&mut peer, "reserve\r\n", "RESERVED 1 1\r\nx\r\n");
    begin_to_write(cluster, name);
    say(&mut peer, "delete 1\r\n", "DELETED\r\n");
    assert!(broker.stop().success);
}

/// Whether a client asks for what the right is needed for, or none does.
pub(crate) fn a_right_that_is_missing_is_told(cluster: &Cluster, mode: &str) {
    let (name, user) = (format!("rights_{mode}"), format!("few_{mode}"));
    cluster.sql("postgres", &format!("CREATE ROLE {user} LOGIN"));
    cluster.sql("postgres", &format!("CREATE DATABASE {name} OWNER {user}"));
    let store = cluster.at(&name).replace("user=krarup", &format!("user={user}"));
    let (mut broker, admin) = broker_with_admin(&store, mode);
    let mut peer = broker.connect();
    say(&mut peer, PUT, "INSERTED 1\r\n");
    for (table, request, refused, done) in
        [("message_row", "delete 1\r\n", "INTERNAL_ERROR\r\n", "DELETED\r\n"), ("incoming", "", "", "")]
    {
        cluster.sql(&name, &format!("REVOKE DELETE ON krarup.{table} FROM {user}"));
        say(&mut peer, request, refused);
        broker.says_text(&format!("refuses what is to be written: permission denied for table {table}"));
        until("it is not ready", || asked(admin, "GET", "/ready").starts_with("HTTP/1.1 503"));
        cluster.sql(&name, &format!("GRANT DELETE ON krarup.{table} TO {user}"));
        say(&mut peer, request, done);
        broker.says_text("takes messages again");
        until("it is ready", || asked(admin, "GET", "/ready").starts_with("HTTP/1.1 200"));
    }
    let ended = broker.stop();
    assert!(ended.success && told(&ended) == [0, 0, 2, 2], "{mode}: {ended:?}");
}

/// What applications have put comes when it can be read again; clients are served all the same.
pub(crate) fn a_sweep_that_an_owner_is_refused_is_told(cluster: &Cluster) {
    let (name, user) = ("unswept", "few_owned");
    cluster.sql("postgres", &format!("CREATE ROLE {user} LOGIN"));
    cluster.sql("postgres", &format!("CREATE DATABASE {name} OWNER {user}"));
    let store = cluster.at(name).replace("user=krarup", &format!("user={user}"));
    // It makes the tables.
    assert!(broker(&store, "owned").stop().success);
    // Keys are cleared away at the start, and once a minute.
    cluster.sql(name, &format!("REVOKE DELETE ON krarup.key FROM {user}"));
    let (mut broker, admin) = broker_with_admin(&store, "owned");
    let mut peer = broker.connect();
    for (id, right, table) in [(1, "DELETE", "key"), (3, "SELECT", "incoming"), (5, "DELETE", "archive")] {
        cluster.sql(name, &format!("REVOKE {right} ON krarup.{table} FROM {user}"));
        broker.says_text(&format!("refuses a sweep: permission denied for table {table}"));
        until("it is not ready", || asked(admin, "GET", "/ready").starts_with("HTTP/1.1 503"));
        say(&mut peer, PUT, &format!("INSERTED {id}\r\n"));
        say(&mut peer, "reserve\r\n", &format!("RESERVED {id} 1\r\nx\r\n"));
        cluster.sql(name, "SELECT krarup.put('default', 'y')");
        cluster.sql(name, &format!("GRANT {right} ON krarup.{table} TO {user}"));
        // Well before the next minute of keys.
        broker.says_within(Duration::from_secs(30), |line| line.contains("takes sweeps again").then_some(()));
        until("it is ready", || asked(admin, "GET", "/ready").starts_with("HTTP/1.1 200"));
        say(&mut peer, "reserve\r\n", &format!("RESERVED {} 1\r\ny\r\n", id + 1));
    }
    let ended = broker.stop();
    assert!(ended.success && told(&ended) == [0; 4], "{ended:?}");
    let lines = ["refuses a sweep", "takes sweeps again"];
    assert_eq!(lines.map(|line| ended.errors.matches(line).count()), [3, 3], "{ended:?}");
}

/// What it begins with is as long as there are many messages, and is tried until it is not refused.
pub(crate) fn a_broker_begins_whatever_time_statements_may_take(cluster: &Cluster, mode: &str) {
    let name = format!("begins_{mode}");
    let store = cluster.database(&name);
    // It makes the tables.
    assert!(broker(&store, mode).stop().success);
    // Each mode changes this row when it begins.
    let cancels = |when: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION cancels() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN IF {when} THEN RAISE 'too long' USING ERRCODE = 'query_canceled'; END IF; RETURN NEW; END $$"
        )
    };
    cluster.sql(
        &name,
        &format!(
            "INSERT INTO krarup.message (id, tube, state, priority, due, delay, ttr, created, holder, \
                                         reserves, timeouts, releases, buries, kicks, body) \
             VALUES (nextval('krarup.message_id'), 'default', 3, 1, now() + interval '1 hour', 0, -1, now(), 0, \
                     0, 0, 0, 0, 0, 'x'); \
             {}; \
             CREATE TRIGGER cancels BEFORE UPDATE ON krarup.message_row FOR EACH ROW EXECUTE FUNCTION cancels(); \
             CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN NEW.memcached := {TIMES}; RETURN NEW; END $$; \
             CREATE TRIGGER tells BEFORE UPDATE ON krarup.owner FOR EACH ROW EXECUTE FUNCTION tells(); \
             CREATE FUNCTION is_timed() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN ASSERT {TIMES} = '1min 0'; RETURN NEW; END $$; \
             CREATE TRIGGER is_timed BEFORE INSERT ON krarup.broker FOR EACH ROW EXECUTE FUNCTION is_timed(); \
             CREATE TRIGGER is_timed BEFORE INSERT ON krarup.member FOR EACH ROW EXECUTE FUNCTION is_timed()",
            cancels("true")
        ),
    );
    cluster.sql("postgres", &format!("ALTER DATABASE {name} SET statement_timeout = '1min'"));
    let begin = ["broker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", &store];
    let mut broker = Program::begin(&[&begin[..], &["--mode", mode]].concat());
    let admin = admin(&mut broker);
    broker.says_text("refuses to let this broker begin: too long; this broker goes on waiting");
    another_has_its_turn(cluster, &name, &mut broker);
    cluster.sql(&name, &cancels("true").replace("too long", "too late"));
    broker.says_text("refuses to let this broker begin: too late; this broker goes on waiting");
    until("monitoring hears it", || asked(admin, "GET", "/ready").contains("this broker begin: too late"));
    // A lock is waited for as long as a statement may else take.
    cluster.sql(&name, &cancels(&format!("{TIMES} <> '0 1min'")));
    broker.says_text("the database refuses no longer");
    let begun = format!("{broker:?}");
    assert!(begun.matches("the database refuses").count() == 3 && !begun.contains("out of reach"), "{begun}");
    let broker = broker.listening();
    assert_eq!(cluster.sql(&name, "SELECT state = 0 OR ttr > 0 FROM krarup.message"), "t");
    // From then on its statements may take what those of others may.
    if mode == "owned" {
        assert_eq!(cluster.sql(&name, "SELECT memcached FROM krarup.owner WHERE shard = 0"), "1min 0");
        sweeps_take_the_time_they_need(cluster, &name);
    }
    let ended = broker.stop();
    let lines = ["out of reach", "refuses a sweep"];
    assert!(ended.success && !lines.iter().any(|line| ended.errors.contains(line)), "{mode}: {ended:?}");
    if mode == "owned" {
        let shards = ["broker", "--listen", "127.0.0.1:0", "--store", &store, "--shards", "2"];
        assert!(Program::krarup(&shards).stop().success);
        a_start_that_a_lock_ends_says_so(cluster, &name, &begin);
    }
}

/// The server answers, and the broker's user lacks no right.
fn a_start_that_a_lock_ends_says_so(cluster: &Cluster, name: &str, begin: &[&str]) {
    cluster.sql("postgres", &format!("ALTER DATABASE {name} SET lock_timeout = '10ms'"));
    let mut holder = cluster.psql(name, "SELECT pg_advisory_lock(1802658162, 1), pg_sleep(600)");
    let mut holder = holder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sleeps = "datname = current_database() AND wait_event = 'PgSleep'";
    let sleeping = format!("SELECT count(*) FROM pg_stat_activity WHERE {sleeps}");
    until("it is locked", || cluster.sql(name, &sleeping) == "1");
    let ended = Program::begin(begin).ended();
    assert!(ended.code == Some(1) && ended.errors.contains("hint: another session holds"), "{ended:?}");
    assert_eq!(cluster.end_sleeping(name), "1");
    assert!(!holder.wait().unwrap().success());
}

/// A broker that is refused meets one that owns the queues, which ends then.
fn another_has_its_turn(cluster: &Cluster, name: &str, broker: &mut Program) {
    let mut holder = cluster.psql(name, "SELECT pg_advisory_lock(1802658162, 2), pg_sleep(600)");
    let mut holder = holder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    broker.says_text("waiting: the broker at ");
    until("the other ends", || cluster.end_sleeping(name) == "1");
    assert!(!holder.wait().unwrap().success());
}

/// Those of an owner, of which the clearing away is told with the next.
fn sweeps_take_the_time_they_need(cluster: &Cluster, name: &str) {
    cluster.sql(
        name,
        &format!(
            "CREATE OR REPLACE FUNCTION krarup.prune() RETURNS integer LANGUAGE plpgsql AS \
                 $$ BEGIN ASSERT {TIMES} = '0 1min'; RETURN 0; END $$; \
             DROP TRIGGER cancels ON krarup.message_row"
        ),
    );
    for _ in 0..3 {
        cluster.sql(name, "SELECT krarup.put('default', 'x')");
        until("it is taken in", || cluster.sql(name, "SELECT count(*) FROM krarup.incoming") == "0");
    }
}

/// Those of its connections that have a session answer all clients.
pub(crate) fn clients_are_answered_where_most_connections_cannot_be_had_again(cluster: &Cluster) {
    const LOOKS: usize = 20;
    cluster.sql("postgres", "CREATE ROLE limited LOGIN");
    cluster.sql("postgres", "CREATE DATABASE limited OWNER limited");
    let store = cluster.at("limited").replace("user=krarup", "user=limited");
    let flags = ["broker", "--listen", "127.0.0.1:0", "--store", &store, "--mode", "direct", "--pool", "8"];
    let broker = Program::krarup(&flags);
    let mut peers: Vec<Peer> = (0..MANY).map(|_| broker.connect()).collect();
    for id in 1..=MANY + 1 {
        say(&mut peers[0], PUT, &format!("INSERTED {id}\r\n"));
    }
    let sessions = "FROM pg_stat_activity WHERE application_name = 'krarup broker' AND datname = 'limited'";
    until("all are there", || cluster.sql("postgres", &format!("SELECT count(*) {sessions}")) == "10");
    cluster.sql("postgres", "ALTER ROLE limited CONNECTION LIMIT 4");
    cluster.cut("limited", &format!("pid IN (SELECT pid {sessions} ORDER BY backend_start DESC LIMIT 6)"));
    until("six have ended", || cluster.sql("postgres", &format!("SELECT count(*) {sessions}")) == "4");
    for (number, peer) in peers.iter_mut().enumerate() {
        let asks = format!("{PUT}delete {}\r\n{}", number + 2, "peek 1\r\n".repeat(LOOKS));
        peer.send(asks.as_bytes()).unwrap();
    }
    for peer in &mut peers {
        peer.expect(b"INSERTED ").unwrap();
        peer.line().unwrap();
        peer.expect(b"DELETED\r\n").unwrap();
        peer.expect("FOUND 1 1\r\nx\r\n".repeat(LOOKS).as_bytes()).unwrap();
    }
    let ended = broker.stop();
    assert!(ended.success && told(&ended)[0] <= 1, "{ended:?}");
}

/// Connections that nothing uses do not notice their end by themselves.
pub(crate) fn a_database_that_is_gone_is_told_whichever_connection_ended_first(
    cluster: &Cluster,
    mode: &str,
) {
    let name = format!("ended_first_{mode}");
    let mut broker = broker(&cluster.database(&name), mode);
    let mut peer = broker.connect();
    say(&mut peer, PUT, "INSERTED 1\r\n");
    may_connect(cluster, &name, false);
    let sweeps = "query LIKE '%krarup.prune%' OR query LIKE '%krarup.sweep%'";
    until("the connection of sweeps has ended", || cluster.cut(&name, sweeps));
    broker.says_text("the database is out of reach");
    say(&mut peer, PUT, "INSERTED 2\r\n");
    broker.says_text("the database is there again");
    assert!(cluster.cut(&name, "true"));
    broker.says_text("the database is out of reach");
    may_connect(cluster, &name, true);
    broker.says_text("the database is there again");
    say(&mut peer, PUT, "INSERTED 3\r\n");
    assert!(broker.stop().success);
}

/// Whether new sessions in a database are admitted.
fn may_connect(cluster: &Cluster, name: &str, may: bool) {
    cluster.sql("postgres", &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {may}"));
}

/// Whether a client closes its connection or its side of it; what it has put is put.
pub(crate) fn what_clients_that_have_gone_would_take_is_there_afterwards(cluster: &Cluster, mode: &str) {
    let name = format!("gone_{mode}");
    let (mut broker, admin) = broker_with_admin(&cluster.database(&name), mode);
    let mut peer = broker.connect();
    for id in 1..=MANY {
        say(&mut peer, PUT, &format!("INSERTED {id}\r\n"));
    }
    may_connect(cluster, &name, false);
    assert!(cluster.cut(&name, "true"));
    broker.says_text("the database is out of reach");
    until("all sessions have ended", || !cluster.has_session(&name, "true"));
    let takes = ["pop 60\r\n", "reserve\r\n", "reserve-job 1\r\n"];
    for request in [&takes[..], &[PUT]].concat() {
        broker.connect().send(request.as_bytes()).unwrap();
    }
    for request in takes {
        let mut ends = broker.connect();
        ends.send(request.as_bytes()).unwrap();
        ends.finish();
        ends.expect(b"INTERNAL_ERROR\r\n").unwrap();
    }
    // This client, and the one whose put is still to be done.
    until("those that took have gone", || {
        asked(admin, "GET", "/metrics").contains("\nkrarup_broker_clients 2\n")
    });
    may_connect(cluster, &name, true);
    let messages = || cluster.sql(&name, "SELECT count(*), sum(reserves) FROM krarup.message");
    until("all are there, and the one that was put", || messages() == format!("{}|0", MANY + 1));
    say(&mut peer, "pop\r\n", "POPPED 1 1\r\nx\r\n");
    assert!(broker.stop().success);
}

/// As where another program holds the table: the session stands, and the pop is on its way.
pub(crate) fn what_is_popped_of_a_database_that_hung_for_none_is_there(cluster: &Cluster, mode: &str) {
    let name = format!("hung_pop_{mode}");
    let broker = broker(&cluster.database(&name), mode);
    let (mut peer, mut ends) = (broker.connect(), broker.connect());
    say(&mut peer, PUT, "INSERTED 1\r\n");
    let holder = BetweenTwoBatches::hold(cluster, &name, "LOCK TABLE krarup.message IN EXCLUSIVE MODE");
    ends.send(b"pop 60\r\n").unwrap();
    ends.finish();
    let waits = "wait_event_type = 'Lock' AND query LIKE '%krarup.take(%'";
    until("it waits", || cluster.has_session(&name, waits));
    cluster.sql(&name, "SELECT pg_sleep(1.1)");
    BetweenTwoBatches::let_go(cluster, &name, holder);
    ends.expect(b"INTERNAL_ERROR\r\n").unwrap_or_else(|why| panic!("{mode}: {why}"));
    say(&mut peer, "pop 60\r\n", "POPPED 1 1\r\nx\r\n");
    assert!(broker.stop().success);
}

/// It is answered when the database has room again.
pub(crate) fn what_only_reads_is_tried_again_seldom_and_is_no_message_refused(cluster: &Cluster, mode: &str) {
    let name = format!("reads_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let (mut readers, mut peer) = ([(); 25].map(|()| broker.connect()), broker.connect());
    say(&mut peer, PUT, "INSERTED 1\r\n");
    cluster.sql(
        &name,
        "CREATE SEQUENCE tries; \
         CREATE FUNCTION no_room() RETURNS boolean LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM nextval('tries'); RAISE insufficient_resources; END $$; \
         ALTER VIEW krarup.counted RENAME TO counted_before; \
         CREATE VIEW krarup.counted AS SELECT * FROM krarup.counted_before WHERE no_room()",
    );
    let begun = Instant::now();
    for reader in &mut readers {
        reader.send(b"stats-tube default\r\n").unwrap();
    }
    let tries = || cluster.sql(&name, "SELECT last_value FROM tries").parse::<u64>().unwrap();
    until("it is tried again", || tries() > 1);
    cluster.sql(&name, "SELECT pg_sleep(2)");
    let (tried, seconds) = (tries(), begun.elapsed().as_secs_f64());
    assert!((tried as f64) < 200.0 * seconds, "{mode}: {tried} times in {seconds} s");
    // More requests wait for room than there are connections, and others go on.
    say(&mut peer, PUT, "INSERTED 2\r\n");
    cluster.sql(&name, "DROP VIEW krarup.counted; ALTER VIEW krarup.counted_before RENAME TO counted");
    for reader in &mut readers {
        reader.expect(b"OK ").unwrap();
    }
    let ended = broker.stop();
    assert!(ended.success && told(&ended) == [0; 4], "{mode}: {ended:?}");
}

/// An owner that finds no messages in the database still writes those that come.
pub(crate) fn what_cannot_be_read_is_no_message_refused(cluster: &Cluster) {
    let store = cluster.database("unread");
    cluster.sql("postgres", "ALTER DATABASE unread SET statement_timeout = '1min'");
    let flags = ["--admin", "127.0.0.1:0", "--store", &store, "--heads", "0B", "--read-ahead", "1"];
    let mut broker = Program::begin(&[&["broker", "--listen", "127.0.0.1:0"][..], &flags].concat());
    let admin = admin(&mut broker);
    let mut broker = broker.listening();
    let is_ready = |status: &str| asked(admin, "GET", "/ready").starts_with(&format!("HTTP/1.1 {status}"));
    let (mut peer, mut reader) = (broker.connect(), broker.connect());
    say(&mut peer, &PUT.repeat(3), "INSERTED 1\r\nINSERTED 2\r\nINSERTED 3\r\n");
    // It writes into the table behind this one.
    cluster.sql("unread", "ALTER TABLE krarup.message RENAME TO hidden");
    say(&mut reader, "reserve\r\n", "RESERVED 1 1\r\nx\r\n");
    reader.send(b"reserve\r\n").unwrap();
    broker.says_text("refuses to read messages");
    until("it is not ready", || is_ready("503"));
    say(&mut peer, PUT, "INSERTED 4\r\n");
    // The reader made the indexes, and what it reads may take what the server says.
    let view = "CREATE VIEW krarup.message AS SELECT * FROM krarup.hidden WHERE";
    cluster.sql("unread", &format!("{view} {TIMES} = '1min 0'"));
    reader.expect(b"RESERVED 2 1\r\nx\r\n").unwrap();
    until("it is ready", || is_ready("200"));
    cluster.sql("unread", "DROP VIEW krarup.message; ALTER TABLE krarup.hidden RENAME TO message");
    let ended = broker.stop();
    assert!(ended.success && told(&ended) == [0; 4], "{ended:?}");
    assert_eq!(ended.errors.matches("refuses to read messages").count(), 1, "{ended:?}");
}

/// What is due is told all the same.
pub(crate) fn clients_are_served_where_the_archive_cannot_be_cleared(cluster: &Cluster, mode: &str) {
    let name = format!("uncleared_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    // The sweep's own step is done, and no further one.
    cluster.sql(
        &name,
        "CREATE OR REPLACE FUNCTION krarup.prune() RETURNS integer LANGUAGE plpgsql AS \
             $$ BEGIN IF current_query() LIKE 'SELECT krarup.prune%' THEN RAISE insufficient_resources; END IF; \
                      RETURN 0; END $$",
    );
    let mut peer = broker.connect();
    peer.send(b"reserve\r\n").unwrap();
    cluster.sql(&name, "SELECT krarup.put('default', 'x')");
    peer.expect(b"RESERVED 1 1\r\nx\r\n").unwrap();
    assert!(broker.stop().success);
}

/// As where another program holds the table: what is asked is acknowledged, and no session ends.
pub(crate) fn a_database_that_hangs_takes_nothing_until_it_answers(cluster: &Cluster) {
    let mut hung = MODES.map(|mode| {
        let name = format!("hangs_{mode}");
        let (broker, admin) = broker_with_admin(&cluster.database(&name), mode);
        let mut peer = broker.connect();
        say(&mut peer, PUT, "INSERTED 1\r\n");
        let held = "BEGIN; LOCK TABLE krarup.message; SELECT pg_sleep(600)";
        let mut holder = cluster.psql(&name, held);
        let holder = holder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let holds = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
                     AND relation = 'krarup.message'::regclass";
        until("the table is held", || cluster.sql(&name, holds) == "1");
        peer.send(PUT.as_bytes()).unwrap();
        (name, broker, admin, peer, holder)
    });
    for (name, broker, admin, ..) in &mut hung {
        // Also where no monitoring asks.
        broker.says_text("the database has not answered for 10.0 s");
        until("it is not ready", || asked(*admin, "GET", "/ready").starts_with("HTTP/1.1 503"));
        let metrics = asked(*admin, "GET", "/metrics");
        assert!(metrics.contains("\nkrarup_broker_store_takes 0\n"), "{name}: {metrics}");
        assert!(asked(*admin, "GET", "/health").starts_with("HTTP/1.1 200"), "{name}");
    }
    for (name, mut broker, admin, mut peer, mut holder) in hung {
        assert_eq!(cluster.end_sleeping(&name), "1");
        assert!(!holder.wait().unwrap().success());
        peer.expect(b"INSERTED 2\r\n").unwrap();
        broker.says_text("the database answers again");
        until("it is ready", || asked(admin, "GET", "/ready").starts_with("HTTP/1.1 200"));
        let ended = broker.stop();
        assert!(ended.success && told(&ended) == [0; 4], "{name}: {ended:?}");
        let lines = ["has not answered for 10.0 s", "answers again"];
        assert_eq!(lines.map(|line| ended.errors.matches(line).count()), [1, 1], "{name}: {ended:?}");
    }
}

pub(crate) fn a_pooler_is_refused_unless_sessions_last(cluster: &Cluster) {
    let Some((_pooler, through)) = cluster.pooler("transaction") else {
        return skipped("pgbouncer is not installed: apt-get install pgbouncer");
    };
    let (_lasting, through_lasting) = cluster.pooler("session").expect("it is installed");
    for mode in MODES.into_iter().chain(["shards"]) {
        let name = format!("pooled_{mode}");
        cluster.database(&name);
        let flags: &[&str] =
            if mode == "shards" { &["--shards", "2"] } else { &["--mode", mode, "--pool", "5"] };
        let start = |store: &str| {
            Program::begin(&[&["broker", "--listen", "127.0.0.1:0", "--store", store], flags].concat())
        };
        let ended = start(&through(&name)).ended();
        assert!(ended.code == Some(1) && ended.errors.contains("pool_mode = session"), "{ended:?}");
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
        assert_eq!(cluster.sql(&name, locks), "0", "{mode}: nothing is left behind");
        let broker = start(&through_lasting(&name)).listening();
        say(&mut broker.connect(), PUT, "INSERTED ");
        assert!(broker.stop().success);
    }
}

/// What it finds may be of a look before, which was cut off at its own commit.
pub(crate) fn a_look_for_what_became_of_a_put_is_no_put(cluster: &Cluster, mode: &str) {
    let name = format!("looked_{mode}");
    let broker = broker(&cluster.database(&name), mode);
    // The first put is cut off before it is committed.
    cluster.sql(
        &name,
        "CREATE SEQUENCE public.puts; CREATE FUNCTION cuts() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN IF nextval('public.puts') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); END IF; \
         RETURN NEW; END $$; \
         CREATE TRIGGER cuts BEFORE INSERT ON krarup.message_row FOR EACH ROW EXECUTE FUNCTION cuts()",
    );
    cluster.commits_wait(&name, true);
    let mut peer = broker.connect();
    peer.send(PUT.as_bytes()).unwrap();
    until("it looks", || cluster.cut(&name, "wait_event = 'SyncRep' AND query LIKE 'WITH mine AS%'"));
    cluster.commits_wait(&name, false);
    peer.expect(b"INSERTED ").unwrap();
    assert!(broker.stop().success);
}

/// PostgreSQL ends sessions that rest where it is set so: those of a broker stand.
pub(crate) fn a_session_that_rests_is_kept(cluster: &Cluster, mode: &str) {
    if cluster.sql("postgres", "SELECT current_setting('idle_session_timeout', true) IS NULL") == "t" {
        return;
    }
    let name = format!("rests_{mode}");
    let store = cluster.database(&name);
    cluster.sql("postgres", &format!("ALTER DATABASE {name} SET idle_session_timeout = '500ms'"));
    let broker = broker(&store, mode);
    let mut peer = broker.connect();
    say(&mut peer, PUT, "INSERTED 1\r\n");
    cluster.sql(&name, "SELECT pg_sleep(2)");
    say(&mut peer, PUT, "INSERTED 2\r\n");
    let ended = broker.stop();
    assert!(ended.success && told(&ended) == [0; 4], "{mode}: {ended:?}");
}

/// An owner beyond its heads waits for the table 1.5 s at a time, and takes puts in between.
pub(crate) fn puts_go_on_where_the_indexes_of_lines_wait_for_a_lock(cluster: &Cluster) {
    let name = "indexes_wait";
    let mut broker = of_heads(&cluster.database(name), "1");
    let lock = "LOCK TABLE krarup.message_row IN ROW EXCLUSIVE MODE";
    let holder = BetweenTwoBatches::hold(cluster, name, lock);
    let mut peer = broker.connect();
    say(&mut peer, PUT, "INSERTED 1\r\n");
    say(&mut peer, PUT, "INSERTED 2\r\n");
    broker.says_text("refuses to read messages");
    say(&mut peer, PUT, "INSERTED 3\r\n");
    assert_eq!(cluster.end_sleeping(name), "1");
    assert!(!holder.join().unwrap().status.success());
    say(&mut peer, PUT, "INSERTED 4\r\n");
    assert!(broker.stop().success);
}
