//! The server over real sockets: order, limits, slow readers, and stopping.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use krarup_cache::Bounds;
use krarup_net::tls::{Acceptor, TlsIdentity};
use krarup_serve::ClientLimits;
use krarup_serve::cache::{CacheEnd, CacheServer, CacheSettings, Stopper};
use krarup_units::Address;
use krarup_units::Nanos;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A server on a thread of its own.
struct Running {
    address: Address,
    stopper: Stopper,
    thread: JoinHandle<io::Result<CacheEnd>>,
}

impl Running {
    fn start(connections: usize) -> Self {
        // Only a second stop ends the patience of a test.
        Self::with(connections, None, ClientLimits::default())
    }

    /// One whose clients speak TLS.
    fn encrypted(connections: usize, clients: ClientLimits) -> Self {
        let identity = TlsIdentity { certificate: certificate("proxy.pem"), key: certificate("proxy.key") };
        Self::with(connections, Some(Acceptor::new(&identity, None).unwrap()), clients)
    }

    fn with(connections: usize, tls: Option<Acceptor>, clients: ClientLimits) -> Self {
        let settings = CacheSettings {
            listen: "127.0.0.1:0".parse().unwrap(),
            tls,
            bounds: Bounds::default(),
            connections,
            clients,
            shutdown_limit: Nanos::from_secs(3_600),
            version: "0.1.0".to_owned(),
        };
        let server = CacheServer::bind(settings).unwrap();
        let (address, stopper) = (server.address().clone(), server.stopper());
        Self { address, stopper, thread: thread::spawn(|| server.run()) }
    }

    /// A connection that both sides have greeted each other on.
    fn connect_encrypted(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let mut trusted = RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_file(certificate("authority.pem")).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let mut session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let mut stream = TcpStream::connect((self.address.host.as_str(), self.address.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut stream).unwrap();
        }
        StreamOwned::new(session, stream)
    }

    fn connect(&self) -> Client {
        Client(BufReader::new(TcpStream::connect((self.address.host.as_str(), self.address.port)).unwrap()))
    }

    fn stop(self) -> CacheEnd {
        self.stopper.stop();
        self.thread.join().unwrap().unwrap()
    }
}

/// A file beside the tests of the whole program.
fn certificate(name: &str) -> PathBuf {
    format!("{}/../cli/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR")).into()
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, request: &str) -> String {
        self.send(request.as_bytes());
        self.line()
    }

    /// All there is until the server closes.
    fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        bytes
    }
}

/// Stores 100,000 bytes under `big` and gives the bytes of one answer to `get big`.
fn store_big(client: &mut Client) -> Vec<u8> {
    let data = [b'y'; 100_000];
    client.send(b"set big 0 0 100000\r\n");
    client.send(&data);
    assert_eq!(client.ask("\r\n"), "STORED\r\n");
    [b"VALUE big 0 100000\r\n", &data[..], b"\r\nEND\r\n"].concat()
}

/// More than the kernel takes for a client that does not read.
const MANY: usize = 400;

