//! What is wrong with a file, and what places its stamps in the world.

use std::io;

use krarup_units::Nanos;

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
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line of a table is not what its columns say.
    #[error("{0}")]
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
    #[error("{0}")]
    Rows(#[from] parquet::errors::ParquetError),
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
