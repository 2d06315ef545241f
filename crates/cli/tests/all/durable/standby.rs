//! Brokers that wait for their turn: what becomes of them when the database goes and comes, and of
//! those that have lost their turn.

use std::fs;

use rustix::process::Signal;

use crate::durable::cluster::Cluster;
use crate::durable::shards::{admin, are_shared};
use crate::durable::{MODES, broker, say};
use crate::support::peer::{Peer, asked};
use crate::support::process::Program;
use crate::support::{certificate, file, fresh, until};

/// A broker that waits: another has its turn.
fn waiting(store: &str, flags: &[&str]) -> Program {
    let begin = ["broker", "--listen", "127.0.0.1:0", "--store", store];
    let mut waiting = Program::begin(&[&begin[..], flags].concat());
    waiting.says_text("waiting: ");
    waiting
}

/// It serves: a message goes in and comes out.
fn serves(broker: &Program) {
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 1\r\nx\r\n", "INSERTED ");
    peer.line().unwrap();
    say(&mut peer, "pop\r\n", "POPPED ");
    peer.line().unwrap();
    peer.expect(b"x\r\n").unwrap();
}

/// The same broker serves again, at its address before.
fn again(broker: Program) -> Program {
    let before = broker.address();
    let broker = broker.listening();
    assert_eq!(broker.address(), before);
    serves(&broker);
    broker
}

pub(crate) fn a_waiting_broker_outlives_the_database_and_its_sessions(cluster: &Cluster) {
    for (number, flags) in
        [&["--mode", "owned"], &["--mode", "batch"], &["--mode", "direct"], &["--shards", "3"]]
            .into_iter()
            .enumerate()
    {
        let name = format!("outlives_{number}");
        let store = cluster.database(&name);
        let owner = broker(&store, "owned");
        let mut second = waiting(&store, flags);
        // Its session alone: the owner's stands.
        until("it is cut", || cluster.cut(&name, "query ~ 'pg_try_advisory_lock(_shared)?.1802658162, 2'"));
        second.says_text("goes on waiting");
        second.says_text("the database is there again");
        cluster.crash();
        second.says_text("goes on waiting");
        cluster.up();
        second.says_text("the database is there again");
        // Whichever was quicker: the owner is no more, and there is another.
        owner.kill();
        let second = second.listening();
        serves(&second);
        assert!(second.stop().success, "{flags:?}");
    }
}

/// Monitoring is answered while it waits, and from what it serves once it does.
pub(crate) fn monitoring_hears_of_a_broker_that_waits(cluster: &Cluster) {
    for mode in ["owned", "batch"] {
        let store = cluster.database(&format!("hears_{mode}"));
        let owner = broker(&store, "owned");
        let begin = ["broker", "--listen", "127.0.0.1:0", "--store", &store];
        let mut second = Program::begin(&[&begin[..], &["--mode", mode, "--admin", "127.0.0.1:0"]].concat());
        let admin = admin(&mut second);
        second.says_text("waiting: ");
        let waits = format!("the broker at {} owns the queues", owner.address());
        until("it says what it waits for", || {
            let ready = asked(admin, "GET", "/ready");
            ready.starts_with("HTTP/1.1 503") && ready.contains(&waits)
        });
        assert!(asked(admin, "GET", "/health").starts_with("HTTP/1.1 200"));
        let metrics = asked(admin, "GET", "/metrics");
        assert!(metrics.contains("\nkrarup_broker_waiting 1\n"), "{metrics}");
        assert!(!metrics.contains("krarup_broker_clients"), "{metrics}");
        assert!(asked(admin, "GET", "/headroom").starts_with("HTTP/1.1 503"));
        assert!(asked(admin, "POST", "/metrics").starts_with("HTTP/1.1 405"));
        assert!(owner.stop().success);
        let second = second.listening();
        until("it is ready", || asked(admin, "GET", "/ready").starts_with("HTTP/1.1 200"));
        let metrics = asked(admin, "GET", "/metrics");
        assert!(metrics.contains("\nkrarup_broker_waiting 0\n"), "{metrics}");
        assert!(second.stop().success);
    }
}

