//! One pass over the rows of a run: memory by the length of the run, and not by its requests.

use krarup_record::{MeasuredDistribution, Operation, Quantity as Time, ServerVisit, Visit, VisitTally};
use krarup_stats::steady::{WarmUp, mser};
use krarup_units::Nanos;

use super::cut::{BATCHES, Cut};
use super::estimates::{
    EstimateWindow, Occupancy, OperationEstimates, RequestEstimates, SHARES, ServerEstimates, Settled,
    StationEstimates, TimeSpread,
};
use super::sums::{OperationSums, PresenceSums, RowSums, StationSums};
use crate::quantity::{IntervalBasis, Quantity};
use crate::steadiness;
use crate::trial::TrialHistogram;
use crate::warning::Warning;

/// The width of the buckets of histograms.
const BUCKET: Nanos = krarup_record::histogram::BUCKET;
/// How far Little's law may be off, and arrivals from completions.
const LAW: f64 = 0.05;
/// Fewer requests than this, averaged over time, are no difference worth a warning.
const FEW: f64 = 0.05;
/// A percentile beyond which fewer requests lie, two in each batch, has no interval: that of a
/// batch is nearly its greatest value, which scatters by less than the percentile is off.
const BEYOND: f64 = 2.0 * BATCHES as f64;

/// Reads rows one by one.
pub struct RowReader {
    cut: Cut,
    sums: RowSums,
    of_clients: bool,
    sample: Option<String>,
}

impl RowReader {
    /// Has read nothing yet.
    pub fn new(cut: Cut) -> Self {
        Self::with(cut, RowSums::new(&cut))
    }

    /// Has read what these sums, of the same cut, are of.
    pub fn with(cut: Cut, sums: RowSums) -> Self {
        Self { cut, sums, of_clients: false, sample: None }
    }

    /// The rows are a load generator's, or not.
    #[must_use]
    pub fn of_clients(self, of_clients: bool) -> Self {
        Self { of_clients, ..self }
    }

    /// There are only rows of some keys, as `1/16`; or of all.
    #[must_use]
    pub fn of_sample(self, sample: Option<String>) -> Self {
        Self { sample, ..self }
    }

    /// Counts one row. They may come in any order.
    pub fn see(&mut self, visit: &Visit, servers: &[ServerVisit]) {
        self.sums.see(&self.cut, visit, servers);
    }

    /// What was counted, to be added to that of others.
    pub fn sums(self) -> RowSums {
        self.sums
    }

    /// What all of them say. `lost` rows could not be kept by the program that wrote them.
    pub fn end(self, lost: u64) -> RequestEstimates {
        let cut = self.cut;
        let stations = self.sums.stations.iter().enumerate().filter_map(|(station, sums)| {
            Some(sums.as_ref()?.estimates(&cut, station as u16, self.of_clients))
        });
        let stations: Vec<StationEstimates> = stations.collect();
        // A request has a row at each station it visits: all of them together are no throughput.
        // Each request of clients has one row, whose station is its class.
        let one_row_each = self.of_clients || stations.len() < 2;
        let windows = if one_row_each { windows(&cut, &self.sums.windows) } else { Vec::new() };
        // The last window is cut short by the end, and the first by the first request.
        let whole = windows.get(1..windows.len().saturating_sub(1)).unwrap_or_default();
        let rate = |window: &EstimateWindow| Some(window.completed as f64 / window.length);
        let response = |window: &EstimateWindow| window.response;
        let settled = [settled(whole, rate), settled(whole, response)];
        let mut found = RequestEstimates {
            rows: self.sums.rows,
            run: (cut.ended - cut.begun).as_seconds(),
            from: (cut.from - cut.begun).as_seconds(),
            length: cut.length(),
            window: cut.window.as_seconds(),
            stations,
            windows,
            settled,
            warnings: Vec::new(),
            of_clients: self.of_clients,
        };
        if let Some(sample) = self.sample {
            found.warnings.push(Warning::Sampled { keys: sample });
        }
        found.warnings.extend(warnings(&found, lost, self.sums.disordered));
        found
    }
}

