//! Every key of a spec as a page: a test asks the types themselves which keys there are.

use std::fmt::Write as _;

use crate::shipped;

/// A table of a spec: where it stands, and its keys with what they are, their usual value and their
/// meaning.
struct Section {
    path: &'static str,
    about: &'static str,
    keys: &'static [[&'static str; 4]],
}

const SECTIONS: &[Section] = &[
    Section {
        path: "",
        about: "At the top of the file.",
        keys: &[
            ["title", "text", "", "what is examined: the title of the report"],
            ["seed", "number", "1", "decides the order of the trials, and keys and values of each"],
            ["factor", "tables", "none", "what is varied; the cells are all combinations of their levels"],
            [
                "zip",
                "lists of names",
                "none",
                "factors that move together: their first levels meet, their second, and so on",
            ],
            [
                "except",
                "tables",
                "none",
                "combinations that are left out: `{ workload = \"write\", clients = 64 }`",
            ],
            [
                "population",
                "name",
                "`clients`",
                "the factor that sets the number of clients: the x axis of the report",
            ],
            ["repetitions", "table", "", "how often each cell is run"],
            ["phases", "table", "", "how long each trial is"],
            [
                "testbed",
                "name",
                "`local`",
                "`local`: processes on this machine; `netns`: each in a network namespace of its own, behind a link of its own (Linux, root); `ssh`: on other machines",
            ],
            ["fault", "tables", "none", "what is done to stations while a trial is measured"],
            ["gates", "list of texts", "none", "what a trial must keep, or it has failed"],
            ["retries", "number", "2", "how often a trial that failed is tried again"],
            [
                "data",
                "list of words",
                "none",
                "words for `krarup load` whenever it runs: what keys and values there are",
            ],
            [
                "populate",
                "table",
                "not at all",
                "how the keys are stored, and verified, before anything is measured; `flags` are further words for `krarup load --populate-only`",
            ],
            ["stations", "table", "", "what runs: `servers`, perhaps a `middleware`, `clients`"],
            [
                "anchor",
                "table",
                "none",
                "a cell that is run at the beginning and the end of each repetition, and between; the report tells drift, and repetitions that disagree are not pooled",
            ],
            [
                "base",
                "table",
                "none",
                "levels of some factors: the report compares each cell with the one that has these and is otherwise the same, as `base = { servers = 3, replication = \"none\" }`",
            ],
            [
                "predictions",
                "table",
                "none",
                "a model of the middleware is calibrated on some of the cells and predicts the others; the report shows its errors there, and what would be if",
            ],
            ["ssh", "table", "none", "how other machines are reached, in `ssh`"],
            [
                "quick",
                "table",
                "none",
                "what is different with `--quick`: the same keys, and `levels` with other levels by the name of a factor",
            ],
        ],
    },
    Section {
        path: "factor",
        about: "One `[[factor]]` for each thing that is varied. `$name` in the words of a station becomes the words of the cell's level.",
        keys: &[
            ["name", "text", "", "letters, digits and `_`"],
            [
                "levels",
                "list",
                "",
                "numbers, texts, or `{ name = \"read\", words = [\"--ratio\", \"0:1\"] }`",
            ],
        ],
    },
    Section {
        path: "repetitions",
        about: "Each repetition is a block: every cell once, in an order drawn from the seed.",
        keys: &[
            ["min", "number", "3", "at least so often"],
            ["max", "number", "`min`", "at most so often"],
            [
                "until",
                "condition",
                "none",
                "cells that do not keep it are run again, up to `max` times: `cov(throughput) <= 5 %` or `cov(response) <= 5 %`",
            ],
        ],
    },
    Section {
        path: "phases",
        about: "Times as `\"10s\"`, `\"600ms\"`, or in seconds.",
        keys: &[
            [
                "warm_up",
                "time",
                "2s",
                "load that nobody looks at; then everything counted so far is forgotten",
            ],
            [
                "measure",
                "time",
                "10s",
                "what is measured; several clients begin at one instant, their connections made before",
            ],
            [
                "cool_down",
                "time",
                "0s",
                "load that goes on afterwards and counts no more, so that no client is measured while another has ended",
            ],
        ],
    },
    Section {
        path: "fault",
        about: "One `[[fault]]` for each thing that is done to a station while a trial is measured. The servers are made anew for the next trial.",
        keys: &[
            [
                "station",
                "text",
                "",
                "`\"server 2\"` or `\"middleware 1\"`: the kind, and the number from 1, of one that the spec starts",
            ],
            ["at", "time", "", "when, from the beginning of what is measured"],
            [
                "do",
                "name",
                "",
                "`kill`: gone at once, its memory too; `restart`: started once more at its address with nothing in it, killed before where it runs; `freeze`: it takes nothing and says nothing, and its connections stay; `thaw`: it goes on. A middleware is frozen and thawed only: one that is killed writes no records",
            ],
            ["when", "table", "in all cells", "only in cells with these levels: `{ loss = \"kill\" }`"],
        ],
    },
    Section {
        path: "anchor",
        about: "`anchor = { levels = { workload = \"read-only\", clients = 64 }, every = 10 }`",
        keys: &[
            ["levels", "table", "", "which cell: the level of each factor that has several"],
            ["every", "number", "only at both ends", "after so many other trials it is run again"],
            [
                "within",
                "number",
                "0.1",
                "by which share its throughput may differ from one repetition to another; those that differ more from most are left out of all figures",
            ],
        ],
    },
    Section {
        path: "predictions",
        about: "The cells to calibrate on are chosen by their place in the plan: low load, the smallest and the largest number of workers with the most clients, and between.",
        keys: &[
            [
                "workers",
                "name",
                "`workers`",
                "the factor that sets the workers: cells that differ in it and in their clients alone have one model",
            ],
            ["cells", "number", "5", "on how many cells it is calibrated at most; two at least are held out"],
        ],
    },
    Section {
        path: "ssh",
        about: "With `testbed = \"ssh\"`. What an inventory, a host or the user's own configuration of ssh says goes before this. See [machines of your own](../guide/machines.md).",
        keys: &[
            [
                "inventory",
                "file",
                "none",
                "an Ansible inventory, which `ansible-inventory` reads, or what its `--list` has written; relative to the spec",
            ],
            ["user", "text", "as ssh has it", "as whom"],
            ["port", "number", "as ssh has it", "at which port"],
            ["identity", "file", "as ssh has it", "with which private key"],
            ["config", "file", "the user's own", "a configuration file for ssh; relative to the spec"],
            ["cache", "folder", "`~/.cache/krarup`", "where programs and records go on each machine"],
            [
                "krarup",
                "path",
                "ours is copied",
                "a krarup that is installed on each machine, of the same version",
            ],
        ],
    },
    Section {
        path: "stations.servers",
        about: "`stations.servers`, `stations.middleware` and `stations.clients` have the same keys; each has one of `program`, `command` and `addresses`.",
        keys: &[
            [
                "program",
                "name",
                "",
                "servers: `memcached`, `cache` (`krarup cache`), `auto` (memcached where it is installed) or `broker` (`krarup broker`); middleware: `proxy`; clients: `load`",
            ],
            [
                "command",
                "list of words",
                "",
                "any other program: `{host}` and `{port}` are where it is told to listen, `{servers}` whom it is told to ask (`{server1}`, `{server2}` … one of them, `{server1.host}` and `{server1.port}` its parts)",
            ],
            ["addresses", "list of texts", "", "those that run already, as `HOST:PORT`"],
            [
                "hosts",
                "list",
                "the inventory's group of the station's name",
                "the machines they run on, in turn: `\"user@host:port\"`, a host or a group of the inventory, or `{ host = \"…\", address = \"…\", user = \"…\", port = 22, identity = \"…\" }`, where `address` is how the other machines reach it; only in `ssh`",
            ],
            [
                "count",
                "number, or `\"$factor\"`",
                "3 servers, 1 middleware, 1 client",
                "how many are started, always or as the level of a factor says; each of several clients is a load generator of its own, with all of `flags`",
            ],
            [
                "link",
                "bandwidth",
                "as fast as it goes",
                "`101Mbit/s`: what the host of each may send, headers included; only in `netns`",
            ],
            [
                "delay",
                "time",
                "0s",
                "`\"0.5ms\"`: how long what the host of each sends is under way at least, one way; only in `netns`",
            ],
            [
                "cpu",
                "number",
                "all there are",
                "processors that each may use, by a control group with a quota: `0.32` is a third of one; needs root, and is refused where control groups cannot be written",
            ],
            ["flags", "list of words", "none", "further words, after those that we give"],
            [
                "config",
                "text",
                "none",
                "the configuration file of the middleware, written anew for each trial, with `$factor` and what a command is told in it; `krarup proxy` gets it with `--config`, a command in place of `{config}`",
            ],
        ],
    },
];