/// Its clients connect once it serves.
pub(crate) fn a_certificate_that_is_renewed_while_it_waits_is_shown(cluster: &Cluster) {
    let store = cluster.database("renewed");
    let shown = fresh("standby-shown.pem");
    let put = |name: &str| fs::copy(certificate(name), &shown).unwrap();
    put("expired.pem");
    let owner = broker(&store, "owned");
    let (shown_name, key) = (shown.to_str().unwrap(), certificate("proxy.key"));
    let doors = ["broker", "--listen", "127.0.0.1:0", "--memcached-listen", "127.0.0.1:0"];
    let flags = ["--store", &store, "--admin", "127.0.0.1:0", "--tls-certificate", shown_name, "--tls-key"];
    let mut second = Program::begin(&[&doors[..], &flags, &[&key]].concat());
    let admin = admin(&mut second);
    second.says_text("waiting: ");
    let reloaded = asked(admin, "POST", "/reload");
    assert!(reloaded.starts_with("HTTP/1.1 200") && reloaded.contains("has expired"), "{reloaded}");
    put("proxy.pem");
    let reloaded = asked(admin, "POST", "/reload");
    assert!(reloaded.starts_with("HTTP/1.1 200") && !reloaded.contains("warning"), "{reloaded}");
    assert!(owner.stop().success);
    let mut second = second.listening();
    let door: String =
        second.says(|line| Some(line.strip_prefix("memcached's protocol on ")?.trim().to_owned()));
    // The proxy is a client that looks at the certificate.
    let config = format!(
        "connect_timeout = \"60s\"\n[edge]\nserver_tls = {{ authorities = {:?} }}\n",
        certificate("authority.pem")
    );
    let config = file("standby-tls", &config);
    let proxy =
        Program::krarup(&["proxy", "--listen", "127.0.0.1:0", "--servers", &door, "--config", &config]);
    say(&mut proxy.connect(), "set jobs 0 0 1\r\nx\r\n", "STORED\r\n");
    assert!(proxy.stop().success && second.stop().success);
}

/// One that waits does not listen at a file, and says so.
pub(crate) fn clients_are_sent_on_from_ports_alone(cluster: &Cluster) {
    let store = cluster.database("files");
    let owner = broker(&store, "owned");
    let socket = fresh("standby.sock");
    let listen = format!("unix:{}", socket.display());
    let mut second = Program::begin(&["broker", "--listen", &listen, "--store", &store]);
    second.says_text("clients are not sent on: the address to listen at is a unix socket");
    assert!(!socket.exists());
    assert!(second.stop().success && owner.stop().success);
}

pub(crate) fn a_deposed_owner_is_the_next_that_waits(cluster: &Cluster) {
    let store = cluster.database("deposed_waits");
    let mut first = broker(&store, "owned");
    serves(&first);
    for _ in 0..2 {
        let second = waiting(&store, &[]);
        first.freeze();
        let second = second.listening();
        serves(&second);
        first.signal(Signal::CONT);
        first.says_text("this one waits for its turn");
        first.says_text("waiting: ");
        second.kill();
        first = again(first);
    }
    let ended = first.stop();
    assert!(ended.success && ended.output.matches("requests in").count() == 3, "{ended:?}");
}

/// As where a fail-over loses that it has become the owner: the next one is numbered on from the
/// owner before.
pub(crate) fn an_owner_whose_turn_is_lost_writes_nothing(cluster: &Cluster) {
    let name = "turn_lost";
    let store = cluster.database(name);
    let mut first = broker(&store, "owned");
    serves(&first);
    let mut peer = first.connect();
    first.freeze();
    cluster.end_sessions(name);
    cluster.sql(name, "UPDATE krarup.owner SET epoch = epoch - 1");
    let second = broker(&store, "owned");
    serves(&second);
    peer.send(b"put 1 0 60 1\r\nx\r\n").unwrap();
    first.signal(Signal::CONT);
    first.says_text("this one waits for its turn");
    first.says_text("waiting: ");
    assert_eq!(peer.rest(), b"");
    assert_eq!(cluster.sql(name, "SELECT count(*) FROM krarup.message"), "0");
    assert!(second.stop().success);
    assert!(again(first).stop().success);
}

