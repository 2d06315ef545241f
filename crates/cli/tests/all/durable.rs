//! `krarup broker` over PostgreSQL: what was answered is there after a crash of either, once.
//!
//! Left out, with a line that says so, where PostgreSQL is not installed.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use cluster::Cluster;
use storm::Storm;

use crate::edge::taking;
use crate::support::peer::Peer;
use crate::support::process::{Program, python, skipped};
use crate::support::{file, fresh, shown, until};
use rustix::process::{Pid, Signal, kill_process_group};

mod backlog;
pub(crate) mod cluster;
mod counts;
mod ends;
mod failover;
mod history;
mod model;
mod outbox;
mod patroni;
mod refused;
mod secured;
mod shards;
mod snapshot;
mod standby;
mod storm;
mod turns;
mod versions;

fn say(peer: &mut Peer, said: &str, expected: &str) {
    peer.send(said.as_bytes()).unwrap();
    peer.expect(expected.as_bytes()).unwrap_or_else(|why| panic!("after {said:?}:\n{why}"));
}

/// Who decides, and how the database is asked.
const MODES: [&str; 3] = ["owned", "batch", "direct"];

fn broker(store: &str, mode: &str) -> Program {
    Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--store", store, "--mode", mode, "--pool", "5"])
}

/// An owner that holds no more in memory than so many messages of each line.
fn of_heads(store: &str, count: &str) -> Program {
    let flags =
        ["broker", "--listen", "127.0.0.1:0", "--store", store, "--heads", "0B", "--read-ahead", count];
    Program::krarup(&flags)
}

#[test]
fn messages_outlive_the_broker_and_its_own_postgresql() {
    let Some(programs) = cluster::programs() else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let folder = fresh("embedded");
    let _left = Left { programs, data: folder.join("data") };
    let flags = ["broker", "--listen", "127.0.0.1:0", "--postgres-embedded", folder.to_str().unwrap()];
    let broker = Program::krarup(&flags);
    // Who may open it is the superuser.
    let socket = fs::metadata(folder.join(".s.PGSQL.5432")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o700);
    // A second one is refused, and leaves the database of the first as it is.
    let second = Program::begin(&flags).ended();
    let share = format!("--store \"host={} port=5432 ", folder.display());
    assert!(second.code == Some(2) && second.errors.contains("another broker uses "), "{second:?}");
    assert!(second.errors.contains(&share), "{share}: {second:?}");
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

/// Clients would connect to a port at which nothing answers, for as long as it runs on.
#[test]
fn the_database_of_a_broker_has_none_of_the_sockets_that_the_broker_was_given() {
    let Some(programs) = cluster::programs() else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let folder = fresh("given");
    let _left = Left { programs, data: folder.join("data") };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let flags = ["broker", "--postgres-embedded", folder.to_str().unwrap()];
    let broker = taking(&listener, 1, &flags).listening();
    drop(listener);
    broker.kill();
    assert!(folder.join("data/postmaster.pid").exists(), "its PostgreSQL runs on");
    // A program that another test starts has the socket, too, until it has begun.
    until("nothing listens there", || TcpStream::connect(address).is_err());
}

/// A terminal's Ctrl-C goes to all programs that the broker has started, too.
#[test]
fn a_broker_that_is_interrupted_while_its_database_is_made_ends_in_order() {
    let Some(programs) = cluster::programs() else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let folder = fresh("interrupted");
    let _left = Left { programs, data: folder.join("data") };
    let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
    command.args(["broker", "--listen", "127.0.0.1:0", "--postgres-embedded"]).arg(&folder).process_group(0);
    let broker = Program::spawn(command);
    until("it is being made", || ["data.new", "data"].iter().any(|name| folder.join(name).exists()));
    let group = Pid::from_raw(broker.id() as i32).unwrap();
    kill_process_group(group, Signal::INT).unwrap();
    let ended = broker.ended();
    // On a machine with much to do it may serve by then.
    let told = ["this broker was waiting", "listening on "];
    assert!(ended.success && told.iter().any(|told| ended.errors.contains(told)), "{ended:?}");
    assert!(!folder.join("data/postmaster.pid").exists(), "its server has ended");
}

#[test]
fn a_directory_that_postgres_cannot_reach_and_a_missing_runuser_are_named() {
    if !rustix::process::geteuid().is_root() || cluster::programs().is_none() {
        return skipped("this is about PostgreSQL that root starts");
    }
    let closed = fresh("closed");
    fs::create_dir_all(&closed).unwrap();
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    let inside = closed.join("queues");
    let flags = ["broker", "--listen", "127.0.0.1:0", "--postgres-embedded", inside.to_str().unwrap()];
    let ended = Program::begin(&flags).ended();
    let named = format!("chmod o+x {}", closed.display());
    assert!(ended.code == Some(2) && ended.errors.contains(&named), "{ended:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
    let open = fresh("no-runuser");
    command
        .args(["broker", "--listen", "127.0.0.1:0", "--postgres-embedded"])
        .arg(&open)
        .env("PATH", "/nowhere");
    let ended = Program::spawn(command).ended();
    assert!(ended.code == Some(1) && ended.errors.contains("apt-get install util-linux"), "{ended:?}");
}

#[test]
fn every_mode_and_store_answers_alike() {
    let Some(cluster) = Cluster::start("alike") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            answers_as_it_should(with_both_doors(&[]), "memory");
        });
        for mode in MODES {
            let store = cluster.database(mode);
            scope.spawn(move || {
                answers_as_it_should(
                    with_both_doors(&["--store", &store, "--mode", mode, "--pool", "5"]),
                    mode,
                );
            });
        }
        // Two brokers that have two shards of four each.
        let store = cluster.database("shards");
        let cluster = &cluster;
        scope.spawn(move || {
            let flags = ["--store", &store, "--shards", "4"];
            let first = with_both_doors(&flags);
            let second = with_both_doors(&flags);
            shards::are_shared(cluster, "shards", "2,2");
            answers_as_it_should(first, "shards");
            drop(second);
        });
        // An owner that holds one message of each line.
        let store = cluster.database("heads");
        scope.spawn(move || {
            let flags = ["--store", &store, "--heads", "0B", "--read-ahead", "1"];
            answers_as_it_should(with_both_doors(&flags), "heads alone");
        });
    });
}

/// A broker, and where its queues are reached by memcached's protocol.
fn with_both_doors(flags: &[&str]) -> (Program, SocketAddr) {
    let doors = ["broker", "--listen", "127.0.0.1:0", "--memcached-listen", "127.0.0.1:0"];
    let mut broker = Program::krarup(&[&doors, flags].concat());
    let door = broker.says(|line| line.strip_prefix("memcached's protocol on ")?.trim().parse().ok());
    (broker, door)
}

fn answers_as_it_should((broker, door): (Program, SocketAddr), whose: &str) {
    history::hold_all(broker.address(), door, whose);
    model::compare(broker.address(), 24);
}

/// Bodies that would take more memory than the broker may.
#[test]
fn many_messages_that_wait_take_little_memory() {
    let Some(cluster) = Cluster::start("many") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let store = cluster.database("many");
    let broker = of_heads(&store, "500");
    let before = broker.resident();
    let mut peer = broker.connect();
    let mut ids = put_many(&mut peer, 0..MANY);
    let grown = broker.resident().saturating_sub(before);
    let all = (MANY * BODY / 1_024) as u64;
    assert!(grown < all / 3, "{grown} kB for messages of {all}");
    // In their order, though they come out of the database; then another goes on where this one was
    // killed.
    take_in_order(&mut peer, 0..2_000, &ids);
    broker.kill();
    let broker = of_heads(&store, "500");
    let mut peer = broker.connect();
    ids.extend(put_many(&mut peer, MANY..MANY + 1_000));
    take_in_order(&mut peer, 2_000..4_000, &ids);
    // By their numbers, wherever they are.
    let (last, before_last) = (ids[MANY - 1], ids[MANY - 2]);
    say(&mut peer, &format!("peek {last}\r\n"), &format!("FOUND {last} {BODY}\r\n{}\r\n", body(MANY - 1)));
    say(&mut peer, &format!("delete {before_last}\r\ndelete {before_last}\r\n"), "DELETED\r\nNOT_FOUND\r\n");
    assert!(broker.resident() < before + all / 3);
    assert!(broker.stop().success);
    let left = cluster.sql("many", "SELECT count(*), min(id), max(id) FROM krarup.message");
    assert_eq!(left, format!("{}|{}|{}", ids.len() - 4_001, ids[4_000], ids[ids.len() - 1]));
}

const MANY: usize = 12_000;
const BODY: usize = 4_000;

fn body(number: usize) -> String {
    format!("{number:0>BODY$}")
}

