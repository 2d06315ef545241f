//! What the proxy is told: a table of settings, and what cannot be seen setting by setting.

use std::collections::BTreeMap;
use std::path::PathBuf;

use krarup_memcache::Limits;
use krarup_model::headroom::ResponseTarget;
use krarup_settings::kind::{
    ADDRESS, BANDWIDTH, Count, CustomText, DAY, Duration, FILE, MONTH, Optional, OrWords, Sections,
    SettingsSection, Size, Switch, TEXT, Unwritten, Word,
};
use krarup_settings::{
    Flag, Mistake, Mistakes, Setting, SettingsTable, check, commented, differing, read, settings,
};
use krarup_units::{Address, Nanos};

use crate::dispatch::{WorkerSetting, Workers};
use crate::edge::{Dangerous, Edge};
use crate::engine::{Engine, ThreadDesign};
use crate::hot_keys::HotKeyMode;
use crate::placement::KeyHash;
use crate::settings::CoreSettings;
use crate::topology::{PoolSpec, Reads, Route, Topology};

mod pools;

use pools::may_meet;
pub use pools::{FallBack, KeySpread, PoolConfig, Replicas, RouteConfig, ServerConfig};

/// The name of the pool at the top level.
const MAIN: &str = "main";
const MILLISECOND: Nanos = Nanos::from_millis(1);

settings! {
    /// Everything that can be configured.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// Where clients connect: HOST:PORT or unix:/PATH. 127.0.0.1 is this machine only.
        listen: Address = Address { host: "127.0.0.1".into(), port: 11_211 }, ADDRESS,
            flag = Some(Flag::new("listen", "ADDRESS"));
        /// The pool that stands at the top level of a file. Where it has no server there is none of
        /// it.
        main: PoolConfig = PoolConfig::default(), Unwritten, key = "";
        /// Further pools have all the keys of the pool above, and may have an address of their own:
        /// keys of clients that connect there belong to them.
        pools: BTreeMap<String, PoolConfig> = BTreeMap::new(), Sections("pools"), section = true,
            example = "[pools.users]\nlisten = \"127.0.0.1:11311\"\n\
                servers = [\"127.0.0.1:11214\", { address = \"127.0.0.1:11215\", weight = 2, name = \"large\" }]\n\
                distribution = \"ketama\"";
        /// The pool of clients that connect to `listen`. Unless it is given: the one whose servers
        /// are named above, or else the first by name.
        default_pool: Option<String> = None, Optional(TEXT), example = "\"main\"";
        /// Keys that begin with a prefix belong to its pool, whichever client asks; the longest
        /// prefix decides. With `strip` servers see the key without the prefix, with `add` behind
        /// another one.
        routes: Vec<RouteConfig> = Vec::new(), Sections("routes"), section = true,
            example = "[[routes]]\nprefix = \"user:\"\npool = \"users\"\nstrip = false\nadd = \"\"";
        /// How many requests may be with the servers at once: a number, or "unlimited", which takes
        /// the queue out of the path. The others wait in the queue, and how long is measured.
        /// "auto": the fewest that keep the server that is full first busy, 4 to 256.
        workers: WorkerSetting = WorkerSetting::Fixed(Workers::Unlimited), OrWords(WORKERS, &["auto", "unlimited"]),
            flag = Some(Flag::new("workers", "WORKERS").short('t'));
        /// How many requests may wait for a worker. Beyond that clients are not listened to.
        queue: usize = 65_536, Count::from(1);
        /// How many requests of one client may be under way. Beyond that it is not listened to.
        pipeline: u32 = 1_024, Count::from(1);
        /// How many bytes of replies may wait for a client that does not read. Beyond that it is
        /// not listened to.
        reply_buffer: usize = 1 << 20, Size::from(4_096);
        /// The largest value taken from a client. A larger one is refused with memcached's own
        /// text.
        max_value: usize = 1 << 20, Size::between(1, 1 << 30);
        /// How many clients may be connected. One more is told so and turned away.
        max_connections: usize = 16_384, Count::from(1);
        /// How long a server may take to answer. Beyond that it counts as lost, and everything
        /// asked of it is answered with SERVER_ERROR and its name.
        timeout: Nanos = Nanos::from_secs(5), Duration::between(MILLISECOND, DAY);
        /// How long making a connection to a server may take.
        connect_timeout: Nanos = Nanos::from_secs(1), Duration::between(MILLISECOND, DAY);
        /// How long to wait before connecting to a lost server again. The wait doubles with each
        /// failure.
        reconnect_after: Nanos = Nanos::from_millis(20), Duration::between(MILLISECOND, DAY);
        /// The longest such wait; it is never below `reconnect_after`.
        reconnect_at_most: Nanos = Nanos::from_secs(2), Duration::between(MILLISECOND, DAY);
        /// How many of the slowest requests of each second are kept with all their stamps:
        /// `stats slow` shows them. 0 keeps none.
        slow_requests: usize = 5, Count::between(0, 1_000);
        /// What is kept of the keys that take most of the servers' time and of the bytes, for
        /// `stats hotkeys` and /hotkeys: a "digest" of each key, its "name", which those that may
        /// ask can read, or nothing ("off").
        hot_keys: HotKeyMode = HotKeyMode::Digest, Word(&HotKeyMode::ALL);
        /// How often the names of servers are looked up again; 0 is never.
        resolve_every: Nanos = Nanos::from_secs(30), Duration::up_to(DAY);
        /// How often the configuration's file, and those that it names (certificates, keys, users,
        /// the login), are looked at, and read again where what they hold has changed; 0 is never:
        /// they are read again when that is asked for.
        reload_every: Nanos = Nanos::ZERO, Duration::up_to(DAY);
        /// A server that fails so many times in a row, with no request answered between, is
        /// ejected. Never unless it is given.
        eject_after: Option<u32> = None, Optional(Count::from(1)), example = "5";
        /// How long an ejected server is left alone.
        eject_for: Nanos = Nanos::from_secs(10), Duration::up_to(MONTH);
        /// Over which time an ejected server that is back gets its full share of reads again.
        return_over: Nanos = Nanos::from_secs(10), Duration::up_to(MONTH);
        /// How long connected clients are still served after a stop was asked for; no other client
        /// may connect meanwhile. The proxy stops when all have left, after this time, or when a
        /// stop is asked for again. 0: it stops at once.
        drain: Nanos = Nanos::ZERO, Duration::up_to(DAY);
        /// How long requests in flight may take once it stops.
        shutdown_limit: Nanos = Nanos::from_secs(5), Duration::up_to(DAY);
        /// While servers work, and answer within this time, the loop waits for the next answer
        /// before it reads more requests, so that one system call carries many. With nothing under
        /// way nothing waits. 0 never waits.
        hold: Nanos = Nanos::from_micros(200), Duration::up_to(Nanos::from_millis(10));
        /// How many event loops there are, each a thread with clients and server connections of its
        /// own; more than one helps where one uses a whole processor. They share the queue and the
        /// workers; of a pool's `rate` and `concurrency`, and of `memory` and
        /// `max_unauthenticated`, each has an even share.
        threads: usize = 1, Count::between(1, 64), restart = true, flag = Some(Flag::new("threads", "COUNT"));
        /// How many connections each loop has to each server. Clients use them in turn, each the
        /// same one all the time.
        server_connections: u32 = 1, Count::between(1, 64), restart = true;
        /// Whether each client has connections of its own to the servers that it asks, made when
        /// they are first needed: then no client waits for another's answers.
        dedicated: bool = false, Switch, restart = true;
        /// What moves the bytes: "events", loops in which a worker is a place in a table; or
        /// "threads", the textbook's design, in which every worker (or reader) is a thread with a
        /// blocking connection to every server. For experiments.
        engine: Engine = Engine::Events, Word(&[(Engine::Events, "events"), (Engine::Threads, "threads")]), restart = true,
            flag = Some(Flag::new("engine", "ENGINE"));
        /// How the outside is met.
        edge: Edge = Edge::default(), SettingsSection("edge"), section = true;
        /// Where monitoring asks over HTTP: /metrics for Prometheus, /health, /ready, /headroom,
        /// /hotkeys. Nowhere unless it is given.
        admin: Option<Address> = None, Optional(ADDRESS), example = "\"127.0.0.1:9151\"", flag = Some(Flag::new("admin", "HOST:PORT"));
        /// The response time that clients need: a percentile and a time. /headroom says up to which
        /// rate of requests it holds, and metrics with it; without it, at which rate the first
        /// resource is full.
        headroom_target: Option<ResponseTarget> = None, Optional(TARGET), example = "\"p99 < 8ms\"",
            flag = Some(Flag::new("headroom-target", "TARGET"));
        /// Bits per second that each of this machine's links carries in either direction, where the
        /// kernel does not know its rate, as of virtual network cards.
        link: Option<f64> = None, Optional(BANDWIDTH), example = "\"10Gbit/s\"";
        /// Whether /headroom asks the servers with `stats` how much of their memory, connections
        /// and processors they use, at most once in ten seconds.
        server_stats: bool = false, Switch;
        /// A file that proxies before the same servers share: while one of them has a redline under
        /// way, no other begins one. It says which server was pushed when, for a day. Write its
        /// whole path: another one begins where the proxy is started.
        redline_lock: Option<PathBuf> = None, Optional(FILE), example = "\"/var/lib/krarup-proxy/redline\"";
    }
    // The top level holds the keys of one pool beside those of the proxy.
    beside main: PoolConfig;
}

