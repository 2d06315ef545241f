//! Every name, number and reference of a description, checked before anything is computed.

use std::collections::BTreeSet;

use super::{Class, ClassWorkload, Discipline, Network, SlotPoolId, StationId, StationKind, Step, Work};
use crate::Error;

impl Network {
    /// Checks every name, number and reference.
    ///
    /// # Errors
    /// Names the first thing that is wrong. [`crate::form`] gives the line too.
    pub fn check(&self) -> Result<(), Error> {
        self.check_names()?;
        for station in &self.stations {
            let wrong = |why: String, hint: &str| {
                Err(Error::invalid(format!("station `{}`", station.name), why, hint))
            };
            match &station.kind {
                StationKind::Servers { count: 0 } => {
                    return wrong("has no servers".into(), "write servers = 1 or more");
                }
                StationKind::LoadDependent { rates } if rates.is_empty() => {
                    return wrong(
                        "has no rates".into(),
                        "write rates = [1.0, …], one for each number present",
                    );
                }
                StationKind::LoadDependent { rates } => {
                    if let Some(rate) = rates.iter().find(|r| !(r.is_finite() && **r > 0.0)) {
                        return wrong(format!("has a rate of {rate}"), "each rate must be > 0");
                    }
                }
                StationKind::Link { bits_per_second, .. }
                    if !(bits_per_second.is_finite() && *bits_per_second > 0.0) =>
                {
                    return wrong(format!("has a bandwidth of {bits_per_second} bit/s"), "it must be > 0");
                }
                _ => {}
            }
            if let (Some(capacity), StationKind::Servers { count }) = (station.capacity, &station.kind)
                && capacity < u64::from(*count)
            {
                return wrong(
                    format!("has room for {capacity} but {count} servers"),
                    "capacity counts those in service too",
                );
            }
            if !(station.factor.is_finite() && station.factor > 0.0) {
                return wrong(
                    format!("has a factor of {}", station.factor),
                    "it must be > 0; 1 is as written",
                );
            }
            if station.capacity == Some(0) {
                return wrong(
                    "has room for no request".into(),
                    "write capacity = 1 or more, or leave it out",
                );
            }
        }
        for pool in &self.pools {
            if pool.size == 0 {
                return Err(Error::invalid(
                    format!("pool `{}`", pool.name),
                    "has no slots",
                    "write size = 1 or more",
                ));
            }
            if matches!(pool.discipline, Discipline::ProcessorSharing | Discipline::LifoPreemptive) {
                return Err(Error::invalid(
                    format!("pool `{}`", pool.name),
                    "a slot cannot be shared or taken away",
                    "use fcfs, lifo or priority",
                ));
            }
        }
        if self.classes.is_empty() {
            return Err(Error::invalid("network", "has no class", "add a [[class]] with a path"));
        }
        for class in &self.classes {
            self.check_class(class)?;
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), Error> {
        let groups: [(&str, Vec<&str>); 3] = [
            ("station", self.stations.iter().map(|s| s.name.as_str()).collect()),
            ("pool", self.pools.iter().map(|p| p.name.as_str()).collect()),
            ("class", self.classes.iter().map(|c| c.name.as_str()).collect()),
        ];
        for (kind, names) in groups {
            let mut seen = BTreeSet::new();
            for name in names {
                if name.is_empty() {
                    return Err(Error::invalid(kind, "has an empty name", "give it a name"));
                }
                if !seen.insert(name) {
                    let thing = format!("{kind} `{name}`");
                    return Err(Error::invalid(thing, "is there twice", "give each its own name"));
                }
            }
        }
        Ok(())
    }

    fn check_class(&self, class: &Class) -> Result<(), Error> {
        let name = format!("class `{}`", class.name);
        let wrong = |why: &str, hint: &str| Err(Error::invalid(&name, why, hint));
        match &class.workload {
            ClassWorkload::Open { gap, profile } => {
                gap.check()?;
                if gap.mean() <= 0.0 {
                    return wrong("arrives infinitely fast", "the rate must be finite");
                }
                if profile.iter().any(|c| !(c.factor.is_finite() && c.factor >= 0.0 && c.at.is_finite())) {
                    return wrong("has an impossible rate profile", "factors must be ≥ 0 and times finite");
                }
                if profile.windows(2).any(|pair| pair[1].at <= pair[0].at) {
                    return wrong("has a rate profile out of order", "write its times in rising order");
                }
            }
            ClassWorkload::Closed { population, think } => {
                think.check()?;
                if *population == 0 {
                    return wrong("has no clients", "write population = 1 or more");
                }
            }
        }
        if class.path.is_empty() {
            return wrong("has an empty path", "list at least one step");
        }
        self.check_path(&name, &class.path, &mut Vec::new())
    }

    fn check_path(&self, class: &str, path: &[Step], held: &mut Vec<SlotPoolId>) -> Result<(), Error> {
        let wrong = |why: String, hint: &str| Err(Error::invalid(class, why, hint));
        for step in path {
            match step {
                Step::Visit(visit) => {
                    if !(visit.count.is_finite() && visit.count > 0.0) {
                        return wrong(
                            format!("visits a station {} times", visit.count),
                            "visits must be > 0",
                        );
                    }
                    self.check_work(class, visit.station, &visit.work)?;
                }
                Step::Hold { pool, path } => {
                    if pool.0 >= self.pools.len() {
                        return wrong(format!("holds pool number {}", pool.0), "there is no such pool");
                    }
                    if held.contains(pool) {
                        let name = &self.pools[pool.0].name;
                        return wrong(
                            format!("takes a second slot of pool `{name}` while it holds one"),
                            "this can deadlock; hold it once, around both",
                        );
                    }
                    if path.is_empty() {
                        return wrong("holds a slot for an empty path".into(), "put the visits inside");
                    }
                    held.push(*pool);
                    self.check_path(class, path, held)?;
                    held.pop();
                }
                Step::Fork(fork) => {
                    let different: BTreeSet<_> = fork.stations.iter().collect();
                    let copies = fork.choose as usize;
                    if different.len() != fork.stations.len() || copies == 0 || copies > fork.stations.len() {
                        return wrong(
                            format!("forks to {} of {} stations", fork.choose, different.len()),
                            "name each station once and choose between 1 and all of them",
                        );
                    }
                    let needed = fork.wait.needed(fork.choose);
                    if needed == 0 || needed > fork.choose {
                        return wrong(
                            format!("waits for {needed} of {} answers", fork.choose),
                            "a quorum lies between 1 and the number of copies",
                        );
                    }
                    for station in &fork.stations {
                        self.check_work(class, *station, &fork.work)?;
                    }
                }
                Step::OneOf { branches } => {
                    if branches.is_empty() || branches.iter().any(|b| !(b.share.is_finite() && b.share > 0.0))
                    {
                        return wrong("has branches without a share".into(), "each share must be > 0");
                    }
                    for branch in branches {
                        self.check_path(class, &branch.path, held)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn check_work(&self, class: &str, station: StationId, work: &Work) -> Result<(), Error> {
        let wrong = |why: String, hint: &str| Err(Error::invalid(class, why, hint));
        let Some(place) = self.stations.get(station.0) else {
            return wrong(format!("visits station number {}", station.0), "there is no such station");
        };
        match work {
            Work::Time(time) => time.check(),
            Work::Bytes(bytes) if !(bytes.is_finite() && *bytes >= 0.0) => {
                wrong(format!("sends {bytes} bytes"), "bytes must be ≥ 0")
            }
            Work::Bytes(_) if !matches!(place.kind, StationKind::Link { .. }) => wrong(
                format!("sends bytes to `{}`, which is no link", place.name),
                "give the visit a service time, or the station a bandwidth",
            ),
            Work::Bytes(_) => Ok(()),
        }
    }
}
