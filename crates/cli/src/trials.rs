//! A directory of results as analysis wants it: each complete trial from what load generator,
//! middleware and host said.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use krarup_analysis::anchor::{self, AnchorRun, AnchorRuns};
use krarup_analysis::distribution::{QUANTILES, share_of, tail_length, tail_share};
use krarup_analysis::results::{AT, Environment, NODE, ProcessorLimit, Way};
use krarup_analysis::trial::{
    self, CellLevels, ClientOperation, ClientSide, ClientWindow, GeneratorWarning, HostLink,
    MiddlewareOperation, MiddlewareSide, MiddlewareWindow, ProcessCpu, ResponseCourse, ServerSide, Stretch,
    StretchOperation, SystemPart, Trial, TrialHistogram, TrialTimes,
};
use krarup_lab::agent::facts::Facts;
use krarup_lab::fault::Happened;
use krarup_lab::identities::Identities;
use krarup_lab::plan::{Plan, anchor_block, trial_time};
use krarup_lab::platform::Platform;
use krarup_lab::spec::{Program, Spec, StationRole};
use krarup_lab::store::{self, Manifest, ResultsDirectory, TrialSystem, folders};
use krarup_lab::testbed::baselines::{self, KeptScale};
use krarup_lab::testbed::calibrate::LimitCalibration;
use krarup_lab::testbed::clock::Offset;
use krarup_lab::testbed::error::StationError;
use krarup_lab::testbed::paths::{RoundTrips, Throughput};
use krarup_lab::testbed::probe;
use krarup_lab::testbed::remote::Remote;
use krarup_lab::testbed::stations::{self, Starter};
use krarup_lab::testbed::trial::{Busy, LinkUse, result_files};
use krarup_lab::testbed::twemproxy::{self, TwemproxyCounts, TwemproxyServer};
use krarup_load::result::{OperationResult, SeriesRow};
use krarup_load::{LoadResult, LoadWarning};
use krarup_record::file::log;
use krarup_record::scaled::ScaledStation;
use krarup_record::summary::{self, MiddlewareSummary, RunSummary, ServerSummary};
use krarup_record::watch::Watch;
use krarup_record::{MeasuredDistribution, Quantity};
use krarup_units::{Bytes, Nanos, Seconds};

use crate::failure::Failure;
use crate::input::{json, json_if_there};

/// Every trial of the plan that is complete, cells in the plan's order, each with the folder of its
/// records.
pub(crate) fn with_folders(
    spec: &Spec,
    plan: &Plan,
    store: &ResultsDirectory,
) -> Result<Vec<(PathBuf, Trial)>, Failure> {
    let mut known = KnownTrials::default();
    let trials = known.with_folders(spec, plan, store)?;
    known.unread.iter().for_each(|(_, why)| why.warn("its trial is left out"));
    Ok(trials)
}

/// Trials that were read already: while an experiment runs, what is complete does not change.
#[derive(Default)]
pub(crate) struct KnownTrials {
    trials: BTreeMap<PathBuf, Trial>,
    /// Trials whose records could not be read, with the reason.
    pub(crate) unread: Vec<(PathBuf, Failure)>,
}

impl KnownTrials {
    /// Every trial of the plan that is complete; only those that are not known are read.
    pub(crate) fn with_folders(
        &mut self,
        spec: &Spec,
        plan: &Plan,
        store: &ResultsDirectory,
    ) -> Result<Vec<(PathBuf, Trial)>, Failure> {
        let mut trials = Vec::new();
        let identities = identities(plan, store)?;
        let scale = kept_scale(store.directory())?;
        self.unread.clear();
        for cell in &plan.cells {
            for repetition in 0..spec.repetitions.most() {
                let complete = store.complete(cell, repetition, &identities);
                let Some((folder, manifest)) = complete else { continue };
                if let Some(known) = self.trials.get(&folder) {
                    trials.push((folder, known.clone()));
                    continue;
                }
                let clients = cell.count(&spec.stations.clients, 1);
                let cool_down = spec.phases.cool_down > 0.0;
                let mut trial = match trial(&folder, clients, plan.label(cell), repetition, cool_down) {
                    Ok(trial) => trial,
                    Err(why) => {
                        self.unread.push((folder, why));
                        continue;
                    }
                };
                if let Some(by) = manifest.slower {
                    trial = trial.scaled_back(by);
                    let shares = manifest.system.unwrap_or_default().shares;
                    let stations = scale.iter().map(|kept| &kept.testbed.stations);
                    stations.for_each(|stations| of_machines(&mut trial.cpu, by, stations, &shares));
                }
                trial.factors = cell.named_levels();
                trial.disturbed = manifest.disturbed;
                self.trials.insert(folder.clone(), trial.clone());
                trials.push((folder, trial));
            }
        }
        Ok(trials)
    }
}

/// Processor time that was scaled back, as that of the machines which stations stand for: by the
/// share that a baseline has found for one of these its processors are quicker or slower than ours.
/// A trial keeps its `shares`; those that say none were run with what was found last.
fn of_machines(cpu: &mut [ProcessCpu], by: f64, stations: &[ScaledStation], shares: &BTreeMap<String, f64>) {
    for process in cpu {
        let is_its = |one: &&ScaledStation| station(&one.station) == process.station;
        let Some(its) = stations.iter().find(is_its) else { continue };
        let share = shares.get(&its.station).unwrap_or(&its.share);
        let times = its.processors / (share * by);
        process.busy *= times;
        // Whole ones are whole again.
        process.cores = (process.cores * times * 1e9).round() / 1e9;
    }
}

/// The digest of the guesses that each complete trial was measured under.
pub(crate) fn seals(
    spec: &Spec,
    plan: &Plan,
    store: &ResultsDirectory,
) -> Result<Vec<Option<String>>, Failure> {
    let identities = &identities(plan, store)?;
    let of_cell = |cell| {
        let runs = 0..spec.repetitions.most();
        runs.filter_map(move |repetition| Some(store.complete(cell, repetition, identities)?.1.sheet))
    };
    Ok(plan.cells.iter().flat_map(of_cell).collect())
}

/// How long after a trial, beside what attempts take, a run of the anchor may begin that stands
/// beside it, or the other way round: a machine that was left longer may be another.
const IDLE: Seconds = 3_600.0;

/// What the runs of the anchor say that are complete and stand beside trials; none where there are
/// none.
pub(crate) fn anchor(
    spec: &Spec,
    plan: &Plan,
    store: &ResultsDirectory,
) -> Result<Option<AnchorRuns>, Failure> {
    let (Some(anchor), Some(cell)) = (&spec.anchor, plan.anchor(spec)) else { return Ok(None) };
    let identities = identities(plan, store)?;
    let most = spec.repetitions.most();
    let run = |manifest: Manifest| {
        let Manifest { repetition, started_unix, throughput, response, .. } = manifest;
        let block = anchor_block(repetition).filter(|block| *block < most)?;
        Some(AnchorRun { block, started_unix, throughput, response })
    };
    let runs = store.anchor_runs(cell, &identities).into_iter().filter_map(run);
    let trial = |cell, block| Some((block, store.complete(cell, block, &identities)?.1.started_unix));
    let trials = plan.cells.iter().flat_map(|cell| (0..most).filter_map(move |block| trial(cell, block)));
    // What fails, or is disturbed, is tried again between them.
    let apart = IDLE + (f64::from(spec.retries) + 2.0) * trial_time(spec);
    Ok(anchor::judge(&cell.name(), anchor.get_ref().within, beside_trials(runs, trials, apart)))
}

