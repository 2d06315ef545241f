//! Several event loops in one process are one proxy: one queue, one set of books, one
//! configuration, one end.

use crate::support;
use std::net::SocketAddr;
use std::thread;

use crate::support::conversation::memcached;
use crate::support::peer::{Peer, asked, listen, talk};
use crate::support::process::Program;
use crate::support::{file, fresh, until};
use rustix::process::Signal;

#[test]
fn clients_are_spread_over_the_loops_and_every_request_is_counted_once() {
    for workers in ["\"unlimited\"", "2"] {
        let servers = [memcached(), memcached()];
        let addresses: Vec<_> = servers.iter().map(Program::address).collect();
        let config = file("loops", &format!("threads = 3\nadmin = \"127.0.0.1:0\"\nworkers = {workers}\n"));
        let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let mut proxy = Program::begin(&[
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--json",
            "--config",
            &config,
            "--servers",
            &names[0],
            &names[1],
        ]);
        let admin = proxy.says(|line| {
            line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok()
        });
        let address = proxy.says(|line| line.strip_prefix("listening on ")?.trim().parse().ok());
        thread::scope(|scope| {
            for name in 0..9 {
                scope.spawn(move || talk(address, name, 20));
            }
        });
        let mut clients: Vec<_> = (0..3).map(|_| Peer::connect(address)).collect();
        // A request is counted once its reply has left, which its client may see first.
        for client in &mut clients {
            until("all requests are counted", || client.count("cmd_set") == 180);
            let stats = client.stats("");
            assert_eq!((&*stats["threads"], &*stats["request_errors"]), ("3", "0"));
            assert_eq!(stats["queue_length"], "0");
            let servers = client.stats("servers");
            let requests = |server: usize| servers[&format!("{server}:requests")].parse::<u64>().unwrap();
            assert!(requests(0) >= 180 && requests(1) >= 180, "{servers:?}");
        }
        let metrics = asked(admin, "GET", "/metrics");
        assert!(metrics.contains("krarup_requests_total{operation=\"set\"} 180\n"), "{metrics}");
        assert!(asked(admin, "GET", "/ready").starts_with("HTTP/1.1 200"));
        clients[0].send(b"stats reset\r\n").unwrap();
        clients[0].expect(b"RESET\r\n").unwrap();
        assert_eq!(clients[1].count("cmd_set"), 0);
        talk(address, 0, 5);
        until("the requests after the reset are counted", || clients[2].count("cmd_set") == 5);
        let ended = proxy.stop();
        assert!(ended.success, "{ended:?}");
        let summary = ended.json();
        let set = summary["operations"].as_array().unwrap().iter().find(|line| line["operation"] == "set");
        assert_eq!(set.unwrap()["count"], 5);
        assert_eq!((&summary["all"]["errors"], &summary["disordered"]), (&0.into(), &0.into()));
    }
}

#[test]
fn one_worker_serves_all_loops_in_turn() {
    let server = memcached();
    let config = file("loops-one", "threads = 2\nworkers = 1\nqueue = 2\n");
    let proxy = Program::proxy(&[server.address()], &["--config", &config]);
    thread::scope(|scope| {
        for name in 0..8 {
            let address = proxy.address();
            scope.spawn(move || talk(address, name, 25));
        }
    });
    let mut client = proxy.connect();
    until("all requests are counted", || client.count("cmd_set") == 200);
    until("no worker is busy", || client.count("workers_busy") == 0);
    assert!(proxy.stop().success);
}

