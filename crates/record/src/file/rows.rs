//! `rows.parquet`: every request's row. Columns: [`crate::schema::ROWS`].
//!
//! ```text
//! Lane::push ─▶ RowBatch ─▶ full? ─▶ RowSink::write ─▶ one row group ─▶ file
//! event loop    plain rows, bounded   thread of RowWriter, column by column
//! ```
//! A batch is bounded, so an event loop fills one without allocating and hands it over when it is
//! full; a [`RowFileWriter`] writes each batch as one row group and keeps nothing but the group's
//! place. Rows that had to be dropped are counted with [`RowFileWriter::lost`]: the file says so.
//! [`RowFile`] reads batches back. A program with one thread uses a [`RowFileWriter`] alone; event
//! loops have each a [`Lane`] of one [`RowWriter`].

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, Type};

use super::problem::{FileProblem, RunMetadata};
use crate::schema::{ColumnKind, ROWS, VERSION};
use crate::{ServerVisit, Visit};

pub mod flat;
mod read;
mod writer;

pub use read::RowFile;
pub use writer::{Lane, RowWriter, RowsWritten};

/// Rows in a row group, unless their servers fill it before.
pub const BATCH_ROWS: usize = 65_536;

/// Servers' parts in a batch, per row. One request with more than a whole batch may hold still fits
/// an empty one.
const SERVERS_PER_ROW: usize = 4;

/// Rows in memory, bounded.
#[derive(Clone, Debug)]
pub struct RowBatch {
    visits: Vec<Visit>,
    /// Where in `servers` each visit's parts end.
    ends: Vec<usize>,
    servers: Vec<ServerVisit>,
    rows: usize,
}

impl RowBatch {
    /// Room for `rows` rows, at least one, all of it allocated now.
    pub fn new(rows: usize) -> Self {
        let rows = rows.max(1);
        Self {
            visits: Vec::with_capacity(rows),
            ends: Vec::with_capacity(rows),
            servers: Vec::with_capacity(rows * SERVERS_PER_ROW),
            rows,
        }
    }

    /// Adds a row, or says `false` where the batch is full.
    #[inline]
    #[must_use = "a row that did not fit is lost unless it is pushed again or counted"]
    pub fn push(&mut self, visit: &Visit, servers: &[ServerVisit]) -> bool {
        let room = self.rows * SERVERS_PER_ROW;
        let full = self.visits.len() == self.rows || self.servers.len() + servers.len() > room;
        if full && !self.visits.is_empty() {
            return false;
        }
        self.visits.push(*visit);
        self.servers.extend_from_slice(servers);
        self.ends.push(self.servers.len());
        true
    }

    /// Forgets the rows, keeps the memory.
    pub fn clear(&mut self) {
        self.visits.clear();
        self.ends.clear();
        self.servers.clear();
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.visits.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.visits.is_empty()
    }

    /// The rows, in the order in which they were pushed.
    pub fn iter(&self) -> impl Iterator<Item = (&Visit, &[ServerVisit])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let parts = starts.zip(&self.ends).map(|(start, &end)| &self.servers[start..end]);
        self.visits.iter().zip(parts)
    }
}

/// Writes rows to a file as they come.
pub struct RowFileWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    batch: RowBatch,
    rows: u64,
    lost: u64,
}

