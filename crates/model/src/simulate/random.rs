//! Random streams with names, and draws of every distribution.
//!
//! A stream's name says what it is for: the class, the station and the purpose. Its state comes
//! from the seed and the name alone, so adding a station or a class leaves all other streams as
//! they were, and two alternatives simulated with one seed meet the same arrivals and the same
//! service times: what differs between them is not chance (common random numbers; Law 2015, §11.2).

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution as _, Exp1, Gamma, LogNormal, Pareto, Weibull};

use crate::distribution::{Distribution, balanced, ln_gamma};

/// A generator that belongs to one purpose. The generator is xoshiro256++ (Blackman and Vigna
/// 2019).
#[derive(Clone, Debug)]
pub(crate) struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    /// The stream of this name in one replication.
    pub(crate) fn named(seed: u64, replication: u64, name: &[&str]) -> Self {
        // FNV-1a over the parts, each ended by a byte that stands in no text; seed_from_u64 then
        // mixes (SplitMix64).
        let bytes = name.iter().flat_map(|part| part.bytes().chain([0xff]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let run = replication.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        Self(Xoshiro256PlusPlus::seed_from_u64(hash ^ seed.wrapping_mul(0xd134_2543_de82_ef95) ^ run))
    }

    /// A number from 0 up, below 1.
    #[inline]
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A draw from a law of the library.
    #[inline]
    pub(crate) fn draw(&mut self, law: &impl rand_distr::Distribution<f64>) -> f64 {
        law.sample(&mut self.0)
    }

    /// A whole number below `end`, each equally likely up to `end` / 2⁶⁴.
    #[inline]
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.0.next_u64()) * end as u128) >> 64) as usize
    }
}

/// Times of one distribution from a stream of their own.
#[derive(Clone, Debug)]
pub(super) struct TimeSampler {
    stream: RandomStream,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    Constant(f64),
    Exponential(f64),
    Two { share: f64, first: f64, second: f64 },
    Uniform { low: f64, width: f64 },
    Gamma(Gamma<f64>),
    Lognormal(LogNormal<f64>),
    Weibull(Weibull<f64>),
    Pareto(Pareto<f64>),
    Values(Vec<f64>),
}

impl TimeSampler {
    /// Times of a checked distribution.
    pub(super) fn new(stream: RandomStream, distribution: &Distribution) -> Self {
        Self { stream, law: Law::of(distribution) }
    }

    /// The next time, in seconds.
    #[inline]
    pub(super) fn next(&mut self) -> f64 {
        let random = &mut self.stream.0;
        match &self.law {
            Law::Constant(value) => *value,
            Law::Exponential(mean) => {
                let one: f64 = Exp1.sample(random);
                mean * one
            }
            Law::Two { share, first, second } => {
                let mean = if self.stream.fraction() < *share { first } else { second };
                let one: f64 = Exp1.sample(&mut self.stream.0);
                mean * one
            }
            Law::Uniform { low, width } => low + width * self.stream.fraction(),
            Law::Gamma(law) => law.sample(random),
            Law::Lognormal(law) => law.sample(random),
            Law::Weibull(law) => law.sample(random),
            Law::Pareto(law) => law.sample(random),
            Law::Values(values) => values[self.stream.below(values.len())],
        }
    }
}

impl Law {
    fn of(distribution: &Distribution) -> Self {
        const CHECKED: &str = "the distribution has been checked";
        if distribution.mean() == 0.0 {
            return Self::Constant(0.0);
        }
        let gamma = |shape: f64, mean: f64| Self::Gamma(Gamma::new(shape, mean / shape).expect(CHECKED));
        match *distribution {
            Distribution::Constant { value } => Self::Constant(value),
            Distribution::Exponential { mean } | Distribution::Erlang { stages: 1, mean } => {
                Self::Exponential(mean)
            }
            Distribution::Erlang { stages, mean } => gamma(f64::from(stages), mean),
            Distribution::Hyperexponential { mean, scv } => {
                let [(share, first), (_, second)] = balanced(mean, scv);
                Self::Two { share, first, second }
            }
            Distribution::Uniform { low, high } => Self::Uniform { low, width: high - low },
            Distribution::Gamma { mean, scv } => gamma(1.0 / scv, mean),
            Distribution::Lognormal { mean, scv } => {
                let variance = scv.ln_1p();
                let law = LogNormal::new(mean.ln() - variance / 2.0, variance.sqrt());
                Self::Lognormal(law.expect(CHECKED))
            }
            Distribution::Weibull { mean, shape } => {
                let scale = mean / ln_gamma(1.0 + 1.0 / shape).exp();
                Self::Weibull(Weibull::new(scale, shape).expect(CHECKED))
            }
            Distribution::Pareto { mean, shape } => {
                Self::Pareto(Pareto::new(mean * (shape - 1.0) / shape, shape).expect(CHECKED))
            }
            Distribution::Empirical { ref values } => Self::Values(values.clone()),
            Distribution::Moments { mean, scv: 0.0 } => Self::Constant(mean),
            Distribution::Moments { mean, scv } => gamma(1.0 / scv, mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_and_the_variation_of_their_distribution() {
        let mean = 2.0;
        for distribution in [
            Distribution::constant(mean),
            Distribution::exponential(mean),
            Distribution::Erlang { stages: 4, mean },
            Distribution::Hyperexponential { mean, scv: 4.0 },
            Distribution::Uniform { low: 1.0, high: 3.0 },
            Distribution::Gamma { mean, scv: 0.5 },
            Distribution::Lognormal { mean, scv: 1.5 },
            Distribution::Weibull { mean, shape: 0.9 },
            Distribution::Pareto { mean, shape: 6.0 },
            Distribution::Empirical { values: vec![1.0, 1.0, 4.0] },
            Distribution::Moments { mean, scv: 0.3 },
            Distribution::exponential(0.0),
        ] {
            let mut times = TimeSampler::new(RandomStream::named(1, 0, &["test"]), &distribution);
            let n = 40_000;
            let values: Vec<f64> = (0..n).map(|_| times.next()).collect();
            let seen = values.iter().sum::<f64>() / f64::from(n);
            let squares = values.iter().map(|v| (v - seen).powi(2)).sum::<f64>() / f64::from(n);
            assert!((seen - distribution.mean()).abs() <= 0.03 * mean, "{distribution:?}: mean {seen}");
            let scv = if seen > 0.0 { squares / (seen * seen) } else { 0.0 };
            assert!(
                (scv - distribution.scv()).abs() < 0.1 * distribution.scv().max(0.01),
                "{distribution:?}: {scv}"
            );
        }
    }

    /// As computed by a few lines of Python from the definitions of FNV-1a, SplitMix64 and
    /// xoshiro256++. A change of these numbers would change every result published with a seed.
    #[test]
    fn the_streams_are_the_same_for_ever() {
        let mut stream = RandomStream::named(42, 0, &["service", "memcached", "get"]);
        let first: Vec<usize> = (0..8).map(|_| stream.below(10)).collect();
        assert_eq!(first, [9, 8, 5, 1, 6, 9, 6, 7]);
    }

    #[test]
    fn another_name_seed_or_replication_is_another_stream() {
        let draw =
            |seed, replication, name: &[&str]| RandomStream::named(seed, replication, name).0.next_u64();
        let base = draw(1, 0, &["a", "bc"]);
        assert_eq!(base, draw(1, 0, &["a", "bc"]));
        for other in [draw(2, 0, &["a", "bc"]), draw(1, 1, &["a", "bc"]), draw(1, 0, &["ab", "c"])] {
            assert_ne!(base, other);
        }
    }
}