fn windows(cut: &Cut, tallies: &[VisitTally]) -> Vec<EstimateWindow> {
    let run = (cut.ended - cut.begun).as_seconds();
    let width = cut.window.as_seconds();
    let window = |(number, tally): (usize, &VisitTally)| {
        let start = number as f64 * width;
        let mean = |sum: Nanos| (tally.count > 0).then(|| sum.as_seconds() / tally.count as f64);
        EstimateWindow {
            start,
            length: width.min(run - start),
            completed: tally.count,
            response: mean(tally.response_time),
            queue: mean(tally.queue_time),
            server: mean(tally.server_time),
            own: mean(tally.own_time),
            queue_length: tally.mean_queue_length_seen(),
        }
    };
    tallies.iter().enumerate().map(window).filter(|window| window.length > 0.0).collect()
}

/// The series begins with the second window, so that one more is left out than the rule says.
/// Windows without a value count as time, too.
fn settled(windows: &[EstimateWindow], of: fn(&EstimateWindow) -> Option<f64>) -> Settled {
    let series = windows.iter().enumerate().filter_map(|(place, window)| Some((place, of(window)?)));
    let (places, values): (Vec<usize>, Vec<f64>) = series.unzip();
    match mser(&values) {
        Ok(WarmUp::Ends { after, .. }) if places[after] == 0 => Settled::After(0.0),
        Ok(WarmUp::Ends { after, .. }) => Settled::After(windows[places[after]].start),
        Ok(WarmUp::NotOver { .. }) => Settled::Never,
        Err(_) => Settled::Unknown,
    }
}

fn warnings(found: &RequestEstimates, lost: u64, disordered: u64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if lost > 0 {
        warnings.push(Warning::RowsLost { lost, kept: found.rows });
    }
    if disordered > 0 {
        warnings.push(Warning::Disordered { rows: disordered, of: found.rows });
    }
    // The end cuts the last window short: the rate of a few milliseconds is no rate of a window.
    let whole = found.window * (1.0 - 1e-9);
    let within = |window: &&EstimateWindow| {
        let end = window.start + window.length;
        window.length >= whole && window.start >= found.from && end <= found.from + found.length
    };
    let rates: Vec<f64> =
        found.windows.iter().filter(within).map(|window| window.completed as f64 / window.length).collect();
    warnings.extend(steadiness::of_rates(&rates, found.window));
    for station in &found.stations {
        let Some(all) = station.operations.first() else { continue };
        if all.errors > 0 {
            warnings.push(Warning::Errors { errors: all.errors, completed: all.count });
        }
        for place in &station.places {
            let name = || match station.station {
                0 => place.name.clone(),
                other => format!("{} of station {other}", place.name),
            };
            let (present, by_law) = (place.present, place.by_law());
            if (present - by_law).abs() > (LAW * present.max(by_law)).max(FEW) {
                warnings.push(Warning::Little { place: name(), present, by_law });
            }
            let (came, went) = (place.arrivals, place.completions);
            if (came - went).abs() > LAW * came.max(went) + 2.0 / found.length {
                warnings.push(Warning::FlowBalance { place: name(), arrivals: came, completions: went });
            }
        }
    }
    warnings
}

impl StationSums {
    fn estimates(&self, cut: &Cut, station: u16, of_clients: bool) -> StationEstimates {
        let mut all = OperationSums::default();
        let mut operations = Vec::new();
        for (operation, sums) in Operation::ALL.iter().zip(&self.operations) {
            let Some(sums) = sums else { continue };
            all.merge(sums);
            operations.push(sums.estimates(cut, operation.name()));
        }
        operations.insert(0, all.estimates(cut, "all"));
        let names =
            if of_clients { ["clients", "due, not sent", "sent"] } else { ["station", "queue", "workers"] };
        let parts = names.into_iter().zip([&self.station, &self.queue, &self.workers]);
        let mut places: Vec<Occupancy> = parts.filter_map(|(name, one)| one.occupancy(name, cut)).collect();
        let went = self.servers.iter().flatten().map(|one| one.presence.went);
        let asked = went.fold(0, u64::saturating_add);
        let mut servers = Vec::new();
        for (server, one) in self.servers.iter().enumerate() {
            let Some(one) = one else { continue };
            places.extend(one.presence.occupancy(&format!("server {server}"), cut));
            servers.push(ServerEstimates {
                server: server as u16,
                requests: one.presence.went,
                errors: one.errors,
                share: one.presence.went as f64 / asked.max(1) as f64,
                time: spread(&one.times.each_ref().map(Some)),
            });
        }
        let times = |time: Time| histogram(&merged(all.batches.iter().map(|batch| batch.of(time))));
        StationEstimates {
            station,
            operations,
            places,
            servers,
            histogram: times(Time::Response),
            server_histogram: times(Time::Server),
        }
    }
}

