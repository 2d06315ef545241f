//! Which of a pool's servers are asked for a key. No socket, no clock: who is up and who is busy is told.

use std::collections::{HashMap, VecDeque};

use krarup_record::Distribution;
use krarup_units::{Nanos, Stamp};

use crate::topology::{Hedge, PoolSpec, Reads, WhenDown, Writes};

/// A pool at work: what it was told to be, and what it has given to whom.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) spec: PoolSpec,
    members: Vec<Member>,
    /// Busy readers of servers that are not in the pool any more: they may be again before these are done.
    left: Vec<(usize, u32)>,
    /// Room for an order of the members.
    order: Vec<usize>,
    turn: usize,
    random: u64,
    /// Requests of this pool under way.
    pub(crate) busy: u32,
    pub(crate) counts: Counts,
    tokens: Tokens,
    retries: Budget,
    shadowed: f64,
    hedge: Option<Hedging>,
    /// For each key that is being fetched with `get`, the request that fetches it.
    pub(crate) leaders: HashMap<Vec<u8>, u32>,
    /// The same for `mg`: requests for one key may ask for different things of it.
    pub(crate) meta_leaders: HashMap<Vec<u8>, Vec<u32>>,
    /// Whether no configuration has it any more.
    pub(crate) retired: bool,
}

/// What a pool did besides answering, each counted when it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Requests for keys of the pool; one that names keys of several pools counts for that of its first key.
    pub requests: u64,
    /// Reads that were tried again at another holder after an error.
    pub retries: u64,
    /// Reads that were tried again at another holder, or at the warm pool, after a miss.
    pub miss_retries: u64,
    /// Values stored where they had been missed.
    pub refills: u64,
    /// Reads that were sent to a second holder while the first had not answered.
    pub hedges: u64,
    /// Those of them that the second answered first.
    pub hedges_won: u64,
    /// Gets that waited for the answer to the same get.
    pub coalesced: u64,
    /// Copies sent to the shadow pool.
    pub shadowed: u64,
    /// Copies, refills or shadows that were not sent because their server was down or had too much before it.
    pub dropped: u64,
    /// Requests refused by the pool's rate or concurrency.
    pub limited: u64,
    /// Requests that the gutter pool took because the key's holders were down.
    pub guttered: u64,
}

#[derive(Debug, Default)]
struct Member {
    up: bool,
    /// Keys it was asked for.
    given: u64,
    /// Its readers that are busy, and the requests' parts that wait for one.
    readers: u32,
    queue: VecDeque<Waiting>,
    longest: usize,
    /// Since when it is given a growing share; none: all of its share.
    returning: Option<Stamp>,
    credit: f64,
}

/// A part of a read that waits for one of its server's readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) exchange: u32,
    pub(crate) part: u16,
}

impl Counts {
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
        ] {
            *ours += theirs;
        }
    }

    /// Every count with its name, for people and for scrapers.
    pub fn named(&self) -> [(&'static str, u64); 11] {
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
        ]
    }
}

impl Pool {
    pub(crate) fn new(spec: PoolSpec) -> Self {
        Self {
            members: spec.servers.iter().map(|_| Member::default()).collect(),
            left: Vec::new(),
            order: Vec::new(),
            turn: 0,
            random: 0x9E37_79B9_7F4A_7C15,
            busy: 0,
            counts: Counts::default(),
            tokens: Tokens::new(spec.rate),
            retries: Budget::new(spec.retry_budget),
            shadowed: 0.0,
            hedge: spec.hedge.map(Hedging::new),
            leaders: HashMap::new(),
            meta_leaders: HashMap::new(),
            retired: false,
            spec,
        }
    }

    /// A server can be asked again. It starts level with the least loaded of the others: what it missed while it was
    /// away would otherwise come over it all at once. After an ejection its share grows `gradually`.
    pub(crate) fn came_up(&mut self, server: usize, now: Stamp, gradually: bool) {
        let level = self.members.iter().filter(|member| member.up).map(|member| member.given).min();
        if let Some(place) = self.place_of(server) {
            let member = &mut self.members[place];
            if let Some(level) = level {
                member.given = member.given.max(level);
            }
            member.up = true;
            member.returning = gradually.then_some(now);
            member.credit = 0.0;
        }
    }

