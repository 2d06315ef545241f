//! Programs that a test starts, and ends by their own handle.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};

use super::TOO_LONG;
use super::peer::Peer;

/// A running program that listens. It ends with this value, whatever becomes of the test.
pub(crate) struct Program {
    child: Child,
    address: SocketAddr,
    /// Collects stderr, so that the program never waits for a reader.
    errors: Option<JoinHandle<String>>,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Whether it ended well.
    pub(crate) success: bool,
    /// All it said on stdout.
    pub(crate) output: String,
    /// All it said on stderr after it was ready.
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
}

/// Starts a program and reads its stderr until `ready` finds in a line what it waits for. `Err` is all that was said by a program
/// that ended before.
fn start<T>(
    mut command: Command,
    mut ready: impl FnMut(&str) -> Option<T>,
) -> Result<(Child, T, JoinHandle<String>), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let (sender, receiver) = mpsc::channel();
    let errors = thread::spawn(move || {
        let mut line = String::new();
        while matches!(lines.read_line(&mut line), Ok(1..)) {
            if sender.send(std::mem::take(&mut line)).is_err() {
                break;
            }
        }
        let mut rest = line;
        let _ = lines.read_to_string(&mut rest);
        rest
    });
    let mut said = String::new();
    loop {
        match receiver.recv_timeout(TOO_LONG) {
            Ok(line) => {
                if let Some(found) = ready(&line) {
                    return Ok((child, found, errors));
                }
                said += &line;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let _ = child.wait();
                return Err(said);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("{command:?} does not become ready; it said: {said}");
            }
        }
    }
}

impl Program {
    /// Starts our own binary and waits until it says where it listens.
    pub(crate) fn krarup(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
        command.args(arguments);
        let ready = |line: &str| line.strip_prefix("listening on ")?.trim().parse().ok();
        match start(command, ready) {
            Ok((child, address, errors)) => Self { child, address, errors: Some(errors) },
            Err(said) => panic!("krarup {arguments:?} ended at once: {said}"),
        }
    }

    /// Starts a real memcached with one thread and waits until it listens.
    pub(crate) fn memcached(arguments: &[&str]) -> Self {
        let mut said = String::new();
        // memcached cannot say which port it was given, so it is told one; somebody else may be quicker.
        for _ in 0..20 {
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut command = Command::new("memcached");
            command.args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-u", "nobody", "-vv", "-p"]);
            command.arg(address.port().to_string()).args(arguments);
            assert!(
                Command::new("memcached").arg("-V").stdout(Stdio::null()).status().is_ok(),
                "memcached is not installed: apt-get install memcached"
            );
            match start(command, |line| line.contains("server listening").then_some(())) {
                Ok((child, (), errors)) => return Self { child, address, errors: Some(errors) },
                Err(why) => said = why,
            }
        }
        panic!("memcached does not start: {said}");
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection to it.
    pub(crate) fn connect(&self) -> Peer {
        Peer::connect(self.address)
    }

    /// Asks it to end, and goes on.
    pub(crate) fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(self) -> Ended {
        self.interrupt();
        self.ended()
    }

    /// Waits until it has ended.
    pub(crate) fn ended(mut self) -> Ended {
        let mut output = String::new();
        self.child.stdout.take().expect("stdout is piped").read_to_string(&mut output).unwrap();
        let errors = self.errors.take().expect("collected once").join().unwrap();
        Ended { success: self.child.wait().unwrap().success(), output, errors }
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
