//! `krarup demo`: the main job in one command: servers, the proxy, a sweep of clients, a report.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use krarup_analysis::trial::{Levels, Trial};
use krarup_lab::stop::Stop;
use krarup_lab::testbed::local::{Process, StationError};
use krarup_load::LoadResult;
use krarup_net::Address;
use krarup_units::text::parse_duration;

use crate::failure::Failure;

mod servers;
mod trial;

use servers::{Choice, Servers};

/// Start servers and a proxy, drive a sweep of clients through it, and report where the time went.
///
/// Everything runs on this machine's loopback and is ended again, also on Ctrl-C. The report's path is the last line.
#[derive(Args)]
pub(crate) struct DemoArgs {
    /// The servers: `memcached` (three installed ones), `embedded` (three of `krarup cache`), `auto` (memcached if it is
    /// installed), or running ones as HOST:PORT,HOST:PORT
    #[arg(long, value_name = "WHICH", default_value = "auto", value_parser = Choice::parse)]
    servers: Choice,
    /// Fewer clients and shorter runs, once each: under 20 seconds
    #[arg(long)]
    quick: bool,
    /// Where the report goes; made anew
    #[arg(long, value_name = "DIR", default_value = "krarup-demo")]
    out: PathBuf,
    /// Numbers of clients [default: 2,8,32,64,128; quick: 2,16,64]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: Vec<u32>,
    /// Runs of each cell [default: 3; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: Option<u32>,
    /// How long each run is measured [default: 1s; quick: 600ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    seconds: Option<f64>,
    /// Worker slots of the proxy
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
    /// Decides keys and values
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The mixes of requests, and how the load generator is told of them.
const WORKLOADS: [(&str, &[&str]); 4] = [
    ("read-only", &["--ratio", "0:1"]),
    ("write-only", &["--ratio", "1:0"]),
    ("1:1 mix", &["--ratio", "1:1"]),
    ("multi-GET of 6", &["--ratio", "0:6", "--multi-get", "6"]),
];

/// The data all workloads use.
const DATA: &[&str] = &["--keys", "10000", "--data-size", "1024"];

/// Before each run is measured, this long is not.
const WARM_UP: f64 = 0.15;
/// How long a station may take to be ready or to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// What is to be done, worked out from the flags.
struct Plan {
    clients: Vec<u32>,
    repetitions: u32,
    seconds: f64,
    workers: u32,
    seed: u64,
}

impl Plan {
    fn of(args: &DemoArgs) -> Result<Self, Failure> {
        let (clients, repetitions, seconds): (&[u32], _, _) =
            if args.quick { (&[2, 16, 64], 1, 0.6) } else { (&[2, 8, 32, 64, 128], 3, 1.0) };
        let plan = Self {
            clients: if args.clients.is_empty() { clients.to_vec() } else { args.clients.clone() },
            repetitions: args.repetitions.unwrap_or(repetitions),
            seconds: args.seconds.unwrap_or(seconds),
            workers: args.workers,
            seed: args.seed,
        };
        if !(0.1..=3_600.0).contains(&plan.seconds) {
            return Err(Failure::usage(format!(
                "--seconds is {}, and must be from 0.1 to 3600",
                plan.seconds
            ))
            .hint("krarup demo --help shows every flag"));
        }
        Ok(plan)
    }

