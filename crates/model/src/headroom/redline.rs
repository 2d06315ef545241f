//! Redline: a guided proof of what a server can do. One holder of a replicated pool is given a
//! growing share of the reads, step by step, until it has shown enough or a limit is near.
//!
//! A limit that does not act before it is met (a quota, a pool of threads inside the server,
//! contention deeper than seen) is in no passive measurement. What a server has answered within
//! the target it can answer.

use std::collections::VecDeque;

use krarup_record::LiveSnapshot;
use krarup_units::{Nanos, Seconds, Stamp};
use serde::{Deserialize, Serialize};

use super::answer::{LiveSystem, ProvenServer, ResponseTarget, ServerQueue};
use super::kept::{Kept, kept, quantile};
use super::server_fit;
use super::service_by_request::{RequestSum, ServiceByRequest};

/// Each step gives so many times the weight of the one before.
const STEP: f64 = 1.1;
/// The shortest step.
const SHORTEST: Nanos = Nanos::from_secs(5);
/// A step ends after this time also where its service time is not known well: there is too little
/// load for requests to wait.
const LONGEST: Nanos = Nanos::from_secs(20);
/// A service time is known well with this relative standard error, from so many that waited.
const PRECISE: f64 = 0.03;
const WAITED: usize = 300;
/// Fewer reads say nothing of a quantile, and so many a second must come.
const FEW_READS: usize = 50;
/// Nor do fewer than those of which so many lie beyond the quantile on average. Until then the
/// quantile is too slow beyond doubt where so many reads are: one or two may be by chance.
const BEYOND: f64 = 2.0;
const SLOW_READS: usize = 3;
/// Its usual share is that of the time before, unless it had fewer parts of requests then.
const BEFORE: Nanos = Nanos::from_secs(60);
const FEW_PARTS: f64 = 50.0;
/// The service time may be so many times the shortest of the steps before.
const RISE: f64 = 1.15;
/// The quantile of the other holders may be so many times the worst of before.
const WORSE: f64 = 1.2;
/// Of so many looks that were judged, two that are too slow end it.
const LOOKED_AT: usize = 3;

/// How far one server is pushed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedlineSettings {
    /// What all reads must keep to.
    pub target: ResponseTarget,
    /// The most that the server may get, as a multiple of an even share; above 1.
    pub most_weight: f64,
    /// How long the whole may take, in seconds.
    pub most_seconds: Seconds,
}

/// Why a redline has ended. The names are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedlineEnd {
    /// The server's reads missed the target in two of three looks that had enough of them.
    Target,
    /// A request failed, or a server of the pool is down.
    Errors,
    /// The service time rose by more than 15 %: contention begins.
    Contention,
    /// The other holders became slower by a fifth in two of these three looks.
    Others,
    /// No more reads can be moved to the server: it is left out because it was slow.
    LeftOut,
    /// The server has had the most that it may get, and kept to the target.
    MostWeight,
    /// There are too few reads to tell, or too few of them are kept for so high a quantile.
    FewReads,
    /// The time is over.
    TimeOver,
    /// It was told to end, or servers get other shares by another configuration.
    Stopped,
    /// An event loop did not answer.
    Stuck,
}

/// What one share of the reads has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RedlineStep {
    /// As a multiple of an even share.
    pub weight: f64,
    /// The share of its pool's reads, from 0 to 1.
    pub share: f64,
    /// How long it lasted.
    pub seconds: Seconds,
    /// Requests a second that the server answered.
    pub server_per_s: f64,
    /// Requests a second of all traffic.
    pub traffic_per_s: f64,
    /// The target's quantile of the server's reads, in seconds.
    pub response_s: Seconds,
    /// The same of the other holders.
    pub others_s: Seconds,
    /// Requests that the server had at once, on average.
    pub outstanding: f64,
    /// Effective service time, in microseconds, where enough requests waited.
    pub service_us: Option<f64>,
    /// Its relative standard error.
    pub standard_error: Option<f64>,
    /// Whether the target held for its whole length.
    pub kept_target: bool,
}

/// A redline, under way or ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RedlineReport {
    /// The version of this JSON.
    pub schema: u32,
    /// Whose reads are moved.
    pub pool: String,
    /// The holder that is pushed.
    pub server: String,
    /// Why it ended; none: it is under way, or was only planned.
    pub ended: Option<RedlineEnd>,
    /// The steps that are complete; of a plan those that would be made, without measurements.
    pub steps: Vec<RedlineStep>,
    /// What is proven by them.
    pub proven: Option<ProvenServer>,
}

