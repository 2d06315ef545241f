//! Experiments that a test lets the whole program run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fresh;
use super::process::{Ended, Program};

/// A trial on a disturbed machine is run again: on one that is always disturbed an experiment takes
/// twice as long, or more.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// How long a run on other machines or in pods may take, on a machine that does much else.
pub(crate) const ELSEWHERE: Duration = Duration::from_secs(900);

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

/// A run on other machines or in pods, at its end.
pub(crate) fn finished(program: Program) -> Ended {
    let ended = program.ended_within(ELSEWHERE);
    assert!(ended.success, "{ended:?}");
    ended
}

/// The names of all files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            names.extend(files(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            names.push(name);
        }
    }
    names.sort();
    names
}

/// Results of elsewhere have the files and cells of those of this machine, which has one clock and
/// one monitor.
pub(crate) fn are_alike(elsewhere: &Path, here: &Path) {
    let plain = |folder: &Path| -> Vec<String> {
        let names = files(&folder.join("trials")).into_iter();
        names.filter(|name| !name.contains("/monitor/") && !name.ends_with("clocks.json")).collect()
    };
    assert_eq!(plain(elsewhere), plain(here));
    let cells = |folder: &Path| json(&folder.join("results.json"))["cells"].as_array().unwrap().len();
    assert_eq!(cells(elsewhere), cells(here));
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
