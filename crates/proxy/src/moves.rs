//! Where the requests of each server go when a server is lost or added, by the placement of the
//! configured pools: a ring does not share out a lost server's keys evenly, modulo moves most keys
//! when there is one server more, and a hot key goes to one server as a whole.

use krarup_model::headroom::PartMoves;
use krarup_model::hot_keys::HotKey;

use crate::config::{Config, PoolConfig, ServerConfig};
use crate::live::KeyState;
use crate::placement::Placement;
use crate::topology::{PoolSpec, Reads, WhenDown};

/// Keys that are placed, of each pool: shares are right within a percent or two.
const KEYS: usize = 2_000;
/// Beyond so many servers in all the table would be large, and shares are nearly even.
const MOST_SERVERS: usize = 128;

/// A key that takes a share of its server's time, and goes to another as a whole if that is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotShare {
    /// The number of its server.
    pub server: usize,
    /// The number of the server that takes it over.
    pub heir: usize,
    /// Its share of its server's busy time, from 0 to 1.
    pub share: f64,
}

/// The hot keys that each of several loops keeps, with servers numbered by these `names`.
pub fn hot_shares(loops: &[KeyState], names: &[String]) -> Vec<HotShare> {
    let number = |name: &Option<String>| names.iter().position(|one| Some(one) == name.as_ref());
    let of_key = |key: HotKey| {
        let (server, heir) = (number(&key.server)?, number(&key.heir)?);
        Some(HotShare { server, heir, share: key.of_server? / loops.len() as f64 })
    };
    let pools = loops.iter().flat_map(|keys| keys.hottest().pools);
    pools.flat_map(|pool| pool.by_time).filter_map(of_key).collect()
}

/// The moves of the configured pools, whose servers are numbered by these `names`; none where
/// addresses are found only when they are asked for, or there are too many servers.
///
/// Keys count alike but for the `hot` ones: of these it is looked at who takes them over, not
/// whether one server more would take them.
pub fn moves(config: &Config, names: &[String], hot: &[HotShare]) -> Option<PartMoves> {
    let pools = config.all_pools();
    let unknown = |pool: &PoolConfig| pool.servers.iter().any(ServerConfig::is_many);
    if names.len() > MOST_SERVERS || pools.iter().any(|(_, pool)| unknown(pool)) {
        return None;
    }
    let mut found = MoveCounts::new(names.len());
    for (name, pool) in pools {
        let number = |one: &ServerConfig| names.iter().position(|name| *name == one.address.to_string());
        let servers: Vec<usize> = pool.servers.iter().map(number).collect::<Option<_>>()?;
        let now = spec(name, pool)?;
        let more = spec(name, &with_one_more(pool))?;
        match (&now.placement, &more.placement) {
            (Some(before), Some(after)) => {
                for number in 0..KEYS as u64 {
                    // Keys that hardly differ would lie together where the hash is a weak one.
                    let key = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    found.key(key.as_bytes(), &servers, (&now, before), (&more, after));
                }
            }
            _ => found.all_alike(&servers),
        }
    }
    let mut moves = found.shares();
    for (server, lost) in moves.lost.iter_mut().enumerate() {
        let of_server = || hot.iter().filter(|key| key.server == server);
        let all = of_server().map(|key| key.share).sum::<f64>();
        lost.iter_mut().for_each(|share| *share *= (1.0 - all).max(0.0));
        of_server().for_each(|key| lost[key.heir] += key.share / all.max(1.0));
    }
    Some(moves)
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
    added.address.host = format!("one-more.{}", added.address.host);
    added.name = added.name.map(|name| format!("one-more.{name}"));
    more.servers.push(added);
    more
}

/// How many parts of each server go where; a part is one key at one of its holders.
struct MoveCounts {
    /// Of each server, when it is lost, to each other.
    lost: Vec<Vec<f64>>,
    /// Of each server, when there is one more, to each and to that.
    more: Vec<Vec<f64>>,
    /// Of each server.
    all: Vec<f64>,
}

impl MoveCounts {
    fn new(servers: usize) -> Self {
        Self {
            lost: vec![vec![0.0; servers]; servers],
            more: vec![vec![0.0; servers + 1]; servers],
            all: vec![0.0; servers],
        }
    }

