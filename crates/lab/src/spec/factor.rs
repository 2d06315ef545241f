//! What is varied: factors, their levels, and how the words of stations name them.

use std::fmt;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// Something that is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// Its name; `$name` stands for its level in the words of the stations.
    pub name: Spanned<String>,
    /// Its levels.
    pub levels: Vec<Level>,
}

/// One level of a factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its name in tables, and in folder names.
    pub name: LevelName,
    /// The words that stand for it on a command line.
    pub words: Vec<String>,
}

/// A level as people write it: a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LevelName(pub String);

impl fmt::Display for LevelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A plain value, or one with words of its own.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a level is a number, a text, or { name = \"…\", words = [\"--flag\", \"…\"] }"
)]
enum Written {
    Whole(i64),
    Number(f64),
    Truth(bool),
    Text(String),
    Worded { name: String, words: Vec<String> },
}

impl Written {
    fn level(self) -> Level {
        let plain = |text: String| Level { words: vec![text.clone()], name: LevelName(text) };
        match self {
            Self::Whole(number) => plain(number.to_string()),
            Self::Number(number) => plain(number.to_string()),
            Self::Truth(truth) => plain(truth.to_string()),
            Self::Text(text) => plain(text),
            Self::Worded { name, words } => Level { name: LevelName(name), words },
        }
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Written::deserialize(deserializer).map(Written::level)
    }
}

impl<'de> Deserialize<'de> for LevelName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Written::deserialize(deserializer).map(|written| written.level().name)
    }
}

/// The factors that a word names, as `$name` or `${name}`.
pub(crate) fn names_in(word: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for part in word.split('$').skip(1) {
        let (name, braced) = match part.strip_prefix('{') {
            Some(rest) => (rest, true),
            None => (part, false),
        };
        let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
        if end > 0 && (!braced || name[end..].starts_with('}')) {
            names.push(&name[..end]);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_words() {
        assert_eq!(names_in("$a"), ["a"]);
        assert_eq!(names_in("x${a}y=$b,$c_d"), ["a", "b", "c_d"]);
        assert_eq!(names_in("100$ and ${"), Vec::<&str>::new());
    }
}