/// A percentile and a time: `p99 < 8ms`.
const TARGET: CustomText<ResponseTarget> =
    CustomText { read: |text| text.parse(), write: ResponseTarget::to_string };

/// A number of workers, `unlimited` or `auto`.
const WORKERS: CustomText<WorkerSetting> = CustomText {
    read: |text| match text.parse() {
        Ok(limit) if limit >= 1 => Ok(WorkerSetting::Fixed(Workers::Limited(limit))),
        _ if text == "unlimited" => Ok(WorkerSetting::Fixed(Workers::Unlimited)),
        _ if text == "auto" => Ok(WorkerSetting::Automatic),
        _ => {
            let what = format!("`{text}` is no number of workers");
            Err(Mistake::new(what, "write 1 or more, \"unlimited\" or \"auto\""))
        }
    },
    write: |workers| match workers {
        WorkerSetting::Fixed(Workers::Unlimited) => "unlimited".to_owned(),
        WorkerSetting::Fixed(Workers::Limited(workers)) => workers.to_string(),
        WorkerSetting::Automatic => "auto".to_owned(),
    },
};

impl Config {
    /// Reads a configuration file's text.
    ///
    /// # Errors
    /// Every mistake with its line, the key and what would be understood; `name` is the file's.
    pub fn parse(text: &str, name: &str) -> Result<Self, Mistakes> {
        read(text, name)
    }

    /// Whether a proxy that runs with this one can take over `other`.
    ///
    /// # Errors
    /// Names what takes a restart.
    pub fn takes_over(&self, other: &Self) -> Result<(), Mistake> {
        keeps_what_takes_a_restart(self, other, "")?;
        keeps_what_takes_a_restart(&self.edge, &other.edge, "edge.")
    }

    /// The configuration as a commented file, which reads back as the same.
    pub fn commented(&self) -> String {
        [
            "# krarup proxy: a memcached middleware that stamps everything.\n\n".to_owned(),
            commented(self, |row| row.key == "listen"),
            // The address of this pool is `listen` above.
            commented(&self.main, |row| row.key != "listen"),
            commented(self, |row| row.key != "listen" && !row.section),
            commented(self, |row| row.section),
        ]
        .concat()
        .trim_end()
        .to_owned()
            + "\n"
    }

    /// Every pool with its name, that of the top level first.
    pub fn all_pools(&self) -> Vec<(&str, &PoolConfig)> {
        let main = (!self.main.servers.is_empty()).then_some((MAIN, &self.main));
        main.into_iter().chain(self.pools.iter().map(|(name, pool)| (name.as_str(), pool))).collect()
    }

