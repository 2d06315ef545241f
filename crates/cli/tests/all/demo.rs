//! `krarup demo` as a user meets it: the table, the report, and nothing left behind, whatever
//! happens.

use crate::support;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::experiment::LONG;
use crate::support::fresh;
use crate::support::process::{Ended, Program};
use krarup_lab::change::Changes;
use krarup_lab::shipped;
use rustix::process::Signal;

/// The smallest demo there is, into a folder of its own.
fn demo(name: &str, flags: &[&str]) -> (Program, PathBuf) {
    let out = fresh(name);
    let arguments = ["demo", "--out", out.to_str().unwrap(), "--clients", "2,4", "--repetitions", "1"];
    (Program::begin(&[&arguments[..], flags].concat()), out)
}

/// Programs that a test has started and that still run: number and name.
fn children(parent: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let (Some(number), Ok(stat)) = (number, fs::read_to_string(entry.path().join("stat"))) else {
            continue;
        };
        // `12 (name) S 11 …`, where the name may hold anything but ends with the last parenthesis.
        let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
        if tail.split(' ').nth(1).and_then(|text| text.parse().ok()) == Some(parent) {
            found.push((number, head.split_once(" (").unwrap().1.to_owned()));
        }
    }
    found
}

/// Whether this very program still runs.
fn runs(number: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|found| found.trim_end() == name)
}

const WORKLOADS: [&str; 4] = ["read-only", "write-only", "1:1 mix", "multi-GET of 6"];

/// What a demo that went well leaves: a table and the report's path on stdout, a page and its
/// figures on disk.
fn assert_reported(ended: &Ended, out: &Path) {
    assert!(ended.success, "{ended:?}");
    // Into a pipe: progress as lines, and no colours.
    assert!(!ended.output.contains('\u{1b}') && !ended.errors.contains('\u{1b}'), "{ended:?}");
    assert!(ended.errors.contains("/8 workload multi-GET of 6, clients 4, run 1"), "{ended:?}");
    assert!(ended.errors.contains("\n8/8 workload "), "{ended:?}");
    for workload in WORKLOADS {
        let rows = ended.output.lines().filter(|line| line.starts_with(workload));
        assert!(rows.count() >= 2, "{workload} with 2 and 4 clients: {}", ended.output);
    }
    for column in ["clients", "throughput", "queue", "server", "own"] {
        assert!(ended.output.contains(column), "{column}: {}", ended.output);
    }
    let page = PathBuf::from(ended.output.lines().last().unwrap());
    assert_eq!(page.parent().unwrap(), out.canonicalize().unwrap());
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("</html>") && WORKLOADS.iter().all(|workload| html.contains(workload)));
    let results: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    let headroom = results["headroom"].as_array().unwrap();
    assert_eq!(headroom.len(), 8, "the proxy of each trial says what it knows");
    assert!(headroom.iter().all(|one| one["headroom"]["silent"][0] == "short_time"), "{headroom:?}");
    assert!(html.contains("What headroom says") && html.contains("8 of 8 trials are left out"));
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn a_demo_with_its_own_servers_ends_with_a_table_and_a_report() {
    let (demo, out) = demo("demo-embedded", &["--servers", "embedded", "--seconds", "0.1s"]);
    let ended = demo.ended_within(LONG);
    assert!(ended.errors.contains("servers: 3 × krarup cache"), "{ended:?}");
    assert_reported(&ended, &out);
}

#[test]
fn a_demo_with_memcached_names_its_version() {
    let (demo, out) = demo("demo-memcached", &["--servers", "memcached", "--seconds", "0.1s"]);
    let ended = demo.ended_within(LONG);
    assert!(ended.errors.contains("servers: 3 × memcached 1."), "{ended:?}");
    assert_reported(&ended, &out);
}

#[test]
fn a_demo_before_running_servers_uses_them_and_leaves_them_running() {
    let servers = [Program::memcached(&[]), Program::memcached(&[])];
    let addresses = format!("{},{}", servers[0].address(), servers[1].address());
    let (demo, out) = demo("demo-running", &["--servers", &addresses, "--seconds", "0.1s"]);
    let ended = demo.ended_within(LONG);
    assert_reported(&ended, &out);
    assert!(ended.errors.contains("servers: 2 × running 1."), "{ended:?}");
    for server in &servers {
        let mut peer = server.connect();
        assert_eq!(peer.count("curr_items"), 10_000);
        assert!(peer.count("cmd_set") >= 10_000 && peer.count("cmd_get") > 0);
    }
}

#[test]
fn a_demo_before_servers_that_are_not_there_says_which() {
    let closed = support::process::Port::new();
    let (demo, out) = demo("demo-closed", &["--servers", &closed.address().to_string(), "--seconds", "0.1s"]);
    let ended = demo.ended();
    assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""), "{ended:?}");
    let expected = format!("error: server {}: does not answer: Connection refused", closed.address());
    assert!(ended.errors.starts_with(&expected), "{ended:?}");
    assert!(!out.exists());
}

