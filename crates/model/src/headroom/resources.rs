//! At which rate of all traffic each resource is full.

use std::collections::BTreeMap;

use krarup_record::{LoopUse, LoopWindow};
use krarup_stats::{Regression, USUAL_LEVEL};
use krarup_units::{Nanos, Seconds, Stamp};

use super::answer::{LiveServer, LiveSystem, ServerQueue};
use super::contention::{ContentionSeen, with_seen_before};
use super::fit::{DEEP, MAY_BEGIN, ServiceFit};
use super::kept::{Kept, mean, quantile};
use super::replay::PassCost;
use super::server_fit::{self, ServerFit};
use super::service_by_request::{RequestCourse, RequestSum, ToCome, late_from};
use super::stores::GatheredFit;
use super::traffic::LATELY;

/// What a server can do when its queue is as deep as where targets break.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerLimit {
    /// Service time there, wall time lost in stalls included.
    pub(super) service: Seconds,
    /// What the law of service is multiplied with in a replay.
    pub(super) scale: f64,
    /// By how much the interval is wider on either side, in logarithms.
    pub(super) doubt: f64,
    /// By how much its high end is higher, in logarithms: the server may go on getting quicker.
    pub(super) quicker: f64,
    /// By how much its low end is lower, in logarithms: contention that may begin deeper than seen.
    pub(super) unseen: f64,
    /// The rate of all traffic at which the first of the two is full, it or its link.
    pub(super) full_at: f64,
    /// The rate of all traffic at which it is full itself.
    pub(super) alone_full_at: f64,
    /// The rate of all traffic at which its link is full, where the link's own rate is known.
    pub(super) link_full_at: Option<f64>,
}

/// What is known of the servers.
pub(super) struct FittedServers {
    pub(super) fits: Vec<ServerFit>,
    /// What each can do, where requests waited for it.
    pub(super) limits: Vec<Option<ServerLimit>>,
    /// From when on requests are like those to come; none: all are.
    pub(super) late_from: Option<Seconds>,
}

/// The fit of each server, and what it can do where requests waited for it, with what was found of
/// it `before`.
pub(super) fn servers(kept: &Kept, system: &LiveSystem, before: &[Vec<ContentionSeen>]) -> FittedServers {
    let known = || system.servers.iter().enumerate();
    let fit = |(number, known): (usize, &LiveServer)| {
        let lanes = kept.lanes_to(number, system);
        let mut server = server_fit::server(kept, number, lanes, known.queue);
        if let (Some(fit), Some(before)) = (&mut server.fit, before.get(number)) {
            fit.contention = with_seen_before(fit.contention_now, before);
        }
        server
    };
    let fits: Vec<ServerFit> = known().map(fit).collect();
    let courses: Vec<_> = fits.iter().enumerate().map(|(number, one)| course(kept, number, one)).collect();
    let turned = courses.iter().flatten().any(|(_, course)| *course != RequestCourse::Returns);
    let late_from = turned.then(|| late_from(kept.span));
    let limit = |((number, known), server): ((usize, &LiveServer), &ServerFit)| {
        if let (Some(fit), ServerQueue::Gathered { most, beside }) = (&server.gathered, known.queue) {
            let clients = f64::from(kept.clients().max(1));
            return ServerLimit::gathered(fit, server.share, (most.into(), beside.into()), clients);
        }
        let fit = server.fit.as_ref().filter(|_| server.share > 0.0)?;
        let to_come = courses[number]
            .as_ref()
            .map_or(ToCome::ALIKE, |(series, course)| ToCome::of(series, kept.span, *course, late_from));
        let on_link = known.link.map(|rate| mean_bytes(kept, number, late_from) / rate);
        Some(ServerLimit::of(server, fit, known.processors, on_link, to_come))
    };
    let limits = known().zip(&fits).map(limit).collect();
    FittedServers { fits, limits, late_from }
}

