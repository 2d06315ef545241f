//! What a change would do: the fitted system with one thing changed, replayed.

use std::collections::BTreeSet;

use super::answer::{
    Allowance, CapacityEstimate, ChangeEffect, CopyChange, HeadroomChange, HeadroomQuestion, LiveServer,
    LiveSystem, PartMoves, ResourceKind, Silence,
};
use super::fitted::{COULD_MATTER, First, Fitted};
use super::kept::{Kept, KeptPart};
use super::replay::{PartRoutes, ReplayServer, TrafficReplay};
use super::resources::ServerLimit;

/// By how much the interval of a changed system is wider than that of the system as it is, in
/// logarithms.
const WIDER: f64 = 0.1;

/// A server that is told to be full at less than so many times the rate of its link: what was taken
/// for its service time is the link's.
const LINK_HIDES: f64 = 1.25;

/// Where a greater share of the requests fails, too few are left to tell anything of.
const MOST_FAILING: f64 = 0.99;

/// A system whose changes are asked for.
pub(super) struct ChangedFrom<'a> {
    pub(super) fitted: &'a Fitted<'a>,
    pub(super) first: &'a First,
    /// Its capacity by the model: without what is used up, was proven, or missed the target.
    pub(super) modelled: CapacityEstimate,
    /// Its capacity with all that is known.
    pub(super) capacity: CapacityEstimate,
    /// The rate at which the target, or a looser one, was missed; infinite where none was.
    pub(super) missed: f64,
    /// What is used of what there is, whatever the rate that the resources can do.
    pub(super) allowances: &'a [Allowance],
}

/// What a change leaves.
struct AfterChange {
    /// The rate of all traffic at which the first server is full.
    full_at: f64,
    /// What each server that was there gets, over what it got before; zero of one that is lost.
    gets: Vec<f64>,
    /// The share of the requests that fail.
    fails: f64,
}

/// The effects of all changes asked for.
pub(super) fn effects(from: &ChangedFrom<'_>, question: &HeadroomQuestion) -> Vec<ChangeEffect> {
    question.changes.iter().map(|change| effect(from, question, change)).collect()
}

/// For the same reason nothing is said of any change.
pub(super) fn withheld(
    system: &LiveSystem,
    changes: &[HeadroomChange],
    why: &'static str,
) -> Vec<ChangeEffect> {
    let silent =
        |change: &HeadroomChange| ChangeEffect { silent: Some(why.into()), ..nothing(words(system, change)) };
    changes.iter().map(silent).collect()
}

/// A change in words, servers by name.
fn words(system: &LiveSystem, change: &HeadroomChange) -> String {
    let name = |server: usize| system.servers.get(server).map_or("?", |one| one.name.as_str());
    match change {
        HeadroomChange::Traffic(times) => format!("traffic x{times}"),
        HeadroomChange::Workers(times) => format!("workers x{times}"),
        HeadroomChange::ServerMore => "server +1".to_owned(),
        HeadroomChange::ServerLost(None) => "server lost (worst)".to_owned(),
        HeadroomChange::ServerLost(Some(server)) => format!("server {} lost", name(*server)),
        HeadroomChange::ServerSlow(server, times) => format!("server {} x{times} slower", name(*server)),
        HeadroomChange::Values(times) => format!("values x{times}"),
        HeadroomChange::Replicas(change) => change.words().to_owned(),
    }
}

