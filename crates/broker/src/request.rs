//! beanstalkd's text protocol, as bytes in and values out; never a socket.
//!
//! ```text
//! verb word word …\r\n                 most requests are one line
//! put … <bytes>\r\n<body>\r\n          those that bring a message have its body behind it
//! ```
//!
//! Every verb of beanstalkd's protocol document is here, with what its program makes of odd spacing and odd numbers; behind
//! them stand verbs that no beanstalkd knows, in the same grammar: see [`EXTRA_VERBS`].

use krarup_units::Nanos;

use crate::names::{is_name_byte, name};

/// The longest line of beanstalkd's own verbs, its end included.
pub const LONGEST_LINE: usize = 224;
/// The longest line of the extra verbs, which may have several names in it.
const LONGEST_EXTRA_LINE: usize = 768;
/// The bodies of one `put-batch`, their ends of lines included, have so many bytes at most, or as many as one message may have.
const LARGEST_BATCH: u64 = 4 << 20;
/// The verbs that beanstalkd does not know.
pub const EXTRA_VERBS: &[&str] = &[
    "login",
    "register",
    "unregister",
    "create-tube",
    "delete-tube",
    "limit-tube",
    "expire-tube",
    "archive-tube",
    "send",
    "put-in-tube",
    "put-to",
    "put-unique",
    "put-batch",
    "pop",
    "pop-tube",
    "peek-tube",
    "pop-sender",
    "peek-sender",
    "list-tubes-for-me",
    "reserve-batch",
    "delete-batch",
    "await",
    "ping",
];

/// A message on its way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put<'a> {
    /// Where to; the tube in use if none is named.
    pub tube: Option<&'a str>,
    /// Who alone may have it.
    pub receiver: Option<&'a str>,
    /// Under this key a second message is none.
    pub key: Option<&'a str>,
    /// Whether the tube must have been created and the sender be logged in.
    pub strict: bool,
    /// The smaller, the sooner.
    pub priority: u32,
    /// Seconds before it is ready.
    pub delay: u32,
    /// Seconds a lease of it lasts; zero counts as one.
    pub ttr: u32,
    /// What comes back with it to those who speak memcached's protocol.
    pub flags: u32,
    /// When it is gone if it still waits, in whole seconds counted from the put; none: never.
    pub lives: Option<u32>,
    /// The message.
    pub body: &'a [u8],
}

/// Messages that come together, each with a body of its own and all else alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutBatch<'a> {
    put: Put<'a>,
    /// Lengths as they stand in the line, checked to be numbers.
    sizes: Ids<'a>,
    /// The bodies, each with its end of line.
    bodies: &'a [u8],
}

impl<'a> PutBatch<'a> {
    /// How many they are, at least one.
    pub fn len(&self) -> usize {
        self.sizes.iter().count()
    }

