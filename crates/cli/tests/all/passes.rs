//! What many clients send while the proxy does not look comes to it in one pass of its loop. Each
//! is answered as if it had come alone.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::peer::{Peer, listen};
use crate::support::process::Program;
use crate::support::{file, until};
use rustix::process::Signal;

/// Does something while the proxy is stopped: all of that comes to it at once.
fn meanwhile(proxy: &Program, something: impl FnOnce()) {
    proxy.freeze();
    something();
    proxy.signal(Signal::CONT);
}

/// A client that has not logged in yet is read apart from the others, and what it sends stays
/// between it and the proxy.
#[test]
fn clients_that_log_in_and_clients_that_ask_do_not_delay_each_other() {
    let server = Program::memcached(&[]);
    let users = file("passes-users", "anna:secret\n");
    let config = file("passes-login", &format!("[edge]\nusers = {users:?}\n"));
    let proxy = Program::proxy(&[server.address()], &["--config", &config]);
    let login = b"set login 0 0 11\r\nanna secret\r\n";
    let mut known: Vec<Peer> = (0..6).map(|_| proxy.connect()).collect();
    for (number, peer) in known.iter_mut().enumerate() {
        peer.send(login).unwrap();
        peer.expect(b"STORED\r\n").unwrap();
        peer.send(format!("set own-{number} 0 0 1\r\n{number}\r\n").as_bytes()).unwrap();
        peer.expect(b"STORED\r\n").unwrap();
    }
    for _ in 0..3 {
        let mut strangers: Vec<Peer> = (0..6).map(|_| proxy.connect()).collect();
        for stranger in &mut strangers {
            stranger.send(b"get own-0\r\n").unwrap();
            stranger.expect(b"CLIENT_ERROR unauthenticated\r\n").unwrap();
        }
        meanwhile(&proxy, || {
            for (number, (peer, stranger)) in known.iter_mut().zip(&mut strangers).enumerate() {
                peer.send(format!("get own-{number}\r\n").as_bytes()).unwrap();
                stranger.send(login).unwrap();
            }
        });
        for (number, (peer, stranger)) in known.iter_mut().zip(&mut strangers).enumerate() {
            peer.expect(format!("VALUE own-{number} 0 1\r\n{number}\r\nEND\r\n").as_bytes()).unwrap();
            stranger.expect(b"STORED\r\n").unwrap();
        }
    }
    let mut direct = server.connect();
    direct.send(b"get login\r\n").unwrap();
    direct.expect(b"END\r\n").unwrap();
    assert!(proxy.stop().success);
}

/// The rest of a value, a request behind it and the client's end come at once, beside what others
/// ask.
#[test]
fn the_last_request_of_a_client_that_has_gone_is_answered() {
    let server = Program::memcached(&[]);
    let proxy = Program::proxy(&[server.address()], &[]);
    let value = "x".repeat(40_000);
    let mut asking: Vec<Peer> = (0..8).map(|_| proxy.connect()).collect();
    for round in 0..3 {
        let mut going: Vec<Peer> = (0..8).map(|_| proxy.connect()).collect();
        for (number, peer) in going.iter_mut().enumerate() {
            let whole =
                format!("set passes-{number} 0 0 {}\r\n{value}\r\nget passes-{number}\r\n", value.len());
            let (first, rest) = whole.split_at(whole.len() / 2);
            peer.send(first.as_bytes()).unwrap();
            // Who is answered later was heard later: the first part has been read.
            asking[number].send(b"mn\r\n").unwrap();
            asking[number].expect(b"MN\r\n").unwrap();
            meanwhile(&proxy, || {
                for other in &mut asking {
                    other.send(b"get nothing\r\n").unwrap();
                }
                peer.send(rest.as_bytes()).unwrap();
                if round != 1 {
                    peer.finish();
                }
                for other in &mut asking {
                    other.send(b"mn\r\n").unwrap();
                }
            });
            peer.expect(format!("STORED\r\nVALUE passes-{number} 0 40000\r\n{value}\r\nEND\r\n").as_bytes())
                .unwrap();
            for other in &mut asking {
                other.expect(b"END\r\nMN\r\n").unwrap();
            }
        }
    }
    let mut last = proxy.connect();
    assert_eq!((last.count("desynchronised"), last.count("disordered_stamps")), (0, 0));
    assert!(proxy.stop().success);
}

/// The number of a client that has been told goodbye is given to the next one while the first is
/// still connected.
#[test]
fn a_client_after_one_that_lingers_is_not_taken_for_it() {
    let server = Program::memcached(&[]);
    let proxy = Program::proxy(&[server.address()], &[]);
    for round in 0..20 {
        let mut before = proxy.connect();
        before.send(b"set lingers 0 0 6\r\nbefore\r\nquit\r\n").unwrap();
        before.expect(b"STORED\r\n").unwrap();
        let mut after = proxy.connect();
        after.send(b"get lingers\r\n").unwrap();
        after.expect(b"VALUE lingers 0 6\r\nbefore\r\nEND\r\n").unwrap();
        meanwhile(&proxy, || {
            // It is not read any more, and the other side may be gone.
            let _ = before.send(b"set lingers 0 0 5\r\nnever\r\n");
            before.finish();
            after.send(format!("set lingers 0 0 2\r\n{round:02}\r\nget lingers\r\n").as_bytes()).unwrap();
        });
        after.expect(format!("STORED\r\nVALUE lingers 0 2\r\n{round:02}\r\nEND\r\n").as_bytes()).unwrap();
        assert_eq!(before.rest(), b"");
    }
    assert!(proxy.stop().success);
}

/// What is due is not looked for in every pass; a server's silence is noticed in time all the same.
#[test]
fn a_server_that_falls_silent_after_a_quiet_time_is_noticed() {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut held = Vec::new();
        while let Ok(mut peer) = Peer::accept(&listener) {
            // One that is greeted too late is gone by then.
            let _ = peer.line().and_then(|_| peer.send(b"VERSION 1.6.18\r\n"));
            held.push(peer);
        }
        held
    });
    let config = file("passes-silent", "timeout = \"100ms\"\nconnect_timeout = \"500ms\"\n");
    let proxy = Program::proxy(&[address], &["--config", &config]);
    let mut client = proxy.connect();
    // Of a server that was greeted too late, on a machine with much to do, nothing is asked: that
    // is told at once.
    until("its silence is noticed", || {
        // What was due when it started is over then; nothing is with the server, and nothing is due
        // for long.
        let quiet = Instant::now();
        while quiet.elapsed() < Duration::from_millis(600) {
            client.send(b"mn\r\n").unwrap();
            client.expect(b"MN\r\n").unwrap();
        }
        let begun = Instant::now();
        client.send(b"get a\r\n").unwrap();
        let line = String::from_utf8(client.line().unwrap()).unwrap();
        let (took, is_noticed) = (begun.elapsed(), line.ends_with("no answer within the time allowed\r\n"));
        // Clients are looked at every fifteen seconds: that would be too late.
        let in_time = Duration::from_millis(100)..Duration::from_secs(10);
        assert!(!is_noticed || in_time.contains(&took), "{took:?}");
        is_noticed
    });
    assert!(proxy.stop().success);
}
