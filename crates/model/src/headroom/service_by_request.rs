//! How the service time of a server depends on what is asked: on the operation and on the bytes.
//!
//! ```text
//! e = S_c + β (b − b̄_c) + rest      c the operation, b the bytes, b̄_c the mean bytes of c
//! ```
//!
//! Least squares on both at once are these two steps (theorem of Frisch, Waugh and Lovell): the
//! mean of each operation, then the slope on what bytes are more than the mean of theirs.
//!
//! It is needed because requests that found their connection busy are more often those of times in
//! which requests take long: their mean is not that of the requests that come. With S_c and β the
//! mean is taken over these.

use krarup_units::Seconds;

use super::kept::{KeptPart, mean};

/// Answers of each operation at the least.
const FEW: f64 = 100.0;
/// A difference is so many times its standard error, and such a share of the mean.
const SURE: f64 = 4.0;
const WORTH: f64 = 0.05;

/// A slope relative to the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RelativeSlope {
    /// Change of the mean per unit of the regressor, as a share of the mean.
    pub(super) slope: f64,
    /// Slope over its standard error.
    pub(super) z: f64,
    /// Its standard error.
    pub(super) error: f64,
    /// Mean of the regressor.
    pub(super) at: f64,
}

impl RelativeSlope {
    /// How many times the mean the value is at this regressor; at least 0.3.
    pub(super) fn times_at(&self, regressor: f64) -> f64 {
        (1.0 + self.slope * (regressor - self.at)).max(0.3)
    }

    /// Least squares of values on a regressor, from rows of weight, regressor and value; as a share
    /// of `average`. None of fewer than 300.
    pub(super) fn of(rows: &[(f64, f64, f64)], average: f64) -> Option<Self> {
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
        Some(Self {
            slope: slope / average,
            z: if error > 0.0 { slope / error } else { 0.0 },
            error: error / average,
            at: x,
        })
    }
}

/// What some answers of a server are answers to, together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RequestSum {
    pub(super) reads: f64,
    pub(super) writes: f64,
    /// Those that no client waited for: neither operation nor bytes are known.
    pub(super) unknown: f64,
    /// Bytes of those that are known.
    pub(super) bytes: f64,
}

impl RequestSum {
    pub(super) fn of(part: &KeptPart) -> Self {
        match (part.is_late, part.is_write) {
            (true, _) => Self { unknown: 1.0, ..Self::default() },
            (_, true) => Self { writes: 1.0, bytes: part.bytes, ..Self::default() },
            (_, false) => Self { reads: 1.0, bytes: part.bytes, ..Self::default() },
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.unknown += other.unknown;
        self.bytes += other.bytes;
    }

    pub(super) fn count(&self) -> f64 {
        self.reads + self.writes + self.unknown
    }

    fn share_of_writes(&self) -> f64 {
        self.writes / (self.reads + self.writes)
    }
}

/// Service times by what is asked, as multiples of the mean of those that they were fitted to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ServiceByRequest {
    /// Of reads and of writes with the mean bytes of theirs; none where they do not differ.
    pub(super) by_operation: Option<[f64; 2]>,
    /// Whether enough of both were seen to tell whether these differ.
    pub(super) tells_operations: bool,
    /// What a byte more adds; zero where that is not beyond doubt.
    per_byte: f64,
    /// Mean bytes of reads and of writes.
    mean_bytes: [f64; 2],
}

impl ServiceByRequest {
    /// All requests are alike.
    pub(super) const ALIKE: Self =
        Self { by_operation: None, tells_operations: false, per_byte: 0.0, mean_bytes: [0.0; 2] };

