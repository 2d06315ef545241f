//! A testbed that is slower, as a user meets it: what is asked for is what the published machines
//! had, what is shown is theirs, and what lies in the files is what was measured.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::experiment::{LONG, begin, json, place, run};
use crate::support::fresh;
use crate::support::process::{Ended, Program, skipped};

/// What is said where headroom is asked of such a testbed.
const NO_HEADROOM: &str = "a testbed that is 4 times slower says nothing of headroom";

/// No processor here gives what its baseline asks for: the search ends as soon as it has tried all
/// there is.
const SPEC: &str = r#"
title = "four times slower"
repetitions = { min = 1 }
phases = { warm_up = "50ms", measure = "500ms" }
gates = ["errors == 0", "misses == 0"]
data = ["--keys", "100"]

[scale]
by = 4
measure = "500ms"

[[scale.baseline]]
station = "servers"
levels = { clients = 3 }
throughput = 1000000000

[[factor]]
name = "clients"
levels = [1, 3]

[populate]
[stations.servers]
program = "cache"
count = 2
cpu = 1
[stations.middleware]
program = "proxy"
cpu = 1.5
[stations.clients]
program = "load"
cpu = 2
flags = ["--connections", "$clients", "--think", "2ms", "--ratio", "0:1"]
"#;

#[test]
fn what_was_measured_on_a_slower_testbed_is_shown_scaled_back() {
    let (spec, out) = place("scale", SPEC);
    let words = ["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap(), "--keep-disturbed"];
    let first = Program::begin(&words).ended_within(LONG);
    if !first.success && first.errors.contains("run as root") {
        skipped("no control group can be written");
        return;
    }
    assert!(first.success, "{first:?}");
    assert!(first.output.starts_with("scaled by k = 4: "), "{first:?}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("scaled by k = 4: ") && page.contains("baseline of servers"));
    let kept = json(&out.join("scale.json"));
    assert_eq!(kept["builds"][0][0][0], "krarup", "{kept}");
    let baseline = &kept["testbed"]["baselines"][0];
    let runs = baseline["runs"].as_array().unwrap();
    assert!((1..=2).contains(&runs.len()) && runs[0][0] == 0.25, "{baseline}");
    let share = |place: usize| kept["testbed"]["stations"][place]["share"].as_f64().unwrap();
    assert_eq!([share(1), share(2)], [1.5 / 4.0, 0.5], "those without a baseline have a quarter");
    assert_eq!(share(0), baseline["share"].as_f64().unwrap());

    let results = json(&out.join("results.json"));
    assert_eq!(results["middleware_cores"], 2, "those of the machine that it stands for");
    for cell in results["cells"].as_array().unwrap() {
        let clients = &cell["levels"]["clients"];
        let trial = out.join(format!("trials/clients={clients}/0"));
        let (load, manifest) = (json(&trial.join("load.json")), json(&trial.join("trial.json")));
        let number = |value: &Value| value.as_f64().unwrap();
        let shown = number(&cell["throughput"]["value"]);
        let measured = number(&load["overall"]["count"]) / number(&load["seconds"]);
        assert!((shown / measured / 4.0 - 1.0).abs() < 1e-6, "{shown} of {measured}");
        let (shown, measured) =
            (number(&cell["response"]["mean"]["value"]), number(&load["overall"]["response_time"]["mean"]));
        assert!((4.0 * shown / measured - 1.0).abs() < 1e-6, "{shown} of {measured}");
        assert_eq!(manifest["slower"], 4.0);
        assert_eq!(manifest["system"]["shares"]["servers"].as_f64(), Some(share(0)));
        let think = &load["config"]["arrivals"]["closed"]["fixed"];
        assert!((number(think) - 0.008).abs() < 1e-12, "{load}");
        let shares = json(&trial.join("shares.json"));
        assert_eq!(shares.as_array().unwrap().len(), 4, "two servers, a middleware, a client: {shares}");
    }

    let headroom = ended("headroom", &out);
    assert!(headroom.code == Some(2) && headroom.errors.contains(NO_HEADROOM), "{headroom:?}");

    // What was found is found, and what was run stays.
    let again = run(&spec, &out);
    assert!(!again.errors.contains(" alone with "), "{again:?}");
    assert_eq!(again.output, first.output);
    // A cell is of one share.
    for clients in [1, 3] {
        let file = out.join(format!("trials/clients={clients}/0/trial.json"));
        let mut manifest = json(&file);
        manifest["system"]["shares"]["servers"] = (2.0 * share(0)).into();
        fs::write(&file, manifest.to_string()).unwrap();
    }
    fs::remove_file(out.join("plan.csv")).unwrap();
    let refused = begin(&spec, &out).ended();
    let said = "other shares of a processor: the share of the servers was ";
    assert!(refused.code == Some(2) && refused.errors.contains(said), "{refused:?}");
    assert!(!out.join("plan.csv").exists(), "what is refused leaves what is there");
}

/// What `krarup JOB PATH` says.
fn ended(job: &str, path: &Path) -> Ended {
    Program::begin(&[job, path.to_str().unwrap()]).ended()
}

/// A trial that only its manifest is there of, and what is asked of folders and files in it.
#[test]
fn records_within_a_trial_are_those_of_its_slower_testbed() {
    let trial = fresh("scale-records");
    let proxy = trial.join("middleware/1");
    fs::create_dir_all(&proxy).unwrap();
    let manifest = serde_json::json!({
        "identity": "", "levels": [], "repetition": 0, "attempt": 0, "started_unix": 0.0,
        "commands": [], "throughput": 1.0, "response": 1.0, "slower": 4.0,
    });
    fs::write(trial.join("trial.json"), manifest.to_string()).unwrap();
    let rows = proxy.join("rows.parquet");
    fs::write(&rows, "").unwrap();
    for path in [&trial, &proxy, &rows] {
        let headroom = ended("headroom", path);
        assert!(headroom.code == Some(2) && headroom.errors.contains(NO_HEADROOM), "{headroom:?}");
    }
    for folder in [&trial, &proxy] {
        let analysis = ended("analyze", folder);
        let warned = analysis.errors.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = "rows of a scaled testbed: times here are 4 times those of the report, rates 1/4";
        assert!(warned.contains(words), "{analysis:?}");
    }
}

#[test]
fn a_plan_says_what_each_station_gets() {
    let (spec, _) = place("scale-plan", &SPEC.replace("by = 4", "by = 20"));
    let planned = Program::begin(&["plan", spec.to_str().unwrap()]).ended();
    let said = planned.output.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "scaled by 20: the stations stand for 5.50 processors",
        "servers: 2 × 0.0500 of a processor for 1 processor",
        "clients: 1 × 0.1000 of a processor for 2 processors",
        "one alone gives 50,000,000/s here, 1,000,000,000/s as published (clients 3)",
        "at most where nothing disturbs it",
        "middleware: 1 thread, and more processors:",
    ] {
        assert!(said.contains(words), "{words}: {planned:?}");
    }
}
