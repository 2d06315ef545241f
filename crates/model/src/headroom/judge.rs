//! From what was fitted and replayed to a verdict.

use krarup_record::LiveSnapshot;
use krarup_units::{Seconds, Stamp};

use super::answer::{
    Allowance, CapacityEstimate, Headroom, HeadroomQuestion, HeadroomVerdict, LimitingResource, LiveServer,
    LiveSystem, ModelCheck, PROJECTED, ProvenRate, ProvenServer, ResourceKind, ResourceState, ResponseTarget,
    SCHEMA, STATED, STATED_OF_PEAK, Silence, TrafficSeen,
};
use super::changes::{self, ChangedFrom};
use super::contention::HeadroomMemory;
use super::fit::ServiceFit;
use super::fitted::{First, Fitted};
use super::kept::{Kept, counted, kept, quantile};
use super::resources::{MUCH_OF_OTHERS, MachineFit};
use super::server_fit;
use super::service_by_request::ServiceByRequest;
use super::traffic::SeenTraffic;

/// An interval whose high end is more than this times its low end is of no use: of saturation.
pub(super) const WIDE: f64 = 1.9;
/// The same of the rate at which a percentile breaks its target, whose interval starts wider.
const WIDE_OF_PERCENTILE: f64 = 2.6;
/// A resource that is told to be full at less than this share of what was served is not.
const NEARLY_SERVED: f64 = 0.9;
/// Length of a block by which one goes back in time, in seconds.
const BLOCK: Seconds = 10.0;
/// A speed that turned so often is one that goes up and down: a change and the way back are two.
const SWINGS: usize = 3;

/// The low end of what is stated is at most so many times the rate of busy seconds: a limit that
/// does not act until it is met may lie just beyond.
const SURE: f64 = 1.4;

/// A server that gets more of a request than when it was pushed, by so much in logarithms and
/// beyond chance, has another share.
const SHARE_OF_PROVEN: f64 = 0.1;
/// Fewer parts of requests say nothing of a share.
const FEW_OF_SHARE: f64 = 50.0;
/// So many tell it to a fifth: ten seconds of the least reads with which a server is pushed.
const ENOUGH_OF_SHARE: f64 = 400.0;

/// Clients that wait for replies for more than this share of their time can hardly ask more often.
const CLIENTS_WAIT: f64 = 0.7;

/// Judges a snapshot. See the [module](super).
pub fn judge(snapshot: &LiveSnapshot, system: &LiveSystem, question: &HeadroomQuestion) -> Headroom {
    judge_remembering(snapshot, system, question, &mut HeadroomMemory::default())
}

/// As [`judge`], with what was found of the same servers before; what is found now is added.
pub fn judge_remembering(
    snapshot: &LiveSnapshot,
    system: &LiveSystem,
    question: &HeadroomQuestion,
    memory: &mut HeadroomMemory,
) -> Headroom {
    let mut answer = with_effects(snapshot, system, question, memory, tells_changes);
    if !tells_changes(answer.verdict) {
        let why = answer.silent.first().map_or("proven_alone", |why| why.name());
        answer.what_if = changes::withheld(system, &question.changes, why);
    }
    answer
}

/// Whether anything is told of changes: not while the model tells nothing of the system as it is.
const fn tells_changes(verdict: HeadroomVerdict) -> bool {
    matches!(verdict, HeadroomVerdict::Stated | HeadroomVerdict::Projected)
}

