//! How many messages there are, where the database decides: counted as they change, and never all
//! of them; and databases that are older than that.

use crate::broker::data;
use crate::durable::cluster::Cluster;
use crate::durable::storm::Storm;
use crate::durable::{MODES, broker, say, with_both_doors};
use crate::support::peer::Peer;
use crate::support::process::Program;
use crate::support::until;

/// Tubes whose counts are not those of their messages.
const WRONG: &str = "SELECT count(*) FROM ( \
        SELECT tube, count(*) FILTER (WHERE state = 0 AND priority < 1024) AS urgent, count(*) FILTER (WHERE state = 0) AS ready, \
               count(*) FILTER (WHERE state = 3) AS reserved, count(*) FILTER (WHERE state = 1) AS delayed, count(*) FILTER (WHERE state = 2) AS buried \
        FROM krarup.message GROUP BY tube \
    ) AS there FULL JOIN ( \
        SELECT tube, sum(urgent) AS urgent, sum(ready) AS ready, sum(reserved) AS reserved, sum(delayed) AS delayed, sum(buried) AS buried \
        FROM krarup.counted GROUP BY tube \
    ) AS counted USING (tube) \
    WHERE coalesce(there.urgent, 0) <> coalesce(counted.urgent, 0) OR coalesce(there.ready, 0) <> coalesce(counted.ready, 0) \
       OR coalesce(there.reserved, 0) <> coalesce(counted.reserved, 0) OR coalesce(there.delayed, 0) <> coalesce(counted.delayed, 0) \
       OR coalesce(there.buried, 0) <> coalesce(counted.buried, 0)";

/// What an answer to `stats…` says under these names.
pub(super) fn told<const N: usize>(peer: &mut Peer, said: &str, names: [&str; N]) -> [u64; N] {
    peer.send(said.as_bytes()).unwrap();
    let line = String::from_utf8(peer.line().unwrap()).unwrap();
    let length: usize =
        line.trim_end().strip_prefix("OK ").and_then(|length| length.parse().ok()).expect("data comes");
    let mut text = String::new();
    while text.len() < length + 2 {
        text += &String::from_utf8(peer.line().unwrap()).unwrap();
    }
    names.map(|name| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok());
        found.unwrap_or_else(|| panic!("no {name} in {text}"))
    })
}

const NAMES: [&str; 6] = [
    "current-jobs-urgent",
    "current-jobs-ready",
    "current-jobs-reserved",
    "current-jobs-delayed",
    "current-jobs-buried",
    "total-jobs",
];

