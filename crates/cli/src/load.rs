//! `krarup load`: load on memcached servers, measured from when each request was due.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use krarup_load::keys::{KeyLaw, KeyRange};
use krarup_load::schedule::{Arrivals, Leg, Open, Process, Think};
use krarup_load::search::{FoundMax, Limit, Search, Trial};
use krarup_load::sizes::SizeLaw;
use krarup_load::workload::{Mix, OnMiss, Workload};
use krarup_load::{Conductor, Event, Extent, Load, LoadError, LoadResult, Phase, table, text};
use krarup_net::Address;
use krarup_record::file::log::LogWriter;
use krarup_record::file::{self, Problem, Run};
use krarup_record::{Operation, Tally, WindowRow};
use krarup_units::text::parse_duration;
use krarup_units::{Nanos, PerSecond, Seconds, Stamp};

use crate::failure::Failure;

/// Put load on memcached servers and measure how they answer.
///
/// Closed loop by default: each connection sends its next request when it has its answer. With --rate requests come
/// at their own pace, whatever the servers do. Response times count from when a request was due, so delays of the generator
/// or of a stalled connection are never hidden. The result goes to stdout, progress to stderr. SIGINT ends a run early and still reports.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup load --populate --ratio 1:10 --connections 64 --seconds 30 --warm-up 5s\n  \
    krarup load --rate 20000 --arrivals poisson --data-size etc --key-law zipf:0.99 --json result.json")]
pub(crate) struct LoadArgs {
    /// The servers; connections are spread over them in turn
    #[arg(
        long,
        short = 's',
        visible_alias = "server",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        default_value = "127.0.0.1:11211"
    )]
    servers: Vec<Address>,
    /// Connections in all
    #[arg(long, short = 'c', value_name = "N", default_value_t = 50)]
    connections: u32,
    /// Threads that drive them
    #[arg(long, short = 't', value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Requests a connection may have under way at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: u32,
    /// How long a client thinks between an answer and its next request: 10ms, or exp:10ms for exponential times
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = text::think, conflicts_with = "rate")]
    think: Think,
    /// Open load: requests per second; steps and ramps as 1000x10s,1000-5000x30s
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,
    /// How an open load's requests are spread: paced, poisson, or bursty:FACTOR:SHARE:LENGTH
    #[arg(long, value_name = "PROCESS", default_value = "poisson", value_parser = text::process, requires = "rate")]
    arrivals: Process,
    /// SETs to GETs: each client in a cycle, first the SETs, then the GETs [default: 1:10]
    #[arg(long, value_name = "SETS:GETS", value_parser = text::ratio, conflicts_with = "mix")]
    ratio: Option<Mix>,
    /// Commands by weight, as get=9,set=1; also mget gets gat add replace append prepend cas delete incr decr touch
    #[arg(long, value_name = "WEIGHTS", value_parser = text::mix)]
    mix: Option<Mix>,
    /// Keys in one multi-get; 1 makes single gets
    #[arg(long, value_name = "KEYS", default_value_t = 1)]
    multi_get: u32,
    /// Size of values: 32, 4KiB, a range 100-200, a list with weights 32:9,4096:1, exp:MEAN, or etc (Facebook's)
    #[arg(long, short = 'd', value_name = "SIZE", default_value = "32", value_parser = text::size_law)]
    data_size: SizeLaw,
    /// How many keys there are
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keys: u64,
    /// The number of the first key
    #[arg(long, value_name = "N", default_value_t = 0)]
    key_minimum: u64,
    /// What keys begin with
    #[arg(long, value_name = "TEXT", default_value = "key-")]
    key_prefix: String,
    /// Keys have at least this many bytes: their numbers are filled up with zeros
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    key_size: u16,
    /// How keys are drawn: uniform, sequential, parted, zipf:EXPONENT, gaussian:MEAN:DEVIATION, hot:KEYS:DRAWS
    #[arg(long, value_name = "LAW", default_value = "uniform", value_parser = text::key_law)]
    key_law: KeyLaw,
    /// How commands that write draw their keys, where that is different
    #[arg(long, value_name = "LAW", value_parser = text::key_law)]
    write_key_law: Option<KeyLaw>,
    /// Expiry time of what is stored, in seconds: 60, or a range 60-120; 0 never expires
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_expiry)]
    expiry: Expiry,
    /// When a get misses: only count it, or set the key at once
    #[arg(long, value_name = "WHAT", default_value = "count")]
    on_miss: Miss,
    /// How long the run is, warm-up and cool-down included [default: 10]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "requests")]
    seconds: Option<Seconds>,
    /// End after this many requests in all, instead of after a time
    #[arg(long, short = 'n', value_name = "N")]
    requests: Option<u64>,
    /// What happens in this time at the start is not measured
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    warm_up: Seconds,
    /// What happens in this time before the end is not measured
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    cool_down: Seconds,
    /// First store every key, in order and exactly once, and verify that all are there
    #[arg(long)]
    populate: bool,
    /// Populate, and end
    #[arg(long)]
    populate_only: bool,
    /// Compare every value that comes with what must have been stored; a wrong one makes the exit code 1
    #[arg(long)]
    verify: bool,
    /// Decides every key, size, think time and arrival
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long connections are tried at the start
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    connect_timeout: Seconds,
    /// After this time without an answer a connection is given up; 0: never
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    timeout: Seconds,
    /// How long last answers are waited for at the end
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    drain: Seconds,
    /// End when no connection has stood for this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    give_up: Seconds,
    /// A line per second on stderr: auto (only on a terminal), human, json (one object per line), none
    #[arg(long, value_name = "HOW", default_value = "auto", default_missing_value = "human", num_args = 0..=1)]
    progress: Progress,
    /// Search for the highest rate whose 99th percentile of response time stays below this; each trial takes --seconds
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["requests", "think", "csv", "hlog"])]
    find_max: Option<Seconds>,
    /// How often --find-max is repeated, for an interval
    #[arg(long, value_name = "N", default_value_t = 3, requires = "find_max", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Write the result as JSON; `-` for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write what happened second by second, per operation, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the histograms of every second as an HdrHistogram log, which merges exactly
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Miss {
    Count,
    Set,
}

