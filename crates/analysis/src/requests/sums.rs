//! What is counted of rows: whole numbers only, so that sums of parts add up exactly, in any order.

use krarup_record::{MeasuredDistribution, Parts, Quantity as Time, ServerVisit, Visit, VisitTally};
use krarup_units::Stamp;
use serde::{Deserialize, Serialize};

use super::cut::{BATCHES, Cut};

/// Stations and servers beyond these numbers are counted with the last.
const MOST_PLACES: usize = 256;
/// The times that are kept of each operation.
pub(super) const TIMES: [Time; 4] = [Time::Response, Time::Queue, Time::Server, Time::Own];

/// Everything that is counted of rows, within one cut.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowSums {
    pub(super) rows: u64,
    pub(super) disordered: u64,
    /// By number; none where a station was not visited.
    #[serde(with = "by_number")]
    pub(super) stations: Vec<Option<Box<StationSums>>>,
    /// As many as the cut has.
    #[serde(with = "by_window")]
    pub(super) windows: Vec<VisitTally>,
}

impl RowSums {
    /// Of no row.
    pub fn new(cut: &Cut) -> Self {
        let windows = vec![VisitTally::EMPTY; cut.windows()];
        Self { rows: 0, disordered: 0, stations: Vec::new(), windows }
    }

    /// How many rows were counted.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn see(&mut self, cut: &Cut, visit: &Visit, servers: &[ServerVisit]) {
        self.rows += 1;
        self.disordered += u64::from(!visit.is_ordered(servers));
        let parts = visit.parts(servers);
        if cut.begun <= visit.replied && visit.replied <= cut.ended {
            let window = (visit.replied - cut.begun).0 / cut.window.0;
            if let Some(tally) = self.windows.get_mut(window as usize) {
                tally.add(visit, &parts);
            }
        }
        let station = usize::from(visit.station).min(MOST_PLACES - 1);
        if station >= self.stations.len() {
            self.stations.resize_with(station + 1, || None);
        }
        self.stations[station].get_or_insert_default().see(cut, visit, servers, &parts);
    }

    /// Whether they can be of rows within this cut: what was read from a file may be anything.
    pub fn fits(&self, cut: &Cut) -> bool {
        self.windows.len() <= cut.windows()
    }

    /// Adds what was counted of other rows, within the same cut: as if all had been read here.
    pub fn merge(&mut self, other: &Self) {
        self.rows = self.rows.saturating_add(other.rows);
        self.disordered = self.disordered.saturating_add(other.disordered);
        merge_all(&mut self.stations, &other.stations, StationSums::merge);
        if self.windows.len() < other.windows.len() {
            self.windows.resize(other.windows.len(), VisitTally::EMPTY);
        }
        for (ours, theirs) in self.windows.iter_mut().zip(&other.windows) {
            ours.merge(theirs);
        }
    }
}

/// Adds, place by place, what others have there.
fn merge_all<T: Clone>(ours: &mut Vec<Option<Box<T>>>, theirs: &[Option<Box<T>>], merge: fn(&mut T, &T)) {
    if ours.len() < theirs.len() {
        ours.resize_with(theirs.len(), || None);
    }
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => merge(ours, theirs),
            (ours @ None, Some(theirs)) => *ours = Some(theirs.clone()),
            (_, None) => {}
        }
    }
}

/// Everything that is counted of the visits to one station in the measured span.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StationSums {
    /// By the place of the operation in [`krarup_record::Operation::ALL`]; in files by its name.
    #[serde(with = "by_operation")]
    pub(super) operations: Vec<Option<Box<OperationSums>>>,
    pub(super) station: PresenceSums,
    pub(super) queue: PresenceSums,
    pub(super) workers: PresenceSums,
    #[serde(with = "by_number")]
    pub(super) servers: Vec<Option<Box<ServerSums>>>,
}

impl StationSums {
    fn see(&mut self, cut: &Cut, visit: &Visit, servers: &[ServerVisit], parts: &Parts) {
        self.station.see(cut, visit.received, visit.replied);
        if visit.taken > visit.queued || visit.busy_workers > 0 {
            self.queue.see(cut, visit.queued, visit.taken);
        }
        if visit.busy_workers > 0 {
            self.workers.see(cut, visit.taken, visit.replied);
        }
        for one in servers {
            let place = usize::from(one.server).min(MOST_PLACES - 1);
            if place >= self.servers.len() {
                self.servers.resize_with(place + 1, || None);
            }
            self.servers[place].get_or_insert_default().see(cut, one);
        }
        if cut.counts(visit.replied) {
            let place = visit.operation.index();
            if place >= self.operations.len() {
                self.operations.resize_with(place + 1, || None);
            }
            let batch = cut.batch(visit.replied);
            self.operations[place].get_or_insert_default().see(batch, visit, parts);
        }
    }

    fn merge(&mut self, other: &Self) {
        merge_all(&mut self.operations, &other.operations, OperationSums::merge);
        self.station.merge(&other.station);
        self.queue.merge(&other.queue);
        self.workers.merge(&other.workers);
        merge_all(&mut self.servers, &other.servers, ServerSums::merge);
    }
}

