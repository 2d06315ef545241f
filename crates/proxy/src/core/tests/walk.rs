//! A random walk over configurations while requests are under way: first over settings, before
//! servers that hold the same all the time, so that every answer is known; then over everything
//! else too, with servers and clients that come and go, where it is known of an answer that it
//! comes once, and what it may say.

use std::collections::{HashSet, VecDeque};

use krarup_service::{ConnectionLoss, Service as _, Upstreams as _};

use super::*;

/// One number of the walk's, below `most`.
fn draw(numbers: &mut impl Iterator<Item = u32>, most: u32) -> u32 {
    numbers.next().unwrap_or(0) % most
}

fn draw_settings(numbers: &mut impl Iterator<Item = u32>) -> CoreSettings {
    let mut draw = |most| draw(numbers, most);
    // No configuration changes what the protocol bounds.
    let Limits { key, value: _, line, retrieval_line } = Limits::default();
    // No `..`: a setting that is added is drawn, or this does not compile.
    CoreSettings {
        limits: Limits { value: 1 + draw(100) as usize, key, line, retrieval_line },
        workers: if draw(2) == 0 { Workers::Unlimited } else { Workers::Limited(1 + draw(3)) },
        automatic: draw(2) == 0,
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
        hot_keys: [HotKeyMode::Off, HotKeyMode::Digest, HotKeyMode::Name][draw(3) as usize],
        unix: 1_700_000_000,
        run_id: 0,
        refused: if draw(2) == 0 { Vec::new() } else { vec![Dangerous::FlushAll, Dangerous::Verbosity] },
        // These two take a restart.
        server_connections: 1,
        dedicated: false,
    }
}

/// A pool; who holds a key, and who else is asked, is that of `of`. Where it `refuses`, there may
/// be more requests than it takes.
fn draw_pool(numbers: &mut impl Iterator<Item = u32>, of: PoolSpec, refuses: bool) -> PoolSpec {
    let mut draw = |most: usize| draw(numbers, most as u32) as usize;
    // No `..` here either.
    PoolSpec {
        name: of.name,
        servers: of.servers,
        listens: of.listens,
        successor_of: of.successor_of,
        placement: of.placement,
        copies: of.copies,
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
        gutter: of.gutter,
        fall_back_on_error: draw(2) == 0,
        fall_back_on_miss: draw(2) == 0,
        retry_budget: draw(3) as f64 / 2.0,
        refill: (draw(2) == 0).then_some(60),
        warm: of.warm,
        shadow: of.shadow,
        coalesce: draw(2) == 0,
        rate: (draw(4) == 0).then(|| if refuses && draw(2) == 0 { 50.0 } else { 1e9 }),
        concurrency: (draw(4) == 0).then(|| if refuses && draw(2) == 0 { 2 } else { 1_000 }),
        loops: 1,
        ttl_cap: (draw(3) == 0).then_some(3_600),
        eject_slower: (draw(2) == 0).then_some(1.5),
        hedge: (draw(2) == 0).then(|| Hedge { quantile: draw(3) as f64 / 2.0, budget: draw(3) as f64 / 2.0 }),
        readers: (draw(3) == 0).then(|| 1 + draw(3) as u32),
    }
}

