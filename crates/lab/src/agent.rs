//! What the runner has done on another machine: this program, started there by ssh, which ends
//! whatever it started when its connection is closed or silent.
//!
//! ```text
//! runner ── ssh ──▶ agent hold              makes the run's folder; at the end nothing of the run is left
//!        ── ssh ──▶ agent run -- memcached  starts it, says so, ends it when told or when the line is dead
//!        ── ssh ──▶ agent watch             looks at the machine each second
//!        ── ssh ──▶ agent calibrate | clock | port | ask | ping | give | take | empty | sink | pour
//! ```
//! In a pod the first process is one of these, too: it stays as long as there is a runner (`agent
//! stay`); before it our program is copied into the pod (`agent copy`).
//!
//! The line is dead when it is closed (the runner or the connection ended) or when no sign of life
//! came for [`SILENCE`] (the network did). Whatever descends from an agent carries [`RUN`] in its
//! environment, so that it is found again whatever it did to get away.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use krarup_net::clock::wall;
use krarup_units::{Address, Seconds};
use rustix::process::{Signal, WaitOptions, kill_process, kill_process_group, wait};

use crate::agent::facts::Facts;
use crate::agent::protocol::{ACCEPTS, DO, DONE, END, FOLDER, GROUPS, RUN, SILENCE, SPENT, STARTED, WATCHES};
use crate::ledger::Ledger;
use crate::monitor::{Monitor, ProcessFamily, Subject, carriers};
use crate::parcel;
use crate::platform::children_cpu;
use crate::spec::Action;
use crate::stop::Stop;
use crate::testbed::calibrate::calibrate_here;
use crate::testbed::cap::Cap;
use crate::testbed::probe::{ask as ask_station, free_port, round_trips};
use crate::waiting::{self, pid};

pub mod facts;
pub mod protocol;
mod retention;

/// Whether the run that an agent works for still goes on: [`hold`] takes the folder away at its
/// end, and it must not be made again.
///
/// # Errors
/// Where it is over.
pub fn goes_on() -> io::Result<()> {
    match std::env::var_os(FOLDER) {
        Some(folder) if !Path::new(&folder).is_dir() => {
            Err(io::Error::other("the connection broke, and the run is over here"))
        }
        _ => Ok(()),
    }
}

/// Longer lines are cut, in bytes.
const LONGEST_LINE: u64 = 64 << 10;
/// How long one that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(3);
/// How often an agent looks whether a signal came.
const LOOK: Duration = Duration::from_millis(250);

/// What comes to an agent.
#[derive(Debug)]
enum Message {
    /// A sign of life.
    Beat,
    /// The end is asked for.
    End,
    /// This is to be done, and told under this number.
    Do(Action, u32),
    /// The connection is closed, or silent for too long.
    Gone,
    /// The program has ended.
    Exited(io::Result<ExitStatus>),
}

/// Listens to the runner, on a thread of its own.
fn listen(sender: Sender<Message>) -> io::Result<()> {
    let listening = thread::Builder::new().spawn(move || {
        for line in io::stdin().lock().lines() {
            let message = match line {
                Ok(line) if line == END.trim_end() => Message::End,
                Ok(line) if line.starts_with(DO) => {
                    action_of(&line).map_or(Message::Beat, |(action, number)| Message::Do(action, number))
                }
                Ok(_) => Message::Beat,
                Err(_) => break,
            };
            if sender.send(message).is_err() {
                return;
            }
        }
        let _ = sender.send(Message::Gone);
    });
    listening.map(drop)
}

/// What the word for it asks to be done, and its number.
fn action_of(line: &str) -> Option<(Action, u32)> {
    let (action, number) = line.strip_prefix(DO)?.split_once(' ')?;
    let action =
        [Action::Kill, Action::Freeze, Action::Thaw].into_iter().find(|one| one.to_string() == action)?;
    Some((action, number.parse().ok()?))
}

