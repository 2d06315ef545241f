//! A random walk over configurations of the running program: every setting that a reload may change
//! is drawn anew from a seed, forty times, while clients ask. Each request is answered once, with
//! what was stored, and in the end all servers hold the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::peer::{Peer, asked, listen};
use crate::support::process::{Port, Program};
use crate::support::{Progress, TOO_LONG, certificate, file, fresh};
use krarup_proxy::config::PoolConfig;
use krarup_proxy::{Config, Edge};
use krarup_settings::SettingsTable;
use rustix::process::Signal;

const RELOADS: usize = 40;
const CLIENTS: usize = 4;
/// Keys of one client, which no other asks for.
const OWN: usize = 8;

/// Numbers from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % most as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Says so when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What there is to choose from.
struct Scene {
    servers: Vec<SocketAddr>,
    listen: [Port; 2],
    admin: [Port; 2],
    users: String,
    /// Whether a key stays where it is, so that every answer is known.
    stays: bool,
}

/// One of these, or nothing: the default then holds.
fn maybe(draw: &mut Draw, all: &[&str]) -> Option<String> {
    let chosen = draw.below(all.len() + 1);
    all.get(chosen).map(|text| (*text).to_owned())
}

/// What stands behind one of the keys at the top level of the file or under `[edge]`; nothing where
/// it is left out.
///
/// # Panics
/// Where it is not known how to draw it: every setting that is added is either drawn here, or named
/// with the reason why it cannot be.
fn setting(key: &str, draw: &mut Draw, scene: &Scene) -> Option<String> {
    let quoted = |text: &str| format!("{text:?}");
    match key {
        // These take a restart.
        "threads" => Some("2".into()),
        "server_connections" | "dedicated" | "engine" | "reuse_port" => None,
        // The servers here speak none.
        "server_tls" => None,
        // Tables, drawn key by key.
        "pools" | "routes" | "edge" => None,
        "default_pool" => maybe(draw, &["\"main\""]),
        "workers" => maybe(draw, &["1", "3", "64", "\"unlimited\"", "\"auto\""]),
        "queue" => maybe(draw, &["1", "7", "1000"]),
        "pipeline" => maybe(draw, &["1", "3", "1000"]),
        "reply_buffer" => maybe(draw, &["4096", "\"64KiB\""]),
        "max_value" => maybe(draw, &["20000", "150000", "\"1MiB\""]),
        "max_connections" => maybe(draw, &["100", "1000"]),
        "timeout" | "connect_timeout" => {
            maybe(draw, &["\"60s\"", "\"100s\"", "\"1h\""]).or(Some("\"50s\"".into()))
        }
        "reconnect_after" => maybe(draw, &["\"1ms\"", "\"50ms\""]),
        "reconnect_at_most" => maybe(draw, &["\"60ms\"", "\"1s\""]),
        "hot_keys" => maybe(draw, &["\"digest\"", "\"name\"", "\"off\""]),
        "slow_requests" => maybe(draw, &["0", "1", "100"]),
        "resolve_every" => maybe(draw, &["0", "\"10ms\"", "\"1h\""]),
        // Sooner, it would be read by itself while it is written.
        "reload_every" => maybe(draw, &["0", "\"1h\""]),
        "eject_after" => maybe(draw, &["1", "5"]),
        "eject_for" | "return_over" => maybe(draw, &["0", "\"10ms\"", "\"1h\""]),
        // At the end the proxy is stopped before its clients leave.
        "drain" => maybe(draw, &["0", "\"10ms\""]),
        "shutdown_limit" => maybe(draw, &["\"10s\"", "\"1h\""]).or(Some("\"60s\"".into())),
        "hold" => maybe(draw, &["0", "\"50us\"", "\"10ms\""]),
        "headroom_target" => maybe(draw, &["\"p99 < 8ms\"", "\"p50 < 1s\""]),
        "link" => maybe(draw, &["\"10Gbit/s\"", "\"100Mbit/s\""]),
        "redline_lock" => maybe(draw, &["\"redline-1\"", "\"redline-2\""]),
        "admin" => Some(quoted(&scene.admin[draw.below(2)].address().to_string())),
        "allow" => maybe(draw, &["[]", "[\"flush_all\", \"verbosity\"]"]),
        "users" | "server_login" => maybe(draw, &[&quoted(&scene.users)]),
        "tls" => {
            let (shown, key) =
                (certificate(draw.of(&["proxy.pem", "expired.pem"])), certificate("proxy.key"));
            maybe(draw, &[&format!("{{ certificate = {shown:?}, key = {key:?} }}")])
        }
        "socket_mode" => maybe(draw, &["\"600\""]),
        // True excludes `server_login`.
        "server_stats" => maybe(draw, &["false"]),
        "backlog" => maybe(draw, &["1", "4096"]),
        "keep_alive" => maybe(draw, &["0", "\"1s\""]),
        "idle_timeout" | "request_timeout" | "login_timeout" => maybe(draw, &["0", "\"5m\"", "\"1h\""]),
        "max_unauthenticated" => maybe(draw, &["10", "1000"]),
        "memory" => maybe(draw, &["\"32MiB\"", "\"64MiB\""]),
        _ => panic!("how is `{key}` drawn? Each setting is walked over, or it is said here why it cannot be"),
    }
}

