//! What is long waits for its turn at a connection; what is short does not wait for all of it.

use super::*;
use krarup_service::ConnectionLoss;

const LONG: usize = 1_000_000;

fn world() -> World {
    let limits = Limits { value: 2 << 20, ..Limits::default() };
    World::new(1, CoreSettings { limits, queue: 10_000, ..settings() })
}

fn set(name: usize) -> Vec<u8> {
    [format!("set k{name} 0 0 {LONG}\r\n").as_bytes(), &vec![b'v'; LONG], b"\r\n"].concat()
}

fn value() -> String {
    format!("VALUE k 0 {LONG}\r\n{}\r\nEND\r\n", "v".repeat(LONG))
}

/// How often the server is asked for something, since the last time.
fn asked(world: &mut World, what: &str) -> usize {
    world.asked(0).matches(what).count()
}

#[test]
fn a_short_request_waits_behind_a_few_long_ones_and_all_are_answered() {
    let mut world = world();
    let clients: Vec<_> = (0..30).map(|_| world.client()).collect();
    for (number, &client) in clients.iter().enumerate() {
        world.send(client, set(number));
    }
    let bystander = world.client();
    world.send(bystander, "get small\r\n");
    let first = world.asked(0);
    assert_eq!(first.matches("set k").count(), 4, "the first ones go at once");
    assert!(first.ends_with("get small\r\n"), "what is short goes behind them");
    world.answer(0, "STORED\r\n".repeat(4) + "END\r\n");
    assert_eq!(world.replied(bystander), "END\r\n");
    let mut stored = 4;
    while stored < clients.len() {
        let more = asked(&mut world, "set k");
        assert!((1..=4).contains(&more));
        world.answer(0, "STORED\r\n".repeat(more)).write_clients();
        stored += more;
    }
    for client in clients {
        assert_eq!(world.replied(client), "STORED\r\n");
    }
    assert_eq!(world.core.unfinished(), 0);
}

/// It is not known how long the first reply to a client will be: where there were long ones of
/// late, not all new clients ask at once.
#[test]
fn replies_that_are_likely_to_be_long_come_a_few_at_a_time() {
    let mut world = world();
    let setter = world.client();
    world.send(setter, set(1)).asked(0);
    world.answer(0, "STORED\r\n");
    let clients: Vec<_> = (0..100).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, "get k\r\n".repeat(3));
    }
    let mut most = asked(&mut world, "get k");
    assert!(most <= 5, "{most} at once");
    let mut answered = 0;
    while answered < 300 {
        assert!(most > 0, "{answered} answered, and no client asks");
        for _ in 0..most {
            world.answer(0, value());
        }
        answered += most;
        world.write_clients();
        most = asked(&mut world, "get k");
        assert!(most <= 8, "{most} at once, {answered} answered");
    }
    for client in clients {
        assert_eq!(world.replied(client).len(), 3 * value().len());
    }
    // Once that is known, there are fewer of them.
    let known: Vec<_> = world.replies.keys().copied().filter(|&id| id != setter).collect();
    for &client in &known {
        world.send(client, "get k\r\n");
    }
    assert_eq!(asked(&mut world, "get k"), 4);
}

#[test]
fn a_client_that_is_gone_gives_its_turn_to_the_next() {
    let mut world = world();
    let clients: Vec<_> = (0..20).map(|_| world.client()).collect();
    for (number, &client) in clients.iter().enumerate() {
        world.send(client, set(number));
    }
    assert_eq!(asked(&mut world, "set k"), 4);
    let gone = |world: &mut World, id: u32| {
        world.replies.remove(&id);
        world.core.gone(id, world.now);
    };
    // Some while they wait, and some when their turn has come.
    (4..8).for_each(|place| gone(&mut world, clients[place]));
    world.answer(0, "STORED\r\n".repeat(4));
    (8..19).for_each(|place| gone(&mut world, clients[place]));
    world.write_clients();
    assert_eq!(asked(&mut world, "set k19 "), 1);
    world.answer(0, "STORED\r\n");
    assert_eq!(world.replied(clients[19]), "STORED\r\n");
}

#[test]
fn where_the_server_is_lost_no_client_goes_on_waiting() {
    let mut world = world();
    let clients: Vec<_> = (0..20).map(|_| world.client()).collect();
    for (number, &client) in clients.iter().enumerate() {
        world.send(client, set(number));
    }
    world.asked(0);
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    for &client in &clients {
        assert!(world.replied(client).starts_with("SERVER_ERROR"));
    }
}

