//! Every request's row, written by a thread of its own: the event loop only fills batches.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use krarup_proxy::RowSink;
use krarup_record::file::{self, Partial, rows};
use krarup_record::{ServerVisit, Visit};

/// Batches on their way: enough to ride out a slow disk for some seconds, and a bound on the memory.
const BATCHES: usize = 8;

/// The event loop's end: fills batches and hands them over.
pub(crate) struct Shipper {
    batch: rows::RowBatch,
    full: SyncSender<rows::RowBatch>,
    empty: Receiver<rows::RowBatch>,
}

/// The writer's end: ends when the shipper is dropped.
pub(crate) struct Writer {
    thread: JoinHandle<Result<u64, file::FileError>>,
}

/// Begins `rows.parquet` in `folder`.
///
/// # Errors
/// When the file cannot be made; with its path.
pub(crate) fn begin(folder: &Path, run: file::Run) -> Result<(Shipper, Writer), String> {
    let path = folder.join("rows.parquet");
    let failed = |problem: file::Problem| file::FileError { path: path.clone(), problem }.to_string();
    std::fs::create_dir_all(folder).map_err(|error| failed(error.into()))?;
    let out = BufWriter::new(Partial::create(&path).map_err(|error| failed(error.into()))?);
    let sink = rows::RowSink::new(out, run).map_err(failed)?;
    let (full, to_write) = sync_channel(BATCHES);
    let (written, empty) = sync_channel(BATCHES + 1);
    let thread = std::thread::spawn(move || write(sink, &to_write, &written, path));
    Ok((Shipper { batch: rows::RowBatch::new(rows::BATCH_ROWS), full, empty }, Writer { thread }))
}

fn write(
    mut sink: rows::RowSink<BufWriter<Partial>>,
    to_write: &Receiver<rows::RowBatch>,
    written: &SyncSender<rows::RowBatch>,
    path: PathBuf,
) -> Result<u64, file::FileError> {
    let mut write_all = || {
        while let Ok(mut batch) = to_write.recv() {
            sink.write(&batch)?;
            batch.clear();
            let _ = written.try_send(batch);
        }
        Ok(())
    };
    let result: Result<(), file::Problem> = write_all();
    let finish = || {
        result?;
        let (out, rows) = sink.finish()?;
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.complete()?;
        Ok(rows)
    };
    finish().map_err(|problem| file::FileError { path, problem })
}

impl Shipper {
    /// Hands the batch over and goes on with an empty one. Where the disk cannot follow, the loop waits for it:
    /// rows are not lost, and what is waited is in the response times that the next rows tell.
    fn ship(&mut self) {
        let next = self.empty.try_recv().unwrap_or_else(|_| rows::RowBatch::new(rows::BATCH_ROWS));
        let batch = std::mem::replace(&mut self.batch, next);
        match self.full.try_send(batch) {
            Err(TrySendError::Full(batch)) => {
                let _ = self.full.send(batch);
            }
            // The writer has failed, and says why at the end.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

impl RowSink for Shipper {
    fn row(&mut self, visit: &Visit, servers: &[ServerVisit]) {
        if !self.batch.push(visit, servers) {
            self.ship();
            // An empty batch takes any row.
            let _ = self.batch.push(visit, servers);
        }
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        if !self.batch.is_empty() {
            self.ship();
        }
    }
}

impl Writer {
    /// Waits until everything is written; returns how many rows the file holds.
    ///
    /// # Errors
    /// What went wrong with the file.
    pub(crate) fn finish(self) -> Result<u64, String> {
        match self.thread.join() {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err("the thread that writes rows has failed".into()),
        }
    }
}
