//! Bad days of the proxy: servers die and stall, clients leave and dawdle, it is told to stop under
//! load, and is started with nonsense. Everything that was asked is answered, and the counts of all
//! sides agree to the unit.
//!
//! The days are short, so that they can be had often.
//! `KRARUP_SOAK_SECONDS=60 cargo test --test all bad_days::` has long ones.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::account::{
    accounts_of, assert_load_and_proxy_agree, load, number, operation, reset, sum,
};
use crate::support::peer::{Peer, greet, listen};
use crate::support::process::{Ended, Port, Program};
use crate::support::{TOO_LONG, file, shown, until};
use rustix::process::Signal;
use serde_json::Value;

// ---- a server dies, twice -----------------------------------------------------------------------

/// How long the day with the dying server is.
fn seconds() -> u64 {
    std::env::var("KRARUP_SOAK_SECONDS").map_or(4, |text| text.parse().expect("a number of seconds"))
}

/// What was asked of a server, by its own count: single keys fetched, and values stored.
fn commands(server: &Program) -> (u64, u64) {
    let mut peer = server.connect();
    (peer.count("cmd_get"), peer.count("cmd_set"))
}

/// A day on which the second of three servers dies twice under 200 clients. `end` ends it, and says
/// what it had counted. Returns what the proxy says of that server, what it counted while it was
/// ended, and what its last incarnation counted.
fn the_second_server_dies_twice(start: fn(&Port) -> Program, end: fn(Program) -> u64) -> (Value, u64, u64) {
    let ports = [Port::new(), Port::new(), Port::new()];
    let addresses = ports.each_ref().map(Port::address);
    let mut servers = ports.each_ref().map(|port| Some(start(port)));
    let config = file("dies-twice", "timeout = \"60s\"\nconnect_timeout = \"30s\"");
    let mut proxy = Program::proxy(&addresses, &["--json", "--config", &config]);
    let target = proxy.address().to_string();
    let populated = load(&target, &["--populate-only"]).ended();
    assert!(populated.success, "{populated:?}");
    servers.iter().flatten().chain([&proxy]).for_each(reset);

    let seconds = seconds();
    let flags = ["-c", "200", "--ratio", "1:4", "--verify", "--progress=json", "--json", "-", "--seconds"];
    let mut running = load(&target, &[&flags[..], &[&seconds.to_string()]].concat());
    let mut pass =
        |seconds| (0..seconds).for_each(|_| running.says(|line| line.starts_with('{').then_some(())));
    let mut counted = 0;
    for _ in 0..2 {
        pass(seconds / 4);
        counted += end(servers[1].take().expect("it runs"));
        proxy.says_text(&format!("server {} is down", addresses[1]));
        pass(seconds / 10);
        servers[1] = Some(start(&ports[1]));
        proxy.says_text(&format!("server {} is up", addresses[1]));
    }
    let ended = running.ended_within(Duration::from_secs(seconds) + TOO_LONG);
    let (load, proxy) = accounts_of(&ended, proxy);
    assert_eq!(number(&proxy, "/events/desynchronised"), 0);
    let (gets, sets) =
        (number(operation(&proxy, "get"), "/count"), number(operation(&proxy, "set"), "/count"));
    for place in [0, 2] {
        let (get, set) = commands(servers[place].as_ref().expect("it was never down"));
        let line = &proxy["servers"][place];
        assert_eq!((number(line, "/errors"), number(line, "/losses")), (0, 0), "{line}");
        assert_eq!(set, sets, "every set went to a server that was never down");
        assert_eq!(get + set, number(line, "/requests"), "{line}");
    }
    let victim = proxy["servers"][1].clone();
    assert!(number(&victim, "/losses") >= 2, "{victim}");
    assert!(gets > 0 && number(&load, "/account/answers/set/server_error") > 0, "{load}");
    let (get, set) = commands(servers[1].as_ref().expect("it runs again"));
    eprintln!(
        "{seconds} s: sent {}, answered {}, lost {}, of these SERVER_ERROR {} gets and {} sets; the proxy counted {gets} gets and \
         {sets} sets; servers {}",
        load["account"]["sent"],
        load["account"]["answered"],
        sum(&load["account"]["lost"]),
        number(&load, "/account/answers/get/server_error"),
        number(&load, "/account/answers/set/server_error"),
        proxy["servers"],
    );
    (victim, counted, get + set)
}

