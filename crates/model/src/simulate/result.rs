//! What a simulation says: every estimate with the number of observations it rests on and an
//! interval.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::place::SimulatedStation;
pub use super::reading::SimulatedEstimate;
use super::sample::Sample;
use super::settings::SimulationSettings;
use super::tally::{FlowTally, IntervalTally, StationNames};
use crate::network::{Class, ClassWorkload, Network, StationKind, WhenFull};
use crate::{Distribution, Error};

/// The results of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Name of the network.
    pub network: String,
    /// What it was simulated with.
    pub settings: SimulationSettings,
    /// Why it ended.
    pub stop: StopReason,
    /// Events in all.
    pub events: u64,
    /// Simulated seconds in all.
    pub time: Seconds,
    /// Simulated seconds that were left out at the start (the longest of all replications).
    pub warm_up: Seconds,
    /// Simulated seconds after it that only told how long the rest had to be, and count in no
    /// estimate; of replications, all of those that did. 0 where the length was given.
    #[serde(default)]
    pub pilot: Seconds,
    /// Number of independent replications, the pilot's too; 1 is one long run.
    pub replications: usize,
    /// What to bear in mind.
    pub warnings: Vec<String>,
    /// By class.
    pub classes: Vec<ClassReading>,
    /// By station.
    pub stations: Vec<StationReading>,
    /// By pool.
    pub pools: Vec<PoolReading>,
    /// How it went over time, warm-up included, averaged over replications.
    pub timeline: Vec<Moment>,
}

/// Why a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The intervals are as narrow as was asked for.
    Precise,
    /// All events that were allowed have happened.
    Events,
    /// The caller asked to stop.
    Asked,
    /// All replications that were asked for are done.
    Counted,
    /// As many replications as are made at most are done.
    Replications,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassReading {
    /// Name of the class.
    pub name: String,
    /// N of a closed class.
    pub population: Option<u64>,
    /// X, completed per second.
    pub throughput: SimulatedEstimate,
    /// R, from begin to completion, of requests that completed; `None` if none did.
    pub response: Option<SimulatedEstimate>,
    /// Percentiles of R.
    pub percentiles: Vec<Percentile>,
    /// Mean number under way.
    pub present: SimulatedEstimate,
    /// Share of the requests that found no room and were lost. It has no interval where some may be
    /// and none was.
    pub lost: Option<SimulatedEstimate>,
    /// Throughput and mean response time of each replication, the pilot's too, to compare
    /// alternatives pair by pair; no response time where nothing was completed. Empty of one long
    /// run.
    pub by_replication: Vec<(f64, Option<Seconds>)>,
}

/// One percentile of a response time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Which: 0.99 is the 99th.
    pub share: f64,
    /// Its value in seconds, to three digits.
    pub response: SimulatedEstimate,
}

/// A share in percent, with the digits that it was asked for with: 99.99 of 0.9999.
pub(crate) fn percent(share: f64) -> f64 {
    (share * 1e7).round() / 1e5
}

/// One station, all classes together and each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StationReading {
    /// Name of the station.
    pub name: String,
    /// All classes together.
    pub all: FlowReading,
    /// By class, in the order of the network; those that never came are left out.
    pub classes: Vec<(String, FlowReading)>,
}

/// Visits to a station.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowReading {
    /// Visits completed per second.
    pub throughput: SimulatedEstimate,
    /// Busy servers / servers; at a delay the mean number there. Of a class: its share by the work
    /// it brought.
    pub utilization: SimulatedEstimate,
    /// Mean number there, in service included.
    pub queue: SimulatedEstimate,
    /// Residence time of a visit; `None` without visits.
    pub residence: Option<SimulatedEstimate>,
    /// Time from arrival to the start of service.
    pub wait: Option<SimulatedEstimate>,
    /// Visits refused for want of room.
    pub refused: u64,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolReading {
    /// Name of the pool.
    pub name: String,
    /// Number of slots.
    pub size: u32,
    /// Mean number of slots in use.
    pub held: SimulatedEstimate,
    /// Mean number that wait for a slot.
    pub waiting: SimulatedEstimate,
    /// Mean wait of the requests that got a slot; `None` if none did.
    pub wait: Option<SimulatedEstimate>,
    /// Mean time a slot is held.
    pub hold: Option<SimulatedEstimate>,
    /// Requests refused for want of room to wait.
    pub refused: u64,
}

