//! Rows in one file after the other: each is complete, and to be read, while the next is written.
//!
//! A file gets its name when it is whole and on the disk, so a kill, or a machine that stops, costs
//! the rows of the file that is being written and of no other. Batches of several loops come in any
//! order: a file waits [`GRACE`] after its end for those that are still on their way, and what
//! comes later gets a file of its own in the same folder. All rows of a file go by one wall clock
//! at stamp zero: where the wall is set, the next is begun. A file that cannot be written is given
//! up, its rows are counted as lost, and the next is begun: the first is told, until one is
//! complete again.

use std::fs::File;
use std::path::{Path, PathBuf};

use krarup_units::{Nanos, Stamp};

use super::{RowBatch, RowFileWriter, RowInterval, RowIntervals, RowSettings, RowTrouble};
use crate::Visit;
use crate::file::{FileError, FileProblem, Partial, RunMetadata};

/// How long after its interval a file is kept open.
const GRACE: Nanos = Nanos::from_secs(2);

/// A wall clock that is off by less was not set: it takes a moment to read two clocks.
const LEAST_STEP: Nanos = Nanos::from_secs(1);

/// Files of a name that are tried in one folder: a program may begin anew so often in an interval.
const MOST_NAMES: u32 = 10_000;

/// The files of one program.
pub(super) struct RotatingRows {
    folder: PathBuf,
    settings: RowSettings,
    intervals: RowIntervals,
    /// The wall clock at stamp zero until it was last set, and when that was found.
    before: (Nanos, Stamp),
    open: Vec<OpenRows>,
    rows: u64,
    /// Lost rows that a file says already.
    recorded: u64,
    /// Visits of servers since the beginning that belong to no row.
    apart: u64,
    /// Those that a file says already.
    recorded_apart: u64,
    /// Rows of files that were given up.
    given_up: u64,
    /// Why the first of them was.
    problem: Option<FileError>,
    on_trouble: RowTrouble,
    /// Whether that was told, and no file was completed since.
    in_trouble: bool,
}

/// A file that is being written.
struct OpenRows {
    interval: RowInterval,
    path: PathBuf,
    writer: RowFileWriter<Partial>,
    /// The folder of its name, opened with it: at its end there may be no descriptor left.
    folder: Option<File>,
}

impl OpenRows {
    /// When it is to be completed.
    fn ends(&self) -> Stamp {
        Stamp(self.interval.stamps().end.0.saturating_add(GRACE.0))
    }
}

impl RotatingRows {
    /// Files below this folder, which is made.
    pub(super) fn begin(
        folder: &Path,
        settings: RowSettings,
        every: Nanos,
        on_trouble: RowTrouble,
    ) -> Result<Self, FileError> {
        std::fs::create_dir_all(folder)
            .map_err(|error| FileError { path: folder.to_owned(), problem: error.into() })?;
        Ok(Self {
            folder: folder.to_owned(),
            intervals: RowIntervals::new(every, settings.run),
            before: (settings.run.epoch_unix, Stamp(0)),
            settings,
            open: Vec::new(),
            rows: 0,
            recorded: 0,
            apart: 0,
            recorded_apart: 0,
            given_up: 0,
            problem: None,
            on_trouble,
            in_trouble: false,
        })
    }

    /// What lanes go by, whatever becomes of the wall clock.
    pub(super) fn intervals(&self) -> RowIntervals {
        self.intervals.clone()
    }

    /// The wall clock at stamp zero is `epoch` by what it shows `now`. Where it was set, or the
    /// machine suspended, the rows that are replied to from now on go by that.
    pub(super) fn set_epoch(&mut self, epoch: Nanos, now: Stamp) {
        let known = self.intervals.epoch();
        if epoch.0.abs_diff(known.0) > LEAST_STEP.0 {
            self.before = (known, now);
            self.intervals.set_epoch(epoch);
        }
    }

