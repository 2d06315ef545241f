//! `krarup cache` against a real memcached: the same bytes go to both, the same must come back.
//!
//! memcached 1.6.18 is what the differences below were written down for; other 1.6 answer the rest
//! alike.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::support::conversation::{
    answers, cases, converse, is_the_promised_version, memcached, requests, runner,
};
use crate::support::peer::Peer;
use crate::support::process::Program;
use crate::support::{certificate, shown};
use proptest::prelude::*;

fn cache() -> Program {
    Program::krarup(&["cache", "--listen", "127.0.0.1:0"])
}

/// Before each case, on a connection of its own: nothing is stored but `k`, nothing is counted.
/// (memcached 1.6.18 forgets what it owes to earlier requests of the same packet when it refuses a
/// key in a `get`.)
const BEFORE: &[u8] = b"flush_all\r\nset k 5 0 2\r\n10\r\nstats reset\r\n";
/// What comes back for a case: the same state before it in both.
fn both(memcached: &Program, cache: &Program, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    for program in [memcached, cache] {
        assert_eq!(answers(program, BEFORE), b"OK\r\nSTORED\r\nRESET\r\n");
    }
    (answers(memcached, bytes), answers(cache, bytes))
}

/// After each case: whether the connection still listens, and what became of `k`, with its cas
/// unique.
const AFTER: &[u8] = b"gets k\r\n";

/// Where `krarup cache` answers otherwise, and means to: bytes, why, memcached's answer, ours. `|`
/// is CR LF.
///
/// Five more cannot be shown by one answer that is always the same: a value of blanks only is no
/// number to `incr` (memcached reads on, beyond the value), and one of 2⁶³ or more is (memcached
/// looks for a minus sign beyond it); `stats` has fewer lines, and none for slabs, items and
/// connections; time is counted in nanoseconds, not in ticks of a second; and a line over 2048
/// bytes without a retrieval ends the connection wherever the network cuts it.
const DIFFERENCES: [(&str, &str, &str, &str); 11] = [
    (
        "version|",
        "the version is of a memcached without meta commands, then its own",
        "VERSION 1.6.18|",
        "VERSION 1.4.39 krarup-0.1.0|",
    ),
    ("mn|", "meta commands are not known", "MN|", "ERROR|"),
    ("mg k v|", "meta commands are not known", "VA 2|10|", "ERROR|"),
    ("cache_memlimit 64|", "memory is set at the start", "OK|", "ERROR|"),
    ("shutdown|", "signals stop it", "ERROR: shutdown not enabled|", "ERROR|"),
    ("stats detail on|", "nothing is kept for each prefix", "OK|", "ERROR|"),
    ("stats sizes|", "nothing is kept for each size", "STAT sizes_status disabled|END|", "END|"),
    (
        "set a 4294967296 0 1|x|",
        "flags that do not fit are refused, not cut",
        "STORED|",
        "CLIENT_ERROR bad command line format|ERROR|",
    ),
    (
        "set a 0 99999999999 1|x|",
        "times that do not fit are refused, not cut",
        "STORED|",
        "CLIENT_ERROR bad command line format|ERROR|",
    ),
    (
        "set a\0b 0 0 1|",
        "a zero byte within a line is refused, wherever it stands",
        "ERROR|",
        "CLIENT_ERROR bad command line format|",
    ),
    (
        "get k\0a|",
        "a zero byte within a line is refused, wherever it stands",
        "VALUE k 5 2|10|END|",
        "CLIENT_ERROR bad command line format|",
    ),
];

#[test]
fn every_case_is_answered_as_memcached_answers_it() {
    if !is_the_promised_version() {
        return;
    }
    let (memcached, cache) = (memcached(), cache());
    let cases = cases();
    assert!(cases.len() > 200);
    let mut differences = Vec::new();
    for case in cases {
        let (theirs, ours) = both(&memcached, &cache, &[&case, AFTER].concat());
        if theirs != ours {
            differences.push(format!(
                "  {}\n    memcached: {}\n        cache: {}",
                shown(&case),
                shown(&theirs),
                shown(&ours)
            ));
        }
    }
    assert!(differences.is_empty(), "{} answers differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn the_differences_are_those_that_are_written_down() {
    if !is_the_promised_version() {
        return;
    }
    let (memcached, cache) = (memcached(), cache());
    for (case, why, theirs, ours) in DIFFERENCES {
        let bytes = |text: &str| text.replace('|', "\r\n").into_bytes();
        let answers = both(&memcached, &cache, &bytes(case));
        assert_eq!(shown(&answers.0), shown(&bytes(theirs)), "memcached: {case} ({why})");
        assert_eq!(shown(&answers.1), shown(&bytes(ours)), "cache: {case} ({why})");
    }
}

/// Counters that count the same in both. (memcached counts a `set` whose value is not as long as
/// announced.)
const COUNTERS: [&str; 18] = [
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "get_hits",
    "get_misses",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
    "cas_hits",
    "cas_misses",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "total_items",
];

fn counters(program: &Program) -> Vec<(&'static str, String)> {
    let text = String::from_utf8(answers(program, b"stats\r\n")).unwrap();
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '))
            .unwrap_or_else(|| panic!("no {name} in {text}"))
            .to_owned()
    };
    COUNTERS.iter().map(|&name| (name, value(name))).collect()
}

