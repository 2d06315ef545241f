use krarup_units::Nanos;
use proptest::prelude::*;

use super::*;

const LARGEST: u32 = 65_535;

fn one(text: &str) -> Parsed<Request<'_>, InvalidRequest> {
    parse(text.as_bytes(), LARGEST)
}

fn request(text: &'static str) -> Request<'static> {
    match one(text) {
        Parsed::Complete { message, used } if used == text.len() => message,
        other => panic!("{text:?} gave {other:?}"),
    }
}

fn wrong(text: &str) -> LineError {
    match one(text) {
        Parsed::Invalid(InvalidRequest::Discard { why, .. }) => why,
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
        assert_eq!(wrong(bad), LineError::BadFormat, "{bad:?}");
    }
}

#[test]
fn some_verbs_are_read_as_loosely_as_beanstalkd_reads_them() {
    assert_eq!(
        request("reserve-with-timeout 5 what\r\n"),
        Request::ReserveWithTimeout { timeout: Nanos::from_secs(5) }
    );
    assert_eq!(request("quitting\r\n"), Request::Quit);
    assert_eq!(request("kick 3 men\r\n"), Request::Kick(3));
    for bad in ["reserved\r\n", "statsx\r\n", "list-tubes-\r\n", "reserve-with-timeout 2147483648\r\n"] {
        assert_eq!(wrong(bad), LineError::BadFormat, "{bad:?}");
    }
    for unknown in
        ["put\r\n", "delete\t7\r\n", "delete\r\n", "Put 1 2 3 4\r\n", "\r\n", "foo\r\n", " put 1 2 3 4\r\n"]
    {
        assert_eq!(wrong(unknown), LineError::UnknownCommand, "{unknown:?}");
    }
}

#[test]
fn a_body_beyond_the_limit_goes_by_whole() {
    let line = "put 0 0 1 65536 and more\r\n";
    let Parsed::Invalid(InvalidRequest::Discard { why: LineError::JobTooBig, discard }) = one(line) else {
        panic!("not refused")
    };
    assert_eq!(discard, line.len() as u64 + 65_538);
}

#[test]
fn a_body_without_its_end_goes_by_whole() {
    let text = "put 0 0 1 2\r\nabcdput 0 0 1 2\r\n";
    let Parsed::Invalid(InvalidRequest::Discard { why: LineError::ExpectedCrlf, discard }) = one(text) else {
        panic!("not refused")
    };
    assert_eq!(discard, "put 0 0 1 2\r\nabcd".len() as u64);
}

#[test]
fn a_line_is_too_long_at_225_bytes_unless_its_verb_has_several_names() {
    let long = format!("use {}\r\n", "a".repeat(219));
    assert_eq!(wrong(&long), LineError::BadFormat);
    assert_eq!(wrong(&format!("put 0 0 1 {}1\r\n", "0".repeat(215))), LineError::BadFormat);
    let name = "a".repeat(200);
    let text = format!("send {name} {name} 1\r\nx\r\n");
    let Parsed::Complete { message: Request::Put(put), .. } = one(&text) else { panic!("refused") };
    assert_eq!(put.receiver, Some(name.as_str()));
    assert!(matches!(one(&"a".repeat(800)), Parsed::Invalid(InvalidRequest::Endless)));
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
        assert_eq!(wrong(bad), LineError::BadFormat, "{bad:?}");
    }
}

