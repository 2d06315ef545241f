//! How throughput grows with the number present: the laws that are tried on the series of a
//! service.

use krarup_stats::nonlinear::NonlinearFit;
use krarup_stats::{Intercept, Predictor, Regression, USUAL_LEVEL};
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::laws::little;
use crate::station::erlang_c;
use crate::usl::Scalability;

/// Means over one step of the series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesPoint {
    /// End of the step, in seconds since 1970.
    pub at: Seconds,
    /// X: requests completed per second.
    pub rate: f64,
    /// N: requests in flight.
    pub in_flight: f64,
    /// R: mean response time.
    pub response: Seconds,
}

/// A law with its parameters. X is the throughput, R the response time, C the rate at which
/// throughput ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "snake_case")]
pub enum SeriesLaw {
    /// R = r / (1 − X/C), as of one server whose service times are exponential.
    OneServer {
        /// r: the response time without a queue.
        idle: Seconds,
        /// C, per second.
        limit: f64,
    },
    /// R = r + w·X / (C − X): a delay, and one server of any service law (Pollaczek and Khinchine).
    DelayAndServer {
        /// r: the response time without a queue.
        idle: Seconds,
        /// w: the waiting time at half of C.
        wait: Seconds,
        /// C, per second.
        limit: f64,
    },
    /// A delay, and a station with several servers and one queue (Erlang's C).
    SeveralServers {
        /// How many servers.
        servers: u32,
        /// Time of a request with one of them.
        service: Seconds,
        /// Time elsewhere, without a queue.
        delay: Seconds,
    },
    /// The universal scalability law: throughput falls beyond its top.
    Scalability(Scalability),
}

impl SeriesLaw {
    /// X, per second, while so many requests are present on average (above 0).
    pub fn throughput(&self, present: f64) -> f64 {
        match *self {
            Self::OneServer { idle, limit } => limit * present / (idle * limit + present),
            Self::DelayAndServer { idle, wait, limit } => {
                // N = X·r + w·X² / (C − X): the root between 0 and C, in the form that loses no
                // digits.
                let (square, linear) = (wait - idle, idle * limit + present);
                let root = (linear * linear + 4.0 * square * present * limit).sqrt();
                2.0 * present * limit / (linear + root)
            }
            Self::SeveralServers { servers, service, delay } => {
                let most = f64::from(servers);
                let (mut low, mut high) = (0.0, most.min(present * service / (service + delay)));
                for _ in 0..30 {
                    let busy = 0.5 * (low + high);
                    let waiting = erlang_c(servers, busy) * busy / (most - busy);
                    let has_room = busy + busy * delay / service + waiting < present;
                    (low, high) = if has_room { (busy, high) } else { (low, busy) };
                }
                0.5 * (low + high) / service
            }
            Self::Scalability(law) => law.throughput(present),
        }
    }

    /// The rate that throughput does not exceed, per second.
    pub fn limit(&self) -> f64 {
        match *self {
            Self::OneServer { limit, .. } | Self::DelayAndServer { limit, .. } => limit,
            Self::SeveralServers { servers, service, .. } => f64::from(servers) / service,
            Self::Scalability(law) => law.limit(),
        }
    }

    /// The highest rate at which the mean response time keeps the target, or [`Self::limit`]
    /// without one; none where the response time is above the target at any rate.
    pub fn capacity(&self, target: Option<Seconds>) -> Option<f64> {
        let Some(target) = target else { return Some(self.limit()) };
        let keeps = |present: f64| present / self.throughput(present) <= target;
        let (mut low, mut high) = (1e-6, 1e9);
        if !keeps(low) {
            return None;
        }
        // R grows with the number present; it spans many powers of ten.
        for _ in 0..60 {
            let middle = f64::sqrt(low * high);
            (low, high) = if keeps(middle) { (middle, high) } else { (low, middle) };
        }
        let most = if let Self::Scalability(law) = self { law.best() } else { f64::INFINITY };
        Some(self.throughput(low.min(most)))
    }

    /// The law in words.
    pub fn name(&self) -> String {
        match self {
            Self::OneServer { .. } => "one server".to_owned(),
            Self::DelayAndServer { .. } => "a delay and one server".to_owned(),
            Self::SeveralServers { servers: 1, .. } => "a delay and one exponential server".to_owned(),
            Self::SeveralServers { servers, .. } => format!("{servers} servers with one queue"),
            Self::Scalability(_) => "universal scalability law".to_owned(),
        }
    }

