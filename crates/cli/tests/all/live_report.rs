//! `krarup run --serve` as a browser meets it: the page of the results so far, what happens, and at
//! the end the file.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::TOO_LONG;
use crate::support::experiment::{LONG, json, place};
use crate::support::peer::asked;
use crate::support::process::{Ended, Program};

const SPEC: &str = r#"
title = "one mix, two numbers of clients"
repetitions = { min = 2 }
phases = { warm_up = "50ms", measure = "150ms" }
data = ["--keys", "200", "--verify"]
population = "connections"

[[factor]]
name = "connections"
levels = [1, 3]

[populate]
[stations.servers]
program = "cache"
[stations.middleware]
program = "proxy"
[stations.clients]
program = "load"
flags = ["--connections", "$connections"]
"#;

/// What happens, event by event.
struct Listener(BufReader<TcpStream>);

impl Listener {
    fn at(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TOO_LONG)).unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    /// Reads on to the first event of which this holds.
    fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        let mut line = String::new();
        while self.0.read_line(&mut line).unwrap() > 0 {
            let event = line.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap());
            if let Some(event) = event.filter(&holds) {
                return event;
            }
            line.clear();
        }
        panic!("the events ended");
    }
}

fn begin(spec: &Path, out: &Path) -> (Program, SocketAddr) {
    let words = ["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap(), "--serve", "127.0.0.1:0"];
    let mut program = Program::begin(&words);
    let address = program
        .says(|line| line.strip_prefix("report, live: http://")?.trim().strip_suffix('/')?.parse().ok());
    (program, address)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

/// What the docs say makes the page live, taken away as a reader of the docs would.
fn without_what_makes_it_live(page: &str) -> String {
    let (mut plain, mut rest) = (String::new(), page);
    while let Some((before, inside)) = rest.split_once("<!--live-->") {
        plain += before;
        rest = inside.split_once("<!--/live-->\n").unwrap().1;
    }
    (plain + rest).replacen("; connect-src 'self'", "", 1)
}

#[test]
fn the_page_is_served_while_trials_run_renewed_after_each_and_at_the_end_the_file() {
    let (spec, out) = place("live-report", SPEC);
    let (mut program, address) = begin(&spec, &out);
    let mut listener = Listener::at(address);
    // A listener that is held up for long may meet the end before it.
    let over = |event: &Value| event["over"] == true;
    let status = listener.until(|event| over(event) || event["line"].as_str().unwrap().starts_with("trial "));
    assert!(over(&status) || status["ends"].as_f64().unwrap() > 1.7e9, "{status}");
    let status = listener.until(|event| event["page"].as_u64().unwrap() >= 3);
    let line = status["line"].as_str().unwrap();
    assert!(over(&status) || line.contains(" of 4: connections "), "{line}");
    let page = asked(address, "GET", "/");
    assert!(page.contains("Content-Type: text/html"), "{page}");
    assert!(body(&page).contains("one mix, two numbers of clients"), "{page}");
    let newest: u64 = page.split_once("data-page=\"").unwrap().1.split('"').next().unwrap().parse().unwrap();
    assert!(newest >= status["page"].as_u64().unwrap(), "the page is renewed before it is told");
    // The end: the same bytes as in the file, at both paths.
    let status = if over(&status) { status } else { listener.until(over) };
    let file = fs::read_to_string(out.join("report.html")).unwrap();
    assert_eq!(body(&asked(address, "GET", "/report.html")), file);
    let page = asked(address, "GET", "/");
    assert_ne!(body(&page), file);
    assert_eq!(without_what_makes_it_live(body(&page)), file);
    assert!(status["line"].as_str().unwrap().contains("report.html") && status["share"] == 1.0, "{status}");
    assert!(!file.contains("connect-src") && !file.contains("EventSource"));
    // It is served while a browser has it open, and no longer.
    assert!(asked(address, "GET", "/nothing").contains(" 404 "));
    assert!(asked(address, "POST", "/").contains(" 405 "));
    program.says_text("is served until that is closed");
    drop(listener);
    let ended = program.ended_within(LONG);
    assert!(ended.success, "{ended:?}");
    let reported = Program::begin(&["report", out.to_str().unwrap()]).ended();
    assert!(reported.success, "{reported:?}");
    assert_eq!(fs::read_to_string(out.join("report.html")).unwrap(), file);
}

#[test]
fn a_page_that_stays_open_is_served_until_ctrl_c_and_the_run_has_its_own_exit_code() {
    let (spec, out) = place("live-report-open", &SPEC.replace("[1, 3]", "[2]"));
    let (mut program, address) = begin(&spec, &out);
    let mut listener = Listener::at(address);
    let status = listener.until(|event| event["over"] == true);
    assert_eq!(json(&out.join("results.json"))["title"], "one mix, two numbers of clients", "{status}");
    program.says_text("is served until that is closed, or until Ctrl-C");
    program.signal(Signal::INT);
    let ended = program.ended_within(LONG);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_run_that_no_browser_looks_at_ends_like_any_other() {
    let (spec, out) = place("live-report-alone", &SPEC.replace("[1, 3]", "[2]"));
    let (program, _) = begin(&spec, &out);
    let ended = program.ended_within(LONG);
    assert!(ended.success && !ended.errors.contains("is served until"), "{ended:?}");
    assert!(ended.output.trim_end().ends_with("report.html"), "{ended:?}");
}

fn refused(words: &[&str]) -> Ended {
    let ended = Program::begin(words).ended();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    ended
}

#[test]
fn an_address_that_cannot_be_served_at_is_named_before_anything_is_begun() {
    let (spec, out) = place("live-report-refused", SPEC);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (spec, directory) = (spec.to_str().unwrap(), out.to_str().unwrap());
    let ended = refused(&["run", spec, "--out", directory, "--serve", &address]);
    assert!(ended.errors.contains(&format!("--serve: cannot listen on {address}")), "{ended:?}");
    assert!(ended.errors.contains("hint: "), "{ended:?}");
    let ended = refused(&["run", "--serve", spec]);
    assert!(
        ended.errors.contains("--serve: ")
            && ended.errors.contains("the spec before it: krarup run SPEC --serve"),
        "{ended:?}"
    );
    assert!(!out.exists());
}
