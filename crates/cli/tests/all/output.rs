//! A reader may leave, as `head` does, and a disk may be full: a command ends by its own exit code,
//! and never by a panic. A reader may also stand still: a service goes on, and ends.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;

use crate::support::peer::Peer;
use crate::support::process::{Port, Program, unread};
use crate::support::{TOO_LONG, file, fresh, until};

/// Every command that prints, each with what it needs.
fn printing() -> Vec<Vec<String>> {
    let network = file("output-network.toml", &printed(&["model", "example"]));
    let simulated = fresh("output-rows.parquet").to_str().expect("a path in Unicode").to_owned();
    let rows = ["model", "simulate", &network, "--visits", &simulated, "--seed", "3", "--precision", "0.1"];
    printed(&rows);
    [
        vec!["--help"],
        vec!["--version"],
        vec![],
        vec!["help", "model", "solve"],
        vec!["plan", "demo"],
        vec!["proxy", "--print-config"],
        vec!["load", "--print-config"],
        vec!["completions", "bash"],
        vec!["completions", "zsh"],
        vec!["model", "example"],
        vec!["model", "solve", &network],
        vec!["model", "solve", &network, "--json"],
        vec!["model", "solve", &network, "--csv"],
        vec!["model", "bounds", &network],
        vec!["model", "whatif", &network, "--change", "uplink.speed=2"],
        vec!["model", "simulate", &network, "--seed", "3", "--precision", "0.1"],
        vec!["analyze", &simulated],
        vec!["analyze", &simulated, "--json"],
        vec!["analyze", &simulated, "--csv"],
        vec!["no-such-command"],
        vec!["model", "solve", "no-such-file.toml"],
    ]
    .iter()
    .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
    .collect()
}

fn printed(words: &[&str]) -> String {
    let ended = Program::begin(words).ended();
    assert!(ended.success, "{words:?}: {ended:?}");
    ended.output
}

#[test]
fn a_command_with_a_closed_pipe_ends_as_it_does_with_a_reader() {
    for words in printing() {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let read = Program::begin(&words).ended();
        assert!(matches!(read.code, Some(0..=2)), "{words:?}: {read:?}");
        assert_eq!(unread(&words), read.code, "{words:?}");
    }
}

#[test]
fn output_that_a_full_disk_does_not_take_is_an_error_that_says_so() {
    let admin = Port::new();
    let address = admin.address().to_string();
    let proxy = ["proxy", "--listen", "127.0.0.1:0", "--admin", &address];
    let servers = ["--servers", "127.0.0.1:1,127.0.0.1:2", "--headroom-target", "p99 < 8ms"];
    let _proxy = Program::krarup(&[&proxy[..], &servers].concat());
    let look = ["top", &address, "--once", "--every", "50ms"];
    let runs = file("output-runs.csv", "name,time\na,1\na,1.01\n");
    let gate = ["compare", &runs, &runs, "--fail-if", "time > 5%"];
    let headroom = ["headroom", &address];
    let redline = ["redline", &address, "--dry-run"];
    for (words, code) in [
        (&["model", "example"][..], 1),
        (&["completions", "bash"], 1),
        (&["proxy", "--print-config"], 1),
        (&look, 1),
        (&redline, 1),
        // Of these 1 is an answer.
        (&gate, 2),
        (&headroom, 2),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
        let full = File::options().write(true).open("/dev/full").expect("it is always there");
        let output = command.args(words).stdout(full).output().expect("krarup runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
        assert!(errors.contains("stdout cannot be written: No space left"), "{words:?}: {errors}");
    }
}

/// At the limit comes a signal, which ends a process that does not handle it.
#[test]
fn output_beyond_the_limit_of_a_file_is_an_error_that_says_so() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0; exec \"$@\" >\"$0\""]).arg(fresh("output-limited"));
    command.args([env!("CARGO_BIN_EXE_krarup"), "model", "example"]);
    let ended = Program::spawn(command).ended();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors.contains("stdout cannot be written: File too large"), "{ended:?}");
}

#[test]
fn a_word_that_is_no_text_is_a_mistake_and_may_be_the_name_of_a_file() {
    let ended = |words: &[&OsStr]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
        command.args(words);
        Program::spawn(command).ended()
    };
    let wrong = ended(&[OsStr::from_bytes(b"\xff")]);
    assert!(wrong.code == Some(2) && wrong.errors.contains("there is no command `"), "{wrong:?}");
    let folder = fresh("output-words");
    fs::create_dir_all(&folder).unwrap();
    let network = file("output-words.toml", &printed(&["model", "example"]));
    let part = folder.join(OsStr::from_bytes(b"caf\xe9.json"));
    let words = ["model", "simulate", &network, "--replicate", "20s", "--replication", "1/14", "--part"];
    let made = ended(&[&words.map(OsStr::new)[..], &[part.as_os_str()]].concat());
    assert!(made.success && part.is_file(), "{made:?}");
}

