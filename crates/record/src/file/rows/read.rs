//! Reads `rows.parquet` back, batch by batch.

use std::fs::File;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use krarup_units::{Nanos, Stamp};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::{APART, CLIENTS, INSTANCE, RowBatch, SAMPLE, columns};
use crate::file::{FileError, FileProblem, RunMetadata};
use crate::schema::{ColumnKind, OLDEST_VERSION, ROWS, SchemaColumn, VERSION};
use crate::{KeyDigest, Operation, Outcome, ServerVisit, Visit};

/// Rows that are read at once.
const READ_ROWS: usize = 8_192;

/// The rows of a file, in its order. Keeps one batch in memory, however large the file.
pub struct RowFile {
    reader: Box<dyn FileReader>,
    version: u32,
    /// The next row group to open.
    next_group: usize,
    /// Those from there on are not read.
    last_group: usize,
    /// The columns of the open row group; empty where none is open.
    open: Vec<ColumnReader>,
    batch: RowBatch,
    run: RunMetadata,
    lost: u64,
    apart: u64,
    of_clients: bool,
    instance: String,
    sample: Option<String>,
}

/// Whether a column of rows is read: what it says is told by the others and the metadata.
fn is_read(column: &SchemaColumn) -> bool {
    !matches!(column.kind, ColumnKind::Moment | ColumnKind::Text)
}

