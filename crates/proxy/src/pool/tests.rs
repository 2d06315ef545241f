use proptest::prelude::*;

use super::*;
use crate::placement::{KeyDistribution, KeyHash, Member, Placement};

const NOW: Stamp = Stamp(0);
const RAMP: Nanos = Nanos::from_secs(10);

fn pool(spec: PoolSpec) -> Pool {
    let servers = spec.servers.len();
    let mut pool = Pool::new(spec);
    (0..servers).for_each(|server| pool.server_up(ServerId::new(server), NOW, false));
    pool
}

fn all_up(servers: usize) -> Pool {
    pool(PoolSpec::of("main", (0..servers).collect()))
}

fn one(pool: &mut Pool, keys: usize) -> Option<usize> {
    let holders = pool.servers.clone();
    pool.read(&holders, |_| false, keys, NOW, RAMP, |_| 0).map(ServerId::index)
}

fn runs(pool: &Pool) -> Vec<(usize, usize)> {
    pool.runs().iter().map(|&(server, keys)| (server.index(), keys)).collect()
}

#[test]
fn seven_keys_over_three_servers_are_three_two_and_two() {
    let mut pool = all_up(3);
    pool.divide(7);
    assert_eq!(runs(&pool), [(0, 3), (1, 2), (2, 2)]);
    pool.divide(2);
    assert_eq!(runs(&pool), [(1, 1), (2, 1)]);
}

/// It has what it had, and of keys that it did not hold before it has nothing.
#[test]
fn a_server_that_stood_still_is_newly_up_where_keys_were_placed_anew_meanwhile() {
    for (servers, newly_up) in [(vec![0, 1], false), (vec![0, 1, 2], true)] {
        let mut pool = all_up(2);
        let (server, later) = (ServerId::new(0), Stamp(100_000_000_000));
        pool.went_down(server, false);
        pool.become_spec(PoolSpec::of("main", servers), later);
        pool.server_up(server, later, false);
        assert_eq!(pool.is_newly_up(server, 90, later), newly_up);
    }
}

#[test]
fn a_server_that_returns_is_not_made_to_catch_up() {
    let mut pool = all_up(2);
    pool.went_down(ServerId::new(0), true);
    for _ in 0..1_000 {
        assert_eq!(one(&mut pool, 1), Some(1));
    }
    pool.server_up(ServerId::new(0), NOW, false);
    let to_the_first = (0..100).filter(|_| one(&mut pool, 1) == Some(0)).count();
    assert_eq!(to_the_first, 50);
}

/// Where servers had uneven shares it got all reads of its keys, with nothing in memory, until it
/// had been given as many as the other holder.
#[test]
fn a_server_that_is_added_is_not_made_to_catch_up() {
    let (mut pool, new) = (all_up(2), ServerId::new(2));
    pool.members[0].given = 1_000;
    pool.become_spec(PoolSpec::of("main", vec![0, 1, 2]), NOW);
    pool.is_there(new, NOW);
    let holders = [ServerId::new(0), new];
    let mut read = || pool.read(&holders, |_| false, 1, NOW, RAMP, |_| 0);
    assert_eq!((0..100).filter(|_| read() == Some(new)).count(), 50);
}

/// Ties went to the one given the least since the start: to one that had been slow, until it had
/// caught up.
#[test]
fn where_all_owe_the_same_reads_are_even_whatever_was_given_before() {
    let mut pool = pool(PoolSpec { reads: Reads::LeastOutstanding, ..PoolSpec::of("main", vec![0, 1, 2]) });
    pool.members[1].given = 1_000;
    pool.members[2].given = 1_000;
    let to_the_first = (0..300).filter(|_| one(&mut pool, 1) == Some(0)).count();
    assert!((80..=120).contains(&to_the_first), "{to_the_first}");
}

/// Of two keys in a request that came time and again, each was read at one of its holders alone.
#[test]
fn keys_that_are_asked_for_together_have_their_turns_at_each_holder() {
    let mut pool = pool(PoolSpec { reads: Reads::RoundRobin, ..PoolSpec::of("main", vec![0, 1]) });
    let mut asked = [[0; 2]; 2];
    for _ in 0..100 {
        for of_key in &mut asked {
            of_key[one(&mut pool, 1).unwrap()] += 1;
        }
    }
    assert!(asked.iter().flatten().all(|times| (40..=60).contains(times)), "{asked:?}");
}

