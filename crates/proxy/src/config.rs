//! What the proxy is told: a commented TOML file, flags over it, and every mistake named with a hint.

use krarup_memcache::Limits;
use krarup_net::Address;
use krarup_units::{Nanos, text};
use serde::{Deserialize, Deserializer};

use crate::core::Settings;
use crate::dispatch::Workers;
use crate::route::MultiGet;

/// Everything that can be configured, with its default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where clients connect.
    pub listen: Address,
    /// The servers, in order: the first gives out cas uniques.
    pub servers: Vec<Address>,
    /// What to do with retrievals of several keys.
    pub multi_get: MultiGet,
    /// How many requests may be with the servers at once.
    #[serde(deserialize_with = "workers")]
    pub workers: Workers,
    /// How many requests may wait for a worker.
    pub queue: usize,
    /// How many requests of one client may be under way.
    pub pipeline: u32,
    /// How many bytes of replies may wait for one client that does not read.
    #[serde(deserialize_with = "size")]
    pub reply_buffer: usize,
    /// The largest value taken from a client.
    #[serde(deserialize_with = "size")]
    pub max_value: usize,
    /// How many clients may be connected.
    pub max_connections: usize,
    /// How long a server may take to answer before it counts as lost.
    #[serde(deserialize_with = "length")]
    pub timeout: Nanos,
    /// How long making a connection to a server may take.
    #[serde(deserialize_with = "length")]
    pub connect_timeout: Nanos,
    /// The first wait before connecting again; each failure doubles it.
    #[serde(deserialize_with = "length")]
    pub reconnect_after: Nanos,
    /// The longest wait before connecting again.
    #[serde(deserialize_with = "length")]
    pub reconnect_at_most: Nanos,
    /// How long what is in flight may take once a stop was asked for.
    #[serde(deserialize_with = "length")]
    pub shutdown_limit: Nanos,
    /// Up to how long a busy loop may wait for more to arrive, to share system calls; zero never waits.
    #[serde(deserialize_with = "length")]
    pub hold: Nanos,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Address { host: "127.0.0.1".into(), port: 11_211 },
            servers: Vec::new(),
            multi_get: MultiGet::Whole,
            workers: Workers::Unlimited,
            queue: 65_536,
            pipeline: 1_024,
            reply_buffer: 1 << 20,
            max_value: 1 << 20,
            max_connections: 16_384,
            timeout: Nanos::from_secs(5),
            connect_timeout: Nanos::from_secs(1),
            reconnect_after: Nanos::from_millis(20),
            reconnect_at_most: Nanos::from_secs(2),
            shutdown_limit: Nanos::from_secs(5),
            hold: Nanos::from_micros(50),
        }
    }
}

fn workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Workers, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(i64),
        Word(String),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Number(number) => number.to_string(),
        Written::Word(word) => word,
    };
    parse_workers(&text).map_err(serde::de::Error::custom)
}

/// Reads a number of workers, or `unlimited`.
///
/// # Errors
/// Names the text.
pub fn parse_workers(text: &str) -> Result<Workers, String> {
    match text.parse() {
        Ok(limit) if limit >= 1 => Ok(Workers::Limited(limit)),
        _ if text == "unlimited" => Ok(Workers::Unlimited),
        _ => Err(format!("`{text}` is no number of workers; write 1 or more, or \"unlimited\"")),
    }
}

/// A length as `"1.5s"` or a number of seconds.
fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Seconds(f64),
        Text(String),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Seconds(seconds) => seconds.to_string(),
        Written::Text(text) => text,
    };
    text::parse_duration(&text).map(Nanos::from_seconds).map_err(serde::de::Error::custom)
}

/// A size as `"1MiB"` or a number of bytes.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Bytes(u64),
        Text(String),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Bytes(bytes) => bytes.to_string(),
        Written::Text(text) => text,
    };
    text::parse_size(&text).map(|bytes| bytes as usize).map_err(serde::de::Error::custom)
}

