//! `krarup analyze`: from what was recorded to tables; the same bytes for the same records.

use std::path::{Path, PathBuf};

use clap::Args;
use krarup_analysis::requests::{
    Cut, CutError, PartOfFile, PartOfRun, RequestEstimates, RequestPart, RowReader, merge_parts,
};
use krarup_model::calibrate::Span;
use krarup_record::file::rows::RowRun;
use krarup_report::document::{Column, Table, TableValue};
use krarup_report::{csv, markdown, requests};
use krarup_units::text::{count, parse_duration, parse_instant};
use krarup_units::{Mistake, Nanos, Seconds, Stamp, Unit};
use serde::Serialize;

use crate::failure::Failure;
use crate::folders::load_results;
use crate::form::OutputForm;
use crate::rows::runs;
use crate::share::WorkShare;
use crate::trials::HostClocks;
use crate::{demand, experiment, input, output, trials, written};

/// Analyse what was recorded: every request of a run from its rows, a directory of results from its
/// trials, or a trace.
///
/// Of rows: throughput, means and percentiles of each operation within the measured span, with
/// intervals by batch means; where the time went; Little's law at the station, its queue, its
/// workers and each server; where the run settled (MSER), drifts, and what does not add up. Where
/// the load generator's result (load.json) stands in the folder, what it measured is the measured
/// span. The files that one program wrote with --rows-every are one run. Of a directory that
/// `krarup run` made: results.json anew, from its trials alone.
///
/// Of a trace, as `krarup load --replay` reads it: how fast which commands come, how large values
/// are, how unevenly keys are used, and how much memory a cache needs for which hit ratio. With
/// --trace the same of rows that know their keys (`--rows-keys`).
///
/// Many rows may be read by many machines: each with --part, and --share for its share of the same
/// files, or --between for files that it alone has; then --merge, for the same bytes as of one
/// reading.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup proxy --servers 127.0.0.1:11212 --stats-dir run --rows\n  \
    krarup analyze run --warm-up 2s --cool-down 1s\n  \
    krarup analyze run/rows.parquet --json\n  \
    krarup analyze run --share 3/16 --part 3.json\n  \
    krarup analyze --merge 1.json 2.json 3.json\n  \
    krarup analyze trace.csv\n  \
    krarup analyze krarup-demo")]
pub(crate) struct AnalyzeArgs {
    /// rows.parquet, a folder with some in it, a directory of results, or a trace of lines
    #[arg(value_name = "PATH", required_unless_present = "merge")]
    path: Option<PathBuf>,
    /// What the rows ask, not how long it took: as of a trace of lines
    #[arg(long, conflicts_with_all = ["merge", "part", "warm_up", "cool_down", "window", "between"])]
    trace: bool,
    /// Leave out this much of the beginning
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warm_up: Option<Seconds>,
    /// Leave out this much of the end
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    cool_down: Option<Seconds>,
    /// How long a window is [default: 1s, or as much less as it takes for a run of thirty]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    window: Option<Seconds>,
    /// The run is from one instant to another, whatever the rows say: each nanoseconds since 1970,
    /// or like 2026-11-22T07:30:00Z
    #[arg(long, value_name = "FROM,TO", value_parser = wall_span)]
    between: Option<WallSpan>,
    /// Write what was counted into this file, as JSON, and no tables; `-` for stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["form", "html"])]
    part: Option<PathBuf>,
    /// Read only share I of N of the rows, into the file --part: any machine may read any of them,
    /// in any order
    #[arg(long, value_name = "I/N", requires = "part")]
    share: Option<WorkShare>,
    /// What these parts say together: the same bytes as one reading of all rows
    #[arg(long, value_name = "PART", num_args = 1.., conflicts_with_all = ["path", "part", "share", "between", "warm_up", "cool_down", "window"])]
    merge: Vec<PathBuf>,
    #[command(flatten)]
    form: OutputForm,
}

/// From one instant of the wall clock to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WallSpan {
    from: Nanos,
    to: Nanos,
}

fn wall_span(text: &str) -> Result<WallSpan, Mistake> {
    let hint = "write it like 2026-11-22T07:30:00Z,2026-11-22T08:30:00Z";
    let wrong = |why: &str| Mistake::new(format!("`{text}` {why}"), hint);
    let (from, to) = text.split_once(',').ok_or_else(|| wrong("are no two instants"))?;
    let (from, to) = (parse_instant(from)?, parse_instant(to)?);
    if from < to { Ok(WallSpan { from, to }) } else { Err(wrong("ends before it begins")) }
}

