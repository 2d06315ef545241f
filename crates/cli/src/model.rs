//! `krarup model`: networks solved, bounded, simulated, changed; rows made a model, and set beside it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use krarup_model::form;
use krarup_model::solve::Method;
use krarup_model::table::Table;
use krarup_report::figures::Figure;
use krarup_report::{Page, csv, text};

use crate::failure::Failure;

mod figures;
mod files;
mod jobs;
mod records;
mod shown;
mod simulate;

/// Say what a system of queues will do, and how far that can be believed.
///
/// A network file (TOML or JSON; `krarup model example` prints a commented one) is solved exactly where theory allows; what is
/// approximated is said, and what cannot be treated is refused by name. Measured rows become a model by `calibrate`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup model example > network.toml && krarup model solve network.toml\n  \
    krarup model simulate network.toml --precision 0.005 --seed 7\n  \
    krarup model whatif network.toml --change workers.size=128 --change memcached.replicas=3\n  \
    krarup model calibrate runs/ --cores 8 && krarup model predict model.json --population 96,192 --workers 64\n  \
    krarup model calibrate rows.csv --unit ms --cores 8 --out model.json && krarup model predict model.json --population 96,192 --workers 64")]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Print a commented network file with every key
    Example,
    /// Solve a network: throughput and response at every population, and each station
    Solve(SolveArgs),
    /// What no such network can exceed: capacities, bounds, the knee; and which station matters most
    Bounds(BoundsArgs),
    /// Simulate a network event by event, until the intervals are narrow enough
    Simulate(simulate::SimulateArgs),
    /// Make a model of measured rows (population, workers, throughput, response, wait)
    Calibrate(CalibrateArgs),
    /// Predict other configurations with a calibrated model, with intervals
    Predict(PredictArgs),
    /// Change something and solve before and after
    Whatif(WhatifArgs),
    /// Set a network's solution or a calibrated model beside measured rows
    Compare(CompareArgs),
}

#[derive(Args)]
struct Output {
    /// Print JSON with full precision instead of tables
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV with full precision instead of tables
    #[arg(long)]
    csv: bool,
    /// Also write a page with figures into this directory
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum MethodArg {
    Auto,
    Exact,
    Linearizer,
    Schweitzer,
}

impl From<MethodArg> for Method {
    fn from(method: MethodArg) -> Self {
        match method {
            MethodArg::Auto => Self::Auto,
            MethodArg::Exact => Self::Exact,
            MethodArg::Linearizer => Self::Linearizer,
            MethodArg::Schweitzer => Self::Schweitzer,
        }
    }
}

#[derive(Args)]
struct SolveArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE")]
    network: PathBuf,
    /// How several closed classes are solved
    #[arg(long, value_enum, default_value = "auto")]
    method: MethodArg,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct BoundsArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE")]
    network: PathBuf,
    /// Populations to bound [default: some up to the network's own]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    population: Vec<u64>,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum UnitArg {
    S,
    Ms,
    Us,
}

impl UnitArg {
    fn seconds(self) -> f64 {
        match self {
            Self::S => 1.0,
            Self::Ms => 1e-3,
            Self::Us => 1e-6,
        }
    }
}

/// How the times and the workers of a CSV file are meant.
#[derive(Args)]
struct CsvArgs {
    /// Unit of times whose column does not name one
    #[arg(long, value_enum, default_value = "s")]
    unit: UnitArg,
    /// Middlewares, where a column `wt` counts the workers of one
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    middlewares: u64,
}