/// Mean bytes of a server's parts, of those sent from then on. Of a part that no client waited for
/// they are not known: mostly it is the copy of a write, and has as many as the writes there, or
/// elsewhere where clients wait for none there; without writes as many as a read.
fn mean_bytes(kept: &Kept, number: usize, from: Option<Seconds>) -> f64 {
    let sent = kept.parts.iter().filter(|part| from.is_none_or(|from| part.sent >= from));
    let known = |(is_write, here): (bool, bool)| {
        let alike = sent.clone().filter(|part| !part.is_late && part.is_write == is_write);
        mean(alike.filter(|part| !here || part.server == number).map(|part| part.bytes))
    };
    let from_best = [(true, true), (true, false), (false, true), (false, false)];
    let of_late = from_best.into_iter().map(known).find(|bytes| *bytes > 0.0).unwrap_or(0.0);
    let here = sent.filter(|part| part.server == number);
    mean(here.map(|part| if part.is_late { of_late } else { part.bytes }))
}

/// When each request was sent to a server and how many mean service times it takes, with the course
/// of that; none where all take as long.
fn course(kept: &Kept, number: usize, server: &ServerFit) -> Option<(Vec<(Seconds, f64)>, RequestCourse)> {
    let requests = server.fit.as_ref().map(|fit| &fit.requests).filter(|one| !one.are_alike())?;
    let parts = kept.parts.iter().filter(|one| one.server == number && !one.is_late);
    let series: Vec<_> = parts.map(|one| (one.sent, requests.times(&RequestSum::of(one)))).collect();
    let course = RequestCourse::of(&series, kept.span);
    Some((series, course))
}

