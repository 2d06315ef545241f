//! What the estimator says of a system that it has watched, beside what is true.
//!
//! Truth comes from the same simulator: saturation from 200 clients that never think, the target
//! from the response times at 72 to 90 % of saturation. The estimator then sees a minute of traffic
//! up to 30 %, one up to 50 % and one up to 70 % of saturation, and is asked at the end of each at
//! which rate the target breaks.

use krarup_model::headroom::{
    Headroom, HeadroomChange, HeadroomMemory, HeadroomQuestion, HeadroomVerdict, LiveServer, LiveSystem,
    ResourceKind, ResponseTarget, judge_remembering,
};
use krarup_record::live::VisitStretch;
use krarup_record::{LiveBooks, LiveSnapshot, LiveVisit, LoopUse, LoopWindow};
use krarup_units::{Nanos, Stamp};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution as _, StandardNormal};

use super::kinds::{Candidate, Kind, STAGE};
use super::system::{Interruption, Load, SECOND, ServerLaw, Simulation, SystemLaw};

/// Seeds from here on shape the estimator: look at them as often as you like.
pub(crate) const SHAPING_SEED: u64 = 1000;

/// Seeds from here on judge it. They are never used to tune anything: a figure that was looked at
/// while a constant was chosen says nothing about systems that were not. 15000 to 15107, 17000 to
/// 17107, 21000 to 21107, 23000 to 23215, 29000 to 29086, 31000 to 31086, 33000 to 33086,
/// 35000 to 35115, 37000 to 37115, 39000 to 39115, 41000 to 41115, 45000 to 45115, 47000 to
/// 47115, 49000 to 49115 and 51000 to 51115 have been looked at, and judge nothing any more.
pub(crate) const JUDGING_SEED: u64 = 53_000;

const _: () =
    assert!(JUDGING_SEED > SHAPING_SEED + 10_000, "seeds that shape and seeds that judge stay apart");

/// The lowest and the highest rate of each level, as shares of saturation.
pub(crate) const LEVELS: [(f64, f64); 3] = [(0.10, 0.30), (0.20, 0.50), (0.30, 0.70)];

/// By how much the rate of a second differs from the plan: the standard deviation, as a share.
const NOISE: f64 = 0.08;

/// Seconds before what is counted.
const WARM_UP: u64 = 2;

/// How long the simulations that tell the truth go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Replies to find saturation from.
    pub(crate) saturation: u64,
    /// Replies to find the quantile of response times from.
    pub(crate) target: u64,
    /// Seconds that either takes at least.
    pub(crate) seconds: u64,
    /// Visits that the estimator is shown at the most.
    pub(crate) kept: usize,
    /// How many minutes are watched at each level, and asked for at the end of each.
    pub(crate) minutes: usize,
    /// Loops through which it goes: each sees what it sent alone.
    pub(crate) loops: u16,
}

/// What is true of a system at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth {
    /// Requests per second when the first resource is full.
    pub(crate) saturation: f64,
    /// The rate at which 99 % of requests are answered within `target`.
    pub(crate) capacity: f64,
    /// In seconds.
    pub(crate) target: f64,
}

/// One answer beside the truth.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    /// Which of [`LEVELS`].
    pub(crate) level: usize,
    pub(crate) truth: Truth,
    pub(crate) answer: Headroom,
    pub(crate) named_right: bool,
}

impl Judged {
    pub(crate) fn said(&self) -> bool {
        self.answer.verdict != HeadroomVerdict::Silent
    }

    /// By which share the capacity is off, also of what is not to be relied on.
    pub(crate) fn capacity_error(&self) -> Option<f64> {
        self.answer.capacity_per_s.map(|one| one.mean / self.truth.capacity - 1.0)
    }

    /// The same of saturation.
    pub(crate) fn saturation_error(&self) -> Option<f64> {
        self.answer.saturation_per_s.map(|one| one / self.truth.saturation - 1.0)
    }

    pub(crate) fn covers(&self) -> bool {
        self.answer
            .capacity_per_s
            .is_some_and(|one| one.low <= self.truth.capacity && self.truth.capacity <= one.high)
    }

    /// Outside of its own interval and off by more than a fifth; how far, with its sign.
    pub(crate) fn false_confident(&self) -> Option<f64> {
        self.capacity_error().filter(|error| self.said() && !self.covers() && error.abs() > 0.2)
    }
}

