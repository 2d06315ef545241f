//! From trials to results: each cell's repetitions become estimates with n and an interval.

use std::borrow::Cow;
use std::collections::HashSet;

use krarup_record::summary::DATABASE;
use krarup_record::watch::Watch;
use krarup_record::{quantities, stamps};
use krarup_stats::StatsError;

use crate::cell::{
    Cell, MiddlewareCell, OperationCell, OperationInside, ProcessLoad, Repetition, RunWindows, ServerShare,
};
use crate::distribution::QUANTILES;
use crate::quantity::{Quantity, TimeQuantities};
use crate::results::{Environment, Results};
use crate::trial::{
    CellLevels, ClientSide, HostLink, MiddlewareOperation, MiddlewareSide, ResponseCourse, RoundTrip,
    SystemPart, Trial, TrialHistogram, TrialTimes,
};
use crate::warning::{Concern, Warning};
use crate::{configurations, course, demands, design, distribution, laws, saturation, steadiness};

/// Why trials give no results.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SweepError {
    /// There is no trial.
    #[error("there is no trial to analyse")]
    Empty,
    /// A trial says something that cannot be.
    #[error("{}, {} clients, repetition {repetition}: {why}", levels.workload, levels.clients)]
    Trial {
        /// Which cell.
        levels: CellLevels,
        /// Which repetition.
        repetition: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// A quantity has no estimate.
    #[error("{}, {} clients: {quantity}: {source}", levels.workload, levels.clients)]
    Estimate {
        /// Which cell.
        levels: CellLevels,
        /// Which quantity.
        quantity: &'static str,
        /// Why not.
        source: StatsError,
    },
}

/// The same trials; where each had servers of its own, at addresses that no other has, they are
/// called by their places, `server 1`, `server 2`, so that what belongs together has one name. The
/// database of brokers has one in all.
fn with_servers_by_place(trials: &[Trial]) -> Cow<'_, [Trial]> {
    fn names(trial: &Trial) -> Vec<String> {
        let processes = trial.cpu.iter().filter(|process| process.station == SystemPart::Server);
        let all = trial.servers.iter().map(|server| &server.name).chain(processes.map(|one| &one.name));
        let mut names: Vec<String> = Vec::new();
        for name in all.filter(|name| *name != DATABASE) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
    let names: Vec<Vec<String>> = trials.iter().map(names).collect();
    let known: HashSet<&String> = names.iter().flatten().collect();
    if known.len() <= names.iter().map(Vec::len).max().unwrap_or(0) {
        return Cow::Borrowed(trials);
    }
    let renamed = trials.iter().zip(&names).map(|(trial, names)| {
        let mut trial = trial.clone();
        let name = |old: &str| {
            let place = names.iter().position(|name| name == old);
            place.map_or_else(|| old.to_owned(), |place| format!("server {}", place + 1))
        };
        trial.servers.iter_mut().for_each(|server| server.name = name(&server.name));
        let processes = trial.cpu.iter_mut().filter(|process| process.station == SystemPart::Server);
        processes.for_each(|process| process.name = name(&process.name));
        trial
    });
    Cow::Owned(renamed.collect())
}

