//! `nutcracker.yml`: a pool for each address that it listens on.

use crate::placement::KeyHash;

use super::imported::{Imported, ImportedPool, ImportedServer, ImportedSettings, milliseconds, quoted, set};
use super::yaml::{self, YamlEntry, YamlSection, YamlValue};

/// What twemproxy takes where the file says nothing.
const FAILURE_LIMIT: u64 = 2;
const RETRY_TIMEOUT: u64 = 30_000;

/// Translates the whole file.
pub(super) fn import(text: &str) -> Result<Imported, String> {
    let mut imported = Imported::of("twemproxy");
    let mut timeouts = Vec::new();
    let mut ejections = Vec::new();
    let mut connections = Vec::new();
    for section in yaml::sections(text)? {
        let Some(read) = Read::of(&section, &mut imported.notes)? else { continue };
        timeouts.push((section.name.clone(), read.timeout));
        ejections.push((section.name.clone(), read.ejection));
        connections.push(read.connections);
        for (key, value) in read.edge {
            if imported.edge.iter().any(|(other, there)| *other == key && *there != value) {
                imported
                    .notes
                    .push(format!("{key} holds for all pools here, and is that of {}", section.name));
            }
            set(&mut imported.edge, key, value);
        }
        let listen = ("listen", read.listen);
        if imported.pools.iter().any(|other| other.settings.contains(&listen)) {
            return Err(format!("line {}: two pools listen on {}", section.line, listen.1));
        }
        let mut pool = read.pool;
        pool.settings.insert(0, listen);
        imported.pools.push(pool);
    }
    let Some(first) = imported.pools.first_mut() else {
        return Err("there is no pool that speaks memcached's protocol".into());
    };
    // Clients of the first pool come by the address of the whole proxy.
    let (_, listen) = first.settings.remove(0);
    imported.first.clone_from(&first.name);
    set(&mut imported.settings, "listen", listen);
    one_timeout(&mut imported, &timeouts);
    one_ejection(&mut imported, &ejections);
    one_number_of_connections(&mut imported, &connections);
    Ok(imported)
}

/// As many connections to each server hold for all pools: the most, as far as there may be.
fn one_number_of_connections(imported: &mut Imported, connections: &[u64]) {
    const MOST: u64 = 64;
    let most = connections.iter().copied().max().unwrap_or(1);
    if connections.iter().any(|&number| number != most) {
        imported
            .notes
            .push("server_connections differs from pool to pool; one holds for all here, the largest".into());
    }
    if most > MOST {
        imported.notes.push(format!("server_connections is {most}, and {MOST} are the most here"));
    }
    if most > 1 {
        set(&mut imported.settings, "server_connections", most.min(MOST).to_string());
    }
}

/// One time limit holds for all pools: the longest.
fn one_timeout(imported: &mut Imported, timeouts: &[(String, Option<u64>)]) {
    if timeouts.iter().any(|(_, timeout)| *timeout != timeouts[0].1) {
        imported.notes.push(
            "timeout differs from pool to pool; one holds for all here, the longest that was given".into(),
        );
    }
    match timeouts.iter().filter_map(|(_, timeout)| *timeout).max() {
        Some(timeout) => {
            set(&mut imported.settings, "timeout", milliseconds(timeout));
            set(&mut imported.settings, "connect_timeout", milliseconds(timeout));
        }
        None => imported.notes.push(
            "no timeout was given, and twemproxy then waits for ever; here a server that has not answered after 5s counts as lost"
                .into(),
        ),
    }
}

/// One rule of ejection holds for all pools: that of the first which has one.
fn one_ejection(imported: &mut Imported, ejections: &[(String, Option<(u64, u64)>)]) {
    let Some((name, (after, for_milliseconds))) =
        ejections.iter().find_map(|(name, ejection)| Some((name, (*ejection)?)))
    else {
        return;
    };
    set(&mut imported.settings, "eject_after", after.to_string());
    set(&mut imported.settings, "eject_for", milliseconds(for_milliseconds));
    if ejections.iter().any(|(_, ejection)| *ejection != Some((after, for_milliseconds))) {
        imported.notes.push(format!(
            "auto_eject_hosts, server_failure_limit or server_retry_timeout differ from pool to pool; when a server is ejected and for \
             how long is one rule for all here, that of {name}; only pools that had auto_eject_hosts ask another server then"
        ));
    }
    imported.notes.push(
        "auto_eject_hosts: the next server on the ring stands in for one that is ejected, as before. With weights, and by modula, \
         twemproxy then moves keys of other servers too; here they stay"
            .into(),
    );
}

