//! How a simulation is run, and how far it is.

use krarup_stats::USUAL_LEVEL;
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::Error;

/// How to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulationSettings {
    /// All randomness comes from it.
    pub seed: u64,
    /// Level of the intervals; between 0 and 1.
    pub level: f64,
    /// Enough is when the half width of every class's response time and throughput is at most this
    /// share of its value; 0 is never. A pilot tells beforehand how long that takes, and counts in
    /// no estimate.
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
    /// What the marginal standard error rule finds (MSER-5, on the number under way or the
    /// throughput); nothing where arrivals vary with time.
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
    /// Independent replications, each of this length (its warm-up included), as many as it needs;
    /// intervals from their spread. For arrivals that vary with time it is the only way.
    Replications {
        /// Simulated seconds of each; > 0.
        length: Seconds,
    },
    /// So many independent replications, whatever the precision: each can be simulated by itself,
    /// anywhere, and [`merge_parts`](super::merge_parts) gives what one run of all would.
    Counted {
        /// Simulated seconds of each; > 0.
        length: Seconds,
        /// How many, from 2 to 10,000.
        count: usize,
    },
}

/// More replications are not made.
pub const MOST_REPLICATIONS: usize = 10_000;

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulationProgress {
    /// Events so far.
    pub events: u64,
    /// Events at most.
    pub max_events: u64,
    /// Simulated seconds so far, of all replications.
    pub time: Seconds,
    /// Replications that are complete.
    pub replications: usize,
    /// The widest of the half widths that are to become narrow, relative to its value; `None` while
    /// there is none.
    pub precision: Option<f64>,
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
        if let Runs::Counted { count, .. } = self.runs
            && !(2..=MOST_REPLICATIONS).contains(&count)
        {
            let why = format!("are {count}");
            return wrong("replications", why, "ask for 2 at least, and no more than 10,000");
        }
        if let Runs::Replications { length } | Runs::Counted { length, .. } = self.runs {
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