pub(crate) fn messages_are_counted_as_they_change(cluster: &Cluster, mode: &str) {
    let name = format!("counts_{mode}");
    let store = cluster.database(&name);
    let (first, second) = (broker(&store, mode), broker(&store, mode));
    let storms = [&first, &second].map(|broker| Storm::begin(broker.address(), 4));
    for round in 1..=4 {
        storms.iter().for_each(|storm| storm.wait_for(round * 40));
        cluster.cut(&name, "true");
        assert_eq!(cluster.sql(&name, WRONG), "0", "{mode}: at any time");
    }
    let mut history = None;
    for storm in storms {
        let its = storm.end();
        match &mut history {
            None => history = Some(its),
            Some(history) => history.add(its),
        }
    }
    history.expect("there were two").check(first.address(), 0);
    assert_eq!(cluster.sql(&name, WRONG), "0");
    let mut peer = second.connect();
    say(
        &mut peer,
        "use a\r\nwatch a\r\nignore default\r\nlimit-tube a 1 dead\r\n",
        "USING a\r\nWATCHING 2\r\nWATCHING 1\r\nLIMITED\r\n",
    );
    let put = |peer: &mut Peer, priority: u32, delay: u32| -> u64 {
        peer.send(format!("put {priority} {delay} 60 1\r\nx\r\n").as_bytes()).unwrap();
        let line = String::from_utf8(peer.line().unwrap()).unwrap();
        line.trim_end().strip_prefix("INSERTED ").unwrap().parse().unwrap()
    };
    let ids = [(1, 0), (1, 0), (2_000, 0), (5, 600), (3_000, 0)]
        .map(|(priority, delay)| put(&mut peer, priority, delay));
    for id in &ids[..2] {
        say(&mut peer, "reserve\r\n", &format!("RESERVED {id} 1\r\nx\r\n"));
    }
    say(&mut peer, &format!("bury {} 1\r\n", ids[0]), "BURIED\r\n");
    assert_eq!(told(&mut peer, "stats-tube a\r\n", NAMES), [0, 2, 1, 1, 1, 5], "{mode}");
    // Given back too often, it is another tube's.
    say(&mut peer, &format!("release {} 1 0\r\n", ids[1]), "BURIED\r\n");
    say(&mut peer, &format!("kick-job {}\r\ndelete {}\r\n", ids[0], ids[2]), "KICKED\r\nDELETED\r\n");
    cluster.sql(&name, "SELECT krarup.put('a', 'laid')");
    until("what was laid down is in", || told(&mut peer, "stats-tube a\r\n", NAMES)[5] == 6);
    assert_eq!(told(&mut peer, "stats-tube a\r\n", NAMES), [1, 3, 0, 1, 0, 6], "{mode}");
    assert_eq!(told(&mut peer, "stats-tube dead\r\n", ["current-jobs-ready"]), [1]);
    assert_eq!(told(&mut peer, "stats\r\n", ["current-jobs-ready", "current-jobs-delayed"]), [4, 1]);
    let put = cluster.sql(&name, "SELECT sum(put) FROM krarup.counted");
    for broker in [&first, &second] {
        let [total] = told(&mut broker.connect(), "stats\r\n", ["total-jobs"]);
        assert_eq!(total.to_string(), put, "{mode}: through whichever they were put");
    }
    memcacheds_protocol_tells_the_same(&store, mode);
    assert_eq!(cluster.sql(&name, WRONG), "0");
    // When all are gone, those that were put were put.
    for _ in 0..3 {
        peer.send(b"pop\r\n").unwrap();
        assert!(peer.line().unwrap().starts_with(b"POPPED"));
        peer.line().unwrap();
    }
    say(&mut peer, &format!("delete {}\r\n", ids[3]), "DELETED\r\n");
    assert_eq!(told(&mut peer, "stats-tube a\r\n", NAMES), [0, 0, 0, 0, 0, 6], "{mode}");
    // Rows that rest are added up, and say the same.
    let before = cluster.sql(&name, "SELECT sum(put) FROM krarup.counted");
    cluster.sql(&name, "UPDATE krarup.count SET changed = now() - interval '1 hour'");
    until("they are added up", || {
        cluster.sql(&name, "SELECT count(*) FROM krarup.count WHERE tube = 'a' AND session <> 0") == "0"
    });
    assert_eq!(cluster.sql(&name, "SELECT sum(put) FROM krarup.counted"), before);
    assert_eq!(
        (cluster.sql(&name, WRONG), told(&mut peer, "stats-tube a\r\n", NAMES)),
        ("0".into(), [0, 0, 0, 0, 0, 6])
    );
    assert!(first.stop().success && second.stop().success);
}

fn memcacheds_protocol_tells_the_same(store: &str, mode: &str) {
    let (broker, door) = with_both_doors(&["--store", store, "--mode", mode, "--pool", "5"]);
    let mut peer = Peer::connect(door);
    until("the database has told", || {
        let told = peer.stats("");
        let is = |name: &str, count: &str| told.get(name).is_some_and(|told| told == count);
        is("curr_items", "4") && is("queue_a_items", "3") && is("queue_dead_items", "1")
    });
    assert!(broker.stop().success);
}

/// As many as are read where each is counted.
const MANY: u64 = 100_000;

/// So many messages of the last hour are ready in a tube.
fn insert(cluster: &Cluster, name: &str, tube: &str, count: u64) {
    let statement = format!(
        "INSERT INTO krarup.message (id, tube, state, priority, delay, ttr, created, reserves, timeouts, releases, buries, kicks, body) \
         SELECT nextval('krarup.message_id'), '{tube}', 0, 1, 0, 60, now() - interval '1 hour', 0, 0, 0, 0, 0, 'x' \
         FROM generate_series(1, {count})"
    );
    cluster.sql(name, &statement);
}

/// A broker over a new database in which many messages are ready in the tube `many`.
fn over_many(cluster: &Cluster, name: &str, mode: &str) -> Program {
    let store = cluster.database(name);
    assert!(broker(&store, "owned").stop().success);
    insert(cluster, name, "many", MANY);
    broker(&store, mode)
}

