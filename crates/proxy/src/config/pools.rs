//! What a pool is told: its servers, who of them holds a key, and how it is read and written.

use krarup_units::Address;
use serde::{Deserialize, Deserializer};

use super::quantity::{length, number_or_word, optional_length};
use crate::placement::{Distribution, KeyHash, Member, Placement};
use crate::topology::{Hedge, MultiGet, PoolSpec, Reads, Shadow, StandIn, WhenDown, Writes};
use krarup_units::Nanos;

/// One pool as it stands in the configuration: at its top level, or under `[pools.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct PoolConfig {
    /// Where clients connect whose keys belong to this pool; none: where all do.
    pub listen: Option<Address>,
    /// Its servers, in order.
    pub servers: Vec<ServerConfig>,
    /// Who holds a key.
    pub distribution: Spread,
    /// How a key becomes a number.
    pub hash: KeyHash,
    /// Two characters: only what stands between them is hashed.
    pub hash_tag: Option<String>,
    /// How many servers hold a key.
    pub replicas: Replicas,
    /// When a write is done.
    pub writes: Writes,
    /// Who of a key's holders is read from.
    pub reads: Reads,
    /// What to do with a get of several keys where every server holds every key.
    pub multi_get: MultiGet,
    /// What to do where a key's holder is down.
    pub when_down: WhenDown,
    /// The pool that stands in where all holders of a key are down.
    pub gutter: Option<String>,
    /// How long values live there.
    #[serde(deserialize_with = "length")]
    pub gutter_ttl: Nanos,
    /// When a read is tried at the next holder.
    pub fall_back: Vec<FallBack>,
    /// Reads tried again after an error, as a share of all.
    pub retry_budget: f64,
    /// How long a value lives that is stored where it had been missed; none: it is not stored.
    #[serde(deserialize_with = "optional_length")]
    pub refill_ttl: Option<Nanos>,
    /// The pool asked for what is not found here.
    pub warm_from: Option<String>,
    /// How long values live that were found there and are stored here.
    #[serde(deserialize_with = "length")]
    pub warm_ttl: Nanos,
    /// The pool that gets copies of requests.
    pub shadow: Option<String>,
    /// How many of them, 0 to 1.
    pub shadow_share: f64,
    /// Whether a get waits for the answer to the same get already under way.
    pub coalesce: bool,
    /// Requests per second, at most.
    pub rate: Option<f64>,
    /// Requests at once, at most.
    pub concurrency: Option<u32>,
    /// The longest time a value may live.
    #[serde(deserialize_with = "optional_length")]
    pub ttl_cap: Option<Nanos>,
    /// After which quantile of recent times a read is sent to a second holder; none: never.
    pub hedge_after: Option<f64>,
    /// Second requests as a share of all reads, at most.
    pub hedge_budget: f64,
    /// Reads that each server may be asked for at once; none: reads take one of the proxy's workers.
    pub readers: Option<u32>,
}

impl PoolConfig {
    /// Every key, as it stands in a file.
    pub const KEYS: [&str; 26] = [
        "listen",
        "servers",
        "distribution",
        "hash",
        "hash_tag",
        "replicas",
        "writes",
        "reads",
        "multi_get",
        "when_down",
        "gutter",
        "gutter_ttl",
        "fall_back",
        "retry_budget",
        "refill_ttl",
        "warm_from",
        "warm_ttl",
        "shadow",
        "shadow_share",
        "coalesce",
        "rate",
        "concurrency",
        "ttl_cap",
        "hedge_after",
        "hedge_budget",
        "readers",
    ];
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            listen: None,
            servers: Vec::new(),
            distribution: Spread::All,
            hash: KeyHash::Fnv1a64,
            hash_tag: None,
            replicas: Replicas::Count(1),
            writes: Writes::All,
            reads: Reads::LeastWork,
            multi_get: MultiGet::Whole,
            when_down: WhenDown::Error,
            gutter: None,
            gutter_ttl: Nanos::from_secs(10),
            fall_back: Vec::new(),
            retry_budget: 0.2,
            refill_ttl: None,
            warm_from: None,
            warm_ttl: Nanos::from_secs(3_600),
            shadow: None,
            shadow_share: 1.0,
            coalesce: false,
            rate: None,
            concurrency: None,
            ttl_cap: None,
            hedge_after: None,
            hedge_budget: 0.05,
            readers: None,
        }
    }
}