    /// Becomes what another configuration says, and keeps what it knows of servers that stay. Returns the parts whose queue is
    /// no more.
    pub(crate) fn become_spec(&mut self, spec: PoolSpec) -> Vec<Waiting> {
        let mut stranded = if spec.readers.is_none() { self.strand() } else { Vec::new() };
        let mut before: Vec<(usize, Member)> =
            self.spec.servers.iter().copied().zip(std::mem::take(&mut self.members)).collect();
        for &server in &spec.servers {
            let known = before.iter().position(|&(other, _)| other == server);
            self.members.push(known.map_or_else(
                || {
                    let left = self.left.iter().position(|&(other, _)| other == server);
                    let readers = left.map_or(0, |left| self.left.swap_remove(left).1);
                    Member { readers, ..Member::default() }
                },
                |known| before.swap_remove(known).1,
            ));
        }
        for (server, member) in before {
            stranded.extend(member.queue);
            if member.readers > 0 {
                self.left.push((server, member.readers));
            }
        }
        let old = std::mem::replace(&mut self.spec, spec);
        if old.rate != self.spec.rate {
            self.tokens = Tokens::new(self.spec.rate);
        }
        if old.retry_budget != self.spec.retry_budget {
            self.retries = Budget::new(self.spec.retry_budget);
        }
        if old.hedge != self.spec.hedge {
            self.hedge = self.spec.hedge.map(Hedging::new);
        }
        stranded
    }

    /// The parts in all its queues, which are empty then.
    pub(crate) fn strand(&mut self) -> Vec<Waiting> {
        self.members.iter_mut().flat_map(|member| std::mem::take(&mut member.queue)).collect()
    }

    /// A server that is up may be new to this pool.
    pub(crate) fn is_there(&mut self, server: usize, now: Stamp) {
        if self.place_of(server).is_some_and(|place| !self.members[place].up) {
            self.came_up(server, now, false);
        }
    }

    /// A server cannot be asked.
    pub(crate) fn went_down(&mut self, server: usize) {
        if let Some(place) = self.place_of(server) {
            self.members[place].up = false;
        }
    }

    fn place_of(&self, server: usize) -> Option<usize> {
        self.spec.servers.iter().position(|&one| one == server)
    }

    /// Whether every server of the pool holds every key.
    pub(crate) fn is_replicated(&self) -> bool {
        self.spec.placement.is_none()
    }

    /// Whether reads may be looked at again once they have been asked, so that their keys must be kept.
    pub(crate) fn needs_a_second_look(&self) -> bool {
        let spec = &self.spec;
        spec.fall_back_on_error
            || spec.fall_back_on_miss
            || spec.warm.is_some()
            || spec.hedge.is_some()
            || spec.coalesce
            || spec.shadow.is_some()
            || spec.gutter.is_some()
            || spec.readers.is_some()
    }

    /// The servers that hold `key`, the primary first. With [`WhenDown::Next`] those that are up, in the order of placement.
    pub(crate) fn holders(&self, key: &[u8], into: &mut Vec<usize>) {
        into.clear();
        let servers = self.spec.servers.len();
        let next = self.spec.when_down == WhenDown::Next;
        match &self.spec.placement {
            None => into.extend(0..servers),
            Some(placement) if self.spec.copies == 1 && !next => into.push(placement.primary(key)),
            Some(placement) if next => {
                placement.replicas(key, self.spec.copies, into);
                if into.iter().any(|&place| !self.members[place].up) {
                    placement.replicas(key, servers, into);
                    // With all of them down the holders stay who they are, and are named in the error.
                    if self.members.iter().any(|member| member.up) {
                        into.retain(|&place| self.members[place].up);
                    }
                    into.truncate(self.spec.copies);
                }
            }
            Some(placement) => placement.replicas(key, self.spec.copies, into),
        }
        for place in into {
            *place = self.spec.servers[*place];
        }
    }

