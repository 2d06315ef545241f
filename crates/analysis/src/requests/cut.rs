//! What of a run counts: its beginning and its end cut off, in windows and in batches.

use krarup_units::{Nanos, Seconds, Stamp};
use serde::{Deserialize, Serialize};

/// Batches that the measured span is cut into.
pub const BATCHES: usize = 10;
/// The most windows of a run; longer ones have longer windows.
pub(super) const MOST_WINDOWS: u64 = 20_000;

/// What of a run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// The first request was received.
    pub begun: Stamp,
    /// The last reply left.
    pub ended: Stamp,
    /// The measured span begins.
    pub from: Stamp,
    /// It ends.
    pub to: Stamp,
    /// How long a window is.
    pub window: Nanos,
}

/// Why a cut leaves nothing to analyse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// The run is over before the warm-up is, or the cool-down begins before it.
    #[error("nothing is left of a run of {run} without its warm-up and cool-down")]
    Nothing {
        /// How long the run was.
        run: Nanos,
    },
    /// A window is no time at all, or longer than the measured span.
    #[error("a window must be longer than nothing and at most the measured span of {measured}")]
    Window {
        /// How long that is.
        measured: Nanos,
    },
}

impl Cut {
    /// A run without its beginning and its end. Without a `window`, the longest of 1 s, 500 ms, 200
    /// ms, 100 ms … of which the run has thirty.
    ///
    /// # Errors
    /// If nothing is left.
    pub fn of(
        (begun, ended): (Stamp, Stamp),
        warm_up: Nanos,
        cool_down: Nanos,
        window: Option<Nanos>,
    ) -> Result<Self, CutError> {
        let from = Stamp(begun.0.saturating_add(warm_up.0));
        let to = Stamp(ended.0.saturating_sub(cool_down.0));
        Self::between((begun, ended), (from, to), window)
    }

    /// A run of which a span counts that another program measured, as its clients did.
    ///
    /// # Errors
    /// If the two have nothing in common.
    pub fn between(
        (begun, ended): (Stamp, Stamp),
        (from, to): (Stamp, Stamp),
        window: Option<Nanos>,
    ) -> Result<Self, CutError> {
        let run = Nanos(ended.0.saturating_sub(begun.0));
        let (from, to) = (from.max(begun), to.min(ended));
        if from >= to {
            return Err(CutError::Nothing { run });
        }
        let measured = to - from;
        let window = window.unwrap_or_else(|| usual_window(run));
        if window == Nanos::ZERO || window > measured {
            return Err(CutError::Window { measured });
        }
        let window = Nanos(window.0.max(run.0.div_ceil(MOST_WINDOWS)));
        Ok(Self { begun, ended, from, to, window })
    }

    /// Whether it can be of a run: what was read from a file may be anything.
    pub fn is_sound(&self) -> bool {
        let in_order = self.begun <= self.from && self.from < self.to && self.to <= self.ended;
        in_order && self.window > Nanos::ZERO && (self.ended - self.begun).0 / self.window.0 <= MOST_WINDOWS
    }

    pub(super) fn counts(&self, at: Stamp) -> bool {
        self.from <= at && at < self.to
    }

    pub(super) fn length(&self) -> Seconds {
        (self.to - self.from).as_seconds()
    }

    /// The batch in which a moment of the measured span lies.
    pub(super) fn batch(&self, at: Stamp) -> usize {
        let (place, length) = (u128::from((at - self.from).0), u128::from((self.to - self.from).0));
        (place * BATCHES as u128 / length) as usize
    }

    pub(super) fn windows(&self) -> usize {
        ((self.ended - self.begun).0 / self.window.0) as usize + 1
    }

    /// How much of a time lies in the measured span.
    pub(super) fn overlap(&self, from: Stamp, to: Stamp) -> Nanos {
        Nanos(to.min(self.to).0.saturating_sub(from.max(self.from).0))
    }
}

fn usual_window(run: Nanos) -> Nanos {
    let lengths =
        (0..4).flat_map(|power| [1_000, 500, 200].map(|millis| millis * 1_000_000 / 10_u64.pow(power)));
    lengths.map(Nanos).find(|length| length.0 * 30 <= run.0).unwrap_or(Nanos(run.0.div_ceil(30).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    #[test]
    fn a_cut_that_leaves_nothing_is_refused() {
        let run = (Stamp(5), Stamp(5 + 2_000 * MILLI));
        let second = Nanos::from_secs(1);
        assert!(matches!(Cut::of(run, second, second, None), Err(CutError::Nothing { .. })));
        assert!(matches!(Cut::of(run, Nanos(0), Nanos(0), Some(Nanos(0))), Err(CutError::Window { .. })));
        let whole = Cut::of(run, Nanos(0), Nanos(0), Some(Nanos(1))).unwrap();
        assert!(whole.is_sound());
        assert!(!Cut { from: whole.to, ..whole }.is_sound() && !Cut { window: Nanos(1), ..whole }.is_sound());
        assert_eq!(whole.windows() as u64, MOST_WINDOWS + 1, "windows are bounded");
        assert_eq!(usual_window(Nanos::from_secs(45)), second);
        assert_eq!(usual_window(Nanos::from_secs(5)), Nanos::from_millis(100));
        assert_eq!(usual_window(Nanos(7)), Nanos(1));
    }
}
