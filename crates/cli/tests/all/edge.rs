//! How the proxy meets the outside: unix sockets, TLS, who may come in, what is refused, and
//! clients that take too long or too much.

use crate::support;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::monitoring::{get, value};
use crate::support::conversation::memcached;
use crate::support::peer::{Peer, asked};
use crate::support::process::{Port, Program, limited};
use crate::support::{TOO_LONG, certificate, file, fresh, server_tls, test_id, until};
use rustix::process::Signal;
use serde_json::json;

fn proxy(name: &str, server: &str, config: &str) -> Program {
    start(Program::krarup, name, server, config)
}

/// A proxy that is not waited for: its server may never let it in.
fn outsider(name: &str, server: &str, config: &str) -> Program {
    start(Program::begin, name, server, config)
}

fn start(by: fn(&[&str]) -> Program, name: &str, server: &str, config: &str) -> Program {
    by(&["proxy", "--listen", "127.0.0.1:0", "--servers", server, "--config", &file(name, config)])
}

/// The client at the other end stores and finds.
fn works(program: &Program) {
    let mut client = program.connect();
    client.send(b"set edge 7 0 5\r\nhello\r\nget edge\r\n").unwrap();
    client.expect(b"STORED\r\nVALUE edge 7 5\r\nhello\r\nEND\r\n").unwrap();
    // Large values take more than one read and more than one write.
    let value = vec![b'v'; 700_000];
    client.send(format!("set large 0 0 {}\r\n", value.len()).as_bytes()).unwrap();
    client.send(&value).unwrap();
    client.send(b"\r\nget large edge\r\n").unwrap();
    client.expect(b"STORED\r\n").unwrap();
    client.expect(format!("VALUE large 0 {}\r\n", value.len()).as_bytes()).unwrap();
    client.expect(&value).unwrap();
    client.expect(b"\r\nVALUE edge 7 5\r\nhello\r\nEND\r\n").unwrap();
}

