//! `krarup top`: what a proxy or a broker does now, second by second.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use krarup_net::http;
use krarup_record::exposition::read::Samples;
use krarup_report::document::{Table, TableValue};
use krarup_report::text;
use krarup_units::text::{count, duration, parse_duration, three_digits};
use krarup_units::{Address, Unit};

use crate::failure::Failure;
use crate::headroom;

/// Show what a proxy or a broker does: rates, queues and times of the last second, until Ctrl-C.
///
/// Asks the address that was given to it with --admin. On a terminal each look replaces the one
/// before; elsewhere they follow each other.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// The admin address of the proxy or the broker
    #[arg(value_name = "HOST:PORT")]
    address: Address,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    every: f64,
    /// Show this instead: `headroom` is which resource of a proxy is full first, and at which rate;
    /// `hotkeys` is which keys take most
    #[arg(long, value_name = "PAGE", default_value = "now")]
    page: TopPage,
    /// How many times to look [default: until Ctrl-C]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    looks: Option<u32>,
}

/// What is shown.
#[derive(Clone, Copy, ValueEnum)]
enum TopPage {
    /// Rates, queues and times of the last second
    Now,
    /// What `krarup headroom` says, with the proxy's own target
    Headroom,
    /// The keys that take most of a proxy's servers' time and of the bytes, and what would relieve
    /// the servers of them
    Hotkeys,
}

/// The names under which each kind of process tells the same things.
struct Names {
    what: &'static str,
    requests: &'static str,
    errors: &'static str,
    queue: &'static str,
    store: &'static str,
    own: &'static str,
    response: &'static str,
    clients: &'static str,
    uptime: &'static str,
    /// The heading of the time spent behind it.
    behind: &'static str,
}

const BROKER: Names = Names {
    what: "broker",
    requests: "krarup_broker_requests_total",
    errors: "krarup_broker_errors_total",
    queue: "krarup_broker_queue_time_seconds",
    store: "krarup_broker_store_time_seconds",
    own: "krarup_broker_own_time_seconds",
    response: "krarup_broker_response_time_seconds",
    clients: "krarup_broker_clients",
    uptime: "krarup_broker_uptime_seconds",
    behind: "store",
};

const PROXY: Names = Names {
    what: "proxy",
    requests: "krarup_requests_total",
    errors: "krarup_request_errors_total",
    queue: "krarup_queue_time_seconds",
    store: "krarup_server_time_seconds",
    own: "krarup_own_time_seconds",
    response: "krarup_response_time_seconds",
    clients: "krarup_client_connections",
    uptime: "krarup_uptime_seconds",
    behind: "servers",
};

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    if !(0.05..=3_600.0).contains(&args.every) {
        return Err(Failure::usage("--every is from 50ms to an hour"));
    }
    let look = || -> Result<(Samples, Instant), Failure> {
        let text = http::get(&args.address, "/metrics").map_err(|why| {
            Failure::run(why).hint("give the proxy or the broker an address with --admin, and that one here")
        })?;
        Ok((Samples::read(&text), Instant::now()))
    };
    let (mut before, mut then) = look()?;
    let names = if before.value(BROKER.uptime).is_some() { &BROKER } else { &PROXY };
    if before.value(names.uptime).is_none() {
        return Err(Failure::run(format!("{} is no krarup proxy or broker", args.address))
            .hint("give it an address with --admin, and that one here"));
    }
    #[expect(clippy::disallowed_methods, reason = "it never ends by itself: a closed pipe ends it")]
    let stdout = io::stdout();
    let screen = stdout.is_terminal();
    let mut looked = 0;
    while args.looks.is_none_or(|looks| looked < looks) {
        thread::sleep(Duration::from_secs_f64(args.every));
        let (now, when) = look()?;
        let shown = match args.page {
            TopPage::Now => show(&args.address, names, &before, &now, (when - then).as_secs_f64()),
            TopPage::Headroom => headroom_page(&args.address, &now, !screen)?,
            TopPage::Hotkeys => hot_keys_page(&args.address, &now, !screen)?,
        };
        let mut out = stdout.lock();
        // Home, and nothing of the look before behind it.
        let front = if screen { "\x1b[H\x1b[J" } else { "" };
        if writeln!(out, "{front}{shown}").and_then(|()| out.flush()).is_err() {
            // The reader of the output is gone.
            return Ok(());
        }
        (before, then) = (now, when);
        looked += 1;
    }
    Ok(())
}