/// The same for one of a pool's keys.
fn pool_setting(key: &str, pool: &str, draw: &mut Draw, scene: &Scene) -> Option<String> {
    let (main, stays) = (pool == "main", scene.stays);
    match key {
        "listen" if main => Some(format!("\"{}\"", scene.listen[draw.below(2)].address())),
        "listen" => maybe(draw, &["\"127.0.0.1:0\""]),
        "servers" => {
            let mut all: Vec<_> = scene.servers.iter().map(|server| format!("\"{server}\"")).collect();
            let some = if stays {
                // The last one is that of all other clients.
                if main { all[..2].to_vec() } else { all[2..].to_vec() }
            } else {
                let count = 1 + draw.below(all.len());
                (0..count).map(|_| all.swap_remove(draw.below(all.len()))).collect()
            };
            Some(format!("[{}]", some.join(", ")))
        }
        "distribution" if stays && main => None,
        "distribution" => maybe(
            draw,
            &["\"ketama\"", "\"rendezvous\"", "\"jump\"", "\"modulo\"", "\"ch3\"", "\"consistent\""],
        ),
        "hash" => maybe(draw, &["\"md5\"", "\"xxh3\"", "\"crc32\""]),
        "hash_tag" => maybe(draw, &["\"{}\""]),
        "replicas" => maybe(draw, &["1", "\"half\"", "\"all\""]),
        "writes" => maybe(draw, &["\"all\"", "\"quorum\"", "\"first\"", "\"async\""]),
        "reads" => maybe(
            draw,
            &["\"least_work\"", "\"least_outstanding\"", "\"two_choices\"", "\"round_robin\"", "\"primary\""],
        ),
        "multi_get" => maybe(draw, &["\"whole\"", "\"sharded\""]),
        "when_down" => maybe(draw, &["\"error\"", "\"next\""]),
        "gutter" | "shadow" if main => maybe(draw, &["\"spare\""]),
        // What is not found must not be found elsewhere, from before.
        "warm_from" if main && !stays => maybe(draw, &["\"spare\""]),
        "gutter" | "shadow" | "warm_from" => None,
        "gutter_ttl" | "warm_ttl" | "refill_ttl" | "ttl_cap" => maybe(draw, &["\"1h\"", "\"24h\""]),
        "fall_back" => maybe(draw, &["[\"error\"]", "[\"miss\"]", "[\"error\", \"miss\"]"]),
        "retry_budget" | "hedge_budget" | "shadow_share" | "hedge_after" => {
            maybe(draw, &["0.0", "0.5", "1.0"])
        }
        "eject_slower" => maybe(draw, &["1.5", "3.0"]),
        "coalesce" => maybe(draw, &["true", "false"]),
        "rate" => maybe(draw, &["1e9", if stays { "1e8" } else { "2000" }]),
        "concurrency" => maybe(draw, &["100000", if stays { "90000" } else { "2" }]),
        // They are those of one loop, and here are two.
        "readers" => None,
        _ => panic!(
            "how is a pool's `{key}` drawn? Each setting is walked over, or it is said here why it cannot be"
        ),
    }
}

