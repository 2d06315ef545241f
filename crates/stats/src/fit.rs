//! Which law times follow: exponential, gamma, lognormal or Weibull, fitted by maximum likelihood
//! and compared.

use crate::error::{StatsError, probability, usable};
use crate::interval::{Estimate, Interval};
use crate::kolmogorov::{KsTest, PValueBasis, distance, p_value};
use crate::law::{Law, LawFamily, trigamma};
use crate::qq::{QqPlot, against};
use crate::random::{fraction, stream};
use crate::summary::Summary;
use crate::tails::{chi_squared_quantile, normal_quantile};
use serde::{Deserialize, Serialize};
use statrs::function::gamma::digamma;
use std::fmt;

/// A law fitted to a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The law at its likeliest parameters.
    pub law: Law,
    /// Parameters by name, with intervals: exact for exponential and lognormal, for the others from
    /// the Fisher information, taken in logarithms so that they stay above 0.
    pub parameters: Vec<(String, Estimate)>,
    /// Log-likelihood ln L at its maximum.
    pub log_likelihood: f64,
    /// Akaike's criterion, 2·parameters − 2 ln L: lower is better, 2 is little, 10 is much.
    pub aic: f64,
    /// Distance to the sample. Its p-value is an upper bound, because the law was fitted
    /// ([`Fit::goodness`] does better).
    pub ks: KsTest,
}

impl Fit {
    /// Fits a family to positive values that do not depend on each other.
    ///
    /// # Errors
    /// If there are fewer than 5 values, one is not finite or not above 0, all are alike, or the
    /// level is not between 0 and 1.
    pub fn of(family: LawFamily, values: &[f64], level: f64) -> Result<Self, StatsError> {
        probability("level", level)?;
        let sample = Sample::of(values)?;
        let law = sample.likeliest(family)?;
        let log_likelihood: f64 = values.iter().map(|&value| law.ln_density(value)).sum();
        let n = values.len() as u64;
        let statistic = distance(values, |value| law.cdf(value))?;
        let p_value = p_value(statistic, n as f64);
        Ok(Self {
            law,
            parameters: sample.parameters(law, level)?,
            log_likelihood: crate::error::finite("log-likelihood", log_likelihood)?,
            aic: 2.0 * law.parameters() as f64 - 2.0 * log_likelihood,
            ks: KsTest { n, statistic, p_value, basis: PValueBasis::EstimatedParameters },
        })
    }

    /// The Kolmogorov–Smirnov test with the fit taken into account: draws `resamples` samples of n
    /// values from the fitted law, fits the same family to each, and counts how many come to lie as
    /// far from their fit as the data from theirs (a parametric bootstrap; for the normal and
    /// exponential law it gives Lilliefors' tables).
    ///
    /// # Errors
    /// If there are fewer than 20 resamples, or the values are not those of the fit.
    pub fn goodness(&self, values: &[f64], resamples: usize, seed: u64) -> Result<KsTest, StatsError> {
        crate::error::at_least("resamples", resamples, 20)?;
        Sample::of(values)?;
        let statistic = distance(values, |value| self.law.cdf(value))?;
        let mut random = stream(seed, 0);
        let mut as_far = 0;
        for _ in 0..resamples {
            let drawn = (0..values.len())
                .map(|_| self.law.quantile(fraction(&mut random)))
                .collect::<Result<Vec<f64>, StatsError>>()?;
            let law = Sample::of(&drawn)?.likeliest(self.law.family())?;
            as_far += usize::from(distance(&drawn, |value| law.cdf(value))? >= statistic);
        }
        // The data are one draw, too: so the p-value is never 0.
        let p_value = (as_far + 1) as f64 / (resamples + 1) as f64;
        Ok(KsTest {
            n: values.len() as u64,
            statistic,
            p_value,
            basis: PValueBasis::Resampled { resamples, seed },
        })
    }

