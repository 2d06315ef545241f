//! One machine: how we come there, what it is, and what is done there.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use krarup_units::Address;
use krarup_units::{Mistake, Nanos, Seconds};

use super::super::calibrate::LimitCalibration;
use super::super::clock::{ClockExchange, Offset, wall};
use super::super::error::StationError;
use super::super::process::{ChildProcess, Drain, Feed, PATIENCE};
use super::destination::{ConnectionRole, Destination};
use crate::agent::facts::Facts;
use crate::agent::protocol::{FOLDER, RUN, STARTED, WATCHES};
use crate::ledger::Ledger;
use crate::parcel;
use crate::spec::Ssh;
use crate::stop::Stop;

/// How long copying the program, or bringing records, may take.
const CARRYING: Duration = Duration::from_secs(600);
/// How often the other clock is asked.
const EXCHANGES: usize = 8;
/// Room that must be left on the other machine beside the program, in bytes.
const ROOM: u64 = 256 << 20;

/// This program, as it is copied.
#[derive(Debug)]
pub struct Binary {
    path: PathBuf,
    size: u64,
    /// What its bytes are, in hexadecimal digits.
    hash: String,
}

impl Binary {
    /// Reads it once.
    ///
    /// # Errors
    /// From the system.
    pub fn read(path: &Path) -> io::Result<Self> {
        use sha2::{Digest, Sha256};
        let mut digest = Sha256::new();
        let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
        loop {
            let bytes = reader.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            digest.update(bytes);
            let count = bytes.len();
            reader.consume(count);
        }
        let hash = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { path: path.to_owned(), size: fs::metadata(path)?.len(), hash })
    }
}

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
    destination: Destination,
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
    sessions: Mutex<Option<Sessions>>,
}

/// What must live as long as anything is done there.
#[derive(Debug)]
struct Sessions {
    /// The agent that leaves nothing behind. It ends first.
    hold: ChildProcess,
    /// The connection that all share.
    master: ChildProcess,
}

fn wrong(destination: &Destination, why: impl Into<Mistake>) -> StationError {
    StationError::new(&destination.name, why)
}

fn words<const COUNT: usize>(words: [&str; COUNT]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// Keeps what is written.
fn kept() -> Drain {
    Box::new(super::super::process::keep_all)
}

/// What a machine says before our program is there.
#[derive(Debug, Default, PartialEq, Eq)]
struct Look {
    system: String,
    cache: String,
    /// Bytes.
    free: u64,
    /// The address of its own at which ssh reached it.
    address: String,
    there: bool,
}

/// Makes the cache and says what is to be known. `$1` is the cache, `$2` the hash.
const LOOK: &str = r#"umask 077
case $1 in
  '') cache=${XDG_CACHE_HOME:-$HOME/.cache}/krarup ;;
  '~/'*) cache=$HOME/${1#??} ;;
  *) cache=$1 ;;
esac
mkdir -p "$cache/runs" "$cache/$2" || exit 1
echo "system $(uname -sm)"
echo "cache $cache"
echo "free $(df -Pk "$cache" | awk 'NR == 2 { print $4 }')"
echo "connection $SSH_CONNECTION"
if [ -x "$cache/$2/krarup" ]; then echo there; fi
"#;

/// Takes the program in: `$1` is where it goes, `$2` how long it is. It has its name when it is
/// whole.
const TAKE: &str = r#"umask 077
cat > "$1.$$" && [ "$(wc -c < "$1.$$")" -eq "$2" ] && chmod 700 "$1.$$" && mv "$1.$$" "$1" && exit 0
rm -f "$1.$$"
exit 1
"#;

/// Keeps the connection open as long as it is fed.
const KEEP: &str = r#"echo krarup: connected >&2
while read -r word; do if [ "$word" = end ]; then exit 0; fi; done
"#;

