//! Every experiment, spec and database that a document shows is one that the program understands,
//! and every file it links to is there. Its commands are parsed where the command line is, in
//! `main.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use krarup_store::postgres::{Database, ProcessEnvironment};

use crate::support::commands::{commands, documents, root, words};

/// The files that a page links to, as it writes them and where they stand.
fn linked_files(page: &Path) -> Vec<(String, PathBuf)> {
    let text = fs::read_to_string(page).expect("a document can be read");
    let folder = page.parent().expect("a file has a folder");
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter_map(|target| {
        let file = target.split('#').next().unwrap_or(target).trim();
        let is_file = !(file.is_empty() || file.contains("://") || file.contains(' '));
        is_file.then(|| (target.to_owned(), folder.join(file)))
    });
    files.collect()
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    let mut wrong = Vec::new();
    for path in documents() {
        let lost = linked_files(&path).into_iter().filter(|(_, file)| !file.exists());
        wrong.extend(lost.map(|(target, _)| format!("{}: {target}", path.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn journal() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(root().join("docs/journal")).expect("the folder is there");
    entries.map(|entry| entry.expect("it can be listed").path())
}

/// `make docs-site` copies what stands beside the documents, and of further folders what pages
/// lead to.
#[test]
fn the_site_has_every_file_that_a_page_links_to() {
    let script = fs::read_to_string(root().join("scripts/docs-site")).expect("it is there");
    let whole = script.lines().find_map(|line| line.strip_prefix("cp -r ")).expect("it copies folders");
    let (_, rest) = script.split_once(r"(\.\./)*(").expect("it looks for links");
    let (linked, _) = rest.split_once(')').expect("it names folders");
    let copied: Vec<&str> = whole.split_whitespace().chain(linked.split('|')).collect();
    let top = root().canonicalize().expect("it is there");
    let mut wrong = Vec::new();
    for page in documents().into_iter().chain(journal()) {
        for (target, file) in linked_files(&page) {
            let Ok(file) = file.canonicalize() else { continue };
            let below = file.strip_prefix(&top).unwrap_or(&file);
            if !copied.iter().any(|folder| below.starts_with(folder)) {
                wrong.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(copied.len() > 10, "{copied:?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `cargo test` takes one word that tests are chosen by, and refuses a second one.
#[test]
fn every_cargo_test_in_the_documents_chooses_by_one_word() {
    let mut wrong = Vec::new();
    let mut read = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document can be read");
        let commands = text.split("cargo test ").skip(1);
        for command in commands.filter_map(|rest| rest.split(['`', '\n']).next()) {
            let mut words = command.split_whitespace().take_while(|word| !matches!(*word, "--" | "-->"));
            let mut chosen_by = 0;
            while let Some(word) = words.next() {
                if matches!(word, "-p" | "--package" | "--test") {
                    words.next();
                } else if !word.starts_with('-') {
                    chosen_by += 1;
                }
            }
            read += 1;
            if chosen_by > 1 {
                wrong.push(format!("{}: cargo test {command}", path.display()));
            }
        }
    }
    assert!(read >= 10, "{read} commands were read");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The words of the design: one word for one thing, each with a row of the glossary.
const TERMS: &[&str] = &[
    "arrival rate",
    "throughput",
    "service time",
    "visit ratio",
    "service demand",
    "waiting time",
    "residence time",
    "response time",
    "utilization",
    "queue length",
    "population",
    "think time",
    "open workload",
    "closed workload",
    "station",
    "delay station",
    "bottleneck",
    "knee",
    "saturation",
    "capacity",
    "headroom",
    "factor",
    "level",
    "cell",
    "trial",
    "repetition",
    "due",
    "lateness",
    "server",
    "worker",
    "hit",
    "miss",
    "event loop",
    "connection",
    "read buffer",
    "authentication",
    "resolver",
    "back-off",
    "back-pressure",
    "deadline",
    "admin server",
    "configuration source",
    "request",
    "operation",
    "command",
    "reply",
    "statement",
    "commit batch",
    "lease holder",
    "idempotent",
    "event calendar",
    "warm-up",
    "replication",
    "run",
    "snapshot",
];

#[test]
fn the_glossary_has_every_term_once_with_its_meaning() {
    let page = fs::read_to_string(root().join("docs/reference/glossary.md")).expect("it is there");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    for row in &rows {
        // A border stands on each side.
        assert!(row.len() == 7 && !row[1].is_empty() && !row[4].is_empty(), "{row:?}");
    }
    for term in TERMS {
        assert_eq!(rows.iter().filter(|row| row[1] == *term).count(), 1, "rows of `{term}`");
    }
    let linked = documents()
        .into_iter()
        .filter(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("glossary.md)")));
    assert!(linked.count() >= 10, "guides link to the glossary");
}

fn krarup(words: &[&str]) -> Result<(), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_krarup")).args(words).output().expect("krarup runs");
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// `krarup run NAME` is shown with names that there are.
#[test]
fn every_experiment_that_is_named_can_be_planned() {
    let mut wrong = Vec::new();
    let mut planned = 0;
    for path in documents() {
        for command in commands(&fs::read_to_string(&path).expect("a document can be read")) {
            let words = words(&command);
            let [_, job, name, rest @ ..] = &words[..] else { continue };
            // Files of the reader's own are not here.
            if !matches!(job.as_str(), "run" | "plan") || name.ends_with(".toml") {
                continue;
            }
            let quick = rest.iter().any(|word| word == "--quick");
            let planned_as = [&["plan", name.as_str()][..], if quick { &["--quick"] } else { &[] }].concat();
            planned += 1;
            wrong.extend(
                krarup(&planned_as).err().map(|why| format!("{}: `{command}`: {why}", path.display())),
            );
        }
    }
    assert!(planned >= 15, "the documents name experiments: {planned}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Blocks of TOML with a title and clients are whole specs, and as such without a fault.
#[test]
fn every_spec_in_the_documents_can_be_planned() {
    let mut wrong = Vec::new();
    let mut planned = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document can be read");
        for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if !(block.contains("title = ") && block.contains("[stations.clients]")) {
                continue;
            }
            planned += 1;
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("document-{planned}.toml"));
            fs::write(&file, block).expect("a file can be written");
            let result = krarup(&["plan", file.to_str().expect("a path is text")]);
            wrong.extend(result.err().map(|why| format!("{}: {why}", path.display())));
        }
    }
    assert!(planned >= 3, "the documents have whole specs: {planned}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An image has no home with an authority in it.
#[test]
fn every_address_of_a_database_in_the_documents_can_be_used_as_it_stands() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document can be read");
        for address in text.split('\'').filter(|part| part.starts_with("postgres://")) {
            checked += 1;
            let parsed = Database::parse(address, &ProcessEnvironment::default());
            wrong.extend(parsed.err().map(|why| format!("{}: {address}: {why}", path.display())));
        }
    }
    assert!(checked >= 2, "the documents have addresses of databases: {checked}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The site of documents has each page once.
#[test]
fn the_summary_has_every_page_once() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let named = |page: &Path| {
        let from_docs = page.strip_prefix(root().join("docs")).map(Path::to_path_buf);
        let from_docs =
            from_docs.unwrap_or_else(|_| Path::new("..").join(page.strip_prefix(root()).unwrap()));
        summary.matches(&format!("]({})", from_docs.display())).count()
    };
    let wrong: Vec<PathBuf> =
        documents().into_iter().chain(journal()).filter(|page| named(page) != 1).collect();
    assert!(wrong.is_empty(), "docs/SUMMARY.md names these not once: {wrong:#?}");
}
