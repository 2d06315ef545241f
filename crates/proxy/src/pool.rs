//! Which of a pool's servers are asked for a key. No socket, no clock: who is up and who is busy is
//! told.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use krarup_record::{KeyDigest, MeasuredDistribution};
use krarup_units::{Nanos, Stamp};
use smallvec::SmallVec;

mod changes;
mod ejection;
mod places;

use self::changes::RecentChanges;
use self::ejection::SlowMembers;
use self::places::PlacesByServer;
use crate::ids::{PoolId, RequestId, ServerId};
use crate::merge::How;
use crate::topology::{Hedge, PoolSpec, Reads, WhenDown, Writes};

/// A pool at work: what it was told to be, and what it has given to which server.
#[derive(Debug)]
pub(crate) struct Pool {
    spec: PoolSpec,
    servers: Vec<ServerId>,
    places: PlacesByServer,
    /// The same, where they are so many that a request had better not copy their numbers.
    many: Option<Arc<[ServerId]>>,
    members: Vec<Member>,
    /// The member whose share of the reads is set.
    pushed: Option<PushedMember>,
    /// Room for an order of the members.
    order: Vec<usize>,
    /// How the keys of a request were divided last.
    runs: Vec<(ServerId, usize)>,
    rounds: ReadRounds,
    random: u64,
    /// Requests of this pool under way.
    busy: u32,
    counts: PoolCounts,
    tokens: Tokens,
    retries: Budget,
    shadowed: f64,
    hedge: Option<Hedging>,
    /// How quick its members are, where one that is slow is to be left out.
    quickness: Option<SlowMembers>,
    /// For each key that is being fetched with `get`, the request that fetches it.
    leaders: HashMap<KeyDigest, RequestId>,
    /// The same for `mg`: requests for one key may ask for different things of it.
    meta_leaders: HashMap<KeyDigest, Vec<RequestId>>,
    /// Keys that have changed such that an `add` of what was read before would undo it.
    changes: RecentChanges,
    /// The pool that its clients belong to, where no configuration has it any more.
    successor: Option<PoolId>,
}

/// The share of a replicated pool's reads that one of its servers is given, whatever the pool's own
/// choice would be.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadPush {
    /// The pool's name.
    pub pool: String,
    /// The server's name.
    pub server: String,
    /// The share of the reads that it gets, from 0 to 1.
    pub share: f64,
    /// Until when, if nothing else is said before.
    pub until: Stamp,
}

#[derive(Debug)]
struct PushedMember {
    place: usize,
    share: f64,
    until: Stamp,
    /// The part of a read that it is owed.
    credit: f64,
}

impl PushedMember {
    /// Its place, if it gets this read; otherwise it is taken out of the `order` of candidates.
    fn takes(&mut self, order: &mut Vec<usize>) -> Option<usize> {
        let at = order.iter().position(|&place| place == self.place).filter(|_| order.len() > 1)?;
        self.credit += self.share;
        if self.credit >= 1.0 {
            self.credit -= 1.0;
            return Some(self.place);
        }
        order.remove(at);
        None
    }
}

/// The servers that hold a key, the primary first.
#[derive(Clone, Debug)]
pub(crate) enum Holders {
    Few(SmallVec<[ServerId; FEW]>),
    /// Every server of a pool that has many.
    Every(Arc<[ServerId]>),
}

/// So many holders are copied rather than shared.
const FEW: usize = 8;

impl Deref for Holders {
    type Target = [ServerId];

    #[inline]
    fn deref(&self) -> &[ServerId] {
        match self {
            Self::Few(few) => few,
            Self::Every(every) => every,
        }
    }
}

/// The numbers of a pool's servers, shared where they are many.
fn shared(servers: &[ServerId]) -> Option<Arc<[ServerId]>> {
    (servers.len() > FEW).then(|| servers.into())
}

/// What a pool did besides answering, each counted when it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PoolCounts {
    /// Requests for keys of the pool; one that names keys of several pools counts for that of its
    /// first key.
    pub requests: u64,
    /// Reads that were tried again at another holder after an error.
    pub retries: u64,
    /// Reads that were tried again at another holder, or at the warm pool, after a miss.
    pub miss_retries: u64,
    /// Values sent to where they had been missed.
    pub refills: u64,
    /// Reads that were sent to a second holder while the first had not answered.
    pub hedges: u64,
    /// Those of them that the second answered first.
    pub hedges_won: u64,
    /// Gets that waited for the answer to the same get.
    pub coalesced: u64,
    /// Copies of requests, or of parts of them, sent to servers of the shadow pool.
    pub shadowed: u64,
    /// Copies, refills or shadows that were not sent because their server was down or had too much
    /// before it; copies also that were lost with its connection, or refused.
    pub dropped: u64,
    /// Requests refused by the pool's rate or concurrency.
    pub limited: u64,
    /// Requests that the gutter pool took because the key's holders were down.
    pub guttered: u64,
    /// Times that a holder was ejected because it was slow.
    #[serde(default)]
    pub slow_ejections: u64,
}

