//! How the four times are distributed: HDR histograms per operation, with exact sums beside them.
//!
//! **What a bucket is.** An HDR histogram with three digits counts values below 2048 ns one by one;
//! above, its buckets double in width with every doubling of the value, so that each is at most
//! 1/1024 of its values wide. In the view with buckets of equal width
//! ([`MeasuredDistribution::buckets`], 100 µs in the files), an HDR bucket is counted as a whole
//! where its middle lies. A value may thus stand one bucket beside its own, by at most 0.05 % of
//! itself; above 102 ms, where HDR buckets are wider than 100 µs, some buckets of the view stay
//! empty.

use hdrhistogram::Histogram;
use krarup_units::{Mistake, Nanos, Seconds};
use serde::{Deserialize, Serialize};

use crate::counts::BucketCounts;
pub use crate::counts::DIGITS;
use crate::tally::in_seconds;
use crate::visit::named;
use crate::{Operation, Parts};

/// The longest time a histogram tells apart. Longer ones are counted here, and counted as clamped.
pub const LONGEST: Nanos = Nanos::from_secs(100);

/// The width of the buckets in files: 100 µs, as the reports of the course have them.
pub const BUCKET: Nanos = Nanos::from_micros(100);

named! {
    /// The times that are kept as histograms.
    Quantity {
        /// See [`crate::stamps::QUEUE_TIME`].
        Queue = "queue_time",
        /// See [`crate::stamps::SERVER_TIME`].
        Server = "server_time",
        /// See [`crate::stamps::OWN_TIME`].
        Own = "own_time",
        /// See [`crate::stamps::RESPONSE_TIME`].
        Response = "response_time",
    }
}

impl Quantity {
    /// This quantity of a visit.
    #[inline]
    pub const fn of(self, parts: &Parts) -> Nanos {
        match self {
            Self::Queue => parts.queue,
            Self::Server => parts.server,
            Self::Own => parts.own,
            Self::Response => parts.response,
        }
    }
}

/// One quantity's distribution: to three digits, its count, sum, least and greatest value exactly.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "KeptDistribution", try_from = "KeptDistribution")]
pub struct MeasuredDistribution {
    counts: BucketCounts,
    /// Whole, where files stop at the largest number: what is shown while it grows shall go on.
    sum: u128,
    least: u64,
    greatest: u64,
    clamped: u64,
}

impl PartialEq for MeasuredDistribution {
    /// The same in every figure that a file keeps.
    fn eq(&self, other: &Self) -> bool {
        self.counts == other.counts && self.exact() == other.exact()
    }
}

/// A distribution as it is kept in a file of sums: every bucket with values, by its number.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptDistribution {
    buckets: Vec<(u32, u64)>,
    sum: u64,
    least: u64,
    greatest: u64,
    clamped: u64,
}

impl From<MeasuredDistribution> for KeptDistribution {
    fn from(of: MeasuredDistribution) -> Self {
        let Exact { sum: Nanos(sum), .. } = of.exact();
        let MeasuredDistribution { counts, least, greatest, clamped, .. } = of;
        Self { buckets: counts.places().collect(), sum, least, greatest, clamped }
    }
}

impl TryFrom<KeptDistribution> for MeasuredDistribution {
    type Error = Mistake;

    fn try_from(of: KeptDistribution) -> Result<Self, Self::Error> {
        let KeptDistribution { buckets, sum, least, greatest, clamped } = of;
        let counts = BucketCounts::from_places(&buckets, LONGEST.0);
        let wrong = || Mistake::plain("a distribution has a bucket twice, or beyond the longest time");
        let counts = counts.ok_or_else(wrong)?;
        Ok(Self { counts, sum: sum.into(), least, greatest, clamped })
    }
}

/// What a distribution knows exactly beside its histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// The sum of all values, at full length. Stops at the largest number.
    pub sum: Nanos,
    /// The least value; the longest there is in an empty distribution.
    pub least: Nanos,
    /// The greatest value.
    pub greatest: Nanos,
    /// How many values were longer than [`LONGEST`] and stand in the histogram as that.
    pub clamped: u64,
}

/// A part of the range from zero up, and how many values lie in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The least value of the bucket.
    pub from: Nanos,
    /// The least value of the next bucket.
    pub to: Nanos,
    /// Values in the bucket.
    pub count: u64,
    /// The share of all values that lie in this bucket or below, up to 1.
    pub cumulative: f64,
}

impl Default for MeasuredDistribution {
    fn default() -> Self {
        Self::new()
    }
}

impl MeasuredDistribution {
    /// Of no value. Takes 230 KB of address space, of which only the pages with values become
    /// memory.
    pub fn new() -> Self {
        Self { counts: BucketCounts::new(LONGEST.0), sum: 0, least: u64::MAX, greatest: 0, clamped: 0 }
    }

