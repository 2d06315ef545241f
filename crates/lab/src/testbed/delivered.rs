//! Whether a station with a share of a processor got it while a trial was measured.
//!
//! A quota bounds from above only. A station that wants to run is on a processor, or held because
//! its quota is used up, or it waits for others to leave one. The last is not the quota's doing.
//! What it had while it wanted to run and was not held, `ran / (ran + waited)`, must be its share
//! at least: then it was never slower than the machine that it stands for. Where fewer threads
//! wanted to run at once than its share has processors, it could use no more than those.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::cap::Throttled;
use super::stations::Running;
use crate::monitor::proc::ThreadTimes;

/// A station that got less than this part of its share was slower than its machine would be.
const SHORT: f64 = 0.9;
/// Waits of less than this part of the time are those of any machine.
const NOTABLE: f64 = 0.02;

/// What a station with a share got of the processors while a trial was measured; `shares.json` is a
/// list of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeliveredShare {
    /// Which station: `server 1`.
    pub name: String,
    /// Processors that it may use.
    pub share: f64,
    /// How long its threads were on a processor.
    pub ran: Seconds,
    /// How long they waited for one while the quota did not hold them, at least.
    pub waited: Seconds,
    /// Processors that its threads could use at once: what all of them wanted to run, by what the
    /// one wanted that wanted most. 0 in files of earlier versions: not known.
    #[serde(default)]
    pub at_once: f64,
    /// Periods of its quota in which it wanted to run; 0 in files of earlier versions.
    #[serde(default)]
    pub periods: u64,
    /// Those in which the quota was used up, and it stood still until the next.
    #[serde(default)]
    pub used_up: u64,
    /// How long it was looked at.
    pub seconds: Seconds,
}

impl DeliveredShare {
    /// From what its threads had, and what its quota did meanwhile. A thread's wait has what it was
    /// held in it, which is no longer than the whole group was held.
    pub fn of(name: &str, share: f64, quota: Throttled, threads: &[ThreadTimes], seconds: Seconds) -> Self {
        let Throttled { periods, used_up, held } = quota;
        let seconds_of = |nanos: u64| nanos as f64 / 1e9;
        let (mut ran, mut waited, mut most) = (0.0, 0.0, 0.0_f64);
        for thread in threads {
            let (on, off) = (seconds_of(thread.ran), (seconds_of(thread.waited) - held).max(0.0));
            (ran, waited, most) = (ran + on, waited + off, most.max(on + off));
        }
        let at_once = if most > 0.0 { (ran + waited) / most } else { 1.0 };
        Self { name: name.to_owned(), share, ran, waited, at_once, periods, used_up, seconds }
    }

    /// Why it was slower than the machine that it stands for; none where it was not, or where it
    /// wanted no more than it got.
    pub fn disturbed(&self) -> Option<String> {
        let Self { name, share, ran, waited, at_once, seconds, .. } = self;
        // Threads that are no more than the processors of its share wanted to run side by side.
        let few = *at_once > 0.0 && at_once <= share;
        let (usable, wanted) =
            if few { (*at_once, (ran + waited) / at_once) } else { (*share, (ran + waited).min(*seconds)) };
        if *seconds <= 0.0 || *waited <= NOTABLE * seconds || ran / seconds >= SHORT * usable {
            return None;
        }
        let got = ran / wanted;
        (got < SHORT * usable).then(|| {
            let most = if few { "its threads could use" } else { "its share is" };
            format!("the machine was disturbed: {name} got {got:.3} of a processor while it wanted to run, and {most} {usable:.3}")
        })
    }
}

/// A station that has a quota, and how often it was used up so far.
#[derive(Clone, Debug)]
pub(super) struct LimitedStation {
    pub(super) name: String,
    pub(super) process: u32,
    pub(super) share: f64,
    pub(super) throttled: Throttled,
}

/// The servers and middlewares that have a quota.
pub(super) fn limited(servers: &[Running], middleware: &[Running]) -> Vec<LimitedStation> {
    let of_kind = |kind: &'static str, running| {
        let named = (1..).map(move |number| format!("{kind} {number}")).zip(running);
        named.filter_map(|(name, one): (String, &Running)| {
            let process = one.process.as_ref()?;
            let throttled = process.throttled()?;
            Some(LimitedStation { name, process: process.number(), share: one.host.cpu?, throttled })
        })
    };
    of_kind("server", servers).chain(of_kind("middleware", middleware)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(share: f64, held: f64, threads: &[(f64, f64)]) -> DeliveredShare {
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let threads: Vec<ThreadTimes> = threads
            .iter()
            .map(|(ran, waited)| ThreadTimes { ran: nanos(*ran), waited: nanos(*waited) })
            .collect();
        let quota = Throttled { periods: 1_000, used_up: 800, held };
        DeliveredShare::of("server 1", share, quota, &threads, 10.0)
    }

    #[test]
    fn a_station_that_is_held_by_its_quota_has_its_share() {
        // It wanted to run all the time: 0.6 s on a processor, 9 s held, 0.4 s behind others.
        let full = delivered(0.06, 9.0, &[(0.6, 9.4)]);
        assert!((full.waited - 0.4).abs() < 1e-6, "{full:?}");
        assert_eq!((full.periods, full.used_up), (1_000, 800));
        assert_eq!(full.disturbed(), None);
    }

    #[test]
    fn a_station_that_waits_behind_others_has_less_than_its_share() {
        let short = delivered(0.06, 1.0, &[(0.3, 9.5)]);
        let why = short.disturbed().unwrap();
        assert!(
            why.contains("server 1 got 0.034 of a processor") && why.contains("its share is 0.060"),
            "{why}"
        );
    }

    #[test]
    fn a_station_that_wants_little_need_not_get_more() {
        // Half of its share, twice as long behind others: of what it wanted it had a third.
        assert_eq!(delivered(0.06, 0.0, &[(0.3, 0.6)]).disturbed(), None);
        assert_eq!(delivered(0.06, 0.0, &[(0.001, 0.1)]).disturbed(), None, "no more than on any machine");
        assert_eq!(delivered(0.06, 0.0, &[]).disturbed(), None, "it was not seen");
    }

    #[test]
    fn a_share_is_no_more_than_its_threads_can_use_at_once() {
        let one = delivered(2.0, 0.0, &[(5.0, 0.4)]);
        assert_eq!((one.at_once, one.disturbed()), (1.0, None));
        let two = delivered(2.0, 0.0, &[(5.0, 5.0), (5.0, 5.0)]);
        assert!(two.disturbed().unwrap().contains("got 1.000 of a processor"), "{two:?}");
        assert_eq!(delivered(2.0, 0.0, &[(5.0, 0.4), (5.0, 0.4)]).disturbed(), None, "each had nearly all");
        let uneven = delivered(2.0, 0.0, &[(9.0, 1.0), (0.1, 0.9)]).disturbed().unwrap();
        assert!(uneven.ends_with("and its threads could use 1.100"), "{uneven}");
        let unknown = DeliveredShare { at_once: 0.0, ..one };
        assert!(unknown.disturbed().is_some(), "its whole share is asked for");
    }

    /// What one thread was held is taken from the waits of each, so that several never look worse
    /// than they were.
    #[test]
    fn the_waits_of_several_threads_are_a_least() {
        let two = delivered(0.5, 4.0, &[(2.5, 5.0), (2.5, 5.0)]);
        assert!((two.waited - 2.0).abs() < 1e-6 && two.disturbed().is_none(), "{two:?}");
    }
}
