//! What a server may answer, and how it is read from its bytes.

use crate::request::MetaCommand;
use crate::{Parsed, find, number};

mod meta;

pub use meta::suppressed;

/// What kind of answer a request is owed. An answer of another kind means that requests and answers
/// are out of step: the connection is worth nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expect {
    /// `VALUE …` as often as there are hits, at most `keys` times, then `END`.
    Values {
        /// How many keys were asked for.
        keys: u32,
        /// Whether each value must carry its cas unique.
        unique: bool,
    },
    /// `STORED NOT_STORED EXISTS NOT_FOUND`
    Stored,
    /// `DELETED NOT_FOUND`
    Deleted,
    /// A number, or `NOT_FOUND`.
    Number,
    /// `TOUCHED NOT_FOUND`
    Touched,
    /// `OK`
    Ok,
    /// `VERSION …`
    Version,
    /// `MN`
    NoOp,
    /// `STAT …` as often as there are statistics, then `END`; or `RESET` or `OK`.
    Stats,
    /// What the meta command is answered with: `HD VA EN NF NS EX ME`.
    Meta {
        /// The command.
        command: MetaCommand,
        /// Whether a value was asked for.
        value: bool,
    },
}

impl Expect {
    /// Whether whoever gave this answer to a well-formed request has read all of it. A server that finds fault with a
    /// storage request may go on to take its value for commands, and answer those. (That it does not know a flag of a meta
    /// set is no such fault: every memcached goes past the value then.)
    pub fn read_whole(self, reply: &Reply<'_>) -> bool {
        let fault = matches!(reply.class, Class::Error | Class::ClientError);
        match self {
            Self::Stored => !fault,
            Self::Meta { command: MetaCommand::Set, .. } => {
                !fault || reply.line() == b"CLIENT_ERROR invalid flag"
            }
            _ => true,
        }
    }
}

/// The kinds of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
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

impl Class {
    /// How far the answer is from what was wished: 0 it was done; 1 it was understood but there was
    /// nothing to do it to; 2 the request was at fault; 3 the server was. Where several servers answer one
    /// request, the largest speaks for all.
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
pub struct Reply<'a> {
    /// What kind it is.
    pub class: Class,
    /// Values in it; 0 for all other kinds.
    pub hits: u32,
    /// All its bytes, the last line end included.
    pub bytes: &'a [u8],
}

/// Reads one answer from the front of `bytes`.
///
/// Invalid: no answer that `expect` allows begins like this; the text says what was wrong.
pub fn parse(bytes: &[u8], expect: Expect) -> Parsed<Reply<'_>, &'static str> {
    parse_asked(bytes, expect, &mut Anything)
}

/// What values may be about.
pub trait Asked {
    /// Whether the next value may be that of `key`. It hears each in the order of the answer, up to the first that may not.
    fn is_next(&mut self, key: &[u8]) -> bool;

    /// The length of the key that `line` begins with, where that is the very next one that was asked for, and a blank stands behind it: then
    /// it has been heard. None says nothing.
    #[inline]
    fn begins(&mut self, _line: &[u8]) -> Option<usize> {
        None
    }
}

struct Anything;

impl Asked for Anything {
    fn is_next(&mut self, _key: &[u8]) -> bool {
        true
    }
}

/// The same, where a value's key must be one that was asked for. Answers that are one off are often of the same kind, and only this tells
/// them apart.
#[inline]
pub fn parse_asked<'a>(
    bytes: &'a [u8],
    expect: Expect,
    asked: &mut impl Asked,
) -> Parsed<Reply<'a>, &'static str> {
    match expect {
        Expect::Values { keys, unique } => values(bytes, keys, unique, asked),
        Expect::Stats => stats(bytes),
        Expect::Meta { command, value } => meta::parse(bytes, command, value),
        _ => match cut_line(bytes, 0) {
            Line::Whole { text, end } => match single(text, expect) {
                Some(class) => complete(bytes, class, 0, end),
                None => Parsed::Invalid("the answer is not of the kind that was asked for"),
            },
            Line::Part => more(bytes),
            Line::TooLong => Parsed::Invalid("the answer's line has no end"),
        },
    }
}