#[derive(Debug, Default)]
struct Member {
    up: bool,
    /// Since when it has had what it was given; none while it is down and may have lost that.
    since: Option<Stamp>,
    /// Keys it was asked for.
    given: u64,
    /// Since when, or from when on, it is given a growing share; none: all of its share.
    returning: Option<Stamp>,
    credit: f64,
}

/// The first of the places with the least `cost`.
fn least<C: Ord>(order: &[usize], cost: impl Fn(usize) -> C) -> usize {
    order.iter().copied().min_by_key(|&place| cost(place)).expect("there is a place")
}

/// One of the places with the least `cost`, drawn.
fn any_least(order: &[usize], cost: impl Fn(usize) -> usize, random: &mut u64) -> usize {
    let (mut found, mut lowest, mut alike) = (order[0], cost(order[0]), 1);
    for &place in &order[1..] {
        let cost = cost(place);
        alike = match cost.cmp(&lowest) {
            Ordering::Less => 1,
            Ordering::Equal => alike + 1,
            Ordering::Greater => continue,
        };
        // Each of those that are alike so far with the same probability.
        if alike == 1 || draw(random).is_multiple_of(alike) {
            (found, lowest) = (place, cost);
        }
    }
    found
}

/// Whose turn it is: each has one in a round, which begins at a place that is drawn. Were it always
/// the same, keys that are asked for together time and again would each be read at one holder.
#[derive(Debug)]
struct ReadRounds {
    start: usize,
    /// Turns of this round that are over.
    taken: usize,
}

impl ReadRounds {
    /// The next turn's place, of so many.
    fn turn(&mut self, places: usize, random: &mut u64) -> usize {
        if self.taken >= places {
            *self = Self { start: draw(random) as usize, taken: 0 };
        }
        let place = (self.start + self.taken) % places;
        self.taken += 1;
        place
    }
}

/// xorshift64*: any even spread will do, and the same run draws the same.
fn draw(random: &mut u64) -> u64 {
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
}

impl Member {
    /// Whether it is given no reads at all.
    fn is_left_out(&self, now: Stamp) -> bool {
        self.returning.is_some_and(|from| now < from)
    }

    /// Another holder was given `keys` keys, and has been given so many now. Where this one is down
    /// and has been given fewer, it would have had them.
    fn passed_over(&mut self, given: u64, keys: u64) {
        if !self.up && self.given < given {
            self.given += keys;
        }
    }

    /// Whether it is there to be read.
    fn is_read(&self, now: Stamp) -> bool {
        self.up && !self.is_left_out(now)
    }

    /// Whether a server that has come back takes this one: a share that grows from nothing to all
    /// over `ramp`.
    fn accepts(&mut self, now: Stamp, ramp: Nanos) -> bool {
        let Some(since) = self.returning else { return true };
        if self.is_left_out(now) {
            return false;
        }
        let back = now.0.saturating_sub(since.0);
        if back >= ramp.0 {
            self.returning = None;
            return true;
        }
        self.credit += back as f64 / ramp.0 as f64;
        let accepted = self.credit >= 1.0;
        if accepted {
            self.credit -= 1.0;
        }
        accepted
    }
}

impl PoolCounts {
    /// Adds what another counted.
    pub(crate) fn absorb(&mut self, other: &Self) {
        let Self {
            requests,
            retries,
            miss_retries,
            refills,
            hedges,
            hedges_won,
            coalesced,
            shadowed,
            dropped,
            limited,
            guttered,
            slow_ejections,
        } = other;
        for (ours, theirs) in [
            (&mut self.requests, requests),
            (&mut self.retries, retries),
            (&mut self.miss_retries, miss_retries),
            (&mut self.refills, refills),
            (&mut self.hedges, hedges),
            (&mut self.hedges_won, hedges_won),
            (&mut self.coalesced, coalesced),
            (&mut self.shadowed, shadowed),
            (&mut self.dropped, dropped),
            (&mut self.limited, limited),
            (&mut self.guttered, guttered),
            (&mut self.slow_ejections, slow_ejections),
        ] {
            *ours += theirs;
        }
    }