/// Saturation, from 200 clients that ask as soon as they have their reply.
pub(crate) fn saturation(law: &SystemLaw, effort: Effort, seed: u64) -> f64 {
    let load = Load::Closed { clients: vec![(0.0, 200)], think: 0.0 };
    let mut run = Simulation::new(law, &load, seed);
    run.run_until(WARM_UP * SECOND);
    let before = run.replies;
    let mut seconds = 0;
    while seconds < effort.seconds || run.replies - before < effort.saturation {
        seconds += 1;
        run.run_until((WARM_UP + seconds) * SECOND);
    }
    (run.replies - before) as f64 / seconds as f64
}

/// What is true of a system that does not change.
fn truth(candidate: &Candidate, law: &SystemLaw, effort: Effort) -> Truth {
    let saturation = saturation(&law.averaged(), effort, candidate.seed ^ 7);
    let capacity = candidate.target_at * saturation;
    let target = p99_at(candidate, law, capacity, effort);
    Truth { saturation, capacity, target }
}

/// The 99th percentile of response times at this rate, which varies from second to second.
pub(crate) fn p99_at(candidate: &Candidate, law: &SystemLaw, rate: f64, effort: Effort) -> f64 {
    let noise = if candidate.kind == Kind::Clients { 0.0 } else { NOISE };
    let seconds = ((effort.target as f64 * candidate.target_at / rate) as u64).clamp(effort.seconds, 600);
    let mut normal = noise_of(candidate.seed ^ 9);
    let rates = (0..WARM_UP + seconds).map(|_| rate * (1.0 + noise * normal())).collect();
    let load = Load::Open(rates);
    let mut run = Simulation::new(law, &load, candidate.seed ^ 9);
    run.keep_from = Some(WARM_UP * SECOND);
    run.run_until((WARM_UP + seconds) * SECOND);
    quantile(&mut run.responses, 0.99)
}

fn noise_of(seed: u64) -> impl FnMut() -> f64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    move || StandardNormal.sample(&mut random)
}

/// The value below which this share of them lies. They lose their order.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    let place = ((values.len() as f64 * share) as usize).min(values.len() - 1);
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

/// The traffic of all levels. `reference` is the lowest saturation of all times, so that it fits.
fn traffic(candidate: &Candidate, reference: f64, minutes: usize) -> Load {
    let stage = STAGE * minutes as f64;
    if candidate.kind == Kind::Clients {
        let server = candidate.law.servers[0];
        let think = 20.0 * server.service;
        let mut clients = Vec::new();
        for (level, (low, high)) in LEVELS.into_iter().enumerate() {
            for (third, share) in [low, f64::midpoint(low, high), high].into_iter().enumerate() {
                let many = (share * reference * (think + server.service + server.delay)) as usize;
                clients.push((stage * (level as f64 + third as f64 / 3.0), many.max(1)));
            }
        }
        return Load::Closed { clients, think };
    }
    let mut normal = noise_of(candidate.seed ^ 5);
    let seconds = (stage * LEVELS.len() as f64) as usize;
    let rate = |second: usize| {
        let (low, high) = LEVELS[second / stage as usize];
        let turn = std::f64::consts::TAU * second as f64 / STAGE;
        let plan = low + (high - low) * (0.5 - 0.5 * turn.cos());
        reference * high.min(plan * (1.0 + NOISE * normal())).max(0.0)
    };
    Load::Open((0..seconds).map(rate).collect())
}

/// What the estimator is given of the system.
fn description(candidate: &Candidate) -> LiveSystem {
    let law = &candidate.law;
    let quota = match law.interruption {
        Interruption::Quota { share, .. } => Some(share),
        _ => None,
    };
    let server = |(number, server): (usize, &ServerLaw)| {
        let (processors, link) = if candidate.configured { (quota, server.link) } else { (None, None) };
        LiveServer { name: format!("s{number}"), processors, link, ..LiveServer::default() }
    };
    LiveSystem {
        servers: law.servers.iter().enumerate().map(server).collect(),
        lanes: Some(law.lanes as u16),
        workers: law.workers.map(|many| many as u32),
        processors_per_loop: 1.0,
        ..LiveSystem::default()
    }
}

/// Whether the answer names what is full first. A link of unknown speed is part of its server; of
/// clients that wait for replies either they or the server are right.
fn names_right(candidate: &Candidate, answer: &Headroom) -> bool {
    let Some(named) = &answer.bottleneck else { return false };
    let (resource, number) = candidate.limit;
    match named.resource {
        ResourceKind::Clients => candidate.kind == Kind::Clients,
        ResourceKind::Processors => false,
        ResourceKind::Server | ResourceKind::Link => {
            resource == ResourceKind::Server && named.name == format!("s{number}")
        }
        other => other == resource,
    }
}

