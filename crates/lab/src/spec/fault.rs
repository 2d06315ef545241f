//! What is done to a station, and to which.
//!
//! ```text
//! runs ── kill ──▶ gone ── restart ──▶ runs, with nothing in it
//! runs ── freeze ──▶ stands still ── thaw ──▶ runs, as it was
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use krarup_units::Seconds;
use krarup_units::text::duration;
use rustix::process::Signal;
use serde::{Deserialize, Deserializer, Serialize};

use super::factor::LevelName;
use super::quantity::time;

/// Something that is done to a station.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// To which.
    pub station: FaultTarget,
    /// When, from the beginning of what is measured.
    #[serde(deserialize_with = "time")]
    pub at: Seconds,
    /// What is done.
    #[serde(rename = "do")]
    pub action: Action,
    /// Only in cells with these levels; without, in all.
    #[serde(default)]
    pub when: BTreeMap<String, LevelName>,
}

/// A station that was started, by its name in messages: `server 2`, `middleware 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultTarget {
    /// The server of this number, from 1.
    Server(u32),
    /// The middleware of this number, from 1.
    Middleware(u32),
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(number) => write!(f, "server {number}"),
            Self::Middleware(number) => write!(f, "middleware {number}"),
        }
    }
}

impl FromStr for FaultTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no station that faults are for: write \"server 2\" or \"middleware 1\"");
        let (kind, number) = text.split_once(' ').ok_or_else(wrong)?;
        let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
        match kind {
            "server" => Ok(Self::Server(number)),
            "middleware" => Ok(Self::Middleware(number)),
            _ => Err(wrong()),
        }
    }
}

impl<'de> Deserialize<'de> for FaultTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is gone at once, as when its machine loses power (SIGKILL).
    Kill,
    /// It takes nothing and says nothing, and its connections stay (SIGSTOP).
    Freeze,
    /// It goes on where it was frozen (SIGCONT).
    Thaw,
    /// It is started once more at its address, with nothing in it.
    Restart,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Restart => "restart",
        })
    }
}

impl Action {
    /// The signal that does it; none where it takes more.
    pub fn signal(self) -> Option<Signal> {
        match self {
            Self::Kill => Some(Signal::KILL),
            Self::Freeze => Some(Signal::STOP),
            Self::Thaw => Some(Signal::CONT),
            Self::Restart => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} at {}", self.action, self.station, duration(self.at))
    }
}
