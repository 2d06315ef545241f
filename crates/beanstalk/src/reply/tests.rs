use proptest::prelude::*;

use super::*;

fn one(text: &str) -> Reply<'_> {
    match parse(text.as_bytes()) {
        Parsed::Complete { message, used } if used == text.len() => message,
        other => panic!("{text:?} gave {other:?}"),
    }
}

#[test]
fn what_stands_behind_the_word_is_read_by_its_form() {
    let line = |word, number| Reply::Line { word, number };
    let message = |word, id, flags, body| Reply::Message { word, id, flags, body };
    for (text, expected) in [
        ("INSERTED 7\r\n", line(ReplyWord::Inserted, Some(7))),
        ("DELETED\r\n", line(ReplyWord::Deleted, None)),
        ("KICKED 3\r\n", line(ReplyWord::Kicked, Some(3))),
        ("USING jobs\r\n", Reply::Using("jobs")),
        ("READY 5 7\r\n", Reply::Ready { priority: 5, id: 7 }),
        ("RESERVED 7 5\r\nhe\r\no\r\n", message(ReplyWord::Reserved, 7, None, b"he\r\no")),
        ("POPPED 8 0 9\r\n\r\n", message(ReplyWord::Popped, 8, Some(9), b"")),
        ("OK 14\r\n---\n- default\n\r\n", Reply::Data(b"---\n- default\n")),
        ("SOMETHING new\r\n", Reply::Unknown(b"SOMETHING new")),
    ] {
        assert_eq!(one(text), expected, "{text:?}");
    }
}

#[test]
fn several_replies_are_whole_together() {
    let text = "RESERVED_BATCH 2\r\nRESERVED 1 1\r\na\r\nRESERVED 2 0\r\n\r\n";
    let Reply::Batch { word: ReplyWord::ReservedBatch, replies } = one(text) else { panic!("not several") };
    let ids = replies.iter().map(|reply| if let Reply::Message { id, .. } = reply { id } else { 0 });
    assert_eq!(ids.collect::<Vec<_>>(), [1, 2]);
    let text = "INSERTED_BATCH 2\r\nINSERTED 1\r\nOUT_OF_MEMORY\r\n";
    let Reply::Batch { replies, .. } = one(text) else { panic!("not several") };
    assert!(replies.len() == 2 && replies.iter().nth(1).is_some_and(|last| last.is(ReplyWord::OutOfMemory)));
    // One within another is none: the depth of what is read is bounded.
    let nested = "RESERVED_BATCH 1\r\n".repeat(2);
    assert!(matches!(parse(nested.as_bytes()), Parsed::Invalid(_)));
}

#[test]
fn names_and_statistics_are_read_from_data() {
    let list = one("OK 18\r\n---\n- default\n- a\n\r\n");
    assert_eq!(list.names().collect::<Vec<_>>(), ["default", "a"]);
    let statistics = one("OK 23\r\n---\nid: 7\nstate: ready\n\r\n");
    assert_eq!(statistics.pairs().collect::<Vec<_>>(), [("id", "7"), ("state", "ready")]);
}

#[test]
fn what_is_no_reply_is_invalid() {
    for text in [
        "RESERVED x 5\r\n",
        "RESERVED 7\r\n",
        "RESERVED 7 99999999999999\r\n",
        "RESERVED 7 1\r\nxyz",
        "OK\r\n",
    ] {
        assert!(matches!(parse(text.as_bytes()), Parsed::Invalid(_)), "{text:?}");
    }
    assert!(matches!(parse(&[b'a'; 300]), Parsed::Invalid(_)));
}

proptest! {
    /// Where the network cuts the bytes must not matter, and what was read is written alike.
    #[test]
    fn any_cut_of_the_bytes_parses_alike(
        text in prop_oneof![
            ("(RESERVED|POPPED|FOUND|OK|RESERVED_BATCH|INSERTED_BATCH|USING|READY|DELETED|EXISTS)( [0-9a-z]{1,3}){0,3}\r\n", proptest::collection::vec(any::<u8>(), 0..20))
                .prop_map(|(line, rest)| [line.as_bytes(), &rest].concat()),
            Just(b"RESERVED_BATCH 2\r\nRESERVED 1 1\r\na\r\nRESERVED 2 0\r\n\r\n".to_vec()),
            Just(b"INSERTED_BATCH 2\r\nINSERTED 1\r\nOUT_OF_MEMORY\r\n".to_vec()),
            Just(b"OK 4\r\n---\n\r\nDELETED\r\n".to_vec()),
            proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b' '), any::<u8>()], 0..300),
        ],
    ) {
        let whole = parse(&text);
        for cut in 0..text.len() {
            match parse(&text[..cut]) {
                Parsed::Incomplete { needed } => prop_assert!(needed > cut),
                early => prop_assert_eq!(early, whole),
            }
        }
        if let Parsed::Complete { message, .. } = whole {
            let mut out = Vec::new();
            crate::write::reply(&mut out, &message);
            prop_assert_eq!(parse(&out), Parsed::Complete { message, used: out.len() });
        }
    }

    #[test]
    fn no_bytes_make_it_panic(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&text);
    }
}