    /// What can be used as it is set, and will hardly do any good.
    pub fn warnings(&self) -> Vec<String> {
        let pools = self.all_pools().into_iter();
        let without_effect = pools.flat_map(|(name, pool)| pool.without_effect(name));
        let found = self.default_by_name().into_iter().chain(without_effect);
        found.chain(self.keys_mixed_in_a_gutter()).chain(self.addresses_without_certificates()).collect()
    }

    /// The pool that clients use for its name alone: one that is added may take its place.
    fn default_by_name(&self) -> Option<String> {
        let is_said = self.default_pool.is_some() || !self.main.servers.is_empty();
        let (first, _) = self.pools.first_key_value().filter(|_| !is_said && self.pools.len() > 1)?;
        Some(format!(
            "clients on {} use the pool {first}, the first by name; set `default_pool`, or a pool that is added \
             may take its place",
            self.listen
        ))
    }

    /// Two pools whose keys cannot be told apart in a pool that stands in for both, or for one of
    /// which the other stands in.
    fn keys_mixed_in_a_gutter(&self) -> Option<String> {
        let pools = self.all_pools();
        // Where a pool's keys come from: the clients of an address, or a route.
        let listeners = self.listeners().ok()?;
        let by_address = listeners.iter().filter_map(|&(_, place)| Some((pools.get(place)?.0, None)));
        let by_route = self.routes.iter().map(|route| (route.pool.as_str(), Some(route)));
        let sources: Vec<(&str, Option<&RouteConfig>)> = by_address.chain(by_route).collect();
        let mut gutters = pools.iter().filter_map(|(_, pool)| pool.gutter.as_deref());
        gutters.find_map(|gutter| {
            let names_it = pools.iter().filter(|(_, pool)| pool.gutter.as_deref() == Some(gutter));
            let keepers: Vec<&str> = names_it.map(|&(name, _)| name).chain([gutter]).collect();
            let kept: Vec<_> = sources.iter().copied().filter(|(name, _)| keepers.contains(name)).collect();
            kept.iter().enumerate().find_map(|(place, &(name, route))| {
                let meets = |other: &&(&str, Option<&RouteConfig>)| other.0 != name && may_meet(other.1, route);
                let (other, _) = kept[..place].iter().find(meets)?;
                Some(format!(
                    "pools {other} and {name} keep what they have in {gutter} under the same keys; give each a \
                     gutter of its own, or a route's `add`"
                ))
            })
        })
    }

