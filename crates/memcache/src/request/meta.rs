//! The meta commands: a command of two letters, one key, and flags of one letter that may carry a word of their own.
//!
//! What a flag means is the server's business: it is handed on, known or not. Read here is only what decides where a
//! request begins and ends, who is asked, and whether an answer is wanted: the key, the length of a value, `b` and `q`. A
//! set whose flags are wrong is refused here all the same. Its value follows it, and whether a server takes that for a value
//! or for commands must not hang on how it reads the flags.

use super::{BAD_CHUNK, BAD_FORMAT, ERROR, Limits, Parsed, Refusal, Request, Storage, number};
use crate::request::text::{Line, Outcome, words};
use crate::response::Expect;

/// The meta commands that reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaCommand {
    /// `mg`: fetch, touch, or only look.
    Get,
    /// `ms`: store in one of five modes.
    Set,
    /// `md`: delete, or mark as stale.
    Delete,
    /// `ma`: count up or down.
    Arithmetic,
    /// `me`: what the server knows of an item.
    Debug,
}

/// A meta request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// Which command.
    pub command: MetaCommand,
    /// The key as it stands on the line; at most 250 bytes, also in base64.
    pub key: &'a [u8],
    /// The key is written in base64 (`b`).
    pub base64: bool,
    /// The flags, `b` and `q` among them.
    pub flags: Flags<'a>,
    /// The value of a set; empty for the others.
    pub data: &'a [u8],
    /// The client wants to hear only what is not as usual (`q`).
    pub quiet: bool,
    /// The request's own bytes, if a server can be sent them as they are and will answer: single blanks, the usual
    /// line ends, not quiet.
    pub verbatim: Option<&'a [u8]>,
}

/// Flags as they stand in their line, parted by one or more blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags<'a> {
    text: &'a [u8],
}

impl<'a> Flags<'a> {
    /// The flags in order: the letter, and the word that follows it.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        words(self.text).filter_map(|word| word.split_first()).map(|(&letter, token)| (letter, token))
    }
}

/// As many bytes as a decoded key may have.
pub const LONGEST_NAME: usize = 250 / 4 * 3;

impl<'a> Meta<'a> {
    /// What follows a flag's letter; nothing where the flag is not set.
    pub fn flag(&self, letter: u8) -> Option<&'a [u8]> {
        self.flags.iter().find(|&(other, _)| other == letter).map(|(_, token)| token)
    }

    /// Whether one of these flags is set.
    pub fn has_any(&self, letters: &[u8]) -> bool {
        self.flags.iter().any(|(letter, _)| letters.contains(&letter))
    }

    /// The key by which the server knows the item, whichever way it was written: `mg Zm9v b` and `get foo` are about
    /// the same one. A key that is no base64 is left as it is: the server will find fault with it.
    pub fn name<'b>(&self, buffer: &'b mut [u8; LONGEST_NAME]) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.base64 { name_of(self.key, buffer) } else { self.key }
    }

    /// What the server owes.
    pub fn expect(&self) -> Expect {
        Expect::Meta { command: self.command, value: self.has_any(b"v") }
    }

    /// What a set does, by its mode.
    pub fn storage(&self) -> Storage {
        match self.flag(b'M') {
            Some(b"E") => Storage::Add,
            Some(b"A") => Storage::Append,
            Some(b"P") => Storage::Prepend,
            Some(b"R") => Storage::Replace,
            _ if self.has_any(b"C") => Storage::Cas,
            _ => Storage::Set,
        }
    }
}

/// What a key written in base64 means; the key as it is where it is no base64.
pub fn name_of<'b>(key: &'b [u8], buffer: &'b mut [u8; LONGEST_NAME]) -> &'b [u8] {
    match decode(key, buffer) {
        Some(length) => &buffer[..length],
        None => key,
    }
}

impl MetaCommand {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "mg",
            Self::Set => "ms",
            Self::Delete => "md",
            Self::Arithmetic => "ma",
            Self::Debug => "me",
        }
    }
}

/// memcached looks at no more words than these, the command among them; more is an error.
const MOST_WORDS: usize = 19;
/// The longest opaque, its letter included, in bytes.
const LONGEST_OPAQUE: usize = 32;

