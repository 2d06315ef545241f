//! From the schema to a network: names are looked up, and what is wrong remembers the keys that
//! lead to it.

use krarup_units::Bytes;
use toml::de::{DeTable, DeValue};

use super::schema::{
    Bandwidth, ClassForm, DisciplineForm, FullForm, NetworkForm, StationForm, StepForm, TimeForm,
};
use crate::Distribution;
use crate::network::{
    Branch, Class, ClassWorkload, Discipline, Fork, ForkWait, Network, PathVisit, RateChange, SlotPool,
    SlotPoolId, Station, StationId, StationKind, Step, WhenFull, Work,
};

/// One step from the top of the file to a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FilePathStep {
    Name(&'static str),
    Index(usize),
}

impl std::fmt::Display for FilePathStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, ".{name}"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A semantic error and the keys that lead to it.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) keys: Vec<FilePathStep>,
    pub(super) what: String,
    pub(super) hint: String,
}

/// An error at these keys.
fn wrong<T>(keys: &[FilePathStep], what: impl Into<String>, hint: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { keys: keys.to_vec(), what: what.into(), hint: hint.into() })
}

fn below(keys: &[FilePathStep], more: &[FilePathStep]) -> Vec<FilePathStep> {
    [keys, more].concat()
}

impl NetworkForm {
    pub(super) fn network(self) -> Result<Network, Wrong> {
        let mut network = Network { name: self.name, ..Network::default() };
        for (index, form) in self.stations.into_iter().enumerate() {
            network
                .stations
                .push(form.station(&[FilePathStep::Name("station"), FilePathStep::Index(index)])?);
        }
        for form in self.pools {
            network.pools.push(SlotPool {
                name: form.name,
                size: form.size,
                waiting: form.queue,
                when_full: form.full.map_or(WhenFull::Lose, FullForm::value),
                discipline: form.discipline.map_or(Discipline::Fcfs, DisciplineForm::value),
            });
        }
        for (index, form) in self.classes.into_iter().enumerate() {
            let class = form.class(&network, &[FilePathStep::Name("class"), FilePathStep::Index(index)])?;
            network.classes.push(class);
        }
        network.check().map_err(|error| {
            let what = error.to_string();
            Wrong { keys: network.keys_of(&what), hint: error.hint().unwrap_or_default().to_owned(), what }
        })?;
        Ok(network)
    }
}

impl Network {
    /// Where the thing stands that an error of [`Network::check`] names first: "station `a`: …".
    fn keys_of(&self, what: &str) -> Vec<FilePathStep> {
        let find = |kind: &'static str, names: Vec<&String>| {
            // The last one, so that of two equal names the second is shown.
            let index = names.iter().rposition(|name| what.starts_with(&format!("{kind} `{name}`")))?;
            Some(vec![FilePathStep::Name(kind), FilePathStep::Index(index)])
        };
        find("station", self.stations.iter().map(|s| &s.name).collect())
            .or_else(|| find("pool", self.pools.iter().map(|p| &p.name).collect()))
            .or_else(|| find("class", self.classes.iter().map(|c| &c.name).collect()))
            .unwrap_or_default()
    }
}

impl StationForm {
    fn station(self, keys: &[FilePathStep]) -> Result<Station, Wrong> {
        let said: Vec<&str> = [
            ("servers", self.servers.is_some()),
            ("delay", self.delay == Some(true)),
            ("rates", self.rates.is_some()),
            ("bandwidth", self.bandwidth.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, there)| there.then_some(key))
        .collect();
        if let [first, second, ..] = said[..] {
            return wrong(
                keys,
                format!("station `{}` says both `{first}` and `{second}`", self.name),
                "a station is one of servers, delay, rates and bandwidth",
            );
        }
        let link = self.bandwidth.is_some();
        if self.overhead.is_some() && !link {
            return wrong(
                keys,
                format!("station `{}` has an `overhead` but no `bandwidth`", self.name),
                "only a link adds bytes to messages",
            );
        }
        let kind = match (self.delay, self.rates, self.bandwidth) {
            (Some(true), ..) => StationKind::Delay,
            (_, Some(rates), _) => StationKind::LoadDependent { rates },
            (_, _, Some(Bandwidth(bits_per_second))) => {
                StationKind::Link { bits_per_second, overhead: Bytes(self.overhead.map_or(0, |size| size.0)) }
            }
            _ => StationKind::Servers { count: self.servers.unwrap_or(1) },
        };
        let usual = if link { Discipline::ProcessorSharing } else { Discipline::Fcfs };
        Ok(Station {
            name: self.name,
            kind,
            factor: self.factor.unwrap_or(1.0),
            discipline: self.discipline.map_or(usual, DisciplineForm::value),
            capacity: self.capacity,
            when_full: self.full.map_or(WhenFull::Lose, FullForm::value),
        })
    }
}

