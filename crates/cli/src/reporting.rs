//! From the trials of a directory to its results, and from these to the report's files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use krarup_analysis::anchor::{self, AnchorRuns};
use krarup_analysis::design;
use krarup_analysis::missing;
use krarup_analysis::predict::{self, WantedPredictions};
use krarup_analysis::relative;
use krarup_analysis::results::{Environment, Results};
use krarup_analysis::saturation;
use krarup_analysis::so_far::AwaitedCell;
use krarup_analysis::trial::Trial;
use krarup_analysis::warning::{Concern, Warning};
use krarup_lab::campaign::CampaignEnd;
use krarup_lab::plan::{Plan, PlannedCell, is_anchor_run};
use krarup_lab::spec::{Repetitions, Spec};
use krarup_lab::store::{Manifest, ResultsDirectory};
use krarup_record::scaled::ScaledTestbed;
use krarup_report::Page;
use krarup_report::document::Document;
use krarup_units::Seconds;

use crate::failure::Failure;
use crate::telling::run_in_words;
use crate::trials::KnownTrials;
use crate::written::RESULTS;
use crate::{export, history, input, output, recorded_headroom, sheet, trials, written};

pub(crate) const ENVIRONMENT: &str = "environment.json";

/// Trials with their folders, and what the anchor says of them.
type PooledTrials = (Vec<(PathBuf, Trial)>, Option<AnchorRuns>);

/// A directory of results with what it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct RecordedExperiment<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) plan: &'a Plan,
    pub(crate) store: &'a ResultsDirectory,
}

/// What else is written beside the page, and what else stands in it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Also<'a> {
    pub(crate) latex: bool,
    pub(crate) markdown: bool,
    pub(crate) export: Option<&'a Path>,
    /// Older directories of results, for the history.
    pub(crate) against: &'a [PathBuf],
}

/// A report that was written.
pub(crate) struct WrittenReport {
    /// Its page, as it stands in the file.
    pub(crate) html: String,
    given_up: usize,
}

impl WrittenReport {
    /// # Errors
    /// Where trials were given up.
    pub(crate) fn judged(&self) -> Result<(), Failure> {
        match self.given_up {
            0 => Ok(()),
            trials => Err(Failure::run(format!("{trials} trials were given up"))),
        }
    }
}

