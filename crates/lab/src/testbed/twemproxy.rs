//! twemproxy between clients and servers: what it can be told, its configuration as a trial writes
//! it, and what it counts of its servers.

use std::path::{Path, PathBuf};

use krarup_units::{Address, Mistake};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The program.
pub const PROGRAM: &str = "nutcracker";
/// Its one pool.
const POOL: &str = "pool";
/// How much its log says, as where `bench/proxies.py` measures it: nothing of requests.
pub(super) const LEVEL: &str = "4";

/// What may stand behind a key of the pool.
#[derive(Clone, Copy)]
enum PoolValue {
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Truth,
    /// A whole number, this or more.
    Number(u64),
    /// Two letters.
    Tag,
}

const HASHES: &[&str] = &[
    "one_at_a_time",
    "md5",
    "crc16",
    "crc32",
    "crc32a",
    "fnv1_64",
    "fnv1a_64",
    "fnv1_32",
    "fnv1a_32",
    "hsieh",
    "murmur",
    "jenkins",
];

/// The keys of a pool, and what we write where nothing is said; all but the first five have no
/// usual value, and are left out then.
const KEYS: [(&str, PoolValue, &str); 11] = [
    ("hash", PoolValue::Word(HASHES), "fnv1a_64"),
    ("distribution", PoolValue::Word(&["ketama", "modula", "random"]), "ketama"),
    ("auto_eject_hosts", PoolValue::Truth, "false"),
    ("preconnect", PoolValue::Truth, "true"),
    ("server_connections", PoolValue::Number(1), "1"),
    ("hash_tag", PoolValue::Tag, ""),
    ("timeout", PoolValue::Number(1), ""),
    ("backlog", PoolValue::Number(1), ""),
    ("tcpkeepalive", PoolValue::Truth, ""),
    ("server_retry_timeout", PoolValue::Number(1), ""),
    ("server_failure_limit", PoolValue::Number(1), ""),
];

/// What is said where something else is asked for that other middlewares can do.
const LACKS: &str = "it has one thread, takes each request as it comes, and keeps each key on one server: ";

/// The configuration of a pool that listens there before these servers, with the keys that a spec
/// gives, as they stand. Servers have names by their places, so that keys stay where they are
/// whatever the ports.
///
/// # Errors
/// A key that is none, or that a trial writes itself; a value that is none.
pub fn configuration(keys: &str, listen: &Address, servers: &[Address]) -> Result<String, Mistake> {
    let mut given: Vec<(&str, &str)> = Vec::new();
    let lines = keys.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (key, value) = key_and_value(line)?;
        if given.iter().any(|(known, _)| *known == key) {
            return Err(Mistake::new(format!("twemproxy: `{key}` stands there twice"), "write it once"));
        }
        given.push((key, value));
    }
    let missing = KEYS
        .iter()
        .filter(|(key, _, usual)| !usual.is_empty() && !given.iter().any(|(known, _)| known == key));
    let all: Vec<(&str, &str)> =
        missing.map(|(key, _, usual)| (*key, *usual)).chain(given.iter().copied()).collect();
    let mut text = format!("{POOL}:\n  listen: {listen}\n");
    all.iter().for_each(|(key, value)| text += &format!("  {key}: {value}\n"));
    text += "  servers:\n";
    (1..).zip(servers).for_each(|(number, server)| text += &format!("   - {server}:1 {}\n", name(number)));
    Ok(text)
}

/// What a server is called by twemproxy, by its place from 1.
fn name(number: usize) -> String {
    format!("server{number}")
}

fn key_and_value(line: &str) -> Result<(&str, &str), Mistake> {
    let Some((key, value)) = line.split_once(':').map(|(key, value)| (key.trim(), value.trim())) else {
        let what = format!("twemproxy: `{line}` is no key of a pool with its value");
        return Err(Mistake::new(what, "write it as server_connections: 2"));
    };
    if ["listen", "servers"].contains(&key) {
        let what = format!("twemproxy: `{key}` is written by each trial");
        return Err(Mistake::new(what, "leave it out; `count` of the servers says how many there are"));
    }
    if key.starts_with("redis") || key == "client_connections" {
        let what = format!("twemproxy: `{key}` is for Redis, and here is memcached");
        return Err(Mistake::new(what, "leave it out"));
    }
    let Some((_, kind, _)) = KEYS.iter().find(|(known, ..)| *known == key) else {
        let keys: Vec<&str> = KEYS.iter().map(|(key, ..)| *key).collect();
        let hint = format!("{LACKS}keys of its pool are {}", keys.join(", "));
        return Err(Mistake::new(format!("twemproxy has no `{key}`"), hint));
    };
    let wrong = |hint: String| Err(Mistake::new(format!("twemproxy: `{value}` is no {key}"), hint));
    match kind {
        PoolValue::Word(words) if !words.contains(&value) => wrong(format!("write {}", words.join(", "))),
        PoolValue::Truth if !["true", "false"].contains(&value) => wrong("write true or false".into()),
        PoolValue::Number(least) if !value.parse().is_ok_and(|number: u64| number >= *least) => {
            wrong(format!("write a whole number, {least} or more"))
        }
        PoolValue::Tag if value.trim_matches(['"', '\'']).chars().count() != 2 => {
            wrong("write two letters, as \"{}\"".into())
        }
        _ => Ok((key, value)),
    }
}