/// Those runs of the anchor that have a trial next to them in their block which began at most this
/// far apart; of trials is told when they began. The others are of trials that are there no more,
/// or beside those of another day, and say nothing of those that are.
fn beside_trials(
    runs: impl Iterator<Item = AnchorRun>,
    trials: impl Iterator<Item = (u32, Seconds)>,
    apart: Seconds,
) -> Vec<AnchorRun> {
    let runs = runs.map(|run| (run.block, run.started_unix, Some(run)));
    let mut all: Vec<_> = runs.chain(trials.map(|(block, begun)| (block, begun, None))).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let has_trial = |place: Option<usize>, block: u32, begun: Seconds| {
        place
            .and_then(|place| all.get(place))
            .is_some_and(|(other, at, run)| *other == block && run.is_none() && (at - begun).abs() <= apart)
    };
    let beside = all.iter().enumerate().filter(|(place, (block, begun, _))| {
        has_trial(place.checked_sub(1), *block, *begun) || has_trial(Some(place + 1), *block, *begun)
    });
    beside.filter_map(|(_, (.., run))| *run).collect()
}

/// Which trials belong to a directory that is read.
pub(crate) fn identities(plan: &Plan, store: &ResultsDirectory) -> Result<Identities, Failure> {
    Identities::of_directory(store, plan).map_err(|error| Failure::usage(error.to_string()))
}

/// What was scaled in a directory of results, as it was written down; none where nothing was, or
/// none yet.
pub(crate) fn kept_scale(directory: &Path) -> Result<Option<KeptScale>, Failure> {
    json_if_there(&directory.join(baselines::FILE))
}

/// Whether this folder is a trial's.
pub(crate) fn is_trial(folder: &Path) -> bool {
    store::read(folder).is_ok()
}

/// How many times slower everything was in the trial of this folder, or of the one that this folder
/// or file lies in; none where it is no trial's, or nothing was slower.
pub(crate) fn slower(path: &Path) -> Option<f64> {
    let path = path.canonicalize().ok()?;
    let manifest = path.ancestors().find_map(|folder| store::read(folder).ok())?;
    manifest.slower.filter(|by| *by > 1.0)
}

/// By how much the clocks of a trial's hosts differ from the runner's; by nothing on one machine.
pub(crate) struct HostClocks(BTreeMap<String, Offset>);

impl HostClocks {
    /// Those of the trial in this folder.
    pub(crate) fn of(run: &Path) -> Result<Self, Failure> {
        let path = run.join("clocks.json");
        let clocks: BTreeMap<String, Offset> = json_if_there(&path)?.unwrap_or_default();
        let Some(apart) = apart_by_machine(&clocks) else { return Ok(Self(clocks)) };
        eprintln!(
            "warning: {} is of an earlier version and names machines: records are cut as if clocks agreed (they differed from the runner's by up to {})",
            path.display(),
            krarup_units::text::duration(apart)
        );
        Ok(Self(BTreeMap::new()))
    }

    fn ahead(&self, host: &str) -> Seconds {
        self.0.get(host).map_or(0.0, |clock| clock.seconds)
    }

    /// What the clients found whose results these files are, in the order of their numbers, by the
    /// runner's clock.
    pub(crate) fn loads(&self, files: &[PathBuf]) -> Result<Vec<LoadResult>, Failure> {
        let here = |(client, file): (usize, &PathBuf)| {
            let load: LoadResult = json(file)?;
            Ok(LoadResult { started_unix: load.started_unix - self.ahead(&format!("c{client}")), ..load })
        };
        (1..).zip(files).map(here).collect()
    }

    /// A span of the runner's time by the clock of who wrote these records of the run: those of a
    /// middleware lie in a folder of its number.
    pub(crate) fn there(
        &self,
        (from, to): (Seconds, Seconds),
        run: &Path,
        records: &Path,
    ) -> (Seconds, Seconds) {
        let mut place = records.strip_prefix(run).unwrap_or(Path::new("")).iter();
        let number = place.next().filter(|folder| *folder == "middleware").and_then(|_| place.next());
        // What several wrote into one folder is called `1 of HOST:PORT`.
        let number = number.and_then(|name| name.to_str()?.split(' ').next());
        let ahead = number.map_or(0.0, |number| self.ahead(&format!("m{number}")));
        (from + ahead, to + ahead)
    }
}