    /// The sample against the fitted law.
    ///
    /// # Errors
    /// If there are fewer than 3 values, one is not finite, or all are alike.
    pub fn qq(&self, values: &[f64]) -> Result<QqPlot, StatsError> {
        against(values, |p| self.law.quantile(p))
    }
}

/// All families fitted, and the one to use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestFit {
    /// Fits, best (lowest AIC) first.
    pub fits: Vec<Fit>,
    /// Akaike weights, in the order of the fits: how the evidence is spread over the families; they
    /// sum to 1.
    pub weights: Vec<f64>,
    /// Whether the best one may be believed.
    pub goodness: KsTest,
    /// What follows.
    pub reason: FitReason,
}

/// Why a law was chosen, or that none should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FitReason {
    /// The best is clearly better than the next, and the data do not speak against it.
    Clear {
        /// By how much its AIC is lower.
        ahead: f64,
        /// The next.
        next: LawFamily,
    },
    /// The data do not speak against it, but the next is nearly as good (AIC within 2): the simpler
    /// or better founded may be used.
    Close {
        /// By how much its AIC is lower.
        ahead: f64,
        /// The next.
        next: LawFamily,
    },
    /// The best of them still does not fit (p of the goodness test): use the sample itself
    /// (empirical quantiles), or look for two populations mixed.
    NoneFits {
        /// Probability of such a distance if the best law were right.
        p_value: f64,
    },
}

impl fmt::Display for FitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clear { ahead, next } => write!(
                f,
                "AIC lower by {ahead:.1} than the next ({next}), and the data do not speak against it"
            ),
            Self::Close { ahead, next } => {
                write!(
                    f,
                    "AIC lower by only {ahead:.1} than the next ({next}): these data cannot tell the two apart"
                )
            }
            Self::NoneFits { p_value } => {
                write!(
                    f,
                    "likeliest of the four, but none fits (p = {p_value:.3}): use the measured quantiles instead"
                )
            }
        }
    }
}

/// Fits all families, orders them by AIC, and tests the best ([`Fit::goodness`]); the test's own
/// level is 1 − `level`. Its cost grows with n times `resamples`; 200 resamples of 1000 values take
/// about a second.
///
/// # Errors
/// As [`Fit::of`] and [`Fit::goodness`].
pub fn best_fit(values: &[f64], level: f64, resamples: usize, seed: u64) -> Result<BestFit, StatsError> {
    let mut fits =
        LawFamily::ALL.iter().map(|&family| Fit::of(family, values, level)).collect::<Result<Vec<_>, _>>()?;
    fits.sort_by(|left, right| left.aic.total_cmp(&right.aic));
    let likelihoods: Vec<f64> = fits.iter().map(|fit| ((fits[0].aic - fit.aic) / 2.0).exp()).collect();
    let all: f64 = likelihoods.iter().sum();
    let goodness = fits[0].goodness(values, resamples, seed)?;
    let (ahead, next) = (fits[1].aic - fits[0].aic, fits[1].law.family());
    let reason = if goodness.p_value < 1.0 - level {
        FitReason::NoneFits { p_value: goodness.p_value }
    } else if ahead > 2.0 {
        FitReason::Clear { ahead, next }
    } else {
        FitReason::Close { ahead, next }
    };
    Ok(BestFit {
        weights: likelihoods.iter().map(|likelihood| likelihood / all).collect(),
        fits,
        goodness,
        reason,
    })
}

/// A sample of positive values with what every fit needs of it.
struct Sample {
    summary: Summary,
    /// Of ln x.
    logarithms: Summary,
    /// ln x − ln max, at most 0: powers of these cannot overflow.
    below_max: Vec<f64>,
    /// mean of ln(x / mean), below 0.
    mean_log_ratio: f64,
}

