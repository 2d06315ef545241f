//! Guides are run from top to bottom as their readers type them: files that they have one write,
//! commands in a shell, what a conversation prints.
//!
//! Each has a network of its own, so that its ports are free, an `/etc` of its own to write to, and
//! its processes end with it. Times are shortened, and a block behind `<!-- not run: why -->` is
//! left out. `make test-guides` runs them; they take minutes.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::fresh;
use crate::support::process::{Program, skipped};

/// What a reader does with a block of a guide.
enum Step {
    /// Writes a file of this name.
    Write(String, String),
    /// Types these commands.
    Type(Vec<String>),
    /// Types a command, and sees this.
    See(String, Vec<String>),
    /// Asks a database.
    Ask(String),
    /// Ends what was started last.
    End,
}

/// The steps of a guide: files are introduced by "Write `NAME`:", and "End … with Ctrl-C" is done.
fn steps(guide: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = guide.lines();
    let (mut file, mut left_out) = (None, false);
    while let Some(line) = lines.next() {
        if let Some((_, name)) = line.split_once("Write `") {
            file = name.split_once('`').map(|(name, _)| name.to_owned());
        }
        left_out |= line.trim_start().starts_with("<!-- not run:");
        if line.starts_with("End ") && line.contains(" with Ctrl-C") {
            steps.push(Step::End);
        }
        // A block may stand within the points of a list.
        let indented = line.len() - line.trim_start().len();
        let Some(kind) = line.trim_start().strip_prefix("```") else { continue };
        let block: Vec<&str> = lines
            .by_ref()
            .take_while(|line| line.trim_start() != "```")
            .map(|line| line.get(indented..).unwrap_or_default())
            .collect();
        let file = if ["toml", "json", "yaml", "ini"].contains(&kind) { file.take() } else { None };
        if std::mem::take(&mut left_out) {
            continue;
        }
        match (kind, file) {
            (_, Some(file)) => steps.push(Step::Write(file, block.join("\n"))),
            ("sh", None) => {
                let joined = block.join("\n").replace("\\\n", " ");
                steps.push(Step::Type(joined.lines().map(str::to_owned).collect()));
            }
            ("sql", None) => steps.push(Step::Ask(block.join("\n"))),
            ("console", None) => steps.extend(conversation(&block)),
            _ => {}
        }
    }
    steps
}

/// The commands of a conversation, behind the prompt of a user or of root, with what they print.
fn conversation(block: &[&str]) -> Vec<Step> {
    let mut steps: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.join("\n").replace("\\\n", " ").lines() {
        match line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")) {
            Some(command) => steps.push((command.to_owned(), Vec::new())),
            None => steps.last_mut().expect("a command stands before what it prints").1.push(line.to_owned()),
        }
    }
    steps.into_iter().map(|(command, seen)| Step::See(command, seen)).collect()
}

/// Whether a command goes on running until it is ended.
fn is_service(command: &str) -> bool {
    let serves = ["krarup proxy ", "krarup cache ", "krarup broker "];
    let asks = ["--check", "--import", "--help"];
    serves.iter().any(|start| command.starts_with(start))
        && !asks.iter().any(|flag| command.contains(flag))
        && !command.trim_end().ends_with('&')
}

/// What a shell does step by step, after what a guide takes for granted; it ends at the first
/// command that fails.
fn script(before: &str, steps: &[Step]) -> String {
    let mut script = String::from(include_str!("../guides.sh"));
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    writeln!(script, "{before}").unwrap();
    for step in steps {
        match step {
            Step::Write(name, text) => {
                writeln!(script, "cat >{name} <<'END OF FILE'\n{text}\nEND OF FILE").unwrap();
            }
            Step::Type(commands) => {
                for command in commands.iter().filter(|command| !command.trim().is_empty()) {
                    let how = if is_service(command) { "service" } else { "typed" };
                    writeln!(script, "{how} {}", quoted(command)).unwrap();
                }
            }
            Step::See(command, expected) => {
                let text: String = expected.iter().map(|line| format!("{line}\n")).collect();
                writeln!(script, "cat >expected.txt <<'END OF FILE'\n{text}END OF FILE").unwrap();
                writeln!(script, "seen {}", quoted(command)).unwrap();
            }
            Step::End => script.push_str("kill $pid; wait $pid\n"),
            Step::Ask(text) => {
                writeln!(script, "cat >asked.sql <<'END OF FILE'\n{text}\nEND OF FILE").unwrap();
                writeln!(script, "typed 'sql asked.sql'").unwrap();
            }
        }
    }
    script.push_str("echo read to the end\n");
    script
}

