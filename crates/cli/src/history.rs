//! Older directories of results beside the one that is reported.

use std::path::{Path, PathBuf};

use krarup_analysis::history::History;
use krarup_analysis::history_runs::history;
use krarup_analysis::pairs::pairs;
use krarup_analysis::results::Results;

use crate::compare::{no_results, of_results};
use crate::failure::Failure;
use crate::written::RESULTS;

/// The results of these directories beside `results`, which are those of `own`; none where none are
/// named.
///
/// # Errors
/// Names a directory that has no results, is named twice, or has no cell in common.
pub(crate) fn beside(results: &Results, own: &Path, against: &[PathBuf]) -> Result<Option<History>, Failure> {
    let own = own.canonicalize().unwrap_or_else(|_| own.to_owned());
    let mut older: Vec<(PathBuf, Results)> = Vec::new();
    for directory in against {
        let found = read(directory)?;
        let place = directory.canonicalize().unwrap_or_else(|_| directory.clone());
        if place == own || older.iter().any(|(known, _)| *known == place) {
            let what = format!("--against: {} stands beside itself", directory.display());
            return Err(Failure::usage(what).hint("name each directory of results once"));
        }
        if pairs(&found, results).next().is_none() {
            let what =
                format!("--against: {} and {} have no cell in common", directory.display(), own.display());
            return Err(Failure::usage(what)
                .hint("name results of the same spec, or of one with the same factors and levels in part"));
        }
        older.push((place, found));
    }
    if older.is_empty() {
        return Ok(None);
    }
    let mut runs: Vec<(&Path, &Results)> = older.iter().map(|(place, found)| (&**place, found)).collect();
    runs.push((&own, results));
    let names = names(&runs.iter().map(|(place, _)| *place).collect::<Vec<_>>());
    Ok(Some(history(names.into_iter().zip(runs.into_iter().map(|(_, found)| found)).collect())))
}

fn read(directory: &Path) -> Result<Results, Failure> {
    let file = directory.join(RESULTS);
    let found = if file.is_file() { of_results(&file) } else { Err(no_results(directory)) };
    found.map_err(|why| why.at("--against"))
}

/// What directories are called: by as many of their last names as tell them apart.
fn names(places: &[&Path]) -> Vec<String> {
    let last = |place: &Path, count: usize| {
        let parts: Vec<_> = place.components().collect();
        let kept = parts[parts.len().saturating_sub(count)..].iter().collect::<PathBuf>();
        kept.display().to_string()
    };
    let most = places.iter().map(|place| place.components().count()).max().unwrap_or(1);
    let differ = |count: &usize| {
        let mut names: Vec<String> = places.iter().map(|place| last(place, *count)).collect();
        names.sort();
        names.windows(2).all(|two| two[0] != two[1])
    };
    let count = (1..=most).find(differ).unwrap_or(most);
    places.iter().map(|place| last(place, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_called_by_what_tells_them_apart() {
        let of = |places: &[&str]| names(&places.iter().map(Path::new).collect::<Vec<_>>());
        assert_eq!(of(&["/a/march", "/b/april"]), ["march", "april"]);
        assert_eq!(of(&["/a/march/results", "/a/april/results"]), ["march/results", "april/results"]);
    }
}
