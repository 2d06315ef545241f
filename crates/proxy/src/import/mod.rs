//! Other programs' configurations, as one of ours that keeps every key where it lies.
//!
//! | file | its one idea |
//! |---|---|
//! | `imported` | what was understood, and how it is written as ours |
//! | `twemproxy` | `nutcracker.yml`: a pool for each address |
//! | `mcrouter` | its common route handles |
//! | `comments` | JSON with comments as JSON |
//! | `yaml` | as much of YAML as twemproxy reads |
//!
//! What has no counterpart is not left out in silence: each such thing is a note with its reason,
//! which stands at the head of the file that is written.

use krarup_units::Mistake;

use crate::config::Config;

mod comments;
mod imported;
mod mcrouter;
#[cfg(test)]
mod tests;
mod twemproxy;
mod yaml;

pub use imported::Imported;

impl Imported {
    /// Reads a configuration of twemproxy's (YAML) or mcrouter's (JSON with comments).
    ///
    /// # Errors
    /// With the line or the route handle, where something cannot be understood, or could only be
    /// translated so that keys are lost.
    pub fn read(text: &str) -> Result<Self, Mistake> {
        let begins = text.trim_start();
        let imported = if ["{", "//", "/*"].iter().any(|json| begins.starts_with(json)) {
            mcrouter::import(text)
        } else {
            twemproxy::import(text)
        };
        // One line, whatever stands in the words it quotes.
        let one_line =
            |why: String| why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        let imported = imported.map_err(one_line)?;
        // An address or a number that is none there is none here.
        match Config::parse(&imported.toml(), "translated") {
            Ok(_) => Ok(imported),
            Err(why) => Err(Mistake::from(why).within("it makes no configuration of ours")),
        }
    }
}