#[test]
fn a_server_that_ends_in_order_twice_has_counted_what_the_proxy_says_it_answered() {
    let (victim, counted, last) = the_second_server_dies_twice(Program::cache_at, |cache| {
        let ended = cache.stop();
        assert!(ended.success, "{ended:?}");
        ended.count("cmd_get ") + ended.count("cmd_set ")
    });
    assert_eq!(number(&victim, "/requests") - number(&victim, "/errors"), counted + last, "{victim}");
}

#[test]
fn a_server_that_is_killed_twice_costs_errors_and_no_request() {
    let (victim, _, last) = the_second_server_dies_twice(
        |port| Program::memcached_at(port, &[]),
        |memcached| {
            memcached.kill();
            0
        },
    );
    assert_eq!(number(&victim, "/answered_since_up"), last, "{victim}");
}

// ---- a stop under load --------------------------------------------------------------------------

#[test]
fn a_stop_under_load_replies_to_every_request_that_was_accepted() {
    let servers = [Program::memcached(&[]), Program::memcached(&[])];
    let addresses = servers.each_ref().map(Program::address);
    // Its port stays ours: the clients knock there again.
    let port = Port::new();
    let config = "timeout = \"60s\"\nconnect_timeout = \"30s\"\nshutdown_limit = \"60s\"";
    let config = file("stop-under-load", config);
    let listen = port.address().to_string();
    let proxy = Program::proxy(&addresses, &["--json", "--config", &config, "--listen", &listen]);
    let target = proxy.address().to_string();
    assert!(load(&target, &["--populate-only"]).ended().success);
    reset(&proxy);
    let flags =
        ["-c", "50", "--ratio", "1:4", "--verify", "--json", "-", "--seconds", "600", "--give-up", "10ms"];
    let running = load(&target, &flags);
    let mut observer = proxy.connect();
    until("2000 requests", || observer.count("requests") >= 2_000);
    drop(observer);
    let ended = proxy.stop();
    assert!(ended.success, "{ended:?}");
    assert!(ended.errors.contains("stopping") && !ended.errors.contains("not finished"), "{ended:?}");
    let proxy = ended.json();
    let ended = running.ended();
    assert!(ended.success, "{ended:?}");
    let load = ended.json();
    assert_load_and_proxy_agree(&load, &proxy);
    assert_eq!(number(&proxy, "/events/desynchronised"), 0);
    assert_eq!(number(&proxy, "/all/errors"), 0, "{}", proxy["all"]);
    // What a client sends after the proxy has listened for the last time is lost, and told as that.
    let lost = &load["account"]["lost"];
    assert_eq!(sum(lost), number(lost, "/connection_lost"), "{lost}");
    assert!(sum(lost) <= 50, "{lost}");
}

/// A proxy with this configuration before scripted servers, and its connections to them.
fn before_scripts(name: &str, config: &str, servers: &[TcpListener]) -> (Program, Vec<Peer>) {
    let config = file(name, &format!("connect_timeout = \"60s\"\n{config}"));
    Program::proxy_before(servers, &["--config", &config])
}

/// The same before one.
fn before_a_script(name: &str, config: &str) -> (Program, TcpListener, Peer) {
    let listener = [listen()];
    let (proxy, mut servers) = before_scripts(name, config, &listener);
    let ([listener], Some(server)) = (listener, servers.pop()) else { unreachable!("there is one") };
    (proxy, listener, server)
}

#[test]
fn a_stop_waits_for_a_server_that_stalls_as_long_as_it_is_told_to() {
    // Only the limit can be what ends it: the timeout is far beyond what this test waits for
    // anything.
    let config = "timeout = \"1000s\"\nshutdown_limit = \"200ms\"";
    let (proxy, _listener, mut server) = before_a_script("stalls-at-the-end", config);
    let mut client = proxy.connect();
    client.send(b"get a\r\n").unwrap();
    server.expect(b"get a\r\n").unwrap();
    let begun = Instant::now();
    let ended = proxy.stop();
    assert!(begun.elapsed() >= Duration::from_millis(200), "{ended:?}");
    assert!(
        ended.success && ended.errors.contains("1 requests were not finished within the limit"),
        "{ended:?}"
    );
    assert!(client.rest().is_empty());
}

