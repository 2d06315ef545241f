//! What monitoring is given of the headroom: figures while there is a conclusion, its verdict
//! always.

use krarup_model::headroom::{
    CapacityEstimate, Headroom, HeadroomVerdict, ResourceKind, ResourceState, Silence,
};

/// One value with its labels.
pub(super) struct HeadroomValue {
    /// Names and values of the labels.
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: f64,
}

fn one(labels: &[(&'static str, &str)], value: f64) -> HeadroomValue {
    let labels = labels.iter().map(|(label, of)| (*label, (*of).to_owned())).collect();
    HeadroomValue { labels, value }
}

/// 1 for the verdict that holds, 0 for the others.
pub(super) fn verdict(headroom: &Headroom) -> Vec<HeadroomValue> {
    let verdicts = [
        (HeadroomVerdict::Stated, "stated"),
        (HeadroomVerdict::Projected, "projected"),
        (HeadroomVerdict::Silent, "silent"),
    ];
    let value = |(verdict, name)| one(&[("verdict", name)], f64::from(u8::from(headroom.verdict == verdict)));
    verdicts.map(value).into()
}

/// 1 for each reason that holds, 0 for the others.
pub(super) fn silent(headroom: &Headroom) -> Vec<HeadroomValue> {
    let value = |reason: &Silence| {
        one(&[("reason", reason.name())], f64::from(u8::from(headroom.silent.contains(reason))))
    };
    Silence::ALL.iter().map(value).collect()
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

pub(super) fn ratio(headroom: &Headroom) -> Vec<HeadroomValue> {
    bounds(headroom, headroom.headroom_ratio)
}

pub(super) fn capacity(headroom: &Headroom) -> Vec<HeadroomValue> {
    bounds(headroom, headroom.capacity_per_s)
}

/// What was served already: none before anything was.
pub(super) fn proven(headroom: &Headroom) -> Vec<HeadroomValue> {
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
        ResourceKind::Clients => "clients",
    }
}

pub(super) fn bottleneck(headroom: &Headroom) -> Vec<HeadroomValue> {
    let first = said(headroom, headroom.bottleneck.as_ref());
    first
        .map(|first| one(&[("resource", kind(first.resource)), ("name", &first.name)], 1.0))
        .into_iter()
        .collect()
}

pub(super) fn full(headroom: &Headroom) -> Vec<HeadroomValue> {
    let of = |state: &ResourceState| {
        let value = said(headroom, state.full_at_per_s)?;
        Some(one(&[("resource", kind(state.resource)), ("name", &state.name)], value))
    };
    headroom.resources.iter().filter_map(of).collect()
}

/// A figure of each server that shows it; it is measured, and told in silence too.
fn of_servers(headroom: &Headroom, figure: fn(&ResourceState) -> Option<f64>) -> Vec<HeadroomValue> {
    let servers = headroom.resources.iter().filter(|state| state.resource == ResourceKind::Server);
    servers.filter_map(|state| Some(one(&[("server", &state.name)], figure(state)?))).collect()
}

pub(super) fn service(headroom: &Headroom) -> Vec<HeadroomValue> {
    of_servers(headroom, |state| state.service_us.map(|micros| micros / 1e6))
}

pub(super) fn stalled(headroom: &Headroom) -> Vec<HeadroomValue> {
    of_servers(headroom, |state| state.stalled)
}
