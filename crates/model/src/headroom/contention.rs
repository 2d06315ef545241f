//! How a server's service time grows with its queue, from all that was seen of it in a day: at a
//! quiet hour the queue is short, and tells little of the depth at which targets break.
//!
//! Each answer finds a slope b of the service time over the requests outstanding, as a share of the
//! mean service time, which is that at the mean depth a. So that times of day can be compared, it
//! is taken as a share of the service time of a request alone, `c = b / (1 − b (a − 1))`: other
//! requests and another speed change the service time, not its shape. Slopes are averaged by the
//! inverse of their variance, within bands of depth. Of the bands the deepest counts, and each less
//! deep one that agrees with those before it: contention may begin at a depth.

use std::collections::{BTreeMap, VecDeque};

use krarup_units::{Nanos, Stamp};

use super::service_by_request::RelativeSlope;

/// How the service time of a server grows with what is outstanding, from one answer or many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ContentionSeen {
    /// By which share of the service time of a request alone each request more lengthens it.
    slope: f64,
    /// The standard error of that.
    error: f64,
    /// Mean of the requests outstanding.
    depth: f64,
}

/// A slope takes at most this share off the service time of a request alone.
const MOST_TAKEN: f64 = 0.7;
/// Two slopes that differ by so many standard errors are two.
const APART: f64 = 3.0;
/// No slope is known to better than this: the shape of what is seen is no straight line.
const LEAST_ERROR: f64 = 0.000_5;

impl ContentionSeen {
    /// Of the slope that one answer found; none where it found none.
    fn of(found: &RelativeSlope) -> Option<Self> {
        if found.at < 1.0 || found.error <= 0.0 || found.error >= 1.0 {
            return None;
        }
        let alone = 1.0 - (found.slope * (found.at - 1.0)).min(MOST_TAKEN);
        let error = (found.error / alone.powi(2)).max(LEAST_ERROR);
        Some(Self { slope: found.slope / alone, error, depth: found.at })
    }

    fn agrees(&self, other: &Self) -> bool {
        (self.slope - other.slope).abs() <= APART * self.error.hypot(other.error)
    }

    /// As a share of the mean service time at this depth.
    fn at(&self, depth: f64) -> RelativeSlope {
        let times = (1.0 + self.slope * (depth - 1.0)).max(1.0 - MOST_TAKEN);
        let (slope, error) = (self.slope / times, self.error / times.powi(2));
        RelativeSlope { slope, z: slope / error, error, at: depth }
    }
}

/// Sums over slopes, each with the inverse of its variance as weight.
#[derive(Clone, Copy, Debug, Default)]
struct SlopeSum {
    /// How many they are.
    count: f64,
    weight: f64,
    slope: f64,
    squares: f64,
    depth: f64,
}

impl SlopeSum {
    fn add(&mut self, seen: &ContentionSeen) {
        let weight = seen.error.powi(-2);
        let slope = weight * seen.slope;
        let one = Self { count: 1.0, weight, slope, squares: slope * seen.slope, depth: weight * seen.depth };
        self.merge(&one);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.weight += other.weight;
        self.slope += other.slope;
        self.squares += other.squares;
        self.depth += other.depth;
    }

    /// Their mean; none without any.
    fn seen(&self) -> Option<ContentionSeen> {
        if self.weight <= 0.0 {
            return None;
        }
        let slope = self.slope / self.weight;
        // They may differ by more than their errors say.
        let beyond = (self.squares - self.weight * slope.powi(2)) / (self.count.max(2.0) - 1.0);
        let error = (beyond.max(1.0) / self.weight).sqrt().max(LEAST_ERROR);
        Some(ContentionSeen { slope, error, depth: self.depth / self.weight })
    }
}

/// The slope of now with what was seen `before`, by bands from the deepest on. Where that does not
/// agree at a depth that is reached now, the server has become another one, and now is what counts.
pub(super) fn with_seen_before(now: RelativeSlope, before: &[ContentionSeen]) -> RelativeSlope {
    let Some(own) = ContentionSeen::of(&now) else {
        return now;
    };
    let reached = |one: &&ContentionSeen| band(one.depth) <= band(own.depth);
    if before.iter().filter(reached).any(|one| !one.agrees(&own)) {
        return now;
    }
    let mut all: Vec<ContentionSeen> = before.iter().copied().chain([own]).collect();
    all.sort_by(|a, b| b.depth.total_cmp(&a.depth));
    let mut agreeing = SlopeSum::default();
    for one in &all {
        if agreeing.seen().is_none_or(|deeper| deeper.agrees(one)) {
            agreeing.add(one);
        }
    }
    agreeing.seen().map_or(now, |one| one.at(own.depth))
}

