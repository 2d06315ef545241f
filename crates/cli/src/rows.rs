//! The rows beside a run, every request with its stamps: which files they go into, and what they
//! say.

use std::path::{Path, PathBuf};

use clap::Args;
use krarup_lab::platform::host_name;
use krarup_record::file::FileError;
use krarup_record::file::rows::{KeySample, RowIntervals, RowPlan, RowRun, RowWriter};
use krarup_units::text::parse_duration;
use krarup_units::{Address, Mistake, Nanos};

use crate::failure::Failure;
use crate::input;

/// Into which files rows go.
#[derive(Args, Clone)]
pub(crate) struct RowFileArgs {
    /// Begin a new file of rows after so much time, each complete while the next is written, in
    /// folders by day and hour (`date=2026-11-25/hour=04`) below the place of --rows, which is a
    /// folder then. From 1s to 24h
    #[arg(long, value_name = "TIME", requires = "rows", value_parser = interval)]
    rows_every: Option<Nanos>,
    /// What the rows call this program, in the column `instance` [default: its host and port; of a
    /// load its host]
    #[arg(long, value_name = "NAME", requires = "rows", value_parser = instance)]
    instance: Option<String>,
}

/// Which requests leave rows, and whether their keys can be told apart.
#[derive(Args, Clone)]
pub(crate) struct RowKeyArgs {
    /// Keep only the rows of one key in N, and of requests without a key: all of a key's rows or
    /// none, the same keys in every program
    #[arg(long, value_name = "1/N", requires = "rows")]
    rows_sample: Option<KeySample>,
    /// Also keep a digest of each request's first key (XXH3), so that a replay asks for keys as
    /// often as clients did; a reader that suspects a key can tell whether it was that one
    #[arg(long, requires = "rows")]
    rows_keys: bool,
}

impl RowFileArgs {
    /// Rows into `path`, or below it: of a program that is called `usual` unless it has a name.
    pub(crate) fn plan(&self, path: PathBuf, usual: impl FnOnce() -> String) -> RowPlan {
        let instance = self.instance.clone().unwrap_or_else(usual);
        let on_trouble = if self.are_several() { warn } else { warn_of_all };
        RowPlan { every: self.rows_every, on_trouble, ..RowPlan::of(path, instance) }
    }

    /// Whether there are to be several files.
    pub(crate) fn are_several(&self) -> bool {
        self.rows_every.is_some()
    }
}

impl RowKeyArgs {
    /// The same plan for these requests.
    pub(crate) fn over(&self, plan: RowPlan) -> RowPlan {
        RowPlan { keys: self.rows_keys, sample: self.rows_sample.unwrap_or(KeySample::ALL), ..plan }
    }
}

/// Says at once that rows are dropped: the program may go on for days.
fn warn(error: &FileError) {
    eprintln!("warning: rows cannot be written: {error}; they are dropped");
}

/// The same of a single file, of which no part is kept.
fn warn_of_all(error: &FileError) {
    eprintln!("warning: rows cannot be written: {error}; no row of this run is kept, not even those before");
}

fn interval(text: &str) -> Result<Nanos, Mistake> {
    let every = Nanos::from_seconds(parse_duration(text)?);
    if (RowIntervals::SHORTEST..=RowIntervals::LONGEST).contains(&every) {
        return Ok(every);
    }
    Err(Mistake::new(format!("`{text}` is too short or too long"), "a file of rows is for 1s to 24h"))
}

fn instance(text: &str) -> Result<String, Mistake> {
    let sound = !text.trim().is_empty() && text.len() <= 100 && !text.chars().any(char::is_control);
    let why = || Mistake::new(format!("`{text}` is no name"), "1 to 100 letters, such as proxy-3");
    sound.then(|| text.to_owned()).ok_or_else(why)
}

/// What a program that listens there is called: by an address at which other machines would not
/// find it, or find another, it is told by the name of its machine.
pub(crate) fn listener(address: &Address) -> String {
    let own = !address.is_local() && !["0.0.0.0", "::", "[::]"].contains(&address.host.as_str());
    if own || address.file().is_some() {
        address.to_string()
    } else {
        format!("{}:{}", host_name(), address.port)
    }
}

/// The file that holds all rows of a program.
pub(crate) const ROWS: &str = "rows.parquet";

/// The folder that holds them where they are several files.
pub(crate) const ROWS_FOLDER: &str = "rows";

/// The rows that a program has written into its folder: one file, or several one after the other.
/// None where it wrote none.
pub(crate) fn of_program(folder: &Path) -> Result<Option<RowRun>, Failure> {
    let (file, several) = (folder.join(ROWS), folder.join(ROWS_FOLDER));
    if file.is_file() {
        return open(&[file]).map(Some);
    }
    if !several.is_dir() {
        return Ok(None);
    }
    let files = RowRun::files(&several).map_err(|error| input::unread(&several, &error))?;
    if files.is_empty() { Ok(None) } else { open(&files).map(Some) }
}