/// Puts them a hundred at a time; the ids they were given.
fn put_many(peer: &mut Peer, numbers: std::ops::Range<usize>) -> Vec<u64> {
    say(peer, "use jobs\r\nwatch jobs\r\n", "USING jobs\r\nWATCHING 2\r\n");
    let numbers: Vec<usize> = numbers.collect();
    let mut ids = Vec::new();
    for some in numbers.chunks(100) {
        let lengths = format!(" {BODY}").repeat(some.len());
        let bodies: String = some.iter().map(|number| body(*number) + "\r\n").collect();
        peer.send(format!("put-batch 1 0 60{lengths}\r\n{bodies}").as_bytes()).unwrap();
        peer.expect(format!("INSERTED_BATCH {}\r\n", some.len()).as_bytes()).unwrap();
        for _ in some {
            let line = String::from_utf8(peer.line().unwrap()).unwrap();
            ids.push(
                line.trim_end().strip_prefix("INSERTED ").and_then(|id| id.parse().ok()).expect("it is put"),
            );
        }
    }
    ids
}

fn take_in_order(peer: &mut Peer, numbers: std::ops::Range<usize>, ids: &[u64]) {
    for number in numbers {
        say(peer, "pop 30\r\n", &format!("POPPED {} {BODY}\r\n{}\r\n", ids[number], body(number)));
    }
}

#[test]
fn brokers_that_share_the_queues_see_one_anothers_messages() {
    let Some(cluster) = Cluster::start("together") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let store = cluster.database("together");
    let (first, second) = (broker(&store, "batch"), broker(&store, "direct"));
    let (mut here, mut there) = (first.connect(), second.connect());
    there.send(b"watch jobs\r\nreserve\r\n").unwrap();
    there.expect(b"WATCHING 2\r\n").unwrap();
    say(&mut here, "put-in-tube jobs 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    there.expect(b"RESERVED 1 1\r\nx\r\n").unwrap();
    say(&mut here, "delete 1\r\n", "NOT_FOUND\r\n");
    // What a broker held that was killed is ready again.
    second.kill();
    say(&mut here, "watch jobs\r\nreserve\r\n", "WATCHING 2\r\nRESERVED 1 1\r\nx\r\n");
    // Both at once: nothing comes twice.
    let second = broker(&store, "direct");
    let (one, other) = (Storm::begin(first.address(), 4), Storm::begin(second.address(), 4));
    one.wait_for(300);
    other.wait_for(300);
    let mut history = one.end();
    history.add(other.end());
    history.check(first.address(), 1);
    // An owner waits for both, and begins where they ended.
    let mut owner = Program::begin(&["broker", "--listen", "127.0.0.1:0", "--store", &store]);
    owner.says_text("waiting");
    say(&mut here, "put 1 0 60 1\r\nx\r\n", "INSERTED ");
    let id: u64 = String::from_utf8(here.line().unwrap()).unwrap().trim_end().parse().unwrap();
    assert!(first.stop().success && second.stop().success);
    let owner = owner.listening();
    let mut peer = owner.connect();
    say(&mut peer, "put 1 0 60 1\r\ny\r\n", &format!("INSERTED {}\r\n", id + 1));
    say(&mut peer, "pop\r\n", &format!("POPPED {id} 1\r\nx\r\n"));
    assert!(owner.stop().success);
}

#[test]
fn nothing_that_was_answered_is_lost_and_nothing_comes_twice_where_one_owns_the_queues() {
    let Some(cluster) = Cluster::start("owned") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    the_owner_is_killed_and_another_takes_over(&cluster);
    the_owner_hangs_and_another_takes_over(&cluster);
    a_waiting_broker_sends_its_clients_on(&cluster);
    a_broker_that_is_no_longer_the_owner_writes_nothing(&cluster);
    it_is_cut_between_two_batches(&cluster);
    it_is_killed_between_two_batches(&cluster);
    an_outbox_of_large_messages_takes_little_memory(&cluster);
    refused::what_cannot_be_read_is_no_message_refused(&cluster);
    refused::a_sweep_that_an_owner_is_refused_is_told(&cluster);
    refused::puts_go_on_where_the_indexes_of_lines_wait_for_a_lock(&cluster);
    refused::a_message_of_the_outbox_is_found_where_its_batch_cannot_be_written_twice(&cluster);
    nothing_is_lost_and_nothing_comes_twice(&cluster, "owned");
}

#[test]
fn a_broker_waits_for_its_turn_whatever_the_database_does() {
    let Some(cluster) = Cluster::start("standby") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    standby::a_waiting_broker_outlives_the_database_and_its_sessions(&cluster);
    standby::monitoring_hears_of_a_broker_that_waits(&cluster);
    standby::a_certificate_that_is_renewed_while_it_waits_is_shown(&cluster);
    standby::clients_are_sent_on_from_ports_alone(&cluster);
    standby::a_deposed_owner_is_the_next_that_waits(&cluster);
    standby::an_owner_whose_turn_is_lost_writes_nothing(&cluster);
    standby::what_was_recorded_is_kept_where_no_further_turn_begins(&cluster);
    standby::a_step_of_the_databases_clock_ends_no_owner(&cluster);
    standby::a_copy_in_the_same_server_ends_no_owner(&cluster);
    standby::an_owner_that_clears_away_for_long_goes_on(&cluster);
    standby::brokers_that_share_wait_again_where_there_is_an_owner(&cluster);
    standby::members_wait_again_where_the_queues_are_divided_otherwise(&cluster);
    standby::signals_are_obeyed_while_it_waits(&cluster);
    standby::a_stop_does_not_wait_for_a_database_that_is_gone(&cluster);
}

#[test]
fn messages_are_counted_as_they_change_and_databases_are_taken_along() {
    let Some(cluster) = Cluster::start("counts") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    for mode in &MODES[1..] {
        counts::messages_are_counted_as_they_change(&cluster, mode);
        counts::no_request_counts_all_messages(&cluster, mode);
        counts::no_request_reads_the_messages_of_other_tubes(&cluster, mode);
        counts::messages_that_expire_are_all_counted(&cluster, mode);
        counts::rows_that_come_back_are_added_up(&cluster, mode);
        counts::what_is_changed_while_no_broker_runs_is_counted_anew(&cluster, mode);
        counts::the_total_stays_when_a_tube_is_forgotten(&cluster, mode);
        counts::rows_of_a_day_are_not_all_read_to_add_up(&cluster, mode);
        counts::a_message_is_reserved_however_often_it_was(&cluster, mode);
    }
    counts::databases_of_earlier_versions_are_taken_along(&cluster);
    counts::a_database_of_a_later_version_is_refused(&cluster);
    counts::a_schema_that_was_renamed_is_refused(&cluster);
}

#[test]
fn what_comes_to_its_end_does_while_no_client_asks() {
    let Some(cluster) = Cluster::start("ends") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    for mode in MODES {
        ends::what_waited_too_long_is_gone_after_a_restart(&cluster, mode);
        ends::what_is_restored_late_is_there_after_the_guides_statements(&cluster, mode);
    }
    for mode in &MODES[1..] {
        ends::keys_are_forgotten_while_brokers_run(&cluster, mode);
        ends::a_lease_that_ends_with_its_broker_counts(&cluster, mode);
        ends::no_message_is_handed_out_whose_lease_has_ended(&cluster, mode);
        ends::what_is_over_is_found_among_many(&cluster, mode);
        ends::a_broker_that_looks_for_long_is_not_taken_for_dead(&cluster, mode);
        ends::a_broker_that_is_just_back_takes_no_other_for_dead(&cluster, mode);
    }
    ends::keys_that_are_over_are_cleared_away_by_parts(&cluster);
}

#[test]
fn requests_take_turns_and_the_longest_times_are_long() {
    let Some(cluster) = Cluster::start("turns") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    for mode in MODES {
        turns::nothing_overtakes_a_client_that_waits(&cluster, mode);
        turns::the_longest_times_are_long(&cluster, mode);
    }
    for mode in &MODES[1..] {
        turns::what_is_about_many_messages_goes_in_parts(&cluster, mode);
    }
}

#[test]
fn a_broker_that_shares_its_queues_says_what_waits_in_them() {
    let Some(cluster) = Cluster::start("backlog") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    for mode in &MODES[1..] {
        backlog::is_told_by_all_brokers(&cluster, mode);
    }
}

#[test]
fn rows_that_are_gone_and_still_seen_change_no_answer_and_are_not_read_again_and_again() {
    let Some(cluster) = Cluster::start("snapshot") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    for mode in &MODES[1..] {
        snapshot::is_answered_as_before(&cluster, mode);
        snapshot::what_comes_back_is_found(&cluster, mode);
        snapshot::no_lease_reads_over_all_that_is_gone(&cluster, mode);
        snapshot::each_part_of_a_tube_is_looked_into_once(&cluster, mode);
        snapshot::nothing_is_lost(&cluster, mode);
    }
    snapshot::an_owner_begins_all_the_same(&cluster);
    snapshot::no_batch_reads_what_its_owner_renews(&cluster);
}

#[test]
fn signals_are_heard_while_the_database_says_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let store =
        format!("host=127.0.0.1 port={} user=krarup dbname=none", silent.local_addr().unwrap().port());
    for mode in MODES {
        let mut broker =
            Program::begin(&["broker", "--listen", "127.0.0.1:0", "--store", &store, "--mode", mode]);
        let (_held, _) = silent.accept().unwrap();
        broker.signal(Signal::USR1);
        broker.says_text("draining");
        let ended = broker.stop();
        assert!(ended.success && ended.code == Some(0), "{mode}: {ended:?}");
    }
}

