//! Which cells of two sets of results are the same: those with as many clients and the same level
//! of every factor. What reports call a cell leaves out the factors with one level, and the names
//! of factors whose levels are words.
//!
//! A factor keeps two cells apart unless they are called the same, and each side has one level of
//! it: another level there may be what is compared. One that only one side has keeps them apart
//! where it has several levels there, and they are called differently. Results without factors are
//! paired by what their cells are called.

use std::collections::BTreeSet;

use crate::cell::Cell;
use crate::results::Results;

/// The cells of both sides, in the order of the base.
pub fn pairs<'a>(base: &'a Results, other: &'a Results) -> impl Iterator<Item = (&'a Cell, &'a Cell)> {
    base.cells.iter().filter_map(move |cell| Some((cell, partner((base, cell), other)?)))
}

/// The cell of `other` that is the same as one of these results.
pub fn partner<'a>(known: (&Results, &Cell), other: &'a Results) -> Option<&'a Cell> {
    other.cells.iter().find(|cell| is_same(known, (other, cell)))
}

/// Whether a cell of each side is the same.
pub(crate) fn is_same((base, before): (&Results, &Cell), (other, after): (&Results, &Cell)) -> bool {
    let clients = before.levels.clients;
    let same_name = before.levels.workload == after.levels.workload;
    if before.factors.is_empty() || after.factors.is_empty() {
        return clients == after.levels.clients && same_name;
    }
    let agrees = |factor: &str| {
        let one_level = || has_one_level(base, clients, factor) && has_one_level(other, clients, factor);
        match (before.level(factor), after.level(factor)) {
            (Some(before), Some(after)) => before == after || (same_name && one_level()),
            _ => same_name || one_level(),
        }
    };
    let mut factors = before.factors.iter().chain(&after.factors);
    clients == after.levels.clients && factors.all(|(factor, _)| agrees(factor))
}

/// Whether all cells with so many clients have one level of a factor, or none has it.
fn has_one_level(results: &Results, clients: u32, factor: &str) -> bool {
    let cells = results.cells.iter().filter(|cell| cell.levels.clients == clients);
    let mut levels = cells.map(|cell| cell.level(factor));
    let first = levels.next();
    levels.all(|level| Some(level) == first)
}

/// What the cell is called of a spec that has no factor with several levels.
const ONLY: &str = "all";