impl ClassForm {
    fn class(self, network: &Network, keys: &[FilePathStep]) -> Result<Class, Wrong> {
        let at = |key: &'static str| below(keys, &[FilePathStep::Name(key)]);
        let workload = match (self.population, self.rate, self.gap) {
            (Some(population), None, None) => {
                if !self.profile.is_empty() {
                    return wrong(
                        &at("profile"),
                        "a closed class has no arrival rate to change",
                        "use a rate",
                    );
                }
                let think = self.think.map_or(Distribution::constant(0.0), |t| t.0);
                ClassWorkload::Closed { population, think }
            }
            (None, rate, gap) => {
                if self.think.is_some() {
                    return wrong(
                        &at("think"),
                        format!("the open class `{}` does not think", self.name),
                        "a class with a think time has a population",
                    );
                }
                let gap = match (rate, gap) {
                    (Some(rate), None) if rate.is_finite() && rate > 0.0 => {
                        Distribution::exponential(1.0 / rate)
                    }
                    (Some(rate), None) => {
                        return wrong(
                            &at("rate"),
                            format!("a rate of {rate}"),
                            "the rate must be > 0 per second",
                        );
                    }
                    (None, Some(gap)) => gap.0,
                    (Some(_), Some(_)) => {
                        return wrong(
                            &at("gap"),
                            "both a rate and a gap",
                            "the rate is 1 / the mean gap: write one",
                        );
                    }
                    (None, None) => {
                        return wrong(
                            keys,
                            format!("class `{}` does not say where its requests come from", self.name),
                            "write population = N (closed) or rate = λ (open)",
                        );
                    }
                };
                let profile =
                    self.profile.iter().map(|c| RateChange { at: c.at.0, factor: c.factor }).collect();
                ClassWorkload::Open { gap, profile }
            }
            _ => {
                return wrong(
                    keys,
                    format!("class `{}` is both open and closed", self.name),
                    "write population = N (closed) or rate = λ (open), not both",
                );
            }
        };
        let path = path(self.path, network, &at("path"))?;
        Ok(Class { name: self.name, workload, priority: self.priority, path })
    }
}

fn path(forms: Vec<StepForm>, network: &Network, keys: &[FilePathStep]) -> Result<Vec<Step>, Wrong> {
    forms
        .into_iter()
        .enumerate()
        .map(|(index, form)| form.step(network, &below(keys, &[FilePathStep::Index(index)])))
        .collect()
}

impl StepForm {
    fn step(self, network: &Network, keys: &[FilePathStep]) -> Result<Step, Wrong> {
        let which = [self.at.is_some(), self.hold.is_some(), self.fork.is_some(), self.one_of.is_some()];
        if which.iter().filter(|there| **there).count() != 1 {
            return wrong(
                keys,
                "a step must say one of `at`, `hold`, `fork` and `one_of`",
                "split it into steps",
            );
        }
        self.only_its_keys(keys)?;
        let at = |key: &'static str| below(keys, &[FilePathStep::Name(key)]);
        if let Some(name) = &self.at {
            let station = find_station(network, name, &at("at"))?;
            if self.visits.is_some() && self.demand.is_some() {
                return wrong(
                    &at("visits"),
                    "`visits` has no meaning beside a demand, which is of all visits",
                    "write the demand alone, or visits and the service of one",
                );
            }
            let count = self.visits.unwrap_or(1.0);
            let work = work(self.service, self.demand, self.bytes, keys)?;
            return Ok(Step::Visit(PathVisit { station, count, work }));
        }
        if let Some(name) = &self.hold {
            let Some(pool) = network.pool(name) else {
                let names: Vec<_> = network.pools.iter().map(|p| p.name.as_str()).collect();
                return wrong(&at("hold"), format!("there is no pool `{name}`"), known("pools", &names));
            };
            return Ok(Step::Hold {
                pool: SlotPoolId(pool.0),
                path: path(self.path.unwrap_or_default(), network, &at("path"))?,
            });
        }
        if let Some(names) = &self.fork {
            let keys_of_fork = at("fork");
            let stations: Vec<_> = names
                .iter()
                .map(|name| find_station(network, name, &keys_of_fork))
                .collect::<Result<_, _>>()?;
            if stations.is_empty() {
                return wrong(&keys_of_fork, "a fork to no station", "name at least one station");
            }
            let choose = self.choose.unwrap_or(stations.len() as u32);
            let wait = self.wait.map_or(ForkWait::All, |w| w.0);
            let work = work(self.service, None, self.bytes, keys)?;
            return Ok(Step::Fork(Fork { stations, choose, wait, work }));
        }
        let keys = at("one_of");
        let branches = self
            .one_of
            .unwrap_or_default()
            .into_iter()
            .enumerate()
            .map(|(index, branch)| {
                let path = path(
                    branch.path,
                    network,
                    &below(&keys, &[FilePathStep::Index(index), FilePathStep::Name("path")]),
                )?;
                Ok(Branch { share: branch.share, path })
            })
            .collect::<Result<_, _>>()?;
        Ok(Step::OneOf { branches })
    }

