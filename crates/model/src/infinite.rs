//! Numbers that may be infinite: JSON has `null` for them, and that is read back as what it was.

use serde::{Deserialize, Deserializer};

use crate::calibrate::CurveFamily;

/// A number, infinite where the text says `null`.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

/// Forms with their scores, likewise.
pub(crate) fn scores<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(CurveFamily, f64)>, D::Error> {
    let scores: Vec<(CurveFamily, Option<f64>)> = Vec::deserialize(deserializer)?;
    Ok(scores.into_iter().map(|(form, score)| (form, score.unwrap_or(f64::INFINITY))).collect())
}
