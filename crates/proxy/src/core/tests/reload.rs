//! Another configuration while requests are under way: what was accepted is carried out as it was
//! accepted.

use krarup_service::Service as _;

use super::*;

/// Before two servers that both hold everything.
fn copied(writes: Writes, settings: CoreSettings) -> World {
    let servers = vec!["server-0:1".into(), "server-1:1".into()];
    let pools = vec![PoolSpec { writes, ..PoolSpec::of("main", vec![0, 1]) }];
    World::before(Topology { servers, pools, routes: Vec::new() }, settings)
}

/// The same servers and pools, and no value of more than ten bytes any more.
fn lower(world: &mut World, writes: Writes, workers: Workers) {
    let limits = Limits { value: 10, ..Limits::default() };
    let pools = vec![PoolSpec { writes, ..PoolSpec::of("main", vec![0, 1]) }];
    let topology =
        Topology { servers: vec!["server-0:1".into(), "server-1:1".into()], pools, routes: Vec::new() };
    world.core.reconfigure(CoreSettings { limits, workers, ..settings() }, topology, world.now);
}

const VALUE: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

#[test]
fn a_request_in_the_queue_is_carried_out_under_a_lower_limit_too() {
    let one = Workers::Limited(1);
    let mut world = copied(Writes::All, CoreSettings { workers: one, ..settings() });
    let (first, second) = (world.client(), world.client());
    world.send(first, "get a\r\n").send(second, format!("set b 0 0 36\r\n{VALUE}\r\n"));
    lower(&mut world, Writes::All, one);
    world.write_servers();
    let read = usize::from(world.received[0].is_empty());
    world.received[read].clear();
    world.answer(read, "END\r\n");
    assert_eq!(world.replied(first), "END\r\n");
    for server in 0..2 {
        assert_eq!(world.asked(server), format!("set b 0 0 36\r\n{VALUE}\r\n"));
        world.answer(server, "STORED\r\n");
    }
    assert_eq!(world.replied(second), "STORED\r\n");
    world.send(second, format!("set b 0 0 36\r\n{VALUE}\r\n"));
    assert!(world.asked(0).starts_with("delete b"), "from now on the lower limit holds");
}

#[test]
fn workers_are_set_while_it_runs_where_their_number_is_automatic_and_only_there() {
    let fixed = CoreSettings { workers: Workers::Limited(1), ..settings() };
    let automatic = CoreSettings { automatic: true, ..fixed.clone() };
    let mut world = copied(Writes::All, automatic.clone());
    let clients: Vec<_> = (0..4).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, "get a\r\n");
    }
    assert_eq!((world.core.dispatch().busy(), world.core.dispatch().waiting()), (1, 3));
    world.core.set_workers(3, world.now);
    assert_eq!((world.core.dispatch().busy(), world.core.dispatch().waiting()), (3, 1));
    // Fewer than are at work: these finish, and the one that waits is taken after them.
    world.core.set_workers(2, world.now);
    assert_eq!((world.core.dispatch().busy(), world.core.dispatch().waiting()), (3, 1));
    let pools = || Topology {
        servers: vec!["server-0:1".into(), "server-1:1".into()],
        pools: vec![PoolSpec::of("main", vec![0, 1])],
        routes: Vec::new(),
    };
    world.core.reconfigure(automatic, pools(), world.now);
    assert_eq!(world.core.settings().workers, Workers::Limited(2), "what was found out is kept");
    world.core.reconfigure(fixed, pools(), world.now);
    world.core.set_workers(9, world.now);
    assert_eq!(world.core.settings().workers, Workers::Limited(1));
}

/// STORED was said, and the copy was never sent: what was kept of the request was too long for the
/// new limit.
#[test]
fn copies_behind_a_write_are_sent_under_a_lower_limit_too() {
    for (writes, asked, answer, copy) in [
        (Writes::All, "cas k 0 0 36 7", "STORED", "set k 0 0 36"),
        (Writes::Async, "set k 0 0 36", "STORED", "set k 0 0 36"),
        (Writes::All, "ms k 36 C7", "HD", "ms k 36"),
    ] {
        let mut world = copied(writes, settings());
        let client = world.client();
        world.send(client, format!("{asked}\r\n{VALUE}\r\n"));
        assert_eq!(world.asked(0), format!("{asked}\r\n{VALUE}\r\n"));
        assert_eq!(world.asked(1), "");
        lower(&mut world, writes, Workers::Unlimited);
        world.answer(0, format!("{answer}\r\n"));
        let told = world.asked(1);
        assert!(told.starts_with(copy) && told.ends_with(&format!("{VALUE}\r\n")), "{asked}: {told}");
        world.answer(1, format!("{answer}\r\n"));
        assert_eq!(world.replied(client), format!("{answer}\r\n"));
        assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
    }
}

#[test]
fn a_value_that_has_begun_is_taken_under_a_lower_limit_too() {
    let mut world = copied(Writes::All, settings());
    let client = world.client();
    world.send(client, format!("set a 0 0 36\r\n{}", &VALUE[..20]));
    lower(&mut world, Writes::All, Workers::Unlimited);
    // The next one is not.
    world.send(client, format!("{}\r\nset b 0 0 36\r\n{VALUE}\r\n", &VALUE[20..]));
    for server in 0..2 {
        assert_eq!(world.asked(server), format!("set a 0 0 36\r\n{VALUE}\r\ndelete b\r\n"));
        world.answer(server, "STORED\r\nNOT_FOUND\r\n");
    }
    assert_eq!(world.replied(client), "STORED\r\nSERVER_ERROR object too large for cache\r\n");
}