/// As [`judge_remembering`], where changes have the effects that the model gives them with these
/// verdicts alone: each is replayed many times.
pub(super) fn with_effects(
    snapshot: &LiveSnapshot,
    system: &LiveSystem,
    question: &HeadroomQuestion,
    memory: &mut HeadroomMemory,
    has_effects: fn(HeadroomVerdict) -> bool,
) -> Headroom {
    let mut answer = silent(snapshot, question);
    // These need no traffic to be known.
    answer.resources = system.allowances.iter().map(of_allowance).collect();
    answer.silent.extend(system.store_takes_nothing.then_some(Silence::StoreTakesNothing));
    let (from, changed) = since_when(snapshot, system);
    let kept = server_fit::seen(snapshot, system, from, snapshot.at);
    let system = &with_shares_of_now(system, &kept);
    let clients = kept.of_clients().count();
    let Some(traffic) = SeenTraffic::of(&kept) else {
        answer.silent.push(if changed { Silence::ChangedJustNow } else { Silence::ShortTime });
        answer.tell_proven_alone(&kept, system, least_proven(system, question.target));
        return answer;
    };
    answer.tell_traffic(&kept, &traffic);
    answer.broken_now = question.target.and_then(|target| is_broken(&kept, target));
    if changed && kept.span < 2.5 * BLOCK.min(kept.span.max(BLOCK)) {
        answer.silent.push(Silence::ChangedJustNow);
    }
    if clients < 2_000 {
        answer.silent.push(Silence::FewRequests);
        answer.tell_proven_alone(&kept, system, least_proven(system, question.target));
        return answer;
    }
    if let Some(busy) = kept.clients_busy().filter(|busy| *busy > CLIENTS_WAIT) {
        answer.assumes.push(format!(
            "more clients come: those that are connected wait for replies {:.0} % of their time",
            100.0 * busy
        ));
    }
    let begin = Stamp(snapshot.at.0.saturating_sub((kept.watched * 1e9) as u64));
    let end = Stamp(begin.0 + (kept.span * 1e9) as u64);
    let before: Vec<_> = system.servers.iter().map(|server| memory.of(&server.name, begin)).collect();
    let fitted = Fitted::of(kept, traffic, system, &before, question.seed);
    tell(&fitted, &mut answer, question, has_effects);
    // What a full machine adds to service times is not the servers'.
    let is_of_servers = fitted.contended().is_none();
    for (known, server) in system.servers.iter().zip(&fitted.servers) {
        if let Some(fit) = server.fit.as_ref().filter(|_| is_of_servers) {
            memory.add(&known.name, &fit.contention_now, begin, end);
        }
    }
    memory.forget(snapshot.at);
    answer
}

fn silent(snapshot: &LiveSnapshot, question: &HeadroomQuestion) -> Headroom {
    Headroom {
        schema: SCHEMA,
        at_ns: snapshot.at,
        traffic: TrafficSeen::default(),
        target: question.target,
        verdict: HeadroomVerdict::Silent,
        silent: Vec::new(),
        broken_now: None,
        bottleneck: None,
        capacity_per_s: None,
        saturation_per_s: None,
        headroom_ratio: None,
        proven_per_s: ProvenRate::default(),
        resources: Vec::new(),
        what_if: Vec::new(),
        check: None,
        assumes: Vec::new(),
    }
}

impl Headroom {
    fn tell_traffic(&mut self, kept: &Kept, traffic: &SeenTraffic) {
        self.traffic = TrafficSeen {
            now_per_s: traffic.now(),
            highest_per_s: traffic.highest(),
            over_s: kept.span,
            c1: traffic.c1,
            c2: traffic.c2,
        };
        self.proven_per_s = kept.proven();
        self.assumes = vec![
            "servers keep the speed they show".to_owned(),
            format!("bursts are like those of the last {:.0} s", kept.span),
            "others who ask the same servers go on as they do now".to_owned(),
        ];
    }
}

/// Whether the last ten seconds' replies break the target.
fn is_broken(kept: &Kept, target: ResponseTarget) -> Option<bool> {
    let recent = kept.requests.iter().filter(|one| !one.late && one.replied > kept.watched - 10.0);
    let mut times: Vec<_> = recent.map(|one| one.response).collect();
    (times.len() >= 100).then(|| quantile(&mut times, target.quantile) > target.seconds)
}

// ---- how far back
// ---------------------------------------------------------------------------------

