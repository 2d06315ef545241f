//! Another session keeps its snapshot, so that rows that are gone stay: what is asked of the
//! database is answered as before, and does not read over them again and again.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::durable::cluster::Cluster;
use crate::durable::storm::Storm;
use crate::durable::{broker, model, say};
use crate::support::peer::Peer;
use crate::support::process::Program;
use crate::support::until;

/// So many messages came and went; each leaves two rows.
const GONE: u64 = 8_000;

/// A session with a snapshot, until it is dropped.
struct Snapshot(Child);

impl Snapshot {
    fn hold(cluster: &Cluster, database: &str) -> Self {
        let statements = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM krarup.message; SELECT pg_sleep(3600)";
        let mut command = cluster.psql(database, statements);
        let held = Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let there = "SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND wait_event = 'PgSleep' AND datname = current_database()";
        until("it has its snapshot", || cluster.sql(database, there) == "1");
        held
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Messages that are gone lie at the beginning of these tubes.
fn dead_rows(cluster: &Cluster, database: &str, tubes: &[&str]) {
    for tube in tubes {
        let come = format!(
            "INSERT INTO krarup.message (id, tube, state, priority, delay, ttr, created, reserves, timeouts, releases, buries, kicks, body) \
             SELECT nextval('krarup.message_id'), '{tube}', 0, 1, 0, 60, now(), 0, 0, 0, 0, 0, 'x' FROM generate_series(1, {GONE})"
        );
        cluster.sql(database, &come);
        let go = format!(
            "UPDATE krarup.message SET state = 3 WHERE tube = '{tube}'; DELETE FROM krarup.message WHERE tube = '{tube}'"
        );
        cluster.sql(database, &go);
    }
}

/// Answers are those of the model, whatever is gone.
pub(crate) fn is_answered_as_before(cluster: &Cluster, mode: &str) {
    let name = format!("snapshot_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let _held = Snapshot::hold(cluster, &name);
    dead_rows(cluster, &name, &["t0", "t1"]);
    // So that the broker has marks of it.
    let mut peer = broker.connect();
    say(&mut peer, "use t1\r\nwatch t1\r\nignore default\r\n", "USING t1\r\nWATCHING 2\r\nWATCHING 1\r\n");
    settle(cluster, &name, &mut peer);
    model::compare(broker.address(), 48);
    assert!(broker.stop().success);
}

/// What comes back with its old number, from another broker too, is found at once, before what
/// came later.
pub(crate) fn what_comes_back_is_found(cluster: &Cluster, mode: &str) {
    let name = format!("come_back_{mode}");
    let store = cluster.database(&name);
    let (first, second) = (broker(&store, mode), broker(&store, mode));
    let _held = Snapshot::hold(cluster, &name);
    dead_rows(cluster, &name, &["jobs"]);
    let [mut here, mut there] = [&first, &second].map(worker);
    settle(cluster, &name, &mut here);
    let old: Vec<u64> = (0..5).map(|_| put(&mut here, 1)).collect();
    for id in &old {
        say(&mut there, "reserve\r\n", &format!("RESERVED {id} 1\r\nx\r\n"));
    }
    // Others come and go until marks have risen above them.
    let begun = Instant::now();
    until("marks have risen", || {
        come_and_go(&mut here);
        begun.elapsed() > Duration::from_secs(2)
    });
    let late = put(&mut here, 1);
    // Each of these is before it again.
    let [released, buried, urgent, ..] = old[..] else { unreachable!("five were put") };
    say(&mut there, &format!("release {released} 1 0\r\n"), "RELEASED\r\n");
    say(&mut here, "reserve\r\n", &format!("RESERVED {released} 1\r\nx\r\n"));
    say(
        &mut there,
        &format!("bury {buried} 1\r\nuse jobs\r\nkick 1\r\n"),
        "BURIED\r\nUSING jobs\r\nKICKED 1\r\n",
    );
    say(&mut here, "reserve\r\n", &format!("RESERVED {buried} 1\r\nx\r\n"));
    say(&mut there, &format!("release {urgent} 0 0\r\n"), "RELEASED\r\n");
    say(&mut here, "reserve\r\n", &format!("RESERVED {urgent} 1\r\nx\r\n"));
    // So is another priority; and what its broker held, that is killed.
    let first_of_all = put(&mut there, 0);
    say(&mut here, "reserve\r\n", &format!("RESERVED {first_of_all} 1\r\nx\r\n"));
    second.kill();
    let back = "SELECT count(*) FROM krarup.message WHERE state = 0";
    until("they are ready again", || cluster.sql(&name, back) == "3");
    for id in [old[3], old[4], late] {
        say(&mut here, "reserve\r\n", &format!("RESERVED {id} 1\r\nx\r\n"));
    }
    // One who waits is told of what comes.
    here.send(b"reserve\r\n").unwrap();
    let third = broker(&store, mode);
    let id = put(&mut worker(&third), 1);
    here.expect(format!("RESERVED {id} 1\r\nx\r\n").as_bytes()).unwrap();
    // One that is where it cannot be, below a mark and never given out, is found when the tube is
    // looked through.
    here.send(b"reserve\r\n").unwrap();
    let stray = "INSERT INTO krarup.message (id, tube, state, priority, delay, ttr, created, reserves, timeouts, releases, buries, kicks, body) \
                 VALUES (5, 'jobs', 0, 1, 0, 60, now(), 0, 0, 0, 0, 0, 'x')";
    cluster.sql(&name, stray);
    here.expect(b"RESERVED 5 1\r\nx\r\n").unwrap();
    assert!(first.stop().success && third.stop().success);
}

/// Nothing is lost and nothing comes twice, where several brokers keep marks of their own.
pub(crate) fn nothing_is_lost(cluster: &Cluster, mode: &str) {
    let name = format!("lost_{mode}");
    let store = cluster.database(&name);
    let (first, second) = (broker(&store, mode), broker(&store, mode));
    let _held = Snapshot::hold(cluster, &name);
    dead_rows(cluster, &name, &["default"]);
    let (one, other) = (Storm::begin(first.address(), 4), Storm::begin(second.address(), 4));
    one.wait_for(400);
    other.wait_for(400);
    let mut history = one.end();
    history.add(other.end());
    history.check(first.address(), 0);
    assert!(first.stop().success && second.stop().success);
}

/// As while a backup is made: what an owner drops waits for the next one.
pub(crate) fn an_owner_begins_all_the_same(cluster: &Cluster) {
    let name = "snapshot_owned";
    let store = cluster.database(name);
    assert!(broker(&store, "direct").stop().success);
    let has_indexes = || cluster.sql(name, "SELECT to_regclass('krarup.ready_for_all') IS NOT NULL");
    {
        let _held = Snapshot::hold(cluster, name);
        let owner = broker(&store, "owned");
        put(&mut owner.connect(), 1);
        assert!(owner.stop().success);
        assert_eq!(has_indexes(), "t");
        // The session outlives its client.
        until("the snapshot is gone", || cluster.end_sleeping(name) == "0");
    }
    assert!(broker(&store, "owned").stop().success);
    assert_eq!(has_indexes(), "f");
}

/// What says three times a second that the owner is there leaves a row each time.
pub(crate) fn no_batch_reads_what_its_owner_renews(cluster: &Cluster) {
    let name = "renewed_rows";
    let broker = broker(&cluster.database(name), "owned");
    let epoch = cluster.sql(name, "SELECT epoch FROM krarup.owner");
    let asked = format!(
        "WITH asked AS MATERIALIZED (SELECT krarup.still_owner({epoch}, 0, 3) AS holds) \
         SELECT pg_stat_get_xact_blocks_fetched('krarup.owner'::regclass) FROM asked WHERE holds"
    );
    assert_eq!(cluster.sql(name, &asked), "0");
    assert!(broker.stop().success);
}

/// A lease reads the entries of messages that are there, and few of those that are gone.
pub(crate) fn no_lease_reads_over_all_that_is_gone(cluster: &Cluster, mode: &str) {
    let name = format!("unread_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let _held = Snapshot::hold(cluster, &name);
    dead_rows(cluster, &name, &["jobs"]);
    settle(cluster, &name, &mut worker(&broker));
    assert!(broker.stop().success);
}

/// However many clients wait: PostgreSQL keeps in a hash table which tubes have some.
pub(crate) fn each_part_of_a_tube_is_looked_into_once(cluster: &Cluster, mode: &str) {
    let name = format!("parts_{mode}");
    let broker = broker(&cluster.database(&name), mode);
    let look = format!(
        "{} PREPARE look AS {}; EXPLAIN EXECUTE look ('{{a}}', '{{NULL}}', '{{a}}', '{{-1}}', '{{0}}', '{{9}}')",
        include_str!("../../../../store/src/postgres/session.sql"),
        include_str!("../../../../store/src/postgres/shared/waits.sql")
    );
    let plan = cluster.sql(&name, &look);
    assert!(plan.contains("hashed SubPlan"), "{plan}");
    assert!(broker.stop().success);
}

fn worker(broker: &Program) -> Peer {
    let mut peer = broker.connect();
    let said = "use jobs\r\nwatch jobs\r\nignore default\r\n";
    say(&mut peer, said, "USING jobs\r\nWATCHING 2\r\nWATCHING 1\r\n");
    peer
}

fn put(peer: &mut Peer, priority: u32) -> u64 {
    peer.send(format!("put {priority} 0 60 1\r\nx\r\n").as_bytes()).unwrap();
    let line = String::from_utf8(peer.line().unwrap()).unwrap();
    line.trim_end().strip_prefix("INSERTED ").unwrap().parse().unwrap()
}

/// Messages come and go until fifty leases read fewer entries than ten that read over all: now and
/// then one does, and the entries are counted.
fn settle(cluster: &Cluster, database: &str, peer: &mut Peer) {
    let read = || -> u64 {
        cluster.end_sessions(database);
        let entries = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'ready_for_all'";
        cluster.sql(database, entries).parse().unwrap()
    };
    until("leases begin where messages are", || {
        let before = read();
        come_and_go(peer);
        read() - before < 10 * GONE
    });
}

/// Fifty messages, one after the other.
fn come_and_go(peer: &mut Peer) {
    for _ in 0..50 {
        let id = put(peer, 1);
        let expected = format!("RESERVED {id} 1\r\nx\r\nDELETED\r\n");
        say(peer, &format!("reserve\r\ndelete {id}\r\n"), &expected);
    }
}
