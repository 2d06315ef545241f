//! What a model of the running traffic is given: everything that occupied a server, each time once.

use super::*;
use krarup_record::{LiveVisit, LoopUse};
use krarup_service::ThreadUse;

const SECOND: u64 = 1_000_000_000;

/// One pool of so many servers, each of which has all keys, and a pool of one more, its shadow.
fn world(servers: usize, main: PoolSpec) -> World {
    let main = PoolSpec { shadow: Some(Shadow { pool: 1, share: 1.0 }), ..main };
    let pools = vec![main, PoolSpec::of("shadow", vec![servers])];
    let topology = Topology { servers: names(servers + 1), pools, routes: Vec::new() };
    let mut world = World::before(topology, settings());
    world.core.keep_live();
    world
}

/// Server, whether the request had been replied to already, when it was sent and answered.
fn kept(world: &World) -> Vec<(usize, bool, u64, u64)> {
    let of = |one: &LiveVisit| (one.server(), one.is_late(), one.sent_at().0, one.answered_at().0);
    let live = world.core.live(Stamp(60 * SECOND));
    live.visits.iter().filter(|one| !one.asked_no_server()).map(of).collect()
}

/// What the recorder has counted at a server.
fn counted(world: &mut World, server: usize) -> u64 {
    world.core.settle_books();
    let found = world.core.recorder().servers().find(|(number, _)| *number == server);
    found.map_or(0, |(_, totals)| totals.requests)
}

#[test]
fn parts_and_what_no_request_waits_for_are_kept_and_own_answers_without_a_server() {
    let mut world = world(2, PoolSpec::of("main", vec![0, 1]));
    let client = world.client();
    world.at(SECOND).send(client, "version\r\nset a 0 0 1\r\nx\r\n");
    world.at(SECOND + 10).write_servers();
    world.at(SECOND + 40).answer(0, "STORED\r\n");
    world.at(SECOND + 50).answer(1, "STORED\r\n");
    world.at(SECOND + 60).write_clients();
    world.at(SECOND + 90).answer(2, "STORED\r\n");
    let (sent, at) = (SECOND + 10, |nanos| SECOND + nanos);
    let expected = [(0, false, sent, at(40)), (1, false, sent, at(50)), (2, true, sent, at(90))];
    assert_eq!(kept(&world), expected);
    assert!(world.core.live(Stamp(60 * SECOND)).visits[0].asked_no_server(), "the version is its own answer");
    assert_eq!(
        (counted(&mut world, 1), counted(&mut world, 2)),
        (1, 0),
        "the recorder counts requests' parts"
    );
    let used = ThreadUse { passes: 3, processor: Nanos(5), run_queue: Nanos(7), ..ThreadUse::default() };
    world.core.loop_used(used, Stamp(2 * SECOND));
    let window = world.core.live(Stamp(60 * SECOND)).windows[0];
    assert_eq!((window.requests, window.failures), (2, 0));
    assert_eq!(
        window.used,
        LoopUse { passes: 3, processor: Nanos(5), run_queue: Nanos(7), clients: 1, ..LoopUse::default() }
    );
    assert_eq!(world.core.counted().used(), [window.used]);
}

#[test]
fn an_answer_after_the_reply_is_kept_as_late_and_so_is_what_is_lost() {
    let main = PoolSpec { writes: Writes::First, ..PoolSpec::of("main", vec![0, 1]) };
    let mut world = world(2, main);
    let client = world.client();
    world.at(SECOND).send(client, "set a 0 0 1\r\nx\r\n").write_servers();
    world.at(SECOND + 10).answer(1, "STORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\n");
    world.at(SECOND + 70).answer(0, "STORED\r\n");
    world.at(SECOND + 80);
    world.core.server_lost(2, "gone", ConnectionLoss::Broken, world.now);
    let at = |nanos| SECOND + nanos;
    let expected = [(1, false, at(0), at(10)), (0, true, at(0), at(70)), (2, true, at(0), at(80))];
    assert_eq!(kept(&world), expected);
    assert_eq!(counted(&mut world, 0), 1, "no row shows it, the server's totals do");
}

/// Statistics are asked for ten times a second: they must not carry what is kept for a model.
#[test]
fn a_copy_for_statistics_has_what_loops_used_and_no_visits() {
    let mut world = world(1, PoolSpec::of("main", vec![0]));
    let client = world.client();
    world.at(SECOND).send(client, "get a\r\n").write_servers();
    world.answer(0, "END\r\n").write_clients();
    let used = ThreadUse { passes: 4, processor: Nanos(1), run_queue: Nanos(2), ..ThreadUse::default() };
    world.core.loop_used(used, world.now);
    let (mut sum, other) = (world.core.books(), world.core.books());
    sum.absorb(&other);
    assert_eq!(sum.counted().used().iter().map(|used| used.passes).collect::<Vec<_>>(), [4, 4]);
    assert_eq!((sum.loops(), sum.live(world.now).visits.len()), (2, 0));
    assert_eq!(world.core.live(world.now).visits.len(), 1);
    world.core.reset(world.now);
    assert_eq!(world.core.live(world.now).visits.len(), 1, "`stats reset` is for statistics alone");
}

#[test]
fn rows_of_several_cores_have_no_connection_in_common() {
    let mut world = World::new(2, CoreSettings { server_connections: 2, ..settings() });
    let lanes = world.core.take_new_lanes();
    for &(lane, _) in &lanes {
        world.core.server_connected(lane);
        let greeting = world.core.server_output(lane).len();
        world.core.server_written(lane, greeting, world.now);
        world.core.server_read(lane, b"VERSION 1.6.18\r\n", world.now).unwrap();
    }
    let rows = Rows::default();
    world.core.keep_rows(Box::new(Keep(rows.clone())), 1, 3);
    world.core.keep_live();
    let clients = [world.client(), world.client()];
    for client in clients {
        world.send(client, "set a 0 0 1\r\nx\r\n");
    }
    world.write_servers();
    for (lane, _) in lanes {
        let asked = world.core.server_output(lane).len();
        world.core.server_written(lane, asked, world.now);
        world.core.server_read(lane, b"STORED\r\n", world.now).unwrap();
    }
    world.answer(0, "STORED\r\n").answer(1, "STORED\r\n").write_clients();
    let lanes =
        |servers: &[ServerVisit]| servers.iter().map(|one| (one.server, one.lane)).collect::<Vec<_>>();
    let mut written: Vec<_> = rows.lock().unwrap().iter().map(|(_, servers)| lanes(servers)).collect();
    written.sort_unstable();
    // The first connection is number 0 of each core, those beside it are numbered over all servers.
    assert_eq!(written, [[(0, 1), (1, 1)], [(0, 4), (1, 7)]]);
    let kept = world.core.live(world.now).visits;
    let mut of_loop: Vec<_> = kept.iter().map(|one| (one.server(), one.lane())).collect();
    of_loop.sort_unstable();
    assert_eq!(of_loop, [(0, 0), (0, 1), (1, 0), (1, 2)]);
}