fn effect(from: &ChangedFrom<'_>, question: &HeadroomQuestion, change: &HeadroomChange) -> ChangeEffect {
    let ChangedFrom { fitted, modelled, .. } = *from;
    let copied_behind = match change {
        HeadroomChange::Replicas(copies) => copied_behind(fitted, *copies),
        _ => None,
    };
    let mut replay = fitted.replay_for(from.first);
    let words = words(fitted.system, change);
    if let HeadroomChange::Traffic(times) = change {
        return at_other_rate(from, question, &replay, words, *times);
    }
    let after = match changed(fitted, &mut replay, change) {
        Ok(after) => after,
        Err(why) => return ChangeEffect { silent: Some(why.into()), ..nothing(words) },
    };
    let fails = Some(after.fails).filter(|share| *share > 0.0);
    if after.fails > MOST_FAILING {
        return ChangeEffect { fails, holds: Some(false), ..nothing(words) };
    }
    if let Some(kept) = &copied_behind {
        (replay.kept, replay.copies) = (kept, None);
    }
    // What was full first of what did not change still is.
    let loops = fitted.loops.map_or(f64::INFINITY, |fit| fit.middle);
    let machine = fitted.machine().map(|(resource, fit)| match (resource, change) {
        // Its own link carries the values that grow.
        (ResourceKind::Link, HeadroomChange::Values(times)) => fit.middle / times.max(1.0),
        _ => fit.middle,
    });
    let full_at = fitted.with_workers(&replay, after.full_at).min(machine.fold(loops, f64::min));
    if !full_at.is_finite() {
        return ChangeEffect { silent: Some("no_queue_seen".into()), ..nothing(words) };
    }
    let breaks_at = |target| fitted.breaks_at(&replay, target, full_at);
    let Some(capacity) = question.target.map_or(Some(full_at), breaks_at) else {
        let why = Silence::TargetBelowIdle.name();
        return ChangeEffect { silent: Some(why.into()), ..nothing(words) };
    };
    // By as much as the model is above what missed the target.
    let capacity = capacity * (from.missed / modelled.mean).min(1.0);
    let estimate = CapacityEstimate {
        low: capacity * modelled.low / modelled.mean * (-WIDER).exp(),
        mean: capacity,
        high: capacity * modelled.high / modelled.mean * WIDER.exp(),
    };
    let estimate = from.used_up(&after.gets).map_or(estimate, |full| estimate.at_most(&full));
    let now = fitted.traffic.now();
    let too_many_fail = question.target.is_some_and(|target| after.fails > 1.0 - target.quantile);
    ChangeEffect {
        capacity_per_s: Some(estimate),
        quantile_s: question.target.and_then(|target| fitted.quantile_at(&replay, target.quantile, now)),
        fails,
        holds: if too_many_fail { Some(false) } else { holds_at(now, &estimate) },
        ..nothing(words)
    }
}

/// Whether a rate is below the limit: so it is up to the low end, and not beyond the high one.
fn holds_at(rate: f64, limit: &CapacityEstimate) -> Option<bool> {
    if rate <= limit.low { Some(true) } else { (rate > limit.high).then_some(false) }
}

impl ChangedFrom<'_> {
    /// The rate of all traffic at which the first allowance is used up, where each server gets so
    /// many times what it got; none where none is seen to be used up. What a server uses grows with
    /// the requests that it gets.
    fn used_up(&self, gets: &[f64]) -> Option<CapacityEstimate> {
        let server = |name: &String| self.fitted.system.servers.iter().position(|one| one.name == *name);
        let full = |one: &Allowance| {
            let gets = match &one.server {
                Some(name) => gets.get(server(name)?).copied()?,
                None => 1.0,
            };
            one.full_at().filter(|_| gets > 0.0).map(|full| full.map(|rate| rate / gets))
        };
        self.allowances.iter().filter_map(full).min_by(|a, b| a.mean.total_cmp(&b.mean))
    }
}

fn nothing(change: String) -> ChangeEffect {
    ChangeEffect { change, capacity_per_s: None, quantile_s: None, fails: None, holds: None, silent: None }
}

