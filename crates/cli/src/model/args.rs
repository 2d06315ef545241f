//! The flags of what `krarup model` does.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use krarup_model::solve::SolutionMethod;
use krarup_units::text::parse_bandwidth;
use krarup_units::{Mistake, share_of_percent};

use crate::flags::whole;
use crate::prometheus::SeriesArgs;

#[derive(Args)]
pub(super) struct Output {
    /// Print JSON with full precision instead of tables
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print CSV with full precision instead of tables
    #[arg(long)]
    pub(super) csv: bool,
    /// Also write a page with figures into this directory
    #[arg(long, value_name = "DIR")]
    pub(super) html: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum MethodArg {
    Auto,
    Exact,
    Linearizer,
    Schweitzer,
}

impl From<MethodArg> for SolutionMethod {
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
#[command(after_help = "Examples:\n  \
    krarup model example > network.toml && krarup model solve network.toml\n  \
    krarup model solve network.toml --csv\n  \
    krarup model solve network.toml --html page")]
pub(super) struct SolveArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE")]
    pub(super) network: PathBuf,
    /// How several closed classes are solved
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) method: MethodArg,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args)]
#[command(after_help = "Example:\n  krarup model bounds network.toml --population 10,100,1k")]
pub(super) struct BoundsArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE")]
    pub(super) network: PathBuf,
    /// Populations to bound [default: some up to the network's own]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = whole::<u64>(1, u64::MAX))]
    pub(super) population: Vec<u64>,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum UnitArg {
    S,
    Ms,
    Us,
}

impl UnitArg {
    pub(super) fn seconds(self) -> f64 {
        match self {
            Self::S => 1.0,
            Self::Ms => 1e-3,
            Self::Us => 1e-6,
        }
    }
}

/// How the times and the workers of a CSV file are meant.
#[derive(Args)]
pub(super) struct CsvArgs {
    /// Unit of times whose column does not name one
    #[arg(long, value_enum, default_value = "s")]
    pub(super) unit: UnitArg,
    /// Middlewares, where a column `wt` counts the workers of one
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = whole::<u64>(1, u64::MAX))]
    pub(super) middlewares: u64,
}

// What Prometheus is asked for is in seconds.
#[derive(Args)]
#[command(mut_arg("prometheus", |arg| arg.conflicts_with_all(["unit", "middlewares"])))]
#[command(after_help = "Examples:\n  \
    krarup model calibrate runs/ --cores 8\n  \
    krarup model calibrate rows.csv --unit ms --cores 8 --out model.json")]
pub(super) struct CalibrateArgs {
    /// CSV (population, workers, throughput, response, wait; times may end in _s, _ms, _us), or
    /// folders of runs: load.json (krarup load --json) and what krarup proxy, or krarup broker,
    /// --stats-dir wrote, or of many such; what `krarup run` wrote beside it of processors and
    /// links is a bound on X, and its trials without a middleware of ours are rows of what clients
    /// see
    #[arg(value_name = "ROWS", required_unless_present = "prometheus", conflicts_with = "prometheus")]
    pub(super) rows: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) csv: CsvArgs,
    #[command(flatten)]
    pub(super) series: SeriesArgs,
    /// Cores of a middleware [default: what its records say, or the column `cores` of the CSV]
    #[arg(long, value_name = "COUNT", value_parser = whole::<u32>(1, u64::MAX))]
    pub(super) cores: Option<u32>,
    /// Each middleware has a link of this bandwidth, such as 101Mbit/s: tell what it carries of the
    /// recorded requests, and predict no more than that
    #[arg(long, value_name = "BANDWIDTH", value_parser = bandwidth)]
    pub(super) link: Option<f64>,
    /// Where to write the model
    #[arg(long, value_name = "FILE", default_value = "model.json")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) output: Output,
}

/// The bandwidth of a link that carries something.
fn bandwidth(text: &str) -> Result<f64, Mistake> {
    match parse_bandwidth(text)? {
        bits if bits > 0.0 => Ok(bits),
        _ => Err(Mistake::new(format!("a link of `{text}` carries nothing"), "write it like 101 Mbit/s")),
    }
}

