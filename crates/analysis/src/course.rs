//! What became of the requests before and after each thing that was done to a station while they were measured.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::trial::Trial;

/// What was measured between two faults: of one run, or of several runs together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// What was done at its beginning, as `kill server 2`; empty for the first.
    pub after: String,
    /// When it begins, from the beginning of what is measured.
    pub start: Seconds,
    /// How much later than that it was done at worst.
    pub late: Seconds,
    /// How long was counted, over all runs.
    pub length: Seconds,
    /// Each operation that was answered in it.
    pub operations: Vec<StretchOperation>,
}

/// One operation in a stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StretchOperation {
    /// `get`, `set` …
    pub name: String,
    /// Requests answered, errors included.
    pub completed: u64,
    /// Those answered with an error, or not at all.
    pub errors: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys asked for and not found.
    pub misses: u64,
    /// Mean response time, errors included.
    pub response: Seconds,
}

impl StretchOperation {
    /// Adds what was counted of the same operation elsewhere.
    pub fn add(&mut self, other: &Self) {
        let all = self.completed + other.completed;
        if all > 0 {
            let waited = self.response * self.completed as f64 + other.response * other.completed as f64;
            self.response = waited / all as f64;
        }
        self.completed = all;
        self.errors += other.errors;
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

impl Stretch {
    /// Adds what was counted of an operation.
    pub fn count(&mut self, counted: &StretchOperation) {
        match self.operations.iter_mut().find(|one| one.name == counted.name) {
            Some(known) => known.add(counted),
            None => self.operations.push(counted.clone()),
        }
    }
}

/// The stretches of all runs of a cell together; those of a run to which something else was done are left out.
pub(crate) fn together(trials: &[&Trial]) -> Vec<Stretch> {
    let Some((first, others)) = trials.split_first() else { return Vec::new() };
    let mut all = first.course.clone();
    let alike = |trial: &&&Trial| {
        let done =
            |course: &[Stretch]| course.iter().map(|stretch| stretch.after.clone()).collect::<Vec<_>>();
        done(&trial.course) == done(&first.course)
    };
    for trial in others.iter().filter(alike) {
        for (stretch, more) in all.iter_mut().zip(&trial.course) {
            stretch.late = stretch.late.max(more.late);
            stretch.length += more.length;
            more.operations.iter().for_each(|counted| stretch.count(counted));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::tests::steady_trial;

    #[test]
    fn runs_of_a_cell_are_counted_together() {
        let counted = |completed, response| StretchOperation {
            name: "get".into(),
            completed,
            errors: 1,
            hits: completed - 1,
            misses: 0,
            response,
        };
        let run = |late, completed, response| {
            let stretch = |after: &str, start| Stretch {
                after: after.into(),
                start,
                late,
                length: 2.0,
                operations: vec![counted(completed, response)],
            };
            let course = vec![stretch("", 0.0), stretch("kill server 2", 2.0)];
            Trial { course, ..steady_trial("read", 16, 100.0) }
        };
        let trials =
            [run(0.001, 10, 1.0), run(0.003, 30, 2.0), Trial { course: Vec::new(), ..run(0.0, 1, 1.0) }];
        let all = together(&trials.iter().collect::<Vec<_>>());
        assert_eq!(
            (all.len(), all[1].after.as_str(), all[1].start, all[1].late),
            (2, "kill server 2", 2.0, 0.003)
        );
        let [get] = &all[1].operations[..] else { panic!("{all:?}") };
        assert_eq!(
            (get.completed, get.errors, get.hits, all[1].length, get.response),
            (40, 2, 38, 4.0, 1.75)
        );
        assert!(together(&[]).is_empty());
    }
}
