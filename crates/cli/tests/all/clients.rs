//! Real clients through the proxy before three real memcached: each does to the proxy what it does
//! to one memcached, and must come back with the same.
//!
//! Left out, with a line that says so, is what is not installed; `make test` installs all of it.

use crate::support;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::process::{Program, skipped};
use crate::support::{fresh, shown, until};

/// One memcached, and a proxy before three.
struct Both {
    alone: Program,
    servers: [Program; 3],
    proxy: Program,
}

impl Both {
    fn start(flags: &[&str]) -> Self {
        // Without the threads that reorder items in the background: while these hold one, a number
        // is not shortened in its place.
        let memcached = || Program::memcached(&["-o", "no_modern"]);
        let servers = [memcached(), memcached(), memcached()];
        let proxy = Program::proxy(&servers.each_ref().map(Program::address), flags);
        Self { alone: memcached(), servers, proxy }
    }

    /// The same with both, and what came of it: line by line alike.
    fn compare(&self, what: &str, session: impl Fn(SocketAddr) -> String) {
        let (alone, proxy) = (session(self.alone.address()), session(self.proxy.address()));
        assert!(!alone.is_empty(), "{what}: nothing happened");
        for (number, (alone, proxy)) in (1..).zip(alone.lines().zip(proxy.lines())) {
            assert_eq!(proxy, alone, "{what}, line {number}: the proxy, and memcached");
        }
        assert_eq!(proxy, alone, "{what}: the proxy, and memcached");
    }

    /// All four servers have ended up with the same under these keys, and the proxy ends well.
    fn end(self, keys: &str) {
        let held = |server: &Program| {
            let mut peer = server.connect();
            peer.send(format!("get {keys}\r\nquit\r\n").as_bytes()).unwrap();
            shown(&peer.rest())
        };
        let alone = held(&self.alone);
        assert!(alone.contains("VALUE"), "something is stored: {alone}");
        for server in &self.servers {
            assert_eq!(held(server), alone);
        }
        let ended = self.proxy.stop();
        assert!(ended.success, "{ended:?}");
        assert!(ended.output.contains(" 0 disagreements of servers, 0 server connections lost"), "{ended:?}");
    }
}

fn cache() -> Program {
    Program::krarup(&["cache", "--listen", "127.0.0.1:0"])
}

/// Whether a program can be started.
fn there(program: &str) -> bool {
    Command::new(program).arg("--help").stdin(Stdio::null()).output().is_ok()
}

/// What a command printed and how it ended.
fn transcript(output: &Output) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string().replace(r"\n", "\n");
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    format!("{out}\n{errors}\nended with {:?}\n", output.status.code())
}

// ---- pymemcache ---------------------------------------------------------------------------------

