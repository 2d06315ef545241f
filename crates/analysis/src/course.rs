//! What became of the requests before and after each thing that was done to a station while they
//! were measured.

use crate::trial::{Stretch, Trial};

/// The stretches of all runs of a cell together; those of a run to which something else was done
/// are left out.
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
    use crate::trial::StretchOperation;

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