fn at_other_rate(
    from: &ChangedFrom<'_>,
    question: &HeadroomQuestion,
    replay: &TrafficReplay<'_>,
    words: String,
    times: f64,
) -> ChangeEffect {
    let fitted = from.fitted;
    let rate = fitted.traffic.now() * times;
    let Some(target) = question.target else {
        return ChangeEffect { silent: Some("no_target".into()), ..nothing(words) };
    };
    // What is refused has no response time.
    let used_up = from.used_up(&vec![1.0; fitted.servers.len()]).is_some_and(|full| full.mean < rate);
    if used_up || from.missed < rate {
        return ChangeEffect { holds: Some(false), ..nothing(words) };
    }
    let Some(seconds) = fitted.quantile_at(replay, target.quantile, rate) else {
        return ChangeEffect { silent: Some("no_traffic".into()), ..nothing(words) };
    };
    let holds = holds_at(rate, &from.capacity).filter(|holds| *holds == (seconds <= target.seconds));
    ChangeEffect { quantile_s: Some(seconds), holds, ..nothing(words) }
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

/// How many times as long a request takes of the server or its link, whichever is full first, if it
/// takes so many times as long of the server, and has so many times the bytes.
fn slower(limit: &ServerLimit, times: f64, bytes: f64) -> f64 {
    let link = limit.link_full_at.map_or(f64::INFINITY, |full_at| full_at / bytes);
    limit.full_at / (limit.alone_full_at / times).min(link)
}

/// What its answers wait for, so that the server's own service time is not known: its link, or the
/// event loop that is full at this rate, before the server.
fn hides(limit: &ServerLimit, loop_full_at: Option<f64>) -> Option<&'static str> {
    if limit.link_full_at.is_some_and(|link| limit.alone_full_at < LINK_HIDES * link) {
        return Some("link_hides_server");
    }
    loop_full_at.filter(|&full| full < limit.full_at).map(|_| "loop_hides_server")
}

/// Changes the replay; what is left then, or why nothing can be said.
fn changed<'a>(
    fitted: &'a Fitted<'_>,
    replay: &mut TrafficReplay<'a>,
    change: &HeadroomChange,
) -> Result<AfterChange, &'static str> {
    let is_store = |server: &LiveServer| server.queue.is_common();
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
            let limit = fitted.limits.get(*slow).ok_or("no_such_server")?.ok_or("no_queue_seen")?;
            if let Some(before) = hides(&limit, fitted.loops.map(|fit| fit.middle)) {
                return Err(before);
            }
            times[*slow] = slower(&limit, *factor, 1.0);
        }
        HeadroomChange::Values(factor) => {
            // A trip carries many values.
            if fitted.servers.iter().any(|one| one.gathered.is_some()) {
                return Err("sizes_do_not_vary");
            }
            for (server, fit) in fitted.servers.iter().enumerate() {
                let (Some(fit), Some(limit)) = (&fit.fit, &fitted.limits[server]) else { continue };
                let bytes = fit.bytes.filter(|bytes| bytes.z.abs() > 4.0).ok_or("sizes_do_not_vary")?;
                let service = (1.0 + bytes.slope * bytes.at * (factor - 1.0)).max(0.1);
                times[server] = slower(limit, service, *factor);
            }
        }
        HeadroomChange::Replicas(change) => {
            times.fill(copies(fitted, *change)?);
            replay.copies = Some(*change);
            return Ok(AfterChange { full_at: full_at(fitted, &shares, &times), gets: times, fails: 0.0 });
        }
        HeadroomChange::ServerMore => return one_more(fitted, replay, &shares),
        HeadroomChange::ServerLost(which) => return one_lost(fitted, replay, &shares, *which),
    }
    for (server, factor) in replay.servers.iter_mut().zip(&times) {
        server.scale *= factor;
    }
    let full_at = full_at(fitted, &shares, &times);
    Ok(AfterChange { full_at, gets: vec![1.0; shares.len()], fails: 0.0 })
}

/// What servers get, over what they got; 1 of one that got nothing: what it would use is not known.
fn over(after: &[f64], before: &[f64]) -> Vec<f64> {
    let times = |(&after, &before): (&f64, &f64)| if before > 0.0 { after / before } else { 1.0 };
    after.iter().zip(before).map(times).collect()
}

/// Reads that a second server is asked for, too, as a share of all reads: what `hedge_budget` is
/// where nothing else is said.
const HEDGED: f64 = 0.05;

/// What was kept of what is copied to several servers.
struct CopiesSeen {
    /// Parts of reads.
    reads: f64,
    /// Parts of writes for which clients waited.
    awaited: f64,
    /// Parts for which no client waited: copies, where there is more than hedged reads make.
    behind: f64,
    /// Writes.
    writes: f64,
}