/// A row of an owner that goes on seems old until it renews it.
pub(crate) fn a_step_of_the_databases_clock_ends_no_owner(cluster: &Cluster) {
    let name = "clock_steps";
    let store = cluster.database(name);
    let first = broker(&store, "owned");
    let second = waiting(&store, &[]);
    let who = || cluster.sql(name, "SELECT epoch, process FROM krarup.owner");
    let before = who();
    let renewed = "SELECT renewed > clock_timestamp() - interval '1 s' FROM krarup.owner";
    for _ in 0..3 {
        cluster.sql(name, "UPDATE krarup.owner SET renewed = renewed - interval '5 s'");
        until("it is renewed", || cluster.sql(name, renewed) == "t");
    }
    assert_eq!(who(), before);
    assert!(first.stop().success);
    assert!(second.listening().stop().success);
}

/// However long that takes, it says meanwhile that it is there.
pub(crate) fn an_owner_that_clears_away_for_long_goes_on(cluster: &Cluster) {
    for (kind, flags) in [("shards", ["--shards", "2"]), ("owned", ["--mode", "owned"])] {
        let name = format!("clears_away_{kind}");
        let store = cluster.database(&name);
        let begin = ["broker", "--listen", "127.0.0.1:0", "--store", &store];
        let begin = [&begin[..], &flags].concat();
        let first = Program::krarup(&begin);
        let second = if kind == "shards" { Program::krarup(&begin) } else { waiting(&store, &flags) };
        if kind == "shards" {
            are_shared(cluster, &name, "1,1");
        }
        cluster.sql(
            &name,
            "CREATE OR REPLACE FUNCTION krarup.prune() RETURNS integer LANGUAGE plpgsql AS \
                 $$ BEGIN PERFORM pg_sleep(3600); RETURN 0; END $$",
        );
        let owners =
            "SELECT string_agg(format('%s by %s', epoch, process), ', ' ORDER BY shard) FROM krarup.owner";
        let before = cluster.sql(&name, owners);
        until("it clears away", || cluster.has_session(&name, "wait_event = 'PgSleep'"));
        let then = cluster.sql(&name, "SELECT clock_timestamp()");
        // That is longer than an owner may be silent.
        let renewed =
            format!("SELECT bool_and(renewed > '{then}'::timestamptz + interval '2 s') FROM krarup.owner");
        until("it is renewed all the same", || cluster.sql(&name, &renewed) == "t");
        assert_eq!(cluster.sql(&name, owners), before, "{kind}");
        serves(&first);
        assert!(first.stop().success);
        let second = if kind == "shards" { second } else { second.listening() };
        assert!(second.stop().success);
    }
}

/// As where a backup is looked at beside the database that it is one of: its rows name sessions
/// that are at work there.
pub(crate) fn a_copy_in_the_same_server_ends_no_owner(cluster: &Cluster) {
    for (kind, flags) in [("shards", ["--shards", "2"]), ("owned", ["--mode", "owned"])] {
        let (name, copy) = (format!("original_{kind}"), format!("copy_{kind}"));
        let (store, beside) = (cluster.database(&name), cluster.database(&copy));
        let start = |store: &str| {
            let begin = ["broker", "--listen", "127.0.0.1:0", "--store", store];
            Program::krarup(&[&begin[..], &flags].concat())
        };
        assert!(start(&beside).stop().success);
        let original = start(&store);
        if kind == "shards" {
            are_shared(cluster, &name, "2");
        }
        let sessions = "SELECT string_agg(format('%s by %s', epoch, process), ', ' ORDER BY shard) \
                        FROM krarup.owner JOIN pg_stat_activity ON pid = process";
        let before = cluster.sql(&name, sessions);
        let rows = "SELECT string_agg(format('UPDATE krarup.owner SET process = %s, renewed = now() - interval ''1 hour'' \
                                              WHERE shard = %s', process, shard), ';') FROM krarup.owner";
        cluster.sql(&copy, &cluster.sql(&name, rows));
        if kind == "shards" {
            let second = start(&beside);
            are_shared(cluster, &copy, "2");
            assert!(second.stop().success);
        } else {
            let shares = broker(&beside, "batch");
            let second = waiting(&beside, &[]);
            // It looks for longer than an owner may be silent.
            cluster.sql(&copy, "SELECT pg_sleep(2)");
            assert!(second.stop().success && shares.stop().success);
        }
        assert_eq!(cluster.sql(&name, sessions), before, "{kind}");
        assert!(original.stop().success);
    }
}

