//! A thread that writes rows, so that no event loop waits for a disk.
//!
//! ```text
//! event loop ─ Lane::push ─▶ batch full ──▶ thread: one row group ─▶ file
//!                 ▲                             │
//!                 └────────── empty batch ◀─────┘
//! ```
//! A lane has eight batches that go round, so memory is bounded. Where the disk is so slow that
//! none has come back, rows are dropped and counted, and the file says how many: requests are never
//! held up by their own record.
//!
//! A single file gets its name when the writer is finished. Where that is dropped instead, as in a
//! program that could not begin, what stood under the name stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use krarup_units::{Nanos, Stamp};

use super::rotating::RotatingRows;
use super::{
    KeySample, RowBatch, RowFileWriter, RowIntervals, RowPlan, RowRotation, RowSettings, RowTrouble,
};
use crate::file::{FileError, FileProblem, Partial, RunMetadata};
use crate::{ServerVisit, Visit};

/// Rows in a batch of a lane: 3 MB, and large enough a row group to compress well.
const LANE_ROWS: usize = 16_384;

/// Batches of a lane: one is filled, one is written, and the others ride out a disk that pauses.
const LANE_BATCHES: usize = 8;

/// How often the wall clock is looked at, where files have the names of its hours.
const LOOK: Nanos = Nanos::from_secs(1);

/// A full batch, and where it goes back to; none: there are no more, and files are completed.
type Full = Option<(RowBatch, SyncSender<RowBatch>)>;

/// What is in no row, of all lanes.
#[derive(Debug, Default)]
struct Rowless {
    /// Rows that had no room.
    lost: AtomicU64,
    /// Visits of servers that no client waited for.
    apart: AtomicU64,
}

/// Rows that a thread of its own writes into a file, or into one after the other.
#[derive(Debug)]
pub struct RowWriter {
    full: Sender<Full>,
    rowless: Arc<Rowless>,
    sample: KeySample,
    keys: bool,
    intervals: Option<RowIntervals>,
    thread: JoinHandle<Result<RowsWritten, FileError>>,
    path: PathBuf,
}

/// What became of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsWritten {
    /// Rows in the file.
    pub rows: u64,
    /// Rows that were dropped because the disk was too slow, or had failed.
    pub lost: u64,
}

impl RowWriter {
    /// Begins the file that will be `path`, and its thread, which says `on_trouble` when it cannot
    /// write.
    ///
    /// # Errors
    /// As the operating system says, with the path.
    pub fn create(
        path: &Path,
        settings: impl Into<RowSettings>,
        mut on_trouble: RowTrouble,
    ) -> Result<Self, FileError> {
        let settings = settings.into();
        let whose_keys = (settings.sample, settings.keys);
        let begin = || RowFileWriter::new(Partial::create(path)?, settings);
        let problem = |problem| FileError { path: path.to_owned(), problem };
        let sink = begin().map_err(problem)?;
        let whose = path.to_owned();
        Self::spawn(path, whose_keys, None, move |batches, rowless| {
            write_one(sink, batches, rowless, &whose, &mut *on_trouble)
        })
    }

    /// The same with files in `folder`, as [`RowIntervals`] says, the next after each interval.
    ///
    /// # Errors
    /// As [`RowWriter::create`], with the folder.
    pub fn create_rotating(
        folder: &Path,
        settings: impl Into<RowSettings>,
        rotation: RowRotation,
        on_trouble: RowTrouble,
    ) -> Result<Self, FileError> {
        let settings = settings.into();
        let whose_keys = (settings.sample, settings.keys);
        let rows = RotatingRows::begin(folder, settings, rotation.every, on_trouble)?;
        let intervals = rows.intervals();
        let write = move |batches: &Receiver<Full>, rowless: &Rowless| {
            write_rotating(rows, batches, rowless, &rotation)
        };
        Self::spawn(folder, whose_keys, Some(intervals), write)
    }

    /// Begins what is planned for a program that has begun, whose `clock` it is; `epoch` is the
    /// wall clock at its zero, by what that shows now.
    ///
    /// # Errors
    /// As [`RowWriter::create`].
    pub fn begin(
        plan: &RowPlan,
        (run, of_clients): (RunMetadata, bool),
        clock: impl Fn() -> Stamp + Send + 'static,
        epoch: impl Fn() -> Nanos + Send + 'static,
    ) -> Result<Self, FileError> {
        let settings = plan.settings(run, of_clients);
        let on_trouble = Box::new(plan.on_trouble);
        match plan.every {
            None => Self::create(&plan.path, settings, on_trouble),
            Some(every) => {
                let rotation = RowRotation { every, clock: Box::new(clock), epoch: Box::new(epoch) };
                Self::create_rotating(&plan.path, settings, rotation, on_trouble)
            }
        }
    }

