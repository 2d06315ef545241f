//! What a sheet comes to after the measurement: each question with its guess, the model's figure,
//! what was measured, and how good guess and model are.

use std::fmt;

use krarup_model::sheet::SheetFigure;
use krarup_units::Unit;
use krarup_units::text::three_digits;
use serde::{Deserialize, Serialize};

/// Of the right order is what is wrong by less than this factor.
pub const ORDER: f64 = 3.0;

/// A sheet after the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradedSheet {
    /// When the guesses were sealed; empty where the file of them is gone.
    pub sealed: String,
    /// How many trials belong to it.
    pub trials: usize,
    /// Trials that were measured when other guesses were sealed.
    pub changed: usize,
    /// Trials that were measured before any were.
    pub before: usize,
    /// Trials that had been measured in the directory when they were sealed, of any plan.
    #[serde(default)]
    pub trials_there: usize,
    /// Questions that ask something else now than was asked, or are gone from the spec.
    pub reworded: Vec<String>,
    /// One for each question, and for each that is gone from the spec.
    pub steps: Vec<GradedStep>,
}

/// A question with its answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradedStep {
    /// Its name.
    pub id: String,
    /// The question.
    pub ask: String,
    /// The unit of all its answers.
    pub unit: SheetUnit,
    /// What was guessed, in the base unit; none where nothing was.
    pub guess: Option<f64>,
    /// What a model says; none where it needs more than was measured.
    pub model: Option<SheetFigure>,
    /// What was measured.
    pub measured: SheetAnswer,
    /// Of the guess.
    pub grade: Grade,
    /// Of the model.
    pub model_grade: Grade,
}

/// A unit, as it is kept in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SheetUnit {
    /// Per second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// A relative change.
    Share,
    /// A number.
    Count,
}

impl From<Unit> for SheetUnit {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::PerSecond => Self::PerSecond,
            Unit::Seconds => Self::Seconds,
            Unit::Share => Self::Share,
            Unit::Count | Unit::Cores | Unit::Text => Self::Count,
        }
    }
}

impl From<SheetUnit> for Unit {
    fn from(unit: SheetUnit) -> Self {
        match unit {
            SheetUnit::PerSecond => Self::PerSecond,
            SheetUnit::Seconds => Self::Seconds,
            SheetUnit::Share => Self::Share,
            SheetUnit::Count => Self::Count,
        }
    }
}

/// What was measured to answer a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SheetAnswer {
    /// This.
    Measured {
        /// The value.
        value: f64,
        /// Where the true one may lie; none where nothing says that.
        interval: Option<(f64, f64)>,
        /// The cell.
        at: String,
    },
    /// Nothing answers it: guesses are held against the model.
    NotAsked,
    /// What was measured allows no conclusion.
    NoConclusion {
        /// Why.
        why: String,
    },
}

/// How good an answer is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// There is none.
    None,
    /// Within the interval, or near enough.
    Right,
    /// Wrong by less than [`ORDER`].
    RightOrder {
        /// Divided by what is right.
        times: f64,
    },
    /// Wrong by more.
    Off {
        /// Divided by what is right; the largest number where that is 0.
        times: f64,
    },
    /// A change where none is right or known, or none where one is.
    OffPoints {
        /// Minus what is right.
        by: f64,
    },
    /// A change in the right direction.
    RightDirection {
        /// Minus what is right.
        by: f64,
    },
    /// A change in the wrong direction.
    WrongDirection {
        /// Minus what is right.
        by: f64,
    },
    /// Nothing is known well enough to say.
    NotDecidable,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factor = |f: &mut fmt::Formatter<'_>, times: f64| match times {
            times if (1.0..f64::MAX).contains(&times) => {
                write!(f, "{} times too high", three_digits(times))
            }
            times if times > 0.0 && times < 1.0 => write!(f, "{} times too low", three_digits(1.0 / times)),
            0.0 => write!(f, "it is not 0"),
            _ => write!(f, "it is 0"),
        };
        let points = |by: f64| {
            let way = if by > 0.0 { "high" } else { "low" };
            format!("{} points too {way}", three_digits(100.0 * by.abs()))
        };
        match self {
            Self::None => write!(f, "no guess"),
            Self::Right => write!(f, "right"),
            Self::RightOrder { times } => {
                write!(f, "right order, ")?;
                factor(f, *times)
            }
            Self::Off { times } => {
                write!(f, "off: ")?;
                factor(f, *times)
            }
            Self::OffPoints { by } => write!(f, "off: {}", points(*by)),
            Self::RightDirection { by } => write!(f, "right direction, {}", points(*by)),
            Self::WrongDirection { by } => write!(f, "off: wrong direction, {}", points(*by)),
            Self::NotDecidable => write!(f, "not decidable"),
        }
    }
}