/// What is to be done after a look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RedlineOrder {
    /// Nothing else than now.
    Hold,
    /// The server gets this share of the pool's reads from now on.
    Share(f64),
    /// The server gets its usual share again.
    End(RedlineEnd),
}

/// Watches one server step by step.
#[derive(Clone, Debug)]
pub struct Redline {
    settings: RedlineSettings,
    server: usize,
    holders: Vec<usize>,
    /// From when on all servers had their usual shares.
    usual_since: Stamp,
    begun: Stamp,
    step_begun: Stamp,
    /// Reads that came later were not judged yet.
    looked: Stamp,
    weight: f64,
    /// Whether the reads judged last were too slow, of the server and of the others.
    slow: VecDeque<(bool, bool)>,
    /// Whether the step has missed the target in one of its looks.
    missed: bool,
    /// The slowest look at the other holders before anything was moved.
    others_before: Option<Seconds>,
    /// Looks of this step that had enough reads.
    judged: usize,
    steps: Vec<RedlineStep>,
    /// For each, the rate of all traffic with which the server has as much work by itself: the
    /// least and the most.
    as_usual: Vec<(f64, f64)>,
    /// What the server is asked by itself.
    usual: AskedOfServer,
    /// The rates of all traffic that are as the work which it had when it missed the target, and
    /// when its service time rose.
    missed_at: Option<f64>,
    slower_at: Option<f64>,
}

/// A write of which no cost is known takes a server no longer than so many reads.
const MOST_OF_A_WRITE: f64 = 10.0;

/// What a server was asked.
#[derive(Clone, Copy, Debug, Default)]
struct AskedOfServer {
    parts: RequestSum,
    /// Of so many requests of all traffic.
    requests: f64,
}

impl AskedOfServer {
    /// How many times as much as by usual a request of all traffic gives the server to do, where
    /// service times are like this: the least and the most. Only reads are moved; where it is not
    /// known what a write costs, it costs something between nothing and [`MOST_OF_A_WRITE`] reads.
    fn times(&self, usual: &Self, requests: &ServiceByRequest) -> (f64, f64) {
        let times = |work: &dyn Fn(&RequestSum) -> f64| {
            let [here, usual] = [self, usual].map(|one| work(&one.parts) / one.requests.max(1.0));
            if usual > 0.0 { here / usual } else { 0.0 }
        };
        if self.parts.writes + usual.parts.writes == 0.0 || requests.tells_operations {
            let times = times(&|parts| requests.times(parts));
            return (times, times);
        }
        let [free, dear] = [0.0, MOST_OF_A_WRITE]
            .map(|cost| times(&|parts| parts.reads + parts.unknown + cost * parts.writes));
        (free.min(dear), free.max(dear))
    }
}

impl Redline {
    /// Pushes `server`, one of the `holders` of a pool's keys (at least two), from now on; the
    /// first step is an even share. Servers have had their usual shares since then.
    pub fn new(
        settings: RedlineSettings,
        server: usize,
        holders: Vec<usize>,
        usual_since: Stamp,
        now: Stamp,
    ) -> Self {
        Self {
            settings,
            server,
            holders,
            usual_since,
            begun: now,
            step_begun: now,
            looked: now,
            weight: 1.0,
            slow: VecDeque::new(),
            missed: false,
            others_before: None,
            judged: 0,
            steps: Vec::new(),
            as_usual: Vec::new(),
            usual: AskedOfServer::default(),
            missed_at: None,
            slower_at: None,
        }
    }

    /// The share of the pool's reads that the server gets now.
    pub fn share(&self) -> f64 {
        (self.weight / self.holders.len() as f64).min(1.0)
    }

    /// The weights and shares that would be tried.
    pub fn planned(&self) -> Vec<(f64, f64)> {
        let mut one = self.clone();
        let mut planned = vec![(one.weight, one.share())];
        while one.raise() {
            planned.push((one.weight, one.share()));
        }
        planned
    }

    /// What must hold.
    pub fn target(&self) -> ResponseTarget {
        self.settings.target
    }

    /// The complete steps.
    pub fn steps(&self) -> &[RedlineStep] {
        &self.steps
    }

