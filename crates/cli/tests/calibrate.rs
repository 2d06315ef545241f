//! From traffic to a model: runs of `krarup load` through `krarup proxy` become the rows of a calibration, without a hand between.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::fresh;
use support::process::{Ended, Program};

mod support;

fn run(words: &[&str]) -> Ended {
    let ended = Program::begin(words).ended();
    assert!(ended.success, "{ended:?}");
    ended
}

/// One run: so many clients before a proxy with so many workers; its records in a folder of their own.
fn measure(store: &Program, folder: &Path, clients: &str, workers: &str, flags: &[&str]) {
    fs::create_dir_all(folder).unwrap();
    let stats = [&["--workers", workers, "--stats-dir", folder.to_str().unwrap()], flags].concat();
    let proxy = Program::proxy(&[store.address()], &stats);
    let (target, result) = (proxy.address().to_string(), folder.join("load.json"));
    let load = ["load", "--servers", &target, "--connections", clients, "--ratio", "1:1"];
    let extent = ["--seconds", "0.5", "--warm-up", "100ms", "--json", result.to_str().unwrap()];
    run(&[&load[..], &extent].concat());
    assert!(proxy.stop().success);
}

#[test]
fn recorded_runs_become_a_model() {
    let here = fresh("recorded-runs");
    let runs = here.join("runs");
    let store = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let configurations = [("1", "2"), ("2", "2"), ("6", "2"), ("12", "4"), ("24", "8")];
    for (clients, workers) in configurations {
        measure(&store, &runs.join(format!("{clients:0>2}-{workers}")), clients, workers, &["--rows"]);
    }
    let (folder, model) = (runs.to_str().unwrap(), here.join("model.json"));
    let model = model.to_str().unwrap();
    let calibration: Value = run(&["model", "calibrate", folder, "--out", model, "--json"]).json();
    let rows = calibration["rows"].as_array().unwrap();
    assert_eq!(rows.len(), configurations.len());
    for (row, (clients, workers)) in rows.iter().zip(configurations) {
        let number = |name: &str| row[name].as_f64().unwrap();
        assert_eq!(
            (row["population"].to_string(), row["workers"].to_string()),
            (clients.into(), workers.into())
        );
        assert!(
            number("response") > number("wait") && number("response") < 1.05 * number("client_response"),
            "{row}"
        );
        let busy = number("throughput") * (number("response") - number("wait"));
        assert!(busy <= 1.1 * number("workers"), "Little: {busy} busy of {row}");
        let population = number("throughput") * number("client_response");
        assert!((population / number("population") - 1.0).abs() < 0.1, "N = X·R: {population} of {row}");
    }
    let shown = run(&["model", "calibrate", folder, "--out", model, "--cores", "2"]).output;
    assert!(shown.contains("Hold time T(n)") && shown.contains("Calibration rows"), "{shown}");
    let predict = ["model", "predict", model, "--population", "18", "--workers", "4", "--json"];
    let predicted = run(&predict).json();
    let x = &predicted["predictions"][0]["throughput"];
    let [low, value, high] = ["low", "value", "high"].map(|end| x[end].as_f64().unwrap());
    assert!(0.0 < low && low <= value && value <= high, "{x}");
    assert_eq!(predicted["calibrated_on"].as_array().map(Vec::len), Some(configurations.len()));
    let compared = run(&["model", "compare", model, folder, "--json"]).json();
    assert!(compared["mean_error"].is_null(), "all rows were used: no evidence");
}

#[test]
fn a_folder_without_a_run_says_what_a_run_is() {
    let here = fresh("no-run");
    fs::create_dir_all(&here).unwrap();
    let ended = Program::begin(&["model", "calibrate", here.to_str().unwrap()]).ended();
    assert_eq!(ended.code, Some(2));
    assert!(ended.errors.contains("holds no run") && ended.errors.contains("load.json"), "{ended:?}");
}
