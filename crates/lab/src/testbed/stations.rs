//! Servers, middleware and clients as processes: how each is started, and how one knows that it is ready.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use krarup_net::Address;

use super::process::{Process, StationError, free_port};
use crate::ledger::Ledger;
use crate::plan::Cell;
use crate::spec::{Program, Station};
use crate::stop::Stop;

/// How long a station may take to be ready or to end.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// How many servers, where nobody says.
pub const SERVERS: u32 = 3;

/// A station that can be asked. A process started here ends with this value.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: Address,
    /// Its process, where it was started here.
    pub process: Option<Process>,
}

/// How stations are started: the same words, whoever asks.
#[derive(Clone, Debug)]
pub struct Starter {
    /// This program, for its subcommands.
    pub krarup: PathBuf,
    /// Heard while one waits.
    pub stop: Stop,
    /// Where it is written down what was started, so that it can be ended by another when we cannot.
    pub ledger: Ledger,
}

/// What a kind of server is, in words for the report.
///
/// # Errors
/// Where memcached is asked for and not installed, or a running one does not answer.
pub fn kind(servers: &Station) -> Result<String, StationError> {
    let installed = version();
    match servers.program {
        Some(Program::Memcached) if installed.is_none() => Err(StationError {
            name: "memcached".into(),
            why: "is not installed; install Debian's package memcached, or use the program `cache`".into(),
            said: Vec::new(),
        }),
        Some(Program::Memcached | Program::Auto) => Ok(installed.unwrap_or_else(cache)),
        Some(_) => Ok(cache()),
        None if servers.addresses.is_empty() => Ok(servers.command[0].get_ref().clone()),
        None => {
            let addresses = parse(&servers.addresses)?;
            let mut versions = addresses.iter().map(tell_version).collect::<Result<Vec<_>, _>>()?;
            versions.dedup();
            Ok(format!("running {}", versions.join(", ")))
        }
    }
}

fn cache() -> String {
    format!("krarup cache {}", env!("CARGO_PKG_VERSION"))
}

fn parse(addresses: &[String]) -> Result<Vec<Address>, StationError> {
    let read = |text: &String| {
        text.parse().map_err(|why: String| StationError {
            name: format!("server {text}"),
            why,
            said: Vec::new(),
        })
    };
    addresses.iter().map(read).collect()
}

/// The words that a cell's stations of one kind differ in.
pub fn words(station: &Station, cell: &Cell) -> Vec<String> {
    [cell.render(&station.command), cell.render(&station.flags)].concat()
}

