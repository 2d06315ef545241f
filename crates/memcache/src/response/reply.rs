//! What a server may answer, and the pieces it is made of.

use crate::{Parsed, find, number};

/// The kinds of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyClass {
    /// Values and their end.
    Values,
    /// `STORED`
    Stored,
    /// `NOT_STORED`
    NotStored,
    /// `EXISTS`
    Exists,
    /// `NOT_FOUND`
    NotFound,
    /// `DELETED`
    Deleted,
    /// `TOUCHED`
    Touched,
    /// The new number after `incr` or `decr`.
    Number,
    /// `OK`, or `MN` to a meta no-op.
    Ok,
    /// `VERSION …`
    Version,
    /// Statistics and their end.
    Stats,
    /// `HD …`: a meta command found, or did, what it should.
    MetaDone,
    /// `VA …`: likewise, with a value.
    MetaValue,
    /// `EN …`: `mg` and `me` found nothing.
    MetaMiss,
    /// `ME …`: what a server knows of an item.
    MetaDebug,
    /// `ERROR`: the server does not know the command.
    Error,
    /// `CLIENT_ERROR …`: the server found a mistake in the request.
    ClientError,
    /// `SERVER_ERROR …`: the server could not do it.
    ServerError,
}

impl ReplyClass {
    /// How far the answer is from what was wished: 0 it was done; 1 it was understood but there was
    /// nothing to do it to; 2 the request was at fault; 3 the server was. Where several servers
    /// answer one request, the largest speaks for all.
    pub const fn severity(self) -> u8 {
        match self {
            Self::Values
            | Self::Stored
            | Self::Deleted
            | Self::Touched
            | Self::Number
            | Self::Ok
            | Self::Version
            | Self::Stats
            | Self::MetaDone
            | Self::MetaValue
            | Self::MetaDebug => 0,
            Self::NotStored | Self::Exists | Self::NotFound | Self::MetaMiss => 1,
            Self::Error | Self::ClientError => 2,
            Self::ServerError => 3,
        }
    }

    /// `ERROR`, `CLIENT_ERROR` and `SERVER_ERROR`.
    pub const fn is_error(self) -> bool {
        self.severity() >= 2
    }
}

/// One whole answer, borrowed from the bytes that carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// What kind it is.
    pub class: ReplyClass,
    /// Values in it; 0 for all other kinds.
    pub hits: u32,
    /// All its bytes, the last line end included.
    pub bytes: &'a [u8],
}

/// Longer lines than this are no memcached's: a key of 250 bytes, three numbers, or an error text.
pub(super) const LONGEST_LINE: usize = 2_048;
/// One line at the front of bytes, as far as it is there.
pub(super) enum CutLine<'a> {
    Whole { text: &'a [u8], end: usize },
    Part,
    TooLong,
}

pub(super) fn cut_line(bytes: &[u8], start: usize) -> CutLine<'_> {
    cut_line_within(bytes, start, LONGEST_LINE)
}

pub(super) fn cut_line_within(bytes: &[u8], start: usize, longest: usize) -> CutLine<'_> {
    let rest = &bytes[start..];
    let within = &rest[..rest.len().min(longest)];
    match find::first(b'\n', within) {
        Some(newline) => {
            let text = &within[..newline];
            CutLine::Whole { text: text.strip_suffix(b"\r").unwrap_or(text), end: start + newline + 1 }
        }
        None if rest.len() < longest => CutLine::Part,
        None => CutLine::TooLong,
    }
}

pub(super) fn complete(
    bytes: &[u8],
    class: ReplyClass,
    hits: u32,
    end: usize,
) -> Parsed<Response<'_>, &'static str> {
    Parsed::Complete { message: Response { class, hits, bytes: &bytes[..end] }, used: end }
}

pub(super) fn more<T>(bytes: &[u8]) -> Parsed<T, &'static str> {
    Parsed::Incomplete { needed: bytes.len() + 1 }
}

/// The errors that may answer anything.
pub(super) fn error(line: &[u8]) -> Option<ReplyClass> {
    if line.starts_with(b"SERVER_ERROR") {
        Some(ReplyClass::ServerError)
    } else if line.starts_with(b"CLIENT_ERROR") {
        Some(ReplyClass::ClientError)
    } else if line == b"ERROR" || line.starts_with(b"ERROR ") || line.starts_with(b"ERROR: ") {
        Some(ReplyClass::Error)
    } else {
        None
    }
}

