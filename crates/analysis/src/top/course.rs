//! The course of the last minute: what each look added up to, kept until it is a minute old.

use std::collections::VecDeque;

use krarup_units::Seconds;

use super::rows::TopTotals;

/// How far it goes back, in seconds.
const MINUTE: Seconds = 60.0;

/// One look of the course: until when it reaches, and from when.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CourseLook {
    from: Seconds,
    to: Seconds,
    point: TopPoint,
}

/// Throughput and p99 over a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TopPoint {
    /// Requests per second; none: nothing answered.
    pub throughput_per_s: Option<f64>,
    /// The highest p99 of a look in it; none: no request ended.
    pub p99_s: Option<Seconds>,
}

/// The looks of the last minute.
#[derive(Clone, Debug, Default)]
pub(super) struct TopCourse(VecDeque<CourseLook>);

impl TopCourse {
    /// Adds a look that reaches until `now`, from the look before.
    pub(super) fn add(&mut self, now: Seconds, totals: Option<&TopTotals>) {
        let from = self.0.back().map_or(now, |look| look.to.min(now));
        let point = TopPoint {
            throughput_per_s: totals.map(|totals| totals.throughput_per_s),
            p99_s: totals.and_then(|totals| totals.p99_s),
        };
        self.0.push_back(CourseLook { from, to: now, point });
        while self.0.front().is_some_and(|look| look.to < now - MINUTE) {
            self.0.pop_front();
        }
    }

    /// The minute until `now` in so many points of equal length, the oldest first: throughput is
    /// the mean over the looks that a point overlaps, by the length of the overlap.
    pub(super) fn points(&self, now: Seconds, points: usize) -> Vec<TopPoint> {
        let length = MINUTE / points.max(1) as f64;
        let of = |number: usize| {
            let from = now - MINUTE + number as f64 * length;
            self.between(from, from + length)
        };
        (0..points).map(of).collect()
    }

    fn between(&self, from: Seconds, to: Seconds) -> TopPoint {
        let (mut requests, mut seconds, mut p99_s) = (0.0, 0.0, None::<Seconds>);
        for look in &self.0 {
            let overlap = look.to.min(to) - look.from.max(from);
            if overlap <= 1e-9 {
                continue;
            }
            if let Some(throughput) = look.point.throughput_per_s {
                requests += throughput * overlap;
                seconds += overlap;
            }
            p99_s = p99_s.into_iter().chain(look.point.p99_s).reduce(f64::max);
        }
        TopPoint { throughput_per_s: (seconds > 0.0).then(|| requests / seconds), p99_s }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn totals(throughput_per_s: f64, p99_s: Option<Seconds>) -> TopTotals {
        TopTotals { throughput_per_s, p99_s, ..TopTotals::default() }
    }

    #[test]
    fn a_point_has_the_mean_throughput_and_the_highest_p99_of_its_looks() {
        let mut course = TopCourse::default();
        course.add(0.0, None);
        for second in 1..=60 {
            let p99 = if second == 31 { 0.5 } else { 0.001 };
            course.add(f64::from(second), Some(&totals(f64::from(second), Some(p99))));
        }
        let halves = course.points(60.0, 2);
        assert_eq!(halves[0], TopPoint { throughput_per_s: Some(15.5), p99_s: Some(0.001) });
        assert_eq!(halves[1], TopPoint { throughput_per_s: Some(45.5), p99_s: Some(0.5) });
        let seconds = course.points(60.0, 60);
        assert_eq!(seconds[30].p99_s, Some(0.5));
        assert!((seconds[59].throughput_per_s.unwrap() - 60.0).abs() < 1e-6);
    }

    #[test]
    fn a_time_without_answers_is_a_gap_and_what_is_older_than_a_minute_is_gone() {
        let mut course = TopCourse::default();
        for (at, rate) in [(0.0, None), (10.0, Some(5.0)), (20.0, None), (30.0, Some(7.0))] {
            course.add(at, rate.map(|rate| totals(rate, None)).as_ref());
        }
        let found: Vec<_> = course.points(30.0, 6).iter().map(|point| point.throughput_per_s).collect();
        assert_eq!(found, [None, None, None, Some(5.0), None, Some(7.0)]);
        course.add(200.0, None);
        assert_eq!(course.0.len(), 1);
    }

    proptest! {
        #[test]
        fn no_number_of_points_loses_a_request(
            rates in prop::collection::vec(0.0..1e6_f64, 1..60),
            points in 1_usize..300,
        ) {
            let mut course = TopCourse::default();
            course.add(0.0, None);
            for (second, rate) in rates.iter().enumerate() {
                course.add(second as f64 + 1.0, Some(&totals(*rate, None)));
            }
            let now = rates.len() as f64;
            let length = 60.0 / points as f64;
            // Points at the edge of what was seen have a part of their length only.
            let seen = |number: usize| {
                let from = now - 60.0 + number as f64 * length;
                ((from + length).min(now) - from.max(0.0)).max(0.0)
            };
            let found = course.points(now, points);
            prop_assert_eq!(found.len(), points);
            let sum: f64 = found.iter().enumerate()
                .map(|(number, point)| point.throughput_per_s.unwrap_or(0.0) * seen(number)).sum();
            let all: f64 = rates.iter().sum();
            prop_assert!((sum - all).abs() <= 1e-6 * all.max(1.0), "{sum} {all}");
        }
    }
}
