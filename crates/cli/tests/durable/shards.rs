//! Queues divided into shards, of several brokers: what was answered is true whoever goes, comes or hangs.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::durable::cluster::Cluster;
use crate::durable::storm::Storm;
use crate::say;
use crate::support::peer::Peer;
use crate::support::process::Program;
use crate::support::until;

/// How long it may take until others serve, on a machine that does much else; alone it takes two seconds at most.
const TAKEOVER: Duration = Duration::from_secs(30);
const TUBES: usize = 12;

fn member(store: &str) -> Program {
    Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--store", store, "--shards", "6"])
}

/// Until the members have so many shards each, and all of them are served.
pub(crate) fn are_shared(cluster: &Cluster, database: &str, counts: &str) {
    let held = "SELECT string_agg(many::text, ',' ORDER BY many) FROM ( \
                    SELECT count(*) AS many FROM krarup.owner JOIN pg_locks ON objid = (1000 + shard)::oid \
                        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                    WHERE address <> '' AND renewed > clock_timestamp() - interval '1 s' \
                      AND locktype = 'advisory' AND classid = 1802658162 AND granted \
                    GROUP BY member) AS counts";
    until("the shards are shared", || cluster.sql(database, held) == counts);
}

pub(crate) fn one_is_killed_and_another_comes(cluster: &Cluster) {
    let name = "shards_killed";
    let store = cluster.database(name);
    let [a, b, c] = [(); 3].map(|()| member(&store));
    are_shared(cluster, name, "2,2,2");
    let storms = [&a, &b, &c].map(|broker| Storm::in_tubes(broker.address(), 4, TUBES));
    storms.iter().for_each(|storm| storm.wait_for(100));
    a.kill();
    let killed = Instant::now();
    are_shared(cluster, name, "3,3");
    eprintln!("shards of a broker that was killed were served after {:?}", killed.elapsed());
    assert!(killed.elapsed() < TAKEOVER);
    // Whose messages were in doubt has lost his connection; others go on.
    let more = [&b, &c].map(|broker| Storm::in_tubes(broker.address(), 4, TUBES));
    more.iter().for_each(|storm| storm.wait_for(100));
    let d = member(&store);
    are_shared(cluster, name, "2,2,2");
    let last = Storm::in_tubes(d.address(), 4, TUBES);
    last.wait_for(100);
    let mut history = last.end();
    storms.into_iter().chain(more).for_each(|storm| history.add(storm.end()));
    history.check_tubes(d.address(), 0, TUBES);
    for broker in [b, c, d] {
        assert!(broker.stop().success);
    }
    one_owner_follows(cluster, name);
}

/// What they leave one broker finds that owns all queues, and the other way round; no number is given twice.
fn one_owner_follows(cluster: &Cluster, name: &str) {
    let above = "SELECT max(next_id) FROM krarup.owner";
    let highest: u64 = cluster.sql(name, above).parse().unwrap();
    for shards in ["1", "5"] {
        let store = cluster.at(name);
        let broker =
            Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--store", &store, "--shards", shards]);
        let mut peer = broker.connect();
        for tube in 0..TUBES {
            peer.send(format!("put-in-tube s{tube} 1 0 60 1\r\nx\r\n").as_bytes()).unwrap();
            let line = String::from_utf8(peer.line().unwrap()).unwrap();
            let id: u64 = line.trim_end().strip_prefix("INSERTED ").unwrap().parse().unwrap();
            assert!(id + 1_000_000 >= highest, "{id} after {highest}");
        }
        assert!(broker.stop().success);
    }
    assert_eq!(cluster.sql(name, "SELECT count(*) FROM krarup.message"), (2 * TUBES).to_string());
}

pub(crate) fn one_hangs_and_comes_back(cluster: &Cluster) {
    let name = "shards_hang";
    let store = cluster.database(name);
    let [mut a, b] = [(); 2].map(|()| member(&store));
    are_shared(cluster, name, "3,3");
    let storm = Storm::in_tubes(a.address(), 4, TUBES);
    storm.wait_for(100);
    a.signal(Signal::STOP);
    let stopped = Instant::now();
    are_shared(cluster, name, "6");
    eprintln!("shards of a broker that hung were served after {:?}", stopped.elapsed());
    assert!(stopped.elapsed() < TAKEOVER);
    let other = Storm::in_tubes(b.address(), 4, TUBES);
    other.wait_for(100);
    // It wakes up, must not write what it had decided meanwhile, and has its share again.
    a.signal(Signal::CONT);
    a.says_text("another broker has taken it over");
    are_shared(cluster, name, "3,3");
    let last = Storm::in_tubes(a.address(), 4, TUBES);
    last.wait_for(100);
    let mut history = last.end();
    history.add(other.end());
    history.add(storm.end());
    history.check_tubes(a.address(), 0, TUBES);
    assert!(a.stop().success && b.stop().success);
}

