//! Service, think and gap times, by the name of their distribution and its parameters.
//!
//! The solvers need the first two moments only; the simulator draws from the whole.

use krarup_units::Seconds;

use crate::Error;

/// A distribution of a length of time, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant {
        /// The length; ≥ 0.
        value: Seconds,
    },
    /// Memoryless: the one that product-form solutions assume at a FCFS station.
    Exponential {
        /// Mean; ≥ 0.
        mean: Seconds,
    },
    /// The sum of `stages` equal exponentials: less variable than one.
    Erlang {
        /// Number of stages; ≥ 1.
        stages: u32,
        /// Mean of the sum; ≥ 0.
        mean: Seconds,
    },
    /// One of two exponentials, with balanced means (each branch brings half of the mean): more
    /// variable than one.
    Hyperexponential {
        /// Mean; ≥ 0.
        mean: Seconds,
        /// Squared coefficient of variation; ≥ 1.
        scv: f64,
    },
    /// Equally likely between two ends.
    Uniform {
        /// Least; ≥ 0.
        low: Seconds,
        /// Most; ≥ `low`.
        high: Seconds,
    },
    /// Gamma with the given mean and squared coefficient of variation.
    Gamma {
        /// Mean; ≥ 0.
        mean: Seconds,
        /// Squared coefficient of variation; > 0.
        scv: f64,
    },
    /// Lognormal with the given mean and squared coefficient of variation.
    Lognormal {
        /// Mean; ≥ 0.
        mean: Seconds,
        /// Squared coefficient of variation; > 0.
        scv: f64,
    },
    /// Weibull with the given mean and shape (below 1: heavier tail than exponential).
    Weibull {
        /// Mean; ≥ 0.
        mean: Seconds,
        /// Shape; > 0.
        shape: f64,
    },
    /// Pareto with the given mean and shape (the tail falls as x^-shape).
    Pareto {
        /// Mean; ≥ 0.
        mean: Seconds,
        /// Shape; > 1. At 2 or less the variance is infinite.
        shape: f64,
    },
    /// Drawn from measured values, each equally likely.
    Empirical {
        /// The values; not empty, each ≥ 0.
        values: Vec<Seconds>,
    },
    /// Only two moments are known. The simulator draws from a gamma (or constant) with these.
    Moments {
        /// Mean; ≥ 0.
        mean: Seconds,
        /// Squared coefficient of variation; ≥ 0.
        scv: f64,
    },
}

impl Distribution {
    /// Exponential with this mean.
    pub const fn exponential(mean: Seconds) -> Self {
        Self::Exponential { mean }
    }

    /// Always `value`.
    pub const fn constant(value: Seconds) -> Self {
        Self::Constant { value }
    }

    /// The mean, in seconds.
    pub fn mean(&self) -> Seconds {
        match self {
            Self::Constant { value } => *value,
            Self::Exponential { mean }
            | Self::Erlang { mean, .. }
            | Self::Hyperexponential { mean, .. }
            | Self::Gamma { mean, .. }
            | Self::Lognormal { mean, .. }
            | Self::Weibull { mean, .. }
            | Self::Pareto { mean, .. }
            | Self::Moments { mean, .. } => *mean,
            Self::Uniform { low, high } => (low + high) / 2.0,
            Self::Empirical { values } => values.iter().sum::<f64>() / values.len() as f64,
        }
    }

    /// The squared coefficient of variation, variance / mean²: 0 is constant, 1 is exponential;
    /// infinite for a Pareto of shape 2 or less. A mean of zero has a variation of zero.
    pub fn scv(&self) -> f64 {
        if self.mean() <= 0.0 {
            return 0.0;
        }
        match self {
            Self::Constant { .. } => 0.0,
            Self::Exponential { .. } => 1.0,
            Self::Erlang { stages, .. } => 1.0 / f64::from(*stages),
            Self::Hyperexponential { scv, .. }
            | Self::Gamma { scv, .. }
            | Self::Lognormal { scv, .. }
            | Self::Moments { scv, .. } => *scv,
            Self::Uniform { low, high } => {
                let relative = (high - low) / (low + high);
                relative * relative / 3.0
            }
            Self::Weibull { shape, .. } => {
                (ln_gamma(1.0 + 2.0 / shape) - 2.0 * ln_gamma(1.0 + 1.0 / shape)).exp() - 1.0
            }
            Self::Pareto { shape, .. } if *shape <= 2.0 => f64::INFINITY,
            Self::Pareto { shape, .. } => 1.0 / (shape * (shape - 2.0)),
            Self::Empirical { values } => {
                let mean = self.mean();
                values.iter().map(|v| (v / mean - 1.0).powi(2)).sum::<f64>() / values.len() as f64
            }
        }
    }

