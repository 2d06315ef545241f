//! From measurements to a model: rows, what is wrong with them, the fit, and how far to believe it.
//!
//! ```text
//!   records of runs ─┐
//!   CSV ─▶ rows ─▶ checks ─▶ pool ─▶ forms, cross-validated ─▶ Calibration ─▶ predictions with intervals
//!                  laws      same configuration, same result?      rows, residuals, seed kept
//! ```

mod correction;
mod crowd;
mod curves;
mod doubts;
mod explain;
mod fitting;
mod forms;
mod mixture;
mod nulls;
mod percentiles;
mod predicting;
mod records;
mod regression;
mod resources;
mod rows;
mod series;
mod tables;
mod uses;

pub use correction::{FormCorrection, StateCorrection};
pub use doubts::{CalibrationDoubt, PredictionDoubt};
pub use explain::{Explanation, LimitingPart};
pub use fitting::{Calibration, calibrate, calibrate_as};
pub use forms::{CurveFamily, fit};
pub use mixture::{FormFit, ModelMixture};
pub use nulls::{HeldOutErrors, NullModel, against_nulls, null_table};
pub use percentiles::ResponseSpread;
pub use predicting::{CalibratedPredictor, Interval95, Predicted, PredictedPercentiles};
pub use records::{
    ClientMeasurements, Middlewares, Span, add_link_use, demand_table, hold_table, link_table,
};
pub use resources::ThroughputBound;
pub use rows::{
    CalibrationResidual, CalibrationRow, PopulationMeasurement, ResponsePercentiles, check_anchors,
    check_rows, read_csv, read_measured,
};
pub use series::series_rows;
pub use tables::{percentile_table, prediction_table};
pub use uses::{BoundedResource, ResourceUse};

use krarup_stats::{Intercept, Predictor, Regression, USUAL_LEVEL};
use krarup_units::Bytes;

use crate::Error;

/// Service demands of several classes at one station by the utilization law, U = Σ X_c·D_c:
/// regression through the origin of the mean number of busy servers on the throughputs (Lazowska et
/// al. 1984, chapter 12).
///
/// `busy[i]` and `throughputs[class][i]` belong to the same window. The estimates come with
/// intervals; a window is one observation, so windows that follow each other closely make the
/// intervals too short.
///
/// # Errors
/// [`Error::Measurements`] where the windows do not determine the demands (too few, or classes
/// always in the same mix).
pub fn demands(busy: &[f64], throughputs: &[Vec<f64>], names: &[&str]) -> Result<Regression, Error> {
    let columns: Vec<Predictor> =
        names.iter().zip(throughputs).map(|(name, values)| Predictor::new(name, values)).collect();
    Regression::fit(&columns, Intercept::Zero, busy, USUAL_LEVEL).map_err(|error| Error::Measurements {
        what: format!("demands by the utilization law: {error}"),
        hint: "measure more windows, in different mixes of the classes".into(),
    })
}

/// What one message takes on the wire: its bytes, and the headers of as many packets as it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Bytes of a message that fit into one packet (1448 for TCP with timestamps over Ethernet).
    pub payload: u64,
    /// Headers of one packet (52 for IPv4 and TCP with timestamps; link headers only if the limit
    /// counts them).
    pub header: Bytes,
}

impl Wire {
    /// TCP with timestamps over IPv4 in packets of 1500 bytes.
    pub const TCP: Self = Self { payload: 1_448, header: Bytes(52) };

    /// Headers of a message of `bytes`.
    pub fn overhead(&self, bytes: u64) -> Bytes {
        Bytes(bytes.div_ceil(self.payload).max(1) * self.header.0)
    }

    /// Messages of `bytes` that a link of `bits_per_second` carries each second.
    pub fn limit(&self, bits_per_second: f64, bytes: u64) -> f64 {
        bits_per_second / 8.0 / (bytes + self.overhead(bytes).0) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 2018 report: 101 Mbit/s upload and replies of 4132 B; it measured 2938 to 2940 per
    /// second.
    #[test]
    fn the_link_limit_counts_headers() {
        let limit = Wire::TCP.limit(101e6, 4_132);
        assert!((limit / 2_939.0 - 1.0).abs() < 0.005, "{limit}");
        assert_eq!(Wire::TCP.overhead(4_132), Bytes(156));
        assert_eq!(Wire::TCP.overhead(0), Bytes(52));
    }

    #[test]
    fn demands_follow_from_utilizations_and_throughputs() {
        let (get, set) = (vec![100.0, 200.0, 300.0, 150.0], vec![50.0, 20.0, 70.0, 90.0]);
        let busy: Vec<f64> = get.iter().zip(&set).map(|(g, s)| 0.001 * g + 0.004 * s).collect();
        let noisy: Vec<f64> = busy.iter().zip([1.001, 0.999, 1.0, 1.001]).map(|(b, e)| b * e).collect();
        let fit = demands(&noisy, &[get.clone(), set], &["get", "set"]).unwrap();
        assert!((fit.coefficient("get").unwrap().estimate.value / 0.001 - 1.0).abs() < 0.01);
        let same_mix = demands(&busy, &[get.clone(), get], &["get", "set"]).unwrap_err();
        assert!(same_mix.hint().unwrap().contains("mixes"));
    }
}
