//! The steps of one trial, in their order: keys, warm-up, the measured load with its faults, and
//! what is written down of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use krarup_load::LoadResult;
use krarup_load::memtier::convert::{self, ForeignRun};
use krarup_load::memtier::read::read as read_memtier;
use krarup_load::random;
use krarup_load::result::Generator;
use krarup_load::run::TOO_LATE;
use krarup_net::Clock;
use krarup_net::clock::wall;
use krarup_record::watch::Watch;
use krarup_units::{Address, Mistake, Nanos, Seconds, Stamp, text};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::clock::Offset;
use super::delivered::{DeliveredShare, LimitedStation, limited};
use super::error::StationError;
use super::host::Host;
use super::netns::{LinkTally, Namespaces};
use super::paths::{Lateness, RoundTrips};
use super::process::{ChildProcess, PATIENCE, StationEnd};
use super::records::{made, read, save, unreadable};
use super::stations::{Loads, Running, Starter, kinds, words};
use super::twemproxy::{self, TwemproxyCounts};
use super::watching::{ProcessId, Unkept, Watching};
use crate::campaign::{DueTrial, TrialOutcome};
use crate::fault::{self, Happened};
use crate::gate::Watched;
use crate::plan::{PlannedCell, run_name};
use crate::platform::{Platform, children_cpu};
use crate::spec::{Action, Fault, FaultTarget, Program, Spec, StationSpec};

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
    /// The processors it could have used: as many as it has threads, where that is known, or else
    /// all of its machine; no more than it is limited to.
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
    /// Packets that its link threw away, since they would have waited for too long; 0 in files of
    /// earlier versions.
    #[serde(default)]
    pub lost: u64,
    /// In how many seconds.
    pub seconds: Seconds,
}

impl LinkUse {
    /// The difference of two tallies.
    fn between(host: &Host, bits_per_second: f64, [before, after]: [LinkTally; 2], seconds: Seconds) -> Self {
        Self {
            station: station_of(host).into(),
            name: host.name.clone(),
            bits_per_second,
            bytes: after.bytes.saturating_sub(before.bytes),
            lost: after.lost.saturating_sub(before.lost),
            seconds,
        }
    }
}

/// The servers that run, and which station uses them.
#[derive(Debug)]
pub(super) struct RunningServers {
    /// How they were started; a cell that wants others gets others.
    pub(super) words: Vec<String>,
    pub(super) running: Vec<Running>,
    /// Through what, and which, keys were stored; none where none were.
    pub(super) populated: Option<Vec<String>>,
    pub(super) commands: Vec<String>,
}

/// Where each client writes its result: `load.json`, or `clients/1.json` and so on where there are
/// several.
pub fn result_files(folder: &Path, clients: u32) -> Vec<PathBuf> {
    match clients {
        1 => vec![folder.join("load.json")],
        several => (1..=several).map(|client| folder.join(format!("clients/{client}.json"))).collect(),
    }
}

/// What is the same for all steps of one trial.
pub(super) struct TrialRun<'a> {
    spec: &'a Spec,
    starter: &'a Starter,
    cell: &'a PlannedCell,
    /// Where everything is written.
    folder: &'a Path,
    clients: LoadClients,
    /// Ours, from the beginning of the trial.
    own_clock: Clock,
    /// By how much the clock of each other machine differs from ours.
    clocks: BTreeMap<String, Offset>,
    /// Where each client writes its result.
    results: Vec<PathBuf>,
    /// In the order in which they are due.
    faults: Vec<&'a Spanned<Fault>>,
}

/// What was counted while the load ran, before it is written down.
pub(super) struct Measured {
    watched: Unkept,
    links: Vec<LinkUse>,
    delays: Vec<Lateness>,
    /// Stations that have a quota, with what it did meanwhile.
    limited: Vec<LimitedStation>,
}

/// Clients that are told an instant beforehand are taken to be ready when this part of the time
/// until then is left.
const READY: u32 = 4;

/// Why nothing was measured.
pub(super) enum Unmeasured {
    /// A client was told an instant that had passed before it was ready.
    NotReady(StationError),
    /// Something else.
    Failed(StationError),
}

impl Unmeasured {
    /// Why a load did not run to its end.
    pub(super) fn of_load(error: StationError) -> Self {
        let is_late = error.said.iter().any(|line| line.contains(TOO_LATE));
        if is_late { Self::NotReady(error) } else { Self::Failed(error) }
    }
}

impl From<Unmeasured> for StationError {
    fn from(unmeasured: Unmeasured) -> Self {
        let (Unmeasured::NotReady(error) | Unmeasured::Failed(error)) = unmeasured;
        error
    }
}

impl From<StationError> for Unmeasured {
    fn from(error: StationError) -> Self {
        Self::Failed(error)
    }
}

impl<'a> TrialRun<'a> {
    pub(super) fn new(
        spec: &'a Spec,
        starter: &'a Starter,
        due: &DueTrial<'a>,
        folder: &'a Path,
    ) -> Result<Self, StationError> {
        let cell = due.cell;
        let (own_clock, clocks) = (Clock::start(), starter.hosts.clocks()?);
        let clients = LoadClients::of(spec, due);
        let results = result_files(folder, clients.count);
        let faults = fault::in_order(spec, cell);
        Ok(Self { spec, starter, cell, folder, clients, own_clock, clocks, results, faults })
    }

    pub(super) fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Starts the middleware, where the experiment has one.
    pub(super) fn middleware(
        &self,
        servers: &RunningServers,
        commands: &mut Vec<String>,
    ) -> Result<Vec<Running>, StationError> {
        let Some(station) = &self.spec.stations.middleware else { return Ok(Vec::new()) };
        let addresses = addresses(&servers.running);
        let records = self.folder.join("middleware");
        self.starter.middleware(station, self.cell, &addresses, &records, commands)
    }

    /// Stores the keys, where servers do not have them yet as this cell's middleware places them.
    pub(super) fn populate(
        &self,
        servers: &mut RunningServers,
        commands: &mut Vec<String>,
    ) -> Result<(), StationError> {
        let Some(populate) = &self.spec.populate else { return Ok(()) };
        let station = self.spec.stations.middleware.iter();
        let through = station.flat_map(|station| words(station, self.cell));
        let keys = [self.clients.data(self.spec.seed), self.cell.render(&populate.flags)].concat();
        let populated = Some(through.chain(keys.iter().cloned()).collect());
        if servers.populated == populated {
            return Ok(());
        }
        let mut middleware = self.middleware(servers, commands)?;
        let words = self.clients.populating(keys);
        let stations = RunningStations { servers: &mut servers.running, middleware: &mut middleware };
        let targets = storing(self.spec, stations.targets());
        let loads = Loads { targets: &targets, words: &[words], within: POPULATING, out: None };
        // Nothing of it is measured: nothing need be as slow as the scale makes it.
        self.quicken(&stations, self.spec.slower())?;
        let stored = self.starter.load(&loads, commands);
        self.quicken(&stations, 1.0)?;
        stored?;
        end(&mut middleware)?;
        servers.populated = populated;
        Ok(())
    }

    /// Lets links and stations be so many times quicker, where the spec has a scale.
    fn quicken(&self, stations: &RunningStations<'_>, times: f64) -> Result<(), StationError> {
        if self.spec.slower() <= 1.0 {
            return Ok(());
        }
        let mut running = stations.servers.iter().chain(stations.middleware.iter());
        running.try_for_each(|one| one.process.as_ref().map_or(Ok(()), |process| process.quicken(times)))?;
        self.starter.hosts.network().map_or(Ok(()), |network| network.quicken(times))
    }

