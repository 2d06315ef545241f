//! Results under the names that course handouts ask for: `client_NN.log`, `mw_NN.log`,
//! `processed.log`, and a README that says which is which.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use krarup_analysis::results::Results;
use krarup_lab::plan::Plan;
use krarup_lab::spec::Spec;
use krarup_lab::store::ResultsDirectory;
use krarup_lab::testbed::trial::result_files;
use krarup_load::LoadResult;
use krarup_load::memtier::{output, parse};
use krarup_report::{csv, sweep};

use crate::failure::Failure;
use crate::{input, trials, written};

/// Writes every complete trial that can be read and the table of all cells into `folder`.
///
/// A trial's clients are tables as memtier_benchmark prints them, or what another program wrote;
/// its middlewares what each did second by second and operation by operation.
pub(crate) fn write(
    spec: &Spec,
    plan: &Plan,
    store: &ResultsDirectory,
    results: &Results,
    folder: &Path,
) -> Result<(), Failure> {
    let unwritable =
        |error: io::Error| Failure::run(format!("{} cannot be written: {error}", folder.display()));
    let mut readme = String::from(
        "client_NN.log  what load generator NN measured, as memtier_benchmark prints it; of another program what it wrote\n\
         mw_NN.log      what middleware NN did, a row for each second and operation (CSV; krarup's docs/reference/records.md names the columns)\n\
         processed.log  the table of all cells (CSV), from which the figures are made\n\nFolder, levels, and the command lines of the trial:\n",
    );
    let identities = trials::identities(plan, store)?;
    let memtier = parse(&[]).map_err(Failure::run)?;
    let left_out = results.anchor.as_ref().map_or(&[][..], |anchor| &anchor.left_out);
    for cell in &plan.cells {
        for repetition in 0..spec.repetitions.most() {
            let Some((trial, manifest)) = store.complete(cell, repetition, &identities) else { continue };
            let files = result_files(&trial, cell.count(&spec.stations.clients, 1));
            let loads = files.iter().map(|file| input::json(file)).collect::<Result<Vec<LoadResult>, _>>();
            let loads = match loads {
                Ok(loads) => loads,
                Err(why) => {
                    why.warn("its trial is left out");
                    continue;
                }
            };
            let name = format!("{}/{repetition}", cell.folder);
            let place = folder.join(&name);
            fs::create_dir_all(&place).map_err(unwritable)?;
            for (number, load) in (1..).zip(loads) {
                let log = place.join(format!("client_{number:02}.log"));
                // More than was read from it stands in what another program wrote.
                let written = trial.join("said").join(number.to_string());
                if written.is_file() {
                    fs::copy(written, log).map_err(unwritable)?;
                    continue;
                }
                written::save(&log, &output::table(&memtier, &[load])).map_err(unwritable)?;
            }
            for number in 1.. {
                let windows = trial.join("middleware").join(number.to_string()).join("windows.csv");
                if !windows.is_file() {
                    break;
                }
                fs::copy(windows, place.join(format!("mw_{number:02}.log"))).map_err(unwritable)?;
            }
            let levels: Vec<String> =
                cell.levels.iter().map(|(name, level)| format!("{name} {level}")).collect();
            let _ = writeln!(readme, "\n{name}: {}", levels.join(", "));
            let is_counted = results.cells.iter().any(|known| {
                let mut runs = known.repetitions.iter().map(|run| run.repetition);
                known.factors == cell.named_levels() && runs.any(|run| run == repetition)
            });
            if !is_counted {
                let why = match left_out.contains(&repetition) {
                    true => "the anchor says that the machine was another than in most repetitions",
                    false => "what else it recorded cannot be read",
                };
                let _ = writeln!(readme, "  not in processed.log: {why}");
            }
            if let Some(by) = manifest.slower {
                let _ = writeln!(
                    readme,
                    "  {by} times slower than the machines it stands for: its logs are as measured, processed.log is scaled back"
                );
            }
            for command in &manifest.commands {
                let _ = writeln!(readme, "  {command}");
            }
        }
    }
    fs::create_dir_all(folder).map_err(unwritable)?;
    let table = csv::table(&sweep::table(results));
    written::save(&folder.join("processed.log"), &table).map_err(unwritable)?;
    written::save(&folder.join("README"), &readme).map_err(unwritable)
}
