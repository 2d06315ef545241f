//! What the answers of one server say: the delay outside its queue, its service time while it is
//! busy, and what changes that time.
//!
//! The unit of observation is the set of answers that one read brought: they share a stamp, so only
//! their time together is known. A unit found its connection busy if the unit before it was
//! answered after `sent + d` of its first member.

use krarup_units::Seconds;

use super::kept::{Kept, KeptPart, KeptStretch, mean, quantile};

/// Answers at the most, at whose depth the slope of contention is evaluated: how deep the queue of
/// a server is where targets break.
pub(super) const DEEP: f64 = 14.0;

/// The answers of one read on one connection.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// When the read before it on this connection ended; minus infinity where that is not known.
    before: Seconds,
    /// When its first member was sent.
    sent: Seconds,
    answered: Seconds,
    count: f64,
    bytes: f64,
    stretch: usize,
    /// Requests outstanding at the server when its service began; only where it was counted.
    outstanding: f64,
    /// Connections of the server that were busy then.
    busy_lanes: usize,
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

    fn found_busy(&self, delay: Seconds) -> bool {
        self.before > self.sent + delay
    }
}

/// A slope relative to the mean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RelativeSlope {
    /// Change of the mean per unit of the regressor, as a share of the mean.
    pub(super) slope: f64,
    /// Slope over its standard error.
    pub(super) z: f64,
    /// Its standard error.
    pub(super) error: f64,
    /// Mean of the regressor.
    pub(super) at: f64,
    /// The regressor of late: mean over the last twentieth.
    pub(super) of_late: f64,
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
}

impl StallFit {
    /// Whether there are enough to count as a property of the server.
    pub(super) fn counts(&self) -> bool {
        self.seen.len() >= 3
    }
}

/// The mean effective service time while so many connections of the server were busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct BusyLanesPoint {
    pub(super) busy: f64,
    pub(super) service: Seconds,
    pub(super) error: Seconds,
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
    /// How it changes with the requests outstanding.
    pub(super) contention: RelativeSlope,
    /// How it changes with the bytes.
    pub(super) bytes: Option<RelativeSlope>,
    pub(super) stalls: StallFit,
    pub(super) by_busy_lanes: Vec<BusyLanesPoint>,
    /// Mean of what the round trip varies by, where nothing waits.
    pub(super) jitter: Seconds,
    /// Effective service times of requests that found their connection busy: the law of service.
    pub(super) law: Vec<Seconds>,
    /// Requests that found their connection busy.
    pub(super) waited: usize,
    /// Different seconds in which there were any.
    pub(super) seconds: usize,
    /// Whether idle requests were answered much quicker than busy ones.
    pub(super) allowance: bool,
}

/// What is known of one server.
#[derive(Clone, Debug)]
pub(super) struct ServerFit {
    /// Parts sent to it per request of all traffic.
    pub(super) share: f64,
    /// Connections to it.
    pub(super) lanes: f64,
    /// Mean time from sent to answered.
    pub(super) round_trip: Seconds,
    /// The fit, where enough requests waited.
    pub(super) fit: Option<ServiceFit>,
}

/// Fits one server.
pub(super) fn server(kept: &Kept, number: usize, lanes: f64) -> ServerFit {
    let requests = kept.requests.iter().filter(|one| !one.late).count().max(1);
    let parts: Vec<&KeptPart> = kept.parts.iter().filter(|one| one.server == number).collect();
    let share = parts.len() as f64 / requests as f64;
    let round_trip = mean(parts.iter().map(|one| one.answered - one.sent));
    let fit = (parts.len() >= 400).then(|| service(kept, number, &parts)).flatten();
    ServerFit { share, lanes, round_trip, fit }
}