#[test]
fn unix_sockets_carry_both_sides() {
    let server = memcached();
    let path = fresh("edge.sock");
    let name = format!("unix:{}", path.display());
    // What a process that crashed has left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let config = file("edge-socket-mode", "[edge]\nsocket_mode = \"0600\"\n");
    let servers = server.address().to_string();
    let mut inner = Program::begin(&["proxy", "--listen", &name, "--servers", &servers, "--config", &config]);
    inner.says_text(&format!("listening on {name}"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let outer = proxy("edge-unix", &name, "");
    works(&outer);
    let mut direct = UnixStream::connect(&path).unwrap();
    direct.write_all(b"get edge\r\n").unwrap();
    let mut reply = [0; 27];
    direct.read_exact(&mut reply).unwrap();
    assert_eq!(&reply[..], b"VALUE edge 7 5\r\nhello\r\nEND\r\n".get(..27).unwrap());
    drop(direct);
    assert!(outer.stop().success);
    assert!(inner.stop().success);
    assert!(!path.exists());
}

#[test]
fn tls_carries_both_sides_and_strangers_are_turned_away() {
    let server = memcached();
    let listening = format!(
        "[edge]\ntls = {{ certificate = {:?}, key = {:?}, client_authorities = {:?} }}\n",
        certificate("proxy.pem"),
        certificate("proxy.key"),
        certificate("authority.pem")
    );
    let inner = proxy("edge-tls-inner", &server.address().to_string(), &listening);
    let known = proxy("edge-tls-known", &inner.address().to_string(), &server_tls("client"));
    works(&known);
    assert!(known.stop().success);
    let mut stranger = outsider("edge-tls-stranger", &inner.address().to_string(), &server_tls("stranger"));
    stranger.says_text("is down");
    assert!(stranger.stop().success);
    // Plain bytes are no greeting: the connection ends without any of it being carried out.
    let mut plain = inner.connect();
    plain.send(b"set edge 0 0 1\r\nx\r\n").unwrap();
    assert!(!plain.rest().starts_with(b"STORED"));
    let ended = inner.stop();
    assert!(ended.success, "{ended:?}");
}

#[test]
fn a_reload_that_takes_an_expired_certificate_warns() {
    let server = memcached();
    let tls = |name: &str| {
        let (shown, key) = (certificate(name), certificate("proxy.key"));
        format!("[edge]\ntls = {{ certificate = {shown:?}, key = {key:?} }}\n")
    };
    let mut proxy = proxy("edge-expired", &server.address().to_string(), &tls("proxy.pem"));
    let path = file("edge-expired", &tls("expired.pem"));
    proxy.signal(Signal::HUP);
    proxy.says_text("expired.pem has expired");
    proxy.says_text("holds from now on");
    assert!(proxy.stop().success);
    let checked =
        Program::begin(&["proxy", "--check", "--servers", "127.0.0.1:1", "--config", &path]).ended();
    assert!(checked.success && checked.errors.contains("has expired"), "{checked:?}");
}

/// A folder as Kubernetes mounts it: the names are links into `..data`, which is a link to the
/// folder of the day, and is replaced at once.
#[test]
fn files_that_change_are_read_again_where_they_are_looked_at() {
    let (one, other) = (memcached(), memcached());
    for (server, value) in [(&one, "1"), (&other, "2")] {
        let mut client = server.connect();
        client.send(format!("set which 0 0 1\r\n{value}\r\n").as_bytes()).unwrap();
        client.expect(b"STORED\r\n").unwrap();
    }
    let folder = fresh("edge-mounted");
    fs::create_dir(&folder).unwrap();
    let mount = |day: &str, server: &Program, users: &str| {
        let held = folder.join(day);
        fs::create_dir(&held).unwrap();
        let server = server.address();
        let text = format!(
            "servers = [\"{server}\"]\nreload_every = \"10ms\"\n[edge]\nusers = {:?}\n",
            folder.join("users")
        );
        fs::write(held.join("proxy.toml"), text).unwrap();
        fs::write(held.join("users"), users).unwrap();
        std::os::unix::fs::symlink(day, folder.join("..next")).unwrap();
        fs::rename(folder.join("..next"), folder.join("..data")).unwrap();
    };
    mount("..1", &one, "anna:first\n");
    for name in ["proxy.toml", "users"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), folder.join(name)).unwrap();
    }
    let config = folder.join("proxy.toml").display().to_string();
    let mut proxy = Program::krarup(&["proxy", "--listen", "127.0.0.1:0", "--config", &config]);
    let found = |proxy: &Program, password: &str| {
        let mut client = proxy.connect();
        let login = format!("anna {password}");
        client.send(format!("set x 0 0 {}\r\n{login}\r\nget which\r\n", login.len()).as_bytes()).unwrap();
        (client.line().unwrap() == b"STORED\r\n").then(|| {
            assert_eq!(client.line().unwrap(), b"VALUE which 0 1\r\n");
            client.line().unwrap()
        })
    };
    assert_eq!(found(&proxy, "first"), Some(b"1\r\n".to_vec()));
    // Another file that it names.
    mount("..2", &one, "anna:second\n");
    until("other users are known", || found(&proxy, "second").is_some());
    // The configuration itself.
    mount("..3", &other, "anna:second\n");
    until("another server is asked", || found(&proxy, "second") == Some(b"2\r\n".to_vec()));
    // What makes no sense is told of, and the one before goes on.
    fs::write(folder.join("..3/proxy.toml"), "nonsense = 1\nreload_every = \"10ms\"\n").unwrap();
    proxy.says_text("another configuration is not taken over");
    assert_eq!(found(&proxy, "second"), Some(b"2\r\n".to_vec()));
    // What the one before names is read again all the same, and so it is beside one that makes
    // sense and takes a restart, which names other files or none.
    let renew = |users: &str| {
        fs::write(folder.join("..3/next"), users).unwrap();
        fs::rename(folder.join("..3/next"), folder.join("..3/users")).unwrap();
    };
    renew("anna:third\n");
    proxy.says_text("certificates, keys and users of the configuration that runs were read again");
    assert_eq!(found(&proxy, "third"), Some(b"2\r\n".to_vec()));
    let restarts = format!("threads = 2\nservers = [\"{}\"]\nreload_every = \"10ms\"\n", one.address());
    fs::write(folder.join("..3/proxy.toml"), restarts).unwrap();
    proxy.says_text("`threads` is 2, and 1 runs");
    renew("anna:fourth\n");
    proxy.says_text("certificates, keys and users of the configuration that runs were read again");
    assert_eq!(found(&proxy, "fourth"), Some(b"2\r\n".to_vec()));
    assert!(proxy.stop().success);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_client_logs_in_to_the_proxy_and_the_proxy_to_its_servers() {
    let server = memcached();
    let users = file("edge-users", "anna:secret\nproxy:between\n");
    let inner = proxy("edge-inner", &server.address().to_string(), &format!("[edge]\nusers = {users:?}\n"));
    let mut client = inner.connect();
    for (said, reply) in [
        ("get edge\r\n", "CLIENT_ERROR unauthenticated\r\n"),
        ("set x 0 0 9\r\nanna wron\r\n", "CLIENT_ERROR authentication failure\r\n"),
        ("set x 0 0 11\r\nanna secret\r\n", "STORED\r\n"),
        ("set edge 7 0 5\r\nhello\r\n", "STORED\r\n"),
    ] {
        client.send(said.as_bytes()).unwrap();
        client.expect(reply.as_bytes()).unwrap();
    }
    // All in one write, cut nowhere.
    let mut hasty = inner.connect();
    hasty.send(b"set x 0 0 11\r\nanna secret\r\nget edge\r\n").unwrap();
    hasty.expect(b"STORED\r\nVALUE edge 7 5\r\nhello\r\nEND\r\n").unwrap();
    let login = file("edge-login", "proxy:between\n");
    let outer =
        proxy("edge-outer", &inner.address().to_string(), &format!("[edge]\nserver_login = {login:?}\n"));
    works(&outer);
    let wrong = file("edge-wrong-login", "proxy:wrong\n");
    let denying = format!("[edge]\nserver_login = {wrong:?}\n");
    let mut denied = outsider("edge-denied", &inner.address().to_string(), &denying);
    denied.says_text("authentication failure");
}

/// A proxy that asks who its clients are, with these settings besides.
fn asking(name: &str, server: &Program, settings: &str) -> Program {
    let users = file(&format!("{name}-users"), "anna:secret\n");
    proxy(name, &server.address().to_string(), &format!("[edge]\nusers = {users:?}\n{settings}"))
}

const LOGIN: &[u8] = b"set x 0 0 11\r\nanna secret\r\n";

#[test]
fn a_login_or_a_handshake_that_does_not_end_is_ended() {
    let server = memcached();
    let proxy = asking("edge-login-late", &server, "login_timeout = \"1s\"\n");
    let mut known = proxy.connect();
    // On a machine that is slow it may be late itself.
    until("a client logs in in time", || {
        let is_known = known.send(LOGIN).is_ok() && known.expect(b"STORED\r\n").is_ok();
        if !is_known {
            known = proxy.connect();
        }
        is_known
    });
    for begun in [&b""[..], &LOGIN[..20], b"get nothing\r\n"] {
        let mut late = proxy.connect();
        late.send(begun).unwrap();
        let words = String::from_utf8(late.rest()).unwrap();
        assert!(words.ends_with("CLIENT_ERROR the login took too long\r\n"), "{words:?}");
    }
    known.send(b"get nothing\r\n").unwrap();
    known.expect(b"END\r\n").unwrap();
    assert_eq!(known.stats("")["curr_connections"], "1");

    let config = format!(
        "[edge]\nlogin_timeout = \"300ms\"\ntls = {{ certificate = {:?}, key = {:?} }}\n",
        certificate("proxy.pem"),
        certificate("proxy.key")
    );
    let encrypted = self::proxy("edge-handshake-late", &server.address().to_string(), &config);
    // Nothing at all, and the beginning of a greeting.
    for begun in [&b""[..], &[0x16, 3, 1, 2, 0, 1]] {
        let mut late = encrypted.connect();
        late.send(begun).unwrap();
        assert!(late.rest().is_empty());
    }
}

#[test]
fn of_clients_that_do_not_log_in_only_the_newest_stay() {
    let server = memcached();
    let proxy = asking("edge-unknown", &server, "login_timeout = 0\nmax_unauthenticated = 3\n");
    let mut known = proxy.connect();
    known.send(LOGIN).unwrap();
    known.expect(b"STORED\r\n").unwrap();
    let mut silent: Vec<Peer> = (0..10).map(|_| proxy.connect()).collect();
    for oldest in &mut silent[..7] {
        assert!(oldest.rest().is_empty());
    }
    known.send(b"get nothing\r\n").unwrap();
    known.expect(b"END\r\n").unwrap();
    let mut other = silent.pop().unwrap();
    other.send(LOGIN).unwrap();
    other.expect(b"STORED\r\n").unwrap();
    assert_eq!(other.stats("")["curr_connections"], "4");
}

#[test]
fn the_third_wrong_password_is_the_last() {
    let server = memcached();
    let proxy = asking("edge-guesses", &server, "");
    let mut guessing = proxy.connect();
    let wrong = b"set x 0 0 9\r\nanna wron\r\n".as_slice();
    // All at once: each is answered when it is its turn, and after the third nothing is carried
    // out.
    guessing.send(&[wrong, wrong, wrong, LOGIN, b"set edge 0 0 1\r\nx\r\n"].concat()).unwrap();
    let said = String::from_utf8(guessing.rest()).unwrap();
    assert_eq!(said, "CLIENT_ERROR authentication failure\r\n".repeat(3));
    let mut mistaken = proxy.connect();
    mistaken.send(&[wrong, wrong, LOGIN, b"get edge\r\n"].concat()).unwrap();
    mistaken.expect(&b"CLIENT_ERROR authentication failure\r\n".repeat(2)).unwrap();
    mistaken.expect(b"STORED\r\nEND\r\n").unwrap();
}

/// memcached asks for a password in the same words.
#[test]
fn a_memcached_that_asks_for_a_password_gets_it() {
    let users = file("edge-memcached-users", "anna:secret\n");
    // It reads the file as the user `nobody`.
    fs::set_permissions(&users, fs::Permissions::from_mode(0o644)).unwrap();
    let copy = std::env::temp_dir().join(format!("krarup-users-{}", test_id()));
    fs::copy(&users, &copy).unwrap();
    let port = Port::new();
    let mut command = Command::new("memcached");
    command.args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-u", "nobody", "-Y"]).arg(&copy);
    command.args(["-p", &port.address().port().to_string()]);
    let _memcached = Program::spawn(command);
    let proxy = proxy(
        "edge-before-memcached",
        &port.address().to_string(),
        &format!("reconnect_at_most = \"50ms\"\n[edge]\nserver_login = {users:?}\n"),
    );
    let mut client = proxy.connect();
    until("the server is up", || {
        client.send(b"set a 0 0 1\r\nx\r\n").unwrap();
        client.line().unwrap() == b"STORED\r\n"
    });
    fs::remove_file(copy).unwrap();
}

/// It would be every client's to read.
#[test]
fn a_memcached_that_asks_for_no_password_keeps_none() {
    let (server, login) = (memcached(), file("edge-kept-login", "anna:secret\n"));
    let proxy =
        proxy("edge-kept", &server.address().to_string(), &format!("[edge]\nserver_login = {login:?}\n"));
    works(&proxy);
    let mut client = proxy.connect();
    client.send(b"get krarup\r\n").unwrap();
    client.expect(b"END\r\n").unwrap();
}

#[test]
fn what_reaches_beyond_its_keys_is_refused_unless_it_is_allowed() {
    let server = memcached();
    let proxy = proxy("edge-refusing", &server.address().to_string(), "");
    let mut client = proxy.connect();
    client.send(b"set k 0 0 1\r\nx\r\nflush_all\r\nverbosity 1\r\nflush_all noreply\r\nget k\r\n").unwrap();
    client
        .expect(
            b"STORED\r\nCLIENT_ERROR flush_all is not allowed by this proxy\r\n\
              CLIENT_ERROR verbosity is not allowed by this proxy\r\nVALUE k 0 1\r\nx\r\nEND\r\n",
        )
        .unwrap();
    let allowing = Program::proxy(&[server.address()], &[]);
    let mut client = allowing.connect();
    client.send(b"flush_all\r\nget k\r\n").unwrap();
    client.expect(b"OK\r\nEND\r\n").unwrap();
}

#[test]
fn clients_that_take_too_long_are_disconnected_and_others_are_not() {
    let server = memcached();
    let config = "[edge]\nrequest_timeout = \"100ms\"\nidle_timeout = \"1s\"\n";
    let proxy = proxy("edge-patience", &server.address().to_string(), config);
    let late = b"CLIENT_ERROR the request took too long to arrive\r\n";
    let begun = Instant::now();
    for part in [&b"get a"[..], b"set a 0 0 10\r\nhalf", b"set a 0 0 100000000\r\nhalf"] {
        let mut slow = proxy.connect();
        slow.send(part).unwrap();
        let said = slow.rest();
        // A value that is refused anyway has its own last words first.
        assert!(said.ends_with(late), "{:?} after {:?}", support::shown(&said), begun.elapsed());
    }
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let begun = Instant::now();
    let mut idle = proxy.connect();
    assert!(idle.rest().is_empty());
    assert!(begun.elapsed() >= Duration::from_millis(990), "{:?}", begun.elapsed());
    // A client that keeps asking stays; one that a slow machine kept from it comes once more.
    until("a client that keeps asking stays", || {
        let (mut busy, begun) = (proxy.connect(), Instant::now());
        let mut stays = true;
        while stays && begun.elapsed() < Duration::from_millis(2_500) {
            stays = busy.send(b"get a\r\n").is_ok() && busy.expect(b"END\r\n").is_ok();
        }
        stays
    });
    let ended = proxy.stop();
    assert!(ended.success, "{ended:?}");
}

#[test]
fn a_client_that_does_not_read_gives_its_worker_back_in_the_end() {
    let server = memcached();
    let config = "workers = 1\n[edge]\nrequest_timeout = \"200ms\"\n";
    let proxy = proxy("edge-unread", &server.address().to_string(), config);
    // At the server itself, which gives a large value as much time as it takes.
    let mut storing = server.connect();
    storing.send(format!("set large 0 0 700000\r\n{}\r\n", "v".repeat(700_000)).as_bytes()).unwrap();
    storing.expect(b"STORED\r\n").unwrap();
    // More than all sockets between hold.
    let mut slow = proxy.connect();
    slow.send(format!("get{}\r\n", " large".repeat(100)).as_bytes()).unwrap();
    slow.expect(b"VALUE large 0 700000\r\n").unwrap();
    let mut client = proxy.connect();
    client.send(b"get nothing\r\n").unwrap();
    client.expect(b"END\r\n").unwrap();
}

#[test]
fn slow_readers_do_not_use_up_the_memory_and_do_not_stop_others() {
    // Values that are copied, and values that are lent.
    slow_readers(500_000, 800);
    slow_readers(4_000_000, 100);
}

#[test]
fn replies_that_wait_for_an_older_one_count_for_the_memory() {
    let servers: Vec<Program> = (0..2).map(|_| memcached()).collect();
    let config = "timeout = \"60s\"\n[edge]\nmemory = \"16MiB\"\n";
    let addresses = servers.iter().map(|server| server.address().to_string()).collect::<Vec<_>>().join(",");
    let mut proxy = proxy("edge-older", &addresses, config);
    let value = vec![b'v'; 500_000];
    let mut client = proxy.connect();
    client.send(format!("set large 0 0 {}\r\n", value.len()).as_bytes()).unwrap();
    client.send(&value).unwrap();
    client.send(b"\r\n").unwrap();
    client.expect(b"STORED\r\n").unwrap();
    let before = proxy.resident();
    // The reads go to both servers in turn; whichever answers faster is ahead of the other. As long
    // as the client was given nothing but short replies, no long ones are expected, and all of its
    // reads are under way at once.
    let mut slow = proxy.connect();
    slow.send(&b"get nothing\r\n".repeat(100)).unwrap();
    slow.expect(&b"END\r\n".repeat(100)).unwrap();
    let _ = slow.send(&b"get large\r\n".repeat(800));
    proxy.says_text("the memory is used up");
    client.send(b"get nothing\r\n").unwrap();
    client.expect(b"END\r\n").unwrap();
    let grown = proxy.resident().saturating_sub(before);
    assert!(grown < 100_000, "{grown} kB more than before");
}

fn slow_readers(length: usize, requests: usize) {
    let server = Program::memcached(&["-I", "8m"]);
    let config =
        "timeout = \"60s\"\nreply_buffer = \"1GiB\"\nmax_value = \"8MiB\"\n[edge]\nmemory = \"16MiB\"\n";
    let mut proxy = proxy("edge-memory", &server.address().to_string(), config);
    let value = vec![b'v'; length];
    let mut client = proxy.connect();
    client.send(format!("set large 0 0 {}\r\n", value.len()).as_bytes()).unwrap();
    client.send(&value).unwrap();
    client.send(b"\r\n").unwrap();
    client.expect(b"STORED\r\n").unwrap();
    let before = proxy.resident();
    // Each asks for 400 MB and reads nothing of it.
    let mut slow: Vec<Peer> = (0..4).map(|_| proxy.connect()).collect();
    for peer in &mut slow {
        let _ = peer.send(&b"get large\r\n".repeat(requests));
    }
    proxy.says_text("the memory is used up");
    for _ in 0..20 {
        client.send(b"get nothing\r\n").unwrap();
        client.expect(b"END\r\n").unwrap();
    }
    let grown = proxy.resident().saturating_sub(before);
    assert!(grown < 100_000, "{grown} kB more than before");
}

#[test]
fn a_listening_socket_is_taken_from_the_program_that_opened_it() {
    let server = memcached();
    for engine in ["events", "threads"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let servers = server.address().to_string();
        let flags = ["proxy", "--servers", &servers, "--workers", "1", "--engine", engine];
        let proxy = taking(&listener, 1, &flags);
        // The socket is there from the start: a client that connects early waits.
        let mut client = Peer::connect(address);
        client.send(b"get nothing\r\n").unwrap();
        client.expect(b"END\r\n").unwrap();
        proxy.kill();
    }
}

#[test]
fn threads_that_may_open_no_more_files_say_so() {
    let server = memcached();
    let servers = server.address().to_string();
    // A client takes two of them: the last one may be free for its socket, and none for the other.
    for files in [64, 65] {
        let mut command = limited(&format!("-n {files}"));
        command.args(["proxy", "--engine", "threads", "--workers", "1"]);
        command.args(["--listen", "127.0.0.1:0", "--servers", &servers]);
        let mut proxy = Program::spawn(command).listening();
        let _clients: Vec<Peer> = (0..files).map(|_| proxy.connect()).collect();
        proxy.says_text("cannot accept clients");
    }
}

/// Clients that wait to be accepted would take the descriptor of the connection that is lost.
#[test]
fn a_server_that_was_restarted_is_connected_to_again_while_clients_wait_for_files() {
    let port = Port::new();
    let (server, servers) = (Program::cache_at(&port), port.address().to_string());
    let mut command = limited("-n 64");
    command.args(["proxy", "--listen", "127.0.0.1:0", "--servers", &servers]);
    let mut proxy = Program::spawn(command).listening();
    let mut clients: Vec<Peer> = (0..70).map(|_| proxy.connect()).collect();
    proxy.says_text("cannot accept clients");
    let accepted = clients[0].count("curr_connections") as usize;
    server.kill();
    proxy.says_text("is down");
    // One leaves, and the first that waits takes its place: so would the next take the server's.
    drop(clients.remove(1));
    let next = &mut clients[accepted - 1];
    next.send(b"version\r\n").unwrap();
    next.line().unwrap();
    let _server = Program::cache_at(&port);
    until("the server is connected to again", || {
        clients[0].send(b"get a\r\n").unwrap();
        clients[0].line().unwrap() == b"END\r\n"
    });
}

#[test]
fn a_listening_socket_that_stands_in_for_no_address_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = ["proxy", "--servers", "127.0.0.1:1", "--workers", "1", "--engine", "threads"];
    for flags in [&proxy[..3], &proxy, &["broker"]] {
        let ended = taking(&listener, 2, flags).ended();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let what = "more listening sockets were given (2) than there are addresses to listen on (1)";
        assert!(ended.errors.contains(what) && ended.errors.contains("ListenStream="), "{ended:?}");
    }
}