/// Runs a guide with some words replaced, each of which must stand in it.
fn is_read(name: &str, before: &str, shortened: &[(&str, &str)]) {
    let mut guide = fs::read_to_string(folder_of_guides().join(name)).unwrap();
    for (long, short) in shortened {
        assert!(guide.contains(long), "{name} has no `{long}`");
        guide = guide.replace(long, short);
    }
    let folder = fresh(&format!("guide-{name}"));
    fs::create_dir_all(&folder).unwrap();
    let mut steps = steps(&guide);
    if !before.contains("sql()") {
        steps.retain(|step| !matches!(step, Step::Ask(_)));
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_krarup")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let run = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c"])
        .arg(script(before, &steps))
        .current_dir(&folder)
        .env("PATH", path)
        .env("REPOSITORY", folder_of_guides().join("../.."))
        .output();
    let Ok(run) = run else { return skipped("unshare is not there: apt-get install util-linux") };
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    if said.contains("unshare failed") {
        return skipped("namespaces of one's own take root");
    }
    if let Some((_, what)) = said.split_once("not installed: ") {
        return skipped(what.lines().next().unwrap_or_default());
    }
    assert!(said.contains("read to the end") && run.status.success(), "{name}:\n{said}");
}

fn folder_of_guides() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

/// A test for each guide: its file, what it takes for granted, and what is shortened.
macro_rules! guides {
    ($($test:ident: $file:literal, $before:expr, [$($shortened:expr),* $(,)?];)*) => {
        $(
            #[test]
            #[ignore = "takes a minute: make test-guides"]
            fn $test() {
                is_read($file, $before, &[$($shortened),*]);
            }
        )*

        /// The guides that are run.
        const RUN: &[&str] = &[$($file),*];
    };
}

/// What a guide takes for granted.
macro_rules! before {
    ($name:literal) => {
        include_str!(concat!("../guides/", $name, ".sh"))
    };
}

guides! {
    the_tutorial: "tutorial.md", "",
        [("--seconds 40", "--seconds 4"), ("--seconds 5", "--seconds 1")];
    the_first_study: "first-study.md", "",
        [("warm_up = \"1s\", measure = \"5s\"", "warm_up = \"50ms\", measure = \"200ms\"")];
    the_load_generator: "load.md", "", [
        ("--seconds 30 --warm-up 5s --cool-down 5s", "--seconds 3 --warm-up 1s --cool-down 1s"),
        ("--test-time=80", "--test-time=2"),
    ];
    the_broker: "broker.md", "", [];
    the_operation_of_the_broker: "broker-operations.md",
        concat!(before!("postgresql"), before!("broker-operations")),
        [("--store postgres://…", "--store postgres://krarup@127.0.0.1/queues")];
    the_broker_in_production: "broker-production.md",
        concat!(before!("postgresql"), before!("database"), before!("broker-production")),
        [("--seconds 300", "--seconds 4")];
    the_embedded_store: "cache.md", "", [];
    experiments: "experiment.md", before!("experiment"),
        [("krarup run asl2018/2.1 --quick", "krarup plan asl2018/2.1 --quick")];
    from_beanstalkd: "from-beanstalkd.md", concat!(before!("postgresql"), before!("database")), [];
    from_queues_in_postgresql: "from-postgresql-queues.md",
        concat!(before!("postgresql"), before!("database")), [];
    from_mcrouter: "from-mcrouter.md", before!("from-mcrouter"), [];
    from_twemproxy: "from-twemproxy.md", before!("from-twemproxy"), [];
    headroom: "headroom.md", before!("headroom"),
        [("--seconds 60", "--seconds 8"), ("--over 1d", "--over 1m --step 4s")];
    hot_keys: "hot-keys.md", before!("proxy"), [];
    the_installation: "install.md", concat!(before!("proxy"), before!("install")),
        [("```sh\nkrarup demo\n```", "```sh\nkrarup demo --quick\n```")];
    machines: "machines.md", "", [];
    postgresql: "postgresql.md", concat!(before!("postgresql"), before!("postgresql-hosts")), [];
    production: "production.md", before!("production"), [];
    the_proxy: "proxy.md", before!("proxy"), [];
    top: "top.md", concat!(before!("proxy"), before!("top")), [("--looks 60", "--looks 2")];
    a_proxy_of_ones_own: "your-own-proxy.md", before!("your-own-proxy"),
        [("phases = { warm_up = \"1s\", measure = \"5s\" }", "phases = { warm_up = \"50ms\", measure = \"200ms\" }")];
}

