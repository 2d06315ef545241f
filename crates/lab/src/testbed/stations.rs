//! Servers, middleware and clients as processes: how each is started, and how one knows that it is
//! ready.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use krarup_units::{Address, Mistake, Nanos, Seconds};

use super::calibrate::{LimitCalibration, calibrate_here};
use super::cap::Cap;
use super::error::StationError;
use super::host::{Host, HostGroup};
use super::hosts::Hosts;
use super::netns::Namespaces;
use super::probe::postgres;
use super::process::{ChildProcess, LastSecond, PATIENCE, StationEnd, is_refusal};
use super::remote::Remote;
use super::twemproxy;
use crate::agent::protocol::ACCEPTS;
use crate::ledger::Ledger;
use crate::plan::PlannedCell;
use crate::spec::{Action, Program, Spec, StationRole, StationSpec};
use crate::stop::Stop;

/// How long a connection may take that shows whether a station takes them.
const WITHIN: Duration = Duration::from_millis(200);
/// What a program of ours says when it is ready; its address follows.
const LISTENS: &str = "listening on ";
/// How long what is sent may wait before a link, in seconds.
const WAITS: Seconds = 0.05;
/// How long a database may take to be ready, which is made at its start.
const DATABASE_PATIENCE: Duration = Duration::from_secs(60);
/// The database that the brokers of an experiment share, and their role in it.
pub const DATABASE: &str = "messages";

/// A station that can be asked. A process started here ends with this value.
#[derive(Debug)]
pub struct Running {
    /// The host it runs on.
    pub host: Host,
    /// Where it listens.
    pub address: Address,
    /// Its process, where it was started here.
    pub process: Option<ChildProcess>,
    /// Where it tells its statistics, where that is an address of its own.
    pub statistics: Option<Address>,
    /// How it is started once more at its address, where it was.
    restart: Option<Restart>,
}

/// How a station is started once more.
#[derive(Clone, Debug)]
struct Restart {
    name: String,
    words: Vec<String>,
    /// Whether it says that it is ready; else one sees it by its taking connections.
    announces: bool,
}

/// How stations are started: the same words for every caller.
#[derive(Clone, Debug)]
pub struct Starter {
    /// This program, for its subcommands.
    pub krarup: PathBuf,
    /// Heard while one waits.
    pub stop: Stop,
    /// Where it is written down what was started, so that it can be ended by another when we
    /// cannot.
    pub ledger: Ledger,
    /// The hosts.
    pub hosts: Hosts,
    /// Processors that each of a kind may use.
    pub caps: Caps,
    /// What is known of the quotas that limit them.
    pub calibrations: Vec<LimitCalibration>,
    /// What the load generators that run now tell.
    pub seconds: LoadSeconds,
}

/// What load generators tell while they run, for one who shows it: the last second of each.
#[derive(Clone, Debug, Default)]
pub struct LoadSeconds(Arc<Mutex<Vec<LastSecond>>>);

impl LoadSeconds {
    /// The last line of each generator that runs, as `krarup load --progress json` writes it; of
    /// one that has told nothing yet, an empty one. None while no load is made.
    pub fn lines(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|second| second.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }

    fn follow(&self, seconds: Vec<LastSecond>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = seconds;
    }
}

/// Processors that each client, middleware and server may use, in this order; none: all there are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Caps {
    shares: [Option<f64>; 3],
    /// Whether the share is one that a baseline has tried: no busy loop corrects it.
    tried: [bool; 3],
}

impl Caps {
    /// What a spec asks for.
    pub fn of(spec: &Spec) -> Self {
        let cpu = |station: Option<&StationSpec>| spec.share(station?);
        let stations = &spec.stations;
        let middleware = cpu(stations.middleware.as_ref());
        let shares = [cpu(Some(&stations.clients)), middleware, cpu(Some(&stations.servers))];
        Self { shares, tried: [false; 3] }
    }

    /// With the share that a baseline tries, or has found, for one kind of station.
    pub fn with(mut self, role: StationRole, share: f64) -> Self {
        let place = Self::place(role.letter());
        (self.shares[place], self.tried[place]) = (Some(share), true);
        self
    }

