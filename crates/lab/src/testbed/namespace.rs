//! Network namespaces of this machine, each by itself: how one goes there, and how one is taken
//! away.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::error::StationError;

/// Does something in a namespace. What is made there, a socket or a device, stays there whichever
/// thread uses it: a thread of its own goes there, and never comes back.
///
/// # Errors
/// Where there is no such namespace, or what is done fails.
pub fn inside<T: Send + 'static>(
    space: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let place = Path::new("/run/netns").join(space);
    let there = thread::Builder::new().spawn(move || {
        let file = File::open(place)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    });
    there?.join().unwrap_or_else(|_| Err(io::Error::other("the thread that went there panicked")))
}

/// Kills what is still in a namespace of ours: a runner that is killed may have started a process
/// that it had no time to note. How many there were.
pub fn empty(space: &str) -> usize {
    if !is_ours(space) {
        return 0;
    }
    let said = run("ip", &["netns", "pids", space]).unwrap_or_default();
    let processes = said.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?));
    processes.filter(|process| kill_process(*process, Signal::KILL).is_ok()).count()
}

/// Takes a namespace of ours away, and its links with it; whether there was one.
pub fn remove(space: &str) -> bool {
    is_ours(space) && ip(&["netns", "del", space]).is_ok()
}

/// A ledger that was tampered with may name others.
fn is_ours(space: &str) -> bool {
    space.starts_with("krarup-")
}

/// Runs `ip`.
pub(super) fn ip(words: &[&str]) -> Result<(), StationError> {
    run("ip", words).map(drop)
}

/// Runs it to its end: what it said on stdout. A Ctrl-C at the terminal, which would end it in the
/// middle of what it makes or takes away, does not reach its group.
pub(super) fn run(program: &str, words: &[&str]) -> Result<String, StationError> {
    let wrong = |why: String, said: &[u8]| StationError {
        name: "network".into(),
        why: format!("`{program} {}` {why}", words.join(" ")),
        hint: "namespaces need root, and Debian's package iproute2".into(),
        said: String::from_utf8_lossy(said).lines().map(str::to_owned).collect(),
        certain: false,
    };
    let output = Command::new(program).args(words).process_group(0).stdin(Stdio::null()).output();
    let output = output.map_err(|error| wrong(format!("cannot be run: {error}"), &[]))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(wrong(format!("failed ({})", output.status), &output.stderr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal sends a Ctrl-C to every process of the runner's group.
    #[test]
    fn what_makes_namespaces_is_out_of_reach_of_a_terminal() {
        let stat = run("sh", &["-c", "read -r stat < /proc/$$/stat; echo \"$stat\""]).unwrap();
        // `12 (sh) S 11 12 …`: its number, and behind its state and its parent its group.
        let (number, rest) = stat.split_once(" (").unwrap();
        let (_, rest) = rest.rsplit_once(") ").unwrap();
        assert_eq!(rest.split(' ').nth(2), Some(number), "{stat}");
    }
}
