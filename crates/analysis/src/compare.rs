//! Two sets of results side by side: what changed in each cell and over all of them, and where the
//! data cannot say.
//!
//! Cells are paired by their levels ([`crate::pairs`]). Within a cell the runs of both sides are
//! independent samples, so their means are compared by Welch's interval; over all cells, the pairs
//! belong together, so the mean of the ratios' logarithms has Student's interval (Jain 1991,
//! §13.4); where only one cell has a ratio, its own interval counts. **A difference whose interval
//! covers 0, or whose ratio's covers 1, is no difference**: nothing is said to be faster then.
//!
//! **Sessions.** All trials of a directory were run in one session: the same boot, the same
//! neighbours, the same place in memory. What a session does to all of its trials alike is in every
//! cell of a side, and no number of cells averages it out. How much one and the same cell changes
//! from time to time is seen in the runs of the anchor; its variance goes into every interval, once
//! for each side. Without anchors nothing says how much it is: then there is no verdict over all
//! cells, only how large a difference between the two sessions would explain what was found.

use krarup_record::scaled::ScaledStation;
use krarup_stats::{Interval, Summary};
use krarup_units::text;
use serde::{Deserialize, Serialize};

use crate::caution::Caution;
use crate::cell::Cell;
use crate::change::{Conclusion, Measure, MeasureChange, Sessions, around, between, direction, verdict};
use crate::outcomes::OutcomeShares;
use crate::pairs::{other_levels, pairs, partner};
use crate::results::{AT, BUILD, NODE, Results};
use crate::trial::CellLevels;

/// A cell that both sides have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellChange {
    /// Which.
    pub levels: CellLevels,
    /// In the order of [`Measure::ALL`].
    pub changes: Vec<MeasureChange>,
}

/// One measure over all cells that both sides have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    /// What.
    pub measure: Measure,
    /// Over how many cells.
    pub cells: u64,
    /// The geometric mean of the cells' ratios other ÷ base.
    pub ratio: f64,
    /// Where it may lie for cells like these; with what differs between sessions, where that is
    /// known.
    pub interval: Option<Interval>,
    /// What may be said.
    pub verdict: Conclusion,
    /// The share by which one session would have to differ from the other, to explain that the
    /// interval leaves no change out; none where it does not, or where the interval holds the
    /// sessions' difference already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained_by: Option<f64>,
}

/// Two sets of results side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What is compared with.
    pub base: String,
    /// What is compared.
    pub other: String,
    /// Over all cells, in the order of [`Measure::ALL`]; empty where no cell is on both sides.
    pub overall: Vec<Overall>,
    /// Cell by cell, in the order of the base.
    pub cells: Vec<CellChange>,
    /// What to bear in mind.
    pub cautions: Vec<Caution>,
}

/// Compares `other` with `base`, each under the name it is to have.
pub fn compare((base_name, base): (&str, &Results), (other_name, other): (&str, &Results)) -> Comparison {
    let sessions = Sessions::of(base.anchor.as_ref(), other.anchor.as_ref());
    let cells: Vec<CellChange> = pairs(base, other)
        .map(|(base, other)| CellChange {
            levels: base.levels.clone(),
            changes: Measure::ALL.map(|measure| between(measure, base, other, sessions.as_ref())).to_vec(),
        })
        .collect();
    let overall = Measure::ALL.iter().enumerate();
    let overall: Vec<Overall> =
        overall.filter_map(|(place, measure)| over_all(*measure, &cells, place, sessions.as_ref())).collect();
    let mut cautions = cautions(base, other, &cells);
    let verdicts = cells.iter().flat_map(|cell| &cell.changes).map(|change| change.verdict);
    let differs =
        |verdict| matches!(verdict, Conclusion::Better | Conclusion::Worse | Conclusion::SessionsUnknown);
    // Where nothing differs, no session is to blame.
    if sessions.is_some() || verdicts.chain(overall.iter().map(|one| one.verdict)).any(differs) {
        let spread = sessions.map(|known| known.throughput.sqrt());
        let anchors = base.anchor.is_some() && other.anchor.is_some();
        cautions.insert(0, Caution::Sessions { spread, anchors });
    }
    Comparison { base: base_name.to_owned(), other: other_name.to_owned(), overall, cautions, cells }
}

