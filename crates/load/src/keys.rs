//! Which keys are asked for: a numbered range written as text, and the laws by which numbers are
//! drawn.

use krarup_settings::Mistake;
use rand_distr::{Distribution, StandardNormal, Zipf};
use serde::{Deserialize, Serialize};

use crate::random::{Random, below, mix};

/// The keys of a workload: `prefix` and a number, `minimum` to `minimum + count - 1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeyRange {
    /// What every key begins with.
    pub prefix: String,
    /// The first key's number.
    pub minimum: u64,
    /// How many keys; at least 1.
    pub count: u64,
    /// How long keys are: numbers are filled up with zeros in front. A key is never shorter than
    /// its prefix and number.
    pub size: KeySize,
}

/// How long keys are. A key's length is a function of its number, so a key is always the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeySize {
    /// All at least this many bytes. 0: as short as they come.
    Fixed(u16),
    /// By a law.
    Law(KeySizeLaw),
}

/// By which law keys are long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeySizeLaw {
    /// Each length between these two equally often, both included.
    Uniform {
        /// The shortest.
        from: u16,
        /// The longest.
        to: u16,
    },
    /// These lengths, in proportion to their weights.
    Listed(Vec<(u16, f64)>),
    /// Facebook's pool ETC: generalized extreme value with location 30.7984, scale 8.20449 and
    /// shape 0.078688 (Atikoglu et al. 2012, section 5).
    Etc,
}

/// Location, scale and shape of ETC's key lengths.
const ETC_KEYS: (f64, f64, f64) = (30.7984, 8.20449, 0.078_688);

impl KeySize {
    /// The length of the key with this number, in bytes.
    #[inline]
    fn of(&self, number: u64) -> usize {
        match self {
            Self::Fixed(size) => usize::from(*size),
            Self::Law(law) => law.at((mix(number) >> 11) as f64 / (1_u64 << 53) as f64),
        }
    }

    /// The longest there is.
    fn most(&self) -> usize {
        match self {
            Self::Fixed(size) => usize::from(*size),
            Self::Law(KeySizeLaw::Uniform { to, .. }) => usize::from(*to),
            Self::Law(KeySizeLaw::Listed(sizes)) => {
                sizes.iter().map(|&(size, _)| usize::from(size)).max().unwrap_or(0)
            }
            Self::Law(KeySizeLaw::Etc) => LONGEST_KEY,
        }
    }

    /// What is wrong with the law's figures.
    ///
    /// # Errors
    /// In plain words.
    pub fn check(&self) -> Result<(), Mistake> {
        match self {
            Self::Law(KeySizeLaw::Uniform { from, to }) if from > to => {
                Err(Mistake::plain(format!("key sizes from {from} to {to} end before they begin")))
            }
            Self::Law(KeySizeLaw::Listed(sizes))
                if sizes.iter().any(|(_, weight)| !(weight.is_finite() && *weight >= 0.0))
                    || sizes.iter().map(|(_, weight)| weight).sum::<f64>() <= 0.0 =>
            {
                Err("the listed key sizes have no weights of 0 or more with a sum above 0".into())
            }
            _ => Ok(()),
        }
    }
}

impl KeySizeLaw {
    /// The length at `share` (0 to 1) of its distribution.
    fn at(&self, share: f64) -> usize {
        match self {
            Self::Uniform { from, to } => {
                let width = f64::from(to - from) + 1.0;
                usize::from(*from) + ((share * width) as usize).min(usize::from(to - from))
            }
            Self::Listed(sizes) => {
                let mut left = share * sizes.iter().map(|(_, weight)| weight).sum::<f64>();
                let found = sizes.iter().find(|(_, weight)| {
                    left -= weight;
                    left < 0.0
                });
                found.or(sizes.last()).map_or(0, |&(size, _)| usize::from(size))
            }
            Self::Etc => {
                // F⁻¹(u) = μ + σ ((−ln u)^−k − 1) / k
                let (location, scale, shape) = ETC_KEYS;
                let unit = -share.clamp(1e-12, 1.0 - 1e-12).ln();
                let size = location + scale * (unit.powf(-shape) - 1.0) / shape;
                (size.round().max(1.0) as usize).min(LONGEST_KEY)
            }
        }
    }
}

impl Default for KeyRange {
    fn default() -> Self {
        Self { prefix: "key-".to_owned(), minimum: 0, count: 10_000, size: KeySize::Fixed(0) }
    }
}

/// Longest key that memcached takes, in bytes.
pub const LONGEST_KEY: usize = 250;

/// What a key's value is for. Commands that change a value in place have keys of their own, so that
/// the values of all others stay what they were stored as, and can be verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFamily {
    /// `get set add replace cas delete touch gat`
    #[default]
    Plain,
    /// `incr decr`: `prefix` + `counter-` + number.
    Counter,
    /// `append prepend`: `prefix` + `text-` + number.
    Text,
    /// A key of a trace, by its own name.
    Named,
}