    /// Every count with its name, for people and for scrapers.
    pub fn named(&self) -> [(&'static str, u64); 12] {
        [
            ("requests", self.requests),
            ("retries", self.retries),
            ("miss_retries", self.miss_retries),
            ("refills", self.refills),
            ("hedges", self.hedges),
            ("hedges_won", self.hedges_won),
            ("coalesced", self.coalesced),
            ("shadowed", self.shadowed),
            ("dropped", self.dropped),
            ("limited", self.limited),
            ("guttered", self.guttered),
            ("slow_ejections", self.slow_ejections),
        ]
    }
}

impl Pool {
    pub(crate) fn new(spec: PoolSpec) -> Self {
        let servers: Vec<ServerId> = spec.servers.iter().copied().map(ServerId::new).collect();
        Self {
            places: PlacesByServer::of(&servers),
            many: shared(&servers),
            members: spec.servers.iter().map(|_| Member::default()).collect(),
            pushed: None,
            order: Vec::new(),
            runs: Vec::new(),
            rounds: ReadRounds { start: 0, taken: usize::MAX },
            random: 0x9E37_79B9_7F4A_7C15,
            busy: 0,
            counts: PoolCounts::default(),
            tokens: Tokens::new(&spec),
            retries: Budget::of_retries(spec.retry_budget),
            shadowed: 0.0,
            hedge: spec.hedge.map(Hedging::new),
            quickness: spec.eject_slower.map(SlowMembers::new),
            leaders: HashMap::new(),
            meta_leaders: HashMap::new(),
            changes: RecentChanges::default(),
            successor: None,
            servers,
            spec,
        }
    }

    pub(crate) fn spec(&self) -> &PoolSpec {
        &self.spec
    }

    /// Its servers, by number.
    pub(crate) fn servers(&self) -> &[ServerId] {
        &self.servers
    }

    /// Whether no configuration has it any more.
    pub(crate) fn is_retired(&self) -> bool {
        self.successor.is_some()
    }

    /// The pool that its clients belong to, where it is retired.
    #[inline]
    pub(crate) fn successor(&self) -> Option<PoolId> {
        self.successor
    }

    /// Requests of this pool under way.
    pub(crate) fn busy(&self) -> u32 {
        self.busy
    }

    pub(crate) fn counts(&self) -> &PoolCounts {
        &self.counts
    }

    /// Counts something that happened.
    #[inline]
    pub(crate) fn count(&mut self, what: impl FnOnce(&mut PoolCounts) -> &mut u64) {
        *what(&mut self.counts) += 1;
    }

    /// Whether anything was counted.
    pub(crate) fn has_counted(&self) -> bool {
        self.counts != PoolCounts::default()
    }

    /// Adds what `other` has counted, which counts from zero from now on.
    pub(crate) fn take_over(&mut self, other: &mut Self) {
        self.counts.absorb(&other.take_counts());
    }

    /// What was counted until now; from now on it counts from zero.
    pub(crate) fn take_counts(&mut self) -> PoolCounts {
        std::mem::take(&mut self.counts)
    }

    /// What it is and has counted, for the sum of all loops.
    pub(crate) fn copy(&self) -> Self {
        let spec = PoolSpec {
            listens: self.spec.listens,
            copies: self.spec.copies,
            reads: self.spec.reads,
            gutter: self.spec.gutter,
            coalesce: self.spec.coalesce,
            readers: self.spec.readers,
            ..PoolSpec::of(&self.spec.name, self.spec.servers.clone())
        };
        Self { counts: self.counts, busy: self.busy, successor: self.successor, ..Self::new(spec) }
    }

    /// Adds what another loop's pool has counted.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.counts.absorb(&other.counts);
        self.busy += other.busy;
    }

    /// A server can be asked again. It starts level with the least loaded of the others: what it
    /// missed while it was away would otherwise come over it all at once. What it missed of keys
    /// that others held too [counts](Self::read) as given already. After an ejection its share
    /// grows `gradually`; one that is left out because it was slow stays so.
    pub(crate) fn server_up(&mut self, server: ServerId, now: Stamp, gradually: bool) {
        if let Some(place) = self.place_of(server) {
            self.level(place);
            let member = &mut self.members[place];
            member.up = true;
            member.since = member.since.or(Some(now));
            member.returning = member.returning.max(gradually.then_some(now));
        }
    }

    /// A member counts as given no less than the least loaded of the others that are up.
    fn level(&mut self, place: usize) {
        let members = self.members.iter().enumerate();
        let others = members.filter(|&(other, member)| other != place && member.up);
        let least = others.map(|(_, member)| member.given).min().unwrap_or_default();
        let member = &mut self.members[place];
        member.given = member.given.max(least);
        member.credit = 0.0;
    }

