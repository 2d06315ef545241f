//! Replies: values are where they were said to be, what is written reads back, and no cut matters.

use krarup_memcache::response::{self, Response, Value};
use krarup_memcache::{Expect, MetaCommand, Parsed, ReplyClass, write};

/// The first byte chooses what was asked, the rest is what a server sends.
pub fn check(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let expect = match first % 16 {
        0 => Expect::Values { keys: 1, unique: false },
        1 => Expect::Values { keys: 1, unique: true },
        2 => Expect::Values { keys: 100, unique: false },
        3 => Expect::Stored,
        4 => Expect::Deleted,
        5 => Expect::Number,
        6 => Expect::Touched,
        7 => Expect::Ok,
        8 => Expect::Version,
        9 => Expect::Stats,
        10 => Expect::Meta { command: MetaCommand::Get, value: true },
        11 => Expect::Meta { command: MetaCommand::Get, value: false },
        12 => Expect::Meta { command: MetaCommand::Set, value: false },
        13 => Expect::Meta { command: MetaCommand::Delete, value: false },
        14 => Expect::Meta { command: MetaCommand::Arithmetic, value: true },
        _ => Expect::Meta { command: MetaCommand::Debug, value: false },
    };
    crate::cuts_decide_nothing(bytes, |bytes| response::parse(bytes, expect));
    if let Parsed::Complete { message, used } = response::parse(bytes, expect) {
        assert!(used > 0 && used <= bytes.len());
        // An error takes the place of what came before it.
        assert!(bytes[..used].ends_with(message.bytes));
        assert!(message.bytes.len() == used || message.class.is_error());
        assert!(message.bytes.ends_with(b"\n"));
        assert_eq!(message.number().is_some(), message.class == ReplyClass::Number);
        assert_eq!(message.meta_value().is_some(), message.class == ReplyClass::MetaValue);
        if let Some(value) = message.meta_value() {
            assert_eq!(
                message.line().len() + value.len() + 3 + usize::from(bytes[message.line().len()] == b'\r'),
                used
            );
            assert!(message.meta_flags().all(|(letter, _)| letter != b' '));
        }
        if let Expect::Values { keys, unique } = expect
            && message.class == ReplyClass::Values
        {
            assert!(message.hits <= keys);
            values(&message, unique);
        } else {
            assert_eq!((message.hits, message.values().count(), message.blocks()), (0, 0, &b""[..]));
        }
    }
}

fn values(reply: &Response<'_>, unique: bool) {
    let values: Vec<Value<'_>> = reply.values().collect();
    assert_eq!(values.len(), reply.hits as usize);
    assert!(values.iter().all(|value| value.unique.is_some() == unique && !value.key.is_empty()));
    let blocks: Vec<&[u8]> = values.iter().map(|value| value.block).collect();
    assert_eq!(blocks.concat(), reply.blocks());
    let mut out = Vec::new();
    for value in &values {
        write::value(&mut out, value.key, value.flags, value.unique, value.data);
    }
    out.extend_from_slice(b"END\r\n");
    match response::parse(&out, Expect::Values { keys: reply.hits, unique }) {
        Parsed::Complete { message, used } => {
            assert_eq!(used, out.len());
            let same = message.values().zip(&values).all(|(read, value)| {
                (read.key, read.flags, read.unique, read.data)
                    == (value.key, value.flags, value.unique, value.data)
            });
            assert!(same && message.hits == reply.hits);
        }
        other => panic!("`{}` reads back as {other:?}", out.escape_ascii()),
    }
}
