//! Which trials belong to a directory of results: the identities that are written down in it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::identity::{Identity, ManifestIdentity};
use crate::plan::{Plan, PlannedCell};
use crate::spec::Spec;
use crate::store::{self, Manifest, ResultsDirectory};

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

impl Identities {
    /// Which trials belong to `spec` from now on; it is written down. This is asked before the
    /// directory's own `spec.toml` is replaced: of trials that earlier builds have left, that file
    /// is what says what they were.
    ///
    /// # Errors
    /// From the system, with the path.
    pub fn take_up(store: &ResultsDirectory, spec: &Spec, plan: &Plan) -> io::Result<Self> {
        let known = Self::written(store);
        let text = std::fs::read_to_string(store.directory().join("spec.toml"));
        let before =
            text.ok().filter(|_| known.is_none()).and_then(|text| Spec::parse(&text, "spec.toml").ok());
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
        let identities = Self { cells: plan.cells.iter().map(meant).collect() };
        let text = serde_json::to_string_pretty(&identities).expect("lists are plain data");
        store.write(FILE, text.as_bytes())?;
        Ok(identities)
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
}
