//! Requests and replies as bytes.

use crate::number::digits;
use crate::reply::Reply;
use crate::table::{Request, Verb};
use crate::word::ReplyWord;

/// Appends a request.
pub fn request(out: &mut Vec<u8>, request: &Request<'_>) {
    request.write_line(out);
    match request {
        Request::Put(put) => {
            blank_and(out, put.body.len() as u64);
            end(out);
            body(out, put.body);
        }
        Request::PutBatch(batch) => {
            batch.iter().for_each(|put| blank_and(out, put.body.len() as u64));
            end(out);
            batch.iter().for_each(|put| body(out, put.body));
        }
        _ => end(out),
    }
}

/// Appends a request of `verb` for these messages, as verbs about several take them.
pub fn request_about(out: &mut Vec<u8>, verb: Verb, ids: &[u64]) {
    out.extend_from_slice(verb.name().as_bytes());
    ids.iter().for_each(|id| blank_and(out, *id));
    end(out);
}

/// Appends a reply, whatever it is.
pub fn reply(out: &mut Vec<u8>, reply: &Reply<'_>) {
    match reply {
        Reply::Line { word, number: None } => line(out, *word),
        Reply::Line { word, number: Some(number) } => numbered(out, *word, *number),
        Reply::Using(tube) => using(out, tube),
        Reply::Ready { priority, id } => ready(out, *priority, *id),
        Reply::Message { word, id, flags, body } => message(out, *word, *id, *flags, body),
        Reply::Data(bytes) => data(out, bytes),
        Reply::Batch { word, replies } => {
            numbered(out, *word, replies.len());
            out.extend_from_slice(replies.bytes());
        }
        Reply::Unknown(text) => {
            out.extend_from_slice(text);
            end(out);
        }
    }
}

/// Appends a word as a line.
pub fn line(out: &mut Vec<u8>, word: ReplyWord) {
    out.extend_from_slice(word.line());
}

/// Appends a word and a number as a line.
pub fn numbered(out: &mut Vec<u8>, word: ReplyWord, number: u64) {
    out.extend_from_slice(word.name().as_bytes());
    blank_and(out, number);
    end(out);
}

/// Appends the tube in use.
pub fn using(out: &mut Vec<u8>, tube: &str) {
    out.extend_from_slice(ReplyWord::Using.name().as_bytes());
    out.push(b' ');
    out.extend_from_slice(tube.as_bytes());
    end(out);
}

/// Appends which message is ready.
pub fn ready(out: &mut Vec<u8>, priority: u32, id: u64) {
    out.extend_from_slice(ReplyWord::Ready.name().as_bytes());
    blank_and(out, priority.into());
    blank_and(out, id);
    end(out);
}

/// Appends a message: `WORD id bytes`, its flags behind that if they are written, and its body.
pub fn message(out: &mut Vec<u8>, word: ReplyWord, id: u64, flags: Option<u32>, bytes: &[u8]) {
    out.reserve(word.name().len() + bytes.len() + 52);
    out.extend_from_slice(word.name().as_bytes());
    blank_and(out, id);
    blank_and(out, bytes.len() as u64);
    if let Some(flags) = flags {
        blank_and(out, flags.into());
    }
    end(out);
    body(out, bytes);
}

/// Appends data: `OK bytes` and the data.
pub fn data(out: &mut Vec<u8>, bytes: &[u8]) {
    numbered(out, ReplyWord::Ok, bytes.len() as u64);
    body(out, bytes);
}

/// Appends names as a list.
pub fn list<'a>(out: &mut Vec<u8>, names: impl IntoIterator<Item = &'a str>) {
    let mut text = String::from("---\n");
    for name in names {
        text.push_str("- ");
        text.push_str(name);
        text.push('\n');
    }
    data(out, text.as_bytes());
}

fn blank_and(out: &mut Vec<u8>, number: u64) {
    out.push(b' ');
    digits(out, number);
}

fn body(out: &mut Vec<u8>, body: &[u8]) {
    out.extend_from_slice(body);
    end(out);
}

fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}
