//! Arrows point down: what each layer of the house may use.

use std::collections::HashMap;
use std::process::Command;

/// The layers, from the ground up. A crate may use those of lower layers only; within layer 2, simulation and solvers share
/// a crate.
const LAYERS: [&[&str]; 7] = [
    &["units"],
    &["memcache", "net", "record", "stats"],
    &["model"],
    &["proxy", "broker", "load", "cache"],
    &["lab", "analysis"],
    &["report"],
    &["cli"],
];

/// Who may use sockets, and who may not even read a clock or a file, by the libraries that give them.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    ("memcache", &["mio", "socket2", "signal-hook", "rustix"]),
    ("stats", &["mio", "socket2", "signal-hook", "rustix", "csv", "parquet"]),
    ("model", &["mio", "socket2", "signal-hook", "rustix", "parquet"]),
    ("report", &["mio", "socket2", "signal-hook", "rustix"]),
];

fn layer(crate_name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&crate_name))
}

/// The folder name of a workspace crate.
fn folder(package: &str) -> &str {
    package.strip_prefix("krarup-").unwrap_or(if package == "krarup" { "cli" } else { package })
}

fn uses() -> HashMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let text = |value: &serde_json::Value| value.as_str().expect("names are text").to_owned();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a list");
            // Tests may use anything.
            let used = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
            (text(&package["name"]), used.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

#[test]
fn every_arrow_points_down() {
    let uses = uses();
    assert!(uses.len() >= 8, "the workspace has its crates: {:?}", uses.keys());
    let mut wrong = Vec::new();
    for (package, used) in &uses {
        let from = folder(package);
        let Some(height) = layer(from) else {
            wrong.push(format!("{from} stands in no layer"));
            continue;
        };
        for to in used.iter().filter(|name| uses.contains_key(*name)).map(|name| folder(name)) {
            if layer(to).is_none_or(|depth| depth >= height) {
                wrong.push(format!("{from} ─▶ {to} does not point down"));
            }
        }
        for (_, forbidden) in FORBIDDEN.iter().filter(|(name, _)| *name == from) {
            let found = used.iter().filter(|name| forbidden.contains(&name.as_str()));
            wrong.extend(found.map(|name| format!("{from} must not use {name}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