    /// Whether the parameters mean something.
    fn is_possible(&self) -> bool {
        let parameters = match *self {
            Self::OneServer { idle, limit } => [idle, limit, 1.0],
            Self::DelayAndServer { idle, wait, limit } => [idle, wait, limit],
            Self::SeveralServers { service, delay, .. } => [service, delay + service, 1.0],
            Self::Scalability(law) => [law.single, law.contention, law.coherence],
        };
        parameters.iter().all(|one| one.is_finite() && *one > 0.0)
    }
}

/// A kind of law, not yet fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LawKind {
    OneServer,
    DelayAndServer,
    SeveralServers(u32),
    Scalability,
}

impl LawKind {
    /// All kinds, those that take least from the points first.
    pub(super) const ALL: &[Self] = &[
        Self::OneServer,
        Self::SeveralServers(1),
        Self::SeveralServers(2),
        Self::SeveralServers(4),
        Self::SeveralServers(8),
        Self::SeveralServers(16),
        Self::SeveralServers(32),
        Self::DelayAndServer,
        Self::Scalability,
    ];

    /// The law of this kind that gives the throughput at the number present best (least squares of
    /// its logarithm); none where the points do not determine one, or one without meaning.
    pub(super) fn fit(self, points: &[SeriesPoint]) -> Option<SeriesLaw> {
        let present: Vec<f64> = points.iter().map(|point| little(point.rate, point.response)).collect();
        let times: Vec<f64> = points.iter().map(|point| point.response).collect();
        // R = (r·C + N) / C is a line for one server: where every other law begins.
        let line = Regression::fit(
            &[Predictor::new("number present", &present)],
            Intercept::Fitted,
            &times,
            USUAL_LEVEL,
        );
        let line = line.ok()?.coefficients;
        let [idle, slope] = [0, 1].map(|number| line[number].estimate.value);
        let shortest = times.iter().copied().fold(f64::INFINITY, f64::min);
        let idle = idle.max(0.5 * shortest);
        if slope <= 0.0 {
            return None;
        }
        let start = self.start(idle, slope);
        let logs: Vec<f64> = points.iter().map(|point| point.rate.ln()).collect();
        let search = |start: &[f64]| {
            let model = |parameters: &[f64], i: usize| {
                let law = self.with(parameters);
                if law.is_possible() { law.throughput(present[i]).ln() } else { f64::NAN }
            };
            let named: Vec<(&str, f64)> = NAMES.into_iter().zip(start.iter().copied()).collect();
            let fit = NonlinearFit::new(&named, &logs, model, USUAL_LEVEL).ok()?;
            Some(self.with(&fit.values())).filter(SeriesLaw::is_possible)
        };
        match search(&start)? {
            // A delay below 0 only says that there is none to be seen.
            SeriesLaw::SeveralServers { delay, .. } if delay < 0.0 => search(&start[..1]),
            law => Some(law),
        }
    }

    /// Where the search begins: R is about idle + slope·N.
    fn start(self, idle: Seconds, slope: f64) -> Vec<f64> {
        let limit = 1.0 / slope;
        match self {
            Self::OneServer => vec![idle, limit],
            Self::DelayAndServer => vec![idle, limit, idle],
            Self::SeveralServers(servers) => {
                let service = (f64::from(servers) * slope).min(0.9 * idle);
                vec![service, idle - service]
            }
            Self::Scalability => {
                // λ is the throughput of one, σ what a further one adds to the time.
                let single = 1.0 / (idle + slope);
                let contention = (slope * single).clamp(1e-3, 0.9);
                vec![single, contention, 1e-2 * contention]
            }
        }
    }

    /// The law with these parameters; those that are missing are 0.
    fn with(self, parameters: &[f64]) -> SeriesLaw {
        let of = |number: usize| parameters.get(number).copied().unwrap_or(0.0);
        match self {
            Self::OneServer => SeriesLaw::OneServer { idle: of(0), limit: of(1) },
            Self::DelayAndServer => SeriesLaw::DelayAndServer { idle: of(0), limit: of(1), wait: of(2) },
            Self::SeveralServers(servers) => {
                SeriesLaw::SeveralServers { servers, service: of(0), delay: of(1) }
            }
            Self::Scalability => {
                SeriesLaw::Scalability(Scalability { single: of(0), contention: of(1), coherence: of(2) })
            }
        }
    }
}

/// Names of the parameters, in the order in which a fit has them.
const NAMES: [&str; 3] = ["first", "second", "third"];
