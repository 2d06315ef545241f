//! Trials by processes on this machine: servers that stay, a middleware made anew for each trial, one load generator.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use krarup_load::LoadResult;
use krarup_load::schedule::Arrivals;
use krarup_net::Address;
use krarup_units::{Nanos, Seconds, text};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::process::StationError;
use super::stations::{PATIENCE, Running, Starter, ask, words};
use crate::campaign::{Due, Outcome, Testbed};
use crate::gate::Watched;
use crate::host::cpu_time;
use crate::plan::Cell;
use crate::spec::{Phases, Program, Spec};

/// What one process took of the processors while a trial was measured; `cpu.json` is a list of these.
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

/// Trials on this machine.
#[derive(Debug)]
pub struct Local<'a> {
    spec: &'a Spec,
    starter: Starter,
    servers: Option<Servers>,
}

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
        Self { spec, starter, servers: None }
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
    fn servers(&mut self, cell: &Cell) -> Result<(), StationError> {
        let station = &self.spec.stations.servers;
        let wanted = words(station, cell);
        if self.servers.as_ref().is_some_and(|servers| servers.words == wanted) {
            return Ok(());
        }
        self.end()?;
        let mut commands = Vec::new();
        let running = self.starter.servers(station, cell, &mut commands)?;
        self.servers = Some(Servers { words: wanted, running, populated: None, commands });
        Ok(())
    }

    fn trial(&mut self, cell: &Cell, folder: &Path, outcome: &mut Outcome) -> Result<(), StationError> {
        self.servers(cell)?;
        let (spec, starter) = (self.spec, &self.starter);
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
            starter.load(&targets(&middleware), &[words], POPULATING, commands)?;
            end(&mut middleware)?;
            servers.populated = Some(through);
        }
        let mut middleware = begin(commands)?;
        let targets = targets(&middleware);
        let Phases { warm_up, measure } = spec.phases;
        if warm_up > 0.0 {
            let words = clients.words(warm_up, &|_| Vec::new());
            starter.load(&targets, &words, Duration::from_secs_f64(warm_up), commands)?;
        }
        if spec.stations.middleware.as_ref().is_some_and(|station| station.program == Some(Program::Proxy)) {
            middleware.iter().try_for_each(forget)?;
        }
        let results = result_files(folder, clients.count);
        for parent in results.iter().filter_map(|file| file.parent()) {
            fs::create_dir_all(parent).map_err(|error| unreadable(parent, &error))?;
        }
        let words = clients.words(measure, &|client| {
            vec!["--json".to_owned(), results[client as usize - 1].to_string_lossy().into_owned()]
        });
        let before = busy(&middleware, &servers.running);
        starter.load(&targets, &words, Duration::from_secs_f64(measure), commands)?;
        let after = busy(&middleware, &servers.running);
        end(&mut middleware)?;
        let loads = results.iter().map(|file| read(file)).collect::<Result<Vec<LoadResult>, _>>()?;
        let mut spent: Vec<Busy> = loads.iter().enumerate().map(generator(loads.len())).collect();
        spent.extend(before.into_iter().zip(after).filter_map(|(before, after)| {
            let seconds = after.1?.saturating_sub(before.1?).as_seconds();
            Some(Busy { seconds, ..before.0 })
        }));
        let (file, text) =
            (folder.join("cpu.json"), serde_json::to_string_pretty(&spent).expect("plain data"));
        fs::write(&file, text).map_err(|error| unreadable(&file, &error))?;
        let count: u64 = loads.iter().map(|load| load.overall.count).sum();
        let waited: f64 =
            loads.iter().map(|load| load.overall.count as f64 * load.overall.response_time.mean).sum();
        outcome.throughput = loads.iter().map(|load| load.overall.throughput.0).sum();
        outcome.response = waited / count.max(1) as f64;
        outcome.failed = apart(&loads).or_else(|| loads.iter().find_map(|load| refused(spec, load)));
        Ok(())
    }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> StationError {
    StationError { name: "load".into(), why: format!("{}: {error}", path.display()), said: Vec::new() }
}

fn read(file: &Path) -> Result<LoadResult, StationError> {
    let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    serde_json::from_str(&text).map_err(|error| unreadable(file, &error))
}

/// What the load generators are told.
struct Clients {
    count: u32,
    seed: u64,
    data: Vec<String>,
    flags: Vec<String>,
}

impl Clients {
    fn of(spec: &Spec, cell: &Cell) -> Self {
        Self {
            count: spec.stations.clients.count.unwrap_or(1),
            seed: spec.seed,
            data: cell.render(&spec.data),
            flags: cell.render(&spec.stations.clients.flags),
        }
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

/// Where each client writes its result: `load.json`, or `clients/1.json` and so on where there are several.
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

impl Testbed for Local<'_> {
    fn run(&mut self, due: &Due<'_>, folder: &Path) -> Outcome {
        let mut outcome = Outcome::default();
        if let Err(error) = self.trial(due.cell, folder, &mut outcome) {
            outcome.failed = Some(error.to_string());
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

/// Clients that begin this share of the measured time apart were not one load: their throughputs must not be added up.
const APART: f64 = 0.2;

/// What is said of clients that did not begin together.
fn apart(loads: &[LoadResult]) -> Option<String> {
    let begun = || loads.iter().map(|load| load.started_unix);
    let apart = begun().fold(0.0, f64::max) - begun().fold(f64::INFINITY, f64::min);
    let measured = loads.iter().map(|load| load.seconds).fold(f64::INFINITY, f64::min);
    (apart > APART * measured).then(|| {
        let (apart, measured) = (text::duration(apart), text::duration(measured));
        format!("the clients began {apart} apart, and measured {measured}: the machine is too busy for so short a trial")
    })
}

/// Which gates a trial does not pass.
fn refused(spec: &Spec, load: &LoadResult) -> Option<String> {
    let overall = &load.overall;
    let value = |watched| match watched {
        Watched::Errors => overall.errors.values().sum::<u64>() as f64,
        Watched::Misses => overall.misses as f64,
        Watched::GeneratorCpu => load.generator.busiest_thread,
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

/// Processor time of each process so far.
fn busy(middleware: &[Running], servers: &[Running]) -> Vec<(Busy, Option<Nanos>)> {
    let of = |station: &str, name: String, running: &Running| {
        let process = running.process.as_ref()?;
        let busy = Busy { station: station.into(), name, seconds: 0.0, cores: 1.0 };
        Some((busy, cpu_time(process.id())))
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
    let wrong =
        |why: String| StationError { name: format!("proxy {}", proxy.address), why, said: Vec::new() };
    match ask(&proxy.host, &proxy.address, "stats reset\r\nquit\r\n") {
        Ok(answer) if answer == "RESET" => Ok(()),
        Ok(answer) => Err(wrong(format!("`stats reset` was answered with `{answer}`"))),
        Err(error) => Err(wrong(format!("`stats reset` could not be asked: {error}"))),
    }
}
