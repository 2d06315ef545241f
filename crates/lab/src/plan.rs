//! Which trials a spec means, and in which order: pure, and the same for ever under the same seed.
//!
//! Cells are the combinations of levels. Each repetition is a block in which every cell comes once,
//! in an order drawn from the seed (Montgomery 2017, chapter 4: blocking and randomisation), so
//! that a slow drift of the machine meets all cells alike.

use std::collections::{BTreeMap, BTreeSet};

use krarup_load::random;
use krarup_units::Seconds;
use toml::Spanned;

use crate::spec::{LevelName, Spec, StationCount, StationSpec, names_in};

/// One combination of levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCell {
    /// Its number, from 0, in the order of the factors and their levels.
    pub number: usize,
    /// Its level of each factor, in the order of the spec.
    pub levels: Vec<(String, LevelName)>,
    /// Its folder's name: its levels in plain letters, nothing that a shell or a file system minds.
    pub folder: String,
    /// The words that stand for each factor.
    words: BTreeMap<String, Vec<String>>,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All cells.
    pub cells: Vec<PlannedCell>,
    /// Factors with several levels, in the order of the spec, without that of the population.
    distinguishing: Vec<String>,
    seed: u64,
}

impl Plan {
    /// The cells of a spec: all combinations of levels, zipped factors together, exceptions left
    /// out.
    pub fn of(spec: &Spec) -> Self {
        let mut combinations: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
        for group in &groups(spec) {
            let levels = spec.factors[group[0]].levels.len();
            combinations = combinations
                .into_iter()
                .flat_map(|chosen| {
                    (0..levels).map(move |level| {
                        let more = group.iter().map(|factor| (*factor, level));
                        chosen.iter().copied().chain(more).collect()
                    })
                })
                .collect();
        }
        let (mut cells, mut folders) = (Vec::new(), BTreeSet::new());
        for mut chosen in combinations {
            chosen.sort_unstable();
            let pairs: Vec<_> =
                chosen.iter().map(|&(factor, level)| (&spec.factors[factor], level)).collect();
            let levels: Vec<(String, LevelName)> = pairs
                .iter()
                .map(|(factor, level)| (factor.name.get_ref().clone(), factor.levels[*level].name.clone()))
                .collect();
            let left_out = spec.except.iter().any(|except| {
                except
                    .get_ref()
                    .iter()
                    .all(|(name, level)| levels.iter().any(|(n, l)| (n, l) == (name, level)))
            });
            if !left_out {
                let words = pairs.iter().map(|(factor, level)| {
                    (factor.name.get_ref().clone(), factor.levels[*level].words.clone())
                });
                let (number, words) = (cells.len(), words.collect());
                let mut folder = folder(&levels);
                if !folders.insert(folder.clone()) {
                    folder = format!("{folder}~{number}");
                }
                cells.push(PlannedCell { number, folder, levels, words });
            }
        }
        let distinguishing = spec.factors.iter().filter(|factor| factor.levels.len() > 1);
        let distinguishing = distinguishing.map(|factor| factor.name.get_ref().clone());
        let distinguishing = distinguishing.filter(|name| *name != spec.population).collect();
        Self { cells, distinguishing, seed: spec.seed }
    }

    /// The cells in the order of one repetition.
    pub fn block(&self, repetition: u32) -> Vec<&PlannedCell> {
        let mut order: Vec<&PlannedCell> = self.cells.iter().collect();
        let mut random = random::stream(self.seed, "order of the cells", u64::from(repetition));
        // Fisher and Yates: each order is equally likely.
        for end in (1..order.len()).rev() {
            order.swap(end, random::below(&mut random, end as u64 + 1) as usize);
        }
        order
    }

    /// The cell that is repeated through the run, if one is. It is none where it is left out.
    pub fn anchor(&self, spec: &Spec) -> Option<&PlannedCell> {
        let levels = &spec.anchor.as_ref()?.get_ref().levels;
        self.cells.iter().find(|cell| cell.has(levels))
    }

