//! The files of a trial's folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::StationError;

pub(super) fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> StationError {
    StationError::new("load", format!("{}: {error}", path.display()))
}

/// A folder that is there from now on.
pub(super) fn made(folder: &Path) -> Result<PathBuf, StationError> {
    fs::create_dir_all(folder).map_err(|error| unreadable(folder, &error))?;
    Ok(folder.to_owned())
}

pub(super) fn save(file: &Path, value: &impl Serialize) -> Result<(), StationError> {
    let text = serde_json::to_string_pretty(value).expect("plain data");
    fs::write(file, text).map_err(|error| unreadable(file, &error))
}

pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Result<T, StationError> {
    let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    serde_json::from_str(&text).map_err(|error| unreadable(file, &error))
}
