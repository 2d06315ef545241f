//! Placement is what other programs say it is, and keeps its promises where they say nothing.

use proptest::prelude::*;
use serde::Deserialize;

use super::{KeyDistribution, KeyHash, Member, Placement};

/// What a program answered, written down by `scripts/golden-placement.py`.
#[derive(Deserialize)]
struct Golden {
    program: String,
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    distribution: KeyDistribution,
    hash: KeyHash,
    tag: Option<String>,
    servers: Vec<String>,
    /// For each key the place of its server in the list, as a digit in base 36.
    placed: String,
}

pub(crate) fn golden_keys() -> Vec<Vec<u8>> {
    let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    let key = |line: &str| {
        let mut key = Vec::new();
        let mut rest = line.as_bytes();
        while let Some(byte) = rest.first() {
            let (byte, used) = if *byte == b'%' { (hex(&rest[1..3]), 3) } else { (*byte, 1) };
            key.push(byte);
            rest = &rest[used..];
        }
        key
    };
    include_str!("../../tests/placement/keys.txt").lines().map(key).collect()
}

/// `host:port:weight`, and perhaps a name after a blank.
fn member(text: &str) -> Member {
    let (address, name) = text.split_once(' ').map_or((text, None), |(address, name)| (address, Some(name)));
    let [host, port, weight] = address.split(':').collect::<Vec<_>>().try_into().unwrap();
    let weight = weight.parse().unwrap();
    match name {
        Some(name) => Member { name: name.to_owned(), weight },
        None => Member::unnamed(host, port.parse().unwrap(), weight),
    }
}

fn agrees(golden: &str) {
    let golden: Golden = serde_json::from_str(golden).unwrap();
    let keys = golden_keys();
    assert!(golden.answers.len() > 30 && keys.len() > 400, "the vectors are whole");
    for answer in golden.answers {
        let tag = answer.tag.as_ref().map(|tag| (tag.as_bytes()[0], tag.as_bytes()[1]));
        let members: Vec<Member> = answer.servers.iter().map(|server| member(server)).collect();
        let placement = Placement::new(answer.distribution, answer.hash, tag, &members).unwrap();
        assert_eq!(answer.placed.len(), keys.len());
        for (key, digit) in keys.iter().zip(answer.placed.chars()) {
            assert_eq!(
                placement.primary(key),
                digit.to_digit(36).unwrap() as usize,
                "{}: {} {} tag {:?} over {:?}: key {}",
                golden.program,
                answer.distribution.name(),
                answer.hash.name(),
                answer.tag,
                answer.servers,
                key.escape_ascii()
            );
        }
    }
}

#[test]
fn every_key_lies_where_libmemcached_puts_it() {
    agrees(include_str!("../../tests/placement/libmemcached.json"));
}

/// What mcrouter's own hash function answered for 2 to 1,000 servers.
#[test]
fn every_key_lies_where_mcrouter_puts_it() {
    let golden: Vec<(usize, Vec<usize>)> =
        serde_json::from_str(include_str!("../../tests/placement/mcrouter.json")).unwrap();
    assert!(golden.len() >= 8, "the vectors are whole");
    for (count, placed) in golden {
        let placement =
            Placement::new(KeyDistribution::Ch3, KeyHash::Md5, None, &servers(&vec![1; count])).unwrap();
        for (key, place) in golden_keys().iter().zip(&placed) {
            assert_eq!(placement.primary(key), *place, "{count} servers: key {}", key.escape_ascii());
        }
        assert_eq!(placed.len(), golden_keys().len());
    }
}

#[test]
fn every_distribution_is_called_what_a_configuration_calls_it() {
    for (distribution, name) in KeyDistribution::ALL {
        assert_eq!(serde_json::to_string(&distribution).unwrap(), format!("\"{name}\""));
        assert_eq!(distribution.name(), name);
    }
    assert_eq!(serde_json::from_str::<KeyDistribution>("\"modula\"").unwrap(), KeyDistribution::Modulo);
}

#[test]
fn a_list_that_cannot_be_placed_on_is_refused_by_name() {
    let refused = |distribution, members: &[(&str, u32)]| {
        let members: Vec<Member> =
            members.iter().map(|(name, weight)| Member { name: (*name).into(), weight: *weight }).collect();
        Placement::new(distribution, KeyHash::Md5, None, &members).err().unwrap()
    };
    assert!(refused(KeyDistribution::Ketama, &[]).to_string().contains("no server"));
    assert!(refused(KeyDistribution::Jump, &[("a", 1), ("b", 0)]).to_string().contains("b has weight 0"));
    assert!(
        refused(KeyDistribution::Rendezvous, &[("a", 1), ("b", 1), ("a", 1)])
            .to_string()
            .contains("called a")
    );
    assert!(refused(KeyDistribution::Modulo, &[("a", 1), ("b", 1 << 20)]).to_string().contains("1048577"));
}

