//! One command line, cut from the front of what was received.

use super::command::{Refusal, Request};
use crate::Parsed;
use crate::find::words;

pub(super) type LineOutcome<'a> = Parsed<Request<'a>, Refusal<'a>>;

/// A command line, its words found, its line end put aside.
pub(super) struct CommandLine<'a> {
    /// The whole of what was received, from the front of the line.
    pub(super) bytes: &'a [u8],
    /// Bytes of the line, its end included.
    pub(super) used: usize,
    /// The line without its end.
    pub(super) text: &'a [u8],
    /// Whether there is a NUL in it.
    pub(super) nul: bool,
}

impl<'a> CommandLine<'a> {
    pub(super) fn complete(&self, message: Request<'a>) -> LineOutcome<'a> {
        Parsed::Complete { message, used: self.used }
    }

    /// Its bytes, the end included.
    pub(super) fn whole(&self) -> &'a [u8] {
        &self.bytes[..self.used]
    }

    /// Whether its words stand in it as a careful client writes them.
    pub(super) fn plain(&self) -> bool {
        self.is_plain_of(words(self.text).map(|word| word.len() + 1).sum())
    }

    /// The same, where its words, each with a blank, have this length: one blank after each but the
    /// last, then CR LF. A line feed alone would leave room for a blank before the first, which
    /// memcached 1.6.45 takes for an unknown command, and a value behind it for the next ones.
    pub(super) fn is_plain_of(&self, words_length: usize) -> bool {
        words_length + 1 == self.used && self.text.len() + 2 == self.used
    }

    pub(super) fn answer(&self, noreply: bool, reply: &'static [u8]) -> LineOutcome<'a> {
        Parsed::Invalid(Refusal::Answer { reply: if noreply { b"" } else { reply }, used: self.used })
    }
}
