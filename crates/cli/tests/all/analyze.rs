//! `krarup analyze`: what the rows of a run say, and the results of a directory anew.

use std::fs;
use std::path::PathBuf;

use crate::headroom;
use crate::support::experiment::run;
use crate::support::process::{Ended, Program};
use crate::support::{file, fresh};
use serde_json::Value;

fn krarup(words: &[&str]) -> Ended {
    Program::begin(words).ended()
}

/// Customers come 100 times a second and are served for 5 ms on average (M/M/1, ρ = 0.5): theory
/// knows the rest.
const QUEUE: &str = r#"
name = "one server"
[[station]]
name = "server"
[[class]]
name = "customers"
rate = 100
path = [{ at = "server", service = "5 ms" }]
"#;

fn rows(name: &str) -> String {
    let network = file(&format!("{name}.toml"), QUEUE);
    let rows = fresh(&format!("{name}.parquet"));
    let rows = rows.to_str().unwrap().to_owned();
    let words = ["model", "simulate", &network, "--visits", &rows, "--seed", "3", "--precision", "0.02"];
    let ended = krarup(&words);
    assert!(ended.success, "{ended:?}");
    rows
}

#[test]
fn rows_of_a_queue_give_what_theory_says_and_the_same_bytes_each_time() {
    let rows = rows("analyze-queue");
    let ended = krarup(&["analyze", &rows, "--warm-up", "10s", "--json"]);
    assert!(ended.success, "{ended:?}");
    let found: Value = serde_json::from_str(&ended.output).unwrap();
    let station = &found[0]["stations"][0];
    let all = &station["operations"][0];
    let close = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value / expected - 1.0).abs() < 0.1, "{value} is not {expected}");
    };
    close(&all["throughput"]["value"], 100.0);
    // R = S / (1 − ρ) = 10 ms, exponential: its median is R · ln 2, and it was served for 5 ms of
    // it.
    close(&all["response"]["mean"]["value"], 0.01);
    close(&all["response"]["percentiles"][1]["value"], 0.01 * 2_f64.ln());
    close(&station["places"][0]["present"], 1.0);
    let interval = &all["response"]["mean"]["interval"];
    assert!(interval["low"].as_f64().unwrap() < interval["high"].as_f64().unwrap());
    assert!(found[0]["warnings"].as_array().unwrap().is_empty(), "{}", found[0]["warnings"]);
    assert_eq!(krarup(&["analyze", &rows, "--warm-up", "10s", "--json"]).output, ended.output);
}

#[test]
fn an_analysis_can_be_read_in_a_terminal_a_table_and_a_page() {
    let rows = rows("analyze-forms");
    let plain = krarup(&["analyze", &rows]);
    assert!(plain.success && plain.output.contains("X · W") && plain.output.contains("p99.9"), "{plain:?}");
    let table = krarup(&["analyze", &rows, "--csv"]);
    assert!(table.output.starts_with("operation,requests,errors,throughput_per_s"), "{table:?}");
    let page = fresh("analyze-page");
    let markdown = krarup(&["analyze", &rows, "--markdown", "--html", page.to_str().unwrap()]);
    assert!(markdown.output.contains("## Whether it adds up"), "{markdown:?}");
    assert!(fs::read_to_string(page.join("report.html")).unwrap().contains("The whole run"));
    assert!(page.join("figures/the-run.csv").is_file());
}

const SPEC: &str = r#"
title = "with rows"
repetitions = { min = 1 }
phases = { warm_up = "50ms", measure = "300ms" }
data = ["--keys", "50"]
[[factor]]
name = "clients"
levels = [1, 2, 4]
[populate]
[stations.servers]
program = "cache"
count = 1
[stations.middleware]
program = "proxy"
flags = ["--workers", "2", "--rows"]
[stations.clients]
program = "load"
flags = ["--ratio", "1:3", "--connections", "$clients"]
"#;

/// Clients have neither a queue nor workers: what their requests wait before they are sent is
/// lateness.
#[test]
fn rows_of_a_load_generator_are_analysed_in_its_words() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let address = server.address().to_string();
    let rows = fresh("analyze-load.parquet");
    let rows = rows.to_str().unwrap();
    let ended = krarup(&[
        "load", "-s", &address, "-n", "500", "-c", "2", "--rate", "2000", "--keys", "10", "--rows", rows,
    ]);
    assert!(ended.success, "{ended:?}");
    let plain = krarup(&["analyze", rows]);
    assert!(
        plain.success && plain.output.contains("lateness") && plain.output.contains("time from sent"),
        "{plain:?}"
    );
    let page = krarup(&["analyze", rows, "--markdown"]);
    assert!(page.output.contains("from when a request was due to when it was sent"), "{page:?}");
    for said in [&plain.output, &page.output] {
        assert!(!said.contains("queue") && !said.contains("worker"), "{said}");
    }
    let found: Value = serde_json::from_str(&krarup(&["analyze", rows, "--json"]).output).unwrap();
    assert_eq!(found[0]["of_clients"], true);
    assert_eq!(found[0]["stations"][0]["places"][1]["name"], "due, not sent");
}

