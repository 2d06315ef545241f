//! Every command that a document shows is one that the program understands, and every file it links
//! to is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use krarup_store::postgres::{Database, ProcessEnvironment};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The hand-written documents.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "python/README.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    for folder in [
        "docs/guide",
        "docs/concepts",
        "docs/comparisons",
        "docs/course",
        "docs/reference",
        "docs/reproductions",
    ] {
        let entries = fs::read_dir(root().join(folder)).expect("the folder is there");
        let pages = entries.map(|entry| entry.expect("it can be listed").path());
        found.extend(pages.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    found
}

/// The commands of `krarup` in the shell blocks of a page, continued lines joined.
fn commands(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    let mut line = String::new();
    for raw in text.lines() {
        if raw.trim_start().starts_with("```") {
            inside = !inside && (raw.contains("sh") || raw.contains("console"));
            continue;
        }
        if !inside {
            continue;
        }
        line.push_str(raw.trim().trim_start_matches("$ "));
        if let Some(kept) = line.strip_suffix('\\') {
            line = kept.to_owned();
            continue;
        }
        let command = std::mem::take(&mut line);
        if command.starts_with("krarup ") {
            found.push(command);
        }
    }
    found
}

/// The words of a command as a shell would see them, up to a comment, a pipe or a redirection.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\'' | '"', None) => quote = Some(character),
            (_, Some(open)) if character == open => quote = None,
            (' ', None) => words.push(String::new()),
            ('#' | '|' | '>' | '&' | ';', None) => break,
            ('\\', None) => words.extend(characters.next().map(String::from)),
            _ => words.last_mut().expect("there is a word").push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_command_in_the_documents_is_understood() {
    let mut tried = 0;
    let mut wrong = Vec::new();
    for path in documents() {
        for command in commands(&fs::read_to_string(&path).expect("a document can be read")) {
            // Help comes after everything else was found good.
            let words = words(&command);
            let output = Command::new(env!("CARGO_BIN_EXE_krarup"))
                .args(&words[1..])
                .arg("--help")
                .output()
                .expect("krarup runs");
            tried += 1;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                wrong.push(format!("{}: `{command}`: {said}", path.display()));
            }
        }
    }
    assert!(tried >= 8, "the documents show commands: {tried}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Of a service as systemd would start it: variables have the values that the unit's first lines
/// show, or that systemd gives them.
fn started(unit: &str) -> Option<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/"))?;
    let mut command = line.replace("${CREDENTIALS_DIRECTORY}", "/run/credentials");
    for line in unit.lines().filter_map(|line| line.strip_prefix("#   ")) {
        if let Some((name, value)) = line.split_once('=') {
            command = command.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        }
    }
    Some(command)
}

#[test]
fn every_unit_starts_a_command_that_is_understood() {
    let entries = fs::read_dir(root().join("packaging")).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let units: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "service")).collect();
    assert!(units.len() >= 2, "{units:?}");
    for path in units {
        let unit = fs::read_to_string(&path).expect("a unit can be read");
        // /proc/stat is read: the processors' load.
        assert!(!unit.lines().any(|line| line == "ProcSubset=pid"), "{}", path.display());
        let command = started(&unit);
        let command = command.unwrap_or_else(|| panic!("{}: nothing is started", path.display()));
        // Nor a specifier: the systemd of Ubuntu 22.04 (249) does not know all of them, such as %d.
        assert!(!command.contains(['$', '%']), "{}: `{command}`", path.display());
        let words = words(&command);
        let words: Vec<&str> = words[1..].iter().map(String::as_str).chain(["--help"]).collect();
        krarup(&words).unwrap_or_else(|why| panic!("{}: `{command}`: {why}", path.display()));
    }
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    let mut wrong = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document can be read");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or(target).trim();
            if file.is_empty() || file.contains("://") || file.contains(' ') {
                continue;
            }
            if !path.parent().expect("a file has a folder").join(file).exists() {
                wrong.push(format!("{}: {target}", path.display()));
            }
        }
    }
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
    let journal = fs::read_dir(root().join("docs/journal")).unwrap();
    let journal = journal.map(|entry| entry.unwrap().path());
    let wrong: Vec<PathBuf> =
        documents().into_iter().chain(journal).filter(|page| named(page) != 1).collect();
    assert!(wrong.is_empty(), "docs/SUMMARY.md names these not once: {wrong:#?}");
}
