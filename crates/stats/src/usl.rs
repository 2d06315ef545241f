//! The universal scalability law: how throughput grows with load, stops growing, and falls.
//!
//! ```text
//! X(N) = λ N / (1 + σ (N − 1) + κ N (N − 1))
//! ```
//!
//! λ is the throughput of one, σ the share of work that only one can do at a time (contention), κ
//! the cost of every pair's agreement (coherency); Gunther, *Guerrilla Capacity Planning*, 2007,
//! ch. 4 and 5. With κ = 0 it is Amdahl's law and has no peak.

use crate::error::{StatsError, at_least, usable};
use crate::interval::Estimate;
use crate::least_squares::solve;
use crate::nonlinear::NonlinearFit;
use serde::Serialize;

/// A coefficient of the law that must not be negative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum UslCoefficient {
    /// Estimated from the data.
    Fitted(Estimate),
    /// The data would have it negative, which the law does not know: it is held at 0, and has no
    /// interval. A σ below 0 is growth faster than the load (a cache that warms, a baseline
    /// measured too low): look at the first points.
    HeldAtZero,
}

impl UslCoefficient {
    /// Its value.
    pub fn value(&self) -> f64 {
        match self {
            Self::Fitted(estimate) => estimate.value,
            Self::HeldAtZero => 0.0,
        }
    }
}

/// What the law says of the highest throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Peak {
    /// Throughput is highest at this load and falls beyond.
    At {
        /// N* = √((1 − σ) / κ). Intervals are taken in ln N*, so that they stay above 0.
        load: Estimate,
        /// X(N*).
        throughput: Estimate,
    },
    /// κ's interval holds 0: a peak at about this load is the best guess, but the data do not show
    /// that there is one.
    NotShown {
        /// √((1 − σ) / κ); none if σ ≥ 1.
        guess: Option<f64>,
    },
    /// κ = 0: throughput rises towards λ/σ and never falls.
    Limit(Estimate),
    /// σ = κ = 0: throughput grows with the load; no limit is seen in these data.
    Linear,
}

/// A fitted law.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Usl {
    /// Throughput at N = 1, in the unit of the throughputs.
    pub lambda: Estimate,
    /// Contention σ.
    pub sigma: UslCoefficient,
    /// Coherency κ.
    pub kappa: UslCoefficient,
    /// Where throughput is highest.
    pub peak: Peak,
    /// The fit itself: residuals, R², standard errors of the coefficients that were fitted.
    pub fit: NonlinearFit,
}

/// Which coefficients are fitted; the others are 0.
#[derive(Clone, Copy)]
struct Shape {
    sigma: bool,
    kappa: bool,
}

impl Shape {
    /// (λ, σ, κ) from the fitted parameters alone.
    fn full(self, parameters: &[f64]) -> [f64; 3] {
        let kappa = if self.kappa { parameters[parameters.len() - 1] } else { 0.0 };
        [parameters[0], if self.sigma { parameters[1] } else { 0.0 }, kappa]
    }

    fn throughput(self, parameters: &[f64], load: f64) -> f64 {
        let [lambda, sigma, kappa] = self.full(parameters);
        lambda * load / (1.0 + sigma * (load - 1.0) + kappa * load * (load - 1.0))
    }
}

impl Usl {
    /// Fits the law to measured throughputs by least squares on X, with σ ≥ 0 and κ ≥ 0.
    ///
    /// # Errors
    /// If lengths differ, there are fewer than 4 points or fewer than 3 different loads, a load or
    /// throughput is not above 0, the search does not end, or the level is not between 0 and 1.
    pub fn fit(loads: &[f64], throughputs: &[f64], level: f64) -> Result<Self, StatsError> {
        if loads.len() != throughputs.len() {
            return Err(StatsError::Unequal {
                what: "loads and throughputs",
                left: loads.len(),
                right: throughputs.len(),
            });
        }
        usable("points of the scalability law", loads, 4)?;
        usable("points of the scalability law", throughputs, 4)?;
        for (what, values) in [("load", loads), ("throughput", throughputs)] {
            if let Some(&value) = values.iter().find(|&&value| value <= 0.0) {
                return Err(StatsError::OutOfRange { what, value, range: "above 0" });
            }
        }
        let mut different = loads.to_vec();
        different.sort_unstable_by(f64::total_cmp);
        different.dedup();
        at_least("different loads", different.len(), 3)?;
        let fit_shape = |sigma, kappa| fit_shape(Shape { sigma, kappa }, loads, throughputs, level);
        let allowed = |(shape, fit): &(Shape, NonlinearFit)| {
            let [_, sigma, kappa] = shape.full(&fit.values());
            sigma >= 0.0 && kappa >= 0.0
        };
        let free = fit_shape(true, true)?;
        // Least squares under σ, κ ≥ 0: where the free minimum is outside, the best allowed one
        // lies on an edge.
        let best = if allowed(&free) {
            free
        } else {
            [fit_shape(true, false)?, fit_shape(false, true)?, fit_shape(false, false)?]
                .into_iter()
                .filter(allowed)
                .min_by(|left, right| left.1.error_squares.total_cmp(&right.1.error_squares))
                .ok_or(StatsError::NoConvergence { what: "scalability law", steps: free.1.steps })?
        };
        Self::from_fit(best)
    }