/// Who holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Every server of the pool: `all`.
    All,
    /// Some of them.
    By(Distribution),
}

impl<'de> Deserialize<'de> for Spread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        if word == "all" {
            return Ok(Self::All);
        }
        let known = serde::de::value::StrDeserializer::<D::Error>::new(&word);
        Distribution::deserialize(known).map(Self::By).map_err(|_| {
            let names: Vec<_> = Distribution::ALL.iter().map(|&(_, name)| name).collect();
            serde::de::Error::custom(format!(
                "`{word}` is no distribution; there are all, {}",
                names.join(", ")
            ))
        })
    }
}

/// How many servers hold a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// So many.
    Count(usize),
    /// ⌈N/2⌉ of N.
    Half,
    /// All of them.
    All,
}

impl Replicas {
    fn of(self, servers: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Half => servers.div_ceil(2),
            Self::All => servers,
        }
    }
}

impl<'de> Deserialize<'de> for Replicas {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = number_or_word(deserializer)?;
        match text.as_str() {
            "half" => Ok(Self::Half),
            "all" => Ok(Self::All),
            _ => match text.parse() {
                Ok(count) if count >= 1 => Ok(Self::Count(count)),
                _ => Err(serde::de::Error::custom(format!(
                    "`{text}` is no number of replicas; write 1 or more, \"half\" or \"all\""
                ))),
            },
        }
    }
}

/// When a read is tried at the next holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FallBack {
    /// The server said so, was lost, or took too long.
    Error,
    /// The key was not found.
    Miss,
}

/// A server: `"host:port"`, or a table with its weight and the name that placement knows it by.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenServer")]
pub struct ServerConfig {
    /// Where it listens.
    pub address: Address,
    /// How much of the keys it gets, in proportion to the others.
    pub weight: u32,
    /// What placement hashes; none: its address.
    pub name: Option<String>,
    /// Whether each address that the name has is a server of its own.
    pub every_address: bool,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a server is \"host:port\" or { address = \"host:port\", weight = 1, name = \"…\" }"
)]
enum WrittenServer {
    Plain(Address),
    #[serde(rename_all = "snake_case")]
    Table(TableServer),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableServer {
    address: Address,
    #[serde(default = "one")]
    weight: u32,
    name: Option<String>,
    #[serde(default)]
    every_address: bool,
}

fn one() -> u32 {
    1
}

impl From<WrittenServer> for ServerConfig {
    fn from(written: WrittenServer) -> Self {
        match written {
            WrittenServer::Plain(address) => address.into(),
            WrittenServer::Table(TableServer { address, weight, name, every_address }) => {
                Self { address, weight, name, every_address }
            }
        }
    }
}

impl From<Address> for ServerConfig {
    fn from(address: Address) -> Self {
        Self { address, weight: 1, name: None, every_address: false }
    }
}

/// Keys with a prefix that belong to another pool: `[[routes]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// What the key begins with.
    pub prefix: String,
    /// The pool's name.
    pub pool: String,
    /// Whether servers see the key without the prefix.
    #[serde(default)]
    pub strip: bool,
    /// What servers see before the key.
    #[serde(default)]
    pub add: String,
}

/// Expiry times that memcached takes as lengths, at most.
const LONGEST_TTL: Nanos = Nanos::from_secs(60 * 60 * 24 * 30);