pub(crate) fn run(args: &AnalyzeArgs) -> Result<(), Failure> {
    let Some(path) = &args.path else { return show(&merged(&args.merge)?, args) };
    if path.join("spec.toml").is_file() {
        if args.form.is_asked() || args.cuts() || args.part.is_some() || args.trace {
            return Err(Failure::usage(format!(
                "{} is a directory of results: its spec says what was measured, and how it is printed is fixed",
                path.display()
            ))
            .hint("give a trial's folder for its rows; krarup report writes the page"));
        }
        return experiment::analyze(path);
    }
    if args.trace || demand::is_text(path) {
        if args.cuts() || args.part.is_some() {
            let why = format!("{} is a trace: all of it is read at once", path.display());
            return Err(Failure::usage(why).hint("cut the file itself, as `head -1000000` does"));
        }
        return demand::tell(path, &args.form);
    }
    if let Some(by) = trials::slower(path) {
        let what = "rows of a scaled testbed: times here are {by} times those of the report, rates 1/{by}";
        eprintln!("{}", output::talk(what.replace("{by}", &by.to_string())));
    }
    let measured = MeasuredSpan::of(path)?;
    if let Some(out) = &args.part {
        return write_part(out, args, &measured);
    }
    let mut all = Vec::new();
    for (name, rows) in runs(path)? {
        let read = RowReading::of(&name, rows, args, measured.of_rows(&name))?;
        all.push((name, read.end()?));
    }
    show(&all, args)
}

/// What was found of a run, with its name where there are several.
#[derive(Serialize)]
struct NamedEstimates<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(flatten)]
    found: &'a RequestEstimates,
}

/// The operations of all runs in one table, with the name of each run where there are several.
fn operations(all: &[(String, RequestEstimates)]) -> Table {
    let mut table = Table::default();
    for (name, found) in all {
        let mut own = requests::operations(found);
        if all.len() > 1 {
            own.columns.insert(0, Column::new("name", Unit::Text));
            own.rows.iter_mut().for_each(|row| row.insert(0, TableValue::from(name.as_str())));
        }
        table.columns = own.columns;
        table.rows.append(&mut own.rows);
    }
    table
}

/// Prints what was found of each run, in the form that was asked for.
fn show(all: &[(String, RequestEstimates)], args: &AnalyzeArgs) -> Result<(), Failure> {
    if args.form.json {
        let several = all.len() > 1;
        let named = all
            .iter()
            .map(|(name, found)| NamedEstimates { name: several.then_some(name.as_str()), found })
            .collect::<Vec<_>>();
        println!("{}", serde_json::to_string_pretty(&named).expect("an analysis is plain data"));
    }
    if args.form.csv {
        print!("{}", csv::table(&operations(all)));
        for (name, found) in all {
            for warning in &found.warnings {
                let next = warning.next_step();
                eprintln!("{}", output::talk(format_args!("warning: {name}: {warning} {next}")));
            }
        }
    }
    for (place, (name, found)) in all.iter().enumerate() {
        let title = format!("The requests in {name}");
        let document = requests::document(found, &title, &written::footer());
        if args.form.markdown {
            print!("{}", markdown::document(&document));
        } else if !args.form.json && !args.form.csv {
            print(found, &title);
        }
        if let Some(directory) = &args.form.html {
            // Several files of rows have a page each.
            let directory =
                if all.len() == 1 { directory.clone() } else { directory.join((place + 1).to_string()) };
            written::page(&document, &directory)?;
        }
    }
    Ok(())
}

/// Writes what was counted of a share of the rows.
fn write_part(out: &Path, args: &AnalyzeArgs, measured: &MeasuredSpan<'_>) -> Result<(), Failure> {
    written::writable(out)?;
    let share = args.share.unwrap_or(WorkShare::ALL);
    let mut parts = Vec::new();
    for (name, rows) in runs(measured.run)? {
        let span = measured.of_rows(&name);
        parts.push(RowReading::of(&name, rows, args, span)?.part(name, share)?);
    }
    let part = RequestPart::new(parts);
    written::part(out, &part)?;
    eprintln!("{} rows counted in {}; --merge needs all parts", count(part.rows() as f64), out.display());
    Ok(())
}

/// What parts say together.
fn merged(paths: &[PathBuf]) -> Result<Vec<(String, RequestEstimates)>, Failure> {
    let parts: Vec<RequestPart> = input::parts(paths, "krarup analyze …")?;
    merge_parts(parts).map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))
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
        self.warm_up.is_some() || self.cool_down.is_some() || self.window.is_some() || self.between.is_some()
    }
}

