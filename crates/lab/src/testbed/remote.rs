//! One machine: how we come there, what it is, and what is done there.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use krarup_net::clock::wall;
use krarup_units::Address;
use krarup_units::{Mistake, Nanos, Seconds};

use super::calibrate::LimitCalibration;
use super::clock::{ClockExchange, Offset};
use super::error::StationError;
use super::process::{ChildProcess, Drain, Feed, PATIENCE, keep_all};
use super::transport::Transport;
use crate::agent::facts::Facts;
use crate::agent::protocol::{FOLDER, RUN, STARTED, WATCHES};
use crate::ledger::Ledger;
use crate::parcel;
use crate::stop::Stop;

/// How long copying the program, or bringing records, may take.
pub(super) const CARRYING: Duration = Duration::from_secs(600);
/// How often the other clock is asked.
const EXCHANGES: usize = 8;

/// What all machines of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct RemoteRun<'a> {
    /// Tells this run from others.
    pub number: &'a str,
    /// Our folder that stands for the run's folder there: the trial that is being run.
    pub folder: &'a Path,
    /// Where connections are noted.
    pub ledger: &'a Ledger,
    /// Heard while one waits.
    pub stop: &'a Stop,
}

/// One machine. All that was started there ends with this value.
#[derive(Debug)]
pub struct Remote {
    /// Its name in records and messages.
    pub name: String,
    /// Where the other machines reach it.
    pub address: String,
    transport: Box<dyn Transport>,
    facts: Facts,
    krarup: String,
    /// The folder there in which each connection has a folder of its own, and how that begins.
    runs: String,
    /// Which run of which machine this is: how the mark of its processes begins.
    run: String,
    /// How often we connected: what an earlier connection's agent takes away, when it finds out, is
    /// not the next one's.
    connected: AtomicU32,
    /// The folder here that stands for the one there.
    here: PathBuf,
    ledger: Ledger,
    /// Heard while its clock is asked.
    stop: Stop,
    sessions: Mutex<Option<Sessions>>,
}

/// What must live as long as anything is done there.
#[derive(Debug)]
struct Sessions {
    /// The agent that leaves nothing behind. It ends first.
    hold: ChildProcess,
    /// What all commands go through, where they go through one.
    line: Option<ChildProcess>,
}

/// Where one machine is, and where our program and the run's folders are there.
#[derive(Debug)]
pub struct RemotePlace {
    /// Its name in records and messages, which can be a folder's.
    pub name: String,
    /// Where the other machines reach it.
    pub address: String,
    /// Our program there.
    pub krarup: String,
    /// The folder there in which the run's folders are made.
    pub runs: String,
}

fn wrong(transport: &dyn Transport, why: impl Into<Mistake>) -> StationError {
    StationError::new(transport.name(), why)
}

/// Keeps what is written.
pub(super) fn kept() -> Drain {
    Box::new(keep_all)
}

/// A name that can be a folder's.
pub(super) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' }).collect()
}

/// What tells a run from all others, also those of other runners on the same machines.
pub(super) fn run_number() -> String {
    format!("{}-{:x}", std::process::id(), wall().0)
}

impl Remote {
    /// Begins to work there: an agent makes the run's folder and says what machine it is. `line` is
    /// what [`Transport::connect`] has opened.
    ///
    /// # Errors
    /// Where our program is not there, or another version of it.
    pub fn begin(
        place: RemotePlace,
        transport: Box<dyn Transport>,
        line: Option<ChildProcess>,
        run: RemoteRun<'_>,
    ) -> Result<Self, StationError> {
        let RemotePlace { name, address, krarup, runs } = place;
        let (mark, runs) = (format!("{}/{name}", run.number), format!("{runs}/{}-{name}", run.number));
        let (hold, facts) = hold(&*transport, &krarup, (&mark_of(&mark, 1), &folder_of(&runs, 1)), run)?;
        let ours = env!("CARGO_PKG_VERSION");
        if facts.version != ours {
            let what = format!("has krarup {} at {krarup}, and this is {ours}", facts.version);
            return Err(wrong(&*transport, Mistake::new(what, transport.other_version())));
        }
        Ok(Self {
            name,
            address,
            transport,
            facts,
            krarup,
            runs,
            run: mark,
            connected: AtomicU32::new(1),
            here: run.folder.to_owned(),
            ledger: run.ledger.clone(),
            stop: run.stop.clone(),
            sessions: Mutex::new(Some(Sessions { hold, line })),
        })
    }