    /// Lets the clients work for as long as the spec's warm-up; nothing of it is kept.
    pub(super) fn warm_up(
        &self,
        targets: &[Address],
        commands: &mut Vec<String>,
    ) -> Result<(), StationError> {
        let warm_up = self.spec.phases.warm_up;
        if warm_up <= 0.0 {
            return Ok(());
        }
        let within = self.clients.within(warm_up);
        if !self.clients.is_foreign() {
            let result = ["--json", "-"].map(str::to_owned);
            let words = self.clients.words("warm-up", warm_up, &|_| result.to_vec());
            let loads = Loads { targets, words: &words, within, out: None };
            let ends = self.starter.load(&loads, commands)?;
            let wrong = |why: String| StationError::new("warm-up", why);
            let results = ends.iter().map(|ended| serde_json::from_slice(&ended.stdout));
            let results: Result<Vec<LoadResult>, _> = results.collect();
            let results = results.map_err(|error| wrong(format!("its result cannot be read: {error}")))?;
            return stopped_early(&results).map_or(Ok(()), |why| Err(wrong(why)));
        }
        let out = made(&self.folder.join("warm-up"))?;
        let words = self.clients.foreign(warm_up, &|client| self.place(client, &out));
        let loads = Loads { targets, words: &words, within, out: Some(&out) };
        self.starter.foreign_load(&loads, commands).map(drop)
    }

    /// Round trips between all that talk, written to `paths.json`.
    pub(super) fn paths(&self, stations: &RunningStations<'_>) -> Result<Vec<RoundTrips>, StationError> {
        let targets = stations.targets();
        let paths =
            self.starter.round_trips(self.clients.count, &targets, stations.middleware, stations.servers)?;
        save(&self.folder.join("paths.json"), &paths)?;
        match paths.iter().find_map(RoundTrips::refused) {
            Some(why) => Err(StationError::new("network", why)),
            None => Ok(paths),
        }
    }

    /// What programs of others between clients and servers have counted of each server until now.
    pub(super) fn counted(
        &self,
        stations: &RunningStations<'_>,
    ) -> Result<Vec<TwemproxyCounts>, StationError> {
        let servers = addresses(stations.servers);
        stations.middleware.iter().filter_map(|one| counted(one, &servers)).collect()
    }

    /// Writes down what they have counted since.
    pub(super) fn keep_counted(
        &self,
        before: &[TwemproxyCounts],
        after: &[TwemproxyCounts],
    ) -> Result<(), StationError> {
        let mut all = (1..).zip(after.iter().zip(before));
        all.try_for_each(|(number, (after, before))| {
            save(&twemproxy::counts_file(self.folder, number), &after.since(before))
        })
    }

    /// Runs the load, and does the faults meanwhile.
    pub(super) fn measure(
        &self,
        stations: &mut RunningStations<'_>,
        lead: Duration,
        commands: &mut Vec<String>,
    ) -> Result<Measured, Unmeasured> {
        let (spec, starter) = (self.spec, self.starter);
        let program = spec.stations.middleware.as_ref().and_then(|station| station.program);
        if program == Some(Program::Proxy) {
            stations.middleware.iter().try_for_each(|one| forget(one, "stats reset"))?;
        }
        let brokers = program == Some(Program::Broker);
        // A fault has its place in what is measured: then its beginning must be known beforehand;
        // and so must it be where clients log in before they begin, which is not to be counted.
        let ahead = (self.clients.count > 1 || self.has_faults() || brokers).then_some(lead);
        let seconds = ahead.unwrap_or_default().as_secs_f64();
        let watching = Watching::begin(starter, self.folder, stations.middleware, stations.servers, seconds)?;
        for parent in self.results.iter().filter_map(|file| file.parent()) {
            fs::create_dir_all(parent).map_err(|error| unreadable(parent, &error))?;
        }
        let sent =
            || starter.hosts.network().map(Namespaces::sent).transpose().map(Option::unwrap_or_default);
        let sent_before = sent()?;
        let passed = || starter.hosts.network().map(Namespaces::passed).unwrap_or_default();
        let passed_before = passed();
        let limited_before = limited(stations.servers, stations.middleware);
        let together = ahead.map(|lead| wall() + Nanos::from(lead));
        let begin = self.own_clock.now() + ahead.map_or(Nanos::ZERO, Nanos::from);
        let targets = stations.targets();
        let (over, ended) = channel();
        let (order, clock) = (&self.faults[..], self.own_clock);
        let forgets = Stamp(begin.0.saturating_sub(Nanos::from(lead / READY).0));
        let changed = &mut *stations;
        let (loaded, applied) = thread::scope(|scope| {
            let faults_thread = thread::Builder::new().spawn_scoped(scope, move || {
                if brokers && waits_until(forgets, &|| clock.now(), &ended) {
                    changed.middleware.iter().try_for_each(|one| forget(one, "stats-reset"))?;
                }
                apply_faults(starter, changed, order, (begin, spec.phases.measure), clock, &ended)
            });
            let faults_thread = faults_thread
                .map_err(|error| StationError::new("faults", format!("no thread can be had: {error}")))?;
            let loaded = self.load(&targets, together, lead);
            drop(over);
            let applied = faults_thread.join().expect("the thread of the faults does not panic");
            Ok::<_, StationError>((loaded, applied))
        })?;
        // A fault that could not be done explains what became of the load.
        let applied = applied?;
        let (loads, load_commands) = loaded.map_err(Unmeasured::of_load)?;
        commands.extend(load_commands);
        commands.extend(applied.commands);
        self.still_run(stations)?;
        if !applied.happened.is_empty() {
            save(&self.folder.join("faults.json"), &applied.happened)?;
        }
        let watched = watching.end()?;
        let seconds = self.clients.lasts(spec.phases.measure) + spec.phases.cool_down;
        let links = sent_before.iter().zip(sent()?);
        let links = links.map(|((host, link, before), (.., after))| {
            LinkUse::between(host, *link, [*before, after], seconds)
        });
        let links = links.collect();
        let delays = passed_before.iter().zip(passed());
        let delays = delays.map(|((host, before), (_, after))| Lateness::between(host, *before, after));
        let mut limited_now = limited(stations.servers, stations.middleware);
        for one in &mut limited_now {
            if let Some(before) = limited_before.iter().find(|before| before.process == one.process) {
                one.throttled = one.throttled.since(before.throttled);
            }
        }
        limited_now.extend((1..).zip(&loads).filter_map(|(client, ended)| {
            let (name, share) = (format!("client {client}"), starter.host('c', client).cpu?);
            Some(LimitedStation { name, process: ended.id, share, throttled: ended.throttled? })
        }));
        Ok(Measured { watched, links, delays: delays.collect(), limited: limited_now })
    }

    /// Lets middlewares go on that a fault has left standing still: they would not tell what they
    /// have counted.
    pub(super) fn thaw(&self, stations: &mut RunningStations<'_>) -> Result<(), StationError> {
        for fault in &self.faults {
            if let FaultTarget::Middleware(number) = fault.get_ref().station
                && let Some(running) = stations.middleware.get_mut(number as usize - 1)
            {
                self.starter.apply(running, Action::Thaw, &mut Vec::new())?;
            }
        }
        Ok(())
    }

    /// Refuses what was measured where a station has ended by itself.
    fn still_run(&self, stations: &mut RunningStations<'_>) -> Result<(), StationError> {
        let servers = (1_u32..).map(FaultTarget::Server).zip(stations.servers.iter_mut());
        let middleware = (1_u32..).map(FaultTarget::Middleware).zip(stations.middleware.iter_mut());
        let ended = |(station, running): (FaultTarget, &mut Running)| {
            ended_by_itself(&self.faults, station, running.process.as_mut()?)
        };
        servers.chain(middleware).find_map(ended).map_or(Ok(()), Err)
    }

