//! The classic commands: one line of words, for storage followed by a value of the announced
//! length.

use super::command::{
    BAD_CHUNK, BAD_DELETE, BAD_DELTA, BAD_EXPTIME, BAD_FORMAT, ERROR, Keys, LINE_TOO_LONG, NO_BINARY,
    Refusal, Request, Retrieve, StorageRequest,
};
use super::line::{CommandLine, LineOutcome};
use super::meta_line;
use super::verb::{Arithmetic, MetaCommand, Retrieval, Storage};
use crate::find::words;
use crate::{Limits, Parsed, find, number};

/// memcached looks at no more words than these in a line that is not a retrieval; more is an error.
const MOST_WORDS: usize = 8;

/// The longest line that touches what it retrieves, in bytes: as much as memcached reads at once.
/// On a longer one it closes the connection.
const LONGEST_TOUCHING: usize = 16 << 10;

/// The words of a line that is not a retrieval.
struct Words<'a> {
    words: [&'a [u8]; MOST_WORDS],
    /// How many there are; the array holds the first of them.
    count: usize,
    /// Whether they stand in the line as a careful client writes them.
    plain: bool,
}

impl<'a> Words<'a> {
    fn of(line: &CommandLine<'a>) -> Self {
        let mut found = [&line.text[..0]; MOST_WORDS];
        let mut count = 0;
        let mut length = 0;
        for word in words(line.text) {
            if count < MOST_WORDS {
                found[count] = word;
            }
            count += 1;
            length += word.len() + 1;
        }
        Self { words: found, count, plain: line.is_plain_of(length) }
    }

    /// memcached looks for the word at the end of the line, before it looks at anything else.
    fn noreply(&self) -> bool {
        (2..=MOST_WORDS).contains(&self.count) && self.words[self.count - 1] == b"noreply"
    }
}

pub(super) fn parse<'a>(bytes: &'a [u8], limits: &Limits) -> LineOutcome<'a> {
    let line = match cut_line(bytes, limits) {
        Ok(line) => line,
        Err(outcome) => return outcome,
    };
    // The most usual one, for which nothing is looked at twice.
    if !line.nul && line.text.starts_with(b"get ") {
        return line.retrieve(Retrieval::Get, &line.text[b"get".len()..], limits);
    }
    // Commands are told apart by their first word; the usual ones have it at the very front.
    let start = line.text.iter().position(|&byte| byte != b' ').unwrap_or(line.text.len());
    let end = find::first(b' ', &line.text[start..]).map_or(line.text.len(), |length| start + length);
    let rest = &line.text[end..];
    let command = &line.text[start..end];
    if line.nul {
        // memcached takes a NUL for the line's end, or not, depending on where it stands. Guessing
        // what it would do with the rest is how answers get out of step.
        return line.answer(false, BAD_FORMAT);
    }
    match command {
        b"get" | b"bget" => line.retrieve(Retrieval::Get, rest, limits),
        b"gets" => line.retrieve(Retrieval::Gets, rest, limits),
        b"gat" => line.retrieve(Retrieval::Gat, rest, limits),
        b"gats" => line.retrieve(Retrieval::Gats, rest, limits),
        b"set" => line.store(Storage::Set, limits),
        b"add" => line.store(Storage::Add, limits),
        b"replace" => line.store(Storage::Replace, limits),
        b"append" => line.store(Storage::Append, limits),
        b"prepend" => line.store(Storage::Prepend, limits),
        b"cas" => line.store(Storage::Cas, limits),
        b"delete" => line.delete(limits),
        b"incr" => line.arithmetic(Arithmetic::Incr, limits),
        b"decr" => line.arithmetic(Arithmetic::Decr, limits),
        b"touch" => line.touch(limits),
        b"flush_all" => line.flush_all(),
        b"verbosity" => line.verbosity(),
        b"stats" => line.complete(Request::Stats { argument: rest.trim_ascii() }),
        b"version" => line.complete(Request::Version),
        b"quit" => line.complete(Request::Quit),
        b"mg" => meta_line::parse(&line, MetaCommand::Get, rest, limits),
        b"ms" => meta_line::parse(&line, MetaCommand::Set, rest, limits),
        b"md" => meta_line::parse(&line, MetaCommand::Delete, rest, limits),
        b"ma" => meta_line::parse(&line, MetaCommand::Arithmetic, rest, limits),
        b"me" => meta_line::parse(&line, MetaCommand::Debug, rest, limits),
        b"mn" => line.complete(Request::NoOp),
        _ if words(rest).last().is_some_and(|word| word.starts_with(b"HTTP/")) => {
            Parsed::Invalid(Refusal::Close { reply: b"" })
        }
        _ => line.answer(false, ERROR),
    }
}

