//! What is asked about headroom, and what is answered.

use std::borrow::Cow;

use krarup_units::{Seconds, Stamp};
use serde::{Deserialize, Serialize};

/// The version of the JSON that a [`Headroom`] is written as.
pub const SCHEMA: u32 = 1;

/// Up to this multiple of the rate of busy seconds, [`TrafficSeen::highest_per_s`], a capacity is
/// [`HeadroomVerdict::Stated`].
pub const STATED: f64 = 2.0;

/// And up to this multiple of the highest rate of 100 ms: within that time a processor quota would
/// have acted.
pub const STATED_OF_PEAK: f64 = 1.35;

/// Up to this multiple of the rate of busy seconds a capacity is [`HeadroomVerdict::Projected`];
/// beyond, nothing is said.
pub const PROJECTED: f64 = 4.0;

/// What is known of a server beside its traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveServer {
    /// Its name.
    pub name: String,
    /// Processors that it may use, where this is known.
    pub processors: Option<f64>,
    /// Bytes per second of the link to it, where this is known.
    pub link: Option<f64>,
    /// What it has shown that it can do.
    pub proven: Option<ProvenServer>,
    /// Whether it is down, as an event loop sees it.
    pub away: bool,
    /// Where requests wait for its connections.
    pub queue: ServerQueue,
}

/// Where requests wait for the connections of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerQueue {
    /// Behind each connection: a request is sent at once, and answered in its turn.
    #[default]
    EachConnection,
    /// Before all connections: one that is free takes the next request.
    Common,
    /// Before all connections: one that is free takes all requests that wait, which are answered
    /// together.
    Gathered {
        /// How many it takes at most.
        most: u32,
        /// While as many requests are under way no other connection takes any.
        beside: u32,
    },
}

impl ServerQueue {
    /// Whether requests wait in one queue before all connections, as for a store.
    pub fn is_common(self) -> bool {
        self != Self::EachConnection
    }
}

/// What a redline has shown that a server can do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProvenServer {
    /// The target that held.
    pub target: ResponseTarget,
    /// Requests a second that it answered then, over a whole step.
    pub server_per_s: f64,
    /// Parts that it gets of a request of all traffic with its usual share; none: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_parts: Option<f64>,
    /// The rate of all traffic at which it gets as much with its usual share; zero: it has shown
    /// nothing.
    pub traffic_per_s: f64,
    /// The same rate at which it missed the target; none: nothing showed it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_per_s: Option<f64>,
    /// The same rate at which its service time rose: contention begins. None: it did not rise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower_per_s: Option<f64>,
}

/// What is known of the system beside its traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveSystem {
    /// The servers, by their numbers in the visits.
    pub servers: Vec<LiveServer>,
    /// Connections to each server over all loops, where clients share them; none where each client
    /// has its own or nothing is known: then as many as were seen.
    pub lanes: Option<u16>,
    /// Workers that hold requests; none where they are unlimited.
    pub workers: Option<u32>,
    /// Processors that one loop may use: 1, or less under a quota.
    pub processors_per_loop: f64,
    /// How many clients may be connected, where there is a limit.
    pub most_clients: Option<u32>,
    /// Where requests go when a server is lost or added; none: it is not known, and the others
    /// share them evenly, or as they do now.
    pub moves: Option<PartMoves>,
    /// What this program, or a server, may use at most of what no rate of requests uses up by
    /// itself.
    pub allowances: Vec<Allowance>,
    /// Whether what requests are written to cannot be reached, does not answer, or refuses them:
    /// they wait, and no reply shows for how long.
    pub store_takes_nothing: bool,
}

/// Where the parts of requests go when servers change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartMoves {
    /// Those of reads.
    pub reads: ServerMoves,
    /// Those of writes, each of which has a part at every holder of its key.
    pub writes: ServerMoves,
}

/// Where parts of one kind go, as shares of what each server has of them now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerMoves {
    /// For each server, when it is lost: what each gets of it.
    pub lost: Vec<Vec<f64>>,
    /// For each server, when it is lost: of the requests with a part there the share that fails.
    pub fails: Vec<f64>,
    /// For each server, when there is one more: what each gets of it, the new one last. Beyond 1 in
    /// all they are copies.
    pub more: Vec<Vec<f64>>,
}

/// A limit that is not a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowance {
    /// Of what.
    pub resource: ResourceKind,
    /// Of which server; none: of this program.
    pub server: Option<String>,
    /// How much is used.
    pub used: f64,
    /// How much may be, above zero.
    pub most: f64,
    /// Requests a second, and how much was used, at moments until now.
    pub seen: Vec<(f64, f64)>,
}