    /// Runs the load to its end, and returns how each generator ended and every command that was
    /// run.
    fn load(
        &self,
        targets: &[Address],
        together: Option<Nanos>,
        lead: Duration,
    ) -> Result<(Vec<StationEnd>, Vec<String>), StationError> {
        let (measure, cool_down) = (self.spec.phases.measure, self.spec.phases.cool_down);
        let within = self.clients.within(measure + cool_down) + lead;
        let mut commands = Vec::new();
        if self.clients.is_foreign() {
            let ends = self.foreign_load(targets, together, within, &mut commands)?;
            return Ok((ends, commands));
        }
        let words = self.clients.words("measured load", measure + cool_down, &|client| {
            let file = &self.results[client as usize - 1];
            let mut words = vec!["--json".to_owned(), self.place(client, file)];
            if cool_down > 0.0 {
                words.extend(["--cool-down".to_owned(), format!("{cool_down}s")]);
            }
            let at = together.map(|at| self.clock(client).theirs(at));
            words.extend(at.iter().flat_map(|at| ["--start-at".to_owned(), at.0.to_string()]));
            // Clocks were compared already, and what servers count is the load alone.
            words.extend(at.map(|_| "--no-clock-check".to_owned()));
            words
        });
        let loads = Loads { targets, words: &words, within, out: self.results[0].parent() };
        let ends = self.starter.load(&loads, &mut commands)?;
        Ok((ends, commands))
    }

    /// The same by a program that is none of ours: what it prints becomes results as ours has them.
    fn foreign_load(
        &self,
        targets: &[Address],
        together: Option<Nanos>,
        within: Duration,
        commands: &mut Vec<String>,
    ) -> Result<Vec<StationEnd>, StationError> {
        let measure = self.spec.phases.measure;
        let out = made(&self.folder.join("said"))?;
        let words = self.clients.foreign(measure, &|client| self.place(client, &out));
        let words = match together {
            Some(at) => at_once(self.starter, &|client| self.clock(client).theirs(at), words),
            None => words,
        };
        let (begun, cpu) = (together.unwrap_or_else(wall), children_cpu());
        let loads = Loads { targets, words: &words, within, out: Some(&out) };
        let ends = self.starter.foreign_load(&loads, commands)?;
        let each = (children_cpu() - cpu) / ends.len() as f64;
        self.starter.collect(&out)?;
        for ((number, ended), file) in (1_u32..).zip(&ends).zip(&self.results) {
            let run = ForeignRun {
                seconds: self.clients.lasts(measure),
                started_unix: began_there(begun, self.clock(number)),
                connections: self.cell.each_has(self.spec),
                cpu_seconds: ended.cpu.unwrap_or(each),
            };
            let said = String::from_utf8_lossy(&ended.stdout);
            save(file, &foreign_result(&said, &out.join(number.to_string()), run)?)?;
        }
        Ok(ends)
    }

    /// Writes down what was measured, says what came of the trial, and returns what each client
    /// found. `spent_by` is each process whose processor time is told.
    pub(super) fn keep(
        &self,
        measured: Measured,
        spent_by: &mut [(Busy, ProcessId)],
        paths: &[RoundTrips],
        outcome: &mut TrialOutcome,
    ) -> Result<Vec<LoadResult>, StationError> {
        let Measured { watched, links, delays, limited } = measured;
        let (epoch, clocks) = (self.own_clock.wall_epoch_now(), self.starter.hosts.clocks()?);
        save(&self.folder.join("links.json"), &links)?;
        if !delays.is_empty() {
            save(&self.folder.join("delays.json"), &delays)?;
        }
        self.starter.collect(self.folder)?;
        let lost = links.iter().filter(|link| link.lost > 0);
        let lost = lost.map(|link| (format!("{} link", link.name), link.lost)).collect();
        let seen = watched.keep(self.folder, lost)?;
        let loads = self.results.iter().map(|file| read(file)).collect::<Result<Vec<LoadResult>, _>>()?;
        let of_clients = shares_of(&loads, |client| self.starter.host('c', client));
        let spent = self.processors(&loads, &of_clients, spent_by, &seen.spent);
        let threads = |process: &u32| seen.threads.get(process).map_or(&[][..], Vec::as_slice);
        let delivered = |one: &LimitedStation| {
            let LimitedStation { name, process, share, throttled } = one;
            DeliveredShare::of(name, *share, *throttled, threads(process), seen.seconds)
        };
        let shares: Vec<DeliveredShare> = limited.iter().map(delivered).collect();
        if !shares.is_empty() {
            save(&self.folder.join("shares.json"), &shares)?;
        }
        save(&self.folder.join("cpu.json"), &spent)?;
        if !self.clocks.is_empty() {
            save(&self.folder.join("clocks.json"), &self.clocks_of_hosts())?;
        }
        let count: u64 = loads.iter().map(|load| load.overall.count).sum();
        let waited: f64 =
            loads.iter().map(|load| load.overall.count as f64 * load.overall.response_time.mean).sum();
        // Scaled back, as everything that is shown.
        let slower = self.spec.slower();
        outcome.throughput = loads.iter().map(|load| load.overall.throughput.0).sum::<f64>() * slower;
        outcome.response = waited / count.max(1) as f64 / slower;
        let begun: Vec<(Seconds, Seconds)> = (1_u32..)
            .zip(&loads)
            .map(|(client, load)| (began_here(load, self.clock(client)), load.seconds))
            .collect();
        outcome.failed = stopped_early(&loads)
            .or_else(|| apart(&begun))
            .or_else(|| refused(self.spec, &loads, &of_clients, &seen.machines));
        outcome.disturbed = seen
            .disturbed
            .or_else(|| set_here(self.own_clock.wall_epoch(), epoch))
            .or_else(|| set_meanwhile(&self.clocks, &clocks))
            .or_else(|| paths.iter().find_map(RoundTrips::late))
            .or_else(|| delays.iter().find_map(Lateness::disturbed))
            .or_else(|| shares.iter().find_map(DeliveredShare::disturbed));
        Ok(loads)
    }

    /// Processor time of the generators, by the share of each, and of every process that was
    /// watched, for the measured part alone.
    fn processors(
        &self,
        loads: &[LoadResult],
        shares: &[Option<f64>],
        spent_by: &mut [(Busy, ProcessId)],
        seconds: &BTreeMap<ProcessId, Seconds>,
    ) -> Vec<Busy> {
        let mut spent: Vec<Busy> = loads.iter().enumerate().map(generator(loads.len())).collect();
        for (busy, share) in spent.iter_mut().zip(shares) {
            busy.cores = share.map_or(busy.cores, |share| busy.cores.min(share));
        }
        for (busy, of) in spent_by {
            let Some(seconds) = seconds.get(of) else { continue };
            spent.push(Busy { seconds: *seconds, ..busy.clone() });
        }
        // A process that worked for the cool-down, too, is charged with the measured part of it.
        let (measure, cool_down) = (self.spec.phases.measure, self.spec.phases.cool_down);
        spent.iter_mut().for_each(|busy| busy.seconds *= measure / (measure + cool_down));
        spent
    }

    /// The path of a file of the trial where this client runs.
    fn place(&self, client: u32, path: &Path) -> String {
        self.starter.host('c', client).path(path)
    }

    /// The clock of each host: who reads a trial knows its hosts, and not on which machines they
    /// were.
    fn clocks_of_hosts(&self) -> BTreeMap<String, Offset> {
        let hosts = kinds(self.spec)
            .into_iter()
            .flat_map(|kind| (1..=kind.count).map(move |number| self.starter.host(kind.letter, number)));
        hosts.filter_map(|host| Some((host.name.clone(), *self.clocks.get(&host.machine())?))).collect()
    }

