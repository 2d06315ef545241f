//! `krarup model`: networks solved, bounded, simulated, changed; rows made a model, and set beside
//! it.

use clap::{Args, Subcommand};
use krarup_model::form;
use krarup_report::csv;

use self::args::{
    BoundsArgs, CalibrateArgs, ExplainArgs, ModelCompareArgs, PredictArgs, SolveArgs, WhatifArgs,
};
use crate::failure::Failure;

mod answer;
mod args;
mod figures;
mod files;
mod jobs;
mod records;
mod shown;
mod simulate;

/// Say what a system of queues will do, and how far that can be believed.
///
/// A network file (TOML or JSON; `krarup model example` prints a commented one) is solved exactly
/// where theory allows; what is approximated is said, and what cannot be treated is refused by
/// name. Measured rows become a model by `calibrate`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup model example > network.toml && krarup model solve network.toml\n  \
    krarup model simulate network.toml --precision 0.005 --seed 7\n  \
    krarup model whatif network.toml --change workers.size=128 --change memcached.replicas=3\n  \
    krarup model calibrate runs/ --cores 8 && krarup model predict model.json --population 96,192 --workers 64\n  \
    krarup model calibrate rows.csv --unit ms --cores 8 --out model.json && krarup model predict model.json --population 96,192 --workers 64\n  \
    krarup model predict model.json --against-null all-rows.csv --unit ms && krarup model explain model.json --html page")]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Print a commented network file with every key
    #[command(after_help = "Example:\n  krarup model example > network.toml")]
    Example,
    /// Solve a network: throughput and response at every population, and each station
    Solve(SolveArgs),
    /// What no such network can exceed: capacities, bounds, the knee; and which station matters
    /// most
    Bounds(BoundsArgs),
    /// Simulate a network event by event, until the intervals are narrow enough
    Simulate(simulate::SimulateArgs),
    /// Make a model of measured rows (population, workers, throughput, response, wait)
    Calibrate(CalibrateArgs),
    /// Predict other configurations with a calibrated model, with intervals
    Predict(PredictArgs),
    /// Say what a calibrated model is, in words and drawings: curves, the knee, what limits next
    Explain(ExplainArgs),
    /// Change something and solve before and after
    Whatif(WhatifArgs),
    /// Set a network's solution or a calibrated model beside measured rows
    Compare(ModelCompareArgs),
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
        Job::Explain(args) => (jobs::explained(args)?, &args.output),
        Job::Whatif(args) => (jobs::changed(args)?, &args.output),
        Job::Compare(args) => (jobs::compared(args)?, &args.output),
    };
    if output.json {
        let mut value = answer.value.clone();
        // A value stands with what it rests on.
        if let Some(fields) = value.as_object_mut() {
            fields.entry("notes").or_insert_with(|| serde_json::json!(answer.notes));
        }
        // A part that went to stdout is all that stands there.
        if !value.is_null() {
            println!("{value:#}");
        }
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
                print!("{}", crate::output::table(&shown));
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
        crate::written::page(&shown::page(&answer), directory)?;
    }
    Ok(())
}
