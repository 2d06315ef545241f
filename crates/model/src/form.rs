//! The network description as TOML or JSON: what is wrong is said with its line and a hint.
//!
//! Both have the same keys; [`EXAMPLE`] is a commented file with all of them. Reading happens in
//! two steps: text → the schema (serde knows the line of what it cannot read), schema → [`Network`]
//! (each error remembers the keys that led to it, and `line_of` finds their line in the TOML text).

mod read;
mod schema;
mod values;
mod write;

use krarup_units::Mistake;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use toml::de::DeTable;

use self::read::{FilePathStep, line_at, line_of};
use self::schema::NetworkForm;
use crate::Error;
use crate::network::Network;

/// A commented file with every key.
pub const EXAMPLE: &str = include_str!("example.toml");

/// What would do in place of what a reader found wrong.
fn hint(message: &str) -> String {
    let example = "a file with every key is printed by `krarup model example`";
    match Mistake::of_reader(message).hint {
        hint if hint.is_empty() => example.to_owned(),
        hint => format!("{hint}; {example}"),
    }
}

/// Reads a network from TOML.
///
/// # Errors
/// [`Error::Form`], with the line and a hint.
pub fn from_toml(source: &str) -> Result<Network, Error> {
    let schema: NetworkForm = toml::from_str(source).map_err(|error| Error::Form {
        line: error.span().map(|span| line_at(source, span.start)),
        what: Mistake::of_reader(error.message()).what,
        hint: hint(error.message()),
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
        what: Mistake::of_reader(&error.to_string()).what,
        hint: hint(&error.to_string()),
    })?;
    schema.network().map_err(|wrong| {
        let place: String = wrong.keys.iter().map(FilePathStep::to_string).collect();
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
            let place: String = wrong.keys.iter().map(FilePathStep::to_string).collect();
            de::Error::custom(format!("{place}: {} ({})", wrong.what, wrong.hint))
        })
    }
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
                { at = "c", service = { hyperexponential = "1 ms", scv = 4 }, visits = 2 },
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
            (
                "[[class]]\nname = \"c\"\npopulation = 1\npath = [{at = \"db\", service = 1, demand = 2}]",
                9,
                "both a service and a demand",
                "one of them",
            ),
            (
                "[[class]]\nname = \"c\"\npopulation = 1\npath = [{at = \"db\", demand = 1, visits = 2}]",
                9,
                "`visits` has no meaning beside a demand",
                "service",
            ),
            (
                "[[class]]\nname = \"c\"\npopulation = 1\npath = [{at = \"db\", service = {exponential = 1, scv = 4}}]",
                9,
                "`scv` has no meaning for exponential",
                "example",
            ),
            (
                "[[class]]\nname = \"c\"\npopulation = 1\npath = [{at = \"db\", service = {gamma = 1, scv = 4, shape = 2}}]",
                9,
                "`shape` has no meaning for gamma",
                "example",
            ),
            (
                "[[class]]\nname = \"c\"\npopulation = 1\npaths = []",
                9,
                "there is no key `paths`",
                "did you mean path?",
            ),
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
