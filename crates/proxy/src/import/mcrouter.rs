//! mcrouter's common route handles, as pools with policies.
//!
//! A tree of route handles says for each request where it goes; ours says for each pool what it
//! does. What can be said in both is translated: placement, copies on all hosts, fail-over to
//! another pool, warm-up, shadows, prefixes. A handle that can only be said in mcrouter's way is
//! refused by name, for to leave it out would send keys elsewhere.

use serde_json::{Map, Value};

use super::comments;
use super::imported::{
    Imported, ImportedPool, ImportedRoute, ImportedServer, ImportedSettings, OTHER_POOLS, milliseconds,
    quoted, set,
};

/// The longest lifetime that memcached takes as a length, where mcrouter's would not end.
const LONGEST: &str = "720h";

/// How long mcrouter waits for a server of a pool without a `server_timeout`, in milliseconds.
const SERVER_TIMEOUT: u64 = 1_000;

/// The key of the handle for operations that have none of their own.
const OTHERS: &str = "default_policy";

/// The operations that read.
const READS: [&str; 6] = ["gat", "gats", "get", "gets", "lease-get", "metaget"];

/// The values of `writes`, from the one that waits for least to the one that waits for most.
const WRITES: [&str; 4] = ["async", "first", "quorum", "all"];

/// The settings of which the smaller value holds, where handles within each other have both.
const SMALLER_HOLDS: [&str; 2] = ["ttl_cap", "concurrency"];

/// An operation, and the `reads` and the `fall_back` of its handle.
type ReadsOf<'a> = (&'a str, &'static str, &'static str);

/// Translates the whole file.
pub(super) fn import(text: &str) -> Result<Imported, String> {
    let file: Value = serde_json::from_str(&comments::without(text)).map_err(|error| error.to_string())?;
    let file = file.as_object().ok_or("the file must be an object with `pools` and `route`")?;
    let empty = Map::new();
    let mut translation = Translation {
        described: file
            .get("pools")
            .map_or(Ok(&empty), |pools| pools.as_object().ok_or("`pools` must be an object"))?,
        imported: Imported::of("mcrouter"),
        timeouts: Vec::new(),
    };
    for key in
        file.keys().filter(|key| !["pools", "route", "routes", "named_handles"].contains(&key.as_str()))
    {
        translation.note(format!("{key} is not translated"));
    }
    if file.contains_key("named_handles") {
        return Err("named_handles: write the handles out where they are used, then import".into());
    }
    let whole = match (file.get("route"), file.get("routes")) {
        (Some(route), _) => translation.tree(route)?,
        (None, Some(routes)) => translation.aliases(routes)?,
        (None, None) => return Err("the file has neither `route` nor `routes`".into()),
    };
    let Translation { described, mut imported, timeouts } = translation;
    set(&mut imported.settings, "listen", quoted("127.0.0.1:11211"));
    imported
        .notes
        .push("listen: mcrouter is told its port on its command line (-p); here it is `listen`".into());
    imported.first = whole.pool;
    imported.routes = whole.routes;
    if let Some(timeout) = timeouts.iter().max() {
        set(&mut imported.settings, "timeout", milliseconds(*timeout));
        if timeouts.iter().any(|other| other != timeout) {
            imported
                .notes
                .push("server_timeout differs from pool to pool; one holds for all here, the longest".into());
        }
    }
    keep_what_is_used(&mut imported, described);
    Ok(imported)
}

/// Leaves out pools that only stood for a step of the translation, and gives their names to those
/// that were numbered for them.
fn keep_what_is_used(imported: &mut Imported, described: &Map<String, Value>) {
    let mut used = vec![imported.first.clone()];
    used.extend(imported.routes.iter().map(|route| route.pool.clone()));
    let mut next = 0;
    while let Some(name) = used.get(next).cloned() {
        next += 1;
        let pool = imported.pools.iter().find(|pool| pool.name == name);
        for (key, other) in pool.iter().flat_map(|pool| &pool.settings) {
            if OTHER_POOLS.contains(key) && !used.contains(other) {
                used.push(other.clone());
            }
        }
    }
    imported.pools.retain(|pool| used.contains(&pool.name));
    for name in used {
        let numbered = name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok());
        if let Some((plain, _)) = numbered
            && !described.contains_key(&name)
            && !imported.pools.iter().any(|pool| pool.name == plain)
        {
            rename(imported, &name, plain);
        }
    }
}

