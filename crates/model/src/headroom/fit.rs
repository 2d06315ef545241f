//! What the answers of one server say: the delay outside its queue, its service time while it is
//! busy, and what changes that time.
//!
//! The unit of observation is the set of answers that one read brought: they share a stamp, so only
//! their time together is known. A unit found its connection busy if the unit before it was
//! answered after `sent + d` of its first member.

use krarup_units::Seconds;

use super::kept::{Kept, KeptPart, KeptStretch, mean, quantile};
use super::service_by_request::{RelativeSlope, RequestSum, ServiceByRequest};
use super::speed;

/// Behind so many requests outstanding the slope of contention is evaluated where a server is full;
/// deeper queues count as this deep, because a slope may end, and few targets break behind them.
pub(super) const DEEP: f64 = 20.0;

/// Contention may begin deeper than any queue seen, up to this depth: where most targets break.
pub(super) const MAY_BEGIN: f64 = 14.0;

/// A request has found its connection busy beyond doubt if it waited for so many times what the
/// round trip varies by, and for the slope of contention also this share of a service.
const VARIATIONS: f64 = 3.0;
const SURELY_WAITED: f64 = 0.2;
/// That slope is taken from these alone if there are so many.
const ENOUGH_CERTAIN: usize = 2000;

/// The answers of one read on one connection.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Its connection.
    lane: u32,
    /// When the read before it on this connection ended; minus infinity where that is not known.
    before: Seconds,
    /// When its first member was sent.
    sent: Seconds,
    /// When its last member was, and the last of the unit before it.
    last_sent: Seconds,
    sent_before: Seconds,
    answered: Seconds,
    count: f64,
    /// What they are answers to.
    asked: RequestSum,
    stretch: usize,
    /// Requests outstanding at the server when its service began; only where it was counted.
    outstanding: f64,
    /// Connections of the server that were busy then.
    busy_lanes: usize,
    /// Requests on other connections of the server that came in the gap before it; only where they
    /// were counted.
    on_others: f64,
}

impl Unit {
    /// When its service began at the earliest.
    fn began(&self, delay: Seconds) -> Seconds {
        self.before.max((self.sent + delay).min(self.answered))
    }

    /// Its effective service time, together.
    fn effective(&self, delay: Seconds) -> Seconds {
        self.answered - self.began(delay)
    }

    /// Between the arrival of the last member of the unit before and that of its own last.
    fn gap(&self) -> Seconds {
        (self.last_sent - self.sent_before).max(0.0)
    }

    /// For how long it waited for its service to begin; negative: it found the connection idle.
    fn waited(&self, delay: Seconds) -> Seconds {
        self.before - self.sent - delay
    }

    fn found_busy(&self, delay: Seconds) -> bool {
        self.before > self.sent + delay
    }

    /// As if it had taken so many times as long as it did.
    fn scaled(&self, delay: Seconds, times: f64) -> Self {
        let began = self.began(delay);
        Self { before: began, answered: began + self.effective(delay) * times, ..*self }
    }

    /// As if its requests had been mean ones.
    fn as_if_alike(&self, delay: Seconds, requests: &ServiceByRequest) -> Self {
        self.scaled(delay, self.count / requests.times(&self.asked))
    }
}

/// Intervals in which a server answered nothing for much longer than a service takes.
#[derive(Clone, Debug, Default)]
pub(super) struct StallFit {
    /// Begin and length beyond the service times, in the order of time.
    pub(super) seen: Vec<(Seconds, Seconds)>,
    /// Share of wall time that is lost; at most 0.9.
    pub(super) lost: f64,
    /// Service time with the part of stalls that comes with requests, not with time.
    pub(super) service: Seconds,
    /// The share of them that comes with requests.
    pub(super) with_requests: f64,
}

impl StallFit {
    /// Whether there are enough to count as a property of the server.
    pub(super) fn counts(&self) -> bool {
        self.seen.len() >= 3
    }
}

/// Work that the server does for others, which nothing is seen of.
///
/// On a connection served first come first served, of which the others' requests come at a rate of
/// their own, those that came between two of ours are served between these two. So
/// `E[e | gap] = s + φ · gap`, where the gap is the time between the arrivals of the two, s what
/// the server needs for ours, and φ the share of its time that others take; whatever the law of s,
/// and also of those alone that found the connection busy, because what comes in the gap has no
/// influence on that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OthersWork {
    /// φ.
    pub(super) share: f64,
    /// Its standard error.
    error: f64,
    /// Mean gap of those that the service time is the mean of.
    pub(super) gap: Seconds,
}

impl OthersWork {
    /// From units that found their connection busy, by more than the round trip varies.
    fn of(busy: &[Unit], delay: Seconds, jitter: Seconds) -> Option<Self> {
        let sure = |unit: &&Unit| unit.waited(delay) > VARIATIONS * jitter;
        let row = |unit: &Unit| (unit.count, unit.gap() / unit.count, unit.effective(delay) / unit.count);
        let mut rows: Vec<_> =
            busy.iter().filter(sure).map(|unit| (unit.answered.floor(), row(unit))).collect();
        let rows = within_seconds(&mut rows);
        let slope = RelativeSlope::of(&rows, 1.0)?;
        let count: f64 = busy.iter().map(|unit| unit.count).sum();
        let gap = busy.iter().map(Unit::gap).sum::<f64>() / count;
        let shows = slope.z > 4.0 && slope.slope > 0.03;
        shows.then(|| Self { share: slope.slope.min(0.9), error: slope.error, gap })
    }

    /// s, where the mean service time is this.
    fn alone(&self, service: Seconds) -> Seconds {
        service - self.share * self.gap
    }

    /// The mean service time of ours when they always wait: then the gaps are those of the answers,
    /// `e = s + φ e`.
    pub(super) fn when_full(&self, service: Seconds) -> Seconds {
        (self.alone(service) / (1.0 - self.share)).max(0.3 * service)
    }
}

