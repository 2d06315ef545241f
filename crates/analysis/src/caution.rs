//! What to bear in mind where two sets of results are compared.

use std::fmt;

use krarup_units::text;
use serde::{Deserialize, Serialize};

use crate::outcomes::OutcomeShares;

/// Why two sets may not be comparable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caution {
    /// The two ran on different machines or programs, or with other levels.
    Environment {
        /// In what.
        of: String,
        /// There.
        base: String,
        /// Here.
        other: String,
    },
    /// Cells that only one side has were left out.
    LeftOut {
        /// Cells of the base alone.
        base: u64,
        /// Cells of the other alone.
        other: u64,
    },
    /// What the analysis found wrong with a side's own figures.
    Concerns {
        /// Warnings of the base.
        base: u64,
        /// Warnings of the other.
        other: u64,
    },
    /// Of some cells another share of the requests failed on the other side.
    Failures {
        /// How many cells these are.
        cells: u64,
        /// The mean share of their requests that failed, of the base.
        base: f64,
        /// The same of the other.
        other: f64,
    },
    /// Of some cells another share of the keys was found on the other side.
    Misses {
        /// How many cells these are.
        cells: u64,
        /// The mean share of their keys that was found, of the base.
        base: f64,
        /// The same of the other.
        other: f64,
    },
    /// Each side was run in one session.
    Sessions {
        /// Standard deviation of the anchor's throughput from repetition to repetition, as a share
        /// of it; none where a side has no anchor, or usable runs of it in fewer than two.
        spread: Option<f64>,
        /// Whether both have an anchor.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        anchors: bool,
    },
    /// Cells of a side were run no more when their runs agreed.
    EndedEarly,
    /// So many comparisons at 95 % show some differences by chance alone.
    Many {
        /// How many there are.
        comparisons: u64,
    },
}

impl Caution {
    /// Of the shares that failed; none where they are alike.
    pub fn of_failures(shares: &[OutcomeShares]) -> Option<Self> {
        OutcomeShares::means(shares).map(|(cells, base, other)| Self::Failures { cells, base, other })
    }

    /// Of the shares of keys that were found; none where they are alike.
    pub fn of_hits(shares: &[OutcomeShares]) -> Option<Self> {
        OutcomeShares::means(shares).map(|(cells, base, other)| Self::Misses { cells, base, other })
    }
}

impl fmt::Display for Caution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment { of, base, other } => {
                write!(
                    f,
                    "The two differ: {of} was \"{base}\" and is \"{other}\". What changed may come of that."
                )
            }
            Self::LeftOut { base, other } => {
                write!(
                    f,
                    "{base} cells of the first and {other} of the second have no counterpart and are left out."
                )
            }
            Self::Concerns { base, other } => write!(
                f,
                "The checks found fault with the figures themselves: {base} times in the first, {other} times in the second."
            ),
            Self::Failures { cells, base, other } => write!(
                f,
                "Cells of which another share of the requests fails: {cells}; in the mean it was {} %, and is {} %. What fails may count as throughput, and a refusal is quick.",
                text::three_digits(base * 100.0),
                text::three_digits(other * 100.0)
            ),
            Self::Misses { cells, base, other } => write!(
                f,
                "Cells of which another share of the keys is found: {cells}; in the mean it was {} %, and is {} %. A miss counts as throughput, and is quicker than a value.",
                text::three_digits(base * 100.0),
                text::three_digits(other * 100.0)
            ),
            Self::Sessions { spread: None, anchors } => write!(
                f,
                "All trials of a side were run in one session, and nothing says how much two sessions of the same differ: verdicts of single cells are about \
                 these two sessions, and over all cells there is none. {}, and run both sides again.",
                if *anchors {
                    "The anchor has usable runs in fewer than two repetitions of a side: repeat more often"
                } else {
                    "Give the spec an anchor, as anchor = { levels = { … }, every = 10 }"
                }
            ),
            Self::Sessions { spread: Some(spread), .. } => write!(
                f,
                "All trials of a side were run in one session. The anchor's throughput differs by {} % from repetition to repetition (standard deviation), and intervals hold \
                 that; what lasts for a whole session is in no run of an anchor.",
                text::three_digits(spread * 100.0)
            ),
            Self::EndedEarly => write!(
                f,
                "Runs of a side ended when their spread was small, be it by luck: of cells that are alike up to one in eight is called better or worse, and not one in \
                 twenty. For a verdict give a number of runs, as repetitions = {{ min = 6 }}, and run both sides again."
            ),
            Self::Many { comparisons } => write!(
                f,
                "Of {comparisons} comparisons at 95 %, about {:.0} would show a difference where there is none.",
                (*comparisons as f64 * 0.05).max(1.0)
            ),
        }
    }
}
