//! Copies of a request to several servers: it goes on when enough of them have answered.
//!
//! Only two exponential servers have a closed solution, so these are approximations, with the error found by
//! solving small cases exactly (`tests/fork_join.rs`):
//!
//! | formula | where | error |
//! |---|---|---|
//! | [`Copies::rate`] | closed networks | exact for 2 servers alone; within 5 % of X for 3, all or one answer |
//! | [`nelson_tantawi`] | open, wait for all | exact for 2; within 5 % for up to 32 (their simulations) |

use krarup_units::Seconds;

use crate::Error;

/// How a fork looks to its request.
#[derive(Clone, Debug, PartialEq)]
pub struct Copies {
    /// Mean service time of a copy at each of the n stations, in seconds.
    pub service: Vec<Seconds>,
    /// Copies sent, k ≤ n; which stations is random when k < n.
    pub choose: u32,
    /// Answers needed, 1 to k.
    pub needed: u32,
}

impl Copies {
    /// Expected time until `needed` of the copies are done when nobody else is there (exponential services).
    ///
    /// Equal services: S·(1/k + … + 1/(k − q + 1)), an order statistic. Unequal: the same mean over all stations,
    /// scaled by their average, which errs on the short side for the slowest.
    pub fn alone(&self) -> Seconds {
        let average = self.service.iter().sum::<f64>() / self.service.len() as f64;
        let copies = self.choose;
        let order: f64 = (0..self.needed).map(|i| 1.0 / f64::from(copies - i)).sum();
        let slowest = self.service.iter().copied().fold(0.0, f64::max);
        if self.needed == copies && copies as usize == self.service.len() && slowest > average {
            longest(&self.service)
        } else {
            average * order
        }
    }

    /// Work that one request brings to the busiest station: S·k/n.
    pub fn demand(&self) -> Seconds {
        let slowest = self.service.iter().copied().fold(0.0, f64::max);
        slowest * f64::from(self.choose) / self.service.len() as f64
    }

    /// Requests per second with `jobs` of them at the fork: j / (alone + (j − 1)·S·k/n). A request waits for its own
    /// copies, and the others are ahead of it at each station with probability k/n (Varki 1999 in spirit).
    /// For one copy to one of n it is the exact rate of n balanced stations; for two servers and all answers
    /// it is exact too.
    pub fn rate(&self, jobs: usize) -> f64 {
        let jobs = jobs as f64;
        jobs / (self.alone() + (jobs - 1.0) * self.demand())
    }
}

/// E[max] of independent exponentials: Σ over subsets of ±1/(sum of rates), in the stable form
/// ∫ (1 − Π (1 − e^(−t/S_i))) dt.
fn longest(service: &[Seconds]) -> Seconds {
    let slowest = service.iter().copied().fold(0.0, f64::max);
    let steps = 4_000;
    // t = slowest·u/(1 − u) maps the half line to 0..1; the integrand is smooth, midpoints suffice for 1e-6.
    (0..steps)
        .map(|i| {
            let u = (f64::from(i) + 0.5) / f64::from(steps);
            let t = slowest * u / (1.0 - u);
            let done: f64 = service.iter().map(|s| if *s > 0.0 { -(-t / s).exp_m1() } else { 1.0 }).product();
            (1.0 - done) * slowest / ((1.0 - u) * (1.0 - u)) / f64::from(steps)
        })
        .sum()
}

/// Mean response of a request that forks to `servers` equal exponential servers at `arrival` per second (Poisson)
/// and waits for all (Nelson & Tantawi 1988):
/// R_2 = (12 − ρ)/8 · S/(1 − ρ), R_k = (H_k/H_2 + (1 − H_k/H_2)·4ρ/11)·R_2.
///
/// # Errors
/// [`Error::Unstable`] where ρ = λ·S ≥ 1; [`Error::Invalid`] for no server or a rate not above 0.
pub fn nelson_tantawi(servers: u32, arrival: f64, service: Seconds) -> Result<Seconds, Error> {
    let alone = crate::station::mm1(arrival, service)?;
    if servers == 0 {
        return Err(Error::invalid("servers", "is 0", "a fork needs at least one"));
    }
    if servers == 1 {
        return Ok(alone.response);
    }
    let rho = alone.utilization;
    let two = (12.0 - rho) / 8.0 * alone.response;
    let harmonic: f64 = (1..=servers).map(|i| 1.0 / f64::from(i)).sum();
    let relative = harmonic / 1.5;
    Ok((relative + (1.0 - relative) * 4.0 * rho / 11.0) * two)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_equal_exponentials_is_harmonic() {
        let copies = |n: usize, needed| Copies { service: vec![2.0; n], choose: n as u32, needed };
        assert!((copies(3, 3).alone() - 2.0 * (1.0 + 0.5 + 1.0 / 3.0)).abs() < 1e-12);
        assert!((copies(3, 1).alone() - 2.0 / 3.0).abs() < 1e-12);
        assert!((longest(&[2.0; 3]) - copies(3, 3).alone()).abs() < 1e-5);
        // Two unequal: a + b − 1/(1/a + 1/b).
        assert!((longest(&[1.0, 3.0]) - (4.0 - 0.75)).abs() < 1e-5);
    }

    #[test]
    fn one_copy_to_one_of_n_is_n_balanced_stations() {
        let copies = Copies { service: vec![0.3; 4], choose: 1, needed: 1 };
        let balanced =
            crate::single::solve(&vec![crate::single::Resource::fixed("s", 0.3 / 4.0); 4], 0.0, 12).unwrap();
        for n in 1..=12 {
            assert!((copies.rate(n) / balanced.throughput(n) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn open_forks_reduce_to_one_server_and_grow_with_more() {
        let one = nelson_tantawi(1, 0.5, 1.0).unwrap();
        assert!((one - 2.0).abs() < 1e-12);
        assert!((nelson_tantawi(2, 0.5, 1.0).unwrap() - 11.5 / 8.0 * 2.0).abs() < 1e-12);
        assert!(nelson_tantawi(8, 0.5, 1.0).unwrap() > nelson_tantawi(4, 0.5, 1.0).unwrap());
        assert!(nelson_tantawi(2, 1.0, 1.0).is_err());
    }
}
