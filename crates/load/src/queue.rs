//! Message queues by beanstalkd's protocol, from the client's side: what is asked, and what the answers are.
//!
//! Every message goes through the tube `default`. A reserve does not wait (`reserve-with-timeout 0`), and the message that it brings is
//! deleted by the request after it, as a worker does when it is done. `pop` takes a message and deletes it in one request: krarup's broker
//! understands it, beanstalkd does not.

use krarup_memcache::{Class, Parsed};

/// What is asked of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Adds a message.
    Put,
    /// Takes a message for a while, if there is one.
    Reserve,
    /// Ends it.
    Delete,
    /// Takes a message for good, if there is one.
    Pop,
    /// Looks at the next message, if there is one.
    Peek,
    /// Asks for the names of all tubes.
    List,
}

/// Under this name messages are made and verified, as values are under their keys.
pub const NAME: &[u8] = b"message";

/// How long a reserved message is held, in seconds: longer than any client takes to delete it.
const TIME_TO_RUN: &[u8] = b"120";
/// The longest line of an answer.
const LONGEST_LINE: usize = 256;
/// The largest message that is taken, in bytes.
const LARGEST: usize = 1 << 30;

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// What it comes to, in the words of memcached's answers: a message is `Values`, none is `NotFound`.
    pub class: Class,
    /// The message that came, with its number.
    pub message: Option<(u64, &'a [u8])>,
}

