//! A table of lines: the header is the schema's, the values are the line's.

use std::io::{Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::FileProblem;
use crate::schema::TableSchema;

/// Writes the header of `table` and then the lines, which have its columns in its order.
pub(super) fn write<L: Serialize>(
    out: impl Write,
    table: &TableSchema,
    lines: impl IntoIterator<Item = L>,
) -> Result<(), FileProblem> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    writer.write_record(table.columns.iter().map(|column| column.name))?;
    for line in lines {
        writer.serialize(line)?;
    }
    writer.flush()?;
    Ok(())
}

/// Reads the lines. Columns are found by name, so a file may have them in another order, and more
/// of them.
pub(super) fn read<L: DeserializeOwned>(input: impl Read) -> Result<Vec<L>, FileProblem> {
    let mut reader = csv::Reader::from_reader(input);
    Ok(reader.deserialize().collect::<Result<_, _>>()?)
}

/// A mean or quantile of nanoseconds, in microseconds: `None` stays an empty field.
pub(super) fn micros(seconds: Option<f64>) -> Option<f64> {
    seconds.map(|seconds| seconds * 1e6)
}

/// Asserts that the columns of a line are those of its table: the one thing that serde and the
/// schema both say.
#[cfg(test)]
pub(super) fn assert_columns(table: &TableSchema, line: impl Serialize) {
    let mut writer = csv::Writer::from_writer(vec![]);
    writer.serialize(line).unwrap();
    let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
    let columns: Vec<_> = table.columns.iter().map(|column| column.name).collect();
    assert_eq!(text.lines().next().unwrap().split(',').collect::<Vec<_>>(), columns);
}
