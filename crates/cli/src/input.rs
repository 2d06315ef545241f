//! Files that a command reads: their text, and JSON in them, with errors that a person can act on.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use krarup_units::Mistake;
use krarup_units::mistake::place;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// A file's text, without the byte order mark that some programs put before it.
///
/// # Errors
/// Names the file and why it cannot be read; exit code 2.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let mut text = fs::read_to_string(path).map_err(|error| unread(path, &error))?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.remove(0);
    }
    Ok(text)
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Why a file cannot be read.
pub(crate) fn unread(path: &Path, error: &Error) -> Failure {
    let failure = Failure::usage(Mistake::system(error).of(&path.display().to_string()));
    match error.kind() {
        ErrorKind::IsADirectory => failure.hint("give the name of a file in it"),
        ErrorKind::PermissionDenied => failure.hint("`ls -l` shows which user may read it"),
        _ => failure,
    }
}

/// A file of JSON.
///
/// # Errors
/// Names the file, the line and what is wrong there; exit code 2.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    of_json(&text(path)?, path)
}

/// The same of a file that may not be there: none then.
///
/// # Errors
/// As [`json`].
pub(crate) fn json_if_there<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    if path.is_file() { json(path).map(Some) } else { Ok(None) }
}

/// The parts of some work that several machines did, each in a file that `command` writes.
///
/// # Errors
/// As [`json`], with how a part is made.
pub(crate) fn parts<T: DeserializeOwned>(paths: &[PathBuf], command: &str) -> Result<Vec<T>, Failure> {
    let why = || format!("is no part, or not a whole one: {command} --part FILE writes one");
    paths.iter().map(|path| json(path).map_err(|failure| failure.or_hint(why()))).collect()
}

/// JSON that was read from a file.
///
/// # Errors
/// Names the file, the line and what is wrong there; exit code 2.
pub(crate) fn of_json<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| {
        let begin: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let place = place(&path.display().to_string(), text, begin);
        let mistake = if error.is_syntax() {
            Mistake::plain(format!("it is no JSON, from its column {} on", error.column()))
        } else {
            Mistake::of_reader(&error.to_string())
        };
        Failure::usage(mistake.of(&place))
    })
}