fn open(files: &[PathBuf]) -> Result<RowRun, Failure> {
    RowRun::open(files).map_err(|error| {
        Failure::usage(error.to_string())
            .hint("rows are what krarup proxy --rows and krarup load --rows write")
    })
}

/// The runs there are rows of, by what they are called: each `rows.parquet` is one, and all files
/// that one program has written one after the other.
pub(crate) fn runs(path: &Path) -> Result<Vec<(String, RowRun)>, Failure> {
    if !path.is_dir() {
        return Ok(vec![(path.display().to_string(), open(&[path.to_owned()])?)]);
    }
    let files = RowRun::files(path).map_err(|error| input::unread(path, &error))?;
    let mut found: Vec<(String, RowRun)> = Vec::new();
    let mut series: Vec<(&Path, Vec<PathBuf>)> = Vec::new();
    for file in &files {
        if file.file_name().is_some_and(|name| name == ROWS) {
            found.push((file.display().to_string(), open(std::slice::from_ref(file))?));
            continue;
        }
        let folder = folder_of_series(file);
        match series.iter_mut().find(|(known, _)| *known == folder) {
            Some((_, files)) => files.push(file.clone()),
            None => series.push((folder, vec![file.clone()])),
        }
    }
    for (folder, files) in series {
        for (instance, rows) in open(&files)?.by_instance() {
            let of = if instance.is_empty() { String::new() } else { format!(" of {instance}") };
            found.push((format!("{}{of}", folder.display()), rows));
        }
    }
    if found.is_empty() {
        return Err(Failure::usage(format!("{} holds no {ROWS}", path.display())).hint(
            "krarup proxy --stats-dir DIR --rows writes one, and so does krarup load --rows FILE; a directory of results has a spec.toml",
        ));
    }
    Ok(found)
}

/// The folder that holds those of days and hours.
fn folder_of_series(file: &Path) -> &Path {
    let is_cut = |folder: &&Path| folder.file_name().is_some_and(|name| name.to_string_lossy().contains('='));
    let mut folders = file.ancestors().skip(1);
    folders.find(|folder| !is_cut(folder)).unwrap_or(Path::new(""))
}

/// Completes the files, and tells what is in them and what is not, on stderr.
pub(crate) fn finish(writer: RowWriter, name: &str) -> Result<(), Failure> {
    let lost = if writer.rotates() { "the rows are not all written" } else { "no row of this run is kept" };
    let written = writer.finish().map_err(|why| Failure::run(format!("{lost}: {why}")))?;
    eprintln!("{} rows in {name}", written.rows);
    if written.lost > 0 {
        eprintln!("warning: {} rows were dropped because the disk was too slow, or full", written.lost);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use krarup_record::file::RunMetadata;
    use krarup_units::Stamp;

    use super::*;

    /// Of one file nothing is kept: what is under its name is of an earlier run.
    #[test]
    fn where_the_disk_is_full_it_is_said_which_rows_are_missing() {
        let run = RunMetadata { epoch_unix: Nanos(0) };
        let one_file = RowPlan::of("/dev/full".into(), String::new());
        let writer = RowWriter::begin(&one_file, (run, false), || Stamp(0), || Nanos(0)).unwrap();
        let why = finish(writer, "rows.parquet").unwrap_err().message();
        assert!(why.starts_with("no row of this run is kept: /dev/full: "), "{why}");
    }

    #[test]
    fn an_address_that_others_have_too_is_named_by_the_machine() {
        let named = |text: &str| listener(&text.parse().unwrap());
        assert_eq!(named("10.0.0.1:11211"), "10.0.0.1:11211");
        assert_eq!(named("unix:/run/krarup.sock"), "unix:/run/krarup.sock");
        for text in ["127.0.0.1:11211", "0.0.0.0:11211", "localhost:11211", "[::]:11211"] {
            assert_eq!(named(text), format!("{}:11211", host_name()), "{text}");
        }
    }

    #[test]
    fn an_interval_and_a_name_have_bounds() {
        assert_eq!(interval("10m"), Ok(Nanos::from_secs(600)));
        for wrong in ["0s", "999ms", "25h", "x"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
        assert!(instance("proxy-3").is_ok() && instance(" ").is_err() && instance("a\nb").is_err());
    }

    #[test]
    fn files_of_days_and_hours_belong_to_the_folder_above_them() {
        let folder = |path| folder_of_series(Path::new(path)).display().to_string();
        assert_eq!(folder("run/rows/date=1/hour=2/rows-1.parquet"), "run/rows");
        assert_eq!(folder("run/rows-1.parquet"), "run");
        assert_eq!(folder("date=1/rows-1.parquet"), "");
    }
}
