//! memcached's text protocol in Kestrel's manner: the name of a queue stands where a key stands.
//!
//! ```text
//! set jobs 0 0 5              a message is put
//! get jobs/t=500              the next is taken and gone; half a second is waited for it
//! get jobs/open               the next is reserved: it comes back if the connection dies,
//! get jobs/close              is done with,
//! get jobs/abort              or is given back
//! ```
//!
//! Here keys become queries, and the broker's answers are written in memcached's words; nothing of
//! this knows queues or sockets.

use krarup_beanstalk::{Put, Reply, ReplyWord, name::name, reply};
use krarup_memcache::{Limits, Parsed, Request, request, request::Refusal, write};
use krarup_units::Nanos;

use crate::job::Id;

/// Where a message that was put by this protocol stands in its line, unless its key says
/// `/priority=`.
pub const PRIORITY: u32 = 1_024;
/// Seconds a reservation of such a message lasts, unless its key says `/ttr=`: connections that die
/// give their messages back anyway, so that this is only for those that hang.
pub const TTR: u32 = 3_600;

const BAD_QUEUE: &[u8] =
    b"CLIENT_ERROR a queue's name has 1 to 200 letters, digits or -+;.$_(), a hyphen not first\r\n";
const BAD_GET: &[u8] = b"CLIENT_ERROR options of get: /open /close /abort /peek /t=MILLISECONDS\r\n";
const BAD_SET: &[u8] =
    b"CLIENT_ERROR options of set: /priority=N /delay=SECONDS /ttr=SECONDS /unique=KEY\r\n";
const BAD_PAIR: &[u8] = b"CLIENT_ERROR these options of get do not go together\r\n";
/// Two keys of one line, where only one can be answered.
pub const ONE_KEY: &[u8] = b"CLIENT_ERROR options of get go with one key\r\n";
/// A second `/open` of a queue.
pub(crate) const STILL_OPEN: &[u8] =
    b"CLIENT_ERROR a message of this queue is open: /close or /abort it first\r\n";
/// The open message that is to be closed is the client's no more.
pub const RAN_OUT: &[u8] = b"CLIENT_ERROR the reservation had run out\r\n";
/// Asks whether the client has a message open whose time has not run out. An owner of an older
/// build answers with all its statistics.
pub const STATS_OPEN: &[u8] = b"stats open\r\n";
/// The answer where it has none.
pub const NONE_OPEN: &[u8] = b"STAT open 0\r\nEND\r\n";
/// Commands of caches.
pub(crate) const NOT_FOR_QUEUES: &[u8] =
    b"CLIENT_ERROR queues know set, get, gets, delete, flush, stats, version and quit\r\n";
/// Expiry times up to this many seconds are counted from the `set`; larger ones are times
/// since 1970.
const RELATIVE: i32 = 60 * 60 * 24 * 30;
/// Before the secret was said.
pub const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
/// Where a wrong secret was said.
pub const WRONG_SECRET: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
const INTERNAL_ERROR: &[u8] = b"SERVER_ERROR internal error\r\n";
/// Commands that would empty every queue.
pub(crate) const NOT_ALL: &[u8] =
    b"CLIENT_ERROR flush_all is not allowed: delete QUEUE empties one queue\r\n";

/// What comes before the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseOption {
    /// The open one is done with.
    Close,
    /// The open one goes back.
    Abort,
}

/// What becomes of the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOption {
    /// It is gone.
    Pop,
    /// It is reserved until it is closed or aborted.
    Open,
    /// It stays.
    Peek,
}

/// What one key of a `get` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueGet<'a> {
    /// Of which queue.
    pub queue: &'a str,
    /// What comes first.
    pub end: Option<CloseOption>,
    /// What is wanted then; none where only something is ended.
    pub take: Option<TakeOption>,
    /// How long to wait for it.
    pub wait: Nanos,
}

/// Reads a key of `get`.
///
/// # Errors
/// The line that says what is wrong with it.
pub fn queue_get(key: &[u8]) -> Result<QueueGet<'_>, &'static [u8]> {
    let (queue, options) = parts(key)?;
    let (mut end, mut take, mut wait) = (None, None, None);
    for option in options {
        match option {
            b"close" if end.is_none() => end = Some(CloseOption::Close),
            b"abort" if end.is_none() => end = Some(CloseOption::Abort),
            b"open" if take.is_none() => take = Some(TakeOption::Open),
            b"peek" if take.is_none() => take = Some(TakeOption::Peek),
            b"close" | b"abort" | b"open" | b"peek" => return Err(BAD_PAIR),
            _ => {
                let milliseconds = option.strip_prefix(b"t=").and_then(number).ok_or(BAD_GET)?;
                wait = Some(Nanos::from_millis(milliseconds.into()));
            }
        }
    }
    if take == Some(TakeOption::Peek) && (end.is_some() || wait.is_some()) {
        return Err(BAD_PAIR);
    }
    // `/close` alone asks for nothing more.
    let take = take.or(end.is_none().then_some(TakeOption::Pop));
    if take.is_none() && wait.is_some() {
        return Err(BAD_PAIR);
    }
    Ok(QueueGet { queue, end, take, wait: wait.unwrap_or(Nanos::ZERO) })
}

