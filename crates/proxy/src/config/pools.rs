//! What a pool is told: its servers, which of them holds a key, and how it is read and written.

use krarup_settings::kind::{
    ADDRESS, BANDWIDTH, Count, CustomText, Duration, List, MONTH, Number, Optional, Switch, TEXT, TableOr,
    Word,
};
use krarup_settings::{Flag, Mistake, settings};
use krarup_units::{Address, Nanos};

use crate::placement::{KeyDistribution, KeyHash, Member, Placement};
use crate::topology::{Hedge, MultiGet, PoolSpec, Reads, Shadow, StandIn, WhenDown, Writes};

/// How long values may live that memcached is given a length of time for.
const TTL: Duration = Duration::between(Nanos::from_secs(1), MONTH);

settings! {
    /// One pool as it stands in the configuration: at its top level, or under `[pools.NAME]`.
    #[derive(Clone, Debug)]
    pub struct PoolConfig {
        /// Where clients connect whose keys belong to this pool; none: where all do.
        listen: Option<Address> = None, Optional(ADDRESS), example = "\"127.0.0.1:11311\"";
        /// The servers, in order. { address = "host:port", weight = 2, name = "b" } gives one a
        /// weight and the name by which keys are placed; with every_address = true each address
        /// that the name has is a server of its own. "srv:_memcache._tcp.cache.example" are all
        /// servers that DNS knows of this service, placed by their names. cpu = 0.5 and
        /// link = "1Gbit/s" say what it may use, for the headroom. The first holder of a key gives
        /// out its cas uniques.
        servers: Vec<ServerConfig> = Vec::new(), List(SERVER),
            flag = Some(Flag::new("servers", "HOST:PORT").short('m').many());
        /// Which servers hold a key: "all" of them, or some by "ketama" (as twemproxy and weighted
        /// libmemcached), "consistent" (unweighted libmemcached), "rendezvous", "jump", "modulo" or
        /// "ch3" (as mcrouter).
        distribution: KeySpread = KeySpread::All, SPREAD, flag = Some(Flag::of_key("NAME")), words = distributions;
        /// By which function a key becomes a number: fnv1a_64, murmur3, crc32, md5, xxh3,
        /// one_at_a_time, ... None: libmemcached's own, one_at_a_time, for "consistent", and
        /// twemproxy's, fnv1a_64, for the others.
        hash: Option<KeyHash> = None, Optional(HASH), example = "\"xxh3\"", flag = Some(Flag::of_key("FUNCTION")),
            words = || KeyHash::ALL.iter().map(|(_, name)| *name).collect();
        /// Two characters: only what stands between them in a key that is placed is hashed.
        hash_tag: Option<String> = None, Optional(TEXT), example = "\"{}\"";
        /// How many servers hold a key that is placed: a number, "half" (rounded up) or "all".
        replicas: Replicas = Replicas::Count(1), REPLICAS, flag = Some(Flag::of_key("COUNT")), words = || vec!["2", "half", "all"];
        /// When a write to several holders is done: when "all" have answered, a "quorum" have, the
        /// "first" has, or when the primary has and the others get copies behind it ("async").
        writes: Writes = Writes::All, Word(&[
            (Writes::All, "all"),
            (Writes::Quorum, "quorum"),
            (Writes::First, "first"),
            (Writes::Async, "async"),
        ]);
        /// Which holder is read: the one with the "least_work" given, the "least_outstanding"
        /// answers, the better of "two_choices", "round_robin", or the "primary".
        reads: Reads = Reads::LeastWork, Word(&[
            (Reads::LeastWork, "least_work"),
            (Reads::LeastOutstanding, "least_outstanding"),
            (Reads::TwoChoices, "two_choices"),
            (Reads::RoundRobin, "round_robin"),
            (Reads::Primary, "primary"),
        ]);
        /// What to do with a get of several keys where all servers hold everything: "whole" sends
        /// it to one server, "sharded" asks every server for an even share of the keys.
        multi_get: MultiGet = MultiGet::Whole, Word(&[(MultiGet::Whole, "whole"), (MultiGet::Sharded, "sharded")]);
        /// What to do where a key's holder is down: "error" says so, "next" takes the next server
        /// until it is back.
        when_down: WhenDown = WhenDown::Error, Word(&[(WhenDown::Error, "error"), (WhenDown::Next, "next")]);
        /// A pool that takes over where all holders are down. Where several pools have the same
        /// one, it tells their values apart by their keys alone.
        gutter: Option<String> = None, Optional(TEXT), example = "\"spare\"";
        /// How long values live that it stores.
        gutter_ttl: Nanos = Nanos::from_secs(10), TTL;
        /// Reads that are tried at the next holder, where a key has several: after an "error",
        /// after a "miss".
        fall_back: Vec<FallBack> = Vec::new(), List(Word(&[(FallBack::Error, "error"), (FallBack::Miss, "miss")]));
        /// How many reads may be tried again after an error, as a share of all.
        retry_budget: f64 = 0.2, Number::SHARE;
        /// How long a value lives that was found after a miss and is stored where it was missed, at
        /// a server that came up less than so long ago. It is not stored unless this is given, and
        /// `fall_back` has "miss".
        refill_ttl: Option<Nanos> = None, Optional(TTL), example = "\"60s\"";
        /// Another pool that is asked for what is not found here; what it has is stored here.
        warm_from: Option<String> = None, Optional(TEXT), example = "\"old\"";
        /// How long values live that were found there.
        warm_ttl: Nanos = Nanos::from_secs(3_600), TTL;
        /// Another pool that gets a copy of requests. Its answers are dropped.
        shadow: Option<String> = None, Optional(TEXT), example = "\"canary\"";
        /// Of how many requests, as a share of all.
        shadow_share: f64 = 1.0, Number::SHARE;
        /// Whether a get waits for the answer to the same get already under way.
        coalesce: bool = false, Switch;
        /// Requests per second; beyond that they are refused.
        rate: Option<f64> = None, Optional(Number::POSITIVE), example = "100000";
        /// Requests at once; beyond that they are refused.
        concurrency: Option<u32> = None, Optional(Count::from(1)), example = "1000";
        /// The longest time a value may live; longer ones, and those without end, are cut.
        ttl_cap: Option<Nanos> = None, Optional(TTL), example = "\"24h\"";
        /// After which quantile of recent times a read is sent to a second holder, where a key has
        /// one. Never unless it is given. Where missing keys are looked for elsewhere (`fall_back`
        /// on a miss, `warm_from`), an answer that lacks keys counts only once the other holder has
        /// answered.
        hedge_after: Option<f64> = None, Optional(Number::SHARE), example = "0.99";
        /// How many reads may be, as a share of all. What 4,000 reads earn is saved up at most, for
        /// a server that stands still for a moment.
        hedge_budget: f64 = 0.05, Number::SHARE;
        /// A holder whose reads take, in the mean of a second, so many times as long as the median
        /// of the others' is ejected: it gets no reads for `eject_for`, then a growing share. It
        /// needs copies; half of the servers stay at least. Never unless it is given.
        eject_slower: Option<f64> = None, Optional(Number::MULTIPLE), example = "3.0";
        /// A queue and so many readers for each server: a reader takes one read, or its server's
        /// part of one, and holds it until the answer has come. Writes do not wait. Without it,
        /// reads and writes alike take one of the `workers`.
        readers: Option<u32> = None, Optional(Count::from(1)), example = "8";
    }
}

