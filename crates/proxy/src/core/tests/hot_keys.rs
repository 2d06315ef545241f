//! Which keys take most, of requests that the core has carried out.

use super::*;
use crate::live::KeyState;
use crate::stats;
use krarup_model::hot_keys::{HotKey, HotKeys, PoolHotKeys};

fn hottest(world: &World) -> HotKeys {
    KeyState::of(&world.core, world.now).hottest()
}

fn main_pool(world: &World) -> PoolHotKeys {
    let answer = hottest(world);
    assert_eq!((answer.keys.as_str(), answer.pools.len()), ("name", 1));
    answer.pools.into_iter().next().unwrap()
}

fn named<'a>(keys: &'a [HotKey], name: &str) -> &'a HotKey {
    keys.iter().find(|key| key.name.as_deref() == Some(name)).unwrap_or_else(|| panic!("{name}: {keys:?}"))
}

/// A millisecond each: `slow` occupies its server for 300 µs, `quick` for 100 µs.
#[test]
fn a_key_has_the_time_for_which_its_server_was_occupied() {
    let mut world = one_pool(PoolSpec::of("main", vec![0]));
    let client = world.client();
    for number in 0..4_000_u64 {
        let (key, time) = if number % 2 == 0 { ("slow", 300_000) } else { ("quick", 100_000) };
        let begin = 1_000_000_000 + number * 1_000_000;
        world.at(begin).send(client, format!("get {key}\r\n")).write_servers();
        world.at(begin + time).answer(0, "END\r\n").replied(client);
    }
    let pool = main_pool(&world);
    assert!((pool.requests_per_s / 1_000.0 - 1.0).abs() < 0.2 && pool.one_of == 8.0, "{pool:?}");
    let (slow, quick) = (&pool.by_time[0], &pool.by_time[1]);
    assert_eq!((slow.name.as_deref(), quick.name.as_deref()), (Some("slow"), Some("quick")));
    assert!(slow.share.low < 0.75 && 0.75 < slow.share.high && slow.share.se < 0.04, "{slow:?}");
    assert!((slow.share.mean + quick.share.mean - 1.0).abs() < 1e-9, "no key had to give up its counter");
    assert_eq!((slow.reads, slow.server.as_deref()), (1.0, Some("server-0:1")));
    assert!((slow.bytes - 0.5).abs() < 0.08, "{slow:?}");
    // What `stats slow` says of a key is the same digest.
    assert_eq!(slow.key, format!("{:016x}", KeyHash::Xxh3.number(b"slow")));
}

/// Requests that wait behind others count for what they take, not for their wait.
#[test]
fn the_wait_behind_other_keys_is_not_counted() {
    let mut world = one_pool(PoolSpec::of("main", vec![0]));
    let client = world.client();
    for number in 0..4_000_u64 {
        let begin = 1_000_000_000 + number * 1_000_000;
        world.at(begin).send(client, "get long\r\nget short\r\n").write_servers();
        world.at(begin + 900_000).answer(0, "END\r\n");
        world.at(begin + 910_000).answer(0, "END\r\n").replied(client);
    }
    let pool = main_pool(&world);
    let long = named(&pool.by_time, "long");
    assert!(long.share.mean > 0.985 && long.of_server.unwrap() > 0.985, "{long:?}");
}

/// Of a get of three keys each has a third, whether servers divide them or one has them all.
#[test]
fn the_keys_of_one_request_divide_its_time() {
    for spec in [
        PoolSpec::of("main", vec![0]),
        PoolSpec { multi_get: MultiGet::Sharded, ..PoolSpec::of("main", vec![0, 1, 2]) },
        PoolSpec { fall_back_on_miss: true, ..PoolSpec::of("main", vec![0]) },
    ] {
        let mut world = one_pool(spec);
        let client = world.client();
        for number in 0..3_000_u64 {
            let begin = 1_000_000_000 + number * 1_000_000;
            world.at(begin).send(client, "get a b c\r\n").write_servers();
            world.at(begin + 100_000);
            for server in 0..world.received.len() {
                if !world.asked(server).is_empty() {
                    world.answer(server, "END\r\n");
                }
            }
            world.replied(client);
        }
        let pool = main_pool(&world);
        for name in ["a", "b", "c"] {
            let share = named(&pool.by_time, name).share;
            assert!((share.mean - 1.0 / 3.0).abs() < 0.1 && share.low < share.mean, "{name}: {share:?}");
            assert_eq!(named(&pool.by_bytes, name).reads, 1.0);
        }
    }
}

