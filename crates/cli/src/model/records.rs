//! Measured rows from files: plain CSV, or folders with what a middleware of ours and `krarup load`
//! wrote of a run.
//!
//! ```text
//! run/load.json           krarup load --json; of several generators run/clients/1.json and so on
//! run/…                   krarup proxy --stats-dir run [--rows], or krarup broker
//! run/a/…  run/b/…        the same of several middlewares before which the clients were
//! DIR/trials/…/0/…        what `krarup run` made; beside load.json what was in use meanwhile:
//!                         cpu.json, links.json, monitor/. Where no middleware of ours was in it,
//!                         it is a row of what its clients saw. Only those that the report counts
//!                         are taken, or one that is named itself
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use krarup_analysis::predict::{busiest_machine, link_use, process_use};
use krarup_analysis::trial::{ProcessCpu, SystemPart};
use krarup_lab::plan::Plan;
use krarup_lab::spec::Spec;
use krarup_lab::store::ResultsDirectory;
use krarup_load::LoadResult;
use krarup_load::result::OperationResult;
use krarup_load::schedule::Arrivals;
use krarup_model::calibrate::{
    self, BoundedResource, CalibrationRow, ClientMeasurements, Middlewares, ResourceUse, ResponsePercentiles,
    Span, hold_table,
};
use krarup_model::table::ResultTable;
use krarup_record::WindowRow;
use krarup_record::file::{holds, load, log, windows};
use krarup_record::holds::HoldRow;
use krarup_record::summary::{DATABASE, MiddlewareSummary};

use super::files::failed;
use crate::experiment::SpecSource;
use crate::failure::Failure;
use crate::folders::{holding, load_results};
use crate::input::{self, json};
use crate::load::merged_of;
use crate::reporting::middleware_cores;
use crate::trials::HostClocks;
use crate::{output, rows, trials};

/// What files of measurements hold.
pub(super) struct MeasurementFiles {
    /// A row for each line of CSV, and for each run.
    pub(super) rows: Vec<CalibrationRow>,
    /// Hold times by busy workers, of runs that recorded them.
    pub(super) holds: Option<ResultTable>,
    /// The windows of all runs that lie within what their clients measured.
    pub(super) windows: Vec<WindowRow>,
    /// Middlewares of each run that they recorded; 0 where there is none.
    pub(super) middlewares: usize,
    /// Whether there are trials on a scaled testbed, of which windows are left out.
    pub(super) scaled: bool,
    /// Whether nothing between clients and servers was recorded, and rows are of what clients see.
    pub(super) at_clients: bool,
}

/// Reads files and folders, in their order. `unit` and `middlewares` are for CSV.
pub(super) fn read_all(paths: &[PathBuf], unit: f64, middlewares: u64) -> Result<MeasurementFiles, Failure> {
    let mut rows = Vec::new();
    let (mut seen, mut windows) = (Vec::new(), Vec::new());
    let (mut at_clients, mut scaled) = (false, false);
    // How many middlewares recorded a run.
    let mut numbers: BTreeSet<usize> = BTreeSet::new();
    for path in paths {
        if path.is_dir() {
            for run in runs(path)? {
                let records = holding(&run, "summary.json")?;
                // A trial with a middleware of ours has its records: none is there.
                let none = records.is_empty() && trials::is_trial(&run);
                at_clients |= none;
                numbers.extend((!none).then_some(records.len()));
                scaled |= trials::slower(&run).is_some();
                rows.push(row(&run, (!none).then_some(&*records), &mut seen, &mut windows)?);
            }
        } else {
            let read = calibrate::read_csv(&input::text(path)?, unit, middlewares);
            rows.extend(read.map_err(|error| failed(path, &error))?);
        }
    }
    if at_clients && !numbers.is_empty() {
        return Err(Failure::usage(
            "some runs were recorded by a middleware of ours, and others by clients alone",
        )
        .hint("the one and the other are models of different things: calibrate each by itself"));
    }
    if numbers.len() > 1 {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let what = format!("runs were recorded by different numbers of middlewares: {}", numbers.join(", "));
        return Err(Failure::usage(what).hint(
            "what one carries is no limit of two: calibrate the folders of each number by themselves",
        ));
    }
    let middlewares = numbers.last().copied().unwrap_or(0);
    let holds = (!seen.is_empty()).then(|| hold_table(&seen, middlewares));
    Ok(MeasurementFiles { rows, holds, windows, middlewares, scaled, at_clients })
}