#[test]
fn a_pipeline_of_requests_is_answered_in_order_and_counted() {
    let server = Running::start(10);
    let mut client = server.connect();
    let (mut requests, mut expected) = (String::new(), String::new());
    for number in 0..10_000 {
        requests += &format!("set k 0 0 5\r\n{number:05}\r\nget k j\r\n");
        expected += &format!("STORED\r\nVALUE k 0 5\r\n{number:05}\r\nEND\r\n");
    }
    let mut writer = client.0.get_ref().try_clone().unwrap();
    let sender = thread::spawn(move || {
        writer.write_all(requests.as_bytes()).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    // The end of what the client sends is no end of what it is owed.
    assert!(client.rest() == expected.as_bytes());
    sender.join().unwrap();
    let outcome = server.stop();
    let counts = outcome.counts;
    assert_eq!((counts.cmd_set, counts.cmd_get, counts.get_hits), (10_000, 20_000, 10_000));
    assert_eq!((outcome.traffic.total_connections, outcome.traffic.curr_connections), (1, 0));
    assert_eq!(outcome.traffic.bytes_written, expected.len() as u64);
}

#[test]
fn a_client_beyond_the_limit_is_told_so() {
    let server = Running::start(1);
    let mut first = server.connect();
    assert_eq!(first.ask("version\r\n"), "VERSION 0.1.0\r\n");
    let mut second = server.connect();
    assert_eq!(second.rest(), b"ERROR Too many open connections\r\n");
    first.send(b"quit\r\n");
    assert_eq!(first.rest(), b"");
    let mut third = server.connect();
    assert_eq!(third.ask("version\r\n"), "VERSION 0.1.0\r\n");
    let outcome = server.stop();
    assert_eq!((outcome.traffic.total_connections, outcome.traffic.rejected_connections), (2, 1));
}

#[test]
fn a_client_that_does_not_read_is_not_answered_without_bound_and_hinders_no_other() {
    let server = Running::start(10);
    let (mut slow, mut quick) = (server.connect(), server.connect());
    let answer = store_big(&mut quick);
    slow.send("get big\r\n".repeat(MANY).as_bytes());
    slow.send("get ".as_bytes());
    slow.send("big ".repeat(MANY).as_bytes());
    slow.send(b"\r\nquit\r\n");
    quick.send(b"stats\r\n");
    let mut written = None;
    loop {
        let line = quick.line();
        if let Some(value) = line.strip_prefix("STAT bytes_written ") {
            written = value.trim().parse::<usize>().ok();
        }
        if line == "END\r\n" {
            break;
        }
    }
    assert!(written.unwrap() < MANY * answer.len(), "{written:?} bytes to a client that reads none");
    let multi = [answer[..answer.len() - 5].repeat(MANY), b"END\r\n".to_vec()].concat();
    assert!(slow.rest() == [answer.repeat(MANY), multi].concat());
    assert_eq!(server.stop().counts.get_hits, 2 * MANY as u64);
}

#[test]
fn stopping_lets_answers_leave_that_are_owed() {
    let server = Running::start(10);
    let (mut slow, mut idle) = (server.connect(), server.connect());
    let answer = store_big(&mut slow);
    slow.send("get big\r\n".repeat(MANY).as_bytes());
    // Half a request is owed nothing.
    slow.send(b"get bi");
    server.stopper.stop();
    assert_eq!(idle.rest(), b"");
    assert!(slow.rest() == answer.repeat(MANY));
    let outcome = server.thread.join().unwrap().unwrap();
    assert_eq!((outcome.counts.cmd_get, outcome.traffic.curr_connections), (MANY as u64, 0));
}

#[test]
fn a_second_stop_waits_for_no_client() {
    let server = Running::start(10);
    let (mut slow, mut idle) = (server.connect(), server.connect());
    store_big(&mut slow);
    slow.send("get big\r\n".repeat(MANY).as_bytes());
    server.stopper.stop();
    // The first stop has been heard when the clients that are owed nothing are gone.
    assert_eq!(idle.rest(), b"");
    let outcome = server.stop();
    assert_eq!(outcome.traffic.curr_connections, 1);
}

#[test]
fn a_port_in_use_is_refused_by_name() {
    let server = Running::start(1);
    let settings = CacheSettings {
        listen: server.address.clone(),
        tls: None,
        bounds: Bounds::default(),
        connections: 1,
        clients: ClientLimits::default(),
        shutdown_limit: Nanos::ZERO,
        version: String::new(),
    };
    let error = CacheServer::bind(settings).unwrap_err();
    assert!(error.what.contains(&server.address.to_string()), "{error}");
    server.stop();
}

#[test]
fn lines_that_never_end_and_browsers_are_cut_off() {
    let server = Running::start(10);
    for bytes in [&b"x".repeat(3_000)[..], b"GET / HTTP/1.1\r\n"] {
        let mut client = server.connect();
        client.send(bytes);
        assert_eq!(client.0.read(&mut [0; 10]).unwrap_or(0), 0);
    }
    assert_eq!(server.stop().traffic.total_connections, 2);
}

/// A handshake that never ends holds its place no longer than the limit: the end comes by the
/// server, not by the client.
#[test]
fn a_tls_handshake_that_does_not_end_is_ended() {
    let clients = ClientLimits { handshake: Nanos::from_millis(50), ..ClientLimits::default() };
    let server = Running::encrypted(1, clients);
    for _ in 0..2 {
        assert_eq!(server.connect().rest(), b"", "the place is there for the next");
    }
    assert_eq!(server.stop().traffic.rejected_connections, 0);
}

/// TLS has an end of its own for each direction, which needs no end of the connection: the client
/// is answered, and told the end in the same way. Without that a client takes an answer for cut
/// off.
#[test]
fn a_client_that_ends_its_side_of_tls_is_answered_and_told_the_end() {
    let server = Running::encrypted(10, ClientLimits::default());
    for (asked, answer) in [("version\r\n", "VERSION 0.1.0\r\n"), ("", "")] {
        let mut client = server.connect_encrypted();
        client.conn.writer().write_all(asked.as_bytes()).unwrap();
        client.conn.send_close_notify();
        // The request and the end come in one piece.
        let mut piece = Vec::new();
        while client.conn.wants_write() {
            client.conn.write_tls(&mut piece).unwrap();
        }
        client.sock.write_all(&piece).unwrap();
        let mut told = String::new();
        client.read_to_string(&mut told).unwrap();
        assert_eq!(told, answer);
    }
    assert_eq!(server.stop().traffic.curr_connections, 0);
}
