//! Open networks, and open classes beside closed ones.
//!
//! In a product-form network each station behaves as if it were alone, fed by its share of the
//! arrivals (Jackson 1957; Baskett, Chandy, Muntz & Palacios 1975). Open classes beside closed ones
//! only make the stations slower for those: D becomes D / (1 − ρ_open) (Lazowska et al. 1984, 7.5).

use krarup_units::Seconds;

use crate::multi::{self, Customers, MulticlassStation, PopulationPoint};
use crate::single::{self, ClassStation, Pace};
use crate::{Error, laws, station};

/// An open class.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenClass {
    /// For messages and tables.
    pub name: String,
    /// λ, per second; > 0.
    pub rate: f64,
    /// Demand D at each station.
    pub demands: Vec<Seconds>,
}

/// The answer for the open classes.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenAnswer {
    /// Residence time by class and station, all visits together.
    pub residence: Vec<Vec<Seconds>>,
    /// Mean number by class and station.
    pub queue: Vec<Vec<f64>>,
    /// ρ of each station; at a delay the mean number there.
    pub utilization: Vec<f64>,
}

impl OpenAnswer {
    /// R of a class, the sum over its stations.
    pub fn response(&self, class: usize) -> Seconds {
        self.residence[class].iter().sum()
    }
}

/// Solves an open network exactly: M/M/1 and M/M/m stations (a station of several servers must
/// serve all classes with the same mean time), processor sharing, preemptive LIFO and delays.
///
/// # Errors
/// [`Error::Unstable`], naming the station; [`Error::Invalid`] for impossible input.
pub fn solve(places: &[MulticlassStation], classes: &[OpenClass]) -> Result<OpenAnswer, Error> {
    check_input(places, classes)?;
    let mut answer = OpenAnswer {
        residence: vec![Vec::new(); classes.len()],
        queue: vec![Vec::new(); classes.len()],
        utilization: Vec::new(),
    };
    for (k, place) in places.iter().enumerate() {
        let busy: f64 = classes.iter().map(|c| c.rate * c.demands[k]).sum();
        // Residence over demand: 1 at a delay, 1/(1 − ρ) at one server, from Erlang's C at several.
        let (stretch, utilization) = match place.servers {
            None => (1.0, busy),
            Some(servers) => {
                let m = f64::from(servers);
                let rho = busy / m;
                laws::stability(&place.name, rho, rho)?;
                (1.0 + station::erlang_c(servers, busy) / (m * (1.0 - rho)), rho)
            }
        };
        answer.utilization.push(utilization);
        for (c, class) in classes.iter().enumerate() {
            let residence = class.demands[k] * stretch;
            answer.residence[c].push(residence);
            answer.queue[c].push(class.rate * residence);
        }
    }
    Ok(answer)
}

/// Whether open classes and closed ones meet at a station.
fn meet(closed: &[Customers], utilization: &[f64], k: usize) -> bool {
    utilization[k] > 0.0 && closed.iter().any(|class| class.demands[k] > 0.0 && class.population > 0)
}

/// The most terms that are summed for the speeds of one station: about a second's work.
const MOST_TERMS: u64 = 200_000_000;

/// Refuses more closed clients, or servers that they share with open classes, than are summed over.
fn check_shared(
    places: &[MulticlassStation],
    closed: &[Customers],
    utilization: &[f64],
) -> Result<(), Error> {
    let clients = closed.iter().fold(0, |all: u64, class| all.saturating_add(class.population));
    single::check_population(clients)?;
    for (_, place) in places.iter().enumerate().filter(|(k, _)| meet(closed, utilization, *k)) {
        let servers = u64::from(place.servers.unwrap_or(1));
        if servers.saturating_mul(servers.min(clients + 1)) > MOST_TERMS {
            return Err(Error::TooLarge {
                what: format!(
                    "exact solution of {servers} servers at `{}` that open classes share with {clients} clients",
                    place.name
                ),
                hint: "make it a delay where all its servers are hardly ever busy, else simulate".into(),
            });
        }
    }
    Ok(())
}

