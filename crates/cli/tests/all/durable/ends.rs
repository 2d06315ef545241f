//! What comes to its end while no client asks: messages of a tube in which they expire, keys, the
//! leases of a broker that is no more.

use crate::durable::cluster::Cluster;
use crate::durable::counts::told;
use crate::durable::{broker, say};
use crate::support::process::Program;
use crate::support::until;

/// Whichever broker was told that they expire.
pub(crate) fn what_waited_too_long_is_gone_after_a_restart(cluster: &Cluster, mode: &str) {
    let name = format!("expires_{mode}");
    let store = cluster.database(&name);
    let first = broker(&store, mode);
    let said = "expire-tube default 60\r\nput 1 0 60 1\r\nx\r\n";
    say(&mut first.connect(), said, "EXPIRING\r\nINSERTED 1\r\n");
    assert!(first.stop().success);
    cluster.sql(&name, "UPDATE krarup.message SET created = created - interval '1 hour'");
    let second = broker(&store, mode);
    let mut peer = second.connect();
    until("it is gone", || told(&mut peer, "stats\r\n", ["current-jobs-ready", "total-expired"]) == [0, 1]);
    assert!(second.stop().success);
}

/// A backup has messages whose time is over when a broker begins on it.
pub(crate) fn what_is_restored_late_is_there_after_the_guides_statements(cluster: &Cluster, mode: &str) {
    let name = format!("restored_late_{mode}");
    let store = cluster.database(&name);
    let first = broker(&store, mode);
    let said = format!("expire-tube default 60\r\n{}", "put 1 0 60 1\r\nx\r\n".repeat(3));
    say(&mut first.connect(), &said, "EXPIRING\r\nINSERTED 1\r\nINSERTED 2\r\nINSERTED 3\r\n");
    assert!(first.stop().success);
    let over = "UPDATE krarup.message SET created = created - interval '1 hour'; \
                UPDATE krarup.message SET expires = now() - interval '1 hour' WHERE id = 2; \
                INSERT INTO krarup.archive VALUES (9, 'old', 0, now(), NULL, NULL, '', now(), now())";
    cluster.sql(&name, over);
    let guide = include_str!("../../../../../docs/guide/broker-production.md");
    for rest in guide.split("-c \"").filter(|rest| rest.starts_with("UPDATE krarup.")) {
        cluster.sql(&name, rest.split('"').next().unwrap());
    }
    // When this one is gone, all have been looked at.
    cluster.sql(&name, "UPDATE krarup.message SET expires = now() - interval '1 hour' WHERE id = 3");
    let second = broker(&store, mode);
    let mut peer = second.connect();
    until("one is gone", || told(&mut peer, "stats\r\n", ["current-jobs-ready", "total-expired"]) == [2, 1]);
    assert_eq!(cluster.sql(&name, "SELECT count(*) FROM krarup.archive"), "1", "{mode}");
    assert!(second.stop().success);
}

/// Also keys that no client puts again.
pub(crate) fn keys_are_forgotten_while_brokers_run(cluster: &Cluster, mode: &str) {
    let name = format!("keys_{mode}");
    let store = cluster.database(&name);
    let place = ["broker", "--listen", "127.0.0.1:0", "--store", &store, "--mode", mode];
    let broker = Program::krarup(&[&place[..], &["--remember-keys", "1s"]].concat());
    let mut peer = broker.connect();
    for id in 1..=3 {
        let said = format!("put-unique key-{id} 1 0 60 1\r\nx\r\n");
        say(&mut peer, &said, &format!("INSERTED {id}\r\n"));
    }
    until("no key is left", || cluster.sql(&name, "SELECT count(*) FROM krarup.key") == "0");
    assert!(broker.stop().success);
}