/// No client waits for them, and with its connection a copy would be lost that its server has not
/// read.
#[test]
fn a_stop_waits_for_the_copies_behind_a_write() {
    for engine in ["engine = \"events\"", "engine = \"threads\"\nworkers = 1"] {
        let config = "timeout = \"1000s\"\nshutdown_limit = \"200ms\"\nwrites = \"async\"";
        let config = format!("{config}\n{engine}\n");
        let listeners = [listen(), listen()];
        let (proxy, mut servers) = before_scripts("copies-at-the-end", &config, &listeners);
        let mut client = proxy.connect();
        client.send(b"set a 0 0 1\r\nx\r\n").unwrap();
        servers[0].expect(b"set a 0 0 1\r\nx\r\n").unwrap();
        servers[0].send(b"STORED\r\n").unwrap();
        client.expect(b"STORED\r\n").unwrap();
        servers[1].expect(b"set a 0 0 1\r\nx\r\n").unwrap();
        drop(client);
        let begun = Instant::now();
        let ended = proxy.stop();
        assert!(ended.success && begun.elapsed() >= Duration::from_millis(200), "{engine}: {ended:?}");
    }
}

#[test]
fn a_second_signal_ends_the_proxy_at_once() {
    for engine in ["engine = \"events\"", "engine = \"threads\"\nworkers = 1"] {
        let config = format!("timeout = \"1000s\"\nshutdown_limit = \"1000s\"\n{engine}");
        let (mut proxy, _listener, mut server) = before_a_script("impatient", &config);
        let mut client = proxy.connect();
        client.send(b"get a\r\n").unwrap();
        server.expect(b"get a\r\n").unwrap();
        proxy.interrupt();
        proxy.says_text("stopping");
        proxy.signal(Signal::INT);
        let ended = proxy.ended();
        assert!(ended.success && ended.errors.contains("1 requests were not finished"), "{ended:?}");
        assert!(ended.output.contains("queue: "), "statistics all the same: {ended:?}");
    }
}

// ---- servers that are down or stall -------------------------------------------------------------

#[test]
fn a_server_that_is_down_at_the_start_is_named_and_used_once_it_is_there() {
    let first = Program::memcached(&[]);
    let port = Port::new();
    let config = file("down-at-the-start", "reconnect_after = \"1ms\"\nreconnect_at_most = \"50ms\"");
    let listen = Port::new();
    let mut proxy = Program::begin(&[
        "proxy",
        "--config",
        &config,
        "--listen",
        &listen.address().to_string(),
        "--servers",
        &format!("{},{}", first.address(), port.address()),
    ]);
    proxy.says_text(&format!("warning: server {} is down: connection refused", port.address()));
    proxy.says_text("listening on ");
    let mut client = Peer::connect(listen.address());
    client.send(b"set a 0 0 1\r\nx\r\nget a\r\n").unwrap();
    client.expect(format!("SERVER_ERROR {} is down\r\n", port.address()).as_bytes()).unwrap();
    client.expect(b"VALUE a 0 1\r\nx\r\nEND\r\n").unwrap();
    let second = Program::memcached_at(&port, &[]);
    proxy.says_text(&format!("server {} is up", port.address()));
    client.send(b"set a 0 0 1\r\ny\r\n").unwrap();
    client.expect(b"STORED\r\n").unwrap();
    let mut peer = second.connect();
    peer.send(b"get a\r\n").unwrap();
    peer.expect(b"VALUE a 0 1\r\ny\r\nEND\r\n").unwrap();
    assert!(proxy.stop().success);
}

