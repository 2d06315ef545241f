//! What monitoring is told of a running proxy is what happened.

use std::net::SocketAddr;
use std::process::Command;

use crate::support::peer::{Peer, asked, listen};
use crate::support::process::{Program, as_user, limited, processes, skipped};
use crate::support::until;
use rustix::process::{Pid, Signal, kill_process};

/// The status and the body of an answer over HTTP.
pub(crate) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut told = String::new();
    // On a machine with much to do it may be late.
    until("the event loop answers", || {
        told = asked(address, "GET", path);
        !told.ends_with("event loop did not answer within a second\n")
    });
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The value of one metric with its labels.
pub(crate) fn value(metrics: &str, series: &str) -> f64 {
    known_value(metrics, series).unwrap_or_else(|| panic!("no {series} in {metrics}"))
}

/// The same, if it is there.
pub(crate) fn known_value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// The exit code of `krarup health`, and what it prints.
fn health(words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
    let output = command.arg("health").args(words).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Where a proxy or a broker says that its metrics are.
fn admin(program: &mut Program) -> SocketAddr {
    program
        .says(|line| line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok())
}

/// The last request finds again what the one before has used and given back: a client that waited
/// has gone, and keeps nothing of it.
#[test]
fn monitoring_tells_that_no_files_are_left() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let servers = server.address().to_string();
    let mut command = limited("-n 64");
    command.args(["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--servers", &servers]);
    let mut proxy = Program::spawn(command);
    let admin = admin(&mut proxy);
    let mut proxy = proxy.listening();
    let are_used_up = || {
        let (status, told) = get(admin, "/metrics");
        assert_eq!(status, 200, "{told}");
        value(&told, "process_open_fds") >= value(&told, "process_max_fds")
    };
    let mut clients = Vec::new();
    // The last client takes what the connection of monitoring had.
    let mut last = false;
    while !last {
        last = are_used_up();
        let mut client = proxy.connect();
        client.send(b"version\r\n").unwrap();
        client.line().unwrap();
        clients.push(client);
    }
    let waiting = proxy.connect();
    proxy.says_text("cannot accept clients");
    drop(waiting);
    assert!(are_used_up() && are_used_up(), "{} clients", clients.len());
}

/// As in a container that may have no more threads.
#[test]
fn monitoring_is_answered_where_no_thread_is_given() {
    // Root is given threads whatever the limit is: another user runs it.
    let krarup = env!("CARGO_BIN_EXE_krarup");
    if !as_user(krarup).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skipped(&format!("another user may not run {krarup}"));
    }
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let servers = server.address().to_string();
    let mut command = as_user(krarup);
    command.args(["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--servers", &servers]);
    let mut proxy = Program::spawn(command);
    let admin = admin(&mut proxy);
    let proxy = proxy.listening();
    let mut limit = as_user("prlimit");
    limit.args(["--pid", &proxy.id().to_string(), "--nproc=1"]);
    assert!(limit.status().is_ok_and(|status| status.success()), "{limit:?}");
    for _ in 0..2 {
        assert_eq!(get(admin, "/health"), (200, "ok\n".into()));
    }
    let ended = proxy.stop();
    assert!(!ended.errors.contains("panicked"), "{ended:?}");
}