    /// For a kind of station.
    pub fn for_letter(&self, letter: char) -> Option<f64> {
        self.shares[Self::place(letter)]
    }

    fn is_tried(&self, letter: char) -> bool {
        self.tried[Self::place(letter)]
    }

    fn place(letter: char) -> usize {
        match letter {
            'c' => 0,
            'm' => 1,
            _ => 2,
        }
    }
}

/// What a kind of server is, in words for the report.
///
/// # Errors
/// Where memcached is asked for and not installed, or installed for some of the servers only, or a
/// running one does not answer.
pub fn kind(servers: &StationSpec, hosts: &Hosts) -> Result<String, StationError> {
    match servers.program {
        Some(Program::Memcached | Program::Auto) => {
            let all = hosts.all('s');
            let installed: Vec<_> = all.iter().map(|host| (host.machine(), host.memcached())).collect();
            let everywhere = one_program(&installed).map_err(|why| StationError::new("memcached", why))?;
            match everywhere {
                Some(versions) => Ok(versions),
                None if servers.program == Some(Program::Auto) => Ok(cache()),
                None => Err(not_installed(&hosts.host('s', 1))),
            }
        }
        Some(Program::Broker) => Ok(format!("krarup broker {}", env!("CARGO_PKG_VERSION"))),
        Some(Program::Postgres) => postgres().ok_or_else(|| {
            let why = Mistake::new("is not installed", "install Debian's package postgresql");
            StationError::new("PostgreSQL", why)
        }),
        Some(_) => Ok(cache()),
        None if servers.addresses.is_empty() => Ok(servers.command[0].get_ref().clone()),
        None => {
            let from = hosts.host('c', 1);
            let mut versions = servers
                .addresses
                .iter()
                .map(|address| tell_version(&from, address))
                .collect::<Result<Vec<_>, _>>()?;
            versions.dedup();
            Ok(format!("running {}", versions.join(", ")))
        }
    }
}

/// Which memcached is installed on the machines of all servers, each version once; none where it is
/// on none of them.
fn one_program(installed: &[(String, Option<String>)]) -> Result<Option<String>, Mistake> {
    let (mut with, mut without, mut versions) = (Vec::new(), Vec::new(), Vec::<&str>::new());
    for (machine, version) in installed {
        let machines = if version.is_some() { &mut with } else { &mut without };
        machines.push(machine.as_str());
        versions.extend(version.as_deref());
    }
    // A machine may have several servers.
    [&mut with, &mut without, &mut versions].into_iter().for_each(|words| {
        words.sort_unstable();
        words.dedup();
    });
    if with.is_empty() || without.is_empty() {
        return Ok((!versions.is_empty()).then(|| versions.join(", ")));
    }
    Err(Mistake::new(
        format!("is installed on {} and not on {}", with.join(", "), without.join(", ")),
        "install it on the machines of all servers, or use the program `cache`",
    ))
}

/// What is said of servers that cannot be memcached on this host.
fn not_installed(host: &Host) -> StationError {
    let remote = host.remote();
    let name = remote.map_or("memcached".to_owned(), |remote| format!("memcached on {}", remote.title()));
    let hint = if remote.is_some_and(|remote| remote.node().is_some()) {
        "name an image that has it, as pod = { image = \"memcached:1.6\" }, or use the program `cache`"
    } else {
        "install Debian's package memcached, or use the program `cache`"
    };
    StationError::new(name, Mistake::new("is not installed", hint))
}

fn cache() -> String {
    format!("krarup cache {}", env!("CARGO_PKG_VERSION"))
}

/// The words that a cell's stations of one kind differ in.
pub fn words(station: &StationSpec, cell: &PlannedCell) -> Vec<String> {
    let config = cell.text(&station.config).into_iter().collect();
    [cell.render(&station.command), cell.render(&station.flags), config].concat()
}