    /// From a histogram of the range of all distributions, and what was known exactly beside it.
    pub(crate) fn from_parts(histogram: &Histogram<u64>, exact: Exact) -> Self {
        let Exact { sum, least, greatest, clamped } = exact;
        let counts = BucketCounts::from_histogram(histogram, LONGEST.0);
        Self { counts, sum: sum.0.into(), least: least.0, greatest: greatest.0, clamped }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.sum += u128::from(value.0);
        self.least = self.least.min(value.0);
        self.greatest = self.greatest.max(value.0);
        self.clamped += u64::from(value > LONGEST);
        self.counts.add(value.0);
    }

    /// Adds what another distribution counted.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
        self.clamped += other.clamped;
    }

    /// Forgets all values, keeps the memory.
    pub fn reset(&mut self) {
        self.counts.reset();
        (self.sum, self.least, self.greatest, self.clamped) = (0, u64::MAX, 0, 0);
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.total()
    }

    /// What is known exactly.
    pub fn exact(&self) -> Exact {
        Exact {
            sum: Nanos(u64::try_from(self.sum).unwrap_or(u64::MAX)),
            least: Nanos(self.least),
            greatest: Nanos(self.greatest),
            clamped: self.clamped,
        }
    }

    /// The sum of all values, however large.
    pub fn sum(&self) -> Seconds {
        in_seconds(self.sum)
    }

    /// The exact mean. `None` without values.
    pub fn mean(&self) -> Option<Seconds> {
        (self.count() > 0).then(|| self.sum() / self.count() as f64)
    }

    /// The standard deviation, to the histogram's digits. `None` with fewer than two values.
    pub fn deviation(&self) -> Option<Seconds> {
        (self.count() > 1).then(|| self.counts.deviation() / 1e9)
    }

    /// The least value that at least the share `quantile` (0 to 1) of all values does not exceed,
    /// to the histogram's digits, never above the greatest value unless that was clamped. `None`
    /// without values.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let value = || self.counts.quantile(quantile).min(self.greatest);
        (self.count() > 0).then(|| Nanos(value()))
    }

    /// Buckets of equal width that hold values, in rising order; how HDR buckets map to them says
    /// the [module](self). A width of zero is taken as one nanosecond.
    pub fn buckets(&self, width: Nanos) -> Vec<Bucket> {
        let width = width.0.max(1);
        let total = self.count() as f64;
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut below = 0;
        for (middle, count) in self.counts.iter() {
            below += count;
            let from = middle / width * width;
            let cumulative = below as f64 / total;
            match buckets.last_mut().filter(|last| last.from.0 == from) {
                Some(last) => (last.count, last.cumulative) = (last.count + count, cumulative),
                None => {
                    buckets.push(Bucket { from: Nanos(from), to: Nanos(from + width), count, cumulative });
                }
            }
        }
        buckets
    }

    /// For each of `bounds`, which rise, how many values it is not exceeded by, to the histogram's
    /// digits.
    pub fn up_to(&self, bounds: &[u64]) -> Vec<u64> {
        self.counts.up_to(bounds)
    }

    /// The same as a histogram of the library, for what is not offered here. It is made anew at
    /// each call.
    pub fn histogram(&self) -> Histogram<u64> {
        self.counts.histogram()
    }
}

/// A distribution for each quantity of one operation.
type ByQuantity = [MeasuredDistribution; Quantity::COUNT];

/// Distributions of the four times for each operation, made when an operation is first seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histograms {
    operations: [Option<Box<ByQuantity>>; Operation::COUNT],
}

impl Histograms {
    /// Of no visit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts the parts of one visit. Allocates at an operation's first visit only.
    #[inline]
    pub fn record(&mut self, operation: Operation, parts: &Parts) {
        let distributions = self.of(operation);
        for &quantity in Quantity::ALL {
            distributions[quantity.index()].record(quantity.of(parts));
        }
    }

    /// The same for many visits: one quantity after the other.
    pub(crate) fn record_all(&mut self, visits: &[(Operation, Parts)]) {
        for &quantity in Quantity::ALL {
            for (operation, parts) in visits {
                self.of(*operation)[quantity.index()].record(quantity.of(parts));
            }
        }
    }

    #[inline]
    fn of(&mut self, operation: Operation) -> &mut ByQuantity {
        self.operations[operation.index()].get_or_insert_with(Self::make)
    }

    #[cold]
    fn make() -> Box<ByQuantity> {
        Box::new(std::array::from_fn(|_| MeasuredDistribution::new()))
    }

    /// Adds what other histograms counted.
    pub fn merge(&mut self, other: &Self) {
        for (operation, quantity, theirs) in other.iter() {
            self.of(operation)[quantity.index()].merge(theirs);
        }
    }

    /// Forgets all values, keeps the memory.
    pub fn reset(&mut self) {
        self.operations
            .iter_mut()
            .flatten()
            .flat_map(|all| all.iter_mut())
            .for_each(MeasuredDistribution::reset);
    }

