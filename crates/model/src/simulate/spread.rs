//! How response times are distributed: counts in buckets that are 1/1024 of their octave wide.
//!
//! The bucket of a number is the leading bits of its float: exponent and ten bits of fraction. So
//! no unit and no range has to be chosen beforehand, whatever the time scale of a network, and the
//! middle of a bucket is within 0.05 % of all in it. Only the stretch between the least and the
//! greatest bucket seen is kept; what is below 2⁻⁶⁰ s counts as zero, what is above 2⁶⁰ s as that.

use serde::{Deserialize, Serialize};

/// Bits of a float that its bucket ignores.
const IGNORED: u32 = 52 - 10;
/// 2⁻⁶⁰ and 2⁶⁰.
const LEAST: f64 = f64::from_bits((1023 - 60) << 52);
const GREATEST: f64 = f64::from_bits((1023 + 60) << 52);

/// Counts by bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SimulatedHistogram {
    /// The bucket of `counts[0]`.
    first: usize,
    #[serde(with = "runs")]
    counts: Vec<u64>,
    zeros: u64,
    total: u64,
}

impl SimulatedHistogram {
    /// Counts a value, which is ≥ 0 and finite.
    #[inline]
    pub(super) fn record(&mut self, value: f64) {
        self.total += 1;
        if value < LEAST {
            self.zeros += 1;
            return;
        }
        let bucket = (value.min(GREATEST).to_bits() >> IGNORED) as usize;
        if let Some(count) = self.counts.get_mut(bucket.wrapping_sub(self.first)) {
            *count += 1;
        } else {
            self.make_room(bucket, bucket);
            self.counts[bucket - self.first] += 1;
        }
    }

    /// Adds what another one counted.
    pub(super) fn add(&mut self, other: &Self) {
        (self.zeros, self.total) = (self.zeros + other.zeros, self.total + other.total);
        if other.counts.is_empty() {
            return;
        }
        self.make_room(other.first, other.first + other.counts.len() - 1);
        let shift = other.first - self.first;
        self.counts[shift..].iter_mut().zip(&other.counts).for_each(|(into, from)| *into += from);
    }

    /// How many values were counted.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// How many values are above what counts as the same as `value`.
    pub(super) fn above(&self, value: f64) -> u64 {
        if value < LEAST {
            return self.total - self.zeros;
        }
        let next = (value.min(GREATEST).to_bits() >> IGNORED) as usize + 1;
        self.counts.iter().skip(next.saturating_sub(self.first)).sum()
    }

    /// The least value such that `share` of all are not greater: the middle of its bucket. `None`
    /// of nothing.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = ((share * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut below = self.zeros;
        if self.zeros >= rank {
            return Some(0.0);
        }
        let place = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        let edge = |bucket: usize| f64::from_bits((bucket as u64) << IGNORED);
        let bucket = self.first + place;
        Some((edge(bucket) + edge(bucket + 1)) / 2.0)
    }

    /// Covers the buckets from `least` to `greatest`, some more on the side that has to grow.
    fn make_room(&mut self, least: usize, greatest: usize) {
        const MORE: usize = 256;
        if self.counts.is_empty() {
            self.first = least.saturating_sub(MORE);
        }
        if least < self.first {
            let first = least.saturating_sub(MORE);
            self.counts.splice(0..0, std::iter::repeat_n(0, self.first - first));
            self.first = first;
        }
        let end = greatest - self.first + 1;
        if end > self.counts.len() {
            self.counts.resize(end + MORE, 0);
        }
    }
}

/// Counts as they are written: most buckets of a short run are empty, so a run of empty ones is one
/// negative number, its length.
mod runs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Buckets of a histogram at most: the range of values, with room at both ends.
    const MOST: usize = 1 << 18;

    pub(super) fn serialize<S: Serializer>(counts: &[u64], to: S) -> Result<S::Ok, S::Error> {
        let mut written: Vec<i64> = Vec::new();
        for &count in counts {
            match written.last_mut() {
                Some(last) if count == 0 && *last < 0 => *last -= 1,
                _ if count == 0 => written.push(-1),
                _ => written.push(i64::try_from(count).unwrap_or(i64::MAX)),
            }
        }
        written.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let mut counts = Vec::new();
        for one in Vec::<i64>::deserialize(from)? {
            let more = if one < 0 { one.unsigned_abs() as usize } else { 1 };
            if more > MOST || counts.len() + more > MOST {
                return Err(serde::de::Error::custom("a histogram with too many buckets"));
            }
            if one < 0 {
                counts.resize(counts.len() + more, 0);
            } else {
                counts.push(one as u64);
            }
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_values_to_a_twentieth_of_a_percent(
            values in prop::collection::vec(prop_oneof![Just(0.0), (-12.0..12.0_f64).prop_map(|e| 10_f64.powf(e)), 0.9..1.1_f64], 1..200),
            cut in 0_usize..200, share in 0.0..=1.0_f64,
        ) {
            let (mut whole, mut part) = (SimulatedHistogram::default(), SimulatedHistogram::default());
            for (place, value) in values.iter().enumerate() {
                if place < cut { whole.record(*value) } else { part.record(*value) }
            }
            let written = serde_json::to_string(&part).unwrap();
            prop_assert_eq!(&serde_json::from_str::<SimulatedHistogram>(&written).unwrap(), &part);
            whole.add(&part);
            prop_assert_eq!(whole.total(), values.len() as u64);
            let mut sorted = values;
            sorted.sort_unstable_by(f64::total_cmp);
            let exact = sorted[((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1];
            let seen = whole.quantile(share).unwrap();
            prop_assert!((seen - exact).abs() <= 0.0005 * exact, "{} {}", seen, exact);
            let above = sorted.iter().filter(|value| **value > 1.002 * exact).count() as u64;
            let reach = sorted.iter().filter(|value| **value > 0.998 * exact).count() as u64;
            prop_assert!((above..=reach).contains(&whole.above(seen)), "{} of {:?}", whole.above(seen), sorted);
        }
    }

    #[test]
    fn the_ends_of_the_range_do_not_take_memory_without_end() {
        assert_eq!(SimulatedHistogram::default().quantile(0.5), None);
        let mut spread = SimulatedHistogram::default();
        for value in [0.0, f64::MIN_POSITIVE, 1.0, f64::MAX] {
            spread.record(value);
        }
        assert_eq!(spread.quantile(0.5), Some(0.0));
        assert!(spread.quantile(1.0).is_some_and(|most| most > 1e18));
        assert!(spread.counts.len() < 130 << 10);
    }
}
