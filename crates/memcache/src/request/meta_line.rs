//! How the line of a meta command is read, and a set's value behind it.

use super::command::{BAD_CHUNK, BAD_FORMAT, ERROR, Refusal, Request, TOO_MANY_FLAGS};
use super::line::{CommandLine, LineOutcome};
use super::meta::{LONGEST_NAME, Meta, MetaFlags, decode};
use super::verb::{MetaCommand, Storage};
use crate::find::words;
use crate::{Limits, Parsed, number};

/// memcached looks at no more words than these, the command among them; more is an error.
const MOST_WORDS: usize = 19;
/// The longest opaque, its letter included, in bytes.
const LONGEST_OPAQUE: usize = 32;

const TOO_MANY_TO_GET: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
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
    line: &CommandLine<'a>,
    command: MetaCommand,
    rest: &'a [u8],
    limits: &Limits,
) -> LineOutcome<'a> {
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
            flags: MetaFlags { text: rest },
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
        return line
            .answer(false, if command == MetaCommand::Get { TOO_MANY_TO_GET } else { TOO_MANY_FLAGS });
    }
    let flags = MetaFlags { text: rest };
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
    line: &CommandLine<'a>,
    key: &'a [u8],
    rest: &'a [u8],
    count: usize,
    limits: &Limits,
) -> LineOutcome<'a> {
    let (length, rest) = first_word(rest);
    if length.is_empty() {
        return line.answer(false, BAD_FORMAT);
    }
    if count > MOST_WORDS {
        return line.answer(false, TOO_MANY_FLAGS);
    }
    // memcached counts lengths in 31 bits, the line end included.
    let plain = line.plain() && number::plain(length);
    let length = match number::unsigned(length) {
        Some(length) if length <= i32::MAX as u64 - 2 => length,
        _ => return line.answer(false, BAD_FORMAT),
    };
    let flags = MetaFlags { text: rest };
    let fault = match faults(key, flags) {
        Faults::Sure(fault) => Some(fault),
        Faults::None | Faults::Unknown => faults_of_a_set(flags),
    };
    if let Some(reply) = fault {
        return Parsed::Invalid(Refusal::Discard { reply, used: line.used, discard: length + 2 });
    }
    let quiet = flags.iter().any(|(letter, _)| letter == b'q');
    let base64 = flags.iter().any(|(letter, _)| letter == b'b');
    if length > limits.value as u64 {
        return Parsed::Invalid(Refusal::TooLarge {
            command: Storage::Set,
            key,
            base64,
            used: line.used,
            discard: length + 2,
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
    /// There is a flag it does not know, and nothing is wrong with the others: later servers may
    /// know it.
    Unknown,
}

/// memcached tells the last fault it finds, unless it is a flag it does not know or has seen
/// before: there it stops.
fn faults(key: &[u8], flags: MetaFlags<'_>) -> Faults {
    let mut fault = None;
    let (mut unknown, mut nowhere) = (false, false);
    let mut seen = 0_u128;
    for (letter, token) in flags.iter() {
        if letter >= 127 || seen & (1 << letter) != 0 {
            return Faults::Sure(if unknown { INVALID } else { DUPLICATE });
        }
        seen |= 1 << letter;
        // No server shall refuse what we let pass: later ones take no plus sign and no long row of
        // zeros.
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
        // Flags are letters. What is none, later servers take for a line that is no request, and a
        // set's value for the next one.
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

fn faults_of_a_set(flags: MetaFlags<'_>) -> Option<&'static [u8]> {
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

#[cfg(test)]
mod tests;
