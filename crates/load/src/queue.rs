//! Message queues by beanstalkd's protocol, from the client's side: what is asked, and what the
//! answers are.
//!
//! A reserve does not wait (`reserve-with-timeout 0`), and the message that it brings is deleted,
//! given back or set aside by the request after it, as a worker does when it is done. What krarup's
//! broker understands and beanstalkd does not: `pop` takes a message and deletes it in one request;
//! and clients with names send to queues, or through them to each other ([`Verb::Send`],
//! [`Verb::PopTube`] and others).
//!
//! With the verbs of beanstalkd, each client uses and watches one queue: its own number modulo the
//! number of queues; with one queue, that is the tube `default`. With those of names, every request
//! draws its queue, and the names it is about, anew.

use krarup_beanstalk::{DEFAULT_TTR, DEFAULT_TUBE, Put, Reply, ReplyWord, Request, Verb, reply, write};
use krarup_memcache::{Parsed, ReplyClass};
use krarup_units::{Nanos, Seconds};

/// Under this name messages are made and verified, as values are under their keys.
pub const NAME: &[u8] = b"message";

/// How long a reserved message is held, in seconds, beside the longest think time: a client thinks
/// before it deletes it.
const TIME_TO_RUN: u32 = 120;
/// The priority of every message.
const PRIORITY: u32 = 1_024;

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// What it comes to, in the words of memcached's answers: a message is `Values`, none is
    /// `NotFound`.
    pub class: ReplyClass,
    /// The message that came, with its number.
    pub message: Option<(u64, &'a [u8])>,
}

/// What tubes are called, but for their number.
const TUBE: &str = "load-tube-";
/// What clients are called, but for their number.
const CLIENT: &str = "load-client-";

/// A name that ends with a number.
struct Numbered {
    text: [u8; 40],
    length: usize,
}

impl Numbered {
    fn new(begin: &str, number: u64) -> Self {
        let mut all = Self { text: [0; 40], length: 0 };
        let mut buffer = itoa::Buffer::new();
        for part in [begin, buffer.format(number)] {
            all.text[all.length..all.length + part.len()].copy_from_slice(part.as_bytes());
            all.length += part.len();
        }
        all
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.length]).expect("letters and digits")
    }
}

fn tube(number: u64) -> Numbered {
    Numbered::new(TUBE, number)
}

fn client(number: u64) -> Numbered {
    Numbered::new(CLIENT, number)
}

/// Appends a put of a message for clients that think so long at most.
pub fn put(out: &mut Vec<u8>, longest_think: Seconds, body: &[u8]) {
    let ttr = TIME_TO_RUN.saturating_add(longest_think.ceil() as u32);
    let put = Put { priority: PRIORITY, ttr, body, ..Put::default() };
    write::request(out, &Request::Put(put));
}

/// Appends a message to a tube: for one receiver, or for any.
pub fn send(out: &mut Vec<u8>, to: u64, receiver: Option<u64>, body: &[u8]) {
    let (tube, receiver) = (tube(to), receiver.map(client));
    let receiver = receiver.as_ref().map(Numbered::as_str);
    let put =
        Put { tube: Some(tube.as_str()), receiver, strict: true, ttr: DEFAULT_TTR, body, ..Put::default() };
    write::request(out, &Request::Put(put));
}

/// Appends a request that brings no message. `number` is what it is about: a message, a tube or a
/// client's name, or how many.
///
/// # Panics
/// With a verb that is never asked.
pub fn ask(out: &mut Vec<u8>, verb: Verb, number: u64) {
    let (tube, client) = (tube(number), client(number));
    let (tube, client) = (tube.as_str(), client.as_str());
    let request = match verb {
        Verb::ReserveWithTimeout => Request::ReserveWithTimeout { timeout: Nanos::ZERO },
        Verb::Delete => Request::Delete(number),
        Verb::Release => Request::Release { id: number, priority: PRIORITY, delay: 0 },
        Verb::Bury => Request::Bury { id: number, priority: PRIORITY },
        Verb::Kick => Request::Kick(number as u32),
        Verb::Pop => Request::Pop { timeout: Nanos::ZERO },
        Verb::PeekReady => Request::PeekReady,
        Verb::ListTubes => Request::ListTubes,
        Verb::PopTube => Request::PopTube(tube),
        Verb::PopSender => Request::PopSender(client),
        Verb::PeekTube => Request::PeekTube(tube),
        Verb::PeekSender => Request::PeekSender(client),
        Verb::ListTubesForMe => Request::ListTubesForMe,
        Verb::Login => Request::Login { client, secret: None },
        other => unreachable!("{other:?} is never asked"),
    };
    write::request(out, &request);
}

/// What is said on a new connection before anything else, and what may be answered to each line of
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Lines, each with its end.
    pub said: Vec<u8>,
    /// For each line the first words that are good answers.
    pub owed: Vec<&'static [&'static str]>,
}

