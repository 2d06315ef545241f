//! Stations with unlimited room: M/M/m, M/D/1, M/G/1, G/M/1 and G/G/m.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::{check_rates, erlang_c, quantile};
use crate::distribution::balanced;
use crate::{Distribution, Error, laws};

/// A station in the long run, fed by arrivals at a rate it can serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenStation {
    /// λ = X, per second.
    pub throughput: f64,
    /// Number of servers m.
    pub servers: u32,
    /// Mean service time S.
    pub service: Seconds,
    /// Squared coefficient of variation of the service time, c_s².
    pub service_scv: f64,
    /// ρ = λ·S/m, below 1.
    pub utilization: f64,
    /// Probability that an arrival waits.
    pub delayed: f64,
    /// Probability that no request is there; NaN where the formula does not give it (G/G/m).
    pub empty: f64,
    /// Mean waiting time W.
    pub wait: Seconds,
    /// Mean response time R = W + S.
    pub response: Seconds,
    /// Mean number that wait, X·W.
    pub waiting: f64,
    /// Mean number there, X·R.
    pub present: f64,
    /// How waiting times are distributed.
    pub tail: Tail,
}

/// How waiting times are distributed, and whether that is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tail {
    /// Exponential for those that wait, and service exponential: exact for M/M/m and G/M/1.
    Exponential,
    /// Constant service: exact for M/D/1.
    Constant,
    /// Exponential for those that wait with the right mean; the response adds a service of the
    /// right mean and variation. An approximation, good in the tail of busy stations.
    Approximate,
}

/// M/M/1: Poisson arrivals at `arrival` per second, exponential service of mean `service`.
///
/// # Errors
/// [`Error::Unstable`] where ρ ≥ 1, [`Error::Invalid`] for a rate or time that is not above 0.
pub fn mm1(arrival: f64, service: Seconds) -> Result<OpenStation, Error> {
    mmm(arrival, service, 1)
}

/// M/M/m: Poisson arrivals at `arrival` per second, `servers` servers, exponential service of mean
/// `service`.
///
/// W = C(m, a) / (m·μ − λ) with Erlang's C (Jain, box 31.2).
///
/// # Errors
/// [`Error::Unstable`] where ρ ≥ 1, [`Error::Invalid`] for a rate or time that is not above 0.
pub fn mmm(arrival: f64, service: Seconds, servers: u32) -> Result<OpenStation, Error> {
    let (m, utilization) = stable(arrival, service, servers)?;
    let delayed = erlang_c(servers, arrival * service);
    let wait = delayed * service / (m * (1.0 - utilization));
    let empty = empty(servers, arrival * service);
    Ok(OpenStation::new(arrival, service, servers, delayed, empty, wait, Tail::Exponential))
}

/// M/M/m solved backwards: the utilization and service time at which a station of `servers` servers
/// that completes `throughput` per second holds `present` requests on average.
///
/// # Errors
/// [`Error::Invalid`] for a number that is not above 0.
pub fn mmm_from_number(throughput: f64, present: f64, servers: u32) -> Result<OpenStation, Error> {
    check_rates(throughput, present, servers)?;
    let m = f64::from(servers);
    let number = |utilization: f64| {
        let load = utilization * m;
        load + erlang_c(servers, load) * utilization / (1.0 - utilization)
    };
    // The number rises with ρ from 0 to infinity, so halving always closes in.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if number(middle) < present { low = middle } else { high = middle }
    }
    mmm(throughput, low * m / throughput, servers)
}

/// What M/M/m says over intervals of arrival rate and service time (each `(low, high)`): the best
/// and the worst case.
///
/// # Errors
/// [`Error::Undecided`] when the interval of ρ covers 1, naming `station`; [`Error::Unstable`] when
/// all of it is at 1 or above.
pub fn mmm_interval(
    station: &str,
    arrival: (f64, f64),
    service: (Seconds, Seconds),
    servers: u32,
) -> Result<(OpenStation, OpenStation), Error> {
    check_rates(arrival.0, service.0, servers)?;
    let m = f64::from(servers);
    laws::stability(station, arrival.0 * service.0 / m, arrival.1 * service.1 / m)?;
    Ok((mmm(arrival.0, service.0, servers)?, mmm(arrival.1, service.1, servers)?))
}

