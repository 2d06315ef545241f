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
    let mut world = World::new(1, CoreSettings { server_connections, dedicated, ..settings() });
    let lanes = world.core.take_new_lanes().into_iter().map(|(lane, server)| {
        assert_eq!(server, 0);
        lane
    });
    let lanes: Vec<_> = lanes.collect();
    for &lane in &lanes {
        world.core.server_connected(lane);
        assert_eq!(sent(&mut world, lane), "version\r\n");
        assert_eq!(world.core.server_read(lane, b"VERSION 1.6.18\r\n", world.now), Ok(16));
    }
    Lanes { world, lanes }
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
