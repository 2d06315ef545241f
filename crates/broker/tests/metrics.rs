//! The reference page is made from the table of metrics. `UPDATE=1` rewrites it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::fs;
use std::path::Path;

use krarup_broker::metrics::{TABLE, page};

#[test]
fn the_reference_of_metrics_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/broker-metrics.md");
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        fs::write(&path, page()).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page(), "docs/reference/broker-metrics.md is not the table; `make docs` rewrites it");
}

/// Each word of ours in a file for KEDA is a metric of the table, and each label beside it is one
/// of the metric's.
#[test]
fn keda_asks_for_metrics_that_there_are() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/keda-workers.yaml");
    let file = fs::read_to_string(file).unwrap();
    let mut asked = Vec::new();
    for part in file.split("krarup_").skip(1) {
        let end = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap();
        let name = format!("krarup_{}", &part[..end]);
        let metric = TABLE.iter().find(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is no metric"));
        let labels = part[end..].strip_prefix('{').and_then(|rest| rest.split_once('}')).unwrap().0;
        for label in labels.split(',') {
            let label = label.split_once('=').unwrap().0.trim_end_matches('!');
            let known = metric.label().unwrap().split(", ").any(|known| known == label);
            assert!(known, "{name} has no label {label}");
        }
        asked.push(metric.name);
    }
    let silent = "krarup_broker_workers_needed_silent";
    assert_eq!(asked, ["krarup_broker_workers_needed", silent, silent, "krarup_broker_tube_ready"]);
}
