//! The files that are written from every second of a load: of all clients together, and beside it
//! one of each class, where there are several (`seconds.csv` and `seconds.readers.csv`).

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use krarup_load::account::Share;
use krarup_load::{Load, LoadProgress, Phase};
use krarup_record::file::log::LogWriter;
use krarup_record::file::{self, RunMetadata, is_special};
use krarup_record::{Operation, VisitTally, WindowRow};
use krarup_units::{Nanos, Stamp};

use crate::failure::Failure;
use crate::written::{self, unwritten};

/// All files of a run.
pub(super) struct LoadFiles {
    /// That of all together first, then the classes in their order.
    files: Vec<Files>,
    problem: Option<Failure>,
}

/// The files of all clients, or of one class.
struct Files {
    /// Open from the start: what is no plain file is written into.
    csv: Option<(PathBuf, File)>,
    seconds: Vec<(Stamp, Nanos, Vec<VisitTally>)>,
    /// Open from the start, too.
    hlog: Option<(PathBuf, File)>,
    log: Option<(PathBuf, LogWriter<BufWriter<File>>)>,
}

impl LoadFiles {
    /// Begins those files that are asked for.
    pub(super) fn begin(csv: Option<&Path>, hlog: Option<&Path>, load: &Load) -> Result<Self, Failure> {
        let mut files = vec![Files::begin(csv.map(Path::to_owned), hlog.map(Path::to_owned))?];
        for class in &load.classes {
            let of_class = |path: Option<&Path>| path.map(|path| beside(path, &class.name));
            files.push(Files::begin(of_class(csv), of_class(hlog))?);
        }
        Ok(Self { files, problem: None })
    }

    /// Keeps a second of the run; of populating nothing.
    pub(super) fn keep(&mut self, event: &LoadProgress<'_>) {
        if event.phase != Phase::Run {
            return;
        }
        let all = event.segment.all();
        for (place, files) in self.files.iter_mut().enumerate() {
            let share = if place == 0 { &*all } else { &event.segment.classes[place - 1] };
            if let Err(problem) = files.keep(event, share) {
                self.problem.get_or_insert(problem);
            }
        }
    }

    /// Completes all files, and tells the first problem.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let completed = self.files.into_iter().map(Files::finish).fold(Ok(()), Result::and);
        self.problem.map_or(completed, Err)
    }
}

/// `seconds.csv` of the class `readers` is `seconds.readers.csv`.
fn beside(path: &Path, class: &str) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{class}.{}", extension.to_string_lossy())),
        None => path.with_extension(class),
    }
}

impl Files {
    fn begin(csv: Option<PathBuf>, hlog: Option<PathBuf>) -> Result<Self, Failure> {
        let (csv, hlog) = (written::opened(csv)?, written::opened(hlog)?);
        Ok(Self { csv, seconds: Vec::new(), hlog, log: None })
    }

    fn keep(&mut self, event: &LoadProgress<'_>, share: &Share) -> Result<(), Failure> {
        let segment = event.segment;
        let length = Nanos(segment.end.0.saturating_sub(segment.start.0));
        if self.csv.is_some() {
            let tallies = share.counts.iter().map(|counts| counts.tally).collect();
            self.seconds.push((segment.start, length, tallies));
        }
        if let Some((path, file)) = self.hlog.take() {
            // What an earlier run has written stays until there is a second of this one.
            if !is_special(file.metadata()) {
                file.set_len(0).map_err(|error| unwritten(&path, &error))?;
            }
            let run = RunMetadata { epoch_unix: event.epoch_unix };
            let begun = LogWriter::begin(BufWriter::new(file), run);
            let begun = begun.map_err(|problem| unwritten(&path, &problem))?;
            self.log = Some((path, begun));
        }
        match &mut self.log {
            Some((path, log)) => log
                .interval(segment.start, length, &share.histograms)
                .map_err(|problem| unwritten(path, &problem)),
            None => Ok(()),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let Some((path, _)) = &self.csv else { return Ok(()) };
        // Operations that never came have no rows; those that did have one for every second, quiet
        // ones too.
        let seen =
            |operation: Operation| self.seconds.iter().any(|(_, _, all)| all[operation.index()].count > 0);
        let operations: Vec<Operation> = Operation::ALL.iter().copied().filter(|&one| seen(one)).collect();
        let rows = self.seconds.iter().flat_map(|(start, length, tallies)| {
            operations.iter().map(|operation| WindowRow {
                start: *start,
                length: *length,
                folded: false,
                operation: *operation,
                tally: tallies[operation.index()],
            })
        });
        file::save(path, |out| file::windows::write(out, rows))
            .map_err(|error| unwritten(path, &error.problem))
    }
}
