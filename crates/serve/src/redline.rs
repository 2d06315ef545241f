//! `/redline` of the admin address: one server of a replicated pool is given more and more of the
//! reads, on demand, while it is watched.
//!
//! ```text
//!   POST ──▶ checks ──▶ thread ── each second ──▶ [order] ── in one pass ──▶ every event loop
//!   GET  ◀── report ◀──── │ ◀───────────────────── what they have kept ────────────┘
//!   DELETE ──────────────▶│ the usual shares are back before the answer is written
//! ```
//!
//! An order holds for four seconds only: should the thread end, the loops go back by themselves.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};

use krarup_model::headroom::{
    Headroom, HeadroomVerdict, Redline, RedlineEnd, RedlineOrder, RedlineReport, RedlineSettings,
    RedlineStep, ResponseTarget, SCHEMA,
};
use krarup_net::http::{HttpMethod, HttpQuery, HttpResponse};
use krarup_net::snapshots::lock;
use krarup_proxy::ReadPush;
use krarup_proxy::live::ReplicatedPool;
use krarup_units::{Mistake, Nanos, Seconds, Stamp, text};

use crate::headroom::{LiveHeadroom, json};
use crate::live::{LiveQuestion, LiveState};
use crate::orders::LoopOrders;
use crate::redline_lock::{COOL_DOWN, RedlineLock, ServerProof};
use crate::threads::{Spawn, spawn};

/// How often the loops are asked.
const LOOK: Duration = Duration::from_secs(1);
/// How long an order holds.
const HOLDS: Nanos = Nanos::from_secs(4);
/// How long after its request one may begin: an answer to a later one would find its connection
/// ended (`krarup_net::http`), so that nothing would watch what it began.
const BEGINS_WITHIN: Duration = Duration::from_secs(80);
/// The least headroom, as a multiple of the traffic of now.
const LEAST_HEADROOM: f64 = 1.5;
/// What a redline is given where nothing is said.
const MOST_WEIGHT: f64 = 4.0;
const MOST_SECONDS: Seconds = 600.0;

/// The redlines of a process: one at a time.
pub(crate) struct LiveRedline {
    live: LiveQuestion,
    orders: Arc<LoopOrders>,
    headroom: Arc<LiveHeadroom>,
    state: Mutex<RedlineState>,
    /// Told when one has ended, or shall end.
    changed: Condvar,
}

#[derive(Default)]
struct RedlineState {
    report: Option<RedlineReport>,
    /// How many have begun.
    number: u64,
    running: bool,
    stop: bool,
    /// When the end was asked for last.
    end_asked: Option<Instant>,
    /// When each server was pushed last.
    pushed: HashMap<String, Instant>,
    /// Since when all servers have had their usual shares, by the loops' clock.
    usual_since: Stamp,
}

impl RedlineState {
    fn is_free(&self) -> Result<(), Mistake> {
        if self.running {
            return Err(Mistake::new("another one is under way", "DELETE /redline ends it"));
        }
        Ok(())
    }

    /// Whether one may begin that was asked for then: telling the headroom may have taken long.
    fn may_begin(&self, asked_at: Instant) -> Result<(), (u16, Mistake)> {
        self.is_free().map_err(|why| (409, why))?;
        if self.end_asked.is_some_and(|ended| ended >= asked_at) {
            return Err((409, Mistake::plain("it was ended before it had begun")));
        }
        if asked_at.elapsed() > BEGINS_WITHIN {
            let what = "telling the headroom took too long, and nothing was begun";
            return Err((503, Mistake::new(what, "ask again")));
        }
        Ok(())
    }
}

/// What stands in a query.
#[derive(Debug, Default)]
struct AskedRedline {
    pool: Option<String>,
    server: Option<String>,
    target: Option<ResponseTarget>,
    most_weight: Option<f64>,
    most_seconds: Option<Seconds>,
    dry_run: bool,
    force: bool,
}