impl CopiesSeen {
    /// Of a part that no client waited for it is not known what it is. Nothing is told where hedged
    /// reads and what goes to servers that clients do not ask, such as a shadow's, may be taken for
    /// a copy of each write.
    fn of(kept: &Kept) -> Result<Self, &'static str> {
        let [mut reads, mut awaited, mut writes] = [0.0_f64; 3];
        let mut asked = BTreeSet::new();
        for request in kept.of_clients() {
            let parts = &kept.parts[request.parts.clone()];
            asked.extend(parts.iter().map(|part| part.server));
            match parts.first() {
                Some(first) if first.is_write => {
                    (awaited, writes) = (awaited + parts.len() as f64, writes + 1.0);
                }
                _ => reads += parts.len() as f64,
            }
        }
        if writes < 30.0 {
            return Err("no_writes");
        }
        let late = || kept.parts.iter().filter(|part| part.is_late);
        let behind = late().count() as f64;
        let of_pool = late().filter(|part| asked.contains(&part.server)).count() as f64;
        let each = |behind: f64| ((awaited + behind) / writes).round() as usize;
        if each(behind) != each((of_pool - HEDGED * reads).max(0.0)) {
            return Err("copies_unseen");
        }
        Ok(Self { reads, awaited, behind, writes })
    }

    /// Copies of a write.
    fn each(&self) -> f64 {
        (self.awaited + self.behind) / self.writes
    }

    /// Those of them for which no client waits.
    fn behind_each(&self) -> f64 {
        self.behind / self.writes
    }
}

