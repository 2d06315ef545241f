//! `krarup compare`: two directories of results side by side.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use krarup_analysis::compare::compare;
use krarup_analysis::results::Results;
use krarup_report::{Page, comparison, csv, markdown, text};

use crate::failure::Failure;
use crate::form::OutputForm;
use crate::{input, written};

/// Compare two directories of results, cell by cell and over all cells, with intervals.
///
/// Where an interval covers no change, it says so: no conclusion.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  krarup compare before after\n  krarup compare before after --html comparison"
)]
pub(crate) struct CompareArgs {
    /// What is compared with: a directory that `krarup run` made
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// What is compared
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    #[command(flatten)]
    form: OutputForm,
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (base, other) = (results(&args.base)?, results(&args.other)?);
    let (base_name, other_name) = names(&args.base, &args.other);
    let found = compare((&base_name, &base), (&other_name, &other));
    let document = comparison::document(&found, &format!("krarup {}", env!("CARGO_PKG_VERSION")));
    if args.form.json {
        println!("{}", serde_json::to_string_pretty(&found).expect("a comparison is plain data"));
    } else if args.form.csv {
        print!("{}", csv::table(&comparison::numbers(&found)));
    } else if args.form.markdown {
        print!("{}", markdown::document(&document));
    } else {
        if !found.cells.is_empty() {
            println!("{}", text::table(&comparison::cells(&found)));
        }
        for sentence in found.sentences() {
            println!("{sentence}");
        }
        for note in &document.notes {
            println!("{note}");
        }
    }
    if let Some(directory) = &args.form.html {
        let unwritable = |error: std::io::Error| Failure::run(error.to_string());
        let page = written::write(&Page::of(&document), directory).map_err(unwritable)?;
        eprintln!("page: {}", page.display());
    }
    if found.cells.is_empty() {
        return Err(Failure::run(format!("{base_name} and {other_name} have no cell in common"))
            .hint("compare results of one spec, or of specs with the same factors and levels"));
    }
    Ok(())
}

fn results(directory: &Path) -> Result<Results, Failure> {
    let file = if directory.is_file() { directory.to_owned() } else { directory.join("results.json") };
    if fs::metadata(&file).is_err() {
        let hint = format!("`krarup report {}` makes it from the trials", directory.display());
        return Err(Failure::usage(format!("{}: there are no results", file.display())).hint(hint));
    }
    input::json(&file).map_err(|why| {
        why.or_hint("results are what `krarup run` wrote; `krarup analyze DIR` writes them anew")
    })
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