#[test]
fn a_server_that_stalls_costs_an_error_after_the_timeout_and_is_asked_again_later() {
    let config = "timeout = \"500ms\"\nreconnect_after = \"1ms\"";
    let (proxy, listener, mut server) = before_a_script("stalls", config);
    let name = listener.local_addr().unwrap();
    let mut clients = [proxy.connect(), proxy.connect()];
    let begun = Instant::now();
    clients[0].send(b"get a\r\nget b\r\n").unwrap();
    server.expect(b"get a\r\nget b\r\n").unwrap();
    clients[1].send(b"set c 0 0 1\r\nx\r\n").unwrap();
    let error = format!("SERVER_ERROR {name}: no answer within the time allowed\r\n");
    clients[0].expect(format!("{error}{error}").as_bytes()).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(500));
    // It was on the same connection, or found none.
    let line = String::from_utf8(clients[1].line().unwrap()).unwrap();
    assert!(line == error || line == format!("SERVER_ERROR {name} is down\r\n"), "{line}");
    // The next connection counts anew, and its answers are those to its own questions. On a machine
    // that is slow an answer is late once more, and the connection after it is asked.
    until("a question is answered in time", || {
        let mut server = greet(&listener).unwrap();
        until("the server is up again", || clients[1].count("servers_up") == 1);
        clients[0].send(b"get d\r\n").unwrap();
        server.expect(b"get d\r\n").unwrap();
        let _ = server.send(b"VALUE d 0 1\r\nx\r\nEND\r\n");
        let line = String::from_utf8(clients[0].line().unwrap()).unwrap();
        assert!(line == error || line == "VALUE d 0 1\r\n", "{line}");
        line != error
    });
    clients[0].expect(b"x\r\nEND\r\n").unwrap();
    assert!(proxy.stop().success);
}

// ---- clients that leave and dawdle --------------------------------------------------------------

/// A value near the limit of memcached.
const LARGE: usize = 1_000_000;

/// Stores a large value under `large`, a small one under `small`.
fn store(peer: &mut Peer) {
    let value = vec![b'x'; LARGE];
    let head = format!("set large 0 0 {LARGE}\r\n");
    peer.send(&[head.as_bytes(), &value, b"\r\nset small 0 0 1\r\ns\r\n"].concat()).unwrap();
    peer.expect(b"STORED\r\nSTORED\r\n").unwrap();
}

/// Asks for the large value so many times, by one request: more than the system keeps for a client
/// that does not read.
fn ask(peer: &mut Peer, times: usize) {
    peer.send(format!("get{}\r\n", " large".repeat(times)).as_bytes()).unwrap();
}

const SMALL: &[u8] = b"VALUE small 0 1\r\ns\r\nEND\r\n";

#[test]
fn workers_come_back_from_clients_that_leave_in_the_middle_of_a_reply() {
    let server = Program::memcached(&[]);
    let proxy = Program::proxy(&[server.address()], &["--workers", "2", "--json"]);
    let mut observer = proxy.connect();
    store(&mut observer);
    let mut lazy = [proxy.connect(), proxy.connect()];
    for (taken, peer) in (1..).zip(&mut lazy) {
        ask(peer, 32);
        until("a worker is taken", || observer.count("workers_busy") == taken);
    }
    // Both workers hold replies that are not read: a client that asks now waits, and is counted as
    // waiting.
    let mut waiting = proxy.connect();
    waiting.send(b"get small\r\n").unwrap();
    until("a request waits", || observer.count("queue_length") == 1);
    assert_eq!(waiting.pending(), b"");
    let [mut first, second] = lazy;
    first.expect(b"VALUE large 0 ").unwrap();
    drop(first);
    waiting.expect(SMALL).unwrap();
    // The other holds its one worker, and no more than that.
    assert_eq!(observer.count("workers_busy"), 1);
    waiting.send(b"get small\r\nget small\r\n").unwrap();
    waiting.expect(&[SMALL, SMALL].concat()).unwrap();
    second.reset();
    until("all workers are back", || observer.count("workers_busy") == 0);
    drop((observer, waiting));
    let ended = proxy.stop();
    assert!(ended.success, "{ended:?}");
    let summary = ended.json();
    assert_eq!(number(operation(&summary, "multiget"), "/count"), 2);
    assert_eq!(number(operation(&summary, "get"), "/count"), 3);
}

/// The most memory a program has had, in bytes.
fn memory(program: &Program) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1_024
}

