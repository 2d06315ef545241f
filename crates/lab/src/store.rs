//! A directory of results: a trial is a folder that gets its name when it is complete, so that one
//! that was cut off is none.
//!
//! ```text
//! DIR/spec.toml  plan.csv  identities.json     what was asked for, and which trials belong to it
//! DIR/trials/workload=read,clients=8/0/        trial.json and what each station said
//! DIR/trials/workload=read,clients=8/anchor-0-1/   a run of the anchor, in the first block the second
//! DIR/failed/workload=read,clients=8/0-1/      the same of a trial that failed, with its reason
//! DIR/unfinished/                              what is being run, or was when the power failed
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use krarup_units::Seconds;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::identity::ManifestIdentity;
use crate::ledger::Ledger;
use crate::plan::{PlannedCell, run_name};
use crate::waiting;

/// How long the lock of a runner that was killed is waited for, and how often it is looked.
const LEFT_BEHIND: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

/// What a trial was, kept with its records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Everything that could change its outcome.
    pub identity: ManifestIdentity,
    /// Factor and level.
    pub levels: Vec<(String, String)>,
    /// Which repetition of its cell, from 0; beyond them, runs of the anchor
    /// ([`crate::plan::anchor_run`]).
    pub repetition: u32,
    /// Which attempt, from 0.
    pub attempt: u32,
    /// When it began, in seconds since 1970 (UTC).
    pub started_unix: Seconds,
    /// Every command that was run, in the order in which they were started.
    pub commands: Vec<String>,
    /// Requests per second, as the clients counted them.
    pub throughput: f64,
    /// Mean response time at the clients.
    pub response: Seconds,
    /// How many times slower everything was than on the machines that its figures speak of: those
    /// here are scaled back, those in the files beside it are as they were measured. None where
    /// nothing was scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower: Option<f64>,
    /// Why it failed; none where it did not.
    pub failed: Option<String>,
    /// Why other programs may have changed its figures; none where none was in the way, or none was
    /// looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
    /// The digest of the guesses that were sealed when it began; none where none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sheet: Option<String>,
    /// What it was measured on; none where an earlier version did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<TrialSystem>,
}

/// What a trial was measured on, as far as that is compared with what others were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialSystem {
    /// What processor, kernel, programs and machines are, by what they are called.
    pub names: BTreeMap<String, String>,
    /// Which share of a processor each station of a kind had; empty where nothing was scaled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, f64>,
}

/// A directory of results.
#[derive(Debug)]
pub struct ResultsDirectory {
    directory: PathBuf,
    /// Held while trials are run: the system lets go of it, however we end.
    _lock: Option<File>,
}

/// A file and what the system said about it.
fn named<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