    /// How many of the `found` servers that [`Self::holders`] gave are to be read: those that hold the key while they are up, else those
    /// that stand in. A stand-in has only what was written since a holder went down.
    pub(crate) fn readable(&mut self, key: &[u8], found: usize) -> usize {
        let Some(placement) = &self.spec.placement else { return found };
        if self.spec.when_down != WhenDown::Next || self.members.iter().all(|member| member.up) {
            return found;
        }
        placement.replicas(key, self.spec.copies, &mut self.order);
        match self.order.iter().filter(|&&place| self.members[place].up).count() {
            0 => found,
            // In the order of placement, so that they come before those that stand in.
            living => living,
        }
    }

    /// Whether any of these servers is up.
    pub(crate) fn any_up(&self, holders: &[usize]) -> bool {
        holders.iter().any(|&server| self.is_up(server))
    }

    fn is_up(&self, server: usize) -> bool {
        self.place_of(server).is_some_and(|place| self.members[place].up)
    }

    /// The holder to be asked for `keys` keys, which then count as given to it; none if all are down or `tried`.
    /// `load` says how many answers a server owes.
    pub(crate) fn read(
        &mut self,
        holders: &[usize],
        tried: impl Fn(usize) -> bool,
        keys: usize,
        now: Stamp,
        ramp: Nanos,
        load: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        if let &[only] = holders {
            let place = self.place_of(only).filter(|&place| self.members[place].up && !tried(only))?;
            self.members[place].given += keys as u64;
            return Some(only);
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        if holders.len() == self.members.len() {
            // Every member, in whatever order: no search for its place.
            order.extend(
                (0..self.members.len())
                    .filter(|&place| self.members[place].up && !tried(self.spec.servers[place])),
            );
            if self.spec.reads == Reads::Primary && self.spec.placement.is_some() {
                order.sort_by_key(|&place| {
                    holders.iter().position(|&server| server == self.spec.servers[place])
                });
            }
        } else {
            order.extend(
                holders
                    .iter()
                    .filter(|&&server| !tried(server))
                    .filter_map(|&server| self.place_of(server))
                    .filter(|&place| self.members[place].up),
            );
        }
        let chosen = loop {
            let Some(place) = self.prefer(&order, &load) else { break None };
            if order.len() > 1 && !self.accepts(place, now, ramp) {
                // What it does not get yet counts as given, or it would all come over it later.
                self.members[place].given += keys as u64;
                order.retain(|&other| other != place);
                continue;
            }
            self.members[place].given += keys as u64;
            break Some(self.spec.servers[place]);
        };
        self.order = order;
        chosen
    }

    fn prefer(&mut self, order: &[usize], load: &impl Fn(usize) -> usize) -> Option<usize> {
        let owed = |place: usize| load(self.spec.servers[place]);
        match self.spec.reads {
            _ if order.len() < 2 => order.first().copied(),
            Reads::Primary => order.first().copied(),
            Reads::LeastWork => order.iter().copied().min_by_key(|&place| self.members[place].given),
            Reads::LeastOutstanding => {
                order.iter().copied().min_by_key(|&place| (owed(place), self.members[place].given))
            }
            Reads::RoundRobin => {
                self.turn = self.turn.wrapping_add(1);
                Some(order[self.turn % order.len()])
            }
            Reads::TwoChoices => {
                let first = (self.draw() % order.len() as u64) as usize;
                let second = (first + 1 + (self.draw() % (order.len() as u64 - 1)) as usize) % order.len();
                let (first, second) = (order[first], order[second]);
                let owed = |place: usize| load(self.spec.servers[place]);
                Some(if owed(second) < owed(first) { second } else { first })
            }
        }
    }

    /// Whether a server that has come back takes this one: a share that grows from nothing to all over `ramp`.
    fn accepts(&mut self, place: usize, now: Stamp, ramp: Nanos) -> bool {
        let member = &mut self.members[place];
        let Some(since) = member.returning else { return true };
        let back = now.0.saturating_sub(since.0);
        if back >= ramp.0 {
            member.returning = None;
            return true;
        }
        member.credit += back as f64 / ramp.0 as f64;
        let accepted = member.credit >= 1.0;
        if accepted {
            member.credit -= 1.0;
        }
        accepted
    }

    /// xorshift64*: any even spread will do, and the same run draws the same.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Divides `keys` keys evenly over the servers that are up, in runs that differ by at most one key; the longer
    /// runs go to those with the least work. Fewer keys than servers ask fewer servers.
    /// Calls `run(server, keys)` in the order of the keys.
    pub(crate) fn even(&mut self, keys: usize, mut run: impl FnMut(usize, usize)) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend((0..self.members.len()).filter(|&place| self.members[place].up));
        order.sort_by_key(|&place| self.members[place].given);
        order.truncate(keys);
        if let Some(short) = keys.checked_div(order.len()) {
            let longer = keys % order.len();
            for (turn, &place) in order.iter().enumerate() {
                let length = short + usize::from(turn < longer);
                self.members[place].given += length as u64;
                run(self.spec.servers[place], length);
            }
        }
        self.order = order;
    }