impl<W: Write + Send> RowFileWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// As `out` says.
    pub fn new(out: W, run: RunMetadata) -> Result<Self, FileProblem> {
        let writer = SerializedFileWriter::new(out, Arc::new(columns(VERSION)?), Arc::new(properties(run)))?;
        Ok(Self { writer, batch: RowBatch::new(BATCH_ROWS), rows: 0, lost: 0 })
    }

    /// Adds one row; writes a row group when enough have come.
    ///
    /// # Errors
    /// As the file says.
    pub fn push(&mut self, visit: &Visit, servers: &[ServerVisit]) -> Result<(), FileProblem> {
        if !self.batch.push(visit, servers) {
            self.flush()?;
            // An empty batch takes any row.
            let _ = self.batch.push(visit, servers);
        }
        Ok(())
    }

    /// Writes the rows of a batch as a row group, after those that were pushed one by one. The
    /// batch stays as it is.
    ///
    /// # Errors
    /// As the file says.
    pub fn write(&mut self, batch: &RowBatch) -> Result<(), FileProblem> {
        self.flush()?;
        self.rows += write_group(&mut self.writer, batch)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FileProblem> {
        self.rows += write_group(&mut self.writer, &self.batch)?;
        self.batch.clear();
        Ok(())
    }

    /// The file says that clients wrote it: `received` is when a request was due, `taken` when it
    /// was sent.
    pub fn of_clients(&mut self) {
        self.writer.append_key_value_metadata(pair(CLIENTS, "true".to_owned()));
    }

    /// Counts rows that could not be kept, as when the disk was slower than the requests.
    pub fn lost(&mut self, rows: u64) {
        self.lost += rows;
    }

    /// Completes the file and gives back what it was written to, with the number of rows in it.
    ///
    /// # Errors
    /// As the file says.
    pub fn finish(mut self) -> Result<(W, u64), FileProblem> {
        self.flush()?;
        self.writer.append_key_value_metadata(pair("krarup.rows_lost", self.lost.to_string()));
        Ok((self.writer.into_inner()?, self.rows))
    }
}

/// Says that the rows are a load generator's.
const CLIENTS: &str = "krarup.clients";

fn pair(key: &str, value: String) -> KeyValue {
    KeyValue::new(key.to_owned(), value)
}

/// The columns that [`ROWS`] has in a version of it, as Parquet has them. Whole numbers are
/// unsigned, lists in the standard three levels.
fn columns(version: u32) -> Result<Type, FileProblem> {
    let mut flat = String::new();
    let mut nested = String::new();
    for column in ROWS.columns.iter().filter(|column| column.since <= version) {
        let (out, name) = match column.name.split_once('.') {
            Some((_, name)) => (&mut nested, name),
            None => (&mut flat, column.name),
        };
        let line = match column.kind {
            ColumnKind::U16 => format!("required int32 {name} (INTEGER(16,false)); "),
            ColumnKind::U32 => format!("required int32 {name} (INTEGER(32,false)); "),
            ColumnKind::U64 => format!("required int64 {name} (INTEGER(64,false)); "),
            ColumnKind::Bool => format!("required boolean {name}; "),
            ColumnKind::Name => format!("required binary {name} (STRING); "),
            ColumnKind::U128 | ColumnKind::F64 => unreachable!("rows have no such column"),
        };
        out.push_str(&line);
    }
    let list = format!(
        "required group servers (LIST) {{ repeated group list {{ required group element {{ {nested} }} }} }}"
    );
    Ok(parse_message_type(&format!("message visit {{ {flat} {list} }}"))?)
}

fn properties(run: RunMetadata) -> WriterProperties {
    let describe = |column: &crate::schema::SchemaColumn| {
        format!("{}\t{}\t{}\t{}", column.name, column.kind.name(), column.unit, column.definition)
    };
    let described: Vec<_> = ROWS.columns.iter().map(describe).collect();
    let builder = WriterProperties::builder()
        .set_created_by("krarup".to_owned())
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(vec![
            pair("krarup.schema_version", VERSION.to_string()),
            pair("krarup.epoch_unix_ns", run.epoch_unix.0.to_string()),
            pair("krarup.columns", described.join("\n")),
        ]));
    // Stamps rise from row to row by little: their differences take a few bits, a dictionary would
    // only grow.
    let stamps = [
        "received",
        "queued",
        "taken",
        "replied",
        "servers.list.element.sent",
        "servers.list.element.answered",
    ];
    let delta = |path: &&str| ColumnPath::new(path.split('.').map(str::to_owned).collect());
    stamps
        .iter()
        .fold(builder, |builder, path| {
            builder
                .set_column_dictionary_enabled(delta(path), false)
                .set_column_encoding(delta(path), Encoding::DELTA_BINARY_PACKED)
        })
        .build()
}