impl RecordedExperiment<'_> {
    /// Results of what is complete, without what its rows say of headroom; none where nothing is.
    pub(crate) fn so_far(&self, known: &mut KnownTrials) -> Result<Option<Results>, Failure> {
        let (with_folders, anchor) = self.pooled(known)?;
        let trials: Vec<Trial> = with_folders.into_iter().map(|(_, trial)| trial).collect();
        if trials.is_empty() { Ok(None) } else { self.results(&trials, anchor).map(Some) }
    }

    /// The trials that count, and what the anchor says.
    fn pooled(&self, known: &mut KnownTrials) -> Result<PooledTrials, Failure> {
        let Self { spec, plan, store } = *self;
        let mut with_folders = known.with_folders(spec, plan, store)?;
        let anchor = trials::anchor(spec, plan, store)?;
        if let Some(anchor) = &anchor {
            with_folders.retain(|(_, trial)| !anchor.left_out.contains(&trial.repetition));
        }
        Ok((with_folders, anchor))
    }

    /// What these trials amount to.
    fn results(&self, trials: &[Trial], anchor: Option<AnchorRuns>) -> Result<Results, Failure> {
        let spec = self.spec;
        let environment: Environment = input::json(&self.store.directory().join(ENVIRONMENT))?;
        let mut results = krarup_analysis::sweep::summarise(&spec.title, environment, trials)
            .map_err(|error| Failure::run(error.to_string()))?;
        if spec.scale.is_some()
            && let Some(kept) = trials::kept_scale(self.store.directory())?
        {
            results.scaled_by(kept.testbed);
        }
        results.middleware_cores = middleware_cores(spec, results.environment.cores);
        results.ended_early = self.ended_early()?;
        let concern = |warning| Concern { levels: None, warning };
        results.concerns.extend(anchor.iter().flat_map(AnchorRuns::warnings).map(concern));
        if spec.anchor.is_some() {
            let repetitions = trials.iter().map(|trial| trial.repetition);
            results.concerns.extend(anchor::lacking(anchor.as_ref(), repetitions).map(concern));
        }
        results.anchor = anchor;
        if let Some(base) = &spec.base {
            let levels = base.get_ref().iter().map(|(name, level)| (name.clone(), level.0.clone()));
            results.relative = relative::relative(&results.cells, &levels.collect());
        }
        if !spec.effects_by.is_empty() {
            let by: Vec<&str> = spec.effects_by.iter().map(|name| name.get_ref().as_str()).collect();
            results.studies = design::studies(&results.cells, &by);
        }
        if let Some(wanted) = &spec.predictions {
            let wanted = WantedPredictions {
                workers: wanted.workers.clone(),
                population: spec.population.clone(),
                cells: wanted.cells as usize,
            };
            results.predictions = predict::predictions(&results.cells, results.middleware_cores, &wanted);
            saturation::judge_workers(&mut results.verdicts, &results.cells, &results.predictions);
        }
        Ok(results)
    }

    /// Whether a cell was run less often than it could have been because its runs agreed, those
    /// that an anchor leaves out of the figures among them.
    fn ended_early(&self) -> Result<bool, Failure> {
        let Self { spec, plan, store } = *self;
        if spec.repetitions.until.is_none() {
            return Ok(false);
        }
        let identities = trials::identities(plan, store)?;
        let ended = |cell: &PlannedCell| {
            let runs = (0..spec.repetitions.most()).filter_map(|run| store.complete(cell, run, &identities));
            let runs: Vec<_> = runs.map(|(_, one)| (one.throughput, one.response)).collect();
            ends_early(&spec.repetitions, &runs)
        };
        Ok(plan.cells.iter().any(ended))
    }

    /// What cannot be read any more: manifests, and what `known` says of the rest of a trial.
    fn unread(&self, known: &KnownTrials) -> impl Iterator<Item = Concern> {
        let of_manifest = |(file, why): (PathBuf, io::Error)| {
            // What a reader of JSON calls it says nothing to who looks for the file.
            let why = if why.get_ref().is_some() { "it is damaged".to_owned() } else { why.to_string() };
            (file.display().to_string(), why)
        };
        let of_trial = |(folder, why): &(PathBuf, Failure)| {
            let (why, its) = (why.message(), format!("{}/", folder.display()));
            let folder = folder.strip_prefix(self.store.directory()).unwrap_or(folder);
            (folder.display().to_string(), why.strip_prefix(&its).unwrap_or(&why).to_owned())
        };
        let unread = self.store.unread(&self.plan.cells, self.spec.repetitions.most());
        let mut unread: Vec<(String, String)> = unread.into_iter().map(of_manifest).collect();
        unread.extend(known.unread.iter().map(of_trial));
        unread.into_iter().map(|(file, why)| Concern { levels: None, warning: Warning::Unread { file, why } })
    }

    /// What the plan wants of each cell.
    pub(crate) fn awaited(&self) -> Vec<AwaitedCell> {
        let cell = |cell: &PlannedCell| AwaitedCell {
            name: cell.name(),
            factors: cell.named_levels(),
            runs: self.spec.repetitions.min,
        };
        self.plan.cells.iter().map(cell).collect()
    }

    /// The levels of each attempt at one of the plan's trials that failed, and was not merely run
    /// again because others had used the machine.
    fn failed(&self) -> Result<Vec<Vec<(String, String)>>, Failure> {
        let identities = trials::identities(self.plan, self.store)?;
        let is_planned = |manifest: &Manifest| {
            let mut cells = self.plan.cells.iter().filter(|cell| cell.named_levels() == manifest.levels);
            !is_anchor_run(manifest.repetition) && cells.any(|cell| identities.holds(cell, manifest))
        };
        let failures = self.store.failures().into_iter().map(|(_, manifest)| manifest);
        let failures =
            failures.filter(|manifest| manifest.disturbed.is_none() || manifest.failed != manifest.disturbed);
        Ok(failures.filter(is_planned).map(|manifest| manifest.levels).collect())
    }

    /// Analyses what is complete, beside older results, and writes the results down.
    pub(crate) fn analyse(&self, ended: &CampaignEnd, against: &[PathBuf]) -> Result<Results, Failure> {
        let (spec, out) = (self.spec, self.store.directory());
        let mut known = KnownTrials::default();
        let (with_folders, anchor) = self.pooled(&mut known)?;
        let headroom = recorded_headroom::reported(&with_folders);
        let trials: Vec<Trial> = with_folders.into_iter().map(|(_, trial)| trial).collect();
        if trials.is_empty() {
            let unread = known.unread.first().map(|(_, why)| why.message());
            let last = ended.given_up.first().map(|(_, _, why)| why.clone()).or(unread);
            let last = last.unwrap_or_else(|| "none was run".to_owned());
            return Err(Failure::run(format!("no trial is complete: {last}"))
                .hint(format!("{} keeps what each station said", out.join("failed").display())));
        }
        let mut results = self.results(&trials, anchor)?;
        results.concerns.extend(self.unread(&known));
        missing::note(&mut results, &self.awaited(), &self.failed()?, &spec.population);
        results.headroom = headroom;
        results.history = history::beside(&results, out, against)?;
        results.sheet = sheet::graded(&results, spec, self.plan, self.store)?;
        print(&results);
        let text = serde_json::to_string_pretty(&results).expect("results are plain data");
        self.store.write(RESULTS, text.as_bytes()).map_err(unwritable_in(self.store.directory()))?;
        Ok(results)
    }

    /// Analyses what is complete, and writes the report.
    pub(crate) fn report(&self, ended: &CampaignEnd, also: Also<'_>) -> Result<WrittenReport, Failure> {
        let Self { spec, plan, store } = *self;
        let out = store.directory();
        let unwritable = unwritable_in(self.store.directory());
        for (cell, repetition, why) in &ended.given_up {
            eprintln!("given up: {cell}, {}: {why}", run_in_words(*repetition));
        }
        let results = self.analyse(ended, also.against)?;
        let document = document(&results);
        let page = Page::of(&document);
        let earlier = fs::read_to_string(out.join("report.html")).unwrap_or_default();
        let file = written::write(&page, out).map_err(unwritable)?;
        if also.markdown {
            let text = krarup_report::markdown::document(&document);
            store.write("report.md", text.as_bytes()).map_err(unwritable)?;
        }
        let tables = out.join("tables");
        remove_tables(&earlier, &page, &tables).map_err(unwritable)?;
        if also.latex {
            fs::create_dir_all(&tables).map_err(unwritable)?;
            for (name, text) in krarup_report::latex::files(&document) {
                written::save(&tables.join(name), &text).map_err(unwritable)?;
            }
        }
        if let Some(folder) = also.export {
            export::write(spec, plan, store, &results, folder)?;
        }
        println!("{}", file.canonicalize().unwrap_or(file).display());
        Ok(WrittenReport { html: page.html, given_up: ended.given_up.len() })
    }
}

