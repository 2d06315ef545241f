//! `krarup run --sheet`: guesses are sealed before anything is measured, and graded afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::experiment::{LONG, json, place};
use crate::support::process::{Ended, Program};
use crate::support::terminal::OnTerminal;

/// 200 requests a second, whatever the machine: a guess of 200 is right if not nearly all of them
/// are late.
/// One number of clients has no limit, and so there is no conclusion about it.
const SPEC: &str = r#"
title = "a rate that is given"
seed = 7
repetitions = { min = 1 }
phases = { warm_up = "50ms", measure = "400ms" }
data = ["--keys", "200"]

[[factor]]
name = "clients"
levels = [4]

[populate]
[stations.servers]
program = "cache"
count = 1
[stations.clients]
program = "load"
flags = ["--rate", "200", "--connections", "$clients"]

[[sheet]]
id = "rate"
ask = "How many requests per second are answered?"
measured = "throughput"
at = { clients = 4 }
within = 0.9
model = { law = "slots", slots = 2, time = "10ms" }

[[sheet]]
id = "too_many"
ask = "And how many does somebody else think?"
measured = "throughput"
at = { clients = 4 }
within = 0.9
model = { law = "slots", slots = 2, time = "10ms" }

[[sheet]]
id = "knee"
ask = "With how many clients does it stop growing?"
measured = "clients_at_limit"
model = { law = "knee", x = "rate", time = "10ms" }

[[sheet]]
id = "slowest"
ask = "How long does the slowest of three take that take 1 ms each?"
model = { law = "slowest", time = "1ms", copies = 3 }

[[sheet]]
id = "left_out"
ask = "How long does a request take?"
measured = "response"
at = { clients = 4 }
model = { law = "slowest", time = "1ms", copies = 2 }
"#;

const ANSWERS: &str = r#"
rate = 200
too_many = "200k"
knee = 2
slowest = "1.8ms"
left_out = "?"
"#;

fn run(spec: &Path, out: &Path, more: &[&str]) -> Ended {
    let words = [&["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap()], more].concat();
    Program::begin(&words).ended_within(LONG)
}

/// The words of a question's row in what was printed.
fn row<'a>(printed: &'a str, id: &str) -> &'a str {
    let starts = format!("{id} ");
    printed.lines().find(|line| line.starts_with(&starts)).unwrap_or_else(|| panic!("no {id} in {printed}"))
}

#[test]
fn guesses_are_sealed_and_graded_and_a_change_is_found() {
    let (spec, out) = place("sheet-graded", SPEC);
    let answers = out.with_file_name("answers.toml");
    fs::write(&answers, ANSWERS).unwrap();
    let ended = run(&spec, &out, &["--answers", answers.to_str().unwrap()]);
    assert!(ended.success && ended.errors.contains("guesses are sealed: "), "{ended:?}");
    for (id, words) in [
        ("rate", ["200/s", " right "]),
        ("too_many", ["200,000/s", " times too high "]),
        ("knee", ["not decidable", "no conclusion"]),
        ("slowest", ["1.80 ms", " right "]),
        ("left_out", ["no guess", "1.50 ms"]),
    ] {
        let row = row(&ended.output, id);
        assert!(words.iter().all(|word| row.contains(word)), "{id}: {row}");
    }
    assert!(ended.output.contains("Model: bound m/D: 2 / 10.0 ms."), "{ended:?}");
    let steps = json(&out.join("results.json"))["sheet"]["steps"].clone();
    assert_eq!((&steps[0]["grade"], &steps[0]["model_grade"]), (&"right".into(), &"right".into()));
    assert!(steps[1]["grade"]["off"]["times"].as_f64().unwrap() > 500.0, "{steps}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Guessed, computed, measured"), "the page has no sheet");
    assert!(page.contains(", before anything was measured."), "the page does not say when");

    // The report is made anew from what is there; who changes a guess is found out.
    let report = || {
        let ended = Program::begin(&["report", out.to_str().unwrap(), "--markdown"]).ended();
        assert!(ended.success, "{ended:?}");
        assert!(fs::read_to_string(out.join("report.md")).unwrap().contains("too\\_many"));
        ended.output
    };
    assert_eq!(report(), ended.output);
    let file = out.join("sheet.json");
    let sealed = fs::read_to_string(&file).unwrap();
    fs::write(&file, sealed.replace("200000.0", "200.0")).unwrap();
    let said = report();
    assert!(row(&said, "too_many").contains(" right "), "{said}");
    assert!(said.contains("changed after they had been sealed: 1 of 1 trials"), "{said}");
    fs::remove_file(&file).unwrap();
    assert!(report().contains("sheet.json is gone"));
    fs::write(&file, "{").unwrap();
    let broken = Program::begin(&["report", out.to_str().unwrap()]).ended();
    assert!(broken.code == Some(2) && broken.errors.contains("no sealed guesses any more"), "{broken:?}");
    fs::write(&file, sealed).unwrap();
    assert_eq!(report(), ended.output);
}

