//! An Ansible inventory as a list of machines: INI, YAML, or what `ansible-inventory --list` says.
//!
//! Groups, their children, variables of hosts and groups, and ranges (`node[01:20]`) are understood; templates (`{{ … }}`) and files beside the
//! inventory (`group_vars/`) are not: `ansible-inventory --list` works both out, and what it writes can be given in the inventory's place.

use std::collections::{BTreeMap, BTreeSet};

use saphyr_parser::{Event, Parser};

use crate::spec::Machine;

type Variables = BTreeMap<String, String>;

#[derive(Debug, Default)]
struct Group {
    hosts: Vec<String>,
    children: Vec<String>,
    variables: Variables,
}

/// Machines by groups.
#[derive(Debug, Default)]
pub struct Inventory {
    groups: BTreeMap<String, Group>,
    hosts: BTreeMap<String, Variables>,
}

/// The group of all hosts.
const ALL: &str = "all";

impl Inventory {
    /// Reads one.
    ///
    /// # Errors
    /// What cannot be understood, with its line where there is one.
    pub fn read(text: &str) -> Result<Self, String> {
        let first =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', ';']));
        // A section, or a host with its variables: what YAML has in its first line is a key, a `---` or a `{`.
        let ini = first.is_none_or(|line| {
            line.starts_with('[') || !(line.ends_with(':') || line.starts_with(['-', '{', '%']))
        });
        if ini { Self::of_ini(text) } else { Self::of_yaml(text) }
    }

    /// The machines of a group, or the host of this name; none where there is neither.
    ///
    /// # Errors
    /// Where what it says of one cannot be told to ssh.
    pub fn machines(&self, name: &str) -> Result<Option<Vec<(String, Machine)>>, String> {
        let names = match self.groups.get(name) {
            Some(_) => self.members(name),
            None if name == ALL => self.hosts.keys().cloned().collect(),
            None if self.hosts.contains_key(name) => vec![name.to_owned()],
            None => return Ok(None),
        };
        let machine = |name: String| {
            let variables = self.variables(&name)?;
            let machine = Machine::of(&name, |variable| variables.get(variable).cloned())?;
            Ok((name, machine))
        };
        names.into_iter().map(machine).collect::<Result<_, String>>().map(Some)
    }

    /// The names of its groups and hosts, for hints.
    pub fn names(&self) -> Vec<&str> {
        let groups = self.groups.keys().filter(|name| *name != ALL && *name != "ungrouped");
        groups.chain(self.hosts.keys()).map(String::as_str).collect()
    }

    /// The hosts of a group and of all below it, each once, in the order in which they stand there.
    fn members(&self, group: &str) -> Vec<String> {
        let (mut members, mut seen, mut open) = (Vec::new(), BTreeSet::new(), vec![group]);
        while let Some(name) = open.pop() {
            let Some(group) = self.groups.get(name).filter(|_| seen.insert(name)) else { continue };
            for host in &group.hosts {
                if !members.contains(host) {
                    members.push(host.clone());
                }
            }
            open.extend(group.children.iter().rev().map(String::as_str));
        }
        if group == ALL {
            members.extend(
                self.hosts.keys().filter(|host| !members.contains(host)).cloned().collect::<Vec<_>>(),
            );
        }
        members
    }

    /// What holds for a host: of all, then of its groups from the outermost to the innermost, then its own.
    fn variables(&self, host: &str) -> Result<Variables, String> {
        let mut groups: Vec<&String> = self
            .groups
            .keys()
            .filter(|group| self.members(group).iter().any(|member| member == host))
            .collect();
        groups.sort_by_key(|group| (*group != ALL, self.depth(group), *group));
        let mut variables = Variables::new();
        for group in groups {
            variables.extend(self.groups[group].variables.clone());
        }
        variables.extend(self.hosts.get(host).cloned().unwrap_or_default());
        let template =
            variables.iter().find(|(name, value)| name.starts_with("ansible_") && value.contains("{{"));
        match template {
            None => Ok(variables),
            Some((name, _)) => Err(format!(
                "host `{host}`: `{name}` is a template; let Ansible work it out: `ansible-inventory -i INVENTORY --list > hosts.json`, and give hosts.json"
            )),
        }
    }

