//! What the estimator says of one thing changed, beside the system with that changed.
//!
//! It sees traffic up to half of saturation, as in [`judging`](super::judging), and is asked what a
//! change would do. The truth is simulated: the rate at which the changed system breaks the target,
//! found by bisection; of more traffic the 99th percentile there.

use krarup_model::headroom::{ChangeEffect, HeadroomChange, HeadroomVerdict};

use super::judging::{Effort, p99_at, saturation, watch_asked};
use super::kinds::{Candidate, Kind};
use super::system::{ServerLaw, SystemLaw};

/// One effect that was said, beside the truth.
#[derive(Clone, Debug)]
pub(crate) struct JudgedChange {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    /// The change, in words.
    pub(crate) change: &'static str,
    /// The system as it is: whether something is said of it.
    pub(crate) said_as_it_is: bool,
    pub(crate) effect: ChangeEffect,
    /// The rate at which the target breaks then; of more traffic its 99th percentile in seconds.
    pub(crate) truth: f64,
}

impl JudgedChange {
    /// Whether something is said of the change, of a system of which something is said.
    pub(crate) fn said(&self) -> bool {
        self.said_as_it_is && self.effect.silent.is_none() && self.told().is_some()
    }

    fn told(&self) -> Option<f64> {
        self.effect.capacity_per_s.map(|one| one.mean).or(self.effect.quantile_s)
    }

    /// By which share it is off.
    pub(crate) fn error(&self) -> Option<f64> {
        self.told().map(|told| told / self.truth - 1.0)
    }

    /// Whether the truth lies in the interval; none where there is no interval.
    pub(crate) fn covers(&self) -> Option<bool> {
        self.effect.capacity_per_s.map(|one| one.low <= self.truth && self.truth <= one.high)
    }
}

/// The changes that make sense for the system, in words, as they are asked for, and as they are.
fn changes(candidate: &Candidate) -> Vec<(&'static str, HeadroomChange, SystemLaw)> {
    let law = &candidate.law;
    let with = |change: &dyn Fn(&mut SystemLaw)| {
        let mut law = law.clone();
        change(&mut law);
        law
    };
    let slow = candidate.limit.1;
    // What depends on bytes is a part of the service, and there is one server where any does.
    let slower = |law: &mut SystemLaw| {
        law.servers[slow].service *= 1.5;
        law.per_byte *= 1.5;
    };
    let mut changes = vec![
        ("traffic ×1.5", HeadroomChange::Traffic(1.5), law.clone()),
        ("server slow ×1.5", HeadroomChange::ServerSlow(slow, 1.5), with(&slower)),
        ("server +1", HeadroomChange::ServerMore, with(&one_more)),
    ];
    if law.servers.len() > 1 {
        changes.push(("server lost", HeadroomChange::ServerLost(Some(0)), with(&first_lost)));
    }
    if law.workers.is_some() {
        let more =
            |law: &mut SystemLaw| law.workers = law.workers.map(|many| (1.5 * many as f64).round() as usize);
        changes.push(("workers ×1.5", HeadroomChange::Workers(1.5), with(&more)));
    }
    if law.bytes.1 > 0.0 {
        changes.push(("values ×1.5", HeadroomChange::Values(1.5), with(&|law| law.bytes.0 *= 1.5)));
    }
    changes
}

/// As fast as the slowest, and with an equal part of what each of the others has.
fn one_more(law: &mut SystemLaw) {
    let many = law.servers.len() as f64;
    let slowest = law.servers.iter().copied().max_by(|a, b| a.service.total_cmp(&b.service));
    for server in &mut law.servers {
        server.share *= many / (many + 1.0);
    }
    law.servers.extend(slowest.map(|server| ServerLaw { share: 1.0 / (many + 1.0), ..server }));
}

fn first_lost(law: &mut SystemLaw) {
    let lost = law.servers.remove(0).share;
    for server in &mut law.servers {
        server.share /= 1.0 - lost;
    }
}

