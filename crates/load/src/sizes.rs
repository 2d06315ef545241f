//! How large values are.

use krarup_settings::Mistake;
use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};

use crate::limits::LARGEST_VALUE;
use crate::random::{Random, below};

/// By which law sizes of values are drawn, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeLaw {
    /// All alike.
    Fixed(u64),
    /// Each size from `from` to `to`, both included, equally often.
    Uniform {
        /// The smallest.
        from: u64,
        /// The largest.
        to: u64,
    },
    /// These sizes, in proportion to their weights.
    Listed(Vec<(u64, f64)>),
    /// Exponential, to the nearest whole size; nothing above `most`.
    Exponential {
        /// The mean before cutting.
        mean: f64,
        /// The largest.
        most: u64,
    },
    /// Facebook's pool ETC: Atikoglu et al., "Workload analysis of a large-scale key-value store"
    /// (2012), table 5: sizes below 15 bytes by their published shares, above a generalized Pareto
    /// law; nothing above 1 MB.
    Etc,
}

/// Shares of the sizes 0 to 14 in ETC.
const ETC_SMALL: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837,
    0.08989, 0.00092, 0.00326, 0.01980,
];
/// Scale and shape of the sizes from 15 on, in ETC.
const ETC_PARETO: (f64, f64) = (214.476, 0.348_238);
/// ETC's largest item.
const ETC_MOST: f64 = 1e6;

impl SizeLaw {
    /// What is wrong with it.
    ///
    /// # Errors
    /// In plain words.
    pub fn check(&self) -> Result<(), Mistake> {
        let fits = |size: u64| {
            if size <= LARGEST_VALUE {
                Ok(())
            } else {
                Err(Mistake::new(
                    format!(
                        "a value of {size} bytes is above the largest memcached can be told to take, 1 GiB"
                    ),
                    "",
                ))
            }
        };
        match self {
            Self::Fixed(size) => fits(*size),
            Self::Uniform { from, to } if from > to => {
                Err(Mistake::plain(format!("the size range {from}-{to} ends before it begins")))
            }
            Self::Uniform { to, .. } => fits(*to),
            Self::Listed(sizes) => {
                sizes.iter().try_for_each(|&(size, _)| fits(size))?;
                let wrong = sizes.iter().any(|&(_, weight)| !weight.is_finite() || weight < 0.0);
                if wrong || sizes.iter().map(|&(_, weight)| weight).sum::<f64>() <= 0.0 {
                    return Err("the weights of a list of sizes must be 0 or more, and one above 0".into());
                }
                Ok(())
            }
            Self::Exponential { mean, most } => {
                if !(mean.is_finite() && *mean > 0.0) {
                    return Err(Mistake::plain(format!("the mean size is {mean}, not above 0")));
                }
                // Of a mean of a fifth, e^-5 = 0.7 % of the sizes are cut.
                let largest = most / 5;
                if *mean > largest as f64 {
                    let what = format!(
                        "sizes with a mean of {mean} bytes are cut at {most}, and would have a smaller mean"
                    );
                    let hint = format!("take a mean of up to {largest} bytes, or a range or list of sizes");
                    return Err(Mistake::new(what, hint));
                }
                fits(*most)
            }
            Self::Etc => Ok(()),
        }
    }

    /// The smallest size that can be drawn.
    pub fn least(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { from, .. } => *from,
            Self::Listed(sizes) => sizes.iter().map(|&(size, _)| size).min().unwrap_or(0),
            Self::Exponential { .. } | Self::Etc => 0,
        }
    }

    /// The largest size that can be drawn.
    pub fn most(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { to, .. } => *to,
            Self::Listed(sizes) => sizes.iter().map(|&(size, _)| size).max().unwrap_or(0),
            Self::Exponential { most, .. } => *most,
            Self::Etc => ETC_MOST as u64,
        }
    }

    /// One size.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { from, to } => from + below(random, to - from + 1),
            Self::Listed(sizes) => {
                let total: f64 = sizes.iter().map(|&(_, weight)| weight).sum();
                let mut left = random.random::<f64>() * total;
                let found = sizes.iter().find(|&&(_, weight)| {
                    left -= weight;
                    left < 0.0
                });
                found.or(sizes.last()).map_or(0, |&(size, _)| size)
            }
            Self::Exponential { mean, most } => {
                let unit: f64 = Exp1.sample(random);
                // Rounded down, sizes would have a mean half a byte below this.
                ((unit * mean).round() as u64).min(*most)
            }
            Self::Etc => etc(random.random()),
        }
    }
}