/// By how much clocks that are named by machine, and not by host as `c1`, differ from the
/// runner's; none where they are named by host, or agree.
fn apart_by_machine(clocks: &BTreeMap<String, Offset>) -> Option<Seconds> {
    let is_host = |name: &String| {
        let number = name.strip_prefix(['c', 'm', 's']);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if clocks.keys().all(is_host) {
        return None;
    }
    let apart = clocks.values().filter(|clock| clock.seconds.abs() > clock.within);
    apart.map(|clock| clock.seconds.abs()).reduce(f64::max)
}

/// What all of it runs on: machines and programs.
pub(crate) fn system(servers: &str, starter: &Starter, spec: &Spec) -> Environment {
    let host = Platform::this();
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut environment = Environment {
        cpu: host.cpu,
        cores: host.cores,
        memory: host.memory.to_string(),
        kernel: host.kernel,
        versions: vec![
            ("krarup".into(), env!("CARGO_PKG_VERSION").into()),
            ("servers".into(), servers.to_owned()),
        ],
        command_line: words.collect::<Vec<_>>().join(" "),
        ..Environment::default()
    };
    let others = starter.hosts.machines();
    let between = spec.stations.middleware.as_ref().and_then(|station| station.program);
    // On other machines each trial's counts say its version.
    if between == Some(Program::Twemproxy) && others.is_empty() {
        environment.versions.extend(probe::nutcracker().map(|version| ("middleware".to_owned(), version)));
    }
    if !others.is_empty() {
        machines(&mut environment, &others, starter);
    }
    environment
}

/// The same with when trials began on it, the ways between hosts, and what limits give.
///
/// # Errors
/// Where a host cannot reach another.
pub(crate) fn environment(
    system: &Environment,
    started: String,
    starter: &Starter,
    spec: &Spec,
) -> Result<Environment, StationError> {
    let most = stations::kinds(spec).map(|kind| kind.count);
    let slower = spec.slower();
    let way = |one: Throughput| {
        let bits_per_second = one.bits_per_second.map(|bits| bits * slower);
        Way { from: one.from, to: one.to, bits_per_second }
    };
    let ways = starter.throughputs(most)?.into_iter().map(way).collect();
    let limits = starter.calibrations.iter().map(limit).collect();
    Ok(Environment { started, ways, limits, ..system.clone() })
}

/// Adds to what trials were measured on what is another machine or program now, and says what.
pub(crate) fn also_on(kept: &mut Environment, now: &Environment) -> Vec<String> {
    let mut others = Vec::new();
    let mut add = |name: &str, kept: &mut String, now: &str| {
        if !format!(" and {kept} and ").contains(&format!(" and {now} and ")) {
            others.push(format!("{name} was `{kept}` and is `{now}`"));
            *kept = format!("{kept} and {now}");
        }
    };
    add("processor", &mut kept.cpu, &now.cpu);
    add("system", &mut kept.kernel, &now.kernel);
    for (name, version) in &mut kept.versions {
        let same = |one: &&(String, String)| one.0 == *name && !is_pod(one);
        if let Some((name, now)) = now.versions.iter().find(same) {
            // Earlier results do not say which stations a machine is for.
            let is_silent = name.starts_with(MACHINE) && !version.contains(FOR);
            let what = now.split_once(FOR).filter(|_| is_silent).map_or(now.as_str(), |(what, _)| what);
            add(name, version, what);
        }
    }
    // One more machine, or one less, is that of cells which have more or fewer stations.
    let gone = machines_beside(&kept.versions, &now.versions);
    let new = machines_beside(&now.versions, &kept.versions);
    if !gone.is_empty() && !new.is_empty() {
        let names = |all: &[(String, String)]| {
            all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
        };
        others.push(format!("{} took the place of {}", names(&new), names(&gone)));
        kept.versions.extend(new);
    }
    if kept.cores != now.cores && kept.cores > 0 && now.cores > 0 {
        others.push(format!("processors were {} and are {}", kept.cores, now.cores));
        kept.cores = 0;
    }
    others
}

/// What is compared of a system, as trials keep it: with the share of each station that is scaled.
pub(crate) fn kept_system(system: &Environment, shares: BTreeMap<String, f64>) -> TrialSystem {
    let Environment { cpu, cores, kernel, versions, .. } = system;
    let own = [(CPU, cpu.clone()), (CORES, cores.to_string()), (KERNEL, kernel.clone())];
    let own = own.map(|(name, what)| (name.to_owned(), what));
    TrialSystem { names: own.into_iter().chain(versions.iter().cloned()).collect(), shares }
}

/// The same, as it is compared.
fn environment_of(trial: &TrialSystem) -> Environment {
    let own = |name: &str| trial.names.get(name).cloned().unwrap_or_default();
    let is_version = |(name, _): &(&String, &String)| ![CPU, CORES, KERNEL].contains(&name.as_str());
    let versions = trial.names.iter().filter(is_version);
    Environment {
        cpu: own(CPU),
        cores: own(CORES).parse().unwrap_or(0),
        kernel: own(KERNEL),
        versions: versions.map(|(name, what)| (name.clone(), what.clone())).collect(),
        ..Environment::default()
    }
}

/// What processor, processors and system are called where a trial keeps them.
const CPU: &str = "processor";
const CORES: &str = "processors";
const KERNEL: &str = "system";

/// Adds to what trials were measured on what one of them says that is not named there, and says
/// what: it was left aside while others were measured.
pub(crate) fn also_before(kept: &mut Environment, trial: &TrialSystem) -> Vec<String> {
    let (before, mut earlier) = (kept.clone(), environment_of(trial));
    let added = also_on(kept, &earlier);
    if added.is_empty() {
        return added;
    }
    let others = also_on(&mut earlier, &before);
    if others.is_empty() { added } else { others }
}

/// By which part of itself a share that is searched for anew may differ: a search finds it to 5 to
/// 10 %.
const SHARES_WITHIN: f64 = 0.1;

/// Which stations had another share of a processor in a trial than they have `now`.
pub(crate) fn other_shares(trial: &TrialSystem, now: &BTreeMap<String, f64>) -> Vec<String> {
    let other = |(station, share): (&String, &f64)| {
        let now = now.get(station)?;
        let differs = (share - now).abs() > SHARES_WITHIN * now;
        differs.then(|| format!("the share of the {station} was {share:.4} and is {now:.4}"))
    };
    trial.shares.iter().filter_map(other).collect()
}

/// How the names of other machines begin among versions.
const MACHINE: &str = "machine ";
/// What the stations follow there that a machine is for.
const FOR: &str = ", for ";

/// Whether this is a pod: it is another each time, and what its machine is stands elsewhere.
fn is_pod((name, what): &(String, String)) -> bool {
    name.starts_with(MACHINE) && what.contains(NODE)
}

/// The machines among these versions, and not among the others, that are no pods.
fn machines_beside(these: &[(String, String)], others: &[(String, String)]) -> Vec<(String, String)> {
    let is_missing = |name: &String| !others.iter().any(|(other, _)| other == name);
    let beside = |one: &&(String, String)| one.0.starts_with(MACHINE) && !is_pod(one) && is_missing(&one.0);
    these.iter().filter(beside).cloned().collect()
}

fn limit(one: &LimitCalibration) -> ProcessorLimit {
    let LimitCalibration { machine, asked, plain, written, got } = one.clone();
    ProcessorLimit { machine, asked, plain, written, got }
}

/// What an environment says of the limits of those of its machines that are the same `now`: trials
/// of one machine have the same quotas, and what another gives by them is not known.
pub(crate) fn calibrations(environment: &Environment, now: &Environment) -> Vec<LimitCalibration> {
    let is_same = |one: &&ProcessorLimit| {
        let name = format!("{MACHINE}{}", one.machine);
        let machine = |of: &Environment| of.versions.iter().find(|(known, _)| *known == name).cloned();
        match machine(now) {
            Some(there) => machine(environment) == Some(there),
            None => {
                (&environment.cpu, environment.cores, &environment.kernel)
                    == (&now.cpu, now.cores, &now.kernel)
            }
        }
    };
    let known = |one: &ProcessorLimit| {
        let ProcessorLimit { machine, asked, plain, written, got } = one.clone();
        LimitCalibration { machine, asked, plain, written, got }
    };
    environment.limits.iter().filter(is_same).map(known).collect()
}

/// Other machines in place of this one: what they have in common, and each of them.
fn machines(environment: &mut Environment, others: &[Arc<Remote>], starter: &Starter) {
    let facts: Vec<&Facts> = others.iter().map(|machine| machine.facts()).collect();
    let common = |of: &dyn Fn(&Facts) -> String| {
        let mut all: Vec<String> = facts.iter().map(|facts| of(facts)).collect();
        all.sort();
        all.dedup();
        all.join(" and ")
    };
    environment.cpu = common(&|facts| facts.cpu.clone());
    environment.cores = 0;
    environment.memory = common(&|facts| Bytes(facts.memory).to_string());
    environment.kernel = common(&|facts| facts.kernel.clone());
    for machine in others {
        let Facts { cpu, cores, memory, kernel, .. } = machine.facts();
        let runs_there = |role: &StationRole| {
            starter.hosts.all(role.letter()).iter().any(|host| host.machine() == machine.name)
        };
        let roles = [StationRole::Clients, StationRole::Middleware, StationRole::Servers];
        let stations = roles.into_iter().filter(runs_there).map(StationRole::name);
        let stations = stations.collect::<Vec<_>>().join(", ");
        let (memory, address) = (Bytes(*memory), &machine.address);
        let node = machine.node().map_or(String::new(), |node| format!("{NODE}{node}"));
        let what = format!("{cpu}, {cores} processors, {memory}, {kernel}{AT}{address}{FOR}{stations}{node}");
        environment.versions.push((format!("{MACHINE}{}", machine.name), what));
    }
}

fn trial(
    folder: &Path,
    clients: u32,
    workload: String,
    repetition: u32,
    cool_down: bool,
) -> Result<Trial, Failure> {
    let files = result_files(folder, clients);
    let loads = files.iter().map(|file| json(file)).collect::<Result<Vec<LoadResult>, _>>()?;
    let load = &loads[0];
    let ways: Vec<RoundTrips> = json_if_there(&folder.join("paths.json"))?.unwrap_or_default();
    let mut middlewares = Vec::new();
    for number in 1.. {
        let records = folder.join("middleware").join(number.to_string());
        if !records.join("summary.json").is_file() {
            break;
        }
        middlewares.push((json::<MiddlewareSummary>(&records.join("summary.json"))?, records));
    }
    let length = loads.iter().map(|load| load.seconds).sum::<f64>() / loads.len() as f64;
    let mut sides: Vec<MiddlewareSide> =
        middlewares.iter().map(|(one, _)| middleware_side(&one.run)).collect();
    if cool_down {
        sides.iter_mut().for_each(|side| without_cool_down(side, length));
    }
    let thinks: Option<Vec<f64>> = loads.iter().map(LoadResult::think).collect();
    let open = thinks.is_none();
    let thinks = loads.iter().map(|load| load.overall.count.max(1)).zip(thinks.unwrap_or_default());
    let think = mean_over(&thinks.collect::<Vec<_>>());
    // Several middlewares may ask one server.
    let mut servers: Vec<ServerSide> = Vec::new();
    let foreign = foreign_counts(folder)?;
    let foreign = foreign.iter().flat_map(|counts| &counts.servers).map(asked);
    let ours = middlewares.iter().flat_map(|(one, _)| one.servers.iter().cloned());
    for ServerSummary { name, requests, errors } in ours.chain(foreign) {
        match servers.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                known.requests += requests;
                known.errors += errors;
            }
            None => servers.push(ServerSide { name, requests, errors }),
        }
    }
    let times = distribution(&loads.iter().map(|load| &load.overall).collect::<Vec<_>>());
    Ok(Trial {
        levels: CellLevels { workload, clients: loads.iter().map(|load| load.config.clients()).sum() },
        repetition,
        length,
        think,
        client: ClientSide {
            open,
            quantiles: times.as_ref().map_or_else(Vec::new, quantiles),
            tail: times.as_ref().map_or_else(Vec::new, tail),
            over_time: over_time(&loads),
            operations: client_operations(&loads),
            ..if loads.len() == 1 { client_side(load) } else { all_clients(&loads) }
        },
        servers,
        middleware: match sides.len() {
            0 | 1 => sides.pop(),
            _ => Some(together(&middlewares, &sides)?),
        },
        cpu: processes(folder)?,
        links: links(folder)?,
        ways: ways.iter().map(way).collect(),
        factors: Vec::new(),
        course: course(folder, &loads, length)?,
        machine: machine(&folder.join("monitor"))?,
        machines: each_machine(&folder.join("monitor"))?,
        disturbed: None,
    })
}

