//! One run as analysis wants it, from what load generator, proxy and host said.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use krarup_analysis::results::Environment;
use krarup_analysis::trial::{
    ClientSide, ClientWindow, Histogram, Levels, MiddlewareSide, MiddlewareWindow, ProcessCpu, ServerSide,
    Station, Times, Trial,
};
use krarup_lab::host::{Host, cpu_time};
use krarup_lab::testbed::local::Process;
use krarup_load::LoadResult;
use krarup_net::Address;
use krarup_proxy::{Summary, summary};
use krarup_units::Nanos;

use super::servers::Servers;

/// Processor time of each process at one instant.
pub(super) struct Cpu {
    proxy: Option<Nanos>,
    servers: Vec<(String, Option<Nanos>)>,
}

impl Cpu {
    pub(super) fn now(proxy: &Process, servers: &Servers) -> Self {
        Self {
            proxy: cpu_time(proxy.id()),
            servers: servers
                .processes()
                .map(|(process, address)| (address.to_string(), cpu_time(process.id())))
                .collect(),
        }
    }
}

/// Asks the proxy to forget what it counted.
pub(super) fn reset(proxy: &Address) -> Result<(), String> {
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((proxy.host.as_str(), proxy.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"stats reset\r\nquit\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    match ask() {
        Ok(answer) if answer == b"RESET\r\n" => Ok(()),
        Ok(answer) => {
            Err(format!("`stats reset` was answered with `{}`", String::from_utf8_lossy(&answer).trim_end()))
        }
        Err(error) => Err(format!("`stats reset` could not be asked: {error}")),
    }
}

/// The run, as plain data.
pub(super) fn of(
    levels: Levels,
    repetition: u32,
    load: &LoadResult,
    proxy: &Summary,
    before: &Cpu,
    after: &Cpu,
) -> Trial {
    let servers = proxy.servers.iter().map(|server| ServerSide {
        name: server.name.clone(),
        requests: server.requests,
        errors: server.errors,
    });
    Trial {
        levels,
        repetition,
        length: load.seconds,
        think: 0.0,
        client: client_side(load),
        middleware: Some(middleware_side(proxy)),
        servers: servers.collect(),
        cpu: processes(load, before, after),
    }
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

fn processes(load: &LoadResult, before: &Cpu, after: &Cpu) -> Vec<ProcessCpu> {
    let process =
        |station, name: &str, busy: f64| ProcessCpu { station, name: name.to_owned(), busy, cores: 1.0 };
    let spent =
        |before: Option<Nanos>, after: Option<Nanos>| Some(after?.saturating_sub(before?).as_seconds());
    let mut all = vec![process(Station::Clients, "load", load.generator.cpu_seconds)];
    all.extend(spent(before.proxy, after.proxy).map(|busy| process(Station::Middleware, "proxy", busy)));
    for ((name, before), (_, after)) in before.servers.iter().zip(&after.servers) {
        all.extend(spent(*before, *after).map(|busy| process(Station::Server, name, busy)));
    }
    all
}

/// What all of it ran on.
pub(super) fn environment(servers: &Servers, started: String) -> Environment {
    let host = Host::this();
    Environment {
        cpu: host.cpu,
        cores: host.cores,
        memory: host.memory.to_string(),
        kernel: host.kernel,
        versions: vec![
            ("krarup".into(), env!("CARGO_PKG_VERSION").into()),
            ("servers".into(), servers.kind().to_owned()),
        ],
        command_line: std::env::args().collect::<Vec<_>>().join(" "),
        started,
    }
}
