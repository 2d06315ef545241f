//! What is wrong, where it stands, and what would do: the error of whatever a person has to mend.

use std::fmt;
use std::io::{self, ErrorKind};

/// One mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong; it names the setting or the value.
    pub what: String,
    /// The file and line, or the flag; empty where it was neither.
    pub place: String,
    /// What would do; empty where nothing is to be said.
    pub hint: String,
    /// Where in the file's text, in bytes.
    pub offset: usize,
}

impl Mistake {
    /// What is wrong, and what would do.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into(), ..Self::default() }
    }

    /// What is wrong, where nothing is to be said of what would do.
    pub fn plain(what: impl Into<String>) -> Self {
        Self::new(what, "")
    }

    /// The same at this place of a file's text, in bytes.
    pub fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// The same in this file or line, or of this flag; a place that it has already stands behind.
    pub fn of(self, place: &str) -> Self {
        let within = if self.place.is_empty() { String::new() } else { format!(", {}", self.place) };
        Self { place: format!("{place}{within}"), ..self }
    }

    /// The same, of a part with this name.
    pub fn within(self, part: &str) -> Self {
        Self { what: format!("{part}: {}", self.what), ..self }
    }

    /// The same, of the word that nothing has: those of `known` that are nearly the same are the
    /// hint.
    pub fn unknown<'a>(what: String, word: &str, known: impl Iterator<Item = &'a str>) -> Self {
        Self { what, hint: did_you_mean(word, known), ..Self::default() }
    }

    /// The same, of a word that is none of a few: the hint has all of them too, unless they are
    /// many and one is nearly the word.
    pub fn none_of<'a>(what: String, word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Self {
        let all = format!("there are {}", known.clone().collect::<Vec<_>>().join(", "));
        let near = did_you_mean(word, known);
        let hint = match near.as_str() {
            "" => all,
            // Who is told the right word needs no long list.
            _ if all.len() > LONG_LIST => near,
            _ => format!("{near} {all}"),
        };
        Self { what, hint, ..Self::default() }
    }

    /// What the system said of a file or a connection, in words and without its number.
    pub fn system(error: &io::Error) -> Self {
        Self::plain(system_words(error))
    }

    /// What a reader of JSON or TOML found wrong, in the words of a file instead of a program's:
    /// `` `title` is missing ``, not ``missing field `title` ``. The reader has no other form for
    /// it than a text. What it expects of a structure's name is left out, and so is its own place.
    pub fn of_reader(message: &str) -> Self {
        let message = message.split(" at line ").next().unwrap_or(message).trim_end();
        if let Some(key) = message.strip_prefix("missing field ") {
            return Self::plain(format!("{key} is missing"));
        }
        if let Some(key) = message.strip_prefix("duplicate field ") {
            return Self::plain(format!("{key} stands there twice"));
        }
        for (unknown, what) in [("unknown field ", "key"), ("unknown variant ", "word")] {
            let Some(rest) = message.strip_prefix(unknown) else { continue };
            let mut parts = rest.split('`').skip(1).step_by(2);
            let word = parts.next().unwrap_or_default();
            return Self::none_of(format!("there is no {what} `{word}`"), word, parts);
        }
        for invalid in ["invalid type: ", "invalid value: ", "invalid length "] {
            let Some((found, expected)) =
                message.strip_prefix(invalid).and_then(|rest| rest.split_once(", expected "))
            else {
                continue;
            };
            return Self::new(
                format!("{} stands there", plainly(found)),
                format!("write {}", plainly(expected)),
            );
        }
        if message.starts_with("EOF while parsing") {
            return Self::plain("it ends in the middle: a part of it is missing");
        }
        let no_toml = NO_TOML.iter().find(|(theirs, ..)| message.starts_with(theirs));
        match no_toml {
            Some((_, what, hint)) => Self::new(*what, *hint),
            None => Self::plain(message.split(", expected ").next().unwrap_or(message)),
        }
    }
}