/// The server that is full first, or its link, with the rate.
pub(super) fn first_full(limits: &[Option<ServerLimit>]) -> Option<(usize, f64)> {
    let limits = limits.iter().enumerate();
    limits.filter_map(|(server, limit)| Some((server, (*limit)?.full_at))).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The period within which a processor quota acts, as Linux sets it where nothing else is said.
const QUOTA_PERIOD: Seconds = 0.1;

impl ServerLimit {
    /// Of a server with a fit that gets a share of the traffic, and may use so many `processors`; a
    /// request takes its link for `on_link`.
    fn of(
        server: &ServerFit,
        fit: &ServiceFit,
        processors: Option<f64>,
        on_link: Option<Seconds>,
        to_come: ToCome,
    ) -> Self {
        let slope = fit.contention;
        let deeper = (MAY_BEGIN - slope.at).max(0.0);
        let mut limit = Self {
            service: fit.service,
            scale: 1.0,
            doubt: 0.0,
            quicker: 0.0,
            unseen: ((2.0 * slope.error + 0.5 * slope.slope.max(0.0)) * deeper).ln_1p(),
            full_at: 0.0,
            alone_full_at: 0.0,
            link_full_at: None,
        };
        limit.by_contention(fit);
        limit.by_busy_lanes(fit);
        limit.by_requests(to_come);
        limit.by_others(fit);
        limit.service *= fit.over_time;
        limit.scale *= fit.over_time;
        // Where a quota is known, that is what stops the server.
        if fit.stalls.counts() && processors.is_none_or(|share| share >= 1.0) {
            let (lost, times) = (fit.stalls.lost, fit.stalls.service / fit.service);
            limit.service *= times / (1.0 - lost);
            limit.doubt += -0.5 * (1.0 - lost).ln();
            // Nothing says that a stall comes back: at the high end none is counted.
            limit.quicker = limit.quicker.max(limit.doubt - 0.5 * (1.0 - lost).ln());
        }
        limit.by_quota(processors);
        // Connections that share its processors make it full together, however they are used.
        let busiest_lane = if fit.by_busy_lanes.is_none() { server.busiest_lane } else { 1.0 };
        limit.alone_full_at = server.lanes / busiest_lane / limit.service / server.share;
        limit.full_at = limit.alone_full_at;
        if let Some(on_link) = on_link {
            limit.by_link(on_link, server);
        }
        limit
    }

    /// Of a server whose trips carry all requests that wait, up to `most`, and begin side by side
    /// while no more than `beside` are under way: when all `clients` that are connected wait for
    /// it.
    fn gathered(fit: &GatheredFit, share: f64, (most, beside): (f64, f64), clients: f64) -> Option<Self> {
        if share <= 0.0 {
            return None;
        }
        let lanes = if clients <= beside { fit.side_by_side } else { 1 };
        let count = (clients / lanes as f64).clamp(1.0, most);
        // Sizes that were not seen follow the same line: the low end counts on twice those seen,
        // the high end on the largest that there can be.
        let (low, high) = ((2.0 * fit.large).min(count), most.max(count));
        let rate = fit.rate(lanes, count);
        Some(Self {
            service: lanes as f64 / rate,
            scale: 1.0,
            doubt: 1.65 * fit.error,
            quicker: (fit.rate(lanes, high) / rate).ln().max(0.0),
            unseen: (rate / fit.rate(lanes, low)).ln().max(0.0),
            full_at: rate / share,
            alone_full_at: rate / share,
            link_full_at: None,
        })
    }

    /// Behind a deep queue; a replay knows by itself how deep it is.
    fn by_contention(&mut self, fit: &ServiceFit) {
        if let Some(slope) = fit.grows_with_depth() {
            let times = slope.times_at(DEEP);
            self.service *= times;
            self.doubt = 0.25 * times.ln();
        } else if let Some(times) = fit.falls_with_depth().map(|slope| slope.times_at(DEEP))
            && times < 0.92
        {
            // The deeper the quicker: batching, or stops that hit the idle server. It is not
            // counted on, and the low end allows for stops.
            self.doubt = (fit.jitter / fit.service).ln_1p();
            self.quicker = -times.ln();
        }
    }

    /// With all connections busy; a replay knows this curve by itself.
    fn by_busy_lanes(&mut self, fit: &ServiceFit) {
        if let Some(curve) = &fit.by_busy_lanes {
            // More outstanding is more connections busy: not counted twice.
            (self.service, self.scale) = (fit.service * curve.last(), 1.0);
            self.doubt = self.doubt.max(curve.beyond_seen + 0.03);
        }
    }

    /// With less than one processor a server works for that share of each period, and then stands
    /// still: the mean is exact, and by how much a single period is busier than the mean is not
    /// known.
    fn by_quota(&mut self, processors: Option<f64>) {
        let Some(share) = processors.filter(|share| *share < 1.0) else { return };
        let in_a_period = QUOTA_PERIOD * share / self.service;
        self.service /= share;
        self.scale /= share;
        self.unseen += (1.0 / in_a_period.sqrt()).ln_1p();
    }

    /// The link carries one request after the other, whichever connection it is on, `seconds` each.
    /// A token bucket lets the first of them pass at once: what was measured may be less.
    fn by_link(&mut self, seconds: Seconds, server: &ServerFit) {
        let full_at = 1.0 / seconds.max(1e-12) / server.share;
        self.link_full_at = Some(full_at);
        if full_at < self.full_at {
            let times = self.full_at / full_at;
            self.service *= times;
            self.scale *= times;
            self.full_at = full_at;
        }
        // However quick the server gets, its link is full there.
        self.quicker = self.quicker.min((full_at / self.full_at).ln());
    }

    /// Those to come are not those that found the server busy: a replay knows their operations and
    /// bytes by itself.
    fn by_requests(&mut self, to_come: ToCome) {
        self.service *= to_come.times;
        self.scale *= to_come.beyond;
        self.doubt += 0.3 * to_come.times.ln().abs();
    }

    /// Others' requests come between: a replay knows how many.
    fn by_others(&mut self, fit: &ServiceFit) {
        self.service *= fit.others.map_or(1.0, |others| others.when_full(fit.service) / fit.service);
    }
}

/// What the event loops themselves can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LoopFit {
    /// Rate of all traffic if a pass carries [`LEAST_MORE_PER_PASS`] times as many requests as at
    /// the highest load seen.
    pub(super) low: f64,
    /// Rate if it carries [`MORE_PER_PASS`] times as many.
    pub(super) middle: f64,
    /// Rate if only what a request costs by itself remains, because passes carry more and more.
    pub(super) high: f64,
    /// Share of its processor time that the busiest loop uses.
    pub(super) busy: f64,
    /// The same of the last ten seconds seen.
    pub(super) busy_lately: f64,
    /// Processor time per request at the highest load seen.
    pub(super) per_request: Seconds,
    /// What it is made of; of several loops, as if all traffic went through one that is as many
    /// times faster.
    pub(super) cost: PassCost,
    /// The same for a request at the highest load seen, its part of the pass included.
    pub(super) one_by_one: Seconds,
}