/// The hosts that a spec asks for.
pub fn kinds(spec: &Spec) -> [HostGroup; 3] {
    let slower = spec.slower();
    let kind = |letter, station: Option<&StationSpec>, usual| HostGroup {
        letter,
        count: station.map_or(0, |station| spec.counts(station, usual).into_iter().max().unwrap_or(usual)),
        link: station.and_then(|station| station.link).map(|link| link / slower),
        // As many packets may wait as before a link that is not scaled.
        waits: Nanos::from_seconds(WAITS * slower),
        delay: station.map_or(Nanos::ZERO, |station| Nanos::from_seconds(station.delay * slower)),
    };
    let stations = &spec.stations;
    let mut clients = kind('c', Some(&stations.clients), 1);
    for baseline in spec.scale.iter().flat_map(|scale| &scale.baselines) {
        clients.count = clients.count.max(baseline.get_ref().clients.unwrap_or(0));
    }
    [
        clients,
        kind('m', stations.middleware.as_ref(), 1),
        kind('s', Some(&stations.servers), stations.servers.usual_servers()),
    ]
}

impl Starter {
    /// The host of a kind and number, from 1.
    pub fn host(&self, letter: char, number: u32) -> Host {
        let cpu = self.caps.for_letter(letter);
        let host = self.hosts.host(letter, number);
        // Shares of two kinds may be the same by chance.
        let corrected = !self.caps.is_tried(letter);
        let known = self.calibrations.iter().find(|one| corrected && one.is_of(&host.machine(), cpu));
        // A pod has a limit of its own.
        Host { cpu: cpu.or(host.cpu), quota: known.map(|one| one.written).or(cpu), ..host }
    }

    /// Finds out what the quotas of a spec give on the machines they are set on, each once, by a
    /// busy loop of a second or two; those that are known stay as they are, and so do those that
    /// what was published of single stations decides. Whether they can be had shows here, too:
    /// better now than in the first trial.
    ///
    /// # Errors
    /// Where control groups cannot be written, with what to do.
    pub fn calibrate(&mut self, spec: &Spec) -> Result<(), StationError> {
        for HostGroup { letter, count, .. } in kinds(spec) {
            let Some(cpu) = self.caps.for_letter(letter) else { continue };
            if self.caps.is_tried(letter) {
                continue;
            }
            for number in 1..=count {
                let host = self.hosts.host(letter, number);
                let machine = host.machine();
                if self.calibrations.iter().any(|one| one.is_of(&machine, Some(cpu))) {
                    continue;
                }
                if self.stop.asked() {
                    return Err(StationError::new("cpu", "stopped on request"));
                }
                let found = match host.remote() {
                    Some(remote) => remote.calibrate(cpu)?,
                    None => calibrate_here(&machine, cpu, &self.ledger)?,
                };
                self.calibrations.push(found);
            }
        }
        Ok(())
    }

