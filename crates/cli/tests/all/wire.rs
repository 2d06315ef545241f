//! Dialogues: the built proxy between scripted clients and scripted servers, byte for byte.
//!
//! Each file in `tests/wire/` is one dialogue. Its lines are carried out one after the other;
//! nothing sleeps and no side runs ahead: a server answers when the file says so, and a slow one is
//! one whose answer stands further down.
//!
//! ```text
//! ! servers 2              how many scripted servers there are; the first line that is no comment
//! ! flags -s true          more flags for the proxy (before the first dialogue line)
//! ! config timeout = 1     a line of its configuration file (likewise)
//!
//! > get a                  the client sends, in one write
//! 1< get a                 server 1 receives exactly this, next
//! 1> VALUE a 5 1           server 1 answers, in one write
//! 1> x
//! 1> END
//! < VALUE a 5 1            the client receives exactly this, next
//! < x
//! < END
//! b> get b                 another client; each letter is one, and connects when it is first named
//! *< set a 0 0 1           all servers receive this; likewise `*>`
//! # a comment
//! ```
//!
//! Every line of bytes ends with CR LF, unless its last character is `\`. Escapes: `\r` `\n` `\t`
//! `\0` `\\` `\xHH`; `\1` to `\9` is the address of that server as the proxy names it;
//! `\{text*1000}` is the text so many times; `\?` in what is received is any text up to the rest of
//! the line.
//!
//! ```text
//! ! settle                 all that was sent so far has been read by the proxy: another client makes a round trip
//! ! quiet 1                … and nothing has come to server 1 (or client b)
//! ! close 1                server 1 (or client b) closes its connection
//! ! reset 1                … with a reset
//! ! finish b               client b will send no more, but still reads
//! ! closed b               client b (or server 1) finds the end of its connection
//! ! accept 1               the proxy connects to server 1 again and is greeted
//! ! mute 1                 … and is not greeted
//! ! down 1                 no program listens at server 1's address any more; before the dialogue: from the start
//! ! up 1                   a program listens there again
//! ! stop                   the proxy is asked to end
//! ```
//!
//! At the end the proxy is stopped. Whatever any peer has received beyond its lines is an error,
//! and so is a proxy that does not end well. `WIRE=name cargo test --test all wire::` runs the
//! files whose name holds `name`.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;

use crate::support::peer::{Peer, greet, listen_at};
use crate::support::process::{Port, Program};
use crate::support::shown;

/// One end of a dialogue: a client by its letter, a server by its number from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Client(char),
    Server(usize),
}

/// One line of a dialogue.
#[derive(Debug)]
enum Step {
    Send(Vec<Who>, String),
    Receive(Vec<Who>, String),
    Do(String, Option<Who>),
}

/// A file, read.
struct Dialogue {
    servers: usize,
    flags: Vec<String>,
    config: String,
    down: Vec<usize>,
    /// With the number of its line, counted from one.
    steps: Vec<(usize, Step)>,
}

impl Dialogue {
    fn read(text: &str) -> Result<Self, String> {
        let mut dialogue = Self {
            servers: 0,
            flags: Vec::new(),
            config: String::new(),
            down: Vec::new(),
            steps: Vec::new(),
        };
        for (number, line) in (1..).zip(text.lines()) {
            dialogue.line(number, line).map_err(|why| format!("line {number}: {why}\n  {line}"))?;
        }
        if dialogue.steps.is_empty() { Err("nothing happens".to_owned()) } else { Ok(dialogue) }
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(directive) = line.strip_prefix("! ") {
            return self.directive(number, directive.trim());
        }
        let at = line.find(['<', '>']).ok_or("neither a comment nor a directive nor a line of bytes")?;
        let who = match &line[..at] {
            "" => vec![Who::Client('a')],
            "*" => (1..=self.servers).map(Who::Server).collect(),
            name => vec![self.who(name)?],
        };
        let bytes = &line[at + 1..];
        let bytes = bytes.strip_prefix(' ').unwrap_or(bytes).to_owned();
        let step =
            if line[at..].starts_with('>') { Step::Send(who, bytes) } else { Step::Receive(who, bytes) };
        self.steps.push((number, step));
        Ok(())
    }