/// The next thing that is more than a sign of life.
fn next(messages: &Receiver<Message>, stop: &Stop, silence: Duration) -> Message {
    let mut last = Instant::now();
    loop {
        match messages.recv_timeout(LOOK) {
            Ok(Message::Beat) => last = Instant::now(),
            Ok(other) => return other,
            Err(RecvTimeoutError::Disconnected) => return Message::Gone,
            Err(RecvTimeoutError::Timeout) if stop.asked() || last.elapsed() >= silence => {
                return Message::Gone;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn say(line: &str) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "what it says is for the runner: without it the agent ends"
    )]
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// A line of our own among those of the program that we have started: in one piece, or its own
/// would stand in the middle of it.
fn tell_runner(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Passes on what a program tells, in whole lines: a program writes a line in pieces, and ours
/// would come between them. What is returned ends when no other end is left to send to it.
fn pass_on(told: ChildStderr) -> io::Result<Receiver<()>> {
    let (over, ended) = channel();
    thread::Builder::new().spawn(move || {
        let (mut told, mut line) = (BufReader::new(told), Vec::new());
        while let Ok(1..) = told.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            tell_runner(String::from_utf8_lossy(&line).trim_end_matches('\n'));
            line.clear();
        }
        drop(over);
    })?;
    Ok(ended)
}

/// Begins the threads that a program which was started needs: what it tells is passed on, its end
/// is waited for, and what the runner says is listened to. What is returned is of [`pass_on`].
fn attend(
    mut child: Child,
    accepts: Option<SocketAddr>,
    sender: Sender<Message>,
) -> io::Result<Option<Receiver<()>>> {
    let process = child.id();
    let told = child.stderr.take().map(pass_on).transpose()?;
    listen(sender.clone())?;
    thread::Builder::new().spawn(move || sender.send(Message::Exited(child.wait())))?;
    tell_runner(&format!("{STARTED}{process}"));
    if let Some(address) = accepts {
        thread::Builder::new().spawn(move || {
            while TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
                waiting::blindly(waiting::LOOK);
            }
            tell_runner(&format!("{ACCEPTS}{address}"));
        })?;
    }
    Ok(told)
}

/// Makes the run's folder, says what machine this is, waits for the end, and leaves nothing of the
/// run behind: no process, no control group, no folder.
///
/// # Errors
/// From the system.
pub fn hold(folder: &Path) -> io::Result<()> {
    let stop = Stop::on_signals()?;
    fs::create_dir_all(folder)?;
    let (sender, messages) = channel();
    listen(sender)?;
    // Where no thread receives it any more, there is nothing to wait for.
    if say(&serde_json::to_string(&Facts::here()).expect("plain data")).is_ok() {
        tell_runner(WATCHES);
        retention::remove_unused(folder);
        next(&messages, &stop, SILENCE);
    }
    sweep(&std::env::var(RUN).unwrap_or_default());
    Ledger::at(&folder.join(GROUPS)).settle();
    fs::remove_dir_all(folder)
}

/// Stays as the first process of a pod, until it is told to end or no agent of the run has worked
/// beside it for as long as `alone`: then there is no runner any more.
///
/// # Errors
/// From the system.
pub fn stay(alone: Duration, run: &str) -> io::Result<()> {
    let stop = Stop::on_signals()?;
    let mark = format!("{RUN}={run}/");
    let mut last = Instant::now();
    while !stop.asked() && last.elapsed() < alone {
        if !carriers(&mark).is_empty() {
            last = Instant::now();
        }
        // What has lost its parent is a child of the first process.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        waiting::blindly(LOOK);
    }
    Ok(())
}

/// Copies this program.
///
/// # Errors
/// From the system.
pub fn copy(to: &Path) -> io::Result<()> {
    fs::copy(std::env::current_exe()?, to).map(drop)
}

/// Becomes this program with other words, and with these variables in its environment: there may be
/// no `env` beside it.
///
/// # Errors
/// From the system; else it does not return.
pub fn with(variables: &[(String, String)], words: &[String]) -> io::Result<()> {
    let variables = variables.iter().map(|(name, value)| (name, value));
    Err(Command::new(std::env::current_exe()?).args(words).envs(variables).exec())
}

/// Ends whatever carries the mark of a run, but ourselves. Agents end by themselves what they have
/// started; who has got away from them is killed.
fn sweep(run: &str) {
    if run.is_empty() {
        return;
    }
    let others = || -> BTreeSet<u32> {
        carriers(&format!("{RUN}={run}"))
            .into_iter()
            .filter(|process| *process != std::process::id())
            .collect()
    };
    let until = Instant::now() + GRACE;
    // One that ends may have started another meanwhile.
    while let Some(one) = others().first()
        && waiting::for_end(*one, until.saturating_duration_since(Instant::now()))
    {}
    for process in others() {
        signal(process, Signal::KILL);
    }
}

fn signal(process: u32, signal: Signal) {
    if let Some(process) = pid(process) {
        let _ = kill_process(process, signal);
    }
}

/// Asks a process to end; one that was frozen hears it, too.
fn end(process: u32) {
    signal(process, Signal::TERM);
    signal(process, Signal::CONT);
}

/// What is to be run.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The program and its words.
    pub words: Vec<String>,
    /// Say when connections are taken there.
    pub accepts: Option<SocketAddr>,
    /// Processors that it may use.
    pub cpu: Option<f64>,
    /// The run's folder, where control groups are noted.
    pub run: PathBuf,
    /// A folder that is to be there before.
    pub folder: Option<PathBuf>,
}

