//! Trials by processes on this machine: servers that stay, a middleware made anew for each trial,
//! one load generator.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use krarup_load::LoadResult;
use krarup_load::memtier::convert::{self, ForeignRun};
use krarup_load::memtier::read::read as read_memtier;
use krarup_load::schedule::Arrivals;
use krarup_record::watch::Watch;
use krarup_units::{Address, Nanos, Seconds, text};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::clock::wall;
use super::error::StationError;
use super::netns::Namespaces;
use super::paths::{Lateness, RoundTrips};
use super::process::PATIENCE;
use super::records::{made, read, save, unreadable};
use super::ssh::fleet::Fleet;
use super::stations::{Loads, Running, SERVERS, Starter, words};
use super::watching::{ProcessId, Watching};
use crate::campaign::{DueTrial, TrialOutcome, TrialRunner};
use crate::fault::{self, Happened};
use crate::gate::Watched;
use crate::plan::PlannedCell;
use crate::platform::children_cpu;
use crate::spec::{Fault, FaultTarget, Phases, Program, Spec};

/// What one process took of the processors while a trial was measured; `cpu.json` is a list of
/// these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// `clients`, `middleware` or `servers`.
    pub station: String,
    /// Which one.
    pub name: String,
    /// Processor time, in seconds.
    pub seconds: Seconds,
    /// The processors it could have used, where that is known: 1 for a single thread.
    pub cores: f64,
}

/// What one host sent over its link while a trial was measured; `links.json` is a list of these,
/// empty where no host has a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkUse {
    /// `clients`, `middleware` or `servers`.
    pub station: String,
    /// Which one: `c1`, `m1`, `s1`.
    pub name: String,
    /// What it may send, headers included.
    pub bits_per_second: f64,
    /// What it sent, headers included.
    pub bytes: u64,
    /// In how many seconds.
    pub seconds: Seconds,
}

/// Trials on this machine.
#[derive(Debug)]
pub struct Local<'a> {
    spec: &'a Spec,
    starter: Starter,
    servers: Option<Servers>,
    /// How long before their instant several clients are told to begin together. A trial whose
    /// clients were not ready by then has failed, and the next gives them more.
    lead: Duration,
}

/// The first lead, and the longest.
const LEAD: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(20)];
/// Starting clients on other machines takes no longer than this many times what it takes to ask
/// each of these for a trifle.
const STARTS: u32 = 3;

/// Servers that run, and for whom.
#[derive(Debug)]
struct Servers {
    /// How they were started; a cell that wants others gets others.
    words: Vec<String>,
    running: Vec<Running>,
    /// Through what their keys were stored; none where nobody did.
    populated: Option<Vec<String>>,
    commands: Vec<String>,
}

impl<'a> Local<'a> {
    /// A testbed for this spec. Nothing is started yet.
    pub fn new(spec: &'a Spec, starter: Starter) -> Self {
        Self { spec, starter, servers: None, lead: LEAD[0] }
    }

    /// Ends the servers.
    ///
    /// # Errors
    /// When one had to be killed.
    pub fn end(&mut self) -> Result<(), StationError> {
        let Some(mut servers) = self.servers.take() else { return Ok(()) };
        servers
            .running
            .iter_mut()
            .filter_map(|one| one.process.as_mut())
            .try_for_each(|one| one.stop(PATIENCE).map(drop))
    }

    /// Servers that were started as this cell wants them.
    fn servers(&mut self, cell: &PlannedCell) -> Result<(), StationError> {
        let station = &self.spec.stations.servers;
        let count = cell.count(station, SERVERS);
        let wanted = [words(station, cell), vec![format!("× {count}")]].concat();
        if self.servers.as_ref().is_some_and(|servers| servers.words == wanted) {
            return Ok(());
        }
        self.end()?;
        let mut commands = Vec::new();
        let running = self.starter.servers(station, cell, &mut commands)?;
        self.servers = Some(Servers { words: wanted, running, populated: None, commands });
        Ok(())
    }

