//! Servers, middleware and clients as processes: how each is started, and how one knows that it is ready.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use krarup_net::Address;

use super::cap::Cap;
use super::netns::{Host, Kind, Network};
use super::process::{Process, StationError, free_port};
use crate::ledger::Ledger;
use crate::plan::Cell;
use crate::spec::{Program, Spec, Station};
use crate::stop::Stop;

/// How long a station may take to be ready or to end.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// How many servers, where nobody says.
pub const SERVERS: u32 = 3;

/// A station that can be asked. A process started here ends with this value.
#[derive(Debug)]
pub struct Running {
    /// The host it runs on.
    pub host: Host,
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
    /// The hosts; none: all is on this machine as it is.
    pub network: Option<Arc<Network>>,
    /// Processors that each of a kind may use.
    pub caps: Caps,
}

/// Processors that each client, middleware and server may use; none: all there are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Caps {
    /// Each client.
    pub clients: Option<f64>,
    /// Each middleware.
    pub middleware: Option<f64>,
    /// Each server.
    pub servers: Option<f64>,
}

impl Caps {
    /// What a spec asks for. Whether it can be had is tried at once: better now than in the first trial.
    ///
    /// # Errors
    /// Where control groups cannot be written, with what to do.
    pub fn of(spec: &Spec, ledger: &Ledger) -> Result<Self, StationError> {
        let cpu = |station: Option<&Station>| station.and_then(|station| station.cpu);
        let stations = &spec.stations;
        let caps = Self {
            clients: cpu(Some(&stations.clients)),
            middleware: cpu(stations.middleware.as_ref()),
            servers: cpu(Some(&stations.servers)),
        };
        if let Some(cpu) = caps.clients.or(caps.middleware).or(caps.servers) {
            drop(Cap::new(cpu, ledger)?);
        }
        Ok(caps)
    }
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
        Some(Program::Broker) => Ok(format!("krarup broker {}", env!("CARGO_PKG_VERSION"))),
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
    let config = cell.text(&station.config).into_iter().collect();
    [cell.render(&station.command), cell.render(&station.flags), config].concat()
}

/// The hosts that a spec asks for.
pub fn kinds(spec: &Spec) -> [Kind; 3] {
    let kind = |letter, station: Option<&Station>, usual| Kind {
        letter,
        count: station.map_or(0, |station| spec.counts(station, usual).into_iter().max().unwrap_or(usual)),
        link: station.and_then(|station| station.link),
    };
    let stations = &spec.stations;
    [
        kind('c', Some(&stations.clients), 1),
        kind('m', stations.middleware.as_ref(), 1),
        kind('s', Some(&stations.servers), SERVERS),
    ]
}

impl Starter {
    /// The host of a kind and number, from 1.
    fn host(&self, letter: char, number: u32) -> Host {
        let host = self.network.as_ref().and_then(|network| network.host(letter, number));
        let cpu = match letter {
            'c' => self.caps.clients,
            'm' => self.caps.middleware,
            _ => self.caps.servers,
        };
        Host { cpu, ..host.cloned().unwrap_or_else(Host::here) }
    }