    fn spawn(
        path: &Path,
        (sample, keys): (KeySample, bool),
        intervals: Option<RowIntervals>,
        write: impl FnOnce(&Receiver<Full>, &Rowless) -> Result<RowsWritten, FileError> + Send + 'static,
    ) -> Result<Self, FileError> {
        let (full, batches) = channel::<Full>();
        let rowless = Arc::new(Rowless::default());
        let counted = Arc::clone(&rowless);
        let thread = Builder::new().name("rows".to_owned()).spawn(move || write(&batches, &counted));
        let thread = thread.map_err(|error| FileError { path: path.to_owned(), problem: error.into() })?;
        Ok(Self { full, rowless, sample, keys, intervals, thread, path: path.to_owned() })
    }

    /// A way into the file for one more event loop.
    pub fn lane(&self) -> Lane {
        let (back, empty) = sync_channel(LANE_BATCHES);
        for _ in 1..LANE_BATCHES {
            // The channel has room for every batch of the lane.
            let _ = back.try_send(RowBatch::new(LANE_ROWS));
        }
        Lane {
            batch: RowBatch::new(LANE_ROWS),
            full: self.full.clone(),
            back,
            empty,
            rowless: Arc::clone(&self.rowless),
            apart: 0,
            sample: self.sample,
            needs_keys: self.keys || self.sample != KeySample::ALL,
            intervals: self.intervals.clone(),
            until: if self.intervals.is_some() { Stamp(0) } else { Stamp(u64::MAX) },
        }
    }

    /// Whether it writes one file after the other: what cannot be written costs one of them then,
    /// and else all rows.
    pub fn rotates(&self) -> bool {
        self.intervals.is_some()
    }

    /// Completes the file, and waits until it is written: with every row of those lanes that are
    /// dropped. What another has not handed over is missing.
    ///
    /// # Errors
    /// What kept the rows from being written, with the path.
    pub fn finish(self) -> Result<RowsWritten, FileError> {
        // A thread that has ended says why.
        let _ = self.full.send(None);
        let damaged = || Err(FileError { path: self.path, problem: FileProblem::Damaged });
        self.thread.join().unwrap_or_else(|_| damaged())
    }
}

/// Writes what comes into one file until the end is said. After an error, which is said at once,
/// the lanes notice that their batches are not taken.
fn write_one(
    mut sink: RowFileWriter<Partial>,
    batches: &Receiver<Full>,
    rowless: &Rowless,
    path: &Path,
    on_trouble: &mut dyn FnMut(&FileError),
) -> Result<RowsWritten, FileError> {
    let wrong = |problem| FileError { path: path.to_owned(), problem };
    loop {
        match batches.recv() {
            Ok(Some((mut batch, back))) => {
                if let Err(problem) = sink.write(&batch) {
                    let error = wrong(problem);
                    on_trouble(&error);
                    return Err(error);
                }
                batch.clear();
                // A lane that has ended takes no batch back.
                let _ = back.try_send(batch);
            }
            Ok(None) => break,
            // It was not finished: the file of an earlier run stays.
            Err(_) => return Ok(RowsWritten { rows: 0, lost: 0 }),
        }
    }
    let lost = rowless.lost.load(Ordering::Relaxed);
    sink.lost(lost);
    sink.apart(rowless.apart.load(Ordering::Relaxed));
    let (file, rows) = sink.finish().map_err(wrong)?;
    file.complete().map_err(|error| wrong(error.into()))?;
    Ok(RowsWritten { rows, lost })
}

/// Writes what comes into the files of its time until the end is said. A file ends on time whether
/// or not something comes, and a wall clock that is set is noticed.
fn write_rotating(
    mut rows: RotatingRows,
    batches: &Receiver<Full>,
    rowless: &Rowless,
    rotation: &RowRotation,
) -> Result<RowsWritten, FileError> {
    let now = &rotation.clock;
    loop {
        let at = now();
        rows.set_epoch((rotation.epoch)(), at);
        let wait = rows.wait(at).map_or(LOOK, |wait| wait.min(LOOK));
        match batches.recv_timeout(wait.as_duration()) {
            Ok(Some((mut batch, back))) => {
                rows.write(&batch);
                batch.clear();
                let _ = back.try_send(batch);
            }
            Err(RecvTimeoutError::Timeout) => {}
            // These files replace none, so that they are completed in any case.
            Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
        }
        rows.set_apart(rowless.apart.load(Ordering::Relaxed));
        rows.complete_before(now(), rowless.lost.load(Ordering::Relaxed));
    }
    rows.set_apart(rowless.apart.load(Ordering::Relaxed));
    let lost = rowless.lost.load(Ordering::Relaxed);
    let (rows, given_up) = rows.finish(lost)?;
    Ok(RowsWritten { rows, lost: lost + given_up })
}

