//! What a spec says of machines: which, as whom, and where their programs go.

use serde::{Deserialize, Deserializer};

/// How machines are reached; what an inventory or a machine itself says goes before this.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssh {
    /// An Ansible inventory in any form, read by `ansible-inventory`; a relative path is relative
    /// to the spec.
    pub inventory: Option<String>,
    /// As whom.
    pub user: Option<String>,
    /// At which port.
    pub port: Option<u16>,
    /// With which private key.
    pub identity: Option<String>,
    /// A configuration file for ssh in place of the user's own; relative to the spec.
    pub config: Option<String>,
    /// Where programs and records go on each machine; `~/` is the user's home there.
    pub cache: Option<String>,
    /// A krarup that is installed there, in place of ours, which would be copied.
    pub krarup: Option<String>,
}

/// A machine, or a group of them in the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its name in the inventory, or what ssh is told: a name or an address.
    pub host: String,
    /// Where the other machines reach it; none: where ssh did, as the machine itself sees it.
    pub address: Option<String>,
    /// As whom.
    pub user: Option<String>,
    /// At which port.
    pub port: Option<u16>,
    /// With which private key.
    pub identity: Option<String>,
}

impl Machine {
    /// `host`, `user@host`, `host:port`, `user@[::1]:port`.
    fn read(text: &str) -> Result<Self, String> {
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, text),
        };
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => match rest.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (rest, None),
            },
        };
        let port = port
            .map(|port| port.parse().map_err(|_| format!("`{text}`: `{port}` is no port")))
            .transpose()?;
        Self { host: host.to_owned(), user, port, ..Self::default() }.checked()
    }

    fn checked(self) -> Result<Self, String> {
        let words = [Some(&self.host), self.address.as_ref(), self.user.as_ref(), self.identity.as_ref()];
        // A word that begins like an option would be one.
        let wrong =
            |word: &&String| word.is_empty() || word.starts_with('-') || word.chars().any(char::is_control);
        if let Some(word) = words.into_iter().flatten().find(wrong) {
            return Err(format!(
                "`{}` is no host: `{}` cannot be told to ssh",
                self.host.escape_debug(),
                word.escape_debug()
            ));
        }
        Ok(self)
    }
}

impl<'de> Deserialize<'de> for Machine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a host is a text as \"user@host:port\", a group of the inventory, or { host = \"…\", address = \"…\", user = \"…\", port = 22, identity = \"…\" }"
        )]
        enum Written {
            Text(String),
            Table(Table),
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            host: String,
            address: Option<String>,
            user: Option<String>,
            port: Option<u16>,
            identity: Option<String>,
        }
        let machine = match Written::deserialize(deserializer)? {
            Written::Text(text) => Self::read(&text),
            Written::Table(Table { host, address, user, port, identity }) => {
                Self { host, address, user, port, identity }.checked()
            }
        };
        machine.map_err(serde::de::Error::custom)
    }
}

impl Machine {
    /// What the inventory says of a host, as far as it concerns us.
    ///
    /// # Errors
    /// Where something stands there that cannot be told to ssh.
    pub fn of(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let of = |names: &[&str]| names.iter().find_map(|name| variable(name));
        let used = [
            "ansible_host",
            "ansible_user",
            "ansible_port",
            "ansible_ssh_private_key_file",
            "krarup_address",
        ];
        if let Some(template) =
            used.iter().find(|name| variable(name).is_some_and(|value| value.contains("{{")))
        {
            return Err(format!(
                "host `{name}`: `{template}` is a template, which only a playbook works out: write its value"
            ));
        }
        let port = of(&["ansible_port", "ansible_ssh_port"]);
        let machine = Self {
            host: of(&["ansible_host", "ansible_ssh_host"]).unwrap_or_else(|| name.to_owned()),
            address: variable("krarup_address"),
            user: of(&["ansible_user", "ansible_ssh_user"]),
            port: port
                .map(|port| port.parse().map_err(|_| format!("host `{name}`: `{port}` is no port")))
                .transpose()?,
            identity: of(&["ansible_ssh_private_key_file", "ansible_private_key_file"]),
        };
        machine.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_written_as_one_would_for_ssh() {
        let read = |text| {
            Machine::read(text)
                .map(|machine| (machine.user.unwrap_or_default(), machine.host, machine.port.unwrap_or(0)))
        };
        let is = |user: &str, host: &str, port| Ok((user.to_owned(), host.to_owned(), port));
        assert_eq!(read("a.example"), is("", "a.example", 0));
        assert_eq!(read("me@a:2222"), is("me", "a", 2222));
        assert_eq!(read("me@[fe80::1]:22"), is("me", "fe80::1", 22));
        assert_eq!(read("fe80::1"), is("", "fe80::1", 0));
        assert!(read("a:x").unwrap_err().contains("`x` is no port"));
        for wrong in ["-oProxyCommand=x", "me@-x", "", "a\nb"] {
            assert!(read(wrong).unwrap_err().contains("cannot be told to ssh"), "{wrong}");
        }
    }
}
