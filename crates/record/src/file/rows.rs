//! `rows.parquet`: every request's row. Columns: [`crate::schema::ROWS`].
//!
//! ```text
//! Lane::push ─▶ RowBatch ─▶ full? ─▶ RowSink::write ─▶ one row group ─▶ file
//! event loop    plain rows, bounded   thread of RowWriter, column by column
//! ```
//! A batch is bounded, so an event loop fills one without allocating and hands it over when it is
//! full; a [`RowFileWriter`] writes each batch as one row group and keeps nothing but the group's
//! place. Rows that had to be dropped are counted with [`RowFileWriter::lost`], what servers
//! did for no row with [`RowFileWriter::apart`]: the file says so.
//! [`RowFile`] reads batches back, [`RowRun`] those of several files as one run. A program with one
//! thread uses a [`RowFileWriter`] alone; event loops have each a [`Lane`] of one [`RowWriter`],
//! which writes one file or, at each [`RowIntervals`] of the day, a new one.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use krarup_units::{Nanos, Stamp};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, Type};

use super::problem::FileProblem;
use crate::schema::{ColumnKind, ROWS, VERSION};
use crate::{ServerVisit, Visit};

pub mod flat;
mod intervals;
mod read;
mod rotating;
mod run;
mod settings;
mod writer;

pub use intervals::{RowInterval, RowIntervals, RowRotation};
pub use read::RowFile;
pub use run::{RowPiece, RowRun};
pub use settings::{KeySample, RowPlan, RowSettings, RowTrouble};
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
    /// Made when rows come one by one.
    batch: Option<RowBatch>,
    settings: RowSettings,
    rows: u64,
    lost: u64,
    apart: u64,
}