/// M/D/1: Poisson arrivals, constant service. W is half of M/M/1's.
///
/// # Errors
/// As [`mm1`].
pub fn md1(arrival: f64, service: Seconds) -> Result<OpenStation, Error> {
    let (_, utilization) = stable(arrival, service, 1)?;
    let wait = utilization * service / (2.0 * (1.0 - utilization));
    Ok(OpenStation::new(arrival, service, 1, utilization, 1.0 - utilization, wait, Tail::Constant))
}

/// M/G/1: Poisson arrivals, any service time. W = λ·S²·(1 + c²) / (2·(1 − ρ)) (Pollaczek &
/// Khinchine; Jain, chapter 31). Means are exact; percentiles take the wait of those that wait as
/// exponential, unless the service is exponential or constant.
///
/// # Errors
/// As [`mm1`]; [`Error::Invalid`] where the service has no finite variance.
pub fn mg1(arrival: f64, service: &Distribution) -> Result<OpenStation, Error> {
    service.check()?;
    if service.is_exponential() {
        return mm1(arrival, service.mean());
    }
    let (mean, scv) = (service.mean(), finite_variation(service)?);
    if scv == 0.0 {
        return md1(arrival, mean);
    }
    let (_, utilization) = stable(arrival, mean, 1)?;
    let wait = utilization * mean * (1.0 + scv) / (2.0 * (1.0 - utilization));
    let empty = 1.0 - utilization;
    let station = OpenStation::new(arrival, mean, 1, utilization, empty, wait, Tail::Approximate);
    Ok(OpenStation { service_scv: scv, ..station })
}

/// G/M/1: any gaps between arrivals, each independent of the others, one server, exponential
/// service of mean `service`. An arrival finds the server busy with probability σ, the only root
/// below 1 of σ = A*((1 − σ)/S), A* the transform of the gaps; it then waits for an exponential
/// time of mean S/(1 − σ), so that W = σ·S/(1 − σ) (Kleinrock 1975, 6.4; Jain, chapter 31).
///
/// # Errors
/// As [`mm1`]; [`Error::Refused`] where the gaps have no transform in closed form.
pub fn gm1(gaps: &Distribution, service: Seconds) -> Result<OpenStation, Error> {
    gaps.check()?;
    let arrival = 1.0 / gaps.mean();
    let (_, utilization) = stable(arrival, service, 1)?;
    let found_busy = |busy: f64| gaps.transform((1.0 - busy) / service);
    if found_busy(0.0).is_none() {
        return Err(Error::Refused {
            solver: "G/M/1".into(),
            feature: format!("{} gaps between arrivals", gaps.name()),
            hint: "take G/G/m, or simulate".into(),
        });
    }
    // A*((1 − σ)/S) is convex and is 1 at σ = 1, where it is steeper than σ: it lies above σ before
    // the root and below it behind.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if found_busy(middle).is_some_and(|found| found > middle) { low = middle } else { high = middle }
    }
    let wait = low * service / (1.0 - low);
    Ok(OpenStation::new(arrival, service, 1, low, 1.0 - utilization, wait, Tail::Exponential))
}

/// One class at [`mg1_priority`].
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityClass {
    /// Arrival rate, per second.
    pub arrival: f64,
    /// Service time.
    pub service: Distribution,
}

