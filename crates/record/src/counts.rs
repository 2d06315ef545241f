//! The counts of an HDR histogram of three digits, made for being counted into.
//!
//! Values below 2048 have a bucket each; each doubling above has 1024 buckets of equal width. So a
//! value's bucket is its eleven leading bits and how many follow them, and counting it is a shift
//! and an addition. Bucket for bucket it is what `hdrhistogram` keeps for the same range (a test
//! compares them); that library reads and writes the files.

use hdrhistogram::Histogram;

/// Significant decimal digits of a histogram.
pub const DIGITS: u8 = 3;

/// Below, each value has its own bucket.
const SINGLE: u64 = 1 << SINGLE_BITS;
const SINGLE_BITS: u32 = 11;
/// Buckets in each doubling above.
const HALF: usize = 1 << (SINGLE_BITS - 1);

/// A share is rounded, and so is its product with a count: where that is more than a whole number
/// by less than this part of itself, it is that number.
const ROUNDED: f64 = 4.0 * f64::EPSILON;

/// How often values up to a limit came, by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketCounts {
    counts: Box<[u64]>,
    total: u64,
    longest: u64,
}

/// The place of the bucket of `value`.
#[inline]
fn place(value: u64) -> usize {
    let follow = (SINGLE - 1).leading_zeros() - (value | (SINGLE - 1)).leading_zeros();
    // The leading one of a value with its own bucket is part of the place, that of the others is
    // not.
    ((follow as usize) << (SINGLE_BITS - 1)) + (value >> follow) as usize
}

/// The least value of the bucket at a place, and its width.
fn range(place: usize) -> (u64, u64) {
    let follow = (place / HALF).saturating_sub(1);
    let leading = (place - follow * HALF) as u64;
    (leading << follow, 1 << follow)
}

/// The value that stands for all of a bucket.
fn middle(place: usize) -> u64 {
    let (least, width) = range(place);
    least + width / 2
}

impl BucketCounts {
    /// Of no value; none will be above `longest`.
    pub(crate) fn new(longest: u64) -> Self {
        Self { counts: vec![0; place(longest) + 1].into_boxed_slice(), total: 0, longest }
    }

