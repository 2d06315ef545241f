//! Quantiles and tail probabilities of the test distributions, with checked arguments.
//!
//! The arithmetic is `statrs`'; here its panics become values and its names become the textbook's.
//! Its series for t, F and beta are cut after a fixed number of terms, which is too few for large
//! samples: at 10⁷ degrees of freedom the t quantile at 90 % is 16 % too small, and the beta
//! quantile does not return. Beyond the limits below, the expansions about the normal and χ² laws
//! that textbooks give for large samples are used; there they are the more exact ones.

use crate::error::{StatsError, at_least, finite, probability};
use statrs::distribution::{Beta, ChiSquared, ContinuousCDF, FisherSnedecor, Normal, StudentsT};

/// Above, t quantiles come from the normal law; the next term of the expansion is below 1e-9 of the
/// quantile.
const T_QUANTILE_LIMIT: f64 = 1e4;
/// Above, t probabilities come from the normal law.
const T_LIMIT: f64 = 1e6;
/// Above, F probabilities come from χ²; the error is below 1e-6 for up to a few numerator degrees
/// of freedom.
const F_LIMIT: f64 = 1e7;
/// Above, χ² quantiles come from the normal law of their cube roots.
const CHI_SQUARED_LIMIT: f64 = 1e6;

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
    let law = students_t(degrees)?;
    if degrees <= T_QUANTILE_LIMIT {
        return finite("t quantile", law.inverse_cdf(0.5 + level / 2.0));
    }
    // Abramowitz and Stegun 26.7.5.
    let z = normal_quantile(0.5 + level / 2.0)?;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    finite("t quantile", z + first / degrees + second / degrees.powi(2))
}

/// Probability that |T| is at least |t|. An infinite t has probability 0.
///
/// # Errors
/// If the degrees of freedom are not above 0, or there is no number.
pub fn t_two_sided(t: f64, degrees: f64) -> Result<f64, StatsError> {
    if t.is_infinite() {
        return Ok(0.0);
    }
    let law = students_t(degrees)?;
    if degrees <= T_LIMIT {
        return finite("t probability", (2.0 * law.sf(t.abs())).min(1.0));
    }
    // Abramowitz and Stegun 26.7.8.
    finite(
        "t probability",
        normal_two_sided(t * (1.0 - 0.25 / degrees) / (1.0 + t * t / (2.0 * degrees)).sqrt()),
    )
}

/// Probability that F with these degrees of freedom is at least `f`.
pub(crate) fn f_upper(f: f64, numerator: f64, denominator: f64) -> Result<f64, StatsError> {
    let law =
        FisherSnedecor::new(numerator, denominator).map_err(|_| degrees_error(numerator.min(denominator)))?;
    if denominator <= F_LIMIT {
        return finite("F probability", law.sf(f.max(0.0)));
    }
    let limit = ChiSquared::new(numerator).map_err(|_| degrees_error(numerator))?;
    finite("F probability", limit.sf(f.max(0.0) * numerator))
}

/// x such that chi-squared with these degrees of freedom lies below it with probability `p`.
pub(crate) fn chi_squared_quantile(p: f64, degrees: f64) -> Result<f64, StatsError> {
    probability("probability", p)?;
    let law = ChiSquared::new(degrees).map_err(|_| degrees_error(degrees))?;
    if degrees <= CHI_SQUARED_LIMIT {
        return finite("chi-squared quantile", law.inverse_cdf(p));
    }
    // Wilson and Hilferty 1931.
    let part = 2.0 / (9.0 * degrees);
    finite("chi-squared quantile", degrees * (1.0 - part + normal_quantile(p)? * part.sqrt()).powi(3))
}

/// x such that a beta value with shapes a and b, of at most some ten thousand, lies below it with
/// probability `p`.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Against SciPy (t.ppf, t.sf, chi2.ppf, f.sf), on both sides of every limit.
    #[test]
    fn large_samples_have_their_quantiles_too() {
        let close = |ours: f64, theirs: f64, relative: f64| {
            assert!((ours / theirs - 1.0).abs() < relative, "{ours} {theirs}");
        };
        close(t_two_sided_quantile(0.95, 30_000.0).unwrap(), 1.960_043_063_383_934_7, 1e-10);
        close(t_two_sided_quantile(0.9, 1e7).unwrap(), 1.644_853_779_328_401_7, 1e-10);
        close(t_two_sided(2.0, 1e6).unwrap() / 2.0, 0.022_750_266_925_659_62, 1e-7);
        close(t_two_sided(6.0, 1e8).unwrap() / 2.0, 9.865_910_171_576_395e-10, 1e-7);
        close(chi_squared_quantile(0.025, 1e6).unwrap(), 997_230.087_143_290_1, 1e-10);
        close(chi_squared_quantile(0.975, 1e9).unwrap(), 1_000_087_654.148_348_2, 1e-12);
        close(f_upper(2.0, 3.0, 1e7).unwrap(), 0.111_610_298_072_966_07, 1e-6);
        close(f_upper(2.0, 3.0, 1.1e7).unwrap(), 0.111_610_298_072_966_07, 1e-6);
    }
}