/// What each middleware that is none of ours counted meanwhile; empty where there was none, or none
/// that tells.
pub(crate) fn foreign_counts(folder: &Path) -> Result<Vec<TwemproxyCounts>, Failure> {
    let all = (1..).map(|number| json_if_there(&twemproxy::counts_file(folder, number)));
    all.map_while(Result::transpose).collect()
}

/// What it asked of one server. Nothing is under way when it is asked for its counts: what was not
/// answered then is lost.
fn asked(server: &TwemproxyServer) -> ServerSummary {
    let TwemproxyServer { name, requests, responses, .. } = server;
    ServerSummary { name: name.clone(), requests: *requests, errors: requests.saturating_sub(*responses) }
}

/// What was answered before and after each fault; empty where nothing was done to a station.
fn course(folder: &Path, loads: &[LoadResult], length: f64) -> Result<Vec<Stretch>, Failure> {
    let file = folder.join("faults.json");
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let happened: Vec<Happened> = json(&file)?;
    let mut course = vec![Stretch::default()];
    for Happened { station, action, at, late } in happened {
        let after = format!("{action} {station}");
        match course.last_mut().filter(|last| last.start == at) {
            Some(last) => {
                last.after = if last.after.is_empty() { after } else { format!("{}, {after}", last.after) };
                last.late = last.late.max(late);
            }
            None => course.push(Stretch { after, start: at, late, ..Stretch::default() }),
        }
    }
    // The generators count by seconds: one belongs to what was done at its beginning or before.
    let ends: Vec<f64> = course.iter().skip(1).map(|next| next.start.ceil()).chain([length]).collect();
    for (stretch, end) in course.iter_mut().zip(ends) {
        stretch.length = (end - stretch.start.ceil()).max(0.0);
    }
    let by_operation =
        |row: &&SeriesRow| row.measured && row.class.is_empty() && row.operation != "all" && row.count > 0;
    for row in loads.iter().flat_map(|load| &load.series).filter(by_operation) {
        let of = course.partition_point(|stretch| stretch.start <= row.start + 1e-6);
        course[of.saturating_sub(1)].count(&StretchOperation {
            name: row.operation.clone(),
            completed: row.count,
            errors: row.errors,
            hits: row.hits,
            misses: row.misses,
            response: row.mean,
        });
    }
    Ok(course)
}

/// What the processes of a trial took of the processors; empty where it was not written down.
pub(crate) fn processes(folder: &Path) -> Result<Vec<ProcessCpu>, Failure> {
    let busy: Vec<Busy> = json_if_there(&folder.join("cpu.json"))?.unwrap_or_default();
    Ok(busy.iter().map(process).collect())
}

/// What its hosts sent over their links; trials of earlier versions have none.
pub(crate) fn links(folder: &Path) -> Result<Vec<HostLink>, Failure> {
    let links: Vec<LinkUse> = json_if_there(&folder.join("links.json"))?.unwrap_or_default();
    Ok(links.iter().map(link).collect())
}

/// What its machines did meanwhile: each of several, or the one; empty where none was watched.
pub(crate) fn watches(folder: &Path) -> Result<Vec<Watch>, Failure> {
    let monitor = folder.join("monitor");
    let each: Vec<Watch> = each_machine(&monitor)?.into_iter().map(|(_, watch)| watch).collect();
    Ok(if each.is_empty() { machine(&monitor)?.into_iter().collect() } else { each })
}

/// What the machine did meanwhile; none where it was not watched.
fn machine(monitor: &Path) -> Result<Option<Watch>, Failure> {
    json_if_there(&monitor.join("watch.json"))
}