impl RowFile {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that cannot be read, is not Parquet, or has not the columns of its version of rows,
    /// as far back as [`OLDEST_VERSION`].
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let open = || Self::new(File::open(path)?);
        open().map_err(|problem| FileError { path: path.to_owned(), problem })
    }

    /// Reads a file that is in memory.
    ///
    /// # Errors
    /// As [`RowFile::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, FileProblem> {
        Self::new(Bytes::from(bytes))
    }

    fn new(file: impl ChunkReader + 'static) -> Result<Self, FileProblem> {
        let reader = guarded(|| Ok(SerializedFileReader::new(file)?))?;
        let metadata = reader.metadata().file_metadata();
        let value = |key: &str| {
            let pair = metadata.key_value_metadata()?.iter().find(|pair| pair.key == key)?;
            pair.value.clone()
        };
        let number = |column, key| {
            let found = value(key).unwrap_or_default();
            found.parse().map_err(|_| FileProblem::Value { column, found })
        };
        let found = value("krarup.schema_version")
            .ok_or_else(|| FileProblem::Schema("the file does not say which version they have".to_owned()))?;
        let version = (OLDEST_VERSION..=VERSION).find(|version| found == version.to_string());
        let version = version.ok_or(FileProblem::Version { found })?;
        let expected = columns(version)?;
        if *metadata.schema() != expected {
            let found = metadata.schema().get_fields().iter().map(|field| field.name()).collect::<Vec<_>>();
            return Err(FileProblem::Schema(format!("the file has {}", found.join(", "))));
        }
        let run = RunMetadata { epoch_unix: Nanos(number("krarup.epoch_unix_ns", "krarup.epoch_unix_ns")?) };
        let lost = number("krarup.rows_lost", "krarup.rows_lost")?;
        // Files of earlier builds do not say.
        let apart = if value(APART).is_some() { number(APART, APART)? } else { 0 };
        let (of_clients, sample) = (value(CLIENTS).is_some(), value(SAMPLE));
        let instance = value(INSTANCE).unwrap_or_default();
        let last_group = reader.num_row_groups();
        Ok(Self {
            reader: Box::new(reader),
            version,
            next_group: 0,
            last_group,
            open: Vec::new(),
            batch: RowBatch::new(READ_ROWS),
            run,
            lost,
            apart,
            of_clients,
            instance,
            sample,
        })
    }

    /// When and where the rows were measured.
    pub fn run(&self) -> RunMetadata {
        self.run
    }

    /// Whether a load generator wrote them: then `received` is when a request was due, and `taken`
    /// when it was sent. Files of earlier builds do not say.
    pub fn of_clients(&self) -> bool {
        self.of_clients
    }

    /// Which program wrote them; empty where the file does not say.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Of which keys there are rows, as `1/16`; `None` where of all.
    pub fn sample(&self) -> Option<&str> {
        self.sample.as_deref()
    }

    /// How many row groups there are: parts of the file that can be read apart.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// How many rows there are, by what the file says of itself.
    pub fn rows(&self) -> u64 {
        self.reader.metadata().file_metadata().num_rows().max(0).cast_unsigned()
    }

    /// Reads these row groups only.
    #[must_use]
    pub fn only(mut self, groups: Range<usize>) -> Self {
        self.last_group = groups.end.min(self.groups());
        self.next_group = groups.start.min(self.last_group);
        self
    }

    /// How many rows the writer had to drop.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How many visits of servers belong to no row, as copies that no client waited for: zero where
    /// the file does not say.
    pub fn apart(&self) -> u64 {
        self.apart
    }

    /// When the first request was received and the last reply left, by what the file says of its
    /// columns. `None` where it does not, or has no rows.
    pub fn span(&self) -> Option<(Stamp, Stamp)> {
        let groups = self.reader.metadata().row_groups();
        let of = |name: &str, bound: fn(&ValueStatistics<i64>) -> Option<&i64>| {
            let place = ROWS.columns.iter().position(|column| column.name == name)?;
            let of_group = |group: &RowGroupMetaData| match group.column(place).statistics()? {
                Statistics::Int64(statistics) => bound(statistics).map(|value| value.cast_unsigned()),
                _ => None,
            };
            groups.iter().map(of_group).collect::<Option<Vec<u64>>>()
        };
        let begun = of("received", ValueStatistics::min_opt)?.into_iter().min()?;
        let ended = of("replied", ValueStatistics::max_opt)?.into_iter().max()?;
        (begun <= ended).then_some((Stamp(begun), Stamp(ended)))
    }

    /// The next rows, or `None` at the end.
    ///
    /// # Errors
    /// Damage, or a value that a column must not hold. What comes after is not to be trusted.
    pub fn next_batch(&mut self) -> Result<Option<&RowBatch>, FileProblem> {
        let more = guarded(|| self.fill())?;
        Ok(more.then_some(&self.batch))
    }

    /// Hands every row that is left to `see`.
    ///
    /// # Errors
    /// As [`RowFile::next_batch`]; the rows before the damage have been seen then.
    pub fn for_each(&mut self, mut see: impl FnMut(&Visit, &[ServerVisit])) -> Result<(), FileProblem> {
        while let Some(batch) = self.next_batch()? {
            batch.iter().for_each(|(visit, servers)| see(visit, servers));
        }
        Ok(())
    }

    /// For each row group, before which instant no reply of it left: zero where the file does not
    /// say.
    pub(super) fn earliest_replies(&self) -> Vec<Stamp> {
        let place = ROWS.columns.iter().position(|column| column.name == "replied");
        let of_group = |group: &RowGroupMetaData| match group.column(place?).statistics()? {
            Statistics::Int64(statistics) => Some(statistics.min_opt()?.cast_unsigned()),
            _ => None,
        };
        let groups = self.reader.metadata().row_groups();
        groups.iter().map(|group| Stamp(of_group(group).unwrap_or(0))).collect()
    }

    /// Fills the batch; whether there were rows.
    fn fill(&mut self) -> Result<bool, FileProblem> {
        loop {
            if self.open.is_empty() {
                if self.next_group >= self.last_group {
                    return Ok(false);
                }
                let group = self.reader.get_row_group(self.next_group)?;
                let there = ROWS.columns.iter().filter(|column| column.since <= self.version);
                self.open = there
                    .enumerate()
                    .filter(|(_, column)| is_read(column))
                    .map(|(place, _)| Ok(group.get_column_reader(place)?))
                    .collect::<Result<_, FileProblem>>()?;
                self.next_group += 1;
            }
            if read_columns(&mut self.open, &mut self.batch, self.version)? {
                return Ok(true);
            }
            self.open.clear();
        }
    }
}

/// The format's library checks what it reads, but not against everything that bytes can be: where
/// it would panic on a damaged file, that is an error like any other.
fn guarded<T>(read: impl FnOnce() -> Result<T, FileProblem>) -> Result<T, FileProblem> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or(Err(FileProblem::Damaged))
}