impl Config {
    /// Reads a configuration file's text.
    ///
    /// # Errors
    /// With the line, the key and what would be understood; `name` is the file's.
    pub fn parse(text: &str, name: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let line =
                error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            format!("{name}, line {line}: {}", error.message().trim_end().replace('\n', " "))
        })
    }

    /// Checks what cannot be seen key by key.
    ///
    /// # Errors
    /// Names the key and says what would do.
    pub fn check(&self) -> Result<(), String> {
        if self.servers.is_empty() {
            return Err("there is no server to ask; name at least one with --servers host:port".into());
        }
        if self.servers.len() > 1_000 {
            return Err(format!("`servers` names {} servers; 1000 are the most", self.servers.len()));
        }
        for (place, server) in self.servers.iter().enumerate() {
            if self.servers[..place].contains(server) {
                return Err(format!("`servers` names {server} twice"));
            }
            if server.port == 0 {
                return Err(format!("`servers` names {server}, and no server has port 0"));
            }
            if *server == self.listen {
                return Err(format!("`servers` names {server}, where the proxy itself listens"));
            }
        }
        for (key, value) in [
            ("pipeline", self.pipeline as usize),
            ("max_connections", self.max_connections),
            ("queue", self.queue),
        ] {
            if value == 0 {
                return Err(format!("`{key}` is 0, and must be at least 1"));
            }
        }
        if self.max_value < 1 || self.max_value > 1 << 30 {
            return Err(format!("`max_value` is {}, and must be from 1 to 1GiB", self.max_value));
        }
        if self.reply_buffer < 4_096 {
            return Err(format!("`reply_buffer` is {}, and must be at least 4KiB", self.reply_buffer));
        }
        for (key, value) in [
            ("timeout", self.timeout),
            ("connect_timeout", self.connect_timeout),
            ("reconnect_after", self.reconnect_after),
        ] {
            if value < Nanos::from_millis(1) {
                return Err(format!("`{key}` is {value}, and must be at least 1ms"));
            }
        }
        for (key, value) in [
            ("timeout", self.timeout),
            ("connect_timeout", self.connect_timeout),
            ("reconnect_after", self.reconnect_after),
            ("reconnect_at_most", self.reconnect_at_most),
            ("shutdown_limit", self.shutdown_limit),
        ] {
            if value > Nanos::from_secs(86_400) {
                return Err(format!("`{key}` is {value}, and must be at most a day (24h)"));
            }
        }
        if self.hold > Nanos::from_millis(10) {
            return Err(format!("`hold` is {}, and must be at most 10ms", self.hold));
        }
        Ok(())
    }

    /// What the core needs of it.
    pub fn settings(&self) -> Settings {
        Settings {
            limits: Limits { value: self.max_value, ..Limits::default() },
            multi_get: self.multi_get,
            workers: self.workers,
            queue: self.queue,
            pipeline: self.pipeline,
            reply_buffer: self.reply_buffer,
            timeout: self.timeout,
        }
    }

    /// The configuration as a commented file, which reads back as the same.
    pub fn commented(&self) -> String {
        let servers: Vec<_> = self.servers.iter().map(|server| format!("\"{server}\"")).collect();
        let multi_get = match self.multi_get {
            MultiGet::Whole => "whole",
            MultiGet::Sharded => "sharded",
        };
        let workers = match self.workers {
            Workers::Unlimited => "\"unlimited\"".to_owned(),
            Workers::Limited(workers) => workers.to_string(),
        };
        let length = |length: Nanos| format!("\"{}us\"", length.as_seconds() * 1e6);
        format!(
            "\
# krarup proxy: a memcached middleware that stamps everything.

# Where clients connect. 127.0.0.1 is this machine only.
listen = \"{listen}\"

# The servers, in order. Every one holds a copy of everything: writes go to all, reads to one.
# The first gives out cas uniques.
servers = [{servers}]

# What to do with a get of several keys: \"whole\" sends it to one server,
# \"sharded\" asks every server for an even share of the keys.
multi_get = \"{multi_get}\"

# How many requests may be with the servers at once. The others wait in the queue, and how long is
# measured. \"unlimited\" takes the queue out of the path.
workers = {workers}

# How many requests may wait for a worker. Beyond that clients are not listened to.
queue = {queue}

# How many requests of one client may be under way, and how many bytes of replies may wait for a client
# that does not read. Beyond that it is not listened to.
pipeline = {pipeline}
reply_buffer = {reply_buffer}

# The largest value taken from a client. A larger one is refused with memcached's own text.
max_value = {max_value}

# How many clients may be connected. One more is told so and turned away.
max_connections = {max_connections}

# How long a server may take to answer, and to be connected to. Beyond that it counts as lost, and
# everything asked of it is answered with SERVER_ERROR and its name.
timeout = {timeout}
connect_timeout = {connect_timeout}

# How long to wait before connecting to a lost server again. The wait doubles with each failure.
reconnect_after = {reconnect_after}
reconnect_at_most = {reconnect_at_most}

# How long requests in flight may take once a stop was asked for.
shutdown_limit = {shutdown_limit}

# Up to how long a busy loop waits for more to arrive, so that one system call carries many requests.
# One request alone never waits. 0 never waits at all.
hold = {hold}
",
            listen = self.listen,
            servers = servers.join(", "),
            queue = self.queue,
            pipeline = self.pipeline,
            reply_buffer = self.reply_buffer,
            max_value = self.max_value,
            max_connections = self.max_connections,
            timeout = length(self.timeout),
            connect_timeout = length(self.connect_timeout),
            reconnect_after = length(self.reconnect_after),
            reconnect_at_most = length(self.reconnect_at_most),
            shutdown_limit = length(self.shutdown_limit),
            hold = length(self.hold),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commented_file_reads_back_as_the_same() {
        let config = Config {
            servers: vec!["127.0.0.1:1".parse().unwrap(), "[::1]:2".parse().unwrap()],
            multi_get: MultiGet::Sharded,
            workers: Workers::Limited(64),
            timeout: Nanos::from_micros(1_500),
            ..Config::default()
        };
        let text = config.commented();
        let read = Config::parse(&text, "krarup.toml").unwrap();
        assert_eq!(format!("{config:?}"), format!("{read:?}"));
        assert_eq!(Config::parse(&Config::default().commented(), "").unwrap().workers, Workers::Unlimited);
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (text, parts) in [
            ("listen = \"127.0.0.1:1\"\nserver = []", ["f.toml, line 2", "server"]),
            ("\n\nworkers = 0", ["line 3", "`0` is no number of workers"]),
            ("timeout = \"soon\"", ["line 1", "`soon`"]),
            ("listen = \"here\"", ["line 1", "`here` is not an address"]),
            ("multi_get = \"both\"", ["line 1", "both"]),
            ("max_value = \"1 parsec\"", ["line 1", "parsec"]),
            ("listen = ", ["line 1", ""]),
        ] {
            let error = Config::parse(text, "f.toml").unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error:?}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let good = Config { servers: vec!["127.0.0.1:1".parse().unwrap()], ..Config::default() };
        assert_eq!(good.check(), Ok(()));
        for (wrong, part) in [
            (Config { servers: vec![], ..good.clone() }, "no server"),
            (Config { servers: vec![good.servers[0].clone(); 2], ..good.clone() }, "twice"),
            (Config { listen: good.servers[0].clone(), ..good.clone() }, "itself listens"),
            (Config { queue: 0, ..good.clone() }, "`queue`"),
            (Config { max_value: 0, ..good.clone() }, "`max_value`"),
            (Config { timeout: Nanos::ZERO, ..good.clone() }, "`timeout`"),
            (Config { shutdown_limit: Nanos(u64::MAX), ..good.clone() }, "`shutdown_limit`"),
        ] {
            assert!(wrong.check().unwrap_err().contains(part), "{part}");
        }
    }
}
