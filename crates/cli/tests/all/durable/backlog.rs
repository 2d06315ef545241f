//! What waits in shared queues is told by each broker, also what was put through another.

use crate::broker::{data, monitored};
use crate::durable::cluster::Cluster;
use crate::durable::say;
use crate::monitoring::{get, known_value};
use crate::support::until;

/// How many wait in each tube, and for how long the oldest does.
pub(crate) fn is_told_by_all_brokers(cluster: &Cluster, mode: &str) {
    let name = format!("backlog_{mode}");
    let store = cluster.database(&name);
    let flags = ["--store", &store, "--mode", mode, "--pool", "2", "--tubes-in-metrics", "1"];
    let (first, _) = monitored(&flags);
    let mut producer = first.connect();
    for (place, put) in ["put 1 0 60 1", "put 7 0 60 1", "put 7 0 60 1", "put 7 600 60 1"].iter().enumerate()
    {
        let used = if place == 0 { "use jobs\r\n" } else { "" };
        let answer = if place == 0 { "USING jobs\r\n" } else { "" };
        say(&mut producer, &format!("{used}{put}\r\nx\r\n"), &format!("{answer}INSERTED {}\r\n", place + 1));
    }
    say(&mut producer, "use mails\r\nput 1 0 60 1\r\nx\r\n", "USING mails\r\nINSERTED 5\r\n");
    cluster.sql(&name, "UPDATE krarup.message SET created = created - interval '1 hour' WHERE id = 2");

    // One through which no message has gone.
    let (second, admin) = monitored(&flags);
    let metric = |series: &str| known_value(&get(admin, "/metrics").1, series).unwrap_or(f64::NAN);
    let ready = |tube: &str| metric(&format!("krarup_broker_tube_ready{{tube=\"{tube}\"}}"));
    let oldest = |tube: &str| metric(&format!("krarup_broker_tube_oldest_age_seconds{{tube=\"{tube}\"}}"));
    until("it tells what waits", || ready("jobs") == 3.0 && oldest("jobs") >= 3_600.0);
    assert!(ready("*") == 1.0 && (0.0..3_600.0).contains(&oldest("*")), "{mode}");
    let messages = |state: &str| metric(&format!("krarup_broker_messages{{state=\"{state}\"}}"));
    assert_eq!((messages("ready"), messages("delayed"), messages("buried")), (4.0, 1.0, 0.0), "{mode}");
    let mut peer = second.connect();
    let stats = data(&mut peer, "stats-tube jobs\r\n");
    let age = stats.lines().find_map(|line| line.strip_prefix("oldest-age: ")?.parse::<f64>().ok());
    assert!(age.is_some_and(|age| age >= 3_600.0), "{mode}: {stats}");

    say(&mut peer, "watch jobs\r\n", "WATCHING 2\r\n");
    for id in 1..=3 {
        say(&mut peer, "reserve\r\n", &format!("RESERVED {id} 1\r\nx\r\n"));
    }
    // Of which of its two tubes they are only the database knows here.
    let stats = data(&mut peer, "stats-tube jobs\r\n");
    assert!(stats.contains("\nbusy-consumers: 3\n"), "{mode}: {stats}");
    // A message that is given back is as old as it was.
    say(&mut peer, "release 2 9 0\r\n", "RELEASED\r\n");
    until("one is left", || ready("jobs") == 1.0 && oldest("jobs") >= 3_600.0);
    say(&mut peer, "reserve\r\n", "RESERVED 2 1\r\nx\r\n");
    until("all are counted", || messages("reserved") == 3.0 && messages("ready") == 1.0);
    say(&mut peer, "bury 2 1\r\n", "BURIED\r\n");
    until("one is set aside", || messages("buried") == 1.0);
    until("nothing is left", || ready("mails") == 1.0 && ready("*") == 0.0 && oldest("mails") < 3_600.0);
    assert!(first.stop().success && second.stop().success);
}