/// M/G/1 with non-preemptive priorities, the first class most urgent: mean waiting time of each,
/// W_i = W₀ / ((1 − σ_{i−1})·(1 − σ_i)), with σ_i the utilization of classes up to i and W₀ = Σ
/// λ·S²·(1 + c²)/2 (Cobham 1954; Bolch et al. 2006).
///
/// # Errors
/// [`Error::Unstable`] where all classes together have ρ ≥ 1; [`Error::Invalid`] where a service
/// has no finite variance.
pub fn mg1_priority(classes: &[PriorityClass]) -> Result<Vec<Seconds>, Error> {
    let (mut residual, mut utilization) = (0.0, 0.0);
    for class in classes {
        class.service.check()?;
        let mean = class.service.mean();
        check_rates(class.arrival, mean, 1)?;
        residual += class.arrival * mean * mean * (1.0 + finite_variation(&class.service)?) / 2.0;
        utilization += class.arrival * mean;
    }
    laws::stability("M/G/1 with priorities", utilization, utilization)?;
    let mut before = 0.0;
    let wait = |class: &PriorityClass| {
        let upto = before + class.arrival * class.service.mean();
        let wait = residual / ((1.0 - before) * (1.0 - upto));
        before = upto;
        wait
    };
    Ok(classes.iter().map(wait).collect())
}

/// G/G/m by Allen and Cunneen's approximation: the wait of M/M/m times (c_a² + c_s²)/2. Exact for
/// M/M/m and M/G/1. Arrivals more regular than Poisson ones wait less than that, the more so the
/// idler the station is: by the factor exp(−2(1 − ρ)(1 − c_a²)² / (3ρ(c_a² + c_s²))) (Kraemer and
/// Langenbach-Belz 1976).
///
/// # Errors
/// As [`mmm`]; [`Error::Invalid`] for a variation that is negative or infinite.
pub fn ggm(
    arrival: f64,
    arrival_scv: f64,
    service: Seconds,
    service_scv: f64,
    servers: u32,
) -> Result<OpenStation, Error> {
    let variation = check_variation(arrival_scv, service_scv)?;
    let plain = mmm(arrival, service, servers)?;
    if arrival_scv == 1.0 && service_scv == 1.0 {
        return Ok(plain);
    }
    let regular = if arrival_scv < 1.0 && variation > 0.0 {
        let rho = plain.utilization;
        (-(1.0 - rho) * (1.0 - arrival_scv).powi(2) / (3.0 * rho * variation)).exp()
    } else {
        1.0
    };
    let wait = plain.wait * variation * regular;
    let station =
        OpenStation::new(arrival, service, servers, plain.delayed, f64::NAN, wait, Tail::Approximate);
    Ok(OpenStation { service_scv, ..station })
}

/// Kingman's upper bound of the mean wait of G/G/1, W ≤ λ·(σ_a² + σ_s²) / (2·(1 − ρ)): it holds for
/// every distribution, and is tight near saturation (Kingman 1962).
///
/// # Errors
/// As [`ggm`].
pub fn kingman(arrival: f64, arrival_scv: f64, service: Seconds, service_scv: f64) -> Result<Seconds, Error> {
    check_variation(arrival_scv, service_scv)?;
    let (_, utilization) = stable(arrival, service, 1)?;
    let variances = arrival_scv / (arrival * arrival) + service_scv * service * service;
    Ok(arrival * variances / (2.0 * (1.0 - utilization)))
}

fn check_variation(arrival_scv: f64, service_scv: f64) -> Result<f64, Error> {
    let variation = (arrival_scv + service_scv) / 2.0;
    if variation.is_finite() && arrival_scv >= 0.0 && service_scv >= 0.0 {
        Ok(variation)
    } else {
        let why = format!("is {arrival_scv} for arrivals and {service_scv} for service");
        Err(Error::invalid("squared coefficient of variation", why, "both must be finite and ≥ 0"))
    }
}

/// The squared coefficient of variation of a service time, which the mean wait grows with.
fn finite_variation(service: &Distribution) -> Result<f64, Error> {
    let scv = service.scv();
    if scv.is_finite() {
        return Ok(scv);
    }
    let hint = "its mean wait is infinite: give it a shape above 2";
    Err(Error::invalid("service time", "has no finite variance", hint))
}

fn stable(arrival: f64, service: Seconds, servers: u32) -> Result<(f64, f64), Error> {
    check_rates(arrival, service, servers)?;
    let m = f64::from(servers);
    let utilization = arrival * service / m;
    laws::stability("the station", utilization, utilization)?;
    Ok((m, utilization))
}

