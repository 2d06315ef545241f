//! `krarup compare`: two measurements side by side, and whether one is worse than what is allowed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::{StringValueParser, TypedValueParser};
use krarup_analysis::caution::Caution;
use krarup_analysis::compare::{self, Comparison, compare};
use krarup_analysis::other_programs::{self, ProgramRuns, RunChange};
use krarup_analysis::outcomes::OutcomeShares;
use krarup_analysis::pairs::partner;
use krarup_analysis::regression::{
    MEASURES, RegressionAnswer, RegressionLimit, RegressionVerdict, judge_results, verdict,
};
use krarup_analysis::results::Results;
use krarup_lab::store::ResultsDirectory;
use krarup_report::{comparison, csv, markdown};
use krarup_units::Mistake;
use serde::Serialize;

use crate::failure::Failure;
use crate::flags::WithWords;
use crate::folders::holding;
use crate::form::OutputForm;
use crate::written::RESULTS;
use crate::{input, output, written};

/// Compare two measurements, cell by cell and over all cells, with intervals: directories of
/// results, or what other programs wrote.
///
/// Of others are understood: the JSON of memtier_benchmark, hyperfine and `krarup load`, k6's
/// summary, criterion's folder of a benchmark or of all, pgbench's text, and a table with commas
/// whose columns are measures. A folder holds a file for each run.
///
/// Where an interval covers no change, it says so: no conclusion.
///
/// Exit code with --fail-if: 0 where every change is within its limit, 1 where one is beyond, 3
/// where the data cannot tell, OTHER lacks what BASE has, or more of its requests fail or miss, 2
/// where it could not be asked or the answer not written. Without it: 0 or 2.
#[derive(Args)]
#[command(after_help = "Examples:\n  krarup compare before after --html comparison\n  \
    krarup compare before after --fail-if 'throughput < -5%' --fail-if 'p99 > 10%'\n  \
    krarup compare old.json new.json --fail-if 'time > 2%' --power 0.9")]
pub(crate) struct CompareArgs {
    /// What is compared with: a directory that `krarup run` made, or a file or folder of runs
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// What is compared
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    /// A change that is too much, as `throughput < -5%`; may be given several times. Of results:
    /// throughput, response, p99; of other programs: what their table shows
    #[arg(long, value_name = "LIMIT", value_parser = limit(), hide_possible_values = true)]
    fail_if: Vec<RegressionLimit>,
    /// With which probability the repetitions that are named would decide
    #[arg(long, value_name = "SHARE", default_value = "0.8", requires = "fail_if", value_parser = power)]
    power: f64,
    #[command(flatten)]
    form: OutputForm,
}

/// A limit, of which a shell completes how it begins.
fn limit() -> WithWords<impl TypedValueParser<Value = RegressionLimit>> {
    let parser = StringValueParser::new().try_map(|text| text.parse());
    WithWords { parser, words: MEASURES.to_vec() }
}

fn power(text: &str) -> Result<f64, Mistake> {
    match text.parse::<f64>() {
        Ok(power) if power > 0.5 && power < 1.0 => Ok(power),
        _ => {
            Err(Mistake::new(format!("`{text}` is no power"), "write a share above 0.5 and below 1, as 0.8"))
        }
    }
}

/// Worse by more than is allowed.
const WORSE: u8 = 1;
/// The data cannot tell.
const NO_CONCLUSION: u8 = 3;

