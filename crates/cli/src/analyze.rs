//! `krarup analyze`: from what was recorded to tables; the same bytes for the same records.

use std::path::{Path, PathBuf};

use clap::Args;
use krarup_analysis::requests::{Cut, RequestEstimates, RowReader};
use krarup_load::LoadResult;
use krarup_model::calibrate::Span;
use krarup_record::file::rows::RowFile;
use krarup_report::{Page, csv, markdown, requests};
use krarup_units::text::parse_duration;
use krarup_units::{Nanos, Seconds, Stamp};

use crate::failure::Failure;
use crate::folders::holding;
use crate::form::OutputForm;
use crate::{experiment, input, output, written};

/// Analyse what was recorded: every request of a run from its rows, or a directory of results from
/// its trials.
///
/// Of rows: throughput, means and percentiles of each operation within the measured span, with
/// intervals by batch means; where the time went; Little's law at the station, its queue, its
/// workers and each server; where the run settled (MSER), drifts, and what does not add up. Where
/// the load generator's result (load.json) stands in the folder, what it measured is the measured
/// span. Of a directory that `krarup run` made: results.json anew, from its trials alone.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup proxy --servers 127.0.0.1:11212 --stats-dir run --rows\n  \
    krarup analyze run --warm-up 2s --cool-down 1s\n  \
    krarup analyze run/rows.parquet --json\n  \
    krarup analyze krarup-demo")]
pub(crate) struct AnalyzeArgs {
    /// rows.parquet, a folder with some in it, or a directory of results
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Leave out this much of the beginning
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warm_up: Option<Seconds>,
    /// Leave out this much of the end
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    cool_down: Option<Seconds>,
    /// How long a window is [default: 1s, or as much less as it takes for a run of thirty]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    window: Option<Seconds>,
    #[command(flatten)]
    form: OutputForm,
}

pub(crate) fn run(args: &AnalyzeArgs) -> Result<(), Failure> {
    if args.path.join("spec.toml").is_file() {
        if args.form.is_asked() || args.cuts() {
            return Err(Failure::usage(format!(
                "{} is a directory of results: its spec says what was measured, and how it is printed is fixed",
                args.path.display()
            ))
            .hint("give a trial's folder for its rows; krarup report writes the page"));
        }
        return experiment::analyze(&args.path);
    }
    let measured = measured(&args.path)?;
    let mut all = Vec::new();
    for file in files(&args.path)? {
        let found = read(&file, args, measured)?;
        all.push((file, found));
    }
    if args.form.json {
        let all: Vec<&RequestEstimates> = all.iter().map(|(_, found)| found).collect();
        println!("{}", serde_json::to_string_pretty(&all).expect("an analysis is plain data"));
    }
    for (place, (file, found)) in all.iter().enumerate() {
        let title = format!("The requests in {}", file.display());
        let document = requests::document(found, &title, &written::footer());
        if args.form.csv {
            print!("{}", csv::table(&requests::operations(found)));
        } else if args.form.markdown {
            print!("{}", markdown::document(&document));
        } else if !args.form.json {
            print(found, &title);
        }
        if let Some(directory) = &args.form.html {
            // Several files of rows have a page each.
            let directory =
                if all.len() == 1 { directory.clone() } else { directory.join((place + 1).to_string()) };
            let page = written::write(&Page::of(&document), &directory)
                .map_err(|error| Failure::run(error.to_string()))?;
            eprintln!("page: {}", page.display());
        }
    }
    Ok(())
}

fn print(found: &RequestEstimates, title: &str) {
    println!("{}\n", output::prose(format_args!("{title}: {}", requests::span(found))));
    let tables = [
        Some(requests::operations(found)),
        Some(requests::parts(found)),
        requests::servers(found),
        Some(requests::laws(found)),
        Some(requests::settled(found)),
    ];
    for table in tables.iter().flatten() {
        println!("{}", output::table(table));
    }
    for warning in &found.warnings {
        println!("{}", output::prose(format_args!("warning: {warning} {}", warning.next_step())));
    }
}

impl AnalyzeArgs {
    fn cuts(&self) -> bool {
        self.warm_up.is_some() || self.cool_down.is_some() || self.window.is_some()
    }
}

/// The files of rows: the path itself, or those in the folder.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let found: Vec<PathBuf> = holding(path, ROWS)?.into_iter().map(|folder| folder.join(ROWS)).collect();
    if found.is_empty() {
        return Err(Failure::usage(format!("{} holds no {ROWS}", path.display())).hint(
            "krarup proxy --stats-dir DIR --rows writes one, and so does krarup load --rows FILE; a directory of results has a spec.toml",
        ));
    }
    Ok(found)
}

const ROWS: &str = "rows.parquet";

/// What the clients beside the rows measured, from one wall time to another: where they say so.
fn measured(path: &Path) -> Result<Option<(Seconds, Seconds)>, Failure> {
    let mut files = vec![path.join("load.json")];
    files.extend(
        (1..).map(|number| path.join(format!("clients/{number}.json"))).take_while(|file| file.is_file()),
    );
    let mut span: Option<(Seconds, Seconds)> = None;
    for file in files.iter().filter(|file| file.is_file()) {
        let load: LoadResult = input::json(file)?;
        let from = load.started_unix + load.config.warm_up;
        let to = from + load.seconds;
        // While all of them measured.
        span = Some(span.map_or((from, to), |(begun, ended)| (begun.max(from), ended.min(to))));
    }
    Ok(span)
}

fn read(
    file: &Path,
    args: &AnalyzeArgs,
    measured: Option<(Seconds, Seconds)>,
) -> Result<RequestEstimates, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
    let mut rows = RowFile::open(file).map_err(|error| {
        Failure::usage(error.to_string())
            .hint("rows are what krarup proxy --rows and krarup load --rows write")
    })?;
    let run = rows.span().ok_or_else(|| wrong(&"it has no row"))?;
    let cut = cut(run, args, measured.map(|(from, to)| Span::between(from, to, rows.run().epoch_unix)));
    let cut = cut.map_err(|error| wrong(&error).hint("see --warm-up, --cool-down and --window"))?;
    let mut reading = RowReader::new(cut).of_clients(rows.of_clients());
    rows.for_each(|visit, servers| reading.see(visit, servers)).map_err(|error| wrong(&error))?;
    Ok(reading.end(rows.lost()))
}

/// What was asked for; else what the clients measured, else everything.
fn cut(
    run: (Stamp, Stamp),
    args: &AnalyzeArgs,
    measured: Option<Span>,
) -> Result<Cut, krarup_analysis::requests::CutError> {
    let window = args.window.map(Nanos::from_seconds);
    match measured.filter(|_| args.warm_up.is_none() && args.cool_down.is_none()) {
        Some(span) => Cut::between(run, (span.from, span.to), window),
        None => {
            let of = |time: Option<Seconds>| Nanos::from_seconds(time.unwrap_or(0.0));
            Cut::of(run, of(args.warm_up), of(args.cool_down), window)
        }
    }
}