    /// X at this load, with the interval of the law there (not of a single measurement). Beyond the
    /// largest load measured it holds only if the law does.
    ///
    /// # Errors
    /// If the load is not above 0 and finite.
    pub fn throughput(&self, load: f64) -> Result<Estimate, StatsError> {
        if !(load > 0.0 && load.is_finite()) {
            return Err(StatsError::OutOfRange { what: "load", value: load, range: "above 0" });
        }
        let shape = self.shape();
        self.fit.derived(|parameters| shape.throughput(parameters, load))
    }

    fn shape(&self) -> Shape {
        let fitted = |coefficient: &UslCoefficient| matches!(coefficient, UslCoefficient::Fitted(_));
        Shape { sigma: fitted(&self.sigma), kappa: fitted(&self.kappa) }
    }

    fn from_fit((shape, fit): (Shape, NonlinearFit)) -> Result<Self, StatsError> {
        let named = |name: &str| {
            fit.parameters
                .iter()
                .find(|parameter| parameter.name == name)
                .map_or(UslCoefficient::HeldAtZero, |parameter| UslCoefficient::Fitted(parameter.estimate))
        };
        let (sigma, kappa) = (named("sigma"), named("kappa"));
        let peak = peak(shape, &fit, sigma, kappa)?;
        Ok(Self { lambda: fit.parameters[0].estimate, sigma, kappa, peak, fit })
    }
}

fn peak(
    shape: Shape,
    fit: &NonlinearFit,
    sigma: UslCoefficient,
    kappa: UslCoefficient,
) -> Result<Peak, StatsError> {
    let load = |parameters: &[f64]| {
        let [_, sigma, kappa] = shape.full(parameters);
        ((1.0 - sigma) / kappa).sqrt()
    };
    match (kappa, sigma) {
        (UslCoefficient::HeldAtZero, UslCoefficient::HeldAtZero) => Ok(Peak::Linear),
        (UslCoefficient::HeldAtZero, UslCoefficient::Fitted(sigma)) if sigma.value > 0.0 => {
            // λ/σ in its logarithm, so that the interval stays above 0.
            let limit = fit.derived(|parameters| (parameters[0] / parameters[1]).ln())?;
            Ok(Peak::Limit(limit.map(f64::exp)?))
        }
        (UslCoefficient::HeldAtZero, UslCoefficient::Fitted(_)) => Ok(Peak::Linear),
        (UslCoefficient::Fitted(kappa), _) => {
            let guess = load(&fit.values());
            if !kappa.differs_from_zero() || !guess.is_finite() {
                return Ok(Peak::NotShown { guess: guess.is_finite().then_some(guess) });
            }
            let logarithm = fit.derived(|parameters| load(parameters).ln())?;
            let throughput = fit.derived(|parameters| shape.throughput(parameters, load(parameters)))?;
            Ok(Peak::At { load: logarithm.map(f64::exp)?, throughput })
        }
    }
}

fn fit_shape(
    shape: Shape,
    loads: &[f64],
    throughputs: &[f64],
    level: f64,
) -> Result<(Shape, NonlinearFit), StatsError> {
    let guess = start(shape, loads, throughputs);
    let mut named = vec![("lambda", guess[0])];
    if shape.sigma {
        named.push(("sigma", guess[1]));
    }
    if shape.kappa {
        named.push(("kappa", guess[2]));
    }
    let fit = NonlinearFit::new(&named, throughputs, |p, i| shape.throughput(p, loads[i]), level)?;
    Ok((shape, fit))
}

