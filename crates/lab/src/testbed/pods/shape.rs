//! What the pods of one kind of station are in one cell.

use std::collections::BTreeMap;
use std::fmt;

use toml::Spanned;

use crate::plan::PlannedCell;
use crate::spec::pod::quantity;
use crate::spec::{Kubernetes, PodSettings, StationSpec};

/// What each pod of a kind is, with the levels of a cell in place of `$factor`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodShape {
    /// Its image.
    pub image: String,
    /// What the scheduler keeps for it, by resource.
    pub requests: BTreeMap<String, String>,
    /// The most that it gets, by resource.
    pub limits: BTreeMap<String, String>,
    /// Labels of the nodes it may run on.
    pub nodes: BTreeMap<String, String>,
}

impl PodShape {
    /// The pods of a station in a cell.
    pub fn of(station: &StationSpec, cell: &PlannedCell, cluster: &Kubernetes) -> Self {
        let PodSettings { image, requests, limits, nodes } = station.pod.clone().unwrap_or_default();
        let all = |words: BTreeMap<String, Spanned<String>>| {
            let word = |(name, word)| (name, cell.render(&[word]).join(" "));
            words.into_iter().map(word).collect()
        };
        Self {
            image: cell.text(&image).unwrap_or_else(|| cluster.image.clone()),
            requests: all(requests),
            limits: all(limits),
            nodes: all(nodes),
        }
    }

    /// Processors that it may use; none: all there are.
    pub fn cpu(&self) -> Option<f64> {
        quantity(self.limits.get("cpu")?)
    }
}

impl fmt::Display for PodShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.image)?;
        let parts = [("requests", &self.requests), ("limits", &self.limits), ("on nodes with", &self.nodes)];
        for (name, values) in parts.into_iter().filter(|(_, values)| !values.is_empty()) {
            let values: Vec<String> =
                values.iter().map(|(resource, value)| format!("{resource} {value}")).collect();
            write!(f, "; {name} {}", values.join(", "))?;
        }
        Ok(())
    }
}
