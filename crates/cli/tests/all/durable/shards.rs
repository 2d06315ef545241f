//! Queues divided into shards, of several brokers: what was answered is true whichever broker ends,
//! starts or hangs.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use krarup_broker::shards::shard_of;
use rustix::process::Signal;

use crate::broker::data;
use crate::durable::cluster::Cluster;
use crate::durable::say;
use crate::durable::storm::Storm;
use crate::support::peer::{Peer, asked, listen};
use crate::support::process::Program;
use crate::support::{TOO_LONG, certificate, file, fresh, until};

/// How long it may take until others serve, on a machine that does much else; alone it takes two
/// seconds at most.
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
    // A client whose messages were in doubt has lost its connection; others go on.
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

/// What they leave one broker finds that owns all queues, and the other way round; no number is
/// given twice.
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
    a.freeze();
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

/// Rows of brokers that go on seem old until they renew them.
pub(crate) fn a_step_of_the_databases_clock_moves_no_shard(cluster: &Cluster) {
    let name = "shards_step";
    let store = cluster.database(name);
    let [a, b] = [(); 2].map(|()| member(&store));
    are_shared(cluster, name, "3,3");
    let owners =
        "SELECT string_agg(format('%s by %s', epoch, process), ', ' ORDER BY shard) FROM krarup.owner";
    let before = cluster.sql(name, owners);
    for _ in 0..3 {
        let step = "UPDATE krarup.member SET renewed = renewed - interval '5 s'; \
                    UPDATE krarup.owner SET renewed = renewed - interval '5 s'";
        cluster.sql(name, step);
        are_shared(cluster, name, "3,3");
    }
    assert_eq!(cluster.sql(name, owners), before);
    assert!(a.stop().success && b.stop().success);
}

/// Messages of several shards in one request: their holder alone may keep them; counts are added.
fn batches_are_of_all_shards(here: &mut Peer, there: &mut Peer, ids: &[u64]) {
    let all: String = ids.iter().map(|id| format!(" {id}")).collect();
    say(there, &format!("touch-batch{all}\r\n"), "TOUCHED 0\r\n");
    let batches = format!("touch-batch{all} 1\r\ndelete-batch{all} 1\r\n");
    say(here, &batches, &format!("TOUCHED {TUBES}\r\nDELETED {TUBES}\r\n"));
}

