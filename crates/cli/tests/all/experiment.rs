//! `krarup plan`, `run` and `report` as a user meets them: what is done stays done, whatever ends
//! the run.

use crate::durable::cluster::programs as postgres_programs;
use crate::support;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::experiment::{LONG, begin, json, place, run, still_runs};
use crate::support::process::{Program, processes, skipped, unread};
use crate::support::terminal::OnTerminal;
use crate::support::{fresh, test_id};
use rustix::process::{Pid, Signal, kill_process};

const SPEC: &str = r#"
title = "two mixes, two numbers of clients"
seed = 7
repetitions = { min = 2 }
phases = { warm_up = "50ms", measure = "100ms" }
gates = ["errors == 0", "misses == 0"]
data = ["--keys", "200", "--verify"]
population = "connections"

[[factor]]
name = "workload"
levels = [{ name = "read", words = ["--ratio", "0:1"] }, { name = "write", words = ["--ratio", "1:0"] }]
[[factor]]
name = "connections"
levels = [1, 3]

[populate]
[stations.servers]
program = "cache"
count = 2
[stations.middleware]
program = "proxy"
flags = ["--workers", "2"]
[stations.clients]
program = "load"
flags = ["$workload", "--connections", "$connections"]
"#;

/// A line of the spec, and an anchor.
const ANCHOR: &str = "seed = 7\nanchor = { levels = { workload = \"read\", connections = 1 } }";

/// What is in each complete trial's folder: name and bytes of its manifest and its load.
fn trials(out: &Path) -> BTreeMap<PathBuf, [Vec<u8>; 2]> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let all = inside(&out.join("trials")).into_iter().flat_map(|cell| inside(&cell));
    let read = |trial: PathBuf| {
        let files = ["trial.json", "load.json"].map(|name| fs::read(trial.join(name)).unwrap());
        (trial, files)
    };
    all.map(read).collect()
}

#[test]
fn an_experiment_is_run_once_and_reported_as_often_as_asked() {
    let (spec, out) = place("experiment-once", SPEC);
    let ended = run(&spec, &out);
    assert!(ended.errors.contains("8/8 workload ") && ended.output.contains("read"), "{ended:?}");
    let done = trials(&out);
    assert_eq!(done.len(), 8);
    let seeds = done.values().map(|[_, load]| {
        let load: serde_json::Value = serde_json::from_slice(load).unwrap();
        load["config"]["seed"].as_u64().unwrap()
    });
    assert_eq!(seeds.collect::<BTreeSet<u64>>().len(), 8, "each trial draws anew");
    let results = fs::read(out.join("results.json")).unwrap();
    let page = fs::read(out.join("report.html")).unwrap();
    let again = run(&spec, &out);
    assert!(!again.errors.contains("/8 workload "), "nothing is left to run: {again:?}");
    assert_eq!((trials(&out), again.output), (done, ended.output.clone()));
    let reported = Program::begin(&["report", out.to_str().unwrap()]).ended();
    assert_eq!(reported.output, ended.output);
    assert_eq!(
        (fs::read(out.join("results.json")).unwrap(), fs::read(out.join("report.html")).unwrap()),
        (results, page)
    );
    assert!(!out.join("unfinished").exists() && !out.join("processes").exists());
    // A trial that cannot be read any more is told, and measured again.
    let broken = out.join(trials(&out).keys().next().unwrap()).join("trial.json");
    fs::write(&broken, "x").unwrap();
    let reported = Program::begin(&["report", out.to_str().unwrap()]).ended();
    let (_, within) = broken.to_str().unwrap().split_once("/trials/").unwrap();
    let told = format!("A trial is in no figure, because trials/{within} cannot be read: it is damaged.");
    assert!(reported.success && reported.output.contains(&told), "{told}: {reported:?}");
    let again = run(&spec, &out);
    assert_eq!(again.errors.matches("/8 workload ").count(), 1, "{again:?}");
    assert!(!again.output.contains(&told), "{again:?}");
    // So is one of which another file cannot be read, once its folder is gone.
    let cpu = broken.with_file_name("cpu.json");
    fs::write(&cpu, "").unwrap();
    let trial = broken.parent().unwrap();
    let (_, within) = trial.to_str().unwrap().split_once("/trials/").unwrap();
    let told = format!("A trial is in no figure, because trials/{within} cannot be read: cpu.json, line 1: ");
    let reported = Program::begin(&["report", out.to_str().unwrap()]).ended();
    assert!(reported.success && reported.output.contains(&told), "{told}: {reported:?}");
    assert!(reported.output.contains("are missing: 1 of 2 are complete"), "{reported:?}");
    fs::remove_dir_all(trial).unwrap();
    let again = run(&spec, &out);
    assert!(trial.is_dir() && !again.output.contains(&told), "{again:?}");
}

/// Figures are of what came through: the reader of the page knows what did not.
#[test]
fn a_report_says_which_runs_are_missing() {
    let (spec, out) = place("experiment-missing", &SPEC.replace("min = 2", "min = 1"));
    let ended = run(&spec, &out);
    assert!(!ended.output.contains("are missing: "), "{ended:?}");
    let place = |folder: &str, run: &str| out.join(folder).join("workload=read,connections=3").join(run);
    // Another attempt, which failed.
    let refused = place("failed", "0-1");
    fs::create_dir_all(&refused).unwrap();
    fs::copy(place("trials", "0").join("trial.json"), refused.join("trial.json")).unwrap();
    let reported = Program::begin(&["report", out.to_str().unwrap()]).ended();
    let said = "1 run of workload read, connections 3 came through, and 1 attempt failed.";
    assert!(reported.success && reported.output.contains(said), "{reported:?}");
    fs::remove_dir_all(refused).unwrap();
    fs::rename(place("trials", "0"), place("failed", "0-0")).unwrap();
    let reported = Program::begin(&["report", out.to_str().unwrap()]).ended();
    let said = "Runs of workload read, connections 3 are missing: 0 of 1 are complete, and 1 attempt failed.";
    assert!(reported.success && reported.output.contains(said), "{reported:?}");
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains(said));
    let read = results(&out)["verdicts"][0].clone();
    assert_eq!((&read["at"]["clients"], &read["missing"][0]), (&1.into(), &3.into()), "{read}");
}

/// A script that changes its spec does not lose what was measured.
#[test]
fn trials_of_another_plan_are_replaced_on_request_alone() {
    let one = SPEC.replace("min = 2", "min = 1").replace("levels = [1, 3]", "levels = [1]");
    let (spec, out) = place("experiment-another-plan", &one);
    run(&spec, &out);
    let there = || (trials(&out), fs::read(out.join("spec.toml")).unwrap());
    let before = there();
    fs::write(&spec, one.replace("\"--workers\", \"2\"", "\"--workers\", \"3\"")).unwrap();
    let refused = begin(&spec, &out).ended();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.errors.contains("2 trials would be replaced"), "{refused:?}");
    assert!(refused.errors.contains("hint: --yes replaces them; --out takes another"), "{refused:?}");
    assert!(there() == before, "nothing was changed");
    let words = ["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap(), "--yes"];
    let mut asks = OnTerminal::begin(80, &words[..4]);
    asks.shows(&["Replace 2? [y/N]"]);
    asks.signal(Signal::TERM);
    assert_eq!(asks.ended().signal(), Some(Signal::TERM.as_raw()));
    assert!(there() == before, "nothing was changed");
    let replaced = Program::begin(&words).ended_within(LONG);
    assert!(replaced.success && there().0 != before.0, "{replaced:?}");
}