impl PresenceSums {
    fn occupancy(&self, name: &str, cut: &Cut) -> Option<Occupancy> {
        let seconds = |nanos: u128| nanos as f64 / 1e9;
        (self.went > 0).then(|| Occupancy {
            name: name.to_owned(),
            arrivals: self.arrived as f64 / cut.length(),
            completions: self.went as f64 / cut.length(),
            time: seconds(self.times) / self.went as f64,
            present: seconds(self.overlaps) / cut.length(),
        })
    }
}

impl OperationSums {
    fn estimates(&self, cut: &Cut, operation: &str) -> OperationEstimates {
        let mut sum = VisitTally::EMPTY;
        self.batches.iter().for_each(|batch| sum.merge(&batch.tally));
        let length = cut.length() / BATCHES as f64;
        let rates = self.batches.each_ref().map(|batch| batch.tally.count as f64 / length);
        let times = |time| spread(&self.batches.each_ref().map(|batch| batch.of(time)));
        let keys = sum.hits.saturating_add(sum.misses);
        OperationEstimates {
            operation: operation.to_owned(),
            count: sum.count,
            errors: sum.errors,
            hit_ratio: (keys > 0).then(|| sum.hits as f64 / keys as f64),
            throughput: of_batches(sum.count as f64 / cut.length(), &rates),
            response: times(Time::Response),
            queue: times(Time::Queue),
            server: times(Time::Server),
            own: times(Time::Own),
        }
    }
}

fn merged<'a>(batches: impl Iterator<Item = Option<&'a MeasuredDistribution>>) -> MeasuredDistribution {
    batches.flatten().fold(MeasuredDistribution::new(), |mut all, batch| {
        all.merge(batch);
        all
    })
}

/// The value of the whole, with the interval of its batches where each of them has one.
fn of_batches(value: f64, batches: &[f64]) -> Quantity {
    let plain = Quantity { value, interval: None, n: batches.len() as u64, basis: IntervalBasis::Windows };
    if batches.len() < BATCHES {
        return plain;
    }
    Quantity::of_run(&[value], batches).unwrap_or(plain)
}

fn spread(batches: &[Option<&MeasuredDistribution>; BATCHES]) -> TimeSpread {
    let all = merged(batches.iter().copied());
    let of = |of: &dyn Fn(&MeasuredDistribution) -> Option<f64>| {
        let each: Vec<f64> = batches.iter().flatten().filter_map(|batch| of(batch)).collect();
        of(&all).map(|value| of_batches(value, &each))
    };
    let at = |share: f64| {
        let found = of(&|batch| batch.quantile(share).map(Nanos::as_seconds))?;
        let beyond = all.count() as f64 * share.min(1.0 - share);
        Some(Quantity { interval: found.interval.filter(|_| beyond >= BEYOND), ..found })
    };
    let percentiles = SHARES.into_iter().filter_map(at).collect();
    TimeSpread { mean: of(&MeasuredDistribution::mean), percentiles }
}

fn histogram(all: &MeasuredDistribution) -> TrialHistogram {
    let counts = all.buckets(BUCKET).into_iter().map(|bucket| (bucket.from.0 / BUCKET.0, bucket.count));
    TrialHistogram { width: BUCKET.as_seconds(), counts: counts.collect() }
}

#[cfg(test)]
mod tests {
    use krarup_record::Outcome;
    use krarup_units::Stamp;
    use proptest::prelude::*;