#[test]
fn a_demo_that_cannot_write_its_report_says_so_at_once() {
    let ended = Program::begin(&["demo", "--servers", "embedded", "--out", "/dev/null/report"]).ended();
    assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.errors.starts_with("error: /dev/null/report cannot be written: "), "{ended:?}");
    assert!(ended.errors.contains("hint: choose another directory") && !ended.errors.contains("servers:"));
}

#[test]
fn a_demo_leaves_another_experiment_as_it_is() {
    let out = fresh("demo-elsewhere");
    let trial = out.join("trials/x/0/trial.json");
    fs::create_dir_all(trial.parent().unwrap()).unwrap();
    fs::write(&trial, "{}").unwrap();
    let mut spec = Changes::of(shipped::spec("demo").unwrap(), "demo").unwrap();
    spec.set(&["title"], "mine");
    let arguments = ["demo", "--quick", "--servers", "embedded", "--out", out.to_str().unwrap()];
    // Also where nothing says whose trials they are.
    for has_spec in [false, true] {
        if has_spec {
            fs::write(out.join("spec.toml"), spec.source()).unwrap();
        }
        let ended = Program::begin(&arguments).ended();
        assert_eq!((ended.code, ended.output.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.errors.contains(" holds another experiment\n  hint: --out "), "{ended:?}");
        assert!(trial.is_file());
    }
    // Left by a demo it is no other one, and not even thrown away where no server answers.
    fs::copy(out.join("spec.toml"), out.join(".demo")).unwrap();
    let port = support::process::Port::new();
    let closed = port.address().to_string();
    let arguments = ["demo", "--servers", &closed, "--out", out.to_str().unwrap()];
    let ended = Program::begin(&arguments).ended();
    assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.errors.contains("does not answer") && trial.is_file(), "{ended:?}");
    // Nor is what was ended before its first trial.
    fs::remove_file(out.join("spec.toml")).unwrap();
    fs::remove_dir_all(out.join("trials/x")).unwrap();
    let ended = Program::begin(&arguments).ended();
    assert!(ended.code == Some(1) && ended.errors.contains("does not answer"), "{ended:?}");
    fs::remove_dir_all(out).unwrap();
}

/// Ctrl-C, or a polite end, at some point of a demo that would go on for long: everything it
/// started is ended.
fn interrupted(name: &str, signal: Signal, servers: &str) {
    let (mut demo, out) = demo(name, &["--servers", servers, "--seconds", "600s"]);
    demo.says_text("1/8 ");
    let mut started = Vec::new();
    support::until("servers, proxy and load run", || {
        started = children(demo.id());
        started.len() == 5
    });
    // A user who does not wait for the end.
    demo.signal(signal);
    demo.signal(signal);
    let ended = demo.ended();
    assert_eq!((ended.code, ended.output.as_str()), (Some(130), ""), "{ended:?}");
    assert!(ended.errors.contains("stopped on request; everything started was ended"), "{ended:?}");
    let left: Vec<_> = started.iter().filter(|(number, name)| runs(*number, name)).collect();
    assert!(left.is_empty(), "still running: {left:?} of {started:?}");
    assert!(!out.exists(), "no report of half a run");
}

#[test]
fn a_demo_that_was_stopped_goes_on_by_the_command_that_is_named() {
    let (mut demo, out) = demo("demo-goes-on", &["--servers", "embedded", "--seconds", "600ms"]);
    demo.says_text("3/8 ");
    demo.signal(Signal::INT);
    let ended = demo.ended();
    let directory = out.to_str().unwrap();
    let command = format!("`krarup run {directory}/spec.toml --out {directory}` goes on from here");
    assert!(ended.code == Some(130) && ended.errors.contains(&command), "{ended:?}");
    let spec = format!("{directory}/spec.toml");
    assert_eq!(fs::read(out.join(".demo")).unwrap(), fs::read(&spec).unwrap());
    let mut again = Program::begin(&["run", &spec, "--out", directory, "--yes"]);
    let first = again.says(|line| line.contains("/8 ").then(|| line.to_owned()));
    assert!(!first.starts_with("1/8 "), "{first}");
    assert!(again.ended_within(LONG).success);
    // What `krarup run` has measured no demo throws away.
    let ended = Program::begin(&["demo", "--quick", "--servers", "embedded", "--out", directory]).ended();
    assert!(ended.code == Some(2) && ended.errors.contains("another experiment"), "{ended:?}");
    assert!(fs::read_dir(out.join("trials")).unwrap().count() > 0);
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn ctrl_c_in_the_middle_of_a_demo_ends_everything_it_started() {
    interrupted("demo-interrupted", Signal::INT, "embedded");
}

#[test]
fn a_polite_end_in_the_middle_of_a_demo_ends_everything_it_started() {
    interrupted("demo-terminated", Signal::TERM, "memcached");
}
