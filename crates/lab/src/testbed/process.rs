//! Processes on this machine. Each is ended by its own handle, also when the thread that started it
//! fails.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write, copy};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use krarup_units::{Mistake, Seconds};
use rustix::process::{Signal, kill_process, kill_process_group};

use super::cap::{Cap, Throttled};
use super::error::StationError;
use crate::agent::protocol;
use crate::delay::tally::{LineTally, PASSED};
use crate::spec::Action;
use crate::stop::Stop;
use crate::waiting::{self, pid};

/// How long a station may take to be ready or to end.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// How often a waiting one looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(20);
/// How long the last line of one that has ended may take.
const LAST_WORD: Duration = Duration::from_secs(2);
/// Lines of a process's talk kept for an error message.
const LAST_LINES: usize = 12;

/// Whether a program ended because of what it was told, as it would the next time: 2 is the exit
/// status of those that refuse their words, ours with them, 64 by sysexits.h, and 126 and 127 a
/// shell's that finds no program.
pub(super) fn is_refusal(status: ExitStatus) -> bool {
    matches!(status.code(), Some(2 | 64 | 126 | 127))
}

/// How a station ended.
#[derive(Debug)]
pub struct StationEnd {
    /// Its exit status.
    pub status: ExitStatus,
    /// All it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// Processor time it took on its machine, where an agent there told it.
    pub cpu: Option<Seconds>,
    /// Its process number here.
    pub id: u32,
    /// How often and how long its quota was used up, where it had one here.
    pub throttled: Option<Throttled>,
}

/// What a process reads from its standard input.
pub enum Feed {
    /// Nothing.
    Nothing,
    /// All of this, then nothing more.
    All(Box<dyn Read + Send>),
    /// A sign of life now and then, and a word when it shall end: for an agent on another machine,
    /// which signals do not reach.
    Beats,
}

/// What is done with what a process writes to its standard output; what it returns is kept.
pub type Drain = Box<dyn FnOnce(ChildStdout) -> Vec<u8> + Send>;

/// Keeps all of it.
pub(super) fn keep_all(mut stdout: ChildStdout) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stdout.read_to_end(&mut bytes);
    bytes
}