    fn trial(
        &mut self,
        cell: &PlannedCell,
        folder: &Path,
        outcome: &mut TrialOutcome,
    ) -> Result<(), StationError> {
        let begun = Instant::now();
        self.starter.clear()?;
        // Where starting something takes time, clients are told an instant that is as much later.
        let lead = (self.lead + STARTS * begun.elapsed()).min(LEAD[1]);
        self.servers(cell)?;
        let (spec, starter) = (self.spec, &self.starter);
        let clocks = starter.hosts.fleet().map_or(Ok(BTreeMap::new()), Fleet::clocks)?;
        // The path of a file of the trial where this client runs.
        let place = |client: u32, path: &Path| starter.host('c', client).path(path);
        let servers = self.servers.as_mut().expect("they were started above");
        let commands = &mut outcome.commands;
        commands.extend(servers.commands.iter().cloned());
        let asked: Vec<Address> = servers.running.iter().map(|server| server.address.clone()).collect();
        let through: Vec<String> =
            spec.stations.middleware.iter().flat_map(|station| words(station, cell)).collect();
        let records = folder.join("middleware");
        let begin = |commands: &mut Vec<String>| match &spec.stations.middleware {
            Some(station) => starter.middleware(station, cell, &asked, &records, commands),
            None => Ok(Vec::new()),
        };
        let targets = |middleware: &[Running]| match middleware {
            [] => asked.clone(),
            some => some.iter().map(|one| one.address.clone()).collect(),
        };
        let clients = Clients::of(spec, cell);
        if let Some(populate) = &spec.populate
            && servers.populated.as_ref() != Some(&through)
        {
            let mut middleware = begin(commands)?;
            let words =
                [clients.data(1), cell.render(&populate.flags), vec!["--populate-only".into()]].concat();
            let targets = targets(&middleware);
            starter.load(
                &Loads { targets: &targets, words: &[words], within: POPULATING, out: None },
                commands,
            )?;
            end(&mut middleware)?;
            servers.populated = Some(through);
        }
        let mut middleware = begin(commands)?;
        let targets = targets(&middleware);
        let Phases { warm_up, measure, cool_down } = spec.phases;
        if warm_up > 0.0 {
            let within = Duration::from_secs_f64(warm_up);
            if clients.is_foreign() {
                let out = made(&folder.join("warm-up"))?;
                let words = clients.foreign(warm_up, &|client| place(client, &out));
                let loads = Loads { targets: &targets, words: &words, within, out: Some(&out) };
                starter.foreign_load(&loads, commands)?;
            } else {
                let words = clients.words(warm_up, &|_| Vec::new());
                starter.load(&Loads { targets: &targets, words: &words, within, out: None }, commands)?;
            }
        }
        let paths = starter.round_trips(clients.count, &targets, &middleware, &servers.running)?;
        save(&folder.join("paths.json"), &paths)?;
        if let Some(why) = paths.iter().find_map(RoundTrips::refused) {
            return Err(StationError::new("network", why));
        }
        if spec.stations.middleware.as_ref().is_some_and(|station| station.program == Some(Program::Proxy)) {
            middleware.iter().try_for_each(forget)?;
        }
        let watching = Watching::begin(starter, folder, &middleware, &servers.running)?;
        let results = result_files(folder, clients.count);
        for parent in results.iter().filter_map(|file| file.parent()) {
            fs::create_dir_all(parent).map_err(|error| unreadable(parent, &error))?;
        }
        let sent =
            || starter.hosts.network().map(Namespaces::sent).transpose().map(Option::unwrap_or_default);
        let sent_before = sent()?;
        let passed = || starter.hosts.network().map(Namespaces::passed).unwrap_or_default();
        let passed_before = passed();
        let clock =
            |client: u32| clocks.get(&starter.host('c', client).machine()).copied().unwrap_or_default();
        let faults = fault::in_order(spec, cell);
        // A fault has its place in what is measured: then its beginning must be known beforehand.
        let together = (clients.count > 1 || !faults.is_empty()).then(|| wall() + Nanos::from(lead));
        let words = clients.words(measure + cool_down, &|client| {
            let mut words = vec!["--json".to_owned(), place(client, &results[client as usize - 1])];
            if cool_down > 0.0 {
                words.extend(["--cool-down".to_owned(), format!("{cool_down}s")]);
            }
            let at = together.map(|at| clock(client).theirs(at));
            words.extend(at.iter().flat_map(|at| ["--start-at".to_owned(), at.0.to_string()]));
            words
        });
        let within = Duration::from_secs_f64(measure + cool_down) + lead;
        // Runs the load to its end, and returns every command that was run.
        let load = || {
            let mut commands = Vec::new();
            if !clients.is_foreign() {
                let loads = Loads { targets: &targets, words: &words, within, out: results[0].parent() };
                return starter.load(&loads, &mut commands).map(|()| commands);
            }
            let out = made(&folder.join("said"))?;
            let words = clients.foreign(measure, &|client| place(client, &out));
            let words = match together {
                Some(at) => at_once(starter, &|client| clock(client).theirs(at), words),
                None => words,
            };
            let (begun, cpu) = (wall().as_seconds(), children_cpu());
            let loads = Loads { targets: &targets, words: &words, within, out: Some(&out) };
            let ends = starter.foreign_load(&loads, &mut commands)?;
            let each = (children_cpu() - cpu) / ends.len() as f64;
            starter.collect(&out)?;
            for ((number, ended), file) in (1_u32..).zip(ends).zip(&results) {
                let run = ForeignRun {
                    seconds: measure,
                    started_unix: begun,
                    connections: population(spec, cell) / clients.count,
                    cpu_seconds: ended.cpu.unwrap_or(each),
                };
                let said = String::from_utf8_lossy(&ended.stdout);
                save(file, &foreign_result(&said, &out.join(number.to_string()), run)?)?;
            }
            Ok(commands)
        };
        let mut stations = Stations { servers: &mut servers.running, middleware: &mut middleware };
        let (over, ended) = channel();
        let (order, begin) = (&faults[..], together.unwrap_or_default());
        let (loaded, applied) = std::thread::scope(|scope| {
            let faults_thread =
                scope.spawn(move || apply_faults(starter, &mut stations, order, begin, &ended));
            let loaded = load();
            drop(over);
            (loaded, faults_thread.join().expect("the thread of the faults does not panic"))
        });
        // A fault that could not be done explains what became of the load.
        let applied = applied?;
        match loaded {
            Ok(run) => commands.extend(run.into_iter().chain(applied.commands)),
            Err(error) => {
                self.lead = LEAD[1].min(2 * self.lead);
                return Err(error);
            }
        }
        if !applied.happened.is_empty() {
            save(&folder.join("faults.json"), &applied.happened)?;
        }
        let watched = watching.end()?;
        let sent_after = sent()?;
        let links = sent_before.iter().zip(&sent_after).map(|((host, link, before), (.., after))| LinkUse {
            station: match host.name.chars().next() {
                Some('c') => "clients".into(),
                Some('m') => "middleware".into(),
                _ => "servers".into(),
            },
            name: host.name.clone(),
            bits_per_second: *link,
            bytes: after.saturating_sub(*before),
            seconds: measure + cool_down,
        });
        save(&folder.join("links.json"), &links.collect::<Vec<_>>())?;
        let delays = passed_before.iter().zip(passed());
        let delays = delays.map(|((host, before), (_, after))| Lateness::between(host, *before, after));
        let delays: Vec<Lateness> = delays.collect();
        if !delays.is_empty() {
            save(&folder.join("delays.json"), &delays)?;
        }
        let mut spent_by = busy(&middleware, &servers.running);
        end(&mut middleware)?;
        starter.collect(folder)?;
        let seen = watched.keep(folder)?;
        let loads = results.iter().map(|file| read(file)).collect::<Result<Vec<LoadResult>, _>>()?;
        let mut spent: Vec<Busy> = loads.iter().enumerate().map(generator(loads.len())).collect();
        if let Some(cpu) = starter.caps.clients {
            spent.iter_mut().for_each(|busy| busy.cores = busy.cores.min(cpu));
        }
        for (busy, of) in &mut spent_by {
            let Some(seconds) = seen.spent.get(of) else { continue };
            spent.push(Busy { seconds: *seconds, ..busy.clone() });
        }
        // A process that worked for the cool-down, too, is charged with the measured part of it.
        spent.iter_mut().for_each(|busy| busy.seconds *= measure / (measure + cool_down));
        save(&folder.join("cpu.json"), &spent)?;
        if !clocks.is_empty() {
            save(&folder.join("clocks.json"), &clocks)?;
        }
        let count: u64 = loads.iter().map(|load| load.overall.count).sum();
        let waited: f64 =
            loads.iter().map(|load| load.overall.count as f64 * load.overall.response_time.mean).sum();
        outcome.throughput = loads.iter().map(|load| load.overall.throughput.0).sum();
        outcome.response = waited / count.max(1) as f64;
        let begun: Vec<(Seconds, Seconds)> = (1_u32..)
            .zip(&loads)
            .map(|(client, load)| (load.started_unix - clock(client).seconds, load.seconds))
            .collect();
        let watch = &seen.watch;
        outcome.failed = apart(&begun).or_else(|| loads.iter().find_map(|load| refused(spec, load, watch)));
        let late = || paths.iter().find_map(RoundTrips::late);
        if !faults.is_empty() {
            // A server that was killed has lost its keys: the next trial begins with servers that have
            // theirs.
            self.end()?;
        }
        outcome.disturbed =
            seen.disturbed.or_else(late).or_else(|| delays.iter().find_map(Lateness::disturbed));
        Ok(())
    }
}

