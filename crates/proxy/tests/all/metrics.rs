//! The reference page is made from the table of metrics; the dashboard and the rules for Prometheus
//! ask for nothing else.
//! `UPDATE=1` rewrites the page.

use std::fs;
use std::path::PathBuf;

use krarup_proxy::metrics::{TABLE, page};
use krarup_record::exposition::PROCESS;

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

/// Every text under a key, at any depth.
fn texts(value: &serde_json::Value, key: &str, into: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                if let (true, Some(text)) = (name == key, value.as_str()) {
                    into.push(text.to_owned());
                }
                texts(value, key, into);
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| texts(value, key, into)),
        _ => {}
    }
}

/// The rules for Prometheus, as they are installed.
fn rules(file: &str) -> String {
    fs::read_to_string(root("packaging").join(file)).unwrap()
}

/// What stands behind a key, line by line.
fn behind<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(key)).collect()
}

/// How many metrics a query names; each is one that there is or that a recording rule makes.
fn known_metrics(query: &str) -> usize {
    let recorded = rules("recording-rules.yml");
    let recorded = behind(&recorded, "- record: ");
    let words = query
        .split(|character: char| !character.is_ascii_alphanumeric() && !matches!(character, '_' | ':'))
        .filter(|word| word.starts_with("krarup_") || word.starts_with("process_") || word.contains(":"));
    words
        .inspect(|word| {
            if word.contains(':') {
                return assert!(recorded.contains(word), "{word} in `{query}` is no recording rule");
            }
            let of_process = PROCESS.iter().any(|metric| *word == metric.described.name);
            let known = of_process
                || TABLE.iter().any(|metric| {
                    let endings: &[&str] =
                        if metric.kind() == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                    endings.iter().any(|ending| *word == format!("{}{ending}", metric.name))
                });
            assert!(known, "{word} in `{query}` is no metric");
        })
        .count()
}

#[test]
fn recording_rules_are_about_metrics_that_there_are_and_each_comes_after_what_it_uses() {
    let rules = rules("recording-rules.yml");
    let (names, expressions) = (behind(&rules, "- record: "), behind(&rules, "expr: "));
    assert!(names.len() >= 10 && names.len() == expressions.len(), "{names:?}");
    for (number, (name, expression)) in names.iter().zip(&expressions).enumerate() {
        // level:metric:operation, as Prometheus' own guide has it.
        assert_eq!(name.split(':').count(), 3, "{name}");
        assert!(known_metrics(expression) > 0, "{expression}");
        assert_eq!(expression.matches('(').count(), expression.matches(')').count(), "{expression}");
        let later = names[number..].iter().find(|later| expression.contains(*later));
        assert_eq!(later, None, "{name} uses what is recorded after it");
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let dashboard = fs::read_to_string(root("packaging/grafana.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let mut queries = Vec::new();
    texts(&dashboard, "expr", &mut queries);
    texts(&dashboard, "query", &mut queries);
    assert!(queries.len() >= 12, "the dashboard has queries: {}", queries.len());
    let asked: usize = queries.iter().map(|query| known_metrics(query)).sum();
    assert!(asked + 1 >= queries.len(), "each query but that of the data source asks for a metric");
}