/// Appends a put.
pub fn put(out: &mut Vec<u8>, body: &[u8]) {
    out.extend_from_slice(b"put 1024 0 ");
    out.extend_from_slice(TIME_TO_RUN);
    out.extend_from_slice(format!(" {}\r\n", body.len()).as_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// Appends any other request; `id` is the message's number where one is named.
pub fn ask(out: &mut Vec<u8>, verb: Verb, id: u64) {
    match verb {
        Verb::Put => put(out, b""),
        Verb::Reserve => out.extend_from_slice(b"reserve-with-timeout 0\r\n"),
        Verb::Delete => out.extend_from_slice(format!("delete {id}\r\n").as_bytes()),
        Verb::Pop => out.extend_from_slice(b"pop 0\r\n"),
        Verb::Peek => out.extend_from_slice(b"peek-ready\r\n"),
        Verb::List => out.extend_from_slice(b"list-tubes\r\n"),
    }
}

/// Reads the answer to `verb` at the front of `bytes`.
pub fn parse(bytes: &[u8], verb: Verb) -> Parsed<Said<'_>, &'static str> {
    let window = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if window.len() == LONGEST_LINE {
            Parsed::Invalid("a line without an end")
        } else {
            Parsed::Incomplete { needed: bytes.len() + 1 }
        };
    };
    let line = &bytes[..end];
    let mut words = line.split(|&byte| byte == b' ');
    let word = words.next().unwrap_or_default();
    let complete = |class| Parsed::Complete { message: Said { class, message: None }, used: end + 2 };
    let mut number = || -> Option<u64> { std::str::from_utf8(words.next()?).ok()?.parse().ok() };
    let brings = match (verb, word) {
        (Verb::Reserve, b"RESERVED") | (Verb::Pop, b"POPPED") | (Verb::Peek, b"FOUND") => number(),
        (Verb::List, b"OK") => Some(0),
        (Verb::Put, b"INSERTED") => return complete(Class::Stored),
        (Verb::Delete, b"DELETED") => return complete(Class::Deleted),
        (_, b"TIMED_OUT" | b"DEADLINE_SOON" | b"NOT_FOUND" | b"EMPTY") => return complete(Class::NotFound),
        (_, b"OUT_OF_MEMORY" | b"INTERNAL_ERROR" | b"DRAINING" | b"BURIED") => {
            return complete(Class::ServerError);
        }
        (_, b"BAD_FORMAT" | b"UNKNOWN_COMMAND" | b"EXPECTED_CRLF" | b"JOB_TOO_BIG") => {
            return complete(Class::ClientError);
        }
        _ => return Parsed::Invalid("no answer of a queue"),
    };
    let (Some(id), Some(length)) = (brings, number()) else {
        return Parsed::Invalid("an answer without its numbers");
    };
    let Some(length) = usize::try_from(length).ok().filter(|&length| length <= LARGEST) else {
        return Parsed::Invalid("a message beyond any size");
    };
    let used = end + 2 + length + 2;
    let Some(body) = bytes.get(end + 2..used) else { return Parsed::Incomplete { needed: used } };
    let Some(body) = body.strip_suffix(b"\r\n") else { return Parsed::Invalid("a message without its end") };
    let (class, message) = match verb {
        Verb::List => (Class::Ok, None),
        _ => (Class::Values, Some((id, body))),
    };
    Parsed::Complete { message: Said { class, message }, used }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &[u8], verb: Verb) -> (Class, Option<(u64, Vec<u8>)>) {
        match parse(text, verb) {
            Parsed::Complete { message, used } => {
                assert_eq!(used, text.len());
                (message.class, message.message.map(|(id, body)| (id, body.to_vec())))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_are_what_the_protocol_says() {
        assert_eq!(said(b"INSERTED 7\r\n", Verb::Put), (Class::Stored, None));
        assert_eq!(
            said(b"RESERVED 7 5\r\nhe\r\no\r\n", Verb::Reserve),
            (Class::Values, Some((7, b"he\r\no".to_vec())))
        );
        assert_eq!(said(b"POPPED 8 0\r\n\r\n", Verb::Pop), (Class::Values, Some((8, vec![]))));
        assert_eq!(said(b"FOUND 8 1\r\nx\r\n", Verb::Peek), (Class::Values, Some((8, b"x".to_vec()))));
        assert_eq!(said(b"TIMED_OUT\r\n", Verb::Reserve), (Class::NotFound, None));
        assert_eq!(said(b"DELETED\r\n", Verb::Delete), (Class::Deleted, None));
        assert_eq!(said(b"OK 14\r\n---\n- default\n\r\n", Verb::List), (Class::Ok, None));
        assert_eq!(said(b"UNKNOWN_COMMAND\r\n", Verb::Pop), (Class::ClientError, None));
        for (text, verb) in [
            (&b"INSERTED 7\r\n"[..], Verb::Reserve),
            (b"RESERVED x 5\r\n", Verb::Reserve),
            (b"RESERVED 7 99999999999999\r\n", Verb::Reserve),
            (b"RESERVED 7 1\r\nxyz", Verb::Reserve),
            (b"END\r\n", Verb::Put),
            (&[b'a'; 300], Verb::Put),
        ] {
            assert!(matches!(parse(text, verb), Parsed::Invalid(_)), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn requests_are_those_of_the_protocol() {
        let mut out = Vec::new();
        put(&mut out, b"hello");
        for verb in [Verb::Reserve, Verb::Delete, Verb::Pop, Verb::Peek, Verb::List] {
            ask(&mut out, verb, 7);
        }
        let text = "put 1024 0 120 5\r\nhello\r\nreserve-with-timeout 0\r\ndelete 7\r\npop 0\r\npeek-ready\r\nlist-tubes\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    proptest! {
        /// Where the network cuts the bytes must not matter.
        #[test]
        fn every_cut_is_incomplete_until_the_last_byte(body in prop::collection::vec(any::<u8>(), 0..50), id: u64) {
            let whole = [format!("RESERVED {id} {}\r\n", body.len()).as_bytes(), &body, b"\r\n"].concat();
            for cut in 0..whole.len() {
                match parse(&whole[..cut], Verb::Reserve) {
                    Parsed::Incomplete { needed } => prop_assert!(needed > cut && needed <= whole.len()),
                    other => prop_assert!(false, "{cut}: {other:?}"),
                }
            }
            prop_assert_eq!(said(&whole, Verb::Reserve), (Class::Values, Some((id, body))));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            for verb in [Verb::Put, Verb::Reserve, Verb::Delete, Verb::Pop, Verb::Peek, Verb::List] {
                let _ = parse(&bytes, verb);
            }
        }
    }
}