/// Rows of weight, regressor and value, each with its second, without what seconds differ by:
/// others may ask for more in some.
fn within_seconds(rows: &mut [(Seconds, (f64, f64, f64))]) -> Vec<(f64, f64, f64)> {
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let means = |rows: &[(Seconds, (f64, f64, f64))]| {
        let sum = |of: fn(&(f64, f64, f64)) -> f64| rows.iter().map(|row| row.1.0 * of(&row.1)).sum::<f64>();
        let weight = sum(|_| 1.0);
        (sum(|row| row.1) / weight, sum(|row| row.2) / weight)
    };
    let all = means(rows);
    let seconds = rows.chunk_by(|a, b| a.0 == b.0);
    let each = seconds.flat_map(|rows| {
        let here = means(rows);
        rows.iter().map(move |(_, row)| (row.0, row.1 - here.0 + all.0, row.2 - here.1 + all.1))
    });
    each.collect()
}

/// While a request is served others begin and end: the number busy at its begin tells its service
/// time to this share.
const SMEARED: f64 = 0.03;

/// The mean effective service time while so many connections of the server were busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct BusyLanesPoint {
    pub(super) busy: f64,
    pub(super) service: Seconds,
    pub(super) error: Seconds,
}

/// Connections of a server that shares its processors take the longer, the more of them are busy.
#[derive(Clone, Debug)]
pub(super) struct LaneCurve {
    /// The service time with 1, 2, … busy connections over its mean, as far as there are
    /// connections.
    factors: Vec<f64>,
    /// By how much the last factor is beyond the highest level seen, in logarithms.
    pub(super) beyond_seen: f64,
}

impl LaneCurve {
    /// With so many busy; 1 where that is not known.
    pub(super) fn factor(&self, busy: usize) -> f64 {
        match busy {
            0 => 1.0,
            busy => self.factors[busy.min(self.factors.len()) - 1],
        }
    }

    /// How many connections there are.
    pub(super) fn lanes(&self) -> usize {
        self.factors.len()
    }

    /// With all busy.
    pub(super) fn last(&self) -> f64 {
        self.factors[self.factors.len() - 1]
    }

    /// Through the points, straight on from the highest levels seen to all connections; none unless
    /// the rise is beyond doubt.
    pub(super) fn through(points: &[BusyLanesPoint], service: Seconds, lanes: usize) -> Option<Self> {
        let (first, top) = (points.first()?, points.last()?);
        let (slope, error) = weighted_slope(points)?;
        if slope <= 3.0 * error || slope * (top.busy - first.busy) <= 0.05 * service {
            return None;
        }
        let before = points[points.len().saturating_sub(3)];
        let rise = ((top.service - before.service) / (top.busy - before.busy)).max(0.0);
        let processors = shared_processors(points, lanes);
        let beyond = |busy: f64| match processors {
            Some(processors) => top.service * slowed(busy, processors) / slowed(top.busy, processors),
            None => top.service + rise * (busy - top.busy),
        };
        let at = |busy: f64| {
            let next = points.partition_point(|one| one.busy < busy);
            match (next.checked_sub(1).map(|place| points[place]), points.get(next)) {
                (_, Some(point)) if point.busy == busy => point.service,
                (Some(low), Some(high)) => {
                    low.service + (high.service - low.service) * (busy - low.busy) / (high.busy - low.busy)
                }
                (None, Some(point)) => point.service,
                _ => beyond(busy),
            }
        };
        let factors: Vec<f64> = (1..=lanes.max(1)).map(|busy| at(busy as f64) / service).collect();
        let beyond_seen = (factors[factors.len() - 1] * service / top.service).ln().max(0.0);
        Some(Self { factors, beyond_seen })
    }
}

/// How many times as long a service takes where so many share so many processors evenly.
fn slowed(busy: f64, processors: f64) -> f64 {
    (busy / processors).max(1.0)
}

/// Whether these, on the connections of one server, wait in one queue, first come first served.
///
/// Between two of one connection are served those of the others that came between them: with k of
/// these `E[e | k] = s (1 + k)`, whatever the law of s. Where each connection is served by itself,
/// k changes nothing.
fn is_one_queue(units: &[Unit], delay: Seconds) -> bool {
    let row = |unit: &Unit| (unit.count, unit.on_others / unit.count, unit.effective(delay) / unit.count);
    let Some(slope) = RelativeSlope::of(&units.iter().map(row).collect::<Vec<_>>(), 1.0) else {
        return false;
    };
    let answers: f64 = units.iter().map(|unit| unit.count).sum();
    let time: f64 = units.iter().map(|unit| unit.effective(delay)).sum();
    let with_none = time / answers - slope.slope * slope.at;
    let of_another = slope.slope / with_none.max(1e-12);
    slope.z > 4.0 && (ONE_QUEUE..1.0 / ONE_QUEUE).contains(&of_another)
}

/// Another connection's request takes at least this part of what an own one takes where all wait in
/// one queue, and no more than its inverse.
const ONE_QUEUE: f64 = 0.8;

/// The processors that the connections share, if that explains the points: to within twice their
/// standard error and the part of it that a busy connection before or after adds.
fn shared_processors(points: &[BusyLanesPoint], lanes: usize) -> Option<f64> {
    if points.len() < 3 {
        return None;
    }
    let error = |one: &BusyLanesPoint| one.error.hypot(SMEARED * one.service);
    let misses = |processors: f64| {
        let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), one| {
            let (times, weight) = (slowed(one.busy, processors), error(one).powi(-2));
            (above + weight * times * one.service, below + weight * times * times)
        });
        let service = above / below;
        let miss = |one: &BusyLanesPoint| (one.service - service * slowed(one.busy, processors)) / error(one);
        points.iter().map(|one| miss(one).powi(2)).sum::<f64>()
    };
    let tried = (20..=20 * lanes).map(|twentieths| f64::from(twentieths as u32) / 20.0);
    let (least, processors) =
        tried.map(|processors| (misses(processors), processors)).min_by(|a, b| a.0.total_cmp(&b.0))?;
    (least <= 4.0 * points.len() as f64).then_some(processors)
}

/// Slope of the service time over busy connections, weighted by the precision of each point, with
/// its standard error.
fn weighted_slope(points: &[BusyLanesPoint]) -> Option<(f64, f64)> {
    if points.len() < 2 {
        return None;
    }
    let weight = |one: &BusyLanesPoint| 1.0 / one.error.max(1e-12).powi(2);
    let sum =
        |of: &dyn Fn(&BusyLanesPoint) -> f64| points.iter().map(|one| weight(one) * of(one)).sum::<f64>();
    let total = sum(&|_| 1.0);
    let (x, y) = (sum(&|one| one.busy) / total, sum(&|one| one.service) / total);
    let variance = sum(&|one| (one.busy - x).powi(2));
    let slope = sum(&|one| (one.busy - x) * (one.service - y)) / variance;
    Some((slope, variance.sqrt().recip()))
}

