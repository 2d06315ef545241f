//! What shared a statement and its commit, and how long that took.

use krarup_record::MeasuredDistribution;
use krarup_units::Nanos;

/// The upper bounds of the buckets that sizes of batches are counted in.
pub const SIZES: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

/// All batches so far.
#[derive(Clone, Debug, Default)]
pub struct BatchStatistics {
    /// From handing a statement to a connection until its commit is known.
    pub times: MeasuredDistribution,
    /// Requests that waited for each batch. A number stands where a time of so many nanoseconds
    /// would.
    sizes: MeasuredDistribution,
}

/// How large batches were, in buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSizes {
    /// Batches up to each of [`SIZES`].
    pub up_to: Vec<u64>,
    /// How many there were.
    pub count: u64,
    /// Requests in all of them.
    pub sum: u64,
}

impl BatchStatistics {
    /// One more: so many requests waited for it.
    pub fn record(&mut self, requests: u64, time: Nanos) {
        self.times.record(time);
        self.sizes.record(Nanos(requests));
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.times.count()
    }

    /// Requests for each of them, in the mean; none without batches.
    pub fn mean_size(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sizes.exact().sum.0 as f64 / self.count() as f64)
    }

    /// How large they were.
    pub fn sizes(&self) -> BatchSizes {
        BatchSizes { up_to: self.sizes.up_to(&SIZES), count: self.count(), sum: self.sizes.exact().sum.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_batches_are_counted_exactly() {
        let mut batches = BatchStatistics::default();
        assert_eq!(batches.mean_size(), None);
        for requests in [0, 1, 2, 3, 512, 5_000] {
            batches.record(requests, Nanos::from_micros(100));
        }
        let sizes = batches.sizes();
        assert_eq!(sizes.up_to, [2, 3, 4, 4, 4, 4, 4, 4, 4, 5, 5]);
        assert_eq!((sizes.count, sizes.sum), (6, 5_518));
        assert_eq!(batches.times.exact().sum, Nanos::from_micros(600));
    }
}
