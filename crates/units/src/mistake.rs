//! What is wrong, where it stands, and what would do: the error of whatever a person has to mend.

use std::fmt;

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
        let near = known.map(|one| (strsim::jaro_winkler(word, one), one)).filter(|(near, _)| *near > 0.8);
        let mut near: Vec<_> = near.collect();
        near.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        near.dedup_by_key(|(_, one)| *one);
        let near: Vec<_> = near.into_iter().take(3).map(|(_, one)| one).collect();
        let hint =
            if near.is_empty() { String::new() } else { format!("did you mean {}?", near.join(" or ")) };
        Self { what, hint, ..Self::default() }
    }
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
