//! Runs that a plan wants and results do not have: figures show what came through, and what did not
//! is to be known beside them.

use crate::cell::Cell;
use crate::results::Results;
use crate::so_far::AwaitedCell;
use crate::warning::{Concern, Warning};

/// Notes of each cell of the plan which runs are missing, or which of its attempts failed beside
/// all that came through; and in each verdict the numbers of clients, more than it speaks of, that
/// have no run at all: whether the limit lies there is not known then. `failed` has the levels of
/// each attempt that failed, `population` is the factor that sets the clients. What an anchor has
/// left out is not missing, unless there are repetitions beyond those of the plan that count: a
/// cell that has agreed too early for them has its least number of runs no more.
pub fn note(results: &mut Results, plan: &[AwaitedCell], failed: &[Vec<(String, String)>], population: &str) {
    let left_out = results.anchor.as_ref().map_or(&[][..], |anchor| &anchor.left_out);
    let repetitions = results.anchor.iter().flat_map(|anchor| &anchor.runs).map(|run| run.block + 1);
    let repetitions = repetitions.max().unwrap_or(0);
    let mut absent: Vec<&AwaitedCell> = Vec::new();
    for cell in plan {
        let counts = (0..repetitions.max(cell.runs)).filter(|run| !left_out.contains(run));
        let wanted = cell.runs.min(counts.count() as u32);
        let found = results.cells.iter().find(|known| known.factors == cell.factors);
        let done = found.map_or(0, |found| found.repetitions.len() as u32);
        let failed = failed.iter().filter(|levels| **levels == cell.factors).count() as u32;
        let name = cell.name.clone();
        let warning = if done < wanted {
            Some(Warning::RunsMissing { cell: name, done, wanted, failed })
        } else {
            (done > 0 && failed > 0).then_some(Warning::RunsRefused { cell: name, done, failed })
        };
        results.concerns.extend(warning.map(|warning| Concern { levels: None, warning }));
        if done == 0 && wanted > 0 {
            absent.push(cell);
        }
    }
    for verdict in &mut results.verdicts {
        let Some(at) = results.cells.iter().find(|cell| cell.levels == verdict.at) else { continue };
        verdict.missing = absent.iter().filter_map(|cell| more_clients(at, cell, population)).collect();
        verdict.missing.sort_unstable();
    }
}