/// Its clients would be served from the servers of another pool.
#[test]
fn a_listening_socket_is_that_of_the_pool_with_its_address() {
    let (general, users) = (memcached(), memcached());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap();
    let text = format!(
        "listen = \"127.0.0.1:0\"\nservers = [\"{}\"]\n\
         [pools.users]\nlisten = \"{own}\"\nservers = [\"{}\"]\n",
        general.address(),
        users.address()
    );
    let proxy = taking(&listener, 1, &["proxy", "--config", &file("edge-taken", &text)]).listening();
    let mut client = Peer::connect(own);
    client.send(b"set edge 0 0 1\r\nx\r\n").unwrap();
    client.expect(b"STORED\r\n").unwrap();
    assert_eq!([&general, &users].map(|server| server.connect().count("curr_items")), [0, 1]);
    assert!(proxy.stop().success);
}

/// A krarup that is given this listening socket so many times, as systemd gives it.
pub(crate) fn taking(listener: &TcpListener, times: usize, flags: &[&str]) -> Program {
    let mut command = Command::new("sh");
    let given = &"3<&0 4<&0"[..times * 5 - 1];
    let script = format!("exec {given} </dev/null; LISTEN_PID=$$ LISTEN_FDS={times} exec \"$@\"");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_krarup")]).args(flags);
    Program::spawn_with(command, OwnedFd::from(listener.try_clone().unwrap()).into())
}