impl Look {
    fn read(text: &str) -> Self {
        let mut look = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "system" => look.system = value.to_owned(),
                "cache" => look.cache = value.to_owned(),
                "free" => look.free = value.trim().parse::<u64>().unwrap_or(0).saturating_mul(1_024),
                // Client and its port, then the machine and its port.
                "connection" => look.address = value.split(' ').nth(2).unwrap_or_default().to_owned(),
                "there" => look.there = true,
                _ => {}
            }
        }
        look
    }

    /// Why our program cannot be brought there.
    fn refused(&self, binary: &Binary) -> Option<String> {
        let ours = format!("Linux {}", std::env::consts::ARCH);
        // The kernel's word for one of them is not the compiler's.
        let theirs = self.system.replace("arm64", "aarch64").replace("amd64", "x86_64");
        if theirs != ours {
            return Some(format!(
                "is `{}`, and this program was built for `{ours}`: build krarup for it, install it there, and give its path as `krarup` in [ssh]",
                self.system
            ));
        }
        let needed = ROOM + if self.there { 0 } else { binary.size };
        (self.free < needed).then(|| {
            format!("has {} MiB left in {}, and {} are needed: make room, or give another folder as `cache` in [ssh]", self.free >> 20, self.cache, needed >> 20)
        })
    }
}

