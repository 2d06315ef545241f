//! What is done to a station, and to which.
//!
//! ```text
//! runs ── kill ──▶ gone ── restart ──▶ runs, with nothing in it
//! runs ── freeze ──▶ stands still ── thaw ──▶ runs, as it was
//! runs ── pause ──▶ stands still for a time, once or again and again
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use krarup_settings::kind::{CustomText, DAY, Duration, FreeTable, FromText, Optional, Word};
use krarup_settings::{Mistake, settings};
use krarup_units::text::duration;
use krarup_units::{Nanos, Seconds};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::factor::{LEVEL, LevelName};

/// A millisecond at least: what is shorter no machine holds.
const PAUSE: Duration = Duration::between(Nanos::from_millis(1), DAY);

settings! {
    /// Something that is done to a station.
    #[derive(Clone, Debug)]
    pub struct Fault {
        /// To which of those that the spec starts: the kind, and the number from 1.
        station: FaultTarget = FaultTarget::Server(1), FromText, required = true, example = "\"server 2\"";
        /// When, from the beginning of what is measured.
        at: Seconds = 0.0, Duration::up_to(DAY), required = true, example = "\"3s\"";
        /// What is done. `kill`: it is gone at once, its memory too; `restart`: it is started once
        /// more at its address with nothing in it, killed before where it runs; `freeze`: it takes
        /// nothing and says nothing, and its connections stay; `thaw`: it goes on; `pause`: it is
        /// frozen for a time and goes on. A middleware is not killed: then it writes no records.
        action: Action = Action::Kill, ACTION, key = "do", required = true, example = "\"kill\"";
        /// How long a pause is.
        lasts: Option<Seconds> = None, Optional(PAUSE), key = "for", example = "\"20ms\"";
        /// Again and again, so long after the beginning of the pause before; without, once.
        every: Option<Seconds> = None, Optional(PAUSE), example = "\"1s\"";
        /// Only in cells with these levels; without, in all.
        when: BTreeMap<String, LevelName> = BTreeMap::new(), FreeTable(LEVEL), example = "{ loss = \"kill\" }";
    }
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
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let number = |number: &str| number.parse().ok().filter(|number| *number > 0);
        let target = match text.split_once(' ') {
            Some(("server", rest)) => number(rest).map(Self::Server),
            Some(("middleware", rest)) => number(rest).map(Self::Middleware),
            _ => None,
        };
        target.ok_or_else(|| {
            let what = format!("`{text}` is no station that faults are for");
            Mistake::new(what, "write \"server 2\" or \"middleware 1\"")
        })
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
    /// It is frozen for a time, once or again and again, and goes on.
    Pause,
}

const ACTIONS: Word<Action> = Word(&[
    (Action::Kill, "kill"),
    (Action::Freeze, "freeze"),
    (Action::Thaw, "thaw"),
    (Action::Restart, "restart"),
    (Action::Pause, "pause"),
]);

const ACTION: CustomText<Action> =
    CustomText { read: |text| ACTIONS.of("action", text), write: Action::to_string };

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ACTIONS.word(*self).expect("each has a word"))
    }
}

impl Action {
    /// The signal that does it; none where it takes more.
    pub fn signal(self) -> Option<Signal> {
        match self {
            Self::Kill => Some(Signal::KILL),
            Self::Freeze => Some(Signal::STOP),
            Self::Thaw => Some(Signal::CONT),
            Self::Restart | Self::Pause => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, self.station)?;
        if let Some(lasts) = self.lasts {
            write!(f, " for {}", duration(lasts))?;
        }
        match self.every {
            Some(every) => write!(f, " every {}, from {} on", duration(every), duration(self.at)),
            None => write!(f, " at {}", duration(self.at)),
        }
    }
}
