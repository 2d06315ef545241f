//! The network description as TOML or JSON: what is wrong is said with its line and a hint.
//!
//! Both have the same keys; [`EXAMPLE`] is a commented file with all of them. Reading happens in two
//! steps: text → the schema (serde knows the line of what it cannot read), schema → [`Network`] (each
//! error remembers the keys that led to it, and `line_of` finds their line in the TOML text).

mod read;
mod values;
mod write;

pub use values::parse_bandwidth;

use krarup_units::Seconds;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use toml::de::DeTable;

use self::read::{Key, line_at, line_of};
use crate::network::{Network, Wait};
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
    factor: Option<f64>,
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
}