    /// From what was asked and how long it took, and the mean time of one; beside it the slope on
    /// bytes, where they vary.
    pub(super) fn fit(rows: &[(RequestSum, Seconds)], service: Seconds) -> (Self, Option<RelativeSlope>) {
        let known: Vec<_> = rows.iter().filter(|row| row.0.unknown == 0.0).collect();
        let slope =
            |x: &dyn Fn(&RequestSum) -> f64, y: &dyn Fn(&RequestSum, Seconds) -> f64, average: f64| {
                let row = |(asked, time): &&(RequestSum, Seconds)| {
                    (asked.count(), x(asked), y(asked, *time) / asked.count())
                };
                RelativeSlope::of(&known.iter().map(row).collect::<Vec<_>>(), average)
            };
        let mut times = Self::ALIKE;
        let (reads, writes) =
            known.iter().fold((0.0, 0.0), |sum, row| (sum.0 + row.0.reads, sum.1 + row.0.writes));
        let bytes = known.iter().map(|row| row.0.bytes).sum::<f64>() / (reads + writes).max(1.0);
        times.mean_bytes = [bytes; 2];
        times.tells_operations = reads >= FEW && writes >= FEW;
        if times.tells_operations {
            let of_writes = slope(&RequestSum::share_of_writes, &|_, time| time, service);
            if let Some(slope_of_writes) =
                of_writes.filter(|one| one.z.abs() > SURE && one.slope.abs() > WORTH)
            {
                let RelativeSlope { slope: more, at, .. } = slope_of_writes;
                times.by_operation = Some([1.0 - more * at, 1.0 + more * (1.0 - at)]);
                if let Some(line) = slope(&RequestSum::share_of_writes, &|asked, _| asked.bytes, 1.0) {
                    times.mean_bytes = [bytes - line.slope * line.at, bytes + line.slope * (1.0 - line.at)];
                }
            }
        }
        let spread = mean(known.iter().map(|row| (row.0.bytes / row.0.count() - bytes).powi(2))).sqrt();
        let by_bytes = if spread > 0.05 * bytes {
            let more = |asked: &RequestSum| times.more_bytes(asked) / asked.count();
            // What operations explain is no noise of the bytes.
            let rest = |asked: &RequestSum, time: Seconds| time - service * times.by_operations(asked);
            slope(&more, &rest, service).map(|slope| RelativeSlope { at: bytes, ..slope })
        } else {
            None
        };
        times.per_byte = by_bytes.filter(|slope| slope.z > SURE).map_or(0.0, |slope| slope.slope);
        (times, by_bytes)
    }

    pub(super) fn are_alike(&self) -> bool {
        self.by_operation.is_none() && self.per_byte == 0.0
    }

    /// By how many bytes these have more than as many of the mean bytes of theirs.
    fn more_bytes(&self, asked: &RequestSum) -> f64 {
        asked.bytes - asked.reads * self.mean_bytes[0] - asked.writes * self.mean_bytes[1]
    }

    /// What the bytes beyond the mean add, in mean service times.
    pub(super) fn by_bytes(&self, asked: &RequestSum) -> f64 {
        if self.per_byte == 0.0 { 0.0 } else { self.per_byte * self.more_bytes(asked) }
    }

    /// The same of the operations, all of their mean bytes.
    pub(super) fn by_operations(&self, asked: &RequestSum) -> f64 {
        let [reads, writes] = self.by_operation.unwrap_or([1.0; 2]);
        asked.reads * reads + asked.writes * writes + asked.unknown
    }

    /// How many mean service times these take in the mean.
    pub(super) fn times(&self, asked: &RequestSum) -> f64 {
        // Far from all bytes that were seen the line may lead below nothing.
        (self.by_operations(asked) + self.by_bytes(asked)).max(0.05 * asked.count())
    }
}

// ---- requests to come
// ----------------------------------------------------------------------------

/// Requests of the last seconds are like those to come, where what is asked drifts.
const LATE: Seconds = 10.0;
/// Blocks over which the course of what is asked is looked at.
const BLOCKS: usize = 12;
/// A straight line explains such a share of what the blocks differ by, where it drifts: a sine
/// that goes round twice leaves 0.15 of it to a line, one that goes round once 0.61.
const STRAIGHT: f64 = 0.75;
/// The last sixth differs from each before by so many standard errors, and such a share.
const BEYOND: f64 = 3.0;
const BEYOND_SHARE: f64 = 0.02;

/// How what requests take has changed in the time that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestCourse {
    /// Not, or up and down: requests to come are like all that were seen.
    Returns,
    /// On and on in one direction: they are like those at the end of that line.
    Drifts,
    /// At last it is what it never was before: they are like the last ones.
    Stepped,
}

#[derive(Clone, Copy, Debug)]
struct CourseBlock {
    at: f64,
    mean: f64,
    /// Variance of the mean.
    noise: f64,
}

impl CourseBlock {
    fn of(all: &[(Seconds, f64)], from: Seconds, to: Seconds) -> Option<Self> {
        let values: Vec<f64> =
            all.iter().filter(|one| one.0 >= from && one.0 < to).map(|one| one.1).collect();
        if values.len() < 30 {
            return None;
        }
        let average = mean(values.iter().copied());
        let variance = mean(values.iter().map(|one| (one - average).powi(2)));
        Some(Self { at: f64::midpoint(from, to), mean: average, noise: variance / values.len() as f64 })
    }

    /// Whether it is above another, or below, by more than noise and by what is worth it.
    fn is_above(&self, other: &Self) -> Option<bool> {
        let apart = self.mean - other.mean;
        let is_far = apart.abs() > BEYOND * (self.noise + other.noise).sqrt()
            && apart.abs() > BEYOND_SHARE * other.mean;
        is_far.then_some(apart > 0.0)
    }