/// The results of all trials, in whatever order they ran: workloads in the order of their first
/// trial, clients rising.
///
/// # Errors
/// If there is no trial, or one holds a time or length that is negative or no number.
pub fn summarise(title: &str, environment: Environment, trials: &[Trial]) -> Result<Results, SweepError> {
    if trials.is_empty() {
        return Err(SweepError::Empty);
    }
    trials.iter().try_for_each(valid)?;
    let trials = &*with_servers_by_place(trials);
    let mut workloads: Vec<&str> = Vec::new();
    for trial in trials {
        if !workloads.contains(&trial.levels.workload.as_str()) {
            workloads.push(&trial.levels.workload);
        }
    }
    let mut results = Results {
        title: title.to_owned(),
        environment,
        scaled: None,
        middleware_cores: 0,
        cells: Vec::new(),
        ended_early: false,
        verdicts: Vec::new(),
        concerns: Vec::new(),
        configurations: Vec::new(),
        shapes: Vec::new(),
        studies: Vec::new(),
        anchor: None,
        predictions: Vec::new(),
        relative: Vec::new(),
        demands: Vec::new(),
        round_trips: round_trips(trials),
        headroom: Vec::new(),
        history: None,
        sheet: None,
    };
    for workload in workloads {
        let of_workload = || trials.iter().filter(|trial| trial.levels.workload == workload);
        let mut clients: Vec<u32> = of_workload().map(|trial| trial.levels.clients).collect();
        clients.sort_unstable();
        clients.dedup();
        for clients in clients {
            let mut of_cell: Vec<&Trial> =
                of_workload().filter(|trial| trial.levels.clients == clients).collect();
            of_cell.sort_by_key(|trial| trial.repetition);
            let (cell, warnings) = cell(&of_cell, results.environment.cores)?;
            let levels = Some(cell.levels.clone());
            let concern = |warning| Concern { levels: levels.clone(), warning };
            results.concerns.extend(warnings.into_iter().map(concern));
            results.cells.push(cell);
        }
        let think = of_workload().map(|trial| trial.think).fold(0.0, f64::max);
        let cells: Vec<&Cell> = results.workload(workload).collect();
        let verdict = saturation::verdict(&cells, think, results.environment.cores);
        results.verdicts.extend(verdict);
    }
    if results.cells.iter().all(|cell| cell.repetitions.len() == 1) {
        results.concerns.push(Concern { levels: None, warning: Warning::OneRepetition });
    }
    // Windows with their distributions are many numbers: only cells that are drawn keep them.
    let limits: Vec<CellLevels> = results.verdicts.iter().map(|verdict| verdict.at.clone()).collect();
    for cell in results.cells.iter_mut().filter(|cell| !limits.contains(&cell.levels)) {
        cell.run.response_times = None;
    }
    results.configurations = configurations::configurations(&results.cells);
    let limits = results.verdicts.iter().filter_map(|verdict| results.cell(&verdict.at));
    results.shapes = limits.filter_map(distribution::shape).collect();
    results.studies = design::studies(&results.cells, &[]);
    results.demands = demands::demands(&results.cells);
    saturation::judge_workers(&mut results.verdicts, &results.cells, &results.predictions);
    Ok(results)
}

/// Counts up to here are exact as `f64`, and no sum of them overflows.
const MOST: u64 = 1 << 53;

fn valid(trial: &Trial) -> Result<(), SweepError> {
    let check = |holds: bool, why| {
        let (levels, repetition) = (trial.levels.clone(), trial.repetition);
        if holds { Ok(()) } else { Err(SweepError::Trial { levels, repetition, why }) }
    };
    let length = |time: f64| time.is_finite() && time > 0.0;
    let time = |time: f64| time.is_finite() && time >= 0.0;
    let client = &trial.client;
    check(length(trial.length), "the measured length is not above 0 s")?;
    check(time(trial.think), "the think time is not a length of time")?;
    check(client.response.all_finite(), "a response time of the clients is not a length of time")?;
    check(
        client.operations.iter().all(|one| one.response.all_finite() && one.completed <= MOST),
        "a time of one operation is not a length of time",
    )?;
    check(
        client.quantiles.iter().chain(&client.tail).all(|value| time(*value)),
        "a quantile of the clients is not a length of time",
    )?;
    check(client.histogram.is_usable(), "the histogram's buckets do not rise, or have no width")?;
    let windows = client.windows.iter();
    check(
        windows.clone().all(|w| length(w.length) && time(w.start) && w.response.is_none_or(time)),
        "a window of the clients has no length, or a time in it is none",
    )?;
    let counts = [client.completed, client.errors, client.unmeasured, client.hits, client.misses];
    let counts = counts.into_iter().chain(windows.map(|window| window.completed));
    let counts = counts.chain(trial.servers.iter().map(|server| server.requests));
    check(counts.into_iter().all(|count| count <= MOST), "a count is beyond 2^53")?;
    check(
        trial.cpu.iter().all(|process| time(process.busy) && time(process.cores)),
        "a process's processor time or number of processors is no number from 0 up",
    )?;
    check(
        trial.links.iter().all(|link| length(link.bandwidth) && time(link.sent)),
        "a link has no bandwidth, or what it sent is no number from 0 up",
    )?;
    check(
        trial.ways.iter().all(|way| time(way.least) && time(way.median) && time(way.asked)),
        "a round trip is not a length of time",
    )?;
    let counted = || trial.course.iter().flat_map(|stretch| &stretch.operations);
    check(
        trial.course.iter().all(|stretch| time(stretch.start) && time(stretch.late) && time(stretch.length))
            && counted().all(|one| time(one.response)),
        "a time before or after a fault is not a length of time",
    )?;
    let counts = counted().flat_map(|one| [one.completed, one.errors, one.hits, one.misses]);
    check(counts.into_iter().all(|count| count <= MOST), "a count is beyond 2^53")?;
    let Some(middleware) = &trial.middleware else { return Ok(()) };
    let times = [middleware.response, middleware.queue, middleware.server, middleware.own];
    check(times.iter().all(TrialTimes::all_finite), "a time of the middleware is not a length of time")?;
    let of_operations = middleware.operations.iter().flat_map(|one| [one.response, one.queue, one.server]);
    check(
        of_operations.into_iter().all(|times| times.all_finite()),
        "a time of one operation at the middleware is not a length of time",
    )?;
    check(
        middleware.histogram.is_usable(),
        "the middleware's histogram's buckets do not rise, or have no width",
    )?;
    check(
        middleware.windows.iter().all(|w| {
            let values = [w.queue, w.server, w.own, w.queue_length];
            length(w.length) && time(w.start) && values.iter().flatten().all(|value| time(*value))
        }),
        "a window of the middleware has no length, or a value in it is none",
    )?;
    check(middleware.queue_length.is_none_or(time), "the middleware's queue length is no length")?;
    check(middleware.requests <= MOST, "a count is beyond 2^53")
}