/// A pool of both servers; what holds a key stays, so that what was stored can be found.
fn draw_copied(numbers: &mut impl Iterator<Item = u32>) -> PoolSpec {
    let shadow = (draw(numbers, 3) == 0).then_some(Shadow { pool: 1, share: 1.0 });
    draw_pool(numbers, PoolSpec { shadow, ..PoolSpec::of("main", vec![0, 1]) }, false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A random walk over all settings under load: each request is answered once, what is read is
    /// what was stored, and both servers hold the same in the end.
    #[test]
    fn every_request_is_answered_once_whatever_is_reloaded(
        drawn in prop::collection::vec(any::<u32>(), 400..1_200),
    ) {
        let mut numbers = drawn.into_iter();
        let numbers = &mut numbers;
        let topology = |pool: PoolSpec| Topology {
            servers: names(3),
            pools: vec![pool, PoolSpec::of("shadow", vec![2])],
            routes: Vec::new(),
        };
        let mut world = World::before(topology(draw_copied(numbers)), draw_settings(numbers));
        let mut stores: Vec<Memory> = (0..3).map(|_| Memory::default()).collect();
        let mut answers = vec![Vec::new(); 3];
        let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
        // What each client's keys hold, and what it waits for: the key, and the value where it is a
        // set.
        let mut known: Vec<HashMap<u32, String>> = vec![HashMap::new(); 3];
        let mut asked: Vec<Vec<(u32, Option<String>)>> = vec![Vec::new(); 3];
        while numbers.len() > 60 {
            match draw(numbers, 7) {
                0 => {
                    let (pool, settings) = (draw_copied(numbers), draw_settings(numbers));
                    world.core.reconfigure(settings, topology(pool), world.now);
                }
                1 | 2 => {
                    let who = draw(numbers, 3) as usize;
                    if asked[who].is_empty() {
                        // Each key once in what is sent together: reads do not wait for writes
                        // everywhere.
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
                                world.core.reconfigure(settings, topology(draw_copied(numbers)), world.now);
                            }
                            world.send(clients[who], &text[half..]);
                            asked[who].push((key, value));
                        }
                    }
                }
                3 => serve(&mut world, &mut stores, &mut answers, draw(numbers, 3) as usize),
                4 => {
                    world.now = world.now + Nanos::from_micros(u64::from(draw(numbers, 2_000)));
                    world.core.tick(world.now);
                }
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
        prop_assert_eq!(world.core.books.sampling().under_way(), 0);
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
    let used = world.core.server_read(server, &answers[server], world.now).expect("it answers as it should");
    answers[server].drain(..used);
}

/// Takes the replies that are whole: each is the one to the oldest request of its client, and says
/// what was stored.
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

/// What may be a server in the second walk.
const SERVERS: usize = 5;
const POOLS: [&str; 4] = ["main", "spare", "old", "canary"];

/// Some of these, at least one, in any order.
fn draw_some<T>(numbers: &mut impl Iterator<Item = u32>, mut all: Vec<T>) -> Vec<T> {
    let count = 1 + draw(numbers, all.len() as u32) as usize;
    (0..count).map(|_| all.swap_remove(draw(numbers, all.len() as u32) as usize)).collect()
}

/// Some pools with some of the servers each, and routes.
fn draw_topology(numbers: &mut impl Iterator<Item = u32>) -> Topology {
    let names = draw_some(numbers, POOLS.to_vec());
    let mut servers: Vec<String> = Vec::new();
    let mut pools = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let mut own = Vec::new();
        for server in draw_some(numbers, super::names(SERVERS)) {
            own.push(servers.iter().position(|other| *other == server).unwrap_or(servers.len()));
            if own.last() == Some(&servers.len()) {
                servers.push(server);
            }
        }
        let mut other = |one_in| {
            let pool = draw(numbers, names.len() as u32) as usize;
            (pool != number && draw(numbers, one_in) == 0).then_some(pool)
        };
        let gutter = other(2).map(|pool| StandIn { pool, ttl: 10 });
        let warm = other(2).map(|pool| StandIn { pool, ttl: 60 });
        let shadow = other(2).map(|pool| Shadow { pool, share: 0.5 });
        let place = draw(numbers, 1 + KeyDistribution::ALL.len() as u32) as usize;
        let members: Vec<_> =
            own.iter().map(|&server| Member { name: servers[server].clone(), weight: 1 }).collect();
        let placement = KeyDistribution::ALL
            .get(place)
            .map(|&(distribution, _)| Placement::new(distribution, KeyHash::Md5, None, &members).unwrap());
        let copies =
            if placement.is_some() { 1 + draw(numbers, own.len() as u32) as usize } else { own.len() };
        let of = PoolSpec { placement, copies, gutter, warm, shadow, ..PoolSpec::of(name, own) };
        pools.push(draw_pool(numbers, of, true));
    }
    let mut routes = Vec::new();
    for prefix in ["0:", "1:"] {
        if draw(numbers, 2) == 0 {
            let pool = draw(numbers, pools.len() as u32) as usize;
            let add = if draw(numbers, 2) == 0 { Vec::new() } else { format!("r{prefix}").into_bytes() };
            // Without its prefix a key needs another one, or two would be the same.
            let strip = !add.is_empty() && draw(numbers, 2) == 0;
            routes.push(Route { prefix: prefix.into(), pool, strip, add });
        }
    }
    Topology { servers, pools, routes }
}

/// What a client waits for.
#[derive(Debug)]
enum Awaited {
    Values(Vec<String>),
    /// `mg` of this key.
    Meta(String),
    Line,
}

/// A client that sends, and forgets what the others send.
#[derive(Debug)]
struct Speaker {
    client: u32,
    awaits: VecDeque<Awaited>,
}

/// All clients and servers, and what the network holds.
struct Stage {
    world: World,
    stores: Vec<Memory>,
    answers: Vec<Vec<u8>>,
    connected: Vec<bool>,
    speakers: Vec<Speaker>,
    /// Every value that was ever sent for a key.
    sent: HashMap<String, HashSet<String>>,
    versions: usize,
    /// How many answers were values.
    found: usize,
}

impl Stage {
    fn new(topology: Topology, settings: CoreSettings) -> Self {
        let mut world = World::unconnected(topology, settings);
        let speakers = (0..3).map(|_| Speaker { client: world.client(), awaits: VecDeque::new() }).collect();
        let mut stage = Self {
            world,
            stores: Vec::new(),
            answers: Vec::new(),
            connected: Vec::new(),
            speakers,
            sent: HashMap::new(),
            versions: 0,
            found: 0,
        };
        stage.grow();
        (0..stage.connected.len()).for_each(|server| stage.connect(server));
        stage
    }

    /// Servers are only ever added.
    fn grow(&mut self) {
        let count = self.world.core.server_count();
        self.world.received.resize_with(count, Vec::new);
        self.stores.resize_with(count, Memory::default);
        self.answers.resize_with(count, Vec::new);
        self.connected.resize(count, false);
    }

    fn reconfigure(&mut self, settings: CoreSettings, topology: Topology, announce: bool) {
        if announce {
            let coming = self.world.core.announce(topology.servers.clone());
            self.grow();
            coming.into_iter().for_each(|server| self.connect(server));
        }
        self.world.core.reconfigure(settings, topology, self.world.now);
        self.grow();
    }

    /// A connection to a server that is wanted and has none.
    fn connect(&mut self, server: usize) {
        if !self.connected[server] && self.world.core.server_is_wanted(server) {
            self.connected[server] = true;
            self.world.core.server_connected(server);
        }
    }

    fn lose(&mut self, server: usize, loss: ConnectionLoss) {
        self.disconnected(server);
        self.world.core.server_lost(server, "gone", loss, self.world.now);
    }

    fn disconnected(&mut self, server: usize) {
        self.connected[server] = false;
        self.world.received[server].clear();
        self.answers[server].clear();
    }

    fn pass(&mut self, nanos: Nanos) {
        self.world.now = self.world.now + nanos;
        self.world.core.tick(self.world.now);
        for server in 0..self.connected.len() {
            if self.connected[server] && self.world.core.server_overdue(server, self.world.now) {
                self.lose(server, ConnectionLoss::TimedOut);
            }
        }
    }

    /// Servers that are in no pool any more are left.
    fn let_go(&mut self) {
        for server in 0..self.connected.len() {
            let wanted = self.world.core.server_is_wanted(server);
            if self.connected[server] && !wanted && self.world.core.server_can_go(server) {
                self.world.core.server_closed(server);
                self.disconnected(server);
            }
        }
    }

    fn serve(&mut self, server: usize) {
        if self.connected[server] {
            serve(&mut self.world, &mut self.stores, &mut self.answers, server);
        }
    }

    fn deliver(&mut self, server: usize) {
        if self.connected[server] {
            deliver(&mut self.world, &mut self.answers, server);
        }
    }

    /// Another request of one of them, as bytes.
    fn request(&mut self, who: usize, numbers: &mut impl Iterator<Item = u32>) -> String {
        let key = format!("{who}:{}", draw(numbers, 4));
        self.versions += 1;
        let value = format!("{key}={}|{}", self.versions, "v".repeat(draw(numbers, 80) as usize));
        let length = value.len();
        let (text, awaited) = match draw(numbers, 10) {
            0..=2 => (format!("get {key}\r\n"), Awaited::Values(vec![key.clone()])),
            3 => {
                let keys: Vec<_> = (0..3).map(|key| format!("{}:{key}", (who + key) % 3)).collect();
                (format!("get {}\r\n", keys.join(" ")), Awaited::Values(keys))
            }
            4 => (format!("mg {key} v\r\n"), Awaited::Meta(key.clone())),
            5 => (format!("gat 60 {key}\r\n"), Awaited::Values(vec![key.clone()])),
            6 => (format!("delete {key}\r\n"), Awaited::Line),
            7 => (format!("cas {key} 0 0 {length} 7\r\n{value}\r\n"), Awaited::Line),
            8 => (format!("ms {key} {length}\r\n{value}\r\n"), Awaited::Line),
            _ => (format!("set {key} 0 0 {length}\r\n{value}\r\n"), Awaited::Line),
        };
        self.sent.entry(key).or_default().insert(value);
        self.speakers[who].awaits.push_back(awaited);
        text
    }

    /// Takes the replies, each of which must be one that its request can have.
    fn check(&mut self) -> Result<(), TestCaseError> {
        self.let_go();
        self.world.write_clients();
        for who in 0..self.speakers.len() {
            let client = self.speakers[who].client;
            let text = std::mem::take(self.world.replies.get_mut(&client).unwrap());
            let text = String::from_utf8(text).unwrap();
            let mut lines = text.split_terminator("\r\n").peekable();
            while let Some(line) = lines.next() {
                let Some(awaited) = self.speakers[who].awaits.pop_front() else {
                    return Err(TestCaseError::fail(format!("an answer to nothing: {line:?} in {text:?}")));
                };
                let mut is_known = |key: &str, line: Option<&str>| {
                    self.found += 1;
                    line.is_some_and(|value| self.sent.get(key).is_some_and(|all| all.contains(value)))
                };
                let good = match &awaited {
                    _ if line.starts_with("SERVER_ERROR ") => true,
                    Awaited::Line => ["STORED", "DELETED", "NOT_FOUND", "HD", "NF"].contains(&line),
                    Awaited::Meta(_) if line == "EN" => true,
                    Awaited::Meta(key) => line.starts_with("VA ") && is_known(key, lines.next()),
                    Awaited::Values(keys) => {
                        let (mut line, mut keys, mut good) = (line, keys.iter(), true);
                        while good && line != "END" {
                            let key = line.strip_prefix("VALUE ").and_then(|rest| rest.split(' ').next());
                            good = key
                                .is_some_and(|key| keys.any(|one| one == key) && is_known(key, lines.next()));
                            line = lines.next().unwrap_or_default();
                        }
                        good
                    }
                };
                prop_assert!(good, "{text:?} is no answer to {awaited:?}");
            }
        }
        Ok(())
    }

    /// Until nothing moves any more.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..300 {
            for server in 0..self.connected.len() {
                self.connect(server);
                self.serve(server);
                self.deliver(server);
            }
            for who in 0..self.speakers.len() {
                self.world.offer(self.speakers[who].client);
            }
            self.check()?;
        }
        let waiting = self.speakers.iter().find(|speaker| !speaker.awaits.is_empty());
        prop_assert!(waiting.is_none(), "not answered: {waiting:?}");
        prop_assert_eq!((self.world.core.unfinished(), self.world.core.in_flight()), (0, 0));
        prop_assert!(self.world.core.pools().iter().all(|pool| pool.busy() == 0));
        prop_assert_eq!(self.world.core.books.sampling().under_way(), 0);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Servers are added, removed and lost, keys move, other pools stand in and clients leave: each
    /// request is answered once, with a value that was stored under its key or an error, nothing is
    /// left over, and once everything holds everything again, everything is the same.
    #[test]
    fn every_request_is_answered_once_wherever_its_key_goes(
        drawn in prop::collection::vec(any::<u32>(), 1_000..4_000),
    ) {
        let mut numbers = drawn.into_iter();
        let numbers = &mut numbers;
        let mut stage = Stage::new(draw_topology(numbers), draw_settings(numbers));
        while numbers.len() > 400 {
            let servers = stage.connected.len() as u32;
            match draw(numbers, 24) {
                0 => {
                    let announce = draw(numbers, 2) == 0;
                    stage.reconfigure(draw_settings(numbers), draw_topology(numbers), announce);
                }
                1 => stage.lose(draw(numbers, servers) as usize, ConnectionLoss::Broken),
                2 => stage.stores[draw(numbers, servers) as usize].values.clear(),
                3 | 4 => stage.connect(draw(numbers, servers) as usize),
                5 => stage.pass(Nanos::from_millis(u64::from(draw(numbers, 700)))),
                6 => stage.pass(Nanos::from_micros(u64::from(draw(numbers, 700)))),
                7 if draw(numbers, 4) == 0 => {
                    let who = draw(numbers, 3) as usize;
                    let left = stage.speakers[who].client;
                    stage.world.core.gone(left, stage.world.now);
                    stage.world.replies.remove(&left);
                    stage.world.unread.remove(&left);
                    stage.speakers[who] = Speaker { client: stage.world.client(), awaits: VecDeque::new() };
                }
                7..=11 => {
                    let who = draw(numbers, 3) as usize;
                    let client = stage.speakers[who].client;
                    if stage.speakers[who].awaits.len() < 8 {
                        let text = stage.request(who, numbers);
                        let half = draw(numbers, text.len() as u32) as usize;
                        stage.world.send(client, &text[..half]);
                        if draw(numbers, 8) == 0 {
                            stage.reconfigure(draw_settings(numbers), draw_topology(numbers), false);
                        }
                        stage.world.send(client, &text[half..]);
                    }
                }
                12..=16 => stage.serve(draw(numbers, servers) as usize),
                _ => stage.deliver(draw(numbers, servers) as usize),
            }
            stage.check()?;
        }
        stage.settle()?;
        stage.reconfigure(CoreSettings { eject_after: None, ..settings() }, Topology::replicated(names(SERVERS), MultiGet::Whole), true);
        stage.pass(Nanos::from_secs(3_600));
        stage.settle()?;
        for who in 0..3 {
            for key in 0..4 {
                let text = format!("set {who}:{key} 0 0 1\r\n{key}\r\n");
                let client = stage.speakers[who].client;
                stage.world.send(client, text);
                for server in 0..stage.connected.len() {
                    stage.serve(server);
                    stage.deliver(server);
                }
                prop_assert_eq!(stage.world.replied(client), "STORED\r\n");
                for store in stage.stores.iter().zip(&stage.connected).filter(|(_, connected)| **connected) {
                    prop_assert_eq!(store.0.values.get(format!("{who}:{key}").as_bytes()), Some(&format!("{key}").into_bytes()));
                }
            }
        }
        prop_assert_eq!(stage.connected.iter().filter(|&&connected| connected).count(), SERVERS);
    }
}