#[test]
fn a_server_is_given_a_set_share_of_the_reads_and_goes_on_level() {
    for reads in [Reads::LeastWork, Reads::LeastOutstanding, Reads::TwoChoices, Reads::RoundRobin] {
        let spec = PoolSpec { reads, ..PoolSpec::of("main", vec![0, 1, 2]) };
        let mut pool = pool(spec);
        let to_the_second = |pool: &mut Pool| (0..300).filter(|_| one(pool, 1) == Some(1)).count();
        pool.push(Some((ServerId::new(1), 0.7, Stamp(1))));
        assert!((209..=211).contains(&to_the_second(&mut pool)), "{reads:?}");
        // A server that was tried, or is down, gets none.
        let holders = pool.servers.clone();
        let retried = pool.read(&holders, |server| server.index() == 1, 1, NOW, RAMP, |_| 0);
        assert_ne!(retried.map(ServerId::index), Some(1));
        // At its end it neither catches up nor makes up.
        let later = |pool: &mut Pool| {
            let read = |pool: &mut Pool| pool.read(&holders, |_| false, 1, Stamp(1), RAMP, |_| 0);
            (0..300).filter(|_| read(pool).map(ServerId::index) == Some(1)).count()
        };
        let share = later(&mut pool);
        assert!((80..=120).contains(&share), "{reads:?}: {share}");
        assert!(pool.pushed.is_none());
    }
}

#[test]
fn a_reload_ends_a_set_share_and_the_server_goes_on_level() {
    let spec = PoolSpec::of("main", vec![0, 1, 2]);
    let mut pool = pool(spec.clone());
    let to_the_second = |pool: &mut Pool| (0..300).filter(|_| one(pool, 1) == Some(1)).count();
    pool.push(Some((ServerId::new(1), 0.0, Stamp(1))));
    assert_eq!(to_the_second(&mut pool), 0);
    pool.become_spec(spec, NOW);
    let share = to_the_second(&mut pool);
    assert!((80..=120).contains(&share), "{share}");
}

#[test]
fn a_server_that_comes_back_gets_a_growing_share_whatever_share_is_set() {
    let (mut pool, server) = (all_up(2), ServerId::new(0));
    pool.went_down(server, true);
    pool.server_up(server, NOW, true);
    assert_eq!(pool.left_out(NOW, RAMP).collect::<Vec<_>>(), [server]);
    assert_eq!(pool.left_out(NOW + RAMP, RAMP).count(), 0, "of a loop that reads nothing, too");
    let to_the_first = |pool: &mut Pool| (0..100).filter(|_| one(pool, 1) == Some(0)).count();
    pool.push(Some((server, 0.9, Stamp(1))));
    assert_eq!(to_the_first(&mut pool), 0, "it is back since now");
    pool.push(None);
    assert_eq!(to_the_first(&mut pool), 0, "the end of a set share does not change that");
}

/// It had its full share of the reads at once, and was as slow as before.
#[test]
fn a_slow_server_whose_connection_is_made_anew_stays_left_out() {
    let (server, until) = (ServerId::new(0), NOW + RAMP);
    for gradually in [false, true] {
        let mut pool = all_up(2);
        pool.members[0].returning = Some(until);
        pool.went_down(server, false);
        pool.server_up(server, NOW, gradually);
        assert_eq!((0..100).filter(|_| one(&mut pool, 1) == Some(0)).count(), 0);
        assert_eq!(pool.members[0].returning, Some(until));
    }
}

#[test]
fn with_no_server_up_none_is_asked() {
    let mut pool = Pool::new(PoolSpec::of("main", vec![0, 1]));
    assert_eq!(one(&mut pool, 1), None);
    pool.divide(5);
    assert!(pool.runs().is_empty(), "no server is up");
}