    /// How many of `holders` must agree before a write is done.
    pub(crate) fn quorum(&self, holders: usize) -> usize {
        match self.spec.writes {
            Writes::All => holders,
            Writes::Quorum => holders / 2 + 1,
            Writes::First | Writes::Async => 1,
        }
    }

    /// Whether the pool's limits let one more request in; if not, why.
    pub(crate) fn admits(&mut self, now: Stamp) -> Result<(), String> {
        if let Some(most) = self.spec.concurrency
            && self.busy >= most
        {
            self.counts.limited += 1;
            return Err(format!("pool {} has {most} requests under way, its limit", self.spec.name));
        }
        if !self.tokens.take(now) {
            self.counts.limited += 1;
            let rate = self.spec.rate.unwrap_or_default();
            return Err(format!("pool {} is limited to {rate} requests a second", self.spec.name));
        }
        Ok(())
    }

    /// Nobody else may wait for the answer to this `mg`.
    pub(crate) fn leads_no_more(&mut self, key: &[u8], request: u32) {
        if let Some(leaders) = self.meta_leaders.get_mut(key) {
            leaders.retain(|&leader| leader != request);
            if leaders.is_empty() {
                self.meta_leaders.remove(key);
            }
        }
    }

    /// A read has been asked: it pays for a share of a retry.
    pub(crate) fn reads_one(&mut self) {
        self.retries.earn();
    }

    /// Whether one more read may be tried again.
    pub(crate) fn may_retry(&mut self) -> bool {
        self.retries.spend()
    }

    /// Whether the next request is one of those that the shadow pool gets.
    pub(crate) fn shadows_next(&mut self) -> Option<usize> {
        let shadow = self.spec.shadow?;
        self.shadowed += shadow.share;
        if self.shadowed < 1.0 {
            return None;
        }
        self.shadowed -= 1.0;
        Some(shadow.pool)
    }

    /// Whether one of the server's readers is free for a read that has just come; then it is taken. Those who wait go first.
    pub(crate) fn takes_reader(&mut self, server: usize) -> bool {
        let (Some(limit), Some(place)) = (self.spec.readers, self.place_of(server)) else { return true };
        let member = &mut self.members[place];
        let free = member.readers < limit && member.queue.is_empty();
        member.readers += u32::from(free);
        free
    }

    /// A part waits for one of the server's readers.
    pub(crate) fn wait_for_reader(&mut self, server: usize, waiting: Waiting) {
        let place = self.place_of(server).expect("a server of this pool");
        let member = &mut self.members[place];
        member.queue.push_back(waiting);
        member.longest = member.longest.max(member.queue.len());
    }

    /// One of the server's readers is free again.
    pub(crate) fn release_reader(&mut self, server: usize) {
        if let Some(place) = self.place_of(server) {
            self.members[place].readers -= 1;
        } else if let Some(left) = self.left.iter().position(|&(other, _)| other == server) {
            self.left[left].1 -= 1;
            if self.left[left].1 == 0 {
                self.left.swap_remove(left);
            }
        }
    }

    /// The next part that waits for the server, with a reader for it, if both exist.
    pub(crate) fn next_for_reader(&mut self, server: usize) -> Option<Waiting> {
        let limit = self.spec.readers?;
        let place = self.place_of(server)?;
        let member = &mut self.members[place];
        if member.readers >= limit {
            return None;
        }
        let next = member.queue.pop_front()?;
        member.readers += 1;
        Some(next)
    }

    /// Everything that waits for the server, which is down.
    pub(crate) fn empty_queue(&mut self, server: usize) -> VecDeque<Waiting> {
        match self.place_of(server) {
            Some(place) => std::mem::take(&mut self.members[place].queue),
            None => VecDeque::new(),
        }
    }

