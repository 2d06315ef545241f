//! What was understood of another program's configuration, and how it is written as one of ours.

use std::fmt::Write;

use krarup_units::lines;

/// The settings that name another pool.
pub(super) const OTHER_POOLS: [&str; 3] = ["gutter", "warm_from", "shadow"];

/// What was understood of another program's configuration.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Whose configuration it was.
    pub program: &'static str,
    /// What was not translated, and why; what works otherwise than it did.
    pub notes: Vec<String>,
    /// The pool of clients that come by the address of the whole proxy.
    pub(super) first: String,
    pub(super) settings: ImportedSettings,
    /// The settings under `[edge]`.
    pub(super) edge: ImportedSettings,
    pub(super) pools: Vec<ImportedPool>,
    pub(super) routes: Vec<ImportedRoute>,
}

/// Keys with their values as they are written in TOML; only a value that names a pool is the bare
/// name.
pub(super) type ImportedSettings = Vec<(&'static str, String)>;

#[derive(Clone, Debug)]
pub(super) struct ImportedPool {
    pub(super) name: String,
    pub(super) settings: ImportedSettings,
    pub(super) servers: Vec<ImportedServer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedServer {
    pub(super) address: String,
    pub(super) weight: u32,
    pub(super) name: Option<String>,
}

/// Keys with a prefix that belong to another pool than the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedRoute {
    pub(super) prefix: String,
    pub(super) pool: String,
    pub(super) strip: bool,
    /// What servers see before the key.
    pub(super) add: String,
}

impl Imported {
    pub(super) fn of(program: &'static str) -> Self {
        Self {
            program,
            notes: Vec::new(),
            first: String::new(),
            settings: Vec::new(),
            edge: Vec::new(),
            pools: Vec::new(),
            routes: Vec::new(),
        }
    }

    /// The configuration as a file, notes first.
    pub fn toml(&self) -> String {
        let mut out = format!("# krarup proxy, translated from {}'s configuration.\n", self.program);
        if !self.notes.is_empty() {
            out.push_str("#\n# Not the same as before:\n");
        }
        for note in &self.notes {
            wrapped(&mut out, note);
        }
        out.push('\n');
        let mut line = |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("a text takes all");
        for (key, value) in &self.settings {
            line(format_args!("{key} = {value}\n"));
        }
        if self.pools.len() > 1 {
            line(format_args!("default_pool = {}\n", quoted(&self.first)));
        }
        if !self.edge.is_empty() {
            line(format_args!("\n[edge]\n"));
        }
        for (key, value) in &self.edge {
            line(format_args!("{key} = {value}\n"));
        }
        for pool in &self.pools {
            line(format_args!("\n[pools.{}]\n", quoted_key(&pool.name)));
            for (key, value) in &pool.settings {
                let value = if OTHER_POOLS.contains(key) { &quoted(value) } else { value };
                line(format_args!("{key} = {value}\n"));
            }
            line(format_args!("servers = [\n"));
            for server in &pool.servers {
                line(format_args!("  {},\n", server.toml()));
            }
            line(format_args!("]\n"));
        }
        for route in &self.routes {
            line(format_args!(
                "\n[[routes]]\nprefix = {}\npool = {}\n",
                quoted(&route.prefix),
                quoted(&route.pool)
            ));
            if route.strip {
                line(format_args!("strip = true\n"));
            }
            if !route.add.is_empty() {
                line(format_args!("add = {}\n", quoted(&route.add)));
            }
        }
        out
    }
}

impl ImportedServer {
    fn toml(&self) -> String {
        let address = quoted(&self.address);
        let weight = if self.weight == 1 { String::new() } else { format!(", weight = {}", self.weight) };
        let name = self.name.as_ref().map_or(String::new(), |name| format!(", name = {}", quoted(name)));
        if weight.is_empty() && name.is_empty() {
            address
        } else {
            format!("{{ address = {address}{weight}{name} }}")
        }
    }
}

/// A comment of several lines, none over 100 characters where words allow it.
pub(super) fn wrapped(out: &mut String, note: &str) {
    let words = note.split_whitespace().collect::<Vec<_>>().join(" ");
    out.push_str(&lines::wrapped(&words, ("# - ", "#   "), 100));
    out.push('\n');
}

pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

pub(super) fn quoted_key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quoted(name) }
}

pub(super) fn milliseconds(number: u64) -> String {
    quoted(&format!("{number}ms"))
}

/// Sets a key, or sets it anew.
pub(super) fn set(settings: &mut ImportedSettings, key: &'static str, value: impl Into<String>) {
    let value = value.into();
    match settings.iter_mut().find(|(there, _)| *there == key) {
        Some(there) => there.1 = value,
        None => settings.push((key, value)),
    }
}