#[test]
fn a_database_that_hangs_with_its_sessions_open_is_noticed() {
    let Some(cluster) = Cluster::start("hangs") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    refused::a_database_that_hangs_takes_nothing_until_it_answers(&cluster);
}

#[test]
fn a_pooler_that_changes_sessions_is_refused_at_the_start() {
    let Some(cluster) = Cluster::start("pooler") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    refused::a_pooler_is_refused_unless_sessions_last(&cluster);
}

#[test]
fn nothing_that_was_answered_is_lost_and_nothing_comes_twice_where_several_own_shards() {
    let Some(cluster) = Cluster::start("shards") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    shards::a_client_sees_one_broker(&cluster);
    shards::a_client_that_holds_a_message_is_told_that_its_lease_is_nearly_over(&cluster);
    shards::a_get_waits_wherever_its_shard_moves(&cluster);
    shards::a_broker_that_is_asked_to_stop_twice_hurries(&cluster);
    shards::a_shard_is_served_without_an_admin_address(&cluster);
    shards::a_broker_is_ready_whichever_shards_it_owns(&cluster);
    shards::clients_come_by_every_door(&cluster);
    shards::who_is_asked_for_certificates_or_permissions_is_asked_for_a_secret(&cluster);
    shards::each_counts_its_own(&cluster);
    shards::one_is_killed_and_another_comes(&cluster);
    shards::one_hangs_and_comes_back(&cluster);
    shards::a_step_of_the_databases_clock_moves_no_shard(&cluster);
}

#[test]
fn nothing_that_was_answered_is_lost_and_nothing_comes_twice_where_requests_are_gathered() {
    let Some(cluster) = Cluster::start("batch") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    one_of_two_is_killed(&cluster, "batch");
    nothing_is_lost_and_nothing_comes_twice(&cluster, "batch");
}

#[test]
fn nothing_that_was_answered_is_lost_and_nothing_comes_twice_where_requests_go_one_by_one() {
    let Some(cluster) = Cluster::start("direct") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    refused::clients_are_answered_where_most_connections_cannot_be_had_again(&cluster);
    one_of_two_is_killed(&cluster, "direct");
    nothing_is_lost_and_nothing_comes_twice(&cluster, "direct");
}

fn nothing_is_lost_and_nothing_comes_twice(cluster: &Cluster, mode: &str) {
    the_sessions_are_cut_again_and_again(cluster, mode);
    the_session_is_cut_at_its_commit(cluster, mode);
    if mode != "owned" {
        a_connection_is_cut_and_its_session_goes_on(cluster, mode);
    }
    postgresql_crashes_and_comes_back(cluster, mode);
    a_database_that_refuses_to_write_refuses_puts_and_loses_nothing(cluster, mode);
    a_full_disk_refuses_puts_and_loses_nothing(cluster, mode);
    refused::a_database_that_refuses_for_long_is_told_once(cluster, mode);
    refused::a_broker_that_comes_back_to_a_database_that_only_reads_answers_puts(cluster, mode);
    if mode != "owned" {
        refused::a_right_that_is_missing_is_told(cluster, mode);
        refused::what_only_reads_is_tried_again_seldom_and_is_no_message_refused(cluster, mode);
        refused::clients_are_served_where_the_archive_cannot_be_cleared(cluster, mode);
        refused::a_database_that_is_gone_is_told_whichever_connection_ended_first(cluster, mode);
        refused::what_clients_that_have_gone_would_take_is_there_afterwards(cluster, mode);
        refused::what_is_popped_of_a_database_that_hung_for_none_is_there(cluster, mode);
        refused::a_look_for_what_became_of_a_put_is_no_put(cluster, mode);
    }
    refused::a_session_that_rests_is_kept(cluster, mode);
    statements_that_take_too_long_are_tried_again(cluster, mode);
    refused::a_broker_begins_whatever_time_statements_may_take(cluster, mode);
    another_programs_long_transaction_does_no_harm(cluster, mode);
    what_applications_lay_down_is_in_its_queue(cluster, mode);
    if mode != "owned" {
        more_than_one_sweep_takes_is_all_ready(cluster, mode);
    }
    what_is_gone_is_in_the_archive_for_a_time(cluster, mode);
    all_tables_may_be_published(cluster, mode);
    a_queue_that_is_emptied_does_what_it_was_told_to_do(cluster, mode);
    what_dies_and_is_taken_at_once_was_in_the_tube_of_the_dead(cluster, mode);
    a_database_with_another_isolation_is_used_as_any(cluster, mode);
    flags_and_ends_of_single_messages_outlive_the_broker(cluster, mode);
    a_backup_made_under_load_has_the_queues_of_its_moment(cluster, mode);
}

fn a_backup_made_under_load_has_the_queues_of_its_moment(cluster: &Cluster, mode: &str) {
    if !cluster.has("pg_dump") {
        return skipped("this PostgreSQL has no pg_dump beside it");
    }
    let (name, restored) = (format!("saved_{mode}"), format!("restored_{mode}"));
    let store = cluster.database(&name);
    let running = broker(&store, mode);
    let mut peer = running.connect();
    let ids = put_many(&mut peer, 0..100);
    // A lease is not saved: its holder is not there any more.
    say(&mut peer, "reserve\r\n", &format!("RESERVED {} {BODY}\r\n{}\r\n", ids[0], body(0)));
    let storm = Storm::begin(running.address(), 3);
    storm.wait_for(100);
    let backup = cluster.backup(&name);
    storm.wait_for(200);
    storm.end().check(running.address(), 0);
    assert!(running.stop().success);
    let another = cluster.database(&restored);
    cluster.restore(&restored, &backup);
    let again = broker(&another, mode);
    let mut peer = again.connect();
    say(
        &mut peer,
        "watch jobs\r\nignore default\r\nuse jobs\r\n",
        "WATCHING 2\r\nWATCHING 1\r\nUSING jobs\r\n",
    );
    let leased = "SELECT count(*) FROM krarup.message WHERE state = 3";
    until("no message is leased", || cluster.sql(&restored, leased) == "0");
    take_in_order(&mut peer, 0..100, &ids);
    say(&mut peer, "pop\r\nput 1 0 60 1\r\nx\r\n", "TIMED_OUT\r\nINSERTED ");
    let id: u64 = String::from_utf8(peer.line().unwrap()).unwrap().trim_end().parse().unwrap();
    assert!(id > ids[99], "{mode}: {id} after {}", ids[99]);
    assert!(again.stop().success);
}

fn flags_and_ends_of_single_messages_outlive_the_broker(cluster: &Cluster, mode: &str) {
    let name = format!("items_{mode}");
    let store = cluster.database(&name);
    let flags = ["--store", &store, "--mode", mode, "--pool", "5"];
    let (first, door) = with_both_doors(&flags);
    let mut peer = Peer::connect(door);
    say(&mut peer, "set long 77 1000 1\r\na\r\n", "STORED\r\n");
    say(&mut peer, "set short 78 1 1\r\nb\r\n", "STORED\r\n");
    first.kill();
    let (second, door) = with_both_doors(&flags);
    let count = "SELECT count(*) FROM krarup.message WHERE tube = 'short'";
    until("its time is over", || cluster.sql(&name, count) == "0");
    let mut peer = Peer::connect(door);
    say(&mut peer, "get short\r\n", "END\r\n");
    say(&mut peer, "get long/open\r\n", "VALUE long/open 77 1\r\na\r\nEND\r\n");
    say(&mut peer, "get long/close\r\n", "END\r\n");
    assert!(second.stop().success);
}