/// A proxy takes the place of another under load: clients that connect anew now and then lose
/// nothing.
fn replaced_under_load(begin: &dyn Fn(SocketAddr, &[&str]) -> Program, name: &str) {
    let server = memcached();
    let config = file(name, "drain = \"1h\"\n[edge]\nreuse_port = true\n");
    let servers = server.address().to_string();
    let started = |at: SocketAddr| {
        let mut proxy = begin(at, &["--servers", &servers, "--config", &config, "--admin", "127.0.0.1:0"]);
        let admin: SocketAddr = proxy.says(|line| {
            line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok()
        });
        (proxy.listening(), admin)
    };
    let answered = |admin| value(&get(admin, "/metrics").1, "krarup_requests_accepted_total") > 100.0;
    let (first, admin) = started(SocketAddr::from(([127, 0, 0, 1], 0)));
    let address = first.address();
    let to = address.to_string();
    let load =
        ["load", "-s", &to, "-c", "8", "--think", "5ms", "--reconnect-after", "20", "--seconds", "600"];
    let load = Program::begin(&[&load[..], &["--json", "-", "--progress", "none"]].concat());
    until("the first serves", || answered(admin));
    let (second, its_admin) = started(address);
    first.signal(Signal::TERM);
    // It ends when the last client has left, long before the hour is over.
    let ended = first.ended();
    assert!(ended.success && ended.errors.contains("draining"), "{ended:?}");
    until("the second serves", || answered(its_admin));
    load.interrupt();
    let told = load.ended().json();
    let account = &told["account"];
    assert!(account["connections_renewed"].as_u64() >= Some(8), "{account}");
    assert_eq!((&account["lost"], &told["overall"]["errors"]), (&json!({}), &json!({})), "{account}");
    assert_eq!((&account["connections_lost"], &account["connects_failed"]), (&json!(0), &json!(0)));
    assert!(second.stop().success);
}