#[test]
fn an_ejected_server_gets_its_share_back_little_by_little() {
    let mut pool = all_up(2);
    pool.went_down(ServerId::new(0), true);
    pool.server_up(ServerId::new(0), NOW, true);
    let mut share = |from: u64| {
        let reads = (0..1_000).map(|read| Stamp(from + read * 1_000_000));
        let mut read = |now| pool.read(&[0, 1].map(ServerId::new), |_| false, 1, now, RAMP, |_| 0);
        reads.filter(|&now| read(now) == Some(ServerId::new(0))).count()
    };
    // In the first, the middle and the last tenth of the ten seconds, and after them.
    let shares = [share(0), share(5_000_000_000), share(9_000_000_000), share(10_000_000_000)];
    assert!(shares[0] < 60 && shares.is_sorted(), "{shares:?}");
    assert_eq!(shares[3], 500);
}

#[test]
fn each_way_of_reading_chooses_as_it_says() {
    let spec = |reads| PoolSpec { reads, ..PoolSpec::of("main", vec![0, 1, 2]) };
    let owed = |server: ServerId| [5, 1, 3][server.index()];
    let read = |reads: Reads, times: usize| {
        let mut pool = pool(spec(reads));
        let mut counts = [0; 3];
        for _ in 0..times {
            let all = [0, 1, 2].map(ServerId::new);
            counts[pool.read(&all, |_| false, 1, NOW, RAMP, owed).unwrap().index()] += 1;
        }
        counts
    };
    assert_eq!(read(Reads::Primary, 30), [30, 0, 0]);
    assert_eq!(read(Reads::LeastWork, 30), [10, 10, 10]);
    assert_eq!(read(Reads::RoundRobin, 30), [10, 10, 10]);
    assert_eq!(read(Reads::LeastOutstanding, 30), [0, 30, 0]);
    let [most, least, middle] = read(Reads::TwoChoices, 3_000);
    // The busiest never wins, the idlest wins two of three draws.
    assert_eq!(most, 0);
    assert!((1_800..2_200).contains(&least) && (800..1_200).contains(&middle), "{least} {middle}");
}

#[test]
fn limits_let_in_what_they_say() {
    let mut limited =
        pool(PoolSpec { rate: Some(100.0), concurrency: Some(3), ..PoolSpec::of("hot", vec![0]) });
    // A tenth of a second's worth at once, then as it comes.
    let mut admitted = 0;
    for ms in 0..1_000 {
        if limited.admits(0, Stamp(ms * 1_000_000)).is_ok() {
            limited.begin();
            limited.end();
            admitted += 1;
        }
    }
    assert!((109..=110).contains(&admitted), "{admitted}");
    assert_eq!(limited.counts.limited, 1_000 - admitted);
    limited.busy = 3;
    let why = limited.admits(0, Stamp(10_000_000_000)).unwrap_err();
    assert_eq!(why, "pool hot is limited to 3 requests under way");
}

#[test]
fn a_budget_is_a_share_and_saves_little() {
    let mut budget = Budget::of_retries(0.1);
    assert_eq!((0..100).filter(|_| budget.spend()).count(), 10);
    let spent = (0..1_000)
        .filter(|_| {
            budget.earn();
            budget.spend()
        })
        .count();
    assert!((99..=101).contains(&spent), "{spent}");
    assert!(!Budget::of_retries(0.0).spend());
}

#[test]
fn hedges_are_saved_up_for_a_server_that_stands_still() {
    for (share, saved) in [(0.0, 0), (0.001, 10), (0.05, 200), (1.0, 4_000)] {
        let mut budget = Budget::of_hedges(share);
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!((0..10_000).filter(|_| budget.spend()).count(), saved, "of {share}");
    }
}

#[test]
fn lifetimes_are_cut_and_never_stretched() {
    let lifetimes = Lifetimes { cap: Some(60), unix: 1_700_000_000 };
    for (asked, given) in [
        (0, 60),
        (30, 30),
        (61, 60),
        (-1, -1),
        (1_700_000_010, 1_700_000_010),
        (1_700_000_061, 60),
        (60 * 60 * 24 * 30, 60),
    ] {
        assert_eq!(lifetimes.of(asked), given);
    }
    assert_eq!(Lifetimes { cap: None, unix: 0 }.of(0), 0);
}

#[test]
fn what_is_given_a_past_time_of_day_is_gone_at_once() {
    for (exptime, at_once) in [
        (0, false),
        (1, false),
        (-1, true),
        (i32::MIN, true),
        (2_592_000, false),
        (2_592_001, true),
        (1_700_000_000, true),
        (1_700_000_001, false),
        (i32::MAX, false),
    ] {
        assert_eq!(expires_at_once(exptime, 1_700_000_000), at_once, "{exptime}");
    }
}