    /// This program, for one of its subcommands.
    pub(super) fn krarup(&self, host: &Host, words: &[&str]) -> Vec<String> {
        let program = match host.remote() {
            Some(remote) => remote.krarup().to_owned(),
            None => self.krarup.to_string_lossy().into_owned(),
        };
        std::iter::once(program).chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Starts the servers of a cell.
    ///
    /// # Errors
    /// When one cannot be started or does not answer; those that were started before are ended.
    pub fn servers(
        &self,
        station: &StationSpec,
        cell: &PlannedCell,
        commands: &mut Vec<String>,
    ) -> Result<Vec<Running>, StationError> {
        if !station.addresses.is_empty() {
            return Ok(station.addresses.iter().cloned().map(running).collect());
        }
        let flags = cell.render(&station.flags);
        (1..=cell.count(station, station.usual_servers()))
            .map(|number| {
                let (name, host) = (format!("server {number}"), self.host('s', number));
                let program = match station.program {
                    Some(Program::Auto) if host.memcached().is_some() => Some(Program::Memcached),
                    Some(Program::Auto) => Some(Program::Cache),
                    other => other,
                };
                let (ours, patience): (&[&str], _) = match program {
                    Some(Program::Memcached) => return self.memcached(&name, host, &flags, commands),
                    None => {
                        let words = [cell.render(&station.command), flags.clone()].concat();
                        return self.start_at_free_port(&name, host, &words, (&[], None), commands);
                    }
                    Some(Program::Broker) => (&["broker", "--listen"], PATIENCE),
                    Some(Program::Postgres) => (&["agent", "postgres"], DATABASE_PATIENCE),
                    Some(_) => (&["cache", "--memory", "128MiB", "--listen"], PATIENCE),
                };
                let mut words = self.krarup(&host, ours);
                words.push(any_port(&host));
                if program == Some(Program::Postgres) {
                    words.push("--".to_owned());
                }
                words.extend_from_slice(&flags);
                self.start_that_announces(&name, host, &words, (None, patience), commands)
            })
            .collect()
    }

    /// Starts the middleware of a cell. `records` is where a program of ours writes its statistics
    /// when it ends.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn middleware(
        &self,
        station: &StationSpec,
        cell: &PlannedCell,
        servers: &[Address],
        records: &Path,
        commands: &mut Vec<String>,
    ) -> Result<Vec<Running>, StationError> {
        let flags = cell.render(&station.flags);
        if !station.addresses.is_empty() {
            return Ok(station.addresses.iter().cloned().map(running).collect());
        }
        let start = |number: u32| {
            let (name, host) = (format!("middleware {number}"), self.host('m', number));
            let config = cell
                .text(&station.config)
                .map(|text| Config { text, path: records.join(format!("{number}.conf")) });
            if station.program.is_none() {
                let words = [cell.render(&station.command), flags.clone()].concat();
                return self.start_at_free_port(&name, host, &words, (servers, config.as_ref()), commands);
            }
            if station.program == Some(Program::Twemproxy) {
                let config = config.unwrap_or_else(|| Config {
                    text: String::new(),
                    path: records.join(format!("{number}.conf")),
                });
                return self.twemproxy(&name, host, (servers, &config), &flags, commands);
            }
            let listen = any_port(&host);
            let mut words = if station.program == Some(Program::Broker) {
                let store = format!("postgres://{DATABASE}@{}/{DATABASE}?sslmode=disable", joined(servers));
                self.krarup(&host, &["broker", "--listen", &listen, "--store", &store])
            } else {
                self.krarup(&host, &["proxy", "--listen", &listen, "--json", "--servers", &joined(servers)])
            };
            if let Some(config) = &config {
                let filled = |text: String| command_of(&text.replace("{host}", &host.address), servers);
                config.write(&name, &host, filled)?;
                words.extend(["--config".to_owned(), host.path(&config.path)]);
            }
            let folder = host.path(&records.join(number.to_string()));
            words.extend(["--stats-dir".to_owned(), folder.clone()]);
            words.extend(flags.iter().map(|word| word.replace("{records}", &folder)));
            self.start_that_announces(&name, host, &words, (Some(records), PATIENCE), commands)
        };
        (1..=cell.count(station, 1)).map(start).collect()
    }

    /// Runs load generators side by side to their ends, each with words of its own.
    ///
    /// # Errors
    /// When one cannot be started, fails, or a stop was asked for.
    pub fn load(
        &self,
        loads: &Loads<'_>,
        commands: &mut Vec<String>,
    ) -> Result<Vec<StationEnd>, StationError> {
        let words = |host: &Host, words: &[String], _| {
            let ours =
                self.krarup(host, &["load", "--progress", "json", "--servers", &joined(loads.targets)]);
            [&ours[..], words].concat()
        };
        let ended = self.side_by_side("load", loads, &words, commands);
        self.seconds.follow(Vec::new());
        ended
    }

