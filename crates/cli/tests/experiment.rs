//! `krarup plan`, `run` and `report` as a user meets them: what is done stays done, whoever pulls the plug.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use support::fresh;
use support::process::{Ended, Program};

mod support;

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

/// A folder of its own with the spec in it.
fn place(name: &str, spec: &str) -> (PathBuf, PathBuf) {
    let folder = fresh(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("small.toml"), spec).unwrap();
    let out = folder.join("results");
    (folder.join("small.toml"), out)
}

fn begin(spec: &Path, out: &Path) -> Program {
    Program::begin(&["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap()])
}

fn run(spec: &Path, out: &Path) -> Ended {
    let ended = begin(spec, out).ended();
    assert!(ended.success, "{ended:?}");
    ended
}

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
    let results = fs::read(out.join("results.json")).unwrap();
    let page = fs::read(out.join("report.html")).unwrap();
    let again = run(&spec, &out);
    assert!(!again.errors.contains("workload read"), "nothing is left to run: {again:?}");
    assert_eq!((trials(&out), again.output), (done, ended.output.clone()));
    let reported = Program::begin(&["report", out.to_str().unwrap()]).ended();
    assert_eq!(reported.output, ended.output);
    assert_eq!(
        (fs::read(out.join("results.json")).unwrap(), fs::read(out.join("report.html")).unwrap()),
        (results, page)
    );
    assert!(!out.join("unfinished").exists() && !out.join("processes").exists());
}

/// Nobody can clean up after a kill -9 but whoever comes next.
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
    for line in noted.lines() {
        let (process, begun) = line.split_once(' ').unwrap();
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        assert_ne!(
            stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(19)),
            Some(begun),
            "{process} still runs"
        );
    }
}

#[test]
fn ctrl_c_keeps_what_is_complete_and_says_how_to_go_on() {
    let (spec, out) = place("experiment-stopped", SPEC);
    let mut stopped = begin(&spec, &out);
    stopped.says_text("3/8 ");
    stopped.signal(Signal::INT);
    let ended = stopped.ended();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.errors.contains("trials are kept") && ended.errors.contains("hint: the same command goes on"),
        "{ended:?}"
    );
    assert!(trials(&out).len() >= 2);
    run(&spec, &out);
    assert_eq!(trials(&out).len(), 8);
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
    let ended = begin(&spec, &out).ended();
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

#[test]
fn a_plan_shows_cells_order_and_time_and_an_error_its_line() {
    let (spec, _) = place("experiment-plan", SPEC);
    let plan = |path: &Path| Program::begin(&["plan", path.to_str().unwrap()]).ended();
    let shown = plan(&spec);
    assert!(shown.success && shown.output.contains("4 cells, 8 trials, about 4.40 s"), "{shown:?}");
    assert_eq!(shown.output.lines().filter(|line| line.starts_with("block ")).count(), 2);
    assert_eq!(plan(&spec).output, shown.output, "the same seed, the same order");
    fs::write(&spec, SPEC.replace("\"$connections\"", "\"$connection\"")).unwrap();
    let refused = plan(&spec);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.errors.contains("small.toml, line 14: factor `connections` is never used"),
        "{refused:?}"
    );
    assert!(refused.errors.contains("hint: write \"$connections\""), "{refused:?}");
    let nowhere = Program::begin(&["plan", "no-such-spec"]).ended();
    assert!(nowhere.errors.contains("No such file") && nowhere.errors.contains("demo"), "{nowhere:?}");
}

/// Two clients before one server whose link carries 8 Mbit/s: 4096-byte values in packets with their headers.
const LINKED: &str = r#"
title = "a thin link"
testbed = "netns"
repetitions = { min = 1 }
phases = { warm_up = "300ms", measure = "2s" }
gates = ["errors == 0", "misses == 0"]
data = ["--keys", "100", "--data-size", "4096"]

[populate]
[stations.servers]
program = "cache"
count = 1
link = "8Mbit/s"
[stations.clients]
program = "load"
count = 2
flags = ["--ratio", "0:1", "--connections", "4"]
"#;

/// The namespaces that programs of ours have made.
fn namespaces(of: u32) -> Vec<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten().filter_map(Result::ok);
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("krarup-{of}-"))).collect()
}

#[test]
fn hosts_have_links_of_their_own_and_are_taken_away_again() {
    let probe = format!("krarup-probe-{}", std::process::id());
    let ip = |words: &[&str]| {
        std::process::Command::new("ip").args(words).output().is_ok_and(|output| output.status.success())
    };
    if !ip(&["netns", "add", &probe]) {
        println!("skipped: no network namespaces here (they need Linux, root and iproute2)");
        return;
    }
    assert!(ip(&["netns", "del", &probe]));
    let (spec, out) = place("experiment-netns", LINKED);
    let mut killed = begin(&spec, &out);
    killed.says_text("1/1 ");
    killed.signal(Signal::KILL);
    let number = killed.id();
    killed.ended();
    assert_eq!(namespaces(number).len(), 4, "the bridge, two clients, a server");
    let mut second = begin(&spec, &out);
    second.says_text("1/1 ");
    assert!(namespaces(number).is_empty(), "whoever comes next takes them away");
    let number = second.id();
    let ended = second.ended();
    assert!(ended.success, "{ended:?}");
    assert!(namespaces(number).is_empty());
    let results: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let cell = &results["cells"][0];
    assert_eq!(cell["levels"]["clients"], 8);
    // A value comes with its line and in three packets: 4,129 bytes of answer and 3 × 66 of headers.
    let carried = 8e6 / 8.0 / (4_129.0 + 3.0 * 66.0);
    let throughput = cell["throughput"]["value"].as_f64().unwrap();
    assert!((0.8 * carried..1.05 * carried).contains(&throughput), "{throughput} of {carried}");
}