/// At more load than this, e^(−a) is less than the least number.
const NEVER_EMPTY: f64 = 750.0;

/// Probability of an empty M/M/m, p₀ = C·(1 − ρ)·m! / a^m, in logarithms so that no power
/// overflows.
fn empty(servers: u32, load: f64) -> f64 {
    // It is e^(−a) at most.
    if load > NEVER_EMPTY {
        return 0.0;
    }
    let delayed = erlang_c(servers, load);
    if delayed == 0.0 {
        return (-load).exp(); // so many servers that no request ever waits: as with a delay
    }
    let logarithm: f64 = (1..=servers).map(|i| (f64::from(i) / load).ln()).sum();
    (delayed.ln() + (1.0 - load / f64::from(servers)).ln() + logarithm).exp()
}

impl OpenStation {
    fn new(
        throughput: f64,
        service: Seconds,
        servers: u32,
        delayed: f64,
        empty: f64,
        wait: Seconds,
        tail: Tail,
    ) -> Self {
        let response = wait + service;
        Self {
            throughput,
            servers,
            service,
            service_scv: if tail == Tail::Constant { 0.0 } else { 1.0 },
            utilization: throughput * service / f64::from(servers),
            delayed,
            empty,
            wait,
            response,
            waiting: throughput * wait,
            present: throughput * response,
            tail,
        }
    }

    /// Probability of waiting longer than `time`.
    pub fn wait_tail(&self, time: Seconds) -> f64 {
        if time < 0.0 {
            return 1.0;
        }
        match self.tail {
            Tail::Constant => md1_tail(self.throughput, self.service, time),
            // Those that wait do so for an exponential time of mean W / P(wait).
            Tail::Exponential | Tail::Approximate if self.wait > 0.0 => {
                self.delayed * (-time * self.delayed / self.wait).exp()
            }
            _ => 0.0,
        }
    }

    /// Probability of a response time longer than `time`.
    pub fn response_tail(&self, time: Seconds) -> f64 {
        if time < 0.0 {
            return 1.0;
        }
        match self.tail {
            Tail::Exponential => self.exponential_tail(time, self.service),
            // One of two exponential services with balanced means.
            Tail::Approximate if self.service_scv > 1.0 => balanced(self.service, self.service_scv)
                .iter()
                // Where one of them is as good as never, its mean is beyond all bounds.
                .filter(|(share, _)| *share > 0.0)
                .map(|(share, mean)| share * self.exponential_tail(time, *mean))
                .sum(),
            // A constant part and an exponential one, whose standard deviation is its mean.
            Tail::Constant | Tail::Approximate => {
                let varying = self.service * self.service_scv.sqrt();
                let rest = time - (self.service - varying);
                if rest < 0.0 {
                    1.0
                } else if varying > 0.0 {
                    self.exponential_tail(rest, varying)
                } else {
                    self.wait_tail(rest)
                }
            }
        }
    }

    /// Probability that a wait and an exponential service of this `mean` together are longer than
    /// `time`: e^(−μt)·(1 + C·(1 − e^(−μt·g)) / g), where μ·(1 + g) is the rate of the exponential
    /// wait of those that wait; g = m − 1 − a for M/M/m (Bolch et al. 2006).
    fn exponential_tail(&self, time: Seconds, mean: Seconds) -> f64 {
        let scaled = time / mean;
        let gap = if self.wait > 0.0 {
            self.delayed * mean / self.wait - 1.0
        } else {
            f64::from(self.servers) - 1.0 - self.throughput * self.service
        };
        let sum = if (gap * scaled).abs() < 1e-9 { scaled } else { -(-gap * scaled).exp_m1() / gap };
        let second = if gap < 0.0 {
            // e^(−s)·(e^(−gs) − 1)/(−g) with both exponents joined, so that neither overflows.
            let wait = if self.wait > 0.0 { time * self.delayed / self.wait } else { scaled * (1.0 + gap) };
            (-wait).exp() * -(gap * scaled).exp_m1() / -gap
        } else {
            (-scaled).exp() * sum
        };
        (-scaled).exp()
            + self.delayed * if gap.abs() * scaled < 1e-9 { (-scaled).exp() * scaled } else { second }
    }

