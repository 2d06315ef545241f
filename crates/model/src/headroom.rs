//! How much headroom running traffic has: which resource is full first, at which rate, and at
//! which rate a target of response time breaks.
//!
//! ```text
//! LiveSnapshot ─▶ fit ────────▶ per server: delay d, service time S, contention, stalls
//!              ─▶ traffic ────▶ rate by second and by 50 ms, its bursts
//!                   │ both
//!                   ▼
//!                 replay ─────▶ response times at any rate ─▶ capacity, what-if
//!                   ▼
//!                 judge ──────▶ Headroom: a verdict with its interval, or silence with a reason
//! ```
//!
//! The measured quantity is the **effective service time** of a connection (a lane) to a server,
//!
//! ```text
//! e_j = answered_j − max(answered_{j−1}, sent_j + d)
//! ```
//!
//! taken from requests that found the connection busy. Answers on one connection come in order, so
//! between two of them the server worked, without interruption by lack of work, on that
//! connection: the mean of e is one over the rate at which the connection can be answered, whatever
//! the law of service and of arrivals (a renewal argument: over a busy period the e add up to its
//! length). `d` is the part of the round trip in which nothing queues; it is the one value for
//! which requests that found the connection idle have the same e as those that found it busy.
//!
//! Everything here is a pure function of a snapshot, a description of the system and a seed.

mod allowances;
mod answer;
mod changes;
mod consumers;
mod contention;
mod coverage;
mod fit;
mod fitted;
mod judge;
mod kept;
mod knee;
mod metrics;
mod question;
mod redline;
mod replay;
mod resources;
mod series;
mod server_fit;
mod service_by_request;
mod speed;
mod stores;
mod traffic;

pub use answer::{
    Allowance, CapacityEstimate, ChangeEffect, CopyChange, Headroom, HeadroomChange, HeadroomQuestion,
    HeadroomVerdict, LimitingResource, LiveServer, LiveSystem, ModelCheck, PROJECTED, PartMoves, ProvenRate,
    ProvenServer, ResourceKind, ResourceState, ResponseTarget, SCHEMA, STATED, STATED_OF_PEAK, ServerMoves,
    ServerQueue, Silence, TrafficSeen,
};
pub use consumers::{JobService, JobTraffic, NeedSilence, WorkersNeeded, workers_needed};
pub use contention::HeadroomMemory;
pub use judge::{judge, judge_remembering};
pub use knee::workers_wanted;
pub use metrics::{HEADROOM_METRICS, HeadroomMetric, HeadroomValue};
pub use question::{CHANGE_FORMS, HeadroomTarget, NamedChange};
pub use redline::{Redline, RedlineEnd, RedlineOrder, RedlineReport, RedlineSettings, RedlineStep};
pub use series::{
    SeriesHeadroom, SeriesLaw, SeriesPoint, SeriesSilence, SeriesTraffic, TriedLaw, judge_series,
};

#[cfg(test)]
mod tests;
