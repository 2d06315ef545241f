//! What is wrong with a file, and what places its stamps in the world.

use std::fmt;
use std::io;

use krarup_units::Nanos;

/// What stands in the metadata of files whose stamps are to be placed in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunMetadata {
    /// The wall clock at stamp zero, since 1970-01-01 UTC.
    pub epoch_unix: Nanos,
}

/// What is wrong with a file's content, or kept it from being written.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileProblem {
    /// The operating system said no.
    Io(io::Error),
    /// A line of a table is not what its columns say.
    Table(csv::Error),
    /// A line of a histogram log is not what it should be.
    Log {
        /// Its number, from one.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The file is no sound Parquet file.
    Rows(parquet::errors::ParquetError),
    /// The file has other columns, or columns of another type.
    Schema(String),
    /// The file was written with tables of another version.
    Version {
        /// The file's version, as it stands there.
        found: String,
    },
    /// A column holds what it must not.
    Value {
        /// The column.
        column: &'static str,
        /// What it holds.
        found: String,
    },
    /// The file is damaged in a way that its format's library does not expect.
    Damaged,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
            Self::Log { line, why } => write!(f, "line {line}: {why}"),
            Self::Rows(error) => error.fmt(f),
            Self::Schema(why) => write!(f, "not the columns of rows: {why}"),
            Self::Version { found } => write!(
                f,
                "written with version {found} of the tables, this program reads version {}",
                crate::schema::VERSION
            ),
            Self::Value { column, found } => write!(f, "column `{column}` holds `{found}`"),
            Self::Damaged => write!(f, "the file is damaged"),
        }
    }
}

impl std::error::Error for FileProblem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Table(error) => Some(error),
            Self::Rows(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<csv::Error> for FileProblem {
    fn from(error: csv::Error) -> Self {
        Self::Table(error)
    }
}

impl From<parquet::errors::ParquetError> for FileProblem {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Rows(error)
    }
}
