//! Highest score wins: each server draws a number for each key, and the key belongs to the highest.
//!
//! A server that goes leaves all others' scores as they are, so only its own keys move; one that
//! comes takes only the keys where it scores highest. There is no ring and no unevenness of arcs,
//! but every look-up asks every server. With weights w the score is -w / ln(u) for u uniform in (0,
//! 1), which wins with probability in proportion to w.

use twox_hash::XxHash3_64;

use super::member::Member;

/// What a server brings to each draw.
#[derive(Clone, Debug)]
pub(super) struct Rendezvous {
    /// From the server's name, so that its place in the list does not matter.
    seeds: Vec<u64>,
    /// 1 / weight; empty where all weigh the same, and the bare numbers can be compared.
    lightness: Vec<f64>,
}

impl Rendezvous {
    pub(super) fn new(members: &[Member]) -> Self {
        let even = members.iter().all(|member| member.weight == members[0].weight);
        Self {
            seeds: members.iter().map(|member| XxHash3_64::oneshot(member.name.as_bytes())).collect(),
            lightness: if even {
                Vec::new()
            } else {
                members.iter().map(|member| 1.0 / f64::from(member.weight)).collect()
            },
        }
    }

    /// What `member` draws for a key: the higher, the better.
    #[inline]
    fn score(&self, member: usize, number: u64) -> Score {
        let drawn = stirred(self.seeds[member] ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match self.lightness.get(member) {
            None => Score { heavy: 0.0, drawn },
            Some(lightness) => {
                // In (0, 1), both ends out: 53 bits and a half.
                let uniform = ((drawn >> 11) as f64 + 0.5) / 2f64.powi(53);
                Score { heavy: ln(uniform) * lightness, drawn }
            }
        }
    }

    #[inline]
    pub(super) fn primary(&self, number: u64) -> usize {
        let mut best = (0, self.score(0, number));
        for member in 1..self.seeds.len() {
            let score = self.score(member, number);
            if score.above(&best.1) {
                best = (member, score);
            }
        }
        best.0
    }

    /// The `count` servers with the highest scores, highest first.
    pub(super) fn replicas(&self, number: u64, count: usize, into: &mut Vec<usize>) {
        for member in 0..self.seeds.len() {
            let score = self.score(member, number);
            let place = into.partition_point(|other| !score.above(&self.score(*other, number)));
            if place < count {
                into.truncate(count - 1);
                into.insert(place, member);
            }
        }
    }
}

/// A draw. With weights `heavy` is ln(u) / w, which orders as -w / ln(u) does; without, it is zero.
struct Score {
    heavy: f64,
    drawn: u64,
}

impl Score {
    #[inline]
    fn above(&self, other: &Self) -> bool {
        self.heavy > other.heavy || (self.heavy == other.heavy && self.drawn > other.drawn)
    }
}

/// Every bit of the outcome depends on every bit given (the finalizer of `SplitMix64`).
#[inline]
fn stirred(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// The natural logarithm of a number in (0, 1), from sums and products alone: these give the same
/// bits on every machine, which a system's own logarithm need not, and proxies that disagree on a
/// score disagree on where a key lies.
///
/// x = 2ᵉ m with m from √½ to √2, and ln m = 2 artanh((m - 1) / (m + 1)).
#[inline]
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1_023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1_023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    // 1 + s/3 + s²/5 + … with s ≤ 0.0295: what is left out is below the last bit.
    let series = (0..11).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ln;

    proptest! {
        #[test]
        fn the_logarithm_is_the_systems_to_the_last_bits(x in 1e-17..1.0) {
            prop_assert!((ln(x) - x.ln()).abs() <= 4.0 * f64::EPSILON * x.ln().abs().max(f64::EPSILON));
        }
    }
}