/// One cell and what does not add up in it. `trials` has at least one, all of the same levels.
fn cell(trials: &[&Trial], cores: u32) -> Result<(Cell, Vec<Warning>), SweepError> {
    let levels = &trials[0].levels;
    let estimates = Estimates { levels };
    let throughputs: Vec<f64> = trials.iter().map(|trial| throughput(trial)).collect();
    let rates: Vec<f64> =
        trials[0].client.windows.iter().map(|window| window.completed as f64 / window.length).collect();
    let responses: Vec<f64> = trials[0].client.windows.iter().filter_map(|window| window.response).collect();

    let mut warnings = warnings_of_runs(trials);
    let load = load(trials);
    let mut histogram = TrialHistogram::default();
    let mut alike = true;
    for trial in trials {
        alike &= histogram.merge(&trial.client.histogram);
    }
    let middlewares: Option<Vec<&MiddlewareSide>> =
        trials.iter().map(|trial| trial.middleware.as_ref()).collect();
    let middleware = match middlewares {
        Some(sides) => Some(middleware(&estimates, trials, &sides, &mut alike)?),
        None => None,
    };
    if !alike {
        warnings.push(Warning::DifferentBuckets);
    }
    let (hits, misses) = trials
        .iter()
        .fold((0, 0), |(hits, misses), trial| (hits + trial.client.hits, misses + trial.client.misses));
    let cell = Cell {
        levels: levels.clone(),
        think: trials[0].think,
        open: trials[0].client.open,
        throughput: estimates.of(quantities::THROUGHPUT.name, &throughputs, &rates)?,
        response: estimates.times(
            quantities::RESPONSE_TIME.name,
            &trials.iter().map(|trial| trial.client.response).collect::<Vec<_>>(),
            &responses,
        )?,
        middleware,
        hit_ratio: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
        completed: trials.iter().map(|trial| trial.client.completed).sum(),
        errors: trials.iter().map(|trial| trial.client.errors).sum(),
        servers: servers(trials),
        load,
        links: links(trials),
        repetitions: trials.iter().map(|trial| repetition(trial)).collect(),
        run: RunWindows {
            client: trials[0].client.windows.clone(),
            middleware: trials[0].middleware.as_ref().map(|m| m.windows.clone()).unwrap_or_default(),
            response_times: trials[0].client.over_time.clone().filter(ResponseCourse::is_usable),
        },
        histogram,
        factors: trials[0].factors.clone(),
        quantiles: quantiles(trials),
        tail: tail(trials),
        keys: keys(&estimates, trials)?,
        machine: machine(trials),
        machines: machines(trials),
        operations: operations(&estimates, trials)?,
        course: course::together(trials),
    };
    warnings.extend(laws::check_load(&cell, cores));
    Ok((cell, warnings))
}

/// What does not add up in the runs of a cell. Repetitions repeat their troubles: of each kind the
/// worst is reported, and of failed requests and missing keys those of all runs.
fn warnings_of_runs(trials: &[&Trial]) -> Vec<Warning> {
    let sum = |of: fn(&ClientSide) -> u64| trials.iter().map(|trial| of(&trial.client)).sum::<u64>();
    let checks = |trial: &&Trial| [laws::check(trial), steadiness::check(trial)].concat();
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in trials.iter().flat_map(checks) {
        let warning = match warning {
            Warning::Errors { .. } => Warning::Errors {
                errors: sum(|client| client.errors),
                completed: sum(|client| client.completed + client.unmeasured),
            },
            Warning::Misses { .. } => Warning::Misses {
                misses: sum(|client| client.misses),
                keys: sum(|client| client.hits + client.misses),
            },
            of_run => of_run,
        };
        match warnings.iter_mut().find(|known| known.is_alike(&warning)) {
            Some(known) if warning.extent() > known.extent() => *known = warning,
            Some(_) => {}
            None => warnings.push(warning),
        }
    }
    warnings
}

