//! Four laws of positive times: density, distribution, quantiles, mean and spread.

use crate::error::{StatsError, finite, probability};
use crate::tails::normal_quantile;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Gamma, Normal};
use statrs::function::gamma::{gamma_lr, ln_gamma};
use std::fmt;

/// A family of laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LawFamily {
    /// Without memory: gaps between independent arrivals.
    Exponential,
    /// Sums of exponential steps (shape above 1), or a mixture of fast and slow (below 1).
    Gamma,
    /// Products of many factors: long tails.
    LogNormal,
    /// The smallest or largest of many: shape 1 is the exponential law.
    Weibull,
}

impl LawFamily {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Exponential, Self::Gamma, Self::LogNormal, Self::Weibull];
}

impl fmt::Display for LawFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exponential => "exponential",
            Self::Gamma => "gamma",
            Self::LogNormal => "lognormal",
            Self::Weibull => "Weibull",
        })
    }
}

/// A law with its parameters, all above 0 but `mu`; times in the unit of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Law {
    /// F(x) = 1 − exp(−x/mean).
    Exponential {
        /// Mean, 1/rate.
        mean: f64,
    },
    /// Density x^(k−1) exp(−x/θ) / (Γ(k) θ^k).
    Gamma {
        /// k.
        shape: f64,
        /// θ, a time.
        scale: f64,
    },
    /// ln x is normal.
    LogNormal {
        /// Mean of ln x; exp(mu) is the median.
        mu: f64,
        /// Standard deviation of ln x.
        sigma: f64,
    },
    /// F(x) = 1 − exp(−(x/λ)^k).
    Weibull {
        /// k.
        shape: f64,
        /// λ, a time.
        scale: f64,
    },
}

impl Law {
    /// Its family.
    pub fn family(&self) -> LawFamily {
        match self {
            Self::Exponential { .. } => LawFamily::Exponential,
            Self::Gamma { .. } => LawFamily::Gamma,
            Self::LogNormal { .. } => LawFamily::LogNormal,
            Self::Weibull { .. } => LawFamily::Weibull,
        }
    }

    /// How many parameters it has.
    pub fn parameters(&self) -> usize {
        self.values().len()
    }

    /// Its parameters, in the order of their definition.
    pub fn values(&self) -> Vec<f64> {
        match *self {
            Self::Exponential { mean } => vec![mean],
            Self::Gamma { shape, scale } | Self::Weibull { shape, scale } => vec![shape, scale],
            Self::LogNormal { mu, sigma } => vec![mu, sigma],
        }
    }

    /// Probability of a value of at most `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        match *self {
            Self::Exponential { mean } => -(-x / mean).exp_m1(),
            Self::Gamma { shape, scale } => gamma_lr(shape, x / scale).clamp(0.0, 1.0),
            Self::LogNormal { mu, sigma } => Normal::standard().cdf((x.ln() - mu) / sigma),
            Self::Weibull { shape, scale } => -(-(x / scale).powf(shape)).exp_m1(),
        }
    }

    /// Logarithm of the density at `x` > 0.
    pub fn ln_density(&self, x: f64) -> f64 {
        match *self {
            Self::Exponential { mean } => -mean.ln() - x / mean,
            Self::Gamma { shape, scale } => {
                let y = x / scale;
                (shape - 1.0) * y.ln() - y - scale.ln() - ln_gamma(shape)
            }
            Self::LogNormal { mu, sigma } => {
                let z = (x.ln() - mu) / sigma;
                -x.ln() - sigma.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln() - z * z / 2.0
            }
            Self::Weibull { shape, scale } => {
                let log = x.ln() - scale.ln();
                shape.ln() - scale.ln() + (shape - 1.0) * log - (shape * log).exp()
            }
        }
    }

    /// The value below which a share `p` lies.
    ///
    /// # Errors
    /// If `p` is not strictly between 0 and 1, or the result leaves the range of `f64`.
    pub fn quantile(&self, p: f64) -> Result<f64, StatsError> {
        probability("quantile", p)?;
        let value = match *self {
            Self::Exponential { mean } => -mean * (-p).ln_1p(),
            Self::Gamma { shape, scale } => {
                let unit = Gamma::new(shape, 1.0).map_err(|_| StatsError::OutOfRange {
                    what: "gamma shape",
                    value: shape,
                    range: "above 0",
                })?;
                scale * unit.inverse_cdf(p)
            }
            Self::LogNormal { mu, sigma } => (mu + sigma * normal_quantile(p)?).exp(),
            Self::Weibull { shape, scale } => scale * (-(-p).ln_1p()).powf(1.0 / shape),
        };
        finite("quantile of a law", value)
    }

    /// Its mean.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Exponential { mean } => mean,
            Self::Gamma { shape, scale } => shape * scale,
            Self::LogNormal { mu, sigma } => (mu + sigma * sigma / 2.0).exp(),
            Self::Weibull { shape, scale } => scale * ln_gamma(1.0 + 1.0 / shape).exp(),
        }
    }

    /// Its coefficient of variation, sd / mean: what queueing formulas for general service times
    /// ask for.
    pub fn cov(&self) -> f64 {
        match *self {
            Self::Exponential { .. } => 1.0,
            Self::Gamma { shape, .. } => 1.0 / shape.sqrt(),
            Self::LogNormal { sigma, .. } => (sigma * sigma).exp_m1().sqrt(),
            Self::Weibull { shape, .. } => {
                (ln_gamma(1.0 + 2.0 / shape) - 2.0 * ln_gamma(1.0 + 1.0 / shape)).exp_m1().max(0.0).sqrt()
            }
        }
    }
}

/// ψ'(x) for x > 0: the recurrence ψ'(x) = ψ'(x+1) + 1/x² up to 10, then the asymptotic series
/// (Abramowitz and Stegun 6.4.12).
pub(crate) fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = 1.0 / 6.0
        - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square * (1.0 / 30.0 - square * 5.0 / 66.0)));
    sum + 1.0 / x + square / 2.0 + square / x * series
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn trigamma_has_its_known_values() {
        assert!((trigamma(1.0) - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-13);
        assert!((trigamma(0.5) - std::f64::consts::PI.powi(2) / 2.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn a_quantile_leaves_its_share_below(p in 0.001..0.999f64, shape in 0.3..20.0f64, scale in 1e-6..1e6f64) {
            for law in [
                Law::Exponential { mean: scale },
                Law::Gamma { shape, scale },
                Law::LogNormal { mu: scale.ln(), sigma: shape / 5.0 },
                Law::Weibull { shape, scale },
            ] {
                prop_assert!((law.cdf(law.quantile(p).unwrap()) - p).abs() < 1e-8, "{:?}", law);
            }
        }

        /// The density is the slope of the distribution.
        #[test]
        fn density_and_distribution_agree(p in 0.05..0.95f64, shape in 0.5..10.0f64) {
            for law in [
                Law::Exponential { mean: 2.0 },
                Law::Gamma { shape, scale: 2.0 },
                Law::LogNormal { mu: 1.0, sigma: shape / 5.0 },
                Law::Weibull { shape, scale: 2.0 },
            ] {
                let x = law.quantile(p).unwrap();
                let slope = (law.cdf(x * 1.0001) - law.cdf(x * 0.9999)) / (x * 0.0002);
                prop_assert!((slope / law.ln_density(x).exp() - 1.0).abs() < 1e-3, "{:?}", law);
            }
        }
    }
}
