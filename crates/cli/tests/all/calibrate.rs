//! From traffic to a model: runs of `krarup load` through `krarup proxy` become the rows of a
//! calibration, without a hand between.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::support::experiment::json;
use crate::support::fresh;
use crate::support::process::{Ended, Program};
use serde_json::Value;

fn run(words: &[&str]) -> Ended {
    let ended = Program::begin(words).ended();
    assert!(ended.success, "{ended:?}");
    ended
}

/// One run: so many clients before a proxy with so many workers for so many seconds; its records in
/// a folder of their own. Twenty clients and more are those of two generators.
fn measure(
    store: SocketAddr,
    folder: &Path,
    (clients, workers): (&str, &str),
    seconds: &str,
    flags: &[&str],
) {
    fs::create_dir_all(folder).unwrap();
    let stats = [&["--workers", workers, "--stats-dir", folder.to_str().unwrap()], flags].concat();
    let proxy = Program::proxy(&[store], &stats);
    let target = proxy.address().to_string();
    let clients: u32 = clients.parse().unwrap();
    let (each, results) = if clients < 20 {
        (clients, vec![folder.join("load.json")])
    } else {
        fs::create_dir(folder.join("clients")).unwrap();
        (clients / 2, [1, 2].map(|number| folder.join(format!("clients/{number}.json"))).to_vec())
    };
    let generators = results.iter().map(|result| {
        let connections = each.to_string();
        let load = ["load", "--servers", &target, "--connections", &connections, "--ratio", "1:1"];
        let extent = ["--seconds", seconds, "--warm-up", "100ms", "--json", result.to_str().unwrap()];
        Program::begin(&[&load[..], &extent].concat())
    });
    // All of them begin before the first is waited for.
    for generator in generators.collect::<Vec<_>>() {
        let ended = generator.ended();
        assert!(ended.success, "{ended:?}");
    }
    assert!(proxy.stop().success);
}