    /// Becomes what another configuration says, and keeps what it knows of servers that stay. The
    /// reads of all are chosen again.
    pub(crate) fn become_spec(&mut self, spec: PoolSpec, now: Stamp) {
        self.push(None);
        let servers: Vec<ServerId> = spec.servers.iter().copied().map(ServerId::new).collect();
        let members = std::mem::take(&mut self.members);
        let mut before: Vec<(ServerId, Member)> = self.servers.iter().copied().zip(members).collect();
        for &server in &servers {
            let known = before.iter().position(|&(other, _)| other == server);
            self.members.push(known.map_or_else(Member::default, |known| before.swap_remove(known).1));
        }
        let is_back = self.successor.take().is_some();
        let is_placed_anew = self.spec.placement != spec.placement || self.spec.copies != spec.copies;
        if is_back || is_placed_anew || self.servers != servers {
            // A key may have another holder now, which does not have it, and is not made to catch
            // up with what others were given.
            for member in &mut self.members {
                member.since = member.up.then_some(now);
                member.given = 0;
            }
        }
        self.places = PlacesByServer::of(&servers);
        self.many = shared(&servers);
        self.servers = servers;
        let old = std::mem::replace(&mut self.spec, spec);
        if old.rate != self.spec.rate {
            self.tokens = Tokens::new(&self.spec);
        }
        if old.retry_budget != self.spec.retry_budget {
            self.retries = Budget::of_retries(self.spec.retry_budget);
        }
        if old.hedge != self.spec.hedge {
            self.hedge = self.spec.hedge.map(Hedging::new);
        }
        self.quickness = self.spec.eject_slower.map(SlowMembers::new);
        if !self.spec.coalesce {
            // From now on writes do not say what changes.
            self.forget_all_leaders();
        }
    }

    /// None of its servers is left out for longer than `eject_for` from now on because it is slow,
    /// nor at all where that is not looked at any more.
    pub(crate) fn limit_ejections(&mut self, eject_for: Nanos, now: Stamp) {
        let latest = if self.quickness.is_some() { now + eject_for } else { now };
        for member in &mut self.members {
            member.returning = member.returning.map(|from| from.min(latest));
        }
    }

    /// No configuration has it any more, and its clients belong to the `successor`, unless
    /// they belong to another already.
    pub(crate) fn retire(&mut self, successor: PoolId) {
        self.successor.get_or_insert(successor);
    }

    /// A server that is up may be new to this pool.
    pub(crate) fn is_there(&mut self, server: ServerId, now: Stamp) {
        if self.place_of(server).is_some_and(|place| !self.members[place].up) {
            self.server_up(server, now, false);
        }
    }

    /// A server cannot be asked, and `may_lose` what it had.
    pub(crate) fn went_down(&mut self, server: ServerId, may_lose: bool) {
        if let Some(place) = self.place_of(server) {
            let member = &mut self.members[place];
            member.up = false;
            member.since = member.since.filter(|_| !may_lose);
        }
    }

    fn place_of(&self, server: ServerId) -> Option<usize> {
        self.places.of_server(server)
    }

    /// Gives one of its servers this share of the reads, until then at the latest; none: all get
    /// what the pool chooses.
    pub(crate) fn push(&mut self, share: Option<(ServerId, f64, Stamp)>) {
        let pushed = share.and_then(|(server, share, until)| Some((self.place_of(server)?, share, until)));
        let credit = self.pushed.as_ref().map_or(0.0, |before| before.credit);
        let before = std::mem::replace(
            &mut self.pushed,
            pushed.map(|(place, share, until)| PushedMember { place, share, until, credit }),
        );
        // What it was given meanwhile was not counted, nor what it missed: it goes on level.
        if let Some(PushedMember { place, .. }) = before
            && self.pushed.is_none()
            && self.members[place].up
        {
            self.level(place);
        }
    }

    /// Whether every server of the pool holds every key.
    pub(crate) fn is_replicated(&self) -> bool {
        self.spec.placement.is_none()
    }

    /// Whether reads may be looked at again once they have been asked, so that their keys must be
    /// kept.
    pub(crate) fn needs_a_second_look(&self) -> bool {
        let spec = &self.spec;
        spec.fall_back_on_error
            || spec.fall_back_on_miss
            || spec.warm.is_some()
            || spec.hedge.is_some()
            || spec.eject_slower.is_some()
            || spec.coalesce
            || spec.shadow.is_some()
            || spec.gutter.is_some()
            || spec.readers.is_some()
    }

    /// The servers that hold `key`, the primary first. With [`WhenDown::Next`] those that are up,
    /// in the order of placement.
    #[inline]
    pub(crate) fn holders(&mut self, key: &[u8]) -> Holders {
        match &self.spec.placement {
            None => match &self.many {
                Some(many) => Holders::Every(Arc::clone(many)),
                None => Holders::Few(self.servers.iter().copied().collect()),
            },
            Some(placement) if self.spec.copies == 1 && self.spec.when_down != WhenDown::Next => {
                let mut primary = SmallVec::new();
                primary.push(self.servers[placement.primary(key)]);
                Holders::Few(primary)
            }
            Some(placement) => {
                let (servers, order) = (self.servers.len(), &mut self.order);
                placement.replicas(key, self.spec.copies, order);
                let next = self.spec.when_down == WhenDown::Next;
                if next && order.iter().any(|&place| !self.members[place].up) {
                    placement.replicas(key, servers, order);
                    // With all of them down the holders stay who they are, and are named in the
                    // error.
                    if self.members.iter().any(|member| member.up) {
                        order.retain(|&place| self.members[place].up);
                    }
                    order.truncate(self.spec.copies);
                }
                Holders::Few(order.iter().map(|&place| self.servers[place]).collect())
            }
        }
    }

