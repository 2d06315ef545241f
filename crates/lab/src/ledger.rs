//! What was started is written down at once, so that the next runner can end what one that was
//! killed has left.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The first words of lines that are no processes.
const SPACE: &str = "netns";
const GROUP: &str = "group";
const FOLDER: &str = "folder";

/// Something that was started or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerEntry {
    /// A process, and when it began.
    Process { number: u32, begun: u64 },
    /// A network namespace.
    Space(String),
    /// A control group.
    Group(PathBuf),
    /// A folder of sockets.
    Folder(PathBuf),
}

impl LedgerEntry {
    /// A line of the file; none where it is cut off.
    fn read(line: &str) -> Option<Self> {
        let (what, which) = line.split_once(' ')?;
        Some(match what {
            SPACE => Self::Space(which.to_owned()),
            GROUP => Self::Group(which.into()),
            FOLDER => Self::Folder(which.into()),
            number => Self::Process { number: number.parse().ok()?, begun: which.parse().ok()? },
        })
    }
}

/// A file with a line for each process: its number, and when it began, since numbers are given
/// again.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// The ledger in this file.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
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

    /// Writes a folder of sockets down.
    pub fn note_folder(&self, folder: &Path) {
        self.line(FOLDER, &folder.display().to_string());
    }

    fn line(&self, what: &str, which: &str) {
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&self.path) {
            let _ = writeln!(file, "{what} {which}");
        }
    }

    /// All that was written down, in its order.
    pub(crate) fn entries(&self) -> Vec<LedgerEntry> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
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