/// The database goes while a broker that shares the queues hangs, and comes back with an owner.
pub(crate) fn brokers_that_share_wait_again_where_there_is_an_owner(cluster: &Cluster) {
    for mode in &MODES[1..] {
        let store = cluster.database(&format!("deposed_{mode}"));
        let mut shares = broker(&store, mode);
        serves(&shares);
        shares.freeze();
        cluster.crash_and_restart();
        let owner = broker(&store, "owned");
        shares.signal(Signal::CONT);
        shares.says_text("this one waits for its turn");
        shares.says_text("waiting: ");
        assert!(owner.stop().success);
        assert!(again(shares).stop().success, "{mode}");
    }
}

pub(crate) fn members_wait_again_where_the_queues_are_divided_otherwise(cluster: &Cluster) {
    let store = cluster.database("otherwise");
    let mut member =
        Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--store", &store, "--shards", "2"]);
    serves(&member);
    member.freeze();
    cluster.crash_and_restart();
    let owner = broker(&store, "owned");
    member.signal(Signal::CONT);
    member.says_text("the queues have been divided otherwise");
    member.says_text("waiting: ");
    serves(&owner);
    assert!(owner.stop().success);
    assert!(again(member).stop().success);
}

pub(crate) fn signals_are_obeyed_while_it_waits(cluster: &Cluster) {
    for (number, flags) in
        [&["--mode", "owned"], &["--mode", "batch"], &["--shards", "3"]].into_iter().enumerate()
    {
        let name = format!("signals_{number}");
        let store = cluster.database(&name);
        let owner = broker(&store, "owned");
        let (mut drains, stops) = (waiting(&store, flags), waiting(&store, flags));
        assert!(stops.stop().success, "{flags:?}");
        drains.signal(Signal::USR1);
        drains.says_text("draining");
        assert!(owner.stop().success);
        let drains = drains.listening();
        let mut peer = drains.connect();
        say(&mut peer, "put 1 0 60 1\r\nx\r\n", "DRAINING\r\n");
        // What an application has committed cannot be refused any more.
        cluster.sql(&name, "SELECT krarup.put('default', 'y')");
        say(&mut peer, "pop 30\r\n", "POPPED ");
        assert!(drains.stop().success, "{flags:?}");
    }
}

/// Nor for one that hangs.
pub(crate) fn a_stop_does_not_wait_for_a_database_that_is_gone(cluster: &Cluster) {
    for (number, flags) in
        [&["--mode", "owned"], &["--mode", "batch"], &["--mode", "direct"], &["--shards", "3"]]
            .into_iter()
            .enumerate()
    {
        let store = cluster.database(&format!("gone_{number}"));
        let begin = ["broker", "--listen", "127.0.0.1:0", "--patience", "100ms", "--store", &store];
        let mut broker = Program::krarup(&[&begin[..], flags].concat());
        serves(&broker);
        cluster.crash();
        broker.says_text("the database is out of reach");
        let mut peer: Peer = broker.connect();
        peer.send(b"put 1 0 60 1\r\nx\r\n").unwrap();
        broker.interrupt();
        assert!(broker.ended().success, "{flags:?}");
        assert_eq!(peer.rest(), b"");
        cluster.up();
    }
}

/// The tables are those of a later version by then.
pub(crate) fn what_was_recorded_is_kept_where_no_further_turn_begins(cluster: &Cluster) {
    let store = cluster.database("recorded");
    let folder = fresh("recorded");
    fs::create_dir_all(&folder).unwrap();
    let (rows, statistics) = (folder.join("rows.parquet"), folder.join("statistics"));
    let flags = ["--rows", rows.to_str().unwrap(), "--stats-dir", statistics.to_str().unwrap()];
    let begin = ["broker", "--listen", "127.0.0.1:0", "--store", &store];
    let broker = Program::krarup(&[&begin[..], &flags[..]].concat());
    serves(&broker);
    cluster.sql("recorded", "INSERT INTO krarup.migration (version) VALUES (1000)");
    cluster.sql("recorded", "UPDATE krarup.owner SET epoch = epoch + 1");
    let mut peer = broker.connect();
    peer.send(b"put 1 0 60 1\r\nx\r\n").unwrap();
    let ended = broker.ended();
    assert!(ended.code == Some(1) && ended.errors.contains("later version"), "{ended:?}");
    assert!(rows.exists() && statistics.join("summary.json").exists(), "{ended:?}");
}
