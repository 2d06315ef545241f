//! Programs that a test starts, and ends by their own handle.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, geteuid, kill_process, waitid};
use socket2::{Domain, Socket, Type};

use super::peer::{Peer, greet};
use super::{TOO_LONG, file};

/// A port of 127.0.0.1 that no other program is given, also while none listens there: for servers
/// that are told their port, and for those that go and come back.
pub(crate) struct Port {
    address: SocketAddr,
    /// Bound, and never listening: a program that asks for any port gets another, and one that asks
    /// for this port may have it.
    _held: Socket,
}

impl Port {
    pub(crate) fn new() -> Self {
        let held = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        held.set_reuse_address(true).unwrap();
        held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = held.local_addr().unwrap().as_socket().expect("it was bound as one");
        Self { address, _held: held }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A running program. It ends with this value, whatever becomes of the test.
pub(crate) struct Program {
    name: String,
    child: Child,
    address: Option<SocketAddr>,
    /// What it says on stderr, line by line; it never waits for a reader.
    lines: Receiver<String>,
    /// All of its output that a test has looked at.
    said: String,
    /// All it wrote to stdout, once that is closed.
    output: Receiver<String>,
    _port: Option<Port>,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Whether it ended well.
    pub(crate) success: bool,
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    /// All it said on stdout.
    pub(crate) output: String,
    /// All it said on stderr, for those that listen: after they were ready.
    pub(crate) errors: String,
}

impl Ended {
    /// The number after `name ` at the start of a line of its output.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.output
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            .unwrap_or_else(|| panic!("no `{name}` in {}", self.output))
    }

    /// Its output, read as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.output).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, which said: {}", self.name, self.said)
    }
}

impl Program {
    /// Starts a program and goes on.
    pub(crate) fn spawn(command: Command) -> Self {
        Self::spawn_with(command, Stdio::null())
    }

