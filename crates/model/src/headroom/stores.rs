//! Servers with one queue before all their connections: a database behind a pool.
//!
//! No request finds its connection busy there, so what is fitted is the time of a **trip**, from
//! sent to answered, by what it depends on:
//!
//! ```text
//! one request a trip D(k) over the trips k that were under way at its begin, itself included what
//! waits shares one D(n) = a + b n over the requests n that it carried
//! ```

use krarup_units::Seconds;

use super::fit::{BusyLanesPoint, LaneCurve, ServiceFit, StallFit, error_by_seconds};
use super::kept::{Kept, mean, quantile};
use super::service_by_request::{RelativeSlope, ServiceByRequest};

/// Trips that tell a mean at the least.
const FEW: usize = 30;
/// Trips of a fit at the least.
const ENOUGH: usize = 150;

/// One round trip of a connection.
#[derive(Clone, Copy, Debug)]
struct Trip {
    sent: Seconds,
    answered: Seconds,
    /// Requests that it carried.
    count: f64,
    /// Trips under way when it began, itself included.
    under_way: usize,
}

impl Trip {
    fn time(&self) -> Seconds {
        self.answered - self.sent
    }
}

/// The trips to a server, in the order in which they began within each stretch; those that share
/// their connection and both stamps are one: the messages of one request, or all that waited.
fn trips(kept: &Kept, server: usize) -> Vec<Trip> {
    let mut all = Vec::new();
    for stretch in &kept.stretches {
        let mut parts: Vec<_> = kept.parts_at(stretch, server).collect();
        parts.sort_by(|a, b| {
            a.sent.total_cmp(&b.sent).then(a.answered.total_cmp(&b.answered)).then(a.lane.cmp(&b.lane))
        });
        let first = all.len();
        let mut last_lane = None;
        for part in parts {
            match all[first..].last_mut() {
                Some(Trip { sent, answered, count, .. })
                    if (*sent, *answered, last_lane) == (part.sent, part.answered, Some(part.lane)) =>
                {
                    *count += 1.0;
                }
                _ => all.push(Trip { sent: part.sent, answered: part.answered, count: 1.0, under_way: 1 }),
            }
            last_lane = Some(part.lane);
        }
        count_under_way(&mut all[first..]);
    }
    all
}

fn count_under_way(trips: &mut [Trip]) {
    let mut ends: Vec<Seconds> = Vec::new();
    for trip in trips {
        ends.retain(|end| *end > trip.sent);
        ends.push(trip.answered);
        trip.under_way = ends.len();
    }
}

/// Mean time of the trips that carried one request and found no other under way, with its relative
/// standard error: what tells whether the server is as quick as it was, at any load.
pub(super) fn alone(kept: &Kept, server: usize) -> Option<(Seconds, f64)> {
    let trips = trips(kept, server);
    let times: Vec<Seconds> =
        trips.iter().filter(|trip| trip.under_way == 1 && trip.count == 1.0).map(Trip::time).collect();
    (times.len() >= FEW).then(|| (mean(times.iter().copied()), error_of_mean(&times)))
}

/// The relative standard error of a mean.
fn error_of_mean(values: &[f64]) -> f64 {
    let (count, middle) = (values.len() as f64, mean(values.iter().copied()));
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    (squares / (count - 1.0).max(1.0) / count).sqrt() / middle.max(1e-12)
}

/// [`error_by_seconds`] of trips that are expected to take so long.
fn error_of(trips: &[Trip], expected: impl Fn(&Trip) -> Seconds) -> (f64, usize) {
    error_by_seconds(trips.iter().map(|trip| (trip.answered, trip.time(), expected(trip))), 1.0)
}

/// Fits a server each of whose connections takes the next request when it is free.
pub(super) fn one_by_one(kept: &Kept, server: usize, lanes: usize) -> Option<ServiceFit> {
    let trips = trips(kept, server);
    if trips.len() < ENOUGH {
        return None;
    }
    let service = mean(trips.iter().map(Trip::time));
    let curve = LaneCurve::through(&by_under_way(&trips), service, lanes);
    let factor = |trip: &Trip| curve.as_ref().map_or(1.0, |curve| curve.factor(trip.under_way));
    let law = trips.iter().map(|trip| trip.time() / factor(trip)).collect();
    let (error, seconds) = error_of(&trips, |trip| service * factor(trip));
    Some(ServiceFit {
        delay: 0.0,
        service,
        error,
        contention_now: RelativeSlope::default(),
        contention: RelativeSlope::default(),
        bytes: None,
        requests: ServiceByRequest::ALIKE,
        others: None,
        over_time: 1.0,
        stalls: StallFit::default(),
        law,
        writes_from: None,
        by_busy_lanes: curve,
        jitter: 0.0,
        waited: trips.len(),
        together: 0.0,
        idle: 0,
        seconds,
        allowance: false,
        quota: false,
    })
}

