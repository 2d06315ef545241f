//! What tests say to a memcached, or to what should be like one: a list of cases, and conversations
//! by chance.

use std::collections::HashMap;
use std::process::Command;
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::process::{Program, skipped};
use super::shown;

/// A real one, without the threads that reorder items in the background: while these hold an item,
/// a number is not shortened in its place, and it cannot be said when that is.
pub(crate) fn memcached() -> Program {
    Program::memcached(&["-o", "no_modern"])
}

/// Whether the memcached that is installed is of the version whose every word is promised, its
/// errors included. Later ones word some of them otherwise, and read some forms more strictly: then
/// this says that what is compared to the letter is left out.
pub(crate) fn is_the_promised_version() -> bool {
    const PROMISED: &str = "memcached 1.6.18";
    let said = Command::new("memcached").arg("-V").output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said);
    if said.trim() != PROMISED {
        skipped(&format!("answers are compared to the letter with {PROMISED}, here is {}", said.trim()));
    }
    said.trim() == PROMISED
}

/// All that comes back for these bytes on a fresh connection, up to the end.
pub(crate) fn answers(program: &Program, bytes: &[u8]) -> Vec<u8> {
    let mut peer = program.connect();
    let mut writer = peer.other_handle();
    let bytes = bytes.to_vec();
    // A server that answers while it reads must find a reader.
    let sender = thread::spawn(move || {
        if writer.send(&bytes).is_ok() {
            writer.finish();
        }
    });
    let answers = peer.rest();
    sender.join().unwrap();
    answers
}

/// A case is one line, CR LF for each `|`; `{250}` stands for a key of 250 bytes, `{251}` for one
/// of 251.
const CASES: &str = "\
|
 |
foo|
FOO|
GET k|
gett k|
get|
get |
get k|
 get k|
