//! Replications that are simulated apart, on other machines if need be, and what they say together.
//!
//! ```text
//! replications 1–25 of 100 ─▶ SimulationPart ─┐
//! replications 26–50       ─▶ SimulationPart ─┼─▶ merge_parts ─▶ Simulated, as of one run of 100
//! …                        ─▶ SimulationPart ─┘
//! ```
//!
//! Each replication has random streams of its own, by its number; what it counted is added up in
//! the order of the numbers. So the result has the same bits, however they were divided.

use std::ops::{ControlFlow, Range};

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::course::{CountedRun, Course};
use super::result::Simulated;
use super::settings::{Runs, SimulationProgress, SimulationSettings};
use crate::Error;
use crate::network::Network;

/// The version of [`SimulationPart`].
const VERSION: u32 = 1;

/// Some of the replications of a simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulationPart {
    version: u32,
    network: Network,
    settings: SimulationSettings,
    runs: Vec<CountedRun>,
}

impl SimulationPart {
    /// The numbers of its replications, from one.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.runs.iter().map(|run| run.number + 1)
    }
}

/// How long each replication is, and how many there are.
fn counted(settings: &SimulationSettings) -> Result<(Seconds, usize), Error> {
    match settings.runs {
        Runs::Counted { length, count } => Ok((length, count)),
        _ => Err(Error::invalid("part", "is of no certain number of replications", "say how many there are")),
    }
}

/// Simulates some of the replications, by their numbers from zero.
///
/// # Errors
/// As [`simulate`](super::simulate()); [`Error::Stopped`] where `progress` says so: a part has all
/// its replications, or is none.
pub fn simulate_part(
    network: &Network,
    settings: &SimulationSettings,
    numbers: Range<usize>,
    progress: &mut dyn FnMut(&SimulationProgress) -> ControlFlow<()>,
) -> Result<SimulationPart, Error> {
    let (length, count) = counted(settings)?;
    if numbers.is_empty() || numbers.end > count {
        let why = format!("is {} to {} of {count}", numbers.start + 1, numbers.end);
        return Err(Error::invalid("replication", why, "they are numbered from 1 to as many as there are"));
    }
    let runs = Course::new(network, settings, progress)?.counted(numbers, length, None)?;
    Ok(SimulationPart { version: VERSION, network: network.clone(), settings: settings.clone(), runs })
}

/// What all replications say together: the same as one run of them all.
///
/// # Errors
/// A part of another network, or with other settings; a replication that is missing, or is there
/// twice.
pub fn merge_parts(parts: Vec<SimulationPart>) -> Result<Simulated, Error> {
    let wrong = |why: String, hint: &str| Err(Error::invalid("parts", why, hint));
    let Some(first) = parts.first() else {
        return wrong("are none".into(), "name the files of all parts");
    };
    let (network, settings) = (first.network.clone(), first.settings.clone());
    let (length, count) = counted(&settings)?;
    let mut runs: Vec<CountedRun> = Vec::with_capacity(count);
    for part in parts {
        if part.version != VERSION {
            return wrong(format!("are of version {}", part.version), "use the program that wrote them");
        }
        if part.network != network || part.settings != settings {
            return wrong("are of different simulations".into(), "all need the same network and settings");
        }
        runs.extend(part.runs);
    }
    runs.sort_by_key(|run| run.number);
    if let Some(pair) = runs.windows(2).find(|pair| pair[0].number == pair[1].number) {
        return wrong(format!("have replication {} twice", pair[0].number + 1), "name each part once");
    }
    let missing: Vec<String> = (0..count)
        .filter(|number| runs.binary_search_by_key(number, |run| run.number).is_err())
        .map(|number| (number + 1).to_string())
        .collect();
    if !missing.is_empty() {
        let some = missing[..missing.len().min(10)].join(", ");
        let more = if missing.len() > 10 { ", …" } else { "" };
        let why = format!("lack {} of {count} replications: {some}{more}", missing.len());
        return wrong(why, "simulate these as well: a mean of the others would be another one");
    }
    let classes = network.classes.len();
    let fits = |run: &CountedRun| {
        run.number < count
            && run.batches.iter().all(|part| part.fits(classes, network.stations.len(), network.pools.len()))
    };
    if !runs.iter().all(fits) {
        return wrong("do not fit their network".into(), "the files are damaged");
    }
    let mut quiet = |_: &SimulationProgress| ControlFlow::Continue(());
    Course::new(&network, &settings, &mut quiet)?.together(runs, length)
}