/// What the load generators are told.
struct Clients {
    count: u32,
    seed: u64,
    data: Vec<String>,
    flags: Vec<String>,
    /// The words of a program that is not ours; none where it is.
    command: Vec<String>,
}

impl Clients {
    fn of(spec: &Spec, cell: &PlannedCell) -> Self {
        Self {
            count: cell.count(&spec.stations.clients, 1),
            seed: spec.seed,
            data: cell.render(&spec.data),
            flags: cell.render(&spec.stations.clients.flags),
            command: cell.render(&spec.stations.clients.command),
        }
    }

    /// Whether somebody else's program makes the load.
    fn is_foreign(&self) -> bool {
        !self.command.is_empty()
    }

    /// The words of each of somebody else's: how long it runs, and where it writes what it found
    /// out, a file for each in the folder `out`, as its client sees it.
    fn foreign(&self, seconds: Seconds, out: &dyn Fn(u32) -> String) -> Vec<Vec<String>> {
        // memtier_benchmark and its like count whole seconds.
        let seconds = (seconds.ceil() as u64).max(1).to_string();
        let words = |client: u32| {
            let file = format!("{}/{client}", out(client));
            let run = |word: &String| word.replace("{seconds}", &seconds).replace("{out}", &file);
            self.command.iter().chain(&self.flags).map(run).collect()
        };
        (1..=self.count).map(words).collect()
    }

