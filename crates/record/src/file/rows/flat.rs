//! Rows as CSV, for tools that know no Parquet: the columns of [`crate::schema::ROWS`] but `key`,
//! `time` and `instance`, the servers' parts in one of them.
//!
//! The column `servers` holds `server:outcome:sent:answered:lane` for each server, parted by
//! spaces:
//! `0:ok:1200:3400:0 2:timeout:1200:9000:1`. Without a lane, as version 1 wrote it, this is 0.

use std::io::{Read, Write};

use krarup_units::Stamp;
use serde::de::DeserializeOwned;

use crate::file::FileProblem;
use crate::schema::ROWS;
use crate::{Outcome, ServerVisit, Visit};

/// Columns that a simulation, whose visits are written so, has nothing to say of.
const LEFT_OUT: [&str; 3] = ["key", "time", "instance"];

/// Every column of a row but these and the servers' parts.
fn columns() -> impl Iterator<Item = &'static str> {
    let names = ROWS.columns.iter().map(|column| column.name);
    names.filter(|name| !name.starts_with("servers.") && !LEFT_OUT.contains(name))
}

/// Writes rows as lines, as they come.
pub struct FlatRows<W: Write> {
    writer: csv::Writer<W>,
    rows: u64,
}

impl<W: Write> FlatRows<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// As `out` says.
    pub fn new(out: W) -> Result<Self, FileProblem> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(columns().chain(["servers"]))?;
        Ok(Self { writer, rows: 0 })
    }

    /// Adds one row.
    ///
    /// # Errors
    /// As the file says.
    pub fn push(&mut self, visit: &Visit, servers: &[ServerVisit]) -> Result<(), FileProblem> {
        let part = |one: &ServerVisit| {
            format!("{}:{}:{}:{}:{}", one.server, one.outcome.name(), one.sent.0, one.answered.0, one.lane)
        };
        let servers: Vec<String> = servers.iter().map(part).collect();
        let stamps = [visit.received, visit.queued, visit.taken, visit.replied].map(|stamp| stamp.0);
        let seen = (visit.busy_workers, visit.queue_length, visit.worker_was_idle);
        let carried = (visit.keys, visit.hits, visit.misses, visit.bytes_in, visit.bytes_out);
        let names = (visit.station, visit.operation, visit.outcome);
        self.writer.serialize((names, stamps, seen, carried, servers.join(" ")))?;
        self.rows += 1;
        Ok(())
    }

    /// Writes what is left, and gives back what it was written to, with the number of rows.
    ///
    /// # Errors
    /// As the file says.
    pub fn finish(self) -> Result<(W, u64), FileProblem> {
        let out = self.writer.into_inner().map_err(|error| FileProblem::Io(error.into_error()))?;
        Ok((out, self.rows))
    }
}

/// Reads what [`FlatRows`] wrote, row by row. Columns are found by name, so a file may have them in
/// another order, and more of them.
///
/// # Errors
/// A missing column, or one that holds what it must not.
pub fn read(input: impl Read, mut each: impl FnMut(&Visit, &[ServerVisit])) -> Result<(), FileProblem> {
    let mut reader = csv::Reader::from_reader(input);
    let head = reader.headers()?.clone();
    let place = |name: &str| {
        let found = head.iter().position(|head| head == name);
        found.ok_or_else(|| FileProblem::Schema(format!("there is no column `{name}`")))
    };
    let places = columns().chain(["servers"]).map(place).collect::<Result<Vec<_>, _>>()?;
    for record in reader.records() {
        let record = record?;
        let cells = Cells { record: &record, places: &places };
        let mut visit = Visit::at(Stamp(cells.get(3)?), cells.get(1)?);
        (visit.station, visit.outcome) = (cells.get(0)?, cells.get(2)?);
        [visit.queued, visit.taken, visit.replied] =
            [Stamp(cells.get(4)?), Stamp(cells.get(5)?), Stamp(cells.get(6)?)];
        (visit.busy_workers, visit.queue_length) = (cells.get(7)?, cells.get(8)?);
        visit.worker_was_idle = cells.get(9)?;
        (visit.keys, visit.hits, visit.misses) = (cells.get(10)?, cells.get(11)?, cells.get(12)?);
        (visit.bytes_in, visit.bytes_out) = (cells.get(13)?, cells.get(14)?);
        let servers = cells.text(15).split_whitespace().map(server).collect::<Result<Vec<_>, _>>()?;
        each(&visit, &servers);
    }
    Ok(())
}

