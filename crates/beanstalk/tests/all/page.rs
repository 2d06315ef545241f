//! The reference page is made from the table of verbs. `UPDATE=1` rewrites it.

use std::fs;
use std::path::Path;

#[test]
fn the_reference_of_verbs_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/broker-verbs.md");
    let page = krarup_beanstalk::page();
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        fs::write(&path, &page).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/reference/broker-verbs.md is not the table; `make docs` rewrites it");
}
