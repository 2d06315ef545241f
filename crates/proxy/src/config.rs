//! What the proxy is told: a commented TOML file, flags over it, and every mistake named with a hint.

use std::collections::BTreeMap;

use krarup_memcache::Limits;
use krarup_units::{Address, Nanos};
use serde::{Deserialize, Deserializer};

use crate::dispatch::Workers;
use crate::settings::Settings;
use crate::topology::{Route, Topology};

mod pools;
pub(crate) mod quantity;

use quantity::{length, number_or_word, size};

pub use pools::{FallBack, PoolConfig, Replicas, RouteConfig, ServerConfig, Spread};

/// The name of the pool at the top level.
const MAIN: &str = "main";

/// What follows the pool of the top level in a file.
const POOLS: &str = "\
# Further pools have all the keys of the pool above, and may have an address of their own: keys of clients that connect there
# belong to them. Where no servers are named above, the pool of clients that connect to `listen` is `default_pool`.
# default_pool = \"main\"
#
# [pools.users]
# listen = \"127.0.0.1:11311\"
# servers = [\"127.0.0.1:11214\", { address = \"127.0.0.1:11215\", weight = 2, name = \"large\" }]
# distribution = \"ketama\"
#
# Keys that begin with a prefix belong to its pool, whoever asks; the longest prefix decides. With `strip`
# servers see the key without the prefix, with `add` behind another one.
# [[routes]]
# prefix = \"user:\"
# pool = \"users\"
# strip = false
# add = \"\"
";

/// The keys at the top level of a file that are not a pool's.
pub const KEYS: &[&str] = &[
    "pools",
    "default_pool",
    "routes",
    "workers",
    "queue",
    "pipeline",
    "reply_buffer",
    "max_value",
    "max_connections",
    "timeout",
    "connect_timeout",
    "reconnect_after",
    "reconnect_at_most",
    "slow_requests",
    "resolve_every",
    "eject_after",
    "eject_for",
    "return_over",
    "shutdown_limit",
    "hold",
    "threads",
    "server_connections",
    "dedicated",
    "engine",
    "edge",
    "admin",
];
use crate::edge::{Dangerous, Edge};
use crate::engine::{Engine, Form};

/// Everything that can be configured, with its default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Where clients connect.
    pub listen: Address,
    /// The pool that stands at the top level of a file. Where it has no server there is none of it.
    #[serde(skip)]
    pub main: PoolConfig,
    /// The other pools, by name.
    pub pools: BTreeMap<String, PoolConfig>,
    /// The pool of clients that connect to `listen`; none: the one at the top level, or the only one.
    pub default_pool: Option<String>,
    /// Keys that belong to other pools.
    pub routes: Vec<RouteConfig>,
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
    /// How many of the slowest requests of each second are kept with all their stamps.
    pub slow_requests: usize,
    /// How often the names of servers are looked up again; zero: never.
    #[serde(deserialize_with = "length")]
    pub resolve_every: Nanos,
    /// Failures in a row after which a server is ejected; none: never.
    pub eject_after: Option<u32>,
    /// How long an ejected server is left alone.
    #[serde(deserialize_with = "length")]
    pub eject_for: Nanos,
    /// Over which time an ejected server that is back gets its full share of reads again.
    #[serde(deserialize_with = "length")]
    pub return_over: Nanos,
    /// How long what is in flight may take once a stop was asked for.
    #[serde(deserialize_with = "length")]
    pub shutdown_limit: Nanos,
    /// Servers that answer within this time are waited for before more requests are read; zero: none are.
    #[serde(deserialize_with = "length")]
    pub hold: Nanos,
    /// How many event loops there are, each a thread with clients and server connections of its own.
    pub threads: usize,
    /// How many connections each loop has to each server; its clients use them in turn.
    pub server_connections: u32,
    /// Whether each client has connections to the servers of its own instead.
    pub dedicated: bool,
    /// What moves the bytes.
    pub engine: Engine,
    /// How the outside is met.
    pub edge: Edge,
    /// Where monitoring asks for metrics, health and readiness; none: nowhere.
    pub admin: Option<Address>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Address { host: "127.0.0.1".into(), port: 11_211 },
            main: PoolConfig::default(),
            pools: BTreeMap::new(),
            default_pool: None,
            routes: Vec::new(),
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
            slow_requests: 5,
            resolve_every: Nanos::from_secs(30),
            eject_after: None,
            eject_for: Nanos::from_secs(10),
            return_over: Nanos::from_secs(10),
            shutdown_limit: Nanos::from_secs(5),
            hold: Nanos::from_micros(200),
            threads: 1,
            server_connections: 1,
            dedicated: false,
            engine: Engine::Events,
            edge: Edge::default(),
            admin: None,
        }
    }
}