/// In which factors cells that are paired differ nonetheless: each with both levels, once; without
/// one on the side that does not have the factor. Results of before factors were kept say of none.
pub(crate) fn other_levels<'a>(
    base: &'a Results,
    other: &'a Results,
) -> BTreeSet<(&'a str, &'a str, &'a str)> {
    let differ = pairs(base, other).flat_map(|(before, after)| {
        let are_known =
            [before, after].iter().all(|cell| !cell.factors.is_empty() || cell.levels.workload == ONLY);
        let factors = before.factors.iter().chain(&after.factors).filter(move |_| are_known);
        factors.filter_map(move |(factor, _)| {
            let level = |cell: &'a Cell| cell.level(factor).unwrap_or_default();
            (level(before) != level(after)).then(|| (factor.as_str(), level(before), level(after)))
        })
    });
    differ.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caution::Caution;
    use crate::compare::compare;
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::Trial;

    /// Two runs of each cell of 8 clients, with its name and the levels of its factors.
    fn results(cells: &[(&str, &[(&str, &str)])]) -> Results {
        let trials: Vec<Trial> = cells
            .iter()
            .flat_map(|(name, factors)| {
                let factors: Vec<(String, String)> =
                    factors.iter().map(|(factor, level)| (factor.to_string(), level.to_string())).collect();
                [1_000.0, 1_010.0].into_iter().zip(0..).map(move |(rate, repetition)| Trial {
                    repetition,
                    factors: factors.clone(),
                    ..steady_trial(name, 8, rate)
                })
            })
            .collect();
        summarise("test", Environment::default(), &trials).unwrap()
    }

    /// What the cells of both sides are called that are paired.
    fn named<'a>(base: &'a Results, other: &'a Results) -> Vec<(&'a str, &'a str)> {
        let name = |cell: &'a Cell| cell.levels.workload.as_str();
        pairs(base, other).map(|(before, after)| (name(before), name(after))).collect()
    }

    #[test]
    fn a_level_that_is_added_leaves_the_cells_that_were_there_paired() {
        let before = results(&[("all", &[("workers", "8")])]);
        let after = results(&[("workers 8", &[("workers", "8")]), ("workers 32", &[("workers", "32")])]);
        assert_eq!(named(&before, &after), [("all", "workers 8")]);
        assert_eq!(named(&after, &before), [("workers 8", "all")]);
        let cautions = compare(("a", &before), ("b", &after)).cautions;
        assert!(cautions.contains(&Caution::LeftOut { base: 0, other: 1 }), "{cautions:?}");
        assert!(other_levels(&before, &after).is_empty());
    }

    #[test]
    fn another_level_of_a_factor_with_one_is_compared_and_named() {
        let [before, after] = ["8", "32"].map(|workers| results(&[("all", &[("workers", workers)])]));
        assert_eq!(named(&before, &after), [("all", "all")]);
        let of = "the factor workers".to_owned();
        let caution = Caution::Environment { of, base: "8".into(), other: "32".into() };
        let cautions = compare(("a", &before), ("b", &after)).cautions;
        assert!(cautions.contains(&caution), "{cautions:?}");
        // Of two levels another one is another cell.
        let both = results(&[("workers 16", &[("workers", "16")]), ("workers 32", &[("workers", "32")])]);
        assert!(named(&before, &both).is_empty());
    }

    #[test]
    fn a_factor_that_is_added_to_a_spec_without_any_is_named() {
        let (plain, one) = (results(&[("all", &[])]), results(&[("all", &[("workers", "1")])]));
        assert_eq!(named(&plain, &one), [("all", "all")]);
        assert!(other_levels(&plain, &one).into_iter().eq([("workers", "", "1")]));
        assert!(other_levels(&one, &plain).into_iter().eq([("workers", "1", "")]));
        assert!(other_levels(&plain, &plain).is_empty());
    }

    /// `off, on` is tls without coalescing in one, and coalescing without tls in the other.
    #[test]
    fn the_order_of_the_factors_makes_no_other_cells() {
        let names = ["off, off", "off, on", "on, off", "on, on"];
        let levels = [("off", "off"), ("off", "on"), ("on", "off"), ("on", "on")];
        let before = levels.map(|(one, two)| [("tls", one), ("coalesce", two)]);
        let after = levels.map(|(one, two)| [("coalesce", one), ("tls", two)]);
        let of = |factors: &[[(&str, &str); 2]]| {
            let cells = names.iter().zip(factors).map(|(name, factors)| (*name, &factors[..]));
            results(&cells.collect::<Vec<_>>())
        };
        let (before, after) = (of(&before), of(&after));
        let turned = [names[0], names[2], names[1], names[3]];
        assert_eq!(named(&before, &after), names.into_iter().zip(turned).collect::<Vec<_>>());
        assert!(other_levels(&before, &after).is_empty());
    }

    #[test]
    fn a_factor_of_one_side_keeps_cells_apart_where_it_has_several_levels() {
        let plain = results(&[("read", &[("operation", "read")]), ("write", &[("operation", "write")])]);
        let one = results(&[
            ("read", &[("operation", "read"), ("tls", "on")]),
            ("write", &[("operation", "write"), ("tls", "on")]),
        ]);
        assert_eq!(named(&plain, &one), [("read", "read"), ("write", "write")]);
        assert!(other_levels(&plain, &one).into_iter().eq([("tls", "", "on")]));
        let two = results(&[
            ("read, on", &[("operation", "read"), ("tls", "on")]),
            ("read, off", &[("operation", "read"), ("tls", "off")]),
        ]);
        assert!(named(&plain, &two).is_empty());
        // By another name of the factor, and without factors, by what they are called.
        let renamed = results(&[("read", &[("verb", "read")]), ("write", &[("verb", "write")])]);
        assert_eq!(named(&plain, &renamed), [("read", "read"), ("write", "write")]);
        let differ = ["read", "write"].map(|level| ("operation", level, ""));
        let differ = differ.into_iter().chain(["read", "write"].map(|level| ("verb", "", level)));
        assert!(other_levels(&plain, &renamed).into_iter().eq(differ));
        let older = results(&[("write", &[])]);
        assert_eq!(named(&plain, &older), [("write", "write")]);
        assert!(other_levels(&plain, &older).is_empty());
    }
}
