//! Meta commands before several servers: to a client they are one.

use super::*;
use krarup_service::ConnectionLoss;

#[test]
fn reads_are_balanced_and_quiet_ones_are_told_only_what_is_there() {
    let mut world = World::new(2, settings());
    let client = world.client();
    world.send(client, "mg a v q\r\nmg b v k q\r\nmg c v\r\nmn\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("mg a v\r\nmg c v\r\n".into(), "mg b v k\r\n".into()));
    world.answer(1, "VA 1 kb\r\nx\r\n");
    assert_eq!(world.replied(client), "");
    world.answer(0, "EN\r\nEN\r\n");
    assert_eq!(world.replied(client), "VA 1 kb\r\nx\r\nEN\r\nMN\r\n");
    let seen: Vec<_> =
        (0..4).map(|row| world.row(row).0).map(|visit| (visit.operation, visit.hits, visit.misses)).collect();
    let get = Operation::Get;
    assert_eq!(seen, [(get, 0, 1), (get, 1, 0), (get, 0, 1), (Operation::Other, 0, 0)]);
}

#[test]
fn a_quiet_write_is_told_only_what_went_wrong() {
    let mut world = World::new(2, settings());
    let client = world.client();
    world.send(client, "ms a 1 q\r\nx\r\nmd b q\r\nma n q\r\nms c 1 q\r\ny\r\nmn\r\n");
    for server in 0..2 {
        assert_eq!(world.asked(server), "ms a 1\r\nx\r\nmd b\r\nma n\r\nms c 1\r\ny\r\n");
    }
    world.answer(0, "HD\r\nNF\r\nHD\r\nHD\r\n").answer(1, "HD\r\nNF\r\nHD\r\nSERVER_ERROR busy\r\n");
    assert_eq!(world.replied(client), "NF\r\nSERVER_ERROR busy\r\nMN\r\n");
    assert_eq!(world.core.events().disagreements, 1);
}

/// Clients take any line but a hit's among quiet answers for their end, and what is still to come
/// for the answers to what they ask next.
#[test]
fn a_quiet_read_whose_server_fails_is_told_nothing_and_counts_as_an_error() {
    let mut world = World::new(2, settings());
    let client = world.client();
    world.send(client, "mg a v k q s\r\nmg b v k q s\r\nmg c v k q s\r\nmn\r\n");
    let asked = (world.asked(0), world.asked(1));
    assert_eq!(asked, ("mg a v k s\r\nmg c v k s\r\n".into(), "mg b v k s\r\n".into()));
    world.answer(0, "SERVER_ERROR busy\r\n");
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    world.answer(1, "VA 1 kb s1\r\nx\r\n");
    assert_eq!(world.replied(client), "VA 1 kb s1\r\nx\r\nMN\r\n");
    let seen = |row: usize| (world.row(row).0.outcome, world.row(row).0.bytes_out);
    assert_eq!([seen(0), seen(2)], [(Outcome::ServerError, 0), (Outcome::ServerLost, 0)]);
    assert_eq!(seen(1).0, Outcome::Ok);
    // So it does where no server is up; other reads are told, and quiet writes.
    world.core.server_lost(1, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, "mg a v k q s\r\nmg b v\r\nms c 1 q\r\nx\r\nmd d q\r\nma n q\r\nmn\r\n");
    let none = "SERVER_ERROR no server is up (server-0:1, server-1:1)\r\n";
    let first = "SERVER_ERROR server-0:1 is down\r\n";
    assert_eq!(world.replied(client), format!("{none}{first}{first}{first}MN\r\n"));
    assert_eq!(world.row(4).0.outcome, Outcome::ServerLost);
}

#[test]
fn which_client_has_won_is_decided_by_the_first_server_alone() {
    let mut world = World::new(2, settings());
    let client = world.client();
    world.send(client, "mg a v\r\nmg a v\r\n");
    world.write_servers();
    world.answer(0, "VA 1 W X\r\nx\r\n").answer(1, "VA 1 W X\r\nx\r\n");
    assert_eq!(world.asked(0), "mg a v\r\nmg a v\r\n", "the second has asked the first server as well");
    world.answer(0, "VA 1 Z X\r\nx\r\n");
    assert_eq!(world.replied(client), "VA 1 W X\r\nx\r\nVA 1 Z X\r\nx\r\n");
    assert_eq!(world.core.unfinished(), 0);
}

#[test]
fn the_first_server_is_asked_for_the_key_that_another_was_asked_for() {
    let mut world = World::new(2, settings());
    let client = world.client();
    world.send(client, "mg t:a v\r\nmg t:a v\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("mg t:a v\r\n".into(), "mg t:a v\r\n".into()));
    let routes = vec![Route { prefix: b"t:".to_vec(), pool: 0, strip: true, add: Vec::new() }];
    let topology = Topology { routes, ..Topology::replicated(names(2), MultiGet::Whole) };
    world.core.reconfigure(settings(), topology, world.now);
    world.answer(1, "VA 1 W X\r\nx\r\n");
    assert_eq!(world.asked(0), "mg t:a v\r\n");
    world.answer(0, "VA 1 X\r\nx\r\nVA 1 W X\r\nx\r\n");
    assert_eq!(world.replied(client), "VA 1 X\r\nx\r\nVA 1 W X\r\nx\r\n");
}

#[test]
fn a_read_that_changes_something_changes_it_everywhere() {
    let mut world = World::new(2, settings());
    let client = world.client();
    world.send(client, "mg a v k T30 O7\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("mg a v k T30 O7\r\n".into(), "mg a T30\r\n".into()));
    world.answer(0, "VA 1 ka O7\r\nx\r\n");
    assert_eq!(world.replied(client), "");
    world.answer(1, "EN\r\n");
    assert_eq!(world.replied(client), "VA 1 ka O7\r\nx\r\n");
}

#[test]
fn the_first_server_decides_about_a_unique_and_the_others_follow() {
    let mut world = World::new(2, settings());
    let client = world.client();
    for (asked, first, reply, other, answer) in [
        ("ms a 1 C7 c q\r\nx\r\n", "ms a 1 C7 c\r\nx\r\n", "HD c9\r\n", "ms a 1 c\r\nx\r\n", "HD c4\r\n"),
        ("ms a 1 C7\r\nx\r\n", "ms a 1 C7\r\nx\r\n", "EX\r\n", "", ""),
        ("ms a 1 C7 I\r\nx\r\n", "ms a 1 C7 I\r\nx\r\n", "HD\r\n", "md a\r\n", "NF\r\n"),
        ("md a C7\r\n", "md a C7\r\n", "EX\r\n", "", ""),
        ("md a C7\r\n", "md a C7\r\n", "HD\r\n", "md a\r\n", "HD\r\n"),
        // What the others have was compared with nothing.
        ("md a C7\r\n", "md a C7\r\n", "NF\r\n", "", ""),
        ("md a c\r\n", "md a c\r\n", "NF\r\n", "md a c\r\n", "NF\r\n"),
        ("ma n C7 v\r\n", "ma n C7 v\r\n", "VA 1\r\n5\r\n", "ma n v\r\n", "VA 1\r\n5\r\n"),
    ] {
        world.send(client, asked);
        assert_eq!((world.asked(0), world.asked(1)), (first.into(), String::new()), "{asked:?}");
        world.answer(0, reply);
        assert_eq!(world.asked(1), other, "{asked:?}");
        world.answer(1, answer);
        let quiet = asked.contains('q');
        assert_eq!(world.replied(client), if quiet { "" } else { reply }, "{asked:?}");
    }
    assert_eq!((world.core.events().disagreements, world.core.unfinished()), (0, 0));
}

/// They may have lost the key.
#[test]
fn others_that_have_nothing_to_follow_with_do_not_contradict_the_first_server() {
    let mut world = World::new(2, settings());
    let client = world.client();
    let failure = "SERVER_ERROR busy\r\n";
    for (asked, first, copy, other, reply) in [
        ("md a C7\r\n", "HD\r\n", "md a\r\n", "NF\r\n", "HD\r\n"),
        ("ma n C7 v\r\n", "VA 1\r\n5\r\n", "ma n v\r\n", "NF\r\n", "VA 1\r\n5\r\n"),
        ("ms a 1 MA C7\r\nx\r\n", "HD\r\n", "ms a 1 MA\r\nx\r\n", "NS\r\n", "HD\r\n"),
        ("md a C7\r\n", "HD\r\n", "md a\r\n", failure, failure),
    ] {
        world.send(client, asked).write_servers().answer(0, first);
        assert_eq!(world.asked(1), copy, "{asked:?}");
        world.answer(1, other);
        assert_eq!(world.replied(client), reply, "{asked:?}");
    }
    assert_eq!((world.core.events().disagreements, world.core.unfinished()), (4, 0));
}

/// As it has removed what was there; not for a `cas`.
#[test]
fn what_the_first_server_has_no_room_for_is_removed_at_the_others() {
    let mut world = World::new(2, settings());
    let client = world.client();
    let full = "SERVER_ERROR out of memory storing object\r\n";
    for (asked, removal, removed) in [
        ("ms a 1 c\r\nx\r\n", "md a\r\n", "HD\r\n"),
        ("ms YQ== 1 b C7\r\nx\r\n", "md YQ== b\r\n", "NF\r\n"),
        ("cas a 0 0 1 7\r\nx\r\n", "", ""),
    ] {
        world.send(client, asked).write_servers().answer(0, full);
        assert_eq!(world.asked(1), removal, "{asked:?}");
        world.answer(1, removed);
        assert_eq!(world.replied(client), full, "{asked:?}");
    }
    assert_eq!((world.core.events().disagreements, world.core.unfinished()), (0, 0));
}

/// The server is connected to anew, and tells a version that knows no meta commands.
fn grow_old(world: &mut World, server: usize) {
    world.core.server_lost(server, "down", ConnectionLoss::Broken, world.now);
    world.core.server_connected(server);
    world.asked(server);
    world.answer(server, "VERSION 1.5.22\r\n");
}

#[test]
fn a_server_that_knows_no_meta_commands_is_sent_no_value_with_one() {
    let mut world = World::new(1, settings());
    grow_old(&mut world, 0);
    let client = world.client();
    world.send(client, "ms a 1\r\nx\r\nmg a v\r\n").write_servers();
    assert_eq!(world.asked(0), "mg a v\r\n");
    world.answer(0, "ERROR\r\n").write_clients();
    assert_eq!(world.replied(client), "ERROR\r\nERROR\r\n");
}

#[test]
fn nor_is_a_shadow_or_a_gutter() {
    let mut world = two_pools(|spec| PoolSpec { shadow: Some(Shadow { pool: 1, share: 1.0 }), ..spec });
    grow_old(&mut world, 2);
    let client = world.client();
    world.send(client, "ms a 1\r\nx\r\nmd a\r\n");
    for server in 0..2 {
        assert_eq!(world.asked(server), "ms a 1\r\nx\r\nmd a\r\n");
        world.answer(server, "HD\r\nHD\r\n");
    }
    assert_eq!(world.replied(client), "HD\r\nHD\r\n");
    assert_eq!(world.asked(2), "md a\r\n");
    assert_eq!(world.core.pools()[0].counts().dropped, 1);
    let mut world = two_pools(|spec| PoolSpec { gutter: Some(StandIn { pool: 1, ttl: 10 }), ..spec });
    grow_old(&mut world, 2);
    let client = world.client();
    world.send(client, "ms a 1\r\nx\r\n");
    for server in 0..2 {
        assert_eq!(world.asked(server), "ms a 1\r\nx\r\n");
        world.answer(server, "HD\r\n");
        world.core.server_lost(server, "gone", ConnectionLoss::Broken, world.now);
    }
    assert_eq!(world.replied(client), "HD\r\n");
    world.send(client, "ms a 1\r\nx\r\nmd a\r\n");
    assert_eq!(world.asked(2), "md a\r\n");
    world.answer(2, "ERROR\r\n");
    assert_eq!(world.replied(client), "ERROR\r\nERROR\r\n");
}

/// The value would be carried out as commands.
#[test]
fn a_set_has_room_for_the_lifetime_that_it_is_given_or_is_refused() {
    let mut world = second_looks(|spec| PoolSpec { ttl_cap: Some(60), ..spec });
    let client = world.client();
    let flags = "l P L k s t c f v h u I O1 N5 R5";
    world.send(client, format!("ms k 1 {flags} J5\r\nx\r\n"));
    assert_eq!((world.asked(0), world.asked(1)), (String::new(), String::new()));
    assert_eq!(world.replied(client), "CLIENT_ERROR options flags too long\r\n");
    world.send(client, format!("ms k 1 {flags} q\r\nx\r\n"));
    assert_eq!(world.asked(0), format!("ms k 1 {flags} T60\r\nx\r\n"));
    let mut world = second_looks(|spec| spec);
    let client = world.client();
    world.send(client, format!("ms k 1 {flags} J5\r\nx\r\n"));
    assert_eq!(world.asked(0), format!("ms k 1 {flags} J5\r\nx\r\n"));
}

#[test]
fn a_set_at_fault_costs_no_client_a_connection() {
    let mut world = World::new(1, settings());
    let client = world.client();
    world.send(client, "ms a 3 Tx\r\nabc\r\nms b 1 z\r\nx\r\nms c 101\r\n");
    world.send(client, "y".repeat(103)).send(client, "mn\r\n");
    assert_eq!(world.asked(0), "ms b 1 z\r\nx\r\ndelete c\r\n");
    world.answer(0, "CLIENT_ERROR invalid flag\r\nNOT_FOUND\r\n");
    let bad = "CLIENT_ERROR bad token in command line format\r\n";
    let large = "SERVER_ERROR object too large for cache\r\n";
    assert_eq!(world.replied(client), format!("{bad}CLIENT_ERROR invalid flag\r\n{large}MN\r\n"));
}

#[test]
fn a_key_in_base64_is_kept_where_its_name_is() {
    let mut world = one_pool(placed("main", vec![0, 1, 2], 1));
    let client = world.client();
    for (name, key) in [("foo", "Zm9v"), ("a", "YQ=="), ("bar", "YmFy"), ("k", "aw=="), ("f", "Zg==")] {
        world.send(client, format!("get {name}\r\nmg {key} b\r\n"));
        let server = (0..3).find(|&server| !world.core.server_output(server).is_empty()).unwrap();
        assert_eq!(world.asked(server), format!("get {name}\r\nmg {key} b\r\n"));
        world.answer(server, "END\r\nEN\r\n");
        assert_eq!(world.replied(client), "END\r\nEN\r\n");
        let queues = [format!("get {name}\r\n"), format!("mg {key} b\r\n")]
            .map(|asked| world.core.choose_queue(0, asked.as_bytes(), 1));
        assert_eq!(queues, [QueueChoice::Read(server); 2]);
    }
}

#[test]
fn a_binary_request_in_pieces_is_refused_with_its_opaque() {
    let mut world = World::new(1, settings());
    let client = world.client();
    let mut request = vec![0x80, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    request.extend_from_slice(b"opaq\0\0\0\0\0\0\0\0");
    for (place, byte) in request.iter().enumerate() {
        assert_eq!(world.core.output(client).unsent(), b"", "after {place} bytes");
        world.send(client, [*byte]);
    }
    let refusal = world.core.output(client).unsent();
    assert_eq!(&refusal[..8], b"\x81\x0a\0\0\0\0\0\x81");
    assert_eq!(&refusal[12..16], b"opaq");
    assert!(refusal[24..].starts_with(b"CLIENT_ERROR the binary protocol is not supported"));
}

#[test]
fn an_answer_of_another_kind_closes_the_connection_and_reaches_no_client() {
    let mut world = World::new(1, settings());
    let client = world.client();
    world.send(client, "mg a\r\nmg b v\r\n");
    world.write_servers();
    let said = world.core.server_read(0, b"VA 6\r\nsecret\r\n", world.now);
    assert!(said.unwrap_err().why.starts_with("a value that was not asked for"));
    world.core.server_lost(0, "out of step", ConnectionLoss::Broken, world.now);
    assert_eq!(world.replied(client), "SERVER_ERROR server-0:1: out of step\r\n".repeat(2));
}

/// One pool with second looks: two holders of everything, the first preferred.
fn second_looks(change: impl FnOnce(PoolSpec) -> PoolSpec) -> World {
    one_pool(change(PoolSpec { reads: Reads::Primary, ..PoolSpec::of("main", vec![0, 1]) }))
}

/// A pool of the servers 0 and 1, and another of server 2.
fn two_pools(change: impl FnOnce(PoolSpec) -> PoolSpec) -> World {
    let first = change(PoolSpec { reads: Reads::Primary, ..PoolSpec::of("main", vec![0, 1]) });
    let pools = vec![first, PoolSpec::of("other", vec![2])];
    World::before(Topology { servers: names(3), pools, routes: Vec::new() }, settings())
}

#[test]
fn a_read_that_fails_is_tried_at_the_next_holder() {
    let mut world = second_looks(|spec| PoolSpec { fall_back_on_error: true, ..spec });
    let client = world.client();
    world.send(client, "mg a v q\r\nmg b v c\r\nmn\r\n").write_servers();
    world.answer(0, "SERVER_ERROR busy\r\nSERVER_ERROR busy\r\n");
    assert_eq!(world.asked(1), "mg a v\r\n", "no other replaces the server that gives out uniques");
    world.answer(1, "EN\r\n");
    assert_eq!(world.replied(client), "SERVER_ERROR busy\r\nMN\r\n");
    assert_eq!(world.core.pools()[0].counts().retries, 1);
}

#[test]
fn reads_earn_for_the_reads_that_are_tried_again() {
    let mut world = second_looks(|spec| PoolSpec { fall_back_on_error: true, retry_budget: 0.5, ..spec });
    let client = world.client();
    for _ in 0..30 {
        world.send(client, "mg a\r\n").write_servers();
        world.answer(0, "SERVER_ERROR busy\r\n").write_servers();
        if world.core.in_flight() > 0 {
            world.answer(1, "EN\r\n");
        }
    }
    // Ten were saved up, and each two reads pay for another: 10 + (30 - 20) / 2 at least.
    assert!(
        (20..30).contains(&world.core.pools()[0].counts().retries),
        "{:?}",
        world.core.pools()[0].counts()
    );
}

#[test]
fn a_missing_key_is_looked_for_at_the_next_holder_and_stored_where_it_was_missed() {
    for (asked, there, found, reply, stored) in [
        ("mg a v k O7", "mg a v k O7 f", "VA 1 ka O7 f5", "VA 1 ka O7", "add a 5 90 1"),
        ("mg a f v", "mg a f v", "VA 1 f5", "VA 1 f5", "add a 5 90 1"),
        ("mg YQ== b v", "mg YQ== b v f", "VA 1 b f5", "VA 1 b", "ms YQ== 1 b ME F5 T90"),
        ("mg a v", "mg a v f", "VA 1 f5 X Z", "VA 1 X Z", ""),
    ] {
        let spec = |spec| PoolSpec { fall_back_on_miss: true, refill: Some(90), ..spec };
        let mut world = second_looks(spec);
        let client = world.client();
        world.send(client, format!("{asked}\r\n"));
        assert_eq!(world.asked(0), format!("{asked}\r\n"));
        world.answer(0, "EN\r\n");
        assert_eq!(world.asked(1), format!("{there}\r\n"));
        world.answer(1, format!("{found}\r\nx\r\n"));
        assert_eq!(world.replied(client), format!("{reply}\r\nx\r\n"));
        let stored = if stored.is_empty() { String::new() } else { format!("{stored}\r\nx\r\n") };
        assert_eq!(world.asked(0), stored);
        let (visit, _) = world.row(0);
        assert_eq!((visit.hits, visit.misses), (1, 0));
    }
    let mut world = second_looks(|spec| PoolSpec { fall_back_on_miss: true, ..spec });
    let client = world.client();
    world.send(client, "mg a t\r\n").write_servers();
    world.answer(0, "EN\r\n").write_servers();
    world.answer(1, "EN\r\n");
    assert_eq!(world.replied(client), "EN\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn a_cold_pool_is_filled_from_a_warm_one() {
    for (ttl_cap, ttl) in [(None, 600), (Some(60), 60)] {
        let warm = Some(StandIn { pool: 1, ttl: 600 });
        let mut world = two_pools(|spec| PoolSpec { warm, ttl_cap, ..spec });
        let client = world.client();
        world.send(client, "mg a v\r\n").write_servers();
        world.received[0].clear();
        world.answer(0, "EN\r\n");
        assert_eq!(world.asked(2), "mg a v f\r\n");
        world.answer(2, "VA 1 f0\r\nx\r\n");
        assert_eq!(world.replied(client), "VA 1\r\nx\r\n");
        let add = format!("add a 0 {ttl} 1\r\nx\r\n");
        assert_eq!((world.asked(0), world.asked(1)), (add.clone(), add));
    }
}

#[test]
fn what_the_gutter_touches_it_keeps_no_longer_than_it_should() {
    let gutter = Some(StandIn { pool: 1, ttl: 10 });
    let mut world = two_pools(|spec| PoolSpec { gutter, ttl_cap: Some(60), ..spec });
    let client = world.client();
    world.send(client, "gat 3600 a\r\nmg a T3600 v\r\n");
    assert_eq!(world.asked(0), "gat 60 a\r\nmg a T60 v\r\n");
    assert_eq!(world.asked(1), "touch a 60\r\nmg a T60\r\n");
    for server in 0..2 {
        world.core.server_lost(server, "gone", ConnectionLoss::Broken, world.now);
    }
    world.replied(client);
    world.send(client, "gat 3600 a\r\nmg a T3600 v\r\nmg a T5\r\n");
    assert_eq!(world.asked(2), "gat 10 a\r\nmg a T10 v\r\nmg a T5\r\n");
    world.answer(2, "END\r\nVA 1\r\nx\r\nHD\r\n");
    assert_eq!(world.replied(client), "END\r\nVA 1\r\nx\r\nHD\r\n");
}

#[test]
fn a_lifetime_is_cut_whatever_other_flags_a_read_has() {
    let mut world = second_looks(|spec| PoolSpec { fall_back_on_error: true, ttl_cap: Some(60), ..spec });
    let client = world.client();
    world.send(client, "mg k v T0 P\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("mg k v T60 P\r\n".into(), String::new()));
    world.answer(0, "EN\r\n");
    assert_eq!(world.replied(client), "EN\r\n");
}

#[test]
fn the_shadow_gets_its_share() {
    let mut world = two_pools(|spec| PoolSpec { shadow: Some(Shadow { pool: 1, share: 0.5 }), ..spec });
    let client = world.client();
    world.send(client, "mg a v\r\nmg b v q\r\n");
    assert_eq!(world.asked(2), "mg b v\r\n");
    world.answer(2, "SERVER_ERROR whatever\r\n");
    assert_eq!(world.replied(client), "");
}

#[test]
fn readers_are_waited_for() {
    let mut world = second_looks(|spec| PoolSpec { readers: Some(1), ..spec });
    let client = world.client();
    world.send(client, "mg a v\r\nmg b c\r\nme c\r\nget d\r\n");
    for (asked, answer) in [
        ("mg a v\r\n", "EN\r\n"),
        ("mg b c\r\n", "HD c7\r\n"),
        ("me c\r\n", "EN\r\n"),
        ("get d\r\n", "END\r\n"),
    ] {
        assert_eq!(world.asked(0), asked);
        world.answer(0, answer);
        assert_eq!(world.replied(client), answer);
    }
}

#[test]
fn equal_reads_share_one_answer_but_not_a_win() {
    let mut world = second_looks(|spec| PoolSpec { coalesce: true, ..spec });
    let clients: Vec<_> = (0..4).map(|_| world.client()).collect();
    world.send(clients[0], "mg a v\r\n").send(clients[1], "mg a  v q\r\n").send(clients[2], "mg a v O7\r\n");
    world.send(clients[3], "get a\r\n");
    assert_eq!(world.asked(0), "mg a v\r\nmg a v O7\r\nget a\r\n");
    world.answer(0, "EN\r\nEN O7\r\nEND\r\n");
    let replies: Vec<_> = clients.iter().map(|&client| world.replied(client)).collect();
    assert_eq!(replies, ["EN\r\n", "", "EN O7\r\n", "END\r\n"]);
    // One is told that it has won; the others must be told that another client has.
    world
        .send(clients[0], "mg a v\r\n")
        .send(clients[1], "mg a v\r\n")
        .send(clients[2], "md a\r\nmg a v\r\n");
    assert_eq!(world.asked(0), "mg a v\r\nmd a\r\nmg a v\r\n");
    assert_eq!(world.asked(1), "md a\r\n");
    world.answer(0, "VA 1 W X\r\nx\r\n");
    assert_eq!(world.asked(0), "mg a v\r\n");
    world.answer(1, "HD\r\n").answer(0, "HD\r\nEN\r\nVA 1 Z X\r\nx\r\n");
    let replies: Vec<_> = clients[..3].iter().map(|&client| world.replied(client)).collect();
    assert_eq!(replies, ["VA 1 W X\r\nx\r\n", "VA 1 Z X\r\nx\r\n", "HD\r\nEN\r\n"]);
    assert_eq!(world.core.pools()[0].counts().coalesced, 2);
    assert!(!world.core.pools()[0].has_leaders());
}

#[test]
fn a_read_with_the_longest_flags_is_asked_in_its_own_words() {
    let mut world = second_looks(|spec| PoolSpec { coalesce: true, ..spec });
    let client = world.client();
    let words = |flags: usize| format!("mg k v O{}", "x".repeat(flags - " v O".len()));
    world.send(client, format!("{}\n", words(1_500)));
    assert_eq!(world.asked(0), format!("{}\r\n", words(1_500)));
    world.answer(0, "EN\r\n");
    assert_eq!(world.replied(client), "EN\r\n");
    // What a route or a lifetime adds to more could make a line on which a server closes.
    world.send(client, format!("{}\r\nms k 1 z{}\r\nx\r\nmn\r\n", words(1_501), "x".repeat(1_500)));
    assert_eq!(world.asked(0), "");
    let refused = "CLIENT_ERROR options flags too long\r\n";
    assert_eq!(world.replied(client), format!("{refused}{refused}MN\r\n"));
}

/// One pool of one server, and a route to it.
fn routed(route: Route) -> World {
    let pools = vec![PoolSpec::of("main", vec![0])];
    World::before(Topology { servers: names(1), pools, routes: vec![route] }, settings())
}

/// A server shows the key of what `mg` itself has stored by its bytes, and these were taken for
/// flags and line ends: every client lost the connection.
#[test]
fn a_key_with_a_blank_or_a_line_feed_is_shown_in_base64_and_no_server_is_asked_for_it() {
    for coalesce in [false, true] {
        let mut world = one_pool(PoolSpec { coalesce, ..PoolSpec::of("main", vec![0]) });
        let client = world.client();
        for key in ["YSBj", "YQpj"] {
            for (asked, sent, answer, reply) in [
                ("mg KEY b N30 v k", "mg KEY b N30 v", "VA 0 W\r\n", "VA 0 kKEY b W\r\n"),
                ("mg KEY b O7 v k q", "mg KEY b O7 v", "VA 0 O7 Z\r\n", "VA 0 O7 kKEY b Z\r\n"),
                ("mg KEY b k v O7", "mg KEY b v O7", "VA 0 O7 Z\r\n", "VA 0 kKEY b O7 Z\r\n"),
                ("mg KEY b v f k q s", "mg KEY b v f s", "VA 0 f0 s0\r\n", "VA 0 f0 kKEY b s0\r\n"),
                ("mg KEY b s f k", "mg KEY b s f", "HD s0 f0\r\n", "HD s0 f0 kKEY b\r\n"),
                ("mg KEY b k", "mg KEY b", "HD\r\n", "HD kKEY b\r\n"),
                ("mg KEY b k", "mg KEY b", "EN\r\n", "EN kKEY b\r\n"),
                ("mg KEY b f O7 k", "mg KEY b f O7", "EN O7\r\n", "EN O7 kKEY b\r\n"),
                ("mg KEY b k", "mg KEY b", "SERVER_ERROR busy\r\n", "SERVER_ERROR busy\r\n"),
                ("md KEY b k", "md KEY b k", "HD kKEY b\r\n", "HD kKEY b\r\n"),
            ] {
                let value = if answer.starts_with("VA") { "\r\n" } else { "" };
                let of_key = |text: &str| text.replace("KEY", key);
                world.send(client, of_key(&format!("{asked}\r\n")));
                assert_eq!(world.asked(0), of_key(&format!("{sent}\r\n")), "{asked}");
                world.answer(0, of_key(&format!("{answer}{value}")));
                assert_eq!(world.replied(client), of_key(&format!("{reply}{value}")), "{asked}");
            }
        }
        world.send(client, "me YSBj b\r\nme YQpj b\r\n");
        assert_eq!(world.asked(0), "me YSBj b\r\n");
        world.answer(0, "EN\r\n");
        let refused = "CLIENT_ERROR a key with a line feed cannot be shown\r\n";
        assert_eq!(world.replied(client), format!("EN\r\n{refused}"));
        assert_eq!(world.core.events().desynchronised, 0);
    }
    // Where a route changes it, the client is shown its own.
    let route = Route { prefix: b"a".to_vec(), pool: 0, strip: false, add: b"z".to_vec() };
    let mut world = routed(route);
    let client = world.client();
    world.send(client, "mg YSBj b v k\r\nms YSBj 1 b k\r\nx\r\nme YSBj b\r\n");
    assert_eq!(world.asked(0), "mg emEgYw== b v\r\nms emEgYw== 1 b k\r\nx\r\nme emEgYw== b\r\n");
    world.answer(0, "VA 1\r\nx\r\nHD kemEgYw== b\r\nEN\r\n");
    assert_eq!(world.replied(client), "VA 1 kYSBj b\r\nx\r\nHD kYSBj b\r\nEN\r\n");
}

/// A route made the key of another item of it, which was deleted.
#[test]
fn a_key_that_is_no_base64_is_for_its_server_to_refuse_also_behind_a_route() {
    let route = Route { prefix: b"user:".to_vec(), pool: 0, strip: true, add: Vec::new() };
    let mut world = routed(route);
    let client = world.client();
    world.send(client, "md user:7 b\r\nmd dXNlcjo3 b\r\n");
    assert_eq!(world.asked(0), "md user:7 b\r\nmd Nw== b\r\n");
    let answers = "CLIENT_ERROR error decoding key\r\nHD\r\n";
    world.answer(0, answers);
    assert_eq!(world.replied(client), answers);
}

#[test]
fn a_slow_read_is_sent_to_a_second_holder_whose_win_does_not_count() {
    let hedge = Some(Hedge { quantile: 0.95, budget: 0.1 });
    let mut world = second_looks(|spec| PoolSpec { hedge, ..spec });
    let client = world.client();
    for read in 0..100_u64 {
        world.at(read * 1_000_000).send(client, "mg a\r\n").write_servers();
        world.at(read * 1_000_000 + 100_000).answer(0, "EN\r\n");
        world.replied(client);
    }
    for (second, first, reply) in [("HD\r\n", "HD\r\n", "HD\r\n"), ("HD W X\r\n", "HD Z X\r\n", "HD Z X\r\n")]
    {
        world.asked(0);
        world.send(client, "mg a\r\n").write_servers();
        let due = world.core.deadline().unwrap();
        world.now = due;
        world.core.tick(due);
        assert_eq!(world.asked(1), "mg a\r\n");
        world.answer(1, second).answer(0, first);
        assert_eq!(world.replied(client), reply);
    }
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    assert_eq!(world.core.pools()[0].counts().hedges_won, 1);
}

#[test]
fn a_win_at_another_holder_is_the_first_ones_to_give() {
    let reads = Reads::RoundRobin;
    let mut world = second_looks(|spec| PoolSpec { fall_back_on_miss: true, reads, ..spec });
    let client = world.client();
    world.send(client, "mg a\r\n");
    assert_eq!(world.asked(1), "mg a\r\n");
    world.answer(1, "HD W X\r\n");
    assert_eq!(world.asked(0), "mg a\r\n");
    world.answer(0, "HD Z X\r\n");
    assert_eq!(world.replied(client), "HD Z X\r\n");
    // One that does not have it has nothing to give.
    world.send(client, "mg a\r\n");
    assert_eq!(world.asked(0), "mg a\r\n");
    world.answer(0, "EN\r\n").write_servers();
    world.answer(1, "HD W X\r\n");
    assert_eq!(world.replied(client), "HD W X\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}
