use proptest::prelude::*;

use super::*;

/// Requests that come at a steady rate from `from` on, for so many seconds: those that are sampled,
/// each with for how many it stands.
fn sampled(sampler: &mut RequestSampler, rate: u64, from: u64, seconds: u64) -> Vec<(u64, u32)> {
    let at = |number: u64| Stamp(from * SECOND.0 + number * SECOND.0 / rate);
    (0..rate * seconds)
        .filter_map(|number| sampler.samples(at(number)).map(|one_of| (number, one_of)))
        .collect()
}

#[test]
fn what_is_sampled_stands_for_all_in_the_mean_at_any_rate() {
    for (rate, seconds) in [(100, 400), (20_000, 10), (300_000, 2)] {
        let mut sampler = RequestSampler::new(7);
        let sampled = sampled(&mut sampler, rate, 3, seconds);
        let (all, n) = ((rate * seconds) as f64, sampled.len() as f64);
        let estimate: f64 = sampled.iter().map(|&(_, one_of)| f64::from(one_of)).sum();
        let error = sampled.iter().map(|&(_, one_of)| f64::from(one_of).powi(2)).sum::<f64>().sqrt();
        assert!((estimate - all).abs() < 3.0 * error, "{rate}: {estimate} of {all} ± {error}, n {n}");
    }
}

#[test]
fn the_probability_follows_the_rate_and_its_sudden_rise() {
    let mut sampler = RequestSampler::new(1);
    let per_second = |sampled: Vec<(u64, u32)>, seconds: u64| sampled.len() as u64 / seconds;
    assert!((110..140).contains(&per_second(sampled(&mut sampler, 1_000, 0, 10), 10)), "one of eight");
    let risen = sampled(&mut sampler, 1_000_000, 10, 1).len() as u64;
    assert!((SAMPLES..12 * SAMPLES).contains(&risen), "{risen} in the second in which it rises");
    let steady = per_second(sampled(&mut sampler, 1_000_000, 11, 2), 2);
    assert!((SAMPLES / 3..SAMPLES).contains(&steady), "{steady}");
    sampled(&mut sampler, 100, 13, 3);
    let fallen = sampled(&mut sampler, 8_000, 16, 1);
    assert!(fallen.iter().all(|&(_, one_of)| one_of == 8), "{fallen:?}");
}

#[test]
fn a_request_at_any_place_of_a_period_is_sampled_as_often() {
    let mut places = [0_u32; 16];
    for (number, _) in sampled(&mut RequestSampler::new(5), 10_000, 0, 30) {
        places[(number % 16) as usize] += 1;
    }
    let mean = places.iter().sum::<u32>() / 16;
    let far = places.iter().map(|&count| count.abs_diff(mean)).max().unwrap();
    // Four standard deviations of a Poisson number.
    assert!(f64::from(far) < 4.0 * f64::from(mean).sqrt(), "{places:?}");
}

