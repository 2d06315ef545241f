//! `krarup load` as a whole program: against scripted servers, and against memcached.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::process::{Port, Program};
use crate::support::{certificate, folder_of_the_run, fresh, test_id};
use krarup_memcache::{Limits, Parsed, Request, request, write};
use krarup_record::{Quantity, file};
use rustix::process::Signal;
use serde_json::Value;

/// Starts it and goes on.
fn begun(args: &[&str]) -> Program {
    Program::begin(&[&["load"], args].concat())
}

/// Runs to the end: exit code, stdout, stderr.
fn finished(args: &[&str]) -> (i32, String, String) {
    let ended = begun(args).ended();
    (ended.code.expect("no signal ended it"), ended.output, ended.errors)
}

/// Runs to the end and reads the JSON from stdout.
fn result(args: &[&str]) -> (i32, Value, String) {
    let (code, stdout, stderr) = finished(&[args, &["--json", "-"]].concat());
    (code, serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}")), stderr)
}

/// What a scripted server does with a request.
enum Then {
    /// Answers like this.
    Say(Vec<u8>),
    /// Closes the connection after this.
    Close(Vec<u8>),
}

/// A server whose answers the test decides, on a port of its own. It ends with the test's process.
struct Scripted {
    address: String,
    /// Every byte that came on each connection, in the order in which they were accepted.
    received: Arc<Mutex<Vec<Vec<u8>>>>,
    /// One message for each request.
    asked: Receiver<()>,
}

/// `answer` is given the number of the request, counted over all connections, and the request.
fn scripted(answer: impl FnMut(usize, &Request<'_>) -> Then + Send + 'static) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let received = Arc::new(Mutex::new(Vec::new()));
    let (tell, asked) = mpsc::channel();
    let script = Arc::new(Mutex::new((0, answer)));
    let log = Arc::clone(&received);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let place = {
                let mut log = log.lock().unwrap();
                log.push(Vec::new());
                log.len() - 1
            };
            let (log, script, tell) = (Arc::clone(&log), Arc::clone(&script), tell.clone());
            thread::spawn(move || {
                serve(
                    stream,
                    |bytes| log.lock().unwrap()[place].extend_from_slice(bytes),
                    |request| {
                        let (number, answer) = &mut *script.lock().unwrap();
                        *number += 1;
                        let _ = tell.send(());
                        answer(*number - 1, request)
                    },
                );
            });
        }
    });
    Scripted { address, received, asked }
}

fn serve(mut stream: TcpStream, mut log: impl FnMut(&[u8]), mut answer: impl FnMut(&Request<'_>) -> Then) {
    let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut room) {
        log(&room[..count]);
        bytes.extend_from_slice(&room[..count]);
        loop {
            let (then, used) = match request::parse(&bytes, &Limits::default()) {
                Parsed::Complete { message, used } => (answer(&message), used),
                Parsed::Incomplete { .. } => break,
                Parsed::Invalid(refusal) => panic!("the generator wrote what is no request: {refusal:?}"),
            };
            bytes.drain(..used);
            match then {
                Then::Say(reply) => stream.write_all(&reply).unwrap_or(()),
                Then::Close(reply) => return stream.write_all(&reply).unwrap_or(()),
            }
        }
    }
}

fn say(text: &str) -> Then {
    Then::Say(text.as_bytes().to_vec())
}

/// A server that keeps what it is told to.
fn storing() -> impl FnMut(usize, &Request<'_>) -> Then + Send + 'static {
    let mut store: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    move |_, request| match request {
        Request::Store(set) => {
            store.insert(set.key.to_vec(), set.data.to_vec());
            say("STORED\r\n")
        }
        Request::Retrieve(get) => {
            let mut reply = Vec::new();
            for key in get.keys.iter() {
                if let Some(data) = store.get(key) {
                    write::value(&mut reply, key, 0, None, data);
                }
            }
            reply.extend_from_slice(b"END\r\n");
            Then::Say(reply)
        }
        other => panic!("not scripted: {other:?}"),
    }
}

fn number(value: &Value, path: &str) -> u64 {
    value
        .pointer(path)
        .unwrap_or(&Value::from(0))
        .as_u64()
        .unwrap_or_else(|| panic!("{path} is no count in {value}"))
}

/// Every request that was sent is answered or lost.
fn assert_nothing_is_lost_in_silence(result: &Value) {
    let lost: u64 =
        result["account"]["lost"].as_object().unwrap().values().map(|one| one.as_u64().unwrap()).sum();
    assert_eq!(number(result, "/account/sent"), number(result, "/account/answered") + lost);
}

#[test]
fn the_same_seed_sends_the_same_bytes_and_another_others() {
    let bytes = |seed: &str| {
        let server = scripted(storing());
        let flags = [
            "-s",
            &server.address,
            "-c",
            "3",
            "-n",
            "90",
            "--ratio",
            "1:4",
            "--multi-get",
            "3",
            "--seed",
            seed,
        ];
        let (code, result, _) = result(&flags);
        assert_eq!((code, number(&result, "/account/answered")), (0, 90));
        // Connections are made in order but may be accepted in another.
        let mut received = server.received.lock().unwrap().clone();
        received.sort();
        received
    };
    let one = bytes("7");
    assert_eq!(one.len(), 3);
    assert_eq!(one, bytes("7"));
    assert_ne!(one, bytes("8"));
}

#[test]
fn populating_stores_every_key_in_order_and_exactly_once_and_verifies_it() {
    let server = scripted(storing());
    let flags = [
        "-s",
        &server.address,
        "--populate-only",
        "--keys",
        "100",
        "--key-minimum",
        "5",
        "--data-size",
        "40-50",
    ];
    let (code, _, stderr) = finished(&flags);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("100 keys stored and verified"), "{stderr}");
    let received = server.received.lock().unwrap();
    let keys = |word: &str, bytes: &[u8]| -> Vec<String> {
        let lines = bytes.split(|&byte| byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned());
        lines
            .filter_map(|line| Some(line.strip_prefix(word)?.split_whitespace().next()?.to_owned()))
            .collect()
    };
    let expected: Vec<String> = (5..105).map(|number| format!("key-{number}")).collect();
    assert_eq!(keys("set ", &received[0]), expected);
    assert_eq!(keys("get ", &received[1]), expected);
}

#[test]
fn keys_whose_values_change_in_place_are_stored_and_not_verified() {
    let server = scripted(storing());
    let flags = ["-s", &server.address, "--populate-only", "--keys", "10", "--mix", "get=1,incr=1,append=1"];
    let (code, _, stderr) = finished(&flags);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("30 keys stored, 10 of them verified"), "{stderr}");
}