/// What was fitted to the answers of a server at which requests waited.
#[derive(Clone, Debug)]
pub(super) struct ServiceFit {
    /// The part of the round trip in which nothing queues.
    pub(super) delay: Seconds,
    /// Mean effective service time of those that found their connection busy, stalls apart.
    pub(super) service: Seconds,
    /// Its relative standard error.
    pub(super) error: f64,
    /// How it changes with the requests outstanding, by what was kept alone.
    pub(super) contention_now: RelativeSlope,
    /// The same with what is remembered of the server.
    pub(super) contention: RelativeSlope,
    /// How it changes with the bytes.
    pub(super) bytes: Option<RelativeSlope>,
    /// How it depends on what is asked.
    pub(super) requests: ServiceByRequest,
    /// What the server does for others meanwhile.
    pub(super) others: Option<OthersWork>,
    /// How many times as long a service takes in the mean over time as in that over those that
    /// waited, where the speed goes up and down.
    pub(super) over_time: f64,
    pub(super) stalls: StallFit,
    /// How the service time depends on how many connections of the server are busy.
    pub(super) by_busy_lanes: Option<LaneCurve>,
    /// Mean of what the round trip varies by, where nothing waits.
    pub(super) jitter: Seconds,
    /// Effective service times of requests that found their connection busy, as if they had the
    /// mean bytes of their operation: the law of service.
    pub(super) law: Vec<Seconds>,
    /// Where in it writes begin, which follow the reads; none where they do not differ.
    pub(super) writes_from: Option<usize>,
    /// Requests that found their connection busy.
    pub(super) waited: usize,
    /// The share of those whose answer came in one read with others': the server or the loop takes
    /// several at once.
    pub(super) together: f64,
    /// Requests that found it idle.
    pub(super) idle: usize,
    /// Different seconds in which there were any.
    pub(super) seconds: usize,
    /// Whether idle requests were answered much quicker than busy ones.
    pub(super) allowance: bool,
    /// Whether the longest services end with the period of a processor quota.
    pub(super) quota: bool,
}

impl ServiceFit {
    /// The mean service time without what the server does for others meanwhile, where that shows.
    pub(super) fn own_service(&self) -> Seconds {
        self.others.map_or(self.service, |others| others.alone(self.service).max(0.3 * self.service))
    }

    /// The relative standard error of that.
    pub(super) fn own_error(&self) -> f64 {
        let Some(others) = self.others else { return self.error };
        (self.error * self.service).hypot(others.error * others.gap) / self.own_service()
    }

    /// The slope of the service time over what is outstanding, where it is beyond doubt and worth
    /// it.
    fn by_depth(&self) -> Option<RelativeSlope> {
        let slope = self.contention;
        let tells = (slope.z > 2.5 || slope.z < -4.0) && slope.slope.abs() * (DEEP - slope.at) > 0.03;
        tells.then_some(slope)
    }

    /// The same where it grows. Where busy connections explain it, it is not counted twice.
    pub(super) fn grows_with_depth(&self) -> Option<RelativeSlope> {
        self.by_depth().filter(|slope| slope.slope > 0.0 && self.by_busy_lanes.is_none())
    }

    /// The same where it falls.
    pub(super) fn falls_with_depth(&self) -> Option<RelativeSlope> {
        self.by_depth().filter(|slope| slope.slope < 0.0)
    }
}

/// The answers of a server, and which of them found their connection busy.
struct Served {
    units: Vec<Unit>,
    delay: Seconds,
    /// Whether idle requests were answered much quicker than busy ones.
    allowance: bool,
    long: LongUnits,
    /// The places of units that found their connection busy and are no stalls.
    busy: Vec<usize>,
    /// Answers in those.
    waited: f64,
    /// Their mean effective service time.
    service: Seconds,
}

impl Served {
    /// Of what was kept of a server; none where too few waited.
    fn of(kept: &Kept, number: usize, parts: &[&KeptPart]) -> Option<Self> {
        let (units, (delay, allowance), waited) = waited(kept, number, parts);
        if waited < 150.0 {
            return None;
        }
        let long = long_units(kept, number, &units, delay);
        let clean = |unit: &Unit| unit.found_busy(delay) && !long.is_long(unit, delay);
        let busy: Vec<usize> = (0..units.len()).filter(|&place| clean(&units[place])).collect();
        let waited = busy.iter().map(|&place| units[place].count).sum::<f64>();
        if waited < 100.0 {
            return None;
        }
        let sum: f64 = busy.iter().map(|&place| units[place].effective(delay)).sum();
        Some(Self { units, delay, allowance, long, busy, waited, service: sum / waited })
    }

    fn busy_units(&self) -> impl Iterator<Item = &Unit> {
        self.busy.iter().map(|&place| &self.units[place])
    }

    /// What each of the busy was asked, and how long it took.
    fn rows(&self) -> Vec<(RequestSum, Seconds)> {
        self.busy_units().map(|unit| (unit.asked, unit.effective(self.delay))).collect()
    }

    /// The relative standard error of the service time, and in how many seconds requests waited.
    fn error(&self, service: Seconds, requests: &ServiceByRequest) -> (f64, usize) {
        let times = self
            .busy_units()
            .map(|unit| (unit.answered, unit.effective(self.delay), requests.times(&unit.asked)));
        error_by_seconds(times, service)
    }

    /// What the round trip varies by, in the mean, of requests that found the server idle; and how
    /// many did.
    fn jitter(&self, requests: &ServiceByRequest) -> (Seconds, usize) {
        let Self { delay, service, .. } = *self;
        let idle = self.units.iter().filter(|one| !one.found_busy(delay) && !self.long.is_long(one, delay));
        let idle: Vec<Seconds> = idle
            .filter(|one| one.count == 1.0)
            .map(|one| one.answered - one.sent - service * requests.times(&one.asked))
            .collect();
        let jitter = mean(idle.iter().copied()) - delay;
        (if idle.len() > 50 { jitter.max(0.0) } else { 0.0 }, idle.len())
    }
}

