//! What a client's expiry time means, as a point in time.

use krarup_units::Nanos;

/// Expiry times up to this many seconds count from now; beyond it they are Unix time.
pub const LONGEST_RELATIVE: i32 = 30 * 24 * 60 * 60;

/// When an item is no longer there. All times are since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never, by itself.
    Never,
    /// From this point in time on.
    At(Nanos),
}

impl Expiry {
    /// Reads memcached's expiry time: 0 never, negative at once, up to [`LONGEST_RELATIVE`] seconds
    /// from `now`, beyond that Unix time, which may have passed already.
    ///
    /// memcached itself counts whole seconds and lets an item go at the tick, up to a second early.
    /// Here the nanoseconds are kept.
    pub fn of(exptime: i32, now: Nanos) -> Self {
        match u64::try_from(exptime) {
            Err(_) => Self::At(now),
            Ok(0) => Self::Never,
            Ok(seconds) if exptime <= LONGEST_RELATIVE => Self::At(now + Nanos::from_secs(seconds)),
            Ok(seconds) => Self::At(Nanos::from_secs(seconds)),
        }
    }

    /// Whether that point has been reached.
    pub fn passed(self, now: Nanos) -> bool {
        matches!(self, Self::At(time) if time <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(1_700_000_000);

    #[test]
    fn expiry_times_are_relative_up_to_thirty_days_and_absolute_beyond() {
        for (exptime, expected) in [
            (0, Expiry::Never),
            (-1, Expiry::At(NOW)),
            (i32::MIN, Expiry::At(NOW)),
            (1, Expiry::At(Nanos::from_secs(1_700_000_001))),
            (2_592_000, Expiry::At(Nanos::from_secs(1_702_592_000))),
            (2_592_001, Expiry::At(Nanos::from_secs(2_592_001))),
            (1_700_000_060, Expiry::At(Nanos::from_secs(1_700_000_060))),
        ] {
            assert_eq!(Expiry::of(exptime, NOW), expected, "{exptime}");
        }
    }

    #[test]
    fn the_point_itself_has_passed() {
        let expiry = Expiry::of(1, NOW);
        assert!(!expiry.passed(Nanos(NOW.0 + 999_999_999)));
        assert!(expiry.passed(Nanos(NOW.0 + 1_000_000_000)));
        assert!(Expiry::of(-1, NOW).passed(NOW));
        assert!(!Expiry::Never.passed(Nanos(u64::MAX)));
    }
}
