//! Where a key belongs: its pool by prefix, its holders by the pool's placement, and which of these
//! is read.

use krarup_units::{Nanos, Stamp};

use crate::ids::{PoolId, ServerId};
use crate::pool::{Holders, Lifetimes, Pool, PoolCounts};
use crate::route::Routes;
use crate::topology::{PoolSpec, Route, StandIn};

/// Where a key is kept.
#[derive(Debug)]
pub(crate) struct KeyLocation {
    /// The pool it belongs to.
    pub(crate) home: PoolId,
    /// The pool that is asked: the gutter where all holders at home are down.
    pub(crate) pool: PoolId,
    /// The servers that hold it, the primary first.
    pub(crate) holders: Holders,
    /// The key as its servers see it, where that is not as the client wrote it.
    rewritten: Option<Vec<u8>>,
    pub(crate) lifetimes: Lifetimes,
}

impl KeyLocation {
    /// Whether servers know the key by another name than the client.
    pub(crate) fn is_renamed(&self) -> bool {
        self.rewritten.is_some()
    }

    /// The key as its servers see it; the client wrote `key`.
    pub(crate) fn key<'a>(&'a self, key: &'a [u8]) -> &'a [u8] {
        self.rewritten.as_deref().unwrap_or(key)
    }
}

/// The pools, by number, and which keys belong to which of them. A pool keeps its number for ever.
#[derive(Debug)]
pub(crate) struct Routing {
    pools: Vec<Pool>,
    routes: Routes,
    /// The time of day at the clock's zero, in seconds since 1970.
    unix: u64,
    /// Over which time a server that is back is given its full share of reads again.
    ramp: Nanos,
}

impl Routing {
    /// `unix` is the time of day at the clock's zero, in seconds since 1970; a server that was
    /// ejected is back at its full share of reads after `ramp`.
    pub(crate) fn new(pools: Vec<PoolSpec>, routes: Vec<Route>, unix: u64, ramp: Nanos) -> Self {
        let pools = pools.into_iter().map(Pool::new).collect();
        Self { pools, routes: Routes::new(routes), unix, ramp }
    }

    // ---- reading --------------------------------------------------------------------------------

    pub(crate) fn pools(&self) -> &[Pool] {
        &self.pools
    }

    pub(crate) fn pools_mut(&mut self) -> &mut [Pool] {
        &mut self.pools
    }

