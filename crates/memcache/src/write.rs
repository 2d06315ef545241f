//! Requests and replies as bytes, appended to a buffer the caller keeps.
//!
//! Written requests always ask for an answer: a peer that answers everything can be counted, timed
//! and kept in step. Who was asked not to answer drops the answer itself.

use crate::request::{Arithmetic, Meta, MetaCommand, NO_BINARY, Retrieval, Storage, StorageRequest};

/// `get|gets k1 k2 …` or `gat|gats exptime k1 k2 …`
pub fn retrieve<'k>(
    out: &mut Vec<u8>,
    command: Retrieval,
    exptime: i32,
    keys: impl IntoIterator<Item = &'k [u8]>,
) {
    out.extend_from_slice(command.word().as_bytes());
    if command.touches() {
        number(out, exptime);
    }
    for key in keys {
        word(out, key);
    }
    out.extend_from_slice(b"\r\n");
}

/// `get k1 k2 …` for keys as a client wrote them, each behind a blank (see
/// [`Keys::plain`](crate::request::Keys::plain)).
#[inline]
pub fn get_plain(out: &mut Vec<u8>, keys: &[u8]) {
    out.reserve(b"get\r\n".len() + keys.len());
    out.extend_from_slice(b"get");
    out.extend_from_slice(keys);
    out.extend_from_slice(b"\r\n");
}

/// A storage request with its value: its own bytes where a server may be sent them.
pub fn store(out: &mut Vec<u8>, request: &StorageRequest<'_>) {
    match request.verbatim {
        Some(bytes) => out.extend_from_slice(bytes),
        None => storage(
            out,
            request.command,
            request.key,
            request.flags,
            request.exptime,
            request.unique,
            request.data,
        ),
    }
}

/// The line of a storage request alone: what follows is the value, of `length` bytes, and a line
/// end.
pub fn storage_line(
    out: &mut Vec<u8>,
    command: Storage,
    key: &[u8],
    flags: u32,
    exptime: i32,
    unique: u64,
    length: usize,
) {
    out.extend_from_slice(command.word().as_bytes());
    word(out, key);
    number(out, flags);
    number(out, exptime);
    number(out, length);
    if command == Storage::Cas {
        number(out, unique);
    }
    out.extend_from_slice(b"\r\n");
}

/// `set key flags exptime length\r\n…\r\n`, and so on for the others.
pub fn storage(
    out: &mut Vec<u8>,
    command: Storage,
    key: &[u8],
    flags: u32,
    exptime: i32,
    unique: u64,
    data: &[u8],
) {
    storage_line(out, command, key, flags, exptime, unique, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// `delete key`
pub fn delete(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"delete");
    word(out, key);
    // As the last word of the line it would be taken for the flag by memcached 1.6.45, which then
    // answers nothing. A time of 0 is allowed.
    out.extend_from_slice(if key == b"noreply" { b" 0\r\n" } else { b"\r\n" });
}

/// `incr|decr key delta`
pub fn arithmetic(out: &mut Vec<u8>, command: Arithmetic, key: &[u8], delta: u64) {
    out.extend_from_slice(command.word().as_bytes());
    word(out, key);
    number(out, delta);
    out.extend_from_slice(b"\r\n");
}

/// `touch key exptime`
pub fn touch(out: &mut Vec<u8>, key: &[u8], exptime: i32) {
    out.extend_from_slice(b"touch");
    word(out, key);
    number(out, exptime);
    out.extend_from_slice(b"\r\n");
}

/// A meta request, never a quiet one: its own bytes where a server may be sent them.
pub fn meta(out: &mut Vec<u8>, request: &Meta<'_>) {
    match request.verbatim {
        Some(bytes) => out.extend_from_slice(bytes),
        None => meta_without(out, request, b""),
    }
}

/// A meta request, never a quiet one, and without the flags named.
pub fn meta_without(out: &mut Vec<u8>, request: &Meta<'_>, left_out: &[u8]) {
    meta_changed(out, request, request.key, None, |letter, _| {
        if left_out.contains(&letter) { FlagRewrite::LeaveOut } else { FlagRewrite::Keep }
    });
}

/// What becomes of a flag that is written for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagRewrite {
    /// It stays as it is.
    Keep,
    /// It is not written.
    LeaveOut,
    /// It carries this number instead.
    Number(i32),
}

/// A meta request, never a quiet one, with another key, perhaps one flag more, and changes of its
/// own.
pub fn meta_changed(
    out: &mut Vec<u8>,
    request: &Meta<'_>,
    key: &[u8],
    more: Option<(u8, i32)>,
    change: impl Fn(u8, &[u8]) -> FlagRewrite,
) {
    meta_line(out, request, key, more, change);
    if request.command == MetaCommand::Set {
        out.extend_from_slice(request.data);
        out.extend_from_slice(b"\r\n");
    }
}

/// The same without a set's value: what follows is that and a line end.
pub fn meta_line(
    out: &mut Vec<u8>,
    request: &Meta<'_>,
    key: &[u8],
    more: Option<(u8, i32)>,
    change: impl Fn(u8, &[u8]) -> FlagRewrite,
) {
    out.extend_from_slice(request.command.word().as_bytes());
    word(out, key);
    if request.command == MetaCommand::Set {
        number(out, request.data.len());
    }
    for (letter, token) in request.flags.iter() {
        if letter == b'q' && request.command != MetaCommand::Debug {
            continue;
        }
        match change(letter, token) {
            FlagRewrite::LeaveOut => {}
            FlagRewrite::Keep => {
                out.extend_from_slice(&[b' ', letter]);
                out.extend_from_slice(token);
            }
            FlagRewrite::Number(number) => flag(out, letter, number),
        }
    }
    if let Some((letter, number)) = more {
        flag(out, letter, number);
    }
    out.extend_from_slice(b"\r\n");
}

