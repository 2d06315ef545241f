//! How a subcommand ends badly: one line that names the thing, a hint, and an exit code.

use std::error::Error;
use std::num::{ParseFloatError, ParseIntError};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use krarup_settings::{Mistake, Mistakes};
use krarup_units::mistake::without_number;

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
        let mut mistake = mistake.into();
        // The numbers that the system gives its errors are for programs.
        mistake.what = without_number(&mistake.what);
        Self { mistake, code: 2, further: Vec::new() }
    }

    /// The command made sense but could not be carried out: exit code 1.
    pub(crate) fn run(mistake: impl Into<Mistake>) -> Self {
        Self { code: 1, ..Self::usage(mistake) }
    }

    /// A service could not begin: what other words would mend has a hint.
    pub(crate) fn beginning(mistake: Mistake) -> Self {
        if mistake.hint.is_empty() { Self::run(mistake) } else { Self::usage(mistake) }
    }

    /// The command was ended on request before it was done: exit code 130, as of a shell whose
    /// command Ctrl-C has ended.
    pub(crate) fn stopped(mistake: impl Into<Mistake>) -> Self {
        Self { code: 130, ..Self::usage(mistake) }
    }

    /// The same of a command whose exit code 1 is an answer: exit code 2.
    pub(crate) fn beside_answers(self) -> Self {
        Self { code: self.code.max(2), ..self }
    }

    /// What went wrong with one thing, with another, or with both.
    pub(crate) fn of_both(one: Result<(), Self>, other: Result<(), Self>) -> Result<(), Self> {
        match (one, other) {
            (Err(mut one), Err(other)) => {
                one.further.push(other);
                Err(one)
            }
            (one, other) => one.and(other),
        }
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.mistake.hint = hint.into();
        self
    }

    /// The same in the form of all our errors: what clap found wrong with the command line of
    /// `job`.
    pub(crate) fn command_line(error: &clap::Error, job: Option<&str>) -> Self {
        let failure = Self::usage(on_the_line(error));
        match job {
            Some(job) => failure.or_hint(format!("krarup {job} --help shows every flag")),
            None => failure.or_hint("krarup --help shows every subcommand"),
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

/// Flags that other load generators have, and what they are here.
const HABITS: [(&str, &str, &str); 11] = [
    ("krarup load", "--test-time", "--seconds"),
    ("krarup load", "--duration", "--seconds"),
    ("krarup load", "--time", "--seconds"),
    ("krarup load", "--clients", "--connections, of all threads together"),
    ("krarup load", "--key-maximum", "--keys, counted from --key-minimum"),
    ("krarup load", "--key-pattern", "--key-law"),
    ("krarup load", "--server", "--servers HOST:PORT"),
    ("krarup load", "--host", "--servers HOST:PORT"),
    ("krarup load", "--port", "--servers HOST:PORT"),
    ("krarup load", "--qps", "--rate"),
    ("krarup load", "--rate-limiting", "--rate, of all connections together"),
];

/// What clap found wrong with the command line, as a mistake of ours.
fn on_the_line(error: &clap::Error) -> Mistake {
    let all = |kind| match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(several)) => several.clone(),
        _ => Vec::new(),
    };
    let one = |kind| all(kind).into_iter().next().unwrap_or_default();
    // `--servers <HOST:PORT>...` is the flag --servers.
    let name = |shown: &str| match shown.split_once([' ', '=', '[']) {
        Some((flag, _)) if flag.starts_with('-') => flag.to_owned(),
        _ => shown.trim_end_matches("...").trim_matches(['<', '>', '[', ']']).to_owned(),
    };
    let argument = name(&one(ContextKind::InvalidArg));
    let meant = |kind| all(kind).first().map_or_else(String::new, |word| format!("did you mean {word}?"));
    match error.kind() {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let (value, known) = (one(ContextKind::InvalidValue), all(ContextKind::ValidValue));
            refused(error, &value, &known).of(&argument)
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') && argument.parse::<f64>().is_ok() => {
            Mistake::new(format!("`{argument}` is below zero"), "a number of 0 or more is asked for")
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
            let known = HABITS.iter().find(|(verb, other, _)| usage.contains(verb) && argument == *other);
            let hint = known
                .map_or_else(|| meant(ContextKind::SuggestedArg), |(_, _, ours)| format!("it is {ours}"));
            Mistake::new(format!("there is no flag {argument}"), hint)
        }
        ErrorKind::UnknownArgument => Mistake::plain(format!("`{argument}` is one word too many")),
        ErrorKind::InvalidSubcommand => {
            let word = one(ContextKind::InvalidSubcommand);
            Mistake::new(format!("there is no command `{word}`"), meant(ContextKind::SuggestedSubcommand))
        }
        ErrorKind::MissingRequiredArgument if !all(ContextKind::InvalidArg).is_empty() => {
            let missing: Vec<_> = all(ContextKind::InvalidArg).iter().map(|shown| name(shown)).collect();
            let are = if missing.len() == 1 { "is" } else { "are" };
            Mistake::plain(format!("{} {are} missing", missing.join(" and ")))
        }
        ErrorKind::ArgumentConflict if error.get(ContextKind::PriorArg).is_some() => {
            let prior: Vec<_> = all(ContextKind::PriorArg).iter().map(|shown| name(shown)).collect();
            if prior == [argument.as_str()] {
                return Mistake::new(format!("{argument} is given more than once"), "give it once");
            }
            Mistake::new(
                format!("{argument} and {} exclude each other", prior.join(", ")),
                "give one of them",
            )
        }
        ErrorKind::InvalidUtf8 => Mistake::plain("a word of the command is no text in UTF-8"),
        _ => {
            // What is wrong comes first, over as many lines as it likes, and ends with an empty
            // line.
            let text = error.render().to_string();
            let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            Mistake::plain(first.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// A value that is refused: by a reader of ours, which says what would do; as none of the `known`;
/// or as no number.
fn refused(error: &clap::Error, value: &str, known: &[String]) -> Mistake {
    let source = error.source();
    if let Some(mistake) = source.and_then(|source| source.downcast_ref::<Mistake>()) {
        return mistake.clone();
    }
    if let Some(mistakes) = source.and_then(|source| source.downcast_ref::<Mistakes>()) {
        return mistakes.clone().into();
    }
    let words = || known.iter().map(String::as_str);
    match source {
        None if value.is_empty() && known.is_empty() => Mistake::plain("a value is missing"),
        None if value.is_empty() => Mistake::none_of("a value is missing".into(), value, words()),
        None => Mistake::none_of(format!("`{value}` is none of its values"), value, words()),
        Some(source) if source.is::<ParseFloatError>() || source.is::<ParseIntError>() => {
            match value.parse::<f64>() {
                Ok(number) if number < 0.0 => Mistake::plain(format!("{value} is below zero")),
                Ok(_) => Mistake::plain(format!("`{value}` is no whole number, or too large")),
                Err(_) => Mistake::plain(format!("`{value}` is no number")),
            }
        }
        // A bound of clap's, as Rust writes a range.
        Some(source) => match source.to_string().split_once(" is not in ") {
            Some((number, range)) => match range.split_once("..") {
                Some((least, "")) => Mistake::plain(format!("{number} is below {least}")),
                Some((least, most)) => {
                    let (least, most) = (least, most.trim_start_matches('='));
                    Mistake::plain(format!("{number} is not from {least} to {most}"))
                }
                None => Mistake::plain(source.to_string()),
            },
            None => Mistake::plain(source.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use clap::{Arg, Command};

    use super::*;

    #[test]
    fn a_word_that_is_no_text_is_told_so() {
        let words = [OsString::from("tool"), "--name".into(), OsString::from_vec(vec![b'a', 0xff])];
        let tool = Command::new("tool").arg(Arg::new("name").long("name"));
        let error = tool.try_get_matches_from(words).unwrap_err();
        let failure = Failure::command_line(&error, Some("tool"));
        assert_eq!(failure.message(), "a word of the command is no text in UTF-8");
    }
}
