//! Finds what runs left behind, however deep.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The folders that hold this file: itself, or else those in it, by name.
pub(crate) fn holding(folder: &Path, file: &str) -> Result<Vec<PathBuf>, Failure> {
    if folder.join(file).is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let inner = folders(folder)?.into_iter().map(|inner| holding(&inner, file));
    Ok(inner.collect::<Result<Vec<_>, _>>()?.concat())
}

/// What each generator of a run wrote: `load.json`, or `clients/1.json` and so on where there were
/// several.
pub(crate) fn load_results(run: &Path) -> Vec<PathBuf> {
    let several = (1..).map(|number| run.join(format!("clients/{number}.json")));
    [run.join("load.json")]
        .into_iter()
        .filter(|file| file.is_file())
        .chain(several.take_while(|file| file.is_file()))
        .collect()
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |error: std::io::Error| Failure::usage(format!("{}: {error}", folder.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