/// How the service times of a server depend on what is asked.
pub(super) fn service_by_request(kept: &Kept, number: usize, parts: &[&KeptPart]) -> ServiceByRequest {
    let served = Served::of(kept, number, parts);
    served.map_or(ServiceByRequest::ALIKE, |served| ServiceByRequest::fit(&served.rows(), served.service).0)
}

/// Whether a server serves all its connections one after the other.
pub(super) fn serves_one_queue(kept: &Kept, number: usize, parts: &[&KeptPart]) -> bool {
    let Some(mut served) = Served::of(kept, number, parts) else { return false };
    let (requests, _) = ServiceByRequest::fit(&served.rows(), served.service);
    count_on_others(kept, number, &mut served.units, served.delay);
    let alike: Vec<Unit> =
        served.busy_units().map(|unit| unit.as_if_alike(served.delay, &requests)).collect();
    is_one_queue(&alike, served.delay)
}

/// The mean service time of a server, if its requests were those whose mean `requests` are
/// multiples of, with its relative standard error.
pub(super) fn speed(
    kept: &Kept,
    number: usize,
    parts: &[&KeptPart],
    requests: &ServiceByRequest,
) -> Option<(Seconds, f64)> {
    let served = Served::of(kept, number, parts)?;
    let times: f64 = served.busy_units().map(|unit| requests.times(&unit.asked)).sum();
    let service = served.service * served.waited / times;
    Some((service, served.error(service, requests).0))
}

/// Fits a server on each of whose connections requests wait; none where too few did.
pub(super) fn service(kept: &Kept, number: usize, parts: &[&KeptPart]) -> Option<ServiceFit> {
    let mut served = Served::of(kept, number, parts)?;
    let Served { delay, service, waited, allowance, .. } = served;
    let several = served.busy_units().map(|unit| unit.count).filter(|&count| count > 1.0);
    let together = several.sum::<f64>() / waited;
    let stalls = stalls(kept, number, &served.units, delay, service, &served.long);
    count_outstanding(kept, number, &mut served.units, delay);
    let (requests, bytes) = ServiceByRequest::fit(&served.rows(), service);
    let (jitter, idle) = served.jitter(&requests);
    let (error, seconds) = served.error(service, &requests);
    let busy: Vec<Unit> = served.busy_units().copied().collect();
    let alike: Vec<Unit> = busy.iter().map(|unit| unit.as_if_alike(delay, &requests)).collect();
    let curve = LaneCurve::through(&by_busy_lanes(&alike, delay), service, kept.lanes[number]);
    // What busy connections explain is not explained by depth again.
    let factor = |unit: &Unit| curve.as_ref().map_or(1.0, |curve| curve.factor(unit.busy_lanes));
    let alike: Vec<Unit> = alike.iter().map(|unit| unit.scaled(delay, 1.0 / factor(unit))).collect();
    let others = if together > 0.1 { None } else { OthersWork::of(&alike, delay, jitter) };
    let answers = alike.iter().map(|unit| (unit.answered, unit.effective(delay) / unit.count));
    let over_time = speed::over_time(&mut answers.collect::<Vec<_>>());
    let sure = (VARIATIONS * jitter).max(SURELY_WAITED * service);
    let contention = by_outstanding(&alike, (delay, sure), service, others, over_time < 1.0)
        .unwrap_or(RelativeSlope { error: 9.0, ..RelativeSlope::default() });
    // Where requests take the less time the more wait, gaps say nothing of others.
    let others = others.filter(|_| contention.z >= -2.5);
    // What is left is the law of a single service.
    let even: Vec<Unit> = busy.iter().map(|unit| unit.scaled(delay, 1.0 / factor(unit))).collect();
    let (law, writes_from) = law(&even, delay, service, &requests, others);
    Some(ServiceFit {
        delay,
        service,
        error,
        contention_now: contention,
        contention,
        bytes,
        requests,
        others,
        over_time,
        stalls,
        law,
        writes_from,
        by_busy_lanes: curve,
        jitter,
        quota: stops_with_a_period(&served.units, delay, service),
        waited: waited as usize,
        together,
        idle,
        seconds,
        allowance,
    })
}

/// The answers of a server, their delay with whether idle requests were answered much quicker, and
/// how many found their connection busy.
fn waited(kept: &Kept, number: usize, parts: &[&KeptPart]) -> (Vec<Unit>, (Seconds, bool), f64) {
    let units = units(kept, number);
    let mut times: Vec<Seconds> = parts.iter().map(|one| one.answered - one.sent).collect();
    let shortest = quantile(&mut times, 0.002);
    let delay = delay(kept, number, &units, shortest);
    let waited = units.iter().filter(|one| one.found_busy(delay.0)).map(|one| one.count).sum();
    (units, delay, waited)
}

/// The share of a server's answers that found their connection busy, and two standard errors more.
pub(super) fn share_found_busy(kept: &Kept, number: usize, parts: &[&KeptPart]) -> f64 {
    let (.., waited) = waited(kept, number, parts);
    // Of none at all, three may be expected.
    (waited + 2.0 * waited.sqrt() + 3.0) / parts.len().max(1) as f64
}

/// The units of one server, connection by connection within each stretch.
fn units(kept: &Kept, number: usize) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut parts: Vec<KeptPart> = Vec::new();
    for (place, stretch) in kept.stretches.iter().enumerate() {
        parts.clear();
        parts.extend(kept.parts_at(stretch, number));
        parts.sort_by(|a, b| {
            a.lane.cmp(&b.lane).then(a.answered.total_cmp(&b.answered)).then(a.sent.total_cmp(&b.sent))
        });
        let mut last: Option<Unit> = None;
        for part in &parts {
            match &mut last {
                Some(unit) if unit.lane == part.lane && part.answered - unit.answered < 1e-9 => {
                    unit.count += 1.0;
                    unit.asked.add(&RequestSum::of(part));
                    unit.sent = unit.sent.min(part.sent);
                    unit.last_sent = unit.last_sent.max(part.sent);
                    continue;
                }
                _ => {}
            }
            let unknown = (f64::NEG_INFINITY, f64::NEG_INFINITY);
            let (before, sent_before) = match last.take() {
                Some(unit) => {
                    let ended = (unit.answered, unit.last_sent);
                    if unit.before > f64::NEG_INFINITY {
                        units.push(unit);
                    }
                    if unit.lane == part.lane { ended } else { unknown }
                }
                None => unknown,
            };
            last = Some(Unit {
                lane: part.lane,
                before,
                sent: part.sent,
                last_sent: part.sent,
                sent_before,
                answered: part.answered,
                count: 1.0,
                asked: RequestSum::of(part),
                stretch: place,
                outstanding: 0.0,
                busy_lanes: 0,
                on_others: 0.0,
            });
        }
        units.extend(last.filter(|unit| unit.before > f64::NEG_INFINITY));
    }
    units
}