    fn directive(&mut self, number: usize, directive: &str) -> Result<(), String> {
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let early = self.steps.is_empty();
        match word {
            "servers" if early => self.servers = rest.parse().map_err(|_| "no number of servers")?,
            "flags" if early => self.flags.extend(rest.split_whitespace().map(str::to_owned)),
            "config" if early => self.config += &format!("{rest}\n"),
            "down" if early => match self.who(rest)? {
                Who::Server(server) => self.down.push(server),
                Who::Client(_) => return Err("only a server can be down".to_owned()),
            },
            "settle" | "stop" if rest.is_empty() => {
                self.steps.push((number, Step::Do(word.to_owned(), None)));
            }
            "quiet" | "close" | "reset" | "finish" | "closed" | "accept" | "mute" | "down" | "up" => {
                let who = self.who(rest)?;
                self.steps.push((number, Step::Do(word.to_owned(), Some(who))));
            }
            _ => return Err("no such directive, or not here".to_owned()),
        }
        Ok(())
    }

    fn who(&self, name: &str) -> Result<Who, String> {
        match (name.parse(), name.chars().next()) {
            (Ok(number), _) if (1..=self.servers).contains(&number) => Ok(Who::Server(number)),
            (Err(_), Some(letter)) if letter.is_ascii_lowercase() && name.len() == 1 => {
                Ok(Who::Client(letter))
            }
            _ => Err(format!("`{name}` is neither one of the servers nor the letter of a client")),
        }
    }
}

/// A piece of a line of bytes.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    AnyText,
}

/// The bytes a line stands for.
fn pieces(line: &str, addresses: &[SocketAddr]) -> Result<Vec<Piece>, String> {
    let mut pieces = vec![Piece::Bytes(Vec::new())];
    let mut rest = line;
    let mut end: &[u8] = b"\r\n";
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        let mut add: Vec<u8> = next.to_string().into_bytes();
        if next == '\\' {
            let Some(escape) = rest.chars().next() else {
                end = b"";
                break;
            };
            rest = &rest[escape.len_utf8()..];
            add = match escape {
                'r' => b"\r".to_vec(),
                'n' => b"\n".to_vec(),
                't' => b"\t".to_vec(),
                '0' => b"\0".to_vec(),
                '\\' => b"\\".to_vec(),
                'x' => {
                    let (digits, after) = rest.split_at_checked(2).ok_or("`\\x` takes two digits")?;
                    rest = after;
                    vec![u8::from_str_radix(digits, 16).map_err(|_| "`\\x` takes two digits")?]
                }
                '1'..='9' => {
                    let number = escape.to_digit(10).expect("a digit") as usize;
                    addresses.get(number - 1).ok_or("no such server")?.to_string().into_bytes()
                }
                '{' => {
                    let (inside, after) = rest.split_once('}').ok_or("`\\{` without `}`")?;
                    rest = after;
                    let (text, times) = inside.rsplit_once('*').ok_or("`\\{` without `*`")?;
                    text.repeat(times.parse().map_err(|_| "no number of times")?).into_bytes()
                }
                '?' => {
                    pieces.extend([Piece::AnyText, Piece::Bytes(Vec::new())]);
                    continue;
                }
                _ => return Err(format!("no escape `\\{escape}`")),
            };
        }
        let Some(Piece::Bytes(bytes)) = pieces.last_mut() else { unreachable!("bytes are last") };
        bytes.extend(add);
    }
    let Some(Piece::Bytes(bytes)) = pieces.last_mut() else { unreachable!("bytes are last") };
    bytes.extend_from_slice(end);
    Ok(pieces)
}

/// Whether a whole line is what the pieces say.
fn matches(line: &[u8], pieces: &[Piece]) -> bool {
    match pieces {
        [] => line.is_empty(),
        [Piece::Bytes(bytes), rest @ ..] => {
            line.strip_prefix(&bytes[..]).is_some_and(|line| matches(line, rest))
        }
        [Piece::AnyText, rest @ ..] => (0..=line.len()).any(|skip| matches(&line[skip..], rest)),
    }
}

/// A dialogue that is being carried out.
struct Stage {
    proxy: Option<Program>,
    address: SocketAddr,
    addresses: Vec<SocketAddr>,
    /// Also while no server listens there.
    _ports: Vec<Port>,
    listeners: Vec<Option<TcpListener>>,
    peers: BTreeMap<Who, Peer>,
    /// Makes the round trips.
    witness: Option<Peer>,
}