    /// A key that this kind of step does not know would be ignored in silence.
    fn only_its_keys(&self, keys: &[FilePathStep]) -> Result<(), Wrong> {
        let allowed: &[&str] = if self.at.is_some() {
            &["visits", "service", "demand", "bytes"]
        } else if self.hold.is_some() {
            &["path"]
        } else if self.fork.is_some() {
            &["service", "bytes", "choose", "wait"]
        } else {
            &[]
        };
        for (key, there) in [
            ("visits", self.visits.is_some()),
            ("service", self.service.is_some()),
            ("demand", self.demand.is_some()),
            ("bytes", self.bytes.is_some()),
            ("choose", self.choose.is_some()),
            ("wait", self.wait.is_some()),
            ("path", self.path.is_some()),
        ] {
            if there && !allowed.contains(&key) {
                let hint = if allowed.is_empty() {
                    "put it into the branches".to_owned()
                } else {
                    format!("this kind of step knows {}", allowed.join(", "))
                };
                return wrong(
                    &below(keys, &[FilePathStep::Name(key)]),
                    format!("`{key}` has no meaning here"),
                    hint,
                );
            }
        }
        Ok(())
    }
}

fn work(
    service: Option<TimeForm>,
    demand: Option<TimeForm>,
    bytes: Option<f64>,
    keys: &[FilePathStep],
) -> Result<Work, Wrong> {
    if service.is_some() && demand.is_some() {
        return wrong(keys, "a visit with both a service and a demand", "write one of them");
    }
    match (service.or(demand), bytes) {
        (Some(time), None) => Ok(Work::Time(time.0)),
        (None, Some(bytes)) => Ok(Work::Bytes(bytes)),
        (None, None) => {
            wrong(keys, "a visit without work", "write service = \"61 us\", or bytes = 4096 at a link")
        }
        _ => wrong(keys, "a visit with both a time and bytes", "write one of them"),
    }
}

fn find_station(network: &Network, name: &str, keys: &[FilePathStep]) -> Result<StationId, Wrong> {
    network.station(name).map_or_else(
        || {
            let names: Vec<_> = network.stations.iter().map(|s| s.name.as_str()).collect();
            wrong(keys, format!("there is no station `{name}`"), known("stations", &names))
        },
        Ok,
    )
}

fn known(kind: &str, names: &[&str]) -> String {
    if names.is_empty() {
        format!("there are no {kind}")
    } else {
        format!("{kind} are: {}", names.join(", "))
    }
}

impl DisciplineForm {
    pub(super) fn value(self) -> Discipline {
        match self {
            Self::Fcfs => Discipline::Fcfs,
            Self::Ps => Discipline::ProcessorSharing,
            Self::Lifo => Discipline::Lifo,
            Self::LifoPreemptive => Discipline::LifoPreemptive,
            Self::Priority => Discipline::Priority,
        }
    }

    pub(super) fn of(discipline: Discipline) -> Self {
        match discipline {
            Discipline::Fcfs => Self::Fcfs,
            Discipline::ProcessorSharing => Self::Ps,
            Discipline::Lifo => Self::Lifo,
            Discipline::LifoPreemptive => Self::LifoPreemptive,
            Discipline::Priority => Self::Priority,
        }
    }
}

impl FullForm {
    pub(super) fn value(self) -> WhenFull {
        match self {
            Self::Lose => WhenFull::Lose,
            Self::Block => WhenFull::Block,
        }
    }

    /// Nothing where it would say what is so anyway.
    pub(super) fn of(when_full: WhenFull) -> Option<Self> {
        match when_full {
            WhenFull::Lose => None,
            WhenFull::Block => Some(Self::Block),
        }
    }
}

/// The line, from 1, of a place in the text.
pub(super) fn line_at(source: &str, offset: usize) -> usize {
    source[..offset.min(source.len())].matches('\n').count() + 1
}

/// The line of the value these keys lead to, or of the last one on the way that is there.
pub(super) fn line_of(source: &str, table: &DeTable<'_>, keys: &[FilePathStep]) -> Option<usize> {
    let Some((FilePathStep::Name(first), rest)) = keys.split_first() else { return None };
    let mut value = table.get(*first)?;
    let mut start = value.span().start;
    for key in rest {
        let next = match (key, value.get_ref()) {
            (FilePathStep::Name(name), DeValue::Table(table)) => table.get(*name),
            (FilePathStep::Index(index), DeValue::Array(array)) => array.get(*index),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
        start = value.span().start;
    }
    Some(line_at(source, start))
}
