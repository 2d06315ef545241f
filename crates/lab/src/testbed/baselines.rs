//! The share of a processor with which a single station gives what was published of it, by short
//! runs before the first trial.

use std::io;
use std::path::{Path, PathBuf};

use krarup_record::scaled::{ReachedBaseline, ScaledTestbed};
use serde::{Deserialize, Serialize};

use super::builds;
use super::error::StationError;
use super::local::Local;
use super::stations::{Caps, Starter};
use crate::campaign::{DueTrial, TrialOutcome, TrialRunner};
use crate::identity::Identity;
use crate::plan::{Plan, PlannedCell};
use crate::scale::{FOR_STATIONS, ShareSearch};
use crate::spec::{Baseline, Spec};

/// The file of a directory of results that keeps what was scaled.
pub const FILE: &str = "scale.json";

/// What was scaled in a directory of results, and what the searches for its shares were about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptScale {
    /// What was scaled.
    pub testbed: ScaledTestbed,
    /// The machine on which the shares were found.
    pub machine: String,
    /// What each search was about, in the order of the baselines.
    pub searches: Vec<Identity>,
    /// The builds that each search ran; none where an earlier version wrote down none.
    #[serde(default)]
    pub builds: Vec<Vec<(String, String)>>,
}

impl KeptScale {
    /// What a search for the same by the same builds on the same machine has found.
    pub fn found(
        &self,
        machine: &str,
        search: &Identity,
        builds: &[(String, String)],
    ) -> Option<&ReachedBaseline> {
        let place = self.searches.iter().position(|known| known == search)?;
        let is_same = self.machine == machine && self.builds.get(place).is_some_and(|ran| ran == builds);
        self.testbed.baselines.get(place).filter(|_| is_same)
    }
}

/// Attempts of one run: others at work, or a failure, may pass.
const ATTEMPTS: u32 = 3;

/// What the search for one share is about: everything that could change what it finds. What was
/// found of the same is not looked for again.
pub fn identity(spec: &Spec, plan: &Plan, baseline: &Baseline) -> Option<Identity> {
    Some(Identity::of(&spec.alone(baseline), cell(plan, baseline)?))
}

/// Those of the plan's builds that the search for one share runs: what other cells run changes
/// nothing that it finds.
pub fn builds(
    (spec, plan): (&Spec, &Plan),
    baseline: &Baseline,
    krarup: &Path,
    all: &[(String, String)],
) -> Vec<(String, String)> {
    let mut its = plan.clone();
    its.cells = cell(plan, baseline).cloned().into_iter().collect();
    let programs = builds::programs(&spec.alone(baseline), &its, krarup);
    all.iter().filter(|(program, _)| programs.contains_key(program)).cloned().collect()
}

fn cell<'a>(plan: &'a Plan, baseline: &Baseline) -> Option<&'a PlannedCell> {
    plan.cells.iter().find(|cell| cell.has(&baseline.levels))
}

