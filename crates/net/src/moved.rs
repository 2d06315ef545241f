//! What comes of one attempt to move bytes.

use std::io::{self, ErrorKind};

/// What came of one attempt to move bytes.
#[derive(Debug)]
pub enum Moved {
    /// This many bytes, at least one.
    Some(usize),
    /// None just now; readiness will tell when to try again.
    None,
    /// No more will ever come: the peer has said its last.
    Closed,
    /// The connection is broken.
    Failed(io::Error),
}

impl Moved {
    pub(crate) fn from(result: io::Result<usize>) -> Self {
        match result {
            Ok(0) => Self::Closed,
            Ok(count) => Self::Some(count),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Self::None
            }
            Err(error) => Self::Failed(error),
        }
    }
}
