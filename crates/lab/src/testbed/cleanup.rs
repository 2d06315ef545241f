//! Takes away what a ledger says was started: for the runner after one that was killed.

use std::fs::{self, File};
use std::path::{Component, Path};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::pods::kubectl::Kubectl;
use super::{cap, namespace};
use crate::ledger::{Ledger, LedgerEntry, begun};
use crate::waiting::{self, pid};

/// How long those that were killed may take to be gone.
const GONE: Duration = Duration::from_secs(2);

impl Ledger {
    /// Kills those that still run, written down or not yet, takes namespaces, control groups,
    /// folders and pods away that are still there, and forgets all. Returns how many there were of
    /// all but folders.
    pub fn settle(&self) -> usize {
        let mut ended = 0;
        let (mut killed, mut groups, mut folders) = (Vec::new(), Vec::new(), Vec::new());
        for entry in self.entries() {
            match entry {
                LedgerEntry::Process { number, begun: noted } => {
                    killed.extend((begun(number) == Some(noted) && kill(number)).then_some(number));
                }
                LedgerEntry::Space(name) => {
                    ended += namespace::empty(&name) + usize::from(namespace::remove(&name));
                }
                LedgerEntry::Group(folder) => groups.push(folder),
                LedgerEntry::Folder(folder) => folders.push(folder),
                // Only what has the label of a run is deleted.
                LedgerEntry::Pods { run, options } => {
                    ended += usize::from(Kubectl::with(options).delete_run(&run));
                }
            }
        }
        killed.extend(self.marked().filter(|process| kill(*process)));
        let until = Instant::now() + GONE;
        for process in &killed {
            waiting::for_end(*process, until.saturating_duration_since(Instant::now()));
        }
        // Only now no process is in them any more.
        ended += groups.iter().filter(|group| cap::remove(group)).count();
        for folder in folders.iter().filter(|folder| is_ours(folder) && !is_used(folder)) {
            let _ = fs::remove_dir_all(folder);
        }
        self.forget();
        ended + killed.len()
    }
}

/// Whether a folder has a name that we give: a ledger that was tampered with takes nothing else
/// away.
fn is_ours(folder: &Path) -> bool {
    let leads_out = folder.components().any(|part| part == Component::ParentDir);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    !leads_out && ["krarup-ssh-", "krarup-broker-"].iter().any(|own| name.starts_with(own))
}

/// Whether a database is there that still runs: another process that was given the same number.
fn is_used(folder: &Path) -> bool {
    File::open(folder.join(".lock")).is_ok_and(|lock| lock.try_lock().is_err())
}

/// Whether there was a process of this number to be killed.
fn kill(process: u32) -> bool {
    pid(process).is_some_and(|process| kill_process(process, Signal::KILL).is_ok())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that runs on, and is written down.
    fn noted(ledger: &Ledger) -> Child {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        ledger.note(child.id());
        child
    }

    #[test]
    fn what_still_runs_is_ended_and_no_other_process() {
        let path = std::env::temp_dir().join(format!("krarup-ledger-{}", std::process::id()));
        let ledger = Ledger::at(&path);
        let mut child = noted(&ledger);
        // Another process has our number by now.
        fs::write(&path, format!("{}{} 1\n", fs::read_to_string(&path).unwrap(), std::process::id()))
            .unwrap();
        assert_eq!(ledger.settle(), 1);
        assert!(!child.wait().unwrap().success());
        assert_eq!(ledger.settle(), 0, "it was forgotten");
    }

    #[test]
    fn what_a_copy_lists_is_left_and_what_was_moved_is_not() {
        let path = std::env::temp_dir().join(format!("krarup-ledger-copied-{}", std::process::id()));
        let ledger = Ledger::at(&path);
        let mut child = noted(&ledger);
        let [copy, moved] = ["copy", "moved"].map(|name| path.with_extension(name));
        fs::copy(&path, &copy).unwrap();
        assert_eq!(Ledger::at(&copy).settle(), 0, "another runner has started it");
        assert!(child.try_wait().unwrap().is_none());
        fs::rename(&path, &moved).unwrap();
        assert_eq!(Ledger::at(&moved).settle(), 1);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn folders_of_ours_are_taken_away_unless_they_are_used_and_no_others() {
        let root = std::env::temp_dir().join(format!("krarup-ledger-folders-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let folder = |name: &str| {
            let folder = root.join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(".lock"), "").unwrap();
            folder
        };
        let ours = ["krarup-ssh-1-0", "krarup-broker-1", "krarup-broker-1-2"].map(folder);
        let kept = ["krarup-broker-2", "kept", "krarup-ssh-notes/kept"].map(folder);
        let lock = File::open(kept[0].join(".lock")).unwrap();
        lock.try_lock().unwrap();
        let ledger = Ledger::at(&root.join("processes"));
        ours.iter().chain(&kept).for_each(|folder| ledger.note_folder(folder));
        // Ways that lead out of one of ours.
        ledger.note_folder(&root.join("krarup-ssh-notes/../kept"));
        ledger.note_folder(&root.join("krarup-ssh-notes/../krarup-ssh-notes"));
        assert_eq!(ledger.settle(), 0);
        assert!(ours.iter().all(|folder| !folder.exists()));
        assert!(kept.iter().all(|folder| folder.exists()));
        drop(lock);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_was_started_and_not_yet_written_down_is_ended_too() {
        let path = std::env::temp_dir().join(format!("krarup-ledger-mark-{}", std::process::id()));
        let ledger = Ledger::at(&path);
        let mut command = Command::new("cat");
        ledger.mark(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut child = command.spawn().unwrap();
        // Its environment can be read a moment after it has begun: when it answers, that is over.
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(Ledger::at(&path.with_extension("other")).settle(), 0, "it is not of this ledger");
        assert_eq!(ledger.settle(), 1);
        assert!(!child.wait().unwrap().success());
    }
}
