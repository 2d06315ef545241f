//! `krarup broker` over PostgreSQL: what was answered is there after a crash of either, once.
//!
//! Left out, with a line that says so, where PostgreSQL is not installed.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use durable::cluster::Cluster;
use durable::storm::Storm;
use support::peer::Peer;
use support::process::{Program, skipped};
use support::{fresh, until};

mod durable {
    pub(crate) mod cluster;
    pub(crate) mod storm;
}
mod support;

fn say(peer: &mut Peer, said: &str, expected: &str) {
    peer.send(said.as_bytes()).unwrap();
    peer.expect(expected.as_bytes()).unwrap_or_else(|why| panic!("after {said:?}:\n{why}"));
}

fn broker(store: &str) -> Program {
    Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--store", store])
}

#[test]
fn messages_outlive_the_broker_and_its_own_postgresql() {
    let Some(programs) = durable::cluster::programs() else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let folder = fresh("embedded");
    let _left = Left { programs, data: folder.join("data") };
    let flags = ["broker", "--listen", "127.0.0.1:0", "--postgres-embedded", folder.to_str().unwrap()];
    let broker = Program::krarup(&flags);
    let mut peer = broker.connect();
    say(&mut peer, "use jobs\r\nput 7 0 60 5\r\nhello\r\n", "USING jobs\r\nINSERTED 1\r\n");
    say(&mut peer, "put 8 1000 60 5\r\nlater\r\n", "INSERTED 2\r\n");
    say(
        &mut peer,
        "put 1 0 60 5\r\naside\r\nwatch jobs\r\nreserve\r\n",
        "INSERTED 3\r\nWATCHING 2\r\nRESERVED 3 5\r\naside\r\n",
    );
    say(&mut peer, "bury 3 5\r\nput 9 0 60 1\r\nx\r\ndelete 4\r\n", "BURIED\r\nINSERTED 4\r\nDELETED\r\n");
    say(
        &mut peer,
        "register anna\r\ncreate-tube q\r\nlimit-tube jobs 3 dead\r\n",
        "REGISTERED\r\nCREATED\r\nLIMITED\r\n",
    );
    say(&mut peer, "use q\r\nput-unique k 1 0 60 1\r\nu\r\n", "USING q\r\nINSERTED 5\r\n");
    // Twice: first both end in order, then the broker is killed and leaves its PostgreSQL behind.
    assert!(broker.stop().success);
    let broker = Program::krarup(&flags);
    let mut peer = broker.connect();
    say(
        &mut peer,
        "use jobs\r\npeek-ready\r\npeek-delayed\r\npeek-buried\r\n",
        "USING jobs\r\nFOUND 1 5\r\nhello\r\nFOUND 2 5\r\nlater\r\nFOUND 3 5\r\naside\r\n",
    );
    say(&mut peer, "put 9 0 60 1\r\nx\r\n", "INSERTED 6\r\n");
    broker.kill();
    let broker = Program::krarup(&flags);
    let mut peer = broker.connect();
    say(&mut peer, "use jobs\r\npeek 6\r\nkick 1\r\n", "USING jobs\r\nFOUND 6 1\r\nx\r\nKICKED 1\r\n");
    say(&mut peer, "watch jobs\r\nreserve\r\n", "WATCHING 2\r\nRESERVED 3 5\r\naside\r\n");
    say(&mut peer, "login anna\r\nput-to anna 0 0 60 1\r\nm\r\n", "LOGGED_IN\r\nINSERTED ");
    peer.line().unwrap();
    say(&mut peer, "use q\r\nput-unique k 1 0 60 1\r\nu\r\n", "USING q\r\nEXISTS 5\r\n");
    say(&mut peer, "peek-tube q\r\n", "FOUND 5 1\r\nu\r\n");
    assert!(broker.stop().success);
}

#[test]
fn nothing_that_was_answered_is_lost_and_nothing_comes_twice() {
    let Some(cluster) = Cluster::start("faults") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    the_owner_is_killed_and_another_takes_over(&cluster);
    the_session_is_cut_again_and_again(&cluster);
    postgresql_crashes_and_comes_back(&cluster);
    a_database_that_refuses_to_write_refuses_puts_and_loses_nothing(&cluster);
    what_applications_lay_down_is_in_its_queue(&cluster);
}