fn rename(imported: &mut Imported, from: &str, to: &str) {
    let names = std::iter::once(&mut imported.first)
        .chain(imported.routes.iter_mut().map(|route| &mut route.pool))
        .chain(imported.pools.iter_mut().flat_map(|pool| {
            let others = pool.settings.iter_mut().filter(|(key, _)| OTHER_POOLS.contains(key));
            std::iter::once(&mut pool.name).chain(others.map(|(_, other)| other))
        }));
    for name in names.filter(|name| *name == from) {
        to.clone_into(name);
    }
}

/// Where a tree of handles sends requests: to a pool, and for some prefixes to others.
struct Whole {
    pool: String,
    routes: Vec<ImportedRoute>,
}

/// How several equal hosts are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    /// Requests go to all of them; the value of `writes`.
    All(&'static str),
    /// Requests go to one of them; the value of `reads`, and whether another is asked after an
    /// error or a miss.
    One { reads: &'static str, fall_back: &'static str },
}

struct Translation<'file> {
    described: &'file Map<String, Value>,
    imported: Imported,
    /// Milliseconds.
    timeouts: Vec<u64>,
}

impl Translation<'_> {
    fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.imported.notes.contains(&note) {
            self.imported.notes.push(note);
        }
    }

    /// A handle that prefixes may be chosen by.
    fn tree(&mut self, route: &Value) -> Result<Whole, String> {
        if kind(route)?.0 != "PrefixSelectorRoute" {
            return Ok(Whole { pool: self.pool(route)?, routes: Vec::new() });
        }
        let wildcard = route
            .get("wildcard")
            .ok_or("PrefixSelectorRoute: without `wildcard` other keys have nowhere to go")?;
        let pool = self.pool(wildcard)?;
        let mut routes = Vec::new();
        let policies = route.get("policies").and_then(Value::as_object);
        for (prefix, policy) in policies.into_iter().flatten() {
            let pool = self.pool(policy).map_err(|why| format!("PrefixSelectorRoute, {prefix}: {why}"))?;
            routes.push(ImportedRoute { prefix: prefix.clone(), pool, strip: false, add: String::new() });
        }
        Ok(Whole { pool, routes })
    }

    /// `routes`: trees for keys that begin with `/region/cluster/`.
    fn aliases(&mut self, routes: &Value) -> Result<Whole, String> {
        let mut whole: Option<Whole> = None;
        for entry in routes.as_array().ok_or("`routes` must be a list")? {
            let route = entry.get("route").ok_or("an entry of `routes` has no `route`")?;
            let tree = self.tree(route)?;
            for alias in entry.get("aliases").and_then(Value::as_array).into_iter().flatten() {
                let alias = alias.as_str().ok_or("an alias must be a text")?;
                let same = |route: &ImportedRoute| route.prefix == alias;
                if whole.as_ref().is_some_and(|whole| whole.routes.iter().any(same)) {
                    self.note(format!("{alias}: only the first route of that alias is translated"));
                    continue;
                }
                let named = |prefix: &str, pool: &str| ImportedRoute {
                    prefix: format!("{alias}{prefix}"),
                    pool: pool.to_owned(),
                    strip: true,
                    add: prefix.to_owned(),
                };
                let mut below = vec![named("", &tree.pool)];
                below.extend(tree.routes.iter().map(|route| named(&route.prefix, &route.pool)));
                match &mut whole {
                    Some(whole) => whole.routes.append(&mut below),
                    None => {
                        let mut routes = tree.routes.clone();
                        routes.append(&mut below);
                        whole = Some(Whole { pool: tree.pool.clone(), routes });
                        self.note(format!("keys without a routing prefix go where {alias} goes; mcrouter's -R says where they went"));
                    }
                }
            }
        }
        whole.ok_or_else(|| "`routes` names no alias".into())
    }

    /// The pool that does what a handle does, under the name it was given here.
    fn pool(&mut self, route: &Value) -> Result<String, String> {
        let (kind, argument) = kind(route)?;
        if together(kind).is_some() {
            return self.equals(&[(OTHERS, route)]);
        }
        match kind {
            "PoolRoute" => {
                let name = argument.or_else(|| route.get("pool").and_then(Value::as_str));
                let name = name.ok_or("PoolRoute names no pool")?;
                self.refuse_weights(name, route.get("hash"))?;
                let pool = self.placed(name, route.get("hash"))?;
                self.with_extras(pool, route)
            }
            "HashRoute" => {
                let children =
                    route.get("children").and_then(Value::as_str).and_then(|text| text.strip_prefix("Pool|"));
                let name = argument.and_then(|argument| argument.strip_prefix("Pool|")).or(children);
                let name = name.ok_or("HashRoute: only `Pool|NAME` is translated as its children")?;
                self.placed(name, Some(route))
            }
            "OperationSelectorRoute" => self.by_operation(route),
            "FailoverRoute" | "FailoverWithExptimeRoute" => self.failover(kind, route),
            "WarmUpRoute" => {
                let cold = self.pool(child(route, "cold", kind)?)?;
                let warm = self.pool(child(route, "warm", kind)?)?;
                let ttl = match route.get("exptime").and_then(Value::as_u64) {
                    Some(seconds) if seconds > 0 => format!("{seconds}s"),
                    _ => {
                        self.note(
                            "WarmUpRoute: what is copied from the warm pool lives 30 days, not for ever",
                        );
                        LONGEST.to_owned()
                    }
                };
                Ok(self.changed(&cold, &[("warm_from", warm), ("warm_ttl", quoted(&ttl))]))
            }
            "ShadowRoute" => {
                let pool = self.pool(shadowed(route)?)?;
                self.with_extras(pool, route)
            }
            "OutstandingLimitRoute" => {
                let pool = self.pool(child(route, "target", kind)?)?;
                let most = route
                    .get("max_outstanding")
                    .and_then(Value::as_u64)
                    .ok_or("OutstandingLimitRoute has no max_outstanding")?;
                Ok(self.changed(&pool, &[("concurrency", most.to_string())]))
            }
            "RateLimitRoute" => {
                let pool = self.pool(child(route, "target", kind)?)?;
                self.note("RateLimitRoute: its rates are for each operation, and `rate` is for all; set `rate` by hand");
                Ok(pool)
            }
            "ModifyExptimeRoute" => {
                let pool = self.pool(child(route, "target", kind)?)?;
                let seconds = route.get("exptime").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
                match (route.get("action").and_then(Value::as_str), seconds) {
                    (Some("min"), Some(seconds)) => {
                        Ok(self.changed(&pool, &[("ttl_cap", quoted(&format!("{seconds}s")))]))
                    }
                    _ => Err("ModifyExptimeRoute: only the action `min` has a counterpart (ttl_cap)".into()),
                }
            }
            "LoggingRoute" => {
                self.note("LoggingRoute: nothing is logged for each request; the statistics are always on");
                self.pool(child(route, if route.get("target").is_some() { "target" } else { "child" }, kind)?)
            }
            _ => Err(format!("{kind} has no counterpart")),
        }
    }

    /// Refuses a pool whose own `weights` its `PoolRoute` would place keys by.
    fn refuse_weights(&self, name: &str, hash: Option<&Value>) -> Result<(), String> {
        // A function that the route names holds, whatever the pool has.
        if hash.is_some_and(|hash| hash.is_string() || hash.get("hash_func").is_some()) {
            return Ok(());
        }
        let of_pool = |key: &str| self.described.get(name).and_then(|pool| pool.get(key));
        let Some(weights) = of_pool("weights") else { return Ok(()) };
        let servers = of_pool("servers").and_then(Value::as_array).map_or(0, Vec::len);
        let all_one = weights.as_array().is_some_and(|weights| {
            weights.len() >= servers && weights.iter().all(|weight| weight.as_f64() == Some(1.0))
        });
        if servers > 1 && !all_one {
            return Err(format!(
                "pool {name}: its `weights` have no counterpart, and without them keys would move"
            ));
        }
        Ok(())
    }

    /// A pool of which each host has its own keys.
    fn placed(&mut self, name: &str, hash: Option<&Value>) -> Result<String, String> {
        let function = match hash {
            Some(Value::String(name)) => name.as_str(),
            Some(hash) => {
                if let Some(other) = ["salt", "weights", "tags"].iter().find(|key| hash.get(**key).is_some())
                {
                    return Err(format!(
                        "pool {name}: hash with `{other}` has no counterpart, and without it keys would move"
                    ));
                }
                hash.get("hash_func").and_then(Value::as_str).unwrap_or("Ch3")
            }
            None => "Ch3",
        };
        if function != "Ch3" {
            return Err(format!(
                "pool {name}: the hash function {function} has no counterpart, only Ch3 has"
            ));
        }
        let servers = self.servers(name)?;
        Ok(self.add(name, vec![("distribution", quoted("ch3"))], servers))
    }

    /// What may stand beside a pool or a shadowed handle: shadows, rates.
    fn with_extras(&mut self, pool: String, route: &Value) -> Result<String, String> {
        let mut changes = Vec::new();
        let shadows = route.get("shadows").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        // A `ShadowRoute` is around one handle, a pool around its hosts.
        let hosts = match kind(route)?.0 {
            "PoolRoute" => self.pool_named(&pool).servers.len(),
            _ => 1,
        };
        let mut shadowing = Vec::new();
        for shadow in shadows {
            if let Some(share) = self.shadow_share(&pool, shadow, hosts)? {
                shadowing.push((shadow, share));
            }
        }
        if shadowing.len() > 1 {
            self.note(format!("{pool}: it has several shadows, and only the first is translated"));
        }
        if let Some((shadow, share)) = shadowing.first() {
            let target = self.pool(child(shadow, "target", "a shadow")?)?;
            changes.extend([("shadow", target), ("shadow_share", format!("{share:?}"))]);
        }
        if route.get("rates").is_some() {
            self.note(format!(
                "{pool}: its rates are for each operation, and `rate` is for all; set `rate` by hand"
            ));
        }
        for key in route.as_object().into_iter().flat_map(Map::keys) {
            let known = ["type", "pool", "hash", "shadows", "rates", "target", "child", "children"];
            if !known.contains(&key.as_str()) {
                self.note(format!("{pool}: {key} of its route is not translated"));
            }
        }
        Ok(if changes.is_empty() { pool } else { self.changed(&pool, &changes) })
    }

    /// The share of the requests that a shadow gets; none: mcrouter sends it nothing. `hosts` are
    /// all that its `index_range` may choose from.
    fn shadow_share(&mut self, pool: &str, shadow: &Value, hosts: usize) -> Result<Option<f64>, String> {
        let keys = shadow.get("keys_to_shadow").and_then(Value::as_array);
        if keys.is_some_and(|keys| !keys.is_empty()) {
            return Err(format!(
                "pool {pool}: `keys_to_shadow` has no counterpart, and without it all keys would be shadowed"
            ));
        }
        if shadow.get("key_fraction_range_rv").is_some() {
            self.note(format!(
                "{pool}: the shadow's key_fraction_range_rv is not translated; set `shadow` and `shadow_share` by hand"
            ));
        }
        // A range that is not there is from 0 to 0.
        let range = |key: &str| {
            let ends = shadow.get(key).and_then(Value::as_array)?;
            let [from, to] = &ends[..] else { return None };
            Some((from.as_f64()?, to.as_f64()?))
        };
        let (from, to) = range("key_fraction_range").unwrap_or_default();
        let fraction = shadow.get("requests_fraction").and_then(Value::as_f64).unwrap_or(1.0);
        let share = (to - from) * fraction.min(1.0);
        let (first, behind) = range("index_range").unwrap_or_default();
        let hosts = hosts as f64;
        let chosen = behind.min(hosts) - first;
        if share <= 0.0 || chosen <= 0.0 {
            self.note(format!(
                "{pool}: a shadow is left out, for mcrouter sends it nothing: its key_fraction_range or its index_range \
                 is empty or not there, or its requests_fraction is 0"
            ));
            return Ok(None);
        }
        if chosen < hosts {
            self.note(format!("{pool}: the shadow's index_range is not translated; requests to all of its hosts are shadowed"));
        }
        if share < 1.0 {
            self.note(format!(
                "{pool}: the shadow gets a share of the requests, where mcrouter took a share of the keys"
            ));
        }
        Ok(Some(share))
    }

    /// Fail-over of one handle to the next.
    fn failover(&mut self, kind: &str, route: &Value) -> Result<String, String> {
        let (normal, rest, ttl) = if kind == "FailoverWithExptimeRoute" {
            let seconds = route.get("failover_exptime").and_then(Value::as_u64).unwrap_or(60).max(1);
            let rest = child(route, "failover", kind)?;
            let rest = rest.as_array().map_or_else(|| vec![rest], |list| list.iter().collect());
            (child(route, "normal", kind)?, rest, format!("{seconds}s"))
        } else {
            let children = route.get("children").and_then(Value::as_array);
            let Some((normal, rest)) = children.and_then(|children| children.split_first()) else {
                return Err(format!("{kind}: only a list of handles is translated as its children"));
            };
            (normal, rest.iter().collect(), LONGEST.to_owned())
        };
        let pool = self.pool(normal)?;
        let Some((second, further)) = rest.split_first() else { return Ok(pool) };
        if !further.is_empty() {
            self.note(format!("{kind}: only the first of the handles to fail over to is translated"));
        }
        self.note(format!(
            "{kind}: the other pool takes over where all servers of a key are down (or ejected: eject_after), not for each single error; \
             values live there for gutter_ttl at most"
        ));
        let gutter = self.pool(second)?;
        Ok(self.changed(&pool, &[("gutter", gutter), ("gutter_ttl", quoted(&ttl))]))
    }

    /// One handle for each operation: the same for all, or readers and writers of the same hosts.
    fn by_operation(&mut self, route: &Value) -> Result<String, String> {
        let policies = route.get("operation_policies").and_then(Value::as_object);
        let named = policies.into_iter().flatten().map(|(operation, handle)| (operation.as_str(), handle));
        let handles: Vec<(&str, &Value)> =
            named.chain(route.get(OTHERS).map(|handle| (OTHERS, handle))).collect();
        let Some(&(_, first)) = handles.first() else {
            return Err("OperationSelectorRoute has no policies".into());
        };
        if handles.iter().all(|&(_, handle)| handle == first) {
            return self.pool(first);
        }
        self.equals(&handles).map_err(|why| {
            format!(
                "OperationSelectorRoute: operations that go to different servers have no counterpart ({why})"
            )
        })
    }

    /// A pool of hosts that all hold everything, from all handles that use them, each with the
    /// operation that it is for.
    fn equals(&mut self, handles: &[(&str, &Value)]) -> Result<String, String> {
        let mut hosts: Option<(String, Vec<ImportedServer>)> = None;
        // Gets, where nothing else is said of them, are what all other operations are.
        let gets = if handles.iter().any(|(operation, _)| *operation == "get") { "get" } else { OTHERS };
        let (mut writes, mut reads, mut written_to_one) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_async = false;
        for &(operation, handle) in handles {
            let (kind, argument) = kind(handle)?;
            // Alone, fail-over goes from pool to pool; beside a handle that writes to all hosts,
            // from host to host.
            let next = Together::One { reads: "primary", fall_back: "[\"error\"]" };
            let together = together(kind).or((kind == "FailoverRoute").then_some(next));
            let together = together.ok_or_else(|| format!("{kind} beside another handle"))?;
            let found = self.hosts(kind, argument, handle)?;
            if hosts.as_ref().is_some_and(|hosts| hosts.1 != found.1) {
                return Err(format!("{kind} has other servers than the handle before it"));
            }
            hosts = Some(found);
            let is_read = READS.contains(&operation);
            match together {
                Together::All(way) if !is_read => {
                    writes.push((operation, way));
                    is_async |= kind == "AllAsyncRoute";
                }
                Together::All(_) => {}
                Together::One { reads: way, fall_back } => {
                    if is_read || operation == gets {
                        reads.push((operation, way, fall_back));
                    }
                    if !is_read {
                        written_to_one.push(operation);
                    }
                }
            }
        }
        let (name, servers) = hosts.ok_or("there is no handle")?;
        let mut settings = vec![("distribution", quoted("all"))];
        if let Some(way) = self.strictest(&name, &writes) {
            set(&mut settings, "writes", quoted(way));
            if is_async && way == "async" {
                self.note("AllAsyncRoute answered at once; here the first server's answer is waited for");
            }
        } else if servers.len() > 1 {
            return Err("requests, writes too, go to one of several servers; here every server of such a pool gets the writes".into());
        }
        if servers.len() > 1 && !written_to_one.is_empty() {
            let operations = written_to_one.join(", ");
            self.note(format!(
                "{name}: the writes of {operations} went to one server; here every server gets them"
            ));
        }
        if let Some((_, way, fall_back)) = self.reads(&name, gets, &reads) {
            set(&mut settings, "reads", quoted(way));
            set(&mut settings, "fall_back", fall_back);
        } else {
            self.note(format!(
                "{name}: gets went to all servers; here one is asked, and the next one after an error"
            ));
            set(&mut settings, "fall_back", "[\"error\"]");
        }
        Ok(self.add(&name, settings, servers))
    }

    /// The strictest of the ways in which operations wait for writes; none: there is no write.
    fn strictest(&mut self, pool: &str, writes: &[(&str, &'static str)]) -> Option<&'static str> {
        let rank = |way: &str| WRITES.iter().position(|other| *other == way);
        let way = writes.iter().map(|&(_, way)| way).max_by_key(|&way| rank(way))?;
        if writes.iter().any(|&(_, other)| other != way) {
            let each: Vec<String> =
                writes.iter().map(|(operation, way)| format!("{operation}: {way}")).collect();
            self.note(format!(
                "{pool}: operations wait for writes in different ways ({}); \
                 here all writes wait as the strictest does, {way}",
                each.join(", ")
            ));
        }
        Some(way)
    }

    /// How reads choose a server: as the operation `gets` does, or else the first that does.
    fn reads<'a>(&mut self, pool: &str, gets: &str, reads: &[ReadsOf<'a>]) -> Option<ReadsOf<'a>> {
        let chosen = *reads.iter().find(|(operation, ..)| *operation == gets).or(reads.first())?;
        if reads.iter().any(|other| (other.1, other.2) != (chosen.1, chosen.2)) {
            self.note(format!(
                "{pool}: reads choose a server in different ways; here all of them do as {}",
                chosen.0
            ));
        }
        Some(chosen)
    }

    /// The hosts under a handle, if they are single hosts.
    fn hosts(
        &mut self,
        kind: &str,
        argument: Option<&str>,
        route: &Value,
    ) -> Result<(String, Vec<ImportedServer>), String> {
        let children = route.get("children");
        let whole =
            argument.or_else(|| children.and_then(Value::as_str)).and_then(|text| text.strip_prefix("Pool|"));
        if let Some(name) = whole {
            return Ok((name.to_owned(), self.servers(name)?));
        }
        let mut all = Vec::new();
        let mut names = Vec::new();
        for one in children.and_then(Value::as_array).into_iter().flatten() {
            let name = match super::mcrouter::kind(one)? {
                ("PoolRoute", Some(name)) => name,
                ("PoolRoute", None) => {
                    one.get("pool").and_then(Value::as_str).ok_or("PoolRoute names no pool")?
                }
                (other, _) => return Err(format!("{kind} over {other} has no counterpart")),
            };
            let servers = self.servers(name)?;
            if servers.len() > 1 {
                return Err(format!("{kind} over pools of several servers ({name}) has no counterpart"));
            }
            names.push(name.to_owned());
            all.extend(servers);
        }
        if all.is_empty() {
            return Err(format!("{kind} has no children that are understood"));
        }
        Ok((names.join("-"), all))
    }

    /// The servers of a pool as the file describes it.
    fn servers(&mut self, name: &str) -> Result<Vec<ImportedServer>, String> {
        let described = self.described;
        let pool = described.get(name).ok_or_else(|| format!("there is no pool {name}"))?;
        for (key, value) in pool.as_object().into_iter().flatten() {
            match key.as_str() {
                "servers" | "server_timeout" => {}
                "protocol" if value == "ascii" => {}
                "protocol" => return Err(format!("pool {name}: the protocol {value} is mcrouter's own")),
                "keep_routing_prefix" if value == false => {}
                "keep_routing_prefix" => {
                    self.note(format!(
                        "pool {name}: keep_routing_prefix; take `strip` and `add` out of its routes"
                    ));
                }
                _ => self.note(format!("pool {name}: {key} is not translated")),
            }
        }
        let timeout = pool.get("server_timeout").and_then(Value::as_u64);
        if timeout.is_none() {
            self.note("server_timeout: a pool without one waits 1000 ms, or what mcrouter's -t says");
        }
        self.timeouts.push(timeout.unwrap_or(SERVER_TIMEOUT));
        let texts = pool
            .get("servers")
            .and_then(Value::as_array)
            .ok_or_else(|| format!("pool {name} has no servers"))?;
        texts
            .iter()
            .map(|text| {
                text.as_str().and_then(host).ok_or_else(|| {
                    format!("pool {name}: {text} is not of the form host:port, or not plain ascii")
                })
            })
            .collect()
    }

    /// A pool under this name, or another if that stands for something else already.
    fn add(&mut self, name: &str, settings: ImportedSettings, servers: Vec<ImportedServer>) -> String {
        let pools = &self.imported.pools;
        if let Some(same) = pools.iter().find(|pool| pool.settings == settings && pool.servers == servers) {
            return same.name.clone();
        }
        let mut free = name.to_owned();
        let mut number = 1;
        while pools.iter().any(|pool| pool.name == free) {
            number += 1;
            free = format!("{name}-{number}");
        }
        self.imported.pools.push(ImportedPool { name: free.clone(), settings, servers });
        free
    }

    /// A pool by the name it was given here.
    fn pool_named(&self, name: &str) -> &ImportedPool {
        self.imported.pools.iter().find(|pool| pool.name == name).expect("it was added")
    }

    /// The same pool with other settings. Those that it has are of a handle within this one.
    fn changed(&mut self, name: &str, changes: &[(&'static str, String)]) -> String {
        let pool = self.pool_named(name).clone();
        let mut settings = pool.settings;
        for (key, value) in changes {
            let within = settings.iter().find(|(other, _)| other == key).map(|(_, value)| value.clone());
            match within {
                Some(within) if OTHER_POOLS.contains(key) && within != *value => {
                    self.note(format!(
                        "{key}: of handles within each other only that of the innermost is translated"
                    ));
                    return name.to_owned();
                }
                Some(within) if SMALLER_HOLDS.contains(key) && number(&within) < number(value) => {}
                _ => set(&mut settings, key, value.clone()),
            }
        }
        self.add(name, settings, pool.servers)
    }
}

/// The number of a setting that is one, or a time in seconds.
fn number(value: &str) -> Option<u64> {
    value.trim_matches('"').trim_end_matches('s').parse().ok()
}

/// What a handle is, and in the short form, after a bar, with what.
fn kind(route: &Value) -> Result<(&str, Option<&str>), String> {
    match route {
        Value::String(text) => {
            Ok(text.split_once('|').map_or((text, None), |(kind, argument)| (kind, Some(argument))))
        }
        Value::Object(fields) => {
            let kind = fields.get("type").and_then(Value::as_str);
            kind.map(|kind| (kind, None)).ok_or_else(|| "a route handle has no `type`".into())
        }
        _ => Err(format!("{route} is no route handle")),
    }
}

/// What a handle over single hosts does with them.
fn together(kind: &str) -> Option<Together> {
    let one = |reads, fall_back| Some(Together::One { reads, fall_back });
    match kind {
        "AllSyncRoute" => Some(Together::All("all")),
        "AllMajorityRoute" => Some(Together::All("quorum")),
        "AllFastestRoute" => Some(Together::All("first")),
        "AllInitialRoute" | "AllAsyncRoute" => Some(Together::All("async")),
        "LatestRoute" => one("primary", "[\"error\"]"),
        "RandomRoute" => one("round_robin", "[]"),
        "LoadBalancerRoute" => one("two_choices", "[]"),
        "MissFailoverRoute" => one("primary", "[\"error\", \"miss\"]"),
        _ => None,
    }
}

fn child<'route>(route: &'route Value, key: &str, kind: &str) -> Result<&'route Value, String> {
    route.get(key).ok_or_else(|| format!("{kind} has no `{key}`"))
}

/// The handle that a `ShadowRoute` is around.
fn shadowed(route: &Value) -> Result<&Value, String> {
    match route.get("children").and_then(Value::as_array).map(Vec::as_slice) {
        Some([one]) => Ok(one),
        Some(_) => Err("ShadowRoute: only one handle is translated as its children".into()),
        None => {
            let one = route.get("children").or_else(|| route.get("child"));
            one.ok_or_else(|| "ShadowRoute has no `children`".into())
        }
    }
}

/// `host:port`, and perhaps `:ascii:plain`.
fn host(text: &str) -> Option<ImportedServer> {
    let plain = text.strip_suffix(":plain").unwrap_or(text);
    let plain = plain.strip_suffix(":ascii").unwrap_or(plain);
    let (host, port) = plain.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let good = !host.is_empty() && (host.starts_with('[') || !host.contains(':'));
    good.then(|| ImportedServer { address: plain.to_owned(), weight: 1, name: None })
}