fn service(kept: &Kept, number: usize, parts: &[&KeptPart]) -> Option<ServiceFit> {
    let mut units = units(kept, number);
    let mut times: Vec<Seconds> = parts.iter().map(|one| one.answered - one.sent).collect();
    let shortest = quantile(&mut times, 0.002);
    let (delay, allowance) = delay(&units, shortest);
    let waited: f64 = units.iter().filter(|one| one.found_busy(delay)).map(|one| one.count).sum();
    if waited < 150.0 {
        return None;
    }
    let long = long_units(&units, delay);
    let clean = |unit: &Unit| unit.found_busy(delay) && !long.is_long(unit, delay);
    let busy: Vec<usize> = (0..units.len()).filter(|&place| clean(&units[place])).collect();
    let waited = busy.iter().map(|&place| units[place].count).sum::<f64>();
    if waited < 100.0 {
        return None;
    }
    let sum: f64 = busy.iter().map(|&place| units[place].effective(delay)).sum();
    let service = sum / waited;
    let stalls = stalls(kept, number, &units, delay, service, &long);
    count_outstanding(kept, number, &mut units, delay);
    let busy: Vec<Unit> = busy.iter().map(|&place| units[place]).collect();
    let idle = units.iter().filter(|one| !one.found_busy(delay) && !long.is_long(one, delay));
    let idle: Vec<Seconds> = idle.filter(|one| one.count == 1.0).map(|one| one.answered - one.sent).collect();
    let jitter = if idle.len() > 50 { (mean(idle.iter().copied()) - delay - service).max(0.0) } else { 0.0 };
    let (error, seconds) = error_by_seconds(&busy, delay, service);
    Some(ServiceFit {
        delay,
        service,
        error,
        contention: slope(
            &busy,
            delay,
            service,
            |one| one.outstanding.min(40.0),
            |one| one.outstanding > 0.0,
        )
        .unwrap_or(RelativeSlope { error: 9.0, ..RelativeSlope::default() }),
        bytes: bytes_slope(&busy, delay, service),
        stalls,
        by_busy_lanes: by_busy_lanes(&busy, delay),
        jitter,
        law: law(&busy, delay),
        waited: waited as usize,
        seconds,
        allowance,
    })
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
        let mut last: Option<(u32, Unit)> = None;
        for part in &parts {
            match &mut last {
                Some((lane, unit)) if *lane == part.lane && part.answered - unit.answered < 1e-9 => {
                    unit.count += 1.0;
                    unit.bytes += part.bytes;
                    unit.sent = unit.sent.min(part.sent);
                    continue;
                }
                _ => {}
            }
            let before = match last.take() {
                Some((lane, unit)) => {
                    let answered = unit.answered;
                    if unit.before > f64::NEG_INFINITY {
                        units.push(unit);
                    }
                    if lane == part.lane { answered } else { f64::NEG_INFINITY }
                }
                None => f64::NEG_INFINITY,
            };
            let unit = Unit {
                before,
                sent: part.sent,
                answered: part.answered,
                count: 1.0,
                bytes: part.bytes,
                stretch: place,
                outstanding: 0.0,
                busy_lanes: 0,
            };
            last = Some((part.lane, unit));
        }
        units.extend(last.map(|(_, unit)| unit).filter(|unit| unit.before > f64::NEG_INFINITY));
    }
    units
}