/// How many times more requests a pass of a full loop carries than one at the highest load seen:
/// what comes while it works waits for the next pass, so passes become longer until they carry what
/// all clients have sent.
const MORE_PER_PASS: f64 = 8.0;

/// As many times more at the least.
const LEAST_MORE_PER_PASS: f64 = 2.0;

/// Processor time of a window = a · passes + b · requests, neither negative; `limit` is how many
/// processors a loop may use.
pub(super) fn loops(kept: &Kept, limit: f64) -> Option<LoopFit> {
    let loops = kept.windows.iter().map(|one| one.in_loop).max()? + 1;
    let all: f64 = kept.windows.iter().map(|one| one.requests as f64).sum();
    let fits = (0..loops).filter_map(|number| {
        let windows: Vec<&LoopWindow> = kept.windows.iter().filter(|one| one.in_loop == number).collect();
        one_loop(&windows, limit, all)
    });
    fits.min_by(|a, b| a.middle.total_cmp(&b.middle))
}

fn one_loop(windows: &[&LoopWindow], limit: f64, all: f64) -> Option<LoopFit> {
    let used = |one: &LoopWindow| one.used.processor.as_seconds();
    let requests: f64 = windows.iter().map(|one| one.requests as f64).sum();
    let processor: f64 = windows.iter().map(|one| used(one)).sum();
    if windows.len() < 10 || requests < 1_000.0 || processor <= 0.0 {
        return None;
    }
    let mut rates: Vec<f64> = windows.iter().map(|one| one.requests as f64 / one.seconds()).collect();
    let high = quantile(&mut rates, 0.9);
    let top = windows.iter().filter(|one| one.requests as f64 / one.seconds() >= 0.9 * high);
    let clients = top.clone().map(|one| one.used.clients).max().unwrap_or(0);
    let (top_processor, top_requests, top_passes) = top.fold((0.0, 0.0, 0.0), |sum, one| {
        (sum.0 + used(one), sum.1 + one.requests as f64, sum.2 + one.used.passes as f64)
    });
    let per_request = top_processor / top_requests.max(1.0);
    let marginal = cost_of_a_request(windows).clamp(0.15 * per_request, per_request);
    let share = requests / all.max(1.0);
    let per_pass = (per_request - marginal) * top_requests / top_passes.max(1.0);
    let most_more = match clients {
        0 => f64::INFINITY,
        clients => (f64::from(clients) * top_passes / top_requests.max(1.0)).max(1.0),
    };
    let busy = |windows: &[&LoopWindow]| {
        let (used, all) =
            windows.iter().fold((0.0, 0.0), |sum, one| (sum.0 + used(one), sum.1 + one.seconds()));
        used / all / limit
    };
    let end = windows.iter().map(|one| one.to.0).max().unwrap_or(0);
    let lately: Vec<&LoopWindow> = windows.iter().filter(|one| one.to.0 + LATELY.0 > end).copied().collect();
    let with_more = |more: f64| limit / (marginal + (per_request - marginal) / more.min(most_more)) / share;
    Some(LoopFit {
        low: with_more(LEAST_MORE_PER_PASS),
        middle: with_more(MORE_PER_PASS),
        high: limit / marginal / share,
        busy: busy(windows),
        busy_lately: busy(&lately),
        per_request,
        cost: PassCost { per_pass: per_pass * share / limit, per_request: marginal * share / limit },
        one_by_one: per_request * share / limit,
    })
}

