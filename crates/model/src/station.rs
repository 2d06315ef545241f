//! One station alone, fed by arrivals: means and percentiles of waiting and response time.
//!
//! | formula | arrivals | service | exact? | source |
//! |---|---|---|---|---|
//! | [`mm1`], [`mmm`] | Poisson | exponential, m servers | yes | Jain 1991, boxes 31.1 and 31.2 |
//! | [`mmm_k`] | Poisson, room for K | exponential, m servers | yes | Jain, chapter 31 |
//! | [`mmm_n`] | N clients that think | exponential, m servers | yes | Jain, chapter 31 (machine repair) |
//! | [`md1`] | Poisson | constant | yes | Jain, chapter 31; waiting times: Franx 2001 |
//! | [`mg1`] | Poisson | any | means yes, percentiles no | Pollaczek & Khinchine; Jain, chapter 31 |
//! | [`mg1_priority`] | Poisson, by class | any | means | Cobham 1954 |
//! | [`gm1`] | any with a transform | exponential | yes | Kleinrock 1975, 6.4; Jain, chapter 31 |
//! | [`ggm`] | any | any, m servers | no | Allen 1990 and Cunneen; Kingman 1962 for the bound |
//!
//! Fed with a measured throughput these are no predictions: an open model gives back the load it
//! was told, and near ρ = 1 the third digit of μ decides its queue. [`mmm_interval`] says how much.

mod level;
mod open;

pub(crate) use level::check_levels;
pub use level::{StationLevels, birth_death, mmm_k, mmm_n};
pub use open::{
    OpenStation, PriorityClass, Tail, ggm, gm1, kingman, md1, mg1, mg1_priority, mm1, mmm, mmm_from_number,
    mmm_interval,
};

use krarup_units::Seconds;

use crate::Error;

/// Erlang's loss formula B(m, a): the probability that all of `servers` are busy when no request
/// may wait, for an offered load of `load` = λ/μ. By 1/B = 1 + m/a + m·(m−1)/a² + … + m!/a^m: no
/// term is negative, and a few million suffice for as many servers as a number here holds.
pub fn erlang_b(servers: u32, load: f64) -> f64 {
    let (mut sum, mut term, mut left) = (1.0_f64, 1.0_f64, servers);
    // Terms rise and then fall: what is so small changes no digit, and B is 0 where the sum is more
    // than a number holds.
    while left > 0 && term > 1e-20 * sum {
        term *= f64::from(left) / load;
        sum += term;
        left -= 1;
    }
    1.0 / sum
}

/// Erlang's waiting formula C(m, a): the probability that an arrival waits, for a load < `servers`;
/// 1 at or above. C = B / (1 − ρ·(1 − B)).
pub fn erlang_c(servers: u32, load: f64) -> f64 {
    let utilization = load / f64::from(servers);
    if utilization >= 1.0 {
        return 1.0;
    }
    let blocked = erlang_b(servers, load);
    blocked / (1.0 - utilization * (1.0 - blocked))
}

/// The time that is exceeded with probability 1 − `share`, from the probability `tail(t)` of
/// exceeding t. 0 where even the probability of any wait at all is below that.
pub(crate) fn quantile(tail: impl Fn(Seconds) -> f64, share: f64, scale: Seconds) -> Seconds {
    let exceeded = 1.0 - share;
    if tail(0.0) <= exceeded || scale <= 0.0 {
        return 0.0;
    }
    let mut high = scale;
    while tail(high) > exceeded && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if tail(middle) > exceeded {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-13 * high {
            break;
        }
    }
    low + (high - low) / 2.0
}

/// Rates must be numbers above zero.
fn check_rates(arrival: f64, service: Seconds, servers: u32) -> Result<(), Error> {
    for (thing, value) in [("arrival rate", arrival), ("service time", service)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(Error::invalid(thing, format!("is {value}"), "it must be a number above 0"));
        }
    }
    if servers == 0 {
        return Err(Error::invalid("servers", "is 0", "at least one server must serve"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published tables of the Erlang formulas: B(5, 3) = 0.1101, C(5, 3) = 0.2362.
    #[test]
    fn the_erlang_formulas_give_their_tables() {
        assert!((erlang_b(5, 3.0) - 0.110_054_3).abs() < 1e-6);
        assert!((erlang_c(5, 3.0) - 0.236_151).abs() < 1e-5);
        assert!(erlang_b(100_000, 99_000.0).is_finite());
        assert!((erlang_c(1, 0.7) - 0.7).abs() < 1e-15);
        // Without load no request is turned away, unless there is no server at all.
        assert!(erlang_b(3, 0.0) == 0.0 && erlang_b(0, 0.0) == 1.0);
    }

    /// Near saturation, at once: 1/(1 + β·Φ(β)/φ(β)) wait where ρ = 1 − β/√m (Halfin and Whitt
    /// 1981), for β = 1.
    #[test]
    fn as_many_servers_as_can_be_written_take_no_time() {
        let m = 4e9_f64;
        let load = m * (1.0 - 1.0 / m.sqrt());
        assert!((erlang_c(4_000_000_000, load) - 0.223_361).abs() < 1e-5);
        let station = mmm(load, 1.0, 4_000_000_000).unwrap();
        assert!((station.wait - 0.223_361 / m.sqrt()).abs() < 1e-9 && station.empty == 0.0, "{station:?}");
    }
}