/// By parts, so that no statement takes long; the others are remembered.
pub(crate) fn keys_that_are_over_are_cleared_away_by_parts(cluster: &Cluster) {
    let name = "keys_by_parts";
    let store = cluster.database(name);
    let first = broker(&store, "owned");
    say(&mut first.connect(), "put-unique new 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    assert!(first.stop().success);
    cluster.sql(
        name,
        "INSERT INTO krarup.key SELECT 'default', 'old-' || number, 1, now() - interval '1 hour' \
         FROM generate_series(1, 3500) AS number; \
         CREATE FUNCTION public.by_parts() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN IF (SELECT count(*) > 1000 FROM gone) THEN RAISE 'too many at once'; END IF; RETURN NULL; END $$; \
         CREATE TRIGGER by_parts AFTER DELETE ON krarup.key REFERENCING OLD TABLE AS gone \
             FOR EACH STATEMENT EXECUTE FUNCTION public.by_parts()",
    );
    let second = broker(&store, "owned");
    until("they are gone", || cluster.sql(name, "SELECT string_agg(key, ',') FROM krarup.key") == "new");
    let mut peer = second.connect();
    say(&mut peer, "put-unique new 1 0 60 1\r\nx\r\n", "EXISTS 1\r\n");
    say(&mut peer, "put-unique old-1 1 0 60 1\r\nx\r\n", "INSERTED ");
    assert!(second.stop().success);
}

/// A message that makes its consumer's broker end must not come back for ever.
pub(crate) fn a_lease_that_ends_with_its_broker_counts(cluster: &Cluster, mode: &str) {
    let name = format!("limit_{mode}");
    let store = cluster.database(&name);
    let (first, second) = (broker(&store, mode), broker(&store, mode));
    let mut peer = second.connect();
    say(
        &mut peer,
        "use dead\r\nlimit-tube default 1 dead\r\nput-in-tube default 1 0 60 1\r\nx\r\n",
        "USING dead\r\nLIMITED\r\nINSERTED 1\r\n",
    );
    // Its connection stands until its broker is killed.
    let mut holder = first.connect();
    say(&mut holder, "reserve\r\n", "RESERVED 1 1\r\nx\r\n");
    first.kill();
    until("it is dead", || told(&mut peer, "stats-tube dead\r\n", ["current-jobs-ready"]) == [1]);
    assert!(second.stop().success);
}

/// Its commit waits for longer, as for a standby that is away: another client may have the message
/// by then.
pub(crate) fn no_message_is_handed_out_whose_lease_has_ended(cluster: &Cluster, mode: &str) {
    let name = format!("handed_out_{mode}");
    let broker = broker(&cluster.database(&name), mode);
    let mut worker = broker.connect();
    say(&mut worker, "put 1 0 1 1\r\nx\r\n", "INSERTED 1\r\n");
    cluster.commits_wait(&name, true);
    worker.send(b"reserve\r\n").unwrap();
    let at_commit = "wait_event = 'SyncRep' AND query LIKE '%taken%'";
    until("it is at its commit", || cluster.has_session(&name, at_commit));
    cluster.sql(&name, "SELECT pg_sleep(1.1)");
    cluster.commits_wait(&name, false);
    say(&mut worker, "", "RESERVED 1 1\r\nx\r\n");
    assert_eq!(told(&mut worker, "stats-job 1\r\n", ["reserves"]), [2], "{mode}: with another lease");
    assert!(broker.stop().success);
}

/// However many are ready, or delayed and due at once: what is looked for is read, and few besides.
pub(crate) fn what_is_over_is_found_among_many(cluster: &Cluster, mode: &str) {
    let name = format!("found_{mode}");
    assert!(broker(&cluster.database(&name), mode).stop().success);
    let (over, later) = ("now() - interval '1 s'", "now() + interval '1 hour'");
    // The leases are of a broker that is no more, and one of them is over.
    for (state, due, count) in [(0, "NULL", 10_000), (1, over, 10_000), (3, over, 1), (3, later, 1)] {
        let insert = format!(
            "INSERT INTO krarup.message \
                 (id, tube, state, priority, due, delay, ttr, created, reserves, timeouts, releases, buries, kicks, holder, body) \
             SELECT nextval('krarup.message_id'), 'jobs', {state}, 1, {due}, 0, 60, now(), 0, 0, 0, 0, 0, \
                    CASE WHEN {state} = 3 THEN 7::bigint << 32 END, 'x' \
             FROM generate_series(1, {count})"
        );
        cluster.sql(&name, &insert);
    }
    // All of it is one transaction.
    let rows_read = |call: &str| -> u64 {
        let statements = format!(
            "{} DO $$ BEGIN PERFORM krarup.{call}; END $$; \
             SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = 'message_row'",
            include_str!("../../../../store/src/postgres/session.sql")
        );
        cluster.sql(&name, &statements).parse().unwrap()
    };
    let rows = rows_read("sweep(9, 0, 0, '{}', '{}')");
    assert!(rows < 5_000, "{mode}: {rows} rows were read to end a lease and a thousand delays");
    let rows = rows_read("is_no_more(7)");
    assert!(rows < 1_000, "{mode}: {rows} rows were read to give back a lease");
    let left = "SELECT count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 3), sum(timeouts) FROM krarup.message";
    assert_eq!(cluster.sql(&name, left), "9000|0|1", "{mode}");
}

/// It says that it is there before it looks for messages, and a look may take long.
pub(crate) fn a_broker_that_looks_for_long_is_not_taken_for_dead(cluster: &Cluster, mode: &str) {
    let name = format!("looks_{mode}");
    let store = cluster.database(&name);
    let (first, second) = (broker(&store, mode), broker(&store, mode));
    cluster.sql(
        &name,
        "CREATE TABLE public.looked (); \
         CREATE OR REPLACE FUNCTION krarup.entries_to_first(of text) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN \
             PERFORM pg_sleep(2.5); INSERT INTO public.looked DEFAULT VALUES; RETURN 0; END $$",
    );
    let mut holder = second.connect();
    say(&mut holder, "put 1 0 60 1\r\nx\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    until("it has looked", || cluster.sql(&name, "SELECT count(*) FROM public.looked") != "0");
    say(&mut holder, "delete 1\r\n", "DELETED\r\n");
    assert!(first.stop().success && second.stop().success);
}

/// After an outage, or a step of the database's clock, all look silent to the first that is back.
pub(crate) fn a_broker_that_is_just_back_takes_no_other_for_dead(cluster: &Cluster, mode: &str) {
    let name = format!("just_back_{mode}");
    let store = cluster.database(&name);
    let (first, second) = (broker(&store, mode), broker(&store, mode));
    let mut holder = second.connect();
    say(&mut holder, "put 1 0 60 1\r\nx\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    // As its sessions are at work it would be left alone in any case.
    cluster.sql(
        &name,
        "CREATE OR REPLACE FUNCTION krarup.is_no_more(whose bigint) RETURNS void LANGUAGE sql AS $$ \
             UPDATE krarup.message SET state = 0, due = NULL, holder = NULL WHERE state = 3 AND holder >> 32 = whose $$",
    );
    // Its session has stood for long and it was not heard; or the other way round.
    for (stood, not_heard) in [("SELECT pg_sleep(2);", "true"), ("", "number <> 1")] {
        let sweep = format!(
            "{stood} UPDATE krarup.broker SET heard = heard - interval '1 hour'; \
             UPDATE krarup.broker SET renewed = renewed - interval '3 s' WHERE {not_heard}; \
             SELECT krarup.sweep(number, cleared, cleared, '{{}}', '{{}}') FROM krarup.broker WHERE number = 1; \
             UPDATE krarup.broker SET renewed = clock_timestamp()"
        );
        cluster.sql(&name, &sweep);
        say(&mut holder, "touch 1\r\n", "TOUCHED\r\n");
    }
    say(&mut holder, "delete 1\r\n", "DELETED\r\n");
    assert!(first.stop().success && second.stop().success);
}
