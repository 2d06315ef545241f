//! What does not add up, as values with evidence and a next step.

use std::fmt;

use krarup_units::{Seconds, text};
use serde::{Deserialize, Serialize};

use crate::trial::Levels;

/// A warning and where it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Concern {
    /// The cell; none where it concerns the whole.
    pub levels: Option<Levels>,
    /// What was seen.
    pub warning: Warning,
}

/// Why figures may mislead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// N = X (R + Z) does not hold: the clients were not always waiting or thinking.
    InteractiveLaw {
        /// Population N.
        clients: u32,
        /// X (R + Z) as measured by the clients.
        by_law: f64,
    },
    /// Clients and middleware counted different numbers of requests.
    CountsDiffer {
        /// Requests answered, by the clients' count.
        clients: u64,
        /// Requests replied, by the middleware's.
        middleware: u64,
    },
    /// A part is longer than its whole: the two sides did not measure the same requests.
    PartBeyondWhole {
        /// Mean response time at the middleware.
        middleware: Seconds,
        /// Mean response time at the clients.
        clients: Seconds,
    },
    /// Little's law at the queue: the length seen is not X · queue time.
    QueueLength {
        /// Mean length seen.
        seen: f64,
        /// X · queue time.
        by_law: f64,
    },
    /// Requests failed.
    Errors {
        /// How many.
        errors: u64,
        /// Of how many.
        completed: u64,
    },
    /// Reads missed keys that should have been there.
    Misses {
        /// Keys not found.
        misses: u64,
        /// Keys asked for.
        keys: u64,
    },
    /// The load generator itself was busy most of the time: it measures itself.
    GeneratorBusy {
        /// Which process.
        name: String,
        /// Its utilization.
        utilization: f64,
    },
    /// All processors of the machine were busy: client, middleware and servers take them from each other.
    MachineFull {
        /// Processors kept busy by the processes taking part.
        busy: f64,
        /// Processors of the machine.
        cores: u32,
    },
    /// The rate changed during a run.
    Unsteady {
        /// Coefficient of variation of the windows' throughput.
        variation: f64,
    },
    /// Servers that should be alike got different numbers of requests.
    UnevenServers {
        /// The server with the largest share, and the share.
        most: (String, f64),
        /// The server with the smallest.
        least: (String, f64),
    },
    /// Repetitions whose histograms have different buckets were left out of the sum.
    DifferentBuckets,
    /// No cell was repeated.
    OneRepetition,
}

impl fmt::Display for Warning {
    /// What was seen, with its evidence: a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| text::three_digits(share * 100.0);
        match self {
            Self::InteractiveLaw { clients, by_law } => {
                let off = by_law / f64::from(*clients) - 1.0;
                write!(
                    f,
                    "Throughput and response time account for {} of {clients} clients ({:+.1} %) by the interactive law \
                     N = X (R + Z).",
                    text::three_digits(*by_law),
                    off * 100.0
                )
            }
            Self::CountsDiffer { clients, middleware } => write!(
                f,
                "The clients counted {} requests, the middleware {}.",
                text::count(*clients as f64),
                text::count(*middleware as f64)
            ),
            Self::PartBeyondWhole { middleware, clients } => write!(
                f,
                "The mean response time at the middleware ({}) is longer than at the clients ({}).",
                text::duration(*middleware),
                text::duration(*clients)
            ),
            Self::QueueLength { seen, by_law } => write!(
                f,
                "Requests saw a queue of {} on average; throughput times queue time makes {} (Little's law).",
                text::three_digits(*seen),
                text::three_digits(*by_law)
            ),
            Self::Errors { errors, completed } => write!(
                f,
                "{} of {} requests failed.",
                text::count(*errors as f64),
                text::count(*completed as f64)
            ),
            Self::Misses { misses, keys } => write!(
                f,
                "{} of {} keys were not found ({} %).",
                text::count(*misses as f64),
                text::count(*keys as f64),
                percent(*misses as f64 / *keys as f64)
            ),
            Self::GeneratorBusy { name, utilization } => {
                write!(f, "The load generator ({name}) was busy {} % of the time.", percent(*utilization))
            }
            Self::MachineFull { busy, cores } => write!(
                f,
                "Clients, middleware and servers together kept {} of the machine's {cores} processors busy.",
                text::three_digits(*busy)
            ),
            Self::Unsteady { variation } => write!(
                f,
                "Throughput varied by {} % from window to window (coefficient of variation).",
                percent(*variation)
            ),
            Self::UnevenServers { most, least } => write!(
                f,
                "{} got {} % of the requests, {} only {} %.",
                most.0,
                percent(most.1),
                least.0,
                percent(least.1)
            ),
            Self::DifferentBuckets => {
                write!(
                    f,
                    "Some repetitions have histograms with other buckets; they are not in the histogram shown."
                )
            }
            Self::OneRepetition => {
                write!(
                    f,
                    "Every cell ran once: intervals come from the windows of that run and say nothing about another."
                )
            }
        }
    }
}

impl Warning {
    /// What to do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::InteractiveLaw { .. } => {
                "Look at the clients: those that connect late, stop early or wait for a processor are missing in the sum."
            }
            Self::CountsDiffer { .. } => {
                "Check that both measured the same span and that nobody else used the middleware."
            }
            Self::PartBeyondWhole { .. } => {
                "Check that both measured the same span; do not read the time outside the middleware from this cell."
            }
            Self::QueueLength { .. } => {
                "Expect this where requests arrive in bursts; else look for a change during the run."
            }
            Self::Errors { .. } => {
                "Read the logs first: failed requests are often fast and flatter every other figure."
            }
            Self::Misses { .. } => {
                "Populate all keys, give the servers enough memory, or let keys live longer than the run."
            }
            Self::GeneratorBusy { .. } => {
                "Add client threads or machines before you believe the limit to be the system's."
            }
            Self::MachineFull { .. } => {
                "Read the limit as the machine's; give the clients their own machine to see the middleware's."
            }
            Self::Unsteady { .. } => "Measure longer, cut more warm-up, and see the run over time.",
            Self::UnevenServers { .. } => "Check the routing, and whether a server was down.",
            Self::DifferentBuckets => "Use one bucket width for all repetitions.",
            Self::OneRepetition => "Repeat each cell three times or more.",
        }
    }
}