/// One run in its own figures.
fn repetition(trial: &Trial) -> Repetition {
    let response = &trial.client.response;
    let inside = |of: fn(&MiddlewareSide) -> TrialTimes| trial.middleware.as_ref().map(|m| of(m).mean);
    Repetition {
        repetition: trial.repetition,
        throughput: throughput(trial),
        response: response.mean,
        p50: response.p50,
        p90: response.p90,
        p99: response.p99,
        completed: trial.client.completed,
        errors: trial.client.errors,
        keys: key_rate(trial),
        queue: inside(|side| side.queue),
        server: inside(|side| side.server),
        own: inside(|side| side.own),
        processors: trial.machine.as_ref().map(Watch::busy),
        disturbed: trial.disturbed.is_some(),
    }
}

/// Keys asked for per second; none where no key was read.
fn key_rate(trial: &Trial) -> Option<f64> {
    let keys = trial.client.hits + trial.client.misses;
    (keys > 0).then(|| keys as f64 / trial.length)
}

fn keys(estimates: &Estimates<'_>, trials: &[&Trial]) -> Result<Option<Quantity>, SweepError> {
    let rates: Option<Vec<f64>> = trials.iter().map(|trial| key_rate(trial)).collect();
    rates.map(|rates| estimates.of(quantities::KEY_RATE.name, &rates, &[])).transpose()
}

/// The mean of the repetitions' tails, as far as all of them go.
fn tail(trials: &[&Trial]) -> Vec<f64> {
    let length = trials.iter().map(|trial| trial.client.tail.len()).min().unwrap_or(0);
    let mean = |place| trials.iter().map(|trial| trial.client.tail[place]).sum::<f64>() / trials.len() as f64;
    (0..length).map(mean).collect()
}

fn middleware(
    estimates: &Estimates<'_>,
    trials: &[&Trial],
    sides: &[&MiddlewareSide],
    alike: &mut bool,
) -> Result<MiddlewareCell, SweepError> {
    let windows = &sides[0].windows;
    let of = |pick: fn(&crate::trial::MiddlewareWindow) -> Option<f64>| -> Vec<f64> {
        windows.iter().filter_map(pick).collect()
    };
    let mut histogram = TrialHistogram::default();
    for side in sides {
        *alike &= histogram.merge(&side.histogram);
    }
    let outside: Vec<f64> = trials
        .iter()
        .zip(sides)
        .map(|(trial, side)| (trial.client.response.mean - side.response.mean).max(0.0))
        .collect();
    let lengths: Option<Vec<f64>> = sides.iter().map(|side| side.queue_length).collect();
    let queue_length = match lengths {
        Some(lengths) => {
            Some(estimates.of(quantities::QUEUE_LENGTH.name, &lengths, &of(|window| window.queue_length))?)
        }
        None => None,
    };
    let held: f64 = trials
        .iter()
        .zip(sides)
        .map(|(trial, side)| side.requests as f64 / trial.length * side.hold())
        .sum::<f64>()
        / sides.len() as f64;
    let workers = sides[0].workers;
    let whole = |window: &crate::trial::MiddlewareWindow| Some(window.queue? + window.server? + window.own?);
    let times = |of: fn(&MiddlewareSide) -> TrialTimes| sides.iter().map(|side| of(side)).collect::<Vec<_>>();
    Ok(MiddlewareCell {
        response: estimates.times(
            quantities::RESPONSE_TIME.name,
            &times(|side| side.response),
            &of(whole),
        )?,
        queue: estimates.times(stamps::QUEUE_TIME.name, &times(|side| side.queue), &of(|w| w.queue))?,
        server: estimates.times(stamps::SERVER_TIME.name, &times(|side| side.server), &of(|w| w.server))?,
        own: estimates.times(stamps::OWN_TIME.name, &times(|side| side.own), &of(|w| w.own))?,
        outside: estimates.of(quantities::OUTSIDE.name, &outside, &[])?,
        middlewares: sides[0].middlewares,
        workers,
        free_when_answered: sides[0].free_when_answered,
        queue_length,
        workers_busy: workers
            .filter(|workers| *workers > 0)
            .map(|workers| (held / f64::from(workers)).min(1.0)),
        histogram,
    })
}