/// What each of several machines did, by name; empty where there is one.
fn each_machine(monitor: &Path) -> Result<Vec<(String, Watch)>, Failure> {
    let mut found = Vec::new();
    for folder in folders(monitor) {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        found.extend(machine(&folder)?.map(|watch| (name, watch)));
    }
    Ok(found)
}

/// Quantiles of all response times.
fn quantiles(all: &MeasuredDistribution) -> Vec<f64> {
    at(all, (0..QUANTILES).map(share_of))
}

/// Quantiles towards the slowest.
fn tail(all: &MeasuredDistribution) -> Vec<f64> {
    at(all, (0..tail_length(all.count())).map(tail_share))
}

fn at(all: &MeasuredDistribution, shares: impl Iterator<Item = f64>) -> Vec<f64> {
    shares.filter_map(|share| all.quantile(share)).map(Nanos::as_seconds).collect()
}

/// The bounds of a course of response times: eight for each power of ten, from 1 µs to 100 s.
fn bounds() -> Vec<u64> {
    (0..=8 * 8).map(|step| 10.0_f64.powf(3.0 + f64::from(step) / 8.0).round() as u64).collect()
}

/// Whether it is a whole window of all clients and operations in the measured part.
fn whole(row: &&SeriesRow) -> bool {
    row.measured && row.class.is_empty() && row.operation == "all" && row.length >= 1.0
}

/// The response times second by second; none where a window of a generator has no distribution, or
/// there are fewer than two.
fn over_time(loads: &[LoadResult]) -> Option<ResponseCourse> {
    let of_load = |load: &LoadResult| -> Option<Vec<(f64, f64, MeasuredDistribution)>> {
        let rows = load.series.iter().filter(whole);
        rows.map(|row| Some((row.start, row.length, row.response_times.as_ref()?.unpack().ok()?))).collect()
    };
    let mut windows = of_load(loads.first()?)?;
    for load in &loads[1..] {
        let other = of_load(load)?;
        windows.truncate(other.len());
        windows.iter_mut().zip(&other).for_each(|(window, other)| window.2.merge(&other.2));
    }
    let length = windows.first()?.1;
    if windows.len() < 2 || windows.iter().any(|window| (window.1 - length).abs() > 1e-6) {
        return None;
    }
    let bounds = bounds();
    let counts: Vec<Vec<u64>> = windows
        .iter()
        .map(|(.., times)| times.up_to(&bounds).windows(2).map(|pair| pair[1] - pair[0]).collect())
        .collect();
    let filled = |bucket: &usize| counts.iter().any(|counts| counts[*bucket] > 0);
    let first = (0..bounds.len() - 1).find(filled)?;
    let last = (0..bounds.len() - 1).rev().find(filled)?;
    let quantile =
        |share| windows.iter().map(move |(.., times)| times.quantile(share).map(Nanos::as_seconds)).collect();
    Some(ResponseCourse {
        starts: windows.iter().map(|(start, ..)| *start).collect(),
        length,
        edges: bounds[first..=last + 1].iter().map(|bound| *bound as f64 / 1e9).collect(),
        counts: counts.iter().map(|counts| counts[first..=last].to_vec()).collect(),
        p50: quantile(0.5),
        p99: quantile(0.99),
    })
}

fn station(name: &str) -> SystemPart {
    match name {
        "clients" => SystemPart::Clients,
        "middleware" => SystemPart::Middleware,
        _ => SystemPart::Server,
    }
}

fn process(busy: &Busy) -> ProcessCpu {
    let station = station(&busy.station);
    ProcessCpu { station, name: busy.name.clone(), busy: busy.seconds, cores: busy.cores }
}

fn way(way: &RoundTrips) -> trial::RoundTrip {
    let RoundTrips { from, to, least, median, asked, .. } = way.clone();
    trial::RoundTrip { from, to, least, median, asked }
}

fn link(link: &LinkUse) -> HostLink {
    HostLink {
        station: station(&link.station),
        name: link.name.clone(),
        bandwidth: link.bits_per_second,
        sent: link.bytes as f64 * 8.0 / link.seconds,
    }
}

fn client_side(load: &LoadResult) -> ClientSide {
    let overall = &load.overall;
    let times = &overall.response_time;
    ClientSide {
        completed: overall.count,
        answered: load.account.answered,
        errors: load.failed(),
        unmeasured: load.failed().saturating_sub(overall.failed()),
        hits: overall.hits,
        misses: overall.misses,
        response: TrialTimes { mean: times.mean, p50: times.p50, p90: times.p90, p99: times.p99 },
        windows: load
            .series
            .iter()
            .filter(whole)
            .map(|row| ClientWindow {
                start: row.start,
                length: row.length,
                completed: row.count,
                response: (row.count > 0).then_some(row.mean),
            })
            .collect(),
        histogram: buckets(overall),
        warned: warned(load),
        ..ClientSide::default()
    }
}

/// What a load generator said of its own run. Left out is what the analysis finds in the figures,
/// and that the system was too slow for the rate: response times show it.
fn warned(load: &LoadResult) -> Vec<GeneratorWarning> {
    let is_known = |warning: &LoadWarning| match warning {
        LoadWarning::Errors { .. }
        | LoadWarning::UnansweredUnmeasured { .. }
        | LoadWarning::Misses { .. } => true,
        // The analysis looks at all threads together.
        LoadWarning::GeneratorBusy { .. } => load.config.threads == 1,
        LoadWarning::ConnectionsWaited { .. } => !warning.blames_generator(),
        _ => false,
    };
    let said = |warning: &LoadWarning| {
        let tagged = serde_json::to_value(warning).expect("a warning is plain data");
        GeneratorWarning {
            kind: tagged["warning"].as_str().unwrap_or_default().to_owned(),
            extent: warning.extent(),
            what: warning.to_string(),
        }
    };
    load.warnings.iter().filter(|warning| !is_known(warning)).map(said).collect()
}

fn middleware_side(run: &RunSummary) -> MiddlewareSide {
    let times = |times: &summary::TimePercentiles| TrialTimes {
        mean: times.mean,
        p50: times.p50,
        p90: times.p90,
        p99: times.p99,
    };
    let operation = |line: &summary::OperationSummary| MiddlewareOperation {
        name: line.operation.clone(),
        requests: line.count,
        response: times(&line.response),
        queue: times(&line.queue),
        server: times(&line.server),
    };
    let window = |window: &summary::SecondSummary| MiddlewareWindow {
        start: window.start,
        length: window.length,
        requests: window.count,
        queue: window.queue,
        server: window.server,
        own: window.own,
        queue_length: window.queue_length,
    };
    MiddlewareSide {
        requests: run.all.count,
        replied: run.all.count,
        errors: run.all.errors,
        response: times(&run.all.response),
        queue: times(&run.all.queue),
        server: times(&run.all.server),
        own: times(&run.all.own),
        middlewares: 1,
        workers: run.workers,
        free_when_answered: run.free_when_answered,
        queue_length: run.queue_length,
        windows: run.windows.iter().map(window).collect(),
        histogram: TrialHistogram { width: run.histogram.width, counts: run.histogram.counts.clone() },
        operations: run.operations.iter().map(operation).collect(),
    }
}

