//! Stations whose rates depend on the number present: M/M/m/K, machine repair, any birth–death
//! chain.
//!
//! The balance p(k)·λ(k) = p(k+1)·μ(k+1) gives all probabilities up to a factor. They are summed in
//! logarithms, so that neither 10⁵ places nor rates of 10⁹ overflow.

use krarup_units::Seconds;

use super::{check_rates, quantile};
use crate::Error;

/// A station in the long run with at most K requests there.
#[derive(Clone, Debug, PartialEq)]
pub struct StationLevels {
    /// p(k): share of the time with k requests there, k = 0..=K.
    pub present_share: Vec<f64>,
    /// q(k): share of the admitted arrivals that find k requests there, k = 0..K.
    pub found_share: Vec<f64>,
    /// Number of servers.
    pub servers: u32,
    /// Mean service time S.
    pub service: Seconds,
    /// Completed per second, X.
    pub throughput: f64,
    /// Share of the arrivals that are turned away.
    pub lost: f64,
    /// Busy servers / servers.
    pub utilization: f64,
    /// Mean number there.
    pub present: f64,
    /// Mean number that wait.
    pub waiting: f64,
    /// Mean response time of the admitted, present / X.
    pub response: Seconds,
    /// Mean waiting time of the admitted.
    pub wait: Seconds,
}

/// The most requests at a station for which shares are computed, one for each number there.
const MOST_LEVELS: u32 = 1_000_000;

/// Refuses more requests at a station than shares are computed for.
pub(crate) fn check_levels(most: u64) -> Result<(), Error> {
    if most <= u64::from(MOST_LEVELS) {
        return Ok(());
    }
    Err(Error::TooLarge {
        what: format!("up to {most} requests at one station: the formulas go up to {MOST_LEVELS}"),
        hint: "leave a limit out that is hardly ever reached (a delay for servers), else simulate".into(),
    })
}

/// M/M/m/K: Poisson arrivals, exponential service, room for `room` ≥ m requests (those in service
/// included); who finds it full is lost (Jain, chapter 31). `room` = m gives Erlang's loss system.
///
/// # Errors
/// [`Error::Invalid`] for rates not above 0 or less room than servers; [`Error::TooLarge`] for room
/// for more than 1,000,000.
pub fn mmm_k(arrival: f64, service: Seconds, servers: u32, room: u32) -> Result<StationLevels, Error> {
    check_rates(arrival, service, servers)?;
    if room < servers {
        return Err(Error::invalid(
            "room",
            format!("is {room}, less than the servers"),
            "it counts those in service",
        ));
    }
    StationLevels::new(room, |_| arrival, service, servers)
}

/// M/M/m/∞/N: `population` clients that think for an exponential time of mean `think` between
/// requests, `servers` servers (machine repair; Jain, chapter 31).
///
/// # Errors
/// [`Error::Invalid`] for times not above 0 or no clients; [`Error::TooLarge`] for more than
/// 1,000,000 of them.
pub fn mmm_n(
    population: u32,
    think: Seconds,
    service: Seconds,
    servers: u32,
) -> Result<StationLevels, Error> {
    check_rates(1.0 / think, service, servers)?;
    if population == 0 {
        return Err(Error::invalid("population", "is 0", "at least one client must come"));
    }
    StationLevels::new(population, |k| f64::from(population - k) / think, service, servers)
}

/// Long-run shares of a birth–death chain with `births[k]` the rate from k to k + 1 and `deaths[k]`
/// the rate from k + 1 to k. Both lists have one entry for each step; a birth rate of 0 ends the
/// chain.
///
/// # Errors
/// [`Error::Invalid`] for a rate that is negative, infinite, or a death rate of 0.
pub fn birth_death(births: &[f64], deaths: &[f64]) -> Result<Vec<f64>, Error> {
    let mut logarithm = 0.0_f64;
    let mut logarithms = vec![0.0];
    for (step, (birth, death)) in births.iter().zip(deaths).enumerate() {
        if !(birth.is_finite() && *birth >= 0.0 && death.is_finite() && *death > 0.0) {
            let why = format!("are {birth} up and {death} down");
            return Err(Error::invalid(
                format!("rates between {step} and {}", step + 1),
                why,
                "down must be > 0",
            ));
        }
        logarithm += birth.ln() - death.ln();
        logarithms.push(logarithm);
    }
    let most = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut shares: Vec<f64> = logarithms.iter().map(|l| (l - most).exp()).collect();
    let total: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= total);
    Ok(shares)
}

