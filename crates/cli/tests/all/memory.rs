//! What happens while `memory` is used up: each request is answered, small ones at once, and what
//! stands still gives way.

use std::net::SocketAddr;
use std::thread;

use crate::broker::monitored;
use crate::support::conversation::memcached;
use crate::support::peer::{Peer, asked};
use crate::support::process::Program;
use crate::support::{file, until};

const LENGTH: usize = 200_000;

/// A proxy with little memory, and the address that monitoring asks.
fn proxy(name: &str, server: &Program, config: &str) -> (Program, SocketAddr) {
    let config = file(name, &format!("admin = \"127.0.0.1:0\"\n{config}"));
    let server = server.address().to_string();
    let mut proxy =
        Program::begin(&["proxy", "--listen", "127.0.0.1:0", "--servers", &server, "--config", &config]);
    let admin = proxy
        .says(|line| line.strip_prefix("metrics on http://")?.trim().strip_suffix("/metrics")?.parse().ok());
    (proxy.listening(), admin)
}

fn ready(admin: SocketAddr) -> bool {
    asked(admin, "GET", "/ready").starts_with("HTTP/1.1 200")
}

fn set(client: &mut Peer, name: usize) {
    // In one piece: who stands still in between may be disconnected.
    client.send(format!("set k{name} 0 0 {LENGTH}\r\n{}\r\n", "v".repeat(LENGTH)).as_bytes()).unwrap();
}

/// A client that begins a request and does not go on.
fn half(proxy: &Program) -> Peer {
    half_of(proxy, &format!("set half 0 0 {LENGTH}\r\n"))
}

/// The same of a request that begins with this line.
fn half_of(server: &Program, line: &str) -> Peer {
    let mut client = server.connect();
    client.send(line.as_bytes()).unwrap();
    client.send(&[b'v'; 60_000]).unwrap();
    client
}

fn is_served(client: &mut Peer) {
    client.send(b"get nothing\r\n").unwrap();
    client.expect(b"END\r\n").unwrap();
}