/// A guide in which something is typed is run here.
#[test]
fn every_guide_with_commands_is_run() {
    let mut typed: Vec<String> = Vec::new();
    for entry in fs::read_dir(folder_of_guides()).unwrap() {
        let path = entry.unwrap().path();
        let guide = fs::read_to_string(&path).unwrap();
        if guide.lines().any(|line| ["```sh", "```console"].contains(&line.trim())) {
            typed.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    typed.sort();
    let mut run: Vec<&str> = RUN.to_vec();
    run.sort_unstable();
    assert_eq!(typed, run, "each guide with a block of `sh` or `console` is a line of `guides!`");
}

/// Blocks that no command takes, by their first line, each with the reason.
const NOT_READ: &[(&str, &str)] = &[];

/// What a `toml` block of a guide is.
enum Block {
    /// A spec, or a part of one.
    Spec(String),
    Proxy(String),
    Load(String),
}

/// Factors that parts of specs use, each with its levels.
const FACTORS: &[(&str, &str)] = &[
    ("workload", "[{ name = 'read-only', words = ['--ratio', '0:1'] }, { name = 'mixed', words = [] }]"),
    ("operation", "[{ name = 'read-only', words = ['--ratio', '0:1'] }, { name = 'mixed', words = [] }]"),
    ("clients", "[2, 64]"),
    ("workers", "[8]"),
    ("loss", "['none', 'kill']"),
];

/// Stations that are not in a part of a spec.
const STATIONS: &[(&str, &str)] = &[
    ("servers", "program = 'auto'"),
    ("middleware", "program = 'proxy'\nflags = ['--workers', '$workers']"),
    ("clients", "program = 'load'\nflags = ['$workload', '--connections', '$clients']"),
];

/// A part of a spec with what it takes for granted: stations, and the factors that are used.
fn whole_spec(part: &str) -> String {
    let needed = STATIONS.iter().filter(|(name, _)| !part.contains(&format!("[stations.{name}]")));
    let stations: String = needed.map(|(name, keys)| format!("[stations.{name}]\n{keys}\n")).collect();
    // The mix of operations has one name in each guide.
    let mix = if part.contains("operation =") { "$operation" } else { "$workload" };
    let stations = stations.replace("$workload", mix);
    let is_used = |name: &str| stations.contains(&format!("${name}")) || part.contains(name);
    let used = FACTORS.iter().filter(|(name, _)| is_used(name));
    let factors: String =
        used.map(|(name, levels)| format!("[[factor]]\nname = '{name}'\nlevels = {levels}\n")).collect();
    let head = "title = 'a part of a guide'\nrepetitions = { min = 2 }\nphases = { measure = '10s' }\n";
    let tables = format!("{factors}[populate]\n{stations}");
    if part.starts_with('[') { format!("{head}{tables}{part}") } else { format!("{head}{part}\n{tables}") }
}

/// What a block is: each guide shows files of one kind, beside parts of specs.
fn block(guide: &str, text: &str) -> Block {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    match guide {
        _ if has("title = ") => Block::Spec(text.to_owned()),
        "load.md" => Block::Load(text.to_owned()),
        _ if has("servers = ") || has("[pools.") => Block::Proxy(text.to_owned()),
        _ => Block::Spec(whole_spec(text)),
    }
}

/// The `toml` blocks of a guide.
fn toml_blocks(guide: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        let indented = line.len() - line.trim_start().len();
        if line.trim_start() != "```toml" {
            continue;
        }
        let block = lines.by_ref().take_while(|line| line.trim_start() != "```");
        let block: Vec<&str> = block.map(|line| line.get(indented..).unwrap_or_default()).collect();
        blocks.push(block.join("\n"));
    }
    blocks
}

/// What a guide shows of a file is read by the command that the file is for.
#[test]
fn every_toml_block_is_read_by_its_command() {
    let folder = fresh("guides-toml");
    fs::create_dir_all(&folder).unwrap();
    let (mut specs, mut proxies, mut loads, mut wrong) = (0, 0, 0, String::new());
    for entry in fs::read_dir(folder_of_guides()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let guide = fs::read_to_string(&path).unwrap_or_default();
        for (number, text) in toml_blocks(&guide).into_iter().enumerate() {
            let first = text.lines().next().unwrap_or_default();
            if NOT_READ.iter().any(|(line, _)| *line == first) {
                continue;
            }
            let file = folder.join(format!("{name}-{number}.toml"));
            let file_name = file.to_str().unwrap();
            let (text, words) = match block(&name, &text) {
                Block::Spec(text) => {
                    specs += 1;
                    (text, vec!["plan", file_name])
                }
                Block::Proxy(text) => {
                    proxies += 1;
                    (text, vec!["proxy", "--config", file_name, "--check"])
                }
                Block::Load(text) => {
                    loads += 1;
                    (text, vec!["load", "--config", file_name, "--print-config"])
                }
            };
            fs::write(&file, text).unwrap();
            let ended = Program::begin(&words).ended();
            if !ended.success {
                writeln!(wrong, "{name}, block {}: {}", number + 1, ended.errors).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(specs >= 10 && proxies >= 2 && loads >= 1, "{specs} specs, {proxies} proxies, {loads} loads");
}