#[test]
fn a_client_that_asks_for_much_and_reads_slowly_holds_its_worker_and_little_memory() {
    const TIMES: usize = 150;
    let server = Program::memcached(&[]);
    let proxy = Program::proxy(&[server.address()], &["--workers", "1"]);
    let mut other = proxy.connect();
    store(&mut other);
    let before = memory(&proxy);
    let mut slow = proxy.connect();
    (0..TIMES).for_each(|_| slow.send(b"get large\r\n").unwrap());
    until("its requests wait behind each other", || {
        other.count("workers_busy") == 1 && other.count("queue_length") > 100
    });
    // Replies leave one after the other, and each is whole.
    let mut reply = format!("VALUE large 0 {LARGE}\r\n").into_bytes();
    reply.resize(reply.len() + LARGE, b'x');
    reply.extend_from_slice(b"\r\nEND\r\n");
    for _ in 0..TIMES {
        slow.expect(&reply).unwrap();
    }
    let grown = memory(&proxy).saturating_sub(before);
    assert!(grown < 30 * LARGE as u64, "{TIMES} replies of {LARGE} bytes took {grown} bytes");
    assert!(proxy.stop().success);
}

#[test]
fn clients_that_have_read_a_large_reply_hold_no_memory_for_it() {
    let server = Program::memcached(&[]);
    let proxy = Program::proxy(&[server.address()], &[]);
    let mut clients: Vec<Peer> = (0..100).map(|_| proxy.connect()).collect();
    store(&mut clients[0]);
    let before = memory(&proxy);
    for client in &mut clients {
        client.send(b"get large\r\n").unwrap();
        client.line().unwrap();
        client.expect(&vec![b'x'; LARGE]).unwrap();
        client.expect(b"\r\nEND\r\n").unwrap();
    }
    let grown = memory(&proxy).saturating_sub(before);
    assert!(
        grown < 30 * LARGE as u64,
        "replies of {LARGE} bytes to {} clients took {grown} bytes",
        clients.len()
    );
    assert!(proxy.stop().success);
}

// ---- many clients -------------------------------------------------------------------------------

#[test]
fn a_thousand_clients_that_are_idle_and_three_hundred_that_come_at_once() {
    krarup_net::files::allow_many();
    let server = Program::memcached(&[]);
    let proxy = Program::proxy(&[server.address()], &[]);
    let mut first = proxy.connect();
    store(&mut first);
    let mut idle: Vec<Peer> = (0..1_000).map(|_| proxy.connect()).collect();
    until("all are let in", || first.count("curr_connections") == 1_001);
    // While it does not run, the system takes connections and requests for it; then all are there
    // at once.
    proxy.freeze();
    let mut sudden: Vec<Peer> = (0..300).map(|_| proxy.connect()).collect();
    sudden.iter_mut().for_each(|peer| peer.send(b"get small\r\n").unwrap());
    proxy.signal(Signal::CONT);
    sudden.iter_mut().for_each(|peer| peer.expect(SMALL).unwrap());
    assert_eq!(first.count("curr_connections"), 1_301);
    for peer in idle.iter_mut().step_by(100) {
        peer.send(b"get small\r\n").unwrap();
        peer.expect(SMALL).unwrap();
    }
    drop((idle, sudden));
    until("all have left", || first.count("curr_connections") == 1);
    assert_eq!(first.count("rejected_connections"), 0);
    assert!(proxy.stop().success);
}

#[test]
fn one_client_too_many_is_told_so_and_a_place_that_is_left_is_given_again() {
    let server = Program::memcached(&[]);
    let config = file("places", "max_connections = 3");
    let proxy = Program::proxy(&[server.address()], &["--config", &config]);
    let mut seated: Vec<Peer> = (0..3).map(|_| proxy.connect()).collect();
    until("all have their places", || seated[0].count("curr_connections") == 3);
    for _ in 0..2 {
        assert_eq!(shown(&proxy.connect().rest()), r"ERROR Too many open connections\r\n");
    }
    assert_eq!(seated[0].count("rejected_connections"), 2);
    seated.pop();
    until("one has left", || seated[0].count("curr_connections") == 2);
    let mut next = proxy.connect();
    next.send(b"set a 0 0 1\r\nx\r\n").unwrap();
    next.expect(b"STORED\r\n").unwrap();
    assert!(proxy.stop().success);
}

#[test]
fn a_low_limit_on_open_files_is_raised_by_every_service() {
    let server = Program::memcached(&[]);
    let proxy = Program::proxy_limited(64, &[server.address()]);
    let mut first = proxy.connect();
    let peers: Vec<Peer> = (0..200).map(|_| proxy.connect()).collect();
    until("all are let in", || first.count("curr_connections") == 201);
    drop(peers);
    assert!(proxy.stop().success);
}