impl Stage {
    /// The servers listen and greet the proxy, except those that are down.
    fn set(dialogue: &Dialogue, config: &Path) -> Result<Self, String> {
        let ports: Vec<Port> = (0..dialogue.servers).map(|_| Port::new()).collect();
        let addresses: Vec<SocketAddr> = ports.iter().map(Port::address).collect();
        let mut listeners = Vec::new();
        for (server, &address) in (1..).zip(&addresses) {
            let up = !dialogue.down.contains(&server);
            listeners.push(up.then(|| listen_at(address)).transpose()?);
        }
        let servers = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut arguments = vec!["proxy", "--listen", "127.0.0.1:0", "--servers", &servers];
        arguments.extend(["--allow", "flush_all,verbosity"]);
        if !dialogue.config.is_empty() {
            fs::write(config, &dialogue.config).unwrap();
            arguments.extend(["--config", config.to_str().unwrap()]);
        }
        arguments.extend(dialogue.flags.iter().map(String::as_str));
        let mut peers = BTreeMap::new();
        // The proxy is ready when it has been greeted, so that a server must greet it before.
        let proxy = thread::scope(|scope| {
            let greetings: Vec<_> = listeners
                .iter()
                .map(|listener| listener.as_ref().map(|listener| scope.spawn(|| greet(listener))))
                .collect();
            let proxy = Program::krarup(&arguments);
            for (number, greeting) in (1..).zip(greetings) {
                if let Some(greeting) = greeting {
                    peers.insert(Who::Server(number), greeting.join().unwrap()?);
                }
            }
            Ok::<_, String>(proxy)
        })?;
        let mut witness = Peer::connect(proxy.address());
        round_trip(&mut witness)?;
        let address = proxy.address();
        let (proxy, witness) = (Some(proxy), Some(witness));
        Ok(Self { proxy, address, addresses, _ports: ports, listeners, peers, witness })
    }

    fn peer(&mut self, who: Who) -> Result<&mut Peer, String> {
        if matches!(who, Who::Client(_)) && !self.peers.contains_key(&who) {
            self.peers.insert(who, Peer::connect(self.address));
        }
        self.peers.get_mut(&who).ok_or_else(|| format!("{who:?} has no connection"))
    }

    fn settle(&mut self) -> Result<(), String> {
        self.witness.as_mut().map_or(Ok(()), round_trip)
    }

    fn carry_out(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Send(who, line) => {
                let pieces = pieces(line, &self.addresses)?;
                let [Piece::Bytes(bytes)] = &pieces[..] else { return Err("any text cannot be sent".into()) };
                who.iter().try_for_each(|&who| self.peer(who)?.send(bytes))
            }
            Step::Receive(who, line) => {
                let pieces = pieces(line, &self.addresses)?;
                who.iter().try_for_each(|&who| {
                    let name = if several_receive(step) { format!("{who:?}\n") } else { String::new() };
                    let peer = self.peer(who)?;
                    match &pieces[..] {
                        [Piece::Bytes(bytes)] => peer.expect(bytes).map_err(|why| name + &why),
                        _ => {
                            let got = peer.line()?;
                            if matches(&got, &pieces) {
                                return Ok(());
                            }
                            Err(format!("{name}  expected  {line}\n       got  {}", shown(&got)))
                        }
                    }
                })
            }
            Step::Do(word, None) if word == "settle" => self.settle(),
            Step::Do(_, None) => {
                // The witness must not be what the proxy waits for.
                self.witness = None;
                self.proxy.as_ref().expect("the proxy runs").interrupt();
                Ok(())
            }
            Step::Do(word, Some(who)) => self.act(word, *who),
        }
    }

    fn act(&mut self, word: &str, who: Who) -> Result<(), String> {
        match (word, who) {
            ("quiet", _) => {
                self.settle()?;
                match self.peer(who)?.pending() {
                    bytes if bytes.is_empty() => Ok(()),
                    bytes => Err(format!("  expected nothing\n       got  {}", shown(&bytes))),
                }
            }
            ("close", _) => {
                self.peers.remove(&who).ok_or("there is no connection to close")?;
                self.settle()
            }
            ("reset", _) => {
                self.peers.remove(&who).ok_or("there is no connection to reset")?.reset();
                self.settle()
            }
            ("finish", _) => {
                self.peer(who)?.finish();
                self.settle()
            }
            ("closed", _) => {
                let mut peer = self.peers.remove(&who).ok_or("there is no connection")?;
                match peer.rest() {
                    bytes if bytes.is_empty() => Ok(()),
                    bytes => Err(format!("  expected the end\n       got  {}", shown(&bytes))),
                }
            }
            ("accept" | "mute", Who::Server(server)) => {
                let listener = self.listeners[server - 1].as_ref().ok_or("the server is down")?;
                let peer = if word == "accept" { greet(listener)? } else { Peer::accept(listener)? };
                self.peers.insert(who, peer);
                self.settle()
            }
            ("down", Who::Server(server)) => {
                self.listeners[server - 1] = None;
                Ok(())
            }
            ("up", Who::Server(server)) => {
                let address = self.addresses[server - 1];
                self.listeners[server - 1] = Some(listen_at(address)?);
                Ok(())
            }
            _ => Err("not for a client".to_owned()),
        }
    }

    /// The proxy ends, and no client has been sent more than the file says.
    fn clear(mut self) -> Result<(), String> {
        self.witness = None;
        let proxy = self.proxy.take().expect("the proxy runs");
        proxy.interrupt();
        let mut too_much = String::new();
        // Clients first: the proxy closes its servers when no client is left.
        for (who, mut peer) in std::mem::take(&mut self.peers) {
            let rest = peer.rest();
            if !rest.is_empty() {
                too_much += &format!("\n  {who:?} also received {}", shown(&rest));
            }
        }
        let ended = proxy.ended();
        if !ended.success {
            too_much += &format!("\n  the proxy ended badly: {}", ended.errors);
        }
        if too_much.is_empty() { Ok(()) } else { Err(format!("after the last line:{too_much}")) }
    }
}