    /// Servers known by their addresses alone, which certificates hardly name.
    fn addresses_without_certificates(&self) -> Option<String> {
        let tls = self.edge.server_tls.as_ref().filter(|tls| tls.name.is_none());
        let pools = tls.map(|_| self.all_pools())?;
        let mut servers = pools.iter().flat_map(|(_, pool)| &pool.servers);
        let many = servers.find(|one| one.every_address && !one.address.is_number())?;
        Some(format!(
            "certificates are checked against each address of {}; where they are made out to a name, set \
             `server_tls.name`, one for all servers",
            many.address
        ))
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

    /// A number that is another one where requests may reach servers in other shares: it is of the
    /// pools' names and routes, of their servers, and of which of these are read, written and asked
    /// besides.
    pub fn shares_digest(&self) -> u64 {
        let pools = self.all_pools().into_iter().map(|(name, pool)| {
            let placed = (pool.distribution, pool.hash, &pool.hash_tag, pool.replicas);
            let besides = (&pool.gutter, &pool.fall_back, pool.when_down, &pool.warm_from);
            let copied = (pool.writes, &pool.shadow, pool.shadow_share);
            (name, &pool.servers, placed, (pool.reads, pool.readers), besides, copied)
        });
        let text = format!("{:?}", (pools.collect::<Vec<_>>(), &self.default_pool, &self.routes));
        KeyHash::Xxh3.number(text.as_bytes())
    }

    /// Where clients connect, with the pool that their keys belong to.
    ///
    /// # Errors
    /// Names a default pool that there is not.
    pub fn listeners(&self) -> Result<Vec<(Address, usize)>, Mistake> {
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

    /// Says of its `pools`, which stand as in its topology, whose clients they take over from the
    /// configuration `before`: each pool's belong to the one that has its address now, or else to
    /// the default pool.
    ///
    /// # Errors
    /// Names a default pool that there is not.
    pub fn name_successors(&self, before: &Self, pools: &mut [PoolSpec]) -> Result<(), Mistake> {
        let (then, mut now) = (before.listeners()?, self.listeners()?);
        let default = now[0].1;
        let names = before.all_pools();
        let mut successors = vec![None; names.len()];
        for (address, pool) in then {
            // Port 0 may stand at more than one pool, and is a port of its own at each.
            if let Some(same) = now.iter().position(|(other, _)| *other == address) {
                let (_, successor) = now.remove(same);
                successors[pool].get_or_insert(successor);
            }
        }
        for ((name, _), successor) in names.into_iter().zip(successors) {
            pools[successor.unwrap_or(default)].successor_of.push(name.to_owned());
        }
        Ok(())
    }

    /// Checks what cannot be seen key by key.
    ///
    /// # Errors
    /// Names the key and says what would do.
    pub fn check(&self) -> Result<(), Mistakes> {
        let servers = self.addresses();
        if servers.is_empty() {
            return Err(Mistake::new(
                "there is no server to ask",
                "name at least one with --servers host:port",
            )
            .into());
        }
        check(self, "")?;
        for (name, pool) in self.all_pools() {
            check(pool, &if name == MAIN { String::new() } else { format!("pools.{name}.") })?;
        }
        if servers.len() > 1_000 {
            return Err(
                Mistake::new(format!("{} servers are named", servers.len()), "1000 are the most").into()
            );
        }
        if self.pools.contains_key(MAIN) && !self.main.servers.is_empty() {
            return Err(format!("the pool at the top level is called {MAIN}, and so is another").into());
        }
        if self.main.servers.is_empty()
            // Where a file of an earlier version was printed, it has that `hash`.
            && let Some((key, _)) =
                differing(&self.main).find(|(key, _)| *key != "hash" || self.main.distribution != KeySpread::All)
        {
            let what = format!("`{key}` at the top level is of the pool {MAIN}, which has no servers");
            return Err(Mistake::new(what, "write it under [pools.NAME] in the file").into());
        }
        let listeners = self.check_listeners(&servers)?;
        self.topology()?;
        if self.threads > 1 && self.all_pools().iter().any(|(_, pool)| pool.readers.is_some()) {
            return Err(Mistake::new(
                "`readers` are those of one event loop, and `threads` makes several",
                "set one of the two",
            )
            .into());
        }
        for (name, pool) in self.all_pools() {
            if let Some(most) = pool.concurrency.filter(|&most| (most as usize) < self.threads) {
                let threads = self.threads;
                let what = format!("pool {name}: `concurrency` is {most}, and there are {threads} `threads`");
                return Err(Mistake::new(what, "set at least as many, or fewer `threads`").into());
            }
        }
        if self.dedicated && self.server_connections > 1 {
            let what = "`dedicated` gives every client a connection of its own, and `server_connections` shares several";
            return Err(Mistake::new(what, "set one of the two").into());
        }
        if self.edge.server_tls.as_ref().is_some_and(|tls| tls.name.is_none())
            && let Some(server) = servers.iter().find(|server| server.file().is_some())
        {
            let what = format!("{server} has no name that its certificate could be made out to");
            return Err(Mistake::new(what, "set `server_tls.name`, one for all servers").into());
        }
        if self.server_stats && (self.edge.server_tls.is_some() || self.edge.server_login.is_some()) {
            let what =
                "`server_stats` asks over connections without TLS and login, and the servers want them";
            return Err(Mistake::new(what, "leave out `server_stats`").into());
        }
        if self.engine == Engine::Threads {
            self.check_threads(listeners)?;
        }
        self.edge.check()
    }

    /// Refuses addresses that cannot all be listened on; says at how many clients connect.
    fn check_listeners(&self, servers: &[Address]) -> Result<usize, Mistake> {
        let listeners = self.listeners()?;
        let own: Vec<&Address> =
            listeners.iter().map(|(address, _)| address).chain(self.admin.as_ref()).collect();
        for (place, &address) in own.iter().enumerate() {
            let is_own =
                |server: &&Address| *server == address || server.is_local() && covers(address, server);
            if let Some(server) = servers.iter().find(is_own) {
                return Err(format!("`servers` names {server}, where the proxy itself listens").into());
            }
            let is_admin = place == listeners.len();
            let shares = self.edge.reuse_port && !is_admin;
            let takes = |other: &Address| {
                let is_same = other == address && (address.port != 0 || address.file().is_some());
                is_same || (!shares && (covers(other, address) || covers(address, other)))
            };
            let Some(other) = own[..place].iter().find(|other| takes(other)) else { continue };
            let what = match (is_admin, *other == address) {
                (true, _) => format!("`admin` is {address}, and clients connect to {other}"),
                (false, true) => format!("{address} is listened on for two pools"),
                (false, false) => format!("{other} and {address} are one port, listened on for two pools"),
            };
            return Err(Mistake::new(what, "give each its own"));
        }
        Ok(listeners.len())
    }

    /// Refuses what the engine of threads does not do.
    fn check_threads(&self, listeners: usize) -> Result<(), Mistake> {
        let shares = self.dedicated || self.server_connections > 1;
        let asks = self.edge.tls.is_some() || self.edge.server_tls.is_some() || self.edge.users.is_some();
        let refused = [
            (
                shares,
                "each of which has a connection of its own to every server",
                "leave out `server_connections` and `dedicated`",
            ),
            (
                self.threads > 1,
                "which has no event loops, and `threads` counts those",
                "set `workers` or `readers`: how many threads there are",
            ),
            (asks, "which knows neither TLS nor users", "events does"),
            (self.admin.is_some(), "which answers no monitoring", "events does"),
            (listeners > 1, "which listens at one address", "events listens at several"),
            (self.drain > Nanos::ZERO, "which stops at once", "leave out `drain`"),
        ];
        if let Some((_, why, hint)) = refused.into_iter().find(|(is_set, ..)| *is_set) {
            return Err(Mistake::new(format!("`engine` is threads, {why}"), hint));
        }
        self.thread_form()?;
        let pools = self.all_pools();
        if pools.iter().any(|(_, pool)| pool.readers != pools[0].1.readers) {
            let what = "`engine` is threads, of which each server has the same number, and `readers` differs";
            return Err(Mistake::new(what, "give all pools the same `readers`"));
        }
        for (name, pool) in pools {
            // Each worker has a core of its own, which knows nothing of what the others do.
            let shared = [
                ("rate", pool.rate.is_some()),
                ("concurrency", pool.concurrency.is_some()),
                ("coalesce", pool.coalesce),
                ("hedge_after", pool.hedge_after.is_some()),
                ("eject_slower", pool.eject_slower.is_some()),
                // Each counts only what its own requests are owed.
                ("reads = \"least_outstanding\"", pool.reads == Reads::LeastOutstanding),
                ("reads = \"two_choices\"", pool.reads == Reads::TwoChoices),
            ];
            if let Some((key, _)) = shared.into_iter().find(|&(_, is_set)| is_set) {
                let what = "`engine` is threads, which know nothing of each other";
                return Err(Mistake::new(
                    format!("{what}, and pool {name} sets `{key}`"),
                    "events does that",
                ));
            }
        }
        Ok(())
    }

    /// What the threads are, where the engine is threads.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn thread_form(&self) -> Result<ThreadDesign, Mistake> {
        let readers = self.all_pools().into_iter().find_map(|(_, pool)| pool.readers);
        let form = match (readers, self.workers) {
            (Some(readers), _) => ThreadDesign::Readers(readers),
            (None, WorkerSetting::Fixed(Workers::Limited(workers))) => ThreadDesign::Workers(workers),
            (None, WorkerSetting::Fixed(Workers::Unlimited) | WorkerSetting::Automatic) => {
                return Err(Mistake::new(
                    "`engine` is threads, and there must be a number of them",
                    "set `workers` or `readers`",
                ));
            }
        };
        let (ThreadDesign::Workers(threads) | ThreadDesign::Readers(threads)) = form;
        if threads > 4_096 {
            return Err(Mistake::new(
                format!("`engine` is threads, and {threads} of them are too many"),
                "4096 are the most",
            ));
        }
        Ok(form)
    }

    /// What the core needs of it.
    pub fn settings(&self) -> CoreSettings {
        let workers = match (self.engine, self.thread_form()) {
            (Engine::Threads, Ok(ThreadDesign::Readers(_))) => WorkerSetting::Fixed(Workers::Unlimited),
            _ => self.workers,
        };
        CoreSettings {
            limits: Limits { value: self.max_value, ..Limits::default() },
            workers: workers.at_start(),
            automatic: workers == WorkerSetting::Automatic,
            queue: self.queue,
            pipeline: self.pipeline,
            reply_buffer: self.reply_buffer,
            replies: self.edge.memory / self.threads.max(1) / 2,
            timeout: self.timeout,
            reconnect_after: self.reconnect_after,
            reconnect_at_most: self.reconnect_at_most.max(self.reconnect_after),
            eject_after: self.eject_after,
            eject_for: self.eject_for,
            return_over: self.return_over,
            slow_requests: self.slow_requests,
            hot_keys: self.hot_keys,
            unix: 0,
            run_id: 0,
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
    pub fn topology(&self) -> Result<Topology, Mistake> {
        let pools = self.all_pools();
        let servers = self.addresses();
        let find = |name: &str| pools.iter().position(|&(other, _)| other == name);
        let place =
            |address: &Address| servers.iter().position(|one| one == address).expect("all are listed");
        let specs = pools.iter().map(|(name, pool)| pool.spec(name, place, find));
        let mut specs = specs.collect::<Result<Vec<_>, _>>()?;
        let listeners = self.listeners()?;
        for (place, spec) in specs.iter_mut().enumerate() {
            spec.loops = self.threads as u32;
            spec.listens = listeners.iter().any(|&(_, pool)| pool == place);
        }
        let routes = self.routes.iter().enumerate().map(|(place, route)| {
            if self.routes[..place].iter().any(|other| other.prefix == route.prefix) {
                let what = format!("there are two routes for `{}`", route.prefix);
                return Err(Mistake::new(what, "a prefix belongs to one pool"));
            }
            let pool = find(&route.pool).ok_or_else(|| {
                format!("the route for `{}` names the pool `{}`, and there is none", route.prefix, route.pool)
            })?;
            for (key, text) in [("prefix", &route.prefix), ("add", &route.add)] {
                if text.len() > 200 || text.bytes().any(|byte| byte <= b' ' || byte == 127) {
                    let what = format!("the route for `{}` has a `{key}` that no key can have", route.prefix);
                    return Err(Mistake::plain(what));
                }
            }
            let (prefix, add) = (route.prefix.clone().into_bytes(), route.add.clone().into_bytes());
            Ok(Route { prefix, pool, strip: route.strip, add })
        });
        Ok(Topology {
            pools: specs,
            routes: routes.collect::<Result<_, Mistake>>()?,
            servers: servers.iter().map(ToString::to_string).collect(),
        })
    }
}

/// Whether `all` stands for all addresses of this machine, and has the port of `one` of them.
fn covers(all: &Address, one: &Address) -> bool {
    let is_ipv4 =
        one.host == "localhost" || one.host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_of_kind = match &*all.host {
        "0.0.0.0" => is_ipv4,
        // Of both kinds, unless the system says otherwise.
        "::" => is_ipv4 || one.host.contains(':'),
        _ => false,
    };
    is_of_kind && all.port != 0 && all.port == one.port
}

/// Refuses another value of a setting that takes a restart; `within` stands before its key.
fn keeps_what_takes_a_restart<C: SettingsTable>(runs: &C, other: &C, within: &str) -> Result<(), Mistake> {
    let written = |row: &Setting<C>, config: &C| (row.write)(config).unwrap_or_default();
    match C::ROWS.iter().find(|row| row.restart && written(row, runs) != written(row, other)) {
        None => Ok(()),
        Some(row) => {
            let (new, old) = (written(row, other), written(row, runs));
            let what = format!("`{within}{}` is {new}, and {old} runs", row.key);
            Err(Mistake::new(what, "that takes a restart"))
        }
    }
}

#[cfg(test)]
mod tests {
    use krarup_units::Stamp;

    use super::*;
    use crate::pool::Pool;
    use crate::topology::MultiGet;

    fn main(servers: &[&str]) -> PoolConfig {
        let server = |text: &&str| text.parse::<Address>().unwrap().into();
        PoolConfig { servers: servers.iter().map(server).collect(), ..PoolConfig::default() }
    }

    #[test]
    fn the_commented_file_reads_back_as_the_same() {
        let config = Config {
            main: PoolConfig { multi_get: MultiGet::Sharded, ..main(&["127.0.0.1:1", "[::1]:2"]) },
            workers: WorkerSetting::Fixed(Workers::Limited(64)),
            timeout: Nanos::from_micros(1_500),
            ..Config::default()
        };
        let text = config.commented();
        let read = Config::parse(&text, "krarup.toml").unwrap();
        assert_eq!(format!("{config:?}"), format!("{read:?}"));
        assert_eq!(
            Config::parse(&Config::default().commented(), "").unwrap().workers,
            WorkerSetting::Fixed(Workers::Unlimited)
        );
    }

    #[test]
    fn every_key_is_in_the_commented_file() {
        let text = Config::default().commented();
        for key in Config::keys().chain(Config::beside()) {
            let found = text.lines().any(|line| {
                let line = line.trim_start_matches("# ").trim_start_matches('[');
                line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '.', ']']))
            });
            assert!(found, "{key}");
        }
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let text = "queue = 0\nwokers = 1\n[edge]\nmemory = 5\n[[routes]]\npool = \"main\"\n[pools.a]\nreads = \"best\"";
        let mistakes = Config::parse(text, "f.toml").unwrap_err();
        assert_eq!(
            mistakes.to_string(),
            "f.toml, line 1: `queue` is 0, and must be at least 1\n\
             f.toml, line 2: there is no key `wokers`; did you mean workers?\n\
             f.toml, line 4: `edge.memory` is 5, and must be at least 1MiB\n\
             f.toml, line 5: `routes.prefix` is missing\n\
             f.toml, line 8: `best` is no reads; there are least_work, least_outstanding, two_choices, round_robin, primary"
        );
        assert_eq!(mistakes.0[1].hint, "did you mean workers?");
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
        // Only pools with names: the first of these is all's unless another is said to be.
        let text = "[pools.b]\nservers = [\"h:2\"]\n[pools.a]\nservers = [\"h:1\"]\n";
        let default = |text: &str| {
            let config = Config::parse(text, "").unwrap();
            config.all_pools()[config.listeners().unwrap()[0].1].0.to_owned()
        };
        assert_eq!(default(text), "a");
        assert_eq!(default(&format!("default_pool = \"b\"\n{text}")), "b");
    }

