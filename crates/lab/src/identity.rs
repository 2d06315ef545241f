//! What a trial is: the list of everything in a spec that could change its outcome. It is kept with
//! each trial, so that a run that is taken up again knows what is done already, and a reader of a
//! directory knows what belongs to it without any spec.
//!
//! The list is explicit and has a version: names and forms of values stay as they are, whatever the
//! types in this program are called. Each struct of the spec is taken apart field by field, so that
//! a new field does not compile before it is either listed or named as one that changes nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::fault;
use crate::gate::Gate;
use crate::plan::PlannedCell;
use crate::spec::{
    Baseline, Fault, Kubernetes, Machine, Phases, PodSettings, Populate, Program, Spec, Ssh, StationSpec,
    Stations, Testbed, TestbedScale,
};

/// The form of the list. A change of a name or of the form of a value counts it up.
const VERSION: u32 = 2;

/// Everything that could change the outcome of the trials of a cell, by its name in the spec. What
/// is not asked for is not listed. Which repetition a trial is stands beside it in its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The form of the list.
    version: u32,
    /// Name and value.
    of: BTreeMap<String, String>,
}

/// What a manifest says of its trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ManifestIdentity {
    /// The list.
    Listed(Identity),
    /// A number that an earlier build made from the names of its own types. It is compared with
    /// nothing.
    Earlier(String),
}

impl Identity {
    /// What the trials of this cell are.
    pub fn of(spec: &Spec, cell: &PlannedCell) -> Self {
        let mut list = List { cell, testbed: spec.testbed, of: BTreeMap::new() };
        let Spec {
            title: _,
            seed,
            // Factors, zips and exceptions make the cells; a cell says its levels, and the words
            // that stand for them are in the words of the stations.
            factors: _,
            zip: _,
            except: _,
            population: _,
            repetitions: _,
            phases: Phases { warm_up, measure, cool_down },
            testbed,
            scale,
            faults: _,
            gates,
            retries: _,
            data,
            populate,
            stations: Stations { servers, middleware, clients },
            // An anchor's runs are trials like others; base, effects, predictions and sheet are
            // read from what was measured.
            anchor: _,
            base: _,
            effects_by: _,
            predictions: _,
            sheet: _,
            ssh,
            kubernetes,
            // Its changes are in the spec already.
            quick: _,
        } = spec;
        for (factor, level) in &cell.levels {
            list.set(format!("level.{factor}"), &level.0);
        }
        list.set("seed", seed);
        list.set("phases.warm_up", warm_up);
        list.set("phases.measure", measure);
        list.some("phases.cool_down", (*cool_down > 0.0).then_some(cool_down));
        list.set(
            "testbed",
            match testbed {
                Testbed::Local => "local",
                Testbed::Netns => "netns",
                Testbed::Ssh => "ssh",
                Testbed::Kubernetes => "kubernetes",
            },
        );
        scale.iter().for_each(|scale| list.scale(scale));
        for (number, fault) in fault::in_order(spec, cell).into_iter().enumerate() {
            // Whether it is done in this cell is said by its standing here.
            let Fault { station, at, action, lasts, every, when: _ } = fault.get_ref();
            let mut words = format!("{action} {station} at {at}");
            for (name, time) in [("for", lasts), ("every", every)] {
                if let Some(time) = time {
                    words.push_str(&format!(" {name} {time}"));
                }
            }
            list.set(format!("faults.{number}"), &words);
        }
        for (number, gate) in gates.iter().enumerate() {
            let Gate { watched, relation, limit } = gate.get_ref();
            list.set(format!("gates.{number}"), &format!("{} {relation} {limit}", watched.name()));
        }
        list.words("data", data);
        if let Some(Populate { flags }) = populate {
            list.set("populate", "asked for");
            list.words("populate.flags", flags);
        }
        list.station("servers", servers);
        if let Some(middleware) = middleware {
            list.station("middleware", middleware);
        }
        list.station("clients", clients);
        list.places(ssh.as_ref(), kubernetes.as_ref());
        Self { version: VERSION, of: list.of }
    }