/// One side.
enum Measured {
    Results(Box<Results>),
    Runs(ProgramRuns),
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let (base_name, other_name) = names(&args.base, &args.other);
    let sides = (measured(&args.base)?, measured(&args.other)?);
    let (answers, lacking, failures, hits) = match &sides {
        (Measured::Results(base), Measured::Results(other)) => {
            let found = compare((&base_name, base), (&other_name, other));
            let answers = if found.cells.is_empty() {
                Vec::new()
            } else {
                judge_results(&args.fail_if, (base, other), args.power).map_err(of_flag)?
            };
            results(args, &found, &answers)?;
            let lacking = base.cells.iter().filter(|&cell| partner((base, cell), other).is_none());
            let lacking: Vec<String> = lacking.map(|cell| cell.levels.in_words()).collect();
            (answers, lacking, compare::failures(base, other), compare::hit_ratios(base, other))
        }
        (Measured::Runs(base), Measured::Runs(other)) => {
            let answers =
                other_programs::judge_runs(&args.fail_if, (base, other), args.power).map_err(of_flag)?;
            let found = other_programs::changes(base, other);
            if found.is_empty() {
                return Err(nothing_in_common(&base_name, &other_name));
            }
            runs(args, base, &found, &answers, (&base_name, &other_name))?;
            let failures = other_programs::failures(base, other);
            let hits = other_programs::hit_ratios(base, other);
            let cautions = [Caution::of_failures(&failures), Caution::of_hits(&hits)];
            for caution in cautions.iter().flatten() {
                eprintln!("{}", output::talk(caution.to_string()));
            }
            let alone = other_programs::one_sided(base, other);
            if !alone.is_empty() {
                let what = format!("Not compared, as only one side has it: {}", alone.join(", "));
                eprintln!("{}", output::talk(what));
            }
            let lacking = alone.into_iter().filter(|cell| base.cells.contains_key(*cell));
            (answers, lacking.map(str::to_owned).collect(), failures, hits)
        }
        _ => {
            let what = format!("only one of {base_name} and {other_name} is what `krarup run` wrote");
            return Err(Failure::usage(what).hint("compare two of one kind"));
        }
    };
    if args.fail_if.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let doubts = [
        Doubt {
            cells: lacking,
            what: format!("what {other_name} lacks of {base_name}"),
            next: format!("See why it has no results there, or leave it out of {base_name}."),
        },
        Doubt {
            cells: cells_with(&failures, |share| share.other > share.base),
            what: format!("cells of {other_name} of which more requests fail than of {base_name}"),
            next: "What fails may count as throughput, and a refusal is quick: see why they fail.".to_owned(),
        },
        Doubt {
            cells: cells_with(&hits, |share| share.other < share.base),
            what: format!("cells of {other_name} of which fewer keys are found than of {base_name}"),
            next: "A miss counts as throughput, and is quicker than a value: see why they miss.".to_owned(),
        },
    ];
    Ok(match doubts.iter().fold(verdict(&answers), with_doubt) {
        RegressionVerdict::Kept => ExitCode::SUCCESS,
        RegressionVerdict::Broken => ExitCode::from(WORSE),
        RegressionVerdict::NoConclusion => ExitCode::from(NO_CONCLUSION),
    })
}

/// Cells that may be what broke, so that nothing is kept.
struct Doubt {
    cells: Vec<String>,
    /// What they are.
    what: String,
    /// What to do next.
    next: String,
}

fn cells_with(shares: &[OutcomeShares], is_worse: fn(&OutcomeShares) -> bool) -> Vec<String> {
    shares.iter().filter(|share| is_worse(share)).map(|share| share.cell.clone()).collect()
}

/// The verdict about the limits with one more doubt, where that has cells.
fn with_doubt(found: RegressionVerdict, doubt: &Doubt) -> RegressionVerdict {
    let Doubt { cells, what, next } = doubt;
    let Some(first) = cells.first() else { return found };
    let said = format!("no conclusion on {what}: {first} ({} in all). {next}", cells.len());
    eprintln!("{}", output::talk(said));
    found.max(RegressionVerdict::NoConclusion)
}

fn of_flag(mistake: Mistake) -> Failure {
    Failure::usage(mistake.of("--fail-if"))
}

/// What was found, and the answers about the limits, where there are any.
#[derive(Serialize)]
struct WithAnswers<'a, T: Serialize> {
    #[serde(flatten)]
    found: T,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    limits: &'a [RegressionAnswer],
}

#[derive(Serialize)]
struct RunChanges<'a> {
    changes: &'a [RunChange],
}

fn json(found: impl Serialize, limits: &[RegressionAnswer]) {
    let all = WithAnswers { found, limits };
    println!("{}", serde_json::to_string_pretty(&all).expect("a comparison is plain data"));
}

/// Prints the answers about the limits, where other programs do not read stdout.
fn limits(args: &CompareArgs, answers: &[RegressionAnswer]) {
    let cells = answers.iter().map(|answer| answer.cells).max().unwrap_or(0);
    let what = match cells {
        0 => None,
        1 => Some("A limit is about the ratio of the geometric means of the runs of each side.".to_owned()),
        _ => Some(format!(
            "A limit is about the geometric mean of the ratios of all {cells} cells; the table is of each cell."
        )),
    };
    if let Some(what) = what.filter(|_| !args.form.csv && !args.form.json) {
        println!("\n{}", output::prose(what));
    }
    for answer in answers {
        if args.form.csv || args.form.json {
            eprintln!("{}", output::talk(answer.sentence()));
        } else {
            println!("{}", output::prose(answer.sentence()));
        }
    }
}

/// Tells what two directories of results say.
fn results(args: &CompareArgs, found: &Comparison, answers: &[RegressionAnswer]) -> Result<(), Failure> {
    let document = comparison::document(found, &written::footer());
    if args.form.json {
        json(found, answers);
    } else if args.form.csv {
        print!("{}", csv::table(&comparison::numbers(found)));
    } else if args.form.markdown {
        print!("{}", markdown::document(&document));
    } else {
        if !found.cells.is_empty() {
            println!("{}", output::table(&comparison::cells(found)));
        }
        for sentence in found.sentences() {
            println!("{}", output::prose(sentence));
        }
        for note in &document.notes {
            println!("{}", output::prose(note));
        }
    }
    limits(args, answers);
    if let Some(directory) = &args.form.html {
        written::page(&document, directory)?;
    }
    if found.cells.is_empty() {
        return Err(nothing_in_common(&found.base, &found.other));
    }
    Ok(())
}

