//! The estimator on a few systems, quickly: those that it must not be wrong about.

use krarup_model::headroom::{ResourceKind, Silence};
use krarup_record::live::KEPT_VISITS;

use super::judging::{Effort, SHAPING_SEED, watch};
use super::kinds::{Candidate, Kind, candidate};

const QUICK: Effort =
    Effort { saturation: 40_000, target: 100_000, seconds: 10, kept: KEPT_VISITS, minutes: 1, loops: 1 };

/// A minute of traffic up to 30 % and one up to 50 % of saturation are enough for each of these.
#[test]
fn the_first_resource_to_be_full_is_named_with_its_rate() {
    for kind in [Kind::Exp, Kind::Det, Kind::Hot, Kind::Slow, Kind::Workers, Kind::Proxy, Kind::Tls] {
        let judged = watch(&candidate(kind, SHAPING_SEED), 2, QUICK);
        let one = &judged[1];
        let case = format!("{} {}, level {}", one.kind.name(), one.seed, one.level);
        assert!(one.said(), "{case}: {:?}", one.answer.silent);
        assert!(one.named_right, "{case}: {:?}", one.answer.bottleneck);
        let error = one.saturation_error().unwrap();
        assert!(error.abs() < 0.1, "{case}: saturation off by {error}");
        assert_eq!(one.false_confident(), None, "{case}: {:?}", one.answer.capacity_per_s);
    }
}

/// What one loop tells of a server, two tell that share its work: connections with a thread each,
/// and one queue for the connections of both.
#[test]
fn two_loops_tell_of_a_server_what_one_does() {
    for kind in [Kind::Det, Kind::Exp, Kind::Threads, Kind::Hot] {
        let one = &watch(&candidate(kind, SHAPING_SEED), 2, Effort { loops: 2, ..QUICK })[1];
        let case = format!("{} {}, level {}", one.kind.name(), one.seed, one.level);
        assert!(one.said(), "{case}: {:?}", one.answer.silent);
        let error = one.saturation_error().unwrap();
        assert!(error.abs() < 0.1, "{case}: saturation off by {error}");
        assert_eq!(one.false_confident(), None, "{case}: {:?}", one.answer.capacity_per_s);
    }
}

/// A quota and a link that no traffic has met yet, of which the configuration tells.
#[test]
fn what_is_configured_of_a_server_is_a_limit() {
    for (kind, resource) in [(Kind::Cliff, ResourceKind::Server), (Kind::Link, ResourceKind::Link)] {
        for seed in SHAPING_SEED..SHAPING_SEED + 3 {
            let candidate = Candidate { configured: true, ..candidate(kind, seed) };
            let one = &watch(&candidate, 2, QUICK)[1];
            let case = format!("{} {seed}: {:?}", kind.name(), one.answer);
            // Far below its quota a server has few requests that wait: too few for an interval.
            let unsure = kind == Kind::Cliff && one.answer.silent == [Silence::IntervalTooWide];
            assert!((one.said() || unsure) && one.named_right, "{case}");
            assert_eq!(one.answer.bottleneck.as_ref().map(|one| one.resource), Some(resource), "{case}");
            let error = one.saturation_error().unwrap();
            assert!(error.abs() < 0.1, "{case}: saturation off by {error}");
            assert!(one.covers(), "{case} beside {:?}", one.truth);
        }
    }
}

/// Stops that few requests meet decide the 99th percentile: a few more or fewer of them
/// make much of the rate at which the target breaks, and the interval says so.
#[test]
fn an_interval_is_wide_where_a_few_stops_decide() {
    let share = |kind: Kind, seed: u64| {
        let judged = watch(&candidate(kind, seed), 3, QUICK);
        let one = &judged[2];
        let capacity = one.answer.capacity_per_s.unwrap();
        assert!(one.covers(), "{} {seed}: {capacity:?} beside {:?}", kind.name(), one.truth);
        capacity.high / capacity.low
    };
    let (stopped, plain) = (share(Kind::Stops, 5021), share(Kind::Det, SHAPING_SEED));
    assert!(stopped > 1.1 * plain, "high over low end {stopped}, and {plain} of a server that never stops");
}
