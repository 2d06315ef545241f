//! How the broker meets the outside: both protocols, TLS, unix sockets, and what it warns of.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use crate::support::peer::Peer;
use crate::support::process::{Port, Program};
use crate::support::{certificate, file, fresh, server_tls};

/// A broker with these flags, and where its queues are reached by memcached's protocol.
fn broker(flags: &[&str]) -> (Program, SocketAddr) {
    let mut arguments = vec!["broker", "--listen", "127.0.0.1:0", "--memcached-listen", "127.0.0.1:0"];
    arguments.extend(flags);
    let mut broker = Program::krarup(&arguments);
    let door = broker.says(|line| line.strip_prefix("memcached's protocol on ")?.trim().parse().ok());
    (broker, door)
}

fn say(peer: &mut Peer, said: &str, expected: &str) {
    peer.send(said.as_bytes()).unwrap();
    peer.expect(expected.as_bytes()).unwrap_or_else(|why| panic!("after {said:?}:\n{why}"));
}

#[test]
fn one_queue_is_reached_by_both_protocols_and_comes_back_from_a_connection_that_dies() {
    let (broker, door) = broker(&[]);
    let (mut old, mut new) = (broker.connect(), Peer::connect(door));
    say(&mut new, "set jobs 0 0 5\r\nhello\r\n", "STORED\r\n");
    say(&mut new, "get jobs/open\r\n", "VALUE jobs/open 0 5\r\nhello\r\nEND\r\n");
    say(&mut old, "watch jobs\r\nreserve-with-timeout 0\r\n", "WATCHING 2\r\nTIMED_OUT\r\n");
    new.reset();
    say(&mut old, "reserve\r\n", "RESERVED 1 5\r\nhello\r\n");
    say(&mut old, "delete 1\r\n", "DELETED\r\n");
    assert!(broker.stop().success);
}

#[test]
fn a_connection_of_memcacheds_protocol_that_waits_is_answered_when_the_broker_stops() {
    let (broker, door) = broker(&[]);
    let mut peer = Peer::connect(door);
    say(
        &mut peer,
        "set a 0 0 1\r\nx\r\nset b 0 0 1 noreply\r\ny\r\nget b\r\nget b/t=60000\r\n",
        "STORED\r\n",
    );
    peer.expect(b"VALUE b 0 1\r\ny\r\nEND\r\n").unwrap();
    broker.interrupt();
    peer.expect(b"END\r\n").unwrap();
    assert_eq!(peer.rest(), b"");
    let ended = broker.ended();
    assert!(ended.success && ended.output.contains("2 messages put, 1 ready"), "{ended:?}");
}

#[test]
fn a_socket_that_cannot_be_made_has_nothing_to_do_with_names() {
    for program in ["broker", "cache"] {
        // What stands where its directory would is none.
        let ended = Program::begin(&[program, "--listen", "unix:/dev/null/socket"]).ended();
        assert!(ended.code == Some(2) && ended.errors.contains("choose another address"), "{ended:?}");
        assert!(!ended.errors.contains("name service"), "{ended:?}");
    }
}

