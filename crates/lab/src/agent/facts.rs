//! What a machine says of itself, to a runner that has not seen it before.

use serde::{Deserialize, Serialize};

use crate::platform::{Platform, is_alone, is_root};
use crate::testbed::probe::memcached;

/// What a machine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// This program's version there.
    pub version: String,
    /// The processor's name.
    pub cpu: String,
    /// Processors that can be used.
    pub cores: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// The kernel's version.
    pub kernel: String,
    /// Whether programs run as root there.
    pub root: bool,
    /// Whether there is no other user.
    pub alone: bool,
    /// What the installed memcached says it is; none where there is none.
    pub memcached: Option<String>,
}

impl Facts {
    /// Of this machine.
    pub fn here() -> Self {
        let Platform { cpu, cores, kernel, memory } = Platform::this();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self {
            version,
            cpu,
            cores,
            memory: memory.0,
            kernel,
            root: is_root(),
            alone: is_alone(),
            memcached: memcached(),
        }
    }
}