/// A line and where each column stands in it.
struct Cells<'a> {
    record: &'a csv::StringRecord,
    places: &'a [usize],
}

impl Cells<'_> {
    fn text(&self, column: usize) -> &str {
        self.record.get(self.places[column]).unwrap_or("")
    }

    fn get<T: DeserializeOwned>(&self, column: usize) -> Result<T, FileProblem> {
        let text = self.text(column);
        let wrong = || FileProblem::Value {
            column: columns().nth(column).expect("the column is one of the table"),
            found: text.to_owned(),
        };
        let cell = csv::StringRecord::from(vec![text]);
        cell.deserialize::<(T,)>(None).map(|(value,)| value).map_err(|_| wrong())
    }
}

fn server(text: &str) -> Result<ServerVisit, FileProblem> {
    let wrong = || FileProblem::Value { column: "servers", found: text.to_owned() };
    let mut parts = text.split(':');
    let mut next = || parts.next().ok_or_else(wrong);
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let server = next()?.parse().map_err(|_| wrong())?;
    let outcome = Outcome::from_name(next()?).ok_or_else(wrong)?;
    let (sent, answered) = (Stamp(number(next()?)?), Stamp(number(next()?)?));
    let lane = parts.next().map_or(Ok(0), |lane| lane.parse().map_err(|_| wrong()))?;
    Ok(ServerVisit { server, lane, outcome, sent, answered })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::KeyDigest;
    use crate::visit::tests::any_visit;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_written_is_read(mut rows in prop::collection::vec(any_visit(), 0..8)) {
            rows.iter_mut().for_each(|(visit, _)| visit.key = KeyDigest::NONE);
            let mut sink = FlatRows::new(Vec::new()).unwrap();
            for (visit, servers) in &rows {
                sink.push(visit, servers).unwrap();
            }
            let (text, written) = sink.finish().unwrap();
            prop_assert_eq!(written, rows.len() as u64);
            let mut back = Vec::new();
            read(&text[..], |visit, servers| back.push((*visit, servers.to_vec()))).unwrap();
            prop_assert_eq!(back, rows);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes[..], |_, _| {});
        }
    }

    /// What the last build with version 1 of the tables wrote, as CSV and as Parquet.
    #[test]
    fn rows_of_the_first_version_are_read_without_lanes() {
        let (mut text, mut binary) = (Vec::new(), Vec::new());
        let flat = include_bytes!("../../../tests/data/rows-1.csv");
        read(&flat[..], |visit, servers| text.push((*visit, servers.to_vec()))).unwrap();
        let rows = include_bytes!("../../../tests/data/rows-1.parquet");
        let mut rows = crate::file::rows::RowFile::from_bytes(rows.to_vec()).unwrap();
        rows.for_each(|visit, servers| binary.push((*visit, servers.to_vec()))).unwrap();
        assert_eq!(text.len(), 4);
        assert_eq!(text, binary);
    }

    #[test]
    fn a_cell_that_is_wrong_is_named() {
        let mut sink = FlatRows::new(Vec::new()).unwrap();
        sink.push(&Visit::at(Stamp(7), crate::Operation::Get), &[]).unwrap();
        let text = String::from_utf8(sink.finish().unwrap().0).unwrap();
        let broken = text.replace("get,ok", "get,fine");
        let error = read(broken.as_bytes(), |_, _| {}).unwrap_err();
        assert_eq!(error.to_string(), "column `outcome` holds `fine`");
        for wrong in ["0:ok:1:2:x", "0:ok:1", "0:ok:1:2:70000"] {
            let broken = text.trim_end().to_owned() + wrong;
            let error = read(broken.as_bytes(), |_, _| {}).unwrap_err();
            assert_eq!(error.to_string(), format!("column `servers` holds `{wrong}`"));
        }
    }
}
