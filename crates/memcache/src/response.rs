//! What a server may answer, and how it is read from its bytes.

use crate::{Parsed, number};

mod expect;
mod meta;
mod reply;

pub use expect::Expect;
pub use meta::suppressed;
pub use reply::{ReplyClass, Response, Value, Values};

use reply::{CutLine, Header, complete, cut_line, cut_line_within, error, more};

/// Reads one answer from the front of `bytes`.
///
/// Invalid: no answer that `expect` allows begins like this; the text says what was wrong.
pub fn parse(bytes: &[u8], expect: Expect) -> Parsed<Response<'_>, &'static str> {
    parse_on(bytes, expect, ValuesRead::default())
}

/// The same where less of `bytes` has been read before, with that result.
pub fn parse_on(bytes: &[u8], expect: Expect, mut read: ValuesRead) -> Parsed<Response<'_>, &'static str> {
    parse_asked(bytes, expect, &mut Anything, &mut read)
}

/// How far an answer to a retrieval has been read that is not whole: its values up to there are not
/// read again when more of it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValuesRead {
    bytes: usize,
    hits: u32,
    /// Where among what was asked for the next value's key is to be looked for.
    pub place: usize,
}

/// What values may be about.
pub trait RequestedKeys {
    /// Whether the next value may be that of `key`. It hears each in the order of the answer, up to
    /// the first that may not.
    fn is_next(&mut self, key: &[u8]) -> bool;

    /// The length of the key that `line` begins with, where that is the very next one that was
    /// asked for, and a blank stands behind it: then it has been heard. None says nothing.
    #[inline]
    fn begins(&mut self, _line: &[u8]) -> Option<usize> {
        None
    }

    /// Where it has come to among what was asked for.
    #[inline]
    fn place(&self) -> usize {
        0
    }
}

/// The lines `STAT name value` of an answer to `stats` (memcached's protocol.txt, "Statistics").
pub fn statistics(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '))
}

/// Values of any keys are read: which were asked for is looked at when an answer is whole.
#[derive(Debug)]
pub struct Anything;

impl RequestedKeys for Anything {
    fn is_next(&mut self, _key: &[u8]) -> bool {
        true
    }
}

/// The same, where a value's key must be one that was asked for. Answers that are one off are often
/// of the same kind, and only this tells them apart. Where the answer is not whole, `read` says how
/// far it was read; with it, and `asked` at its place, reading goes on there.
#[inline]
pub fn parse_asked<'a>(
    bytes: &'a [u8],
    expect: Expect,
    asked: &mut impl RequestedKeys,
    read: &mut ValuesRead,
) -> Parsed<Response<'a>, &'static str> {
    match expect {
        Expect::Values { keys, unique } => values(bytes, keys, unique, asked, read),
        Expect::Stats => stats(bytes),
        Expect::Meta { command, value } => meta::parse(bytes, command, value),
        _ => match cut_line(bytes, 0) {
            CutLine::Whole { text, end } => match single(text, expect) {
                Some(class) => complete(bytes, class, 0, end),
                None => Parsed::Invalid("the answer is not of the kind that was asked for"),
            },
            CutLine::Part => more(bytes),
            CutLine::TooLong => Parsed::Invalid("the answer's line has no end"),
        },
    }
}

/// Names and values of statistics may be longer (socket lists, settings).
const LONGEST_STAT: usize = 1 << 16;

fn single(line: &[u8], expect: Expect) -> Option<ReplyClass> {
    let class = match (line, expect) {
        (b"STORED", Expect::Stored) => ReplyClass::Stored,
        (b"NOT_STORED", Expect::Stored) => ReplyClass::NotStored,
        (b"EXISTS", Expect::Stored) => ReplyClass::Exists,
        (b"NOT_FOUND", Expect::Stored | Expect::Deleted | Expect::Number | Expect::Touched) => {
            ReplyClass::NotFound
        }
        (b"DELETED", Expect::Deleted) => ReplyClass::Deleted,
        (b"TOUCHED", Expect::Touched) => ReplyClass::Touched,
        (b"OK", Expect::Ok) | (b"MN", Expect::NoOp) => ReplyClass::Ok,
        // memcached pads a shrinking number with blanks up to its old length.
        (_, Expect::Number) if number::unsigned(line.trim_ascii_end()).is_some() => ReplyClass::Number,
        (_, Expect::Version) if line.starts_with(b"VERSION ") => ReplyClass::Version,
        _ => return error(line),
    };
    Some(class)
}

