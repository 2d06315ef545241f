//! What a calibrated model is, in words: its curves, where the knee is and why, and what would
//! limit next.

use krarup_units::text::{count, duration};
use krarup_units::{Seconds, Unit};
use serde::Serialize;

use super::fitting::Calibration;
use super::resources::{bounds, limits};
use crate::Error;
use crate::flow::{Curve, OutsideCount};
use crate::table::ResultTable;

/// A part of the system that bounds the throughput.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitingPart {
    /// Which, in words.
    pub part: String,
    /// What it carries, requests per second.
    pub capacity: f64,
}

/// What was fitted and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Sentences, in the order in which they are to be read.
    pub words: Vec<String>,
    /// What each part carries with the largest pool that was measured, the least first.
    pub parts: Vec<LimitingPart>,
    /// Clients from which the first of the parts is full: (least time of a cycle) · (least
    /// capacity). None where the rows show no limit.
    pub knee: Option<f64>,
}

impl Explanation {
    /// The parts with what they carry.
    pub fn parts_table(&self) -> ResultTable {
        let columns = [("part", Unit::Text), ("carries at most", Unit::PerSecond)];
        let mut table = ResultTable::new("What bounds the throughput, the first bound first", &columns);
        for part in &self.parts {
            table.push(vec![part.part.as_str().into(), part.capacity.into()]);
        }
        table
    }
}

/// A part that carries so many times what is measured bounds nothing that can be seen.
const FAR: f64 = 50.0;
/// As many busy workers as these carry what they share.
const MANY: f64 = 1e6;
/// Of a larger pool it is not asked for each number of busy workers what it carries.
const SCANNED: u64 = 100_000;
/// Parts that are no farther apart are one limit: no part is known better.
const APART: f64 = 0.1;

impl Calibration {
    /// Says what was fitted: the form that weighs most, and what all of them agree on.
    ///
    /// # Errors
    /// As [`crate::flow::FlowModel::solve`].
    pub fn explain(&self) -> Result<Explanation, Error> {
        let heaviest = self.model.heaviest();
        let model = &heaviest.model;
        let workers = self.rows.iter().map(|row| row.workers).max().unwrap_or(1);
        let pooled = self.has_pool();
        let mut words = vec![format!("{} rows; {}", self.rows.len(), self.model.name())];
        words.push(hold_in_words(&model.hold));
        words.push(outside_in_words(&model.outside, model.outside_over));
        let (think, mut thinks) = (self.think(), String::new());
        if think > 0.0 {
            words.push(format!("clients think for {} of the time outside", duration(think)));
            thinks = format!(", its client thinks for {}", duration(think));
        }
        let parts = self.parts(workers);
        let alone = self.model.solve(1, 1)?;
        let knee = parts.first().map(|first| first.capacity * alone.client_response);
        let with_pool = if pooled { format!("with {workers} workers ") } else { String::new() };
        match &parts[..] {
            [] => words.push("the rows show no limit".into()),
            [first, others @ ..] => {
                words.push(format!(
                    "{with_pool}the knee is at {} clients: one request alone takes {}{thinks}, and {} carries {}/s",
                    count(first.capacity * alone.client_response),
                    duration(self.at_clients(&alone)),
                    first.part,
                    count(first.capacity)
                ));
                words.push(match others.first() {
                    Some(next) => format!(
                        "if {} carried more, {} would limit next, at {}/s",
                        first.part,
                        next.part,
                        count(next.capacity)
                    ),
                    None => "the rows show no second limit".into(),
                });
            }
        }
        if let Some(plateau) = self.model.plateau {
            let (rows, what) = if pooled {
                ("different pools", "something that no pool changes binds there")
            } else {
                ("different numbers of clients", "something that more clients do not change binds there")
            };
            words.push(format!(
                "rows of {rows} agree on {}/s: {what} (a link, a server, the load generator), and no prediction exceeds it",
                count(plateau)
            ));
        }
        if parts.first().is_some_and(|first| first.part == OUTSIDE_PART) {
            words.push("the limit is outside of the middleware: the clients, the load generator, their links or the thread that reads from them".into());
        }
        words.extend(self.limits());
        words.extend(self.doubts.iter().map(|doubt| format!("no conclusion from this model: {doubt}")));
        Ok(Explanation { words, parts, knee })
    }

    /// Whether clients share workers that are not theirs alone. Rows of what has no workers, or as
    /// many as it needs, say one for each client.
    pub fn has_pool(&self) -> bool {
        self.rows.iter().any(|row| row.workers != row.population)
    }