    fn sessions(&self) -> MutexGuard<'_, Option<Sessions>> {
        self.sessions.lock().expect("no thread panics while it holds it")
    }

    /// Connects again where the connection broke.
    ///
    /// # Errors
    /// Where the machine is out of reach.
    pub fn reconnect(&self, stop: &Stop) -> Result<(), StationError> {
        let mut sessions = self.sessions();
        if !sessions.as_mut().is_some_and(Sessions::are_whole) {
            *sessions = None;
            let run = RemoteRun { number: "", folder: &self.here, ledger: &self.ledger, stop };
            let line = self.transport.connect(&self.ledger, stop)?;
            self.connected.fetch_add(1, Ordering::Relaxed);
            let (hold, _) = hold(&*self.transport, &self.krarup, (&self.mark(), &self.folder()), run)?;
            *sessions = Some(Sessions { hold, line });
        }
        Ok(())
    }

    /// What all processes carry that are started there.
    fn mark(&self) -> String {
        mark_of(&self.run, self.connected.load(Ordering::Relaxed))
    }

    /// The run's folder there.
    fn folder(&self) -> String {
        folder_of(&self.runs, self.connected.load(Ordering::Relaxed))
    }

    /// What machine it is.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The machine in messages.
    pub fn title(&self) -> &str {
        self.transport.name()
    }

    /// The node that it shares with others; none where it has a machine of its own.
    pub fn node(&self) -> Option<&str> {
        self.transport.node()
    }

    /// The folder in which its records of what the machine did are: those of several that share one
    /// machine are in that one's folder.
    pub fn watched_in(&self) -> PathBuf {
        let own = Path::new(&self.name);
        self.transport.node().map_or_else(|| own.to_owned(), |node| Path::new(&plain(node)).join(own))
    }

    /// Our program there.
    pub fn krarup(&self) -> &str {
        &self.krarup
    }

    /// The path there of what belongs to a trial here.
    pub fn path(&self, here: &Path) -> String {
        match here.strip_prefix(&self.here) {
            Ok(below) if below.as_os_str().is_empty() => self.folder() + "/trial",
            Ok(below) => format!("{}/trial/{}", self.folder(), below.display()),
            Err(_) => here.to_string_lossy().into_owned(),
        }
    }

    fn agent(&self, more: &[&str]) -> Vec<String> {
        let variables = [(RUN, &*self.mark()), (FOLDER, &*self.folder())];
        let mut words = self.transport.agent(&self.krarup, variables);
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words
    }

    fn call(&self, more: &[&str], feed: Feed) -> Result<String, StationError> {
        let ended = self.transport.call(&self.agent(more), (feed, kept()), PATIENCE, &Stop::default())?;
        Ok(String::from_utf8_lossy(&ended.stdout).trim_end().to_owned())
    }

    fn answer<T: serde::de::DeserializeOwned>(&self, more: &[&str]) -> Result<T, StationError> {
        let said = self.call(more, Feed::Nothing)?;
        serde_json::from_str(&said).map_err(|error| {
            wrong(
                &*self.transport,
                format!("`{}` was answered with `{}`: {error}", more.join(" "), said.escape_debug()),
            )
        })
    }

    /// A port of this address that is free.
    ///
    /// # Errors
    /// Where the machine does not have the address.
    pub fn free_port(&self, address: &str) -> Result<u16, StationError> {
        self.answer(&["port", address])
    }

    /// Says something to a station from there.
    ///
    /// # Errors
    /// Where the station cannot be asked.
    pub fn ask(&self, address: &Address, said: &str) -> Result<String, StationError> {
        self.call(&["ask", &address.to_string()], Feed::All(Box::new(io::Cursor::new(said.to_owned()))))
    }

    /// What a limit of processor time gives there.
    ///
    /// # Errors
    /// Where control groups cannot be written there.
    pub fn calibrate(&self, cpu: f64) -> Result<LimitCalibration, StationError> {
        self.answer(&["calibrate", &self.name, &cpu.to_string(), "--run", &self.folder()])
    }

    /// How long connections from there take.
    ///
    /// # Errors
    /// Where they are not taken.
    pub fn round_trips(&self, address: &Address, count: u32) -> Result<Vec<Seconds>, StationError> {
        self.answer(&["ping", &address.to_string(), &count.to_string()])
    }

    /// Has a program started there, under an agent that ends it when we do. It is on its way when
    /// this returns; see [`Self::started`].
    ///
    /// # Errors
    /// When ssh cannot be started.
    pub fn start(
        &self,
        name: &str,
        program: &[String],
        (quota, folder): (Option<f64>, Option<&Path>),
        accepts: Option<SocketAddr>,
    ) -> Result<ChildProcess, StationError> {
        let options = [
            ("--cpu", quota.map(|cpu| cpu.to_string())),
            ("--folder", folder.map(|folder| self.path(folder))),
            ("--accepts", accepts.map(|address| address.to_string())),
        ];
        let options = options.iter().filter_map(|(name, value)| Some([*name, value.as_deref()?]));
        let mut line = self.agent(
            &[&["run", "--run", &self.folder()][..], &options.flatten().collect::<Vec<_>>(), &["--"]]
                .concat(),
        );
        line.extend_from_slice(program);
        self.governed(name, &line)
    }

    /// Waits until a program was started there, and learns its number.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn started(process: &mut ChildProcess, stop: &Stop) -> Result<(), StationError> {
        let number = process.ready(STARTED, PATIENCE, stop)?;
        process.set_remote_id(number.parse().ok());
        Ok(())
    }

    /// Looks at the machine each second, and writes what it saw into the place of a folder of ours.
    /// It is on its way when this returns; see [`Self::watches`].
    ///
    /// # Errors
    /// When ssh cannot be started.
    pub fn watch(
        &self,
        into: &Path,
        subjects: &[crate::monitor::Subject],
        lead: Seconds,
    ) -> Result<ChildProcess, StationError> {
        let mut line = self.agent(&["watch", &self.path(into), "--lead", &lead.to_string()]);
        for subject in subjects {
            line.extend(["--subject".to_owned(), format!("{}={}", subject.process, subject.name)]);
        }
        self.governed("monitor", &line)
    }

    /// Waits until one that is to look at a machine does.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn watches(watch: &mut ChildProcess, stop: &Stop) -> Result<(), StationError> {
        watch.ready(WATCHES, PATIENCE, stop).map(drop)
    }

    fn governed(&self, name: &str, line: &[String]) -> Result<ChildProcess, StationError> {
        let name = format!("{name} on {}", self.name);
        let process = ChildProcess::start_agent(&name, &mut self.transport.command(line))?;
        self.ledger.note(process.id());
        Ok(process)
    }

    /// Writes a file that belongs to a trial here there, too.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn put(&self, here: &Path, text: &str) -> Result<(), StationError> {
        let (Some(parent), Some(name)) = (here.parent(), here.file_name()) else { return Ok(()) };
        let mut bytes = format!("{} {}\n", text.len(), name.to_string_lossy()).into_bytes();
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(b"end\n");
        self.call(&["take", &self.path(parent)], Feed::All(Box::new(io::Cursor::new(bytes)))).map(drop)
    }

    /// Throws away what an earlier trial left.
    ///
    /// # Errors
    /// From the machine.
    pub fn clear(&self) -> Result<(), StationError> {
        self.call(&["empty", &self.path(&self.here)], Feed::Nothing).map(drop)
    }

    /// Brings what stations wrote into the place of a folder of ours.
    ///
    /// # Errors
    /// From the machine, and where it cannot be written here.
    pub fn collect(&self, here: &Path, stop: &Stop) -> Result<(), StationError> {
        let (tell, unpacked) = channel();
        let into = here.to_owned();
        let drain: Drain = Box::new(move |stdout| {
            let _ = tell.send(parcel::unpack(BufReader::new(stdout), &into));
            Vec::new()
        });
        let give = self.agent(&["give", &self.path(here)]);
        let called = self.transport.call(&give, (Feed::Nothing, drain), CARRYING, stop);
        // The call waits for the drain. Where files cannot be written here, the other end fails,
        // too, and is not the cause; of a stream that breaks off it is.
        match (unpacked.try_recv(), called) {
            (Ok(Err(error)), called) if called.is_ok() || error.kind() != io::ErrorKind::InvalidData => {
                Err(wrong(&*self.transport, format!("what it wrote cannot be brought here: {error}")))
            }
            (_, Err(error)) => Err(error),
            (Ok(_), Ok(_)) => Ok(()),
            (Err(_), Ok(_)) => Err(wrong(&*self.transport, "what it wrote cannot be brought here")),
        }
    }

    /// How far its clock is from ours.
    ///
    /// # Errors
    /// Where it does not answer, or its clock is too far off for clients to begin together.
    pub fn clock(&self) -> Result<Offset, StationError> {
        let exchanges = self.exchanges().map_err(|error| StationError {
            why: format!("its clock cannot be asked: {}", error.why),
            ..error
        })?;
        let Some(offset) = Offset::of(&exchanges) else {
            return Err(wrong(&*self.transport, "its clock did not answer"));
        };
        match offset.refused() {
            None => Ok(offset),
            Some(why) => Err(wrong(&*self.transport, why)),
        }
    }

    fn exchanges(&self) -> Result<Vec<ClockExchange>, StationError> {
        let (questions, mut ask) = io::pipe().map_err(|error| wrong(&*self.transport, error.to_string()))?;
        let (tell, told) = channel();
        let drain: Drain = Box::new(move |stdout| {
            let mut answers = BufReader::new(stdout).lines();
            for _ in 0..EXCHANGES {
                let asked = wall();
                let written = ask.write_all(b"\n");
                let Some(Ok(answer)) = answers.next().filter(|_| written.is_ok()) else { break };
                let Ok(theirs) = answer.trim().parse() else { break };
                let _ = tell.send(ClockExchange { asked, theirs: Nanos(theirs), answered: wall() });
            }
            Vec::new()
        });
        let feed = Feed::All(Box::new(questions));
        self.transport.call(&self.agent(&["clock"]), (feed, drain), PATIENCE, &self.stop)?;
        Ok(told.try_iter().collect())
    }
}