#[test]
fn clients_of_either_protocol_speak_tls_and_strangers_are_turned_away() {
    let (proxied, key, authority) =
        (certificate("proxy.pem"), certificate("proxy.key"), certificate("authority.pem"));
    let flags = ["--tls-certificate", &proxied, "--tls-key", &key, "--tls-client-authorities", &authority];
    let (broker, door) = broker(&flags);
    // The proxy is the client of a server that speaks TLS.
    let [known, stranger] = ["client", "stranger"].map(|who| file(&format!("doors-{who}"), &server_tls(who)));
    let server = door.to_string();
    let begin = |config: &str| {
        Program::begin(&["proxy", "--listen", "127.0.0.1:0", "--servers", &server, "--config", config])
    };
    let proxy = begin(&known).listening();
    let mut peer = proxy.connect();
    say(&mut peer, "set jobs 0 0 5\r\nhello\r\n", "STORED\r\n");
    let value = "v".repeat(60_000);
    say(&mut peer, &format!("set jobs 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    say(&mut peer, "get jobs\r\n", "VALUE jobs 0 5\r\nhello\r\nEND\r\n");
    say(&mut peer, "get jobs\r\n", &format!("VALUE jobs 0 {}\r\n{value}\r\nEND\r\n", value.len()));
    let mut stranger = begin(&stranger);
    stranger.says_text("is down");
    assert!(stranger.stop().success);
    // Plain bytes are no greeting, at either door.
    for (door, said) in [(door, "version\r\n"), (broker.address(), "ping\r\n")] {
        let mut plain = Peer::connect(door);
        plain.send(said.as_bytes()).unwrap();
        let heard = plain.rest();
        assert!(!heard.starts_with(b"VERSION") && !heard.starts_with(b"PONG"), "{heard:?}");
    }
    assert!(proxy.stop().success);
    assert!(broker.stop().success);
}

/// The broker and the cache read their certificates again, by SIGHUP and by the admin address, and
/// go on with the one before where a file is no good.
#[test]
fn a_certificate_that_is_renewed_is_shown_without_a_restart() {
    let folder = fresh("doors-renewed");
    fs::create_dir_all(&folder).unwrap();
    let (shown, key) = (folder.join("shown.pem"), certificate("proxy.key"));
    let put = |name: &str| fs::copy(certificate(name), &shown).unwrap();
    put("stranger.pem");
    let refused = Program::begin(&["cache", "--tls-certificate", shown.to_str().unwrap(), "--tls-key", &key]);
    assert!(refused.ended().errors.contains("cannot be used with"));
    put("expired.pem");
    let greeting = ["--tls-certificate", shown.to_str().unwrap(), "--tls-key", &key];
    let mut broker = Program::begin(
        &[&["broker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"][..], &greeting].concat(),
    );
    let admin = broker
        .says(|line| line.strip_prefix("metrics on http://")?.trim().strip_suffix("/metrics")?.parse().ok());
    let mut broker = broker.listening();
    let reload = || {
        let mut peer = Peer::connect(admin);
        peer.send(b"POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").unwrap();
        String::from_utf8(peer.rest()).unwrap()
    };
    let mut cache = Program::krarup(&[&["cache", "--listen", "127.0.0.1:0"][..], &greeting].concat());
    let authority = certificate("authority.pem");
    let answered = |server: SocketAddr| {
        let server = server.to_string();
        let load = ["load", "-s", &server, "-c", "1", "-n", "1", "--connect-timeout", "10s"];
        let load = [&load[..], &["--tls-authorities", &authority, "--ratio", "0:1"]].concat();
        Program::begin(&load).ended().success
    };
    assert!(!answered(cache.address()), "its time is over");
    // It is taken all the same: another may be long in coming.
    let told = reload();
    assert!(told.starts_with("HTTP/1.1 200") && told.contains("warning: the certificate in"), "{told}");
    put("proxy.pem");
    assert!(reload().contains("the certificate was read again"));
    for server in [&mut cache, &mut broker] {
        server.signal(Signal::HUP);
        server.says_text("the certificate was read again");
    }
    assert!(answered(cache.address()));
    fs::write(&shown, "no certificate").unwrap();
    for server in [&mut cache, &mut broker] {
        server.signal(Signal::HUP);
        server.says_text("the certificate before goes on");
    }
    let told = reload();
    assert!(told.starts_with("HTTP/1.1 409") && told.contains("the certificate before goes on"), "{told}");
    assert!(answered(cache.address()));
    let broken = |broker: &Program| {
        let mut plain = broker.connect();
        plain.send(b"put 1 0 60 2\r\nhi\r\n").unwrap();
        !plain.rest().starts_with(b"INSERTED")
    };
    assert!(broken(&broker), "it speaks TLS still");
    assert!(cache.stop().success && broker.stop().success);
}

#[test]
fn a_unix_socket_has_its_permissions_and_goes_with_the_broker() {
    let path = fresh("doors.sock");
    let listen = format!("unix:{}", path.display());
    let mut broker = Program::begin(&["broker", "--listen", &listen, "--socket-mode", "0600"]);
    broker.says_text("listening on unix:");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"put 1 0 60 2\r\nhi\r\nreserve\r\nquit\r\n").unwrap();
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "INSERTED 1\r\nRESERVED 1 2\r\nhi\r\n");
    assert!(broker.stop().success);
    assert!(!path.exists());
}

#[test]
fn a_service_that_admits_every_client_warns() {
    let secret = file("doors-secret", "hush\n");
    let mut open = Program::krarup(&["broker", "--listen", "0.0.0.0:0"]);
    open.says_text("warning: every client that reaches 0.0.0.0");
    let closed = Program::krarup(&["broker", "--listen", "0.0.0.0:0", "--secret", &secret]);
    let ended = closed.stop();
    assert!(ended.success && !ended.errors.contains("warning"), "{ended:?}");
    assert!(open.stop().success);
}

#[test]
fn an_owner_that_other_machines_cannot_reach_warns() {
    let port = Port::new();
    let store = format!("postgres://krarup@{}/queues", port.address());
    let listen = format!("unix:{}", fresh("doors-owner.sock").display());
    let cases: [(&[&str], Option<&str>); 6] = [
        (&["--listen", "0.0.0.0:0"], Some("0.0.0.0:0")),
        (&["--listen", "127.0.0.1:0"], Some("127.0.0.1:0")),
        (&["--listen", &listen], Some(&listen)),
        (&["--listen", "0.0.0.0:0", "--advertise", "localhost:1"], Some("localhost:1")),
        (&["--listen", "0.0.0.0:0", "--advertise", "broker.example:1"], None),
        (&["--listen", "0.0.0.0:0", "--mode", "batch"], None),
    ];
    for (flags, warned) in cases {
        // Its database is not there: it ends by itself.
        let ended = Program::begin(&[&["broker", "--store", &store], flags].concat()).ended();
        let before = "warning: brokers on other machines cannot reach this one at ";
        let found = ended.errors.lines().find_map(|line| line.strip_prefix(before)?.split(';').next());
        assert_eq!(found, warned, "{ended:?}");
    }
}

#[test]
fn a_certificate_that_cannot_be_read_is_named_with_a_hint() {
    let key = certificate("proxy.key");
    let ended = Program::begin(&["broker", "--tls-certificate", "/nowhere.pem", "--tls-key", &key]).ended();
    assert!(ended.code == Some(2) && ended.errors.contains("/nowhere.pem"), "{ended:?}");
}