impl ResultsDirectory {
    /// A directory that is there already, to be read.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), _lock: None }
    }

    /// Opens a directory; makes it where there is none. What an earlier run left unfinished is
    /// thrown away, what it left running is ended.
    ///
    /// # Errors
    /// From the system, with the path; where another program runs trials in it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let mut store = Self::at(directory);
        named(directory, fs::create_dir_all(directory))?;
        let path = directory.join(".lock");
        let lock = named(&path, File::create(&path))?;
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                // A runner that was killed while it started a process has left its lock to that
                // one, until it has become another program.
                Err(TryLockError::WouldBlock) if begun.elapsed() < LEFT_BEHIND => waiting::blindly(LOOK),
                Err(TryLockError::WouldBlock) => {
                    let busy =
                        io::Error::new(io::ErrorKind::ResourceBusy, "another krarup runs its trials here");
                    return named(directory, Err(busy));
                }
                Err(TryLockError::Error(error)) => return named(&path, Err(error)),
            }
        }
        store._lock = Some(lock);
        store.ledger().settle();
        let unfinished = store.unfinished();
        if unfinished.exists() {
            named(&unfinished, fs::remove_dir_all(&unfinished))?;
        }
        let trials = store.trials();
        named(&trials, fs::create_dir_all(&trials))?;
        Ok(store)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What was started for these results.
    pub fn ledger(&self) -> Ledger {
        Ledger::at(&self.directory.join("processes"))
    }

    /// Where complete trials are.
    pub fn trials(&self) -> PathBuf {
        self.directory.join("trials")
    }

    /// Where a trial is while it is run.
    pub fn unfinished(&self) -> PathBuf {
        self.directory.join("unfinished")
    }

    pub(crate) fn place(&self, cell: &PlannedCell, repetition: u32) -> PathBuf {
        self.trials().join(&cell.folder).join(run_name(repetition))
    }

    /// Writes a file of the directory, whole or not at all.
    ///
    /// # Errors
    /// From the system, with the path.
    pub fn write(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        let (path, beside) = (self.directory.join(name), self.directory.join(format!(".{name}.new")));
        let written = File::create(&beside).and_then(|mut file| {
            file.write_all(contents)?;
            file.sync_all()
        });
        named(&beside, written)?;
        named(&path, fs::rename(&beside, &path))
    }

    /// Takes a file of the directory away, where it is there.
    ///
    /// # Errors
    /// From the system, with the path.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.directory.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => named(&path, Err(error)),
            _ => Ok(()),
        }
    }

    /// An empty folder for a trial that begins.
    ///
    /// # Errors
    /// From the system, with the path.
    pub fn begin(&self) -> io::Result<PathBuf> {
        let folder = self.unfinished();
        if folder.exists() {
            named(&folder, fs::remove_dir_all(&folder))?;
        }
        named(&folder, fs::create_dir_all(&folder))?;
        Ok(folder)
    }

    /// Gives the trial that was begun its name: among the complete ones, or among those that
    /// failed. A complete trial of another identity in its place is replaced: it belongs to a spec
    /// that is no longer asked for.
    ///
    /// # Errors
    /// From the system, with the path.
    pub fn end(&self, cell: &PlannedCell, manifest: &Manifest) -> io::Result<PathBuf> {
        let from = self.unfinished();
        let text = serde_json::to_string_pretty(manifest).expect("a manifest is plain data");
        let file = from.join("trial.json");
        named(&file, fs::write(&file, text))?;
        let to = match manifest.failed {
            None => self.place(cell, manifest.repetition),
            Some(_) => self.failure(cell, manifest.repetition),
        };
        if let Some(parent) = to.parent() {
            named(parent, fs::create_dir_all(parent))?;
        }
        // A name outlives a power failure that takes with it what was written under it.
        sync(&from)?;
        if to.exists() {
            named(&to, fs::remove_dir_all(&to))?;
        }
        named(&to, fs::rename(&from, &to))?;
        Ok(to)
    }

    /// The first free place for a failed trial: failures of earlier runs are kept, too.
    fn failure(&self, cell: &PlannedCell, repetition: u32) -> PathBuf {
        let folder = self.directory.join("failed").join(&cell.folder);
        let free = (0..u32::MAX).map(|number| folder.join(format!("{}-{number}", run_name(repetition))));
        free.into_iter().find(|path| !path.exists()).expect("some number is free")
    }

    /// Trials of these cells that are there, and whose manifests cannot be read: the file, within
    /// this directory, and why.
    pub fn unread(&self, cells: &[PlannedCell], repetitions: u32) -> Vec<(PathBuf, io::Error)> {
        let places = cells.iter().flat_map(|cell| (0..repetitions).map(|run| self.place(cell, run)));
        let unread = |folder: PathBuf| {
            let file = folder.join("trial.json");
            let text = fs::read_to_string(&file);
            let error = match text {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                Err(error) => error,
                Ok(text) => io::Error::other(serde_json::from_str::<Manifest>(&text).err()?),
            };
            let within = file.strip_prefix(&self.directory).unwrap_or(&file);
            Some((within.to_owned(), error))
        };
        places.filter_map(unread).collect()
    }

    /// Trials that are complete, of any plan, with their manifests, by name.
    pub fn completed(&self) -> Vec<(PathBuf, Manifest)> {
        with_manifests(&self.trials())
    }

    /// Trials that failed, with their manifests, by name.
    pub fn failures(&self) -> Vec<(PathBuf, Manifest)> {
        with_manifests(&self.directory.join("failed"))
    }
}

/// The trials in a folder of cells, with their manifests, by name.
fn with_manifests(cells: &Path) -> Vec<(PathBuf, Manifest)> {
    let trials = folders(cells).into_iter().flat_map(|cell| folders(&cell));
    trials.filter_map(|trial| read(&trial).ok().map(|manifest| (trial, manifest))).collect()
}

/// Lets all files below a folder reach the disk.
fn sync(folder: &Path) -> io::Result<()> {
    for entry in named(folder, fs::read_dir(folder))? {
        let entry = named(folder, entry)?;
        let (path, kind) = (entry.path(), named(folder, entry.file_type())?);
        if kind.is_dir() {
            sync(&path)?;
        } else if kind.is_file() {
            named(&path, File::open(&path).and_then(|file| file.sync_all()))?;
        }
    }
    Ok(())
}

/// The folders in a folder, by name; none where there is no such folder.
pub fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// The manifest of a trial's folder.
///
/// # Errors
/// From the system, or where it is not readable, with the path.
pub fn read(folder: &Path) -> io::Result<Manifest> {
    json(&folder.join("trial.json"))
}

/// A file of JSON.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let text = named(path, fs::read_to_string(path))?;
    named(path, serde_json::from_str(&text).map_err(io::Error::other))
}