fn mark_of(run: &str, connected: u32) -> String {
    format!("{run}/{connected}/")
}

fn folder_of(runs: &str, connected: u32) -> String {
    format!("{runs}-{connected}")
}

/// Starts the agent that leaves nothing of the run behind, and hears what machine it is.
fn hold(
    transport: &dyn Transport,
    krarup: &str,
    (mark, folder): (&str, &str),
    RemoteRun { stop, ledger, .. }: RemoteRun<'_>,
) -> Result<(ChildProcess, Facts), StationError> {
    let mut words = transport.agent(krarup, [(RUN, mark), (FOLDER, folder)]);
    words.extend(["hold".to_owned(), folder.to_owned()]);
    let (tell, said) = channel();
    let drain: Drain = Box::new(move |stdout| {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = tell.send(line);
        Vec::new()
    });
    let mut hold =
        ChildProcess::start_with(transport.name(), &mut transport.command(&words), Feed::Beats, drain)?;
    ledger.note(hold.id());
    hold.ready(WATCHES, PATIENCE, stop)?;
    let said = said.recv_timeout(PATIENCE).unwrap_or_default();
    let facts = serde_json::from_str(&said).map_err(|error| {
        hold.error(Mistake::new(
            format!("`{krarup}` there is no krarup that we understand: {error}"),
            "install the same version there",
        ))
    })?;
    Ok((hold, facts))
}

