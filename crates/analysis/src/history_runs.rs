//! Several sets of results in the order of their time: every comparison that is made of them.

use crate::caution::Caution;
use crate::cell::Cell;
use crate::change::{Measure, Sessions, adjust, tested};
use crate::compare::compare;
use crate::history::{CellHistory, History, HistoryChange, HistoryRun};
use crate::pairs::{is_same, partner};
use crate::quantity::Quantity;
use crate::results::Results;

/// The history of these results, each with its name, in whatever order.
pub fn history(mut runs: Vec<(String, &Results)>) -> History {
    // Text as `2026-11-25 01:03:10 UTC` has the order of the times.
    runs.sort_by(|one, other| one.1.environment.started.cmp(&other.1.environment.started));
    let mut cells: Vec<(&Results, &Cell)> = Vec::new();
    for results in runs.iter().rev().map(|(_, results)| *results) {
        for cell in &results.cells {
            if !cells.iter().any(|known| is_same(*known, (results, cell))) {
                cells.push((results, cell));
            }
        }
    }
    let mut changes: Vec<HistoryChange> = cells.iter().flat_map(|cell| of_cell(&runs, *cell)).collect();
    adjust(&mut changes.iter_mut().map(|one| (&mut one.change, &mut one.p_value)).collect::<Vec<_>>());
    let run = |(name, results): &(String, &Results)| HistoryRun {
        name: name.clone(),
        started: results.environment.started.clone(),
        cells: results.cells.len() as u64,
        warnings: results.faults(),
        lacks: cells
            .iter()
            .filter(|known| partner(**known, results).is_none())
            .map(|(_, cell)| cell.levels.clone())
            .collect(),
    };
    let cell = |known: &(&Results, &Cell)| CellHistory {
        levels: known.1.levels.clone(),
        values: runs.iter().map(|(_, results)| partner(*known, results).map(measures)).collect(),
    };
    History {
        runs: runs.iter().map(run).collect(),
        cells: cells.iter().map(cell).collect(),
        changes,
        cautions: cautions(&runs),
    }
}

fn measures(cell: &Cell) -> [Quantity; 3] {
    Measure::ALL.map(|measure| measure.of_cell(cell))
}

/// Every comparison of one cell, not adjusted.
fn of_cell(runs: &[(String, &Results)], known: (&Results, &Cell)) -> Vec<HistoryChange> {
    let found: Vec<Option<&Cell>> = runs.iter().map(|(_, results)| partner(known, results)).collect();
    let there: Vec<usize> = (0..runs.len()).filter(|run| found[*run].is_some()).collect();
    let mut pairs: Vec<(usize, usize, bool)> = there.windows(2).map(|two| (two[0], two[1], false)).collect();
    if let [first, _, .., last] = there[..] {
        pairs.push((first, last, true));
    }
    let compared = |measure: Measure, (from, to, overall): (usize, usize, bool)| {
        let (base, other) = (runs[from].1, runs[to].1);
        let sessions = Sessions::of(base.anchor.as_ref(), other.anchor.as_ref());
        let (change, p_value) = tested(measure, found[from]?, found[to]?, sessions.as_ref());
        Some(HistoryChange { levels: known.1.levels.clone(), from, to, overall, change, p_value })
    };
    let pairs = &pairs;
    Measure::ALL
        .into_iter()
        .flat_map(|measure| pairs.iter().filter_map(move |pair| compared(measure, *pair)))
        .collect()
}

