use krarup_record::{HotKeyBooks, Operation, RequestSampler, SampledRequest};
use krarup_units::{Nanos, Stamp};
use rand_distr::Exp1;

use super::*;
use crate::simulate::random::RandomStream;

const SECOND: u64 = 1_000_000_000;
/// The key that shall be found.
const HOT: u64 = u64::MAX;
/// Nanoseconds that a request occupies its server, in the mean.
const SERVICE: f64 = 100_000.0;

fn pool(name: &str) -> KeyPool {
    KeyPool { name: name.to_owned(), coalesces: false, copies: 1, servers: 3, reads_one: false }
}

fn system(pools: Vec<Option<KeyPool>>) -> KeySystem {
    let servers = (0..3).map(|number| format!("server-{number}")).collect();
    KeySystem { pools, servers, loops: 1, keys: "digest".to_owned() }
}

fn main_pool() -> KeySystem {
    system(vec![Some(pool("main"))])
}

fn get(key: u64, one_of: u32, servers: &[(u16, Nanos)]) -> SampledRequest<'_> {
    SampledRequest {
        pool: 0,
        key,
        name: None,
        heir: None,
        placed_by: None,
        one_of,
        operation: Operation::Get,
        bytes: 100,
        residence: Nanos(200_000),
        servers,
    }
}

/// What is kept of a steady stream of gets whose keys `key` draws for each instant, in seconds;
/// service times are exponential.
fn stream(
    seed: u64,
    per_second: u64,
    seconds: f64,
    mut key: impl FnMut(&mut RandomStream, f64) -> u64,
) -> HotKeys {
    let mut random = RandomStream::named(seed, 0, &["hot keys"]);
    let mut sampler = RequestSampler::new(seed);
    let mut books = HotKeyBooks::default();
    // The clock of a process stands anywhere when it begins.
    let begin = 3.3 + (seed % 5) as f64;
    let at = |number: u64| begin + number as f64 / per_second as f64;
    let end = (per_second as f64 * seconds) as u64;
    for number in 0..end {
        let now = Stamp((at(number) * 1e9) as u64);
        // A key is drawn for each request; that of one which is not sampled is not needed.
        if let Some(one_of) = sampler.samples(now) {
            let drawn = key(&mut random, at(number) - begin);
            let service = Nanos((SERVICE * random.draw(&Exp1)) as u64);
            books.add(&get(drawn, one_of, &[(0, service)]), now + service);
        }
    }
    hottest(&books.snapshot(Stamp((at(end) * 1e9) as u64)), &main_pool())
}

/// Keys 1 to `keys`, the key of rank r with a weight of r^−s: by the sums of these, for a search.
fn zipf(keys: usize, s: f64) -> Vec<f64> {
    let weights = (1..=keys).map(|rank| (rank as f64).powf(-s));
    weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect()
}

/// In how many of so many answers the hot key is the first, and its true share is in its interval.
fn found(answers: impl Iterator<Item = HotKeys>, hot: u64, truth: f64) -> (u32, u32) {
    let name = format!("{hot:016x}");
    answers.fold((0, 0), |(first, covered), answer| {
        let listed = &answer.pools[0].by_time;
        let is_first = listed.first().is_some_and(|key| key.key == name);
        let holds =
            listed.iter().any(|key| key.key == name && key.share.low <= truth && truth <= key.share.high);
        (first + u32::from(is_first), covered + u32::from(holds))
    })
}

/// 20,000 requests a second, one key of 1 % among a hundred thousand equal ones: found after five
/// seconds with every seed; a share within an interval of 95 % about 95 times.
#[test]
fn a_key_with_one_percent_of_the_load_is_found_within_five_seconds() {
    let uniform = |random: &mut RandomStream, _| {
        if random.fraction() < 0.01 { HOT } else { random.below(100_000) as u64 }
    };
    let (first, covered) = found((0..100).map(|seed| stream(seed, 20_000, 5.0, uniform)), HOT, 0.01);
    assert_eq!(first, 100);
    assert!((90..100).contains(&covered), "{covered}");
}

