//! `krarup compare` as a gate: its exit codes, and what other programs write.

use std::fs;
use std::path::Path;

use krarup_analysis::results::Environment;
use krarup_analysis::sweep::summarise;
use krarup_analysis::trial::{CellLevels, ClientSide, ClientWindow, Trial, TrialHistogram, TrialTimes};

use crate::support::fresh;
use crate::support::process::{Ended, Program};
use crate::support::terminal::OnTerminal;

/// hyperfine's JSON with these times, in a file.
fn times(name: &str, times: &[f64]) -> String {
    times_of(name, &["sort"], times)
}

/// The same of several commands, each of which took these.
fn times_of(name: &str, commands: &[&str], times: &[f64]) -> String {
    let path = fresh(name);
    let of = |command: &&str| serde_json::json!({ "command": command, "times": times });
    let results: Vec<serde_json::Value> = commands.iter().map(of).collect();
    fs::write(&path, serde_json::json!({ "results": results }).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn compared(words: &[&str]) -> Ended {
    Program::begin(&[&["compare"], words].concat()).ended()
}

#[test]
fn a_gate_says_by_its_exit_code_whether_something_is_worse() {
    let base = times("compare-base", &[1.00, 1.01, 0.99, 1.00, 1.02]);
    let worse = times("compare-worse", &[1.20, 1.21, 1.19, 1.20, 1.22]);
    let near = times("compare-near", &[1.00, 1.12, 0.99, 1.10, 1.02]);
    let limit = ["--fail-if", "time > 5%"];
    for (other, code, says) in [
        (&base, 0, "time > +5%: +0.0 % "),
        (&worse, 1, "yes: it is beyond the limit"),
        (&near, 3, "more repetitions of each side would decide with a probability of 80 %"),
    ] {
        let ended = compared(&[&[base.as_str(), other.as_str()][..], &limit].concat());
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.output.contains(says), "{says}: {ended:?}");
        assert!(ended.output.contains("about the ratio of the geometric means"), "{ended:?}");
        assert_eq!(compared(&[&base, other]).code, Some(0), "without a limit it is a report");
    }
    // More than one limit: the worst answer decides.
    let both = [base.as_str(), &worse, "--fail-if", "time < -50%", "--fail-if", "time > 5%"];
    assert_eq!(compared(&both).code, Some(1));
    let few = |power: &str| {
        let words = [base.as_str(), &near, "--fail-if", "time > 5%", "--power", power, "--json"];
        compared(&words).json()["limits"][0]["more"]["some"].as_u64().unwrap()
    };
    assert!(few("0.95") > few("0.8"));
}

#[test]
fn a_gate_does_not_pass_where_a_benchmark_is_gone() {
    let runs = [1.00, 1.01, 0.99];
    let both = times_of("compare-both", &["sort", "cat"], &runs);
    let one = times("compare-one", &runs);
    let worse = times_of("compare-other", &["sort", "tac"], &[1.5, 1.51, 1.49]);
    let limit = ["--fail-if", "time > 5%"];
    let gate = |base: &String, other: &String| compared(&[&[base.as_str(), other][..], &limit].concat());
    let ended = gate(&both, &one);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.errors.contains("lacks of compare-both"), "{ended:?}");
    assert!(ended.errors.contains(": cat (1 in all)"), "{ended:?}");
    assert_eq!(gate(&one, &both).code, Some(0), "what is new is no reason");
    assert_eq!(gate(&both, &worse).code, Some(1), "what is beyond a limit stays that");
    assert_eq!(compared(&[&both, &one]).code, Some(0), "without a limit it is a report");
}