#[test]
fn a_tag_is_what_stands_between_the_first_pair_and_only_if_it_is_something() {
    let members: Vec<Member> =
        (0..7).map(|number| Member { name: format!("s{number}"), weight: 1 }).collect();
    let placement =
        Placement::new(KeyDistribution::Ketama, KeyHash::Md5, Some((b'{', b'}')), &members).unwrap();
    for (key, hashed) in [
        ("{user7}:name", "user7"),
        ("a{user7}{b}", "user7"),
        ("{}user7", "{}user7"),
        ("{user7", "{user7"),
        ("}user7{", "}user7{"),
        ("{{user7}}", "{user7"),
    ] {
        assert_eq!(placement.hashed(key.as_bytes()), hashed.as_bytes(), "{key}");
    }
}

fn any_distribution() -> impl Strategy<Value = KeyDistribution> {
    prop::sample::select(KeyDistribution::ALL.map(|(distribution, _)| distribution).to_vec())
}

fn any_hash() -> impl Strategy<Value = KeyHash> {
    prop::sample::select(KeyHash::ALL.map(|(hash, _)| hash).to_vec())
}

/// Servers with the names a pool has, of the weights given.
fn servers(weights: &[u32]) -> Vec<Member> {
    let member =
        |(number, weight): (usize, &u32)| Member::unnamed(&format!("10.0.{number}.9"), 11_211, *weight);
    weights.iter().enumerate().map(member).collect()
}