    /// The number of the one server that takes over requests for `key` if the one that has them is
    /// lost; none where several do, or none.
    pub(crate) fn heir(&mut self, key: &[u8]) -> Option<u16> {
        let placement = self.spec.placement.as_ref()?;
        let one_does = match self.spec.copies {
            1 => self.spec.when_down == WhenDown::Next,
            _ => self.spec.reads == Reads::Primary,
        };
        placement.replicas(key, 2, &mut self.order);
        let second = self.order.get(1).filter(|_| one_does)?;
        u16::try_from(self.servers[*second].index()).ok()
    }

    /// The number by which `key` is placed; none where every server has every key.
    pub(crate) fn placed_by(&self, key: &[u8]) -> Option<u64> {
        self.spec.placement.as_ref().map(|placement| placement.number(key))
    }

    /// Who is to be read in place of the servers that [`Self::holders`] gives: those that hold the
    /// key, up or not, while one of them is up; none: these servers, of which some may stand in. A
    /// stand-in has only what was written while a holder was down, now or at an earlier time.
    pub(crate) fn readable(&mut self, key: &[u8]) -> Option<Holders> {
        let placement = self.spec.placement.as_ref()?;
        if self.spec.when_down != WhenDown::Next || self.members.iter().all(|member| member.up) {
            return None;
        }
        placement.replicas(key, self.spec.copies, &mut self.order);
        let living = self.order.iter().any(|&place| self.members[place].up);
        living.then(|| Holders::Few(self.order.iter().map(|&place| self.servers[place]).collect()))
    }

    /// Whether any of these servers is up.
    pub(crate) fn any_up(&self, holders: &[ServerId]) -> bool {
        holders.iter().any(|&server| self.is_up(server))
    }

    fn is_up(&self, server: ServerId) -> bool {
        self.place_of(server).is_some_and(|place| self.members[place].up)
    }

    /// Whether a server came up less than so many seconds ago: it may have lost what it had.
    pub(crate) fn is_newly_up(&self, server: ServerId, seconds: i32, now: Stamp) -> bool {
        let since = self.place_of(server).and_then(|place| self.members[place].since);
        let span = Nanos::from_secs(u64::from(seconds.unsigned_abs()));
        since.is_some_and(|since| now.0.saturating_sub(since.0) < span.0)
    }

    /// The holder to be asked for `keys` keys, which then count as given to it; none if all are
    /// down or `tried`. `load` says how much a read would come behind at a server.
    pub(crate) fn read(
        &mut self,
        holders: &[ServerId],
        tried: impl Fn(ServerId) -> bool,
        keys: usize,
        now: Stamp,
        ramp: Nanos,
        load: impl Fn(ServerId) -> usize,
    ) -> Option<ServerId> {
        if let &[only] = holders {
            let place = self.place_of(only).filter(|&place| self.members[place].up && !tried(only))?;
            self.members[place].given += keys as u64;
            return Some(only);
        }
        if self.pushed.as_ref().is_some_and(|pushed| pushed.until <= now) {
            self.push(None);
        }
        let Self { spec, servers, places, members, pushed, order, rounds, random, .. } = self;
        order.clear();
        let by_place = spec.reads == Reads::Primary && spec.placement.is_some();
        if holders.len() == members.len() && !by_place {
            // Every member, in whatever order.
            order.extend((0..members.len()).filter(|&place| members[place].up && !tried(servers[place])));
        } else {
            let untried = holders.iter().filter(|&&server| !tried(server));
            let places = untried.filter_map(|&server| places.of_server(server));
            order.extend(places.filter(|&place| members[place].up));
        }
        let some_missing = order.len() < holders.len();
        // One that is left out, or has just come back, gets what any such server gets.
        let pushed = pushed.as_mut().filter(|pushed| members[pushed.place].returning.is_none());
        if let Some(place) = pushed.and_then(|pushed| pushed.takes(order)) {
            return Some(servers[place]);
        }
        let mut declined = false;
        loop {
            let owed = |place: usize| load(servers[place]);
            let place = match spec.reads {
                _ if order.len() < 2 => *order.first()?,
                Reads::Primary => order[0],
                Reads::LeastWork => least(order, |place| members[place].given),
                // Not the one given the least: that is the one that has been slow.
                Reads::LeastOutstanding => any_least(order, owed, random),
                // Whose turn it was did not take it: to the next one it would be a second turn.
                Reads::RoundRobin if declined => order[(draw(random) % order.len() as u64) as usize],
                Reads::RoundRobin => order[rounds.turn(order.len(), random)],
                Reads::TwoChoices => {
                    let first = (draw(random) % order.len() as u64) as usize;
                    let second =
                        (first + 1 + (draw(random) % (order.len() as u64 - 1)) as usize) % order.len();
                    let (first, second) = (order[first], order[second]);
                    if owed(second) < owed(first) { second } else { first }
                }
            };
            members[place].given += keys as u64;
            if order.len() > 1 && !members[place].accepts(now, ramp) {
                // What it does not get yet counts as given, or it would all come over it later.
                order.retain(|&other| other != place);
                declined = true;
                continue;
            }
            if some_missing {
                // So does what one that is down does not get.
                let given = members[place].given;
                for other in holders.iter().filter_map(|&server| places.of_server(server)) {
                    members[other].passed_over(given, keys as u64);
                }
            }
            return Some(servers[place]);
        }
    }