/// One block of time: what each server's service time was in it, with its standard error, and the
/// shares of the traffic.
struct Block {
    service: Vec<Option<(f64, f64)>>,
    /// The round trip of requests that found nothing under way, of which there are more at low
    /// load.
    alone: Vec<Option<(f64, f64)>>,
    /// Requests per second.
    rate: f64,
}

impl Block {
    fn of(
        snapshot: &LiveSnapshot,
        system: &LiveSystem,
        (requests, one_queues): (&[ServiceByRequest], &[usize]),
        (from, to): (u64, u64),
    ) -> Self {
        let mut kept = kept(snapshot, system, Stamp(from), Stamp(to));
        kept.join_connections(one_queues);
        let queue = |server: usize| system.servers[server].queue;
        let service = |server: usize| server_fit::speed(&kept, server, queue(server), &requests[server]);
        let alone = |server: usize| server_fit::alone(&kept, server, queue(server), &requests[server]);
        let rate = kept.requests.len() as f64 / kept.covered().max(1e-9);
        let servers = 0..system.servers.len();
        Self { service: servers.clone().map(service).collect(), alone: servers.map(alone).collect(), rate }
    }

    /// Of the servers whose service time is another here the first: whether it is longer. Where the
    /// rates differ too, a small difference may come from the load.
    fn is_slower(&self, other: &Self) -> Option<bool> {
        let least = if (self.rate / other.rate).ln().abs() < 0.3 { 0.15 } else { 0.3 };
        let pairs = self.service.iter().zip(&other.service).chain(self.alone.iter().zip(&other.alone));
        pairs.into_iter().find_map(|pair| {
            let (Some((ours, our_error)), Some((theirs, their_error))) = pair else { return None };
            let more = (ours / theirs).ln();
            (more.abs() > (4.5 * our_error.hypot(*their_error)).max(least)).then_some(more > 0.0)
        })
    }
}

/// How often the speed turned between slower and quicker, and back, over blocks of time.
fn turns(blocks: &[Block]) -> usize {
    let (mut turns, mut last, mut was) = (0, None, &blocks[0]);
    for block in &blocks[1..] {
        let Some(slower) = block.is_slower(was) else { continue };
        turns += usize::from(last != Some(slower));
        (last, was) = (Some(slower), block);
    }
    turns
}

/// From when on the servers have had the speed that they have now, and whether they had another
/// before.
fn since_when(snapshot: &LiveSnapshot, system: &LiveSystem) -> (Stamp, bool) {
    let begin = counted(snapshot).map(|one| one.from.0).min().unwrap_or(0);
    // A time without traffic tells no speed.
    let end = counted(snapshot).map(|one| one.to.0).max().unwrap_or(0).min(snapshot.at.0);
    let span = end.saturating_sub(begin) as f64 / 1e9;
    if span <= 12.0 {
        return (Stamp(begin), false);
    }
    let step = ((span / 6.0).clamp(6.0, BLOCK) * 1e9) as u64;
    let mut start = end - step;
    // What is asked may change while the servers' speed does not.
    let mut whole = kept(snapshot, system, Stamp(begin), Stamp(end));
    let one_queues = server_fit::one_queues(&whole, system);
    whole.join_connections(&one_queues);
    let requests = system.servers.iter().enumerate();
    let requests: Vec<ServiceByRequest> =
        requests.map(|(server, known)| server_fit::service_by_request(&whole, server, known.queue)).collect();
    let block = |from, to| Block::of(snapshot, system, (&requests, &one_queues), (from, to));
    let mut blocks = vec![block(start, end)];
    let mut change = None;
    // What changed within the first block hides in it.
    let newest = block(end - step / 3, end);
    while start >= begin + step {
        let older = block(start - step, start);
        if blocks[0].is_slower(&older).is_some() {
            // The change may lie within the block after it.
            change.get_or_insert((start + step).min(end - step));
        } else if newest.is_slower(&older).is_some() {
            change.get_or_insert(end - step / 3);
        }
        blocks.push(older);
        start -= step;
    }
    match change {
        // What goes up and down all the time has not changed.
        Some(since) if turns(&blocks) < SWINGS => (Stamp(since), true),
        _ => (Stamp(begin), false),
    }
}