get  k|
get k |
get k\r|
get k k nothing k|
get {250}|
get {251}|
get k {251}|
gets|
gets k|
gets k k|
bget k|
gat|
gat 0|
gat 0 k|
gats 0 k k|
gats 0 nothing k|
gat x k|
gat -1 k|get k|
gat 100 k|get k|
gat 0 {251}|
gat 0 k {251}|
set|
set a|
set a 0|
set a 0 0|
set a 0 0 1|x|get a|
set a 0 0 0||get a|
set a 0 0 1 noreply|x|get a|
set a 0 0 1 foo|x|get a|
set a 0 0 1 noreply foo|x|
set a 0 0 1 2 noreply|x|
set a 0 0 -1|x|
set a 0 0 x|x|
set a 0 0 1x|x|
set a 0 0 +1|x|get a|
set a x 0 1|x|
set a -1 0 1|x|
set a 01 0 1|x|get a|
set a +1 0 1|x|get a|
set a 4294967295 0 1|x|get a|
set a 0 x 1|x|
set a 0 1x 1|x|
set a 0 -1 1|x|get a|
set a 0 -1 1|x|add a 0 0 1|y|get a|
set a 0 2592000 1|x|get a|
set a 0 2592001 1|x|get a|
set a 0 2147483647 1|x|get a|
set a 0 0 1|xy|
set a 0 0 1|xyz|get k|
set a 0 0 3|x|get k|
set a 0 0 2 noreply|xyz|get k|
set a 0 0 x noreply|get k|
set {250} 0 0 1|x|get {250}|
set {251} 0 0 1|x|
set k 0 0 2147483647|
set k 7 0 1|x|gets k|
set a\u{1} 0 0 1|x|get a\u{1}|
set a\tb 0 0 1|x|get a\tb|
get a\tb|
add a 0 0 1|x|get a|
add k 0 0 1|x|get k|
add k 0 0 1 noreply|x|get k|
add a 3 0 1 noreply|x|get a|
replace a 0 0 1|x|get a|
replace k 0 0 1|x|get k|
append a 0 0 1|x|get a|
append k 9 0 1|x|get k|
append k 0 -1 1|x|get k|
append k 0 0 0||gets k|
prepend a 0 0 1|x|get a|
prepend k 9 0 1|x|get k|
prepend k 0 0 1 noreply|x|get k|
cas|
cas k 0 0|
cas k 0 0 1|x|
cas k 0 0 1 1|x|
cas k 0 0 1 0|x|
cas a 0 0 1 1|x|
cas a 0 0 1 0|x|
cas k 0 0 1 x|x|
cas k 0 0 1 -1|x|
cas k 0 0 1 18446744073709551615|x|
cas k 0 0 1 99999999999999999999999|x|
cas k 0 0 1 1 noreply|x|
cas k 0 0 1 1 foo|x|
cas k 0 0 1 noreply|x|
delete|
delete k|
delete k|delete k|
delete a|
delete k 0|
delete k 1|
delete k noreply|get k|
delete k 0 noreply|get k|
delete k foo|
delete k foo bar|
delete k 0 foo|
delete k 0 0|
delete k 0 noreply x|
delete {251}|
incr|
incr k|
incr k 1|get k|
incr k 0|gets k|
incr k 91|get k|
incr k x|
incr k 1x|
incr k -1|
incr k +1|
incr a 1|
incr k 1 noreply|get k|
incr k 1 foo|
incr k 1 2 noreply|
incr k 18446744073709551615|get k|
incr k 18446744073709551616|
incr {251} 1|
decr|
decr k|
decr k 1|get k|
decr k 11|get k|
decr a 1|
decr k 1 noreply|get k|
decr k x|
decr k 1|append k 0 0 1|5|incr k 1|get k|
set n 0 0 1|z|incr n 1|get n|
set n 0 0 0||incr n 1|get n|
set n 0 0 2| 5|incr n 1|get n|
set n 0 0 2|5 |incr n 1|get n|
set n 0 0 5|5 abc|incr n 1|get n|
set n 0 0 4|5abc|incr n 1|get n|
set n 0 0 2|+5|incr n 1|get n|
set n 0 0 2|-5|incr n 1|get n|
set n 0 0 2|-0|incr n 1|get n|
set n 0 0 21|-18446744073709551615|incr n 1|get n|
set n 0 0 4|0x10|incr n 1|get n|
set n 0 0 2|5\t|incr n 1|get n|
set n 0 0 31|0000000000000000000000000000005|incr n 1|get n|
set n 0 0 20|18446744073709551615|incr n 1|get n|
set n 0 0 20|18446744073709551616|incr n 1|get n|
set n 0 0 1|9|incr n 1|decr n 1|incr n 18446744073709551610|gets n|
touch|
touch k|
touch k 0|
touch k 100|gets k|
touch k -1|get k|
touch k 0 foo|
touch k x|
touch k 0 noreply|get k|
touch a 0|
touch {251} 0|
flush_all|
flush_all 0|
flush_all -1|get k|
flush_all x|
flush_all noreply|get k|
flush_all 0 noreply|get k|
flush_all 100|get k|flush_all|get k|
flush_all 0 0 0|
flush_all 100 2|flush_all|
verbosity|
verbosity 0|
verbosity x|
verbosity 0 noreply|get k|
verbosity noreply|get k|
verbosity 0 0|
verbosity 0 0 0|
quit|
quit foo|
quitx|
get k|quit|get k|
stats foo|
stats reset|
stats reset x|
stats extstore|
GET / HTTP/1.1|Host: example|
POST / HTTP/1.0|
watch foo|
extstore|
debugtime p|
set a 0 0 5|a|b|get|get a|
set a 0 0 2|||get a|
get k|get k|get k k|delete k|get k|
";

pub(crate) fn cases() -> Vec<Vec<u8>> {
    let keys = ("k".repeat(250), "k".repeat(251));
    let mut cases: Vec<Vec<u8>> = CASES
        .split('\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            line.replace("{250}", &keys.0).replace("{251}", &keys.1).replace('|', "\r\n").into_bytes()
        })
        .collect();
    let large = |command: &str, length: usize| {
        [format!("{command} {length}\r\n").as_bytes(), &vec![b'y'; length], b"\r\n"].concat()
    };
    // Around the limit: memcached counts 59 bytes more than key and value, and 4 for flags.
    let most = (1 << 20) - 59 - 1;
    cases.extend([
        large("set k 0 0", most),
        large("set k 0 0", most + 1),
        large("set k 1 0", most - 4),
        large("set k 1 0", most - 3),
        large("set k 0 0", 1 << 20),
        large("set k 0 0", (1 << 20) + 1),
        large("set k 0 0", 2_000_000),
        large("set a 0 0", 2_000_000),
        large("add a 0 0", 2_000_000),
        large("replace k 0 0", 2_000_000),
        large("append k 0 0", 2_000_000),
        [large("set k 0 0", 600_000), large("append k 0 0", 600_000)].concat(),
        large("append k 0 0", most - 2),
        large("append k 0 0", most),
        [b"get".to_vec(), b" k".repeat(2_000), b"\r\n".to_vec()].concat(),
        [b"gats 0".to_vec(), b" k a".repeat(1_500), b"\r\n".to_vec()].concat(),
        [b"get ".to_vec(), b"x".repeat(3_000), b"\r\n".to_vec()].concat(),
        [b"get ".to_vec(), b" ".repeat(3_000), b"k\r\n".to_vec()].concat(),
        [b"x".repeat(2_040), b"\r\n".to_vec()].concat(),
        // Longer than what memcached reads at once; the answer to what is shorter depends on the
        // network's cuts.
        b"x".repeat(40_000),
        // Line ends without carriage return.
        b"\nget k\nset a 0 0 1\nx\r\nget a\n".to_vec(),
        b"set a 0 0 1\r\nx\nget k\r\n".to_vec(),
        b"set n 0 0 2\r\n\n5\r\nincr n 1\r\nget n\r\n".to_vec(),
        b"set n 0 0 3\r\n5\0x\r\nincr n 1\r\nget n\r\n".to_vec(),
        b"get k\r\nget k\r\nget".to_vec(),
        b"set a 0 0 10\r\nx".to_vec(),
    ]);
    cases
}