impl Sessions {
    fn are_whole(&mut self) -> bool {
        !self.hold.has_ended() && !self.line.as_mut().is_some_and(ChildProcess::has_ended)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        // In this order: the agent ends through the connection.
        for process in std::iter::once(&mut self.hold).chain(&mut self.line) {
            if !process.has_ended() {
                let _ = process.stop(PATIENCE);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::process::{Command, ExitStatus};

    use super::*;

    /// A machine on which every command is this one of a shell.
    #[derive(Debug)]
    struct Shell(String);

    impl Transport for Shell {
        fn name(&self) -> &str {
            "m1"
        }

        fn command(&self, _: &[String]) -> Command {
            let mut command = Command::new("sh");
            command.args(["-c", &self.0]);
            command
        }

        fn connect(&self, _: &Ledger, _: &Stop) -> Result<Option<ChildProcess>, StationError> {
            Ok(None)
        }

        fn broke(&self, _: ExitStatus, _: &[String]) -> bool {
            true
        }

        fn unreachable(&self) -> Mistake {
            Mistake::plain("is out of reach")
        }

        fn agent(&self, krarup: &str, _: [(&str, &str); 2]) -> Vec<String> {
            vec![krarup.to_owned()]
        }

        fn other_version(&self) -> &'static str {
            ""
        }
    }

    /// A machine on which every command is this script.
    pub(crate) fn remote(script: &str, here: &Path, stop: &Stop) -> Remote {
        Remote {
            name: "m1".into(),
            address: "127.0.0.1".into(),
            transport: Box::new(Shell(script.to_owned())),
            facts: Facts::default(),
            krarup: "krarup".into(),
            runs: "runs".into(),
            run: "1/m1".into(),
            connected: AtomicU32::new(1),
            here: here.to_owned(),
            ledger: Ledger::at(Path::new("")),
            stop: stop.clone(),
            sessions: Mutex::new(None),
        }
    }

    /// The name of the folder of a run on this machine.
    pub(crate) fn run_folder(machine: &str) -> String {
        folder_of(&format!("{}-{machine}", run_number()), 1)
    }

    #[test]
    fn a_machine_is_not_blamed_for_what_cannot_be_written_here() {
        let here = std::env::temp_dir().join(format!("krarup-collect-{}", std::process::id()));
        fs::create_dir_all(&here).unwrap();
        fs::write(here.join("clients"), b"no folder").unwrap();
        let stop = Stop::default();
        let collect = |script| remote(script, &here, &stop).collect(&here, &stop).unwrap_err().to_string();
        // More than a pipe holds: the other end fails when this one reads no more.
        let unwritten = collect("echo 8388608 clients/1.json; head -c 8388608 /dev/zero");
        let cut_off = collect("echo 8 one.json; echo one; exit 1");
        fs::remove_dir_all(&here).unwrap();
        assert!(unwritten.contains("cannot be brought here"), "{unwritten}");
        assert!(cut_off.contains("is out of reach"), "{cut_off}");
    }

    #[test]
    fn a_clock_is_asked_several_times_and_not_for_ever() {
        let stop = Stop::default();
        let here = Path::new("trial");
        let exchanges = remote("while read -r line; do echo 7; done", here, &stop).exchanges().unwrap();
        let theirs: Vec<Nanos> = exchanges.iter().map(|one| one.theirs).collect();
        assert_eq!(theirs, [Nanos(7); EXCHANGES]);
        stop.ask();
        let error = remote("exec sleep 1000", here, &stop).clock().unwrap_err().to_string();
        assert!(error.contains("its clock cannot be asked: stopped on request"), "{error}");
    }
}