impl LiveSystem {
    /// Servers of these names, one connection each, unlimited workers, a whole processor per loop.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        let servers = names.into_iter().map(|name| LiveServer { name, ..LiveServer::default() }).collect();
        Self { servers, processors_per_loop: 1.0, ..Self::default() }
    }

    /// Processors that each of these loops may use, where the process may use so many.
    pub fn per_loop(processors: f64, loops: usize) -> f64 {
        (processors / loops as f64).min(1.0)
    }
}

/// What is asked of the response time: that a share of requests is answered within a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseTarget {
    /// The share, above 0 and below 1.
    pub quantile: f64,
    /// The time, in seconds, above 0.
    pub seconds: Seconds,
}

/// One thing changed, whose effect is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum HeadroomChange {
    /// The rate of all traffic times this.
    Traffic(f64),
    /// The number of workers times this.
    Workers(f64),
    /// One more server, as fast as the slowest, that takes an equal share of what one server has to
    /// do, and a copy of what all of them have.
    ServerMore,
    /// One server lost, whose share is divided among the others: the one of this number, or the
    /// worst.
    ServerLost(Option<usize>),
    /// The service time of this server times a factor.
    ServerSlow(usize, f64),
    /// Bytes of all values times this.
    Values(f64),
    /// One more copy of each value, or one fewer: writes go to one server more, or to one fewer.
    Replicas(CopyChange),
}

impl HeadroomChange {
    /// Whether a server is lost or added by it, so that requests for its keys go elsewhere.
    pub const fn moves_servers(&self) -> bool {
        matches!(self, Self::ServerMore | Self::ServerLost(_))
    }
}

/// One copy more, or one fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyChange {
    /// One more.
    More,
    /// One fewer.
    Fewer,
}

impl CopyChange {
    /// As it is written.
    pub const fn words(self) -> &'static str {
        match self {
            Self::More => "replicas +1",
            Self::Fewer => "replicas -1",
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadroomQuestion {
    /// When the response time is too long; none: only saturation counts.
    pub target: Option<ResponseTarget>,
    /// Changes to look at.
    pub changes: Vec<HeadroomChange>,
    /// The seed of all random streams: the same snapshot and seed give the same answer.
    pub seed: u64,
}

/// How sure a capacity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadroomVerdict {
    /// A redline has shown within a day that the server which is full first, or one of which the
    /// traffic is too low to tell anything, does it with the target kept; the traffic tells of no
    /// more.
    Proven,
    /// It is at most [`STATED`] times the rate of busy seconds, and [`STATED_OF_PEAK`] times the
    /// highest of 100 ms, or times what a redline has proven; and no more than the rate at which
    /// one broke.
    Stated,
    /// It is at most [`PROJECTED`] times the rate of busy seconds: a limit that does not act until
    /// it is met may lie before.
    Projected,
    /// Nothing is said; [`Headroom::silent`] has the reasons.
    Silent,
}

/// Why nothing is said. The names are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// Fewer than 2000 requests were kept.
    FewRequests,
    /// Less than 4 seconds of traffic were seen.
    ShortTime,
    /// Fewer than 300 requests waited at the resource that seems to be first.
    FewWaited,
    /// Requests waited in fewer than 6 different seconds.
    WaitedInFewSeconds,
    /// No resource shows a queue.
    NoQueueSeen,
    /// A server changed its service time less than 2.5 blocks ago.
    ChangedJustNow,
    /// The model does not give the response times that were measured.
    CheckFailed,
    /// The event loop waited for a processor: other programs distort what is measured.
    MachineContended,
    /// The event loops waited for a processor, and may use fewer than there are loops.
    OwnQuota,
    /// High end over low end of the interval is above 1.9; of a percentile's target above 2.6.
    IntervalTooWide,
    /// The capacity is more than [`PROJECTED`] times the rate of busy seconds.
    TooFar,
    /// More than 1 % of the requests failed.
    Failures,
    /// Requests that find a server idle are answered quicker than the server's rate: an allowance
    /// that runs out, as of a token bucket.
    AllowanceRunsOut,
    /// A server's longest services end with the period of a processor quota: it is stopped when
    /// that is used up.
    QuotaRunsOut,
    /// The shares of servers or of writes are others than a moment ago.
    MixChanged,
    /// The response time is above the target at any rate.
    TargetBelowIdle,
    /// The store cannot be reached, does not answer, or refuses what is to be written: requests
    /// wait without a reply, and replies of before say nothing of them.
    StoreTakesNothing,
}

impl Silence {
    /// Every reason, in the order of their declaration.
    pub const ALL: &[Self] = &[
        Self::FewRequests,
        Self::ShortTime,
        Self::FewWaited,
        Self::WaitedInFewSeconds,
        Self::NoQueueSeen,
        Self::ChangedJustNow,
        Self::CheckFailed,
        Self::MachineContended,
        Self::OwnQuota,
        Self::IntervalTooWide,
        Self::TooFar,
        Self::Failures,
        Self::AllowanceRunsOut,
        Self::QuotaRunsOut,
        Self::MixChanged,
        Self::TargetBelowIdle,
        Self::StoreTakesNothing,
    ];

