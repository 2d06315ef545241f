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