#[test]
fn a_change_is_known_for_a_span_and_too_many_are_a_change_of_every_key() {
    let span = Nanos::from_secs(1);
    let at = |millis: u64| Stamp(millis * 1_000_000);
    let mut pool = pool(PoolSpec { refill: Some(60), ..PoolSpec::of("main", vec![0, 1]) });
    pool.changes(Some(KeyDigest(7)), at(900), span);
    let known = [1_000, 1_899, 2_900].map(|millis| pool.has_changed(KeyDigest(7), at(millis), span));
    assert_eq!(known, [true, true, false]);
    (0..10_001).for_each(|key| pool.changes(Some(KeyDigest(key)), at(3_000), span));
    let known = [3_500, 9_000].map(|millis| pool.has_changed(KeyDigest(20_000), at(millis), span));
    assert_eq!(known, [true, false]);
}

#[test]
fn a_set_share_of_the_reads_makes_no_server_new() {
    let mut pool = all_up(2);
    let later = Stamp(100_000_000_000);
    pool.push(Some((ServerId::new(0), 0.5, later)));
    pool.push(None);
    assert!(!pool.is_newly_up(ServerId::new(0), 90, later));
    pool.went_down(ServerId::new(0), true);
    pool.server_up(ServerId::new(0), later, false);
    assert!(pool.is_newly_up(ServerId::new(0), 90, later));
}

/// All were, so that any reload stored values where their time was over, again and again.
#[test]
fn after_a_reload_servers_are_new_only_where_a_key_may_have_another_holder() {
    let spec = |copies, tag| {
        let members = ["a", "b"].map(|name| Member { name: name.into(), weight: 1 });
        let placement = Placement::new(KeyDistribution::Ketama, KeyHash::Md5, tag, &members).unwrap();
        PoolSpec { placement: Some(placement), copies, ..PoolSpec::of("main", vec![0, 1]) }
    };
    let later = Stamp(100_000_000_000);
    let is_new = |next: PoolSpec, was_retired: bool| {
        let mut pool = pool(spec(1, None));
        if was_retired {
            pool.retire(PoolId::new(1));
        }
        pool.become_spec(next, later);
        assert!(!pool.is_retired());
        pool.is_newly_up(ServerId::new(0), 90, later)
    };
    assert!(!is_new(PoolSpec { refill: Some(90), reads: Reads::Primary, ..spec(1, None) }, false));
    assert!(is_new(spec(1, None), true), "others had its keys meanwhile");
    assert!(is_new(spec(2, None), false));
    assert!(is_new(spec(1, Some((b'{', b'}'))), false));
    assert!(is_new(PoolSpec { servers: vec![1, 0], ..spec(1, None) }, false));
    assert!(is_new(PoolSpec { placement: None, ..spec(1, None) }, false));
}

#[test]
fn a_read_is_hedged_after_the_quantile_of_those_before() {
    let hedge = Some(Hedge { quantile: 0.9, budget: 0.05 });
    let mut pool = pool(PoolSpec { hedge, ..PoolSpec::of("main", vec![0, 1]) });
    assert_eq!(pool.hedge_after(), None);
    (1..=100).for_each(|micros| pool.took(Nanos::from_micros(micros)));
    let after = pool.hedge_after().unwrap();
    assert!((89_000..=91_000).contains(&after.0), "{after}");
}

proptest! {
    /// Every key goes to exactly one server, and the work given never differs by more than one
    /// request's keys.
    #[test]
    fn work_is_even_in_the_long_run(servers in 1_usize..8, requests in proptest::collection::vec((1_usize..20, any::<bool>()), 1..200)) {
        let mut pool = all_up(servers);
        for (keys, whole) in requests {
            if whole {
                prop_assert!(one(&mut pool, keys).is_some());
            } else {
                pool.divide(keys);
                let lengths: Vec<usize> = pool.runs().iter().map(|&(_, length)| length).collect();
                prop_assert_eq!(lengths.iter().sum::<usize>(), keys);
                prop_assert_eq!(lengths.len(), servers.min(keys));
                prop_assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
            }
            let given = pool.members.iter().map(|member| member.given);
            prop_assert!(given.clone().max().unwrap() - given.min().unwrap() <= 20);
        }
    }
}
