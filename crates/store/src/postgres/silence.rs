//! How long an owner has been silent, also by the clock of the broker that looks: where the
//! database's clock goes forward, rows only seem old.

use std::time::{Instant, SystemTime};

use super::place::LEASE;

/// An owner's last word, and since when this broker knows it.
#[derive(Debug, Default)]
pub(super) struct OwnerSilence(Option<(SystemTime, Instant)>);

impl OwnerSilence {
    /// Whether the row that was renewed then has been the same for three quarters of a lease; to be
    /// asked at each look.
    pub(super) fn lasts(&mut self, renewed: SystemTime, now: Instant) -> bool {
        match self.0 {
            Some((last, since)) if last == renewed => now.duration_since(since) >= LEASE * 3 / 4,
            _ => {
                self.0 = Some((renewed, now));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_owner_is_silent_when_its_row_was_the_same_for_most_of_a_lease() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let renewed = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let mut silence = OwnerSilence::default();
        assert!(!silence.lasts(renewed(0), at(0)));
        assert!(!silence.lasts(renewed(0), at(800)));
        // It goes on.
        assert!(!silence.lasts(renewed(400), at(950)));
        assert!(!silence.lasts(renewed(400), at(1_800)));
        assert!(silence.lasts(renewed(400), at(1_850)));
    }
}
