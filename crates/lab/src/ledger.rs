//! What was started is written down at once, so that whoever comes after one that was killed can end it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::testbed::{cap, netns};

/// The first words of lines that are no processes.
const SPACE: &str = "netns";
const GROUP: &str = "group";
const FOLDER: &str = "folder";

/// A file with a line for each process: its number, and when it began, since numbers are given again.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// The ledger in this file.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Writes a process down. One that cannot be written down runs all the same: it ends with its trial.
    pub fn note(&self, process: u32) {
        if let Some(begun) = begun(process) {
            self.line(&process.to_string(), &begun.to_string());
        }
    }

    /// Writes a network namespace down, before it is made.
    pub fn note_space(&self, name: &str) {
        self.line(SPACE, name);
    }

    /// Writes a control group down, before it is made.
    pub fn note_group(&self, folder: &Path) {
        self.line(GROUP, &folder.display().to_string());
    }

    /// Writes a folder of sockets down.
    pub fn note_folder(&self, folder: &Path) {
        self.line(FOLDER, &folder.display().to_string());
    }

    fn line(&self, what: &str, which: &str) {
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&self.path) {
            let _ = writeln!(file, "{what} {which}");
        }
    }

    /// Kills those that still run, takes namespaces and control groups away that are still there, and forgets all. Returns how many there were.
    pub fn settle(&self) -> usize {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let mut ended = 0;
        let mut groups = Vec::new();
        for line in text.lines() {
            let Some((process, noted)) = line.split_once(' ') else { continue };
            if process == GROUP {
                groups.push(noted);
                continue;
            }
            if process == FOLDER {
                // Of ours alone: a ledger that was tampered with takes nothing else away.
                if noted.contains("/krarup-ssh-") {
                    let _ = fs::remove_dir_all(noted);
                }
                continue;
            }
            if process == SPACE {
                ended += netns::empty(noted) + usize::from(netns::remove(noted));
                continue;
            }
            let (Ok(process), Ok(noted)) = (process.parse::<u32>(), noted.parse::<u64>()) else { continue };
            let number = i32::try_from(process).ok().and_then(Pid::from_raw);
            if let Some(number) = number.filter(|_| begun(process) == Some(noted)) {
                ended += usize::from(kill_process(number, Signal::KILL).is_ok());
            }
        }
        // Only now nobody is in them any more.
        ended += groups.into_iter().filter(|group| cap::remove(Path::new(group))).count();
        let _ = fs::remove_file(&self.path);
        ended
    }
}

/// When a process began, in the kernel's own ticks since it started; none if it is gone.
fn begun(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // `12 (name) S 11 …`, where the name may hold anything but ends with the last parenthesis; the 22nd field.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_still_runs_is_ended_and_nobody_else() {
        let path = std::env::temp_dir().join(format!("krarup-ledger-{}", std::process::id()));
        let ledger = Ledger::at(&path);
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        ledger.note(child.id());
        // Somebody else has our number by now.
        fs::write(&path, format!("{}{} 1\n", fs::read_to_string(&path).unwrap(), std::process::id()))
            .unwrap();
        assert_eq!(ledger.settle(), 1);
        assert!(!child.wait().unwrap().success());
        assert_eq!(ledger.settle(), 0, "it was forgotten");
    }
}
