//! Rules of the house that hold themselves: arrows between crates and between modules point down, and what decides has no socket, file or clock.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

mod modules;

use modules::Crate;

/// The layers, from the ground up. A crate may use those of lower layers only; within layer 2, simulation and solvers share
/// a crate.
const LAYERS: [&[&str]; 9] = [
    &["units"],
    &["service", "settings", "memcache", "beanstalk", "net", "record", "stats"],
    &["model"],
    &["proxy", "broker", "cache"],
    &["store"],
    &["serve", "load"],
    &["lab", "analysis"],
    &["report"],
    &["cli"],
];

/// Who may use sockets, and who may not even read a clock or a file, by the libraries that give them.
const FORBIDDEN: [(&str, &[&str]); 9] = [
    (
        "broker",
        &["krarup-net", "mio", "socket2", "signal-hook", "rustix", "tokio", "postgres", "tokio-postgres"],
    ),
    ("proxy", &["krarup-net", "mio", "socket2", "signal-hook", "rustix", "tokio"]),
    ("cache", &["krarup-net", "mio", "socket2", "signal-hook", "rustix", "tokio"]),
    ("serve", &["tokio", "postgres", "tokio-postgres"]),
    ("memcache", &["mio", "socket2", "signal-hook", "rustix"]),
    ("beanstalk", &["mio", "socket2", "signal-hook", "rustix"]),
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

/// What a crate that decides or computes may not name of the standard library: time, files and sockets are handed in.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process::Command",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// The crates for which that holds, each with the files that do otherwise still.
const PURE: &[(&str, &[&str])] = &[
    ("units", &["units/src/address.rs"]),
    ("service", &[]),
    ("settings", &[]),
    ("memcache", &[]),
    ("beanstalk", &[]),
    ("stats", &[]),
    ("model", &[]),
    ("broker", &[]),
    ("cache", &[]),
    ("proxy", &[]),
    ("analysis", &[]),
    ("report", &[]),
];

fn folder_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

#[test]
fn what_decides_has_no_socket_file_thread_or_clock() {
    let mut wrong = Vec::new();
    for (name, excused) in PURE {
        let sources = Crate::read(&folder_of(name));
        let found =
            sources.naming(IMPURE).filter(|(file, _)| !excused.iter().any(|known| file.ends_with(known)));
        wrong.extend(found.map(|(file, path)| format!("{file} names {path}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Files of each crate that stand in a circle with others still. Whoever lowers one writes the lower figure here; none rises.
const IN_CIRCLES: &[(&str, usize)] = &[("cli", 4)];

#[test]
fn modules_of_a_crate_stand_in_no_circle() {
    let mut wrong = Vec::new();
    for name in LAYERS.iter().copied().flatten() {
        let circles = Crate::read(&folder_of(name)).circles();
        let files: usize = circles.iter().map(Vec::len).sum();
        let known = IN_CIRCLES.iter().find(|(known, _)| known == name).map_or(0, |(_, files)| *files);
        if files != known {
            wrong.push(format!("{name}: {files} files in circles, {known} are known: {circles:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each step of the walks in ARCHITECTURE.md names a file and a function in it.
#[test]
fn the_walks_name_functions_that_are_there() {
    let text = fs::read_to_string(folder_of("../ARCHITECTURE.md")).expect("it is there");
    let walks = text.split("\n## ").find(|part| part.starts_with("Three walks")).expect("it has the walks");
    let mut steps = 0;
    let mut wrong = Vec::new();
    for line in walks.lines().filter(|line| line.starts_with("| ") && line.contains(".rs |")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, file, function, _] = cells[..] else { panic!("three columns: {line}") };
        let function = function.trim_matches('`');
        let source = fs::read_to_string(folder_of(file)).unwrap_or_default();
        let there = [format!("fn {function}("), format!("fn {function}<")];
        if !there.iter().any(|head| source.contains(head)) {
            wrong.push(format!("{file} has no function {function}"));
        }
        steps += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(steps > 30, "{steps} steps were found");
}