/// Whether what no client waits for is a copy of a write, and not a second read. Where that does
/// not show, and one goes elsewhere than the other, nothing is told.
fn late_are_writes(copies: &Result<CopiesSeen, &'static str>, matters: bool) -> Result<bool, &'static str> {
    match copies {
        Ok(seen) => Ok(seen.behind_each() >= 0.5),
        Err(why) if matters && *why == "copies_unseen" => Err(*why),
        Err(_) => Ok(false),
    }
}

/// Parts that each server gets of a request.
struct PartShares {
    /// Of reads.
    reads: Vec<f64>,
    /// Of writes.
    writes: Vec<f64>,
}

impl PartShares {
    /// Those of which these are the sums, as the routes tell writes from reads.
    fn of(fitted: &Fitted<'_>, sums: &[f64], routes: &PartRoutes) -> Self {
        let requests = fitted.kept.of_clients().count().max(1) as f64;
        let mut writes = vec![0.0; sums.len()];
        for part in fitted.kept.parts.iter().filter(|part| routes.is_write(part)) {
            writes[part.server] += 1.0 / requests;
        }
        let reads = sums.iter().zip(&writes).map(|(all, writes)| (all - writes).max(0.0)).collect();
        Self { reads, writes }
    }

    /// What a server gets by these routes.
    fn at(&self, routes: &PartRoutes, server: usize) -> f64 {
        let moved = |routes: &[Vec<f64>], shares: &[f64]| -> f64 {
            routes.iter().zip(shares).map(|(route, share)| route[server] * share).sum()
        };
        moved(&routes.reads, &self.reads) + moved(&routes.writes, &self.writes)
    }
}

/// How many times as much each server has to do with one copy more or fewer: of the parts that it
/// has, the writes' are as many more as there are copies. Which servers would hold them is not
/// looked at, nor that reads have one more to choose from.
fn copies(fitted: &Fitted<'_>, change: CopyChange) -> Result<f64, &'static str> {
    let seen = CopiesSeen::of(&fitted.kept)?;
    let written = seen.awaited + seen.behind;
    let now = seen.each();
    let then = match change {
        CopyChange::More if now + 0.5 > used(fitted).len() as f64 => return Err("no_server_for_a_copy"),
        CopyChange::More => now + 1.0,
        CopyChange::Fewer if now < 1.5 => return Err("only_one_copy"),
        CopyChange::Fewer => now - 1.0,
    };
    Ok((seen.reads + written * then / now) / (seen.reads + written))
}

/// What was kept, with one copy of each write more or fewer among those that no client waits for;
/// none where clients wait for all.
fn copied_behind(fitted: &Fitted<'_>, change: CopyChange) -> Option<Kept> {
    let each = CopiesSeen::of(&fitted.kept).ok()?.behind_each();
    if each < 0.5 {
        return None;
    }
    let (mut kept, used) = (fitted.kept.clone(), used(fitted));
    let mut due = 0.0;
    for request in kept.requests.iter_mut().filter(|one| one.late && !one.parts.is_empty()) {
        // Of several copies of a write one.
        due += 1.0 / each;
        if due < 1.0 {
            continue;
        }
        due -= 1.0;
        request.parts = match change {
            CopyChange::Fewer => 0..0,
            CopyChange::More => {
                let part = kept.parts[request.parts.start];
                let next = used.iter().position(|&server| server == part.server).map_or(0, |place| place + 1);
                let first = kept.parts.len();
                kept.parts.extend([part, KeptPart { server: used[next % used.len()], ..part }]);
                first..first + 2
            }
        };
    }
    Some(kept)
}

/// The servers that get something. One that gets nothing, as after a change of the configuration,
/// is not lost, takes no copy, and has no part to give.
fn used(fitted: &Fitted<'_>) -> Vec<usize> {
    (0..fitted.servers.len()).filter(|&server| fitted.servers[server].share > 0.0).collect()
}

/// A server as fast as the slowest takes its part of each of the others: by their placement, or an
/// equal one, and a copy of each write that all of them have.
fn one_more<'a>(
    fitted: &'a Fitted<'_>,
    replay: &mut TrafficReplay<'a>,
    shares: &[f64],
) -> Result<AfterChange, &'static str> {
    let servers = shares.len();
    let slowest = slowest(fitted).ok_or("no_queue_seen")?;
    let limit = fitted.limits[slowest].ok_or("no_queue_seen")?;
    let (givers, copies) = (used(fitted), CopiesSeen::of(&fitted.kept));
    let keeps = givers.len() as f64 / (givers.len() as f64 + 1.0);
    // In which order its connections will be used is not known.
    replay.servers.push(ReplayServer { lane_order: &[], ..replay.servers[slowest].clone() });
    let route = |server: usize, here: f64, new: f64| {
        let mut route = vec![0.0; servers + 1];
        (route[server], route[servers]) = (here, new);
        route
    };
    let shared = |server: usize| route(server, keeps, 1.0 - keeps);
    let copied = |server: usize| route(server, 1.0, f64::from(u8::from(givers.last() == Some(&server))));
    let known = fitted.system.moves.as_ref().filter(|moves| moves.reads.more.len() == servers);
    let each = copies.as_ref().map_or(1.0, CopiesSeen::each);
    let (reads, writes): (Vec<_>, Vec<_>) = match known {
        Some(moves) => (moves.reads.more.clone(), moves.writes.more.clone()),
        None if givers.len() > 1 && each + 0.5 > givers.len() as f64 => {
            ((0..servers).map(shared).collect(), (0..servers).map(copied).collect())
        }
        None => ((0..servers).map(shared).collect(), (0..servers).map(shared).collect()),
    };
    let late_are_writes = late_are_writes(&copies, reads != writes)?;
    replay.routes = PartRoutes { reads, writes, late_are_writes, ..PartRoutes::default() };
    let parts = PartShares::of(fitted, shares, &replay.routes);
    let gets = |server: usize| parts.at(&replay.routes, server);
    let new = limit.full_at * shares[slowest] / gets(servers).max(1e-12);
    let rest: Vec<f64> = (0..servers).map(gets).collect();
    let full_at = full_at(fitted, &rest, &vec![1.0; servers]).min(new);
    Ok(AfterChange { full_at, gets: over(&rest, shares), fails: 0.0 })
}

/// For each server the share of the requests that fail when it is lost.
fn failing(fitted: &Fitted<'_>, moves: &PartMoves) -> Vec<f64> {
    let (kept, mut fails) = (&fitted.kept, vec![0.0_f64; fitted.servers.len()]);
    for part in kept.of_clients().flat_map(|request| &kept.parts[request.parts.clone()]) {
        let of_kind = if part.is_write { &moves.writes } else { &moves.reads };
        fails[part.server] += of_kind.fails[part.server];
    }
    let requests = kept.of_clients().count().max(1) as f64;
    fails.iter().map(|count| (count / requests).min(1.0)).collect()
}

