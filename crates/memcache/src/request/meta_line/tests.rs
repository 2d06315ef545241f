//! Meta lines: on the right what memcached 1.6.18 was seen to do with the same bytes.

use proptest::prelude::*;

use super::*;
use crate::Expect;
use crate::{request, write};

fn read(bytes: &[u8]) -> LineOutcome<'_> {
    request::parse(bytes, &Limits::default())
}

fn meta(text: &str) -> Meta<'_> {
    match read(text.as_bytes()) {
        Parsed::Complete { message: Request::Meta(meta), used } => {
            assert_eq!(used, text.len(), "{text:?}");
            meta
        }
        other => panic!("{text:?}: {other:?}"),
    }
}

fn written(meta: &Meta<'_>) -> String {
    let mut out = Vec::new();
    write::meta(&mut out, meta);
    String::from_utf8(out).unwrap()
}

#[test]
fn key_flags_and_value_are_found() {
    let get = meta("mg k s  t v O77 x\r\n");
    assert_eq!((get.command, get.key, get.quiet, get.base64), (MetaCommand::Get, &b"k"[..], false, false));
    let flags: Vec<_> = get.flags.iter().collect();
    assert_eq!(flags, [(b's', &b""[..]), (b't', b""), (b'v', b""), (b'O', b"77"), (b'x', b"")]);
    assert_eq!((get.flag(b'O'), get.flag(b'T')), (Some(&b"77"[..]), None));
    assert_eq!(get.expect(), Expect::Meta { command: MetaCommand::Get, value: true });
    let set = meta("ms k 3 T0 q\r\na\r\n\r\n");
    assert_eq!((set.command, set.data, set.quiet), (MetaCommand::Set, &b"a\r\n"[..], true));
    assert_eq!(read(b"ms k 3 T0\r\na\r\n"), Parsed::Incomplete { needed: 16 });
    assert_eq!(read(b"mn\r\n"), Parsed::Complete { message: Request::NoOp, used: 4 });
    assert_eq!(read(b"mn foo\r\n"), Parsed::Complete { message: Request::NoOp, used: 8 });
    assert!(meta("me Zm9v b\r\n").base64 && !meta("me Zm9v v b\r\n").base64);
}

#[test]
fn a_server_is_never_asked_quietly() {
    for (asked, sent) in [
        ("mg k v\r\n", "mg k v\r\n"),
        ("mg k v\n", "mg k v\r\n"),
        (" mg  k v \r\n", "mg k v\r\n"),
        (" mg k v\n", "mg k v\r\n"),
        (" me k\n", "me k\r\n"),
        (" ms k 2\nxy\r\n", "ms k 2\r\nxy\r\n"),
        ("ms  k 2\nxy\r\n", "ms k 2\r\nxy\r\n"),
        ("ms k 2 \nxy\r\n", "ms k 2\r\nxy\r\n"),
        ("mg k q v\r\n", "mg k v\r\n"),
        ("mg k v q\r\n", "mg k v\r\n"),
        ("mg k qquiet v\r\n", "mg k v\r\n"),
        ("ms k 2 q T0\r\nxy\r\n", "ms k 2 T0\r\nxy\r\n"),
        ("ms k +02\r\nxy\r\n", "ms k 2\r\nxy\r\n"),
        ("ms k +02 q\r\nxy\r\n", "ms k 2\r\nxy\r\n"),
        ("md q q\r\n", "md q\r\n"),
        ("ma k D3 q\r\n", "ma k D3\r\n"),
        ("me k q\r\n", "me k q\r\n"),
    ] {
        assert_eq!(written(&meta(asked)), sent, "{asked:?}");
    }
    let mut out = Vec::new();
    write::meta_without(&mut out, &meta("ms k 2 C7 c T0 q\r\nxy\r\n"), b"Cc");
    write::meta_delete(&mut out, b"Zm9v", true);
    assert_eq!(out, b"ms k 2 T0\r\nxy\r\nmd Zm9v b\r\n");
}

#[test]
fn what_a_set_does_depends_on_its_mode() {
    for (flags, storage) in [
        ("", Storage::Set),
        ("MS", Storage::Set),
        ("ME", Storage::Add),
        ("MA C1", Storage::Append),
        ("MP", Storage::Prepend),
        ("MR", Storage::Replace),
        ("C1", Storage::Cas),
        ("MS C1", Storage::Cas),
    ] {
        assert_eq!(meta(&format!("ms k 1 {flags}\r\nx\r\n")).storage(), storage, "{flags}");
    }
}

