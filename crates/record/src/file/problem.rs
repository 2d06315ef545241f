//! What is wrong with a file, and what places its stamps in the world.

use std::io;

use krarup_units::mistake::{system_words, without_number};
use krarup_units::{Mistake, Nanos};
use parquet::errors::ParquetError;

/// What stands in the metadata of files whose stamps are to be placed in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunMetadata {
    /// The wall clock at stamp zero, since 1970-01-01 UTC.
    pub epoch_unix: Nanos,
}

/// What is wrong with a file's content, or kept it from being written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// The operating system said no.
    #[error("{}", system_words(.0))]
    Io(#[from] io::Error),
    /// A line of a table is not what its columns say.
    #[error("{}", of_table(.0))]
    Table(#[from] csv::Error),
    /// A line of a histogram log is not what it should be.
    #[error("line {line}: {why}")]
    Log {
        /// Its number, from one.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The file is no sound Parquet file.
    #[error("{}", of_rows(.0))]
    Rows(#[from] ParquetError),
    /// The file has other columns, or columns of another type.
    #[error("not the columns of rows: {0}")]
    Schema(String),
    /// The file was written with tables of another version.
    #[error(
        "written with version {found} of the tables, this program reads versions {} to {}",
        crate::schema::OLDEST_VERSION,
        crate::schema::VERSION
    )]
    Version {
        /// The file's version, as it stands there.
        found: String,
    },
    /// A column holds what it must not.
    #[error("column `{column}` holds `{found}`")]
    Value {
        /// The column.
        column: &'static str,
        /// What it holds.
        found: String,
    },
    /// The file is damaged in a way that its format's library does not expect.
    #[error("the file is damaged")]
    Damaged,
}

/// What is wrong with a table of commas, in the words of a person that looks at it.
fn of_table(error: &csv::Error) -> String {
    let line = error.position().map_or_else(String::new, |place| format!("line {}: ", place.line()));
    match error.kind() {
        csv::ErrorKind::Io(error) => system_words(error),
        csv::ErrorKind::Utf8 { .. } => format!("{line}it is no text in UTF-8"),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{line}it has {len} columns, and the first line {expected_len}")
        }
        csv::ErrorKind::Deserialize { err, .. } => {
            format!("{line}{}", Mistake::of_reader(&err.kind().to_string()).what)
        }
        _ => format!("{line}it is no table with commas"),
    }
}

/// What is wrong with a Parquet file. The library's own text names parts of the format.
fn of_rows(error: &ParquetError) -> String {
    match error {
        ParquetError::External(cause) => match cause.downcast_ref::<io::Error>() {
            Some(error) => system_words(error),
            None => cause.to_string(),
        },
        ParquetError::General(what) if what.contains("Invalid Parquet file") => NO_PARQUET.to_owned(),
        ParquetError::General(what) if what.starts_with(UNWRITTEN) => {
            without_number(what[UNWRITTEN.len()..].trim_matches('"'))
        }
        ParquetError::EOF(_) | ParquetError::NeedMoreData(_) => NO_PARQUET.to_owned(),
        other => {
            let text = other.to_string();
            let what = text.split_once("rror: ").map_or(text.as_str(), |(_, what)| what);
            format!("the Parquet file is damaged, or of a kind that is not read ({what})")
        }
    }
}

const NO_PARQUET: &str = "it is no Parquet file, or its end is missing";
/// Before what the system said of the last bytes of a file that was written: a text, in quotes.
const UNWRITTEN: &str = "fail to get inner writer: ";
