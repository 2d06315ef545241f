//! `holds.csv`: hold times by busy workers and queue length. Columns: [`crate::schema::HOLDS`].

use std::io::{Read, Write};

use krarup_units::Nanos;
use serde::{Deserialize, Serialize};

use super::problem::FileProblem;
use super::table;
use crate::holds::{HIGHEST_LEVEL, Hold, HoldRow, Seen};
use crate::{Operation, schema};

/// Writes the rows of [`crate::Holds::rows`].
///
/// # Errors
/// As `out` says.
pub fn write(out: impl Write, rows: impl IntoIterator<Item = HoldRow>) -> Result<(), FileProblem> {
    table::write(out, &schema::HOLDS, rows.into_iter().map(Line::from))
}

/// Reads the rows.
///
/// # Errors
/// A missing column, a line that is not what its columns say, with its number, or a level above the
/// highest.
pub fn read(input: impl Read) -> Result<Vec<HoldRow>, FileProblem> {
    table::read::<Line>(input)?.into_iter().map(HoldRow::try_from).collect()
}

#[derive(Serialize, Deserialize)]
struct Line {
    operation: Operation,
    seen: Seen,
    level: u64,
    worker_was_idle: bool,
    count: u64,
    hold_time_ns: u64,
    hold_time_squares_ns2: u128,
    server_time_ns: u64,
    #[serde(skip_deserializing)]
    hold_time_mean_us: Option<f64>,
    #[serde(skip_deserializing)]
    hold_time_deviation_us: Option<f64>,
}

impl From<HoldRow> for Line {
    fn from(row: HoldRow) -> Self {
        Self {
            operation: row.operation,
            seen: row.seen,
            level: row.level as u64,
            worker_was_idle: row.worker_was_idle,
            count: row.hold.count,
            hold_time_ns: row.hold.hold.0,
            hold_time_squares_ns2: row.hold.hold_squares,
            server_time_ns: row.hold.server.0,
            hold_time_mean_us: table::micros(row.hold.mean()),
            hold_time_deviation_us: table::micros(row.hold.deviation()),
        }
    }
}

impl TryFrom<Line> for HoldRow {
    type Error = FileProblem;

    fn try_from(line: Line) -> Result<Self, FileProblem> {
        if line.level > HIGHEST_LEVEL as u64 {
            return Err(FileProblem::Value { column: "level", found: line.level.to_string() });
        }
        Ok(Self {
            operation: line.operation,
            seen: line.seen,
            level: line.level as usize,
            worker_was_idle: line.worker_was_idle,
            hold: Hold {
                count: line.count,
                hold: Nanos(line.hold_time_ns),
                hold_squares: line.hold_time_squares_ns2,
                server: Nanos(line.server_time_ns),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Holds;
    use crate::visit::tests::any_visit;

    fn holds(visits: &[(crate::Visit, Vec<crate::ServerVisit>)]) -> Vec<HoldRow> {
        let mut holds = Holds::new();
        visits.iter().for_each(|(visit, servers)| holds.record(visit, &visit.parts(servers)));
        holds.rows().collect()
    }

    #[test]
    fn the_header_is_the_schema() {
        let hold = Hold::default();
        let row = HoldRow {
            operation: Operation::Get,
            seen: Seen::QueueLength,
            level: 0,
            worker_was_idle: true,
            hold,
        };
        table::assert_columns(&schema::HOLDS, Line::from(row));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_written_is_read(visits in prop::collection::vec(any_visit(), 0..8)) {
            let rows = holds(&visits);
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
