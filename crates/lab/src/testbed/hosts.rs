//! All hosts of an experiment, whichever they are.

use std::sync::Arc;

use super::error::StationError;
use super::host::Host;
use super::netns::Namespaces;
use super::ssh::fleet::Fleet;
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
}

impl Hosts {
    /// The host of this kind and number, from 1.
    pub fn host(&self, letter: char, number: u32) -> Host {
        match self {
            Self::Here => Host::here(),
            Self::Spaces(network) => network.host(letter, number).cloned().unwrap_or_else(Host::here),
            Self::Fleet(fleet) => fleet.host(letter, number).cloned().unwrap_or_else(Host::here),
        }
    }

    /// The namespaces, where there are some.
    pub fn network(&self) -> Option<&Namespaces> {
        match self {
            Self::Spaces(network) => Some(network),
            Self::Here | Self::Fleet(_) => None,
        }
    }

    /// The other machines, where there are some.
    pub fn fleet(&self) -> Option<&Fleet> {
        match self {
            Self::Fleet(fleet) => Some(fleet),
            Self::Here | Self::Spaces(_) => None,
        }
    }

    /// Makes sure that all can be reached.
    ///
    /// # Errors
    /// Where a machine is out of reach.
    pub fn reach(&self, stop: &Stop) -> Result<(), StationError> {
        self.fleet().map_or(Ok(()), |fleet| fleet.reach(stop))
    }
}