/// Solves closed classes beside open ones: exactly with `solve_closed` = [`multi::exact`], else as
/// good as the approximation given. Where both share a station of several servers it is always
/// exact.
///
/// # Errors
/// [`Error::Unstable`] where the open classes alone overload a station; [`Error::TooLarge`] where
/// open and closed classes share a station of several servers, and the closed ones have too many
/// clients or population vectors, or the station too many servers; and those of `solve_closed`.
pub fn mixed(
    places: &[MulticlassStation],
    open: &[OpenClass],
    closed: &[Customers],
    solve_closed: impl FnOnce(&[MulticlassStation], &[Customers]) -> Result<PopulationPoint, Error>,
) -> Result<(OpenAnswer, PopulationPoint), Error> {
    let alone = solve(places, open)?;
    let is_shared = |(k, place): (usize, &MulticlassStation)| {
        place.servers.is_some_and(|m| m > 1) && meet(closed, &alone.utilization, k)
    };
    let crowded = places.iter().enumerate().any(is_shared);
    if crowded {
        check_shared(places, closed, &alone.utilization)?;
    }
    // Mean number of open requests at stations of several servers that both kinds visit.
    let mut shared = vec![None; places.len()];
    let answer = match (crowded, closed) {
        (true, [one]) => {
            let (answer, numbers) = beside_one(places, one, &alone.utilization)?;
            shared = numbers;
            answer
        }
        (true, _) => {
            let (answer, numbers) = beside_several(places, closed, &alone.utilization)?;
            shared = numbers;
            answer
        }
        (false, _) => {
            let mut slower = closed.to_vec();
            for (k, place) in places.iter().enumerate() {
                if meet(closed, &alone.utilization, k) && place.servers.is_some() {
                    slower.iter_mut().for_each(|c| c.demands[k] /= 1.0 - alone.utilization[k]);
                }
            }
            solve_closed(places, &slower)?
        }
    };
    let mut beside = alone;
    for (k, place) in places.iter().enumerate() {
        // Busy with either kind; the closed part works at full speed, not at the slowed one.
        let closed_busy: f64 = answer.throughput.iter().zip(closed).map(|(x, c)| x * c.demands[k]).sum();
        beside.utilization[k] += closed_busy / f64::from(place.servers.unwrap_or(1));
        if place.servers.is_some() && beside.utilization[k] > 1.0 + 1e-6 {
            let law = format!("utilization {}, at most 1", beside.utilization[k]);
            return Err(Error::Violated { station: place.name.clone(), law });
        }
        if let Some(number) = shared[k] {
            let busy: f64 = open.iter().map(|c| c.rate * c.demands[k]).sum();
            for (c, class) in open.iter().enumerate() {
                beside.queue[c][k] = number * class.rate * class.demands[k] / busy;
                beside.residence[c][k] = beside.queue[c][k] / class.rate;
            }
        } else if place.servers == Some(1) {
            let closed_queue: f64 = answer.queue.iter().map(|q| q[k]).sum();
            for (c, class) in open.iter().enumerate() {
                beside.residence[c][k] *= 1.0 + closed_queue;
                beside.queue[c][k] = class.rate * beside.residence[c][k];
            }
        }
    }
    Ok((beside, answer))
}

/// One closed class beside open ones, where stations may have several servers: what the open
/// classes are to it, is summed over.
///
/// With n closed and o open requests at m servers, product form has C(n + o, o)·D^n·a^o / Π min(i,
/// m), i = 1 to n + o, a being what the open classes keep busy. The sum over o makes the station
/// one whose speed depends on n.
fn beside_one(
    places: &[MulticlassStation],
    class: &Customers,
    utilization: &[f64],
) -> Result<(PopulationPoint, Vec<Option<f64>>), Error> {
    let population = class.population as usize;
    let mut resources = Vec::new();
    let mut rewards = Vec::new();
    for (k, place) in places.iter().enumerate() {
        let (name, demand) = (place.name.clone(), class.demands[k]);
        let (pace, reward) = match place.servers {
            None => (Pace::Delay, None),
            Some(1) => (Pace::Speeds(vec![1.0 - utilization[k]]), None),
            Some(servers) if !meet(std::slice::from_ref(class), utilization, k) => {
                (Pace::Servers(servers), None)
            }
            Some(servers) => {
                let (speeds, numbers) = speeds_beside(servers, utilization[k], population);
                (Pace::Speeds(speeds), Some(numbers))
            }
        };
        resources.push(ClassStation { name, demand, pace });
        rewards.push(reward.into_iter().collect::<Vec<_>>());
    }
    let sweep = single::solve_with_rewards(&resources, class.think, population, &rewards)?;
    let stations = 0..places.len();
    let number = |k: usize| (!rewards[k].is_empty()).then(|| sweep.reward(k, 0, population));
    let queue: Vec<f64> = stations.clone().map(|k| sweep.queue(k, population)).collect();
    let throughput = sweep.throughput(population);
    let residence = queue.iter().map(|queue| queue / throughput).collect();
    let answer =
        PopulationPoint { throughput: vec![throughput], residence: vec![residence], queue: vec![queue] };
    Ok((answer, stations.map(number).collect()))
}