/// The mean time of trips by how many were under way.
fn by_under_way(trips: &[Trip]) -> Vec<BusyLanesPoint> {
    let most = trips.iter().map(|trip| trip.under_way).max().unwrap_or(0);
    let point = |under_way: usize| {
        let times: Vec<Seconds> =
            trips.iter().filter(|trip| trip.under_way == under_way).map(Trip::time).collect();
        let service = mean(times.iter().copied());
        let error = error_of_mean(&times) * service * 1.5;
        (times.len() >= FEW).then_some(BusyLanesPoint { busy: under_way as f64, service, error })
    };
    (1..=most).filter_map(point).collect()
}

/// What was fitted to a server whose trips carry all requests that wait.
#[derive(Clone, Debug)]
pub(super) struct GatheredFit {
    /// What a trip takes, however many it carries.
    pub(super) per_trip: Seconds,
    /// What each request adds.
    pub(super) per_request: Seconds,
    /// Relative standard error of the time at the sizes seen.
    pub(super) error: f64,
    /// Times of trips over what the two give.
    pub(super) ratios: Vec<f64>,
    /// Trips under way at once: the 90th percentile.
    pub(super) side_by_side: usize,
    /// Requests that a trip carried: the 95th percentile.
    pub(super) large: f64,
    /// Requests that shared a trip with others.
    pub(super) shared: usize,
    /// Different seconds in which there were trips.
    pub(super) seconds: usize,
}

impl GatheredFit {
    /// What a trip with so many requests takes in the mean.
    pub(super) fn time(&self, count: f64) -> Seconds {
        self.per_trip + self.per_request * count
    }

    /// Requests per second of so many trips at once that carry so many each.
    pub(super) fn rate(&self, side_by_side: usize, count: f64) -> f64 {
        side_by_side as f64 * count / self.time(count).max(1e-12)
    }
}

/// Fits a server whose connections take all requests that wait.
pub(super) fn gathered(kept: &Kept, server: usize) -> Option<GatheredFit> {
    let trips = trips(kept, server);
    if trips.len() < ENOUGH {
        return None;
    }
    let (per_trip, per_request) = cost_by_count(&trips);
    let expected = |trip: &Trip| (per_trip + per_request * trip.count).max(1e-12);
    let (error, seconds) = error_of(&trips, expected);
    let mut counts: Vec<f64> = trips.iter().map(|trip| trip.count).collect();
    let mut under_way: Vec<f64> = trips.iter().map(|trip| trip.under_way as f64).collect();
    Some(GatheredFit {
        per_trip,
        per_request,
        error,
        ratios: trips.iter().map(|trip| trip.time() / expected(trip)).collect(),
        side_by_side: quantile(&mut under_way, 0.9) as usize,
        large: quantile(&mut counts, 0.95),
        shared: counts.iter().filter(|count| **count > 1.0).sum::<f64>() as usize,
        seconds,
    })
}

