//! Bounds: what no closed system of these demands can exceed, and where its knee is.
//!
//! ```text
//!   X │      ╱ N/(D+Z)
//!     │     ╱______________ m/D of the bottleneck
//!     │    ╱·  ·
//!     │   ╱·       asymptotic ⊇ balanced job ⊇ (mostly) geometric bounds
//!     │  ╱·
//!     └──────┬───────────── N
//!            N* = (D+Z) / Dmax, the knee
//! ```
//!
//! Asymptotic bounds hold for every system. Balanced job bounds (Zahorjan et al. 1982; Lazowska et
//! al. 1984, chapter 5) and geometric bounds (Casale, Muntz & Serazzi 2008) hold for product-form
//! networks of single servers and delays.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Demands of one closed class at its stations.
#[derive(Clone, Debug, PartialEq)]
pub struct Demands {
    /// D of each queueing station and its number of servers; the demand is ≥ 0.
    pub stations: Vec<(Seconds, f64)>,
    /// Think time and delays together; ≥ 0.
    pub think: Seconds,
}

/// A lower and an upper limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

impl Range {
    /// Whether `value` is inside, give or take a relative `slack` for rounding.
    pub fn holds(self, value: f64, slack: f64) -> bool {
        value >= self.low * (1.0 - slack) && value <= self.high * (1.0 + slack)
    }
}

impl Demands {
    /// Demands of single servers.
    pub fn single_servers(demands: &[Seconds], think: Seconds) -> Self {
        Self { stations: demands.iter().map(|d| (*d, 1.0)).collect(), think }
    }

    /// D, the total demand at queueing stations.
    pub fn total(&self) -> Seconds {
        self.stations.iter().map(|s| s.0).sum()
    }

    /// Dmax, the largest demand per server; 0 where nothing can saturate.
    pub fn largest(&self) -> Seconds {
        self.stations.iter().map(|(demand, servers)| demand / servers).fold(0.0, f64::max)
    }

    /// N* = (D + Z) / Dmax: the population where the two asymptotes meet. Infinite where nothing
    /// saturates.
    pub fn knee(&self) -> f64 {
        (self.total() + self.think) / self.largest()
    }

    /// Asymptotic bounds of the throughput, for any system:
    /// N/(N·D + Z) ≤ X ≤ min(m/D at the bottleneck, N/(D + Z)) (Lazowska et al. 1984, 5.2).
    pub fn asymptotic(&self, population: f64) -> Range {
        let total = self.total();
        Range {
            low: population / (population * total + self.think),
            high: (1.0 / self.largest()).min(population / (total + self.think)),
        }
    }

    /// Balanced job bounds of the throughput (Lazowska et al. 1984, table 5.3 and its form for
    /// terminals): the network lies between those that have the same D, all of it at stations as
    /// slow as the slowest, or spread evenly.
    ///
    /// # Errors
    /// [`Error::Refused`] at a station of several servers.
    pub fn balanced(&self, population: f64) -> Result<Range, Error> {
        self.only_single_servers("balanced job bounds")?;
        let (total, think, largest) = (self.total(), self.think, self.largest());
        let average = total / self.stations.len().max(1) as f64;
        if total <= 0.0 {
            return Ok(self.asymptotic(population));
        }
        let others = population - 1.0;
        Ok(Range {
            low: population / (total + think + others * largest / (1.0 + think / (population * total))),
            high: (1.0 / largest)
                .min(population / (total + think + others * average / (1.0 + think / total))),
        })
    }

    /// Geometric bounds of the throughput (Casale, Muntz & Serazzi 2008, theorems 1 and 2): the
    /// residence R = D + Dmax·(N − 1 − Z·X) − Σ (Dmax − D_k)·Q_k, with each Q_k at N − 1 bounded by
    /// a geometric sum.
    ///
    /// # Errors
    /// [`Error::Refused`] at a station of several servers.
    pub fn geometric(&self, population: f64) -> Result<Range, Error> {
        self.only_single_servers("geometric bounds")?;
        let (total, think, largest) = (self.total(), self.think, self.largest());
        if total <= 0.0 || population <= 1.0 {
            return self.balanced(population);
        }
        let before = population - 1.0;
        let known = self.balanced(before)?;
        let sum = |ratio: f64| {
            // y + y² + … + y^n, which is n at y = 1.
            if (1.0 - ratio).abs() < 1e-9 {
                before
            } else {
                (ratio - ratio.powf(before + 1.0)) / (1.0 - ratio)
            }
        };
        let residence = |throughput: f64, queue: &dyn Fn(f64) -> f64| {
            let spared: f64 =
                self.stations.iter().map(|(demand, _)| (largest - demand) * queue(*demand)).sum();
            total + largest * (before - think * throughput) - spared
        };
        let least = |demand: f64| sum(demand * before / (think + total + largest * before));
        let most = |demand: f64| sum((demand * known.high).min(1.0));
        let low = population / (think + residence(known.low, &least));
        let high = population / (think + residence(known.high, &most).max(total));
        let balanced = self.balanced(population)?;
        Ok(Range { low: low.max(balanced.low), high: high.min(balanced.high) })
    }

    fn only_single_servers(&self, solver: &str) -> Result<(), Error> {
        match self.stations.iter().find(|s| s.1 != 1.0) {
            None => Ok(()),
            Some((demand, servers)) => Err(Error::Refused {
                solver: solver.into(),
                feature: format!("a station of {servers} servers (demand {demand} s)"),
                hint: "asymptotic bounds hold for every network".into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_asymptotes_meet_at_the_knee() {
        let demands = Demands { stations: vec![(0.2, 1.0), (0.6, 2.0)], think: 1.0 };
        let knee = demands.knee();
        assert!((knee - 1.8 / 0.3).abs() < 1e-12);
        let at_knee = demands.asymptotic(knee);
        assert!((at_knee.high - knee / 1.8).abs() < 1e-12 && (at_knee.high - 1.0 / 0.3).abs() < 1e-9);
    }

    /// With equal demands both balanced job bounds are the exact X = N / (D + (N − 1) D/K).
    #[test]
    fn balanced_networks_have_bounds_without_a_gap() {
        let bounds = Demands::single_servers(&[0.1; 4], 0.0).balanced(7.0).unwrap();
        let exact = 7.0 / (0.4 + 6.0 * 0.1);
        assert!((bounds.low - exact).abs() < 1e-12 && (bounds.high - exact).abs() < 1e-12);
    }

    #[test]
    fn several_servers_are_refused_by_name() {
        let demands = Demands { stations: vec![(0.2, 4.0)], think: 1.0 };
        assert!(demands.geometric(3.0).unwrap_err().to_string().contains("4 servers"));
    }

    #[test]
    fn a_system_of_delays_alone_never_saturates() {
        let demands = Demands { stations: vec![], think: 2.0 };
        assert!(demands.knee().is_infinite());
        assert!((demands.balanced(10.0).unwrap().high - 5.0).abs() < 1e-12);
    }
}