    /// What was full in some row, a sentence each: processors, links, the load generator itself.
    pub fn limits(&self) -> Vec<String> {
        limits(&self.rows)
    }

    /// What bounds the throughput, the least first: the pool as it is, if there is one, what its
    /// workers share, what is outside, and what rows of different pools agree on.
    fn parts(&self, workers: u64) -> Vec<LimitingPart> {
        let pooled = self.has_pool();
        let model = &self.model.heaviest().model;
        let seen = self.rows.iter().map(|row| row.throughput).fold(0.0, f64::max);
        let with_pool = carried(&model.hold, workers);
        let shared = rate(&model.hold, MANY);
        let mut parts = Vec::new();
        let is_shared = shared < FAR * seen;
        if is_shared {
            let part = "what the workers share (processors, servers, a link)".to_owned();
            parts.push(LimitingPart { part, capacity: shared.max(with_pool) });
        }
        if let (OutsideCount::Outside, Curve::Line { slope, .. }) = (model.outside_over, &model.outside)
            && 1.0 / slope < FAR * seen
        {
            parts.push(LimitingPart { part: OUTSIDE_PART.to_owned(), capacity: 1.0 / slope });
        }
        let known = bounds(&self.rows).into_iter().filter(|bound| bound.throughput < FAR * seen);
        parts.extend(known.map(|bound| LimitingPart {
            part: format!("the {}", bound.resource),
            capacity: bound.throughput,
        }));
        if let Some(limit) = self.model.plateau {
            // A part that carries about as much is what binds there, and no prediction exceeds it.
            let is_named = |part: &&mut LimitingPart| (part.capacity / limit - 1.0).abs() < APART;
            let named: Vec<_> = parts.iter_mut().filter(is_named).collect();
            if named.is_empty() {
                let part = if pooled { PLATEAU_PART } else { PLATEAU_OF_ALL }.to_owned();
                parts.push(LimitingPart { part, capacity: limit });
            } else {
                named.into_iter().for_each(|part| part.capacity = part.capacity.min(limit));
            }
        }
        // Where the pool is already as large as what it shares allows, it is not the pool.
        let large = is_shared && with_pool > 0.95 * shared;
        if pooled && !large {
            parts.push(LimitingPart { part: format!("the pool of {workers} workers"), capacity: with_pool });
        }
        parts.sort_by(|one, other| one.capacity.total_cmp(&other.capacity));
        parts
    }
}

const OUTSIDE_PART: &str = "what is outside";
const PLATEAU_PART: &str = "what no pool changes (a link, a server, the load generator)";
const PLATEAU_OF_ALL: &str = "what more clients do not change (a link, a server, the load generator)";

/// Requests per second with so many busy workers; no time is below a thousandth of that with one,
/// as in [`Curve::times`].
fn rate(hold: &Curve, busy: f64) -> f64 {
    busy / hold.at(busy, false).max(hold.at(1.0, false) / 1_000.0)
}

/// The most that a pool carries, with as many of its workers busy as do most.
fn carried(hold: &Curve, workers: u64) -> f64 {
    let times = hold.times(workers.min(SCANNED) as usize, workers as usize);
    let rates = times.iter().enumerate().map(|(busy, time)| busy as f64 / time);
    rates.fold(rate(hold, (workers as f64).min(MANY)), f64::max)
}

fn hold_in_words(hold: &Curve) -> String {
    let ms = |time: Seconds| duration(time);
    match hold {
        Curve::Processors { latency, work, processors } => format!(
            "a request holds its worker for {} whatever the load, and for {} of work, which {processors:.1} processors share",
            ms(*latency),
            ms(*work)
        ),
        Curve::Line { constant, slope } => {
            format!(
                "a request holds its worker for {}, and {} longer for each busy worker",
                ms(*constant),
                ms(*slope)
            )
        }
        Curve::Server { delay, server, slope } => format!(
            "a worker is held for {} and for one server of {} that all share, and {} longer for each busy worker",
            ms(*delay),
            ms(*server),
            ms(*slope)
        ),
        Curve::Cores { constant, slope, shared, waking, cores } => format!(
            "a request holds its worker for {}, {} longer for each busy worker, and beyond {cores} cores up to {} longer for threads that wait for one",
            ms(*constant),
            ms(*slope),
            ms(shared + waking)
        ),
        Curve::Mean(curves) => {
            let heaviest = curves.iter().max_by(|one, other| one.0.total_cmp(&other.0));
            let of = heaviest.map_or(String::new(), |(_, curve)| hold_in_words(curve));
            format!("the number of cores is not known; most likely {of}")
        }
        Curve::Points(points) => format!("hold times run through {} measured points", points.len()),
        Curve::Square { constant, square } => {
            format!(
                "a request holds its worker for {} and {} times the square of those busy",
                ms(*constant),
                ms(*square)
            )
        }
    }
}