/// One client, tubes of all shards.
pub(crate) fn a_client_sees_one_broker(cluster: &Cluster) {
    let name = "shards_client";
    let store = cluster.database(name);
    let [a, b] = [(); 2].map(|()| member(&store));
    are_shared(cluster, name, "3,3");
    let (mut here, mut there) = (a.connect(), b.connect());
    for tube in 0..TUBES {
        say(&mut here, &format!("watch s{tube}\r\n"), &format!("WATCHING {}\r\n", tube + 2));
    }
    // Who waits in tubes of several shards is given what comes into any of them.
    for tube in 0..TUBES {
        here.send(b"reserve\r\n").unwrap();
        let id = put(&mut there, tube, 5);
        here.expect(format!("RESERVED {id} 1\r\nx\r\n").as_bytes()).unwrap();
        say(&mut here, &format!("touch {id}\r\nrelease {id} 5 0\r\n"), "TOUCHED\r\nRELEASED\r\n");
        say(
            &mut there,
            &format!("peek {id}\r\ndelete {id}\r\n"),
            &format!("FOUND {id} 1\r\nx\r\nDELETED\r\n"),
        );
    }
    // The more urgent goes first, whatever shard it is of.
    let ids: Vec<u64> = (0..TUBES).map(|tube| put(&mut there, tube, 100 - tube as u32)).collect();
    for id in ids.iter().rev() {
        say(&mut here, "reserve-with-timeout 0\r\n", &format!("RESERVED {id} 1\r\nx\r\n"));
    }
    say(&mut here, "pop\r\nreserve-with-timeout 1\r\n", "TIMED_OUT\r\nTIMED_OUT\r\n");
    let all: Vec<String> = ids.iter().map(u64::to_string).collect();
    say(&mut here, &format!("delete-batch {} 1\r\n", all.join(" ")), &format!("DELETED {TUBES}\r\n"));
    // What is given back, and what comes with a lease of one second, is found wherever it is.
    let id = put(&mut there, 3, 1);
    say(&mut here, "reserve\r\n", &format!("RESERVED {id} 1\r\nx\r\n"));
    say(&mut here, &format!("release {id} 1 0\r\n"), "RELEASED\r\n");
    there.send(b"put-in-tube s4 1 0 1 1\r\nx\r\n").unwrap();
    there.line().unwrap();
    say(&mut here, "pop\r\n", "POPPED ");
    here.line().unwrap();
    here.line().unwrap();
    say(&mut here, "reserve\r\n", "RESERVED ");
    here.line().unwrap();
    here.line().unwrap();
    // Clients are known to all owners, lists are of all shards.
    say(&mut there, "register anna\r\nregister anna\r\n", "REGISTERED\r\nEXISTS\r\n");
    say(&mut here, "login anna\r\n", "LOGGED_IN\r\n");
    let mut sender = b.connect();
    say(&mut sender, "register bob\r\nlogin bob\r\n", "REGISTERED\r\nLOGGED_IN\r\n");
    for tube in ["s5", "s6", "s7"] {
        say(
            &mut sender,
            &format!("create-tube {tube}\r\nsend {tube} anna 1\r\nm\r\n"),
            "CREATED\r\nINSERTED ",
        );
        sender.line().unwrap();
    }
    say(&mut here, "list-tubes-for-me\r\n", "OK 19\r\n---\n- s5\n- s6\n- s7\n\r\n");
    for _ in 0..3 {
        say(&mut here, "pop-sender bob\r\n", "POPPED ");
        here.line().unwrap();
        here.line().unwrap();
    }
    say(&mut here, "pop-sender bob\r\npeek-sender nobody\r\n", "EMPTY\r\nUNKNOWN_CLIENT\r\n");
    let refused = (0..TUBES)
        .map(|tube| {
            here.send(format!("limit-tube s0 3 s{tube}\r\n").as_bytes()).unwrap();
            here.line().unwrap()
        })
        .filter(|line| line == b"OTHER_SHARD\r\n")
        .count();
    assert!(refused > 0 && refused < TUBES, "{refused}");
    say(&mut here, "limit-tube (s0)jobs 3 (s0)dead\r\n", "LIMITED\r\n");
    // Sums are of all shards.
    let before = sum(&mut there, "total-jobs");
    (0..TUBES).for_each(|tube| _ = put(&mut there, tube, 1));
    assert_eq!(sum(&mut there, "total-jobs"), before + TUBES as u64);
    assert_eq!(sum(&mut here, "current-jobs-ready"), TUBES as u64);
    // Who says his last with a request is answered, and what is taken for him is told to him.
    for (tube, broker) in (0..TUBES).zip([&a, &b].into_iter().cycle()) {
        let asked = format!("watch s{tube}\r\nignore default\r\npop\r\npop 3600\r\n");
        let told = last_words(broker, &asked);
        let popped = told.strip_prefix("WATCHING 2\r\nWATCHING 1\r\nPOPPED ");
        let popped = popped.and_then(|rest| rest.split_once(" 1\r\n"));
        assert_eq!(popped.map(|(_, rest)| rest), Some("x\r\nTIMED_OUT\r\n"), "{told}");
    }
    assert_eq!(sum(&mut here, "current-jobs-ready"), 0);
    // What is garbage here is garbage there.
    say(&mut here, "nonsense\r\nput 1 0 60 3\r\nlonger\r\nping\r\n", "UNKNOWN_COMMAND\r\nEXPECTED_CRLF\r\n");
    assert!(a.stop().success && b.stop().success);
}

fn put(peer: &mut Peer, tube: usize, priority: u32) -> u64 {
    peer.send(format!("put-in-tube s{tube} {priority} 0 60 1\r\nx\r\n").as_bytes()).unwrap();
    let line = String::from_utf8(peer.line().unwrap()).unwrap();
    line.trim_end().strip_prefix("INSERTED ").unwrap().parse().unwrap()
}

/// What a client is answered who hangs up on his side once he has asked.
fn last_words(broker: &Program, asked: &str) -> String {
    let mut stream = TcpStream::connect(broker.address()).unwrap();
    stream.write_all(asked.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

fn sum(peer: &mut Peer, name: &str) -> u64 {
    peer.send(b"stats\r\n").unwrap();
    let mut found = None;
    loop {
        let line = String::from_utf8(peer.line().unwrap()).unwrap();
        if line == "\r\n" {
            return found.expect("it is among them");
        }
        if let Some(value) = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")) {
            found = value.trim_end().parse().ok();
        }
    }
}