/// What client `number` of `clients` says first. With verbs of names (`named`), the clients
/// together register all names and create all tubes, each its share; where the broker wants a
/// `secret`, logging in brings it along. With beanstalkd's verbs and several tubes, each client
/// turns to one of them.
pub fn hello(
    number: u64,
    clients: u64,
    (tubes, names): (u32, u32),
    named: bool,
    secret: Option<&str>,
) -> Option<Hello> {
    let mut hello = Hello::default();
    let mut say = |request: Request<'_>, good: &'static [&'static str]| {
        write::request(&mut hello.said, &request);
        hello.owed.push(good);
    };
    const LOGGED_IN: &[&str] = &[ReplyWord::LoggedIn.name()];
    const REGISTERED: &[&str] = &[ReplyWord::Registered.name(), ReplyWord::Exists.name()];
    const CREATED: &[&str] = &[ReplyWord::Created.name(), ReplyWord::Exists.name()];
    const USING: &[&str] = &[ReplyWord::Using.name()];
    const WATCHING: &[&str] = &[ReplyWord::Watching.name()];
    let own = client(number % u64::from(names.max(1)));
    let own = own.as_str();
    let (tubes, names, clients) = (u64::from(tubes), u64::from(names.max(1)), clients.max(1));
    let share = |of: u64| (number..of).step_by(clients as usize);
    if secret.is_some() {
        say(Request::Login { client: own, secret }, LOGGED_IN);
    }
    if named {
        // Its own name first: a name that is not registered cannot log in.
        for name in std::iter::once(number % names).chain(share(names).skip(1)) {
            say(Request::Register(client(name).as_str()), REGISTERED);
        }
        if secret.is_none() {
            say(Request::Login { client: own, secret: None }, LOGGED_IN);
        }
        for number in share(tubes) {
            say(Request::CreateTube(tube(number).as_str()), CREATED);
        }
    } else if tubes > 1 {
        let tube = tube(number % tubes);
        say(Request::Use(tube.as_str()), USING);
        say(Request::Watch(tube.as_str()), WATCHING);
        say(Request::Ignore(DEFAULT_TUBE), WATCHING);
    }
    (!hello.owed.is_empty()).then_some(hello)
}

/// Reads the answer to `verb` at the front of `bytes`.
///
/// # Errors
/// Says why bytes are no answer to it.
pub fn parse(bytes: &[u8], verb: Verb) -> Parsed<Said<'_>, &'static str> {
    match reply::parse(bytes) {
        Parsed::Complete { message, used } => match said(&message, verb) {
            Ok(message) => Parsed::Complete { message, used },
            Err(why) => Parsed::Invalid(why),
        },
        Parsed::Incomplete { needed } => Parsed::Incomplete { needed },
        Parsed::Invalid(why) => Parsed::Invalid(why),
    }
}

const NO_ANSWER: &str = "no answer of a queue";