// ---- the answer
// -----------------------------------------------------------------------------------

fn tell(
    fitted: &Fitted<'_>,
    answer: &mut Headroom,
    question: &HeadroomQuestion,
    has_effects: fn(HeadroomVerdict) -> bool,
) {
    let server = fitted.first_server();
    let workers = fitted.workers_full_at(server.map(|(_, rate)| rate));
    let allowances = allowances(fitted);
    answer.resources = states(fitted, workers, &allowances);
    answer.assumes.extend(allowances.iter().filter_map(Allowance::assumed));
    let Some(first) = fitted.first() else {
        answer.silent.push(Silence::NoQueueSeen);
        answer.silent.extend(fitted.contended());
        let proven = proven(None, fitted, question.target);
        return answer.tell_proven_alone(&fitted.kept, fitted.system, proven);
    };
    answer.bottleneck = Some(LimitingResource {
        resource: first.resource,
        name: first.server.map(|server| fitted.name_of(server)).unwrap_or_default(),
    });
    answer.saturation_per_s = Some(first.full_at);
    let deep = fitted.replay_for(&first);
    answer.check = fitted.check();
    answer.silent.extend(doubts(fitted, &first, answer.check));
    let breaks = question.target.map(|target| fitted.breaks_within(&deep, target, first.full_at));
    let (capacity, sensitivity) = match breaks {
        Some(Some((rate, sensitivity))) => (rate, Some(sensitivity)),
        Some(None) => return answer.silent.push(Silence::TargetBelowIdle),
        None => (first.full_at, None),
    };
    let mut modelled = fitted.interval(&first, capacity, sensitivity, answer.check);
    let proven = proven(Some(&first), fitted, question.target)
        .filter(|(_, rate)| !answer.refutes(*rate) && !is_refuted(*rate, fitted, &modelled, answer))
        .map(|(server, rate)| (server, until_others_are_full(rate, &first, fitted, question.target)));
    let shown = proven.map_or(0.0, |(_, rate)| rate);
    let mut estimate = modelled.map(|rate| rate.max(shown));
    let broke = Broke::of(fitted.system, question.target);
    estimate = estimate.map(|rate| rate.min(broke.most));
    let highest = fitted.traffic.highest().max(shown);
    if estimate.mean <= STATED * highest {
        let sure = SURE * highest;
        (estimate.low, modelled.low) = (estimate.low.min(sure), modelled.low.min(sure));
    }
    // Whatever else could still be done, what is used up is full.
    let used_up = allowances.iter().filter_map(|one| Some((one, one.full_at()?)));
    if let Some((one, full)) = used_up.min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
        && full.mean < first.full_at
    {
        let name = one.server.clone().unwrap_or_default();
        answer.bottleneck = Some(LimitingResource { resource: one.resource, name });
        answer.saturation_per_s = Some(full.mean);
        estimate = estimate.at_most(&full);
    }
    answer.silent.extend(doubts_of(&estimate, fitted, question.target));
    // What is not known of one server widens the interval, and is no reason to say nothing.
    if let Some((server, rate)) = fitted.first_unknown().filter(|(_, rate)| *rate < first.full_at) {
        (estimate.low, modelled.low) = (estimate.low.min(rate), modelled.low.min(rate));
        let name = fitted.name_of(server);
        answer.assumes.push(format!("server {name} is not full before {rate:.0}/s: no more is known of it"));
    }
    let now = fitted.traffic.now();
    answer.tell_capacity(estimate, now);
    // Of servers of which nothing is known the model has no more than the mean.
    let no_matter = |why: &Silence| *why == Silence::CheckFailed && first.server.is_none();
    let few = answer.silent.iter().all(|why| why.wants_more_traffic() || no_matter(why));
    let proven_alone = proven.filter(|_| few && (!answer.silent.is_empty() || modelled.mean <= shown));
    answer.verdict = if let Some((server, rate)) = proven_alone {
        answer.tell_proven(fitted.name_of(server), rate.min(estimate.mean), now);
        HeadroomVerdict::Proven
    } else if !answer.silent.is_empty() {
        HeadroomVerdict::Silent
    } else if estimate.mean <= STATED * highest
        && estimate.mean <= STATED_OF_PEAK * fitted.traffic.highest_tenth().max(shown)
        && estimate.mean <= broke.most_stated
    {
        HeadroomVerdict::Stated
    } else {
        HeadroomVerdict::Projected
    };
    if has_effects(answer.verdict) {
        let (first, allowances, missed) = (&first, allowances.as_slice(), broke.most);
        let from = ChangedFrom { fitted, first, modelled, capacity: estimate, missed, allowances };
        answer.what_if = changes::effects(&from, question);
    }
}

