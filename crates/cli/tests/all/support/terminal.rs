//! A terminal of its own for our binary, and what that shows.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use super::{TOO_LONG, until};

/// Our binary on a terminal, and what that shows.
pub(crate) struct OnTerminal {
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
    /// Starts it on a terminal of so many columns.
    pub(crate) fn begin(columns: u16, words: &[&str]) -> Self {
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
        command.args(words).env("TERM", "xterm").env_remove("NO_COLOR");
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
    pub(crate) fn shows(&mut self, texts: &[&str]) {
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

    /// What it shows now; a line that the terminal had to break is one line here.
    pub(crate) fn screen(&self) -> String {
        self.shows.screen().contents()
    }

    /// Types these keys.
    pub(crate) fn types(&mut self, keys: &[u8]) {
        self.person.write_all(keys).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has ended, well or not.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        until("it has ended", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap()
    }

    /// Waits until it has ended; the terminal is as it was.
    pub(crate) fn ended_well(mut self) {
        let status = self.ended();
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