/// How many clients a planned cell has, where those are more than in this one, which is otherwise
/// the same. A level may be the clients of each of several load generators.
fn more_clients(at: &Cell, planned: &AwaitedCell, population: &str) -> Option<u32> {
    let level = |factors: &[(String, String)]| -> Option<f64> {
        let (_, level) = factors.iter().find(|(name, _)| name == population)?;
        level.parse().ok()
    };
    let (here, there) = (level(&at.factors)?, level(&planned.factors)?);
    let mut pairs = at.factors.iter().zip(&planned.factors);
    let is_alike = pairs.all(|(one, other)| one == other || one.0 == population);
    (is_alike && there > here).then(|| (f64::from(at.levels.clients) * there / here).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::{self, AnchorRun, AnchorRuns};
    use crate::cell::Repetition;
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::Trial;

    fn factors(workload: &str, clients: u32) -> Vec<(String, String)> {
        [("workload", workload.to_owned()), ("clients", clients.to_string())]
            .map(|(name, level)| (name.to_owned(), level))
            .to_vec()
    }

    /// One and two clients came through, four did not.
    fn results() -> Results {
        let trial = |clients, repetition, rate| Trial {
            repetition,
            factors: factors("read", clients),
            ..steady_trial("read", clients, rate)
        };
        let trials = [trial(1, 0, 1_000.0), trial(1, 1, 1_001.0), trial(2, 0, 1_900.0)];
        summarise("t", Environment::default(), &trials).unwrap()
    }

    fn plan() -> Vec<AwaitedCell> {
        let cell = |workload: &str, clients| AwaitedCell {
            name: format!("{workload}, clients {clients}"),
            factors: factors(workload, clients),
            runs: 2,
        };
        vec![cell("read", 1), cell("read", 2), cell("read", 4), cell("write", 8)]
    }

    fn missing(results: &Results) -> Vec<String> {
        let concerns = results.concerns.iter().map(|concern| &concern.warning);
        let missing =
            concerns.filter(|one| matches!(one, Warning::RunsMissing { .. } | Warning::RunsRefused { .. }));
        missing.map(Warning::to_string).collect()
    }

    #[test]
    fn no_limit_lies_beyond_where_more_clients_were_planned_and_have_no_run() {
        let mut results = results();
        let said = results.verdicts[0].to_string();
        assert!(said.contains("grew by 90 % at the last step: the limit lies beyond"), "{said}");
        let failed = [factors("read", 4), factors("read", 4), factors("read", 2), factors("read", 9)];
        note(&mut results, &plan(), &failed, "clients");
        assert_eq!(
            missing(&results),
            [
                "Runs of read, clients 2 are missing: 1 of 2 are complete, and 1 attempt failed.",
                "Runs of read, clients 4 are missing: 0 of 2 are complete, and 2 attempts failed.",
                "Runs of write, clients 8 are missing: 0 of 2 are complete.",
            ]
        );
        let verdict = &results.verdicts[0];
        assert_eq!((verdict.missing.as_slice(), verdict.word()), (&[4][..], "limit not known"));
        let said = verdict.to_string();
        assert!(
            said.contains("grew by 90 % at the last step that is known. Whether it does beyond is not: no run with 4 clients is complete."),
            "{said}"
        );
        assert!(
            said.contains("whether it does with 4 is not known") && !said.contains("not tried"),
            "{said}"
        );
        assert!(verdict.next_step().starts_with("Run it again, because no run with 4 clients"), "{said}");
    }

    /// Those that passed may be the good half of what the system does.
    #[test]
    fn attempts_that_failed_are_counted_also_where_all_runs_are_there() {
        let mut results = results();
        note(&mut results, &plan()[..1], &[factors("read", 1), factors("read", 1)], "clients");
        assert_eq!(missing(&results), ["2 runs of read, clients 1 came through, and 2 attempts failed."]);
    }

    #[test]
    fn what_an_anchor_has_left_out_is_not_missing() {
        let mut results = results();
        results.anchor = Some(AnchorRuns {
            about: String::new(),
            within: 0.1,
            runs: Vec::new(),
            left_out: vec![1],
            drift: None,
        });
        note(&mut results, &plan()[..3], &[], "clients");
        assert_eq!(missing(&results), ["Runs of read, clients 4 are missing: 0 of 1 are complete."]);
        note(&mut results, &plan()[..2], &[], "clients");
        assert!(results.verdicts[0].missing.is_empty(), "{:?}", results.verdicts[0]);
    }

    /// Cells were repeated until they agreed, 4 clients in what the anchor has left out.
    #[test]
    fn a_cell_that_agreed_in_what_is_left_out_is_missing() {
        let mut results = results();
        let of_block = |block: u32| AnchorRun {
            block,
            started_unix: f64::from(block),
            throughput: if block < 3 { 1_000.0 } else { 800.0 },
            response: 0.001,
        };
        results.anchor = anchor::judge("read", 0.1, (0..10).map(of_block).collect());
        let mut plan = plan();
        plan.iter_mut().for_each(|cell| cell.runs = 3);
        results.cells[0].repetitions = vec![Repetition::default(); 7];
        note(&mut results, &plan[..3], &[], "clients");
        assert_eq!(
            missing(&results),
            [
                "Runs of read, clients 2 are missing: 1 of 3 are complete.",
                "Runs of read, clients 4 are missing: 0 of 3 are complete.",
            ]
        );
        assert_eq!(results.verdicts[0].missing, [4]);
    }
}
