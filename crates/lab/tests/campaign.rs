//! A campaign that is cut off anywhere and taken up again ends with the same trials as one that was
//! left alone.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use krarup_lab::campaign::{
    self, CampaignEnd, CampaignError, CampaignEvent, CampaignProgress, CampaignStore, DisturbedTrials,
    DueTrial, TrialOutcome, TrialRunner,
};
use krarup_lab::identities::Identities;
use krarup_lab::identity::{Identity, ManifestIdentity};
use krarup_lab::plan::{Plan, run_name};
use krarup_lab::spec::Spec;
use krarup_lab::stop::Stop;
use krarup_lab::store::{ResultsDirectory, TrialSystem, read};

fn spec(head: &str) -> Spec {
    Spec::parse(&text(head), "spec.toml").unwrap()
}

fn text(head: &str) -> String {
    format!(
        r#"
title = "made up"
{head}
[[factor]]
name = "workload"
levels = ["read", "write"]
[[factor]]
name = "clients"
levels = [1, 2, 4]
[stations.servers]
program = "cache"
[stations.clients]
program = "load"
flags = ["$workload", "$clients"]
"#
    )
}

fn campaign_store<'a>(store: &'a ResultsDirectory, identities: &'a Identities) -> CampaignStore<'a> {
    CampaignStore { store, identities, disturbed: DisturbedTrials::Repeat, seal: None, system: None }
}