    fn all(series: &[(Seconds, f64)], span: Seconds, count: usize) -> Vec<Self> {
        let length = span / count as f64;
        let block = |number: usize| Self::of(series, length * number as f64, length * (number + 1) as f64);
        (0..count).filter_map(block).collect()
    }
}

impl RequestCourse {
    /// Of when each request was sent and how many mean service times it takes, over `span`.
    pub(super) fn of(series: &[(Seconds, f64)], span: Seconds) -> Self {
        let fine = CourseBlock::all(series, span, BLOCKS);
        if fine.len() < BLOCKS / 2 {
            return Self::Returns;
        }
        if is_straight(&fine) {
            return Self::Drifts;
        }
        // Both of the last two: one of them may be the end of a swing.
        let (before, last) = fine.split_at(fine.len() - 2);
        let sides = last.iter().flat_map(|last| before.iter().map(|one| last.is_above(one)));
        let sides: Vec<_> = sides.collect();
        let is_beyond = |side: bool| sides.iter().all(|one| *one == Some(side));
        if is_beyond(true) || is_beyond(false) { Self::Stepped } else { Self::Returns }
    }
}

/// Whether a line explains most of what blocks differ by beyond their noise.
fn is_straight(blocks: &[CourseBlock]) -> bool {
    let (at, average) = (mean(blocks.iter().map(|one| one.at)), mean(blocks.iter().map(|one| one.mean)));
    let sum = |of: &dyn Fn(&CourseBlock) -> f64| blocks.iter().map(of).sum::<f64>();
    let squares = sum(&|one| (one.at - at).powi(2)).max(1e-12);
    let slope = sum(&|one| (one.at - at) * (one.mean - average)) / squares;
    let error = sum(&|one| (one.at - at).powi(2) * one.noise).sqrt() / squares;
    let noise = mean(blocks.iter().map(|one| one.noise));
    let signal = sum(&|one| (one.mean - average).powi(2)) - noise * (blocks.len() - 1) as f64;
    slope.abs() > SURE * error && slope * slope * squares - noise > STRAIGHT * signal
}

/// From when on requests are like those to come, where they drift or have changed.
pub(super) fn late_from(span: Seconds) -> Seconds {
    span - LATE.min(0.5 * span)
}

/// What the requests to come take of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ToCome {
    /// How many mean service times one takes in the mean.
    pub(super) times: f64,
    /// The same over that of the requests that they are replayed like.
    pub(super) beyond: f64,
}

impl ToCome {
    /// As those that the mean is of.
    pub(super) const ALIKE: Self = Self { times: 1.0, beyond: 1.0 };

    /// From the course of what was seen over `span`; replayed are requests sent from `late_from`
    /// on.
    pub(super) fn of(
        series: &[(Seconds, f64)],
        span: Seconds,
        course: RequestCourse,
        late_from: Option<Seconds>,
    ) -> Self {
        let since = |from: Seconds| -> Vec<(Seconds, f64)> {
            series.iter().copied().filter(|one| one.0 >= from).collect()
        };
        let replayed = mean_over_time(&since(late_from.unwrap_or(0.0)));
        if replayed <= 0.0 {
            return Self::ALIKE;
        }
        let beyond = match course {
            RequestCourse::Drifts => (line_at(&since(0.5 * span), span) / replayed).clamp(0.5, 2.0),
            RequestCourse::Returns | RequestCourse::Stepped => 1.0,
        };
        Self { times: replayed * beyond, beyond }
    }
}

/// The mean over time: each second counts alike, however many requests it has.
fn mean_over_time(series: &[(Seconds, f64)]) -> f64 {
    let mut seconds: Vec<(f64, f64)> = Vec::new();
    for &(at, value) in series {
        let second = at.max(0.0) as usize;
        if seconds.len() <= second {
            seconds.resize(second + 1, (0.0, 0.0));
        }
        seconds[second] = (seconds[second].0 + value, seconds[second].1 + 1.0);
    }
    mean(seconds.iter().filter(|one| one.1 > 0.0).map(|one| one.0 / one.1))
}

