//! Simulation of the same description that the solvers read: event by event, every feature of it.
//!
//! ```text
//!  network ──▶ program ──▶ engine ──▶ tallies ──▶ warm-up cut off ──▶ pilot ──▶ readings with intervals,
//!              (paths)     (events)   (128 batches    (MSER)         (how long?)   of the rest alone
//!                                      at most)
//! ```
//!
//! | module | its one idea |
//! |---|---|
//! | `calendar` | what happens next |
//! | `random` | random streams with names |
//! | `program` | a path as a list of instructions |
//! | `place` | one station's state |
//! | `request` | a request that moves through the network |
//! | `engine` | requests moving through stations, pools and forks |
//! | `tally` | sums over a stretch of time, and Little's law over them |
//! | `spread` | how response times are distributed |
//! | `rows` | one row per visit, in the type of measured ones |
//! | `course` | warm-up, batches, and when it is enough |
//! | `parts` | replications that are simulated apart, and what they say together |
//! | `sample` | estimates with intervals, from batches or replications |
//! | [`result`] | what a simulation says |
//!
//! **What a run costs in memory** does not grow with its length: time is cut into at most 128
//! batches, and when they are too many, neighbours are joined. **Repeatable:** the same network,
//! settings and version give the same bits; nothing here reads a clock.
//!
//! **What a description means here**, beyond what it says itself:
//!
//! - A request that finds its next station full, where that blocks, keeps its place and (at FCFS,
//!   LIFO and priority stations) its server until there is room. From outside, from a fork and
//!   while it waits for a slot it has no place to keep.
//! - A copy of a fork that finds no room answers never; when too few are left to answer, the whole
//!   request is lost.
//! - With several servers, preemptive LIFO interrupts the service that began first.
//! - `visits = 2.5` is two visits in half of the cases and three in the other.

use std::ops::ControlFlow;

use krarup_record::{ServerVisit, Visit};

use self::course::Course;
pub use self::parts::{SimulationPart, merge_parts, simulate_part};
use self::result::Simulated;
pub use self::settings::{MOST_REPLICATIONS, Runs, SimulationProgress, SimulationSettings, WarmUpRule};
use crate::Error;
use crate::network::Network;

mod calendar;
mod course;
mod engine;
mod parts;
mod place;
mod program;
pub(crate) mod random;
mod reading;
mod request;
pub mod result;
mod rows;
mod sample;
mod settings;
mod spread;
mod tables;
mod tally;

/// Simulates a network. `progress` is called now and then, and may stop the run: what has been
/// simulated counts.
///
/// # Errors
/// What [`Network::check`] finds; a setting out of its range; [`Error::Unstable`] where an open
/// network without limits is offered more than it can do; [`Error::TooLarge`] when requests pile up
/// without end; a deadlock; and [`Error::Violated`] when the result breaks Little's law or the
/// balance of flows.
pub fn simulate(
    network: &Network,
    settings: &SimulationSettings,
    progress: &mut dyn FnMut(&SimulationProgress) -> ControlFlow<()>,
) -> Result<Simulated, Error> {
    Course::new(network, settings, progress)?.finish(None)
}

/// As [`simulate`], and calls `each` with a row for every visit to a station and every hold of a
/// pool's slot when it is over, warm-up and all replications included, one replication after the
/// other on one clock. Stations are numbered in the order of the network, pools after them;
/// operations are classes of the same name, or `other`.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with_visits(
    network: &Network,
    settings: &SimulationSettings,
    progress: &mut dyn FnMut(&SimulationProgress) -> ControlFlow<()>,
    each: &mut dyn FnMut(&Visit, &[ServerVisit]),
) -> Result<Simulated, Error> {
    if network.stations.len() + network.pools.len() > usize::from(u16::MAX) {
        return Err(Error::invalid("network", "has more stations than rows can number", "leave rows out"));
    }
    Course::new(network, settings, progress)?.finish(Some(each))
}