    fn interval(&self, replied: Stamp) -> RowInterval {
        let (epoch, until) = self.before;
        if replied < until { self.intervals.by(epoch, replied) } else { self.intervals.at(replied) }
    }

    /// Writes a batch, each row into the file of its interval. A lane keeps a batch within one,
    /// unless no other has come back to it in time, or the wall clock was set.
    pub(super) fn write(&mut self, batch: &RowBatch) {
        let Some(first) = batch.visits.first() else { return };
        let mut interval = self.interval(first.replied);
        let (_, set) = self.before;
        let of_one_wall = |visit: &Visit| (visit.replied < set) == (first.replied < set);
        let stamps = interval.stamps();
        if batch.visits.iter().all(|visit| stamps.contains(&visit.replied) && of_one_wall(visit)) {
            return self.write_into(interval, batch);
        }
        let mut part = RowBatch::new(batch.rows);
        for (visit, servers) in batch.iter() {
            let own = self.interval(visit.replied);
            if own != interval {
                self.write_into(interval, &part);
                part.clear();
                interval = own;
            }
            // A part fits where the whole did.
            let _ = part.push(visit, servers);
        }
        self.write_into(interval, &part);
    }

    fn write_into(&mut self, interval: RowInterval, batch: &RowBatch) {
        let place = match self.open.iter().position(|open| open.interval == interval) {
            Some(place) => place,
            None => match self.create(interval) {
                Ok(open) => {
                    self.open.push(open);
                    self.open.len() - 1
                }
                Err(error) => return self.give_up(error, batch.len() as u64),
            },
        };
        let written = self.open[place].writer.write(batch);
        if let Err(problem) = written {
            let OpenRows { path, writer, .. } = self.open.swap_remove(place);
            self.give_up(FileError { path, problem }, writer.rows() + batch.len() as u64);
        }
    }

    fn give_up(&mut self, error: FileError, rows: u64) {
        self.given_up += rows;
        if !std::mem::replace(&mut self.in_trouble, true) {
            (self.on_trouble)(&error);
        }
        self.problem.get_or_insert(error);
    }

    /// How long until a file is to be completed, if one is open.
    pub(super) fn wait(&self, now: Stamp) -> Option<Nanos> {
        let ends = self.open.iter().map(OpenRows::ends).min()?;
        Some(Nanos(ends.0.saturating_sub(now.0)))
    }

    /// So many visits of servers since the beginning belong to no row: files that are completed
    /// from now on say it.
    pub(super) fn set_apart(&mut self, visits: u64) {
        self.apart = visits;
    }

    /// Completes the files whose time is over; `lost` rows were dropped since the beginning.
    pub(super) fn complete_before(&mut self, now: Stamp, lost: u64) {
        while let Some(place) = self.open.iter().position(|open| open.ends() <= now) {
            let open = self.open.swap_remove(place);
            self.complete(open, lost);
        }
    }

    /// Completes all files, and says how many rows are in them and how many in none.
    pub(super) fn finish(mut self, lost: u64) -> Result<(u64, u64), FileError> {
        for open in std::mem::take(&mut self.open) {
            self.complete(open, lost);
        }
        match self.problem {
            Some(problem) => Err(problem),
            None => Ok((self.rows, self.given_up)),
        }
    }

    /// A file says how many rows were lost, and how many visits belong to none, since the one that
    /// was completed before it.
    fn complete(&mut self, open: OpenRows, lost: u64) {
        let OpenRows { path, mut writer, folder, .. } = open;
        let rows = writer.rows();
        let all = lost + self.given_up;
        writer.lost(all.saturating_sub(self.recorded));
        writer.apart(self.apart.saturating_sub(self.recorded_apart));
        let completed = || {
            let (file, rows) = writer.finish()?;
            file.complete()?;
            Ok(rows)
        };
        match completed() {
            Ok(rows) => {
                (self.rows, self.recorded) = (self.rows + rows, all);
                self.recorded_apart = self.apart;
                self.in_trouble = false;
                if let Some(folder) = folder {
                    // The name too, where the machine stops now. Where that is refused, as by file
                    // systems that do not know it, the rows are there all the same.
                    let _ = folder.sync_all();
                }
            }
            Err(problem) => self.give_up(FileError { path, problem }, rows),
        }
    }

