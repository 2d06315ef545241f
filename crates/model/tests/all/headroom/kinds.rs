//! The kinds of systems on which the estimator is judged, with parameters drawn from a seed.

use krarup_model::headroom::ResourceKind;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

use super::system::{Interruption, OtherProxy, ServerLaw, ServiceLaw, SizeSwing, SystemLaw, WriteMix};

/// Traffic of each level lasts so many seconds.
pub(crate) const STAGE: f64 = 60.0;

/// A kind of system, by what it has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Exponential service.
    Exp,
    /// Constant service.
    Det,
    /// Four phases.
    Gam,
    /// A tenth of the services is ten times as long.
    Hyp,
    /// The way takes 6 to 15 times the service.
    Rtt,
    /// Two to four connections, each with a thread.
    Threads,
    /// Four threads share two processors.
    Cores,
    /// Unequal shares of several servers.
    Hot,
    /// One of several servers is slow.
    Slow,
    /// Too few workers before one server.
    Workers,
    /// Too few workers before three servers.
    Workers2,
    /// The loop is full first.
    Proxy,
    /// The link behind the server is full first.
    Link,
    /// Service takes longer per request that waits.
    Kappa,
    /// Service takes longer where the server was idle.
    Wake,
    /// The server stands still at the end of each period.
    Stops,
    /// The service time changes at once.
    Drift,
    /// Values, and service times with them, grow.
    Grow,
    /// Clients wait for replies.
    Clients,
    /// A quota of processor time that is not met before the traffic is higher than ever seen.
    Cliff,
    /// Another proxy asks the same server, steadily.
    Proxies,
    /// Another proxy asks the same server, now more, now less.
    ProxiesVary,
    /// The server serves several requests at once.
    Batch,
    /// Writes take longer than reads, and their share changes slowly.
    Mix,
    /// A copy of some requests goes to another server; the later answer is thrown away.
    Hedge,
    /// Each reply is encrypted by the loop, which is full first.
    Tls,
    /// The server collects garbage for 50 ms.
    Collector,
    /// Some requests fail at their server and go to another, one after the other.
    Retry,
    /// The share of writes, or the size of values, turns within the time that is seen, and turns
    /// back.
    Diurnal,
}

/// All kinds, those whose limit acts only when it is met last of the first twenty.
pub(crate) const KINDS: [(Kind, &str); 29] = [
    (Kind::Exp, "exp"),
    (Kind::Det, "det"),
    (Kind::Gam, "gam"),
    (Kind::Hyp, "hyp"),
    (Kind::Rtt, "rtt"),
    (Kind::Threads, "threads"),
    (Kind::Cores, "cores"),
    (Kind::Hot, "hot"),
    (Kind::Slow, "slow"),
    (Kind::Workers, "workers"),
    (Kind::Workers2, "workers2"),
    (Kind::Proxy, "proxy"),
    (Kind::Link, "link"),
    (Kind::Kappa, "kappa"),
    (Kind::Wake, "wake"),
    (Kind::Stops, "stops"),
    (Kind::Drift, "drift"),
    (Kind::Grow, "grow"),
    (Kind::Clients, "clients"),
    (Kind::Cliff, "cliff"),
    (Kind::Proxies, "proxies"),
    (Kind::ProxiesVary, "proxies2"),
    (Kind::Batch, "batch"),
    (Kind::Mix, "mix"),
    (Kind::Hedge, "hedge"),
    (Kind::Tls, "tls"),
    (Kind::Collector, "collector"),
    (Kind::Retry, "retry"),
    (Kind::Diurnal, "diurnal"),
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// What is full first: the kind of resource, and the server's number.
pub(crate) type Limit = (ResourceKind, usize);

/// A system of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    pub(crate) law: SystemLaw,
    pub(crate) limit: Limit,
    /// The share of saturation at which the response time is taken as the target.
    pub(crate) target_at: f64,
    /// Whether the estimator is told the servers' quotas and links, as a configuration may.
    pub(crate) configured: bool,
}

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.0.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// As likely between 1 and 2 as between 2 and 4.
    fn ratio(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    fn whole(&mut self, low: usize, high: usize) -> usize {
        low + (self.0.next_u64() % (high - low + 1) as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.whole(0, choices.len() - 1)]
    }
}