/// A middleware counts on when the clients have ended to measure: its rate and its mean times are
/// taken from the whole windows of the measured span, which begins with its first request.
/// Percentiles and buckets keep the cool-down, in which the load is the same.
fn without_cool_down(side: &mut MiddlewareSide, measured: f64) {
    let Some(begin) = side.windows.iter().find(|window| window.requests > 0).map(|window| window.start)
    else {
        return;
    };
    let inside =
        |window: &&MiddlewareWindow| window.start > begin && window.start + window.length <= begin + measured;
    let whole: Vec<MiddlewareWindow> = side.windows.iter().filter(inside).copied().collect();
    let length: f64 = whole.iter().map(|window| window.length).sum();
    let requests: u64 = whole.iter().map(|window| window.requests).sum();
    if requests == 0 {
        return; // too short to be cut: better all of it than nothing
    }
    let mean = |of: fn(&MiddlewareWindow) -> Option<f64>| {
        whole.iter().filter_map(|window| Some(window.requests as f64 * of(window)?)).sum::<f64>()
            / requests as f64
    };
    (side.queue.mean, side.server.mean, side.own.mean) =
        (mean(|w| w.queue), mean(|w| w.server), mean(|w| w.own));
    side.response.mean = side.queue.mean + side.server.mean + side.own.mean;
    side.queue_length = side.queue_length.map(|_| mean(|window| window.queue_length));
    side.requests = (requests as f64 / length * measured).round() as u64;
    side.windows = whole;
}

/// The response times of several load generators as one: from their distributions where all wrote
/// them in full, else from their buckets.
fn all_times(results: &[&OperationResult]) -> TrialTimes {
    let one = |times: &krarup_load::result::TimeDistribution| TrialTimes {
        mean: times.mean,
        p50: times.p50,
        p90: times.p90,
        p99: times.p99,
    };
    if let [only] = results {
        return one(&only.response_time);
    }
    let count: u64 = results.iter().map(|result| result.count).sum();
    let waited: f64 = results.iter().map(|result| result.count as f64 * result.response_time.mean).sum();
    let mean = if count > 0 { waited / count as f64 } else { 0.0 };
    if let Some(all) = distribution(results) {
        let quantile = |share| all.quantile(share).map_or(0.0, Nanos::as_seconds);
        return TrialTimes { mean, p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) };
    }
    let mut histogram = TrialHistogram::default();
    for result in results {
        // All of ours have buckets of one width.
        let _ = histogram.merge(&buckets(result));
    }
    // The middle of the bucket: no more is known.
    let quantile = |share| {
        histogram.bucket_of_share(share).map_or(0.0, |bucket| (bucket as f64 + 0.5) * histogram.width)
    };
    TrialTimes { mean, p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) }
}

/// All response times together; none where one of the generators did not write its distribution.
fn distribution(results: &[&OperationResult]) -> Option<MeasuredDistribution> {
    let mut all = MeasuredDistribution::new();
    for result in results {
        all.merge(&result.distributions.as_ref()?.response_time.unpack().ok()?);
    }
    Some(all)
}

fn buckets(result: &OperationResult) -> TrialHistogram {
    TrialHistogram { width: result.histogram.width, counts: result.histogram.buckets.clone() }
}

/// Each operation of all load generators.
fn client_operations(loads: &[LoadResult]) -> Vec<ClientOperation> {
    let mut names: Vec<&String> = loads.iter().flat_map(|load| load.operations.keys()).collect();
    names.sort();
    names.dedup();
    let operation = |name: &String| {
        let of: Vec<&OperationResult> = loads.iter().filter_map(|load| load.operations.get(name)).collect();
        let completed = of.iter().map(|result| result.count).sum();
        ClientOperation { name: name.clone(), completed, response: all_times(&of) }
    };
    names.into_iter().map(operation).collect()
}

/// The mean over all requests of several parts, of which each has so many and a mean.
fn mean_over(parts: &[(u64, f64)]) -> f64 {
    let count: u64 = parts.iter().map(|part| part.0).sum();
    let sum: f64 = parts.iter().map(|part| part.0 as f64 * part.1).sum();
    if count > 0 { sum / count as f64 } else { 0.0 }
}

/// Several load generators as one: counts are summed, windows too where all have them.
fn all_clients(loads: &[LoadResult]) -> ClientSide {
    let sides: Vec<ClientSide> = loads.iter().map(client_side).collect();
    let sum = |of: fn(&ClientSide) -> u64| sides.iter().map(of).sum::<u64>();
    let mut histogram = TrialHistogram::default();
    for side in &sides {
        // All of ours have buckets of one width.
        let _ = histogram.merge(&side.histogram);
    }
    let response = all_times(&loads.iter().map(|load| &load.overall).collect::<Vec<_>>());
    let windows = sides.iter().map(|side| side.windows.len()).min().unwrap_or(0);
    let window = |place: usize| {
        let parts: Vec<_> = sides.iter().map(|side| side.windows[place]).collect();
        let times: Vec<_> = parts.iter().filter_map(|part| Some((part.completed, part.response?))).collect();
        ClientWindow {
            completed: parts.iter().map(|part| part.completed).sum(),
            response: (!times.is_empty()).then(|| mean_over(&times)),
            ..parts[0]
        }
    };
    ClientSide {
        completed: sum(|side| side.completed),
        answered: sum(|side| side.answered),
        errors: sum(|side| side.errors),
        unmeasured: sum(|side| side.unmeasured),
        hits: sum(|side| side.hits),
        misses: sum(|side| side.misses),
        response,
        windows: (0..windows).map(window).collect(),
        histogram,
        // Of each kind the analysis keeps the worst.
        warned: sides.iter().flat_map(|side| side.warned.iter().cloned()).collect(),
        ..ClientSide::default()
    }
}

/// The distributions of one operation, in the order of [`PARTS`].
type Parts = [MeasuredDistribution; PARTS.len()];