    /// Each client draws keys of its own; what a key holds is the same for all.
    fn data(&self, client: u32) -> Vec<String> {
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(u64::from(client));
        [&["--seed".to_owned(), seed.to_string()], &self.data[..]].concat()
    }

    /// A command line for each client.
    fn words(&self, seconds: Seconds, more: &dyn Fn(u32) -> Vec<String>) -> Vec<Vec<String>> {
        let length = ["--seconds".to_owned(), format!("{seconds}s")];
        let line = |client| [&self.data(client)[..], &self.flags, &length, &more(client)].concat();
        (1..=self.count).map(line).collect()
    }
}

/// Other programs take no instant to begin at: one of ours waits for it in the place of each, and
/// becomes it.
fn at_once(starter: &Starter, at: &dyn Fn(u32) -> Nanos, words: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let waiting = |client: u32| {
        let at = at(client).0.to_string();
        starter.krarup(&starter.host('c', client), &["at", &at, "--"])
    };
    (1..).zip(words).map(|(client, words)| [waiting(client), words].concat()).collect()
}

/// How many clients a cell has: its level of the population's factor, where that is a number.
fn population(spec: &Spec, cell: &PlannedCell) -> u32 {
    cell.level(&spec.population).and_then(|level| level.0.parse().ok()).unwrap_or(1)
}

