//! Copies of a request to several servers: it goes on when enough of them have answered.
//!
//! Only two exponential servers have a closed solution, so these are approximations, with the error found by
//! solving small cases exactly (`tests/fork_join.rs`):
//!
//! | formula | where | error |
//! |---|---|---|
//! | [`Copies::rate`] | closed networks, wait for all | X within 1 % for 2 servers, 2 % for 3 |
//! | [`Copies::open_response`], all | open networks, wait for all | exact for 2; within 5 % up to 32 (Nelson & Tantawi's simulations) |
//! | [`Copies::open_response`], some | open networks, first or quorum | R up to 17 % too short at ρ = 0.75, exact as ρ → 0 |
//!
//! A closed network that does not wait for all answers has no formula here: late copies keep servers busy after their
//! request has left, and nothing but simulation follows them.

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

impl Copies {
    /// Mean response of a fork that gets `arrival` requests per second (Poisson). Waiting for all: Nelson and
    /// Tantawi, each station with its share of the copies. Waiting for some: the order statistic of independent
    /// exponential response times, S/(1 − ρ) each.
    ///
    /// # Errors
    /// [`Error::Unstable`] where ρ = λ·S·k/n ≥ 1.
    pub fn open_response(&self, arrival: f64) -> Result<Seconds, Error> {
        let rho = arrival * self.demand();
        crate::laws::stability("the fork", rho, rho)?;
        let independent = self.alone() / (1.0 - rho);
        if self.needed < self.choose || self.choose < 2 {
            return Ok(independent);
        }
        Ok(independent * shared_arrivals(self.choose, rho))
    }
}

/// How much shorter the wait for all of `servers` is than with independent queues: their common arrivals make the
/// queues alike (Nelson & Tantawi 1988). 1 for no load.
fn shared_arrivals(servers: u32, rho: f64) -> f64 {
    let harmonic: f64 = (1..=servers).map(|i| 1.0 / f64::from(i)).sum();
    let relative = harmonic / 1.5;
    (12.0 - rho) / 8.0 * (relative + (1.0 - relative) * 4.0 * rho / 11.0) / harmonic
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

    /// Nelson and Tantawi's formula for two servers is exact: (12 − ρ)/8 · S/(1 − ρ).
    #[test]
    fn open_forks_wait_as_known() {
        let copies = |n: u32| Copies { service: vec![1.0; n as usize], choose: n, needed: n };
        assert!((copies(1).open_response(0.5).unwrap() - 2.0).abs() < 1e-12);
        assert!((copies(2).open_response(0.5).unwrap() - 11.5 / 8.0 * 2.0).abs() < 1e-12);
        assert!(copies(8).open_response(0.5).unwrap() > copies(4).open_response(0.5).unwrap());
        assert!(copies(2).open_response(1.0).is_err());
        // Three: (H3/H2 + (1 − H3/H2)·4ρ/11)·R2.
        let relative: f64 = (11.0 / 6.0) / 1.5;
        let expected = (relative + (1.0 - relative) * 4.0 * 0.5 / 11.0) * 11.5 / 8.0 * 2.0;
        assert!((copies(3).open_response(0.5).unwrap() - expected).abs() < 1e-12);
    }
}