/// What the clients of a run measured.
struct MeasuredSpan<'a> {
    run: &'a Path,
    /// From one wall time to another, by the runner's clock: where they say so.
    span: Option<(Seconds, Seconds)>,
    clocks: HostClocks,
}

impl<'a> MeasuredSpan<'a> {
    fn of(run: &'a Path) -> Result<Self, Failure> {
        let clocks = HostClocks::of(run)?;
        let mut span: Option<(Seconds, Seconds)> = None;
        for load in clocks.loads(&load_results(run))? {
            let from = load.started_unix + load.config.warm_up;
            let to = from + load.seconds;
            // While all of them measured.
            span = Some(span.map_or((from, to), |(begun, ended)| (begun.max(from), ended.min(to))));
        }
        Ok(Self { run, span, clocks })
    }

    /// The same by the clock of who wrote the rows that are called so.
    fn of_rows(&self, name: &str) -> Option<(Seconds, Seconds)> {
        Some(self.clocks.there(self.span?, self.run, Path::new(name)))
    }
}

/// A run, and what of it counts.
struct RowReading {
    rows: RowRun,
    cut: Cut,
}

impl RowReading {
    fn of(
        name: &str,
        rows: RowRun,
        args: &AnalyzeArgs,
        measured: Option<(Seconds, Seconds)>,
    ) -> Result<Self, Failure> {
        let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{name}: {error}"));
        let rows = match args.between {
            Some(span) => rows.since(span.from),
            None => rows,
        };
        let run = match args.between {
            Some(span) => rows.span_between(span.from, span.to),
            None => rows.span().ok_or_else(|| {
                wrong(&"it has no row")
                    .hint("no request ended meanwhile: of several, name those that have rows")
            })?,
        };
        let measured = measured.filter(|_| args.between.is_none());
        let cut = cut(run, args, measured.map(|(from, to)| Span::between(from, to, rows.run().epoch_unix)));
        let cut =
            cut.map_err(|error| wrong(&error).hint("see --warm-up, --cool-down, --window and --between"))?;
        Ok(Self { rows, cut })
    }

    fn read(&self, share: WorkShare) -> Result<RowReader, Failure> {
        let mut reading = RowReader::new(self.cut)
            .of_clients(self.rows.of_clients())
            .of_sample(self.rows.sample().map(str::to_owned));
        let groups = share.among(self.rows.groups());
        self.rows
            .for_each_of(groups, |visit, servers| reading.see(visit, servers))
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(reading)
    }

    fn end(&self) -> Result<RequestEstimates, Failure> {
        Ok(self.read(WorkShare::ALL)?.end(self.rows.lost()))
    }

    fn part(&self, name: String, share: WorkShare) -> Result<PartOfRun, Failure> {
        let sums = self.read(share)?.sums();
        let files = self.rows.pieces(share.among(self.rows.groups()));
        let files = files.map(|piece| PartOfFile {
            path: piece.path.display().to_string(),
            epoch: piece.epoch,
            groups: piece.groups,
            from: piece.read.start,
            to: piece.read.end,
            lost: piece.lost,
        });
        Ok(PartOfRun {
            name,
            epoch: self.rows.run().epoch_unix,
            cut: self.cut,
            of_clients: self.rows.of_clients(),
            sample: self.rows.sample().map(str::to_owned),
            files: files.collect(),
            sums,
        })
    }
}

/// What was asked for; else what the clients measured, else everything.
fn cut(run: (Stamp, Stamp), args: &AnalyzeArgs, measured: Option<Span>) -> Result<Cut, CutError> {
    let window = args.window.map(Nanos::from_seconds);
    match measured.filter(|_| args.warm_up.is_none() && args.cool_down.is_none()) {
        Some(span) => Cut::between(run, (span.from, span.to), window),
        None => {
            let of = |time: Option<Seconds>| Nanos::from_seconds(time.unwrap_or(0.0));
            Cut::of(run, of(args.warm_up), of(args.cool_down), window)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_from_one_instant_to_a_later_one() {
        let hour = wall_span("2026-11-22T07:30:00Z,2026-11-22T08:30:00Z").unwrap();
        assert_eq!(hour.to.saturating_sub(hour.from), Nanos::from_secs(3_600));
        assert!(wall_span("7,7").is_err() && wall_span("7").is_err() && wall_span("x,y").is_err());
    }
}
