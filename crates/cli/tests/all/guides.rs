//! Guides are run from top to bottom as their readers type them: files that they have one write,
//! commands in a shell, what a conversation prints.
//!
//! In a network of its own, so that the ports of a guide are free. Times are shortened, and a block
//! behind `<!-- not run: why -->` is left out. `make test-guides` runs them; they take minutes.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::fresh;
use crate::support::process::skipped;

/// What a reader does with a block of a guide.
enum Step {
    /// Writes a file of this name.
    Write(String, String),
    /// Types these commands.
    Type(Vec<String>),
    /// Types a command, and sees this.
    See(String, Vec<String>),
}

/// The steps of a guide: files are introduced by "Write `NAME`:".
fn steps(guide: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = guide.lines();
    let (mut file, mut left_out) = (None, false);
    while let Some(line) = lines.next() {
        if let Some((_, name)) = line.split_once("Write `") {
            file = name.split_once('`').map(|(name, _)| name.to_owned());
        }
        left_out |= line.starts_with("<!-- not run:");
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let file = if kind == "toml" { file.take() } else { None };
        if std::mem::take(&mut left_out) {
            continue;
        }
        match (kind, file) {
            (_, Some(file)) => steps.push(Step::Write(file, block.join("\n"))),
            ("sh", None) => {
                let joined = block.join("\n").replace("\\\n", " ");
                steps.push(Step::Type(joined.lines().map(str::to_owned).collect()));
            }
            ("console", None) => {
                for part in block.join("\n").split("$ ").skip(1) {
                    let mut lines = part.lines().map(str::to_owned);
                    let command = lines.next().expect("a command follows the prompt");
                    steps.push(Step::See(command, lines.collect()));
                }
            }
            _ => {}
        }
    }
    steps
}

/// Whether a command goes on running until it is ended.
fn is_service(command: &str) -> bool {
    let serves = ["krarup proxy ", "krarup cache ", "krarup broker "];
    let asks = ["--check", "--import", "--help"];
    serves.iter().any(|start| command.starts_with(start))
        && !asks.iter().any(|flag| command.contains(flag))
        && !command.trim_end().ends_with('&')
}

/// What a shell does step by step; it ends at the first command that fails.
fn script(steps: &[Step]) -> String {
    let mut script = String::from("trap 'kill $(jobs -p)' EXIT\nip link set lo up\nservices=0\n");
    // That there is no conclusion, or that a target is broken, is an answer, too.
    script.push_str(
        "typed() { echo \"+ $1\"; eval \"$1\" || case \"$1,$?\" in 'krarup headroom'*,[13]) ;; *) echo \"this failed: $1\"; exit 1;; esac; }\n",
    );
    script.push_str(
        "service() { echo \"+ $1 &\"; services=$((services + 1)); eval \"$1 >service$services.log 2>&1 &\"; pid=$!\n\
         until grep -q 'listening on' service$services.log; do\n\
         kill -0 $pid 2>/dev/null || { cat service$services.log; echo \"this ended: $1\"; exit 1; }; done; }\n",
    );
    script.push_str(
        "seen() { echo \"+ $1\"; eval \"$1\" >seen.txt 2>&1; tr -d '\\r' <seen.txt | diff - expected.txt || \
         { echo \"this prints something else: $1\"; exit 1; }; }\n",
    );
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
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
                let text = expected.join("\n");
                writeln!(script, "cat >expected.txt <<'END OF FILE'\n{text}\nEND OF FILE").unwrap();
                writeln!(script, "seen {}", quoted(command)).unwrap();
            }
        }
    }
    script.push_str("echo read to the end\n");
    script
}

/// Runs a guide with some words replaced, each of which must stand in it.
fn is_read(name: &str, shortened: &[(&str, &str)]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut guide = fs::read_to_string(here.join("../../docs/guide").join(name)).unwrap();
    for (long, short) in shortened {
        assert!(guide.contains(long), "{name} has no `{long}`");
        guide = guide.replace(long, short);
    }
    let folder = fresh(&format!("guide-{name}"));
    fs::create_dir_all(&folder).unwrap();
    let steps = steps(&guide);
    assert!(steps.len() >= 2, "{name} has {} steps", steps.len());
    let programs = Path::new(env!("CARGO_BIN_EXE_krarup")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let run = Command::new("unshare")
        .args(["-n", "bash", "-c", &script(&steps)])
        .current_dir(&folder)
        .env("PATH", path)
        .output();
    let Ok(run) = run else { return skipped("unshare is not there: apt-get install util-linux") };
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    if said.contains("unshare failed") {
        return skipped("a network of one's own takes root");
    }
    assert!(said.contains("read to the end") && run.status.success(), "{name}:\n{said}");
}

#[test]
#[ignore = "takes a minute: make test-guides"]
fn the_tutorial() {
    is_read("tutorial.md", &[("--seconds 40", "--seconds 4"), ("--seconds 5", "--seconds 1")]);
}

#[test]
#[ignore = "takes minutes: make test-guides"]
fn the_first_study() {
    is_read(
        "first-study.md",
        &[("warm_up = \"1s\", measure = \"5s\"", "warm_up = \"50ms\", measure = \"200ms\"")],
    );
}

#[test]
#[ignore = "takes a minute: make test-guides"]
fn the_load_generator() {
    is_read(
        "load.md",
        &[
            ("--seconds 30 --warm-up 5s --cool-down 5s", "--seconds 3 --warm-up 1s --cool-down 1s"),
            ("--test-time=80", "--test-time=2"),
        ],
    );
}

#[test]
#[ignore = "takes a minute: make test-guides"]
fn the_broker() {
    is_read("broker.md", &[]);
}
