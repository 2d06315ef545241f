//! The meta commands: a command of two letters, one key, and flags of one letter that may carry a
//! word of their own.
//!
//! What a flag means is the server's business: it is handed on, known or not. Read here is only
//! what decides where a request begins and ends, who is asked, and whether an answer is wanted: the
//! key, the length of a value, `b` and `q`. A set whose flags are wrong is refused here all the
//! same. Its value follows it, and whether a server takes that for a value or for commands must not
//! hang on how it reads the flags.

use super::verb::{MetaCommand, Storage};
use crate::find::words;
use crate::response::Expect;

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
    pub flags: MetaFlags<'a>,
    /// The value of a set; empty for the others.
    pub data: &'a [u8],
    /// The client wants to hear only what is not as usual (`q`).
    pub quiet: bool,
    /// The request's own bytes, if a server can be sent them as they are and will answer: single
    /// blanks between words and none elsewhere, CR LF, not quiet.
    pub verbatim: Option<&'a [u8]>,
}

/// Flags as they stand in their line, parted by one or more blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaFlags<'a> {
    pub(super) text: &'a [u8],
}

impl<'a> MetaFlags<'a> {
    /// The flags in order: the letter, and the word that follows it.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        words(self.text).filter_map(|word| word.split_first()).map(|(&letter, token)| (letter, token))
    }

    /// How many bytes of their line they take, the blanks among them.
    pub fn length(&self) -> usize {
        self.text.len()
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

    /// The key by which the server knows the item, whichever way it was written: `mg Zm9v b` and
    /// `get foo` are about the same one. A key that is no base64 is left as it is: the server will
    /// find fault with it.
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

/// Base64 as memcached reads it: what is no letter of its alphabet is gone past, the letters must
/// come in fours, what follows the padding does not count. Gives the length; none where it would
/// find no key.
pub(super) fn decode(text: &[u8], into: &mut [u8; LONGEST_NAME]) -> Option<usize> {
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
