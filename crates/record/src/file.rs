//! The files of a run: each has a writer and a reader that give back the same.
//!
//! | file | what | writer, reader |
//! |---|---|---|
//! | `windows.csv` | tallies second by second | [`windows`] |
//! | `histogram.csv` | the four times in buckets of 100 µs | [`buckets`] |
//! | `holds.csv` | hold times by busy workers and queue length | [`holds`] |
//! | `servers.csv` | what each server did | [`servers`] |
//! | `histograms.hlog` | the histograms at full resolution | [`log`] |
//! | `rows.parquet` | every request | [`rows`] |
//! | the same as CSV | for tools that know no Parquet | [`rows::flat`] |
//!
//! Writers take anything that can be written to; [`save`] gives them a file that has its name only
//! when it is complete. Readers take bytes from anywhere and never panic: what is wrong with a file
//! is a [`FileProblem`].

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Recorder;

pub mod buckets;
pub mod holds;
pub mod log;
mod problem;
pub mod rows;
pub mod servers;
mod table;
pub mod windows;

pub use problem::{FileProblem, RunMetadata};

/// A problem and the file that has it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: FileProblem,
}

/// A file under the name `<name>.partial` until it is complete: a reader never finds half a file
/// under its own name. One that is dropped before is removed: the disk may be full. What is
/// [special](is_special) is written into.
#[derive(Debug)]
pub struct Partial {
    file: File,
    /// What it is called until it is complete, and from then on; none: it has its name.
    names: Option<(PathBuf, PathBuf)>,
}

/// Whether there is something that is no plain file, as a device or a pipe: that is written into,
/// and no other file gets its name.
pub fn is_special(there: io::Result<Metadata>) -> bool {
    there.is_ok_and(|there| !there.is_file())
}

impl Partial {
    /// Begins the file that will be `path`. What stood under that name stays until then.
    ///
    /// # Errors
    /// As the operating system says; [`io::ErrorKind::ResourceBusy`] while another writes it.
    pub fn create(path: &Path) -> io::Result<Self> {
        if is_special(path.metadata()) {
            return Ok(Self { file: File::options().write(true).open(path)?, names: None });
        }
        // A link stays, and what it leads to is replaced, or made.
        let led_to = |_: io::Error| path.read_link().map(|to| path.with_file_name("").join(to));
        let path = path.canonicalize().or_else(led_to).unwrap_or_else(|_| path.to_owned());
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        loop {
            let file = File::options().create(true).write(true).truncate(false).open(&partial)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let what = "another process is writing it";
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
                }
                // A file system without locks.
                Err(TryLockError::Error(_)) => {}
            }
            // Before it was locked, who wrote it may have completed or removed it.
            if is_under(&file, &partial)? {
                file.set_len(0)?;
                return Ok(Self { file, names: Some((partial, path)) });
            }
        }
    }

    /// Begins the file that will be `path` under a name with a dot in front, which programs that
    /// read whole folders pass over. `None` where that name, or the file, is there already.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn create_hidden(path: &Path) -> io::Result<Option<Self>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let partial = path.with_file_name(format!(".{name}.partial"));
        if path.exists() {
            return Ok(None);
        }
        match File::create_new(&partial) {
            Ok(file) => {
                let begun = Self { file, names: Some((partial, path.to_owned())) };
                // Another may have completed it in between.
                Ok(if path.exists() { None } else { Some(begun) })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the complete file its name, once its bytes are on the disk.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn complete(mut self) -> io::Result<()> {
        let Some((partial, path)) = &self.names else { return Ok(()) };
        self.file.sync_all()?;
        std::fs::rename(partial, path)?;
        self.names = None;
        Ok(())
    }
}

/// Whether this name is that of an open file.
fn is_under(file: &File, name: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match std::fs::metadata(name) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.names {
            let _ = std::fs::remove_file(partial);
        }
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a whole file: it gets its name when `write` has succeeded. A device or a pipe is written
/// into.
///
/// # Errors
/// What `write` reports, or the operating system; with the path.
pub fn save(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<Partial>) -> Result<(), FileProblem>,
) -> Result<(), FileError> {
    let write_all = || {
        let mut out = BufWriter::new(Partial::create(path)?);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.complete()?;
        Ok(())
    };
    write_all().map_err(|problem| FileError { path: path.to_owned(), problem })
}

/// Reads a whole file.
///
/// # Errors
/// What `read` reports, or the operating system; with the path.
pub fn load<T>(
    path: &Path,
    read: impl FnOnce(BufReader<File>) -> Result<T, FileProblem>,
) -> Result<T, FileError> {
    let read_all = || read(BufReader::new(File::open(path)?));
    read_all().map_err(|problem| FileError { path: path.to_owned(), problem })
}

/// Writes all that a recorder holds into `folder`: every file of this module but the rows.
///
/// # Errors
/// The first file that could not be written, by its path.
pub fn save_all(folder: &Path, recorder: &Recorder, run: RunMetadata) -> Result<(), FileError> {
    let problem = |error| FileError { path: folder.to_owned(), problem: FileProblem::Io(error) };
    std::fs::create_dir_all(folder).map_err(problem)?;
    save(&folder.join("windows.csv"), |out| windows::write(out, recorder.windows().rows()))?;
    save(&folder.join("histogram.csv"), |out| buckets::write(out, recorder.histograms()))?;
    save(&folder.join("holds.csv"), |out| holds::write(out, recorder.holds().rows()))?;
    save(&folder.join("servers.csv"), |out| servers::write(out, recorder.servers()))?;
    save(&folder.join("histograms.hlog"), |out| {
        let mut log = log::LogWriter::begin(out, run)?;
        let (start, length) = recorder.windows().span();
        log.interval(start, length, recorder.histograms())
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;

    /// Such as `/dev/stdout`, and `>(gzip >rows.gz)` of a shell.
    #[test]
    fn a_pipe_is_written_into_and_no_file_gets_its_name() {
        let (mut reader, writer) = io::pipe().unwrap();
        let name = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
        save(Path::new(&name), |out| Ok(out.write_all(b"all of it")?)).unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "all of it");
    }

    #[test]
    fn a_link_stays_and_leads_to_what_was_written() {
        let folder = std::env::temp_dir().join(format!("krarup-record-link-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("file"), folder.join("link"));
        std::fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        save(&link, |out| Ok(out.write_all(b"after")?)).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"after");
        // Also where that is not there yet.
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        save(&link, |out| Ok(out.write_all(b"anew")?)).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"anew");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_is_being_written_is_not_begun_again() {
        let folder = std::env::temp_dir().join(format!("krarup-record-busy-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rows.parquet");
        // What a process that was killed has left.
        std::fs::write(folder.join("rows.parquet.partial"), "left behind").unwrap();
        let mut first = Partial::create(&path).unwrap();
        first.write_all(b"first").unwrap();
        assert_eq!(Partial::create(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        first.complete().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        drop(Partial::create(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_could_not_be_written_whole_is_removed_and_what_was_there_stays() {
        let folder = std::env::temp_dir().join(format!("krarup-record-partial-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("windows.csv");
        save(&path, |out| Ok(out.write_all(b"whole")?)).unwrap();
        let error = save(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull).into())
        });
        assert!(error.unwrap_err().to_string().contains("windows.csv: "));
        drop(Partial::create_hidden(&folder.join("rows.parquet")).unwrap());
        // Before it is written, and not after a long run.
        assert_eq!(Partial::create(&folder).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let names: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["windows.csv"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