    /// What is proven until now: the most that the server did in a step in which the target held.
    pub fn proven(&self) -> Option<ProvenServer> {
        // The step in which contention began proves nothing.
        let count = self.steps.len() - usize::from(self.slower_at.is_some());
        let kept = self.steps[..count].iter().zip(&self.as_usual).filter(|(step, _)| step.kept_target);
        let (step, &(most, _)) = kept.max_by(|(_, one), (_, other)| one.0.total_cmp(&other.0))?;
        // What it has done before is not beyond what it can do.
        let beyond = |rate: f64| rate.max(most);
        (most > 0.0).then(|| ProvenServer {
            target: self.settings.target,
            server_per_s: step.server_per_s,
            usual_parts: Some(self.usual.parts.count() / self.usual.requests.max(1.0)),
            traffic_per_s: most,
            missed_per_s: self.missed_at.map(beyond),
            slower_per_s: self.slower_at.map(beyond),
        })
    }

    /// What counts from now on, when it has ended like this: what is proven or, where the server
    /// was at a limit before anything was, that it has shown nothing.
    pub fn shown(&self, ended: RedlineEnd) -> Option<ProvenServer> {
        let at_limit = matches!(ended, RedlineEnd::Target | RedlineEnd::Contention);
        let nothing = ProvenServer {
            target: self.settings.target,
            server_per_s: 0.0,
            usual_parts: None,
            traffic_per_s: 0.0,
            missed_per_s: None,
            slower_per_s: None,
        };
        self.proven().or(at_limit.then_some(nothing))
    }

    /// Looks at what was kept until now, about once a second.
    pub fn look(&mut self, snapshot: &LiveSnapshot, system: &LiveSystem) -> RedlineOrder {
        let now = snapshot.at;
        let failed = snapshot.windows.iter().any(|one| one.to > self.begun && one.failures > 0);
        if failed || self.is_any_away(system) {
            return RedlineOrder::End(RedlineEnd::Errors);
        }
        if let Some(end) = self.look_at_reads(snapshot) {
            if end == RedlineEnd::Target {
                // The step has hardly begun: its rate is that of the one before, of its share.
                let last = self.steps.last().zip(self.as_usual.last());
                self.missed_at = last.map(|(last, (_, rate))| rate * self.share() / last.share);
            }
            return RedlineOrder::End(end);
        }
        let lasted = now.0.saturating_sub(self.step_begun.0);
        if now.0.saturating_sub(self.begun.0) > Nanos::from_seconds(self.settings.most_seconds).0 {
            return RedlineOrder::End(RedlineEnd::TimeOver);
        }
        let (step, as_usual, reads_per_s) = self.step(snapshot, system);
        let known = self.judged > 0 && step.standard_error.is_some_and(|error| error <= PRECISE);
        let least = self.steps.iter().filter_map(|step| step.service_us).min_by(f64::total_cmp);
        // Beyond doubt: twice the standard error apart.
        if let (Some(least), Some(service), Some(error)) = (least, step.service_us, step.standard_error)
            && service * (1.0 - 2.0 * error) > RISE * least
        {
            self.slower_at = Some(as_usual.1);
            self.steps.push(step);
            self.as_usual.push(as_usual);
            return RedlineOrder::End(RedlineEnd::Contention);
        }
        if lasted < SHORTEST.0 || !known && lasted < LONGEST.0 {
            return RedlineOrder::Hold;
        }
        if self.judged == 0 || reads_per_s < FEW_READS as f64 {
            return RedlineOrder::End(RedlineEnd::FewReads);
        }
        self.steps.push(step);
        self.as_usual.push(as_usual);
        (self.step_begun, self.missed, self.judged) = (now, false, 0);
        // Those of this step that were not judged by themselves are judged with all of it.
        self.looked = now;
        if self.raise() {
            RedlineOrder::Share(self.share())
        } else {
            RedlineOrder::End(RedlineEnd::MostWeight)
        }
    }

    /// The next weight; false: this is the last.
    fn raise(&mut self) -> bool {
        let most = self.settings.most_weight.min(self.holders.len() as f64);
        let next = (self.weight * STEP).min(most);
        let raised = next > self.weight * 1.001;
        self.weight = if raised { next } else { self.weight };
        raised
    }

    /// The reads that were replied to since then, of the server and of the other holders.
    fn reads(&self, snapshot: &LiveSnapshot, since: Stamp) -> (Vec<Seconds>, Vec<Seconds>) {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for visit in &snapshot.visits {
            let replied = visit.replied_at();
            // Of an answer that no client waited for it is not known whether it is a read's.
            let is_read = visit.is_late() || !visit.follows() && !visit.is_write();
            if !is_read || replied <= since {
                continue;
            }
            let response = f64::from(visit.replied) * 1e-9;
            if visit.server() == self.server {
                own.push(response);
            } else if !visit.is_late() && self.holders.contains(&visit.server()) {
                others.push(response);
            }
        }
        (own, others)
    }