/// What else differs from one run to the next, and once what is not known of sessions, and that
/// runs ended when they agreed.
fn cautions(runs: &[(String, &Results)]) -> Vec<(usize, Caution)> {
    let mut found: Vec<(usize, Caution)> = Vec::new();
    for (place, two) in runs.windows(2).enumerate() {
        let [(base_name, base), (other_name, other)] = two else { continue };
        for caution in compare((base_name, base), (other_name, other)).cautions {
            let known = || found.iter().any(|(_, one)| *one == caution);
            match caution {
                Caution::Environment { .. } | Caution::Failures { .. } | Caution::Misses { .. } => {
                    found.push((place + 1, caution));
                }
                Caution::Sessions { spread: None, .. } | Caution::EndedEarly if !known() => {
                    found.push((place + 1, caution));
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use krarup_record::scaled::ScaledTestbed;

    use super::*;
    use crate::change::Conclusion;
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::Trial;

    /// Cells with these clients, each with these throughputs in its runs.
    fn results(day: u32, clients: &[u32], rates: &[f64]) -> Results {
        let trials: Vec<Trial> = clients
            .iter()
            .flat_map(|clients| {
                rates.iter().zip(0..).map(move |(rate, repetition)| Trial {
                    repetition,
                    ..steady_trial("read", *clients, *rate)
                })
            })
            .collect();
        let started = format!("2026-11-{day:02} 10:00:00 UTC");
        summarise("test", Environment { started, ..Environment::default() }, &trials).unwrap()
    }

    const STEADY: [f64; 4] = [1_000.0, 1_003.0, 997.0, 1_001.0];

    #[test]
    fn a_known_change_is_marked_where_it_happened_and_nowhere_else() {
        let [march, april] = [1, 2].map(|day| results(day, &[1, 8], &STEADY));
        let june = results(3, &[1, 8], &STEADY.map(|rate| rate * 0.8));
        // In the order of their time, whatever the order in which they are named.
        let found = history(vec![("june".into(), &june), ("march".into(), &march), ("april".into(), &april)]);
        let names: Vec<&str> = found.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names, ["march", "april", "june"]);
        assert_eq!(found.changes.len(), 2 * 3 * 3, "cells, measures, pairs");
        for change in &found.changes {
            let expected = if change.to == 2 { Conclusion::Worse } else { Conclusion::NoConclusion };
            assert_eq!(change.change.verdict, expected, "{change:?}");
        }
        let said = found.sentences();
        assert!(
            said[0].starts_with("read, 1 client: throughput -20.0 % (")
                && said[0].ends_with("from april to june, worse."),
            "{said:?}"
        );
        assert!(said[12].starts_with("12 of 18 comparisons show a change"), "{said:?}");
        assert_eq!(found.cautions, [(2, Caution::Sessions { spread: None, anchors: false })]);
    }

    /// A factor gets a second level: what its cells are called is another.
    #[test]
    fn a_cell_has_its_history_where_a_level_was_added() {
        let with = |day: u32, name: &str, workers: &str| {
            let mut one = results(day, &[8], &STEADY);
            one.cells[0].levels.workload = name.into();
            one.cells[0].factors = vec![("workers".into(), workers.into())];
            one
        };
        let (march, mut april) = (with(1, "all", "8"), with(2, "workers 8", "8"));
        april.cells.extend(with(2, "workers 32", "32").cells);
        let found = history(vec![("march".into(), &march), ("april".into(), &april)]);
        let there: Vec<(&str, Vec<bool>)> = found
            .cells
            .iter()
            .map(|cell| {
                let there = cell.values.iter().map(Option::is_some).collect();
                (cell.levels.workload.as_str(), there)
            })
            .collect();
        assert_eq!(there, [("workers 8", vec![true, true]), ("workers 32", vec![false, true])]);
        assert_eq!(found.changes.len(), 3, "of one cell, each measure");
    }

    #[test]
    fn a_run_of_another_scale_is_named() {
        let [march, april, mut june] = [1, 2, 3].map(|day| results(day, &[1], &STEADY));
        june.scaled_by(ScaledTestbed { by: 11.0, stations: Vec::new(), baselines: Vec::new() });
        let found = history(vec![("march".into(), &march), ("april".into(), &april), ("june".into(), &june)]);
        let scale = Caution::Environment { of: "the scale".into(), base: "none".into(), other: "11".into() };
        assert_eq!(found.cautions, [(2, scale)]);
    }

    /// What `krarup compare` calls a change by itself is none where it is the smallest of many.
    #[test]
    fn what_chance_shows_among_many_comparisons_is_no_change() {
        let clients: Vec<u32> = (1..=16).collect();
        let base = results(1, &clients, &STEADY);
        let mut other = results(2, &clients, &STEADY);
        // A difference of some two and a half standard errors, in one cell of sixteen.
        let shifted = results(2, &[7], &STEADY.map(|rate| rate + 4.7));
        other.cells[6] = shifted.cells[0].clone();
        let found = compare(("a", &base), ("b", &other));
        assert_eq!(found.cells[6].changes[0].verdict, Conclusion::Better);
        let found = history(vec![("a".into(), &base), ("b".into(), &other)]);
        let of_cell = found.changes.iter().find(|one| one.levels.clients == 7).unwrap();
        assert_eq!(of_cell.change.verdict, Conclusion::ByChance);
        assert!(found.changes.iter().all(|change| !change.is_real()));
        assert!(
            found.sentences()[0].starts_with("0 of 48 comparisons show a change"),
            "{:?}",
            found.sentences()
        );
    }

    /// Five runs of the same, four cells each, whose repetitions scatter by 1 %.
    #[test]
    fn runs_of_the_same_hardly_ever_show_a_change() {
        let mut state = 7_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let mut alarms = 0;
        for _ in 0..100 {
            let mut run = |day: u32| {
                let mut trials = Vec::new();
                for clients in [1, 2, 4, 8] {
                    for repetition in 0..4 {
                        let rate = 1_000.0 * (1.0 + 0.01 * normal());
                        trials.push(Trial { repetition, ..steady_trial("read", clients, rate) });
                    }
                }
                let started = format!("2026-11-{day:02} 10:00:00 UTC");
                summarise("t", Environment { started, ..Environment::default() }, &trials).unwrap()
            };
            let runs = [1, 2, 3, 4, 5].map(&mut run);
            let found = history(runs.iter().map(|one| (one.environment.started.clone(), one)).collect());
            alarms += u32::from(found.changes.iter().any(HistoryChange::is_real));
        }
        assert!(alarms <= 10, "{alarms} of 100 histories without a change show one");
    }

    #[test]
    fn a_run_that_lacks_a_cell_is_named_and_the_runs_around_it_are_compared() {
        let [march, june] = [1, 3].map(|day| results(day, &[1, 8], &STEADY));
        let april = results(2, &[1], &STEADY);
        let found = history(vec![("march".into(), &march), ("april".into(), &april), ("june".into(), &june)]);
        assert_eq!(
            found.cells[1].values.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false, true]
        );
        let pairs: Vec<(usize, usize)> = found
            .changes
            .iter()
            .filter(|one| one.levels.clients == 8)
            .map(|one| (one.from, one.to))
            .collect();
        assert_eq!(pairs, [(0, 2); 3]);
        assert!(found.sentences().contains(&"april lacks read, 8 clients.".to_owned()));
    }

    #[test]
    fn a_cell_that_one_run_has_is_named_once_and_is_in_no_table_of_changes() {
        let (base, other) = (results(1, &[1, 4], &STEADY), results(2, &[1, 8], &STEADY));
        let found = history(vec![("a".into(), &base), ("b".into(), &other)]);
        assert_eq!(found.compared().map(|cell| cell.levels.clients).collect::<Vec<_>>(), [1]);
        let said = found.sentences();
        let last = said.last().unwrap();
        assert!(last.starts_with("Only in one run: ") && last.contains("read, 8 clients (b)"), "{said:?}");
        assert!(last.contains("read, 4 clients (a)"), "{said:?}");
        assert!(said.iter().all(|one| !one.contains("lacks")), "{said:?}");
    }

    #[test]
    fn a_caution_is_plain_text() {
        let spreads = [(None, false), (None, true), (Some(0.02), true)]
            .map(|(spread, anchors)| Caution::Sessions { spread, anchors });
        let machine = Caution::Environment { of: "cores".into(), base: "2".into(), other: "4".into() };
        for caution in spreads.into_iter().chain([machine, Caution::EndedEarly]) {
            assert!(!caution.to_string().contains('`'), "{caution}");
        }
    }

    #[test]
    fn one_run_of_a_cell_gives_no_conclusion() {
        let (base, other) = (results(1, &[1], &STEADY), results(2, &[1], &[2_000.0]));
        let found = history(vec![("a".into(), &base), ("b".into(), &other)]);
        assert!(found.changes.iter().all(|one| one.change.verdict == Conclusion::TooFewRuns));
        assert!(
            found.sentences()[0].contains("3 could not be made: too few runs"),
            "{:?}",
            found.sentences()
        );
    }

    #[test]
    fn a_cell_that_answers_nothing_has_runs_enough() {
        let base = results(1, &[1], &STEADY);
        let mut other = crate::compare::tests::silent(results(2, &[1], &STEADY), 0);
        other.cells[0].response.mean.value = 0.0;
        other.cells[0].repetitions.iter_mut().for_each(|run| run.response = 0.0);
        let said = history(vec![("a".into(), &base), ("b".into(), &other)]).sentences();
        assert!(said.iter().all(|one| !one.contains("too few runs")), "{said:?}");
        let untested = "; 1 could not be made: nothing varies, or a run has a value of 0";
        assert!(said.iter().any(|one| one.contains(untested)), "{said:?}");
    }
}