#[test]
fn sealed_guesses_stay_and_later_ones_are_late() {
    let (spec, out) = place("sheet-stays", SPEC);
    let answers = out.with_file_name("answers.toml");
    fs::write(&answers, ANSWERS).unwrap();
    let words = ["--answers", answers.to_str().unwrap()];
    assert!(run(&spec, &out, &[]).success);
    let late = run(&spec, &out, &words);
    assert!(late.output.contains("1 of 1 trials were measured before the guesses were sealed"), "{late:?}");
    let again = run(&spec, &out, &words);
    assert!(again.success && again.errors.contains("guesses were sealed at "), "{again:?}");
    assert_eq!(again.output, late.output);
    fs::write(&answers, ANSWERS.replace("knee = 2", "knee = 3")).unwrap();
    let other = run(&spec, &out, &words);
    assert!(other.code == Some(2) && other.errors.contains("has other guesses, sealed at "), "{other:?}");

    // Another tolerance is named; another question takes a directory of its own.
    fs::write(&answers, ANSWERS).unwrap();
    fs::write(&spec, SPEC.replace("within = 0.9", "within = 0.8")).unwrap();
    let nearer = run(&spec, &out, &words);
    assert!(nearer.output.contains("than was asked, or no more: rate, too_many."), "{nearer:?}");
    fs::write(&spec, SPEC.replace("does somebody else think", "are there at night")).unwrap();
    let reworded = run(&spec, &out, &words);
    let said = "has guesses of other questions, sealed at ";
    assert!(reworded.code == Some(2) && reworded.errors.contains(said), "{reworded:?}");

    // What had been measured before is not forgotten when it is replaced.
    fs::write(&spec, SPEC.replace("400ms", "450ms")).unwrap();
    let replaced = run(&spec, &out, &[&words[..], &["--yes"]].concat());
    let said = "1 trial beside these had been measured when the guesses were sealed";
    assert!(replaced.success && replaced.output.contains(said), "{replaced:?}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!page.contains("before anything was measured"), "it is no sheet of guesses alone");
}

#[test]
fn answers_that_are_none_are_named_and_nothing_begins() {
    let (spec, out) = place("sheet-wrong", SPEC);
    let answers = out.with_file_name("answers.toml");
    let words = ["--answers", answers.to_str().unwrap()];
    for (text, said) in [
        ("rate = \"many\"", "answers.toml, line 1: `rate`: `many` is no answer here"),
        ("rte = 1", "there is no question `rte`"),
        ("rate = 1", "`knee` is not answered"),
        ("rate = 1.k", "hint: what is no plain number stands in quotes"),
        ("rate = []", "`rate` is an array"),
    ] {
        fs::write(&answers, text).unwrap();
        let ended = run(&spec, &out, &words);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.errors.contains(said) && ended.errors.contains("hint: "), "{text}: {ended:?}");
    }
    let nobody = run(&spec, &out, &["--sheet"]);
    assert!(nobody.code == Some(2) && nobody.errors.contains("stdin is no terminal"), "{nobody:?}");
    assert!(!out.exists(), "nothing was begun");
    let plain = SPEC.split("[[sheet]]").next().unwrap();
    fs::write(&spec, plain).unwrap();
    let none = run(&spec, &out, &["--sheet"]);
    assert!(none.code == Some(2) && none.errors.contains("the spec has no sheet"), "{none:?}");
    for (from, to, said) in [
        ("slots = 2, time", "time", "the law `slots` is not told `slots`"),
        ("slots = 2,", "slots = 2, bytes = 3,", "the law `slots` has no use for `bytes`"),
        ("x = \"rate\"", "x = \"reads\"", "x = \"reads\" is no question before this one"),
        ("at = { clients = 4 }", "at = { clients = 5 }", "has no level `5`"),
        ("id = \"knee\"", "id = \"rate\"", "sheet `rate`: it is there twice"),
        ("measured = \"throughput\"", "measured = \"response\"", "says another quantity than is measured"),
    ] {
        fs::write(&spec, SPEC.replace(from, to)).unwrap();
        let refused = Program::begin(&["plan", spec.to_str().unwrap()]).ended();
        assert!(refused.code == Some(2) && refused.errors.contains(said), "{said}: {refused:?}");
    }
}