/// The runs in a folder: itself, or those in it, however deep, by name. Of the trials of an
/// experiment these are the ones that its report counts.
fn runs(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut runs = holding(folder, "load.json")?;
    runs.extend(holding(folder, "clients/1.json")?);
    runs.sort();
    runs.retain(|run| !run.ancestors().take_while(|inner| *inner != folder).any(is_aside));
    if runs.is_empty() {
        return Err(Failure::usage(format!("{} holds no run", folder.display())).hint(
            "a run is a folder with load.json (krarup load --json) and what krarup proxy, or krarup broker, --stats-dir wrote",
        ));
    }
    if runs == [folder] {
        return Ok(runs);
    }
    let mut counted = BTreeSet::new();
    for experiment in runs.iter().filter_map(|run| experiment_of(run)).collect::<BTreeSet<_>>() {
        counted.extend(counted_trials(&experiment)?);
    }
    let found = runs.len();
    runs.retain(|run| {
        experiment_of(run).is_none() || run.canonicalize().is_ok_and(|run| counted.contains(&run))
    });
    if runs.is_empty() {
        let what = format!("{} holds no run that the report of its experiment counts", folder.display());
        return Err(Failure::usage(what).hint("name a trial's own folder, and it is taken all the same"));
    }
    if runs.len() < found {
        let left_out = found - runs.len();
        eprintln!(
            "{}",
            output::talk(format_args!(
                "left out, as in the report: {left_out} of {found} runs (of another plan, of the anchor, or of repetitions whose anchor differs)"
            ))
        );
    }
    Ok(runs)
}

/// The experiment of which a run is a trial, where it is written down which trials belong to it.
fn experiment_of(run: &Path) -> Option<PathBuf> {
    let run = run.canonicalize().ok()?;
    let experiment = run.ancestors().nth(3)?;
    let is_trial = run.starts_with(experiment.join("trials"))
        && ["spec.toml", "identities.json"].iter().all(|file| experiment.join(file).is_file());
    is_trial.then(|| experiment.to_owned())
}

/// The trials of an experiment that its report counts: those that belong to its plan, without
/// repetitions whose anchor differs.
fn counted_trials(experiment: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let spec = spec_of(experiment)?;
    let (plan, store) = (Plan::of(&spec), ResultsDirectory::at(experiment));
    let identities = trials::identities(&plan, &store)?;
    let anchor = trials::anchor(&spec, &plan, &store)?;
    let left_out = anchor.map(|anchor| anchor.left_out).unwrap_or_default();
    let mut counted = BTreeSet::new();
    for cell in &plan.cells {
        for repetition in (0..spec.repetitions.most()).filter(|repetition| !left_out.contains(repetition)) {
            counted.extend(store.complete(cell, repetition, &identities).map(|(folder, _)| folder));
        }
    }
    Ok(counted)
}

/// The spec that an experiment keeps.
fn spec_of(experiment: &Path) -> Result<Spec, Failure> {
    let path = experiment.join("spec.toml");
    let (name, text) = (path.display().to_string(), input::text(&path)?);
    Ok(SpecSource::read_by(Spec::parse_recorded, &name, text)?.spec)
}

/// Processors of the middleware that a scaled trial stands for, where its spec is there: what the
/// middleware itself could see is its share of one here.
fn cores_of_scale(run: &Path) -> Result<Option<u32>, Failure> {
    let Some(experiment) = experiment_of(run) else { return Ok(None) };
    Ok(Some(middleware_cores(&spec_of(&experiment)?, 0)).filter(|cores| *cores > 0))
}