#[test]
fn keys_that_are_gone_after_populating_are_told() {
    let mut store = storing();
    let server = scripted(move |number, request| match request {
        Request::Retrieve(get) if get.keys.first() == b"key-3" => say("END\r\n"),
        _ => store(number, request),
    });
    let (code, _, stderr) = finished(&["-s", &server.address, "--populate", "--keys", "10"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("1 of 10 keys are not there") && stderr.contains("hint:"), "{stderr}");
}

#[test]
fn every_kind_of_error_is_survived_and_counted() {
    let mut store = storing();
    let server = scripted(move |number, request| match number % 10 {
        1 => say("ERROR\r\n"),
        2 => say("CLIENT_ERROR bad data chunk\r\n"),
        3 => say("SERVER_ERROR out of memory storing object\r\n"),
        5 => Then::Close(b"VALUE key".to_vec()),
        7 => say("NONSENSE\r\n"),
        _ => store(number, request),
    });
    let (code, result, _) = result(&["-s", &server.address, "-c", "2", "-n", "100", "--ratio", "1:1"]);
    assert_eq!(code, 0);
    assert_nothing_is_lost_in_silence(&result);
    let errors = &result["overall"]["errors"];
    for kind in ["error", "client_error", "server_error", "connection_lost", "out_of_step"] {
        assert_eq!(errors[kind], 10, "{kind} in {errors}");
    }
    assert_eq!(number(&result, "/account/connections_lost"), 20);
    assert_eq!(number(&result, "/account/sent"), 100);
    assert!(result["warnings"].as_array().unwrap().iter().any(|one| one["warning"] == "errors"));
}

#[test]
fn a_wrong_value_fails_the_verification() {
    let mut store = storing();
    let server = scripted(move |number, request| match store(number, request) {
        // One byte of a value is turned around, now and then.
        Then::Say(mut reply) if number >= 30 && number % 30 == 0 => {
            let place = reply.len() - 10;
            reply[place] ^= 1;
            Then::Say(reply)
        }
        then => then,
    });
    let flags =
        ["-s", &server.address, "-c", "1", "-n", "30", "--keys", "10", "--ratio", "0:1", "--data-size", "64"];
    let (code, result, stderr) = result(&[&flags[..], &["--populate", "--verify"]].concat());
    assert_eq!((code, number(&result, "/verified/checked")), (1, 30));
    assert_eq!(number(&result, "/verified/mismatched"), 1);
    assert!(stderr.contains("1 of 30 values are not what was stored"), "{stderr}");
    let flags = ["-s", &server.address, "-c", "1", "--keys", "10", "--ratio", "0:1", "--data-size", "64"];
    let search = ["--verify", "--find-max", "10s", "--rate", "10000", "--seconds", "50ms", "--drain", "50ms"];
    let (code, _, stderr) = finished(&[&flags[..], &search].concat());
    assert!(code == 1 && stderr.contains("values are not what was stored"), "{stderr}");
}

#[test]
fn a_run_that_only_missed_has_verified_nothing() {
    let server = scripted(storing());
    let flags = ["-s", &server.address, "-c", "1", "-n", "10", "--keys", "10", "--verify"];
    let (code, _, stderr) = finished(&[&flags[..], &["--ratio", "0:1"]].concat());
    assert!(code == 1 && stderr.contains("nothing was verified"), "{stderr}");
    assert!(stderr.contains("hint: ") && stderr.contains("--populate"), "{stderr}");
    let (code, _, stderr) = finished(&[&flags[..], &["--ratio", "1:0"]].concat());
    assert_eq!(code, 0, "nothing was asked for: {stderr}");
}

#[test]
fn a_miss_is_no_error_and_is_set_where_that_is_asked_for() {
    let server = scripted(storing());
    let flags =
        ["-s", &server.address, "-c", "1", "-n", "8", "--ratio", "0:100", "--multi-get", "5", "--keys", "20"];
    let more = ["--key-law", "sequential", "--on-miss", "set", "--verify"];
    let (code, result, _) = result(&[&flags[..], &more].concat());
    assert_eq!(code, 0);
    // The first four multi-gets go through all keys and miss; what they missed is set, and the next
    // four find it.
    assert_eq!((number(&result, "/account/misses"), number(&result, "/account/hits")), (20, 20));
    assert_eq!(number(&result, "/account/answers/set/stored"), 20);
    assert_eq!(number(&result, "/account/sent"), 28);
    assert_eq!(result["overall"]["errors"], serde_json::json!({}));
}

#[test]
fn an_interrupt_ends_the_run_and_still_reports() {
    let server = scripted(storing());
    let load = begun(&["-s", &server.address, "-c", "2", "--seconds", "600", "--json", "-"]);
    // By the fourth of two clients one of them has an answer.
    (0..4).for_each(|_| server.asked.recv().unwrap());
    load.signal(Signal::INT);
    let ended = load.ended();
    assert_eq!(ended.code, Some(0));
    let result = ended.json();
    assert_eq!(result["interrupted"], true);
    assert_nothing_is_lost_in_silence(&result);
    assert!(number(&result, "/account/answered") > 0);
}

/// As nohup starts it, it goes on where its terminal is gone.
#[test]
fn a_hang_up_that_is_ignored_ends_no_run() {
    let mut store = storing();
    let (go_on, sent) = mpsc::channel();
    let server = scripted(move |number, request| {
        if number == 5 {
            sent.recv().unwrap();
        }
        store(number, request)
    });
    let load =
        Program::ignoring_hang_ups(&["load", "-s", &server.address, "-c", "1", "-n", "5000", "--json", "-"]);
    // The sixth request waits for its answer.
    (0..6).for_each(|_| server.asked.recv().unwrap());
    load.signal(Signal::HUP);
    go_on.send(()).unwrap();
    let ended = load.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result = ended.json();
    assert_eq!((&result["interrupted"], number(&result, "/account/answered")), (&false.into(), 5_000));
}

#[test]
fn a_run_that_ends_in_its_warm_up_fails() {
    let server = scripted(storing());
    let (code, result, stderr) = result(&["-s", &server.address, "-c", "1", "-n", "5", "--warm-up", "600s"]);
    assert_eq!((code, number(&result, "/account/answered")), (1, 5), "{stderr}");
    assert_eq!(result["warnings"][0]["warning"], "nothing_measured");
    assert!(stderr.contains("nothing was measured") && stderr.contains("hint:"), "{stderr}");
}

#[test]
fn a_signal_ends_a_generator_that_is_still_connecting() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let login = file_with("silent-login", "anna:secret\n");
    let load = begun(&["-s", &address, "-c", "1", "--login", text(&login), "--connect-timeout", "600s"]);
    // It has said who it is, and gets no answer.
    let (mut peer, _) = silent.accept().unwrap();
    assert!(peer.read(&mut [0; 64]).unwrap() > 0);
    load.signal(Signal::TERM);
    let ended = load.ended();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.errors.contains("interrupted before the load began"), "{ended:?}");
}

/// What the wall clock will show in so many milliseconds.
fn in_millis(millis: u64) -> u64 {
    (krarup_net::Clock::start().wall_epoch() + krarup_units::Nanos::from_millis(millis)).0
}

#[test]
fn generators_that_are_told_one_instant_begin_together() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let address = server.address().to_string();
    // On a machine with much to do one may come too late.
    let in_time = [8_000, 30_000].iter().any(|&millis| {
        let at = in_millis(millis);
        let instant = at.to_string();
        let words = ["--servers", &address, "--seconds", "0.2", "--start-at", &instant, "--json", "-"];
        // The second is started a good while after the first: it has to print all its help before.
        let first = begun(&words);
        finished(&["--help"]);
        let ended = [first, begun(&words)].map(Program::ended);
        if ended.iter().any(|one| one.errors.contains("the load was to begin")) {
            return false;
        }
        for one in ended {
            assert!(one.success, "{}", one.errors);
            let started = one.json()["started_unix"].as_f64().unwrap();
            // Never before; how long after is the machine's affair.
            assert!(started >= at as f64 / 1e9 - 1e-6, "{started} {at}");
            assert!(started < at as f64 / 1e9 + 30.0, "{started} {at}");
        }
        true
    });
    assert!(in_time, "they come too late");
    let (code, _, errors) =
        finished(&["--servers", &address, "--seconds", "0.2", "--start-at", "2001-09-09T01:46:40Z"]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("the load was to begin") && errors.contains("hint: give --start-at"), "{errors}");
    let (code, _, errors) = finished(&["--start-at", "tomorrow"]);
    assert!(code == 2 && errors.contains("RFC 3339"), "{errors}");
}

