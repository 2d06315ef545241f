//! Where the requests of each server go when a server is lost or added, by the placement of the
//! configured pools: a ring does not share out a lost server's keys evenly, modulo moves most keys
//! when there is one server more, and a hot key goes to one server as a whole. Reads of a key are
//! shared by its holders, and each of them has every write: it gives none to one that is new.
//!
//! ```text
//! keys that were seen, by their share of their server's time ─┬▶ placed without the one that is lost,
//! others, all alike, for the rest of its time                ─┘  and with one server more ─▶ PartMoves
//! ```

use krarup_model::headroom::{PartMoves, ServerMoves};

use crate::config::{Config, PoolConfig, ServerConfig};
use crate::live::KeyState;
use crate::placement::Placement;
use crate::topology::{PoolSpec, Reads, WhenDown, Writes};

/// Keys that are placed, of each pool: shares are right within a percent or two.
const KEYS: usize = 2_000;
/// Beyond so many servers in all shares are nearly even.
const MOST_SERVERS: usize = 128;
/// Beyond so many, those that have been taken out of the configuration among them, the table would
/// be large.
const MOST_NAMES: usize = 1_024;

/// The keys that took most of the servers' time lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenKeys {
    keys: Vec<SeenKey>,
    /// For how long each server was occupied by all keys.
    busy: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
struct SeenKey {
    pool: String,
    /// The number by which the pool places it.
    number: u64,
    /// For how long it occupied servers, in the unit of those.
    time: f64,
}

impl SeenKeys {
    /// What several loops keep of them, with servers numbered by these `names`.
    pub fn of(loops: &[KeyState], names: &[String]) -> Self {
        let mut seen = Self { keys: Vec::new(), busy: vec![0.0; names.len()] };
        for KeyState { kept, system } in loops {
            for (place, name) in system.servers.iter().enumerate() {
                if let Some(number) = names.iter().position(|one| one == name) {
                    seen.busy[number] += kept.server_time(place) as f64;
                }
            }
            for (place, pool) in system.pools.iter().enumerate() {
                let (Some(pool), Some(keys)) = (pool, kept.pool(place)) else { continue };
                let tracked = keys.by_time.tracked().iter().map(|tracked| &tracked.about);
                seen.keys.extend(tracked.filter_map(|tally| {
                    let (pool, time) = (pool.name.clone(), tally.time as f64);
                    Some(SeenKey { pool, number: tally.placed_by?, time })
                }));
            }
        }
        seen
    }
}

/// The moves of the configured pools, whose servers are numbered by these `names`; none where
/// addresses are found only when they are asked for, or there are too many servers.
///
/// Keys that were `seen` count by the time that they took, and stand for that share of their
/// server's; for the rest keys are drawn that count alike.
pub fn moves(config: &Config, names: &[String], seen: &SeenKeys) -> Option<PartMoves> {
    let pools = config.all_pools();
    let unknown = |pool: &PoolConfig| pool.servers.iter().any(ServerConfig::is_many);
    let many = config.addresses().len() > MOST_SERVERS || names.len() > MOST_NAMES;
    if many || pools.iter().any(|(_, pool)| unknown(pool)) {
        return None;
    }
    let (mut drawn, mut known) = (KeyMoves::new(names.len()), KeyMoves::new(names.len()));
    for (name, pool) in pools {
        let number = |one: &ServerConfig| names.iter().position(|name| *name == one.address.to_string());
        let servers: Vec<usize> = pool.servers.iter().map(number).collect::<Option<_>>()?;
        let now = spec(name, pool)?;
        let more = spec(name, &with_one_more(pool))?;
        match (&now.placement, &more.placement) {
            (Some(before), Some(after)) => {
                let placed = PlacedPool { servers: &servers, now: (&now, before), more: (&more, after) };
                for number in 0..KEYS as u64 {
                    drawn.key(&placed, before.number(spread_key(number).as_bytes()), |_, _| 1.0);
                }
                for key in seen.keys.iter().filter(|key| key.pool == name) {
                    known.key(&placed, key.number, |server, holders| {
                        let busy = seen.busy.get(server).copied().unwrap_or_default();
                        if busy > 0.0 { key.time / holders as f64 / busy } else { 0.0 }
                    });
                }
            }
            _ => drawn.all_alike(&servers, &now),
        }
    }
    let reads = known.reads.completed_by(&drawn.reads);
    Some(PartMoves { reads, writes: known.writes.completed_by(&drawn.writes) })
}