/// How a long run tells how far it is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    Auto,
    Human,
    Json,
    None,
}

impl Progress {
    /// What `auto` means, for a stderr that is a terminal or not.
    pub(crate) fn unless_piped(self, is_terminal: bool) -> Self {
        match self {
            Self::Auto if is_terminal => Self::Human,
            Self::Auto => Self::None,
            other => other,
        }
    }
}

/// One value to clap, though it is a list.
#[derive(Clone)]
struct Rate(Vec<Leg>);

fn parse_rate(text: &str) -> Result<Rate, String> {
    text::rate(text).map(Rate)
}

#[derive(Clone, Copy)]
struct Expiry(i32, i32);

fn parse_expiry(text: &str) -> Result<Expiry, String> {
    text::expiry(text).map(|(from, to)| Expiry(from, to))
}

impl LoadArgs {
    fn load(&self) -> Load {
        let mix = self.ratio.clone().or_else(|| self.mix.clone());
        Load {
            targets: self.servers.clone(),
            connections: self.connections,
            threads: self.threads,
            pipeline: self.pipeline,
            arrivals: match &self.rate {
                Some(Rate(legs)) => Arrivals::Open(Open { process: self.arrivals, legs: legs.clone() }),
                None => Arrivals::Closed(self.think),
            },
            workload: Workload {
                mix: mix.unwrap_or(Mix::Ratio { sets: 1, gets: 10 }),
                keys: KeyRange {
                    prefix: self.key_prefix.clone(),
                    minimum: self.key_minimum,
                    count: self.keys,
                    size: self.key_size,
                },
                get_law: self.key_law,
                set_law: self.write_key_law.unwrap_or(self.key_law),
                multi_get: self.multi_get,
                value_size: self.data_size.clone(),
                expiry: (self.expiry.0, self.expiry.1),
                on_miss: match self.on_miss {
                    Miss::Count => OnMiss::Count,
                    Miss::Set => OnMiss::Set,
                },
                ..Workload::default()
            },
            extent: match (self.requests, self.seconds) {
                (Some(requests), _) => Extent::Requests(requests),
                (None, seconds) => Extent::Seconds(seconds.unwrap_or(10.0)),
            },
            warm_up: self.warm_up,
            cool_down: self.cool_down,
            seed: self.seed,
            verify: self.verify,
            connect_timeout: self.connect_timeout,
            request_timeout: self.timeout,
            drain: self.drain,
            give_up: self.give_up,
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &LoadArgs) -> Result<(), Failure> {
    let load = args.load();
    load.check().map_err(|error| Failure::usage(error).hint("krarup load --help shows every flag"))?;
    krarup_net::files::allow_many();
    let mut tell = observer(args.progress);
    let mut records = Records::begin(args)?;
    let mut observe = |event: &Event<'_>| {
        tell(event);
        records.keep(event);
    };
    let mut conductor = Conductor::new(true).map_err(|error| Failure::run(error.to_string()))?;
    if args.populate || args.populate_only {
        let stored = conductor.populate(&load, &mut observe).map_err(|error| failure(&error))?;
        eprintln!("populated: {stored} keys stored and verified");
        if args.populate_only {
            return Ok(());
        }
    }
    if let Some(p99) = args.find_max {
        return find_max(args, load, Limit { p99, carried: CARRIED }, &mut conductor);
    }
    let result = conductor.run(&load, &mut observe).map_err(|error| failure(&error))?;
    records.finish()?;
    report(args, &result)?;
    verdict(&result)
}

/// A rate of which less than this share was answered was not carried.
const CARRIED: f64 = 0.98;
/// How finely the highest rate is searched for.
const PRECISION: f64 = 0.05;

/// Searches for the highest rate, several times over, and reports it.
fn find_max(args: &LoadArgs, mut load: Load, limit: Limit, conductor: &mut Conductor) -> Result<(), Failure> {
    let mut start = args.rate.as_ref().map_or(PerSecond(1_000.0), |Rate(legs)| legs[0].to);
    let (mut trials, mut found) = (Vec::new(), Vec::new());
    for number in 0..args.repetitions {
        let mut search = Search::new(start, PRECISION);
        while let Some(rate) = search.next() {
            let legs = vec![Leg { from: rate, to: rate, seconds: 0.0 }];
            load.arrivals = Arrivals::Open(Open { process: args.arrivals, legs });
            load.seed = load.seed.wrapping_add(1);
            let result = conductor.run(&load, &mut |_| {}).map_err(|error| failure(&error))?;
            if result.interrupted {
                return Err(Failure::run("interrupted: the search was not at its end"));
            }
            let carried = limit.holds(rate, &result);
            search.tell(rate, carried);
            let trial = Trial {
                search: number,
                rate,
                throughput: result.overall.throughput,
                p99: result.overall.response_time.p99,
                carried,
                warnings: result.warnings,
            };
            eprintln!("{}", table::trial(&trial));
            trials.push(trial);
        }
        if let Some(rate) = search.found() {
            found.push(rate);
            start = rate;
        }
    }
    let max = FoundMax::new(limit, trials, found);
    if args.json.as_deref() != Some(Path::new("-")) {
        write(Path::new("-"), |out| out.write_all(table::found_max(&max).as_bytes()))?;
    }
    write_json(args, &max)?;
    if max.found.is_empty() {
        Err(Failure::run("not even one request per second was carried"))
    } else {
        Ok(())
    }
}

/// The files that are written from every second of the load itself.
struct Records {
    csv: Option<PathBuf>,
    seconds: Vec<(Stamp, Nanos, Vec<Tally>)>,
    hlog: Option<(PathBuf, BufWriter<File>)>,
    log: Option<LogWriter<BufWriter<File>>>,
    problem: Option<Failure>,
}

impl Records {
    fn begin(args: &LoadArgs) -> Result<Self, Failure> {
        let hlog = match &args.hlog {
            Some(path) => Some((
                path.clone(),
                BufWriter::new(File::create(path).map_err(|error| unwritten(path, &error))?),
            )),
            None => None,
        };
        Ok(Self { csv: args.csv.clone(), seconds: Vec::new(), hlog, log: None, problem: None })
    }

