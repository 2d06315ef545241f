//! Random streams with a name: the same seed gives the same numbers on every machine and in every
//! version.
//!
//! The generator is xoshiro256++ (Blackman and Vigna 2019), seeded through SplitMix64. How its 64
//! bits become an index or a fraction is written out here, so that no library's change of method
//! can change a published interval.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

/// The stream number `stream` of `seed`. Streams do not overlap in practice: each has its own
/// 256-bit state.
pub(crate) fn stream(seed: u64, stream: u64) -> Xoshiro256PlusPlus {
    // An odd multiplier spreads neighbouring streams over all seeds before SplitMix64 mixes them.
    Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32))
}

/// A whole number below `end`, each equally likely up to `end` / 2⁶⁴ (Lemire 2019, without the
/// rejection step).
pub(crate) fn below(random: &mut impl Rng, end: usize) -> usize {
    ((u128::from(random.next_u64()) * end as u128) >> 64) as usize
}

/// A number above 0 and below 1: the middles of 2⁵³ equal steps, so that its logarithm and its
/// quantiles are finite.
pub(crate) fn fraction(random: &mut impl Rng) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// A series x_i = φ x_{i−1} + e_i with standard normal e, started in its steady state; φ = 0 gives
/// independent values.
#[cfg(test)]
pub(crate) fn normal_series(seed: u64, length: usize, phi: f64) -> Vec<f64> {
    let mut random = stream(seed, 0);
    let mut normal = move || crate::tails::normal_quantile(fraction(&mut random)).unwrap();
    let mut x = normal() / (1.0 - phi * phi).sqrt();
    (0..length)
        .map(|_| {
            x = phi * x + normal();
            x
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of these numbers would change every interval published with a seed.
    #[test]
    fn the_streams_are_the_same_for_ever() {
        let mut random = stream(42, 0);
        assert_eq!(random.next_u64(), 15021278609987233951);
        let indices: Vec<usize> = (0..8).map(|_| below(&mut random, 10)).collect();
        assert_eq!(indices, [3, 9, 7, 7, 5, 1, 6, 2]);
        assert_ne!(stream(42, 1).next_u64(), stream(42, 0).next_u64());
    }

    #[test]
    fn every_index_is_equally_likely() {
        let mut random = stream(7, 0);
        let mut counts = [0.0f64; 6];
        for _ in 0..60_000 {
            counts[below(&mut random, 6)] += 1.0;
        }
        let chi_squared: f64 = counts.iter().map(|count| (count - 1e4).powi(2) / 1e4).sum();
        assert!(chi_squared < 20.5, "0.1 % of fair dice exceed 20.5: {chi_squared}");
    }
}
