//! How a subcommand ends badly: one line that names the thing, a hint, and an exit code.

use std::process::ExitCode;

use krarup_settings::{Mistake, Mistakes};

/// What went wrong, for a person to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
    /// What else is wrong.
    further: Vec<Self>,
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Self {
        let mut failures = mistakes.0.into_iter().map(|Mistake { what, place, hint, .. }| {
            let failure = Self { hint: Some(hint).filter(|hint| !hint.is_empty()), ..Self::usage(what) };
            if place.is_empty() { failure } else { failure.at(&place) }
        });
        let first = failures.next().expect("there is at least one mistake");
        Self { further: failures.collect(), ..first }
    }
}

impl Failure {
    /// The command was asked for something that makes no sense: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 2, further: Vec::new() }
    }

    /// The command made sense but could not be carried out: exit code 1.
    pub(crate) fn run(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 1, further: Vec::new() }
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same in the form of all our errors: what clap found wrong with the command line of
    /// `job`.
    pub(crate) fn command_line(error: &clap::Error, job: Option<&str>) -> Self {
        // What is wrong comes first, over as many lines as it likes, and ends with an empty line; a
        // tip may follow.
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n");
        let first = paragraphs.next().unwrap_or_default();
        let words: Vec<_> = first.trim_start_matches("error: ").split_whitespace().collect();
        let tip = paragraphs.find_map(|paragraph| paragraph.trim_start().strip_prefix("tip: "));
        let failure = Self::usage(words.join(" "));
        match (tip, job) {
            (Some(tip), _) => failure.hint(tip.lines().next().unwrap_or(tip).trim()),
            (None, Some(job)) => failure.or_hint(format!("krarup {job} --help shows every flag")),
            (None, None) => failure.or_hint("krarup --help shows every subcommand"),
        }
    }

    /// Where it is wrong.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// What to do about it, unless that is said already.
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Self {
        if self.advice().is_some() { self } else { self.hint(hint) }
    }

    /// What went wrong, without what to do about it.
    pub(crate) fn message(&self) -> &str {
        self.advice().map_or(&self.message, |(message, _)| message)
    }

    /// Everything that went wrong, without what to do about it, in one line.
    pub(crate) fn messages(&self) -> String {
        let all: Vec<_> = std::iter::once(self).chain(&self.further).map(Self::message).collect();
        all.join(", and ")
    }

    /// Tells it as a warning on stderr, with what comes of it.
    pub(crate) fn warn(&self, so: &str) {
        let (message, hint) = self.advice().unwrap_or((&self.message, ""));
        eprintln!("warning: {message}; {so}");
        if !hint.is_empty() {
            eprintln!("  hint: {hint}");
        }
    }

    /// Tells it on stderr; stdout is for data.
    pub(crate) fn report(&self) -> ExitCode {
        let (message, hint) = self.advice().unwrap_or((&self.message, ""));
        eprintln!("error: {message}");
        if !hint.is_empty() {
            eprintln!("  hint: {hint}");
        }
        for failure in &self.further {
            failure.report();
        }
        ExitCode::from(self.code)
    }

    /// The message and the hint. Where our libraries refuse what they are given, a semicolon parts
    /// the two.
    fn advice(&self) -> Option<(&str, &str)> {
        match &self.hint {
            Some(hint) => Some((&self.message, hint)),
            None if self.code == 2 => self.message.split_once("; "),
            None => None,
        }
    }
}
