//! An Ansible inventory as a list of machines, as Ansible itself understands it:
//! `ansible-inventory --list`.
//!
//! Any form that Ansible reads will do: INI, YAML, a plugin of a cloud, a script, variables in
//! `group_vars/`. Where Ansible is not installed, a file that the tool wrote elsewhere is read as
//! it is.

use krarup_units::Mistake;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use serde::Deserialize;
use serde_json::Value;

use crate::spec::Machine;

/// Reads an inventory in any form, and writes it as JSON.
const TOOL: &str = "ansible-inventory";
/// The group of all hosts, and that of hosts in no other.
const ALL: &str = "all";
const UNGROUPED: &str = "ungrouped";

/// Why an inventory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error(transparent)]
    File(io::Error),
    /// The tool is not installed, or cannot be started.
    #[error(
        "{TOOL}, which reads it, cannot be started: {0}\n  hint: install Ansible (Debian's package is ansible-core), or give what `{TOOL} -i INVENTORY --list` writes elsewhere"
    )]
    NoTool(io::Error),
    /// The tool refuses the file, in its own words.
    #[error("{TOOL} refuses it: {0}")]
    Refused(String),
    /// What the tool wrote, or what stands in the file, is no list of hosts.
    #[error("it is no list of hosts as `{TOOL} --list` writes it: {0}")]
    NoList(serde_json::Error),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Group {
    hosts: Vec<String>,
    children: Vec<String>,
}

/// Variables of each host.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    hostvars: BTreeMap<String, BTreeMap<String, Value>>,
}

/// Machines by groups.
#[derive(Debug, Deserialize)]
pub struct Inventory {
    #[serde(rename = "_meta")]
    meta: Meta,
    #[serde(flatten)]
    groups: BTreeMap<String, Group>,
}

