//! Why bytes are no request, and how many of them go by.

use crate::word::ReplyWord;

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// The line is not as its verb wants it.
    BadFormat,
    /// No such verb.
    UnknownCommand,
    /// A body without an end of line behind it.
    ExpectedCrlf,
    /// A body beyond the limit.
    JobTooBig,
}

impl LineError {
    /// The protocol's answer.
    pub const fn word(self) -> ReplyWord {
        match self {
            Self::BadFormat => ReplyWord::BadFormat,
            Self::UnknownCommand => ReplyWord::UnknownCommand,
            Self::ExpectedCrlf => ReplyWord::ExpectedCrlf,
            Self::JobTooBig => ReplyWord::JobTooBig,
        }
    }
}

/// Bytes that are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidRequest {
    /// `discard` bytes, of which not all need be there yet, go by before it is answered.
    Discard {
        /// Why.
        why: LineError,
        /// Counted from the front.
        discard: u64,
    },
    /// No end in sight: everything up to the next end of line goes by, and is answered as a line
    /// that is wrong.
    Endless,
}
