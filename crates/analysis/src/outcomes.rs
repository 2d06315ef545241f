//! What neither rates nor times tell of a cell: which share of its requests failed, and which of
//! its keys was found. A refusal is quick, and so is a miss.

/// A share of one cell that is not the same on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct OutcomeShares {
    /// The cell, in words.
    pub cell: String,
    /// The share on the side that is compared with.
    pub base: f64,
    /// The share on the side that is compared.
    pub other: f64,
}

/// Shares that differ by no more than this are alike.
const ALIKE: f64 = 0.01;

impl OutcomeShares {
    /// None where both are alike.
    pub(crate) fn of(cell: String, base: f64, other: f64) -> Option<Self> {
        ((other - base).abs() > ALIKE).then_some(Self { cell, base, other })
    }

    /// How many cells these are, and the mean share of each side; none without a cell.
    pub(crate) fn means(shares: &[Self]) -> Option<(u64, f64, f64)> {
        let mean = |of: fn(&Self) -> f64| shares.iter().map(of).sum::<f64>() / shares.len() as f64;
        (!shares.is_empty()).then(|| (shares.len() as u64, mean(|one| one.base), mean(|one| one.other)))
    }
}
