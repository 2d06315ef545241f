//! How long an owner has been silent, also by the clock of the broker that looks: where the
//! database's clock goes forward, rows only seem old.

use std::time::{Duration, Instant, SystemTime};

use super::place::LEASE;

/// A look counts no more time than this, however long after the last one it comes: while the
/// database stood still no owner could say that it is there.
const COUNTED: Duration = LEASE.checked_div(4).expect("four is not zero");

/// An owner's last word, and for how long this broker knows it.
#[derive(Debug, Default)]
pub(super) struct OwnerSilence(Option<LastWord>);

#[derive(Debug)]
struct LastWord {
    renewed: SystemTime,
    /// The time between looks, as far as it counts.
    silent: Duration,
    looked: Instant,
}

impl OwnerSilence {
    /// Whether the row that was renewed then has been the same for three quarters of a lease; to be
    /// asked at each look.
    pub(super) fn lasts(&mut self, renewed: SystemTime, now: Instant) -> bool {
        let silent = match &self.0 {
            Some(last) if last.renewed == renewed => {
                last.silent + now.duration_since(last.looked).min(COUNTED)
            }
            _ => Duration::ZERO,
        };
        self.0 = Some(LastWord { renewed, silent, looked: now });
        silent >= LEASE * 3 / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At which of these looks, in milliseconds, the owner is first silent that last renewed its
    /// row then.
    fn first(
        silence: &mut OwnerSilence,
        begin: Instant,
        renewed: u64,
        mut looks: impl Iterator<Item = u64>,
    ) -> Option<u64> {
        let renewed = SystemTime::UNIX_EPOCH + Duration::from_millis(renewed);
        looks.find(|look| silence.lasts(renewed, begin + Duration::from_millis(*look)))
    }

    #[test]
    fn an_owner_is_silent_when_its_row_was_the_same_for_most_of_a_lease() {
        let (mut silence, begin) = (OwnerSilence::default(), Instant::now());
        assert_eq!(first(&mut silence, begin, 0, (0..=800).step_by(50)), None);
        // It goes on.
        assert_eq!(first(&mut silence, begin, 400, (850..=1_700).step_by(50)), None);
        assert_eq!(first(&mut silence, begin, 400, (1_750..).step_by(50)), Some(1_750));
    }

    /// As where its processes were stopped, or the network to it stood.
    #[test]
    fn a_pause_of_the_database_is_no_silence_of_an_owner() {
        let begin = Instant::now();
        for goes_on in [true, false] {
            let mut silence = OwnerSilence::default();
            assert_eq!(first(&mut silence, begin, 0, (0..=100).step_by(50)), None);
            assert_eq!(first(&mut silence, begin, 0, (5_000..=5_200).step_by(50)), None);
            let renewed = if goes_on { 5_200 } else { 0 };
            let silent = first(&mut silence, begin, renewed, (5_250..=6_100).step_by(50));
            assert_eq!(silent, (!goes_on).then_some(5_500));
        }
    }

    #[test]
    fn an_owner_that_hangs_is_found_however_long_a_look_takes() {
        let (mut silence, begin) = (OwnerSilence::default(), Instant::now());
        assert_eq!(first(&mut silence, begin, 0, (0..).step_by(2_000)), Some(6_000));
    }
}