/// A server is lost, the worst one unless it is named, and its part goes where their placement has
/// it go, or is divided among the others as theirs are; not that of writes that others have, too.
/// The worst is one with a part that goes to a server of which too little is known, and of that
/// nothing is told; else the one without which most requests fail.
fn one_lost(
    fitted: &Fitted<'_>,
    replay: &mut TrafficReplay<'_>,
    shares: &[f64],
    which: Option<usize>,
) -> Result<AfterChange, &'static str> {
    let servers = shares.len();
    let used = used(fitted);
    if used.len() < 2 {
        return Err("only_one_server");
    }
    let known = fitted.system.moves.as_ref().filter(|moves| moves.reads.lost.len() == servers);
    let copies = CopiesSeen::of(&fitted.kept);
    let copied = copies.as_ref().is_ok_and(|seen| seen.each() >= 1.5);
    let matters = known.is_some_and(|moves| moves.reads.lost != moves.writes.lost);
    let late_are_writes = late_are_writes(&copies, matters)?;
    let mut routes = PartRoutes { late_are_writes, ..PartRoutes::default() };
    let parts = PartShares::of(fitted, shares, &routes);
    let fails = known.map_or_else(|| vec![0.0; servers], |moves| failing(fitted, moves));
    // What each gets of the server that is lost, of reads and of writes.
    let heirs = |lost: usize| -> [Vec<f64>; 2] {
        if let Some(moves) = known {
            return [&moves.reads, &moves.writes].map(|moves| moves.lost[lost].clone());
        }
        let rest = (shares.iter().sum::<f64>() - shares[lost]).max(1e-12);
        let share = |server: usize| if server == lost { 0.0 } else { shares[server] / rest };
        let shared: Vec<f64> = (0..servers).map(share).collect();
        [shared.clone(), if copied { vec![0.0; servers] } else { shared }]
    };
    let after = |lost: usize| -> Vec<f64> {
        let [reads, writes] = heirs(lost);
        let moved = |server: usize| parts.reads[lost] * reads[server] + parts.writes[lost] * writes[server];
        let mut after: Vec<f64> = (0..servers).map(|server| shares[server] + moved(server)).collect();
        after[lost] = 0.0;
        after
    };
    let rate = |lost: usize| full_at(fitted, &after(lost), &vec![1.0; servers]);
    // Whether an heir of which no service time is known could be full before the others.
    let is_unknown = |lost: usize| {
        let (after, full_at) = (after(lost), rate(lost));
        let could_matter = |server: usize| {
            let not_before = fitted.not_before(server).map(|rate| rate * shares[server] / after[server]);
            not_before.is_none_or(|rate| rate < COULD_MATTER * full_at)
        };
        let unknown = |server: &usize| fitted.limits[*server].is_none() && after[*server] > shares[*server];
        (0..servers).filter(unknown).any(could_matter)
    };
    let worst = || {
        let unknown = used.iter().copied().find(|&server| is_unknown(server));
        let worse =
            |a: &usize, b: &usize| fails[*b].total_cmp(&fails[*a]).then(rate(*a).total_cmp(&rate(*b)));
        unknown.or_else(|| used.iter().copied().min_by(worse))
    };
    let lost = which.or_else(worst).filter(|lost| *lost < servers).ok_or("no_such_server")?;
    if is_unknown(lost) {
        return Err("no_queue_seen");
    }
    let stays = |server: usize| -> Vec<f64> {
        (0..servers).map(|other| f64::from(u8::from(other == server))).collect()
    };
    let [reads, writes] = heirs(lost).map(|heirs| {
        let mut all: Vec<Vec<f64>> = (0..servers).map(stays).collect();
        all[lost] = heirs;
        all
    });
    let nowhere = 1.0 - writes[lost].iter().sum::<f64>();
    routes.writes_fail = known.map_or(0.0, |moves| moves.writes.fails[lost] / nowhere.max(1e-12)).min(1.0);
    (routes.reads, routes.writes) = (reads, writes);
    replay.routes = routes;
    Ok(AfterChange { full_at: rate(lost), gets: over(&after(lost), shares), fails: fails[lost] })
}