/// Runs a program to its end, or ends it when it is asked to or the connection is closed or silent.
/// Returns the exit code: its own, 0 where a request to end ended it, 128 and the signal's number
/// where another signal did, 127 where there is no such program or it may not be run, 1 where the
/// system refuses something else: that may work the next time.
///
/// # Errors
/// From the system, where it is not the program's fault.
pub fn run(order: &Order) -> io::Result<u8> {
    let stop = Stop::on_signals()?;
    let refused = |code: u8, why: &dyn std::fmt::Display| {
        tell_runner(&format!("krarup agent: {why}"));
        Ok(code)
    };
    if let Some(folder) = &order.folder
        && let Err(error) = fs::create_dir_all(folder)
    {
        return refused(1, &format!("{}: {error}", folder.display()));
    }
    let Some((program, words)) = order.words.split_first() else {
        return refused(127, &"there is nothing to run");
    };
    let cap = match order.cpu.map(|cpu| Cap::new(cpu, &Ledger::at(&order.run.join(GROUPS)))) {
        Some(Err(error)) => return refused(1, &error),
        Some(Ok(cap)) => Some(cap),
        None => None,
    };
    let child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            let is_certain =
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
            let code = if is_certain { 127 } else { 1 };
            return refused(code, &format!("`{program}` cannot be started: {error}"));
        }
    };
    let process = child.id();
    if let Some(Err(error)) = cap.as_ref().map(|cap| cap.hold(process)) {
        let _ = child.kill();
        let _ = child.wait();
        return refused(1, &error);
    }
    let (sender, messages) = channel();
    let told = match attend(child, order.accepts, sender) {
        Ok(told) => told,
        Err(error) => {
            // It may do better the next time, and must not run on by itself.
            if let Some(group) = pid(process) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            waiting::for_end(process, GRACE);
            return Err(error);
        }
    };
    let (status, asked) = outlast(&messages, process, &stop);
    if let Some(group) = pid(process) {
        // What it left behind in its group.
        let _ = kill_process_group(group, Signal::KILL);
    }
    if let Some(told) = told {
        // A process that left its group may hold it open.
        let _ = told.recv_timeout(GRACE);
    }
    tell_runner(&format!("{SPENT}{:.3}", children_cpu()));
    let status = status?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) if asked && signal == Signal::TERM.as_raw() => 0,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    })
}

/// Waits until the program has ended, by itself or because it was told to; whether it was told.
fn outlast(messages: &Receiver<Message>, process: u32, stop: &Stop) -> (io::Result<ExitStatus>, bool) {
    let word = loop {
        match next(messages, stop, SILENCE) {
            Message::Do(action, number) => {
                if let Some((group, signal)) = pid(process).zip(action.signal()) {
                    let _ = kill_process_group(group, signal);
                }
                tell_runner(&format!("{DONE}{number}"));
            }
            word => break word,
        }
    };
    match word {
        Message::Exited(status) => return (status, false),
        Message::End => end(process),
        Message::Beat | Message::Do(..) | Message::Gone => {
            if let Some(group) = pid(process) {
                let _ = kill_process_group(group, Signal::TERM);
                let _ = kill_process_group(group, Signal::CONT);
            }
            let until = Instant::now() + GRACE;
            loop {
                match messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(Message::Exited(status)) => return (status, true),
                    Ok(_) => {}
                    Err(_) => {
                        signal(process, Signal::KILL);
                        break;
                    }
                }
            }
        }
    }
    // It was told, and takes the time it needs: the runner's patience ends with the line.
    loop {
        match next(messages, &Stop::default(), SILENCE) {
            Message::Exited(status) => return (status, true),
            Message::Gone => signal(process, Signal::KILL),
            Message::End | Message::Do(..) | Message::Beat => {}
        }
    }
}

/// Looks at the machine each second until it is told to end, and writes what it saw into a folder;
/// the clients begin `lead` after it does.
///
/// # Errors
/// From the system.
pub fn watch(into: &Path, subjects: Vec<Subject>, lead: Seconds) -> io::Result<()> {
    let run = std::env::var(RUN).unwrap_or_default();
    // All machines of a run: two of them may be one.
    let family = match run.split_once('/') {
        Some((run, _)) => ProcessFamily::Carriers(format!("{RUN}={run}/")),
        None => ProcessFamily::Children,
    };
    let (sender, messages) = channel();
    listen(sender)?;
    let stop = Stop::on_signals()?;
    let monitor = Monitor::begin_for(family, subjects)?;
    tell_runner(WATCHES);
    next(&messages, &stop, SILENCE);
    monitor.end().with_lead(lead).write(into)
}

/// Says what a limit of processor time gives on this machine, as JSON.
///
/// # Errors
/// Where control groups cannot be written.
pub fn calibrate(machine: &str, cpu: f64, run: &Path) -> io::Result<()> {
    let ledger = Ledger::at(&run.join(GROUPS));
    let found = calibrate_here(machine, cpu, &ledger).map_err(io::Error::other)?;
    say(&serde_json::to_string(&found).expect("plain data"))
}

