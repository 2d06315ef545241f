//! The workloads of a sweep, and the load at which each reaches its limit.

use krarup_analysis::cell::Cell;
use krarup_analysis::results::Results;
use krarup_analysis::verdict::{Bottleneck, Verdict};

/// Their names, in the order of every table and figure.
pub(crate) fn workloads(results: &Results) -> Vec<&str> {
    results.verdicts.iter().map(|verdict| verdict.at.workload.as_str()).collect()
}

/// The verdict of the fastest workload, of those that are known well where there are any.
pub(crate) fn fastest(results: &Results) -> Option<&Verdict> {
    let is_known = |verdict: &Verdict| verdict.bottleneck != Bottleneck::NotKnown;
    results.verdicts.iter().max_by(|one, other| {
        let rates = one.throughput.value.total_cmp(&other.throughput.value);
        is_known(one).cmp(&is_known(other)).then(rates)
    })
}

/// The load at which a workload reaches its limit: `read-only, 8 clients`.
pub(crate) fn load_of(verdict: &Verdict) -> String {
    format!("{}, {}", verdict.at.workload, clients(verdict.at.clients))
}

/// `1 client`, `8 clients`.
pub(crate) fn clients(clients: u32) -> String {
    if clients == 1 { "1 client".into() } else { format!("{clients} clients") }
}

/// The cell of each verdict.
pub(crate) fn at_limits(results: &Results) -> impl Iterator<Item = (&Verdict, &Cell)> {
    results.verdicts.iter().filter_map(|verdict| Some((verdict, results.cell(&verdict.at)?)))
}

/// More workloads than this are not drawn one by one.
const MOST_DRAWN: usize = 12;

/// The same of those that are drawn: of many, those with the highest p99.
pub(crate) fn drawn_at_limits(results: &Results) -> Vec<(&Verdict, &Cell)> {
    let mut found: Vec<(usize, (&Verdict, &Cell))> = at_limits(results).enumerate().collect();
    if found.len() > MOST_DRAWN {
        found.sort_by(|one, other| other.1.1.response.p99.value.total_cmp(&one.1.1.response.p99.value));
        found.truncate(MOST_DRAWN);
        found.sort_by_key(|(place, _)| *place);
    }
    found.into_iter().map(|(_, one)| one).collect()
}

/// What a caption says of workloads that are not drawn; empty where all are.
pub(crate) fn not_drawn(results: &Results) -> String {
    match results.verdicts.len() {
        all if all > MOST_DRAWN => format!(" Of {all} workloads the {MOST_DRAWN} with the highest p99."),
        _ => String::new(),
    }
}