/// Writes a batch as one row group and says how many rows it was. Without rows there is no group.
fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    batch: &RowBatch,
) -> Result<u64, FileProblem> {
    if batch.is_empty() {
        return Ok(0);
    }
    let mut group = writer.next_row_group()?;
    write_columns(&mut group, batch)?;
    group.close()?;
    Ok(batch.len() as u64)
}

/// Writes the columns of a row group, in the order of [`ROWS`].
fn write_columns<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    batch: &RowBatch,
) -> Result<(), FileProblem> {
    let visits = &batch.visits;
    let servers = &batch.servers;
    let flat = Levels::default();
    let nested = Levels::of(batch);
    put::<Int32Type, _>(group, visits, &flat, |visit| i32::from(visit.station))?;
    put::<ByteArrayType, _>(group, visits, &flat, |visit| text(visit.operation.name()))?;
    put::<ByteArrayType, _>(group, visits, &flat, |visit| text(visit.outcome.name()))?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.received.0.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.queued.0.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.taken.0.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.replied.0.cast_signed())?;
    put::<Int32Type, _>(group, visits, &flat, |visit| visit.busy_workers.cast_signed())?;
    put::<Int32Type, _>(group, visits, &flat, |visit| visit.queue_length.cast_signed())?;
    put::<BoolType, _>(group, visits, &flat, |visit| visit.worker_was_idle)?;
    put::<Int32Type, _>(group, visits, &flat, |visit| visit.keys.cast_signed())?;
    put::<Int32Type, _>(group, visits, &flat, |visit| visit.hits.cast_signed())?;
    put::<Int32Type, _>(group, visits, &flat, |visit| visit.misses.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.bytes_in.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.bytes_out.cast_signed())?;
    put::<Int32Type, _>(group, servers, &nested, |one| i32::from(one.server))?;
    put::<ByteArrayType, _>(group, servers, &nested, |one| text(one.outcome.name()))?;
    put::<Int64Type, _>(group, servers, &nested, |one| one.sent.0.cast_signed())?;
    put::<Int64Type, _>(group, servers, &nested, |one| one.answered.0.cast_signed())?;
    put::<Int32Type, _>(group, servers, &nested, |one| i32::from(one.lane))?;
    Ok(())
}

/// A name as a value: points to the constant, copies nothing.
fn text(name: &'static str) -> ByteArray {
    ByteArray::from(Bytes::from_static(name.as_bytes()))
}

/// Which values belong to which row. A list's elements have definition 1, all but the first repeat
/// the row; an empty list is one entry of definition 0 without a value. Empty where every row has
/// one value.
#[derive(Default)]
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Levels {
    fn of(batch: &RowBatch) -> Self {
        let mut levels = Self::default();
        for (_, servers) in batch.iter() {
            levels.definition.push(i16::from(!servers.is_empty()));
            levels.repetition.push(0);
            for _ in servers.iter().skip(1) {
                levels.definition.push(1);
                levels.repetition.push(1);
            }
        }
        levels
    }
}

/// Writes the next column of the group.
fn put<T: DataType, R>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    rows: &[R],
    levels: &Levels,
    value: impl Fn(&R) -> T::T,
) -> Result<(), FileProblem> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    let mut column = group.next_column()?.expect("the schema has as many columns as are written");

    let given = !levels.definition.is_empty();
    let definition = given.then_some(&levels.definition[..]);
    let repetition = given.then_some(&levels.repetition[..]);
    column.typed::<T>().write_batch(&values, definition, repetition)?;
    Ok(column.close()?)
}