impl Inventory {
    /// Reads the inventory at `path`, by Ansible's tool unless it is what the tool has written.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(path: &Path) -> Result<Self, Unusable> {
        let folder = fs::metadata(path).map_err(Unusable::File)?.is_dir();
        let text = if folder { Vec::new() } else { fs::read(path).map_err(Unusable::File)? };
        if let Ok(read) = Self::parse(&text) {
            return Ok(read);
        }
        let mut tool = Command::new(TOOL);
        let output = tool.arg("-i").arg(path).arg("--list").stdin(Stdio::null()).output();
        let output = output.map_err(Unusable::NoTool)?;
        // A file that it does not understand is a warning to the tool, and an empty list.
        let words = String::from_utf8_lossy(&output.stderr);
        let failed = words
            .lines()
            .any(|line| line.contains("Unable to parse") || line.contains("No inventory was parsed"));
        if !output.status.success() || failed {
            return Err(Unusable::Refused(words.trim().to_owned()));
        }
        Self::parse(&output.stdout).map_err(Unusable::NoList)
    }

    /// What the tool has written.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The machines of a group, or the host of this name; none where there is neither.
    ///
    /// # Errors
    /// Where what it says of one cannot be told to ssh.
    pub fn machines(&self, name: &str) -> Result<Option<Vec<(String, Machine)>>, Mistake> {
        let hosts = match self.groups.get(name) {
            Some(_) => self.members(name),
            None if self.hosts().contains(&name) => vec![name],
            None => return Ok(None),
        };
        let machine = |host: &str| {
            let variables = self.meta.hostvars.get(host);
            let text = |variable: &str| match variables?.get(variable)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            };
            Ok((host.to_owned(), Machine::of(host, text)?))
        };
        hosts.into_iter().map(machine).collect::<Result<_, Mistake>>().map(Some)
    }

    /// The names of its groups and hosts, for hints.
    pub fn names(&self) -> Vec<&str> {
        let groups = self.groups.keys().map(String::as_str).filter(|name| ![ALL, UNGROUPED].contains(name));
        groups.chain(self.hosts()).collect()
    }

    /// Every host, by name.
    fn hosts(&self) -> BTreeSet<&str> {
        let grouped = self.groups.values().flat_map(|group| &group.hosts);
        grouped.chain(self.meta.hostvars.keys()).map(String::as_str).collect()
    }

    /// The hosts of a group and of all below it, each once, in the order in which they stand there.
    fn members<'a>(&'a self, group: &'a str) -> Vec<&'a str> {
        let (mut members, mut seen, mut open) = (Vec::new(), BTreeSet::new(), vec![group]);
        while let Some(name) = open.pop() {
            let Some(group) = self.groups.get(name).filter(|_| seen.insert(name)) else { continue };
            for host in group.hosts.iter().map(String::as_str) {
                if !members.contains(&host) {
                    members.push(host);
                }
            }
            open.extend(group.children.iter().rev().map(String::as_str));
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    const INI: &str = "lonely ansible_host=10.0.0.9\n\n# a comment\n[clients]\nc[1:2] ansible_host=10.0.0.1 # behind\n\n[servers]\n\
        s01 ansible_host=10.1.0.1 ansible_port=2222 krarup_address=192.168.0.1\ns02 ansible_user=\"other one\"\n\n\
        [machines:children]\nclients\nservers\n\n[machines:vars]\nansible_user = ubuntu\nansible_ssh_private_key_file='~/.ssh/id'\n\
        [servers:vars]\nansible_user=debian\n";

    const YAML: &str = "---\nall:\n  hosts:\n    lonely:\n      ansible_host: 10.0.0.9\n  children:\n    machines:\n      vars:\n        ansible_user: ubuntu\n\
        \x20       ansible_ssh_private_key_file: ~/.ssh/id\n      children:\n        clients:\n          hosts:\n            c[1:2]:\n              ansible_host: 10.0.0.1\n\
        \x20       servers:\n          vars: {ansible_user: debian}\n          hosts:\n            s01: {ansible_host: 10.1.0.1, ansible_port: 2222, krarup_address: 192.168.0.1}\n\
        \x20           s02:\n              ansible_user: other one\n";

    const LIST: &str = r#"{"_meta": {"hostvars": {"lonely": {"ansible_host": "10.0.0.9"},
        "c1": {"ansible_host": "10.0.0.1", "ansible_user": "ubuntu", "ansible_ssh_private_key_file": "~/.ssh/id"},
        "c2": {"ansible_host": "10.0.0.1", "ansible_user": "ubuntu", "ansible_ssh_private_key_file": "~/.ssh/id"},
        "s01": {"ansible_host": "10.1.0.1", "ansible_port": 2222, "krarup_address": "192.168.0.1", "ansible_user": "debian", "ansible_ssh_private_key_file": "~/.ssh/id"},
        "s02": {"ansible_user": "other one", "ansible_ssh_private_key_file": "~/.ssh/id"}}},
        "all": {"children": ["ungrouped", "machines"]}, "ungrouped": {"hosts": ["lonely"]}, "machines": {"children": ["clients", "servers"]},
        "clients": {"hosts": ["c1", "c2"]}, "servers": {"hosts": ["s01", "s02"]}}"#;

    fn says_the_same(inventory: &Inventory) {
        let of = |name: &str| inventory.machines(name).unwrap().unwrap();
        let names = |name: &str| of(name).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("machines"), ["c1", "c2", "s01", "s02"]);
        assert_eq!(names("s02"), ["s02"]);
        assert_eq!(names("all").len(), 5);
        let identity = Some("~/.ssh/id".to_owned());
        let first = Machine {
            host: "10.1.0.1".into(),
            address: Some("192.168.0.1".into()),
            user: Some("debian".into()),
            port: Some(2222),
            identity: identity.clone(),
        };
        assert_eq!(of("servers")[0].1, first, "the inner group goes before the outer");
        let second =
            Machine { host: "s02".into(), user: Some("other one".into()), identity, ..Machine::default() };
        assert_eq!(of("servers")[1].1, second, "the host goes before its groups");
        assert_eq!(of("lonely")[0].1.host, "10.0.0.9");
        assert!(inventory.machines("nobody").unwrap().is_none());
        assert!(inventory.names().contains(&"machines"));
    }

    #[test]
    fn what_the_tool_has_written_is_read() {
        says_the_same(&Inventory::parse(LIST.as_bytes()).unwrap());
    }

    #[test]
    fn all_forms_say_the_same_through_the_tool() {
        if let Err(error) = Command::new(TOOL).arg("--version").output() {
            let hint = "Debian's package is ansible-core";
            let _ = writeln!(io::stderr(), "skipped: {TOOL} cannot be run here ({error}); {hint}");
            return;
        }
        let path = std::env::temp_dir().join(format!("krarup-inventory-{}", std::process::id()));
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            let read = Inventory::read(&path);
            fs::remove_file(&path).unwrap();
            read
        };
        for text in [INI, YAML, LIST] {
            says_the_same(&read(text).unwrap());
        }
        let error = read("[servers:plan]\na\n").unwrap_err();
        assert!(matches!(&error, Unusable::Refused(_)), "{error:?}");
        assert!(error.to_string().contains("plan"), "{error}");
        assert!(matches!(read("{\"all\": 1").unwrap_err(), Unusable::Refused(_)));
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/ansible/hosts.ini");
        assert_eq!(Inventory::read(&example).unwrap().machines("servers").unwrap().unwrap().len(), 3);
    }

    #[test]
    fn what_is_no_inventory_is_refused() {
        let missing = Inventory::read(Path::new("no/such/file")).unwrap_err();
        assert!(matches!(missing, Unusable::File(_)), "{missing:?}");
        let one = |variables: &str| {
            let text = format!(
                "{{\"_meta\": {{\"hostvars\": {{\"a\": {variables}}}}}, \"s\": {{\"hosts\": [\"a\"]}}}}"
            );
            Inventory::parse(text.as_bytes()).unwrap().machines("s").unwrap_err()
        };
        assert!(one(r#"{"ansible_host": "-oProxyCommand=x"}"#).to_string().contains("cannot be told to ssh"));
        assert!(one(r#"{"ansible_port": "x"}"#).to_string().contains("`x` is no port"));
        assert!(one(r#"{"ansible_host": "{{ x }}"}"#).to_string().contains("template"));
        let hint = Unusable::NoTool(io::ErrorKind::NotFound.into()).to_string();
        assert!(hint.contains("ansible-core") && hint.contains("--list"), "{hint}");
    }

    #[test]
    fn groups_in_a_circle_end() {
        let text = r#"{"_meta": {}, "a": {"children": ["b"]}, "b": {"children": ["a"], "hosts": ["x"]}}"#;
        assert_eq!(Inventory::parse(text.as_bytes()).unwrap().machines("a").unwrap().unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_fail(text in "(\\{|\\}|\\[|\\]|,|:|\"[a-z_]{0,5}\"|_meta|[0-9 \n]){0,60}") {
            if let Ok(inventory) = Inventory::parse(text.as_bytes()) {
                let _ = inventory.machines("all");
            }
        }
    }
}