const GATES: &[[&str; 2]] = &[
    ["interactive_law within 5 %", "X·(R + Z) is that near to N: the clients were all there"],
    ["errors == 0", "no request failed"],
    ["misses == 0", "every key was found"],
    ["generator_cpu < 80 %", "no thread of the load generator was running more than that share of its time"],
];

/// The page.
pub fn reference() -> String {
    let mut page = String::from(
        "# The spec of an experiment\n\n\
         <!-- Generated: UPDATE=1 cargo test -p krarup-lab reference -->\n\n\
         A TOML file that says what is varied, what runs, how long and how often. `krarup plan SPEC` shows what it means, `krarup run SPEC`\n\
         carries it out, `krarup report DIR` writes the report anew. Errors name the line; keys that are not listed here are errors, too.\n",
    );
    let mut line = |text: std::fmt::Arguments<'_>| page.write_fmt(text).expect("a text takes all");
    for section in SECTIONS {
        let title =
            if section.path.is_empty() { "The whole".to_owned() } else { format!("`{}`", section.path) };
        line(format_args!(
            "\n## {title}\n\n{}\n\n| key | type | where not given | meaning |\n|---|---|---|---|\n",
            section.about
        ));
        for [key, kind, default, meaning] in section.keys {
            line(format_args!("| `{key}` | {kind} | {default} | {meaning} |\n"));
        }
    }
    line(format_args!(
        "\n## Gates\n\nA name, `<`, `<=`, `==` or `within`, and a limit.\n\n| gate | a trial passes when |\n|---|---|\n"
    ));
    for [gate, meaning] in GATES {
        line(format_args!("| `{gate}` | {meaning} |\n"));
    }
    line(format_args!(
        "\n## An example\n\n`krarup run demo` is this spec:\n\n```toml\n{}```\n",
        shipped::spec("demo").expect("it is shipped")
    ));
    let names: Vec<String> = shipped::SPECS.iter().map(|(name, _)| format!("`{name}`")).collect();
    line(format_args!("\nSpecs that come with the program: {}.\n", names.join(", ")));
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;
    use crate::spec::Spec;

    /// A spec with an unknown key in this table: whoever reads it says which keys there are.
    fn keys_of(path: &str) -> Vec<String> {
        let demo = shipped::spec("demo").unwrap();
        let wrong = "no_such_key = 1\n";
        let source = match path {
            "" => format!("{wrong}{demo}"),
            "factor" => demo.replacen("[[factor]]\n", &format!("[[factor]]\n{wrong}"), 1),
            "repetitions" | "phases" => {
                demo.replacen(&format!("{path} = {{ "), &format!("{path} = {{ no_such_key = 1, "), 1)
            }
            "fault" => format!("{demo}\n[[fault]]\n{wrong}"),
            "anchor" | "predictions" | "ssh" => format!("{demo}\n[{path}]\n{wrong}"),
            _ => demo.replacen(&format!("[{path}]\n"), &format!("[{path}]\n{wrong}"), 1),
        };
        let error = Spec::parse(&source).unwrap_err();
        let (_, list) = error.what.split_once("expected ").unwrap_or_else(|| panic!("{error}"));
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_page_lists_the_keys_that_the_types_have() {
        for section in SECTIONS {
            let listed: Vec<&str> = section.keys.iter().map(|key| key[0]).collect();
            assert_eq!(listed, keys_of(section.path), "[{}]", section.path);
        }
        for [gate, _] in GATES {
            assert!(gate.parse::<Gate>().is_ok(), "{gate}");
        }
    }

    #[test]
    fn the_reference_is_what_the_tables_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/spec.md");
        if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
            std::fs::write(path, reference()).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == reference(), "docs/reference/spec.md is not what the tables say: run with UPDATE=1");
    }
}