impl Headroom {
    /// A capacity, and how many times the traffic of `now` that is.
    fn tell_capacity(&mut self, capacity: CapacityEstimate, now: f64) {
        self.capacity_per_s = Some(capacity);
        self.headroom_ratio = (now > 0.0).then(|| capacity.map(|rate| rate / now));
    }

    /// Tells a rate that a server has shown; what the traffic alone would have said is left out.
    fn tell_proven(&mut self, server: String, rate: f64, now: f64) {
        let is_named = self.bottleneck.as_ref().is_some_and(|first| first.name == server);
        // What else was told to be full first is so at a higher rate.
        if !is_named && self.saturation_per_s.is_none_or(|full_at| rate < full_at) {
            self.bottleneck = Some(LimitingResource { resource: ResourceKind::Server, name: server });
            self.saturation_per_s = None;
        }
        self.tell_capacity(CapacityEstimate { low: rate, mean: rate, high: rate }, now);
        let reasons = self.silent.drain(..).map(Silence::text);
        self.assumes.extend(reasons.map(|why| format!("no more than what was proven: {why}")));
    }

    /// Tells no more than a rate that was shown, if the only reasons to say nothing are such that
    /// more traffic would end them.
    fn tell_proven_alone(&mut self, kept: &Kept, system: &LiveSystem, proven: Option<(usize, f64)>) {
        self.silent.extend(unsteady(kept));
        let few = self.silent.iter().all(|why| why.wants_more_traffic());
        if let Some((server, rate)) = proven.filter(|(_, rate)| few && !self.refutes(*rate)) {
            self.tell_proven(system.servers[server].name.clone(), rate, self.traffic.now_per_s);
            self.verdict = HeadroomVerdict::Proven;
        }
    }

    /// Whether the traffic of now, which is no more than this rate, breaks the target.
    fn refutes(&self, rate: f64) -> bool {
        self.broken_now == Some(true) && self.traffic.now_per_s <= rate
    }
}

/// Whether all that is modelled is less than this rate, and nothing speaks against the model.
fn is_refuted(rate: f64, fitted: &Fitted<'_>, modelled: &CapacityEstimate, answer: &Headroom) -> bool {
    modelled.high < rate
        && answer.silent.is_empty()
        && doubts_of(modelled, fitted, answer.target).next().is_none()
}

