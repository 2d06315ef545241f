//! Lengths of time, sizes, bandwidths and distributions, as numbers or as people write them.

use krarup_units::text;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::schema::{Bandwidth, SizeValue, TimeForm, TimeTable, TimeValue, WaitForm};
use crate::Distribution;
use crate::network::ForkWait;

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

fn length_from_number(value: f64) -> Result<TimeValue, String> {
    if value.is_finite() && value >= 0.0 {
        Ok(TimeValue(value))
    } else {
        Err(format!("{value} is not a length of time in seconds"))
    }
}

number_or_text!(
    TimeValue,
    "a length of time like \"61 us\", or seconds",
    length_from_number,
    |text: &str| { text::parse_duration(text).map(TimeValue) }
);
number_or_text!(
    SizeValue,
    "a size like \"4 KiB\", or bytes",
    |value: f64| if value >= 0.0 {
        Ok(SizeValue(value as u64))
    } else {
        Err(format!("{value} is not a size"))
    },
    |text: &str| text::parse_size(text).map(SizeValue)
);
number_or_text!(
    Bandwidth,
    "a bandwidth like \"101 Mbit/s\", or bits per second",
    |value: f64| Ok::<_, String>(Bandwidth(value)),
    |text: &str| text::parse_bandwidth(text).map(Bandwidth)
);
number_or_text!(
    WaitForm,
    "\"all\", \"any\" or a number of answers",
    |value: f64| if value >= 1.0 && value.fract() == 0.0 && value <= f64::from(u32::MAX) {
        Ok(WaitForm(ForkWait::Quorum(value as u32)))
    } else {
        Err(format!("{value} is not a number of answers"))
    },
    |text: &str| match text {
        "all" => Ok(WaitForm(ForkWait::All)),
        "any" => Ok(WaitForm(ForkWait::Any)),
        other => Err(format!("`{other}` is not \"all\", \"any\" or a number of answers")),
    }
);

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
        if let Some(TimeValue(value)) = self.constant {
            named.push(("constant", Distribution::Constant { value }));
        }
        if let Some(TimeValue(mean)) = self.exponential {
            named.push(("exponential", Distribution::Exponential { mean }));
        }
        if let Some(TimeValue(mean)) = self.erlang {
            let stages = self.stages.ok_or("erlang needs `stages` beside its mean")?;
            named.push(("erlang", Distribution::Erlang { stages, mean }));
        }
        if let Some(TimeValue(mean)) = self.hyperexponential {
            let scv = need(self.scv, "scv", "hyperexponential")?;
            named.push(("hyperexponential", Distribution::Hyperexponential { mean, scv }));
        }
        if let Some([TimeValue(low), TimeValue(high)]) = self.uniform {
            named.push(("uniform", Distribution::Uniform { low, high }));
        }
        if let Some(TimeValue(mean)) = self.gamma {
            named.push(("gamma", Distribution::Gamma { mean, scv: need(self.scv, "scv", "gamma")? }));
        }
        if let Some(TimeValue(mean)) = self.lognormal {
            named.push((
                "lognormal",
                Distribution::Lognormal { mean, scv: need(self.scv, "scv", "lognormal")? },
            ));
        }
        if let Some(TimeValue(mean)) = self.weibull {
            named.push((
                "weibull",
                Distribution::Weibull { mean, shape: need(self.shape, "shape", "weibull")? },
            ));
        }
        if let Some(TimeValue(mean)) = self.pareto {
            named
                .push(("pareto", Distribution::Pareto { mean, shape: need(self.shape, "shape", "pareto")? }));
        }
        if let Some(values) = self.empirical {
            named.push((
                "empirical",
                Distribution::Empirical { values: values.iter().map(|v| v.0).collect() },
            ));
        }
        if let Some(TimeValue(mean)) = self.moments {
            named.push(("moments", Distribution::Moments { mean, scv: need(self.scv, "scv", "moments")? }));
        }
        match named.len() {
            1 => {
                let (name, distribution) = named.remove(0);
                let given = [
                    ("stages", self.stages.is_some()),
                    ("scv", self.scv.is_some()),
                    ("shape", self.shape.is_some()),
                ];
                if let Some((key, _)) = given.iter().find(|(key, there)| *there && *key != beside_mean(name))
                {
                    return Err(format!("`{key}` has no meaning for {name}"));
                }
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

/// The key that a distribution needs beside its mean; empty for none.
fn beside_mean(name: &str) -> &'static str {
    match name {
        "erlang" => "stages",
        "hyperexponential" | "gamma" | "lognormal" | "moments" => "scv",
        "weibull" | "pareto" => "shape",
        _ => "",
    }
}

impl Serialize for TimeValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl Serialize for SizeValue {
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
            ForkWait::All => serializer.serialize_str("all"),
            ForkWait::Any => serializer.serialize_str("any"),
            ForkWait::Quorum(n) => serializer.serialize_u32(n),
        }
    }
}

impl Serialize for TimeForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = TimeTable::default();
        match &self.0 {
            Distribution::Exponential { mean } => return serializer.serialize_f64(*mean),
            Distribution::Constant { value } => table.constant = Some(TimeValue(*value)),
            Distribution::Erlang { stages, mean } => {
                table.erlang = Some(TimeValue(*mean));
                table.stages = Some(*stages);
            }
            Distribution::Hyperexponential { mean, scv } => {
                table.hyperexponential = Some(TimeValue(*mean));
                table.scv = Some(*scv);
            }
            Distribution::Uniform { low, high } => table.uniform = Some([TimeValue(*low), TimeValue(*high)]),
            Distribution::Gamma { mean, scv } => {
                table.gamma = Some(TimeValue(*mean));
                table.scv = Some(*scv);
            }
            Distribution::Lognormal { mean, scv } => {
                table.lognormal = Some(TimeValue(*mean));
                table.scv = Some(*scv);
            }
            Distribution::Weibull { mean, shape } => {
                table.weibull = Some(TimeValue(*mean));
                table.shape = Some(*shape);
            }
            Distribution::Pareto { mean, shape } => {
                table.pareto = Some(TimeValue(*mean));
                table.shape = Some(*shape);
            }
            Distribution::Empirical { values } => {
                table.empirical = Some(values.iter().map(|v| TimeValue(*v)).collect());
            }
            Distribution::Moments { mean, scv } => {
                table.moments = Some(TimeValue(*mean));
                table.scv = Some(*scv);
            }
        }
        table.serialize(serializer)
    }
}
