//! Trials by processes on this machine: servers that stay, a middleware made anew for each trial, one load generator.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use krarup_load::LoadResult;
use krarup_load::schedule::Arrivals;
use krarup_net::Address;
use krarup_units::{Nanos, Seconds};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::process::StationError;
use super::stations::{PATIENCE, Running, Starter, words};
use crate::campaign::{Due, Outcome, Testbed};
use crate::gate::Watched;
use crate::host::cpu_time;
use crate::plan::Cell;
use crate::spec::{Program, Spec};

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

    fn trial(
        &mut self,
        cell: &Cell,
        repetition: u32,
        folder: &Path,
        outcome: &mut Outcome,
    ) -> Result<(), StationError> {
        self.servers(cell)?;
        let (spec, starter) = (self.spec, &self.starter);
        let servers = self.servers.as_mut().expect("they were started above");
        outcome.commands.extend(servers.commands.iter().cloned());
        let asked: Vec<Address> = servers.running.iter().map(|server| server.address.clone()).collect();
        let seed = spec.seed.to_string();
        let data = [vec!["--seed".to_owned(), seed], cell.render(&spec.data)].concat();
        let common = [&data[..], &cell.render(&spec.stations.clients.flags)].concat();
        let own =
            spec.stations.middleware.as_ref().is_some_and(|station| station.program == Some(Program::Proxy));
        let records = folder.join("middleware");
        let through: Vec<String> =
            spec.stations.middleware.iter().flat_map(|station| words(station, cell)).collect();
        let begin = |commands: &mut Vec<String>| match &spec.stations.middleware {
            Some(station) => starter.middleware(station, cell, &asked, &records, commands),
            None => Ok(Vec::new()),
        };
        let targets = |middleware: &[Running]| -> Vec<Address> {
            let stations = if middleware.is_empty() { &asked[..] } else { &[] };
            middleware.iter().map(|one| one.address.clone()).chain(stations.iter().cloned()).collect()
        };
        if let Some(populate) = &spec.populate
            && servers.populated.as_ref() != Some(&through)
        {
            let mut middleware = begin(&mut outcome.commands)?;
            let words = [&data[..], &cell.render(&populate.flags), &["--populate-only".to_owned()]].concat();
            starter.load(&targets(&middleware), &words, POPULATING, &mut outcome.commands)?;
            end(&mut middleware)?;
            servers.populated = Some(through);
        }
        let mut middleware = begin(&mut outcome.commands)?;
        let targets = targets(&middleware);
        let timed = |seconds: Seconds, more: &[&str]| {
            let more = more.iter().map(|&word| word.to_owned());
            common
                .iter()
                .cloned()
                .chain(["--seconds".to_owned(), format!("{seconds}s")])
                .chain(more)
                .collect::<Vec<_>>()
        };
        let phases = &spec.phases;
        if phases.warm_up > 0.0 {
            starter.load(
                &targets,
                &timed(phases.warm_up, &[]),
                length(phases.warm_up),
                &mut outcome.commands,
            )?;
        }
        if own {
            for one in &middleware {
                forget(&one.address)?;
            }
        }
        let result = folder.join("load.json");
        let file = result.to_string_lossy().into_owned();
        let before = busy(&middleware, &servers.running);
        starter.load(
            &targets,
            &timed(phases.measure, &["--json", &file]),
            length(phases.measure),
            &mut outcome.commands,
        )?;
        let after = busy(&middleware, &servers.running);
        end(&mut middleware)?;
        let broken = |why: String| StationError { name: "load".into(), why, said: Vec::new() };
        let text = fs::read_to_string(&result).map_err(|error| broken(format!("{file}: {error}")))?;
        let load: LoadResult = serde_json::from_str(&text)
            .map_err(|error| broken(format!("its result is not readable: {error}")))?;
        let mut spent = vec![Busy {
            station: "clients".into(),
            name: "load".into(),
            seconds: load.generator.cpu_seconds,
            cores: f64::from(load.config.threads),
        }];
        spent.extend(before.into_iter().zip(after).filter_map(|(before, after)| {
            let seconds = after.1?.saturating_sub(before.1?).as_seconds();
            Some(Busy { seconds, ..before.0 })
        }));
        let text = serde_json::to_string_pretty(&spent).expect("plain data");
        fs::write(folder.join("cpu.json"), text).map_err(|error| broken(format!("cpu.json: {error}")))?;
        outcome.throughput = load.overall.throughput.0;
        outcome.response = load.overall.response_time.mean;
        outcome.failed = refused(spec, &load);
        let _ = repetition;
        Ok(())
    }
}

/// How long storing all keys may take, beside the usual patience.
const POPULATING: Duration = Duration::from_secs(600);

fn length(seconds: Seconds) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl Testbed for Local<'_> {
    fn run(&mut self, due: &Due<'_>, folder: &Path) -> Outcome {
        let mut outcome = Outcome::default();
        if let Err(error) = self.trial(due.cell, due.repetition, folder, &mut outcome) {
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
fn forget(proxy: &Address) -> Result<(), StationError> {
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((proxy.host.as_str(), proxy.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"stats reset\r\nquit\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let wrong = |why: String| StationError { name: format!("proxy {proxy}"), why, said: Vec::new() };
    match ask() {
        Ok(answer) if answer == b"RESET\r\n" => Ok(()),
        Ok(answer) => Err(wrong(format!(
            "`stats reset` was answered with `{}`",
            String::from_utf8_lossy(&answer).trim_end()
        ))),
        Err(error) => Err(wrong(format!("`stats reset` could not be asked: {error}"))),
    }
}