#[test]
fn a_bad_line_is_answered_with_memcacheds_own_words() {
    let (long, many) = ("x".repeat(251), " v".repeat(18));
    for (text, reply) in [
        ("mg\r\n", ERROR),
        ("mg \r\n", ERROR),
        ("ms\r\n", ERROR),
        ("md\r\n", ERROR),
        ("ma\r\n", ERROR),
        ("me\r\n", BAD_FORMAT),
        ("mx k\r\n", ERROR),
        ("m\r\n", ERROR),
        ("ms k\r\n", BAD_FORMAT),
        ("ms k x\r\n", BAD_FORMAT),
        ("ms k -1\r\n", BAD_FORMAT),
        ("ms k 2147483646\r\n", BAD_FORMAT),
        ("ms k S1\r\n", BAD_FORMAT),
        (&format!("mg {long}\r\n"), BAD_FORMAT),
        (&format!("me {long}\r\n"), BAD_FORMAT),
        (&format!("ms {long} 1\r\n"), BAD_FORMAT),
        (&format!("mg k{many}\r\n"), TOO_MANY_TO_GET),
        (&format!("md k{many}\r\n"), TOO_MANY_FLAGS),
        (&format!("ms k 1{many}\r\n"), TOO_MANY_FLAGS),
        ("mg k q q\r\n", DUPLICATE),
        ("mg k ! q q\r\n", INVALID),
        ("md k q q\r\n", INVALID_OR_DUPLICATE),
    ] {
        let refusal = Refusal::Answer { reply, used: text.len() };
        assert_eq!(read(text.as_bytes()), Parsed::Invalid(refusal), "{text:?}");
    }
}

#[test]
fn the_value_of_a_bad_set_is_gone_past() {
    let opaque = format!("O{}", "x".repeat(32));
    for (flags, reply) in [
        ("q q", DUPLICATE),
        ("T1 T1", DUPLICATE),
        ("Tx", BAD_TOKEN),
        ("T", BAD_TOKEN),
        ("T1x", BAD_TOKEN),
        ("C-1", BAD_TOKEN),
        ("Fx", BAD_FORMAT),
        ("Tx Fx", BAD_TOKEN),
        ("M", BAD_MODE_LENGTH),
        ("MSS", BAD_MODE_LENGTH),
        ("MX", BAD_MODE),
        ("Jx", BAD_INITIAL),
        ("Dx", BAD_DELTA),
        ("b", BAD_KEY),
        ("!x Tx", INVALID),
        ("! !", INVALID),
        ("!", INVALID),
        ("-1", INVALID),
        ("T1 ~", INVALID),
        ("\u{e9}", DUPLICATE),
        (&opaque, OPAQUE_TOO_LONG),
    ] {
        let text = format!("ms k 3 {flags}\r\n");
        let refusal = Refusal::Discard { reply, used: text.len(), discard: 5 };
        assert_eq!(read(text.as_bytes()), Parsed::Invalid(refusal), "{flags}");
    }
    // Whether it knows it is for the server to say.
    assert_eq!(meta("ms k 1 E5\r\nx\r\n").flag(b'E'), Some(&b"5"[..]));
    assert_eq!(meta("ms k 1 z\r\nx\r\n").flag(b'z'), Some(&b""[..]));
}

#[test]
fn a_value_of_another_length_is_skipped_by_the_length_announced() {
    let refusal = Refusal::Answer { reply: BAD_CHUNK, used: 13 };
    assert_eq!(read(b"ms k 1 q\r\nxyz\r\n"), Parsed::Invalid(refusal));
}

#[test]
fn a_value_over_the_limit_is_refused_before_it_is_there() {
    let expected = Refusal::TooLarge {
        command: Storage::Set,
        key: b"Zm9v",
        base64: true,
        used: 19,
        discard: 1_048_579,
        noreply: false,
    };
    assert_eq!(read(b"ms Zm9v 1048577 b\r\n"), Parsed::Invalid(expected));
}