#[test]
fn seeds_sample_differently_and_none_samples_nothing() {
    let of = |seed| sampled(&mut RequestSampler::new(seed), 1_000, 0, 2);
    assert!(of(0) == of(0) && of(0) != of(1));
    assert_eq!(sampled(&mut RequestSampler::none(), 100_000, 0, 2), []);
    let places: std::collections::BTreeSet<usize> = {
        let mut sampler = RequestSampler::new(3);
        (0..100).map(|_| sampler.below(5)).collect()
    };
    assert_eq!(places.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

fn get(key: u64, one_of: u32, servers: &[(u16, Nanos)]) -> SampledRequest<'_> {
    SampledRequest {
        pool: 0,
        key,
        name: Some(b"name"),
        heir: None,
        placed_by: Some(77),
        one_of,
        operation: Operation::Get,
        bytes: 100,
        residence: Nanos(3_000),
        servers,
    }
}

#[test]
fn a_sampled_request_counts_as_often_as_it_stands() {
    let mut books = HotKeyBooks::default();
    let servers = [(1, Nanos(1_000)), (3, Nanos(500))];
    books.add(&get(9, 16, &servers), Stamp(SECOND.0));
    books.add(
        &SampledRequest { operation: Operation::Set, name: None, ..get(9, 8, &servers) },
        Stamp(SECOND.0),
    );
    let kept = books.snapshot(Stamp(2 * SECOND.0));
    let pool = kept.pool(0).unwrap();
    let tracked = pool.by_time.get(9).unwrap();
    assert_eq!((tracked.weight, tracked.error), (24 * 1_500, 0));
    assert_eq!(
        tracked.about,
        KeyTally {
            samples: 2,
            requests: 24,
            reads: 16,
            gets: 16,
            time: 24 * 1_500,
            read_time: 16 * 1_500,
            get_time: 16 * 1_500,
            get_residence: 16 * 3_000,
            bytes: 2_400,
            squares: (16.0 * 1_500.0_f64).powi(2) + (8.0 * 1_500.0_f64).powi(2),
            server: Some(3),
            heir: None,
            placed_by: Some(77),
            name: Some(Arc::from(&b"name"[..])),
        }
    );
    assert_eq!(pool.by_bytes.get(9).unwrap().weight, 2_400);
    assert_eq!((pool.samples, pool.requests), (2, 24));
    assert_eq!([0, 1, 3, 9].map(|server| kept.server_time(server)), [0, 24_000, 12_000, 0]);
    assert!(kept.pool(1).is_none());
}

#[test]
fn a_request_that_no_server_was_asked_for_has_bytes_alone() {
    let mut books = HotKeyBooks::default();
    books.add(&get(9, 8, &[]), Stamp(0));
    let pool = books.snapshot(Stamp(1)).pool(0).unwrap();
    assert!(pool.by_time.get(9).is_none() && pool.by_bytes.get(9).unwrap().weight == 800);
}

#[test]
fn only_the_last_two_windows_are_told() {
    let mut books = HotKeyBooks::default();
    let servers = [(0, Nanos(10))];
    for second in 1..40 {
        books.add(&get(second, 8, &servers), Stamp(second * SECOND.0));
    }
    let told = |at: u64| {
        let kept = books.snapshot(Stamp(at * SECOND.0));
        let mut keys: Vec<u64> =
            kept.pool(0).iter().flat_map(|pool| pool.by_time.tracked()).map(|one| one.key).collect();
        keys.sort_unstable();
        (keys, (kept.to - kept.from).0 / SECOND.0)
    };
    assert_eq!(told(39), ((30..40).collect(), 9));
    assert_eq!(told(42), ((35..40).collect(), 7));
    assert_eq!(told(50), (Vec::new(), 5));
    books.reset();
    assert!(books.snapshot(Stamp(39 * SECOND.0)).pool(0).is_none());
}

#[test]
fn what_begins_now_covers_the_time_since_its_first_request() {
    let mut books = HotKeyBooks::default();
    books.add(&get(1, 8, &[]), Stamp(101 * SECOND.0));
    let kept = books.snapshot(Stamp(103 * SECOND.0));
    assert_eq!((kept.from, kept.to), (Stamp(101 * SECOND.0), Stamp(103 * SECOND.0)));
}

proptest! {
    /// Loops that each count a part of the traffic know together what one would know that counts
    /// all, as long as no key must give up its counter.
    #[test]
    fn loops_together_count_what_one_would(requests in prop::collection::vec((0_u64..50, 0_usize..3, 0_u64..9), 1..200)) {
        let mut loops = vec![HotKeyBooks::default(); 3];
        let mut one = HotKeyBooks::default();
        for &(key, at, second) in &requests {
            let servers = [(0, Nanos(key + 1))];
            for books in [&mut loops[at], &mut one] {
                books.add(&get(key, 8, &servers), Stamp(second.min(4) * SECOND.0));
            }
        }
        let mut sum = loops.remove(0);
        loops.iter().for_each(|other| sum.absorb(other));
        let (sum, one) = (sum.snapshot(Stamp(5 * SECOND.0)), one.snapshot(Stamp(5 * SECOND.0)));
        let (pools, expected) = (sum.pool(0).unwrap(), one.pool(0).unwrap());
        prop_assert_eq!(sum.server_time(0), one.server_time(0));
        prop_assert_eq!((pools.samples, pools.requests), (expected.samples, expected.requests));
        for tracked in expected.by_time.tracked() {
            let found = pools.by_time.get(tracked.key).unwrap();
            prop_assert_eq!((found.weight, found.error), (tracked.weight, 0));
            prop_assert_eq!(found.about.requests, tracked.about.requests);
        }
    }
}
