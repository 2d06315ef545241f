//! Which trials belong to a directory of results: the identities that are written down in it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::identity::{Identity, ManifestIdentity};
use crate::plan::{Plan, PlannedCell, is_anchor_run};
use crate::spec::Spec;
use crate::store::{self, Manifest, ResultsDirectory, TrialSystem};

/// Which trials belong to a directory: what each cell's trials must be, by the cell's folder.
/// Written by the runs of trials there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identities {
    cells: BTreeMap<String, Meant>,
}

/// What the trials of a cell must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Meant {
    /// None where no build has written it: then there are trials of earlier builds alone.
    identity: Option<Identity>,
    /// Whether trials of earlier builds belong to it, too: those with its levels, in a directory
    /// whose spec said then what this one says.
    earlier: bool,
}

/// The file in a directory of results.
const FILE: &str = "identities.json";

/// The trials of a directory, as a plan finds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialsThere {
    /// Those that belong to the plan: they are kept, and not run again.
    pub kept: usize,
    /// What these were measured on, each system once.
    pub systems: Vec<TrialSystem>,
    /// Those in the place of one of its trials, which replaces them when it is run.
    pub replaced: usize,
    /// Those of other cells or repetitions: they stay where they are, and are in no figure.
    pub aside: usize,
    /// What is different about the first that is replaced.
    pub why: Option<String>,
}

impl Identities {
    /// Which trials belong to `spec`; nothing is written down yet. This is asked before the
    /// directory's own `spec.toml` is replaced: of trials that earlier builds have left, that file
    /// is what says what they were.
    pub fn meant_by(store: &ResultsDirectory, spec: &Spec, plan: &Plan) -> Self {
        let known = Self::written(store);
        let text = std::fs::read_to_string(store.directory().join("spec.toml"));
        let text = text.ok().filter(|_| known.is_none());
        let before = text.and_then(|text| Spec::parse_recorded(&text, "spec.toml").ok());
        let before = before.map(|spec| (Plan::of(&spec), spec));
        let meant = |cell: &PlannedCell| {
            let identity = Identity::of(spec, cell);
            let same = |(plan, spec): &(Plan, Spec)| {
                let mut cells = plan.cells.iter().filter(|other| other.levels == cell.levels);
                cells.any(|other| Identity::of(spec, other) == identity)
            };
            let earlier = match &known {
                Some(known) => known
                    .cells
                    .get(&cell.folder)
                    .is_some_and(|meant| meant.earlier && meant.identity.as_ref() == Some(&identity)),
                None => before.as_ref().is_some_and(same),
            };
            (cell.folder.clone(), Meant { identity: Some(identity), earlier })
        };
        Self { cells: plan.cells.iter().map(meant).collect() }
    }

    /// Writes them down: from now on they are what the directory is about.
    ///
    /// # Errors
    /// From the system, with the path.
    pub fn write(&self, store: &ResultsDirectory) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).expect("lists are plain data");
        store.write(FILE, text.as_bytes())
    }

    /// What is in a directory already, and what becomes of it under this plan of at most `most`
    /// repetitions.
    pub fn beside(&self, store: &ResultsDirectory, plan: &Plan, most: u32) -> TrialsThere {
        let mut there = TrialsThere::default();
        for (folder, manifest) in store.completed() {
            let name = folder.parent().and_then(|cell| cell.file_name());
            let cell = plan.cells.iter().find(|cell| name.is_some_and(|name| name == cell.folder.as_str()));
            let run = manifest.repetition;
            let Some(cell) = cell.filter(|_| run < most || is_anchor_run(run)) else {
                there.aside += 1;
                continue;
            };
            if self.holds(cell, &manifest) {
                there.kept += 1;
                there.systems.extend(manifest.system.filter(|system| !there.systems.contains(system)));
                continue;
            }
            there.replaced += 1;
            there.why = there.why.or_else(|| match (&manifest.identity, self.of(cell)) {
                (ManifestIdentity::Listed(was), Some(now)) => was.differences(now).into_iter().next(),
                _ => Some(
                    "an earlier version of krarup made them, and the spec beside them says something else"
                        .into(),
                ),
            });
        }
        there
    }

    /// Which trials belong to a directory that is read: what was written down, or, in a directory
    /// of earlier builds, all that have the levels of a cell of its spec. Nothing is worked out
    /// anew.
    ///
    /// # Errors
    /// Where what was written down cannot be read, with the path.
    pub fn of_directory(store: &ResultsDirectory, plan: &Plan) -> io::Result<Self> {
        let path = store.directory().join(FILE);
        if path.is_file() {
            return store::json(&path);
        }
        let meant = |cell: &PlannedCell| (cell.folder.clone(), Meant { identity: None, earlier: true });
        Ok(Self { cells: plan.cells.iter().map(meant).collect() })
    }

    fn written(store: &ResultsDirectory) -> Option<Self> {
        store::json(&store.directory().join(FILE)).ok()
    }

    /// Whether a trial is one of this cell's.
    pub fn holds(&self, cell: &PlannedCell, manifest: &Manifest) -> bool {
        let Some(meant) = self.cells.get(&cell.folder) else { return false };
        match &manifest.identity {
            ManifestIdentity::Listed(identity) => meant.identity.as_ref() == Some(identity),
            ManifestIdentity::Earlier(_) => meant.earlier && manifest.levels == cell.named_levels(),
        }
    }

    /// What a trial of this cell is.
    pub fn of(&self, cell: &PlannedCell) -> Option<&Identity> {
        self.cells.get(&cell.folder)?.identity.as_ref()
    }
}

impl ResultsDirectory {
    /// The complete trial of this cell and repetition, if it is one of those that belong to the
    /// directory.
    pub fn complete(
        &self,
        cell: &PlannedCell,
        repetition: u32,
        identities: &Identities,
    ) -> Option<(PathBuf, Manifest)> {
        let folder = self.place(cell, repetition);
        let manifest = store::read(&folder).ok()?;
        let meant = manifest.repetition == repetition && identities.holds(cell, &manifest);
        meant.then_some((folder, manifest))
    }

    /// The complete runs of the anchor in this cell that belong to the directory, block by block in
    /// the order of their numbers.
    pub fn anchor_runs(&self, cell: &PlannedCell, identities: &Identities) -> Vec<Manifest> {
        let of_cell = store::folders(&self.trials().join(&cell.folder)).into_iter();
        let complete = |folder: PathBuf| {
            let manifest = store::read(&folder).ok()?;
            let run = manifest.repetition;
            let meant = is_anchor_run(run) && folder == self.place(cell, run);
            (meant && identities.holds(cell, &manifest)).then_some(manifest)
        };
        let mut runs: Vec<Manifest> = of_cell.filter_map(complete).collect();
        runs.sort_by_key(|manifest| manifest.repetition);
        runs
    }
}