    use super::*;

    const MILLI: u64 = 1_000_000;

    /// One request each 10 ms: 1 ms in the queue, 3 ms with a server, 1 ms the rest.
    fn regular(requests: u64) -> Vec<(Visit, ServerVisit)> {
        let row = |number: u64| {
            let begin = number * 10 * MILLI;
            let mut visit = Visit::at(Stamp(begin), Operation::Get);
            visit.taken = Stamp(begin + MILLI);
            visit.replied = Stamp(begin + 5 * MILLI);
            (visit.busy_workers, visit.queue_length, visit.hits) = (1, 2, 1);
            (visit, ServerVisit::ok(0, Stamp(begin + MILLI), Stamp(begin + 4 * MILLI)))
        };
        (0..requests).map(row).collect()
    }

    fn cut(rows: &[(Visit, ServerVisit)], warm_up: u64, cool_down: u64) -> Cut {
        let begun = rows.iter().map(|(visit, _)| visit.received).min().unwrap();
        let ended = rows.iter().map(|(visit, _)| visit.replied).max().unwrap();
        Cut::of((begun, ended), Nanos(warm_up * MILLI), Nanos(cool_down * MILLI), None).unwrap()
    }

    fn found(rows: &[(Visit, ServerVisit)], cut: Cut) -> RequestEstimates {
        let mut reading = RowReader::new(cut);
        rows.iter().for_each(|(visit, server)| reading.see(visit, std::slice::from_ref(server)));
        reading.end(0)
    }

    #[test]
    fn what_is_known_beforehand_is_found() {
        let rows = regular(2_000);
        let found = found(&rows, cut(&rows, 1_000, 1_000));
        assert_eq!((found.rows, found.window), (2_000, 0.5));
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        let [station] = &found.stations[..] else { panic!("one station") };
        let all = &station.operations[0];
        assert_eq!((all.operation.as_str(), station.operations[1].operation.as_str()), ("all", "get"));
        assert!((all.throughput.value - 100.0).abs() < 0.1, "{all:?}");
        assert!(all.throughput.interval.unwrap().contains(100.0) && all.throughput.n == 10);
        for (time, expected) in
            [(&all.response, 5e-3), (&all.queue, 1e-3), (&all.server, 3e-3), (&all.own, 1e-3)]
        {
            assert!((time.mean.unwrap().value - expected).abs() < 1e-9, "{time:?}");
            assert!((time.at(0.99).unwrap().value / expected - 1.0).abs() < 1e-3, "{time:?}");
        }
        assert_eq!(all.hit_ratio, Some(1.0));
        let present: Vec<(&str, f64)> = station
            .places
            .iter()
            .map(|place| (place.name.as_str(), (place.present * 100.0).round()))
            .collect();
        assert_eq!(present, [("station", 50.0), ("queue", 10.0), ("workers", 40.0), ("server 0", 30.0)]);
        for place in &station.places {
            assert!((place.by_law() / place.present - 1.0).abs() < 0.01, "{place:?}");
        }
        // One answer came before the span ended whose reply left after it.
        assert_eq!(station.servers[0].requests.abs_diff(all.count), 1);
        assert_eq!(station.histogram.total(), all.count);
    }

    #[test]
    fn where_nothing_was_answered_no_time_was_measured() {
        let rows = regular(2);
        // After the first reply has left, and before the second.
        let span = (Stamp(6 * MILLI), Stamp(8 * MILLI));
        let found = found(&rows, Cut::between((Stamp(0), Stamp(15 * MILLI)), span, None).unwrap());
        let [station] = &found.stations[..] else { panic!("one station") };
        let (all, server) = (&station.operations[0], &station.servers[0]);
        assert_eq!((all.count, server.requests), (0, 0));
        for time in [&all.response, &all.queue, &all.server, &all.own, &server.time] {
            assert_eq!((time.mean, time.at(0.5)), (None, None));
        }
    }

