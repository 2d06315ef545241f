//! Answers to meta commands.

use proptest::prelude::*;

use super::*;
use crate::{Expect, response};

const ALL: [MetaCommand; 5] =
    [MetaCommand::Get, MetaCommand::Set, MetaCommand::Delete, MetaCommand::Arithmetic, MetaCommand::Debug];

fn read(text: &str, command: MetaCommand, value: bool) -> Option<ReplyClass> {
    match response::parse(text.as_bytes(), Expect::Meta { command, value }) {
        Parsed::Complete { message, used } => {
            assert_eq!((used, message.bytes), (text.len(), text.as_bytes()));
            Some(message.class)
        }
        Parsed::Invalid(_) => None,
        Parsed::Incomplete { .. } => panic!("{text:?} is whole"),
    }
}

#[test]
fn each_answer_belongs_to_some_commands_and_to_no_other() {
    use MetaCommand::{Arithmetic, Debug, Delete, Get, Set};
    for (text, class, commands) in [
        ("HD\r\n", ReplyClass::MetaDone, &[Get, Set, Delete, Arithmetic][..]),
        ("HD s3 t-1 W\r\n", ReplyClass::MetaDone, &[Get, Set, Delete, Arithmetic]),
        ("VA 2 c9\r\n\r\n\r\n", ReplyClass::MetaValue, &[Get, Arithmetic]),
        ("EN\r\n", ReplyClass::MetaMiss, &[Get, Debug]),
        ("EN O77 kfoo\r\n", ReplyClass::MetaMiss, &[Get, Debug]),
        ("NF\r\n", ReplyClass::NotFound, &[Set, Delete, Arithmetic]),
        ("NS O7\r\n", ReplyClass::NotStored, &[Set, Delete, Arithmetic]),
        ("EX\r\n", ReplyClass::Exists, &[Set, Delete, Arithmetic]),
        ("ME foo exp=-1 la=3 cas=2\r\n", ReplyClass::MetaDebug, &[Debug]),
        ("CLIENT_ERROR invalid flag\r\n", ReplyClass::ClientError, &ALL),
        ("SERVER_ERROR out of memory\r\n", ReplyClass::ServerError, &ALL),
        ("ERROR\r\n", ReplyClass::Error, &ALL),
    ] {
        for command in ALL {
            let wanted = commands.contains(&command).then_some(class);
            assert_eq!(read(text, command, true), wanted, "{text:?} for {command:?}");
        }
    }
}

#[test]
fn an_answer_of_another_kind_is_refused() {
    for text in [
        "END\r\n",
        "STORED\r\n",
        "MN\r\n",
        "HDX\r\n",
        "hd\r\n",
        "\r\n",
        "VA\r\n",
        "VA x\r\n",
        "VA 1\r\nxy\r\n",
    ] {
        for command in ALL {
            assert_eq!(read(text, command, true), None, "{text:?} for {command:?}");
        }
    }
    assert_eq!(read("VA 1\r\nx\r\n", MetaCommand::Get, false), None, "a value was not asked for");
}

#[test]
fn a_quiet_request_gets_no_reply_of_the_usual_kind() {
    for (command, classes) in [
        (MetaCommand::Get, &[ReplyClass::MetaMiss, ReplyClass::ServerError][..]),
        (MetaCommand::Set, &[ReplyClass::MetaDone]),
        (MetaCommand::Delete, &[ReplyClass::MetaDone]),
        (MetaCommand::Arithmetic, &[ReplyClass::MetaDone, ReplyClass::MetaValue]),
        (MetaCommand::Debug, &[]),
    ] {
        for class in [
            ReplyClass::MetaDone,
            ReplyClass::MetaValue,
            ReplyClass::MetaMiss,
            ReplyClass::MetaDebug,
            ReplyClass::NotFound,
            ReplyClass::NotStored,
            ReplyClass::Exists,
            ReplyClass::Error,
            ReplyClass::ClientError,
            ReplyClass::ServerError,
        ] {
            assert_eq!(suppressed(command, class), classes.contains(&class), "{command:?} {class:?}");
        }
    }
}

#[test]
fn value_and_flags_are_found() {
    let text = "VA 4 c9 O77 W\r\na\r\nb\r\n";
    let expect = Expect::Meta { command: MetaCommand::Get, value: true };
    let Parsed::Complete { message, .. } = response::parse(text.as_bytes(), expect) else { panic!("whole") };
    assert_eq!(message.meta_value(), Some(&b"a\r\nb"[..]));
    let flags: Vec<_> = message.meta_flags().collect();
    assert_eq!(flags, [(b'c', &b"9"[..]), (b'O', b"77"), (b'W', b"")]);
}

proptest! {
    /// Where the network cuts the bytes must not matter.
    #[test]
    fn every_cut_is_incomplete_until_the_last_byte(
        data in proptest::collection::vec(any::<u8>(), 0..60),
        flags in "( [a-zA-Z][!-~]{0,5}){0,5}",
        tail in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = format!("VA {}{flags}\r\n", data.len()).into_bytes();
        bytes.extend_from_slice(&data);
        bytes.extend_from_slice(b"\r\n");
        let whole = bytes.len();
        bytes.extend_from_slice(&tail);
        let expect = Expect::Meta { command: MetaCommand::Get, value: true };
        for cut in 0..whole {
            match response::parse(&bytes[..cut], expect) {
                Parsed::Incomplete { needed } => prop_assert!(needed > cut && needed <= whole),
                other => prop_assert!(false, "cut at {cut}: {other:?}"),
            }
        }
        match response::parse(&bytes, expect) {
            Parsed::Complete { message, used } => {
                prop_assert_eq!(used, whole);
                prop_assert_eq!(message.meta_value(), Some(&data[..]));
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