    /// Whether more traffic, or more of it at once, would end it; else something is wrong or moves.
    pub const fn wants_more_traffic(self) -> bool {
        matches!(
            self,
            Self::FewRequests
                | Self::ShortTime
                | Self::FewWaited
                | Self::WaitedInFewSeconds
                | Self::NoQueueSeen
                | Self::IntervalTooWide
                | Self::TooFar
        )
    }

    /// Its name in JSON and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FewRequests => "few_requests",
            Self::ShortTime => "short_time",
            Self::FewWaited => "few_waited",
            Self::WaitedInFewSeconds => "waited_in_few_seconds",
            Self::NoQueueSeen => "no_queue_seen",
            Self::ChangedJustNow => "changed_just_now",
            Self::CheckFailed => "check_failed",
            Self::MachineContended => "machine_contended",
            Self::OwnQuota => "own_quota",
            Self::IntervalTooWide => "interval_too_wide",
            Self::TooFar => "too_far",
            Self::Failures => "failures",
            Self::AllowanceRunsOut => "allowance_runs_out",
            Self::QuotaRunsOut => "quota_runs_out",
            Self::MixChanged => "mix_changed",
            Self::TargetBelowIdle => "target_below_idle",
            Self::StoreTakesNothing => "store_takes_nothing",
        }
    }

    /// What it means and what to do, in one sentence.
    pub const fn text(self) -> &'static str {
        match self {
            Self::FewRequests => "fewer than 2000 requests were seen: wait for more traffic",
            Self::ShortTime => "less than 4 seconds of traffic were seen: wait",
            Self::FewWaited => "too few requests found a server busy: the load is too low to tell",
            Self::WaitedInFewSeconds => "requests waited in too few different seconds: wait for more traffic",
            Self::NoQueueSeen => "no request waited anywhere: the load is too low to tell",
            Self::ChangedJustNow => "a server's service time changed a moment ago: wait half a minute",
            Self::CheckFailed => {
                "the model does not reproduce what was measured: something works otherwise than assumed"
            }
            Self::MachineContended => {
                "other programs take the processor from the event loop: measure on a quiet machine"
            }
            Self::OwnQuota => {
                "the event loops wait for a processor: this process may use fewer than it has loops, by its quota or the processors that it may run on; give it more, or fewer loops"
            }
            Self::IntervalTooWide => {
                "the interval is too wide to be of use: wait for more traffic, or for a higher load"
            }
            Self::TooFar => {
                "the capacity is over four times the rate of busy seconds (their 95th percentile): wait for a higher load"
            }
            Self::Failures => "more than 1 % of the requests failed: mend that first",
            Self::AllowanceRunsOut => {
                "an idle server answers quicker than a busy one can: an allowance runs out (token bucket, burst credits); configure the rate"
            }
            Self::QuotaRunsOut => {
                "a server often stands still until the next 100 ms begin: its processor quota runs out; configure its processors"
            }
            Self::MixChanged => {
                "the mix of requests of the last ten seconds is another than before (so it is while a cache is filled): wait until the time before is no longer kept, one minute at high rates and up to ten at low ones"
            }
            Self::TargetBelowIdle => "the response time is above the target at any rate, however low",
            Self::StoreTakesNothing => {
                "the database cannot be reached, does not answer, or refuses what is to be written: requests wait for it"
            }
        }
    }
}

/// What is full first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitingResource {
    /// Which kind of resource.
    pub resource: ResourceKind,
    /// Which one: the server's name; empty where there is one of the kind.
    pub name: String,
}

/// The kinds of resource that can be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// A server: its service time on the connections to it.
    Server,
    /// The event loop of this program: its processor time.
    Loop,
    /// The workers that hold requests.
    Workers,
    /// A link whose rate is known: to a server or, without a name, the busiest of this machine.
    Link,
    /// Memory of this program: what it holds, of what its control groups allow. With a server's
    /// name, as each of those that follow: the server's, as it says.
    Memory,
    /// Files and sockets of this program: those that are open, of what may be.
    Files,
    /// Connections of clients: those that are there, of what may be.
    Connections,
    /// The processors of this machine, with everything that runs on it; of a server, those that it
    /// uses of those that it has threads for.
    Processors,
    /// The clients: they wait for replies before they ask again, so they cannot ask more often.
    Clients,
}

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityEstimate {
    /// The low end: the conservative figure.
    pub low: f64,
    /// The estimate.
    pub mean: f64,
    /// The high end; infinite where nothing bounds it.
    #[serde(deserialize_with = "crate::infinite::number")]
    pub high: f64,
}

