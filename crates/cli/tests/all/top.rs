//! `krarup top`: on a terminal of its own, and as what scripts read.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

use crate::support::peer::asked;
use crate::support::process::{Ended, Port, Program};
use crate::support::{TOO_LONG, until};

/// `krarup top` on a terminal, and what that shows.
struct OnTerminal {
    child: Child,
    /// The end of the terminal at which a person sits.
    person: File,
    /// The end at which programs are, kept open.
    programs: File,
    written: Receiver<Vec<u8>>,
    shows: vt100::Parser,
    before: Termios,
}

impl OnTerminal {
    fn begin(columns: u16, words: &[&str]) -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap();
        let programs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&programs, size).unwrap();
        let before = tcgetattr(&programs).unwrap();
        let end = || Stdio::from(programs.try_clone().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
        command.arg("top").args(words).env("TERM", "xterm").env_remove("NO_COLOR");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let person = File::from(person);
        let mut reader = person.try_clone().unwrap();
        let (send, written) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, person, programs, written, shows: vt100::Parser::new(24, columns, 0), before }
    }

    /// Waits until all of these texts are shown.
    fn shows(&mut self, texts: &[&str]) {
        let begun = Instant::now();
        loop {
            let shown = self.shows.screen().contents();
            if texts.iter().all(|text| shown.contains(text)) {
                return;
            }
            let left = TOO_LONG.saturating_sub(begun.elapsed());
            let bytes = self.written.recv_timeout(left);
            let bytes = bytes.unwrap_or_else(|_| panic!("{texts:?} are not all shown:\n{shown}"));
            self.shows.process(&bytes);
        }
    }

    fn types(&mut self, keys: &[u8]) {
        self.person.write_all(keys).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has ended; the terminal is as it was.
    fn ended_well(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        let after = tcgetattr(&self.programs).unwrap();
        assert_eq!(
            (after.local_modes, after.input_modes, after.output_modes),
            (self.before.local_modes, self.before.input_modes, self.before.output_modes)
        );
        // A mark of our own is behind all that it wrote.
        self.programs.write_all(b"the end").unwrap();
        self.shows(&["the end"]);
        assert!(!self.shows.screen().alternate_screen() && !self.shows.screen().hide_cursor());
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A proxy before this server, whose admin address is `admin`.
fn proxy(server: &Program, admin: &Port) -> Program {
    let (server, admin) = (server.address().to_string(), admin.address().to_string());
    Program::krarup(&["proxy", "--listen", "127.0.0.1:0", "--admin", &admin, "--servers", &server])
}

fn top(words: &[&str]) -> Ended {
    Program::begin(&[&["top"], words].concat()).ended()
}

fn server() -> Program {
    Program::krarup(&["cache", "--listen", "127.0.0.1:0"])
}

#[test]
fn a_proxy_is_watched_until_q_also_while_it_begins_anew() {
    let (server, admin) = (server(), Port::new());
    let watched = proxy(&server, &admin);
    let (name, address) = (server.address().to_string(), admin.address().to_string());
    let mut terminal = OnTerminal::begin(80, &[&address, "--every", "50ms"]);
    terminal.shows(&["krarup proxy at", "1 servers", "losses", &name, "headroom   no conclusion", "q quit"]);
    let mut client = watched.connect();
    client.send(b"get a\r\n").unwrap();
    client.expect(b"END\r\n").unwrap();
    terminal.types(b"3");
    terminal.shows(&["operation", "response", "get  "]);
    // The next page is that of the clients, by the host and then each connection.
    terminal.types(b"\t");
    terminal.shows(&["connections", "in progress", "127.0.0.1  "]);
    terminal.types(b"g");
    let own = client.address().to_string();
    terminal.shows(&[&own]);
    terminal.types(b"?");
    terminal.shows(&["keys, and the columns of clients"]);
    terminal.types(b"?1");
    watched.kill();
    terminal.shows(&["no answer", "connection refused"]);
    let _anew = proxy(&server, &admin);
    terminal.shows(&["losses", &name]);
    terminal.types(b"q");
    terminal.ended_well();
}

#[test]
fn ctrl_c_and_signals_leave_the_terminal_as_it_was() {
    let (server, admin) = (server(), Port::new());
    let _proxy = proxy(&server, &admin);
    let address = admin.address().to_string();
    for signal in [None, Some(Signal::TERM), Some(Signal::INT), Some(Signal::HUP)] {
        let mut terminal = OnTerminal::begin(60, &[&address]);
        terminal.shows(&["krarup proxy at", "q quit"]);
        match signal {
            Some(signal) => terminal.signal(signal),
            None => terminal.types(b"\x03"),
        }
        terminal.ended_well();
    }
}

#[test]
fn several_instances_are_one_system_with_a_row_for_each() {
    let (server, admins) = (server(), [Port::new(), Port::new()]);
    let _proxies = [proxy(&server, &admins[0]), proxy(&server, &admins[1])];
    let names = admins.each_ref().map(|admin| admin.address().to_string());
    let printed = top(&[&names[0], &names[1], "--once", "--every", "50ms", "--page", "instances"]);
    assert!(printed.success && printed.output.contains("2 of 2 instances answer"), "{printed:?}");
    for name in &names {
        let row = printed.output.lines().find(|line| line.starts_with(name.as_str()));
        assert!(row.is_some_and(|row| row.contains("proxy")), "{printed:?}");
    }
    let json = top(&[&names[0], &names[1], "--json", "--looks", "2", "--every", "50ms"]);
    let looks: Vec<Value> = json.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(looks.len(), 2, "{json:?}");
    assert_eq!((&looks[0]["schema"], looks[1]["instances"].as_array().unwrap().len()), (&1.into(), 2));
    let shared = &looks[1]["servers"][0];
    assert_eq!((&shared["server"], &shared["proxies"]), (&server.address().to_string().into(), &2.into()));
    assert_eq!(looks[1]["headroom"].as_array().unwrap().len(), 2);
    // One that does not answer is a row that says so.
    let nothing = Port::new().address().to_string();
    let partly = top(&[&names[0], &nothing, "--once", "--every", "50ms", "--page", "instances"]);
    assert!(partly.success && partly.output.contains("1 of 2 instances answer"), "{partly:?}");
    assert!(partly.output.is_ascii(), "{partly:?}");
}

#[test]
fn an_address_at_which_nothing_answers_is_a_mistake() {
    let nothing = Port::new().address().to_string();
    for words in [&[nothing.as_str()][..], &[nothing.as_str(), "--json"]] {
        let ended = top(words);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.errors.contains("does not answer") && ended.errors.contains("--admin"), "{ended:?}");
    }
    let server = server();
    let other = top(&[&server.address().to_string(), "--once"]);
    assert_eq!(other.code, Some(1), "{other:?}");
}

/// The addresses of the report are those of the connections, and its rates what they asked for.
#[test]
fn clients_are_told_with_what_they_ask_for() {
    let (server, admin) = (server(), Port::new());
    let watched = proxy(&server, &admin);
    let mut client = watched.connect();
    let mut report = Value::Null;
    until("the requests are in a report", || {
        for _ in 0..10 {
            client.send(b"get a\r\n").unwrap();
            client.expect(b"END\r\n").unwrap();
        }
        let told = asked(admin.address(), "GET", "/clients");
        report = serde_json::from_str(told.split_once("\r\n\r\n").unwrap().1).unwrap();
        report["clients"][0]["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    assert_eq!(report["connections"], 1);
    assert_eq!(report["clients"][0]["client"], client.address().to_string());
    assert_eq!(report["hosts"][0]["client"], "127.0.0.1");
    let number = |name: &str| report["clients"][0][name].as_f64().unwrap();
    // `get a` and its end of line are seven bytes, `END` and its are five.
    assert!((number("received_per_s") / number("requests_per_s") - 7.0).abs() < 1e-6, "{report}");
    assert!((number("sent_per_s") / number("requests_per_s") - 5.0).abs() < 1e-6, "{report}");
}