/// b of the least squares of processor time on passes and requests.
fn cost_of_a_request(windows: &[&LoopWindow]) -> f64 {
    let sum = |of: &dyn Fn(&LoopWindow) -> f64| windows.iter().map(|one| of(one)).sum::<f64>();
    let passes = |one: &LoopWindow| one.used.passes as f64;
    let requests = |one: &LoopWindow| one.requests as f64;
    let used = |one: &LoopWindow| one.used.processor.as_seconds();
    let (pp, rr, pr) = (
        sum(&|one| passes(one).powi(2)),
        sum(&|one| requests(one).powi(2)),
        sum(&|one| passes(one) * requests(one)),
    );
    let (pc, rc) = (sum(&|one| passes(one) * used(one)), sum(&|one| requests(one) * used(one)));
    let determinant = pp * rr - pr * pr;
    if determinant <= 1e-9 * pp * rr {
        return rc / rr.max(1e-12);
    }
    let (a, b) = ((pc * rr - rc * pr) / determinant, (rc * pp - pc * pr) / determinant);
    if b < 0.0 {
        0.0
    } else if a < 0.0 {
        rc / rr.max(1e-12)
    } else {
        b
    }
}

/// What the machine around the loops can do, its processors or its busiest link, at the rate of all
/// traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MachineFit {
    /// Rate at which it is full if all that it does comes with requests.
    pub(super) low: f64,
    /// Rate if what it does grows with requests as it was seen to.
    pub(super) middle: f64,
    /// Rate if it grows as slowly as it may by two standard errors.
    pub(super) high: f64,
    /// The share of its time in which it works for others, and how much of that at the least, by
    /// two standard errors.
    pub(super) others: f64,
    pub(super) least_others: f64,
}

impl MachineFit {
    /// The share of its time in which it works at a rate of all traffic.
    pub(super) fn busy_at(&self, rate: f64) -> f64 {
        // What others leave is full at the middle.
        let of_what_is_left = if self.middle > 0.0 { rate / self.middle } else { 1.0 };
        (self.others + (1.0 - self.others) * of_what_is_left).min(1.0)
    }
}

/// What the machine does grows at least by this share of its mean per request: without any
/// variation of the load it is not known what is others' work.
const LEAST_OF_A_REQUEST: f64 = 0.25;

/// The processors of the machine; none where the system does not say how busy they are.
pub(super) fn processors(kept: &Kept) -> Option<MachineFit> {
    machine(kept, |used| (used.machine_busy, used.machine_time))
}

/// The busiest link of the machine; none where no link's rate is known.
pub(super) fn own_link(kept: &Kept) -> Option<MachineFit> {
    machine(kept, |used| (used.link_busy, used.link_time))
}

/// Requests a second of a loop by its windows, which are in the order of time; none where they do
/// not tell of nearly all of the time. One that has nothing to do sleeps until it is asked, and
/// has no windows meanwhile.
fn rate_between(windows: &[&LoopWindow], from: Stamp, to: Stamp) -> Option<f64> {
    let (first, last) = (windows.first()?, windows.last()?);
    if last.to.0 + ASLEEP.0 < from.0 || to.0 + ASLEEP.0 < first.from.0 {
        return Some(0.0);
    }
    let first = windows.partition_point(|one| one.to <= from);
    let within = windows[first..].iter().take_while(|one| one.from < to);
    let (time, requests) = within.fold((0.0, 0.0), |(time, requests), one| {
        let overlap = (one.to.min(to).0 - one.from.max(from).0) as f64 / 1e9;
        (time + overlap, requests + one.requests as f64 * overlap / one.seconds())
    });
    (time > NEARLY_ALL * (to.0 - from.0) as f64 / 1e9).then(|| requests / time)
}

/// Windows that overlap by this part tell of the same time.
const NEARLY_ALL: f64 = 0.8;
/// A loop that has requests has windows of a second.
const ASLEEP: Nanos = Nanos::from_secs(2);