    /// Never: an empty batch is no request.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Put<'a>> {
        let mut begin = 0;
        self.sizes.iter().map(move |size| {
            let end = begin + size as usize;
            let body = &self.bodies[begin..end];
            begin = end + 2;
            Put { body, ..self.put }
        })
    }
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the variants are the verbs of the protocol; fields carry the names of its document"
)]
pub enum Request<'a> {
    Put(Put<'a>),
    Use(&'a str),
    Reserve { timeout: Option<Nanos> },
    ReserveJob(u64),
    Delete(u64),
    Release { id: u64, priority: u32, delay: u32 },
    Bury { id: u64, priority: u32 },
    Touch(u64),
    Watch(&'a str),
    Ignore(&'a str),
    Peek(u64),
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Kick(u32),
    KickJob(u64),
    Stats,
    StatsJob(u64),
    StatsTube(&'a str),
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube { tube: &'a str, seconds: u32 },
    Quit,
    Login { client: &'a str, secret: Option<&'a str> },
    Register(&'a str),
    Unregister(&'a str),
    CreateTube(&'a str),
    DeleteTube(&'a str),
    LimitTube { tube: &'a str, most: u32, dead: Option<&'a str> },
    ExpireTube { tube: &'a str, seconds: u32 },
    ArchiveTube { tube: &'a str, seconds: u32 },
    Pop { timeout: Nanos },
    PopTube(&'a str),
    PeekTube(&'a str),
    PopSender(&'a str),
    PeekSender(&'a str),
    ListTubesForMe,
    ReserveBatch { most: u32, timeout: Nanos },
    DeleteBatch(Ids<'a>),
    Await { timeout: Nanos },
    Ping,
}

/// Ids as they stand in a line, checked to be numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids<'a>(&'a [u8]);

impl Ids<'_> {
    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty())
            .map(|word| number(word, u64::MAX).expect("checked when the line was read").0)
    }
}

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The line is not as its verb wants it.
    BadFormat,
    /// No such verb.
    UnknownCommand,
    /// A body without an end of line behind it.
    ExpectedCrlf,
    /// A body beyond the limit.
    JobTooBig,
}

impl Wrong {
    /// The protocol's answer.
    pub const fn line(self) -> &'static [u8] {
        match self {
            Self::BadFormat => b"BAD_FORMAT\r\n",
            Self::UnknownCommand => b"UNKNOWN_COMMAND\r\n",
            Self::ExpectedCrlf => b"EXPECTED_CRLF\r\n",
            Self::JobTooBig => b"JOB_TOO_BIG\r\n",
        }
    }
}

/// What came of reading one request from the front of a byte slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole request, made of the first `used` bytes.
    Complete {
        /** The request. */
        request: Request<'a>,
        /** Its length. */
        used: usize,
    },
    /// Several messages, made of the first `used` bytes.
    Batch {
        /** The messages. */
        batch: PutBatch<'a>,
        /** Their length together, the line before them included. */
        used: usize,
    },
    /// The bytes so far begin a request that has at least `needed` bytes, more than are there.
    Incomplete {
        /** Counted from the front. */
        needed: usize,
    },
    /// No request. `swallow` bytes, of which not all need be there yet, go by before it is answered.
    Invalid {
        /** Why. */
        why: Wrong,
        /** Counted from the front. */
        swallow: u64,
    },
    /// No request and no end in sight: everything up to the next end of line goes by.
    Endless,
}

/// Reads one request from the front of `bytes`, whose bodies may have `largest` bytes.
pub fn parse(bytes: &[u8], largest: u32) -> Parsed<'_> {
    let window = &bytes[..bytes.len().min(LONGEST_EXTRA_LINE)];
    let Some(length) = memchr::memmem::find(window, b"\r\n") else {
        return if window.len() == LONGEST_EXTRA_LINE {
            Parsed::Endless
        } else {
            Parsed::Incomplete { needed: bytes.len() + 1 }
        };
    };
    let (line, begin) = (&bytes[..length], length + 2);
    let invalid = |why| Parsed::Invalid { why, swallow: begin as u64 };
    let too_long = begin > LONGEST_LINE && !is_extra(line);
    if too_long || line.contains(&0) {
        return invalid(Wrong::BadFormat);
    }
    match read(line) {
        Err(why) => invalid(why),
        Ok(Line::Whole(request)) => Parsed::Complete { request, used: begin },
        // A body beyond the limit is refused as such, whatever stands behind its size.
        Ok(Line::Body { size, .. }) if size > largest => {
            Parsed::Invalid { why: Wrong::JobTooBig, swallow: begin as u64 + u64::from(size) + 2 }
        }
        Ok(Line::Body { garbage: true, .. }) => invalid(Wrong::BadFormat),
        Ok(Line::Body { put, size, .. }) => {
            let end = begin + size as usize;
            if bytes.len() < end + 2 {
                return Parsed::Incomplete { needed: end + 2 };
            }
            if &bytes[end..end + 2] != b"\r\n" {
                return Parsed::Invalid { why: Wrong::ExpectedCrlf, swallow: end as u64 + 2 };
            }
            let body = &bytes[begin..end];
            Parsed::Complete { request: Request::Put(Put { body, ..put }), used: end + 2 }
        }
        Ok(Line::Bodies { put, sizes }) => {
            let whole = sizes.iter().fold(0_u64, |sum, size| sum.saturating_add(size).saturating_add(2));
            if whole > LARGEST_BATCH.max(u64::from(largest) + 2)
                || sizes.iter().any(|size| size > largest.into())
            {
                let swallow = (begin as u64).saturating_add(whole);
                return Parsed::Invalid { why: Wrong::JobTooBig, swallow };
            }
            let used = begin + whole as usize;
            let Some(bodies) = bytes.get(begin..used) else { return Parsed::Incomplete { needed: used } };
            let mut end = 0;
            let well = sizes.iter().all(|size| {
                end += size as usize + 2;
                &bodies[end - 2..end] == b"\r\n"
            });
            if well {
                Parsed::Batch { batch: PutBatch { put, sizes, bodies }, used }
            } else {
                Parsed::Invalid { why: Wrong::ExpectedCrlf, swallow: used as u64 }
            }
        }
    }
}

fn is_extra(line: &[u8]) -> bool {
    let verb = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    EXTRA_VERBS.iter().any(|extra| extra.as_bytes() == verb)
}

/// What a line says.
enum Line<'a> {
    Whole(Request<'a>),
    /// A body of this size follows; something may stand behind the size that should not.
    Body {
        put: Put<'a>,
        size: u32,
        garbage: bool,
    },
    /// Several bodies of these sizes follow.
    Bodies {
        put: Put<'a>,
        sizes: Ids<'a>,
    },
}

fn read(line: &[u8]) -> Result<Line<'_>, Wrong> {
    if is_extra(line) {
        return extra(line);
    }
    // The order is beanstalkd's: some verbs begin as others do.
    let whole = |request| Ok(Line::Whole(request));
    if let Some(rest) = line.strip_prefix(b"put ") {
        return put(rest);
    } else if let Some(rest) = line.strip_prefix(b"peek ") {
        return whole(Request::Peek(only(rest)?));
    } else if line.starts_with(b"peek-ready") {
        return alone(line, b"peek-ready", Request::PeekReady);
    } else if line.starts_with(b"peek-delayed") {
        return alone(line, b"peek-delayed", Request::PeekDelayed);
    } else if line.starts_with(b"peek-buried") {
        return alone(line, b"peek-buried", Request::PeekBuried);
    } else if let Some(rest) = line.strip_prefix(b"reserve-with-timeout ") {
        // What stands behind the number is not looked at.
        let (timeout, _) = number(rest, i32::MAX as u64).ok_or(Wrong::BadFormat)?;
        return whole(Request::Reserve { timeout: Some(Nanos::from_secs(timeout)) });
    } else if let Some(rest) = line.strip_prefix(b"reserve-job ") {
        return whole(Request::ReserveJob(only(rest)?));
    } else if line.starts_with(b"reserve") {
        return alone(line, b"reserve", Request::Reserve { timeout: None });
    } else if let Some(rest) = line.strip_prefix(b"delete ") {
        return whole(Request::Delete(only(rest)?));
    } else if let Some(rest) = line.strip_prefix(b"release ") {
        let mut words = Words(rest);
        let (id, priority, delay) = (words.number()?, words.small()?, words.small()?);
        words.end()?;
        return whole(Request::Release { id, priority, delay });
    } else if let Some(rest) = line.strip_prefix(b"bury ") {
        let mut words = Words(rest);
        let (id, priority) = (words.number()?, words.small()?);
        words.end()?;
        return whole(Request::Bury { id, priority });
    } else if let Some(rest) = line.strip_prefix(b"kick ") {
        let (bound, _) = number(rest, u64::MAX).ok_or(Wrong::BadFormat)?;
        return whole(Request::Kick(bound as u32));
    } else if let Some(rest) = line.strip_prefix(b"kick-job ") {
        return whole(Request::KickJob(only(rest)?));
    } else if let Some(rest) = line.strip_prefix(b"touch ") {
        return whole(Request::Touch(only(rest)?));
    } else if let Some(rest) = line.strip_prefix(b"stats-job ") {
        return whole(Request::StatsJob(only(rest)?));
    } else if let Some(rest) = line.strip_prefix(b"stats-tube ") {
        return whole(Request::StatsTube(tube(rest)?));
    } else if line.starts_with(b"stats") {
        return alone(line, b"stats", Request::Stats);
    } else if let Some(rest) = line.strip_prefix(b"use ") {
        return whole(Request::Use(tube(rest)?));
    } else if let Some(rest) = line.strip_prefix(b"watch ") {
        return whole(Request::Watch(tube(rest)?));
    } else if let Some(rest) = line.strip_prefix(b"ignore ") {
        return whole(Request::Ignore(tube(rest)?));
    } else if line.starts_with(b"list-tubes-watched") {
        return alone(line, b"list-tubes-watched", Request::ListTubesWatched);
    } else if line.starts_with(b"list-tube-used") {
        return alone(line, b"list-tube-used", Request::ListTubeUsed);
    } else if line.starts_with(b"list-tubes") {
        return alone(line, b"list-tubes", Request::ListTubes);
    } else if line.starts_with(b"quit") {
        return whole(Request::Quit);
    } else if let Some(rest) = line.strip_prefix(b"pause-tube") {
        let mut words = Words(rest);
        let (tube, seconds) = (words.spelled()?, words.small()?);
        words.end()?;
        let tube = name(tube).ok_or(Wrong::BadFormat)?;
        return whole(Request::PauseTube { tube, seconds });
    }
    Err(Wrong::UnknownCommand)
}

fn extra(line: &[u8]) -> Result<Line<'_>, Wrong> {
    let verb = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    let mut words = Words(&line[verb.len()..]);
    let request = match verb {
        b"put-in-tube" | b"put-to" | b"put-unique" => {
            let word = words.name()?;
            let mut found = put(words.0)?;
            if let Line::Body { put, .. } = &mut found {
                match verb {
                    b"put-in-tube" => put.tube = Some(word),
                    b"put-to" => put.receiver = Some(word),
                    _ => put.key = Some(word),
                }
            }
            return Ok(found);
        }
        b"put-batch" => {
            let (priority, delay, ttr) = (words.small()?, words.small()?, words.small()?);
            let put = Put { priority, delay, ttr, ..Put::default() };
            return Ok(Line::Bodies { put, sizes: words.numbers()? });
        }
        b"send" => {
            let (tube, receiver, size) = (words.name()?, words.name_or_none()?, words.small()?);
            let put = Put { tube: Some(tube), receiver, strict: true, ttr: DEFAULT_TTR, ..Put::default() };
            return Ok(Line::Body { put, size, garbage: !words.0.is_empty() });
        }
        b"login" => Request::Login { client: words.name()?, secret: words.maybe_name()? },
        b"register" => Request::Register(words.name()?),
        b"unregister" => Request::Unregister(words.name()?),
        b"create-tube" => Request::CreateTube(words.name()?),
        b"delete-tube" => Request::DeleteTube(words.name()?),
        b"limit-tube" => {
            Request::LimitTube { tube: words.name()?, most: words.small()?, dead: words.maybe_name()? }
        }
        b"expire-tube" => Request::ExpireTube { tube: words.name()?, seconds: words.small()? },
        b"archive-tube" => Request::ArchiveTube { tube: words.name()?, seconds: words.small()? },
        b"pop" => Request::Pop { timeout: if words.0.is_empty() { Nanos::ZERO } else { words.time()? } },
        b"pop-tube" => Request::PopTube(words.name()?),
        b"peek-tube" => Request::PeekTube(words.name()?),
        b"pop-sender" => Request::PopSender(words.name()?),
        b"peek-sender" => Request::PeekSender(words.name()?),
        b"list-tubes-for-me" => Request::ListTubesForMe,
        b"reserve-batch" => {
            let most = words.small()?;
            Request::ReserveBatch {
                most: if most == 0 { return Err(Wrong::BadFormat) } else { most },
                timeout: words.time()?,
            }
        }
        b"delete-batch" => return Ok(Line::Whole(Request::DeleteBatch(words.numbers()?))),
        b"await" => Request::Await { timeout: Nanos::from_secs(words.small()?.into()) },
        b"ping" => Request::Ping,
        _ => return Err(Wrong::UnknownCommand),
    };
    words.end()?;
    Ok(Line::Whole(request))
}

/// Seconds a lease lasts where the verb has no word for it.
pub const DEFAULT_TTR: u32 = 120;

fn put(rest: &[u8]) -> Result<Line<'_>, Wrong> {
    let mut words = Words(rest);
    let (priority, delay, ttr, size) = (words.small()?, words.small()?, words.small()?, words.small()?);
    Ok(Line::Body { put: Put { priority, delay, ttr, ..Put::default() }, size, garbage: !words.0.is_empty() })
}

/// The verb and nothing else.
fn alone<'a>(line: &[u8], verb: &[u8], request: Request<'a>) -> Result<Line<'a>, Wrong> {
    if line == verb { Ok(Line::Whole(request)) } else { Err(Wrong::BadFormat) }
}

/// One number and nothing else.
fn only(text: &[u8]) -> Result<u64, Wrong> {
    let mut words = Words(text);
    let number = words.number()?;
    words.end()?;
    Ok(number)
}

fn tube(text: &[u8]) -> Result<&str, Wrong> {
    name(text).ok_or(Wrong::BadFormat)
}

/// A number of at most `most` behind any number of blanks, and what follows its last digit.
fn number(text: &[u8], most: u64) -> Option<(u64, &[u8])> {
    let text = without_blanks(text);
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let value = text[..digits].iter().try_fold(0_u64, |value, byte| {
        value.checked_mul(10)?.checked_add(u64::from(byte - b'0')).filter(|value| *value <= most)
    })?;
    Some((value, &text[digits..]))
}

/// Behind the blanks at the front; tabs are none.
fn without_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| **byte == b' ').count();
    &text[blanks..]
}

/// What is left of a line.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn number(&mut self) -> Result<u64, Wrong> {
        let (value, rest) = number(self.0, u64::MAX).ok_or(Wrong::BadFormat)?;
        self.0 = rest;
        Ok(value)
    }

    fn small(&mut self) -> Result<u32, Wrong> {
        let (value, rest) = number(self.0, u64::from(u32::MAX)).ok_or(Wrong::BadFormat)?;
        self.0 = rest;
        Ok(value as u32)
    }

    /// Nothing but numbers, one at least.
    fn numbers(&mut self) -> Result<Ids<'a>, Wrong> {
        let all = self.0;
        while !self.0.is_empty() {
            self.number()?;
        }
        if all.is_empty() { Err(Wrong::BadFormat) } else { Ok(Ids(all)) }
    }

    /// Whole seconds.
    fn time(&mut self) -> Result<Nanos, Wrong> {
        self.small().map(|seconds| Nanos::from_secs(seconds.into()))
    }

    /// Bytes that may stand in a name, as many as there are.
    fn spelled(&mut self) -> Result<&'a [u8], Wrong> {
        let text = without_blanks(self.0);
        let length = text.iter().take_while(|byte| is_name_byte(**byte)).count();
        let (word, rest) = text.split_at(length);
        self.0 = rest;
        if word.is_empty() { Err(Wrong::BadFormat) } else { Ok(word) }
    }

    fn name(&mut self) -> Result<&'a str, Wrong> {
        name(self.spelled()?).ok_or(Wrong::BadFormat)
    }

    /// A name, or a hyphen for none.
    fn name_or_none(&mut self) -> Result<Option<&'a str>, Wrong> {
        match self.spelled()? {
            b"-" => Ok(None),
            word => name(word).map(Some).ok_or(Wrong::BadFormat),
        }
    }

    /// A name if there is another word.
    fn maybe_name(&mut self) -> Result<Option<&'a str>, Wrong> {
        if self.0.is_empty() { Ok(None) } else { self.name().map(Some) }
    }

    fn end(&self) -> Result<(), Wrong> {
        if self.0.is_empty() { Ok(()) } else { Err(Wrong::BadFormat) }
    }
}

#[cfg(test)]
mod tests;
