//! Requests of one connection are answered one after the other, and the largest numbers of the
//! protocol are stored as such.

use crate::broker::data;
use crate::durable::cluster::Cluster;
use crate::durable::{broker, say};
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
    worker.send(b"reserve-with-timeout 1\r\n").unwrap();
    until("it waits", || data(&mut producer, "stats\r\n").contains("current-waiting: 1\n"));
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