/// Each operation that all repetitions had, where there is more than one.
fn operations(estimates: &Estimates<'_>, trials: &[&Trial]) -> Result<Vec<OperationCell>, SweepError> {
    let [first, ..] = trials else { return Ok(Vec::new()) };
    let mut cells = Vec::new();
    for name in first.client.operations.iter().map(|operation| &operation.name) {
        let of_trial = |trial: &&Trial| {
            let found = trial.client.operations.iter().find(|one| one.name == *name);
            found.map(|one| (one.completed as f64 / trial.length, one.response))
        };
        let Some(sides) = trials.iter().map(of_trial).collect::<Option<Vec<_>>>() else { continue };
        let (rates, responses): (Vec<f64>, Vec<TrialTimes>) = sides.into_iter().unzip();
        let inside = |trial: &&Trial| {
            trial.middleware.as_ref()?.operations.iter().find(|one| one.name == *name).cloned()
        };
        let inside: Option<Vec<MiddlewareOperation>> = trials.iter().map(inside).collect();
        let inside = inside.map(|sides| {
            let times = |what, of: fn(&MiddlewareOperation) -> TrialTimes| {
                estimates.times(what, &sides.iter().map(of).collect::<Vec<_>>(), &[])
            };
            Ok(OperationInside {
                response: times(quantities::RESPONSE_TIME.name, |one| one.response)?,
                queue: times(stamps::QUEUE_TIME.name, |one| one.queue)?,
                server: times(stamps::SERVER_TIME.name, |one| one.server)?,
            })
        });
        cells.push(OperationCell {
            name: name.clone(),
            throughput: estimates.of(quantities::THROUGHPUT.name, &rates, &[])?,
            response: estimates.times(quantities::RESPONSE_TIME.name, &responses, &[])?,
            inside: inside.transpose()?,
        });
    }
    Ok(if cells.len() > 1 { cells } else { Vec::new() })
}

fn throughput(trial: &Trial) -> f64 {
    trial.client.completed as f64 / trial.length
}

/// The mean load of each process, over the repetitions in which it took part.
fn load(trials: &[&Trial]) -> Vec<ProcessLoad> {
    let mut load: Vec<(ProcessLoad, f64)> = Vec::new();
    for trial in trials {
        for process in &trial.cpu {
            let busy = process.busy / trial.length;
            let same = |(other, _): &&mut (ProcessLoad, f64)| {
                other.station == process.station && other.name == process.name
            };
            if let Some((known, runs)) = load.iter_mut().find(same) {
                known.busy += busy;
                *runs += 1.0;
            } else {
                let (station, name, cores) = (process.station, process.name.clone(), process.cores);
                load.push((ProcessLoad { station, name, busy, cores }, 1.0));
            }
        }
    }
    load.into_iter().map(|(process, runs)| ProcessLoad { busy: process.busy / runs, ..process }).collect()
}

/// The mean use of each link, over the repetitions that knew it.
fn round_trips(trials: &[Trial]) -> Vec<RoundTrip> {
    let mut all: Vec<(RoundTrip, f64)> = Vec::new();
    for one in trials.iter().flat_map(|trial| &trial.ways) {
        match all.iter_mut().find(|(known, _)| known.from == one.from && known.to == one.to) {
            Some((known, runs)) => {
                known.least = known.least.min(one.least);
                known.median += one.median;
                *runs += 1.0;
            }
            None => all.push((one.clone(), 1.0)),
        }
    }
    all.sort_by(|(one, _), (other, _)| (&one.from, &one.to).cmp(&(&other.from, &other.to)));
    all.into_iter().map(|(one, runs)| RoundTrip { median: one.median / runs, ..one }).collect()
}

fn links(trials: &[&Trial]) -> Vec<HostLink> {
    let mut links: Vec<(HostLink, f64)> = Vec::new();
    for link in trials.iter().flat_map(|trial| &trial.links) {
        if let Some((known, runs)) = links.iter_mut().find(|(known, _)| known.name == link.name) {
            known.sent += link.sent;
            *runs += 1.0;
        } else {
            links.push((link.clone(), 1.0));
        }
    }
    links.into_iter().map(|(link, runs)| HostLink { sent: link.sent / runs, ..link }).collect()
}

/// The mean of each quantile; none where a run does not have them all.
fn quantiles(trials: &[&Trial]) -> Vec<f64> {
    if trials.iter().any(|trial| trial.client.quantiles.len() != QUANTILES) {
        return Vec::new();
    }
    let mean = |place: usize| {
        trials.iter().map(|trial| trial.client.quantiles[place]).sum::<f64>() / trials.len() as f64
    };
    (0..QUANTILES).map(mean).collect()
}

/// The mean over the runs in which the machine was watched.
fn machine(trials: &[&Trial]) -> Option<Watch> {
    let watched: Vec<&Watch> = trials.iter().filter_map(|trial| trial.machine.as_ref()).collect();
    Watch::mean(&watched)
}

