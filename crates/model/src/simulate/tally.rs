//! What was counted in one stretch of simulated time. Sums only, so that stretches can be added.
//!
//! **Areas** are integrals over time of a number present: mean number = area / time. Little's law
//! holds in a stretch exactly when the ages of those present at its two ends are counted too:
//!
//! ```text
//! area = Σ residence of those that left − Σ ages at the start + Σ ages at the end
//! ```
//!
//! The three sums are kept apart from each other, so the law checks them
//! ([`IntervalTally::check`]).

use serde::{Deserialize, Serialize};

use super::spread::SimulatedHistogram;
use crate::Error;

/// Sums over one stretch of time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct IntervalTally {
    /// Length of the stretch, in seconds.
    pub(super) time: f64,
    pub(super) classes: Vec<ClassTally>,
    /// Class by class at each station: `flows[station * classes + class]`.
    pub(super) flows: Vec<FlowTally>,
    /// Area of the busy servers at each station (at a delay: of those there).
    pub(super) busy: Vec<f64>,
    pub(super) pools: Vec<PoolTally>,
    /// Response times of each class.
    pub(super) responses: Vec<SimulatedHistogram>,
}

/// Requests of a class.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct ClassTally {
    pub(super) begun: u64,
    pub(super) completed: u64,
    pub(super) lost: u64,
    /// Sum of the response times of those completed.
    pub(super) response: f64,
    /// Sum of the times that lost ones spent before they were lost.
    pub(super) spent: f64,
    /// Area of those under way.
    pub(super) area: f64,
    /// Ages at the end minus ages at the start.
    pub(super) ages: f64,
}

/// Visits of a class to a station.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct FlowTally {
    pub(super) entered: u64,
    pub(super) left: u64,
    /// Found no room and went away.
    pub(super) refused: u64,
    /// Sum of the residence times of those that left.
    pub(super) residence: f64,
    /// Sum of the times from arrival to the start of service of those that left.
    pub(super) wait: f64,
    /// Sum of the service times brought in.
    pub(super) work: f64,
    /// Area of those there.
    pub(super) area: f64,
    /// Ages at the end minus ages at the start.
    pub(super) ages: f64,
}

/// A pool.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct PoolTally {
    /// Slots granted.
    pub(super) granted: u64,
    /// Found no room to wait and went away.
    pub(super) refused: u64,
    /// Area of the slots in use.
    pub(super) held: f64,
    /// Area of those that wait.
    pub(super) waiting: f64,
    /// Sum of the waits of those that got a slot.
    pub(super) wait: f64,
}

macro_rules! add_fields {
    ($into:expr, $from:expr, $($field:ident)+) => { $($into.$field += $from.$field;)+ };
}

impl FlowTally {
    /// The sum of two.
    pub(super) fn plus(mut self, other: &Self) -> Self {
        add_fields!(self, other, entered left refused residence wait work area ages);
        self
    }
}

impl IntervalTally {
    /// Of no time.
    pub(super) fn new(classes: usize, stations: usize, pools: usize) -> Self {
        Self {
            time: 0.0,
            classes: vec![ClassTally::default(); classes],
            flows: vec![FlowTally::default(); classes * stations],
            busy: vec![0.0; stations],
            pools: vec![PoolTally::default(); pools],
            responses: vec![SimulatedHistogram::default(); classes],
        }
    }

    /// Whether it is of a network with so many.
    pub(super) fn fits(&self, classes: usize, stations: usize, pools: usize) -> bool {
        let found =
            (self.classes.len(), self.flows.len(), self.busy.len(), self.pools.len(), self.responses.len());
        found == (classes, classes * stations, stations, pools, classes)
    }

    /// Adds another stretch.
    pub(super) fn add(&mut self, other: &Self) {
        self.time += other.time;
        for (into, from) in self.classes.iter_mut().zip(&other.classes) {
            add_fields!(into, from, begun completed lost response spent area ages);
        }
        for (into, from) in self.flows.iter_mut().zip(&other.flows) {
            *into = into.plus(from);
        }
        for (into, from) in self.busy.iter_mut().zip(&other.busy) {
            *into += from;
        }
        for (into, from) in self.pools.iter_mut().zip(&other.pools) {
            add_fields!(into, from, granted refused held waiting wait);
        }
        for (into, from) in self.responses.iter_mut().zip(&other.responses) {
            into.add(from);
        }
    }

    /// All stretches as one; `None` of none.
    pub(super) fn sum(tallies: &[Self]) -> Option<Self> {
        let (first, rest) = tallies.split_first()?;
        let mut sum = first.clone();
        rest.iter().for_each(|tally| sum.add(tally));
        Some(sum)
    }

    /// Little's law for every class and for every class at every station, to rounding, and no
    /// station busier than all its servers.
    ///
    /// # Errors
    /// [`Error::Violated`], naming the station or class.
    pub(super) fn check(&self, names: &StationNames<'_>) -> Result<(), Error> {
        let little = |place: &str, area: f64, sum: f64, scale: f64| {
            // Ages are differences of clock readings, so the error grows with the length of the
            // run.
            if (area - sum).abs() <= 1e-6 * scale.max(area) + 1e-9 {
                return Ok(());
            }
            let law = format!("Little's law: area {area} s, residence and ages {sum} s");
            Err(Error::Violated { station: place.into(), law })
        };
        for (class, name) in self.classes.iter().zip(names.classes) {
            let sum = class.response + class.spent + class.ages;
            little(&format!("class `{name}`"), class.area, sum, self.time)?;
        }
        let classes = names.classes.len();
        for (place, flow) in self.flows.iter().enumerate() {
            let name = names.stations[place / classes];
            little(&format!("station `{name}`"), flow.area, flow.residence + flow.ages, self.time)?;
        }
        for ((busy, servers), name) in self.busy.iter().zip(names.servers).zip(names.stations) {
            if *busy > servers * self.time * (1.0 + 1e-9) {
                let law = format!("{} busy of {servers} servers", busy / self.time);
                return Err(Error::Violated { station: format!("station `{name}`"), law });
            }
        }
        Ok(())
    }
}

/// Names for messages, and the number of servers (infinite at a delay).
pub(super) struct StationNames<'a> {
    pub(super) classes: &'a [&'a str],
    pub(super) stations: &'a [&'a str],
    pub(super) servers: &'a [f64],
}
