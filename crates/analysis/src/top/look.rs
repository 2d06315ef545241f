//! Two looks at one process, and what happened between them.

use krarup_record::exposition::read::{BucketedTimes, Samples};
use krarup_units::Seconds;
use serde::Serialize;

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceKind {
    /// `krarup proxy`.
    Proxy,
    /// `krarup broker`.
    Broker,
}

impl ServiceKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Broker => "broker",
        }
    }

    /// What the process is that exposes these; none: no proxy and no broker.
    pub fn of(samples: &Samples) -> Option<Self> {
        [Self::Broker, Self::Proxy].into_iter().find(|kind| samples.value(kind.names().uptime).is_some())
    }

    /// Since the start of the process that exposes these.
    pub(super) fn uptime(samples: &Samples) -> Option<Seconds> {
        samples.value(Self::of(samples)?.names().uptime)
    }

    /// Under which names it exposes what both kinds do.
    pub(super) const fn names(self) -> &'static MetricNames {
        match self {
            Self::Proxy => &PROXY,
            Self::Broker => &BROKER,
        }
    }
}

/// The names under which a kind of process exposes what both kinds do.
pub(super) struct MetricNames {
    pub(super) uptime: &'static str,
    pub(super) clients: &'static str,
    pub(super) requests: &'static str,
    pub(super) errors: &'static str,
    pub(super) queue: &'static str,
    /// The time with servers, or with the store.
    pub(super) behind: &'static str,
    pub(super) own: &'static str,
    pub(super) response: &'static str,
}

const PROXY: MetricNames = MetricNames {
    uptime: "krarup_uptime_seconds",
    clients: "krarup_client_connections",
    requests: "krarup_requests_total",
    errors: "krarup_request_errors_total",
    queue: "krarup_queue_time_seconds",
    behind: "krarup_server_time_seconds",
    own: "krarup_own_time_seconds",
    response: "krarup_response_time_seconds",
};

const BROKER: MetricNames = MetricNames {
    uptime: "krarup_broker_uptime_seconds",
    clients: "krarup_broker_clients",
    requests: "krarup_broker_requests_total",
    errors: "krarup_broker_errors_total",
    queue: "krarup_broker_queue_time_seconds",
    behind: "krarup_broker_store_time_seconds",
    own: "krarup_broker_own_time_seconds",
    response: "krarup_broker_response_time_seconds",
};

/// By how much the clock of a process and that of its reader may differ between two looks: answers
/// are on their way for some time.
const LIMIT: Seconds = 5.0;

/// Two looks at one run of a process.
#[derive(Clone, Debug)]
pub(super) struct LookPair {
    pub(super) kind: ServiceKind,
    before: Samples,
    pub(super) now: Samples,
    /// Between them; above zero.
    seconds: Seconds,
}

impl LookPair {
    /// None where no time is between them, or the process began anew, or is another one: its age
    /// has then not grown by what has `elapsed` for the reader. The time is that of the process's
    /// own clock: an answer may be on its way for longer than the one before.
    pub(super) fn of(before: Samples, now: Samples, elapsed: Seconds) -> Option<Self> {
        let kind = ServiceKind::of(&now).filter(|kind| ServiceKind::of(&before) == Some(*kind))?;
        let seconds = ServiceKind::uptime(&now)? - ServiceKind::uptime(&before)?;
        let is_same = seconds > 0.0 && (elapsed - seconds).abs() <= LIMIT;
        is_same.then_some(Self { kind, before, now, seconds })
    }

    /// The only value of a metric now; zero where it has none.
    pub(super) fn value(&self, name: &str) -> f64 {
        self.now.value(name).unwrap_or(0.0)
    }

    /// One of the values of a metric now.
    pub(super) fn value_of(&self, name: &str, label: &str, of: &str) -> Option<f64> {
        self.now.of(name, label, of)
    }

    /// Whether a metric had one of these values at the look before.
    pub(super) fn had(&self, name: &str, label: &str, of: &str) -> bool {
        self.before.of(name, label, of).is_some()
    }

    /// By how much the only value of a counter grew per second.
    pub(super) fn rate(&self, name: &str) -> f64 {
        self.per_second(self.now.value(name), self.before.value(name))
    }

    /// By how much one of its values grew per second.
    pub(super) fn rate_of(&self, name: &str, label: &str, of: &str) -> f64 {
        self.per_second(self.now.of(name, label, of), self.before.of(name, label, of))
    }

    /// Counters that were reset have not run backwards.
    fn per_second(&self, now: Option<f64>, before: Option<f64>) -> f64 {
        (now.unwrap_or(0.0) - before.unwrap_or(0.0)).max(0.0) / self.seconds
    }

    /// The times that were counted in between.
    pub(super) fn times(&self, name: &str, label: Option<(&str, &str)>) -> BucketedTimes {
        self.now.buckets(name, label).since(&self.before.buckets(name, label))
    }
}
