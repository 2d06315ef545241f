//! What there is only so much of, and how much of it was in use: processors of machines and of
//! processes, links, the load generator.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What there is only so much of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoundedResource {
    /// The processors of the busiest machine.
    Machine,
    /// The processors that a process could use, by its name.
    Process(String),
    /// The link of a host, by its name.
    Link(String),
    /// The load generator: its busiest thread, or its processors where threads were not told apart.
    Generator,
    /// The link of a host of clients, by its name.
    GeneratorLink(String),
}

impl BoundedResource {
    /// Whether it belongs to what makes the load, and not to what is measured.
    pub fn is_load(&self) -> bool {
        matches!(self, Self::Generator | Self::GeneratorLink(_))
    }
}

impl fmt::Display for BoundedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => write!(f, "processors of the machine"),
            Self::Process(name) => write!(f, "processors of {name}"),
            Self::Link(name) | Self::GeneratorLink(name) => write!(f, "link of {name}"),
            Self::Generator => write!(f, "load generator"),
        }
    }
}

/// How much of it was in use while a row was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Of what.
    pub resource: BoundedResource,
    /// The share of it, 0 to 1.
    pub share: f64,
}

impl ResourceUse {
    /// Of the processors of the busiest machine.
    pub fn machine(share: f64) -> Self {
        Self { resource: BoundedResource::Machine, share }
    }
}