    /// Runs load generators that are none of ours side by side to their ends. Each is told which
    /// address it asks (the targets in turn) in place of `{host}` and `{port}`, or all of them in
    /// place of `{servers}`; the answer is how each ended.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn foreign_load(
        &self,
        loads: &Loads<'_>,
        commands: &mut Vec<String>,
    ) -> Result<Vec<StationEnd>, StationError> {
        let words = |_: &Host, words: &[String], number: usize| {
            let target = &loads.targets[(number - 1) % loads.targets.len()];
            let told = |word: &String| {
                let word = word.replace("{host}", &target.host).replace("{port}", &target.port.to_string());
                command_of(&word, loads.targets)
            };
            words.iter().map(told).collect()
        };
        self.side_by_side("client", loads, &words, commands)
    }

    fn side_by_side(
        &self,
        name: &str,
        loads: &Loads<'_>,
        told: &CommandWords<'_>,
        commands: &mut Vec<String>,
    ) -> Result<Vec<StationEnd>, StationError> {
        let mut all = Vec::new();
        for (number, words) in (1_u32..).zip(loads.words) {
            let host = self.host('c', number);
            let words = told(&host, words, number as usize);
            all.push(self.start(&format!("{name} {number}"), &host, &words, (loads.out, None), commands)?);
        }
        self.seconds.follow(all.iter().map(ChildProcess::last_second).collect());
        // A client that asks a server that was cut off would wait for a long time.
        let stands = || self.hosts.network().map_or(Ok(()), Namespaces::stands);
        let mut ends = Vec::new();
        for process in &mut all {
            let ended = process.finish(PATIENCE + loads.within, &self.stop, stands)?;
            if !ended.status.success() {
                let error = process.error(format!("failed ({})", ended.status));
                return Err(StationError { certain: is_refusal(ended.status), ..error });
            }
            ends.push(ended);
        }
        Ok(ends)
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
        if host.is_root() && !host.is_alone() {
            // It refuses to run as root unless told as which user.
            words.extend(["-u".to_owned(), "nobody".to_owned()]);
        } else if host.is_root() {
            // There is no other user; in one more namespace it is not root.
            words.splice(0..0, ["unshare".to_owned(), "-U".to_owned()]);
        }
        words.extend_from_slice(flags);
        self.start_at_free_port(name, host, &words, (&[], None), commands)
    }

    /// twemproxy before these servers. What it has to say it writes beside its configuration.
    fn twemproxy(
        &self,
        name: &str,
        host: Host,
        (servers, keys): (&[Address], &Config),
        flags: &[String],
        commands: &mut Vec<String>,
    ) -> Result<Running, StationError> {
        let free = || {
            let port = host.free_port();
            port.map_err(|error| StationError::new(name, format!("no free port: {error}")))
        };
        let (port, mut statistics) = (free()?, free()?);
        while statistics == port {
            statistics = free()?;
        }
        let at = |port| Address { host: host.address.clone(), port };
        let (address, statistics) = (at(port), at(statistics));
        let text = twemproxy::configuration(&keys.text, &address, servers);
        let text = text.map_err(|why| StationError { certain: true, ..StationError::new(name, why) })?;
        keys.write(name, &host, |_| text)?;
        let [config, log] = [&keys.path, &keys.path.with_extension("log")].map(|path| host.path(path));
        let words = [twemproxy::PROGRAM, "-c", &config, "-o", &log, "-v", twemproxy::LEVEL];
        let words = words.into_iter().map(str::to_owned);
        let told = ["-a", &host.address, "-s", &statistics.port.to_string()].map(str::to_owned);
        let words: Vec<String> = words.chain(told).chain(flags.iter().cloned()).collect();
        let process = self.start_until_it_accepts(name, &host, &words, &address, commands)?;
        let restart = Restart { name: name.to_owned(), words, announces: false };
        let statistics = Some(statistics);
        Ok(Running { host, address, process: Some(process), statistics, restart: Some(restart) })
    }

    /// Starts a process and writes down how. On another machine `folder` is made for what it
    /// writes, and it is said when connections are taken at `accepts`.
    pub(super) fn start(
        &self,
        name: &str,
        host: &Host,
        words: &[String],
        (folder, accepts): (Option<&Path>, Option<SocketAddr>),
        commands: &mut Vec<String>,
    ) -> Result<ChildProcess, StationError> {
        let line = host.words(words).join(" ");
        if let Some(remote) = host.remote() {
            commands.push(format!("{}: {line}", host.name));
            return remote.start(name, words, (host.quota, folder), accepts);
        }
        commands.push(line);
        let mut command = host.command(words);
        self.ledger.mark(&mut command);
        let mut process = ChildProcess::start(name, &mut command)?;
        self.ledger.note(process.id());
        if let Some(quota) = host.quota {
            process.limit(Cap::new(quota, &self.ledger)?)?;
        }
        Ok(process)
    }

    /// Monitors know programs by their numbers, also those on other machines.
    fn learn_number(&self, host: &Host, process: &mut ChildProcess) -> Result<(), StationError> {
        if host.remote().is_some() { Remote::started(process, &self.stop) } else { Ok(()) }
    }

    /// A program of ours: it chooses its port and says which.
    pub(super) fn start_that_announces(
        &self,
        name: &str,
        host: Host,
        words: &[String],
        (folder, patience): (Option<&Path>, Duration),
        commands: &mut Vec<String>,
    ) -> Result<Running, StationError> {
        let mut process = self.start(name, &host, words, (folder, None), commands)?;
        self.learn_number(&host, &mut process)?;
        let address = process.ready(LISTENS, patience, &self.stop)?;
        let address: Address = address.parse().map_err(|why| process.error(why))?;
        let any = any_port(&host);
        let there = |word: &String| if *word == any { address.to_string() } else { word.clone() };
        let restart =
            Restart { name: name.to_owned(), words: words.iter().map(there).collect(), announces: true };
        Ok(Running { host, address, process: Some(process), statistics: None, restart: Some(restart) })
    }

    /// A program that is told its host in place of `{host}`, its port in place of `{port}`, the
    /// servers in place of `{servers}`, and its configuration, which is told the same, in place of
    /// `{config}`.
    fn start_at_free_port(
        &self,
        name: &str,
        host: Host,
        words: &[String],
        (servers, config): (&[Address], Option<&Config>),
        commands: &mut Vec<String>,
    ) -> Result<Running, StationError> {
        let wrong = |why: String| StationError::new(name, why);
        let port = host.free_port().map_err(|error| wrong(format!("no free port: {error}")))?;
        let told = |word: &str| {
            let word = word.replace("{port}", &port.to_string()).replace("{host}", &host.address);
            command_of(&word, servers)
        };
        let path = config.map_or(String::new(), |config| host.path(&config.path));
        if let Some(config) = config {
            config.write(name, &host, |text| told(&text))?;
        }
        let words: Vec<String> = words.iter().map(|word| told(word).replace("{config}", &path)).collect();
        let address = Address { host: host.address.clone(), port };
        let process = self.start_until_it_accepts(name, &host, &words, &address, commands)?;
        let restart = Restart { name: name.to_owned(), words, announces: false };
        Ok(Running { host, address, process: Some(process), statistics: None, restart: Some(restart) })
    }

    /// A program that says nothing when it is ready: it takes connections then.
    fn start_until_it_accepts(
        &self,
        name: &str,
        host: &Host,
        words: &[String],
        address: &Address,
        commands: &mut Vec<String>,
    ) -> Result<ChildProcess, StationError> {
        let ip = address.host.parse().map_err(|_| {
            let what = format!("`{}` is no address in numbers, which this program needs", address.host);
            let hint = "write the number as `address` of the host, or as krarup_address in the inventory";
            StationError { certain: true, ..StationError::new(name, Mistake::new(what, hint)) }
        })?;
        let to = SocketAddr::new(ip, address.port);
        let mut process = self.start(name, host, words, (None, Some(to)), commands)?;
        self.learn_number(host, &mut process)?;
        if host.remote().is_some() {
            process.ready(ACCEPTS, PATIENCE, &self.stop)?;
        } else {
            let connects = || host.connect(to, WITHIN).is_ok();
            process.accepts(to, connects, PATIENCE, &self.stop)?;
        }
        Ok(process)
    }

    /// Does to a station what is asked, and waits until it is done.
    ///
    /// # Errors
    /// When it cannot be done, or the station has ended by itself before.
    pub fn apply(
        &self,
        running: &mut Running,
        action: Action,
        commands: &mut Vec<String>,
    ) -> Result<(), StationError> {
        let none = || StationError {
            name: running.address.to_string(),
            why: format!("{action}: it was not started here"),
            hint: String::new(),
            said: Vec::new(),
            certain: true,
        };
        let (Some(process), Some(restart)) = (running.process.as_mut(), &running.restart) else {
            return Err(none());
        };
        if action != Action::Restart {
            return process.apply(action, PATIENCE, &self.stop);
        }
        if !process.has_ended() {
            process.apply(Action::Kill, PATIENCE, &self.stop)?;
        }
        let Restart { name, words, announces } = restart;
        running.process = Some(if *announces {
            let mut process = self.start(name, &running.host, words, (None, None), commands)?;
            self.learn_number(&running.host, &mut process)?;
            process.ready(LISTENS, PATIENCE, &self.stop)?;
            process
        } else {
            self.start_until_it_accepts(name, &running.host, words, &running.address, commands)?
        });
        Ok(())
    }

    /// Makes sure that nothing of an earlier trial is on the hosts.
    ///
    /// # Errors
    /// Where one is out of reach.
    pub fn clear(&self) -> Result<(), StationError> {
        if let Some(network) = self.hosts.network() {
            network.mend(&self.krarup, &self.ledger, &self.stop)?;
        }
        self.hosts.machines().iter().try_for_each(|machine| machine.clear())
    }

    /// Brings here what stations on other machines wrote into the place of this folder, from each
    /// machine that gives it.
    ///
    /// # Errors
    /// The first, where one is out of reach.
    pub fn collect(&self, folder: &Path) -> Result<(), StationError> {
        let machines = self.hosts.machines();
        machines.iter().map(|machine| machine.collect(folder, &self.stop)).fold(Ok(()), Result::and)
    }
}