/// The keys of the proxy; `listen` is drawn with those of its pool.
fn proxy_keys() -> impl Iterator<Item = &'static str> {
    Config::keys().filter(|key| *key != "listen")
}

/// Another configuration, and what it says about clients that connect.
fn configuration(draw: &mut Draw, scene: &Scene) -> String {
    let mut text = String::new();
    let mut write = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            writeln!(text, "{key} = {value}").unwrap();
        }
    };
    proxy_keys().for_each(|key| write(key, setting(key, draw, scene)));
    PoolConfig::keys().for_each(|key| write(key, pool_setting(key, "main", draw, scene)));
    text.push_str("[edge]\n");
    let mut write = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            writeln!(text, "{key} = {value}").unwrap();
        }
    };
    Edge::keys().for_each(|key| write(key, setting(key, draw, scene)));
    text.push_str("[pools.spare]\n");
    for key in PoolConfig::keys() {
        if let Some(value) = pool_setting(key, "spare", draw, scene) {
            writeln!(text, "{key} = {value}").unwrap();
        }
    }
    // No client asks for keys that begin so, where keys stay.
    let prefix = if scene.stays { "unused:" } else { "1:" };
    if let Some(prefix) = maybe(draw, &[prefix]) {
        let (strip, add) = (draw.of(&["true", "false"]), draw.of(&["r/", "s/"]));
        writeln!(
            text,
            "[[routes]]\nprefix = \"{prefix}\"\npool = \"spare\"\nstrip = {strip}\nadd = \"{add}\""
        )
        .unwrap();
    }
    let read = Config::parse(&text, "drawn").and_then(|config| config.check());
    assert_eq!(read, Ok(()), "{text}");
    text
}

/// The only value of this version of a key.
fn value(key: &str, version: usize) -> String {
    let mut draw = Draw(version as u64);
    let length = [30, 30, 30, 1, 200, 200, 1_000, 1_000, 1_000, 30_000, 140_000, 300_000][draw.below(12)];
    let mut text = format!("{key}={version}|");
    text.extend(std::iter::repeat_n('v', length));
    text
}

/// Who asks, and knows what it must be told.
struct Client {
    number: usize,
    draw: Draw,
    stream: BufReader<TcpStream>,
    /// The version of each key that is stored.
    stored: BTreeMap<String, usize>,
    versions: usize,
    /// What the last `gets` of it said.
    uniques: BTreeMap<String, String>,
    stays: bool,
    found: usize,
}

enum Request {
    Get(Vec<String>),
    Gets(String),
    Meta(String),
    /// A write of this version, the answer of one that is done, and whether a value that is too
    /// large takes the old one with it.
    Write {
        key: String,
        version: usize,
        done: &'static str,
        removes: bool,
    },
    Delete(String),
}

const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

