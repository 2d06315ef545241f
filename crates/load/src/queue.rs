//! Message queues by beanstalkd's protocol, from the client's side: what is asked, and what the answers are.
//!
//! A reserve does not wait (`reserve-with-timeout 0`), and the message that it brings is deleted, given back or set aside by the request
//! after it, as a worker does when it is done. What krarup's broker understands and beanstalkd does not: `pop` takes a message and deletes it in
//! one request; and clients with names send to queues, or through them to each other ([`Verb::Send`] and all below it).
//!
//! With the verbs of beanstalkd, each client uses and watches one queue: its own number modulo the number of queues; with one queue, that is
//! the tube `default`. With those of names, every request draws its queue, and the names it is about, anew.

use std::io::Write;

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
    /// Gives it back.
    Release,
    /// Sets it aside.
    Bury,
    /// Makes messages ready that were set aside.
    Kick,
    /// Takes a message for good, if there is one.
    Pop,
    /// Looks at the next message, if there is one.
    Peek,
    /// Asks for the names of all tubes.
    List,
    /// Adds a message for anybody to a tube.
    Send,
    /// The same for one receiver.
    SendTo,
    /// Takes the oldest of a tube that is mine or nobody's, for good.
    PopTube,
    /// The same from one sender, in any tube.
    PopSender,
    /// Looks at the oldest of a tube that is mine or nobody's.
    PeekTube,
    /// The same from one sender, in any tube.
    PeekSender,
    /// Asks for the names of the tubes that hold a message for me.
    ListForMe,
    /// Says who the client is.
    Login,
}

impl Verb {
    /// Whether a message goes with it.
    pub const fn brings_message(self) -> bool {
        matches!(self, Self::Put | Self::Send | Self::SendTo)
    }
}

/// Under this name messages are made and verified, as values are under their keys.
pub const NAME: &[u8] = b"message";

/// How long a reserved message is held, in seconds: longer than any client takes to delete it.
const TIME_TO_RUN: u32 = 120;
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

/// What tubes are called, but for their number.
const TUBE: &str = "load-tube-";
/// What clients are called, but for their number.
const CLIENT: &str = "load-client-";
const TAKES: &str = "a vector takes everything";

/// Appends a put.
pub fn put(out: &mut Vec<u8>, body: &[u8]) {
    write!(out, "put 1024 0 {TIME_TO_RUN} {}\r\n", body.len()).expect(TAKES);
    with_end(out, body);
}

/// Appends a message to a tube: for one receiver, or for anybody.
pub fn send(out: &mut Vec<u8>, tube: u64, receiver: Option<u64>, body: &[u8]) {
    let length = body.len();
    match receiver {
        Some(receiver) => write!(out, "send {TUBE}{tube} {CLIENT}{receiver} {length}\r\n").expect(TAKES),
        None => write!(out, "send {TUBE}{tube} - {length}\r\n").expect(TAKES),
    }
    with_end(out, body);
}

fn with_end(out: &mut Vec<u8>, body: &[u8]) {
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// Appends a request that brings no message. `number` is what it is about: a message, a tube or a client's name, or how many.
pub fn ask(out: &mut Vec<u8>, verb: Verb, number: u64) {
    match verb {
        Verb::Put => return put(out, b""),
        Verb::Send | Verb::SendTo => return send(out, number, None, b""),
        Verb::Reserve => out.write_all(b"reserve-with-timeout 0\r\n"),
        Verb::Delete => write!(out, "delete {number}\r\n"),
        Verb::Release => write!(out, "release {number} 1024 0\r\n"),
        Verb::Bury => write!(out, "bury {number} 1024\r\n"),
        Verb::Kick => write!(out, "kick {number}\r\n"),
        Verb::Pop => out.write_all(b"pop 0\r\n"),
        Verb::Peek => out.write_all(b"peek-ready\r\n"),
        Verb::List => out.write_all(b"list-tubes\r\n"),
        Verb::PopTube => write!(out, "pop-tube {TUBE}{number}\r\n"),
        Verb::PopSender => write!(out, "pop-sender {CLIENT}{number}\r\n"),
        Verb::PeekTube => write!(out, "peek-tube {TUBE}{number}\r\n"),
        Verb::PeekSender => write!(out, "peek-sender {CLIENT}{number}\r\n"),
        Verb::ListForMe => out.write_all(b"list-tubes-for-me\r\n"),
        Verb::Login => write!(out, "login {CLIENT}{number}\r\n"),
    }
    .expect(TAKES);
}

/// What is said on a new connection before anything else, and what may be answered to each line of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Lines, each with its end.
    pub said: Vec<u8>,
    /// For each line the first words that are good answers.
    pub owed: Vec<&'static [&'static str]>,
}

