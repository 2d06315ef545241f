//! Pools: who holds a key, who is asked, what is asked besides.

use super::*;
use crate::ids::{PoolId, ServerId};
use crate::keys::MOST_PARTS;
use crate::topology::{Hedge, PoolSpec, Reads, Route, Shadow, StandIn, WhenDown, Writes};
use krarup_service::ConnectionLoss;

/// The first key, of those that are counted up, whose holders are these.
pub(super) fn key_at(world: &mut World, holders: &[usize]) -> String {
    let routing = &mut world.core.routing;
    let holders: Vec<ServerId> = holders.iter().copied().map(ServerId::new).collect();
    (0..1_000)
        .map(|number| format!("k{number}"))
        .find(|key| *routing[PoolId::new(0)].holders(key.as_bytes()) == *holders)
        .expect("there is one among so many")
}

fn value(key: &str, text: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{text}\r\n", text.len())
}

#[test]
fn a_placed_key_is_read_and_written_where_it_belongs() {
    let mut world = one_pool(placed("main", vec![0, 1, 2], 1));
    let client = world.client();
    for server in 0..3 {
        let key = key_at(&mut world, &[server]);
        world.send(client, format!("set {key} 0 0 1\r\nx\r\nget {key}\r\ndelete {key}\r\n"));
        let expected = format!("set {key} 0 0 1\r\nx\r\nget {key}\r\ndelete {key}\r\n");
        assert_eq!(world.asked(server), expected);
        world.answer(server, format!("STORED\r\n{}END\r\nDELETED\r\n", value(&key, "x")));
        assert_eq!(world.replied(client), format!("STORED\r\n{}END\r\nDELETED\r\n", value(&key, "x")));
    }
    assert_eq!(world.core.pools()[0].counts().requests, 9);
}

#[test]
fn a_multi_get_asks_each_server_once_and_keeps_the_order_of_the_keys() {
    let mut world = one_pool(placed("main", vec![0, 1, 2], 1));
    let client = world.client();
    let [a, b, c] = [0, 1, 2].map(|server| key_at(&mut world, &[server]));
    world.send(client, format!("get {c} {a} {b} {c} {a}\r\n"));
    assert_eq!(world.asked(0), format!("get {a} {a}\r\n"));
    assert_eq!(world.asked(1), format!("get {b}\r\n"));
    assert_eq!(world.asked(2), format!("get {c} {c}\r\n"));
    world.answer(1, "END\r\n").answer(2, format!("{0}{0}END\r\n", value(&c, "3")));
    world.answer(0, format!("{0}{0}END\r\n", value(&a, "1")));
    let (one, three) = (value(&a, "1"), value(&c, "3"));
    assert_eq!(world.replied(client), format!("{three}{one}{three}{one}END\r\n"));
    let (visit, servers) = world.row(0);
    assert_eq!((visit.keys, visit.hits, visit.misses, servers.len()), (5, 4, 1, 3));
}

/// A line of nearly 16 KiB.
#[test]
fn a_gat_of_many_keys_is_divided_among_servers() {
    let mut world = one_pool(placed("main", vec![0, 1], 1));
    let client = world.client();
    let keys: Vec<String> = (0..2_700).map(|number| format!("k{number}")).collect();
    world.send(client, format!("gat 0 {} k7 k8\r\n", keys.join(" ")));
    let asked = [world.asked(0), world.asked(1)];
    let count =
        |lines: &str| -> usize { lines.lines().map(|line| line.split_ascii_whitespace().count() - 2).sum() };
    assert_eq!(count(&asked[0]) + count(&asked[1]), keys.len() + 2);
    for again in ["k7", "k8"] {
        let at = |line: &String| line.split_ascii_whitespace().filter(|&key| key == again).count();
        let mut times = asked.each_ref().map(at);
        times.sort_unstable();
        assert_eq!(times, [0, 2], "{again} is asked of one server");
    }
}

/// One line may have a key thousands of times, and all clients' requests go by the same connection.
#[test]
fn a_gat_touches_a_key_once_at_its_other_holders() {
    for times in [1, 2, 40] {
        let mut world = one_pool(PoolSpec { reads: Reads::Primary, ..placed("main", vec![0, 1], 2) });
        let client = world.client();
        let (key, other) = (key_at(&mut world, &[0, 1]), key_at(&mut world, &[1, 0]));
        let keys = format!(" {key}").repeat(times);
        world.send(client, format!("gat 60 {other}{keys}\r\n"));
        assert_eq!(world.asked(0), format!("gat 60{keys}\r\ntouch {other} 60\r\n"));
        assert_eq!(world.asked(1), format!("gat 60 {other}\r\ntouch {key} 60\r\n"));
        let (first, others) = (value(&other, "x"), value(&key, "x").repeat(times));
        world.answer(0, format!("{others}END\r\nTOUCHED\r\n"));
        world.answer(1, format!("{first}END\r\nTOUCHED\r\n"));
        assert_eq!(world.replied(client), format!("{first}{others}END\r\n"));
    }
}