    /// The server that [`Self::read`] has found for one key is not asked after all.
    pub(crate) fn is_not_asked(&mut self, server: ServerId) {
        if let Some(place) = self.place_of(server) {
            // While its share is set, what it is asked for is not counted.
            let given = &mut self.members[place].given;
            *given = given.saturating_sub(1);
        }
    }

    /// Its servers that no ordered share reaches: they are left out, or have come back less than
    /// `ramp` ago. By the time alone: where nothing is read, none is seen to have its share again.
    pub(crate) fn left_out(&self, now: Stamp, ramp: Nanos) -> impl Iterator<Item = ServerId> {
        let members = self.servers.iter().zip(&self.members);
        let out = members.filter(move |(_, member)| member.returning.is_some_and(|from| now < from + ramp));
        out.map(|(server, _)| *server)
    }

    /// Whether a share of the reads is ordered, or a server that has come back gets less than its
    /// own: an even division would pass both by.
    pub(crate) fn has_uneven_shares(&self) -> bool {
        self.pushed.is_some() || self.members.iter().any(|member| member.up && member.returning.is_some())
    }

    /// Divides `keys` keys evenly over the servers that are up, in runs that differ by at most one
    /// key; the longer runs go to those with the least work. Fewer keys than servers ask fewer
    /// servers. [`Self::runs`] has them then.
    pub(crate) fn divide(&mut self, keys: usize) {
        let Self { servers, members, order, runs, .. } = self;
        order.clear();
        order.extend((0..members.len()).filter(|&place| members[place].up));
        order.sort_by_key(|&place| members[place].given);
        order.truncate(keys);
        runs.clear();
        if let Some(short) = keys.checked_div(order.len()) {
            let longer = keys % order.len();
            for (turn, &place) in order.iter().enumerate() {
                let length = short + usize::from(turn < longer);
                members[place].given += length as u64;
                runs.push((servers[place], length));
            }
        }
    }

    /// The runs of keys that were divided last, in the order of the keys: each server and its
    /// number of keys.
    pub(crate) fn runs(&self) -> &[(ServerId, usize)] {
        &self.runs
    }

    /// How the answers of so many holders to a write become one.
    pub(crate) fn write_answered_by(&self, holders: usize) -> How {
        match self.spec.writes {
            Writes::All => How::Worst,
            Writes::Quorum => How::Enough((holders / 2 + 1) as u16),
            Writes::First | Writes::Async => How::Enough(1),
        }
    }

    /// Whether the pool's limits let one more request in, to the loop at `place` among all; if not,
    /// why. It takes nothing of them before it [begins](Self::begin): another pool that it has keys
    /// of may refuse it.
    pub(crate) fn admits(&mut self, place: usize, now: Stamp) -> Result<(), String> {
        let loops = self.spec.loops;
        // Of the whole this loop has its share: what is left of an even division the first have.
        if let Some(most) = self.spec.concurrency
            && self.busy >= most / loops + u32::from(place < (most % loops) as usize)
        {
            self.counts.limited += 1;
            return Err(format!("pool {} is limited to {most} requests under way", self.spec.name));
        }
        if !self.tokens.has_one(now) {
            self.counts.limited += 1;
            let rate = self.spec.rate.unwrap_or_default();
            return Err(format!("pool {} is limited to {rate} requests a second", self.spec.name));
        }
        Ok(())
    }

    /// A request that was let in begins.
    pub(crate) fn begin(&mut self) {
        self.tokens.spend();
        self.busy += 1;
    }