fn set_all(config: &str, name: &str) {
    let server = memcached();
    let (proxy, _) = proxy(name, &server, config);
    let address = proxy.address();
    thread::scope(|scope| {
        let clients = (0..60).map(|number| {
            scope.spawn(move || {
                let mut client = Peer::connect(address);
                for _ in 0..4 {
                    set(&mut client, number);
                    client.expect(b"STORED\r\n").unwrap();
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        let mut bystander = proxy.connect();
        while !clients.iter().all(thread::ScopedJoinHandle::is_finished) {
            is_served(&mut bystander);
        }
    });
    let ended = proxy.stop();
    assert!(ended.success && !ended.errors.contains("disconnected, which"), "{ended:?}");
}

#[test]
fn many_large_values_at_once_are_all_stored_in_little_memory() {
    set_all("[edge]\nmemory = \"1MiB\"\n", "memory-sets");
}

#[test]
fn the_same_with_several_loops() {
    set_all("threads = 2\n[edge]\nmemory = \"2MiB\"\n", "memory-sets-2");
}

/// Requests that are not gone on with hold up no small ones, and not for long those that are.
fn halves(config: &str, name: &str) {
    let server = memcached();
    let (mut proxy, admin) = proxy(name, &server, config);
    let mut bystander = proxy.connect();
    let mut held = Vec::new();
    until("it is not ready while clients wait for memory", || {
        held.push(half(&proxy));
        is_served(&mut bystander);
        !ready(admin)
    });
    assert!(asked(admin, "GET", "/health").starts_with("HTTP/1.1 200"));
    let mut honest = proxy.connect();
    set(&mut honest, 1);
    // What a client says last is heard although it waits: it is whole.
    let mut parting = proxy.connect();
    set(&mut parting, 2);
    parting.finish();
    for _ in 0..20 {
        held.push(half(&proxy));
        is_served(&mut bystander);
        is_served(&mut proxy.connect());
        bystander.stats("");
    }
    honest.expect(b"STORED\r\n").unwrap();
    parting.expect(b"STORED\r\n").unwrap();
    proxy.says_text("the memory is used up");
    drop(held);
    until("it is ready again", || ready(admin));
    let ended = proxy.stop();
    assert!(ended.success, "{ended:?}");
    let lines = |text: &str| ended.errors.matches(text).count();
    let told = lines("no client waits for memory any more");
    let short = "clients wait for memory: long requests do not fit into their half of an event loop's share";
    assert!(told > 0 && lines(short) == told, "{ended:?}");
}

#[test]
fn half_requests_hold_up_no_other_client() {
    halves("[edge]\nmemory = \"1MiB\"\n", "memory-half");
}

#[test]
fn half_requests_hold_up_no_other_client_in_several_loops() {
    halves("threads = 2\n[edge]\nmemory = \"2MiB\"\n", "memory-half-2");
}

/// A line when clients wait, one for a client that is disconnected, and one when that is over.
fn says_what_becomes_of(server: &mut Program, held: Vec<Peer>) {
    server.says_text("warning: clients wait for memory: long requests do not fit");
    server.says_text("warning: the memory is used up; client");
    drop(held);
    server.says_text("no client waits for memory any more");
}

#[test]
fn a_broker_says_that_clients_wait_for_memory_and_that_they_are_disconnected() {
    let (mut broker, admin) = monitored(&["--buffer-memory", "1MiB", "--max-message-size", "512KiB"]);
    let is = |series: &str| asked(admin, "GET", "/metrics").contains(&format!("\nkrarup_broker_{series}\n"));
    let mut held = Vec::new();
    until("monitoring is told that clients wait", || {
        held.push(half_of(&broker, &format!("put 0 0 60 {LENGTH}\r\n")));
        is("memory_short 1")
    });
    assert!(!is("buffers_bytes 0") && ready(admin), "small requests pass");
    says_what_becomes_of(&mut broker, held);
    // Those that have hung up may have waited once more.
    until("no client waits", || is("memory_short 0"));
    assert!(!is("clients_cut_total 0"));
    assert!(broker.stop().success);
}

#[test]
fn a_cache_says_that_clients_wait_for_memory_and_that_they_are_disconnected() {
    let mut cache = Program::krarup(&["cache", "--listen", "127.0.0.1:0", "--buffer-memory", "1MiB"]);
    let held = (0..20).map(|_| half(&cache)).collect();
    says_what_becomes_of(&mut cache, held);
    assert!(cache.stop().success);
}

#[test]
fn a_client_that_waits_for_memory_and_hangs_up_is_gone() {
    let server = memcached();
    let (proxy, admin) = proxy("memory-gone", &server, "[edge]\nmemory = \"1MiB\"\n");
    let mut bystander = proxy.connect();
    let mut held = Vec::new();
    until("clients wait", || {
        held.extend((0..10).map(|_| half(&proxy)));
        !ready(admin)
    });
    drop(held);
    until("they are gone", || bystander.stats("")["curr_connections"] == "1");
}

#[test]
fn clients_that_ask_for_much_and_read_nothing_hold_up_no_other() {
    let server = memcached();
    let (proxy, _) = proxy("memory-reads", &server, "[edge]\nmemory = \"4MiB\"\n");
    let mut bystander = proxy.connect();
    set(&mut bystander, 1);
    bystander.expect(b"STORED\r\n").unwrap();
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut client = proxy.connect();
        client.send(&b"get k1\r\n".repeat(1_000)).unwrap();
        held.push(client);
        is_served(&mut bystander);
    }
    // One that reads gets all it asked for meanwhile.
    let mut reader = proxy.connect();
    reader.send(&b"get k1\r\n".repeat(20)).unwrap();
    let value = [format!("VALUE k1 0 {LENGTH}\r\n").as_bytes(), &vec![b'v'; LENGTH], b"\r\nEND\r\n"].concat();
    for _ in 0..20 {
        reader.expect(&value).unwrap();
        is_served(&mut bystander);
    }
}

/// What the process holds is what `memory` says: with large values that are set and nothing else,
/// and then with requests, half requests, replies and replies that are not read.
#[test]
fn the_process_holds_little_more_than_its_memory() {
    const MEMORY: u64 = 64 << 10;
    let value = vec![b'v'; 1_000_000];
    let large = [b"set large 0 0 1000000\r\n", value.as_slice(), b"\r\n"].concat();
    let found = [b"VALUE large 0 1000000\r\n", value.as_slice(), b"\r\nEND\r\n"].concat();
    let server = memcached();
    let (proxy, _) = proxy("memory-held", &server, &format!("[edge]\nmemory = {}\n", MEMORY << 10));
    let mut bystander = proxy.connect();
    bystander.send(&large).unwrap();
    bystander.expect(b"STORED\r\n").unwrap();
    let (address, idle) = (proxy.address(), proxy.resident());
    let mut held = |reads: bool| {
        let mut most = 0;
        thread::scope(|scope| {
            let clients = (0..60).map(|number| {
                let (large, found) = (&large, &found);
                scope.spawn(move || {
                    let mut client = Peer::connect(address);
                    let (asked, reply): (&[u8], &[u8]) = if reads && number % 2 == 1 {
                        (b"get large\r\n", found)
                    } else {
                        (large, b"STORED\r\n")
                    };
                    for _ in 0..4 {
                        client.send(asked).unwrap();
                        client.expect(reply).unwrap();
                    }
                })
            });
            let clients: Vec<_> = clients.collect();
            while !clients.iter().all(thread::ScopedJoinHandle::is_finished) {
                is_served(&mut bystander);
                most = proxy.resident().max(most);
            }
        });
        most.saturating_sub(idle)
    };
    let sets = held(false);
    let mut unread: Vec<Peer> = (0..20).map(|_| proxy.connect()).collect();
    unread.iter_mut().for_each(|client| client.send(&b"get large\r\n".repeat(200)).unwrap());
    let halves: Vec<Peer> = (0..20).map(|_| half(&proxy)).collect();
    let all = held(true);
    drop((unread, halves));
    for (what, grown) in [("sets alone", sets), ("all together", all)] {
        assert!(grown * 100 <= MEMORY * 115, "{what}: {grown} kB more than when idle, of {MEMORY} kB");
    }
}

/// A line that may be copied for each server is reckoned with all copies, a longer one with none:
/// memory that was reserved before is more than it needs.
#[test]
fn a_line_that_grows_long_passes_in_a_pool_with_copies() {
    let servers = [memcached(), memcached()];
    let proxy = Program::proxy(&servers.each_ref().map(Program::address), &[]);
    let (mut client, mut bystander) = (proxy.connect(), proxy.connect());
    let keys: String = (0..25_000).map(|number| format!(" k{number:06}")).collect();
    for part in format!("get{keys}").as_bytes().chunks(10_000) {
        client.send(part).unwrap();
        // What came before is read by then.
        is_served(&mut bystander);
    }
    client.send(b"\r\n").unwrap();
    client.expect(b"END\r\n").unwrap();
    assert!(proxy.stop().success);
}