impl<W: Write + Send> RowFileWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// As `out` says.
    pub fn new(out: W, settings: impl Into<RowSettings>) -> Result<Self, FileProblem> {
        let settings = settings.into();
        let about = Arc::new(properties(&settings));
        let writer = SerializedFileWriter::new(out, Arc::new(columns(VERSION)?), about)?;
        Ok(Self { writer, batch: None, settings, rows: 0, lost: 0, apart: 0 })
    }

    /// Adds one row; writes a row group when enough have come.
    ///
    /// # Errors
    /// As the file says.
    pub fn push(&mut self, visit: &Visit, servers: &[ServerVisit]) -> Result<(), FileProblem> {
        let batch = self.batch.get_or_insert_with(|| RowBatch::new(BATCH_ROWS));
        if !batch.push(visit, servers) {
            self.rows += write_group(&mut self.writer, batch, &self.settings)?;
            batch.clear();
            // An empty batch takes any row.
            let _ = batch.push(visit, servers);
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
        self.rows += write_group(&mut self.writer, batch, &self.settings)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FileProblem> {
        if let Some(batch) = &mut self.batch {
            self.rows += write_group(&mut self.writer, batch, &self.settings)?;
            batch.clear();
        }
        Ok(())
    }

    /// Rows that are in row groups of the file.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Counts rows that could not be kept, as when the disk was slower than the requests.
    pub fn lost(&mut self, rows: u64) {
        self.lost += rows;
    }

    /// Counts visits of servers that belong to no row: no client waited for them.
    pub fn apart(&mut self, visits: u64) {
        self.apart += visits;
    }

    /// Completes the file and gives back what it was written to, with the number of rows in it.
    ///
    /// # Errors
    /// As the file says.
    pub fn finish(mut self) -> Result<(W, u64), FileProblem> {
        self.flush()?;
        self.writer.append_key_value_metadata(pair("krarup.rows_lost", self.lost.to_string()));
        self.writer.append_key_value_metadata(pair(APART, self.apart.to_string()));
        Ok((self.writer.into_inner()?, self.rows))
    }
}

/// Says that the rows are a load generator's.
const CLIENTS: &str = "krarup.clients";
/// How many visits of servers belong to no row.
const APART: &str = "krarup.visits_apart";
/// Which program wrote the rows.
const INSTANCE: &str = "krarup.instance";
/// Of which keys there are rows.
const SAMPLE: &str = "krarup.sample";

fn pair(key: &str, value: String) -> KeyValue {
    KeyValue::new(key.to_owned(), value)
}

/// The columns that [`ROWS`] has in a version of it, as Parquet has them, lists in the standard
/// three levels.
///
/// A signed number of 64 bits is the one kind of whole number that every engine keeps as it is:
/// Spark makes a decimal of an unsigned one, and differences of those wrap where they are negative.
/// A moment has microseconds because Spark's has.
fn columns(version: u32) -> Result<Type, FileProblem> {
    let mut flat = String::new();
    let mut nested = String::new();
    for column in ROWS.columns.iter().filter(|column| column.since <= version) {
        let (out, name) = match column.name.split_once('.') {
            Some((_, name)) => (&mut nested, name),
            None => (&mut flat, column.name),
        };
        let line = match column.kind_in(version) {
            ColumnKind::I64 if column.name == "key" => format!("optional int64 {name}; "),
            ColumnKind::I64 => format!("required int64 {name}; "),
            ColumnKind::Moment => format!("required int64 {name} (TIMESTAMP(MICROS,true)); "),
            ColumnKind::U16 => format!("required int32 {name} (INTEGER(16,false)); "),
            ColumnKind::U32 => format!("required int32 {name} (INTEGER(32,false)); "),
            ColumnKind::U64 => format!("required int64 {name} (INTEGER(64,false)); "),
            ColumnKind::Bool => format!("required boolean {name}; "),
            ColumnKind::Name | ColumnKind::Text => format!("required binary {name} (STRING); "),
            ColumnKind::U128 | ColumnKind::F64 => unreachable!("rows have no such column"),
        };
        out.push_str(&line);
    }
    let list = format!(
        "required group servers (LIST) {{ repeated group list {{ required group element {{ {nested} }} }} }}"
    );
    Ok(parse_message_type(&format!("message visit {{ {flat} {list} }}"))?)
}

fn properties(settings: &RowSettings) -> WriterProperties {
    let describe = |column: &crate::schema::SchemaColumn| {
        format!("{}\t{}\t{}\t{}", column.name, column.kind.name(), column.unit, column.definition)
    };
    let described: Vec<_> = ROWS.columns.iter().map(describe).collect();
    let mut about = vec![
        pair("krarup.schema_version", VERSION.to_string()),
        pair("krarup.epoch_unix_ns", settings.run.epoch_unix.0.to_string()),
        pair("krarup.columns", described.join("\n")),
        pair(INSTANCE, settings.instance.clone()),
    ];
    if settings.sample != KeySample::ALL {
        about.push(pair(SAMPLE, settings.sample.to_string()));
    }
    if settings.of_clients {
        about.push(pair(CLIENTS, "true".to_owned()));
    }
    let builder = WriterProperties::builder()
        .set_created_by("krarup".to_owned())
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(about));
    // Stamps rise from row to row by little: their differences take a few bits, a dictionary would
    // only grow.
    let stamps = [
        "received",
        "queued",
        "taken",
        "replied",
        "time",
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
    settings: &RowSettings,
) -> Result<u64, FileProblem> {
    if batch.is_empty() {
        return Ok(0);
    }
    let mut group = writer.next_row_group()?;
    write_columns(&mut group, batch, settings)?;
    group.close()?;
    Ok(batch.len() as u64)
}

/// Writes the columns of a row group, in the order of [`ROWS`].
fn write_columns<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    batch: &RowBatch,
    settings: &RowSettings,
) -> Result<(), FileProblem> {
    let visits = &batch.visits;
    let servers = &batch.servers;
    let flat = Levels::default();
    let nested = Levels::of(batch);
    put::<Int64Type, _>(group, visits, &flat, |visit| i64::from(visit.station))?;
    put::<ByteArrayType, _>(group, visits, &flat, |visit| text(visit.operation.name()))?;
    put::<ByteArrayType, _>(group, visits, &flat, |visit| text(visit.outcome.name()))?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.received.0.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.queued.0.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.taken.0.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.replied.0.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| i64::from(visit.busy_workers))?;
    put::<Int64Type, _>(group, visits, &flat, |visit| i64::from(visit.queue_length))?;
    put::<BoolType, _>(group, visits, &flat, |visit| visit.worker_was_idle)?;
    put::<Int64Type, _>(group, visits, &flat, |visit| i64::from(visit.keys))?;
    put::<Int64Type, _>(group, visits, &flat, |visit| i64::from(visit.hits))?;
    put::<Int64Type, _>(group, visits, &flat, |visit| i64::from(visit.misses))?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.bytes_in.cast_signed())?;
    put::<Int64Type, _>(group, visits, &flat, |visit| visit.bytes_out.cast_signed())?;
    put_keys(group, visits, settings.keys)?;
    let epoch = settings.run.epoch_unix;
    put::<Int64Type, _>(group, visits, &flat, |visit| micros(epoch, visit.replied))?;
    let instance = ByteArray::from(Bytes::from(settings.instance.clone()));
    put::<ByteArrayType, _>(group, visits, &flat, |_| instance.clone())?;
    put::<Int64Type, _>(group, servers, &nested, |one| i64::from(one.server))?;
    put::<ByteArrayType, _>(group, servers, &nested, |one| text(one.outcome.name()))?;
    put::<Int64Type, _>(group, servers, &nested, |one| one.sent.0.cast_signed())?;
    put::<Int64Type, _>(group, servers, &nested, |one| one.answered.0.cast_signed())?;
    put::<Int64Type, _>(group, servers, &nested, |one| i64::from(one.lane))?;
    Ok(())
}

/// Writes the column of keys: a value for each row that has one.
fn put_keys(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    visits: &[Visit],
    kept: bool,
) -> Result<(), FileProblem> {
    let known = |visit: &Visit| visit.key.known().filter(|_| kept);
    let keys: Vec<i64> = visits.iter().filter_map(known).map(|key| key.0.cast_signed()).collect();
    let there: Vec<i16> = visits.iter().map(|visit| i16::from(known(visit).is_some())).collect();
    let mut column = group.next_column()?.expect("the schema has as many columns as are written");
    column.typed::<Int64Type>().write_batch(&keys, Some(&there), None)?;
    Ok(column.close()?)
}

/// The wall clock at a stamp, in microseconds since 1970.
fn micros(epoch: Nanos, at: Stamp) -> i64 {
    (epoch.0.saturating_add(at.0) / 1_000).cast_signed()
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