/// The same of each of several machines.
fn machines(trials: &[&Trial]) -> Vec<(String, Watch)> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in trials.iter().flat_map(|trial| &trial.machines) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let of = |name: &String| {
        let all = trials.iter().flat_map(|trial| &trial.machines);
        let watched: Vec<&Watch> = all.filter(|(known, _)| known == name).map(|(_, watch)| watch).collect();
        Some((name.clone(), Watch::mean(&watched)?))
    };
    names.into_iter().filter_map(of).collect()
}

fn servers(trials: &[&Trial]) -> Vec<ServerShare> {
    let mut servers: Vec<ServerShare> = Vec::new();
    for server in trials.iter().flat_map(|trial| &trial.servers) {
        match servers.iter_mut().find(|known| known.name == server.name) {
            Some(known) => known.requests += server.requests,
            None => {
                let (name, requests) = (server.name.clone(), server.requests);
                servers.push(ServerShare { name, requests, share: 0.0 });
            }
        }
    }
    let total: u64 = servers.iter().map(|server| server.requests).sum();
    for server in servers.iter_mut().filter(|_| total > 0) {
        server.share = server.requests as f64 / total as f64;
    }
    servers
}

/// Estimates of one cell: the levels stand by to name what went wrong.
struct Estimates<'a> {
    levels: &'a CellLevels,
}

