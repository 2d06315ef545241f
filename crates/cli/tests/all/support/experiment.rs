//! Experiments that a test lets the whole program run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fresh;
use super::process::{Ended, Program};

/// A trial on a disturbed machine is run again: on one that is always disturbed an experiment takes
/// twice as long, or more.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A folder of its own with the spec in it.
pub(crate) fn place(name: &str, spec: &str) -> (PathBuf, PathBuf) {
    let folder = fresh(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("small.toml"), spec).unwrap();
    let out = folder.join("results");
    (folder.join("small.toml"), out)
}

pub(crate) fn begin(spec: &Path, out: &Path) -> Program {
    Program::begin(&["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap()])
}

pub(crate) fn run(spec: &Path, out: &Path) -> Ended {
    let ended = begin(spec, out).ended_within(LONG);
    assert!(ended.success, "{ended:?}");
    ended
}

pub(crate) fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .unwrap()
}

/// Whether a process that a ledger noted, by its number and when it began, still runs. One that was
/// killed and has not been asked for by its parent yet is a name in a table, and no more.
pub(crate) fn still_runs(noted: &str) -> bool {
    let (process, begun) = noted.split_once(' ').unwrap();
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    fields.get(19) == Some(&begun) && !matches!(fields[0], "Z" | "X")
}
