//! Requests of one connection are answered one after the other, and the largest numbers of the
//! protocol are stored as such.

use crate::broker::data;
use crate::durable::cluster::Cluster;
use crate::durable::counts::told;
use crate::durable::shards::broker_with_admin;
use crate::durable::{broker, say};
use crate::support::peer::asked;
use crate::support::until;

/// What a client sends while it waits is carried out when it was answered.
pub(crate) fn nothing_overtakes_a_client_that_waits(cluster: &Cluster, mode: &str) {
    let store = cluster.database(&format!("turns_{mode}"));
    let broker = broker(&store, mode);
    let (mut worker, mut producer) = (broker.connect(), broker.connect());
    worker.send(b"reserve\r\n").unwrap();
    until("it waits", || data(&mut producer, "stats\r\n").contains("current-waiting: 1\n"));
    worker.send(b"reserve\r\nput 1 0 60 1\r\nc\r\n").unwrap();
    for (place, body) in ["a", "b"].iter().enumerate() {
        let answer = format!("INSERTED {}\r\n", place + 1);
        say(&mut producer, &format!("put 1 0 60 1\r\n{body}\r\n"), &answer);
    }
    say(&mut worker, "", "RESERVED 1 1\r\na\r\nRESERVED 2 1\r\nb\r\nINSERTED 3\r\n");
    // The same where nothing is put.
    say(&mut worker, "delete 3\r\n", "DELETED\r\n");
    until("it waits", || {
        worker.send(b"reserve-with-timeout 1\r\n").unwrap();
        let waits = (0..100).any(|_| data(&mut producer, "stats\r\n").contains("current-waiting: 1\n"));
        if !waits {
            // Its second was over before the looks.
            say(&mut worker, "", "TIMED_OUT\r\n");
        }
        waits
    });
    say(&mut worker, "reserve-with-timeout 0\r\nuse q\r\n", "TIMED_OUT\r\nTIMED_OUT\r\nUSING q\r\n");
    assert!(broker.stop().success);
}

/// A lease of the longest time lasts, and a tube that keeps messages for the longest time takes
/// some.
pub(crate) fn the_longest_times_are_long(cluster: &Cluster, mode: &str) {
    let store = cluster.database(&format!("longest_{mode}"));
    let broker = broker(&store, mode);
    let (mut worker, mut other) = (broker.connect(), broker.connect());
    say(&mut worker, "expire-tube default 4294967295\r\n", "EXPIRING\r\n");
    say(&mut worker, "put 0 0 4294967295 1\r\nx\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    // When the lease of a second has ended, it was looked for all that had.
    say(&mut other, "put 1 0 1 1\r\ny\r\nreserve\r\n", "INSERTED 2\r\nRESERVED 2 1\r\ny\r\n");
    until("the short lease has ended", || data(&mut worker, "stats-job 2\r\n").contains("state: ready\n"));
    say(&mut worker, "touch 1\r\ndelete 1\r\n", "TOUCHED\r\nDELETED\r\n");
    assert!(broker.stop().success);
}

/// The database cancels what changes more messages at once, as it does what takes too long.
fn cancel_above(cluster: &Cluster, name: &str, most: u32) {
    let function = format!(
        "CREATE OR REPLACE FUNCTION too_long() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN IF (SELECT count(*) > {most} FROM changed) THEN RAISE query_canceled; END IF; RETURN NULL; END $$"
    );
    cluster.sql(name, &function);
}

/// So many messages of each state are in the tube `many`, of the ready ones half for one receiver.
fn insert_of_each_state(cluster: &Cluster, name: &str, count: u32) {
    cluster.sql(name, "INSERT INTO krarup.client VALUES ('c'); SELECT krarup.follow_clients()");
    let statement = format!(
        "INSERT INTO krarup.message (id, tube, state, priority, due, buried, delay, ttr, created, receiver, \
                                     reserves, timeouts, releases, buries, kicks, body) \
         SELECT nextval('krarup.message_id'), 'many', state, 1, \
                CASE WHEN state IN (1, 3) THEN now() + interval '1 hour' END, \
                CASE WHEN state = 2 THEN nextval('krarup.buried_order') END, 0, 60, now(), \
                CASE WHEN state = 0 AND number % 2 = 0 THEN 'c' END, 0, 0, 0, 0, 0, 'x' \
         FROM generate_series(1, {count}) AS number, unnest(ARRAY[0, 1, 2, 3]) AS state"
    );
    cluster.sql(name, &statement);
}

/// One that is too long even so fails, and is told to its client alone.
pub(crate) fn what_is_about_many_messages_goes_in_parts(cluster: &Cluster, mode: &str) {
    let name = format!("parts_{mode}");
    let store = cluster.database(&name);
    let (broker, admin) = broker_with_admin(&store, mode);
    insert_of_each_state(cluster, &name, 3_500);
    cancel_above(cluster, &name, 3_000);
    for (event, rows) in [("UPDATE", "NEW"), ("DELETE", "OLD")] {
        let trigger = format!(
            "CREATE TRIGGER too_long_{event} AFTER {event} ON krarup.message REFERENCING {rows} TABLE AS changed \
             FOR EACH STATEMENT EXECUTE FUNCTION too_long()"
        );
        cluster.sql(&name, &trigger);
    }
    let (mut peer, mut other) = (broker.connect(), broker.connect());
    say(&mut peer, "use many\r\nkick 10000000\r\n", "USING many\r\nKICKED 3500\r\n");
    say(&mut peer, "kick 2000\r\n", "KICKED 2000\r\n");
    let states =
        ["current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried"];
    let counts = told(&mut peer, "stats-tube many\r\n", states);
    assert_eq!(counts, [9_000, 3_500, 1_500, 0], "{mode}");
    peer.send(b"delete-tube many\r\n").unwrap();
    told(&mut other, "stats\r\n", states);
    peer.expect(b"DELETED\r\n").unwrap();
    assert_eq!(told(&mut peer, "stats-tube many\r\n", states), [0; 4], "{mode}");
    assert_eq!(cluster.sql(&name, "SELECT count(*) FROM krarup.message"), "0");
    cancel_above(cluster, &name, 0);
    say(&mut peer, "put 1 0 60 1\r\nx\r\n", "INSERTED ");
    peer.line().unwrap();
    say(&mut peer, "delete-tube many\r\n", "INTERNAL_ERROR\r\n");
    assert_eq!(told(&mut other, "stats-tube many\r\n", states), [1, 0, 0, 0], "{mode}");
    assert!(asked(admin, "GET", "/ready").starts_with("HTTP/1.1 200"), "{mode}");
    let ended = broker.stop();
    assert!(ended.success && !ended.errors.contains("refuses"), "{mode}: {ended:?}");
}