    fn clock(&self, client: u32) -> Offset {
        self.clocks.get(&self.starter.host('c', client).machine()).copied().unwrap_or_default()
    }
}

/// Which kind of station a host is for, by the letter of its name.
fn station_of(host: &Host) -> &'static str {
    match host.name.chars().next() {
        Some('c') => "clients",
        Some('m') => "middleware",
        _ => "servers",
    }
}

fn addresses(running: &[Running]) -> Vec<Address> {
    running.iter().map(|one| one.address.clone()).collect()
}

/// What the load generators are told.
struct LoadClients {
    count: u32,
    seed: u64,
    /// What is run: cell, repetition and attempt.
    trial: String,
    data: Vec<String>,
    flags: Vec<String>,
    /// The words of a program that is not ours; none where it is.
    command: Vec<String>,
    /// How many times slower everything is.
    slower: f64,
}

impl LoadClients {
    fn of(spec: &Spec, due: &DueTrial<'_>) -> Self {
        let cell = due.cell;
        Self {
            count: cell.count(&spec.stations.clients, 1),
            seed: spec.seed,
            trial: format!("{}, run {}, attempt {}", cell.name(), run_name(due.repetition), due.attempt),
            data: cell.render(&spec.data),
            flags: cell.render(&spec.stations.clients.flags),
            command: cell.render(&spec.stations.clients.command),
            slower: spec.slower(),
        }
    }

    /// Whether another program makes the load.
    fn is_foreign(&self) -> bool {
        !self.command.is_empty()
    }

    /// How long they take for a load of so many seconds: memtier_benchmark and its like count whole
    /// ones.
    fn lasts(&self, seconds: Seconds) -> Seconds {
        if self.is_foreign() { seconds.ceil().max(1.0) } else { seconds }
    }

    /// The command line of each such program: how long it runs, and where it writes what it found
    /// out, a file for each in the folder `out`, as its client sees it.
    fn foreign(&self, seconds: Seconds, out: &dyn Fn(u32) -> String) -> Vec<Vec<String>> {
        let seconds = self.lasts(seconds).to_string();
        let words = |client: u32| {
            let file = format!("{}/{client}", out(client));
            let run = |word: &String| word.replace("{seconds}", &seconds).replace("{out}", &file);
            self.command.iter().chain(&self.flags).map(run).collect()
        };
        (1..=self.count).map(words).collect()
    }

    /// What is said of keys and values, and the seed that they are drawn under. What a key holds
    /// depends on no seed.
    fn data(&self, seed: u64) -> Vec<String> {
        [&["--seed".to_owned(), seed.to_string()], &self.data[..]].concat()
    }

    /// Each client draws requests of its own in each phase of each trial: with the same arrivals
    /// all repetitions would be one, and servers that stay from trial to trial would have in their
    /// caches exactly what is asked for again.
    fn seed(&self, phase: &str, client: u32) -> u64 {
        let name = format!("{phase} of {}", self.trial);
        random::below(&mut random::stream(self.seed, &name, client.into()), u64::MAX)
    }

    /// A command line for each client, in this phase of the trial.
    fn words(&self, phase: &str, seconds: Seconds, more: &dyn Fn(u32) -> Vec<String>) -> Vec<Vec<String>> {
        let length = [vec!["--seconds".to_owned(), format!("{seconds}s")], self.scaled()].concat();
        let line = |client| {
            let data = self.data(self.seed(phase, client));
            [&data[..], &self.flags, &length, &more(client)].concat()
        };
        (1..=self.count).map(line).collect()
    }

    /// The command line that stores these keys. By a scale it waits longer, and is no slower.
    fn populating(&self, keys: Vec<String>) -> Vec<String> {
        [keys, vec!["--populate-only".to_owned()], self.scaled()].concat()
    }

    /// What our load generator is told of a scale.
    fn scaled(&self) -> Vec<String> {
        if self.slower > 1.0 { vec!["--slower".to_owned(), self.slower.to_string()] } else { Vec::new() }
    }

