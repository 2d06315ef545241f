//! Each table of a comparison or of a reproduction is its committed result, cell by cell, and the
//! programs that measure for them stop at errors.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::commands::root;
use crate::support::process::{python, skipped};

mod claims;
mod formula;

/// Stands before a table, and names the file of it.
const TABLE: &str = "<!-- table: ";
/// Stands before the counts of verdicts, and names the files of the claims.
const VERDICTS: &str = "<!-- verdicts: ";

/// Stands in the README before a table of chosen rows, and names their file: its first columns.
const ROWS: &str = "<!-- rows of: ";

/// The folders whose pages have such tables.
const FOLDERS: [&str; 2] = ["comparisons", "reproductions"];

fn folder(name: &str) -> PathBuf {
    root().join("docs").join(name)
}

/// A file of comma-separated values as a table: the first column names rows.
fn table(file: &Path) -> String {
    if file.to_string_lossy().ends_with(claims::ENDING) {
        return claims::table(file);
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(file).expect("it can be read");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("each row is whole")).collect();
    let shown = |row: &csv::StringRecord| format!("| {} |\n", row.iter().collect::<Vec<_>>().join(" | "));
    let rule = format!("|---|{}\n", "---:|".repeat(rows[0].len() - 1));
    shown(&rows[0]) + &rule + &rows[1..].iter().map(shown).collect::<String>()
}

/// A page of a folder with its tables as their files have them; the files that it shows.
fn with_tables(folder: &Path, page: &str) -> (String, Vec<PathBuf>) {
    let (mut out, mut shown) = (String::new(), Vec::new());
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        out += &format!("{line}\n");
        let named = |mark: &str| {
            let names = line.strip_prefix(mark)?.strip_suffix(" -->")?;
            Some(names.split(' ').map(|name| folder.join(name)).collect::<Vec<_>>())
        };
        if let Some(files) = named(TABLE) {
            out += &format!("\n{}", files.iter().map(|file| table(file)).collect::<String>());
            shown.extend(files);
        } else if let Some(files) = named(VERDICTS) {
            out += &format!("\n{}", claims::counts(&files));
        } else {
            continue;
        }
        while lines.next_if(|line| line.is_empty() || line.starts_with('|')).is_some() {}
        if lines.peek().is_some() {
            out += "\n";
        }
    }
    (out, shown)
}

/// How many chosen rows a page of the root has, and those that are not so in their files.
fn chosen_rows(page: &str) -> (usize, Vec<&str>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for part in page.split(ROWS).skip(1) {
        let (file, rest) = part.split_once(" -->").expect("the mark ends");
        // A blank cell is a dash there.
        let result = table(&root().join(file)).replace("  |", " – |");
        let lines = rest.lines().map(str::trim).skip_while(|line| line.is_empty());
        for row in lines.take_while(|line| line.starts_with('|')).skip(2) {
            count += 1;
            if !result.lines().any(|line| line.starts_with(row)) {
                wrong.push(row);
            }
        }
    }
    (count, wrong)
}

fn files(ending: &str) -> BTreeSet<PathBuf> {
    let entries =
        FOLDERS.into_iter().flat_map(|name| fs::read_dir(folder(name)).expect("the folder is there"));
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

#[test]
fn every_table_is_its_committed_result_and_every_result_is_shown() {
    let mut shown = BTreeSet::new();
    for path in files("md") {
        let page = fs::read_to_string(&path).unwrap();
        let (wanted, files) = with_tables(path.parent().unwrap(), &page);
        shown.extend(files);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, wanted).unwrap();
        } else {
            assert_eq!(page, wanted, "{}: UPDATE=1 writes its tables anew", path.display());
        }
    }
    assert!(!shown.is_empty());
    assert_eq!(files("csv"), shown, "each result is in a page");
}

#[test]
fn a_figure_that_is_not_the_result_s_is_found() {
    for mark in [TABLE, VERDICTS] {
        let result = files("csv")
            .into_iter()
            .find(|file| mark == TABLE || file.to_string_lossy().ends_with(claims::ENDING));
        let result = result.expect("there is a result");
        let name = result.file_name().unwrap().to_str().unwrap();
        let page = format!("{mark}{name} -->\n\n| policy |\n|---|\n| 0 |\n\nBehind it.\n");
        let here = result.parent().unwrap();
        let (wanted, shown) = with_tables(here, &page);
        assert_eq!(shown.contains(&result), mark == TABLE);
        assert!(wanted.ends_with("|\n\nBehind it.\n") && !wanted.contains("| policy |"), "{wanted}");
        assert_eq!(with_tables(here, &wanted).0, wanted);
    }
}

#[test]
fn the_readme_has_figures_of_committed_results() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let (count, wrong) = chosen_rows(&page);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(page.matches(ROWS).count() == 2 && count >= 9, "{count} rows");
    let mark = format!("{ROWS}docs/comparisons/queues-pool.csv -->");
    let other = format!("{mark}\n\n| mode |\n|---|\n| `owned` | 9 |\n\n| 1 |");
    assert_eq!(chosen_rows(&other), (1, vec!["| `owned` | 9 |"]));
}

/// The tests of the programs that measure: what they count as an error, and what beside what.
#[test]
fn what_is_compared_is_alike_and_answered() {
    let Some(python) = python("unittest") else {
        return skipped("no python3 here, which the programs that measure are written for");
    };
    let output = Command::new(python).args(["-B", "bench/tests.py"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