const TOO_MANY_TO_GET: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
const TOO_MANY: &[u8] = b"CLIENT_ERROR options flags too long\r\n";
const DUPLICATE: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
const INVALID: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
const INVALID_OR_DUPLICATE: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
const BAD_MODE_LENGTH: &[u8] = b"CLIENT_ERROR incorrect length for M token\r\n";
const BAD_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";
const BAD_INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
const OPAQUE_TOO_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";

/// Reads the line of a meta command; `rest` is what follows the command's word.
pub(super) fn parse<'a>(
    line: &Line<'a>,
    command: MetaCommand,
    rest: &'a [u8],
    limits: &Limits,
) -> Outcome<'a> {
    let (key, rest) = first_word(rest);
    if key.is_empty() {
        return line.answer(false, if command == MetaCommand::Debug { BAD_FORMAT } else { ERROR });
    }
    if key.len() > limits.key {
        return line.answer(false, BAD_FORMAT);
    }
    let count = 2 + words(rest).count();
    if command == MetaCommand::Debug {
        // Only the first flag is looked at, and it is this one or none.
        let base64 = words(rest).next() == Some(b"b");
        let meta = Meta {
            command,
            key,
            base64,
            flags: Flags { text: rest },
            data: b"",
            quiet: false,
            verbatim: None,
        };
        return line.complete(Request::Meta(Meta { verbatim: line.plain().then(|| line.whole()), ..meta }));
    }
    if command == MetaCommand::Set {
        return parse_set(line, key, rest, count, limits);
    }
    if count > MOST_WORDS {
        return line.answer(false, if command == MetaCommand::Get { TOO_MANY_TO_GET } else { TOO_MANY });
    }
    let flags = Flags { text: rest };
    let quiets = flags.iter().filter(|&(letter, _)| letter == b'q').count();
    if quiets > 1 {
        // A server must never be sent this flag, and this is not for it to judge.
        let fault = match (command, faults(key, flags)) {
            (MetaCommand::Get, Faults::Sure(fault)) => fault,
            (MetaCommand::Get, _) => DUPLICATE,
            _ => INVALID_OR_DUPLICATE,
        };
        return line.answer(false, fault);
    }
    let quiet = quiets > 0;
    let base64 = flags.iter().any(|(letter, _)| letter == b'b');
    let verbatim = (!quiet && line.plain()).then(|| line.whole());
    line.complete(Request::Meta(Meta { command, key, base64, flags, data: b"", quiet, verbatim }))
}

fn parse_set<'a>(
    line: &Line<'a>,
    key: &'a [u8],
    rest: &'a [u8],
    count: usize,
    limits: &Limits,
) -> Outcome<'a> {
    let (length, rest) = first_word(rest);
    if length.is_empty() {
        return line.answer(false, BAD_FORMAT);
    }
    if count > MOST_WORDS {
        return line.answer(false, TOO_MANY);
    }
    // memcached counts lengths in 31 bits, the line end included.
    let plain = line.plain() && number::plain(length);
    let length = match number::unsigned(length) {
        Some(length) if length <= i32::MAX as u64 - 2 => length,
        _ => return line.answer(false, BAD_FORMAT),
    };
    let flags = Flags { text: rest };
    let fault = match faults(key, flags) {
        Faults::Sure(fault) => Some(fault),
        Faults::None | Faults::Unknown => faults_of_a_set(flags),
    };
    if let Some(reply) = fault {
        return Parsed::Invalid(Refusal::Swallow { reply, used: line.used, swallow: length + 2 });
    }
    let quiet = flags.iter().any(|(letter, _)| letter == b'q');
    let base64 = flags.iter().any(|(letter, _)| letter == b'b');
    if length > limits.value as u64 {
        return Parsed::Invalid(Refusal::TooLarge {
            command: Storage::Set,
            key,
            base64,
            used: line.used,
            swallow: length + 2,
            noreply: false,
        });
    }
    let end = line.used + length as usize;
    if line.bytes.len() < end + 2 {
        return Parsed::Incomplete { needed: end + 2 };
    }
    if &line.bytes[end..end + 2] != b"\r\n" {
        return Parsed::Invalid(Refusal::Answer { reply: BAD_CHUNK, used: end + 2 });
    }
    let verbatim = (!quiet && plain).then(|| &line.bytes[..end + 2]);
    let data = &line.bytes[line.used..end];
    let meta = Meta { command: MetaCommand::Set, key, base64, flags, data, quiet, verbatim };
    Parsed::Complete { message: Request::Meta(meta), used: end + 2 }
}