/// One message is put into each tube; the tube that each shard has is counted once.
fn sums_are_of_all_shards(here: &mut Peer, there: &mut Peer) {
    let (before, written) = (sum(there, "total-jobs"), sum(there, "binlog-records-written"));
    (0..TUBES).for_each(|tube| _ = put(there, tube, 1));
    assert_eq!(sum(there, "total-jobs"), before + TUBES as u64);
    assert!(sum(there, "binlog-records-written") >= written + TUBES as u64);
    let listed = data(there, "list-tubes\r\n").matches("\n- ").count();
    assert_eq!(sum(there, "current-tubes"), listed as u64);
    assert_eq!(sum(here, "current-jobs-ready"), TUBES as u64);
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
    // A line that is too long is answered, and what came with it is carried out.
    let long = "x".repeat(800);
    say(&mut here, &format!("{long}\r\nuse s0\r\n"), "BAD_FORMAT\r\nUSING s0\r\n");
    // The more urgent goes first, whatever shard it is of.
    let ids: Vec<u64> = (0..TUBES).map(|tube| put(&mut there, tube, 100 - tube as u32)).collect();
    for id in ids.iter().rev() {
        say(&mut here, "reserve-with-timeout 0\r\n", &format!("RESERVED {id} 1\r\nx\r\n"));
    }
    say(&mut here, "pop\r\nreserve-with-timeout 1\r\n", "TIMED_OUT\r\nTIMED_OUT\r\n");
    batches_are_of_all_shards(&mut here, &mut there, &ids);
    // What is given back, and what comes with a lease of one second, is found wherever it is.
    let id = put(&mut there, 3, 1);
    let taken = format!("RESERVED {id} 1\r\nx\r\nRELEASED\r\n");
    say(&mut here, &format!("reserve\r\nrelease {id} 1 0\r\n"), &taken);
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
    sums_are_of_all_shards(&mut here, &mut there);
    // A client that ends its stream after a request is answered, and what is taken for it is sent
    // to it.
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

/// A client that holds a message is told in time that its lease ends soon, whichever shards the
/// message is of and the client watches.
pub(crate) fn a_client_that_holds_a_message_is_told_that_its_lease_is_nearly_over(cluster: &Cluster) {
    let name = "shards_deadline";
    let store = cluster.database(name);
    let [a, b] = [(); 2].map(|()| member(&store));
    are_shared(cluster, name, "3,3");
    // One tube of another shard, or several: the client waits differently.
    for (broker, others) in [(&a, 1..2), (&b, 1..TUBES)] {
        let mut peer = broker.connect();
        say(&mut peer, "watch s0\r\nignore default\r\n", "WATCHING 2\r\nWATCHING 1\r\n");
        peer.send(b"put-in-tube s0 1 0 2 1\r\nx\r\n").unwrap();
        let inserted = String::from_utf8(peer.line().unwrap()).unwrap();
        let id = inserted.trim_end().strip_prefix("INSERTED ").unwrap().to_owned();
        let reserved = format!("RESERVED {id} 1\r\n");
        say(&mut peer, "reserve\r\n", &format!("{reserved}x\r\n"));
        for tube in others.clone() {
            peer.send(format!("watch s{tube}\r\n").as_bytes()).unwrap();
            peer.line().unwrap();
        }
        // A machine that does much else may be late with the word: then the message comes back, and
        // it is held again.
        let told = (0..20).any(|_| {
            peer.send(b"reserve\r\n").unwrap();
            let told = String::from_utf8(peer.line().unwrap()).unwrap();
            assert!(told == "DEADLINE_SOON\r\n" || told == reserved, "{told}");
            told == "DEADLINE_SOON\r\n" || peer.expect(b"x\r\n").is_err()
        });
        assert!(told, "it never hears of it");
        // The same where it watches nothing of the shard that it holds it of.
        let last = others.clone().last().unwrap();
        let told = (0..20).any(|_| {
            say(&mut peer, "touch 0\r\n", "NOT_FOUND\r\n");
            peer.send(format!("delete {id}\r\n").as_bytes()).unwrap();
            peer.line().unwrap();
            peer.send(b"watch s0\r\nput-in-tube s0 1 0 2 1\r\nx\r\nreserve\r\n").unwrap();
            let heard: Vec<String> =
                (0..4).map(|_| String::from_utf8(peer.line().unwrap()).unwrap()).collect();
            assert!(heard[2].starts_with("RESERVED "), "{heard:?}");
            peer.send(b"ignore s0\r\nreserve-with-timeout 4\r\n").unwrap();
            assert_eq!(peer.line().unwrap(), format!("WATCHING {last}\r\n").as_bytes());
            peer.line().unwrap() == b"DEADLINE_SOON\r\n"
        });
        assert!(told, "it never hears of it");
        peer.send(b"watch s0\r\n").unwrap();
        peer.line().unwrap();
        peer.finish();
        peer.rest();
        let mut sweeper = broker.connect();
        say(&mut sweeper, "delete-tube s0\r\n", "");
        sweeper.line().unwrap();
    }
    // The same where the shard has a message that the client is not given.
    let is_of_default = |tube: &String| shard_of(tube, 6) == shard_of("default", 6);
    let names = || (0..).map(|number| format!("h{number}"));
    let held = names().find(is_of_default).unwrap();
    let other = names().find(|tube| !is_of_default(tube)).unwrap();
    let mut peer = a.connect();
    say(&mut peer, "put 1 0 60 1\r\nx\r\n", "INSERTED ");
    peer.line().unwrap();
    say(&mut peer, &format!("watch {held}\r\nignore default\r\n"), "WATCHING 2\r\nWATCHING 1\r\n");
    for pauses in [false, true] {
        assert!(is_warned(&mut peer, [&held, &other], pauses), "it never hears of it: {pauses}");
    }
    assert!(a.stop().success && b.stop().success);
}

/// Whether a client that watches the tube `held` and holds a message of it is warned while it waits
/// for one of another shard: where it does not watch its own any more, or that is paused.
fn is_warned(peer: &mut Peer, [held, other]: [&str; 2], pauses: bool) -> bool {
    (0..20).any(|_| {
        peer.send(format!("put-in-tube {held} 1 0 2 1\r\nx\r\nreserve\r\n").as_bytes()).unwrap();
        let taken: Vec<String> = (0..3).map(|_| String::from_utf8(peer.line().unwrap()).unwrap()).collect();
        let id = taken[1].split(' ').nth(1).unwrap().to_owned();
        say(peer, &format!("watch {other}\r\n"), "WATCHING 2\r\n");
        if pauses {
            say(peer, &format!("put-in-tube {held} 9 0 60 1\r\nx\r\n"), "INSERTED ");
            peer.line().unwrap();
            say(peer, &format!("pause-tube {held} 60\r\n"), "PAUSED\r\n");
        } else {
            say(peer, &format!("ignore {held}\r\n"), "WATCHING 1\r\n");
        }
        peer.send(b"reserve-with-timeout 4\r\n").unwrap();
        let line = peer.line().unwrap();
        say(peer, &format!("watch {held}\r\nignore {other}\r\n"), "WATCHING 2\r\nWATCHING 1\r\n");
        peer.send(format!("pause-tube {held} 0\r\ndelete {id}\r\n").as_bytes()).unwrap();
        peer.line().unwrap();
        peer.line().unwrap();
        line == b"DEADLINE_SOON\r\n"
    })
}

/// Who waits for a message by memcached's protocol goes on where its shard moves to.
pub(crate) fn a_get_waits_wherever_its_shard_moves(cluster: &Cluster) {
    let name = "shards_get";
    let store = cluster.database(name);
    let flags = ["--store", &store, "--shards", "6"];
    let (first, door) = crate::durable::with_both_doors(&flags);
    are_shared(cluster, name, "6");
    let mut waiting: Vec<Peer> = (0..TUBES).map(|_| Peer::connect(door)).collect();
    for (tube, peer) in waiting.iter_mut().enumerate() {
        peer.send(format!("get s{tube}/t=600000\r\n").as_bytes()).unwrap();
    }
    let mut peer = first.connect();
    until("they wait", || sum(&mut peer, "current-waiting") == TUBES as u64);
    // Half of the shards move to it, and all of them back.
    let second = member(&store);
    are_shared(cluster, name, "3,3");
    assert!(second.stop().success);
    are_shared(cluster, name, "6");
    for (tube, peer) in waiting.iter_mut().enumerate() {
        assert_eq!(peer.pending(), b"");
        let mut putter = first.connect();
        put(&mut putter, tube, 1);
        peer.expect(format!("VALUE s{tube}/t=600000 0 1\r\nx\r\nEND\r\n").as_bytes()).unwrap();
    }
    assert!(first.stop().success);
}

/// Each owner finds the messages of its own shard, whatever they wait for.
pub(crate) fn each_counts_its_own(cluster: &Cluster) {
    let name = "shards_count";
    let store = cluster.database(name);
    let flags = [
        "broker",
        "--listen",
        "127.0.0.1:0",
        "--store",
        &store,
        "--shards",
        "6",
        "--heads",
        "0B",
        "--read-ahead",
        "1",
    ];
    let first = Program::krarup(&flags);
    are_shared(cluster, name, "6");
    let mut peer = first.connect();
    say(&mut peer, "register anna\r\nlogin anna\r\n", "REGISTERED\r\nLOGGED_IN\r\n");
    for tube in 0..TUBES {
        put(&mut peer, tube, 1);
        peer.send(format!("use s{tube}\r\nput 1 1000 60 1\r\nd\r\nput-to anna 1 0 60 1\r\na\r\n").as_bytes())
            .unwrap();
        for word in ["USING ", "INSERTED ", "INSERTED "] {
            assert!(String::from_utf8(peer.line().unwrap()).unwrap().starts_with(word));
        }
        let id = put(&mut peer, tube, 0);
        say(&mut peer, &format!("watch s{tube}\r\n"), "WATCHING 2\r\n");
        say(
            &mut peer,
            &format!("reserve-with-timeout 0\r\nbury {id} 1\r\n"),
            &format!("RESERVED {id} 1\r\nx\r\nBURIED\r\n"),
        );
        say(&mut peer, &format!("ignore s{tube}\r\n"), "WATCHING 1\r\n");
    }
    assert!(first.stop().success);
    // As brokers without an owner leave it.
    cluster.sql(
        name,
        "UPDATE krarup.message SET state = 3 WHERE tube < 's5' AND state = 0 AND receiver IS NULL",
    );
    let mut second = Program::begin(&flags);
    let found: usize = (0..6)
        .map(|_| {
            second.says(|line| {
                let (_, rest) = line.strip_prefix("shard ")?.split_once(": ")?;
                rest.split_once(" messages were there")?.0.parse::<usize>().ok()
            })
        })
        .sum();
    assert_eq!(found, 4 * TUBES);
    are_shared(cluster, name, "6");
    let left = "SELECT string_agg(state || ':' || many, ' ' ORDER BY state) FROM \
                (SELECT state, count(*) AS many FROM krarup.message GROUP BY state) AS states";
    assert_eq!(cluster.sql(name, left), format!("0:{} 1:{TUBES} 2:{TUBES}", 2 * TUBES));
    assert!(second.stop().success);
    // A sender's messages, in all shards, are popped once.
    let third = Program::krarup(&flags);
    are_shared(cluster, name, "6");
    let mut peer = third.connect();
    say(&mut peer, "login anna\r\n", "LOGGED_IN\r\n");
    for _ in 0..2 * TUBES {
        peer.send(b"pop-sender anna\r\n").unwrap();
        assert!(peer.line().unwrap().starts_with(b"POPPED "));
        peer.line().unwrap();
    }
    say(&mut peer, "pop-sender anna\r\n", "EMPTY\r\n");
    assert_eq!(cluster.sql(name, left), format!("1:{TUBES} 2:{TUBES}"));
    assert!(third.stop().success);
}

/// Asked once it waits for answers that do not come; asked twice it does not.
pub(crate) fn a_broker_that_is_asked_to_stop_twice_hurries(cluster: &Cluster) {
    let name = "shards_hurry";
    let store = cluster.database(name);
    let mut broker = Program::krarup(&[
        "broker",
        "--listen",
        "127.0.0.1:0",
        "--store",
        &store,
        "--shards",
        "2",
        "--patience",
        "1h",
        "--admin",
        "127.0.0.1:0",
    ]);
    let admin = admin(&mut broker);
    are_shared(cluster, name, "2");
    until("its shards are ready", || asked(admin, "GET", "/ready").starts_with("HTTP/1.1 200"));
    let mut peer = broker.connect();
    put(&mut peer, 0, 1);
    cluster.commits_wait(name, true);
    peer.send(b"put-in-tube s0 1 0 60 1\r\nx\r\n").unwrap();
    until("the put waits for its commit", || cluster.has_session(name, "wait_event = 'SyncRep'"));
    broker.interrupt();
    broker.says_text("stopping");
    until("they are not ready any more", || asked(admin, "GET", "/ready").starts_with("HTTP/1.1 503"));
    broker.interrupt();
    let ended = broker.ended();
    cluster.commits_wait(name, false);
    assert!(ended.success && ended.errors.contains("did not have their answers"), "{ended:?}");
}

/// A port that is taken keeps no shard from being served.
pub(crate) fn a_shard_is_served_without_an_admin_address(cluster: &Cluster) {
    let name = "shards_admin";
    let store = cluster.database(name);
    let taken = listen();
    let port = taken.local_addr().unwrap().port();
    let below = format!("127.0.0.1:{}", port - 1);
    let flags = ["--store", &store, "--shards", "2", "--admin", &below];
    let mut broker = Program::krarup(&[&["broker", "--listen", "127.0.0.1:0"], &flags[..]].concat());
    let told = broker.says(|line| line.contains("shard 1 has no admin address").then(|| line.to_owned()));
    assert!(told.contains(&port.to_string()), "{told}");
    are_shared(cluster, name, "2");
    let mut peer = broker.connect();
    (0..TUBES).for_each(|tube| _ = put(&mut peer, tube, 1));
    assert!(broker.stop().success);
}

/// Clients may be sent to it, whichever shard's port is asked.
pub(crate) fn a_broker_is_ready_whichever_shards_it_owns(cluster: &Cluster) {
    let name = "shards_ready";
    let store = cluster.database(name);
    let flags = ["broker", "--listen", "127.0.0.1:0", "--store", &store, "--shards", "2"];
    let (shown, key) = (certificate("proxy.pem"), certificate("proxy.key"));
    let its = ["--admin", "127.0.0.1:0", "--tls-certificate", &shown, "--tls-key", &key];
    let mut first = Program::krarup(&[&flags[..], &its].concat());
    let ports = [(); 2].map(|()| admin(&mut first));
    let all_are_ready = || ports.iter().all(|&port| asked(port, "GET", "/ready").starts_with("HTTP/1.1 200"));
    until("both of its own are ready", all_are_ready);
    let second = Program::krarup(&flags);
    are_shared(cluster, name, "1,1");
    let waits = |port| asked(port, "GET", "/metrics").contains("\nkrarup_broker_waiting 1\n");
    until("one is the other's", || ports.into_iter().filter(|&port| waits(port)).count() == 1);
    until("both are ready all the same", all_are_ready);
    let reads = |&port: &SocketAddr| asked(port, "POST", "/reload").starts_with("HTTP/1.1 200");
    assert!(ports.iter().all(reads), "the certificate of its clients, whichever port is asked");
    assert!(first.stop().success && second.stop().success);
}

/// Where metrics of the broker, or of the shard that is served next, are.
pub(crate) fn admin(broker: &mut Program) -> SocketAddr {
    broker.says(|line| line.strip_prefix("metrics on http://")?.trim().strip_suffix("/metrics")?.parse().ok())
}

/// A broker in this mode, and its admin address.
pub(crate) fn broker_with_admin(store: &str, mode: &str) -> (Program, SocketAddr) {
    let begin = ["broker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--mode", mode];
    let mut broker = Program::begin(&[&begin[..], &["--store", store]].concat());
    let admin = admin(&mut broker);
    (broker.listening(), admin)
}

/// Through a file and by TLS, and what was measured is kept.
pub(crate) fn clients_come_by_every_door(cluster: &Cluster) {
    let name = "shards_doors";
    let store = cluster.database(name);
    let (proxied, key) = (certificate("proxy.pem"), certificate("proxy.key"));
    let folder = fresh("shards-doors");
    fs::create_dir_all(&folder).unwrap();
    let (socket, rows) = (folder.join("broker.sock"), folder.join("rows.parquet"));
    let flags = ["--store", &store, "--shards", "3", "--admin", "127.0.0.1:0"];
    let tls_flags = ["--tls-certificate", &proxied, "--tls-key", &key];
    let rows_flags = ["--rows", rows.to_str().unwrap(), "--stats-dir", folder.to_str().unwrap()];
    let (mut encrypted, door) =
        crate::durable::with_both_doors(&[&flags[..], &tls_flags, &rows_flags].concat());
    // The certificate of the clients is read again, whichever shard's port is asked.
    let admin = admin(&mut encrypted);
    until("the shard is served", || asked(admin, "POST", "/reload").starts_with("HTTP/1.1 200"));
    let listen = format!("unix:{}", socket.display());
    let mut local = Program::begin(&["broker", "--listen", &listen, "--store", &store, "--shards", "3"]);
    local.says_text("listening on unix:");
    are_shared(cluster, name, "1,2");
    // The proxy is the client of a server that speaks TLS.
    let config = format!(
        "connect_timeout = \"60s\"\n[edge]\nserver_tls = {{ authorities = {:?} }}\n",
        certificate("authority.pem")
    );
    let config = file("shards-tls", &config);
    let door = door.to_string();
    let proxy =
        Program::krarup(&["proxy", "--listen", "127.0.0.1:0", "--servers", &door, "--config", &config]);
    let mut peer = proxy.connect();
    let value = "v".repeat(60_000);
    let mut through_file = UnixStream::connect(&socket).unwrap();
    through_file.set_read_timeout(Some(TOO_LONG)).unwrap();
    // Every owner's records begin anew.
    through_file.write_all(b"stats-reset\r\n").unwrap();
    for tube in 0..TUBES {
        say(&mut peer, &format!("set s{tube} 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
        through_file.write_all(format!("watch s{tube}\r\n").as_bytes()).unwrap();
    }
    through_file.write_all(format!("{}quit\r\n", "pop 30\r\n".repeat(TUBES)).as_bytes()).unwrap();
    let mut heard = String::new();
    through_file.read_to_string(&mut heard).unwrap();
    assert_eq!(heard.matches(&format!(" {}\r\n{value}\r\n", value.len())).count(), TUBES);
    assert!(heard.starts_with("RESET\r\n"), "{}", &heard[..heard.len().min(99)]);
    // Plain bytes are no greeting.
    let mut plain = encrypted.connect();
    plain.send(b"ping\r\n").unwrap();
    assert!(!plain.rest().starts_with(b"PONG"));
    assert!(proxy.stop().success && local.stop().success);
    assert!(!socket.exists());
    let ended = encrypted.stop();
    assert!(ended.success && ended.errors.contains(" rows in "), "{ended:?}");
    for kept in ["rows.parquet", "windows.csv", "summary.json"] {
        assert!(fs::metadata(folder.join(kept)).unwrap().len() > 0);
    }
}

/// Brokers ask each other for the secret alone.
pub(crate) fn who_is_asked_for_certificates_or_permissions_is_asked_for_a_secret(cluster: &Cluster) {
    let store = cluster.database("shards_secret");
    let [shown, key, authority] = ["proxy.pem", "proxy.key", "authority.pem"].map(certificate);
    let socket = fresh("shards-secret.sock");
    let listen = format!("unix:{}", socket.display());
    let begin = |flags: &[&str]| {
        Program::begin(&[&["broker", "--store", &store, "--shards", "2"][..], flags].concat())
    };
    let shows = ["--listen", "127.0.0.1:0", "--tls-certificate", &shown, "--tls-key", &key];
    let certified = [&shows[..], &["--tls-client-authorities", &authority]].concat();
    let permitted = ["--listen", listen.as_str(), "--socket-mode", "0600"];
    for flags in [&certified[..], &permitted] {
        let ended = begin(flags).ended();
        assert!(ended.code == Some(2) && ended.errors.contains("add --secret FILE"), "{ended:?}");
    }
    let secret = file("shards-secret", "open-sesame\n");
    let mut broker = begin(&[&permitted[..], &["--secret", &secret]].concat());
    broker.says_text("listening on unix:");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(broker.stop().success);
}

fn put(peer: &mut Peer, tube: usize, priority: u32) -> u64 {
    peer.send(format!("put-in-tube s{tube} {priority} 0 60 1\r\nx\r\n").as_bytes()).unwrap();
    let line = String::from_utf8(peer.line().unwrap()).unwrap();
    line.trim_end().strip_prefix("INSERTED ").unwrap().parse().unwrap()
}

/// What a client is answered that closes its side once it has asked.
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
