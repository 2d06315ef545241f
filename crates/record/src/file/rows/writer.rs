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

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::{RowBatch, RowFileWriter};
use crate::file::{FileError, FileProblem, Partial, RunMetadata};
use crate::{ServerVisit, Visit};

/// Rows in a batch of a lane: 3 MB, and large enough a row group to compress well.
const LANE_ROWS: usize = 16_384;

/// Batches of a lane: one is filled, one is written, and the others ride out a disk that pauses.
const LANE_BATCHES: usize = 8;

/// A full batch, and where it goes back to.
type Full = (RowBatch, SyncSender<RowBatch>);

/// A file of rows that a thread of its own writes.
#[derive(Debug)]
pub struct RowWriter {
    path: PathBuf,
    full: Sender<Full>,
    lost: Arc<AtomicU64>,
    thread: JoinHandle<Result<u64, FileProblem>>,
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
    /// Begins the file that will be `path`, and its thread.
    ///
    /// # Errors
    /// As the operating system says, with the path.
    pub fn create(path: &Path, run: RunMetadata) -> Result<Self, FileError> {
        Self::begin(path, run, |_| {})
    }

    /// The same for a load generator's rows; the file says so.
    ///
    /// # Errors
    /// As [`RowWriter::create`].
    pub fn of_clients(path: &Path, run: RunMetadata) -> Result<Self, FileError> {
        Self::begin(path, run, RowFileWriter::of_clients)
    }

    fn begin(
        path: &Path,
        run: RunMetadata,
        mark: fn(&mut RowFileWriter<Partial>),
    ) -> Result<Self, FileError> {
        let (full, batches) = channel::<Full>();
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let start = || {
            let mut sink = RowFileWriter::new(Partial::create(path)?, run)?;
            mark(&mut sink);
            let thread = Builder::new().name("rows".to_owned());
            Ok(thread.spawn(move || write_all(sink, &batches, &counted))?)
        };
        let thread = start().map_err(|problem| FileError { path: path.to_owned(), problem })?;
        Ok(Self { path: path.to_owned(), full, lost, thread })
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
            lost: Arc::clone(&self.lost),
        }
    }

    /// Completes the file. Waits until every lane is dropped and every row is written.
    ///
    /// # Errors
    /// What kept the rows from being written, with the path.
    pub fn finish(self) -> Result<RowsWritten, FileError> {
        drop(self.full);
        let written = self.thread.join().unwrap_or(Err(FileProblem::Damaged));
        let rows = written.map_err(|problem| FileError { path: self.path, problem })?;
        Ok(RowsWritten { rows, lost: self.lost.load(Ordering::Relaxed) })
    }
}

/// Writes what comes until no lane is left. After an error the lanes notice that their batches are
/// not taken.
fn write_all(
    mut sink: RowFileWriter<Partial>,
    batches: &Receiver<Full>,
    lost: &AtomicU64,
) -> Result<u64, FileProblem> {
    for (mut batch, back) in batches {
        sink.write(&batch)?;
        batch.clear();
        // A lane that has ended takes no batch back.
        let _ = back.try_send(batch);
    }
    sink.lost(lost.load(Ordering::Relaxed));
    let (file, rows) = sink.finish()?;
    file.complete()?;
    Ok(rows)
}

/// One event loop's way into the file. Its last rows are written when it is dropped.
#[derive(Debug)]
pub struct Lane {
    batch: RowBatch,
    full: Sender<Full>,
    back: SyncSender<RowBatch>,
    empty: Receiver<RowBatch>,
    lost: Arc<AtomicU64>,
}

impl Lane {
    /// Adds one row. Never waits: where there is no room, the row is counted as lost.
    #[inline]
    pub fn push(&mut self, visit: &Visit, servers: &[ServerVisit]) {
        if !self.batch.push(visit, servers) {
            self.turn();
            if !self.batch.push(visit, servers) {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Hands over the full batch for an empty one, if there is one.
    #[cold]
    fn turn(&mut self) {
        if let Ok(empty) = self.empty.try_recv() {
            let full = std::mem::replace(&mut self.batch, empty);
            self.hand_over(full);
        }
    }

    fn hand_over(&self, batch: RowBatch) {
        if let Err(refused) = self.full.send((batch, self.back.clone())) {
            self.lost.fetch_add(refused.0.0.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
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
    use crate::Operation;

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
        let writer = RowWriter::create(&path, RUN).unwrap();
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
    fn a_writer_that_has_gone_costs_rows_and_not_the_loop() {
        let (full, batches) = channel();
        let (back, empty) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let mut lane = Lane { batch: RowBatch::new(2), full, back, empty, lost: Arc::clone(&lost) };
        let visit = Visit::at(Stamp(0), Operation::Get);
        (0..3).for_each(|_| lane.push(&visit, &[]));
        assert_eq!(lost.load(Ordering::Relaxed), 1, "the third has no room");
        drop(batches);
        drop(lane);
        assert_eq!(lost.load(Ordering::Relaxed), 3, "the first two were not taken");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = RowWriter::create(Path::new("no/such/rows.parquet"), RUN).unwrap_err().to_string();
        assert!(error.starts_with("no/such/rows.parquet: "), "{error}");
    }
}
