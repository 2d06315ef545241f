//! Whether a store that owes an answer is silent: where it hangs, the kernel of its machine goes on
//! acknowledging, and no session ever ends.

use krarup_units::{Nanos, Stamp};

/// A store is silent when it has owed an answer for so long: as long as TCP waits for an
/// acknowledgement.
pub(super) const SILENT: Nanos = Nanos::from_secs(10);
/// How often it is looked at least while it owes one. Where the next look comes far later, this
/// process stood still itself, and has not read the answers yet.
const LOOK: Nanos = Nanos::from_secs(1);

/// What is known of it.
#[derive(Debug)]
pub(super) struct StoreSilence {
    /// No silence counts that was before.
    from: Stamp,
    looked: Stamp,
    lasts: bool,
}

impl StoreSilence {
    /// From now on.
    pub(super) fn new(now: Stamp) -> Self {
        Self { from: now, looked: now, lasts: false }
    }

    /// The store is out of reach, or back: what it owed counts from now on.
    pub(super) fn restart(&mut self, now: Stamp) {
        (self.from, self.lasts) = (now, false);
    }

    /// Whether it is silent now.
    pub(super) fn lasts(&self) -> bool {
        self.lasts
    }

    /// Looks at a store that owes an answer since then, if it does: whether its silence has begun,
    /// or is over.
    pub(super) fn look(&mut self, owes_since: Option<Stamp>, now: Stamp) -> bool {
        if self.looked + LOOK + LOOK < now {
            self.from = now;
        }
        self.looked = now;
        // What began is over with an answer alone.
        let from = if self.lasts { Stamp(0) } else { self.from };
        let lasts = owes_since.is_some_and(|since| since.max(from) + SILENT <= now);
        std::mem::replace(&mut self.lasts, lasts) != lasts
    }

    /// When it is to be looked next, at the latest.
    pub(super) fn next_look(&self) -> Stamp {
        self.looked + LOOK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp(0) + Nanos::from_secs(seconds)
    }

    /// At which of these seconds something has changed.
    fn changes(
        silence: &mut StoreSilence,
        owes_since: Option<u64>,
        mut seconds: impl Iterator<Item = u64>,
    ) -> Option<u64> {
        seconds.find(|now| silence.look(owes_since.map(at), at(*now)))
    }

    #[test]
    fn a_store_is_silent_from_ten_seconds_after_it_was_asked_until_it_answers() {
        let mut silence = StoreSilence::new(at(0));
        assert_eq!(changes(&mut silence, None, 0..100), None);
        assert_eq!(changes(&mut silence, Some(100), 100..200), Some(110));
        assert!(silence.lasts());
        assert_eq!(changes(&mut silence, Some(100), 111..1_000), None);
        // It has answered that, and was asked something else.
        assert_eq!(changes(&mut silence, Some(999), 1_000..1_009), Some(1_000));
        assert!(!silence.lasts());
        assert_eq!(changes(&mut silence, Some(999), 1_001..1_100), Some(1_009));
        assert_eq!(changes(&mut silence, None, 1_010..1_100), Some(1_010));
    }

    #[test]
    fn a_store_that_goes_on_answering_is_never_silent() {
        let mut silence = StoreSilence::new(at(0));
        for answered in (0..100).step_by(10) {
            assert_eq!(changes(&mut silence, Some(answered), answered..answered + 10), None);
        }
    }

    /// It was stopped, or its machine was: what was answered meanwhile is not read yet.
    #[test]
    fn a_broker_that_stood_still_takes_no_store_for_silent() {
        let mut silence = StoreSilence::new(at(0));
        assert_eq!(changes(&mut silence, Some(0), 0..5), None);
        assert_eq!(changes(&mut silence, Some(0), 3_600..3_610), None);
        assert_eq!(changes(&mut silence, Some(0), 3_610..3_700), Some(3_610));
        // Nor is it over because the broker stood still.
        assert_eq!(changes(&mut silence, Some(0), 7_200..7_300), None);
        assert!(silence.lasts());
    }

    #[test]
    fn what_a_store_owed_that_was_out_of_reach_counts_from_when_it_is_back() {
        let mut silence = StoreSilence::new(at(0));
        assert_eq!(changes(&mut silence, Some(0), 0..100), Some(10));
        silence.restart(at(11));
        assert!(!silence.lasts());
        assert_eq!(changes(&mut silence, None, 11..100), None);
        silence.restart(at(100));
        assert_eq!(changes(&mut silence, Some(0), 100..200), Some(110));
    }
}