/// Who holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpread {
    /// Every server of the pool: `all`.
    All,
    /// Some of them.
    By(KeyDistribution),
}

/// Every word for who holds a key.
fn distributions() -> Vec<&'static str> {
    std::iter::once("all").chain(KeyDistribution::ALL.iter().map(|(_, name)| *name)).collect()
}

const SPREAD: CustomText<KeySpread> = CustomText {
    read: |text| match text {
        "all" => Ok(KeySpread::All),
        // libmemcached's and twemproxy's own names.
        "modula" => Ok(KeySpread::By(KeyDistribution::Modulo)),
        "ketama_libmemcached" => Ok(KeySpread::By(KeyDistribution::KetamaLibmemcached)),
        _ => match KeyDistribution::ALL.iter().find(|(_, name)| *name == text) {
            Some((distribution, _)) => Ok(KeySpread::By(*distribution)),
            None => {
                let what = format!("`{text}` is no distribution");
                Err(Mistake::none_of(what, text, distributions().into_iter()))
            }
        },
    },
    write: |spread| match spread {
        KeySpread::All => "all".to_owned(),
        KeySpread::By(distribution) => distribution.name().to_owned(),
    },
};

const HASH: CustomText<KeyHash> = CustomText {
    read: |text| {
        // twemproxy's own name.
        let text = if text == "default" { KeyHash::OneAtATime.name() } else { text };
        Word(&KeyHash::ALL).of("hash", text)
    },
    write: |hash| hash.name().to_owned(),
};

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

const REPLICAS: CustomText<Replicas> = CustomText {
    read: |text| match (text, text.parse()) {
        ("half", _) => Ok(Replicas::Half),
        ("all", _) => Ok(Replicas::All),
        (_, Ok(count)) if count >= 1 => Ok(Replicas::Count(count)),
        _ => {
            let what = format!("`{text}` is no number of replicas");
            Err(Mistake::new(what, "write 1 or more, \"half\" or \"all\""))
        }
    },
    write: |replicas| match replicas {
        Replicas::Count(count) => count.to_string(),
        Replicas::Half => "half".to_owned(),
        Replicas::All => "all".to_owned(),
    },
};

