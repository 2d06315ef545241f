//! All trials of a plan, one after the other: what is done is passed over, what fails is tried
//! again and kept with its reason.
//!
//! ```text
//! block 0: cell cell cell …   each: complete already? ─▶ next
//! block 1: cell cell cell …         else try, at most 1 + retries times ─▶ complete | failed
//!                                   (once more where others disturbed one)
//!          the anchor before the first, after the last, and between; beside those that are run
//!          later than all of these it is run once more
//! block …: only cells whose runs do not agree yet (`until`)
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use krarup_units::Seconds;

use crate::identities::Identities;
use crate::identity::{Identity, ManifestIdentity};
use crate::plan::{Plan, PlannedCell, anchor_block, anchor_run, is_anchor_run, with_anchors};
use crate::spec::Spec;
use crate::stop::Stop;
use crate::store::{Manifest, ResultsDirectory, TrialSystem};

/// One trial that is to be run.
#[derive(Clone, Copy, Debug)]
pub struct DueTrial<'a> {
    /// Which cell.
    pub cell: &'a PlannedCell,
    /// Which repetition, from 0; beyond them, runs of the anchor ([`crate::plan::run_name`]).
    pub repetition: u32,
    /// Which attempt, from 0.
    pub attempt: u32,
}

/// What a trial that was run amounts to.
#[derive(Clone, Debug, Default)]
pub struct TrialOutcome {
    /// Every command that was run.
    pub commands: Vec<String>,
    /// Requests per second, as the clients counted them; 0 where it did not come so far.
    pub throughput: f64,
    /// Mean response time at the clients.
    pub response: Seconds,
    /// Why it failed; none where it did not.
    pub failed: Option<String>,
    /// Whether it would fail again, whatever the machine does: then it is not tried again, and
    /// neither is its cell.
    pub certain: bool,
    /// Why other programs may have changed its figures; none where none was in the way.
    pub disturbed: Option<String>,
}

/// What runs a trial: nothing else touches the world.
pub trait TrialRunner {
    /// Runs one trial and writes its records into `folder`.
    fn run(&mut self, due: &DueTrial<'_>, folder: &Path) -> TrialOutcome;
}

/// How far a campaign is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignProgress {
    /// Trials that are done, those of earlier runs too.
    pub done: usize,
    /// Those that are known to be needed.
    pub all: usize,
    /// Those of them that were completed now, however many attempts that took.
    pub complete: usize,
    /// Those that were given up.
    pub given_up: usize,
}

impl CampaignProgress {
    /// How many trials need no more attempt: they are done, or were given up.
    pub fn ended(&self) -> usize {
        self.done + self.given_up
    }

    /// How many trials are still to come, as far as is known.
    pub fn left(&self) -> usize {
        self.all.saturating_sub(self.ended())
    }

    /// About how long they take: as long as those that were completed since `elapsed` ago, their
    /// retries included; before the first of them, as long as each `planned` to.
    pub fn estimate(&self, elapsed: Seconds, planned: Seconds) -> Seconds {
        let each = match self.complete {
            0 => planned,
            complete => elapsed / complete as f64,
        };
        each * self.left() as f64
    }
}

/// What is done with a trial whose machine others used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisturbedTrials {
    /// It is run once more; what it gives then is kept, and marked.
    #[default]
    Repeat,
    /// It is kept at once, and marked.
    Keep,
}

/// Where the trials of a campaign are, which of them belong to it, and what is done with those
/// that others disturbed.
#[derive(Clone, Copy, Debug)]
pub struct CampaignStore<'a> {
    /// The directory.
    pub store: &'a ResultsDirectory,
    /// What is done already.
    pub identities: &'a Identities,
    /// What is done with a trial whose machine others used.
    pub disturbed: DisturbedTrials,
    /// The digest of the guesses that are sealed there; each trial keeps it.
    pub seal: Option<&'a str>,
    /// What trials are measured on now; each keeps it.
    pub system: Option<&'a TrialSystem>,
}