impl StationLevels {
    fn new(most: u32, arrival: impl Fn(u32) -> f64, service: Seconds, servers: u32) -> Result<Self, Error> {
        check_levels(u64::from(most))?;
        let births: Vec<f64> = (0..most).map(&arrival).collect();
        let deaths: Vec<f64> = (1..=most).map(|k| f64::from(k.min(servers)) / service).collect();
        let present_share = birth_death(&births, &deaths)?;
        let flows: Vec<f64> = births.iter().zip(&present_share).map(|(rate, share)| rate * share).collect();
        let admitted: f64 = flows.iter().sum();
        let turned_away = arrival(most) * present_share[most as usize];
        let mean = |of: &dyn Fn(u32) -> u32| -> f64 {
            (0..=most).map(|k| f64::from(of(k)) * present_share[k as usize]).sum()
        };
        let busy = mean(&|k| k.min(servers));
        let present = mean(&|k| k);
        let waiting = mean(&|k| k.saturating_sub(servers));
        // Two independent counts of the same flow: in, and out.
        let throughput = busy / service;
        if (throughput - admitted).abs() > 1e-6 * admitted {
            return Err(Error::Violated {
                station: "the station".into(),
                law: format!("flow balance: {admitted} in and {throughput} out per second"),
            });
        }
        Ok(Self {
            found_share: flows.iter().map(|flow| flow / admitted).collect(),
            present_share,
            servers,
            service,
            throughput,
            lost: turned_away / (admitted + turned_away),
            utilization: busy / f64::from(servers),
            present,
            waiting,
            response: present / throughput,
            wait: waiting / throughput,
        })
    }

    /// Probability that an admitted request waits longer than `time`: who finds k ≥ m there waits
    /// for k − m + 1 completions, each after an exponential time of mean S/m.
    pub fn wait_tail(&self, time: Seconds) -> f64 {
        if time < 0.0 {
            return 1.0;
        }
        let scaled = time * f64::from(self.servers) / self.service;
        // below: P(at most j completions within `time`), growing with j.
        let mut logarithm = -scaled;
        let mut below = 0.0;
        let mut tail = 0.0;
        for (j, found) in self.found_share.iter().skip(self.servers as usize).enumerate() {
            below += logarithm.exp();
            logarithm += (scaled / (j + 1) as f64).ln();
            tail += found * below.min(1.0);
        }
        tail
    }

    /// Probability that an admitted request stays longer than `time`. Who has to wait for j
    /// completions is still there after i of them within `time` if i < j; else none of the i − j
    /// others may have been its own, which each is not with probability (m − 1)/m.
    pub fn response_tail(&self, time: Seconds) -> f64 {
        if time < 0.0 {
            return 1.0;
        }
        let servers = f64::from(self.servers);
        let scaled = time * servers / self.service;
        let most = self.found_share.len().saturating_sub(self.servers as usize);
        // P(i completions within `time`), i = 0, 1, …: far enough that the rest is nothing.
        let count = most.max((scaled + 12.0 * scaled.sqrt() + 50.0) as usize);
        let mut logarithm = -scaled;
        let completions: Vec<f64> = (0..=count)
            .map(|i| {
                let share = logarithm.exp();
                logarithm += (scaled / (i + 1) as f64).ln();
                share
            })
            .collect();
        let stays = (servers - 1.0) / servers;
        let mut later = 0.0;
        let mut started = vec![0.0; most + 1]; // by j: j or more completions, and still there
        for i in (0..=count).rev() {
            later = completions[i] + stays * later;
            if i <= most {
                started[i] = later;
            }
        }
        let mut earlier = 0.0;
        let mut tail = 0.0;
        let at_once: f64 = self.found_share.iter().take(self.servers as usize).sum();
        for (j, started) in started.iter().enumerate() {
            let found = if j == 0 { at_once } else { self.found_share[self.servers as usize + j - 1] };
            tail += found * (earlier + started).min(1.0);
            earlier += completions[j];
        }
        tail
    }

