//! `windows.csv`: tallies second by second. Columns: [`crate::schema::WINDOWS`].

use std::io::{Read, Write};

use krarup_units::{Nanos, Stamp};
use serde::{Deserialize, Serialize};

use super::problem::FileProblem;
use super::table;
use crate::{Operation, VisitTally, WindowRow, schema};

/// Writes the rows of [`crate::Windows::rows`].
///
/// # Errors
/// As `out` says.
pub fn write(out: impl Write, rows: impl IntoIterator<Item = WindowRow>) -> Result<(), FileProblem> {
    table::write(out, &schema::WINDOWS, rows.into_iter().map(|row| Line::from(&row)))
}

/// Reads the rows. The columns that are computed from others are not looked at.
///
/// # Errors
/// A missing column, or a line that is not what its columns say, with its number.
pub fn read(input: impl Read) -> Result<Vec<WindowRow>, FileProblem> {
    Ok(table::read::<Line>(input)?.into_iter().map(WindowRow::from).collect())
}

#[derive(Serialize, Deserialize)]
struct Line {
    start_ns: u64,
    length_ns: u64,
    folded: bool,
    operation: Operation,
    count: u64,
    errors: u64,
    keys: u64,
    hits: u64,
    misses: u64,
    bytes_in: u64,
    bytes_out: u64,
    queue_time_ns: u64,
    server_time_ns: u64,
    own_time_ns: u64,
    response_time_ns: u64,
    response_min_ns: Option<u64>,
    response_max_ns: u64,
    taken: u64,
    queue_length_sum: u64,
    queue_length_max: u64,
    busy_workers_sum: u64,
    #[serde(skip_deserializing)]
    throughput: f64,
    #[serde(skip_deserializing)]
    queue_time_mean_us: Option<f64>,
    #[serde(skip_deserializing)]
    server_time_mean_us: Option<f64>,
    #[serde(skip_deserializing)]
    own_time_mean_us: Option<f64>,
    #[serde(skip_deserializing)]
    response_time_mean_us: Option<f64>,
    #[serde(skip_deserializing)]
    queue_length_seen_mean: Option<f64>,
    #[serde(skip_deserializing)]
    queue_length_mean: f64,
}

impl From<&WindowRow> for Line {
    fn from(row: &WindowRow) -> Self {
        let tally = &row.tally;
        let mean = |sum| table::micros(tally.mean(sum));
        Self {
            start_ns: row.start.0,
            length_ns: row.length.0,
            folded: row.folded,
            operation: row.operation,
            count: tally.count,
            errors: tally.errors,
            keys: tally.keys,
            hits: tally.hits,
            misses: tally.misses,
            bytes_in: tally.bytes_in,
            bytes_out: tally.bytes_out,
            queue_time_ns: tally.queue_time.0,
            server_time_ns: tally.server_time.0,
            own_time_ns: tally.own_time.0,
            response_time_ns: tally.response_time.0,
            response_min_ns: (tally.count > 0).then_some(tally.response_min.0),
            response_max_ns: tally.response_max.0,
            taken: tally.taken,
            queue_length_sum: tally.queue_length,
            queue_length_max: tally.queue_length_max,
            busy_workers_sum: tally.busy_workers,
            throughput: tally.throughput(row.length).0,
            queue_time_mean_us: mean(tally.queue_time),
            server_time_mean_us: mean(tally.server_time),
            own_time_mean_us: mean(tally.own_time),
            response_time_mean_us: mean(tally.response_time),
            queue_length_seen_mean: tally.mean_queue_length_seen(),
            queue_length_mean: tally.mean_queue_length(row.length),
        }
    }
}

impl From<Line> for WindowRow {
    fn from(line: Line) -> Self {
        Self {
            start: Stamp(line.start_ns),
            length: Nanos(line.length_ns),
            folded: line.folded,
            operation: line.operation,
            tally: VisitTally {
                count: line.count,
                errors: line.errors,
                keys: line.keys,
                hits: line.hits,
                misses: line.misses,
                bytes_in: line.bytes_in,
                bytes_out: line.bytes_out,
                queue_time: Nanos(line.queue_time_ns),
                server_time: Nanos(line.server_time_ns),
                own_time: Nanos(line.own_time_ns),
                response_time: Nanos(line.response_time_ns),
                response_min: Nanos(line.response_min_ns.unwrap_or(VisitTally::EMPTY.response_min.0)),
                response_max: Nanos(line.response_max_ns),
                taken: line.taken,
                queue_length: line.queue_length_sum,
                queue_length_max: line.queue_length_max,
                busy_workers: line.busy_workers_sum,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::visit::tests::any_visit;
    use crate::{Visit, Windows};

    fn rows(visits: &[Visit]) -> Vec<WindowRow> {
        let mut windows = Windows::new(Nanos::from_secs(1), 4).unwrap();
        visits.iter().for_each(|visit| windows.record(visit, &[]));
        windows.rows().collect()
    }

    #[test]
    fn the_header_is_the_schema() {
        let row = rows(&[Visit::at(Stamp(0), Operation::Get)])[0];
        table::assert_columns(&schema::WINDOWS, Line::from(&row));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let mut text = vec![];
        write(&mut text, rows(&[Visit::at(Stamp(0), Operation::Get)])).unwrap();
        let text = String::from_utf8(text).unwrap().replace("get", "fetch");
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("`fetch` is not one of: get, "), "{error}");
        let error = read(&b"start_ns,length_ns\n1,2\n"[..]).unwrap_err().to_string();
        assert!(error.contains("`folded` is missing"), "{error}");
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(visits in prop::collection::vec(any_visit(), 0..8)) {
            let rows = rows(&visits.into_iter().map(|(visit, _)| visit).collect::<Vec<_>>());
            let mut text = vec![];
            write(&mut text, rows.clone()).unwrap();
            prop_assert_eq!(read(&text[..]).unwrap(), rows);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes[..]);
        }
    }
}
