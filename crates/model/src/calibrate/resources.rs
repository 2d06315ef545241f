//! The throughput that each of the resources in use allows.
//!
//! A request takes so much of each, so that with share u of it in use X requests per second were
//! answered, and no more than X/u can be, at the least use per request that was measured
//! (utilization law, U = X·D ≤ 1).

use krarup_units::Unit;
use serde::{Deserialize, Serialize};

use super::rows::CalibrationRow;
use super::uses::{BoundedResource, ResourceUse};

/// What something allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThroughputBound {
    /// What.
    pub resource: BoundedResource,
    /// Requests per second with all of it in use.
    pub throughput: f64,
}

/// What is less busy than this says little of what it could do.
const BUSY_ENOUGH: f64 = 0.3;
/// What is busier than this in a row is its limit.
const FULL: f64 = 0.9;

/// The uses of a row; of several of the same kind, as of several generators, the largest.
fn busiest(row: &CalibrationRow) -> impl Iterator<Item = &ResourceUse> {
    let larger =
        |one: &ResourceUse, other: &ResourceUse| one.resource == other.resource && one.share > other.share;
    row.uses.iter().filter(move |used| !row.uses.iter().any(|other| larger(other, used)))
}

/// X ≤ X/u, for each resource that some row kept busy enough, the least bound first.
pub(super) fn bounds(rows: &[CalibrationRow]) -> Vec<ThroughputBound> {
    let mut found: Vec<ThroughputBound> = Vec::new();
    for row in rows {
        for used in busiest(row).filter(|used| used.share >= BUSY_ENOUGH) {
            // Clocks that are read a moment apart make no more than all of it.
            let throughput = row.throughput / used.share.min(1.0);
            match found.iter_mut().find(|bound| bound.resource == used.resource) {
                Some(bound) => bound.throughput = bound.throughput.max(throughput),
                None => found.push(ThroughputBound { resource: used.resource.clone(), throughput }),
            }
        }
    }
    found.sort_by(|one, other| one.throughput.total_cmp(&other.throughput));
    found
}

/// What was full in some row, in words: of each resource the row in which it was busiest.
pub(super) fn limits(rows: &[CalibrationRow]) -> Vec<String> {
    let full = |row: &CalibrationRow, used: &ResourceUse| {
        let busy = Unit::Share.show(used.share.min(1.0));
        let said = format!("the {}: {busy} busy at {}", used.resource, row.place);
        match &used.resource {
            BoundedResource::Generator => format!(
                "{said}; there the load generator is the limit, and not what is measured: give it more threads or machines"
            ),
            BoundedResource::GeneratorLink(_) => format!(
                "{said}; there the clients' link is the limit, and not what is measured: give them more machines or a faster link"
            ),
            BoundedResource::Machine | BoundedResource::Process(_) | BoundedResource::Link(_) => {
                format!("{said}; that is the limit there, and more workers do not change it")
            }
        }
    };
    let mut found: Vec<(&CalibrationRow, &ResourceUse)> = Vec::new();
    for row in rows {
        for used in busiest(row).filter(|used| used.share >= FULL) {
            match found.iter_mut().find(|(_, known)| known.resource == used.resource) {
                Some(known) if known.1.share >= used.share => {}
                Some(known) => *known = (row, used),
                None => found.push((row, used)),
            }
        }
    }
    found.into_iter().map(|(row, used)| full(row, used)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(throughput: f64, uses: &[(BoundedResource, f64)]) -> CalibrationRow {
        let uses =
            uses.iter().map(|(resource, share)| ResourceUse { resource: resource.clone(), share: *share });
        CalibrationRow { uses: uses.collect(), ..CalibrationRow::measured(8, 4, throughput) }
    }

    #[test]
    fn the_least_use_per_request_bounds_and_little_use_says_nothing() {
        let memcached = BoundedResource::Process("memcached s1".into());
        let rows = [
            row(1_000.0, &[(BoundedResource::Machine, 0.1), (memcached.clone(), 0.4)]),
            row(2_000.0, &[(BoundedResource::Machine, 0.5), (memcached.clone(), 0.7)]),
            row(2_500.0, &[(BoundedResource::Generator, 0.4), (BoundedResource::Generator, 1.02)]),
        ];
        let found = bounds(&rows);
        let expected = [
            (BoundedResource::Generator, 2_500.0),
            (memcached, 2_000.0 / 0.7),
            (BoundedResource::Machine, 4_000.0),
        ];
        for (bound, (resource, throughput)) in found.iter().zip(&expected) {
            assert_eq!(&bound.resource, resource);
            assert!((bound.throughput / throughput - 1.0).abs() < 1e-12, "{bound:?}");
        }
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn a_load_generator_that_is_the_limit_is_told() {
        let rows = [
            row(2_000.0, &[(BoundedResource::Generator, 0.93), (BoundedResource::Machine, 0.5)]),
            row(2_500.0, &[(BoundedResource::Generator, 0.99)]),
            row(2_400.0, &[(BoundedResource::Link("m1".into()), 0.95)]),
            row(2_400.0, &[(BoundedResource::GeneratorLink("c1".into()), 0.96)]),
        ];
        let told = limits(&rows);
        assert!(
            told[0].contains("99.0 % busy") && told[0].contains("load generator is the limit"),
            "{told:?}"
        );
        assert!(told[1].starts_with("the link of m1: 95.0 % busy") && told.len() == 3, "{told:?}");
        assert!(
            told[2].contains("the clients' link is the limit") && !told[2].contains("more threads"),
            "{told:?}"
        );
    }
}
