//! Guesses of a sheet: read from a file of answers, and sealed in a directory of results before
//! anything is measured there.
//!
//! Sealed means: they are a file whose digest each trial keeps. Who changes the file afterwards
//! has trials that say so.

use std::fs;
use std::io::{self, ErrorKind};

use krarup_model::sheet::{SheetGuess, SheetQuestion};
use krarup_settings::kind::scalar;
use krarup_settings::{Mistake, Mistakes, document};
use krarup_units::Unit;
use krarup_units::text::{parse_duration, parse_rate};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use crate::store::ResultsDirectory;

/// The file in a directory of results.
pub const FILE: &str = "sheet.json";

/// What stands for no guess.
const NO_GUESS: &str = "?";

/// Guesses that are sealed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SealedGuesses {
    /// When they were, as date and time.
    pub sealed: String,
    /// How many trials had been measured in the directory then.
    #[serde(default)]
    pub trials_there: usize,
    /// What was asked, with all that decides a grade; empty where an earlier version sealed them.
    #[serde(default, deserialize_with = "known")]
    pub questions: Vec<SheetQuestion>,
    /// One for each question.
    pub guesses: Vec<SheetGuess>,
}

impl SealedGuesses {
    /// Those of a directory, with the digest of their file; none where there are none.
    ///
    /// # Errors
    /// From the system, with the path; where the file is none of ours any more.
    pub fn read(store: &ResultsDirectory) -> io::Result<Option<(Self, String)>> {
        let path = store.directory().join(FILE);
        let named = |error: &dyn std::fmt::Display, kind| {
            io::Error::new(kind, format!("{}: {error}", path.display()))
        };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(named(&error, error.kind())),
        };
        let guesses = serde_json::from_slice(&bytes).map_err(|error| {
            named(&format_args!("these are no sealed guesses any more: {error}"), ErrorKind::InvalidData)
        })?;
        Ok(Some((guesses, digest(&bytes))))
    }

    /// Seals them, and tells the digest.
    ///
    /// # Errors
    /// From the system, with the path.
    pub fn seal(&self, store: &ResultsDirectory) -> io::Result<String> {
        let text = serde_json::to_string_pretty(self).expect("guesses are plain data");
        store.write(FILE, text.as_bytes())?;
        Ok(digest(text.as_bytes()))
    }
}

/// Those of these questions that this version knows: guesses that a later one sealed can be read
/// without the others.
fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SheetQuestion>, D::Error> {
    let questions = Vec::<serde_json::Value>::deserialize(from)?;
    Ok(questions.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}

/// How many trials have been measured in a directory, of any plan, anchors among them; an attempt
/// that failed counts where it has figures.
pub fn measured_in(store: &ResultsDirectory) -> usize {
    let failed = store.failures().into_iter().filter(|(_, manifest)| manifest.throughput > 0.0);
    store.completed().len() + failed.count()
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How an answer in this unit is written, for people.
pub fn form(unit: Unit) -> &'static str {
    match unit {
        Unit::PerSecond => "a rate per second, as 1200 or 1.2k",
        Unit::Seconds => "a time, as 15ms",
        Unit::Share => "a change, as -2 %",
        _ => "a number",
    }
}

/// Reads what was guessed; `?` is no guess.
///
/// # Errors
/// Where it is no number in this unit.
pub fn read_guess(text: &str, unit: Unit) -> Result<Option<f64>, Mistake> {
    let text = text.trim();
    if text == NO_GUESS {
        return Ok(None);
    }
    let wrong = || {
        let hint = format!("write {}, or \"{NO_GUESS}\" for no guess", form(unit));
        let what =
            if text.is_empty() { "nothing is written".into() } else { format!("`{text}` is no answer here") };
        Mistake::new(what, hint)
    };
    let plain = without_commas(text).ok_or_else(wrong)?.replace('−', "-");
    let value = match unit {
        Unit::Share => {
            let number = plain.strip_suffix('%').ok_or_else(wrong)?;
            number.trim().trim_start_matches('+').parse::<f64>().map(|percent| percent / 100.0).ok()
        }
        // A bare number would be seconds, where milliseconds may be meant.
        Unit::Seconds if plain.ends_with(|last: char| last.is_ascii_digit() || last == '.') => None,
        Unit::Seconds => parse_duration(&plain).ok(),
        // Bytes are counted, too: their `B` is no billion, and no count is per second.
        Unit::Count if plain.ends_with(['B', 's']) => None,
        _ => parse_rate(plain.strip_suffix("/s").unwrap_or(&plain).trim()).ok(),
    };
    let fits = |value: &f64| value.is_finite() && (*value >= 0.0 || unit == Unit::Share);
    value.filter(fits).map(Some).ok_or_else(wrong)
}

/// A number without the commas between its thousands; none where a comma stands elsewhere, for it
/// may be that of a decimal.
fn without_commas(text: &str) -> Option<String> {
    let mut parts = text.split(',');
    let mut plain = parts.next()?.to_owned();
    let first = plain.trim_start_matches(['+', '-', '−']);
    let digits = first.bytes().all(|letter| letter.is_ascii_digit());
    let leads = digits && (1..=3).contains(&first.len()) && !first.starts_with('0');
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        if !leads || digits != 3 || !plain.ends_with(|last: char| last.is_ascii_digit()) {
            return None;
        }
        plain += part;
    }
    Some(plain)
}