/// Feeds an agent until the sender is gone, which ends whatever the agent has started.
fn beat(mut stdin: ChildStdin, words: &Receiver<String>) {
    loop {
        let word = match words.recv_timeout(protocol::BEAT) {
            Err(RecvTimeoutError::Timeout) => "\n".to_owned(),
            Ok(word) => word,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if stdin.write_all(word.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// What a load generator told of its last second; empty before it told any.
pub type LastSecond = Arc<Mutex<String>>;

/// What a thread does.
type ThreadWork = Box<dyn FnOnce() + Send>;

/// Begins a thread, which the system may refuse.
fn spawn(work: ThreadWork) -> io::Result<()> {
    thread::Builder::new().spawn(work).map(drop)
}

/// Passes on what a process tells, line by line; of the seconds of a load generator the last is
/// kept.
fn pass_lines(stderr: ChildStderr, send: &Sender<String>, second: &LastSecond) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    while matches!(lines.read_until(b'\n', &mut line), Ok(count) if count > 0) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        // What passes is no word of an error: only the last of it is kept.
        if is_second(&text) {
            *second.lock().unwrap_or_else(PoisonError::into_inner) = text;
        } else if send.send(text).is_err() {
            break;
        }
        line.clear();
    }
}

/// Whether a line is one that `krarup load --progress json` writes once a second.
fn is_second(line: &str) -> bool {
    line.starts_with('{') && line.contains("\"second\":")
}

/// A process that was started here. Dropping it kills it.
#[derive(Debug)]
pub struct ChildProcess {
    name: String,
    child: Child,
    lines: Receiver<String>,
    second: LastSecond,
    said: VecDeque<String>,
    stdout: Option<Receiver<Vec<u8>>>,
    /// Whether the system has forgotten it: its number may be another's, which gets no signal.
    reaped: bool,
    /// Goes after the process: until then it cannot be taken away.
    cap: Option<Cap>,
    /// Where an agent is told what to do.
    agent: Option<Sender<String>>,
    /// What was done to it so far, where an agent does it.
    actions: u32,
    /// Its number on another machine.
    remote_id: Option<u32>,
    /// Processor time that an agent told.
    cpu: Option<Seconds>,
    /// What a delay line told last.
    passed: Option<LineTally>,
}

impl ChildProcess {
    /// Starts a process in a group of its own, so that a Ctrl-C at the terminal reaches only us,
    /// and we end it in order.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(name: &str, command: &mut Command) -> Result<Self, StationError> {
        Self::start_with(name, command, Feed::Nothing, Box::new(keep_all))
    }

    /// The same for an agent on another machine: it is kept alive, told when it shall end, and ends
    /// when we do.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_agent(name: &str, command: &mut Command) -> Result<Self, StationError> {
        Self::start_with(name, command, Feed::Beats, Box::new(keep_all))
    }

    /// The same for one that reads, or whose output is not to be kept as it is.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_with(
        name: &str,
        command: &mut Command,
        feed: Feed,
        drain: Drain,
    ) -> Result<Self, StationError> {
        Self::start_by(spawn, name, command, feed, drain)
    }

    /// The same with threads that `spawn` begins. Where it refuses one the process is killed.
    fn start_by(
        spawn: impl Fn(ThreadWork) -> io::Result<()>,
        name: &str,
        command: &mut Command,
        feed: Feed,
        drain: Drain,
    ) -> Result<Self, StationError> {
        let fail = |why: String| StationError::new(name, why);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(if matches!(feed, Feed::Nothing) { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| StationError {
                certain: matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied),
                ..fail(format!("`{program}` cannot be started: {error}"))
            })?;
        let mut threads: Vec<ThreadWork> = Vec::new();
        let agent = match (feed, child.stdin.take()) {
            (Feed::All(mut from), Some(mut stdin)) => {
                threads.push(Box::new(move || _ = copy(&mut from, &mut stdin)));
                None
            }
            (Feed::Beats, Some(stdin)) => {
                let (agent, words) = channel();
                threads.push(Box::new(move || beat(stdin, &words)));
                Some(agent)
            }
            _ => None,
        };
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let (whole, kept) = channel();
        threads.push(Box::new(move || _ = whole.send(drain(stdout))));
        let (send, lines) = channel();
        let second = LastSecond::default();
        let its = Arc::clone(&second);
        threads.push(Box::new(move || pass_lines(stderr, &send, &its)));
        let process = Self {
            name: name.to_owned(),
            child,
            lines,
            second,
            said: VecDeque::new(),
            stdout: Some(kept),
            reaped: false,
            cap: None,
            agent,
            actions: 0,
            remote_id: None,
            cpu: None,
            passed: None,
        };
        let begun = threads.into_iter().try_for_each(spawn);
        begun.map_err(|error| fail(format!("no thread can be had: {error}")))?;
        Ok(process)
    }

    /// From now on it may use as much of the processors as this allows, and no more.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn limit(&mut self, cap: Cap) -> Result<(), StationError> {
        cap.hold(self.id())?;
        self.cap = Some(cap);
        Ok(())
    }

    /// Lets it have so many times its quota, where it has one here, until it is said otherwise.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn quicken(&self, times: f64) -> Result<(), StationError> {
        self.cap.as_ref().map_or(Ok(()), |cap| cap.quicken(times))
    }

    /// How often and how long its quota was used up so far; none where it has none here.
    pub fn throttled(&self) -> Option<Throttled> {
        self.cap.as_ref().map(Cap::throttled)
    }

    /// What it tells of its last second, where it is a load generator of ours; it changes while it
    /// runs.
    pub fn last_second(&self) -> LastSecond {
        Arc::clone(&self.second)
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its number on the machine where it does its work.
    pub fn number(&self) -> u32 {
        self.remote_id.unwrap_or(self.id())
    }

    /// It does its work on another machine, under this number.
    pub fn set_remote_id(&mut self, number: Option<u32>) {
        self.remote_id = number;
    }

    /// Whether it has ended. What it has left in its group is killed when that is seen.
    pub fn has_ended(&mut self) -> bool {
        if !self.reaped && !matches!(self.child.try_wait(), Ok(None)) {
            self.kill_group();
            self.reaped = true;
        }
        self.reaped
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for a line on its standard error that contains `marker`; returns what follows the
    /// marker.
    ///
    /// # Errors
    /// When it ends before, the time is over, or a stop was asked for; one of this machine has been
    /// ended then.
    pub fn ready(&mut self, marker: &str, within: Duration, stop: &Stop) -> Result<String, StationError> {
        let until = Instant::now() + within;
        let after = |line: &str| line.find(marker).map(|at| line[at + marker.len()..].trim().to_owned());
        // An agent and what it started talk at once: while one was waited for, the other may have
        // spoken.
        if let Some(rest) = self.said.iter().find_map(|line| after(line)) {
            return Ok(rest);
        }
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    let rest = after(&line);
                    self.keep(line);
                    if let Some(rest) = rest {
                        return Ok(rest);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait();
                    let certain = status.as_ref().is_ok_and(|status| is_refusal(*status));
                    let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                    let error = self.error(format!("ended before it was ready ({status})"));
                    return Err(StationError { certain, ..error });
                }
            }
            if stop.asked() {
                return Err(self.given_up("stopped on request"));
            }
            if Instant::now() >= until {
                return Err(self.given_up(format!("was not ready within {within:?}")));
            }
        }
    }

    /// Waits until it accepts connections at `address`, which `connects` tries: for programs that
    /// say nothing when they are ready.
    ///
    /// # Errors
    /// As [`Self::ready`].
    pub fn accepts(
        &mut self,
        address: SocketAddr,
        connects: impl Fn() -> bool,
        within: Duration,
        stop: &Stop,
    ) -> Result<(), StationError> {
        let until = Instant::now() + within;
        while !connects() {
            self.read_lines();
            if let Ok(Some(status)) = self.child.try_wait() {
                self.read_remaining_lines();
                let error = self.error(format!("ended before it was ready ({status})"));
                return Err(StationError { certain: is_refusal(status), ..error });
            }
            if stop.asked() {
                return Err(self.given_up("stopped on request"));
            }
            if Instant::now() >= until {
                let why = format!("did not accept connections at {address} within {within:?}");
                return Err(self.given_up(why));
            }
            // Its port says nothing when it opens; its end does.
            waiting::for_end(self.child.id(), waiting::LOOK);
        }
        Ok(())
    }

    /// The error of one that is not waited for any more. One of this machine is asked to end before
    /// that: it takes away itself what it has made so far, as a database its folder. An agent does
    /// so when its line is closed, and a line that does not stand yet is not waited for.
    fn given_up(&mut self, why: impl Into<Mistake>) -> StationError {
        if self.agent.is_none() {
            let _ = self.stop(PATIENCE);
        }
        self.error(why)
    }

    /// Waits for it to end by itself, as long as it makes sense: `sense` says so, or why not.
    ///
    /// # Errors
    /// When the time is over, it makes no sense any more or a stop was asked for; then it has been
    /// ended. When another process holds its output.
    pub fn finish(
        &mut self,
        within: Duration,
        stop: &Stop,
        sense: impl Fn() -> Result<(), StationError>,
    ) -> Result<StationEnd, StationError> {
        let until = Instant::now() + within;
        loop {
            match self.lines.recv_timeout(LOOK) {
                // One that talks without a pause is looked at, too, once for all that it has said.
                Ok(line) => {
                    self.keep(line);
                    self.read_lines();
                }
                Err(RecvTimeoutError::Timeout) => {}
                // It closed its standard error: it has ended, or is about to.
                Err(RecvTimeoutError::Disconnected) => _ = waiting::for_end(self.child.id(), LOOK),
            }
            match self.child.try_wait() {
                Ok(Some(status)) => return self.collect(status),
                Ok(None) => {}
                Err(error) => return Err(self.error(error.to_string())),
            }
            if stop.asked() {
                let _ = self.stop(Duration::from_secs(2));
                return Err(self.error("stopped on request"));
            }
            if let Err(error) = sense() {
                let _ = self.stop(Duration::from_secs(2));
                return Err(error);
            }
            if Instant::now() >= until {
                let _ = self.stop(Duration::from_secs(2));
                return Err(self.error(format!("did not end within {within:?}")));
            }
        }
    }

    /// Asks it to end (SIGTERM, or a word to its agent), and does not wait.
    pub fn ask_to_end(&self) {
        // Nothing of it is measured any more.
        let _ = self.cap.as_ref().map(Cap::release);
        if let Some(agent) = &self.agent {
            let _ = agent.send(protocol::END.to_owned());
        } else if let Some(pid) = pid(self.child.id())
            && !self.reaped
        {
            let _ = kill_process(pid, Signal::TERM);
            // One that was frozen hears it, too.
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    /// Asks it to end and waits; kills it when the time is over.
    ///
    /// # Errors
    /// When it had to be killed, or another process holds its output.
    pub fn stop(&mut self, within: Duration) -> Result<StationEnd, StationError> {
        self.ask_to_end();
        let until = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return self.collect(status),
                Ok(None) if Instant::now() < until => {
                    waiting::for_end(self.child.id(), until.saturating_duration_since(Instant::now()));
                }
                _ => {
                    self.kill();
                    return Err(self.error(format!("did not end within {within:?} and was killed")));
                }
            }
        }
    }

    /// Kills, freezes or thaws it, or has its agent do it, and waits until that is done. One that
    /// was killed has ended.
    ///
    /// # Errors
    /// When it ended before, or what is to be done is not done in time.
    pub fn apply(&mut self, action: Action, within: Duration, stop: &Stop) -> Result<(), StationError> {
        if self.has_ended() {
            return Err(self.error(format!("ended before its fault ({action})")));
        }
        let group = pid(self.child.id());
        if let Some(agent) = &self.agent {
            self.actions += 1;
            let _ = agent.send(format!("{}{action} {}\n", protocol::DO, self.actions));
            self.ready(&format!("{}{}", protocol::DONE, self.actions), within, stop)?;
        } else if let Some((group, signal)) = group.zip(action.signal()) {
            let sent = kill_process_group(group, signal);
            sent.map_err(|error| self.error(format!("{action}: {error}")))?;
        }
        if action == Action::Kill {
            self.finish(within, stop, || Ok(()))?;
        }
        Ok(())
    }

    fn collect(&mut self, status: ExitStatus) -> Result<StationEnd, StationError> {
        // With the program its output ends, unless a child that it has left holds it: that one is
        // killed, and where it is of another group its end is not waited for.
        let stdout = self.stdout.take().map_or(Ok(Vec::new()), |whole| {
            let first = whole.recv_timeout(LAST_WORD);
            self.kill_group();
            first.or_else(|_| whole.recv_timeout(LAST_WORD))
        });
        self.reaped = true;
        // An agent's last line says what was spent.
        self.read_remaining_lines();
        if stdout == Err(RecvTimeoutError::Timeout) {
            let why = "its output does not end: a child of it in another process group holds it";
            return Err(self.error(format!("ended ({status}), but {why}")));
        }
        let stdout = stdout.unwrap_or_default();
        Ok(StationEnd { status, stdout, cpu: self.cpu, id: self.id(), throttled: self.throttled() })
    }

    /// Kills it, and what it has started in its group.
    fn kill(&mut self) {
        self.kill_group();
        let _ = self.child.kill();
        self.reaped |= self.child.wait().is_ok();
    }

    /// Kills what there is of its group.
    fn kill_group(&self) {
        if let Some(group) = pid(self.child.id())
            && !self.reaped
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// What has passed it so far, where it is a delay line: as of its last word.
    pub fn passed(&mut self) -> Option<LineTally> {
        self.read_lines();
        self.passed
    }

    /// Takes in what one that has ended still said: with the program its output ends, unless
    /// another process inherited it.
    fn read_remaining_lines(&mut self) {
        let end = Instant::now() + LAST_WORD;
        while let Some(left) = end.checked_duration_since(Instant::now())
            && let Ok(line) = self.lines.recv_timeout(left)
        {
            self.keep(line);
        }
    }

    /// Takes in what it has said, without waiting.
    fn read_lines(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.keep(line);
        }
    }

    fn keep(&mut self, line: String) {
        if let Some(spent) = line.strip_prefix(protocol::SPENT) {
            self.cpu = spent.trim().parse().ok();
            return;
        }
        if let Some(passed) = line.strip_prefix(PASSED) {
            self.passed = LineTally::read(passed).or(self.passed);
            return;
        }
        if self.said.len() == LAST_LINES {
            self.said.pop_front();
        }
        self.said.push_back(line);
    }

    /// An error of this station, with its last words.
    pub fn error(&mut self, why: impl Into<Mistake>) -> StationError {
        self.read_lines();
        let said = self.said.iter().cloned().collect();
        StationError { said, ..StationError::new(self.name.clone(), why) }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> ChildProcess {
        ChildProcess::start("station", Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_station_is_ready_when_it_says_so_and_ends_when_it_is_told() {
        let mut process = shell(
            "trap 'echo bye; exit 3' TERM; echo listening on 127.0.0.1:1 >&2; while :; do sleep 0.01; done",
        );
        assert_eq!(process.ready("listening on", LONG, &Stop::default()).unwrap(), "127.0.0.1:1");
        let ended = process.stop(LONG).unwrap();
        assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(3), &b"bye\n"[..]));
    }

    #[test]
    fn the_last_words_of_one_that_failed_are_in_the_error() {
        let error = shell("echo no luck >&2; exit 1").ready("ready", LONG, &Stop::default()).unwrap_err();
        assert!(
            error.to_string().contains("ended before it was ready") && error.to_string().contains("no luck")
        );
        let missing = ChildProcess::start("server", &mut Command::new("/nowhere/memcached")).unwrap_err();
        assert!(missing.to_string().contains("`/nowhere/memcached` cannot be started"), "{missing}");
    }

    /// It would disturb what is measured next.
    #[test]
    fn one_for_which_the_system_gives_no_thread_is_killed_and_is_an_error() {
        let (over, ended) = channel();
        let drain = move |stdout| {
            let bytes = keep_all(stdout);
            over.send(()).unwrap();
            bytes
        };
        let is_first = Cell::new(true);
        let one = |work| if is_first.take() { spawn(work) } else { Err(ErrorKind::WouldBlock.into()) };
        let (mut sleep, nothing) = (Command::new("sleep"), Feed::Nothing);
        sleep.arg("1000");
        let error = ChildProcess::start_by(one, "station", &mut sleep, nothing, Box::new(drain)).unwrap_err();
        assert!(error.to_string().contains("no thread can be had") && !error.certain, "{error}");
        ended.recv_timeout(LONG).unwrap();
    }

    #[test]
    fn a_stop_ends_what_is_being_waited_for() {
        let stop = Stop::default();
        stop.ask();
        let mut process = shell("trap 'exit 0' TERM; while :; do sleep 0.01; done");
        let stopped = process.finish(LONG, &stop, || Ok(())).unwrap_err();
        assert!(stopped.to_string().contains("stopped on request"));
    }

    /// What it has made so far it takes away itself, where it is asked to.
    #[test]
    fn one_that_is_not_ready_yet_is_asked_to_end() {
        let stop = Stop::default();
        stop.ask();
        for (within, stop) in [(LONG, stop), (Duration::ZERO, Stop::default())] {
            let script = "trap 'echo bye >&2; exit 0' TERM; echo up >&2; while :; do sleep 0.01; done";
            let mut process = shell(script);
            process.ready("up", LONG, &Stop::default()).unwrap();
            let error = process.ready("ready", within, &stop).unwrap_err();
            assert_eq!(error.said, ["up", "bye"], "{error}");
            let mut process = shell(script);
            process.ready("up", LONG, &Stop::default()).unwrap();
            let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
            let error = process.accepts(nowhere, || false, within, &stop).unwrap_err();
            assert_eq!(error.said, ["up", "bye"], "{error}");
        }
    }

    #[test]
    fn nothing_waits_for_what_makes_no_sense_any_more() {
        let mut process = shell("trap 'exit 0' TERM; while :; do sleep 0.01; done");
        let why = || StationError::new("network", "is gone");
        let error = process.finish(LONG, &Stop::default(), || Err(why())).unwrap_err();
        assert_eq!(error.to_string(), "network: is gone");
        assert!(process.has_ended());
    }

    #[test]
    fn one_that_talks_without_a_pause_has_its_time() {
        let mut process = shell("trap 'exit 0' TERM; while :; do echo x >&2; done");
        let error = process.finish(Duration::from_millis(200), &Stop::default(), || Ok(())).unwrap_err();
        assert!(error.to_string().contains("did not end within"), "{error}");
    }

    #[test]
    fn a_child_that_a_station_leaves_ends_with_it() {
        let mut process = shell("sleep 1000 & echo out; echo up >&2; wait");
        process.ready("up", LONG, &Stop::default()).unwrap();
        assert_eq!(process.stop(LONG).unwrap().stdout, b"out\n");
    }

    /// Later its number may be another's.
    #[test]
    fn what_a_station_leaves_is_killed_once_it_is_seen_to_have_ended_and_never_after() {
        let mut process = shell("sleep 1000 & echo up $! >&2");
        let left = process.ready("up ", LONG, &Stop::default()).unwrap().parse().unwrap();
        while !process.has_ended() {
            waiting::for_end(process.id(), LONG);
        }
        assert!(waiting::for_end(left, LONG), "what it left runs on");
        assert!(process.reaped);
        assert!(process.stop(LONG).unwrap().status.success());
    }

    #[test]
    fn output_that_a_child_of_another_group_holds_is_an_error() {
        let mut process = shell("setsid sh -c 'echo up $$ >&2; exec sleep 1000 2>&-' & wait");
        let child = process.ready("up ", LONG, &Stop::default()).unwrap().parse().unwrap();
        let stopped = process.stop(LONG);
        kill_process(pid(child).unwrap(), Signal::KILL).unwrap();
        let error = stopped.unwrap_err();
        assert!(error.to_string().contains("a child of it in another process group holds it"), "{error}");
    }

    #[test]
    fn what_a_station_writes_is_kept_and_so_are_its_last_words() {
        let mut process = shell("echo one >&2; echo two >&2; echo out");
        let ended = process.finish(LONG, &Stop::default(), || Ok(())).unwrap();
        assert_eq!(ended.stdout, b"out\n");
        assert_eq!(process.error("why").said, ["one", "two"]);
    }
}