impl Client {
    fn new(number: usize, address: SocketAddr, seed: usize, stays: bool) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TOO_LONG)).unwrap();
        stream.set_write_timeout(Some(TOO_LONG)).unwrap();
        let draw = Draw((seed * CLIENTS + number) as u64);
        let (stored, uniques) = (BTreeMap::new(), BTreeMap::new());
        Self { number, draw, stream: BufReader::new(stream), stored, versions: 0, uniques, stays, found: 0 }
    }

    fn key(&self, place: usize) -> String {
        format!("{}:{place}", self.number)
    }

    /// Some requests together, each key in one of them, because reads do not wait for writes
    /// everywhere; how many.
    fn round(&mut self) -> usize {
        let mut keys: Vec<String> = (0..OWN).map(|place| self.key(place)).collect();
        let (mut text, mut asked) = (String::new(), Vec::new());
        while !keys.is_empty() && (asked.is_empty() || self.draw.below(8) > 0) {
            let key = keys.swap_remove(self.draw.below(keys.len()));
            let request = self.request(key, &mut keys, &mut text);
            asked.push(request);
        }
        let mut stream = self.stream.get_ref().try_clone().unwrap();
        std::thread::scope(|scope| {
            // A client that has many replies to read is not read from until it reads them.
            let sending = scope.spawn(move || stream.write_all(text.as_bytes()).unwrap());
            asked.iter().for_each(|request| self.check(request));
            sending.join().unwrap();
        });
        asked.len()
    }

    fn request(&mut self, key: String, others: &mut Vec<String>, text: &mut String) -> Request {
        let what = self.draw.below(9);
        if what >= 5 {
            self.versions += 1;
        }
        let version = self.versions;
        let data = value(&key, version);
        let length = data.len();
        match what {
            0 | 1 => {
                let mut keys = vec![key];
                keys.extend(others.pop().filter(|_| what == 1));
                *text += &format!("get {}\r\n", keys.join(" "));
                Request::Get(keys)
            }
            2 => {
                *text += &format!("gets {key}\r\n");
                Request::Gets(key)
            }
            3 => {
                *text += &format!("mg {key} v\r\n");
                Request::Meta(key)
            }
            4 => {
                *text += &format!("delete {key}\r\n");
                Request::Delete(key)
            }
            5 => {
                *text += &format!("ms {key} {length}\r\n{data}\r\n");
                Request::Write { key, version, done: "HD", removes: true }
            }
            6 if self.uniques.contains_key(&key) => {
                *text += &format!("cas {key} 0 0 {length} {}\r\n{data}\r\n", self.uniques[&key]);
                Request::Write { key, version, done: "STORED", removes: false }
            }
            _ => {
                *text += &format!("set {key} 0 0 {length}\r\n{data}\r\n");
                Request::Write { key, version, done: "STORED", removes: true }
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("no line: {line:?}")).to_owned()
    }

    /// A value that was stored under this key, and stands there.
    fn data(&mut self, key: &str, length: &str) {
        let mut data = vec![0; length.parse::<usize>().unwrap() + 2];
        self.stream.read_exact(&mut data).unwrap();
        let data = String::from_utf8(data).unwrap();
        let version = data.split_once(['=', '|']).and_then(|(_, rest)| rest.split('|').next()?.parse().ok());
        let version: usize = version.unwrap_or_else(|| panic!("what is under {key}: {:.60}", data));
        assert!(data == value(key, version) + "\r\n", "what is under {key}: {data:.60}");
        if self.stays {
            assert_eq!(self.stored.get(key), Some(&version), "{key}");
        }
        self.found += 1;
    }

    /// That a key is not there.
    fn missed(&self, key: &str) {
        assert!(!self.stays || !self.stored.contains_key(key), "{key} is lost");
    }

    /// Whether the answer is an error that there may be.
    fn is_error(&self, line: &str) -> bool {
        let error = line.starts_with("SERVER_ERROR ");
        assert!(!error || !self.stays, "{line}");
        error
    }

    fn check(&mut self, request: &Request) {
        match request {
            Request::Get(keys) => self.values(keys),
            Request::Gets(key) => self.values(std::slice::from_ref(key)),
            Request::Meta(key) => {
                let line = self.line();
                match line.strip_prefix("VA ") {
                    Some(length) => self.data(key, length),
                    None if self.is_error(&line) => {}
                    None => {
                        assert_eq!(line, "EN");
                        self.missed(key);
                    }
                }
            }
            Request::Delete(key) => {
                let line = self.line();
                if !self.is_error(&line) {
                    let known = self.stored.contains_key(key);
                    assert!(
                        line == if known { "DELETED" } else { "NOT_FOUND" } || !self.stays,
                        "{key}: {line}"
                    );
                }
                self.forget(key);
            }
            Request::Write { key, version, done, removes } => {
                let line = self.line();
                if line == *done {
                    self.forget(key);
                    self.stored.insert(key.clone(), *version);
                } else if line == TOO_LARGE {
                    assert!(value(key, *version).len() > 20_000, "{line}");
                    if *removes {
                        self.forget(key);
                    }
                } else {
                    let may = self.is_error(&line)
                        || (!self.stays && ["EXISTS", "NOT_FOUND", "NF", "EX"].contains(&&*line));
                    assert!(may, "{key}: {line}");
                    self.forget(key);
                }
            }
        }
    }

    fn forget(&mut self, key: &str) {
        self.stored.remove(key);
        self.uniques.remove(key);
    }

    fn values(&mut self, keys: &[String]) {
        let mut keys = keys.iter();
        loop {
            let line = self.line();
            if line == "END" || self.is_error(&line) {
                break;
            }
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[0], "VALUE", "{line}");
            let key = loop {
                let key = keys.next().unwrap_or_else(|| panic!("a value that was not asked for: {line}"));
                if key == words[1] {
                    break key.clone();
                }
                self.missed(key);
            };
            self.data(&key, words[3]);
            if let Some(unique) = words.get(4) {
                self.uniques.insert(key, (*unique).to_owned());
            }
        }
        if self.stays {
            keys.for_each(|key| self.missed(key));
        }
    }

    /// All its keys once more, so that everything before has been done; what they hold now.
    fn last(&mut self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for place in 0..OWN {
            let (key, data) = (self.key(place), format!("last {place}"));
            let text = format!("set {key} 0 0 {}\r\n{data}\r\n", data.len());
            self.stream.get_mut().write_all(text.as_bytes()).unwrap();
            assert_eq!(self.line(), "STORED");
            all.push((key, data));
        }
        all
    }
}

