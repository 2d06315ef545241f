//! Requests from bytes.
//!
//! ```text
//! verb word word …\r\n                 most requests are one line
//! put … <bytes>\r\n<body>\r\n          those that bring a message have its body behind it
//! ```

use krarup_units::Parsed;

use crate::argument::ArgumentWords;
use crate::message::{Ids, Put, PutBatch};
use crate::number::end_of_line;
use crate::refusal::{InvalidRequest, LineError};
use crate::table::{ParsedLine, Request, Verb};
use crate::verb::LineStart;

/// The longest line of beanstalkd's own verbs, its end included.
pub const LONGEST_LINE: usize = 224;
/// The longest line of the verbs that beanstalkd does not know, which may have several names in it.
pub const LONGEST_EXTRA_LINE: usize = 768;
/// The bodies of one `put-batch`, their ends of lines included, have so many bytes at most, or as
/// many as one message may have.
pub const LARGEST_BATCH: u64 = 4 << 20;

/// Reads one request from the front of `bytes`, whose bodies may have `largest` bytes each.
pub fn parse(bytes: &[u8], largest: u32) -> Parsed<Request<'_>, InvalidRequest> {
    let window = &bytes[..bytes.len().min(LONGEST_EXTRA_LINE)];
    let Some(length) = end_of_line(window) else {
        return if window.len() == LONGEST_EXTRA_LINE {
            Parsed::Invalid(InvalidRequest::Endless)
        } else {
            Parsed::Incomplete { needed: bytes.len() + 1 }
        };
    };
    let (line, begin) = (&bytes[..length], length + 2);
    let verb = Verb::of_line(line);
    let too_long = begin > LONGEST_LINE && !verb.is_some_and(|(verb, _)| verb.is_extra());
    if too_long || memchr::memchr(0, line).is_some() {
        return skip(LineError::BadFormat, begin as u64);
    }
    match verb.ok_or(LineError::UnknownCommand).and_then(|(verb, rest)| read(verb, rest)) {
        Err(why) => skip(why, begin as u64),
        Ok(ParsedLine::Whole(message)) => Parsed::Complete { message, used: begin },
        // A body beyond the limit is refused as such, whatever stands behind its size.
        Ok(ParsedLine::Body { size, .. }) if size > largest => {
            skip(LineError::JobTooBig, begin as u64 + u64::from(size) + 2)
        }
        Ok(ParsedLine::Body { garbage: true, .. }) => skip(LineError::BadFormat, begin as u64),
        Ok(ParsedLine::Body { put, size, .. }) => with_body(bytes, put, begin, size as usize),
        Ok(ParsedLine::Bodies { put, sizes }) => with_bodies(bytes, put, begin, sizes, largest),
    }
}

fn read(verb: Verb, rest: &[u8]) -> Result<ParsedLine<'_>, LineError> {
    if verb.begins() == LineStart::Tight && rest.first() == Some(&b' ') {
        return Err(LineError::BadFormat);
    }
    verb.read(&mut ArgumentWords(rest))
}

fn with_body<'a>(
    bytes: &'a [u8],
    put: Put<'a>,
    begin: usize,
    size: usize,
) -> Parsed<Request<'a>, InvalidRequest> {
    let end = begin + size;
    match bytes.get(end..end + 2) {
        None => Parsed::Incomplete { needed: end + 2 },
        Some(b"\r\n") => {
            let body = &bytes[begin..end];
            Parsed::Complete { message: Request::Put(Put { body, ..put }), used: end + 2 }
        }
        Some(_) => skip(LineError::ExpectedCrlf, end as u64 + 2),
    }
}

fn with_bodies<'a>(
    bytes: &'a [u8],
    put: Put<'a>,
    begin: usize,
    sizes: Ids<'a>,
    largest: u32,
) -> Parsed<Request<'a>, InvalidRequest> {
    let whole = sizes.iter().fold(0_u64, |sum, size| sum.saturating_add(size).saturating_add(2));
    if whole > LARGEST_BATCH.max(u64::from(largest) + 2) || sizes.iter().any(|size| size > largest.into()) {
        return skip(LineError::JobTooBig, (begin as u64).saturating_add(whole));
    }
    let used = begin + whole as usize;
    let Some(bodies) = bytes.get(begin..used) else { return Parsed::Incomplete { needed: used } };
    let mut end = 0;
    let well = sizes.iter().all(|size| {
        end += size as usize + 2;
        &bodies[end - 2..end] == b"\r\n"
    });
    if well {
        Parsed::Complete { message: Request::PutBatch(PutBatch::received(put, sizes, bodies)), used }
    } else {
        skip(LineError::ExpectedCrlf, used as u64)
    }
}

const fn skip<'a>(why: LineError, discard: u64) -> Parsed<Request<'a>, InvalidRequest> {
    Parsed::Invalid(InvalidRequest::Discard { why, discard })
}

#[cfg(test)]
mod tests;