    /// The waiting time that a `share` of the admitted requests does not exceed.
    pub fn wait_percentile(&self, share: f64) -> Seconds {
        quantile(|t| self.wait_tail(t), share, self.wait)
    }

    /// The response time that a `share` of the admitted requests does not exceed.
    pub fn response_percentile(&self, share: f64) -> Seconds {
        quantile(|t| self.response_tail(t), share, self.response)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{erlang_b, mmm};
    use super::*;

    #[test]
    fn without_waiting_room_the_loss_is_erlangs() {
        let s = mmm_k(8.0, 1.0, 10, 10).unwrap();
        assert!((s.lost - erlang_b(10, 8.0)).abs() < 1e-12);
        assert!(s.wait.abs() < 1e-15);
    }

    #[test]
    fn more_room_than_memory_is_refused() {
        for error in
            [mmm_k(0.5, 1.0, 1, u32::MAX).unwrap_err(), mmm_n(MOST_LEVELS + 1, 1.0, 1e-9, 1).unwrap_err()]
        {
            assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        }
        assert!(mmm_k(0.5, 1.0, 1, MOST_LEVELS).is_ok());
    }

    #[test]
    fn much_room_is_as_good_as_endless_room() {
        let s = mmm_k(8.0, 1.0, 10, 2_000).unwrap();
        let endless = mmm(8.0, 1.0, 10).unwrap();
        assert!((s.wait - endless.wait).abs() < 1e-9);
        for time in [0.0, 0.1, 0.5, 2.0, 7.0] {
            assert!((s.wait_tail(time) - endless.wait_tail(time)).abs() < 1e-9);
            assert!((s.response_tail(time) - endless.response_tail(time)).abs() < 1e-9, "{time}");
        }
        let one = mmm_k(0.6, 1.0, 1, 400).unwrap();
        assert!(
            (one.response_percentile(0.99) - super::super::mm1(0.6, 1.0).unwrap().response_percentile(0.99))
                .abs()
                < 1e-6
        );
    }

    /// Two servers without a place to wait: who is admitted is served at once.
    #[test]
    fn a_customer_that_never_waits_stays_for_an_exponential_time() {
        let s = mmm_k(3.0, 0.5, 2, 2).unwrap();
        assert!((s.response_tail(0.7) - (-1.4_f64).exp()).abs() < 1e-12);
    }

    /// One server and two places to wait: the shares p(k) are geometric.
    #[test]
    fn a_small_buffer_loses_what_the_formula_says() {
        let s = mmm_k(0.5, 1.0, 1, 3).unwrap();
        let norm = 1.0 + 0.5 + 0.25 + 0.125;
        assert!((s.lost - 0.125 / norm).abs() < 1e-12);
    }

    /// 0.9·10⁻²⁰ of the arrivals: far less than 1 can be told apart from.
    #[test]
    fn a_share_of_losses_keeps_its_digits_however_small() {
        let lost = mmm_k(0.1, 1.0, 1, 20).unwrap().lost;
        assert!((lost / 0.9e-20 - 1.0).abs() < 1e-9, "{lost}");
    }

    proptest! {
        #[test]
        fn extremes_stay_finite(population in 1_u32..5_000, think in -9_i32..6, servers in 1_u32..200) {
            let s = mmm_n(population, 10_f64.powi(think), 1e-3, servers).unwrap();
            prop_assert!(s.throughput > 0.0 && s.throughput <= f64::from(servers) / 1e-3 * (1.0 + 1e-9));
            // Clients are neither lost nor made.
            let think = 10_f64.powi(think);
            let total = s.present + s.throughput * think;
            prop_assert!((total - f64::from(population)).abs() < 1e-6 * f64::from(population));
            prop_assert!((s.present_share.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}
