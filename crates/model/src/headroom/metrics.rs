//! What monitoring is given of the headroom, of whichever program: figures while there is a
//! conclusion, its verdict always.

use super::answer::{CapacityEstimate, Headroom, HeadroomVerdict, ResourceKind, ResourceState, Silence};

/// One metric of the headroom, a gauge.
#[derive(Clone, Copy, Debug)]
pub struct HeadroomMetric {
    /// Its name, after the conventions of Prometheus.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// The names of its labels, separated by commas; none: it has one value.
    pub labels: Option<&'static str>,
    /// Its values in an answer.
    pub values: fn(&Headroom) -> Vec<HeadroomValue>,
}

/// One value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadroomValue {
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// Every metric of the headroom, in the order in which they are told.
pub const HEADROOM_METRICS: [HeadroomMetric; 10] = [
    HeadroomMetric {
        name: "krarup_headroom_verdict",
        help: "1 for how far the answer about headroom reaches: `proven` by a redline, `stated` up to twice the rate of busy seconds (their 95th percentile), `projected` up to four times, else `silent`.",
        labels: Some("verdict"),
        values: verdict,
    },
    HeadroomMetric {
        name: "krarup_headroom_silent",
        help: "1 for each reason why nothing is said of the headroom.",
        labels: Some("reason"),
        values: silent,
    },
    HeadroomMetric {
        name: "krarup_headroom_target_broken",
        help: "1 while replies of the last ten seconds break the target, 0 while they keep it, also where silent; absent without a target, and with fewer than 100 replies.",
        labels: None,
        values: target_broken,
    },
    HeadroomMetric {
        name: "krarup_headroom_ratio",
        help: "Capacity over the traffic of now, with the ends of its interval (`low`, `mean`, `high`); absent where silent.",
        labels: Some("bound"),
        values: ratio,
    },
    HeadroomMetric {
        name: "krarup_capacity_requests_per_second",
        help: "The rate at which the target of response time breaks or, without one, the first resource is full; absent where silent.",
        labels: Some("bound"),
        values: capacity,
    },
    HeadroomMetric {
        name: "krarup_proven_requests_per_second",
        help: "The most requests that were served in one second of the last minutes: proven by the traffic itself, where the verdict `proven` is what a redline has shown.",
        labels: None,
        values: proven,
    },
    HeadroomMetric {
        name: "krarup_bottleneck",
        help: "1 for the resource that is full first; absent where silent.",
        labels: Some("resource, name"),
        values: bottleneck,
    },
    HeadroomMetric {
        name: "krarup_resource_full_requests_per_second",
        help: "The rate of all requests at which a resource is full, where that can be told; absent where silent.",
        labels: Some("resource, name"),
        values: full,
    },
    HeadroomMetric {
        name: "krarup_server_service_seconds",
        help: "Mean service time of one request on one connection to a server, without queue and round trip. What the server does for others meanwhile is `apart`, not in it, where that shows, else it may be `within`: two series, which do not compare. Absent where few requests waited.",
        labels: Some("server, others"),
        values: service,
    },
    HeadroomMetric {
        name: "krarup_server_stalled_ratio",
        help: "The share of time in which a server stood still.",
        labels: Some("server"),
        values: stalled,
    },
];

fn one(labels: &[(&'static str, &str)], value: f64) -> HeadroomValue {
    let labels = labels.iter().map(|(label, of)| (*label, (*of).to_owned())).collect();
    HeadroomValue { labels, value }
}

/// 1 for the verdict that holds, 0 for the others.
fn verdict(headroom: &Headroom) -> Vec<HeadroomValue> {
    let verdicts = [
        (HeadroomVerdict::Proven, "proven"),
        (HeadroomVerdict::Stated, "stated"),
        (HeadroomVerdict::Projected, "projected"),
        (HeadroomVerdict::Silent, "silent"),
    ];
    let value = |(verdict, name)| one(&[("verdict", name)], f64::from(u8::from(headroom.verdict == verdict)));
    verdicts.map(value).into()
}

/// 1 for each reason that holds, 0 for the others.
fn silent(headroom: &Headroom) -> Vec<HeadroomValue> {
    let value = |reason: &Silence| {
        one(&[("reason", reason.name())], f64::from(u8::from(headroom.silent.contains(reason))))
    };
    Silence::ALL.iter().map(value).collect()
}

fn target_broken(headroom: &Headroom) -> Vec<HeadroomValue> {
    let value = |is_broken: bool| one(&[], f64::from(u8::from(is_broken)));
    headroom.broken_now.map(value).into_iter().collect()
}

/// What is said, unless nothing is.
fn said<T>(headroom: &Headroom, what: Option<T>) -> Option<T> {
    what.filter(|_| headroom.verdict != HeadroomVerdict::Silent)
}

fn bounds(headroom: &Headroom, estimate: Option<CapacityEstimate>) -> Vec<HeadroomValue> {
    let bounds = |of: CapacityEstimate| [("low", of.low), ("mean", of.mean), ("high", of.high)];
    let all = said(headroom, estimate).map(bounds).into_iter().flatten();
    all.map(|(bound, value)| one(&[("bound", bound)], value)).collect()
}

fn ratio(headroom: &Headroom) -> Vec<HeadroomValue> {
    bounds(headroom, headroom.headroom_ratio)
}

fn capacity(headroom: &Headroom) -> Vec<HeadroomValue> {
    bounds(headroom, headroom.capacity_per_s)
}

/// What was served already: none before anything was.
fn proven(headroom: &Headroom) -> Vec<HeadroomValue> {
    let proven = headroom.proven_per_s.one_second;
    (proven > 0.0).then(|| one(&[], proven)).into_iter().collect()
}

const fn kind(resource: ResourceKind) -> &'static str {
    match resource {
        ResourceKind::Server => "server",
        ResourceKind::Loop => "loop",
        ResourceKind::Workers => "workers",
        ResourceKind::Link => "link",
        ResourceKind::Memory => "memory",
        ResourceKind::Files => "files",
        ResourceKind::Connections => "connections",
        ResourceKind::Processors => "processors",
        ResourceKind::Clients => "clients",
    }
}

fn bottleneck(headroom: &Headroom) -> Vec<HeadroomValue> {
    let first = said(headroom, headroom.bottleneck.as_ref());
    first
        .map(|first| one(&[("resource", kind(first.resource)), ("name", &first.name)], 1.0))
        .into_iter()
        .collect()
}

fn full(headroom: &Headroom) -> Vec<HeadroomValue> {
    let of = |state: &ResourceState| {
        let value = said(headroom, state.full_at_per_s)?;
        Some(one(&[("resource", kind(state.resource)), ("name", &state.name)], value))
    };
    headroom.resources.iter().filter_map(of).collect()
}

/// What is told of each server that shows it; it is measured, and told in silence too.
fn of_servers(headroom: &Headroom, value: fn(&ResourceState) -> Option<HeadroomValue>) -> Vec<HeadroomValue> {
    let servers = headroom.resources.iter().filter(|state| state.resource == ResourceKind::Server);
    servers.filter_map(value).collect()
}

/// What is measured with others' work in it and without is told apart: or monitoring takes the one
/// after the other for a server that changed.
fn service(headroom: &Headroom) -> Vec<HeadroomValue> {
    of_servers(headroom, |state| {
        let others = if state.others.is_some() { "apart" } else { "within" };
        Some(one(&[("server", &state.name), ("others", others)], state.service_us? / 1e6))
    })
}

fn stalled(headroom: &Headroom) -> Vec<HeadroomValue> {
    of_servers(headroom, |state| Some(one(&[("server", &state.name)], state.stalled?)))
}
