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
//! | `agenda` | what happens next |
//! | `random` | random streams with names |
//! | `program` | a path as a list of instructions |
//! | `place` | one station's state |
//! | `engine` | requests moving through stations, pools and forks |
//! | `tally` | sums over a stretch of time, and Little's law over them |
//! | `spread` | how response times are distributed |
//! | `rows` | one row per visit, in the type of measured ones |
//! | `course` | warm-up, batches, and when it is enough |
//! | `sample` | estimates with intervals, from batches or replications |
//! | [`result`] | what a simulation says |
//!
//! **What a run costs in memory** does not grow with its length: time is cut into at most 128 batches, and when they are too many,
//! neighbours are joined. **Repeatable:** the same network, settings and version give the same bits; nothing here
//! reads a clock.
//!
//! **What a description means here**, beyond what it says itself:
//!
//! - A request that finds its next station full, where that blocks, keeps its place and (at FCFS, LIFO and priority
//!   stations) its server until there is room. From outside, from a fork and while it waits for a slot it has no place to keep.
//! - A copy of a fork that finds no room answers never; when too few are left to answer, the whole request is lost.
//! - With several servers, preemptive LIFO interrupts the service that began first.
//! - `visits = 2.5` is two visits in half of the cases and three in the other.

use std::ops::ControlFlow;

use krarup_record::{ServerVisit, Visit};
use krarup_stats::USUAL_LEVEL;
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use self::course::Course;
use self::result::Simulated;
use crate::Error;
use crate::network::Network;

mod agenda;
mod course;
mod engine;
mod place;
mod program;
mod random;
pub mod result;
mod rows;
mod sample;
mod spread;
mod tables;
mod tally;

/// How to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulationSettings {
    /// All randomness comes from it.
    pub seed: u64,
    /// Level of the intervals; between 0 and 1.
    pub level: f64,
    /// Enough is when the half width of every class's response time and throughput is at most this share of
    /// its value; 0 is never. A pilot tells beforehand how long that takes, and counts in no estimate.
    pub precision: f64,
    /// Events at most (arrivals, ends of thinking, completed services); ≥ 1.
    pub max_events: u64,
    /// What is left out at the start.
    pub warm_up: WarmUpRule,
    /// One long run or many short ones.
    pub runs: Runs,
    /// Which percentiles of the response times, as shares between 0 and 1.
    pub percentiles: Vec<f64>,
}

impl Default for SimulationSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            level: USUAL_LEVEL,
            precision: 0.01,
            max_events: 50_000_000,
            warm_up: WarmUpRule::Detect,
            runs: Runs::Long,
            percentiles: vec![0.5, 0.9, 0.95, 0.99],
        }
    }
}

/// What is left out at the start of each run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarmUpRule {
    /// What the marginal standard error rule finds (MSER-5, on the number under way or the throughput); nothing
    /// where arrivals vary with time.
    #[default]
    Detect,
    /// So many seconds of simulated time.
    Seconds(Seconds),
}

/// One long run or many short ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runs {
    /// One run, as long as it needs; intervals by batch means.
    #[default]
    Long,
    /// Independent replications, each of this length (its warm-up included), as many as it needs; intervals from
    /// their spread. For arrivals that vary with time it is the only way.
    Replications {
        /// Simulated seconds of each; > 0.
        length: Seconds,
    },
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Events so far.
    pub events: u64,
    /// Events at most.
    pub max_events: u64,
    /// Simulated seconds so far, of all replications.
    pub time: Seconds,
    /// Replications that are complete.
    pub replications: usize,
    /// The widest of the half widths that are to become narrow, relative to its value; `None` while there is none.
    pub precision: Option<f64>,
}

/// Simulates a network. `progress` is called now and then, and may stop the run: what has been simulated counts.
///
/// # Errors
/// What [`Network::check`] finds; a setting out of its range; [`Error::Unstable`] where an open network without limits
/// is offered more than it can do; [`Error::TooLarge`] when requests pile up without end; a deadlock; and
/// [`Error::Violated`] when the result breaks Little's law or the balance of flows.
pub fn simulate(
    network: &Network,
    settings: &SimulationSettings,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Simulated, Error> {
    Course::new(network, settings, progress)?.finish(None)
}

/// As [`simulate`], and calls `each` with a row for every visit to a station and every hold of a pool's slot when it is over, warm-up and
/// all replications included. Stations are numbered in the order of the network, pools after them; operations are classes
/// of the same name, or `other`.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with_visits(
    network: &Network,
    settings: &SimulationSettings,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    each: &mut dyn FnMut(&Visit, &[ServerVisit]),
) -> Result<Simulated, Error> {
    if network.stations.len() + network.pools.len() > usize::from(u16::MAX) {
        return Err(Error::invalid("network", "has more stations than rows can number", "leave rows out"));
    }
    Course::new(network, settings, progress)?.finish(Some(each))
}

impl SimulationSettings {
    /// Checks every number against its range.
    ///
    /// # Errors
    /// Names the first that is wrong.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |thing: &str, why: String, hint: &str| Err(Error::invalid(thing, why, hint));
        let inside = |share: f64| share > 0.0 && share < 1.0;
        if !inside(self.level) {
            return wrong("level", format!("is {}", self.level), "0.95 is 95 %");
        }
        if !(self.precision >= 0.0 && self.precision.is_finite()) {
            return wrong("precision", format!("is {}", self.precision), "0.01 is 1 %");
        }
        if self.max_events == 0 {
            return wrong("max_events", "is 0".into(), "allow some thousands at least");
        }
        if let Some(share) = self.percentiles.iter().find(|share| !inside(**share)) {
            return wrong("percentiles", format!("one is {share}"), "0.99 is the 99th");
        }
        if let WarmUpRule::Seconds(time) = self.warm_up
            && !(time >= 0.0 && time.is_finite())
        {
            return wrong("warm-up", format!("is {time} s"), "write a time of 0 or more");
        }
        if let Runs::Replications { length } = self.runs {
            if !(length > 0.0 && length.is_finite()) {
                return wrong("length of a replication", format!("is {length} s"), "write a time above 0");
            }
            if let WarmUpRule::Seconds(time) = self.warm_up
                && time >= length
            {
                return wrong("warm-up", format!("of {time} s leaves nothing of {length} s"), "shorten it");
            }
        }
        Ok(())
    }
}