proptest! {
    /// Where the network cuts the bytes must not matter: a prefix is incomplete, or already what
    /// the whole is.
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

/// A request of each verb, with arguments drawn.
fn any_request(verb: Verb, names: &[String], numbers: &[u32], check: impl FnOnce(&Request<'_>)) {
    let [one, other] = names else { panic!("two names") };
    let [first, second, third] = *numbers else { panic!("three numbers") };
    let put = Put { priority: first, delay: second, ttr: third, body: other.as_bytes(), ..Put::default() };
    let (id, time) = (u64::from(first) << 20, Nanos::from_secs(second.into()));
    let (ids, bodies) = ([id, 7, 0], [one.as_bytes(), b"", other.as_bytes()]);
    check(&match verb {
        Verb::Send => Request::Put(Put {
            tube: Some(one),
            receiver: (first % 2 == 0).then_some(other),
            strict: true,
            ttr: crate::DEFAULT_TTR,
            body: one.as_bytes(),
            ..Put::default()
        }),
        Verb::PutUnique => Request::Put(Put { key: Some(one), ..put }),
        Verb::PutTo => Request::Put(Put { receiver: Some(one), ..put }),
        Verb::PutInTube => Request::Put(Put { tube: Some(one), ..put }),
        Verb::Put => Request::Put(put),
        Verb::PutBatch => {
            Request::PutBatch(PutBatch::of(Put { body: b"", ..put }, &bodies[..first as usize % 3 + 1]))
        }
        Verb::Peek => Request::Peek(id),
        Verb::PeekReady => Request::PeekReady,
        Verb::PeekDelayed => Request::PeekDelayed,
        Verb::PeekBuried => Request::PeekBuried,
        Verb::Reserve => Request::Reserve,
        Verb::ReserveWithTimeout => {
            Request::ReserveWithTimeout { timeout: Nanos::from_secs(u64::from(second) >> 1) }
        }
        Verb::ReserveJob => Request::ReserveJob(id),
        Verb::ReserveBatch => Request::ReserveBatch { most: first.max(1), timeout: time },
        Verb::Delete => Request::Delete(id),
        Verb::DeleteBatch => Request::DeleteBatch(Ids::of(&ids)),
        Verb::Release => Request::Release { id, priority: second, delay: third },
        Verb::Use => Request::Use(one),
        Verb::Watch => Request::Watch(one),
        Verb::Ignore => Request::Ignore(one),
        Verb::Bury => Request::Bury { id, priority: second },
        Verb::Kick => Request::Kick(second),
        Verb::KickJob => Request::KickJob(id),
        Verb::Touch => Request::Touch(id),
        Verb::TouchBatch => Request::TouchBatch(Ids::of(&ids)),
        Verb::Stats => Request::Stats,
        Verb::StatsJob => Request::StatsJob(id),
        Verb::StatsTube => Request::StatsTube(one),
        Verb::ListTubes => Request::ListTubes,
        Verb::ListTubeUsed => Request::ListTubeUsed,
        Verb::ListTubesWatched => Request::ListTubesWatched,
        Verb::PauseTube => Request::PauseTube { tube: one, seconds: second },
        Verb::Quit => Request::Quit,
        Verb::Login => Request::Login { client: one, secret: (first % 2 == 0).then_some(other) },
        Verb::Register => Request::Register(one),
        Verb::Unregister => Request::Unregister(one),
        Verb::CreateTube => Request::CreateTube(one),
        Verb::DeleteTube => Request::DeleteTube(one),
        Verb::LimitTube => {
            Request::LimitTube { tube: one, most: second, dead: (first % 2 == 0).then_some(other) }
        }
        Verb::ExpireTube => Request::ExpireTube { tube: one, seconds: second },
        Verb::ArchiveTube => Request::ArchiveTube { tube: one, seconds: second },
        Verb::Pop => Request::Pop { timeout: time },
        Verb::PopTube => Request::PopTube(one),
        Verb::PopSender => Request::PopSender(one),
        Verb::PeekTube => Request::PeekTube(one),
        Verb::PeekSender => Request::PeekSender(one),
        Verb::ListTubesForMe => Request::ListTubesForMe,
        Verb::Await => Request::Await { timeout: time },
        Verb::Ping => Request::Ping,
        Verb::StatsReset => Request::StatsReset,
    });
}

proptest! {
    /// Each verb, written and read again, is the same request; and a cut of it is incomplete.
    #[test]
    fn what_is_written_reads_back(
        names in proptest::collection::vec("[a-z0-9+/;.$_()][-a-z0-9+/;.$_()]{0,60}", 2),
        numbers in proptest::collection::vec(any::<u32>(), 3),
    ) {
        for verb in Verb::ALL {
            any_request(*verb, &names, &numbers, |request| {
                let mut bytes = Vec::new();
                crate::write::request(&mut bytes, request);
                assert!(bytes.starts_with(verb.name().as_bytes()), "{}", bytes.escape_ascii());
                let expected = Parsed::Complete { message: *request, used: bytes.len() };
                assert_eq!(parse(&bytes, LARGEST), expected, "{}", bytes.escape_ascii());
                for cut in 0..bytes.len() {
                    assert!(matches!(parse(&bytes[..cut], LARGEST), Parsed::Incomplete { .. }));
                }
            });
        }
    }
}

#[test]
fn a_verb_is_found_by_its_word_alone() {
    for verb in Verb::ALL {
        assert_eq!(Verb::of(verb.name().as_bytes()), Some(*verb));
    }
    assert_eq!(Verb::of(b"putt"), None);
}