/// The delay for which units that found their connection idle take as long as those that found it
/// busy, and whether idle ones are answered much quicker even without any delay.
///
/// Means are compared whose highest two fifths count as the 60th percentile: stops and stalls, which
/// hit the idle and the busy differently, must not bend the delay.
fn delay(units: &[Unit], shortest: Seconds) -> (Seconds, bool) {
    let (mut idle, mut busy) = (Vec::with_capacity(units.len()), Vec::with_capacity(units.len()));
    let mut means = |delay: Seconds| {
        idle.clear();
        busy.clear();
        for unit in units {
            let list = if unit.found_busy(delay) { &mut busy } else { &mut idle };
            list.push(unit.effective(delay) / unit.count);
        }
        (idle.len() >= 50 && busy.len() >= 50).then(|| (lower_mean(&mut idle), lower_mean(&mut busy)))
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

fn lower_mean(values: &mut [f64]) -> f64 {
    let most = quantile(values, 0.6);
    mean(values.iter().map(|value| value.min(most)))
}

/// From when on a unit counts as a stall.
struct LongUnits {
    beyond: Seconds,
    per_answer: Seconds,
}

impl LongUnits {
    fn is_long(&self, unit: &Unit, delay: Seconds) -> bool {
        unit.effective(delay) > self.beyond + self.per_answer * unit.count
    }
}

fn long_units(units: &[Unit], delay: Seconds) -> LongUnits {
    let mut each: Vec<f64> = units
        .iter()
        .filter(|one| one.found_busy(delay))
        .map(|one| one.effective(delay) / one.count)
        .collect();
    let median = quantile(&mut each, 0.5).max(1e-9);
    let base = mean(each.iter().map(|one| one.min(30.0 * median))).max(median);
    LongUnits { beyond: (25.0 * base).max(1e-3), per_answer: 3.0 * base }
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
    let mut stalls = StallFit { seen, lost: 0.0, service };
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
    stalls
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
        self.arrived.partition_point(|&one| one <= at)
    }

    fn answered_by(&self, at: Seconds) -> usize {
        self.answered.partition_point(|&one| one <= at)
    }
}

/// Counts what was outstanding at the server when each unit's service began, and on how many
/// connections. Not at the end of a stretch, where some of it was replied to later.
fn count_outstanding(kept: &Kept, number: usize, units: &mut [Unit], delay: Seconds) {
    let mut place = 0;
    while place < units.len() {
        let stretch_place = units[place].stretch;
        let end = place + units[place..].partition_point(|one| one.stretch == stretch_place);
        let stretch = &kept.stretches[stretch_place];
        let times = StretchTimes::of(kept, stretch, number, delay);
        let lanes = BusyIntervals::of(kept, stretch, number, delay);
        let longest = kept.parts_at(stretch, number).map(|one| one.answered - one.sent).fold(0.0, f64::max);
        let whole = stretch.to - longest.min(0.25 * (stretch.to - stretch.from));
        for unit in &mut units[place..end] {
            let began = unit.began(delay);
            if began < whole {
                let outstanding = times.arrived_by(began).saturating_sub(times.answered_by(began));
                unit.outstanding = outstanding.max(1) as f64;
                unit.busy_lanes = lanes.busy_at(began);
            }
        }
        place = end;
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

/// Least squares of the effective service time per answer on a regressor, answers as weights.
fn slope(
    busy: &[Unit],
    delay: Seconds,
    service: Seconds,
    regressor: impl Fn(&Unit) -> f64,
    counts: impl Fn(&Unit) -> bool,
) -> Option<RelativeSlope> {
    let rows: Vec<(f64, f64, f64)> = busy
        .iter()
        .filter(|one| counts(one))
        .map(|one| (one.count, regressor(one), one.effective(delay) / one.count))
        .collect();
    let weight: f64 = rows.iter().map(|row| row.0).sum();
    if weight <= 300.0 {
        return None;
    }
    let of = |value: &dyn Fn(&(f64, f64, f64)) -> f64| {
        rows.iter().map(|row| row.0 * value(row)).sum::<f64>() / weight
    };
    let (x, y) = (of(&|row| row.1), of(&|row| row.2));
    let variance = of(&|row| (row.1 - x).powi(2)).max(1e-12);
    let slope = of(&|row| (row.1 - x) * (row.2 - y)) / variance;
    // Robust to unequal spread: White's estimator.
    let residual = of(&|row| ((row.1 - x) * (row.2 - y - slope * (row.1 - x))).powi(2));
    let error = (residual / weight).sqrt() / variance;
    let late = &rows[rows.len() - (rows.len() / 20).max(50).min(rows.len())..];
    Some(RelativeSlope {
        slope: slope / service,
        z: if error > 0.0 { slope / error } else { 0.0 },
        error: error / service,
        at: x,
        of_late: mean(late.iter().map(|row| row.1)),
    })
}

fn bytes_slope(busy: &[Unit], delay: Seconds, service: Seconds) -> Option<RelativeSlope> {
    let mut by_time = busy.to_vec();
    by_time.sort_by(|a, b| a.answered.total_cmp(&b.answered));
    let each = |one: &Unit| one.bytes / one.count;
    let average = mean(by_time.iter().map(each));
    let spread = mean(by_time.iter().map(|one| (each(one) - average).powi(2))).sqrt();
    (spread > 0.05 * average).then(|| slope(&by_time, delay, service, each, |_| true)).flatten()
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

/// Ratio estimator by blocks of a second: relative standard error, and the number of blocks.
fn error_by_seconds(busy: &[Unit], delay: Seconds, service: Seconds) -> (f64, usize) {
    let mut blocks: Vec<(i64, f64, f64)> = Vec::new();
    let mut by_time: Vec<&Unit> = busy.iter().collect();
    by_time.sort_by(|a, b| a.answered.total_cmp(&b.answered));
    for unit in by_time {
        let second = unit.answered.floor() as i64;
        match blocks.last_mut() {
            Some(block) if block.0 == second => {
                block.1 += unit.effective(delay);
                block.2 += unit.count;
            }
            _ => blocks.push((second, unit.effective(delay), unit.count)),
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

fn law(busy: &[Unit], delay: Seconds) -> Vec<Seconds> {
    busy.iter()
        .flat_map(|one| std::iter::repeat_n(one.effective(delay) / one.count, one.count as usize))
        .collect()
}