/// What happens, for those that watch.
#[derive(Debug)]
pub enum CampaignEvent<'a> {
    /// A trial begins.
    Begins(DueTrial<'a>, CampaignProgress),
    /// A trial of an earlier run is there already.
    Skipped(DueTrial<'a>, CampaignProgress),
    /// A trial is complete.
    Complete(DueTrial<'a>, &'a Manifest, CampaignProgress),
    /// A trial failed; whether it is tried again.
    Failed(DueTrial<'a>, &'a str, bool),
    /// Others used the machine during a trial, and so it is run once more.
    Disturbed(DueTrial<'a>, &'a str),
}

/// How a campaign ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CampaignEnd {
    /// Trials that are complete.
    pub complete: usize,
    /// Those of them that were there before.
    pub skipped: usize,
    /// Cells and repetitions that failed at every attempt, with the last reason.
    pub given_up: Vec<(String, u32, String)>,
}

/// Why a campaign could not go on.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The user asked for the end. What is complete is kept.
    #[error("stopped on request")]
    Stopped,
    /// The directory of results cannot be written.
    #[error(transparent)]
    Store(#[from] io::Error),
}

/// Runs what is left of a plan in a directory. `now` tells the wall clock, in seconds since 1970.
///
/// # Errors
/// Where it was stopped, or the directory cannot be written. A trial that fails is no error.
pub fn run(
    spec: &Spec,
    plan: &Plan,
    results: CampaignStore<'_>,
    testbed: &mut dyn TrialRunner,
    stop: &Stop,
    now: &dyn Fn() -> Seconds,
    tell: &mut dyn FnMut(&CampaignEvent<'_>),
) -> Result<CampaignEnd, CampaignError> {
    let CampaignStore { store, identities, .. } = results;
    let mut ended = CampaignEnd::default();
    let mut values: Vec<Vec<(f64, Seconds)>> = vec![Vec::new(); plan.cells.len()];
    let anchor = plan.anchor_every(spec);
    // What fails for certain fails in every repetition of its cell.
    let mut hopeless: BTreeMap<usize, String> = BTreeMap::new();
    let in_block = plan.in_block(spec);
    let all = in_block * spec.repetitions.min as usize;
    let mut progress = CampaignProgress { done: 0, all, complete: 0, given_up: 0 };
    for repetition in 0..spec.repetitions.most() {
        let needed: Vec<&PlannedCell> = plan
            .block(repetition)
            .into_iter()
            .filter(|cell| repetition < spec.repetitions.min || !spec.repetitions.agree(&values[cell.number]))
            .collect();
        // Beyond the least number of repetitions, where only cells are left that fail for certain,
        // the anchor says nothing.
        let is_run = |cell: &&PlannedCell| !hopeless.contains_key(&cell.number);
        let has_anchor = repetition < spec.repetitions.min || needed.iter().any(is_run);
        let order = with_anchors(&needed, repetition, anchor.filter(|_| has_anchor));
        let cell = anchor.map(|(cell, _)| cell);
        let order = with_later_anchors(order, repetition, cell, results, &hopeless);
        let counted = if repetition < spec.repetitions.min { in_block } else { 0 };
        progress.all += order.len() - counted;
        for (cell, run) in order {
            let manifest = if let Some((_, manifest)) = store.complete(cell, run, identities) {
                ended.skipped += 1;
                progress.done += 1;
                tell(&CampaignEvent::Skipped(
                    DueTrial { cell, repetition: run, attempt: manifest.attempt },
                    progress,
                ));
                Some(manifest)
            } else {
                let found = match hopeless.get(&cell.number) {
                    Some(why) => Err((why.clone(), true)),
                    None => {
                        let trying = Trying { spec, results, stop, now };
                        trying.run(cell, run, testbed, &mut progress, tell)?
                    }
                };
                let give_up = |(why, certain): (String, bool)| {
                    if certain {
                        hopeless.insert(cell.number, why.clone());
                    }
                    ended.given_up.push((cell.name(), run, why));
                    progress.given_up += 1;
                };
                found.map_err(give_up).ok()
            };
            if let Some(manifest) = manifest {
                ended.complete += 1;
                if run == repetition {
                    values[cell.number].push((manifest.throughput, manifest.response));
                }
            }
        }
    }
    Ok(ended)
}

/// The order of a block with the anchor beside what is left of it, where all its planned runs are
/// there already: they say nothing of the machine as it is now. What is `hopeless` is not run.
fn with_later_anchors<'a>(
    mut order: Vec<(&'a PlannedCell, u32)>,
    block: u32,
    anchor: Option<&'a PlannedCell>,
    CampaignStore { store, identities, .. }: CampaignStore<'_>,
    hopeless: &BTreeMap<usize, String>,
) -> Vec<(&'a PlannedCell, u32)> {
    let Some(anchor) = anchor.filter(|cell| !hopeless.contains_key(&cell.number)) else {
        return order;
    };
    let is_due = |(cell, run): &(&PlannedCell, u32)| {
        !hopeless.contains_key(&cell.number) && store.complete(cell, *run, identities).is_none()
    };
    let (Some(first), Some(last)) = (order.iter().position(is_due), order.iter().rposition(is_due)) else {
        return order;
    };
    if is_anchor_run(order[last].1) {
        return order;
    }
    let is_its = |run: u32| anchor_block(run) == Some(block);
    let there = store.anchor_runs(anchor, identities).into_iter().map(|manifest| manifest.repetition);
    let known = there.chain(order.iter().map(|(_, run)| *run)).filter(|run| is_its(*run));
    let next = known.max().map_or(anchor_run(block, 0), |most| most + 1);
    if !is_its(next + 1) {
        return order;
    }
    order.insert(last + 1, (anchor, next + 1));
    if !is_anchor_run(order[first].1) {
        order.insert(first, (anchor, next));
    }
    order
}

/// One trial, tried until it is complete or given up.
struct Trying<'a> {
    spec: &'a Spec,
    results: CampaignStore<'a>,
    stop: &'a Stop,
    now: &'a dyn Fn() -> Seconds,
}