/// A file of answers, to be filled in.
pub fn template(questions: &[SheetQuestion], name: &str) -> String {
    let mut text = format!("# Guesses for {name}. \"{NO_GUESS}\" is no guess.\n");
    for question in questions {
        text.push('\n');
        question.ask.lines().for_each(|line| text += &format!("# {line}\n"));
        text += &format!("# ({})\n{} = \"\"\n", form(question.unit()), question.id);
    }
    text
}

/// Reads a file of answers.
///
/// # Errors
/// Every mistake with its line; a question that is not answered, and a file in which none is.
pub fn answers(text: &str, name: &str, questions: &[SheetQuestion]) -> Result<Vec<SheetGuess>, Mistakes> {
    document(text, name, |table, mistakes| {
        let ids = || questions.iter().map(|question| question.id.as_str());
        for (key, _) in table {
            let word = key.get_ref().as_ref();
            if !ids().any(|id| id == word) {
                let what = format!("there is no question `{word}`");
                mistakes.push(Mistake::unknown(what, word, ids()).at(key.span().start));
            }
        }
        let mut guesses = Vec::new();
        for question in questions {
            let SheetQuestion { id, ask, .. } = question;
            let Some(item) = table.get(id.as_str()) else {
                let hint = format!("asked is: {ask}");
                mistakes.push(Mistake::new(format!("`{id}` is not answered"), hint));
                continue;
            };
            let read = scalar(id, item).and_then(|written| {
                let value = read_guess(&written, question.unit());
                let value = value.map_err(|mistake| mistake.within(&format!("`{id}`")))?;
                Ok(SheetGuess { id: id.clone(), ask: ask.clone(), written, value })
            });
            match read {
                Ok(guess) => guesses.push(guess),
                Err(mistake) => mistakes.push(mistake.at(item.span().start)),
            }
        }
        if mistakes.is_empty() && guesses.iter().all(|guess| guess.value.is_none()) {
            mistakes.push(Mistake::new("there is no guess in it", "write one at least"));
        }
        guesses
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;
    use crate::spec::Spec;

    #[test]
    fn guesses_are_read_in_the_unit_of_their_question() {
        for (text, unit, value) in [
            ("2900", Unit::PerSecond, Some(2_900.0)),
            ("2,900/s", Unit::PerSecond, Some(2_900.0)),
            ("1,002,900.5", Unit::PerSecond, Some(1_002_900.5)),
            ("2.9k", Unit::PerSecond, Some(2_900.0)),
            ("63ms", Unit::Seconds, Some(0.063)),
            ("0.5s", Unit::Seconds, Some(0.5)),
            ("62.4 ms", Unit::Seconds, Some(0.0624)),
            ("+10 %", Unit::Share, Some(0.1)),
            ("−9%", Unit::Share, Some(-0.09)),
            (" 184 ", Unit::Count, Some(184.0)),
            ("?", Unit::Count, None),
        ] {
            let read = read_guess(text, unit).unwrap();
            assert!(
                match (read, value) {
                    (Some(read), Some(value)) => (read - value).abs() < 1e-12 * value.abs(),
                    (read, value) => read == value,
                },
                "{text}: {read:?}"
            );
        }
        for (text, unit) in [
            ("many", Unit::PerSecond),
            ("-1", Unit::Count),
            ("10", Unit::Share),
            ("", Unit::Seconds),
            ("65", Unit::Seconds),
            ("62.4", Unit::Seconds),
            ("65.", Unit::Seconds),
            ("inf", Unit::PerSecond),
            ("NaN", Unit::Count),
            ("1,5ms", Unit::Seconds),
            ("0,5", Unit::Seconds),
            ("0,125", Unit::Seconds),
            ("2,5 %", Unit::Share),
            ("12345,678", Unit::Count),
            ("1.5,000", Unit::Count),
            ("1,", Unit::Count),
            ("12831 B", Unit::Count),
            ("12,831 B", Unit::Count),
            ("184/s", Unit::Count),
        ] {
            assert!(read_guess(text, unit).is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_asked_is_read_back_as_it_was_sealed() {
        for (name, text) in shipped::SPECS {
            let questions = Spec::parse(text, "spec.toml").unwrap().questions();
            let sealed =
                SealedGuesses { sealed: "then".into(), trials_there: 2, questions, guesses: Vec::new() };
            let text = serde_json::to_string(&sealed).unwrap();
            assert_eq!(serde_json::from_str::<SealedGuesses>(&text).unwrap(), sealed, "{name}");
        }
        let earlier: SealedGuesses = serde_json::from_str(r#"{"sealed": "then", "guesses": []}"#).unwrap();
        assert_eq!((earlier.trials_there, earlier.questions), (0, Vec::new()));
    }

    #[test]
    fn a_question_of_a_later_version_costs_no_guess() {
        let questions = Spec::parse(shipped::spec("asl2018/2.1").unwrap(), "spec.toml").unwrap().questions();
        let SheetQuestion { id, ask, .. } = questions[0].clone();
        let guesses = vec![SheetGuess { id, ask, written: "12".into(), value: Some(12.0) }];
        let sealed = SealedGuesses { sealed: "then".into(), trials_there: 0, questions, guesses };
        let mut later = serde_json::to_value(&sealed).unwrap();
        later["questions"][0]["law"] = "of a later version".into();
        let read: SealedGuesses = serde_json::from_value(later).unwrap();
        assert_eq!((&read.questions[..], &read.guesses), (&sealed.questions[1..], &sealed.guesses));
    }

    #[test]
    fn an_unfilled_template_is_refused_and_a_filled_one_is_read() {
        let spec = Spec::parse(shipped::spec("asl2018/2.1").unwrap(), "spec.toml").unwrap();
        let questions = spec.questions();
        let template = template(&questions, "asl2018/2.1");
        let refused = answers(&template, "a.toml", &questions).unwrap_err().to_string();
        assert!(
            refused.contains("`reads`: nothing is written") && refused.contains("a.toml, line 5"),
            "{refused}"
        );
        let filled = template.replace("= \"\"", "= 12");
        let read = answers(&filled, "a.toml", &questions).unwrap();
        assert_eq!(read.len(), questions.len());
        assert!(read.iter().all(|guess| guess.value == Some(12.0)));
        let none = answers(&template.replace("= \"\"", "= \"?\""), "a.toml", &questions).unwrap_err();
        assert!(none.to_string().contains("no guess in it"), "{none}");
        let unknown = answers("raeds = 1", "a.toml", &questions).unwrap_err().to_string();
        assert!(
            unknown.contains("no question `raeds`") && unknown.contains("`reads` is not answered"),
            "{unknown}"
        );
    }

    #[test]
    fn a_question_of_several_lines_is_a_comment_in_the_template() {
        let spec = Spec::parse(shipped::spec("asl2018/2.1").unwrap(), "spec.toml").unwrap();
        let mut questions = spec.questions();
        questions[0].ask = "How many?\nPer second, that is.".into();
        let template = template(&questions, "asl2018/2.1");
        assert!(template.contains("\n\n# How many?\n# Per second, that is.\n# ("), "{template}");
        let filled = template.replace("= \"\"", "= 12");
        assert_eq!(answers(&filled, "a.toml", &questions).unwrap().len(), questions.len());
    }
}
