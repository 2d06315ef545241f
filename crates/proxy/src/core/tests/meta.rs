//! Meta commands before several servers: to a client they are one.

use super::*;

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

#[test]
fn who_has_won_is_decided_by_the_first_server_alone() {
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

#[test]
fn a_set_at_fault_costs_nobody_a_connection() {
    let mut world = World::new(1, settings());
    let client = world.client();
    world.send(client, "ms a 3 Tx\r\nabc\r\nms b 1 !\r\nx\r\nms c 101\r\n");
    world.send(client, "y".repeat(103)).send(client, "mn\r\n");
    assert_eq!(world.asked(0), "ms b 1 !\r\nx\r\ndelete c\r\n");
    world.answer(0, "CLIENT_ERROR invalid flag\r\nNOT_FOUND\r\n");
    let bad = "CLIENT_ERROR bad token in command line format\r\n";
    let large = "SERVER_ERROR object too large for cache\r\n";
    assert_eq!(world.replied(client), format!("{bad}CLIENT_ERROR invalid flag\r\n{large}MN\r\n"));
}

#[test]
fn a_key_in_base64_is_kept_where_its_name_is() {
    let members: Vec<_> = (0..3).map(|place| Member { name: format!("m{place}"), weight: 1 }).collect();
    let placement = Placement::new(Distribution::Modulo, KeyHash::Md5, None, &members).unwrap();
    let spec = PoolSpec { placement: Some(placement), copies: 1, ..PoolSpec::of("main", vec![0, 1, 2]) };
    let servers = (0..3).map(|server| format!("server-{server}:1")).collect();
    let mut world = World::before(Topology { servers, pools: vec![spec], routes: Vec::new() }, settings());
    let client = world.client();
    for (name, key) in [("foo", "Zm9v"), ("a", "YQ=="), ("bar", "YmFy"), ("k", "aw=="), ("f", "Zg==")] {
        world.send(client, format!("get {name}\r\nmg {key} b\r\n"));
        let server = (0..3).find(|&server| !world.core.server_output(server).is_empty()).unwrap();
        assert_eq!(world.asked(server), format!("get {name}\r\nmg {key} b\r\n"));
        world.answer(server, "END\r\nEN\r\n");
        assert_eq!(world.replied(client), "END\r\nEN\r\n");
    }
}

#[test]
fn an_answer_of_another_kind_closes_the_connection_and_reaches_nobody() {
    let mut world = World::new(1, settings());
    let client = world.client();
    world.send(client, "mg a\r\nmg b v\r\n");
    world.write_servers();
    let said = world.core.server_bytes(0, b"VA 6\r\nsecret\r\n", world.now);
    assert!(said.unwrap_err().starts_with("a value that was not asked for"));
    world.core.server_lost(0, "out of step", Outcome::ServerLost, world.now);
    assert_eq!(world.replied(client), "SERVER_ERROR server-0:1: out of step\r\n".repeat(2));
}