/// The system, where what a server has shown is told of its share of the last seconds' traffic:
/// while another one is down it gets more, and so as much at a lower rate.
fn with_shares_of_now(system: &LiveSystem, kept: &Kept) -> LiveSystem {
    let mut system = system.clone();
    for (number, server) in system.servers.iter_mut().enumerate() {
        let Some(proven) = &mut server.proven else { continue };
        let (parts, requests) = kept.lately(number, ENOUGH_OF_SHARE);
        let times = proven.usual_parts.map_or(1.0, |usual| usual * requests.max(1.0) / parts.max(1.0));
        if parts >= FEW_OF_SHARE && -times.ln() > (4.0 / parts.sqrt()).max(SHARE_OF_PROVEN) {
            let ends = [&mut proven.missed_per_s, &mut proven.slower_per_s].into_iter().flatten();
            ends.chain([&mut proven.traffic_per_s]).for_each(|rate| *rate *= times);
        }
    }
    system
}

/// The rates of all traffic at which redlines were ended by a limit of a server.
struct Broke {
    /// At this rate the target, or a looser one, was missed.
    most: f64,
    /// Beyond this one a server was seen to be other than below.
    most_stated: f64,
}

impl Broke {
    fn of(system: &LiveSystem, target: Option<ResponseTarget>) -> Self {
        let mut broke = Self { most: f64::INFINITY, most_stated: f64::INFINITY };
        for proven in system.servers.iter().filter_map(|server| server.proven) {
            let as_strict = target.is_some_and(|target| {
                target.seconds <= proven.target.seconds && target.quantile >= proven.target.quantile
            });
            if let Some(missed) = proven.missed_per_s.filter(|_| as_strict) {
                broke.most = broke.most.min(missed);
            }
            let ends = [proven.missed_per_s, proven.slower_per_s];
            broke.most_stated = ends.into_iter().flatten().fold(broke.most_stated, f64::min);
        }
        broke
    }
}

/// The rate that a server has shown that it can do, with this target or a stricter one.
fn shown(proven: ProvenServer, target: Option<ResponseTarget>) -> Option<f64> {
    let as_strict = target.is_none_or(|target| {
        target.seconds >= proven.target.seconds && target.quantile <= proven.target.quantile
    });
    (as_strict && proven.traffic_per_s > 0.0).then_some(proven.traffic_per_s)
}

/// The least rate of those that servers have shown, with the server.
fn least_proven(system: &LiveSystem, target: Option<ResponseTarget>) -> Option<(usize, f64)> {
    let servers = system.servers.iter().enumerate();
    let rates = servers.filter_map(|(server, known)| Some((server, shown(known.proven?, target)?)));
    rates.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The rate of all traffic at which the server that is full first gets no more than it has shown
/// that it can do, and which that is. Where no server is, that of the servers of which nothing else
/// is known: each other one of them is not full before.
fn proven(
    first: Option<&First>,
    fitted: &Fitted<'_>,
    target: Option<ResponseTarget>,
) -> Option<(usize, f64)> {
    let of = |server: usize| Some((server, shown_by(server, fitted, target)?));
    if let Some(server) = first.and_then(|first| first.server) {
        return of(server);
    }
    fitted.unknown_servers().find_map(of)?;
    let full_at = first.map_or(f64::INFINITY, |first| first.full_at);
    unknown_until(fitted, target).min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, rate)| *rate < full_at)
}

/// The rate that a server has shown, by its number.
fn shown_by(server: usize, fitted: &Fitted<'_>, target: Option<ResponseTarget>) -> Option<f64> {
    shown(fitted.system.servers[server].proven?, target)
}

/// The servers of which no service time is known, and up to which rates they are not full.
fn unknown_until(fitted: &Fitted<'_>, target: Option<ResponseTarget>) -> impl Iterator<Item = (usize, f64)> {
    let rate = move |server: usize| shown_by(server, fitted, target).or_else(|| fitted.not_before(server));
    fitted.unknown_servers().filter_map(move |server| Some((server, rate(server)?)))
}