fn values<'a>(
    bytes: &'a [u8],
    keys: u32,
    unique: bool,
    asked: &mut impl RequestedKeys,
    read: &mut ValuesRead,
) -> Parsed<Response<'a>, &'static str> {
    let ValuesRead { bytes: mut at, mut hits, .. } = *read;
    loop {
        let begun = ValuesRead { bytes: at, hits, place: asked.place() };
        let rest = &bytes[at..];
        if rest.starts_with(b"END\r\n") {
            return complete(bytes, ReplyClass::Values, hits, at + 5);
        }
        let known = rest.strip_prefix(b"VALUE ").and_then(|line| asked.begins(line));
        let (header, end) = match Header::usual(rest, known) {
            Some((header, length)) => (header, at + length),
            None => match cut_line(bytes, at) {
                CutLine::Whole { text: b"END", end } => {
                    return complete(bytes, ReplyClass::Values, hits, end);
                }
                CutLine::Whole { text, end } => match (Header::of(text), error(text)) {
                    (Some(header), _) => (header, end),
                    (None, Some(class)) => return failed(bytes, class, at, end),
                    (None, None) => {
                        return Parsed::Invalid("the answer is neither values nor their end");
                    }
                },
                CutLine::Part => {
                    *read = begun;
                    return more(bytes);
                }
                CutLine::TooLong => return Parsed::Invalid("the answer's line has no end"),
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
            *read = begun;
            return Parsed::Incomplete { needed: data_end + 2 };
        }
        if &bytes[data_end..data_end + 2] != b"\r\n" {
            return Parsed::Invalid("a value is not as long as announced");
        }
        at = data_end + 2;
    }
}

/// An error in the line from `start` to `end`, which takes the place of what came before it.
fn failed(bytes: &[u8], class: ReplyClass, start: usize, end: usize) -> Parsed<Response<'_>, &'static str> {
    Parsed::Complete { message: Response { class, hits: 0, bytes: &bytes[start..end] }, used: end }
}

fn stats(bytes: &[u8]) -> Parsed<Response<'_>, &'static str> {
    let mut at = 0;
    loop {
        let (text, end) = match cut_line_within(bytes, at, LONGEST_STAT) {
            CutLine::Whole { text, end } => (text, end),
            CutLine::Part => return more(bytes),
            CutLine::TooLong => return Parsed::Invalid("the answer's line has no end"),
        };
        match text {
            b"END" => return complete(bytes, ReplyClass::Stats, 0, end),
            b"OK" | b"RESET" if at == 0 => return complete(bytes, ReplyClass::Ok, 0, end),
            _ if text.starts_with(b"STAT ") => at = end,
            _ => {
                return match error(text) {
                    Some(class) => failed(bytes, class, at, end),
                    None => Parsed::Invalid("the answer is neither statistics nor their end"),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::reply::LONGEST_LINE;
    use super::*;
    use crate::MetaCommand;

    fn read(text: &str, expect: Expect) -> Parsed<Response<'_>, &'static str> {
        parse(text.as_bytes(), expect)
    }

    fn class(text: &str, expect: Expect) -> Option<ReplyClass> {
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
            ("STORED\r\n", Expect::Stored, ReplyClass::Stored),
            ("NOT_STORED\r\n", Expect::Stored, ReplyClass::NotStored),
            ("EXISTS\r\n", Expect::Stored, ReplyClass::Exists),
            ("NOT_FOUND\r\n", Expect::Stored, ReplyClass::NotFound),
            ("NOT_FOUND\r\n", Expect::Number, ReplyClass::NotFound),
            ("DELETED\r\n", Expect::Deleted, ReplyClass::Deleted),
            ("TOUCHED\r\n", Expect::Touched, ReplyClass::Touched),
            ("9 \r\n", Expect::Number, ReplyClass::Number),
            ("OK\r\n", Expect::Ok, ReplyClass::Ok),
            ("VERSION 1.6.18\r\n", Expect::Version, ReplyClass::Version),
            ("STAT pid 1\r\nSTAT uptime 2\r\nEND\r\n", Expect::Stats, ReplyClass::Stats),
            ("RESET\r\n", Expect::Stats, ReplyClass::Ok),
            ("END\r\n", GET, ReplyClass::Values),
            ("ERROR\r\n", GET, ReplyClass::Error),
            ("ERROR Too many open connections\r\n", Expect::Stored, ReplyClass::Error),
            ("CLIENT_ERROR bad data chunk\r\n", Expect::Stored, ReplyClass::ClientError),
            ("SERVER_ERROR out of memory storing object\r\n", Expect::Deleted, ReplyClass::ServerError),
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
    fn an_error_takes_the_place_of_what_came_before_it() {
        let error = "SERVER_ERROR m\r\n";
        for (before, expect) in [("VALUE a 0 1\r\nx\r\n", GET), ("STAT pid 1\r\n", Expect::Stats)] {
            let text = format!("{before}{error}");
            for cut in 0..text.len() {
                assert!(matches!(read(&text[..cut], expect), Parsed::Incomplete { .. }), "{cut}: {text:?}");
            }
            let Parsed::Complete { message, used } = read(&text, expect) else { panic!("whole") };
            assert_eq!((message.bytes, used), (error.as_bytes(), text.len()));
            assert_eq!((message.class, message.hits), (ReplyClass::ServerError, 0));
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

    struct Heard(usize);

    impl RequestedKeys for Heard {
        fn is_next(&mut self, _key: &[u8]) -> bool {
            self.0 += 1;
            true
        }
    }

    #[test]
    fn a_value_is_read_once_in_however_many_pieces_the_answer_comes() {
        let mut bytes = Vec::new();
        for _ in 0..1_000 {
            crate::write::value(&mut bytes, b"key", 7, None, b"data");
        }
        bytes.extend_from_slice(b"END\r\n");
        let expect = Expect::Values { keys: 1_000, unique: false };
        let (mut heard, mut read) = (Heard(0), ValuesRead::default());
        let pieces = 100;
        for piece in 1..pieces {
            let come = &bytes[..bytes.len() * piece / pieces];
            let parsed = parse_asked(come, expect, &mut heard, &mut read);
            assert!(matches!(parsed, Parsed::Incomplete { .. }));
        }
        let Parsed::Complete { message, .. } = parse_asked(&bytes, expect, &mut heard, &mut read) else {
            panic!("whole")
        };
        assert_eq!((message.hits, message.bytes), (1_000, &bytes[..]));
        assert!(heard.0 <= 1_000 + pieces, "{} values read", heard.0);
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
                CutLine::Whole { text, end } => Header::of(text).map(|header| (header, end)),
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