/// A pipe whose reader may stand still.
struct StalledPipe {
    reader: PipeReader,
    writer: PipeWriter,
}

impl StalledPipe {
    fn new() -> Self {
        let (reader, writer) = io::pipe().unwrap();
        Self { reader, writer }
    }

    /// Starts our own binary, for which the shell opens the pipe once more, as `redirected` says.
    fn begin(&self, redirected: &str, arguments: &[&str]) -> Program {
        let name = format!("/proc/{}/fd/{}", std::process::id(), self.writer.as_raw_fd());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$@\" {redirected}\"$0\""), &name]);
        command.arg(env!("CARGO_BIN_EXE_krarup")).args(arguments);
        Program::spawn(command)
    }

    /// Starts a service whose stderr is the pipe, and that is read until it says where it listens.
    fn is_stderr_of(&mut self, arguments: &[&str]) -> (Program, SocketAddr) {
        let program = self.begin("2>", arguments);
        let (tell, said) = mpsc::channel();
        let reader = self.reader.try_clone().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(reader).lines() {
                if let Some(address) = line.unwrap().strip_prefix("listening on ") {
                    tell.send(address.parse::<SocketAddr>().unwrap()).unwrap();
                    return;
                }
            }
        });
        let address = said.recv_timeout(TOO_LONG).expect("it listens");
        self.fill();
        (program, address)
    }

    /// What is written to it from now on waits for its reader.
    fn fill(&mut self) {
        // The program has opened it anew: this holds for our end alone.
        fcntl_setfl(&self.writer, OFlags::NONBLOCK).unwrap();
        for piece in [&[b'.'; 4096][..], b"."] {
            while self.writer.write_all(piece).is_ok() {}
        }
    }
}

#[test]
fn a_stderr_that_nothing_reads_keeps_no_client_of_a_proxy_waiting() {
    let (port, mut pipe) = (Port::new(), StalledPipe::new());
    let server = port.address().to_string();
    let cache = Program::cache_at(&port);
    let (proxy, address) = pipe.is_stderr_of(&["proxy", "--listen", "127.0.0.1:0", "--servers", &server]);
    let mut client = Peer::connect(address);
    let mut comes = |reply: &str| {
        until(reply, || {
            client.send(b"get a\r\n").unwrap();
            client.line().unwrap().starts_with(reply.as_bytes())
        });
    };
    cache.kill();
    comes("SERVER_ERROR");
    // What it says of its server has no way out by now.
    let _cache = Program::cache_at(&port);
    comes("END");
    comes("END");
    let ended = proxy.stop();
    assert!(ended.success && ended.output.contains("queue: "), "{ended:?}");
}

#[test]
fn a_stderr_that_nothing_reads_keeps_no_client_of_a_broker_waiting() {
    let mut pipe = StalledPipe::new();
    let (broker, address) = pipe.is_stderr_of(&["broker", "--listen", "127.0.0.1:0"]);
    let mut client = Peer::connect(address);
    let mut is_refused = || {
        client.send(b"put 0 0 10 1\r\na\r\n").unwrap();
        client.line().unwrap() == b"DRAINING\r\n"
    };
    broker.signal(Signal::USR1);
    until("it drains", &mut is_refused);
    assert!(is_refused(), "after it has said so");
    let ended = broker.stop();
    assert!(ended.success, "{ended:?}");
}

fn has_thread(program: &Program, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", program.id()));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| fs::read_to_string(thread.path().join("comm")).is_ok_and(|its| its.trim() == name))
}

/// What the proxy says at its end, the cache and the broker waits for a reader that stands still.
#[test]
fn a_second_signal_ends_a_service_that_cannot_say_what_it_has_counted() {
    let listen = ["--listen", "127.0.0.1:0"];
    let services = [&["proxy", "--servers", "127.0.0.1:1"][..], &["cache"], &["broker"]];
    let started = services.map(|service| {
        let mut pipe = StalledPipe::new();
        // What it was started with as stdout stays open until it ends, which is how that is seen.
        let program = pipe.begin("3>&1 1>", &[service, &listen].concat()).listening();
        pipe.fill();
        program.interrupt();
        (program, pipe)
    });
    for (program, _) in &started {
        until("its event loops have ended", || has_thread(program, "last steps"));
        program.interrupt();
    }
    for (program, _pipe) in started {
        let ended = program.ended();
        assert_eq!(ended.code, None, "{ended:?}");
    }
}
