//! A directory of results as analysis wants it: each complete trial from what load generator, middleware and host said.

use std::fs::{self, File};
use std::path::Path;

use krarup_analysis::results::Environment;
use krarup_analysis::trial::{
    ClientSide, ClientWindow, Histogram, Levels, MiddlewareSide, MiddlewareWindow, ProcessCpu, ServerSide,
    Station, Times, Trial,
};
use krarup_lab::host::Host;
use krarup_lab::plan::Plan;
use krarup_lab::spec::Spec;
use krarup_lab::store::Store;
use krarup_lab::testbed::local::{Busy, result_files};
use krarup_load::LoadResult;
use krarup_load::schedule::Arrivals;
use krarup_proxy::{Summary, summary};
use krarup_record::file::log;
use krarup_record::{Distribution, Quantity};
use krarup_units::Nanos;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// Every trial of the plan that is complete, cells in the plan's order.
pub(crate) fn read(spec: &Spec, plan: &Plan, store: &Store) -> Result<Vec<Trial>, Failure> {
    let mut trials = Vec::new();
    for cell in &plan.cells {
        for repetition in 0..spec.repetitions.most() {
            let identity = cell.identity(spec, repetition);
            if let Some((folder, _)) = store.complete(cell, repetition, &identity) {
                let clients = spec.stations.clients.count.unwrap_or(1);
                trials.push(trial(&folder, clients, plan.label(cell), repetition)?);
            }
        }
    }
    Ok(trials)
}

/// What all of it runs on.
pub(crate) fn environment(servers: &str, started: String) -> Environment {
    let host = Host::this();
    Environment {
        cpu: host.cpu,
        cores: host.cores,
        memory: host.memory.to_string(),
        kernel: host.kernel,
        versions: vec![
            ("krarup".into(), env!("CARGO_PKG_VERSION").into()),
            ("servers".into(), servers.to_owned()),
        ],
        command_line: std::env::args().collect::<Vec<_>>().join(" "),
        started,
    }
}

/// A JSON file.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text =
        fs::read_to_string(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("{}, line {}: {error}", path.display(), error.line())))
}

fn trial(folder: &Path, clients: u32, workload: String, repetition: u32) -> Result<Trial, Failure> {
    let files = result_files(folder, clients);
    let loads = files.iter().map(|file| json(file)).collect::<Result<Vec<LoadResult>, _>>()?;
    let load = &loads[0];
    let busy: Vec<Busy> = json(&folder.join("cpu.json"))?;
    let mut proxies = Vec::new();
    for number in 1.. {
        let records = folder.join("middleware").join(number.to_string());
        if !records.join("summary.json").is_file() {
            break;
        }
        proxies.push((json::<Summary>(&records.join("summary.json"))?, records));
    }
    let think = match load.config.arrivals {
        Arrivals::Closed(think) => think.mean(),
        Arrivals::Open(_) | Arrivals::Replay(_) => 0.0,
    };
    let servers = proxies.iter().flat_map(|(proxy, _)| &proxy.servers).map(|server| ServerSide {
        name: server.name.clone(),
        requests: server.requests,
        errors: server.errors,
    });
    Ok(Trial {
        levels: Levels {
            workload,
            clients: loads.iter().map(|load| load.config.connections * load.config.pipeline).sum(),
        },
        repetition,
        length: loads.iter().map(|load| load.seconds).sum::<f64>() / loads.len() as f64,
        think,
        client: if loads.len() == 1 { client_side(load) } else { all_clients(&loads) },
        servers: servers.collect(),
        middleware: match &proxies[..] {
            [] => None,
            [(one, _)] => Some(middleware_side(one)),
            several => Some(together(several)?),
        },
        cpu: busy.iter().map(process).collect(),
    })
}

fn process(busy: &Busy) -> ProcessCpu {
    let station = match busy.station.as_str() {
        "clients" => Station::Clients,
        "middleware" => Station::Middleware,
        _ => Station::Server,
    };
    ProcessCpu { station, name: busy.name.clone(), busy: busy.seconds, cores: busy.cores }
}

fn client_side(load: &LoadResult) -> ClientSide {
    let overall = &load.overall;
    let times = &overall.response_time;
    let whole =
        |row: &&krarup_load::result::SeriesRow| row.measured && row.operation == "all" && row.length >= 1.0;
    ClientSide {
        completed: overall.count,
        errors: overall.errors.values().sum(),
        hits: overall.hits,
        misses: overall.misses,
        response: Times { mean: times.mean, p50: times.p50, p90: times.p90, p99: times.p99 },
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
        histogram: Histogram { width: overall.histogram.width, counts: overall.histogram.buckets.clone() },
    }
}