/// The words that start a load generator: of its host, its own words and its number.
type CommandWords<'a> = dyn Fn(&Host, &[String], usize) -> Vec<String> + 'a;

/// Where a program listens that chooses its port itself.
fn any_port(host: &Host) -> String {
    Address { host: host.address.clone(), port: 0 }.to_string()
}

/// Load generators that run side by side.
#[derive(Clone, Copy, Debug)]
pub struct Loads<'a> {
    /// The addresses that they ask.
    pub targets: &'a [Address],
    /// What each is told.
    pub words: &'a [Vec<String>],
    /// How long they take, beside the usual patience.
    pub within: Duration,
    /// Where they write.
    pub out: Option<&'a Path>,
}

/// A configuration file that a middleware is started with; it stays with the records of the trial.
struct Config {
    text: String,
    path: PathBuf,
}

impl Config {
    fn write(
        &self,
        name: &str,
        host: &Host,
        told: impl FnOnce(String) -> String,
    ) -> Result<(), StationError> {
        let (text, written) =
            (told(self.text.clone()), self.path.parent().map_or(Ok(()), fs::create_dir_all));
        written
            .and_then(|()| fs::write(&self.path, &text))
            .map_err(|error| StationError::new(name, format!("{}: {error}", self.path.display())))?;
        host.remote().map_or(Ok(()), |remote| remote.put(&self.path, &text))
    }
}