fn slowest(fitted: &Fitted<'_>) -> Option<usize> {
    let limits =
        fitted.limits.iter().enumerate().filter_map(|(server, limit)| Some((server, (*limit)?.service)));
    limits.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(server, _)| server)
}

#[cfg(test)]
mod tests {
    use krarup_record::{LiveBooks, Operation, ServerVisit, Visit};
    use krarup_units::Stamp;

    use super::super::kept::kept;
    use super::*;

    /// Nine reads for each write, one request each millisecond, and a part that no client waits for
    /// beside some of them.
    fn copies_of_writes(is_beside: fn(u64) -> bool) -> Result<f64, &'static str> {
        const EACH: u64 = 1_000_000;
        let mut books = LiveBooks::default();
        for number in 0..20_000_u64 {
            let at = Stamp((1_000 + number) * EACH);
            let operation = if number.is_multiple_of(10) { Operation::Set } else { Operation::Get };
            let mut visit = Visit::at(at, operation);
            visit.replied = Stamp(at.0 + EACH / 10);
            let server = (number / 10 % 2) as u16;
            books.finish(&visit, &[ServerVisit::ok(server, at, visit.replied)]);
            if is_beside(number) {
                books.late(&ServerVisit::ok(1 - server, at, Stamp(at.0 + EACH / 5)));
            }
        }
        let seen = books.snapshot(Stamp(21_000 * EACH));
        let system = LiveSystem::of(["a", "b"].map(str::to_owned));
        CopiesSeen::of(&kept(&seen, &system, Stamp(0), seen.at)).map(|seen| seen.each())
    }

    #[test]
    fn hedged_reads_are_no_copies_of_writes() {
        assert_eq!(copies_of_writes(|_| false), Ok(1.0));
        let hedged = copies_of_writes(|number| number % 100 == 1).unwrap();
        assert!((hedged - 1.1).abs() < 0.05, "one read in ninety: {hedged}");
        assert_eq!(copies_of_writes(|number| number % 14 == 1), Err("copies_unseen"), "one in thirteen");
        let copied = copies_of_writes(|number| number.is_multiple_of(10)).unwrap();
        assert!((copied - 2.0).abs() < 0.05, "each write: {copied}");
    }

    #[test]
    fn a_link_that_is_full_before_its_server_stays_so_while_the_server_slows_down_a_little() {
        let (full_at, alone_full_at, link_full_at) = (500.0, 1_000.0, Some(500.0));
        let (service, scale, doubt, quicker, unseen) = (2e-3, 2.0, 0.0, 0.0, 0.0);
        let limit =
            ServerLimit { service, scale, doubt, quicker, unseen, full_at, alone_full_at, link_full_at };
        assert_eq!(slower(&limit, 1.5, 1.0), 1.0, "667/s of the server, 500/s of the link");
        assert_eq!(slower(&limit, 4.0, 1.0), 2.0, "250/s of the server");
        assert_eq!(slower(&limit, 1.0, 2.0), 2.0, "250/s of the link");
        let full_at = alone_full_at;
        let alone = ServerLimit { link_full_at: None, full_at, ..limit };
        assert_eq!(slower(&alone, 1.5, 9.0), 1.5, "no link is known");
        assert_eq!(hides(&limit, Some(600.0)), None, "the server's own time is known");
        let at_link = ServerLimit { alone_full_at: 520.0, ..limit };
        assert_eq!(hides(&at_link, None), Some("link_hides_server"));
        assert_eq!(hides(&alone, Some(900.0)), Some("loop_hides_server"));
    }

    #[test]
    fn a_server_that_got_nothing_is_not_taken_for_one_that_gets_endlessly_more() {
        assert_eq!(over(&[0.0, 0.6, 0.4], &[0.5, 0.5, 0.0]), [0.0, 1.2, 1.0]);
    }
}