fn middleware_side(proxy: &Summary) -> MiddlewareSide {
    let times =
        |times: &summary::Times| Times { mean: times.mean, p50: times.p50, p90: times.p90, p99: times.p99 };
    let window = |window: &summary::Window| MiddlewareWindow {
        start: window.start,
        length: window.length,
        requests: window.count,
        queue: window.queue,
        server: window.server,
        own: window.own,
        queue_length: window.queue_length,
    };
    MiddlewareSide {
        requests: proxy.all.count,
        errors: proxy.all.errors,
        response: times(&proxy.all.response),
        queue: times(&proxy.all.queue),
        server: times(&proxy.all.server),
        own: times(&proxy.all.own),
        workers: proxy.workers,
        queue_length: proxy.queue_length,
        windows: proxy.windows.iter().map(window).collect(),
        histogram: Histogram { width: proxy.histogram.width, counts: proxy.histogram.counts.clone() },
    }
}

/// Several load generators as one: counts are summed, windows too where all have them; percentiles come from the buckets of all.
fn all_clients(loads: &[LoadResult]) -> ClientSide {
    let sides: Vec<ClientSide> = loads.iter().map(client_side).collect();
    let sum = |of: fn(&ClientSide) -> u64| sides.iter().map(of).sum::<u64>();
    let mean_over = |parts: &[(u64, f64)]| {
        let count: u64 = parts.iter().map(|part| part.0).sum();
        let waited: f64 = parts.iter().map(|part| part.0 as f64 * part.1).sum();
        if count > 0 { waited / count as f64 } else { 0.0 }
    };
    let mut histogram = Histogram::default();
    for side in &sides {
        // All of ours have buckets of one width.
        let _ = histogram.merge(&side.histogram);
    }
    let total: u64 = histogram.counts.iter().map(|(_, count)| count).sum();
    let quantile = |share: f64| {
        let mut seen = 0;
        let bucket = histogram.counts.iter().find(|(_, count)| {
            seen += count;
            seen as f64 >= share * total as f64
        });
        // The middle of the bucket: nobody knows better.
        bucket.map_or(0.0, |(number, _)| (*number as f64 + 0.5) * histogram.width)
    };
    let response = Times {
        mean: mean_over(&sides.iter().map(|side| (side.completed, side.response.mean)).collect::<Vec<_>>()),
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: quantile(0.99),
    };
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
        errors: sum(|side| side.errors),
        hits: sum(|side| side.hits),
        misses: sum(|side| side.misses),
        response,
        windows: (0..windows).map(window).collect(),
        histogram,
    }
}

/// Several middlewares as one: counts are summed, histograms merged; a mean is over the requests of all.
fn together(proxies: &[(Summary, std::path::PathBuf)]) -> Result<MiddlewareSide, Failure> {
    let mut merged: [Distribution; 4] = std::array::from_fn(|_| Distribution::new());
    for (_, records) in proxies {
        let path = records.join("histograms.hlog");
        let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
        let file = File::open(&path).map_err(|error| wrong(&error))?;
        for entry in log::read(file).map_err(|error| wrong(&error))?.entries {
            let place = PARTS.iter().position(|part| *part == entry.quantity);
            if let Some(place) = place {
                merged[place].merge(&entry.distribution);
            }
        }
    }
    let times = |merged: &Distribution| {
        let quantile = |share| merged.quantile(share).map_or(0.0, Nanos::as_seconds);
        let mean = merged.mean().unwrap_or(0.0);
        Times { mean, p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) }
    };
    let [response, queue, server, own] = merged.each_ref().map(times);
    let mut histogram = Histogram::default();
    for (proxy, _) in proxies {
        // All of ours have buckets of one width.
        let _ = histogram
            .merge(&Histogram { width: proxy.histogram.width, counts: proxy.histogram.counts.clone() });
    }
    let workers: Option<u32> = proxies.iter().map(|(proxy, _)| proxy.workers).sum();
    Ok(MiddlewareSide {
        requests: proxies.iter().map(|(proxy, _)| proxy.all.count).sum(),
        errors: proxies.iter().map(|(proxy, _)| proxy.all.errors).sum(),
        response,
        queue,
        server,
        own,
        workers,
        queue_length: proxies.iter().map(|(proxy, _)| proxy.queue_length).sum(),
        // Their seconds do not begin together.
        windows: Vec::new(),
        histogram,
    })
}

const PARTS: [Quantity; 4] = [Quantity::Response, Quantity::Queue, Quantity::Server, Quantity::Own];