/// The delay for which units that found their connection idle take as long as those that found it
/// busy, and whether idle ones are answered much quicker even without any delay.
///
/// Means are compared whose highest two fifths count as the 60th percentile: stops and stalls,
/// which hit the idle and the busy differently, must not bend the delay.
///
/// Reads are compared with reads, because those that found it busy may be of a time with more
/// writes. Connections of one server may share its processors: then those are compared that met as
/// many other connections busy, because a request that found its own connection busy is likely to
/// have found the others so.
fn delay(kept: &Kept, number: usize, units: &[Unit], shortest: Seconds) -> (Seconds, bool) {
    let means = |delay: Seconds| match kept.lanes[number] {
        2..=MOST_LANES => matched_means(kept, number, units, delay),
        _ => {
            let by_operation = units.iter().map(|unit| (unit, usize::from(unit.asked.writes > 0.0)));
            let all = || idle_and_busy(units.iter().map(|unit| (unit, 0)), delay, 50);
            average_means(&idle_and_busy(by_operation, delay, 50)).or_else(|| average_means(&all()))
        }
    };
    let Some((idle, busy)) = means(0.0) else { return (0.0, false) };
    if idle <= busy {
        return (0.0, idle < 0.6 * busy);
    }
    if means(shortest).is_some_and(|(idle, busy)| idle > busy) {
        return (shortest, false);
    }
    let (mut low, mut high) = (0.0, shortest);
    for _ in 0..14 {
        let middle = 0.5 * (low + high);
        match means(middle) {
            Some((idle, busy)) if idle > busy => low = middle,
            _ => high = middle,
        }
    }
    (0.5 * (low + high), false)
}

/// Mean effective service times of units that found their connection idle and busy, group by group,
/// with the number in the smaller of the two; groups with fewer than `least` in either are left
/// out.
fn idle_and_busy<'a>(
    units: impl Iterator<Item = (&'a Unit, usize)>,
    delay: Seconds,
    least: usize,
) -> Vec<(f64, (f64, f64))> {
    let mut groups: Vec<[Vec<f64>; 2]> = Vec::new();
    for (unit, group) in units {
        if groups.len() <= group {
            groups.resize_with(group + 1, Default::default);
        }
        groups[group][usize::from(unit.found_busy(delay))].push(unit.effective(delay) / unit.count);
    }
    groups.retain(|[idle, busy]| idle.len() >= least && busy.len() >= least);
    groups
        .iter_mut()
        .map(|[idle, busy]| (idle.len().min(busy.len()) as f64, (lower_mean(idle), lower_mean(busy))))
        .collect()
}

/// The same for a server of several connections, groups being those that met as many connections
/// busy, averaged by the number of pairs.
fn matched_means(kept: &Kept, number: usize, units: &[Unit], delay: Seconds) -> Option<(f64, f64)> {
    let mut of: Option<(usize, BusyIntervals)> = None;
    let with_level = units.iter().map(|unit| {
        if of.as_ref().is_none_or(|(place, _)| *place != unit.stretch) {
            let stretch = &kept.stretches[unit.stretch];
            of = Some((unit.stretch, BusyIntervals::of(kept, stretch, number, delay)));
        }
        let level = of.as_ref().map_or(0, |(_, lanes)| lanes.busy_at(unit.began(delay)));
        (unit, level)
    });
    average_means(&idle_and_busy(with_level, delay, 25))
}

/// The means of all groups, by the number of pairs; none of fewer than 50.
fn average_means(groups: &[(f64, (f64, f64))]) -> Option<(f64, f64)> {
    let pairs: f64 = groups.iter().map(|(pairs, _)| pairs).sum();
    let sum =
        |of: &dyn Fn((f64, f64)) -> f64| groups.iter().map(|(pairs, means)| pairs * of(*means)).sum::<f64>();
    (pairs >= 50.0).then(|| (sum(&|means| means.0) / pairs, sum(&|means| means.1) / pairs))
}

fn lower_mean(values: &mut [f64]) -> f64 {
    let most = quantile(values, 0.6);
    mean(values.iter().map(|value| value.min(most)))
}

/// Which units are stalls: long ones during which no other connection of the server was answered.
struct LongUnits {
    beyond: Seconds,
    per_answer: Seconds,
    /// When the server answered on any connection, stretch by stretch; empty where there is one.
    answered: Vec<Vec<Seconds>>,
}

impl LongUnits {
    fn is_long(&self, unit: &Unit, delay: Seconds) -> bool {
        unit.effective(delay) > self.beyond + self.per_answer * unit.count
            && self.all_stood_still(unit, delay)
    }

    fn all_stood_still(&self, unit: &Unit, delay: Seconds) -> bool {
        let Some(answered) = self.answered.get(unit.stretch) else { return true };
        let length = unit.effective(delay);
        // What was under way when it began may still come, and what comes with its end.
        times_by(answered, unit.answered - 0.05 * length)
            == times_by(answered, unit.began(delay) + 0.3 * length)
    }
}

fn long_units(kept: &Kept, number: usize, units: &[Unit], delay: Seconds) -> LongUnits {
    let mut each: Vec<f64> = units
        .iter()
        .filter(|one| one.found_busy(delay))
        .map(|one| one.effective(delay) / one.count)
        .collect();
    let median = quantile(&mut each, 0.5).max(1e-9);
    let base = mean(each.iter().map(|one| one.min(30.0 * median))).max(median);
    let several = kept.lanes[number] > 1;
    let answered = kept.stretches.iter().filter(|_| several).map(|stretch| {
        let mut answered: Vec<_> = kept.parts_at(stretch, number).map(|one| one.answered).collect();
        answered.sort_by(f64::total_cmp);
        answered
    });
    LongUnits { beyond: (25.0 * base).max(1e-3), per_answer: 3.0 * base, answered: answered.collect() }
}