/// Reads the next rows of a row group into `batch`: the columns in the order of [`ROWS`], without
/// those that are not read. Whether there were any.
fn read_columns(open: &mut [ColumnReader], batch: &mut RowBatch, version: u32) -> Result<bool, FileProblem> {
    batch.clear();
    let mut open = open.iter_mut();
    let mut next = || open.next().ok_or(FileProblem::Damaged);

    let station = whole(next()?, None)?.narrow("station")?;
    let rows = station.values.len();
    if rows == 0 {
        return Ok(false);
    }
    batch.visits.resize(rows, Visit::at(Stamp(0), Operation::Other));
    let visits = &mut batch.visits;
    let all = Some(rows);
    set(visits, station, |visit, value| visit.station = value)?;
    let operation = text(next()?, all)?.named("operation", Operation::from_name)?;
    set(visits, operation, |visit, value| visit.operation = value)?;
    let outcome = text(next()?, all)?.named("outcome", Outcome::from_name)?;
    set(visits, outcome, |visit, value| visit.outcome = value)?;
    set(visits, whole(next()?, all)?, |visit, value| visit.received = Stamp(value))?;
    set(visits, whole(next()?, all)?, |visit, value| visit.queued = Stamp(value))?;
    set(visits, whole(next()?, all)?, |visit, value| visit.taken = Stamp(value))?;
    set(visits, whole(next()?, all)?, |visit, value| visit.replied = Stamp(value))?;
    set(visits, whole(next()?, all)?.narrow("busy_workers")?, |visit, value| visit.busy_workers = value)?;
    set(visits, whole(next()?, all)?.narrow("queue_length")?, |visit, value| visit.queue_length = value)?;
    set(visits, flags(next()?, all)?, |visit, value| visit.worker_was_idle = value)?;
    set(visits, whole(next()?, all)?.narrow("keys")?, |visit, value| visit.keys = value)?;
    set(visits, whole(next()?, all)?.narrow("hits")?, |visit, value| visit.hits = value)?;
    set(visits, whole(next()?, all)?.narrow("misses")?, |visit, value| visit.misses = value)?;
    set(visits, whole(next()?, all)?, |visit, value| visit.bytes_in = value)?;
    set(visits, whole(next()?, all)?, |visit, value| visit.bytes_out = value)?;
    if version >= KEYED {
        whole(next()?, all)?.where_there(visits, |visit, value| visit.key = KeyDigest(value))?;
    }

    let server = whole(next()?, all)?.narrow("servers.server")?;
    batch.ends = server.ends(rows)?;
    batch.servers.resize(server.values.len(), ServerVisit::ok(0, Stamp(0), Stamp(0)));
    let servers = &mut batch.servers;
    set(servers, server, |one, value| one.server = value)?;
    let outcome = text(next()?, all)?.named("servers.outcome", Outcome::from_name)?;
    set(servers, outcome, |one, value| one.outcome = value)?;
    set(servers, whole(next()?, all)?, |one, value| one.sent = Stamp(value))?;
    set(servers, whole(next()?, all)?, |one, value| one.answered = Stamp(value))?;
    // Version 1 has no lane.
    if let Ok(lane) = next() {
        set(servers, whole(lane, all)?.narrow("servers.lane")?, |one, value| one.lane = value)?;
    }
    Ok(true)
}

/// The first version with the column `key`.
const KEYED: u32 = 3;