impl Starter {
    /// This program, for one of its subcommands.
    pub fn krarup(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.krarup);
        command.arg(subcommand);
        command
    }

    /// Starts the servers of a cell.
    ///
    /// # Errors
    /// When one cannot be started or does not answer; those that were started before are ended.
    pub fn servers(
        &self,
        station: &Station,
        cell: &Cell,
        commands: &mut Vec<String>,
    ) -> Result<Vec<Running>, StationError> {
        if !station.addresses.is_empty() {
            let addresses = parse(&station.addresses)?;
            return Ok(addresses.into_iter().map(|address| Running { address, process: None }).collect());
        }
        let program = match station.program {
            Some(Program::Auto) if version().is_some() => Some(Program::Memcached),
            Some(Program::Auto) => Some(Program::Cache),
            other => other,
        };
        let flags = cell.render(&station.flags);
        (1..=station.count.unwrap_or(SERVERS))
            .map(|number| {
                let name = format!("server {number}");
                match program {
                    Some(Program::Memcached) => self.memcached(&name, &flags, commands),
                    Some(_) => {
                        let mut command = self.krarup("cache");
                        command.args(["--listen", "127.0.0.1:0", "--memory", "128MiB"]).args(&flags);
                        self.that_tells(&name, command, commands)
                    }
                    None => self.that_is_told(&name, &cell.render(&station.command), &flags, &[], commands),
                }
            })
            .collect()
    }

    /// Starts the middleware of a cell. `records` is where `krarup proxy` writes its statistics when it ends.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn middleware(
        &self,
        station: &Station,
        cell: &Cell,
        servers: &[Address],
        records: &Path,
        commands: &mut Vec<String>,
    ) -> Result<Vec<Running>, StationError> {
        let flags = cell.render(&station.flags);
        if !station.addresses.is_empty() {
            let addresses = parse(&station.addresses)?;
            return Ok(addresses.into_iter().map(|address| Running { address, process: None }).collect());
        }
        let start = |number: u32| {
            let name = format!("middleware {number}");
            if station.program.is_none() {
                return self.that_is_told(&name, &cell.render(&station.command), &flags, servers, commands);
            }
            let mut command = self.krarup("proxy");
            command.args(["--listen", "127.0.0.1:0", "--json", "--servers", &joined(servers)]);
            command.arg("--stats-dir").arg(records.join(number.to_string())).args(&flags);
            self.that_tells(&name, command, commands)
        };
        (1..=station.count.unwrap_or(1)).map(start).collect()
    }

    /// Runs the load generator to its end; returns what it wrote to its standard output.
    ///
    /// # Errors
    /// When it cannot be started, fails, or a stop was asked for.
    pub fn load(
        &self,
        targets: &[Address],
        words: &[String],
        within: Duration,
        commands: &mut Vec<String>,
    ) -> Result<Vec<u8>, StationError> {
        let mut command = self.krarup("load");
        command.args(["--progress", "none", "--servers", &joined(targets)]).args(words);
        let mut process = self.start("load", &mut command, commands)?;
        let ended = process.finish(PATIENCE + within, &self.stop, |_| {})?;
        if ended.status.success() {
            Ok(ended.stdout)
        } else {
            Err(process.error(format!("failed ({})", ended.status)))
        }
    }

    fn memcached(
        &self,
        name: &str,
        flags: &[String],
        commands: &mut Vec<String>,
    ) -> Result<Running, StationError> {
        let mut words = ["memcached", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-m", "128", "-p", "{port}"]
            .map(str::to_owned)
            .to_vec();
        if crate::host::is_root() {
            // It refuses to run as root unless told as whom.
            words.extend(["-u".to_owned(), "nobody".to_owned()]);
        }
        self.that_is_told(name, &words, flags, &[], commands)
    }

    /// Starts a process and writes down how.
    fn start(
        &self,
        name: &str,
        command: &mut Command,
        commands: &mut Vec<String>,
    ) -> Result<Process, StationError> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        commands.push(words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "));
        let process = Process::start(name, command)?;
        self.ledger.note(process.id());
        Ok(process)
    }

    /// A program of ours: it chooses its port and says which.
    fn that_tells(
        &self,
        name: &str,
        mut command: Command,
        commands: &mut Vec<String>,
    ) -> Result<Running, StationError> {
        let mut process = self.start(name, &mut command, commands)?;
        let address = process.ready("listening on ", PATIENCE, &self.stop)?;
        let address = address.parse().map_err(|why| process.error(why))?;
        Ok(Running { address, process: Some(process) })
    }

    /// A program that is told its port in place of `{port}`, and the servers in place of `{servers}`.
    fn that_is_told(
        &self,
        name: &str,
        words: &[String],
        flags: &[String],
        servers: &[Address],
        commands: &mut Vec<String>,
    ) -> Result<Running, StationError> {
        let port = free_port().map_err(|error| StationError {
            name: name.to_owned(),
            why: format!("no free port: {error}"),
            said: Vec::new(),
        })?;
        let told =
            |word: &String| word.replace("{port}", &port.to_string()).replace("{servers}", &joined(servers));
        let mut words = words.iter().chain(flags).map(told);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        let mut process = self.start(name, &mut command, commands)?;
        process.accepts(([127, 0, 0, 1], port).into(), PATIENCE, &self.stop)?;
        Ok(Running { address: Address { host: "127.0.0.1".into(), port }, process: Some(process) })
    }
}

fn joined(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// What a server says its version is: whoever answers can be asked the rest, too.
fn tell_version(address: &Address) -> Result<String, StationError> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((address.host.as_str(), address.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"version\r\nquit\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let wrong = |why: String| StationError { name: format!("server {address}"), why, said: Vec::new() };
    let answer =
        ask().map_err(|error| wrong(format!("does not answer: {error}; is a memcached running there?")))?;
    match answer.trim_end().strip_prefix("VERSION ") {
        Some(version) => Ok(version.to_owned()),
        None => Err(wrong(format!("is no memcached: it answers `{}` to `version`", answer.escape_debug()))),
    }
}

/// The installed memcached's words for its version.
fn version() -> Option<String> {
    let output = Command::new("memcached").arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
