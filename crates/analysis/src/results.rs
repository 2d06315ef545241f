//! What a set of trials amounts to, as written to `results.json`.

use krarup_record::watch::Watch;
use krarup_stats::{Interval, Summary, USUAL_LEVEL};
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::anchor::Anchor;
use crate::configurations::Configuration;
use crate::course::Stretch;
use crate::demands::Demand;
use crate::design::Study;
use crate::distribution::Shape;
use crate::predict::Prediction;
use crate::relative::Relative;
use crate::saturation::Verdict;
use crate::trial::{ClientWindow, Histogram, Levels, Link, MiddlewareWindow, RoundTrip, Station};
use crate::warning::Concern;

/// Everything a report is made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What was examined.
    pub title: String,
    /// Where and with what.
    pub environment: Environment,
    /// Workloads in the order of their first trial, clients rising.
    pub cells: Vec<Cell>,
    /// One for each workload, in the same order.
    pub verdicts: Vec<Verdict>,
    /// What does not add up.
    pub concerns: Vec<Concern>,
    /// For each mix the highest throughput, and the least that comes near to it.
    #[serde(default)]
    pub configurations: Vec<Configuration>,
    /// Which law the response times look like at each workload's limit, where they are known in full.
    #[serde(default)]
    pub shapes: Vec<Shape>,
    /// Which factors matter, where the experiment is a 2^k·r design.
    #[serde(default)]
    pub studies: Vec<Study>,
    /// One cell repeated through the run, where one was.
    #[serde(default)]
    pub anchor: Option<Anchor>,
    /// What a model calibrated on some cells says of the others; empty where nobody asked.
    #[serde(default)]
    pub predictions: Vec<Prediction>,
    /// Cells beside the base that the spec names; empty where it names none.
    #[serde(default)]
    pub relative: Vec<Relative>,
    /// What one request demands of each resource, and how far each would go.
    #[serde(default)]
    pub demands: Vec<Demand>,
    /// How long packets are under way between hosts that talk: over all trials the least, and the mean of the middle ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trips: Vec<RoundTrip>,
}

/// Where the trials ran and with what. Words as they were found; empty where nothing was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Processor model.
    pub cpu: String,
    /// Processors of the machine all processes share; 0 where they run on several machines or nobody looked.
    pub cores: u32,
    /// Memory.
    pub memory: String,
    /// Operating system and kernel.
    pub kernel: String,
    /// Program and version, for each program taking part.
    pub versions: Vec<(String, String)>,
    /// The command that carried out the trials.
    pub command_line: String,
    /// When they began, as the caller writes it. Never read from a clock here.
    pub started: String,
    /// What goes through between hosts; empty where all is on one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<Way>,
    /// What limits of processor time give; empty where nothing is limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
}

/// What a limit of processor time gives on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The machine; `here` where there is one.
    pub machine: String,
    /// Processors that were asked for.
    pub asked: f64,
    /// What a busy loop got by a quota for so many; none where it could not be told.
    pub plain: Option<f64>,
    /// The processors for which the quota is written.
    pub written: f64,
    /// What a busy loop got by that; none where it could not be told.
    pub got: Option<f64>,
}

/// What goes through from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// Who sends.
    pub from: String,
    /// Who is sent to.
    pub to: String,
    /// Bits per second of what is sent, headers left out, with nobody else at work; none where it could not be told.
    pub bits_per_second: Option<f64>,
}

/// What an interval is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Independent runs: the spread between them.
    Repetitions,
    /// The windows of a single run: the spread within it, which says nothing about another run.
    Windows,
}

/// An estimate: its value, what it rests on, and where the true value may lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The mean over repetitions, in the base unit.
    pub value: f64,
    /// Student's t interval at 95 %; none where a single observation gives none.
    pub interval: Option<Interval>,
    /// How many observations it rests on.
    pub n: u64,
    /// What those are.
    pub basis: Basis,
}

/// Estimates of one kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeQuantities {
    /// Mean.
    pub mean: Quantity,
    /// 50th percentile: the mean of the repetitions' own.
    pub p50: Quantity,
    /// 90th percentile, likewise.
    pub p90: Quantity,
    /// 99th percentile, likewise.
    pub p99: Quantity,
}