/// Reads the key of a `set`: all of a message but its body.
///
/// # Errors
/// The line that says what is wrong with it.
pub fn put_of_key(key: &[u8]) -> Result<Put<'_>, &'static [u8]> {
    let (queue, options) = parts(key)?;
    let mut put = Put { tube: Some(queue), priority: PRIORITY, ttr: TTR, ..Put::default() };
    for option in options {
        let place = option.iter().position(|byte| *byte == b'=').ok_or(BAD_SET)?;
        let (word, value) = (&option[..place], &option[place + 1..]);
        match word {
            b"priority" => put.priority = number(value).ok_or(BAD_SET)?,
            b"delay" => put.delay = number(value).ok_or(BAD_SET)?,
            b"ttr" => put.ttr = number(value).ok_or(BAD_SET)?,
            b"unique" => put.key = Some(name(value).ok_or(BAD_SET)?),
            _ => return Err(BAD_SET),
        }
    }
    Ok(put)
}

/// How long a message lives that was `set` with this expiry time at this time on the wall, in
/// seconds; none: for ever.
pub fn lives(exptime: i32, wall: Nanos) -> Option<u32> {
    match exptime {
        0 => None,
        ..0 => Some(0),
        1..=RELATIVE => Some(exptime as u32),
        // The second of its end is not part of its life.
        _ => Some((exptime as u64).saturating_sub(wall.0 / 1_000_000_000) as u32),
    }
}

/// The queue that a key without options names.
///
/// # Errors
/// The line that says what is wrong with it.
pub fn queue(key: &[u8]) -> Result<&str, &'static [u8]> {
    let (queue, mut options) = parts(key)?;
    if options.next().is_none() { Ok(queue) } else { Err(BAD_QUEUE) }
}

fn parts(key: &[u8]) -> Result<(&str, impl Iterator<Item = &[u8]>), &'static [u8]> {
    let mut words = key.split(|byte| *byte == b'/');
    let queue = words.next().and_then(name).ok_or(BAD_QUEUE)?;
    Ok((queue, words))
}