/// What is said of the headroom; a proxy computes it every ten seconds.
fn headroom_page(address: &Address, now: &Samples, ascii: bool) -> Result<String, Failure> {
    let answer = headroom::answer(address, "/headroom")?;
    let up = duration(now.value(PROXY.uptime).unwrap_or(0.0));
    let screen = krarup_report::headroom::screen(&answer, ascii);
    Ok(format!("krarup proxy at {address}, up {up}: headroom\n\n{screen}"))
}

/// The keys that take most, of the last five to ten seconds.
fn hot_keys_page(address: &Address, now: &Samples, ascii: bool) -> Result<String, Failure> {
    let text = http::get(address, "/hotkeys").map_err(Failure::run)?;
    let keys = serde_json::from_str(&text).map_err(|error| {
        Failure::run(format!("what {address} answers are no hot keys: {error}"))
            .hint("is it the admin address of a krarup proxy of this version?")
    })?;
    let up = duration(now.value(PROXY.uptime).unwrap_or(0.0));
    let screen = krarup_report::hot_keys::screen(&keys, ascii);
    Ok(format!("krarup proxy at {address}, up {up}: hot keys\n\n{screen}"))
}

/// One look: what was between two moments, `seconds` apart.
fn show(address: &Address, names: &Names, before: &Samples, now: &Samples, seconds: f64) -> String {
    let value = |name: &str| now.value(name).unwrap_or(0.0);
    let rate = |name: &str| (value(name) - before.value(name).unwrap_or(0.0)).max(0.0) / seconds;
    let mut out = format!(
        "krarup {} at {address}, up {}: {} clients, {} of a processor\n",
        names.what,
        duration(value(names.uptime)),
        count(value(names.clients)),
        three_digits(rate("process_cpu_seconds_total")),
    );
    if names.what == BROKER.what {
        let state = |state| count(now.of("krarup_broker_messages", "state", state).unwrap_or(0.0));
        let batches = now.buckets("krarup_broker_batch_requests", None);
        let batches = batches.since(&before.buckets("krarup_broker_batch_requests", None));
        out.push_str(&format!(
            "messages: {} ready, {} reserved, {} delayed, {} buried in {} tubes; {} clients wait for one\n\
             store: {} requests wait, {} are with it over {} connections; {} commits/s, {} requests each\n",
            state("ready"),
            state("reserved"),
            state("delayed"),
            state("buried"),
            count(value("krarup_broker_tubes")),
            count(value("krarup_broker_clients_waiting")),
            count(value("krarup_broker_store_queue_length")),
            count(value("krarup_broker_store_requests")),
            count(value("krarup_broker_store_connections_busy")),
            count(batches.count() / seconds),
            batches.mean().map_or("–".to_owned(), three_digits),
        ));
    } else {
        let workers = now.value("krarup_workers").map_or("unlimited".to_owned(), count);
        let servers = now.labels("krarup_server_up", "server");
        let up = servers.iter().filter(|server| now.of("krarup_server_up", "server", server) == Some(1.0));
        out.push_str(&format!(
            "queue: {} wait, {} of {workers} workers busy; servers: {} of {} up\n",
            count(value("krarup_queue_length")),
            count(value("krarup_workers_busy")),
            up.count(),
            servers.len(),
        ));
    }
    out.push('\n');
    out.push_str(&text::table(&operations(names, before, now, seconds)));
    out
}

fn operations(names: &Names, before: &Samples, now: &Samples, seconds: f64) -> Table {
    let row = |operation: &str| {
        let rate = |name: &str| {
            let counted = |samples: &Samples| samples.of(name, "operation", operation).unwrap_or(0.0);
            (counted(now) - counted(before)).max(0.0) / seconds
        };
        let times = |name: &str| {
            let of = |samples: &Samples| samples.buckets(name, Some(("operation", operation)));
            of(now).since(&of(before))
        };
        let mean = |name: &str| TableValue::from(times(name).mean());
        let response = times(names.response);
        vec![
            TableValue::from(operation),
            TableValue::from(rate(names.requests)),
            TableValue::from(rate(names.errors)),
            mean(names.queue),
            mean(names.store),
            mean(names.own),
            TableValue::from(response.mean()),
            TableValue::from(response.quantile(0.5)),
            TableValue::from(response.quantile(0.99)),
        ]
    };
    let columns = [
        ("operation", Unit::Text),
        ("throughput", Unit::PerSecond),
        ("errors", Unit::PerSecond),
        ("queue", Unit::Seconds),
        (names.behind, Unit::Seconds),
        ("own", Unit::Seconds),
        ("response", Unit::Seconds),
        ("p50", Unit::Seconds),
        ("p99", Unit::Seconds),
    ];
    let seen = now.labels(names.requests, "operation");
    Table::untitled("operations", &columns, seen.into_iter().map(row).collect())
}