/// Busy share = others' + share per request · rate of all loops, by the windows of the loop that
/// has most; `of` is in how much of the time that there was the machine worked.
fn machine(kept: &Kept, of: fn(&LoopUse) -> (Nanos, Nanos)) -> Option<MachineFit> {
    let mut by_loop: BTreeMap<u16, Vec<&LoopWindow>> = BTreeMap::new();
    for one in &kept.windows {
        by_loop.entry(one.in_loop).or_default().push(one);
    }
    let told = by_loop.values().max_by_key(|windows| windows.len())?;
    let points: Vec<(f64, f64)> = told
        .iter()
        .filter(|one| of(&one.used).1.0 > 0)
        .filter_map(|one| {
            let rates = by_loop.values().map(|windows| rate_between(windows, one.from, one.to));
            let (busy, time) = of(&one.used);
            Some((rates.sum::<Option<f64>>()?, busy.0 as f64 / time.0 as f64))
        })
        .collect();
    let requests: f64 = kept.windows.iter().map(|one| one.requests as f64).sum();
    if points.len() < 10 || requests < 1_000.0 {
        return None;
    }
    let mut rates: Vec<f64> = points.iter().map(|point| point.0).collect();
    let high = quantile(&mut rates, 0.9);
    let top = || points.iter().filter(|point| point.0 >= 0.9 * high);
    let most = mean(top().map(|point| point.1)) / mean(top().map(|point| point.0)).max(1e-12);
    let (rates, shares): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (x, y) = (mean(rates.iter().copied()), mean(shares.iter().copied()));
    // Without any variation nothing is known of the slope.
    let line = Regression::line(&rates, &shares, USUAL_LEVEL).ok();
    let slope = line.as_ref().and_then(|line| line.coefficients.last());
    let (slope, error) =
        slope.map_or((0.0, f64::INFINITY), |slope| (slope.estimate.value, slope.standard_error));
    let of_a_request = |slope: f64| slope.clamp(LEAST_OF_A_REQUEST * most, most).max(1e-12);
    let others = |slope: f64| (y - of_a_request(slope) * x).max(0.0);
    let full = |slope: f64| (1.0 - others(slope)).max(0.0) / of_a_request(slope);
    let (a, b) = (full(slope - 2.0 * error), full(slope + 2.0 * error));
    let (middle, low) = (full(slope), full(most));
    Some(MachineFit {
        low: low.min(b).min(middle),
        middle,
        high: a.max(middle),
        others: others(slope),
        least_others: others(slope + 2.0 * error),
    })
}

/// Others' share of a machine's processors above which they are its load: they may take more or
/// less at any time, and what is left for requests is not known.
pub(super) const MUCH_OF_OTHERS: f64 = 0.25;

