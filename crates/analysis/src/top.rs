//! What proxies and brokers do now, as one system: states, rates and times from looks at what each
//! exposes at its admin address.
//!
//! ```text
//! Samples of each instance, with when ─▶ TopState ─▶ TopFigures   the newest look against the one before
//! Headroom, HotKeys, ClientsReport    ─▶    │     ─▶ course       throughput and p99 of the last minute
//! ```
//!
//! Counters of several instances are summed, their histograms are put together; quantiles come from
//! the sum, but for that of a tube's services, which is the longest. Messages that several brokers
//! share are counted once. An instance that begins anew, or was not reached for a while, has no
//! rates until the look after the next.

mod course;
mod look;
mod rows;

use std::collections::BTreeMap;

use krarup_model::headroom::Headroom;
use krarup_model::hot_keys::HotKeys;
use krarup_record::ClientsReport;
use krarup_record::exposition::read::Samples;
use krarup_units::Seconds;
use serde::Serialize;

use course::TopCourse;
use look::LookPair;

pub use course::TopPoint;
pub use look::ServiceKind;
pub use rows::{TopOperation, TopPool, TopQueue, TopServer, TopStore, TopTotals, TopTube, TubeWorkers};

/// The version of the JSON that [`TopFigures`] are written as.
pub const TOP_SCHEMA: u32 = 1;

/// What is known of one process.
#[derive(Clone, Debug, Default)]
struct Instance {
    /// The newest look, and when it was.
    last: Option<(Seconds, Samples)>,
    /// It against the one before, if that is of the same run of the process.
    pair: Option<LookPair>,
    /// Since when it does not answer, and why.
    lost: Option<(Seconds, String)>,
    headroom: Option<Headroom>,
    hot_keys: Option<HotKeys>,
    clients: Option<ClientsReport>,
    /// What it did in the last minute.
    course: TopCourse,
}

/// One instance beside the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopInstance {
    /// Its admin address.
    pub instance: String,
    /// What it is; none: it has not answered yet.
    pub service: Option<ServiceKind>,
    /// Why it does not answer; none: it does.
    pub lost: Option<String>,
    /// For how long it has not answered.
    pub lost_s: Option<Seconds>,
    /// Since its start, when it last answered.
    pub uptime_s: Option<Seconds>,
    /// What it does; none: it was not looked at twice, or does not answer.
    pub totals: Option<TopTotals>,
}

/// What one instance says beside numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SaidBy<T> {
    /// Its admin address.
    pub instance: String,
    /// What it says.
    pub says: T,
}

/// All that is shown of one moment, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopFigures {
    /// [`TOP_SCHEMA`].
    pub schema: u32,
    /// The kinds of service that are looked at, as far as it is known.
    pub services: Vec<ServiceKind>,
    /// Every instance, in the order of their names.
    pub instances: Vec<TopInstance>,
    /// All of them together; none: nothing was looked at twice.
    pub totals: Option<TopTotals>,
    /// The queue and the workers of proxies.
    pub queue: Option<TopQueue>,
    /// The messages and the store of brokers.
    pub store: Option<TopStore>,
    /// Servers of proxies, in the order of their names.
    pub servers: Vec<TopServer>,
    /// Pools of proxies, likewise.
    pub pools: Vec<TopPool>,
    /// Operations, likewise.
    pub operations: Vec<TopOperation>,
    /// Tubes of brokers, likewise.
    pub tubes: Vec<TopTube>,
    /// What each proxy says of its clients.
    pub clients: Vec<SaidBy<ClientsReport>>,
    /// What each proxy says of the keys that take most.
    pub hot_keys: Vec<SaidBy<HotKeys>>,
    /// What each proxy says of its headroom.
    pub headroom: Vec<SaidBy<Headroom>>,
}

/// What was seen until now.
#[derive(Clone, Debug, Default)]
pub struct TopState {
    instances: BTreeMap<String, Instance>,
    course: TopCourse,
}

impl TopState {
    /// These instances are looked at from now on, and no others.
    pub fn set_instances(&mut self, names: impl IntoIterator<Item = String>) {
        let mut before = std::mem::take(&mut self.instances);
        self.instances = names
            .into_iter()
            .map(|name| {
                let known = before.remove(&name).unwrap_or_default();
                (name, known)
            })
            .collect();
    }

    /// The instances that are looked at, in their order.
    pub fn instances(&self) -> impl Iterator<Item = &str> {
        self.instances.keys().map(String::as_str)
    }

    /// What kind of service an instance is; none: it has not answered yet, or is not looked at.
    pub fn kind(&self, instance: &str) -> Option<ServiceKind> {
        ServiceKind::of(self.instances.get(instance)?.samples()?)
    }

    /// An instance has answered.
    pub fn looked(&mut self, instance: &str, at: Seconds, samples: Samples) {
        let Some(known) = self.instances.get_mut(instance) else { return };
        // One that did not answer meanwhile begins anew too: a rate over the gap would be that of
        // no moment.
        let before = known.last.take().filter(|_| known.lost.is_none());
        known.pair = before.and_then(|(then, before)| LookPair::of(before, samples.clone(), at - then));
        if known.pair.is_none() {
            (known.headroom, known.hot_keys, known.clients) = (None, None, None);
        }
        known.last = Some((at, samples));
        known.lost = None;
    }