    /// The Laplace–Stieltjes transform E[e^(−s·T)] at `s` ≥ 0 per second: the probability that an
    /// exponential time of rate s is longer. None where it has no closed form (lognormal, Weibull,
    /// Pareto), or where two moments are all that is known.
    pub fn transform(&self, s: f64) -> Option<f64> {
        let branch = |share: f64, mean: Seconds| share / (1.0 + s * mean);
        Some(match self {
            Self::Constant { value } => (-s * value).exp(),
            Self::Exponential { mean } => branch(1.0, *mean),
            Self::Erlang { stages, mean } => branch(1.0, mean / f64::from(*stages)).powf(f64::from(*stages)),
            Self::Gamma { mean, scv } => branch(1.0, mean * scv).powf(1.0 / scv),
            Self::Hyperexponential { mean, scv } => {
                let [(share, first), (other, second)] = balanced(*mean, *scv);
                branch(share, first) + branch(other, second)
            }
            Self::Uniform { low, high } if s * (high - low) > 0.0 => {
                (-s * low).exp() * -(-s * (high - low)).exp_m1() / (s * (high - low))
            }
            Self::Uniform { low, .. } => (-s * low).exp(),
            Self::Empirical { values } => {
                values.iter().map(|value| (-s * value).exp()).sum::<f64>() / values.len() as f64
            }
            Self::Lognormal { .. } | Self::Weibull { .. } | Self::Pareto { .. } | Self::Moments { .. } => {
                return None;
            }
        })
    }

    /// The mean square, mean²·(1 + c²).
    pub(crate) fn square(&self) -> f64 {
        let mean = self.mean();
        if mean > 0.0 { mean * mean * (1.0 + self.scv()) } else { 0.0 }
    }

    /// The same shape with every time multiplied by `factor` (≥ 0).
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        match &mut scaled {
            Self::Constant { value } => *value *= factor,
            Self::Exponential { mean }
            | Self::Erlang { mean, .. }
            | Self::Hyperexponential { mean, .. }
            | Self::Gamma { mean, .. }
            | Self::Lognormal { mean, .. }
            | Self::Weibull { mean, .. }
            | Self::Pareto { mean, .. }
            | Self::Moments { mean, .. } => *mean *= factor,
            Self::Uniform { low, high } => {
                *low *= factor;
                *high *= factor;
            }
            Self::Empirical { values } => values.iter_mut().for_each(|v| *v *= factor),
        }
        scaled
    }

    /// Whether it is exponential, which FCFS stations must be for a product-form solution. An
    /// Erlang of one stage and a length that is always zero count too.
    pub fn is_exponential(&self) -> bool {
        self.mean() == 0.0 || matches!(self, Self::Exponential { .. } | Self::Erlang { stages: 1, .. })
    }

    /// The name as the TOML form writes it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Constant { .. } => "constant",
            Self::Exponential { .. } => "exponential",
            Self::Erlang { .. } => "erlang",
            Self::Hyperexponential { .. } => "hyperexponential",
            Self::Uniform { .. } => "uniform",
            Self::Gamma { .. } => "gamma",
            Self::Lognormal { .. } => "lognormal",
            Self::Weibull { .. } => "weibull",
            Self::Pareto { .. } => "pareto",
            Self::Empirical { .. } => "empirical",
            Self::Moments { .. } => "moments",
        }
    }

    /// Checks every parameter against its range.
    ///
    /// # Errors
    /// Names the parameter and its range.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |why: String, hint: &str| Err(Error::invalid(format!("{} time", self.name()), why, hint));
        let range = |name: &str, value: f64, least: f64, open: bool| {
            let inside = value.is_finite() && if open { value > least } else { value >= least };
            if inside {
                None
            } else {
                Some(format!("{name} is {value}, must be {} {least}", if open { ">" } else { "≥" }))
            }
        };
        let problem = match self {
            Self::Constant { value } => range("length", *value, 0.0, false),
            Self::Exponential { mean } => range("mean", *mean, 0.0, false),
            Self::Erlang { stages, mean } => {
                range("mean", *mean, 0.0, false).or(range("stages", f64::from(*stages), 1.0, false))
            }
            Self::Hyperexponential { mean, scv } => {
                range("mean", *mean, 0.0, false).or(range("scv", *scv, 1.0, false))
            }
            Self::Gamma { mean, scv } | Self::Lognormal { mean, scv } => {
                range("mean", *mean, 0.0, false).or(range("scv", *scv, 0.0, true))
            }
            Self::Moments { mean, scv } => {
                range("mean", *mean, 0.0, false).or(range("scv", *scv, 0.0, false))
            }
            Self::Weibull { mean, shape } => {
                range("mean", *mean, 0.0, false).or(range("shape", *shape, 0.0, true)).or_else(|| {
                    let holds = ln_gamma(1.0 + 2.0 / shape) <= MOST_LN_SQUARE;
                    (!holds).then(|| format!("shape is {shape}: its variance is more than a number holds"))
                })
            }
            Self::Pareto { mean, shape } => {
                range("mean", *mean, 0.0, false).or(range("shape", *shape, 1.0, true))
            }
            Self::Uniform { low, high } => {
                range("low", *low, 0.0, false).or(range("high", *high, *low, false))
            }
            Self::Empirical { values } if values.is_empty() => {
                return wrong("no values".into(), "give at least one measured value");
            }
            Self::Empirical { values } => values.iter().find_map(|v| range("value", *v, 0.0, false)),
        };
        problem.map_or(Ok(()), |why| wrong(why, "use a value inside the range"))
    }
}

