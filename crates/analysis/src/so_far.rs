//! Which cells of a plan have no conclusion yet, while its trials are being run.

use std::fmt;

use krarup_units::Unit;

use crate::cell::Cell;
use crate::results::Results;
use crate::saturation;

/// A cell of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct AwaitedCell {
    /// What it is called.
    pub name: String,
    /// The level of each factor.
    pub factors: Vec<(String, String)>,
    /// How many runs of it are wanted at least.
    pub runs: u32,
}

/// Why nothing is concluded from a cell yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NotYet {
    /// It was not run.
    NotRun,
    /// Runs are missing.
    RunsMissing {
        /// Complete.
        done: u32,
        /// Wanted at least.
        wanted: u32,
    },
    /// Its throughput or mean response time is not known well: half the interval, as a share of
    /// the value, of the one that is known worse.
    Wide(f64),
}

impl fmt::Display for NotYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun => f.write_str("not run yet"),
            Self::RunsMissing { done, wanted } => write!(f, "{done} of {wanted} runs"),
            Self::Wide(half) => write!(f, "no conclusion: known to ± {}", Unit::Share.show(*half)),
        }
    }
}

/// The cells of which nothing is concluded yet, in the order of the plan, each with what is known
/// of it.
pub fn not_yet<'a, 'r>(
    plan: &'a [AwaitedCell],
    results: Option<&'r Results>,
) -> Vec<(&'a AwaitedCell, NotYet, Option<&'r Cell>)> {
    let of = |awaited: &'a AwaitedCell| {
        let cells = results.map_or(&[][..], |results| &results.cells);
        let cell = cells.iter().find(|cell| cell.factors == awaited.factors);
        reason(awaited, cell).map(|reason| (awaited, reason, cell))
    };
    plan.iter().filter_map(of).collect()
}

fn reason(awaited: &AwaitedCell, cell: Option<&Cell>) -> Option<NotYet> {
    let Some(cell) = cell else { return Some(NotYet::NotRun) };
    let done = cell.repetitions.len() as u32;
    if done < awaited.runs {
        return Some(NotYet::RunsMissing { done, wanted: awaited.runs });
    }
    (!saturation::is_known(cell)).then(|| NotYet::Wide(saturation::unsure(cell).half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::Trial;

    fn factors(clients: u32) -> Vec<(String, String)> {
        vec![("clients".to_owned(), clients.to_string())]
    }

    #[test]
    fn each_cell_says_what_it_lacks_and_one_that_is_known_is_not_named() {
        let plan = [1, 2, 4, 8].map(|clients| AwaitedCell {
            name: format!("clients {clients}"),
            factors: factors(clients),
            runs: 2,
        });
        let trial = |clients, repetition, rate| Trial {
            repetition,
            factors: factors(clients),
            ..steady_trial("read", clients, rate)
        };
        let trials = [
            trial(1, 0, 1_000.0),
            trial(1, 1, 1_001.0),
            trial(2, 0, 1_000.0),
            trial(2, 1, 1_500.0),
            trial(4, 0, 2_000.0),
        ];
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let found = not_yet(&plan, Some(&results));
        let said: Vec<String> = found.iter().map(|(cell, why, _)| format!("{}: {why}", cell.name)).collect();
        assert!(said[0].starts_with("clients 2: no conclusion: known to ± "), "{said:?}");
        assert_eq!(said[1..], ["clients 4: 1 of 2 runs", "clients 8: not run yet"]);
        assert_eq!(not_yet(&plan, None).len(), 4);
        assert!(found[1].2.is_some() && found[2].2.is_none());
    }
}
