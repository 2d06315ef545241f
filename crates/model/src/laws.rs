//! Operational laws: they hold for every system over every stretch of time, whatever the
//! distributions.
//!
//! So they are calculators, and they are lie detectors: measurements that break one are wrong
//! somewhere (Denning & Buzen 1978; Lazowska et al. 1984, chapter 3; Jain 1991, chapter 33).

use krarup_units::{Seconds, Unit};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Utilization law, U = X·S: mean number of busy servers at a station that completes `throughput`
/// per second with a service time of `service` (Jain 33.1). Divide by the number of servers for ρ.
pub fn utilization(throughput: f64, service: Seconds) -> f64 {
    throughput * service
}

/// Little's law, N = X·R: mean number inside a boundary that `throughput` requests per second
/// cross, each staying `time` (Little 1961).
pub fn little(throughput: f64, time: Seconds) -> f64 {
    throughput * time
}

/// Interactive response time law, R = N/X − Z (Jain, chapter 33).
pub fn response(population: f64, throughput: f64, think: Seconds) -> Seconds {
    population / throughput - think
}

/// Interactive response time law solved for the throughput, X = N / (R + Z).
pub fn throughput(population: f64, response: Seconds, think: Seconds) -> f64 {
    population / (response + think)
}

/// Interactive response time law solved for the time outside, Z = N/X − R.
pub fn outside(population: f64, throughput: f64, response: Seconds) -> Seconds {
    population / throughput - response
}

/// One law applied to measurements: both sides, and whether they agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LawCheck {
    /// Which law, in words and letters.
    pub law: String,
    /// Which row or station.
    pub place: String,
    /// Unit of both sides.
    #[serde(default = "count")]
    pub unit: Unit,
    /// The measured side.
    pub measured: f64,
    /// The side that follows from the other measurements.
    pub implied: f64,
    /// (measured − implied) / implied.
    pub difference: f64,
    /// Whether the law holds within the tolerance given.
    pub holds: bool,
}

/// What was written before sides had units.
fn count() -> Unit {
    Unit::Count
}

impl LawCheck {
    /// Both sides should be equal within `tolerance`, relative.
    pub fn equal(
        law: &str,
        place: &str,
        unit: Unit,
        (measured, implied): (f64, f64),
        tolerance: f64,
    ) -> Self {
        let difference = (measured - implied) / implied;
        Self::new(law, place, unit, (measured, implied), difference.abs() <= tolerance)
    }

    /// The measured side should not exceed the other by more than `tolerance`, relative.
    pub fn at_most(
        law: &str,
        place: &str,
        unit: Unit,
        (measured, limit): (f64, f64),
        tolerance: f64,
    ) -> Self {
        Self::new(law, place, unit, (measured, limit), measured <= limit * (1.0 + tolerance))
    }

    fn new(law: &str, place: &str, unit: Unit, (measured, implied): (f64, f64), holds: bool) -> Self {
        let difference = (measured - implied) / implied;
        Self { law: law.into(), place: place.into(), unit, measured, implied, difference, holds }
    }
}

/// A utilization from here on is 1 but for rounding: 1250 requests of 0.8 ms come to
/// 0.9999999999999999.
const FULL: f64 = 1.0 - 1e-12;

/// Whether a queue settles, given the interval of its utilization. What is below 1 by no more than
/// rounding is 1.
///
/// # Errors
/// [`Error::Unstable`] when all of the interval is at 1 or above, [`Error::Undecided`] when it
/// covers 1.
pub fn stability(station: &str, low: f64, high: f64) -> Result<(), Error> {
    if high < FULL {
        Ok(())
    } else if low >= FULL {
        Err(Error::Unstable { station: station.into(), utilization: low })
    } else {
        Err(Error::Undecided { station: station.into(), low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interactive_law_is_one_law_solved_three_ways() {
        let (population, think) = (192.0, 0.002);
        let x = throughput(population, 0.0155, think);
        assert!((response(population, x, think) - 0.0155).abs() < 1e-15);
        assert!((outside(population, x, 0.0155) - think).abs() < 1e-15);
    }

    #[test]
    fn an_interval_of_utilization_that_covers_one_decides_nothing() {
        assert!(stability("db", 0.9, 0.99).is_ok());
        let error = stability("db", 0.99, 1.02).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no conclusion holds for db: the interval of its utilization, 0.9900 to 1.0200, covers 1"
        );
        assert!(matches!(stability("db", 1.0, 1.1), Err(Error::Unstable { .. })));
    }

    #[test]
    fn what_is_full_but_for_rounding_is_full() {
        let utilization = 1.0 / (1.0 / 1250.0) * (800.0 * 1e-6);
        assert!(utilization < 1.0 && utilization > 1.0 - 1e-15, "{utilization:e}");
        let error = stability("db", utilization, utilization).unwrap_err();
        assert_eq!(error.to_string(), "db cannot keep up: utilization 1.0000, not below 1");
        assert!(stability("db", 0.999_999_999, 0.999_999_999).is_ok());
    }
}