/// memcached closes the connection, which all clients share, on a longer line that is no `get`.
#[test]
fn a_gat_of_many_keys_is_sent_in_lines_that_its_server_reads() {
    let add = "x".repeat(100);
    let pools = vec![PoolSpec::of("main", vec![0])];
    let route = Route { prefix: b"0".to_vec(), pool: 0, strip: false, add: add.clone().into_bytes() };
    let mut world = World::before(Topology { servers: names(1), pools, routes: vec![route] }, settings());
    let client = world.client();
    let mut keys: Vec<String> = (0..200).map(|number| format!("{number:030}")).collect();
    keys.extend([keys[7].clone(), keys[150].clone()]);
    world.send(client, format!("gat -2147483648 {}\r\n", keys.join(" ")));
    let asked = world.asked(0);
    assert!(asked.split_inclusive('\n').all(|line| line.len() <= 1_024), "{asked}");
    let mut sent = Vec::new();
    for line in asked.lines() {
        let of_line: Vec<&str> = line.strip_prefix("gat -2147483648 ").unwrap().split(' ').collect();
        let values: String = of_line.iter().map(|key| value(key, "x")).collect();
        world.answer(0, format!("{values}END\r\n"));
        sent.extend(of_line.iter().map(|key| key.strip_prefix(&*add).unwrap()));
    }
    assert_eq!(sent, keys, "each is asked for in its turn");
    let values: String = keys.iter().map(|key| value(key, "x")).collect();
    assert_eq!(world.replied(client), format!("{values}END\r\n"));
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn a_write_goes_to_all_holders_and_a_read_to_one() {
    let mut world = one_pool(PoolSpec { reads: Reads::Primary, ..placed("main", vec![0, 1, 2], 2) });
    let client = world.client();
    let key = key_at(&mut world, &[2, 0]);
    world.send(client, format!("set {key} 0 0 1\r\nx\r\nget {key}\r\n"));
    assert_eq!(world.asked(2), format!("set {key} 0 0 1\r\nx\r\nget {key}\r\n"));
    assert_eq!(world.asked(0), format!("set {key} 0 0 1\r\nx\r\n"));
    assert_eq!(world.asked(1), "");
    world.answer(2, "STORED\r\nEND\r\n");
    assert_eq!(world.replied(client), "");
    world.answer(0, "STORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\nEND\r\n");
}

#[test]
fn a_quorum_is_enough_and_the_late_answer_belongs_to_no_request() {
    let mut world = one_pool(PoolSpec { writes: Writes::Quorum, ..PoolSpec::of("main", vec![0, 1, 2]) });
    let client = world.client();
    world.send(client, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\n").write_servers();
    world.answer(1, "STORED\r\n");
    assert_eq!(world.replied(client), "");
    world.answer(2, "STORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\n");
    assert_eq!(world.rows.lock().unwrap().len(), 1);
    assert_eq!((world.core.in_progress(), world.core.unfinished()), (1, 2));
    world.answer(0, "SERVER_ERROR busy\r\n");
    assert_eq!(world.replied(client), "");
    // Two that cannot make it impossible: the third need not be waited for.
    world.answer(0, "SERVER_ERROR busy\r\n").answer(1, "SERVER_ERROR full\r\n");
    assert_eq!(world.replied(client), "SERVER_ERROR busy\r\n");
    assert_eq!((world.core.in_progress(), world.core.unfinished()), (0, 1));
    world.core.server_lost(2, "gone", ConnectionLoss::Broken, world.now);
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    assert_eq!(world.core.in_progress(), 0);
    let asked: Vec<_> = world.core.recorder().servers().map(|(_, totals)| totals.requests).collect();
    assert_eq!(asked, [2, 2, 2], "late answers are counted with their servers");
}

#[test]
fn the_first_good_answer_is_enough_where_that_was_wished() {
    let mut world = one_pool(PoolSpec { writes: Writes::First, ..PoolSpec::of("main", vec![0, 1]) });
    let client = world.client();
    world.send(client, "set a 0 0 1\r\nx\r\n").write_servers();
    world.answer(1, "SERVER_ERROR full\r\n");
    assert_eq!(world.replied(client), "");
    world.answer(0, "STORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\n");
}

#[test]
fn a_number_is_answered_that_a_quorum_has() {
    for (asked, one, others) in [("incr a 1", "5", "7"), ("ma a v", "VA 1\r\n5", "VA 1\r\n7")] {
        let mut world = one_pool(PoolSpec { writes: Writes::Quorum, ..PoolSpec::of("main", vec![0, 1, 2]) });
        let client = world.client();
        world.send(client, format!("{asked}\r\n")).write_servers();
        world.answer(0, format!("{one}\r\n")).answer(1, format!("{others}\r\n"));
        assert_eq!(world.replied(client), "", "{asked}");
        world.answer(2, format!("{others}\r\n"));
        assert_eq!(world.replied(client), format!("{others}\r\n"));
        assert_eq!(world.core.events().disagreements, 1);
    }
}

#[test]
fn a_holder_that_did_nothing_does_not_answer_for_one_that_did() {
    let failure = "SERVER_ERROR out of memory\r\n";
    for (last, reply) in [
        ("101\r\n", "101\r\n"),
        ("NOT_FOUND\r\n", "NOT_FOUND\r\n"),
        // The others' failure is not reported.
        (failure, "NOT_FOUND\r\n"),
    ] {
        let mut world = one_pool(PoolSpec { writes: Writes::First, ..PoolSpec::of("main", vec![0, 1]) });
        let client = world.client();
        world.send(client, "incr a 1\r\n").write_servers();
        world.answer(1, "NOT_FOUND\r\n");
        assert_eq!(world.replied(client), "");
        world.answer(0, last);
        assert_eq!(world.replied(client), reply);
    }
}

#[test]
fn copies_follow_behind_where_only_the_primary_is_waited_for() {
    let mut world = one_pool(PoolSpec { writes: Writes::Async, ..PoolSpec::of("main", vec![0, 1, 2]) });
    let client = world.client();
    world.send(client, "add a 5 60 1\r\nx\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("add a 5 60 1\r\nx\r\n".into(), String::new()));
    world.answer(0, "STORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\n");
    assert_eq!(world.asked(1), "set a 5 60 1\r\nx\r\n");
    assert_eq!(world.asked(2), "set a 5 60 1\r\nx\r\n");
    assert_eq!(world.core.owes_copy(), Some(1));
    world.send(client, "add a 5 60 1\r\nx\r\n").write_servers();
    world.answer(0, "NOT_STORED\r\n");
    assert_eq!((world.replied(client), world.asked(1)), ("NOT_STORED\r\n".into(), String::new()));
    world.answer(1, "STORED\r\n").answer(2, "SERVER_ERROR full\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight(), world.core.owes_copy()), (0, 0, None));
    assert_eq!(world.core.pools()[0].counts().dropped, 1);
    // A value that is refused removes what the copies bring, too.
    world.received[0].clear();
    world.send(client, format!("set a 0 0 1\r\nx\r\nset a 0 0 101\r\n{}\r\n", "y".repeat(101)));
    assert_eq!((world.asked(0), world.asked(1)), ("set a 0 0 1\r\nx\r\n".into(), String::new()));
    world.answer(0, "STORED\r\n").write_clients();
    assert_eq!(
        (world.asked(0), world.asked(1)),
        ("delete a\r\n".into(), "set a 0 0 1\r\nx\r\ndelete a\r\n".into())
    );
    // So does a flush.
    let other = world.client();
    world.send(other, "set b 0 0 1 noreply\r\nx\r\nflush_all\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("set b 0 0 1\r\nx\r\n".into(), String::new()));
    world.answer(0, "DELETED\r\nSTORED\r\n").write_clients();
    assert_eq!(
        (world.asked(0), world.asked(1)),
        ("flush_all\r\n".into(), "set b 0 0 1\r\nx\r\nflush_all\r\n".into())
    );
    // Whether a copy was carried out whose server has not answered, nothing tells.
    world.core.server_lost(1, "no answer within the time allowed", ConnectionLoss::TimedOut, world.now);
    assert_eq!(world.core.pools()[0].counts().dropped, 3);
}

#[test]
fn what_the_primary_has_no_room_for_is_removed_behind_it_too() {
    let mut world = one_pool(PoolSpec { writes: Writes::Async, ..PoolSpec::of("main", vec![0, 1]) });
    let client = world.client();
    let full = "SERVER_ERROR out of memory storing object\r\n".repeat(2);
    world.send(client, "set a 0 0 1\r\nx\r\nadd b 0 0 1\r\nx\r\n").write_servers();
    world.answer(0, &full);
    assert_eq!((world.replied(client), world.asked(1)), (full, "delete a\r\n".into()));
    world.answer(1, "NOT_FOUND\r\n");
    assert_eq!(world.core.pools()[0].counts().dropped, 0);
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn a_read_that_fails_is_tried_at_the_next_holder_within_a_budget() {
    let spec =
        PoolSpec { fall_back_on_error: true, reads: Reads::Primary, ..PoolSpec::of("main", vec![0, 1]) };
    let mut world = one_pool(PoolSpec { retry_budget: 0.0, ..spec.clone() });
    let client = world.client();
    world.send(client, "get a\r\n").write_servers();
    world.answer(0, "SERVER_ERROR busy\r\n");
    assert_eq!(world.replied(client), "SERVER_ERROR busy\r\n", "there is nothing in this budget");

    let mut world = one_pool(spec);
    let client = world.client();
    world.send(client, "get a b\r\nget c\r\nset d 0 0 1\r\nx\r\n").write_servers();
    world.answer(0, "SERVER_ERROR busy\r\n");
    assert!(world.asked(1).ends_with("get a b\r\n"));
    world.core.server_lost(0, "no answer within the time allowed", ConnectionLoss::TimedOut, world.now);
    assert_eq!(world.asked(1), "get c\r\n");
    world.answer(1, format!("STORED\r\n{}END\r\n{}END\r\n", value("b", "2"), value("c", "3")));
    let lost = "SERVER_ERROR server-0:1: no answer within the time allowed\r\n";
    assert_eq!(world.replied(client), format!("{}END\r\n{}END\r\n{lost}", value("b", "2"), value("c", "3")));
    assert_eq!(world.core.pools()[0].counts().retries, 2);
    let (visit, servers) = world.row(0);
    assert_eq!((visit.outcome, servers.len()), (Outcome::Ok, 2));
}

/// Each key of a get paid for retries, and a part that failed took one, however many servers it was
/// moved to: a pool in trouble was asked for everything again, with three times the requests.
#[test]
fn gets_of_many_keys_are_tried_again_within_the_budget_too() {
    let spec = placed("main", vec![0, 1, 2], 2);
    let mut world = one_pool(PoolSpec { fall_back_on_error: true, retry_budget: 0.2, ..spec });
    let client = world.client();
    let (mut parts, mut requests) = (0, 0);
    for read in 0..100 {
        let keys: Vec<String> = (0..24).map(|key| format!("k{}", 24 * read + key)).collect();
        world.send(client, format!("get {}\r\n", keys.join(" ")));
        let mut asked = [0, 1, 2].map(|server| world.asked(server).lines().count());
        parts += asked.iter().sum::<usize>();
        while asked != [0; 3] {
            requests += asked.iter().sum::<usize>();
            for (server, &count) in asked.iter().enumerate() {
                world.answer(server, "SERVER_ERROR busy\r\n".repeat(count));
            }
            asked = [0, 1, 2].map(|server| world.asked(server).lines().count());
        }
        assert!(world.replied(client).starts_with("SERVER_ERROR"));
    }
    // Ten are saved up, and the last part may go to two servers.
    assert!(requests > parts && 10 * requests <= 12 * parts + 110, "{requests} for {parts} parts");
}

/// A server that is slow or fails would get all reads: the others had been given some that they
/// never saw.
#[test]
fn a_holder_that_no_budget_pays_for_counts_as_not_asked() {
    let hedge = Some(Hedge { quantile: 0.95, budget: 0.0 });
    let mut world = one_pool(PoolSpec { hedge, ..PoolSpec::of("main", vec![0, 1]) });
    let client = world.client();
    for read in 0..100_u64 {
        world.at(read * 1_000_000).send(client, "get a\r\n");
        let server = (0..2).find(|&server| !world.asked(server).is_empty()).unwrap();
        world.at(read * 1_000_000 + 100_000).answer(server, "END\r\n").replied(client);
    }
    for read in 200..210_u64 {
        world.at(read * 1_000_000).send(client, "get a\r\n");
        world.now = world.core.deadline().unwrap();
        world.core.tick(world.now);
    }
    assert_eq!([0, 1].map(|server| world.asked(server).lines().count()), [5, 5]);

    let spec = PoolSpec { fall_back_on_error: true, ..PoolSpec::of("main", vec![0, 1]) };
    let mut world = one_pool(PoolSpec { retry_budget: 0.0, ..spec });
    let client = world.client();
    let mut asked = [0; 2];
    for _ in 0..10 {
        world.send(client, "get a\r\n");
        let server = (0..2).find(|&server| !world.asked(server).is_empty()).unwrap();
        asked[server] += 1;
        world.answer(server, "SERVER_ERROR busy\r\n");
        assert_eq!(world.replied(client), "SERVER_ERROR busy\r\n");
    }
    assert_eq!(asked, [5, 5]);
}

#[test]
fn where_one_key_has_no_other_holder_those_of_the_others_count_as_not_asked() {
    let mut world = one_pool(PoolSpec { fall_back_on_error: true, ..placed("main", vec![0, 1, 2], 2) });
    let client = world.client();
    let [one, other] = [[0, 1], [2, 0]].map(|holders| key_at(&mut world, &holders));
    world.core.server_lost(2, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, format!("get {one} {other}\r\n"));
    assert_eq!(world.asked(0), format!("get {one} {other}\r\n"));
    world.answer(0, "SERVER_ERROR busy\r\n").replied(client);
    for _ in 0..2 {
        world.send(client, format!("get {one}\r\n"));
        assert_eq!(world.asked(1), format!("get {one}\r\n"));
        world.answer(1, "END\r\n").replied(client);
    }
}

/// Two holders of everything, the first preferred: what it has not is looked for at the other.
fn refilled() -> World {
    one_pool(PoolSpec {
        fall_back_on_miss: true,
        refill: Some(90),
        reads: Reads::Primary,
        ..PoolSpec::of("main", vec![0, 1])
    })
}

#[test]
fn a_missing_key_is_looked_for_at_the_next_holder_and_stored_where_it_was_missed() {
    let mut world = refilled();
    let client = world.client();
    world.send(client, "get a b c\r\n").write_servers();
    world.received[0].clear();
    world.answer(0, format!("{}END\r\n", value("b", "2")));
    assert_eq!(world.asked(1), "get a c\r\n");
    world.answer(1, format!("{}END\r\n", value("c", "3")));
    assert_eq!(world.replied(client), format!("{}{}END\r\n", value("b", "2"), value("c", "3")));
    assert_eq!(world.asked(0), "add c 0 90 1\r\n3\r\n");
    let (visit, _) = world.row(0);
    assert_eq!((visit.hits, visit.misses), (2, 1));
    world.answer(0, "STORED\r\n");
    let counts = world.core.pools()[0].counts();
    assert_eq!((counts.miss_retries, counts.refills), (1, 1));
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

/// With one more, a part had the number of none.
#[test]
fn what_would_be_a_part_too_many_is_a_miss_or_an_error() {
    const SERVERS: usize = 40;
    let mut world = one_pool(PoolSpec {
        fall_back_on_error: true,
        fall_back_on_miss: true,
        reads: Reads::Primary,
        ..placed("main", (0..SERVERS).collect(), 2)
    });
    let client = world.client();
    let keys: Vec<String> =
        (0..SERVERS).map(|server| key_at(&mut world, &[server, (server + 1) % SERVERS])).collect();
    let get = format!("get {}\r\n", keys.join(" "));
    let moved = MOST_PARTS - SERVERS;
    for (last, reply) in [("END\r\n", "END\r\n"), ("SERVER_ERROR busy\r\n", "SERVER_ERROR busy\r\n")] {
        world.send(client, &get);
        for (server, key) in keys.iter().enumerate() {
            assert_eq!(world.asked(server), format!("get {key}\r\n"));
        }
        (0..SERVERS - 1).for_each(|server| _ = world.answer(server, "END\r\n"));
        world.answer(SERVERS - 1, last);
        let mut values = String::new();
        for (key, server) in keys[..moved].iter().zip(1..) {
            assert_eq!(world.asked(server), format!("get {key}\r\n"));
            world.answer(server, format!("{}END\r\n", value(key, "1")));
            values += &value(key, "1");
        }
        let values = if last.starts_with("END") { values } else { String::new() };
        assert_eq!(world.replied(client), format!("{values}{reply}"));
        assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    }
    let (visit, _) = world.row(0);
    assert_eq!((visit.hits, visit.misses), (moved as u32, (SERVERS - moved) as u32));
    let counts = world.core.pools()[0].counts();
    assert_eq!((counts.miss_retries, counts.retries), (2 * moved as u64, 0));
}

#[test]
fn many_parts_ask_each_server_once() {
    const SERVERS: usize = 40;
    let mut world = one_pool(placed("main", (0..SERVERS).collect(), 1));
    let client = world.client();
    let keys: Vec<String> = (0..SERVERS).map(|server| key_at(&mut world, &[server])).collect();
    let all = keys.join(" ");
    world.send(client, format!("get {all} {all}\r\n"));
    for (server, key) in keys.iter().enumerate() {
        assert_eq!(world.asked(server), format!("get {key} {key}\r\n"));
        world.answer(server, format!("{0}{0}END\r\n", value(key, "1")));
    }
    let values: String = keys.iter().map(|key| value(key, "1")).collect();
    assert_eq!(world.replied(client), format!("{values}{values}END\r\n"));
}

/// Holders whose clocks tick at other instants would give each other the last copy for ever.
#[test]
fn only_a_server_that_has_just_come_up_is_given_what_it_does_not_have() {
    let mut world = refilled();
    let client = world.client();
    world.at(100_000_000_000);
    for (stored, loss) in [
        // One that only stood still has lost nothing.
        ("", ConnectionLoss::TimedOut),
        ("", ConnectionLoss::Broken),
        ("add a 0 90 1\r\nx\r\n", ConnectionLoss::Broken),
    ] {
        world.send(client, "get a\r\n");
        assert_eq!(world.asked(0), "get a\r\n");
        world.answer(0, "END\r\n");
        assert_eq!(world.asked(1), "get a\r\n");
        world.answer(1, format!("{}END\r\n", value("a", "x")));
        assert_eq!(world.replied(client), format!("{}END\r\n", value("a", "x")));
        assert_eq!(world.asked(0), stored);
        world.core.server_lost(0, "gone", loss, world.now);
        world.bring_up(0);
    }
}

#[test]
fn what_was_read_before_a_key_changed_is_not_stored_where_it_was_missed() {
    for (write, [first, second], reply) in [
        ("delete a", ["NOT_FOUND", "DELETED"], "NOT_FOUND"),
        ("md a", ["NF", "HD"], "NF"),
        ("incr a 1", ["NOT_FOUND", "2"], "NOT_FOUND"),
        ("append a 0 0 1\r\ny", ["NOT_STORED", "STORED"], "NOT_STORED"),
        ("ms a 1 MA\r\ny", ["NS", "HD"], "NS"),
        ("touch a -1", ["NOT_FOUND", "TOUCHED"], "NOT_FOUND"),
        ("ms a 1 T-1\r\ny", ["HD", "HD"], "HD"),
        // memcached takes it for a time of day, in 1970; the other is now.
        ("touch a 2592001", ["NOT_FOUND", "TOUCHED"], "NOT_FOUND"),
        ("touch a 1700000000", ["NOT_FOUND", "TOUCHED"], "NOT_FOUND"),
        ("set a 0 2592001 1\r\ny", ["STORED", "STORED"], "STORED"),
        ("ms a 1 T2592001\r\ny", ["HD", "HD"], "HD"),
        ("flush_all", ["OK", "OK"], "OK"),
    ] {
        let mut world = refilled();
        let (reader, writer) = (world.client(), world.client());
        world.send(reader, "get a\r\n").write_servers().answer(0, "END\r\n");
        world.send(writer, format!("{write}\r\n"));
        assert_eq!(world.asked(0), format!("get a\r\n{write}\r\n"));
        assert_eq!(world.asked(1), format!("get a\r\n{write}\r\n"));
        world.answer(0, format!("{first}\r\n"));
        world.answer(1, format!("{}END\r\n{second}\r\n", value("a", "1")));
        assert_eq!(world.replied(reader), format!("{}END\r\n", value("a", "1")));
        assert_eq!(world.replied(writer), format!("{reply}\r\n"));
        assert_eq!(world.asked(0), "", "{write}");
    }
    for (read, touch, touched) in [
        ("gat -1 a", "touch a -1", "TOUCHED"),
        ("mg a v T-1", "mg a T-1", "HD"),
        ("gat 2592001 a", "touch a 2592001", "TOUCHED"),
        ("mg a v T2592001", "mg a T2592001", "HD"),
    ] {
        let mut world = refilled();
        let (reader, writer) = (world.client(), world.client());
        world.send(reader, "get a\r\n").write_servers().answer(0, "END\r\n");
        world.send(writer, format!("{read}\r\n"));
        assert_eq!(world.asked(0), format!("get a\r\n{read}\r\n"));
        assert_eq!(world.asked(1), format!("get a\r\n{touch}\r\n"));
        world.answer(1, format!("{}END\r\n{touched}\r\n", value("a", "1")));
        assert_eq!(world.replied(reader), format!("{}END\r\n", value("a", "1")));
        assert_eq!(world.asked(0), "", "{read}");
    }
}

#[test]
fn what_expires_at_once_is_not_stored_anew_by_a_read_from_before_its_copies() {
    let pool = PoolSpec {
        fall_back_on_miss: true,
        refill: Some(90),
        reads: Reads::Primary,
        writes: Writes::Async,
        ..PoolSpec::of("main", vec![0, 1])
    };
    let mut world = one_pool(pool);
    let (reader, writer) = (world.client(), world.client());
    world.send(reader, "get a\r\n").write_servers().answer(0, "END\r\n");
    let set = "set a 0 -1 1\r\ny\r\n";
    world.send(writer, set);
    assert_eq!((world.asked(0), world.asked(1)), (format!("get a\r\n{set}"), "get a\r\n".into()));
    // Longer than the note of the write itself is kept.
    world.now = world.now + Nanos(settings().timeout.0 * 3);
    world.answer(0, "STORED\r\n").answer(1, format!("{}END\r\n", value("a", "1")));
    assert_eq!(world.replied(reader), format!("{}END\r\n", value("a", "1")));
    assert_eq!(world.asked(0), "");
}

fn two_pools(first: PoolSpec, second: PoolSpec) -> World {
    let servers = names(first.servers.len() + second.servers.len());
    World::before(Topology { servers, pools: vec![first, second], routes: Vec::new() }, settings())
}

#[test]
fn a_cold_pool_is_filled_from_a_warm_one() {
    for (ttl_cap, ttl) in [(None, 600), (Some(60), 60)] {
        let warm = Some(StandIn { pool: 1, ttl: 600 });
        let cold = PoolSpec { warm, ttl_cap, ..PoolSpec::of("cold", vec![0, 1]) };
        let mut world = two_pools(cold, PoolSpec::of("warm", vec![2]));
        let client = world.client();
        world.send(client, "get a b\r\n").write_servers();
        world.received[0].clear();
        world.answer(0, format!("{}END\r\n", value("a", "1")));
        assert_eq!(world.asked(2), "get b\r\n");
        world.answer(2, format!("{}END\r\n", value("b", "2")));
        assert_eq!(world.replied(client), format!("{}{}END\r\n", value("a", "1"), value("b", "2")));
        // All its holders get it.
        let add = format!("add b 0 {ttl} 1\r\n2\r\n");
        assert_eq!((world.asked(0), world.asked(1)), (add.clone(), add));
        world.answer(0, "STORED\r\n").answer(1, "NOT_STORED\r\n");
        assert_eq!(world.core.in_flight(), 0);
    }
}

#[test]
fn holders_that_were_all_asked_get_what_is_found_elsewhere_once() {
    let warm = Some(StandIn { pool: 1, ttl: 600 });
    let reads = Reads::Primary;
    let cold = PoolSpec { fall_back_on_miss: true, reads, warm, ..PoolSpec::of("cold", vec![0, 1]) };
    let mut world = two_pools(cold, PoolSpec::of("warm", vec![2]));
    let client = world.client();
    world.send(client, "get a\r\n");
    for server in 0..2 {
        assert_eq!(world.asked(server), "get a\r\n");
        world.answer(server, "END\r\n");
    }
    assert_eq!(world.asked(2), "get a\r\n");
    world.answer(2, format!("{}END\r\n", value("a", "1")));
    assert_eq!(world.replied(client), format!("{}END\r\n", value("a", "1")));
    let add = "add a 0 600 1\r\n1\r\n";
    assert_eq!((world.asked(0), world.asked(1)), (add.into(), add.into()));
}

#[test]
fn the_gutter_stands_in_where_all_holders_are_down() {
    let main = PoolSpec { gutter: Some(StandIn { pool: 1, ttl: 10 }), ..placed("main", vec![0, 1], 1) };
    let mut world = two_pools(main, PoolSpec::of("gutter", vec![2]));
    let client = world.client();
    let (there, away) = (key_at(&mut world, &[0]), key_at(&mut world, &[1]));
    world.core.server_lost(1, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, format!("set {away} 0 3600 1\r\nx\r\nget {there} {away}\r\n"));
    assert_eq!(world.asked(2), format!("set {away} 0 10 1\r\nx\r\nget {away}\r\n"));
    assert_eq!(world.asked(0), format!("get {there}\r\n"));
    world.answer(2, format!("STORED\r\n{}END\r\n", value(&away, "x"))).answer(0, "END\r\n");
    assert_eq!(world.replied(client), format!("STORED\r\n{}END\r\n", value(&away, "x")));
    assert_eq!(world.core.pools()[0].counts().guttered, 2);
    // Where it is down itself, what is told is the pool's own server.
    world.core.server_lost(2, "gone", ConnectionLoss::Broken, world.now);
    for request in
        [format!("get {away}\r\n"), format!("set {away} 0 0 1\r\nx\r\n"), format!("mg {away} v\r\n")]
    {
        world.send(client, request);
        assert_eq!(world.replied(client), "SERVER_ERROR server-1:1 is down\r\n");
    }
    assert_eq!(world.core.pools()[0].counts().guttered, 2);
}

/// Else the gutter would have it for ever, and answer it when the pool is down the next time.
#[test]
fn a_copy_in_the_gutter_has_the_lifetime_of_its_write_though_the_pool_is_back() {
    let main = PoolSpec { gutter: Some(StandIn { pool: 1, ttl: 10 }), ..PoolSpec::of("main", vec![0]) };
    let mut world = two_pools(main, PoolSpec::of("gutter", vec![1, 2]));
    let client = world.client();
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, "cas a 0 0 1 7\r\nx\r\n");
    assert_eq!(world.asked(1), "cas a 0 10 1 7\r\nx\r\n");
    world.bring_up(0);
    world.answer(1, "STORED\r\n");
    assert_eq!(world.asked(2), "set a 0 10 1\r\nx\r\n");
    world.answer(2, "STORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\n");
}

#[test]
fn a_request_that_the_gutter_takes_counts_once() {
    let gutter = Some(StandIn { pool: 1, ttl: 10 });
    let main = PoolSpec { gutter, concurrency: Some(1), ..PoolSpec::of("main", vec![0]) };
    let mut world = two_pools(main.clone(), PoolSpec::of("gutter", vec![1, 2]));
    let client = world.client();
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, "cas a 0 0 1 7\r\nx\r\n");
    assert_eq!(world.asked(1), "cas a 0 10 1 7\r\nx\r\n");
    // One that is refused is not taken.
    let other = world.client();
    world.send(other, "delete b\r\n");
    assert!(world.replied(other).ends_with("is limited to 1 requests under way\r\n"));
    world.answer(1, "STORED\r\n");
    assert_eq!(world.asked(2), "set a 0 10 1\r\nx\r\n");
    world.answer(2, "STORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\n");
    assert_eq!(world.core.pools()[0].counts().guttered, 1);
    // A core that only says whose queue a request belongs to is connected to no server.
    let pools = vec![main, PoolSpec::of("gutter", vec![1, 2])];
    let topology = Topology { servers: names(3), pools, routes: Vec::new() };
    let mut books = World::unconnected(topology, settings()).core;
    assert_eq!(books.choose_queue(0, b"get a\r\n", 1), QueueChoice::Read(0));
    assert_eq!(books.pools()[0].counts().guttered, 0);
}

/// Each reader is a thread with a core of its own, which asks the server whose queue it serves.
#[test]
fn reads_that_any_server_may_answer_have_its_queues_in_turn_and_are_asked_where_they_waited() {
    let mut world = one_pool(PoolSpec::of("main", vec![0, 1]));
    let queues = [0, 1, 2].map(|turn| world.core.choose_queue(0, b"get a\r\n", turn));
    assert_eq!(queues, [0, 1, 0].map(QueueChoice::Read));
    assert_eq!(world.core.choose_queue(0, b"delete a\r\n", 1), QueueChoice::Write(0));
    world.core.read_from(1);
    let client = world.client();
    for _ in 0..3 {
        world.send(client, "get a\r\n");
        assert_eq!(world.asked(1), "get a\r\n");
        world.answer(1, "END\r\n");
    }
    world.core.server_lost(1, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, "get a\r\n");
    assert_eq!(world.asked(0), "get a\r\n");
    let mut primary = one_pool(PoolSpec { reads: Reads::Primary, ..PoolSpec::of("main", vec![0, 1]) });
    primary.core.read_from(1);
    assert_eq!(primary.core.choose_queue(0, b"get a\r\n", 1), QueueChoice::Read(0));
    let client = primary.client();
    primary.send(client, "get a\r\n");
    assert_eq!(primary.asked(0), "get a\r\n");
}

#[test]
fn the_next_server_takes_the_place_of_one_that_is_down() {
    let mut world = one_pool(PoolSpec { when_down: WhenDown::Next, ..placed("main", vec![0, 1, 2], 1) });
    let client = world.client();
    let key = key_at(&mut world, &[1]);
    world.core.server_lost(1, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, format!("set {key} 0 0 1\r\nx\r\nget {key}\r\n"));
    assert_eq!(world.asked(2), format!("set {key} 0 0 1\r\nx\r\nget {key}\r\n"));
    world.bring_up(1);
    world.send(client, format!("get {key}\r\n"));
    assert_eq!(world.asked(1), format!("get {key}\r\n"));
    // Without it the key is not served at all.
    let mut world = one_pool(placed("main", vec![0, 1, 2], 1));
    let client = world.client();
    world.core.server_lost(1, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, format!("get {key}\r\nset {key} 0 0 1\r\nx\r\n"));
    assert_eq!(world.replied(client), "SERVER_ERROR server-1:1 is down\r\n".repeat(2));
}

#[test]
fn the_shadow_gets_its_share_and_its_answers_are_dropped() {
    let main = PoolSpec { shadow: Some(Shadow { pool: 1, share: 0.5 }), ..PoolSpec::of("main", vec![0]) };
    let mut world = two_pools(main, PoolSpec::of("shadow", vec![1]));
    let client = world.client();
    world.send(client, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\nget a\r\nget b\r\n");
    assert_eq!(world.asked(1), "set b 0 0 1\r\ny\r\nget b\r\n");
    world.write_servers().answer(0, format!("STORED\r\nSTORED\r\nEND\r\n{}END\r\n", value("b", "y")));
    assert_eq!(world.replied(client), format!("STORED\r\nSTORED\r\nEND\r\n{}END\r\n", value("b", "y")));
    // Nor does a stop wait for them.
    assert_eq!((world.core.in_flight(), world.core.owes_copy()), (2, None));
    world.answer(1, "SERVER_ERROR whatever\r\nEND\r\n");
    assert_eq!(world.replied(client), "");
    // A shadow that is down costs nothing.
    world.core.server_lost(1, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, "get a\r\nget b\r\n");
    let counts = world.core.pools()[0].counts();
    assert_eq!((counts.shadowed, counts.dropped), (2, 1), "sent, and not sent");
}

#[test]
fn a_shadow_is_asked_for_no_other_pools_keys() {
    let route = |prefix: &str, pool| Route { prefix: prefix.into(), pool, strip: false, add: Vec::new() };
    let shadow = Some(Shadow { pool: 2, share: 1.0 });
    let a = PoolSpec { shadow, ..PoolSpec::of("a", vec![0]) };
    let pools = vec![a, PoolSpec::of("b", vec![1]), PoolSpec::of("canary", vec![2])];
    let routes = vec![route("a:", 0), route("b:", 1)];
    let mut world = World::before(Topology { servers: names(3), pools, routes }, settings());
    let client = world.client();
    world.send(client, "get a:1 b:1\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("get a:1\r\n".into(), "get b:1\r\n".into()));
    assert_eq!(world.asked(2), "get a:1\r\n");
    assert_eq!(world.core.pools()[0].counts().shadowed, 1);
}

#[test]
fn a_shadow_keeps_what_is_touched_no_longer_than_its_pool() {
    let shadow = Some(Shadow { pool: 1, share: 1.0 });
    let main = PoolSpec { shadow, ttl_cap: Some(60), ..PoolSpec::of("main", vec![0]) };
    let mut world = two_pools(main, PoolSpec::of("shadow", vec![1]));
    let client = world.client();
    world.send(client, "gat 0 a\r\nmg a v T0\r\n");
    for server in 0..2 {
        assert_eq!(world.asked(server), "gat 60 a\r\nmg a v T60\r\n");
    }
}

#[test]
fn equal_gets_share_one_answer_and_a_write_ends_that() {
    let mut world = one_pool(PoolSpec { coalesce: true, ..PoolSpec::of("main", vec![0]) });
    let clients: Vec<_> = (0..4).map(|_| world.client()).collect();
    world
        .send(clients[0], "get a\r\n")
        .send(clients[1], "get a\r\n")
        .send(clients[2], "set a 0 0 1\r\nx\r\n");
    world.send(clients[3], "get a\r\nget a\r\n");
    assert_eq!(world.asked(0), "get a\r\nset a 0 0 1\r\nx\r\nget a\r\n");
    world.core.gone(clients[0], world.now);
    world.replies.remove(&clients[0]);
    world.answer(0, format!("END\r\nSTORED\r\n{}END\r\n", value("a", "x")));
    assert_eq!(world.replied(clients[1]), "END\r\n");
    assert_eq!(world.replied(clients[2]), "STORED\r\n");
    assert_eq!(world.replied(clients[3]), format!("{0}END\r\n{0}END\r\n", value("a", "x")));
    assert_eq!(world.core.pools()[0].counts().coalesced, 2);
    assert!(!world.core.pools()[0].has_leaders());
    world.send(clients[1], "get b\r\n").send(clients[3], "get b\r\n").write_servers();
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    assert_eq!(world.replied(clients[3]), "SERVER_ERROR server-0:1: gone\r\n");
    assert_eq!(world.row(5).0.outcome, Outcome::ServerLost);
}

#[test]
fn a_read_that_touches_ends_that_for_its_keys() {
    let mut world = one_pool(PoolSpec { coalesce: true, ..PoolSpec::of("main", vec![0]) });
    let [one, other, third] = [0; 3].map(|_| world.client());
    let found = format!("{}END\r\n", value("a", "x"));
    for (get, touch, found, gone) in [
        ("get a\r\n", "gat -1 b a\r\n", &*found, "END\r\n"),
        ("mg a v\r\n", "mg a v T-1\r\n", "VA 1\r\nx\r\n", "EN\r\n"),
        ("mg a v\r\n", "mg a v T-1 P\r\n", "VA 1\r\nx\r\n", "EN\r\n"),
    ] {
        world.send(one, get).send(other, format!("{touch}{get}"));
        assert_eq!(world.asked(0), format!("{get}{touch}{get}"));
        world.answer(0, format!("{found}{found}"));
        assert_eq!((world.replied(one), world.replied(other)), (found.into(), found.into()));
        // By another connection the server may have been asked before it was touched.
        world.send(third, get);
        assert_eq!(world.asked(0), get, "{touch}");
        world.answer(0, gone.repeat(2));
        assert_eq!((world.replied(other), world.replied(third)), (gone.into(), gone.into()));
        assert!(!world.core.pools()[0].has_leaders());
    }
    assert_eq!(world.core.pools()[0].counts().coalesced, 0);
}

#[test]
fn a_flush_ends_that_for_every_key() {
    let mut world = one_pool(PoolSpec { coalesce: true, ..PoolSpec::of("main", vec![0]) });
    let (one, other) = (world.client(), world.client());
    world.send(one, "get a\r\nmg a v\r\n").send(other, "flush_all\r\nget a\r\nmg a v\r\n");
    assert_eq!(world.asked(0), "get a\r\nmg a v\r\nflush_all\r\nget a\r\nmg a v\r\n");
    world.answer(0, format!("{}END\r\nVA 1\r\nx\r\nOK\r\nEND\r\nEN\r\n", value("a", "x")));
    assert_eq!(world.replied(one), format!("{}END\r\nVA 1\r\nx\r\n", value("a", "x")));
    assert_eq!(world.replied(other), "OK\r\nEND\r\nEN\r\n");
    assert!(!world.core.pools()[0].has_leaders());
}

/// Of a busy key each place led the others in its turn, and kept room for all of them.
#[test]
fn a_get_whose_answer_many_have_shared_leaves_no_memory_in_its_place() {
    use crate::ids::Identifier;
    use crate::keys::FEW;
    let mut world = one_pool(PoolSpec { coalesce: true, ..PoolSpec::of("main", vec![0]) });
    let clients: Vec<_> = (0..4 * FEW).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, "get a\r\n");
    }
    assert_eq!(world.asked(0), "get a\r\n");
    world.answer(0, "END\r\n");
    assert!(clients.iter().all(|&client| world.replied(client) == "END\r\n"));
    assert_eq!(world.core.unfinished(), 0);
    for place in 0..clients.len() as u32 {
        assert!(world.core.requests[RequestId::new(place)].rest.followers.capacity() <= FEW);
    }
}

/// Else each of a thousand clients would be given a copy of its own, all in one pass.
#[test]
fn gets_that_share_a_long_answer_share_its_memory() {
    let mut world = one_pool(PoolSpec { coalesce: true, ..PoolSpec::of("main", vec![0]) });
    let clients = [0; 3].map(|_| world.client());
    for (asked, answer) in [
        ("get a\r\n", format!("{}END\r\n", value("a", &"x".repeat(40_000)))),
        ("mg a v\r\n", format!("VA 40000\r\n{}\r\n", "x".repeat(40_000))),
    ] {
        clients.iter().for_each(|&client| _ = world.send(client, asked));
        assert_eq!(world.asked(0), asked);
        world.answer(0, &answer);
        for client in clients {
            let output = world.core.output(client);
            assert_eq!((output.len(), output.capacity()), (answer.len(), 0), "{asked}");
        }
        for client in clients {
            assert_eq!(world.replied(client), answer);
        }
    }
    assert_eq!((world.core.pools()[0].counts().coalesced, world.core.unfinished()), (4, 0));
}

/// Two clients may know one key by two names: each is told its own.
#[test]
fn gets_share_one_answer_only_where_their_clients_name_the_key_alike() {
    let shared = PoolSpec { coalesce: true, ..PoolSpec::of("users", vec![1]) };
    let routes = vec![Route { prefix: b"user:".to_vec(), pool: 1, strip: true, add: Vec::new() }];
    let topology = Topology { servers: names(2), pools: vec![PoolSpec::of("main", vec![0]), shared], routes };
    let mut world = World::before(topology, settings());
    let own = world.client_of(1);
    let clients = [world.client(), world.client()];
    world.send(own, "get 7\r\n").send(clients[0], "get user:7\r\n").send(clients[1], "get user:7\r\n");
    assert_eq!(world.asked(1), "get 7\r\nget 7\r\n");
    world.answer(1, format!("{0}END\r\n{0}END\r\n", value("7", "x")));
    assert_eq!(world.replied(own), format!("{}END\r\n", value("7", "x")));
    for client in clients {
        assert_eq!(world.replied(client), format!("{}END\r\n", value("user:7", "x")));
    }
    assert_eq!(world.core.pools()[1].counts().coalesced, 1);
    assert!(!world.core.pools()[1].has_leaders());
}

#[test]
fn a_slow_read_is_sent_to_a_second_holder_and_the_first_answer_counts() {
    let hedge = Some(Hedge { quantile: 0.95, budget: 0.1 });
    let mut world = one_pool(PoolSpec { hedge, reads: Reads::Primary, ..PoolSpec::of("main", vec![0, 1]) });
    let client = world.client();
    for read in 0..100_u64 {
        world.at(read * 1_000_000).send(client, "get a\r\n").write_servers();
        world.at(read * 1_000_000 + 100_000).answer(0, "END\r\n");
        world.replied(client);
    }
    world.at(200_000_000).send(client, "get a\r\n").write_servers();
    let due = world.core.deadline().unwrap();
    assert!((99_000..=101_000).contains(&(due.0 - 200_000_000)), "{due:?}");
    world.core.tick(Stamp(due.0 - 1));
    assert_eq!(world.asked(1), "");
    world.now = due;
    world.core.tick(due);
    assert_eq!(world.asked(1), "get a\r\n");
    world.answer(1, format!("{}END\r\n", value("a", "1")));
    assert_eq!(world.replied(client), format!("{}END\r\n", value("a", "1")));
    world.answer(0, "END\r\n");
    assert_eq!((world.replied(client), world.core.unfinished()), (String::new(), 0));
    let counts = world.core.pools()[0].counts();
    assert_eq!((counts.hedges, counts.hedges_won), (1, 1));
    // The first holder may also win, or be lost while the second is asked.
    world.send(client, "get b\r\n").write_servers();
    let due = world.core.deadline().unwrap();
    world.now = due;
    world.core.tick(due);
    assert_eq!(world.asked(1), "get b\r\n");
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    assert_eq!(world.replied(client), "", "the second may still answer");
    world.answer(1, "END\r\n");
    assert_eq!((world.replied(client), world.core.unfinished()), ("END\r\n".into(), 0));
}

/// A world whose reads are hedged, after a hundred of them.
fn hedging(main: PoolSpec, other: PoolSpec) -> (World, u32) {
    let hedge = Some(Hedge { quantile: 0.95, budget: 0.1 });
    let mut world = two_pools(PoolSpec { hedge, reads: Reads::Primary, ..main }, other);
    let client = world.client();
    for read in 0..100_u64 {
        world.at(read * 1_000_000).send(client, "get a\r\n").write_servers();
        world.at(read * 1_000_000 + 100_000).answer(0, format!("{}END\r\n", value("a", "1")));
        world.replied(client);
    }
    world.at(200_000_000).asked(0);
    (world, client)
}

/// The first holder has not answered, and the second one, which is server 1, is asked.
fn hedge(world: &mut World, client: u32, asked: &str) {
    world.send(client, asked);
    assert_eq!(world.asked(0), asked);
    world.now = world.core.deadline().unwrap();
    world.core.tick(world.now);
    assert_eq!(world.asked(1), asked);
}

#[test]
fn what_the_second_holder_does_not_have_the_first_may() {
    let cold = PoolSpec { warm: Some(StandIn { pool: 1, ttl: 600 }), ..PoolSpec::of("cold", vec![0, 1]) };
    let (mut world, client) = hedging(cold, PoolSpec::of("warm", vec![2]));
    let (one, two) = (value("a", "1"), value("b", "2"));
    for (asked, second, first, reply) in [
        ("get a\r\n", String::new(), &one, one.clone()),
        // Each of them has some.
        ("get a b\r\n", one.clone(), &two, format!("{one}{two}")),
        ("get b a\r\n", one.clone(), &two, format!("{two}{one}")),
        ("get a b\r\n", one.clone(), &format!("{one}{two}"), format!("{one}{two}")),
    ] {
        hedge(&mut world, client, asked);
        world.answer(1, format!("{second}END\r\n"));
        assert_eq!((world.replied(client), world.asked(2)), (String::new(), String::new()), "{asked}");
        world.answer(0, format!("{first}END\r\n"));
        assert_eq!((world.replied(client), world.asked(2)), (format!("{reply}END\r\n"), String::new()));
    }
    // What neither has is looked for where it is warm, also where one fails.
    for first in ["END\r\n", "SERVER_ERROR busy\r\n"] {
        hedge(&mut world, client, "get a b\r\n");
        world.answer(1, format!("{one}END\r\n")).answer(0, first);
        assert_eq!(world.asked(2), "get b\r\n");
        world.answer(2, format!("{two}END\r\n"));
        assert_eq!(world.replied(client), format!("{one}{two}END\r\n"));
        for server in 0..2 {
            assert_eq!(world.asked(server), "add b 0 600 1\r\n2\r\n");
            world.answer(server, "STORED\r\n");
        }
    }
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn a_read_that_has_moved_on_is_hedged_by_its_own_time() {
    let spec = PoolSpec { fall_back_on_miss: true, ..PoolSpec::of("main", vec![0, 1, 2]) };
    let (mut world, client) = hedging(spec, PoolSpec::of("other", vec![3]));
    world.send(client, "get a\r\n");
    assert_eq!(world.asked(0), "get a\r\n");
    let due = world.core.deadline().unwrap();
    world.at(due.0 - 1).answer(0, "END\r\n");
    assert_eq!(world.asked(1), "get a\r\n");
    world.at(due.0).core.tick(due);
    assert_eq!(world.asked(2), "", "the second was asked just now");
    let due = world.core.deadline().unwrap();
    world.at(due.0).core.tick(due);
    assert_eq!(world.asked(2), "get a\r\n");
    world.answer(2, format!("{}END\r\n", value("a", "1")));
    assert_eq!(world.replied(client), format!("{}END\r\n", value("a", "1")));
    world.answer(1, "END\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn a_holder_that_is_lost_leaves_the_answer_of_the_other() {
    let spec = PoolSpec { fall_back_on_miss: true, refill: Some(60), ..PoolSpec::of("main", vec![0, 1, 2]) };
    let (mut world, client) = hedging(spec, PoolSpec::of("other", vec![3]));
    hedge(&mut world, client, "get a\r\n");
    world.answer(1, "END\r\n");
    assert_eq!((world.replied(client), world.asked(2)), (String::new(), String::new()));
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    assert_eq!(world.asked(2), "get a\r\n");
    world.answer(2, format!("{}END\r\n", value("a", "1")));
    assert_eq!(world.replied(client), format!("{}END\r\n", value("a", "1")));
    assert_eq!(world.asked(1), "add a 0 60 1\r\n1\r\n", "it goes where it was missed");
    // Where there is no third, that one does not have it is the answer.
    let spec = PoolSpec { fall_back_on_miss: true, ..PoolSpec::of("main", vec![0, 1]) };
    let (mut world, client) = hedging(spec, PoolSpec::of("other", vec![2]));
    hedge(&mut world, client, "get a\r\n");
    world.answer(1, "END\r\n").answer(0, "SERVER_ERROR busy\r\n");
    assert_eq!(world.replied(client), "END\r\n");
    hedge(&mut world, client, "mg a v\r\n");
    world.answer(1, "EN\r\n");
    assert_eq!(world.replied(client), "");
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    assert_eq!(world.replied(client), "EN\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn what_neither_of_two_holders_has_is_missing_at_the_first() {
    let spec = PoolSpec {
        fall_back_on_miss: true,
        refill: Some(60),
        readers: Some(1),
        ..PoolSpec::of("main", vec![0, 1, 2])
    };
    let (mut world, client) = hedging(spec, PoolSpec::of("other", vec![3]));
    hedge(&mut world, client, "get a\r\n");
    world.answer(0, "END\r\n");
    // It has answered, and reads for others.
    let other = world.client();
    world.send(other, "get b\r\n");
    assert_eq!((world.replied(client), world.asked(0)), (String::new(), "get b\r\n".to_owned()));
    world.answer(0, format!("{}END\r\n", value("b", "2"))).answer(1, "END\r\n");
    assert_eq!(world.asked(2), "get a\r\n");
    world.answer(2, format!("{}END\r\n", value("a", "1")));
    assert_eq!(world.replied(client), format!("{}END\r\n", value("a", "1")));
    assert_eq!(world.asked(0), "add a 0 60 1\r\n1\r\n");
    assert_eq!(world.core.pools()[0].counts().hedges_won, 0);
}

/// It has only what was written while a holder was down: its miss, or a value of another time, was
/// the reply where the holder that was up was no more than late.
#[test]
fn a_read_that_takes_long_is_not_sent_to_a_server_that_stands_in() {
    let spec = PoolSpec { when_down: WhenDown::Next, ..placed("main", vec![0, 1, 2], 2) };
    let hedge = Some(Hedge { quantile: 0.95, budget: 0.1 });
    let mut world = one_pool(PoolSpec { hedge, reads: Reads::Primary, ..spec });
    let client = world.client();
    let key = key_at(&mut world, &[0, 1]);
    let asked = format!("get {key}\r\n");
    for read in 0..100_u64 {
        world.at(read * 1_000_000).send(client, &asked).write_servers();
        world.at(read * 1_000_000 + 100_000).answer(0, "END\r\n").replied(client);
    }
    world.at(200_000_000).asked(0);
    // With the other holder down, and when it is back.
    world.core.server_lost(1, "gone", ConnectionLoss::Broken, world.now);
    for hedges in [0, 1] {
        world.send(client, &asked);
        assert_eq!(world.asked(0), asked);
        world.now = world.core.deadline().unwrap();
        world.core.tick(world.now);
        let second = if hedges == 0 { String::new() } else { asked.clone() };
        assert_eq!((world.asked(1), world.asked(2)), (second, String::new()));
        assert_eq!(world.core.pools()[0].counts().hedges, hedges);
        world.answer(0, "END\r\n");
        assert_eq!(world.replied(client), "END\r\n");
        if hedges == 0 {
            world.bring_up(1);
        }
    }
}

/// What the second holder answers says nothing about the first: the time after which it is asked
/// would sink to that of the second, and nearly every read be sent twice.
#[test]
fn reads_are_hedged_by_the_times_of_the_holder_that_is_asked_first() {
    let hedge = Some(Hedge { quantile: 0.9, budget: 1.0 });
    let mut world = one_pool(PoolSpec { hedge, reads: Reads::Primary, ..PoolSpec::of("main", vec![0, 1]) });
    let client = world.client();
    for read in 0..3_000_u64 {
        let begun = read * 10_000_000;
        world.at(begun).core.tick(Stamp(begun));
        world.send(client, "get a\r\n").write_servers();
        let first = match read % 100 {
            ..87 => 100_000,
            87..95 => 1_000_000,
            _ => 5_000_000,
        };
        let mut answers = vec![(begun + first, 0)];
        if let Some(due) = world.core.deadline().filter(|due| due.0 < begun + first) {
            world.at(due.0).core.tick(due);
            assert_eq!(world.asked(1), "get a\r\n");
            answers.push((due.0 + 50_000, 1));
        }
        answers.sort_unstable();
        for (time, server) in answers {
            world.at(time).answer(server, "END\r\n").write_clients();
        }
        assert_eq!(world.replied(client), "END\r\n");
    }
    world.at(30_000_000_000).core.tick(Stamp(30_000_000_000));
    world.send(client, "get a\r\n").write_servers();
    let after = world.core.deadline().unwrap() - world.now;
    assert!((950_000..=1_050_000).contains(&after.0), "{after}");
}

#[test]
fn a_slow_holder_is_not_read_for_a_while_and_then_gets_a_growing_share() {
    let spec =
        PoolSpec { eject_slower: Some(3.0), reads: Reads::RoundRobin, ..PoolSpec::of("main", vec![0, 1, 2]) };
    let mut world = one_pool(spec);
    let client = world.client();
    // Of a thousand reads, one each 1.5 ms, how many each server is asked for; the second one
    // takes 1 ms for an answer, the others 0.2 ms.
    let thousand = |world: &mut World| {
        let mut asked = [0_u32; 3];
        for _ in 0..1_000 {
            let begun = world.now.0;
            world.send(client, "get a\r\n");
            let server = (0..3).find(|&server| world.asked(server) == "get a\r\n").unwrap();
            asked[server] += 1;
            world.at(begun + if server == 1 { 1_000_000 } else { 200_000 }).answer(server, "END\r\n");
            assert_eq!(world.replied(client), "END\r\n");
            world.at(begun + 1_500_000);
        }
        asked
    };
    // It is told after a second: 667 reads.
    let [first, slow, last] = thousand(&mut world);
    assert!((220..=225).contains(&slow) && first.abs_diff(last) <= 50, "{first} {slow} {last}");
    assert_eq!(world.core.pools()[0].counts().slow_ejections, 1);
    // For ten seconds in all it is only written.
    assert_eq!((0..5).map(|_| thousand(&mut world)[1]).sum::<u32>(), 0);
    world.send(client, "set a 0 0 1\r\nx\r\n");
    for server in 0..3 {
        assert_eq!(world.asked(server), "set a 0 0 1\r\nx\r\n");
        world.answer(server, "STORED\r\n");
    }
    assert_eq!(world.replied(client), "STORED\r\n");
    // Then it is given more and more, until it has been asked often enough to be told again.
    assert_eq!(thousand(&mut world)[1], 0);
    let returning: Vec<u32> = (0..3).map(|_| thousand(&mut world)[1]).collect();
    assert!(returning[0] > 0 && returning[0] < returning[1], "{returning:?}");
    assert_eq!(world.core.pools()[0].counts().slow_ejections, 2);
}

/// It was left out for the time that held when it was found slow.
#[test]
fn a_slow_holder_is_read_when_a_reload_says_so() {
    let spec = |eject_slower| PoolSpec { eject_slower, ..PoolSpec::of("main", vec![0, 1]) };
    for (eject_slower, eject_for, expected) in
        [(Some(3.0), 10, [10, 0]), (None, 10, [5, 5]), (Some(3.0), 0, [5, 5])]
    {
        let return_over = Nanos(1);
        let before = CoreSettings { return_over, ..settings() };
        let topology = |spec| Topology { servers: names(2), pools: vec![spec], routes: Vec::new() };
        let mut world = World::before(topology(spec(Some(3.0))), before);
        let client = world.client();
        let read = |world: &mut World| {
            let begun = world.now.0;
            world.send(client, "get a\r\n");
            let server = (0..2).find(|&server| !world.asked(server).is_empty()).unwrap();
            world.at(begun + if server == 1 { 1_000_000 } else { 200_000 }).answer(server, "END\r\n");
            world.replied(client);
            world.at(begun + 1_500_000);
            server
        };
        while world.core.pools()[0].counts().slow_ejections == 0 {
            read(&mut world);
        }
        let settings = CoreSettings { eject_for: Nanos::from_secs(eject_for), return_over, ..settings() };
        world.core.reconfigure(settings, topology(spec(eject_slower)), world.now);
        let later = world.now.0 + 1;
        world.at(later);
        let mut asked = [0; 2];
        (0..10).for_each(|_| asked[read(&mut world)] += 1);
        assert_eq!(asked, expected, "{eject_slower:?} {eject_for}");
    }
}

#[test]
fn servers_that_are_down_count_among_those_that_are_left_out() {
    for (lost, ejections) in [(1, 1), (2, 0)] {
        let spec = PoolSpec { eject_slower: Some(3.0), ..PoolSpec::of("main", vec![0, 1, 2, 3]) };
        let mut world = one_pool(spec);
        let client = world.client();
        for server in 4 - lost..4 {
            world.core.server_lost(server, "gone", ConnectionLoss::Broken, world.now);
        }
        for read in 0..1_000_u64 {
            let begun = read * 1_500_000;
            world.at(begun).send(client, "get a\r\n");
            let server = (0..4).find(|&server| !world.asked(server).is_empty()).unwrap();
            world.at(begun + if server == 1 { 1_000_000 } else { 200_000 }).answer(server, "END\r\n");
            world.replied(client);
        }
        assert_eq!(world.core.pools()[0].counts().slow_ejections, ejections, "{lost} of four are down");
    }
}

/// The server with the values was left out, beside one that had nothing or failed at once.
#[test]
fn an_answer_with_a_value_is_not_slow_beside_a_miss_or_an_error() {
    let found = format!("{}END\r\n", value("a", "1"));
    for (quick, ejections) in [("END\r\n", 0), ("SERVER_ERROR busy\r\n", 0), (found.as_str(), 1)] {
        let spec = PoolSpec { eject_slower: Some(3.0), ..PoolSpec::of("main", vec![0, 1]) };
        let mut world = one_pool(spec);
        let client = world.client();
        for read in 0..1_000_u64 {
            let begun = read * 1_500_000;
            world.at(begun).send(client, "get a\r\n");
            let server = (0..2).find(|&server| !world.asked(server).is_empty()).unwrap();
            let (time, answer) = [(1_000_000, found.as_str()), (200_000, quick)][server];
            world.at(begun + time).answer(server, answer).replied(client);
        }
        assert_eq!(world.core.pools()[0].counts().slow_ejections, ejections, "beside {quick}");
    }
}

/// Where a key has most of the reads it was given all of those of its keys for as long as it had
/// been away: another server of the pool had been given less meanwhile.
#[test]
fn a_holder_that_comes_back_shares_reads_with_those_that_had_them() {
    for when_down in [WhenDown::Error, WhenDown::Next] {
        let mut world = one_pool(PoolSpec { when_down, ..placed("main", vec![0, 1, 2], 2) });
        let [hot, one, other] = [[0, 1], [1, 2], [2, 0]].map(|holders| key_at(&mut world, &holders));
        let keys = [&hot, &hot, &one, &hot, &hot, &other, &hot, &hot];
        let read = |world: &mut World, times: usize| {
            let (routing, pool) = (&mut world.core.routing, PoolId::new(0));
            let mut given = [0_u32; 3];
            for key in keys.iter().cycle().take(times) {
                let holders = routing[pool].holders(key.as_bytes());
                let server = routing.choose(pool, key.as_bytes(), &holders, 1, world.now, |_| 0);
                given[server.unwrap().index()] += 1;
            }
            given
        };
        read(&mut world, 4_000);
        world.core.server_lost(1, "gone", ConnectionLoss::Broken, world.now);
        assert_eq!(read(&mut world, 2_000)[1], 0);
        world.bring_up(1);
        let given = read(&mut world, 800);
        assert!(given[0].abs_diff(given[1]) <= 10 && given[0] >= 250, "{given:?}");
    }
}

#[test]
fn the_only_holder_that_is_up_is_read_however_slow_it_is() {
    let mut world = one_pool(PoolSpec { eject_slower: Some(3.0), ..placed("main", vec![0, 1, 2], 2) });
    let client = world.client();
    let key = key_at(&mut world, &[0, 1]);
    for read in 0..1_500_u64 {
        let begun = read * 1_500_000;
        world.at(begun).send(client, format!("get {key}\r\n"));
        let server = (0..2).find(|&server| !world.asked(server).is_empty()).unwrap();
        world.at(begun + if server == 1 { 1_000_000 } else { 200_000 }).answer(server, "END\r\n");
        world.replied(client);
    }
    assert_eq!(world.core.pools()[0].counts().slow_ejections, 1);
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, format!("get {key}\r\n"));
    assert_eq!(world.asked(1), format!("get {key}\r\n"));
}

#[test]
fn a_prefix_leads_to_its_pool_and_the_client_sees_its_own_keys() {
    let routes = vec![
        Route { prefix: b"user:".to_vec(), pool: 1, strip: true, add: b"u/".to_vec() },
        Route { prefix: b"x:".to_vec(), pool: 1, strip: true, add: Vec::new() },
    ];
    let pools = vec![PoolSpec::of("main", vec![0]), PoolSpec::of("users", vec![1])];
    let mut world = World::before(Topology { servers: names(2), pools, routes }, settings());
    let client = world.client();
    world.send(client, "set user:7 0 0 1\r\nx\r\nget a user:7\r\nget user:7\r\n");
    assert_eq!(world.asked(0), "get a\r\n");
    assert_eq!(world.asked(1), "set u/7 0 0 1\r\nx\r\nget u/7\r\nget u/7\r\n");
    world.answer(0, format!("{}END\r\n", value("a", "1")));
    world.answer(1, format!("STORED\r\n{0}END\r\n{0}END\r\n", value("u/7", "x")));
    let seven = value("user:7", "x");
    assert_eq!(world.replied(client), format!("STORED\r\n{}{seven}END\r\n{seven}END\r\n", value("a", "1")));
    world.send(client, "get x:\r\ndelete x:\r\n");
    let why = "CLIENT_ERROR the key does not fit once its route has changed it\r\n";
    assert_eq!(world.replied(client), why.repeat(2));
}

#[test]
fn a_key_that_a_route_changes_is_told_as_the_client_knows_it() {
    let routes = vec![Route { prefix: b"user:".to_vec(), pool: 1, strip: true, add: b"u/".to_vec() }];
    let pools = vec![PoolSpec::of("main", vec![0]), PoolSpec::of("users", vec![1])];
    let mut world = World::before(Topology { servers: names(2), pools, routes }, settings());
    let client = world.client();
    // In base64 user:7 is dXNlcjo3, u/7 is dS83.
    for (asked, sent, answered, told) in [
        ("mg user:7 k v O9", "mg u/7 k v O9", "VA 1 ku/7 O9\r\nx", "VA 1 kuser:7 O9\r\nx"),
        ("mg user:7 k", "mg u/7 k", "HD kdS83 b", "HD kdXNlcjo3 b"),
        ("mg dXNlcjo3 b k s", "mg dS83 b k s", "HD kdS83 s1 b", "HD kdXNlcjo3 s1 b"),
        ("mg dXNlcjo3 b v", "mg dS83 b v", "VA 2 b\r\nk1", "VA 2 b\r\nk1"),
        ("mg dXNlcjo3 b k", "mg dS83 b k", "HD ku/7", "HD kuser:7"),
        ("ms dXNlcjo3 1 b k\r\nx", "ms dS83 1 b k\r\nx", "HD kdS83 b", "HD kdXNlcjo3 b"),
        ("md user:7 k", "md u/7 k", "NF ku/7", "NF kuser:7"),
        ("ma user:7 k v", "ma u/7 k v", "VA 1 ku/7\r\n5", "VA 1 kuser:7\r\n5"),
        ("me user:7", "me u/7", "ME u/7 exp=-1 la=1", "ME user:7 exp=-1 la=1"),
        ("me dXNlcjo3 b", "me dS83 b", "ME dS83 exp=-1", "ME dXNlcjo3 exp=-1"),
        ("mg user:7 k", "mg u/7 k", "EN", "EN"),
    ] {
        world.send(client, format!("{asked}\r\n"));
        assert_eq!(world.asked(1), format!("{sent}\r\n"));
        world.answer(1, format!("{answered}\r\n"));
        assert_eq!(world.replied(client), format!("{told}\r\n"), "{asked}");
    }
    // A key that is not the one asked for is not renamed but refused.
    world.send(client, "mg user:7 k v\r\n");
    assert_eq!(world.asked(1), "mg u/7 k v\r\n");
    let error = world.core.server_read(1, b"VA 1 ku/8\r\nx\r\n", world.now).unwrap_err();
    assert!(error.why.contains("that was not asked for"), "{error}");
}

#[test]
fn clients_belong_to_the_pool_of_the_address_they_connect_to() {
    let mut world = two_pools(PoolSpec::of("a", vec![0]), PoolSpec::of("b", vec![1]));
    let id = world.client_of(1);
    world.send(id, "get a\r\n");
    assert_eq!((world.asked(0), world.asked(1)), (String::new(), "get a\r\n".into()));
}

#[test]
fn a_pool_refuses_what_is_beyond_its_bounds_and_cuts_lifetimes() {
    let spec = PoolSpec { concurrency: Some(1), ttl_cap: Some(60), ..PoolSpec::of("main", vec![0]) };
    let mut world = one_pool(spec);
    let client = world.client();
    world.send(client, "touch a 3600\r\nset b 0 0 1\r\nx\r\n");
    assert_eq!(world.asked(0), "touch a 60\r\n");
    world.answer(0, "TOUCHED\r\n");
    let why = "SERVER_ERROR pool main is limited to 1 requests under way\r\n";
    assert_eq!(world.replied(client), format!("TOUCHED\r\n{why}"));
    world.send(client, "set b 0 0 1\r\nx\r\n");
    assert_eq!(world.asked(0), "set b 0 60 1\r\nx\r\n");
}

/// Only the pool of the first key was asked: the order of keys decided whose bounds hold.
#[test]
fn the_bounds_of_every_pool_hold_whichever_key_comes_first() {
    let a = PoolSpec { rate: Some(10.0), ..PoolSpec::of("a", vec![0]) };
    let b = PoolSpec { concurrency: Some(1), ..PoolSpec::of("b", vec![1]) };
    let topology = Topology {
        servers: names(2),
        pools: vec![a, b],
        routes: vec![Route { prefix: b"b:".to_vec(), pool: 1, strip: false, add: Vec::new() }],
    };
    let mut world = World::before(topology, settings());
    let busy = |world: &World| [0, 1].map(|pool| world.core.pools()[pool].busy());
    let (first, second) = (world.client(), world.client());
    world.send(first, "get b:1\r\n");
    assert_eq!(world.asked(1), "get b:1\r\n");
    let why = "SERVER_ERROR pool b is limited to 1 requests under way\r\n";
    world.send(second, "get a b:2 b:3\r\n");
    assert_eq!(world.replied(second), why);
    assert_eq!((world.asked(0), world.asked(1)), (String::new(), String::new()));
    assert_eq!(busy(&world), [0, 1]);
    world.answer(1, "END\r\n");
    assert_eq!(world.replied(first), "END\r\n");
    // The one that `a` has for now was not taken by what `b` refused.
    world.send(second, "get a b:2 b:3\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("get a\r\n".into(), "get b:2 b:3\r\n".into()));
    assert_eq!(busy(&world), [1, 1]);
    assert!(!world.core.expects_more(second), "others may wait for its place in `b`");
    world.send(first, "get b:1\r\n");
    assert_eq!(world.replied(first), why);
    world.core.gone(second, world.now);
    world.replies.remove(&second);
    world.answer(1, "END\r\n").answer(0, "END\r\n");
    assert_eq!(busy(&world), [0, 0]);
    world.send(first, "get b:1 a\r\n");
    assert_eq!(world.replied(first), "SERVER_ERROR pool a is limited to 10 requests a second\r\n");
    assert_eq!(busy(&world), [0, 0]);
    let counts = [0, 1].map(|pool| *world.core.pools()[pool].counts());
    assert_eq!(counts.map(|counts| (counts.requests, counts.limited)), [(1, 1), (1, 2)]);
}

#[test]
fn expiry_times_are_judged_by_what_the_wall_shows_now() {
    let mut world = one_pool(PoolSpec { ttl_cap: Some(3_600), ..PoolSpec::of("main", vec![0]) });
    let client = world.client();
    let set_by = 2 * 3_600;
    let soon = format!("touch a {}\r\n", settings().unix + set_by + 10);
    world.send(client, &soon);
    assert_eq!(world.asked(0), "touch a 3600\r\n", "it is more than two hours away");
    world.answer(0, "TOUCHED\r\n");
    world.core.set_unix(settings().unix + set_by);
    world.send(client, &soon);
    assert_eq!(world.asked(0), soon);
}

#[test]
fn a_server_that_fails_time_and_again_is_left_alone_for_longer() {
    let mut world = one_pool(PoolSpec::of("main", vec![0, 1]));
    let mut delays = Vec::new();
    for _ in 0..6 {
        world.core.server_lost(0, "reset", ConnectionLoss::Broken, world.now);
        delays.push(world.core.reconnect_delay(0).0 / 1_000_000);
        world.bring_up(0);
    }
    assert_eq!(delays, [20, 40, 80, 160, 10_000, 10_000]);
    assert_eq!(world.core.events().ejections, 1);
    // Monitoring is told of those that are left alone, also where a loop that is up has no traffic.
    let is_ejected = |core: &Core| core.upstreams().servers()[0].is_ejected();
    let mut books = world.core.books();
    books.absorb(&world.core.books());
    assert!(!is_ejected(&world.core) && !is_ejected(&books));
    world.core.server_lost(0, "reset", ConnectionLoss::Broken, world.now);
    books.absorb(&world.core.books());
    assert!(is_ejected(&world.core) && is_ejected(&books));
    world.bring_up(0);
    let client = world.client();
    let mut first = 0;
    for read in 0..100_u64 {
        world.at(world.now.0 + 10_000_000).send(client, format!("get {read}\r\n")).write_servers();
        let asked = usize::from(world.received[1].is_empty());
        first += asked;
        world.received.iter_mut().for_each(Vec::clear);
        world.answer(1 - asked, "END\r\n");
        world.replied(client);
    }
    assert!((1..20).contains(&first), "its share grows from nothing: {first} of 100 in the first second");
    world.core.server_lost(0, "reset", ConnectionLoss::Broken, world.now);
    assert_eq!(world.core.reconnect_delay(0).0, 20_000_000, "an answer makes up for everything before");
}

#[test]
fn each_server_has_its_queue_of_reads_and_writes_pass_it() {
    let mut world =
        one_pool(PoolSpec { readers: Some(1), reads: Reads::Primary, ..placed("main", vec![0, 1], 2) });
    let client = world.client();
    let (at_first, at_second) = (key_at(&mut world, &[0, 1]), key_at(&mut world, &[1, 0]));
    world.at(100).send(
        client,
        format!("get {at_first}\r\nget {at_first}\r\nset {at_first} 0 0 1\r\nx\r\nget {at_second}\r\n"),
    );
    assert_eq!(world.at(200).asked(0), format!("get {at_first}\r\nset {at_first} 0 0 1\r\nx\r\n"));
    assert_eq!(world.asked(1), format!("set {at_first} 0 0 1\r\nx\r\nget {at_second}\r\n"));
    world.at(400).answer(0, "END\r\n");
    assert_eq!(world.at(500).asked(0), format!("get {at_first}\r\n"));
    assert_eq!(world.replied(client), "END\r\n");
    world.at(600).answer(0, "STORED\r\nEND\r\n").answer(1, "STORED\r\nEND\r\n");
    assert_eq!(world.replied(client), "END\r\nSTORED\r\nEND\r\n");
    let (second, _) = world.row(1);
    assert_eq!((second.queued, second.taken, second.worker_was_idle), (Stamp(100), Stamp(400), false));
    assert_eq!((world.core.unfinished(), world.core.dispatch.readers().waiting()), (0, 0));
    // What waits for a server that is lost is answered, or asked for at the next holder.
    world.send(client, format!("get {at_first}\r\nget {at_first} {at_second}\r\n")).write_servers();
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    world.answer(1, "END\r\n");
    let gone = "SERVER_ERROR server-0:1: gone\r\n";
    assert_eq!(world.replied(client), gone.repeat(2));
    assert_eq!(
        (world.core.unfinished(), world.core.dispatch.readers().waiting(), world.core.in_flight()),
        (0, 0, 0)
    );
}

/// What waits in the proxy no server owes: before the slower one it grew without end, while both
/// owed the same.
#[test]
fn what_waits_for_a_servers_readers_counts_where_the_least_busy_is_read() {
    let reads = Reads::LeastOutstanding;
    let mut world = one_pool(PoolSpec { readers: Some(1), reads, ..PoolSpec::of("main", vec![0, 1]) });
    let get = |world: &mut World| {
        let client = world.client();
        world.send(client, "get a\r\n").write_servers();
    };
    (0..20).for_each(|_| get(&mut world));
    for _ in 0..20 {
        world.answer(0, "END\r\n");
        get(&mut world);
        let readers = world.core.dispatch.readers();
        let waiting = [0, 1].map(|server| readers.waiting_before(PoolId::new(0), ServerId::new(server)));
        assert_eq!(waiting, [9, 9]);
    }
}

/// Be it because its server is lost or because there are no readers any more: that wait is not the
/// proxy's own time.
#[test]
fn what_waits_for_a_reader_and_gets_none_was_in_the_queue_until_then() {
    for lost in [true, false] {
        let mut world = one_pool(PoolSpec { readers: Some(1), ..PoolSpec::of("main", vec![0]) });
        let client = world.client();
        world.at(100).send(client, "get a\r\nget b\r\n").write_servers();
        world.at(500);
        if lost {
            world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
        } else {
            let pools = vec![PoolSpec::of("main", vec![0])];
            let topology = Topology { servers: names(1), pools, routes: Vec::new() };
            world.core.reconfigure(settings(), topology, world.now);
            world.write_servers().answer(0, "END\r\nEND\r\n");
        }
        world.write_clients();
        let (visit, servers) = world.row(1);
        assert_eq!((visit.queued, visit.taken), (Stamp(100), Stamp(500)), "lost: {lost}");
        assert_eq!(visit.own_time(&servers), Nanos(0), "lost: {lost}");
    }
}

#[test]
fn a_full_queue_before_a_server_makes_clients_wait() {
    let spec = PoolSpec { readers: Some(1), ..PoolSpec::of("main", vec![0]) };
    let topology = Topology { servers: names(1), pools: vec![spec], routes: Vec::new() };
    let mut world = World::before(topology, CoreSettings { queue: 2, ..settings() });
    let clients: Vec<_> = (0..6).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, "get a\r\n");
    }
    assert!(world.core.paused(clients[3]) && !world.core.paused(clients[2]));
    for &client in &clients {
        assert_eq!(world.asked(0), "get a\r\n");
        world.answer(0, "END\r\n");
        assert_eq!(world.replied(client), "END\r\n", "client {client}");
    }
    assert_eq!(world.core.unfinished(), 0);
}

#[test]
fn another_configuration_takes_over_and_nothing_under_way_is_lost() {
    let mut world = one_pool(PoolSpec { readers: Some(1), ..placed("main", vec![0, 1], 1) });
    let (client, other) = (world.client(), world.client());
    let stays = key_at(&mut world, &[0]);
    let goes = key_at(&mut world, &[1]);
    world.send(client, format!("get {goes}\r\nget {goes}\r\n")).send(other, format!("get {stays}\r\n"));
    assert_eq!(world.asked(1), format!("get {goes}\r\n"));
    // The second server goes, a third comes; the pool has no readers any more, and there is another
    // pool.
    let topology = Topology {
        servers: vec!["server-2:1".into(), "server-0:1".into()],
        pools: vec![placed("main", vec![1, 0], 1), PoolSpec::of("new", vec![0])],
        routes: vec![Route { prefix: b"n:".to_vec(), pool: 1, strip: false, add: Vec::new() }],
    };
    let told = world.core.reconfigure(settings(), topology, world.now);
    assert_eq!(told, Reconfigured { servers: vec![2, 0], pools: vec![0, 1] });
    world.received.push(Vec::new());
    assert!(!world.core.server_can_go(1) && !world.core.server_is_wanted(1));
    assert_eq!(world.asked(1), format!("get {goes}\r\n"), "what waited for a reader is asked at once");
    world.answer(1, format!("{}END\r\nEND\r\n", value(&goes, "1")));
    assert_eq!(world.replied(client), format!("{}END\r\nEND\r\n", value(&goes, "1")));
    assert!(world.core.server_can_go(1));
    world.core.server_closed(1);
    world.bring_up(2);
    world.send(client, format!("get {goes}\r\nget n:1\r\n"));
    assert_eq!(world.asked(2), format!("get {goes}\r\nget n:1\r\n"));
    world.write_servers();
    world.answer(2, "END\r\nEND\r\n").answer(0, "END\r\n");
    assert_eq!(world.replied(other), "END\r\n");
    assert_eq!(world.replied(client), "END\r\nEND\r\n");
    // A server that comes back has its old number.
    let topology = Topology::replicated(vec!["server-1:1".into()], MultiGet::Whole);
    assert_eq!(world.core.reconfigure(settings(), topology, world.now).servers, [1]);
    world.send(client, "get a\r\n");
    assert_eq!(world.replied(client), "SERVER_ERROR server-1:1 is down\r\n");
    world.bring_up(1);
    world.send(client, "get a\r\n");
    assert_eq!(world.asked(1), "get a\r\n");
}

#[test]
fn clients_of_a_pool_that_is_no_more_belong_to_the_first() {
    let mut world = two_pools(PoolSpec::of("a", vec![0]), PoolSpec::of("b", vec![1]));
    let id = world.client_of(1);
    let topology =
        Topology { servers: names(1), pools: vec![PoolSpec::of("c", vec![0])], routes: Vec::new() };
    assert_eq!(world.core.reconfigure(settings(), topology, world.now).pools, [2]);
    world.send(id, "get a\r\n");
    assert_eq!(world.asked(0), "get a\r\n");
    world.send(id, format!("set a 0 0 101\r\n{}\r\n", "y".repeat(101)));
    assert_eq!((world.asked(0), world.asked(1)), ("delete a\r\n".into(), String::new()));
}

/// Also where the heir has another name in its turn, and when the first name is back.
#[test]
fn clients_of_a_pool_with_another_name_belong_to_it() {
    let mut world = two_pools(PoolSpec::of("a", vec![0]), PoolSpec::of("b", vec![1]));
    let id = world.client_of(1);
    for (name, successor_of) in [("c", "b"), ("d", "c"), ("b", "d")] {
        let renamed = PoolSpec { successor_of: vec![successor_of.to_owned()], ..PoolSpec::of(name, vec![1]) };
        let pools = vec![PoolSpec::of("a", vec![0]), renamed];
        let topology = Topology { servers: names(2), pools, routes: Vec::new() };
        world.core.reconfigure(settings(), topology, world.now);
        world.send(id, "get a\r\n");
        assert_eq!((world.asked(0), world.asked(1)), (String::new(), "get a\r\n".into()), "{name}");
        world.answer(1, "END\r\n");
    }
}

/// What stands behind the numbers is no part of them.
#[test]
fn the_version_is_the_oldest_of_the_servers_by_its_numbers() {
    let mut world = one_pool(PoolSpec::of("main", vec![0, 1]));
    for (server, version) in ["1.4.39 krarup-0.1.0", "1.4.15"].into_iter().enumerate() {
        world.core.server_lost(server, "gone", ConnectionLoss::Broken, world.now);
        world.core.server_connected(server);
        assert_eq!(world.asked(server), "version\r\n");
        world.answer(server, format!("VERSION {version}\r\n"));
    }
    let client = world.client();
    world.send(client, "version\r\n");
    assert!(world.replied(client).starts_with("VERSION 1.4.15 krarup-"));
}

#[test]
fn a_server_that_no_pool_has_any_more_says_nothing_about_the_version() {
    let mut world = one_pool(PoolSpec::of("main", vec![0, 1]));
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    world.core.server_connected(0);
    assert_eq!(world.asked(0), "version\r\n");
    world.answer(0, "VERSION 1.4.15\r\n");
    let client = world.client();
    world.send(client, "version\r\n");
    assert!(world.replied(client).starts_with("VERSION 1.4.15 krarup-"));
    let topology = Topology {
        servers: vec![names(2).remove(1)],
        pools: vec![PoolSpec::of("main", vec![0])],
        routes: Vec::new(),
    };
    world.core.reconfigure(settings(), topology, world.now);
    world.send(client, "version\r\n");
    assert!(world.replied(client).starts_with("VERSION 1.6.18 krarup-"));
}

#[test]
fn the_slowest_requests_are_told_with_their_stamps() {
    let mut world = one_pool(PoolSpec::of("main", vec![0]));
    let client = world.client();
    world.at(1_000_000).send(client, "get a\r\n");
    world.at(1_050_000).write_servers();
    world.at(3_000_000).answer(0, "END\r\n");
    world.at(3_500_000).replied(client);
    world.send(client, "stats slow\r\n");
    let key = KeyHash::Xxh3.number(b"a");
    let expected = format!(
        "STAT 0:1 2500us get ok pool=main key={key:016x} keys=1 bytes=7/5 busy=1 waiting=0 queued=0 taken=0 server-0:1=50..2000\r\nEND\r\n"
    );
    assert_eq!(world.replied(client), expected);
}

#[test]
fn a_slow_request_that_a_bound_refused_is_told_with_its_pool_and_key() {
    let b = PoolSpec { concurrency: Some(1), ..PoolSpec::of("b", vec![1]) };
    let topology = Topology {
        servers: names(2),
        pools: vec![PoolSpec::of("a", vec![0]), b],
        routes: vec![Route { prefix: b"b:".to_vec(), pool: 1, strip: false, add: Vec::new() }],
    };
    let mut world = World::before(topology, settings());
    let (first, second) = (world.client(), world.client());
    world.send(first, "get b:1\r\n");
    world.at(1_000_000).send(second, "get b:2\r\n");
    let why = "SERVER_ERROR pool b is limited to 1 requests under way\r\n";
    assert_eq!(world.at(2_000_000).replied(second), why);
    world.send(second, "stats slow\r\n");
    let told = world.replied(second);
    let key = KeyHash::Xxh3.number(b"b:2");
    assert!(told.contains(&format!(" pool=b key={key:016x} ")), "{told}");
}

/// Half of all gets missed while a living holder had the value: a stand-in, which has only what was
/// written while a holder was down, took its turn.
#[test]
fn a_living_holder_is_read_before_one_that_stands_in() {
    for (second_look, get) in [(false, "get"), (true, "get"), (false, "mg"), (true, "mg")] {
        let spec = placed("main", vec![0, 1, 2], 2);
        let fall_back_on_miss = second_look;
        let mut world = one_pool(PoolSpec { when_down: WhenDown::Next, fall_back_on_miss, ..spec });
        let client = world.client();
        let key = key_at(&mut world, &[0, 1]);
        let (asked, miss) = match get {
            "get" => (format!("get {key}\r\n"), "END\r\n"),
            _ => (format!("mg {key} v\r\n"), "EN\r\n"),
        };
        world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
        for _ in 0..10 {
            world.send(client, &asked);
            assert_eq!((world.asked(1), world.asked(2)), (asked.clone(), String::new()), "{get}");
            world.answer(1, miss);
            if second_look {
                let told = world.asked(2);
                assert!(
                    told.starts_with(asked.trim_end()),
                    "the stand-in may have what was written since: {told}"
                );
                world.answer(2, miss);
            }
            assert_eq!(world.replied(client), miss);
        }
        world.core.server_lost(1, "gone", ConnectionLoss::Broken, world.now);
        world.send(client, &asked);
        assert_eq!(world.asked(2), asked, "with no holder up it stands in alone");
        world.answer(2, miss);
        assert_eq!(world.replied(client), miss);
    }
}
