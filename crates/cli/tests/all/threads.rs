//! The engine with real threads: the same replies and the same books, from the textbook's design.

use crate::support;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::support::conversation::memcached;
use crate::support::peer::{greet, listen, talk};
use crate::support::process::Program;
use crate::support::{file, until};

#[test]
fn many_clients_share_few_threads_and_every_request_is_in_the_books() {
    for config in ["workers = 3", "readers = 2"] {
        let servers = [memcached(), memcached(), memcached()];
        let addresses: Vec<_> = servers.iter().map(Program::address).collect();
        let config = file("threads", &format!("engine = \"threads\"\n{config}\n"));
        let proxy = Program::proxy(&addresses, &["--config", &config, "--json"]);
        thread::scope(|scope| {
            for name in 0..8 {
                let address = proxy.address();
                scope.spawn(move || talk(address, name, 25));
            }
        });
        let mut client = proxy.connect();
        assert_eq!(client.count("cmd_set"), 200);
        client.send(b"quit\r\n").unwrap();
        assert!(client.rest().is_empty());
        let ended = proxy.stop();
        assert!(ended.success, "{ended:?}");
        let summary = ended.json();
        let count = |operation: &str| {
            let line =
                summary["operations"].as_array().unwrap().iter().find(|line| line["operation"] == operation);
            line.unwrap_or_else(|| panic!("no {operation} in {summary}"))["count"].as_u64().unwrap()
        };
        assert_eq!([count("set"), count("get"), count("multiget")], [200; 3]);
        assert_eq!(summary["all"]["errors"], 0);
        assert_eq!(summary["disordered"], 0);
        for server in summary["servers"].as_array().unwrap() {
            // Every copy is written, and reads are shared.
            assert!(server["requests"].as_u64().unwrap() >= 200, "{server}");
            assert!(server["version"].as_str().is_some_and(|version| version.starts_with('1')), "{server}");
        }
    }
}

#[test]
fn a_request_waits_in_the_queue_while_the_only_worker_waits_for_the_server() {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        // The worker connects first, and asks its first question when it has been greeted.
        let mut worker = greet(&listener).unwrap();
        worker.expect(b"get a\r\n").unwrap();
        (listener, worker)
    });
    let config = file("threads-one", "engine = \"threads\"\nworkers = 1\nslow_requests = 1000\n");
    let proxy = Program::proxy(&[address], &["--config", &config, "--json"]);
    let mut first = proxy.connect();
    first.send(b"get a\r\n").unwrap();
    let (_listener, mut worker) = server.join().unwrap();
    let mut second = proxy.connect();
    second.send(b"get b\r\n").unwrap();
    // Statistics need no worker: this one was read after the request before it.
    let mut third = proxy.connect();
    let stats = third.stats("");
    for (name, value) in [
        ("workers_busy", "1"),
        ("queue_length", "1"),
        ("queue_length_max", "1"),
        ("requests_in_progress", "2"),
        ("servers_up", "1"),
    ] {
        assert_eq!(stats[name], value, "{name}");
    }
    assert_eq!(third.stats("servers")["0:up"], "1");
    worker.send(b"END\r\n").unwrap();
    first.expect(b"END\r\n").unwrap();
    worker.expect(b"get b\r\n").unwrap();
    worker.send(b"END\r\n").unwrap();
    second.expect(b"END\r\n").unwrap();
    until("both are among the slowest", || {
        third.stats("slow").values().filter(|line| line.contains(" get ok pool=main ")).count() == 2
    });
    let summary = proxy.stop().json();
    assert_eq!(summary["queue_length_max"], 1);
    assert!(summary["all"]["queue"]["mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_worker_takes_the_answer_that_comes_first_whichever_server_it_is_of() {
    let config = file("threads-first", "engine = \"threads\"\nworkers = 1\nwrites = \"first\"\n");
    let (proxy, mut servers) = Program::proxy_before(&[listen(), listen()], &["--config", &config]);
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send(b"set a 0 0 1\r\nx\r\n").unwrap();
        for server in &mut servers {
            server.expect(b"set a 0 0 1\r\nx\r\n").unwrap();
        }
        servers[1].send(b"STORED\r\n").unwrap();
        client.expect(b"STORED\r\n").unwrap();
    }
    // What comes later is read when it comes, and not with the worker's next request.
    servers[0].send(b"STORED\r\nSTORED\r\n").unwrap();
    until("the late answers are recorded", || client.stats("servers")["0:requests"] == "2");
    client.send(b"delete a\r\n").unwrap();
    servers[0].expect(b"delete a\r\n").unwrap();
    servers[0].send(b"DELETED\r\n").unwrap();
    client.expect(b"DELETED\r\n").unwrap();
}