    /// An instance does not answer.
    pub fn lost(&mut self, instance: &str, at: Seconds, why: impl Into<String>) {
        let Some(known) = self.instances.get_mut(instance) else { return };
        known.pair = None;
        let since = known.lost.as_ref().map_or(at, |(since, _)| *since);
        known.lost = Some((since, why.into()));
    }

    /// What an instance says of its headroom; none: nothing, and what it said before holds no more.
    pub fn set_headroom(&mut self, instance: &str, headroom: impl Into<Option<Headroom>>) {
        if let Some(known) = self.instances.get_mut(instance) {
            known.headroom = headroom.into();
        }
    }

    /// What an instance says of its hot keys; none: nothing, and what it said before holds no more.
    pub fn set_hot_keys(&mut self, instance: &str, keys: impl Into<Option<HotKeys>>) {
        if let Some(known) = self.instances.get_mut(instance) {
            known.hot_keys = keys.into();
        }
    }

    /// What an instance says of its clients; none: nothing, and what it said before holds no more.
    pub fn set_clients(&mut self, instance: &str, clients: impl Into<Option<ClientsReport>>) {
        if let Some(known) = self.instances.get_mut(instance) {
            known.clients = clients.into();
        }
    }

    /// The looks of the time until `now` are complete: what they add up to is a point of the
    /// course.
    pub fn advance(&mut self, now: Seconds) {
        for one in self.instances.values_mut() {
            let totals = one.totals();
            one.course.add(now, totals.as_ref());
        }
        let pairs = self.pairs(None);
        let totals = (!pairs.is_empty()).then(|| rows::totals(&pairs));
        self.course.add(now, totals.as_ref());
    }

    /// Throughput and p99 of the last minute until `now`, of all instances or of `only` one, as so
    /// many points of equal length, the oldest first.
    pub fn course(&self, now: Seconds, points: usize, only: Option<&str>) -> Vec<TopPoint> {
        let course = match only {
            Some(only) => self.instances.get(only).map(|one| &one.course),
            None => Some(&self.course),
        };
        course.map_or_else(Vec::new, |course| course.points(now, points))
    }

    /// What is known `now`, of all instances or of `only` one.
    pub fn figures(&self, now: Seconds, only: Option<&str>) -> TopFigures {
        let shown = |name: &str| only.is_none_or(|only| only == name);
        let pairs = self.pairs(only);
        let kinds = self.instances.values().filter_map(|one| ServiceKind::of(one.samples()?));
        let mut services: Vec<_> = kinds.collect();
        services.sort_unstable();
        services.dedup();
        let of = |kind: ServiceKind| -> Vec<&LookPair> {
            pairs.iter().copied().filter(|pair| pair.kind == kind).collect()
        };
        let (proxies, brokers) = (of(ServiceKind::Proxy), of(ServiceKind::Broker));
        let chosen = || self.instances.iter().filter(|(name, one)| shown(name) && one.lost.is_none());
        TopFigures {
            schema: TOP_SCHEMA,
            services,
            instances: self.instances.iter().map(|(name, one)| one.row(name, now)).collect(),
            totals: (!pairs.is_empty()).then(|| rows::totals(&pairs)),
            queue: (!proxies.is_empty()).then(|| rows::queue(&proxies)),
            store: (!brokers.is_empty()).then(|| rows::store(&brokers)),
            servers: rows::servers(&proxies),
            pools: rows::pools(&proxies),
            operations: rows::operations(&pairs),
            tubes: rows::tubes(&brokers),
            clients: chosen().filter_map(|(name, one)| said(name, one.clients.as_ref())).collect(),
            hot_keys: chosen().filter_map(|(name, one)| said(name, one.hot_keys.as_ref())).collect(),
            headroom: chosen().filter_map(|(name, one)| said(name, one.headroom.as_ref())).collect(),
        }
    }

    fn pairs(&self, only: Option<&str>) -> Vec<&LookPair> {
        let shown = self.instances.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
        shown.filter_map(|(_, one)| one.pair.as_ref()).collect()
    }
}

fn said<T: Clone>(instance: &str, says: Option<&T>) -> Option<SaidBy<T>> {
    Some(SaidBy { instance: instance.to_owned(), says: says?.clone() })
}

impl Instance {
    fn samples(&self) -> Option<&Samples> {
        self.last.as_ref().map(|(_, samples)| samples)
    }

    fn totals(&self) -> Option<TopTotals> {
        self.pair.as_ref().map(|pair| rows::totals(&[pair]))
    }

    fn row(&self, name: &str, now: Seconds) -> TopInstance {
        let last = self.samples();
        TopInstance {
            instance: name.to_owned(),
            service: last.and_then(ServiceKind::of),
            lost: self.lost.as_ref().map(|(_, why)| why.clone()),
            lost_s: self.lost.as_ref().map(|(since, _)| (now - since).max(0.0)),
            uptime_s: last.and_then(ServiceKind::uptime),
            totals: self.totals(),
        }
    }
}

#[cfg(test)]
mod tests;