    /// How many trials one repetition of all cells has, with the runs of the anchor.
    pub fn in_block(&self, spec: &Spec) -> usize {
        let cells: Vec<&PlannedCell> = self.cells.iter().collect();
        with_anchors(&cells, 0, self.anchor_every(spec)).len()
    }

    /// The anchor's cell, and after how many trials it is run again, if between others at all.
    pub(crate) fn anchor_every(&self, spec: &Spec) -> Option<(&PlannedCell, Option<u32>)> {
        Some((self.anchor(spec)?, spec.anchor.as_ref()?.get_ref().every))
    }

    /// What a report calls a cell, apart from its population: its level of each factor that has
    /// several.
    pub fn label(&self, cell: &PlannedCell) -> String {
        let parts = cell.levels.iter().filter(|(name, _)| self.distinguishing.contains(name));
        let parts = parts.map(|(name, level)| match level.0.parse::<f64>() {
            Ok(_) => format!("{name} {level}"),
            Err(_) if matches!(level.0.as_str(), "true" | "false") => format!("{name} {level}"),
            Err(_) => level.to_string(),
        });
        let label = parts.collect::<Vec<_>>().join(", ");
        if label.is_empty() { "all".into() } else { label }
    }
}

/// What moves by itself: one factor, or several zipped ones, by their places in the spec.
fn groups(spec: &Spec) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let place = |name: &str| spec.factors.iter().position(|factor| factor.name.get_ref() == name);
    let zipped = |index: usize| {
        let name = spec.factors[index].name.get_ref();
        spec.zip.iter().find(|zip| zip.get_ref().contains(name))
    };
    for index in 0..spec.factors.len() {
        match zipped(index) {
            None => groups.push(vec![index]),
            Some(zip) => {
                let members: Vec<usize> = zip.get_ref().iter().filter_map(|name| place(name)).collect();
                if !groups.contains(&members) {
                    groups.push(members);
                }
            }
        }
    }
    groups
}

/// How many combinations of levels a plan is made of, those that exceptions leave out too.
pub(crate) fn combination_count(spec: &Spec) -> f64 {
    groups(spec).iter().map(|group| spec.factors[group[0]].levels.len() as f64).product()
}

/// Runs of the anchor are counted from here on, apart from repetitions.
const ANCHORS: u32 = 1 << 24;
/// Most runs of the anchor in one block.
pub(crate) const MOST_ANCHORS: u32 = 1 << 12;

/// The number of a run of the anchor, in the place of a repetition.
pub fn anchor_run(block: u32, number: u32) -> u32 {
    ANCHORS + block * MOST_ANCHORS + number
}

/// Whether a run is one of the anchor.
pub fn is_anchor_run(run: u32) -> bool {
    run >= ANCHORS
}

/// The block of a run of the anchor; none of a repetition.
pub fn anchor_block(run: u32) -> Option<u32> {
    run.checked_sub(ANCHORS).map(|anchor| anchor / MOST_ANCHORS)
}

/// What a run is called: its repetition from 0, or the block and the number of a run of the anchor,
/// as folders are named.
pub fn run_name(repetition: u32) -> String {
    match anchor_block(repetition) {
        None => repetition.to_string(),
        Some(block) => format!("anchor-{block}-{}", repetition - anchor_run(block, 0)),
    }
}