/// The logarithm of the mean square of a Weibull time of scale 1 at most: e^709 is the end of f64.
const MOST_LN_SQUARE: f64 = 700.0;

/// ln Γ(x) for x > 0, by Stirling's series after shifting x above 10; error below 1e-13 (Abramowitz
/// & Stegun 6.1.41).
pub(crate) fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut x = x;
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse
        * (1.0 / 12.0
            - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

/// The share and the mean of both branches of a hyperexponential time with balanced means: share ·
/// mean is half of the whole's in each (Allen 1990, §3.2).
pub(crate) fn balanced(mean: Seconds, scv: f64) -> [(f64, Seconds); 2] {
    let share = (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt()) / 2.0;
    [share, 1.0 - share].map(|share| (share, mean / (2.0 * share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_gamma_agrees_with_factorials_and_with_the_root_of_pi() {
        assert!((ln_gamma(5.0) - 24.0_f64.ln()).abs() < 1e-13);
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-13);
        assert!((ln_gamma(20.0) - 39.339_884_187_199_49).abs() < 1e-12);
    }

    #[test]
    fn a_weibull_of_shape_one_is_an_exponential() {
        let weibull = Distribution::Weibull { mean: 2.0, shape: 1.0 };
        assert!((weibull.scv() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn scaling_changes_the_mean_and_not_the_variation() {
        for d in [
            Distribution::constant(2.0),
            Distribution::Uniform { low: 1.0, high: 3.0 },
            Distribution::Empirical { values: vec![1.0, 2.0, 3.0] },
            Distribution::Pareto { mean: 2.0, shape: 2.5 },
            Distribution::Erlang { stages: 4, mean: 2.0 },
        ] {
            let scaled = d.scaled(10.0);
            assert!((d.mean() - 2.0).abs() < 1e-12, "{d:?}");
            assert!((scaled.mean() - 20.0).abs() < 1e-12, "{d:?}");
            assert!((scaled.scv() - d.scv()).abs() < 1e-12, "{d:?}");
        }
    }

    #[test]
    fn a_parameter_outside_its_range_is_named() {
        let error = Distribution::Hyperexponential { mean: 1.0, scv: 0.5 }.check().unwrap_err();
        assert_eq!(error.to_string(), "hyperexponential time: scv is 0.5, must be ≥ 1");
        assert!(Distribution::exponential(f64::NAN).check().is_err());
        assert!(Distribution::Empirical { values: vec![] }.check().is_err());
        for shape in [0.005, 1e-320] {
            assert!(Distribution::Weibull { mean: 1.0, shape }.check().is_err(), "{shape}");
        }
        assert!(Distribution::Weibull { mean: 1.0, shape: 0.1 }.check().is_ok());
    }

    /// −d/ds at 0 is the mean, d²/ds² the mean square.
    #[test]
    fn the_transform_has_the_moments_of_the_distribution() {
        for time in [
            Distribution::constant(2.0),
            Distribution::exponential(2.0),
            Distribution::Erlang { stages: 3, mean: 2.0 },
            Distribution::Hyperexponential { mean: 2.0, scv: 4.0 },
            Distribution::Uniform { low: 1.0, high: 3.0 },
            Distribution::Gamma { mean: 2.0, scv: 0.7 },
            Distribution::Empirical { values: vec![1.0, 1.0, 4.0] },
        ] {
            let at = |s| time.transform(s).unwrap();
            let step = 1e-4;
            let slope = (at(2.0 * step) - at(0.0)) / (2.0 * step);
            let bend = (at(2.0 * step) - 2.0 * at(step) + at(0.0)) / (step * step);
            assert_eq!(at(0.0), 1.0, "{time:?}");
            assert!((-slope / time.mean() - 1.0).abs() < 2e-3, "{time:?}: {slope}");
            assert!((bend / time.square() - 1.0).abs() < 2e-2, "{time:?}: {bend}");
        }
        assert_eq!(Distribution::Pareto { mean: 1.0, shape: 2.5 }.transform(1.0), None);
    }
}