/// Values of one column for one batch, and to which rows they belong where they are elements of a
/// list.
struct Values<T> {
    values: Vec<T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl<T> Values<T> {
    /// The same values as something else, or the first that cannot be.
    fn each<U>(self, with: impl Fn(T) -> Result<U, FileProblem>) -> Result<Values<U>, FileProblem> {
        let values = self.values.into_iter().map(with).collect::<Result<_, _>>()?;
        Ok(Values { values, definition: self.definition, repetition: self.repetition })
    }

    /// Where each row's elements end.
    fn ends(&self, rows: usize) -> Result<Vec<usize>, FileProblem> {
        let mut ends = Vec::with_capacity(rows);
        let mut end = 0;
        for (place, (&definition, &repetition)) in self.definition.iter().zip(&self.repetition).enumerate() {
            if repetition == 0 && place > 0 {
                ends.push(end);
            }
            end += usize::from(definition == 1);
        }
        ends.push(end);
        if ends.len() == rows && end == self.values.len() { Ok(ends) } else { Err(FileProblem::Damaged) }
    }

    /// Gives a value to each row that has one; others stay as they are.
    fn where_there<R>(self, rows: &mut [R], set: impl Fn(&mut R, T)) -> Result<(), FileProblem> {
        let mut values = self.values.into_iter();
        if rows.len() != self.definition.len() {
            return Err(FileProblem::Damaged);
        }
        for (row, _) in rows.iter_mut().zip(&self.definition).filter(|(_, definition)| **definition == 1) {
            set(row, values.next().ok_or(FileProblem::Damaged)?);
        }
        if values.next().is_none() { Ok(()) } else { Err(FileProblem::Damaged) }
    }
}

impl Values<u64> {
    /// As the smaller numbers that the column holds.
    fn narrow<T: TryFrom<u64>>(self, column: &'static str) -> Result<Values<T>, FileProblem> {
        self.each(|value| {
            let found = || FileProblem::Value { column, found: value.cast_signed().to_string() };
            T::try_from(value).map_err(|_| found())
        })
    }
}

impl Values<ByteArray> {
    /// As what the names stand for.
    fn named<T>(
        self,
        column: &'static str,
        from: impl Fn(&str) -> Option<T>,
    ) -> Result<Values<T>, FileProblem> {
        self.each(|name| {
            let value = std::str::from_utf8(name.data()).ok().and_then(&from);
            value.ok_or_else(|| FileProblem::Value {
                column,
                found: String::from_utf8_lossy(name.data()).into_owned(),
            })
        })
    }
}

/// Gives each row its value; there must be as many of the ones as of the others.
fn set<R, T>(rows: &mut [R], values: Values<T>, set: impl Fn(&mut R, T)) -> Result<(), FileProblem> {
    if rows.len() != values.values.len() {
        return Err(FileProblem::Damaged);
    }
    rows.iter_mut().zip(values.values).for_each(|(row, value)| set(row, value));
    Ok(())
}

/// The values of the next rows. `rows` is how many there must be; `None` where this column tells.
fn values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: Option<usize>,
) -> Result<Values<T::T>, FileProblem> {
    let mut read = Values { values: Vec::new(), definition: Vec::new(), repetition: Vec::new() };
    let (records, _, _) = reader.read_records(
        rows.unwrap_or(READ_ROWS),
        Some(&mut read.definition),
        Some(&mut read.repetition),
        &mut read.values,
    )?;
    if rows.is_some_and(|rows| rows != records) {
        return Err(FileProblem::Damaged);
    }
    Ok(read)
}

/// Whole numbers, as they are in files since version 3, or were before.
fn whole(column: &mut ColumnReader, rows: Option<usize>) -> Result<Values<u64>, FileProblem> {
    match column {
        ColumnReader::Int64ColumnReader(reader) => {
            values(reader, rows)?.each(|value| Ok(value.cast_unsigned()))
        }
        ColumnReader::Int32ColumnReader(reader) => {
            values(reader, rows)?.each(|value| Ok(u64::from(value.cast_unsigned())))
        }
        _ => Err(FileProblem::Damaged),
    }
}

fn flags(column: &mut ColumnReader, rows: Option<usize>) -> Result<Values<bool>, FileProblem> {
    let ColumnReader::BoolColumnReader(reader) = column else { return Err(FileProblem::Damaged) };
    values(reader, rows)
}

