//! What is varied: factors, their levels, and how the words of stations name them.

use std::fmt;

use krarup_settings::kind::{CustomText, Kind, List, Located, TEXT, TableOr, scalar};
use krarup_settings::table::FileItem;
use krarup_settings::{Mistake, settings};
use toml::Spanned;
use toml::de::DeValue;

settings! {
    /// Something that is varied.
    #[derive(Clone, Debug)]
    pub struct Factor {
        /// Its name, of letters, digits and `_`; `$name` stands for its level in the words of the
        /// stations.
        name: Spanned<String> = Spanned::new(0..0, String::new()), Located(TEXT), required = true,
            example = "\"clients\"";
        /// Its levels: numbers, texts, or tables where the words are others than the name.
        levels: Vec<Level> = Vec::new(), List(LEVEL_OR_TABLE), required = true,
            example = "[1, \"x\", { name = \"read\", words = [\"--ratio\", \"0:1\"] }]";
    }
}

settings! {
    /// One level of a factor.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Level {
        /// Its name in tables, and in folder names.
        name: LevelName = LevelName(String::new()), LEVEL, required = true, example = "\"read\"";
        /// The words that stand for it on a command line.
        words: Vec<String> = Vec::new(), List(TEXT), required = true, example = "[\"--ratio\", \"0:1\"]";
    }
}

/// Words of a command line, which may name factors, each with its place.
pub(super) const WORDS: List<Located<CustomText<String>>> = List(Located(TEXT));

/// A level: its name, which is also its word, or a table.
const LEVEL_OR_TABLE: TableOr<LevelNameForm, LevelName, Level> = TableOr {
    short: LEVEL,
    read: |name| Ok(Level { words: vec![name.0.clone()], name }),
    write: |level| Some(level.name.clone()).filter(|name| level.words == [name.0.as_str()]),
};

/// A level as people write it: a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LevelName(pub String);

impl fmt::Display for LevelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number or a text.
pub(super) struct LevelNameForm;
/// The name of a level.
pub(super) const LEVEL: LevelNameForm = LevelNameForm;

impl Kind<LevelName> for LevelNameForm {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<LevelName> {
        // 0.50 and 0.5 are one level.
        let number = match item.get_ref() {
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => None,
        };
        let hint = "a level is a number, a text, or { name = \"…\", words = [\"--flag\", \"…\"] }";
        match number.map_or_else(|| scalar(name, item), |number| Ok(number.to_string())) {
            Ok(text) => Some(LevelName(text)),
            Err(Mistake { what, .. }) => {
                mistakes.push(Mistake::new(what, hint).at(item.span().start));
                None
            }
        }
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