/// The same where the others follow Zipf's law: s is chosen so that the first has 1 % and the
/// second 0.6 %, which five seconds tell apart in most runs.
#[test]
fn the_first_key_of_a_zipf_law_is_found_within_five_seconds() {
    let sums = zipf(100_000, 0.7);
    let all = *sums.last().unwrap();
    let truth = 1.0 / all;
    assert!((0.009..0.011).contains(&truth), "{truth}");
    let key = |random: &mut RandomStream, _| {
        let drawn = random.fraction() * all;
        sums.partition_point(|&sum| sum <= drawn) as u64 + 1
    };
    let (first, covered) = found((0..50).map(|seed| stream(seed, 20_000, 5.0, key)), 1, truth);
    assert!((45..=50).contains(&first), "{first} of 50");
    assert!((45..=50).contains(&covered), "{covered} of 50");
}

/// A key that has no request for a minute and 1 % from then on is the first five seconds later.
#[test]
fn a_key_that_becomes_hot_is_found_within_five_seconds() {
    for seed in 0..5 {
        let begins = 12.0 + seed as f64;
        let key = |random: &mut RandomStream, now: f64| {
            if now >= begins && random.fraction() < 0.01 { HOT } else { random.below(100_000) as u64 }
        };
        let answer = stream(seed, 20_000, begins + 5.0, key);
        assert_eq!(answer.pools[0].by_time[0].key, format!("{HOT:016x}"), "{seed}");
    }
}

#[test]
fn keys_of_equal_load_are_not_listed_where_none_was_seen_often() {
    let answer = stream(3, 20_000, 5.0, |random, _| random.below(1_000_000) as u64);
    let pool = &answer.pools[0];
    assert!(pool.by_time.is_empty() && pool.by_bytes.is_empty(), "{:?}", pool.by_time.first());
    assert!((0.001..0.01).contains(&pool.unseen_time), "{}", pool.unseen_time);
}

#[test]
fn a_key_beyond_the_end_of_the_list_is_in_what_others_may_have() {
    let answer = stream(3, 20_000, 5.0, |random, _| random.below(20) as u64);
    let pool = &answer.pools[0];
    assert_eq!((pool.by_time.len(), pool.by_bytes.len()), (LISTED_KEYS, LISTED_KEYS));
    for most in [pool.unseen_time, pool.unseen_bytes] {
        assert!((0.02..0.1).contains(&most), "each of the ten others has a twentieth: {most}");
    }
}

/// A tenth of the requests take nine times as long, and carry a tenth of the bytes.
#[test]
fn time_and_bytes_are_two_lists() {
    let mut books = HotKeyBooks::default();
    for number in 0..1_000_u64 {
        let slow = number % 10 == 0;
        let servers = [(0, Nanos(if slow { 9_000 } else { 1_000 }))];
        let key = if slow { 1 } else { 2 };
        let request = SampledRequest { bytes: if slow { 10 } else { 100 }, ..get(key, 8, &servers) };
        books.add(&request, Stamp(SECOND));
    }
    let answer = hottest(&books.snapshot(Stamp(2 * SECOND)), &main_pool());
    let PoolHotKeys { by_time, by_bytes, samples, one_of, requests_per_s, .. } = &answer.pools[0];
    assert_eq!((*samples, *one_of, *requests_per_s), (1_000, 8.0, 8_000.0));
    assert_eq!(by_time[0].share.mean, 0.5);
    assert_eq!((by_time[0].time, by_time[1].time), (0.5, 0.5));
    let bytes = 1_000.0 / (1_000.0 + 90_000.0);
    assert!((by_bytes[1].share.mean - bytes).abs() < 1e-12 && by_bytes[1].key == "0000000000000001");
    assert_eq!(by_bytes[1].bytes, by_bytes[1].share.mean);
    assert!(
        by_bytes[0].share.low < by_bytes[0].share.mean && by_bytes[0].share.mean < by_bytes[0].share.high
    );
}

#[test]
fn equal_weights_have_the_standard_error_of_a_share() {
    let KeyShare { mean, low, high, se } = share(2_000, 10_000, 2.0e4, 1.0e5, 1_000);
    assert_eq!(mean, 0.2);
    assert!((se - (0.2 * 0.8 / 1_000.0_f64).sqrt()).abs() < 1e-12, "{se}");
    let exact = krarup_stats::interval::proportion(200, 1_000, LEVEL).unwrap().interval;
    assert!((low - exact.low).abs() < 1e-12 && (high - exact.high).abs() < 1e-12);
    let all = share(5, 5, 5.0, 5.0, 5);
    assert!(
        all.mean == 1.0 && all.low < 0.7 && all.high == 1.0,
        "five requests do not say that all are: {all:?}"
    );
}