/// Whether this is where an experiment keeps trials that failed, or were disturbed, or the one that
/// it runs: they stand beside those that count.
fn is_aside(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "failed" || name == "unfinished")
        && folder.parent().is_some_and(|experiment| experiment.join("spec.toml").is_file())
}

/// A larger share of failed requests is told.
const FEW_FAILED: f64 = 0.01;

/// X of all requests, as N and R are of all: a load's result counts those that ended well. Where
/// none did it is 0.
fn throughput(overall: &OperationResult) -> f64 {
    let well = overall.count.saturating_sub(overall.failed());
    if well == 0 { 0.0 } else { overall.throughput.0 * (overall.count as f64 / well as f64) }
}

/// One run as a row; its hold times go to `holds`, its windows to `windows`. Where no middleware
/// has records it is what its clients saw.
fn row(
    run: &Path,
    records: Option<&[PathBuf]>,
    holds: &mut Vec<HoldRow>,
    windows: &mut Vec<WindowRow>,
) -> Result<CalibrationRow, Failure> {
    let files = load_results(run);
    let path = &files[0];
    let clocks = HostClocks::of(run)?;
    let mut results = clocks.loads(&files)?;
    let result = if files.len() > 1 { merged_of(&results, &files)? } else { results.swap_remove(0) };
    if !result.config.classes.is_empty() {
        return Err(Failure::usage(format!("{}: the load had several classes of clients", path.display()))
            .hint("models are calibrated with one class of clients: measure each alone"));
    }
    let Arrivals::Closed(think) = result.config.arrivals else {
        return Err(Failure::usage(format!("{}: the load was open", path.display()))
            .hint("models of clients and workers are calibrated with clients that wait for their answers: leave --rate out"));
    };
    let clients = ClientMeasurements {
        population: u64::from(result.config.connections) * u64::from(result.config.pipeline),
        throughput: throughput(&result.overall),
        response: result.overall.response_time.mean,
        think: think.mean(),
    };
    let failing = result.overall.failed();
    if failing as f64 > FEW_FAILED * result.overall.count as f64 {
        let (run, all) = (run.display(), result.overall.count);
        eprintln!(
            "{}",
            output::talk(format_args!("{run}: {failing} of {all} requests failed: X and R are of all"))
        );
    }
    let from = result.started_unix + result.config.warm_up;
    let mut middlewares = Middlewares::default();
    let (slower, begun) = (trials::slower(run), windows.len());
    for folder in records.unwrap_or_default() {
        let span = clocks.there((from, from + result.seconds), run, folder);
        add(folder, span, &mut middlewares, windows)?;
        if slower.is_some() {
            // Tables of what was measured second by second are of the slower machine.
            windows.truncate(begun);
            continue;
        }
        let read = load(&folder.join("holds.csv"), holds::read);
        holds.extend(read.map_err(|error| Failure::usage(error.to_string()))?);
    }
    if slower.is_some() {
        middlewares.cores = cores_of_scale(run)?;
    }
    let place = run.display().to_string();
    let row = match records {
        Some(_) => middlewares.row(&place, "", &clients),
        // twemproxy has one thread.
        None => clients.row(&place, (!trials::foreign_counts(run)?.is_empty()).then_some(1)),
    };
    let row = row.map_err(|error| failed(run, &error))?;
    let times = &result.overall.response_time;
    let percentiles = ResponsePercentiles { p50: times.p50, p90: times.p90, p99: times.p99 };
    let row = CalibrationRow {
        percentiles: (times.p50 > 0.0).then_some(percentiles),
        drift: drift(&result),
        uses: uses(run, &result)?,
        ..row
    };
    Ok(row.scaled_back(slower.unwrap_or(1.0)))
}

