//! What goes wrong with a station.

use std::fmt;

/// What went wrong with a station, and its last words.
#[derive(Debug)]
pub struct StationError {
    /// The station.
    pub name: String,
    /// What went wrong.
    pub why: String,
    /// The last lines it said.
    pub said: Vec<String>,
    /// Whether it would go wrong again: there is no such program, or it refuses the words that it
    /// is given.
    pub certain: bool,
}

impl StationError {
    /// One that said nothing, and may do better the next time.
    pub fn new(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { name: name.into(), why: why.into(), said: Vec::new(), certain: false }
    }
}

impl fmt::Display for StationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.why)?;
        self.said.iter().try_for_each(|line| write!(f, "\n  {} said: {line}", self.name))
    }
}

impl std::error::Error for StationError {}