/// `mg|md|ma|me key…`: a meta request about a key, with its flags as they are written, each with
/// its blank before it.
pub fn meta_key(out: &mut Vec<u8>, command: MetaCommand, key: &[u8], flags: &[u8]) {
    out.extend_from_slice(command.word().as_bytes());
    word(out, key);
    out.extend_from_slice(flags);
    out.extend_from_slice(b"\r\n");
}

/// `ms key length [Tttl]`: what stores an item.
pub fn meta_set(out: &mut Vec<u8>, key: &[u8], ttl: i32, data: &[u8]) {
    out.extend_from_slice(b"ms");
    word(out, key);
    number(out, data.len());
    if ttl != 0 {
        flag(out, b'T', ttl);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// A command that stands alone on its line: `version`, `stats`, `mn`.
pub fn bare(out: &mut Vec<u8>, command: &str) {
    out.extend_from_slice(command.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// `md key [b]`: what removes an item whose key may be written in base64.
pub fn meta_delete(out: &mut Vec<u8>, key: &[u8], base64: bool) {
    out.extend_from_slice(b"md");
    word(out, key);
    out.extend_from_slice(if base64 { b" b\r\n" } else { b"\r\n" });
}

/// `ms key length b ME Fflags Tttl`: what stores an item whose key is written in base64, unless
/// there is one.
pub fn meta_add(out: &mut Vec<u8>, key: &[u8], flags: u32, ttl: i32, data: &[u8]) {
    out.extend_from_slice(b"ms");
    word(out, key);
    number(out, data.len());
    out.extend_from_slice(b" b ME F");
    out.extend_from_slice(itoa::Buffer::new().format(flags).as_bytes());
    flag(out, b'T', ttl);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// The last reply before a client that sent `request` is disconnected. One of the binary protocol
/// would take a line of text for a header that announces more than a gigabyte.
pub fn closing_reply(out: &mut Vec<u8>, request: &[u8], reply: &[u8]) {
    if reply == NO_BINARY {
        binary_refusal(out, request, reply.trim_ascii_end());
    } else {
        out.extend_from_slice(reply);
    }
}

/// The refusal of a request in the binary protocol, in that protocol: unknown command (0x81), the
/// text as its body. `request` is what there is of it; the client finds its own opcode and opaque
/// again.
fn binary_refusal(out: &mut Vec<u8>, request: &[u8], text: &[u8]) {
    let opcode = request.get(1).copied().unwrap_or(0);
    let opaque = request.get(12..16).unwrap_or(&[0; 4]);
    out.extend_from_slice(&[0x81, opcode, 0, 0, 0, 0, 0, 0x81]);
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(opaque);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(text);
}

/// `flush_all [delay]`
pub fn flush_all(out: &mut Vec<u8>, delay: Option<i32>) {
    out.extend_from_slice(b"flush_all");
    if let Some(delay) = delay {
        number(out, delay);
    }
    out.extend_from_slice(b"\r\n");
}

/// `verbosity level`
pub fn verbosity(out: &mut Vec<u8>, level: u32) {
    out.extend_from_slice(b"verbosity");
    number(out, level);
    out.extend_from_slice(b"\r\n");
}

/// One value of a retrieval's reply: `VALUE key flags length [unique]\r\n…\r\n`. The reply ends
/// with `END\r\n`.
pub fn value(out: &mut Vec<u8>, key: &[u8], flags: u32, unique: Option<u64>, data: &[u8]) {
    value_line(out, key, flags, unique, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// The line of it alone: what follows is the value, of `length` bytes, and a line end.
pub fn value_line(out: &mut Vec<u8>, key: &[u8], flags: u32, unique: Option<u64>, length: usize) {
    out.extend_from_slice(b"VALUE");
    word(out, key);
    number(out, flags);
    number(out, length);
    if let Some(unique) = unique {
        number(out, unique);
    }
    out.extend_from_slice(b"\r\n");
}

/// One line of a `stats` reply: `STAT name value`. The reply ends with `END\r\n`.
pub fn stat(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(b"STAT");
    word(out, name.as_bytes());
    word(out, value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A number alone on its line: the reply of `incr` and `decr`.
pub fn number_line(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn flag(out: &mut Vec<u8>, letter: u8, value: i32) {
    out.extend_from_slice(&[b' ', letter]);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn word(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

fn number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_client_is_refused_in_its_own_words() {
        let mut request = [0; 24];
        (request[0], request[1]) = (0x80, 0x0a);
        request[12..16].copy_from_slice(b"opaq");
        let mut out = Vec::new();
        binary_refusal(&mut out, &request, b"no");
        assert_eq!(out, b"\x81\x0a\0\0\0\0\0\x81\0\0\0\x02opaq\0\0\0\0\0\0\0\0no");
        out.clear();
        binary_refusal(&mut out, &[0x80], b"");
        assert_eq!(out.len(), 24);
    }
}