/// What was in use while the clients measured: of the load generator by itself, and of processors
/// and links what `krarup run` wrote beside it.
fn uses(run: &Path, result: &LoadResult) -> Result<Vec<ResourceUse>, Failure> {
    let generator =
        ResourceUse { resource: BoundedResource::Generator, share: result.generator.busiest_thread };
    let mut uses = vec![generator];
    let mut processes = trials::processes(run)?;
    // Each trial's servers have addresses of their own: by their places they are the same.
    let is_server = |process: &ProcessCpu| process.station == SystemPart::Server && process.name != DATABASE;
    let number = processes.iter().filter(|process| is_server(process)).count();
    for (server, place) in processes.iter_mut().filter(|process| is_server(process)).zip(1..) {
        // What one of three carries is no limit of one alone.
        let of = if number > 1 { format!(" of {number}") } else { String::new() };
        server.name = format!("server {place}{of}");
    }
    let known = processes.iter().filter(|process| process.cores > 0.0 && result.seconds > 0.0);
    uses.extend(known.map(|process| {
        process_use(process.station, &process.name, process.busy / result.seconds / process.cores)
    }));
    uses.extend(trials::links(run)?.iter().map(link_use));
    uses.extend(busiest_machine(&trials::watches(run)?).map(ResourceUse::machine));
    Ok(uses)
}

/// Throughput of the second half of the measured part over that of the first, less 1; none of fewer
/// than eight whole seconds, whose halves say nothing of each other.
fn drift(result: &LoadResult) -> Option<f64> {
    let whole = result
        .series
        .iter()
        .filter(|row| row.measured && row.operation == "all" && row.class.is_empty() && row.length > 0.9);
    let counts: Vec<f64> = whole.map(|row| row.count as f64 / row.length).collect();
    if counts.len() < 8 {
        return None;
    }
    let (first, second) = counts.split_at(counts.len() / 2);
    let mean = |half: &[f64]| half.iter().sum::<f64>() / half.len() as f64;
    Some(mean(second) / mean(first) - 1.0).filter(|drift| drift.is_finite())
}