    /// A name that no file of the interval has: a program that began anew writes beside those of
    /// the one before.
    fn create(&self, interval: RowInterval) -> Result<OpenRows, FileError> {
        let folder = self.folder.join(interval.folder());
        let wrong = |path: &Path, problem| FileError { path: path.to_owned(), problem };
        std::fs::create_dir_all(&folder).map_err(|error| wrong(&folder, error.into()))?;
        for number in 1..=MOST_NAMES {
            let path = folder.join(interval.file(&self.settings.instance, number));
            let file = match Partial::create_hidden(&path) {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                Err(error) => return Err(wrong(&path, error.into())),
            };
            let run = RunMetadata { epoch_unix: interval.epoch };
            let settings = RowSettings { run, ..self.settings.clone() };
            let writer = RowFileWriter::new(file, settings).map_err(|problem| wrong(&path, problem))?;
            return Ok(OpenRows { interval, path, writer, folder: File::open(&folder).ok() });
        }
        Err(wrong(&folder, FileProblem::Io(std::io::ErrorKind::AlreadyExists.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RowFile, RowRun};
    use super::*;
    use crate::{Operation, ServerVisit};

    /// 2026-11-25 04:59:50 UTC.
    const RUN: RunMetadata = RunMetadata { epoch_unix: Nanos(1_795_582_790_000_000_000) };

    fn begin(name: &str) -> (PathBuf, RotatingRows) {
        begin_told(name, |_| {})
    }

    fn begin_told(name: &str, told: impl FnMut(&FileError) + Send + 'static) -> (PathBuf, RotatingRows) {
        let folder = std::env::temp_dir().join(format!("krarup-rotating-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let settings = RowSettings { instance: "one".to_owned(), ..RowSettings::from(RUN) };
        let every = Nanos::from_secs(10);
        let rows = RotatingRows::begin(&folder, settings, every, Box::new(told)).unwrap();
        (folder, rows)
    }

    /// Replies at these seconds of the run.
    fn batch(seconds: &[u64]) -> RowBatch {
        let mut batch = RowBatch::new(seconds.len());
        for &second in seconds {
            let at = Stamp(second * 1_000_000_000);
            assert!(batch.push(&Visit::at(at, Operation::Get), &[ServerVisit::ok(0, at, at)]));
        }
        batch
    }

    /// Every file below, the seconds of its rows, and what it says was lost.
    fn found(folder: &Path) -> Vec<(String, Vec<u64>, u64)> {
        let mut files = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(inner) = folders.pop() {
            for entry in std::fs::read_dir(inner).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files.sort();
        let read = |path: &PathBuf| {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            let Ok(mut file) = RowFile::open(path) else { return (name, vec![], 0) };
            let mut seconds = Vec::new();
            file.for_each(|visit, _| seconds.push(visit.replied.0 / 1_000_000_000)).unwrap();
            (name, seconds, file.lost())
        };
        files.iter().map(read).collect()
    }

    #[test]
    fn a_file_is_whole_when_its_time_is_over_while_the_next_is_written() {
        let (folder, mut rows) = begin("whole");
        rows.write(&batch(&[1, 2]));
        rows.write(&batch(&[11]));
        // A loop that had little to do hands over what it had of the first ten seconds.
        rows.write(&batch(&[9]));
        assert_eq!(rows.wait(Stamp(11_000_000_000)), Some(Nanos::from_secs(1)));
        rows.complete_before(Stamp(11_000_000_000), 0);
        assert!(found(&folder).iter().all(|(name, ..)| name.contains("/.rows-")), "{:?}", found(&folder));
        rows.complete_before(Stamp(12_000_000_000), 5);
        let first = "date=2026-11-25/hour=04/rows-20261125T045950Z-one.parquet".to_owned();
        let hidden = "date=2026-11-25/hour=05/.rows-20261125T050000Z-one.parquet.partial".to_owned();
        assert_eq!(found(&folder), [(first, vec![1, 2, 9], 5), (hidden, vec![], 0)]);
        // One that is later still has a file of its own, in the folder of its hour.
        rows.write(&batch(&[8]));
        assert_eq!(rows.finish(7).unwrap(), (5, 0));
        let files = found(&folder);
        let names: Vec<_> =
            files.iter().map(|(name, seconds, lost)| (&name[24..], &seconds[..], *lost)).collect();
        assert_eq!(
            names,
            [
                ("rows-20261125T045950Z-one-2.parquet", &[8][..], 0),
                ("rows-20261125T045950Z-one.parquet", &[1, 2, 9], 5),
                ("rows-20261125T050000Z-one.parquet", &[11], 2),
            ]
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn each_visit_that_belongs_to_no_row_is_said_by_one_file() {
        let (folder, mut rows) = begin("apart");
        rows.write(&batch(&[1]));
        rows.set_apart(4);
        rows.complete_before(Stamp(12_000_000_000), 0);
        rows.write(&batch(&[13]));
        rows.set_apart(9);
        assert_eq!(rows.finish(0).unwrap(), (2, 0));
        let files = RowRun::files(&folder).unwrap();
        let said: Vec<_> = files.iter().map(|path| RowFile::open(path).unwrap().apart()).collect();
        assert_eq!((said, RowRun::open(&files).unwrap().apart()), (vec![4, 5], 9));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn rows_of_a_file_whose_name_may_not_be_on_the_disk_are_not_lost() {
        let (tell, told) = std::sync::mpsc::channel();
        let (folder, mut rows) =
            begin_told("unsynced", move |error| tell.send(error.to_string()).expect("it is heard"));
        rows.write(&batch(&[1]));
        rows.set_apart(4);
        // A device has no disk, and refuses.
        let device = File::open("/dev/null").unwrap();
        assert!(device.sync_all().is_err());
        rows.open[0].folder = Some(device);
        rows.complete_before(Stamp(12_000_000_000), 0);
        rows.write(&batch(&[13]));
        assert_eq!(rows.finish(0).unwrap(), (2, 0));
        assert!(told.try_iter().next().is_none());
        let lost: Vec<_> = found(&folder).into_iter().map(|(.., lost)| lost).collect();
        assert_eq!((lost, RowRun::open(&RowRun::files(&folder).unwrap()).unwrap().apart()), (vec![0, 0], 4));
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// The disk was slow, so that a lane has kept its rows beyond an interval.
    #[test]
    fn rows_of_two_intervals_in_one_batch_go_into_two_files() {
        let (folder, mut rows) = begin("split");
        rows.write(&batch(&[8, 9, 10, 12, 9, 11]));
        assert_eq!(rows.finish(0).unwrap(), (6, 0));
        let first = "date=2026-11-25/hour=04/rows-20261125T045950Z-one.parquet".to_owned();
        let next = "date=2026-11-25/hour=05/rows-20261125T050000Z-one.parquet".to_owned();
        assert_eq!(found(&folder), [(first, vec![8, 9, 9], 0), (next, vec![10, 12, 11], 0)]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// A machine that was suspended for eight hours, and whose clock was set back after that.
    #[test]
    fn rows_after_the_wall_was_set_go_into_files_of_the_time_that_it_shows() {
        let (folder, mut rows) = begin("set");
        let hours = |hours: u64| Nanos(RUN.epoch_unix.0 + hours * 3_600_000_000_000);
        rows.write(&batch(&[1]));
        rows.set_epoch(Nanos(RUN.epoch_unix.0 + 900_000_000), Stamp(2_000_000_000));
        rows.set_epoch(hours(8), Stamp(5_000_000_000));
        // A loop hands over what it had before with what came since.
        rows.write(&batch(&[2, 6, 3]));
        assert_eq!(rows.intervals().at(Stamp(0)).from, hours(8), "lanes go by it, too");
        rows.complete_before(Stamp(12_000_000_000), 0);
        rows.set_epoch(hours(0), Stamp(13_000_000_000));
        rows.write(&batch(&[14]));
        assert_eq!(rows.finish(0).unwrap(), (5, 0));
        let first = "date=2026-11-25/hour=04/rows-20261125T045950Z-one.parquet".to_owned();
        let back = "date=2026-11-25/hour=05/rows-20261125T050000Z-one.parquet".to_owned();
        let later = "date=2026-11-25/hour=12/rows-20261125T125950Z-one.parquet".to_owned();
        assert_eq!(found(&folder), [(first, vec![1, 2, 3], 0), (back, vec![14], 0), (later, vec![6], 0)]);
        let run = RowRun::open(&RowRun::files(&folder).unwrap()).unwrap();
        let mut seconds = Vec::new();
        run.for_each(|visit, _| seconds.push(visit.replied.0 / 1_000_000_000)).unwrap();
        assert_eq!(seconds, [1, 2, 3, 14, 8 * 3_600 + 6]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// What was killed left a file that is not whole; what begins anew leaves it alone.
    #[test]
    fn a_program_that_begins_anew_writes_beside_what_is_there() {
        let (folder, mut killed) = begin("anew");
        killed.write(&batch(&[1]));
        std::mem::forget(killed);
        let settings = RowSettings { instance: "one".to_owned(), ..RowSettings::from(RUN) };
        let silent = Box::new(|_: &FileError| {});
        let mut rows = RotatingRows::begin(&folder, settings, Nanos::from_secs(10), silent).unwrap();
        rows.write(&batch(&[2]));
        assert_eq!(rows.finish(0).unwrap(), (1, 0));
        let files = found(&folder);
        assert_eq!(files.len(), 2);
        assert_eq!(files[1].0, "date=2026-11-25/hour=04/rows-20261125T045950Z-one-2.parquet");
        assert_eq!(files[1].1, [2]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// A file where a folder must be: its rows are lost, those of the next hour are not.
    #[test]
    fn what_cannot_be_written_is_counted_and_the_next_file_begun() {
        let (folder, mut rows) = begin("given-up");
        std::fs::create_dir_all(folder.join("date=2026-11-25")).unwrap();
        std::fs::write(folder.join("date=2026-11-25/hour=04"), "in the way").unwrap();
        rows.write(&batch(&[1, 2]));
        rows.write(&batch(&[11]));
        let why = rows.finish(0).unwrap_err().to_string();
        assert!(why.contains("hour=04"), "{why}");
        let files = found(&folder);
        let (name, seconds, lost) = files.last().unwrap();
        assert!(name.contains("hour=05/rows-"), "{files:?}");
        assert_eq!((&seconds[..], *lost), (&[11][..], 2));
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// A program may run for days: what cannot be written is told when it begins, and once.
    #[test]
    fn trouble_is_told_at_once_and_again_only_after_a_file_was_complete() {
        let (tell, told) = std::sync::mpsc::channel();
        let told = || told.try_iter().collect::<Vec<String>>();
        let (folder, mut rows) =
            begin_told("trouble", move |error| tell.send(error.to_string()).expect("it is heard"));
        let hour = folder.join("date=2026-11-25/hour=04");
        std::fs::create_dir_all(hour.parent().unwrap()).unwrap();
        std::fs::write(&hour, "in the way").unwrap();
        rows.write(&batch(&[1]));
        assert!(matches!(&told()[..], [why] if why.contains("hour=04")));
        rows.write(&batch(&[2]));
        assert_eq!(told(), Vec::<String>::new());
        rows.write(&batch(&[11]));
        rows.complete_before(Stamp(22_000_000_000), 0);
        rows.write(&batch(&[3]));
        assert_eq!(told().len(), 1);
        assert!(rows.finish(0).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
