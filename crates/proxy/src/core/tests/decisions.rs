//! What other clients ask for a key while its first holder has to decide about a `cas`.

use super::pools::key_at;
use super::*;
use krarup_service::ConnectionLoss;

const CAS: &str = "cas a 0 0 1 77\r\ny\r\n";
const COPY: &str = "set a 0 0 1\r\ny\r\n";

/// Two servers that hold everything, and two clients, the first of which has sent a `cas`.
fn deciding(spec: PoolSpec) -> (World, u32, u32) {
    let mut world = one_pool(spec);
    let (first, second) = (world.client(), world.client());
    world.send(first, CAS);
    assert_eq!((world.asked(0), world.asked(1)), (CAS.into(), String::new()));
    (world, first, second)
}

fn copied() -> PoolSpec {
    PoolSpec::of("main", vec![0, 1])
}

#[test]
fn a_write_behind_a_cas_reaches_the_others_behind_its_copy() {
    for (write, answer) in [
        ("delete a\r\n", "DELETED\r\n"),
        ("delete a\r\n", "NOT_FOUND\r\n"),
        ("set a 0 0 1\r\nz\r\n", "STORED\r\n"),
        ("add a 0 0 1\r\nz\r\n", "NOT_STORED\r\n"),
        ("replace a 0 0 1\r\nz\r\n", "STORED\r\n"),
        ("append a 0 0 1\r\nz\r\n", "STORED\r\n"),
        ("prepend a 0 0 1\r\nz\r\n", "STORED\r\n"),
        ("incr a 1\r\n", "6\r\n"),
        ("decr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("touch a 60\r\n", "TOUCHED\r\n"),
        ("md a\r\n", "HD\r\n"),
        ("ma a v\r\n", "VA 1\r\n6\r\n"),
        ("ms a 1 MR\r\nz\r\n", "HD\r\n"),
        // It is for the first holder to decide, too.
        ("ms a 1 c\r\nz\r\n", "HD c9\r\n"),
    ] {
        let (mut world, first, second) = deciding(copied());
        world.send(second, write);
        assert_eq!((world.asked(0), world.asked(1)), (write.into(), String::new()), "{write:?}");
        world.answer(0, "STORED\r\n");
        assert_eq!(world.asked(1), COPY, "{write:?}");
        world.answer(0, answer);
        assert_eq!(world.asked(1), write);
        world.answer(1, "STORED\r\n");
        assert_eq!((world.replied(first), world.replied(second)), ("STORED\r\n".into(), String::new()));
        world.answer(1, answer);
        assert_eq!(world.replied(second), answer, "{write:?}");
        assert_eq!((world.core.events().disagreements, world.core.unfinished()), (0, 0));
        assert!(world.core.deciding.is_empty());
        // Behind it there is nothing to wait for.
        world.send(second, "delete a\r\n");
        assert_eq!((world.asked(0), world.asked(1)), ("delete a\r\n".into(), "delete a\r\n".into()));
    }
}

#[test]
fn nothing_is_copied_of_a_cas_that_came_too_late() {
    let (mut world, first, second) = deciding(copied());
    world.send(second, "append a 0 0 1\r\nz\r\n").write_servers();
    world.answer(0, "EXISTS\r\nSTORED\r\n");
    assert_eq!(world.asked(1), "append a 0 0 1\r\nz\r\n");
    world.answer(1, "STORED\r\n");
    assert_eq!((world.replied(first), world.replied(second)), ("EXISTS\r\n".into(), "STORED\r\n".into()));
}

/// It may be read at another holder.
#[test]
fn what_a_client_sends_after_such_a_write_waits_for_the_copy_of_it() {
    let (mut world, _, second) = deciding(PoolSpec { reads: Reads::RoundRobin, ..copied() });
    world.send(second, "delete b\r\ndelete a noreply\r\nget a\r\nget a\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("delete b\r\ndelete a\r\n".into(), "delete b\r\n".into()));
    world.answer(1, "DELETED\r\n").answer(0, "STORED\r\nDELETED\r\nDELETED\r\n");
    assert_eq!(world.asked(1), format!("{COPY}delete a\r\n"));
    assert_eq!((world.replied(second), world.asked(0)), ("DELETED\r\n".into(), String::new()));
    world.answer(1, "STORED\r\nDELETED\r\n").write_clients();
    assert_eq!((world.asked(0), world.asked(1)), ("get a\r\n".into(), "get a\r\n".into()));
}

/// All of them were accepted before there was anything to wait for.
#[test]
fn what_a_client_sends_after_several_such_writes_waits_for_the_last() {
    let topology = || Topology::replicated(names(2), MultiGet::Whole);
    let workers = Workers::Limited(1);
    let mut world = World::before(topology(), CoreSettings { workers, ..settings() });
    let (first, second) = (world.client(), world.client());
    let append = "append a 0 0 1\r\nz\r\n";
    world.send(first, CAS).send(second, format!("delete a\r\n{append}"));
    assert_eq!((world.asked(0), world.asked(1)), (CAS.into(), String::new()));
    world.core.reconfigure(settings(), topology(), world.now);
    world.send(second, "get a\r\n");
    assert_eq!((world.asked(0), world.asked(1)), (format!("delete a\r\n{append}"), String::new()));
    world.answer(0, "STORED\r\nDELETED\r\n");
    assert_eq!(world.asked(1), format!("{COPY}delete a\r\n"));
    world.answer(1, "STORED\r\nDELETED\r\n");
    assert_eq!(world.replied(second), "DELETED\r\n");
    assert_eq!((world.asked(0), world.asked(1)), (String::new(), String::new()));
    world.answer(0, "NOT_STORED\r\n");
    assert_eq!(world.asked(1), append);
    world.answer(1, "NOT_STORED\r\n");
    assert_eq!(world.replied(second), "NOT_STORED\r\n");
    assert_eq!(world.asked(0) + &world.asked(1), "get a\r\n");
}

#[test]
fn what_takes_the_key_from_all_holders_leaves_nothing_to_copy() {
    let too_large = format!("set a 0 0 101\r\n{}\r\n", "z".repeat(101));
    for (request, asked, answer, reply) in [
        (&*too_large, "delete a\r\n", "DELETED\r\n", "SERVER_ERROR object too large for cache\r\n"),
        ("flush_all\r\n", "flush_all\r\n", "OK\r\n", "OK\r\n"),
    ] {
        let (mut world, first, second) = deciding(copied());
        world.send(second, request);
        assert_eq!((world.asked(0), world.asked(1)), (asked.into(), asked.into()));
        let (third, add) = (world.client(), "add a 0 0 1\r\nx\r\n");
        world.send(third, add);
        assert_eq!((world.asked(0), world.asked(1)), (add.into(), add.into()));
        world.answer(0, format!("STORED\r\n{answer}STORED\r\n"));
        assert_eq!(world.asked(1), "", "{request:?}");
        world.answer(1, format!("{answer}STORED\r\n"));
        assert_eq!((world.replied(first), world.replied(second)), ("STORED\r\n".into(), reply.into()));
        assert_eq!(world.replied(third), "STORED\r\n");
        assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    }
    let (mut world, _, second) = deciding(copied());
    world.send(second, "flush_all 10\r\n").write_servers();
    world.received[1].clear();
    world.answer(0, "STORED\r\n");
    assert_eq!(world.asked(1), COPY, "until then it is there");
}

#[test]
fn so_it_is_where_no_client_waits_for_the_copies() {
    let behind = || one_pool(PoolSpec { writes: Writes::Async, reads: Reads::Primary, ..copied() });
    let set = "set a 0 1 1\r\nx\r\n";
    let too_large = format!("set a 0 0 101\r\n{}\r\n", "z".repeat(101));
    for (request, asked, answer) in
        [(&*too_large, "delete a\r\n", "DELETED\r\n"), ("flush_all\r\n", "flush_all\r\n", "OK\r\n")]
    {
        let mut world = behind();
        let (first, second) = (world.client(), world.client());
        world.send(first, set).send(second, request);
        assert_eq!((world.asked(0), world.asked(1)), (format!("{set}{asked}"), asked.into()));
        world.answer(0, format!("STORED\r\n{answer}"));
        assert_eq!((world.replied(first), world.asked(1)), ("STORED\r\n".into(), String::new()));
        assert!(world.core.deciding.is_empty());
    }
    let mut world = behind();
    let client = world.client();
    world.send(client, format!("{set}gat 60 a\r\n"));
    assert_eq!((world.asked(0), world.asked(1)), (format!("{set}gat 60 a\r\n"), "touch a 60\r\n".into()));
    world.answer(0, "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    assert_eq!(world.asked(1), format!("{set}touch a 60\r\n"));
}

#[test]
fn a_read_that_touches_says_so_behind_the_copy_too() {
    let primary = || PoolSpec { reads: Reads::Primary, ..copied() };
    for spec in [primary(), PoolSpec { fall_back_on_error: true, ..primary() }] {
        for (read, touch, found, touched) in [
            ("gat 60 b a\r\n", "touch a 60\r\n", "VALUE a 0 1\r\ny\r\nEND\r\n", "TOUCHED\r\n"),
            ("mg a v T60\r\n", "mg a T60\r\n", "VA 1\r\ny\r\n", "HD\r\n"),
        ] {
            let (mut world, first, second) = deciding(spec.clone());
            world.send(second, read);
            let before = if read.starts_with("gat") { "touch b 60\r\n" } else { "" };
            assert_eq!((world.asked(0), world.asked(1)), (read.into(), format!("{before}{touch}")));
            world.answer(0, format!("STORED\r\n{found}"));
            assert_eq!(world.asked(1), format!("{COPY}{touch}"));
            let before = if read.starts_with("gat") { "NOT_FOUND\r\n" } else { "" };
            world.answer(1, format!("{before}{touched}STORED\r\n{touched}"));
            assert_eq!((world.replied(first), world.replied(second)), ("STORED\r\n".into(), found.into()));
            assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
        }
    }
}

#[test]
fn reads_that_touch_alike_say_so_once() {
    let (mut world, _, second) = deciding(PoolSpec { reads: Reads::Primary, ..copied() });
    world.send(second, "gat 60 a\r\ngat 60 a\r\ngat 90 a\r\n").write_servers();
    world.received[1].clear();
    world.answer(0, "STORED\r\n");
    assert_eq!(world.asked(1), format!("{COPY}touch a 60\r\ntouch a 90\r\n"));
}

#[test]
fn where_the_first_holder_is_lost_the_others_get_what_did_not_depend_on_it() {
    let (mut world, first, second) = deciding(copied());
    let third = world.client();
    world.send(second, "delete a\r\n").send(third, "add a 0 0 1\r\nz\r\n").write_servers();
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    assert_eq!(world.asked(1), "delete a\r\nadd a 0 0 1\r\nz\r\n");
    world.answer(1, "DELETED\r\nSTORED\r\n");
    for client in [first, second, third] {
        assert_eq!(world.replied(client), "SERVER_ERROR server-0:1: gone\r\n");
    }
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    assert!(world.core.deciding.is_empty());
}

#[test]
fn where_one_is_enough_a_write_behind_a_cas_is_answered_by_the_first() {
    let (mut world, first, second) = deciding(PoolSpec { writes: Writes::First, ..copied() });
    world.send(second, "delete a\r\n").write_servers();
    world.answer(0, "STORED\r\nDELETED\r\n");
    assert_eq!((world.replied(first), world.replied(second)), (String::new(), "DELETED\r\n".into()));
    assert_eq!(world.asked(1), format!("{COPY}delete a\r\n"));
    world.answer(1, "STORED\r\nDELETED\r\n");
    assert_eq!(world.replied(first), "STORED\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn a_reload_meanwhile_changes_nothing_of_the_order() {
    let (mut world, first, second) = deciding(copied());
    let topology = Topology::replicated(names(2), MultiGet::Sharded);
    world.core.reconfigure(settings(), topology, world.now);
    world.send(second, "delete a\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("delete a\r\n".into(), String::new()));
    world.answer(0, "STORED\r\nDELETED\r\n");
    assert_eq!(world.asked(1), format!("{COPY}delete a\r\n"));
    world.answer(1, "STORED\r\nDELETED\r\n");
    assert_eq!((world.replied(first), world.replied(second)), ("STORED\r\n".into(), "DELETED\r\n".into()));
}

/// Three servers that hold everything, the first of which is taken out by [`without_first`].
fn three(writes: Writes) -> PoolSpec {
    PoolSpec { writes, ..PoolSpec::of("main", vec![0, 1, 2]) }
}

fn without_first(world: &mut World, spec: PoolSpec) {
    let pools = vec![PoolSpec { servers: vec![0, 1], ..spec }];
    let topology = Topology { servers: names(3).split_off(1), pools, routes: Vec::new() };
    let settings = world.core.settings().clone();
    world.core.reconfigure(settings, topology, world.now);
}

/// The new first holder would carry it out before the copies come.
#[test]
fn a_write_waits_for_the_decision_of_a_server_that_was_first_before() {
    for (write, answer) in [("delete a\r\n", "DELETED\r\n"), ("append a 0 0 1\r\nz\r\n", "STORED\r\n")] {
        let (mut world, first, second) = deciding(three(Writes::All));
        without_first(&mut world, three(Writes::All));
        world.send(second, format!("{write}get a\r\n"));
        assert_eq!((world.asked(1), world.asked(2)), (String::new(), String::new()));
        world.answer(0, "STORED\r\n");
        for server in [1, 2] {
            assert_eq!(world.asked(server), format!("{COPY}{write}"));
            world.answer(server, format!("STORED\r\n{answer}"));
        }
        assert_eq!((world.replied(first), world.replied(second)), ("STORED\r\n".into(), answer.into()));
        assert_eq!(world.asked(1) + &world.asked(2), "get a\r\n");
        assert!(world.core.deciding.is_empty());
    }
    let (mut world, first, second) = deciding(three(Writes::All));
    without_first(&mut world, three(Writes::All));
    world.send(second, "delete a\r\n");
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    assert_eq!((world.asked(1), world.asked(2)), ("delete a\r\n".into(), "delete a\r\n".into()));
    world.answer(1, "DELETED\r\n").answer(2, "DELETED\r\n");
    assert_eq!(world.replied(first), "SERVER_ERROR server-0:1: gone\r\n");
    assert_eq!(world.replied(second), "DELETED\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn so_it_does_where_no_client_waits_for_the_copies() {
    let mut world = one_pool(three(Writes::Async));
    let client = world.client();
    let (old, new) = ("set a 0 0 1\r\nx\r\n", "set a 0 0 1\r\ny\r\n");
    world.send(client, old);
    assert_eq!(world.asked(0), old);
    without_first(&mut world, three(Writes::Async));
    world.send(client, new);
    assert_eq!((world.asked(1), world.asked(2)), (String::new(), String::new()));
    world.answer(0, "STORED\r\n");
    assert_eq!((world.asked(1), world.asked(2)), (format!("{old}{new}"), old.into()));
    world.answer(1, "STORED\r\nSTORED\r\n");
    assert_eq!((world.replied(client), world.asked(2)), ("STORED\r\nSTORED\r\n".into(), new.into()));
    world.answer(2, "STORED\r\nSTORED\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    assert_eq!(world.core.pools()[0].counts().dropped, 0);
}

#[test]
fn so_it_does_where_a_server_that_is_back_is_the_first() {
    let when_down = WhenDown::Next;
    let mut world = one_pool(PoolSpec { when_down, ..placed("main", vec![0, 1, 2, 3], 3) });
    let (first, second) = (world.client(), world.client());
    let key = key_at(&mut world, &[0, 1, 2]);
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    world.send(first, format!("cas {key} 0 0 1 77\r\ny\r\n"));
    assert_eq!(world.asked(1), format!("cas {key} 0 0 1 77\r\ny\r\n"));
    world.bring_up(0);
    let (copy, write) = (format!("set {key} 0 0 1\r\ny\r\n"), format!("delete {key}\r\n"));
    world.send(second, &write);
    assert_eq!([0, 1, 2, 3].map(|server| world.asked(server)), [""; 4]);
    world.answer(1, "STORED\r\n");
    assert_eq!((world.asked(0), world.asked(1)), (write.clone(), write.clone()));
    assert_eq!((world.asked(2), world.asked(3)), (format!("{copy}{write}"), copy));
    world.answer(0, "NOT_FOUND\r\n").answer(1, "DELETED\r\n");
    world.answer(2, "STORED\r\nDELETED\r\n").answer(3, "STORED\r\n");
    assert_eq!((world.replied(first), world.replied(second)), ("STORED\r\n".into(), "NOT_FOUND\r\n".into()));
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

/// Beyond a bound it would be refused when it has waited.
#[test]
fn a_write_that_waits_counts_for_the_bounds_of_its_pool_once() {
    let spec = || PoolSpec { concurrency: Some(2), ..three(Writes::All) };
    let (mut world, first, second) = deciding(spec());
    let third = world.client();
    without_first(&mut world, spec());
    world.send(second, "delete a\r\n").send(third, "delete a\r\n");
    let why = "SERVER_ERROR pool main is limited to 2 requests under way\r\n";
    assert_eq!((world.replied(second), world.replied(third)), (String::new(), why.into()));
    world.answer(0, "STORED\r\n");
    for server in [1, 2] {
        assert_eq!(world.asked(server), format!("{COPY}delete a\r\n"));
        world.answer(server, "STORED\r\nDELETED\r\n");
    }
    assert_eq!((world.replied(first), world.replied(second)), ("STORED\r\n".into(), "DELETED\r\n".into()));
    let pool = &world.core.pools()[0];
    assert_eq!((pool.counts().requests, pool.counts().limited, pool.busy()), (2, 1, 0));
}

#[test]
fn a_write_that_has_waited_goes_to_the_pool_that_its_own_has_become() {
    let (mut world, first, second) = deciding(three(Writes::All));
    without_first(&mut world, three(Writes::All));
    world.send(second, "delete a\r\n");
    let pools = vec![PoolSpec::of("other", vec![0])];
    let topology = Topology { servers: names(3).split_off(2), pools, routes: Vec::new() };
    world.core.reconfigure(settings(), topology, world.now);
    world.answer(0, "STORED\r\n");
    assert_eq!((world.asked(1), world.asked(2)), (String::new(), format!("{COPY}delete a\r\n")));
    world.answer(2, "STORED\r\nDELETED\r\n");
    assert_eq!((world.replied(first), world.replied(second)), ("STORED\r\n".into(), "DELETED\r\n".into()));
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    assert!(world.core.pools().iter().all(|pool| pool.busy() == 0));
}

/// Of two pools one has the servers of the other in another order: they held other values for good,
/// where what came for the key overtook a write that waited.
#[test]
fn writes_of_a_key_by_pools_with_other_first_holders_reach_all_servers_in_one_order() {
    let pool = |name: &str, servers| PoolSpec { writes: Writes::Async, ..PoolSpec::of(name, servers) };
    let pools = vec![pool("one", vec![0, 1]), pool("two", vec![1, 0])];
    let mut world = World::before(Topology { servers: names(2), pools, routes: Vec::new() }, settings());
    let clients = [world.client(), world.client_of(1), world.client()];
    let sets = ["1", "2", "3"].map(|value| format!("set a 0 0 1\r\n{value}\r\n"));
    for (&client, set) in clients.iter().zip(&sets) {
        world.send(client, set);
    }
    assert_eq!((world.asked(0), world.asked(1)), (sets[0].clone(), String::new()));
    world.answer(0, "STORED\r\n");
    assert_eq!((world.asked(0), world.asked(1)), (String::new(), sets[..2].concat()));
    world.answer(1, "STORED\r\nSTORED\r\n");
    assert_eq!((world.asked(0), world.asked(1)), (sets[1..].concat(), String::new()));
    world.answer(0, "STORED\r\nSTORED\r\n");
    assert_eq!((world.asked(0), world.asked(1)), (String::new(), sets[2].clone()));
    world.answer(1, "STORED\r\n");
    assert_eq!(clients.map(|client| world.replied(client)), ["STORED\r\n"; 3]);
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    assert!(world.core.deciding.is_empty());
}

#[test]
fn a_write_that_waits_is_carried_out_though_its_client_is_gone() {
    let (mut world, first, second) = deciding(three(Writes::All));
    without_first(&mut world, three(Writes::All));
    world.send(second, "delete a\r\n");
    world.core.gone(second, world.now);
    world.replies.remove(&second);
    world.answer(0, "STORED\r\n");
    for server in [1, 2] {
        assert_eq!(world.asked(server), format!("{COPY}delete a\r\n"));
        world.answer(server, "STORED\r\nDELETED\r\n");
    }
    assert_eq!(world.replied(first), "STORED\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn a_server_that_is_taken_out_is_sent_no_copy() {
    let set = "set a 0 0 1\r\ny\r\n";
    for (writes, write) in [(Writes::All, CAS), (Writes::Async, set)] {
        let mut world = one_pool(PoolSpec { writes, ..copied() });
        let client = world.client();
        world.send(client, write);
        assert_eq!((world.asked(0), world.asked(1)), (write.into(), String::new()));
        let pools = vec![PoolSpec { writes, ..PoolSpec::of("main", vec![0]) }];
        let topology = Topology { servers: names(1), pools, routes: Vec::new() };
        world.core.reconfigure(settings(), topology, world.now);
        world.core.server_closed(1);
        world.answer(0, "STORED\r\n");
        assert_eq!(world.replied(client), "STORED\r\n");
        assert_eq!((world.core.events().disagreements, world.core.pools()[0].counts().dropped), (0, 0));
        assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    }
}

/// By what holds when the copy is sent it would be another client's key.
#[test]
fn a_copy_has_the_name_under_which_its_write_was_sent() {
    let mut world = one_pool(copied());
    let client = world.client();
    world.send(client, "cas t:a 0 0 1 7\r\ny\r\n");
    assert_eq!(world.asked(0), "cas t:a 0 0 1 7\r\ny\r\n");
    let routes = vec![Route { prefix: b"t:".to_vec(), pool: 0, strip: true, add: Vec::new() }];
    let topology = Topology { routes, ..Topology::replicated(names(2), MultiGet::Whole) };
    world.core.reconfigure(settings(), topology, world.now);
    world.answer(0, "STORED\r\n");
    assert_eq!(world.asked(1), "set t:a 0 0 1\r\ny\r\n");
    world.answer(1, "STORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\n");
}

/// As [`deciding`], with room for values that are lent; and a `set` of one.
fn deciding_large(spec: PoolSpec) -> (World, [u32; 2], String) {
    let length = 2 * LARGE_REQUEST;
    let limits = Limits { value: length, ..Limits::default() };
    let topology = Topology { servers: names(spec.servers.len()), pools: vec![spec], routes: Vec::new() };
    let mut world = World::before(topology, CoreSettings { limits, ..settings() });
    let clients = [world.client(), world.client()];
    world.send(clients[0], CAS);
    assert_eq!(world.asked(0), CAS);
    (world, clients, format!("set a 0 0 {length}\r\n{}\r\n", "z".repeat(length)))
}

fn send_lent(world: &mut World, client: u32, write: &str) {
    let memory = Arc::new(write.as_bytes().to_vec());
    let used = world.core.read_lent(client, &memory, 0..memory.len(), world.now, world.now);
    assert_eq!(used, memory.len());
}

/// All that a server is sent, however many pieces that has.
fn all_asked(world: &mut World, server: usize) -> String {
    let mut asked = String::new();
    while let more = world.asked(server)
        && !more.is_empty()
    {
        asked += &more;
    }
    asked
}

#[test]
fn a_large_value_behind_a_cas_is_copied_in_its_turn() {
    let (mut world, clients, write) = deciding_large(copied());
    send_lent(&mut world, clients[1], &write);
    assert!(all_asked(&mut world, 0) == write && world.asked(1).is_empty());
    world.answer(0, "STORED\r\nSTORED\r\n");
    assert!(all_asked(&mut world, 1) == format!("{COPY}{write}"));
    world.answer(1, "STORED\r\nSTORED\r\n");
    assert_eq!(clients.map(|client| world.replied(client)), ["STORED\r\n"; 2]);
}

#[test]
fn a_large_value_that_waits_for_a_decision_is_sent_whole() {
    let (mut world, clients, write) = deciding_large(three(Writes::All));
    without_first(&mut world, three(Writes::All));
    send_lent(&mut world, clients[1], &write);
    assert_eq!((world.asked(1), world.asked(2)), (String::new(), String::new()));
    world.answer(0, "STORED\r\n");
    for server in [1, 2] {
        assert!(all_asked(&mut world, server) == format!("{COPY}{write}"));
        world.answer(server, "STORED\r\nSTORED\r\n");
    }
    assert_eq!(clients.map(|client| world.replied(client)), ["STORED\r\n"; 2]);
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}