/// What was kept, as if so many loops had kept it: each the requests of some connections, or each
/// some of one connection's, as if it had one of its own to the same queue.
fn of_loops(seen: &LiveSnapshot, loops: u16, by_lane: bool) -> LiveSnapshot {
    let loop_of = |visit: &LiveVisit| match by_lane {
        true => visit.lane() % loops,
        // The low digits of a time tell nothing of it.
        false => (visit.received.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16 % loops,
    };
    let part = |number: u16| {
        let mut visits = Vec::new();
        let stretches = seen.stretches.iter().map(|one| {
            let first = visits.len();
            let all = &seen.visits[one.first..one.first + one.count];
            let requests = all.chunk_by(|_, next| next.follows());
            visits.extend(requests.filter(|one| loop_of(&one[0]) == number).flatten().copied());
            VisitStretch { first, count: visits.len() - first, ..*one }
        });
        let stretches = stretches.collect();
        let share = visits.len() as f64 / seen.visits.len().max(1) as f64;
        let windows = seen.windows.iter().map(|one| {
            let of_it = |whole: u64| (whole as f64 * share) as u64;
            let used = LoopUse {
                processor: Nanos(of_it(one.used.processor.0)),
                clients: of_it(one.used.clients.into()) as u32,
                ..one.used
            };
            LoopWindow { requests: of_it(one.requests), used, ..*one }
        });
        // All arrivals are counted with the first.
        let arrivals = if number == 0 { seen.arrivals.clone() } else { Vec::new() };
        LiveSnapshot { windows: windows.collect(), visits, stretches, arrivals, ..seen.clone() }
    };
    let mut all = part(0);
    (1..loops).for_each(|number| all.merge(&part(number)));
    all
}

/// Watches the system and asks at the end of each level, of which it looks at so many.
pub(crate) fn watch(candidate: &Candidate, levels: usize, effort: Effort) -> Vec<Judged> {
    watch_asked(candidate, levels, effort, &[])
}

/// As [`watch`], and asks what these changes would do.
pub(crate) fn watch_asked(
    candidate: &Candidate,
    levels: usize,
    effort: Effort,
    changes: &[HeadroomChange],
) -> Vec<Judged> {
    let ends: Vec<f64> =
        (0..LEVELS.len()).map(|level| STAGE * (effort.minutes * (level + 1)) as f64).collect();
    let truths: Vec<Truth> = if candidate.law.changes() {
        ends.iter().map(|end| truth(candidate, &candidate.law.frozen_at(*end), effort)).collect()
    } else {
        vec![truth(candidate, &candidate.law, effort); LEVELS.len()]
    };
    let mut reference = truths.iter().map(|one| one.saturation).fold(f64::INFINITY, f64::min);
    if candidate.law.changes() {
        reference = reference.min(saturation(&candidate.law.frozen_at(0.0), effort, candidate.seed ^ 7));
    }
    let load = traffic(candidate, reference, effort.minutes);
    let system = description(candidate);
    let mut run = Simulation::new(&candidate.law, &load, candidate.seed ^ 5);
    run.books = Some(LiveBooks::new(effort.kept));
    let (mut judged, mut memory) = (Vec::new(), HeadroomMemory::default());
    for (level, truth) in truths.into_iter().enumerate().take(levels) {
        let question = HeadroomQuestion {
            target: Some(ResponseTarget { quantile: 0.99, seconds: truth.target }),
            changes: changes.to_vec(),
            seed: candidate.seed,
        };
        let plain = HeadroomQuestion { target: None, changes: Vec::new(), ..question };
        let mut asked_at = |minute: usize, question: &HeadroomQuestion| {
            let end = (level * effort.minutes + minute) as u64 * STAGE as u64 * SECOND;
            run.run_until(end);
            let snapshot = run.books.as_ref().expect("books are kept").snapshot(Stamp(end));
            let by_lane = usize::from(effort.loops) <= candidate.law.lanes;
            let snapshot = of_loops(&snapshot, effort.loops, by_lane);
            judge_remembering(&snapshot, &system, question, &mut memory)
        };
        for minute in 1..effort.minutes {
            asked_at(minute, &plain);
        }
        let answer = asked_at(effort.minutes, &question);
        let named_right = names_right(candidate, &answer);
        let Candidate { kind, seed, .. } = *candidate;
        judged.push(Judged { kind, seed, level, truth, answer, named_right });
    }
    judged
}