    /// A request that was let in has ended.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.busy -= 1;
    }

    /// The request that fetches `key`, or another one of this digest, with `get`.
    pub(crate) fn leader(&self, key: KeyDigest) -> Option<RequestId> {
        self.leaders.get(&key).copied()
    }

    /// The requests that fetch `key`, or another one of this digest, with `mg`.
    pub(crate) fn meta_leaders(&self, key: KeyDigest) -> &[RequestId] {
        self.meta_leaders.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Whether any request may be waited for.
    #[cfg(test)]
    pub(crate) fn has_leaders(&self) -> bool {
        !(self.leaders.is_empty() && self.meta_leaders.is_empty())
    }

    /// Others that ask for `key` may wait for the answer to this request, which is a `get`, or an
    /// `mg`.
    pub(crate) fn lead(&mut self, key: KeyDigest, request: RequestId, as_meta: bool) {
        if as_meta {
            self.meta_leaders.entry(key).or_default().push(request);
        } else {
            self.leaders.insert(key, request);
        }
    }

    /// The key changes: no request from now on may be given an answer from before.
    pub(crate) fn forget_leaders(&mut self, key: KeyDigest) {
        self.leaders.remove(&key);
        self.meta_leaders.remove(&key);
    }

    /// The same where all keys change.
    pub(crate) fn forget_all_leaders(&mut self) {
        self.leaders.clear();
        self.meta_leaders.clear();
    }

    /// No other request may wait for the answer to this one from now on.
    pub(crate) fn lead_no_more(&mut self, key: KeyDigest, request: RequestId, as_meta: bool) {
        if as_meta {
            self.leads_no_more(key, request);
        } else if self.leaders.get(&key) == Some(&request) {
            self.leaders.remove(&key);
        }
    }

    /// No other client may wait for the answer to this `mg`.
    fn leads_no_more(&mut self, key: KeyDigest, request: RequestId) {
        if let Some(leaders) = self.meta_leaders.get_mut(&key) {
            leaders.retain(|&leader| leader != request);
            if leaders.is_empty() {
                self.meta_leaders.remove(&key);
            }
        }
    }

    /// A key changes, none: every key, such that an `add` of what was read before would undo that.
    /// It is known for the next `span`.
    pub(crate) fn changes(&mut self, key: Option<KeyDigest>, now: Stamp, span: Nanos) {
        if self.spec.refill.is_some() || self.spec.warm.is_some() {
            self.changes.note(key, now, span);
        }
    }

    /// Whether a key has changed so.
    pub(crate) fn has_changed(&mut self, key: KeyDigest, now: Stamp, span: Nanos) -> bool {
        self.changes.has(key, now, span)
    }

    /// A server has been asked for a read, or for a part of one: that pays for a share of a retry.
    pub(crate) fn reads_one(&mut self) {
        self.retries.earn();
    }

    /// Whether one more read may be tried again.
    pub(crate) fn may_retry(&self) -> bool {
        self.retries.has_one()
    }

    /// A read is tried again, with so many requests.
    pub(crate) fn retries_one(&mut self, requests: usize) {
        self.retries.spend_all(requests);
        self.counts.retries += 1;
    }

    /// Whether the next request is one of those that the shadow pool gets.
    pub(crate) fn shadows_next(&mut self) -> Option<PoolId> {
        let shadow = self.spec.shadow?;
        self.shadowed += shadow.share;
        if self.shadowed < 1.0 {
            return None;
        }
        self.shadowed -= 1.0;
        Some(PoolId::new(shadow.pool))
    }

    /// A read was answered after `time`.
    pub(crate) fn took(&mut self, time: Nanos) {
        if let Some(hedge) = &mut self.hedge {
            hedge.took(time);
        }
    }

    /// One of its servers has answered a read after `time`, and whether it has `found` what was
    /// asked for, or nothing. Those that are slow are given no reads for a while, `eject_for`,
    /// where others hold the same.
    pub(crate) fn member_took(
        &mut self,
        server: ServerId,
        time: Nanos,
        found: bool,
        now: Stamp,
        eject_for: Nanos,
    ) {
        let Self { quickness: Some(quickness), places, members, counts, .. } = self else { return };
        let Some(place) = places.of_server(server) else { return };
        if !quickness.took(place, time, found, now) {
            return;
        }
        let slowest = quickness.slowest();
        let left_out = members.iter().filter(|member| !member.is_read(now)).count();
        if let Some(slow) = slowest.filter(|&slow| members[slow].is_read(now))
            && left_out < members.len() / 2
        {
            counts.slow_ejections += 1;
            members[slow].returning = Some(Stamp(now.0 + eject_for.0));
            members[slow].credit = 0.0;
        }
    }

    /// After which time a read is sent to a second holder; none: never, or not enough is known yet.
    pub(crate) fn hedge_after(&mut self) -> Option<Nanos> {
        let hedge = self.hedge.as_mut()?;
        hedge.budget.earn();
        hedge.after
    }

    /// Whether the budget has room for one more second request.
    pub(crate) fn may_hedge(&self) -> bool {
        self.hedge.as_ref().is_some_and(|hedge| hedge.budget.has_one())
    }

    /// A read is sent to a second holder.
    pub(crate) fn hedges_one(&mut self) {
        if let Some(hedge) = &mut self.hedge {
            hedge.budget.spend();
        }
        self.counts.hedges += 1;
    }
}

/// How long values may live: what the pool says goes before what the client says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    /// The longest, in seconds.
    pub(crate) cap: Option<i32>,
    /// The time of day, in seconds since 1970.
    pub(crate) unix: u64,
}