/// Removes the tables for LaTeX of what an earlier page had and this one has not.
fn remove_tables(earlier: &str, page: &Page, tables: &Path) -> io::Result<()> {
    for (stem, _) in written::only_before(earlier, page).filter(|(_, is_data)| !is_data) {
        let file = tables.join(format!("{stem}.tex"));
        if file.is_file() {
            fs::remove_file(file)?;
        }
    }
    Ok(())
}

/// Whether the runs of a cell, X and R of each, ended before there were most of them because they
/// agreed.
fn ends_early(repetitions: &Repetitions, runs: &[(f64, Seconds)]) -> bool {
    let between = repetitions.min as usize..repetitions.most() as usize;
    repetitions.until.is_some() && between.contains(&runs.len()) && repetitions.agree(runs)
}

/// Processors that models are told the middleware can use: what the spec gives it, of a `machine`
/// with so many (0: not known).
pub(crate) fn middleware_cores(spec: &Spec, machine: u32) -> u32 {
    let given = spec.stations.middleware.as_ref().and_then(|station| station.cpu);
    match given.map(|cpu| cpu.ceil() as u32) {
        None => machine,
        // By a scale it is what its own machine has.
        Some(given) if spec.scale.is_some() || machine == 0 => given,
        Some(given) => given.min(machine),
    }
}

/// That a directory cannot be written, with what the system said.
pub(crate) fn unwritable_in(out: &Path) -> impl Fn(io::Error) -> Failure + Copy {
    move |error| Failure::run(format!("{} cannot be written: {error}", out.display()))
}

/// The report of these results.
pub(crate) fn document(results: &Results) -> Document {
    krarup_report::sweep::document(results, &written::footer())
}