    /// Each run of each cell. Repetitions come round by round, so that a slow drift of the machine meets all cells alike.
    fn trials(&self) -> Vec<(usize, u32, u32)> {
        let mut trials = Vec::new();
        for repetition in 0..self.repetitions {
            for workload in 0..WORKLOADS.len() {
                trials.extend(self.clients.iter().map(|&clients| (workload, clients, repetition)));
            }
        }
        trials
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let plan = Plan::of(args)?;
    let stop = Stop::on_signals().map_err(|error| Failure::run(format!("signals are refused: {error}")))?;
    let started = humantime();
    let failed = |error: StationError| {
        if stop.asked() {
            Failure::run("stopped on request; everything started was ended")
        } else {
            Failure::run(error.to_string())
        }
    };
    let out = |error: std::io::Error| {
        Failure::run(format!("{} cannot be written: {error}", args.out.display()))
            .hint("choose another directory with --out")
    };
    // Now, and not after all the runs.
    let made_here = !args.out.exists();
    std::fs::create_dir_all(&args.out).map_err(out)?;
    let runs = || {
        let mut servers = Servers::start(&args.servers, &stop)?;
        eprintln!("servers: {}", servers.describe());
        let trials = sweep(&plan, &mut servers, &stop)?;
        servers.stop()?;
        Ok((servers, trials))
    };
    let (servers, trials) = runs().map_err(|error| {
        if made_here {
            // It is empty.
            let _ = std::fs::remove_dir(&args.out);
        }
        failed(error)
    })?;
    let environment = trial::environment(&servers, started);
    let results = krarup_analysis::sweep::summarise(
        "A middleware before memcached: a sweep of clients",
        environment,
        &trials,
    )
    .map_err(|error| Failure::run(error.to_string()))?;
    let document = krarup_report::sweep::document(&results, &format!("krarup {}", env!("CARGO_PKG_VERSION")));
    println!("{}", krarup_report::text::table(&krarup_report::sweep::table(&results)));
    for verdict in &results.verdicts {
        println!("{}: {verdict}\n", verdict.at.workload);
    }
    let text = serde_json::to_string_pretty(&results).expect("results are plain data");
    std::fs::write(args.out.join("results.json"), text).map_err(out)?;
    let page = krarup_report::Page::of(&document).write(&args.out).map_err(out)?;
    println!("{}", page.canonicalize().unwrap_or(page).display());
    Ok(())
}

fn sweep(plan: &Plan, servers: &mut Servers, stop: &Stop) -> Result<Vec<Trial>, StationError> {
    let cells = plan.trials();
    let bar = ProgressBar::new(cells.len() as u64 + 1);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("the template is valid"));
    let begun = Instant::now();
    let tell = |done: usize, what: &str| {
        bar.set_position(done as u64);
        let left = begun.elapsed().as_secs_f64() / (done.max(1) as f64) * (cells.len() + 1 - done) as f64;
        let left = if done < 2 { String::new() } else { format!(", {left:.0} s left") };
        if bar.is_hidden() {
            eprintln!("{done}/{} {what}{left}", cells.len() + 1);
        } else {
            bar.set_message(format!("{what}{left}"));
        }
    };
    tell(0, "populating 10,000 keys");
    {
        let mut proxy = proxy(plan, servers, stop)?;
        load(&proxy.address, plan, &["--populate-only", "--verify", "-c", "8"], stop)?;
        proxy.process.stop(PATIENCE)?;
    }
    let mut trials = Vec::new();
    for (done, &(workload, clients, repetition)) in cells.iter().enumerate() {
        let (name, flags) = WORKLOADS[workload];
        tell(done + 1, &format!("{name}, {clients} clients, run {} of {}", repetition + 1, plan.repetitions));
        let levels = Levels { workload: name.to_owned(), clients };
        trials.push(one(plan, levels, flags, repetition, servers, stop)?);
    }
    bar.finish_and_clear();
    Ok(trials)
}

/// One run: a fresh proxy, a warm-up, everything counted so far forgotten, then what is measured.
fn one(
    plan: &Plan,
    levels: Levels,
    flags: &[&str],
    repetition: u32,
    servers: &mut Servers,
    stop: &Stop,
) -> Result<Trial, StationError> {
    let mut proxy = proxy(plan, servers, stop)?;
    let clients = levels.clients.to_string();
    let timed = |seconds: f64| -> Vec<String> {
        let mut words: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        words.extend(["-c".into(), clients.clone(), "--seconds".into(), format!("{seconds}s")]);
        words
    };
    load(&proxy.address, plan, &timed(WARM_UP), stop)?;
    trial::reset(&proxy.address).map_err(|why| proxy.process.error(why))?;
    let before = trial::Cpu::now(&proxy.process, servers);
    let mut words = timed(plan.seconds);
    words.extend(["--verify".into(), "--json".into(), "-".into()]);
    let result = load(&proxy.address, plan, &words, stop)?;
    let after = trial::Cpu::now(&proxy.process, servers);
    let result: LoadResult = serde_json::from_slice(&result).map_err(|error| {
        proxy.process.error(format!("the load generator's result is not readable: {error}"))
    })?;
    let ended = proxy.process.stop(PATIENCE)?;
    let summary = serde_json::from_slice(&ended.stdout)
        .map_err(|error| proxy.process.error(format!("the proxy's statistics are not readable: {error}")))?;
    Ok(trial::of(levels, repetition, &result, &summary, &before, &after))
}

/// A running proxy.
struct Proxy {
    process: Process,
    address: Address,
}

fn proxy(plan: &Plan, servers: &Servers, stop: &Stop) -> Result<Proxy, StationError> {
    let addresses: Vec<_> = servers.addresses().iter().map(ToString::to_string).collect();
    let workers = plan.workers.to_string();
    let mut command = krarup();
    command.args([
        "proxy",
        "--listen",
        "127.0.0.1:0",
        "--sharded",
        "true",
        "--json",
        "--workers",
        &workers,
        "--servers",
    ]);
    command.arg(addresses.join(","));
    let mut process = Process::start("proxy", &mut command)?;
    let address = process.ready("listening on ", PATIENCE, stop)?;
    let address = address.parse().map_err(|why| process.error(why))?;
    Ok(Proxy { process, address })
}

/// Runs the load generator to its end; returns what it wrote.
fn load(
    target: &Address,
    plan: &Plan,
    words: &[impl AsRef<str>],
    stop: &Stop,
) -> Result<Vec<u8>, StationError> {
    let mut command = krarup();
    command.args([
        "load",
        "--progress",
        "none",
        "--servers",
        &target.to_string(),
        "--seed",
        &plan.seed.to_string(),
    ]);
    command.args(DATA).args(words.iter().map(AsRef::as_ref));
    let mut process = Process::start("load", &mut command)?;
    let ended = process.finish(PATIENCE + Duration::from_secs_f64(plan.seconds), stop, |_| {})?;
    if ended.status.success() {
        Ok(ended.stdout)
    } else {
        Err(process.error(format!("failed ({})", ended.status)))
    }
}

/// This program, for another of its subcommands.
fn krarup() -> Command {
    Command::new(std::env::current_exe().expect("a running program has a path"))
}

/// The wall clock, for the report's page.
fn humantime() -> String {
    let now = std::time::SystemTime::now();
    krarup_units::text::timestamp(
        now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    )
}