/// The folder of the only trial with so many clients.
fn trial(out: &str, clients: u32) -> PathBuf {
    PathBuf::from(out).join(format!("trials/clients={clients}/0"))
}

#[test]
fn the_rows_of_a_trial_are_cut_to_what_its_clients_measured() {
    let spec = file("analyze-trial.toml", SPEC);
    let out = fresh("analyze-trial");
    run(spec.as_ref(), &out);
    let out = out.to_str().unwrap();
    let folder = trial(out, 4);
    let analyzed = krarup(&["analyze", folder.to_str().unwrap(), "--json"]);
    assert!(analyzed.success, "{analyzed:?}");
    let found: Value = serde_json::from_str(&analyzed.output).unwrap();
    let load: Value = serde_json::from_str(&fs::read_to_string(folder.join("load.json")).unwrap()).unwrap();
    let all = &found[0]["stations"][0]["operations"][0];
    let (here, there) = (all["count"].as_u64().unwrap(), load["overall"]["count"].as_u64().unwrap());
    // A request under way when the span began or ended is counted on one side only.
    assert!(here.abs_diff(there) <= 2 * 4 + there / 50, "{here} rows, {there} answers");
    assert!(here < found[0]["rows"].as_u64().unwrap() + 1);
    let names: Vec<&str> = found[0]["stations"][0]["places"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| place["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["station", "queue", "workers", "server 0"]);

    // The results of the directory, anew: the same bytes.
    let results = || fs::read(PathBuf::from(out).join("results.json")).unwrap();
    let before = results();
    fs::remove_file(PathBuf::from(out).join("results.json")).unwrap();
    let again = krarup(&["analyze", out]);
    assert!(again.success && again.output.trim_end().ends_with("results.json"), "{again:?}");
    assert!(results() == before, "the same trials give the same bytes");
    let cell = &serde_json::from_slice::<Value>(&before).unwrap()["cells"][2];
    let operations: Vec<&str> =
        cell["operations"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(operations, ["get", "set"]);
    assert!(cell["operations"][0]["inside"]["server"]["p50"]["value"].as_f64().unwrap() > 0.0);

    // What would have been said of the headroom, for each trial.
    let told = &serde_json::from_slice::<Value>(&before).unwrap()["headroom"];
    let clients: Vec<_> = told.as_array().unwrap().iter().map(|one| one["clients"].as_u64()).collect();
    assert_eq!(clients, [Some(1), Some(2), Some(4)]);
    assert!(
        fs::read_to_string(PathBuf::from(out).join("report.html")).unwrap().contains("What headroom says")
    );
    // A target that is kept on any machine.
    let lines = krarup(&["headroom", out, "--target", "p99 < 60s", "--json"]);
    // Where the rows lie in a folder, as with --rows-every, the same is said.
    let (model, one, two) = (fresh("analyze-model.json"), trial(out, 1), trial(out, 2));
    let [one, two, four, model] = [&one, &two, &folder, &model].map(|path| path.to_str().unwrap());
    let calibrated = || {
        let ended = krarup(&["model", "calibrate", one, two, four, "--out", model]);
        assert!(ended.success, "{ended:?}");
        fs::read(model).unwrap()
    };
    let before = calibrated();
    let of_proxy = folder.join("middleware/1");
    let hour = of_proxy.join("rows/date=2026-11-25/hour=09");
    fs::create_dir_all(&hour).unwrap();
    fs::rename(of_proxy.join("rows.parquet"), hour.join("rows-1.parquet")).unwrap();
    assert_eq!(krarup(&["headroom", out, "--target", "p99 < 60s", "--json"]).output, lines.output);
    assert!(calibrated() == before, "another model of the same rows");
    let lines: Value = serde_json::from_str(&lines.output).unwrap();
    let most = cell["throughput"]["value"].as_f64().unwrap();
    assert!(lines[0]["highest_measured"].as_f64().unwrap() >= most * 0.999, "{lines:#}");

    // A target that is broken at the end of one of them; and rows of a broker, which tell nothing.
    headroom::write(&hour.join("rows-1.parquet"), &headroom::visits());
    let broken = krarup(&["headroom", out, "--target", "p50 < 100us"]);
    assert_eq!(broken.code, Some(1), "{broken:?}");
    let path = of_proxy.join("summary.json");
    let mut summary: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    summary["free_when_answered"] = true.into();
    fs::write(&path, summary.to_string()).unwrap();
    let left_out = krarup(&["headroom", out, "--target", "p50 < 60s", "--json"]);
    let left: Value = serde_json::from_str(&left_out.output).unwrap();
    assert_eq!((left_out.code, left.as_array().map(Vec::len)), (Some(3), Some(2)), "{left_out:?}");
}

/// One of Twitter's traces, and one with a head; and rows that know their keys.
#[test]
fn a_trace_tells_its_keys_and_the_memory_they_need() {
    let lines: String = (0..4_000)
        .map(|number| {
            let (key, op) = (number % 40, if number < 40 { "set" } else { "get" });
            format!("{},key{key:03},6,{},7,{op},0\n", number / 100, 100 + key)
        })
        .collect();
    let of_twitter = file("analyze-twitter.csv", &lines);
    let told = krarup(&["analyze", &of_twitter, "--json"]);
    assert!(told.success, "{told:?}");
    let told: Value = serde_json::from_str(&told.output).unwrap();
    assert_eq!((&told["requests"], &told["keys"]["distinct"]), (&4_000.into(), &40.into()));
    assert_eq!((&told["memory"]["reads"], &told["memory"]["most_hits"]), (&3_960.into(), &1.0.into()));
    // Each key comes round after all others: a cache of 39 finds none, one of 40 all of them. The
    // values have 119.5 bytes in the mean.
    for size in told["memory"]["sizes"].as_array().unwrap() {
        assert_eq!((&size["keys"], &size["bytes"]), (&40.into(), &(40 * (6 + 56) + 4_780).into()));
    }
    let text = krarup(&["analyze", &of_twitter]);
    assert!(text.output.contains("99 % of those do with room for 40 keys, 7.09 KiB"), "{text:?}");
    let page = fresh("analyze-twitter-page");
    let forms = krarup(&["analyze", &of_twitter, "--csv", "--html", page.to_str().unwrap()]);
    assert!(forms.output.starts_with("hit_ratio,keys,bytes\n") && page.join("report.html").is_file());
    // Two clients, and values that live for 10 and for 60 seconds: a read in time, one too late.
    let lines =
        "0,aa,2,9,4,set,10\n0,bb,2,9,4,set,60\n5,aa,2,0,4,get,0\n20,aa,2,0,4,get,0\n20,bb,2,0,7,get,0\n";
    let told = krarup(&["analyze", &file("analyze-lifetimes.csv", lines), "--json"]);
    let told: Value = serde_json::from_str(&told.output).unwrap();
    assert_eq!((&told["memory"]["reads"], &told["memory"]["expired"]), (&3.into(), &1.into()));
    assert_eq!(told["lifetimes"], serde_json::json!({ "expiring": 1.0, "p50": 10, "p90": 60, "max": 60 }));
    assert_eq!((&told["clients"]["count"], &told["clients"]["top_shares"][0]), (&2.into(), &0.8.into()));
    let with_head = file("analyze-trace.csv", "time,op,key,size\n0,set,a,5\n1,get,a b,\n2,mg,c,\n");
    let told = krarup(&["analyze", &with_head, "--markdown"]);
    assert!(told.output.contains("| mget | 1 | 33.3 |") || told.output.contains("| get | 1 |"), "{told:?}");
    for (words, what) in [
        (["analyze", &with_head, "--warm-up", "1s"], "all of it is read at once"),
        (["analyze", &with_head, "--part", "x.json"], "all of it is read at once"),
    ] {
        let ended = krarup(&words);
        assert!(ended.code == Some(2) && ended.errors.contains(what), "{words:?}: {ended:?}");
    }
}

#[test]
fn what_cannot_be_analysed_is_told_with_a_hint() {
    let rows = rows("analyze-wrong");
    let text = file("analyze-no-rows.parquet", "no rows");
    let empty = fresh("analyze-empty");
    fs::create_dir_all(&empty).unwrap();
    let empty = empty.to_str().unwrap();
    let results = fresh("analyze-results");
    fs::create_dir_all(&results).unwrap();
    fs::write(results.join("spec.toml"), SPEC).unwrap();
    let results = results.to_str().unwrap();
    for (words, what) in [
        (vec!["analyze", "/not/here"], "/not/here"),
        (vec!["analyze", &text], "analyze-no-rows"),
        (vec!["analyze", empty], "holds no rows.parquet"),
        (vec!["analyze", &rows, "--warm-up", "900h"], "nothing is left"),
        (vec!["analyze", &rows, "--window", "0s"], "a window must be longer"),
        (vec!["analyze", results, "--trace"], "is a directory of results"),
        (vec!["analyze", &rows, "--trace"], "no request in it asks a cache for a key: "),
    ] {
        let ended = krarup(&words);
        assert!(ended.code == Some(2) && ended.errors.contains(what), "{words:?}: {ended:?}");
        assert!(ended.errors.contains("hint: "), "{words:?}: {ended:?}");
    }
}
