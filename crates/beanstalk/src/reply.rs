//! Replies from bytes.

use krarup_units::Parsed;

use crate::name::name;
use crate::number::{end_of_line, number};
use crate::word::{ReplyForm, ReplyWord};

/// The longest line of a reply, its end left out.
pub const LONGEST_LINE: usize = 256;
/// The largest body that is read, in bytes; no server keeps larger ones.
pub const LARGEST: u64 = 1 << 30;

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A word, perhaps with a number; what stands behind that is not looked at.
    Line {
        /** The word. */
        word: ReplyWord,
        /** The number. */
        number: Option<u64>,
    },
    /// The tube in use.
    Using(&'a str),
    /// The message that is ready.
    Ready {
        /** Its priority. */
        priority: u32,
        /** Its number. */
        id: u64,
    },
    /// A message.
    Message {
        /** Whether it is leased, taken or shown. */
        word: ReplyWord,
        /** Its number. */
        id: u64,
        /** Its flags, for clients that asked for them. */
        flags: Option<u32>,
        /** The message itself. */
        body: &'a [u8],
    },
    /// Names or statistics.
    Data(&'a [u8]),
    /// Several replies to one request.
    Batch {
        /** To which. */
        word: ReplyWord,
        /** One after the other. */
        replies: Replies<'a>,
    },
    /// A line whose first word is not known, without its end.
    Unknown(&'a [u8]),
}

impl<'a> Reply<'a> {
    /// Its first word, if it is known.
    pub const fn word(&self) -> Option<ReplyWord> {
        Some(match self {
            Self::Line { word, .. } | Self::Message { word, .. } | Self::Batch { word, .. } => *word,
            Self::Using(_) => ReplyWord::Using,
            Self::Ready { .. } => ReplyWord::Ready,
            Self::Data(_) => ReplyWord::Ok,
            Self::Unknown(_) => return None,
        })
    }

    /// Whether it begins with this word.
    pub fn is(&self, expected: ReplyWord) -> bool {
        self.word() == Some(expected)
    }

    /// The names of a list; none of any other reply.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.lines().filter_map(|line| line.strip_prefix("- "))
    }

    /// Keys and values of statistics; none of any other reply.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.lines().filter_map(|line| line.split_once(": "))
    }

    fn lines(&self) -> impl Iterator<Item = &'a str> {
        let data = if let Self::Data(data) = self { *data } else { b"" };
        std::str::from_utf8(data).unwrap_or_default().lines()
    }
}

/// Several replies, checked to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replies<'a> {
    count: u64,
    bytes: &'a [u8],
}

impl<'a> Replies<'a> {
    /// How many they are.
    pub const fn len(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them as they are written.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Reply<'a>> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || match read(rest, false) {
            Parsed::Complete { message, used } => {
                rest = &rest[used..];
                Some(message)
            }
            _ => None,
        })
    }
}

/// The first word of a reply, if it is known; no more of it need be there.
pub fn first_word(bytes: &[u8]) -> Option<ReplyWord> {
    let end = bytes.iter().position(|byte| matches!(byte, b' ' | b'\r')).unwrap_or(bytes.len());
    ReplyWord::of(&bytes[..end])
}

/// Reads one reply from the front of `bytes`.
///
/// # Errors
/// Says what is wrong with bytes that begin no reply.
pub fn parse(bytes: &[u8]) -> Parsed<Reply<'_>, &'static str> {
    read(bytes, true)
}

/// Reads one reply, which may be several in one if it is not such a one's part itself.
fn read(bytes: &[u8], may_be_several: bool) -> Parsed<Reply<'_>, &'static str> {
    let window = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(length) = end_of_line(window) else {
        return if window.len() == LONGEST_LINE {
            Parsed::Invalid("a line without an end")
        } else {
            Parsed::Incomplete { needed: bytes.len() + 1 }
        };
    };
    let (line, begin) = (&bytes[..length], length + 2);
    let complete = |message| Parsed::Complete { message, used: begin };
    let Some(word) = first_word(line) else { return complete(Reply::Unknown(line)) };
    let mut rest = line[word.name().len()..].strip_prefix(b" ").unwrap_or_default();
    let mut next = || {
        let (value, behind) = number(rest, u64::MAX).filter(|_| !rest.starts_with(b" "))?;
        if behind.is_empty() {
            rest = behind;
        } else {
            rest = behind.strip_prefix(b" ")?;
        }
        Some(value)
    };
    const NUMBERS: Parsed<Reply<'_>, &str> = Parsed::Invalid("an answer without its numbers");
    match word.form() {
        ReplyForm::Line => complete(Reply::Line { word, number: next() }),
        ReplyForm::Tube => match name(rest) {
            Some(tube) => complete(Reply::Using(tube)),
            None => Parsed::Invalid("an answer without a name"),
        },
        ReplyForm::Ready => {
            let (priority, id) = (next().and_then(|priority| u32::try_from(priority).ok()), next());
            let (Some(priority), Some(id)) = (priority, id) else { return NUMBERS };
            complete(Reply::Ready { priority, id })
        }
        ReplyForm::Message => {
            let (Some(id), Some(size)) = (next(), next()) else { return NUMBERS };
            let flags = next().and_then(|flags| u32::try_from(flags).ok());
            with_body(bytes, begin, size, |body| Reply::Message { word, id, flags, body })
        }
        ReplyForm::Data => match next() {
            Some(size) => with_body(bytes, begin, size, Reply::Data),
            None => NUMBERS,
        },
        ReplyForm::Batch if !may_be_several => Parsed::Invalid("an answer of several within another"),
        ReplyForm::Batch => match next() {
            Some(count) => with_replies(bytes, begin, word, count),
            None => NUMBERS,
        },
    }
}

fn with_body<'a>(
    bytes: &'a [u8],
    begin: usize,
    size: u64,
    reply: impl FnOnce(&'a [u8]) -> Reply<'a>,
) -> Parsed<Reply<'a>, &'static str> {
    if size > LARGEST {
        return Parsed::Invalid("a message beyond any size");
    }
    let used = begin + size as usize + 2;
    let Some(body) = bytes.get(begin..used) else { return Parsed::Incomplete { needed: used } };
    match body.strip_suffix(b"\r\n") {
        Some(body) => Parsed::Complete { message: reply(body), used },
        None => Parsed::Invalid("a message without its end"),
    }
}

fn with_replies(bytes: &[u8], begin: usize, word: ReplyWord, count: u64) -> Parsed<Reply<'_>, &'static str> {
    let mut used = begin;
    for _ in 0..count {
        match read(&bytes[used..], false) {
            Parsed::Complete { used: one, .. } => used += one,
            Parsed::Incomplete { needed } => return Parsed::Incomplete { needed: used + needed },
            Parsed::Invalid(why) => return Parsed::Invalid(why),
        }
    }
    let replies = Replies { count, bytes: &bytes[begin..used] };
    Parsed::Complete { message: Reply::Batch { word, replies }, used }
}

#[cfg(test)]
mod tests;