/// The value at `end` of the line through the series: its slope goes on (local linear regression at
/// a boundary; Fan and Gijbels 1996).
fn line_at(series: &[(Seconds, f64)], end: Seconds) -> f64 {
    let (x, y) = (mean(series.iter().map(|one| one.0)), mean(series.iter().map(|one| one.1)));
    let squares: f64 = series.iter().map(|one| (one.0 - x).powi(2)).sum();
    let slope = series.iter().map(|one| (one.0 - x) * (one.1 - y)).sum::<f64>() / squares.max(1e-12);
    y + slope * (end - x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(is_write: bool, bytes: f64) -> RequestSum {
        let count = |is: bool| f64::from(u8::from(is));
        RequestSum { reads: count(!is_write), writes: count(is_write), unknown: 0.0, bytes }
    }

    /// A read takes 100 and a write 300, and each byte beyond 10 or 50 another 2; some come
    /// together.
    #[test]
    fn operations_and_bytes_are_told_apart() {
        let time = |one: &RequestSum| {
            one.reads * 100.0 + one.writes * 300.0 + 2.0 * (one.bytes - 10.0 * one.reads - 50.0 * one.writes)
        };
        let single = (0..900).map(|number| {
            let is_write = number % 3 == 0;
            let bytes = if is_write { 50.0 } else { 10.0 } + f64::from(number % 7 - 3);
            asked(is_write, bytes)
        });
        let together = (0..90).map(|number| {
            let mut both = asked(true, 50.0 + f64::from(number % 5 - 2));
            both.add(&asked(false, 10.0));
            both
        });
        let all: Vec<RequestSum> = single.chain(together).collect();
        let count: f64 = all.iter().map(RequestSum::count).sum();
        let service = all.iter().map(time).sum::<f64>() / count;
        // Something else varies, too.
        let noise = |number: usize| if number.is_multiple_of(2) { 1.0 } else { -1.0 };
        let rows: Vec<_> =
            all.iter().enumerate().map(|(number, one)| (*one, time(one) + noise(number))).collect();
        let (times, bytes) = ServiceByRequest::fit(&rows, service);
        let near = |found: f64, expected: f64| (found * service / expected - 1.0).abs() < 0.02;
        assert!(near(times.times(&asked(false, 10.0)), 100.0), "{times:?}");
        assert!(near(times.times(&asked(true, 50.0)), 300.0), "{times:?}");
        assert!(near(times.times(&asked(true, 90.0)), 380.0), "{times:?}");
        let bytes = bytes.unwrap();
        assert!(near(bytes.slope, 2.0) && bytes.z > 4.0, "{bytes:?}");
        // What is not known of takes the mean.
        let unknown = RequestSum { unknown: 2.0, ..RequestSum::default() };
        assert_eq!(times.times(&unknown), 2.0);
    }

    #[test]
    fn operations_that_take_as_long_are_alike() {
        let rows: Vec<_> =
            (0..900).map(|number| (asked(number % 3 == 0, 10.0), 100.0 + f64::from(number % 10))).collect();
        let (times, bytes) = ServiceByRequest::fit(&rows, 104.5);
        assert!(times.are_alike() && bytes.is_none(), "{times:?} {bytes:?}");
        assert_eq!(times.times(&asked(true, 1e6)), 1.0);
    }

    /// One request each 10 ms over a minute, every tenth 0.2 more or less.
    fn course(of: impl Fn(f64) -> f64) -> RequestCourse {
        let at = |number: u32| f64::from(number) * 0.01;
        let noise = |number: u32| 0.2 * f64::from(number % 3) - 0.2;
        let series: Vec<_> = (0..6_000).map(|number| (at(number), of(at(number)) + noise(number))).collect();
        RequestCourse::of(&series, 60.0)
    }

    #[test]
    fn what_turns_is_told_from_what_drifts() {
        use std::f64::consts::TAU;
        assert_eq!(course(|_| 1.0), RequestCourse::Returns);
        assert_eq!(course(|at| 1.0 + 0.003 * at), RequestCourse::Drifts);
        assert_eq!(course(|at| 1.4 - 0.005 * at), RequestCourse::Drifts);
        for period in [12.0, 15.0, 20.0, 30.0] {
            assert_eq!(
                course(|at| 1.0 + 0.2 * (at / period * TAU).sin()),
                RequestCourse::Returns,
                "{period}"
            );
            assert_eq!(
                course(|at| 1.0 - 0.2 * (at / period * TAU).cos()),
                RequestCourse::Returns,
                "{period}"
            );
        }
        assert_eq!(course(|at| if at < 49.0 { 1.0 } else { 1.3 }), RequestCourse::Stepped);
        // It was there before.
        assert_eq!(course(|at| if (20.0..49.0).contains(&at) { 1.0 } else { 1.3 }), RequestCourse::Returns);
    }

    #[test]
    fn a_line_goes_on_to_the_end_and_a_mean_is_over_time() {
        let series: Vec<_> = (0..100).map(|number| (f64::from(number) * 0.1, f64::from(number))).collect();
        assert!((line_at(&series, 12.0) - 120.0).abs() < 1e-9);
        let uneven = [(0.1, 1.0), (0.2, 1.0), (0.3, 1.0), (1.5, 3.0)];
        assert_eq!(mean_over_time(&uneven), 2.0);
    }
}