/// A station that the lab did not start.
fn running(address: Address) -> Running {
    Running { host: Host::here(), address, process: None, statistics: None, restart: None }
}

/// A word with `{servers}` replaced by all of them, `{server1}`, `{server2}` … by one, and
/// `{server1.host}` and `{server1.port}` by its parts.
fn command_of(word: &str, servers: &[Address]) -> String {
    let all = word.replace("{servers}", &joined(servers));
    (1..).zip(servers).fold(all, |word, (number, server)| {
        word.replace(&format!("{{server{number}}}"), &server.to_string())
            .replace(&format!("{{server{number}.host}}"), &server.host)
            .replace(&format!("{{server{number}.port}}"), &server.port.to_string())
    })
}

fn joined(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// What a server says its version is: a server that answers can be asked the rest.
fn tell_version(from: &Host, address: &Address) -> Result<String, StationError> {
    let wrong = |why: Mistake| StationError::new(format!("server {address}"), why);
    let silent = |error| Mistake::new(format!("does not answer: {error}"), "is a memcached running there?");
    let answer = from.ask(address, "version\r\nquit\r\n").map_err(|error| wrong(silent(error)))?;
    match answer.strip_prefix("VERSION ") {
        Some(version) => Ok(version.to_owned()),
        None => {
            Err(wrong(format!("is no memcached: it answers `{}` to `version`", answer.escape_debug()).into()))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::remote::tests::remote;
    use super::super::ssh::fleet::tests::fleet;
    use super::*;

    /// Starts on this machine, without limits.
    pub(crate) fn starter() -> Starter {
        Starter {
            krarup: PathBuf::new(),
            stop: Stop::default(),
            ledger: Ledger::at(Path::new("")),
            hosts: Hosts::Here,
            caps: Caps::default(),
            calibrations: Vec::new(),
            seconds: LoadSeconds::default(),
        }
    }

    #[test]
    fn what_machines_wrote_is_brought_though_another_is_out_of_reach() {
        let here = std::env::temp_dir().join(format!("krarup-brought-{}", std::process::id()));
        let stop = Stop::default();
        let machines = ["exit 1", "echo 4 one.log; printf four; echo end", "echo no files"]
            .map(|script| Arc::new(remote(script, &here, &stop)));
        let hosts = Hosts::Fleet(Arc::new(fleet(machines.to_vec())));
        let error = Starter { hosts, stop, ..starter() }.collect(&here).unwrap_err().to_string();
        let brought = fs::read_to_string(here.join("one.log")).unwrap();
        fs::remove_dir_all(&here).unwrap();
        assert_eq!(brought, "four");
        assert!(error.contains("is out of reach"), "{error}");
    }

    #[test]
    fn a_program_listens_at_an_address_of_either_kind() {
        let at = |address: &str| any_port(&Host { address: address.into(), ..Host::here() });
        assert_eq!([at("10.0.0.4"), at("fd00::4")], ["10.0.0.4:0", "[fd00::4]:0"]);
    }

    /// Each attempt would end like the first.
    #[test]
    fn a_host_that_is_a_name_is_refused_for_certain_where_a_program_needs_its_number() {
        let (host, address) = (Host::here(), Address { host: "a.example".into(), port: 1 });
        let begun = starter().start_until_it_accepts("server 1", &host, &[], &address, &mut Vec::new());
        let error = begun.unwrap_err();
        assert!(error.certain && error.to_string().contains("no address in numbers"), "{error}");
    }

    #[test]
    fn servers_on_several_machines_are_one_program() {
        let of = |versions: &[Option<&str>]| {
            let named = ["h1", "h2", "h1"].into_iter().zip(versions);
            let installed: Vec<(String, Option<String>)> =
                named.map(|(name, version)| (name.to_owned(), version.map(str::to_owned))).collect();
            one_program(&installed)
        };
        let (one, two) = (Some("memcached 1.6.18"), Some("memcached 1.6.38"));
        assert_eq!(of(&[None, None]).unwrap(), None);
        assert_eq!(of(&[one, one]).unwrap().as_deref(), one);
        assert_eq!(of(&[two, one, two]).unwrap().as_deref(), Some("memcached 1.6.18, memcached 1.6.38"));
        let why = of(&[one, None, one]).unwrap_err().to_string();
        assert!(why.starts_with("is installed on h1 and not on h2; install it"), "{why}");
    }

    #[test]
    fn a_share_that_a_baseline_has_found_is_written_as_it_is() {
        let caps = Caps { shares: [Some(0.25); 3], ..Caps::default() };
        let busy_loop = LimitCalibration {
            machine: Host::here().machine(),
            asked: 0.25,
            plain: Some(0.24),
            written: 0.26,
            got: Some(0.25),
        };
        let caps = caps.with(StationRole::Servers, 0.25);
        let starter = Starter { caps, calibrations: vec![busy_loop], ..starter() };
        let given = ['c', 'm', 's'].map(|letter| starter.host(letter, 1));
        assert_eq!(given.each_ref().map(|host| host.cpu), [Some(0.25); 3]);
        assert_eq!(given.map(|host| host.quota), [Some(0.26), Some(0.26), Some(0.25)]);
    }
}