/// The geometric mean of the ratios, each cell weighing the same.
fn over_all(
    measure: Measure,
    cells: &[CellChange],
    place: usize,
    sessions: Option<&Sessions>,
) -> Option<Overall> {
    let changes: Vec<&MeasureChange> = cells
        .iter()
        .map(|cell| &cell.changes[place])
        .filter(|change| change.ratio.is_some_and(|ratio| ratio > 0.0))
        .collect();
    let ratios: Vec<f64> = changes.iter().filter_map(|change| change.ratio).map(f64::ln).collect();
    let summary = Summary::of(&ratios).ok()?;
    let (interval, found) = if let [only] = changes[..] {
        // One cell shows no scatter between cells: its runs say what may be said.
        (only.ratio_interval.and_then(|interval| interval.map(f64::ln).ok()), only.verdict)
    } else {
        let of_cells = (summary.variance().ok()? / summary.n as f64, (summary.n - 1) as f64);
        let session = sessions.map(|sessions| sessions.of_difference(measure));
        let parts: Vec<(f64, f64)> = std::iter::once(of_cells).chain(session).collect();
        let interval = around(summary.mean, &parts);
        let found = interval.map_or(Conclusion::NoConclusion, |one| verdict(measure, direction(one)));
        (interval, found)
    };
    let verdict = match found {
        Conclusion::Better | Conclusion::Worse if sessions.is_none() => Conclusion::SessionsUnknown,
        found => found,
    };
    let nearest = interval.map(|interval| if interval.low > 0.0 { interval.low } else { interval.high });
    Some(Overall {
        measure,
        cells: summary.n,
        ratio: summary.mean.exp(),
        interval: interval.and_then(|interval| interval.map(f64::exp).ok()),
        verdict,
        explained_by: nearest
            .filter(|_| verdict == Conclusion::SessionsUnknown)
            .map(|end| end.abs().exp_m1()),
    })
}

/// Up to so many comparisons chance misleads no reader.
const FEW: u64 = 10;

/// The share of the requests of a cell that failed: of its completed ones, unless more were given
/// up outside of the measured part.
fn failed_share(cell: &Cell) -> f64 {
    let all = cell.completed.max(cell.errors);
    if all == 0 { 0.0 } else { cell.errors as f64 / all as f64 }
}

/// The cells of which another share of the requests failed in `other` than in `base`. Where more
/// fail they keep no limit: what fails counts as throughput, and a refusal is quick.
pub fn failures(base: &Results, other: &Results) -> Vec<OutcomeShares> {
    let share = |(before, after): (&Cell, &Cell)| {
        OutcomeShares::of(before.levels.in_words(), failed_share(before), failed_share(after))
    };
    pairs(base, other).filter_map(share).collect()
}

/// The cells of which another share of the keys was found in `other` than in `base`. Where fewer
/// are found they keep no limit: a miss counts as throughput, and is quicker than a value.
pub fn hit_ratios(base: &Results, other: &Results) -> Vec<OutcomeShares> {
    let share = |(before, after): (&Cell, &Cell)| {
        OutcomeShares::of(before.levels.in_words(), before.hit_ratio?, after.hit_ratio?)
    };
    pairs(base, other).filter_map(share).collect()
}

/// What a version says, without the address of a pod, which is another each time.
fn lasting(version: &str) -> String {
    let of_pod = version.split_once(AT).filter(|_| version.contains(NODE));
    let parts = of_pod.and_then(|(machine, rest)| Some((machine, rest.split_once(", ")?.1)));
    parts.map_or_else(|| version.to_owned(), |(machine, rest)| format!("{machine}, {rest}"))
}

