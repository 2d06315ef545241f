//! The reference page is made from the table of metrics. `UPDATE=1` rewrites it.

use std::fs;
use std::path::PathBuf;

use krarup_proxy::metrics::page;

fn root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn the_reference_of_metrics_is_the_table() {
    let path = root("docs/reference/metrics.md");
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        fs::write(&path, page()).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page(), "docs/reference/metrics.md is not the table; `make docs` rewrites it");
}