/// A conversation of up to 400 requests.
pub(crate) fn requests() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(request(), 1..400)
}

/// The same, with meta commands among them.
pub(crate) fn meta_requests() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop_oneof![1 => request(), 3 => meta_request()], 1..400)
}

/// A meta request on one of a few keys. Left out is what each of several servers has of its own,
/// and what the passing of a second changes: when an item was last read (`h l`), how long it has to
/// live (`t`), `me`; that a comparing set may store a stale value (`C` with `I`); and what 1.6.18
/// tells of a quiet `ma` that creates its number.
fn meta_request() -> impl Strategy<Value = String> {
    let key = || prop::sample::select(vec!["a", "b", "c", "d", "YQ== b", "Yg== b"]);
    let quiet = || prop::sample::select(vec!["", "", " q"]);
    let asked =
        |flags: Vec<&'static str>| prop::sample::subsequence(flags, 0..4).prop_map(|flags| flags.concat());
    let value =
        || prop_oneof![2 => (0_u64..LARGE).prop_map(|number| number.to_string()), 1 => "[!-~][ -~]{0,29}"];
    let changes = || prop::sample::select(vec!["", "", " T0", " T1000", " N1000", " R2000", " N0 R30"]);
    let mode = || {
        prop::sample::select(vec![
            "",
            "",
            " MS",
            " ME",
            " MR",
            " T1000",
            " F7",
            " C{unique}",
            " MR C{unique}",
        ])
    };
    let more = || prop::sample::select(vec![" MA", " MP", " MA C{unique}"]);
    let split = |key: &str| match key.split_once(' ') {
        Some((key, flag)) => (key.to_owned(), format!(" {flag}")),
        None => (key.to_owned(), String::new()),
    };
    prop_oneof![
        5 => (key(), asked(vec![" s", " v", " f", " k", " O77", " u", " c"]), changes(), quiet()).prop_map(
            |(key, asked, changes, quiet)| format!("mg {key}{asked}{changes}{quiet}\r\n")),
        4 => (key(), asked(vec![" k", " c", " O7"]), mode(), value(), quiet()).prop_map(move |(key, asked, mode, value, quiet)| {
            let (key, base64) = split(key);
            format!("ms {key} {}{base64}{asked}{mode}{quiet}\r\n{value}\r\n", value.len())
        }),
        1 => (key(), more(), "[a-z ]{0,30}", quiet()).prop_map(move |(key, mode, value, quiet)| {
            let (key, base64) = split(key);
            format!("ms {key} {}{base64}{mode}{quiet}\r\n{value}\r\n", value.len())
        }),
        1 => (key(), prop::sample::select(vec!["", " I", " I T1000", " C{unique}", " I C{unique}"]), quiet()).prop_map(
            |(key, changes, quiet)| format!("md {key}{changes}{quiet}\r\n")),
        2 => (key(), asked(vec![" v", " k", " c", " O7"]), prop::sample::select(vec!["", " D7", " MD", " MI D30", " T1000"]), quiet())
            .prop_map(|(key, asked, changes, quiet)| format!("ma {key}{asked}{changes}{quiet}\r\n")),
        1 => key().prop_map(|key| format!("ma {key} N1000 J13 v\r\n")),
        1 => Just("mn\r\n".to_owned()),
    ]
}

