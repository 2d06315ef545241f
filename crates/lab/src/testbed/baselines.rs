//! The share of a processor with which a single station gives what was published of it, by short
//! runs before the first trial.

use std::io;
use std::path::PathBuf;

use krarup_record::scaled::{ReachedBaseline, ScaledTestbed};
use serde::{Deserialize, Serialize};

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
    /// The machine on which the shares were found, and the builds that ran.
    pub machine: String,
    /// What each search was about, in the order of the baselines.
    pub searches: Vec<Identity>,
}

impl KeptScale {
    /// What a search for the same on the same machine has found.
    pub fn found(&self, machine: &str, search: &Identity) -> Option<&ReachedBaseline> {
        let place = self.searches.iter().position(|known| known == search)?;
        self.testbed.baselines.get(place).filter(|_| self.machine == machine)
    }
}

/// Attempts of one run: others at work, or a failure, may pass.
const ATTEMPTS: u32 = 3;

/// What the search for one share is about: everything that could change what it finds. What was
/// found of the same is not looked for again.
pub fn identity(spec: &Spec, plan: &Plan, baseline: &Baseline) -> Option<Identity> {
    Some(Identity::of(&spec.alone(baseline), cell(plan, baseline)?))
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
}
