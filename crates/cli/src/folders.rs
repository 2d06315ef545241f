//! Finds what runs left behind, however deep.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The folders that hold this file: itself, or else those in it, by name. One to which several
/// links lead is one.
pub(crate) fn holding(folder: &Path, file: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    find(folder, file, &mut BTreeSet::new(), &mut found)?;
    Ok(found)
}

/// Adds those of a folder to what was `found`, where it is none of those that were `seen`.
fn find(
    folder: &Path,
    file: &str,
    seen: &mut BTreeSet<(u64, u64)>,
    found: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    let metadata = fs::metadata(folder).map_err(unreadable(folder))?;
    if !seen.insert((metadata.dev(), metadata.ino())) {
        return Ok(());
    }
    if folder.join(file).is_file() {
        found.push(folder.to_owned());
        return Ok(());
    }
    folders(folder)?.iter().try_for_each(|inner| find(inner, file, seen, found))
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
    let wrong = unreadable(folder);
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

fn unreadable(folder: &Path) -> impl Fn(io::Error) -> Failure + Copy {
    move |error| Failure::usage(format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A run counts once, and links that lead back end.
    #[test]
    fn links_make_no_run_of_several() {
        let root = std::env::temp_dir().join(format!("krarup-links-{}", std::process::id()));
        let run = root.join("all/june");
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("load.json"), "").unwrap();
        symlink("june", root.join("all/latest")).unwrap();
        symlink(&root, root.join("all/back")).unwrap();
        let found = [root.clone(), root.join("all/latest")].map(|folder| holding(&folder, "load.json"));
        fs::remove_dir_all(&root).unwrap();
        let found = found.map(Result::unwrap_or_default);
        assert_eq!(found, [vec![run], vec![root.join("all/latest")]]);
    }
}
