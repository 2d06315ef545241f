//! One figure of a simulation, and how well it is known.

use krarup_stats::Interval;
use serde::{Deserialize, Serialize};

/// An estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedEstimate {
    /// The value.
    pub value: f64,
    /// Observations it rests on: requests or visits.
    pub n: u64,
    /// Its interval, longer on the side on which the truth may be further off; `None` where the run
    /// was too short to know one.
    pub interval: Option<Interval>,
}

impl SimulatedEstimate {
    /// Half of the interval's length.
    pub fn half_width(&self) -> Option<f64> {
        self.interval.map(|interval| interval.half_width())
    }
}