// ---- started with nonsense ----------------------------------------------------------------------

/// What a program says that was started with nonsense: one line that names it, and a hint.
fn refused(arguments: &[&str], named: &str) {
    let Ended { code, output, errors, .. } = Program::begin(arguments).ended();
    assert_eq!((code, output.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
    let lines: Vec<&str> = errors.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("error: ") && lines[1].starts_with("  hint: "),
        "{arguments:?}: {errors}"
    );
    assert!(errors.contains(named), "{arguments:?} names `{named}`: {errors}");
}

#[test]
fn nonsense_is_one_line_a_hint_and_exit_code_2() {
    let taken = listen();
    let taken = taken.local_addr().unwrap().to_string();
    let wrong_key = file("wrong-key", "listen = \"127.0.0.1:0\"\nwokers = 5");
    let wrong_value = file("wrong-value", "timeout = \"soon\"");
    let too_little = file("too-little", "timeout = \"0s\"");
    let no_toml = file("no-toml", "servers = [");
    let proxy: [(&[&str], &str); 18] = [
        (&["--listen", &taken], &taken),
        (&["--listne", "127.0.0.1:0"], "--listne"),
        (&["--listen", "nowhere"], "nowhere"),
        (&["--listen", "192.0.2.1:0"], "192.0.2.1:0"),
        (&["--listen", "no.such.host.invalid:0"], "no.such.host.invalid"),
        (&["-l", "127.0.0.1", "-p", "70000"], "70000"),
        (&["--servers", "127.0.0.1"], "127.0.0.1"),
        (&["--servers", "127.0.0.1:0"], "127.0.0.1:0"),
        (&["--servers", "localhost:99999"], "localhost:99999"),
        (&["--servers", "127.0.0.1:9"], "twice"),
        (&["--workers", "0"], "`0` is no number of workers"),
        (&["-s", "maybe"], "maybe"),
        (&["--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (&["--config", &wrong_key], "line 2: there is no key `wokers`"),
        (&["--config", &wrong_value], "`soon`"),
        (&["--config", &too_little], "`timeout` is 0"),
        (&["--config", &no_toml], "line 1"),
        (&["--rows"], "--stats-dir"),
    ];
    for (flags, named) in proxy {
        let listen: &[&str] = if flags.iter().any(|flag| flag.starts_with("--listen") || *flag == "-l") {
            &[]
        } else {
            &["--listen", "127.0.0.1:0"]
        };
        refused(&[&["proxy", "--servers", "127.0.0.1:9"], listen, flags].concat(), named);
    }
    for directory in ["/proc/nowhere", "/dev/null/statistics"] {
        refused(
            &["proxy", "--servers", "127.0.0.1:9", "--listen", "127.0.0.1:0", "--stats-dir", directory],
            directory,
        );
    }
    refused(&["proxy", "--listen", "127.0.0.1:0"], "no server");
    // With no server known there is nothing to do; beside others the name may come later.
    let unknown = "no.such.host.invalid:1";
    refused(&["proxy", "--listen", "127.0.0.1:0", "--servers", unknown], "no.such.host.invalid");
    let mut known =
        Program::begin(&["proxy", "--listen", "127.0.0.1:0", "--servers", "127.0.0.1:9", unknown]);
    known.says_text("`no.such.host.invalid` cannot be resolved");
    known.says_text("listening on");
    assert!(known.stop().success);
    refused(&["cache", "--listen", &taken], &taken);
    refused(&["cache", "--memory", "some"], "some");
    // The bounds of what all servers have are those of the proxy's settings.
    for server in ["proxy", "broker", "cache"] {
        refused(&[server, "--buffer-memory", "5"], "at least 1MiB");
        refused(&[server, "--idle-timeout", "1us"], "0 or from 1ms to 720h");
        refused(&[server, "--handshake-timeout", "soon"], "`soon` is not a length of time");
    }
    refused(&["broker", "--tls-certificate", "a.pem"], "--tls-key");
    refused(&["cache", "--tls-client-authorities", "a.pem"], "--tls-certificate");
    refused(&["demo", "--servers", "none"], "none");
    refused(&["demo", "--clients", "0"], "0");
    refused(&["demo", "--seconds", "0"], "--seconds");
    refused(&["frobnicate"], "frobnicate");
}
