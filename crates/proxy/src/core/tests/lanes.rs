//! Several connections to a server: each client keeps to one, and what is owed by any of them is
//! the server's.

use super::*;
use krarup_service::ConnectionLoss;

/// The first connection to the only server, and its lanes.
struct Lanes {
    world: World,
    lanes: Vec<usize>,
}

fn world(server_connections: u32, dedicated: bool) -> Lanes {
    with_lanes(World::new(1, CoreSettings { server_connections, dedicated, ..settings() }))
}

fn with_lanes(mut world: World) -> Lanes {
    let lanes = world.core.take_new_lanes().into_iter().map(|(lane, server)| {
        assert_eq!(server, 0);
        lane
    });
    let lanes: Vec<_> = lanes.collect();
    lanes.iter().for_each(|&lane| bring_up(&mut world, lane));
    Lanes { world, lanes }
}

fn bring_up(world: &mut World, lane: usize) {
    world.core.server_connected(lane);
    assert_eq!(sent(world, lane), "version\r\n");
    assert_eq!(world.core.server_read(lane, b"VERSION 1.6.18\r\n", world.now), Ok(16));
}

fn sent(world: &mut World, lane: usize) -> String {
    let output = world.core.server_output(lane).unsent().to_vec();
    world.core.server_written(lane, output.len(), world.now);
    String::from_utf8(output).unwrap()
}

#[test]
fn clients_share_the_connections_in_turn() {
    let Lanes { mut world, lanes } = world(3, false);
    assert_eq!(lanes.len(), 2);
    let clients: Vec<_> = (0..4).map(|_| world.client()).collect();
    for (number, &client) in clients.iter().enumerate() {
        world.send(client, format!("get k{number}\r\nset k{number} 0 0 1\r\nx\r\n"));
    }
    let both = |number: usize| format!("get k{number}\r\nset k{number} 0 0 1\r\nx\r\n");
    assert_eq!(world.asked(0), both(0) + &both(3));
    assert_eq!((sent(&mut world, lanes[0]), sent(&mut world, lanes[1])), (both(1), both(2)));
    assert_eq!(
        world.core.upstreams.outstanding(crate::ids::ServerId::new(0)),
        8,
        "what lanes owe the server owes"
    );
    // One that is lost takes only its own clients' requests along.
    world.core.server_lost(lanes[1], "gone", ConnectionLoss::Broken, world.now);
    assert_eq!(world.replied(clients[2]), "SERVER_ERROR server-0:1: gone\r\n".repeat(2));
    world.core.server_read(lanes[0], b"END\r\nSTORED\r\n", world.now).unwrap();
    assert_eq!(world.replied(clients[1]), "END\r\nSTORED\r\n");
    // Until it is back they go by the first.
    world.asked(0);
    world.send(clients[2], "get z\r\n");
    assert_eq!(world.asked(0), "get z\r\n");
    world.answer(0, "END\r\nSTORED\r\nEND\r\nSTORED\r\nEND\r\n");
    for client in clients {
        world.replied(client);
    }
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    assert_eq!(world.core.upstreams.outstanding(crate::ids::ServerId::new(0)), 0);
    let (visit, servers) = world.row(1);
    assert_eq!((visit.outcome, servers[0].server), (Outcome::ServerLost, 0));
}