impl Trying<'_> {
    /// The manifest of the complete trial, or the reason of the last failure, and whether it is
    /// certain to fail again.
    fn run(
        &self,
        cell: &PlannedCell,
        repetition: u32,
        testbed: &mut dyn TrialRunner,
        progress: &mut CampaignProgress,
        tell: &mut dyn FnMut(&CampaignEvent<'_>),
    ) -> Result<Result<Manifest, (String, bool)>, CampaignError> {
        let CampaignStore { store, disturbed, seal, system, .. } = self.results;
        let mut last = String::new();
        let (mut attempt, mut last_attempt) = (0, self.spec.retries);
        while attempt <= last_attempt {
            if self.stop.asked() {
                return Err(CampaignError::Stopped);
            }
            let due = DueTrial { cell, repetition, attempt };
            tell(&CampaignEvent::Begins(due, *progress));
            let folder = store.begin()?;
            let started_unix = (self.now)();
            let outcome = testbed.run(&due, &folder);
            let certain = outcome.certain && outcome.failed.is_some();
            if self.stop.asked() && outcome.failed.is_some() {
                // Not its fault.
                return Err(CampaignError::Stopped);
            }
            // A machine that others use is given a second chance, which is no retry; what it gives
            // then is kept, and marked.
            let repeats = self.spec.retries > 0 && disturbed == DisturbedTrials::Repeat;
            let again = repeats && last_attempt == self.spec.retries;
            let undone = outcome.failed.is_none();
            let failed = outcome.failed.or_else(|| outcome.disturbed.clone().filter(|_| again));
            let manifest = Manifest {
                identity: ManifestIdentity::Listed(Identity::of(self.spec, cell)),
                levels: cell.named_levels(),
                repetition,
                attempt,
                started_unix,
                commands: outcome.commands,
                throughput: outcome.throughput,
                response: outcome.response,
                slower: self.spec.scale.as_ref().map(|_| self.spec.slower()),
                failed,
                disturbed: outcome.disturbed,
                sheet: seal.map(str::to_owned),
                system: system.cloned(),
            };
            store.end(cell, &manifest)?;
            match &manifest.failed {
                None => {
                    progress.done += 1;
                    progress.complete += 1;
                    tell(&CampaignEvent::Complete(due, &manifest, *progress));
                    return Ok(Ok(manifest));
                }
                Some(why) if undone => {
                    last_attempt += 1;
                    tell(&CampaignEvent::Disturbed(due, why));
                    last.clone_from(why);
                }
                Some(why) => {
                    tell(&CampaignEvent::Failed(due, why, attempt < last_attempt && !certain));
                    last.clone_from(why);
                    if certain {
                        return Ok(Err((last, true)));
                    }
                }
            }
            attempt += 1;
        }
        Ok(Err((last, false)))
    }
}
