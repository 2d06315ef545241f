//! Another configuration while requests are under way: what was accepted is carried out as it was accepted.

use super::*;

/// Before two servers that both hold everything.
fn copied(writes: Writes, settings: Settings) -> World {
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
    world.core.reconfigure(Settings { limits, workers, ..settings() }, topology, world.now);
}

const VALUE: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

#[test]
fn a_request_in_the_queue_is_carried_out_under_a_lower_limit_too() {
    let one = Workers::Limited(1);
    let mut world = copied(Writes::All, Settings { workers: one, ..settings() });
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

/// STORED was said, and the copy was never sent: what was kept of the request was too long for the new limit.
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
    let mut world = copied(Writes::All, Settings { workers: one, queue: 1, ..settings() });
    let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    let half = clients[2];
    world.send(half, format!("set a 0 0 36\r\n{}", &VALUE[..20]));
    let needs = world.core.client_needs(half);
    world.send(clients[0], "get b\r\n").send(clients[1], "get c\r\n");
    world.send(half, &VALUE[20..30]);
    assert!(world.core.client_held_back(half));
    assert_eq!(world.core.client_needs(half), needs, "how much is still to come is known all the time");
    lower(&mut world, Writes::All, one);
    world.send(half, format!("{}\r\n", &VALUE[30..]));
    for client in 0..2 {
        world.write_servers();
        let read = usize::from(world.received[0].is_empty());
        world.received[read].clear();
        world.answer(read, "END\r\n");
        assert_eq!(world.replied(clients[client]), "END\r\n");
    }
    for server in 0..2 {
        assert_eq!(world.asked(server), format!("set a 0 0 36\r\n{VALUE}\r\n"));
        world.answer(server, "STORED\r\n");
    }
    assert_eq!(world.replied(half), "STORED\r\n");
}