fn several_receive(step: &Step) -> bool {
    matches!(step, Step::Receive(who, _) if who.len() > 1)
}

/// The proxy answers `version` itself, and after everything that came before it.
fn round_trip(witness: &mut Peer) -> Result<(), String> {
    witness.send(b"version\r\n")?;
    witness.line().map(drop)
}

/// Carries out one file.
fn run(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).unwrap();
    let dialogue = Dialogue::read(&text)?;
    let name = path.file_stem().unwrap().to_string_lossy();
    let config = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wire-{name}.toml"));
    let mut stage = Stage::set(&dialogue, &config)?;
    for (number, step) in &dialogue.steps {
        stage.carry_out(step).map_err(|why| {
            format!("line {number}: {}\n{why}", text.lines().nth(number - 1).unwrap_or_default())
        })?;
    }
    stage.clear()
}

#[test]
fn every_dialogue_goes_as_it_is_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    let wanted = std::env::var("WIRE").unwrap_or_default();
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .filter(|path| path.file_stem().unwrap().to_string_lossy().contains(&wanted))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no dialogue is named like `{wanted}`");
    let failures: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = paths.iter().map(|path| (path, scope.spawn(|| run(path)))).collect();
        running
            .into_iter()
            .filter_map(|(path, thread)| {
                let why = thread.join().unwrap_or_else(|_| Err("it panicked, see above".to_owned())).err()?;
                Some(format!("{}, {why}", path.file_name().unwrap().to_string_lossy()))
            })
            .collect()
    });
    assert!(
        failures.is_empty(),
        "{} of {} dialogues went wrong\n\n{}\n",
        failures.len(),
        paths.len(),
        failures.join("\n\n")
    );
}

#[test]
fn escapes_stand_for_bytes() {
    let address = "127.0.0.1:7".parse().unwrap();
    let bytes = |line: &str| match &pieces(line, &[address]).unwrap()[..] {
        [Piece::Bytes(bytes)] => shown(bytes),
        other => panic!("{other:?}"),
    };
    assert_eq!(bytes(r"a\r\n\x80\\ \1 \{ab*3}\"), r"a\r\n\x80\\ 127.0.0.1:7 ababab");
    assert_eq!(bytes(""), r"\r\n");
    assert!(pieces(r"\q", &[]).is_err() && pieces(r"\2", &[address]).is_err());
    let any = pieces(r"ERROR \?: lost", &[]).unwrap();
    assert!(matches(b"ERROR x: lost\r\n", &any) && !matches(b"ERROR x: found\r\n", &any));
}

#[test]
fn a_line_that_makes_no_sense_is_named() {
    for text in
        ["get a", "! servers x", "! servers 1\n2> x", "! servers 1\n> x\n! flags -s true", "! quiet", ""]
    {
        assert!(Dialogue::read(text).is_err(), "{text:?}");
    }
}