/// When a read is tried at the next holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallBack {
    /// The server said so, was lost, or took too long.
    Error,
    /// The key was not found.
    Miss,
}

settings! {
    /// A server: `"host:port"`, or a table with its weight, the name that placement knows it by,
    /// and what it may use.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ServerConfig {
        /// Where it listens.
        address: Address = Address { host: String::new(), port: 0 }, ADDRESS, required = true;
        /// How much of the keys it gets, in proportion to the others.
        weight: u32 = 1, Count::from(0);
        /// What placement hashes; none: its address.
        name: Option<String> = None, Optional(TEXT);
        /// Whether each address that the name has is a server of its own.
        every_address: bool = false, Switch;
        /// Processors that it may use, where a quota says so: the headroom cannot see a quota
        /// before it is met.
        cpu: Option<f64> = None, Optional(Number::between(0.001, 1_024.0)), example = "0.5";
        /// Bits per second of the link to it: the headroom cannot see an allowance of it before it
        /// is used up.
        link: Option<f64> = None, Optional(BANDWIDTH), example = "\"1Gbit/s\"";
    }
}

/// A server as a file has it: its address alone, or a table.
const SERVER: TableOr<CustomText<Address>, Address, ServerConfig> = TableOr {
    short: ADDRESS,
    read: |address| Ok(address.into()),
    write: |server| Some(server.address.clone()).filter(|address| *server == address.clone().into()),
};

impl From<Address> for ServerConfig {
    fn from(address: Address) -> Self {
        Self { address, ..Self::default() }
    }
}

impl ServerConfig {
    /// Whether it stands for as many servers as a name service knows.
    pub fn is_many(&self) -> bool {
        self.every_address || self.address.service().is_some()
    }
}

settings! {
    /// Keys with a prefix that belong to another pool: `[[routes]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RouteConfig {
        /// What the key begins with.
        prefix: String = String::new(), TEXT, required = true;
        /// The pool's name.
        pool: String = String::new(), TEXT, required = true;
        /// Whether servers see the key without the prefix.
        strip: bool = false, Switch;
        /// What servers see before the key.
        add: String = String::new(), TEXT;
    }
}

impl RouteConfig {
    /// What the keys begin with as servers see them.
    fn front(&self) -> String {
        [self.add.as_str(), if self.strip { "" } else { self.prefix.as_str() }].concat()
    }
}

/// Whether keys of two pools may be the same to a server. They come by a route, none: as clients of
/// an address write them; a route's `add` is taken for one that no client writes.
pub(super) fn may_meet(one: Option<&RouteConfig>, other: Option<&RouteConfig>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(route), None) | (None, Some(route)) => route.front().is_empty(),
        (Some(one), Some(other)) => {
            let apart = !one.strip && !other.strip && one.add == other.add;
            let (one, other) = (one.front(), other.front());
            !apart && (one.starts_with(&other) || other.starts_with(&one))
        }
    }
}