/// How many rows of a table have been read.
fn rows_read_of(cluster: &Cluster, name: &str, table: &str) -> u64 {
    cluster.end_sessions(name);
    let count = format!(
        "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = '{table}'"
    );
    cluster.sql(name, &count).parse().unwrap()
}

/// How many rows of messages have been read.
fn rows_read(cluster: &Cluster, name: &str) -> u64 {
    rows_read_of(cluster, name, "message_row")
}

pub(crate) fn no_request_counts_all_messages(cluster: &Cluster, mode: &str) {
    let name = format!("uncounted_{mode}");
    let broker = over_many(cluster, &name, mode);
    let before = rows_read(cluster, &name);
    let mut peer = broker.connect();
    for _ in 0..10 {
        assert_eq!(told(&mut peer, "stats-tube many\r\n", ["current-jobs-ready", "total-jobs"]), [MANY; 2]);
        assert_eq!(told(&mut peer, "stats\r\n", ["current-jobs-ready"]), [MANY]);
    }
    let rows = rows_read(cluster, &name) - before;
    assert!(rows < MANY, "{mode}: {rows} rows were read for twenty answers");
    assert!(broker.stop().success);
}

/// Where no client is registered there is no index of messages for one receiver.
pub(crate) fn no_request_reads_the_messages_of_other_tubes(cluster: &Cluster, mode: &str) {
    let name = format!("others_{mode}");
    let broker = over_many(cluster, &name, mode);
    let before = rows_read(cluster, &name);
    let (mut peer, mut other) = (broker.connect(), broker.connect());
    say(
        &mut peer,
        "watch one\r\nwatch two\r\nignore default\r\n",
        "WATCHING 2\r\nWATCHING 3\r\nWATCHING 2\r\n",
    );
    for _ in 0..10 {
        say(&mut peer, "reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
    }
    say(&mut peer, "use one\r\npeek-ready\r\n", "USING one\r\nNOT_FOUND\r\n");
    say(&mut peer, "kick 5\r\ndelete-tube one\r\n", "KICKED 0\r\nDELETED\r\n");
    // From now on each sweep looks for it.
    peer.send(b"reserve\r\n").unwrap();
    until("it waits", || told(&mut other, "stats\r\n", ["current-waiting"]) == [1]);
    let now = cluster.sql(&name, "SELECT clock_timestamp()");
    let swept = format!("SELECT bool_or(renewed > '{now}'::timestamptz + interval '1 s') FROM krarup.broker");
    until("sweeps have looked", || cluster.sql(&name, &swept) == "t");
    let rows = rows_read(cluster, &name) - before;
    assert!(rows < MANY, "{mode}: {rows} rows were read for tubes that are empty");
    drop(peer);
    assert!(broker.stop().success);
}

/// No trigger sees these statements. What was put was put.
pub(crate) fn what_is_changed_while_no_broker_runs_is_counted_anew(cluster: &Cluster, mode: &str) {
    let name = format!("anew_{mode}");
    let store = cluster.database(&name);
    let first = broker(&store, mode);
    let put = "put 1 0 60 1\r\nx\r\n";
    let said = format!("{put}{put}use other\r\n{put}");
    say(&mut first.connect(), &said, "INSERTED 1\r\nINSERTED 2\r\nUSING other\r\nINSERTED 3\r\n");
    assert!(first.stop().success);
    for (statement, counts) in [
        ("DELETE FROM krarup.message_row WHERE tube = 'default'", [1, 0, 3]),
        ("UPDATE krarup.message_row SET state = 2, buried = 7", [0, 1, 3]),
        ("TRUNCATE krarup.message", [0, 0, 3]),
    ] {
        // A session outlives its broker by a moment, and then the next one is not the first.
        cluster.end_sessions(&name);
        cluster.sql(&name, statement);
        assert_eq!(cluster.sql(&name, WRONG), "1", "{mode}: {statement}");
        let broker = broker(&store, mode);
        let names = ["current-jobs-ready", "current-jobs-buried", "total-jobs"];
        assert_eq!(told(&mut broker.connect(), "stats\r\n", names), counts, "{mode}: {statement}");
        assert_eq!(cluster.sql(&name, WRONG), "0", "{mode}: {statement}");
        assert!(broker.stop().success);
    }
}

/// As where a standby takes over that has not heard of the last sweeps: what they have cleared away
/// is there.
pub(crate) fn rows_that_come_back_are_added_up(cluster: &Cluster, mode: &str) {
    let name = format!("rows_back_{mode}");
    let broker = broker(&cluster.database(&name), mode);
    say(&mut broker.connect(), "put 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    let uncleared = "SELECT count(*) FROM krarup.outcome WHERE tube IS NOT NULL";
    until("its row is added up", || cluster.sql(&name, uncleared) == "0");
    let back = "INSERT INTO krarup.message_row \
                    (id, tube, state, priority, delay, ttr, created, reserves, timeouts, releases, buries, kicks, body) \
                VALUES (nextval('krarup.message_id'), 'default', 0, 1, 0, 60, now(), 0, 0, 0, 0, 0, 'x'); \
                INSERT INTO krarup.outcome (broker, serial, tube, urgent, ready, reserved, delayed, buried, put) \
                SELECT number, 1, 'default', 1, 1, 0, 0, 0, 1 FROM krarup.broker";
    cluster.sql(&name, back);
    assert_eq!(cluster.sql(&name, WRONG), "1", "{mode}");
    cluster.cut(&name, "true");
    until("it is added up", || cluster.sql(&name, WRONG) == "0");
    assert!(broker.stop().success);
}

/// More than one sweep deletes.
pub(crate) fn messages_that_expire_are_all_counted(cluster: &Cluster, mode: &str) {
    let name = format!("expired_{mode}");
    let broker = broker(&cluster.database(&name), mode);
    let mut peer = broker.connect();
    say(&mut peer, "expire-tube old 60\r\n", "EXPIRING\r\n");
    insert(cluster, &name, "old", 1_500);
    until("all are gone and counted", || {
        told(&mut peer, "stats\r\n", ["current-jobs-ready", "total-expired"]) == [0, 1_500]
    });
    // Those of one tube are not counted, and so none is shown.
    let tube = data(&mut peer, "stats-tube old\r\n");
    assert!(tube.contains("\nexpires: 60\n") && !tube.contains("total-expired"), "{tube}");
    assert!(broker.stop().success);
}

/// A tube that was empty for a day is forgotten; how many messages were put in all is not.
pub(crate) fn the_total_stays_when_a_tube_is_forgotten(cluster: &Cluster, mode: &str) {
    let name = format!("forgotten_{mode}");
    let broker = broker(&cluster.database(&name), mode);
    let mut peer = broker.connect();
    say(&mut peer, "use a\r\nput 1 0 60 1\r\nx\r\ndelete 1\r\n", "USING a\r\nINSERTED 1\r\nDELETED\r\n");
    let uncleared = "SELECT count(*) FROM krarup.outcome WHERE tube IS NOT NULL";
    until("their rows are added up", || cluster.sql(&name, uncleared) == "0");
    // No broker adds up meanwhile.
    let days_later = "DO $$ BEGIN \
                          PERFORM pg_advisory_xact_lock(1802658162, 4); \
                          FOR pass IN 1..2 LOOP \
                              UPDATE krarup.count SET changed = now() - interval '2 days'; \
                              PERFORM krarup.sum_up(); \
                          END LOOP; \
                      END $$; \
                      SELECT count(*) FILTER (WHERE tube = 'a'), sum(put) FROM krarup.counted";
    assert_eq!(cluster.sql(&name, days_later), "0|1", "{mode}");
    assert!(broker.stop().success);
}

/// Queues with names of their own, as for one reply, leave a row each for a day.
pub(crate) fn rows_of_a_day_are_not_all_read_to_add_up(cluster: &Cluster, mode: &str) {
    let name = format!("replies_{mode}");
    assert!(broker(&cluster.database(&name), mode).stop().success);
    let sum = |what: &str| cluster.sql(&name, &format!("SELECT {what} FROM krarup.count"));
    let days_old = format!(
        "UPDATE krarup.count SET changed = now() - interval '2 days'; \
         INSERT INTO krarup.count SELECT 'reply.' || number, 0, 0, 0, 0, 0, 0, 1, now() - interval '2 days' \
         FROM generate_series(1, {}) AS number; \
         INSERT INTO krarup.count VALUES ('a', 1, 0, 3, 0, 0, 0, 3, now() - interval '1 hour'); \
         ANALYZE krarup.count",
        2 * MANY
    );
    cluster.sql(&name, &days_old);
    let before = rows_read_of(cluster, &name, "count");
    let of_a_broker = include_str!("../../../../store/src/postgres/session.sql");
    cluster.sql(&name, &format!("{of_a_broker} SELECT krarup.sum_up()"));
    let rows = rows_read_of(cluster, &name, "count") - before;
    // Earlier ones read all pages to find some.
    let finds_pages = cluster.sql(&name, "SELECT current_setting('server_version_num')::integer >= 140000");
    assert!(rows < MANY || finds_pages == "f", "{mode}: {rows} rows were read to add up one");
    assert_eq!(sum("max(ready) FILTER (WHERE tube = 'a' AND session = 0)"), "3", "{mode}");
    assert_eq!(sum(&format!("count(*) < {}", 2 * MANY)), "t", "{mode}: some are forgotten");
    assert_eq!(sum("sum(put)"), (2 * MANY + 3).to_string(), "{mode}: what was put was put");
}

/// Its counts stay at the largest number of their columns.
pub(crate) fn a_message_is_reserved_however_often_it_was(cluster: &Cluster, mode: &str) {
    let name = format!("reserved_{mode}");
    let broker = broker(&cluster.database(&name), mode);
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    let most: u64 = 2_147_483_647;
    let full = format!(
        "UPDATE krarup.message_row SET reserves = {most}, releases = {most}, buries = {most}, kicks = {most}"
    );
    cluster.sql(&name, &full);
    let reserve = "reserve\r\n";
    say(&mut peer, reserve, "RESERVED 1 1\r\nx\r\n");
    say(&mut peer, "release 1 1 0\r\n", "RELEASED\r\n");
    say(&mut peer, reserve, "RESERVED 1 1\r\nx\r\n");
    say(&mut peer, "bury 1 1\r\nkick-job 1\r\n", "BURIED\r\nKICKED\r\n");
    say(&mut peer, "watch other\r\n", "WATCHING 2\r\n");
    say(&mut peer, reserve, "RESERVED 1 1\r\nx\r\n");
    let counts = ["reserves", "releases", "buries", "kicks"];
    assert_eq!(told(&mut peer, "stats-job 1\r\n", counts), [most; 4], "{mode}");
    say(&mut peer, "limit-tube default 1\r\n", "LIMITED\r\n");
    say(&mut peer, "release 1 1 0\r\n", "BURIED\r\n");
    say(&mut peer, "kick-job 1\r\n", "KICKED\r\n");
    say(&mut peer, reserve, "RESERVED 1 1\r\nx\r\n");
    say(&mut peer, "limit-tube default 1 dead\r\n", "LIMITED\r\n");
    say(&mut peer, "release 1 1 0\r\n", "BURIED\r\n");
    assert_eq!(told(&mut peer, "stats-job 1\r\n", counts), [0, most, most, most], "{mode}");
    assert!(broker.stop().success);
}

/// What a later version changed is not touched by this one.
pub(crate) fn a_database_of_a_later_version_is_refused(cluster: &Cluster) {
    let store = cluster.database("later");
    assert!(broker(&store, "owned").stop().success);
    let later = "INSERT INTO krarup.migration (version) SELECT 1 + max(version) FROM krarup.migration RETURNING version";
    let found = cluster.sql("later", later);
    for mode in MODES {
        let flags = ["broker", "--listen", "127.0.0.1:0", "--store", &store, "--mode", mode];
        let ended = Program::begin(&flags).ended();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.errors.contains(&format!("a later version of krarup (version {found};")), "{ended:?}");
        assert!(ended.errors.contains("hint: start that version"), "{ended:?}");
    }
}

/// Its functions would work on the tables of the schema that has the name now.
pub(crate) fn a_schema_that_was_renamed_is_refused(cluster: &Cluster) {
    let store = cluster.database("renamed");
    assert!(broker(&store, "owned").stop().success);
    cluster.sql("renamed", "ALTER SCHEMA krarup RENAME TO old");
    for mode in MODES {
        let flags =
            ["broker", "--listen", "127.0.0.1:0", "--store", &store, "--mode", mode, "--schema", "old"];
        let ended = Program::begin(&flags).ended();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.errors.contains("the schema `old` was renamed"), "{ended:?}");
        assert!(ended.errors.contains("hint: give it its name back"), "{ended:?}");
    }
    cluster.sql("renamed", "ALTER SCHEMA old RENAME TO krarup");
    assert!(broker(&store, "owned").stop().success);
}