impl AskedRedline {
    fn of(query: HttpQuery<'_>) -> Result<Self, Mistake> {
        let mut asked = Self::default();
        for (name, value) in query.parameters() {
            match name.as_str() {
                "pool" => asked.pool = Some(value),
                "server" => asked.server = Some(value),
                "target" => asked.target = Some(value.parse()?),
                "most-weight" => {
                    let weight = value.parse().ok().filter(|weight: &f64| (1.1..=100.0).contains(weight));
                    let wrong = || Mistake::new(format!("`{value}` is no weight"), "give 1.1 to 100");
                    asked.most_weight = Some(weight.ok_or_else(wrong)?);
                }
                "most-time" => {
                    let seconds = text::parse_duration(&value)?;
                    if !(10.0..=86_400.0).contains(&seconds) {
                        return Err(Mistake::plain("most-time is from 10s to 1d"));
                    }
                    asked.most_seconds = Some(seconds);
                }
                "dry-run" => asked.dry_run = is_on(&name, &value)?,
                "force" => asked.force = is_on(&name, &value)?,
                _ => {
                    let hint = "there are pool, server, target, most-weight, most-time, dry-run and force";
                    return Err(Mistake::new(format!("there is no parameter `{name}`"), hint));
                }
            }
        }
        Ok(asked)
    }
}

/// What a parameter that is yes or no says; yes where it has no value.
fn is_on(name: &str, value: &str) -> Result<bool, Mistake> {
    match value {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(Mistake::new(format!("`{name}` is `{value}`"), "give 1 or 0")),
    }
}

/// One that may begin.
struct PreparedRedline {
    /// Where this proxy listens, and no other.
    proxy: Option<String>,
    pool: String,
    server: String,
    /// The digest of the shares that servers get without it.
    shares: Option<u64>,
    redline: Redline,
    /// Held as long as it runs.
    shared: Option<RedlineLock>,
}

impl LiveRedline {
    pub(crate) fn new(live: LiveQuestion, orders: Arc<LoopOrders>, headroom: Arc<LiveHeadroom>) -> Self {
        Self { live, orders, headroom, state: Mutex::default(), changed: Condvar::new() }
    }

    /// The answer to a request for `/redline`.
    pub(crate) fn respond(self: &Arc<Self>, method: HttpMethod, query: HttpQuery<'_>) -> HttpResponse {
        match method {
            HttpMethod::Get => match &lock(&self.state).report {
                Some(report) => json(serde_json::to_string_pretty(report)),
                None => HttpResponse::text(404, "there was no redline; POST /redline begins one\n"),
            },
            HttpMethod::Delete => self.end(),
            HttpMethod::Post => {
                let (asked_at, asked) = (Instant::now(), AskedRedline::of(query));
                let asked = asked.map_err(|why| (400, why));
                match asked.and_then(|asked| self.begin(&asked, asked_at, spawn)) {
                    Ok(report) => json(serde_json::to_string_pretty(&report)),
                    Err((status, why)) => HttpResponse::text(status, format!("{why}\n")),
                }
            }
        }
    }

    /// Ends the one that runs, and waits until the usual shares are back. What was asked for before
    /// and has not begun yet does not begin.
    fn end(&self) -> HttpResponse {
        let mut state = lock(&self.state);
        state.end_asked = Some(Instant::now());
        if !state.running {
            return HttpResponse::text(404, "no redline is under way\n");
        }
        state.stop = true;
        self.changed.notify_all();
        let number = state.number;
        // The next may have begun before this thread wakes.
        let state = self.changed.wait_while(state, |state| state.running && state.number == number);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        match state.report.as_ref().filter(|_| state.number == number) {
            Some(report) => json(serde_json::to_string_pretty(report)),
            None => HttpResponse::text(200, "it has ended\n"),
        }
    }