/// Several closed classes beside open ones: as [`beside_one`], over all population vectors. Product
/// form has one factor for the number of all closed requests at a station, whatever their classes,
/// so that one speed for each number is the same for all of them (Bruell, Balbo & Afshari 1984).
fn beside_several(
    places: &[MulticlassStation],
    classes: &[Customers],
    utilization: &[f64],
) -> Result<(PopulationPoint, Vec<Option<f64>>), Error> {
    let population = classes.iter().map(|class| class.population).sum::<u64>() as usize;
    let mut slower = classes.to_vec();
    let mut speeds = vec![None; places.len()];
    let mut numbers = vec![Vec::new(); places.len()];
    for (k, place) in places.iter().enumerate().filter(|(k, _)| meet(classes, utilization, *k)) {
        match place.servers {
            None => {}
            Some(1) => slower.iter_mut().for_each(|class| class.demands[k] /= 1.0 - utilization[k]),
            Some(servers) => {
                let (own, open) = speeds_beside(servers, utilization[k], population);
                speeds[k] = Some(own);
                numbers[k] = open;
            }
        }
    }
    let solved = multi::exact_paced(places, &slower, &speeds)?;
    let number = |k: usize| {
        let shares = solved.number[k].as_ref()?;
        Some(shares.iter().zip(&numbers[k]).map(|(share, number)| share * number).sum())
    };
    let shared = (0..places.len()).map(number).collect();
    Ok((solved.answer, shared))
}

/// The speed at which `servers` servers work for 1 to `population` closed requests, relative to one
/// server, where open ones keep the share `utilization` of them busy; and the mean number of open
/// requests beside 0 to `population` closed ones.
fn speeds_beside(servers: u32, utilization: f64, population: usize) -> (Vec<f64>, Vec<f64>) {
    let sums: Vec<(f64, f64)> = (0..=population).map(|n| over_open(n, servers, utilization)).collect();
    let speed = |n: usize| (n.min(servers as usize)) as f64 * (sums[n - 1].0 - sums[n].0).exp();
    let speeds = (1..=population.max(1)).map(|n| speed(n.min(population))).collect();
    (speeds, sums.iter().map(|(_, number)| *number).collect())
}

/// Beside `closed` requests at `servers` servers, with the share `utilization` of them busy with
/// open ones: the logarithm of the sum over the number of open ones, relative to none; and their
/// mean number.
///
/// With n closed ones and u the utilization, all m servers are busy from m − n open ones on. What
/// follows is Σ C(m + j, n)·u^j over all j = Σ C(m, n − i)·u^i/(1 − u)^(i + 1), i = 0 to n, times a
/// constant; where n ≥ m the whole sum is (1 − u)^−(n + 1).
fn over_open(closed: usize, servers: u32, utilization: f64) -> (f64, f64) {
    let (load, servers) = (utilization * f64::from(servers), servers as usize);
    let ratio = utilization / (1.0 - utilization);
    if closed >= servers {
        let each = closed as f64 + 1.0;
        return (-each * (-utilization).ln_1p(), each * ratio);
    }
    let free = servers - closed;
    let (mut logarithm, mut term, mut total, mut number) = (0.0, 1.0, 0.0, 0.0);
    for step in 0..=servers {
        // i + 1 of the second sum; 0 in the first one, term by term.
        let beyond = (step + 1).saturating_sub(free);
        total += term;
        number += term * (step as f64 + beyond as f64 * ratio);
        if total > 1e200 {
            logarithm += total.ln();
            (term, number, total) = (term / total, number / total, 1.0);
        }
        let next = if beyond == 0 { load } else { (servers - step) as f64 * ratio };
        term *= next / (step + 1) as f64;
        if step + 1 == free {
            term /= 1.0 - utilization;
        }
    }
    (logarithm + total.ln(), number / total)
}