struct Read {
    pool: ImportedPool,
    /// In TOML.
    listen: String,
    /// Milliseconds.
    timeout: Option<u64>,
    /// Failures in a row, and milliseconds.
    ejection: Option<(u64, u64)>,
    /// To each server.
    connections: u64,
    /// What is said of all listening sockets and connections here.
    edge: ImportedSettings,
}

impl Read {
    /// One pool; none where it speaks Redis.
    #[expect(clippy::too_many_lines, reason = "a table: one arm for each key of twemproxy")]
    fn of(section: &YamlSection, notes: &mut Vec<String>) -> Result<Option<Self>, String> {
        let name = &section.name;
        let mut note = |entry: &YamlEntry, why: &str| {
            notes.push(format!("{name}, line {}: {} {why}", entry.line, entry.key));
        };
        if let Some(entry) = section.entries.iter().find(|entry| entry.key == "redis")
            && entry.truth()?
        {
            note(entry, "is true: the whole pool is left out, for krarup speaks memcached's protocol only");
            return Ok(None);
        }
        let mut listen = None;
        let (mut hash, mut distribution, mut tag) = ("fnv1a_64".to_owned(), "ketama", None);
        let (mut timeout, mut connections) = (None, 1);
        let (mut eject, mut failures, mut retry) = (false, FAILURE_LIMIT, RETRY_TIMEOUT);
        let mut servers = Vec::new();
        let mut edge = ImportedSettings::new();
        for (place, entry) in section.entries.iter().enumerate() {
            if section.entries[..place].iter().any(|other| other.key == entry.key) {
                return Err(format!("line {}: {name} has two of `{}`", entry.line, entry.key));
            }
            match entry.key.as_str() {
                "listen" => {
                    let text = entry.text()?;
                    if let Some((path, mode)) = text.split_once(' ').filter(|_| text.starts_with('/')) {
                        edge.push(("socket_mode", quoted(mode)));
                        listen = Some(quoted(&format!("unix:{path}")));
                    } else {
                        let scheme = if text.starts_with('/') { "unix:" } else { "" };
                        listen = Some(quoted(&format!("{scheme}{text}")));
                    }
                }
                "hash" => {
                    let known =
                        KeyHash::ALL.iter().any(|(_, name)| *name == entry.text().unwrap_or_default());
                    if !known {
                        return Err(entry.error("is none of twemproxy's hash functions"));
                    }
                    entry.text()?.clone_into(&mut hash);
                }
                "distribution" => match entry.text()? {
                    "ketama" => distribution = "ketama",
                    "modula" => distribution = "modulo",
                    "random" => {
                        distribution = "rendezvous";
                        note(
                            entry,
                            "is random, which only makes sense where every server answers alike, as proxies do; here each key has \
                             one of them by rendezvous, so the load is spread as evenly",
                        );
                    }
                    _ => return Err(entry.error("is none of ketama, modula and random")),
                },
                "hash_tag" => {
                    let text = entry.text()?;
                    if text.len() != 2 {
                        return Err(entry.error("must be two characters, such as \"{}\""));
                    }
                    tag = Some(quoted(text));
                }
                "timeout" => timeout = Some(entry.number()?),
                "auto_eject_hosts" => eject = entry.truth()?,
                "server_failure_limit" => failures = entry.number()?.max(1),
                "server_retry_timeout" => retry = entry.number()?.max(1),
                "servers" => servers = entry.servers()?,
                "redis" => {}
                // Connections are made at the start and kept: that is always so here.
                "preconnect" => _ = entry.truth()?,
                "backlog" => edge.push(("backlog", entry.number()?.clamp(1, 65_535).to_string())),
                "client_connections" => {
                    note(
                        entry,
                        "is not translated, as twemproxy itself takes no notice of it; max_connections bounds all clients",
                    );
                }
                // It is on here unless it is turned off.
                "tcpkeepalive" if entry.truth()? => {}
                "tcpkeepalive" => edge.push(("keep_alive", quoted("0s"))),
                "reuseport" => edge.push(("reuse_port", entry.truth()?.to_string())),
                "server_connections" => connections = entry.number()?.max(1),
                "redis_auth" | "redis_db" => note(entry, "is not translated: it is for Redis"),
                _ => return Err(entry.error("is no key of twemproxy's")),
            }
        }
        let Some(listen) = listen else {
            return Err(format!("line {}: {name} does not say where it listens", section.line));
        };
        if servers.is_empty() {
            return Err(format!("line {}: {name} has no servers", section.line));
        }
        let mut settings = vec![("distribution", quoted(distribution)), ("hash", quoted(&hash))];
        if let Some(tag) = tag {
            settings.push(("hash_tag", tag));
        }
        if eject {
            settings.push(("when_down", quoted("next")));
        }
        servers.sort_by_key(twemproxys_order);
        let pool = ImportedPool { name: name.clone(), settings, servers };
        Ok(Some(Self {
            pool,
            listen,
            timeout,
            ejection: eject.then_some((failures, retry)),
            connections,
            edge,
        }))
    }
}

