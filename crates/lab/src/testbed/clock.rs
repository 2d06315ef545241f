//! How far another machine's clock is from ours, as questions and answers over a line tell.
//!
//! ```text
//! ours    asked ────────────────── answered        offset = theirs − (asked + answered) / 2
//!              ╲                 ╱                 and is known to half of what lies between
//! theirs        ╲──── theirs ───╱
//! ```

use krarup_units::{Mistake, Nanos, Seconds};
use serde::{Deserialize, Serialize};

/// A clock that is further from ours than this is refused: it should be set.
pub const FURTHEST: Seconds = 60.0;
/// A clock that is known less well than this is refused: clients would not begin together.
pub const VAGUEST: Seconds = 0.1;

/// One question and its answer: points on clocks of the wall, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockExchange {
    /// When it was asked, by our clock.
    pub asked: Nanos,
    /// What the other clock said.
    pub theirs: Nanos,
    /// When the answer came, by our clock.
    pub answered: Nanos,
}

/// How far a clock is from ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Offset {
    /// What it shows more than ours, in seconds.
    pub seconds: Seconds,
    /// By how much that may be wrong, in seconds.
    pub within: Seconds,
}

impl Offset {
    /// What the quickest of some exchanges says; none without any that went forward.
    pub fn of(exchanges: &[ClockExchange]) -> Option<Self> {
        let forward = exchanges.iter().filter(|one| one.answered >= one.asked);
        let best = forward.min_by_key(|one| one.answered.0 - one.asked.0)?;
        let middle = best.asked.0 as i128 + (best.answered.0 as i128 - best.asked.0 as i128) / 2;
        Some(Self {
            seconds: (best.theirs.0 as i128 - middle) as f64 / 1e9,
            within: (best.answered.0 - best.asked.0) as f64 / 2e9,
        })
    }

    /// What the other clock shows when ours shows this.
    pub fn theirs(self, ours: Nanos) -> Nanos {
        let moved = i128::from(ours.0) + (self.seconds * 1e9).round() as i128;
        Nanos(u64::try_from(moved.max(0)).unwrap_or(u64::MAX))
    }

    /// By how much it was set, or slewed, until it was `later` from ours; none where that is too
    /// little to matter, or to be known.
    pub fn moved(self, later: Self) -> Option<Seconds> {
        let by = later.seconds - self.seconds;
        (by.abs() > VAGUEST.max(self.within + later.within)).then_some(by)
    }

    /// Why clients there cannot be told an instant; nothing where they can.
    pub fn refused(self) -> Option<Mistake> {
        if self.within > VAGUEST {
            return Some(Mistake::plain(format!(
                "its clock is known to ± {:.0} ms only (the way there and back takes {:.0} ms), and clients would not begin together",
                self.within * 1e3,
                self.within * 2e3
            )));
        }
        (self.seconds.abs() > FURTHEST).then(|| {
            let side = if self.seconds > 0.0 { "ahead" } else { "behind" };
            Mistake::new(
                format!("its clock is {:.0} s {side}", self.seconds.abs()),
                "set it, for instance by chrony or systemd-timesyncd",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_quickest_exchange_tells() {
        let exchange = |asked, theirs, answered| ClockExchange {
            asked: Nanos(asked),
            theirs: Nanos(theirs),
            answered: Nanos(answered),
        };
        let offset = Offset::of(&[
            exchange(1_000_000_000, 4_000_000_000, 2_000_000_000),
            exchange(3_000_000_000, 5_001_000_000, 3_002_000_000),
            exchange(9, 1, 8),
        ]);
        assert_eq!(offset, Some(Offset { seconds: 2.0, within: 0.001 }));
        assert_eq!(offset.unwrap().theirs(Nanos(7)), Nanos(2_000_000_007));
        assert_eq!(Offset::of(&[]), None);
    }

    #[test]
    fn a_clock_that_is_far_off_or_badly_known_is_refused() {
        let refused = |seconds, within| Offset { seconds, within }.refused().unwrap_or_default();
        assert_eq!(refused(-59.0, 0.05), Mistake::plain(""));
        assert!(refused(-61.0, 0.05).to_string().contains("61 s behind; set it"));
        assert!(
            refused(0.0, 0.15).to_string().contains("± 150 ms only (the way there and back takes 300 ms)")
        );
    }

    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_drifts_or_is_badly_known() {
        let moved =
            |seconds, within| Offset { seconds: 3.0, within: 0.001 }.moved(Offset { seconds, within });
        assert_eq!((moved(0.0, 0.001), moved(6.0, 0.001)), (Some(-3.0), Some(3.0)));
        assert_eq!((moved(3.03, 0.001), moved(3.2, 0.3)), (None, None));
    }

    proptest! {
        /// Whatever the ways there and back take, the truth is within what is said of it.
        #[test]
        fn the_truth_is_within_the_bound(
            truth in -1_000_000_000_000_i64..1_000_000_000_000,
            ways in proptest::collection::vec((0_u64..1_000_000_000, 0_u64..1_000_000_000), 1..9),
        ) {
            let asked = 1_800_000_000_000_000_000_u64;
            let exchanges: Vec<ClockExchange> = ways
                .iter()
                .map(|(there, back)| ClockExchange {
                    asked: Nanos(asked),
                    theirs: Nanos((asked + there).saturating_add_signed(truth)),
                    answered: Nanos(asked + there + back),
                })
                .collect();
            let offset = Offset::of(&exchanges).unwrap();
            prop_assert!((offset.seconds - truth as f64 / 1e9).abs() <= offset.within + 1e-6);
        }
    }
}
