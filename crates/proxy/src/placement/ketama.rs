//! A ring of points: a key belongs to the server of the first point at or after its number.
//!
//! ```text
//!   0 ──•──────•───•─────────•──•───────•── 2³² (and round again)
//!       B      A   B         C  A       C
//!                    ▲ key: C
//! ```
//!
//! Each server has some hundred points, so that a server that comes or goes changes only the arcs
//! before its own points. Two programs agree on every key when their points are the same, bit by
//! bit; hence the peculiar arithmetic here.

use super::hash::{KeyHash, md5_words};
use super::member::Member;

/// Points of a server whose weight is the mean of all.
const POINTS: f32 = 160.0;
/// Points that one digest of 16 bytes gives.
const POINTS_OF_A_DIGEST: f32 = 4.0;
/// Points of each server in libmemcached's ring without weights.
const UNWEIGHTED_POINTS: u32 = 100;
/// Servers up to which those already met are kept on the stack.
const MARKED: usize = 1_024;

/// The points in order, and whose they are.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// Sorted; equal points stand in the order of their servers, of which the first gets the keys.
    points: Vec<u32>,
    owners: Vec<u16>,
    /// Where to begin to look: for each of the equal slices of 2³² the first point not before it.
    starts: Vec<u32>,
    /// How far a number is shifted to give its slice.
    shift: u32,
    members: usize,
}

impl Ring {
    /// twemproxy's ring, which is libmemcached's with weights: points in proportion to weight, four
    /// from each MD5 digest of `name-0`, `name-1`, ….
    ///
    /// Two oddities of theirs are kept, or keys would move. A server whose weight is less than a
    /// fortieth of the mean gets no point. And n · (1/n) is less than one in single precision for
    /// n = 25, 47, 50 and some more: each of so many equal servers has 156 points instead of 160,
    /// and so the 25th server takes a little more than its share from the others.
    pub(super) fn weighted(members: &[Member]) -> Self {
        let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
        let points = members.iter().enumerate().flat_map(|(owner, member)| {
            // In single precision and in this order, as both programs do: another rounding is
            // another ring.
            let share = member.weight as f32 / total as f32;
            let digests = (share * POINTS / POINTS_OF_A_DIGEST * members.len() as f32 + 1e-10).floor() as u32;
            (0..digests).flat_map(move |digest| {
                md5_words(format!("{}-{digest}", member.name).as_bytes()).map(|point| (point, owner as u16))
            })
        });
        Self::of(points.collect(), members.len())
    }

    /// libmemcached's ring without weights: a hundred points for each server, hashed as keys are.
    pub(super) fn unweighted(members: &[Member], hash: KeyHash) -> Self {
        let points = members.iter().enumerate().flat_map(|(owner, member)| {
            (0..UNWEIGHTED_POINTS).map(move |point| {
                (hash.number(format!("{}-{point}", member.name).as_bytes()) as u32, owner as u16)
            })
        });
        Self::of(points.collect(), members.len())
    }

    fn of(mut points: Vec<(u32, u16)>, members: usize) -> Self {
        points.sort_unstable();
        let (points, owners): (Vec<u32>, Vec<u16>) = points.into_iter().unzip();
        let bits = points.len().next_power_of_two().trailing_zeros().max(1);
        let shift = u32::BITS - bits;
        let starts = (0..1u32 << bits)
            .map(|slice| points.partition_point(|point| *point < slice << shift) as u32)
            .collect();
        Self { points, owners, starts, shift, members }
    }

    /// The first point at or after `number`, round the end if need be.
    #[inline]
    fn position(&self, number: u32) -> usize {
        let mut position = self.starts[(number >> self.shift) as usize] as usize;
        while self.points.get(position).is_some_and(|point| *point < number) {
            position += 1;
        }
        if position == self.points.len() { 0 } else { position }
    }

    #[inline]
    pub(super) fn primary(&self, number: u64) -> usize {
        usize::from(self.owners[self.position(number as u32)])
    }

    /// The next `count` different servers clockwise. Servers without a point come last.
    pub(super) fn replicas(&self, number: u64, count: usize, into: &mut Vec<usize>) {
        let from = self.position(number as u32);
        let round = self.owners[from..].iter().chain(&self.owners[..from]).map(|owner| usize::from(*owner));
        let mut met = [0u64; MARKED / 64];
        let few = self.members <= MARKED;
        for member in round.chain(0..self.members) {
            if into.len() == count {
                break;
            }
            let known = if few { met[member / 64] >> (member % 64) & 1 == 1 } else { into.contains(&member) };
            if !known {
                into.push(member);
                if few {
                    met[member / 64] |= 1 << (member % 64);
                }
            }
        }
    }

    /// How much is whose of the numbers below `numbers`, where a hash function has no others.
    pub(super) fn shares_below(&self, numbers: u32) -> Vec<f64> {
        let mut shares = vec![0.0; self.members];
        for number in 0..numbers {
            shares[self.primary(u64::from(number))] += 1.0 / f64::from(numbers);
        }
        shares
    }

    /// How much of the ring is whose.
    pub(super) fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.members];
        let mut before = f64::from(*self.points.last().expect("a ring has points")) - 2f64.powi(32);
        for (point, owner) in self.points.iter().zip(&self.owners) {
            shares[usize::from(*owner)] += (f64::from(*point) - before) / 2f64.powi(32);
            before = f64::from(*point);
        }
        shares
    }
}
