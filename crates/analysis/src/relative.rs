//! Cells beside a base: what the other levels of some factors cost or bring, all else equal.
//!
//! The base names levels of some factors. Each cell is compared with the cell that has these levels
//! and is otherwise the same; where the base names a level of every factor, all are compared with
//! one cell, over the repetitions that both have. All comparisons of throughputs and mean response
//! times together may be wrong with 5 %, by Holm's adjustment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::change::{Measure, MeasureChange, adjust, tested_in_common};
use crate::trial::CellLevels;

/// A cell beside its base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relative {
    /// What is compared.
    pub levels: CellLevels,
    /// What it is compared with.
    pub base: CellLevels,
    /// Throughput, mean response time and 99th percentile. Verdicts on the first two are those
    /// among all cells; intervals, and the verdict on the last, are those of this comparison alone.
    pub changes: Vec<MeasureChange>,
}

/// Every cell that has a base and is not its own.
pub fn relative(cells: &[Cell], base: &BTreeMap<String, String>) -> Vec<Relative> {
    let beside = |cell: &Cell| {
        let wanted: Vec<(&str, &str)> = cell
            .factors
            .iter()
            .map(|(name, level)| (name.as_str(), base.get(name).map_or(level.as_str(), String::as_str)))
            .collect();
        let is_base = |other: &&Cell| {
            wanted
                .iter()
                .all(|(name, level)| other.factors.iter().any(|(known, at)| known == name && at == level))
        };
        let of = cells.iter().find(is_base).filter(|other| other.levels != cell.levels)?;
        let tested = Measure::ALL.map(|measure| tested_in_common(measure, of, cell));
        let (changes, p_values): (Vec<_>, Vec<_>) = tested.into_iter().unzip();
        Some((Relative { levels: cell.levels.clone(), base: of.levels.clone(), changes }, p_values))
    };
    if base.is_empty() {
        return Vec::new();
    }
    let (mut found, mut p_values): (Vec<Relative>, Vec<Vec<Option<f64>>>) =
        cells.iter().filter_map(beside).unzip();
    let all = found.iter_mut().flat_map(|one| &mut one.changes).zip(p_values.iter_mut().flatten());
    adjust(&mut all.filter(|(change, _)| change.measure != Measure::P99).collect::<Vec<_>>());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Conclusion, change};
    use crate::compare::tests::silent;
    use crate::results::{Environment, Results};
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::Trial;

    fn results() -> Results {
        let mut trials: Vec<Trial> = Vec::new();
        for (servers, copies, rate) in
            [("3", "none", 10_000.0), ("3", "full", 9_000.0), ("5", "none", 8_000.0), ("5", "full", 6_000.0)]
        {
            for repetition in 0..3 {
                let rate = rate + 10.0 * f64::from(repetition);
                let mut trial = steady_trial(&format!("servers {servers}, copies {copies}"), 16, rate);
                trial.repetition = repetition;
                trial.factors = vec![("servers".into(), servers.into()), ("copies".into(), copies.into())];
                trials.push(trial);
            }
        }
        summarise("t", Environment::default(), &trials).unwrap()
    }

    fn base(levels: &[(&str, &str)]) -> BTreeMap<String, String> {
        levels.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect()
    }

    fn percent(of: &Relative) -> f64 {
        (of.changes[0].ratio.unwrap() * 1_000.0).round() / 10.0
    }

    #[test]
    fn a_base_of_every_factor_is_one_cell_for_all() {
        let found = relative(&results().cells, &base(&[("servers", "3"), ("copies", "none")]));
        assert_eq!(found.iter().map(percent).collect::<Vec<_>>(), [90.0, 80.0, 60.0]);
        assert!(found.iter().all(|one| one.base.workload == "servers 3, copies none"));
        assert!(found[0].changes[0].ratio_interval.is_some());
    }

    #[test]
    fn a_base_of_one_factor_leaves_the_others_as_they_are() {
        let found = relative(&results().cells, &base(&[("copies", "none")]));
        assert_eq!(found.iter().map(percent).collect::<Vec<_>>(), [90.0, 75.0]);
        assert_eq!(found[1].base.workload, "servers 5, copies none");
        assert!(relative(&results().cells, &base(&[])).is_empty());
        assert!(relative(&results().cells, &base(&[("copies", "half")])).is_empty());
    }

    /// A cell beside its base, with these throughputs in repetition after repetition.
    fn beside(base_rates: &[f64], rates: &[f64]) -> Relative {
        let runs = |level: &str, rates: &[f64]| -> Vec<Trial> {
            let trial = |(rate, repetition): (&f64, u32)| Trial {
                repetition,
                factors: vec![("copies".into(), level.into())],
                ..steady_trial(level, 16, *rate)
            };
            rates.iter().zip(0..).map(trial).collect()
        };
        let trials = [runs("none", base_rates), runs("full", rates)].concat();
        let cells = summarise("t", Environment::default(), &trials).unwrap().cells;
        relative(&cells, &base(&[("copies", "none")])).remove(0)
    }

    /// From the fourth repetition on, which only one of the cells was run in, the machine is slower
    /// by a fifth.
    #[test]
    fn repetitions_that_one_cell_alone_has_tell_nothing_of_two() {
        let slower = [9_600.0, 10_400.0, 10_100.0, 8_000.0, 8_100.0, 7_900.0, 8_000.0, 8_200.0];
        let found = beside(&[10_000.0, 10_100.0, 9_900.0], &slower);
        let throughput = &found.changes[0];
        assert_eq!((throughput.verdict, throughput.compared), (Conclusion::NoConclusion, Some(6)));
        assert!((throughput.ratio.unwrap() - 1.0033).abs() < 1e-4, "{throughput:?}");
        // Of a single run there is no test.
        assert_eq!(beside(&[10_000.0], &slower).changes[0].verdict, Conclusion::TooFewRuns);
    }

    #[test]
    fn what_answers_nothing_is_worse_and_has_no_ratio_of_logarithms() {
        let found = relative(&silent(results(), 1).cells, &base(&[("copies", "none")]));
        let throughput = &found[0].changes[0];
        assert_eq!((throughput.verdict, throughput.ratio), (Conclusion::Worse, Some(0.0)));
        assert_eq!(throughput.ratio_interval, None);
    }

    #[test]
    fn what_chance_shows_in_one_of_many_cells_is_no_change() {
        let mut trials: Vec<Trial> = Vec::new();
        let rates = [1_000.0, 1_003.0, 997.0, 1_001.0];
        for place in 0..31 {
            // In one cell a difference with p = 0.03; the others are the same as the base, in
            // another order.
            let shift = if place == 1 { 5.0 } else { 0.0 };
            for repetition in 0..4 {
                let rate = rates[(place + repetition) % 4];
                let mut trial = steady_trial(&format!("place {place}"), 16, rate + shift);
                trial.repetition = repetition as u32;
                trial.factors = vec![("place".into(), place.to_string())];
                trials.push(trial);
            }
        }
        let cells = summarise("t", Environment::default(), &trials).unwrap().cells;
        let alone = change(Measure::Throughput, &cells[0], &cells[1]);
        assert_eq!(alone.verdict, Conclusion::Better);
        let found = relative(&cells, &base(&[("place", "0")]));
        assert_eq!(found.len(), 30);
        assert_eq!(found[0].changes[0].verdict, Conclusion::ByChance);
        assert_eq!(found[0].changes[1].verdict, Conclusion::ByChance);
    }
}