impl PoolConfig {
    /// The pool for the core. `server` gives a server its place, `pool` finds a pool by its name.
    pub(super) fn spec(
        &self,
        name: &str,
        mut server: impl FnMut(&Address) -> usize,
        pool: impl Fn(&str) -> Option<usize>,
    ) -> Result<PoolSpec, String> {
        let count = self.servers.len();
        let wrong = |key: &str, why: String| format!("pool {name}: `{key}` {why}");
        if count == 0 {
            return Err(wrong("servers", "names no server".into()));
        }
        for (place, one) in self.servers.iter().enumerate() {
            if self.servers[..place].iter().any(|other| other.address == one.address) {
                return Err(wrong("servers", format!("names {} twice", one.address)));
            }
            if one.address.port == 0 && one.address.file().is_none() {
                return Err(wrong("servers", format!("names {}, and no server has port 0", one.address)));
            }
        }
        if let Some(one) = self.servers.iter().find(|one| one.every_address && one.name.is_some()) {
            return Err(wrong("servers", format!("gives all addresses of {} one name", one.address)));
        }
        let placement = match self.distribution {
            Spread::All => None,
            Spread::By(distribution) => {
                let tag = self.hash_tag.as_deref().map(|tag| self.tag(tag, name)).transpose()?;
                let members: Vec<Member> = self.servers.iter().map(ServerConfig::member).collect();
                let made = Placement::new(distribution, self.hash, tag, &members);
                Some(made.map_err(|why| format!("pool {name}: {why}"))?)
            }
        };
        let copies = match placement {
            None => count,
            Some(_) => self.replicas.of(count),
        };
        let counted = !self.servers.iter().any(|one| one.every_address);
        if copies > count && counted {
            return Err(wrong("replicas", format!("is {copies}, and there are {count} servers")));
        }
        for (key, value) in [
            ("retry_budget", Some(self.retry_budget)),
            ("hedge_budget", Some(self.hedge_budget)),
            ("shadow_share", Some(self.shadow_share)),
            ("hedge_after", self.hedge_after),
        ] {
            if value.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
                return Err(wrong(key, format!("is {}, and must be from 0 to 1", value.unwrap_or_default())));
            }
        }
        if let Some(rate) = self.rate
            && (!rate.is_finite() || rate <= 0.0)
        {
            return Err(wrong("rate", format!("is {rate}, and must be above 0")));
        }
        for (key, value) in [("concurrency", self.concurrency), ("readers", self.readers)] {
            if value == Some(0) {
                return Err(wrong(key, "is 0, and must be at least 1".into()));
            }
        }
        let seconds = |key: &str, ttl: Nanos| {
            if ttl < Nanos::from_secs(1) || ttl > LONGEST_TTL {
                return Err(wrong(key, format!("is {ttl}, and must be from 1s to 30 days (720h)")));
            }
            Ok((ttl.0 / 1_000_000_000) as i32)
        };
        let named = |key: &str, other: &Option<String>| match other {
            None => Ok(None),
            Some(other) if other == name => Err(wrong(key, "names the pool itself".into())),
            Some(other) => match pool(other) {
                Some(found) => Ok(Some(found)),
                None => Err(wrong(key, format!("names `{other}`, and there is no such pool"))),
            },
        };
        let stand_in = |key: &str, other: &Option<String>, ttl: (&str, Nanos)| {
            let found = named(key, other)?;
            found.map(|pool| Ok::<_, String>(StandIn { pool, ttl: seconds(ttl.0, ttl.1)? })).transpose()
        };
        let shadow = named("shadow", &self.shadow)?;
        Ok(PoolSpec {
            name: name.to_owned(),
            servers: self.servers.iter().map(|one| server(&one.address)).collect(),
            placement,
            copies: copies.min(count),
            writes: self.writes,
            reads: self.reads,
            multi_get: self.multi_get,
            when_down: self.when_down,
            gutter: stand_in("gutter", &self.gutter, ("gutter_ttl", self.gutter_ttl))?,
            fall_back_on_error: self.fall_back.contains(&FallBack::Error),
            fall_back_on_miss: self.fall_back.contains(&FallBack::Miss),
            retry_budget: self.retry_budget,
            refill: self.refill_ttl.map(|ttl| seconds("refill_ttl", ttl)).transpose()?,
            warm: stand_in("warm_from", &self.warm_from, ("warm_ttl", self.warm_ttl))?,
            shadow: shadow.map(|pool| Shadow { pool, share: self.shadow_share }),
            coalesce: self.coalesce,
            rate: self.rate,
            concurrency: self.concurrency,
            ttl_cap: self.ttl_cap.map(|ttl| seconds("ttl_cap", ttl)).transpose()?,
            readers: self.readers,
            hedge: self.hedge_after.map(|quantile| Hedge { quantile, budget: self.hedge_budget }),
        })
    }

    /// The pool's part of a commented file.
    pub(super) fn commented(&self) -> String {
        let servers: Vec<_> = self.servers.iter().map(|server| format!("\"{}\"", server.address)).collect();
        let multi_get = match self.multi_get {
            MultiGet::Whole => "whole",
            MultiGet::Sharded => "sharded",
        };
        format!(
            "\
# The servers, in order. {{ address = \"host:port\", weight = 2, name = \"b\" }} gives one a weight and the name by which keys are
# placed; with every_address = true each address that the name has is a server of its own. The first holder of a key gives out its cas uniques.
servers = [{servers}]

# Who holds a key: \"all\" servers, or some by \"ketama\" (as twemproxy and weighted libmemcached), \"consistent\" (unweighted
# libmemcached), \"rendezvous\", \"jump\", \"modulo\" or \"ch3\" (as mcrouter). By `hash` a key becomes a number: fnv1a_64, murmur3,
# crc32, md5, xxh3, one_at_a_time, ... With a `hash_tag` only what stands between its two characters is hashed.
# distribution = \"all\"
# hash = \"fnv1a_64\"
# hash_tag = \"{{}}\"

# How many servers hold a key that is placed: a number, \"half\" (rounded up) or \"all\".
# replicas = 1

# When a write to several holders is done: when \"all\" have answered, a \"quorum\" have, the \"first\" has, or when the primary
# has and the others get copies behind it (\"async\").
# writes = \"all\"

# Which holder is read: the one with the \"least_work\" given, the \"least_outstanding\" answers, the better of \"two_choices\",
# \"round_robin\", or the \"primary\".
# reads = \"least_work\"

# What to do with a get of several keys where all servers hold everything: \"whole\" sends it to one server,
# \"sharded\" asks every server for an even share of the keys.
multi_get = \"{multi_get}\"

# What to do where a key's holder is down: \"error\" says so, \"next\" takes the next server until it is back. A `gutter` is a
# pool that takes over where all holders are down; what it stores lives for `gutter_ttl`.
# when_down = \"error\"
# gutter = \"spare\"
# gutter_ttl = \"10s\"

# Reads that are tried at the next holder: after an \"error\" (within `retry_budget`, a share of all reads), after a \"miss\" (with
# `refill_ttl` what is found is stored where it was missed).
# fall_back = []
# retry_budget = 0.2
# refill_ttl = \"60s\"

# Another pool that is asked for what is not found here; what it has is stored here for `warm_ttl`.
# warm_from = \"old\"
# warm_ttl = \"1h\"

# Another pool that gets a copy of this share of the requests. Its answers are dropped.
# shadow = \"canary\"
# shadow_share = 1.0

# Whether a get waits for the answer to the same get already under way.
# coalesce = false

# Requests per second and requests at once; beyond that they are refused.
# rate = 100000
# concurrency = 1000

# The longest time a value may live; longer ones, and those without end, are cut.
# ttl_cap = \"24h\"

# After which quantile of recent times a read is sent to a second holder, and for how many of all reads at most.
# hedge_after = 0.99
# hedge_budget = 0.05

# A queue and so many readers for each server: a reader takes one read, or its server's part of one, and holds it until the answer
# has come. Writes do not wait. Without it, reads and writes alike take one of the `workers`.
# readers = 8
",
            servers = servers.join(", "),
        )
    }

    fn tag(&self, tag: &str, name: &str) -> Result<(u8, u8), String> {
        match tag.as_bytes() {
            &[open, close] => Ok((open, close)),
            _ => Err(format!(
                "pool {name}: `hash_tag` is `{tag}`, and must be two characters such as \"{{}}\""
            )),
        }
    }
}

impl ServerConfig {
    fn member(&self) -> Member {
        match &self.name {
            Some(name) => Member { name: name.clone(), weight: self.weight },
            None => Member::unnamed(&self.address.host, self.address.port, self.weight),
        }
    }
}
