//! What was fitted of a system, and what follows from it: the resource that is full first, the rate
//! at which a target breaks, the interval, and whether the model gives what was measured.

use krarup_units::Seconds;

use super::answer::{CapacityEstimate, LiveSystem, ModelCheck, ResourceKind, ResponseTarget, Silence};
use super::contention::ContentionSeen;
use super::fit::ServiceFit;
use super::kept::{Kept, mean, quantile};
use super::replay::{FirstStation, PartRoutes, ReplayServer, TrafficReplay};
use super::resources::{
    FittedServers, LoopFit, MUCH_OF_OTHERS, MachineFit, ServerLimit, first_full, loops, own_link, processors,
    run_queue, servers,
};
use super::server_fit::ServerFit;
use super::traffic::SeenTraffic;
use crate::simulate::random::RandomStream;

/// Half the interval's width in units of its spread: 90 % of a normal distribution.
pub(super) const NORMAL_90: f64 = 1.65;
/// Loops that are ready and wait for a processor, as a share of the time in which they have one and
/// of all time: on a quiet machine they wait for less, about 1 % of all time.
const WAIT_OF_BUSY: f64 = 0.25;
const LEAST_WAIT: f64 = 0.02;
/// The spread of an estimate beyond what its standard error says, in logarithms: of saturation.
pub(super) const SPREAD: f64 = 0.07;
/// The same of the rate at which a percentile breaks its target: ± 25 % at 90 %.
const SPREAD_OF_PERCENTILE: f64 = 0.135;
/// The same where workers are full first.
const SPREAD_OF_WORKERS: f64 = 0.13;

// ---- what was fitted
// ------------------------------------------------------------------------------

pub(super) struct Fitted<'a> {
    pub(super) kept: Kept,
    pub(super) traffic: SeenTraffic,
    pub(super) system: &'a LiveSystem,
    pub(super) seed: u64,
    pub(super) servers: Vec<ServerFit>,
    pub(super) limits: Vec<Option<ServerLimit>>,
    pub(super) loops: Option<LoopFit>,
    pub(super) processors: Option<MachineFit>,
    pub(super) own_link: Option<MachineFit>,
    pub(super) own: Seconds,
    /// Mean time for which a request holds a worker, and how many times that once all are busy.
    hold: (Seconds, f64),
}

/// What is full first, and when.
pub(super) struct First {
    pub(super) resource: ResourceKind,
    pub(super) server: Option<usize>,
    pub(super) full_at: f64,
}

/// By how many times response times may be longer or shorter than modelled, and by how many times
/// more or fewer the slow requests be, where those are few: beyond this quantile.
const TIME_OFF: f64 = 1.15;
const TAIL_OFF: f64 = 1.5;
const FEW_BEYOND: f64 = 0.9;

/// By how much the rate at which a target breaks is lower or higher, in logarithms, where response
/// times are off by as much: far where the percentile hardly grows with the rate, because what
/// makes it is the length of a stop, and far where a few stops more or less decide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sensitivity {
    below: f64,
    above: f64,
}

/// The least rate at which a target is tried, as a share of that at which the first resource is
/// full: what breaks there is broken without a queue.
const LEAST_RATE: f64 = 0.03;

/// What is full at less than so many times the rate of what is full first, requests may wait for.
pub(super) const COULD_MATTER: f64 = 2.0;

/// What a server's link takes is part of the service time that is measured at the server: where the
/// two are full at nearly the same rate, it is the link that is.
const NEARLY: f64 = 1.15;