/// The first word, and what follows it.
fn first_word(text: &[u8]) -> (&[u8], &[u8]) {
    let Some(start) = text.iter().position(|&byte| byte != b' ') else { return (b"", b"") };
    let text = &text[start..];
    text.split_at(text.iter().position(|&byte| byte == b' ').unwrap_or(text.len()))
}

/// What memcached 1.6.18 would say about flags, whatever the command.
enum Faults {
    /// Nothing is wrong with them.
    None,
    /// This.
    Sure(&'static [u8]),
    /// There is a flag it does not know, and nothing is wrong with the others: later servers may know it.
    Unknown,
}

/// memcached tells the last fault it finds, unless it is a flag it does not know or has seen before: there it stops.
fn faults(key: &[u8], flags: Flags<'_>) -> Faults {
    let mut fault = None;
    let (mut unknown, mut nowhere) = (false, false);
    let mut seen = 0_u128;
    for (letter, token) in flags.iter() {
        if letter >= 127 || seen & (1 << letter) != 0 {
            return Faults::Sure(if unknown { INVALID } else { DUPLICATE });
        }
        seen |= 1 << letter;
        // No server shall refuse what we let pass: later ones take no plus sign and no long row of zeros.
        let longest = if b"NTRF".contains(&letter) { 11 } else { 20 };
        let plain = !token.starts_with(b"+") && token.len() <= longest;
        let found = match letter {
            b'b' if decode(key, &mut [0; LONGEST_NAME]).is_none() => Some(BAD_KEY),
            b'N' | b'T' | b'R' if !plain || number::signed_32(token).is_none() => Some(BAD_TOKEN),
            b'F' if !plain || number::unsigned_32(token).is_none() => Some(fault.unwrap_or(BAD_FORMAT)),
            b'C' | b'E' if !plain || number::unsigned(token).is_none() => Some(BAD_TOKEN),
            b'M' if token.len() != 1 => Some(BAD_MODE_LENGTH),
            b'J' if !plain || number::unsigned(token).is_none() => Some(BAD_INITIAL),
            b'D' if !plain || number::unsigned(token).is_none() => Some(BAD_DELTA),
            _ => None,
        };
        fault = found.or(fault);
        unknown |= !b"bNTRlOPLkstcfvhuqFCMJDI".contains(&letter);
        // Flags are letters. What is none, later servers take for a line that is no request, and a set's value for the next one.
        nowhere |= !letter.is_ascii_alphabetic();
    }
    match (fault, unknown) {
        (Some(_), true) => Faults::Sure(INVALID),
        (None, true) if nowhere => Faults::Sure(INVALID),
        (Some(fault), false) => Faults::Sure(fault),
        (None, true) => Faults::Unknown,
        (None, false) => Faults::None,
    }
}

fn faults_of_a_set(flags: Flags<'_>) -> Option<&'static [u8]> {
    let mut fault = None;
    for (letter, token) in flags.iter() {
        match letter {
            b'M' if !b"EAPRS".contains(&token[0]) => return Some(BAD_MODE),
            b'O' if token.len() >= LONGEST_OPAQUE => fault = Some(OPAQUE_TOO_LONG),
            _ => {}
        }
    }
    fault
}

/// Base64 as memcached reads it: what is no letter of its alphabet is gone past, the letters must come in fours, what
/// follows the padding does not count. Gives the length; none where it would find no key.
fn decode(text: &[u8], into: &mut [u8; LONGEST_NAME]) -> Option<usize> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        b'=' => Some(0),
        _ => None,
    };
    let letters = text.iter().filter(|&&byte| value(byte).is_some()).count();
    if letters == 0 || letters % 4 != 0 || letters / 4 * 3 > into.len() {
        return None;
    }
    let (mut length, mut bits, mut count, mut padding) = (0, 0_u32, 0, 0);
    for &byte in text {
        let Some(six) = value(byte) else { continue };
        padding += usize::from(byte == b'=');
        bits = bits << 6 | u32::from(six);
        count += 1;
        if count % 4 == 0 {
            into[length..length + 3].copy_from_slice(&bits.to_be_bytes()[1..]);
            length += 3;
            bits = 0;
            match padding {
                0 => {}
                1 | 2 => return Some(length - padding),
                _ => return None,
            }
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests;