/// Longer lines than this are no memcached's: a key of 250 bytes, three numbers, or an error text.
const LONGEST_LINE: usize = 2_048;
/// Names and values of statistics may be longer (socket lists, settings).
const LONGEST_STAT: usize = 1 << 16;

enum Line<'a> {
    Whole { text: &'a [u8], end: usize },
    Part,
    TooLong,
}

fn cut_line(bytes: &[u8], start: usize) -> Line<'_> {
    cut_line_within(bytes, start, LONGEST_LINE)
}

fn cut_line_within(bytes: &[u8], start: usize, longest: usize) -> Line<'_> {
    let rest = &bytes[start..];
    let within = &rest[..rest.len().min(longest)];
    match find::first(b'\n', within) {
        Some(newline) => {
            let text = &within[..newline];
            Line::Whole { text: text.strip_suffix(b"\r").unwrap_or(text), end: start + newline + 1 }
        }
        None if rest.len() < longest => Line::Part,
        None => Line::TooLong,
    }
}

fn complete(bytes: &[u8], class: Class, hits: u32, end: usize) -> Parsed<Reply<'_>, &'static str> {
    Parsed::Complete { message: Reply { class, hits, bytes: &bytes[..end] }, used: end }
}

fn more<T>(bytes: &[u8]) -> Parsed<T, &'static str> {
    Parsed::Incomplete { needed: bytes.len() + 1 }
}

/// The errors that may answer anything.
fn error(line: &[u8]) -> Option<Class> {
    if line.starts_with(b"SERVER_ERROR") {
        Some(Class::ServerError)
    } else if line.starts_with(b"CLIENT_ERROR") {
        Some(Class::ClientError)
    } else if line == b"ERROR" || line.starts_with(b"ERROR ") || line.starts_with(b"ERROR: ") {
        Some(Class::Error)
    } else {
        None
    }
}

fn single(line: &[u8], expect: Expect) -> Option<Class> {
    let class = match (line, expect) {
        (b"STORED", Expect::Stored) => Class::Stored,
        (b"NOT_STORED", Expect::Stored) => Class::NotStored,
        (b"EXISTS", Expect::Stored) => Class::Exists,
        (b"NOT_FOUND", Expect::Stored | Expect::Deleted | Expect::Number | Expect::Touched) => {
            Class::NotFound
        }
        (b"DELETED", Expect::Deleted) => Class::Deleted,
        (b"TOUCHED", Expect::Touched) => Class::Touched,
        (b"OK", Expect::Ok) | (b"MN", Expect::NoOp) => Class::Ok,
        // memcached pads a shrinking number with blanks up to its old length.
        (_, Expect::Number) if number::unsigned(line.trim_ascii_end()).is_some() => Class::Number,
        (_, Expect::Version) if line.starts_with(b"VERSION ") => Class::Version,
        _ => return error(line),
    };
    Some(class)
}