impl<'a> Fitted<'a> {
    /// With what was found of each server `before`; nothing of those that are not there.
    pub(super) fn of(
        kept: Kept,
        mut traffic: SeenTraffic,
        system: &'a LiveSystem,
        before: &[Vec<ContentionSeen>],
        seed: u64,
    ) -> Self {
        let FittedServers { fits, limits, late_from } = servers(&kept, system, before);
        if let Some(from) = late_from {
            traffic.requests_from(from);
        }
        // What finds no message in a store: once the store is full, messages wait in it.
        if system.servers.iter().any(|server| server.queue.is_common())
            && let Some((_, full_at)) = first_full(&limits)
        {
            traffic.late_until(full_at);
        }
        let mut own: Vec<f64> = kept.of_clients().map(|one| one.own).collect();
        Self {
            limits,
            loops: loops(&kept, system.processors_per_loop),
            processors: processors(&kept),
            own_link: own_link(&kept),
            own: quantile(&mut own, 0.5),
            hold: if system.workers.is_some() { kept.hold() } else { (0.0, 1.0) },
            servers: fits,
            kept,
            traffic,
            system,
            seed,
        }
    }

    pub(super) fn random(&self, purpose: &str) -> RandomStream {
        RandomStream::named(self.seed, 0, &["headroom", purpose])
    }