fn stalls(
    kept: &Kept,
    number: usize,
    units: &[Unit],
    delay: Seconds,
    service: Seconds,
    long: &LongUnits,
) -> StallFit {
    let mut stalled: Vec<&Unit> = units.iter().filter(|one| long.is_long(one, delay)).collect();
    stalled.sort_by(|a, b| a.answered.total_cmp(&b.answered));
    let beyond = |unit: &Unit| (unit.effective(delay) - service * unit.count).max(0.0);
    let seen: Vec<_> = stalled.iter().map(|one| (one.began(delay), beyond(one))).collect();
    let mut stalls = StallFit { seen, lost: 0.0, service, with_requests: 0.0 };
    if !stalls.counts() {
        return stalls;
    }
    // Lost time of a second = α · what was kept of it + β · its answers.
    let mut rows = vec![(0.0, 0.0, 0.0); kept.span.ceil() as usize + 1];
    for stretch in &kept.stretches {
        let mut from = stretch.from;
        while from < stretch.to {
            let to = (from.floor() + 1.0).min(stretch.to);
            rows[from as usize].0 += to - from;
            from = to;
        }
    }
    for unit in units {
        rows[unit.answered.max(0.0) as usize].1 += unit.count;
    }
    for unit in &stalled {
        rows[unit.answered.max(0.0) as usize].2 += beyond(unit);
    }
    let (alpha, beta) = lost_time(&rows);
    let together = caught_up_at_once(kept, number, &stalled, delay, service);
    stalls.lost = (alpha * (1.0 - together)).min(0.9);
    stalls.service = service + beta;
    stalls.with_requests = with_requests(kept, &stalls.seen);
    stalls
}

/// Which share of the stalls comes with requests, as a garbage collector's, and not with time: from
/// the rate of arrivals around them, which is on average that of any moment where they come with
/// time, and that of any request where they come with requests. Zero where the rate varies too
/// little to tell.
fn with_requests(kept: &Kept, seen: &[(Seconds, Seconds)]) -> f64 {
    // Five seconds around each second; of 20 slots each.
    let around = |second: usize| {
        let slots = (second.saturating_sub(2) * 20)..((second + 3) * 20);
        let slots = kept.arrivals.get(slots.start..slots.end.min(kept.arrivals.len())).unwrap_or(&[]);
        mean(slots.iter().copied()).max(1e-6).ln()
    };
    let mut logs = Vec::new();
    for stretch in &kept.stretches {
        logs.extend((stretch.from as usize..stretch.to.ceil() as usize).map(around));
    }
    let of_time = mean(logs.iter().copied());
    let sum: f64 = logs.iter().map(|log| log.exp()).sum();
    let of_requests = logs.iter().map(|log| log.exp() * log).sum::<f64>() / sum.max(1e-12);
    let spread = mean(logs.iter().map(|log| (log - of_time).powi(2))).sqrt();
    let apart = of_requests - of_time;
    if apart < spread / (seen.len() as f64).sqrt() {
        return 0.0;
    }
    let at_stalls = mean(seen.iter().map(|&(at, _)| around(at.max(0.0) as usize)));
    ((at_stalls - of_time) / apart).clamp(0.0, 1.0)
}

/// Share of wall time lost, and time lost per answer. The second is zero unless it is 2.5 standard
/// errors above.
fn lost_time(rows: &[(f64, f64, f64)]) -> (f64, f64) {
    let time: f64 = rows.iter().map(|row| row.0).sum::<f64>().max(1e-9);
    let answers: f64 = rows.iter().map(|row| row.1).sum::<f64>().max(1.0);
    let lost: f64 = rows.iter().map(|row| row.2).sum();
    let (rate, share) = (answers / time, lost / time);
    let rows: Vec<_> =
        rows.iter().filter(|row| row.0 > 0.0).map(|row| (row.0, row.1 / row.0, row.2 / row.0)).collect();
    let weighted =
        |of: &dyn Fn(&(f64, f64, f64)) -> f64| rows.iter().map(|row| row.0 * of(row)).sum::<f64>() / time;
    let variance = weighted(&|row| (row.1 - rate).powi(2)).max(1e-12);
    let slope = weighted(&|row| (row.1 - rate) * (row.2 - share)) / variance;
    let spread = weighted(&|row| (row.2 - share).powi(2)).sqrt();
    let error = spread / (variance * rows.len() as f64).sqrt().max(1e-12);
    if slope <= 2.5 * error {
        return (share, 0.0);
    }
    let per_answer = slope.min(lost / answers);
    (((lost - per_answer * answers) / time).max(0.0), per_answer)
}

/// After a stall the backlog is either answered one by one (the time is lost) or at once (it was a
/// delay, and cost nothing): which share of it came within a tenth of the stall, beyond what the
/// service time explains.
fn caught_up_at_once(kept: &Kept, number: usize, stalled: &[&Unit], delay: Seconds, service: Seconds) -> f64 {
    let (mut quick, mut backlog_sum) = (0.0, 0.0);
    let mut events = 0;
    let mut of: Option<(usize, StretchTimes)> = None;
    for unit in stalled {
        if of.as_ref().is_none_or(|(place, _)| *place != unit.stretch) {
            of = Some((unit.stretch, StretchTimes::of(kept, &kept.stretches[unit.stretch], number, delay)));
        }
        let Some((_, times)) = &of else { continue };
        let length = unit.effective(delay);
        let answered = times.answered_by(unit.answered);
        let backlog = times.arrived_by(unit.answered).saturating_sub(answered) as f64 + unit.count;
        if backlog < 3.0 {
            continue;
        }
        let soon = times.answered_by(unit.answered + 0.1 * length) as f64 - answered as f64 + unit.count;
        let explained = (0.1 * length / service).min(backlog);
        quick += soon.min(backlog) - explained;
        backlog_sum += backlog;
        events += 1;
    }
    if events < 3 { 0.0 } else { (quick / backlog_sum).clamp(0.0, 1.0) }
}

/// When the requests of one stretch arrived at a server and were answered, each in order.
struct StretchTimes {
    arrived: Vec<Seconds>,
    answered: Vec<Seconds>,
}

impl StretchTimes {
    fn of(kept: &Kept, stretch: &KeptStretch, number: usize, delay: Seconds) -> Self {
        let parts = || kept.parts_at(stretch, number);
        let mut arrived: Vec<_> = parts().map(|one| (one.sent + delay).min(one.answered)).collect();
        let mut answered: Vec<_> = parts().map(|one| one.answered).collect();
        arrived.sort_by(f64::total_cmp);
        answered.sort_by(f64::total_cmp);
        Self { arrived, answered }
    }