fn outside_in_words(outside: &Curve, over: OutsideCount) -> String {
    let by_itself = "does not depend on how many are outside";
    match (outside, over) {
        (Curve::Line { constant, slope }, OutsideCount::Outside) => format!(
            "it is outside for {}, and waits {} longer for each request that is outside with it: one resource there carries {}/s",
            duration(*constant),
            duration(*slope),
            count(1.0 / slope)
        ),
        (Curve::Square { constant, square }, _) => format!(
            "it is outside for {}, which {by_itself}, and {} longer with 100 busy workers",
            duration(*constant),
            duration(square * 1e4)
        ),
        (curve, _) => format!(
            "it is outside for {} with one busy worker, which {by_itself}",
            duration(curve.at(1.0, true))
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CalibrationRow, CurveFamily, calibrate_as};
    use super::*;
    use crate::flow::FlowModel;

    fn solved(truth: &FlowModel, places: &[(usize, usize)]) -> Vec<CalibrationRow> {
        let row = |&(n, workers): &(usize, usize)| {
            let said = truth.solve(n, workers).unwrap();
            CalibrationRow::measured(n as u64, workers as u64, said.throughput)
                .with_times(said.response, said.wait)
        };
        places.iter().map(row).collect()
    }

    fn explained(hold: Curve, outside: Curve, [few, many]: [usize; 2]) -> Explanation {
        let truth = FlowModel { hold, outside, outside_over: OutsideCount::Outside };
        let places = [(2, few), (24, few), (200, few), (24, many), (96, many), (300, many)];
        calibrate_as(&solved(&truth, &places), &[CurveFamily::Processors]).unwrap().explain().unwrap()
    }

    /// Rows of 2 ms at a worker and 1 ms outside, whatever the load.
    fn flat(places: &[(usize, usize)]) -> Vec<CalibrationRow> {
        let line = |constant| Curve::Line { constant, slope: 0.0 };
        let truth =
            FlowModel { hold: line(2e-3), outside: line(1e-3), outside_over: OutsideCount::BusyWorkers };
        solved(&truth, places)
    }

    #[test]
    fn processors_that_all_share_are_named_and_what_comes_next() {
        let hold = Curve::Processors { latency: 5e-4, work: 1e-3, processors: 4.0 };
        let found = explained(hold, Curve::Line { constant: 5e-4, slope: 5e-5 }, [8, 64]);
        assert!(found.parts[0].part.contains("processors"), "{found:?}");
        assert!((found.parts[0].capacity / 4_000.0 - 1.0).abs() < 0.05, "{found:?}");
        assert!(found.words.iter().any(|said| said.contains("outside would limit next")), "{found:?}");
        // 4,000/s of 2 ms each.
        assert!((found.knee.unwrap() / 8.2 - 1.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn a_limit_outside_is_told() {
        let hold = Curve::Processors { latency: 5e-4, work: 1e-4, processors: 8.0 };
        let found = explained(hold, Curve::Line { constant: 5e-4, slope: 2e-4 }, [16, 64]);
        assert_eq!(found.parts[0].part, OUTSIDE_PART, "{found:?}");
        assert!(found.words.iter().any(|said| said.contains("load generator")), "{found:?}");
    }

    /// What has no workers says one for each client.
    #[test]
    fn no_pool_is_named_where_there_is_none() {
        let rows = flat(&[(1, 1), (4, 4), (16, 16)]);
        let found = calibrate_as(&rows, &[CurveFamily::Lines]).unwrap().explain().unwrap();
        assert!(found.parts.is_empty() && found.knee.is_none(), "{found:?}");
        assert!(found.words.iter().any(|said| said == "the rows show no limit"), "{found:?}");
        assert!(!found.words.iter().any(|said| said.contains("the pool of")), "{found:?}");
        let hold = Curve::Processors { latency: 5e-4, work: 1e-3, processors: 4.0 };
        let outside = Curve::Line { constant: 5e-4, slope: 0.0 };
        let truth = FlowModel { hold, outside, outside_over: OutsideCount::BusyWorkers };
        let rows = solved(&truth, &[(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (64, 64)]);
        let found = calibrate_as(&rows, &[CurveFamily::ProcessorsBusy]).unwrap().explain().unwrap();
        assert!(found.parts[0].part.contains("processors"), "{found:?}");
        assert!(found.words.iter().any(|said| said.starts_with("the knee is at")), "{found:?}");
        assert!(!found.words.iter().any(|said| said.contains("the pool of")), "{found:?}");
        let rows = solved(&truth, &[(1, 1), (4, 4), (16, 16), (256, 256), (384, 384), (512, 512)]);
        let found = calibrate_as(&rows, &[CurveFamily::ProcessorsBusy]).unwrap().explain().unwrap();
        let named = found.words.iter().chain(found.parts.iter().map(|one| &one.part));
        assert!(named.clone().all(|said| !said.contains("pool")), "{found:?}");
        assert!(
            named.clone().any(|said| said.contains("rows of different numbers of clients agree")),
            "{found:?}"
        );
    }

    #[test]
    fn a_pool_that_clients_do_not_fill_is_as_large_as_it_is() {
        for (workers, capacity) in [(64, 32_000.0), (1_000_000_000, MANY / 2e-3)] {
            let rows = flat(&[(2, 8), (24, 8), (4, workers), (12, workers), (24, workers)]);
            let found = calibrate_as(&rows, &[CurveFamily::Lines]).unwrap().explain().unwrap();
            let pool = &found.parts[0];
            assert_eq!(pool.part, format!("the pool of {workers} workers"), "{found:?}");
            assert!((pool.capacity / capacity - 1.0).abs() < 0.1, "{found:?}");
        }
    }

    /// The knee counts the whole cycle, of which a request is little.
    #[test]
    fn what_clients_think_is_no_response_time() {
        let line = |constant| Curve::Line { constant, slope: 0.0 };
        let truth =
            FlowModel { hold: line(2e-3), outside: line(41e-3), outside_over: OutsideCount::BusyWorkers };
        let mut rows = solved(&truth, &[(2, 8), (24, 8), (4, 16), (12, 16), (24, 16)]);
        rows.iter_mut().for_each(|row| row.think = 40e-3);
        let calibration = calibrate_as(&rows, &[CurveFamily::Lines]).unwrap();
        let found = calibration.explain().unwrap();
        let cycle = calibration.model.solve(1, 1).unwrap().client_response;
        assert!((cycle / 43e-3 - 1.0).abs() < 0.02, "{found:?}");
        assert_eq!(found.knee, Some(found.parts[0].capacity * cycle));
        let alone = duration(cycle - 40e-3);
        let knee = format!("one request alone takes {alone}, its client thinks for 40.0 ms, and ");
        assert!(found.words.iter().any(|said| said.contains(&knee)), "{found:?}");
        let outside = "clients think for 40.0 ms of the time outside";
        assert!(found.words.iter().any(|said| said == outside), "{found:?}");
    }

    #[test]
    fn what_rows_of_different_pools_agree_on_is_the_first_limit() {
        let mut rows = flat(&[(2, 8), (24, 16), (24, 32), (96, 64)]);
        for row in &mut rows[1..] {
            row.throughput = 3_000.0;
            row.response = row.population as f64 / row.throughput - 1e-3;
            row.wait = row.response - 2e-3;
        }
        let calibration = calibrate_as(&rows, &[CurveFamily::Lines]).unwrap();
        let found = calibration.explain().unwrap();
        let first = &found.parts[0];
        assert!(first.part == PLATEAU_PART && (first.capacity / 3_000.0 - 1.0).abs() < 1e-9, "{found:?}");
        let alone = calibration.model.solve(1, 1).unwrap().client_response;
        assert_eq!(found.knee, Some(first.capacity * alone));
        assert!(found.words.iter().any(|said| said.contains("the pool of 64 workers would limit next")));
    }

    #[test]
    fn a_part_that_carries_about_what_rows_agree_on_carries_no_more() {
        let hold = Curve::Processors { latency: 5e-4, work: 1e-3, processors: 4.0 };
        let outside = Curve::Line { constant: 5e-4, slope: 0.0 };
        let truth = FlowModel { hold, outside, outside_over: OutsideCount::BusyWorkers };
        let rows = solved(&truth, &[(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (64, 64)]);
        let mut calibration = calibrate_as(&rows, &[CurveFamily::ProcessorsBusy]).unwrap();
        calibration.model.plateau = None;
        let shared = calibration.explain().unwrap().parts[0].capacity;
        calibration.model.plateau = Some(0.92 * shared);
        let found = calibration.explain().unwrap();
        assert_eq!((found.parts.len(), found.parts[0].capacity), (1, 0.92 * shared), "{found:?}");
        let alone = calibration.model.solve(1, 1).unwrap().client_response;
        assert_eq!(found.knee, Some(0.92 * shared * alone));
    }
}
