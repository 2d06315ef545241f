//! All hosts of an experiment, whichever they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::Offset;
use super::error::StationError;
use super::host::Host;
use super::netns::Namespaces;
use super::pods::fleet::PodFleet;
use super::remote::Remote;
use super::ssh::fleet::Fleet;
use crate::plan::PlannedCell;
use crate::stop::Stop;

/// All hosts of an experiment.
#[derive(Clone, Debug)]
pub enum Hosts {
    /// This machine as it is, for all stations.
    Here,
    /// A namespace of this machine for each.
    Spaces(Arc<Namespaces>),
    /// Other machines.
    Fleet(Arc<Fleet>),
    /// Pods of a cluster.
    Pods(Arc<PodFleet>),
}

impl Hosts {
    /// The host of this kind and number, from 1.
    pub fn host(&self, letter: char, number: u32) -> Host {
        match self {
            Self::Here => Host::here(),
            Self::Spaces(network) => network.host(letter, number).cloned().unwrap_or_else(Host::here),
            Self::Fleet(fleet) => fleet.host(letter, number).cloned().unwrap_or_else(Host::here),
            Self::Pods(pods) => pods.host(letter, number).unwrap_or_else(Host::here),
        }
    }

    /// All hosts of this kind that are on other machines; else one of them, for this machine.
    pub fn all(&self, letter: char) -> Vec<Host> {
        match self {
            Self::Here | Self::Spaces(_) => vec![self.host(letter, 1)],
            Self::Fleet(fleet) => (1..).map_while(|number| fleet.host(letter, number).cloned()).collect(),
            Self::Pods(pods) => (1..).map_while(|number| pods.host(letter, number)).collect(),
        }
    }

    /// The namespaces, where there are some.
    pub fn network(&self) -> Option<&Namespaces> {
        match self {
            Self::Spaces(network) => Some(network),
            Self::Here | Self::Fleet(_) | Self::Pods(_) => None,
        }
    }

    /// The other machines, or the pods; none where all is on this machine.
    pub fn machines(&self) -> Vec<Arc<Remote>> {
        match self {
            Self::Fleet(fleet) => fleet.machines().to_vec(),
            Self::Pods(pods) => pods.machines(),
            Self::Here | Self::Spaces(_) => Vec::new(),
        }
    }

    /// Whether a cell wants other hosts of a kind than there are: what runs on them is to be ended
    /// before.
    pub fn changes(&self, letter: char, cell: &PlannedCell) -> bool {
        matches!(self, Self::Pods(pods) if pods.changes(letter, cell))
    }

    /// Makes sure that the hosts of a cell are there and can be reached.
    ///
    /// # Errors
    /// Where a machine is out of reach, or a pod does not run.
    pub fn prepare(&self, cell: &PlannedCell, stop: &Stop) -> Result<(), StationError> {
        match self {
            Self::Fleet(fleet) => fleet.reach(stop),
            Self::Pods(pods) => pods.prepare(cell, stop),
            Self::Here | Self::Spaces(_) => Ok(()),
        }
    }

    /// How far the clock of each other machine is from ours.
    ///
    /// # Errors
    /// Where one does not answer, or is too far off.
    pub fn clocks(&self) -> Result<BTreeMap<String, Offset>, StationError> {
        self.machines().iter().map(|machine| Ok((machine.name.clone(), machine.clock()?))).collect()
    }
}
