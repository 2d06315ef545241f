//! What a client may ask, and how it is read from its bytes.

use crate::{Limits, Parsed};

mod command;
mod line;
mod meta;
mod meta_line;
mod text;
mod verb;

pub use command::*;
pub use meta::{LONGEST_NAME, Meta, MetaFlags, name_of};
pub use verb::{Arithmetic, MetaCommand, Retrieval, Storage};

/// Reads one request from the front of `bytes`.
///
/// Where memcached's own answer depends on how the network cut a bad line, the answer here is the
/// one for the bytes arriving together or, for endless lines, the one for them arriving apart; it
/// never depends on the cut.
pub fn parse<'a>(bytes: &'a [u8], limits: &Limits) -> Parsed<Request<'a>, Refusal<'a>> {
    text::parse(bytes, limits)
}

/// A request that was accepted and kept in its words: what it was, whatever bounds hold by now.
/// Nothing that was accepted can be refused here.
///
/// # Panics
/// Where `bytes` are not the words of one request that [`parse`] has found complete.
pub fn accepted(bytes: &[u8]) -> Request<'_> {
    // Written anew, a line that ended with a line feed alone is one byte longer.
    let limits = Limits { value: usize::MAX, line: usize::MAX, ..Limits::default() };
    match text::parse(bytes, &limits) {
        Parsed::Complete { message, .. } => message,
        other => unreachable!("only requests that were accepted are kept: {other:?}"),
    }
}