/// A rate that the server that is full first has shown, as far as nothing else is full before.
fn until_others_are_full(
    mut rate: f64,
    first: &First,
    fitted: &Fitted<'_>,
    target: Option<ResponseTarget>,
) -> f64 {
    if first.server.is_none() {
        return rate;
    }
    let mut replay = fitted.replay(true);
    for (server, limit) in fitted.limits.iter().enumerate() {
        let Some(limit) = limit else { continue };
        let full_at = limit.full_at.max(shown_by(server, fitted, target).unwrap_or(0.0));
        replay.servers[server].scale *= limit.full_at / full_at;
        rate = rate.min(full_at);
    }
    let machine = fitted.machine().map(|(_, fit)| fit.middle);
    let unknown = unknown_until(fitted, target).map(|(_, rate)| rate);
    let others = unknown.chain(fitted.loops.map(|fit| fit.middle)).chain(machine);
    fitted.with_workers(&replay, others.fold(rate, f64::min))
}

/// The reasons that hold.
fn those<const COUNT: usize>(reasons: [(bool, Silence); COUNT]) -> impl Iterator<Item = Silence> {
    reasons.into_iter().filter_map(|(is_so, why)| is_so.then_some(why))
}

/// Reasons to say nothing, whatever the estimate is.
fn doubts(fitted: &Fitted<'_>, first: &First, check: Option<ModelCheck>) -> Vec<Silence> {
    let mut silent = Vec::new();
    if let Some((fit, _)) = fitted.first_fit(first) {
        let known = first.server.map(|server| &fitted.system.servers[server]);
        let known = |what: fn(&LiveServer) -> Option<f64>| known.and_then(what).is_some();
        silent.extend(those([
            (fit.seconds < 6, Silence::WaitedInFewSeconds),
            (fit.waited < 300, Silence::FewWaited),
            (fit.allowance && !known(|server| server.link), Silence::AllowanceRunsOut),
            (fit.quota && !known(|server| server.processors), Silence::QuotaRunsOut),
        ]));
    }
    if let Some(fit) = first.server.and_then(|server| fitted.servers[server].gathered.as_ref()) {
        silent.extend(those([
            (fit.seconds < 6, Silence::WaitedInFewSeconds),
            (fit.shared < 300, Silence::FewWaited),
        ]));
    }
    let misses = |check: ModelCheck| check.mean.abs() > 0.25 || check.p95.abs() > 0.35;
    // More was served than what is told to be full first could do.
    let refuted = first.full_at < NEARLY_SERVED * fitted.kept.served();
    silent.extend((refuted || check.is_some_and(misses)).then_some(Silence::CheckFailed));
    silent.extend(fitted.contended());
    silent.extend(unsteady(&fitted.kept));
    silent
}

/// Reasons not to take what was kept for what comes.
fn unsteady(kept: &Kept) -> impl Iterator<Item = Silence> + use<> {
    let (failures, requests) =
        kept.windows.iter().fold((0, 0), |sum, one| (sum.0 + one.failures, sum.1 + one.requests));
    those([(failures * 100 > requests, Silence::Failures), (kept.mix_changed(), Silence::MixChanged)])
}

/// Reasons not to tell an estimate.
fn doubts_of(
    estimate: &CapacityEstimate,
    fitted: &Fitted<'_>,
    target: Option<ResponseTarget>,
) -> impl Iterator<Item = Silence> + use<> {
    let wide = if target.is_some() { WIDE_OF_PERCENTILE } else { WIDE };
    those([
        (estimate.mean > PROJECTED * fitted.traffic.highest(), Silence::TooFar),
        (estimate.high > wide * estimate.low, Silence::IntervalTooWide),
    ])
}

const fn plain(
    resource: ResourceKind,
    full_at: Option<f64>,
    busy: Option<f64>,
    service: Option<f64>,
) -> ResourceState {
    ResourceState {
        resource,
        name: String::new(),
        full_at_per_s: full_at,
        busy_now: busy,
        service_us: service,
        standard_error: None,
        others: None,
        outside_us: None,
        waited: None,
        contention: None,
        stalled: None,
    }
}