/// A stretch of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Its begin and end in simulated time.
    pub from: Seconds,
    /// Its end.
    pub to: Seconds,
    /// For each class: begun and completed per second, mean response time of those completed, mean
    /// number under way.
    pub classes: Vec<MomentClass>,
}

/// One class in one stretch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MomentClass {
    /// Requests begun per second.
    pub begun: f64,
    /// Requests completed per second.
    pub throughput: f64,
    /// Mean response time of those completed; `None` if none was.
    pub response: Option<Seconds>,
    /// Mean number under way.
    pub present: f64,
}

/// Reads all estimates from a sample, after checking every part of it.
pub(super) fn read(
    network: &Network,
    settings: &SimulationSettings,
    sample: &Sample<'_>,
) -> Result<Simulated, Error> {
    let classes: Vec<&str> = network.classes.iter().map(|class| class.name.as_str()).collect();
    let stations: Vec<&str> = network.stations.iter().map(|station| station.name.as_str()).collect();
    let servers: Vec<f64> = network.stations.iter().map(SimulatedStation::servers).collect();
    let names = StationNames { classes: &classes, stations: &stations, servers: &servers };
    sample.parts().iter().try_for_each(|part| part.check(&names))?;
    let of_class = |class| class_reading(network, settings, sample, class);
    let class_readings: Vec<ClassReading> = (0..classes.len()).map(of_class).collect();
    let warnings = warnings(network, &class_readings);
    let count = classes.len();
    let station_readings = network
        .stations
        .iter()
        .enumerate()
        .map(|(place, station)| {
            let own = |class: usize| move |part: &IntervalTally| part.flows[place * count + class];
            let all = |part: &IntervalTally| sum_of(&part.flows[place * count..(place + 1) * count]);
            let whole = if station.kind == StationKind::Delay { 1.0 } else { servers[place] };
            let busy = |part: &IntervalTally| part.busy[place] / whole;
            let share = |part: &IntervalTally, class: usize| {
                let work = all(part).work;
                if work > 0.0 { busy(part) * own(class)(part).work / work } else { 0.0 }
            };
            StationReading {
                name: station.name.clone(),
                all: flow(sample, all, busy),
                classes: (0..count)
                    .filter(|&class| {
                        sample.count(|part| own(class)(part).entered + own(class)(part).refused) > 0
                    })
                    .map(|class| {
                        let reading = flow(sample, own(class), |part| share(part, class));
                        (classes[class].to_owned(), reading)
                    })
                    .collect(),
            }
        })
        .collect();
    let pools = (0..network.pools.len()).map(|pool| pool_reading(network, sample, pool)).collect();
    Ok(Simulated {
        network: network.name.clone(),
        settings: settings.clone(),
        stop: StopReason::Events,
        events: 0,
        time: 0.0,
        warm_up: 0.0,
        pilot: 0.0,
        replications: sample.replicated().map_or(1, <[IntervalTally]>::len),
        warnings,
        classes: class_readings,
        stations: station_readings,
        pools,
        timeline: Vec::new(),
    })
}

/// What to bear in mind of each class.
fn warnings(network: &Network, readings: &[ClassReading]) -> Vec<String> {
    let mut warnings = Vec::new();
    for class in readings {
        match class.response {
            None => warnings.push(format!("no request of class `{}` was completed", class.name)),
            Some(SimulatedEstimate { interval: None, .. }) => warnings.push(format!(
                "the response time of class `{}` has no interval: the run is too short for its correlation",
                class.name
            )),
            Some(_) => {}
        }
    }
    for class in &network.classes {
        let times = without_variance(network, class);
        if !times.is_empty() {
            warnings.push(format!(
                "{} of class `{}` have no finite variance: means may have no limit, and intervals are not to \
                 be believed, however long the run",
                times.join(" and "),
                class.name
            ));
        }
    }
    warnings
}