/// Kinds of which the changed system is known: nothing of them changes by itself, no other proxy
/// asks their servers, and requests are sent once.
fn is_plain(candidate: &Candidate) -> bool {
    let law = &candidate.law;
    let once = law.hedged == 0.0 && law.retried == 0.0 && law.batch.is_none();
    !law.changes()
        && law.other_proxy.is_none()
        && once
        && law.mix.is_none()
        && law.swing.is_none()
        && !matches!(candidate.kind, Kind::Clients | Kind::Cliff)
}

/// The rate at which 99 % of requests are answered within the target, at most saturation; none
/// where they are at no rate.
fn breaks_at(candidate: &Candidate, law: &SystemLaw, target: f64, effort: Effort) -> Option<f64> {
    let full = saturation(law, effort, candidate.seed ^ 7);
    let holds = |share: f64| p99_at(candidate, law, share * full, effort) <= target;
    let (mut low, mut high) = (0.1, 1.0);
    if !holds(low) {
        return None;
    }
    for _ in 0..7 {
        let middle = f64::midpoint(low, high);
        *(if holds(middle) { &mut low } else { &mut high }) = middle;
    }
    Some(f64::midpoint(low, high) * full)
}

/// Watches the system up to half of saturation and asks for all its changes. Values keep their
/// sizes, and the rate of a link is configured: else it is a part of its server.
pub(crate) fn watch_changes(candidate: &Candidate, effort: Effort) -> Vec<JudgedChange> {
    let mut candidate = Candidate { configured: candidate.kind == Kind::Link, ..candidate.clone() };
    candidate.law.growth = 0.0;
    let candidate = &candidate;
    if !is_plain(candidate) {
        return Vec::new();
    }
    let changes = changes(candidate);
    let asked: Vec<HeadroomChange> = changes.iter().map(|(_, change, _)| change.clone()).collect();
    let judged = watch_asked(candidate, STAGES_SEEN, effort, &asked);
    let Some(last) = judged.last() else { return Vec::new() };
    let effects = last.answer.what_if.iter();
    let beside = effects.zip(&changes).filter_map(|(effect, (words, change, law))| {
        let truth = match change {
            HeadroomChange::Traffic(times) => {
                let rate = times * last.answer.traffic.now_per_s;
                // What is full has no percentile.
                (rate < 0.9 * last.truth.saturation).then(|| p99_at(candidate, law, rate, effort))
            }
            _ => breaks_at(candidate, law, last.truth.target, effort),
        };
        Some(JudgedChange {
            kind: candidate.kind,
            seed: candidate.seed,
            change: words,
            said_as_it_is: last.answer.verdict != HeadroomVerdict::Silent,
            effect: effect.clone(),
            truth: truth?,
        })
    });
    beside.collect()
}

/// Traffic up to 30 and up to 50 % of saturation.
const STAGES_SEEN: usize = 2;

#[cfg(test)]
mod tests {
    use krarup_record::live::KEPT_VISITS;

    use super::*;
    use crate::headroom::judging::SHAPING_SEED;
    use crate::headroom::kinds::candidate;

    const QUICK: Effort =
        Effort { saturation: 40_000, target: 60_000, seconds: 8, kept: KEPT_VISITS, minutes: 1, loops: 1 };

    /// A server more, lost or slow, more workers, more traffic and larger values, each where it
    /// counts.
    #[test]
    fn what_changes_would_do_is_what_changed_systems_do() {
        let mut said = Vec::new();
        for kind in [Kind::Det, Kind::Hot, Kind::Slow, Kind::Workers, Kind::Grow] {
            for one in watch_changes(&candidate(kind, SHAPING_SEED), QUICK) {
                if !one.said() {
                    continue;
                }
                let error = one.error().expect("something is said");
                let case = format!("{} {}, {}: {:?}", one.kind.name(), one.seed, one.change, one.effect);
                assert!(one.covers() != Some(false), "{case} beside {}", one.truth);
                assert!(error.abs() < 0.25, "{case} beside {}", one.truth);
                said.push(one.change);
            }
        }
        said.sort_unstable();
        said.dedup();
        assert_eq!(said.len(), 6, "{said:?}");
    }
}
