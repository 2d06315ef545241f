//! The answers to meta commands: a code of two letters, perhaps a length, flags; after `VA` a
//! value.

use memchr::memchr;

use super::reply::{CutLine, ReplyClass, Response, complete, cut_line, error, more};
use crate::request::MetaCommand;
use crate::{Parsed, number};

/// Reads the answer to `command`; a value only where one was asked for.
pub(super) fn parse(bytes: &[u8], command: MetaCommand, value: bool) -> Parsed<Response<'_>, &'static str> {
    let (text, end) = match cut_line(bytes, 0) {
        CutLine::Whole { text, end } => (text, end),
        CutLine::Part => return more(bytes),
        CutLine::TooLong => return Parsed::Invalid("the answer's line has no end"),
    };
    let (code, rest) = text.split_at(memchr(b' ', text).unwrap_or(text.len()));
    let Some(class) = class(code, command) else {
        return match error(text) {
            Some(class) => complete(bytes, class, 0, end),
            None => Parsed::Invalid("the answer is not of the kind that was asked for"),
        };
    };
    if class != ReplyClass::MetaValue {
        return complete(bytes, class, 0, end);
    }
    if !value {
        return Parsed::Invalid("a value that was not asked for");
    }
    let length = rest.split(|&byte| byte == b' ').nth(1).and_then(number::unsigned_32);
    let Some(length) = length else { return Parsed::Invalid("a value without its length") };
    let data_end = end + length as usize;
    if bytes.len() < data_end + 2 {
        return Parsed::Incomplete { needed: data_end + 2 };
    }
    if &bytes[data_end..data_end + 2] != b"\r\n" {
        return Parsed::Invalid("a value is not as long as announced");
    }
    complete(bytes, class, 0, data_end + 2)
}

fn class(code: &[u8], command: MetaCommand) -> Option<ReplyClass> {
    use MetaCommand::{Arithmetic, Debug, Delete, Get, Set};
    Some(match (code, command) {
        (b"HD", Get | Set | Delete | Arithmetic) => ReplyClass::MetaDone,
        (b"VA", Get | Arithmetic) => ReplyClass::MetaValue,
        (b"EN", Get | Debug) => ReplyClass::MetaMiss,
        (b"NF", Set | Delete | Arithmetic) => ReplyClass::NotFound,
        (b"NS", Set | Delete | Arithmetic) => ReplyClass::NotStored,
        (b"EX", Set | Delete | Arithmetic) => ReplyClass::Exists,
        (b"ME", Debug) => ReplyClass::MetaDebug,
        _ => return None,
    })
}

/// Whether a quiet request of this command is not told this: what is as usual, a miss of `mg` and
/// success of the others; and that the server of an `mg` failed, because clients take any line but
/// a hit's among the answers to many for their end, and what follows for the answers to what they
/// ask next. Everything else is always told.
///
/// memcached answers a quiet request only where there is something to tell. Requests to servers are
/// never written quiet, so that each has its answer and none can be taken for another's; who passes
/// the answers on leaves out these.
pub const fn suppressed(command: MetaCommand, class: ReplyClass) -> bool {
    match command {
        MetaCommand::Get => matches!(class, ReplyClass::MetaMiss | ReplyClass::ServerError),
        MetaCommand::Set | MetaCommand::Delete => matches!(class, ReplyClass::MetaDone),
        MetaCommand::Arithmetic => matches!(class, ReplyClass::MetaDone | ReplyClass::MetaValue),
        MetaCommand::Debug => false,
    }
}

impl<'a> Response<'a> {
    /// The value of a meta answer that has one, without its line and its end.
    pub fn meta_value(&self) -> Option<&'a [u8]> {
        if self.class != ReplyClass::MetaValue {
            return None;
        }
        let start = memchr(b'\n', self.bytes)? + 1;
        self.bytes.get(start..self.bytes.len().checked_sub(2)?)
    }

    /// The flags of a meta answer: each one's letter, and the word that follows it.
    pub fn meta_flags(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let before = match self.class {
            ReplyClass::MetaValue => 2,
            ReplyClass::MetaDone
            | ReplyClass::MetaMiss
            | ReplyClass::NotFound
            | ReplyClass::NotStored
            | ReplyClass::Exists => 1,
            _ => usize::MAX,
        };
        let words = self.line().split(|&byte| byte == b' ').skip(before);
        words.filter_map(|word| word.split_first()).map(|(&letter, token)| (letter, token))
    }
}

#[cfg(test)]
mod tests;
