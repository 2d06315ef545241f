//! Rules of the house that hold themselves: arrows between crates and between modules point down,
//! and what decides has no socket, file or clock.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod modules;

use modules::Crate;

/// The layers, from the ground up. A crate may use those of lower layers only; within layer 2,
/// simulation and solvers share a crate.
const LAYERS: [&[&str]; 9] = [
    &["units"],
    &["service", "settings", "memcache", "beanstalk", "net", "record", "stats"],
    &["model"],
    &["proxy", "broker", "cache"],
    &["store"],
    &["serve", "load"],
    &["lab", "analysis"],
    &["report"],
    &["cli"],
];

/// What gives a crate sockets, files, a clock, a runtime or a database: ours and others'.
const OUTSIDE: &[&str] = &[
    "krarup-lab",
    "krarup-load",
    "krarup-net",
    "krarup-serve",
    "krarup-store",
    "crossterm",
    "hyper",
    "hyper-util",
    "listenfd",
    "mio",
    "postgres",
    "rustix",
    "rustls",
    "signal-hook",
    "socket2",
    "tokio",
    "tokio-postgres",
    "tokio-postgres-rustls",
    "tun-rs",
];

/// What else a crate may not use.
const FORBIDDEN: [(&str, &[&str]); 3] = [
    ("serve", &["tokio", "postgres", "tokio-postgres"]),
    ("stats", &["csv", "parquet"]),
    ("model", &["parquet"]),
];

fn layer(crate_name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&crate_name))
}

/// The folder name of a workspace crate.
fn folder(package: &str) -> &str {
    package.strip_prefix("krarup-").unwrap_or(if package == "krarup" { "cli" } else { package })
}

/// What each crate is built with.
fn uses() -> HashMap<String, Vec<String>> {
    depends_on(|kind| *kind != "dev")
}