    /// One key of a pool whose servers have these numbers.
    fn key(
        &mut self,
        key: &[u8],
        servers: &[usize],
        (spec, before): (&PoolSpec, &Placement),
        (more, after): (&PoolSpec, &Placement),
    ) {
        let (mut order, mut next) = (Vec::new(), Vec::new());
        // The holders, and who may stand in for one.
        before.replicas(key, spec.copies + 1, &mut order);
        after.replicas(key, more.copies, &mut next);
        let (holders, others) = order.split_at(spec.copies.min(order.len()));
        let added = |place: &usize| servers.get(*place).copied().unwrap_or(self.lost.len());
        let arrived: Vec<usize> = next.iter().filter(|place| !holders.contains(place)).map(added).collect();
        for place in holders {
            let server = servers[*place];
            self.all[server] += 1.0;
            let rest = holders.iter().filter(|other| *other != place);
            let stand_in = others.first().filter(|_| spec.when_down == WhenDown::Next);
            let takers: Vec<usize> = match spec.reads {
                Reads::Primary => rest.chain(stand_in).take(1).copied().collect(),
                _ if holders.len() > 1 => rest.copied().collect(),
                _ => stand_in.into_iter().copied().collect(),
            };
            for taker in &takers {
                self.lost[server][servers[*taker]] += 1.0 / takers.len() as f64;
            }
            if next.contains(place) || arrived.is_empty() {
                self.more[server][server] += 1.0;
            } else {
                arrived.iter().for_each(|to| self.more[server][*to] += 1.0 / arrived.len() as f64);
            }
        }
    }

    /// A pool of which every server holds every key: what one loses, the others share.
    fn all_alike(&mut self, servers: &[usize]) {
        let (count, new) = (servers.len() as f64, self.lost.len());
        for &server in servers {
            self.all[server] += KEYS as f64;
            for &other in servers.iter().filter(|other| **other != server) {
                self.lost[server][other] += KEYS as f64 / (count - 1.0);
            }
            self.more[server][server] += KEYS as f64 * count / (count + 1.0);
            self.more[server][new] += KEYS as f64 / (count + 1.0);
        }
    }

    fn shares(mut self) -> PartMoves {
        for (server, all) in self.all.iter().enumerate() {
            let all = all.max(1.0);
            self.lost[server].iter_mut().chain(&mut self.more[server]).for_each(|count| *count /= all);
        }
        PartMoves { lost: self.lost, more: self.more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &str) -> PartMoves {
        let text = format!("servers = [\"a:1\", \"b:1\", \"c:1\", \"d:1\"]\n{lines}");
        let config = Config::parse(&text, "proxy.toml").unwrap();
        moves(&config, &["a:1", "b:1", "c:1", "d:1"].map(str::to_owned), &[]).unwrap()
    }

    #[test]
    fn a_hot_key_goes_to_one_server_as_a_whole() {
        let text = "servers = [\"a:1\", \"b:1\", \"c:1\"]\ndistribution = \"ketama\"\nwhen_down = \"next\"";
        let config = Config::parse(text, "proxy.toml").unwrap();
        let names = ["a:1", "b:1", "c:1"].map(str::to_owned);
        let evenly = moves(&config, &names, &[]).unwrap();
        let hot = HotShare { server: 0, heir: 2, share: 0.6 };
        let found = moves(&config, &names, &[hot]).unwrap();
        assert!((found.lost[0][2] - (0.6 + 0.4 * evenly.lost[0][2])).abs() < 1e-9, "{:?}", found.lost);
        assert!((sum(&found.lost[0]) - 1.0).abs() < 1e-9);
        assert_eq!((&found.lost[1..], &found.more), (&evenly.lost[1..], &evenly.more));
        // Shares of a sample may add up to more than there is.
        let found = moves(&config, &names, &[hot, HotShare { heir: 1, ..hot }]).unwrap();
        assert!((sum(&found.lost[0]) - 1.0).abs() < 1e-9, "{:?}", found.lost[0]);
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
    }
}