/// What a reader of TOML says of a text that is none, and that in words that need no knowledge of
/// TOML, with what helps.
const NO_TOML: &[(&str, &str, &str)] = &[
    (
        "string values must be quoted",
        "a value is missing, or a text stands there without quotes",
        "write key = \"text\"",
    ),
    ("invalid float", "this is neither a number nor a text in quotes", "write key = 5 or key = \"text\""),
    ("invalid integer", "this is neither a number nor a text in quotes", "write key = 5 or key = \"text\""),
    ("invalid boolean", "this is neither true nor false", "a text stands in quotes"),
    ("missing value", "a value is missing", "write it behind the `=`: a number as it is, a text in quotes"),
    ("key with no value", "a key stands there without a value", "write key = value"),
    ("missing assignment", "a key stands there without a value", "write key = value"),
    ("duplicate key", "this stands there twice", "write it once"),
    ("unclosed", "a bracket is opened and not closed", "write the closing one"),
    ("missing comma", "a comma is missing between two parts of a list", "write it"),
];

/// From so many letters on a list of words is a long one.
const LONG_LIST: usize = 120;

/// `did you mean ketama?`, or nothing.
fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known.map(|one| (strsim::jaro_winkler(word, one), one)).filter(|(near, _)| *near > 0.8);
    let mut near: Vec<_> = near.collect();
    near.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    near.dedup_by_key(|(_, one)| *one);
    let near: Vec<_> = near.into_iter().take(3).map(|(_, one)| one).collect();
    if near.is_empty() { String::new() } else { format!("did you mean {}?", near.join(" or ")) }
}

/// A reader's word for a type as a person says it.
fn plainly(type_name: &str) -> String {
    let words = [
        ("a map", "a table"),
        ("map", "a table"),
        ("a sequence", "a list"),
        ("sequence", "a list"),
        ("a string", "a text"),
        ("string ", "the text "),
        ("integer ", "the number "),
        ("floating point ", "the number "),
        ("boolean ", "the word "),
        ("null", "nothing"),
        ("unit value", "nothing"),
        ("a boolean", "true or false"),
    ];
    if type_name.starts_with("struct ") || type_name.starts_with("internally tagged") {
        return "a table".to_owned();
    }
    if ["f64", "f32"].contains(&type_name) {
        return "a number".to_owned();
    }
    if type_name.starts_with("a tuple") {
        return "a list".to_owned();
    }
    if ["u8", "u16", "u32", "u64", "usize"].contains(&type_name) {
        return "a whole number, 0 or more".to_owned();
    }
    if ["i8", "i16", "i32", "i64"].contains(&type_name) {
        return "a whole number".to_owned();
    }
    match words.iter().find(|(word, _)| type_name.starts_with(word)) {
        Some((word, said)) => format!("{said}{}", &type_name[word.len()..]),
        None => type_name.to_owned(),
    }
}

/// What the system said, in words and without its number.
pub fn system_words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound if error.raw_os_error().is_some() => "there is no such file or directory".into(),
        ErrorKind::PermissionDenied if error.raw_os_error().is_some() => "permission denied".into(),
        ErrorKind::IsADirectory => "it is a directory".into(),
        ErrorKind::NotADirectory => "a part of its path is no directory".into(),
        ErrorKind::ConnectionRefused => "connection refused: nothing listens there".into(),
        ErrorKind::ConnectionReset => "the other side reset the connection".into(),
        ErrorKind::BrokenPipe => "the other side closed the connection".into(),
        // A socket with a limit says the former when that is over.
        ErrorKind::WouldBlock | ErrorKind::TimedOut if error.get_ref().is_none() => {
            "no answer in time".into()
        }
        ErrorKind::InvalidData if error.raw_os_error().is_none() && error.to_string().contains("UTF-8") => {
            "it is no text in UTF-8".into()
        }
        _ => without_number(&error.to_string()),
    }
}

/// A message without the numbers that the system gives its errors: ` (os error 2)`.
pub fn without_number(message: &str) -> String {
    let mut rest = message;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once(" (os error ") {
        let Some((number, behind)) = after.split_once(')') else { break };
        kept += before;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            kept += &format!(" (os error {number})");
        }
        rest = behind;
    }
    kept + rest
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.what)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; {}", self.hint) }
    }
}