    fn keep(&mut self, event: &Event<'_>) {
        if event.phase != Phase::Run {
            return;
        }
        let segment = event.segment;
        let length = Nanos(segment.end.0.saturating_sub(segment.start.0));
        if self.csv.is_some() {
            let tallies = segment.counts.iter().map(|counts| counts.tally).collect();
            self.seconds.push((segment.start, length, tallies));
        }
        if let Err((path, problem)) = self.log(event, length) {
            self.problem.get_or_insert_with(|| unwritten(&path, &problem));
        }
    }

    fn log(&mut self, event: &Event<'_>, length: Nanos) -> Result<(), (PathBuf, Problem)> {
        if let Some((path, out)) = self.hlog.take() {
            let begun = LogWriter::begin(out, Run { epoch_unix: event.epoch_unix });
            self.log = Some(begun.map_err(|problem| (path, problem))?);
        }
        let Some(log) = &mut self.log else { return Ok(()) };
        let written = log.interval(event.segment.start, length, &event.segment.histograms);
        written.map_err(|problem| (PathBuf::from("the histogram log"), problem))
    }

    fn finish(self) -> Result<(), Failure> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let Some(path) = &self.csv else { return Ok(()) };
        // Operations that never came have no rows; those that did have one for every second, quiet ones too.
        let seen =
            |operation: Operation| self.seconds.iter().any(|(_, _, all)| all[operation.index()].count > 0);
        let operations: Vec<Operation> = Operation::ALL.iter().copied().filter(|&one| seen(one)).collect();
        let rows = self.seconds.iter().flat_map(|(start, length, tallies)| {
            operations.iter().map(|operation| WindowRow {
                start: *start,
                length: *length,
                folded: false,
                operation: *operation,
                tally: tallies[operation.index()],
            })
        });
        file::save(path, |out| file::windows::write(out, rows))
            .map_err(|error| Failure::run(error.to_string()))
    }
}