/// a and b of the least squares of relative deviations, neither negative: the weights are those of
/// the fit before, beginning with the mean.
fn cost_by_count(trips: &[Trip]) -> (Seconds, Seconds) {
    let (mut a, mut b) = (mean(trips.iter().map(Trip::time)), 0.0);
    for _ in 0..4 {
        let weight = |trip: &Trip| (a + b * trip.count).max(1e-9).powi(-2);
        let sum = |of: &dyn Fn(&Trip) -> f64| trips.iter().map(|trip| weight(trip) * of(trip)).sum::<f64>();
        let (one, n, nn) = (sum(&|_| 1.0), sum(&|trip| trip.count), sum(&|trip| trip.count.powi(2)));
        let (d, nd) = (sum(&Trip::time), sum(&|trip| trip.count * trip.time()));
        let determinant = one * nn - n * n;
        // All carry as many: what a request adds is not known, and not counted on to be less.
        (a, b) = if determinant <= 1e-9 * one * nn {
            (0.0, d / n.max(1e-12))
        } else {
            ((d * nn - nd * n) / determinant, (one * nd - n * d) / determinant)
        };
        if b < 0.0 {
            (a, b) = (d / one, 0.0);
        } else if a < 0.0 {
            (a, b) = (0.0, nd / nn);
        }
    }
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headroom::kept::{KeptPart, KeptRequest, KeptStretch};

    /// Trips as parts of one stretch: when each begins, how long it takes, on which connection, and
    /// how many requests it carries.
    fn kept_of(trips: impl IntoIterator<Item = (Seconds, Seconds, u32, usize)>) -> Kept {
        let mut kept = Kept { lanes: vec![3], ..Kept::default() };
        for (sent, time, lane, count) in trips {
            for _ in 0..count {
                let at = kept.parts.len();
                kept.parts.push(KeptPart {
                    server: 0,
                    lane,
                    sent,
                    answered: sent + time,
                    bytes: 0.0,
                    is_write: true,
                    is_late: false,
                    in_loop: 0,
                });
                kept.requests.push(KeptRequest {
                    received: sent,
                    response: time,
                    replied: sent + time,
                    hold: time,
                    waited: false,
                    own: 0.0,
                    parts: at..at + 1,
                    late: false,
                    in_loop: 0,
                });
            }
        }
        let requests = 0..kept.requests.len();
        kept.stretches.push(KeptStretch { from: 0.0, to: 1e9, requests });
        kept
    }

    #[test]
    fn what_a_trip_and_what_a_request_takes_are_told_apart() {
        let trips = (0..400).map(|number| {
            let count = 1 + number % 9;
            (number as f64 * 0.1, 0.002 + 0.0001 * count as f64, 0, count)
        });
        let fit = gathered(&kept_of(trips), 0).unwrap();
        assert!((fit.per_trip - 0.002).abs() < 1e-9 && (fit.per_request - 0.0001).abs() < 1e-9, "{fit:?}");
        assert_eq!((fit.side_by_side, fit.large, fit.seconds), (1, 9.0, 40));
        assert_eq!(fit.shared, 1_990 - 45, "every ninth trip carries a single request");
        assert!((fit.rate(1, 100.0) - 100.0 / 0.012).abs() < 1e-6);
    }

    #[test]
    fn trips_on_two_connections_at_once_are_two() {
        let trips = (0..200).flat_map(|number| [(number as f64, 0.5, 0, 2), (number as f64, 0.5, 1, 2)]);
        let fit = gathered(&kept_of(trips), 0).unwrap();
        assert_eq!((fit.side_by_side, fit.shared), (2, 800));
        assert_eq!(fit.per_trip, 0.0, "all carry as many");
    }

    #[test]
    fn connections_that_share_processors_take_the_longer_the_more_are_busy() {
        // One, two or three at once, each as long as there are.
        let trips = (0..300).flat_map(|number| {
            let together = 1 + number % 3;
            // Those that begin earlier have fewer beside them at their begin.
            (0..together).map(move |lane| {
                (number as f64 + 1e-6 * lane as f64, 0.01 * (1.0 + lane as f64), lane as u32, 1)
            })
        });
        let kept = kept_of(trips);
        let fit = one_by_one(&kept, 0, 4).unwrap();
        let curve = fit.by_busy_lanes.as_ref().unwrap();
        assert!((curve.factor(3) / curve.factor(1) - 3.0).abs() < 1e-9);
        assert!((fit.service * curve.last() - 0.04).abs() < 1e-9, "the fourth as the third");
        assert!(fit.law.iter().all(|time| (time - fit.service).abs() < 1e-9));
        let (time, error) = alone(&kept, 0).unwrap();
        assert!((time - 0.01).abs() < 1e-12 && error < 1e-9);
    }

    #[test]
    fn few_trips_tell_nothing() {
        let kept = kept_of((0..100).map(|number| (number as f64, 0.5, 0, 1)));
        assert!(gathered(&kept, 0).is_none() && one_by_one(&kept, 0, 1).is_none());
    }
}
