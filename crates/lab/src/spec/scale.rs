//! So many times slower than the machines that a spec speaks of, so that they fit into one that has
//! fewer processors.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use krarup_settings::kind::{
    Count, CustomText, Duration, FreeTable, Inline, List, Located, Number, Optional, OrWords, Word,
};
use krarup_settings::{Mistake, settings};
use krarup_units::{Nanos, Seconds};
use toml::Spanned;

use super::factor::{LEVEL, LevelName};
use super::station::MOST as STATIONS;

/// The largest scale: a second becomes a quarter of an hour.
const MOST: f64 = 1_000.0;
/// How long one run of a calibration may be measured.
const LENGTH: Duration = Duration::between(Nanos::from_millis(500), Nanos::from_secs(600));

settings! {
    /// Everything is so many times slower than on the machines that the spec speaks of.
    #[derive(Clone, Debug)]
    pub struct TestbedScale {
        /// How many times slower: a number, or `auto`, the least whole one with which the
        /// processors of all stations fit into those at hand.
        by: ScaleBy = ScaleBy::Auto, OrWords(BY, &[AUTO]), example = "20";
        /// How long each run is that looks for the share of a station by its baseline.
        measure: Seconds = 5.0, LENGTH;
        /// What was published of single stations: one `[[scale.baseline]]` each. The share of its
        /// kind is the one with which one such station gives that. Without, a share is that of the
        /// scale.
        baselines: Vec<Spanned<Baseline>> = Vec::new(), List(Located(Inline)), key = "baseline",
            example = "[[scale.baseline]]";
    }
}

settings! {
    /// What was published of a single station.
    #[derive(Clone, Debug)]
    pub struct Baseline {
        /// Which kind. Servers are asked without a middleware, and none of the other stations is
        /// limited in its processors.
        station: StationRole = StationRole::Servers, ROLE, required = true, example = "\"servers\"";
        /// In which cell: the level of each factor that has several.
        levels: BTreeMap<String, LevelName> = BTreeMap::new(), FreeTable(LEVEL), required = true,
            example = "{ operation = \"write-only\", connections = 64 }";
        /// How many clients' machines asked it, where that were others than in the cell.
        clients: Option<u32> = None, Optional(Count::between(1, STATIONS as u64)), example = "3";
        /// Requests per second that were published of one such station.
        throughput: f64 = 0.0, Number::POSITIVE, required = true, example = "16334";
    }
}

/// The word for a scale that is chosen.
const AUTO: &str = "auto";
const BY: CustomText<ScaleBy> = CustomText { read: str::parse, write: ScaleBy::to_string };

/// How many times slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScaleBy {
    /// As many times as it takes.
    Auto,
    /// So many; at least 1.
    Times(f64),
}

impl FromStr for ScaleBy {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        match text.parse::<f64>() {
            _ if text == AUTO => Ok(Self::Auto),
            Ok(times) if (1.0..=MOST).contains(&times) => Ok(Self::Times(times)),
            _ => Err(Mistake::new(
                format!("`{text}` is no scale"),
                format!("write a number from 1 to {MOST}, or \"auto\""),
            )),
        }
    }
}

impl fmt::Display for ScaleBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Times(times) => write!(f, "{times}"),
        }
    }
}

/// Which kind of station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StationRole {
    /// What makes the load.
    Clients,
    /// What stands between.
    Middleware,
    /// What answers.
    Servers,
}

/// Each with its name in a spec.
const ROLE: Word<StationRole> = Word(&[
    (StationRole::Clients, "clients"),
    (StationRole::Middleware, "middleware"),
    (StationRole::Servers, "servers"),
]);

impl StationRole {
    /// Its name in a spec.
    pub fn name(self) -> &'static str {
        ROLE.word(self).expect("all are listed")
    }

    /// The letter that the names of its hosts begin with.
    pub fn letter(self) -> char {
        match self {
            Self::Clients => 'c',
            Self::Middleware => 'm',
            Self::Servers => 's',
        }
    }
}