/// What each crate depends on in the ways that are asked for.
fn depends_on(kind: impl Fn(&serde_json::Value) -> bool) -> HashMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let text = |value: &serde_json::Value| value.as_str().expect("names are text").to_owned();
    // What fuzzes readers stands beside the product, and uses any of it.
    let is_product = |package: &&serde_json::Value| text(&package["manifest_path"]).contains("/crates/");
    packages
        .iter()
        .filter(is_product)
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a list");
            let used = dependencies.iter().filter(|dependency| kind(&dependency["kind"]));
            (text(&package["name"]), used.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

/// Uses that do not point down, and those of what a crate must not use. Tests may use anything.
fn wrong_arrows(uses: &HashMap<String, Vec<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (package, used) in uses {
        let from = folder(package);
        let Some(height) = layer(from) else {
            wrong.push(format!("{from} stands in no layer"));
            continue;
        };
        for to in used.iter().filter(|name| uses.contains_key(*name)).map(|name| folder(name)) {
            if layer(to).is_none_or(|depth| depth >= height) {
                wrong.push(format!("{from} ─▶ {to} does not point down"));
            }
        }
        let pure = PURE.iter().filter(|(name, _)| *name == from).map(|_| OUTSIDE);
        let other = FORBIDDEN.iter().filter(|(name, _)| *name == from).map(|(_, forbidden)| *forbidden);
        for forbidden in pure.chain(other) {
            let found = used.iter().filter(|name| forbidden.contains(&name.as_str()));
            wrong.extend(found.map(|name| format!("{from} must not use {name}")));
        }
    }
    wrong
}

#[test]
fn every_arrow_points_down() {
    let uses = uses();
    assert!(uses.len() >= 8, "the workspace has its crates: {:?}", uses.keys());
    let wrong = wrong_arrows(&uses);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_crate_that_decides_may_use_a_socket_a_runtime_or_a_database() {
    for (name, _) in PURE {
        for outside in OUTSIDE {
            let uses = HashMap::from([(format!("krarup-{name}"), vec![(*outside).to_owned()])]);
            assert_eq!(wrong_arrows(&uses), [format!("{name} must not use {outside}")]);
        }
    }
    let up = [("krarup-units", vec!["krarup-model"]), ("krarup-model", vec![])];
    let up = up.map(|(from, to)| (from.to_owned(), to.into_iter().map(str::to_owned).collect()));
    assert_eq!(wrong_arrows(&HashMap::from(up)), ["units ─▶ model does not point down"]);
}

/// The name that the code has for a package.
fn in_code(package: &str) -> String {
    if package == "md-5" { "md5".to_owned() } else { package.replace('-', "_") }
}

/// What a crate is built with is named outside its tests; what is for tests, anywhere in it.
#[test]
fn every_dependency_is_named() {
    let mut wrong = Vec::new();
    for (package, used) in uses() {
        let sources = Crate::read(&folder_of(folder(&package)));
        let unused = used.iter().filter(|name| !sources.names(&in_code(name)));
        wrong.extend(unused.map(|name| format!("{package} does not name {name}, unless in tests")));
    }
    for (package, mut unused) in depends_on(|kind| *kind == "dev") {
        for_each_source_below(folder_of(folder(&package)), &mut |_: &Path, text: &str| {
            unused.retain(|name| !text.contains(&format!("{}::", in_code(name))));
        });
        wrong.extend(unused.iter().map(|name| format!("{package} does not name {name}, of its tests")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a crate that decides or computes may not name of the standard library: time, files and
/// sockets are handed in.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process::Command",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// The crates for which that holds, each with the files that do otherwise still.
const PURE: &[(&str, &[&str])] = &[
    ("units", &["units/src/address.rs"]),
    ("service", &[]),
    ("settings", &[]),
    ("memcache", &[]),
    ("beanstalk", &[]),
    ("stats", &[]),
    ("model", &[]),
    ("broker", &[]),
    ("cache", &[]),
    ("proxy", &[]),
    ("analysis", &[]),
    ("report", &[]),
];

fn folder_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

#[test]
fn what_decides_has_no_socket_file_thread_or_clock() {
    let mut wrong = Vec::new();
    for (name, excused) in PURE {
        let sources = Crate::read(&folder_of(name));
        let found =
            sources.naming(IMPURE).filter(|(file, _)| !excused.iter().any(|known| file.ends_with(known)));
        wrong.extend(found.map(|(file, path)| format!("{file} names {path}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn modules_of_a_crate_stand_in_no_circle() {
    let circles = |name: &&str| Crate::read(&folder_of(name)).circles();
    let found: Vec<_> = LAYERS.iter().copied().flatten().flat_map(circles).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Words that no name is made of: the field has a term for each of these things.
const PRIVATE_WORDS: &[&str] = &[
    "again", "bell", "besides", "came", "courier", "crew", "desk", "door", "doors", "errand", "guest",
    "heard", "helper", "helpers", "laid", "nobody", "patience", "pen", "pens", "seat", "seats", "shop",
    "somebody", "spare", "spares", "swallow", "told", "util", "utils", "voice", "who", "whoever", "wish",
    "wishes",
];

#[test]
fn names_are_terms_of_the_field() {
    let mut wrong = Vec::new();
    for name in LAYERS.iter().copied().flatten() {
        let sources = Crate::read(&folder_of(name));
        let private =
            |defined: &str| words_of(defined).iter().any(|word| PRIVATE_WORDS.contains(&word.as_str()));
        let found: Vec<String> = sources
            .definitions()
            .filter(|(_, defined)| private(defined))
            .map(|(file, defined)| format!("{} {defined}", file.display()))
            .collect();
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_type_name_means_one_thing() {
    let mut places: HashMap<String, Vec<String>> = HashMap::new();
    for name in LAYERS.iter().copied().flatten() {
        for (file, defined) in Crate::read(&folder_of(name)).shared_types() {
            places.entry(defined.to_owned()).or_default().push(file.display().to_string());
        }
    }
    let mut wrong: Vec<String> = places
        .iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| format!("{name}: {files:#?}"))
        .collect();
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_public_function_has_a_text_as_its_error() {
    let mut wrong = Vec::new();
    for name in LAYERS.iter().copied().flatten() {
        let sources = Crate::read(&folder_of(name));
        let found = sources.text_errors().map(|(file, function)| format!("{} {function}", file.display()));
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "an error is a value with what, place and hint: {}", wrong.join("\n"));
}

/// The words that a name is made of: `run_again` and `RunAgain` have two.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        words.last_mut().expect("there is one").extend(letter.to_lowercase().filter(|letter| *letter != '_'));
    }
    words
}

/// The longest line of a comment, in letters; tables and drawings may be longer.
const COMMENT_WIDTH: usize = 100;

/// Every source file of every crate, tests and benchmarks included, with its text.
fn for_each_source(mut each: impl FnMut(&Path, &str)) {
    for name in LAYERS.iter().copied().flatten() {
        for_each_source_below(folder_of(name), &mut each);
    }
}

/// Every source file below a folder, with its text.
fn for_each_source_below(folder: PathBuf, each: &mut impl FnMut(&Path, &str)) {
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).expect("it is there").map(|entry| entry.expect("it is there").path())
        {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                each(&entry, &fs::read_to_string(&entry).expect("it is a text"));
            }
        }
    }
}

#[test]
fn comments_wrap() {
    let mut wrong = Vec::new();
    for_each_source(|path, text| {
        wrong.extend(long_comments(text).map(|line| format!("{}:{line}", path.display())));
    });
    assert!(wrong.is_empty(), "comments beyond {COMMENT_WIDTH} letters: {wrong:#?}");
}

/// The numbers of the lines of comments that are too long.
fn long_comments(text: &str) -> impl Iterator<Item = usize> {
    let mut drawn = false;
    let lines = text.lines().enumerate().filter(move |(_, line)| {
        let trimmed = line.trim_start();
        let Some(comment) = trimmed.strip_prefix("//") else {
            drawn = false;
            return false;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        drawn ^= comment.starts_with("```");
        !drawn && !comment.starts_with(['|', '`']) && line.chars().count() > COMMENT_WIDTH
    });
    lines.map(|(number, _)| number + 1).collect::<Vec<_>>().into_iter()
}

/// Calls that wait without being woken by what they wait for.
const BLIND_WAITS: [&str; 3] = ["thread::sleep", "yield_now", "spin_loop"];

/// The files that may do so, each with what it waits for that nothing notifies it of.
const WAITS_BLINDLY: [(&str, &str); 17] = [
    ("cli/src/at.rs", "a moment that was given on the command line"),
    ("cli/src/broker/embedded.rs", "the line that PostgreSQL writes when it takes connections"),
    ("cli/src/broker/waiting.rs", "the next attempt to reach a database"),
    ("cli/src/headroom.rs", "the next answer of a proxy that has no capacity to state yet"),
    ("cli/src/load.rs", "results that generators on other machines write"),
    ("cli/src/redline.rs", "the next step of a redline in another process"),
    ("cli/src/top.rs", "the next look that is printed"),
    ("cli/tests/all/rules.rs", "nothing: it names them"),
    ("cli/tests/all/support.rs", "what another program does without a word, and a time that is measured"),
    ("lab/src/waiting.rs", "a port, a lock, a group of processes, and a span that is measured"),
    ("load/src/run.rs", "the moment at which all generators begin"),
    ("serve/src/broker/accepting.rs", "descriptors that something else closes"),
    ("serve/src/broker/front/retry.rs", "the next attempt to find a shard's owner"),
    ("store/src/journal.rs", "the next attempt to write"),
    ("store/src/postgres.rs", "the next look at a lock in the database"),
    ("store/src/postgres/members.rs", "the next look at who is there"),
    ("store/src/postgres/sharing.rs", "the next look at who is there"),
];

/// A wait is ended by what it waits for: a line, bytes, a condition variable, a child's end.
#[test]
fn what_waits_is_woken() {
    let (mut wrong, mut needed) = (Vec::new(), Vec::new());
    for_each_source(|path, text| {
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        if !code.clone().any(|line| BLIND_WAITS.iter().any(|call| line.contains(call))) {
            return;
        }
        match WAITS_BLINDLY.iter().find(|(file, _)| path.ends_with(file)) {
            Some((file, _)) => needed.push(*file),
            None => wrong.push(path.display().to_string()),
        }
    });
    assert!(wrong.is_empty(), "sleeps or polls, and is not in the table: {wrong:#?}");
    let unused = WAITS_BLINDLY.iter().filter(|(file, _)| !needed.contains(file));
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new(), "are in the table in vain");
}

/// Each step of the walks in ARCHITECTURE.md names a file and a function in it.
#[test]
fn the_walks_name_functions_that_are_there() {
    let text = fs::read_to_string(folder_of("../ARCHITECTURE.md")).expect("it is there");
    let walks = text.split("\n## ").find(|part| part.starts_with("Three walks")).expect("it has the walks");
    let mut steps = 0;
    let mut wrong = Vec::new();
    for line in walks.lines().filter(|line| line.starts_with("| ") && line.contains(".rs |")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, file, function, _] = cells[..] else { panic!("three columns: {line}") };
        let function = function.trim_matches('`');
        let source = fs::read_to_string(folder_of(file)).unwrap_or_default();
        let there = [format!("fn {function}("), format!("fn {function}<")];
        if !there.iter().any(|head| source.contains(head)) {
            wrong.push(format!("{file} has no function {function}"));
        }
        steps += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(steps > 30, "{steps} steps were found");
}

/// Every path of modules in ARCHITECTURE.md, `core::loops` or `buffer::Lent`, ends in a module, or
/// in what that has; of a method the type is looked for.
#[test]
fn the_paths_of_the_architecture_lead_to_something() {
    let text = fs::read_to_string(folder_of("../ARCHITECTURE.md")).expect("it is there");
    let crates: Vec<(&str, Crate)> =
        LAYERS.iter().copied().flatten().map(|name| (*name, Crate::read(&folder_of(name)))).collect();
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    let quoted = text.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|path| path.contains("::") && path.chars().all(of_name));
    let (mut wrong, mut read) = (Vec::new(), 0);
    for path in paths.filter(|path| !path.starts_with("std::")) {
        let mut names: Vec<String> = path.split("::").map(str::to_owned).collect();
        let a_type = names.iter().position(|name| name.starts_with(char::is_uppercase));
        names.truncate(a_type.map_or(names.len(), |at| at + 1));
        if !crates.iter().any(|(name, sources)| sources.has(name, &names)) {
            wrong.push(path);
        }
        read += 1;
    }
    assert!(read > 100, "{read} paths were read");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Comments quote programs that are there, and an example with the crate that has it.
#[test]
fn comments_name_programs_that_are_there() {
    let mut wrong = Vec::new();
    for_each_source(|path, text| {
        for comment in text.lines().filter_map(|line| line.trim_start().strip_prefix("//")) {
            let quoted = comment.split('`').skip(1).step_by(2).filter_map(|part| part.split(' ').next());
            let programs = quoted.filter(|name| name.starts_with("scripts/") || name.starts_with("bench/"));
            let lost = programs.filter(|name| !folder_of("..").join(name).exists());
            wrong.extend(lost.map(|name| format!("{}: {name}", path.display())));
            let words: Vec<&str> = comment.split_whitespace().collect();
            for window in words.windows(4) {
                let ["-p", package, "--example", name] = window else { continue };
                let file = format!("examples/{}.rs", name.trim_end_matches('`'));
                if !folder_of(folder(package)).join(file).exists() {
                    wrong.push(format!("{}: {package} has no example {name}", path.display()));
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `make docs` runs each test that writes what it compares with.
#[test]
fn make_docs_runs_every_test_that_rewrites() {
    let makefile = fs::read_to_string(folder_of("../Makefile")).expect("it is there");
    let recipe = makefile.lines().find(|line| line.starts_with("\tUPDATE=1 ")).expect("`docs` has it");
    let (_, words) = recipe.split_once(" -- ").expect("it chooses tests");
    let (mut wrong, mut read) = (Vec::new(), 0);
    for_each_source(|path, text| {
        // What the simulator says is data for other tests: it stays as it is.
        if path.ends_with("model/tests/all/heldout.rs") {
            return;
        }
        let place = path.to_string_lossy();
        let module = ["/tests/all/", "/src/"].iter().find_map(|part| place.rsplit_once(*part));
        let module = module.map_or("", |(_, file)| file.trim_end_matches(".rs")).replace('/', "::");
        for function in rewriting(text) {
            read += 1;
            let test = format!("{module}::{function}");
            if !words.split_whitespace().any(|word| test.contains(word)) {
                wrong.push(test);
            }
        }
    });
    assert!(read >= 13, "{read} tests were read");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The tests of a file that ask whether to, themselves or by the function above them that does;
/// where none of them calls it, it is for other files, and is named itself.
fn rewriting(text: &str) -> Vec<&str> {
    let asked = "(\"UPDATE\")";
    let mut parts = text.split("#[test]");
    let above = parts.next().and_then(|part| part.split_once(asked)).map(|(before, _)| before);
    let function = above.and_then(|before| before.rsplit_once("fn ")?.1.split('(').next());
    let call = function.map(|name| format!("{name}("));
    let asks = |part: &&str| part.contains(asked) || call.as_ref().is_some_and(|call| part.contains(call));
    let tests = parts.filter(asks).filter_map(|part| part.split_once("fn ")?.1.split('(').next());
    let tests: Vec<&str> = tests.collect();
    if tests.is_empty() { function.into_iter().collect() } else { tests }
}

/// Words for people. A client, broker or server is "it", "that" or "which".
const WORDS_OF_PEOPLE: &str =
    " anybody anyone everybody he him himself nobody she somebody someone whoever whom whomever ";

/// What "who" does not follow: each of these is a program or what a program serves.
const THINGS: &str = " broker client connection consumer customer loop member owner process producer program proxy request \
     server thread worker ";

#[test]
fn comments_and_documents_call_no_program_a_person() {
    let mut wrong = Vec::new();
    let mut read = 0;
    let parts = ["crates", "fuzz", "docs", "README.md", "ARCHITECTURE.md"];
    let mut open = parts.map(|name| folder_of("..").join(name)).to_vec();
    while let Some(path) = open.pop() {
        // What fuzzing builds is not ours.
        if path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("it can be read");
            open.extend(entries.map(|entry| entry.expect("it is there").path()));
            continue;
        }
        let is_source = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => true,
            Some("md") => false,
            _ => continue,
        };
        read += 1;
        let text = fs::read_to_string(&path).expect("it is a text");
        for (number, line) in text.lines().enumerate() {
            let prose =
                if is_source { line.split_once("//").map_or("", |(_, comment)| comment) } else { line };
            let found = personal(prose).into_iter();
            wrong.extend(found.map(|word| format!("{}:{}: {word}", path.display(), number + 1)));
        }
    }
    assert!(read > 500, "{read} files were read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a line says of programs as of people; not what it quotes in backticks.
fn personal(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ` ");
    let spoken: Vec<&str> = prose.split_whitespace().collect();
    let bare = |word: &&str| {
        let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
        bare.split(['\'', '’']).next().unwrap_or_default().to_owned()
    };
    let words: Vec<String> = spoken.iter().map(bare).collect();
    let among = |words: &str, word: &str| words.contains(&format!(" {word} "));
    let is_thing = |word: &str| among(THINGS, word) || among(THINGS, word.trim_end_matches('s'));
    (0..words.len())
        .filter(|&at| {
            let word = words[at].as_str();
            let goes_on = at > 0 && !spoken[at - 1].ends_with(['.', ':', ';', '?', '!']);
            among(WORDS_OF_PEOPLE, word) || word == "who" && goes_on && is_thing(&words[at - 1])
        })
        .map(|at| words[at.saturating_sub(1)..=at].join(" "))
        .collect()
}

#[test]
fn what_is_quoted_or_is_said_of_a_reader_is_no_person() {
    assert_eq!(personal("Nobody's request waits for a client who sleeps."), ["nobody", "client who"]);
    assert!(
        personal("runs as `nobody`; a reader who asks: which client, and who pays. An owner. Who?")
            .is_empty()
    );
}
