//! The grammar, line by line: on the right what memcached 1.6 was seen to do with the same bytes.

use proptest::prelude::*;

use super::*;
use crate::{request, write};

fn read(bytes: &[u8]) -> LineOutcome<'_> {
    request::parse(bytes, &Limits::default())
}

fn request(text: &str) -> Request<'_> {
    match read(text.as_bytes()) {
        Parsed::Complete { message, used } => {
            assert_eq!(used, text.len(), "{text:?}");
            message
        }
        other => panic!("{text:?}: {other:?}"),
    }
}

fn refusal(text: &[u8]) -> Refusal<'_> {
    match read(text) {
        Parsed::Invalid(refusal) => refusal,
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(text)),
    }
}

fn keys(text: &str) -> Vec<&[u8]> {
    match request(text) {
        Request::Retrieve(retrieve) => {
            assert_eq!(retrieve.keys.len(), retrieve.keys.iter().count());
            retrieve.keys.iter().collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_retrieval_takes_any_blanks_and_either_line_end() {
    for text in ["get k\r\n", "get k\n", " get k\r\n", "get  k\r\n", "get k \r\n", "bget k\r\n"] {
        assert_eq!(keys(text), [b"k"], "{text:?}");
    }
    assert_eq!(keys("gets a b a\r\n"), [b"a", b"b", b"a"]);
    assert_eq!(keys("gat -1 a b\r\n"), [b"a", b"b"]);
    assert_eq!(keys("get k\r\r\n"), [b"k\r"]);
    assert_eq!(keys("get a\tb\r\n"), [b"a\tb"]);
    assert_eq!(keys(&format!("get {}\r\n", "k ".repeat(2_000))).len(), 2_000);
}

#[test]
fn a_storage_request_needs_its_whole_value() {
    let Request::Store(store) = request("set a 5 -1 3\r\nx\r\n\r\n") else { panic!("a store") };
    assert_eq!((store.key, store.flags, store.exptime, store.data), (&b"a"[..], 5, -1, &b"x\r\n"[..]));
    assert_eq!(store.verbatim, Some(&b"set a 5 -1 3\r\nx\r\n\r\n"[..]));
    assert_eq!(read(b"set a 5 -1 3\r\nx\r\n"), Parsed::Incomplete { needed: 19 });
    let Request::Store(store) = request("cas a 0 0 1 77\r\nx\r\n") else { panic!("a store") };
    assert_eq!((store.command, store.unique), (Storage::Cas, 77));
}

#[test]
fn only_what_a_server_will_answer_is_sent_as_it_is() {
    for text in [
        "set a 0 0 1 noreply\r\nx\r\n",
        "set a 0 0 1\nx\r\n",
        "set  a 0 0 1\r\nx\r\n",
        "set a 0 0 1 foo\r\nx\r\n",
        " set a 0 0 1\r\nx\r\n",
        "set a 0 0 1 \r\nx\r\n",
        // Each as long as the usual line.
        " set a 0 0 1\nx\r\n",
        "set  a 0 0 1\nx\r\n",
        "set a 0 0 1 \nx\r\n",
        " cas a 0 0 1 7\nx\r\n",
        "set a 0 0 +1\r\nx\r\n",
        "set a 00 0 1\r\nx\r\n",
        "cas a 0 0 1 +7\r\nx\r\n",
    ] {
        let Request::Store(store) = request(text) else { panic!("{text:?}") };
        assert_eq!(store.verbatim, None, "{text:?}");
        assert_eq!(store.noreply, text.contains("noreply"));
    }
}

#[test]
fn the_other_commands_are_read() {
    assert_eq!(request("delete k\r\n"), Request::Delete { key: b"k", noreply: false });
    assert_eq!(request("delete k 0\r\n"), Request::Delete { key: b"k", noreply: false });
    assert_eq!(request("delete k 0 noreply\r\n"), Request::Delete { key: b"k", noreply: true });
    let count = |command, delta, noreply| Request::Arithmetic { command, key: b"k", delta, noreply };
    assert_eq!(request("incr k +1\r\n"), count(Arithmetic::Incr, 1, false));
    assert_eq!(request("decr k 18446744073709551615 noreply\r\n"), count(Arithmetic::Decr, u64::MAX, true));
    assert_eq!(request("incr k 1 foo\r\n"), count(Arithmetic::Incr, 1, false));
    assert_eq!(request("touch k -1\r\n"), Request::Touch { key: b"k", exptime: -1, noreply: false });
    assert_eq!(request("flush_all\r\n"), Request::FlushAll { delay: None, noreply: false });
    assert_eq!(request("flush_all noreply\r\n"), Request::FlushAll { delay: None, noreply: true });
    assert_eq!(request("flush_all 10 2\r\n"), Request::FlushAll { delay: Some(10), noreply: false });
    assert_eq!(request("verbosity 1 noreply\r\n"), Request::Verbosity { level: 1, noreply: true });
    assert_eq!(request("stats\r\n"), Request::Stats { argument: b"" });
    assert_eq!(request("stats detail on\r\n"), Request::Stats { argument: b"detail on" });
    assert_eq!(request("version foo\r\n"), Request::Version);
    assert_eq!(request("quit foo\r\n"), Request::Quit);
}

#[test]
fn a_bad_line_is_answered_with_memcacheds_own_words() {
    let long = "x".repeat(251);
    for (text, reply) in [
        ("\r\n", ERROR),
        (" \r\n", ERROR),
        ("foo\r\n", ERROR),
        ("GET k\r\n", ERROR),
        ("get\r\n", ERROR),
        ("gats\r\n", ERROR),
        ("gat 0\r\n", &b"END\r\n"[..]),
        ("gat x k\r\n", BAD_EXPTIME),
        ("set a 0 0\r\n", ERROR),
        ("set a 0 0 1 noreply foo\r\n", ERROR),
        ("set a 0 0 -1\r\n", BAD_FORMAT),
        ("set a -1 0 1\r\n", BAD_FORMAT),
        ("set a 0 x 1\r\n", BAD_FORMAT),
        ("set a 1 0 1x\r\n", BAD_FORMAT),
        ("set a 0 0 2147483647\r\n", BAD_FORMAT),
        ("set a 0 0 x noreply\r\n", b""),
        ("cas k 0 0 1\r\n", ERROR),
        ("cas k 0 0 1 x\r\n", BAD_FORMAT),
        ("cas k 0 0 1 noreply\r\n", b""),
        ("delete\r\n", ERROR),
        ("delete k 1\r\n", BAD_DELETE),
        ("delete k 0 foo\r\n", BAD_DELETE),
        ("delete k foo noreply\r\n", b""),
        ("delete k 0 noreply x\r\n", ERROR),
        ("incr k\r\n", ERROR),
        ("incr k x\r\n", BAD_DELTA),
        ("incr k -1\r\n", BAD_DELTA),
        ("incr k 1 2 noreply\r\n", ERROR),
        ("touch k\r\n", ERROR),
        ("touch k x\r\n", BAD_EXPTIME),
        ("flush_all x\r\n", BAD_EXPTIME),
        ("flush_all 0 0 0\r\n", ERROR),
        ("verbosity\r\n", ERROR),
        ("verbosity x\r\n", BAD_FORMAT),
        ("verbosity noreply\r\n", b""),
        (&format!("get k {long}\r\n"), BAD_FORMAT),
        (&format!("gat 0 {long}\r\n"), BAD_FORMAT),
        (&format!("set {long} 0 0 1\r\n"), BAD_FORMAT),
        (&format!("delete {long}\r\n"), BAD_FORMAT),
        (&format!("incr {long} 1\r\n"), BAD_FORMAT),
        (&format!("touch {long} 1\r\n"), BAD_FORMAT),
        ("get k\0a\r\n", BAD_FORMAT),
    ] {
        assert_eq!(refusal(text.as_bytes()), Refusal::Answer { reply, used: text.len() }, "{text:?}");
    }
}

#[test]
fn a_value_of_another_length_is_skipped_by_the_length_announced() {
    assert_eq!(refusal(b"set a 0 0 1\r\nxyz\r\n"), Refusal::Answer { reply: BAD_CHUNK, used: 16 });
    assert_eq!(refusal(b"set a 0 0 3\r\nx\r\nget k\r\n"), Refusal::Answer { reply: BAD_CHUNK, used: 18 });
    assert_eq!(refusal(b"set a 0 0 1 noreply\r\nxyz\r\n"), Refusal::Answer { reply: b"", used: 24 });
}

#[test]
fn a_value_over_the_limit_is_refused_before_it_is_there() {
    let expected = Refusal::TooLarge {
        command: Storage::Set,
        key: b"a",
        base64: false,
        used: 19,
        discard: 1_048_579,
        noreply: false,
    };
    assert_eq!(refusal(b"set a 0 0 1048577\r\n"), expected);
}

#[test]
fn lines_that_never_end_close_the_connection() {
    let close = |reply| Refusal::Close { reply };
    assert_eq!(refusal(&[b'x'; 2_049]), close(b""));
    assert_eq!(read(&[b'x'; 2_048]), Parsed::Incomplete { needed: 2_049 });
    assert_eq!(refusal(&[&b"set "[..], &[b'k'; 3_000], b" 0 0 1\r\n"].concat()), close(b""));
    assert_eq!(refusal(&[&b"get "[..], &vec![b'x'; 1 << 20]].concat()), close(LINE_TOO_LONG));
    for word in ["gat", "gats", " gat"] {
        let line = |length: usize| [word, " 0", &" k".repeat(length / 2)].concat()[..length].to_owned();
        let most = format!("{}\n", line(16 << 10));
        assert!(matches!(read(most.as_bytes()), Parsed::Complete { used, .. } if used == most.len()));
        let longer = format!("{}\n", line((16 << 10) + 1));
        assert_eq!(refusal(longer.as_bytes()), close(LINE_TOO_LONG), "{word}");
    }
    assert_eq!(refusal(b"GET / HTTP/1.1\r\n"), close(b""));
    assert_eq!(refusal(&[0x80; 24]), close(NO_BINARY));
    assert_eq!(read(&[0x80; 23]), Parsed::Incomplete { needed: 24 });
    assert_eq!(read(&[0x80]), Parsed::Incomplete { needed: 24 });
}

#[test]
fn blanks_before_a_long_line_decide_the_same_at_every_cut() {
    let limits = Limits { line: 30, retrieval_line: 40, ..Limits::default() };
    for blanks in 0..50 {
        let bytes = [" ".repeat(blanks), "get ".to_owned(), "k".repeat(50)].concat();
        let whole = request::parse(bytes.as_bytes(), &limits);
        for cut in 0..bytes.len() {
            match request::parse(&bytes.as_bytes()[..cut], &limits) {
                Parsed::Incomplete { needed } => assert!(needed > cut),
                decided => assert_eq!(decided, whole, "{blanks} blanks, cut at {cut}"),
            }
        }
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0x21_u8..0xff, 1..=250)
}

proptest! {
    /// Where the network cuts the bytes must not matter.
    #[test]
    fn every_cut_is_incomplete_until_the_last_byte(
        key in key(), flags: u32, exptime: i32, unique: u64,
        data in proptest::collection::vec(any::<u8>(), 0..100),
        tail in proptest::collection::vec(any::<u8>(), 0..20),
        command in prop::sample::select(vec![Storage::Set, Storage::Add, Storage::Append, Storage::Cas]),
    ) {
        let mut bytes = Vec::new();
        write::storage(&mut bytes, command, &key, flags, exptime, unique, &data);
        let whole = bytes.len();
        bytes.extend_from_slice(&tail);
        for cut in 0..whole {
            match read(&bytes[..cut]) {
                Parsed::Incomplete { needed } => prop_assert!(needed > cut && needed <= whole),
                other => prop_assert!(false, "cut at {cut}: {other:?}"),
            }
        }
        match read(&bytes) {
            Parsed::Complete { message: Request::Store(store), used } => {
                prop_assert_eq!(used, whole);
                prop_assert_eq!((store.key, store.flags, store.exptime), (&key[..], flags, exptime));
                prop_assert_eq!(store.unique, if command == Storage::Cas { unique } else { 0 });
                prop_assert_eq!(store.data, &data[..]);
                prop_assert_eq!(store.verbatim, Some(&bytes[..whole]));
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn written_retrievals_read_back(keys in proptest::collection::vec(key(), 1..20), exptime: i32) {
        for command in [Retrieval::Get, Retrieval::Gets, Retrieval::Gat, Retrieval::Gats] {
            let mut bytes = Vec::new();
            write::retrieve(&mut bytes, command, exptime, keys.iter().map(Vec::as_slice));
            match read(&bytes) {
                Parsed::Complete { message: Request::Retrieve(read), used } => {
                    prop_assert_eq!(used, bytes.len());
                    prop_assert_eq!(read.command, command);
                    prop_assert!(read.keys.iter().eq(keys.iter().map(Vec::as_slice)));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    /// What a decision was, it stays, whatever comes behind: the cut decides nothing.
    #[test]
    fn more_bytes_never_change_a_decision(text in "[ a-z0-9\r\n]{0,60}", more in "[ a-z0-9\r\n]{0,60}") {
        let limits = Limits { key: 5, value: 20, line: 30, retrieval_line: 40 };
        let both = format!("{text}{more}");
        let (first, second) = (request::parse(text.as_bytes(), &limits), request::parse(both.as_bytes(), &limits));
        match first {
            Parsed::Incomplete { needed } => prop_assert!(needed > text.len()),
            decided => prop_assert_eq!(decided, second),
        }
    }

    #[test]
    fn no_bytes_make_it_panic_and_none_are_used_twice(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        match read(&bytes) {
            Parsed::Complete { used, .. } | Parsed::Invalid(Refusal::Answer { used, .. }) => {
                prop_assert!(used > 0 && used <= bytes.len());
            }
            Parsed::Incomplete { needed } => prop_assert!(needed > bytes.len()),
            Parsed::Invalid(_) => {}
        }
    }
}