/// What a reply to `verb` comes to.
fn said<'a>(reply: &Reply<'a>, verb: Verb) -> Result<Said<'a>, &'static str> {
    let word = reply.word().ok_or(NO_ANSWER)?;
    let class = match (verb, word) {
        (_, ReplyWord::Reserved | ReplyWord::Popped | ReplyWord::Found) if verb.replies().contains(&word) => {
            ReplyClass::Values
        }
        (Verb::ListTubes | Verb::ListTubesForMe, ReplyWord::Ok) => ReplyClass::Ok,
        (Verb::Put | Verb::Send, ReplyWord::Inserted) => ReplyClass::Stored,
        (Verb::Delete, ReplyWord::Deleted) => ReplyClass::Deleted,
        (Verb::Release, ReplyWord::Released)
        | (Verb::Bury, ReplyWord::Buried)
        | (Verb::Login, ReplyWord::LoggedIn) => ReplyClass::Ok,
        (Verb::Kick, ReplyWord::Kicked) => match reply {
            Reply::Line { number: Some(0), .. } => ReplyClass::NotFound,
            Reply::Line { number: Some(_), .. } => ReplyClass::Ok,
            _ => return Err("an answer without its numbers"),
        },
        (_, ReplyWord::TimedOut | ReplyWord::DeadlineSoon | ReplyWord::NotFound | ReplyWord::Empty) => {
            ReplyClass::NotFound
        }
        (_, ReplyWord::InternalError | ReplyWord::Buried) => ReplyClass::ServerError,
        (_, word) if word.is_refusal() => ReplyClass::ServerError,
        (_, word) if word.is_client_error() => ReplyClass::ClientError,
        _ => return Err(NO_ANSWER),
    };
    let message = match reply {
        Reply::Message { id, body, .. } => Some((*id, *body)),
        _ => None,
    };
    Ok(Said { class, message })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &[u8], verb: Verb) -> (ReplyClass, Option<(u64, Vec<u8>)>) {
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
        assert_eq!(said(b"INSERTED 7\r\n", Verb::Put), (ReplyClass::Stored, None));
        assert_eq!(
            said(b"RESERVED 7 5\r\nhe\r\no\r\n", Verb::ReserveWithTimeout),
            (ReplyClass::Values, Some((7, b"he\r\no".to_vec())))
        );
        assert_eq!(said(b"POPPED 8 0\r\n\r\n", Verb::Pop), (ReplyClass::Values, Some((8, vec![]))));
        assert_eq!(
            said(b"FOUND 8 1\r\nx\r\n", Verb::PeekReady),
            (ReplyClass::Values, Some((8, b"x".to_vec())))
        );
        assert_eq!(said(b"TIMED_OUT\r\n", Verb::ReserveWithTimeout), (ReplyClass::NotFound, None));
        assert_eq!(said(b"DELETED\r\n", Verb::Delete), (ReplyClass::Deleted, None));
        assert_eq!(said(b"OK 14\r\n---\n- default\n\r\n", Verb::ListTubes), (ReplyClass::Ok, None));
        assert_eq!(said(b"UNKNOWN_COMMAND\r\n", Verb::Pop), (ReplyClass::ClientError, None));
        assert_eq!(said(b"UNKNOWN_CLIENT\r\n", Verb::Send), (ReplyClass::ClientError, None));
        assert_eq!(said(b"RELEASED\r\n", Verb::Release), (ReplyClass::Ok, None));
        // A message that is buried was asked to be, or found no room when it came back.
        assert_eq!(said(b"BURIED\r\n", Verb::Bury), (ReplyClass::Ok, None));
        assert_eq!(said(b"BURIED\r\n", Verb::Release), (ReplyClass::ServerError, None));
        assert_eq!(said(b"KICKED 0\r\n", Verb::Kick), (ReplyClass::NotFound, None));
        assert_eq!(said(b"KICKED 1\r\n", Verb::Kick), (ReplyClass::Ok, None));
        assert_eq!(
            said(b"POPPED 8 1\r\nx\r\n", Verb::PopSender),
            (ReplyClass::Values, Some((8, b"x".to_vec())))
        );
        assert_eq!(said(b"EMPTY\r\n", Verb::PeekTube), (ReplyClass::NotFound, None));
        assert_eq!(said(b"OK 4\r\n---\n\r\n", Verb::ListTubesForMe), (ReplyClass::Ok, None));
        for (text, verb) in [
            (&b"INSERTED 7\r\n"[..], Verb::ReserveWithTimeout),
            (b"RESERVED x 5\r\n", Verb::ReserveWithTimeout),
            (b"RESERVED 7 99999999999999\r\n", Verb::ReserveWithTimeout),
            (b"RESERVED 7 1\r\nxyz", Verb::ReserveWithTimeout),
            (b"END\r\n", Verb::Put),
            (&[b'a'; 300], Verb::Put),
        ] {
            assert!(matches!(parse(text, verb), Parsed::Invalid(_)), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn requests_are_those_of_the_protocol() {
        let mut out = Vec::new();
        put(&mut out, 0.0, b"hello");
        put(&mut out, 239.5, b"");
        put(&mut out, 1e20, b"");
        send(&mut out, 1, Some(2), b"hey");
        send(&mut out, 1, None, b"hey");
        for verb in [
            Verb::ReserveWithTimeout,
            Verb::Delete,
            Verb::Release,
            Verb::Bury,
            Verb::Kick,
            Verb::Pop,
            Verb::PeekReady,
            Verb::ListTubes,
        ] {
            ask(&mut out, verb, 7);
        }
        for verb in [
            Verb::PopTube,
            Verb::PopSender,
            Verb::PeekTube,
            Verb::PeekSender,
            Verb::ListTubesForMe,
            Verb::Login,
        ] {
            ask(&mut out, verb, 3);
        }
        let text = "put 1024 0 120 5\r\nhello\r\nput 1024 0 360 0\r\n\r\nput 1024 0 4294967295 0\r\n\r\n\
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
                match parse(&whole[..cut], Verb::ReserveWithTimeout) {
                    Parsed::Incomplete { needed } => prop_assert!(needed > cut && needed <= whole.len()),
                    other => prop_assert!(false, "{cut}: {other:?}"),
                }
            }
            prop_assert_eq!(said(&whole, Verb::ReserveWithTimeout), (ReplyClass::Values, Some((id, body))));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            for verb in [Verb::Put, Verb::ReserveWithTimeout, Verb::Delete, Verb::Kick, Verb::Pop, Verb::PeekReady, Verb::ListTubes, Verb::Login] {
                let _ = parse(&bytes, verb);
            }
        }
    }
}
