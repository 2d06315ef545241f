//! `histogram.csv`: the four times in buckets of 100 µs. Columns: [`crate::schema::HISTOGRAM`].

use std::io::{Read, Write};

use krarup_units::Nanos;
use serde::{Deserialize, Serialize};

use super::problem::FileProblem;
use super::table;
use crate::histogram::{BUCKET, Bucket};
use crate::{Histograms, Operation, Quantity, schema};

/// One bucket of one operation and quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketRow {
    /// What was asked for.
    pub operation: Operation,
    /// Which time.
    pub quantity: Quantity,
    /// The bucket; its edges are whole microseconds.
    pub bucket: Bucket,
}

/// The buckets of all histograms, in the order of the file.
pub fn rows(histograms: &Histograms) -> impl Iterator<Item = BucketRow> {
    histograms.iter().flat_map(|(operation, quantity, distribution)| {
        let buckets = distribution.buckets(BUCKET).into_iter();
        buckets.map(move |bucket| BucketRow { operation, quantity, bucket })
    })
}

/// Writes the buckets of all histograms.
///
/// # Errors
/// As `out` says.
pub fn write(out: impl Write, histograms: &Histograms) -> Result<(), FileProblem> {
    table::write(out, &schema::HISTOGRAM, rows(histograms).map(Line::from))
}

/// Reads the buckets.
///
/// # Errors
/// A missing column, a line that is not what its columns say, with its number, or an edge beyond
/// all time.
pub fn read(input: impl Read) -> Result<Vec<BucketRow>, FileProblem> {
    table::read::<Line>(input)?.into_iter().map(BucketRow::try_from).collect()
}

#[derive(Serialize, Deserialize)]
struct Line {
    operation: Operation,
    quantity: Quantity,
    from_us: u64,
    to_us: u64,
    count: u64,
    cumulative: f64,
}

impl From<BucketRow> for Line {
    fn from(row: BucketRow) -> Self {
        Self {
            operation: row.operation,
            quantity: row.quantity,
            from_us: row.bucket.from.0 / 1_000,
            to_us: row.bucket.to.0 / 1_000,
            count: row.bucket.count,
            cumulative: row.bucket.cumulative,
        }
    }
}

impl TryFrom<Line> for BucketRow {
    type Error = FileProblem;

    fn try_from(line: Line) -> Result<Self, FileProblem> {
        let edge = |column, micros: u64| match micros.checked_mul(1_000) {
            Some(nanos) => Ok(Nanos(nanos)),
            None => Err(FileProblem::Value { column, found: micros.to_string() }),
        };
        Ok(Self {
            operation: line.operation,
            quantity: line.quantity,
            bucket: Bucket {
                from: edge("from_us", line.from_us)?,
                to: edge("to_us", line.to_us)?,
                count: line.count,
                cumulative: line.cumulative,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::visit::tests::any_visit;

    #[test]
    fn the_header_is_the_schema() {
        let bucket = Bucket { from: Nanos(0), to: BUCKET, count: 1, cumulative: 1.0 };
        let row = BucketRow { operation: Operation::Get, quantity: Quantity::Own, bucket };
        table::assert_columns(&schema::HISTOGRAM, Line::from(row));
    }

    #[test]
    fn an_edge_beyond_all_time_is_named() {
        let text =
            "operation,quantity,from_us,to_us,count,cumulative\nget,own_time,0,18446744073709551615,1,1\n";
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "column `to_us` holds `18446744073709551615`");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_written_is_read(visits in prop::collection::vec(any_visit(), 0..8)) {
            let mut histograms = Histograms::new();
            for (visit, servers) in &visits {
                histograms.record(visit.operation, &visit.parts(servers));
            }
            let mut text = vec![];
            write(&mut text, &histograms).unwrap();
            prop_assert_eq!(read(&text[..]).unwrap(), rows(&histograms).collect::<Vec<_>>());
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes[..]);
        }
    }
}
