//! How a subcommand ends badly: one line that names the thing, a hint, and an exit code.

use std::error::Error;
use std::process::ExitCode;

use krarup_settings::{Mistake, Mistakes};

/// What went wrong, for a person to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    mistake: Mistake,
    code: u8,
    /// What else is wrong.
    further: Vec<Self>,
}

impl From<Mistake> for Failure {
    fn from(mistake: Mistake) -> Self {
        Self::usage(mistake)
    }
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Self {
        let mut failures = mistakes.0.into_iter().map(Self::usage);
        let first = failures.next().expect("there is at least one mistake");
        Self { further: failures.collect(), ..first }
    }
}

impl Failure {
    /// The command was asked for something that makes no sense: exit code 2.
    pub(crate) fn usage(mistake: impl Into<Mistake>) -> Self {
        Self { mistake: mistake.into(), code: 2, further: Vec::new() }
    }

    /// The command made sense but could not be carried out: exit code 1.
    pub(crate) fn run(mistake: impl Into<Mistake>) -> Self {
        Self { code: 1, ..Self::usage(mistake) }
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.mistake.hint = hint.into();
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
        let what = words.join(" ");
        // A value that our own readers refuse: what would do is theirs to say.
        let refused = error.source().and_then(|source| source.downcast_ref::<Mistake>());
        let hint = refused.map_or("", |mistake| &mistake.hint);
        let what = what.strip_suffix(hint).unwrap_or(&what).trim_end_matches("; ");
        let failure = Self::usage(Mistake::new(what, hint));
        match (tip, job) {
            (Some(tip), _) => failure.hint(tip.lines().next().unwrap_or(tip).trim()),
            (None, Some(job)) => failure.or_hint(format!("krarup {job} --help shows every flag")),
            (None, None) => failure.or_hint("krarup --help shows every subcommand"),
        }
    }

    /// Where it is wrong.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.mistake = self.mistake.of(place);
        self
    }

    /// What to do about it, unless that is said already.
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Self {
        if self.mistake.hint.is_empty() { self.hint(hint) } else { self }
    }

    /// What went wrong and where, without what to do about it.
    pub(crate) fn message(&self) -> String {
        Mistake { hint: String::new(), ..self.mistake.clone() }.to_string()
    }

    /// Everything that went wrong, without what to do about it, in one line.
    pub(crate) fn messages(&self) -> String {
        let all: Vec<_> = std::iter::once(self).chain(&self.further).map(Self::message).collect();
        all.join(", and ")
    }

    /// Tells it as a warning on stderr, with what comes of it.
    pub(crate) fn warn(&self, so: &str) {
        eprintln!("warning: {}; {so}", self.message());
        self.say_hint();
    }

    /// Tells it on stderr; stdout is for data.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("error: {}", self.message());
        self.say_hint();
        for failure in &self.further {
            failure.report();
        }
        ExitCode::from(self.code)
    }

    fn say_hint(&self) {
        if !self.mistake.hint.is_empty() {
            eprintln!("  hint: {}", self.mistake.hint);
        }
    }
}