    /// Of 100 requests the 99th percentile of a batch is its greatest value.
    #[test]
    fn percentiles_with_too_few_requests_beyond_have_no_interval() {
        for (requests, share, expected) in [
            (100, 0.5, true),
            (100, 0.99, false),
            (100, 0.999, false),
            (2_100, 0.99, true),
            (2_100, 0.999, false),
            (20_100, 0.999, true),
        ] {
            let mut rows = regular(requests);
            for (number, (visit, _)) in (1_u64..).zip(&mut rows) {
                let uniform = (number * number * 7_919 % 9_973 + 1) as f64 / 9_974.0;
                visit.replied.0 += (-uniform.ln() * MILLI as f64) as u64;
            }
            let found = found(&rows, cut(&rows, 0, 0));
            let response = &found.stations[0].operations[0].response;
            assert!(response.mean.unwrap().interval.is_some(), "{response:?}");
            let interval = response.at(share).unwrap().interval;
            assert_eq!(interval.is_some(), expected, "{share} of {requests}: {response:?}");
        }
    }

    /// The warm-up is slower: within the cut nothing of it is left, and the whole run tells how
    /// long it was.
    #[test]
    fn a_warm_up_is_cut_off_and_reported_by_the_whole_run() {
        let mut rows = regular(4_000);
        for (number, (visit, server)) in rows.iter_mut().enumerate() {
            let slow = if number < 800 { 200 * MILLI } else { (number as u64 * 37 % 11) * MILLI / 100 };
            visit.replied.0 += slow;
            server.answered.0 += slow;
        }
        let found = found(&rows, cut(&rows, 10_000, 0));
        let [_, by_response] = found.settled;
        assert!(
            matches!(by_response, Settled::After(after) if (7.0..10.0).contains(&after)),
            "{by_response:?}"
        );
        assert!(found.stations[0].operations[0].response.mean.unwrap().value < 6e-3);
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    }

    /// Nothing is answered for 9 s, and what comes in the 4 s after is slow.
    #[test]
    fn windows_without_an_answer_are_part_of_the_warm_up() {
        let rows = regular(4_000).into_iter().enumerate();
        let rows = rows.filter(|(number, _)| !(100..1_000).contains(number));
        let mut rows: Vec<(Visit, ServerVisit)> = rows.map(|(_, row)| row).collect();
        for (visit, server) in &mut rows[100..500] {
            visit.replied.0 += 200 * MILLI;
            server.answered.0 += 200 * MILLI;
        }
        let [_, by_response] = found(&rows, cut(&rows, 0, 0)).settled;
        assert!(
            matches!(by_response, Settled::After(after) if (14.0..17.0).contains(&after)),
            "{by_response:?}"
        );
    }

    /// All clients are answered once more in the last 5 ms, of a window of 500: its rate says
    /// nothing of the beginning, which was too slow for 4 s.
    #[test]
    fn the_last_window_which_is_cut_short_hides_no_warm_up() {
        let rows = regular(1_501).into_iter().enumerate();
        let rows = rows.filter(|(number, _)| *number >= 400 || number % 2 == 0);
        let mut rows: Vec<(Visit, ServerVisit)> = rows.map(|(_, row)| row).collect();
        let last = rows[rows.len() - 1];
        rows.extend([last; 9]);
        let found = found(&rows, cut(&rows, 0, 0));
        assert_eq!((found.window, found.windows.len()), (0.5, 31));
        let is_left = |one: &Warning| matches!(one, Warning::WarmUpLeft { seconds, .. } if *seconds == 4.0);
        assert!(found.warnings.iter().any(is_left), "{:?}", found.warnings);
    }

    /// More arrive than end, and each waits longer than the one before: L, counted over time, is
    /// not X · W of those that ended.
    #[test]
    fn a_place_that_fills_up_is_reported() {
        let mut rows = regular(2_000);
        for (number, (visit, server)) in rows.iter_mut().enumerate() {
            // Each waits longer than the one before, by a half of what lies between them.
            let late = number as u64 * 5 * MILLI;
            visit.taken.0 += late;
            visit.replied.0 += late;
            (server.sent.0, server.answered.0) = (server.sent.0 + late, server.answered.0 + late);
        }
        let ended = rows[1_000].0.received;
        let cut = Cut::between((Stamp(0), ended), (Stamp(0), ended), None).unwrap();
        let warnings = found(&rows, cut).warnings;
        let is_told = |kind: fn(&Warning) -> bool| warnings.iter().any(kind);
        assert!(
            is_told(|one| matches!(one, Warning::FlowBalance { place, .. } if place == "queue")),
            "{warnings:?}"
        );
        assert!(
            is_told(|one| matches!(one, Warning::Little { place, .. } if place == "queue")),
            "{warnings:?}"
        );
    }