/// A client whose replies wait for it cannot take its turn: it does not keep it either.
#[test]
fn a_client_that_does_not_read_gives_its_turn_to_the_next() {
    let mut world = world();
    let clients: Vec<_> = (0..10).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, "get k\r\n");
        assert_eq!(asked(&mut world, "get k"), 1);
        world.answer(0, value());
        assert_eq!(world.replied(client), value());
    }
    let (silent, readers) = clients.split_at(8);
    for &client in silent {
        world.replies.remove(&client);
        world.send(client, "get k\r\n".repeat(5));
    }
    for &client in readers {
        world.send(client, "get k\r\n");
    }
    for round in 0.. {
        let more = asked(&mut world, "get k");
        if more == 0 {
            break;
        }
        assert!(round < 40);
        world.answer(0, value().repeat(more)).write_clients();
    }
    for &client in readers {
        assert_eq!(world.replied(client), value());
    }
}

/// Where all values were short so far, it is not known that the clients that ask now want long
/// ones: not all of them ask at once.
#[test]
fn new_clients_of_a_server_with_short_values_ask_some_at_a_time() {
    let mut world = world();
    let first = world.client();
    for _ in 0..200 {
        world.send(first, "get small\r\n");
        world.asked(0);
        world.answer(0, "VALUE small 0 1\r\nx\r\nEND\r\n").write_clients();
    }
    let clients: Vec<_> = (0..100).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, "get k\r\n");
    }
    assert_eq!(asked(&mut world, "get k"), 16);
    world.send(first, "get small\r\n");
    assert_eq!(asked(&mut world, "get small"), 1, "a client that was given short values is not held up");
    for _ in 0..16 {
        world.answer(0, value());
    }
    world.answer(0, "END\r\n").write_clients();
    let mut left = 100 - 16;
    while left > 0 {
        let more = asked(&mut world, "get k");
        assert!((1..=4).contains(&more), "{more} at once, though they are long");
        for _ in 0..more {
            world.answer(0, value());
        }
        world.write_clients();
        left -= more;
    }
    for client in clients {
        assert_eq!(world.replied(client), value());
    }
}

/// On a busy connection there is always something under way; a value that is longer than what may
/// be there does not wait for ever.
#[test]
fn the_longest_do_not_wait_until_no_client_asks_for_anything() {
    let limits = Limits { value: 16 << 20, ..Limits::default() };
    let mut world = World::new(1, CoreSettings { limits, queue: 10_000, ..settings() });
    let (small, large) = (world.client(), world.client());
    world.send(small, "get a\r\n");
    let long = vec![b'v'; 8 << 20];
    world.send(large, [format!("set k 0 0 {}\r\n", long.len()).as_bytes(), &long, b"\r\n"].concat());
    world.send(small, "get b\r\n");
    let first = world.asked(0);
    assert_eq!((first.matches("set k").count(), first.matches("get ").count()), (1, 2));
    world.answer(0, "END\r\nSTORED\r\nEND\r\n");
    assert_eq!(world.replied(large), "STORED\r\n");
}

/// What is short waits behind as much as the server answers in ten milliseconds, and behind one
/// long value on its way at least.
#[test]
fn behind_a_slow_server_fewer_long_ones_are_under_way_and_more_again_once_it_is_quick() {
    let mut world = world();
    let clients: Vec<_> = (0..60).map(|_| world.client()).collect();
    // All ask, and the server takes so long for each: how many were under way at once in the end,
    // and at most.
    let round = |world: &mut World, each: Nanos| {
        for (number, &client) in clients.iter().enumerate() {
            world.send(client, set(number));
        }
        let (mut left, mut most, mut last) = (clients.len(), 0, 0);
        while left > 0 {
            let more = asked(world, "set k");
            assert!(more > 0, "{left} are left, and none is asked");
            for _ in 0..more {
                world.now = world.now + each;
                world.answer(0, "STORED\r\n");
            }
            world.write_clients();
            (left, most) = (left - more, most.max(more));
            last = if left > 0 { more } else { last };
        }
        (last, most)
    };
    assert_eq!(round(&mut world, Nanos::from_millis(9)), (2, 4));
    assert_eq!(round(&mut world, Nanos::from_millis(1)), (4, 4));
    assert_eq!(round(&mut world, Nanos::from_millis(9)), (2, 4));
}

/// A client whose first reply has shown that it is given long ones waits among those from then on,
/// wherever it had waited.
#[test]
fn pipelines_of_new_clients_are_asked_a_few_at_a_time_from_beginning_to_end() {
    let mut world = world();
    let clients: Vec<_> = (0..100).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, "get k\r\n".repeat(6));
    }
    let (mut left, mut more) = (600, asked(&mut world, "get k"));
    assert_eq!(more, 16, "it is not known that they are long");
    while left > 0 {
        for _ in 0..more {
            world.answer(0, value());
        }
        left -= more;
        world.write_clients();
        more = asked(&mut world, "get k");
        assert!(more <= 9, "{more} at once, {left} left");
        assert!(left == 0 || more > 0, "{left} are left, and none is asked");
    }
}