    /// The system as fitted; `deep` with the service times of deep queues.
    pub(super) fn replay(&self, deep: bool) -> TrafficReplay<'_> {
        let servers = self.servers.iter().zip(&self.limits).zip(&self.system.servers);
        let servers = servers.map(|((fit, limit), known)| {
            let scale = limit.filter(|_| deep).map_or(1.0, |limit| limit.scale);
            let server = ReplayServer { scale, ..ReplayServer::of(fit, known.queue) };
            let times = if deep && server.fit.is_none() { self.hold.1 } else { 1.0 };
            ReplayServer { delay: server.delay * times, ..server }
        });
        TrafficReplay {
            kept: &self.kept,
            servers: servers.collect(),
            workers: self.system.workers.map(|workers| workers as usize),
            first: FirstStation::Nothing,
            own: self.own,
            routes: PartRoutes::default(),
            copies: None,
        }
    }

    /// The share of their time for which so many workers are held at a rate, as seen.
    pub(super) fn held(&self, workers: u32, rate: f64) -> f64 {
        rate * self.hold.0 / f64::from(workers)
    }

    // ---- resources
    // --------------------------------------------------------------------------------

    /// The server that is full first, with the rate.
    pub(super) fn first_server(&self) -> Option<(usize, f64)> {
        first_full(&self.limits)
    }

    /// Up to which rate of all traffic a server is not full of which no service time is known.
    /// None where nothing was sent to it.
    pub(super) fn not_before(&self, server: usize) -> Option<f64> {
        let busy = self.servers[server].most_busy;
        (busy > 0.0).then(|| self.kept.rate() / busy)
    }

    /// The servers that get requests, and of which no service time is known.
    pub(super) fn unknown_servers(&self) -> impl Iterator<Item = usize> {
        let servers = self.servers.iter().zip(&self.limits).enumerate();
        servers.filter(|(_, (fit, limit))| limit.is_none() && fit.share > 0.0).map(|(server, _)| server)
    }

    /// The one of those that may be full first, and up to which rate it is not. Where no more
    /// requests are under way than a server has connections, none waits for it.
    pub(super) fn first_unknown(&self) -> Option<(usize, f64)> {
        let workers = self.system.workers.map_or(f64::INFINITY, f64::from);
        let waits = self.unknown_servers().filter(|server| workers > self.servers[*server].lanes);
        waits.filter_map(|server| Some((server, self.not_before(server)?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The rate at which the workers are full; none where a server is full before.
    pub(super) fn workers_full_at(&self, server: Option<f64>) -> Option<f64> {
        let workers = f64::from(self.system.workers?);
        let (hold, when_full) = self.hold;
        let Some(server) = server else { return Some(workers / (hold * when_full).max(1e-9)) };
        let mut random = self.random("workers");
        let arrivals = self.traffic.at_rate(3.0 * server.max(self.traffic.highest()), &mut random);
        let throughput = self.replay(true).throughput(&arrivals, &mut random);
        (throughput < 0.93 * server).then_some(throughput)
    }

    pub(super) fn first(&self) -> Option<First> {
        let server = self.first_server();
        let workers = self.workers_full_at(server.map(|(_, rate)| rate));
        let by_server = server.map(|(server, full_at)| {
            let link = self.limits[server].and_then(|limit| limit.link_full_at);
            let by_link = link.is_some_and(|link| link <= NEARLY * full_at);
            let resource = if by_link { ResourceKind::Link } else { ResourceKind::Server };
            First { resource, server: Some(server), full_at }
        });
        let by_workers =
            workers.map(|full_at| First { resource: ResourceKind::Workers, server: None, full_at });
        let by_loop =
            self.loops.map(|fit| First { resource: ResourceKind::Loop, server: None, full_at: fit.middle });
        let by_machine =
            self.machine().map(|(resource, fit)| First { resource, server: None, full_at: fit.middle });
        let all = [by_server, by_workers, by_loop].into_iter().flatten().chain(by_machine);
        let first = all.min_by(|a, b| a.full_at.total_cmp(&b.full_at))?;
        // Where the loop is full nearly as early, what seems to be a server's queue is the loop's.
        match self.loops {
            Some(fit)
                if first.resource == ResourceKind::Server
                    && fit.middle < 1.2 * first.full_at
                    && fit.busy > 0.5 * self.traffic.lately() / fit.middle =>
            {
                Some(First { resource: ResourceKind::Loop, server: None, full_at: fit.middle })
            }
            _ => Some(first),
        }
    }

    /// What the machine around the loops can do, as far as it is known. Processors that others take
    /// much of are left out: what they leave is no limit of this traffic.
    pub(super) fn machine(&self) -> impl Iterator<Item = (ResourceKind, MachineFit)> + use<> {
        let processors = self.processors.filter(|fit| fit.others <= MUCH_OF_OTHERS);
        let each = [(ResourceKind::Processors, processors), (ResourceKind::Link, self.own_link)];
        each.into_iter().filter_map(|(resource, fit)| Some((resource, fit?)))
    }

    /// What keeps the processors from the loops so much that what is measured is not the traffic's:
    /// other programs, or that this one may use fewer than it has loops.
    pub(super) fn contended(&self) -> Option<Silence> {
        let per_loop = self.system.processors_per_loop;
        let busy = self.loops.map_or(0.0, |fit| fit.busy * per_loop);
        let waits = run_queue(&self.kept) > (WAIT_OF_BUSY * busy).max(LEAST_WAIT);
        let others = self.processors.is_some_and(|fit| fit.least_others > MUCH_OF_OTHERS);
        match (others, waits) {
            (false, false) => None,
            (false, true) if per_loop < 1.0 => Some(Silence::OwnQuota),
            _ => Some(Silence::MachineContended),
        }
    }

    /// The fit of the machine's own resource that is full first, if one of those is.
    fn of_machine(&self, first: &First) -> Option<MachineFit> {
        let fit = self.machine().find(|(resource, _)| *resource == first.resource);
        fit.filter(|_| first.server.is_none()).map(|(_, fit)| fit)
    }

    pub(super) fn name_of(&self, server: usize) -> String {
        self.system.servers[server].name.clone()
    }

    /// The deep system, with the loop, or what the machine has, in the path where it could matter.
    pub(super) fn replay_for(&self, first: &First) -> TrafficReplay<'_> {
        let mut deep = self.replay(true);
        let machine = self.machine().map(|(_, fit)| fit.middle).fold(f64::INFINITY, f64::min);
        let could_matter = |full: f64| full < COULD_MATTER * first.full_at;
        match self.loops {
            Some(fit) if could_matter(fit.middle) && fit.middle <= machine => {
                deep.serve_in_passes(fit.cost, 1.0 / fit.middle, &mut self.random("passes"));
            }
            _ if could_matter(machine) => deep.serve_one_by_one(1.0 / machine),
            _ => {}
        }
        deep
    }

    /// The rate at which the target breaks, below `full_at`; none: no rate keeps it.
    pub(super) fn breaks_at(
        &self,
        replay: &TrafficReplay<'_>,
        target: ResponseTarget,
        full_at: f64,
    ) -> Option<f64> {
        let [rate] = self.break_each(replay, [target], full_at);
        rate
    }

    /// The same, with how far off it is where response times are.
    pub(super) fn breaks_within(
        &self,
        replay: &TrafficReplay<'_>,
        target: ResponseTarget,
        full_at: f64,
    ) -> Option<(f64, Sensitivity)> {
        let tail_off = if target.quantile >= FEW_BEYOND { TAIL_OFF } else { 1.0 };
        let with = |times: f64, tail: f64| {
            let quantile = 1.0 - tail * (1.0 - target.quantile);
            ResponseTarget { seconds: times * target.seconds, quantile }
        };
        let targets = [target, with(1.0 / TIME_OFF, 1.0 / tail_off), with(TIME_OFF, tail_off)];
        let [rate, strict, loose] = self.break_each(replay, targets, full_at);
        let rate = rate?;
        let least = LEAST_RATE * full_at;
        let below = (rate / strict.unwrap_or(least).max(1e-9)).ln().max(0.0);
        let above = (loose.unwrap_or(least).max(1e-9) / rate).ln().max(0.0);
        Some((rate, Sensitivity { below, above }))
    }

    /// The rates at which targets break, below `full_at`; none of one that no rate keeps. A rate is
    /// replayed once for all of them.
    fn break_each<const COUNT: usize>(
        &self,
        replay: &TrafficReplay<'_>,
        targets: [ResponseTarget; COUNT],
        full_at: f64,
    ) -> [Option<f64>; COUNT] {
        let mut tried: Vec<(f64, [bool; COUNT])> = Vec::new();
        let mut hold_at = |rate: f64| {
            if let Some((_, held)) = tried.iter().find(|(known, _)| *known == rate) {
                return *held;
            }
            let shares = targets.map(|target| target.quantile);
            let mut seconds = self.quantiles_at(replay, shares, rate).into_iter();
            let held = targets.map(|target| seconds.next().is_some_and(|one| one <= target.seconds));
            tried.push((rate, held));
            held
        };
        std::array::from_fn(|place| {
            let (mut low, mut high) = (LEAST_RATE * full_at, full_at);
            if !hold_at(low)[place] {
                return None;
            }
            for _ in 0..7 {
                let middle = 0.5 * (low + high);
                if hold_at(middle)[place] {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            Some(0.5 * (low + high))
        })
    }

    /// The quantile of the response time at a rate; none where that makes no request.
    pub(super) fn quantile_at(&self, replay: &TrafficReplay<'_>, share: f64, rate: f64) -> Option<Seconds> {
        let [seconds] = self.quantiles_at(replay, [share], rate);
        seconds.is_finite().then_some(seconds)
    }

    /// Several of them. The same arrivals and services at every rate, as far as can be.
    fn quantiles_at<const COUNT: usize>(
        &self,
        replay: &TrafficReplay<'_>,
        shares: [f64; COUNT],
        rate: f64,
    ) -> [Seconds; COUNT] {
        let mut random = self.random("target");
        let arrivals = self.traffic.at_rate(rate, &mut random);
        replay.quantiles(&arrivals, shares, &mut random)
    }

    /// The rate at which servers are full, or workers before them, of a changed system.
    pub(super) fn with_workers(&self, replay: &TrafficReplay<'_>, full_at: f64) -> f64 {
        if replay.workers.is_none() || !full_at.is_finite() {
            return full_at;
        }
        let mut random = self.random("workers");
        let arrivals = self.traffic.at_rate(3.0 * full_at.max(self.traffic.highest()), &mut random);
        let throughput = replay.throughput(&arrivals, &mut random);
        if throughput < 0.93 * full_at { throughput } else { full_at }
    }

    pub(super) fn interval(
        &self,
        first: &First,
        capacity: f64,
        of_percentile: Option<Sensitivity>,
        check: Option<ModelCheck>,
    ) -> CapacityEstimate {
        let mut spread = if of_percentile.is_some() { SPREAD_OF_PERCENTILE } else { SPREAD };
        let of_time = of_percentile.unwrap_or_default();
        if let Some(check) = check.filter(|_| of_percentile.is_some()) {
            spread = spread.hypot(check.mean.abs().max(check.p95.abs()));
        }
        let (mut below, mut above) = (0.0, 0.0);
        match first.resource {
            ResourceKind::Loop => {
                if let Some(fit) = self.loops {
                    (below, above) = ((fit.middle / fit.low).ln(), (fit.high / fit.middle).ln());
                }
            }
            ResourceKind::Workers => spread = spread.max(SPREAD_OF_WORKERS),
            _ => {
                if let Some(fit) = self.of_machine(first) {
                    (below, above) = ((fit.middle / fit.low).ln(), (fit.high / fit.middle).ln());
                }
                if let Some((fit, _)) = self.first_fit(first) {
                    spread = spread.hypot(1.7 * fit.error);
                }
                if let Some(limit) = first.server.and_then(|server| self.limits[server]) {
                    (below, above) = (limit.doubt.max(limit.unseen), limit.doubt.max(limit.quicker));
                }
            }
        }
        CapacityEstimate {
            low: capacity * (-NORMAL_90 * spread.hypot(of_time.below) - below).exp(),
            mean: capacity,
            high: capacity * (NORMAL_90 * spread.hypot(of_time.above) + above).exp(),
        }
    }

    pub(super) fn first_fit(&self, first: &First) -> Option<(&ServiceFit, &ServerLimit)> {
        let server = first.server?;
        Some((self.servers[server].fit.as_ref()?, self.limits[server].as_ref()?))
    }

    // ---- the check
    // --------------------------------------------------------------------------------

    /// What was kept at its own times: measured beside modelled, block by block.
    pub(super) fn check(&self) -> Option<ModelCheck> {
        let mut replay = self.replay(false);
        if let Some(fit) = self.loops.filter(|fit| fit.busy > 0.15) {
            replay.serve_in_passes(fit.cost, fit.one_by_one, &mut self.random("passes"));
        }
        let replayed = replay.at_own_times(&mut self.random("check"));
        let block = (self.kept.span / 8.0).max(2.0);
        let mut blocks: Vec<(Vec<f64>, Vec<f64>)> =
            vec![Default::default(); (self.kept.span / block) as usize + 1];
        for (place, modelled) in replayed {
            let request = &self.kept.requests[place as usize];
            let number = (request.received.max(0.0) / block) as usize;
            if let Some((measured, model)) = blocks.get_mut(number) {
                measured.push(request.response);
                model.push(modelled.response);
            }
        }
        blocks.retain(|(measured, _)| measured.len() > 300);
        if blocks.len() < 3 {
            return None;
        }
        let mut sizes: Vec<f64> = blocks.iter().map(|(measured, _)| measured.len() as f64).collect();
        let middle = quantile(&mut sizes, 0.5);
        let (mut means, mut tails) = (Vec::new(), Vec::new());
        for (measured, model) in blocks.iter_mut().filter(|(measured, _)| measured.len() as f64 >= middle) {
            means.push((mean(model.iter().copied()) / mean(measured.iter().copied())).ln());
            tails.push((quantile(model, 0.95) / quantile(measured, 0.95)).ln());
        }
        Some(ModelCheck {
            mean: quantile(&mut means, 0.5),
            p95: quantile(&mut tails, 0.5),
            blocks: means.len(),
        })
    }
}
