//! Answers as they are written.

use std::sync::Arc;

use crate::job::Id;

/// Appends a line.
pub fn line(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a word and a number as a line.
pub fn numbered(out: &mut Vec<u8>, word: &str, number: u64) {
    out.extend_from_slice(word.as_bytes());
    out.push(b' ');
    digits(out, number);
    out.extend_from_slice(b"\r\n");
}

/// Appends a message: `WORD id bytes`, its flags behind that if they are told, and its body.
pub fn message(out: &mut Vec<u8>, word: &str, id: Id, flags: Option<u32>, body: &[u8]) {
    out.reserve(word.len() + body.len() + 52);
    out.extend_from_slice(word.as_bytes());
    out.push(b' ');
    digits(out, id);
    out.push(b' ');
    digits(out, body.len() as u64);
    if let Some(flags) = flags {
        out.push(b' ');
        digits(out, flags.into());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// Appends data: `OK bytes` and the data.
pub fn data(out: &mut Vec<u8>, text: &str) {
    numbered(out, "OK", text.len() as u64);
    line(out, text);
}

/// Appends names as a list.
pub fn list(out: &mut Vec<u8>, names: &[Arc<str>]) {
    let mut text = String::from("---\n");
    for name in names {
        text.push_str("- ");
        text.push_str(name);
        text.push('\n');
    }
    data(out, &text);
}

fn digits(out: &mut Vec<u8>, number: u64) {
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(number).as_bytes());
}