/// As the schema was at first, and after each of its changes, with messages in it.
pub(crate) fn databases_of_earlier_versions_are_taken_along(cluster: &Cluster) {
    let changes = [
        include_str!("../../../../store/src/postgres/migrations/0001.sql"),
        include_str!("../../../../store/src/postgres/migrations/0002.sql"),
        include_str!("../../../../store/src/postgres/migrations/0003.sql"),
        include_str!("../../../../store/src/postgres/migrations/0004.sql"),
        include_str!("../../../../store/src/postgres/migrations/0005.sql"),
        include_str!("../../../../store/src/postgres/migrations/0006.sql"),
        include_str!("../../../../store/src/postgres/migrations/0007.sql"),
        include_str!("../../../../store/src/postgres/migrations/0008.sql"),
        include_str!("../../../../store/src/postgres/migrations/0009.sql"),
        include_str!("../../../../store/src/postgres/migrations/0010.sql"),
        include_str!("../../../../store/src/postgres/migrations/0011.sql"),
        include_str!("../../../../store/src/postgres/migrations/0012.sql"),
        include_str!("../../../../store/src/postgres/migrations/0013.sql"),
        include_str!("../../../../store/src/postgres/migrations/0014.sql"),
        include_str!("../../../../store/src/postgres/migrations/0015.sql"),
        include_str!("../../../../store/src/postgres/migrations/0016.sql"),
    ];
    for version in [1, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16] {
        for mode in MODES {
            let name = format!("version_{version}_{mode}");
            let store = cluster.database(&name);
            cluster.sql(&name, "CREATE SCHEMA krarup; CREATE TABLE krarup.migration (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())");
            for (number, change) in (1..=version).zip(changes) {
                cluster.sql(
                    &name,
                    &format!("{change}; INSERT INTO krarup.migration (version) VALUES ({number})"),
                );
            }
            cluster.sql(
                &name,
                "INSERT INTO krarup.message (id, tube, state, priority, delay, ttr, created, reserves, timeouts, releases, buries, kicks, body) \
                 SELECT number, 'old', 0, number, 0, 60, now(), 0, 0, 0, 0, 0, 'x' FROM generate_series(1, 3) AS number; \
                 UPDATE krarup.message SET state = 2, buried = 1 WHERE id = 3; \
                 UPDATE krarup.owner SET next_id = 100; \
                 INSERT INTO krarup.incoming (tube, body) VALUES ('laid', 'y')",
            );
            if version >= 7 && mode != "owned" {
                // Brokers shared it when it was changed.
                cluster.sql(&name, "UPDATE krarup.layout SET shards = 0");
            }
            if version >= 10 {
                cluster.sql(&name, "CREATE INDEX due ON krarup.message_row (due) WHERE due IS NOT NULL");
            }
            let broker = broker(&store, mode);
            let mut peer = broker.connect();
            assert_eq!(cluster.sql(&name, "SELECT to_regclass('krarup.due') IS NULL"), "t");
            say(&mut peer, "watch old\r\nwatch laid\r\n", "WATCHING 2\r\nWATCHING 3\r\n");
            // An owner's total is of those that were put since it began.
            let total = if mode == "owned" { 0 } else { 3 };
            assert_eq!(
                told(&mut peer, "stats-tube old\r\n", NAMES),
                [2, 2, 0, 0, 1, total],
                "{version}: {mode}"
            );
            say(&mut peer, "reserve\r\npop\r\n", "RESERVED 1 1\r\nx\r\nPOPPED 2 1\r\nx\r\n");
            peer.send(b"reserve\r\n").unwrap();
            assert!(peer.line().unwrap().ends_with(b" 1\r\n"));
            peer.expect(b"y\r\n").unwrap();
            cluster.sql(&name, "SELECT krarup.put('laid', '{\"a\": \"\\n\"}'::jsonb)");
            peer.send(b"reserve\r\n").unwrap();
            assert!(peer.line().unwrap().ends_with(b" 11\r\n"));
            peer.expect(b"{\"a\": \"\\n\"}\r\n").unwrap();
            assert_eq!(
                told(&mut peer, "stats-tube old\r\n", NAMES),
                [0, 0, 1, 0, 1, total],
                "{version}: {mode}"
            );
            assert!(broker.stop().success);
        }
    }
}