#[test]
fn another_configuration_reaches_all_loops_and_a_bad_one_none() {
    let servers = [memcached(), memcached()];
    let text = |server: usize, more: &str| {
        format!(
            "threads = 3\nlisten = \"127.0.0.1:0\"\nservers = [\"{}\"]\n{more}",
            servers[server].address()
        )
    };
    let path = fresh("loops-reload.toml");
    // Nothing else listens there once it is left.
    let first = support::process::Port::new();
    let monitored = format!("admin = \"{}\"\n", first.address());
    std::fs::write(&path, text(0, &monitored)).unwrap();
    let mut proxy = Program::begin(&["proxy", "--config", &path.display().to_string()]);
    let admin = proxy
        .says(|line| line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok());
    let address: SocketAddr = proxy.says(|line| line.strip_prefix("listening on ")?.trim().parse().ok());
    let mut clients: Vec<_> = (0..6).map(|_| Peer::connect(address)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("set k{number} 0 0 1\r\nx\r\n").as_bytes()).unwrap();
        client.expect(b"STORED\r\n").unwrap();
    }
    std::fs::write(&path, text(1, &monitored)).unwrap();
    proxy.signal(Signal::HUP);
    proxy.says_text("holds from now on");
    for (number, client) in clients.iter_mut().enumerate() {
        // Each loop is told in turn, a moment after the first.
        until("the other server is asked", || {
            client.send(format!("mg k{number}\r\n").as_bytes()).unwrap();
            client.line().unwrap() == b"EN\r\n"
        });
    }
    for (more, part) in [
        ("threads = 2\n", "stands there twice"),
        ("queue = 0\n", "`queue` is 0"),
        ("queue = 0\npipelin = 1\n", "must be at least 1, and "),
        ("engine = \"threads\"\n", "threads"),
    ] {
        std::fs::write(&path, text(1, more)).unwrap();
        let told = asked(admin, "POST", "/reload");
        assert!(told.starts_with("HTTP/1.1 409") && told.contains(part), "{told}");
        proxy.says_text("is not taken over");
    }
    std::fs::write(&path, text(1, "").replace("threads = 3", "threads = 2")).unwrap();
    assert!(asked(admin, "POST", "/reload").contains("that takes a restart"));
    // Monitoring moves, and then is nowhere.
    let other = support::process::Port::new();
    std::fs::write(&path, text(1, &format!("admin = \"{}\"\n", other.address()))).unwrap();
    let told = asked(admin, "POST", "/reload");
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert!(asked(other.address(), "GET", "/ready").starts_with("HTTP/1.1 200"));
    until("the old address is left", || std::net::TcpStream::connect(admin).is_err());
    std::fs::write(&path, text(1, "")).unwrap();
    assert!(asked(other.address(), "POST", "/reload").starts_with("HTTP/1.1 200"));
    until("monitoring is nowhere", || std::net::TcpStream::connect(other.address()).is_err());
    assert!(proxy.stop().success);
}

/// A server that answers each request with another key.
fn mistaken_server() -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok(mut peer) = Peer::accept(&listener) {
            thread::spawn(move || {
                while let Ok(line) = peer.line() {
                    let greeted = line == b"version\r\n";
                    let answer: &[u8] =
                        if greeted { b"VERSION 1.6.18\r\n" } else { b"VALUE other 0 1\r\nx\r\nEND\r\n" };
                    if peer.send(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Of connections that are not the first one of the first loop it is not told that they are lost.
#[test]
fn the_log_has_an_answer_that_was_not_asked_for_on_whichever_connection_it_came() {
    let server = mistaken_server();
    for config in
        ["threads = 2", "server_connections = 2", "dedicated = true", "engine = \"threads\"\nworkers = 2"]
    {
        let config = file("loops-mistaken", &format!("{config}\n"));
        let mut proxy = Program::proxy(&[server], &["--config", &config]);
        // One at each event loop.
        let [_first, mut second] = [(); 2].map(|()| proxy.connect());
        second.send(b"get a\r\n").unwrap();
        let reply = String::from_utf8(second.line().unwrap()).unwrap();
        assert!(reply.starts_with("SERVER_ERROR ") && !reply.contains("other"), "{reply}");
        proxy.says(|line| {
            (line.contains(&format!("to server {server} was closed for its answer"))
                && line.contains("`VALUE other 0 1`"))
            .then_some(())
        });
        assert!(proxy.stop().success);
    }
}

#[test]
fn more_connections_to_a_server_or_one_for_each_client() {
    for (config, least, most) in [
        ("server_connections = 3\n", 3, 3),
        ("threads = 2\nserver_connections = 2\n", 4, 4),
        // Eight clients, and the first connection.
        ("dedicated = true\n", 9, 9),
        ("dedicated = true\nthreads = 2\n", 10, 10),
    ] {
        let server = memcached();
        let path = file("loops-lanes", config);
        let proxy = Program::proxy(&[server.address()], &["--config", &path]);
        let mut clients: Vec<_> = (0..8).map(|_| proxy.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(format!("set k{number} 0 0 1\r\nx\r\nget k{number}\r\n").as_bytes()).unwrap();
        }
        for (number, client) in clients.iter_mut().enumerate() {
            client.expect(format!("STORED\r\nVALUE k{number} 0 1\r\nx\r\nEND\r\n").as_bytes()).unwrap();
        }
        let mut watcher = server.connect();
        // The watcher is counted, too.
        let mut connected = || watcher.count("curr_connections") - 1;
        until("all connections are made", || (least..=most).contains(&connected()));
        thread::scope(|scope| {
            for name in 0..8 {
                let address = proxy.address();
                scope.spawn(move || talk(address, name, 25));
            }
        });
        drop(clients);
        let left =
            if config.contains("dedicated") { 1 + u64::from(config.contains("threads")) } else { least };
        until("only those that are shared are left", || connected() == left);
        let ended = proxy.stop();
        assert!(ended.success && ended.output.contains(" 0 server connections lost"), "{config}: {ended:?}");
    }
}