/// What client `number` of `clients` says first. With verbs of names (`named`), the clients together register all names and create
/// all tubes, each its share; where the broker wants a `secret`, logging in brings it along. With beanstalkd's verbs and several tubes, each
/// client turns to one of them.
pub fn hello(
    number: u64,
    clients: u64,
    (tubes, names): (u32, u32),
    named: bool,
    secret: Option<&str>,
) -> Option<Hello> {
    let mut hello = Hello::default();
    let mut say = |line: String, good: &'static [&'static str]| {
        hello.said.extend_from_slice(line.as_bytes());
        hello.owed.push(good);
    };
    let (tubes, names, clients) = (u64::from(tubes), u64::from(names.max(1)), clients.max(1));
    let share = |of: u64| (number..of).step_by(clients as usize);
    if let Some(secret) = secret {
        say(format!("login {CLIENT}{} {secret}\r\n", number % names), &["LOGGED_IN"]);
    }
    if named {
        // Its own name first: who is nobody yet cannot be logged in.
        for name in std::iter::once(number % names).chain(share(names).skip(1)) {
            say(format!("register {CLIENT}{name}\r\n"), &["REGISTERED", "EXISTS"]);
        }
        if secret.is_none() {
            say(format!("login {CLIENT}{}\r\n", number % names), &["LOGGED_IN"]);
        }
        for tube in share(tubes) {
            say(format!("create-tube {TUBE}{tube}\r\n"), &["CREATED", "EXISTS"]);
        }
    } else if tubes > 1 {
        let tube = number % tubes;
        say(format!("use {TUBE}{tube}\r\n"), &["USING"]);
        say(format!("watch {TUBE}{tube}\r\n"), &["WATCHING"]);
        say("ignore default\r\n".to_owned(), &["WATCHING"]);
    }
    (!hello.owed.is_empty()).then_some(hello)
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
        (Verb::Reserve, b"RESERVED")
        | (Verb::Pop | Verb::PopTube | Verb::PopSender, b"POPPED")
        | (Verb::Peek | Verb::PeekTube | Verb::PeekSender, b"FOUND") => number(),
        (Verb::List | Verb::ListForMe, b"OK") => Some(0),
        (Verb::Put | Verb::Send | Verb::SendTo, b"INSERTED") => return complete(Class::Stored),
        (Verb::Delete, b"DELETED") => return complete(Class::Deleted),
        (Verb::Release, b"RELEASED") | (Verb::Bury, b"BURIED") | (Verb::Login, b"LOGGED_IN") => {
            return complete(Class::Ok);
        }
        (Verb::Kick, b"KICKED") => {
            let Some(kicked) = number() else { return Parsed::Invalid("an answer without its numbers") };
            return complete(if kicked == 0 { Class::NotFound } else { Class::Ok });
        }
        (_, b"TIMED_OUT" | b"DEADLINE_SOON" | b"NOT_FOUND" | b"EMPTY") => return complete(Class::NotFound),
        (_, b"OUT_OF_MEMORY" | b"INTERNAL_ERROR" | b"DRAINING" | b"BURIED") => {
            return complete(Class::ServerError);
        }
        (
            _,
            b"BAD_FORMAT" | b"UNKNOWN_COMMAND" | b"EXPECTED_CRLF" | b"JOB_TOO_BIG" | b"UNKNOWN_TUBE"
            | b"UNKNOWN_CLIENT" | b"NOT_LOGGED_IN",
        ) => return complete(Class::ClientError),
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
        Verb::List | Verb::ListForMe => (Class::Ok, None),
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
        assert_eq!(said(b"UNKNOWN_CLIENT\r\n", Verb::SendTo), (Class::ClientError, None));
        assert_eq!(said(b"RELEASED\r\n", Verb::Release), (Class::Ok, None));
        // A message that is buried was asked to be, or found no room when it came back.
        assert_eq!(said(b"BURIED\r\n", Verb::Bury), (Class::Ok, None));
        assert_eq!(said(b"BURIED\r\n", Verb::Release), (Class::ServerError, None));
        assert_eq!(said(b"KICKED 0\r\n", Verb::Kick), (Class::NotFound, None));
        assert_eq!(said(b"KICKED 1\r\n", Verb::Kick), (Class::Ok, None));
        assert_eq!(said(b"POPPED 8 1\r\nx\r\n", Verb::PopSender), (Class::Values, Some((8, b"x".to_vec()))));
        assert_eq!(said(b"EMPTY\r\n", Verb::PeekTube), (Class::NotFound, None));
        assert_eq!(said(b"OK 4\r\n---\n\r\n", Verb::ListForMe), (Class::Ok, None));
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
        send(&mut out, 1, Some(2), b"hey");
        send(&mut out, 1, None, b"hey");
        for verb in [
            Verb::Reserve,
            Verb::Delete,
            Verb::Release,
            Verb::Bury,
            Verb::Kick,
            Verb::Pop,
            Verb::Peek,
            Verb::List,
        ] {
            ask(&mut out, verb, 7);
        }
        for verb in
            [Verb::PopTube, Verb::PopSender, Verb::PeekTube, Verb::PeekSender, Verb::ListForMe, Verb::Login]
        {
            ask(&mut out, verb, 3);
        }
        let text = "put 1024 0 120 5\r\nhello\r\n\
                    send load-tube-1 load-client-2 3\r\nhey\r\nsend load-tube-1 - 3\r\nhey\r\n\
                    reserve-with-timeout 0\r\ndelete 7\r\nrelease 7 1024 0\r\nbury 7 1024\r\nkick 7\r\n\
                    pop 0\r\npeek-ready\r\nlist-tubes\r\n\
                    pop-tube load-tube-3\r\npop-sender load-client-3\r\npeek-tube load-tube-3\r\npeek-sender load-client-3\r\n\
                    list-tubes-for-me\r\nlogin load-client-3\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    fn said_first(number: u64, clients: u64, tubes_and_names: (u32, u32), named: bool) -> String {
        hello(number, clients, tubes_and_names, named, None)
            .map_or_else(String::new, |hello| String::from_utf8(hello.said).unwrap())
    }

    #[test]
    fn clients_of_one_tube_say_nothing_first_and_those_of_several_turn_to_one() {
        assert_eq!(said_first(3, 4, (1, 4), false), "");
        let text = "use load-tube-1\r\nwatch load-tube-1\r\nignore default\r\n";
        assert_eq!(said_first(3, 4, (2, 4), false), text);
    }

    #[test]
    fn clients_with_names_together_register_every_name_and_create_every_tube_once() {
        for (clients, tubes, names) in [(3, 7, 3), (4, 2, 9), (5, 1, 2)] {
            let all: String =
                (0..clients).map(|number| said_first(number, clients, (tubes, names), true)).collect();
            for tube in 0..tubes {
                assert_eq!(all.matches(&format!("create-tube load-tube-{tube}\r\n")).count(), 1, "{all}");
            }
            for name in 0..names {
                assert!(all.contains(&format!("register load-client-{name}\r\n")), "{all}");
            }
            assert_eq!(all.matches("\r\nlogin ").count(), clients as usize);
        }
        let secret = hello(1, 2, (1, 2), true, Some("xyz")).unwrap();
        assert!(secret.said.starts_with(b"login load-client-1 xyz\r\nregister load-client-1\r\n"));
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
            for verb in [Verb::Put, Verb::Reserve, Verb::Delete, Verb::Kick, Verb::Pop, Verb::Peek, Verb::List, Verb::Login] {
                let _ = parse(&bytes, verb);
            }
        }
    }
}