/// One combination of levels, all its repetitions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Which.
    pub levels: Levels,
    /// Think time Z of the clients.
    #[serde(default)]
    pub think: Seconds,
    /// Throughput X: requests answered per second, as the clients counted them.
    pub throughput: Quantity,
    /// Response time R at the clients.
    pub response: TimeQuantities,
    /// Where it went, where the middleware could be asked.
    pub middleware: Option<MiddlewareCell>,
    /// Keys found among keys asked for; none where no key was read.
    pub hit_ratio: Option<f64>,
    /// Requests answered, in all repetitions.
    pub completed: u64,
    /// Errors among them.
    pub errors: u64,
    /// Each server's part of the requests sent to servers.
    pub servers: Vec<ServerShare>,
    /// Mean utilization of the processes taking part.
    pub load: Vec<ProcessLoad>,
    /// Mean use of the hosts' links, where they have any.
    #[serde(default)]
    pub links: Vec<Link>,
    /// The repetitions one by one.
    pub repetitions: Vec<Repetition>,
    /// The first repetition, window by window.
    pub run: Run,
    /// Response times at the clients, all repetitions.
    pub histogram: Histogram,
    /// The level of every factor of the experiment.
    #[serde(default)]
    pub factors: Vec<(String, String)>,
    /// The mean of the repetitions' quantiles of the response time, at [`crate::distribution::share_of`]; empty where one is not known in full.
    #[serde(default)]
    pub quantiles: Vec<Seconds>,
    /// The machine, the mean over the repetitions in which it was watched; of several all together.
    #[serde(default)]
    pub machine: Option<Watch>,
    /// Each of several machines, likewise, by its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<(String, Watch)>,
    /// Each operation apart, where there is more than one.
    #[serde(default)]
    pub operations: Vec<OperationCell>,
    /// Before and after each thing that was done to a station meanwhile, all repetitions together; empty where nothing was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<Stretch>,
}

/// One operation of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationCell {
    /// `get`, `set` …
    pub name: String,
    /// Requests of it answered per second.
    pub throughput: Quantity,
    /// Response time at the clients.
    pub response: TimeQuantities,
    /// The same request at the middleware, where it could be asked.
    pub inside: Option<OperationInside>,
}

/// One operation of a cell at the middleware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationInside {
    /// Replied − received.
    pub response: TimeQuantities,
    /// Taken − queued.
    pub queue: TimeQuantities,
    /// Last answered − first sent.
    pub server: TimeQuantities,
}

/// A cell as the middleware saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MiddlewareCell {
    /// Replied − received.
    pub response: TimeQuantities,
    /// Taken − queued.
    pub queue: TimeQuantities,
    /// Last answered − first sent.
    pub server: TimeQuantities,
    /// The rest of the response time at the middleware.
    pub own: TimeQuantities,
    /// Response time at the clients − response time at the middleware, of the means: network, and waiting to be read on both sides.
    pub outside: Quantity,
    /// Worker slots; none where unlimited.
    pub workers: Option<u32>,
    /// Queue length seen by those taken.
    pub queue_length: Option<Quantity>,
    /// Share of the worker slots that are held, X · (R − queue time) / workers at the middleware (Little's law), at most all of them: where the
    /// law makes it more, [`crate::Warning::WorkersBeyond`] says so.
    pub workers_busy: Option<f64>,
    /// Response times at the middleware, all repetitions.
    pub histogram: Histogram,
}

/// What one server got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerShare {
    /// Its address.
    pub name: String,
    /// Requests sent to it, in all repetitions.
    pub requests: u64,
    /// Of all requests sent to servers.
    pub share: f64,
}

/// How busy a process was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessLoad {
    /// What it is.
    pub station: Station,
    /// Which one.
    pub name: String,
    /// Processors kept busy, the mean over time and repetitions.
    pub busy: f64,
    /// How many it could keep busy.
    pub cores: f64,
}