impl Sample {
    fn of(values: &[f64]) -> Result<Self, StatsError> {
        usable("values for a fit", values, 5)?;
        if let Some(&value) = values.iter().find(|&&value| value <= 0.0) {
            return Err(StatsError::OutOfRange { what: "value for a fit", value, range: "above 0" });
        }
        let summary = Summary::of(values)?;
        if summary.min == summary.max {
            return Err(StatsError::Constant { what: "values for a fit" });
        }
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let logarithms = Summary::of(&logs)?;
        let n = values.len() as f64;
        // ln(1 + d) with d = x/mean − 1 keeps its digits where all x are close to the mean.
        let mean_log_ratio =
            values.iter().map(|x| ((x - summary.mean) / summary.mean).ln_1p()).sum::<f64>() / n;
        let below_max = logs.iter().map(|log| log - logarithms.max).collect();
        Ok(Self { summary, logarithms, below_max, mean_log_ratio })
    }

    /// The law of this family under which the sample is likeliest.
    fn likeliest(&self, family: LawFamily) -> Result<Law, StatsError> {
        let (n, mean) = (self.summary.n as f64, self.summary.mean);
        Ok(match family {
            LawFamily::Exponential => Law::Exponential { mean },
            LawFamily::LogNormal => {
                let (mu, sigma) = (self.logarithms.mean, (self.logarithms.squares / n).sqrt());
                Law::LogNormal { mu, sigma }
            }
            LawFamily::Gamma => {
                // ln k − ψ(k) = −mean ln(x/mean); the left side falls from ∞ to 0.
                let target = -self.mean_log_ratio;
                let shape = falling_root("gamma shape", 0.5 / target, |k| k.ln() - digamma(k) - target)?;
                Law::Gamma { shape, scale: mean / shape }
            }
            LawFamily::Weibull => {
                // 1/k + mean ln x − Σ x^k ln x / Σ x^k = 0, with x as a share of the largest; the
                // left side falls.
                let mean_below = self.below_max.iter().sum::<f64>() / n;
                let slope = |k: f64| {
                    let (mut powers, mut weighted) = (0.0, 0.0);
                    for &log in &self.below_max {
                        let power = (k * log).exp();
                        powers += power;
                        weighted += power * log;
                    }
                    1.0 / k + mean_below - weighted / powers
                };
                let spread = self.logarithms.sd()?;
                let shape = falling_root("Weibull shape", 1.28 / spread, slope)?;
                let mean_power = self.below_max.iter().map(|log| (shape * log).exp()).sum::<f64>() / n;
                Law::Weibull { shape, scale: (self.logarithms.max + mean_power.ln() / shape).exp() }
            }
        })
    }

    fn parameters(&self, law: Law, level: f64) -> Result<Vec<(String, Estimate)>, StatsError> {
        let n = self.summary.n as f64;
        let z = normal_quantile(0.5 + level / 2.0)?;
        let estimate = |name: &str, value: f64, low: f64, high: f64| {
            let interval = Interval { low, high, level };
            (name.to_owned(), Estimate { value, n: self.summary.n, interval })
        };
        // value · exp(± z √variance), the variance being that of the parameter's logarithm.
        let in_logarithms = |name: &str, value: f64, variance: f64| {
            let factor = (z * variance.sqrt()).exp();
            estimate(name, value, value / factor, value * factor)
        };
        let tail = 0.5 - level / 2.0;
        let parameters = match law {
            Law::Exponential { mean } => {
                // 2 n x̄ / mean is χ² with 2n degrees of freedom.
                let sum = 2.0 * n * mean;
                let (low, high) =
                    (chi_squared_quantile(tail, 2.0 * n)?, chi_squared_quantile(1.0 - tail, 2.0 * n)?);
                vec![estimate("mean", mean, sum / high, sum / low)]
            }
            Law::LogNormal { sigma, .. } => {
                let mu = self.logarithms.mean_estimate(level)?;
                let spread = self.logarithms.sd_estimate(level)?;
                vec![
                    ("mu".to_owned(), mu),
                    estimate("sigma", sigma, spread.interval.low, spread.interval.high),
                ]
            }
            Law::Gamma { shape, scale } => {
                // Information of one value about (ln k, ln θ): [[k² ψ'(k), k], [k, k]].
                let curvature = shape * trigamma(shape);
                vec![
                    in_logarithms("shape", shape, 1.0 / (n * shape * (curvature - 1.0))),
                    in_logarithms("scale", scale, curvature / (n * shape * (curvature - 1.0))),
                ]
            }
            Law::Weibull { shape, scale } => {
                // With Euler's γ: var(ln k) = 6/π²n, var(ln λ) = (1 + 6 (1 − γ)²/π²) / (n k²)
                // (Cohen 1965).
                let six = 6.0 / std::f64::consts::PI.powi(2);
                let away = 1.0 - 0.577_215_664_901_532_9_f64;
                vec![
                    in_logarithms("shape", shape, six / n),
                    in_logarithms("scale", scale, (1.0 + six * away * away) / (n * shape * shape)),
                ]
            }
        };
        for (_, estimate) in &parameters {
            crate::error::finite("interval of a parameter", estimate.interval.low + estimate.interval.high)?;
        }
        Ok(parameters)
    }
}