    fn arrived_by(&self, at: Seconds) -> usize {
        times_by(&self.arrived, at)
    }

    fn answered_by(&self, at: Seconds) -> usize {
        times_by(&self.answered, at)
    }
}

/// How many of these times, which are in order, are not after that one.
fn times_by(times: &[Seconds], at: Seconds) -> usize {
    times.partition_point(|&one| one <= at)
}

/// Counts what came on other connections before each unit.
fn count_on_others(kept: &Kept, number: usize, units: &mut [Unit], delay: Seconds) {
    for units in units.chunk_by_mut(|one, next| one.stretch == next.stretch) {
        let stretch = &kept.stretches[units[0].stretch];
        let times = StretchTimes::of(kept, stretch, number, delay);
        let mut by_lane: Vec<Vec<Seconds>> = vec![Vec::new(); kept.lanes[number]];
        for part in kept.parts_at(stretch, number) {
            by_lane[part.lane as usize].push((part.sent + delay).min(part.answered));
        }
        by_lane.iter_mut().for_each(|arrived| arrived.sort_by(f64::total_cmp));
        for unit in units {
            let (from, to) = (unit.sent_before + delay, unit.last_sent + delay);
            // What was sent in one write has one stamp, and may be answered one by one.
            let between = |arrived: &[Seconds]| times_by(arrived, to).saturating_sub(times_by(arrived, from));
            let own = between(&by_lane[unit.lane as usize]);
            unit.on_others = between(&times.arrived).saturating_sub(own) as f64;
        }
    }
}

/// Counts what was outstanding at the server when each unit's service began, and on how many
/// connections. Not at the end of a stretch, where some of it was replied to later.
fn count_outstanding(kept: &Kept, number: usize, units: &mut [Unit], delay: Seconds) {
    for units in units.chunk_by_mut(|one, next| one.stretch == next.stretch) {
        let stretch = &kept.stretches[units[0].stretch];
        let times = StretchTimes::of(kept, stretch, number, delay);
        let lanes = BusyIntervals::of(kept, stretch, number, delay);
        let longest = kept.parts_at(stretch, number).map(|one| one.answered - one.sent).fold(0.0, f64::max);
        let whole = stretch.to - longest.min(0.25 * (stretch.to - stretch.from));
        for unit in units {
            let began = unit.began(delay);
            if began < whole {
                let outstanding = times.arrived_by(began).saturating_sub(times.answered_by(began));
                unit.outstanding = outstanding.max(1) as f64;
                unit.busy_lanes = lanes.busy_at(began);
            }
        }
    }
}

/// More connections than this are not told apart.
const MOST_LANES: usize = 64;

/// When each connection of a server was busy, in one stretch.
struct BusyIntervals(Vec<Vec<(Seconds, Seconds)>>);

impl BusyIntervals {
    fn of(kept: &Kept, stretch: &KeptStretch, number: usize, delay: Seconds) -> Self {
        let lanes = kept.lanes[number];
        if !(2..=MOST_LANES).contains(&lanes) {
            return Self(Vec::new());
        }
        let mut intervals = vec![Vec::new(); lanes];
        for part in kept.parts_at(stretch, number) {
            intervals[part.lane as usize].push(((part.sent + delay).min(part.answered), part.answered));
        }
        for lane in &mut intervals {
            lane.sort_by(|a: &(f64, f64), b| a.0.total_cmp(&b.0));
            lane.dedup_by(|next, last| {
                let joins = next.0 <= last.1;
                if joins {
                    last.1 = last.1.max(next.1);
                }
                joins
            });
        }
        Self(intervals)
    }

    fn busy_at(&self, at: Seconds) -> usize {
        let is_busy = |lane: &&Vec<(Seconds, Seconds)>| {
            let begun = lane.partition_point(|one| one.0 <= at);
            begun > 0 && lane[begun - 1].1 > at
        };
        self.0.iter().filter(is_busy).count()
    }
}

/// How the effective service time per answer changes with what is outstanding at the server. Where
/// it swings, within each second: in some, others may ask for more, so that more wait and each
/// takes longer. Where others' work shows in the gaps, it is the slope beside that on the gap
/// (theorem of Frisch, Waugh and Lovell): short gaps make deep queues. Those that waited for less
/// than `sure` may have found the server idle: their way there, which varies, would count as
/// service at the least depth.
fn by_outstanding(
    busy: &[Unit],
    (delay, sure): (Seconds, Seconds),
    service: Seconds,
    others: Option<OthersWork>,
    swings: bool,
) -> Option<RelativeSlope> {
    let counted: Vec<&Unit> = busy.iter().filter(|one| one.outstanding > 0.0).collect();
    let surely = |one: &&&Unit| one.waited(delay) > sure;
    let certain: Vec<&Unit> = counted.iter().filter(surely).copied().collect();
    let counted = if certain.len() > ENOUGH_CERTAIN { certain } else { counted };
    let within = |x: &dyn Fn(&Unit) -> f64, y: &dyn Fn(&Unit) -> f64| {
        let row = |one: &&Unit| (one.answered.floor(), (one.count, x(one), y(one)));
        within_seconds(&mut counted.iter().map(row).collect::<Vec<_>>())
    };
    let depth = |one: &Unit| one.outstanding.min(DEEP);
    let time = |one: &Unit| one.effective(delay) / one.count;
    if others.is_none() {
        let row = |one: &&Unit| (one.count, depth(one), time(one));
        let rows = if swings { within(&depth, &time) } else { counted.iter().map(row).collect() };
        return RelativeSlope::of(&rows, service);
    }
    let gap = |one: &Unit| one.gap() / one.count;
    let on_gap = |of: &dyn Fn(&Unit) -> f64| Some(RelativeSlope::of(&within(&gap, of), 1.0)?.slope);
    let (depth_on_gap, time_on_gap) = (on_gap(&depth)?, on_gap(&time)?);
    let rest_of_depth = |one: &Unit| depth(one) - depth_on_gap * gap(one);
    let rest_of_time = |one: &Unit| time(one) - time_on_gap * gap(one);
    let slope = RelativeSlope::of(&within(&rest_of_depth, &rest_of_time), service)?;
    let count: f64 = counted.iter().map(|one| one.count).sum();
    let at = counted.iter().map(|one| one.count * depth(one)).sum::<f64>() / count;
    Some(RelativeSlope { at, ..slope })
}