fn values<'a>(
    bytes: &'a [u8],
    keys: u32,
    unique: bool,
    asked: &mut impl Asked,
) -> Parsed<Reply<'a>, &'static str> {
    let mut at = 0;
    let mut hits = 0;
    loop {
        let rest = &bytes[at..];
        if rest.starts_with(b"END\r\n") {
            return complete(bytes, Class::Values, hits, at + 5);
        }
        let known = rest.strip_prefix(b"VALUE ").and_then(|line| asked.begins(line));
        let (header, end) = match Header::usual(rest, known) {
            Some((header, length)) => (header, at + length),
            None => match cut_line(bytes, at) {
                Line::Whole { text: b"END", end } => return complete(bytes, Class::Values, hits, end),
                Line::Whole { text, end } => match (Header::of(text), error(text)) {
                    (Some(header), _) => (header, end),
                    // An error in the middle of values takes their place.
                    (None, Some(class)) => return complete(bytes, class, 0, end),
                    (None, None) => {
                        return Parsed::Invalid("the answer is neither values nor their end");
                    }
                },
                Line::Part => return more(bytes),
                Line::TooLong => return Parsed::Invalid("the answer's line has no end"),
            },
        };
        if header.unique.is_some() != unique {
            return Parsed::Invalid("a value with, or without, the cas unique that was asked for");
        }
        hits += 1;
        if hits > keys {
            return Parsed::Invalid("more values than keys were asked for");
        }
        if known.is_none() && !asked.is_next(header.key) {
            return Parsed::Invalid("a value of a key that was not asked for");
        }
        let data_end = end + header.length;
        if bytes.len() < data_end + 2 {
            // At least this value's line end and the end of all must follow.
            return Parsed::Incomplete { needed: data_end + 2 };
        }
        if &bytes[data_end..data_end + 2] != b"\r\n" {
            return Parsed::Invalid("a value is not as long as announced");
        }
        at = data_end + 2;
    }
}

fn stats(bytes: &[u8]) -> Parsed<Reply<'_>, &'static str> {
    let mut at = 0;
    loop {
        let (text, end) = match cut_line_within(bytes, at, LONGEST_STAT) {
            Line::Whole { text, end } => (text, end),
            Line::Part => return more(bytes),
            Line::TooLong => return Parsed::Invalid("the answer's line has no end"),
        };
        match text {
            b"END" => return complete(bytes, Class::Stats, 0, end),
            b"OK" | b"RESET" if at == 0 => return complete(bytes, Class::Ok, 0, end),
            _ if text.starts_with(b"STAT ") => at = end,
            _ => {
                return match error(text) {
                    Some(class) => complete(bytes, class, 0, end),
                    None => Parsed::Invalid("the answer is neither statistics nor their end"),
                };
            }
        }
    }
}

/// The line before a value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header<'a> {
    key: &'a [u8],
    flags: u32,
    length: usize,
    unique: Option<u64>,
}

impl<'a> Header<'a> {
    /// The header at the front of `bytes` and the length of its line, where it is as every memcached writes it: nothing is
    /// looked at twice. The key's length may be known. None says nothing: [`Header::of`] knows.
    #[inline]
    fn usual(bytes: &'a [u8], key: Option<usize>) -> Option<(Self, usize)> {
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

    fn of(line: &'a [u8]) -> Option<Self> {
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

impl<'a> Reply<'a> {
    /// The values in it; none for other kinds.
    pub fn values(&self) -> Values<'a> {
        Values { rest: if self.class == Class::Values { self.bytes } else { &[] } }
    }

    /// The values' blocks in one piece, without the end line: what can be strung together.
    pub fn blocks(&self) -> &'a [u8] {
        match self.class {
            Class::Values => {
                let body = &self.bytes[..self.bytes.len() - 1];
                &self.bytes[..body.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1)]
            }
            _ => &[],
        }
    }

