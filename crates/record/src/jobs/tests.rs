//! Laws of the books: nothing is lost or made, whatever the times are.

use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Stamp {
    Stamp(Nanos::from_millis(millis).0)
}

fn steady(books: &mut JobBooks, from: u64, to: u64, every: u64) {
    (from..to).step_by(every as usize).for_each(|millis| books.arrived(at(millis)));
}

#[test]
fn a_slow_tube_is_seen_in_seconds_and_a_fast_one_in_tenths() {
    let mut books = JobBooks::new();
    steady(&mut books, 5_000, 105_000, 250);
    let slow = books.snapshot(at(105_000)).arrivals();
    assert_eq!((slow.width, slow.counts.len(), slow.rate()), (COARSE_SLOT, 100, Some(4.0)));
    steady(&mut books, 105_000, 200_000, 10);
    let fast = books.snapshot(at(200_000)).arrivals();
    assert_eq!((fast.width, fast.counts.len()), (FINE_SLOT, FINE_SLOTS - 1));
    assert!(fast.counts.iter().all(|&count| count == 10.0), "{:?}", fast.counts);
    assert!(fast.gap_variation < 1e-3, "{}", fast.gap_variation);
    assert_eq!(books.rate(at(200_000)), fast.rate());
}

#[test]
fn the_slot_that_goes_on_is_left_out_and_silence_is_slots_without_arrivals() {
    let mut books = JobBooks::new();
    assert_eq!(books.snapshot(at(9_000)).arrivals().rate(), None);
    steady(&mut books, 1_000, 3_500, 100);
    let counts = |now: u64| books.snapshot(at(now)).arrivals().counts;
    assert_eq!(counts(3_500), [10.0, 10.0]);
    assert_eq!(counts(6_100), [10.0, 10.0, 5.0, 0.0, 0.0]);
    let later = counts(700_000);
    assert_eq!((later.len(), later.iter().sum::<f64>()), (COARSE_SLOTS - 1, 0.0));
}

#[test]
fn gaps_of_pairs_vary_as_pairs_do() {
    // Two at once every second: gaps of 0 and 1 s, mean 0.5 and squared variation 1.
    let mut books = JobBooks::new();
    for second in 1..=300 {
        books.arrived(at(second * 1_000));
        books.arrived(at(second * 1_000));
    }
    let pairs = books.snapshot(at(301_000)).arrivals();
    assert!((pairs.gap_variation - 1.0).abs() < 0.01, "{}", pairs.gap_variation);
    assert_eq!(pairs.rate(), Some(2.0));
}

#[test]
fn an_hour_of_silence_is_no_gap_of_the_traffic() {
    let mut books = JobBooks::new();
    steady(&mut books, 0, 60_000, 500);
    steady(&mut books, 3_600_000, 3_660_000, 500);
    let window = books.snapshot(at(3_660_000)).arrivals();
    assert!(window.gap_variation < 0.02, "{}", window.gap_variation);
    assert_eq!(window.counts.iter().sum::<f64>(), 120.0);
}

#[test]
fn the_latest_services_and_waiting_times_are_kept_and_all_are_counted() {
    let mut books = JobBooks::new();
    for number in 0..3_000 {
        books.ended(Nanos(number), !number.is_multiple_of(10));
        books.handed_out(
            number.is_multiple_of(2).then_some(Nanos::from_millis(number)),
            number.is_multiple_of(100),
        );
    }
    let seen = books.snapshot(at(0));
    assert_eq!((seen.done, seen.given_up, seen.redelivered), (2_700, 300, 30));
    assert_eq!(seen.services.len(), KEPT_JOBS);
    let first = 3_000 - KEPT_JOBS as u64;
    assert_eq!(seen.services[0], EndedLease { time: Nanos(first), done: !first.is_multiple_of(10) });
    assert_eq!(seen.services[KEPT_JOBS - 1], EndedLease { time: Nanos(2_999), done: true });
    assert_eq!((seen.waits.len(), seen.waiting.count), (KEPT_JOBS, 1_500));
    assert_eq!(seen.waits.last(), Some(&2.998));
    // Up to a second: 0, 2 … 1,000 ms.
    assert_eq!(seen.waiting.up_to[14], 501);
}