fn of_allowance(one: &Allowance) -> ResourceState {
    let name = one.server.clone().unwrap_or_default();
    let full_at = one.full_at().map(|full| full.mean);
    ResourceState { name, ..plain(one.resource, full_at, Some(one.used / one.most), None) }
}

/// What is used of what there is, the clients' connections among it.
fn allowances(fitted: &Fitted<'_>) -> Vec<Allowance> {
    let clients = fitted.system.most_clients.map(|most| Allowance {
        resource: ResourceKind::Connections,
        server: None,
        used: f64::from(fitted.kept.clients()),
        most: f64::from(most),
        seen: fitted.kept.clients_at_rates(),
    });
    fitted.system.allowances.iter().cloned().chain(clients).collect()
}

fn states(fitted: &Fitted<'_>, workers: Option<f64>, allowances: &[Allowance]) -> Vec<ResourceState> {
    let now = fitted.traffic.now();
    let mut states: Vec<ResourceState> = Vec::new();
    for (place, (server, limit)) in fitted.servers.iter().zip(&fitted.limits).enumerate() {
        if server.share == 0.0 {
            continue;
        }
        let (fit, gathered) = (server.fit.as_ref(), server.gathered.as_ref());
        let full = limit.filter(|_| gathered.is_some());
        states.push(ResourceState {
            resource: ResourceKind::Server,
            name: fitted.name_of(place),
            full_at_per_s: limit.map(|limit| limit.alone_full_at),
            busy_now: limit.map(|limit| now / limit.alone_full_at),
            // Of trips that requests share: the share of one in a trip of the full server.
            service_us: fit.map(|fit| fit.own_service() * 1e6).or(full.map(|limit| limit.service * 1e6)),
            standard_error: fit.map(ServiceFit::own_error).or(gathered.map(|fit| fit.error)),
            others: fit.filter(|fit| fit.others.is_some()).map(|fit| 1.0 - fit.own_service() / fit.service),
            outside_us: fit.map(|fit| fit.delay * 1e6),
            waited: fit.map(|fit| fit.waited).or(gathered.map(|fit| fit.shared)),
            contention: fit.map(|fit| fit.contention.slope),
            stalled: fit.map(|fit| fit.stalls.lost),
        });
        if let Some(full_at) = limit.and_then(|limit| limit.link_full_at) {
            let name = fitted.name_of(place);
            let link = plain(ResourceKind::Link, Some(full_at), Some(now / full_at), None);
            states.push(ResourceState { name, ..link });
        }
    }
    if let Some(fit) = fitted.loops {
        // Of the seconds with traffic, to those of now.
        let busy = fit.busy_lately * now / fitted.traffic.lately().max(1e-9);
        states.push(plain(ResourceKind::Loop, Some(fit.middle), Some(busy), Some(fit.per_request * 1e6)));
    }
    let busy = |fit: MachineFit| Some(fit.busy_at(now));
    states.extend(fitted.machine().map(|(resource, fit)| plain(resource, Some(fit.middle), busy(fit), None)));
    let taken = fitted.processors.filter(|fit| fit.others > MUCH_OF_OTHERS);
    states.extend(taken.map(|fit| plain(ResourceKind::Processors, None, busy(fit), None)));
    states.extend(allowances.iter().map(of_allowance));
    if let Some(full_at) = fitted.kept.clients_full_at() {
        // Asking again at once, with the response time that was seen.
        let clients = plain(ResourceKind::Clients, Some(full_at), Some(now / full_at), None);
        states
            .push(ResourceState { outside_us: fitted.kept.client_idle().map(|time| time * 1e6), ..clients });
    }
    if let Some(limit) = fitted.system.workers {
        states.push(plain(ResourceKind::Workers, workers, Some(fitted.held(limit, now)), None));
    }
    states.sort_by(|a, b| {
        let full = |one: &ResourceState| one.full_at_per_s.unwrap_or(f64::INFINITY);
        full(a).total_cmp(&full(b))
    });
    states
}
