//! What the proxy says of its whole run when it ends: plain data, for a table, for JSON and for
//! analysis.

use krarup_record::summary::RunSummary;
use krarup_units::Stamp;
use serde::{Deserialize, Serialize};

use crate::core::{Core, Events};
use crate::dispatch::Workers;
use crate::stats::{self, ServerStatistics};

/// Everything measured, from the start, or the last `stats reset`, to the end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProxySummary {
    /// Of its requests.
    #[serde(flatten)]
    pub run: RunSummary,
    /// The longest the queue has been.
    pub queue_length_max: usize,
    /// The servers.
    pub servers: Vec<ServerStatistics>,
    /// What happened besides.
    pub events: Events,
}

impl ProxySummary {
    /// Of everything `core` recorded since it was last reset, up to `stopped`.
    pub fn of(core: &Core, stopped: Stamp) -> Self {
        let workers = match core.settings().workers {
            Workers::Unlimited => None,
            Workers::Limited(workers) => Some(workers),
        };
        Self {
            run: RunSummary::of(core.recorder(), (core.counting_since(), stopped), workers),
            queue_length_max: core.dispatch().longest(),
            servers: stats::of_servers(core),
            events: *core.events(),
        }
    }
}