/// The times of a class whose variance is infinite.
fn without_variance(network: &Network, class: &Class) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |name: String, time: &Distribution| {
        if !time.scv().is_finite() && !found.contains(&name) {
            found.push(name);
        }
    };
    match &class.workload {
        ClassWorkload::Open { gap, .. } => add("gaps".into(), gap),
        ClassWorkload::Closed { think, .. } => add("think times".into(), think),
    }
    network.walk(&class.path, 1.0, &mut |_, station, work| {
        let station = &network.stations[station.0];
        add(format!("service times at `{}`", station.name), &station.service_time(work));
    });
    found
}

/// Whether a request may find no room and be lost.
fn may_lose(network: &Network) -> bool {
    let loses = |room: Option<u64>, full: WhenFull| room.is_some() && full == WhenFull::Lose;
    network.stations.iter().any(|station| loses(station.capacity, station.when_full))
        || network.pools.iter().any(|pool| loses(pool.waiting, pool.when_full))
}

fn class_reading(
    network: &Network,
    settings: &SimulationSettings,
    sample: &Sample<'_>,
    class: usize,
) -> ClassReading {
    let description = &network.classes[class];
    let begun = |part: &IntervalTally| part.classes[class].begun;
    let percentile = |&share: &f64| Some(Percentile { share, response: sample.percentile(class, share)? });
    let each = |part: &IntervalTally| {
        let sums = &part.classes[class];
        let response = (sums.completed > 0).then(|| sums.response / sums.completed as f64);
        (sums.completed as f64 / part.time, response)
    };
    let replications = sample.replicated().unwrap_or_default();
    let lost = sample.per(begun, |part| part.classes[class].lost as f64).map(|lost| {
        // That none was lost in this run does not say how rare a loss is.
        let unseen = lost.value == 0.0 && may_lose(network);
        SimulatedEstimate { interval: lost.interval.filter(|_| !unseen), ..lost }
    });
    ClassReading {
        name: description.name.clone(),
        population: description.population(),
        throughput: sample.throughput(class),
        response: sample.response(class),
        percentiles: settings.percentiles.iter().filter_map(percentile).collect(),
        present: sample.mean(begun, |part| part.classes[class].area),
        lost,
        by_replication: replications.iter().map(each).collect(),
    }
}

fn pool_reading(network: &Network, sample: &Sample<'_>, pool: usize) -> PoolReading {
    let description = &network.pools[pool];
    let granted = |part: &IntervalTally| part.pools[pool].granted;
    PoolReading {
        name: description.name.clone(),
        size: description.size,
        held: sample.mean(granted, |part| part.pools[pool].held),
        waiting: sample.mean(granted, |part| part.pools[pool].waiting),
        wait: sample.per(granted, |part| part.pools[pool].wait),
        // Little's law over the slots.
        hold: sample.per(granted, |part| part.pools[pool].held),
        refused: sample.count(|part| part.pools[pool].refused),
    }
}

fn sum_of(flows: &[FlowTally]) -> FlowTally {
    flows.iter().fold(FlowTally::default(), FlowTally::plus)
}

fn flow(
    sample: &Sample<'_>,
    of: impl Fn(&IntervalTally) -> FlowTally,
    busy: impl Fn(&IntervalTally) -> f64,
) -> FlowReading {
    let left = |part: &IntervalTally| of(part).left;
    FlowReading {
        throughput: sample.rate(left),
        utilization: sample.mean(left, busy),
        queue: sample.mean(left, |part| of(part).area),
        residence: sample.per(left, |part| of(part).residence),
        wait: sample.per(left, |part| of(part).wait),
        refused: sample.count(|part| of(part).refused),
    }
}

/// The run over time; `replications` have been added up in each part.
pub(super) fn timeline(parts: &[&IntervalTally], origin: Seconds, replications: usize) -> Vec<Moment> {
    let mut to = origin;
    parts
        .iter()
        .map(|part| {
            let from = to;
            to += part.time / replications as f64;
            let classes = part.classes.iter().map(|class| MomentClass {
                begun: class.begun as f64 / part.time,
                throughput: class.completed as f64 / part.time,
                response: (class.completed > 0).then(|| class.response / class.completed as f64),
                present: class.area / part.time,
            });
            Moment { from, to, classes: classes.collect() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_share_in_percent_has_no_more_digits_than_it_was_asked_for_with() {
        assert_eq!([0.683, 0.57, 0.999, 0.9999].map(percent), [68.3, 57.0, 99.9, 99.99]);
    }
}