#[test]
fn a_plan_prints_a_file_that_a_run_takes_from_stdin() {
    let (spec, out) = place("sheet-stdin", SPEC);
    let printed = Program::begin(&["plan", spec.to_str().unwrap(), "--sheet"]).ended();
    assert!(printed.success && printed.output.contains("\nrate = \"\"\n"), "{printed:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
    command.args(["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap(), "--answers", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let filled = printed.output.replace("= \"\"", "= \"2s\"").replace("rate = \"2s\"", "rate = 2");
    let filled = filled.replace("too_many = \"2s\"", "too_many = 2").replace("knee = \"2s\"", "knee = \"?\"");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), filled.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && row(&said, "rate").contains("times too low"), "{said}");
}

/// A run on a terminal that asks its first question, and where its results are to be.
fn asked(name: &str) -> (OnTerminal, PathBuf) {
    let (spec, out) = place(name, SPEC);
    let words = ["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap(), "--sheet"];
    let mut terminal = OnTerminal::begin(100, &words);
    terminal.shows(&["1/5 How many requests per second"]);
    (terminal, out)
}

#[test]
fn a_reader_is_asked_on_a_terminal() {
    let (mut terminal, out) = asked("sheet-asked");
    assert!(!out.exists(), "nothing is measured before");
    terminal.types(b"some\n");
    terminal.shows(&["`some` is no answer here"]);
    terminal.types(b"200\n");
    terminal.shows(&["2/5"]);
    terminal.types(b"200k\n2\n");
    terminal.shows(&["4/5"]);
    terminal.types(b"2ms\n?\n");
    terminal.shows(&["report.html"]);
    terminal.ended_well();
    let sealed = json(&out.join("sheet.json"));
    assert_eq!((&sealed["guesses"][1]["value"], &sealed["guesses"][4]["value"]), (&200e3.into(), &().into()));
}

#[test]
fn guesses_that_another_run_sealed_meanwhile_stay() {
    let (mut terminal, out) = asked("sheet-meanwhile");
    // As an earlier version wrote it.
    let sealed = r#"{"sealed": "2026-11-25 10:00:00 UTC", "guesses": []}"#;
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("sheet.json"), sealed).unwrap();
    terminal.types(b"200\n?\n?\n?\n?\n");
    terminal.shows(&["has other guesses, sealed at 2026-11-25"]);
    assert_eq!(terminal.ended().code(), Some(2));
    assert_eq!(fs::read_to_string(out.join("sheet.json")).unwrap(), sealed);
}