/// A whole number or a word, as text.
fn workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Workers, D::Error> {
    parse_workers(&number_or_word(deserializer)?).map_err(serde::de::Error::custom)
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

impl Config {
    /// Reads a configuration file's text.
    ///
    /// # Errors
    /// With the line, the key and what would be understood; `name` is the file's.
    pub fn parse(text: &str, name: &str) -> Result<Self, String> {
        let at = |span: Option<std::ops::Range<usize>>, why: &str| {
            let line = span.map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            format!("{name}, line {line}: {}", why.trim_end().replace('\n', " "))
        };
        let told = |error: toml::de::Error| at(error.span(), error.message());
        let mut config: Self = toml::from_str(text).map_err(told)?;
        // The top level holds the keys of one pool beside those of the proxy.
        config.main = toml::from_str(text).map_err(told)?;
        config.main.listen = None;
        let table = toml::de::DeTable::parse(text).map_err(told)?;
        let unknown = |key: &toml::Spanned<toml::de::DeString<'_>>, known: &[&str]| {
            let word = key.get_ref().as_ref();
            let near = known.iter().filter(|one| one.starts_with(&word[..word.len().min(3)])).copied();
            let near: Vec<_> = near.collect();
            let hint = if near.is_empty() {
                String::new()
            } else {
                format!("; did you mean {}?", near.join(" or "))
            };
            at(Some(key.span()), &format!("there is no key `{word}`{hint}"))
        };
        let top: Vec<&str> = KEYS.iter().chain(&PoolConfig::KEYS).copied().collect();
        for (key, value) in table.get_ref() {
            if !top.contains(&key.get_ref().as_ref()) {
                return Err(unknown(key, &top));
            }
            let pools = value.get_ref().as_table().filter(|_| key.get_ref() == "pools");
            for pool in
                pools.iter().flat_map(|pools| pools.values()).filter_map(|pool| pool.get_ref().as_table())
            {
                if let Some((key, _)) =
                    pool.iter().find(|(key, _)| !PoolConfig::KEYS.contains(&key.get_ref().as_ref()))
                {
                    return Err(unknown(key, &PoolConfig::KEYS));
                }
            }
        }
        Ok(config)
    }

    /// Every pool with its name, that of the top level first.
    fn all_pools(&self) -> Vec<(&str, &PoolConfig)> {
        let main = (!self.main.servers.is_empty()).then_some((MAIN, &self.main));
        main.into_iter().chain(self.pools.iter().map(|(name, pool)| (name.as_str(), pool))).collect()
    }

    /// The servers of all pools, each once, in the order in which the core knows them.
    pub fn addresses(&self) -> Vec<Address> {
        let mut found: Vec<Address> = Vec::new();
        for (_, pool) in self.all_pools() {
            for server in &pool.servers {
                if !found.contains(&server.address) {
                    found.push(server.address.clone());
                }
            }
        }
        found
    }

    /// Where clients connect, with the pool that their keys belong to.
    ///
    /// # Errors
    /// Names a default pool that there is not.
    pub fn listeners(&self) -> Result<Vec<(Address, usize)>, String> {
        let pools = self.all_pools();
        let default = match &self.default_pool {
            None => 0,
            Some(name) => pools
                .iter()
                .position(|(other, _)| other == name)
                .ok_or_else(|| format!("`default_pool` names `{name}`, and there is no such pool"))?,
        };
        let own =
            pools.iter().enumerate().filter_map(|(place, (_, pool))| Some((pool.listen.clone()?, place)));
        Ok(std::iter::once((self.listen.clone(), default)).chain(own).collect())
    }

    /// Checks what cannot be seen key by key.
    ///
    /// # Errors
    /// Names the key and says what would do.
    pub fn check(&self) -> Result<(), String> {
        let servers = self.addresses();
        if servers.is_empty() {
            return Err("there is no server to ask; name at least one with --servers host:port".into());
        }
        if servers.len() > 1_000 {
            return Err(format!("{} servers are named; 1000 are the most", servers.len()));
        }
        if self.pools.contains_key(MAIN) && !self.main.servers.is_empty() {
            return Err(format!("the pool at the top level is called {MAIN}, and so is another"));
        }
        let listeners = self.listeners()?;
        for (place, (address, _)) in listeners.iter().enumerate() {
            if servers.contains(address) {
                return Err(format!("`servers` names {address}, where the proxy itself listens"));
            }
            if address.port != 0 && listeners[..place].iter().any(|(other, _)| other == address) {
                return Err(format!("{address} is listened on for two pools; give each its own"));
            }
        }
        self.topology()?;
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
            ("resolve_every", self.resolve_every),
            ("shutdown_limit", self.shutdown_limit),
        ] {
            if value > Nanos::from_secs(86_400) {
                return Err(format!("`{key}` is {value}, and must be at most a day (24h)"));
            }
        }
        if self.slow_requests > 1_000 {
            return Err(format!("`slow_requests` is {}, and must be at most 1000", self.slow_requests));
        }
        if self.hold > Nanos::from_millis(10) {
            return Err(format!("`hold` is {}, and must be at most 10ms", self.hold));
        }
        if self.threads == 0 || self.threads > 64 {
            return Err(format!("`threads` is {}, and must be from 1 to 64", self.threads));
        }
        if self.threads > 1 && self.all_pools().iter().any(|(_, pool)| pool.readers.is_some()) {
            return Err(
                "`readers` are those of one event loop, and `threads` makes several; set one of the two"
                    .into(),
            );
        }
        if self.server_connections == 0 || self.server_connections > 64 {
            return Err(format!(
                "`server_connections` is {}, and must be from 1 to 64",
                self.server_connections
            ));
        }
        if self.dedicated && self.server_connections > 1 {
            return Err("`dedicated` gives every client a connection of its own, and `server_connections` shares several; \
                        set one of the two"
                .into());
        }
        if self.engine == Engine::Threads {
            if self.dedicated || self.server_connections > 1 {
                return Err("`engine` is threads, each of which has a connection of its own to every server; leave out \
                            `server_connections` and `dedicated`"
                    .into());
            }
            if self.threads > 1 {
                return Err("`threads` counts event loops, and `engine` is threads, which has none; how many threads \
                            that has is said by `workers` or `readers`"
                    .into());
            }
            self.thread_form()?;
            if self.edge.tls.is_some() || self.edge.server_tls.is_some() || self.edge.users.is_some() {
                return Err("`engine` is threads, which knows neither TLS nor users; events does".into());
            }
            if self.admin.is_some() {
                return Err("`engine` is threads, which answers no monitoring; events does".into());
            }
            for (name, pool) in self.all_pools() {
                // Each worker has a core of its own, which knows nothing of what the others do.
                let shared = [
                    ("rate", pool.rate.is_some()),
                    ("concurrency", pool.concurrency.is_some()),
                    ("coalesce", pool.coalesce),
                ];
                if let Some((key, _)) = shared.into_iter().find(|&(_, is_set)| is_set) {
                    return Err(format!(
                        "`engine` is threads, which know nothing of each other, and pool {name} sets `{key}`; events does that"
                    ));
                }
            }
            if listeners.len() > 1 {
                return Err(
                    "`engine` is threads, which listens at one address; events listens at several".into()
                );
            }
        }
        self.edge.check()
    }

    /// What the threads are, where the engine is threads.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn thread_form(&self) -> Result<Form, String> {
        let readers = self.all_pools().into_iter().find_map(|(_, pool)| pool.readers);
        let form = match (readers, self.workers) {
            (Some(readers), _) => Form::Readers(readers),
            (None, Workers::Limited(workers)) => Form::Workers(workers),
            (None, Workers::Unlimited) => {
                return Err(
                    "`engine` is threads, and there must be a number of them: set `workers` or `readers`"
                        .into(),
                );
            }
        };
        let (Form::Workers(threads) | Form::Readers(threads)) = form;
        if threads > 4_096 {
            return Err(format!(
                "`engine` is threads, and {threads} of them are too many; 4096 are the most"
            ));
        }
        Ok(form)
    }

    /// What the core needs of it.
    pub fn settings(&self) -> Settings {
        Settings {
            limits: Limits { value: self.max_value, ..Limits::default() },
            workers: self.workers,
            queue: self.queue,
            pipeline: self.pipeline,
            reply_buffer: self.reply_buffer,
            replies: self.edge.memory / self.threads.max(1) / 2,
            timeout: self.timeout,
            reconnect_after: self.reconnect_after,
            reconnect_at_most: self.reconnect_at_most,
            eject_after: self.eject_after,
            eject_for: self.eject_for,
            return_over: self.return_over,
            slow_requests: self.slow_requests,
            unix: 0,
            refused: [Dangerous::FlushAll, Dangerous::Verbosity]
                .into_iter()
                .filter(|&command| self.edge.refuses(command))
                .collect(),
            server_connections: self.server_connections,
            dedicated: self.dedicated,
        }
    }

    /// The servers, pools and routes.
    ///
    /// # Errors
    /// Names the pool and what is wrong with it.
    pub fn topology(&self) -> Result<Topology, String> {
        let pools = self.all_pools();
        let servers = self.addresses();
        let find = |name: &str| pools.iter().position(|&(other, _)| other == name);
        let place =
            |address: &Address| servers.iter().position(|one| one == address).expect("all are listed");
        let specs = pools.iter().map(|(name, pool)| pool.spec(name, place, find));
        let mut specs = specs.collect::<Result<Vec<_>, _>>()?;
        for spec in &mut specs {
            // Each loop has an even share of what the pool may be asked.
            spec.rate = spec.rate.map(|rate| rate / self.threads as f64);
            spec.concurrency = spec.concurrency.map(|most| most.div_ceil(self.threads as u32));
        }
        let routes = self.routes.iter().map(|route| {
            let pool = find(&route.pool).ok_or_else(|| {
                format!("the route for `{}` names the pool `{}`, and there is none", route.prefix, route.pool)
            })?;
            for (key, text) in [("prefix", &route.prefix), ("add", &route.add)] {
                if text.len() > 200 || text.bytes().any(|byte| byte <= b' ' || byte == 127) {
                    return Err(format!(
                        "the route for `{}` has a `{key}` that no key can have",
                        route.prefix
                    ));
                }
            }
            let (prefix, add) = (route.prefix.clone().into_bytes(), route.add.clone().into_bytes());
            Ok(Route { prefix, pool, strip: route.strip, add })
        });
        Ok(Topology {
            pools: specs,
            routes: routes.collect::<Result<_, String>>()?,
            servers: servers.iter().map(ToString::to_string).collect(),
        })
    }

    /// The configuration as a commented file, which reads back as the same.
    pub fn commented(&self) -> String {
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

{pool}
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

# How many of the slowest requests of each second are kept with all their stamps: `stats slow` shows them. 0 keeps none.
slow_requests = {slow_requests}

# How often the names of servers are looked up again; 0 is never.
resolve_every = {resolve_every}

# A server that fails so many times in a row, with no request answered between, is left alone for `eject_for`; when it is back
# its share of reads grows from nothing over `return_over`.
{eject_after}
eject_for = {eject_for}
return_over = {return_over}

# How long requests in flight may take once a stop was asked for.
shutdown_limit = {shutdown_limit}

# While servers work, and answer within this time, the loop waits for the next answer before it reads more requests, so that
# one system call carries many. With nothing under way nothing waits. 0 never waits.
hold = {hold}

# Where monitoring asks over HTTP: /metrics for Prometheus, /health, /ready. Nowhere unless it is given.
{admin}

# How many event loops there are, each a thread with clients and server connections of its own; more than one helps where one uses a
# whole processor. They share the queue and the workers; of a pool's `rate` and `concurrency`, and of `memory`, each has an even share.
threads = {threads}

# How many connections each loop has to each server. Clients use them in turn, each the same one all the time. Or a connection to each server
# it asks for every client, made when it is first needed: then no client waits for another's answers.
server_connections = {server_connections}
dedicated = {dedicated}

# What moves the bytes: \"events\", loops in which a worker is a place in a table; or \"threads\", the textbook's design, in which
# every worker (or reader) is a thread with a blocking connection to every server. For experiments.
engine = \"{engine}\"

{pools}
{edge}",
            listen = self.listen,
            pool = self.main.commented(),
            pools = POOLS,
            eject_after = self.eject_after.map_or("# eject_after = 5".to_owned(), |most| format!("eject_after = {most}")),
            slow_requests = self.slow_requests,
            resolve_every = length(self.resolve_every),
            eject_for = length(self.eject_for),
            return_over = length(self.return_over),
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
            threads = self.threads,
            server_connections = self.server_connections,
            dedicated = self.dedicated,
            engine = match self.engine {
                Engine::Events => "events",
                Engine::Threads => "threads",
            },
            edge = self.edge.commented(),
            admin = match &self.admin {
                Some(admin) => format!("admin = \"{admin}\""),
                None => "# admin = \"127.0.0.1:9151\"".to_owned(),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::MultiGet;

    fn main(servers: &[&str]) -> PoolConfig {
        let server = |text: &&str| text.parse::<Address>().unwrap().into();
        PoolConfig { servers: servers.iter().map(server).collect(), ..PoolConfig::default() }
    }

    #[test]
    fn the_commented_file_reads_back_as_the_same() {
        let config = Config {
            main: PoolConfig { multi_get: MultiGet::Sharded, ..main(&["127.0.0.1:1", "[::1]:2"]) },
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
    fn every_key_is_in_the_commented_file() {
        let text = Config::default().commented();
        for key in KEYS.iter().chain(&PoolConfig::KEYS) {
            let found = text.lines().any(|line| {
                let line = line.trim_start_matches("# ").trim_start_matches('[');
                line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '.', ']']))
            });
            assert!(found, "{key}");
        }
    }

    #[test]
    fn pools_and_routes_are_read() {
        let text = "
            servers = [\"127.0.0.1:1\", { address = \"127.0.0.1:2\", weight = 3, name = \"b\" }]
            distribution = \"ketama\"
            replicas = \"half\"
            writes = \"quorum\"
            reads = \"two_choices\"
            fall_back = [\"error\", \"miss\"]
            refill_ttl = \"90s\"
            gutter = \"spare\"
            ttl_cap = \"1h\"
            hedge_after = 0.95
            [pools.spare]
            listen = \"127.0.0.1:9\"
            servers = [\"127.0.0.1:2\", \"127.0.0.1:3\"]
            [[routes]]
            prefix = \"s:\"
            pool = \"spare\"
            strip = true";
        let config = Config::parse(text, "f.toml").unwrap();
        assert_eq!(config.check(), Ok(()));
        let topology = config.topology().unwrap();
        assert_eq!(topology.servers, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]);
        let [main, spare] = &topology.pools[..] else { panic!("two pools") };
        assert_eq!((&*main.name, main.copies, main.servers.clone()), ("main", 1, vec![0, 1]));
        assert_eq!((&*spare.name, spare.copies, spare.servers.clone()), ("spare", 2, vec![1, 2]));
        assert_eq!((main.refill, main.ttl_cap, main.gutter.unwrap().pool), (Some(90), Some(3_600), 1));
        assert!(main.fall_back_on_error && main.fall_back_on_miss && main.placement.is_some());
        assert_eq!(config.listeners().unwrap()[1], ("127.0.0.1:9".parse().unwrap(), 1));
        assert_eq!(topology.routes[0].pool, 1);
        // Only pools with names: the first is everybody's unless another is said to be.
        let text = "[pools.a]\nservers = [\"h:1\"]\n[pools.b]\nservers = [\"h:2\"]\n";
        assert_eq!(Config::parse(text, "").unwrap().listeners().unwrap()[0].1, 0);
        let text = format!("default_pool = \"b\"\n{text}");
        assert_eq!(Config::parse(&text, "").unwrap().listeners().unwrap()[0].1, 1);
    }

    #[test]
    fn a_pool_that_cannot_work_is_named() {
        let pool = "servers = [\"h:1\", \"h:2\"]\n";
        for (text, part) in [
            (
                "distribution = \"ketama\"\nreplicas = 3",
                "pool main: `replicas` is 3, and there are 2 servers",
            ),
            ("gutter = \"main\"", "`gutter` names the pool itself"),
            ("warm_from = \"old\"", "`warm_from` names `old`, and there is no such pool"),
            ("shadow_share = 1.5", "`shadow_share` is 1.5"),
            ("rate = 0", "`rate` is 0"),
            ("ttl_cap = \"1000h\"", "`ttl_cap`"),
            ("distribution = \"ketama\"\nhash_tag = \"{\"", "`hash_tag` is `{`"),
            ("[[routes]]\nprefix = \"a\"\npool = \"b\"", "names the pool `b`, and there is none"),
            ("[[routes]]\nprefix = \"a b\"\npool = \"main\"", "no key can have"),
            ("default_pool = \"b\"", "`default_pool` names `b`"),
            ("[pools.a]\nservers = []", "pool a: `servers` names no server"),
        ] {
            let config = Config::parse(&format!("{pool}{text}"), "f.toml").unwrap();
            let why = config.check().unwrap_err();
            assert!(why.contains(part), "{text:?}: {why}");
        }
        for (text, parts) in [
            ("distribution = \"ring\"", ["line 2", "no distribution; there are all, ketama"]),
            ("replicas = 0", ["line 2", "no number of replicas"]),
            ("read = \"primary\"", ["line 2", "did you mean reads"]),
            ("[pools.a]\nread = \"primary\"", ["line 3", "did you mean reads"]),
            ("[pools.a]\nworkers = 3", ["line 3", "no key `workers`"]),
            ("reads = \"best\"", ["line 2", "best"]),
        ] {
            let why = Config::parse(&format!("{pool}{text}"), "f.toml").unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{text:?}: {why}");
        }
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
        let good = Config { main: main(&["127.0.0.1:1"]), ..Config::default() };
        assert_eq!(good.check(), Ok(()));
        for (wrong, part) in [
            (Config { main: main(&[]), ..good.clone() }, "no server"),
            (Config { main: main(&["a:1", "a:1"]), ..good.clone() }, "twice"),
            (Config { listen: good.main.servers[0].address.clone(), ..good.clone() }, "itself listens"),
            (Config { queue: 0, ..good.clone() }, "`queue`"),
            (Config { max_value: 0, ..good.clone() }, "`max_value`"),
            (Config { timeout: Nanos::ZERO, ..good.clone() }, "`timeout`"),
            (Config { threads: 0, ..good.clone() }, "`threads`"),
            (Config { server_connections: 0, ..good.clone() }, "`server_connections`"),
            (Config { server_connections: 2, dedicated: true, ..good.clone() }, "one of the two"),
            (Config { dedicated: true, engine: Engine::Threads, ..good.clone() }, "leave out"),
            (Config { threads: 2, engine: Engine::Threads, ..good.clone() }, "counts event loops"),
            (Config { shutdown_limit: Nanos(u64::MAX), ..good.clone() }, "`shutdown_limit`"),
        ] {
            assert!(wrong.check().unwrap_err().contains(part), "{part}");
        }
    }
}