fn unwritten(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::run(format!("{} cannot be written: {why}", path.display()))
}

fn failure(error: &LoadError) -> Failure {
    let failure = Failure::run(error.to_string());
    match error {
        LoadError::Config(_) => Failure::usage(error.to_string()),
        LoadError::Unreachable { .. } => {
            failure.hint("is a server listening there? `memcached -l 127.0.0.1 -p 11211` starts one, so does `krarup cache`")
        }
        LoadError::Populate { .. } => failure.hint("look at the server's memory limit (-m) and largest item (-I)"),
        LoadError::System(_) => failure.hint("each connection takes a file descriptor: `ulimit -n` shows how many there may be"),
    }
}

/// Tells what happens, once a second.
fn observer(progress: Progress) -> impl FnMut(&Event<'_>) {
    let progress = progress.unless_piped(io::stderr().is_terminal());
    move |event| {
        let Some(all) = event.rows.first() else { return };
        match progress {
            Progress::Human => eprintln!("{}", table::progress(event.phase, event.of, all)),
            Progress::Json => {
                let line = serde_json::json!({ "phase": event.phase, "of": event.of, "second": all });
                eprintln!("{line}");
            }
            Progress::Auto | Progress::None => {}
        }
    }
}

fn report(args: &LoadArgs, result: &LoadResult) -> Result<(), Failure> {
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if !to_stdout {
        write(Path::new("-"), |out| out.write_all(table::table(result).as_bytes()))?;
    }
    write_json(args, result)
}

fn write_json(args: &LoadArgs, result: &impl serde::Serialize) -> Result<(), Failure> {
    let Some(path) = &args.json else { return Ok(()) };
    let mut text = serde_json::to_string_pretty(result).map_err(|error| Failure::run(error.to_string()))?;
    text.push('\n');
    write(path, |out| out.write_all(text.as_bytes()))
}

/// Writes a file, or stdout if the name is `-`.
fn write(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let written = if path == Path::new("-") {
        let mut out = io::stdout().lock();
        write(&mut out).and_then(|()| out.flush())
    } else {
        File::create(path).map(BufWriter::new).and_then(|mut out| write(&mut out).and_then(|()| out.flush()))
    };
    written.map_err(|error| unwritten(path, &error))
}

/// Whether the run was what was asked for.
fn verdict(result: &LoadResult) -> Result<(), Failure> {
    if let Some(verified) = &result.verified
        && verified.mismatched > 0
    {
        return Err(Failure::run(format!(
            "verification failed: {} of {} values are not what was stored",
            verified.mismatched, verified.checked
        ))
        .hint("has something else written keys of this prefix? --populate stores all of them anew"));
    }
    if result.account.answered == 0 {
        return Err(Failure::run("not one request was answered"));
    }
    Ok(())
}