#[test]
fn waits_of_minutes_and_hours_have_buckets_of_their_own() {
    let mut books = JobBooks::new();
    for seconds in [600, 1_200, 7_200, 100_000] {
        books.handed_out(Some(Nanos::from_secs(seconds)), false);
    }
    let waiting = books.snapshot(at(0)).waiting;
    // Up to 10, 30, 60, 300, 600, 1,800, 3,600, 14,400 and 86,400 s.
    assert_eq!((&waiting.up_to[17..], waiting.count), (&[0, 0, 0, 0, 1, 2, 2, 3, 3][..], 4));
}

#[test]
fn a_lease_that_was_given_up_was_held_and_is_no_service() {
    let mut books = JobBooks::new();
    books.ended(Nanos::from_millis(100), true);
    books.ended(Nanos::from_secs(30), false);
    let seen = books.snapshot(at(0));
    assert_eq!((seen.service, seen.held), (0.1, 30.1));
}

/// A sum that stood still would say that no message waits any more.
#[test]
fn sums_of_times_go_on_beyond_64_bits_of_nanoseconds() {
    let day = Nanos::from_secs(86_400);
    let mut books = JobBooks::new();
    for number in 1..=300_000 {
        books.handed_out(Some(day), false);
        books.ended(day, true);
        if number >= 299_999 {
            let seen = books.snapshot(at(0));
            let sum = f64::from(number) * 86_400.0;
            assert_eq!((seen.waiting.sum, seen.held, seen.service), (sum, sum, sum));
        }
    }
}

#[test]
fn books_that_are_reset_are_as_new() {
    let mut books = JobBooks::new();
    steady(&mut books, 7, 90_000, 7);
    books.ended(Nanos(5), true);
    books.handed_out(Some(Nanos(5)), true);
    books.reset();
    let (reset, new) = (books.snapshot(at(91_000)), JobBooks::new().snapshot(at(91_000)));
    assert_eq!(format!("{reset:?}"), format!("{new:?}"));
    books.arrived(at(200_000));
    assert_eq!(books.snapshot(at(202_000)).arrivals().counts, [1.0, 0.0]);
}

#[test]
fn books_take_no_more_than_is_said() {
    let rings = size_of::<[u32; FINE_SLOTS]>() + size_of::<[ArrivalSlot; COARSE_SLOTS]>();
    let kept = size_of::<[u64; KEPT_JOBS]>() + size_of::<[f32; KEPT_JOBS]>();
    let all = rings + kept + WAITING_BOUNDS.len() * 8 + size_of::<JobBooks>();
    assert!(all <= KEPT_BYTES, "{all}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Both widths count what the list of arrivals counts, in every complete slot.
    #[test]
    fn slots_neither_lose_nor_make_arrivals(
        first in 0_u64..100_000,
        gaps in prop::collection::vec(prop_oneof![0_u64..300, 0_u64..50_000], 1..200),
        after in 0_u64..100_000,
    ) {
        let mut books = JobBooks::new();
        let mut millis = first;
        let mut times = vec![first];
        books.arrived(at(first));
        for gap in gaps {
            millis += gap;
            times.push(millis);
            books.arrived(at(millis));
        }
        let now = millis + after;
        let seen = books.snapshot(at(now));
        for (width, counts) in [
            (100, seen.fine.clone()),
            (1_000, seen.coarse.iter().map(|slot| slot.count).collect()),
        ] {
            let oldest = (now / width) as usize - counts.len();
            prop_assert!(counts.len() < FINE_SLOTS);
            for (place, count) in counts.iter().enumerate() {
                let slot = (oldest + place) as u64;
                let expected = times.iter().filter(|&&time| time / width == slot).count();
                prop_assert_eq!(*count as usize, expected, "slot {} of {} ms", slot, width);
            }
            // Nothing older was left out without need.
            prop_assert!(oldest as u64 == first / width || counts.len() == FINE_SLOTS - 1);
        }
        prop_assert_eq!(seen.arrived, times.len() as u64);
        prop_assert_eq!(books.rate(Stamp(Nanos::from_millis(now).0)), seen.arrivals().rate());
    }

    /// Commits are heard of in their order, and their stamps may be older than the loop's.
    #[test]
    fn stamps_in_any_order_count_every_arrival(times in prop::collection::vec(0_u64..5_000, 1..100)) {
        let mut books = JobBooks::new();
        times.iter().for_each(|&millis| books.arrived(at(millis)));
        let seen = books.snapshot(at(60_000));
        let counted: u32 = seen.coarse.iter().map(|slot| slot.count).sum();
        prop_assert_eq!(counted as usize, times.len());
        prop_assert!(seen.arrivals().gap_variation >= 0.0);
    }
}