/// A folder of its own, empty.
fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// A testbed whose trials cost nothing: what they find depends on cell and repetition alone.
struct Made<'a> {
    stop: &'a Stop,
    /// After so many trials the user presses Ctrl-C.
    until: usize,
    run: usize,
    fails: fn(&DueTrial<'_>) -> bool,
    certain: fn(&DueTrial<'_>) -> bool,
    disturbed: fn(&DueTrial<'_>) -> bool,
    rate: f64,
    spread: f64,
}

impl<'a> Made<'a> {
    fn new(stop: &'a Stop) -> Self {
        Self {
            stop,
            until: usize::MAX,
            run: 0,
            fails: |_| false,
            certain: |_| false,
            disturbed: |_| false,
            rate: 100.0,
            spread: 0.0,
        }
    }
}

impl TrialRunner for Made<'_> {
    fn run(&mut self, due: &DueTrial<'_>, folder: &Path) -> TrialOutcome {
        fs::write(folder.join("said"), format!("{:?} {}", due.cell.levels, due.repetition)).unwrap();
        if self.run == self.until {
            self.stop.ask();
            return TrialOutcome { failed: Some("interrupted".into()), ..TrialOutcome::default() };
        }
        self.run += 1;
        let throughput = self.rate + self.spread * f64::from(due.repetition);
        let failed = (self.fails)(due).then(|| format!("no luck in attempt {}", due.attempt));
        let disturbed = (self.disturbed)(due).then(|| "a compiler ran".to_owned());
        let certain = (self.certain)(due);
        TrialOutcome {
            commands: vec!["nothing".into()],
            throughput,
            response: 0.01,
            failed,
            certain,
            disturbed,
        }
    }
}

/// Which trials belong to a spec, written down.
fn identities(store: &ResultsDirectory, spec: &Spec, plan: &Plan) -> Identities {
    let identities = Identities::meant_by(store, spec, plan);
    identities.write(store).unwrap();
    identities
}

fn run(spec: &Spec, folder: &Path, testbed: &mut Made<'_>) -> Result<CampaignEnd, CampaignError> {
    let stop = testbed.stop.clone();
    let store = ResultsDirectory::open(folder).unwrap();
    let plan = Plan::of(spec);
    let identities = identities(&store, spec, &plan);
    campaign::run(spec, &plan, campaign_store(&store, &identities), testbed, &stop, &|| 0.0, &mut |_| {})
}

/// Every file of the results, by its path.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(folder).unwrap().to_owned();
                found.insert(name, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    found
}

#[test]
fn wherever_it_is_stopped_it_ends_with_the_same_trials() {
    let spec = spec("repetitions = { min = 2 }");
    let straight = fresh("campaign-straight");
    let stop = Stop::default();
    let ended = run(&spec, &straight, &mut Made::new(&stop)).unwrap();
    assert_eq!(ended, CampaignEnd { complete: 12, skipped: 0, given_up: Vec::new() });
    let expected = files(&straight.join("trials"));
    assert_eq!(expected.len(), 2 * 12);
    for cut in 0..12 {
        let folder = fresh(&format!("campaign-cut-{cut}"));
        let stop = Stop::default();
        let cut_off = run(&spec, &folder, &mut Made { until: cut, ..Made::new(&stop) });
        assert!(matches!(cut_off, Err(CampaignError::Stopped)));
        // What a killed runner leaves: a trial without its name, and half a file.
        fs::create_dir_all(folder.join("unfinished")).unwrap();
        fs::write(folder.join("unfinished/load.json"), "{ half").unwrap();
        let stop = Stop::default();
        let mut testbed = Made::new(&stop);
        let ended = run(&spec, &folder, &mut testbed).unwrap();
        assert_eq!((ended.complete, ended.skipped, testbed.run), (12, cut, 12 - cut));
        assert_eq!(files(&folder.join("trials")), expected, "cut after {cut}");
        assert!(!folder.join("unfinished").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_trial_on_a_disturbed_machine_is_repeated_once_and_then_kept_with_its_mark() {
    let spec = spec("repetitions = { min = 1 }\nretries = 3");
    let folder = fresh("campaign-disturbed");
    let stop = Stop::default();
    // The first cell is disturbed at first, the second always.
    let disturbed = |due: &DueTrial<'_>| due.cell.number == 1 || (due.cell.number == 0 && due.attempt == 0);
    let mut testbed = Made { disturbed, ..Made::new(&stop) };
    let ended = run(&spec, &folder, &mut testbed).unwrap();
    let cells = Plan::of(&spec).cells;
    assert_eq!((ended.complete, testbed.run), (cells.len(), cells.len() + 2));
    let store = ResultsDirectory::at(&folder);
    let identities = Identities::of_directory(&store, &Plan::of(&spec)).unwrap();
    let manifest = |cell: usize| {
        let cell = &cells[cell];
        store.complete(cell, 0, &identities).unwrap().1
    };
    let marks: Vec<_> = (0..3).map(|cell| (manifest(cell).attempt, manifest(cell).disturbed)).collect();
    assert_eq!(marks, [(1, None), (1, Some("a compiler ran".to_owned())), (0, None)]);
    let reasons: Vec<_> =
        store.failures().into_iter().map(|(_, manifest)| manifest.failed.unwrap()).collect();
    assert_eq!(reasons, ["a compiler ran"; 2]);
}

#[test]
fn a_trial_that_fails_and_is_disturbed_is_repeated_once_and_keeps_its_retries() {
    let spec = spec("repetitions = { min = 1 }\nretries = 1");
    let plan = Plan::of(&spec);
    let first: fn(&DueTrial<'_>) -> bool = |due| due.attempt == 0;
    let second: fn(&DueTrial<'_>) -> bool = |due| due.attempt == 1;
    for (name, fails, disturbed) in [("fails", first, second), ("disturbed", second, first)] {
        let folder = fresh(&format!("campaign-first-{name}"));
        let stop = Stop::default();
        let ended = run(&spec, &folder, &mut Made { fails, disturbed, ..Made::new(&stop) }).unwrap();
        assert_eq!(ended, CampaignEnd { complete: 6, skipped: 0, given_up: Vec::new() }, "{name} first");
        let store = ResultsDirectory::at(&folder);
        let identities = Identities::of_directory(&store, &plan).unwrap();
        for cell in &plan.cells {
            let (_, manifest) = store.complete(cell, 0, &identities).unwrap();
            assert_eq!((manifest.attempt, manifest.disturbed), (2, None), "{name} first");
        }
    }
}

#[test]
fn an_anchor_is_run_beside_every_repetition_and_counts_in_none() {
    let spec = spec(
        "repetitions = { min = 2 }\nanchor = { levels = { workload = \"read\", clients = 2 }, every = 3 }",
    );
    let folder = fresh("campaign-anchor");
    let stop = Stop::default();
    let ended = run(&spec, &folder, &mut Made { until: 11, ..Made::new(&stop) });
    assert!(matches!(ended, Err(CampaignError::Stopped)));
    let stop = Stop::default();
    let ended = run(&spec, &folder, &mut Made::new(&stop)).unwrap();
    assert_eq!((ended.complete, ended.skipped), (2 * (6 + 3), 11));
    let of_anchor: Vec<String> = fs::read_dir(folder.join("trials/workload=read,clients=2"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(of_anchor.len(), 2 + 6, "{of_anchor:?}");
    assert!(of_anchor.contains(&"anchor-1-2".to_owned()));
}

/// The anchor of another day says nothing of the machine on which trials are added.
#[test]
fn the_anchor_is_run_beside_trials_that_are_added_to_a_block_that_was_over() {
    let head = "repetitions = { min = 2 }\nanchor = { levels = { workload = \"read\", clients = 2 } }";
    let folder = fresh("campaign-anchor-later");
    let stop = Stop::default();
    let ended = run(&spec(head), &folder, &mut Made::new(&stop)).unwrap();
    assert_eq!((ended.complete, ended.skipped), (2 * (6 + 2), 0));
    let more = Spec::parse(&text(head).replace("[1, 2, 4]", "[1, 2, 4, 8]"), "spec.toml").unwrap();
    let mut slower = Made { rate: 70.0, ..Made::new(&stop) };
    let ended = run(&more, &folder, &mut slower).unwrap();
    assert_eq!((ended.complete, ended.skipped, slower.run), (2 * (8 + 4), 2 * (6 + 2), 2 * (2 + 2)));
    let (store, plan) = (ResultsDirectory::at(&folder), Plan::of(&more));
    let identities = Identities::of_directory(&store, &plan).unwrap();
    let anchor = plan.anchor(&more).unwrap();
    let runs = store.anchor_runs(anchor, &identities);
    let runs: Vec<_> = runs.iter().map(|run| (run_name(run.repetition), run.throughput)).collect();
    let of_block = |block: u32| {
        let rates = [100.0, 100.0, 70.0, 70.0].into_iter().enumerate();
        rates.map(move |(number, rate)| (format!("anchor-{block}-{number}"), rate))
    };
    assert_eq!(runs, of_block(0).chain(of_block(1)).collect::<Vec<_>>());
    let mut nothing = Made::new(&stop);
    run(&more, &folder, &mut nothing).unwrap();
    assert_eq!(nothing.run, 0, "all is there");
}

#[test]
fn trials_keep_what_they_were_measured_on() {
    let spec = spec("repetitions = { min = 1 }");
    let plan = Plan::of(&spec);
    let store = ResultsDirectory::open(&fresh("campaign-system")).unwrap();
    let identities = identities(&store, &spec, &plan);
    let names = [("system".to_owned(), "Linux 1.0".to_owned())].into();
    let system = TrialSystem { names, shares: [("servers".to_owned(), 0.05)].into() };
    let results = CampaignStore { system: Some(&system), ..campaign_store(&store, &identities) };
    let stop = Stop::default();
    campaign::run(&spec, &plan, results, &mut Made::new(&stop), &stop, &|| 0.0, &mut |_| {}).unwrap();
    let there = identities.beside(&store, &plan, 1);
    assert_eq!((there.kept, there.systems), (6, vec![system]), "each system once");
}

#[test]
fn two_runners_do_not_meet_in_one_directory() {
    let folder = fresh("campaign-twice");
    let first = ResultsDirectory::open(&folder).unwrap();
    let error = ResultsDirectory::open(&folder).unwrap_err().to_string();
    assert!(error.contains("campaign-twice") && error.contains("another krarup"), "{error}");
    drop(first);
    assert!(ResultsDirectory::open(&folder).is_ok());
}

#[test]
fn what_fails_is_tried_again_and_kept_with_its_reason() {
    let spec = spec("repetitions = { min = 1 }\nretries = 2");
    let folder = fresh("campaign-failing");
    let stop = Stop::default();
    let fails = |due: &DueTrial<'_>| match due.cell.level("clients").unwrap().0.as_str() {
        "1" => due.attempt == 0,
        "2" => due.cell.level("workload").unwrap().0 == "write",
        _ => false,
    };
    let ended = run(&spec, &folder, &mut Made { fails, ..Made::new(&stop) }).unwrap();
    assert_eq!(ended.complete, 5);
    let [(cell, repetition, why)] = &ended.given_up[..] else { panic!("{ended:?}") };
    assert_eq!(
        (cell.as_str(), *repetition, why.as_str()),
        ("workload write, clients 2", 0, "no luck in attempt 2")
    );
    let failures = ResultsDirectory::at(&folder).failures();
    assert_eq!(failures.len(), 2 + 3);
    assert!(failures.iter().all(|(place, manifest)| {
        place.join("said").is_file()
            && manifest.failed.as_deref() == Some(&format!("no luck in attempt {}", manifest.attempt))
    }));
    let again = run(&spec, &folder, &mut Made::new(&stop)).unwrap();
    assert_eq!((again.complete, again.skipped), (6, 5), "another day it works");
}

#[test]
fn what_is_certain_to_fail_is_tried_once_and_its_cell_never_again() {
    let spec = spec("repetitions = { min = 3 }\nretries = 2");
    let stop = Stop::default();
    let fails = |due: &DueTrial<'_>| due.cell.number == 0;
    let mut testbed = Made { fails, certain: fails, ..Made::new(&stop) };
    let ended = run(&spec, &fresh("campaign-certain"), &mut testbed).unwrap();
    assert_eq!((ended.complete, testbed.run), (5 * 3, 5 * 3 + 1));
    assert_eq!(ended.given_up.len(), 3);
    assert!(ended.given_up.iter().all(|(.., why)| why == "no luck in attempt 0"), "{ended:?}");
}

#[test]
fn the_anchor_is_run_beside_no_trial_that_is_certain_to_fail() {
    let anchor = "anchor = { levels = { workload = \"read\", clients = 2 } }";
    let spec = spec(&format!("repetitions = {{ min = 3 }}\n{anchor}"));
    let folder = fresh("campaign-certain-anchor");
    let stop = Stop::default();
    let fails = |due: &DueTrial<'_>| due.cell.number == 0;
    for trials in [3 * (5 + 2) + 1, 1 + 2] {
        let mut testbed = Made { fails, certain: fails, ..Made::new(&stop) };
        let ended = run(&spec, &folder, &mut testbed).unwrap();
        assert_eq!((testbed.run, ended.given_up.len()), (trials, 3), "tried in the first block alone");
    }
    // It alone is left of the later blocks: its runs never agree.
    let until = "repetitions = { min = 2, max = 5, until = \"cov(throughput) <= 5 %\" }";
    let spec = Spec::parse(&text(&format!("{until}\n{anchor}")), "spec.toml").unwrap();
    let mut testbed = Made { fails, certain: fails, ..Made::new(&stop) };
    let ended = run(&spec, &fresh("campaign-certain-until"), &mut testbed).unwrap();
    assert_eq!((testbed.run, ended.given_up.len()), (2 * (5 + 2) + 1, 5));
}

#[test]
fn cells_whose_runs_do_not_agree_are_run_more_often() {
    let spec = spec("repetitions = { min = 2, max = 5, until = \"cov(throughput) <= 5 %\" }");
    let stop = Stop::default();
    let ended = run(&spec, &fresh("campaign-steady"), &mut Made::new(&stop)).unwrap();
    assert_eq!(ended.complete, 6 * 2);
    let wide = Made { spread: 40.0, ..Made::new(&stop) };
    let ended = run(&spec, &fresh("campaign-wide"), &mut { wide }).unwrap();
    assert_eq!(ended.complete, 6 * 5, "never agreed, and not for ever");
}

#[test]
fn a_changed_spec_runs_what_it_changed() {
    let folder = fresh("campaign-changed");
    let stop = Stop::default();
    let first = spec("repetitions = { min = 1 }");
    run(&first, &folder, &mut Made::new(&stop)).unwrap();
    let more =
        Spec { repetitions: krarup_lab::spec::Repetitions { min: 2, max: None, until: None }, ..first };
    let ended = run(&more, &folder, &mut Made::new(&stop)).unwrap();
    assert_eq!((ended.complete, ended.skipped), (12, 6));
    let mut testbed = Made::new(&stop);
    let other = Spec { seed: 2, ..more };
    let ended = run(&other, &folder, &mut testbed).unwrap();
    assert_eq!((ended.skipped, testbed.run), (0, 12), "another seed, other trials");
    let manifest = read(&folder.join("trials/workload=read,clients=1/0")).unwrap();
    let plan = Plan::of(&other);
    assert_eq!(manifest.identity, ManifestIdentity::Listed(Identity::of(&other, &plan.cells[0])));
}

/// Makes the trials of a directory look like those of a build that wrote a number, and no file that
/// says which belong to it.
fn as_of_an_earlier_build(folder: &Path, spec: &str) {
    fs::remove_file(folder.join("identities.json")).unwrap();
    fs::write(folder.join("spec.toml"), spec).unwrap();
    for (name, text) in files(&folder.join("trials")) {
        if name.file_name().is_some_and(|name| name == "trial.json") {
            let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
            manifest["identity"] = "00112233445566778899aabbccddeeff".into();
            fs::write(folder.join("trials").join(name), manifest.to_string()).unwrap();
        }
    }
}

/// The spec in the directory says what trials of an earlier build were: what it says otherwise is
/// run anew, the delay, too, which their number did not know.
#[test]
fn trials_of_an_earlier_build_count_where_their_directory_says_the_same() {
    let folder = fresh("campaign-earlier");
    let stop = Stop::default();
    let slow = |delay: &str| {
        text("repetitions = { min = 1 }\ntestbed = \"netns\"")
            .replace("program = \"cache\"", &format!("program = \"cache\"{delay}"))
    };
    let first = Spec::parse(&slow("\ndelay = \"1ms\""), "spec.toml").unwrap();
    run(&first, &folder, &mut Made::new(&stop)).unwrap();
    as_of_an_earlier_build(&folder, &slow("\ndelay = \"1ms\""));

    let store = ResultsDirectory::at(&folder);
    let plan = Plan::of(&first);
    let read = |identities: &Identities| {
        plan.cells.iter().filter(|cell| store.complete(cell, 0, identities).is_some()).count()
    };
    assert_eq!(
        read(&Identities::of_directory(&store, &plan).unwrap()),
        6,
        "an old directory is read as it is"
    );

    let ended = run(&first, &folder, &mut Made::new(&stop)).unwrap();
    assert_eq!((ended.complete, ended.skipped), (6, 6), "the same spec: nothing to do");
    assert_eq!(read(&Identities::of_directory(&store, &plan).unwrap()), 6);

    let other = Spec::parse(&slow("\ndelay = \"2ms\""), "spec.toml").unwrap();
    let stopped = run(&other, &folder, &mut Made { until: 2, ..Made::new(&stop) });
    assert!(matches!(stopped, Err(CampaignError::Stopped)));
    fs::write(folder.join("spec.toml"), slow("\ndelay = \"2ms\"")).unwrap();
    assert_eq!(
        read(&Identities::of_directory(&store, &plan).unwrap()),
        2,
        "those of the other delay do not count"
    );
    let stop = Stop::default();
    let ended = run(&other, &folder, &mut Made::new(&stop)).unwrap();
    assert_eq!((ended.complete, ended.skipped), (6, 2), "nor do they when it is taken up again");
}

#[test]
fn a_watcher_is_told_what_happens() {
    let spec = spec("repetitions = { min = 1 }");
    let store = ResultsDirectory::open(&fresh("campaign-told")).unwrap();
    let stop = Stop::default();
    let mut told = Vec::new();
    let mut tell = |event: &CampaignEvent<'_>| match event {
        CampaignEvent::Begins(due, progress) => told.push((due.cell.number, progress.done, progress.all)),
        CampaignEvent::Complete(..) => {}
        other => panic!("{other:?}"),
    };
    let plan = Plan::of(&spec);
    let identities = identities(&store, &spec, &plan);
    campaign::run(
        &spec,
        &plan,
        campaign_store(&store, &identities),
        &mut Made::new(&stop),
        &stop,
        &|| 0.0,
        &mut tell,
    )
    .unwrap();
    let order: Vec<usize> = plan.block(0).iter().map(|cell| cell.number).collect();
    assert_eq!(told.iter().map(|one| one.0).collect::<Vec<_>>(), order);
    assert_eq!(told.last().map(|one| (one.1, one.2)), Some((5, 6)));
}

/// A run that is told to go on with what a disturbed machine gives does not run it twice.
#[test]
fn trials_on_a_disturbed_machine_are_kept_at_once_where_that_is_asked_for() {
    let spec = spec("retries = 1");
    let plan = Plan::of(&spec);
    for (disturbed, attempts, repeated) in [(DisturbedTrials::Repeat, 1, 6), (DisturbedTrials::Keep, 0, 0)] {
        let folder = fresh(&format!("campaign-disturbed-{disturbed:?}"));
        let store = ResultsDirectory::open(&folder).unwrap();
        let identities = identities(&store, &spec, &plan);
        let stop = Stop::default();
        let mut testbed = Made { disturbed: |_| true, ..Made::new(&stop) };
        let mut seen = 0;
        let mut tell =
            |event: &CampaignEvent<'_>| seen += usize::from(matches!(event, CampaignEvent::Disturbed(..)));
        let results = CampaignStore { disturbed, ..campaign_store(&store, &identities) };
        campaign::run(&spec, &plan, results, &mut testbed, &stop, &|| 0.0, &mut tell).unwrap();
        assert_eq!(seen, repeated * spec.repetitions.min as usize);
        for cell in &plan.cells {
            let (_, manifest) = store.complete(cell, 0, &identities).unwrap();
            assert_eq!((manifest.attempt, manifest.disturbed.is_some()), (attempts, true));
        }
    }
}

#[test]
fn the_estimate_of_the_end_counts_retries_and_leaves_out_what_was_given_up() {
    let progress = |complete, given_up| CampaignProgress { done: 2 + complete, all: 12, complete, given_up };
    assert_eq!(progress(0, 0).estimate(30.0, 4.0), 40.0, "by the plan, before the first is complete");
    assert_eq!(progress(4, 0).estimate(60.0, 4.0), 6.0 * 15.0, "15 s each, retries included");
    assert_eq!(progress(4, 2).estimate(60.0, 4.0), 4.0 * 15.0);
}

#[test]
fn a_directory_of_another_plan_is_told_apart_before_anything_is_changed() {
    let folder = fresh("campaign-beside");
    let first = spec("seed = 1");
    run(&first, &folder, &mut Made::new(&Stop::default())).unwrap();
    let written = files(&folder);
    let runs = |spec: &Spec| Plan::of(spec).cells.len() * spec.repetitions.min as usize;
    let store = ResultsDirectory::open(&folder).unwrap();
    let beside = |spec: &Spec, most| {
        let plan = Plan::of(spec);
        Identities::meant_by(&store, spec, &plan).beside(&store, &plan, most)
    };
    let same = beside(&first, first.repetitions.most());
    assert_eq!((same.kept, same.replaced, same.aside, same.why), (runs(&first), 0, 0, None));
    let other = beside(&spec("seed = 2"), first.repetitions.most());
    assert_eq!((other.kept, other.replaced, other.aside), (0, runs(&first), 0));
    assert!(other.why.is_some_and(|why| why.contains("seed")));
    let fewer = Spec::parse(&text("seed = 1").replace("[1, 2, 4]", "[1, 2]"), "spec.toml").unwrap();
    let fewer = beside(&fewer, first.repetitions.most());
    assert_eq!((fewer.kept, fewer.replaced, fewer.aside), (runs(&first) * 2 / 3, 0, runs(&first) / 3));
    assert_eq!(beside(&first, 0).aside, runs(&first), "repetitions beyond the plan's are in no figure");
    assert_eq!(files(&folder), written);
}