#[test]
fn a_proxy_is_replaced_under_load_by_one_at_the_same_socket_and_no_request_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let begin = |_: SocketAddr, flags: &[&str]| taking(&listener, 1, &[&["proxy"], flags].concat());
    replaced_under_load(&begin, "edge-drain-socket");
}

#[test]
fn a_proxy_is_replaced_under_load_by_one_at_the_same_port_and_no_request_is_lost() {
    let begin = |at: SocketAddr, flags: &[&str]| {
        Program::begin(&[&["proxy", "--listen", &at.to_string()], flags].concat())
    };
    replaced_under_load(&begin, "edge-drain-port");
}

/// Clients that stay are served until the stop is asked for again.
#[test]
fn a_proxy_that_drains_serves_who_is_there_is_not_ready_and_stops_when_asked_again() {
    let server = memcached();
    for threads in ["1", "2"] {
        let mut proxy = outsider(
            "edge-drain",
            &server.address().to_string(),
            &format!("drain = \"1h\"\nthreads = {threads}\nadmin = \"127.0.0.1:0\"\n"),
        );
        let admin: SocketAddr = proxy.says(|line| {
            line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok()
        });
        let mut proxy = proxy.listening();
        let mut clients = [(); 3].map(|()| proxy.connect());
        let mut serves = || {
            for client in &mut clients {
                client.send(b"get nothing\r\n").unwrap();
                client.expect(b"END\r\n").unwrap();
            }
        };
        serves();
        proxy.signal(Signal::TERM);
        proxy.says_text("draining");
        serves();
        assert_eq!(get(admin, "/ready"), (503, "stopping\n".into()));
        let told = asked(admin, "POST", "/reload");
        assert!(told.starts_with("HTTP/1.1 409") && told.contains("the proxy is stopping"), "{told}");
        assert!(TcpStream::connect(proxy.address()).is_err(), "it accepts another");
        serves();
        assert!(proxy.stop().success);
        assert!(clients.iter_mut().all(|client| client.rest().is_empty()));
    }
}