/// A key of this number. Keys that hardly differ would lie together where the hash is a weak one.
fn spread_key(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A pool as it is, and with one server more.
struct PlacedPool<'a> {
    /// The numbers of its servers.
    servers: &'a [usize],
    now: (&'a PoolSpec, &'a Placement),
    more: (&'a PoolSpec, &'a Placement),
}

impl PlacedPool<'_> {
    /// The places of a key's holders, and of the server that stands in for one that is lost.
    fn holders(&self, number: u64) -> (Vec<usize>, Option<usize>) {
        let (spec, placement) = self.now;
        let mut order = Vec::new();
        placement.replicas_of(number, spec.copies + 1, &mut order);
        let stand_in = order.get(spec.copies).copied().filter(|_| spec.when_down == WhenDown::Next);
        order.truncate(spec.copies);
        (order, stand_in)
    }

    /// Those of the first holders that it has with one server more.
    fn first_holders_then(&self, number: u64, many: usize) -> Vec<usize> {
        let mut order = Vec::new();
        self.more.1.replicas_of(number, many, &mut order);
        order
    }

    /// The servers at these `next` places but for the `holders`; the one that is added is `new`.
    fn arrived(&self, next: &[usize], holders: &[usize], new: usize) -> Vec<usize> {
        let server = |place: &usize| self.servers.get(*place).copied().unwrap_or(new);
        next.iter().filter(|place| !holders.contains(place)).map(server).collect()
    }
}

impl PoolSpec {
    fn holders_written(&self) -> usize {
        self.copies.clamp(1, self.servers.len())
    }

    /// How many of a key's holders share its reads: the first has all of them where reads go there.
    fn holders_read(&self) -> usize {
        match self.reads {
            Reads::Primary => 1,
            _ => self.holders_written(),
        }
    }

    /// Whether a write fails that a client waits for at a holder which is lost, and for which none
    /// stands in: that takes keys that are placed. A gutter takes what has no other holder.
    fn needs_each_holder(&self) -> bool {
        let holders = self.holders_written();
        match self.writes {
            _ if holders == 1 => self.gutter.is_none(),
            _ if self.when_down == WhenDown::Next && self.placement.is_some() => false,
            Writes::All | Writes::Async => true,
            Writes::Quorum => holders / 2 + 1 > holders - 1,
            Writes::First => false,
        }
    }
}

/// The pool for the core, its servers numbered by their places.
fn spec(name: &str, pool: &PoolConfig) -> Option<PoolSpec> {
    let mut next = 0..;
    // Other pools that it names are not looked at.
    pool.spec(name, |_| next.next().unwrap_or(0), |_| Some(0)).ok()
}

fn with_one_more(pool: &PoolConfig) -> PoolConfig {
    let mut more = pool.clone();
    let mut added = more.servers[0].clone();
    added.address.host = match added.address.file().is_some() {
        true => format!("{}.one-more", added.address.host),
        false => format!("one-more.{}", added.address.host),
    };
    added.name = added.name.map(|name| format!("one-more.{name}"));
    more.servers.push(added);
    more
}

/// The moves of keys: a part of a read is one key at one of its holders that are read, a part of a
/// write one at any of its holders.
struct KeyMoves {
    reads: MoveCounts,
    writes: MoveCounts,
}

impl KeyMoves {
    fn new(servers: usize) -> Self {
        Self { reads: MoveCounts::new(servers), writes: MoveCounts::new(servers) }
    }

    /// One key of a pool, placed by this number, that counts so much at each server, of so many
    /// that have it.
    fn key(&mut self, pool: &PlacedPool<'_>, number: u64, counts: impl Fn(usize, usize) -> f64) {
        self.reads.reads_of(pool, number, &counts);
        self.writes.writes_of(pool, number, &counts);
    }

    /// A pool of which every server holds every key.
    fn all_alike(&mut self, servers: &[usize], spec: &PoolSpec) {
        self.reads.reads_alike(servers, spec);
        self.writes.writes_alike(servers, spec);
    }
}