/// The header of a request in the binary protocol, in bytes.
const BINARY_HEADER: usize = 24;

/// Finds the end of the line at the front of `bytes`, or says why there is none.
fn cut_line<'a>(bytes: &'a [u8], limits: &Limits) -> Result<CommandLine<'a>, LineOutcome<'a>> {
    if bytes.first() == Some(&0x80) {
        // Its whole header: who is refused in that protocol wants to hear of which request.
        if bytes.len() < BINARY_HEADER {
            return Err(Parsed::Incomplete { needed: BINARY_HEADER });
        }
        return Err(Parsed::Invalid(Refusal::Close { reply: NO_BINARY }));
    }
    // A line within the common bound is found without asking what it is.
    let bound = limits.line.min(bytes.len().saturating_sub(1));
    let found = find::line_feed(&bytes[..bytes.len().min(bound + 1)]);
    let (newline, nul) = match found {
        Some(found) => found,
        None if bytes.len() <= limits.line => return Err(Parsed::Incomplete { needed: bytes.len() + 1 }),
        None => {
            let Some(longest) = longest_retrieval(bytes, limits) else {
                return Err(Parsed::Invalid(Refusal::Close { reply: b"" }));
            };
            let within = bytes.len().min(longest + 1);
            match find::line_feed(&bytes[..within]) {
                Some(found) => found,
                None if bytes.len() <= longest => {
                    return Err(Parsed::Incomplete { needed: bytes.len() + 1 });
                }
                None => return Err(Parsed::Invalid(Refusal::Close { reply: LINE_TOO_LONG })),
            }
        }
    };
    let text = &bytes[..newline];
    Ok(CommandLine { bytes, used: newline + 1, text: text.strip_suffix(b"\r").unwrap_or(text), nul })
}

/// The bound of a line that is longer than the common one; none if it is no retrieval.
/// There may be some blanks before its first word, but only so many that the word stands within the
/// bound: it must not matter how much behind it has come.
fn longest_retrieval(bytes: &[u8], limits: &Limits) -> Option<usize> {
    let blanks = bytes.iter().take_while(|&&byte| byte == b' ').count();
    if blanks > limits.line.saturating_sub(b"gets ".len()).min(100) {
        return None;
    }
    let line = &bytes[blanks..];
    if line.starts_with(b"get ") || line.starts_with(b"gets ") {
        return Some(limits.retrieval_line);
    }
    if line.starts_with(b"gat ") || line.starts_with(b"gats ") {
        return Some(limits.retrieval_line.min(LONGEST_TOUCHING));
    }
    None
}

impl<'a> CommandLine<'a> {
    fn retrieve(&self, command: Retrieval, mut rest: &'a [u8], limits: &Limits) -> LineOutcome<'a> {
        let mut exptime = 0;
        if command.touches() {
            let Some(word) = words(rest).next() else { return self.answer(false, ERROR) };
            let Some(time) = number::signed_32(word) else { return self.answer(false, BAD_EXPTIME) };
            exptime = time;
            let blanks = rest.len() - rest.trim_ascii_start().len();
            rest = &rest[blanks + word.len()..];
        }
        let (mut count, mut length) = (0, 0);
        for key in words(rest) {
            if key.len() > limits.key {
                return self.answer(false, BAD_FORMAT);
            }
            count += 1;
            length += 1 + key.len();
        }
        match count {
            // memcached finds none of no values.
            0 if command.touches() => self.answer(false, b"END\r\n"),
            0 => self.answer(false, ERROR),
            _ => self.complete(Request::Retrieve(Retrieve {
                command,
                exptime,
                keys: Keys { text: rest, count, plain: length == rest.len() },
            })),
        }
    }

    fn store(&self, command: Storage, limits: &Limits) -> LineOutcome<'a> {
        let words = Words::of(self);
        let numbers = if command == Storage::Cas { 6 } else { 5 };
        if words.count != numbers && words.count != numbers + 1 {
            return self.answer(false, ERROR);
        }
        let noreply = words.noreply();
        let [_, key, flags, exptime, length, unique, ..] = words.words;
        // A server that read a number otherwise would take the value for commands.
        let plain = words.plain
            && [flags, exptime, length].into_iter().all(number::plain)
            && (command != Storage::Cas || number::plain(unique));
        let parsed = (number::unsigned_32(flags), number::signed_32(exptime), number::unsigned(length));
        let (Some(flags), Some(exptime), Some(length)) = parsed else {
            return self.answer(noreply, BAD_FORMAT);
        };
        // memcached counts lengths in 31 bits, the line end included.
        if key.len() > limits.key || length > i32::MAX as u64 - 2 {
            return self.answer(noreply, BAD_FORMAT);
        }
        let unique = match command {
            Storage::Cas => match number::unsigned(unique) {
                Some(unique) => unique,
                None => return self.answer(noreply, BAD_FORMAT),
            },
            _ => 0,
        };
        if length > limits.value as u64 {
            return Parsed::Invalid(Refusal::TooLarge {
                command,
                key,
                base64: false,
                used: self.used,
                discard: length + 2,
                noreply,
            });
        }
        let end = self.used + length as usize;
        if self.bytes.len() < end + 2 {
            return Parsed::Incomplete { needed: end + 2 };
        }
        if &self.bytes[end..end + 2] != b"\r\n" {
            let reply = if noreply { &b""[..] } else { BAD_CHUNK };
            return Parsed::Invalid(Refusal::Answer { reply, used: end + 2 });
        }
        let verbatim = (plain && words.count == numbers && !noreply).then(|| &self.bytes[..end + 2]);
        let data = &self.bytes[self.used..end];
        let store = StorageRequest { command, key, flags, exptime, unique, data, noreply, verbatim };
        Parsed::Complete { message: Request::Store(store), used: end + 2 }
    }