/// It was held back in the meantime: more of it came, and was not looked at.
#[test]
fn a_value_that_has_begun_and_was_held_back_is_taken_under_a_lower_limit_too() {
    let one = Workers::Limited(1);
    let mut world = copied(Writes::All, CoreSettings { workers: one, queue: 1, ..settings() });
    let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    let half = clients[2];
    world.send(half, format!("set a 0 0 36\r\n{}", &VALUE[..20]));
    let needs = world.core.needed(half);
    world.send(clients[0], "get b\r\n").send(clients[1], "get c\r\n");
    world.send(half, &VALUE[20..30]);
    assert!(world.core.paused(half));
    assert_eq!(world.core.needed(half), needs, "how much is still to come is known all the time");
    lower(&mut world, Writes::All, one);
    world.send(half, format!("{}\r\n", &VALUE[30..]));
    for &client in &clients[..2] {
        world.write_servers();
        let read = usize::from(world.received[0].is_empty());
        world.received[read].clear();
        world.answer(read, "END\r\n");
        assert_eq!(world.replied(client), "END\r\n");
    }
    for server in 0..2 {
        assert_eq!(world.asked(server), format!("set a 0 0 36\r\n{VALUE}\r\n"));
        world.answer(server, "STORED\r\n");
    }
    assert_eq!(world.replied(half), "STORED\r\n");
}

#[test]
fn a_value_that_has_begun_and_ends_wrong_leaves_its_limit_to_no_other() {
    let mut world = copied(Writes::All, settings());
    let client = world.client();
    world.send(client, format!("set a 0 0 36\r\n{}", &VALUE[..20]));
    lower(&mut world, Writes::All, Workers::Unlimited);
    world.send(client, format!("{}..set b 0 0 36\r\n{VALUE}\r\n", &VALUE[20..]));
    for server in 0..2 {
        assert_eq!(world.asked(server), "delete b\r\n");
        world.answer(server, "NOT_FOUND\r\n");
    }
    let replies = "CLIENT_ERROR bad data chunk\r\nSERVER_ERROR object too large for cache\r\n";
    assert_eq!(world.replied(client), replies);
}

/// As long as its line is not whole no length has been accepted.
#[test]
fn a_value_over_the_limit_is_refused_wherever_its_line_is_cut() {
    let request = "set a 0 0 8\r\n12345678\r\n";
    for cut in 0..request.len() {
        let limits = Limits { value: 7, ..Limits::default() };
        let mut world = World::new(1, CoreSettings { limits, ..settings() });
        let client = world.client();
        world.send(client, &request[..cut]).send(client, &request[cut..]);
        assert_eq!(world.asked(0), "delete a\r\n", "cut after {cut} bytes");
    }
}

/// The pool is retired in between under both names.
#[test]
fn readers_are_told_once_after_their_pool_has_had_another_name() {
    let topology = |name: &str| Topology {
        servers: vec!["server-0:1".into(), "server-1:1".into()],
        pools: vec![PoolSpec { readers: Some(1), ..PoolSpec::of(name, vec![0]) }],
        routes: Vec::new(),
    };
    let mut world = World::before(topology("main"), settings());
    for name in ["other", "main"] {
        world.core.reconfigure(settings(), topology(name), world.now);
    }
    let (client, observer) = (world.client(), world.client());
    world.send(client, "get a\r\n");
    assert_eq!(world.asked(0), "get a\r\n");
    world.send(observer, "stats servers\r\n");
    let told = world.replied(observer);
    let busy: Vec<&str> = told.lines().filter(|line| line.contains(":readers_busy ")).collect();
    assert_eq!(busy, ["STAT 0:readers_busy 1"], "{told}");
}

/// They were forgotten, and the answer that came then freed one too many.
#[test]
fn a_server_that_is_back_in_its_pool_has_those_readers_at_work_that_it_had() {
    let topology = |server| Topology {
        servers: vec!["server-0:1".into(), "server-1:1".into()],
        pools: vec![PoolSpec { readers: Some(1), ..PoolSpec::of("main", vec![server]) }],
        routes: Vec::new(),
    };
    let mut world = World::before(topology(0), settings());
    let client = world.client();
    for returns in [true, false] {
        world.send(client, "get a\r\n");
        assert_eq!(world.asked(0), "get a\r\n");
        world.core.reconfigure(settings(), topology(1), world.now);
        if returns {
            world.core.reconfigure(settings(), topology(0), world.now);
            world.send(client, "get b\r\n");
            assert_eq!(world.asked(0), "", "its reader is busy");
        }
        world.answer(0, "END\r\n");
        if returns {
            assert_eq!(world.asked(0), "get b\r\n");
            world.answer(0, "END\r\n");
        }
        assert!(world.replied(client).starts_with("END\r\n"));
        world.core.reconfigure(settings(), topology(0), world.now);
    }
    world.send(client, "get c\r\n");
    assert_eq!(world.asked(0), "get c\r\n", "nothing is left of those that are done");
}