    /// Readers busy, parts waiting, and the most that ever waited, of one server.
    pub(crate) fn readers_of(&self, server: usize) -> Option<(u32, usize, usize)> {
        self.spec.readers?;
        let member = &self.members[self.place_of(server)?];
        Some((member.readers, member.queue.len(), member.longest))
    }

    /// A read was answered after `time`.
    pub(crate) fn took(&mut self, time: Nanos) {
        if let Some(hedge) = &mut self.hedge {
            hedge.took(time);
        }
    }

    /// After which time a read is sent to a second holder; none: never, or not enough is known yet.
    pub(crate) fn hedge_after(&mut self) -> Option<Nanos> {
        let hedge = self.hedge.as_mut()?;
        hedge.budget.earn();
        hedge.after
    }

    /// Whether the budget has room for one more second request.
    pub(crate) fn may_hedge(&mut self) -> bool {
        self.hedge.as_mut().is_some_and(|hedge| hedge.budget.spend())
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
        /// memcached takes larger numbers for a time of day.
        const LONGEST_RELATIVE: i32 = 60 * 60 * 24 * 30;
        let Some(cap) = self.cap else { return exptime };
        let lives = match exptime {
            0 => i64::MAX,
            ..=LONGEST_RELATIVE => i64::from(exptime),
            _ => i64::from(exptime) - self.unix as i64,
        };
        if lives <= i64::from(cap) { exptime } else { cap }
    }
}

/// When a slow read is sent to a second holder: after a quantile of the times of the last reads.
#[derive(Debug)]
struct Hedging {
    quantile: f64,
    budget: Budget,
    /// Times of the reads since the last count, and of those before.
    recent: Distribution,
    seen: u32,
    after: Option<Nanos>,
}

/// Reads after which the quantile is taken anew.
const READS_BETWEEN: u32 = 1_000;

impl Hedging {
    fn new(hedge: Hedge) -> Self {
        let budget = Budget::new(hedge.budget);
        Self { quantile: hedge.quantile, budget, recent: Distribution::default(), seen: 0, after: None }
    }

    fn took(&mut self, time: Nanos) {
        self.recent.record(time);
        self.seen += 1;
        // The first hundred already say something.
        if self.seen == READS_BETWEEN || (self.after.is_none() && self.seen == READS_BETWEEN / 10) {
            self.after = self.recent.quantile(self.quantile);
            if self.seen == READS_BETWEEN {
                self.recent = Distribution::default();
                self.seen = 0;
            }
        }
    }
}

/// A bucket of tokens that fills with time: so many requests a second, a tenth of a second's worth at once.
#[derive(Debug)]
struct Tokens {
    rate: Option<f64>,
    tokens: f64,
    filled: Stamp,
}

impl Tokens {
    fn new(rate: Option<f64>) -> Self {
        Self { rate, tokens: rate.map_or(0.0, burst), filled: Stamp(0) }
    }

    fn take(&mut self, now: Stamp) -> bool {
        let Some(rate) = self.rate else { return true };
        let passed = now.0.saturating_sub(self.filled.0) as f64 / 1e9;
        self.filled = now;
        self.tokens = (self.tokens + passed * rate).min(burst(rate));
        let some = self.tokens >= 1.0;
        if some {
            self.tokens -= 1.0;
        }
        some
    }
}

fn burst(rate: f64) -> f64 {
    (rate / 10.0).max(1.0)
}

/// So many extras for each hundred, and never more than ten saved up: a server in trouble must not be asked twice
/// for everything just when it can answer least.
#[derive(Debug)]
pub(crate) struct Budget {
    share: f64,
    saved: f64,
}

/// What can be saved up.
const SAVED: f64 = 10.0;

impl Budget {
    pub(crate) fn new(share: f64) -> Self {
        Self { share, saved: if share > 0.0 { SAVED } else { 0.0 } }
    }

    pub(crate) fn earn(&mut self) {
        self.saved = (self.saved + self.share).min(SAVED);
    }

    pub(crate) fn spend(&mut self) -> bool {
        let some = self.saved >= 1.0;
        if some {
            self.saved -= 1.0;
        }
        some
    }
}

#[cfg(test)]
mod tests;