/// How many parts of each server go where.
struct MoveCounts {
    /// Of each server, when it is lost, to each other.
    lost: Vec<Vec<f64>>,
    /// Of each server, when it is lost: those whose requests fail.
    fails: Vec<f64>,
    /// Of each server, when there is one more, to each and to that.
    more: Vec<Vec<f64>>,
    /// Of each server.
    all: Vec<f64>,
}

impl MoveCounts {
    fn new(servers: usize) -> Self {
        Self {
            lost: vec![vec![0.0; servers]; servers],
            fails: vec![0.0; servers],
            more: vec![vec![0.0; servers + 1]; servers],
            all: vec![0.0; servers],
        }
    }

    /// The reads of one key, which each of those that are read has a part of. Where one more is
    /// read, each of these gives as much to it.
    fn reads_of(&mut self, pool: &PlacedPool<'_>, number: u64, counts: &impl Fn(usize, usize) -> f64) {
        let (servers, spec, new) = (pool.servers, pool.now.0, self.lost.len());
        let (holders, stand_in) = pool.holders(number);
        let next = pool.first_holders_then(number, pool.more.0.holders_read());
        let read = &holders[..spec.holders_read().min(holders.len())];
        let arrived = pool.arrived(&next, read, new);
        let keeps = (read.len() as f64 / next.len().max(1) as f64).min(1.0);
        for place in read {
            let server = servers[*place];
            let part = counts(server, read.len());
            self.all[server] += part;
            let rest = holders.iter().copied().filter(|other| other != place);
            let takers: Vec<usize> = match spec.reads {
                Reads::Primary => rest.chain(stand_in).take(1).collect(),
                _ if holders.len() > 1 => rest.collect(),
                _ => stand_in.into_iter().collect(),
            };
            for taker in &takers {
                self.lost[server][servers[*taker]] += part / takers.len() as f64;
            }
            if takers.is_empty() && spec.gutter.is_none() {
                self.fails[server] += part;
            }
            let stays = match arrived.len() {
                0 => part,
                _ if next.contains(place) => part * keeps,
                _ => 0.0,
            };
            self.more[server][server] += stays;
            arrived.iter().for_each(|to| self.more[server][*to] += (part - stays) / arrived.len() as f64);
        }
    }

    /// The writes of one key, of which each holder has a part: those of one that holds it no more
    /// go to one that holds it then. Where there is one holder more, it gets a copy.
    fn writes_of(&mut self, pool: &PlacedPool<'_>, number: u64, counts: &impl Fn(usize, usize) -> f64) {
        let (servers, spec, new) = (pool.servers, pool.now.0, self.lost.len());
        let (holders, stand_in) = pool.holders(number);
        let next = pool.first_holders_then(number, pool.more.0.copies);
        let mut arrived = pool.arrived(&next, &holders, new).into_iter();
        for place in &holders {
            let server = servers[*place];
            let part = counts(server, holders.len());
            self.all[server] += part;
            match stand_in {
                Some(taker) => self.lost[server][servers[taker]] += part,
                None if spec.needs_each_holder() => self.fails[server] += part,
                None => {}
            }
            let heir = if next.contains(place) { None } else { arrived.next() };
            self.more[server][heir.unwrap_or(server)] += part;
            if holders.last() == Some(place) {
                arrived.by_ref().for_each(|to| self.more[server][to] += part);
            }
        }
    }

    /// What one loses of the reads, the others share. Where reads go to the first, the second takes
    /// them over.
    fn reads_alike(&mut self, servers: &[usize], spec: &PoolSpec) {
        let (count, new) = (servers.len() as f64, self.lost.len());
        if let [only] = *servers
            && spec.gutter.is_none()
        {
            self.fails[only] += KEYS as f64;
        }
        if spec.reads == Reads::Primary {
            for &server in servers {
                self.all[server] += KEYS as f64;
                self.more[server][server] += KEYS as f64;
            }
            if let [first, second, ..] = *servers {
                self.lost[first][second] += KEYS as f64;
            }
            return;
        }
        for &server in servers {
            self.all[server] += KEYS as f64;
            for &other in servers.iter().filter(|other| **other != server) {
                self.lost[server][other] += KEYS as f64 / (count - 1.0);
            }
            self.more[server][server] += KEYS as f64 * count / (count + 1.0);
            self.more[server][new] += KEYS as f64 / (count + 1.0);
        }
    }