impl YamlEntry {
    fn error(&self, why: &str) -> String {
        let said = match &self.value {
            YamlValue::Text(text) => format!(" = {text}"),
            YamlValue::List(_) => String::new(),
        };
        format!("line {}: {}{said} {why}", self.line, self.key)
    }

    fn text(&self) -> Result<&str, String> {
        match &self.value {
            YamlValue::Text(text) => Ok(text),
            YamlValue::List(_) => Err(self.error("must be one text, and is a list")),
        }
    }

    fn number(&self) -> Result<u64, String> {
        self.text()?.parse().map_err(|_| self.error("is no number"))
    }

    fn truth(&self) -> Result<bool, String> {
        match self.text()? {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.error("is neither true nor false")),
        }
    }

    fn servers(&self) -> Result<Vec<ImportedServer>, String> {
        let YamlValue::List(texts) = &self.value else {
            return Err(self.error("must be a list"));
        };
        texts
            .iter()
            .map(|(line, text)| server(text).map_err(|why| format!("line {line}: `{text}` {why}")))
            .collect()
    }
}

/// twemproxy sorts a pool's servers by name, the shorter first: by modula that decides where keys
/// lie.
fn twemproxys_order(server: &ImportedServer) -> (usize, String) {
    let own = || server.address.strip_suffix(":11211").unwrap_or(&server.address).replace(['[', ']'], "");
    let name = server.name.clone().unwrap_or_else(own);
    (name.len(), name)
}

/// `host:port:weight` or `/path:weight`, and perhaps a name after a blank.
fn server(text: &str) -> Result<ImportedServer, String> {
    const FORM: &str =
        "is not of the form host:port:weight or /path:weight, with a name after a blank if there is one";
    let (address, name) = match text.rsplit_once(' ') {
        Some((address, name)) => (address, Some(name.to_owned())),
        None => (text, None),
    };
    let (address, weight) = address.rsplit_once(':').ok_or(FORM)?;
    let weight = weight.parse().ok().filter(|weight| *weight >= 1).ok_or("has no weight of 1 or more")?;
    if address.starts_with('/') {
        // twemproxy takes the name up to where a port would end, and so the colon too.
        let name = name.unwrap_or_else(|| format!("{address}:"));
        return Ok(ImportedServer { address: format!("unix:{address}"), weight, name: Some(name) });
    }
    let (host, port) = address.rsplit_once(':').ok_or(FORM)?;
    let port: u16 = port.parse().map_err(|_| FORM)?;
    let bare = host.contains(':') && !host.starts_with('[');
    let address = if bare { format!("[{host}]:{port}") } else { address.to_owned() };
    Ok(ImportedServer { address, weight, name })
}