/// Has the file read again, by a signal or a request in turn, and waits until it holds.
fn reload(proxy: &mut Program, path: &str, text: &str, admin: Option<SocketAddr>) {
    std::fs::write(path, text).unwrap();
    match admin {
        None => proxy.signal(Signal::HUP),
        Some(admin) => {
            let told = asked(admin, "POST", "/reload");
            assert!(told.starts_with("HTTP/1.1 200"), "{told}\n{text}");
        }
    }
    let refused = proxy.says(|line| match line {
        _ if line.contains("is not taken over") => Some(true),
        _ => line.contains("holds from now on").then_some(false),
    });
    assert!(!refused, "{proxy:?}\n{text}");
}

/// What the configuration says under this key at the top level.
fn address(text: &str, key: &str) -> SocketAddr {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).unwrap();
    line.trim_matches('"').parse().unwrap()
}

/// A client that connects now is met as the configuration says.
fn a_client_comes(text: &str, stays: bool) {
    let mut peer = Peer::connect(address(text, "listen"));
    if text.lines().any(|line| line.starts_with("tls = ")) {
        // Plain bytes are no greeting.
        peer.send(b"version\r\n").unwrap();
        assert!(!peer.rest().starts_with(b"VERSION"));
        return;
    }
    if text.lines().any(|line| line.starts_with("users = ")) {
        peer.send(b"version\r\n").unwrap();
        peer.expect(b"CLIENT_ERROR unauthenticated\r\n").unwrap();
        peer.send(b"set x 0 0 11\r\nanna secret\r\n").unwrap();
        peer.expect(b"STORED\r\n").unwrap();
    }
    peer.send(b"version\r\nverbosity 0\r\n").unwrap();
    peer.expect(b"VERSION ").unwrap();
    peer.line().unwrap();
    if !stays {
        // There may be more requests than are taken.
        return;
    }
    let allowed = text.lines().any(|line| line.starts_with("allow = [\""));
    peer.expect(if allowed { &b"OK\r\n"[..] } else { b"CLIENT_ERROR verbosity is not allowed" }).unwrap();
}