    /// Counts a value; one above the limit as the limit.
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        self.counts[place(value.min(self.longest))] += 1;
        self.total += 1;
    }

    /// Adds the counts of the same range.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *ours += theirs;
        }
        self.total += other.total;
    }

    pub(crate) fn reset(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// How many values.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The middles of the buckets with values in them, and how many, in rising order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(place, &count)| (middle(place), count))
    }

    /// The greatest value of the bucket where the share `quantile` of all values has been passed;
    /// zero without values.
    pub(crate) fn quantile(&self, quantile: f64) -> u64 {
        let rank = quantile.clamp(0.0, 1.0) * self.total as f64 * (1.0 - ROUNDED);
        let wanted = (rank.ceil() as u64).clamp(1, self.total.max(1));
        let mut passed = 0;
        let reached = self.counts.iter().position(|count| {
            passed += count;
            passed >= wanted
        });
        reached.map_or(0, |place| {
            let (least, width) = range(place);
            least + width - 1
        })
    }

    /// How many values lie in the buckets up to that of each of `bounds`, which rise.
    pub(crate) fn up_to(&self, bounds: &[u64]) -> Vec<u64> {
        let (mut passed, mut from) = (0, 0);
        let mut below = |bound: u64| {
            let to = place(bound.min(self.longest)) + 1;
            passed += self.counts[from.min(to)..to].iter().sum::<u64>();
            from = to;
            passed
        };
        bounds.iter().map(|&bound| below(bound)).collect()
    }

    /// The standard deviation of the values, each taken as the middle of its bucket.
    pub(crate) fn deviation(&self) -> f64 {
        let total = self.total as f64;
        let mean = self.iter().map(|(value, count)| value as f64 * count as f64).sum::<f64>() / total;
        let squares = self.iter().map(|(value, count)| (value as f64 - mean).powi(2) * count as f64);
        (squares.sum::<f64>() / total).sqrt()
    }

    /// Each bucket with values, by its number, and how many. Numbers are the same for every range.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, u64)> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(place, &count)| (place as u32, count))
    }

    /// From what [`Self::places`] gave; `None` where a number is beyond the range or comes twice,
    /// or there are more values than were ever counted.
    pub(crate) fn from_places(places: &[(u32, u64)], longest: u64) -> Option<Self> {
        let mut counts = Self::new(longest);
        for &(place, count) in places {
            let kept = counts.counts.get_mut(place as usize).filter(|kept| **kept == 0)?;
            *kept = count;
            counts.total = counts.total.checked_add(count).filter(|total| *total < 1 << 53)?;
        }
        Some(counts)
    }

    /// The same as a histogram of the library; its range is 1 to the limit, with three digits.
    pub(crate) fn histogram(&self) -> Histogram<u64> {
        let mut histogram =
            Histogram::new_with_bounds(1, self.longest, DIGITS).expect("the bounds are constants");
        for (place, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            histogram.saturating_record_n(range(place).0, count);
        }
        histogram
    }

    /// From a histogram of the library with fewer than 2^53 values. What it holds above the limit
    /// is counted as the limit.
    pub(crate) fn from_histogram(histogram: &Histogram<u64>, longest: u64) -> Self {
        let mut counts = Self::new(longest);
        for step in histogram.iter_recorded() {
            counts.counts[place(step.value_iterated_to().min(longest))] += step.count_at_value();
            counts.total += step.count_at_value();
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONGEST: u64 = 100_000_000_000;

    fn both(values: &[u64]) -> (BucketCounts, Histogram<u64>) {
        let mut counts = BucketCounts::new(LONGEST);
        let mut histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS).unwrap();
        for &value in values {
            counts.add(value);
            histogram.saturating_record(value.min(LONGEST));
        }
        (counts, histogram)
    }

    #[test]
    fn every_place_has_a_range_and_every_value_of_it_that_place() {
        let mut next = 0;
        for at in 0..=place(LONGEST) {
            let (least, width) = range(at);
            assert_eq!(least, next, "no gap and no overlap before {at}");
            assert_eq!((place(least), place(least + width - 1)), (at, at));
            next = least + width;
        }
        assert!(next > LONGEST);
    }

    #[test]
    fn buckets_beyond_the_range_and_more_values_than_can_be_are_refused() {
        assert_eq!(BucketCounts::from_places(&[(place(LONGEST) as u32 + 1, 1)], LONGEST), None);
        assert_eq!(BucketCounts::from_places(&[(1, u64::MAX), (2, 1)], LONGEST), None);
        assert_eq!(BucketCounts::from_places(&[], LONGEST), Some(BucketCounts::new(LONGEST)));
    }

    /// For a computer 0.0051 of 10,000 is a little more than 51, and 99.9 / 100 than 0.999.
    #[test]
    fn a_share_that_was_rounded_up_takes_no_further_value() {
        for (share, values, wanted) in
            [(0.005_1, 10_000, 51), (99.9 / 100.0, 1_000, 999), (0.07, 100, 7), (0.071, 100, 8), (1.0, 9, 9)]
        {
            let mut counts = BucketCounts::new(LONGEST);
            (1..=values).for_each(|value| counts.add(value));
            assert_eq!(counts.quantile(share), wanted, "{share} of {values}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_what_the_library_would_have_counted(
            values in prop::collection::vec(prop_oneof![0_u64..5_000, 0..LONGEST, any::<u64>()], 1..60),
            quantile in 0.001_f64..=1.0,
        ) {
            let (counts, histogram) = both(&values);
            prop_assert_eq!(counts.total(), histogram.len());
            let steps: Vec<_> = histogram
                .iter_recorded()
                .map(|step| (histogram.median_equivalent(step.value_iterated_to()), step.count_at_value()))
                .collect();
            prop_assert_eq!(counts.iter().collect::<Vec<_>>(), steps);
            prop_assert_eq!(counts.quantile(quantile), histogram.value_at_quantile(quantile));
            let (ours, theirs) = (counts.deviation(), histogram.stdev());
            prop_assert!((ours - theirs).abs() <= 1e-9 * theirs, "{} {}", ours, theirs);
            let bounds = [0, 10, 3_000, 100_000, 7_000_000_000, LONGEST];
            let below: Vec<_> = bounds.iter().map(|&bound| histogram.count_between(0, bound)).collect();
            prop_assert_eq!(counts.up_to(&bounds), below);
            prop_assert_eq!(&counts.histogram(), &histogram);
            let places: Vec<_> = counts.places().collect();
            prop_assert_eq!(BucketCounts::from_places(&places, LONGEST), Some(counts.clone()));
            let twice = [&places[..], &places[..1]].concat();
            prop_assert_eq!(BucketCounts::from_places(&twice, LONGEST), None);
            prop_assert_eq!(BucketCounts::from_histogram(&histogram, LONGEST), counts);
        }
    }
}
