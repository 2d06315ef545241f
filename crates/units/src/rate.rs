//! Rates: how many per second.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Nanos, Seconds};

/// A rate per second: throughput X, arrival rate λ, service rate μ.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PerSecond(pub f64);

impl PerSecond {
    /// `count` events over `length`; zero over no time at all.
    pub fn over(count: u64, length: Nanos) -> Self {
        if length == Nanos::ZERO { Self(0.0) } else { Self(count as f64 / length.as_seconds()) }
    }

    /// The mean time between two events, in seconds; infinite at rate zero.
    pub fn gap(self) -> Seconds {
        1.0 / self.0
    }
}

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/s", crate::text::count(self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_count_over_a_length() {
        assert_eq!(PerSecond::over(3_000, Nanos::from_secs(2)), PerSecond(1_500.0));
        assert_eq!(PerSecond::over(3_000, Nanos::ZERO), PerSecond(0.0));
        assert_eq!(PerSecond(2_938.4).to_string(), "2,938/s");
    }
}