impl Remote {
    /// Goes there: connects, looks what machine it is, brings our program where it is not there
    /// yet, and makes the run's folder.
    ///
    /// # Errors
    /// Where it cannot be reached, is another kind of machine, has another version of the program,
    /// no room, or not the address it should have.
    pub fn reach(
        name: &str,
        destination: Destination,
        address: Option<&str>,
        (ssh, binary): (&Ssh, &Binary),
        run: RemoteRun<'_>,
    ) -> Result<Self, StationError> {
        let RemoteRun { stop, ledger, .. } = run;
        let master = connect(&destination, run)?;
        let cache = ssh.cache.as_deref().unwrap_or_default();
        let script = |script: &str, more: [&str; 2]| words(["sh", "-c", script, "krarup", more[0], more[1]]);
        let look = destination.call(
            &script(LOOK, [cache, &binary.hash]),
            (Feed::Nothing, kept()),
            PATIENCE,
            stop,
        )?;
        let look = Look::read(&String::from_utf8_lossy(&look.stdout));
        let krarup = match &ssh.krarup {
            Some(path) => path.clone(),
            None => {
                if let Some(why) = look.refused(binary) {
                    return Err(wrong(&destination, why));
                }
                let path = format!("{}/{}/krarup", look.cache, binary.hash);
                if !look.there {
                    let file = File::open(&binary.path).map_err(|error| {
                        wrong(&destination, format!("{}: {error}", binary.path.display()))
                    })?;
                    let script = script(TAKE, [&path, &binary.size.to_string()]);
                    destination.call(&script, (Feed::All(Box::new(file)), kept()), CARRYING, stop)?;
                }
                path
            }
        };
        let (mark, runs) =
            (format!("{}/{name}", run.number), format!("{}/runs/{}-{name}", look.cache, run.number));
        let (hold, facts) = hold(&destination, &krarup, (&mark_of(&mark, 1), &folder_of(&runs, 1)), run)?;
        let remote = Self {
            name: name.to_owned(),
            address: address.map_or(look.address, str::to_owned),
            destination,
            facts,
            krarup,
            runs,
            run: mark,
            connected: AtomicU32::new(1),
            here: run.folder.to_owned(),
            ledger: ledger.clone(),
            sessions: Mutex::new(Some(Sessions { hold, master })),
        };
        let ours = env!("CARGO_PKG_VERSION");
        if remote.facts.version != ours {
            let why = format!(
                "has krarup {} at {}, and this is {ours}: install the same version there, or take `krarup` out of [ssh]",
                remote.facts.version, remote.krarup
            );
            return Err(wrong(&remote.destination, why));
        }
        // What is told to listen at this address must be able to.
        remote.free_port(&remote.address).map_err(|error| StationError {
            why: format!(
                "programs cannot listen at {} there: give the address at which the other machines reach it, as {{ host = \"…\", address = \"…\" }} or \
                 krarup_address in the inventory",
                remote.address
            ),
            ..error
        })?;
        Ok(remote)
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
        let whole = sessions.as_mut().is_some_and(|both| !both.master.has_ended() && !both.hold.has_ended());
        if !whole {
            *sessions = None;
            let run = RemoteRun { number: "", folder: &self.here, ledger: &self.ledger, stop };
            let master = connect(&self.destination, run)?;
            self.connected.fetch_add(1, Ordering::Relaxed);
            let (hold, _) = hold(&self.destination, &self.krarup, (&self.mark(), &self.folder()), run)?;
            *sessions = Some(Sessions { hold, master });
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
        &self.destination.name
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
        let mut words = agent((&self.mark(), &self.folder()), &self.krarup);
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words
    }

    fn call(&self, more: &[&str], feed: Feed) -> Result<String, StationError> {
        let ended = self.destination.call(&self.agent(more), (feed, kept()), PATIENCE, &Stop::default())?;
        Ok(String::from_utf8_lossy(&ended.stdout).trim_end().to_owned())
    }

    fn answer<T: serde::de::DeserializeOwned>(&self, more: &[&str]) -> Result<T, StationError> {
        let said = self.call(more, Feed::Nothing)?;
        serde_json::from_str(&said).map_err(|error| {
            wrong(
                &self.destination,
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
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn watch(
        &self,
        into: &Path,
        subjects: &[crate::monitor::Subject],
        stop: &Stop,
    ) -> Result<ChildProcess, StationError> {
        let mut line = self.agent(&["watch", &self.path(into)]);
        for subject in subjects {
            line.extend(["--subject".to_owned(), format!("{}={}", subject.process, subject.name)]);
        }
        let mut watch = self.governed("monitor", &line)?;
        watch.ready(WATCHES, PATIENCE, stop)?;
        Ok(watch)
    }

    fn governed(&self, name: &str, line: &[String]) -> Result<ChildProcess, StationError> {
        let name = format!("{name} on {}", self.name);
        let process =
            ChildProcess::start_agent(&name, &mut self.destination.command(ConnectionRole::Session, line))?;
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
        self.destination.call(
            &self.agent(&["give", &self.path(here)]),
            (Feed::Nothing, drain),
            CARRYING,
            stop,
        )?;
        match unpacked.recv() {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                Err(wrong(&self.destination, format!("what it wrote cannot be brought here: {error}")))
            }
            Err(_) => Err(wrong(&self.destination, "what it wrote cannot be brought here")),
        }
    }

    /// How far its clock is from ours.
    ///
    /// # Errors
    /// Where it does not answer, or its clock is too far off for clients to begin together.
    pub fn clock(&self) -> Result<Offset, StationError> {
        let exchanges = self
            .exchanges()
            .map_err(|error| wrong(&self.destination, format!("its clock cannot be asked: {error}")))?;
        let Some(offset) = Offset::of(&exchanges) else {
            return Err(wrong(&self.destination, "its clock did not answer"));
        };
        match offset.refused() {
            None => Ok(offset),
            Some(why) => Err(wrong(&self.destination, why)),
        }
    }

    fn exchanges(&self) -> io::Result<Vec<ClockExchange>> {
        use std::os::unix::process::CommandExt;
        let mut command = self.destination.command(ConnectionRole::Session, &self.agent(&["clock"]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn()?;
        let (mut ask, answers) = (child.stdin.take(), child.stdout.take());
        let mut answers = BufReader::new(answers.expect("stdout is piped")).lines();
        let mut exchanges = Vec::new();
        for _ in 0..EXCHANGES {
            let asked = wall();
            let told = ask.as_mut().map_or(Ok(()), |ask| ask.write_all(b"\n").and_then(|()| ask.flush()));
            let Some(Ok(answer)) = answers.next().filter(|_| told.is_ok()) else { break };
            let Ok(theirs) = answer.trim().parse() else { break };
            exchanges.push(ClockExchange { asked, theirs: Nanos(theirs), answered: wall() });
        }
        drop(ask);
        child.wait()?;
        Ok(exchanges)
    }
}

fn mark_of(run: &str, connected: u32) -> String {
    format!("{run}/{connected}/")
}

fn folder_of(runs: &str, connected: u32) -> String {
    format!("{runs}-{connected}")
}

/// The words that every agent begins with.
fn agent((mark, folder): (&str, &str), krarup: &str) -> Vec<String> {
    vec!["env".into(), format!("{RUN}={mark}"), format!("{FOLDER}={folder}"), krarup.into(), "agent".into()]
}

/// Opens the connection that all share.
fn connect(
    destination: &Destination,
    RemoteRun { ledger, stop, .. }: RemoteRun<'_>,
) -> Result<ChildProcess, StationError> {
    let mut master = ChildProcess::start_agent(
        &destination.name,
        &mut destination.command(ConnectionRole::Master, &words(["sh", "-c", KEEP])),
    )?;
    ledger.note(master.id());
    match master.ready("krarup: connected", 2 * PATIENCE, stop) {
        Ok(_) => Ok(master),
        Err(error) if stop.asked() => Err(error),
        Err(error) => {
            let Mistake { what, hint, .. } = destination.unreachable();
            Err(StationError { why: what, hint, ..error })
        }
    }
}

/// Starts the agent that leaves nothing of the run behind, and hears what machine it is.
fn hold(
    destination: &Destination,
    krarup: &str,
    (mark, folder): (&str, &str),
    RemoteRun { stop, ledger, .. }: RemoteRun<'_>,
) -> Result<(ChildProcess, Facts), StationError> {
    let words = [agent((mark, folder), krarup), words(["hold", folder])].concat();
    let (tell, said) = channel();
    let drain: Drain = Box::new(move |stdout| {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = tell.send(line);
        Vec::new()
    });
    let mut hold = ChildProcess::start_with(
        &destination.name,
        &mut destination.command(ConnectionRole::Session, &words),
        Feed::Beats,
        drain,
    )?;
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

impl Drop for Sessions {
    fn drop(&mut self) {
        // In this order: the agent ends through the connection.
        if !self.hold.has_ended() {
            let _ = self.hold.stop(PATIENCE);
        }
        if !self.master.has_ended() {
            let _ = self.master.stop(PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "system Linux x86_64\ncache /home/me/.cache/krarup\nfree 1048576\nconnection 10.0.0.1 50000 10.0.0.2 22\nthere\n";

    #[test]
    fn what_a_machine_says_is_understood() {
        let look = Look::read(SAID);
        assert_eq!(
            look,
            Look {
                system: "Linux x86_64".into(),
                cache: "/home/me/.cache/krarup".into(),
                free: 1 << 30,
                address: "10.0.0.2".into(),
                there: true
            }
        );
    }

    #[test]
    fn another_kind_of_machine_and_a_full_one_are_refused_with_what_to_do() {
        let binary = Binary { path: "x".into(), size: 10 << 20, hash: "00".into() };
        let look = Look {
            system: format!("Linux {}", std::env::consts::ARCH),
            free: 1 << 30,
            cache: "/c".into(),
            ..Look::default()
        };
        assert_eq!(look.refused(&binary), None);
        let other = Look { system: "Linux riscv64".into(), ..Look::read(SAID) };
        let why = other.refused(&binary).unwrap();
        assert!(why.contains("is `Linux riscv64`") && why.contains("give its path as `krarup`"), "{why}");
        let full = Look { free: 3 << 20, ..look };
        let why = full.refused(&binary).unwrap();
        assert!(why.contains("has 3 MiB left in /c, and 266 are needed"), "{why}");
    }

    #[test]
    fn a_program_is_known_by_its_bytes() {
        let path = std::env::temp_dir().join(format!("krarup-binary-{}", std::process::id()));
        fs::write(&path, b"abc").unwrap();
        let binary = Binary::read(&path).unwrap();
        assert_eq!(binary.size, 3);
        assert_eq!(binary.hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        fs::remove_file(path).unwrap();
    }

    /// Whatever a shell of the other machine makes of it.
    #[test]
    fn the_script_that_looks_runs_in_a_plain_shell() {
        let cache = std::env::temp_dir().join(format!("krarup-look-{}", std::process::id()));
        let look = || {
            let mut command = std::process::Command::new("sh");
            command
                .args(["-c", LOOK, "krarup", &cache.to_string_lossy(), "00ff"])
                .env("SSH_CONNECTION", "1.1.1.1 1 2.2.2.2 2");
            Look::read(&String::from_utf8(command.output().unwrap().stdout).unwrap())
        };
        let first = look();
        assert!(first.free > 0 && !first.there && first.address == "2.2.2.2", "{first:?}");
        assert_eq!(first.cache, cache.to_string_lossy());
        let path = cache.join("00ff/krarup");
        let take = |size: &str| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", TAKE, "krarup", &path.to_string_lossy(), size]).stdin(Stdio::piped());
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(b"four").unwrap();
            child.wait().unwrap().success()
        };
        assert!(!take("5"), "one that was cut off is not taken");
        assert!(!look().there && fs::read_dir(cache.join("00ff")).unwrap().next().is_none());
        assert!(take("4") && look().there);
        fs::remove_dir_all(cache).unwrap();
    }
}