/// Whether these are words that it can be started with besides those that a trial gives it.
///
/// # Errors
/// The first that is none, or that a trial gives itself.
pub fn check_flags(words: &[String]) -> Result<(), Mistake> {
    const TAKEN: [&str; 6] = ["-v", "--verbose", "-m", "--mbuf-size", "-i", "--stats-interval"];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (flag, value) = word.split_once('=').map_or((&**word, None), |(flag, value)| (flag, Some(value)));
        if !TAKEN.contains(&flag) {
            let hint =
                format!("{LACKS}its flags here are {}; keys of its pool stand in config", TAKEN.join(", "));
            return Err(Mistake::new(format!("twemproxy takes no `{word}` here"), hint));
        }
        let value = value.or_else(|| words.next().map(String::as_str)).unwrap_or_default();
        if value.parse::<u64>().is_err() {
            let what = format!("twemproxy: `{value}` is no number for {flag}");
            return Err(Mistake::new(what, format!("write {flag} and a whole number")));
        }
    }
    Ok(())
}

/// What it counted, as its statistics tell; they are those of the measured time alone in a trial's
/// folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwemproxyCounts {
    /// Its version.
    pub version: String,
    /// Connections of clients that ended in an error.
    pub client_errors: u64,
    /// Requests that could not be passed on.
    pub forward_errors: u64,
    /// Parts that requests of several keys were cut into.
    pub fragments: u64,
    /// Of each server, in their order.
    pub servers: Vec<TwemproxyServer>,
}

/// What it counted of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwemproxyServer {
    /// Its address.
    pub name: String,
    /// Requests, or parts of them, that it was asked.
    pub requests: u64,
    /// Those that it answered.
    pub responses: u64,
    /// Bytes of the requests.
    pub request_bytes: u64,
    /// Bytes of the answers.
    pub response_bytes: u64,
    /// Connections to it that broke, could not be made or timed out.
    pub errors: u64,
}

impl TwemproxyCounts {
    /// From what the statistics port says.
    ///
    /// # Errors
    /// Where that is no such statistics.
    pub(super) fn of(said: &str, servers: &[Address]) -> Result<Self, Mistake> {
        let told = |why: &str| Mistake::plain(format!("its statistics are not as twemproxy's: {why}"));
        let all: Value = serde_json::from_str(said).map_err(|error| told(&error.to_string()))?;
        let pool = &all[POOL];
        let number = |of: &Value, key: &str| {
            of[key].as_u64().ok_or_else(|| told(&format!("there is no number `{key}`")))
        };
        let server = |(place, address): (usize, &Address)| {
            let of = &pool[name(place)];
            Ok(TwemproxyServer {
                name: address.to_string(),
                requests: number(of, "requests")?,
                responses: number(of, "responses")?,
                request_bytes: number(of, "request_bytes")?,
                response_bytes: number(of, "response_bytes")?,
                errors: number(of, "server_eof")?
                    + number(of, "server_err")?
                    + number(of, "server_timedout")?,
            })
        };
        Ok(Self {
            version: all["version"].as_str().unwrap_or_default().to_owned(),
            client_errors: number(pool, "client_err")?,
            forward_errors: number(pool, "forward_error")?,
            fragments: number(pool, "fragments")?,
            servers: (1..).zip(servers).map(server).collect::<Result<_, Mistake>>()?,
        })
    }

    /// What came since an earlier count of the same process.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let server = |(now, before): (&TwemproxyServer, &TwemproxyServer)| TwemproxyServer {
            name: now.name.clone(),
            requests: now.requests.saturating_sub(before.requests),
            responses: now.responses.saturating_sub(before.responses),
            request_bytes: now.request_bytes.saturating_sub(before.request_bytes),
            response_bytes: now.response_bytes.saturating_sub(before.response_bytes),
            errors: now.errors.saturating_sub(before.errors),
        };
        Self {
            version: self.version.clone(),
            client_errors: self.client_errors.saturating_sub(earlier.client_errors),
            forward_errors: self.forward_errors.saturating_sub(earlier.forward_errors),
            fragments: self.fragments.saturating_sub(earlier.fragments),
            servers: self.servers.iter().zip(&earlier.servers).map(server).collect(),
        }
    }
}