fn by_busy_lanes(busy: &[Unit], delay: Seconds) -> Vec<BusyLanesPoint> {
    let most = busy.iter().map(|one| one.busy_lanes).max().unwrap_or(0);
    let point = |lanes: usize| {
        let at: Vec<&Unit> = busy.iter().filter(|one| one.busy_lanes == lanes).collect();
        let count: f64 = at.iter().map(|one| one.count).sum();
        if count < 60.0 {
            return None;
        }
        let service = at.iter().map(|one| one.effective(delay)).sum::<f64>() / count;
        let each = |one: &&Unit| one.count * (one.effective(delay) / one.count - service).powi(2);
        let spread = (at.iter().map(each).sum::<f64>() / count).sqrt();
        Some(BusyLanesPoint { busy: lanes as f64, service, error: spread / count.sqrt() * 1.5 })
    };
    if most < 2 { Vec::new() } else { (1..=most).filter_map(point).collect() }
}

/// Ratio estimator by blocks of a second, because times of one second are alike: relative standard
/// error, and the number of blocks. Each observation has when it ended, how long it took, and how
/// much it counts; a count of one takes `service` in the mean.
pub(super) fn error_by_seconds(
    times: impl Iterator<Item = (Seconds, Seconds, f64)>,
    service: Seconds,
) -> (f64, usize) {
    let mut blocks: Vec<(i64, f64, f64)> = Vec::new();
    let mut by_time: Vec<_> = times.collect();
    by_time.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (ended, time, count) in by_time {
        let second = ended.floor() as i64;
        match blocks.last_mut() {
            Some(block) if block.0 == second => (block.1, block.2) = (block.1 + time, block.2 + count),
            _ => blocks.push((second, time, count)),
        }
    }
    let count: f64 = blocks.iter().map(|block| block.2).sum();
    let squares: f64 = blocks.iter().map(|block| (block.1 - service * block.2).powi(2)).sum();
    let number = blocks.len() as f64;
    if blocks.len() <= 2 {
        return (f64::INFINITY, blocks.len());
    }
    ((squares * number / (number - 1.0)).sqrt() / count / service, blocks.len())
}

/// Effective service times, of each answer, as if requests had the mean bytes of their operation
/// and came with the mean gap: those of reads, then those of writes, with where these begin; all as
/// they came where the two do not differ.
fn law(
    busy: &[Unit],
    delay: Seconds,
    service: Seconds,
    requests: &ServiceByRequest,
    others: Option<OthersWork>,
) -> (Vec<Seconds>, Option<usize>) {
    // What answers that came in one read took is shared out by what each takes in the mean.
    let answers = |unit: &Unit, many: f64, each: f64| {
        let by_others = others.map_or(0.0, |others| others.share * (unit.gap() - others.gap * unit.count));
        let time = unit.effective(delay) - service * requests.by_bytes(&unit.asked) - by_others;
        let one = (time * each / requests.by_operations(&unit.asked)).max(0.0);
        std::iter::repeat_n(one, many as usize)
    };
    let Some([read, write]) = requests.by_operation else {
        return (busy.iter().flat_map(|unit| answers(unit, unit.count, 1.0)).collect(), None);
    };
    let reads = busy.iter().flat_map(|unit| answers(unit, unit.asked.reads, read));
    let mut law: Vec<Seconds> = reads.collect();
    let writes_from = law.len();
    law.extend(busy.iter().flat_map(|unit| answers(unit, unit.asked.writes, write)));
    (law, Some(writes_from))
}

/// The period in which Linux accounts for processor quotas, in seconds, unless configured.
const QUOTA_PERIOD: Seconds = 0.1;

/// Whether the longest services end at one phase of the period of processor quotas: the server is
/// stopped when its quota is used up, and goes on when the next period begins.
///
/// Rayleigh's test of uniform phases: n R² is exponential with mean one where there is no period.
fn stops_with_a_period(units: &[Unit], delay: Seconds, service: Seconds) -> bool {
    let mut long: Vec<(f64, Seconds)> = units
        .iter()
        .filter(|one| one.effective(delay) > 4.0 * service * one.count)
        .map(|one| (one.effective(delay) / one.count, one.answered))
        .collect();
    long.sort_by(|a, b| b.0.total_cmp(&a.0));
    [6, 8, 12, 16, 32, 64].into_iter().filter(|&count| count <= long.len()).any(|count| {
        let (sine, cosine) = long[..count].iter().fold((0.0, 0.0), |sum, one| {
            let angle = one.1 / QUOTA_PERIOD * std::f64::consts::TAU;
            (sum.0 + angle.sin(), sum.1 + angle.cos())
        });
        (sine * sine + cosine * cosine) / count as f64 > 5.7
    })
}

#[cfg(test)]
mod tests {
    use super::super::kept::KeptRequest;
    use super::*;

    #[test]
    fn what_one_write_sent_on_a_connection_has_not_come_on_another() {
        // On the first connection one request, and then three in one write; on the second one two
        // that come between.
        let sent = [(0, 0.0), (1, 1.0), (1, 2.0), (0, 3.0), (0, 3.0), (0, 3.0)];
        let mut kept = Kept { lanes: vec![2], ..Kept::default() };
        for (place, (lane, sent)) in sent.into_iter().enumerate() {
            let answered = 10.0 + place as f64;
            kept.parts.push(KeptPart {
                server: 0,
                lane,
                sent,
                answered,
                bytes: 0.0,
                is_write: false,
                is_late: false,
                in_loop: lane as u16,
            });
            kept.requests.push(KeptRequest {
                received: sent,
                response: answered - sent,
                replied: answered,
                hold: answered - sent,
                waited: false,
                own: 0.0,
                parts: place..place + 1,
                late: false,
                in_loop: lane as u16,
            });
        }
        kept.stretches.push(KeptStretch { from: 0.0, to: 20.0, requests: 0..sent.len() });
        let mut units = units(&kept, 0);
        count_on_others(&kept, 0, &mut units, 0.5);
        let first = units.iter().filter(|unit| unit.lane == 0);
        assert_eq!(first.map(|unit| unit.on_others).collect::<Vec<_>>(), [2.0, 0.0, 0.0]);
    }
}