impl CapacityEstimate {
    /// All three ends by a function that keeps their order.
    #[must_use]
    pub fn map(self, with: impl Fn(f64) -> f64) -> Self {
        Self { low: with(self.low), mean: with(self.mean), high: with(self.high) }
    }

    /// Neither end, nor the mean, above those of the other.
    pub(super) fn at_most(self, other: &Self) -> Self {
        Self {
            low: self.low.min(other.low),
            mean: self.mean.min(other.mean),
            high: self.high.min(other.high),
        }
    }
}

/// One resource as the estimator sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceState {
    /// Which kind.
    pub resource: ResourceKind,
    /// Which one.
    pub name: String,
    /// The rate of all traffic at which it is full; none where this cannot be told.
    pub full_at_per_s: Option<f64>,
    /// The share of time, or of places, in use now.
    pub busy_now: Option<f64>,
    /// Mean service time on one connection, without what the server does for others meanwhile where
    /// that shows, in microseconds; of the loop, processor time per request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_us: Option<f64>,
    /// Its relative standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// The share of the time that its answers show in which the server works for others: taken out
    /// of the service time. None: it does not show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// The part of the round trip in which nothing queues, in microseconds; of clients how long one
    /// has all its replies before it asks again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside_us: Option<f64>,
    /// Requests seen that found the connection busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<usize>,
    /// By how much the service time grows per request outstanding, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contention: Option<f64>,
    /// The share of wall time lost in stalls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<f64>,
}

/// The effect of one change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeEffect {
    /// The change, in words.
    pub change: String,
    /// The capacity after it; none where silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_per_s: Option<CapacityEstimate>,
    /// The quantile of the target at the traffic of now, of the requests that do not fail, in
    /// seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantile_s: Option<Seconds>,
    /// The share of the requests that fail; none where none is known to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<f64>,
    /// Whether the target holds at the traffic of now, or at that of the change; none within the
    /// interval of the capacity, where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// Why nothing is said of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<Cow<'static, str>>,
}

/// Rates of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficSeen {
    /// Mean of the last ten seconds.
    pub now_per_s: f64,
    /// Of busy seconds: the 95th percentile of the seconds seen.
    pub highest_per_s: f64,
    /// Over how many seconds the traffic was looked at.
    pub over_s: f64,
    /// Squared coefficient of variation of the rate from second to second, Poisson noise taken out.
    pub c1: f64,
    /// The same from 50 ms to 50 ms within a second.
    pub c2: f64,
}

/// How well the model gives what was measured, as logarithms of model over measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCheck {
    /// Of the mean response time.
    #[serde(deserialize_with = "crate::infinite::number")]
    pub mean: f64,
    /// Of its 95th percentile.
    #[serde(deserialize_with = "crate::infinite::number")]
    pub p95: f64,
    /// Over how many stretches of traffic.
    pub blocks: usize,
}

/// The highest rates that were served, over intervals of two lengths, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProvenRate {
    /// Over a whole second.
    #[serde(rename = "1s")]
    pub one_second: f64,
    /// Over 100 ms.
    #[serde(rename = "100ms")]
    pub tenth_of_a_second: f64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headroom {
    /// [`SCHEMA`].
    pub schema: u32,
    /// When, on the clock of the run.
    pub at_ns: Stamp,
    /// Rates seen.
    pub traffic: TrafficSeen,
    /// The target asked for.
    pub target: Option<ResponseTarget>,
    /// How far the answer reaches.
    pub verdict: HeadroomVerdict,
    /// Why nothing is said; empty unless the verdict is [`HeadroomVerdict::Silent`].
    pub silent: Vec<Silence>,
    /// Whether the target is broken already by the traffic of now; none without a target or
    /// requests.
    pub broken_now: Option<bool>,
    /// What is full first; where only [`HeadroomVerdict::Proven`] bounds the capacity, the server
    /// whose proof that is.
    pub bottleneck: Option<LimitingResource>,
    /// The rate at which the target breaks or, without a target, the first resource is full; also
    /// where silent, if it was computed: then it is not to be relied on.
    pub capacity_per_s: Option<CapacityEstimate>,
    /// The rate at which the first resource is full; none where it is not known.
    pub saturation_per_s: Option<f64>,
    /// Capacity over the traffic of now.
    pub headroom_ratio: Option<CapacityEstimate>,
    /// What was served already.
    pub proven_per_s: ProvenRate,
    /// Every resource looked at, first to be full first.
    pub resources: Vec<ResourceState>,
    /// The effects of the changes asked for; all silent where nothing is stated or projected of the
    /// system as it is.
    pub what_if: Vec<ChangeEffect>,
    /// Whether the model gives what was measured.
    pub check: Option<ModelCheck>,
    /// What is taken for granted.
    pub assumes: Vec<String>,
}