/// How many are at a place, and how long.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PresenceSums {
    pub(super) arrived: u64,
    pub(super) went: u64,
    /// Whole times of those that went in the span.
    pub(super) times: u128,
    /// How much of all times lies in the span.
    pub(super) overlaps: u128,
}

impl PresenceSums {
    fn see(&mut self, cut: &Cut, from: Stamp, to: Stamp) {
        self.arrived += u64::from(cut.counts(from));
        self.overlaps += u128::from(cut.overlap(from, to).0);
        if cut.counts(to) {
            self.went += 1;
            self.times += u128::from(to.0.saturating_sub(from.0));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.arrived = self.arrived.saturating_add(other.arrived);
        self.went = self.went.saturating_add(other.went);
        self.times = self.times.saturating_add(other.times);
        self.overlaps = self.overlaps.saturating_add(other.overlaps);
    }
}

/// One server's part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerSums {
    pub(super) presence: PresenceSums,
    pub(super) errors: u64,
    pub(super) times: [MeasuredDistribution; BATCHES],
}

impl Default for ServerSums {
    fn default() -> Self {
        Self {
            presence: PresenceSums::default(),
            errors: 0,
            times: std::array::from_fn(|_| MeasuredDistribution::new()),
        }
    }
}

impl ServerSums {
    fn see(&mut self, cut: &Cut, one: &ServerVisit) {
        self.presence.see(cut, one.sent, one.answered);
        if cut.counts(one.answered) {
            self.errors += u64::from(one.outcome.is_error());
            self.times[cut.batch(one.answered)].record(one.time());
        }
    }

    fn merge(&mut self, other: &Self) {
        self.presence.merge(&other.presence);
        self.errors = self.errors.saturating_add(other.errors);
        for (ours, theirs) in self.times.iter_mut().zip(&other.times) {
            ours.merge(theirs);
        }
    }
}

/// One operation, batch by batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct OperationSums {
    pub(super) batches: [BatchSums; BATCHES],
}

/// One batch of one operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchSums {
    pub(super) tally: VisitTally,
    /// In the order of [`TIMES`]; made when the first value comes.
    times: [Option<MeasuredDistribution>; TIMES.len()],
}

impl BatchSums {
    pub(super) fn of(&self, time: Time) -> Option<&MeasuredDistribution> {
        let place = TIMES.iter().position(|known| *known == time)?;
        self.times[place].as_ref()
    }
}

impl OperationSums {
    fn see(&mut self, batch: usize, visit: &Visit, parts: &Parts) {
        let batch = &mut self.batches[batch];
        batch.tally.add(visit, parts);
        for (time, kept) in TIMES.iter().zip(&mut batch.times) {
            kept.get_or_insert_with(MeasuredDistribution::new).record(time.of(parts));
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.batches.iter_mut().zip(&other.batches) {
            mine.tally.merge(&theirs.tally);
            for (mine, theirs) in mine.times.iter_mut().zip(&theirs.times) {
                if let Some(theirs) = theirs {
                    mine.get_or_insert_with(MeasuredDistribution::new).merge(theirs);
                }
            }
        }
    }
}

/// Lists of which most places are empty, in files: the places that are not, with their numbers.
mod by_number {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer, T: Serialize>(
        list: &[Option<Box<T>>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let there = list.iter().enumerate().filter_map(|(place, one)| Some((place, one.as_ref()?)));
        serializer.collect_seq(there)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<Vec<Option<Box<T>>>, D::Error> {
        let mut list = Vec::new();
        for (place, one) in Vec::<(usize, Box<T>)>::deserialize(deserializer)? {
            if place >= super::MOST_PLACES {
                return Err(D::Error::custom(format_args!("{place} is no number of a place")));
            }
            if place >= list.len() {
                list.resize_with(place + 1, || None);
            }
            list[place] = Some(one);
        }
        Ok(list)
    }
}

/// The same by the names of operations, of which a later program may have others.
mod by_operation {
    use krarup_record::Operation;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::OperationSums;

    pub(super) fn serialize<S: Serializer>(
        list: &[Option<Box<OperationSums>>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let named = Operation::ALL.iter().zip(list);
        serializer.collect_seq(named.filter_map(|(name, one)| Some((name, one.as_ref()?))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Option<Box<OperationSums>>>, D::Error> {
        let mut list = Vec::new();
        for (name, one) in Vec::<(Operation, Box<OperationSums>)>::deserialize(deserializer)? {
            if name.index() >= list.len() {
                list.resize_with(name.index() + 1, || None);
            }
            list[name.index()] = Some(one);
        }
        Ok(list)
    }
}

/// Windows in which nothing ended are left out in files.
mod by_window {
    use krarup_record::VisitTally;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::requests::cut::MOST_WINDOWS;

    pub(super) fn serialize<S: Serializer>(list: &[VisitTally], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().enumerate().filter(|(_, tally)| tally.count > 0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<VisitTally>, D::Error> {
        let mut list = Vec::new();
        for (place, tally) in Vec::<(u64, VisitTally)>::deserialize(deserializer)? {
            if place > MOST_WINDOWS {
                return Err(D::Error::custom(format_args!("{place} is no number of a window")));
            }
            if place as usize >= list.len() {
                list.resize(place as usize + 1, VisitTally::EMPTY);
            }
            list[place as usize] = tally;
        }
        Ok(list)
    }
}