/// The share of time in which loops waited for a processor.
pub(super) fn run_queue(kept: &Kept) -> f64 {
    let time: f64 = kept.windows.iter().map(|one| (one.to.0 - one.from.0) as f64).sum();
    let waited: f64 = kept.windows.iter().map(|one| one.used.run_queue.0 as f64).sum();
    if time > 0.0 { waited / time } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(cost: impl Fn(u64) -> (u64, u64)) -> Kept {
        let window = |number: u64| {
            let requests = 1_000 + 100 * (number % 10);
            let (passes, processor) = cost(requests);
            LoopWindow {
                from: Stamp(number * 1_000_000_000),
                to: Stamp((number + 1) * 1_000_000_000),
                requests,
                used: LoopUse {
                    passes,
                    processor: Nanos(processor),
                    run_queue: Nanos(20_000_000),
                    clients: 1,
                    ..LoopUse::default()
                },
                ..LoopWindow::default()
            }
        };
        Kept { windows: (0..40).map(window).collect(), ..Kept::default() }
    }

    #[test]
    fn passes_and_requests_are_told_apart() {
        // Passes do not rise with requests: 2 µs a pass, 10 µs a request.
        let kept = windows(|requests| (5_000 - requests, 2_000 * (5_000 - requests) + 10_000 * requests));
        let fit = loops(&kept, 1.0).unwrap();
        assert!((fit.high - 100_000.0).abs() < 1.0, "{fit:?}");
        assert!(fit.low < fit.high && fit.low > 50_000.0);
        assert!((loops(&kept, 0.5).unwrap().high - 50_000.0).abs() < 1.0);
        assert!((run_queue(&kept) - 0.02).abs() < 1e-9);
    }

    #[test]
    fn what_others_do_to_the_machine_is_told_apart_from_what_requests_do() {
        let mut kept = windows(|requests| (requests, requests));
        for one in &mut kept.windows {
            // A fifth is others' work, 200 µs of two processors a request.
            one.used.machine_time = Nanos::from_secs(2);
            one.used.machine_busy = Nanos(400_000_000 + 200_000 * one.requests);
        }
        let fit = processors(&kept).unwrap();
        assert!((fit.middle - 8_000.0).abs() < 1.0, "{fit:?}");
        assert!(
            fit.low < 7_500.0 && fit.high < 8_001.0 && (fit.busy_at(1_800.0) - 0.38).abs() < 1e-3,
            "{fit:?}"
        );
        assert!((fit.others - 0.2).abs() < 1e-6 && (fit.least_others - 0.2).abs() < 1e-6, "{fit:?}");
        for one in &mut kept.windows {
            (one.requests, one.used.machine_busy) = (1_000, Nanos(600_000_000));
        }
        let alike = processors(&kept).unwrap();
        assert!(alike.low < 3_400.0 && alike.high > 8_000.0, "{alike:?}");
        assert_eq!(alike.least_others, 0.0, "all of it may come with requests");
        kept.windows.iter_mut().for_each(|one| one.used.machine_time = Nanos::ZERO);
        assert_eq!(processors(&kept), None);
    }

    #[test]
    fn what_all_loops_ask_is_no_others_work() {
        // Four loops whose rates rise and fall at other times, 200 µs of the machine a request.
        let rate = |second: u64, in_loop: u64| 1_000 + 300 * ((second + 3 * in_loop) % 7);
        let mut kept = windows(|requests| (requests, requests));
        kept.windows = (0..4)
            .flat_map(|in_loop| (0..40).map(move |second| (in_loop, second)))
            .map(|(in_loop, second)| LoopWindow {
                in_loop: in_loop as u16,
                requests: rate(second, in_loop),
                used: LoopUse {
                    machine_time: Nanos::from_secs(2),
                    machine_busy: Nanos((0..4).map(|one| 200_000 * rate(second, one)).sum()),
                    ..LoopUse::default()
                },
                ..kept.windows[second as usize]
            })
            .collect();
        let fit = processors(&kept).unwrap();
        assert!((fit.middle / 10_000.0 - 1.0).abs() < 0.001 && fit.others < 0.001, "{fit:?}");
        // One that has no clients says nothing else.
        kept.windows.iter_mut().filter(|one| one.in_loop == 0).for_each(|one| one.requests = 0);
        let asked = |kept: &Kept, second: usize| -> u64 {
            kept.windows
                .iter()
                .filter(|one| one.from.0 == second as u64 * 1_000_000_000)
                .map(|one| one.requests)
                .sum()
        };
        // Nor one that sleeps, and has no windows, from then on.
        for sleeps_from in [40, 20] {
            kept.windows.retain(|one| one.in_loop != 3 || one.from.0 < sleeps_from * 1_000_000_000);
            let busy: Vec<u64> = (0..40).map(|second| 200_000 * asked(&kept, second)).collect();
            for one in &mut kept.windows {
                one.used.machine_busy = Nanos(busy[(one.from.0 / 1_000_000_000) as usize]);
            }
            let fit = processors(&kept).unwrap();
            assert!((fit.middle / 10_000.0 - 1.0).abs() < 0.001 && fit.others < 0.001, "{fit:?}");
        }
    }

    #[test]
    fn the_machines_link_is_told_from_what_it_carried() {
        let mut kept = windows(|requests| (requests, requests));
        assert_eq!(own_link(&kept), None, "its rate is not known");
        for one in &mut kept.windows {
            // A tenth is carried for others, a request takes 100 µs.
            one.used.link_time = Nanos::from_secs(1);
            one.used.link_busy = Nanos(100_000_000 + 100_000 * one.requests);
        }
        let fit = own_link(&kept).unwrap();
        assert!((fit.middle - 9_000.0).abs() < 1.0, "{fit:?}");
    }

    #[test]
    fn few_windows_tell_nothing() {
        let mut kept = windows(|requests| (requests, requests));
        kept.windows.truncate(5);
        assert_eq!(loops(&kept, 1.0), None);
    }
}