/// One run in its own figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Which, from 0.
    pub repetition: u32,
    /// Requests answered per second.
    pub throughput: f64,
    /// Mean response time at the clients.
    pub response: Seconds,
    /// 99th percentile of it.
    pub p99: Seconds,
    /// Errors.
    pub errors: u64,
}

/// One run, window by window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The clients.
    pub client: Vec<ClientWindow>,
    /// The middleware.
    pub middleware: Vec<MiddlewareWindow>,
}

/// A value whose interval reaches farther than this share of it to either side is not known well: the interval is wider than a fifth of it.
pub const CERTAIN: f64 = 0.1;

impl Quantity {
    /// Half of its interval as a share of its value; none where it has no interval. Of a value of 0 any interval is too wide.
    pub fn half_share(&self) -> Option<f64> {
        let half = self.interval?.half_width();
        Some(if half > 0.0 { half / self.value.abs() } else { 0.0 })
    }

    /// Whether its interval allows a conclusion to be drawn from it. A value without one is not refused; the conclusion is
    /// told with the remark that there is no interval.
    pub fn is_certain(&self) -> bool {
        self.half_share().is_none_or(|half| half <= CERTAIN)
    }

    /// The mean of one value for each repetition, with its t interval where there are two or more.
    ///
    /// # Errors
    /// If there is no value, or one is not finite.
    pub fn of_repetitions(values: &[f64]) -> Result<Self, krarup_stats::StatsError> {
        let summary = Summary::of(values)?;
        let interval = summary.mean_estimate(USUAL_LEVEL).ok().map(|estimate| estimate.interval);
        Ok(Self { value: summary.mean, interval, n: summary.n, basis: Basis::Repetitions })
    }

    /// As [`Quantity::of_repetitions`]; of a single one, the interval is made from its windows: the same half width
    /// as their mean has, around the value of the run as a whole.
    ///
    /// # Errors
    /// As [`Quantity::of_repetitions`].
    pub fn of_run(values: &[f64], windows: &[f64]) -> Result<Self, krarup_stats::StatsError> {
        let plain = Self::of_repetitions(values)?;
        if values.len() > 1 || windows.len() < 2 {
            return Ok(plain);
        }
        let spread = Summary::of(windows)?;
        let interval = spread.mean_estimate(USUAL_LEVEL).ok().map(|estimate| {
            let half = estimate.interval.half_width();
            Interval { low: plain.value - half, high: plain.value + half, level: USUAL_LEVEL }
        });
        Ok(Self { interval, n: spread.n, basis: Basis::Windows, ..plain })
    }
}

impl Results {
    /// The cells of one workload, clients rising.
    pub fn workload<'a>(&'a self, workload: &'a str) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.levels.workload == workload)
    }

    /// The cell with these levels.
    pub fn cell(&self, levels: &Levels) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.levels == *levels)
    }
}

impl ProcessLoad {
    /// Utilization U: the share of what it could use that it used. Clocks that are read a moment apart make no more than all of it.
    pub fn utilization(&self) -> f64 {
        if self.cores > 0.0 { (self.busy / self.cores).min(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_has_the_interval_of_its_windows_and_says_so() {
        let one = Quantity::of_run(&[100.0], &[98.0, 100.0, 102.0]).unwrap();
        assert_eq!((one.n, one.basis), (3, Basis::Windows));
        let half = one.interval.unwrap().half_width();
        assert!((half - 4.303 * 2.0 / 3.0_f64.sqrt()).abs() < 0.01, "{half}");
    }

    #[test]
    fn several_runs_have_the_interval_of_their_spread() {
        let three = Quantity::of_run(&[99.0, 100.0, 101.0], &[1.0, 200.0]).unwrap();
        assert_eq!((three.value, three.n, three.basis), (100.0, 3, Basis::Repetitions));
        assert!((three.interval.unwrap().half_width() - 4.303 / 3.0_f64.sqrt()).abs() < 0.01);
    }

    #[test]
    fn a_single_observation_has_no_interval() {
        assert_eq!(Quantity::of_run(&[5.0], &[]).unwrap().interval, None);
        assert!(Quantity::of_repetitions(&[]).is_err());
        assert!(Quantity::of_repetitions(&[f64::NAN]).is_err());
    }
}