    /// Whether a holder is down, so that the others have its reads.
    fn is_any_away(&self, system: &LiveSystem) -> bool {
        self.holders.iter().any(|&holder| system.servers.get(holder).is_none_or(|known| known.away))
    }

    /// Judges the reads that were not judged yet, once they are enough, or so many of them are too
    /// slow that more would not undo it.
    fn look_at_reads(&mut self, snapshot: &LiveSnapshot) -> Option<RedlineEnd> {
        let (mut own, mut others) = self.reads(snapshot, self.looked);
        let ResponseTarget { quantile: share, seconds } = self.settings.target;
        let enough = (BEYOND / (1.0 - share).max(1e-9)).round() as usize;
        let slow = own.iter().filter(|response| **response > seconds).count();
        if own.len() < FEW_READS || own.len() < enough && slow < SLOW_READS {
            return None;
        }
        self.looked = snapshot.at;
        self.judged += 1;
        let is_slow = quantile(&mut own, share) > seconds;
        let others = (others.len() >= FEW_READS).then(|| quantile(&mut others, share));
        let untouched = self.steps.is_empty();
        let others_slow = match (others, self.others_before) {
            (Some(now), before) if untouched => {
                self.others_before = Some(before.unwrap_or(0.0).max(now));
                false
            }
            (Some(now), Some(before)) => now > WORSE * before,
            _ => false,
        };
        self.missed |= is_slow;
        self.slow.push_back((is_slow, others_slow));
        if self.slow.len() > LOOKED_AT {
            self.slow.pop_front();
        }
        let two = |of: fn(&(bool, bool)) -> bool| self.slow.iter().filter(|one| of(one)).count() >= 2;
        if two(|one| one.0) {
            Some(RedlineEnd::Target)
        } else {
            two(|one| one.1).then_some(RedlineEnd::Others)
        }
    }

    /// What the server was asked.
    fn asked(&self, kept: &Kept) -> AskedOfServer {
        let requests = kept.of_clients().count() as f64;
        let mut asked = AskedOfServer { requests, ..AskedOfServer::default() };
        let parts = kept.parts.iter().filter(|part| part.server == self.server);
        parts.for_each(|part| asked.parts.add(&RequestSum::of(part)));
        asked
    }

    /// What the step has shown until now, the rate of all traffic with which the server has as
    /// much work by itself, the least and the most, and the rate of its reads.
    fn step(&mut self, snapshot: &LiveSnapshot, system: &LiveSystem) -> (RedlineStep, (f64, f64), f64) {
        let now = snapshot.at;
        let is_first = self.steps.is_empty();
        // While a server was pushed no share was as usual.
        let before = Stamp(self.begun.0.saturating_sub(BEFORE.0)).max(self.usual_since);
        let before = is_first.then(|| self.asked(&kept(snapshot, system, before, self.begun)));
        let kept = server_fit::seen(snapshot, system, self.step_begun, now);
        let asked = self.asked(&kept);
        if let Some(before) = before {
            self.usual = if before.parts.count() < FEW_PARTS { asked } else { before };
        }
        let traffic_per_s = kept.rate();
        let per_s = |parts: f64| traffic_per_s * parts / asked.requests.max(1.0);
        let server_per_s = per_s(asked.parts.count());
        let lanes = kept.lanes_to(self.server, system);
        let fitted = server_fit::server(&kept, self.server, lanes, ServerQueue::EachConnection);
        let fit = fitted.fit.filter(|fit| fit.waited >= WAITED);
        let (mut own, mut others) = self.reads(snapshot, self.step_begun);
        let share = self.settings.target.quantile;
        let of = |values: &mut Vec<Seconds>| if values.is_empty() { 0.0 } else { quantile(values, share) };
        let requests = fit.as_ref().map_or(ServiceByRequest::ALIKE, |fit| fit.requests);
        let (least, most) = asked.times(&self.usual, &requests);
        let as_usual = (traffic_per_s * least, traffic_per_s * most);
        let response_s = of(&mut own);
        let step = RedlineStep {
            weight: self.weight,
            share: self.share(),
            seconds: (now.0 - self.step_begun.0) as f64 / 1e9,
            server_per_s,
            traffic_per_s,
            response_s,
            others_s: of(&mut others),
            outstanding: server_per_s * fitted.round_trip,
            service_us: fit.as_ref().map(|fit| fit.service * 1e6),
            standard_error: fit.map(|fit| fit.error),
            kept_target: !self.missed && response_s <= self.settings.target.seconds,
        };
        (step, as_usual, per_s(asked.parts.reads + asked.parts.unknown))
    }
}

#[cfg(test)]
mod tests;