/// Runs a single station with one share after another until runs agree on the one with which it
/// gives what was published. `folder` makes an empty folder for a run, of which nothing is kept;
/// `tell` is told each.
///
/// # Errors
/// Where the cell is left out, a run fails again and again, or a folder cannot be made.
pub fn reach(
    (spec, plan): (&Spec, &Plan),
    baseline: &Baseline,
    starter: &Starter,
    folder: &mut dyn FnMut() -> io::Result<PathBuf>,
    tell: &mut dyn FnMut(&str),
) -> Result<ReachedBaseline, StationError> {
    let role = baseline.station;
    let wrong = |why: String| StationError::new(format!("baseline of the {}", role.name()), why);
    let alone = spec.alone(baseline);
    let Some(cell) = cell(plan, baseline) else {
        return Err(wrong("its cell is one that `except` leaves out".into()));
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let first = Caps::of(&alone).for_letter(role.letter()).unwrap_or(1.0);
    let mut search = ShareSearch::new(baseline.throughput, first, cores as f64 * FOR_STATIONS);
    let mut runs = Vec::new();
    while let Some(share) = search.next() {
        let caps = Caps::default().with(role, share);
        let starter = Starter { caps, calibrations: Vec::new(), ..starter.clone() };
        let outcome = one_run(&alone, cell, &starter, folder).map_err(&wrong)?;
        tell(&format!(
            "{} alone with {share:.4} of a processor: {:.0}/s scaled back, published {:.0}/s",
            role.name(),
            outcome.throughput,
            baseline.throughput
        ));
        search.tell(share, outcome.throughput);
        runs.push((share, outcome.disturbed));
    }
    let found = search.found().expect("a search begins with a run");
    // The others only led to it.
    let disturbed = runs.into_iter().filter(|run| search.rests_on(run.0)).find_map(|run| run.1);
    Ok(ReachedBaseline {
        station: role.name().to_owned(),
        levels: cell.named_levels(),
        published: baseline.throughput,
        reached: found.gives,
        share: found.share,
        within: found.within,
        runs: search.into_runs(),
        disturbed,
    })
}

/// One run that did not fail; one that was disturbed is run once more.
fn one_run(
    alone: &Spec,
    cell: &PlannedCell,
    starter: &Starter,
    folder: &mut dyn FnMut() -> io::Result<PathBuf>,
) -> Result<TrialOutcome, String> {
    let mut last = String::new();
    for attempt in 0..ATTEMPTS {
        if starter.stop.asked() {
            return Err("stopped on request".into());
        }
        let mut testbed = Local::new(alone, starter.clone());
        let folder = folder().map_err(|error| error.to_string())?;
        let outcome = testbed.run(&DueTrial { cell, repetition: 0, attempt }, &folder);
        testbed.end().map_err(|error| error.to_string())?;
        match outcome.failed.clone() {
            None if attempt > 0 || outcome.disturbed.is_none() => return Ok(outcome),
            None => {}
            Some(why) if outcome.certain => return Err(why),
            Some(why) => last = why,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"
title = "t"
[scale]
by = 20
[[scale.baseline]]
station = "servers"
levels = { clients = 2 }
throughput = 9000
[[scale.baseline]]
station = "clients"
levels = { clients = 2 }
throughput = 700
[[factor]]
name = "clients"
levels = [1, 2]
[stations.servers]
program = "cache"
cpu = 1
[stations.clients]
program = "load"
cpu = 2
flags = ["--connections", "$clients"]
"#;

    #[test]
    fn what_was_published_of_one_station_changes_no_search_for_another() {
        let searches = |text: &str| {
            let spec = Spec::parse(text, "spec.toml").unwrap();
            let plan = Plan::of(&spec);
            let baselines = &spec.scale.as_ref().unwrap().baselines;
            let search = |place: usize| identity(&spec, &plan, baselines[place].get_ref()).unwrap();
            [search(0), search(1)]
        };
        let (before, after) = (searches(SPEC), searches(&SPEC.replace("700", "800")));
        assert_eq!(before[0], after[0]);
        assert_ne!(before[1], after[1]);
    }

    #[test]
    fn a_search_is_known_by_the_builds_that_it_ran_and_not_by_those_of_other_cells() {
        let searches = |proxies: &str| {
            let factor = format!("[[factor]]\nname = \"proxy\"\nlevels = {proxies}\n[[factor]]");
            let text = SPEC
                .replace("levels = { clients = 2 }", "levels = { clients = 2, proxy = \"/bin/sh\" }")
                .replace("station = \"clients\"", "station = \"middleware\"")
                .replace("[[factor]]", &factor)
                .replace(
                    "[stations.clients]",
                    "[stations.middleware]\ncommand = [\"$proxy\", \"{port}\"]\ncpu = 1\n[stations.clients]",
                );
            let spec = Spec::parse(&text, "spec.toml").unwrap();
            let (plan, krarup) = (Plan::of(&spec), Path::new("/bin/sh"));
            let all = builds::builds(&spec, &plan, krarup);
            let search = |baseline: &Baseline| {
                let ran = builds((&spec, &plan), baseline, krarup, &all);
                (identity(&spec, &plan, baseline).unwrap(), ran)
            };
            let baselines = &spec.scale.as_ref().unwrap().baselines;
            [search(baselines[0].get_ref()), search(baselines[1].get_ref())]
        };
        let [servers, middleware] = searches("[\"/bin/sh\"]");
        let programs = |ran: &[(String, String)]| -> Vec<String> {
            ran.iter().map(|(program, _)| program.clone()).collect()
        };
        assert_eq!(programs(&servers.1), ["krarup"]);
        assert_eq!(programs(&middleware.1), ["/bin/sh", "krarup"]);
        let with_another = searches("[\"/bin/ls\", \"/bin/sh\"]");
        assert_eq!(with_another, [servers.clone(), middleware.clone()]);

        let (search, ran) = middleware;
        let reached = ReachedBaseline {
            station: "middleware".into(),
            levels: Vec::new(),
            published: 700.0,
            reached: 700.0,
            share: 0.5,
            within: None,
            runs: Vec::new(),
            disturbed: None,
        };
        let testbed = ScaledTestbed { by: 20.0, stations: Vec::new(), baselines: vec![reached] };
        let (searches, builds) = (vec![search.clone()], vec![ran.clone()]);
        let kept = KeptScale { testbed, machine: "this one".into(), searches, builds };
        assert!(kept.found("this one", &search, &ran).is_some());
        assert!(kept.found("another", &search, &ran).is_none());
        assert!(kept.found("this one", &search, &servers.1).is_none());
        // As an earlier version left it.
        let kept = KeptScale { builds: Vec::new(), ..kept };
        assert!(kept.found("this one", &search, &ran).is_none());
    }
}
