//! One combination of levels, all its repetitions together.

use krarup_record::watch::Watch;
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::quantity::{Quantity, TimeQuantities};
use crate::trial::{
    CellLevels, ClientWindow, HostLink, MiddlewareWindow, ResponseCourse, Stretch, SystemPart, TrialHistogram,
};

/// One combination of levels, all its repetitions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Which.
    pub levels: CellLevels,
    /// Think time Z of the clients.
    #[serde(default)]
    pub think: Seconds,
    /// Whether the rate was given (open load): then clients are only connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
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
    pub links: Vec<HostLink>,
    /// The repetitions one by one.
    pub repetitions: Vec<Repetition>,
    /// The first repetition, window by window.
    pub run: RunWindows,
    /// Response times at the clients, all repetitions.
    pub histogram: TrialHistogram,
    /// The level of every factor of the experiment.
    #[serde(default)]
    pub factors: Vec<(String, String)>,
    /// The mean of the repetitions' quantiles of the response time, at
    /// [`crate::distribution::share_of`]; empty where one is not known in full.
    #[serde(default)]
    pub quantiles: Vec<Seconds>,
    /// The mean of the repetitions' quantiles towards the slowest, at
    /// [`crate::distribution::tail_share`], as far as all of them go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<Seconds>,
    /// Keys asked for per second; none where no key was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Quantity>,
    /// The machine, the mean over the repetitions in which it was watched; of several all together.
    #[serde(default)]
    pub machine: Option<Watch>,
    /// Each of several machines, likewise, by its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<(String, Watch)>,
    /// Each operation apart, where there is more than one.
    #[serde(default)]
    pub operations: Vec<OperationCell>,
    /// Before and after each thing that was done to a station meanwhile, all repetitions together;
    /// empty where nothing was.
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
    /// Response time at the clients − response time at the middleware, of the means: network, and
    /// waiting to be read on both sides.
    pub outside: Quantity,
    /// Of how many middlewares these are the figures; 0 where that is not known.
    #[serde(default)]
    pub middlewares: u32,
    /// Worker slots, of all of them; none where unlimited.
    pub workers: Option<u32>,
    /// Whether one is free when the servers have answered, and not only when the reply has left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free_when_answered: bool,
    /// Queue length seen by those taken.
    pub queue_length: Option<Quantity>,
    /// Share of the worker slots that are held, X · hold time / workers at the middleware (Little's
    /// law; [`crate::trial::MiddlewareSide::hold`]), at most all of them: where the law makes it
    /// more, [`crate::Warning::WorkersBeyond`] says so.
    pub workers_busy: Option<f64>,
    /// Response times at the middleware, all repetitions.
    pub histogram: TrialHistogram,
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
    pub station: SystemPart,
    /// Which one.
    pub name: String,
    /// Processors kept busy, the mean over time and repetitions.
    pub busy: f64,
    /// How many it could keep busy.
    pub cores: f64,
}

/// One run in its own figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)] // what earlier builds have written knew less
pub struct Repetition {
    /// Which, from 0.
    pub repetition: u32,
    /// Requests answered per second.
    pub throughput: f64,
    /// Mean response time at the clients.
    pub response: Seconds,
    /// Its median.
    pub p50: Seconds,
    /// 90th percentile of it.
    pub p90: Seconds,
    /// 99th percentile of it.
    pub p99: Seconds,
    /// Requests answered, errors included.
    pub completed: u64,
    /// Errors.
    pub errors: u64,
    /// Keys asked for per second; none where no key was read.
    pub keys: Option<f64>,
    /// Mean queue time at the middleware, where it could be asked.
    pub queue: Option<Seconds>,
    /// Mean server time there.
    pub server: Option<Seconds>,
    /// Mean own time there.
    pub own: Option<Seconds>,
    /// Processors of the machine kept busy by whatever ran on it; none where it was not watched.
    pub processors: Option<f64>,
    /// Whether other programs may have changed its figures.
    pub disturbed: bool,
}

/// One run, window by window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunWindows {
    /// The clients.
    pub client: Vec<ClientWindow>,
    /// The middleware.
    pub middleware: Vec<MiddlewareWindow>,
    /// How the response times were distributed in each window: of the cells at a limit, where it is
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_times: Option<ResponseCourse>,
}

impl Cell {
    /// The level of a factor; none where the experiment does not have it.
    pub fn level(&self, factor: &str) -> Option<&str> {
        self.factors.iter().find(|(name, _)| name == factor).map(|(_, level)| level.as_str())
    }
}

impl ProcessLoad {
    /// Utilization U: the share of what it could use that it used. Clocks that are read a moment
    /// apart make no more than all of it.
    pub fn utilization(&self) -> f64 {
        if self.cores > 0.0 { (self.busy / self.cores).min(1.0) } else { 0.0 }
    }

    /// Whether it is a server that is called by its place, `server 1`: its name says what it is.
    pub(crate) fn is_server_by_place(&self) -> bool {
        self.station == SystemPart::Server && self.name.starts_with("server ")
    }
}