/// One key: its family, and its place in the range from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedKey {
    /// What its value is for.
    pub family: KeyFamily,
    /// Its number, less the range's minimum; of a key of a trace, its place in the list of all
    /// names.
    pub place: u64,
}

impl KeyRange {
    /// Appends the key's text.
    #[inline]
    pub fn write(&self, key: GeneratedKey, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(match key.family {
            KeyFamily::Plain | KeyFamily::Named => b"",
            KeyFamily::Counter => b"counter-",
            KeyFamily::Text => b"text-",
        });
        let mut digits = [0; 20];
        let number = self.minimum + key.place;
        let digits = decimal(number, &mut digits);
        let filled = out.len() - start + digits.len();
        out.extend(std::iter::repeat_n(b'0', self.size.of(number).saturating_sub(filled)));
        out.extend_from_slice(digits);
    }

    /// The longest text a key of this range has.
    pub fn longest(&self) -> usize {
        let last = self.minimum.saturating_add(self.count.saturating_sub(1));
        (self.prefix.len() + "counter-".len() + decimal(last, &mut [0; 20]).len()).max(self.size.most())
    }
}

/// `value` in decimal digits, at the end of `room`.
#[inline]
fn decimal(mut value: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &room[at..];
        }
    }
}

/// By which law keys are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "law", deny_unknown_fields)]
pub enum KeyLaw {
    /// Each key equally often.
    #[default]
    Uniform,
    /// Each client goes through the whole range in order, and begins anew at its end.
    Sequential,
    /// The range in order, parted evenly between the clients: client c of n takes every n-th key,
    /// from the c-th on. Together they go through it exactly once before any key comes again.
    Parted,
    /// Normal around `mean` (0 to 1, as a share of the range), cut at both ends.
    Gaussian {
        /// Where the middle is, as a share of the range.
        mean: f64,
        /// The standard deviation, as a share of the range.
        deviation: f64,
    },
    /// The k-th key of the range is drawn in proportion to 1/k^`exponent`.
    Zipf {
        /// 0 is uniform; caches are often near 1.
        exponent: f64,
    },
    /// The first keys of the range are hot.
    Hot {
        /// The share of keys that are hot, above 0 and up to 1.
        keys: f64,
        /// The share of draws that go to them.
        draws: f64,
    },
}

/// A key law made ready for one range and one client.
#[derive(Clone, Debug)]
pub enum Draw {
    /// See [`KeyLaw::Uniform`].
    Uniform,
    /// See [`KeyLaw::Sequential`] and [`KeyLaw::Parted`].
    Walk {
        /// The next place.
        next: u64,
        /// How far to the one after.
        step: u64,
        /// Where this client begins.
        first: u64,
    },
    /// See [`KeyLaw::Gaussian`], in places.
    Gaussian {
        /// The middle.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// See [`KeyLaw::Zipf`].
    Zipf(Zipf<f64>),
    /// See [`KeyLaw::Hot`].
    Hot {
        /// How many places are hot.
        hot: u64,
        /// The share of draws that go to them.
        draws: f64,
    },
}

/// The largest standard deviation of a normal law, as a share of the range: with a larger one
/// nearly all draws lie outside of the range.
pub(crate) const MOST_DEVIATION: f64 = 10.0;
/// How many draws of a normal law in a row may lie outside of the range. More do only where the
/// mean is its end, and the deviation is lost beside it.
const MOST_OUTSIDE: u32 = 1_000;

impl KeyLaw {
    /// What is wrong with the law's figures.
    ///
    /// # Errors
    /// In plain words.
    pub fn check(self) -> Result<(), Mistake> {
        let share = |name: &str, value: f64| {
            if (0.0..=1.0).contains(&value) {
                Ok(())
            } else {
                Err(Mistake::plain(format!("{name} is {value}, not between 0 and 1")))
            }
        };
        match self {
            Self::Uniform | Self::Sequential | Self::Parted => Ok(()),
            Self::Gaussian { mean, deviation } => {
                share("the mean of the key law", mean)?;
                if deviation > 0.0 && deviation <= MOST_DEVIATION {
                    return Ok(());
                }
                let what = format!(
                    "the deviation of the key law is {deviation}, not above 0 and up to {MOST_DEVIATION}"
                );
                Err(Mistake::new(what, "it is a share of the range, as 0.1"))
            }
            Self::Zipf { exponent } if (0.0..=20.0).contains(&exponent) => Ok(()),
            Self::Zipf { exponent } => {
                Err(Mistake::plain(format!("the Zipf exponent is {exponent}, not between 0 and 20")))
            }
            Self::Hot { keys, draws } => {
                share("the share of hot keys", keys)?;
                share("the share of draws that are hot", draws)
            }
        }
    }