/// The line before a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) key: &'a [u8],
    flags: u32,
    pub(super) length: usize,
    pub(super) unique: Option<u64>,
}

impl<'a> Header<'a> {
    /// The header at the front of `bytes` and the length of its line, where it is as every
    /// memcached writes it: nothing is looked at twice. The key's length may be known. None says
    /// nothing: [`Header::of`] knows.
    #[inline]
    pub(super) fn usual(bytes: &'a [u8], key: Option<usize>) -> Option<(Self, usize)> {
        let line = bytes.strip_prefix(b"VALUE ")?;
        let key = match key {
            Some(length) => length,
            None => find::word(line)?,
        };
        let (flags, at) = match line.get(key + 1..key + 3) {
            Some(b"0 ") => (0, key + 2),
            _ => number::digits(line, key + 1)?,
        };
        if line.get(at) != Some(&b' ') {
            return None;
        }
        let (length, mut at) = number::digits(line, at + 1)?;
        let mut unique = None;
        if line.get(at) == Some(&b' ') {
            let (number, end) = number::digits(line, at + 1)?;
            (unique, at) = (Some(number), end);
        }
        let whole = key > 0 && at < LONGEST_LINE / 2 && line.get(at..at + 2) == Some(b"\r\n");
        let (flags, length) = (u32::try_from(flags).ok()?, u32::try_from(length).ok()? as usize);
        whole.then(|| (Self { key: &line[..key], flags, length, unique }, b"VALUE ".len() + at + 2))
    }

    pub(super) fn of(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_prefix(b"VALUE ")?;
        let (key, rest) = line.split_at(find::first(b' ', line)?);
        let (flags, rest) = number::blank_and_digits(rest)?;
        let (length, rest) = number::blank_and_digits(rest)?;
        let (unique, rest) = match rest {
            [] => (None, rest),
            _ => number::blank_and_digits(rest).map(|(unique, rest)| (Some(unique), rest))?,
        };
        let (flags, length) = (u32::try_from(flags).ok()?, u32::try_from(length).ok()? as usize);
        (!key.is_empty() && rest.is_empty()).then_some(Self { key, flags, length, unique })
    }
}

/// One value of a retrieval's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The client's own 32 bits.
    pub flags: u32,
    /// The cas unique, where it was asked for.
    pub unique: Option<u64>,
    /// The value.
    pub data: &'a [u8],
    /// Header line, value and line end: what to send on.
    pub block: &'a [u8],
}

/// The values of a whole answer, one after the other.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Response<'a> {
    /// The values in it; none for other kinds.
    pub fn values(&self) -> Values<'a> {
        Values { rest: if self.class == ReplyClass::Values { self.bytes } else { &[] } }
    }

    /// The values' blocks in one piece, without the end line: what can be strung together.
    pub fn blocks(&self) -> &'a [u8] {
        match self.class {
            ReplyClass::Values => {
                let body = &self.bytes[..self.bytes.len() - 1];
                &self.bytes[..body.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1)]
            }
            _ => &[],
        }
    }

    /// The number `incr` or `decr` left behind.
    pub fn number(&self) -> Option<u64> {
        (self.class == ReplyClass::Number).then(|| number::unsigned(self.bytes.trim_ascii_end())).flatten()
    }

    /// The one line of an answer that has one, without its end; of others, their first.
    pub fn line(&self) -> &'a [u8] {
        let end = find::first(b'\n', self.bytes).unwrap_or(self.bytes.len());
        let line = &self.bytes[..end];
        line.strip_suffix(b"\r").unwrap_or(line)
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let (header, end) = match Header::usual(self.rest, None) {
            Some(usual) => usual,
            None => {
                let CutLine::Whole { text, end } = cut_line(self.rest, 0) else { return None };
                (Header::of(text)?, end)
            }
        };
        let data = self.rest.get(end..end + header.length)?;
        let (block, rest) = self.rest.split_at_checked(end + header.length + 2)?;
        self.rest = rest;
        Some(Value { key: header.key, flags: header.flags, unique: header.unique, data, block })
    }
}
