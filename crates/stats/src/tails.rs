//! Quantiles and tail probabilities of the test distributions, with checked arguments.
//!
//! The arithmetic is `statrs`'; here its panics become values and its names become the textbook's.

use crate::error::{StatsError, at_least, finite, probability};
use statrs::distribution::{Beta, ChiSquared, ContinuousCDF, FisherSnedecor, Normal, StudentsT};

/// z such that a standard normal value lies below it with probability `p`.
pub(crate) fn normal_quantile(p: f64) -> Result<f64, StatsError> {
    probability("probability", p)?;
    finite("normal quantile", Normal::standard().inverse_cdf(p))
}

/// Probability that a standard normal value lies at least |z| away from zero, on either side.
pub(crate) fn normal_two_sided(z: f64) -> f64 {
    (2.0 * Normal::standard().sf(z.abs())).min(1.0)
}

/// t such that |T| ≤ t with probability `level` (the t[1−α/2; ν] of the tables).
pub(crate) fn t_two_sided_quantile(level: f64, degrees: f64) -> Result<f64, StatsError> {
    probability("level", level)?;
    finite("t quantile", students_t(degrees)?.inverse_cdf(0.5 + level / 2.0))
}

/// Probability that |T| is at least |t|. An infinite t has probability 0.
pub(crate) fn t_two_sided(t: f64, degrees: f64) -> Result<f64, StatsError> {
    if t.is_infinite() {
        return Ok(0.0);
    }
    finite("t probability", (2.0 * students_t(degrees)?.sf(t.abs())).min(1.0))
}

/// Probability that F with these degrees of freedom is at least `f`.
pub(crate) fn f_upper(f: f64, numerator: f64, denominator: f64) -> Result<f64, StatsError> {
    let law =
        FisherSnedecor::new(numerator, denominator).map_err(|_| degrees_error(numerator.min(denominator)))?;
    finite("F probability", law.sf(f.max(0.0)))
}

/// x such that chi-squared with these degrees of freedom lies below it with probability `p`.
pub(crate) fn chi_squared_quantile(p: f64, degrees: f64) -> Result<f64, StatsError> {
    probability("probability", p)?;
    let law = ChiSquared::new(degrees).map_err(|_| degrees_error(degrees))?;
    finite("chi-squared quantile", law.inverse_cdf(p))
}

/// x such that a beta value with shapes a and b lies below it with probability `p`.
pub(crate) fn beta_quantile(p: f64, a: f64, b: f64) -> Result<f64, StatsError> {
    probability("probability", p)?;
    let law = Beta::new(a, b).map_err(|_| degrees_error(a.min(b)))?;
    finite("beta quantile", law.inverse_cdf(p))
}

fn students_t(degrees: f64) -> Result<StudentsT, StatsError> {
    StudentsT::new(0.0, 1.0, degrees).map_err(|_| degrees_error(degrees))
}

fn degrees_error(degrees: f64) -> StatsError {
    StatsError::OutOfRange { what: "degrees of freedom", value: degrees, range: "above 0" }
}

/// Degrees of freedom left after `parameters` were estimated from `n` values; at least one.
pub(crate) fn degrees_left(what: &'static str, n: usize, parameters: usize) -> Result<f64, StatsError> {
    at_least(what, n, parameters + 1)?;
    Ok((n - parameters) as f64)
}