fn text(column: &mut ColumnReader, rows: Option<usize>) -> Result<Values<ByteArray>, FileProblem> {
    let ColumnReader::ByteArrayColumnReader(reader) = column else { return Err(FileProblem::Damaged) };
    values(reader, rows)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use proptest::prelude::*;

    use super::super::{RowFileWriter, RowSettings};
    use super::*;
    use crate::visit::tests::{any_visit, near_visit};

    const RUN: RunMetadata = RunMetadata { epoch_unix: Nanos(1_795_000_000_123_456_789) };

    type Visits = Vec<(Visit, Vec<ServerVisit>)>;

    fn written(visits: &[(Visit, Vec<ServerVisit>)]) -> Vec<u8> {
        let settings = RowSettings { keys: true, instance: "one".to_owned(), ..RowSettings::from(RUN) };
        let mut sink = RowFileWriter::new(vec![], settings).unwrap();
        visits.iter().for_each(|(visit, servers)| sink.push(visit, servers).unwrap());
        sink.lost(3);
        let (bytes, rows) = sink.finish().unwrap();
        assert_eq!(rows, visits.len() as u64);
        bytes
    }

    fn read(bytes: Vec<u8>) -> Result<Visits, FileProblem> {
        let mut visits = Vec::new();
        RowFile::from_bytes(bytes)?.for_each(|visit, servers| visits.push((*visit, servers.to_vec())))?;
        Ok(visits)
    }

    fn replied_at(nanos: u64, servers: usize) -> (Visit, Vec<ServerVisit>) {
        let mut visit = Visit::at(Stamp(nanos), Operation::Set);
        visit.bytes_out = nanos;
        (
            visit,
            (0..servers as u16).map(|server| ServerVisit::ok(server, Stamp(nanos), Stamp(nanos))).collect(),
        )
    }

    #[test]
    fn row_groups_are_bounded_and_read_back_in_order() {
        let visits: Visits = (0..70_000).map(|nanos| replied_at(nanos, (nanos % 3) as usize)).collect();
        let mut sink = RowFileWriter::new(vec![], RUN).unwrap();
        let (pushed, batched) = visits.split_at(66_000);
        pushed.iter().for_each(|(visit, servers)| sink.push(visit, servers).unwrap());
        let mut batch = RowBatch::new(10_000);
        assert!(batched.iter().all(|(visit, servers)| batch.push(visit, servers)));
        sink.write(&batch).unwrap();
        let (bytes, rows) = sink.finish().unwrap();
        assert_eq!(rows, 70_000);
        let reader = RowFile::from_bytes(bytes.clone()).unwrap();
        let groups: Vec<_> =
            reader.reader.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect();
        assert_eq!(groups, [65_536, 464, 4_000]);
        assert_eq!((reader.run(), reader.lost()), (RUN, 0));
        assert_eq!(reader.span(), Some((Stamp(0), Stamp(69_999))));
        assert!(read(bytes).unwrap() == visits);
        assert_eq!(RowFile::from_bytes(written(&[])).unwrap().span(), None);
    }

    #[test]
    fn a_batch_is_bounded_in_rows_and_in_servers() {
        let mut batch = RowBatch::new(2);
        let (visit, servers) = replied_at(1, 6);
        assert!(batch.push(&visit, &servers));
        assert!(!batch.push(&visit, &servers), "12 servers in a batch for 8");
        assert!(batch.push(&visit, &[]));
        assert!(!batch.push(&visit, &[]), "3 rows in a batch for 2");
        batch.clear();
        let (visit, servers) = replied_at(1, 9);
        assert!(batch.push(&visit, &servers), "an empty batch takes any row");
        assert_eq!(batch.iter().next().unwrap(), (&visit, &servers[..]));
    }

    /// What the last build with version 1 of the tables wrote.
    #[test]
    fn a_file_of_the_first_version_is_read_without_lanes() {
        let file = include_bytes!("../../../tests/data/rows-1.parquet");
        let expected = RowFile::from_bytes(file.to_vec()).unwrap();
        assert_eq!((expected.run(), expected.lost()), (RUN, 3));
        let visits = read(file.to_vec()).unwrap();
        let parts: Vec<_> = visits.iter().map(|(_, servers)| servers.len()).collect();
        assert_eq!(parts, [0, 1, 2, 3]);
        let (visit, servers) = &visits[3];
        assert_eq!((visit.received, visit.replied, visit.bytes_in), (Stamp(3_000), Stamp(3_900), 103));
        let last =
            ServerVisit { outcome: Outcome::Timeout, ..ServerVisit::ok(2, Stamp(3_020), Stamp(3_502)) };
        assert_eq!(servers[2], last);
    }

    /// What the last build with version 2 of the tables wrote: numbers without a sign, and neither
    /// keys nor instances.
    #[test]
    fn a_file_of_the_second_version_is_read_without_keys() {
        let file = include_bytes!("../../../tests/data/rows-2.parquet");
        let mut expected = Vec::new();
        let flat = include_bytes!("../../../tests/data/rows-2.csv");
        super::super::flat::read(&flat[..], |visit, servers| expected.push((*visit, servers.to_vec())))
            .unwrap();
        assert_eq!(read(file.to_vec()).unwrap(), expected);
        let file = RowFile::from_bytes(file.to_vec()).unwrap();
        assert_eq!((file.lost(), file.instance(), file.sample()), (0, "", None));
        let ended = expected.iter().map(|(visit, _)| visit.replied).max().unwrap();
        assert_eq!(file.span(), Some((Stamp(0), ended)));
        assert!(expected.iter().any(|(_, servers)| servers.len() == 2));
    }

    #[test]
    fn a_file_says_who_wrote_it_and_of_which_keys() {
        let settings = RowSettings {
            sample: super::super::KeySample::one_of(8),
            of_clients: true,
            instance: "10.0.0.1:11211".to_owned(),
            ..RowSettings::from(RUN)
        };
        let (bytes, _) = RowFileWriter::new(vec![], settings).unwrap().finish().unwrap();
        let file = RowFile::from_bytes(bytes).unwrap();
        assert_eq!(
            (file.instance(), file.sample(), file.of_clients()),
            ("10.0.0.1:11211", Some("1/8"), true)
        );
    }

    #[test]
    fn keys_are_in_the_file_where_they_are_to_be_kept() {
        let (mut visit, servers) = replied_at(7, 1);
        visit.key = KeyDigest::of(b"user:1");
        assert_eq!(read(written(&[(visit, servers.clone())])).unwrap()[0].0.key, visit.key);
        let mut sink = RowFileWriter::new(vec![], RUN).unwrap();
        sink.push(&visit, &servers).unwrap();
        assert_eq!(read(sink.finish().unwrap().0).unwrap()[0].0.key, KeyDigest::NONE);
    }

    #[test]
    fn row_groups_can_be_read_apart() {
        let mut sink = RowFileWriter::new(vec![], RUN).unwrap();
        for first in [0, 10, 20] {
            let mut batch = RowBatch::new(10);
            (first..first + 10).for_each(|nanos| assert!(batch.push(&replied_at(nanos, 1).0, &[])));
            sink.write(&batch).unwrap();
        }
        let (bytes, _) = sink.finish().unwrap();
        let of = |groups| {
            let mut replies = Vec::new();
            let file = RowFile::from_bytes(bytes.clone()).unwrap();
            assert_eq!((file.groups(), file.rows()), (3, 30));
            file.only(groups).for_each(|visit, _| replies.push(visit.replied.0)).unwrap();
            replies
        };
        assert_eq!(of(1..2), (10..20).collect::<Vec<_>>());
        assert_eq!([of(0..1), of(1..9)].concat(), (0..30).collect::<Vec<_>>());
        assert_eq!(of(3..3), []);
    }

    #[test]
    fn a_file_without_rows_is_a_file() {
        assert_eq!(read(written(&[])).unwrap(), []);
        assert_eq!(RowFile::from_bytes(written(&[])).unwrap().lost(), 3);
    }

    /// So many bytes have room.
    struct DiskRoom(usize);

    impl Write for DiskRoom {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_without_room_for_all_rows_is_no_damaged_file() {
        let (whole, _) = RowFileWriter::new(Vec::<u8>::new(), RUN).unwrap().finish().unwrap();
        // The last bytes of a file are written apart.
        for room in [0, whole.len() - 1] {
            let rows = RowFileWriter::new(DiskRoom(room), RUN).unwrap();
            let why = rows.finish().map(drop).unwrap_err().to_string();
            assert_eq!(why, io::Error::from(io::ErrorKind::StorageFull).to_string(), "{room}");
        }
    }

    #[test]
    fn what_is_no_file_of_rows_is_distinguished() {
        let problem = |bytes: &[u8]| read(bytes.to_vec()).unwrap_err();
        assert!(matches!(problem(b"PAR1 not at all"), FileProblem::Rows(_)));
        let bytes = written(&[replied_at(1, 1)]);
        let replace = |find: &str, with: &str| {
            assert_eq!(find.len(), with.len());
            let mut bytes = bytes.clone();
            let places: Vec<_> = (0..bytes.len() - find.len())
                .filter(|&at| &bytes[at..at + find.len()] == find.as_bytes())
                .collect();
            assert!(!places.is_empty());
            places.iter().for_each(|&at| bytes[at..at + find.len()].copy_from_slice(with.as_bytes()));
            problem(&bytes).to_string()
        };
        assert!(replace("krarup.schema_version", "krarup.schema_versiox").contains("which version"));
        assert!(
            replace("krarup.schema_version\u{18}\u{1}3", "krarup.schema_version\u{18}\u{1}4")
                .contains("version 4")
        );
        assert!(
            replace("krarup.epoch_unix_ns", "krarup.epoch_unix_nx").contains("`krarup.epoch_unix_ns` holds")
        );
        assert!(replace("worker_was_idle", "worker_was_lazy").contains("worker_was_lazy"));
        let missing = RowFile::open(Path::new("no/such.parquet")).err().unwrap().to_string();
        assert!(missing.starts_with("no/such.parquet: there is no such file"), "{missing}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_written_is_read(
            visits in prop::collection::vec(prop_oneof![any_visit().boxed(), near_visit().boxed()], 0..20),
        ) {
            prop_assert_eq!(read(written(&visits)).unwrap(), visits);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(bytes);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn no_damage_makes_the_reader_panic(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = written(&[replied_at(1, 2), replied_at(2, 0), replied_at(9, 1)]);
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let _ = read(bytes);
        }
    }
}
