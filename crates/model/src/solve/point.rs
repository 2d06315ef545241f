//! The answer for one population, and how it is put together of demands and queue lengths.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::layered::Of;
use crate::network::{Demand, Network, StationKind};

use super::waits::Waits;

/// The answer at one population or arrival rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolutionPoint {
    /// By class.
    pub classes: Vec<ClassPoint>,
    /// By station, all classes together.
    pub stations: Vec<StationPoint>,
    /// By pool.
    pub pools: Vec<PoolPoint>,
    /// By class, at a station alone: how waits are spread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Waits>,
}

/// One class in the long run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassPoint {
    /// Name of the class.
    pub name: String,
    /// N of a closed class.
    pub population: Option<u64>,
    /// X, per second.
    pub throughput: f64,
    /// R, without the think time.
    pub response: Seconds,
    /// Residence time at each station, in the order of [`SolutionPoint::stations`].
    pub residence: Vec<Option<Seconds>>,
}

/// One station in the long run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StationPoint {
    /// Name of the station.
    pub name: String,
    /// Visits per second.
    pub throughput: f64,
    /// ρ: busy servers / servers; at a delay the mean number there.
    pub utilization: f64,
    /// Mean number there, in service included. Not known inside a fork, except at a delay.
    pub queue: Option<f64>,
    /// Residence time of one visit. Not known inside a fork, except at a delay.
    pub residence: Option<Seconds>,
}

/// One pool in the long run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolPoint {
    /// Name of the pool.
    pub name: String,
    /// Number of slots.
    pub size: u32,
    /// Mean number of slots in use.
    pub held: f64,
    /// Mean number that wait for a slot.
    pub waiting: f64,
    /// Mean wait for a slot, per request of the class.
    pub wait: Seconds,
    /// Mean time a slot is held, per request of the class.
    pub hold: Seconds,
}

/// Gathers the means of a single-class solution into one row for each station and pool.
pub(super) fn point<'a>(
    network: &Network,
    demands: &[Demand],
    throughput: f64,
    means: impl Iterator<Item = (&'a Of, f64)>,
    class_point: impl FnOnce(Vec<Option<Seconds>>) -> ClassPoint,
) -> SolutionPoint {
    let mut queues = vec![None; network.stations.len()];
    let mut idle = vec![None; network.stations.len()];
    let mut held = vec![(0.0, 0.0); network.pools.len()];
    for (of, value) in means {
        match of {
            Of::Queue(k) => queues[*k] = Some(value),
            Of::Idle(k) => idle[*k] = Some(value),
            Of::Held(p) => held[*p].0 = value,
            Of::Waiting(p) => held[*p].1 = value,
            Of::Fork(_) => {}
        }
    }
    // A delay may stand in several places, and in forks. No request waits there: Little's law.
    for ((queue, there), demand) in queues.iter_mut().zip(&network.stations).zip(demands) {
        if there.kind == StationKind::Delay && demand.visits > 0.0 {
            *queue = Some(throughput * demand.seconds);
        }
    }
    let stations = network
        .stations
        .iter()
        .enumerate()
        .map(|(k, there)| {
            let visits = throughput * demands[k].visits;
            let busy = throughput * demands[k].seconds;
            // A station that is not visited is not in the means, and empty.
            let queue = if demands[k].visits > 0.0 { queues[k] } else { Some(0.0) };
            StationPoint {
                name: there.name.clone(),
                throughput: visits,
                utilization: match &there.kind {
                    StationKind::Servers { count } => busy / f64::from(*count),
                    StationKind::Delay | StationKind::Link { .. } => busy,
                    StationKind::LoadDependent { rates } => {
                        // In a fork the share of the time that it is empty is not known: busy by
                        // the most it can do.
                        let most = rates.iter().copied().fold(0.0, f64::max);
                        idle[k].map_or(busy / most, |idle| 1.0 - idle)
                    }
                },
                queue,
                residence: queue.filter(|_| visits > 0.0).map(|queue| queue / visits),
            }
        })
        .collect();
    let pools = network
        .pools
        .iter()
        .zip(held)
        .map(|(pool, (held, waiting))| PoolPoint {
            name: pool.name.clone(),
            size: pool.size,
            held,
            waiting,
            wait: waiting / throughput,
            hold: held / throughput,
        })
        .collect();
    let residence = queues.iter().map(|queue| queue.map(|queue| queue / throughput)).collect();
    SolutionPoint { classes: vec![class_point(residence)], stations, pools, waits: Vec::new() }
}