    #[test]
    fn a_pool_that_clients_use_for_its_name_alone_is_warned_of() {
        let warnings = |text: &str| Config::parse(text, "").unwrap().warnings();
        let pool = |name: &str| format!("[pools.{name}]\nservers = [\"h:1\"]\n");
        let both = pool("users") + &pool("archive");
        let expected = "clients on 127.0.0.1:11211 use the pool archive, the first by name; \
                        set `default_pool`, or a pool that is added may take its place";
        assert_eq!(warnings(&both), [expected]);
        let said =
            ["default_pool = \"users\"\n", "servers = [\"h:2\"]\n"].map(|line| line.to_owned() + &both);
        for text in said.into_iter().chain([pool("users")]) {
            assert!(warnings(&text).is_empty(), "{text}");
        }
    }

    #[test]
    fn keys_that_do_nothing_are_warned_of() {
        let warnings = |text: &str| {
            let text = format!("servers = [\"h:1\", \"h:2\", \"h:3\"]\n{text}");
            let config = Config::parse(&text, "").unwrap();
            assert_eq!(config.check(), Ok(()), "{text}");
            config.warnings()
        };
        let placed = |more: &str| format!("distribution = \"ketama\"\n{more}");
        for (text, said) in [
            ("replicas = 2".to_owned(), "`replicas` places keys"),
            ("replicas = 9".to_owned(), "`replicas` places keys"),
            ("hash_tag = \"abc\"".to_owned(), "`hash_tag` places keys"),
            ("when_down = \"next\"".to_owned(), "`when_down` finds the next server by how a key is placed"),
            (placed("fall_back = [\"error\", \"miss\"]"), "`fall_back` needs copies"),
            (placed("refill_ttl = \"60s\""), "`refill_ttl` needs copies"),
            (placed("hedge_after = 0.9"), "`hedge_after` needs copies"),
            (placed("eject_slower = 3.0"), "`eject_slower` needs copies"),
            ("fall_back = [\"error\"]\nrefill_ttl = \"60s\"".to_owned(), "`refill_ttl` stores what"),
        ] {
            let found = warnings(&text);
            assert!(found.len() == 1 && found[0].starts_with(&format!("pool main: {said}")), "{found:?}");
        }
        for text in [
            "replicas = 1\nhash = \"xxh3\"".to_owned(),
            "replicas = \"all\"\nhedge_after = 0.9\neject_slower = 3.0".to_owned(),
            placed("replicas = 2\nhash_tag = \"{}\"\nfall_back = [\"miss\"]\nrefill_ttl = \"60s\""),
            // The server that takes over is asked.
            placed("when_down = \"next\"\nfall_back = [\"error\"]"),
        ] {
            assert!(warnings(&text).is_empty(), "{text}");
        }
        // A name may stand for several.
        let many = "servers = [{ address = \"h:1\", every_address = true }]\nhedge_after = 0.9\n";
        assert!(Config::parse(many, "").unwrap().warnings().is_empty());
        assert_eq!(Config::parse(&(many.to_owned() + &placed("")), "").unwrap().warnings().len(), 1);
    }