/// Adds what one middleware recorded while the clients measured: every request where the rows of
/// all were kept, else whole windows, which count all.
fn add(
    folder: &Path,
    (from, to): (f64, f64),
    middlewares: &mut Middlewares,
    windows: &mut Vec<WindowRow>,
) -> Result<(), Failure> {
    let MiddlewareSummary { run: summary, .. } = json(&folder.join("summary.json"))?;
    middlewares.workers += summary.workers.map_or(0, u64::from);
    middlewares.unlimited |= summary.workers.is_none();
    middlewares.free_when_answered = summary.free_when_answered;
    middlewares.cores = summary.cores.or(middlewares.cores);
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(error.to_string());
    let log = load(&folder.join("histograms.hlog"), log::read).map_err(|error| wrong(&error))?;
    let all = load(&folder.join("windows.csv"), windows::read).map_err(|error| wrong(&error))?;
    let span = Span::between(from, to, log.run.epoch_unix);
    let begun = windows.len();
    windows.extend(all.into_iter().filter(|window| span.covers(window)));
    let rows = rows::of_program(folder)?.filter(|rows| {
        let span = Span::between(from, to, rows.run().epoch_unix);
        // Those of an earlier run stay in the folder where this one has written none.
        let is_of_run = rows.span().is_none_or(|(begun, ended)| begun <= span.to && span.from <= ended);
        is_of_run && rows.sample().is_none() && rows.lost() == 0
    });
    let Some(rows) = rows else {
        middlewares.add_windows(&windows[begun..], span);
        return Ok(());
    };
    let span = Span::between(from, to, rows.run().epoch_unix);
    rows.for_each(|visit, servers| middlewares.add_visit(visit, servers, span)).map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use krarup_lab::identities::Identities;
    use krarup_lab::identity::Identity;
    use krarup_lab::plan::anchor_run;
    use krarup_load::memtier::convert::{ForeignRun, load_result};
    use krarup_load::memtier::read::read;
    use krarup_model::calibrate::check_rows;
    use krarup_record::file::rows::RowFileWriter;
    use krarup_record::file::{self, RunMetadata};
    use krarup_record::summary::RunSummary;
    use krarup_record::{Operation, Recorder, RecorderSettings, Visit};
    use krarup_units::{Nanos, Stamp};

    use super::*;

    const EXPERIMENT: &str = r#"
title = "t"
anchor = { levels = { clients = 1 } }
[[factor]]
name = "clients"
levels = [1, 2]
[stations.servers]
program = "cache"
[stations.clients]
program = "load"
flags = ["--connections", "$clients"]
"#;

    #[test]
    fn trials_that_the_report_leaves_out_are_runs_where_they_are_named_themselves() {
        let folder = std::env::temp_dir().join(format!("krarup-counted-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let store = ResultsDirectory::at(&folder);
        let of = |text: &str| {
            let spec = Spec::parse(text, "spec.toml").unwrap();
            (Plan::of(&spec), spec)
        };
        let trial = |text: &str, cell: usize, repetition: u32, throughput: f64| {
            let (plan, spec) = of(text);
            let cell = &plan.cells[cell];
            let manifest = serde_json::json!({
                "identity": Identity::of(&spec, cell), "levels": cell.named_levels(),
                "repetition": repetition, "attempt": 0, "started_unix": 0.0, "commands": [],
                "throughput": throughput, "response": 0.01, "failed": null,
            });
            fs::write(store.begin().unwrap().join("load.json"), "{}").unwrap();
            store.end(cell, &serde_json::from_value(manifest).unwrap()).unwrap()
        };
        let (plan, spec) = of(EXPERIMENT);
        fs::write(folder.join("spec.toml"), EXPERIMENT).unwrap();
        Identities::meant_by(&store, &spec, &plan).write(&store).unwrap();
        let counted = [(0, 0), (0, 1), (1, 1)].map(|(cell, run)| trial(EXPERIMENT, cell, run, 100.0));
        let before = trial(&EXPERIMENT.replace("\"$clients\"", "\"$clients\", \"--verify\""), 1, 0, 100.0);
        let dropped = trial(&EXPERIMENT.replace("[1, 2]", "[1, 2, 4]"), 2, 0, 100.0);
        // The third repetition was slower, a fourth is not asked for.
        for (block, throughput) in [(0, 100.0), (1, 100.0), (2, 50.0)] {
            trial(EXPERIMENT, 0, anchor_run(block, 0), throughput);
        }
        trial(EXPERIMENT, 0, 2, 50.0);
        trial(EXPERIMENT, 1, 3, 100.0);
        assert_eq!(runs(&folder).unwrap(), counted);
        assert_eq!(runs(before.parent().unwrap()).unwrap(), counted[2..]);
        assert_eq!(runs(&before).unwrap(), [before]);
        assert!(runs(dropped.parent().unwrap()).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    /// 64 clients, answered in 64 ms: 1,000 requests a second, of which 200 are refused.
    #[test]
    fn requests_that_failed_are_in_throughput_as_in_clients_and_response_time() {
        let folder = std::env::temp_dir().join(format!("krarup-failed-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let printed =
            r#"{"ALL STATS": {"Totals": {"Count": 1000, "Ops/sec": 800.0, "Average Latency": 64.0}}}"#;
        let run = ForeignRun { connections: 64, ..ForeignRun::default() };
        let mut load = load_result(&read(printed).unwrap(), run).unwrap();
        load.overall.errors.insert("server_error".to_owned(), 200);
        assert_eq!((load.overall.throughput.0, throughput(&load.overall)), (800.0, 1_000.0));
        fs::write(folder.join("load.json"), serde_json::to_string(&load).unwrap()).unwrap();
        let row = row(&folder, None, &mut Vec::new(), &mut Vec::new()).unwrap();
        assert_eq!((row.throughput, row.population, row.client_response), (1_000.0, 64, Some(0.064)));
        let broken: Vec<_> = check_rows(&[row], 0.03).into_iter().filter(|law| !law.holds).collect();
        assert!(broken.is_empty(), "{broken:?}");
        load.overall.errors.insert("server_error".to_owned(), 1_000);
        assert_eq!(throughput(&load.overall), 0.0);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// As where a folder is measured into once more without rows, or the disk was full meanwhile.
    #[test]
    fn rows_of_an_earlier_run_in_the_folder_are_left_aside() {
        let folder = std::env::temp_dir().join(format!("krarup-earlier-rows-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let begun_at = |unix: u64| RunMetadata { epoch_unix: Nanos::from_secs(unix) };
        let at = |millis: u64| Stamp(millis * 1_000_000);
        let received = Visit::at(at(1_000), Operation::Get);
        let visit = |millis: u64| Visit { replied: at(1_000 + millis), ..received };
        let rows_file = fs::File::create(folder.join(rows::ROWS)).unwrap();
        let mut earlier = RowFileWriter::new(rows_file, begun_at(1_795_000_000)).unwrap();
        earlier.push(&visit(7), &[]).unwrap();
        earlier.finish().unwrap();
        let mut recorder = Recorder::new(RecorderSettings::default()).unwrap();
        recorder.record(&visit(2), &[]);
        file::save_all(&folder, &recorder, begun_at(1_795_003_600)).unwrap();
        let run = RunSummary::of(&recorder, (at(0), at(3_000)), Some(8));
        let summary = MiddlewareSummary { run, servers: Vec::new() };
        fs::write(folder.join("summary.json"), serde_json::to_string(&summary).unwrap()).unwrap();
        let clients = ClientMeasurements { population: 4, throughput: 500.0, response: 0.008, think: 0.0 };
        // The clients of this run, and of the earlier one, whose rows are there.
        for (from, expected) in [(1_795_003_600.0, 0.002), (1_795_000_000.0, 0.007)] {
            let mut middlewares = Middlewares::default();
            add(&folder, (from, from + 3.0), &mut middlewares, &mut Vec::new()).unwrap();
            let row = middlewares.row("run", "", &clients).unwrap();
            assert_eq!((row.workers, row.response), (8, expected));
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_scaled_trial_has_the_processors_that_it_stands_for() {
        let folder = std::env::temp_dir().join(format!("krarup-cores-{}", std::process::id()));
        let trial = folder.join("trials/clients=1/0");
        fs::create_dir_all(&trial).unwrap();
        let spec = "title = \"t\"\n[scale]\nby = 11\n[stations.servers]\nprogram = \"cache\"\ncpu = 1\n\
            [stations.middleware]\nprogram = \"proxy\"\ncpu = 8\n[stations.clients]\nprogram = \"load\"\ncpu = 1\n";
        fs::write(folder.join("spec.toml"), spec).unwrap();
        assert_eq!(cores_of_scale(&trial).unwrap(), None, "it is not known whose trial it is");
        fs::write(folder.join("identities.json"), "{}").unwrap();
        assert_eq!(cores_of_scale(&trial).unwrap(), Some(8));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn trials_that_do_not_count_are_no_runs_however_deep_they_are() {
        let folder = std::env::temp_dir().join(format!("krarup-runs-{}", std::process::id()));
        let place = |within: &str| {
            let run = folder.join(within);
            fs::create_dir_all(&run).unwrap();
            fs::write(run.join("load.json"), "{}").unwrap();
            run
        };
        let counted = [place("other/failed/run"), place("studies/june/trials/clients=1/0")];
        let failed = place("studies/june/failed/clients=1/0-1");
        place("studies/june/unfinished");
        fs::write(folder.join("studies/june/spec.toml"), "").unwrap();
        assert_eq!(runs(&folder).unwrap(), counted);
        // The user may ask for them.
        assert_eq!(runs(&folder.join("studies/june/failed")).unwrap(), [failed]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
