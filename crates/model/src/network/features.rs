//! What a description contains that a solver may or may not treat, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{ClassWorkload, Discipline, Network, StationKind, Step, Work, equal_means};

/// A part of the description that a solver may or may not treat, and the name of where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Feature {
    /// What it is.
    pub kind: FeatureKind,
    /// The station, pool or class that has it.
    pub at: String,
}

/// What a solver may or may not treat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeatureKind {
    /// A class with an arrival rate.
    OpenClass,
    /// A class with a population.
    ClosedClass,
    /// More than one class.
    SeveralClasses,
    /// More than one server behind a queue.
    MultiServer,
    /// A speed that depends on the number present.
    LoadDependent,
    /// A limit on the number present.
    FiniteCapacity,
    /// A service time that is not exponential where it matters: in FCFS order, non-preemptive LIFO,
    /// preemptive LIFO at several servers.
    NotExponential,
    /// Different mean service times for different classes (or steps of one class), where these
    /// matter.
    UnequalService,
    /// Service by class priority.
    Priority,
    /// Slots held while other stations are visited.
    HeldPool,
    /// A limit on the requests that wait for a slot.
    FinitePoolQueue,
    /// Copies to several stations, all answers awaited.
    Fork,
    /// Copies to several stations, not all answers awaited: late copies load servers after their
    /// request has left.
    PartialFork,
    /// Gaps between arrivals that are not exponential.
    NotPoisson,
    /// An arrival rate that changes with time.
    TimeVarying,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            FeatureKind::OpenClass => "the open class",
            FeatureKind::ClosedClass => "the closed class",
            FeatureKind::SeveralClasses => "several classes, the second of which is",
            FeatureKind::MultiServer => "several servers at",
            FeatureKind::LoadDependent => "load-dependent rates at",
            FeatureKind::FiniteCapacity => "the finite capacity of",
            FeatureKind::NotExponential => "a service time that is not exponential in FCFS order at",
            FeatureKind::UnequalService => "unequal service times in FCFS order at",
            FeatureKind::Priority => "priorities at",
            FeatureKind::HeldPool => "slots held from pool",
            FeatureKind::FinitePoolQueue => "the finite queue of pool",
            FeatureKind::Fork => "the fork to",
            FeatureKind::PartialFork => "a fork that does not wait for all answers, to",
            FeatureKind::NotPoisson => "arrivals that are not Poisson in class",
            FeatureKind::TimeVarying => "the time-varying arrivals of class",
        };
        write!(f, "{what} `{}`", self.at)
    }
}

impl Network {
    /// Everything in this description that some solver treats differently from the plain case,
    /// sorted and without repetition. Plain is: one class, single servers and delays, exponential
    /// times.
    pub fn features(&self) -> Vec<Feature> {
        let mut found = BTreeSet::new();
        let mut add = |kind, at: &str| {
            found.insert(Feature { kind, at: at.to_owned() });
        };
        for class in &self.classes {
            match &class.workload {
                ClassWorkload::Open { gap, profile } => {
                    add(FeatureKind::OpenClass, &class.name);
                    if !gap.is_exponential() {
                        add(FeatureKind::NotPoisson, &class.name);
                    }
                    if !profile.is_empty() {
                        add(FeatureKind::TimeVarying, &class.name);
                    }
                }
                ClassWorkload::Closed { .. } => add(FeatureKind::ClosedClass, &class.name),
            }
            self.structure(&class.path, &mut add);
        }
        if let Some(second) = self.classes.get(1) {
            add(FeatureKind::SeveralClasses, &second.name);
        }
        for station in &self.stations {
            match &station.kind {
                StationKind::Servers { count } if *count > 1 => add(FeatureKind::MultiServer, &station.name),
                StationKind::LoadDependent { .. } => add(FeatureKind::LoadDependent, &station.name),
                _ => {}
            }
            if station.capacity.is_some() {
                add(FeatureKind::FiniteCapacity, &station.name);
            }
            if station.discipline == Discipline::Priority && station.kind != StationKind::Delay {
                add(FeatureKind::Priority, &station.name);
            }
        }
        self.services(&mut add);
        found.into_iter().collect()
    }

    /// Pools and forks of a path.
    fn structure(&self, path: &[Step], add: &mut dyn FnMut(FeatureKind, &str)) {
        for step in path {
            match step {
                Step::Visit(_) => {}
                Step::Hold { pool, path } => {
                    let pool = &self.pools[pool.0];
                    add(FeatureKind::HeldPool, &pool.name);
                    if pool.waiting.is_some() {
                        add(FeatureKind::FinitePoolQueue, &pool.name);
                    }
                    if pool.discipline == Discipline::Priority {
                        add(FeatureKind::Priority, &pool.name);
                    }
                    self.structure(path, add);
                }
                Step::Fork(fork) => {
                    // One copy to one of n is a random choice, which product form knows.
                    if fork.choose > 1 {
                        let all = fork.wait.needed(fork.choose) == fork.choose;
                        let kind = if all { FeatureKind::Fork } else { FeatureKind::PartialFork };
                        add(kind, &self.stations[fork.stations[0].0].name);
                    }
                }
                Step::OneOf { branches } => branches.iter().for_each(|b| self.structure(&b.path, add)),
            }
        }
    }

    /// Stations where service times matter and are not exponential, or not equal.
    fn services(&self, add: &mut dyn FnMut(FeatureKind, &str)) {
        let mut means: BTreeMap<usize, f64> = BTreeMap::new();
        for class in &self.classes {
            self.walk(&class.path, 1.0, &mut |_, id, work| {
                let station = &self.stations[id.0];
                if station.insensitive() {
                    return;
                }
                if !matches!(work, Work::Time(time) if time.is_exponential()) {
                    add(FeatureKind::NotExponential, &station.name);
                }
                let mean = station.service(work);
                let first = *means.entry(id.0).or_insert(mean);
                if !equal_means(mean, first) {
                    add(FeatureKind::UnequalService, &station.name);
                }
            });
        }
    }
}