fn walk(seed: usize, stays: bool) {
    let servers: Vec<_> = (0..3).map(|_| Program::memcached(&["-m", "256"])).collect();
    let scene = Scene {
        servers: servers.iter().map(Program::address).collect(),
        listen: [Port::new(), Port::new()],
        admin: [Port::new(), Port::new()],
        users: file(&format!("reload-users-{seed}"), "anna:secret\n"),
        stays,
    };
    let mut draw = Draw(seed as u64);
    // The clients of the walk connect before any client has to log in.
    let names: Vec<_> = scene.servers.iter().map(|server| format!("\"{server}\"")).collect();
    let plain = format!(
        "threads = 2\nlisten = \"{}\"\nadmin = \"{}\"\ntimeout = \"50s\"\nservers = [{}]\n",
        scene.listen[0].address(),
        scene.admin[0].address(),
        names[..if stays { 2 } else { 3 }].join(", ")
    );
    let path = file(&format!("reload-walk-{seed}"), &plain);
    let mut proxy = Program::begin(&["proxy", "--config", &path]);
    proxy.says_text("listening on ");
    let (done, answered) = (AtomicBool::new(false), Progress::default());
    let mut text = plain.clone();
    let clients: Vec<Client> = std::thread::scope(|scope| {
        let (done, answered) = (&done, &answered);
        let asking: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut client = Client::new(number, address(&text, "listen"), seed, stays);
                scope.spawn(move || {
                    let _advances = answered.advances();
                    while !done.load(Ordering::Relaxed) {
                        answered.add(client.round());
                    }
                    client
                })
            })
            .collect();
        // Also where the walk fails: the clients would ask for ever.
        let ends = Ends(done);
        for round in 0..RELOADS {
            let before = answered.count();
            let admin = address(&text, "admin");
            text = configuration(&mut draw, &scene);
            reload(&mut proxy, &path, &text, (round % 2 == 0).then_some(admin));
            a_client_comes(&text, stays);
            if !answered.reaches(before + 50) {
                break;
            }
        }
        reload(&mut proxy, &path, &plain, None);
        drop(ends);
        asking.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let mut found = 0;
    for mut client in clients {
        found += client.found;
        for (key, data) in client.last() {
            for server in &servers[..if stays { 2 } else { 3 }] {
                let mut there = server.connect();
                there.send(format!("get {key}\r\n").as_bytes()).unwrap();
                there
                    .expect(format!("VALUE {key} 0 {}\r\n{data}\r\nEND\r\n", data.len()).as_bytes())
                    .unwrap();
            }
        }
    }
    assert!(found > 100, "{found} values were found");
    let ended = proxy.stop();
    assert!(ended.success, "{ended:?}");
}

#[test]
fn every_answer_is_known_whatever_settings_are_reloaded() {
    walk(1, true);
}

#[test]
fn every_request_is_answered_once_wherever_a_reload_puts_its_key() {
    walk(2, false);
}

#[test]
fn a_port_that_the_proxy_has_at_another_address_is_called_its_own() {
    let (server, port) = (Program::memcached(&[]), Port::new());
    let number = port.address().port();
    let text = |host: &str| format!("listen = \"{host}:{number}\"\nservers = [\"{}\"]\n", server.address());
    let path = file("reload-own-port", &text("127.0.0.1"));
    let mut proxy = Program::begin(&["proxy", "--config", &path]);
    proxy.says_text("listening on ");
    std::fs::write(&path, text("0.0.0.0")).unwrap();
    proxy.signal(Signal::HUP);
    proxy.says_text(&format!("this proxy itself has the port, at 127.0.0.1:{number}"));
    assert!(proxy.stop().success);
}

#[test]
fn a_reload_that_is_asked_for_while_the_proxy_starts_is_done_when_it_has_started() {
    let server = Program::memcached(&[]);
    let pipe = fresh("reload-early-pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = format!("listen = \"127.0.0.1:0\"\nservers = [\"{}\"]\n", server.address());
    let mut proxy = Program::begin(&["proxy", "--config", pipe.to_str().unwrap()]);
    // It is there when the proxy has opened its end, and waits for what it is to read.
    let mut file = std::fs::File::options().write(true).open(&pipe).unwrap();
    proxy.signal(Signal::HUP);
    // What it reads later is a plain file.
    std::fs::remove_file(&pipe).unwrap();
    std::fs::write(&pipe, format!("{text}timeout = \"2s\"\n")).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    drop(file);
    // Its server may be there before the configuration is read, or after.
    let mut missing = vec!["listening on ", "holds from now on"];
    proxy.says(|line| {
        missing.retain(|text| !line.contains(text));
        missing.is_empty().then_some(())
    });
    assert!(proxy.stop().success);
}