    /// How many groups are around a group.
    fn depth(&self, group: &str) -> usize {
        let mut around = BTreeSet::from([group.to_owned()]);
        loop {
            let more: Vec<String> = self
                .groups
                .iter()
                .filter(|(name, other)| {
                    !around.contains(*name) && other.children.iter().any(|child| around.contains(child))
                })
                .map(|(name, _)| name.clone())
                .collect();
            if more.is_empty() {
                return around.len();
            }
            around.extend(more);
        }
    }

    fn of_ini(text: &str) -> Result<Self, String> {
        let mut inventory = Self::default();
        let (mut group, mut kind) = ("ungrouped".to_owned(), "hosts".to_owned());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let wrong = |what: &str| format!("line {number}: {what}");
            if let Some(section) = line.strip_prefix('[') {
                let Some(section) = section.split(']').next().filter(|_| line.contains(']')) else {
                    return Err(wrong("a section without its `]`"));
                };
                let (name, what) = section.split_once(':').unwrap_or((section, "hosts"));
                (group, kind) = (name.to_owned(), what.to_owned());
                inventory.groups.entry(group.clone()).or_default();
                continue;
            }
            let into = inventory.groups.entry(group.clone()).or_default();
            match kind.as_str() {
                "vars" => {
                    let Some((name, value)) = line.split_once('=') else {
                        return Err(wrong("a variable without `=`"));
                    };
                    let value = value.trim().trim_matches(['"', '\'']);
                    into.variables.insert(name.trim().to_owned(), value.to_owned());
                }
                "children" => into.children.push(line.to_owned()),
                "hosts" => {
                    let words = words(line);
                    let Some((pattern, variables)) = words.split_first() else { continue };
                    for host in range(pattern).map_err(|what| wrong(&what))? {
                        let of = inventory.hosts.entry(host.clone()).or_default();
                        for word in variables {
                            let Some((name, value)) = word.split_once('=') else {
                                return Err(wrong(&format!("`{word}` is no variable: write name=value")));
                            };
                            of.insert(name.to_owned(), value.to_owned());
                        }
                        into.hosts.push(host);
                    }
                }
                other => return Err(wrong(&format!("`:{other}` is none of :children and :vars"))),
            }
        }
        Ok(inventory)
    }

    fn of_yaml(text: &str) -> Result<Self, String> {
        let mut inventory = Self::default();
        let Tree::Map(groups) = Tree::read(text)? else { return Err("the file has no groups".into()) };
        for (name, body) in &groups {
            if name == "_meta" {
                for (host, variables) in body.get("hostvars").map(Tree::entries).unwrap_or_default() {
                    inventory.hosts.entry(host.clone()).or_default().extend(variables.texts());
                }
            } else {
                inventory.group(name, body)?;
            }
        }
        Ok(inventory)
    }

    /// A group and those below it, as YAML has them.
    fn group(&mut self, name: &str, body: &Tree) -> Result<(), String> {
        self.groups.entry(name.to_owned()).or_default();
        for (key, value) in body.entries() {
            match key.as_str() {
                "hosts" => {
                    for (pattern, variables) in value.entries() {
                        for host in range(pattern)? {
                            self.hosts.entry(host.clone()).or_default().extend(variables.texts());
                            self.in_group(name).hosts.push(host);
                        }
                    }
                }
                "children" => {
                    for (child, below) in value.entries() {
                        self.in_group(name).children.push(child.clone());
                        self.group(child, below)?;
                    }
                }
                "vars" => self.in_group(name).variables.extend(value.texts()),
                other => {
                    return Err(format!("group `{name}`: `{other}` is none of hosts, children and vars"));
                }
            }
        }
        Ok(())
    }

    fn in_group(&mut self, name: &str) -> &mut Group {
        self.groups.entry(name.to_owned()).or_default()
    }
}

