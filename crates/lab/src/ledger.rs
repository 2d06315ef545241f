//! What was started is written down at once, so that the next runner can end what one that was
//! killed has left.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::monitor::carriers;

/// The first words of lines that are no processes.
const LEDGER: &str = "ledger";
const SPACE: &str = "netns";
const GROUP: &str = "group";
const FOLDER: &str = "folder";
const PODS: &str = "pods";

/// What a started process has in its environment: the path of the ledger.
const MARK: &str = "KRARUP_LEDGER";

/// Something that was started or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerEntry {
    /// A process, and when it began.
    Process { number: u32, begun: u64 },
    /// A network namespace.
    Space(String),
    /// A control group.
    Group(PathBuf),
    /// A folder of sockets, or of a database.
    Folder(PathBuf),
    /// Pods of a run, and the words that tell kubectl their cluster.
    Pods { run: String, options: Vec<String> },
}

impl LedgerEntry {
    /// A line of the file; none where it is cut off.
    fn read(line: &str) -> Option<Self> {
        let (what, which) = line.split_once(' ')?;
        Some(match what {
            SPACE => Self::Space(which.to_owned()),
            GROUP => Self::Group(which.into()),
            FOLDER => Self::Folder(which.into()),
            PODS => {
                let (run, options) = which.split_once(' ')?;
                Self::Pods { run: run.to_owned(), options: serde_json::from_str(options).ok()? }
            }
            number => Self::Process { number: number.parse().ok()?, begun: which.parse().ok()? },
        })
    }
}

/// A file with a line for each process: its number, and when it began, since numbers are given
/// again. Its first line says which file it is, and where: what a copy lists is another runner's.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// The ledger in this file.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The ledger of the runner that has started this process on its machine; none: no runner has.
    pub fn inherited() -> Option<Self> {
        let marked = std::env::var(MARK).ok()?;
        Some(Self::at(Path::new(marked.strip_suffix('/')?)))
    }

    /// What this command starts is known by its environment as well, until it is written down: a
    /// runner may be killed between the two.
    pub(crate) fn mark(&self, command: &mut Command) {
        command.env(MARK, self.value());
    }

    /// The processes of this machine that carry the mark, other than this one.
    pub(crate) fn marked(&self) -> impl Iterator<Item = u32> {
        let own = std::process::id();
        let mark = format!("{MARK}={}", self.value());
        carriers(&mark).into_iter().filter(move |process| *process != own)
    }

    /// The path, the same wherever this is called, and no other's beginning.
    fn value(&self) -> String {
        let folder = self.path.parent().filter(|folder| *folder != Path::new(""));
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).unwrap_or_default();
        format!("{}/", folder.join(self.path.file_name().unwrap_or_default()).display())
    }

    /// Writes a process down. One that cannot be written down runs all the same: it ends with its
    /// trial.
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

    /// Writes a folder of sockets down, or of a database that goes with its server.
    pub fn note_folder(&self, folder: &Path) {
        self.line(FOLDER, &folder.display().to_string());
    }

    /// Writes pods down, before they are made.
    pub fn note_pods(&self, run: &str, options: &[String]) {
        let options = serde_json::to_string(options).expect("words are text");
        self.line(PODS, &format!("{run} {options}"));
    }

    fn line(&self, what: &str, which: &str) {
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&self.path) {
            let empty = file.metadata().ok().filter(|file| file.len() == 0);
            let own = |file: fs::Metadata| format!("{LEDGER} {} {}\n", file.ino(), self.value());
            let first = empty.map_or_else(String::new, own);
            // In one piece: stations write here, too.
            let _ = file.write_all(format!("{first}{what} {which}\n").as_bytes());
        }
    }

    /// All that was written down, in its order; nothing where this is a copy.
    pub(crate) fn entries(&self) -> Vec<LedgerEntry> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let number = fs::metadata(&self.path).map_or(0, |file| file.ino()).to_string();
        let of_other = |line: &str| {
            let named = line.strip_prefix(LEDGER).and_then(|rest| rest.trim_start().split_once(' '));
            named.is_some_and(|(its, place)| its != number && place != self.value())
        };
        if text.lines().next().is_some_and(of_other) {
            return Vec::new();
        }
        text.lines().filter_map(LedgerEntry::read).collect()
    }

    /// Forgets all of it.
    pub(crate) fn forget(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// When a process began, in the kernel's own ticks since it started; none if it is gone.
pub(crate) fn begun(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // `12 (name) S 11 …`, where the name may hold anything but ends with the last parenthesis; the
    // 22nd field.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}