    /// Every server has every write, and so has a new one.
    fn writes_alike(&mut self, servers: &[usize], spec: &PoolSpec) {
        let new = self.lost.len();
        for &server in servers {
            self.all[server] += KEYS as f64;
            self.more[server][server] += KEYS as f64;
            self.fails[server] += if spec.needs_each_holder() { KEYS as f64 } else { 0.0 };
        }
        // The last, as of a write that clients wait for at the first alone.
        if let Some(&last) = servers.last() {
            self.more[last][new] += KEYS as f64;
        }
    }

    /// The moves where these are shares of each server's time, and for the rest of it the `drawn`
    /// keys stand.
    fn completed_by(mut self, drawn: &Self) -> ServerMoves {
        for (server, known) in self.all.into_iter().enumerate() {
            // Shares of a sample may add up to more than there is.
            let none_drawn = drawn.all[server] == 0.0;
            let times = 1.0 / if none_drawn { known.max(f64::MIN_POSITIVE) } else { known.max(1.0) };
            let rest = if none_drawn { 0.0 } else { (1.0 - known).max(0.0) / drawn.all[server] };
            let complete = |share: &mut f64, drawn: &f64| *share = *share * times + drawn * rest;
            self.lost[server].iter_mut().zip(&drawn.lost[server]).for_each(|(a, b)| complete(a, b));
            self.more[server].iter_mut().zip(&drawn.more[server]).for_each(|(a, b)| complete(a, b));
            complete(&mut self.fails[server], &drawn.fails[server]);
        }
        ServerMoves { lost: self.lost, fails: self.fails, more: self.more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_both(lines: &str) -> PartMoves {
        let text = format!("servers = [\"a:1\", \"b:1\", \"c:1\", \"d:1\"]\n{lines}");
        let config = Config::parse(&text, "proxy.toml").unwrap();
        moves(&config, &["a:1", "b:1", "c:1", "d:1"].map(str::to_owned), &SeenKeys::default()).unwrap()
    }

    fn of(lines: &str) -> ServerMoves {
        of_both(lines).reads
    }

    /// Three servers on a ring, each occupied for 100 by keys of which these were seen.
    fn ring_with(lines: &str, keys: &[(&str, f64)]) -> (ServerMoves, Vec<[usize; 2]>, Vec<usize>) {
        let text = format!("servers = [\"a:1\", \"b:1\", \"c:1\"]\ndistribution = \"ketama\"\n{lines}");
        let config = Config::parse(&text, "proxy.toml").unwrap();
        let (_, pool) = config.all_pools()[0];
        let placed = |pool: &PoolConfig| spec("main", pool).unwrap().placement.unwrap();
        let (now, more) = (placed(pool), placed(&with_one_more(pool)));
        let seen = |(key, time): &(&str, f64)| SeenKey {
            pool: config.all_pools()[0].0.to_owned(),
            number: now.number(key.as_bytes()),
            time: *time,
        };
        let seen = SeenKeys { keys: keys.iter().map(seen).collect(), busy: vec![100.0; 3] };
        let found = moves(&config, &["a:1", "b:1", "c:1"].map(str::to_owned), &seen).unwrap().reads;
        let mut order = Vec::new();
        let two = keys.iter().map(|(key, _)| {
            now.replicas(key.as_bytes(), 2, &mut order);
            [order[0], order[1]]
        });
        (found, two.collect(), keys.iter().map(|(key, _)| more.primary(key.as_bytes())).collect())
    }

    #[test]
    fn servers_that_have_been_taken_out_are_no_reason_to_know_nothing() {
        let config = Config::parse("servers = [\"a:1\", \"b:1\"]", "proxy.toml").unwrap();
        let found = |gone: usize| {
            let gone = (0..gone).map(|number| format!("gone-{number}:1"));
            let names: Vec<String> = gone.chain(["a:1", "b:1"].map(str::to_owned)).collect();
            moves(&config, &names, &SeenKeys::default())
        };
        assert_eq!(found(MOST_SERVERS).unwrap().reads.lost[MOST_SERVERS][MOST_SERVERS + 1], 1.0);
        assert!(found(MOST_NAMES).is_none());
    }

    #[test]
    fn a_key_that_was_seen_goes_as_a_whole_where_it_is_placed() {
        let next = "when_down = \"next\"";
        // Enough keys that the fourth server would take one of them.
        let names: Vec<String> = (0..40).map(spread_key).collect();
        for lines in [next, "replicas = 2\nreads = \"primary\""] {
            let (evenly, ..) = ring_with(lines, &[]);
            for name in &names {
                let (found, two, more) = ring_with(lines, &[(name.as_str(), 60.0)]);
                let ([owner, heir], taker) = (two[0], more[0]);
                let expected = 0.6 + 0.4 * evenly.lost[owner][heir];
                assert!((found.lost[owner][heir] - expected).abs() < 1e-9, "{name}: {:?}", found.lost);
                let expected = 0.6 + 0.4 * evenly.more[owner][taker];
                assert!((found.more[owner][taker] - expected).abs() < 1e-9, "{name}: {:?}", found.more);
                for server in (0..3).filter(|server| *server != owner) {
                    assert_eq!(found.lost[server], evenly.lost[server]);
                    assert_eq!(found.more[server], evenly.more[server]);
                }
            }
        }
        let taken = names.iter().filter(|name| ring_with(next, &[(name.as_str(), 1.0)]).2[0] == 3).count();
        assert!((3..20).contains(&taken), "{taken} of 40 keys are taken by the fourth of four servers");
    }

    /// All of a server's keys were seen: nothing is drawn, and shares are those of the keys alone.
    #[test]
    fn keys_that_take_all_of_the_time_leave_nothing_to_those_that_are_drawn() {
        let names: Vec<String> = (0..9).map(|number| format!("key{number}")).collect();
        let keys: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 80.0)).collect();
        let (found, two, _) = ring_with("when_down = \"next\"", &keys);
        for server in 0..3 {
            let of_server: Vec<_> = two.iter().filter(|two| two[0] == server).collect();
            if of_server.len() < 2 {
                continue;
            }
            for other in 0..3 {
                let to = of_server.iter().filter(|two| two[1] == other).count();
                let expected = to as f64 / of_server.len() as f64;
                assert!((found.lost[server][other] - expected).abs() < 1e-9, "{found:?} of {two:?}");
            }
        }
        assert!((0..3).any(|server| two.iter().filter(|two| two[0] == server).count() > 1), "{two:?}");
    }