    /// How long a load of so many seconds may take, beside the usual patience: where everything is
    /// slower, clients wait for their last answers as many times longer.
    fn within(&self, seconds: Seconds) -> Duration {
        Duration::from_secs_f64(seconds) + PATIENCE.mul_f64(self.slower - 1.0)
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

/// What another generator measured: from its file, or else from its standard output.
fn foreign_result(said: &str, file: &Path, run: ForeignRun) -> Result<LoadResult, StationError> {
    let written = fs::read_to_string(file);
    let printed = read_memtier(written.as_deref().unwrap_or(said));
    let result = printed.and_then(|printed| convert::load_result(&printed, run));
    result.map_err(|why| StationError {
        name: "clients".into(),
        why: format!("what it printed is not as memtier_benchmark or memaslap print it: {why}"),
        hint: String::new(),
        said: said.lines().rev().take(5).map(str::to_owned).collect(),
        certain: false,
    })
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

/// Through which of the `targets` keys are stored. Middlewares that we start from the same words
/// place keys alike, and what one stores the others find; of those of others it is not known.
fn storing(spec: &Spec, mut targets: Vec<Address>) -> Vec<Address> {
    if spec.stations.middleware.as_ref().is_some_and(|station| station.program.is_some()) {
        targets.truncate(1);
    }
    targets
}

/// How long storing all keys may take, beside the usual patience.
const POPULATING: Duration = Duration::from_secs(600);

/// Ends stations that were started for one trial.
pub(super) fn end(stations: &mut [Running]) -> Result<(), StationError> {
    for process in stations.iter_mut().filter_map(|one| one.process.as_mut()) {
        let ended = process.stop(PATIENCE)?;
        if !ended.status.success() && ended.status.code().is_some() {
            return Err(process.error(format!("failed ({})", ended.status)));
        }
    }
    Ok(())
}

/// What is said of a station that has ended, unless a fault has killed it.
fn ended_by_itself(
    faults: &[&Spanned<Fault>],
    station: FaultTarget,
    process: &mut ChildProcess,
) -> Option<StationError> {
    let kills = |fault: &&Spanned<Fault>| {
        let fault = fault.get_ref();
        fault.station == station && fault.action == Action::Kill
    };
    let ended = !faults.iter().any(kills) && process.has_ended();
    ended.then(|| process.error("has ended by itself"))
}

/// RunningStations that something may be done to.
pub(super) struct RunningStations<'a> {
    pub(super) servers: &'a mut [Running],
    pub(super) middleware: &'a mut [Running],
}

impl RunningStations<'_> {
    /// Which stations clients ask: the middleware, or the servers where there is none.
    pub(super) fn targets(&self) -> Vec<Address> {
        addresses(if self.middleware.is_empty() { self.servers } else { self.middleware })
    }
}

/// What was done while a trial was measured.
#[derive(Default)]
struct Applied {
    happened: Vec<Happened>,
    commands: Vec<String>,
}

/// Waits until this is `now`; whether it came before the measurement was over.
fn waits_until(due: Stamp, now: &dyn Fn() -> Stamp, ended: &Receiver<()>) -> bool {
    while let Some(left) = due.0.checked_sub(now().0).filter(|left| *left > 0) {
        if matches!(ended.recv_timeout(Duration::from_nanos(left)), Err(RecvTimeoutError::Disconnected)) {
            return false;
        }
    }
    true
}

/// Does what is to be done when it is due, counted from the beginning of what is `measured`, which
/// lasts so long, until `ended` says that the measurement is over. By the run's own clock: a load
/// that has begun does not follow a wall that is set.
fn apply_faults(
    starter: &Starter,
    stations: &mut RunningStations<'_>,
    faults: &[&Spanned<Fault>],
    measured: (Stamp, Seconds),
    clock: Clock,
    ended: &Receiver<()>,
) -> Result<Applied, StationError> {
    let mut applied = Applied::default();
    let mut steps: Vec<(Seconds, Action, &Fault)> = Vec::new();
    for fault in faults.iter().map(|fault| fault.get_ref()) {
        steps.extend(fault.steps(measured.1).into_iter().map(|(at, action)| (at, action, fault)));
    }
    steps.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (at, action, fault) in steps {
        let due = measured.0 + Nanos::from_seconds(at);
        if !waits_until(due, &|| clock.now(), ended) {
            return Ok(applied);
        }
        let running = match fault.station {
            FaultTarget::Server(number) => stations.servers.get_mut(number as usize - 1),
            FaultTarget::Middleware(number) => stations.middleware.get_mut(number as usize - 1),
        };
        let running = running.expect("faults were checked against what is started");
        let mut commands = Vec::new();
        starter.apply(running, action, &mut commands)?;
        let happened = Happened {
            station: fault.station.to_string(),
            action: fault.action,
            at: fault.at,
            late: Nanos(clock.now().0.saturating_sub(due.0)).as_seconds(),
        };
        // Of pauses the first is told, and of all of them the latest.
        let same = |one: &&mut Happened| {
            fault.action == Action::Pause && (&one.station, one.at) == (&happened.station, happened.at)
        };
        match applied.happened.iter_mut().find(same) {
            Some(known) => known.late = known.late.max(happened.late),
            None => {
                applied.happened.push(happened);
                applied.commands.extend(commands);
            }
        }
    }
    Ok(applied)
}

/// When a load that began then by our clock began by that of its client's machine, as clients of
/// ours write it down.
fn began_there(begun: Nanos, clock: Offset) -> Seconds {
    clock.theirs(begun).as_seconds()
}

/// When a load began, by our clock.
fn began_here(load: &LoadResult, clock: Offset) -> Seconds {
    load.started_unix - clock.seconds
}

/// What is said of our own clock where its wall was set since the trial began, by what that shows
/// at stamp zero: clients, faults and records are placed by the wall. While a machine is suspended
/// the wall goes on alone.
fn set_here(before: Nanos, after: Nanos) -> Option<String> {
    let clock = |epoch: Nanos| Offset { seconds: epoch.as_seconds(), within: 0.0 };
    let by = clock(before).moved(clock(after))?;
    Some(format!("the clock of this machine was set by {by:+.1} s meanwhile, or the machine suspended"))
}

/// What is said of a machine whose clock was set, or slewed, since clocks were compared: clients
/// there began at another instant, whatever they write of it.
fn set_meanwhile(before: &BTreeMap<String, Offset>, after: &BTreeMap<String, Offset>) -> Option<String> {
    before.iter().find_map(|(machine, clock)| {
        let by = clock.moved(*after.get(machine)?)?;
        Some(format!("the clock of {machine} was set by {by:+.1} s meanwhile"))
    })
}

/// What is said of clients of which one was stopped before its end, as by a signal to it alone: it
/// reports all the same, and what it measured is shorter than that of other trials.
fn stopped_early(loads: &[LoadResult]) -> Option<String> {
    let (client, _) = (1_u32..).zip(loads).find(|(_, load)| load.interrupted)?;
    Some(format!("client {client} was stopped before its end"))
}

/// LoadClients that begin this share of the measured time apart were not one load: their
/// throughputs must not be added up.
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

/// How busy the busiest thread of a load generator was: of its time, or of what it had of that
/// where it may use this `share` of the processors.
fn busiest(load: &LoadResult, share: Option<f64>) -> f64 {
    let Generator { busiest_thread, cpu_seconds, elapsed, .. } = load.generator;
    let of_share = share.map(|share| cpu_seconds / elapsed / share.min(f64::from(load.config.threads)));
    of_share.unwrap_or_default().max(busiest_thread)
}

/// How far X·(R + Z) is from N, as a share of N; 0 where clients do not wait for their answers.
fn off_the_law(load: &LoadResult) -> f64 {
    let Some(think) = load.think() else { return 0.0 };
    let answered = load.overall.count as f64 / load.seconds;
    let by_law = answered * (load.overall.response_time.mean + think);
    (by_law / f64::from(load.config.clients()) - 1.0).abs()
}

/// Which gates a trial does not pass. Counts are those of all its load generators, of which each
/// may use its own of these `shares` of the processors; what is no count is that of the worst of
/// them, or of the `machines`.
fn refused(spec: &Spec, loads: &[LoadResult], shares: &[Option<f64>], machines: &[Watch]) -> Option<String> {
    let sum = |of: fn(&LoadResult) -> u64| loads.iter().map(of).sum::<u64>() as f64;
    // No number, which passes nothing, is the worst.
    let worst = |of: &mut dyn Iterator<Item = f64>| of.max_by(f64::total_cmp).unwrap_or(0.0);
    let of_machine = |cores: fn(&Watch) -> f64| {
        worst(&mut machines.iter().map(|watch| cores(watch) / f64::from(watch.cores.max(1))))
    };
    let value = |watched| match watched {
        Watched::Errors => sum(LoadResult::failed),
        Watched::Misses => sum(|load| load.overall.misses),
        Watched::GeneratorCpu => {
            worst(&mut loads.iter().zip(shares).map(|(load, share)| busiest(load, *share)))
        }
        Watched::ForeignCpu => of_machine(|watch| watch.foreign),
        Watched::Steal => of_machine(|watch| watch.steal),
        Watched::InteractiveLaw => worst(&mut loads.iter().map(off_the_law)),
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

/// What a program is told by the last of the words that have one of these names, as `--threads 2`,
/// `--threads=2` or `-t2`.
fn last_value<'a>(words: &'a [String], names: &[&str]) -> Option<&'a str> {
    let after = |place: usize| {
        let rest = names.iter().find_map(|name| words[place].strip_prefix(*name))?;
        let next = words.get(place + 1).map(String::as_str);
        if rest.is_empty() { next } else { Some(rest.trim_start_matches('=')) }
    };
    (0..words.len()).rev().find_map(after)
}

/// How many threads of `krarup proxy` work, by its flags and else by its configuration; none where
/// each worker is one.
fn proxy_threads(flags: &[String], config: &str) -> Option<u32> {
    let config: toml::Table = toml::from_str(config).unwrap_or_default();
    let engine = last_value(flags, &["--engine"]).or_else(|| config.get("engine")?.as_str());
    let threads = last_value(flags, &["--threads"]).and_then(|threads| threads.parse().ok());
    let threads = threads.or_else(|| u32::try_from(config.get("threads")?.as_integer()?).ok());
    (engine != Some("threads")).then_some(threads.unwrap_or(1))
}

/// Processors of the machine that a host is on.
fn cores_of(host: &Host) -> u32 {
    host.remote().map_or_else(|| Platform::this().cores, |remote| remote.facts().cores)
}

/// Processors that a load generator with so many threads may use on its host: what the host gives
/// it, or all of the machine, where it has more threads than these.
fn share_of(host: &Host, threads: u32) -> Option<f64> {
    let cores = cores_of(host);
    host.cpu.or_else(|| (cores < threads).then_some(f64::from(cores)))
}

/// The same of each load generator, by the host of its number, from 1.
fn shares_of(loads: &[LoadResult], host: impl Fn(u32) -> Host) -> Vec<Option<f64>> {
    (1..).zip(loads).map(|(client, load)| share_of(&host(client), load.config.threads)).collect()
}

/// How many threads of a station do its work. A broker has one beside that, which asks its
/// database. Of a command nothing is known; nor of a database, also one that a broker among the
/// servers has started, and of a proxy that has a thread for each worker.
fn threads_of(name: &str, station: &StationSpec, cell: &PlannedCell) -> Option<u32> {
    let flags = cell.render(&station.flags);
    match station.program? {
        Program::Postgres | Program::Broker if name == "servers" => None,
        Program::Broker => Some(2),
        Program::Proxy => proxy_threads(&flags, &cell.text(&station.config).unwrap_or_default()),
        Program::Memcached | Program::Auto | Program::Load => {
            let threads = last_value(&flags, &["--threads", "-t"]);
            Some(threads.and_then(|threads| threads.parse().ok()).unwrap_or(1))
        }
        _ => Some(1),
    }
}

/// Kinds of stations of a scaled experiment whose machines had more processors than they have
/// threads, with the most threads of any cell; but for those whose share a baseline finds.
///
/// A share knows nothing of threads: how much of it few can use depends on the scale.
pub fn with_few_threads(spec: &Spec, cells: &[PlannedCell]) -> Vec<(&'static str, u32)> {
    let Some(scale) = &spec.scale else { return Vec::new() };
    let is_found = |name: &str| scale.baselines.iter().any(|one| one.get_ref().station.name() == name);
    let few = |(name, station): (&'static str, &StationSpec)| {
        let threads: Option<Vec<u32>> = cells.iter().map(|cell| threads_of(name, station, cell)).collect();
        let most = threads?.into_iter().max()?;
        (f64::from(most) < station.cpu? && !is_found(name)).then_some((name, most))
    };
    spec.stations().filter_map(few).collect()
}

/// Processors that a station can use on its machine: as many as it has threads that do its work,
/// where that is known.
fn useful_cores(name: &str, station: &StationSpec, cell: &PlannedCell, host: &Host) -> f64 {
    let cores = cores_of(host);
    let most = f64::from(threads_of(name, station, cell).map_or(cores, |threads| threads.min(cores)));
    host.cpu.map_or(most, |cpu| cpu.min(most))
}

/// Whose processor time is told, and which process that is.
pub(super) fn busy(
    spec: &Spec,
    cell: &PlannedCell,
    middleware: &[Running],
    servers: &[Running],
) -> Vec<(Busy, ProcessId)> {
    let between = spec.stations.middleware.as_ref();
    let behind = &spec.stations.servers;
    let of = |station: &str, name: String, spec: &StationSpec, running: &Running| {
        let process = running.process.as_ref()?;
        let cores = useful_cores(station, spec, cell, &running.host);
        let busy = Busy { station: station.into(), name, seconds: 0.0, cores };
        Some((busy, (running.host.machine(), process.number())))
    };
    let kind = match between.and_then(|station| station.program) {
        Some(Program::Broker) => "broker",
        Some(Program::Twemproxy) => "twemproxy",
        _ => "proxy",
    };
    let name = |number: usize| {
        if middleware.len() == 1 { kind.to_owned() } else { format!("{kind} {}", number + 1) }
    };
    let all = middleware.iter().enumerate();
    let all = all.filter_map(|(number, one)| of("middleware", name(number), between?, one));
    let server = |one: &Running| {
        let database = behind.program == Some(Program::Postgres);
        let name =
            if database { krarup_record::summary::DATABASE.to_owned() } else { one.address.to_string() };
        of("servers", name, behind, one)
    };
    all.chain(servers.iter().filter_map(server)).collect()
}

/// What a twemproxy has counted until now; none where it is another program.
///
/// Its loop hands its counts over when it has served what was ready, unless what it handed over
/// before was not fetched yet. So they are fetched once, two clients come and go one after the
/// other, which is two rounds of the loop, and then nothing that was answered before is missing.
fn counted(one: &Running, servers: &[Address]) -> Option<Result<TwemproxyCounts, StationError>> {
    let statistics = one.statistics.as_ref()?;
    let wrong = |why: Mistake| StationError::new(format!("middleware {}", one.address), why);
    let ask = |address: &Address, words: &str| {
        let unanswered = |error| Mistake::plain(format!("its statistics cannot be asked: {error}"));
        one.host.ask(address, words).map_err(|error| wrong(unanswered(error)))
    };
    let said = ask(statistics, "")
        .and_then(|_| ask(&one.address, "quit\r\n"))
        .and_then(|_| ask(&one.address, "quit\r\n"))
        .and_then(|_| ask(statistics, ""));
    Some(said.and_then(|said| TwemproxyCounts::of(&said, servers).map_err(wrong)))
}

/// Asks a middleware of ours by its `word` for it to forget what it counted.
fn forget(one: &Running, word: &str) -> Result<(), StationError> {
    let wrong = |why: String| StationError::new(format!("middleware {}", one.address), why);
    match one.host.ask(&one.address, &format!("{word}\r\nquit\r\n")) {
        Ok(answer) if answer == "RESET" => Ok(()),
        Ok(answer) => Err(wrong(format!("`{word}` was answered with `{answer}`"))),
        Err(error) => Err(wrong(format!("`{word}` could not be asked: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::stations::tests::starter;
    use super::*;
    use crate::plan::{Plan, anchor_run};
    use crate::stop::Stop;
    use crate::waiting;

    const TWO: &str = r#"
title = "t"
seed = 7
data = ["--keys", "100"]
[[factor]]
name = "clients"
levels = [1, 2]
[stations.servers]
program = "cache"
[stations.clients]
program = "load"
count = 2
flags = ["--rate", "100", "--connections", "$clients"]
"#;

    /// The same on a testbed that is four times slower, with so many processors of each station.
    fn scaled(servers: u32, clients: u32) -> String {
        TWO.replace("[[factor]]", "[scale]\nby = 4\n[[factor]]")
            .replace("program = \"cache\"", &format!("program = \"cache\"\ncpu = {servers}"))
            .replace("program = \"load\"", &format!("program = \"load\"\ncpu = {clients}"))
    }

    /// The clients of one attempt of a run of a cell.
    fn clients(text: &str, cell: usize, repetition: u32, attempt: u32) -> LoadClients {
        let spec = Spec::parse(text, "spec.toml").unwrap();
        let plan = Plan::of(&spec);
        LoadClients::of(&spec, &DueTrial { cell: &plan.cells[cell], repetition, attempt })
    }

    /// The seeds that they are told in each phase.
    fn seeds(text: &str, cell: usize, repetition: u32, attempt: u32) -> Vec<u64> {
        let clients = clients(text, cell, repetition, attempt);
        let told = ["warm-up", "measured load"].map(|phase| clients.words(phase, 1.0, &|_| Vec::new()));
        told.iter().flatten().map(|words| words[1].parse().unwrap()).collect()
    }

    #[test]
    fn a_middleware_that_a_fault_has_frozen_goes_on_after_the_load() {
        let between = "[stations.middleware]\nprogram = \"proxy\"\n";
        let fault = "[[fault]]\nstation = \"middleware 1\"\nat = \"1s\"\ndo = \"freeze\"\n";
        let spec = Spec::parse(&format!("{TWO}{between}{fault}"), "spec.toml").unwrap();
        let plan = Plan::of(&spec);
        let starter = starter();
        let due = DueTrial { cell: &plan.cells[0], repetition: 0, attempt: 0 };
        let trial = TrialRun::new(&spec, &starter, &due, Path::new("")).unwrap();
        let words = ["sh", "-c", "echo listening on 127.0.0.1:1 >&2; exec sleep 1000"].map(str::to_owned);
        let commands = &mut Vec::new();
        let ready = (None, PATIENCE);
        let running = starter.start_that_announces("middleware 1", Host::here(), &words, ready, commands);
        let mut middleware = [running.unwrap()];
        let process = middleware[0].process.as_ref().unwrap().id();
        let stands_still = || {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        };
        starter.apply(&mut middleware[0], Action::Freeze, commands).unwrap();
        let is_frozen = |_| {
            waiting::blindly(waiting::LOOK);
            stands_still()
        };
        assert!((0..2_000).any(is_frozen), "it was not frozen");
        let mut stations = RunningStations { servers: &mut [], middleware: &mut middleware };
        trial.thaw(&mut stations).unwrap();
        assert!(!stands_still());
    }

    #[test]
    fn each_phase_of_each_trial_draws_anew_and_always_the_same() {
        let mut all = seeds(&TWO.replace("seed = 7", "seed = 8"), 0, 0, 0);
        for run in [0, 1, 2, anchor_run(0, 0), anchor_run(0, 1), anchor_run(1, 0)] {
            for (cell, attempt) in [(0, 0), (0, 1), (1, 0)] {
                all.extend(seeds(TWO, cell, run, attempt));
            }
        }
        let drawn = all.len();
        assert_eq!(drawn, (1 + 6 * 3) * 2 * 2, "two phases of two clients");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), drawn);
        // Fixed on purpose: what a published spec sends stays what it is.
        assert_eq!(seeds(TWO, 0, 1, 0), SEEDS);
    }

    #[test]
    fn what_stores_keys_on_a_slower_testbed_waits_as_much_longer() {
        let [plain, slower] = [TWO, scaled(1, 2).as_str()].map(|text| clients(text, 0, 0, 0));
        let told = |clients: &LoadClients| clients.populating(vec!["--keys".into(), "100".into()]).join(" ");
        assert_eq!(told(&plain), "--keys 100 --populate-only");
        assert_eq!(told(&slower), "--keys 100 --populate-only --slower 4");
        let words = slower.words("measured load", 1.0, &|_| Vec::new());
        assert!(words.iter().all(|words| words.join(" ").ends_with("--seconds 1s --slower 4")), "{words:?}");
        assert_eq!(plain.within(2.0), Duration::from_secs(2));
        assert_eq!(slower.within(2.0), Duration::from_secs(2) + 3 * PATIENCE);
    }

    #[test]
    fn keys_are_stored_through_one_of_those_that_place_them_alike() {
        let targets = [1, 2].map(|port| Address { host: "127.0.0.1".into(), port }).to_vec();
        for (middleware, stored) in [
            ("", 2),
            ("[stations.middleware]\nprogram = \"proxy\"\ncount = 2\n", 1),
            ("[stations.middleware]\naddresses = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n", 2),
        ] {
            let text = TWO.replace("[stations.clients]", &format!("{middleware}[stations.clients]"));
            let spec = Spec::parse(&text, "spec.toml").unwrap();
            assert_eq!(storing(&spec, targets.clone()), targets[..stored], "{middleware}");
        }
    }

    #[test]
    fn clients_of_another_program_began_together_whatever_their_clocks_show() {
        let begun = Nanos::from_secs(1_800_000_000);
        let loads = [0.0, 3.0].map(|seconds| {
            let clock = Offset { seconds, within: 0.001 };
            let started_unix = began_there(begun, clock);
            let run = ForeignRun { seconds: 10.0, started_unix, ..ForeignRun::default() };
            let load = foreign_result(PRINTED, Path::new(""), run).unwrap();
            (began_here(&load, clock), 10.0)
        });
        assert_eq!(apart(&loads), None);
        assert!(apart(&[loads[0], (loads[1].0 + 3.0, 10.0)]).unwrap().contains("began 3"));
    }

    #[test]
    fn a_clock_that_is_set_while_a_trial_is_measured_disturbs_it() {
        let clocks = |ahead: Seconds| {
            let clock =
                |(name, seconds): (&str, Seconds)| (name.to_owned(), Offset { seconds, within: 0.001 });
            BTreeMap::from([("c1", 0.0), ("c2", ahead)].map(clock))
        };
        assert_eq!(set_meanwhile(&clocks(3.0), &clocks(3.001)), None);
        let said = set_meanwhile(&clocks(3.0), &clocks(0.0));
        assert_eq!(said.as_deref(), Some("the clock of c2 was set by -3.0 s meanwhile"));
        let begun = Nanos::from_secs(1_800_000_000);
        assert_eq!(set_here(begun, begun + Nanos::from_millis(50)), None);
        let said = set_here(begun, Nanos(begun.0 - 4_000_000_000)).unwrap();
        assert!(said.starts_with("the clock of this machine was set by -4.0 s meanwhile"), "{said}");
    }

    #[test]
    fn a_fault_waits_until_it_is_due_or_the_measurement_over() {
        let (over, ended) = channel();
        let looks = std::cell::Cell::new(0);
        let now = || {
            looks.set(looks.get() + 1);
            Stamp(looks.get())
        };
        assert!(waits_until(Stamp(3), &now, &ended));
        assert_eq!(looks.get(), 3);
        drop(over);
        assert!(waits_until(Stamp(3), &now, &ended), "it is due already");
        assert!(!waits_until(Stamp(u64::MAX), &now, &ended));
    }

    #[test]
    fn a_load_that_was_stopped_before_its_end_is_none_of_the_trial() {
        let load = foreign_result(PRINTED, Path::new(""), ForeignRun::default()).unwrap();
        let cut = LoadResult { interrupted: true, ..load.clone() };
        assert_eq!(stopped_early(&[load.clone(), load.clone()]), None);
        assert_eq!(stopped_early(&[load, cut]).as_deref(), Some("client 2 was stopped before its end"));
    }

    #[test]
    fn a_request_that_is_given_up_after_the_measured_part_has_failed() {
        let gated = TWO.replace("seed = 7", "seed = 7\ngates = [\"errors == 0\"]");
        let spec = Spec::parse(&gated, "spec.toml").unwrap();
        let mut load = foreign_result(PRINTED, Path::new(""), ForeignRun::default()).unwrap();
        let of = |load: &LoadResult| refused(&spec, std::slice::from_ref(load), &[None], &[]);
        assert_eq!(of(&load), None);
        load.account.lost.insert("unanswered".to_owned(), 1);
        assert_eq!(of(&load).as_deref(), Some("errors is 1, and must be == 0"));
    }

    #[test]
    fn what_is_counted_is_that_of_all_clients() {
        let gates = "seed = 7\ngates = [\"errors <= 10\", \"misses <= 10\"]";
        let spec = Spec::parse(&TWO.replace("seed = 7", gates), "spec.toml").unwrap();
        let mut load = foreign_result(PRINTED, Path::new(""), ForeignRun::default()).unwrap();
        load.account.lost.insert("unanswered".to_owned(), 10);
        load.overall.misses = 4;
        let of = |loads: &[LoadResult]| refused(&spec, loads, &[None; 3], &[]);
        assert_eq!(of(std::slice::from_ref(&load)), None);
        let refused = of(&[load.clone(), load.clone(), load]).unwrap();
        assert_eq!(refused, "errors is 30, and must be <= 10; misses is 12, and must be <= 10");
    }

    /// Of both machines together it is half as much, which would pass.
    #[test]
    fn a_machine_that_others_use_is_refused_among_idle_ones() {
        let gates = "seed = 7\ngates = [\"foreign_cpu < 10 %\", \"steal < 1 %\"]";
        let spec = Spec::parse(&TWO.replace("seed = 7", gates), "spec.toml").unwrap();
        let idle = Watch { seconds: 2.0, cores: 8, ..Watch::default() };
        let busy = Watch { foreign: 1.2, steal: 0.12, ..idle.clone() };
        let of = |machines: &[Watch]| refused(&spec, &[], &[], machines);
        assert_eq!(of(&[idle.clone(), idle.clone()]), None);
        for machines in [[idle.clone(), busy.clone()], [busy, idle]] {
            let refused = of(&machines).unwrap();
            assert_eq!(
                refused,
                "foreign_cpu is 15.0 %, and must be < 10.0 %; steal is 1.5 %, and must be < 1.0 %"
            );
        }
    }

    #[test]
    fn clients_that_are_not_all_there_break_the_law() {
        let gates = "seed = 7\ngates = [\"interactive_law within 5 %\"]";
        let spec = Spec::parse(&TWO.replace("seed = 7", gates), "spec.toml").unwrap();
        let mut load = foreign_result(PRINTED, Path::new(""), ForeignRun::default()).unwrap();
        (load.seconds, load.overall.count) = (2.0, 400);
        load.overall.response_time.mean = f64::from(load.config.clients()) / 200.0;
        let of = |loads: &[LoadResult]| refused(&spec, loads, &[None; 2], &[]);
        assert_eq!((load.think(), of(&[load.clone(), load.clone()])), (Some(0.0), None));
        let mut half = load.clone();
        half.overall.response_time.mean /= 2.0;
        for loads in [[load.clone(), half.clone()], [half, load]] {
            assert_eq!(of(&loads).unwrap(), "interactive_law is 50.0 %, and must be <= 5.0 %");
        }
    }

    #[test]
    fn a_client_that_has_used_up_its_share_of_a_processor_was_busy() {
        let gates = "seed = 7\ngates = [\"generator_cpu < 80 %\"]";
        let spec = Spec::parse(&TWO.replace("seed = 7", gates), "spec.toml").unwrap();
        let mut load = foreign_result(PRINTED, Path::new(""), ForeignRun::default()).unwrap();
        load.generator = Generator { busiest_thread: 0.1, cpu_seconds: 1.0, elapsed: 10.0, ..load.generator };
        let loads = [load.clone(), load];
        let of = |shares: [Option<f64>; 2]| refused(&spec, &loads, &shares, &[]);
        assert_eq!((of([None, None]), of([Some(0.5), Some(4.0)])), (None, None));
        // Each by its own share, whichever of them it is.
        for shares in [[Some(0.1), Some(4.0)], [Some(4.0), Some(0.1)]] {
            assert_eq!(of(shares).unwrap(), "generator_cpu is 100.0 %, and must be < 80.0 %");
        }
    }

    #[test]
    fn a_client_with_more_threads_than_processors_has_these() {
        let cores = Platform::this().cores;
        let here = Host::here();
        assert_eq!((share_of(&here, cores), share_of(&here, cores + 1)), (None, Some(f64::from(cores))));
        assert_eq!(share_of(&Host { cpu: Some(0.5), ..here }, cores), Some(0.5));
        let mut load = foreign_result(PRINTED, Path::new(""), ForeignRun::default()).unwrap();
        load.config.threads = 1;
        let host = |client| Host { cpu: (client == 2).then_some(0.5), ..Host::here() };
        assert_eq!(shares_of(&[load.clone(), load], host), [None, Some(0.5)]);
    }

    /// Processors that a station of this spec can use on this machine, by its words alone.
    fn cores(name: &str, text: &str) -> f64 {
        let spec = Spec::parse(text, "spec.toml").unwrap();
        let station = spec.stations.middleware.as_ref().unwrap_or(&spec.stations.servers);
        useful_cores(name, station, &Plan::of(&spec).cells[1], &Host::here())
    }

    #[test]
    fn a_station_can_use_as_many_processors_as_it_has_threads() {
        let all = Platform::this().cores;
        let two = f64::from(all.min(2));
        let proxy = |keys: &str| {
            let keys = format!("[stations.middleware]\nprogram = \"proxy\"\n{keys}\n[stations.clients]");
            cores("middleware", &TWO.replace("[stations.clients]", &keys))
        };
        assert_eq!(proxy(""), 1.0);
        assert_eq!(proxy("flags = [\"--threads\", \"$clients\"]"), two);
        assert_eq!(proxy("config = \"threads = 2\""), two);
        assert_eq!(proxy("config = \"threads = 2\"\nflags = [\"--threads=1\"]"), 1.0);
        assert_eq!(proxy("flags = [\"--engine\", \"threads\"]"), f64::from(all));
        let servers = |keys: &str| cores("servers", &TWO.replace("program = \"cache\"", keys));
        assert_eq!(servers("program = \"cache\""), 1.0);
        assert_eq!(servers("program = \"memcached\"\nflags = [\"-t\", \"1\", \"-t2\"]"), two);
        assert_eq!(servers("command = [\"memcached\", \"-p\", \"{port}\"]"), f64::from(all));
        let (spec, limited) = (Spec::parse(TWO, "").unwrap(), Host { cpu: Some(0.5), ..Host::here() });
        let cell = &Plan::of(&spec).cells[0];
        assert_eq!(useful_cores("servers", &spec.stations.servers, cell, &limited), 0.5);
    }

    #[test]
    fn a_kind_with_fewer_threads_than_its_machine_has_processors_is_named() {
        let few = |text: &str| {
            let spec = Spec::parse(text, "spec.toml").unwrap();
            with_few_threads(&spec, &Plan::of(&spec).cells)
        };
        assert_eq!(few(&scaled(2, 1)), [("servers", 1)]);
        assert_eq!(few(&scaled(2, 2)), [("servers", 1), ("clients", 1)]);
        assert!(few(&scaled(1, 1)).is_empty());
        let two = "program = \"memcached\"\nflags = [\"-t\", \"2\"]";
        assert!(few(&scaled(2, 1).replace("program = \"cache\"", two)).is_empty());
        let baseline = "[[scale.baseline]]\nstation = \"servers\"\nlevels = { clients = 1 }\nthroughput = 100\n[[factor]]";
        assert!(few(&scaled(2, 1).replace("[[factor]]", baseline)).is_empty());
        assert!(few(TWO).is_empty());
    }

    #[test]
    fn clients_by_a_command_take_whole_seconds() {
        let command = "command = [\"memtier\", \"-p\", \"{port}\", \"-t\", \"{seconds}\"]";
        let foreign = clients(&TWO.replace("program = \"load\"", command), 0, 0, 0);
        assert_eq!([0.3, 2.0, 2.5].map(|seconds| foreign.lasts(seconds)), [1.0, 2.0, 3.0]);
        let words = foreign.foreign(2.5, &|_| String::new());
        assert_eq!(words[0][4], "3");
        assert_eq!(clients(TWO, 0, 0, 0).lasts(2.5), 2.5);
    }

    #[test]
    fn a_station_that_ends_by_itself_while_it_is_measured_is_an_error() {
        let (within, stop) = (Duration::from_secs(30), Stop::default());
        let mut process =
            ChildProcess::start("server 1", Command::new("sh").args(["-c", "kill -9 $$"])).unwrap();
        let station = FaultTarget::Server(1);
        process.finish(within, &stop, || Ok(())).unwrap();
        let error = ended_by_itself(&[], station, &mut process).unwrap();
        assert_eq!(error.to_string(), "server 1: has ended by itself");
        let killed = "[[fault]]\nstation = \"server 1\"\nat = \"1s\"\ndo = \"kill\"\n[[factor]]";
        let spec = Spec::parse(&TWO.replace("[[factor]]", killed), "spec.toml").unwrap();
        let faults = fault::in_order(&spec, &Plan::of(&spec).cells[0]);
        assert!(ended_by_itself(&faults, station, &mut process).is_none());
        assert!(ended_by_itself(&faults, FaultTarget::Server(2), &mut process).is_some());
    }

    const PRINTED: &str = r#"{"ALL STATS": {"Totals": {"Count": 400, "Ops/sec": 200.0}}}"#;

    const SEEDS: [u64; 4] = [
        2_538_188_416_855_193_163,
        5_826_557_231_707_480_268,
        7_272_954_165_554_104_426,
        5_776_119_968_392_039_107,
    ];
}
