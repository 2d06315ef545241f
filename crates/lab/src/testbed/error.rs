//! What goes wrong with a station.

use std::fmt;

use krarup_units::Mistake;

/// What went wrong with a station, and its last words.
#[derive(Debug)]
pub struct StationError {
    /// The station.
    pub name: String,
    /// What went wrong.
    pub why: String,
    /// What to do about it; empty where nothing is to be said.
    pub hint: String,
    /// The last lines it said.
    pub said: Vec<String>,
    /// Whether it would go wrong again: there is no such program, or it refuses the words that it
    /// is given.
    pub certain: bool,
}

impl StationError {
    /// One that said nothing, and may do better the next time.
    pub fn new(name: impl Into<String>, why: impl Into<Mistake>) -> Self {
        let mut why = why.into();
        let hint = std::mem::take(&mut why.hint);
        Self { name: name.into(), why: why.to_string(), hint, said: Vec::new(), certain: false }
    }
}

impl From<&StationError> for Mistake {
    /// The same, with what the station said behind what went wrong.
    fn from(error: &StationError) -> Self {
        let said = error.said.iter().map(|line| format!("\n  {} said: {line}", error.name));
        Self::new(format!("{}: {}{}", error.name, error.why, said.collect::<String>()), &error.hint)
    }
}

impl fmt::Display for StationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.why)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        self.said.iter().try_for_each(|line| write!(f, "\n  {} said: {line}", self.name))
    }
}

impl std::error::Error for StationError {}
