//! Analysis of variance.

use crate::error::StatsError;
use crate::tails::f_upper;
use serde::{Deserialize, Serialize};

/// Whether one mean square is larger than another by more than chance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FTest {
    /// Ratio of the mean squares.
    pub f: f64,
    /// Degrees of freedom of the effect.
    pub numerator: f64,
    /// Degrees of freedom of the error.
    pub denominator: f64,
    /// Probability of a ratio at least this large if there were no effect.
    pub p_value: f64,
}

impl FTest {
    /// The test of an effect's sum of squares against the error's. None when there is nothing to test against: no degrees of
    /// freedom, or an error of zero.
    pub(crate) fn of(
        effect_squares: f64,
        effect_degrees: f64,
        error_squares: f64,
        error_degrees: f64,
    ) -> Result<Option<Self>, StatsError> {
        let f = (effect_squares.max(0.0) / effect_degrees) / (error_squares / error_degrees);
        if effect_degrees <= 0.0 || error_degrees <= 0.0 || !f.is_finite() {
            return Ok(None);
        }
        let p_value = f_upper(f, effect_degrees, error_degrees)?;
        Ok(Some(Self { f, numerator: effect_degrees, denominator: error_degrees, p_value }))
    }
}
