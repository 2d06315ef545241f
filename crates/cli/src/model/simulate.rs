//! `krarup model simulate`: a network event by event, with intervals, and a row for every visit on
//! request.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use krarup_lab::stop::Stop as Signals;
use krarup_model::Network;
use krarup_model::simulate::result::{Simulated, StopReason};
use krarup_model::simulate::{self, MOST_REPLICATIONS, Runs, SimulationPart, SimulationSettings, WarmUpRule};
use krarup_record::file::rows::RowFileWriter;
use krarup_record::file::rows::flat::FlatRows;
use krarup_record::file::{self, FileProblem, Partial, RunMetadata};
use krarup_record::{ServerVisit, Visit};
use krarup_units::Unit;
use krarup_units::text::{count, duration, parse_duration};
use krarup_units::{Mistake, Nanos, Seconds};
use serde_json::{Value, json};

use super::answer::Answer;
use super::args::{Output, percentile};
use super::figures;
use super::files::{failed, name, read_network};
use crate::failure::Failure;
use crate::flags::whole;
use crate::input;
use crate::load::ProgressStyle;

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup model simulate network.toml --precision 0.005 --seed 7\n  \
    krarup model simulate network.toml --replicate 60s --replications 20")]
pub(super) struct SimulateArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE", required_unless_present = "merge")]
    network: Option<PathBuf>,
    /// All randomness comes from it: the same seed, the same figures
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = crate::flags::count::<u64>)]
    seed: u64,
    /// Enough is when the intervals of X and R of every class reach this half width, relative to
    /// the value; a pilot, which counts in no figure, tells how long that takes. 0 is never
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    precision: f64,
    /// Level of the intervals
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    level: f64,
    /// Arrivals, ends of thinking and completed services at most
    #[arg(long, value_name = "EVENTS", default_value_t = 50_000_000, value_parser = whole::<u64>(1, u64::MAX))]
    max_events: u64,
    /// Leave out so much simulated time at the start [default: found by the marginal standard error
    /// rule]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warm_up: Option<Seconds>,
    /// Independent replications, each of so much simulated time, instead of one long run; arrivals
    /// that vary with time need it
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    replicate: Option<Seconds>,
    /// So many replications, whatever the precision
    #[arg(long, value_name = "N", requires = "replicate", value_parser = whole::<usize>(2, 10_000))]
    replications: Option<usize>,
    /// Only this replication of N, or FIRST-LAST/N, into the file --part: any machine may do any of
    /// them, in any order
    #[arg(long, value_name = "I/N", requires = "replicate", requires = "part", conflicts_with_all = ["replications", "visits"])]
    replication: Option<ReplicationRange>,
    /// Where --replication writes what it counted, as JSON; `-` for stdout
    #[arg(long, value_name = "FILE", requires = "replication", conflicts_with = "html")]
    part: Option<PathBuf>,
    /// The result of these parts: the same figures, to the last bit, as of one run of all
    /// replications
    #[arg(long, value_name = "PART", num_args = 1.., conflicts_with_all = ["network", "seed", "precision", "level", "max_events", "warm_up", "replicate", "replications", "replication", "part", "percentiles", "visits"])]
    merge: Vec<PathBuf>,
    /// Which percentiles of the response times
    #[arg(long, value_name = "P,…", value_delimiter = ',', default_value = "50,90,95,99", value_parser = percentile)]
    percentiles: Vec<f64>,
    /// Write a row for every visit, as the proxy writes them: CSV if the name ends so, else Parquet
    #[arg(long, value_name = "FILE")]
    visits: Option<PathBuf>,
    /// A line per second on stderr: auto (only on a terminal), human, json (one object per line),
    /// none
    #[arg(long, value_name = "HOW", default_value = "auto", default_missing_value = "human", num_args = 0..=1)]
    progress: ProgressStyle,
    #[command(flatten)]
    pub(super) output: Output,
}

impl SimulateArgs {
    fn settings(&self) -> SimulationSettings {
        SimulationSettings {
            seed: self.seed,
            level: self.level,
            precision: self.precision,
            max_events: self.max_events,
            warm_up: self.warm_up.map_or(WarmUpRule::Detect, WarmUpRule::Seconds),
            runs: match (self.replicate, self.replications.or(self.replication.map(|one| one.of))) {
                (Some(length), Some(count)) => Runs::Counted { length, count },
                (Some(length), None) => Runs::Replications { length },
                _ => Runs::Long,
            },
            percentiles: self.percentiles.clone(),
        }
    }
}