/// A cell is of one system, unless the user wants it otherwise.
#[test]
fn trials_of_another_system_are_not_added_to_without_a_word() {
    let one = SPEC.replace("min = 2", "min = 1").replace("levels = [1, 3]", "levels = [1]");
    let (spec, out) = place("experiment-another-system", &one);
    run(&spec, &out);
    let file = out.join("environment.json");
    let mut environment = json(&file);
    let here = environment["kernel"].as_str().unwrap().to_owned();
    environment["kernel"] = "Linux 1.0".into();
    environment["cores"] = 1_000.into();
    fs::write(&file, environment.to_string()).unwrap();
    let lost = trials(&out).into_keys().next().unwrap();
    fs::remove_dir_all(&lost).unwrap();
    let kept = || fs::read_to_string(out.join("spec.toml")).unwrap();
    fs::write(&spec, format!("{one}\n# As of today.\n")).unwrap();
    let refused = begin(&spec, &out).ended();
    assert!(refused.code == Some(2) && !lost.exists() && kept() == one, "{refused:?}");
    let said =
        format!("measured on another system: system was `Linux 1.0` and is `{here}`; processors were 1000");
    assert!(refused.errors.contains(&said) && refused.errors.contains("--yes goes on"), "{refused:?}");
    let words = ["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap(), "--yes"];
    let ended = Program::begin(&words).ended_within(LONG);
    assert!(ended.success && lost.is_dir(), "{ended:?}");
    let both = format!("Linux 1.0 and {here}");
    assert_eq!(json(&out.join("results.json"))["environment"]["kernel"].as_str(), Some(&*both));
    run(&spec, &out);
}

/// What was built anew has the path and the version of the one before.
#[test]
fn trials_of_another_build_are_not_added_to_without_a_word() {
    let one = SPEC.replace("min = 2", "min = 1").replace("levels = [1, 3]", "levels = [1]");
    let (spec, out) = place("experiment-another-build", &one);
    let program = spec.with_file_name("store");
    let build = |line: &str| {
        let krarup = env!("CARGO_BIN_EXE_krarup");
        let text = format!("#!/bin/sh\n{line}\nexec {krarup} cache --listen \"$1\"\n");
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let command = format!("command = [{program:?}, \"{{host}}:{{port}}\"]");
    fs::write(&spec, one.replace("program = \"cache\"", &command)).unwrap();
    build("# 1");
    run(&spec, &out);
    let before = trials(&out);
    let same = run(&spec, &out);
    let said = "2 trials of this plan are there already: kept, and not run again";
    assert!(same.errors.contains(said) && trials(&out) == before, "{same:?}");
    let refused = || {
        let refused = begin(&spec, &out).ended();
        let said = format!("{} build was `", program.display());
        assert!(refused.code == Some(2) && refused.errors.contains(&said), "{refused:?}");
    };
    build("# 2");
    refused();
    assert!(trials(&out) == before, "nothing was run");
    // As an earlier version left it, which wrote down no builds.
    let file = out.join("environment.json");
    let mut environment = json(&file);
    let versions = environment["versions"].as_array_mut().unwrap();
    let all = versions.len();
    versions.retain(|one| !one[0].as_str().unwrap().ends_with(" build"));
    assert_eq!(all - versions.len(), 2, "krarup's and the server's");
    fs::write(&file, environment.to_string()).unwrap();
    for trial in before.keys() {
        let file = trial.join("trial.json");
        let mut manifest = json(&file);
        let names = manifest["system"]["names"].as_object_mut().unwrap();
        names.retain(|name, _| !name.ends_with(" build"));
        fs::write(&file, manifest.to_string()).unwrap();
    }
    // What runs nothing measured none of them.
    for number in ["# 2", "# 3"] {
        build(number);
        let ended = run(&spec, &out);
        assert!(!ended.errors.contains("did not write down which builds"), "{ended:?}");
        assert_eq!(json(&file), environment);
    }
    let lost = || fs::remove_dir_all(before.keys().next().unwrap()).unwrap();
    lost();
    let ended = run(&spec, &out);
    assert!(ended.errors.contains("did not write down which builds"), "{ended:?}");
    let results = json(&out.join("results.json"));
    assert!(results["environment"]["versions"].to_string().contains("not known and "), "{results}");
    let ended = run(&spec, &out);
    assert!(!ended.errors.contains("did not write down which builds"), "{ended:?}");
    // Anew each time it is started.
    build("echo '#' >> \"$0\"");
    refused();
    lost();
    let words = ["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap(), "--yes"];
    let ended = Program::begin(&words).ended_within(LONG);
    let said = format!("{} build changed while trials ran", program.display());
    assert!(ended.success && ended.errors.contains(&said), "{ended:?}");
}

/// Nor where they were in no plan while those of another system were measured.
#[test]
fn trials_that_are_taken_up_after_another_system_was_measured_are_not_added_to_without_a_word() {
    let of = |levels: &str| SPEC.replace("min = 2", "min = 1").replace("levels = [1, 3]", levels);
    let (spec, out) = place("experiment-taken-up", &of("levels = [1]"));
    run(&spec, &out);
    let environment = || json(&out.join("environment.json"))["kernel"].as_str().unwrap().to_owned();
    let here = environment();
    for trial in trials(&out).into_keys() {
        let file = trial.join("trial.json");
        let mut manifest = json(&file);
        assert_eq!(manifest["system"]["names"]["system"].as_str(), Some(&*here), "{manifest}");
        manifest["system"]["names"]["system"] = "Linux 1.0".into();
        fs::write(&file, manifest.to_string()).unwrap();
    }
    fs::write(&spec, of("levels = [3]")).unwrap();
    run(&spec, &out);
    assert_eq!(environment(), here, "the others are in no figure");
    fs::write(&spec, of("levels = [1, 3]")).unwrap();
    let refused = begin(&spec, &out).ended();
    let said = format!("measured on another system: system was `Linux 1.0` and is `{here}`");
    assert!(refused.code == Some(2) && refused.errors.contains(&said), "{refused:?}");
    let words = ["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap(), "--yes"];
    let ended = Program::begin(&words).ended_within(LONG);
    assert!(ended.success && ended.errors.contains("Linux 1.0"), "{ended:?}");
    assert_eq!(environment(), format!("{here} and Linux 1.0"));
    run(&spec, &out);
}

#[test]
fn a_plan_on_a_terminal_breaks_its_lines_between_words() {
    let mut terminal = OnTerminal::begin(60, &["plan", "tails"]);
    terminal.shows(&["block 2: ", " trials, "]);
    let screen = terminal.screen();
    let wide: Vec<_> = screen.lines().filter(|line| line.chars().count() > 60).collect();
    assert!(wide.is_empty() && screen.contains("fault: "), "{wide:?}\n{screen}");
}

/// A run shows on its first line what its load generators say now, before any trial is complete.
#[test]
fn a_run_on_a_terminal_shows_the_figures_of_the_trial_that_runs() {
    let long = SPEC.replace("min = 2", "min = 1").replace("measure = \"100ms\"", "measure = \"60s\"");
    let (spec, out) = place("experiment-figures", &long);
    let words = ["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let mut terminal = OnTerminal::begin(80, &words);
    terminal.shows(&["0/4 ", ", run 1: ", "/s, ", " left"]);
    let screen = terminal.screen();
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    terminal.signal(Signal::INT);
    terminal.shows(&["stopped on request"]);
}

/// Only the next run can clean up after a kill -9.
#[test]
fn a_killed_runner_is_taken_up_where_it_was() {
    let (spec, out) = place("experiment-killed", &SPEC.replace("100ms", "150ms"));
    let mut killed = begin(&spec, &out);
    killed.says_text("4/8 ");
    killed.signal(Signal::KILL);
    killed.ended();
    let noted = fs::read_to_string(out.join("processes")).unwrap();
    let done = trials(&out);
    assert!((3..8).contains(&done.len()), "{:?}", done.keys());
    let ended = run(&spec, &out);
    let all = trials(&out);
    assert_eq!(all.len(), 8);
    assert!(done.iter().all(|(name, files)| all[name] == *files), "what was complete is as it was");
    let first = format!("{}/8 workload", done.len() + 1);
    assert!(ended.errors.contains(&first), "{first}: {ended:?}");
    let left: Vec<&str> = noted.lines().filter(|line| still_runs(line)).collect();
    assert!(left.is_empty(), "{left:?}");
    // Also what was started and not yet written down.
    assert_eq!(naming(&out), Vec::<String>::new());
}

/// The command lines of processes that name a folder.
fn naming(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    processes().map(|(_, words)| words).filter(|words| words.contains(folder)).collect()
}

#[test]
fn ctrl_c_keeps_what_is_complete_and_says_how_to_go_on() {
    let (spec, out) = place("experiment-stopped", SPEC);
    let mut stopped = begin(&spec, &out);
    stopped.says_text("3/8 ");
    stopped.signal(Signal::INT);
    let ended = stopped.ended();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(
        (ended.errors.contains("trials are kept") || ended.errors.contains("1 trial is kept"))
            && ended.errors.contains("hint: the same command goes on"),
        "{ended:?}"
    );
    assert!(trials(&out).len() >= 2);
    run(&spec, &out);
    assert_eq!(trials(&out).len(), 8);
    // What was found in trials of another plan is said of none of these.
    let directory = out.to_str().unwrap();
    let compared = || Program::begin(&["compare", directory, directory]).ended();
    assert_eq!(compared().code, Some(0));
    fs::write(&spec, SPEC.replace("\"--workers\", \"2\"", "\"--workers\", \"3\"")).unwrap();
    let mut stopped = Program::begin(&["run", spec.to_str().unwrap(), "--out", directory, "--yes"]);
    stopped.says_text("2/8 ");
    stopped.signal(Signal::INT);
    assert_eq!(stopped.ended().code, Some(130));
    let refused = compared();
    let hint = format!("hint: `krarup report {directory}` makes them");
    assert!(refused.code == Some(2) && refused.errors.contains(&hint), "{refused:?}");
    let reported = Program::begin(&["report", directory]).ended();
    assert!(reported.success && compared().code == Some(0), "{reported:?}");
}

/// As nohup starts it, it goes on where its terminal is gone.
#[test]
fn a_hang_up_that_is_ignored_ends_no_experiment() {
    let one = SPEC.replace("min = 2", "min = 1").replace("levels = [1, 3]", "levels = [1]");
    let (spec, out) = place("experiment-nohup", &one);
    let words = ["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let mut running = Program::ignoring_hang_ups(&words);
    running.says_text("1/2 ");
    running.signal(Signal::HUP);
    let ended = running.ended_within(LONG);
    assert!(ended.success, "{ended:?}");
    assert_eq!(trials(&out).len(), 2);
}

const RUNNING_SERVER: &str = r#"
title = "a server that runs already"
retries = 0
repetitions = { min = 1 }
phases = { warm_up = "$warm_up", measure = "$measure" }
population = "connections"

[[factor]]
name = "connections"
levels = [1]

[stations.servers]
addresses = ["$address"]
[stations.clients]
program = "load"
flags = ["--ratio", "0:1", "--connections", "$connections"]
"#;

/// The process that is told this word.
fn process_with(word: &str) -> Pid {
    let (number, _) = processes().find(|(_, words)| words.split(' ').any(|one| one == word)).unwrap();
    Pid::from_raw(number).unwrap()
}

/// A load that is asked to end reports all the same: its trial would be shorter than the others, or
/// measured cold, and nothing would say so.
#[test]
fn a_trial_whose_load_was_stopped_before_its_end_has_failed() {
    for (warm_up, measure) in [("0s", "600s"), ("600s", "100ms")] {
        let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
        let address = server.address().to_string();
        let text = RUNNING_SERVER.replace("$warm_up", warm_up).replace("$measure", measure);
        let (spec, out) = place("experiment-load-stopped", &text.replace("$address", &address));
        let running = begin(&spec, &out);
        let mut peer = server.connect();
        support::until("the load has begun", || peer.count("cmd_get") > 0);
        kill_process(process_with(&address), Signal::TERM).unwrap();
        let ended = running.ended();
        assert_eq!((ended.code, trials(&out).len()), (Some(1), 0), "{ended:?}");
        let failed = &json(&out.join("failed/connections=1/0-0/trial.json"))["failed"];
        assert!(failed.as_str().unwrap().ends_with("client 1 was stopped before its end"), "{failed}");
    }
}

/// What an anchor said when the others were run says nothing of the machine as it is now.
#[test]
fn trials_that_are_added_have_runs_of_the_anchor_beside_them() {
    let one = SPEC.replace("seed = 7", ANCHOR).replace("min = 2", "min = 1");
    let (spec, out) = place("experiment-added-anchor", &one.replace("levels = [1, 3]", "levels = [1]"));
    let runs = || results(&out)["anchor"]["runs"].as_array().unwrap().len();
    run(&spec, &out);
    assert_eq!(runs(), 2);
    fs::write(&spec, one).unwrap();
    run(&spec, &out);
    assert_eq!(runs(), 4);
}

/// What an anchor leaves out of the figures has decided, too, when cells had agreed.
#[test]
fn cells_that_agreed_in_what_an_anchor_leaves_out_have_ended_early() {
    let until = "min = 2, max = 3, until = \"cov(throughput) <= 100 %\"";
    let (spec, out) = place("experiment-agreed", &SPEC.replace("seed = 7", ANCHOR).replace("min = 2", until));
    run(&spec, &out);
    for entry in fs::read_dir(out.join("trials/workload=read,connections=1")).unwrap() {
        let trial = entry.unwrap().path();
        let name = trial.file_name().unwrap().to_str().unwrap();
        if name.starts_with("anchor-") {
            let file = trial.join("trial.json");
            let mut manifest = json(&file);
            let rate = if name.starts_with("anchor-1-") { 500.0 } else { 1_000.0 };
            manifest["throughput"] = rate.into();
            fs::write(&file, manifest.to_string()).unwrap();
        }
    }
    let export = out.with_file_name("handed-in");
    let words = ["report", out.to_str().unwrap(), "--export", export.to_str().unwrap()];
    let ended = Program::begin(&words).ended();
    assert!(ended.success, "{ended:?}");
    let read = results(&out);
    assert_eq!(read["anchor"]["left_out"], serde_json::json!([1]));
    assert_eq!(read["ended_early"], true, "{}", read["cells"][0]["repetitions"]);
    let readme = fs::read_to_string(export.join("README")).unwrap();
    for (run, is_left_out) in [(0, false), (1, true)] {
        let head = format!("workload=write,connections=3/{run}: workload write, connections 3\n");
        let (_, rest) = readme.split_once(&head).unwrap();
        assert_eq!(rest.starts_with("  not in processed.log: the anchor says"), is_left_out, "{readme}");
    }
}

/// Also where it is a run of the anchor, which is no repetition of its cell.
#[test]
fn ctrl_c_keeps_a_run_of_the_anchor() {
    let spec = SPEC.replace("seed = 7", ANCHOR).replace("measure = \"100ms\"", "measure = \"1s\"");
    let (spec, out) = place("experiment-stopped-anchor", &spec);
    let mut stopped = begin(&spec, &out);
    stopped.says_text("2/12 ");
    stopped.signal(Signal::INT);
    let ended = stopped.ended();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(
        ended.errors.contains("1 trial is kept") || ended.errors.contains("trials are kept"),
        "{ended:?}"
    );
    assert!(out.join("trials/workload=read,connections=1/anchor-0-0").is_dir(), "{ended:?}");
}

#[test]
fn a_trial_that_does_not_pass_its_gates_is_kept_with_its_reason() {
    let spec = SPEC
        .replace("\"misses == 0\"", "\"generator_cpu < 0 %\"")
        .replace("seed = 7", "seed = 7\nretries = 1");
    let (spec, out) = place(
        "experiment-refused",
        &spec.replace("levels = [1, 3]", "levels = [1]").replace("min = 2", "min = 1"),
    );
    let ended = begin(&spec, &out).ended_within(LONG);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.errors.contains("generator_cpu is ") && ended.errors.contains("; trying again"),
        "{ended:?}"
    );
    assert!(ended.errors.contains("no trial is complete"), "{ended:?}");
    assert_eq!(trials(&out).len(), 0);
    let failed: serde_json::Value = serde_json::from_slice(
        &fs::read(out.join("failed/workload=read,connections=1/0-1/trial.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(failed["attempt"], 1);
    assert!(failed["failed"].as_str().unwrap().contains("must be < 0.0 %"));
}

/// What a load removes is there again when the next trial begins.
#[test]
fn keys_are_stored_anew_where_trials_remove_them() {
    let one = SPEC
        .replace(", { name = \"write\", words = [\"--ratio\", \"1:0\"] }", "")
        .replace("levels = [1, 3]", "levels = [1]")
        .replace("seed = 7", "seed = 7\nretries = 0")
        .replace("\"errors == 0\", \"misses == 0\"", "\"errors == 0\"");
    let removing = one.replace("\"--ratio\", \"0:1\"", "\"--mix\", \"get=9,delete=1\"");
    for (name, spec, stored) in [("stay", one, 1), ("go", removing, 2)] {
        let (spec, out) = place(&format!("experiment-keys-{name}"), &spec);
        run(&spec, &out);
        let done = trials(&out);
        assert_eq!(done.len(), 2);
        let stores = |manifest: &[u8]| String::from_utf8_lossy(manifest).contains("--populate-only");
        let times = done.values().filter(|[manifest, _]| stores(manifest)).count();
        assert_eq!(times, stored, "{name}");
    }
}

/// N = X (R + Z) holds for clients of several classes, and is asked of none that has a rate.
#[test]
fn classes_of_clients_keep_the_law_of_closed_loads() {
    let (spec, out) = place("experiment-classes", "");
    let classes = |name: &str, readers: &str| {
        let file = spec.with_file_name(name);
        let text = format!(
            "[classes.readers]\nconnections = 2\npipeline = 2\nratio = \"0:1\"\n{readers}\n\
             [classes.writers]\nconnections = 1\nratio = \"1:0\"\nthink = \"20ms\"\n"
        );
        fs::write(&file, text).unwrap();
        format!("{{ name = {name:?}, words = [\"--config\", {file:?}] }}")
    };
    let levels = [classes("closed", "think = \"5ms\""), classes("open", "rate = \"300\"")].join(", ");
    let text = format!(
        r#"
title = "classes"
repetitions = {{ min = 1 }}
phases = {{ warm_up = "50ms", measure = "1s" }}
gates = ["errors == 0", "interactive_law within 75 %"]
data = ["--keys", "200"]
[[factor]]
name = "classes"
levels = [{levels}]
[populate]
[stations.servers]
program = "cache"
count = 1
[stations.clients]
program = "load"
flags = ["$classes"]
"#
    );
    fs::write(&spec, text).unwrap();
    run(&spec, &out);
    let results = json(&out.join("results.json"));
    let [closed, open] = &results["cells"].as_array().unwrap()[..] else { panic!("{results}") };
    assert_eq!((&closed["levels"]["clients"], &closed["open"]), (&5.into(), &serde_json::Value::Null));
    // Of the requests that came: readers think 5 ms, the writer 20 ms.
    let load = json(&out.join("trials/classes=closed/0/load.json"));
    let count = |class: usize| load["classes"][class]["overall"]["count"].as_f64().unwrap();
    let (readers, writers) = (count(0), count(1));
    let mean = (0.005 * readers + 0.02 * writers) / (readers + writers);
    let think = closed["think"].as_f64().unwrap();
    assert!((think / mean - 1.0).abs() < 1e-6, "{think} and {mean}");
    assert_eq!((&open["open"], &open["think"]), (&true.into(), &0.0.into()));
}

#[test]
fn a_plan_shows_cells_order_and_time_and_an_error_its_line() {
    let (spec, _) = place("experiment-plan", SPEC);
    let plan = |path: &Path| Program::begin(&["plan", path.to_str().unwrap()]).ended();
    let shown = plan(&spec);
    assert!(shown.success && shown.output.contains("4 cells, 8 trials, about 4.40 s"), "{shown:?}");
    assert_eq!(shown.output.lines().filter(|line| line.starts_with("block ")).count(), 2);
    assert_eq!(plan(&spec).output, shown.output, "the same seed, the same order");
    fs::write(&spec, SPEC.replace("seed = 7", ANCHOR).replace("min = 2", "min = 2, max = 3")).unwrap();
    let shown = plan(&spec);
    let said = "4 cells, 8 trials and 4 runs of the anchor, at most 12 and 6, about 6.60 s";
    assert!(shown.success && shown.output.contains(said), "{shown:?}");
    fs::write(&spec, SPEC.replace("\"$connections\"", "\"$connection\"")).unwrap();
    let refused = plan(&spec);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.errors.contains("small.toml, line 14: factor `connections` is never used"),
        "{refused:?}"
    );
    assert!(refused.errors.contains("hint: write \"$connections\""), "{refused:?}");
    let nowhere = Program::begin(&["plan", "no-such-spec"]).ended();
    assert!(
        nowhere.errors.contains("there is no such file") && nowhere.errors.contains("demo"),
        "{nowhere:?}"
    );
}

#[test]
fn two_runs_of_one_spec_are_compared_with_intervals() {
    let (spec, one) = place("experiment-compared", SPEC);
    let two = one.with_file_name("again");
    run(&spec, &one);
    run(&spec, &two);
    let said = |more: &[&str]| {
        let ended =
            Program::begin(&[&["compare", one.to_str().unwrap(), two.to_str().unwrap()], more].concat())
                .ended();
        assert!(ended.success, "{ended:?}");
        ended.output
    };
    let text = said(&[]);
    assert!(text.contains("throughput: ") && text.contains("over 4 cells"), "{text}");
    assert!(text.contains("Of 12 comparisons at 95 %"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&said(&["--json"])).unwrap();
    assert_eq!((&json["base"], &json["other"]), (&"results".into(), &"again".into()));
    assert_eq!(json["cells"].as_array().unwrap().len(), 4);
    let change = &json["cells"][0]["changes"][0];
    let interval = &change["difference_interval"];
    assert!(interval["low"].as_f64().unwrap() < interval["high"].as_f64().unwrap(), "{change}");
    assert_eq!(said(&["--csv"]).lines().count(), 13);
    assert!(said(&["--markdown"]).contains("## Cell by cell"));
    let page = one.with_file_name("page");
    said(&["--html", page.to_str().unwrap()]);
    assert!(page.join("report.html").is_file() && page.join("figures/ratios.csv").is_file());
    assert_eq!(unread(&["compare", one.to_str().unwrap(), two.to_str().unwrap()]), Some(0));
    // The answers of a gate are there without its page.
    let (file, limit) = (one.join("results.json"), "throughput < -99%");
    let words = ["compare", one.to_str().unwrap(), two.to_str().unwrap(), "--fail-if", limit];
    let unwritten = Program::begin(&[&words[..], &["--html", file.to_str().unwrap()]].concat()).ended();
    assert!(unwritten.code == Some(2) && unwritten.output.contains(limit), "{unwritten:?}");
    // With itself nothing differs.
    let same = Program::begin(&["compare", one.to_str().unwrap(), one.to_str().unwrap()]).ended();
    assert!(!same.output.contains("better\n") && same.output.contains("no conclusion"), "{same:?}");
    // Cells of other names are no counterparts: nothing was compared.
    let other = one.with_file_name("other");
    fs::create_dir_all(&other).unwrap();
    let results = fs::read_to_string(two.join("results.json")).unwrap();
    fs::write(
        other.join("results.json"),
        results.replace("\"read\"", "\"gets\"").replace("\"write\"", "\"sets\""),
    )
    .unwrap();
    let apart = Program::begin(&["compare", one.to_str().unwrap(), other.to_str().unwrap()]).ended();
    assert!(apart.code == Some(2) && apart.errors.contains("have no cell in common"), "{apart:?}");
    let nothing = Program::begin(&["compare", one.to_str().unwrap(), "no-such-directory"]).ended();
    assert!(
        nothing.code == Some(2) && nothing.errors.contains("there is no such file or directory"),
        "{nothing:?}"
    );
}

/// What fails for certain is found before anything is started, by `plan` and by `run`.
#[test]
fn programs_that_are_not_there_and_flags_that_are_unknown_are_found_before_the_first_trial() {
    let left_out = format!("except = [{{ workload = \"read\", connections = 1 }}]\n{ANCHOR}");
    let changes = [
        (
            "\"--ratio\", \"1:0\"",
            "\"--ration\", \"1:0\"",
            "stations.clients, workload write, connections 1: there is no flag --ration",
        ),
        ("\"--verify\"]", "\"--key-law\", \"nope\"]", "nope"),
        (
            "\"--connections\", \"$connections\"",
            "\"--connections\", \"8\", \"--rate\", \"${connections}000\"",
            "`connections` does not set the number of clients: the cells `workload read, connections 1` and \
             `workload read, connections 3` have 8 of them each",
        ),
        (
            "program = \"cache\"",
            "command = [\"no-such-program\", \"{port}\"]",
            "there is no program `no-such-program` that can be run",
        ),
        (
            "program = \"proxy\"",
            "command = [\"/nowhere/proxy\"]",
            "there is no program `/nowhere/proxy` that can be run",
        ),
        ("seed = 7", left_out.as_str(), "the anchor is a combination that `except` leaves out"),
    ];
    for (number, (from, to, said)) in changes.into_iter().enumerate() {
        assert!(SPEC.contains(from), "{from}");
        let (spec, out) = place(&format!("experiment-certain-{number}"), &SPEC.replace(from, to));
        let spec = spec.to_str().unwrap();
        for job in [&["plan", spec][..], &["run", spec, "--out", out.to_str().unwrap()]] {
            let ended = Program::begin(job).ended();
            // A plan may be made for another machine: what is missing here is told, and no error.
            let code = if job[0] == "plan" && said.starts_with("there is no program") { 0 } else { 2 };
            assert!(ended.code == Some(code) && ended.errors.contains(said), "{job:?}: {ended:?}");
        }
        assert!(!out.exists(), "nothing was begun");
    }
}

#[test]
fn a_report_can_be_had_for_latex_as_markdown_and_under_the_names_of_handouts() {
    let (spec, out) = place("experiment-exported", SPEC);
    run(&spec, &out);
    let export = out.with_file_name("handed-in");
    let words =
        ["report", out.to_str().unwrap(), "--latex", "--markdown", "--export", export.to_str().unwrap()];
    let ended = Program::begin(&words).ended();
    assert!(ended.success, "{ended:?}");
    let table = fs::read_to_string(out.join("tables/all-cells.tex")).unwrap();
    assert!(table.contains("\\begin{tabular}{lrrrrrrrrrr}") && table.contains("\\bottomrule"), "{table}");
    assert!(fs::read_to_string(out.join("report.md")).unwrap().contains("## Where the time goes"));
    let read = |name: &str| fs::read_to_string(export.join(name)).unwrap();
    let client = read("workload=read,connections=3/1/client_01.log");
    let head = "1         Threads\n3         Connections per thread\n0.1       Seconds\n";
    assert!(client.starts_with(head) && client.contains("ALL STATS"), "{client}");
    assert!(read("workload=read,connections=3/1/mw_01.log").starts_with("start_ns,"));
    assert_eq!(read("processed.log").lines().count(), 5);
    assert!(read("README").contains("workload=write,connections=1/0: workload write, connections 1"));
    // The machine was watched in every trial.
    let watch =
        fs::read_to_string(out.join("trials/workload=read,connections=3/1/monitor/watch.json")).unwrap();
    assert!(watch.contains("\"foreign\""), "{watch}");
    let threads =
        fs::read_to_string(out.join("trials/workload=read,connections=3/1/monitor/threads.csv")).unwrap();
    assert!(
        threads.contains(",middleware 127.0.0.1:") && threads.contains(",server 127.0.0.1:"),
        "{threads}"
    );
    // A trial that cannot be read any more is left out, and keeps back no other.
    fs::write(out.join("trials/workload=read,connections=3/1/load.json"), "").unwrap();
    // So is one of which another file cannot be read, in the figures alone.
    fs::write(out.join("trials/workload=write,connections=1/0/cpu.json"), "").unwrap();
    let rest = out.with_file_name("rest");
    let words = ["report", out.to_str().unwrap(), "--export", rest.to_str().unwrap()];
    let ended = Program::begin(&words).ended();
    assert!(ended.success && ended.errors.contains("; its trial is left out"), "{ended:?}");
    let is_there = |run: &str| rest.join("workload=read,connections=3").join(run).exists();
    assert_eq!(["0", "1"].map(is_there), [true, false]);
    let readme = fs::read_to_string(rest.join("README")).unwrap();
    assert!(!readme.contains("workload=read,connections=3/1:"), "{readme}");
    let told =
        "workload=write,connections=1/0: workload write, connections 1\n  not in processed.log: what else";
    assert!(readme.contains(told) && readme.matches("not in processed.log").count() == 1, "{readme}");
}

/// Whatever prints as memtier_benchmark does may be the clients.
#[test]
fn clients_of_another_program_are_read_and_reported_like_ours() {
    let words = format!(
        "command = [{:?}, \"memtier\", \"-s\", \"{{host}}\", \"-p\", \"{{port}}\", \"--test-time={{seconds}}\", \"-t\", \"1\", \
         \"--json-out-file={{out}}\", \"--key-maximum=100\", \"--data-size=64\"]\nflags = [\"$workload\", \"-c\", \"$connections\"]",
        env!("CARGO_BIN_EXE_krarup")
    );
    let spec = SPEC
        .replace("program = \"load\"\nflags = [\"$workload\", \"--connections\", \"$connections\"]", &words)
        .replace("\"0:1\"", "\"1:9\"")
        .replace("\"errors == 0\", ", "")
        .replace("repetitions = { min = 2 }", "repetitions = { min = 1 }\nretries = 0")
        .replace("warm_up = \"50ms\", ", "")
        .replace("measure = \"100ms\"", "measure = \"1s\"")
        .replace("levels = [1, 3]", "levels = [3]")
        .replace("\"--keys\", \"200\", \"--verify\"", "\"--keys\", \"101\", \"--key-prefix\", \"memtier-\"");
    let (spec, out) = place("experiment-foreign", &spec);
    let ended = run(&spec, &out);
    assert!(ended.output.contains("read") && ended.output.contains("write"), "{ended:?}");
    let results: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    let cells = results["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let rate = cell["throughput"]["value"].as_f64().unwrap();
        let response = cell["response"]["mean"]["value"].as_f64().unwrap();
        let clients = cell["levels"]["clients"].as_f64().unwrap();
        // It sleeps nowhere: N = X R, but for what was under way at an end, which may be a stall.
        assert!((0.3..2.0).contains(&(rate * response / clients)), "{rate} {response} {clients}");
        assert!(cell["middleware"]["queue"]["mean"]["value"].as_f64().is_some());
        assert!(!cell["histogram"]["counts"].as_array().unwrap().is_empty());
    }
    let load = cells[0]["load"].as_array().unwrap();
    assert!(
        load.iter().any(|one| one["station"] == "clients" && one["busy"].as_f64().unwrap() > 0.0),
        "{load:?}"
    );
    let export = out.with_file_name("handed-in");
    let words = ["report", out.to_str().unwrap(), "--export", export.to_str().unwrap()];
    let ended = Program::begin(&words).ended();
    assert!(ended.success, "{ended:?}");
    let trial = "workload=read,connections=3/0";
    let written = fs::read(out.join("trials").join(trial).join("said/1")).unwrap();
    assert!(!written.is_empty() && fs::read(export.join(trial).join("client_01.log")).unwrap() == written);
    let (wrong, _) =
        place("experiment-foreign-wrong", &SPEC.replace("program = \"load\"", "command = [\"memtier\"]"));
    let refused = Program::begin(&["plan", wrong.to_str().unwrap()]).ended();
    assert!(refused.errors.contains("{seconds}"), "{refused:?}");
}

const BROKERS: &str = r#"
title = "two brokers before one database"
repetitions = { min = 1 }
phases = { warm_up = "50ms", measure = "400ms" }
gates = ["errors == 0"]
data = ["--data-size", "20", "--tubes", "20"]

[[factor]]
name = "clients"
levels = [2, 4, 8, 16]

[stations.servers]
program = "postgres"
flags = ["-c", "fsync=off"]
[stations.middleware]
program = "broker"
count = 2
flags = ["--mode", "direct", "--pool", "2", "--rows", "{records}/rows.parquet"]
[stations.clients]
program = "load"
flags = ["--mix", "send=1,pop-tube=1,list-tubes-for-me=1", "--connections", "$clients"]
"#;

#[test]
fn a_password_that_would_be_kept_with_every_trial_is_warned_of() {
    let (head, rest) = BROKERS.split_once("[stations.servers]").unwrap();
    let (_, clients) = rest.split_once("[stations.clients]").unwrap();
    for (flags, warns) in [
        ("\"--store\", \"postgres://k:hidden@127.0.0.1:1/q\"", true),
        ("\"--store=host=127.0.0.1 user=k password=hidden\"", true),
        ("\"--store\", \"postgres://k@127.0.0.1:1/q\"", false),
        ("\"--store-file\", \"/etc/krarup/store\"", false),
    ] {
        let servers = format!("[stations.servers]\nprogram = \"broker\"\ncount = 1\nflags = [{flags}]\n");
        let text = format!("{head}{servers}[stations.clients]{clients}");
        let (spec, _) = place("experiment-password", &text);
        let ended = Program::begin(&["plan", spec.to_str().unwrap()]).ended();
        let warned = ended.errors.contains("--store-file FILE");
        assert!(ended.success && warned == warns && !ended.errors.contains("hidden"), "{flags}: {ended:?}");
    }
}

/// Neither where the run is stopped while it is made nor, once the next begins, of one that was
/// killed.
#[test]
fn no_database_of_an_experiment_is_left() {
    if postgres_programs().is_none() {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    }
    // A short name: there is a socket in it.
    let folder = std::env::temp_dir().join(format!("krarup-dbs-{}", test_id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let databases = || {
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with("krarup-broker-")).count()
    };
    let (spec, out) = place("experiment-database", &BROKERS.replace("[2, 4, 8, 16]", "[2, 4]"));
    let begin = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
        command.args(["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        command.env("TMPDIR", &folder);
        Program::spawn(command)
    };
    let stopped = begin();
    support::until("the database is being made", || databases() > 0);
    stopped.signal(Signal::INT);
    let ended = stopped.ended();
    assert_eq!((ended.code, databases()), (Some(130), 0), "{ended:?}");
    let mut killed = begin();
    killed.says_text("2/2 ");
    killed.signal(Signal::KILL);
    killed.ended();
    assert_eq!(databases(), 1);
    let ended = begin().ended_within(LONG);
    assert!(ended.success && databases() == 0, "{ended:?}");
    fs::remove_dir_all(folder).unwrap();
}

/// The middleware of message queues, as clients, brokers and database on hosts of their own: what
/// brokers record is read like what proxies record, and models are made of it.
#[test]
fn brokers_stand_between_clients_and_one_database() {
    let owned = BROKERS.replace("\"--mode\", \"direct\", ", "");
    let (spec, _) = place("experiment-brokers-owned", &owned);
    let ended = Program::begin(&["plan", spec.to_str().unwrap()]).ended();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.errors.contains("one owns all queues") && ended.errors.contains("\"direct\""), "{ended:?}");
    if postgres_programs().is_none() {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    }
    let (spec, out) = place("experiment-brokers", BROKERS);
    run(&spec, &out);
    let cell = &results(&out)["cells"][1];
    assert_eq!(cell["middleware"]["workers"], 4, "two pools of two: {cell}");
    let mean = |of: &str| cell["middleware"][of]["mean"]["value"].as_f64().unwrap();
    assert!(mean("server") > 0.0 && mean("response") > mean("server"), "{cell}");
    let busy = |station: &str| {
        let all = cell["load"].as_array().unwrap().iter();
        all.filter(|one| one["station"] == station).map(|one| one["busy"].as_f64().unwrap()).sum::<f64>()
    };
    assert!(busy("server") > 0.0 && busy("middleware") > 0.0, "{cell}");
    // Making the queues and logging in came before what is measured: 20 commits and more.
    let trial = out.join("trials/clients=4/0");
    let counted = |number: u32| -> u64 {
        let text = fs::read_to_string(trial.join(format!("middleware/{number}/summary.json"))).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(summary["servers"].as_array().unwrap().len(), 1, "{summary}");
        summary["all"]["count"].as_u64().unwrap()
    };
    let load: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(trial.join("load.json")).unwrap()).unwrap();
    let answered = load["account"]["answered"].as_u64().unwrap();
    assert!((answered..answered + 10).contains(&(counted(1) + counted(2))), "{answered} by {load}");
    let environment = fs::read_to_string(out.join("environment.json")).unwrap();
    assert!(environment.contains("postgres (PostgreSQL) "), "{environment}");
    let trials = out.join("trials");
    let (trials, model) = (trials.to_str().unwrap(), out.join("model.json"));
    let calibrate = ["model", "calibrate", "--json", "--out", model.to_str().unwrap(), trials];
    let model = Program::begin(&calibrate).ended();
    assert!(model.success && model.output.contains("\"workers\": 4"), "{model:?}");
}

const TWEMPROXY: &str = r#"
title = "a proxy of others"
repetitions = { min = 1 }
phases = { warm_up = "50ms", measure = "300ms" }
gates = ["errors == 0", "misses == 0"]
retries = 0
data = ["--keys", "300"]

[[factor]]
name = "connections_to_servers"
levels = [1, 3]
[[factor]]
name = "clients"
levels = [2, 4, 8]

[populate]
[stations.servers]
program = "memcached"
count = 2
[stations.middleware]
program = "twemproxy"
count = 2
config = """
hash: murmur
server_connections: $connections_to_servers
"""
[stations.clients]
program = "load"
flags = ["--ratio", "1:3", "--connections", "$clients"]
"#;

/// Two of them before two servers: what it is told, what it counts, and a model of what its clients
/// see.
#[test]
fn twemproxy_stands_between_clients_and_servers() {
    for (from, to, what, hint) in [
        ("hash: murmur", "threads: 4", "twemproxy has no `threads`", "one thread"),
        (
            "count = 2\nconfig",
            "count = 2\nflags = [\"--workers\", \"8\"]\nconfig",
            "takes no `--workers`",
            "-m",
        ),
        ("levels = [1, 3]", "levels = [0]", "`0` is no server_connections", "1 or more"),
    ] {
        let (spec, _) = place("experiment-twemproxy-wrong", &TWEMPROXY.replace(from, to));
        let ended = Program::begin(&["plan", spec.to_str().unwrap()]).ended();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.errors.contains(what) && ended.errors.contains(hint), "{ended:?}");
    }
    if !is_installed("nutcracker") || !is_installed("memcached") {
        return;
    }
    let (spec, out) = place("experiment-twemproxy", TWEMPROXY);
    run(&spec, &out);
    let results = results(&out);
    let cell = &results["cells"][5];
    assert!(cell["middleware"].is_null() && cell["errors"] == 0, "{cell}");
    let busy = cell["load"].as_array().unwrap().iter();
    let busy = busy.filter(|one| one["station"] == "middleware" && one["busy"].as_f64().unwrap() > 0.0);
    let names: Vec<&str> = busy.map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["twemproxy 1", "twemproxy 2"], "{cell}");
    assert_eq!(cell["servers"].as_array().unwrap().len(), 2, "{cell}");

    let trial = out.join("trials/connections_to_servers=3,clients=8/0");
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let counted: Vec<(u64, u64)> = (1..=2)
        .flat_map(|number| {
            let counts = json(&trial.join(format!("middleware/{number}.counts.json")));
            counts["servers"].as_array().unwrap().clone()
        })
        .map(|server| (number(&server["requests"]), number(&server["responses"])))
        .collect();
    assert!(counted.len() == 4 && counted.iter().all(|(asked, answered)| asked == answered && *asked > 0));
    // The warm-up is not counted, and nothing that was measured is missing.
    let answered = number(&json(&trial.join("load.json"))["account"]["answered"]);
    let asked: u64 = counted.iter().map(|(asked, _)| asked).sum();
    assert!((answered..answered + 20).contains(&asked), "{asked} of {answered}");
    let config = fs::read_to_string(trial.join("middleware/2.conf")).unwrap();
    assert!(config.contains("server_connections: 3\n") && config.contains(":1 server2\n"), "{config}");
    assert!(trial.join("middleware/2.log").is_file());

    let of = |connections: u32, clients: u32| {
        let folder = format!("trials/connections_to_servers={connections},clients={clients}");
        out.join(folder).to_str().unwrap().to_owned()
    };
    let one = [2, 4, 8].map(|clients| of(1, clients));
    let model = out.join("model.json");
    let model = model.to_str().unwrap();
    let calibrate = ["model", "calibrate", "--json", "--out", model];
    let words: Vec<&str> = calibrate.into_iter().chain(one.iter().map(String::as_str)).collect();
    let ended = Program::begin(&words).ended();
    assert!(ended.success && ended.output.contains("no middleware of ours was in these runs"), "{ended:?}");
    let row = &ended.json()["rows"][2];
    assert_eq!((&row["population"], &row["workers"], &row["cores"]), (&8.into(), &8.into(), &1.into()));
    let predicted = Program::begin(&["model", "predict", model, "--population", "3", "--json"]).ended();
    assert!(predicted.success, "{predicted:?}");
    let predicted = &predicted.json()["predictions"][0];
    assert!(predicted["throughput"]["value"].as_f64().unwrap() > 0.0, "{predicted}");
    assert_eq!(predicted["answer"]["workers"], 3, "{predicted}");
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        skipped(&format!("{program} is not in PATH"));
    }
    found
}

fn results(out: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(out.join("results.json")).unwrap()).unwrap()
}

/// The guide's examples: the program of each, and a whole spec with it in the place of the whole
/// example's.
fn examples() -> Vec<(String, String)> {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/your-own-proxy.md");
    let guide = fs::read_to_string(guide).unwrap();
    let blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    // Ours, for the comparison, is started by its name.
    let blocks: Vec<&str> = blocks.filter(|block| block.contains("command = [\"")).collect();
    let whole = blocks.iter().find(|block| block.contains("title = ")).unwrap();
    let middleware = whole.find("[stations.middleware]").unwrap();
    let clients = whole.find("[stations.clients]").unwrap();
    let example = |block: &&str| {
        // The factor that only the whole example knows goes with the middleware that has it.
        let [before, after] = if block.contains("title = ") {
            ["", ""]
        } else if block.contains("[stations.middleware]") {
            [&whole[..middleware], &whole[clients..]]
        } else {
            [&whole[..clients], ""]
        };
        let mut text = format!("{before}{block}{after}");
        if block.contains("[stations.clients]\ncommand") {
            text = text.replace("\"errors == 0\", ", "");
        }
        if !text.contains("$connections_to_servers") {
            text = text.replace("[[factor]]\nname = \"connections_to_servers\"\nlevels = [1, 4]\n", "");
        }
        let program = block.split("command = [\"").nth(1).unwrap().split('"').next().unwrap();
        (program.to_owned(), text)
    };
    blocks.iter().map(example).collect()
}

#[test]
fn every_example_of_the_guide_to_other_programs_can_be_planned() {
    let mut programs = Vec::new();
    for (program, text) in examples() {
        let (spec, _) = place(&format!("experiment-guide-{}", programs.len()), &text);
        let planned = Program::begin(&["plan", spec.to_str().unwrap()]).ended();
        assert!(planned.success && planned.output.contains(" cells, "), "{text}\n{planned:?}");
        programs.push(program);
    }
    assert_eq!(programs, ["my-proxy", "nutcracker", "mcrouter", "memcached", "memcaslap"]);
}

/// Whether the installed memcached was built with its proxy.
fn memcached_has_its_proxy() -> bool {
    let help = || Command::new("memcached").arg("-h").output().unwrap().stdout;
    let has = is_installed("memcached") && String::from_utf8_lossy(&help()).contains("proxy_config");
    if !has {
        skipped("no memcached that was built with its proxy");
    }
    has
}

/// The specs of the guide, as they stand there, but shorter.
fn stands_in_the_middle(program: &str, cells: usize) {
    let (_, mut spec) = examples().into_iter().find(|(of, _)| of == program).unwrap();
    for (long, short) in [
        ("repetitions = { min = 3 }", "repetitions = { min = 1 }"),
        ("warm_up = \"1s\", measure = \"5s\"", "warm_up = \"50ms\", measure = \"500ms\""),
        ("levels = [4, 32]", "levels = [3]"),
        ("program = \"auto\"", "program = \"cache\""),
        ("\"misses == 0\"]", "\"misses == 0\"]\nretries = 0"),
    ] {
        assert!(spec.contains(long), "{long}");
        spec = spec.replace(long, short);
    }
    let (spec, out) = place(&format!("experiment-{program}"), &spec);
    let ended = run(&spec, &out);
    let results = results(&out);
    let all = results["cells"].as_array().unwrap();
    assert_eq!(all.len(), cells, "{ended:?}");
    for cell in all {
        assert!(cell["completed"].as_u64().unwrap() > 0 && cell["errors"] == 0, "{cell}");
        assert!(cell["middleware"].is_null(), "its stamps were not asked for");
    }
    assert!(out.join("report.html").is_file());
}

#[test]
fn twemproxy_stands_in_the_middle_as_the_guide_says() {
    if is_installed("nutcracker") {
        stands_in_the_middle("nutcracker", 2);
    }
}

#[test]
fn memcacheds_own_proxy_stands_in_the_middle_as_the_guide_says() {
    if memcached_has_its_proxy() {
        stands_in_the_middle("memcached", 1);
    }
}

#[test]
fn mcrouter_stands_in_the_middle_as_the_guide_says() {
    if is_installed("mcrouter") {
        stands_in_the_middle("mcrouter", 1);
    }
}

/// The whole example of the guide to experiments: its words are those of memtier_benchmark 2.
#[test]
fn memtier_makes_the_load_and_is_read() {
    if !is_installed("memtier_benchmark") {
        return;
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/experiment.md");
    let guide = fs::read_to_string(guide).unwrap();
    let clients = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let clients = clients.into_iter().find(|block| block.contains("memtier_benchmark")).unwrap();
    let before = &SPEC[..SPEC.find("[stations.clients]").unwrap()];
    let spec = format!("{before}{}", clients.replace("$clients", "$connections"))
        .replace("levels = [{ name = \"read\", words = [\"--ratio\", \"0:1\"] }, { name = \"write\", words = [\"--ratio\", \"1:0\"] }]",
            "levels = [{ name = \"mixed\", words = [\"--ratio=1:9\"] }]")
        .replace("repetitions = { min = 2 }", "repetitions = { min = 1 }\nretries = 0")
        .replace("warm_up = \"50ms\", ", "warm_up = 0, ")
        .replace("levels = [1, 3]", "levels = [3]")
        .replace("\"--keys\", \"200\", \"--verify\"", "\"--keys\", \"10000\", \"--key-prefix\", \"memtier-\"");
    let (spec, out) = place("experiment-memtier", &spec);
    run(&spec, &out);
    let cell = &results(&out)["cells"][0];
    assert_eq!(cell["hit_ratio"], 1.0, "{cell}");
    let (rate, response) = (&cell["throughput"]["value"], &cell["response"]["mean"]["value"]);
    // Three connections that sleep nowhere: N = X R, but for what was under way at an end.
    let under_way = rate.as_f64().unwrap() * response.as_f64().unwrap();
    assert!((0.3..2.0).contains(&(under_way / 3.0)), "{cell}");
    assert!(cell["response"]["p99"]["value"].as_f64().unwrap() > 0.0, "{cell}");
}

/// Two of them, which cannot be told when to begin: each is begun at the same instant.
#[test]
fn memaslap_makes_the_load_and_is_read() {
    if !is_installed("memcaslap") {
        return;
    }
    let spec = SPEC
        .replace(
            "program = \"load\"\nflags = [\"$workload\", \"--connections\", \"$connections\"]",
            "count = 2\ncommand = [\"memcaslap\", \"-s\", \"{host}:{port}\", \"-T\", \"1\", \"-t\", \"{seconds}s\", \"-S\", \"1s\"]\n\
             flags = [\"$workload\", \"-c\", \"$connections\"]",
        )
        .replace("\"--ratio\", \"0:1\"", "\"-o\", \"0.9\"")
        .replace("{ name = \"write\", words = [\"--ratio\", \"1:0\"] }", "")
        .replace("repetitions = { min = 2 }", "repetitions = { min = 1 }")
        .replace("gates = [\"errors == 0\", \"misses == 0\"]", "gates = []")
        .replace("warm_up = \"50ms\", measure = \"100ms\"", "warm_up = \"0s\", measure = \"1s\"")
        .replace("levels = [1, 3]", "levels = [4]")
        .replace("[populate]\n", "");
    let (spec, out) = place("experiment-memaslap", &spec);
    run(&spec, &out);
    let results = results(&out);
    let cell = &results["cells"][0];
    assert!(cell["completed"].as_u64().unwrap() > 0 && cell["hit_ratio"].as_f64().unwrap() > 0.5, "{cell}");
    assert!(cell["response"]["mean"]["value"].as_f64().unwrap() > 0.0);
    let trial = fs::read_to_string(out.join("trials/workload=read,connections=4/0/trial.json")).unwrap();
    let waits = trial.lines().filter(|line| line.contains(" at ") && line.contains("memcaslap")).count();
    assert_eq!(waits, 2, "{trial}");
}

/// Everything that makes an experiment more than a sweep, in one: stations counted by a factor,
/// clients that begin together, a cool-down, the middleware's own configuration, an anchor, a
/// design of two levels and a model that predicts what it has not seen.
#[test]
fn a_design_with_an_anchor_and_a_model_is_reported_whole() {
    let spec = r#"
title = "servers and workers"
# Its two clients begin apart where the machine is busy.
retries = 20
repetitions = { min = 2 }
phases = { warm_up = 0, measure = "200ms", cool_down = "100ms" }
anchor = { levels = { servers = 1, workers = 4 }, within = 0.9 }
data = ["--keys", "200"]
population = "connections"
[[factor]]
name = "servers"
levels = [1, 2]
[[factor]]
name = "workers"
levels = [1, 4]
[[factor]]
name = "connections"
levels = [3]
[predictions]
cells = 3
[populate]
[stations.servers]
program = "cache"
count = "$servers"
[stations.middleware]
program = "proxy"
config = """
# at {host}, before {servers}
distribution = "consistent"
workers = $workers
"""
[stations.clients]
program = "load"
count = 2
flags = ["--connections", "$connections"]
"#;
    let (spec, out) = place("experiment-whole", spec);
    let ended = begin(&spec, &out).ended_within(LONG);
    assert!(ended.success, "{ended:?}");
    let inside = |name: &str| out.join("trials/servers=2,workers=4,connections=3").join(name);
    let configured = fs::read_to_string(inside("0/middleware/1.conf")).unwrap();
    assert!(configured.contains("workers = 4"), "{configured}");
    assert!(configured.starts_with("# at 127.0.0.1, before 127.0.0.1:"), "{configured}");
    let manifest = fs::read_to_string(inside("0/trial.json")).unwrap();
    assert_eq!(manifest.matches("krarup cache --").count(), 2, "{manifest}");
    let loads = [1, 2].map(|client| {
        let text = fs::read_to_string(inside(&format!("0/clients/{client}.json"))).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    });
    let instants = manifest.split("--start-at ").skip(1).map(|rest| &rest[..19]);
    assert_eq!(instants.collect::<BTreeSet<_>>().len(), 1, "one instant for both: {manifest}");
    // What is measured ends before the cool-down does.
    assert!(loads.iter().all(|load| (load["seconds"].as_f64().unwrap() - 0.2).abs() < 0.05), "{loads:?}");
    let results: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    assert_eq!(results["anchor"]["runs"].as_array().unwrap().len(), 2 * 2);
    let studies = results["studies"].as_array().unwrap();
    assert!(!studies.is_empty(), "servers and workers are a design of two levels");
    let predictions = results["predictions"].as_array().unwrap();
    assert_eq!(predictions.len(), 2, "a family for each number of servers");
    assert!(ended.output.contains("model of 1: No prediction: 2 cells"), "{}", ended.output);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for heading in ["What a model says", "Whether the machine stayed the same"] {
        assert!(page.contains(heading), "{heading}");
    }
}

/// Two copies of each key on three memcached: one is killed and comes back empty, then another
/// stands still for a while. Where the level says so, nothing happens.
#[test]
fn stations_are_killed_restarted_frozen_and_thawed_while_a_trial_is_measured() {
    let fault = |station: &str, at: &str, action: &str| {
        format!(
            "[[fault]]\nstation = \"{station}\"\nat = \"{at}\"\ndo = \"{action}\"\nwhen = {{ loss = \"some\" }}\n"
        )
    };
    let faults = [
        fault("server 2", "1s", "kill"),
        fault("server 2", "2s", "restart"),
        fault("server 1", "6s", "freeze"),
        fault("server 1", "7s", "thaw"),
    ];
    let spec = format!(
        r#"
title = "faults"
seed = 7
repetitions = {{ min = 1 }}
phases = {{ warm_up = "50ms", measure = "9s" }}
data = ["--keys", "300"]
[[factor]]
name = "loss"
levels = ["none", "some"]
[populate]
[stations.servers]
program = "memcached"
count = 3
[stations.middleware]
program = "proxy"
config = """
distribution = "rendezvous"
replicas = 2
"""
[stations.clients]
program = "load"
flags = ["--ratio", "0:1", "--connections", "2"]
{}"#,
        faults.concat()
    );
    let (spec, out) = place("experiment-faults", &spec);
    let shown = Program::begin(&["plan", spec.to_str().unwrap()]).ended();
    assert!(shown.output.contains("fault: kill server 2 at 1.00 s, with loss some\n"), "{shown:?}");
    let ended = run(&spec, &out);
    assert!(ended.output.contains("restart server 2"), "{ended:?}");
    let happened = json(&out.join("trials/loss=some/0/faults.json"));
    let told: Vec<(&str, &str)> = happened
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["do"].as_str().unwrap(), one["station"].as_str().unwrap()))
        .collect();
    let done = [("kill", "server 2"), ("restart", "server 2"), ("freeze", "server 1"), ("thaw", "server 1")];
    assert_eq!(told, done);
    assert!(!out.join("trials/loss=none/0/faults.json").exists());
    let results = json(&out.join("results.json"));
    let cells = results["cells"].as_array().unwrap();
    assert!(
        cells[0]["course"].is_null() && cells[0]["hit_ratio"] == 1.0 && cells[0]["errors"] == 0,
        "{}",
        cells[0]
    );
    let course = cells[1]["course"].as_array().unwrap();
    let gets = |place: usize| &course[place]["operations"][0];
    assert_eq!((course.len(), course[2]["after"].as_str()), (5, Some("restart server 2")), "{course:?}");
    // The server that has the other copy answers; the one that comes back has nothing, and is asked
    // for its share again.
    let missed = |place: usize| gets(place)["misses"].as_u64().unwrap();
    assert!(missed(0) == 0 && missed(1) < missed(2) && gets(2)["hits"].as_u64() > Some(0), "{course:?}");
    // Two clients, and a server that says nothing: sooner or later both wait for it.
    let answered = |place: usize| gets(place)["completed"].as_u64().unwrap_or(0);
    assert!(answered(3) < answered(2) && answered(4) > 0, "{course:?}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Before and after each fault") && page.contains("freeze server 1"));
}

/// On another machine the agent that started a station does to it what it is told, and says when
/// that is done.
#[test]
fn an_agent_freezes_thaws_and_kills_what_it_has_started() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;

    let folder = fresh("experiment-agent");
    let words = ["agent", "run", "--run", folder.to_str().unwrap(), "--", "sleep", "600"];
    let mut agent = Command::new(env!("CARGO_BIN_EXE_krarup"))
        .args(words)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(agent.stderr.take().unwrap()).lines();
    let mut says = |text: &str| {
        let line = told.by_ref().map(Result::unwrap).find(|line| line.contains(text)).unwrap();
        line.rsplit_once(' ').unwrap().1.to_owned()
    };
    let station = says("started ");
    let state = || {
        let stat = fs::read_to_string(format!("/proc/{station}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next()
    };
    let mut stdin = agent.stdin.take().unwrap();
    let mut tell = |word: &str| stdin.write_all(word.as_bytes()).unwrap();
    tell("do freeze 1\n");
    says("done 1");
    support::until("it stands still", || state() == Some('T'));
    tell("do thaw 2\n");
    says("done 2");
    support::until("it goes on", || state() == Some('S'));
    tell("do kill 3\n");
    says("done 3");
    assert_eq!(agent.wait().unwrap().code(), Some(128 + 9));
}

/// The runner tries once more what the system refuses for now, and not a program that is not there.
#[test]
fn an_agent_tells_a_program_that_is_not_there_from_what_the_system_refuses() {
    let run = fresh("experiment-agent-refused");
    fs::create_dir_all(&run).unwrap();
    let file = run.join("file");
    fs::write(&file, "").unwrap();
    let code = |folder: &Path, program: &str| {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_krarup"));
        agent.args(["agent", "run", "--run"]).arg(&run).arg("--folder").arg(folder);
        agent.args(["--", program]).output().unwrap().status.code()
    };
    assert_eq!(code(&file.join("folder"), "true"), Some(1), "no folder can be made in a file");
    assert_eq!(code(&run, "/nowhere/program"), Some(127));
}

/// A spec that a flag changes is read in another form.
#[test]
fn mistakes_stand_on_the_lines_of_the_file_in_its_quick_form_too() {
    let text = SPEC.replace("population =", "poplation =");
    let quick = "\n[quick]\nphases = { measure = \"fast\" }\n";
    let (spec, _) = place("experiment-quick-mistakes", &format!("{text}{quick}"));
    let refused = Program::begin(&["plan", spec.to_str().unwrap(), "--quick"]).ended();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for said in ["small.toml, line 8: ", "`poplation`", "small.toml (quick): ", "`fast`"] {
        assert!(refused.errors.contains(said), "{said}: {refused:?}");
    }
    assert!(!refused.errors.contains("(quick), line"), "{refused:?}");
}