fn servers(services: &[f64], delay: f64) -> Vec<ServerLaw> {
    let share = 1.0 / services.len() as f64;
    services.iter().map(|&service| ServerLaw { service, delay, link: None, share }).collect()
}

/// The system of this kind and seed.
pub(crate) fn candidate(kind: Kind, seed: u64) -> Candidate {
    let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(seed));
    let service = dice.ratio(1.5e-4, 1.2e-3);
    let delay = service * dice.ratio(0.2, 4.0);
    let mut law = SystemLaw::of(service, delay);
    law.jitter = dice.one_of(&[0.0, 0.1, 0.4]);
    law.burst = dice.one_of(&[0.0, 0.2, 0.5]);
    law.law =
        dice.one_of(&[ServiceLaw::Constant, ServiceLaw::Exponential, ServiceLaw::Hyper, ServiceLaw::Gamma]);
    let limit = shape(kind, &mut law, &mut dice);
    Candidate { kind, seed, law, limit, target_at: dice.between(0.72, 0.9), configured: false }
}

/// Gives the system what its kind has of its own, and says what is full first.
#[expect(clippy::too_many_lines, reason = "a table of the kinds")]
fn shape(kind: Kind, law: &mut SystemLaw, dice: &mut Dice) -> Limit {
    let ServerLaw { service, delay, .. } = law.servers[0];
    let mut limit = (ResourceKind::Server, 0);
    match kind {
        Kind::Exp => law.law = ServiceLaw::Exponential,
        Kind::Det => law.law = ServiceLaw::Constant,
        Kind::Gam => law.law = ServiceLaw::Gamma,
        Kind::Hyp => law.law = ServiceLaw::Hyper,
        Kind::Rtt => {
            law.servers[0].delay = service * dice.between(6.0, 15.0);
            law.jitter = 0.05;
        }
        Kind::Threads => {
            law.lanes = dice.whole(2, 4);
            law.servers[0].service = service * law.lanes as f64 * 0.7;
        }
        Kind::Cores => {
            (law.lanes, law.processors) = (4, 2.0);
            law.servers[0].service = service * 2.0;
        }
        Kind::Hot => {
            let count = dice.whole(3, 6);
            let skew = dice.between(0.6, 1.2);
            law.servers = servers(&vec![service; count], delay);
            let weight = |place: usize| (place as f64 + 1.0).powf(-skew);
            let sum: f64 = (0..count).map(weight).sum();
            for (place, server) in law.servers.iter_mut().enumerate() {
                server.share = weight(place) / sum;
            }
        }
        Kind::Slow => {
            let count = dice.whole(3, 4);
            limit.1 = dice.whole(0, count - 1);
            law.servers = servers(&vec![service; count], delay);
            law.servers[limit.1].service *= dice.between(1.5, 3.0);
        }
        Kind::Workers => {
            let delay = service * dice.between(8.0, 20.0);
            (law.servers[0].delay, law.jitter) = (delay, 0.2);
            let full = (delay + service) / service;
            law.workers = Some(((dice.between(0.35, 0.6) * full) as usize).max(2));
            limit.0 = ResourceKind::Workers;
        }
        Kind::Workers2 => {
            let delay = service * dice.between(3.0, 6.0);
            law.servers = servers(&[service; 3], delay);
            let full = 3.0 * (delay + service) / service;
            law.workers = Some(((dice.between(0.3, 0.45) * full) as usize).max(2));
            limit.0 = ResourceKind::Workers;
        }
        Kind::Proxy => {
            (law.entry, law.exit) = (service * 0.5, service * 0.5);
            law.pass = service * dice.between(0.0, 0.5);
            law.servers[0].service = service * 0.15;
            limit.0 = ResourceKind::Loop;
        }
        Kind::Link => {
            law.servers[0].link = Some(2000.0 / service);
            law.bytes = (1600.0, dice.one_of(&[0.0, 0.5, 1.0]));
            law.servers[0].service = service * 0.3;
        }
        Kind::Kappa => law.contention = dice.between(0.01, 0.04),
        Kind::Wake => law.wake = service * dice.between(0.3, 1.0),
        Kind::Stops => {
            law.interruption =
                Interruption::Stops { period: dice.between(0.02, 0.1), share: dice.between(0.6, 0.9) };
        }
        Kind::Drift => {
            law.change = Some((STAGE * dice.between(0.4, 2.6), dice.one_of(&[0.5, 1.6, 2.2])));
        }
        Kind::Grow => {
            (law.bytes, law.growth) = ((1000.0, 0.5), 0.01);
            (law.servers[0].service, law.per_byte) = (service * 0.3, service / 1000.0);
        }
        // Clients that wait for their replies send no bursts, and more of them would not.
        Kind::Clients => law.burst = 0.0,
        Kind::Cliff => {
            law.interruption = Interruption::Quota { period: 0.1, share: dice.between(0.25, 0.7) };
        }
        Kind::Proxies | Kind::ProxiesVary => {
            let swing = if kind == Kind::Proxies { 0.0 } else { dice.between(0.4, 0.9) };
            let rate = dice.between(0.1, 0.4) / service;
            law.other_proxy = Some(OtherProxy { rate, swing, period: dice.between(10.0, 30.0) });
        }
        Kind::Batch => {
            let most = dice.whole(2, 8);
            law.batch = Some((most, dice.between(0.2, 0.6)));
        }
        Kind::Mix => {
            let (from, to) = (dice.between(0.02, 0.1), dice.between(0.2, 0.4));
            let (from, to) = dice.one_of(&[(from, to), (to, from)]);
            let (factor, over) = (dice.between(2.0, 5.0), 3.0 * STAGE);
            law.mix = Some(WriteMix { factor, from, to, over, turns: false });
        }
        Kind::Hedge | Kind::Retry => {
            law.servers = servers(&[service; 3], delay);
            law.servers[0].share = dice.between(0.4, 0.6);
            let twice = if kind == Kind::Hedge { dice.between(0.1, 0.4) } else { dice.between(0.02, 0.2) };
            *(if kind == Kind::Hedge { &mut law.hedged } else { &mut law.retried }) = twice;
            let rest = (1.0 - law.servers[0].share) * 0.5;
            (law.servers[1].share, law.servers[2].share) = (rest, rest);
            // Server i gets its own share and its neighbour's copies, or what failed there.
            let load = |one: usize| law.servers[one].share + twice * law.servers[(one + 2) % 3].share;
            limit.1 = (0..3).max_by(|a, b| load(*a).total_cmp(&load(*b))).unwrap_or(0);
        }
        Kind::Diurnal => {
            let period = dice.one_of(&[12.0, 15.0, 20.0, 30.0]);
            if dice.one_of(&[true, false]) {
                let (from, to) = (dice.between(0.02, 0.1), dice.between(0.2, 0.4));
                let factor = dice.between(2.0, 3.0);
                law.mix = Some(WriteMix { factor, from, to, over: period, turns: true });
            } else {
                (law.bytes, law.per_byte) = ((1000.0, 0.5), service * 0.7 / 1000.0);
                law.servers[0].service = service * 0.3;
                law.swing = Some(SizeSwing { share: dice.between(0.1, 0.3), period });
            }
        }
        Kind::Tls => {
            law.bytes = (dice.one_of(&[2000.0, 8000.0, 40_000.0]), 1.0);
            let records = 1.0 + law.bytes.0 / 16384.0;
            law.encryption = Some((service * 0.3 / records, service * 0.3 / law.bytes.0));
            (law.entry, law.exit) = (service * 0.2, service * 0.2);
            law.pass = service * dice.between(0.0, 0.5);
            law.servers[0].service = service * 0.15;
            limit.0 = ResourceKind::Loop;
        }
        Kind::Collector => {
            law.interruption = Interruption::Collector { work: dice.between(0.3, 1.5), seconds: 0.05 };
        }
    }
    limit
}