#[test]
fn a_server_that_is_not_there_is_named_with_a_hint() {
    let nothing = Port::new();
    let address = nothing.address().to_string();
    let (code, stdout, stderr) = finished(&["-s", &address, "--connect-timeout", "20ms"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.starts_with(&format!("error: cannot connect to {address}: ")), "{stderr}");
    assert!(stderr.contains("hint:"), "{stderr}");
}

#[test]
fn what_makes_no_sense_is_one_line_a_hint_and_exit_code_2() {
    for (flags, named) in [
        (&["--conections", "5"][..], "--conections"),
        (&["--ratio", "one"], "one"),
        (&["--data-size", "huge"], "huge"),
        (&["--threads", "9", "--connections", "3"], "9 threads"),
        (&["--key-law", "zpif"], "zpif"),
        (&["--seconds", "5", "--warm-up", "5s"], "nothing left to measure"),
        (&["--seconds", "5", "--requests", "7"], "--requests"),
        (&["--requests", "0"], "`requests` is 0"),
        (&["--keys", "0"], "`keys` is 0"),
        (&["--rate", "many"], "many"),
        (&["--servers", "localhost"], "localhost"),
    ] {
        let (code, stdout, stderr) = finished(flags);
        assert_eq!((code, stdout.as_str()), (2, ""), "{flags:?}: {stderr}");
        assert!(stderr.contains(named), "{flags:?}: {stderr}");
    }
}

#[test]
fn progress_is_one_json_object_per_line() {
    let server = scripted(storing());
    let flags =
        ["-s", &server.address, "-n", "50", "-c", "2", "--keys", "10", "--populate", "--progress=json"];
    let (code, stdout, stderr) = finished(&flags);
    assert_eq!(code, 0);
    assert!(stdout.contains("per second"), "{stdout}");
    let lines: Vec<Value> = stderr
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for phase in ["populate", "check", "run"] {
        assert!(
            lines.iter().any(|line| line["phase"] == phase && line["second"]["count"].is_u64()),
            "{stderr}"
        );
    }
}

#[test]
fn seconds_and_histograms_are_files_that_record_reads_back() {
    let server = scripted(storing());
    let path = |name: &str| fresh(name).into_os_string().into_string().unwrap();
    let (csv, hlog) = (path("seconds.csv"), path("seconds.hlog"));
    let (code, result, _) =
        result(&["-s", &server.address, "-n", "60", "-c", "2", "--csv", &csv, "--hlog", &hlog]);
    assert_eq!(code, 0);
    let rows = file::windows::read(std::fs::File::open(&csv).unwrap()).unwrap();
    let log = file::log::read(std::fs::File::open(&hlog).unwrap()).unwrap();
    let logged = log.entries.iter().filter(|entry| entry.quantity == Quantity::Response);
    assert_eq!(rows.iter().map(|row| row.tally.count).sum::<u64>(), 60);
    assert_eq!(logged.map(|entry| entry.distribution.count()).sum::<u64>(), 60);
    assert_eq!(rows.iter().map(|row| row.tally.hits).sum::<u64>(), number(&result, "/account/hits"));
}

#[test]
fn what_is_no_plain_file_is_written_into_and_stays_what_it_is() {
    let server = scripted(storing());
    let pipe = fresh("load-seconds-pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = {
        let pipe = pipe.clone();
        thread::spawn(move || file::windows::read(std::fs::File::open(pipe).unwrap()).unwrap())
    };
    let (code, _, stderr) = finished(&["-s", &server.address, "-n", "60", "-c", "2", "--csv", text(&pipe)]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(reader.join().unwrap().iter().map(|row| row.tally.count).sum::<u64>(), 60);
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
    std::fs::remove_file(&pipe).unwrap();
}

#[test]
fn a_file_that_cannot_be_completed_takes_neither_the_result_nor_the_other_files_with_it() {
    let server = scripted(storing());
    let csv = fresh("load-seconds.csv");
    let flags = ["-s", &server.address, "-n", "60", "-c", "2"];
    for full in [&["--hlog", "/dev/full", "--csv", text(&csv)][..], &["--csv", "/dev/full"]] {
        let (code, stdout, stderr) = finished(&[&flags[..], full].concat());
        assert_eq!(code, 1, "{stderr}");
        assert!(stdout.contains("per second"), "{stdout}");
        assert!(stderr.contains("/dev/full cannot be written"), "{stderr}");
    }
    let rows = file::windows::read(std::fs::File::open(&csv).unwrap()).unwrap();
    assert_eq!(rows.iter().map(|row| row.tally.count).sum::<u64>(), 60);
}

#[test]
fn files_of_classes_are_completed_where_that_of_all_cannot_be() {
    let server = scripted(storing());
    let config = file_with("full.toml", "connections = 2\n[classes.readers]\n[classes.writers]\n");
    let csv = file_with("full.csv", "");
    std::fs::remove_file(&csv).unwrap();
    std::os::unix::fs::symlink("/dev/full", &csv).unwrap();
    let flags = ["-s", &server.address, "--config", text(&config), "-n", "60", "--csv", text(&csv)];
    let (code, _, stderr) = finished(&flags);
    assert!(code == 1 && stderr.contains("cannot be written"), "{stderr}");
    for class in ["readers.csv", "writers.csv"] {
        let rows = file::windows::read(std::fs::File::open(csv.with_extension(class)).unwrap()).unwrap();
        assert_eq!(rows.iter().map(|row| row.tally.count).sum::<u64>(), 30);
    }
}

#[test]
fn seconds_of_an_earlier_run_stay_where_no_run_is_completed() {
    let server = scripted(storing());
    let (csv, hlog) = (file_with("earlier.csv", "earlier"), file_with("earlier.hlog", "earlier"));
    let keep = ["-s", &server.address, "--keys", "10", "--csv", text(&csv)];
    let (code, _, stderr) = finished(&[&keep[..], &["--populate-only", "--hlog", text(&hlog)]].concat());
    assert_eq!(code, 0, "{stderr}");
    let failing = ["--start-at", "2001-09-09T01:46:40Z", "--hlog", text(&hlog)];
    let (code, _, stderr) = finished(&[&keep[..], &failing].concat());
    assert_eq!(code, 1, "{stderr}");
    for file in [&csv, &hlog] {
        assert_eq!(std::fs::read_to_string(file).unwrap(), "earlier");
    }
    // One that is completed leaves nothing of them, however long they were.
    std::fs::write(&hlog, "earlier".repeat(100_000)).unwrap();
    let (code, _, stderr) = finished(&[&keep[..], &["-n", "20", "--hlog", text(&hlog)]].concat());
    assert_eq!(code, 0, "{stderr}");
    assert!(!std::fs::read_to_string(&hlog).unwrap().contains("earlier"));
}

#[test]
fn a_stall_is_seen_by_every_request_that_was_due_in_it() {
    let mut store = storing();
    let server = scripted(move |number, request| {
        if number == 100 {
            // The whole server stands still for 100 ms, as when it collects garbage or writes to
            // disk.
            let begun = std::time::Instant::now();
            while begun.elapsed().as_millis() < 100 {
                thread::park_timeout(std::time::Duration::from_millis(100));
            }
        }
        store(number, request)
    });
    let flags = ["-s", &server.address, "-c", "1", "--rate", "1000", "--arrivals", "paced", "-n", "400"];
    let (code, result, _) = result(&[&flags[..], &["--ratio", "1:0"]].concat());
    assert_eq!(code, 0);
    assert_nothing_is_lost_in_silence(&result);
    let slow = |times: &str| -> f64 { result["overall"][times]["p90"].as_f64().unwrap() };
    let buckets = result["overall"]["histogram"]["buckets"].as_array().unwrap();
    let from = |micros: u64| -> u64 {
        buckets
            .iter()
            .filter(|one| one[0].as_u64().unwrap() * 100 >= micros)
            .map(|one| one[1].as_u64().unwrap())
            .sum()
    };
    // One request per millisecond: of those due during the stall, the k-th waits 100 - k ms at the
    // least.
    assert!(from(100_000) >= 1, "{buckets:?}");
    assert!(from(50_000) >= 50, "{buckets:?}");
    assert!(from(20_000) >= 80, "{buckets:?}");
    assert!(slow("response_time") > 0.05);
    // Who counts from the sending sees a tenth of it at most: nearly all waited before they were
    // sent.
    assert!(slow("time_from_sent") < slow("response_time") / 2.0, "{result}");
    assert!(result["warnings"].as_array().unwrap().iter().any(|one| one["warning"] == "connections_waited"));
}

#[test]
fn a_server_that_never_comes_back_does_not_keep_a_counted_run_from_ending() {
    let server = scripted(storing());
    let port = Port::new();
    let address = port.address();
    let mortal = TcpListener::bind(address).unwrap();
    // It lets one client in, and is gone.
    thread::spawn(move || drop((mortal.accept().unwrap(), mortal)));
    let servers = format!("{},{address}", server.address);
    let (code, result, stderr) = result(&["-s", &servers, "-c", "2", "-n", "40", "--give-up", "60ms"]);
    assert_eq!(code, 0, "{stderr}");
    assert_nothing_is_lost_in_silence(&result);
    assert_eq!(number(&result, "/account/answered"), 20);
    assert!(number(&result, "/account/connects_failed") > 0);
    assert!(result["warnings"].as_array().unwrap().iter().any(|one| one["warning"] == "gave_up"));
}

#[test]
fn the_highest_rate_is_searched_for_and_comes_with_its_trials() {
    let server = scripted(storing());
    // Any server answers within ten seconds: what is tested is the search. It starts so high that
    // no rate above is possible.
    let flags =
        ["-s", &server.address, "-c", "4", "--find-max", "10s", "--rate", "100000000", "--repetitions", "2"];
    let (code, found, stderr) = result(&[&flags[..], &["--seconds", "50ms", "--drain", "50ms"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let trials = found["trials"].as_array().unwrap();
    assert!(trials.iter().any(|trial| trial["carried"] == true), "{stderr}");
    assert!(trials.iter().any(|trial| trial["carried"] == false), "{stderr}");
    assert_eq!(found["found"].as_array().unwrap().len(), 2);
    assert!(found["rate"]["value"].as_f64().unwrap() > 0.0 && found["rate"]["n"] == 2);
}

#[test]
fn the_highest_rate_of_what_is_no_open_load_is_not_searched_for() {
    let thinking = file_with("thinking.toml", "think = \"1ms\"\n");
    let counted = file_with("counted.toml", "requests = 100\n");
    let classes = file_with("searched.toml", "[classes.a]\nratio = \"0:1\"\n[classes.b]\n");
    for (flags, named) in [
        (["--replay", "t.csv"], "not with a trace"),
        (["--config", text(&thinking)], "whose clients do not think"),
        (["--config", text(&counted)], "in trials of one length"),
        (["--config", text(&classes)], "with one class of clients"),
    ] {
        let (code, stdout, stderr) = finished(&[&["--find-max", "1ms", "--populate"][..], &flags].concat());
        assert_eq!((code, stdout.as_str()), (2, ""), "{flags:?}: {stderr}");
        assert!(stderr.contains(named) && stderr.contains("hint:"), "{flags:?}: {stderr}");
    }
    let (code, stdout, stderr) = finished(&["--find-max", "100s", "--populate"]);
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("with a limit below 100 s") && stderr.contains("hint:"), "{stderr}");
}

#[test]
fn a_line_written_for_memtier_runs_unchanged_and_its_outputs_are_there() {
    let server = scripted(storing());
    let (host, port) = server.address.split_once(':').unwrap();
    let name = fresh;
    let (link, json) = (name("link").join("memtier_benchmark"), name("memtier.json"));
    std::fs::create_dir_all(name("link")).unwrap();
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_krarup"), &link).unwrap();
    let json_flag = format!("--json-out-file={}", json.display());
    let line = [
        "-s",
        host,
        "-p",
        port,
        "-P",
        "memcache_text",
        "-c2",
        "-t1",
        "-n",
        "50",
        "--ratio=1:4",
        "--key-max=9",
    ];
    for (program, subcommand) in
        [(link.as_path(), None), (Path::new(env!("CARGO_BIN_EXE_krarup")), Some("memtier"))]
    {
        let output = Command::new(program).args(subcommand).args(line).arg(&json_flag).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let row = |name: &str| -> Vec<f64> {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect()
        };
        assert!(
            text.contains("Type        Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency"),
            "{text}"
        );
        assert!((row("Gets")[0] / row("Sets")[0] - 4.0).abs() < 0.01, "{text}");
        assert!(text.contains("Request Latency Distribution") && text.contains("\nGET "), "{text}");
        let read: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        assert_eq!(number(&read, "/ALL STATS/Sets/Count"), 20);
        assert_eq!(number(&read, "/ALL STATS/Totals/Count"), 100);
        let seconds = read["ALL STATS"]["Totals"]["Time-Serie"].as_object().unwrap();
        assert_eq!(seconds.values().map(|second| number(second, "/Count")).sum::<u64>(), 100);
        assert_eq!(read["configuration"]["ratio"], "1:4");
        let totals = &read["ALL STATS"]["Totals"];
        assert_eq!(
            (&totals["Connection Errors"], &totals["Connection Errors/sec"]),
            (&0.into(), &0.0.into())
        );
        let (whole, second) = (&totals["Percentile Latencies"], &totals["Time-Serie"]["0"]);
        // On a machine with much to do not all of it is in the first second.
        assert!(number(second, "/Count") < 100 || whole["p99.00"] == second["p99.00"], "{totals}");
        let packed = whole["Histogram log format"]["Compressed Histogram"].as_str().unwrap();
        assert!(packed.starts_with("HISTFAAA"), "{packed}");
    }
    // Several runs are the best, the worst and the average, in the form that is read back.
    let several = ["-x", "3", "--print-all-runs"];
    let output = Command::new(&link).args(line).args(several).arg(&json_flag).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = krarup_load::memtier::read::read(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let read = krarup_load::memtier::read::read(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let runs = ["RUN #1 RESULTS", "RUN #2 RESULTS", "RUN #3 RESULTS"];
    let all = [&runs[..], &["BEST RUN RESULTS", "WORST RUN RESULTS", "AGGREGATED AVERAGE RESULTS (3 runs)"]]
        .concat();
    assert_eq!(table.blocks.iter().map(|block| block.title.as_str()).collect::<Vec<_>>(), all);
    for block in &table.blocks {
        let same = read.blocks.iter().find(|other| other.title == block.title).unwrap();
        let [ours, theirs] = [block, same].map(|block| block.rows["Totals"].throughput.unwrap().0);
        assert!((ours - theirs).abs() < 0.01, "{}", block.title);
        assert!((block.rows["Gets"].mean.unwrap() - same.rows["Gets"].mean.unwrap()).abs() < 1e-8);
        assert_eq!(block.histograms.len(), 2);
    }
    let average = read.blocks.iter().find(|block| block.title.starts_with("AGGREGATED")).unwrap();
    assert_eq!(average.rows["Sets"].count, Some(60));
    let wrong = Command::new(&link).arg("--test-tme=3").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("--test-time"));
}

#[test]
fn a_table_for_memtier_that_cannot_be_written_costs_nothing_of_the_json() {
    let server = scripted(storing());
    let (host, port) = server.address.split_once(':').unwrap();
    let json = file_with("memtier-kept.json", &"earlier".repeat(100_000));
    let line = ["memtier", "-s", host, "-p", port, "-P", "memcache_text", "-c2", "-t1", "-n", "50"];
    let files = ["-o", "/dev/full", "--json-out-file", text(&json)];
    let ended = Program::begin(&[&line[..], &files].concat()).ended();
    assert!(ended.code == Some(1) && ended.errors.contains("/dev/full cannot be written"), "{ended:?}");
    let read: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(number(&read, "/ALL STATS/Totals/Count"), 100);
}

#[test]
fn a_line_for_memtier_to_which_nothing_was_answered_fails_once_its_outputs_are_there() {
    let server = scripted(|_, _| Then::Close(Vec::new()));
    let (host, port) = server.address.split_once(':').unwrap();
    let json = file_with("memtier-unanswered.json", "");
    let line = ["memtier", "-s", host, "-p", port, "-P", "memcache_text", "-c1", "-t1", "-n", "2"];
    let ended = Program::begin(&[&line[..], &["--json-out-file", text(&json)]].concat()).ended();
    assert!(ended.code == Some(1) && ended.errors.contains("not one request was answered"), "{ended:?}");
    assert!(ended.output.contains("Totals"), "{ended:?}");
    let read: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert!(read["ALL STATS"]["Totals"].is_object(), "{read}");
}

/// What a memcached counts.
fn stats(server: &Program) -> BTreeMap<String, u64> {
    let stats = server.connect().stats("").into_iter();
    stats.filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

#[test]
fn counts_agree_with_memcached_to_the_unit() {
    let server = Program::memcached(&[]);
    let address = server.address().to_string();
    let flags = ["-s", &address, "--keys", "500", "--data-size", "10-5000"];
    let (code, _, stderr) = finished(&[&flags[..], &["--populate-only"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let before = stats(&server);
    // Keys beyond those that were populated miss.
    let load = ["-s", &address, "--keys", "600", "-c", "7", "-t", "2", "-n", "3001", "--verify"];
    let more = ["--data-size", "10-5000", "--ratio", "1:9", "--multi-get", "4", "--pipeline", "3"];
    let (code, result, stderr) = result(&[&load[..], &more].concat());
    assert_eq!(code, 0, "{stderr}");
    let after = stats(&server);
    let grew = |name: &str| after[name] - before[name];
    assert_nothing_is_lost_in_silence(&result);
    assert_eq!(number(&result, "/account/sent"), 3_001);
    assert_eq!(grew("cmd_set"), number(&result, "/account/answers/set/stored"));
    assert_eq!(grew("cmd_get"), number(&result, "/account/keys"));
    assert_eq!(grew("get_hits"), number(&result, "/account/hits"));
    assert_eq!(grew("get_misses"), number(&result, "/account/misses"));
    assert!(number(&result, "/account/misses") > 0);
    // Beside the run there was the question for the statistics, and its answer before the run.
    assert_eq!(grew("bytes_read"), number(&result, "/account/bytes_sent") + "stats\r\n".len() as u64);
    assert_eq!(grew("total_connections"), 8);
    assert_eq!(number(&result, "/verified/mismatched"), 0);
    assert_eq!(number(&result, "/verified/checked"), number(&result, "/account/hits"));
}

#[test]
fn all_commands_are_what_memcached_understands() {
    let server = Program::memcached(&[]);
    let address = server.address().to_string();
    let mix = "get=1,mget=1,gets=1,gat=1,gats=1,set=1,add=1,replace=1,append=1,prepend=1,cas=1,delete=1,incr=1,decr=1,touch=1,\
               mg=1,ms=1,md=1,ma=1,me=1,mn=1,stats=1,version=1,verbosity=1";
    let flags = ["-s", &address, "--keys", "50", "--mix", mix, "--multi-get", "3", "-n", "6000", "-c", "4"];
    let (code, result, stderr) =
        result(&[&flags[..], &["--populate", "--verify", "--data-size", "40"]].concat());
    assert_eq!(code, 0, "{stderr}");
    assert_nothing_is_lost_in_silence(&result);
    assert_eq!(result["overall"]["errors"], serde_json::json!({}));
    let answers = result["account"]["answers"].as_object().unwrap();
    let operations =
        ["get", "multiget", "gat", "set", "add", "replace", "append", "prepend", "cas", "delete", "other"];
    for operation in operations {
        assert!(answers.contains_key(operation), "{operation}: {answers:?}");
    }
    let stats = stats(&server);
    let of = |operation: &str, kind: &str| number(&result, &format!("/account/answers/{operation}/{kind}"));
    assert_eq!(stats["delete_hits"], of("delete", "deleted") + of("delete", "meta_done"));
    assert_eq!(stats["delete_misses"], of("delete", "not_found"));
    let counted = of("incr", "number") + of("decr", "number") + of("incr", "meta_done");
    assert_eq!(stats["incr_hits"] + stats["decr_hits"], counted);
    for kind in ["version", "stats", "ok", "meta_debug", "meta_miss"] {
        assert!(of("other", kind) > 0, "{kind}: {answers:?}");
    }
    assert!(
        of("get", "meta_value") > 0 && of("get", "meta_miss") > 0 && of("set", "meta_done") > 0,
        "{answers:?}"
    );
    assert_eq!(stats["incr_misses"] + stats["decr_misses"], 0);
    assert_eq!(stats["cas_hits"], of("cas", "stored"));
    assert_eq!(stats["cas_badval"], of("cas", "exists"));
    assert_eq!(stats["touch_hits"], of("touch", "touched") + number(&result, "/operations/gat/hits"));
}

#[test]
fn everything_may_be_flushed_now_and_then() {
    let server = Program::memcached(&[]);
    let address = server.address().to_string();
    let mix =
        ["--mix", "get=50,set=50,flush_all=1", "-n", "2000", "-c", "2", "--verify", "--data-size", "40"];
    let (code, result, stderr) = result(&[&["-s", &address, "--keys", "20"][..], &mix].concat());
    assert_eq!(code, 0, "{stderr}");
    let flushed = number(&result, "/account/answers/flush/ok");
    assert!(flushed > 0);
    assert_eq!(stats(&server)["cmd_flush"], flushed);
    assert!(number(&result, "/operations/get/misses") > 0 && number(&result, "/operations/get/hits") > 0);
}

/// A file of this test's own, with this text.
fn file_with(name: &str, text: &str) -> PathBuf {
    let path = folder_of_the_run().join(format!("load-{}-{name}", test_id()));
    std::fs::write(&path, text).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn classes_run_side_by_side_and_every_output_tells_them_apart() {
    let server = scripted(storing());
    let config = file_with(
        "classes.toml",
        "connections = 6\nkeys = 50\n\
         [classes.readers]\nshare = 2\nratio = \"0:1\"\n\
         [classes.writers]\nratio = \"1:0\"\ndata_size = 100\nthink = \"1ms\"\n",
    );
    let (csv, hlog, rows) =
        (file_with("classes.csv", ""), file_with("classes.hlog", ""), file_with("classes.parquet", ""));
    let files = ["--csv", text(&csv), "--hlog", text(&hlog), "--rows", text(&rows)];
    let flags = ["-s", &server.address, "--config", text(&config), "-n", "600", "-t", "2", "--populate"];
    let (code, result, stderr) = result(&[&flags[..], &files].concat());
    assert_eq!(code, 0, "{stderr}");
    assert_nothing_is_lost_in_silence(&result);
    let count = |path: &str| number(&result, path);
    assert_eq!((count("/account/sent"), count("/account/misses")), (600, 0));
    assert_eq!((count("/classes/0/connections"), count("/classes/1/connections")), (4, 2));
    assert_eq!((count("/classes/0/answered"), count("/classes/1/answered")), (400, 200));
    assert_eq!(
        (count("/classes/0/operations/get/count"), count("/classes/1/operations/set/count")),
        (400, 200)
    );
    // A writer thinks a millisecond after each of its answers.
    let busy = &result["classes"][1]["overall"];
    assert!(busy["throughput"].as_f64().unwrap() <= 2.0 / 0.001, "{busy}");
    let series = result["series"].as_array().unwrap();
    let sum = |class: &str| -> u64 {
        let of = series.iter().filter(|row| row["class"].as_str().unwrap_or("") == class);
        of.filter(|row| row["operation"] == "all").map(|row| row["count"].as_u64().unwrap()).sum()
    };
    assert_eq!((sum(""), sum("readers"), sum("writers")), (600, 400, 200));
    for (name, count) in [("csv", 600), ("readers.csv", 400), ("writers.csv", 200)] {
        let read = file::windows::read(std::fs::File::open(csv.with_extension(name)).unwrap()).unwrap();
        assert_eq!(read.iter().map(|row| row.tally.count).sum::<u64>(), count);
    }
    for (name, count) in [("hlog", 600), ("readers.hlog", 400), ("writers.hlog", 200)] {
        let log = file::log::read(std::fs::File::open(hlog.with_extension(name)).unwrap()).unwrap();
        let logged = log.entries.iter().filter(|entry| entry.quantity == Quantity::Response);
        assert_eq!(logged.map(|entry| entry.distribution.count()).sum::<u64>(), count);
    }
    let mut stations = BTreeMap::new();
    file::rows::RowFile::open(&rows)
        .unwrap()
        .for_each(|visit, servers| {
            assert!(visit.is_ordered(servers));
            *stations.entry((visit.station, visit.operation.name())).or_insert(0) += 1;
        })
        .unwrap();
    assert_eq!(stations, BTreeMap::from([((0, "get"), 400), ((1, "set"), 200)]));
    assert_eq!(result["rows"], serde_json::json!({ "kept": 600, "lost": 0 }));
    let (code, table, _) = finished(&flags);
    assert_eq!(code, 0);
    assert!(table.contains("readers: 4 connections") && table.contains("writers: 2 connections"), "{table}");
}

#[test]
fn results_of_generators_merge_into_one() {
    let server = scripted(storing());
    let names = ["one.json", "two.json"].map(|name| file_with(name, ""));
    for (name, seed) in names.iter().zip(["1", "2"]) {
        let flags = ["-s", &server.address, "-c", "3", "-n", "90", "--seed", seed, "--json", text(name)];
        assert_eq!(finished(&flags).0, 0);
    }
    let both = format!("{},{}", text(&names[0]), text(&names[1]));
    let (code, merged, stderr) = result(&["--merge", &both]);
    assert_eq!(code, 0, "{stderr}");
    assert_nothing_is_lost_in_silence(&merged);
    assert_eq!((number(&merged, "/account/sent"), number(&merged, "/config/connections")), (180, 6));
    assert_eq!(number(&merged, "/overall/response_time/count"), 180);
    assert_eq!(merged["merged_from"].as_array().unwrap().len(), 2);
    let (code, _, stderr) = finished(&["--merge", "no/such/file.json"]);
    assert!(code == 2 && stderr.contains("no/such/file.json"), "{stderr}");
    for other in [
        &["--csv", "x"][..],
        &["--hlog", "x"],
        &["--rows", "x"],
        &["--find-max", "1ms"],
        &["--populate"],
        &["--populate-only"],
        &["--start-at", "2026-11-22T07:30:00Z"],
        &["--memtier-result", "x"],
    ] {
        let (code, _, stderr) = finished(&[&["--merge", &both][..], other].concat());
        assert!(code == 2 && stderr.contains("--merge") && stderr.contains(other[0]), "{stderr}");
    }
}

/// A pattern of names that fits the parts fits the sum of them, too, once that is there.
#[test]
fn a_generator_whose_result_is_named_twice_is_not_merged() {
    let server = scripted(storing());
    let names = ["once-one.json", "once-two.json", "once-all.json"].map(|name| file_with(name, ""));
    let [one, two, all] = names.each_ref().map(|name| text(name));
    for name in [one, two] {
        assert_eq!(finished(&["-s", &server.address, "-c", "3", "-n", "90", "--json", name]).0, 0);
    }
    assert_eq!(finished(&["--merge", one, two, "--json", all]).0, 0);
    let sum = std::fs::read_to_string(all).unwrap();
    for (parts, (file, other)) in [
        (&[one, one][..], (one, one)),
        (&[one, all, two], (all, one)),
        (&[all, two], (two, all)),
        (&[all, all], (all, all)),
    ] {
        let (code, out, errors) = finished(&[&["--merge"], parts, &["--json", all]].concat());
        let twice = format!("a generator of {file} is in {other} too, and would count twice");
        assert!(code == 2 && out.is_empty() && errors.contains(&twice), "{parts:?}: {errors}");
        assert_eq!(std::fs::read_to_string(all).unwrap(), sum);
    }
}

/// Generators that each send a share are together what one is: the same requests, to the unit.
#[test]
fn shares_of_several_generators_are_one_load_and_none_may_be_missing() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let address = server.address().to_string();
    let asked =
        ["-s", &address, "-c", "7", "-n", "500", "--ratio", "1:3", "--keys", "100", "--key-law", "zipf:0.9"];
    let (code, whole, stderr) = result(&[&asked[..], &["--threads", "3", "--populate"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let names = [1, 2, 3].map(|number| file_with(&format!("share-{number}.json"), ""));
    for (name, share) in names.iter().zip(["0+1/3", "2/3", "3/3"]) {
        let (code, _, stderr) = finished(&[&asked[..], &["--share", share, "--json", text(name)]].concat());
        assert_eq!(code, 0, "{stderr}");
    }
    let [one, two, three] = names.each_ref().map(|name| text(name).to_owned());
    let (code, merged, stderr) = result(&["--merge", &one, &two, &three]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(merged["account"], whole["account"]);
    assert_eq!(merged["config"], whole["config"]);
    assert_eq!(number(&merged, "/overall/response_time/count"), 500);
    let (code, out, errors) = finished(&["--merge", &one, &three]);
    assert!(code == 1 && out.is_empty() && errors.contains("of 3 shares these are missing: 2"), "{errors}");
    std::fs::remove_file(&names[1]).unwrap();
    let (code, out, errors) = finished(&["--merge", &one, &two, &three, "--merge-within", "10ms"]);
    assert!(code == 1 && out.is_empty() && errors.contains("1 of 3 results are missing"), "{errors}");
    let waiting = begun(&["--merge", &one, &two, &three, "--merge-within", "60s"]);
    let (code, _, stderr) = finished(&[&asked[..], &["--share", "2/3", "--json", &two]].concat());
    assert_eq!(code, 0, "{stderr}");
    let ended = waiting.ended();
    assert!(ended.success && ended.output.contains("7 connections"), "{ended:?}");
}

/// The clocks of generators are compared by the seconds of a real memcached that all of them asked;
/// where one differs, their results are not laid over each other.
#[test]
fn generators_whose_clocks_differ_are_not_merged() {
    let server = Program::memcached(&[]);
    let address = server.address().to_string();
    let names = ["ahead", "right"].map(|name| file_with(&format!("{name}.json"), ""));
    let parts = || names.each_ref().map(|name| crate::support::experiment::json(name));
    // On a machine with much to do a generator may come too late to ask, or be slow at it.
    let asked = [4_000, 8_000, 16_000, 32_000].iter().any(|&millis| {
        let instant = in_millis(millis).to_string();
        let load = ["-s", &address, "-c", "2", "-n", "40", "--keys", "10", "--start-at", &instant];
        let shares = ["1/2", "2/2"].into_iter().zip(&names);
        let begun: Vec<Program> = shares
            .map(|(share, name)| begun(&[&load[..], &["--share", share, "--json", text(name)]].concat()))
            .collect();
        let ended: Vec<_> = begun.into_iter().map(Program::ended).collect();
        ended.iter().all(|one| one.success) && parts().iter().all(|part| is_known_well(&part["clock"]))
    });
    assert!(asked, "{:?}", parts().map(|part| part["clock"].clone()));
    let [one, two] = parts();
    assert_eq!(one["clock"]["server"], two["clock"]["server"]);
    assert_eq!(one["clock"]["server"]["address"], address);
    let (one, two) = (text(&names[0]), text(&names[1]));
    let (code, merged, stderr) = result(&["--merge", one, two]);
    assert_eq!(code, 0, "{stderr}");
    let within = merged["clocks"]["within"].as_f64().unwrap();
    assert!((0.0..0.5).contains(&within), "one clock is not apart from itself: {}", merged["clocks"]);
    assert_eq!(merged["clocks"]["asked"], serde_json::json!([2]));
    let (code, table, _) = finished(&["--merge", one, two]);
    assert!(code == 0 && table.contains("\nclocks agree within "), "{table}");

    let [mut shifted, mut bare] = parts();
    for place in ["/started_unix", "/clock/began"] {
        let time = shifted.pointer_mut(place).unwrap();
        *time = (time.as_f64().unwrap() + 7.5).into();
    }
    std::fs::write(&names[0], shifted.to_string()).unwrap();
    let (code, out, errors) = finished(&["--merge", one, two]);
    assert!(code == 1 && out.is_empty(), "{errors}");
    assert!(errors.contains(&format!("the clock of {one} is 7.")) && errors.contains(two), "{errors}");
    assert!(errors.contains("hint: set the clocks"), "{errors}");
    // A generator that says nothing of its clock is not refused, and that is told.
    bare.as_object_mut().unwrap().remove("clock");
    std::fs::write(&names[1], bare.to_string()).unwrap();
    let (code, table, errors) = finished(&["--merge", one, two]);
    assert!(code == 0 && table.contains("clocks were not compared: 1 of 2 generators"), "{table}{errors}");
}

/// Whether a generator has seen a server's second begin, to a tenth of one.
fn is_known_well(clock: &Value) -> bool {
    clock["within"].as_f64().is_some_and(|within| within < 0.1)
}

/// A proxy tells its time as memcached does, and which of several at one address it is; who asks
/// not to be told asks nothing.
#[test]
fn a_proxy_tells_clocks_and_is_not_asked_where_that_is_not_wanted() {
    let store = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let proxy =
        Program::krarup(&["proxy", "--listen", "127.0.0.1:0", "--servers", &store.address().to_string()]);
    let address = proxy.address().to_string();
    let run = |millis: u64, more: &[&str]| {
        let instant = in_millis(millis).to_string();
        let load = ["-s", &address, "-c", "1", "-n", "5", "--start-at", &instant, "--json", "-"];
        let (code, stdout, stderr) = finished(&[&load[..], more].concat());
        // On a machine with much to do it may come too late.
        if code != 0 && stderr.contains("was to begin") {
            return Value::Null;
        }
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    };
    let asked = [3_000, 8_000, 16_000, 32_000].iter().map(|&millis| run(millis, &[])["clock"].clone());
    let clock = asked.into_iter().find(is_known_well).unwrap();
    assert_eq!(clock["server"]["id"].as_str().unwrap().len(), 16, "{clock}");
    // Its seconds are those of the wall, to the second at which it started.
    let ahead = clock["began"].as_f64().unwrap() - clock["second"].as_f64().unwrap();
    assert!((-0.1..1.5).contains(&ahead), "{clock}");
    let results = [8_000, 32_000].iter().map(|&millis| run(millis, &["--no-clock-check"]));
    let result = results.into_iter().find(Value::is_object).unwrap();
    assert!(result["config"].is_object() && result["clock"].is_null(), "{result}");
}

#[test]
fn a_trace_is_sent_again_with_its_keys_and_in_its_time() {
    let lines = "time_ms,op,key,size,ttl\n0,set,a,7,90\n20,get,a,,\n40,get,b a,,\n60,delete,a,,\n";
    let trace = file_with("trace.csv", lines);
    let run = |speed: &str| {
        let mut store = storing();
        let server = scripted(move |number, request| match request {
            Request::Delete { .. } => say("DELETED\r\n"),
            _ => store(number, request),
        });
        let rows = file_with("replayed.parquet", "");
        let replay = ["--replay", text(&trace), "--replay-speed", speed, "--rows", text(&rows), "-c", "1"];
        let (code, result, stderr) = result(&[&["-s", &server.address][..], &replay].concat());
        assert_eq!(code, 0, "{stderr}");
        assert_eq!((number(&result, "/account/sent"), number(&result, "/account/hits")), (4, 2));
        let received = server.received.lock().unwrap().concat();
        let received = String::from_utf8(received).unwrap();
        let lines: Vec<_> = received.lines().filter(|line| line.contains(' ')).map(str::to_owned).collect();
        assert_eq!(lines, ["set a 0 90 7", "get a", "get b a", "delete a"]);
        let mut due = Vec::new();
        file::rows::RowFile::open(&rows)
            .unwrap()
            .for_each(|visit, _| due.push(visit.received.0 / 1_000))
            .unwrap();
        due
    };
    assert_eq!(run("1"), [0, 20_000, 40_000, 60_000]);
    assert_eq!(run("4"), [0, 5_000, 10_000, 15_000]);
    // As fast as answers come: each is due when the one before was answered.
    assert!(run("max").windows(2).all(|pair| pair[0] <= pair[1]));
    let (code, _, stderr) = finished(&["--replay", "no/such/trace"]);
    assert!(code == 2 && stderr.contains("no/such/trace"), "{stderr}");
}

#[test]
fn keys_that_a_trace_names_are_not_populated() {
    let trace = file_with("named.csv", "time,op,key\n0,get,user:1\n");
    let server = scripted(storing());
    let replay = ["-s", &server.address, "-c", "1", "--replay-speed", "max", "--populate", "--replay"];
    let (code, asked, stderr) = result(&[&replay[..], &[text(&trace)]].concat());
    assert!(code == 0 && stderr.contains("nothing to populate: "), "{stderr}");
    assert_eq!(server.received.lock().unwrap().concat(), b"get user:1\r\n");
    let missed = serde_json::json!(
        { "warning": "misses", "count": 1, "of": 1, "replayed": true, "expires": false }
    );
    assert!(asked["warnings"].as_array().unwrap().contains(&missed), "{asked}");
    let (code, _, stderr) = finished(&[&replay[..], &[text(&trace), "--verify"]].concat());
    assert!(code == 1 && stderr.contains("hint: are these keys there? let the trace"), "{stderr}");
    // What it does not name is drawn from the range.
    let trace = file_with("unnamed.csv", "time,op,key\n0,get,user:1\n1,get,\n");
    let (code, _, stderr) = finished(&[&replay[..], &[text(&trace), "--keys", "10"]].concat());
    assert!(code == 0 && stderr.contains("10 keys stored and verified"), "{stderr}");
}

#[test]
fn a_trace_that_appends_cannot_be_verified() {
    let trace = file_with("append.csv", "time,op,key,size\n0,set,a,40\n1,append,a,40\n2,get,a,\n");
    let (code, _, stderr) = finished(&["--replay", text(&trace), "--verify"]);
    assert!(code == 2 && stderr.contains("append.csv") && stderr.contains("verified"), "{stderr}");
    assert!(stderr.contains("hint: leave out --verify"), "{stderr}");
}

#[test]
fn what_a_run_recorded_can_be_replayed() {
    let server = scripted(storing());
    let rows = file_with("recorded.parquet", "");
    let flags = ["-s", &server.address, "-c", "2", "--keys", "20"];
    let more = ["-n", "40", "--ratio", "1:3", "--multi-get", "3", "--rows", text(&rows)];
    assert_eq!(finished(&[&flags[..], &more].concat()).0, 0);
    let (code, result, stderr) =
        result(&[&flags[..], &["--replay", text(&rows), "--replay-speed", "max"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let answers = &result["account"]["answers"];
    assert_eq!((number(answers, "/set/stored"), number(answers, "/multiget/values")), (20, 20));
}

#[test]
fn rows_that_cannot_be_completed_cost_nothing_of_the_result() {
    let rows = file_with("taken.parquet", "");
    std::fs::remove_file(&rows).unwrap();
    let [json, csv] = ["taken.json", "taken.csv"].map(|name| file_with(name, ""));
    let (taken, mut store) = (rows.clone(), storing());
    let server = scripted(move |number, request| {
        // The rows are begun by now, and do not get the name of a directory.
        std::fs::create_dir_all(&taken).unwrap();
        store(number, request)
    });
    let files = ["--rows", text(&rows), "--json", text(&json), "--csv", text(&csv)];
    let (code, stdout, stderr) =
        finished(&[&["-s", &server.address, "-c", "1", "-n", "40"][..], &files].concat());
    assert!(code == 1 && stderr.contains("taken.parquet: "), "{code}: {stderr}");
    assert!(!stdout.is_empty(), "the table");
    let result: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!((number(&result, "/account/answered"), result.get("rows")), (40, None));
    let counted = file::windows::read(std::fs::File::open(&csv).unwrap()).unwrap();
    assert_eq!(counted.iter().map(|row| row.tally.count).sum::<u64>(), 40);
    std::fs::remove_dir(rows).unwrap();
}

#[test]
fn a_client_may_ask_every_server_in_turn() {
    let servers = [scripted(storing()), scripted(storing())];
    let both = format!("{},{}", servers[0].address, servers[1].address);
    let flags = ["-s", &both, "--spread", "every", "-c", "1", "-n", "40", "--keys", "10", "--on-miss", "set"];
    let (code, result, stderr) =
        result(&[&flags[..], &["--ratio", "0:1", "--key-law", "sequential"]].concat());
    assert_eq!(code, 0, "{stderr}");
    assert_nothing_is_lost_in_silence(&result);
    // Every other key each, in order; what misses is set at the server where it missed, and a
    // client asks one at a time.
    for (server, first) in servers.iter().zip([0, 1]) {
        let received = server.received.lock().unwrap();
        assert_eq!(received.len(), 1);
        let lines = String::from_utf8(received[0].clone()).unwrap();
        let gets: Vec<_> = lines.lines().filter_map(|line| line.strip_prefix("get key-")).collect();
        let expected: Vec<String> = (0..20).map(|turn| ((first + 2 * turn) % 10).to_string()).collect();
        assert_eq!(gets, expected);
        assert_eq!(lines.lines().filter(|line| line.starts_with("set ")).count(), 5);
    }
}

#[test]
fn connections_are_made_anew_after_their_number_of_requests() {
    let server = scripted(storing());
    let flags = ["-s", &server.address, "-c", "2", "-n", "60", "--reconnect-after", "10", "--verify"];
    // Some of them hit, and others miss.
    let flags = [&flags[..], &["--key-law", "zipf:2"]].concat();
    for extra in
        [&["--pipeline", "1"][..], &["--pipeline", "4"], &["--rate", "100000"], &["--on-miss", "set"]]
    {
        let (code, result, stderr) = result(&[&flags[..], extra].concat());
        assert_eq!(code, 0, "{stderr}");
        assert_nothing_is_lost_in_silence(&result);
        assert!(number(&result, "/account/sent") >= 60);
        // A client that has sent its last request begins no other connection.
        let renewed = number(&result, "/account/connections_renewed");
        assert!((4..=20).contains(&renewed), "{extra:?}: {renewed}");
        assert_eq!(number(&result, "/account/connections_lost"), 0);
        assert_eq!(result["overall"]["errors"], serde_json::json!({}));
    }
    let received = server.received.lock().unwrap();
    let requests =
        |bytes: &Vec<u8>| bytes.windows(4).filter(|four| *four == b"get " || *four == b"set ").count();
    assert!(received.iter().all(|bytes| requests(bytes) <= 10));
}

#[test]
fn what_was_due_before_the_end_is_sent_on_connections_that_are_made_anew() {
    let server = scripted(storing());
    // A request every 50 µs, for each of which a connection is made.
    let paced = ["-s", &server.address, "-c", "1", "--rate", "20000", "--arrivals", "paced"];
    let more = ["--seconds", "50ms", "--drain", "60s", "--reconnect-after", "1"];
    let (code, result, stderr) = result(&[&paced[..], &more].concat());
    assert_eq!(code, 0, "{stderr}");
    assert_nothing_is_lost_in_silence(&result);
    assert_eq!(number(&result, "/account/unsent"), 0, "{stderr}");
    assert!((990..=1_010).contains(&number(&result, "/account/answered")), "{}", result["account"]);
}

#[test]
fn a_slow_reader_takes_its_time() {
    let server = scripted(storing());
    let flags = ["-s", &server.address, "-c", "1", "--keys", "1", "--data-size", "10000", "--ratio", "0:1"];
    let more = ["-n", "3", "--populate", "--read-rate", "100000", "--verify"];
    let (code, result, stderr) = result(&[&flags[..], &more].concat());
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(number(&result, "/verified/checked"), 3);
    // Ten kilobytes at a hundred per second.
    let fastest = result["overall"]["response_time"]["min"].as_f64().unwrap();
    assert!(fastest > 0.09, "{fastest}");
}

/// A proxy before a memcached; `edge` is what its file says of how clients come in.
fn proxy(listen: &str, server: &Program, name: &str, edge: &str) -> Program {
    let config = file_with(name, &format!("[edge]\n{edge}\n"));
    let servers = server.address().to_string();
    Program::begin(&["proxy", "--listen", listen, "--servers", &servers, "--config", text(&config)])
}

#[test]
fn unix_sockets_are_targets_like_any_other() {
    let server = Program::memcached(&[]);
    let path = file_with("proxy.sock", "");
    std::fs::remove_file(&path).unwrap();
    let address = format!("unix:{}", path.display());
    let mut inner = proxy(&address, &server, "unix.toml", "");
    inner.says_text(&format!("listening on {address}"));
    let flags = ["-s", &address, "-c", "3", "-n", "300", "--populate", "--verify", "--keys", "30"];
    let (code, result, stderr) = result(&flags);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!((number(&result, "/account/answered"), number(&result, "/account/misses")), (300, 0));
    assert_eq!(number(&result, "/verified/mismatched"), 0);
}

#[test]
fn targets_may_be_encrypted_and_want_a_password() {
    let server = Program::memcached(&[]);
    let users = file_with("users", "anna:secret\n");
    let edge = format!(
        "users = {users:?}\ntls = {{ certificate = {:?}, key = {:?}, client_authorities = {:?} }}",
        certificate("proxy.pem"),
        certificate("proxy.key"),
        certificate("authority.pem")
    );
    let mut inner = proxy("127.0.0.1:0", &server, "tls.toml", &edge);
    let address = inner.says(|line| Some(line.split_once("listening on ")?.1.trim().to_owned()));
    let run = |who: &str, login: &str, limit: &str| {
        let (own, key) = (certificate(&format!("{who}.pem")), certificate(&format!("{who}.key")));
        let authority = certificate("authority.pem");
        let login = file_with("login", login);
        let tls = ["--tls-authorities", &authority, "--tls-certificate", &own, "--tls-key", &key];
        // Values that take more than one read and one write.
        let flags = ["-s", &address, "--login", text(&login), "-c", "3", "-n", "90", "--keys", "20"];
        let more = ["--populate", "--verify", "--data-size", "100000", "--reconnect-after", "20"];
        finished(&[&flags[..], &tls, &more, &["--connect-timeout", limit, "--json", "-"]].concat())
    };
    let (code, stdout, stderr) = run("client", "anna:secret\n", "30s");
    assert_eq!(code, 0, "{stderr}");
    let result: Value = serde_json::from_str(&stdout).unwrap();
    assert_nothing_is_lost_in_silence(&result);
    assert_eq!((number(&result, "/account/answered"), number(&result, "/account/misses")), (90, 0));
    assert!(number(&result, "/account/connections_renewed") > 0);
    assert!(!stdout.contains("secret"));
    // Those that are refused try for all of it, which may be too short for a busy machine.
    let is_named = ["5s", "30s"].into_iter().any(|limit| {
        let (code, _, stderr) = run("client", "anna:wrong\n", limit);
        assert!(code == 1 && !stderr.contains("wrong"), "{stderr}");
        stderr.contains("authentication failure")
    });
    assert!(is_named);
    let (code, _, stderr) = run("stranger", "anna:secret\n", "5s");
    assert!(code == 1 && stderr.contains("cannot connect"), "{stderr}");
}

/// By TLS 1.3 a server refuses a client's certificate once the client has made the connection.
#[test]
fn a_certificate_that_servers_miss_is_named() {
    let server = Program::memcached(&[]);
    let (own, key, authority) =
        (certificate("proxy.pem"), certificate("proxy.key"), certificate("authority.pem"));
    let edge =
        format!("tls = {{ certificate = {own:?}, key = {key:?}, client_authorities = {authority:?} }}");
    let mut inner = proxy("127.0.0.1:0", &server, "no-certificate.toml", &edge);
    let address = inner.says(|line| Some(line.split_once("listening on ")?.1.trim().to_owned()));
    let flags = ["-s", &address, "--tls-authorities", &authority, "-c", "3", "-n", "30"];
    // The first may be too short for a busy machine.
    let is_named = ["2s", "30s"].into_iter().any(|limit| {
        let (code, _, stderr) = finished(&[&flags[..], &["--connect-timeout", limit]].concat());
        assert_eq!(code, 1, "{stderr}");
        stderr.contains("received fatal alert: CertificateRequired")
    });
    assert!(is_named);
}

#[test]
fn scripts_and_results_of_memtier_are_read() {
    let script = file_with(
        "memtier.sh",
        "VC=3\nmemtier_benchmark -s h -p 1 -c $VC -t 2 --ratio=1:9 --test-time=5 # load\n",
    );
    let (code, line, stderr) = finished(&["--from-memtier", text(&script)]);
    assert_eq!(code, 0, "{stderr}");
    assert!(line.starts_with("krarup load --servers h:1 --threads 2 --connections 6 "), "{line}");
    // What it prints is a command line of ours.
    let words: Vec<&str> = line.split_whitespace().skip(2).collect();
    let (code, config, stderr) = finished(&[&words[..], &["--print-config"]].concat());
    assert!(code == 0 && config.contains("\nratio = \"1:9\"\n"), "{stderr}{config}");
    let table = format!("{}/../load/tests/memtier/one.txt", env!("CARGO_MANIFEST_DIR"));
    let (code, json, stderr) = finished(&["--memtier-result", &table]);
    assert_eq!(code, 0, "{stderr}");
    let read: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["blocks"][0]["rows"]["Gets"]["throughput"], 17_751.39);
    let kept = file_with("memtier-one.json", "earlier");
    let (code, printed, stderr) = finished(&["--memtier-result", &table, "--json", text(&kept)]);
    assert!(code == 0 && printed.is_empty(), "{stderr}{printed}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), json);
    for (reading, other) in [
        ("--from-memtier", "--json"),
        ("--from-memtier", "--rows"),
        ("--memtier-result", "--csv"),
        ("--memtier-result", "--hlog"),
    ] {
        let (code, _, stderr) = finished(&[reading, &table, other, "x"]);
        assert!(code == 2 && stderr.contains(reading) && stderr.contains(other), "{stderr}");
    }
    let (code, _, stderr) = finished(&["--from-memtier", &table]);
    assert!(code == 2 && stderr.contains("one.txt"), "{stderr}");
    // A configuration is printed wherever the result of its run would go.
    assert_eq!(finished(&["--print-config", "--json", "/proc/x"]).0, 0);
}

#[test]
fn messages_go_through_a_broker_and_come_out_as_they_went_in() {
    let broker = Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--store", "memory"]);
    let address = broker.address().to_string();
    // What a worker reserves it deletes when it is done: three requests for two that are drawn.
    let flags =
        ["-s", &address, "-c", "4", "-n", "600", "--data-size", "10-5000", "--verify", "--pipeline", "2"];
    let (code, result, stderr) = result(&[&flags[..], &["--mix", "put=2,reserve=1"]].concat());
    assert_eq!(code, 0, "{stderr}");
    assert_nothing_is_lost_in_silence(&result);
    let of = |operation: &str, kind: &str| number(&result, &format!("/account/answers/{operation}/{kind}"));
    assert_eq!(result["overall"]["errors"], serde_json::json!({}));
    assert_eq!(of("put", "stored") + of("reserve", "values") + of("reserve", "not_found"), 600);
    assert_eq!(of("delete", "deleted"), of("reserve", "values"));
    assert_eq!(number(&result, "/verified/checked"), of("reserve", "values"));
    assert_eq!(number(&result, "/verified/mismatched"), 0);
    // The five operations: add, take, look, end, ask for the queues. What is left over there is
    // taken.
    let left = of("put", "stored") - of("reserve", "values");
    let mix = ["--mix", "put=1,reserve=1,pop=2,peek=1,list=1", "-n", "3000", "--rate", "50000", "--verify"];
    let (code, stdout, stderr) = finished(&[&["-s", &address, "-c", "4", "--json", "-"][..], &mix].concat());
    assert_eq!(code, 0, "{stderr}");
    let second: Value = serde_json::from_str(&stdout).unwrap();
    let of = |operation: &str, kind: &str| number(&second, &format!("/account/answers/{operation}/{kind}"));
    assert_eq!(second["overall"]["errors"], serde_json::json!({}));
    assert!(of("pop", "values") + of("reserve", "values") <= of("put", "stored") + left);
    assert!(of("peek", "values") > 0 && of("list", "ok") > 0);
    let (code, _, stderr) = finished(&["--mix", "put=1,get=1"]);
    assert!(code == 2 && stderr.contains("no server takes both"), "{stderr}");
}

#[test]
fn clients_with_names_send_messages_to_each_other_through_many_queues() {
    let broker = Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--store", "memory"]);
    let address = broker.address().to_string();
    // A class that writes to the names under which the other takes.
    let classes = "names = 5\ntubes = 7\ndata_size = \"10-3000\"\n\
        [classes.writers]\nconnections = 3\nmix = \"send=1,send-to=2\"\n\
        [classes.readers]\nconnections = 4\n\
        mix = \"pop-tube=4,pop-sender=4,peek-tube=1,peek-sender=1,list-tubes-for-me=1,login=1\"\n";
    let file = file_with("names.toml", classes);
    let flags = [
        "-s",
        &address,
        "--config",
        text(&file),
        "-n",
        "4000",
        "--verify",
        "--threads",
        "2",
        "--reconnect-after",
        "200",
    ];
    let (code, result, stderr) = result(&flags);
    assert_eq!(code, 0, "{stderr}");
    assert_nothing_is_lost_in_silence(&result);
    assert_eq!(result["overall"]["errors"], serde_json::json!({}));
    let of = |operation: &str, kind: &str| number(&result, &format!("/account/answers/{operation}/{kind}"));
    assert!(of("put", "stored") > 1_000);
    assert!(of("pop", "values") > 0 && of("pop", "not_found") > 0 && of("peek", "values") > 0);
    assert!(of("pop", "values") <= of("put", "stored"));
    assert!(of("list", "ok") > 0 && of("other", "ok") > 0);
    assert_eq!(number(&result, "/verified/checked"), of("pop", "values") + of("peek", "values"));
    assert_eq!(number(&result, "/verified/mismatched"), 0);
    let (_, _, errors) =
        finished(&["-s", &address, "--mix", "send=1", "-n", "10", "-c", "2", "--login", "no/file"]);
    assert!(errors.contains("no/file"), "{errors}");
}

#[test]
fn workers_of_several_queues_use_each_their_own_and_give_back_what_they_cannot_do() {
    let broker = Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--store", "memory"]);
    let address = broker.address().to_string();
    let mix = "put=5,reserve=2,release=1,bury=1,kick=1,peek=1";
    let flags = ["-s", &address, "-c", "6", "--tubes", "3", "-n", "3000", "--mix", mix, "--verify"];
    let (code, result, stderr) = result(&flags);
    assert_eq!(code, 0, "{stderr}");
    assert_nothing_is_lost_in_silence(&result);
    let of = |operation: &str, kind: &str| number(&result, &format!("/account/answers/{operation}/{kind}"));
    assert!(of("release", "ok") > 0 && of("bury", "ok") > 0 && of("kick", "ok") > 0);
    let ends = of("delete", "deleted") + of("release", "ok") + of("bury", "ok");
    assert_eq!(of("reserve", "values"), ends);
    let mut stream = TcpStream::connect(broker.address()).unwrap();
    stream.write_all(b"list-tubes\r\nquit\r\n").unwrap();
    let mut tubes = String::new();
    stream.read_to_string(&mut tubes).unwrap();
    for tube in 0..3 {
        assert!(tubes.contains(&format!("- load-tube-{tube}\n")), "{tubes}");
    }
}

/// Only the connection that reserved a message may say what becomes of it.
#[test]
fn what_becomes_of_a_message_is_said_before_its_connection_is_made_anew() {
    let broker = Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--store", "memory"]);
    let address = broker.address().to_string();
    for extra in [&["--pipeline", "1"][..], &["--rate", "100000"]] {
        let flags = ["-s", &address, "-c", "1", "-n", "100", "--mix", "put=1,release=1"];
        let (code, result, stderr) = result(&[&flags[..], &["--reconnect-after", "1"], extra].concat());
        assert_eq!(code, 0, "{stderr}");
        assert_nothing_is_lost_in_silence(&result);
        let answers = &result["account"]["answers"];
        let reserved = number(answers, "/reserve/values");
        assert!(reserved > 0, "{answers}");
        assert_eq!(number(answers, "/release/ok"), reserved, "{answers}");
    }
}