fn what_is_gone_is_in_the_archive_for_a_time(cluster: &Cluster, mode: &str) {
    let name = format!("archive_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let mut peer = broker.connect();
    let put = "put 1 0 60 1\r\nx\r\n";
    say(&mut peer, &put.repeat(2), "INSERTED 1\r\nINSERTED 2\r\n");
    // One after the other: what goes together goes by the same rule.
    say(&mut peer, "pop\r\n", "POPPED 1 1\r\nx\r\n");
    say(&mut peer, "archive-tube default 3600\r\n", "ARCHIVING\r\n");
    say(&mut peer, "pop\r\n", "POPPED 2 1\r\nx\r\n");
    say(&mut peer, &put.repeat(2), "INSERTED 3\r\nINSERTED 4\r\n");
    say(&mut peer, "reserve\r\ndelete 3\r\n", "RESERVED 3 1\r\nx\r\nDELETED\r\n");
    let archived =
        || cluster.sql(&name, "SELECT string_agg(tube || id, ',' ORDER BY id) FROM krarup.archive");
    assert_eq!(archived(), "default2,default3");
    // What was kept long enough is cleared away, however much it is.
    cluster.sql(&name, "UPDATE krarup.archive SET until = now()");
    let much = "INSERT INTO krarup.archive SELECT number, 'old', 0, now(), NULL, NULL, '', now(), now() FROM generate_series(1, 2500) AS number";
    cluster.sql(&name, much);
    until("the archive is empty", || archived().is_empty());
    say(&mut peer, "archive-tube default 0\r\n", "ARCHIVING\r\n");
    say(&mut peer, "pop\r\n", "POPPED 4 1\r\nx\r\n");
    assert_eq!(archived(), "");
    assert!(broker.stop().success);
}

/// As what copies a database elsewhere by its changes begins with.
fn all_tables_may_be_published(cluster: &Cluster, mode: &str) {
    let name = format!("published_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    cluster.sql(&name, "CREATE PUBLICATION everything FOR ALL TABLES");
    let mut peer = broker.connect();
    say(&mut peer, "archive-tube default 1\r\n", "ARCHIVING\r\n");
    say(&mut peer, "put 1 1 60 1\r\nx\r\n", "INSERTED 1\r\n");
    say(&mut peer, "reserve\r\ndelete 1\r\n", "RESERVED 1 1\r\nx\r\nDELETED\r\n");
    cluster.sql(&name, "SELECT krarup.put('default', 'y')");
    say(&mut peer, "reserve\r\n", "RESERVED 2 1\r\ny\r\n");
    until("the archive is cleared", || cluster.sql(&name, "SELECT count(*) FROM krarup.archive") == "0");
    assert!(broker.stop().success);
}

fn a_queue_that_is_emptied_does_what_it_was_told_to_do(cluster: &Cluster, mode: &str) {
    let name = format!("emptied_{mode}");
    let store = cluster.database(&name);
    let (broker, door) = with_both_doors(&["--store", &store, "--mode", mode, "--pool", "5"]);
    let (mut peer, mut other) = (broker.connect(), Peer::connect(door));
    say(&mut peer, "limit-tube jobs 1 dead\r\n", "LIMITED\r\n");
    say(&mut peer, "archive-tube jobs 3600\r\n", "ARCHIVING\r\n");
    say(&mut other, "set jobs 0 0 1\r\nx\r\n", "STORED\r\n");
    say(&mut other, "flush jobs\r\n", "DELETED\r\n");
    say(&mut other, "delete jobs\r\n", "DELETED\r\n");
    let archived = || cluster.sql(&name, "SELECT count(*) FROM krarup.archive WHERE tube = 'jobs'");
    assert_eq!(archived(), "1", "{mode}");
    let kept = || cluster.sql(&name, "SELECT most, dead, keeps FROM krarup.tube WHERE name = 'jobs'");
    assert_eq!(kept(), "1|dead|3600", "{mode}");
    // One that goes itself lets its messages go as it was told to.
    say(&mut other, "set jobs 0 0 1\r\nx\r\n", "STORED\r\n");
    say(&mut peer, "delete-tube jobs\r\n", "DELETED\r\n");
    assert_eq!((archived(), kept()), ("2".to_owned(), String::new()), "{mode}");
    assert!(broker.stop().success);
}

fn what_dies_and_is_taken_at_once_was_in_the_tube_of_the_dead(cluster: &Cluster, mode: &str) {
    let name = format!("dies_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let (mut worker, mut collector) = (broker.connect(), broker.connect());
    say(&mut worker, "limit-tube default 1 dead\r\n", "LIMITED\r\n");
    say(&mut worker, "archive-tube dead 3600\r\n", "ARCHIVING\r\n");
    say(&mut worker, "put 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    say(&mut worker, "reserve\r\n", "RESERVED 1 1\r\nx\r\n");
    say(&mut collector, "watch dead\r\nignore default\r\n", "WATCHING 2\r\nWATCHING 1\r\n");
    collector.send(b"pop 60\r\n").unwrap();
    until("it waits", || counts::told(&mut worker, "stats-tube dead\r\n", ["current-waiting"]) == [1]);
    say(&mut worker, "release 1 1 0\r\n", "BURIED\r\n");
    collector.expect(b"POPPED 1 1\r\nx\r\n").unwrap_or_else(|why| panic!("{mode}: {why}"));
    assert_eq!(cluster.sql(&name, "SELECT tube FROM krarup.archive"), "dead", "{mode}");
    assert!(broker.stop().success);
}

/// Statements that see only what was committed before their transaction began are refused for what
/// others do, and do not see who owns the queues by now.
fn a_database_with_another_isolation_is_used_as_any(cluster: &Cluster, mode: &str) {
    let name = format!("isolation_{mode}");
    let store = cluster.database(&name);
    let serializable = format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'");
    cluster.sql("postgres", &serializable);
    let broker = broker(&store, mode);
    cluster.sql(
        &name,
        "CREATE FUNCTION is_serializable() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN IF current_setting('transaction_isolation') = 'serializable' THEN RAISE 'serializable'; END IF; \
                      RETURN NULL; END $$; \
         CREATE TRIGGER is_serializable BEFORE INSERT OR DELETE ON krarup.message EXECUTE FUNCTION is_serializable(); \
         CREATE TRIGGER is_serializable BEFORE INSERT OR DELETE ON krarup.message_row EXECUTE FUNCTION is_serializable()",
    );
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    say(&mut peer, "reserve\r\ndelete 1\r\n", "RESERVED 1 1\r\nx\r\nDELETED\r\n");
    let storm = Storm::begin(broker.address(), 6);
    storm.wait_for(300);
    storm.end().check(broker.address(), 0);
    assert!(broker.stop().success);
}

fn an_outbox_of_large_messages_takes_little_memory(cluster: &Cluster) {
    const LENGTH: usize = 4 << 20;
    const COUNT: usize = 80;
    let store = cluster.database("large_outbox");
    let flags = ["--store", &store, "--heads", "0B", "--read-ahead", "1", "-z", "4MiB"];
    let begin = [&["broker", "--listen", "127.0.0.1:0"], &flags[..]].concat();
    // It makes the tables.
    assert!(Program::krarup(&begin).stop().success);
    let lay_down =
        format!("SELECT krarup.put('large', repeat('x', {LENGTH})) FROM generate_series(1, {COUNT})");
    cluster.sql("large_outbox", &lay_down);
    let broker = Program::krarup(&begin);
    let left = || cluster.sql("large_outbox", "SELECT count(*) FROM krarup.incoming");
    until("all messages are taken in", || left() == "0");
    let (most, all) = (crate::large::most(&broker), COUNT * LENGTH / 1_024);
    assert!(most < all / 2, "{most} KiB for messages of {all}");
    let taken_in = "SELECT count(*), sum(octet_length(body)) FROM krarup.message WHERE tube = 'large'";
    assert_eq!(cluster.sql("large_outbox", taken_in), format!("{COUNT}|{}", COUNT * LENGTH));
    assert!(broker.stop().success);
}

fn the_owner_is_killed_and_another_takes_over(cluster: &Cluster) {
    let store = cluster.database("killed");
    let first = broker(&store, "owned");
    let mut second = Program::begin(&["broker", "--listen", "127.0.0.1:0", "--store", &store]);
    second.says_text("waiting: the broker at");
    let storm = Storm::begin(first.address(), 6);
    storm.wait_for(300);
    first.kill();
    let killed = Instant::now();
    let history = storm.end();
    let second = second.listening();
    assert!(killed.elapsed() < TAKEOVER, "{:?}", killed.elapsed());
    history.check(second.address(), 0);
    assert!(second.stop().success);
}

/// How long it may take until another serves, on a machine that does much else; alone it takes two
/// seconds at most.
const TAKEOVER: Duration = Duration::from_secs(30);

fn the_owner_hangs_and_another_takes_over(cluster: &Cluster) {
    let store = cluster.database("hangs");
    let mut first = broker(&store, "owned");
    let mut second = Program::begin(&["broker", "--listen", "127.0.0.1:0", "--store", &store]);
    second.says_text("waiting: the broker at");
    let storm = Storm::begin(first.address(), 6);
    storm.wait_for(300);
    first.freeze();
    let stopped = Instant::now();
    let second = second.listening();
    assert!(stopped.elapsed() < TAKEOVER, "{:?}", stopped.elapsed());
    let mut peer = second.connect();
    say(&mut peer, "put 1 0 60 4\r\nlast\r\n", "INSERTED ");
    peer.line().unwrap();
    // It wakes up, and must not write what it had decided meanwhile.
    first.signal(Signal::CONT);
    first.says_text("another broker has taken the queues over");
    let mut history = storm.end();
    history.was_put("last");
    history.check(second.address(), 0);
    assert!(second.stop().success);
}

fn a_waiting_broker_sends_its_clients_on(cluster: &Cluster) {
    let store = cluster.database("sent_on");
    let first = broker(&store, "owned");
    let mut second = Program::begin(&["broker", "--listen", "127.0.0.1:0", "--store", &store]);
    let address: SocketAddr =
        second.says(|line| line.strip_prefix("clients at ")?.split(' ').next()?.parse().ok());
    // At first it knows only where the owner was told to listen.
    until("clients are sent on", || {
        let mut peer = Peer::connect(address);
        peer.send(b"ping\r\n").is_ok() && peer.line().is_ok_and(|line| line == b"PONG\r\n")
    });
    let (mut here, mut there) = (Peer::connect(address), first.connect());
    say(&mut there, "reserve\r\n", "");
    say(&mut here, "put 1 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    there.expect(b"RESERVED 1 1\r\nx\r\n").unwrap();
    // When the owner ends its connections end; at the same address the next owner listens.
    first.kill();
    assert_eq!(here.rest(), b"");
    let second = second.listening();
    assert_eq!(second.address(), address);
    say(&mut second.connect(), "reserve\r\n", "RESERVED 1 1\r\nx\r\n");
    assert!(second.stop().success);
}

/// Even where its session stands and holds the lock.
fn a_broker_that_is_no_longer_the_owner_writes_nothing(cluster: &Cluster) {
    let store = cluster.database("deposed");
    let mut broker = broker(&store, "owned");
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    cluster.sql("deposed", "UPDATE krarup.owner SET epoch = epoch + 1");
    peer.send(b"put 1 0 60 1\r\nb\r\ndelete 1\r\n").unwrap();
    broker.says_text("another broker has taken the queues over");
    assert_eq!(peer.rest(), b"");
    assert_eq!(cluster.sql("deposed", "SELECT string_agg(id::text, ',') FROM krarup.message"), "1");
}

/// Two batches are under way, side by side: the first waits for a row that another session holds,
/// the second is on disk. Neither is answered.
struct BetweenTwoBatches<'a> {
    cluster: &'a Cluster,
    name: &'a str,
    broker: Program,
    /// It deletes message 1.
    deletes: Peer,
    /// It puts `second`.
    puts: Peer,
    holder: thread::JoinHandle<Output>,
}

impl<'a> BetweenTwoBatches<'a> {
    fn begin(cluster: &'a Cluster, name: &'a str) -> Self {
        let store = cluster.database(name);
        let broker = broker(&store, "owned");
        let (mut deletes, mut puts) = (broker.connect(), broker.connect());
        say(&mut deletes, "put 1 0 60 5\r\nfirst\r\n", "INSERTED 1\r\n");
        let holder = Self::hold(cluster, name, "SELECT FROM krarup.message WHERE id = 1 FOR UPDATE");
        deletes.send(b"delete 1\r\n").unwrap();
        until("the first batch waits for it", || cluster.has_session(name, "wait_event_type = 'Lock'"));
        puts.send(b"put 1 0 60 6\r\nsecond\r\n").unwrap();
        let between = Self { cluster, name, broker, deletes, puts, holder };
        until("the second batch is on disk", || between.there() == "1,2");
        between
    }

    /// The messages in the database.
    fn there(&self) -> String {
        self.cluster.sql(self.name, "SELECT string_agg(id::text, ',' ORDER BY id) FROM krarup.message")
    }

    /// A session that holds what this statement locks.
    fn hold(cluster: &Cluster, name: &str, statement: &str) -> thread::JoinHandle<Output> {
        let mut holder = cluster.psql(name, &format!("BEGIN; {statement}; SELECT pg_sleep(600); COMMIT"));
        let holder = thread::spawn(move || holder.output().unwrap());
        let holds = "SELECT count(*) FROM pg_stat_activity \
                     WHERE datname = current_database() AND application_name = 'psql' AND wait_event = 'PgSleep'";
        until("it is held", || cluster.sql(name, holds) == "1");
        holder
    }

    /// Ends that session; until it is over.
    fn let_go(cluster: &Cluster, name: &str, holder: thread::JoinHandle<Output>) {
        cluster.end_sleeping(name);
        assert!(!holder.join().unwrap().status.success());
    }
}

fn it_is_cut_between_two_batches(cluster: &Cluster) {
    let name = "cut_between";
    let mut between = BetweenTwoBatches::begin(cluster, name);
    // What follows meanwhile is of a third batch, and waits for its turn.
    between.puts.send(b"put 1 0 60 5\r\nthird\r\n").unwrap();
    assert!(cluster.cut(name, "wait_event_type = 'Lock'"), "the first batch is cut");
    until("it is written again", || {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        cluster.sql(name, waits) == "1"
    });
    BetweenTwoBatches::let_go(cluster, name, between.holder);
    between.deletes.expect(b"DELETED\r\n").unwrap();
    between.puts.expect(b"INSERTED 2\r\nINSERTED 3\r\n").unwrap();
    // Everything is cut once more, and each thing has happened once.
    cluster.cut(name, "true");
    say(
        &mut between.deletes,
        "delete 1\r\npop 30\r\npop 30\r\npop\r\n",
        "NOT_FOUND\r\nPOPPED 2 6\r\nsecond\r\nPOPPED 3 5\r\nthird\r\nTIMED_OUT\r\n",
    );
    assert!(between.broker.stop().success);
}

fn it_is_killed_between_two_batches(cluster: &Cluster) {
    let name = "killed_between";
    let between = BetweenTwoBatches::begin(cluster, name);
    let BetweenTwoBatches { broker: first, mut deletes, mut puts, holder, .. } = between;
    first.kill();
    // No client was answered: of each request it may have happened, or not.
    assert_eq!((deletes.rest(), puts.rest()), (vec![], vec![]));
    // The next owner does not wait for what the first had begun: it never happens.
    let second = broker(&cluster.at(name), "owned");
    BetweenTwoBatches::let_go(cluster, name, holder);
    let mut peer = second.connect();
    say(&mut peer, "put 1 0 60 5\r\nthird\r\n", "INSERTED ");
    let id: u64 = String::from_utf8(peer.line().unwrap()).unwrap().trim_end().parse().unwrap();
    assert!(id > 2, "{id} was given before");
    say(&mut peer, "pop\r\npop\r\n", "POPPED 1 5\r\nfirst\r\nPOPPED 2 6\r\nsecond\r\n");
    say(&mut peer, "pop\r\npop\r\n", &format!("POPPED {id} 5\r\nthird\r\nTIMED_OUT\r\n"));
    assert!(second.stop().success);
    assert_eq!(cluster.sql(name, "SELECT count(*) FROM krarup.message"), "0");
}

fn one_of_two_is_killed(cluster: &Cluster, mode: &str) {
    let name = format!("one_of_two_{mode}");
    let store = cluster.database(&name);
    let (first, second) = (broker(&store, mode), broker(&store, mode));
    let (storm, other) = (Storm::begin(first.address(), 4), Storm::begin(second.address(), 4));
    storm.wait_for(200);
    first.kill();
    let mut history = storm.end();
    history.add(other.end());
    // What the first held comes back when it has not been heard of for a while.
    history.check(second.address(), 4);
    assert!(second.stop().success);
}

fn the_sessions_are_cut_again_and_again(cluster: &Cluster, mode: &str) {
    let name = format!("cut_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let storm = Storm::begin(broker.address(), 6);
    for round in 1..=8 {
        storm.wait_for(round * 60);
        cluster.cut(&name, "true");
    }
    storm.wait_for(600);
    let history = storm.end();
    assert!(history.lost_connections == 0, "the broker stands");
    history.check(broker.address(), 0);
    assert!(broker.stop().success);
}

/// The commit is on disk, and no client has been answered: the answer must be the one it had. A
/// sweep that waits at its commit holds what the request may wait for: it is cut too, and comes
/// again.
fn is_cut_at_its_commit(cluster: &Cluster, name: &str) -> bool {
    let cut = cluster.cut(name, "wait_event = 'SyncRep' AND query NOT LIKE '%sweep%'");
    if !cut {
        cluster.cut(name, "wait_event = 'SyncRep' AND query LIKE '%sweep%'");
    }
    cut
}

/// What became of it is answered when the replica has it: it may be on this disk alone.
fn a_session_is_cut_at_its_commit(cluster: &Cluster, name: &str) {
    let then = cluster.sql(name, "SELECT clock_timestamp()");
    until("it is at its commit", || is_cut_at_its_commit(cluster, name));
    until("its outcome waits", || cluster.new_session_waits(name, &then));
    cluster.commits_wait(name, false);
}

fn the_session_is_cut_at_its_commit(cluster: &Cluster, mode: &str) {
    let name = format!("commit_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let (mut peer, mut other) = (broker.connect(), broker.connect());
    say(&mut peer, "put 1 0 60 1\r\na\r\nput 1 0 60 1\r\nb\r\n", "INSERTED 1\r\nINSERTED 2\r\n");
    say(&mut peer, "reserve\r\n", "RESERVED 1 1\r\na\r\n");
    for (said, heard) in [
        ("put 1 0 60 1\r\nc\r\n", "INSERTED 3\r\n"),
        ("pop\r\n", "POPPED 2 1\r\nb\r\n"),
        ("release 1 9 0\r\n", "RELEASED\r\n"),
        ("put 7 0 60 1\r\nd\r\n", "INSERTED 4\r\n"),
        ("delete 4\r\n", "DELETED\r\n"),
    ] {
        // A commit that waits for a replica that does not exist is on disk, and goes on when its
        // session is ended.
        cluster.commits_wait(&name, true);
        peer.send(said.as_bytes()).unwrap();
        a_session_is_cut_at_its_commit(cluster, &name);
        peer.expect(heard.as_bytes()).unwrap_or_else(|why| panic!("{mode}: {said}: {why}"));
    }
    if mode != "owned" {
        // A lease is written, too.
        cluster.commits_wait(&name, true);
        peer.send(b"reserve\r\n").unwrap();
        a_session_is_cut_at_its_commit(cluster, &name);
        peer.expect(b"RESERVED 3 1\r\nc\r\n").unwrap_or_else(|why| panic!("{mode}: reserve: {why}"));
        say(&mut peer, "touch 3\r\nrelease 3 1 0\r\n", "TOUCHED\r\nRELEASED\r\n");
    }
    say(&mut other, "pop\r\npop\r\npop\r\n", "POPPED 3 1\r\nc\r\nPOPPED 1 1\r\na\r\nTIMED_OUT\r\n");
    assert!(broker.stop().success);
}

/// The server does not look at a connection while a statement waits. What it does all the same has
/// not happened twice.
fn a_connection_is_cut_and_its_session_goes_on(cluster: &Cluster, mode: &str) {
    let name = format!("goes_on_{mode}");
    cluster.database(&name);
    let forward = cluster.over_tcp();
    let store = format!("host=127.0.0.1 port={} sslmode=disable user=krarup dbname={name}", forward.port);
    let broker = broker(&store, mode);
    cluster.sql(
        &name,
        "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN new; END $$; \
         CREATE TRIGGER waits BEFORE INSERT ON krarup.message_row FOR EACH ROW EXECUTE FUNCTION waits()",
    );
    let holder = BetweenTwoBatches::hold(cluster, &name, "SELECT pg_advisory_xact_lock(1)");
    let mut peer = broker.connect();
    peer.send(b"put 1 0 60 1\r\nx\r\n").unwrap();
    until("it waits", || cluster.has_session(&name, "wait_event_type = 'Lock'"));
    let now = || cluster.sql(&name, "SELECT clock_timestamp()");
    let anew = format!("wait_event_type = 'Lock' AND backend_start > '{}'", now());
    forward.cut();
    until("it is put anew", || cluster.has_session(&name, &anew));
    // Sweeps clear away what tells of the first.
    for _ in 0..2 {
        let swept = format!("SELECT bool_or(renewed > '{}') FROM krarup.broker", now());
        until("a sweep is over", || cluster.sql(&name, &swept) == "t");
    }
    BetweenTwoBatches::let_go(cluster, &name, holder);
    peer.expect(b"INSERTED ").unwrap();
    let counted = "SELECT count(*), (SELECT sum(ready) FROM krarup.counted) FROM krarup.message";
    assert_eq!(cluster.sql(&name, counted), "1|1", "{mode}");
    assert!(broker.stop().success);
}

fn postgresql_crashes_and_comes_back(cluster: &Cluster, mode: &str) {
    let store = cluster.database(&format!("crash_{mode}"));
    let broker = broker(&store, mode);
    let storm = Storm::begin(broker.address(), 6);
    for round in 1..=2 {
        storm.wait_for(round * 100);
        cluster.crash_and_restart();
    }
    storm.wait_for(400);
    let history = storm.end();
    assert!(history.lost_connections == 0, "the broker stands");
    history.check(broker.address(), 0);
    assert!(broker.stop().success);
}

fn a_database_that_refuses_to_write_refuses_puts_and_loses_nothing(cluster: &Cluster, mode: &str) {
    let name = format!("refuses_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let set =
        |only: bool| cluster.set(&name, "default_transaction_read_only", if only { "on" } else { "off" });
    writing_is_refused(cluster, &broker, &name, &set);
    assert!(broker.stop().success);
}

/// A disk of one's own is not to be had everywhere; what PostgreSQL says when it is full can be
/// said by a trigger.
fn a_full_disk_refuses_puts_and_loses_nothing(cluster: &Cluster, mode: &str) {
    let name = format!("full_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let set = full_disk(cluster, &name);
    writing_is_refused(cluster, &broker, &name, &set);
    assert!(broker.stop().success);
}

/// Fills the disk of a database, as far as its messages go, or makes room again.
fn full_disk<'a>(cluster: &'a Cluster, name: &'a str) -> impl Fn(bool) + 'a {
    cluster.sql(
        name,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE disk_full; END $$; \
         CREATE TRIGGER full_disk BEFORE INSERT OR DELETE ON krarup.message EXECUTE FUNCTION full_disk(); \
         CREATE TRIGGER full_disk BEFORE INSERT OR DELETE ON krarup.message_row EXECUTE FUNCTION full_disk(); \
         ALTER TABLE ONLY krarup.message DISABLE TRIGGER full_disk; \
         ALTER TABLE krarup.message_row DISABLE TRIGGER full_disk",
    );
    move |full| {
        let what = if full { "ENABLE" } else { "DISABLE" };
        for table in ["ONLY krarup.message", "krarup.message_row"] {
            cluster.sql(name, &format!("ALTER TABLE {table} {what} TRIGGER full_disk"));
        }
    }
}

/// A file system of its own, as small as that, which goes with the value; none where none may be
/// mounted.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir_all(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "krarup-test"]).arg(&folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// A body that no compression makes smaller, from a seed.
fn noise(seed: usize, length: usize) -> String {
    let mut state = seed as u64 + 1;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + (state >> 33) as u8 % 90)
    };
    (0..length).map(|_| letter()).collect()
}

#[test]
fn a_disk_that_is_really_full_refuses_puts_and_loses_nothing() {
    let Some(cluster) = Cluster::start("small") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let folder = fresh("small-disk");
    let Some(disk) = SmallDisk::mount(folder, "40m") else {
        return skipped("no file system may be mounted here");
    };
    said(&Command::new("chown").arg("postgres").arg(&disk.0).output().unwrap());
    cluster.sql("postgres", &format!("CREATE TABLESPACE small LOCATION '{}'", disk.0.display()));
    cluster.sql("postgres", "CREATE DATABASE small TABLESPACE small");
    let broker = broker(&cluster.at("small"), "owned");
    let spare =
        "CREATE TABLE spare AS SELECT repeat(md5(number::text), 60) FROM generate_series(1, 4000) AS number";
    cluster.sql("small", spare);
    let mut peer = broker.connect();
    let mut put = |number: usize| {
        let body = noise(number, 60_000);
        peer.send(format!("put 1 0 60 {}\r\n{body}\r\n", body.len()).as_bytes()).unwrap();
        peer.line().unwrap()
    };
    let full =
        (0..2_000).find(|number| put(*number) == b"OUT_OF_MEMORY\r\n").expect("the disk is full at last");
    assert!(full > 10, "{full}");
    // What was answered is there, and where there is room again puts are accepted.
    cluster.sql("small", "DROP TABLE spare");
    until("there is room again", || put(full).starts_with(b"INSERTED"));
    for number in 0..=full {
        peer.send(b"pop 30\r\n").unwrap();
        let line = String::from_utf8(peer.line().unwrap()).unwrap();
        assert!(line.starts_with("POPPED "), "{number}: {line}");
        peer.expect(format!("{}\r\n", noise(number, 60_000)).as_bytes()).unwrap();
    }
    say(&mut peer, "pop\r\n", "TIMED_OUT\r\n");
    assert!(broker.stop().success);
}

/// Where a library that tells programs another time is.
fn other_clock() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|entry| entry.path().join("faketime/libfaketime.so.1")).find(|path| path.exists())
}

/// A broker whose wall clock is off by what stands in the file `time`, read at every look.
fn broker_at(library: &Path, time: &str, flags: &[&str]) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
    command
        .args(["broker", "--listen", "127.0.0.1:0"])
        .args(flags)
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", time);
    command
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1");
    Program::spawn(command).listening()
}

#[test]
fn what_is_put_after_a_step_of_the_wall_clock_outlives_the_broker_for_its_time() {
    let (Some(library), Some(cluster)) = (other_clock(), Cluster::start("stepped")) else {
        return skipped("libfaketime or PostgreSQL is not installed: apt-get install libfaketime postgresql");
    };
    let store = cluster.database("stepped");
    let time = file("stepped-time", "-2h");
    // As after two hours in which the machine was suspended.
    let stepped = broker_at(&library, &time, &["--store", &store]);
    fs::write(&time, "+0").unwrap();
    let mut peer = stepped.connect();
    say(&mut peer, "expire-tube brief 3600\r\nuse brief\r\n", "EXPIRING\r\nUSING brief\r\n");
    say(&mut peer, "put 1 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    say(&mut peer, "use late\r\nput 1 3600 60 1\r\nb\r\n", "USING late\r\nINSERTED 2\r\n");
    say(&mut peer, "use once\r\nput-unique k 1 0 60 1\r\nc\r\n", "USING once\r\nINSERTED 3\r\n");
    assert!(stepped.stop().success);
    let next = broker(&store, "owned");
    let mut peer = next.connect();
    say(&mut peer, "use brief\r\npeek-ready\r\n", "USING brief\r\nFOUND 1 1\r\na\r\n");
    say(&mut peer, "use late\r\npeek-delayed\r\n", "USING late\r\nFOUND 2 1\r\nb\r\n");
    say(&mut peer, "use once\r\nput-unique k 1 0 60 1\r\nc\r\n", "USING once\r\nEXISTS 3\r\n");
    assert!(next.stop().success);
}

#[test]
fn a_wall_clock_that_jumps_ends_no_lease_and_no_delay() {
    let Some(library) = other_clock() else {
        return skipped("libfaketime is not installed: apt-get install libfaketime");
    };
    let time = file("other-time", "+0");
    let broker = broker_at(&library, &time, &[]);
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 1000 1\r\na\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
    say(&mut peer, "put 1 1000 60 1\r\nb\r\n", "INSERTED 2\r\n");
    for (tube, jump) in [("c", "+2d"), ("d", "-3d")] {
        fs::write(&time, jump).unwrap();
        let mut other = broker.connect();
        say(&mut other, "reserve-with-timeout 0\r\ndelete 1\r\n", "TIMED_OUT\r\nNOT_FOUND\r\n");
        // One that is short ends all the same.
        say(
            &mut other,
            &format!("watch {tube}\r\nput-in-tube {tube} 1 1 60 1\r\nc\r\n"),
            "WATCHING 2\r\nINSERTED ",
        );
        other.line().unwrap();
        say(&mut other, "reserve-with-timeout 60\r\n", "RESERVED ");
        assert!(other.line().unwrap().ends_with(b" 1\r\n"));
    }
    assert!(broker.stop().success);
}

fn writing_is_refused(cluster: &Cluster, broker: &Program, name: &str, refuse: &dyn Fn(bool)) {
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    refuse(true);
    until("puts are refused", || {
        peer.send(b"put 1 0 60 1\r\nb\r\n").unwrap();
        peer.line().unwrap() == b"OUT_OF_MEMORY\r\n"
    });
    // Its answer waits until the database writes again.
    peer.send(b"delete 1\r\n").unwrap();
    refuse(false);
    peer.expect(b"DELETED\r\n").unwrap();
    until("puts are accepted", || {
        peer.send(b"put 1 0 60 1\r\nc\r\n").unwrap();
        peer.line().unwrap().starts_with(b"INSERTED")
    });
    assert_eq!(cluster.sql(name, "SELECT count(*) FROM krarup.message WHERE id = 1"), "0");
}

fn statements_that_take_too_long_are_tried_again(cluster: &Cluster, mode: &str) {
    let name = format!("slow_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let (mut peer, mut ends) = (broker.connect(), broker.connect());
    say(&mut peer, "put 1 0 60 1\r\na\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
    say(&mut peer, "put 1 0 60 1\r\nb\r\n", "INSERTED 2\r\n");
    cluster.set(&name, "statement_timeout", "200ms");
    let holder = BetweenTwoBatches::hold(cluster, &name, "LOCK TABLE krarup.message IN EXCLUSIVE MODE");
    if mode != "owned" {
        ends.send(b"pop\r\n").unwrap();
        ends.finish();
    }
    peer.send(b"delete 1\r\n").unwrap();
    until("it waits", || cluster.has_session(&name, "wait_event_type = 'Lock'"));
    // For longer than a statement may take, and until takes of clients that have gone are dropped.
    cluster.sql(&name, "SELECT pg_sleep(2)");
    BetweenTwoBatches::let_go(cluster, &name, holder);
    peer.expect(b"DELETED\r\n").unwrap_or_else(|why| panic!("{mode}: {why}"));
    if mode != "owned" {
        ends.expect(b"INTERNAL_ERROR\r\n").unwrap_or_else(|why| panic!("{mode}: {why}"));
    }
    cluster.set(&name, "statement_timeout", "0");
    assert_eq!(cluster.sql(&name, "SELECT string_agg(id::text, ',') FROM krarup.message"), "2");
    assert!(broker.stop().success);
}

fn another_programs_long_transaction_does_no_harm(cluster: &Cluster, mode: &str) {
    let name = format!("long_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    thread::scope(|scope| {
        let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM krarup.message; SELECT pg_sleep(2); COMMIT";
        let holder = scope.spawn(|| cluster.sql(&name, snapshot));
        let storm = Storm::begin(broker.address(), 6);
        storm.wait_for(600);
        let history = storm.end();
        history.check(broker.address(), 0);
        holder.join().unwrap();
    });
    assert!(broker.stop().success);
}

fn what_applications_lay_down_is_in_its_queue(cluster: &Cluster, mode: &str) {
    let name = format!("laid_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let mut peer = broker.connect();
    say(&mut peer, "watch bills\r\n", "WATCHING 2\r\n");
    cluster.sql(&name, "BEGIN; SELECT krarup.put('bills', 'none'); ROLLBACK");
    cluster.sql(&name, "SELECT krarup.put('bills', 'one')");
    say(&mut peer, "reserve\r\n", "RESERVED 1 3\r\none\r\n");
    say(&mut peer, "reserve-with-timeout 1\r\n", "TIMED_OUT\r\n");
    assert_eq!(cluster.sql(&name, "SELECT count(*) FROM krarup.incoming"), "0");
    // Applications may not lay down what could not be put.
    for bad in ["'no good', 'x'", "'x', 'x', delay => -1", "'x', 'x', ttr => 0", "'x', 'x', priority => -1"] {
        let put = format!(
            "DO $$ BEGIN PERFORM krarup.put({bad}); RAISE 'it was taken'; \
             EXCEPTION WHEN check_violation THEN NULL; END $$"
        );
        cluster.sql(&name, &put);
    }
    what_applications_lay_down_keeps_its_bytes(cluster, &name, &mut peer);
    assert!(broker.stop().success);
    what_applications_lay_down_is_as_large_as_the_broker_takes(cluster, &name, mode);
}

/// One half is ready as soon as it is taken in, the other half after its delay.
fn more_than_one_sweep_takes_is_all_ready(cluster: &Cluster, mode: &str) {
    let name = format!("much_{mode}");
    let store = cluster.database(&name);
    let broker = broker(&store, mode);
    let lay_down =
        "SELECT krarup.put('bills', 'x', delay => number % 2) FROM generate_series(1, 10000) AS number";
    cluster.sql(&name, lay_down);
    let ready = "SELECT count(*) FROM krarup.message WHERE tube = 'bills' AND state = 0";
    until("all messages are ready", || cluster.sql(&name, ready) == "10000");
    assert_eq!(cluster.sql(&name, "SELECT count(*) FROM krarup.incoming"), "0");
    assert!(broker.stop().success);
}

/// Runs the lines of the guide behind `title`, made a whole program by `program`, and expects their
/// message and their row.
fn an_outbox_of_the_guide_puts_a_message(
    title: &str,
    language: &str,
    body: &str,
    program: impl Fn(&Cluster, &str) -> Command,
) {
    let guide = include_str!("../../../../docs/guide/broker.md");
    let (_, after) = guide.split_once(title).unwrap();
    let (_, code) = after.split_once(&format!("```{language}\n")).unwrap();
    let (code, _) = code.split_once("```").unwrap();
    assert!(code.contains("krarup.put"));
    let Some(cluster) = Cluster::start(&format!("outbox-{language}")) else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let store = cluster.database("shop");
    let broker = broker(&store, "owned");
    cluster.sql("shop", "CREATE TABLE orders (id int PRIMARY KEY, state text)");
    said(&program(&cluster, code).output().unwrap());
    let mut peer = broker.connect();
    say(&mut peer, "watch bills\r\n", "WATCHING 2\r\n");
    peer.send(b"reserve\r\n").unwrap();
    let head = peer.line().unwrap();
    let length = format!(" {}\r\n", body.len());
    assert!(head.starts_with(b"RESERVED ") && head.ends_with(length.as_bytes()), "{}", shown(&head));
    assert_eq!(shown(&peer.line().unwrap()), shown(format!("{body}\r\n").as_bytes()));
    assert_eq!(cluster.sql("shop", "SELECT state FROM orders WHERE id = 42"), "paid");
    assert!(broker.stop().success);
}

#[test]
fn the_guides_outbox_in_python_puts_a_message() {
    let Some(python) = python("psycopg") else {
        return skipped("no Python has psycopg; CLIENTS_PYTHON names one");
    };
    an_outbox_of_the_guide_puts_a_message("With psycopg", "python", "{\"order\": 42}", |cluster, code| {
        assert!(code.contains("\"dbname=shop\""));
        let here = format!("{:?}", cluster.at("shop"));
        let mut command = Command::new(&python);
        command.arg("-c").arg(format!("import json, psycopg\n{}", code.replace("\"dbname=shop\"", &here)));
        command
    });
}

#[test]
fn the_guides_outbox_in_java_puts_a_message() {
    let driver = Path::new("/usr/share/java/postgresql.jar");
    let java = Command::new("javac").arg("-version").output();
    if !driver.exists() || !java.is_ok_and(|java| java.status.success()) {
        return skipped("apt-get install default-jdk-headless libpostgresql-jdbc-java");
    }
    an_outbox_of_the_guide_puts_a_message("With JDBC", "java", "{\"order\": 42}", |cluster, code| {
        cluster.sql("shop", "INSERT INTO orders VALUES (42, 'open')");
        let port = cluster.over_tcp().port;
        let update = "try (var order = connection.createStatement()) { \
                      order.executeUpdate(\"UPDATE orders SET state = 'paid' WHERE id = 42\"); }";
        let program = format!(
            "public class Outbox {{ public static void main(String[] arguments) throws Exception {{\n\
             var where = \"jdbc:postgresql://127.0.0.1:{port}/shop?user=krarup&sslmode=disable\";\n\
             try (var connection = java.sql.DriverManager.getConnection(where)) {{\n{}\n}} }} }}",
            code.replacen("setAutoCommit(false);", &format!("setAutoCommit(false);\n{update}"), 1)
        );
        let file = cluster.folder().join("Outbox.java");
        fs::write(&file, program).unwrap();
        let mut command = Command::new("java");
        command.arg("-cp").arg(driver).arg(file);
        command
    });
}

#[test]
fn the_guides_outbox_in_ruby_puts_a_message() {
    let has_it = Command::new("ruby").args(["-e", "require 'active_record'; require 'pg'"]).output();
    if !has_it.is_ok_and(|ruby| ruby.status.success()) {
        return skipped("apt-get install ruby-activerecord ruby-pg");
    }
    an_outbox_of_the_guide_puts_a_message("With ActiveRecord", "ruby", "{\"order\":42}", |cluster, code| {
        cluster.sql("shop", "INSERT INTO orders VALUES (42, 'open')");
        let program = format!(
            "require 'active_record'\n\
             ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: {:?}, username: 'krarup', \
             database: 'shop')\n\
             class Order < ActiveRecord::Base; end\n\
             order = Order.find(42)\n{code}",
            cluster.folder()
        );
        let mut command = Command::new("ruby");
        command.arg("-e").arg(program);
        command
    });
}

/// Whatever type it has, and however its parameter is declared.
fn what_applications_lay_down_keeps_its_bytes(cluster: &Cluster, name: &str, peer: &mut Peer) {
    let json = r#"{"line": "one\ntwo", "path": "C:\\x", "hex": "\\x4142",  "ö": 1}"#;
    cluster.sql(name, "CREATE TABLE outbox (t text, v varchar(200), j json, b jsonb, y bytea)");
    let row = format!(
        "INSERT INTO outbox VALUES ('{json}', '{json}', '{json}', '{json}', convert_to('{json}', 'UTF8'))"
    );
    cluster.sql(name, &row);
    let canonical = cluster.sql(name, "SELECT b FROM outbox");
    let puts = [
        (format!("SELECT krarup.put('bills', '{json}')"), json),
        ("SELECT krarup.put('bills', t) FROM outbox".into(), json),
        ("SELECT krarup.put('bills'::varchar, v) FROM outbox".into(), json),
        ("SELECT krarup.put('bills', j) FROM outbox".into(), json),
        ("SELECT krarup.put('bills', y, delay => 0) FROM outbox".into(), json),
        ("SELECT krarup.put('bills', b, ttr => 60) FROM outbox".into(), &canonical),
        (format!("PREPARE p AS SELECT krarup.put($1, $2); EXECUTE p('bills', '{json}')"), json),
        (
            format!("PREPARE p (text, varchar) AS SELECT krarup.put($1, $2); EXECUTE p('bills', '{json}')"),
            json,
        ),
        (
            format!("PREPARE p (text, jsonb) AS SELECT krarup.put($1, $2); EXECUTE p('bills', '{json}')"),
            &canonical,
        ),
        (r"SELECT krarup.put('bills', '\x4142')".into(), r"\x4142"),
        (r"SELECT krarup.put('bills', '\x4142'::bytea)".into(), "AB"),
        (r"SELECT krarup.put('bills', E'tab\there')".into(), "tab\there"),
    ];
    for (statement, body) in puts {
        cluster.sql(name, &statement);
        peer.send(b"pop 30\r\n").unwrap();
        let line = String::from_utf8(peer.line().unwrap()).unwrap();
        assert!(line.ends_with(&format!(" {}\r\n", body.len())), "{statement}: {line}");
        peer.expect(format!("{body}\r\n").as_bytes()).unwrap_or_else(|why| panic!("{statement}: {why}"));
    }
}

fn what_applications_lay_down_is_as_large_as_the_broker_takes(cluster: &Cluster, name: &str, mode: &str) {
    let put =
        |length: u32| cluster.try_sql(name, &format!("SELECT krarup.put('large', repeat('x', {length}))"));
    let insert =
        "INSERT INTO krarup.incoming (tube, body) VALUES ('large', convert_to(repeat('x', 65536), 'UTF8'))";
    for refused in [put(65_536), cluster.try_sql(name, insert)] {
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && why.contains("65535 at most") && why.contains("--max-message-size"),
            "{why}"
        );
    }
    // Who may insert, and nothing else, may put.
    cluster.sql(name, &format!("CREATE ROLE app_{mode}; GRANT USAGE ON SCHEMA krarup TO app_{mode}; GRANT INSERT ON krarup.incoming TO app_{mode}"));
    cluster.sql(name, &format!("SET ROLE app_{mode}; SELECT krarup.put('large', repeat('x', 65535))"));
    let store = cluster.at(name);
    let begin = ["broker", "--listen", "127.0.0.1:0", "--store", &store, "--mode", mode, "-z", "70000"];
    let broker = Program::krarup(&begin);
    assert!(put(65_536).status.success() && !put(70_001).status.success());
    let mut peer = broker.connect();
    say(&mut peer, "watch large\r\n", "WATCHING 2\r\n");
    for length in [65_535, 65_536] {
        peer.send(b"reserve\r\n").unwrap();
        let line = String::from_utf8(peer.line().unwrap()).unwrap();
        assert!(line.starts_with("RESERVED") && line.ends_with(&format!(" {length}\r\n")), "{line}");
        peer.expect(format!("{}\r\n", "x".repeat(length)).as_bytes()).unwrap();
    }
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