    #[test]
    fn a_key_with_two_copies_takes_half_of_its_time_from_either_holder() {
        let (evenly, ..) = ring_with("replicas = 2", &[]);
        let (found, two, _) = ring_with("replicas = 2", &[("key1", 60.0)]);
        for (here, there) in [(two[0][0], two[0][1]), (two[0][1], two[0][0])] {
            let expected = 0.3 + 0.7 * evenly.lost[here][there];
            assert!((found.lost[here][there] - expected).abs() < 1e-9, "{found:?}");
        }
    }

    fn sum(shares: &[f64]) -> f64 {
        shares.iter().sum()
    }

    #[test]
    fn a_ring_moves_the_keys_of_one_server_alone() {
        let found = of("distribution = \"ketama\"\nwhen_down = \"next\"");
        for server in 0..4 {
            assert!((sum(&found.lost[server]) - 1.0).abs() < 1e-9 && found.lost[server][server] == 0.0);
            let more = &found.more[server];
            assert!((more[server] + more[4] - 1.0).abs() < 1e-9, "nothing moves between the others");
            assert!((0.1..0.3).contains(&more[4]), "{more:?}");
        }
        // Arcs differ: the heirs of a server do not get a third each.
        assert!(found.lost.iter().flatten().any(|share| (share - 1.0 / 3.0).abs() > 0.05));
    }

    #[test]
    fn without_a_stand_in_the_requests_of_a_lost_server_fail() {
        let found = of("distribution = \"ketama\"\nwhen_down = \"error\"");
        assert!(found.lost.iter().all(|shares| sum(shares) == 0.0));
        assert!(found.fails.iter().all(|share| (share - 1.0).abs() < 1e-9), "{:?}", found.fails);
        let gutter = "gutter = \"others\"\n[pools.others]\nservers = [\"a:1\"]";
        let found = of(&format!("distribution = \"ketama\"\n{gutter}"));
        assert_eq!(found.fails[1..], [0.0; 3], "the gutter has them");
    }