/// The cells of one block with the anchor between them, as its run number: at the beginning, after
/// so many others, and at the end.
pub fn with_anchors<'a>(
    cells: &[&'a PlannedCell],
    block: u32,
    anchor: Option<(&'a PlannedCell, Option<u32>)>,
) -> Vec<(&'a PlannedCell, u32)> {
    let Some((anchor, every)) = anchor.filter(|_| !cells.is_empty()) else {
        return cells.iter().map(|cell| (*cell, block)).collect();
    };
    let mut order = vec![(anchor, anchor_run(block, 0))];
    let mut runs = 1;
    for (place, cell) in cells.iter().enumerate() {
        order.push((cell, block));
        let done = place as u32 + 1;
        let last = done as usize == cells.len();
        if last || every.is_some_and(|every| done.is_multiple_of(every)) {
            order.push((anchor, anchor_run(block, runs)));
            runs += 1;
        }
    }
    order
}

impl PlannedCell {
    /// What it is called where the population is told like any other factor:
    /// `workload read, clients 4`.
    pub fn name(&self) -> String {
        let levels = self.levels.iter().map(|(name, level)| format!("{name} {level}"));
        let name = levels.collect::<Vec<_>>().join(", ");
        if name.is_empty() { "the only cell".into() } else { name }
    }

    /// Its levels as a manifest has them.
    pub fn named_levels(&self) -> Vec<(String, String)> {
        self.levels.iter().map(|(name, level)| (name.clone(), level.0.clone())).collect()
    }

    /// The level of a factor.
    pub fn level(&self, factor: &str) -> Option<&LevelName> {
        self.levels.iter().find(|(name, _)| name == factor).map(|(_, level)| level)
    }

    /// Whether it has all these levels.
    pub fn has(&self, levels: &BTreeMap<String, LevelName>) -> bool {
        levels.iter().all(|(name, level)| self.level(name) == Some(level))
    }

    /// How many of a station there are; where it does not say, `usual`.
    pub fn count(&self, station: &StationSpec, usual: u32) -> u32 {
        match &station.count {
            None => usual,
            Some(StationCount::Number(number)) => *number,
            // Levels of such a factor have been checked to be counts.
            Some(StationCount::Factor(name)) => {
                self.level(name).and_then(|level| level.0.parse().ok()).unwrap_or(usual)
            }
        }
    }

    /// How many clients each load generator that is none of ours has: its part of the level of the
    /// population's factor, where that is a number.
    pub fn each_has(&self, spec: &Spec) -> u32 {
        let population = self.level(&spec.population).and_then(|level| level.0.parse().ok());
        population.unwrap_or(1) / self.count(&spec.stations.clients, 1)
    }

    /// A station's words with its levels in place of `$factor`.
    pub fn render(&self, words: &[Spanned<String>]) -> Vec<String> {
        words.iter().flat_map(|word| self.word(word.get_ref())).collect()
    }

    /// A text with its levels in place of `$factor`.
    pub fn text(&self, text: &Option<Spanned<String>>) -> Option<String> {
        text.as_ref().map(|text| self.word(text.get_ref()).join(" "))
    }

    /// A word that is a factor becomes all the words of its level; inside of others they are joined
    /// by spaces.
    fn word(&self, word: &str) -> Vec<String> {
        let names = names_in(word);
        if let [name] = names[..]
            && (word == format!("${name}") || word == format!("${{{name}}}"))
        {
            return self.words[name].clone();
        }
        let mut text = word.to_owned();
        // Longer names first: `$clients_each` is not `$clients` and a rest.
        let mut names = names;
        names.sort_unstable_by_key(|name| std::cmp::Reverse(name.len()));
        for name in names {
            let words = self.words[name].join(" ");
            text = text.replace(&format!("${{{name}}}"), &words).replace(&format!("${name}"), &words);
        }
        vec![text]
    }
}

fn folder(levels: &[(String, LevelName)]) -> String {
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' })
            .collect()
    };
    let parts: Vec<_> =
        levels.iter().map(|(name, level)| format!("{}={}", plain(name), plain(&level.0))).collect();
    if parts.is_empty() { "all".into() } else { parts.join(",") }
}

/// About how long one trial takes: its phases, and what starting and ending it costs.
pub fn trial_time(spec: &Spec) -> Seconds {
    const AROUND: Seconds = 0.4;
    spec.phases.total() + AROUND
}