/// The words of a line, as a shell has them: quotes keep blanks together, `#` after a blank begins a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// More hosts than this by one line are a slip.
const MOST: u32 = 10_000;

/// `node[01:03]x` is node01x, node02x and node03x; `node[a:c]` is nodea, nodeb and nodec.
fn range(pattern: &str) -> Result<Vec<String>, String> {
    let parts = pattern.split_once('[').and_then(|(before, rest)| {
        let (range, after) = rest.split_once(']')?;
        let mut ends = range.split(':');
        Some((before, ends.next()?, ends.next()?, ends.next(), after))
    });
    let Some((before, first, last, step, after)) = parts else { return Ok(vec![pattern.to_owned()]) };
    let wrong = || format!("`{pattern}` is no range of hosts: write node[01:20], or node[a:f]");
    let step: u32 =
        step.map_or(Ok(1), |step| step.parse().ok().filter(|step| *step > 0).ok_or_else(wrong))?;
    let letter =
        |text: &str| Some(text.chars().next().filter(|c| text.len() == 1 && c.is_ascii_alphabetic())? as u32);
    let values: Vec<String> = match (first.parse::<u32>(), last.parse::<u32>(), letter(first), letter(last)) {
        (Ok(from), Ok(to), ..) if from <= to && to - from < MOST => (from..=to)
            .step_by(step as usize)
            .map(|number| format!("{number:0width$}", width = first.len()))
            .collect(),
        (_, _, Some(from), Some(to)) if from <= to => {
            (from..=to).step_by(step as usize).filter_map(char::from_u32).map(String::from).collect()
        }
        _ => return Err(wrong()),
    };
    let mut all = Vec::new();
    for value in values {
        // There may be another range behind it.
        all.extend(range(&format!("{before}{value}{after}"))?);
        if all.len() > MOST as usize {
            return Err(wrong());
        }
    }
    Ok(all)
}

/// A YAML text as far as inventories have it.
#[derive(Debug)]
enum Tree {
    Text(String),
    Map(Vec<(String, Tree)>),
    List(Vec<Tree>),
}

impl Tree {
    fn read(text: &str) -> Result<Self, String> {
        let mut open: Vec<(Self, Option<String>)> = Vec::new();
        for event in Parser::new_from_str(text) {
            let (event, span) =
                event.map_err(|error| format!("line {}: {}", error.marker().line(), error.info()))?;
            let line = span.start.line();
            let done = match event {
                Event::MappingStart(..) => {
                    open.push((Self::Map(Vec::new()), None));
                    continue;
                }
                Event::SequenceStart(..) => {
                    open.push((Self::List(Vec::new()), None));
                    continue;
                }
                Event::Scalar(text, ..) => match open.last_mut() {
                    Some((Self::Map(_), key @ None)) => {
                        *key = Some(text.into_owned());
                        continue;
                    }
                    _ => Self::Text(text.into_owned()),
                },
                Event::MappingEnd | Event::SequenceEnd => match open.pop() {
                    Some((tree, _)) => tree,
                    None => continue,
                },
                Event::Alias(_) => {
                    return Err(format!(
                        "line {line}: aliases are not understood; `ansible-inventory --list` works them out"
                    ));
                }
                _ => continue,
            };
            match open.last_mut() {
                None => return Ok(done),
                Some((Self::List(list), _)) => list.push(done),
                Some((Self::Map(map), key)) => match key.take() {
                    Some(key) => map.push((key, done)),
                    None => return Err(format!("line {line}: a key must be a text")),
                },
                Some((Self::Text(_), _)) => {}
            }
        }
        Ok(Self::Map(Vec::new()))
    }