    /// The same, with this as its standard input.
    pub(crate) fn spawn_with(mut command: Command, stdin: Stdio) -> Self {
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut stdout = child.stdout.take().expect("stdout is piped");
        let (say, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut line = Vec::new();
            while matches!(stderr.read_until(b'\n', &mut line), Ok(1..)) {
                let _ = say.send(String::from_utf8_lossy(&line).into_owned());
                line.clear();
            }
        });
        let (print, output) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stdout.read_to_end(&mut bytes);
            let _ = print.send(String::from_utf8_lossy(&bytes).into_owned());
        });
        Self {
            name: format!("{command:?}"),
            child,
            address: None,
            lines,
            said: String::new(),
            output,
            _port: None,
        }
    }

    /// Starts our own binary and goes on.
    pub(crate) fn begin(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
        command.args(arguments);
        Self::spawn(command)
    }

    /// The same as nohup does: it ignores a terminal that is gone.
    pub(crate) fn ignoring_hang_ups(arguments: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_krarup")]);
        command.args(arguments);
        Self::spawn(command)
    }

    /// Starts our own binary and waits until it says where it listens.
    pub(crate) fn krarup(arguments: &[&str]) -> Self {
        Self::begin(arguments).listening()
    }

    /// Waits until it says where it listens.
    pub(crate) fn listening(mut self) -> Self {
        self.address = Some(self.says(|line| line.strip_prefix("listening on ")?.trim().parse().ok()));
        self.said.clear();
        self
    }

    /// Starts our proxy before these servers and waits until it says where it listens.
    pub(crate) fn proxy(servers: &[SocketAddr], flags: &[&str]) -> Self {
        let servers = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut arguments = vec!["proxy", "--servers", &servers, "--allow", "flush_all,verbosity"];
        if !flags.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        // A server on a busy machine may take seconds to greet.
        let patient;
        if !flags.contains(&"--config") {
            patient = file("patient", "connect_timeout = \"30s\"");
            arguments.extend(["--config", &patient]);
        }
        arguments.extend(flags);
        Self::krarup(&arguments)
    }

    /// The same before scripted servers, and the connections it has made to them.
    pub(crate) fn proxy_before(servers: &[TcpListener], flags: &[&str]) -> (Self, Vec<Peer>) {
        let addresses: Vec<_> = servers.iter().map(|server| server.local_addr().unwrap()).collect();
        // The proxy is ready when it has been greeted, so that a server must greet it before.
        thread::scope(|scope| {
            let greetings: Vec<_> =
                servers.iter().map(|server| scope.spawn(|| greet(server).unwrap())).collect();
            let proxy = Self::proxy(&addresses, flags);
            (proxy, greetings.into_iter().map(|greeting| greeting.join().unwrap()).collect())
        })
    }

    /// Starts our proxy as a process that may have no more than so many files open unless it asks
    /// for more.
    pub(crate) fn proxy_limited(files: u32, servers: &[SocketAddr]) -> Self {
        let mut command = limited(&format!("-S -n {files}"));
        command.args(["proxy", "--listen", "127.0.0.1:0"]);
        command.args(servers.iter().flat_map(|server| ["--servers".to_owned(), server.to_string()]));
        Self::spawn(command).listening()
    }

    /// Starts our store at a port that outlives it.
    pub(crate) fn cache_at(port: &Port) -> Self {
        Self::krarup(&["cache", "--listen", &port.address.to_string()])
    }

    /// Starts a real memcached with one thread and waits until it listens.
    pub(crate) fn memcached(arguments: &[&str]) -> Self {
        let port = Port::new();
        let mut program = Self::memcached_at(&port, arguments);
        program._port = Some(port);
        program
    }

    /// The same, at a port that outlives it.
    pub(crate) fn memcached_at(port: &Port, arguments: &[&str]) -> Self {
        let mut command = Command::new("memcached");
        command.args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-u", "nobody", "-vv", "-p"]);
        command.arg(port.address.port().to_string()).args(arguments);
        assert!(
            Command::new("memcached").arg("-V").stdout(Stdio::null()).status().is_ok(),
            "memcached is not installed: apt-get install memcached"
        );
        let mut program = Self::spawn(command);
        program.says_text("server listening");
        program.address = Some(port.address);
        // It has said what it was asked to talk for; from here on it would tell every request.
        let mut peer = program.connect();
        peer.send(b"verbosity 0\r\n").unwrap();
        peer.expect(b"OK\r\n").unwrap();
        program
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("only what listens is asked where")
    }

    /// A new connection to it.
    pub(crate) fn connect(&self) -> Peer {
        Peer::connect(self.address())
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kilobytes of memory that it holds now.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Waits until it says a line in which `found` finds what it looks for.
    pub(crate) fn says<T>(&mut self, found: impl FnMut(&str) -> Option<T>) -> T {
        self.says_within(TOO_LONG, found)
    }

    /// The same for one that may be silent for so long.
    pub(crate) fn says_within<T>(&mut self, limit: Duration, mut found: impl FnMut(&str) -> Option<T>) -> T {
        loop {
            match self.lines.recv_timeout(limit) {
                Ok(line) => {
                    self.said += &line;
                    if let Some(found) = found(&line) {
                        return found;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => panic!("it ended early: {self:?}"),
                Err(RecvTimeoutError::Timeout) => panic!("it does not say what it should: {self:?}"),
            }
        }
    }

    /// Waits until it says a line that holds `text`.
    pub(crate) fn says_text(&mut self, text: &str) {
        self.says(|line| line.contains(text).then_some(()));
    }

    /// Sends it a signal, and goes on.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it until it gets SIGCONT; when this returns it does nothing any more.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let child = WaitId::Pid(Pid::from_child(&self.child));
        waitid(child, WaitIdOptions::STOPPED).unwrap().expect("it is there");
    }

    /// Asks it to end, and goes on.
    pub(crate) fn interrupt(&self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(self) -> Ended {
        self.interrupt();
        self.ended()
    }

    /// Waits until it has ended.
    pub(crate) fn ended(self) -> Ended {
        self.ended_within(TOO_LONG)
    }

    /// Waits until it has ended, for one that has a long way to go.
    pub(crate) fn ended_within(mut self, limit: Duration) -> Ended {
        let Ok(output) = self.output.recv_timeout(limit) else {
            self.said.extend(self.lines.try_iter());
            panic!("it does not end: {self:?}");
        };
        let status = self.child.wait().unwrap();
        let errors = std::mem::take(&mut self.said) + &self.lines.iter().collect::<String>();
        Ended { success: status.success(), code: status.code(), output, errors }
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our own binary under a limit, as `ulimit` is told it.
pub(crate) fn limited(limit: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit {limit}; exec \"$@\"");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_krarup")]);
    command
}

/// The number of the user who owns nothing.
pub(crate) const NOBODY: u32 = 65_534;

/// A program as a user who is not root: where root runs the tests, as [`NOBODY`].
pub(crate) fn as_user(program: &str) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups", program]);
    command
}

/// Says that a test is left out, and why, also where output is captured: `scripts/total` counts
/// these lines. Each is written at once, as others write meanwhile.
pub(crate) fn skipped(why: &str) {
    let _ = io::stderr().write_all(format!("skipped: {why}\n").as_bytes());
}

/// The exit code of a command whose stdout and stderr nothing reads.
pub(crate) fn unread(words: &[&str]) -> Option<i32> {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
    command.args(words).stdin(Stdio::null()).stdout(writer.try_clone().expect("another end")).stderr(writer);
    command.status().expect("krarup runs").code()
}

/// A Python that has this module.
pub(crate) fn python(module: &str) -> Option<String> {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python-clients/bin/python");
    let named = std::env::var("CLIENTS_PYTHON").unwrap_or_default();
    let has_it = |python: &&str| {
        let tried = Command::new(python).args(["-c", &format!("import {module}")]).output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    [named.as_str(), own.to_str().unwrap(), "python3"].into_iter().find(has_it).map(str::to_owned)
}

/// The number of each process that there is, and its words.
pub(crate) fn processes() -> impl Iterator<Item = (i32, String)> {
    let process = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some((number, String::from_utf8_lossy(&words).replace('\0', " ")))
    };
    std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(process)
}
