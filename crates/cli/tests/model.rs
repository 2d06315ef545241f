//! `krarup model` from the outside: files in, tables and JSON out, errors that name the line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn krarup(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_krarup"))
        .args(words)
        .current_dir(directory)
        .output()
        .expect("krarup runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// A directory of its own for each test, emptied first.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory for the test");
    directory
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&text(output)).expect("JSON on stdout")
}

#[test]
fn the_example_is_solved_bounded_and_changed() {
    let here = directory("model-example");
    let example = text(&krarup(&here, &["model", "example"]));
    fs::write(here.join("n.toml"), example.replace("population = 192", "population = 100")).expect("written");
    let solved = json(&krarup(&here, &["model", "solve", "n.toml", "--json", "--html", "page"]));
    let points = solved["points"].as_array().expect("points");
    assert_eq!(points.len(), 100);
    let capacity = 101e6 / 8.0 / 4288.0;
    let x = points[99]["classes"][0]["throughput"].as_f64().expect("a number");
    assert!((x / capacity - 1.0).abs() < 1e-6);
    assert!(
        fs::read_to_string(here.join("page/report.html"))
            .expect("a page")
            .contains("Throughput and response")
    );

    let table = text(&krarup(&here, &["model", "solve", "n.toml"]));
    assert!(table.contains("2,944") && table.contains("uplink"), "{table}");
    let csv = text(&krarup(&here, &["model", "solve", "n.toml", "--csv"]));
    assert!(csv.lines().count() > 100, "CSV has every population");

    let bounds = krarup(&here, &["model", "bounds", "n.toml"]);
    assert!(String::from_utf8_lossy(&bounds.stderr).contains("the bottleneck is uplink"));
    let changed =
        json(&krarup(&here, &["model", "whatif", "n.toml", "--change", "uplink.speed=2", "--json"]));
    let after = changed["after"]["classes"][0]["throughput"].as_f64().expect("a number");
    assert!((after / capacity - 2.0).abs() < 1e-3, "{after}");
}

#[test]
fn an_error_names_the_file_the_line_and_what_there_is() {
    let here = directory("model-error");
    let example =
        text(&krarup(&here, &["model", "example"])).replace("hold = \"workers\"", "hold = \"worker\"");
    let line = example.lines().position(|l| l.contains("hold = \"worker\",")).map_or(0, |i| i + 1);
    fs::write(here.join("n.toml"), &example).expect("written");
    let output = krarup(&here, &["model", "solve", "n.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no pool `worker`") && said.contains("pools are: workers"), "{said}");
    assert!(said.contains("n.toml, line "), "{said} (expected near {line})");
}

#[test]
fn rows_become_a_model_that_predicts_and_is_compared() {
    let here = directory("model-rows");
    let rows = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/data/000_t13_mmm.csv");
    let all = fs::read_to_string(rows).expect("the table is there");
    let lines: Vec<&str> = all.lines().filter(|l| !l.starts_with('#')).collect();
    let some: Vec<&str> = lines.iter().enumerate().filter(|(i, _)| i % 5 == 0).map(|(_, l)| *l).collect();
    fs::write(here.join("some.csv"), some.join("\n")).expect("written");
    let units = ["--unit", "ms", "--middlewares", "2"];
    let calibrate = [&["model", "calibrate", "some.csv", "--cores", "8", "--json"][..], &units].concat();
    let calibration = json(&krarup(&here, &calibrate));
    assert_eq!(calibration["rows"].as_array().map(Vec::len), Some(some.len() - 1));
    let predict = ["model", "predict", "model.json", "--population", "96", "--workers", "64", "--json"];
    let predicted = json(&krarup(&here, &predict));
    let x = predicted["predictions"][0]["throughput"]["value"].as_f64().expect("a number");
    assert!((x / 10_010.38 - 1.0).abs() < 0.08, "{x}");
    let compare = [&["model", "compare", "model.json", rows, "--json"][..], &units].concat();
    let compared = json(&krarup(&here, &compare));
    let error = compared["mean_error"][0].as_f64().expect("rows were held out");
    assert!(error < 0.08, "{error}");
}