/// What somebody else's generator found out: from its file, or else from its standard output.
fn foreign_result(said: &str, file: &Path, run: ForeignRun) -> Result<LoadResult, StationError> {
    let written = fs::read_to_string(file);
    let printed = read_memtier(written.as_deref().unwrap_or(said));
    let result = printed.and_then(|printed| convert::load_result(&printed, run));
    result.map_err(|why| StationError {
        name: "clients".into(),
        why: format!("what it printed is not as memtier_benchmark or memaslap print it: {why}"),
        said: said.lines().rev().take(5).map(str::to_owned).collect(),
        certain: false,
    })
}

/// Where each client writes its result: `load.json`, or `clients/1.json` and so on where there are
/// several.
pub fn result_files(folder: &Path, clients: u32) -> Vec<PathBuf> {
    match clients {
        1 => vec![folder.join("load.json")],
        several => (1..=several).map(|client| folder.join(format!("clients/{client}.json"))).collect(),
    }
}

/// What a load generator took of the processors, by its place among so many.
fn generator(clients: usize) -> impl Fn((usize, &LoadResult)) -> Busy {
    move |(place, load)| Busy {
        station: "clients".into(),
        name: if clients == 1 { "load".into() } else { format!("load {}", place + 1) },
        seconds: load.generator.cpu_seconds,
        cores: f64::from(load.config.threads),
    }
}

/// How long storing all keys may take, beside the usual patience.
const POPULATING: Duration = Duration::from_secs(600);

impl TrialRunner for Local<'_> {
    fn run(&mut self, due: &DueTrial<'_>, folder: &Path) -> TrialOutcome {
        let mut outcome = TrialOutcome::default();
        let ended = self.trial(due.cell, folder, &mut outcome);
        // What stations say of a host that was cut off is only what came of it.
        let stands = self.starter.hosts.network().map_or(Ok(()), Namespaces::stands);
        if let Err(error) = stands.and(ended) {
            outcome.failed = Some(error.to_string());
            outcome.certain = error.certain;
            // What was written up to then may tell why.
            let _ = self.starter.collect(folder);
            // Whatever was wrong with them: the next attempt begins with servers of its own.
            let _ = self.end();
        }
        outcome
    }
}

/// Ends stations that were started for one trial.
fn end(stations: &mut [Running]) -> Result<(), StationError> {
    for process in stations.iter_mut().filter_map(|one| one.process.as_mut()) {
        let ended = process.stop(PATIENCE)?;
        if !ended.status.success() && ended.status.code().is_some() {
            return Err(process.error(format!("failed ({})", ended.status)));
        }
    }
    Ok(())
}

/// Stations that something may be done to.
struct Stations<'a> {
    servers: &'a mut [Running],
    middleware: &'a mut [Running],
}

/// What was done while a trial was measured.
#[derive(Default)]
struct Applied {
    happened: Vec<Happened>,
    commands: Vec<String>,
}

/// Does what is to be done when it is due, counted from `begin` on the wall clock, until `ended`
/// says that nobody measures any more.
fn apply_faults(
    starter: &Starter,
    stations: &mut Stations<'_>,
    faults: &[&Spanned<Fault>],
    begin: Nanos,
    ended: &Receiver<()>,
) -> Result<Applied, StationError> {
    let mut applied = Applied::default();
    for fault in faults.iter().map(|fault| fault.get_ref()) {
        let due = begin + Nanos::from_seconds(fault.at);
        while let Some(left) = due.0.checked_sub(wall().0).filter(|left| *left > 0) {
            if matches!(ended.recv_timeout(Duration::from_nanos(left)), Err(RecvTimeoutError::Disconnected)) {
                return Ok(applied);
            }
        }
        let running = match fault.station {
            FaultTarget::Server(number) => stations.servers.get_mut(number as usize - 1),
            FaultTarget::Middleware(number) => stations.middleware.get_mut(number as usize - 1),
        };
        starter.apply(
            running.expect("faults were checked against what is started"),
            fault.action,
            &mut applied.commands,
        )?;
        applied.happened.push(Happened {
            station: fault.station.to_string(),
            action: fault.action,
            at: fault.at,
            late: Nanos(wall().0.saturating_sub(due.0)).as_seconds(),
        });
    }
    Ok(applied)
}