fn cautions(base: &Results, other: &Results, cells: &[CellChange]) -> Vec<Caution> {
    let mut cautions = Vec::new();
    let (there, here) = (&base.environment, &other.environment);
    let mut differ = |of: &str, base: &str, other: &str| {
        if base != other {
            let (base, other) = (base.to_owned(), other.to_owned());
            cautions.push(Caution::Environment { of: of.to_owned(), base, other });
        }
    };
    differ("the processor", &there.cpu, &here.cpu);
    differ("the number of processors", &there.cores.to_string(), &here.cores.to_string());
    differ("the memory", &there.memory, &here.memory);
    differ("the system", &there.kernel, &here.kernel);
    // Earlier versions wrote down no builds, and a program of one side is named by itself.
    let is_named = |program: &str| !program.ends_with(BUILD);
    for (program, version) in &there.versions {
        match here.versions.iter().find(|(name, _)| name == program) {
            Some((_, other)) => differ(program, &lasting(version), &lasting(other)),
            None if is_named(program) => differ(program, version, ""),
            None => {}
        }
    }
    for (program, version) in &here.versions {
        if is_named(program) && there.versions.iter().all(|(name, _)| name != program) {
            differ(program, "", version);
        }
    }
    let scale = |of: &Results| of.scaled.as_ref().map_or("none".to_owned(), |scaled| scaled.by.to_string());
    differ("the scale", &scale(base), &scale(other));
    if let (Some(before), Some(after)) = (&base.scaled, &other.scaled)
        && before.by == after.by
    {
        for one in &before.stations {
            // Of equal machines the shares are found anew for each directory.
            let same = |two: &&ScaledStation| two.station == one.station && two.processors == one.processors;
            if let Some(two) = after.stations.iter().find(same) {
                let of = format!("the share of a processor of the scaled {}", one.station);
                differ(&of, &format!("{:.4}", one.share), &format!("{:.4}", two.share));
            }
        }
    }
    for (factor, base, other) in other_levels(base, other) {
        differ(&format!("the factor {factor}"), base, other);
    }
    let alone = |one: &Results, two: &Results| {
        one.cells.iter().filter(|&cell| partner((one, cell), two).is_none()).count() as u64
    };
    let (only_base, only_other) = (alone(base, other), alone(other, base));
    if only_base + only_other > 0 {
        cautions.push(Caution::LeftOut { base: only_base, other: only_other });
    }
    let (wrong_there, wrong_here) = (base.faults(), other.faults());
    if wrong_there + wrong_here > 0 {
        cautions.push(Caution::Concerns { base: wrong_there, other: wrong_here });
    }
    cautions.extend(Caution::of_failures(&failures(base, other)));
    cautions.extend(Caution::of_hits(&hit_ratios(base, other)));
    if base.ended_early || other.ended_early {
        cautions.push(Caution::EndedEarly);
    }
    let changes = cells.iter().flat_map(|cell| &cell.changes);
    let comparisons = changes.filter(|change| change.difference_interval.is_some()).count() as u64;
    if comparisons > FEW {
        cautions.push(Caution::Many { comparisons });
    }
    cautions
}