#[test]
fn a_reload_tries_its_servers_with_the_tls_that_it_brings() {
    let [shown, key] = ["proxy.pem", "proxy.key"].map(certificate);
    let encrypted = || {
        let listen = ["cache", "--listen", "127.0.0.1:0"];
        Program::krarup(&[&listen[..], &["--tls-certificate", &shown, "--tls-key", &key]].concat())
    };
    let (plain, trusted, untrusted) = (Program::memcached(&[]), encrypted(), encrypted());
    let text = |server: &Program, edge: &str| {
        let common = "threads = 2\nlisten = \"127.0.0.1:0\"\nconnect_timeout = \"10s\"\n";
        format!("{common}servers = [\"{}\"]\n{edge}", server.address())
    };
    let path = file("reload-tls", &text(&plain, ""));
    let mut proxy = Program::begin(&["proxy", "--config", &path]).listening();
    for (server, authority, up) in [(&trusted, "authority.pem", true), (&untrusted, "stranger.pem", false)] {
        let edge = format!("[edge]\nserver_tls = {{ authorities = {:?} }}\n", certificate(authority));
        std::fs::write(&path, text(server, &edge)).unwrap();
        proxy.signal(Signal::HUP);
        let mut down = false;
        proxy.says(|line| {
            down |= line.contains("is down");
            line.contains("holds from now on").then_some(())
        });
        assert!(!(up && down), "{proxy:?}");
        // One at each event loop.
        for client in &mut [(); 2].map(|()| proxy.connect()) {
            client.send(b"get x\r\n").unwrap();
            client.expect(if up { &b"END\r\n"[..] } else { b"SERVER_ERROR " }).unwrap();
        }
    }
    assert!(proxy.stop().success);
}

/// As at the start; not of what was so before.
#[test]
fn a_reload_warns_of_what_it_brings() {
    let text = |gutter: &str, timeout: u32| {
        format!(
            "listen = \"127.0.0.1:0\"\ntimeout = \"{timeout}s\"\n\
             [pools.a]\nservers = [\"127.0.0.1:1\"]\n{gutter}\
             [pools.b]\nlisten = \"127.0.0.1:0\"\nservers = [\"127.0.0.1:2\"]\n{gutter}\
             [pools.spare]\nservers = [\"127.0.0.1:3\"]\n"
        )
    };
    let path = file("reload-warns", &text("", 1));
    let mut proxy = Program::begin(&["proxy", "--config", &path]);
    proxy.says_text("listening on ");
    for (timeout, expected) in [(2, true), (3, false)] {
        std::fs::write(&path, text("gutter = \"spare\"\n", timeout)).unwrap();
        proxy.signal(Signal::HUP);
        let mut warned = false;
        proxy.says(|line| {
            warned |= line.contains("keep what they have in spare under the same keys");
            line.contains("holds from now on").then_some(())
        });
        assert_eq!(warned, expected, "{proxy:?}");
    }
    assert!(proxy.stop().success);
}

#[test]
fn a_socket_that_stays_gets_the_permissions_that_are_reloaded() {
    let server = Program::memcached(&[]);
    let socket = fresh("reload-mode.sock");
    let text = |edge: &str| {
        let listen = format!("listen = \"unix:{}\"\n", socket.display());
        format!("{listen}servers = [\"{}\"]\n[edge]\n{edge}", server.address())
    };
    let path = file("reload-mode", &text("socket_mode = \"0600\"\n"));
    let mut proxy = Program::begin(&["proxy", "--config", &path]);
    proxy.says_text("listening on ");
    reload(&mut proxy, &path, &text("socket_mode = \"0660\"\n"), None);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    for (edge, said) in [
        ("", "`edge.socket_mode` is not given any more"),
        ("socket_mode = \"0660\"\nreuse_port = true\n", "`edge.reuse_port` is true, and false runs"),
    ] {
        std::fs::write(&path, text(edge)).unwrap();
        proxy.signal(Signal::HUP);
        proxy.says_text(said);
    }
    assert!(proxy.stop().success);
}