/// Bands of depth begin here.
const BANDS: [f64; 4] = [0.0, 2.0, 4.0, 8.0];

fn band(depth: f64) -> usize {
    BANDS.partition_point(|&begin| begin <= depth).saturating_sub(1)
}

/// What answers have found of one server in a day.
#[derive(Clone, Debug, Default)]
struct ServerMemory {
    /// The hour and what was seen in it, oldest first, by bands of depth.
    hours: VecDeque<(u64, [SlopeSum; BANDS.len()])>,
    /// What was found lately and at which moment, oldest first: the next answer may rest upon some
    /// of the same requests.
    recent: VecDeque<(Stamp, ContentionSeen)>,
}

/// As many hours are remembered.
const HOURS: u64 = 24;
const HOUR: Nanos = Nanos::from_secs(3_600);
/// Fewer new requests than this share of all that an answer rests upon are left to the next answer.
const LEAST_NEW: f64 = 0.5;

impl ServerMemory {
    /// Adds what was found in what was kept `from..at`; it counts by the share of that which is
    /// new.
    fn add(&mut self, seen: &ContentionSeen, from: Stamp, at: Stamp) {
        while let Some(&(old, seen)) = self.recent.front()
            && old <= from
        {
            self.recent.pop_front();
            self.add_to_hour(&seen, old.0 / HOUR.0);
        }
        let until = self.recent.back().map_or(Stamp(0), |(until, _)| *until);
        let length = |from: u64| at.0.saturating_sub(from) as f64;
        let new = length(from.0.max(until.0)) / length(from.0).max(1.0);
        if new >= LEAST_NEW {
            self.recent.push_back((at, ContentionSeen { error: seen.error / new.sqrt(), ..*seen }));
        }
    }

    fn add_to_hour(&mut self, seen: &ContentionSeen, hour: u64) {
        if self.hours.back().is_none_or(|(at, _)| *at != hour) {
            self.hours.push_back((hour, Default::default()));
        }
        let (_, bands) = self.hours.back_mut().expect("there is this hour");
        bands[band(seen.depth)].add(seen);
    }

    /// Leaves out what is older than a day; whether anything is left.
    fn is_left(&mut self, now: Stamp) -> bool {
        let counts = |hour: u64| hour + HOURS > now.0 / HOUR.0;
        self.hours.retain(|(hour, _)| counts(*hour));
        !self.hours.is_empty() || self.recent.back().is_some_and(|(at, _)| counts(at.0 / HOUR.0))
    }

    /// What was found in requests before this moment, one for each band of depth that was reached.
    fn seen(&self, before: Stamp) -> Vec<ContentionSeen> {
        let mut bands = [SlopeSum::default(); BANDS.len()];
        for (_, hour) in &self.hours {
            bands.iter_mut().zip(hour).for_each(|(sum, of_hour)| sum.merge(of_hour));
        }
        for (_, seen) in self.recent.iter().filter(|(at, _)| *at <= before) {
            bands[band(seen.depth)].add(seen);
        }
        bands.iter().filter_map(SlopeSum::seen).collect()
    }
}

/// What the answers of a day have found of each server, by its name.
#[derive(Clone, Debug, Default)]
pub struct HeadroomMemory {
    servers: BTreeMap<String, ServerMemory>,
}

impl HeadroomMemory {
    /// What was found of a server in requests before this moment.
    pub(super) fn of(&self, server: &str, before: Stamp) -> Vec<ContentionSeen> {
        self.servers.get(server).map(|memory| memory.seen(before)).unwrap_or_default()
    }

    /// Adds the slope that was found in what was kept of a server `from..at`.
    pub(super) fn add(&mut self, server: &str, found: &RelativeSlope, from: Stamp, at: Stamp) {
        let Some(seen) = ContentionSeen::of(found) else { return };
        self.servers.entry(server.to_owned()).or_default().add(&seen, from, at);
    }