/// Several middlewares as one: counts are summed, histograms merged; a mean is over the requests of
/// all.
fn together(
    middlewares: &[(MiddlewareSummary, PathBuf)],
    sides: &[MiddlewareSide],
) -> Result<MiddlewareSide, Failure> {
    let mut merged: BTreeMap<&str, Parts> = BTreeMap::new();
    for (_, records) in middlewares {
        let path = records.join("histograms.hlog");
        let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
        let file = File::open(&path).map_err(|error| wrong(&error))?;
        for entry in log::read(file).map_err(|error| wrong(&error))?.entries {
            let place = PARTS.iter().position(|part| *part == entry.quantity);
            let parts = merged.entry(entry.operation.name()).or_default();
            if let Some(place) = place {
                parts[place].merge(&entry.distribution);
            }
        }
    }
    let mut all = Parts::default();
    for parts in merged.values() {
        all.iter_mut().zip(parts).for_each(|(sum, part)| sum.merge(part));
    }
    let requests: u64 = sides.iter().map(|side| side.requests).sum();
    let quantiles = |merged: &MeasuredDistribution, mean: f64| {
        let quantile = |share| merged.quantile(share).map_or(0.0, Nanos::as_seconds);
        TrialTimes { mean, p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) }
    };
    let times = |merged: &MeasuredDistribution, of: fn(&MiddlewareSide) -> TrialTimes| {
        let waited: f64 = sides.iter().map(|side| side.requests as f64 * of(side).mean).sum();
        quantiles(merged, waited / requests.max(1) as f64)
    };
    let operation = |(name, parts): (&&str, &Parts)| {
        let [response, queue, server, _] =
            parts.each_ref().map(|part| quantiles(part, part.mean().unwrap_or(0.0)));
        MiddlewareOperation { name: (*name).to_owned(), requests: parts[0].count(), response, queue, server }
    };
    let mut histogram = TrialHistogram::default();
    for side in sides {
        // All of ours have buckets of one width.
        let _ = histogram.merge(&side.histogram);
    }
    let [response, queue, server, own] = &all;
    Ok(MiddlewareSide {
        requests,
        replied: sides.iter().map(|side| side.replied).sum(),
        errors: sides.iter().map(|side| side.errors).sum(),
        response: times(response, |side| side.response),
        queue: times(queue, |side| side.queue),
        server: times(server, |side| side.server),
        own: times(own, |side| side.own),
        middlewares: sides.len() as u32,
        workers: sides.iter().map(|side| side.workers).sum(),
        free_when_answered: sides.iter().any(|side| side.free_when_answered),
        queue_length: sides.iter().map(|side| side.queue_length).sum(),
        // Their seconds do not begin together.
        windows: Vec::new(),
        histogram,
        operations: merged.iter().map(operation).collect(),
    })
}

const PARTS: [Quantity; 4] = [Quantity::Response, Quantity::Queue, Quantity::Server, Quantity::Own];

#[cfg(test)]
mod tests {
    use krarup_load::memtier::convert::{ForeignRun, load_result};
    use krarup_load::memtier::read::read;

    use super::*;

