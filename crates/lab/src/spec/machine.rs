//! What a spec says of machines: which, as which user, and where their programs go.

use krarup_settings::kind::{Count, CustomText, Optional, TEXT, TableOr, Whole};
use krarup_settings::{Mistake, settings};

const PORT: Optional<Whole> = Optional(Count::between(1, 65_535));

settings! {
    /// How machines are reached; what an inventory or a machine itself says goes before this.
    #[derive(Clone, Debug)]
    pub struct Ssh {
        /// An Ansible inventory in any form, which `ansible-inventory` reads, or what its `--list`
        /// has written; a relative path is relative to the spec.
        inventory: Option<String> = None, Optional(TEXT), example = "\"hosts.ini\"";
        /// The user to log in as; without, the user that ssh is configured for.
        user: Option<String> = None, Optional(TEXT), example = "\"user\"";
        /// At which port; without, as ssh has it.
        port: Option<u16> = None, PORT, example = "22";
        /// With which private key; without, as ssh has it.
        identity: Option<String> = None, Optional(TEXT), example = "\"~/.ssh/id_ed25519\"";
        /// A configuration file for ssh in place of the user's own; relative to the spec.
        config: Option<String> = None, Optional(TEXT), example = "\"ssh_config\"";
        /// Where programs and records go on each machine; `~/` is the user's home there. Without,
        /// it is `~/.cache/krarup`.
        cache: Option<String> = None, Optional(TEXT), example = "\"/scratch/me/krarup\"";
        /// A krarup of the same version that is installed on each machine, in place of ours, which
        /// would be copied.
        krarup: Option<String> = None, Optional(TEXT), example = "\"/usr/bin/krarup\"";
    }
}

settings! {
    /// A machine, or a group of them in the inventory.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Machine {
        /// Its name in the inventory, or what ssh is told: a name or an address.
        host: String = String::new(), SSH_WORD, required = true, example = "\"a.example\"";
        /// Where the other machines reach it; none: where ssh did, as the machine itself sees it.
        address: Option<String> = None, Optional(SSH_WORD), example = "\"10.0.0.4\"";
        /// The user to log in as.
        user: Option<String> = None, Optional(SSH_WORD), example = "\"user\"";
        /// At which port.
        port: Option<u16> = None, PORT, example = "22";
        /// With which private key.
        identity: Option<String> = None, Optional(SSH_WORD), example = "\"~/.ssh/id_ed25519\"";
    }
}

/// A machine as one would write it for ssh, or a table.
pub(super) const MACHINE: TableOr<CustomText<String>, String, Machine> =
    TableOr { short: TEXT, read: |text| Machine::read(&text), write: |_| None };

/// What is told to ssh as one word. One that begins like an option would be one.
const SSH_WORD: CustomText<String> = CustomText {
    read: |word| {
        if word.is_empty() || word.starts_with('-') || word.chars().any(char::is_control) {
            let what = format!("`{}` cannot be told to ssh", word.escape_debug());
            return Err(Mistake::new(what, "a word of it is not empty, and begins with no hyphen"));
        }
        Ok(word.to_owned())
    },
    write: Clone::clone,
};

impl Machine {
    /// `host`, `user@host`, `host:port`, `user@[::1]:port`.
    fn read(text: &str) -> Result<Self, Mistake> {
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

    fn checked(self) -> Result<Self, Mistake> {
        let words = [Some(&self.host), self.address.as_ref(), self.user.as_ref(), self.identity.as_ref()];
        for word in words.into_iter().flatten() {
            (SSH_WORD.read)(word).map_err(|Mistake { what, .. }| {
                format!("`{}` is no host: {what}", self.host.escape_debug())
            })?;
        }
        Ok(self)
    }
}

impl Machine {
    /// What the inventory says of a host, as far as it concerns us.
    ///
    /// # Errors
    /// Where something stands there that cannot be told to ssh.
    pub fn of(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Mistake> {
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
            return Err(Mistake::plain(format!(
                "host `{name}`: `{template}` is a template, which only a playbook works out: write its value"
            )));
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
        assert!(read("a:x").unwrap_err().to_string().contains("`x` is no port"));
        for wrong in ["-oProxyCommand=x", "me@-x", "", "a\nb"] {
            assert!(read(wrong).unwrap_err().to_string().contains("cannot be told to ssh"), "{wrong}");
        }
    }
}