    /// This program, for one of its subcommands.
    fn krarup(&self, host: &Host, subcommand: &str) -> Command {
        let mut command = host.command(&self.krarup);
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
            return Ok(addresses.into_iter().map(running).collect());
        }
        let program = match station.program {
            Some(Program::Auto) if version().is_some() => Some(Program::Memcached),
            Some(Program::Auto) => Some(Program::Cache),
            other => other,
        };
        let flags = cell.render(&station.flags);
        (1..=cell.count(station, SERVERS))
            .map(|number| {
                let (name, host) = (format!("server {number}"), self.host('s', number));
                match program {
                    Some(Program::Memcached) => self.memcached(&name, host, &flags, commands),
                    Some(Program::Broker) => {
                        let mut command = self.krarup(&host, "broker");
                        command.args(["--listen", &format!("{}:0", host.address)]).args(&flags);
                        self.that_tells(&name, host, command, commands)
                    }
                    Some(_) => {
                        let mut command = self.krarup(&host, "cache");
                        let listen = format!("{}:0", host.address);
                        command.args(["--listen", &listen, "--memory", "128MiB"]).args(&flags);
                        self.that_tells(&name, host, command, commands)
                    }
                    None => self.that_is_told(
                        &name,
                        host,
                        &[cell.render(&station.command), flags.clone()].concat(),
                        (&[], None),
                        commands,
                    ),
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
            return Ok(addresses.into_iter().map(running).collect());
        }
        let start = |number: u32| {
            let (name, host) = (format!("middleware {number}"), self.host('m', number));
            let config = cell
                .text(&station.config)
                .map(|text| Config { text, path: records.join(format!("{number}.conf")) });
            if station.program.is_none() {
                let words = [cell.render(&station.command), flags.clone()].concat();
                return self.that_is_told(&name, host, &words, (servers, config.as_ref()), commands);
            }
            let mut command = self.krarup(&host, "proxy");
            command.args([
                "--listen",
                &format!("{}:0", host.address),
                "--json",
                "--servers",
                &joined(servers),
            ]);
            if let Some(config) = &config {
                config.write(&name, |text| text)?;
                command.arg("--config").arg(&config.path);
            }
            command.arg("--stats-dir").arg(records.join(number.to_string())).args(&flags);
            self.that_tells(&name, host, command, commands)
        };
        (1..=cell.count(station, 1)).map(start).collect()
    }

    /// Runs load generators side by side to their ends, each with words of its own.
    ///
    /// # Errors
    /// When one cannot be started, fails, or a stop was asked for.
    pub fn load(
        &self,
        targets: &[Address],
        words: &[Vec<String>],
        within: Duration,
        commands: &mut Vec<String>,
    ) -> Result<(), StationError> {
        let mut all = Vec::new();
        for (number, words) in (1..).zip(words) {
            let host = self.host('c', number);
            let mut command = self.krarup(&host, "load");
            command.args(["--progress", "none", "--servers", &joined(targets)]).args(words);
            all.push(self.start(&format!("load {number}"), &host, &mut command, commands)?);
        }
        for process in &mut all {
            let ended = process.finish(PATIENCE + within, &self.stop, |_| {})?;
            if !ended.status.success() {
                return Err(process.error(format!("failed ({})", ended.status)));
            }
        }
        Ok(())
    }

    /// Runs load generators that are none of ours side by side to their ends. Each is told whom it asks (the targets in turn) in place of
    /// `{host}` and `{port}`, or all of them in place of `{servers}`; the answer is what each wrote to its standard output.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn foreign_load(
        &self,
        targets: &[Address],
        words: &[Vec<String>],
        within: Duration,
        commands: &mut Vec<String>,
    ) -> Result<Vec<String>, StationError> {
        let mut all = Vec::new();
        for (number, words) in (1_u32..).zip(words) {
            let host = self.host('c', number);
            let target = &targets[(number as usize - 1) % targets.len()];
            let told = |word: &String| {
                let word = word.replace("{host}", &target.host).replace("{port}", &target.port.to_string());
                told_of(&word, targets)
            };
            let mut words = words.iter().map(told);
            let mut command = host.command(Path::new(&words.next().unwrap_or_default()));
            command.args(words);
            all.push(self.start(&format!("client {number}"), &host, &mut command, commands)?);
        }
        let mut said = Vec::new();
        for process in &mut all {
            let ended = process.finish(PATIENCE + within, &self.stop, |_| {})?;
            if !ended.status.success() {
                return Err(process.error(format!("failed ({})", ended.status)));
            }
            said.push(String::from_utf8_lossy(&ended.stdout).into_owned());
        }
        Ok(said)
    }

    fn memcached(
        &self,
        name: &str,
        host: Host,
        flags: &[String],
        commands: &mut Vec<String>,
    ) -> Result<Running, StationError> {
        let words = ["memcached", "-l", "{host}", "-U", "0", "-t", "1", "-m", "128", "-p", "{port}"];
        let mut words = words.map(str::to_owned).to_vec();
        if crate::host::is_root() {
            // It refuses to run as root unless told as whom.
            words.extend(["-u".to_owned(), "nobody".to_owned()]);
        }
        words.extend_from_slice(flags);
        self.that_is_told(name, host, &words, (&[], None), commands)
    }

    /// Starts a process and writes down how.
    fn start(
        &self,
        name: &str,
        host: &Host,
        command: &mut Command,
        commands: &mut Vec<String>,
    ) -> Result<Process, StationError> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        commands.push(words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "));
        let mut process = Process::start(name, command)?;
        self.ledger.note(process.id());
        if let Some(cpu) = host.cpu {
            process.limit(Cap::new(cpu, &self.ledger)?)?;
        }
        Ok(process)
    }

