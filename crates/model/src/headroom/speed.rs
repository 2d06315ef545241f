//! A speed that goes up and down: others ask more of the server at times.
//!
//! Requests wait more often while a server is slow, so that the mean over those that waited is more
//! than the mean over time, which is what the capacity hangs on. Let e_t be the mean of second t,
//! of n_t answers whose own variance is σ². Seconds have means of their own with variance τ²
//! around μ; noise is not alike from second to second, a swing is. So
//!
//! ```text
//! τ² = Σ √(n_t n_t+1) (e_t − m)(e_t+1 − m) / Σ √(n_t n_t+1)      m the mean of all answers
//! μ  = Σ w_t e_t / Σ w_t,  w_t = 1 / (τ² + σ²/n_t)              the mean of a model with random effects
//! ```
//!
//! Where τ² is zero the weights are n_t, and μ is m.

use krarup_units::Seconds;

use super::kept::mean;

/// A swing is so many times what noise alone would make of it, and such a share of the mean.
const SURE: f64 = 4.0;
const WORTH: f64 = 0.05;
/// Seconds with answers that waited, at the least.
const FEWEST: usize = 12;

/// After so many rounds the mean over time hardly changes.
const ROUNDS: usize = 3;

/// How many times the mean service time of those that waited the one over time is: at most 1, and 1
/// where nothing is known to swing. From when each answer ended and how long it took.
pub(super) fn over_time(answers: &mut [(Seconds, Seconds)]) -> f64 {
    answers.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = answers.len() as f64;
    let mean_of = |answers: &[(Seconds, Seconds)]| mean(answers.iter().map(|one| one.1));
    let mean = mean_of(answers);
    let seconds: Vec<(i64, f64, f64)> = answers
        .chunk_by(|a, b| a.0.floor() == b.0.floor())
        .map(|second| (second[0].0.floor() as i64, second.len() as f64, mean_of(second)))
        .collect();
    if seconds.len() < FEWEST {
        return 1.0;
    }
    let squares: f64 = answers.iter().map(|one| (one.1 - mean).powi(2)).sum();
    let between: f64 = seconds.iter().map(|(_, count, average)| count * (average - mean).powi(2)).sum();
    let noise = ((squares - between) / (count - seconds.len() as f64).max(1.0)).max(0.0);
    let pairs = seconds.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 1);
    let (alike, weights, number) = pairs.fold((0.0, 0.0, 0.0), |(alike, weights, number), pair| {
        let weight = (pair[0].1 * pair[1].1).sqrt();
        (alike + weight * (pair[0].2 - mean) * (pair[1].2 - mean), weights + weight, number + 1.0)
    });
    let swing = alike / f64::max(weights, 1.0);
    if alike <= SURE * noise * f64::sqrt(number) || swing <= (WORTH * mean).powi(2) {
        return 1.0;
    }
    let mut over_time = mean;
    for _ in 0..ROUNDS {
        // Of times that are as irregular as they were, about the mean that was found before.
        let noise = noise * (over_time / mean).powi(2);
        let weight = |count: f64| 1.0 / (swing + noise / count);
        let (sum, weights) = seconds.iter().fold((0.0, 0.0), |(sum, weights), (_, count, average)| {
            (sum + weight(*count) * average, weights + weight(*count))
        });
        over_time = sum / weights;
    }
    (over_time / mean).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::random::RandomStream;

    /// Answers of sixty seconds, more of them the slower the second is.
    fn answers(swing: f64, seed: u64) -> Vec<(Seconds, Seconds)> {
        let mut random = RandomStream::named(seed, 0, &["speed"]);
        let second = |second: usize| 1.0 + swing * (second as f64 / 20.0 * std::f64::consts::TAU).sin();
        let mut answers = Vec::new();
        for place in 0..60 {
            for _ in 0..(400.0 * second(place).powi(3)) as usize {
                let time = second(place) * 1e-3 * random.draw(&rand_distr::Exp1);
                answers.push((place as f64 + random.fraction(), time));
            }
        }
        answers
    }

    #[test]
    fn the_mean_over_time_is_told_from_that_of_those_that_waited() {
        for seed in 0..10 {
            assert_eq!(over_time(&mut answers(0.0, seed)), 1.0, "seed {seed}");
            // Weighted by s³ the mean of s is (1 + 3a² + 3a⁴/8) / (1 + 3a²/2), over time it is 1.
            let waited = (1.0 + 3.0 * 0.16 + 3.0 / 8.0 * 0.0256) / (1.0 + 1.5 * 0.16);
            let told = over_time(&mut answers(0.4, seed));
            assert!((told * waited - 1.0).abs() < 0.05, "seed {seed}: {told}, not {}", 1.0 / waited);
        }
    }
}