/// The second comes while the first waits for a server that accepts connections and says nothing.
#[test]
fn a_socket_that_a_reload_has_opened_gets_the_permissions_of_the_one_that_holds() {
    let (server, silent) = (Program::memcached(&[]), listen());
    let socket = fresh("reload-opened.sock");
    let text = |more: &str, mode: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nconnect_timeout = \"10m\"\nservers = [\"{}\"{more}]\n\
             [pools.own]\nlisten = \"unix:{}\"\nservers = [\"{0}\"]\n[edge]\nsocket_mode = \"{mode}\"\n",
            server.address(),
            socket.display()
        )
    };
    let has = || std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    let alone = format!("listen = \"127.0.0.1:0\"\nservers = [\"{}\"]\n", server.address());
    let path = file("reload-opened", &format!("{alone}[edge]\nsocket_mode = \"0600\"\n"));
    let mut proxy = Program::begin(&["proxy", "--config", &path]);
    proxy.says_text("listening on ");
    std::fs::write(&path, text(&format!(", \"{}\"", silent.local_addr().unwrap()), "0666")).unwrap();
    proxy.signal(Signal::HUP);
    let _held = Peer::accept(&silent).unwrap();
    assert_eq!(has(), 0o666);
    // What its mode would be is known only of a socket that is made.
    let without = text("", "0600").replace("socket_mode = \"0600\"\n", "");
    std::fs::write(&path, without).unwrap();
    proxy.signal(Signal::HUP);
    proxy.says_text("`edge.socket_mode` is not given any more");
    reload(&mut proxy, &path, &text("", "0600"), None);
    assert_eq!(has(), 0o600);
    assert!(proxy.stop().success);
}

/// Other users hold for those that connect from then on.
#[test]
fn a_reload_that_asks_for_a_login_says_that_clients_that_are_connected_stay() {
    let server = Program::memcached(&[]);
    let text = format!("listen = \"127.0.0.1:0\"\nservers = [\"{}\"]\n", server.address());
    let path = file("reload-stay", &text);
    let mut proxy = Program::begin(&["proxy", "--config", &path]).listening();
    let mut client = proxy.connect();
    client.send(b"get x\r\n").unwrap();
    client.expect(b"END\r\n").unwrap();
    let users = file("reload-stay-users", "anna:secret\n");
    std::fs::write(&path, format!("{text}[edge]\nusers = {users:?}\n")).unwrap();
    proxy.signal(Signal::HUP);
    proxy.says_text("1 clients that are connected stay as they came");
    proxy.says_text("holds from now on");
    let mut other = proxy.connect();
    for (client, reply) in [(&mut client, "END\r\n"), (&mut other, "CLIENT_ERROR unauthenticated\r\n")] {
        client.send(b"get x\r\n").unwrap();
        client.expect(reply.as_bytes()).unwrap();
    }
    assert!(proxy.stop().success);
}

/// Each setting is drawn: it has more than one value in the course of a walk, or it is known why
/// not.
#[test]
fn every_setting_is_walked_over() {
    let scene = Scene {
        servers: (1..4).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect(),
        listen: [Port::new(), Port::new()],
        admin: [Port::new(), Port::new()],
        users: "users".into(),
        stays: false,
    };
    let mut draw = Draw(1);
    let texts: Vec<_> = (0..RELOADS).map(|_| configuration(&mut draw, &scene)).collect();
    for key in proxy_keys().chain(PoolConfig::keys()).chain(Edge::keys()) {
        let values: BTreeSet<_> = texts
            .iter()
            .map(|text| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")))
            .collect();
        let fixed =
            ["threads", "server_connections", "dedicated", "engine", "server_tls", "reuse_port", "readers"];
        let table = ["pools", "routes", "edge"].contains(&key);
        assert_eq!(values.len() > 1, !fixed.contains(&key) && !table, "{key}: {values:?}");
    }
}