    /// One distribution. `None` where the operation was never seen.
    pub fn get(&self, operation: Operation, quantity: Quantity) -> Option<&MeasuredDistribution> {
        Some(&self.operations[operation.index()].as_ref()?[quantity.index()])
    }

    /// Every distribution that holds values, by operation and then quantity.
    pub fn iter(&self) -> impl Iterator<Item = (Operation, Quantity, &MeasuredDistribution)> {
        let pairs =
            Operation::ALL.iter().flat_map(|&one| Quantity::ALL.iter().map(move |&other| (one, other)));
        pairs.filter_map(|(operation, quantity)| {
            let distribution = self.get(operation, quantity)?;
            (distribution.count() > 0).then_some((operation, quantity, distribution))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn distribution(values: &[u64]) -> MeasuredDistribution {
        let mut distribution = MeasuredDistribution::new();
        values.iter().for_each(|&value| distribution.record(Nanos(value)));
        distribution
    }

    #[test]
    fn quantiles_keep_three_digits_and_the_mean_all() {
        let values: Vec<u64> = (1..=1_000).map(|i| i * 10_000).collect();
        let thousand = distribution(&values);
        assert_eq!(thousand.mean(), Some(0.005_005));
        let median = thousand.quantile(0.5).unwrap().0 as f64;
        assert!((median / 5e6 - 1.0).abs() < 0.001, "{median}");
        assert_eq!(thousand.quantile(1.0), Some(Nanos(10_000_000)));
        assert_eq!(distribution(&[]).quantile(0.5), None);
    }

    #[test]
    fn what_is_too_long_is_clamped_and_counted() {
        let long = distribution(&[5, LONGEST.0, LONGEST.0 + 1, u64::MAX]);
        let exact = long.exact();
        assert_eq!((exact.clamped, exact.least, exact.greatest), (2, Nanos(5), Nanos(u64::MAX)));
        assert_eq!(long.count(), 4);
        assert!(long.quantile(1.0).unwrap().0 < LONGEST.0 + LONGEST.0 / 1_000);
    }

    #[test]
    fn a_sum_goes_on_where_that_of_a_file_stops() {
        let long = distribution(&[u64::MAX; 3]);
        assert_eq!((long.exact().sum, long.sum()), (Nanos(u64::MAX), 3.0 * u64::MAX as f64 / 1e9));
    }

    #[test]
    fn buckets_of_equal_width_hold_what_lies_between_their_edges() {
        let buckets = distribution(&[0, 99_000, 101_000, 150_000, 1_050_000]).buckets(BUCKET);
        let view: Vec<_> =
            buckets.iter().map(|b| (b.from.0 / 1_000, b.to.0 / 1_000, b.count, b.cumulative)).collect();
        assert_eq!(view, [(0, 100, 2, 0.4), (100, 200, 2, 0.8), (1_000, 1_100, 1, 1.0)]);
    }

    #[test]
    fn an_operation_never_seen_has_no_histogram() {
        let mut histograms = Histograms::new();
        let parts = Parts { queue: Nanos(1), server: Nanos(2), own: Nanos(3), response: Nanos(6) };
        histograms.record(Operation::Set, &parts);
        assert!(histograms.get(Operation::Get, Quantity::Response).is_none());
        assert_eq!(histograms.get(Operation::Set, Quantity::Own).unwrap().mean(), Some(3e-9));
        assert_eq!(histograms.iter().count(), Quantity::COUNT);
        histograms.reset();
        assert_eq!(histograms.iter().count(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merged_distributions_are_that_of_the_whole(
            left in prop::collection::vec(any::<u64>(), 0..20),
            right in prop::collection::vec(0_u64..1_000_000_000, 0..20),
        ) {
            let mut merged = distribution(&left);
            merged.merge(&distribution(&right));
            prop_assert_eq!(merged, distribution(&[left, right].concat()));
        }

        #[test]
        fn buckets_neither_lose_nor_make_values(
            values in prop::collection::vec(0_u64..200_000_000_000, 1..50),
            width in 0_u64..1_000_000_000,
        ) {
            let distribution = distribution(&values);
            let buckets = distribution.buckets(Nanos(width));
            prop_assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), values.len() as u64);
            prop_assert_eq!(buckets.last().unwrap().cumulative, 1.0);
            prop_assert!(buckets.windows(2).all(|pair| pair[0].to <= pair[1].from));
        }

        #[test]
        fn a_value_stands_in_its_bucket_or_within_a_two_thousandth_of_it(value in 0_u64..100_000_000_000) {
            let bucket = distribution(&[value]).buckets(BUCKET)[0];
            let slack = value / 2_000 + 1;
            prop_assert!(bucket.from.0 <= value + slack && value < bucket.to.0 + slack);
        }
    }
}
