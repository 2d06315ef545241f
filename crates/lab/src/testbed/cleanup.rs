//! Takes away what a ledger says was started: for the runner after one that was killed.

use std::fs;

use rustix::process::{Signal, kill_process};

use super::pods::kubectl::Kubectl;
use super::{cap, namespace};
use crate::ledger::{Ledger, LedgerEntry, begun};
use crate::waiting::pid;

impl Ledger {
    /// Kills those that still run, written down or not yet, takes namespaces, control groups and
    /// pods away that are still there, and forgets all. Returns how many there were.
    pub fn settle(&self) -> usize {
        let mut ended = 0;
        let mut groups = Vec::new();
        for entry in self.entries() {
            match entry {
                LedgerEntry::Process { number, begun: noted } => {
                    ended += usize::from(begun(number) == Some(noted) && kill(number));
                }
                LedgerEntry::Space(name) => {
                    ended += namespace::empty(&name) + usize::from(namespace::remove(&name));
                }
                LedgerEntry::Group(folder) => groups.push(folder),
                // Of ours alone: a ledger that was tampered with takes nothing else away.
                LedgerEntry::Folder(folder) if folder.to_string_lossy().contains("/krarup-ssh-") => {
                    let _ = fs::remove_dir_all(folder);
                }
                LedgerEntry::Folder(_) => {}
                // Only what has the label of a run is deleted.
                LedgerEntry::Pods { run, options } => {
                    ended += usize::from(Kubectl::with(options).delete_run(&run));
                }
            }
        }
        ended += self.marked().filter(|process| kill(*process)).count();
        // Only now no process is in them any more.
        ended += groups.iter().filter(|group| cap::remove(group)).count();
        self.forget();
        ended
    }
}

/// Whether there was a process of this number to be killed.
fn kill(process: u32) -> bool {
    pid(process).is_some_and(|process| kill_process(process, Signal::KILL).is_ok())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_still_runs_is_ended_and_no_other_process() {
        let path = std::env::temp_dir().join(format!("krarup-ledger-{}", std::process::id()));
        let ledger = Ledger::at(&path);
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        ledger.note(child.id());
        // Another process has our number by now.
        fs::write(&path, format!("{}{} 1\n", fs::read_to_string(&path).unwrap(), std::process::id()))
            .unwrap();
        assert_eq!(ledger.settle(), 1);
        assert!(!child.wait().unwrap().success());
        assert_eq!(ledger.settle(), 0, "it was forgotten");
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