/// Answers each line with the time on the wall, in nanoseconds since 1970.
///
/// # Errors
/// From the system.
pub fn clock() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        line?;
        say(&wall().0.to_string())?;
    }
    Ok(())
}

/// Says a port of this address that is free.
///
/// # Errors
/// From the system; where this machine does not have the address.
pub fn port(address: &str) -> io::Result<()> {
    say(&free_port(address)?.to_string())
}

/// Asks a station what comes on standard input, and says its answer.
///
/// # Errors
/// From the system.
pub fn ask(address: &Address) -> io::Result<()> {
    let mut words = String::new();
    io::stdin().read_to_string(&mut words)?;
    say(&ask_station(address, &words)?)
}

/// Says how long each of some connections took, in seconds, as JSON.
///
/// # Errors
/// From the system.
pub fn ping(address: &Address, count: u32) -> io::Result<()> {
    say(&serde_json::to_string(&round_trips(address, count)?).expect("plain data"))
}

/// Writes a folder's files to standard output.
///
/// # Errors
/// From the system.
pub fn give(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "files that the runner does not take in whole are an error"
    )]
    let out = io::stdout();
    parcel::pack(folder, &mut io::BufWriter::new(out.lock()))
}

/// Makes the files that come on standard input in a folder.
///
/// # Errors
/// From the system.
pub fn take(folder: &Path) -> io::Result<()> {
    parcel::unpack(BufReader::new(io::stdin().lock()), folder).map(drop)
}

/// Throws away all that is in a folder.
///
/// # Errors
/// From the system.
pub fn empty(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(folder)
}

/// How much is poured at most, in bytes, and for how long; it is counted for somewhat longer, and
/// no more.
const POURED: (u64, Duration) = (256 << 20, Duration::from_millis(600));
/// For how long what comes is counted.
const COUNTED: Duration = Duration::from_millis(1_200);

/// Listens at a port of this address, takes what one pours, and says the bits per second of its
/// second half: the beginning is a sender that feels its way, and whatever buffers let through at
/// once.
///
/// # Errors
/// From the system.
pub fn sink(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0))?;
    let _ = writeln!(io::stderr(), "listening on {}", listener.local_addr()?);
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(COUNTED))?;
    let mut buffer = vec![0; 1 << 18];
    let (mut looks, mut bytes, mut begun) = (Vec::new(), 0_u64, None);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        let begun = *begun.get_or_insert_with(Instant::now);
        bytes += count as u64;
        looks.push((begun.elapsed().as_secs_f64(), bytes));
        if begun.elapsed() >= COUNTED {
            break;
        }
    }
    say(&serde_json::to_string(&rate(&looks)).expect("plain data"))
}

/// Bits per second over the second half of what came; none where too little did.
fn rate(looks: &[(Seconds, u64)]) -> Option<f64> {
    let (end, all) = *looks.last()?;
    let (middle, half) = *looks.iter().find(|(_, bytes)| *bytes * 2 >= all)?;
    (end > middle && all > half).then(|| (all - half) as f64 * 8.0 / (end - middle))
}

/// Sends as much as it can for a moment.
///
/// # Errors
/// Where no program listens there.
pub fn pour(to: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
    stream.set_write_timeout(Some(COUNTED))?;
    let (most, length) = POURED;
    let (chunk, begun) = (vec![0; 1 << 16], Instant::now());
    let mut sent = 0;
    while sent < most && begun.elapsed() < length && stream.write_all(&chunk).is_ok() {
        sent += chunk.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_second_half() {
        // A burst at once, then 1000 bytes a second.
        let looks: Vec<(Seconds, u64)> =
            (0..=10).map(|second| (f64::from(second), 5_000 + 1_000 * second as u64)).collect();
        assert_eq!(rate(&looks), Some(8_000.0));
        assert_eq!(rate(&[(0.0, 10)]), None);
        assert_eq!(rate(&[]), None);
    }

    #[test]
    fn a_silent_connection_ends_the_agent() {
        let (sender, messages) = channel();
        sender.send(Message::Beat).unwrap();
        assert!(
            matches!(next(&messages, &Stop::default(), Duration::from_millis(1)), Message::Gone),
            "a beat, then silence"
        );
        sender.send(Message::Beat).unwrap();
        sender.send(Message::End).unwrap();
        assert!(matches!(next(&messages, &Stop::default(), SILENCE), Message::End));
        drop(sender);
        assert!(matches!(next(&messages, &Stop::default(), SILENCE), Message::Gone));
    }

    #[test]
    fn what_is_poured_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let taker =
            thread::spawn(move || io::copy(&mut listener.accept().unwrap().0, &mut io::sink()).unwrap());
        pour(to).unwrap();
        assert!(taker.join().unwrap() > 0);
    }
}