    #[test]
    fn certificates_of_servers_that_are_known_by_their_addresses_are_warned_of() {
        let warning = |servers: &str, name: &str| {
            let tls = format!("[edge]\nserver_tls = {{ authorities = \"a\"{name} }}");
            Config::parse(&format!("servers = [{servers}]\n{tls}"), "").unwrap().warnings().pop()
        };
        let many = "{ address = \"many:1\", every_address = true }";
        let said = warning(many, "").unwrap();
        assert!(said.contains("each address of many:1;") && said.contains("`server_tls.name`"), "{said}");
        assert_eq!(warning("{ address = \"10.0.0.5:1\", every_address = true }", ""), None);
        assert_eq!(warning(many, ", name = \"n\""), None);
        assert_eq!(warning("\"many:1\"", ""), None);
    }

    #[test]
    fn pools_whose_keys_mix_in_a_gutter_are_warned_of() {
        let warning = |a: &str, b: &str, more: &str| {
            let text = format!(
                "default_pool = \"a\"\n[pools.a]\nservers = [\"h:1\"]\ngutter = \"spare\"\n{a}\n\
                 [pools.b]\nservers = [\"h:2\"]\ngutter = \"spare\"\n{b}\n\
                 [pools.spare]\nservers = [\"h:3\"]\n{more}"
            );
            Config::parse(&text, "").unwrap().warnings().pop()
        };
        let route =
            |pool: &str, more: &str| format!("[[routes]]\nprefix = \"{pool}:\"\npool = \"{pool}\"\n{more}\n");
        let (strip, listen) = ("strip = true", "listen = \"h:8\"");
        let said = warning("", listen, "").unwrap();
        let expected = "pools a and b keep what they have in spare under the same keys; \
                        give each a gutter of its own, or a route's `add`";
        assert_eq!(said, expected);
        let stripped = route("a", strip) + &route("b", strip);
        assert_eq!(warning("", "", &stripped).unwrap(), expected);
        assert!(warning("", "", "listen = \"h:9\"").unwrap().starts_with("pools a and spare keep"));
        // The clients of the one address belong to `a`.
        assert_eq!(warning("", "", ""), None);
        assert_eq!(warning("", "", &(route("a", "") + &route("b", "") + &route("spare", ""))), None);
        let added = route("a", "strip = true\nadd = \"A/\"") + &route("b", "strip = true\nadd = \"B/\"");
        assert_eq!(warning("", "", &added), None);
        // Of two prefixes one of which begins with the other, each has keys of its own.
        let longer = "[[routes]]\nprefix = \"a:b:\"\npool = \"b\"\n";
        assert_eq!(warning("", "", &(route("a", "") + longer)), None);
    }