#[test]
fn a_value_that_has_begun_and_ends_wrong_leaves_its_limit_to_nobody() {
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

/// As long as its line is not whole nobody has agreed to a length.
#[test]
fn a_value_over_the_limit_is_refused_wherever_its_line_is_cut() {
    let request = "set a 0 0 8\r\n12345678\r\n";
    for cut in 0..request.len() {
        let limits = Limits { value: 7, ..Limits::default() };
        let mut world = World::new(1, Settings { limits, ..settings() });
        let client = world.client();
        world.send(client, &request[..cut]).send(client, &request[cut..]);
        assert_eq!(world.asked(0), "delete a\r\n", "cut after {cut} bytes");
    }
}

/// One number of the walk's, below `most`.
fn draw(numbers: &mut impl Iterator<Item = u32>, most: u32) -> u32 {
    numbers.next().unwrap_or(0) % most
}

fn draw_settings(numbers: &mut impl Iterator<Item = u32>) -> Settings {
    let mut draw = |most| draw(numbers, most);
    // No `..`: a setting that is added is drawn, or this does not compile.
    Settings {
        limits: Limits { value: 1 + draw(100) as usize, ..Limits::default() },
        workers: if draw(2) == 0 { Workers::Unlimited } else { Workers::Limited(1 + draw(3)) },
        queue: 1 + draw(4) as usize,
        pipeline: 1 + draw(5),
        reply_buffer: 1 + draw(200) as usize,
        replies: 1 + draw(400) as usize,
        timeout: Nanos::from_secs(1 + u64::from(draw(5))),
        reconnect_after: Nanos::from_millis(1 + u64::from(draw(50))),
        reconnect_at_most: Nanos::from_secs(1 + u64::from(draw(3))),
        eject_after: (draw(2) == 0).then(|| 1 + draw(5)),
        eject_for: Nanos::from_secs(u64::from(draw(10))),
        return_over: Nanos::from_secs(u64::from(draw(10))),
        slow_requests: draw(4) as usize,
        unix: 1_700_000_000,
        refused: if draw(2) == 0 { Vec::new() } else { vec![Dangerous::FlushAll, Dangerous::Verbosity] },
        // These two take a restart.
        server_connections: 1,
        dedicated: false,
    }
}

/// A pool of both servers; what holds a key stays, so that what was stored can be found.
fn draw_pool(numbers: &mut impl Iterator<Item = u32>) -> PoolSpec {
    let mut draw = |most: usize| draw(numbers, most as u32) as usize;
    PoolSpec {
        name: "main".into(),
        servers: vec![0, 1],
        placement: None,
        copies: 2,
        writes: [Writes::All, Writes::Quorum, Writes::First, Writes::Async][draw(4)],
        reads: [
            Reads::LeastWork,
            Reads::LeastOutstanding,
            Reads::TwoChoices,
            Reads::RoundRobin,
            Reads::Primary,
        ][draw(5)],
        multi_get: [MultiGet::Whole, MultiGet::Sharded][draw(2)],
        when_down: [WhenDown::Error, WhenDown::Next][draw(2)],
        gutter: None,
        fall_back_on_error: draw(2) == 0,
        fall_back_on_miss: draw(2) == 0,
        retry_budget: draw(3) as f64 / 2.0,
        refill: (draw(2) == 0).then_some(60),
        warm: None,
        shadow: (draw(3) == 0).then_some(Shadow { pool: 1, share: 1.0 }),
        coalesce: draw(2) == 0,
        rate: (draw(4) == 0).then_some(1e9),
        concurrency: (draw(4) == 0).then_some(1_000),
        ttl_cap: (draw(3) == 0).then_some(3_600),
        hedge: None,
        readers: (draw(3) == 0).then(|| 1 + draw(3) as u32),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A random walk over all settings under load: each request is answered once, what is read is what was stored, and both
    /// servers hold the same in the end.
    #[test]
    fn every_request_is_answered_once_whatever_is_reloaded(
        drawn in prop::collection::vec(any::<u32>(), 400..1_200),
    ) {
        let mut numbers = drawn.into_iter();
        let numbers = &mut numbers;
        let topology = |pool: PoolSpec| Topology {
            servers: (0..3).map(|server| format!("server-{server}:1")).collect(),
            pools: vec![pool, PoolSpec::of("shadow", vec![2])],
            routes: Vec::new(),
        };
        let mut world = World::before(topology(draw_pool(numbers)), draw_settings(numbers));
        let mut stores: Vec<Memory> = (0..3).map(|_| Memory::default()).collect();
        let mut answers = vec![Vec::new(); 3];
        let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
        // What each client's keys hold, and what it waits for: the key, and the value where it is a set.
        let mut known: Vec<HashMap<u32, String>> = vec![HashMap::new(); 3];
        let mut asked: Vec<Vec<(u32, Option<String>)>> = vec![Vec::new(); 3];
        while numbers.len() > 60 {
            match draw(numbers, 6) {
                0 => {
                    let (pool, settings) = (draw_pool(numbers), draw_settings(numbers));
                    world.core.reconfigure(settings, topology(pool), world.now);
                }
                1 | 2 => {
                    let who = draw(numbers, 3) as usize;
                    if asked[who].is_empty() {
                        // Each key once in what is sent together: reads do not wait for writes everywhere.
                        for key in 0..1 + draw(numbers, 4) {
                            let value = (draw(numbers, 2) == 0).then(|| "v".repeat(draw(numbers, 90) as usize));
                            let text = match &value {
                                Some(value) => format!("set {who}:{key} 0 0 {}\r\n{value}\r\n", value.len()),
                                None => format!("get {who}:{key}\r\n"),
                            };
                            let half = draw(numbers, text.len() as u32) as usize;
                            world.send(clients[who], &text[..half]);
                            if draw(numbers, 4) == 0 {
                                let settings = draw_settings(numbers);
                                world.core.reconfigure(settings, topology(draw_pool(numbers)), world.now);
                            }
                            world.send(clients[who], &text[half..]);
                            asked[who].push((key, value));
                        }
                    }
                }
                3 => serve(&mut world, &mut stores, &mut answers, draw(numbers, 3) as usize),
                _ => deliver(&mut world, &mut answers, draw(numbers, 3) as usize),
            }
            check(&mut world, &clients, &mut known, &mut asked)?;
        }
        for _ in 0..200 {
            for server in 0..3 {
                serve(&mut world, &mut stores, &mut answers, server);
                deliver(&mut world, &mut answers, server);
            }
            for &client in &clients {
                world.offer(client);
            }
            check(&mut world, &clients, &mut known, &mut asked)?;
        }
        prop_assert!(asked.iter().all(Vec::is_empty), "not answered: {asked:?}");
        prop_assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
        prop_assert_eq!(&stores[0].values, &stores[1].values);
    }
}

/// The server carries out what it was sent.
fn serve(world: &mut World, stores: &mut [Memory], answers: &mut [Vec<u8>], server: usize) {
    world.write_servers();
    while !world.received[server].is_empty() {
        let (used, answer) = stores[server].answer(&world.received[server]);
        world.received[server].drain(..used);
        answers[server].extend(answer);
    }
}

/// The proxy is told what the server has answered.
fn deliver(world: &mut World, answers: &mut [Vec<u8>], server: usize) {
    let used = world.core.server_bytes(server, &answers[server], world.now).expect("it answers as it should");
    answers[server].drain(..used);
}

/// Takes the replies that are whole: each is the one to the oldest request of its client, and says what was stored.
fn check(
    world: &mut World,
    clients: &[u32],
    known: &mut [HashMap<u32, String>],
    asked: &mut [Vec<(u32, Option<String>)>],
) -> Result<(), TestCaseError> {
    world.write_clients();
    for (who, client) in clients.iter().enumerate() {
        let text = String::from_utf8(std::mem::take(world.replies.get_mut(client).unwrap())).unwrap();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            prop_assert!(!asked[who].is_empty(), "an answer to nothing: {rest:?}");
            let (key, value) = asked[who].remove(0);
            let expected: Vec<String> = match &value {
                Some(_) => {
                    vec!["STORED\r\n".into(), "SERVER_ERROR object too large for cache\r\n".into()]
                }
                None => vec![match known[who].get(&key) {
                    Some(value) => format!("VALUE {who}:{key} 0 {}\r\n{value}\r\nEND\r\n", value.len()),
                    None => "END\r\n".into(),
                }],
            };
            let Some(reply) = expected.iter().find(|reply| rest.starts_with(reply.as_str())) else {
                return Err(TestCaseError::fail(format!("{rest:?} is none of {expected:?}")));
            };
            rest = &rest[reply.len()..];
            match value {
                Some(value) if reply == "STORED\r\n" => _ = known[who].insert(key, value),
                Some(_) => _ = known[who].remove(&key),
                None => {}
            }
        }
    }
    Ok(())
}
