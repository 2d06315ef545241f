//! How a subcommand ends badly: one line that names the thing, a hint, and an exit code.

use std::process::ExitCode;

/// What went wrong, for a person to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// The command was asked for something that makes no sense: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 2 }
    }

    /// The command made sense but could not be carried out: exit code 1.
    pub(crate) fn run(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 1 }
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Tells it on stderr; stdout is for data.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("error: {}", self.message);
        if let Some(hint) = &self.hint {
            eprintln!("  hint: {hint}");
        }
        ExitCode::from(self.code)
    }
}