#[test]
fn a_key_in_base64_is_the_item_it_stands_for() {
    let name = |key: &str| {
        let text = format!("mg {key} b\r\n");
        meta(&text).name(&mut [0; LONGEST_NAME]).escape_ascii().to_string()
    };
    assert_eq!(name("Zm9v"), "foo");
    assert_eq!(name("Zg=="), "f");
    assert_eq!(name("Zm8="), "fo");
    assert_eq!(name("AP8Q"), r"\x00\xff\x10");
    // Strange ones, as memcached takes them.
    assert_eq!(name("Z!m9v"), "foo");
    assert_eq!(name("Zm8=Zm9v"), "fo");
    // No base64 at all.
    for key in ["Zm9", "A===", "====", "!"] {
        assert_eq!(name(key), key);
    }
    assert_eq!(name(&"A".repeat(248)).len(), 186 * 4);
    assert_eq!(meta("mg Zm9v\r\n").name(&mut [0; LONGEST_NAME]), b"Zm9v");
}

/// What servers are sent has a line end of two bytes, and may so be longer than what was read.
#[test]
fn what_is_written_anew_is_accepted_however_near_the_bound_its_line_was() {
    for word in ["mg", "md", "ma", "me"] {
        for (blank, end) in [(" ", "\n"), (" ", "\r\n"), ("  ", "\n"), ("  ", "\r\n")] {
            for short in 0..3 {
                let front = format!("{word}{blank}k v O");
                let opaque = Limits::default().line + 1 - short - front.len() - end.len();
                let text = format!("{front}{}{end}", "x".repeat(opaque));
                let before = meta(&text);
                let out = written(&before);
                let Request::Meta(after) = request::accepted(out.as_bytes()) else { panic!("{word}") };
                assert_eq!((after.command, after.key), (before.command, before.key));
                assert!(after.flags.iter().eq(before.flags.iter()), "{word} {short}");
            }
        }
    }
}

fn flags() -> impl Strategy<Value = String> {
    let flag = prop_oneof![
        4 => prop::sample::select(vec!["v", "k", "s", "t", "c", "f", "h", "l", "u", "q", "I"]).prop_map(str::to_owned),
        1 => "[TNRFCDJE][0-9]{1,6}",
        1 => "O[!-~]{0,20}",
        1 => "M[EAPRSID]",
        1 => "[!-~]{1,3}",
    ];
    proptest::collection::vec(flag, 0..6).prop_map(|flags| flags.join(" "))
}

proptest! {
    /// Where the network cuts the bytes must not matter, and a request that was read can be written
    /// and is the same.
    #[test]
    fn every_cut_decides_alike_and_what_is_written_reads_back(
        word in prop::sample::select(vec!["mg", "ms", "md", "ma", "me", "mn"]),
        key in "[!-~]{1,20}", flags in flags(),
        data in proptest::collection::vec(any::<u8>(), 0..50),
        tail in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = match word {
            "ms" => format!("{word} {key} {} {flags}\r\n", data.len()),
            _ => format!("{word} {key} {flags}\r\n"),
        }.into_bytes();
        if word == "ms" {
            bytes.extend_from_slice(&data);
            bytes.extend_from_slice(b"\r\n");
        }
        let whole = bytes.len();
        bytes.extend_from_slice(&tail);
        let decided = read(&bytes);
        for cut in 0..whole {
            match read(&bytes[..cut]) {
                Parsed::Incomplete { needed } => prop_assert!(needed > cut && needed <= whole),
                other => prop_assert_eq!(&other, &decided),
            }
        }
        if let Parsed::Complete { message: Request::Meta(meta), used } = decided {
            prop_assert_eq!(used, whole);
            prop_assert_eq!(meta.data, if word == "ms" { &data[..] } else { b"" });
            let mut out = Vec::new();
            write::meta(&mut out, &meta);
            match read(&out) {
                Parsed::Complete { message: Request::Meta(other), used } => {
                    prop_assert_eq!(used, out.len());
                    prop_assert_eq!(other.verbatim, Some(&out[..]));
                    prop_assert!(!other.quiet);
                    prop_assert_eq!((other.command, other.key, other.base64, other.data), (meta.command, meta.key, meta.base64, meta.data));
                    let told = |(letter, _): &(u8, &[u8])| word == "me" || *letter != b'q';
                    prop_assert!(other.flags.iter().eq(meta.flags.iter().filter(told)));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