    #[test]
    fn rows_that_are_wrong_or_missing_are_reported() {
        let mut rows = regular(500);
        rows[7].0.taken = Stamp(0);
        rows[8].0.outcome = Outcome::Timeout;
        let mut reading = RowReader::new(cut(&rows, 0, 0));
        rows.iter().for_each(|(visit, server)| reading.see(visit, std::slice::from_ref(server)));
        let told = reading.end(3).warnings;
        assert_eq!(told[0], Warning::RowsLost { lost: 3, kept: 500 });
        assert_eq!(
            told[0].to_string(),
            "3 rows are missing beside the 500 there are: the disk was too slow or full, or refused them."
        );
        assert_eq!(told[1], Warning::Disordered { rows: 1, of: 500 });
        assert!(told.iter().any(|one| matches!(one, Warning::Errors { errors: 1, .. })), "{told:?}");
    }

    /// Twenty requests a window, each of which visits two stations, are no forty.
    #[test]
    fn visits_to_several_stations_are_no_throughput_over_time() {
        let mut rows = regular(1_000);
        let elsewhere = |&(visit, server): &(Visit, ServerVisit)| (Visit { station: 1, ..visit }, server);
        let second: Vec<(Visit, ServerVisit)> = rows.iter().map(elsewhere).collect();
        rows.extend(second);
        let cut = cut(&rows, 0, 0);
        let of_a_network = found(&rows, cut);
        assert_eq!(of_a_network.stations.len(), 2);
        assert!(of_a_network.windows.is_empty() && of_a_network.warnings.is_empty(), "{of_a_network:?}");
        assert_eq!(of_a_network.settled, [Settled::Unknown; 2]);
        // Classes of clients are asked beside each other.
        let mut reading = RowReader::new(cut).of_clients(true);
        rows.iter().for_each(|(visit, server)| reading.see(visit, std::slice::from_ref(server)));
        assert_eq!(reading.end(0).windows[1].completed, 40);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]

        /// Rows in any order give the same bytes, and every one of them is counted once.
        #[test]
        fn the_order_of_rows_does_not_matter(
            times in prop::collection::vec((0_u64..400, 0_u64..60, 0_u64..60), 1..60),
            turn in 0_usize..60,
        ) {
            let mut rows = regular(times.len() as u64);
            for ((visit, server), (begin, queue, rest)) in rows.iter_mut().zip(&times) {
                let stamp = |millis: u64| Stamp(millis * MILLI);
                (visit.received, visit.queued) = (stamp(*begin), stamp(*begin));
                (visit.taken, visit.replied) = (stamp(begin + queue), stamp(begin + queue + rest));
                (server.sent, server.answered) = (visit.taken, visit.replied);
            }
            // A span of its own: the measured one ends before the very last reply.
            let cut = Cut::of((Stamp(0), stamp_after(&rows)), Nanos(0), Nanos(0), None).unwrap();
            let first = found(&rows, cut);
            let turn = turn % rows.len();
            rows.rotate_left(turn);
            let again = found(&rows, cut);
            prop_assert_eq!(serde_json::to_string(&first).unwrap(), serde_json::to_string(&again).unwrap());
            prop_assert_eq!(first.stations[0].operations[0].count, rows.len() as u64);
            let windows: u64 = first.windows.iter().map(|window| window.completed).sum();
            prop_assert_eq!(windows, rows.len() as u64);
        }
    }

    fn stamp_after(rows: &[(Visit, ServerVisit)]) -> Stamp {
        Stamp(rows.iter().map(|(visit, _)| visit.replied.0).max().unwrap() + 1)
    }
}