    fn begin(
        self: &Arc<Self>,
        asked: &AskedRedline,
        asked_at: Instant,
        spawn: Spawn,
    ) -> Result<RedlineReport, (u16, Mistake)> {
        let refused = |why: Mistake| (409, why);
        let stuck = || (503, Mistake::plain("an event loop did not answer within a second"));
        let live = self.live.ask().ok_or_else(stuck)?;
        let (pool, server) = chosen(asked, &live, self.bottleneck().as_deref()).map_err(refused)?;
        let target = asked.target.or(live.target).ok_or_else(|| {
            refused(Mistake::new("there is no target", "set `headroom_target`, or give target=p99%3C8ms"))
        })?;
        let shared = match &live.redline_lock {
            Some(path) if !asked.dry_run => {
                lock(&self.state).is_free().map_err(refused)?;
                Some(RedlineLock::take(path).map_err(refused)?)
            }
            _ => None,
        };
        let name = &live.system.servers[server].name;
        self.check(asked, name, target, shared.as_ref()).map_err(refused)?;
        let away = pool.servers.iter().map(|&holder| &live.system.servers[holder]).find(|one| one.away);
        if let Some(one) = away.filter(|_| !asked.dry_run) {
            return Err(refused(Mistake::new(
                format!("server {} is down", one.name),
                "push one when all servers of its pool are up: until then the others have its reads",
            )));
        }
        if pool.left_out.contains(&server) && !asked.dry_run {
            return Err(refused(Mistake::new(
                format!("server {name} is left out because it was slow, or has just come back"),
                "push it when it has its share again: after `eject_for` and `return_over`",
            )));
        }
        let usual_since = lock(&self.state).usual_since;
        let settings = RedlineSettings {
            target,
            most_weight: asked.most_weight.unwrap_or(MOST_WEIGHT),
            most_seconds: asked.most_seconds.unwrap_or(MOST_SECONDS),
        };
        let mut prepared = PreparedRedline {
            proxy: live.listens_at(),
            pool: pool.name.clone(),
            server: name.clone(),
            shares: live.shares_digest(),
            redline: Redline::new(settings, server, pool.servers.clone(), usual_since, live.kept.at),
            shared,
        };
        if asked.dry_run {
            return Ok(prepared.planned());
        }
        let mut state = lock(&self.state);
        state.may_begin(asked_at)?;
        let (own, (give, given)) = (Arc::clone(self), mpsc::channel());
        // The thread ends where it is given none to run.
        spawn("redline", Box::new(move || given.into_iter().for_each(|prepared| own.run(prepared))))
            .map_err(|error| (503, Mistake::plain(format!("no thread can be started: {error}"))))?;
        let shared = prepared.shared.as_mut();
        let noted = shared.map(|shared| shared.note(&prepared.server, SystemTime::now()));
        noted.transpose().map_err(refused)?;
        let report = prepared.report(None);
        (state.running, state.stop, state.report) = (true, false, Some(report.clone()));
        state.number += 1;
        state.pushed.insert(prepared.server.clone(), Instant::now());
        // It waits for the state, which says now that it runs.
        let _ = give.send(prepared);
        Ok(report)
    }

    /// The server that is full first, by what is said of the headroom.
    fn bottleneck(&self) -> Option<String> {
        self.headroom.for_metrics()?.bottleneck.as_ref().map(|one| one.name.clone())
    }

    /// Whether it may be tried.
    fn check(
        &self,
        asked: &AskedRedline,
        server: &str,
        target: ResponseTarget,
        shared: Option<&RedlineLock>,
    ) -> Result<(), Mistake> {
        let answer = self.headroom.of_target(target);
        let answer = answer.ok_or_else(|| Mistake::plain("an event loop did not answer within a second"))?;
        if answer.broken_now == Some(true) {
            return Err(Mistake::plain(format!("the target {target} is broken by the traffic of now")));
        }
        if asked.force || asked.dry_run {
            return Ok(());
        }
        let forced = "force=1 tries it all the same";
        let here = lock(&self.state).pushed.get(server).map(Instant::elapsed);
        let anywhere = shared.and_then(|shared| shared.since_push(server, SystemTime::now()));
        let before = here.into_iter().chain(anywhere).min();
        if let Some(before) = before.filter(|before| *before < COOL_DOWN) {
            let hours = before.as_secs() / 3_600;
            return Err(Mistake::new(format!("{server} was pushed {hours} hours ago: once a day"), forced));
        }
        match headroom_of(&answer) {
            Some(ratio) if ratio >= LEAST_HEADROOM => Ok(()),
            Some(ratio) => {
                let why = format!("the headroom is {ratio:.2} times the traffic of now, and must be 1.5");
                Err(Mistake::new(why, forced))
            }
            None => Err(Mistake::new("nothing can be said of the headroom now: see /headroom", forced)),
        }
    }