/// A directory of results: a cell of 16 clients with this throughput in its runs, of which so many
/// of a hundred requests failed, and so many of a hundred keys were not found.
fn results(name: &str, rates: [f64; 3], failed: u64, missed: u64) -> String {
    let trial = |(rate, repetition): (f64, u32)| {
        let (completed, response) = ((rate * 10.0) as u64, 16.0 / rate);
        let window = |second: u32| ClientWindow {
            start: f64::from(second),
            length: 1.0,
            completed: completed / 10,
            response: Some(response),
        };
        let client = ClientSide {
            completed,
            errors: completed * failed / 100,
            hits: completed - completed * missed / 100,
            misses: completed * missed / 100,
            response: TrialTimes { mean: response, p50: response, p90: 2.0 * response, p99: 3.0 * response },
            windows: (0..10).map(window).collect(),
            histogram: TrialHistogram { width: 1e-4, counts: vec![(3, completed)] },
            ..ClientSide::default()
        };
        Trial {
            levels: CellLevels { workload: "read".to_owned(), clients: 16 },
            repetition,
            length: 10.0,
            think: 0.0,
            client,
            middleware: None,
            servers: Vec::new(),
            cpu: Vec::new(),
            links: Vec::new(),
            ways: Vec::new(),
            factors: Vec::new(),
            machine: None,
            machines: Vec::new(),
            course: Vec::new(),
            disturbed: None,
        }
    };
    let trials: Vec<Trial> = rates.into_iter().zip(0..).map(trial).collect();
    let found = summarise("a gate", Environment::default(), &trials).unwrap();
    let folder = fresh(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("results.json"), serde_json::to_string(&found).unwrap()).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// A refusal is an answer, and a quick one: throughput and response time are better by it.
#[test]
fn a_gate_does_not_pass_where_more_requests_fail() {
    let before = results("compare-all-well", [10_000.0, 10_100.0, 9_900.0], 0, 0);
    let refused = results("compare-refused", [16_000.0, 16_100.0, 15_900.0], 50, 0);
    let limits = ["--fail-if", "throughput < -5%", "--fail-if", "p99 > 10%"];
    let gate = |base: &String, other: &String| compared(&[&[base.as_str(), other][..], &limits].concat());
    let ended = gate(&before, &refused);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    for says in ["more requests fail than of compare-all-well", ": read, 16 clients (1 in all)"] {
        assert!(ended.errors.contains(says), "{says}: {ended:?}");
    }
    assert!(ended.output.contains("it was 0.00 %, and is 50.0 %"), "{ended:?}");
    assert_eq!(gate(&before, &before).code, Some(0));
    assert_eq!(gate(&refused, &refused).code, Some(0), "they fail alike");
    assert_eq!(gate(&refused, &before).code, Some(1), "what is beyond a limit stays that");
    assert_eq!(compared(&[&before, &refused]).code, Some(0), "without a limit it is a report");
}

/// A miss is quicker than a value, so that these are better, too.
#[test]
fn a_gate_does_not_pass_where_fewer_keys_are_found() {
    let before = results("compare-all-found", [10_000.0, 10_100.0, 9_900.0], 0, 0);
    let missed = results("compare-missed", [14_000.0, 14_100.0, 13_900.0], 0, 50);
    let limits = ["--fail-if", "throughput < -5%", "--fail-if", "p99 > 10%"];
    let gate = |base: &String, other: &String| compared(&[&[base.as_str(), other][..], &limits].concat());
    let ended = gate(&before, &missed);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    for says in ["fewer keys are found than of compare-all-found", ": read, 16 clients (1 in all)"] {
        assert!(ended.errors.contains(says), "{says}: {ended:?}");
    }
    assert!(ended.output.contains("it was 100 %, and is 50.0 %"), "{ended:?}");
    assert_eq!(gate(&missed, &missed).code, Some(0), "they miss alike");
    assert_eq!(compared(&[&before, &missed]).code, Some(0), "without a limit it is a report");
}

/// A folder with a file for each of these runs.
fn folder_of(name: &str, texts: &[String]) -> String {
    let folder = fresh(name);
    fs::create_dir_all(&folder).unwrap();
    for (number, text) in texts.iter().enumerate() {
        fs::write(folder.join(format!("{number}.json")), text).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

/// In what other programs write, too: of load.json and of k6 times are those of all requests.
#[test]
fn a_gate_on_files_does_not_pass_where_more_requests_fail_or_fewer_keys_are_found() {
    let load = |name: &str, p99: f64, outcomes: [u64; 3]| {
        let [failed, hits, misses] = outcomes;
        let run = |step: f64| {
            let times = serde_json::json!({ "mean": 0.5 * p99 * step, "p99": p99 * step });
            let errors = serde_json::json!({ "server_error": failed });
            let overall = serde_json::json!({ "throughput": 90.0 * step, "count": 1_000, "errors": errors,
                "hits": hits, "misses": misses, "response_time": times });
            serde_json::json!({ "format": 1, "overall": overall }).to_string()
        };
        folder_of(name, &[0.99, 1.0, 1.01].map(run))
    };
    let k6 = |name: &str, mean: f64, failed: u64| {
        let run = |step: f64| {
            let metrics = serde_json::json!({ "http_reqs": { "rate": 500.0 * step },
                "http_req_duration": { "avg": mean * step, "p(99)": 3.0 * mean * step },
                "http_req_failed": { "value": failed } });
            serde_json::json!({ "metrics": metrics }).to_string()
        };
        folder_of(name, &[0.99, 1.0, 1.01].map(run))
    };
    let well = load("compare-load-well", 0.003, [0, 1_000, 0]);
    let refused = load("compare-load-refused", 0.0002, [1_000, 0, 0]);
    let missed = load("compare-load-missed", 0.002, [0, 500, 500]);
    let (up, down) = (k6("compare-k6-up", 40.0, 0), k6("compare-k6-down", 1.0, 1));
    let gate = |base: &String, other: &String| compared(&[base, other, "--fail-if", "p99 > 10%"]);
    for (base, other, says, cell) in [
        (&well, &refused, "more requests fail than of compare-load-well", ": krarup load (1 in all)"),
        (&well, &missed, "fewer keys are found than of compare-load-well", ": krarup load (1 in all)"),
        (&up, &down, "more requests fail than of compare-k6-up", ": k6 (1 in all)"),
    ] {
        let ended = gate(base, other);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert!(ended.errors.contains(says) && ended.errors.contains(cell), "{says}{cell}: {ended:?}");
        assert_eq!(gate(other, other).code, Some(0), "they do alike");
        assert_eq!(gate(other, base).code, Some(1), "what is beyond a limit stays that");
        let ended = compared(&[base, other]);
        assert_eq!(ended.code, Some(0), "without a limit it is a report");
        assert!(ended.errors.contains("Cells of which another share of the"), "{ended:?}");
    }
}

/// In one spec `workers` has a level, in the next two: what its cells are called is another then.
#[test]
fn a_gate_knows_a_cell_by_its_levels_and_not_by_its_name() {
    let rates = [10_000.0, 10_100.0, 9_900.0];
    let before = results("compare-one-level", rates, 0, 0);
    let named = |name: &str, cell: &str, workers: &str| {
        let folder = results(name, rates, 0, 0);
        let path = Path::new(&folder).join("results.json");
        let mut found: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        found["cells"][0]["levels"]["workload"] = cell.into();
        found["cells"][0]["factors"] = serde_json::json!([["workers", workers]]);
        fs::write(&path, found.to_string()).unwrap();
        folder
    };
    let one = named("compare-workers-one", "all", "8");
    let two = named("compare-workers-two", "workers 8", "8");
    let other = named("compare-workers-other", "all", "32");
    let gate = |base: &String, other: &String| compared(&[base, other, "--fail-if", "throughput < -5%"]);
    assert_eq!(gate(&one, &two).code, Some(0));
    let ended = gate(&one, &other);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output.contains("the factor workers was \"8\" and is \"32\""), "{ended:?}");
    assert_eq!(gate(&before, &two).code, Some(2), "one of them has no factors");
}

#[test]
fn a_folder_holds_a_file_for_each_run_and_criterions_a_cell_for_each_benchmark() {
    let [base, other] = ["compare-pgbench-a", "compare-pgbench-b"].map(fresh);
    for (folder, rates) in [(&base, [400, 404, 396]), (&other, [500, 505, 495])] {
        fs::create_dir_all(folder).unwrap();
        for (number, rate) in rates.iter().enumerate() {
            let text =
                format!("latency average = 2.5 ms\ntps = {rate}.0 (without initial connection time)\n");
            fs::write(folder.join(format!("{number}.log")), text).unwrap();
        }
    }
    let [base, other] = [&base, &other].map(|folder| folder.to_str().unwrap());
    let ended = compared(&[base, other, "--fail-if", "throughput < -5%", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let change = &ended.json()["changes"][0];
    assert_eq!((&change["measure"], &change["base_runs"]), (&"throughput".into(), &3.into()));
    assert!((change["ratio"].as_f64().unwrap() - 1.25).abs() < 1e-3);
    assert_eq!(compared(&[other, base, "--fail-if", "throughput < -5%"]).code, Some(1));

    let criterion = fresh("compare-criterion");
    for (benchmark, time) in [("parse/small", 100.0), ("parse/large", 900.0)] {
        for which in ["new", "base"] {
            let folder = criterion.join(benchmark).join(which);
            fs::create_dir_all(&folder).unwrap();
            let text =
                serde_json::json!({ "iters": [1.0, 2.0, 3.0], "times": [time, 2.1 * time, 3.0 * time] });
            fs::write(folder.join("sample.json"), text.to_string()).unwrap();
        }
    }
    let folder = criterion.to_str().unwrap();
    let ended = compared(&[folder, folder, "--json"]);
    let cells: Vec<String> =
        ended.json()["changes"].as_array().unwrap().iter().map(|one| one["cell"].to_string()).collect();
    assert_eq!(cells, ["\"parse/large\"", "\"parse/small\""], "{ended:?}");
}

#[test]
fn a_file_that_is_named_as_ours_is_read_by_what_stands_in_it() {
    let folder = |name: &str, text: &str| {
        let folder = fresh(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("results.json"), text).unwrap();
        folder.to_str().unwrap().to_owned()
    };
    let of = |name: &str, times: [f64; 3]| {
        let result = serde_json::json!({ "command": "sort", "times": times });
        folder(name, &serde_json::json!({ "results": [result] }).to_string())
    };
    let base = of("compare-named-base", [1.00, 1.01, 0.99]);
    let other = of("compare-named-other", [1.20, 1.21, 1.19]);
    let limit = ["--fail-if", "time > 5%"];
    for file in ["", "/results.json"] {
        let sides = [&base, &other].map(|folder| format!("{folder}{file}"));
        let ended = compared(&[&sides.each_ref().map(String::as_str)[..], &limit].concat());
        assert_eq!(ended.code, Some(1), "{ended:?}");
    }
    // What is damaged of ours is told as ours.
    for damaged in ["{", "{\"title\": \"t\"}"] {
        let ended = compared(&[&base, &folder("compare-named-damaged", damaged)]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.errors.contains("`krarup analyze DIR` writes them anew"), "{ended:?}");
    }
}

#[test]
fn figures_of_other_programs_stand_in_their_units() {
    let path = fresh("compare-units");
    let text = r#"{"ALL STATS": {"Totals": {"Ops/sec": 24100.5, "Average Latency": 0.133,
        "Percentile Latencies": {"p99.00": 0.0813}}}}"#;
    fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    let shown = compared(&[file, file]).output;
    let rows: Vec<&str> = shown.lines().filter(|line| line.contains("(1)")).collect();
    let found = |place: usize, words: [&str; 2]| words.iter().all(|word| rows[place].contains(word));
    assert!(rows.len() == 3 && rows[0].trim_start().starts_with("throughput"), "{shown}");
    assert!(found(0, ["24,100/s (1)", "+0.0 %"]) || found(0, ["24,101/s (1)", "+0.0 %"]), "{shown}");
    assert!(found(1, ["p99", "81.3 µs (1)"]) && found(2, ["response", "(1)"]), "{shown}");
    assert!(shown.starts_with("measure") && rows.iter().all(|row| !row.contains("e-")), "{shown}");
    let csv = compared(&[file, file, "--csv"]).output;
    assert!(csv.starts_with("cell,measure,unit,base,base_runs,other,other_runs,ratio,"), "{csv}");
    assert!(csv.contains("\n,throughput,1/s,24100.5"), "{csv}");
}

#[test]
fn trials_without_results_are_told_with_what_makes_results_of_them() {
    let folder = fresh("compare-only-trials");
    fs::create_dir_all(folder.join("trials")).unwrap();
    fs::write(folder.join(".lock"), "").unwrap();
    let folder = folder.to_str().unwrap();
    let ended = compared(&[folder, folder]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let errors = &ended.errors;
    assert!(errors.contains("there are no results") && errors.contains("`krarup report"), "{errors}");
    assert!(!errors.contains(".lock"), "{errors}");
}

#[test]
fn a_limit_that_makes_no_sense_is_told() {
    let base = times("compare-senseless", &[1.0, 1.1]);
    for (words, says) in [
        (["--fail-if", "time > 5"], "--fail-if: `time > 5` is no limit of a change"),
        (["--fail-if", "tmie > 5%"], "did you mean time?"),
        (["--power", "2"], "--power: `2` is no power"),
    ] {
        let ended = compared(&[&[base.as_str(), base.as_str()][..], &words].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.errors.contains(says), "{ended:?}");
    }
}

#[test]
fn sentences_are_wrapped_between_words_on_a_terminal_and_nowhere_else() {
    let base = times("compare-wrapped", &[1.00, 1.01, 0.99]);
    let whole = "Geometric means over the runs of each side, how many in brackets. The change has";
    let mut terminal = OnTerminal::begin(60, &["compare", &base, &base]);
    terminal.shows(&["Geometric means over the runs of each side, how many in\nbrackets. The change has"]);
    terminal.ended_well();
    assert!(compared(&[&base, &base]).output.contains(whole));
}