fn key(number: usize) -> Vec<u8> {
    format!("key:{:x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn copies_lie_on_different_servers_and_the_primary_is_the_first(
        distribution in any_distribution(), hash in any_hash(), weights in prop::collection::vec(1u32..50, 1..40),
        key in prop::collection::vec(0x21u8..=0xff, 1..60), count in 0usize..50,
    ) {
        let weights = if distribution == KeyDistribution::Ch3 { vec![1; weights.len()] } else { weights };
        let placement = Placement::new(distribution, hash, Some((b'{', b'}')), &servers(&weights)).unwrap();
        let mut copies = vec![99];
        placement.replicas(&key, count, &mut copies);
        prop_assert_eq!(copies.len(), count.min(weights.len()));
        prop_assert!(copies.iter().all(|copy| *copy < weights.len()));
        prop_assert!(copies.first().is_none_or(|first| *first == placement.primary(&key)));
        let mut sorted = copies.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(sorted.len(), copies.len(), "{:?}", copies);
    }

    /// Fewer copies are the first of more: raising the number of copies moves none.
    #[test]
    fn one_copy_more_is_one_server_more(
        distribution in any_distribution(), weights in prop::collection::vec(1u32..50, 2..30), key in "[a-z]{1,20}",
    ) {
        let weights = if distribution == KeyDistribution::Ch3 { vec![1; weights.len()] } else { weights };
        let placement = Placement::new(distribution, KeyHash::Xxh3, None, &servers(&weights)).unwrap();
        let (mut all, mut some) = (Vec::new(), Vec::new());
        placement.replicas(key.as_bytes(), weights.len(), &mut all);
        for count in 1..weights.len() {
            placement.replicas(key.as_bytes(), count, &mut some);
            prop_assert_eq!(&some[..], &all[..count]);
        }
    }

    /// A key that moves when a server is added moves to that server, and nowhere else. For equal
    /// weights: a ring with weights gives the others fewer points when the mean changes. And for
    /// fewer than 25 servers, where ketama begins to round.
    #[test]
    fn a_new_server_takes_keys_and_no_other_key_moves(
        distribution in prop::sample::select(vec![
            KeyDistribution::Ketama, KeyDistribution::KetamaLibmemcached, KeyDistribution::Rendezvous, KeyDistribution::Jump,
            KeyDistribution::Ch3,
        ]),
        hash in any_hash(), before in 1usize..24, keys in prop::collection::vec("[!-~]{1,30}", 50),
    ) {
        let members = servers(&vec![1; before + 1]);
        let old = Placement::new(distribution, hash, None, &members[..before]).unwrap();
        let new = Placement::new(distribution, hash, None, &members).unwrap();
        for key in &keys {
            let (was, is) = (old.primary(key.as_bytes()), new.primary(key.as_bytes()));
            prop_assert!(is == was || is == before, "{key}: from {was} to {is}");
        }
    }

    #[test]
    fn by_rendezvous_a_new_weight_moves_keys_to_or_from_that_server_only(
        weights in prop::collection::vec(1u32..50, 2..20), changed in 0usize..20, weight in 1u32..50,
        keys in prop::collection::vec("[a-z]{1,20}", 50),
    ) {
        let changed = changed % weights.len();
        let mut changed_weights = weights.clone();
        changed_weights[changed] = weight;
        let old = Placement::new(KeyDistribution::Rendezvous, KeyHash::Xxh3, None, &servers(&weights)).unwrap();
        let new = Placement::new(KeyDistribution::Rendezvous, KeyHash::Xxh3, None, &servers(&changed_weights)).unwrap();
        for key in &keys {
            let (was, is) = (old.primary(key.as_bytes()), new.primary(key.as_bytes()));
            let heavier = weight > weights[changed];
            prop_assert!(is == was || heavier && is == changed || !heavier && was == changed);
        }
    }

    #[test]
    fn shares_add_up_to_one(distribution in any_distribution(), weights in prop::collection::vec(1u32..500, 1..40)) {
        let weights = if distribution == KeyDistribution::Ch3 { vec![1; weights.len()] } else { weights };
        let shares = Placement::new(distribution, KeyHash::Md5, None, &servers(&weights)).unwrap().shares();
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

/// How many of 20,000 keys each server gets.
fn counts(placement: &Placement, members: usize) -> Vec<f64> {
    let mut counts = vec![0.0; members];
    for number in 0..20_000 {
        counts[placement.primary(&key(number))] += 1.0;
    }
    counts
}

/// Six standard deviations of a binomial count: it is overstepped once in 500 million.
fn spread(keys: f64, share: f64) -> f64 {
    6.0 * (keys * share * (1.0 - share)).sqrt()
}

#[test]
fn a_hash_of_few_bits_leaves_a_ring_to_one_server_and_the_shares_say_so() {
    let placement = Placement::new(KeyDistribution::Ketama, KeyHash::Crc32, None, &servers(&[1; 4])).unwrap();
    let (counted, shares) = (counts(&placement, 4), placement.shares());
    for (count, share) in counted.into_iter().zip(&shares) {
        assert!((count - 20_000.0 * share).abs() <= spread(20_000.0, *share), "{count} keys for {share}");
    }
    assert!(shares.contains(&0.0) && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
}

#[test]
fn every_server_gets_its_share_by_weight() {
    let weights = [1, 2, 3, 4, 10, 5, 5];
    let total: u32 = weights.iter().sum();
    for distribution in
        [KeyDistribution::Rendezvous, KeyDistribution::Jump, KeyDistribution::Modulo, KeyDistribution::Ketama]
    {
        let placement = Placement::new(distribution, KeyHash::Xxh3, None, &servers(&weights)).unwrap();
        let counted = counts(&placement, weights.len());
        for ((count, weight), share) in counted.iter().zip(weights).zip(placement.shares()) {
            // The keys follow the shares to within chance, …
            assert!(
                (count - 20_000.0 * share).abs() < spread(20_000.0, share),
                "{}: {count} keys for a share of {share}",
                distribution.name()
            );
            // … and the shares the weights. With P points an arc's sum varies by about 1/√P of
            // itself: a server of weight 1 in 30 has 36 points here, so 17 %; four times that is
            // allowed.
            let due = f64::from(weight) / f64::from(total);
            let points =
                if distribution == KeyDistribution::Ketama { due * 160.0 * 7.0 } else { f64::INFINITY };
            assert!(
                (share - due).abs() <= 4.0 * due / points.sqrt() + 1e-12,
                "{}: {share} for {due}",
                distribution.name()
            );
        }
    }
}

/// A new server takes 1/(n+1) of the keys by those that hash evenly; by a ring, its arcs: 1/(n+1) ±
/// a third of it.
#[test]
fn a_new_server_takes_its_share_and_not_more() {
    let members = servers(&[1; 11]);
    for (distribution, tolerance) in [
        (KeyDistribution::Ketama, 4.0 / 160f64.sqrt()),
        (KeyDistribution::KetamaLibmemcached, 4.0 / 100f64.sqrt()),
        (KeyDistribution::Rendezvous, 0.0),
        (KeyDistribution::Jump, 0.0),
        (KeyDistribution::Ch3, 0.0),
    ] {
        let old = Placement::new(distribution, KeyHash::Murmur3, None, &members[..10]).unwrap();
        let new = Placement::new(distribution, KeyHash::Murmur3, None, &members).unwrap();
        let moved = (0..20_000)
            .filter(|number| old.primary(&key(*number)) != new.primary(&key(*number)))
            .count() as f64;
        let due = 20_000.0 / 11.0;
        assert!(
            (moved - due).abs() < due * tolerance + spread(20_000.0, 1.0 / 11.0),
            "{}: {moved} of {due}",
            distribution.name()
        );
    }
}

#[test]
fn twenty_five_equal_servers_have_four_points_less_than_twenty_four() {
    let moved = |before: usize| {
        let members = servers(&vec![1; before + 1]);
        let old = Placement::new(KeyDistribution::Ketama, KeyHash::Xxh3, None, &members[..before]).unwrap();
        let new = Placement::new(KeyDistribution::Ketama, KeyHash::Xxh3, None, &members).unwrap();
        (0..20_000).map(key).filter(|key| ![old.primary(key), before].contains(&new.primary(key))).count()
    };
    assert_eq!(moved(23), 0);
    assert!(moved(24) > 100, "{}", moved(24));
    assert!(moved(25) > 0, "with the 26th they have them back");
}

#[test]
fn a_server_too_light_for_a_point_still_holds_copies() {
    let placement =
        Placement::new(KeyDistribution::Ketama, KeyHash::Fnv1a64, None, &servers(&[1, 1_000, 1_000]))
            .unwrap();
    assert_eq!(placement.shares()[0], 0.0);
    let mut copies = Vec::new();
    placement.replicas(b"key", 3, &mut copies);
    assert_eq!(copies.len(), 3);
    assert_eq!(copies[2], 0);
}