#[test]
fn a_write_without_a_reply_has_its_time_and_its_bytes() {
    let mut world = one_pool(PoolSpec::of("main", vec![0]));
    let client = world.client();
    for number in 0..1_000_u64 {
        let begin = 1_000_000_000 + number * 1_000_000;
        world.at(begin).send(client, "set a 0 0 1 noreply\r\nx\r\nget b\r\n").write_servers();
        world.at(begin + 100_000).answer(0, "STORED\r\nEND\r\n").replied(client);
    }
    let pool = main_pool(&world);
    let (a, b) = (named(&pool.by_time, "a"), named(&pool.by_time, "b"));
    assert!((a.share.mean - 0.5).abs() < 0.12, "both came with one reading: {a:?}");
    assert_eq!((a.reads, b.reads, a.coalescing_saves), (0.0, 1.0, None));
    assert!(named(&pool.by_bytes, "a").share.mean > 0.6);
}

/// Every key of two loops is told once, with the requests of both.
#[test]
fn loops_together_tell_what_each_has_sampled() {
    let spec = || PoolSpec { coalesce: true, reads: Reads::Primary, ..PoolSpec::of("main", vec![0, 1]) };
    let mut loops: Vec<World> = (0..2).map(|_| one_pool(PoolSpec { copies: 1, ..spec() })).collect();
    for (place, world) in loops.iter_mut().enumerate() {
        let client = world.client();
        for number in 0..1_000_u64 {
            let begin = 1_000_000_000 + number * 1_000_000;
            world.at(begin).send(client, ["get a\r\n", "get b\r\n"][place]).write_servers();
            world.at(begin + [100_000, 300_000][place]).answer(0, "END\r\n").replied(client);
        }
    }
    let [mut one, mut other] = loops.try_into().ok().unwrap();
    let mut sum = one.core.books();
    sum.absorb(&other.core.books());
    let (_, text) = stats::answer(&sum, b"hotkeys", one.now);
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("STAT hot_keys name\r\nSTAT covers_s "), "{text}");
    let line =
        |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{text}"));
    assert!(line("STAT main:time:1 ").ends_with(" name=\"b\""), "{text}");
    assert!(line("STAT main:time:2 ").ends_with(" name=\"a\""), "{text}");
    assert!(line("STAT main:bytes:1 ").contains(" server=server-0:1 of_server="), "{text}");
    assert!(text.ends_with("END\r\n"));
    assert!(!text.contains("_saves="), "it coalesces, and one holder has all reads: {text}");
    // `stats reset` begins it anew.
    other.core.reset(other.now);
    assert!(hottest(&other).pools.is_empty());
}

/// Gets for one key with exponential gaps, each under way for a fixed time: what the proxy shares,
/// and what it says of that.
fn coalesced(coalesce: bool, offered: f64) -> (f64, PoolHotKeys) {
    const TIME: u64 = 200_000;
    const READS: u64 = 6_000;
    let mut world = one_pool(PoolSpec { coalesce, ..PoolSpec::of("main", vec![0]) });
    let client = world.client();
    let (mut bits, mut next) = (9_u64, 1_000_000_000_u64);
    let mut due: VecDeque<u64> = VecDeque::new();
    let mut read = 0;
    while read < READS || !due.is_empty() {
        if due.front().is_some_and(|&due| due <= next || read == READS) {
            let now = due.pop_front().unwrap();
            world.at(now).answer(0, "END\r\n").write_clients();
            continue;
        }
        read += 1;
        world.at(next).send(client, "get a\r\n");
        due.extend(world.asked(0).lines().map(|_| next + TIME));
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let fraction = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        next += (-fraction.ln() * TIME as f64 / offered) as u64;
    }
    let shared = world.core.pools()[0].counts().coalesced;
    (shared as f64 / READS as f64, main_pool(&world))
}

/// The saving that is told before coalescing is switched on is the one that it brings.
#[test]
fn coalescing_saves_what_was_told() {
    for offered in [0.2, 0.5, 1.5] {
        let (shared, before) = coalesced(false, offered);
        assert_eq!(shared, 0.0);
        let key = &before.by_time[0];
        assert_eq!((key.share.mean, key.of_server), (1.0, Some(1.0)));
        let told = key.coalescing_saves.unwrap();
        let (shared, after) = coalesced(true, offered);
        assert!((shared - told).abs() < 0.04, "offered {offered}: {shared} were shared, {told} was told");
        assert_eq!(after.by_time[0].coalescing_saves, None, "it is on");
    }
}