impl Comparison {
    /// The answer in a sentence for each measure, and how many cells say it by themselves.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |overall: &Overall| {
            let changes = self.cells.iter().flat_map(|cell| &cell.changes);
            let changes = changes.filter(|change| change.measure == overall.measure);
            let of = |verdict| changes.clone().filter(|change| change.verdict == verdict).count();
            let left_out = match (changes.clone().count() as u64).saturating_sub(overall.cells) {
                0 => String::new(),
                left_out => format!(" Cells left out, as a ratio needs values above 0: {left_out}."),
            };
            let range = overall.interval.map_or(String::new(), |interval| {
                format!(" ({} to {} at 95 %)", percent(interval.low), percent(interval.high))
            });
            let explained = overall.explained_by.map_or(String::new(), |share| {
                format!(
                    " (a difference of {} % between the two sessions would explain it)",
                    text::three_digits(share * 100.0)
                )
            });
            format!(
                "{}: {} over {} cells{range}, {}{explained}. By themselves {} cells are better, {} worse, {} without conclusion.{left_out}",
                overall.measure.name(),
                percent(overall.ratio),
                overall.cells,
                overall.verdict,
                of(Conclusion::Better),
                of(Conclusion::Worse),
                of(Conclusion::NoConclusion) + of(Conclusion::TooFewRuns),
            )
        };
        self.overall.iter().map(sentence).collect()
    }
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use krarup_record::scaled::ScaledTestbed;
    use proptest::prelude::*;

    use super::*;
    use crate::anchor::{AnchorRun, AnchorRuns};
    use crate::regression::{MoreRepetitions, RegressionVerdict};
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::Trial;

    /// Cells of 1 and of 8 clients, with these throughputs in their runs.
    pub(crate) fn results(rates: &[f64]) -> Results {
        with_clients(&[1, 8], rates)
    }

    /// Cells of these clients.
    fn with_clients(clients: &[u32], rates: &[f64]) -> Results {
        let trials: Vec<Trial> = clients
            .iter()
            .flat_map(|clients| {
                rates.iter().zip(0..).map(move |(rate, repetition)| Trial {
                    repetition,
                    ..steady_trial("read", *clients, *rate)
                })
            })
            .collect();
        summarise("test", Environment::default(), &trials).unwrap()
    }

    /// The same where the cell at this place answered nothing.
    pub(crate) fn silent(mut results: Results, place: usize) -> Results {
        let cell = &mut results.cells[place];
        cell.throughput.value = 0.0;
        cell.repetitions.iter_mut().for_each(|run| run.throughput = 0.0);
        results
    }

    fn anchor(rates: &[f64]) -> Option<AnchorRuns> {
        crate::anchor::judge("the anchor", 0.5, (0..).zip(rates.iter().copied()).map(anchor_run).collect())
    }

    fn anchor_run((block, throughput): (u32, f64)) -> AnchorRun {
        AnchorRun { block, started_unix: f64::from(block), throughput, response: 1.0 / throughput }
    }

    /// Numbers from 0 to below 1, the same for ever: SplitMix64 (Steele, Lea and Flood 2014).
    pub(crate) fn uniform_from(mut state: u64) -> impl FnMut() -> f64 {
        move || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    fn compared(base: &[f64], other: &[f64]) -> Comparison {
        compare(("a", &results(base)), ("b", &results(other)))
    }

    #[test]
    fn more_throughput_is_better_and_more_time_is_worse() {
        let found = compared(&[1_000.0, 1_010.0, 990.0], &[500.0, 505.0, 495.0]);
        let verdicts: Vec<Conclusion> = found.cells[0].changes.iter().map(|change| change.verdict).collect();
        assert_eq!(verdicts, [Conclusion::Worse; 3]);
        let change = &found.cells[0].changes[0];
        assert_eq!((change.difference, change.ratio), (-500.0, Some(0.5)));
        let interval = change.ratio_interval.unwrap();
        assert!(interval.contains(0.5) && interval.high < 0.53, "{interval:?}");
        assert_eq!(
            compared(&[500.0, 505.0], &[1_000.0, 1_010.0]).cells[1].changes[1].verdict,
            Conclusion::Better
        );
    }

    #[test]
    fn a_cell_that_answers_nothing_is_worse_and_left_out_of_the_mean() {
        let base = results(&[1_000.0, 1_010.0, 990.0]);
        let other = silent(base.clone(), 0);
        let found = compare(("a", &base), ("b", &other));
        let change = &found.cells[0].changes[0];
        assert_eq!(
            (change.verdict, change.ratio, change.ratio_interval),
            (Conclusion::Worse, Some(0.0), None)
        );
        assert_eq!(found.cells[1].changes[0].verdict, Conclusion::NoConclusion);
        let said = found.sentences().remove(0);
        assert!(said.contains("1 worse") && said.ends_with("a ratio needs values above 0: 1."), "{said}");
        let back = compare(("b", &other), ("a", &base));
        assert_eq!(back.cells[0].changes[0].verdict, Conclusion::Better);
        // Where no cell has a ratio, the sentences are those of the other measures.
        let found = compare(("a", &base), ("b", &silent(other, 1)));
        let said = found.sentences();
        assert!(said.len() == 2 && said[0].contains("0 worse, 2 without"), "{said:?}");
    }

    #[test]
    fn what_lies_within_the_noise_is_no_conclusion() {
        let found = compared(&[1_000.0, 1_100.0, 900.0], &[1_030.0, 1_130.0, 930.0]);
        assert!(
            found
                .cells
                .iter()
                .flat_map(|cell| &cell.changes)
                .all(|change| change.verdict == Conclusion::NoConclusion)
        );
        let interval = found.cells[0].changes[0].difference_interval.unwrap();
        assert!(interval.contains(0.0));
    }

    #[test]
    fn one_run_on_a_side_has_no_interval_and_no_conclusion() {
        let found = compared(&[1_000.0], &[2_000.0, 2_010.0]);
        assert_eq!(found.cells[0].changes[0].verdict, Conclusion::TooFewRuns);
        assert_eq!(found.cells[0].changes[0].difference_interval, None);
    }

    #[test]
    fn one_cell_says_over_all_cells_what_its_runs_say() {
        let one_cell = |rates: &[f64], of: &[f64]| {
            let mut one = results(rates);
            one.cells.truncate(1);
            Results { anchor: anchor(of), ..one }
        };
        let compared = |of: &[f64]| {
            let (base, other) =
                (one_cell(&[1_000.0, 1_010.0, 990.0], of), one_cell(&[500.0, 505.0, 495.0], of));
            compare(("a", &base), ("b", &other))
        };
        let found = compared(&[]);
        let overall = &found.overall[0];
        assert_eq!((overall.cells, overall.verdict), (1, Conclusion::SessionsUnknown));
        assert!(overall.interval.unwrap().contains(0.5), "{overall:?}");
        let share = overall.explained_by.unwrap();
        assert!((0.9..1.0).contains(&share), "{share}");
        assert!(!found.sentences()[0].contains("too few runs"), "{:?}", found.sentences());
        let found = compared(&[1_000.0, 1_001.0, 999.0]);
        assert_eq!(found.overall[0].verdict, Conclusion::Worse);
    }

    #[test]
    fn comparisons_that_could_not_be_made_are_not_counted() {
        let cautions = |rates: &[f64]| {
            let results = with_clients(&[1, 2, 4, 8], rates);
            compare(("a", &results), ("b", &results)).cautions
        };
        let once = cautions(&[1_000.0]);
        assert!(!once.iter().any(|one| matches!(one, Caution::Many { .. })), "{once:?}");
        assert!(cautions(&[1_000.0, 1_010.0]).contains(&Caution::Many { comparisons: 12 }));
    }

    #[test]
    fn all_cells_together_say_what_none_says_alone() {
        let rates = |factor: f64| {
            let trials: Vec<Trial> = (1..=12)
                .flat_map(|clients| {
                    // The runs of a cell differ much, the cells' means do not.
                    [0.8, 1.2].into_iter().zip(0..).map(move |(spread, repetition)| Trial {
                        repetition,
                        ..steady_trial("read", clients, 1_000.0 * factor * spread * f64::from(clients))
                    })
                })
                .collect();
            let results = summarise("test", Environment::default(), &trials).unwrap();
            Results { anchor: anchor(&[1_000.0, 1_001.0, 999.0]), ..results }
        };
        let mut other = rates(1.1);
        // A cell that grew a little less: a constant has no interval of its own.
        other.cells[3].throughput.value *= 0.99;
        let found = compare(("a", &rates(1.0)), ("b", &other));
        assert!(found.cells.iter().all(|cell| cell.changes[0].verdict == Conclusion::NoConclusion));
        assert_eq!((found.overall[0].verdict, found.overall[0].cells), (Conclusion::Better, 12));
        assert!((found.overall[0].ratio - 1.1).abs() < 0.002);
        assert!(
            found.sentences()[0].starts_with("throughput: +9.9 % over 12 cells ("),
            "{:?}",
            found.sentences()
        );
    }

    /// Without an anchor the same difference is none, and it is said what would explain it.
    #[test]
    fn without_an_anchor_nothing_is_said_over_all_cells() {
        let (base, mut other) = (results(&[1_000.0, 1_001.0, 999.0]), results(&[1_030.0, 1_031.0, 1_029.0]));
        other.cells[1].throughput.value *= 1.001;
        let found = compare(("a", &base), ("b", &other));
        assert_eq!(found.overall[0].verdict, Conclusion::SessionsUnknown);
        let share = found.overall[0].explained_by.unwrap();
        assert!((0.02..0.03).contains(&share), "{share}");
        assert!(
            found.sentences()[0].contains("between the two sessions would explain it"),
            "{:?}",
            found.sentences()
        );
        assert_eq!(found.cautions[0], Caution::Sessions { spread: None, anchors: false });
        assert!(found.cautions[0].to_string().contains("Give the spec an anchor"));
        // Of an anchor in one repetition it is told how to have more.
        let alone = [1_000.0];
        let (base, other) =
            (Results { anchor: anchor(&alone), ..base }, Results { anchor: anchor(&alone), ..other });
        let found = compare(("a", &base), ("b", &other));
        assert_eq!(found.cautions[0], Caution::Sessions { spread: None, anchors: true });
        let said = found.cautions[0].to_string();
        assert!(said.contains("fewer than two repetitions") && !said.contains("Give the spec"), "{said}");
        // An anchor that scatters more than the difference takes the verdict of the cells away,
        // too.
        let rough = [980.0, 1_020.0, 1_005.0, 995.0];
        let (base, other) =
            (Results { anchor: anchor(&rough), ..base }, Results { anchor: anchor(&rough), ..other });
        let found = compare(("a", &base), ("b", &other));
        assert_eq!(found.overall[0].verdict, Conclusion::NoConclusion);
        assert_eq!(found.cells[0].changes[0].verdict, Conclusion::NoConclusion);
        let Caution::Sessions { spread: Some(spread), anchors: true } = found.cautions[0] else {
            panic!("{:?}", found.cautions)
        };
        assert!((spread - 0.0168).abs() < 1e-3, "{spread}");
    }

    /// Two of five blocks of the base are left out, as the machine was slower by 14 % then: in the
    /// other session it may have been so from beginning to end.
    #[test]
    fn what_the_machine_did_within_a_session_is_no_change_in_another() {
        let with_anchor = |rates: &[f64], blocks: [[f64; 2]; 5]| {
            let runs = (0..).zip(blocks).flat_map(|(block, two)| two.map(|rate| anchor_run((block, rate))));
            let anchor = crate::anchor::judge("the anchor", 0.1, runs.collect());
            Results { anchor, ..results(rates) }
        };
        let jumps = [[100.0, 101.0], [99.0, 100.0], [101.0, 100.0], [86.0, 87.0], [86.0, 87.0]];
        let base = with_anchor(&[1_000.0, 1_004.0, 996.0], jumps);
        assert_eq!(base.anchor.as_ref().unwrap().left_out, [3, 4]);
        let other = with_anchor(&[870.0, 874.0, 866.0], [[87.0, 88.0]; 5]);
        let found = compare(("a", &base), ("b", &other));
        assert!(found.overall.iter().all(|one| one.verdict == Conclusion::NoConclusion), "{found:?}");
        let Caution::Sessions { spread: Some(spread), .. } = found.cautions[0] else {
            panic!("{:?}", found.cautions)
        };
        assert!((0.05..0.06).contains(&spread), "{spread}");
        let limit = ["throughput < -5%".parse().unwrap()];
        let answers = crate::regression::judge_results(&limit, (&base, &other), 0.8).unwrap();
        assert_eq!(
            (answers[0].verdict, answers[0].more),
            (RegressionVerdict::NoConclusion, Some(MoreRepetitions::Sessions))
        );
    }

    /// More runs within a repetition say no more of what another session is like.
    #[test]
    fn runs_of_the_anchor_in_one_repetition_are_one_state_of_the_machine() {
        let blocks = [100.0, 82.0, 118.0].into_iter().zip(0..);
        let runs = blocks.flat_map(|(rate, block)| [anchor_run((block, rate)); 4]).collect();
        let anchor = crate::anchor::judge("the anchor", 0.5, runs).unwrap();
        let sessions = Sessions::of(Some(&anchor), Some(&anchor)).unwrap();
        let (variance, degrees) = sessions.of_difference(Measure::Throughput);
        assert!((variance - 2.0 * 0.0332).abs() < 1e-4 && degrees == 4.0, "{variance}, {degrees}");
    }

    /// Two sessions of the same: each has an offset of 1 % (standard deviation) that all its trials
    /// share, and each trial 1 % of its own.
    #[test]
    fn two_sessions_of_the_same_are_hardly_ever_distinguished() {
        let mut uniform = uniform_from(1);
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let mut session = || {
            let offset = 1.0 + 0.01 * normal();
            let mut trials = Vec::new();
            for clients in 1..=12 {
                for repetition in 0..3 {
                    let rate = 1_000.0 * f64::from(clients) * offset * (1.0 + 0.01 * normal());
                    trials.push(Trial { repetition, ..steady_trial("read", clients, rate) });
                }
            }
            let runs: Vec<f64> = (0..6).map(|_| 1_000.0 * offset * (1.0 + 0.01 * normal())).collect();
            let results = summarise("test", Environment::default(), &trials).unwrap();
            Results { anchor: anchor(&runs), ..results }
        };
        let is_told = |verdict| matches!(verdict, Conclusion::Better | Conclusion::Worse);
        let (mut with, mut without, mut explained) = (0, 0, 0);
        for _ in 0..200 {
            let (base, other) = (session(), session());
            let found = compare(("a", &base), ("b", &other));
            with += u32::from(is_told(found.overall[0].verdict));
            let bare = |results: Results| Results { anchor: None, ..results };
            let found = compare(("a", &bare(base)), ("b", &bare(other)));
            without += u32::from(is_told(found.overall[0].verdict));
            explained += u32::from(found.overall[0].explained_by.is_some());
        }
        assert!(with <= 14, "{with} of 200 false verdicts: more than 5 % and what chance adds");
        assert_eq!(without, 0);
        assert!(explained >= 60, "{explained} of 200: so many were told before");
    }

    #[test]
    fn what_else_changed_is_reported() {
        let base = results(&[1_000.0, 1_010.0]);
        let mut other = results(&[1_000.0, 1_012.0]);
        other.environment.cpu = "another".into();
        other.cells.remove(1);
        let cautions = compare(("a", &base), ("b", &other)).cautions;
        assert!(
            matches!(&cautions[0], Caution::Environment { of, .. } if of == "the processor"),
            "{cautions:?}"
        );
        assert!(cautions.contains(&Caution::LeftOut { base: 1, other: 0 }));
        assert_eq!(compare(("a", &base), ("b", &base)).cautions, []);
    }

    /// Half of the requests are refused at once: more of them are "answered", and sooner.
    #[test]
    fn a_side_that_fails_more_is_told_and_named_for_a_gate() {
        let base = results(&[1_000.0, 1_010.0, 990.0]);
        let failing = |share: u64| {
            let mut other = results(&[1_600.0, 1_616.0, 1_584.0]);
            other.cells[1].errors = other.cells[1].completed * share / 1_000;
            other
        };
        let found = |base: &Results, other: &Results| {
            let cautions = compare(("a", base), ("b", other)).cautions;
            cautions.into_iter().find(|one| matches!(one, Caution::Failures { .. }))
        };
        let other = failing(500);
        let half = Caution::Failures { cells: 1, base: 0.0, other: 0.5 };
        assert_eq!(found(&base, &other), Some(half.clone()));
        assert!(half.to_string().contains("it was 0.00 %, and is 50.0 %"), "{half}");
        let named = OutcomeShares { cell: "read, 8 clients".into(), base: 0.0, other: 0.5 };
        assert_eq!(failures(&base, &other), [named]);
        // The other way around it is told, too.
        assert_eq!(found(&other, &base), Some(Caution::Failures { cells: 1, base: 0.5, other: 0.0 }));
        let few = failing(9);
        assert_eq!((found(&base, &few), failures(&base, &few)), (None, Vec::new()));
    }

    /// Half of the reads go to a server that does not have the keys.
    #[test]
    fn a_side_that_finds_fewer_keys_is_told_and_named_for_a_gate() {
        let base = results(&[1_000.0, 1_010.0, 990.0]);
        let mut other = results(&[1_400.0, 1_414.0, 1_386.0]);
        other.cells[1].hit_ratio = Some(0.5);
        for (one, two, before, after) in [(&base, &other, 1.0, 0.5), (&other, &base, 0.5, 1.0)] {
            let named = OutcomeShares { cell: "read, 8 clients".into(), base: before, other: after };
            assert_eq!(hit_ratios(one, two), [named]);
            let caution = Caution::Misses { cells: 1, base: before, other: after };
            assert!(compare(("a", one), ("b", two)).cautions.contains(&caution), "{caution}");
        }
        other.cells[1].hit_ratio = Some(0.995);
        assert_eq!(hit_ratios(&base, &other), []);
        other.cells[1].hit_ratio = None;
        assert_eq!(hit_ratios(&base, &other), [], "no key was read");
    }

    #[test]
    fn runs_that_ended_when_they_agreed_are_named_whichever_side_has_them() {
        let fixed = results(&[1_000.0, 1_010.0]);
        let agreed = Results { ended_early: true, ..fixed.clone() };
        for (base, other) in [(&fixed, &agreed), (&agreed, &fixed)] {
            assert_eq!(compare(("a", base), ("b", other)).cautions, [Caution::EndedEarly]);
        }
    }

    /// Whichever side is the base.
    #[test]
    fn another_scale_and_a_program_of_one_side_are_reported() {
        let plain = results(&[1_000.0, 1_010.0]);
        let scaled = |by: f64, share: f64| {
            let station = "middleware".to_owned();
            let station = ScaledStation { station, count: 1, processors: 8.0, share, link: None, delay: 0.0 };
            let mut one = plain.clone();
            one.scaled_by(ScaledTestbed { by, stations: vec![station], baselines: Vec::new() });
            one
        };
        let mut with_middleware = plain.clone();
        with_middleware.environment.versions.push(("middleware".into(), "nutcracker 0.5".into()));
        let share = "the share of a processor of the scaled middleware";
        for (one, two, of, before, after) in [
            (&plain, &scaled(4.0, 2.0), "the scale", "none", "4"),
            (&scaled(4.0, 2.0), &scaled(20.0, 0.4), "the scale", "4", "20"),
            (&scaled(20.0, 0.4), &scaled(20.0, 0.41), share, "0.4000", "0.4100"),
            (&plain, &with_middleware, "middleware", "", "nutcracker 0.5"),
        ] {
            for (base, other, before, after) in [(one, two, before, after), (two, one, after, before)] {
                let (base, other) = (("a", base), ("b", other));
                let caution =
                    Caution::Environment { of: of.into(), base: before.into(), other: after.into() };
                assert_eq!(compare(base, other).cautions, [caution]);
            }
        }
        assert_eq!(compare(("a", &scaled(4.0, 2.0)), ("b", &scaled(4.0, 2.0))).cautions, []);
    }

    #[test]
    fn builds_are_named_where_both_sides_have_them() {
        let none = results(&[1_000.0, 1_010.0]);
        let with = |build: &str| {
            let mut one = none.clone();
            one.environment.versions.push((format!("krarup{BUILD}"), build.to_owned()));
            one
        };
        let (before, after) = (with("ba78"), with("cb00"));
        let of = "krarup build".to_owned();
        let caution = Caution::Environment { of, base: "ba78".into(), other: "cb00".into() };
        assert_eq!(compare(("a", &before), ("b", &after)).cautions, [caution]);
        for (base, other) in [(&none, &after), (&after, &none)] {
            assert_eq!(compare(("a", base), ("b", other)).cautions, []);
        }
    }

    #[test]
    fn the_address_of_a_pod_is_no_difference_and_its_node_is() {
        let on = |what: &str| {
            let mut one = results(&[1_000.0, 1_010.0]);
            one.environment.versions.push(("machine c1".into(), what.to_owned()));
            one
        };
        let differ = |before: &str, after: &str| compare(("a", &on(before)), ("b", &on(after))).cautions;
        let pod = |address: &str, node: &str| format!("CPU, 8 processors, at {address}, for clients{node}");
        let before = pod("10.0.0.1", ", on node a");
        assert_eq!(differ(&before, &pod("10.0.0.2", ", on node a")), []);
        let found = differ(&before, &pod("10.0.0.2", ", on node b"));
        let [Caution::Environment { base, other, .. }] = &found[..] else { panic!("{found:?}") };
        assert_eq!(base, "CPU, 8 processors, for clients, on node a");
        assert_eq!(other, "CPU, 8 processors, for clients, on node b");
        // Of a machine it tells which one it is.
        assert_eq!(differ(&pod("10.0.0.1", ""), &pod("10.0.0.2", "")).len(), 1);
    }

    #[test]
    fn nothing_in_common_is_no_comparison() {
        let base = results(&[1_000.0, 1_010.0]);
        let mut other = base.clone();
        other.cells.iter_mut().for_each(|cell| cell.levels.workload = "write".into());
        let found = compare(("a", &base), ("b", &other));
        assert!(found.cells.is_empty() && found.overall.is_empty());
    }

    proptest! {
        /// The order of the two turns the verdict around, and nothing else.
        #[test]
        fn turned_around_better_is_worse(
            base in proptest::collection::vec(500.0..2_000.0f64, 2..6),
            other in proptest::collection::vec(500.0..2_000.0f64, 2..6),
        ) {
            let (there, back) = (compared(&base, &other), compared(&other, &base));
            for (one, two) in there.cells[0].changes.iter().zip(&back.cells[0].changes) {
                let turned = match one.verdict {
                    Conclusion::Better => Conclusion::Worse,
                    Conclusion::Worse => Conclusion::Better,
                    same => same,
                };
                prop_assert_eq!(turned, two.verdict);
                prop_assert!((one.ratio.unwrap() * two.ratio.unwrap() - 1.0).abs() < 1e-9);
            }
        }

        /// The same runs twice are never told apart.
        #[test]
        fn nothing_differs_from_itself(rates in proptest::collection::vec(500.0..2_000.0f64, 2..6)) {
            let found = compared(&rates, &rates);
            for change in &found.cells[0].changes {
                prop_assert_eq!(change.verdict, Conclusion::NoConclusion);
                prop_assert_eq!(change.ratio, Some(1.0));
            }
        }
    }
}
