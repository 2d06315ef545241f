//! What a change would do: the fitted system with one thing changed, replayed.

use super::answer::{
    CapacityEstimate, ChangeEffect, CopyChange, HeadroomChange, HeadroomQuestion, LiveServer, ResourceKind,
    ServerQueue,
};
use super::fitted::{First, Fitted};
use super::replay::{ReplayServer, TrafficReplay};

/// By how much the interval of a changed system is wider than that of the system as it is, in
/// logarithms.
const WIDER: f64 = 0.1;

/// The effects of all changes asked for.
pub(super) fn effects(
    fitted: &Fitted<'_>,
    question: &HeadroomQuestion,
    first: &First,
    base: &CapacityEstimate,
) -> Vec<ChangeEffect> {
    question.changes.iter().map(|change| effect(fitted, question, first, base, change)).collect()
}

fn effect(
    fitted: &Fitted<'_>,
    question: &HeadroomQuestion,
    first: &First,
    base: &CapacityEstimate,
    change: &HeadroomChange,
) -> ChangeEffect {
    let mut replay = fitted.replay_for(first);
    let words = fitted.words(change);
    if let HeadroomChange::Traffic(times) = change {
        return at_other_rate(fitted, question, &replay, words, *times);
    }
    let full_at = match changed(fitted, &mut replay, change) {
        Ok(full_at) => full_at,
        Err(why) => return ChangeEffect { silent: Some(why.into()), ..nothing(words) },
    };
    // What was full first of what did not change still is.
    let loops = fitted.loops.map_or(f64::INFINITY, |fit| fit.middle);
    let machine = fitted.machine().map(|(resource, fit)| match (resource, change) {
        // Its own link carries the values that grow.
        (ResourceKind::Link, HeadroomChange::Values(times)) => fit.middle / times.max(1.0),
        _ => fit.middle,
    });
    let others = match first.resource {
        ResourceKind::Loop => first.full_at,
        _ => machine.fold(loops, f64::min),
    };
    let full_at = fitted.with_workers(&replay, full_at).min(others);
    if !full_at.is_finite() {
        return ChangeEffect { silent: Some("no_queue_seen".into()), ..nothing(words) };
    }
    let capacity = match question.target {
        Some(target) => fitted.breaks_at(&replay, target, full_at),
        None => full_at,
    };
    let estimate = CapacityEstimate {
        low: capacity * base.low / base.mean * (-WIDER).exp(),
        mean: capacity,
        high: capacity * base.high / base.mean * WIDER.exp(),
    };
    let now = fitted.traffic.now();
    ChangeEffect {
        capacity_per_s: Some(estimate),
        quantile_s: question.target.map(|target| fitted.quantile_at(&replay, target.quantile, now)),
        holds: Some(now <= capacity),
        ..nothing(words)
    }
}

fn nothing(change: String) -> ChangeEffect {
    ChangeEffect { change, capacity_per_s: None, quantile_s: None, holds: None, silent: None }
}

fn at_other_rate(
    fitted: &Fitted<'_>,
    question: &HeadroomQuestion,
    replay: &TrafficReplay<'_>,
    words: String,
    times: f64,
) -> ChangeEffect {
    let rate = fitted.traffic.now() * times;
    let Some(target) = question.target else {
        return ChangeEffect { silent: Some("no_target".into()), ..nothing(words) };
    };
    let seconds = fitted.quantile_at(replay, target.quantile, rate);
    ChangeEffect { quantile_s: Some(seconds), holds: Some(seconds <= target.seconds), ..nothing(words) }
}

/// The rate of all traffic at which the first server is full, if parts were shared out like this
/// and each server's service took so many times as long.
fn full_at(fitted: &Fitted<'_>, shares: &[f64], times: &[f64]) -> f64 {
    let limits = fitted.limits.iter().enumerate();
    let full = limits.filter_map(|(server, limit)| {
        let share = shares[server] / fitted.servers[server].share;
        Some((*limit)?.full_at / times[server] / share)
    });
    full.fold(f64::INFINITY, f64::min)
}

/// Changes the replay; the rate of all traffic at which the first server is full then, or why
/// nothing can be said.
fn changed<'a>(
    fitted: &'a Fitted<'_>,
    replay: &mut TrafficReplay<'a>,
    change: &HeadroomChange,
) -> Result<f64, &'static str> {
    let is_store = |server: &LiveServer| server.queue != ServerQueue::EachConnection;
    let moves_parts = change.moves_servers() || matches!(change, HeadroomChange::Replicas(_));
    if moves_parts && fitted.system.servers.iter().any(is_store) {
        return Err("one_database");
    }
    let shares: Vec<f64> = fitted.servers.iter().map(|server| server.share).collect();
    let mut times = vec![1.0; shares.len()];
    match change {
        HeadroomChange::Traffic(_) => {}
        HeadroomChange::Workers(factor) => {
            let workers = replay.workers.ok_or("workers_unlimited")?;
            replay.workers = Some(((workers as f64 * factor).round() as usize).max(1));
        }
        HeadroomChange::ServerSlow(slow, factor) => {
            fitted.limits.get(*slow).ok_or("no_such_server")?.ok_or("no_queue_seen")?;
            times[*slow] = *factor;
        }
        HeadroomChange::Values(factor) => {
            for (server, fit) in fitted.servers.iter().enumerate() {
                let Some(fit) = fit.fit.as_ref().filter(|_| fitted.limits[server].is_some()) else {
                    continue;
                };
                let bytes = fit.bytes.filter(|bytes| bytes.z.abs() > 4.0).ok_or("sizes_do_not_vary")?;
                times[server] = (1.0 + bytes.slope * bytes.at * (factor - 1.0)).max(0.1);
            }
        }
        HeadroomChange::Replicas(change) => {
            times.fill(copies(fitted, *change)?);
            replay.copies = Some(*change);
            return Ok(full_at(fitted, &shares, &times));
        }
        HeadroomChange::ServerMore => return one_more(fitted, replay, &shares),
        HeadroomChange::ServerLost(which) => return one_lost(fitted, replay, &shares, *which),
    }
    for (server, factor) in replay.servers.iter_mut().zip(&times) {
        server.scale *= factor;
    }
    Ok(full_at(fitted, &shares, &times))
}