fn check_input(places: &[MulticlassStation], classes: &[OpenClass]) -> Result<(), Error> {
    for class in classes {
        let name = format!("class `{}`", class.name);
        if class.demands.len() != places.len() {
            let why = format!("has {} demands for {} stations", class.demands.len(), places.len());
            return Err(Error::invalid(name, why, "give one demand for each station"));
        }
        if let Some(demand) = class.demands.iter().find(|d| !(d.is_finite() && **d >= 0.0)) {
            return Err(Error::invalid(
                name,
                format!("has a demand of {demand} s"),
                "it must be ≥ 0 and finite",
            ));
        }
        if !(class.rate.is_finite() && class.rate > 0.0) {
            return Err(Error::invalid(
                name,
                format!("has a rate of {}", class.rate),
                "it must be > 0 per second",
            ));
        }
    }
    // The closed solver checks the stations the same way.
    multi::exact(places, &[]).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(servers: Option<u32>) -> MulticlassStation {
        MulticlassStation { name: format!("{servers:?}"), servers }
    }

    #[test]
    fn each_station_of_an_open_network_is_as_if_alone() {
        let places = [place(Some(1)), place(Some(4)), place(None)];
        let class = OpenClass { name: "c".into(), rate: 10.0, demands: vec![0.05, 0.3, 1.0] };
        let answer = solve(&places, std::slice::from_ref(&class)).unwrap();
        assert!((answer.residence[0][0] - station::mm1(10.0, 0.05).unwrap().response).abs() < 1e-12);
        assert!((answer.residence[0][1] - station::mmm(10.0, 0.3, 4).unwrap().response).abs() < 1e-12);
        assert!((answer.response(0) - answer.queue[0].iter().sum::<f64>() / 10.0).abs() < 1e-12);
        let error = solve(&places, &[OpenClass { rate: 20.0, ..class }]).unwrap_err();
        assert!(error.to_string().starts_with("Some(1) cannot keep up"), "{error}");
    }

    /// One server, one closed customer with think time: an open class sees it as part of the queue.
    /// In the limit of few arrivals the closed class is as if alone.
    #[test]
    fn few_arrivals_leave_the_closed_class_alone() {
        let places = [place(Some(1))];
        let closed = [Customers { name: "batch".into(), population: 4, think: 1.0, demands: vec![0.2] }];
        let open = |rate| [OpenClass { name: "web".into(), rate, demands: vec![0.1] }];
        let alone = multi::exact(&places, &closed).unwrap();
        let (_, few) = mixed(&places, &open(1e-9), &closed, multi::exact).unwrap();
        assert!((few.throughput[0] - alone.throughput[0]).abs() < 1e-6);
        let (web, many) = mixed(&places, &open(5.0), &closed, multi::exact).unwrap();
        assert!(many.throughput[0] < alone.throughput[0]);
        assert!(web.utilization[0] < 1.0 && web.utilization[0] > 0.5);
        // R_open = D (1 + Q_closed) / (1 − ρ_open)
        assert!((web.residence[0][0] - 0.1 * (1.0 + many.queue[0][0]) / 0.5).abs() < 1e-12);
    }

    /// Several servers beside an open class: against the balance of the Markov chain of both
    /// numbers.
    #[test]
    fn open_and_closed_requests_share_several_servers() {
        let (servers, population, think, service, rate) = (3_u32, 4_usize, 1.5, 0.5, 2.2);
        let places = [place(Some(servers))];
        let closed = [Customers { name: "batch".into(), population: 4, think, demands: vec![service] }];
        let open = [OpenClass { name: "web".into(), rate, demands: vec![service] }];
        let (web, batch) = mixed(&places, &open, &closed, multi::exact).unwrap();
        // States (closed, open) in a room that is never full; the one that is served is of either
        // kind as they are there.
        let room = 80;
        let mut share = vec![vec![1.0; room + 1]; population + 1];
        let done = |n: usize, o: usize, kind: usize| {
            let all = n + o;
            if all == 0 { 0.0 } else { all.min(3) as f64 / service * kind as f64 / all as f64 }
        };
        for _ in 0..4_000 {
            for n in 0..=population {
                for o in 0..=room {
                    let mut into = 0.0;
                    if n > 0 {
                        into += share[n - 1][o] * (population + 1 - n) as f64 / think;
                    }
                    if n < population {
                        into += share[n + 1][o] * done(n + 1, o, n + 1);
                    }
                    if o > 0 {
                        into += share[n][o - 1] * rate;
                    }
                    if o < room {
                        into += share[n][o + 1] * done(n, o + 1, o + 1);
                    }
                    let out = (population - n) as f64 / think
                        + if o < room { rate } else { 0.0 }
                        + done(n, o, n)
                        + done(n, o, o);
                    share[n][o] = into / out;
                }
            }
        }
        let total: f64 = share.iter().flatten().sum();
        let mean = |of: &dyn Fn(usize, usize) -> f64| {
            let cells = (0..=population).flat_map(|n| (0..=room).map(move |o| (n, o)));
            cells.map(|(n, o)| share[n][o] * of(n, o)).sum::<f64>() / total
        };
        let inside = mean(&|n, _| n as f64);
        assert!((batch.queue[0][0] / inside - 1.0).abs() < 1e-6, "{} {inside}", batch.queue[0][0]);
        assert!((batch.throughput[0] / ((4.0 - inside) / think) - 1.0).abs() < 1e-6);
        let number = mean(&|_, o| o as f64);
        assert!((web.queue[0][0] / number - 1.0).abs() < 1e-6, "{} {number}", web.queue[0][0]);
        // As many clients as one likes.
        let many = [Customers { population: 5_000, ..closed[0].clone() }];
        let (_, many) = mixed(&places, &open, &many, multi::exact).unwrap();
        assert!((many.throughput[0] * service / 3.0 - (1.0 - 1.1 / 3.0)).abs() < 1e-6);
        // Two classes that do the same are one.
        let half = Customers { population: 2, ..closed[0].clone() };
        let (also_web, both) = mixed(&places, &open, &[half.clone(), half], multi::exact).unwrap();
        assert!((both.throughput.iter().sum::<f64>() / batch.throughput[0] - 1.0).abs() < 1e-10);
        assert!((also_web.queue[0][0] / web.queue[0][0] - 1.0).abs() < 1e-10);
        // More clients than are solved one after the other.
        let too_many = [Customers { population: 2_000_000, ..closed[0].clone() }];
        let error = mixed(&places, &open, &too_many, multi::exact).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }

    /// As many servers as can be written: solved where one kind alone visits them, else refused.
    #[test]
    fn servers_without_end_are_solved_or_refused_at_once() {
        let with = |far: Option<u32>, open_demands: [f64; 2], closed_demands: [f64; 2]| {
            let open = [OpenClass { name: "web".into(), rate: 8.0, demands: open_demands.to_vec() }];
            let demands = closed_demands.to_vec();
            let closed = [Customers { name: "batch".into(), population: 4, think: 1.0, demands }];
            mixed(&[place(Some(2)), place(far)], &open, &closed, multi::exact)
        };
        for (open_demands, closed_demands) in [([0.1, 0.0], [0.1, 0.2]), ([0.1, 0.2], [0.1, 0.0])] {
            let (web, batch) = with(Some(u32::MAX), open_demands, closed_demands).unwrap();
            let (web_delayed, delayed) = with(None, open_demands, closed_demands).unwrap();
            assert!((batch.throughput[0] / delayed.throughput[0] - 1.0).abs() < 1e-9);
            assert!((web.response(0) / web_delayed.response(0) - 1.0).abs() < 1e-9);
        }
        let error = with(Some(u32::MAX), [0.1, 0.1], [0.1, 0.1]).unwrap_err();
        assert!(matches!(&error, Error::TooLarge { hint, .. } if hint.contains("delay")), "{error}");
        assert!(with(Some(10_000), [0.1, 0.1], [0.1, 0.1]).is_ok());
    }

    /// Several servers that the closed class alone visits, beside others that both visit.
    #[test]
    fn an_open_class_takes_no_time_where_it_does_not_come() {
        let places = [place(Some(2)), place(Some(2))];
        let closed =
            |population| Customers { name: "batch".into(), population, think: 1.0, demands: vec![0.1, 0.2] };
        let open = [OpenClass { name: "web".into(), rate: 8.0, demands: vec![0.1, 0.0] }];
        let (web, _) = mixed(&places, &open, &[closed(4)], multi::exact).unwrap();
        assert!(web.residence[0][1] == 0.0 && web.response(0).is_finite(), "{web:?}");
        let (split, _) = mixed(&places, &open, &[closed(2), closed(2)], multi::exact).unwrap();
        assert!((web.residence[0][0] / split.residence[0][0] - 1.0).abs() < 1e-10);
    }

    #[test]
    fn the_sum_over_open_requests_is_that_of_its_terms() {
        for (closed, servers, utilization) in
            [(1_000, 3, 0.4), (0, 2, 0.5), (2, 5, 0.9), (7, 8, 0.3), (0, 3, 0.0)]
        {
            let load = utilization * f64::from(servers);
            let (mut term, mut total, mut number) = (1.0, 1.0, 0.0);
            for open in 1..3_000 {
                let all = closed + open;
                term *= all as f64 / open as f64 * load / all.min(servers as usize) as f64;
                total += term;
                number += term * open as f64;
            }
            let (logarithm, mean) = over_open(closed, servers, utilization);
            assert!((logarithm - total.ln()).abs() < 1e-9, "{closed}, {servers}: {logarithm}");
            assert!((mean - number / total).abs() <= 1e-9 * mean, "{closed}, {servers}: {mean}");
        }
    }
}