    #[test]
    fn a_second_of_several_classes_of_clients_is_one_window() {
        let second = r#"{"Count": 100, "Average Latency": 1.0}"#;
        let printed = format!(
            r#"{{"ALL STATS": {{"Totals": {{"Count": 300, "Ops/sec": 100.0}},
                "Gets": {{"Count": 300, "Time-Serie": {{"0": {second}, "1": {second}, "2": {second}}}}}}}}}"#
        );
        let mut load = load_result(&read(&printed).unwrap(), ForeignRun::default()).unwrap();
        let of_class = |row: SeriesRow| {
            ["", "readers", "writers"].map(|class| SeriesRow { class: class.to_owned(), ..row.clone() })
        };
        load.series = std::mem::take(&mut load.series).into_iter().flat_map(of_class).collect();
        assert_eq!(load.series.len(), 9);
        let starts: Vec<f64> = client_side(&load).windows.iter().map(|window| window.start).collect();
        assert_eq!(starts, [0.0, 1.0, 2.0]);
    }

    #[test]
    fn a_request_that_is_given_up_after_the_measured_part_is_an_error_of_the_report() {
        let printed = r#"{"ALL STATS": {"Totals": {"Count": 300, "Ops/sec": 100.0}}}"#;
        let mut load = load_result(&read(printed).unwrap(), ForeignRun::default()).unwrap();
        load.account.lost.insert("unanswered".to_owned(), 301);
        assert_eq!(client_side(&load).errors, 301);
        let clients = all_clients(&[load.clone(), load]);
        assert_eq!((clients.errors, clients.completed, clients.unmeasured), (602, 600, 602));
    }

    #[test]
    fn what_a_load_generator_warned_of_is_known_of_its_trial() {
        let printed = r#"{"ALL STATS": {"Totals": {"Count": 300, "Ops/sec": 100.0}}}"#;
        let mut load = load_result(&read(printed).unwrap(), ForeignRun::default()).unwrap();
        load.config.threads = 2;
        let waited = |share: f64| LoadWarning::ConnectionsWaited { class: "a".into(), p99: 0.2, share };
        load.warnings = vec![
            LoadWarning::GeneratorBusy { share: 0.95 },
            waited(0.9),
            LoadWarning::Errors { count: 1, of: 300 },
            LoadWarning::Unsent { count: 3, due: 12, closed: false },
        ];
        let kinds =
            |side: ClientSide| side.warned.into_iter().map(|one| (one.kind, one.extent)).collect::<Vec<_>>();
        let [busy, unsent] = [("generator_busy".to_owned(), 0.95), ("unsent".to_owned(), 0.25)];
        assert_eq!(kinds(client_side(&load)), [busy, unsent.clone()]);
        // Of one thread the analysis says it.
        load.config.threads = 1;
        load.warnings[1] = waited(0.2);
        let late = ("connections_waited".to_owned(), 0.2);
        let each = [late, unsent];
        assert_eq!(kinds(all_clients(&[load.clone(), load])), [each.clone(), each].concat());
    }

    #[test]
    fn a_share_that_was_found_is_that_of_a_machine_whose_processors_differ_from_ours() {
        let process = |station| ProcessCpu { station, name: "p".into(), busy: 0.5, cores: 0.5 };
        let cpu = [SystemPart::Server, SystemPart::Middleware].map(process);
        let found = [ScaledStation {
            station: "servers".into(),
            count: 1,
            processors: 1.0,
            share: 0.05,
            link: None,
            delay: 0.0,
        }];
        let of = |mut cpu: [ProcessCpu; 2], shares: &[(&str, f64)]| {
            let shares = shares.iter().map(|(station, share)| ((*station).to_owned(), *share));
            let shares: BTreeMap<String, f64> = shares.collect();
            of_machines(&mut cpu, 10.0, &found, &shares);
            cpu.map(|process| (process.busy, process.cores))
        };
        assert_eq!(of(cpu.clone(), &[]), [(1.0, 1.0), (0.5, 0.5)]);
        // Half of another share, which was found before, is half of the same processor.
        let [mut server, proxy] = cpu;
        (server.busy, server.cores) = (0.625, 0.625);
        assert_eq!(of([server, proxy], &[("servers", 0.0625)]), [(1.0, 1.0), (0.5, 0.5)]);
    }

    #[test]
    fn another_share_is_one_that_a_search_for_the_same_does_not_find() {
        let trial = TrialSystem {
            shares: [("servers".to_owned(), 0.05), ("clients".to_owned(), 0.1)].into(),
            ..TrialSystem::default()
        };
        let now = |servers: f64| -> BTreeMap<String, f64> {
            [("servers".to_owned(), servers), ("clients".to_owned(), 0.1)].into()
        };
        assert_eq!(other_shares(&trial, &now(0.0505)), Vec::<String>::new());
        let said = "the share of the servers was 0.0500 and is 0.0600";
        assert_eq!(other_shares(&trial, &now(0.06)), [said]);
        assert!(other_shares(&TrialSystem::default(), &now(0.06)).is_empty(), "earlier trials say none");
    }

    /// Trials that were removed, because their anchor disagreed, and measured on another day; or
    /// that the anchor was added to.
    #[test]
    fn a_run_of_the_anchor_counts_where_a_trial_stands_beside_it() {
        let run = |(block, started_unix)| AnchorRun { block, started_unix, throughput: 1.0, response: 1.0 };
        let runs = [(0, 1.0), (0, 4.0), (1, 5.0), (1, 8.0), (1, 11.0), (1, 14.0)];
        let beside = |trials: &[(u32, Seconds)]| -> Vec<Seconds> {
            let found = beside_trials(runs.into_iter().map(run), trials.iter().copied(), 3.0);
            found.iter().map(|one| one.started_unix).collect()
        };
        let [first, removed, later] = [(0, 2.0), (1, 6.0), (1, 12.0)];
        assert_eq!(beside(&[first, removed, later]), [1.0, 4.0, 5.0, 8.0, 11.0, 14.0]);
        assert_eq!(beside(&[first, later]), [1.0, 4.0, 11.0, 14.0]);
        assert_eq!(beside(&[(0, 4.5)]), [4.0], "a trial of another block is none of its own");
        assert!(beside(&[(0, 7.5)]).is_empty(), "a trial of another day");
        assert!(beside(&[]).is_empty());
    }

    #[test]
    fn a_quota_that_was_tried_on_another_machine_is_tried_anew() {
        let limit = |machine: &str| ProcessorLimit {
            machine: machine.into(),
            asked: 0.25,
            plain: Some(0.24),
            written: 0.26,
            got: Some(0.25),
        };
        let on = |kernel: &str, machines: [&str; 2]| {
            let versions = machines.map(|machine| (format!("{MACHINE}{machine}"), kernel.to_owned()));
            let limits = machines.map(limit).into();
            Environment { limits, versions: versions.into(), ..Environment::default() }
        };
        let of = |kept: &Environment, now: &Environment| -> Vec<String> {
            calibrations(kept, now).into_iter().map(|one| one.machine).collect()
        };
        let first = on("Linux 1", ["h1", "h2"]);
        assert_eq!(of(&first, &first), ["h1", "h2"]);
        let mut updated = first.clone();
        updated.versions[1].1 = "Linux 2".into();
        assert_eq!(of(&first, &updated), ["h1"]);
        let here = |kernel: &str| Environment {
            kernel: kernel.into(),
            limits: vec![limit("here")],
            ..Environment::default()
        };
        assert_eq!(of(&here("Linux 1"), &here("Linux 1")), ["here"]);
        for kept in ["Linux 1", "Linux 1 and Linux 2"] {
            assert!(of(&here(kept), &here("Linux 2")).is_empty(), "{kept}");
        }
    }

    /// Trials that were in no plan for a while: what stands beside them was written without them.
    #[test]
    fn a_system_that_a_trial_alone_names_is_one_of_the_results() {
        let on = |kernel: &str, proxy: &str| Environment {
            cpu: "X".into(),
            cores: 2,
            kernel: kernel.into(),
            versions: vec![("krarup".into(), "1".into()), ("middleware".into(), proxy.into())],
            ..Environment::default()
        };
        let (first, now) = (on("Linux 1", "a"), on("Linux 2", "b"));
        let trial = kept_system(&first, BTreeMap::new());
        assert_eq!(environment_of(&trial), first);
        let mut kept = Environment { memory: "4 GiB".into(), ..now.clone() };
        let said = ["system was `Linux 1` and is `Linux 2`", "middleware was `a` and is `b`"];
        assert_eq!(also_before(&mut kept, &trial), said);
        assert_eq!((kept.kernel.as_str(), kept.memory.as_str()), ("Linux 2 and Linux 1", "4 GiB"));
        assert!(also_before(&mut kept, &trial).is_empty() && also_on(&mut kept, &now).is_empty());
    }

    #[test]
    fn clocks_that_are_named_by_machine_are_not_taken_for_those_of_hosts() {
        let clocks = |names: [&str; 2], seconds: Seconds| -> BTreeMap<String, Offset> {
            let clock = Offset { seconds, within: 0.001 };
            names.map(|name| (name.to_owned(), clock)).into_iter().collect()
        };
        assert_eq!(apart_by_machine(&clocks(["c1", "m12"], -2.1)), None);
        assert_eq!(apart_by_machine(&clocks(["c1", "node-b"], -2.1)), Some(2.1));
        assert_eq!(apart_by_machine(&clocks(["c1", "client"], 0.000_5)), None, "they agree");
    }

    #[test]
    fn other_machines_are_compared_one_by_one_and_pods_are_not() {
        let on = |machines: &[(&str, &str)]| {
            let versions = machines.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned()));
            Environment { versions: versions.collect(), ..Environment::default() }
        };
        let others = |kept: &[(&str, &str)], now: &[(&str, &str)]| {
            let (mut kept, now) = (on(kept), on(now));
            let others = also_on(&mut kept, &now).join("; ");
            assert_eq!(also_on(&mut kept, &now), Vec::<String>::new(), "the results are of both");
            others
        };
        let (small, large) = ("X, 2 processors, at 10.0.0.4", "X, 16 processors, at 10.0.0.4");
        let [one, another] = [("machine h1", small), ("machine h2", small)];
        assert_eq!(others(&[one, another], &[one, another]), "");
        assert_eq!(
            others(&[one], &[("machine h1", large)]),
            format!("machine h1 was `{small}` and is `{large}`")
        );
        let said = ["servers", "clients"].map(|stations| format!("{small}, for {stations}"));
        let [servers, clients] = said.each_ref().map(|what| ("machine h1", what.as_str()));
        assert_eq!(others(&[one], &[servers]), "", "earlier results do not say it");
        assert!(others(&[servers], &[clients]).ends_with(", for clients`"));
        assert_eq!(others(&[one], &[another]), "machine h2 took the place of machine h1");
        assert_eq!(others(&[one], &[one, another]) + &others(&[one, another], &[one]), "", "of more cells");
        let pods =
            ["X, at 10.1.0.4, on node a", "X, at 10.1.0.5, on node b"].map(|pod| [("machine s1", pod)]);
        assert_eq!(others(&pods[0], &pods[1]), "");
    }

    #[test]
    fn seconds_without_a_reply_count_in_the_rate_before_a_cool_down() {
        let window = |(second, requests): (u32, u64)| {
            let time = (requests > 0).then_some(1e-3);
            MiddlewareWindow {
                start: f64::from(second),
                length: 1.0,
                requests,
                queue: time,
                server: time,
                own: time,
                queue_length: None,
            }
        };
        let windows = (0..).zip([100, 100, 0, 100, 900]).map(window).collect();
        let mut side = MiddlewareSide { windows, ..MiddlewareSide::default() };
        without_cool_down(&mut side, 4.0);
        assert_eq!(side.requests, 267, "200 in three seconds, over the four that were measured");
        assert_eq!(side.windows.len(), 3);
        assert!((side.response.mean - 3e-3).abs() < 1e-9, "{:?}", side.response);
    }
}