    /// The waiting time that a `share` of the requests does not exceed (0.99 is the 99th
    /// percentile).
    pub fn wait_percentile(&self, share: f64) -> Seconds {
        quantile(|t| self.wait_tail(t), share, self.wait)
    }

    /// The response time that a `share` of the requests does not exceed.
    pub fn response_percentile(&self, share: f64) -> Seconds {
        quantile(|t| self.response_tail(t), share, self.response)
    }
}

/// M/D/1's tail is summed up to so many services. Further out it is one exponential in all digits:
/// the transform's other poles fall faster, by e^(−1.8) for each service where ρ ≥ 0.8, and at
/// less load there is no tail so far out.
const MD1_SUMMED: f64 = 200.0;

/// P(W > t) of M/D/1: beyond [`MD1_SUMMED`] services it falls as e^(−θt), where θ > 0 solves
/// λ(e^(θS) − 1) = θ: the pole of Pollaczek and Khinchine's transform that is nearest to 0.
fn md1_tail(arrival: f64, service: Seconds, time: Seconds) -> f64 {
    let beyond = time / service - MD1_SUMMED;
    if beyond <= 0.0 {
        return 1.0 - md1_wait(arrival, service, time);
    }
    let there = 1.0 - md1_wait(arrival, service, MD1_SUMMED * service);
    there * (-md1_decay(arrival * service) * beyond).exp()
}

/// θS > 0 of ρ(e^(θS) − 1) = θS. The difference of both sides is least at −ln ρ and grows from
/// there; since e^x − 1 ≥ x + x²/2, it is not below 0 at 2(1 − ρ)/ρ.
fn md1_decay(load: f64) -> f64 {
    let (mut low, mut high) = (-load.ln(), 2.0 * (1.0 - load) / load);
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if load * middle.exp_m1() < middle { low = middle } else { high = middle }
    }
    low
}

/// P(W ≤ t) of M/D/1, a sum of positive terms (Franx 2001): with (k − 1)·S ≤ t < k·S and v = λ·(k·S
/// − t), P = e^(−v) Σ_{j<k} P(Lq ≤ k − 1 − j)·v^j / j!. The number waiting comes from Ramaswami's
/// stable recursion.
fn md1_wait(arrival: f64, service: Seconds, time: Seconds) -> f64 {
    let load = arrival * service;
    let k = (time / service).floor() as usize + 1;
    let waiting = md1_waiting(load, k);
    let v = arrival * (k as f64 * service - time);
    let mut term = (-v).exp();
    let mut sum = 0.0;
    for j in 0..k {
        sum += waiting[k - 1 - j] * term;
        term *= v / (j + 1) as f64;
    }
    sum.min(1.0)
}