    /// Runs one to its end, on a thread of its own.
    fn run(&self, mut prepared: PreparedRedline) {
        let (mut ordered, mut until) = (None, Stamp::default());
        let ended = loop {
            let state = lock(&self.state);
            let waited = self.changed.wait_timeout_while(state, LOOK, |state| !state.stop);
            if waited.unwrap_or_else(PoisonError::into_inner).0.stop {
                break RedlineEnd::Stopped;
            }
            let Some(live) = self.live.ask() else { break RedlineEnd::Stuck };
            if let RedlineOrder::End(end) = prepared.look(&live) {
                break end;
            }
            until = Stamp(live.kept.at.0 + HOLDS.0);
            self.orders.set_push(Some(prepared.push(until)));
            lock(&self.state).report = Some(prepared.report(None));
            // Another share holds from here on, not a second later.
            let share = Some(prepared.redline.share());
            if std::mem::replace(&mut ordered, share) != share && self.live.ask().is_none() {
                break RedlineEnd::Stuck;
            }
        };
        self.orders.set_push(None);
        // Every loop has gone back when it answers; one that is stuck goes back by itself.
        let usual_since = self.live.ask().map_or(until, |live| live.kept.at);
        let report = prepared.report(Some(ended));
        // Where the server was at a limit at once, what it had proven before counts no longer.
        if let Some(proven) = prepared.redline.shown(ended) {
            let proof = ServerProof { proven, shares: prepared.shares };
            self.headroom.prove(&prepared.server, proof);
            if let Some((shared, proxy)) = prepared.shared.as_mut().zip(prepared.proxy.as_ref()) {
                // Where it cannot be written it is known until the end of this process.
                let _ = shared.note_proof(&prepared.server, proxy, proof, SystemTime::now());
            }
        }
        let target = prepared.redline.target();
        // Who hears that it has ended may begin the next, in another process too.
        drop(prepared);
        let mut state = lock(&self.state);
        (state.report, state.running) = (Some(report), false);
        state.usual_since = state.usual_since.max(usual_since);
        self.changed.notify_all();
        drop(state);
        // What the deeper queues showed of the server is remembered.
        self.headroom.of_target(target);
    }
}

impl PreparedRedline {
    /// What is to be done after a look at what the loops have kept.
    fn look(&mut self, live: &LiveState) -> RedlineOrder {
        if live.shares_digest() != self.shares {
            return RedlineOrder::End(RedlineEnd::Stopped);
        }
        if live.leaves_out(&self.pool, &self.server) {
            return RedlineOrder::End(RedlineEnd::LeftOut);
        }
        self.redline.look(&live.kept, &live.system)
    }

    fn push(&self, until: Stamp) -> ReadPush {
        let (pool, server) = (self.pool.clone(), self.server.clone());
        ReadPush { pool, server, share: self.redline.share(), until }
    }

    fn report(&self, ended: Option<RedlineEnd>) -> RedlineReport {
        RedlineReport {
            schema: SCHEMA,
            pool: self.pool.clone(),
            server: self.server.clone(),
            ended,
            steps: self.redline.steps().to_vec(),
            proven: self.redline.proven(),
        }
    }

    fn planned(&self) -> RedlineReport {
        let step = |(weight, share)| RedlineStep { weight, share, ..RedlineStep::default() };
        let steps = self.redline.planned().into_iter().map(step).collect();
        RedlineReport { steps, ..self.report(None) }
    }
}

/// The low end of the headroom, as a multiple of the traffic of now; none: nothing is said.
fn headroom_of(answer: &Headroom) -> Option<f64> {
    answer.headroom_ratio.filter(|_| answer.verdict != HeadroomVerdict::Silent).map(|ratio| ratio.low)
}

/// Whose reads are moved to which server.
fn chosen<'a>(
    asked: &AskedRedline,
    live: &'a LiveState,
    bottleneck: Option<&str>,
) -> Result<(&'a ReplicatedPool, usize), Mistake> {
    let named = |pool: &&ReplicatedPool| asked.pool.as_ref().is_none_or(|name| *name == pool.name);
    let number = |name: &str| live.system.servers.iter().position(|server| server.name == name);
    let holds = |pool: &&ReplicatedPool| match &asked.server {
        Some(name) => number(name).is_some_and(|server| pool.servers.contains(&server)),
        None => true,
    };
    let pool = live.pools.iter().filter(named).find(holds).ok_or_else(|| {
        Mistake::new(
            "there is no such pool, or not every server of it holds all keys",
            "reads can be moved where each server has a copy and `readers` is not set",
        )
    })?;
    let worst = || bottleneck.and_then(number).filter(|server| pool.servers.contains(server));
    let server = asked.server.as_deref().and_then(number).or_else(worst).unwrap_or(pool.servers[0]);
    Ok((pool, server))
}

#[cfg(test)]
mod tests;