    #[test]
    fn servers_at_unix_sockets_are_placed_as_others_are() {
        let text = "servers = [\"unix:/a\", \"unix:/b\"]\ndistribution = \"ketama\"";
        let config = Config::parse(text, "proxy.toml").unwrap();
        let names = ["unix:/a", "unix:/b"].map(str::to_owned);
        let found = moves(&config, &names, &SeenKeys::default()).unwrap().reads;
        assert!(found.fails.iter().all(|share| (share - 1.0).abs() < 1e-9), "{:?}", found.fails);
        assert!(found.more.iter().all(|shares| shares[2] > 0.0), "{:?}", found.more);
    }

    #[test]
    fn where_a_key_has_one_holder_writes_go_where_reads_go() {
        for lines in ["ketama\"\nwhen_down = \"next\"", "ketama\"", "modulo\"", "rendezvous\""] {
            let found = of_both(&format!("distribution = \"{lines}"));
            assert_eq!(found.reads, found.writes, "{lines}");
        }
    }

    /// A write goes to every holder: a server more takes none of it from another, and the holders
    /// of what is lost have it already.
    #[test]
    fn a_write_that_several_hold_is_copied_to_a_new_server_and_goes_to_no_heir() {
        let everywhere = of_both("").writes;
        assert_eq!(everywhere.more[1], [0.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(everywhere.more[3], [0.0, 0.0, 0.0, 1.0, 1.0], "one copy more");
        assert_eq!(everywhere.lost, vec![vec![0.0; 4]; 4]);
        assert_eq!(everywhere.fails, [1.0; 4], "the answer is an error");
        assert_eq!(of_both("when_down = \"next\"").writes.fails, [1.0; 4], "there is no next one");
        assert_eq!(of_both("writes = \"first\"").writes.fails, [0.0; 4]);
        assert_eq!(of_both("writes = \"quorum\"").writes.fails, [0.0; 4]);
        let ring = of_both("distribution = \"ketama\"\nreplicas = \"all\"");
        for server in 0..4 {
            assert!((ring.reads.more[server][4] - 0.2).abs() < 1e-9, "{:?}", ring.reads.more);
            assert!((ring.writes.more[server][server] - 1.0).abs() < 1e-9, "{:?}", ring.writes.more);
        }
        let new: f64 = ring.writes.more.iter().map(|route| route[4]).sum();
        assert!((new - 1.0).abs() < 1e-9, "{:?}", ring.writes.more);
        let two = of_both("distribution = \"ketama\"\nreplicas = 2\nwhen_down = \"next\"").writes;
        for server in 0..4 {
            assert!((sum(&two.lost[server]) - 1.0).abs() < 1e-9, "the next stands in: {:?}", two.lost);
            assert!((sum(&two.more[server]) - 1.0).abs() < 1e-9, "no more copies: {:?}", two.more);
        }
        assert_eq!(two.fails, [0.0; 4]);
    }

    #[test]
    fn modulo_moves_most_keys_when_there_is_one_server_more() {
        let found = of("distribution = \"modulo\"\nwhen_down = \"next\"");
        for server in 0..4 {
            assert!((0.15..0.25).contains(&found.more[server][server]), "{:?}", found.more[server]);
            // The next in the list stands in.
            assert!((found.lost[server][(server + 1) % 4] - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_other_holders_of_a_key_take_over() {
        let found = of("distribution = \"ketama\"\nreplicas = 2\nwhen_down = \"error\"");
        assert!(found.lost.iter().all(|shares| (sum(shares) - 1.0).abs() < 1e-9));
        let everywhere = of("");
        assert_eq!(everywhere.lost[0], [0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
        assert!((everywhere.more[1][4] - 0.2).abs() < 1e-9);
        let first_alone = of("reads = \"primary\"");
        assert_eq!(first_alone.lost[0], [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(first_alone.lost[1], [0.0; 4]);
        assert_eq!(first_alone.more[0], [1.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