impl PoolConfig {
    /// The pool for the core. `server` gives a server its place, `pool` finds a pool by its name.
    pub(crate) fn spec(
        &self,
        name: &str,
        mut server: impl FnMut(&Address) -> usize,
        pool: impl Fn(&str) -> Option<usize>,
    ) -> Result<PoolSpec, Mistake> {
        let count = self.servers.len();
        let wrong = |key: &str, why: String| Mistake::plain(format!("pool {name}: `{key}` {why}"));
        if count == 0 {
            return Err(wrong("servers", "names no server".into()));
        }
        for (place, one) in self.servers.iter().enumerate() {
            if self.servers[..place].iter().any(|other| other.address == one.address) {
                return Err(wrong("servers", format!("names {} twice", one.address)));
            }
            if one.address.port == 0 && one.address.file().is_none() && one.address.service().is_none() {
                return Err(wrong("servers", format!("names {}, and no server has port 0", one.address)));
            }
        }
        if let Some(one) = self.servers.iter().find(|one| one.is_many() && one.name.is_some()) {
            return Err(wrong("servers", format!("gives all addresses of {} one name", one.address)));
        }
        let placement = match self.distribution {
            KeySpread::All => None,
            KeySpread::By(distribution) => {
                let tag = self.hash_tag.as_deref().map(|tag| self.tag(tag, name)).transpose()?;
                let members: Vec<Member> = self.servers.iter().map(ServerConfig::member).collect();
                let hash = self.hash.unwrap_or_else(|| distribution.usual_hash());
                let made = Placement::new(distribution, hash, tag, &members);
                Some(made.map_err(|why| why.within(&format!("pool {name}")))?)
            }
        };
        let copies = match placement {
            None => count,
            Some(_) => self.replicas.of(count),
        };
        let counted = !self.servers.iter().any(ServerConfig::is_many);
        if copies > count && counted {
            return Err(wrong("replicas", format!("is {copies}, and there are {count} servers")));
        }
        let seconds = |ttl: Nanos| (ttl.0 / 1_000_000_000) as i32;
        let named = |key: &str, other: &Option<String>| match other {
            None => Ok(None),
            Some(other) if other == name => Err(wrong(key, "names the pool itself".into())),
            Some(other) => match pool(other) {
                Some(found) => Ok(Some(found)),
                None => Err(wrong(key, format!("names `{other}`, and there is no such pool"))),
            },
        };
        let stand_in = |key: &str, other: &Option<String>, ttl: Nanos| {
            Ok::<_, Mistake>(named(key, other)?.map(|pool| StandIn { pool, ttl: seconds(ttl) }))
        };
        let shadow = named("shadow", &self.shadow)?;
        Ok(PoolSpec {
            name: name.to_owned(),
            servers: self.servers.iter().map(|one| server(&one.address)).collect(),
            listens: false,
            placement,
            copies: copies.min(count),
            writes: self.writes,
            reads: self.reads,
            multi_get: self.multi_get,
            when_down: self.when_down,
            gutter: stand_in("gutter", &self.gutter, self.gutter_ttl)?,
            fall_back_on_error: self.fall_back.contains(&FallBack::Error),
            fall_back_on_miss: self.fall_back.contains(&FallBack::Miss),
            retry_budget: self.retry_budget,
            refill: self.refill_ttl.map(seconds),
            warm: stand_in("warm_from", &self.warm_from, self.warm_ttl)?,
            shadow: shadow.map(|pool| Shadow { pool, share: self.shadow_share }),
            coalesce: self.coalesce,
            rate: self.rate,
            concurrency: self.concurrency,
            loops: 1,
            ttl_cap: self.ttl_cap.map(seconds),
            readers: self.readers,
            hedge: self.hedge_after.map(|quantile| Hedge { quantile, budget: self.hedge_budget }),
            eject_slower: self.eject_slower,
            successor_of: Vec::new(),
        })
    }

    /// Keys that are set and do nothing beside the others; `name` is the pool's.
    pub(super) fn without_effect(&self, name: &str) -> Vec<String> {
        let (is_placed, servers) = (self.distribution != KeySpread::All, self.servers.len());
        let holders = if is_placed { self.replicas.of(servers) } else { servers };
        let has_one = is_placed && self.replicas == Replicas::Count(1);
        let is_alone = has_one || (holders == 1 && !self.servers.iter().any(ServerConfig::is_many));
        let falls_back = !self.fall_back.is_empty() && self.when_down == WhenDown::Error;
        let placing = "places keys, and every server holds a copy of everything; `distribution` says by what \
                       they are placed, as \"ketama\"";
        let unplaced = "finds the next server by how a key is placed, and every server holds a copy of \
                        everything; `distribution` says by what keys are placed, as \"ketama\"";
        let unfound = "stores what was found after a miss, and `fall_back` has no \"miss\"";
        let alone = "needs copies, and every key has one holder";
        [
            ("replicas", !is_placed && !matches!(self.replicas, Replicas::Count(1) | Replicas::All), placing),
            ("hash_tag", !is_placed && self.hash_tag.is_some(), placing),
            ("when_down", !is_placed && self.when_down == WhenDown::Next, unplaced),
            ("fall_back", is_alone && falls_back, alone),
            ("refill_ttl", is_alone && self.refill_ttl.is_some(), alone),
            (
                "refill_ttl",
                !is_alone && self.refill_ttl.is_some() && !self.fall_back.contains(&FallBack::Miss),
                unfound,
            ),
            ("hedge_after", is_alone && self.hedge_after.is_some(), alone),
            ("eject_slower", is_alone && self.eject_slower.is_some(), alone),
        ]
        .into_iter()
        .filter(|(_, is_so, _)| *is_so)
        .map(|(key, _, why)| format!("pool {name}: `{key}` {why}"))
        .collect()
    }

    fn tag(&self, tag: &str, name: &str) -> Result<(u8, u8), Mistake> {
        match tag.as_bytes() {
            &[open, close] => Ok((open, close)),
            _ => Err(Mistake::plain(format!(
                "pool {name}: `hash_tag` is `{tag}`, and must be two characters such as \"{{}}\""
            ))),
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