    fn delete(&self, limits: &Limits) -> LineOutcome<'a> {
        let words = Words::of(self);
        let noreply = words.noreply();
        let key = words.words[1];
        match words.count {
            2 if key.len() > limits.key => self.answer(false, BAD_FORMAT),
            2 => self.complete(Request::Delete { key, noreply: false }),
            // A time to hold the key was once allowed here; zero still is.
            3 | 4 => {
                let hold_is_zero = words.words[2] == b"0";
                let understood =
                    if words.count == 3 { hold_is_zero || noreply } else { hold_is_zero && noreply };
                if !understood {
                    self.answer(noreply, BAD_DELETE)
                } else if key.len() > limits.key {
                    self.answer(noreply, BAD_FORMAT)
                } else {
                    self.complete(Request::Delete { key, noreply })
                }
            }
            _ => self.answer(false, ERROR),
        }
    }

    fn arithmetic(&self, command: Arithmetic, limits: &Limits) -> LineOutcome<'a> {
        let words = Words::of(self);
        if words.count != 3 && words.count != 4 {
            return self.answer(false, ERROR);
        }
        let noreply = words.noreply();
        let [_, key, delta, ..] = words.words;
        if key.len() > limits.key {
            return self.answer(noreply, BAD_FORMAT);
        }
        match number::unsigned(delta) {
            Some(delta) => self.complete(Request::Arithmetic { command, key, delta, noreply }),
            None => self.answer(noreply, BAD_DELTA),
        }
    }

    fn touch(&self, limits: &Limits) -> LineOutcome<'a> {
        let words = Words::of(self);
        if words.count != 3 && words.count != 4 {
            return self.answer(false, ERROR);
        }
        let noreply = words.noreply();
        let [_, key, exptime, ..] = words.words;
        if key.len() > limits.key {
            return self.answer(noreply, BAD_FORMAT);
        }
        match number::signed_32(exptime) {
            Some(exptime) => self.complete(Request::Touch { key, exptime, noreply }),
            None => self.answer(noreply, BAD_EXPTIME),
        }
    }

    fn flush_all(&self) -> LineOutcome<'a> {
        let words = Words::of(self);
        if words.count > 3 {
            return self.answer(false, ERROR);
        }
        let noreply = words.noreply();
        if words.count == 1 + usize::from(noreply) {
            return self.complete(Request::FlushAll { delay: None, noreply });
        }
        match number::signed_32(words.words[1]) {
            Some(delay) => self.complete(Request::FlushAll { delay: Some(delay), noreply }),
            None => self.answer(noreply, BAD_EXPTIME),
        }
    }

    fn verbosity(&self) -> LineOutcome<'a> {
        let words = Words::of(self);
        if words.count != 2 && words.count != 3 {
            return self.answer(false, ERROR);
        }
        let noreply = words.noreply();
        match number::unsigned_32(words.words[1]) {
            Some(level) => self.complete(Request::Verbosity { level, noreply }),
            None => self.answer(noreply, BAD_FORMAT),
        }
    }
}

#[cfg(test)]
mod tests;
