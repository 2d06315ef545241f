//! `krarup broker` as a whole: what beanstalkd's clients see, and how it begins and ends.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use crate::support::conversation::answers;
use crate::support::peer::Peer;
use crate::support::process::{Port, Program, skipped};
use crate::support::{file, fresh, shown, until};
use rustix::process::Signal;

fn broker(flags: &[&str]) -> Program {
    let mut arguments = vec!["broker", "--listen", "127.0.0.1:0"];
    arguments.extend(flags);
    Program::krarup(&arguments)
}

/// A broker with these flags, and where monitoring asks it.
pub(crate) fn monitored(flags: &[&str]) -> (Program, SocketAddr) {
    let mut arguments = vec!["broker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    arguments.extend(flags);
    let mut broker = Program::begin(&arguments);
    let admin = broker
        .says(|line| line.strip_prefix("metrics on http://")?.trim().strip_suffix("/metrics")?.parse().ok());
    (broker.listening(), admin)
}

pub(crate) fn say(peer: &mut Peer, said: &str, expected: &str) {
    peer.send(said.as_bytes()).unwrap();
    peer.expect(expected.as_bytes()).unwrap_or_else(|why| panic!("after {said:?}:\n{why}"));
}

/// One whole answer to `stats…`, as a text.
pub(crate) fn data(peer: &mut Peer, said: &str) -> String {
    peer.send(said.as_bytes()).unwrap();
    let line = String::from_utf8(peer.line().unwrap()).unwrap();
    let length: usize =
        line.strip_prefix("OK ").and_then(|length| length.trim().parse().ok()).expect("data comes");
    let mut text = String::new();
    while text.len() < length + 2 {
        text += &String::from_utf8(peer.line().unwrap()).unwrap();
    }
    text
}

#[test]
fn a_message_goes_from_one_client_to_another_that_waits_for_it() {
    let broker = broker(&[]);
    let (mut worker, mut producer) = (broker.connect(), broker.connect());
    worker.send(b"watch jobs\r\nreserve\r\n").unwrap();
    worker.expect(b"WATCHING 2\r\n").unwrap();
    until("a client waits", || data(&mut producer, "stats\r\n").contains("current-waiting: 1\n"));
    say(&mut producer, "use jobs\r\nput 1 0 60 5\r\nhello\r\n", "USING jobs\r\nINSERTED 1\r\n");
    worker.expect(b"RESERVED 1 5\r\nhello\r\n").unwrap();
    say(&mut worker, "delete 1\r\n", "DELETED\r\n");
    let ended = broker.stop();
    assert!(ended.success && ended.output.contains("1 messages put, 0 ready"), "{ended:?}");
}

#[test]
fn a_lease_that_runs_out_goes_to_the_next_client_that_waits() {
    let broker = broker(&[]);
    let (mut first, mut second) = (broker.connect(), broker.connect());
    say(&mut first, "put 1 0 1 1\r\nx\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    // It takes a second: the time to run cannot be shorter. All is asked at once, as another second
    // later that lease is over, too; a buried message has none.
    say(&mut second, "reserve\r\nstats-job 1\r\nbury 1 1\r\n", "RESERVED 1 1\r\nx\r\n");
    assert!(data(&mut second, "").contains("\ntimeouts: 1\n"));
    second.expect(b"BURIED\r\n").unwrap();
    say(&mut first, "release 1 1 0\r\n", "NOT_FOUND\r\n");
}

#[test]
fn what_a_client_has_reserved_is_ready_again_when_it_goes() {
    let broker = broker(&[]);
    let (mut first, mut second) = (broker.connect(), broker.connect());
    say(&mut first, "put 1 0 60 1\r\nx\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    first.reset();
    say(&mut second, "reserve\r\n", "RESERVED 1 1\r\nx\r\n");
}

#[test]
fn requests_may_be_sent_without_waiting_and_are_answered_in_order() {
    let broker = broker(&[]);
    let (mut said, mut expected) = (String::new(), String::new());
    for id in 1..=2_000 {
        said += "put 1 0 60 3\r\nabc\r\nreserve\r\n";
        said += &format!("delete {id}\r\n");
        expected += &format!("INSERTED {id}\r\nRESERVED {id} 3\r\nabc\r\nDELETED\r\n");
    }
    let got = answers(&broker, said.as_bytes());
    assert!(got == expected.as_bytes(), "{}", shown(&got));
}

#[test]
fn the_largest_message_goes_through_and_comes_back() {
    let broker = broker(&["--max-message-size", "4MiB"]);
    let body = "z".repeat(4 << 20);
    let said = format!(
        "put 1 0 60 {0}\r\n{body}\r\npeek 1\r\nput 1 0 60 {1}\r\n{body}z\r\n",
        body.len(),
        body.len() + 1
    );
    let expected = format!("INSERTED 1\r\nFOUND 1 {}\r\n{body}\r\nJOB_TOO_BIG\r\n", body.len());
    let got = answers(&broker, said.as_bytes());
    assert!(got == expected.as_bytes(), "{}", shown(&got));
}

#[test]
fn a_full_broker_says_so_and_goes_on_when_there_is_room() {
    let broker = broker(&["--memory", "1000B"]);
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 3\r\nabc\r\n", "INSERTED 1\r\n");
    say(&mut peer, "put 1 0 60 400\r\n", "");
    say(&mut peer, &format!("{}\r\n", "x".repeat(400)), "OUT_OF_MEMORY\r\n");
    say(&mut peer, "delete 1\r\nput 1 0 60 3\r\nabc\r\n", "DELETED\r\nINSERTED 2\r\n");
}

#[test]
fn a_broker_in_memory_keeps_nothing_that_is_gone() {
    let broker = broker(&[]);
    let mut peer = broker.connect();
    say(&mut peer, "archive-tube a 60\r\nexpire-tube a 60\r\n", "NO_ARCHIVE\r\nEXPIRING\r\n");
    assert!(data(&mut peer, "stats-tube a\r\n").contains("\nexpires: 60\ntotal-expired: 0\n"));
}

#[test]
fn a_draining_broker_takes_no_more_messages() {
    let mut broker = broker(&[]);
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 3\r\nabc\r\n", "INSERTED 1\r\n");
    broker.signal(Signal::USR1);
    broker.says_text("draining");
    say(&mut peer, "put 1 0 60 3\r\nabc\r\nreserve\r\n", "DRAINING\r\nRESERVED 1 3\r\nabc\r\n");
    assert!(data(&mut peer, "stats\r\n").contains("draining: true\n"));
}

#[test]
fn a_client_that_waits_is_told_when_the_broker_stops() {
    let broker = broker(&[]);
    let mut peer = broker.connect();
    peer.send(b"put 1 0 60 1\r\nx\r\nreserve\r\nreserve\r\n").unwrap();
    peer.expect(b"INSERTED 1\r\nRESERVED 1 1\r\nx\r\n").unwrap();
    broker.interrupt();
    peer.expect(b"TIMED_OUT\r\n").unwrap();
    assert_eq!(peer.rest(), b"");
    assert!(broker.ended().success);
}

#[test]
fn with_a_secret_no_client_is_admitted_without_it() {
    let path = file("broker-secret", "open-sesame\n");
    let broker = broker(&["--secret", &path]);
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 1\r\nx\r\nlogin anna no\r\n", "NOT_LOGGED_IN\r\nNOT_LOGGED_IN\r\n");
    say(&mut peer, "login anna open-sesame\r\nput 1 0 60 1\r\nx\r\n", "LOGGED_IN\r\nINSERTED 1\r\n");
}

#[test]
fn statistics_are_written_and_their_stamps_are_in_order() {
    let folder = fresh("broker-statistics");
    let broker = broker(&["--stats-dir", folder.to_str().unwrap()]);
    assert_eq!(answers(&broker, b"put 1 0 60 1\r\nx\r\nreserve\r\n"), b"INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    assert!(broker.stop().success);
    let windows = fs::read_to_string(folder.join("windows.csv")).unwrap();
    assert!(windows.contains(",put,") && windows.contains(",reserve,"), "{windows}");
}

#[test]
fn every_request_leaves_a_row_with_its_stamps_in_order() {
    let path = fresh("broker-rows.parquet");
    let broker = broker(&["--rows", path.to_str().unwrap()]);
    let said = b"put 1 0 60 1\r\nx\r\nreserve\r\ndelete 1\r\n";
    assert_eq!(answers(&broker, said), b"INSERTED 1\r\nRESERVED 1 1\r\nx\r\nDELETED\r\n");
    assert!(broker.stop().success);
    let mut seen = Vec::new();
    let mut rows = krarup_record::file::rows::RowFile::open(&path).unwrap();
    rows.for_each(|visit, servers| {
        assert!(visit.is_ordered(servers));
        seen.push(visit.operation.name());
    })
    .unwrap();
    assert_eq!(seen, ["put", "reserve", "delete"]);
}

#[test]
fn monitoring_is_told_what_there_is() {
    let (broker, admin) = monitored(&[]);
    assert_eq!(answers(&broker, b"put 1 0 60 1\r\nx\r\nbroken\r\n"), b"INSERTED 1\r\nUNKNOWN_COMMAND\r\n");
    let told = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        String::from_utf8(answers_at(admin, request.as_bytes())).unwrap()
    };
    let metrics = told("/metrics");
    for line in [
        "krarup_broker_messages{state=\"ready\"} 1",
        "krarup_broker_requests_total{operation=\"put\"} 1",
        "krarup_broker_errors_total{operation=\"other\"} 1",
        "krarup_broker_store_takes 1",
        "krarup_broker_store_queue_length 0",
        "krarup_broker_response_time_seconds_count{operation=\"put\"} 1",
        "krarup_broker_batch_requests_bucket{le=\"+Inf\"} 0",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} in {metrics}");
    }
    assert!(told("/ready").ends_with("ready\n") && told("/health").ends_with("ok\n"));
    let top = |looks: &str| {
        let at = admin.to_string();
        let words = ["top", &at, "--looks", looks, "--every", "50ms"];
        let output = Command::new(env!("CARGO_BIN_EXE_krarup")).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let looks = top("2");
    assert_eq!(looks.matches(&format!("krarup broker at {admin}, up ")).count(), 2, "{looks}");
    assert!(looks.contains("messages   1 ready, 0 reserved"), "{looks}");
    broker.signal(Signal::USR1);
    until("it is not ready", || told("/ready").contains("draining"));
}

/// A real beanstalkd of the version whose every word is promised, 1.13 or later, if there is one:
/// older ones write names without quotation marks and are less strict about numbers.
fn beanstalkd() -> Option<(Program, Port)> {
    let name = std::env::var("BEANSTALKD").unwrap_or_else(|_| "beanstalkd".into());
    let port = Port::new();
    let said = Command::new(&name).arg("-v").output().ok()?.stdout;
    let minor = String::from_utf8_lossy(&said)
        .trim()
        .strip_prefix("beanstalkd 1.")?
        .split(['.', '+'])
        .next()?
        .parse();
    if minor.is_ok_and(|minor: u32| minor < 13) {
        return None;
    }
    let mut command = Command::new(name);
    command.args(["-l", "127.0.0.1", "-p", &port.address().port().to_string()]);
    let program = Program::spawn(command);
    until("beanstalkd listens", || std::net::TcpStream::connect(port.address()).is_ok());
    Some((program, port))
}

/// All that comes back for these bytes, up to the end.
fn answers_at(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut peer = Peer::connect(address);
    peer.send(bytes).unwrap();
    peer.finish();
    peer.rest()
}

#[test]
fn every_case_is_answered_as_beanstalkd_answers_it() {
    let Some((_real, port)) = beanstalkd() else {
        return skipped("no beanstalkd 1.13 or later is there; BEANSTALKD=/path/to/beanstalkd names one");
    };
    let broker = broker(&[]);
    let cases = include_str!("../broker/cases.txt");
    assert!(cases.lines().count() > 80);
    for case in cases.lines() {
        let bytes = case.replace('|', "\r\n").into_bytes();
        let (theirs, ours) = (answers_at(port.address(), &bytes), answers_at(broker.address(), &bytes));
        assert_eq!(shown(&ours), shown(&theirs), "to {case:?}");
    }
    // The names in the statistics of the server, in order; ours may follow.
    let names = |address| {
        let text = String::from_utf8(answers_at(address, b"stats\r\n")).unwrap();
        text.lines().filter_map(|line| Some(line.split_once(": ")?.0.to_owned())).collect::<Vec<_>>()
    };
    let (theirs, ours) = (names(port.address()), names(broker.address()));
    assert_eq!(ours[..theirs.len()], theirs);
}

/// A client library that knows beanstalkd's lines alone meets them.
#[test]
fn the_guide_names_the_lines_of_stats_behind_beanstalkds() {
    let broker = broker(&[]);
    let text = data(&mut broker.connect(), "stats\r\n");
    let names = text.lines().filter_map(|line| Some(line.split_once(": ")?.0));
    let added: Vec<&str> = names.skip_while(|name| *name != "platform").skip(1).collect();
    let guide = include_str!("../../../../docs/guide/broker.md");
    let row = guide.lines().find_map(|line| line.strip_prefix("| `stats` |")?.split_once(" behind "));
    let (named, _) = row.expect("a row of what is answered otherwise");
    assert_eq!(added, named.split('`').skip(1).step_by(2).collect::<Vec<_>>());
}