/// The root of a falling function of a positive number, by halving in logarithms from a guess.
fn falling_root(what: &'static str, guess: f64, function: impl Fn(f64) -> f64) -> Result<f64, StatsError> {
    let middle = crate::error::finite(what, guess)?.max(f64::MIN_POSITIVE).ln();
    let (mut low, mut high) = (middle - 1.0, middle + 1.0);
    for _ in 0..40 {
        if function(low.exp()) < 0.0 {
            low -= high - low;
        } else if function(high.exp()) > 0.0 {
            high += high - low;
        } else {
            break;
        }
    }
    if !(function(low.exp()) >= 0.0 && function(high.exp()) <= 0.0) {
        return Err(StatsError::NoConvergence { what, steps: 40 });
    }
    while high - low > 1e-14 * (1.0 + low.abs()) {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if function(middle.exp()) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(((low + high) / 2.0).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drawn(law: Law, n: usize, seed: u64) -> Vec<f64> {
        let mut random = stream(seed, 0);
        (0..n).map(|_| law.quantile(fraction(&mut random)).unwrap()).collect()
    }

    const LAWS: [Law; 4] = [
        Law::Exponential { mean: 0.002 },
        Law::Gamma { shape: 4.0, scale: 0.5 },
        Law::LogNormal { mu: -6.0, sigma: 1.2 },
        Law::Weibull { shape: 2.5, scale: 30.0 },
    ];

    #[test]
    fn every_law_is_recognised_from_its_own_sample_and_its_parameters_lie_in_their_intervals() {
        for (seed, law) in LAWS.into_iter().enumerate() {
            let values = drawn(law, 400, seed as u64 + 1);
            let best = best_fit(&values, 0.99, 20, 9).unwrap();
            let fit = best.fits.iter().find(|fit| fit.law.family() == law.family()).unwrap();
            // The exponential is a gamma and a Weibull law as well: these may come out a little
            // likelier.
            assert!(fit.aic - best.fits[0].aic < 4.0, "{law:?}: {:?}", best.fits[0].law);
            assert!(!matches!(best.reason, FitReason::NoneFits { .. }), "{law:?}: {}", best.reason);
            for ((name, estimate), truth) in fit.parameters.iter().zip(law.values()) {
                assert!(estimate.interval.contains(truth), "{law:?} {name}: {estimate:.6}");
                assert!(estimate.interval.contains(estimate.value));
            }
            assert!((best.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(fit.qq(&values).unwrap().correlation > 0.95);
        }
    }

    #[test]
    fn two_populations_mixed_fit_none_of_them() {
        let mut values = drawn(Law::LogNormal { mu: 0.0, sigma: 0.1 }, 100, 1);
        values.extend(drawn(Law::LogNormal { mu: 3.0, sigma: 0.1 }, 100, 2));
        let best = best_fit(&values, 0.95, 20, 1).unwrap();
        assert!(matches!(best.reason, FitReason::NoneFits { .. }));
        assert!(best.reason.to_string().contains("use the measured quantiles"));
    }

    #[test]
    fn the_test_of_a_fitted_law_is_sharper_than_the_bound() {
        let values = drawn(Law::Exponential { mean: 1.0 }, 100, 5);
        let fit = Fit::of(LawFamily::Exponential, &values, 0.95).unwrap();
        let goodness = fit.goodness(&values, 200, 3).unwrap();
        assert_eq!(fit.ks.basis, PValueBasis::EstimatedParameters);
        assert_eq!(goodness.basis, PValueBasis::Resampled { resamples: 200, seed: 3 });
        assert!(goodness.p_value < fit.ks.p_value && goodness.statistic == fit.ks.statistic);
    }

    #[test]
    fn a_time_of_zero_is_named_and_so_is_a_constant() {
        let zero = Fit::of(LawFamily::Gamma, &[1.0, 2.0, 0.0, 3.0, 4.0], 0.95).unwrap_err();
        assert_eq!(zero.to_string(), "value for a fit is 0, it must be above 0");
        assert_eq!(
            Fit::of(LawFamily::Weibull, &[2.0; 9], 0.95),
            Err(StatsError::Constant { what: "values for a fit" })
        );
        assert!(Fit::of(LawFamily::Weibull, &[1.0, 2.0, 3.0, f64::INFINITY, 2.0], 0.95).is_err());
        assert!(matches!(
            Fit::of(LawFamily::Gamma, &[1.0; 4], 0.95),
            Err(StatsError::TooFew { have: 4, need: 5, .. })
        ));
    }

    #[test]
    fn values_close_together_or_far_apart_are_fitted_without_overflow() {
        let close: Vec<f64> = (0..20).map(|i| 1e9 + f64::from(i)).collect();
        let far: Vec<f64> = (-10..10).map(|i| 10f64.powi(20 * i)).collect();
        for values in [close, far] {
            for family in LawFamily::ALL {
                if let Ok(fit) = Fit::of(family, &values, 0.95) {
                    assert!(fit.aic.is_finite() && fit.ks.p_value.is_finite(), "{fit:?}");
                    assert!(fit.parameters.iter().all(|(_, estimate)| estimate.value.is_finite()));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_change_of_unit_changes_scales_and_no_shapes(scale in 1e-6..1e6f64) {
            let values = drawn(Law::Gamma { shape: 2.0, scale: 1.0 }, 60, 4);
            let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
            for family in [LawFamily::Gamma, LawFamily::Weibull] {
                let (one, other) = (Fit::of(family, &values, 0.95).unwrap(), Fit::of(family, &scaled, 0.95).unwrap());
                let (one, other) = (one.law.values(), other.law.values());
                prop_assert!((other[0] / one[0] - 1.0).abs() < 1e-7);
                prop_assert!((other[1] / one[1] / scale - 1.0).abs() < 1e-7);
            }
        }

        #[test]
        fn no_neighbouring_parameters_are_likelier(seed in 0u64..50, step in 0.9..1.1f64) {
            let values = drawn(Law::Weibull { shape: 1.3, scale: 2.0 }, 40, seed);
            let likelihood = |law: Law| values.iter().map(|&value| law.ln_density(value)).sum::<f64>();
            for family in LawFamily::ALL {
                let best = Fit::of(family, &values, 0.95).unwrap();
                let moved = match best.law {
                    Law::Exponential { mean } => vec![Law::Exponential { mean: mean * step }],
                    Law::Gamma { shape, scale } => vec![Law::Gamma { shape: shape * step, scale }, Law::Gamma { shape, scale: scale * step }],
                    Law::LogNormal { mu, sigma } => vec![Law::LogNormal { mu: mu + step - 1.0, sigma }, Law::LogNormal { mu, sigma: sigma * step }],
                    Law::Weibull { shape, scale } => vec![Law::Weibull { shape: shape * step, scale }, Law::Weibull { shape, scale: scale * step }],
                };
                for law in moved {
                    prop_assert!(likelihood(law) <= best.log_likelihood + 1e-9);
                }
            }
        }
    }
}