/// Reads that arrive while one is under way wait for its answer. Gaps and times drawn as they come.
fn simulated_sharing(offered: f64, mut time: impl FnMut(&mut RandomStream) -> f64) -> f64 {
    let mut random = RandomStream::named(11, 0, &["coalescing"]);
    let (mut now, mut answered, mut shared, reads) = (0.0, 0.0, 0, 200_000);
    for _ in 0..reads {
        now += random.draw(&Exp1) / offered;
        if now < answered {
            shared += 1;
        } else {
            answered = now + time(&mut random);
        }
    }
    f64::from(shared) / f64::from(reads)
}

#[test]
fn the_share_of_reads_that_find_one_under_way_is_the_simulated_one_for_any_law() {
    for offered in [0.05, 0.5, 3.0] {
        for (law, simulated) in [
            ("constant", simulated_sharing(offered, |_| 1.0)),
            ("exponential", simulated_sharing(offered, |random| random.draw(&Exp1))),
            (
                "two values",
                simulated_sharing(offered, |random| if random.fraction() < 0.9 { 0.1 } else { 9.1 }),
            ),
        ] {
            let told = shared_reads(offered);
            // Three standard errors of 200,000 reads, which come in cycles.
            assert!((simulated - told).abs() < 0.012, "{law}, {offered}: {simulated} and {told}");
        }
    }
}

/// One server, 2 s seen: a key with 400 gets of 1 ms occupied and 2 ms spent there, and others with
/// the same time.
fn known(pool: KeyPool, loops: usize) -> HotKey {
    let mut books = HotKeyBooks::default();
    let servers = [(2, Nanos(1_000_000))];
    for number in 0..100_u64 {
        let key = number % 2;
        let request = SampledRequest { residence: Nanos(2_000_000), ..get(key, 8, &servers) };
        books.add(&request, Stamp(SECOND));
    }
    let system = KeySystem { loops, ..system(vec![Some(pool)]) };
    let answer = hottest(&books.snapshot(Stamp(3 * SECOND)), &system);
    answer.pools[0].by_time[0].clone()
}

#[test]
fn what_coalescing_saves_follows_from_the_reads_under_way() {
    let key = known(pool("main"), 1);
    // 200 gets a second, 2 ms each: 0.4 under way in the mean.
    assert_eq!((key.requests_per_s, key.reads), (200.0, 1.0));
    assert_eq!((key.server.as_deref(), key.of_server), (Some("server-2"), Some(0.5)));
    assert!((key.coalescing_saves.unwrap() - 0.5 * 0.4 / 1.4).abs() < 1e-12);
    let of_two = known(pool("main"), 2).coalescing_saves.unwrap();
    assert!((of_two - 0.5 * 0.2 / 1.2).abs() < 1e-12, "each of two loops shares its own");
    assert_eq!(known(KeyPool { coalesces: true, ..pool("main") }, 1).coalescing_saves, None);
}

#[test]
fn a_copy_takes_its_part_of_the_reads_off_each_holder() {
    assert_eq!(known(pool("main"), 1).copy_saves, Some(0.5 / 2.0));
    // Each of two holders has half of the key's time; a third would take a third of that.
    let of_two = known(KeyPool { copies: 2, ..pool("main") }, 1);
    assert_eq!((of_two.of_server, of_two.copy_saves), (Some(0.25), Some(0.25 / 3.0)));
    assert_eq!(known(KeyPool { copies: 3, ..pool("main") }, 1).copy_saves, None, "all hold it");
    assert_eq!(known(KeyPool { reads_one: true, ..pool("main") }, 1).copy_saves, None);
}

#[test]
fn a_write_is_neither_shared_nor_copied_and_a_pool_that_is_gone_is_not_told() {
    let mut books = HotKeyBooks::default();
    for _ in 0..10 {
        let request = SampledRequest { operation: Operation::Set, ..get(1, 8, &[(0, Nanos(1_000))]) };
        books.add(&request, Stamp(SECOND));
        books.add(&SampledRequest { pool: 1, name: Some(b"a\"\xff\n"), ..request }, Stamp(SECOND));
    }
    let kept = books.snapshot(Stamp(2 * SECOND));
    let answer = hottest(&kept, &system(vec![None, Some(pool("users"))]));
    assert_eq!(answer.pools.len(), 1);
    let key = &answer.pools[0].by_time[0];
    assert_eq!((key.reads, key.coalescing_saves, key.copy_saves), (0.0, None, Some(0.0)));
    assert_eq!(key.name.as_deref(), Some("a\\\"\\xff\\n"));
    let text = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<HotKeys>(&text).unwrap(), answer);
}