impl Estimates<'_> {
    fn of(&self, quantity: &'static str, values: &[f64], windows: &[f64]) -> Result<Quantity, SweepError> {
        Quantity::of_run(values, windows).map_err(|source| SweepError::Estimate {
            levels: self.levels.clone(),
            quantity,
            source,
        })
    }

    /// The mean has the interval of its windows where there is one run; percentiles of windows
    /// would say nothing.
    fn times(
        &self,
        quantity: &'static str,
        times: &[TrialTimes],
        windows: &[f64],
    ) -> Result<TimeQuantities, SweepError> {
        let pick = |pick: fn(TrialTimes) -> f64| times.iter().copied().map(pick).collect::<Vec<f64>>();
        Ok(TimeQuantities {
            mean: self.of(quantity, &pick(|t| t.mean), windows)?,
            p50: self.of(quantity, &pick(|t| t.p50), &[])?,
            p90: self.of(quantity, &pick(|t| t.p90), &[])?,
            p99: self.of(quantity, &pick(|t| t.p99), &[])?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::quantity::IntervalBasis;
    use crate::trial::{ClientWindow, ProcessCpu, ServerSide};
    use crate::verdict::Saturation;

    /// Ten seconds at a steady rate that keep every law: the clients are always waiting.
    pub(crate) fn steady_trial(workload: &str, clients: u32, rate: f64) -> Trial {
        let response = f64::from(clients) / rate;
        let times = |mean: f64| TrialTimes { mean, p50: mean * 0.9, p90: mean * 1.6, p99: mean * 2.5 };
        let completed = (rate * 10.0).round() as u64;
        Trial {
            levels: CellLevels { workload: workload.into(), clients },
            repetition: 0,
            length: 10.0,
            think: 0.0,
            client: ClientSide {
                completed,
                hits: completed,
                response: times(response),
                windows: (0..10)
                    .map(|second| ClientWindow {
                        start: f64::from(second),
                        length: 1.0,
                        completed: (rate * (1.0 + 0.01 * f64::from(second % 3 - 1))) as u64,
                        response: Some(response),
                    })
                    .collect(),
                histogram: TrialHistogram {
                    width: 1e-4,
                    counts: vec![(3, completed / 2), (9, completed / 2)],
                },
                ..ClientSide::default()
            },
            middleware: Some(MiddlewareSide {
                requests: completed,
                response: times(response * 0.75),
                queue: times(0.0),
                server: times(response * 0.5),
                own: times(response * 0.25),
                queue_length: Some(0.0),
                ..MiddlewareSide::default()
            }),
            servers: vec![
                ServerSide { name: "127.0.0.1:21211".into(), requests: completed / 2, errors: 0 },
                ServerSide { name: "127.0.0.1:21212".into(), requests: completed / 2, errors: 0 },
            ],
            cpu: Vec::new(),
            links: Vec::new(),
            ways: Vec::new(),
            factors: Vec::new(),
            machine: None,
            machines: Vec::new(),
            course: Vec::new(),
            disturbed: None,
        }
    }

    #[test]
    fn repetitions_become_one_cell_with_an_interval() {
        let trials: Vec<Trial> = [19_900.0, 20_000.0, 20_100.0]
            .iter()
            .zip([2, 0, 1])
            .map(|(rate, repetition)| Trial { repetition, ..steady_trial("read", 16, *rate) })
            .collect();
        let results = summarise("test", Environment::default(), &trials).unwrap();
        let [cell] = &results.cells[..] else { panic!("{} cells", results.cells.len()) };
        assert_eq!((cell.throughput.value, cell.throughput.n), (20_000.0, 3));
        assert_eq!(cell.throughput.basis, IntervalBasis::Repetitions);
        let half = cell.throughput.interval.unwrap().half_width();
        assert!((half - 4.303 * 100.0 / 3.0_f64.sqrt()).abs() < 0.1, "{half}");
        assert_eq!(cell.repetitions.iter().map(|r| r.repetition).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(cell.completed, 600_000);
        assert_eq!(results.concerns, []);
    }

    #[test]
    fn of_the_troubles_of_repetitions_the_worst_is_reported_and_failed_requests_of_all() {
        let mut trials =
            [0, 1, 2].map(|repetition| Trial { repetition, ..steady_trial("read", 64, 20_000.0) });
        for (trial, (errors, times)) in trials.iter_mut().zip([(1, 1.1), (41_000, 1.5), (0, 1.2)]) {
            trial.client.errors = errors;
            trial.think = 64.0 / 20_000.0 * (times - 1.0);
        }
        let results = summarise("test", Environment::default(), &trials).unwrap();
        let found: Vec<&Warning> = results.concerns.iter().map(|concern| &concern.warning).collect();
        assert!(found.contains(&&Warning::Errors { errors: 41_001, completed: 600_000 }), "{found:?}");
        let law = found.iter().find_map(|warning| match warning {
            Warning::InteractiveLaw { by_law, .. } => Some(*by_law),
            _ => None,
        });
        assert!((law.unwrap() - 96.0).abs() < 0.1, "{found:?}");
    }

    /// Open load: connections wait for nothing, so no law of theirs is broken and no limit is
    /// looked for.
    #[test]
    fn a_rate_that_was_given_is_no_limit() {
        let mut trials: Vec<Trial> =
            (0..3).map(|repetition| Trial { repetition, ..steady_trial("2000/s", 64, 2_000.0) }).collect();
        for trial in &mut trials {
            trial.client.open = true;
            trial.client.response.mean = 1e-3;
            trial.middleware = None;
        }
        let results = summarise("test", Environment::default(), &trials).unwrap();
        assert!(results.concerns.iter().all(|one| one.levels.is_none()), "{:?}", results.concerns);
        let [verdict] = &results.verdicts[..] else { panic!("{:?}", results.verdicts) };
        assert_eq!((verdict.saturation, verdict.word()), (Saturation::Given, "rate given"));
        assert!(verdict.to_string().contains("The rate was given"), "{verdict}");
        trials.iter_mut().for_each(|trial| trial.client.open = false);
        let closed = summarise("test", Environment::default(), &trials).unwrap();
        let law = |one: &Concern| matches!(one.warning, Warning::InteractiveLaw { .. });
        assert!(closed.concerns.iter().any(law), "{:?}", closed.concerns);
    }

    /// As the connection of a broker, which is free when the database has answered.
    #[test]
    fn a_worker_is_held_until_the_servers_have_answered_or_the_reply_has_left() {
        for (free_when_answered, held) in [(false, 0.75), (true, 0.5)] {
            let mut trial = steady_trial("read", 16, 1_000.0);
            let side = trial.middleware.as_mut().unwrap();
            (side.workers, side.free_when_answered) = (Some(16), free_when_answered);
            let results = summarise("test", Environment::default(), &[trial]).unwrap();
            let busy = results.cells[0].middleware.as_ref().unwrap().workers_busy.unwrap();
            assert!((busy - held).abs() < 1e-9, "{busy}");
        }
    }

    #[test]
    fn servers_that_are_others_in_each_trial_are_called_by_their_places() {
        let mut trials = [1, 2].map(|clients| steady_trial("read", clients, 1_000.0));
        let names = |trials: &[Trial]| {
            let results = summarise("test", Environment::default(), trials).unwrap();
            let cells = results.cells.iter();
            cells.flat_map(|cell| cell.servers.iter().map(|server| server.name.clone())).collect::<Vec<_>>()
        };
        assert_eq!(names(&trials)[..2], ["127.0.0.1:21211", "127.0.0.1:21212"]);
        trials[1].servers[0].name = "127.0.0.1:40191".into();
        let process =
            |name: &str| ProcessCpu { station: SystemPart::Server, name: name.into(), busy: 1.0, cores: 1.0 };
        trials[1].cpu = vec![process("127.0.0.1:40191"), process("127.0.0.1:21212")];
        assert_eq!(names(&trials), ["server 1", "server 2", "server 1", "server 2"]);
        let results = summarise("test", Environment::default(), &trials).unwrap();
        let busy: Vec<&str> = results.cells[1].load.iter().map(|process| process.name.as_str()).collect();
        assert_eq!(busy, ["server 1", "server 2"]);
        trials[1].cpu.insert(0, process(DATABASE));
        let results = summarise("test", Environment::default(), &trials).unwrap();
        let busy: Vec<&str> = results.cells[1].load.iter().map(|process| process.name.as_str()).collect();
        assert_eq!(busy, [DATABASE, "server 1", "server 2"]);
    }

    #[test]
    fn workloads_keep_their_order_and_clients_rise() {
        let trials = [("w", 8), ("r", 4), ("w", 2), ("r", 1)]
            .map(|(workload, clients)| steady_trial(workload, clients, 1_000.0));
        let results = summarise("test", Environment::default(), &trials).unwrap();
        let order: Vec<(&str, u32)> =
            results.cells.iter().map(|cell| (cell.levels.workload.as_str(), cell.levels.clients)).collect();
        assert_eq!(order, [("w", 2), ("w", 8), ("r", 1), ("r", 4)]);
        assert_eq!(results.concerns.last().unwrap().warning, Warning::OneRepetition);
    }

    #[test]
    fn results_survive_their_file() {
        let results =
            summarise("test", Environment::default(), &[steady_trial("read", 16, 20_000.0)]).unwrap();
        let json = serde_json::to_string_pretty(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&json).unwrap(), results);
    }

    #[test]
    fn a_sweep_in_which_nothing_was_answered_has_results_too() {
        let trials = [1, 2].map(|clients| Trial {
            client: ClientSide { errors: 3, ..ClientSide::default() },
            middleware: Some(MiddlewareSide { workers: Some(0), ..MiddlewareSide::default() }),
            ..steady_trial("read", clients, 1_000.0)
        });
        let results = summarise("test", Environment::default(), &trials).unwrap();
        assert_eq!(results.verdicts[0].saturation, Saturation::Unknown);
        assert!(!results.verdicts[0].to_string().contains("NaN"), "{}", results.verdicts[0]);
        let json = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&json).unwrap(), results);
    }

    #[test]
    fn impossible_trials_are_named() {
        assert_eq!(summarise("test", Environment::default(), &[]), Err(SweepError::Empty));
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.client.response.p99 = f64::NAN;
        let error = summarise("test", Environment::default(), &[trial]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "read, 16 clients, repetition 0: a response time of the clients is not a length of time"
        );
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.client.histogram.counts.reverse();
        assert!(matches!(summarise("t", Environment::default(), &[trial]), Err(SweepError::Trial { .. })));
        let trial = Trial { length: 0.0, ..steady_trial("read", 16, 20_000.0) };
        assert!(matches!(summarise("t", Environment::default(), &[trial]), Err(SweepError::Trial { .. })));
    }

    proptest! {
        /// Queue, server and own time and the time outside sum to the response time of the clients.
        #[test]
        fn the_parts_sum_to_the_whole(clients in 1_u32..500, rate in 10.0_f64..1e5, inside in 0.0_f64..1.0) {
            let mut trial = steady_trial("read", clients, rate);
            let whole = trial.client.response.mean;
            let middleware = trial.middleware.as_mut().unwrap();
            middleware.response.mean = whole * inside;
            middleware.queue.mean = whole * inside * 0.2;
            middleware.server.mean = whole * inside * 0.5;
            middleware.own.mean = whole * inside * 0.3;
            let results = summarise("test", Environment::default(), &[trial]).unwrap();
            let sum: f64 = saturation::parts(&results.cells[0]).unwrap().iter().map(|(_, time)| time.value).sum();
            prop_assert!((sum - whole).abs() <= 1e-9 * whole);
        }

        #[test]
        fn the_order_of_trials_makes_no_difference_within_a_workload(seed in 0_usize..24) {
            let mut trials: Vec<Trial> = [(1, 0), (1, 1), (2, 0), (2, 1)]
                .map(|(clients, repetition)| Trial { repetition, ..steady_trial("read", clients, 5_000.0) })
                .to_vec();
            let straight = summarise("test", Environment::default(), &trials).unwrap();
            for place in 0..4 {
                trials.swap(place, (place + seed) % 4);
            }
            prop_assert_eq!(summarise("test", Environment::default(), &trials).unwrap(), straight);
        }
    }
}
