//! `krarup demo`: the main job in one command: servers, the proxy, a sweep of clients, a report.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use krarup_lab::change::Changes;
use krarup_lab::shipped;
use krarup_lab::store::folders;
use krarup_units::text::parse_duration;
use krarup_units::{Address, Mistake};

use crate::experiment::{self, RunManner, SpecSource};
use crate::failure::Failure;
use crate::flags::{count, whole};

/// Start servers and a proxy, drive a sweep of clients through it, and report where the time went.
///
/// The shipped spec `demo`, with something changed. Everything runs on this machine's loopback and
/// is ended again, also on Ctrl-C. The report's path is the last line.
#[derive(Args)]
#[command(after_help = "Example:\n  krarup demo --quick --servers embedded")]
pub(crate) struct DemoArgs {
    /// The servers: `memcached` (three installed ones), `embedded` (three of `krarup cache`),
    /// `auto` (memcached if it is installed), or running ones as HOST:PORT,HOST:PORT
    #[arg(long, value_name = "WHICH", default_value = "auto", value_parser = Choice::parse)]
    servers: Choice,
    /// Fewer clients and shorter runs, once each: under 20 seconds
    #[arg(long)]
    quick: bool,
    /// Where the report goes; made anew, where nothing but a demo has been there
    #[arg(long, value_name = "DIR", default_value = "krarup-demo")]
    out: PathBuf,
    /// Numbers of clients [default: 2,8,32,64,128; quick: 2,16,64]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = whole::<u32>(1, 10_000))]
    clients: Vec<u32>,
    /// Runs of each cell [default: 8; quick: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, 100))]
    repetitions: Option<u32>,
    /// How long each run is measured [default: 400ms; quick: 600ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    seconds: Option<f64>,
    /// Worker slots of the proxy
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = whole::<u32>(1, u64::MAX))]
    workers: u32,
    /// Decides keys and values
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u32>)]
    seed: u32,
}

/// Which servers.
#[derive(Clone, Debug)]
enum Choice {
    Program(&'static str),
    Running(Vec<Address>),
}

impl Choice {
    fn parse(text: &str) -> Result<Self, Mistake> {
        Ok(match text {
            "auto" => Self::Program("auto"),
            "memcached" => Self::Program("memcached"),
            "embedded" => Self::Program("cache"),
            _ if !text.contains(':') => {
                let words = ["auto", "memcached", "embedded"].into_iter();
                let wrong = Mistake::none_of(format!("`{text}` are no servers"), text, words);
                let hint = format!("{}, or addresses: HOST:PORT,HOST:PORT", wrong.hint);
                return Err(Mistake { hint, ..wrong });
            }
            _ => Self::Running(text.split(',').map(str::parse).collect::<Result<_, _>>()?),
        })
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let source = source(args)?;
    // Only what an earlier demo has left is thrown away.
    let kept = |name: &str| fs::read(args.out.join(name)).ok();
    let is_other = match kept("spec.toml") {
        Some(spec) => kept(experiment::DEMO) != Some(spec),
        // One that was ended before its first trial has left empty folders.
        None => {
            let has_trials = |name: &&str| !folders(&args.out.join(name)).is_empty();
            args.out.join("spec.toml").exists() || ["trials", "failed"].iter().any(has_trials)
        }
    };
    if is_other {
        let what = format!("{} holds another experiment", args.out.display());
        return Err(Failure::usage(what)
            .hint("--out takes another directory; what `krarup run` has measured is not thrown away"));
    }
    experiment::carry_out(&source, &args.out, &RunManner::anew())
}

/// The shipped spec with the flags' values in it.
fn source(args: &DemoArgs) -> Result<SpecSource, Failure> {
    let wrong = |mistake| experiment::wrong("demo", mistake);
    let text = shipped::spec("demo").expect("the demo is shipped");
    let mut spec = Changes::of(text, "demo")?;
    if args.quick {
        spec.quick().map_err(wrong)?;
    }
    if !args.clients.is_empty() {
        spec.levels("clients", args.clients.clone().into()).map_err(wrong)?;
    }
    if let Some(repetitions) = args.repetitions {
        spec.set(&["repetitions", "min"], i64::from(repetitions));
    }
    if let Some(seconds) = args.seconds {
        if !(0.1..=3_600.0).contains(&seconds) {
            return Err(Failure::usage(format!("--seconds is {seconds}, and must be from 0.1 to 3600"))
                .hint("krarup demo --help shows every flag"));
        }
        spec.set(&["phases", "measure"], seconds);
    }
    spec.set(&["seed"], i64::from(args.seed));
    let workers = args.workers.to_string();
    spec.set(&["stations", "middleware", "flags"], ["--workers", &workers, "--sharded", "true"].to_vec());
    match &args.servers {
        Choice::Program(program) => spec.set(&["stations", "servers", "program"], *program),
        Choice::Running(addresses) => {
            for key in ["program", "count"] {
                spec.remove(&["stations", "servers", key]);
            }
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            spec.set(&["stations", "servers", "addresses"], addresses);
        }
    }
    SpecSource::of("demo", spec.source())
}