/// Where a trial's folder has the counts of its twemproxy of this number, from 1.
pub fn counts_file(trial: &Path, number: usize) -> PathBuf {
    trial.join(format!("middleware/{number}.counts.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    fn written(keys: &str) -> Result<String, Mistake> {
        let servers = [address("10.0.0.3:4001"), address("10.0.0.4:4002")];
        configuration(keys, &address("10.0.0.2:4000"), &servers)
    }

    #[test]
    fn a_pool_has_what_a_spec_says_and_else_what_is_usual() {
        let usual = "pool:\n  listen: 10.0.0.2:4000\n  hash: fnv1a_64\n  distribution: ketama\n  auto_eject_hosts: false\n  \
                     preconnect: true\n  server_connections: 1\n  servers:\n   - 10.0.0.3:4001:1 server1\n   - 10.0.0.4:4002:1 server2\n";
        assert_eq!(written("").unwrap(), usual);
        let given =
            written("# four\nserver_connections: 4\n\nhash_tag: \"{}\"\n  distribution: modula\n").unwrap();
        let keys: Vec<&str> = given.lines().map(str::trim).collect();
        for line in ["server_connections: 4", "hash_tag: \"{}\"", "distribution: modula", "preconnect: true"]
        {
            assert_eq!(keys.iter().filter(|other| **other == line).count(), 1, "{given}");
        }
        assert!(!given.contains("ketama") && !given.contains("server_connections: 1"), "{given}");
    }

    #[test]
    fn what_it_cannot_do_is_said_with_what_it_can() {
        for (keys, what, hint) in [
            ("threads: 4", "twemproxy has no `threads`", "one thread"),
            ("replicas: 2", "twemproxy has no `replicas`", "each key on one server"),
            ("read_policy: nearest", "has no `read_policy`", "server_connections"),
            ("workers = 8", "`workers = 8` is no key of a pool", "server_connections: 2"),
            ("listen: 127.0.0.1:1", "`listen` is written by each trial", "leave it out"),
            ("servers:", "`servers` is written by each trial", "`count`"),
            ("redis: true", "`redis` is for Redis", "leave it out"),
            ("hash: sha1", "`sha1` is no hash", "fnv1a_64"),
            ("distribution: ring", "`ring` is no distribution", "ketama, modula, random"),
            ("preconnect: yes", "`yes` is no preconnect", "true or false"),
            ("server_connections: 0", "`0` is no server_connections", "1 or more"),
            ("hash_tag: \"{\"", "is no hash_tag", "two letters"),
            ("timeout: 1\ntimeout: 2", "`timeout` stands there twice", "once"),
        ] {
            let mistake = written(keys).unwrap_err();
            assert!(mistake.what.contains(what) && mistake.hint.contains(hint), "{keys}: {mistake}");
        }
    }

    #[test]
    fn flags_are_numbers_of_its_own_and_none_that_a_trial_gives() {
        let check =
            |words: &[&str]| check_flags(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert!(check(&[]).is_ok() && check(&["-m", "512", "--verbose=6"]).is_ok());
        for (words, what) in [
            (&["--workers", "8"][..], "takes no `--workers`"),
            (&["-d"], "takes no `-d`"),
            (&["-s", "22222"], "takes no `-s`"),
            (&["-m"], "`` is no number for -m"),
            (&["-v", "loud"], "`loud` is no number for -v"),
        ] {
            let mistake = check(words).unwrap_err();
            assert!(mistake.what.contains(what), "{mistake}");
        }
    }

    /// As version 0.5.0 says it.
    fn said(requests: u64, errors: u64) -> String {
        let server = |requests: u64| {
            format!(
                r#"{{"server_eof":{errors}, "server_err":0, "server_timedout":0, "server_connections":2, "server_ejected_at":0, "requests":{requests}, "request_bytes":170, "responses":{requests}, "response_bytes":80, "in_queue":0, "in_queue_bytes":0, "out_queue":0, "out_queue_bytes":0}}"#
            )
        };
        format!(
            r#"{{"service":"nutcracker", "source":"vm", "version":"0.5.0", "uptime":1, "timestamp":1795713943, "total_connections":6, "curr_connections":3, "pool": {{"client_eof":1, "client_err":0, "client_connections":1, "server_ejects":0, "forward_error":0, "fragments":0, "server1": {}, "server2": {}}}}}"#,
            server(requests),
            server(2 * requests)
        )
    }

    #[test]
    fn counts_are_those_since_the_earlier_ones() {
        let servers = [address("10.0.0.3:4001"), address("10.0.0.4:4002")];
        let [before, after] =
            [said(10, 0), said(35, 1)].map(|said| TwemproxyCounts::of(&said, &servers).unwrap());
        let came = after.since(&before);
        let each: Vec<_> =
            came.servers.iter().map(|one| (&*one.name, one.requests, one.responses, one.errors)).collect();
        assert_eq!(each, [("10.0.0.3:4001", 25, 25, 1), ("10.0.0.4:4002", 50, 50, 1)]);
        assert_eq!((&*came.version, came.servers[0].request_bytes), ("0.5.0", 0));
        let wrong = |said: &str| TwemproxyCounts::of(said, &servers).unwrap_err().to_string();
        assert!(wrong("{").contains("not as twemproxy's"));
        assert!(wrong(&said(1, 0).replace("server2", "other")).contains("no number `requests`"));
    }
}
