//! The network description as TOML or JSON: what is wrong is said with its line and a hint.
//!
//! Both have the same keys; [`EXAMPLE`] is a commented file with all of them. Reading happens in two
//! steps: text → the schema (serde knows the line of what it cannot read), schema → [`Network`] (each
//! error remembers the keys that led to it, and `line_of` finds their line in the TOML text).

use krarup_units::{Bytes, Seconds, text};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use toml::de::{DeTable, DeValue};

use crate::network::{
    Branch, Class, Discipline, Fork, Kind, Network, Pool, PoolId, RateChange, Station, StationId, Step,
    Visit, Wait, WhenFull, Work, Workload,
};
use crate::{Distribution, Error};

/// A commented file with every key.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Reads a network from TOML.
///
/// # Errors
/// [`Error::Form`], with the line and a hint.
pub fn from_toml(source: &str) -> Result<Network, Error> {
    let schema: NetworkForm = toml::from_str(source).map_err(|error| Error::Form {
        line: error.span().map(|span| line_at(source, span.start)),
        what: error.message().to_owned(),
        hint: "a file with every key is printed by `krarup model example`".into(),
    })?;
    schema.network().map_err(|wrong| {
        let line =
            DeTable::parse(source).ok().and_then(|table| line_of(source, table.get_ref(), &wrong.keys));
        Error::Form { line, what: wrong.what, hint: wrong.hint }
    })
}

/// Reads a network from JSON, with the same keys as the TOML form.
///
/// # Errors
/// [`Error::Form`], with the line where the text is no JSON or has wrong keys, else with the keys.
pub fn from_json(source: &str) -> Result<Network, Error> {
    let schema: NetworkForm = serde_json::from_str(source).map_err(|error| Error::Form {
        line: Some(error.line()),
        what: error.to_string(),
        hint: "a file with every key is printed by `krarup model example`".into(),
    })?;
    schema.network().map_err(|wrong| {
        let place: String = wrong.keys.iter().map(Key::to_string).collect();
        Error::Form { line: None, what: format!("{place}: {}", wrong.what), hint: wrong.hint }
    })
}

/// Writes a network as TOML, times in seconds. [`from_toml`] reads it back to the same network.
pub fn to_toml(network: &Network) -> String {
    toml::to_string_pretty(&NetworkForm::from(network)).expect("the form has string keys only")
}

/// Writes a network as JSON. [`from_json`] reads it back to the same network.
pub fn to_json(network: &Network) -> String {
    serde_json::to_string_pretty(&NetworkForm::from(network)).expect("the form has string keys only")
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        NetworkForm::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NetworkForm::deserialize(deserializer)?.network().map_err(|wrong| {
            let place: String = wrong.keys.iter().map(Key::to_string).collect();
            de::Error::custom(format!("{place}: {} ({})", wrong.what, wrong.hint))
        })
    }
}