/// There is no flow control here: a request that had to wait for room was dropped without a reply.
#[test]
fn long_values_are_written_however_much_a_server_has_before_it() {
    let config = "engine = \"threads\"\nworkers = 1\nwrites = \"first\"\ntimeout = \"1000s\"\n";
    let config = file("threads-long", config);
    let (proxy, mut servers) = Program::proxy_before(&[listen(), listen()], &["--config", &config]);
    let mut client = proxy.connect();
    let set = [&b"set a 0 0 1000000\r\n"[..], &vec![b'x'; 1_000_000], b"\r\n"].concat();
    for _ in 0..6 {
        client.send(&set).unwrap();
        for server in &mut servers {
            server.expect(&set).unwrap();
        }
        servers[0].send(b"STORED\r\n").unwrap();
        client.expect(b"STORED\r\n").unwrap();
    }
}

/// Where each server has all keys, reads wait in the queues of all in turn.
#[test]
fn the_readers_of_every_server_read() {
    let asked = Arc::new(Barrier::new(2));
    let addresses = [(); 2].map(|()| {
        let (listener, asked) = (listen(), Arc::clone(&asked));
        let address = listener.local_addr().unwrap();
        // The reader and the writer of each server are connected to both.
        thread::spawn(move || {
            for _ in 0..4 {
                let (mut peer, asked) = (greet(&listener).unwrap(), Arc::clone(&asked));
                thread::spawn(move || {
                    while peer.line().is_ok_and(|line| line == b"get a\r\n") {
                        // Both servers have a read before either answers.
                        asked.wait();
                        peer.send(b"END\r\n").unwrap();
                    }
                });
            }
        });
        address
    });
    let config = file("threads-readers", "engine = \"threads\"\nreaders = 1\n");
    let proxy = Program::proxy(&addresses, &["--config", &config]);
    let mut clients = [(); 2].map(|()| proxy.connect());
    for client in &mut clients {
        client.send(b"get a\r\n").unwrap();
    }
    for client in &mut clients {
        client.expect(b"END\r\n").unwrap();
    }
}

#[test]
fn what_pools_count_in_all_threads_is_told_together() {
    let server = memcached();
    let config = file("threads-pools", "engine = \"threads\"\nworkers = 2\n");
    let proxy = Program::proxy(&[server.address()], &["--config", &config]);
    let mut client = proxy.connect();
    for _ in 0..10 {
        client.send(b"get a\r\n").unwrap();
        client.expect(b"END\r\n").unwrap();
    }
    assert_eq!(client.stats("pools")["main:requests"], "10");
}

/// What waits for the reply to what the same client has asked before has arrived, too.
#[test]
fn a_stop_waits_for_all_that_a_client_has_asked() {
    let config = file("threads-stop", "engine = \"threads\"\nworkers = 1\n");
    let (mut proxy, mut servers) = Program::proxy_before(&[listen()], &["--config", &config]);
    let server = &mut servers[0];
    let mut client = proxy.connect();
    client.send(b"get a\r\nget b\r\n").unwrap();
    server.expect(b"get a\r\n").unwrap();
    proxy.interrupt();
    proxy.says_text("stopping");
    server.send(b"END\r\n").unwrap();
    server.expect(b"get b\r\n").unwrap();
    server.send(b"END\r\n").unwrap();
    assert_eq!(client.rest(), b"END\r\nEND\r\n");
    let ended = proxy.ended();
    assert!(ended.success && !ended.errors.contains("not finished"), "{ended:?}");
}

/// No readiness tells of what a client has sent and was not read at once.
#[test]
fn a_client_may_send_more_than_is_read_ahead() {
    let server = memcached();
    let config = file("threads-ahead", "engine = \"threads\"\nworkers = 1\n");
    let proxy = Program::proxy(&[server.address()], &["--config", &config]);
    let mut client = proxy.connect();
    let set = |key: &str, length: usize| {
        [format!("set {key} 0 0 {length}\r\n").as_bytes(), &vec![b'x'; length], b"\r\n"].concat()
    };
    for (said, line, times) in [
        (set("a", 100_000).repeat(60), &b"STORED\r\n"[..], 60),
        (
            [set("b", 8 << 20), b"get c\r\n".to_vec()].concat(),
            b"SERVER_ERROR object too large for cache\r\nEND\r\n",
            1,
        ),
    ] {
        let mut sender = client.other_handle();
        thread::scope(|scope| {
            scope.spawn(move || sender.send(&said).unwrap());
            client.expect(&line.repeat(times)).unwrap();
        });
    }
}

#[test]
fn a_server_that_is_lost_is_an_error_and_is_asked_again_later() {
    let port = support::process::Port::new();
    let cache = Program::cache_at(&port);
    let config = file("threads-lost", "engine = \"threads\"\nworkers = 1\nreconnect_at_most = \"20ms\"\n");
    let proxy = Program::proxy(&[port.address()], &["--config", &config]);
    talk(proxy.address(), 0, 2);
    cache.kill();
    let mut client = proxy.connect();
    client.send(b"get a\r\n").unwrap();
    let line = String::from_utf8(client.line().unwrap()).unwrap();
    assert!(line.starts_with("SERVER_ERROR 127.0.0.1:"), "{line}");
    let _again = Program::cache_at(&port);
    until("the server is back", || {
        client.send(b"get a\r\n").unwrap();
        client.line().unwrap() == b"END\r\n"
    });
}