    /// What another has otherwise: `phases.measure was 10 and is 3`.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let names: std::collections::BTreeSet<&String> = self.of.keys().chain(now.of.keys()).collect();
        let value = |of: &BTreeMap<String, String>, name: &String| {
            // A sum of decimal fractions is shown as it was meant.
            let shown = |value: &String| match value.parse::<f64>() {
                Ok(number) if value.len() > 12 => ((number * 1e9).round() / 1e9).to_string(),
                _ => value.clone(),
            };
            of.get(name).map_or("not there".to_owned(), |value| format!("`{}`", shown(value)))
        };
        let differ = names.into_iter().filter(|name| self.of.get(*name) != now.of.get(*name));
        differ
            .map(|name| format!("{name} was {} and is {}", value(&self.of, name), value(&now.of, name)))
            .collect()
    }
}

/// A list that is being made.
struct List<'a> {
    cell: &'a PlannedCell,
    testbed: Testbed,
    of: BTreeMap<String, String>,
}

impl List<'_> {
    fn set(&mut self, name: impl Into<String>, value: &(impl ToString + ?Sized)) {
        self.of.insert(name.into(), value.to_string());
    }

    fn some(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.set(name, &value);
        }
    }

    /// Words with the cell's levels in place, as a list in JSON: no two lists of words look alike.
    fn words(&mut self, name: impl Into<String>, words: &[Spanned<String>]) {
        if !words.is_empty() {
            let rendered = self.cell.render(words);
            self.set(name, &serde_json::to_string(&rendered).expect("words are text"));
        }
    }

    fn scale(&mut self, scale: &TestbedScale) {
        let TestbedScale { by, measure, baselines } = scale;
        self.set("scale.by", by);
        self.some("scale.measure", (!baselines.is_empty()).then_some(measure));
        for (number, baseline) in baselines.iter().enumerate() {
            let Baseline { station, levels, clients, throughput } = baseline.get_ref();
            let levels: Vec<String> = levels.iter().map(|(name, level)| format!("{name}={level}")).collect();
            let by = clients.map_or(String::new(), |clients| format!(" by {clients}"));
            let words = format!("{} {}{by} {throughput}", station.name(), levels.join(","));
            self.set(format!("scale.baselines.{number}"), &words);
        }
    }

    /// Where stations run. A table of another testbed changes nothing.
    fn places(&mut self, ssh: Option<&Ssh>, kubernetes: Option<&Kubernetes>) {
        let testbed = self.testbed;
        if let Some(Kubernetes { image, namespace, context, kubeconfig: _, patience: _ }) =
            kubernetes.filter(|_| testbed == Testbed::Kubernetes)
        {
            self.set("kubernetes.image", image);
            self.some("kubernetes.namespace", namespace.as_ref());
            self.some("kubernetes.context", context.as_ref());
        }
        if let Some(ssh) = ssh.filter(|_| testbed == Testbed::Ssh) {
            // The key shows who is there, and changes nothing else.
            let Ssh { inventory, user, port, identity: _, config, cache, krarup } = ssh;
            let words = [
                ("inventory", inventory),
                ("user", user),
                ("config", config),
                ("cache", cache),
                ("krarup", krarup),
            ];
            for (name, word) in words {
                self.some(format!("ssh.{name}"), word.as_ref());
            }
            self.some("ssh.port", port.as_ref());
        }
    }

    fn station(&mut self, at: &str, station: &StationSpec) {
        let StationSpec { program, command, addresses, hosts, pod, count, link, delay, cpu, flags, config } =
            station;
        let name = |what: &str| format!("stations.{at}.{what}");
        self.some(
            name("program"),
            program.map(|program| match program {
                Program::Auto => "auto",
                Program::Memcached => "memcached",
                Program::Cache => "cache",
                Program::Broker => "broker",
                Program::Postgres => "postgres",
                Program::Proxy => "proxy",
                Program::Twemproxy => "twemproxy",
                Program::Load => "load",
            }),
        );
        self.words(name("command"), command);
        self.words(name("flags"), flags);
        for (number, address) in addresses.iter().enumerate() {
            self.set(name(&format!("addresses.{number}")), address);
        }
        let on_machines = self.testbed == Testbed::Ssh;
        for (number, host) in hosts.iter().enumerate().filter(|_| on_machines) {
            let Machine { host, address, user, port, identity: _ } = host;
            let name = |what: &str| name(&format!("hosts.{number}.{what}"));
            self.set(name("host"), host);
            self.some(name("address"), address.as_ref());
            self.some(name("user"), user.as_ref());
            self.some(name("port"), port.as_ref());
        }
        if let Some(PodSettings { image, requests, limits, nodes }) =
            pod.as_ref().filter(|_| self.testbed == Testbed::Kubernetes)
        {
            self.some(name("pod.image"), self.cell.text(image));
            for (kind, all) in [("requests", requests), ("limits", limits), ("nodes", nodes)] {
                for (key, word) in all {
                    let word = self.cell.render(std::slice::from_ref(word)).join(" ");
                    self.set(name(&format!("pod.{kind}.{key}")), &word);
                }
            }
        }
        let count = count.as_ref().map(|_| self.cell.count(station, 1));
        self.some(name("count"), count);
        self.some(name("link"), *link);
        self.some(name("delay"), (*delay > 0.0).then_some(delay));
        self.some(name("cpu"), *cpu);
        let config = self.cell.text(config);
        self.some(name("config"), config);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    /// A spec in which every key is given that could change an outcome.
    const FULL: &str = r#"
title = "t"
seed = 7
phases = { warm_up = "1s", measure = "600ms", cool_down = 0.5 }
testbed = "netns"
gates = ["errors == 0", "interactive_law within 5 %"]
data = ["--keys", "100"]
[[factor]]
name = "workload"
levels = [{ name = "read", words = ["--ratio", "0:1"] }, "write"]
[[factor]]
name = "workers"
levels = [8]
[populate]
flags = ["--connections", "8"]
[stations.servers]
program = "memcached"
count = 3
link = "101Mbit/s"
delay = "0.5ms"
cpu = 0.32
[stations.middleware]
command = ["my-proxy", "--workers", "$workers", "{config}"]
config = "workers = $workers\n"
[stations.clients]
program = "load"
flags = ["$workload"]
[[fault]]
station = "server 2"
at = "0.3s"
do = "kill"
when = { workload = "read" }
"#;

    fn identity(text: &str) -> Identity {
        let spec = Spec::parse(text, "spec.toml").unwrap_or_else(|error| panic!("{error} in {text}"));
        Identity::of(&spec, &Plan::of(&spec).cells[0])
    }

    /// Directories live longer than builds: what is written here is compared with what later builds
    /// write. A change of this text makes every trial that there is another one; it needs a new
    /// version, and a reason.
    #[test]
    fn the_list_is_what_it_has_always_been() {
        let golden = r#"{
  "version": 2,
  "of": {
    "data": "[\"--keys\",\"100\"]",
    "faults.0": "kill server 2 at 0.3",
    "gates.0": "errors == 0",
    "gates.1": "interactive_law <= 0.05",
    "level.workers": "8",
    "level.workload": "read",
    "phases.cool_down": "0.5",
    "phases.measure": "0.6",
    "phases.warm_up": "1",
    "populate": "asked for",
    "populate.flags": "[\"--connections\",\"8\"]",
    "seed": "7",
    "stations.clients.flags": "[\"--ratio\",\"0:1\"]",
    "stations.clients.program": "load",
    "stations.middleware.command": "[\"my-proxy\",\"--workers\",\"8\",\"{config}\"]",
    "stations.middleware.config": "workers = 8\n",
    "stations.servers.count": "3",
    "stations.servers.cpu": "0.32",
    "stations.servers.delay": "0.0005",
    "stations.servers.link": "101000000",
    "stations.servers.program": "memcached",
    "testbed": "netns"
  }
}"#;
        let found = identity(FULL);
        assert_eq!(serde_json::to_string_pretty(&found).unwrap(), golden);
        assert_eq!(
            serde_json::from_str::<ManifestIdentity>(golden).unwrap(),
            ManifestIdentity::Listed(found)
        );
        let machines = r#"
title = "t"
testbed = "ssh"
[ssh]
inventory = "hosts.ini"
user = "u"
port = 2222
identity = "key"
config = "c"
cache = "~/k"
krarup = "/bin/krarup"
[stations.servers]
program = "cache"
hosts = [{ host = "s", address = "10.0.0.1", user = "v", port = 23, identity = "other" }]
[stations.clients]
program = "load"
hosts = ["c"]
"#;
        let golden = r#"{"version":2,"of":{"phases.measure":"10","phases.warm_up":"2","seed":"1","ssh.cache":"~/k","ssh.config":"c","ssh.inventory":"hosts.ini","ssh.krarup":"/bin/krarup","ssh.port":"2222","ssh.user":"u","stations.clients.hosts.0.host":"c","stations.clients.program":"load","stations.servers.hosts.0.address":"10.0.0.1","stations.servers.hosts.0.host":"s","stations.servers.hosts.0.port":"23","stations.servers.hosts.0.user":"v","stations.servers.program":"cache","testbed":"ssh"}}"#;
        assert_eq!(serde_json::to_string(&identity(machines)).unwrap(), golden);
        let pods = r#"
title = "t"
testbed = "kubernetes"
[kubernetes]
image = "k"
namespace = "n"
context = "c"
kubeconfig = "f"
patience = "1m"
[[factor]]
name = "cpu"
levels = ["500m"]
[stations.servers]
program = "memcached"
hosts = ["a"]
pod = { image = "m", requests = { memory = "1Mi" }, limits = { cpu = "$cpu" }, nodes = { pool = "p" } }
[stations.clients]
program = "load"
"#;
        let golden = r#"{"version":2,"of":{"kubernetes.context":"c","kubernetes.image":"k","kubernetes.namespace":"n","level.cpu":"500m","phases.measure":"10","phases.warm_up":"2","seed":"1","stations.clients.program":"load","stations.servers.pod.image":"m","stations.servers.pod.limits.cpu":"500m","stations.servers.pod.nodes.pool":"p","stations.servers.pod.requests.memory":"1Mi","stations.servers.program":"memcached","testbed":"kubernetes"}}"#;
        assert_eq!(serde_json::to_string(&identity(pods)).unwrap(), golden);
    }

    #[test]
    fn a_scale_and_what_its_shares_are_found_by_make_another_trial() {
        let scaled = |by: &str| {
            let scale = format!(
                "[scale]\nby = {by}\n[[scale.baseline]]\nstation = \"servers\"\nlevels = {{ workload = \"read\" }}\nclients = 2\nthroughput = 100.5\n[populate]"
            );
            let text = FULL.split("[[fault]]").next().unwrap().replace("[populate]", &scale);
            let text = text.replace("command = [", "cpu = 8\ncommand = [");
            text.replace("program = \"load\"", "program = \"load\"\ncpu = 2")
        };
        let found = identity(&scaled("20"));
        let of = |name: &str| found.of[name].as_str();
        assert_eq!([of("scale.by"), of("scale.measure")], ["20", "5"]);
        assert_eq!(of("scale.baselines.0"), "servers workload=read by 2 100.5");
        assert_ne!(found, identity(&scaled("21")));
        assert_ne!(found, identity(&scaled("20").replace("100.5", "101")));
    }

    #[test]
    fn every_key_that_could_change_an_outcome_makes_another_trial() {
        let first = identity(FULL);
        let changes = [
            ("seed = 7", "seed = 8"),
            ("warm_up = \"1s\"", "warm_up = \"2s\""),
            ("measure = \"600ms\"", "measure = \"700ms\""),
            ("cool_down = 0.5", "cool_down = 0.6"),
            ("\"errors == 0\", ", ""),
            ("\"100\"", "\"101\""),
            ("\"0:1\"", "\"0:2\""),
            ("\"read\"", "\"gets\""),
            ("\"--connections\", \"8\"", "\"--connections\", \"9\""),
            ("\"memcached\"", "\"cache\""),
            ("count = 3", "count = 2"),
            ("101Mbit/s", "102Mbit/s"),
            ("delay = \"0.5ms\"", "delay = \"5ms\""),
            ("delay = \"0.5ms\"", ""),
            ("cpu = 0.32", "cpu = 0.33"),
            ("my-proxy", "your-proxy"),
            ("workers = $workers\\n", "workers = ${workers}0\\n"),
            ("levels = [8]", "levels = [9]"),
            ("0.3s", "0.4s"),
            ("do = \"kill\"", "do = \"freeze\""),
            ("server 2", "server 3"),
            ("when = { workload = \"read\" }", "when = { workload = \"write\" }"),
        ];
        for (from, to) in changes {
            assert!(FULL.contains(from), "{from}");
            let changed = identity(&FULL.replace(from, to));
            assert_ne!(changed, first, "{from} → {to}");
            assert!(!first.differences(&changed).is_empty());
        }
        let same = [
            "title = \"other\"\nretries = 9\nrepetitions = { min = 9 }\nseed = 7",
            "title = \"t\"\nbase = { workers = 8 }\nseed = 7",
        ];
        for head in same {
            assert_eq!(identity(&FULL.replace("title = \"t\"\nseed = 7", head)), first, "{head}");
        }
        assert_eq!(
            first.differences(&identity(&FULL.replace("delay = \"0.5ms\"", "delay = \"5ms\""))),
            ["stations.servers.delay was `0.0005` and is `0.005`"]
        );
    }
}