/// The file and line of a place in a file's text.
pub fn place(name: &str, text: &str, offset: usize) -> String {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("{name}, line {line}")
}

/// Everything that is wrong, in the order of the file; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(pub Vec<Mistake>);

impl Mistakes {
    /// The same in this file or line, or of this flag.
    pub fn of(self, place: &str) -> Self {
        Self(self.0.into_iter().map(|mistake| mistake.of(place)).collect())
    }

    /// These of the file `name` with its `text`.
    pub fn of_file(mut mistakes: Vec<Mistake>, name: &str, text: &str) -> Self {
        mistakes.sort_by_key(|mistake| mistake.offset);
        for mistake in &mut mistakes {
            mistake.place = place(name, text, mistake.offset);
        }
        Self(mistakes)
    }
}

impl fmt::Display for Mistakes {
    /// A line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Mistake {}

impl From<Mistakes> for Mistake {
    /// The only one, or all in one line.
    fn from(mut mistakes: Mistakes) -> Self {
        match mistakes.0.len() {
            1 => mistakes.0.remove(0),
            _ => Self::plain(mistakes.to_string().replace('\n', ", and ")),
        }
    }
}

impl From<String> for Mistake {
    /// What is wrong, where nothing is to be said of what would do.
    fn from(what: String) -> Self {
        Self::plain(what)
    }
}

impl From<&str> for Mistake {
    /// The same.
    fn from(what: &str) -> Self {
        Self::plain(what)
    }
}

impl From<String> for Mistakes {
    fn from(what: String) -> Self {
        Mistake::plain(what).into()
    }
}

impl From<&str> for Mistakes {
    fn from(what: &str) -> Self {
        Mistake::plain(what).into()
    }
}

impl std::error::Error for Mistakes {}

impl From<Mistake> for Mistakes {
    fn from(mistake: Mistake) -> Self {
        Self(vec![mistake])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_expects_is_said_in_the_words_of_a_file() {
        for (message, what, hint) in [
            ("missing field `title` at line 1 column 8", "`title` is missing", ""),
            (
                "unknown field `titel`, expected one of `title`, `class`",
                "there is no key `titel`",
                "did you mean title? there are title, class",
            ),
            (
                "invalid type: integer `3`, expected struct Repetitions",
                "the number `3` stands there",
                "write a table",
            ),
            (
                "invalid type: string \"x\", expected u32",
                "the text \"x\" stands there",
                "write a whole number, 0 or more",
            ),
            ("invalid type: sequence, expected a string", "a list stands there", "write a text"),
            (
                "EOF while parsing a value at line 1 column 6",
                "it ends in the middle: a part of it is missing",
                "",
            ),
            (
                "string values must be quoted, expected literal string",
                "a value is missing, or a text stands there without quotes",
                "write key = \"text\"",
            ),
            ("unexpected sign, expected digits", "unexpected sign", ""),
        ] {
            assert_eq!(Mistake::of_reader(message), Mistake::new(what, hint), "{message}");
        }
    }

    #[test]
    fn the_system_is_quoted_without_its_numbers() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(system_words(&refused), "connection refused: nothing listens there");
        for late in [io::Error::from_raw_os_error(11), ErrorKind::TimedOut.into()] {
            assert_eq!(system_words(&late), "no answer in time");
        }
        let own = io::Error::new(ErrorKind::TimedOut, "the queue is full");
        assert_eq!(system_words(&own), "the queue is full");
        let wrapped = io::Error::other(format!("a/b: {}", io::Error::from_raw_os_error(28)));
        assert_eq!(system_words(&wrapped), "a/b: No space left on device");
        assert_eq!(without_number("x (os error 2) and y (os error 13)"), "x and y");
        assert_eq!(without_number("x (os error two)"), "x (os error two)");
    }

    #[test]
    fn a_word_that_is_nearly_one_of_a_few_gets_that_one_first() {
        let known = ["events", "threads"];
        let of = |word: &str| Mistake::none_of("no".into(), word, known.into_iter()).hint;
        assert_eq!(of("event"), "did you mean events? there are events, threads");
        assert_eq!(of("zzz"), "there are events, threads");
    }
}