/// Simulates.
pub(super) fn simulated(args: &SimulateArgs) -> Result<Answer, Failure> {
    let Some(file) = &args.network else { return merged(&args.merge) };
    let network = read_network(file)?;
    let settings = args.settings();
    let stop = Signals::on_signals().map_err(|error| Failure::run(format!("signals: {error}")))?;
    let mut tell = observer(args.progress, stop);
    if let (Some(range), Some(part)) = (args.replication, &args.part) {
        crate::written::writable(part)?;
        let made = simulate::simulate_part(&network, &settings, range.first - 1..range.last, &mut tell)
            .map_err(|error| failed(file, &error))?;
        return written(name(&network.name), &made, range, part);
    }
    let simulated = match &args.visits {
        None => simulate::simulate(&network, &settings, &mut tell).map_err(|error| failed(file, &error)),
        Some(path) => with_visits(args, file, path, &network, &mut tell),
    }?;
    Ok(answer(name(&network.name), &simulated))
}

/// Some replications of several, numbered from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReplicationRange {
    first: usize,
    last: usize,
    of: usize,
}

impl FromStr for ReplicationRange {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let parsed = || {
            let (some, of) = text.split_once('/')?;
            let (first, last) = some.split_once('-').unwrap_or((some, some));
            Some(Self { first: first.parse().ok()?, last: last.parse().ok()?, of: of.parse().ok()? })
        };
        let fits = |one: &Self| 1 <= one.first && one.first <= one.last && one.last <= one.of;
        parsed().filter(fits).ok_or_else(|| {
            let hint = "3/100 is the third of a hundred, 26-50/100 the second quarter of them";
            Mistake::new(format!("`{text}` names no replications"), hint)
        })
    }
}

impl fmt::Display for ReplicationRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last - self.first {
            0 => write!(f, "{}/{}", self.first, self.of),
            _ => write!(f, "{}-{}/{}", self.first, self.last, self.of),
        }
    }
}

/// Writes a part.
fn written(
    name: &str,
    part: &SimulationPart,
    range: ReplicationRange,
    path: &Path,
) -> Result<Answer, Failure> {
    crate::written::part(path, part)?;
    let note = format!("replications {range} are in {}; --merge needs all parts", path.display());
    // Behind a part, no reader would take it.
    let on_stdout = path == Path::new("-");
    if on_stdout {
        eprintln!("note: {note}");
    }
    let replications: Vec<usize> = part.numbers().collect();
    let value = json!({ "part": path.display().to_string(), "replications": replications });
    Ok(Answer {
        title: format!("{name}: replications {range}"),
        notes: if on_stdout { Vec::new() } else { vec![note] },
        tables: Vec::new(),
        full: None,
        figures: Vec::new(),
        value: if on_stdout { Value::Null } else { value },
    })
}

/// What parts say together.
fn merged(paths: &[PathBuf]) -> Result<Answer, Failure> {
    let parts: Vec<SimulationPart> = input::parts(paths, "--replication …")?;
    let simulated = simulate::merge_parts(parts)
        .map_err(|error| Failure::usage(error.to_string()).or_hint(error.hint().unwrap_or_default()))?;
    Ok(answer(name(&simulated.network), &simulated))
}

/// Simulates, and writes every visit to `path`.
fn with_visits(
    args: &SimulateArgs,
    described: &Path,
    path: &Path,
    network: &Network,
    tell: &mut dyn FnMut(&simulate::SimulationProgress) -> ControlFlow<()>,
) -> Result<Simulated, Failure> {
    let csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let mut simulated = None;
    let mut rows = 0;
    let saved = file::save(path, |out| {
        let mut sink = Sink::begin(out, csv)?;
        let problem = RefCell::new(None);
        let mut on = |at: &simulate::SimulationProgress| match &*problem.borrow() {
            Some(_) => ControlFlow::Break(()),
            None => tell(at),
        };
        let mut keep = |visit: &Visit, servers: &[ServerVisit]| {
            let mut problem = problem.borrow_mut();
            if problem.is_none() {
                *problem = sink.push(visit, servers).err();
            }
        };
        let ended = simulate::simulate_with_visits(network, &args.settings(), &mut on, &mut keep);
        // Rows of a simulation that failed are not given the name of the file.
        let ended = simulated.insert(ended);
        match problem.into_inner() {
            Some(problem) => Err(problem),
            None if ended.is_err() => Err(FileProblem::Damaged),
            None => sink.finish().map(|written| rows = written),
        }
    });
    if let Some(Err(error)) = &simulated {
        return Err(failed(described, error));
    }
    saved.map_err(|error| Failure::run(error.to_string()))?;
    eprintln!("visits: {} rows in {}", count(rows as f64), path.display());
    Ok(simulated.and_then(Result::ok).expect("what was saved was simulated"))
}

