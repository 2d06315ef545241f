//! How programs are carried out on a machine from here: by a program of the system whose standard
//! streams and exit status are theirs.

use std::fmt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use krarup_units::Mistake;

use super::error::StationError;
use super::process::{ChildProcess, Drain, Feed, StationEnd};
use crate::ledger::Ledger;
use crate::stop::Stop;

/// A word that a shell takes as it is.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The way to one machine.
pub trait Transport: fmt::Debug + Send + Sync {
    /// The machine in messages: `s1 (me@10.0.0.4:22)`.
    fn name(&self) -> &str;

    /// The command that has these words carried out there.
    fn command(&self, words: &[String]) -> Command;

    /// Opens what all commands go through, where there is such a thing.
    ///
    /// # Errors
    /// Where the machine cannot be reached, or a stop was asked for.
    fn connect(&self, ledger: &Ledger, stop: &Stop) -> Result<Option<ChildProcess>, StationError>;

    /// Whether the way itself failed, and not what was carried out there, by how the command ended
    /// and its last lines.
    fn broke(&self, status: ExitStatus, said: &[String]) -> bool;

    /// What is said of a machine to which the way does not lead.
    fn unreachable(&self) -> Mistake;

    /// The words with which those of a job of our agent begin there; `krarup` is our program there,
    /// and the job finds these variables in its environment.
    fn agent(&self, krarup: &str, variables: [(&str, &str); 2]) -> Vec<String>;

    /// What to do where another version of our program is there.
    fn other_version(&self) -> &'static str;

    /// The node whose processors it shares with others of its kind; none where it has its own.
    fn node(&self) -> Option<&str> {
        None
    }

    /// Carries words out to their end: what they wrote to standard output.
    ///
    /// # Errors
    /// When they fail, take longer, or a stop was asked for.
    fn call(
        &self,
        words: &[String],
        (feed, drain): (Feed, Drain),
        within: Duration,
        stop: &Stop,
    ) -> Result<StationEnd, StationError> {
        let mut process = ChildProcess::start_with(self.name(), &mut self.command(words), feed, drain)?;
        let ended = process.finish(within, stop, || Ok(()))?;
        if ended.status.success() {
            return Ok(ended);
        }
        let what = words.first().map_or("", String::as_str);
        let error = process.error(format!("`{what}` failed there ({})", ended.status));
        if self.broke(ended.status, &error.said) {
            let Mistake { what, hint, .. } = self.unreachable();
            return Err(StationError { why: what, hint, ..error });
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_quoted_words_as_they_are() {
        let words = ["plain-1.2", "", "it's", "$HOME `x` \\ \"", "a\nb", "*", "~x", "#"];
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let script = format!("printf '%s\\0' {}", line.join(" "));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.split_terminator('\0').collect::<Vec<_>>(), words);
    }
}
