//! Points in time and lengths of time.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A measured length of time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A computed length of time, in seconds: means, demands, predictions.
pub type Seconds = f64;

/// A point on the monotonic clock of one run, in nanoseconds since the run's epoch.
///
/// Stamps of different runs never meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A whole number of microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// A whole number of milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A whole number of seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// The nearest length to `seconds`; negative and not-a-number become zero, too long the
    /// longest.
    pub fn from_seconds(seconds: Seconds) -> Self {
        Self((seconds * 1e9).round() as u64)
    }

    /// As a computed length. Exact below 104 days (2⁵³ ns).
    pub fn as_seconds(self) -> Seconds {
        self.0 as f64 / 1e9
    }

    /// As the standard library's duration, for system calls that wait.
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// `self - other`, or zero where `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Nanos {
    /// Lengths beyond 584 years become the longest.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    /// A longer part than the whole is a bug in the caller, not a zero.
    fn sub(self, part: Self) -> Self {
        Self(self.0.checked_sub(part.0).expect("a part is not longer than its whole"))
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Add::add)
    }
}

impl Sub for Stamp {
    type Output = Nanos;
    /// Time since an earlier stamp. A later one is a bug in the caller, not a zero.
    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0.checked_sub(earlier.0).expect("stamps out of order"))
    }
}

impl Add<Nanos> for Stamp {
    type Output = Self;
    fn add(self, length: Nanos) -> Self {
        Self(self.0 + length.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_two_stamps_is_a_length() {
        assert_eq!(Stamp(1_500) - Stamp(500), Nanos(1_000));
        assert_eq!(Stamp(500) + Nanos(1_000), Stamp(1_500));
    }

    #[test]
    #[should_panic(expected = "stamps out of order")]
    fn a_later_stamp_is_no_start() {
        let _ = Stamp(1) - Stamp(2);
    }

    #[test]
    fn seconds_that_are_no_length_become_zero() {
        assert_eq!(Nanos::from_seconds(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_seconds(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_seconds(1.5e-6), Nanos(1_500));
    }
}