    /// Made ready for a range of `count` keys and client `client` of `clients`.
    pub fn draw(self, count: u64, client: u64, clients: u64) -> Draw {
        match self {
            Self::Uniform => Draw::Uniform,
            Self::Sequential => Draw::Walk { next: 0, step: 1, first: 0 },
            Self::Parted => {
                let first = client % count;
                Draw::Walk { next: first, step: clients, first }
            }
            Self::Gaussian { mean, deviation } => {
                Draw::Gaussian { mean: mean * count as f64, deviation: deviation * count as f64 }
            }
            Self::Zipf { exponent } => {
                Draw::Zipf(Zipf::new(count as f64, exponent).expect("the law was checked"))
            }
            Self::Hot { keys, draws } => {
                Draw::Hot { hot: ((keys * count as f64).round() as u64).clamp(1, count), draws }
            }
        }
    }
}

impl Draw {
    /// The next key's place, below `count`.
    #[inline]
    pub fn next(&mut self, random: &mut Random, count: u64) -> u64 {
        match self {
            Self::Uniform => below(random, count),
            Self::Walk { next, step, first } => {
                let place = *next;
                *next = place.saturating_add(*step);
                if *next >= count {
                    *next = *first;
                }
                place
            }
            Self::Gaussian { mean, deviation } => {
                for _ in 0..MOST_OUTSIDE {
                    let normal: f64 = StandardNormal.sample(random);
                    let place = (*mean + *deviation * normal).floor();
                    // What lies outside is drawn again: put on the edges it would make them hot.
                    if place >= 0.0 && place < count as f64 {
                        return place as u64;
                    }
                }
                (*mean as u64).min(count - 1)
            }
            Self::Zipf(zipf) => (zipf.sample(random) as u64).clamp(1, count) - 1,
            Self::Hot { hot, draws } => {
                use rand::RngExt;
                if *hot == count || random.random::<f64>() < *draws {
                    below(random, *hot)
                } else {
                    *hot + below(random, count - *hot)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_has_one_length_and_the_lengths_follow_their_law() {
        let mean = |law: KeySizeLaw| {
            let range = KeyRange { prefix: "k".to_owned(), size: KeySize::Law(law), ..KeyRange::default() };
            assert_eq!(range.size.check(), Ok(()));
            let length = |place| {
                let mut text = Vec::new();
                range.write(GeneratedKey { family: KeyFamily::Plain, place }, &mut text);
                assert!(text.len() <= range.longest());
                text.len() as f64
            };
            (0..20_000).map(length).sum::<f64>() / 20_000.0
        };
        let (uniform, listed) = (
            mean(KeySizeLaw::Uniform { from: 20, to: 40 }),
            mean(KeySizeLaw::Listed(vec![(10, 3.0), (50, 1.0)])),
        );
        assert!((uniform - 30.0).abs() < 0.3, "{uniform}");
        assert!((listed - 20.0).abs() < 0.8, "{listed}");
        // A generalized extreme value has the mean μ + σ (Γ(1 − k) − 1) / k: 30.7984 + 8.20449
        // (1.04995 − 1) / 0.078688.
        let etc = mean(KeySizeLaw::Etc);
        assert!((etc - 36.0).abs() < 0.5, "{etc}");
    }

    #[test]
    fn key_sizes_that_make_no_law_are_refused() {
        for law in [
            KeySizeLaw::Uniform { from: 2, to: 1 },
            KeySizeLaw::Listed(vec![]),
            KeySizeLaw::Listed(vec![(1, -1.0), (2, 3.0)]),
        ] {
            assert!(KeySize::Law(law).check().is_err());
        }
    }
    use crate::random;

    fn text(range: &KeyRange, family: KeyFamily, place: u64) -> String {
        let mut out = Vec::new();
        range.write(GeneratedKey { family, place }, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn shares(law: KeyLaw, count: u64, draws: usize) -> Vec<f64> {
        let mut random = random::stream(3, "keys", 0);
        let mut draw = law.draw(count, 0, 1);
        let mut seen = vec![0_u32; count as usize];
        (0..draws).for_each(|_| seen[draw.next(&mut random, count) as usize] += 1);
        seen.iter().map(|&one| f64::from(one) / draws as f64).collect()
    }

    #[test]
    fn keys_are_a_prefix_and_a_number() {
        let mut range =
            KeyRange { prefix: "memtier-".to_owned(), minimum: 9, count: 2, size: KeySize::Fixed(0) };
        assert_eq!(text(&range, KeyFamily::Plain, 1), "memtier-10");
        assert_eq!(text(&range, KeyFamily::Counter, 0), "memtier-counter-9");
        range.size = KeySize::Fixed(12);
        assert_eq!(text(&range, KeyFamily::Plain, 0), "memtier-0009");
        assert_eq!(text(&range, KeyFamily::Plain, 1), "memtier-0010");
        assert_eq!(range.longest(), "memtier-counter-10".len());
    }

    #[test]
    fn a_walk_goes_through_the_range_in_order_and_begins_anew() {
        let mut random = random::stream(1, "keys", 0);
        let mut walk = KeyLaw::Sequential.draw(3, 5, 7);
        let places: Vec<u64> = (0..7).map(|_| walk.next(&mut random, 3)).collect();
        assert_eq!(places, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn zipf_draws_follow_the_law() {
        let shares = shares(KeyLaw::Zipf { exponent: 1.0 }, 100, 200_000);
        let harmonic: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
        for k in [1, 2, 5, 20] {
            let expected = 1.0 / k as f64 / harmonic;
            // Five standard errors of a share of 200,000 draws.
            let slack = 5.0 * (expected / 200_000.0).sqrt();
            assert!((shares[k - 1] - expected).abs() < slack, "key {k}: {} not {expected}", shares[k - 1]);
        }
    }

    #[test]
    fn gaussian_draws_have_the_mean_and_deviation_asked_for() {
        let shares = shares(KeyLaw::Gaussian { mean: 0.5, deviation: 0.1 }, 1_000, 100_000);
        let mean: f64 = shares.iter().enumerate().map(|(place, share)| (place as f64 + 0.5) * share).sum();
        let square: f64 =
            shares.iter().enumerate().map(|(place, share)| (place as f64 + 0.5 - mean).powi(2) * share).sum();
        assert!((mean - 500.0).abs() < 2.0, "{mean}");
        assert!((square.sqrt() - 100.0).abs() < 2.0, "{}", square.sqrt());
    }

    #[test]
    fn a_deviation_that_is_lost_beside_the_end_of_the_range_draws_the_last_key() {
        let law = KeyLaw::Gaussian { mean: 1.0, deviation: 1e-30 };
        assert_eq!(law.check(), Ok(()));
        assert_eq!(law.draw(10, 0, 1).next(&mut random::stream(1, "keys", 0), 10), 9);
    }

    #[test]
    fn hot_keys_get_their_share() {
        let shares = shares(KeyLaw::Hot { keys: 0.1, draws: 0.9 }, 100, 100_000);
        let hot: f64 = shares[..10].iter().sum();
        assert!((hot - 0.9).abs() < 0.01, "{hot}");
        assert!(shares.iter().all(|&share| share > 0.0));
    }

    #[test]
    fn figures_that_make_no_law_are_refused() {
        for law in [
            KeyLaw::Gaussian { mean: 0.5, deviation: 0.0 },
            KeyLaw::Gaussian { mean: 0.5, deviation: 1e9 },
            KeyLaw::Gaussian { mean: 0.5, deviation: f64::NAN },
            KeyLaw::Gaussian { mean: 2.0, deviation: 0.1 },
            KeyLaw::Zipf { exponent: -1.0 },
            KeyLaw::Zipf { exponent: f64::NAN },
            KeyLaw::Hot { keys: 1.5, draws: 0.5 },
        ] {
            assert!(law.check().is_err(), "{law:?}");
        }
    }

    fn any_law() -> impl Strategy<Value = KeyLaw> {
        prop_oneof![
            Just(KeyLaw::Uniform),
            Just(KeyLaw::Sequential),
            Just(KeyLaw::Parted),
            (0.0..=1.0, 0.001..2.0).prop_map(|(mean, deviation)| KeyLaw::Gaussian { mean, deviation }),
            (0.0..3.0).prop_map(|exponent| KeyLaw::Zipf { exponent }),
            (0.0..=1.0, 0.0..=1.0).prop_map(|(keys, draws)| KeyLaw::Hot { keys, draws }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_law_stays_in_its_range(law in any_law(), count in 1_u64..5_000, client in 0_u64..50, seed: u64) {
            prop_assert_eq!(law.check(), Ok(()));
            let mut random = random::stream(seed, "keys", client);
            let mut draw = law.draw(count, client, 50);
            for _ in 0..200 {
                prop_assert!(draw.next(&mut random, count) < count);
            }
        }

        #[test]
        fn parted_clients_together_take_every_key_exactly_once(clients in 1_u64..40, count in 40_u64..200) {
            let mut random = random::stream(0, "keys", 0);
            let mut seen = vec![0; count as usize];
            for client in 0..clients {
                let mut walk = KeyLaw::Parted.draw(count, client, clients);
                for _ in 0..(count - client).div_ceil(clients) {
                    seen[walk.next(&mut random, count) as usize] += 1;
                }
            }
            prop_assert!(seen.iter().all(|&times| times == 1));
        }
    }
}