fn number(text: &[u8]) -> Option<u32> {
    let digits = text.first().is_some_and(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// One request, or why there is none; `flush QUEUE`, which only queues know, comes as
/// [`QueueRequest::Flush`].
#[derive(Debug, PartialEq, Eq)]
pub enum QueueRequest<'a> {
    /// A request of memcached's protocol.
    Request(Request<'a>, usize),
    /// A queue is to be emptied.
    Flush(&'a [u8], usize),
    /// None yet: at least so many bytes are needed, counted from the front.
    Incomplete(usize),
    /// None.
    Refused(Refusal<'a>),
}

/// Reads one request from the front of `bytes`, whose messages may have `largest` bytes.
pub fn parse(bytes: &[u8], largest: u32) -> QueueRequest<'_> {
    let limits = Limits { value: largest as usize, retrieval_line: 8 << 10, ..Limits::default() };
    match request::parse(bytes, &limits) {
        Parsed::Complete { message, used } => QueueRequest::Request(message, used),
        Parsed::Incomplete { needed } => QueueRequest::Incomplete(needed),
        Parsed::Invalid(Refusal::Answer { reply: request::ERROR, used }) => {
            let line = bytes[..used].trim_ascii_end();
            match line.strip_prefix(b"flush ") {
                Some(key) => QueueRequest::Flush(key.trim_ascii(), used),
                None => QueueRequest::Refused(Refusal::Answer { reply: request::ERROR, used }),
            }
        }
        Parsed::Invalid(refusal) => QueueRequest::Refused(refusal),
    }
}

/// How an answer of the broker is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyFormat {
    /// In the broker's own words.
    #[default]
    AsItIs,
    /// The same, behind the number of all that were put together.
    Together(usize),
    /// Not at all.
    Not,
    /// As that to a `set`.
    Put,
    /// As that to a `set` that says who one is.
    Login,
    /// As that to a `delete`.
    Deleted,
    /// As that to a `get` that only ends something.
    Ended,
    /// As one value of a `get`.
    Value {
        /// The key as the client has written it.
        key: Box<[u8]>,
        /// Whether the message's number stands behind its length.
        unique: bool,
        /// Whether it stays open.
        open: bool,
        /// Whether no other follows.
        last: bool,
    },
}

impl ReplyFormat {
    /// Whether its answer says which message is open from then on.
    pub(crate) const fn opens(&self) -> bool {
        matches!(self, Self::Value { open: true, .. })
    }

    /// Tells an answer of the broker, whole; the number of the message that is open from now on.
    pub(crate) fn tell(&self, answer: &[u8], out: &mut Vec<u8>) -> Option<Id> {
        match self {
            Self::AsItIs => out.extend_from_slice(answer),
            Self::Together(count) => {
                krarup_beanstalk::write::numbered(out, ReplyWord::InsertedBatch, *count as u64);
                out.extend_from_slice(answer);
            }
            Self::Not => {}
            _ => match reply::parse(answer) {
                Parsed::Complete { message, .. } => return self.tell_reply(&message, out),
                Parsed::Incomplete { .. } | Parsed::Invalid(_) => out.extend_from_slice(INTERNAL_ERROR),
            },
        }
        None
    }

    fn tell_reply(&self, reply: &Reply<'_>, out: &mut Vec<u8>) -> Option<Id> {
        use ReplyWord as Word;

        if let (Self::Value { key, unique, open, last }, Reply::Message { id, flags, body, .. }) =
            (self, reply)
        {
            write::value(out, key, flags.unwrap_or_default(), unique.then_some(*id), body);
            if *last {
                out.extend_from_slice(b"END\r\n");
            }
            return open.then_some(*id);
        }
        let line: &[u8] = match (self, reply.word()) {
            (Self::Put, Some(Word::Inserted)) | (Self::Login, Some(Word::LoggedIn)) => b"STORED\r\n",
            // An earlier message had its key.
            (Self::Put, Some(Word::Exists)) => b"NOT_STORED\r\n",
            (Self::Deleted, Some(Word::Deleted)) => b"DELETED\r\n",
            (Self::Deleted, Some(Word::UnknownTube)) => b"NOT_FOUND\r\n",
            (Self::Ended, Some(Word::Deleted | Word::Released | Word::Buried)) => b"END\r\n",
            (Self::Ended, Some(Word::NotFound)) => RAN_OUT,
            (
                Self::Value { last, .. },
                Some(Word::TimedOut | Word::DeadlineSoon | Word::NotFound | Word::Empty | Word::UnknownTube),
            ) => {
                if *last {
                    b"END\r\n"
                } else {
                    b""
                }
            }
            (_, Some(Word::OutOfMemory)) => b"SERVER_ERROR out of memory storing object\r\n",
            (_, Some(Word::Draining)) => b"SERVER_ERROR draining: no more messages are accepted\r\n",
            (Self::Login, _) => WRONG_SECRET,
            (_, Some(Word::NotLoggedIn)) => UNAUTHENTICATED,
            _ => INTERNAL_ERROR,
        };
        out.extend_from_slice(line);
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_says_what_is_wanted_of_which_queue() {
        let asks =
            |key: &'static str| queue_get(key.as_bytes()).map(|query| (query.end, query.take, query.wait));
        let ms = Nanos::from_millis;
        assert_eq!(asks("q"), Ok((None, Some(TakeOption::Pop), ms(0))));
        assert_eq!(asks("q/t=500"), Ok((None, Some(TakeOption::Pop), ms(500))));
        assert_eq!(asks("q/open"), Ok((None, Some(TakeOption::Open), ms(0))));
        assert_eq!(asks("q/close"), Ok((Some(CloseOption::Close), None, ms(0))));
        assert_eq!(asks("q/abort"), Ok((Some(CloseOption::Abort), None, ms(0))));
        assert_eq!(asks("q/peek"), Ok((None, Some(TakeOption::Peek), ms(0))));
        for key in ["q/close/open/t=500", "q/t=500/open/close"] {
            assert_eq!(asks(key), Ok((Some(CloseOption::Close), Some(TakeOption::Open), ms(500))));
        }
        for key in ["q/close/abort", "q/open/peek", "q/peek/t=1", "q/close/t=1", "q/open/open"] {
            assert_eq!(asks(key), Err(BAD_PAIR), "{key}");
        }
        for key in ["q/", "q/opne", "q/t=", "q/t=+1", "q/t=99999999999"] {
            assert_eq!(asks(key), Err(BAD_GET), "{key}");
        }
        for key in ["/open", "-q", "q!"] {
            assert_eq!(asks(key), Err(BAD_QUEUE), "{key}");
        }
    }

    #[test]
    fn a_message_has_its_priority_delay_time_to_run_and_key_from_its_queues_key() {
        let put = put_of_key(b"q/priority=3/delay=5/ttr=60/unique=k").unwrap();
        assert_eq!((put.tube, put.priority, put.delay, put.ttr, put.key), (Some("q"), 3, 5, 60, Some("k")));
        let put = put_of_key(b"q").unwrap();
        assert_eq!((put.priority, put.delay, put.ttr, put.key), (PRIORITY, 0, TTR, None));
        for key in ["q/open", "q/ttr=x", "q/unique=", "q/"] {
            assert_eq!(put_of_key(key.as_bytes()), Err(BAD_SET), "{key}");
        }
        assert_eq!(queue(b"q"), Ok("q"));
        assert_eq!(queue(b"q/open"), Err(BAD_QUEUE));
    }

    fn reply_format(reply_format: &ReplyFormat, answer: &str) -> (String, Option<Id>) {
        let mut out = Vec::new();
        let open = reply_format.tell(answer.as_bytes(), &mut out);
        (String::from_utf8(out).unwrap(), open)
    }

    #[test]
    fn answers_are_reported_in_memcacheds_words() {
        let value = |unique, open, last| ReplyFormat::Value { key: (*b"q/open").into(), unique, open, last };
        for (manner, answer, expected) in [
            (ReplyFormat::Put, "INSERTED 5\r\n", "STORED\r\n"),
            (ReplyFormat::Put, "EXISTS 5\r\n", "NOT_STORED\r\n"),
            (ReplyFormat::Put, "OUT_OF_MEMORY\r\n", "SERVER_ERROR out of memory storing object\r\n"),
            (ReplyFormat::Deleted, "UNKNOWN_TUBE\r\n", "NOT_FOUND\r\n"),
            (ReplyFormat::Ended, "NOT_FOUND\r\n", "CLIENT_ERROR the reservation had run out\r\n"),
            (ReplyFormat::Not, "DELETED\r\n", ""),
            (value(false, false, true), "POPPED 7 3 0\r\na\r\n\r\n", "VALUE q/open 0 3\r\na\r\n\r\nEND\r\n"),
            (value(true, false, false), "POPPED 7 1 9\r\na\r\n", "VALUE q/open 9 1 7\r\na\r\n"),
            (value(false, false, true), "TIMED_OUT\r\n", "END\r\n"),
            (value(false, false, false), "NOT_FOUND\r\n", ""),
        ] {
            assert_eq!(reply_format(&manner, answer), (expected.to_owned(), None), "{answer}");
        }
        assert_eq!(reply_format(&value(false, true, true), "RESERVED 7 1 0\r\na\r\n").1, Some(7));
        assert_eq!(reply_format(&value(false, true, true), "TIMED_OUT\r\n").1, None);
    }

    #[test]
    fn an_expiry_time_is_counted_from_now_up_to_thirty_days_and_a_time_beyond() {
        let now = Nanos::from_secs(1_800_000_000);
        for (exptime, expected) in [
            (0, None),
            (-1, Some(0)),
            (1, Some(1)),
            (2_592_000, Some(2_592_000)),
            (2_592_001, Some(0)),
            (1_800_000_000, Some(0)),
            (1_800_000_005, Some(5)),
        ] {
            assert_eq!(lives(exptime, now), expected, "{exptime}");
        }
    }

    #[test]
    fn a_queue_is_emptied_by_a_word_of_its_own() {
        assert_eq!(parse(b"flush q\r\nget", 10), QueueRequest::Flush(b"q", 9));
        assert!(matches!(parse(b"flush q", 10), QueueRequest::Incomplete(_)));
        assert!(matches!(parse(b"flush\r\n", 10), QueueRequest::Refused(_)));
    }

    proptest! {
        #[test]
        fn no_key_does_harm(key in prop::collection::vec(prop::sample::select(b"q/opencls=t0 5abrk.".to_vec()), 0..40)) {
            if let Ok(query) = queue_get(&key) {
                prop_assert!(key.starts_with(query.queue.as_bytes()));
                prop_assert!(query.take.is_some() || query.end.is_some());
            }
            let _ = (put_of_key(&key), queue(&key));
        }
    }
}