/// A start from the law turned over, N/X = 1/λ + σ/λ (N − 1) + κ/λ N (N − 1), which is linear. No
/// coefficient starts lower than where it would first be seen at the largest load.
fn start(shape: Shape, loads: &[f64], throughputs: &[f64]) -> [f64; 3] {
    let largest = loads.iter().fold(1.0, |largest: f64, &n| largest.max(n));
    let floors = [1e-3 / largest, 1e-3 / (largest * largest)];
    let mut columns = vec![vec![1.0; loads.len()]];
    if shape.sigma {
        columns.push(loads.iter().map(|n| n - 1.0).collect());
    }
    if shape.kappa {
        columns.push(loads.iter().map(|n| n * (n - 1.0)).collect());
    }
    let turned: Vec<f64> = loads.iter().zip(throughputs).map(|(n, x)| n / x).collect();
    let steepest = loads.iter().zip(throughputs).map(|(n, x)| x / n).fold(0.0, f64::max);
    match solve(&columns, &turned) {
        Ok(found) if found.coefficients[0] > 0.0 => {
            let [_, sigma, kappa] = shape.full(&found.coefficients);
            let one = found.coefficients[0];
            [1.0 / one, (sigma / one).max(floors[0]), (kappa / one).max(floors[1])]
        }
        _ => [steepest, 0.05, 0.05 / largest],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOADS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0];

    fn law(lambda: f64, sigma: f64, kappa: f64, noise: f64) -> Vec<f64> {
        let signs = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0];
        LOADS
            .iter()
            .zip(signs)
            .map(|(n, sign)| {
                lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)) * (1.0 + sign * noise)
            })
            .collect()
    }

    #[test]
    fn coefficients_and_peak_are_found_within_their_intervals() {
        let usl = Usl::fit(&LOADS, &law(1000.0, 0.02, 0.0005, 0.01), 0.95).unwrap();
        assert!(usl.lambda.interval.contains(1000.0), "{}", usl.lambda);
        let (UslCoefficient::Fitted(sigma), UslCoefficient::Fitted(kappa)) = (usl.sigma, usl.kappa) else {
            panic!()
        };
        assert!(sigma.interval.contains(0.02) && kappa.interval.contains(0.0005));
        let Peak::At { load, throughput } = usl.peak else { panic!("{:?}", usl.peak) };
        assert!(load.interval.contains((0.98f64 / 0.0005).sqrt()), "{load}");
        assert!((usl.throughput(load.value).unwrap().value - throughput.value).abs() < 1e-6);
        assert!(usl.throughput(load.value * 1.3).unwrap().value < throughput.value);
    }

    #[test]
    fn without_coherency_there_is_a_limit_and_no_peak() {
        let usl = Usl::fit(&LOADS, &law(500.0, 0.05, -2e-5, 0.005), 0.95).unwrap();
        assert_eq!(usl.kappa, UslCoefficient::HeldAtZero);
        let Peak::Limit(limit) = usl.peak else { panic!("{:?}", usl.peak) };
        assert!(limit.value > 9_000.0 && limit.interval.contains(limit.value), "{limit}");
    }

    #[test]
    fn a_straight_line_has_neither() {
        let usl = Usl::fit(&LOADS, &LOADS.map(|n| 10.0 * n), 0.95).unwrap();
        assert!((usl.lambda.value - 10.0).abs() < 1e-6);
        assert!(usl.sigma.value() < 1e-9 && usl.kappa.value() < 1e-9);
        let faster = Usl::fit(&LOADS, &LOADS.map(|n| n.powf(1.05)), 0.95).unwrap();
        assert_eq!(
            (faster.sigma, faster.kappa, faster.peak),
            (UslCoefficient::HeldAtZero, UslCoefficient::HeldAtZero, Peak::Linear)
        );
    }

    #[test]
    fn a_peak_beyond_noisy_data_is_a_guess() {
        let usl = Usl::fit(&LOADS[..6], &law(1000.0, 0.05, 0.0002, -0.01)[..6], 0.95).unwrap();
        assert!(matches!(usl.peak, Peak::NotShown { guess: Some(load) } if load > 32.0), "{:?}", usl.peak);
    }

    #[test]
    fn extreme_inputs_are_named() {
        assert!(matches!(Usl::fit(&[1.0; 3], &[1.0; 3], 0.95), Err(StatsError::TooFew { need: 4, .. })));
        assert!(matches!(
            Usl::fit(&[1.0, 1.0, 2.0, 2.0], &[1.0; 4], 0.95),
            Err(StatsError::TooFew { what: "different loads", .. })
        ));
        assert!(matches!(
            Usl::fit(&[0.0, 1.0, 2.0, 3.0], &[1.0; 4], 0.95),
            Err(StatsError::OutOfRange { what: "load", .. })
        ));
        assert!(Usl::fit(&[1.0, 2.0, 3.0, f64::NAN], &[1.0; 4], 0.95).is_err());
        assert!(Usl::fit(&[1.0, 2.0, 3.0], &[1.0; 4], 0.95).is_err());
    }

    proptest! {
        #[test]
        fn exact_data_give_back_the_law(lambda in 1.0..1e5f64, sigma in 0.001..0.5f64, kappa in 1e-6..1e-2f64) {
            let usl = Usl::fit(&LOADS, &law(lambda, sigma, kappa, 0.0), 0.95).unwrap();
            prop_assert!((usl.lambda.value / lambda - 1.0).abs() < 1e-4);
            prop_assert!((usl.sigma.value() - sigma).abs() < 1e-4 * (1.0 + sigma));
            prop_assert!((usl.kappa.value() / kappa - 1.0).abs() < 1e-2);
        }
    }
}