    /// Leaves out what is older than a day, and servers of which nothing else is known.
    pub(super) fn forget(&mut self, now: Stamp) {
        self.servers.retain(|_, server| server.is_left(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(slope: f64, error: f64, at: f64) -> RelativeSlope {
        RelativeSlope { slope, z: slope / error, error, at }
    }

    #[test]
    fn a_slope_means_the_same_at_every_depth() {
        // A service takes 1 + 0.02 (n − 1).
        for depth in [1.0, 2.5, 7.0, 20.0] {
            let slope = 0.02 / (1.0 + 0.02 * (depth - 1.0));
            let seen = ContentionSeen::of(&found(slope, 0.001, depth)).unwrap();
            assert!((seen.slope - 0.02).abs() < 1e-12, "{depth}: {seen:?}");
            let back = seen.at(depth);
            assert!((back.slope - slope).abs() < 1e-12 && (back.error - 0.001).abs() < 1e-12, "{back:?}");
        }
    }

    fn minute(number: u64) -> (Stamp, Stamp) {
        (Stamp(60_000_000_000 * number), Stamp(60_000_000_000 * (number + 1)))
    }

    /// What is remembered of slopes of single minutes.
    fn remembered(slopes: impl IntoIterator<Item = (u64, RelativeSlope)>) -> Vec<ContentionSeen> {
        let mut memory = HeadroomMemory::default();
        for (number, slope) in slopes {
            let (from, at) = minute(number);
            memory.add("a", &slope, from, at);
            memory.forget(at);
        }
        memory.of("a", Stamp(u64::MAX))
    }

    #[test]
    fn many_quiet_minutes_tell_what_one_does_not() {
        let off = |number: u64| if number.is_multiple_of(2) { 0.012 } else { -0.012 };
        let of_minute = |number: u64| (number, found(0.02 + off(number), 0.012, 1.5));
        let before = remembered((0..120).map(of_minute));
        let now = with_seen_before(of_minute(0).1, &before);
        assert!((now.slope - 0.02).abs() < 0.002 && now.z > 5.0, "{now:?}");
        assert_eq!(now.at, 1.5);
    }

    #[test]
    fn requests_count_once_however_often_is_asked() {
        let slope = found(0.02, 0.01, 1.5);
        let once = remembered((0..10).map(|number| (number, slope)));
        let mut memory = HeadroomMemory::default();
        let second = |number: u64| Stamp(number * 1_000_000_000);
        for now in 60..=600 {
            memory.add("a", &slope, second(now - 60), second(now));
        }
        let often = memory.of("a", second(600));
        assert!((often[0].error / once[0].error - 1.0).abs() < 0.05, "{often:?} {once:?}");
        // Of the last minute the next answer knows by itself.
        let before = memory.of("a", second(540));
        assert!((before[0].error / often[0].error - (10.0_f64 / 9.0).sqrt()).abs() < 0.01, "{before:?}");
        assert_eq!(memory.of("b", second(600)), []);
    }

    #[test]
    fn the_deepest_counts_where_the_slope_begins_at_a_depth() {
        let before = remembered([(0, found(0.03, 0.001, 6.0)), (90, found(0.0, 0.001, 1.5))]);
        let now = with_seen_before(found(0.001, 0.001, 1.4), &before);
        let alone = 0.03 / (1.0 - 0.03 * 5.0);
        assert!((now.slope - alone / (1.0 + alone * 0.4)).abs() < 1e-9, "{now:?}");
    }

    #[test]
    fn a_server_that_became_another_is_told_by_now_and_a_day_later_nothing_is_remembered() {
        let was = (300, found(0.03, 0.001, 3.0));
        let now = found(0.0, 0.001, 3.5);
        assert_eq!(with_seen_before(now, &remembered([was])), now);
        let (hour, day) = (found(0.0, 0.001, 1.5), 24 * 60);
        assert_eq!(remembered([was, (day, hour)]).len(), 2, "they are of two depths");
        assert_eq!(remembered([was, (300 + day, hour)]).len(), 1);
    }

    #[test]
    fn servers_that_are_there_no_more_are_forgotten_after_a_day() {
        let mut memory = HeadroomMemory::default();
        let day = 24 * 60;
        for (server, number) in [("gone", 0), ("here", 1), ("here", day - 60), ("here", day + 60)] {
            let (from, at) = minute(number);
            memory.add(server, &found(0.02, 0.01, 1.5), from, at);
            memory.forget(at);
            assert_eq!(memory.servers.contains_key("gone"), number <= day, "{number}");
        }
    }

    #[test]
    fn what_was_not_found_is_not_remembered() {
        for nothing in [found(0.0, 9.0, 0.0), RelativeSlope::default(), found(0.1, 0.0, 2.0)] {
            assert_eq!(ContentionSeen::of(&nothing), None);
            assert_eq!(with_seen_before(nothing, &[]), nothing);
        }
    }
}