/// Tells what the runs of another program say; `of` knows in what its measures are.
fn runs(
    args: &CompareArgs,
    of: &ProgramRuns,
    found: &[RunChange],
    answers: &[RegressionAnswer],
    (base, other): (&str, &str),
) -> Result<(), Failure> {
    if args.form.markdown || args.form.html.is_some() {
        return Err(Failure::usage("runs of other programs are shown as text, JSON or CSV")
            .hint("leave out --markdown and --html"));
    }
    let unit = |measure: &str| of.unit(measure);
    if args.form.json {
        json(RunChanges { changes: found }, answers);
    } else if args.form.csv {
        print!("{}", csv::table(&comparison::run_numbers(found, unit)));
    } else {
        let table = comparison::runs(found, base, other, unit);
        println!("{}", output::table(&table));
        println!("{}", output::prose(table.caption));
    }
    limits(args, answers);
    Ok(())
}

fn nothing_in_common(base: &str, other: &str) -> Failure {
    Failure::usage(format!("{base} and {other} have no cell in common"))
        .hint("compare results of one spec, or of specs with the same factors and levels; of other programs, the same benchmarks")
}

/// A path without results: nothing is there, or a directory in which there are none.
pub(crate) fn no_results(path: &Path) -> Failure {
    if let Err(error) = fs::metadata(path) {
        return input::unread(path, &error).or_hint("a directory of results is what `krarup run` makes");
    }
    let hint = format!("`krarup report {}` makes them from the trials of an experiment", path.display());
    Failure::usage(format!("{}: there are no results", path.display())).hint(hint)
}

/// What stands in a file or a folder.
fn measured(path: &Path) -> Result<Measured, Failure> {
    let results = path.join(RESULTS);
    // One of another program is a run among others.
    if results.is_file()
        && let found @ Measured::Results(_) = in_file(&results)?
    {
        return Ok(found);
    }
    // The directory of an experiment with trials and without results.
    let only_trials = ResultsDirectory::at(path).trials().is_dir();
    if only_trials || fs::metadata(path).is_err() {
        return Err(no_results(path));
    }
    if path.is_dir() { folder(path).map(Measured::Runs) } else { in_file(path) }
}

/// What stands in a file. One that is named as ours and is of no other program is ours, whatever is
/// wrong with it.
fn in_file(path: &Path) -> Result<Measured, Failure> {
    let why = match of_results(path) {
        Ok(found) => return Ok(Measured::Results(Box::new(found))),
        Err(why) => why,
    };
    let is_named = path.file_name().is_some_and(|name| name == RESULTS);
    file(path).map(Measured::Runs).map_err(|of_others| if is_named { why } else { of_others })
}

/// The results in this file.
pub(crate) fn of_results(file: &Path) -> Result<Results, Failure> {
    input::json(file).map_err(|why| {
        why.or_hint("results are what `krarup run` wrote; `krarup analyze DIR` writes them anew")
    })
}

fn file(path: &Path) -> Result<ProgramRuns, Failure> {
    other_programs::read(&input::text(path)?)
        .map_err(|why| Failure::usage(why.of(&path.display().to_string())))
}

/// criterion's samples under a folder, each benchmark a cell; else the files of a folder, each a
/// run.
fn folder(path: &Path) -> Result<ProgramRuns, Failure> {
    let mut runs = ProgramRuns::default();
    let mut add = |found: ProgramRuns, cell: &str, path: &Path| {
        runs.join(found, cell).map_err(|why| Failure::usage(why.of(&path.display().to_string())))
    };
    // target/criterion/GROUP/BENCHMARK/new/sample.json; `base` beside it is of the run before.
    let samples = holding(path, "sample.json")?;
    let new: Vec<&PathBuf> = samples.iter().filter(|folder| folder.ends_with("new")).collect();
    for folder in &new {
        let benchmark = folder.parent().and_then(|folder| folder.strip_prefix(path).ok());
        let cell = benchmark.map_or_else(String::new, |name| name.display().to_string());
        let sample = folder.join("sample.json");
        add(file(&sample)?, &cell, &sample)?;
    }
    if new.is_empty() {
        let entries = fs::read_dir(path).map_err(|error| input::unread(path, &error))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.is_file());
        files.sort();
        for one in &files {
            add(file(one)?, "", one)?;
        }
    }
    if runs.cells.is_empty() {
        return Err(no_results(path));
    }
    Ok(runs)
}

/// What the two are called: their last names, where these differ.
fn names(base: &Path, other: &Path) -> (String, String) {
    let last =
        |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let (short, too) = (last(base), last(other));
    if short == too || short.is_empty() || too.is_empty() {
        (base.display().to_string(), other.display().to_string())
    } else {
        (short, too)
    }
}