fn the_owner_is_killed_and_another_takes_over(cluster: &Cluster) {
    let store = cluster.database("killed");
    let first = broker(&store);
    let mut second = Program::begin(&["broker", "--listen", "127.0.0.1:0", "--store", &store]);
    second.says_text("waiting: the broker at");
    let storm = Storm::begin(first.address(), 6);
    storm.wait_for(300);
    first.kill();
    let history = storm.end();
    let second = second.listening();
    history.check(second.address());
    assert!(second.stop().success);
}

fn the_session_is_cut_again_and_again(cluster: &Cluster) {
    let store = cluster.database("cut");
    let broker = broker(&store);
    let storm = Storm::begin(broker.address(), 6);
    for round in 1..=8 {
        storm.wait_for(round * 60);
        cluster.sql("cut", "SELECT pg_terminate_backend(process) FROM krarup.owner");
    }
    storm.wait_for(600);
    let history = storm.end();
    assert!(history.lost_connections == 0, "the broker stands");
    history.check(broker.address());
    assert!(broker.stop().success);
}

fn postgresql_crashes_and_comes_back(cluster: &Cluster) {
    let store = cluster.database("crash");
    let broker = broker(&store);
    let storm = Storm::begin(broker.address(), 6);
    for round in 1..=2 {
        storm.wait_for(round * 100);
        cluster.crash_and_restart();
    }
    storm.wait_for(400);
    let history = storm.end();
    assert!(history.lost_connections == 0, "the broker stands");
    history.check(broker.address());
    assert!(broker.stop().success);
}

fn a_database_that_refuses_to_write_refuses_puts_and_loses_nothing(cluster: &Cluster) {
    let store = cluster.database("refuses");
    let broker = broker(&store);
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    cluster.read_only("refuses", true);
    until("puts are refused", || {
        peer.send(b"put 1 0 60 1\r\nb\r\n").unwrap();
        peer.line().unwrap() == b"OUT_OF_MEMORY\r\n"
    });
    // Its answer waits until the database writes again.
    peer.send(b"delete 1\r\n").unwrap();
    cluster.read_only("refuses", false);
    peer.expect(b"DELETED\r\n").unwrap();
    until("puts are accepted", || {
        peer.send(b"put 1 0 60 1\r\nc\r\n").unwrap();
        peer.line().unwrap().starts_with(b"INSERTED")
    });
    assert_eq!(cluster.sql("refuses", "SELECT count(*) FROM krarup.message WHERE id = 1"), "0");
    assert!(broker.stop().success);
}

fn what_applications_lay_down_is_in_its_queue(cluster: &Cluster) {
    let store = cluster.database("laid");
    let broker = broker(&store);
    let mut peer = broker.connect();
    say(&mut peer, "watch bills\r\n", "WATCHING 2\r\n");
    cluster.sql("laid", "BEGIN; SELECT krarup.put('bills', 'none'); ROLLBACK");
    cluster.sql("laid", "SELECT krarup.put('bills', 'one')");
    say(&mut peer, "reserve-with-timeout 15\r\n", "RESERVED 1 3\r\none\r\n");
    say(&mut peer, "reserve-with-timeout 1\r\n", "TIMED_OUT\r\n");
    assert_eq!(cluster.sql("laid", "SELECT count(*) FROM krarup.incoming"), "0");
    // Applications may not lay down what could not be put.
    let bad = cluster.try_sql("laid", "SELECT krarup.put('no good', 'x')");
    assert!(!bad.status.success());
    assert!(broker.stop().success);
}

/// What a broker that was killed leaves running ends with the test, whatever becomes of it.
struct Left {
    programs: PathBuf,
    data: PathBuf,
}

impl Drop for Left {
    fn drop(&mut self) {
        let mut command = program_of(&self.programs, "pg_ctl");
        // Where it has ended already there is nothing to do.
        let _ = command.arg("-D").arg(&self.data).args(["-m", "immediate", "stop"]).output();
    }
}

/// What a program wrote to stdout, if it ended well.
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A program of PostgreSQL's, as a user that it accepts.
fn program_of(folder: &Path, name: &str) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(folder.join(name));
        command
    } else {
        Command::new(folder.join(name))
    };
    command.current_dir("/");
    command
}