// ------------------------------------------------------------------------------------ the schema

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkForm {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "station")]
    stations: Vec<StationForm>,
    #[serde(default, rename = "pool", skip_serializing_if = "Vec::is_empty")]
    pools: Vec<PoolForm>,
    #[serde(default, rename = "class")]
    classes: Vec<ClassForm>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StationForm {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<Bandwidth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overhead: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discipline: Option<DisciplineForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    full: Option<FullForm>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolForm {
    name: String,
    size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    full: Option<FullForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discipline: Option<DisciplineForm>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassForm {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    population: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<TimeForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<TimeForm>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    profile: Vec<ChangeForm>,
    #[serde(default, skip_serializing_if = "is_zero")]
    priority: u32,
    path: Vec<StepForm>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeForm {
    at: Length,
    factor: f64,
}

/// One step: exactly one of `at`, `hold`, `fork`, `one_of` says which kind.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    one_of: Option<Vec<BranchForm>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visits: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<TimeForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    demand: Option<TimeForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choose: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<WaitForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<StepForm>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BranchForm {
    share: f64,
    #[serde(default)]
    path: Vec<StepForm>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DisciplineForm {
    Fcfs,
    Ps,
    Lifo,
    LifoPreemptive,
    Priority,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FullForm {
    Lose,
    Block,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A length of time: seconds as a number, or text with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Length(Seconds);

/// A size: bytes as a number, or text with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size(u64);

/// A bandwidth: bits per second as a number, or text: `101 Mbit/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bandwidth(f64);

/// How many answers: `"all"`, `"any"`, or a number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct WaitForm(Wait);

/// A time: a length, which is the mean of an exponential, or a table that names the distribution.
#[derive(Clone, Debug, PartialEq)]
struct TimeForm(Distribution);

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    constant: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exponential: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    erlang: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hyperexponential: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uniform: Option<[Length; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gamma: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lognormal: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weibull: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pareto: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    empirical: Option<Vec<Length>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moments: Option<Length>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scv: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<f64>,
}

// ------------------------------------------------------------------------------------ values

/// Reads a number as it stands, or a text by `$parse`.
macro_rules! number_or_text {
    ($type:ident, $expecting:literal, $number:expr, $parse:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_f64<E: de::Error>(self, value: f64) -> Result<$type, E> {
                        $number(value).map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, value: i64) -> Result<$type, E> {
                        self.visit_f64(value as f64)
                    }
                    fn visit_u64<E: de::Error>(self, value: u64) -> Result<$type, E> {
                        self.visit_f64(value as f64)
                    }
                    fn visit_str<E: de::Error>(self, value: &str) -> Result<$type, E> {
                        $parse(value).map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Visitor)
            }
        }
    };
}

fn length_from_number(value: f64) -> Result<Length, String> {
    if value.is_finite() && value >= 0.0 {
        Ok(Length(value))
    } else {
        Err(format!("{value} is not a length of time in seconds"))
    }
}

number_or_text!(Length, "a length of time like \"61 us\", or seconds", length_from_number, |text: &str| {
    text::parse_duration(text).map(Length)
});
number_or_text!(
    Size,
    "a size like \"4 KiB\", or bytes",
    |value: f64| if value >= 0.0 { Ok(Size(value as u64)) } else { Err(format!("{value} is not a size")) },
    |text: &str| text::parse_size(text).map(Size)
);
number_or_text!(
    Bandwidth,
    "a bandwidth like \"101 Mbit/s\", or bits per second",
    |value: f64| Ok::<_, String>(Bandwidth(value)),
    parse_bandwidth
);
number_or_text!(
    WaitForm,
    "\"all\", \"any\" or a number of answers",
    |value: f64| if value >= 1.0 && value.fract() == 0.0 && value <= f64::from(u32::MAX) {
        Ok(WaitForm(Wait::Quorum(value as u32)))
    } else {
        Err(format!("{value} is not a number of answers"))
    },
    |text: &str| match text {
        "all" => Ok(WaitForm(Wait::All)),
        "any" => Ok(WaitForm(Wait::Any)),
        other => Err(format!("`{other}` is not \"all\", \"any\" or a number of answers")),
    }
);

fn parse_bandwidth(text: &str) -> Result<Bandwidth, String> {
    let wrong = || format!("`{text}` is not a bandwidth; write it like 101 Mbit/s or 10 Gbit/s");
    let trimmed = text.trim();
    let end = trimmed.find(char::is_alphabetic).ok_or_else(wrong)?;
    let number: f64 = trimmed[..end].trim().parse().map_err(|_| wrong())?;
    let scale = match trimmed[end..].trim().trim_end_matches("/s").trim_end_matches("ps") {
        "bit" | "b" => 1.0,
        "kbit" | "Kbit" | "kb" => 1e3,
        "Mbit" | "mbit" | "Mb" => 1e6,
        "Gbit" | "gbit" | "Gb" => 1e9,
        _ => return Err(wrong()),
    };
    Ok(Bandwidth(number * scale))
}

impl<'de> Deserialize<'de> for TimeForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TimeForm;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a length of time, or a table that names a distribution")
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<TimeForm, E> {
                let length = length_from_number(value).map_err(E::custom)?;
                Ok(TimeForm(Distribution::exponential(length.0)))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<TimeForm, E> {
                self.visit_f64(value as f64)
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<TimeForm, E> {
                self.visit_f64(value as f64)
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<TimeForm, E> {
                let mean = text::parse_duration(value).map_err(E::custom)?;
                Ok(TimeForm(Distribution::exponential(mean)))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TimeForm, A::Error> {
                let table = TimeTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                table.distribution().map(TimeForm).map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl TimeTable {
    fn distribution(self) -> Result<Distribution, String> {
        let need = |value: Option<f64>, key: &str, of: &str| {
            value.ok_or_else(|| format!("{of} needs `{key}` beside its mean"))
        };
        let mut named: Vec<(&str, Distribution)> = Vec::new();
        if let Some(Length(value)) = self.constant {
            named.push(("constant", Distribution::Constant { value }));
        }
        if let Some(Length(mean)) = self.exponential {
            named.push(("exponential", Distribution::Exponential { mean }));
        }
        if let Some(Length(mean)) = self.erlang {
            let stages = self.stages.ok_or("erlang needs `stages` beside its mean")?;
            named.push(("erlang", Distribution::Erlang { stages, mean }));
        }
        if let Some(Length(mean)) = self.hyperexponential {
            let scv = need(self.scv, "scv", "hyperexponential")?;
            named.push(("hyperexponential", Distribution::Hyperexponential { mean, scv }));
        }
        if let Some([Length(low), Length(high)]) = self.uniform {
            named.push(("uniform", Distribution::Uniform { low, high }));
        }
        if let Some(Length(mean)) = self.gamma {
            named.push(("gamma", Distribution::Gamma { mean, scv: need(self.scv, "scv", "gamma")? }));
        }
        if let Some(Length(mean)) = self.lognormal {
            named.push((
                "lognormal",
                Distribution::Lognormal { mean, scv: need(self.scv, "scv", "lognormal")? },
            ));
        }
        if let Some(Length(mean)) = self.weibull {
            named.push((
                "weibull",
                Distribution::Weibull { mean, shape: need(self.shape, "shape", "weibull")? },
            ));
        }
        if let Some(Length(mean)) = self.pareto {
            named
                .push(("pareto", Distribution::Pareto { mean, shape: need(self.shape, "shape", "pareto")? }));
        }
        if let Some(values) = self.empirical {
            named.push((
                "empirical",
                Distribution::Empirical { values: values.iter().map(|v| v.0).collect() },
            ));
        }
        if let Some(Length(mean)) = self.moments {
            named.push(("moments", Distribution::Moments { mean, scv: need(self.scv, "scv", "moments")? }));
        }
        match named.len() {
            1 => {
                let distribution = named.remove(0).1;
                distribution.check().map_err(|error| error.to_string())?;
                Ok(distribution)
            }
            0 => {
                Err("names no distribution; write a length like \"61 us\" or { constant = \"61 us\" }".into())
            }
            _ => Err(format!("names two distributions, {} and {}", named[0].0, named[1].0)),
        }
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl Serialize for WaitForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Wait::All => serializer.serialize_str("all"),
            Wait::Any => serializer.serialize_str("any"),
            Wait::Quorum(n) => serializer.serialize_u32(n),
        }
    }
}

impl Serialize for TimeForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = TimeTable::default();
        match &self.0 {
            Distribution::Exponential { mean } => return serializer.serialize_f64(*mean),
            Distribution::Constant { value } => table.constant = Some(Length(*value)),
            Distribution::Erlang { stages, mean } => {
                table.erlang = Some(Length(*mean));
                table.stages = Some(*stages);
            }
            Distribution::Hyperexponential { mean, scv } => {
                table.hyperexponential = Some(Length(*mean));
                table.scv = Some(*scv);
            }
            Distribution::Uniform { low, high } => table.uniform = Some([Length(*low), Length(*high)]),
            Distribution::Gamma { mean, scv } => {
                table.gamma = Some(Length(*mean));
                table.scv = Some(*scv);
            }
            Distribution::Lognormal { mean, scv } => {
                table.lognormal = Some(Length(*mean));
                table.scv = Some(*scv);
            }
            Distribution::Weibull { mean, shape } => {
                table.weibull = Some(Length(*mean));
                table.shape = Some(*shape);
            }
            Distribution::Pareto { mean, shape } => {
                table.pareto = Some(Length(*mean));
                table.shape = Some(*shape);
            }
            Distribution::Empirical { values } => {
                table.empirical = Some(values.iter().map(|v| Length(*v)).collect());
            }
            Distribution::Moments { mean, scv } => {
                table.moments = Some(Length(*mean));
                table.scv = Some(*scv);
            }
        }
        table.serialize(serializer)
    }
}

// ------------------------------------------------------------------------------------ schema → network

/// One step from the top of the file to a value.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Name(&'static str),
    Index(usize),
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, ".{name}"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A semantic error and the keys that lead to it.
#[derive(Debug)]
struct Wrong {
    keys: Vec<Key>,
    what: String,
    hint: String,
}

/// An error at these keys.
fn wrong<T>(keys: &[Key], what: impl Into<String>, hint: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { keys: keys.to_vec(), what: what.into(), hint: hint.into() })
}

fn below(keys: &[Key], more: &[Key]) -> Vec<Key> {
    [keys, more].concat()
}

impl NetworkForm {
    fn network(self) -> Result<Network, Wrong> {
        let mut network = Network { name: self.name, ..Network::default() };
        for (index, form) in self.stations.into_iter().enumerate() {
            network.stations.push(form.station(&[Key::Name("station"), Key::Index(index)])?);
        }
        for form in self.pools {
            network.pools.push(Pool {
                name: form.name,
                size: form.size,
                waiting: form.queue,
                when_full: form.full.map_or(WhenFull::Lose, FullForm::value),
                discipline: form.discipline.map_or(Discipline::Fcfs, DisciplineForm::value),
            });
        }
        for (index, form) in self.classes.into_iter().enumerate() {
            let class = form.class(&network, &[Key::Name("class"), Key::Index(index)])?;
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
    fn keys_of(&self, what: &str) -> Vec<Key> {
        let find = |kind: &'static str, names: Vec<&String>| {
            // The last one, so that of two equal names the second is shown.
            let index = names.iter().rposition(|name| what.starts_with(&format!("{kind} `{name}`")))?;
            Some(vec![Key::Name(kind), Key::Index(index)])
        };
        find("station", self.stations.iter().map(|s| &s.name).collect())
            .or_else(|| find("pool", self.pools.iter().map(|p| &p.name).collect()))
            .or_else(|| find("class", self.classes.iter().map(|c| &c.name).collect()))
            .unwrap_or_default()
    }
}

impl StationForm {
    fn station(self, keys: &[Key]) -> Result<Station, Wrong> {
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
            (Some(true), ..) => Kind::Delay,
            (_, Some(rates), _) => Kind::LoadDependent { rates },
            (_, _, Some(Bandwidth(bits_per_second))) => {
                Kind::Link { bits_per_second, overhead: Bytes(self.overhead.map_or(0, |size| size.0)) }
            }
            _ => Kind::Servers { count: self.servers.unwrap_or(1) },
        };
        let usual = if link { Discipline::ProcessorSharing } else { Discipline::Fcfs };
        Ok(Station {
            name: self.name,
            kind,
            discipline: self.discipline.map_or(usual, DisciplineForm::value),
            capacity: self.capacity,
            when_full: self.full.map_or(WhenFull::Lose, FullForm::value),
        })
    }
}

impl ClassForm {
    fn class(self, network: &Network, keys: &[Key]) -> Result<Class, Wrong> {
        let at = |key: &'static str| below(keys, &[Key::Name(key)]);
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
                Workload::Closed { population, think }
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
                Workload::Open { gap, profile }
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

fn path(forms: Vec<StepForm>, network: &Network, keys: &[Key]) -> Result<Vec<Step>, Wrong> {
    forms
        .into_iter()
        .enumerate()
        .map(|(index, form)| form.step(network, &below(keys, &[Key::Index(index)])))
        .collect()
}

impl StepForm {
    fn step(self, network: &Network, keys: &[Key]) -> Result<Step, Wrong> {
        let which = [self.at.is_some(), self.hold.is_some(), self.fork.is_some(), self.one_of.is_some()];
        if which.iter().filter(|there| **there).count() != 1 {
            return wrong(
                keys,
                "a step must say one of `at`, `hold`, `fork` and `one_of`",
                "split it into steps",
            );
        }
        self.only_its_keys(keys)?;
        let at = |key: &'static str| below(keys, &[Key::Name(key)]);
        if let Some(name) = &self.at {
            let station = find_station(network, name, &at("at"))?;
            let count = self.visits.unwrap_or(1.0);
            let work = work(self.service, self.demand, self.bytes, keys)?;
            return Ok(Step::Visit(Visit { station, count, work }));
        }
        if let Some(name) = &self.hold {
            let Some(pool) = network.pool(name) else {
                let names: Vec<_> = network.pools.iter().map(|p| p.name.as_str()).collect();
                return wrong(&at("hold"), format!("there is no pool `{name}`"), known("pools", &names));
            };
            return Ok(Step::Hold {
                pool: PoolId(pool.0),
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
            let wait = self.wait.map_or(Wait::All, |w| w.0);
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
                let path =
                    path(branch.path, network, &below(&keys, &[Key::Index(index), Key::Name("path")]))?;
                Ok(Branch { share: branch.share, path })
            })
            .collect::<Result<_, _>>()?;
        Ok(Step::OneOf { branches })
    }

    /// A key that this kind of step does not know would be ignored in silence.
    fn only_its_keys(&self, keys: &[Key]) -> Result<(), Wrong> {
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
                return wrong(&below(keys, &[Key::Name(key)]), format!("`{key}` has no meaning here"), hint);
            }
        }
        Ok(())
    }
}

fn work(
    service: Option<TimeForm>,
    demand: Option<TimeForm>,
    bytes: Option<f64>,
    keys: &[Key],
) -> Result<Work, Wrong> {
    match (service.or(demand), bytes) {
        (Some(time), None) => Ok(Work::Time(time.0)),
        (None, Some(bytes)) => Ok(Work::Bytes(bytes)),
        (None, None) => {
            wrong(keys, "a visit without work", "write service = \"61 us\", or bytes = 4096 at a link")
        }
        _ => wrong(keys, "a visit with both a time and bytes", "write one of them"),
    }
}

fn find_station(network: &Network, name: &str, keys: &[Key]) -> Result<StationId, Wrong> {
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
    fn value(self) -> Discipline {
        match self {
            Self::Fcfs => Discipline::Fcfs,
            Self::Ps => Discipline::ProcessorSharing,
            Self::Lifo => Discipline::Lifo,
            Self::LifoPreemptive => Discipline::LifoPreemptive,
            Self::Priority => Discipline::Priority,
        }
    }

    fn of(discipline: Discipline) -> Self {
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
    fn value(self) -> WhenFull {
        match self {
            Self::Lose => WhenFull::Lose,
            Self::Block => WhenFull::Block,
        }
    }

    /// Nothing where it would say what is so anyway.
    fn of(when_full: WhenFull) -> Option<Self> {
        match when_full {
            WhenFull::Lose => None,
            WhenFull::Block => Some(Self::Block),
        }
    }
}

// ------------------------------------------------------------------------------------ network → schema

impl From<&Network> for NetworkForm {
    fn from(network: &Network) -> Self {
        Self {
            name: network.name.clone(),
            stations: network.stations.iter().map(StationForm::from).collect(),
            pools: network
                .pools
                .iter()
                .map(|pool| PoolForm {
                    name: pool.name.clone(),
                    size: pool.size,
                    queue: pool.waiting,
                    full: FullForm::of(pool.when_full),
                    discipline: (pool.discipline != Discipline::Fcfs)
                        .then(|| DisciplineForm::of(pool.discipline)),
                })
                .collect(),
            classes: network.classes.iter().map(|class| ClassForm::of(class, network)).collect(),
        }
    }
}

impl From<&Station> for StationForm {
    fn from(station: &Station) -> Self {
        let mut form = Self { name: station.name.clone(), capacity: station.capacity, ..Self::default() };
        let mut usual = Discipline::Fcfs;
        match &station.kind {
            Kind::Servers { count } => form.servers = Some(*count),
            Kind::Delay => form.delay = Some(true),
            Kind::LoadDependent { rates } => form.rates = Some(rates.clone()),
            Kind::Link { bits_per_second, overhead } => {
                usual = Discipline::ProcessorSharing;
                form.bandwidth = Some(Bandwidth(*bits_per_second));
                form.overhead = Some(Size(overhead.0));
            }
        }
        form.discipline = (station.discipline != usual).then(|| DisciplineForm::of(station.discipline));
        form.full = FullForm::of(station.when_full);
        form
    }
}

impl ClassForm {
    fn of(class: &Class, network: &Network) -> Self {
        let mut form = Self {
            name: class.name.clone(),
            population: None,
            think: None,
            rate: None,
            gap: None,
            profile: Vec::new(),
            priority: class.priority,
            path: steps(&class.path, network),
        };
        match &class.workload {
            Workload::Open { gap, profile } => {
                form.gap = Some(TimeForm(gap.clone()));
                form.profile =
                    profile.iter().map(|c| ChangeForm { at: Length(c.at), factor: c.factor }).collect();
            }
            Workload::Closed { population, think } => {
                form.population = Some(*population);
                form.think = Some(TimeForm(think.clone()));
            }
        }
        form
    }
}

fn steps(path: &[Step], network: &Network) -> Vec<StepForm> {
    let name = |station: &StationId| network.stations[station.0].name.clone();
    let work = |form: &mut StepForm, work: &Work| match work {
        Work::Time(time) => form.service = Some(TimeForm(time.clone())),
        Work::Bytes(bytes) => form.bytes = Some(*bytes),
    };
    path.iter()
        .map(|step| {
            let mut form = StepForm::default();
            match step {
                Step::Visit(visit) => {
                    form.at = Some(name(&visit.station));
                    form.visits = (visit.count != 1.0).then_some(visit.count);
                    work(&mut form, &visit.work);
                }
                Step::Hold { pool, path } => {
                    form.hold = Some(network.pools[pool.0].name.clone());
                    form.path = Some(steps(path, network));
                }
                Step::Fork(fork) => {
                    form.fork = Some(fork.stations.iter().map(name).collect());
                    form.choose = Some(fork.choose);
                    form.wait = Some(WaitForm(fork.wait));
                    work(&mut form, &fork.work);
                }
                Step::OneOf { branches } => {
                    form.one_of = Some(
                        branches
                            .iter()
                            .map(|b| BranchForm { share: b.share, path: steps(&b.path, network) })
                            .collect(),
                    );
                }
            }
            form
        })
        .collect()
}

// ------------------------------------------------------------------------------------ lines

/// The line, from 1, of a place in the text.
fn line_at(source: &str, offset: usize) -> usize {
    source[..offset.min(source.len())].matches('\n').count() + 1
}

/// The line of the value these keys lead to, or of the last one on the way that is there.
fn line_of(source: &str, table: &DeTable<'_>, keys: &[Key]) -> Option<usize> {
    let Some((Key::Name(first), rest)) = keys.split_first() else { return None };
    let mut value = table.get(*first)?;
    let mut start = value.span().start;
    for key in rest {
        let next = match (key, value.get_ref()) {
            (Key::Name(name), DeValue::Table(table)) => table.get(*name),
            (Key::Index(index), DeValue::Array(array)) => array.get(*index),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
        start = value.span().start;
    }
    Some(line_at(source, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commented_example_reads_and_survives_both_ways() {
        let network = from_toml(EXAMPLE).unwrap();
        assert_eq!(network.stations.len(), 3);
        assert_eq!(from_toml(&to_toml(&network)).unwrap(), network);
        assert_eq!(from_json(&to_json(&network)).unwrap(), network);
    }

    #[test]
    fn every_kind_of_step_and_time_survives_both_ways() {
        let source = r#"
            name = "all"
            station = [
                { name = "a", servers = 3, discipline = "priority", capacity = 7, full = "block" },
                { name = "b", rates = [1.0, 1.5] },
                { name = "c", delay = true },
                { name = "d", bandwidth = "1 Gbit/s", overhead = "52 B", discipline = "fcfs" },
            ]
            pool = [{ name = "w", size = 2, queue = 5, full = "block", discipline = "lifo" }]
            [[class]]
            name = "open"
            gap = { erlang = "1 ms", stages = 4 }
            priority = 3
            profile = [{ at = "1 s", factor = 2 }, { at = "2 s", factor = 0 }]
            path = [{ hold = "w", path = [{ fork = ["a", "b"], choose = 2, wait = 1, service = { weibull = 1, shape = 0.5 } }] }]
            [[class]]
            name = "closed"
            population = 3
            think = { uniform = ["1 s", "3 s"] }
            path = [
                { at = "c", demand = { hyperexponential = "1 ms", scv = 4 }, visits = 2 },
                { at = "d", bytes = 10 },
                { one_of = [
                    { share = 1, path = [{ at = "a", service = { empirical = [1, 2.5] } }, { at = "a", service = { pareto = 1, shape = 2.5 } }] },
                    { share = 2 },
                    { share = 2, path = [{ at = "b", service = { lognormal = 1, scv = 2 } }, { at = "b", service = { gamma = 1, scv = 2 } }] },
                    { share = 2, path = [{ at = "b", service = { moments = 1, scv = 2 } }, { at = "b", service = { constant = 1 } }] },
                ] },
            ]
        "#;
        let network = from_toml(source).unwrap();
        assert_eq!(from_toml(&to_toml(&network)).unwrap(), network);
        assert_eq!(from_json(&to_json(&network)).unwrap(), network);
    }

    /// A file with the given class section; the class starts at line 6.
    fn with_class(class: &str) -> String {
        format!("[[station]]\nname = \"db\"\n[[pool]]\nname = \"w\"\nsize = 1\n{class}")
    }

    #[test]
    fn errors_name_the_line_and_give_a_hint() {
        for (class, line, what, hint) in [
            (
                "[[class]]\nname = \"c\"\npopulation = 1\npath = [\n {at = \"dv\", service = 1},\n]",
                10,
                "there is no station `dv`",
                "stations are: db",
            ),
            (
                "[[class]]\nname = \"c\"\npopulation = 1\npath = [{hold = \"x\"}]",
                9,
                "no pool `x`",
                "pools are: w",
            ),
            ("[[class]]\nname = \"c\"\npath = []", 6, "does not say where", "population"),
            ("[[class]]\nname = \"c\"\npopulation = 1\npath = []", 6, "has an empty path", "step"),
            (
                "[[class]]\nname = \"c\"\npopulation = 1\npath = [{at = \"db\", service = \"5 lightyears\"}]",
                9,
                "not a length of time",
                "example",
            ),
            (
                "[[class]]\nname = \"c\"\npopulation = 1\npath = [{at = \"db\", service = 1, choose = 2}]",
                9,
                "`choose` has no meaning here",
                "visits",
            ),
            ("[[class]]\nname = \"c\"\npopulation = 1\npaths = []", 9, "unknown field `paths`", "example"),
        ] {
            match from_toml(&with_class(class)).unwrap_err() {
                Error::Form { line: at, what: said, hint: hinted } => {
                    assert!(said.contains(what), "{said}");
                    assert!(hinted.contains(hint), "{hinted}");
                    assert_eq!(at, Some(line), "{class}: {said}");
                }
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn json_errors_show_the_keys() {
        let error =
            from_json(r#"{"class": [{"name": "c", "population": 1, "path": [{"at": "db", "service": 1}]}]}"#)
                .unwrap_err();
        assert_eq!(error.to_string(), ".class[0].path[0].at: there is no station `db`");
    }

    #[test]
    fn bandwidths_read_as_people_write_them() {
        for (text, bits) in
            [("101 Mbit/s", 101e6), ("10Gbit/s", 10e9), ("9600 bit/s", 9600.0), ("1 Mbps", 1e6)]
        {
            assert_eq!(parse_bandwidth(text), Ok(Bandwidth(bits)), "{text}");
        }
        assert!(parse_bandwidth("fast").is_err());
    }
}
