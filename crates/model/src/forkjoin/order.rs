//! When so many of several independent times are over: their order statistics.

use krarup_units::Seconds;

/// How long one copy takes: a part that is fixed, then one of two exponentials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) shift: Seconds,
    /// Probability and mean of the first; the second has the rest and the other mean.
    pub(super) share: f64,
    pub(super) means: [Seconds; 2],
}

impl Piece {
    /// A fixed wait and a service of this mean and squared coefficient of variation: less variable
    /// than exponential it is a constant and an exponential time, more variable one of two
    /// exponentials that bring half of the mean each.
    pub(super) fn own(wait: Seconds, mean: Seconds, scv: f64) -> Self {
        if scv <= 1.0 {
            let random = scv.max(0.0).sqrt();
            return Self { shift: wait + mean * (1.0 - random), share: 1.0, means: [mean * random, 0.0] };
        }
        let share = 0.5 * (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt());
        Self { shift: wait, share, means: [mean / (2.0 * share), mean / (2.0 * (1.0 - share).max(1e-300))] }
    }

    /// Probability that it is over by `time`.
    fn done(&self, time: Seconds) -> f64 {
        if time < self.shift {
            return 0.0;
        }
        let one = |mean: f64| if mean > 0.0 { -(-(time - self.shift) / mean).exp_m1() } else { 1.0 };
        self.share * one(self.means[0]) + (1.0 - self.share) * one(self.means[1])
    }

    /// The shortest time in which it changes.
    fn scale(&self) -> Seconds {
        let of = |mean: f64| if mean > 0.0 { mean } else { f64::INFINITY };
        of(self.means[0]).min(if self.share < 1.0 { of(self.means[1]) } else { f64::INFINITY })
    }
}

/// Expected time until `needed` of `choose` copies are done, which go to as many of the pieces at
/// random; the pieces are independent.
///
/// Alike and exponential: shift + S·(1/k + … + 1/(k − q + 1)). Else the integral of the probability
/// that it is not over.
pub(super) fn time_until(needed: u32, choose: u32, pieces: &[Piece]) -> Seconds {
    let Some(first) = pieces.first() else { return 0.0 };
    if first.share == 1.0 && pieces.iter().all(|piece| piece == first) {
        let order: f64 = (0..needed).map(|i| 1.0 / f64::from(choose - i)).sum();
        return first.shift + first.means[0] * order;
    }
    let mut shifts: Vec<f64> = pieces.iter().map(|piece| piece.shift).collect();
    shifts.sort_unstable_by(f64::total_cmp);
    let last = shifts[shifts.len() - 1];
    let shortest = pieces.iter().map(Piece::scale).fold(f64::INFINITY, f64::min) / 2.0;
    let longest = pieces.iter().flat_map(|piece| piece.means).fold(0.0, f64::max);
    let (mut time, mut total, mut width) = (shifts[0], shifts[0], shortest);
    loop {
        let next = shifts.iter().copied().find(|shift| *shift > time).unwrap_or(f64::INFINITY);
        if next.is_infinite() && (width.is_infinite() || time > last + 80.0 * longest) {
            return total;
        }
        let end = (time + width).min(next);
        let (middle, half) = ((time + end) / 2.0, (end - time) / 2.0);
        let panel: f64 = GAUSS
            .iter()
            .map(|(at, weight)| {
                weight
                    * (undone(needed, choose, pieces, middle - at * half)
                        + undone(needed, choose, pieces, middle + at * half))
            })
            .sum();
        total += panel * half;
        if next.is_infinite() && panel < 1e-13 {
            return total;
        }
        // A piece that begins here may change quickly.
        width = if end == next { shortest } else { width * 1.5 };
        time = end;
    }
}

/// Half of the points and weights of Gauss's rule of eight points.
const GAUSS: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_2, 0.101_228_536_290_376_26),
];

/// Probability that fewer than `needed` of the `choose` pieces chosen are over.
fn undone(needed: u32, choose: u32, pieces: &[Piece], time: Seconds) -> f64 {
    let done = pieces.iter().map(|piece| piece.done(time));
    if choose as usize == pieces.len() && needed == choose {
        return 1.0 - done.product::<f64>();
    }
    // shares[c][d]: c of the pieces so far are chosen, d of these are over. The next is chosen with
    // the probability that is left.
    let (choose, needed) = (choose as usize, needed as usize);
    let mut shares = vec![vec![0.0; needed + 1]; choose + 1];
    shares[0][0] = 1.0;
    for (index, done) in done.enumerate() {
        let left = (pieces.len() - index) as f64;
        let mut next = vec![vec![0.0; needed + 1]; choose + 1];
        for chosen in 0..=choose.min(index) {
            let take = (choose - chosen) as f64 / left;
            for over in 0..=needed {
                let share = shares[chosen][over];
                if share == 0.0 {
                    continue;
                }
                next[chosen][over] += share * (1.0 - take);
                if chosen < choose {
                    next[chosen + 1][over] += share * take * (1.0 - done);
                    next[chosen + 1][(over + 1).min(needed)] += share * take * done;
                }
            }
        }
        shares = next;
    }
    shares[choose][..needed].iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_other_times_keeps_two_moments() {
        let of = |scv: f64| {
            let pieces = [Piece::own(0.5, 2.0, scv); 3];
            time_until(3, 3, &pieces)
        };
        assert!((of(0.0) - 2.5).abs() < 1e-12);
        assert!((of(1.0) - 0.5 - 2.0 * 11.0 / 6.0).abs() < 1e-12);
        assert!(of(0.5) > of(0.2) && of(4.0) > of(1.0));
        // One of anything is its mean.
        for scv in [0.0, 0.3, 1.0, 5.0] {
            assert!((time_until(1, 1, &[Piece::own(0.5, 2.0, scv)]) - 2.5).abs() < 1e-9, "{scv}");
        }
    }
}