/// About how long all trials at least take.
pub fn least_time(spec: &Spec, plan: &Plan) -> Seconds {
    plan.in_block(spec) as f64 * f64::from(spec.repetitions.min) * trial_time(spec)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::Identity;

    fn spec(head: &str) -> Spec {
        let used: String = ["workload", "clients", "workers", "threads"]
            .iter()
            .filter(|name| head.contains(&format!("name = \"{name}\"")))
            .map(|name| format!("\"${name}\", "))
            .collect();
        let text = format!(
            "title = \"t\"\n{head}\n[stations.servers]\nprogram = \"cache\"\n[stations.clients]\nprogram = \"load\"\nflags = [{used}]\n"
        );
        Spec::parse(&text, "spec.toml").unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    const TWO: &str = "[[factor]]\nname = \"workload\"\nlevels = [{ name = \"read\", words = [\"--ratio\", \"0:1\"] }, \"write\"]\n\
                       [[factor]]\nname = \"clients\"\nlevels = [1, 2, 4]";

    #[test]
    fn a_factor_may_say_how_many_of_a_station_there_are() {
        let text = r#"
title = "t"
[[factor]]
name = "servers"
levels = [1, 3]
[stations.servers]
program = "cache"
count = "$servers"
[stations.clients]
program = "load"
"#;
        let spec = Spec::parse(text, "spec.toml").unwrap();
        let plan = Plan::of(&spec);
        let counts =
            |plan: &Plan, station| plan.cells.iter().map(|cell| cell.count(station, 7)).collect::<Vec<_>>();
        assert_eq!(counts(&plan, &spec.stations.servers), [1, 3]);
        assert_eq!(counts(&plan, &spec.stations.clients), [7, 7]);
        assert_ne!(Identity::of(&spec, &plan.cells[0]), Identity::of(&spec, &plan.cells[1]));
        assert_eq!(plan.label(&plan.cells[1]), "servers 3");
    }

    #[test]
    fn the_anchor_stands_at_both_ends_of_a_block_and_between() {
        let spec = spec(&format!(
            "anchor = {{ levels = {{ workload = \"read\", clients = 4 }}, every = 4 }}\n{TWO}"
        ));
        let plan = Plan::of(&spec);
        let anchor = plan.anchor(&spec).unwrap();
        assert_eq!(anchor.folder, "workload=read,clients=4");
        let order = with_anchors(&plan.block(1), 1, Some((anchor, Some(4))));
        let names: Vec<String> = order.iter().map(|(_, run)| run_name(*run)).collect();
        assert_eq!(names, ["anchor-1-0", "1", "1", "1", "1", "anchor-1-1", "1", "1", "anchor-1-2"]);
        assert!(order.iter().all(|(cell, run)| *run == 1 || cell.number == anchor.number));
        assert!(with_anchors(&[], 1, Some((anchor, None))).is_empty(), "nothing to stand by");
        assert!((least_time(&spec, &plan) - 3.0 * 9.0 * (12.0 + 0.4)).abs() < 1e-9);
    }

    #[test]
    fn phases_that_were_not_asked_for_leave_a_trial_what_it_was() {
        let spec = |phases: &str| spec(&format!("phases = {{ measure = 1{phases} }}\n{TWO}"));
        let identity = |spec: &Spec| Identity::of(spec, &Plan::of(spec).cells[0]);
        assert_eq!(identity(&spec("")), identity(&spec(", cool_down = 0")));
        assert_ne!(identity(&spec("")), identity(&spec(", cool_down = 1")));
    }

    #[test]
    fn cells_are_all_combinations() {
        let plan = Plan::of(&spec(TWO));
        let names: Vec<&str> = plan.cells.iter().map(|cell| cell.folder.as_str()).collect();
        assert_eq!(
            (names.len(), names[0], names[5]),
            (6, "workload=read,clients=1", "workload=write,clients=4")
        );
        assert_eq!(plan.label(&plan.cells[0]), "read");
    }

    #[test]
    fn levels_that_differ_in_signs_only_have_folders_of_their_own() {
        let plan = Plan::of(&spec("[[factor]]\nname = \"workload\"\nlevels = [\"a b\", \"a/b\"]"));
        let names: Vec<&str> = plan.cells.iter().map(|cell| cell.folder.as_str()).collect();
        assert_eq!(names, ["workload=a-b", "workload=a-b~1"]);
    }

    #[test]
    fn zipped_factors_move_together_and_exceptions_are_left_out() {
        let head = format!(
            "zip = [[\"workers\", \"threads\"]]\nexcept = [{{ workload = \"write\", clients = 4 }}]\n{TWO}\n\
             [[factor]]\nname = \"workers\"\nlevels = [8, 16]\n[[factor]]\nname = \"threads\"\nlevels = [1, 2]"
        );
        let plan = Plan::of(&spec(&head));
        assert_eq!(plan.cells.len(), (6 - 1) * 2);
        for cell in &plan.cells {
            let pair = (cell.level("workers").unwrap().0.as_str(), cell.level("threads").unwrap().0.as_str());
            assert!(pair == ("8", "1") || pair == ("16", "2"), "{pair:?}");
        }
        assert_eq!(plan.label(&plan.cells[0]), "read, workers 8, threads 1");
    }

    #[test]
    fn a_factor_stands_for_its_words() {
        let plan = Plan::of(&spec(TWO));
        let word = |text: &str| plan.cells[0].word(text);
        assert_eq!(word("$workload"), ["--ratio", "0:1"]);
        assert_eq!(word("x=${clients},$clients$"), ["x=1,1$"]);
        assert_eq!(word("plain"), ["plain"]);
    }

    #[test]
    fn the_order_of_a_seed_is_the_same_for_ever() {
        let plan = Plan::of(&spec(TWO));
        let order = |repetition| plan.block(repetition).iter().map(|cell| cell.number).collect::<Vec<_>>();
        assert_eq!([order(0), order(1)], [ORDER_0, ORDER_1]);
    }

    const ORDER_0: [usize; 6] = [5, 2, 1, 4, 3, 0];
    const ORDER_1: [usize; 6] = [3, 1, 5, 2, 0, 4];

    #[test]
    fn a_trial_has_another_identity_when_anything_about_it_changes() {
        let one = spec(TWO);
        let plan = Plan::of(&one);
        let first = Identity::of(&one, &plan.cells[0]);
        assert_eq!(first, Identity::of(&one, &plan.cells[0]));
        let mut others = vec![Identity::of(&one, &plan.cells[1])];
        for change in [
            "seed = 2",
            "phases = { measure = \"3s\" }",
            "gates = [\"errors == 0\"]",
            "populate = { flags = [\"--verify\"] }",
        ] {
            let changed = spec(&format!("{change}\n{TWO}"));
            others.push(Identity::of(&changed, &Plan::of(&changed).cells[0]));
        }
        others.push(first);
        for (place, one) in others.iter().enumerate() {
            assert!(!others[..place].contains(one), "{one:?}");
        }
        let more = spec(&TWO.replace("[1, 2, 4]", "[1, 2, 4, 8]"));
        let same = Identity::of(&more, &Plan::of(&more).cells[0]);
        assert!(others.contains(&same), "a further level leaves the others as they were");
    }

    proptest! {
        /// Every block holds every cell once, whatever the seed.
        #[test]
        fn a_block_is_a_permutation(seed in any::<u64>(), repetition in any::<u32>(), a in 1_usize..6, b in 1_usize..6) {
            let levels = |count: usize| (0..count).map(|l| l.to_string()).collect::<Vec<_>>().join(", ");
            let mut spec = spec(&format!("[[factor]]\nname = \"clients\"\nlevels = [{}]\n[[factor]]\nname = \"workers\"\nlevels = [{}]", levels(a), levels(b)));
            spec.seed = seed;
            let plan = Plan::of(&spec);
            let mut seen: Vec<usize> = plan.block(repetition).iter().map(|cell| cell.number).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..a * b).collect::<Vec<_>>());
        }
    }
}