#[test]
fn a_proxy_takes_the_place_of_another_and_no_client_is_refused() {
    let server = memcached();
    let config = file("edge-restart", "[edge]\nreuse_port = true\n");
    let servers = server.address().to_string();
    let begin = |listen: &str| {
        Program::krarup(&["proxy", "--listen", listen, "--servers", &servers, "--config", &config])
    };
    let first = begin("127.0.0.1:0");
    let mut early = first.connect();
    early.send(b"get nothing\r\n").unwrap();
    early.expect(b"END\r\n").unwrap();
    let second = begin(&first.address().to_string());
    // Both listen now, and a client that connects is served by one of them.
    for _ in 0..20 {
        let mut client = second.connect();
        client.send(b"get nothing\r\n").unwrap();
        client.expect(b"END\r\n").unwrap();
    }
    let ended = first.stop();
    assert!(ended.success, "{ended:?}");
    assert!(early.rest().is_empty());
    for _ in 0..20 {
        let mut client = second.connect();
        client.send(b"get nothing\r\n").unwrap();
        client.expect(b"END\r\n").unwrap();
    }
    assert!(second.stop().success);
}

/// Clients would connect to it that the kernel then resets.
#[test]
fn a_proxy_that_cannot_have_its_admin_address_listens_for_no_client() {
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [clients, admin] = taken.each_ref().map(|listener| listener.local_addr().unwrap().to_string());
    let config = file("edge-admin-taken", "[edge]\nreuse_port = true\n");
    let words =
        ["proxy", "--listen", &clients, "--admin", &admin, "--servers", "127.0.0.1:1", "--config", &config];
    let ended = Program::begin(&words).ended();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.errors.contains(&format!("cannot listen on {admin}: another process")), "{ended:?}");
    assert!(ended.errors.contains("give it another --admin"), "{ended:?}");
}

#[test]
fn a_datagram_is_told_that_connections_are_served() {
    let server = memcached();
    let proxy = Program::proxy(&[server.address()], &[]);
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(TOO_LONG)).unwrap();
    client.connect(proxy.address()).unwrap();
    client.send(b"\x00\x07\0\0\0\x01\0\0get a\r\n").unwrap();
    let mut room = [0; 128];
    let count = client.recv(&mut room).unwrap();
    assert_eq!(&room[..count], b"\x00\x07\0\0\0\x01\0\0CLIENT_ERROR UDP is not supported, use TCP\r\n");
    works(&proxy);
}