    #[test]
    fn shares_are_others_where_servers_are_or_how_they_are_read() {
        let digest = |text: &str| Config::parse(text, "").unwrap().shares_digest();
        let two = "servers = [\"a:1\", \"b:1\"]\n";
        assert_eq!(digest(two), digest(&format!("timeout = \"2s\"\n{two}")));
        for other in [
            "servers = [\"a:1\"]".to_owned(),
            format!("reads = \"primary\"\n{two}"),
            format!("distribution = \"ketama\"\n{two}"),
            format!("distribution = \"ketama\"\nreplicas = 2\n{two}"),
            format!("{two}[pools.b]\n{two}"),
            format!("[pools.b]\n{two}"),
        ] {
            assert_ne!(digest(two), digest(&other), "{other}");
        }
    }

    #[test]
    fn pools_succeed_those_at_the_same_address() {
        let successors = |before: &str, now: &str| {
            let [before, now] = [before, now].map(|text| Config::parse(text, "").unwrap());
            let mut pools = now.topology().unwrap().pools;
            now.name_successors(&before, &mut pools).unwrap();
            pools.into_iter().map(|pool| (pool.name, pool.successor_of)).collect::<Vec<_>>()
        };
        let of = |name: &str, successor_of: &[&str]| {
            (name.to_owned(), successor_of.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        let pool = |name: &str, more: &str| format!("[pools.{name}]\nservers = [\"h:1\"]\n{more}\n");
        let before = "servers = [\"h:2\"]\n".to_owned()
            + &pool("users", "listen = \"h:9\"")
            + &pool("other", "listen = \"h:8\"");
        let now = "default_pool = \"web\"\n".to_owned()
            + &pool("api", "")
            + &pool("people", "listen = \"h:9\"")
            + &pool("web", "");
        let expected = [of("api", &[]), of("people", &["users"]), of("web", &["main", "other"])];
        assert_eq!(successors(&before, &now), expected);
        // As many ports as there are pools, in their order.
        let before = "listen = \"h:0\"\nservers = [\"h:2\"]\n".to_owned() + &pool("b", "listen = \"h:0\"");
        let now = before.replace("pools.b", "pools.c");
        assert_eq!(successors(&before, &now), [of("main", &["main"]), of("c", &["b"])]);
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
            (
                "[[routes]]\nprefix = \"user:\"\npool = \"main\"\n\
                 [[routes]]\nprefix = \"user:\"\npool = \"a\"\n[pools.a]\nservers = [\"h:3\"]",
                "there are two routes for `user:`",
            ),
            ("default_pool = \"b\"", "`default_pool` names `b`"),
            ("[pools.a]\nservers = []", "pool a: `servers` names no server"),
        ] {
            let config = Config::parse(&format!("{pool}{text}"), "f.toml");
            // What is out of its bounds is named with its line.
            let why = config.and_then(|config| config.check()).unwrap_err().to_string();
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
            let why = Config::parse(&format!("{pool}{text}"), "f.toml").unwrap_err().to_string();
            assert!(parts.iter().all(|part| why.contains(part)), "{text:?}: {why}");
        }
    }

    #[test]
    fn a_key_of_a_pool_without_servers_is_refused() {
        let check = |line: &str| {
            let text = format!("{line}\n[pools.a]\nservers = [\"h:1\", \"h:2\"]");
            Config::parse(&text, "f.toml").unwrap().check()
        };
        for line in ["", "timeout = \"2s\"", "distribution = \"all\"", "servers = []\nhash = \"fnv1a_64\""] {
            assert_eq!(check(line), Ok(()), "{line}");
        }
        for (line, key) in [("distribution = \"ketama\"", "distribution"), ("rate = 5", "rate")] {
            let what = format!("`{key}` at the top level is of the pool main, which has no servers");
            assert_eq!(check(line).unwrap_err().0[0].what, what);
        }
    }

    #[test]
    fn addresses_that_cannot_all_be_listened_on_are_refused() {
        let check = |text: &str| {
            let text = format!("servers = [\"h:1\"]\n{text}");
            Config::parse(&text, "f.toml").unwrap().check()
        };
        let pool = "[pools.a]\nservers = [\"h:2\"]\nlisten =";
        let behind = "[pools.a]\nservers =";
        for (text, part) in [
            (
                "listen = \"127.0.0.1:9\"\nadmin = \"127.0.0.1:9\"".to_owned(),
                "`admin` is 127.0.0.1:9, and clients connect to 127.0.0.1:9",
            ),
            ("listen = \"0.0.0.0:9\"\nadmin = \"127.0.0.1:9\"\nedge.reuse_port = true".into(), "`admin` is"),
            ("admin = \"h:1\"".into(), "itself listens"),
            (format!("listen = \"0.0.0.0:9\"\n{behind} [\"127.0.0.1:9\"]"), "names 127.0.0.1:9, where"),
            (format!("listen = \"0.0.0.0:9\"\n{behind} [\"localhost:9\"]"), "names localhost:9, where"),
            (format!("listen = \"[::]:9\"\n{behind} [\"127.0.0.1:9\"]"), "names 127.0.0.1:9, where"),
            (format!("listen = \"[::]:9\"\n{behind} [\"[::1]:9\"]"), "names [::1]:9, where"),
            (format!("listen = \"0.0.0.0:9\"\n{pool} \"127.0.0.1:9\""), "127.0.0.1:9 are one port"),
            (format!("listen = \"[::1]:9\"\n{pool} \"[::]:9\""), "are one port"),
            (format!("listen = \"[::]:9\"\n{pool} \"0.0.0.0:9\""), "are one port"),
            ("listen = \"[::]:9\"\nadmin = \"127.0.0.1:9\"".into(), "`admin` is"),
            (format!("listen = \"unix:/a\"\n{pool} \"unix:/a\""), "listened on for two pools"),
        ] {
            let why = check(&text).unwrap_err().to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
        for text in [
            format!("listen = \"0.0.0.0:9\"\nedge.reuse_port = true\n{pool} \"127.0.0.1:9\""),
            format!("listen = \"0.0.0.0:9\"\nadmin = \"127.0.0.1:8\"\n{pool} \"[::1]:9\""),
            format!("listen = \"0.0.0.0:0\"\nadmin = \"127.0.0.1:0\"\n{pool} \"127.0.0.1:0\""),
            format!("listen = \"0.0.0.0:9\"\n{behind} [\"10.0.0.5:9\", \"[::1]:9\", \"unix:/a\"]"),
        ] {
            assert_eq!(check(&text), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_bound_that_loops_share_is_told_as_it_was_set() {
        let text = "servers = [\"h:1\"]\nrate = 100000\nconcurrency = 7\nthreads = 4";
        let mut pools = Config::parse(text, "f.toml").unwrap().topology().unwrap().pools;
        let mut pool = Pool::new(pools.remove(0));
        let mut admitted = 0;
        while pool.admits(0, Stamp(0)).is_ok() {
            pool.begin();
            pool.end();
            admitted += 1;
        }
        assert_eq!(admitted, 2_500, "a tenth of a second's worth at once");
        let why = "pool main is limited to 100000 requests a second";
        assert_eq!(pool.admits(0, Stamp(0)).unwrap_err(), why);
        let shares = [0, 1, 2, 3].map(|place| {
            let mut pool = Pool::new(pool.spec().clone());
            while pool.admits(place, Stamp(0)).is_ok() {
                pool.begin();
            }
            let why = "pool main is limited to 7 requests under way";
            assert_eq!(pool.admits(place, Stamp(0)).unwrap_err(), why);
            pool.busy()
        });
        assert_eq!(shares, [2, 2, 2, 1]);
    }

    #[test]
    fn the_longest_wait_for_a_lost_server_is_no_shorter_than_the_first() {
        let text = "servers = [\"h:1\"]\nreconnect_after = \"5s\"\nreconnect_at_most = \"1s\"";
        let settings = Config::parse(text, "f.toml").unwrap().settings();
        assert_eq!(settings.reconnect_at_most, Nanos::from_secs(5));
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
            let error = Config::parse(text, "f.toml").unwrap_err().to_string();
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
            (Config { reconnect_at_most: Nanos::ZERO, ..good.clone() }, "`reconnect_at_most`"),
            (Config { threads: 0, ..good.clone() }, "`threads`"),
            (Config { server_connections: 0, ..good.clone() }, "`server_connections`"),
            (Config { server_connections: 2, dedicated: true, ..good.clone() }, "one of the two"),
            (
                Config {
                    main: PoolConfig { concurrency: Some(2), ..main(&["a:1"]) },
                    threads: 8,
                    ..good.clone()
                },
                "pool main: `concurrency` is 2, and there are 8 `threads`",
            ),
            (Config { dedicated: true, engine: Engine::Threads, ..good.clone() }, "leave out"),
            (Config { threads: 2, engine: Engine::Threads, ..good.clone() }, "which has no event loops"),
            (Config { shutdown_limit: Nanos(u64::MAX), ..good.clone() }, "`shutdown_limit`"),
            (Config { drain: Nanos(1), engine: Engine::Threads, ..good.clone() }, "leave out `drain`"),
            (Config { eject_after: Some(0), ..good.clone() }, "`eject_after` is 0, and must be at least 1"),
            (
                Config {
                    main: PoolConfig { hedge_after: Some(0.9), readers: Some(2), ..main(&["a:1"]) },
                    engine: Engine::Threads,
                    ..good.clone()
                },
                "pool main sets `hedge_after`",
            ),
            (
                Config {
                    main: PoolConfig { eject_slower: Some(3.0), readers: Some(2), ..main(&["a:1", "b:1"]) },
                    engine: Engine::Threads,
                    ..good.clone()
                },
                "pool main sets `eject_slower`",
            ),
            (
                Config {
                    main: PoolConfig { reads: Reads::TwoChoices, readers: Some(2), ..main(&["a:1"]) },
                    engine: Engine::Threads,
                    ..good.clone()
                },
                "pool main sets `reads = \"two_choices\"`",
            ),
            (
                Config {
                    main: PoolConfig { reads: Reads::LeastOutstanding, readers: Some(2), ..main(&["a:1"]) },
                    engine: Engine::Threads,
                    ..good.clone()
                },
                "pool main sets `reads = \"least_outstanding\"`",
            ),
            (
                Config {
                    main: PoolConfig { readers: Some(2), ..main(&["a:1"]) },
                    pools: [("b".to_owned(), main(&["b:1"]))].into(),
                    engine: Engine::Threads,
                    ..good.clone()
                },
                "`readers` differs",
            ),
        ] {
            assert!(wrong.check().unwrap_err().to_string().contains(part), "{part}");
        }
    }
}
