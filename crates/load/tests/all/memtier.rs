//! What memtier_benchmark wrote (version 2.3, commit 2f74d61, against memcached), read: its table
//! and its JSON say the same.

use krarup_load::memtier::read::{Printed, read};

fn printed(name: &str) -> Printed {
    let path = format!("{}/tests/memtier/{name}", env!("CARGO_MANIFEST_DIR"));
    read(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn assert_alike(one: f64, other: f64, digits: f64) {
    assert!((one - other).abs() <= digits, "{one} {other}");
}

/// Both forms of the same run, up to the digits that each prints.
fn assert_same(text: &Printed, json: &Printed) {
    assert_eq!(text.threads, json.threads);
    assert_eq!(text.connections_per_thread, json.connections_per_thread);
    assert_eq!((text.requests_per_client, text.seconds), (json.requests_per_client, json.seconds));
    assert_eq!(text.blocks.len(), json.blocks.len());
    for block in &text.blocks {
        let other = json.blocks.iter().find(|other| other.title == block.title).unwrap();
        for (name, row) in block.rows.iter().filter(|(name, _)| *name != "Waits") {
            let theirs = &other.rows[name];
            assert_alike(row.throughput.unwrap().0, theirs.throughput.unwrap().0, 0.01);
            assert_alike(row.bytes_per_second.unwrap(), theirs.bytes_per_second.unwrap(), 11.0);
            // The JSON's mean is of sums that were cut to whole milliseconds, in each second and on
            // each connection.
            assert_alike(theirs.mean.unwrap() / row.mean.unwrap(), 1.0, 0.05);
            assert_eq!(row.percentiles.len(), 3);
            // Of the totals of several runs the JSON has one and the same figure for every
            // percentile.
            let is_wrong_there = name == "Totals" && block.title.starts_with("AGGREGATED");
            for (one, other) in row.percentiles.iter().zip(&theirs.percentiles).filter(|_| !is_wrong_there) {
                assert_eq!(one.0, other.0);
                assert_alike(one.1, other.1, 1e-6);
            }
        }
        let steps = |one: &Printed, name: &str| {
            let block = one.blocks.iter().find(|one| one.title == block.title).unwrap();
            block.histograms.get(name).cloned().unwrap_or_default()
        };
        assert_eq!(steps(text, "SET"), steps(json, "SET"));
        assert_eq!(steps(text, "GET"), steps(json, "GET"));
    }
}

#[test]
fn one_run_reads_the_same_from_both_forms() {
    let (text, json) = (printed("one.txt"), printed("one.json"));
    assert_eq!(text.blocks[0].title, "ALL STATS");
    assert_eq!(text.blocks[0].rows["Gets"].throughput.unwrap().0, 17_751.39);
    assert!(text.blocks[0].histograms["GET"].len() > 50);
    assert_eq!(json.blocks[0].rows["Sets"].series[0].1, 6_439);
    assert_same(&text, &json);
}

#[test]
fn several_runs_are_the_best_the_worst_and_the_average() {
    let (text, json) = (printed("three.txt"), printed("three.json"));
    let titles: Vec<_> = text.blocks.iter().map(|block| block.title.as_str()).collect();
    assert_eq!(titles, ["BEST RUN RESULTS", "WORST RUN RESULTS", "AGGREGATED AVERAGE RESULTS (3 runs)"]);
    assert_same(&text, &json);
}