/// A Python that has pymemcache.
fn python() -> Option<String> {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python-clients/bin/python");
    let candidates = [own.to_str().unwrap(), "/usr/bin/python3", "python3"];
    let has_it = |python: &&str| {
        let tried = Command::new(python).args(["-c", "import pymemcache"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    candidates.into_iter().find(has_it).map(str::to_owned)
}

#[test]
fn pymemcache_finds_in_the_proxy_what_it_finds_in_memcached() {
    let Some(python) = python() else {
        return skipped("no Python has pymemcache; `scripts/python-clients target/python-clients` makes one");
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/pymemcache_session.py");
    for flags in [&["-s", "false"][..], &["-s", "true", "-t", "3"]] {
        let both = Both::start(flags);
        both.compare("pymemcache", |address| {
            let output = Command::new(&python).arg(&script).arg(address.port().to_string()).output().unwrap();
            assert!(output.status.success(), "{}", transcript(&output));
            let said = transcript(&output);
            assert!(said.lines().count() > 150, "{said}");
            said
        });
        both.end("ключ object pooled-1 hashed-2");
    }
}

// ---- Go, Node, Java -----------------------------------------------------------------------------

/// The session of another language, once `make test-clients` has built it, does to the proxy what
/// it does to memcached.
fn built_session(what: &str, needed: &str, program: &str, arguments: &[&str], keys: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients");
    if !folder.join(needed).exists() {
        return skipped(&format!("{what} is not built; `make test-clients` builds it"));
    }
    for flags in [&["-s", "false"][..], &["-s", "true", "-t", "3"]] {
        let both = Both::start(flags);
        both.compare(what, |address| {
            let mut command = Command::new(program);
            let port = address.port().to_string();
            let output = command.args(arguments).arg(port).current_dir(&folder).output().unwrap();
            assert!(output.status.success(), "{}", transcript(&output));
            let said = transcript(&output);
            assert!(said.lines().count() > 100, "{said}");
            said
        });
        both.end(keys);
    }
}

#[test]
fn gomemcache_finds_in_the_proxy_what_it_finds_in_memcached() {
    built_session("gomemcache's session", "go/session", "./go/session", &[], "go-a go-many-07 go-number");
}

#[test]
fn nodes_memcached_finds_in_the_proxy_what_it_finds_in_memcached() {
    let needed = "node/node_modules/memcached";
    built_session("Node's session", needed, "node", &["node/session.js"], "node-a node-object node-number");
}

/// memjs speaks the binary protocol alone: it is told at once that the command is unknown, over a
/// connection of its own and over one that brings the header byte by byte, and no client waits for
/// a timeout.
#[test]
fn memjs_is_told_that_its_protocol_is_not_spoken() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients");
    if !folder.join("node/node_modules/memjs").exists() || !folder.join("node/binary.js").exists() {
        return skipped("memjs is not installed; `make test-clients` installs it");
    }
    let both = Both::start(&[]);
    let session = |program: &Program| {
        let port = program.address().port().to_string();
        let output =
            Command::new("node").args(["node/binary.js", &port]).current_dir(&folder).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(session(&both.alone), "value: null\n");
    for program in [&both.proxy, &cache()] {
        assert_eq!(session(program), "error: MemJS GET: Unknown command\n");
    }
}

#[test]
fn spymemcached_and_xmemcached_find_in_the_proxy_what_they_find_in_memcached() {
    let arguments = ["-cp", "java/classes:java/lib/*", "Session"];
    built_session(
        "Java's session",
        "java/classes/Session.class",
        "java",
        &arguments,
        "spy-a spy-many-3 x-a x-number",
    );
}

// ---- libmemcached -------------------------------------------------------------------------------

/// A command of libmemcached-tools, as Debian names them.
fn tool(name: &str, address: SocketAddr, arguments: &[&str]) -> String {
    let mut command = Command::new(name);
    command.arg(format!("--servers={address}")).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // Its messages name the server.
    transcript(&output).replace(&address.port().to_string(), "PORT")
}

#[test]
fn the_tools_of_libmemcached_do_to_the_proxy_what_they_do_to_memcached() {
    if !there("memccat") {
        return skipped("memccat is not there: install Debian's package libmemcached-tools");
    }
    let folder = fresh("libmemcached");
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let text = path("text", b"some text\n");
    let binary = path("binary", &(0..=255).cycle().take(100_000).collect::<Vec<u8>>());
    let large = path("large", &vec![b'l'; 1_000_000]);
    let both = Both::start(&[]);
    let steps: &[(&str, &[&str])] = &[
        ("memcping", &[]),
        ("memccp", &[&text, &binary, &large]),
        ("memccat", &["text"]),
        ("memccat", &["text", "binary", "large"]),
        ("memccat", &["--flags", "text"]),
        ("memccat", &["nothing"]),
        ("memcexist", &["text"]),
        ("memcexist", &["nothing"]),
        ("memccp", &["--add", &text]),
        ("memccp", &["--replace", "--expire=1000", "--flag=7", &text]),
        ("memccat", &["--flags", "text"]),
        ("memctouch", &["--expire=1000", "text"]),
        ("memctouch", &["--expire=1000", "nothing"]),
        ("memccp", &["--set", &text]),
        ("memcrm", &["text"]),
        ("memcrm", &["text"]),
        ("memccat", &["text"]),
        ("memcflush", &[]),
        ("memccat", &["binary"]),
        ("memccp", &[&text]),
    ];
    for (name, arguments) in steps {
        both.compare(&format!("{name} {arguments:?}"), |address| tool(name, address, arguments));
    }
    // Statistics are each one's own, but must be understood.
    for program in [&both.alone, &both.proxy] {
        let said = tool("memcstat", program.address(), &[]);
        assert!(said.contains("curr_connections: ") && said.contains("ended with Some(0)"), "{said}");
    }
    both.end("text binary large");
    fs::remove_dir_all(folder).unwrap();
}

/// They ask for the version, and one that begins with 0 is no memcached's to them.
#[test]
fn the_tools_of_libmemcached_take_the_embedded_store_for_a_memcached() {
    if !there("memcping") {
        return skipped("memcping is not there: install Debian's package libmemcached-tools");
    }
    let cache = cache();
    let steps: &[(&str, &[&str])] =
        &[("memcping", &[]), ("memcstat", &[]), ("memcstat", &["--server-version"])];
    for (name, arguments) in steps {
        let said = tool(name, cache.address(), arguments);
        assert!(said.contains("ended with Some(0)"), "{name} {arguments:?}: {said}");
    }
}

#[test]
fn memcapable_finds_nothing_wrong_with_the_text_protocol() {
    if !there("memccapable") {
        return skipped("memccapable is not there: install Debian's package libmemcached-tools");
    }
    let both = Both::start(&[]);
    both.compare("memccapable", |address| {
        let port = address.port().to_string();
        let output =
            Command::new("memccapable").args(["-a", "-h", "127.0.0.1", "-p", &port]).output().unwrap();
        let said = transcript(&output);
        assert!(said.contains("ascii prepend noreply") && said.contains("All tests passed"), "{said}");
        said
    });
    both.end("test_ascii_prepend test_ascii_append test_ascii_decr");
}

// ---- a shell ------------------------------------------------------------------------------------

/// What comes back when a shell pipes this text, escaped as for printf, through `nc` with these
/// flags.
fn piped(address: SocketAddr, text: &str, through: &str, flags: &str) -> String {
    let script = format!("printf '{text}' {through} | nc {flags} 127.0.0.1 {}", address.port());
    transcript(&Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn a_session_from_the_shell_gets_what_memcached_would_say() {
    if !there("nc") {
        return skipped("nc is not there: install Debian's package netcat-openbsd");
    }
    let both = Both::start(&[]);
    let sessions = [
        // Ended by the client, or by both.
        r"set a 5 0 3\r\nabc\r\nget a\r\nget b\r\nquit\r\n",
        r"set a 5 0 3\r\nabc\r\nget a a b\r\ngets b\r\n",
        r"set n 0 0 1\r\n7\r\nincr n 5\r\ndecr n 1\r\nincr a 1\r\ndelete n\r\ndelete n\r\n",
        r"add a 0 0 1\r\nx\r\nreplace a 0 0 1\r\ny\r\nappend a 0 0 1\r\nz\r\nprepend a 0 0 1\r\nx\r\nget a\r\n",
        r"set a 0 0 1 noreply\r\nx\r\nget a\r\nflush_all noreply\r\nget a\r\n",
        // By itself, and badly.
        r"get\r\n",
        r"nonsense\r\nget a\r\n",
        r"set a 0 0 x\r\nget a\r\n",
        r"set a 0 0 3\r\nabcdef\r\nget a\r\n",
        r"set a 0 0 -1\r\nget a\r\n",
        r"\r\n",
        r"get a\n",
        // In the middle of something.
        r"get a",
        r"set a 0 0 100\r\nabc",
    ];
    for text in sessions {
        both.compare(text, |address| piped(address, text, "", "-N"));
        // Byte by byte, as far as a pipe can tell.
        both.compare(text, |address| piped(address, text, "| dd bs=1 status=none", "-N"));
    }
    // `quit` is answered with the end, without any word of the client's own.
    both.compare("quit", |address| piped(address, r"set b 0 0 1\r\nx\r\nquit\r\n", "", ""));
    both.end("a b n");
}

#[test]
fn what_asks_for_no_reply_is_done_although_the_client_has_gone() {
    if !there("nc") {
        return skipped("nc is not there: install Debian's package netcat-openbsd");
    }
    let both = Both::start(&[]);
    both.compare("noreply, then gone", |address| {
        let text = r"set a 0 0 1 noreply\r\nx\r\nset b 0 0 1 noreply\r\ny\r\nincr n 1 noreply\r\n";
        let said = piped(address, text, "", "-q 0");
        let mut peer = support::peer::Peer::connect(address);
        let mut get = || {
            peer.send(b"get a b\r\n").unwrap();
            let mut said = String::new();
            while !said.ends_with("END\r\n") {
                said += &String::from_utf8(peer.line().unwrap()).unwrap();
            }
            said
        };
        until("both are stored", || get().len() > 30);
        said + &get()
    });
    both.end("a b n");
}

/// Each operation of the sessions above in one row, so that none is forgotten: how often the proxy
/// saw it.
#[test]
fn the_sessions_of_pymemcache_are_made_of_every_operation() {
    let Some(python) = python() else {
        return skipped("no Python has pymemcache; `scripts/python-clients target/python-clients` makes one");
    };
    let server = Program::memcached(&[]);
    let proxy = Program::proxy(&[server.address()], &["--json"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/pymemcache_session.py");
    let port = proxy.address().port().to_string();
    assert!(Command::new(python).arg(script).arg(port).output().unwrap().status.success());
    let summary = proxy.stop().json();
    let seen: BTreeMap<String, u64> = summary["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["operation"].as_str().unwrap().to_owned(), line["count"].as_u64().unwrap()))
        .collect();
    for operation in krarup_record::Operation::ALL.iter().filter(|operation| !operation.is_of_queue()) {
        assert!(seen.get(operation.name()).is_some_and(|&count| count > 0), "{operation:?} in {seen:?}");
    }
}