#[test]
fn a_lane_that_is_back_overtakes_nothing_and_its_loss_is_not_the_servers() {
    let Lanes { mut world, lanes } = world(2, false);
    let [first, second] = [world.client(), world.client()];
    world.send(first, "get a\r\n").write_servers().answer(0, "END\r\n");
    world.core.server_lost(lanes[0], "gone", ConnectionLoss::Broken, world.now);
    assert_eq!(world.core.upstreams.servers()[0].answered_since_up(), 1);
    world.asked(0);
    world.send(second, "set a 0 0 1\r\nx\r\n");
    bring_up(&mut world, lanes[0]);
    world.send(second, "get a\r\n");
    assert_eq!(world.asked(0), "set a 0 0 1\r\nx\r\nget a\r\n");
    world.answer(0, "STORED\r\n").send(second, "get b\r\n");
    assert_eq!(world.asked(0), "get b\r\n", "one is still to be answered");
    world.answer(0, "END\r\nEND\r\n").send(second, "get c\r\n");
    assert_eq!((sent(&mut world, lanes[0]), world.asked(0)), ("get c\r\n".into(), String::new()));
    world.core.server_read(lanes[0], b"END\r\n", world.now).unwrap();
    assert_eq!(world.replied(first), "END\r\n");
    assert_eq!(world.replied(second), "STORED\r\nEND\r\nEND\r\nEND\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

#[test]
fn the_copy_of_a_conditional_write_comes_after_copies_of_earlier_writes() {
    let pools = vec![PoolSpec { writes: Writes::Async, ..PoolSpec::of("main", vec![0, 1]) }];
    let servers = vec!["server-0:1".into(), "server-1:1".into()];
    let settings = CoreSettings { server_connections: 2, ..settings() };
    let mut world = World::before(Topology { servers, pools, routes: Vec::new() }, settings);
    let lanes = world.core.take_new_lanes();
    lanes.iter().for_each(|&(lane, _)| bring_up(&mut world, lane));
    let (lane, _) = *lanes.iter().find(|&&(_, server)| server == 0).unwrap();
    let [_, client] = [world.client(), world.client()];
    for (write, copy) in
        [("set a 0 0 1\r\nx\r\n", "set a 0 0 1\r\nx\r\n"), ("cas a 0 0 1 7\r\ny\r\n", "set a 0 0 1\r\ny\r\n")]
    {
        world.send(client, write);
        assert_eq!((sent(&mut world, lane), world.asked(0)), (write.into(), String::new()));
        world.core.server_read(lane, b"STORED\r\n", world.now).unwrap();
        assert_eq!(world.asked(1), copy, "by the first connection, whichever is the client's");
    }
    world.answer(1, "STORED\r\nSTORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\nSTORED\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
}

/// The first holder answers nothing that a write behind the decision could wait for.
#[test]
fn a_write_goes_to_the_others_at_once_while_a_lane_decides_whose_server_is_down() {
    let settings = CoreSettings { server_connections: 2, ..settings() };
    let mut world = World::before(Topology::replicated(names(2), MultiGet::Whole), settings);
    let lanes = world.core.take_new_lanes();
    lanes.iter().for_each(|&(lane, _)| bring_up(&mut world, lane));
    let (lane, _) = *lanes.iter().find(|&&(_, server)| server == 0).unwrap();
    let [client, deciding] = [world.client(), world.client()];
    world.send(deciding, "cas a 0 0 1 7\r\ny\r\n");
    assert_eq!(sent(&mut world, lane), "cas a 0 0 1 7\r\ny\r\n");
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    world.send(client, "delete a\r\n");
    assert_eq!(world.asked(1), "delete a\r\n");
    world.answer(1, "DELETED\r\n");
    assert_eq!(world.replied(client), "SERVER_ERROR server-0:1 is down\r\n");
    world.core.server_lost(lane, "gone", ConnectionLoss::Broken, world.now);
    assert_eq!(world.replied(deciding), "SERVER_ERROR server-0:1: gone\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    assert!(world.core.deciding.is_empty());
}

/// Two connections to a server, and gets that share answers.
fn coalescing() -> Lanes {
    let pools = vec![PoolSpec { coalesce: true, ..PoolSpec::of("main", vec![0]) }];
    let topology = Topology { servers: names(1), pools, routes: Vec::new() };
    with_lanes(World::before(topology, CoreSettings { server_connections: 2, ..settings() }))
}

/// A get by another connection is carried out before a write that was sent before it.
#[test]
fn a_get_after_a_write_that_has_ended_does_not_share_an_older_answer() {
    let Lanes { mut world, lanes } = coalescing();
    let (writer, reader) = (world.client(), world.client());
    for (write, done, get, old, new) in [
        ("set a 0 0 1\r\ny\r\n", "STORED\r\n", "get a\r\n", "END\r\n", "VALUE a 0 1\r\ny\r\nEND\r\n"),
        ("md a\r\n", "HD\r\n", "mg a v\r\n", "VA 1\r\ny\r\n", "EN\r\n"),
        ("flush_all\r\n", "OK\r\n", "get a\r\n", "VALUE a 0 1\r\ny\r\nEND\r\n", "END\r\n"),
    ] {
        world.send(writer, write).send(reader, get);
        assert_eq!((world.asked(0), sent(&mut world, lanes[0])), (write.into(), get.into()));
        world.answer(0, done);
        assert_eq!(world.replied(writer), done);
        world.send(writer, get);
        assert_eq!(world.asked(0), get, "it is behind {write:?}");
        world.core.server_read(lanes[0], old.as_bytes(), world.now).unwrap();
        world.answer(0, new);
        assert_eq!((world.replied(reader), world.replied(writer)), (old.into(), new.into()));
    }
    assert_eq!(world.core.pools()[0].counts().coalesced, 0);
    assert!(!world.core.pools()[0].has_leaders());
}

/// The client that had written was told what was there before.
#[test]
fn a_get_behind_a_write_of_its_own_client_shares_no_answer_of_another_connection() {
    let Lanes { mut world, lanes } = coalescing();
    let (writer, reader) = (world.client(), world.client());
    let (value, gone) = ("VALUE a 0 1\r\ny\r\nEND\r\n", "END\r\n");
    for (write, asked, done, get, old, new) in [
        ("set a 0 0 1 noreply\r\ny\r\n", "set a 0 0 1\r\ny\r\n", "STORED\r\n", "get a\r\n", gone, value),
        ("touch a -1 noreply\r\n", "touch a -1\r\n", "TOUCHED\r\n", "get a\r\n", value, gone),
        ("md a q\r\n", "md a\r\n", "HD\r\n", "mg a v\r\n", "VA 1\r\ny\r\n", "EN\r\n"),
        ("mg a N30\r\n", "mg a N30\r\n", "HD W\r\n", "mg a v\r\n", "EN\r\n", "VA 0 Z\r\n\r\n"),
        ("flush_all noreply\r\n", "flush_all\r\n", "OK\r\n", "get a\r\n", value, gone),
    ] {
        world.send(writer, write).send(reader, get).send(writer, get);
        let sent = (world.asked(0), sent(&mut world, lanes[0]));
        assert_eq!(sent, (format!("{asked}{get}"), get.into()), "{write:?}");
        world.core.server_read(lanes[0], old.as_bytes(), world.now).unwrap();
        world.answer(0, format!("{done}{new}"));
        // Others want no answer.
        let done = if write == asked { done } else { "" };
        let replies = (world.replied(reader), world.replied(writer));
        assert_eq!(replies, (old.into(), format!("{done}{new}")), "{write:?}");
    }
    assert_eq!(world.core.pools()[0].counts().coalesced, 0);
    // What it has written of another key does not matter.
    world.send(writer, "set b 0 0 1\r\ny\r\n").send(reader, "get a\r\n").send(writer, "get a\r\n");
    assert_eq!(world.asked(0), "set b 0 0 1\r\ny\r\n");
    assert_eq!(sent(&mut world, lanes[0]), "get a\r\n");
    world.core.server_read(lanes[0], gone.as_bytes(), world.now).unwrap();
    world.answer(0, "STORED\r\n");
    assert_eq!((world.replied(reader), world.replied(writer)), (gone.into(), format!("STORED\r\n{gone}")));
    assert_eq!(world.core.pools()[0].counts().coalesced, 1);
    assert!(!world.core.pools()[0].has_leaders());
}

#[test]
fn a_client_of_its_own_connection_waits_for_no_other() {
    let Lanes { mut world, lanes } = world(1, true);
    assert!(lanes.is_empty());
    let (one, other) = (world.client(), world.client());
    world.send(one, "get a\r\n").send(other, "get b\r\n").send(one, "get c\r\n");
    let lanes: Vec<_> = world.core.take_new_lanes().into_iter().map(|(lane, _)| lane).collect();
    assert_eq!(lanes.len(), 2);
    assert_eq!(world.asked(0), "", "the first connection only tells that it is up");
    world.core.server_connected(lanes[0]);
    world.core.server_connected(lanes[1]);
    assert_eq!(sent(&mut world, lanes[0]), "version\r\nget a\r\nget c\r\n");
    assert_eq!(sent(&mut world, lanes[1]), "version\r\nget b\r\n");
    world.core.server_read(lanes[1], b"VERSION 1\r\nEND\r\n", world.now).unwrap();
    assert_eq!(world.replied(other), "END\r\n");
    // Who has gone takes its connection along, once it owes nothing.
    world.core.gone(one, world.now);
    world.replies.remove(&one);
    assert!(!world.core.server_is_wanted(lanes[0]) && !world.core.server_can_go(lanes[0]));
    world.core.server_read(lanes[0], b"VERSION 1\r\nEND\r\nEND\r\n", world.now).unwrap();
    assert!(world.core.server_can_go(lanes[0]));
    world.core.server_closed(lanes[0]);
    // One that is lost is made again when it is needed, and its number serves again.
    world.core.server_lost(lanes[1], "gone", ConnectionLoss::Broken, world.now);
    assert!(world.core.server_can_go(lanes[1]) && !world.core.server_is_wanted(lanes[1]));
    world.send(other, "get d\r\n");
    assert_eq!(world.core.take_new_lanes(), [(lanes[0], 0)]);
    assert!(world.core.server_is_wanted(lanes[0]));
    world.core.server_connected(lanes[0]);
    assert_eq!(sent(&mut world, lanes[0]), "version\r\nget d\r\n");
    world.core.server_read(lanes[0], b"VERSION 1\r\nEND\r\n", world.now).unwrap();
    assert_eq!(world.replied(other), "END\r\n");
    assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    assert_eq!(world.core.upstreams.outstanding(crate::ids::ServerId::new(0)), 0);
}