fn answer(name: &str, simulated: &Simulated) -> Answer {
    let ended = match simulated.stop {
        StopReason::Precise => "the intervals are as narrow as was asked for",
        StopReason::Events => "that were all events allowed",
        StopReason::Asked => "stopped on request",
        StopReason::Counted => "all that were asked for",
        StopReason::Replications => {
            &format!("{} replications are the most: make them longer", count(MOST_REPLICATIONS as f64))
        }
    };
    let runs = match simulated.replications {
        1 => "one run".to_owned(),
        several => format!("{several} replications"),
    };
    let mut notes = vec![
        format!(
            "{} events in {} of simulated time, {runs}, seed {}: {ended}",
            count(simulated.events as f64),
            duration(simulated.time),
            simulated.settings.seed
        ),
        format!("the first {} were left out as warm-up", duration(simulated.warm_up)),
    ];
    if simulated.pilot > 0.0 {
        let pilot = duration(simulated.pilot);
        notes.push(format!("a pilot of {pilot} told how long the rest had to be, and counts in no figure"));
    }
    notes.extend(simulated.warnings.iter().map(|warning| format!("warning: {warning}")));
    let tables = simulated.tables();
    let full = tables.iter().cloned().chain([simulated.timeline_table()]).collect();
    Answer {
        title: format!("{name}: simulation"),
        notes,
        tables,
        full: Some(full),
        figures: vec![figures::timeline_figure(simulated)],
        value: json!(simulated),
    }
}

/// Where visits go.
enum Sink<'a> {
    Parquet(Box<RowFileWriter<&'a mut BufWriter<Partial>>>),
    Csv(Box<FlatRows<&'a mut BufWriter<Partial>>>),
}

impl<'a> Sink<'a> {
    fn begin(out: &'a mut BufWriter<Partial>, csv: bool) -> Result<Self, FileProblem> {
        // Simulated time begins at no hour of any day.
        let run = RunMetadata { epoch_unix: Nanos::ZERO };
        Ok(if csv {
            Self::Csv(Box::new(FlatRows::new(out)?))
        } else {
            Self::Parquet(Box::new(RowFileWriter::new(out, run)?))
        })
    }

    fn push(&mut self, visit: &Visit, servers: &[ServerVisit]) -> Result<(), FileProblem> {
        match self {
            Self::Parquet(sink) => sink.push(visit, servers),
            Self::Csv(sink) => sink.push(visit, servers),
        }
    }

    fn finish(self) -> Result<u64, FileProblem> {
        match self {
            Self::Parquet(sink) => sink.finish().map(|(_, rows)| rows),
            Self::Csv(sink) => sink.finish().map(|(_, rows)| rows),
        }
    }
}

/// Tells how far it is, once a second.
fn observer(
    progress: ProgressStyle,
    stop: Signals,
) -> impl FnMut(&simulate::SimulationProgress) -> ControlFlow<()> {
    let progress = progress.unless_piped(io::stderr().is_terminal());
    let mut next = Instant::now() + SECOND;
    move |at| {
        if progress != ProgressStyle::None && Instant::now() >= next {
            next = Instant::now() + SECOND;
            if progress == ProgressStyle::Json {
                eprintln!(
                    "{}",
                    json!({ "events": at.events, "max_events": at.max_events, "seconds": at.time,
                            "replications": at.replications, "precision": at.precision })
                );
            } else {
                let reached =
                    at.precision.map_or("not known yet".into(), |reached| Unit::Share.show(reached));
                eprintln!(
                    "{} of at most {} events, {} simulated, widest interval ± {reached}",
                    count(at.events as f64),
                    count(at.max_events as f64),
                    duration(at.time)
                );
            }
        }
        if stop.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

const SECOND: Duration = Duration::from_secs(1);
