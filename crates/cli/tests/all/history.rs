//! `krarup report --against`: results beside older ones, with a change that is known, and without.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::experiment::{json, place, run};
use crate::support::process::{Ended, Program};

const SPEC: &str = r#"
title = "a history"
repetitions = { min = 3 }
phases = { warm_up = "20ms", measure = "100ms" }
data = ["--keys", "200"]
population = "connections"
[[factor]]
name = "connections"
levels = [1, 3]
[populate]
[stations.servers]
program = "cache"
count = 1
[stations.clients]
program = "load"
flags = ["--connections", "$connections"]
"#;

/// The results of one experiment with other figures: the runs of each cell differ by 1 %, around
/// this throughput.
fn figures(results: &mut Value, throughput: f64) {
    for cell in results["cells"].as_array_mut().unwrap() {
        let clients = cell["levels"]["clients"].as_f64().unwrap();
        for (run, spread) in cell["repetitions"].as_array_mut().unwrap().iter_mut().zip([0.99, 1.0, 1.01]) {
            run["throughput"] = (throughput * spread).into();
            run["response"] = (clients / throughput / spread).into();
            run["p99"] = (3.0 * clients / throughput / spread).into();
        }
        cell["throughput"]["value"] = throughput.into();
        cell["response"]["mean"]["value"] = (clients / throughput).into();
        cell["response"]["p99"]["value"] = (3.0 * clients / throughput).into();
    }
}

/// A directory with these results.
fn older(beside: &Path, name: &str, results: &Value) -> PathBuf {
    let directory = beside.with_file_name(name);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("results.json"), serde_json::to_string(results).unwrap()).unwrap();
    directory
}

fn report(out: &Path, against: &[&Path]) -> Ended {
    let mut words = vec!["report", out.to_str().unwrap(), "--markdown", "--against"];
    words.extend(against.iter().map(|path| path.to_str().unwrap()));
    Program::begin(&words).ended()
}

#[test]
fn a_known_change_is_marked_a_known_stillness_is_no_conclusion_and_what_is_missing_is_named() {
    let (spec, out) = place("history", SPEC);
    run(&spec, &out);
    let mut results = json(&out.join("results.json"));
    // What was measured just now may be anything; what is asked of is between the others.
    let at = |results: &mut Value, day: u32, throughput: f64| {
        figures(results, throughput);
        results["environment"]["started"] = format!("2020-01-{day:02} 10:00:00 UTC").into();
        results.clone()
    };
    let march = older(&out, "march", &at(&mut results, 1, 1e7));
    let april = older(&out, "april", &at(&mut results, 2, 1.002e7));
    let june = older(&out, "june", &at(&mut results, 4, 5.01e6));
    results["cells"].as_array_mut().unwrap().truncate(1);
    let may = older(&out, "may", &at(&mut results, 3, 5e6));
    let ended = report(&out, &[&may, &march, &june, &april]);
    assert!(ended.success, "{ended:?}");
    let found = &json(&out.join("results.json"))["history"];
    let names: Vec<&str> =
        found["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["march", "april", "may", "june", "results"]);
    let verdict = |clients: u32, from: usize, to: usize| {
        let changes = found["changes"].as_array().unwrap();
        let one = changes.iter().find(|one| {
            one["levels"]["clients"] == clients
                && (one["from"] == from && one["to"] == to)
                && one["change"]["measure"] == "throughput"
        });
        one.map(|one| one["change"]["verdict"].as_str().unwrap().to_owned())
    };
    assert_eq!(verdict(1, 0, 1).as_deref(), Some("no_conclusion"), "0.2 % within runs that differ by 1 %");
    assert_eq!(verdict(1, 1, 2).as_deref(), Some("worse"), "half of it is lost");
    assert_eq!(verdict(1, 2, 3).as_deref(), Some("no_conclusion"), "and not more of it");
    assert!(verdict(1, 0, 4).is_some(), "the first is compared with the last");
    assert_eq!((verdict(3, 1, 2), verdict(3, 1, 3).as_deref()), (None, Some("worse")), "may lacks 3 clients");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for said in ["<h2>History</h2>", "may lacks all, 3 clients.", "no conclusion", "history-1-all"] {
        assert!(page.contains(said), "{said}");
    }
    assert!(ended.output.contains("all, 1 client: throughput -50.1 % ("), "{ended:?}");
    assert!(
        ended.output.contains("from april to may, worse.") && ended.output.contains("lacks it"),
        "{ended:?}"
    );
    assert!(fs::read_to_string(out.join("report.md")).unwrap().contains("## History"));
    let csv = fs::read_to_string(out.join("history-comparisons.csv")).unwrap();
    assert!(
        csv.lines().next().unwrap().starts_with("workload,clients,measure,from,to,change_ratio"),
        "{csv}"
    );
    // With 1 client in five runs: four steps and the whole; with 3 in four: three and the whole.
    assert_eq!(csv.lines().count(), 1 + 3 * (5 + 4), "{csv}");
    assert!(fs::read_to_string(out.join("figures/history-1-all.csv")).unwrap().contains("worse"));
    // Without it the report is as it was.
    let plain = Program::begin(&["report", out.to_str().unwrap()]).ended();
    assert!(plain.success && !plain.output.contains("lacks"), "{plain:?}");
    assert!(json(&out.join("results.json")).get("history").is_none());
}

#[test]
fn what_is_no_older_result_is_named_with_a_hint() {
    let (spec, out) = place("history-refused", &SPEC.replace("min = 3", "min = 1"));
    run(&spec, &out);
    let mut other = json(&out.join("results.json"));
    other["cells"].as_array_mut().unwrap().iter_mut().for_each(|cell| cell["levels"]["clients"] = 7.into());
    let other = older(&out, "other", &other);
    let nothing = out.with_file_name("nothing");
    for (against, said) in [
        (vec![&*nothing], "nothing: there is no such file or directory"),
        (vec![&*out], "stands beside itself"),
        (vec![&*other], "have no cell in common"),
    ] {
        let ended = report(&out, &against);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.errors.contains("--against") && ended.errors.contains(said), "{said}: {ended:?}");
        assert!(ended.errors.contains("hint: "), "{ended:?}");
    }
}
