//! Why there is no estimate: the thing, what was wrong with it, and what would help.

/// The reason a sample gives no estimate. Every variant names the sample or parameter it speaks of.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// Fewer values than the method needs.
    #[error("{have} {what} are too few: at least {need} are needed")]
    TooFew {
        /// What was counted: `values`, `repetitions`, `batches`.
        what: &'static str,
        /// How many there are.
        have: u64,
        /// How many the method needs at least.
        need: u64,
    },
    /// A value that is NaN or infinite. Such a value would spread silently into every result.
    #[error("{what}: value {index} (counted from 0) is {value}")]
    NotFinite {
        /// The sample it stands in.
        what: &'static str,
        /// Its place, counted from 0.
        index: usize,
        /// `NaN`, `inf` or `-inf`, as text, so that errors can be compared.
        value: String,
    },
    /// A value outside the range in which the method means something.
    #[error("{what} is {value}, it must be {range}")]
    OutOfRange {
        /// The parameter or sample.
        what: &'static str,
        /// The value given.
        value: f64,
        /// The range in words: `between 0 and 1`, `above 0`.
        range: &'static str,
    },
    /// All values are alike, so nothing can be said about their spread.
    #[error("{what}: all values are alike, so nothing can be said about their spread")]
    Constant {
        /// The sample.
        what: &'static str,
    },
    /// Two samples that belong together differ in length.
    #[error("{what}: lengths {left} and {right} must be equal")]
    Unequal {
        /// What the two lengths are.
        what: &'static str,
        /// The first length.
        left: usize,
        /// The second length.
        right: usize,
    },
    /// A column of a regression is a combination of the others (or constant beside an intercept).
    #[error(
        "column `{column}` is a combination of the others: its coefficient is not determined, leave it out"
    )]
    Dependent {
        /// The column's name.
        column: String,
    },
    /// A cell of a design differs from the others.
    #[error("cell {cell}: {why}")]
    Cell {
        /// The cell, by its levels: `A=-1 B=+1`.
        cell: String,
        /// What is wrong with it.
        why: String,
    },
    /// The design itself makes no sense.
    #[error("design: {why}")]
    Design {
        /// What is wrong with it.
        why: String,
    },
    /// Successive values depend on each other so much that no interval can be trusted.
    #[error(
        "{what}: the means of {batches} batches still have lag-1 autocorrelation {lag1:.2}: the run is too short for an interval, make it longer"
    )]
    Correlated {
        /// The series.
        what: &'static str,
        /// The lag-1 autocorrelation that is left.
        lag1: f64,
        /// The number of batches at which it was seen.
        batches: usize,
    },
    /// A search ended without an answer.
    #[error("{what}: no answer after {steps} steps")]
    NoConvergence {
        /// What was searched.
        what: &'static str,
        /// The steps that were made.
        steps: usize,
    },
    /// The arithmetic left the range of `f64`: values too large, or too close together, to work
    /// with.
    #[error("{what} cannot be computed: the values leave the range of floating point numbers")]
    Overflow {
        /// What could not be computed.
        what: &'static str,
    },
}

/// Every value is finite, or the first that is not, by its place.
pub(crate) fn all_finite(what: &'static str, values: &[f64]) -> Result<(), StatsError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(StatsError::NotFinite { what, index, value: values[index].to_string() }),
        None => Ok(()),
    }
}

/// At least `need` values, all finite.
pub(crate) fn usable(what: &'static str, values: &[f64], need: usize) -> Result<(), StatsError> {
    at_least(what, values.len(), need)?;
    all_finite(what, values)
}

/// At least `need` of them.
pub(crate) fn at_least(what: &'static str, have: usize, need: usize) -> Result<(), StatsError> {
    if have < need {
        return Err(StatsError::TooFew { what, have: have as u64, need: need as u64 });
    }
    Ok(())
}

/// A result that must be a number.
pub(crate) fn finite(what: &'static str, value: f64) -> Result<f64, StatsError> {
    if value.is_finite() { Ok(value) } else { Err(StatsError::Overflow { what }) }
}

/// A probability strictly between 0 and 1.
pub(crate) fn probability(what: &'static str, value: f64) -> Result<f64, StatsError> {
    if value > 0.0 && value < 1.0 {
        Ok(value)
    } else {
        Err(StatsError::OutOfRange { what, value, range: "above 0 and below 1" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_thing_and_its_place() {
        let error = all_finite("response times", &[1.0, f64::NAN]).unwrap_err();
        assert_eq!(error.to_string(), "response times: value 1 (counted from 0) is NaN");
        let error = usable("repetitions", &[1.0], 2).unwrap_err();
        assert_eq!(error.to_string(), "1 repetitions are too few: at least 2 are needed");
    }

    #[test]
    fn a_level_of_95_is_refused_where_0_95_is_meant() {
        let error = probability("level", 95.0).unwrap_err();
        assert_eq!(error.to_string(), "level is 95, it must be above 0 and below 1");
        assert!(probability("level", f64::NAN).is_err());
    }
}
