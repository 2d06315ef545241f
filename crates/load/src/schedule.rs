//! When requests are due. Arithmetic only: no clock and no sleep, so it can be tested.
//!
//! **Open arrivals.** Let Λ(t) be the number of requests wanted up to t: the integral of the rate.
//! Request k is due at Λ⁻¹(S_k), where S_k are the arrivals of a process of rate 1: whole numbers
//! when paced, sums of unit exponentials for Poisson arrivals. (That a Poisson process of rate λ(t)
//! comes about so: Çınlar 1975, section 4.7.) A due time is never derived from the one before it,
//! nor from a clock: being late with one request moves no other, and nothing drifts.
//!
//! **Bursts** are Poisson arrivals of a rate that jumps between two levels at random times (a
//! Markov-modulated Poisson process of two states).

use krarup_settings::Mistake;
use krarup_units::{Nanos, PerSecond, Seconds, Stamp};
use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};

use crate::random::{self, Random};
use crate::trace::{Replay, Speed};

/// When a client sends its next request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Each client waits for its answer, thinks, and sends the next: the system's speed decides how
    /// many come.
    Closed(Think),
    /// Requests come at their own pace, whatever the system does.
    Open(Open),
    /// Requests are those of a recorded trace.
    Replay(Replay),
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::Closed(Think::None)
    }
}

/// How long a client thinks between an answer and its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Think {
    /// Not at all.
    #[default]
    None,
    /// Always as long, in seconds.
    Fixed(Seconds),
    /// Exponential with this mean, in seconds.
    Exponential(Seconds),
}

impl Think {
    /// One think time.
    #[inline]
    pub fn draw(self, random: &mut Random) -> Nanos {
        match self {
            Self::None => Nanos::ZERO,
            Self::Fixed(seconds) => Nanos::from_seconds(seconds),
            Self::Exponential(mean) => {
                let unit: f64 = Exp1.sample(random);
                Nanos::from_seconds(unit * mean)
            }
        }
    }

    /// The mean think time Z.
    pub fn mean(self) -> Seconds {
        match self {
            Self::None => 0.0,
            Self::Fixed(seconds) | Self::Exponential(seconds) => seconds,
        }
    }

    /// What no think time exceeds, of exponential ones but for one in 10¹⁷.
    pub(crate) fn longest(self) -> Seconds {
        match self {
            Self::None | Self::Fixed(_) => self.mean(),
            Self::Exponential(mean) => 40.0 * mean,
        }
    }
}

/// Arrivals at their own pace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// How they are spread.
    #[serde(default)]
    pub process: ArrivalProcess,
    /// The rate over time. After the last leg its end rate goes on.
    pub legs: Vec<Leg>,
}

/// A part of the time, during which the rate goes straight from one value to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leg {
    /// Rate at its start.
    pub from: PerSecond,
    /// Rate at its end.
    pub to: PerSecond,
    /// Its length.
    pub seconds: Seconds,
}

/// How arrivals are spread around their rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalProcess {
    /// At equal distances.
    Paced,
    /// Memoryless: what many independent users add up to.
    #[default]
    Poisson,
    /// Poisson, with bursts.
    Bursty {
        /// During a burst the rate is this many times the mean; above 1.
        factor: f64,
        /// The share of time that bursts take; above 0, and `factor · share` at most 1.
        share: f64,
        /// The mean length of a burst, in seconds; at least 1 µs.
        length: Seconds,
    },
}

/// The shortest mean length of bursts: to draw them takes the generator less time than they last.
const SHORTEST_BURST: Seconds = 1e-6;