/// Whatever well-formed requests come, in whatever order, replies and counters are the same to the
/// unit.
#[test]
fn any_conversation_is_the_same_and_counted_the_same() {
    if !is_the_promised_version() {
        return;
    }
    let happened = RefCell::new(BTreeSet::new());
    runner(16)
        .run(&requests(), |requests| {
            // A fresh pair: after one difference all cas uniques would differ.
            let (memcached, cache) = (memcached(), cache());
            let (theirs, ours) = (converse(&memcached, &requests), converse(&cache, &requests));
            for ((request, theirs), ours) in requests.iter().zip(theirs).zip(ours) {
                prop_assert_eq!(theirs, ours, "memcached and cache about {}", request);
            }
            let counted = counters(&memcached);
            prop_assert_eq!(&counted, &counters(&cache));
            happened
                .borrow_mut()
                .extend(counted.iter().filter(|(_, value)| value != "0").map(|(name, _)| *name));
            Ok(())
        })
        .unwrap();
    assert_eq!(happened.into_inner(), BTreeSet::from(COUNTERS), "a counter that never counted shows nothing");
}

#[test]
fn it_ends_with_its_counts_when_it_is_told_to() {
    let cache = cache();
    let mut client: Peer = cache.connect();
    client.send(b"set k 0 0 1\r\nx\r\nget k j\r\n").unwrap();
    client.expect(b"STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n").unwrap();
    let ended = cache.stop();
    assert_eq!(client.rest(), b"");
    assert!(ended.success);
    let counts =
        ["cmd_set", "cmd_get", "get_hits", "get_misses"].map(|name| ended.count(&format!("{name} ")));
    assert_eq!(counts, [1, 2, 1, 1]);
}

#[test]
fn memory_is_bounded_and_the_flags_of_memcached_are_understood() {
    let cache = Program::krarup(&["cache", "-l", "127.0.0.1", "-p", "0", "-m", "2", "-I", "256k", "-c", "2"]);
    let mut client = cache.connect();
    for number in 0..40 {
        let set = [format!("set k{number} 0 0 100000\r\n").as_bytes(), &[b'y'; 100_000], b"\r\n"].concat();
        client.send(&set).unwrap();
        client.expect(b"STORED\r\n").unwrap();
    }
    client.send(b"set k 0 0 262144\r\n").unwrap();
    client.send(&[&[b'y'; 262_144][..], b"\r\n"].concat()).unwrap();
    client.expect(b"SERVER_ERROR object too large for cache\r\n").unwrap();
    let ended = cache.stop();
    let (items, evictions) = (ended.count("total_items "), ended.count("evictions "));
    // 2 MiB hold twenty of them.
    assert_eq!((items, evictions), (40, 20));
}

#[test]
fn a_command_that_makes_no_sense_ends_with_one_line_and_a_hint() {
    let running = cache();
    let address = running.address().to_string();
    for (arguments, expected) in [
        (&["cache", "--listen", address.as_str()][..], "choose another port"),
        (&["cache", "-m", "1", "-I", "2m"], "hint: "),
        (&["cache", "--memory", "much"], "`much` is not a size"),
    ] {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_krarup")).args(arguments).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
}

/// What the driver of all services can do, the cache can.
#[test]
fn clients_may_have_to_speak_tls() {
    let [proxied, key] = ["proxy.pem", "proxy.key"].map(certificate);
    let [own, own_key, authority] = ["client.pem", "client.key", "authority.pem"].map(certificate);
    let greeting = ["--tls-certificate", &proxied, "--tls-key", &key, "--tls-client-authorities", &authority];
    let cache = Program::krarup(&[&["cache", "--listen", "127.0.0.1:0"][..], &greeting].concat());
    let mut plain = cache.connect();
    plain.send(b"version\r\n").unwrap();
    assert!(!plain.rest().starts_with(b"VERSION"));
    let address = cache.address().to_string();
    let known = ["--tls-authorities", &authority, "--tls-certificate", &own, "--tls-key", &own_key];
    // Values that take more than one read and one write.
    let load = ["load", "-s", &address, "-c", "3", "-n", "90", "--keys", "20", "--populate", "--verify"];
    let flags = [&load[..], &["--data-size", "100000", "--connect-timeout", "60s"], &known].concat();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_krarup")).args(flags).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let ended = cache.stop();
    assert!(ended.success && ended.count("get_hits ") > 0, "{ended:?}");
}
