use krarup_record::KeyTally;

use super::*;

/// What is kept of a key of the first pool: the time that it is counted by, and its tally.
fn kept(sampling: &KeySampling, key: u64) -> Option<(u64, KeyTally)> {
    let pool = sampling.snapshot(Stamp(1_000_000)).pool(0)?;
    pool.by_time.get(key).map(|tracked| (tracked.weight, tracked.about.clone()))
}

fn sampling(mode: HotKeyMode) -> KeySampling {
    let mut sampling = KeySampling::new(mode);
    sampling.begin_sampling(1);
    sampling
}

fn key(digest: u64, name: &[u8]) -> SampledKey<'_> {
    SampledKey { pool: PoolId::new(0), digest, name, heir: Some(3), placed_by: Some(9) }
}

fn reply(replied: u64) -> Visit {
    let mut visit = Visit::at(Stamp(0), Operation::Get);
    (visit.replied, visit.bytes_in, visit.bytes_out) = (Stamp(replied), 7, 93);
    visit
}

fn answer(server: u16, sent: u64, answered: u64) -> ServerVisit {
    ServerVisit::ok(server, Stamp(sent), Stamp(answered))
}

/// Three answers come with one reading, 900 ns after the one before: one of them is sampled, and
/// has a third.
#[test]
fn answers_of_one_reading_share_its_time() {
    let mut sampling = sampling(HotKeyMode::Digest);
    let id = sampling.begin(8, key(5, b"a"));
    sampling.occupied(Nanos(900));
    sampling.occupied(Nanos(0));
    sampling.answered(id, &answer(2, 100, 2_000));
    sampling.occupied(Nanos(0));
    sampling.end_unit();
    sampling.replied(id, &reply(2_500));
    assert_eq!(kept(&sampling, 5), None, "it has not ended");
    sampling.ended(id);
    let (time, tally) = kept(&sampling, 5).unwrap();
    assert_eq!((time, tally.get_residence, tally.bytes), (8 * 300, 8 * 1_900, 800));
    assert_eq!((tally.server, tally.heir, tally.placed_by, tally.name), (Some(2), Some(3), Some(9), None));
}

/// The reply to a request with `noreply` leaves while its server's answers are being read.
#[test]
fn a_request_that_ends_within_the_reading_is_counted_after_it() {
    let mut sampling = sampling(HotKeyMode::Digest);
    let id = sampling.begin(8, key(5, b"a"));
    sampling.occupied(Nanos(800));
    sampling.answered(id, &answer(0, 100, 900));
    sampling.replied(id, &reply(900));
    sampling.ended(id);
    sampling.occupied(Nanos(0));
    assert_eq!(kept(&sampling, 5), None);
    sampling.end_unit();
    assert_eq!(kept(&sampling, 5).unwrap().0, 8 * 400);
}

#[test]
fn all_servers_of_a_request_are_counted_the_late_ones_too() {
    let mut sampling = sampling(HotKeyMode::Digest);
    let id = sampling.begin(8, key(5, b"a"));
    for (server, time) in [(0, 100), (1, 250)] {
        sampling.occupied(Nanos(time));
        sampling.answered(id, &answer(server, 50, 400 + time));
        sampling.end_unit();
        sampling.replied(id, &reply(600));
    }
    sampling.ended(id);
    assert_eq!(kept(&sampling, 5).unwrap().0, 8 * 350);
    let snapshot = sampling.snapshot(Stamp(1_000_000));
    assert_eq!((snapshot.server_time(0), snapshot.server_time(1)), (800, 2_000));
}

#[test]
fn a_name_is_kept_where_it_may_be_and_forgotten_with_the_mode() {
    let one = |sampling: &mut KeySampling| {
        let id = sampling.begin(8, key(5, b"secret"));
        sampling.choose(id, key(6, b"other"));
        sampling.occupied(Nanos(10));
        sampling.answered(id, &answer(0, 1, 11));
        sampling.end_unit();
        sampling.replied(id, &reply(20));
        sampling.ended(id);
    };
    let mut sampling = sampling(HotKeyMode::Name);
    one(&mut sampling);
    assert_eq!(kept(&sampling, 6).unwrap().1.name.as_deref(), Some(&b"other"[..]));
    let under_way = sampling.begin(8, key(7, b"secret"));
    sampling.set_mode(HotKeyMode::Digest);
    assert_eq!(kept(&sampling, 6), None);
    sampling.occupied(Nanos(10));
    sampling.answered(under_way, &answer(0, 1, 11));
    sampling.end_unit();
    sampling.ended(under_way);
    assert_eq!(kept(&sampling, 7).unwrap().1.name, None, "it was read under the mode before");
    sampling.set_mode(HotKeyMode::Off);
    one(&mut sampling);
    assert_eq!((kept(&sampling, 6), kept(&sampling, 7)), (None, None));
    assert!((0..10_000).all(|now| sampling.samples(Stamp(now * 1_000_000)).is_none()));
}

#[test]
fn nothing_is_sampled_before_it_is_begun_and_a_copy_samples_nothing() {
    let mut idle = KeySampling::new(HotKeyMode::Name);
    assert!((0..10_000).all(|now| idle.samples(Stamp(now)).is_none()));
    assert_eq!(idle.mode(), HotKeyMode::Off);
    let mut copy = sampling(HotKeyMode::Name).copy();
    assert!((0..10_000).all(|now| copy.samples(Stamp(now)).is_none()));
    assert_eq!(copy.mode(), HotKeyMode::Name);
}
