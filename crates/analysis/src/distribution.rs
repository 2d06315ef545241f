//! Which law the response times look like, at each workload's limit.
//!
//! The laws are fitted to quantiles of the measured distribution at equal steps, which stand for
//! the sample: a million response times are no independent sample anyway, and any law at all is
//! refused by a million of them. So there is no test here, but a **distance**: the largest
//! difference between the share of requests that were answered within a time and the share by the
//! law.

use krarup_stats::USUAL_LEVEL;
use krarup_stats::fit::Fit;
use krarup_stats::law::{Law, LawFamily};
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::trial::CellLevels;

/// How many quantiles stand for a distribution.
pub const QUANTILES: usize = 200;
/// A law that is nowhere farther away than this share of the requests may stand for them.
const NEAR: f64 = 0.05;

/// Which share of the requests is at most quantile `number`: the middle of its step.
pub fn share_of(number: usize) -> f64 {
    (number as f64 + 0.5) / QUANTILES as f64
}

/// How many quantiles of the tail there are for each further nine of a share.
const STEPS: f64 = 8.0;
/// So many values lie beyond the last quantile of a tail that is told.
const BEYOND: f64 = 10.0;

/// Which share of the requests is at most quantile `number` of a tail: 0 of the first, nine of ten
/// at number 8, ninety-nine of a hundred at 16 and on. With each step the share that is above it
/// falls to the same part of the one before.
pub fn tail_share(number: usize) -> f64 {
    1.0 - 10.0_f64.powf(-(number as f64) / STEPS)
}

/// How many quantiles of the tail so many values can tell.
pub fn tail_length(values: u64) -> usize {
    let steps = STEPS * (values as f64 / BEYOND).log10();
    if steps >= 0.0 { steps.floor() as usize + 1 } else { 0 }
}

/// One law beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The law at its likeliest parameters, in seconds.
    pub law: Law,
    /// The largest difference of shares.
    pub distance: f64,
}

/// What the response times of one cell look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseShape {
    /// Which cell.
    pub levels: CellLevels,
    /// The laws, nearest first.
    pub laws: Vec<Candidate>,
    /// Coefficient of variation of the measured quantiles.
    pub variation: f64,
    /// By the nearest law and as measured, for each of the quantiles.
    pub quantiles: Vec<(Seconds, Seconds)>,
}

impl ResponseShape {
    /// Whether the nearest law may stand for what was measured.
    pub fn is_near(&self) -> bool {
        self.laws.first().is_some_and(|law| law.distance <= NEAR)
    }
}

/// The laws for a cell; none where its distribution is not known in full, or is a single value.
pub fn shape(cell: &Cell) -> Option<ResponseShape> {
    let measured = &cell.quantiles;
    if measured.len() != QUANTILES {
        return None;
    }
    let mut laws: Vec<Candidate> = LawFamily::ALL
        .iter()
        .filter_map(|family| Fit::of(*family, measured, USUAL_LEVEL).ok())
        .map(|fit| Candidate { law: fit.law, distance: fit.ks.statistic })
        .collect();
    laws.sort_by(|one, other| one.distance.total_cmp(&other.distance));
    let nearest = laws.first()?.law;
    let by_law = (0..QUANTILES).map(|number| nearest.quantile(share_of(number)).ok());
    let quantiles: Option<Vec<(Seconds, Seconds)>> =
        by_law.zip(measured).map(|(by_law, measured)| Some((by_law?, *measured))).collect();
    let variation = krarup_stats::Summary::of(measured).ok()?.cov().ok()?;
    Some(ResponseShape { levels: cell.levels.clone(), laws, variation, quantiles: quantiles? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};

    fn shape_of(law: Law) -> ResponseShape {
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.client.quantiles =
            (0..QUANTILES).map(|number| law.quantile(share_of(number)).unwrap()).collect();
        let results = summarise("t", Environment::default(), &[trial]).unwrap();
        shape(&results.cells[0]).unwrap()
    }

    #[test]
    fn a_tail_goes_on_while_ten_values_lie_beyond_it() {
        assert_eq!([0, 9, 10, 99, 100].map(tail_length), [0, 0, 1, 8, 9]);
        assert_eq!(tail_share(0), 0.0);
        assert!((tail_share(8) - 0.9).abs() < 1e-12 && (tail_share(24) - 0.999).abs() < 1e-12);
        for values in [10, 1_000, 123_456] {
            let last = tail_share(tail_length(values) - 1);
            assert!((1.0 - last) * values as f64 >= 10.0 - 1e-6, "{values}: {last}");
        }
    }

    #[test]
    fn a_law_is_recognised_by_its_quantiles() {
        for law in [
            Law::LogNormal { mu: -7.0, sigma: 0.8 },
            Law::Gamma { shape: 4.0, scale: 0.000_2 },
            Law::Weibull { shape: 2.2, scale: 0.001 },
        ] {
            let found = shape_of(law);
            assert_eq!(found.laws[0].law.family(), law.family(), "{:?}", found.laws);
            assert!(found.is_near() && found.laws[0].distance < 0.01, "{:?}", found.laws);
            for (by_law, measured) in &found.quantiles {
                assert!((by_law / measured - 1.0).abs() < 0.1, "{by_law} {measured}");
            }
        }
    }

    #[test]
    fn two_populations_look_like_no_law() {
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.client.quantiles = (0..QUANTILES)
            .map(|number| if number < 120 { 0.001 } else { 0.1 } + 1e-7 * number as f64)
            .collect();
        let results = summarise("t", Environment::default(), &[trial]).unwrap();
        assert!(!shape(&results.cells[0]).unwrap().is_near());
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known_in_full() {
        let results = summarise("t", Environment::default(), &[steady_trial("read", 16, 20_000.0)]).unwrap();
        assert_eq!(shape(&results.cells[0]), None);
    }
}
