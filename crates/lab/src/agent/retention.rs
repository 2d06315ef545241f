//! How long a machine keeps what no run uses any more: folders of runs that were cut off, as by a
//! machine that began anew, and other builds of this program.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For how long. Each trial changes the folder of its run, and each run that of its build.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Removes folders of runs beside this one's that are older and, where no other run may go on,
/// other builds that are. How old is counted from when this run's folder was made, by one clock:
/// several machines may have one disk.
pub(super) fn remove_unused(run: &Path) {
    let changed = |folder: &Path| fs::metadata(folder).and_then(|folder| folder.modified()).ok();
    let (Some(now), Some(runs)) = (changed(run), run.parent()) else { return };
    let is_old = |folder: &PathBuf| {
        changed(folder).and_then(|at| now.duration_since(at).ok()).is_some_and(|age| age > KEPT)
    };
    let others = folders(runs).filter(|other| other != run && is_run(&name(other)));
    let (old, recent): (Vec<PathBuf>, Vec<PathBuf>) = others.partition(is_old);
    for folder in old {
        let _ = fs::remove_dir_all(folder);
    }
    let (Some(cache), Ok(own), true) = (runs.parent(), std::env::current_exe(), recent.is_empty()) else {
        return;
    };
    let is_own = |build: &str| own.parent().is_some_and(|own| own.ends_with(build));
    let builds = folders(cache).filter(|build| is_build(&name(build)) && !is_own(&name(build)));
    for build in builds.filter(is_old) {
        copies(&build).for_each(|copy| _ = fs::remove_file(copy));
        let _ = fs::remove_dir(build);
    }
}

/// The program of a build, and copies of it that were cut off as they came: the number of the shell
/// that took one in stands behind its name.
fn copies(build: &Path) -> impl Iterator<Item = PathBuf> {
    let is_copy = |name: &str| {
        let rest = name.strip_prefix("krarup");
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('.').is_some_and(|shell| shell.parse::<u32>().is_ok())
        })
    };
    let entries = fs::read_dir(build).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(move |path| is_copy(&name(path)))
}

fn folders(of: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_hexadecimal(word: &str, digits: usize) -> bool {
    word.len() == digits && word.chars().all(|letter| letter.is_ascii_hexdigit())
}

/// Whether a folder has the name of a run's: a number of a process, nanoseconds since 1970, a
/// machine, and how often it was connected to. Others may keep folders beside ours.
fn is_run(name: &str) -> bool {
    let is_number = |word: &str| word.parse::<u32>().is_ok();
    let parts: Vec<&str> = name.splitn(3, '-').collect();
    let [process, began, rest] = parts[..] else { return false };
    let connected = rest.rsplit_once('-').is_some_and(|(_, connected)| is_number(connected));
    is_number(process) && is_hexadecimal(began, 16) && connected
}

/// Whether a folder has the name of a build's: what its bytes are.
fn is_build(name: &str) -> bool {
    is_hexadecimal(name, 64)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;
    use crate::testbed::remote::tests::run_folder;

    #[test]
    fn what_no_run_has_used_for_long_is_removed_and_nothing_else() {
        let cache = std::env::temp_dir().join(format!("krarup-retention-{}", std::process::id()));
        let made = |name: &str, day: u64| {
            let folder = cache.join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("krarup"), "").unwrap();
            // It was cut off as it came.
            fs::write(folder.join("krarup.4711"), "").unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(day * 24 * 3_600);
            File::open(&folder).unwrap().set_modified(at).unwrap();
            folder
        };
        let run = |machine: &str, day| made(&format!("runs/{}", run_folder(machine)), day);
        let (own, rebooted, other) = (run("m1", 100), run("s-1", 69), run("m2", 71));
        let [unused, used] = [("a", 69), ("b", 71)].map(|(digit, day)| made(&digit.repeat(64), day));
        let foreign = ["runs/2026-01-05-run-1", "runs/1-2-3", "notes", "cafe"].map(|name| made(name, 1));
        remove_unused(&own);
        assert!(!rebooted.exists() && other.exists());
        assert!(unused.exists(), "the other run may use it");
        fs::remove_dir_all(&other).unwrap();
        remove_unused(&own);
        assert!(!unused.exists() && used.exists() && own.exists());
        assert!(foreign.iter().all(|folder| folder.join("krarup").is_file()));
        fs::remove_dir_all(cache).unwrap();
    }
}