// Both are of the rows that the model is set beside.
#[derive(Args)]
#[command(mut_arg("unit", |arg| arg.requires("against_null")))]
#[command(mut_arg("middlewares", |arg| arg.requires("against_null")))]
#[command(after_help = "Examples:\n  \
    krarup model predict model.json --population 96,192 --workers 64\n  \
    krarup model predict model.json --against-null all-rows.csv --unit ms")]
pub(super) struct PredictArgs {
    /// A model that `calibrate` wrote
    #[arg(value_name = "FILE")]
    pub(super) model: PathBuf,
    /// Numbers of clients
    #[arg(long, value_name = "N,…", value_delimiter = ',', required_unless_present = "against_null", value_parser = whole::<usize>(1, u64::MAX))]
    pub(super) population: Vec<usize>,
    /// Numbers of workers, all middlewares together; without, each client has one, as in the rows
    /// of a model of what clients see, or of Prometheus
    #[arg(long, value_name = "M,…", value_delimiter = ',', requires = "population", value_parser = whole::<usize>(1, u64::MAX))]
    pub(super) workers: Vec<usize>,
    /// Set the model beside six that know nothing of middlewares, fitted to the same rows: on these
    /// rows, of which those calibrated on are left out; without any, on each calibration row with
    /// all models fitted to the others
    #[arg(long, value_name = "ROWS", num_args = 0..)]
    pub(super) against_null: Option<Vec<PathBuf>>,
    #[command(flatten)]
    pub(super) csv: CsvArgs,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args)]
#[command(after_help = "Example:\n  krarup model explain model.json --html page")]
pub(super) struct ExplainArgs {
    /// A model that `calibrate` wrote
    #[arg(value_name = "FILE")]
    pub(super) model: PathBuf,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup model whatif network.toml --change workers.size=128\n  \
    krarup model whatif network.toml --change memcached.replicas=3 --percentiles 50,99.9")]
pub(super) struct WhatifArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE")]
    pub(super) network: PathBuf,
    /// memcached.servers=4, .speed=2, .replicas=3; workers.size=128; get.population=300,
    /// .think=1ms, .rate=5000, .mix=9:1
    #[arg(long, value_name = "NAME.KEY=VALUE", required = true)]
    pub(super) change: Vec<String>,
    /// How several closed classes are solved
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) method: MethodArg,
    /// Also these percentiles of the response times, by simulation of both
    #[arg(long, value_name = "P,…", value_delimiter = ',', default_value = "50,90,99", value_parser = percentile)]
    pub(super) percentiles: Vec<f64>,
    /// What the simulation's randomness comes from
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = crate::flags::count::<u64>)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) output: Output,
}

/// One of the percentiles that are asked for, as a share.
pub(super) fn percentile(text: &str) -> Result<f64, Mistake> {
    let wrong = || Mistake::new(format!("`{text}` is no percentile"), "above 0 and below 100, as 99.9");
    let percent = text.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent < 100.0);
    percent.map(share_of_percent).ok_or_else(wrong)
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup model compare network.toml measured.csv --unit ms\n  \
    krarup model compare model.json runs/")]
pub(super) struct ModelCompareArgs {
    /// A network (TOML or JSON), or a model that `calibrate` wrote
    #[arg(value_name = "FILE")]
    pub(super) model: PathBuf,
    /// Measured rows: as for calibrate; beside a network, CSV with population, throughput and
    /// response suffices
    #[arg(value_name = "ROWS", required = true)]
    pub(super) rows: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) csv: CsvArgs,
    #[command(flatten)]
    pub(super) output: Output,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_share_that_is_written() {
        for (text, share) in [("50", 0.5), ("99.9", 0.999), ("99.99", 0.9999), ("2.5", 0.025)] {
            assert_eq!(percentile(text), Ok(share));
        }
        for text in ["0", "100", "-1", "nan", "p99", ""] {
            assert!(percentile(text).is_err_and(|why| why.hint.contains("99.9")), "{text}");
        }
    }
}