/// The size at `share` of ETC's distribution.
fn etc(share: f64) -> u64 {
    let mut left = share;
    for (size, part) in ETC_SMALL.iter().enumerate() {
        if left < *part {
            return size as u64;
        }
        left -= part;
    }
    let small: f64 = ETC_SMALL.iter().sum();
    let (scale, shape) = ETC_PARETO;
    // F⁻¹(u) = ((1 − u)^−k − 1) σ / k, begun at 15 bytes.
    let above = (share - small) / (1.0 - small);
    let size = ((1.0 - above).powf(-shape) - 1.0) * scale / shape;
    (15.0 + size).min(ETC_MOST) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random;

    fn mean(law: &SizeLaw, draws: u32) -> f64 {
        let mut random = random::stream(11, "sizes", 0);
        (0..draws).map(|_| law.draw(&mut random) as f64).sum::<f64>() / f64::from(draws)
    }

    #[test]
    fn etc_has_the_published_shape() {
        assert!((ETC_SMALL.iter().sum::<f64>() - 0.441_55).abs() < 1e-9);
        assert_eq!(etc(0.0), 0);
        assert_eq!(etc(0.1), 2);
        assert_eq!(etc(0.441_56), 15);
        assert_eq!(etc(1.0 - 1e-16), 1_000_000);
        // The mean of the law before cutting: Σ small + (1 − 0.44155)(15 + σ / (1 − k)).
        let small: f64 = ETC_SMALL.iter().enumerate().map(|(size, share)| size as f64 * share).sum();
        let expected = small + (1.0 - 0.441_55) * (15.0 + ETC_PARETO.0 / (1.0 - ETC_PARETO.1));
        let found = mean(&SizeLaw::Etc, 200_000);
        assert!((found / expected - 1.0).abs() < 0.03, "{found} not {expected}");
    }

    #[test]
    fn lists_keep_their_weights_and_ranges_their_mean() {
        let listed = mean(&SizeLaw::Listed(vec![(0, 3.0), (100, 1.0)]), 20_000);
        assert!((listed - 25.0).abs() < 1.6, "{listed}");
        let uniform = mean(&SizeLaw::Uniform { from: 10, to: 20 }, 20_000);
        assert!((uniform - 15.0).abs() < 0.12, "{uniform}");
        for wanted in [5.0, 10.0, 500.0] {
            let exponential = mean(&SizeLaw::Exponential { mean: wanted, most: 1 << 20 }, 400_000);
            assert!((exponential / wanted - 1.0).abs() < 0.01, "{exponential} not {wanted}");
        }
    }

    #[test]
    fn figures_that_make_no_law_are_refused() {
        for law in [
            SizeLaw::Uniform { from: 2, to: 1 },
            SizeLaw::Fixed(LARGEST_VALUE + 1),
            SizeLaw::Listed(vec![]),
            SizeLaw::Listed(vec![(1, -1.0), (2, 3.0)]),
            SizeLaw::Exponential { mean: 0.0, most: 5 },
            SizeLaw::Exponential { mean: 2.0, most: 9 },
        ] {
            assert!(law.check().is_err(), "{law:?}");
        }
    }

    proptest! {
        #[test]
        fn every_size_is_from_the_least_to_the_most(seed: u64, from in 0_u64..100, length in 0_u64..100) {
            let mut random = random::stream(seed, "sizes", 0);
            for law in [
                SizeLaw::Uniform { from, to: from + length },
                SizeLaw::Exponential { mean: 50.0, most: from },
                SizeLaw::Listed(vec![(from, 0.0), (length, 1.0)]),
                SizeLaw::Etc,
            ] {
                for _ in 0..50 {
                    prop_assert!((law.least()..=law.most()).contains(&law.draw(&mut random)));
                }
            }
        }
    }
}