#[test]
fn recorded_runs_become_a_model() {
    let here = fresh("recorded-runs");
    let runs = here.join("runs");
    let store = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let configurations = [("1", "2"), ("2", "2"), ("6", "2"), ("12", "4"), ("24", "8")];
    for (clients, workers) in configurations {
        let folder = runs.join(format!("{clients:0>2}-{workers}"));
        measure(store.address(), &folder, (clients, workers), "0.5", &["--rows"]);
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
        // Requests under way when the span began count with their whole time, warm-up included;
        // those on their way back when it ended count at the middleware alone.
        let longest = 0.6 / 0.5;
        let back = longest * number("population") / number("throughput");
        let most = 1.05 * number("client_response") + back;
        assert!(number("response") > number("wait") && number("response") < most, "{row}");
        let busy = number("throughput") * (number("response") - number("wait"));
        assert!(busy <= 1.05 * longest * number("workers"), "Little: {busy} busy of {row}");
        // N = X·(R + Z): what the clients need between an answer and the next request on a busy
        // machine is Z. Requests that were on the way when the span began count with their whole
        // time, which is all of a stall that lies there.
        let waiting = number("throughput") * number("client_response");
        assert!(0.0 < waiting && waiting <= 2.0 * number("population"), "N ≥ X·R: {waiting} of {row}");
    }
    // Every run knows how busy the load generator was; what else was in use stands beside it, where
    // an experiment wrote it down.
    assert!(rows.iter().all(|row| row["uses"][0]["resource"] == "generator"), "{rows:?}");
    // Each trial has its server at another address: it is one, of which the best row is the bound.
    for (clients, workers) in configurations {
        let folder = runs.join(format!("{clients:0>2}-{workers}"));
        let result = if clients == "24" { "clients/1.json" } else { "load.json" };
        let seconds = 1.9 * json(&folder.join(result))["seconds"].as_f64().unwrap();
        let name = format!("127.0.0.1:400{clients:0>2}");
        let busy = format!(r#"[{{"station":"servers","name":"{name}","seconds":{seconds},"cores":2.0}}]"#);
        fs::write(folder.join("cpu.json"), busy).unwrap();
    }
    let bounded = run(&["model", "calibrate", folder, "--out", model, "--json"]).json();
    let notes = bounded["notes"].to_string();
    assert!(
        notes.contains("the processors of server 1: 95.0 % busy at") && notes.contains("the limit there"),
        "{notes}"
    );
    let rows = bounded["rows"].as_array().unwrap();
    let throughputs = rows.iter().map(|row| row["throughput"].as_f64().unwrap());
    let most = throughputs.fold(0.0, f64::max) / 0.95;
    let far = run(&["model", "predict", model, "--population", "500", "--workers", "500", "--json"]).json();
    let said = far["predictions"][0]["throughput"]["value"].as_f64().unwrap();
    assert!(said <= 1.001 * most, "{said} of at most {most}");
    let explained = run(&["model", "explain", model, "--json"]).json();
    let parts = explained["parts"].as_array().unwrap().iter().map(|part| part["part"].as_str().unwrap());
    let processors: Vec<&str> = parts.filter(|part| part.starts_with("the processors of")).collect();
    assert_eq!(processors, ["the processors of server 1"]);

    let shown = run(&["model", "calibrate", folder, "--out", model, "--cores", "2"]).output;
    assert!(shown.contains("Hold time T(n)") && shown.contains("Calibration rows"), "{shown}");
    let predict = ["model", "predict", model, "--population", "18", "--workers", "4", "--json"];
    let predicted = run(&predict).json();
    let x = &predicted["predictions"][0]["throughput"];
    let [low, value, high] = ["low", "value", "high"].map(|end| x[end].as_f64().unwrap());
    assert!(0.0 < low && low <= value && value <= high, "{x}");
    assert_eq!(predicted["calibrated_on"].as_array().map(Vec::len), Some(configurations.len()));
    let unsaid = Program::begin(&["model", "predict", model, "--population", "18"]).ended();
    assert!(unsaid.code == Some(2) && unsaid.errors.contains("write --workers"), "{unsaid:?}");
    let compared = run(&["model", "compare", model, folder, "--json"]).json();
    assert!(compared["mean_error"].is_null(), "all rows were used: no evidence");
}

/// Two before which the clients were, with what each recorded in a folder of its own. Neither
/// limits anything: no worker is waited for, and none need be named.
#[test]
fn runs_of_two_middlewares_are_apart_from_those_of_one() {
    let here = fresh("recorded-by-two");
    let runs = here.join("runs");
    let store = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let populations = ["2", "4", "8"];
    std::thread::scope(|scope| {
        for clients in populations {
            let (store, folder) = (store.address(), runs.join(clients));
            scope.spawn(move || measure(store, &folder, (clients, "unlimited"), "0.5", &["--rows"]));
        }
    });
    for clients in populations {
        let run = runs.join(clients);
        for middleware in ["a", "b"] {
            fs::create_dir(run.join(middleware)).unwrap();
            for file in ["histograms.hlog", "holds.csv", "rows.parquet", "summary.json", "windows.csv"] {
                fs::copy(run.join(file), run.join(middleware).join(file)).unwrap();
            }
        }
        fs::remove_file(run.join("summary.json")).unwrap();
    }
    let model = here.join("model.json");
    let model = model.to_str().unwrap();
    let calibrate = ["model", "calibrate", runs.to_str().unwrap(), "--out", model, "--json"];
    let calibration = run(&calibrate).json();
    for (row, clients) in calibration["rows"].as_array().unwrap().iter().zip(populations) {
        assert_eq!(
            (row["population"].to_string(), row["workers"].to_string()),
            (clients.into(), clients.into())
        );
    }
    let predicted = run(&["model", "predict", model, "--population", "6", "--json"]).json();
    assert_eq!(predicted["predictions"][0]["answer"]["workers"], 6, "{predicted}");

    fs::remove_dir_all(runs.join("8/b")).unwrap();
    let pooled = Program::begin(&calibrate).ended();
    assert_eq!(pooled.code, Some(2), "{pooled:?}");
    assert!(pooled.errors.contains("different numbers of middlewares: 1, 2"), "{pooled:?}");
}

/// Without rows, or with those of some keys, the proxy's windows of one second are what there is of
/// all requests: those that lie wholly within what the clients measured.
#[test]
fn runs_that_kept_no_rows_become_a_model_by_their_windows() {
    let here = fresh("recorded-windows");
    let runs = here.join("runs");
    let store = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let configurations = [("2", "2"), ("6", "2"), ("12", "4")];
    // At once, each before its own proxy: a whole window takes more than a second.
    std::thread::scope(|scope| {
        for configuration in configurations {
            let (store, folder) = (store.address(), runs.join(format!("{:0>2}", configuration.0)));
            let sampled = configuration.0 == "6";
            let flags: &[&str] = if sampled { &["--rows", "--rows-sample", "1/16"] } else { &[] };
            scope.spawn(move || measure(store, &folder, configuration, "2.5", flags));
        }
    });
    let model = here.join("model.json");
    let words = ["model", "calibrate", runs.to_str().unwrap(), "--out", model.to_str().unwrap(), "--json"];
    let calibration: Value = run(&words).json();
    let rows = calibration["rows"].as_array().unwrap();
    assert_eq!(rows.len(), configurations.len());
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    for (row, (clients, workers)) in rows.iter().zip(configurations) {
        assert_eq!(
            (row["population"].to_string(), row["workers"].to_string()),
            (clients.into(), workers.into())
        );
        assert_eq!(row["cores"].as_u64(), Some(cores), "the proxy wrote down what machine it had");
        let folder = runs.join(format!("{clients:0>2}"));
        assert_eq!(folder.join("rows.parquet").exists(), clients == "6");
        let number = |name: &str| row[name].as_f64().unwrap();
        let found = (number("response"), number("wait"));
        let possible = means_of_windows(&folder.join("windows.csv"));
        let same = |(response, wait): &(f64, f64)| {
            (response / found.0 - 1.0).abs() < 1e-9 && (wait - found.1).abs() < 1e-9 * response
        };
        assert!(possible.iter().any(same), "{found:?} is the mean of no windows: {possible:?}");
    }
}

/// Response and queue time in seconds, the mean over each stretch of a proxy's windows, computed by
/// hand.
fn means_of_windows(path: &Path) -> Vec<(f64, f64)> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    let columns = ["start_ns", "count", "response_time_ns", "queue_time_ns"];
    let columns = columns.map(|name| heads.iter().position(|head| *head == name).unwrap());
    let mut windows: Vec<[u64; 4]> = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let [start, count, response, queue] = columns.map(|column| cells[column].parse::<u64>().unwrap());
        match windows.last_mut() {
            Some(last) if last[0] == start => {
                *last = [start, last[1] + count, last[2] + response, last[3] + queue];
            }
            _ => windows.push([start, count, response, queue]),
        }
    }
    let stretches = (0..windows.len()).flat_map(|from| (from + 1..=windows.len()).map(move |to| (from, to)));
    let mean = |(from, to): (usize, usize)| {
        let sum = |part: usize| windows[from..to].iter().map(|window| window[part]).sum::<u64>() as f64;
        (sum(2) / sum(1) / 1e9, sum(3) / sum(1) / 1e9)
    };
    stretches.map(mean).filter(|(response, _)| response.is_finite()).collect()
}

#[test]
fn a_folder_without_a_run_says_what_a_run_is() {
    let here = fresh("no-run");
    fs::create_dir_all(&here).unwrap();
    let ended = Program::begin(&["model", "calibrate", here.to_str().unwrap()]).ended();
    assert_eq!(ended.code, Some(2));
    assert!(ended.errors.contains("holds no run") && ended.errors.contains("load.json"), "{ended:?}");
}
