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
    /// Clients from which the workers of the largest pool, or what they share, are full: (least
    /// time of a cycle) · (least capacity).
    pub knee: f64,
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

impl Calibration {
    /// Says what was fitted: the form that weighs most, and what all of them agree on.
    ///
    /// # Errors
    /// As [`crate::flow::FlowModel::solve`].
    pub fn explain(&self) -> Result<Explanation, Error> {
        let heaviest = self.model.heaviest();
        let model = &heaviest.model;
        let workers = self.rows.iter().map(|row| row.workers).max().unwrap_or(1);
        let clients = self.rows.iter().map(|row| row.population).max().unwrap_or(1);
        let mut words = vec![format!("{} rows; {}", self.rows.len(), self.model.name())];
        words.push(hold_in_words(&model.hold));
        words.push(outside_in_words(&model.outside, model.outside_over));
        let pool = (workers.min(clients)) as usize;
        let parts = self.parts(pool as u64);
        let one = self.model.solve(1, 1)?;
        let first = &parts[0];
        let knee = first.capacity * one.client_response;
        words.push(format!(
            "with {workers} workers the knee is at {} clients: one request alone takes {}, and {} carries {}/s",
            count(knee),
            duration(one.client_response),
            first.part,
            count(first.capacity)
        ));
        match parts.get(1) {
            Some(next) => words.push(format!(
                "if {} carried more, {} would limit next, at {}/s",
                first.part,
                next.part,
                count(next.capacity)
            )),
            None => words.push("the rows show no second limit".into()),
        }
        if let Some(plateau) = self.model.plateau {
            words.push(format!(
                "rows of different pools agree on {}/s: something that no pool changes binds there (a link, a server, the load generator), and no prediction exceeds it",
                count(plateau)
            ));
        }
        if first.part == OUTSIDE_PART {
            words.push("the limit is outside of the middleware: the clients, the load generator, their links or the thread that reads from them".into());
        }
        words.extend(self.limits());
        words.extend(self.doubts.iter().map(|doubt| format!("no conclusion from this model: {doubt}")));
        Ok(Explanation { words, parts, knee })
    }

    /// What was full in some row, a sentence each: processors, links, the load generator itself.
    pub fn limits(&self) -> Vec<String> {
        limits(&self.rows)
    }

    /// What bounds the throughput, the least first: the pool as it is, what its workers share, and
    /// what is outside.
    fn parts(&self, pool: u64) -> Vec<LimitingPart> {
        let model = &self.model.heaviest().model;
        let seen = self.rows.iter().map(|row| row.throughput).fold(0.0, f64::max);
        let rate = |n: f64| n / model.hold.at(n, false);
        let with_pool = (1..=pool).map(|n| rate(n as f64)).fold(0.0, f64::max);
        let mut parts =
            vec![LimitingPart { part: format!("the pool of {pool} workers"), capacity: with_pool }];
        let shared = rate(1e6);
        if shared < FAR * seen {
            // Where the pool is already as large as what it shares allows, it is not the pool.
            if with_pool > 0.95 * shared {
                parts.clear();
            }
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
        parts.sort_by(|one, other| one.capacity.total_cmp(&other.capacity));
        parts
    }
}

const OUTSIDE_PART: &str = "what is outside";

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

    fn explained(hold: Curve, outside: Curve, workers: [usize; 2]) -> Explanation {
        let truth = FlowModel { hold, outside, outside_over: OutsideCount::Outside };
        let rows: Vec<CalibrationRow> = [(2, 0), (24, 0), (200, 0), (24, 1), (96, 1), (300, 1)]
            .map(|(n, pool)| {
                let said = truth.solve(n, workers[pool]).unwrap();
                CalibrationRow::measured(n as u64, workers[pool] as u64, said.throughput)
                    .with_times(said.response, said.wait)
            })
            .to_vec();
        calibrate_as(&rows, &[CurveFamily::Processors]).unwrap().explain().unwrap()
    }

    #[test]
    fn processors_that_all_share_are_named_and_what_comes_next() {
        let hold = Curve::Processors { latency: 5e-4, work: 1e-3, processors: 4.0 };
        let found = explained(hold, Curve::Line { constant: 5e-4, slope: 5e-5 }, [8, 64]);
        assert!(found.parts[0].part.contains("processors"), "{found:?}");
        assert!((found.parts[0].capacity / 4_000.0 - 1.0).abs() < 0.05, "{found:?}");
        assert!(found.words.iter().any(|said| said.contains("outside would limit next")), "{found:?}");
        // 4,000/s of 2 ms each.
        assert!((found.knee / 8.2 - 1.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn a_limit_outside_is_told() {
        let hold = Curve::Processors { latency: 5e-4, work: 1e-4, processors: 8.0 };
        let found = explained(hold, Curve::Line { constant: 5e-4, slope: 2e-4 }, [16, 64]);
        assert_eq!(found.parts[0].part, OUTSIDE_PART, "{found:?}");
        assert!(found.words.iter().any(|said| said.contains("load generator")), "{found:?}");
    }
}