impl Arrivals {
    /// Whether clients wait for their answers before they go on.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Replay(Replay { speed: Speed::Fastest, .. }))
    }

    /// Makes everything so many times slower, but for how long each leg of a rate is; `times` is
    /// above 0.
    pub fn slow_down(&mut self, times: f64) {
        match self {
            Self::Closed(Think::Fixed(think) | Think::Exponential(think)) => *think *= times,
            Self::Closed(Think::None) | Self::Replay(Replay { speed: Speed::Fastest, .. }) => {}
            Self::Replay(Replay { speed: Speed::Times(speed), .. }) => *speed /= times,
            Self::Open(Open { process, legs }) => {
                if let ArrivalProcess::Bursty { length, .. } = process {
                    *length *= times;
                }
                for leg in legs {
                    (leg.from, leg.to) = (PerSecond(leg.from.0 / times), PerSecond(leg.to.0 / times));
                }
            }
        }
    }

    /// What is wrong with it.
    ///
    /// # Errors
    /// In plain words.
    pub fn check(&self) -> Result<(), Mistake> {
        let positive = |name: &str, value: f64| {
            if value.is_finite() && value >= 0.0 {
                Ok(())
            } else {
                Err(Mistake::plain(format!("{name} is {value}, not 0 or more")))
            }
        };
        match self {
            Self::Closed(think) => positive("the think time", think.mean()),
            Self::Replay(Replay { speed: Speed::Times(times), .. })
                if !(*times > 0.0 && times.is_finite()) =>
            {
                Err(Mistake::plain(format!("a trace cannot be sent {times} times as fast as it was")))
            }
            Self::Replay(_) => Ok(()),
            Self::Open(open) => {
                let Some(last) = open.legs.last() else {
                    return Err("an open load needs a rate".into());
                };
                for leg in &open.legs {
                    positive("a rate", leg.from.0)?;
                    positive("a rate", leg.to.0)?;
                    positive("the length of a step", leg.seconds)?;
                }
                if open.legs.iter().all(|leg| leg.from.0 == 0.0 && leg.to.0 == 0.0) {
                    return Err("an open load needs a rate above 0".into());
                }
                if open.legs.iter().any(|leg| leg.from.0.max(leg.to.0) > 1e8) || last.to.0 > 1e8 {
                    return Err("a rate above 100,000,000 per second is beyond any machine".into());
                }
                match open.process {
                    ArrivalProcess::Bursty { factor, share, length }
                        if !(factor > 1.0
                            && share > 0.0
                            && factor * share <= 1.0
                            && length >= SHORTEST_BURST) =>
                    {
                        Err(Mistake::new(
                            format!(
                                "bursts of {factor} times the rate during {share} of the time make no sense: \
                             the factor is above 1, factor times share at most 1, the length at least 1 µs"
                            ),
                            "",
                        ))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// The due times of an open load, one after the other, never decreasing, without end while the rate
/// is above 0.
#[derive(Clone, Debug)]
pub struct Schedule {
    legs: Vec<Leg>,
    /// The leg that holds the next arrival; `legs.len()` behind the last.
    leg: usize,
    /// When it begins.
    begins: Seconds,
    /// Λ where it begins.
    before: f64,
    /// From when on the rate is 0 for good; infinite where it is not.
    over: Seconds,
    process: ArrivalProcess,
    /// S_k of the last arrival.
    unit: f64,
    count: u64,
    arrivals: Random,
    burst: Burst,
}

/// The modulating state: time as the arrivals feel it, which runs faster during a burst.
#[derive(Clone, Debug)]
struct Burst {
    jumps: Random,
    bursting: bool,
    /// Λ at the last jump, and what the arrivals felt of it.
    felt_from: (f64, f64),
    /// When the next jump is.
    ends: Seconds,
    /// Λ at the next jump.
    until: f64,
}

impl Schedule {
    /// The schedule that a checked open load has under this seed.
    pub fn new(open: &Open, seed: u64) -> Self {
        let goes_on = open.legs.last().is_some_and(|leg| leg.to.0 > 0.0);
        let end = open.legs.iter().map(|leg| leg.seconds).sum();
        let mut jumps = random::stream(seed, "bursts", 0);
        let begins_with_burst =
            matches!(open.process, ArrivalProcess::Bursty { share, .. } if jumps.random::<f64>() < share);
        Self {
            legs: open.legs.clone(),
            leg: 0,
            begins: 0.0,
            before: 0.0,
            over: if goes_on { f64::INFINITY } else { end },
            process: open.process,
            unit: 0.0,
            count: 0,
            arrivals: random::stream(seed, "arrivals", 0),
            burst: Burst {
                jumps,
                // The first jump is at the start.
                bursting: !begins_with_burst,
                felt_from: (0.0, 0.0),
                ends: 0.0,
                until: 0.0,
            },
        }
    }

    /// Λ⁻¹: when the integral of the rate reaches `wanted`, which never falls from call to call.
    fn inverse(&mut self, wanted: f64) -> Option<Seconds> {
        while let Some(leg) = self.legs.get(self.leg) {
            let area = 0.5 * (leg.from.0 + leg.to.0) * leg.seconds;
            let is_last = self.leg + 1 == self.legs.len();
            if wanted - self.before < area || (is_last && wanted - self.before <= area && area > 0.0) {
                return Some(self.begins + within(leg, wanted - self.before));
            }
            self.before += area;
            self.begins += leg.seconds;
            self.leg += 1;
        }
        let rate = self.legs.last()?.to.0;
        (rate > 0.0).then(|| self.begins + (wanted - self.before) / rate)
    }

    /// Λ(t): the integral of the rate up to a time.
    fn integral(&self, time: Seconds) -> f64 {
        let (mut area, mut left) = (0.0, time.min(self.over));
        for leg in &self.legs {
            let part = leg.seconds.min(left);
            if part > 0.0 {
                let rate = leg.from.0 + (leg.to.0 - leg.from.0) * part / leg.seconds;
                area += 0.5 * (leg.from.0 + rate) * part;
                left -= part;
            }
        }
        area + left * self.legs.last().map_or(0.0, |leg| leg.to.0)
    }

    /// Where Λ is when the arrivals have felt `self.unit`: with bursts they feel `factor` for each
    /// unit of Λ, between bursts the rest, so that the mean stays what it is. Bursts and what is
    /// between them last for times in seconds, whatever the rate is then. None once the rate is 0
    /// for good.
    fn modulated(&mut self, factor: f64, share: f64, length: Seconds) -> Option<f64> {
        let calm = (1.0 - factor * share) / (1.0 - share).max(f64::EPSILON);
        loop {
            let feels = if self.burst.bursting { factor } else { calm };
            let (at, felt) = self.burst.felt_from;
            let at_end = felt + (self.burst.until - at) * feels;
            if self.unit < at_end {
                return Some(at + (self.unit - felt) / feels);
            }
            if self.burst.ends >= self.over {
                return None;
            }
            self.burst.felt_from = (self.burst.until, at_end);
            self.burst.bursting = !self.burst.bursting;
            let mean = if self.burst.bursting { length } else { length * (1.0 - share) / share };
            let unit: f64 = Exp1.sample(&mut self.burst.jumps);
            self.burst.ends += unit * mean;
            self.burst.until = self.integral(self.burst.ends).max(self.burst.until);
        }
    }
}

impl Iterator for Schedule {
    type Item = Stamp;

    /// When the next request is due, counted from the start. `None` once no further will ever come.
    fn next(&mut self) -> Option<Stamp> {
        match self.process {
            ArrivalProcess::Paced => {
                self.unit = self.count as f64;
                self.count += 1;
            }
            ArrivalProcess::Poisson | ArrivalProcess::Bursty { .. } => {
                let gap: f64 = Exp1.sample(&mut self.arrivals);
                self.unit += gap;
            }
        }
        let wanted = match self.process {
            ArrivalProcess::Bursty { factor, share, length } => self.modulated(factor, share, length)?,
            _ => self.unit,
        };
        self.inverse(wanted).map(|seconds| Stamp(Nanos::from_seconds(seconds).0))
    }
}

/// How far into the leg the integral of its rate reaches `wanted`.
fn within(leg: &Leg, wanted: f64) -> Seconds {
    if wanted <= 0.0 {
        return 0.0;
    }
    let (from, to) = (leg.from.0, leg.to.0);
    let slope = (to - from) / leg.seconds;
    if slope == 0.0 {
        return wanted / from;
    }
    // from·t + slope·t²/2 = wanted, in the form that loses no digits when the slope is small.
    let root = (from * from + 2.0 * slope * wanted).max(0.0).sqrt();
    (2.0 * wanted / (from + root)).min(leg.seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn level(rate: f64, process: ArrivalProcess) -> Open {
        Open { process, legs: vec![Leg { from: PerSecond(rate), to: PerSecond(rate), seconds: 0.0 }] }
    }

    fn seconds(open: &Open, seed: u64, until: f64) -> Vec<f64> {
        assert_eq!(Arrivals::Open(open.clone()).check(), Ok(()));
        Schedule::new(open, seed).map(|due| due.0 as f64 / 1e9).take_while(|&due| due < until).collect()
    }

    #[test]
    fn a_steady_pace_does_not_drift_over_a_day() {
        // 33,333 per second for a day: 2,879,971,200 requests. Only the last ones are looked at; no
        // due time depends on the one before, so the others need not be made.
        let mut schedule = Schedule::new(&level(33_333.0, ArrivalProcess::Paced), 1);
        schedule.count = 33_333 * 86_400;
        assert_eq!(schedule.next(), Some(Stamp(86_400_000_000_000)));
        for k in 1..1_000_u128 {
            let exact = 86_400_000_000_000 + (k * 1_000_000_000 + 16_666) / 33_333;
            let due = u128::from(schedule.next().unwrap().0);
            assert!(due.abs_diff(exact) <= 16, "request {k}: {due} not {exact}");
        }
    }

    #[test]
    fn a_ramp_brings_as_many_as_the_area_under_it() {
        let legs = vec![
            Leg { from: PerSecond(0.0), to: PerSecond(100.0), seconds: 10.0 },
            Leg { from: PerSecond(300.0), to: PerSecond(300.0), seconds: 2.0 },
        ];
        let due = seconds(&Open { process: ArrivalProcess::Paced, legs }, 1, 13.0);
        let before = |t: f64| due.iter().filter(|&&one| one < t).count();
        assert_eq!(before(10.0), 500);
        // Λ(5) = 125, and request 0 is due at 0.
        assert_eq!(before(5.0), 125);
        assert_eq!(before(12.0) - before(10.0), 600);
        // The last rate goes on.
        assert_eq!(before(13.0) - before(12.0), 300);
    }

    #[test]
    fn poisson_gaps_have_the_exponentials_mean_deviation_and_median() {
        let due = seconds(&level(1_000.0, ArrivalProcess::Poisson), 3, 100.0);
        let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt();
        let below_median =
            gaps.iter().filter(|&&gap| gap < 0.001 * std::f64::consts::LN_2).count() as f64 / n;
        // 100,000 gaps: five standard errors are 1.6 % of the mean.
        assert!((mean * 1_000.0 - 1.0).abs() < 0.016, "{mean}");
        assert!((deviation * 1_000.0 - 1.0).abs() < 0.023, "{deviation}");
        assert!((below_median - 0.5).abs() < 0.008, "{below_median}");
    }

    /// Counts in windows of one second: variance over mean is 1 for Poisson arrivals.
    fn dispersion(due: &[f64], until: usize) -> (f64, f64) {
        let mut counts = vec![0.0; until];
        due.iter().for_each(|&one| counts[one as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / until as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (until - 1) as f64;
        (mean, variance / mean)
    }

    #[test]
    fn bursts_keep_the_mean_rate_and_are_bursty() {
        let (mean, poisson) = dispersion(&seconds(&level(100.0, ArrivalProcess::Poisson), 5, 2_000.0), 2_000);
        assert!((mean - 100.0).abs() < 1.5 && (poisson - 1.0).abs() < 0.16, "{mean} {poisson}");
        let process = ArrivalProcess::Bursty { factor: 5.0, share: 0.1, length: 2.0 };
        let (mean, bursty) = dispersion(&seconds(&level(100.0, process), 5, 2_000.0), 2_000);
        assert!((mean - 100.0).abs() < 15.0, "{mean}");
        assert!(bursty > 20.0, "{bursty}");
    }

    /// Requests come as late as their rate, and bursts of it last as long as at a level rate.
    #[test]
    fn bursts_last_for_their_time_after_a_slow_leg_and_after_none() {
        let process = ArrivalProcess::Bursty { factor: 5.0, share: 0.1, length: 2.0 };
        for slow in [1.0, 0.0] {
            let leg = |rate, seconds| Leg { from: PerSecond(rate), to: PerSecond(rate), seconds };
            let open = Open { process, legs: vec![leg(slow, 10.0), leg(100.0, 0.0)] };
            let due = seconds(&open, 5, 2_010.0);
            let quick: Vec<f64> = due.iter().map(|at| at - 10.0).filter(|at| *at >= 0.0).collect();
            assert!(due.len() - quick.len() < 40 && (slow > 0.0 || due[0] >= 10.0), "{slow}");
            let (mean, bursty) = dispersion(&quick, 2_000);
            assert!((mean - 100.0).abs() < 15.0 && bursty > 20.0, "{slow}: {mean} {bursty}");
        }
    }

    /// The largest distance between the shares that were seen and a distribution (Kolmogorov and
    /// Smirnov), times √n.
    fn distance(mut seen: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
        seen.sort_by(f64::total_cmp);
        let n = seen.len() as f64;
        let steps = seen.iter().enumerate().map(|(place, &value)| {
            let share = distribution(value);
            f64::max(share - place as f64 / n, (place + 1) as f64 / n - share)
        });
        steps.fold(0.0, f64::max) * n.sqrt()
    }

    /// What chance exceeds once in a million: 2 exp(−2 d²).
    const UNLIKELY: f64 = 2.7;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn poisson_arrivals_have_exponential_gaps_at_any_rate(seed: u64, rate in 1.0_f64..1e6) {
            let due: Vec<f64> = Schedule::new(&level(rate, ArrivalProcess::Poisson), seed).take(4_001).map(|due| due.0 as f64 / 1e9).collect();
            let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
            // A gap is cut to whole nanoseconds: half of one either way is no more than 0.05 % of
            // the mean at these rates.
            let far = distance(gaps, |gap| 1.0 - (-(gap + 0.5e-9) * rate).exp());
            prop_assert!(far < UNLIKELY, "{far}");
        }

        /// Given how many there are, Poisson arrivals are spread over Λ as if each were thrown
        /// there by itself: through ramps and steps too.
        #[test]
        fn through_ramps_poisson_arrivals_are_uniform_over_the_area(seed: u64, from in 10.0_f64..2_000.0, to in 10.0_f64..2_000.0, step in 10.0_f64..2_000.0) {
            let legs = vec![
                Leg { from: PerSecond(from), to: PerSecond(to), seconds: 2.0 },
                Leg { from: PerSecond(step), to: PerSecond(step), seconds: 1.0 },
            ];
            let area = |t: f64| if t < 2.0 { from * t + (to - from) * t * t / 4.0 } else { from + to + step * (t - 2.0) };
            let due = seconds(&Open { process: ArrivalProcess::Poisson, legs }, seed, 3.0);
            let count = due.len() as f64;
            let mean = area(3.0);
            prop_assert!((count - mean).abs() < 6.0 * mean.sqrt() + 1.0, "{count} not {mean}");
            let far = distance(due, |t| area(t) / mean);
            prop_assert!(far < UNLIKELY, "{far}");
        }

        #[test]
        fn paced_arrivals_are_a_whole_number_of_gaps_apart(rate in 1.0_f64..1e6) {
            for (k, due) in Schedule::new(&level(rate, ArrivalProcess::Paced), 1).take(1_000).enumerate() {
                let exact = k as f64 / rate * 1e9;
                prop_assert!((due.0 as f64 - exact).abs() <= 1.0, "request {k}: {due:?} not {exact}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]

        /// A burst is Poisson of its own rate: within bursts and between them gaps are those of two
        /// exponentials, as often as asked.
        #[test]
        fn bursts_take_their_share_of_the_requests(seed: u64, factor in 2.0_f64..5.0) {
            let share = 0.15;
            // So long a burst, so high a rate that hardly a gap spans two states: then a state is
            // told by its rate.
            let process = ArrivalProcess::Bursty { factor, share, length: 1.0 };
            let due = seconds(&level(1_000.0, process), seed, 300.0);
            let mut windows = vec![0.0_f64; 300 * 20];
            due.iter().for_each(|&one| windows[(one * 20.0) as usize] += 1.0);
            let calm = (1.0 - factor * share) / (1.0 - share);
            let between = 50.0 * f64::midpoint(factor, calm);
            let bursting: Vec<_> = windows.iter().filter(|&&count| count > between).collect();
            let time = bursting.len() as f64 / windows.len() as f64;
            let rate = bursting.iter().copied().sum::<f64>() / bursting.len() as f64 / 50.0;
            // Some forty-five bursts and as many pauses: the share of time varies by a fifth or so
            // of itself.
            prop_assert!((time / share - 1.0).abs() < 0.95, "{time}");
            prop_assert!((rate / factor - 1.0).abs() < 0.1, "{rate} not {factor}");
        }
    }

    #[test]
    fn loads_that_make_no_sense_are_refused() {
        let bursty = |factor, share, length| level(1.0, ArrivalProcess::Bursty { factor, share, length });
        for open in [
            Open { process: ArrivalProcess::Paced, legs: vec![] },
            level(0.0, ArrivalProcess::Paced),
            level(-1.0, ArrivalProcess::Paced),
            level(f64::NAN, ArrivalProcess::Paced),
            level(1e9, ArrivalProcess::Paced),
            bursty(1.0, 0.5, 1.0),
            bursty(4.0, 0.5, 1.0),
            bursty(2.0, 0.1, 0.0),
            bursty(2.0, 0.1, 1e-9),
        ] {
            assert!(Arrivals::Open(open.clone()).check().is_err(), "{open:?}");
        }
        assert!(Arrivals::Closed(Think::Fixed(-1.0)).check().is_err());
    }

    #[test]
    fn a_rate_that_falls_to_nothing_ends_the_schedule() {
        let legs = vec![Leg { from: PerSecond(10.0), to: PerSecond(0.0), seconds: 2.0 }];
        let open = |process| Open { process, legs: legs.clone() };
        let due = seconds(&open(ArrivalProcess::Paced), 1, 1e9);
        assert_eq!(due.len(), 11);
        assert!((due[10] - 2.0).abs() < 1e-6);
        // Bursts longer than all of it, too: the schedule has its 10 requests, more or fewer by
        // chance. It begins with a burst as often as there is one.
        for length in [0.01, 100.0] {
            let process = ArrivalProcess::Bursty { factor: 3.0, share: 0.2, length };
            let counts = (0..10_000).map(|seed| seconds(&open(process), seed, 1e9).len());
            let mean = counts.sum::<usize>() as f64 / 10_000.0;
            assert!((mean - 10.0).abs() < 0.5, "{length}: {mean}");
        }
    }

    fn any_open() -> impl Strategy<Value = Open> {
        let leg = (0.0..500.0, 0.0..500.0, 0.0..3.0).prop_map(|(from, to, seconds)| Leg {
            from: PerSecond(from),
            to: PerSecond(to),
            seconds,
        });
        let process =
            prop_oneof![
                Just(ArrivalProcess::Paced),
                Just(ArrivalProcess::Poisson),
                (1.1..4.0, 0.05..0.24, 0.01..2.0)
                    .prop_map(|(factor, share, length)| ArrivalProcess::Bursty { factor, share, length }),
            ];
        (process, prop::collection::vec(leg, 1..5)).prop_map(|(process, mut legs)| {
            legs.push(Leg { from: PerSecond(50.0), to: PerSecond(50.0), seconds: 1.0 });
            Open { process, legs }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn due_times_never_fall_and_a_seed_decides_them(open in any_open(), seed: u64) {
            let take = |seed| {
                Schedule::new(&open, seed).take(500).collect::<Vec<_>>()
            };
            let due = take(seed);
            prop_assert!(due.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert_eq!(due, take(seed));
        }

        /// Little drift is no drift: after t seconds of a paced load, as many are due as the area
        /// under the rate.
        #[test]
        fn a_paced_load_is_due_on_the_area_under_its_rate(mut open in any_open(), until in 0.1_f64..15.0) {
            open.process = ArrivalProcess::Paced;
            let (mut area, mut left) = (0.0, until);
            for leg in &open.legs {
                let part = leg.seconds.min(left);
                if leg.seconds > 0.0 {
                    let end = leg.from.0 + (leg.to.0 - leg.from.0) * part / leg.seconds;
                    area += 0.5 * (leg.from.0 + end) * part;
                }
                left -= part;
            }
            area += left * 50.0;
            let due = seconds(&open, 0, until).len() as f64;
            prop_assert!((due - area.ceil()).abs() <= 1.0, "{} due, area {}", due, area);
        }
    }
}