/// Clients that begin this share of the measured time apart were not one load: their throughputs
/// must not be added up.
const APART: f64 = 0.2;

/// What is said of clients that did not begin together: when each began, by our clock, and how long
/// it measured.
fn apart(loads: &[(Seconds, Seconds)]) -> Option<String> {
    let begun = || loads.iter().map(|load| load.0);
    let apart = begun().fold(0.0, f64::max) - begun().fold(f64::INFINITY, f64::min);
    let measured = loads.iter().map(|load| load.1).fold(f64::INFINITY, f64::min);
    (apart > APART * measured).then(|| {
        let (apart, measured) = (text::duration(apart), text::duration(measured));
        format!("the clients began {apart} apart, and measured {measured}: the machine is too busy for so short a trial")
    })
}

/// Which gates a trial does not pass.
fn refused(spec: &Spec, load: &LoadResult, watch: &Watch) -> Option<String> {
    let overall = &load.overall;
    let of_all = |cores: f64| cores / f64::from(watch.cores.max(1));
    let value = |watched| match watched {
        Watched::Errors => overall.errors.values().sum::<u64>() as f64,
        Watched::Misses => overall.misses as f64,
        Watched::GeneratorCpu => load.generator.busiest_thread,
        Watched::ForeignCpu => of_all(watch.foreign),
        Watched::Steal => of_all(watch.steal),
        Watched::InteractiveLaw => {
            let Arrivals::Closed(think) = load.config.arrivals else { return 0.0 };
            let clients = f64::from(load.config.connections) * f64::from(load.config.pipeline);
            let answered = overall.count as f64 / load.seconds;
            (answered * (overall.response_time.mean + think.mean()) / clients - 1.0).abs()
        }
    };
    let gates = spec.gates.iter().map(Spanned::get_ref);
    let refusals: Vec<String> = gates
        .filter_map(|gate| {
            let value = value(gate.watched);
            (!gate.passes(value)).then(|| gate.refusal(value))
        })
        .collect();
    (!refusals.is_empty()).then(|| refusals.join("; "))
}

/// Whose processor time is told, and which process that is.
fn busy(middleware: &[Running], servers: &[Running]) -> Vec<(Busy, ProcessId)> {
    let of = |station: &str, name: String, running: &Running| {
        let process = running.process.as_ref()?;
        let cores = running.host.cpu.map_or(1.0, |cpu| cpu.min(1.0));
        let busy = Busy { station: station.into(), name, seconds: 0.0, cores };
        Some((busy, (running.host.machine(), process.number())))
    };
    let name = |number: usize| {
        if middleware.len() == 1 { "proxy".to_owned() } else { format!("proxy {}", number + 1) }
    };
    let between =
        middleware.iter().enumerate().filter_map(|(number, one)| of("middleware", name(number), one));
    let behind = servers.iter().filter_map(|one| of("servers", one.address.to_string(), one));
    between.chain(behind).collect()
}

/// Asks our proxy to forget what it counted.
fn forget(proxy: &Running) -> Result<(), StationError> {
    let wrong = |why: String| StationError::new(format!("proxy {}", proxy.address), why);
    match proxy.host.ask(&proxy.address, "stats reset\r\nquit\r\n") {
        Ok(answer) if answer == "RESET" => Ok(()),
        Ok(answer) => Err(wrong(format!("`stats reset` was answered with `{answer}`"))),
        Err(error) => Err(wrong(format!("`stats reset` could not be asked: {error}"))),
    }
}