#[derive(Args)]
struct CalibrateArgs {
    /// CSV (population, workers, throughput, response, wait; times may end in _s, _ms, _us), or folders of runs: load.json (krarup
    /// load --json) and what krarup proxy --stats-dir wrote, or of many such
    #[arg(value_name = "ROWS", required = true)]
    rows: Vec<PathBuf>,
    #[command(flatten)]
    csv: CsvArgs,
    /// Cores of a middleware [default: what its records say, or the column `cores` of the CSV]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,
    /// Also tell what a link of this bandwidth carries of the recorded requests, such as 101Mbit/s
    #[arg(long, value_name = "BANDWIDTH", value_parser = form::parse_bandwidth)]
    link: Option<f64>,
    /// Seed of the prediction intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to write the model
    #[arg(long, value_name = "FILE", default_value = "model.json")]
    out: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct PredictArgs {
    /// A model that `calibrate` wrote
    #[arg(value_name = "FILE")]
    model: PathBuf,
    /// Numbers of clients
    #[arg(long, value_name = "N,…", value_delimiter = ',', required = true)]
    population: Vec<usize>,
    /// Numbers of workers, all middlewares together
    #[arg(long, value_name = "M,…", value_delimiter = ',', required = true)]
    workers: Vec<usize>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct WhatifArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE")]
    network: PathBuf,
    /// memcached.servers=4, .speed=2, .replicas=3; workers.size=128; get.population=300, .think=1ms, .rate=5000, .mix=9:1
    #[arg(long, value_name = "NAME.KEY=VALUE", required = true)]
    change: Vec<String>,
    /// How several closed classes are solved
    #[arg(long, value_enum, default_value = "auto")]
    method: MethodArg,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct CompareArgs {
    /// A network (TOML or JSON), or a model that `calibrate` wrote
    #[arg(value_name = "FILE")]
    model: PathBuf,
    /// Measured rows: as for calibrate; beside a network, CSV with population, throughput and response suffices
    #[arg(value_name = "ROWS", required = true)]
    rows: Vec<PathBuf>,
    #[command(flatten)]
    csv: CsvArgs,
    #[command(flatten)]
    output: Output,
}

/// Everything a job has to say: tables for people, a value for programs, figures for the page.
struct Answer {
    title: String,
    notes: Vec<String>,
    tables: Vec<Table>,
    /// Tables with every row, where `tables` shows a selection.
    full: Option<Vec<Table>>,
    figures: Vec<Figure>,
    value: serde_json::Value,
}

pub(crate) fn run(args: &ModelArgs) -> Result<(), Failure> {
    let (answer, output) = match &args.job {
        Job::Example => {
            print!("{}", form::EXAMPLE);
            return Ok(());
        }
        Job::Solve(args) => (jobs::solved(args)?, &args.output),
        Job::Bounds(args) => (jobs::bounded(args)?, &args.output),
        Job::Simulate(args) => (simulate::simulated(args)?, &args.output),
        Job::Calibrate(args) => (jobs::calibrated(args)?, &args.output),
        Job::Predict(args) => (jobs::predicted(args)?, &args.output),
        Job::Whatif(args) => (jobs::changed(args)?, &args.output),
        Job::Compare(args) => (jobs::compared(args)?, &args.output),
    };
    if output.json {
        let mut value = answer.value.clone();
        // A value stands with what it rests on.
        if let Some(fields) = value.as_object_mut() {
            fields.entry("notes").or_insert_with(|| serde_json::json!(answer.notes));
        }
        println!("{value:#}");
    } else {
        for (index, table) in
            answer.full.as_ref().filter(|_| output.csv).unwrap_or(&answer.tables).iter().enumerate()
        {
            if index > 0 {
                println!();
            }
            let shown = shown::shown(table);
            if output.csv {
                print!("{}", csv::table(&shown));
            } else {
                println!("{}", shown.title);
                print!("{}", text::table(&shown));
            }
        }
        // CSV has no place for them.
        for note in &answer.notes {
            if output.csv {
                eprintln!("note: {note}");
            } else {
                println!("note: {note}");
            }
        }
    }
    if let Some(directory) = &output.html {
        let page = crate::written::write(&Page::of(&shown::page(&answer)), directory)
            .map_err(|error| Failure::run(format!("{}: {error}", directory.display())))?;
        eprintln!("page: {}", page.display());
    }
    Ok(())
}
