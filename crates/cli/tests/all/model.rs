//! `krarup model` from the outside: files in, tables and JSON out, errors that name the line.

use std::collections::BTreeSet;
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
    assert!(text(&bounds).contains("the bottleneck is uplink"));
    // What is approximate says so where the numbers stand.
    assert!(
        table.contains("approximate") && table.contains("note: slots held from pool `workers`"),
        "{table}"
    );
    assert!(!table.contains("(exact"), "{table}");
    let changed =
        json(&krarup(&here, &["model", "whatif", "n.toml", "--change", "uplink.speed=2", "--json"]));
    let after = changed["after"]["classes"][0]["throughput"].as_f64().expect("a number");
    assert!((after / capacity - 2.0).abs() < 1e-3, "{after}");
}

#[test]
fn every_class_of_one_point_has_its_row() {
    let here = directory("model-classes");
    let names: Vec<String> = (1..=13).map(|number| format!("reader-{number:02}")).collect();
    let class = |name: &String| {
        format!(r#"{{ name = "{name}", rate = 1, path = [{{ at = "db", service = 0.01 }}] }}"#)
    };
    let classes: Vec<String> = names.iter().map(class).collect();
    let network = format!("station = [{{ name = \"db\" }}]\nclass = [{}]\n", classes.join(",\n"));
    fs::write(here.join("n.toml"), network).expect("written");
    let table = text(&krarup(&here, &["model", "solve", "n.toml"]));
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
}

#[test]
fn populations_that_bound_nothing_are_refused() {
    let here = directory("model-bounds");
    let open = r#"station = [{ name = "db" }]
        class = [{ name = "get", rate = 1, path = [{ at = "db", service = 0.01 }] }]"#;
    fs::write(here.join("open.toml"), open).expect("written");
    fs::write(here.join("closed.toml"), open.replace("rate = 1", "population = 3")).expect("written");
    let bounds = |file, population| {
        let output = krarup(&here, &["model", "bounds", file, "--population", population]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = bounds("open.toml", "10");
    assert!(code == Some(2) && said.contains("class `get` is open"), "{said}");
    let (code, said) = bounds("closed.toml", "0");
    assert!(code == Some(2) && said.contains("0 is less than 1"), "{said}");
    assert_eq!(bounds("closed.toml", "1,10").0, Some(0));
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

/// Five rows with percentiles of a simulated system, and the nineteen others beside null models.
#[test]
fn a_model_says_percentiles_explains_itself_and_stands_beside_null_models() {
    let here = directory("model-beside-nulls");
    let rows = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/data/simulated_processors.csv");
    let all = fs::read_to_string(rows).expect("the table is there");
    let five = ["population", "4,8,", "192,8,", "192,64,", "48,16,", "96,64,"];
    let some: Vec<&str> =
        all.lines().filter(|line| five.iter().any(|begin| line.starts_with(begin))).collect();
    assert_eq!(some.len(), 6);
    fs::write(here.join("five.csv"), some.join("\n")).expect("written");
    text(&krarup(&here, &["model", "calibrate", "five.csv", "--unit", "ms"]));
    let predict = ["model", "predict", "model.json", "--population", "96", "--workers", "16,32"];
    let shown = text(&krarup(&here, &predict));
    assert!(shown.contains("predicted percentiles") && !shown.contains("no conclusion"), "{shown}");
    // Far beyond 192 clients nothing is concluded, and it says why.
    let far = ["model", "predict", "model.json", "--population", "100000", "--workers", "16"];
    let far = text(&krarup(&here, &far));
    assert!(far.contains("no conclusion") && far.contains("times beyond what was measured"), "{far}");
    let beside = ["model", "predict", "model.json", "--against-null", rows, "--unit", "ms"];
    let shown = text(&krarup(&here, &beside));
    assert!(shown.contains("closed M/M/m") && shown.contains("the best null model ("), "{shown}");
    let csv = [&predict[..], &["--against-null", rows, "--unit", "ms", "--csv"]].concat();
    for head in text(&krarup(&here, &csv)).split("\n\n").filter_map(|table| table.lines().next()) {
        let names: BTreeSet<&str> = head.split(',').collect();
        assert_eq!(names.len(), head.split(',').count(), "a column has a name of its own: {head}");
    }
    let found = json(&krarup(&here, &[&beside[..], &["--json"]].concat()));
    let ours = found["against_null"][0]["p99"].as_array().expect("errors of p99");
    assert_eq!((ours.len(), found["against_null"].as_array().map(Vec::len)), (19, Some(7)));
    let left_out = text(&krarup(&here, &["model", "predict", "model.json", "--against-null"]));
    assert!(left_out.contains("this model") && left_out.contains("nearest row"), "{left_out}");
    let aimless = krarup(&here, &["model", "predict", "model.json", "--workers", "64", "--against-null"]);
    assert_eq!(aimless.status.code(), Some(2), "{aimless:?}");
    let explained = text(&krarup(&here, &["model", "explain", "model.json", "--html", "page"]));
    assert!(explained.contains("the knee is at") && explained.contains("no second limit"), "{explained}");
    let page = fs::read_to_string(here.join("page/report.html")).expect("a page");
    assert!(page.contains("Hold time T(n)") && page.contains("Time outside Z"));
}

/// However replications are divided, and in whatever order their files are named, the result is
/// that of one run to the last byte; a part that is missing, there twice or cut off is refused.
#[test]
fn replications_that_are_simulated_apart_are_one_simulation() {
    let here = directory("model-parts");
    fs::write(here.join("n.toml"), text(&krarup(&here, &["model", "example"]))).unwrap();
    let simulate = ["model", "simulate", "n.toml", "--seed", "3", "--replicate", "20s"];
    let with = |more: &[&str]| krarup(&here, &[&simulate[..], more].concat());
    let whole = with(&["--replications", "14", "--json"]);
    assert!(whole.status.success(), "{whole:?}");
    assert_eq!((&json(&whole)["stop"], &json(&whole)["replications"]), (&"counted".into(), &14.into()));
    for (range, part) in [("5-12/14", "b"), ("1-4/14", "a"), ("13/14", "c"), ("14/14", "d")] {
        let made = with(&["--replication", range, "--part", part]);
        assert!(made.status.success() && text(&made).contains(range), "{made:?}");
    }
    // On stdout it stands alone, so that a program can read it.
    for form in [&["--json"][..], &["--csv"], &[]] {
        let printed = with(&[&["--replication", "13/14", "--part", "-"][..], form].concat());
        assert!(printed.stdout == fs::read(here.join("c")).unwrap(), "{form:?}: {printed:?}");
    }
    let errors = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let merge =
        |parts: &[&str]| krarup(&here, &[&["model", "simulate", "--json", "--merge"], parts].concat());
    let merged = merge(&["d", "b", "a", "c"]);
    assert!(merged.stdout == whole.stdout, "{merged:?}");
    fs::write(here.join("cut"), &fs::read(here.join("c")).unwrap()[..500]).unwrap();
    with(&["--percentiles", "50", "--replication", "13/14", "--part", "other"]);
    for (parts, why) in [
        (&["a", "b", "d"][..], "lack 1 of 14 replications: 13"),
        (&["a", "b", "c", "c", "d"], "have replication 13 twice"),
        (&["a", "b", "cut", "d"], "cut"),
        (&["a", "b", "other", "d"], "different simulations"),
    ] {
        let refused = merge(parts);
        assert!(refused.status.code() == Some(2) && errors(&refused).contains(why), "{refused:?}");
        assert!(errors(&refused).contains("hint: "), "{refused:?}");
    }
    for range in ["0/14", "3-2/14", "15/14", "x"] {
        let refused = with(&["--replication", range, "--part", "e"]);
        assert!(
            refused.status.code() == Some(2) && errors(&refused).contains("names no replications"),
            "{refused:?}"
        );
    }
}

#[test]
fn a_network_is_simulated_until_its_intervals_are_narrow() {
    let here = directory("model-simulate");
    let example = text(&krarup(&here, &["model", "example"]));
    fs::write(here.join("n.toml"), example).expect("written");
    let simulate =
        ["model", "simulate", "n.toml", "--seed", "3k", "--precision", "0.01", "--max-events", "2000000"];
    let with = |more: &[&str]| krarup(&here, &[&simulate[..], more].concat());
    let said = with(&["--json", "--html", "page"]);
    let simulated = json(&said);
    assert_eq!(simulated["stop"], "precise");
    assert_eq!(said.stdout, with(&["--json"]).stdout, "the same seed, the same figures");
    let x = &simulated["classes"][0]["throughput"];
    let (low, high) = (&x["interval"]["low"], &x["interval"]["high"]);
    let capacity = 101e6 / 8.0 / 4288.0;
    assert!(low.as_f64() < Some(capacity * 1.01) && high.as_f64() > Some(capacity * 0.99), "{x}");
    assert_eq!(simulated["classes"][0]["percentiles"].as_array().map(Vec::len), Some(4));
    assert!(simulated["warm_up"].as_f64().is_some_and(|time| time > 0.0));
    assert!(text(&said).contains("seed 3000"), "{}", text(&said));
    assert!(text(&said).contains("were left out as warm-up") && text(&said).contains("a pilot of"));
    let page = fs::read_to_string(here.join("page/report.html")).expect("a page");
    assert!(page.contains("The run over time"));
    let shown = text(&with(&["--percentiles", "99.9,99.99"]));
    let has_interval = shown.contains("±") || shown.contains(" to ");
    assert!(has_interval && shown.contains("99.9  ") && shown.contains("workers"), "{shown}");
    assert!(shown.contains("99.99  "), "three digits would make 100 of it: {shown}");

    let wrong = krarup(&here, &["model", "simulate", "n.toml", "--level", "95"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("0.95 is 95 %"));
}

/// Stations are 0 to 2, the pool of workers is 3.
#[test]
fn simulated_visits_are_rows_like_measured_ones() {
    use krarup_record::file::rows::{RowFile, flat};
    let here = directory("model-visits");
    fs::write(here.join("n.toml"), text(&krarup(&here, &["model", "example"]))).expect("written");
    let simulate = ["model", "simulate", "n.toml", "--precision", "0", "--max-events", "20000", "--visits"];
    for name in ["visits.parquet", "visits.csv"] {
        assert!(krarup(&here, &[&simulate[..], &[name]].concat()).status.success());
    }
    let (mut binary, mut text) = (Vec::new(), Vec::new());
    let mut file = RowFile::open(&here.join("visits.parquet")).expect("a sound file");
    file.for_each(|visit, servers| binary.push((*visit, servers.to_vec()))).expect("rows");
    let file = fs::File::open(here.join("visits.csv")).expect("it is there");
    flat::read(file, |visit, servers| text.push((*visit, servers.to_vec()))).expect("rows");
    assert!(binary == text && binary.len() > 15_000);
    let holds = binary.iter().filter(|(visit, _)| visit.station == 3);
    let (count, parts) = holds.fold((0, 0), |(n, parts), (_, servers)| (n + 1, parts + servers.len()));
    assert!(
        count > 3_000 && parts == 2 * count,
        "each hold names memcached and the link: {parts} of {count}"
    );
    assert!(binary.iter().all(|(visit, servers)| visit.is_ordered(servers)));
}

/// A rate that changes has no long run: replications show each stretch.
#[test]
fn arrivals_that_vary_with_time_are_replicated_and_progress_is_told() {
    let here = directory("model-varying");
    let network = r#"
        name = "a busy hour"
        station = [{ name = "till", servers = 3, discipline = "lifo", capacity = 20 }]
        [[class]]
        name = "customer"
        rate = 2.0
        profile = [{ at = "100 s", factor = 2.5 }, { at = "150 s", factor = 1 }]
        path = [{ at = "till", service = { lognormal = "1 s", scv = 2 } }]
    "#;
    fs::write(here.join("n.toml"), network).expect("written");
    let refused = krarup(&here, &["model", "simulate", "n.toml"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("simulate replications"), "{said}");
    let simulate =
        ["model", "simulate", "n.toml", "--replicate", "200s", "--warm-up", "20s", "--precision", "0.05"];
    let simulated = json(&krarup(&here, &[&simulate[..], &["--json"]].concat()));
    assert!(simulated["replications"].as_u64().is_some_and(|count| count >= 5));
    let csv = text(&krarup(&here, &[&simulate[..], &["--csv"]].concat()));
    assert!(csv.contains("from_s,to_s,class,begun_per_s"), "{csv}");
}

const THREE_ROWS: &str = "population,workers,throughput,response,wait\n8,8,2000,0.003,0\n64,16,4000,0.015,0.011\n96,64,5000,0.018,0.006\n";

/// A form that three rows are too few to judge has an infinite score, which JSON has as null.
#[test]
fn a_model_of_three_rows_is_read_back() {
    let here = directory("model-three-rows");
    fs::write(here.join("rows.csv"), THREE_ROWS).expect("written");
    text(&krarup(&here, &["model", "calibrate", "rows.csv", "--json"]));
    let model = fs::read_to_string(here.join("model.json")).expect("a model");
    assert!(model.contains("null"), "a score is infinite: {model}");
    let predicted =
        krarup(&here, &["model", "predict", "model.json", "--population", "32", "--workers", "16", "--json"]);
    assert_eq!(json(&predicted)["predictions"].as_array().map(Vec::len), Some(1));
    let linked = krarup(&here, &["model", "calibrate", "rows.csv", "--link", "101Mbit/s"]);
    let said = String::from_utf8_lossy(&linked.stderr);
    assert!(linked.status.code() == Some(2) && said.contains("--link needs recorded requests"), "{said}");
    for (words, code) in [
        (&["predict", "model.json", "--workers", "4", "--population", "0"][..], 2),
        (&["predict", "model.json", "--workers", "4", "--population", "1G"], 1),
        (&["predict", "model.json", "--workers", "0", "--population", "4"], 2),
        (&["calibrate", "rows.csv", "--middlewares", "0"], 2),
        (&["calibrate", "rows.csv", "--link", "0 bit/s"], 2),
    ] {
        let refused = krarup(&here, &[&["model"], words].concat());
        assert_eq!(refused.status.code(), Some(code), "{refused:?}");
    }
    fs::write(here.join("many.csv"), THREE_ROWS.replace("96,64", "1e9,64")).expect("written");
    let refused = krarup(&here, &["model", "calibrate", "many.csv"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

/// Spreadsheets write one, and end lines as they do elsewhere.
#[test]
fn a_byte_order_mark_is_no_part_of_the_rows() {
    let here = directory("model-byte-order-mark");
    let calibrated = |rows: &str| {
        fs::write(here.join("rows.csv"), rows).expect("written");
        json(&krarup(&here, &["model", "calibrate", "rows.csv", "--json"]))
    };
    let marked = format!("\u{feff}{}", THREE_ROWS.replace('\n', "\r\n"));
    assert_eq!(calibrated(&marked), calibrated(THREE_ROWS));
}

#[test]
fn rows_beside_a_network_may_stand_in_one_file_or_in_two() {
    let here = directory("model-compare");
    fs::write(here.join("n.toml"), text(&krarup(&here, &["model", "example"]))).expect("written");
    let rows = ["10,1500,0.005,0.006\n", "20,2500,0.006,\n"];
    let write = |name: &str, rows: &[&str]| {
        let text = format!("population,throughput,response,client_response\n{}", rows.concat());
        fs::write(here.join(name), text).expect("written");
    };
    for (name, rows) in
        [("both.csv", &rows[..]), ("one.csv", &rows[..1]), ("other.csv", &rows[1..]), ("head.csv", &[])]
    {
        write(name, rows);
    }
    let compare =
        |files: &[&str]| krarup(&here, &[&["model", "compare", "n.toml", "--json"], files].concat());
    let both = json(&compare(&["both.csv"]));
    assert_eq!(both, json(&compare(&["one.csv", "other.csv"])));
    assert_eq!(both["table"]["rows"][0][4], 0.006, "what clients measured");
    let empty = compare(&["head.csv"]);
    assert_eq!(empty.status.code(), Some(2), "{empty:?}");
}

#[test]
fn a_change_tells_what_its_simulations_warn_of() {
    let here = directory("model-change-warnings");
    let network = r#"station = [{ name = "db", delay = true }]
        [[class]]
        name = "get"
        population = 1
        think = { pareto = 1, shape = 2 }
        path = [{ at = "db", service = { gamma = 1000, scv = 0.01 } }]"#;
    fs::write(here.join("n.toml"), network).expect("written");
    let changed = json(&krarup(&here, &["model", "whatif", "n.toml", "--change", "db.speed=2", "--json"]));
    let notes = changed["notes"].to_string();
    for when in ["before", "after"] {
        let told = format!("warning: {when}: think times of class `get` have no finite variance");
        assert!(notes.contains(&told), "{notes}");
    }
}

#[test]
fn a_change_shows_each_value_in_its_own_unit() {
    let here = directory("model-units");
    let network = r#"station = [{ name = "db" }]
        class = [{ name = "get", rate = 10000, path = [{ at = "db", service = "20 us" }] }]"#;
    fs::write(here.join("n.toml"), network).expect("written");
    let whatif = ["model", "whatif", "n.toml", "--change", "db.speed=2"];
    let shown = text(&krarup(&here, &whatif));
    assert!(shown.contains("25.0 µs") && !shown.contains("≈ 0"), "{shown}");
    let csv = text(&krarup(&here, &[&whatif[..], &["--csv"]].concat()));
    assert!(csv.contains(",get,s,"), "programs have the base unit: {csv}");
}