/// One event loop's way into the file. Its last rows are written when it is dropped.
#[derive(Debug)]
pub struct Lane {
    batch: RowBatch,
    full: Sender<Full>,
    back: SyncSender<RowBatch>,
    empty: Receiver<RowBatch>,
    rowless: Arc<Rowless>,
    /// Visits apart that `rowless` has not yet: they are added with the next batch.
    apart: u64,
    sample: KeySample,
    needs_keys: bool,
    intervals: Option<RowIntervals>,
    /// Rows that were replied to from then on belong into the next file.
    until: Stamp,
}

impl Lane {
    /// Whether it matters which key a row is of: a program that would not know it otherwise need
    /// not find out.
    pub fn needs_keys(&self) -> bool {
        self.needs_keys
    }

    /// Adds one row, if its key is in the sample. Never waits: where there is no room, the row is
    /// counted as lost.
    #[inline]
    pub fn push(&mut self, visit: &Visit, servers: &[ServerVisit]) {
        if !self.sample.has(visit.key) {
            return;
        }
        if visit.replied >= self.until {
            self.begin_interval(visit.replied);
        }
        if !self.batch.push(visit, servers) {
            self.turn();
            if !self.batch.push(visit, servers) {
                self.rowless.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts a visit of a server that belongs to no row: no client waited for it.
    #[inline]
    pub fn apart(&mut self) {
        self.apart += 1;
    }

    /// Hands over the full batch for an empty one, if there is one.
    #[cold]
    fn turn(&mut self) {
        if let Ok(empty) = self.empty.try_recv() {
            let full = std::mem::replace(&mut self.batch, empty);
            self.hand_over(full);
        }
    }

    /// Hands over the rows of the interval before. Where no empty batch has come back they stay,
    /// and go with the next ones.
    #[cold]
    fn begin_interval(&mut self, replied: Stamp) {
        if !self.batch.is_empty() {
            self.turn();
        }
        let Some(intervals) = self.intervals.as_ref().filter(|_| self.batch.is_empty()) else { return };
        self.until = intervals.at(replied).stamps().end.max(replied + Nanos(1));
    }

    fn hand_over(&mut self, batch: RowBatch) {
        self.add_apart();
        let rows = batch.len() as u64;
        if self.full.send(Some((batch, self.back.clone()))).is_err() {
            self.rowless.lost.fetch_add(rows, Ordering::Relaxed);
        }
    }

    fn add_apart(&mut self) {
        self.rowless.apart.fetch_add(std::mem::take(&mut self.apart), Ordering::Relaxed);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.add_apart();
        let last = std::mem::replace(&mut self.batch, RowBatch::new(1));
        if !last.is_empty() {
            self.hand_over(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use krarup_units::{Nanos, Stamp};

    use super::super::RowFile;
    use super::*;
    use crate::{KeyDigest, Operation};

    const RUN: RunMetadata = RunMetadata { epoch_unix: Nanos(1_795_000_000_000_000_000) };

    /// A path of this test's own, gone when it goes.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("krarup-record-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn every_row_of_every_lane_is_written_or_counted_as_lost() {
        let folder = Folder::new("lanes");
        let path = folder.0.join("rows.parquet");
        let writer = RowWriter::create(&path, RUN, Box::new(|_: &FileError| {})).unwrap();
        let rows = 3 * LANE_ROWS as u64 + 7;
        let lanes = [0, 1].map(|station| {
            let mut lane = writer.lane();
            std::thread::spawn(move || {
                for number in 0..rows {
                    let visit = Visit { station, ..Visit::at(Stamp(number), Operation::Get) };
                    lane.push(&visit, &[ServerVisit::ok(station, Stamp(number), Stamp(number))]);
                }
            })
        });
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        assert!(!path.exists(), "half a file under its own name");
        let written = writer.finish().unwrap();
        assert_eq!(written.rows + written.lost, 2 * rows);

        let mut file = RowFile::open(&path).unwrap();
        assert_eq!((file.lost(), file.run()), (written.lost, RUN));
        let mut count = 0;
        let mut next = [Stamp(0); 2];
        file.for_each(|visit, servers| {
            let lane = usize::from(visit.station);
            assert!(visit.received >= next[lane], "rows of one lane keep their order");
            next[lane] = visit.received + Nanos(1);
            assert_eq!(servers, [ServerVisit::ok(visit.station, visit.received, visit.received)]);
            count += 1;
        })
        .unwrap();
        assert_eq!(count, written.rows);
    }

    #[test]
    fn a_writer_that_is_not_finished_leaves_the_file_of_an_earlier_run() {
        let folder = Folder::new("unfinished");
        let path = folder.0.join("rows.parquet");
        std::fs::write(&path, "earlier").unwrap();
        let writer = RowWriter::create(&path, RUN, Box::new(|_: &FileError| {})).unwrap();
        writer.lane().push(&Visit::at(Stamp(0), Operation::Get), &[]);
        let RowWriter { full, thread, .. } = writer;
        drop(full);
        thread.join().unwrap().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"earlier");
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    /// As one of a thread that does not end.
    #[test]
    fn a_lane_that_is_not_dropped_is_not_waited_for() {
        let folder = Folder::new("undropped");
        let path = folder.0.join("rows.parquet");
        let writer = RowWriter::create(&path, RUN, Box::new(|_: &FileError| {})).unwrap();
        let (mut ended, mut goes_on) = (writer.lane(), writer.lane());
        for lane in [&mut ended, &mut goes_on] {
            lane.push(&Visit::at(Stamp(0), Operation::Get), &[]);
        }
        drop(ended);
        assert_eq!(writer.finish().unwrap(), RowsWritten { rows: 1, lost: 0 });
        assert_eq!(RowFile::open(&path).unwrap().rows(), 1);
        goes_on.push(&Visit::at(Stamp(1), Operation::Get), &[]);
    }

    #[test]
    fn a_writer_that_has_gone_costs_rows_and_not_the_loop() {
        let (full, batches) = channel();
        let (back, empty) = sync_channel(1);
        let rowless = Arc::new(Rowless::default());
        let mut lane = Lane {
            batch: RowBatch::new(2),
            full,
            back,
            empty,
            rowless: Arc::clone(&rowless),
            apart: 0,
            sample: KeySample::ALL,
            needs_keys: false,
            intervals: None,
            until: Stamp(u64::MAX),
        };
        let visit = Visit::at(Stamp(0), Operation::Get);
        (0..3).for_each(|_| lane.push(&visit, &[]));
        assert_eq!(rowless.lost.load(Ordering::Relaxed), 1, "the third has no room");
        drop(batches);
        drop(lane);
        assert_eq!(rowless.lost.load(Ordering::Relaxed), 3, "the first two were not taken");
    }

    /// Copies that no client waited for, also after the last row.
    #[test]
    fn visits_that_belong_to_no_row_are_counted_in_the_file() {
        let folder = Folder::new("apart");
        let path = folder.0.join("rows.parquet");
        let writer = RowWriter::create(&path, RUN, Box::new(|_: &FileError| {})).unwrap();
        let (mut first, mut second) = (writer.lane(), writer.lane());
        first.push(&Visit::at(Stamp(0), Operation::Set), &[]);
        first.apart();
        second.apart();
        second.apart();
        drop((first, second));
        assert_eq!(writer.finish().unwrap(), RowsWritten { rows: 1, lost: 0 });
        assert_eq!(RowFile::open(&path).unwrap().apart(), 3);
    }

    /// A lane hands its rows over at the end of an interval, so that each file has those of its
    /// time, and of the keys of the sample.
    #[test]
    fn rows_go_to_the_file_of_their_interval_and_others_of_the_sample_to_none() {
        let folder = Folder::new("intervals");
        let settings = RowSettings { sample: KeySample::one_of(4), keys: true, ..RowSettings::from(RUN) };
        let rotation = RowRotation {
            every: Nanos::from_secs(1),
            clock: Box::new(|| Stamp(0)),
            epoch: Box::new(|| RUN.epoch_unix),
        };
        let silent = Box::new(|_: &FileError| {});
        let writer = RowWriter::create_rotating(&folder.0, settings, rotation, silent).unwrap();
        let mut lane = writer.lane();
        let mut kept = [0; 3];
        for number in 0..300 {
            let key = KeyDigest::of(&[(number % 100) as u8]);
            let visit = Visit { key, ..Visit::at(Stamp(number * 10_000_000), Operation::Get) };
            kept[number as usize / 100] += u64::from(KeySample::one_of(4).has(key));
            lane.push(&visit, &[]);
        }
        drop(lane);
        assert_eq!(writer.finish().unwrap(), RowsWritten { rows: kept.iter().sum(), lost: 0 });
        let mut seen = Vec::new();
        let run =
            crate::file::rows::RowRun::open(&crate::file::rows::RowRun::files(&folder.0).unwrap()).unwrap();
        assert_eq!(run.sample(), Some("1/4"));
        run.for_each(|visit, _| {
            assert!(KeySample::one_of(4).has(visit.key) && visit.key.known().is_some());
            seen.push(visit.replied);
        })
        .unwrap();
        assert_eq!(run.lengths(), kept, "a file for each second");
        assert!(seen.is_sorted());
        assert!(kept[0] > 10 && kept[0] < 50 && kept.iter().all(|&of| of == kept[0]), "{kept:?}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let path = Path::new("no/such/rows.parquet");
        let silent = Box::new(|_: &FileError| {});
        let error = RowWriter::create(path, RUN, silent).unwrap_err().to_string();
        assert!(error.starts_with("no/such/rows.parquet: "), "{error}");
    }
}