    /// Names and what they stand for; a list of texts is one of names that stand for nothing.
    fn entries(&self) -> Vec<(&String, &Self)> {
        const NOTHING: &Tree = &Tree::Map(Vec::new());
        match self {
            Self::Text(_) => Vec::new(),
            Self::Map(map) => map.iter().map(|(name, tree)| (name, tree)).collect(),
            Self::List(list) => list
                .iter()
                .filter_map(|one| match one {
                    Self::Text(name) => Some((name, NOTHING)),
                    Self::Map(_) | Self::List(_) => None,
                })
                .collect(),
        }
    }

    fn get(&self, name: &str) -> Option<&Self> {
        self.entries().into_iter().find(|(key, _)| *key == name).map(|(_, tree)| tree)
    }

    /// Variables that are plain values.
    fn texts(&self) -> Variables {
        let text = |(name, tree): (&String, &Self)| match tree {
            Self::Text(text) => Some((name.clone(), text.clone())),
            Self::Map(_) | Self::List(_) => None,
        };
        self.entries().into_iter().filter_map(text).collect()
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn all_forms_say_the_same() {
        for text in [INI, YAML, LIST] {
            let inventory = Inventory::read(text).unwrap();
            let of = |name: &str| inventory.machines(name).unwrap().unwrap();
            let names = |name: &str| of(name).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
            assert_eq!(names("machines"), ["c1", "c2", "s01", "s02"], "{text}");
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
            let second = Machine {
                host: "s02".into(),
                user: Some("other one".into()),
                identity,
                ..Machine::default()
            };
            assert_eq!(of("servers")[1].1, second, "the host goes before its groups");
            assert_eq!(of("lonely")[0].1.host, "10.0.0.9");
            assert!(inventory.machines("nobody").unwrap().is_none());
            assert!(inventory.names().contains(&"machines"));
        }
    }

    #[test]
    fn what_cannot_be_understood_is_said_with_its_line() {
        let wrong = |text: &str| Inventory::read(text).map(|_| ()).unwrap_err();
        assert!(wrong("[servers\n").contains("line 1"));
        assert!(wrong("[servers]\na\nb no\n").contains("line 3: `no` is no variable"));
        assert!(wrong("[servers:plan]\na\n").contains("none of :children and :vars"));
        assert!(wrong("[s]\nn[5:1]\n").contains("line 2: `n[5:1]` is no range"));
        assert!(wrong("all:\n  host:\n    a:\n").contains("`host` is none of hosts"));
        assert!(wrong("all:\n\t- x\n").contains("line "));
        let of = |text: &str, name: &str| Inventory::read(text).unwrap().machines(name).unwrap_err();
        assert!(of("[s]\na ansible_host={{x}}\n", "s").contains("is a template; let Ansible"));
        assert!(of("[s]\na ansible_host=-oProxyCommand=x\n", "s").contains("cannot be told to ssh"));
        assert!(of("[s]\na ansible_port=x\n", "a").contains("`x` is no port"));
    }

    #[test]
    fn ranges_are_counted_as_they_are_written() {
        assert_eq!(range("n[08:10]x").unwrap(), ["n08x", "n09x", "n10x"]);
        assert_eq!(range("[a:c][1:2]").unwrap(), ["a1", "a2", "b1", "b2", "c1", "c2"]);
        assert_eq!(range("n[1:9:4]").unwrap(), ["n1", "n5", "n9"]);
        assert_eq!(range("plain").unwrap(), ["plain"]);
    }

    #[test]
    fn groups_in_a_circle_end() {
        let inventory = Inventory::read("[a:children]\nb\n[b:children]\na\n[b]\nx\n").unwrap();
        assert_eq!(inventory.machines("a").unwrap().unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_fail(text in "([a-z\\[\\]:=#'\" \n0-9{}-]|all:|hosts:|\\[x\\]){0,60}") {
            if let Ok(inventory) = Inventory::read(&text) {
                let _ = inventory.machines("all");
            }
        }
    }
}