/// How many times as much each server has to do with one copy more or fewer: of the parts that it
/// has, the writes' are as many more as there are copies. Which servers would hold them is not
/// looked at, nor that reads have one more to choose from.
fn copies(fitted: &Fitted<'_>, change: CopyChange) -> Result<f64, &'static str> {
    let (mut reads, mut writes, mut requests) = (0.0, 0.0, 0.0);
    for request in fitted.kept.requests.iter().filter(|one| !one.late) {
        let parts = &fitted.kept.parts[request.parts.clone()];
        match parts.first() {
            Some(first) if first.is_write => {
                (writes, requests) = (writes + parts.len() as f64, requests + 1.0);
            }
            _ => reads += parts.len() as f64,
        }
    }
    if requests < 30.0 {
        return Err("no_writes");
    }
    let now = writes / requests;
    let then = match change {
        CopyChange::More if now + 0.5 > fitted.servers.len() as f64 => return Err("no_server_for_a_copy"),
        CopyChange::More => now + 1.0,
        CopyChange::Fewer if now < 1.5 => return Err("only_one_copy"),
        CopyChange::Fewer => now - 1.0,
    };
    Ok((reads + writes * then / now) / (reads + writes))
}

/// A server as fast as the slowest takes its part of each of the others: by their placement, or an
/// equal one.
fn one_more<'a>(
    fitted: &'a Fitted<'_>,
    replay: &mut TrafficReplay<'a>,
    shares: &[f64],
) -> Result<f64, &'static str> {
    let servers = shares.len();
    let slowest = slowest(fitted).ok_or("no_queue_seen")?;
    let limit = fitted.limits[slowest].ok_or("no_queue_seen")?;
    let keeps = servers as f64 / (servers + 1) as f64;
    // In which order its connections will be used is not known.
    replay.servers.push(ReplayServer { lane_order: &[], ..replay.servers[slowest].clone() });
    let route = |server: usize| {
        let mut route = vec![0.0; servers + 1];
        (route[server], route[servers]) = (keeps, 1.0 - keeps);
        route
    };
    let known = fitted.system.moves.as_ref().map(|moves| &moves.more);
    let known = known.filter(|more| more.len() == servers);
    replay.routes = known.cloned().unwrap_or_else(|| (0..servers).map(route).collect());
    let gets =
        |to: usize| -> f64 { replay.routes.iter().zip(shares).map(|(route, share)| route[to] * share).sum() };
    let new = limit.full_at * shares[slowest] / gets(servers).max(1e-12);
    let rest: Vec<f64> = (0..servers).map(gets).collect();
    Ok(full_at(fitted, &rest, &vec![1.0; servers]).min(new))
}

/// A server is lost, the worst one unless it is named, and its part goes where their placement has
/// it go, or is divided among the others as theirs are.
fn one_lost(
    fitted: &Fitted<'_>,
    replay: &mut TrafficReplay<'_>,
    shares: &[f64],
    which: Option<usize>,
) -> Result<f64, &'static str> {
    let servers = shares.len();
    if servers < 2 {
        return Err("only_one_server");
    }
    let known = fitted.system.moves.as_ref().map(|moves| &moves.lost);
    let known = known.filter(|lost| lost.len() == servers);
    // What each gets of the server that is lost.
    let heirs = |lost: usize| -> Vec<f64> {
        if let Some(known) = known {
            return known[lost].clone();
        }
        let rest = (shares.iter().sum::<f64>() - shares[lost]).max(1e-12);
        (0..servers).map(|server| if server == lost { 0.0 } else { shares[server] / rest }).collect()
    };
    let after = |lost: usize| -> Vec<f64> {
        let grown = |(server, gets): (usize, f64)| shares[server] + shares[lost] * gets;
        let mut after: Vec<f64> = heirs(lost).into_iter().enumerate().map(grown).collect();
        after[lost] = 0.0;
        after
    };
    let rate = |lost: usize| full_at(fitted, &after(lost), &vec![1.0; servers]);
    let worst = (0..servers).min_by(|a, b| rate(*a).total_cmp(&rate(*b)));
    let lost = which.or(worst).filter(|lost| *lost < servers).ok_or("no_such_server")?;
    let route = |server: usize| -> Vec<f64> {
        if server == lost {
            return heirs(lost);
        }
        (0..servers).map(|other| f64::from(u8::from(other == server))).collect()
    };
    replay.routes = (0..servers).map(route).collect();
    Ok(rate(lost))
}

fn slowest(fitted: &Fitted<'_>) -> Option<usize> {
    let limits =
        fitted.limits.iter().enumerate().filter_map(|(server, limit)| Some((server, (*limit)?.service)));
    limits.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(server, _)| server)
}