impl Lifetimes {
    /// The client's expiry time, or the cap where that is sooner.
    pub(crate) fn of(self, exptime: i32) -> i32 {
        let Some(cap) = self.cap else { return exptime };
        if lives(exptime, self.unix) <= i64::from(cap) { exptime } else { cap }
    }
}

/// For how many seconds from this time of day on a client's expiry time lets an item live.
fn lives(exptime: i32, unix: u64) -> i64 {
    /// memcached takes larger numbers for a time of day.
    const LONGEST_RELATIVE: i32 = 60 * 60 * 24 * 30;
    match exptime {
        0 => i64::MAX,
        ..=LONGEST_RELATIVE => i64::from(exptime),
        _ => i64::from(exptime) - unix as i64,
    }
}

/// Whether an item that is given this expiry time at this time of day is gone at once.
pub(crate) fn expires_at_once(exptime: i32, unix: u64) -> bool {
    lives(exptime, unix) <= 0
}

/// When a slow read is sent to a second holder: after a quantile of the times of the last reads.
#[derive(Debug)]
struct Hedging {
    quantile: f64,
    budget: Budget,
    /// Times of the reads since the last count, and of those before.
    recent: MeasuredDistribution,
    seen: u32,
    after: Option<Nanos>,
}

/// Reads after which the quantile is taken anew.
const READS_BETWEEN: u32 = 1_000;

impl Hedging {
    fn new(hedge: Hedge) -> Self {
        Self {
            quantile: hedge.quantile,
            budget: Budget::of_hedges(hedge.budget),
            recent: MeasuredDistribution::default(),
            seen: 0,
            after: None,
        }
    }

    fn took(&mut self, time: Nanos) {
        self.recent.record(time);
        self.seen += 1;
        // The first hundred already say something.
        if self.seen == READS_BETWEEN || (self.after.is_none() && self.seen == READS_BETWEEN / 10) {
            self.after = self.recent.quantile(self.quantile);
            if self.seen == READS_BETWEEN {
                self.recent = MeasuredDistribution::default();
                self.seen = 0;
            }
        }
    }
}

/// A bucket of tokens that fills with time: so many requests a second, a tenth of a second's worth
/// at once.
#[derive(Debug)]
struct Tokens {
    rate: Option<f64>,
    tokens: f64,
    filled: Stamp,
}

impl Tokens {
    /// Those of one loop.
    fn new(spec: &PoolSpec) -> Self {
        let rate = spec.rate.map(|rate| rate / f64::from(spec.loops));
        Self { rate, tokens: rate.map_or(0.0, burst), filled: Stamp(0) }
    }

    fn has_one(&mut self, now: Stamp) -> bool {
        let Some(rate) = self.rate else { return true };
        let passed = now.0.saturating_sub(self.filled.0) as f64 / 1e9;
        self.filled = now;
        self.tokens = (self.tokens + passed * rate).min(burst(rate));
        self.tokens >= 1.0
    }

    fn spend(&mut self) {
        if self.rate.is_some() {
            self.tokens -= 1.0;
        }
    }
}

fn burst(rate: f64) -> f64 {
    (rate / 10.0).max(1.0)
}

/// So many extras for each hundred requests, and few saved up: a server in trouble must not be
/// asked twice for everything just when it can answer least.
#[derive(Debug)]
pub(crate) struct Budget {
    share: f64,
    saved: f64,
    most: f64,
}

impl Budget {
    /// Extras that can be saved up at least, whatever the share.
    const FEW: f64 = 10.0;
    /// Reads whose hedges can be saved up. A server that stands still for a moment holds all reads
    /// that are with it, and a hedge asks another one.
    const HEDGED_READS: f64 = 4_000.0;

    /// Of second attempts: ten can be saved up.
    pub(crate) fn of_retries(share: f64) -> Self {
        Self::saving(share, Self::FEW)
    }

    /// Of hedges: as many can be saved up as 4,000 reads earn.
    fn of_hedges(share: f64) -> Self {
        Self::saving(share, Self::FEW.max(share * Self::HEDGED_READS))
    }

    /// A full budget: what can be saved up is there at the start.
    fn saving(share: f64, most: f64) -> Self {
        Self { share, saved: if share > 0.0 { most } else { 0.0 }, most }
    }

    pub(crate) fn earn(&mut self) {
        self.saved = (self.saved + self.share).min(self.most);
    }

    fn has_one(&self) -> bool {
        self.saved >= 1.0
    }

    /// Spends so many, also those that are earned only later: of several that belong together the
    /// first was paid for.
    fn spend_all(&mut self, extras: usize) {
        self.saved -= extras as f64;
    }

    pub(crate) fn spend(&mut self) -> bool {
        let some = self.has_one();
        if some {
            self.saved -= 1.0;
        }
        some
    }
}

#[cfg(test)]
mod tests;