    /// The number `incr` or `decr` left behind.
    pub fn number(&self) -> Option<u64> {
        (self.class == Class::Number).then(|| number::unsigned(self.bytes.trim_ascii_end())).flatten()
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
                let Line::Whole { text, end } = cut_line(self.rest, 0) else { return None };
                (Header::of(text)?, end)
            }
        };
        let data = self.rest.get(end..end + header.length)?;
        let (block, rest) = self.rest.split_at_checked(end + header.length + 2)?;
        self.rest = rest;
        Some(Value { key: header.key, flags: header.flags, unique: header.unique, data, block })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, expect: Expect) -> Parsed<Reply<'_>, &'static str> {
        parse(text.as_bytes(), expect)
    }

    fn class(text: &str, expect: Expect) -> Option<Class> {
        match read(text, expect) {
            Parsed::Complete { message, used } => {
                assert_eq!(used, text.len());
                Some(message.class)
            }
            _ => None,
        }
    }

    const GET: Expect = Expect::Values { keys: 2, unique: false };

    #[test]
    fn each_answer_is_known_by_its_first_word() {
        for (text, expect, wanted) in [
            ("STORED\r\n", Expect::Stored, Class::Stored),
            ("NOT_STORED\r\n", Expect::Stored, Class::NotStored),
            ("EXISTS\r\n", Expect::Stored, Class::Exists),
            ("NOT_FOUND\r\n", Expect::Stored, Class::NotFound),
            ("NOT_FOUND\r\n", Expect::Number, Class::NotFound),
            ("DELETED\r\n", Expect::Deleted, Class::Deleted),
            ("TOUCHED\r\n", Expect::Touched, Class::Touched),
            ("9 \r\n", Expect::Number, Class::Number),
            ("OK\r\n", Expect::Ok, Class::Ok),
            ("VERSION 1.6.18\r\n", Expect::Version, Class::Version),
            ("STAT pid 1\r\nSTAT uptime 2\r\nEND\r\n", Expect::Stats, Class::Stats),
            ("RESET\r\n", Expect::Stats, Class::Ok),
            ("END\r\n", GET, Class::Values),
            ("ERROR\r\n", GET, Class::Error),
            ("ERROR Too many open connections\r\n", Expect::Stored, Class::Error),
            ("CLIENT_ERROR bad data chunk\r\n", Expect::Stored, Class::ClientError),
            ("SERVER_ERROR out of memory storing object\r\n", Expect::Deleted, Class::ServerError),
        ] {
            assert_eq!(class(text, expect), Some(wanted), "{text:?} for {expect:?}");
        }
    }

    #[test]
    fn an_answer_of_another_kind_is_refused() {
        for (text, expect) in [
            ("STORED\r\n", GET),
            ("END\r\n", Expect::Stored),
            ("DELETED\r\n", Expect::Touched),
            ("12\r\n", Expect::Stored),
            ("ERRORS\r\n", Expect::Stored),
            ("VALUE a 0 1\r\nxy\r\nEND\r\n", GET),
            ("VALUE a 0 1 7\r\nx\r\nEND\r\n", GET),
            ("VALUE a 0 1\r\nx\r\nEND\r\n", Expect::Values { keys: 1, unique: true }),
            ("VALUE a 0 -1\r\n\r\nEND\r\n", GET),
            ("VALUE a 0 0\r\n\r\nVALUE b 0 0\r\n\r\nVALUE c 0 0\r\n\r\nEND\r\n", GET),
            ("garbage\r\n", Expect::Stats),
        ] {
            assert!(matches!(read(text, expect), Parsed::Invalid(_)), "{text:?} for {expect:?}");
        }
    }

    #[test]
    fn a_fault_found_with_a_value_leaves_the_value_unread() {
        let set = Expect::Meta { command: MetaCommand::Set, value: false };
        let get = Expect::Meta { command: MetaCommand::Get, value: true };
        for (text, expect, whole) in [
            ("STORED\r\n", Expect::Stored, true),
            ("SERVER_ERROR out of memory storing object\r\n", Expect::Stored, true),
            ("CLIENT_ERROR bad data chunk\r\n", Expect::Stored, false),
            ("ERROR\r\n", Expect::Stored, false),
            ("HD\r\n", set, true),
            ("CLIENT_ERROR invalid flag\r\n", set, true),
            ("CLIENT_ERROR bad command line format\r\n", set, false),
            ("ERROR\r\n", set, false),
            ("CLIENT_ERROR bad token in command line format\r\n", get, true),
            ("ERROR\r\n", Expect::Deleted, true),
        ] {
            let Parsed::Complete { message, .. } = read(text, expect) else { panic!("whole") };
            assert_eq!(expect.read_whole(&message), whole, "{text:?} for {expect:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_at_the_bound() {
        let line = "x".repeat(LONGEST_LINE);
        assert!(matches!(read(&line, Expect::Stored), Parsed::Invalid(_)));
        assert!(matches!(read(&line[1..], Expect::Stored), Parsed::Incomplete { .. }));
    }

    #[test]
    fn values_come_with_key_flags_and_data() {
        let text = "VALUE a 5 2\r\n10\r\nVALUE b 0 5\r\nEND\r\n\r\nEND\r\n";
        let Parsed::Complete { message, .. } = read(text, GET) else { panic!("whole") };
        assert_eq!(message.hits, 2);
        let values: Vec<_> = message.values().map(|value| (value.key, value.flags, value.data)).collect();
        assert_eq!(values, [(&b"a"[..], 5, &b"10"[..]), (b"b", 0, b"END\r\n")]);
        assert_eq!(message.blocks(), &text.as_bytes()[..text.len() - 5]);
        let Parsed::Complete { message, .. } = read("END\r\n", GET) else { panic!("whole") };
        assert_eq!(message.blocks(), b"");
    }

    proptest! {
        /// Where the network cuts the bytes must not matter.
        #[test]
        fn every_cut_is_incomplete_until_the_last_byte(
            data in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..3),
            tail in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut bytes = Vec::new();
            for value in &data {
                crate::write::value(&mut bytes, b"key", 7, None, value);
            }
            bytes.extend_from_slice(b"END\r\n");
            let whole = bytes.len();
            bytes.extend_from_slice(&tail);
            let expect = Expect::Values { keys: 3, unique: false };
            for cut in 0..whole {
                match parse(&bytes[..cut], expect) {
                    Parsed::Incomplete { needed } => prop_assert!(needed > cut && needed <= whole),
                    other => prop_assert!(false, "cut at {cut}: {other:?}"),
                }
            }
            match parse(&bytes, expect) {
                Parsed::Complete { message, used } => {
                    prop_assert_eq!(used, whole);
                    let read: Vec<Vec<u8>> = message.values().map(|value| value.data.to_vec()).collect();
                    prop_assert_eq!(read, data);
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }

        /// What is read at one look is what the line by itself says.
        #[test]
        fn the_usual_header_is_no_other(
            words in proptest::collection::vec(
                prop_oneof![
                    Just("VALUE"), Just("key"), Just("0"), Just("64"), Just("007"), Just(""), Just("+1"), Just("-1"), Just("x"),
                    Just("4294967295"), Just("4294967296"), Just("9999999999999999999"), Just("18446744073709551615"), Just("\r"),
                    Just("\n"), Just("k\ney"),
                ],
                0..6,
            ),
            sound: bool,
            tail in prop_oneof![Just("\r\n"), Just("\n"), Just(" \r\n"), Just("\r"), Just("")],
        ) {
            let line = if sound { format!("VALUE key {}{tail}", words.join(" ")) } else { words.join(" ") + tail };
            let bytes = line.as_bytes();
            let slow = match cut_line(bytes, 0) {
                Line::Whole { text, end } => Header::of(text).map(|header| (header, end)),
                _ => None,
            };
            // The key that is expected is known by its blank; it may as well not be looked for.
            let expected = line.starts_with("VALUE key ").then_some("key".len());
            for known in [None, expected] {
                match Header::usual(bytes, known) {
                    Some(usual) => prop_assert_eq!(Some(usual), slow.clone()),
                    None => prop_assert!(!line.starts_with("VALUE key 0 64\r\n")),
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic_and_none_are_used_twice(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for expect in [GET, Expect::Stored, Expect::Number, Expect::Stats, Expect::Version, Expect::Ok] {
                match parse(&bytes, expect) {
                    Parsed::Complete { used, .. } => prop_assert!(used > 0 && used <= bytes.len()),
                    Parsed::Incomplete { needed } => prop_assert!(needed > bytes.len()),
                    Parsed::Invalid(_) => {}
                }
            }
        }
    }
}