#[test]
fn metrics_count_what_clients_did_and_a_proxy_with_a_server_is_ready() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let name = server.address().to_string();
    let mut proxy = Program::begin(&[
        "proxy",
        "--listen",
        "127.0.0.1:0",
        "--servers",
        &name,
        "--admin",
        "127.0.0.1:0",
        "-t",
        "4",
    ]);
    let admin = admin(&mut proxy);
    let address = proxy.says(|line| line.strip_prefix("listening on ")?.trim().parse().ok());

    let mut client = Peer::connect(address);
    client.send(b"set a 0 0 3\r\nabc\r\nget a\r\nget b\r\nget a b\r\n").unwrap();
    client.expect(b"STORED\r\nVALUE a 0 3\r\nabc\r\nEND\r\nEND\r\nVALUE a 0 3\r\nabc\r\nEND\r\n").unwrap();
    let metrics = || {
        let (status, body) = get(admin, "/metrics");
        assert_eq!(status, 200, "{body}");
        body
    };
    // A request is counted once its reply has left, which its client may see first.
    until("all four requests are counted", || {
        metrics().contains("krarup_requests_total{operation=\"multiget\"} 1")
    });
    let told = metrics();
    for (series, expected) in [
        ("krarup_requests_total{operation=\"set\"}", 1.0),
        ("krarup_requests_total{operation=\"get\"}", 2.0),
        ("krarup_keys_total{operation=\"multiget\"}", 2.0),
        ("krarup_hits_total{operation=\"get\"}", 1.0),
        ("krarup_misses_total{operation=\"get\"}", 1.0),
        ("krarup_response_time_seconds_count{operation=\"get\"}", 2.0),
        ("krarup_response_time_seconds_bucket{operation=\"get\",le=\"+Inf\"}", 2.0),
        ("krarup_client_connections", 1.0),
        ("krarup_workers", 4.0),
        ("krarup_pool_servers_up{pool=\"main\"}", 1.0),
        (&format!("krarup_server_up{{server=\"{name}\"}}"), 1.0),
        (&format!("krarup_server_requests_total{{server=\"{name}\"}}"), 4.0),
    ] {
        assert_eq!(value(&told, series), expected, "{series}");
    }
    assert!(value(&told, "process_resident_memory_bytes") > 1e6);
    // Each client has one file, and connections of monitoring come and go meanwhile.
    let files = |told: &str| value(told, "process_open_fds");
    assert!(files(&told) < value(&told, "process_max_fds"), "{told}");
    let greeted = |()| {
        let mut client = Peer::connect(address);
        client.send(b"get a\r\n").unwrap();
        client.expect(b"VALUE a 0 3\r\nabc\r\nEND\r\n").unwrap();
        client
    };
    let more = [(); 20].map(greeted);
    let grown = files(&metrics()) - files(&told);
    assert!((15.0..=25.0).contains(&grown), "{grown} files for {} clients", more.len());

    assert_eq!(get(admin, "/ready"), (200, "ready\n".into()));
    assert_eq!(get(admin, "/nothing").0, 404);
    assert_eq!(health(&[&admin.to_string(), "--ready"]), (Some(0), "ready\n".into()));
    server.kill();
    until("the proxy is not ready any more", || get(admin, "/ready").0 == 503);
    assert_eq!(get(admin, "/health"), (200, "ok\n".into()));
    assert_eq!(health(&[&admin.to_string()]), (Some(0), "ok\n".into()));
    let (code, why) = health(&[&admin.to_string(), "--ready"]);
    let (_, expected) = get(admin, "/ready");
    assert_eq!(code, Some(1));
    assert!(why.contains(&format!("error: {admin}: {}", expected.trim())), "{why} {expected}");
    assert!(!why.contains("--admin"), "it is the right address: {why}");
    assert!(proxy.stop().success);
    let (code, why) = health(&[&admin.to_string()]);
    assert!(code == Some(1) && why.contains("hint: give the proxy or the broker an address"), "{why}");
}

/// The kernel gives such a process no signal that it does not handle.
#[test]
fn a_signal_ends_the_first_process_of_a_container_whatever_it_does() {
    let first = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]).args(words);
        command
    };
    if !first(&["true"]).output().is_ok_and(|tried| tried.status.success()) {
        return skipped("no process namespaces here (they need Linux and user namespaces)");
    }
    let silent = listen();
    let address = silent.local_addr().unwrap().to_string();
    let words = [env!("CARGO_BIN_EXE_krarup"), "headroom", &address];
    let program = Program::spawn(first(&words));
    // It waits for an answer, and would for longer than this takes.
    let _asked = Peer::accept(&silent).unwrap();
    let (process, _) = processes().find(|(_, said)| said.starts_with(&words.join(" "))).unwrap();
    kill_process(Pid::from_raw(process).unwrap(), Signal::TERM).unwrap();
    let ended = program.ended();
    assert_eq!(ended.code, Some(128 + Signal::TERM.as_raw()), "{ended:?}");
}