fn print(results: &Results) {
    let scaled = results.scaled.as_ref().map(ScaledTestbed::in_words);
    if let Some(scaled) = &scaled {
        println!("{}\n", output::prose(scaled));
    }
    println!("{}", output::table(&krarup_report::sweep::table(results)));
    if let Some(sheet) = &results.sheet {
        println!("{}", output::table(&krarup_report::sheet::table(sheet)));
        sheet.steps.iter().for_each(|step| println!("{}", output::prose(krarup_report::sheet::origin(step))));
        krarup_report::sheet::notes(sheet).iter().for_each(|note| println!("{}", output::prose(note)));
        println!();
    }
    if let Some(course) = krarup_report::sweep::course(results) {
        println!("{}", output::table(&course));
    }
    if let Some(history) = &results.history {
        println!("{}", output::table(&krarup_report::history::changes(history)));
        for sentence in history.sentences() {
            println!("{}", output::prose(sentence));
        }
        println!();
    }
    for verdict in &results.verdicts {
        let next = verdict.next_step();
        println!("{}\n", output::prose(format_args!("{}: {verdict}\n  next: {next}", verdict.at.workload)));
    }
    for finding in krarup_report::sweep::model_findings(results) {
        println!("{}\n", output::prose(format_args!("{}: {}", finding.about, finding.text)));
    }
    for note in krarup_report::sweep::all_notes(results) {
        if scaled.as_ref() == Some(&note.text) {
            continue; // it stands above all
        }
        println!("{}\n", output::prose(note));
    }
}

#[cfg(test)]
mod tests {
    use krarup_report::document::{Block, Section, Table};

    use super::*;

    #[test]
    fn tables_for_latex_that_only_an_earlier_report_had_go() {
        let tables = std::env::temp_dir().join(format!("krarup-tables-{}", std::process::id()));
        let page = |names: &[&str]| {
            let table = |name: &&str| Block::Table(Table { name: (*name).to_owned(), ..Table::default() });
            let sections = vec![Section { title: "all".into(), blocks: names.iter().map(table).collect() }];
            Page::of(&Document { sections, ..Document::default() })
        };
        let (earlier, now) = (page(&["a", "b"]), page(&["a"]));
        remove_tables(&earlier.html, &now, &tables).unwrap();
        let files = ["a.tex", "b.tex", "notes.tex"].map(|name| tables.join(name));
        fs::create_dir_all(&tables).unwrap();
        files.iter().for_each(|file| fs::write(file, "% a table").unwrap());
        remove_tables(&earlier.html, &now, &tables).unwrap();
        assert_eq!(files.map(|file| file.exists()), [true, false, true]);
        fs::remove_dir_all(tables).unwrap();
    }

    #[test]
    fn models_are_told_the_processors_that_the_middleware_can_use() {
        let cores = |head: &str, cpu: &str, machine| {
            let text = format!(
                "title = \"t\"\n{head}\n[stations.servers]\nprogram = \"cache\"\ncpu = 1\n\
                 [stations.middleware]\nprogram = \"proxy\"\n{cpu}\n\
                 [stations.clients]\nprogram = \"load\"\ncpu = 1\n"
            );
            middleware_cores(&Spec::parse(&text, "spec.toml").unwrap(), machine)
        };
        assert_eq!(cores("", "", 2), 2);
        assert_eq!([2, 1, 0].map(|machine| cores("", "cpu = 1", machine)), [1, 1, 1]);
        assert_eq!([4, 1].map(|machine| cores("", "cpu = 1.5", machine)), [2, 1]);
        assert_eq!(cores("[scale]\nby = 8", "cpu = 4", 2), 4);
    }

    #[test]
    fn runs_that_agree_before_there_are_most_of_them_end_early() {
        let until = Some("cov(throughput) <= 4 %".parse().unwrap());
        let repetitions = Repetitions { min: 2, max: Some(4), until };
        for (rates, ends) in [
            (&[1_000.0][..], false),
            (&[1_000.0, 1_010.0], true),
            // More are to come, or it was interrupted.
            (&[1_000.0, 1_500.0], false),
            (&[1_000.0, 1_500.0, 1_000.0, 1_500.0], false),
        ] {
            let runs: Vec<_> = rates.iter().map(|rate| (*rate, 0.01)).collect();
            assert_eq!(ends_early(&repetitions, &runs), ends, "{rates:?}");
        }
        assert!(!ends_early(&Repetitions { until: None, ..repetitions }, &[(1.0, 1.0); 3]));
    }
}