    /// A program of ours: it chooses its port and says which.
    fn that_tells(
        &self,
        name: &str,
        host: Host,
        mut command: Command,
        commands: &mut Vec<String>,
    ) -> Result<Running, StationError> {
        let mut process = self.start(name, &host, &mut command, commands)?;
        let address = process.ready("listening on ", PATIENCE, &self.stop)?;
        let address = address.parse().map_err(|why| process.error(why))?;
        Ok(Running { host, address, process: Some(process) })
    }

    /// A program that is told its host in place of `{host}`, its port in place of `{port}`, the servers in place of `{servers}`, and its
    /// configuration, which is told the same, in place of `{config}`.
    fn that_is_told(
        &self,
        name: &str,
        host: Host,
        words: &[String],
        (servers, config): (&[Address], Option<&Config>),
        commands: &mut Vec<String>,
    ) -> Result<Running, StationError> {
        let port = free_port().map_err(|error| StationError {
            name: name.to_owned(),
            why: format!("no free port: {error}"),
            said: Vec::new(),
        })?;
        let told = |word: &str| {
            let word = word.replace("{port}", &port.to_string()).replace("{host}", &host.address);
            told_of(&word, servers)
        };
        let path = config.map_or(String::new(), |config| config.path.to_string_lossy().into_owned());
        if let Some(config) = config {
            config.write(name, |text| told(&text))?;
        }
        let mut words = words.iter().map(|word| told(word).replace("{config}", &path));
        let mut command = host.command(Path::new(&words.next().unwrap_or_default()));
        command.args(words);
        let mut process = self.start(name, &host, &mut command, commands)?;
        let ip =
            host.address.parse().map_err(|_| process.error(format!("{} is no address", host.address)))?;
        process.accepts(&host, SocketAddr::new(ip, port), PATIENCE, &self.stop)?;
        let address = Address { host: host.address.clone(), port };
        Ok(Running { host, address, process: Some(process) })
    }
}

/// A configuration file that a middleware is started with; it stays with the records of the trial.
struct Config {
    text: String,
    path: PathBuf,
}

impl Config {
    fn write(&self, name: &str, told: impl FnOnce(String) -> String) -> Result<(), StationError> {
        let written = self.path.parent().map_or(Ok(()), fs::create_dir_all);
        written.and_then(|()| fs::write(&self.path, told(self.text.clone()))).map_err(|error| StationError {
            name: name.to_owned(),
            why: format!("{}: {error}", self.path.display()),
            said: Vec::new(),
        })
    }
}

/// A station that somebody else started.
fn running(address: Address) -> Running {
    Running { host: Host::here(), address, process: None }
}

/// Says something to a station from a host, and listens to the end.
pub(super) fn ask(from: &Host, address: &Address, words: &str) -> std::io::Result<String> {
    let resolved = (address.host.as_str(), address.port).to_socket_addrs()?.next();
    let to = resolved.ok_or_else(|| std::io::Error::other("its name has no address"))?;
    let mut stream = from.connect(to, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(words.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
}

/// A word with `{servers}` and `{server1}`, `{server2}` … replaced by all of them and by one.
fn told_of(word: &str, servers: &[Address]) -> String {
    let all = word.replace("{servers}", &joined(servers));
    (1..)
        .zip(servers)
        .fold(all, |word, (number, server)| word.replace(&format!("{{server{number}}}"), &server.to_string()))
}

fn joined(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// What a server says its version is: whoever answers can be asked the rest, too.
fn tell_version(address: &Address) -> Result<String, StationError> {
    let wrong = |why: String| StationError { name: format!("server {address}"), why, said: Vec::new() };
    let answer = ask(&Host::here(), address, "version\r\nquit\r\n")
        .map_err(|error| wrong(format!("does not answer: {error}; is a memcached running there?")))?;
    match answer.strip_prefix("VERSION ") {
        Some(version) => Ok(version.to_owned()),
        None => Err(wrong(format!("is no memcached: it answers `{}` to `version`", answer.escape_debug()))),
    }
}

/// The installed memcached's words for its version.
fn version() -> Option<String> {
    let output = Command::new("memcached").arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
