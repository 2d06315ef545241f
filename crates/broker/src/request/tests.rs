use proptest::prelude::*;

use super::*;

const LARGEST: u32 = 65_535;

fn one(text: &str) -> Parsed<'_> {
    parse(text.as_bytes(), LARGEST)
}

fn request(text: &'static str) -> Request<'static> {
    match one(text) {
        Parsed::Complete { request, used } if used == text.len() => request,
        other => panic!("{text:?} gave {other:?}"),
    }
}

fn wrong(text: &str) -> Wrong {
    match one(text) {
        Parsed::Invalid { why, .. } => why,
        other => panic!("{text:?} gave {other:?}"),
    }
}

#[test]
fn a_put_has_its_body_behind_the_line() {
    let Request::Put(put) = request("put 1 2 3 4\r\na\r\nb\r\n") else { panic!("no put") };
    assert_eq!((put.priority, put.delay, put.ttr, put.body), (1, 2, 3, &b"a\r\nb"[..]));
}

#[test]
fn numbers_may_have_any_number_of_blanks_before_them_but_nothing_behind_the_last() {
    assert_eq!(request("delete   7\r\n"), Request::Delete(7));
    assert_eq!(request("release 1  2 3\r\n"), Request::Release { id: 1, priority: 2, delay: 3 });
    for bad in [
        "delete 7 \r\n",
        "delete 7x\r\n",
        "delete -7\r\n",
        "delete \r\n",
        "release 1 2\r\n",
        "bury 1 2 3\r\n",
    ] {
        assert_eq!(wrong(bad), Wrong::BadFormat, "{bad:?}");
    }
}

#[test]
fn some_verbs_are_read_as_loosely_as_beanstalkd_reads_them() {
    assert_eq!(
        request("reserve-with-timeout 5 what\r\n"),
        Request::Reserve { timeout: Some(Nanos::from_secs(5)) }
    );
    assert_eq!(request("quitting\r\n"), Request::Quit);
    assert_eq!(request("kick 3 men\r\n"), Request::Kick(3));
    for bad in ["reserved\r\n", "statsx\r\n", "list-tubes-\r\n", "reserve-with-timeout 2147483648\r\n"] {
        assert_eq!(wrong(bad), Wrong::BadFormat, "{bad:?}");
    }
    for unknown in
        ["put\r\n", "delete\t7\r\n", "delete\r\n", "Put 1 2 3 4\r\n", "\r\n", "foo\r\n", " put 1 2 3 4\r\n"]
    {
        assert_eq!(wrong(unknown), Wrong::UnknownCommand, "{unknown:?}");
    }
}

#[test]
fn a_body_beyond_the_limit_goes_by_whole() {
    let line = "put 0 0 1 65536 and more\r\n";
    let Parsed::Invalid { why: Wrong::JobTooBig, swallow } = one(line) else { panic!("not refused") };
    assert_eq!(swallow, line.len() as u64 + 65_538);
}

#[test]
fn a_body_without_its_end_goes_by_whole() {
    let text = "put 0 0 1 2\r\nabcdput 0 0 1 2\r\n";
    let Parsed::Invalid { why: Wrong::ExpectedCrlf, swallow } = one(text) else { panic!("not refused") };
    assert_eq!(swallow, "put 0 0 1 2\r\nabcd".len() as u64);
}

#[test]
fn a_line_is_too_long_at_225_bytes_unless_its_verb_has_several_names() {
    let long = format!("use {}\r\n", "a".repeat(219));
    assert_eq!(wrong(&long), Wrong::BadFormat);
    assert_eq!(wrong(&format!("put 0 0 1 {}1\r\n", "0".repeat(215))), Wrong::BadFormat);
    let name = "a".repeat(200);
    let text = format!("send {name} {name} 1\r\nx\r\n");
    let Parsed::Complete { request: Request::Put(put), .. } = one(&text) else { panic!("refused") };
    assert_eq!(put.receiver, Some(name.as_str()));
    assert!(matches!(one(&"a".repeat(800)), Parsed::Endless));
}

#[test]
fn the_extra_verbs_are_read() {
    assert_eq!(request("login anna\r\n"), Request::Login { client: "anna", secret: None });
    assert_eq!(request("expire-tube a 3\r\n"), Request::ExpireTube { tube: "a", seconds: 3 });
    assert_eq!(request("archive-tube a 0\r\n"), Request::ArchiveTube { tube: "a", seconds: 0 });
    assert_eq!(request("limit-tube a 3 b\r\n"), Request::LimitTube { tube: "a", most: 3, dead: Some("b") });
    assert_eq!(request("reserve-batch 10 0\r\n"), Request::ReserveBatch { most: 10, timeout: Nanos::ZERO });
    assert_eq!(request("pop\r\n"), Request::Pop { timeout: Nanos::ZERO });
    let Request::Put(put) = request("send q - 1\r\nx\r\n") else { panic!("no put") };
    assert!(put.strict && put.receiver.is_none());
    let Request::DeleteBatch(ids) = request("delete-batch 3 5  8\r\n") else { panic!("no ids") };
    assert_eq!(ids.iter().collect::<Vec<_>>(), [3, 5, 8]);
    for bad in ["reserve-batch 0 0\r\n", "delete-batch\r\n", "ping now\r\n", "send q -a 1\r\n"] {
        assert_eq!(wrong(bad), Wrong::BadFormat, "{bad:?}");
    }
}

proptest! {
    /// Where the network cuts the bytes must not matter: a prefix is incomplete, or already what the whole is.
    #[test]
    fn any_cut_of_the_bytes_parses_alike(
        text in prop_oneof![
            Just(b"put 1 2 3 5\r\nhello\r\n".to_vec()),
            Just(b"put 1 2 3 5\r\nhelloXX".to_vec()),
            Just(b"send tube anna 3\r\nabc\r\n".to_vec()),
            Just(b"reserve-with-timeout 7\r\n".to_vec()),
            Just(b"nonsense\r\n".to_vec()),
            proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b' '), any::<u8>()], 0..300),
            "(put|delete|use|bury|kick|stats|pause-tube|login)[ a-z0-9]{0,20}\r\n".prop_map(String::into_bytes),
        ],
    ) {
        let whole = parse(&text, LARGEST);
        for cut in 0..text.len() {
            match parse(&text[..cut], LARGEST) {
                Parsed::Incomplete { needed } => prop_assert!(needed > cut),
                early => prop_assert_eq!(early, whole),
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(text in proptest::collection::vec(any::<u8>(), 0..900)) {
        let _ = parse(&text, LARGEST);
    }
}