    /// The numbers of all pools.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.pools.len()).map(PoolId::new)
    }

    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// The pool of a client or a request whose own pool may be no more.
    #[inline]
    pub(crate) fn living(&self, mut entry: PoolId) -> PoolId {
        while let Some(successor) = self.pools[entry.index()].successor() {
            entry = successor;
        }
        entry
    }

    /// Over how many servers a request that is copied may be spread.
    pub(crate) fn most_copies(&self) -> usize {
        let living = self.pools.iter().filter(|pool| !pool.is_retired());
        living.map(|pool| pool.spec().copies).max().unwrap_or(1).max(1)
    }

    /// What pools have counted until now, by number; from now on they count from zero.
    pub(crate) fn take_counts(&mut self) -> Vec<PoolCounts> {
        self.pools.iter_mut().map(Pool::take_counts).collect()
    }

    /// Whether keys that clients ask for belong to a pool: by a route, or by where clients connect,
    /// unless a route has all keys.
    pub(crate) fn leads_to(&self, pool: PoolId) -> bool {
        let by_address = self[pool].spec().listens && self.routes.find(b"").is_none();
        by_address || self.routes.iter().any(|route| route.pool == pool.index())
    }

    // ---- a key ----------------------------------------------------------------------------------

    /// Where `key` is kept, for a client that connected where `entry` is the pool.
    pub(crate) fn locate(&mut self, entry: PoolId, key: &[u8], now: Stamp) -> KeyLocation {
        let route = self.routes.find(key);
        let home = route.map_or(entry, |route| PoolId::new(route.pool));
        let rewritten = route
            .filter(|route| route.rewrites())
            .map(|route| [&route.add[..], &key[route.stripped()..]].concat());
        let sent = rewritten.as_deref().unwrap_or(key);
        let (pool, holders) = self.holders_or_gutter(home, sent);
        let lifetimes = self.lifetimes(home, pool, now);
        KeyLocation { home, pool, holders, rewritten, lifetimes }
    }

    /// The holders of a key in its pool, and that; where all of them are down, those in its gutter,
    /// unless these are down too: what is told then is that the pool's own are.
    pub(crate) fn holders_or_gutter(&mut self, home: PoolId, sent: &[u8]) -> (PoolId, Holders) {
        let pool = &mut self.pools[home.index()];
        let holders = pool.holders(sent);
        if let Some(StandIn { pool: gutter, .. }) = pool.spec().gutter
            && !pool.any_up(&holders)
        {
            let gutter = PoolId::new(gutter);
            let pool = &mut self.pools[gutter.index()];
            let stand_ins = pool.holders(sent);
            if pool.any_up(&stand_ins) {
                return (gutter, stand_ins);
            }
        }
        (home, holders)
    }

    /// A request for a key that belongs to `home` is sent to the servers of `pool`.
    #[inline]
    pub(crate) fn asks(&mut self, home: PoolId, pool: PoolId) {
        if pool != home {
            self.pools[home.index()].count(|counts| &mut counts.guttered);
        }
    }

    /// The servers that hold `key` in its own pool, whether they are up or not, for a client that
    /// connected where `entry` is the pool.
    pub(crate) fn holders_at_home(&mut self, entry: PoolId, key: &[u8]) -> Holders {
        let entry = self.living(entry);
        let route = self.routes.find(key);
        let pool = route.map_or(entry, |route| PoolId::new(route.pool));
        let rewritten = route.map(|route| [&route.add[..], &key[route.stripped()..]].concat());
        self.pools[pool.index()].holders(rewritten.as_deref().unwrap_or(key))
    }

    /// The holder of `key` that is read, by the pool's policy, and given `keys` keys; none where
    /// all are down. `load` says how much a read would come behind at a server.
    pub(crate) fn choose(
        &mut self,
        pool: PoolId,
        key: &[u8],
        holders: &[ServerId],
        keys: usize,
        now: Stamp,
        load: impl Fn(ServerId) -> usize,
    ) -> Option<ServerId> {
        let pool = &mut self.pools[pool.index()];
        let readable = pool.readable(key);
        pool.read(readable.as_deref().unwrap_or(holders), |_| false, keys, now, self.ramp, load)
    }

    /// A holder of `key` that is read after others have been `tried`; with `stand_ins` one that
    /// stands in if there is no other.
    pub(crate) fn choose_next(
        &mut self,
        pool: PoolId,
        key: &[u8],
        stand_ins: bool,
        tried: impl Fn(ServerId) -> bool,
        now: Stamp,
        load: impl Fn(ServerId) -> usize,
    ) -> Option<ServerId> {
        let pool = &mut self.pools[pool.index()];
        let holders = pool.holders(key);
        let readable = pool.readable(key);
        let first = readable.as_deref().unwrap_or(&holders);
        let found = pool.read(first, &tried, 1, now, self.ramp, &load);
        if found.is_some() || !stand_ins {
            return found;
        }
        pool.read(&holders, &tried, 1, now, self.ramp, &load)
    }

    /// `unix` as for [`Self::new`], once the wall was set.
    pub(crate) fn set_unix(&mut self, unix: u64) {
        self.unix = unix;
    }

    /// The time of day, in seconds since 1970.
    pub(crate) fn unix_at(&self, now: Stamp) -> u64 {
        self.unix + now.0 / 1_000_000_000
    }

    /// How long values may live whose keys belong to `home`, where the pool `asked` keeps them.
    pub(crate) fn lifetimes(&self, home: PoolId, asked: PoolId, now: Stamp) -> Lifetimes {
        let spec = self.pools[home.index()].spec();
        let gutter = spec.gutter.filter(|gutter| gutter.pool == asked.index() && asked != home);
        let cap = spec.ttl_cap.into_iter().chain(gutter.map(|gutter| gutter.ttl)).min();
        Lifetimes { cap, unix: self.unix_at(now) }
    }

    // ---- servers --------------------------------------------------------------------------------

    /// A server can be asked; after an ejection its share grows `gradually`.
    pub(crate) fn server_up(&mut self, server: ServerId, now: Stamp, gradually: bool) {
        self.pools.iter_mut().for_each(|pool| pool.server_up(server, now, gradually));
    }

    /// A server cannot be asked, and `may_lose` what it had.
    pub(crate) fn went_down(&mut self, server: ServerId, may_lose: bool) {
        self.pools.iter_mut().for_each(|pool| pool.went_down(server, may_lose));
    }

    // ---- another configuration ------------------------------------------------------------------

    /// Becomes what another configuration says; `ramp` as for [`Self::new`]. Servers have the
    /// numbers `servers` here, by their places in the topology, and `up` says which of them can be
    /// asked. Returns the numbers of the configuration's pools.
    pub(crate) fn reconfigure(
        &mut self,
        specs: Vec<PoolSpec>,
        mut routes: Vec<Route>,
        ramp: Nanos,
        servers: &[ServerId],
        up: &[ServerId],
        now: Stamp,
    ) -> Vec<PoolId> {
        self.ramp = ramp;
        let pools: Vec<PoolId> = specs.iter().map(|spec| self.number_of(spec)).collect();
        for (number, pool) in self.pools.iter_mut().enumerate() {
            if !pools.contains(&PoolId::new(number)) {
                let next = specs.iter().position(|spec| spec.successor_of.contains(&pool.spec().name));
                pool.retire(pools[next.unwrap_or(0)]);
            }
        }
        for (&number, mut spec) in pools.iter().zip(specs) {
            spec.renumber(servers, &pools);
            self.pools[number.index()].become_spec(spec, now);
            up.iter().for_each(|&server| self.pools[number.index()].is_there(server, now));
        }
        for route in &mut routes {
            route.pool = pools[route.pool].index();
        }
        self.routes = Routes::new(routes);
        pools
    }

    /// How many there would be with these.
    pub(crate) fn count_with(&self, specs: &[PoolSpec]) -> usize {
        let is_new = |spec: &&PoolSpec| self.pools.iter().all(|pool| pool.spec().name != spec.name);
        self.pools.len() + specs.iter().filter(is_new).count()
    }

    fn number_of(&mut self, spec: &PoolSpec) -> PoolId {
        let known = self.pools.iter().position(|pool| pool.spec().name == spec.name);
        PoolId::new(known.unwrap_or_else(|| {
            self.pools.push(Pool::new(PoolSpec::of(&spec.name, Vec::new())));
            self.pools.len() - 1
        }))
    }

    // ---- several loops --------------------------------------------------------------------------

    /// What pools are and have counted, for the sum of all loops.
    pub(crate) fn copy(&self) -> Self {
        Self {
            pools: self.pools.iter().map(Pool::copy).collect(),
            routes: Routes::new(self.routes.iter().cloned().collect()),
            ..*self
        }
    }

    /// Adds what another loop's pools have counted.
    pub(crate) fn absorb(&mut self, other: &Self) {
        // A configuration reaches all, one after the other: what one does not have yet is at the
        // end.
        for (place, theirs) in other.pools.iter().enumerate() {
            match self.pools.get_mut(place) {
                Some(ours) => ours.absorb(theirs),
                None => self.pools.push(theirs.copy()),
            }
        }
    }
}

impl std::ops::Index<PoolId> for Routing {
    type Output = Pool;

    #[inline]
    fn index(&self, pool: PoolId) -> &Pool {
        &self.pools[pool.index()]
    }
}

impl std::ops::IndexMut<PoolId> for Routing {
    #[inline]
    fn index_mut(&mut self, pool: PoolId) -> &mut Pool {
        &mut self.pools[pool.index()]
    }
}

impl PoolSpec {
    /// Places in a topology become the numbers that servers and pools have here.
    fn renumber(&mut self, servers: &[ServerId], pools: &[PoolId]) {
        for server in &mut self.servers {
            *server = servers[*server].index();
        }
        for stand_in in self.gutter.iter_mut().chain(&mut self.warm) {
            stand_in.pool = pools[stand_in.pool].index();
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.pool = pools[shadow.pool].index();
        }
    }
}