/// Invents the same conversations every time, `cases` of them.
pub(crate) fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 1_000, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Sums of numbers below this stay below 2⁶³, and nothing that begins with a digit is ever put
/// before or behind a number. (memcached 1.6.18 refuses to count from a larger number if a minus
/// sign happens to lie in its memory somewhere behind the value, and finds numbers behind values of
/// blanks only: it cannot be said when.)
const LARGE: u64 = 90_000_000;

/// Stands for the cas unique that was last seen with the key.
const UNIQUE: &str = "{unique}";

/// A well-formed request on one of a few keys.
fn request() -> impl Strategy<Value = String> {
    let key = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let noreply = || prop::sample::select(vec!["", "", " noreply"]);
    let value = || {
        prop_oneof![
            3 => (0_u64..LARGE).prop_map(|number| number.to_string()),
            3 => (0_u64..200).prop_map(|number| number.to_string()),
            2 => "[!-~][ -~]{0,29}",
            1 => (1_usize..3_000).prop_map(|length| "y".repeat(length)),
        ]
    };
    let exptime = || prop::sample::select(vec!["0", "0", "1000", "-1", "2000000000"]);
    let word = prop::sample::select(vec!["set", "set", "add", "replace"]);
    let more = prop::sample::select(vec!["append", "prepend"]);
    prop_oneof![
        6 => (word, key(), 0_u32..9, exptime(), value(), noreply()).prop_map(
            |(word, key, flags, exptime, value, noreply)| format!("{word} {key} {flags} {exptime} {}{noreply}\r\n{value}\r\n", value.len())),
        3 => (more, key(), exptime(), "[a-z ]{0,30}", noreply()).prop_map(
            |(word, key, exptime, value, noreply)| format!("{word} {key} 7 {exptime} {}{noreply}\r\n{value}\r\n", value.len())),
        2 => (key(), value(), noreply()).prop_map(
            |(key, value, noreply)| format!("cas {key} 0 0 {} {UNIQUE}{noreply}\r\n{value}\r\n", value.len())),
        5 => (prop::sample::select(vec!["get", "gets", "gat 0", "gats 1000", "gat -1"]), prop::collection::vec(key(), 1..5)).prop_map(
            |(word, keys)| format!("{word} {}\r\n", keys.join(" "))),
        3 => (prop::sample::select(vec!["incr", "decr"]), key(), prop_oneof![0_u64..LARGE, 0_u64..300], noreply()).prop_map(
            |(word, key, delta, noreply)| format!("{word} {key} {delta}{noreply}\r\n")),
        // Seldom enough to leave something to flush.
        1 => (0_u8..8, noreply()).prop_map(
            |(chance, noreply)| if chance == 0 { format!("flush_all{noreply}\r\n") } else { "get a b c d\r\n".to_owned() }),
        1 => (key(), noreply()).prop_map(|(key, noreply)| format!("delete {key}{noreply}\r\n")),
        1 => (key(), exptime(), noreply()).prop_map(|(key, exptime, noreply)| format!("touch {key} {exptime}{noreply}\r\n")),
    ]
}

/// What comes back for each request, one after the other. (In a pipeline memcached does not shorten
/// a number in its place while the item still waits to be sent: whether there are blanks behind it
/// depends on the network's cuts.)
pub(crate) fn converse(program: &Program, requests: &[String]) -> Vec<String> {
    let mut peer = program.connect();
    let mut seen: HashMap<String, String> = HashMap::new();
    let answer = |request: &String| {
        let key = match request.split(' ').nth(1).unwrap_or_default() {
            "YQ==" => "a",
            "Yg==" => "b",
            key => key,
        };
        let unique = seen.get(key).map_or("1", String::as_str);
        let request = request.replace(UNIQUE, unique);
        peer.send([&request, "verbosity 0\r\n"].concat().as_bytes()).unwrap();
        let mut answer = Vec::new();
        // `flush_all` is answered with the same word.
        let mut ends = 1 + usize::from(request == "flush_all\r\n");
        while ends > 0 {
            let line = peer.line().unwrap();
            if let ["VALUE", key, _, _, unique] =
                String::from_utf8_lossy(&line).trim_end().split(' ').collect::<Vec<_>>()[..]
            {
                seen.insert(key.to_owned(), unique.to_owned());
            }
            ends -= usize::from(line == b"OK\r\n");
            answer.extend_from_slice(&line);
        }
        shown(&answer)
    };
    requests.iter().map(answer).collect()
}
