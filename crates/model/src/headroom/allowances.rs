//! What no rate of requests uses up by itself: memory, files, connections. Where the use is seen to
//! grow with the traffic, that says at which rate it is full; else that it does not is taken for
//! granted.

use krarup_stats::{Regression, USUAL_LEVEL};

use super::answer::{Allowance, CapacityEstimate, ResourceKind};

/// Fewer moments tell no slope.
const FEWEST: usize = 10;
/// The slope is so many times its standard error, or so many where most is used already.
const SURE: f64 = 4.0;
const SURE_WHERE_NEAR: f64 = 2.0;
/// Over the rates that were seen the use grew by this share of itself at the least.
const GROWTH: f64 = 0.05;
/// From this share on most is used.
const NEAR: f64 = 0.9;
/// The slope is at least this share of its estimate: the end of the interval that is not near.
const LEAST: f64 = 0.25;

impl Allowance {
    /// The rate of all traffic at which it is used up: that of now and what is left over what each
    /// request a second uses more. None where the use is not seen to grow with the traffic.
    pub(super) fn full_at(&self) -> Option<CapacityEstimate> {
        // A cache that is full evicts: it is the misses that would change.
        if self.seen.len() < FEWEST || self.is_cache() {
            return None;
        }
        let (rates, used): (Vec<f64>, Vec<f64>) = self.seen.iter().copied().unzip();
        let line = Regression::line(&rates, &used, USUAL_LEVEL).ok()?;
        let slope = line.coefficients.last()?;
        let (slope, error) = (slope.estimate.value, slope.standard_error);
        let ends = |values: &[f64]| {
            values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &one| (a.min(one), b.max(one)))
        };
        let (slowest, quickest) = ends(&rates);
        let sure = if self.is_near() { SURE_WHERE_NEAR } else { SURE };
        if slope <= sure * error || slope * (quickest - slowest) < GROWTH * self.used {
            return None;
        }
        let now = *rates.last()?;
        let left = (self.most - self.used).max(0.0);
        let at = |slope: f64| now + left / slope;
        Some(CapacityEstimate {
            low: at(slope + 2.0 * error),
            mean: at(slope),
            high: at((slope - 2.0 * error).max(LEAST * slope)),
        })
    }

    /// What is taken for granted where most of it is used and nothing is known of how it grows.
    pub(super) fn assumed(&self) -> Option<String> {
        if !self.is_near() || self.full_at().is_some() {
            return None;
        }
        let used = format!("{:.0} % used", 100.0 * self.used / self.most);
        let server = self.server.as_deref();
        if self.is_cache() {
            return Some(format!("server {} goes on missing as often: its memory is {used}", server?));
        }
        let what = match self.resource {
            ResourceKind::Memory => "memory",
            ResourceKind::Files => "files",
            ResourceKind::Connections => "connections",
            _ => "processors",
        };
        let whose = server.map_or_else(|| "this program".to_owned(), |name| format!("server {name}"));
        Some(format!("{whose} does not run out of {what}: {used}"))
    }

    fn is_near(&self) -> bool {
        self.used >= NEAR * self.most
    }

    fn is_cache(&self) -> bool {
        self.resource == ResourceKind::Memory && self.server.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(resource: ResourceKind, used: impl Fn(f64) -> f64) -> Allowance {
        // Up and down between 100 and 500 a second; every third moment is a little off.
        let rates = (0..40).map(|moment| 300.0 + 200.0 * (f64::from(moment) / 5.0).sin());
        let seen: Vec<(f64, f64)> =
            rates.enumerate().map(|(place, rate)| (rate, used(rate) + (place % 3) as f64)).collect();
        let (_, used) = *seen.last().unwrap();
        Allowance { resource, server: None, used, most: 1_000.0, seen }
    }

    #[test]
    fn what_grows_with_the_traffic_is_full_where_the_line_meets_the_limit() {
        // 100 whatever comes, and one for each two requests a second: 1,000 at 1,800.
        let full = of(ResourceKind::Connections, |rate| 100.0 + 0.5 * rate).full_at().unwrap();
        assert!((full.mean / 1_800.0 - 1.0).abs() < 0.01, "{full:?}");
        assert!(full.low < full.mean && full.mean < full.high && full.high < 1.05 * full.mean, "{full:?}");
        let used_up = Allowance { used: 1_000.0, ..of(ResourceKind::Files, |rate| 100.0 + 0.5 * rate) };
        let now = used_up.seen.last().unwrap().0;
        assert_eq!(used_up.full_at().map(|full| full.mean), Some(now));
    }

    #[test]
    fn what_does_not_grow_says_nothing_until_most_is_used() {
        let steady = of(ResourceKind::Connections, |_| 500.0);
        assert_eq!((steady.full_at(), steady.assumed()), (None, None));
        let near = of(ResourceKind::Connections, |_| 950.0);
        let assumed = near.assumed().unwrap();
        assert_eq!(assumed, "this program does not run out of connections: 95 % used");
        let unknown = Allowance { resource: ResourceKind::Memory, seen: Vec::new(), ..near };
        assert_eq!(unknown.full_at(), None);
        assert_eq!(unknown.assumed().unwrap(), "this program does not run out of memory: 95 % used");
    }

    #[test]
    fn a_cache_that_is_full_is_no_limit_of_the_rate() {
        let full = of(ResourceKind::Memory, |rate| 900.0 + 0.15 * rate);
        assert!(full.full_at().is_some(), "its own memory");
        let cache = Allowance { server: Some("a:1".to_owned()), ..full };
        assert_eq!(cache.full_at(), None);
        assert!(cache.assumed().unwrap().starts_with("server a:1 goes on missing as often"));
    }
}