/// P(Lq ≤ i) of M/D/1 for i < `count`.
fn md1_waiting(load: f64, count: usize) -> Vec<f64> {
    // tails[j]: probability of j or more arrivals during one service.
    let mut masses = vec![(-load).exp()];
    for j in 1..=count + 60 {
        masses.push(masses[j - 1] * load / j as f64);
    }
    let mut tails = vec![0.0; masses.len() + 1];
    for j in (0..masses.len()).rev() {
        tails[j] = tails[j + 1] + masses[j];
    }
    let mut present = vec![1.0 - load];
    for j in 1..=count {
        let mut sum = present[0] * tails[j];
        for i in 1..j {
            sum += present[i] * tails[j - i + 1];
        }
        present.push(sum / (1.0 - tails[1]));
    }
    let mut cumulative = present[0];
    (0..count)
        .map(|i| {
            cumulative += present[i + 1];
            cumulative
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mm1_is_the_textbook_case() {
        let s = mm1(125.0, 0.002).unwrap(); // Jain, example 31.1: a gateway of 2 ms, 125 packets a second
        assert!((s.utilization - 0.25).abs() < 1e-15);
        assert!((s.response - 0.002 / 0.75).abs() < 1e-15);
        assert!((s.empty - 0.75).abs() < 1e-12);
        // The response time of M/M/1 is exponential.
        assert!((s.response_percentile(0.99) - s.response * 100.0_f64.ln()).abs() < 1e-9);
    }

    /// The M/M/16 case of the anchors: ρ = 0.9, S = 1: w = 0.3696.
    #[test]
    fn mmm_waits_as_known() {
        let s = mmm(14.4, 1.0, 16).unwrap();
        assert!((s.wait - 0.3696).abs() < 5e-5, "{}", s.wait);
        assert!((s.present - s.throughput * s.response).abs() < 1e-12);
    }

    #[test]
    fn saturated_stations_are_refused_and_undecided_ones_too() {
        assert!(matches!(mm1(10.0, 0.1), Err(Error::Unstable { .. })));
        let error = mmm_interval("db", (540.0, 570.0), (0.0719, 0.0739), 40).unwrap_err();
        assert!(matches!(error, Error::Undecided { .. }), "{error}");
        let (best, worst) = mmm_interval("db", (300.0, 310.0), (0.07, 0.072), 40).unwrap();
        assert!(best.wait < worst.wait);
    }

    #[test]
    fn mmm_backwards_finds_the_load_that_holds_so_many() {
        let s = mmm_from_number(12_877.2, 239.53, 51).unwrap();
        assert!((s.present - 239.53).abs() < 1e-6);
        assert!((s.utilization - 0.994_956).abs() < 1e-6);
    }

    /// M/D/1 at ρ = 0.8, S = 1: W = 2, and P(W > 0) = 0.8. P(W ≤ t) for t < S is (1 − ρ)·e^(λt),
    /// known in closed form.
    #[test]
    fn md1_waits_as_known() {
        let s = md1(0.8, 1.0).unwrap();
        assert!((s.wait - 2.0).abs() < 1e-12);
        for t in [0.0, 0.3, 0.999] {
            assert!((1.0 - s.wait_tail(t) - 0.2 * (0.8_f64 * t).exp()).abs() < 1e-12, "{t}");
        }
    }

    /// ρ = 0.9995: waits are of thousands of services. The sum says where their percentiles are,
    /// and in heavy traffic waits are exponential with the mean 1/(2(1 − ρ)) services.
    #[test]
    fn md1_has_its_percentiles_near_saturation_too() {
        let s = md1(999.5, 1e-3).unwrap();
        for share in [0.9_f64, 0.95, 0.99] {
            let percentile = s.wait_percentile(share);
            assert!((md1_wait(999.5, 1e-3, percentile) - share).abs() < 1e-9, "{share}: {percentile}");
            assert!((percentile / -(1.0 - share).ln() - 1.0).abs() < 2e-3, "{share}: {percentile}");
            assert!((s.response_percentile(share) - percentile - 1e-3).abs() < 1e-9, "{share}");
        }
    }

    #[test]
    fn the_tail_of_md1_goes_on_where_its_sum_ends() {
        for rho in [0.5, 0.9, 0.99, 0.9999] {
            let s = md1(rho, 1.0).unwrap();
            for time in [MD1_SUMMED + 0.3, 250.0, 777.7] {
                let (tail, sum) = (s.wait_tail(time), 1.0 - md1_wait(rho, 1.0, time));
                assert!((tail - sum).abs() < 1e-11, "{rho}, {time}: {tail} and {sum}");
            }
        }
    }

    #[test]
    fn the_mean_of_the_md1_waiting_times_is_the_mean_wait() {
        let s = md1(0.7, 1.0).unwrap();
        let step = 0.05;
        let mean: f64 = (0..600).map(|i| s.wait_tail((f64::from(i) + 0.5) * step) * step).sum();
        assert!((mean - s.wait).abs() < 1e-3, "{mean} {}", s.wait);
    }

    #[test]
    fn priorities_conserve_the_total_wait() {
        let class = |arrival, mean| PriorityClass { arrival, service: Distribution::exponential(mean) };
        let waits = mg1_priority(&[class(3.0, 0.1), class(4.0, 0.1)]).unwrap();
        assert!(waits[0] < waits[1]);
        // Conservation law (Kleinrock 1976): Σ ρ_i W_i = ρ W of FCFS.
        let fcfs = mm1(7.0, 0.1).unwrap();
        assert!((0.3 * waits[0] + 0.4 * waits[1] - 0.7 * fcfs.wait).abs() < 1e-12);
        let pareto = PriorityClass { arrival: 3.0, service: Distribution::Pareto { mean: 0.1, shape: 1.5 } };
        let error = mg1_priority(&[class(3.0, 0.1), pareto]).unwrap_err();
        assert!(error.to_string().contains("no finite variance"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("a shape above 2")), "{error}");
        // What is too much is all of it, not what the urgent ones bring.
        let error = mg1_priority(&[class(5.0, 0.1), class(6.0, 0.1), class(5.0, 0.1)]).unwrap_err();
        assert!(error.to_string().contains("utilization 1.6000"), "{error}");
    }

    #[test]
    fn kingman_bounds_what_pollaczek_and_khinchine_compute() {
        for scv in [0.0, 0.5, 4.0] {
            let exact = mg1(0.8, &Distribution::Moments { mean: 1.0, scv }).unwrap();
            let approximate = ggm(0.8, 1.0, 1.0, scv, 1).unwrap();
            assert!(exact.wait <= kingman(0.8, 1.0, 1.0, scv).unwrap());
            assert!((exact.wait - approximate.wait).abs() < 1e-12);
        }
    }

    /// Without the factor for regular arrivals G/G/m would be twice as long as D/M/1 at ρ = 0.5.
    #[test]
    fn regular_arrivals_wait_as_little_as_they_should() {
        for rho in [0.5, 0.7, 0.9] {
            let exact = gm1(&Distribution::constant(1.0 / rho), 1.0).unwrap().wait;
            let wait = ggm(rho, 0.0, 1.0, 1.0, 1).unwrap().wait;
            assert!((wait / exact - 1.0).abs() < 0.03, "{rho}: {wait} and {exact}");
        }
    }

    /// At 20 % load few wait, and responses are as service times are: exponential here, and 95 % of
    /// those are below 3.0.
    #[test]
    fn responses_vary_as_the_service_does() {
        let percentile = |scv| ggm(0.2, 0.25, 1.0, scv, 2).unwrap().response_percentile(0.95);
        assert!((2.99..3.1).contains(&percentile(1.0)), "{}", percentile(1.0));
        let all = [0.0, 0.25, 0.999_999, 1.0, 4.0].map(percentile);
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1]), "{all:?}");
        assert!((percentile(1.000_001) - percentile(1.0)).abs() < 1e-4, "{}", percentile(1.000_001));
        for scv in [0.0, 0.3, 1.0, 5.0] {
            let s = ggm(1.2, 0.25, 1.0, scv, 2).unwrap();
            let mean: f64 = (0..40_000).map(|i| s.response_tail((f64::from(i) + 0.5) * 0.005) * 0.005).sum();
            assert!((mean - s.response).abs() < 1e-3 * s.response, "{scv}: {mean} {}", s.response);
        }
        // Variation that is a rounding, and one of which a branch is as good as never.
        let nearly = |scv| ggm(0.8, 1.0, 1.0, scv, 1).unwrap().response_percentile(0.99);
        assert!((nearly(1e-32) - nearly(0.0)).abs() < 1e-3 * nearly(0.0), "{}", nearly(1e-32));
        assert!(nearly(1e18) > nearly(4.0), "{}", nearly(1e18));
    }

    /// σ of D/M/1, E2/M/1 and H2/M/1 at ρ = 1/2: −W₀(−2e⁻²)/2 of Lambert's function, (3 − √5)/2 of
    /// σ² − 3σ + 1 = 0, and the root of the quadratic that two exponential branches leave.
    #[test]
    fn gm1_is_solved_in_closed_form_where_there_is_one() {
        let sigma = |gaps: Distribution| gm1(&gaps, 0.5).unwrap().delayed;
        assert!((sigma(Distribution::constant(1.0)) - 0.203_187_869_979_98).abs() < 1e-12);
        let erlang = sigma(Distribution::Erlang { stages: 2, mean: 1.0 });
        assert!((erlang - (3.0 - 5.0_f64.sqrt()) / 2.0).abs() < 1e-12, "{erlang}");
        // Branches of rates a = 2p and b = 2(1 − p): with s = 2(1 − σ), σ·(s + a)(s + b) =
        // (p·a + (1 − p)·b)·s + a·b, of which s is a factor that goes with σ = 1.
        let scv: f64 = 4.0;
        let p = (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt()) / 2.0;
        let (a, b) = (2.0 * p, 2.0 * (1.0 - p));
        let busy = sigma(Distribution::Hyperexponential { mean: 1.0, scv });
        let s = 2.0 * (1.0 - busy);
        let (left, right) = (busy * (s + a) * (s + b), (p * a + (1.0 - p) * b) * s + a * b);
        assert!((left - right).abs() < 1e-12 && busy > 0.5, "{busy}: {left} and {right}");
    }

    #[test]
    fn gm1_with_poisson_arrivals_is_mm1() {
        for rho in [0.05, 0.5, 0.99] {
            let (one, other) =
                (gm1(&Distribution::exponential(1.0 / rho), 1.0).unwrap(), mm1(rho, 1.0).unwrap());
            assert!((one.wait / other.wait - 1.0).abs() < 1e-9, "{rho}");
            for time in [0.1, 1.0, 10.0] {
                assert!((one.response_tail(time) - other.response_tail(time)).abs() < 1e-9, "{rho}, {time}");
            }
        }
    }

    /// The response time of G/M/1 is exponential with mean S/(1 − σ).
    #[test]
    fn the_response_time_of_gm1_is_exponential() {
        let s = gm1(&Distribution::Gamma { mean: 1.25, scv: 0.3 }, 1.0).unwrap();
        for time in [0.2_f64, 1.0, 7.0] {
            let expected = (-time * (1.0 - s.delayed)).exp();
            assert!((s.response_tail(time) - expected).abs() < 1e-12, "{time}");
        }
        let lognormal = gm1(&Distribution::Lognormal { mean: 2.0, scv: 2.0 }, 1.0).unwrap_err();
        assert!(lognormal.to_string().contains("lognormal gaps"), "{lognormal}");
        assert!(matches!(gm1(&Distribution::constant(1.0), 1.0), Err(Error::Unstable { .. })));
    }

    proptest! {
        #[test]
        fn percentiles_invert_the_tail(load in 0.01_f64..0.995, servers in 1_u32..200, share in 0.01_f64..0.999) {
            let s = mmm(load * f64::from(servers), 1.0, servers).unwrap();
            let response = s.response_percentile(share);
            prop_assert!((s.response_tail(response) - (1.0 - share)).abs() < 1e-6);
            let wait = s.wait_percentile(share);
            prop_assert!(s.wait_tail(wait) <= 1.0 - share + 1e-6);
            prop_assert!(s.empty >= 0.0 && s.empty <= 1.0);
        }

        #[test]
        fn the_mean_response_is_the_area_under_its_tail(load in 0.05_f64..0.9, servers in 1_u32..20) {
            let s = mmm(load * f64::from(servers), 1.0, servers).unwrap();
            let step = s.response_percentile(0.999_999) / 4_000.0;
            let mean: f64 = (0..4_000).map(|i| s.response_tail((f64::from(i) + 0.5) * step) * step).sum();
            prop_assert!((mean - s.response).abs() < 1e-3 * s.response, "{} {}", mean, s.response);
        }
    }
}
