//! Each table of a comparison is its committed result, cell by cell.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Stands before a table, and names the file of it.
const MARK: &str = "<!-- table: ";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/comparisons")
}

/// A file of comma-separated values as a table: the first column names rows.
fn table(file: &Path) -> String {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(file).expect("it can be read");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("each row is whole")).collect();
    let shown = |row: &csv::StringRecord| format!("| {} |\n", row.iter().collect::<Vec<_>>().join(" | "));
    let rule = format!("|---|{}\n", "---:|".repeat(rows[0].len() - 1));
    shown(&rows[0]) + &rule + &rows[1..].iter().map(shown).collect::<String>()
}

/// A page with its tables as their files have them; the files that it names.
fn with_tables(page: &str) -> (String, Vec<String>) {
    let (mut out, mut named) = (String::new(), Vec::new());
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        out += &format!("{line}\n");
        let Some(name) = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        out += &format!("\n{}", table(&folder().join(name)));
        named.push(name.to_owned());
        while lines.next_if(|line| line.is_empty() || line.starts_with('|')).is_some() {}
        if lines.peek().is_some() {
            out += "\n";
        }
    }
    (out, named)
}

fn files(ending: &str) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder()).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

#[test]
fn every_table_is_its_committed_result_and_every_result_is_shown() {
    let mut shown = BTreeSet::new();
    for path in files("md") {
        let page = fs::read_to_string(&path).unwrap();
        let (wanted, named) = with_tables(&page);
        shown.extend(named.into_iter().map(|name| folder().join(name)));
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
    let name = files("csv").pop_first().expect("there is a result");
    let name = name.file_name().unwrap().to_str().unwrap();
    let page = format!("{MARK}{name} -->\n\n| policy |\n|---|\n| 0 |\n\nBehind it.\n");
    let (wanted, named) = with_tables(&page);
    assert_eq!(named, [name]);
    assert!(wanted.ends_with("|\n\nBehind it.\n") && !wanted.contains("| 0 |\n\n"), "{wanted}");
    assert_eq!(with_tables(&wanted).0, wanted);
}
