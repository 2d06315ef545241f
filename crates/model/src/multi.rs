//! Closed networks of several classes: exactly where memory allows, else by Linearizer or
//! Schweitzer.
//!
//! | method | single servers, delays | several servers | cost |
//! |---|---|---|---|
//! | [`exact`] | exact | exact | all population vectors, Π (N_c + 1) |
//! | [`linearizer`] | mostly within 1 % | Seidmann's split, mostly within 5–10 % | K·C³ a round |
//! | [`schweitzer`] | mostly within 5 %, up to 21 % | as Linearizer | K·C a round |
//!
//! All assume product form (Baskett, Chandy, Muntz & Palacios 1975): FCFS stations serve every
//! class with the same exponential time; at the others the distribution does not matter.

use krarup_units::Seconds;

use crate::Error;

/// A station of a network of several classes.
#[derive(Clone, Debug, PartialEq)]
pub struct MulticlassStation {
    /// For messages and tables.
    pub name: String,
    /// Number of servers; `None` is a delay.
    pub servers: Option<u32>,
}

/// A closed class.
#[derive(Clone, Debug, PartialEq)]
pub struct Customers {
    /// For messages and tables.
    pub name: String,
    /// Population N_c; may be 0.
    pub population: u64,
    /// Think time Z_c.
    pub think: Seconds,
    /// Demand D at each station.
    pub demands: Vec<Seconds>,
}

/// The answer for one population vector.
#[derive(Clone, Debug, PartialEq)]
pub struct PopulationPoint {
    /// X of each class, per second.
    pub throughput: Vec<f64>,
    /// Residence time by class and station, all visits together.
    pub residence: Vec<Vec<Seconds>>,
    /// Mean number by class and station.
    pub queue: Vec<Vec<f64>>,
}

impl PopulationPoint {
    /// R of a class, the sum over its stations.
    pub fn response(&self, class: usize) -> Seconds {
        self.residence[class].iter().sum()
    }
}

/// Numbers of eight bytes that [`exact`] may use.
const MOST_NUMBERS: f64 = 5e7;

/// Exact mean value analysis over all population vectors (Reiser & Lavenberg 1980).
///
/// Stations of several servers need the probabilities p(j) of j customers for j below the number of
/// servers. p(0) is never 1 − Σ; it follows from the same network without that station: p(0 | n) =
/// p(0 | n − e_c)·X_c(n) / X_c(n, without it), all of it positive. So each of the 2^L sets of
/// multi-server stations is solved once.
///
/// # Errors
/// [`Error::TooLarge`] where there are too many population vectors; [`Error::Invalid`] for
/// impossible input; [`Error::Violated`] when the answer breaks a law.
pub fn exact(places: &[MulticlassStation], classes: &[Customers]) -> Result<PopulationPoint, Error> {
    let paced = exact_paced(places, classes, &vec![None; places.len()]).map_err(|error| match error {
        Error::TooLarge { what, .. } => Error::TooLarge { what, hint: "use Linearizer, or simulate".into() },
        other => other,
    })?;
    Ok(paced.answer)
}

/// The answer, and how the number of customers at some stations is distributed.
pub(crate) struct Paced {
    pub(crate) answer: PopulationPoint,
    /// Probability of 0, 1, … customers at stations that have speeds of their own and are visited.
    pub(crate) number: Vec<Option<Vec<f64>>>,
}

/// As [`exact`], with stations whose speed depends on how many customers are there, whatever their
/// class: `speeds[station][j − 1]` times that of one server with j of them. There must be one for
/// each number up to the sum of the populations.
///
/// # Errors
/// As [`exact`].
pub(crate) fn exact_paced(
    places: &[MulticlassStation],
    classes: &[Customers],
    speeds: &[Option<Vec<f64>>],
) -> Result<Paced, Error> {
    check_input(places, classes)?;
    let crowd = crowd(places, classes, speeds);
    if is_too_large(places, classes, &crowd) {
        return Err(Error::TooLarge {
            what: format!(
                "exact solution of {:.0} population vectors and {} multi-server stations",
                vectors(classes),
                crowd.len()
            ),
            hint: "simulate".into(),
        });
    }
    // Solve each set of multi-server stations, smaller sets first; keep the first class's X of each
    // state.
    let mut known: Vec<Vec<f64>> = Vec::new();
    let mut answer = None;
    for set in 0..1_usize << crowd.len() {
        let lattice = Lattice::solve(places, classes, &crowd, set, &known);
        if set + 1 == 1 << crowd.len() {
            answer = Some((lattice.answer, lattice.last_marginal));
        } else {
            known.push(lattice.first_throughput);
        }
    }
    let (answer, marginals) = answer.expect("the last set is the whole network");
    check_answer(places, classes, &answer, 1e-6)?;
    let mut number = vec![None; places.len()];
    for (crowded, marginal) in crowd.iter().zip(marginals).filter(|(crowded, _)| crowded.speeds.is_some()) {
        number[crowded.station] = Some(marginal);
    }
    Ok(Paced { answer, number })
}

fn is_too_large(places: &[MulticlassStation], classes: &[Customers], crowd: &[Crowded<'_>]) -> bool {
    let sets = 2.0_f64.powi(crowd.len() as i32);
    let marginals: f64 = crowd.iter().map(|crowded| crowded.levels as f64).sum();
    vectors(classes) * (places.len() as f64 + marginals + sets) > MOST_NUMBERS || crowd.len() > 12
}

/// Number of population vectors.
fn vectors(classes: &[Customers]) -> f64 {
    classes.iter().map(|c| c.population as f64 + 1.0).product()
}

/// A station whose speed depends on how many customers are there.
#[derive(Clone, Copy)]
struct Crowded<'a> {
    station: usize,
    /// Speed with 1, 2, … customers; none where it is that of its servers.
    speeds: Option<&'a [f64]>,
    /// Up to how many customers, less one, probabilities are needed.
    levels: usize,
}

/// The stations of several servers, or with speeds of their own, that a class visits.
fn crowd<'a>(
    places: &[MulticlassStation],
    classes: &[Customers],
    speeds: &'a [Option<Vec<f64>>],
) -> Vec<Crowded<'a>> {
    let all: u64 = classes.iter().map(|class| class.population).sum();
    let visited = (0..places.len()).filter(|k| total_demand(classes, *k) > 0.0);
    let crowded = visited.filter_map(|station| match (&speeds[station], places[station].servers) {
        (Some(speeds), _) => Some(Crowded { station, speeds: Some(speeds), levels: all as usize + 1 }),
        (None, Some(m)) if m > 1 => Some(Crowded { station, speeds: None, levels: m as usize }),
        _ => None,
    });
    crowded.collect()
}

fn total_demand(classes: &[Customers], station: usize) -> f64 {
    classes.iter().map(|c| c.demands[station]).sum()
}

/// Demands of each class at the stations where requests queue; none at those `outside` of the set.
fn queueing_demands(
    places: &[MulticlassStation],
    classes: &[Customers],
    outside: &[usize],
) -> Vec<Vec<Seconds>> {
    let queues = |k: usize| places[k].servers.is_some() && !outside.contains(&k);
    let of = |class: &Customers| {
        let demands = class.demands.iter().enumerate();
        demands.map(|(k, demand)| if queues(k) { *demand } else { 0.0 }).collect()
    };
    classes.iter().map(of).collect()
}

/// What a request of a class spends without queueing: Z, and its demands at delay stations.
fn delay(places: &[MulticlassStation], class: &Customers) -> Seconds {
    let delays = places.iter().zip(&class.demands).filter(|(place, _)| place.servers.is_none());
    class.think + delays.map(|(_, demand)| demand).sum::<Seconds>()
}

/// The next population vector, in the mixed radix of the populations.
fn count_up(count: &mut [usize], classes: &[Customers]) {
    for (n, class) in count.iter_mut().zip(classes) {
        *n += 1;
        if *n <= class.population as usize {
            break;
        }
        *n = 0;
    }
}

/// The residence time at a delay station is the demand; a class without customers has none.
fn add_delays(residence: &mut [Vec<Seconds>], places: &[MulticlassStation], classes: &[Customers]) {
    for (residence, class) in residence.iter_mut().zip(classes) {
        for ((residence, place), demand) in residence.iter_mut().zip(places).zip(&class.demands) {
            if place.servers.is_none() {
                *residence = *demand;
            }
            if class.population == 0 {
                *residence = 0.0;
            }
        }
    }
}

impl Crowded<'_> {
    /// R at this station of a class with this demand, by the probabilities `found` of how many it
    /// finds there; `seen` is their mean.
    fn residence(&self, demand: Seconds, found: &[f64], seen: f64) -> Seconds {
        if let Some(speeds) = self.speeds {
            // Found j there: with j + 1 the station has that speed, shared by all of them.
            let slower = found.iter().zip(speeds).enumerate();
            return demand * slower.map(|(j, (p, speed))| (j + 1) as f64 / speed * p).sum::<f64>();
        }
        let servers = self.levels;
        let idle: f64 = (0..servers - 1).map(|j| (servers - 1 - j) as f64 * found[j]).sum();
        demand * (1.0 + seen + idle) / servers as f64
    }
}

/// X of a class with a station over its X without that station: 1 where it is infinite in both, as
/// then the class does not visit the station.
fn throughput_ratio(with: f64, without: f64) -> f64 {
    if with.is_finite() { with / without } else { 1.0 }
}

/// The lattice of population vectors, solved from the empty one up.
struct Lattice {
    /// X of the first class that is there, by state.
    first_throughput: Vec<f64>,
    answer: PopulationPoint,
    /// p(0), p(1), … with all customers there, of the stations of the set.
    last_marginal: Vec<Vec<f64>>,
}

impl Lattice {
    /// `set` says which of the `crowd` are part of the network; `known[subset]` are those solved
    /// before.
    fn solve(
        places: &[MulticlassStation],
        classes: &[Customers],
        crowd: &[Crowded<'_>],
        set: usize,
        known: &[Vec<f64>],
    ) -> Self {
        let stations = places.len();
        let mut strides = Vec::with_capacity(classes.len());
        let mut states = 1;
        for class in classes {
            strides.push(states);
            states *= class.population as usize + 1;
        }
        let inside: Vec<(Crowded<'_>, usize)> = crowd // and the set without it
            .iter()
            .enumerate()
            .filter(|(bit, _)| set >> bit & 1 == 1)
            .map(|(bit, crowded)| (*crowded, set & !(1 << bit)))
            .collect();
        let outside: Vec<usize> = crowd
            .iter()
            .enumerate()
            .filter(|(bit, _)| set >> bit & 1 == 0)
            .map(|(_, crowded)| crowded.station)
            .collect();
        let queueing = queueing_demands(places, classes, &outside);
        let think: Vec<f64> = classes.iter().map(|class| delay(places, class)).collect();

        let mut queue = vec![0.0; states * stations];
        let mut marginal: Vec<Vec<f64>> = inside.iter().map(|(c, _)| vec![0.0; states * c.levels]).collect();
        marginal.iter_mut().for_each(|p| p[0] = 1.0);
        let mut first_throughput = vec![0.0; states];
        let mut residence = vec![vec![0.0; stations]; classes.len()];
        let mut throughput = vec![0.0; classes.len()];
        let mut count = vec![0_usize; classes.len()];
        for state in 1..states {
            count_up(&mut count, classes);
            for c in 0..classes.len() {
                throughput[c] = 0.0;
                if count[c] == 0 {
                    continue;
                }
                let before = state - strides[c];
                let seen = &queue[before * stations..(before + 1) * stations];
                let mut total = think[c];
                for ((r, d), q) in residence[c].iter_mut().zip(&queueing[c]).zip(seen) {
                    *r = d * (1.0 + q);
                    total += *r;
                }
                for (p, (crowded, _)) in marginal.iter().zip(&inside) {
                    let (k, m) = (crowded.station, crowded.levels);
                    let found = &p[before * m..(before + 1) * m];
                    let fair = crowded.residence(queueing[c][k], found, seen[k]);
                    total += fair - residence[c][k];
                    residence[c][k] = fair;
                }
                // Without any time left (all its demand is at a station outside of this set) a
                // class is never here: infinite throughput, no queue.
                throughput[c] = count[c] as f64 / total;
            }
            let row = &mut queue[state * stations..(state + 1) * stations];
            for c in (0..classes.len()).filter(|c| count[*c] > 0 && throughput[*c].is_finite()) {
                for (q, r) in row.iter_mut().zip(&residence[c]) {
                    *q += throughput[c] * r;
                }
            }
            let first = (0..classes.len()).find(|c| count[*c] > 0).expect("state 0 is the only empty one");
            first_throughput[state] = throughput[first];
            for (p, (Crowded { station: k, speeds, levels: m }, without)) in marginal.iter_mut().zip(&inside)
            {
                let ratio = throughput_ratio(throughput[first], known[*without][state]);
                p[state * m] = p[(state - strides[first]) * m] * ratio;
                for j in 1..*m {
                    p[state * m + j] = (0..classes.len())
                        .filter(|c| count[*c] > 0 && throughput[*c].is_finite())
                        .map(|c| queueing[c][*k] * throughput[c] * p[(state - strides[c]) * m + j - 1])
                        .sum::<f64>()
                        / speeds.map_or(j as f64, |speeds| speeds[j - 1]);
                }
            }
        }
        add_delays(&mut residence, places, classes);
        let queue =
            residence.iter().zip(&throughput).map(|(r, x)| r.iter().map(|r| r * x).collect()).collect();
        let last = |(p, (crowded, _)): (&Vec<f64>, &(Crowded<'_>, usize))| {
            p[(states - 1) * crowded.levels..].to_vec()
        };
        let last_marginal = marginal.iter().zip(&inside).map(last).collect();
        Self { first_throughput, answer: PopulationPoint { throughput, residence, queue }, last_marginal }
    }
}

/// Bard's and Schweitzer's approximation: a customer arriving sees its own class as 1/N_c smaller,
/// the others as they are (Schweitzer 1979). Several servers by Seidmann's split: D/m at one
/// server, the rest a delay (Seidmann, Schweitzer & Shalev-Oren 1987).
///
/// # Errors
/// [`Error::Invalid`] for impossible input; [`Error::NotConverged`]; [`Error::Violated`].
pub fn schweitzer(places: &[MulticlassStation], classes: &[Customers]) -> Result<PopulationPoint, Error> {
    check_input(places, classes)?;
    let split = Split::new(places, classes);
    let population: Vec<f64> = classes.iter().map(|c| c.population as f64).collect();
    let deviation = vec![vec![vec![0.0; places.len()]; classes.len()]; classes.len()];
    let queue = split.even_start(&population);
    let (throughput, queue) = split.core("Schweitzer's approximation", &population, &deviation, queue)?;
    split.answer(places, classes, &throughput, &queue)
}

/// Linearizer (Chandy & Neuse 1982): as Schweitzer's, but how each share changes with one customer
/// less is estimated by solving for one customer less in each class, three rounds of it.
///
/// # Errors
/// As [`schweitzer`].
pub fn linearizer(places: &[MulticlassStation], classes: &[Customers]) -> Result<PopulationPoint, Error> {
    const NAME: &str = "Linearizer";
    check_input(places, classes)?;
    let split = Split::new(places, classes);
    let (count, stations) = (classes.len(), places.len());
    let population: Vec<f64> = classes.iter().map(|c| c.population as f64).collect();
    // deviation[j][c][k]: how the share of class c at station k changes when class j has one
    // customer less.
    let mut deviation = vec![vec![vec![0.0; stations]; count]; count];
    let mut full = split.even_start(&population);
    let mut less: Vec<Vec<Vec<f64>>> =
        (0..count).map(|j| split.even_start(&one_less(&population, j))).collect();
    let mut throughput = Vec::new();
    for round in 0..3 {
        (throughput, full) = split.core(NAME, &population, &deviation, full)?;
        if round == 2 {
            break;
        }
        for j in (0..count).filter(|j| population[*j] >= 1.0) {
            let smaller = one_less(&population, j);
            let start = std::mem::take(&mut less[j]);
            less[j] = split.core(NAME, &smaller, &deviation, start)?.1;
        }
        for j in 0..count {
            let smaller = one_less(&population, j);
            for c in 0..count {
                for k in 0..stations {
                    let share = |queue: f64, n: f64| if n > 0.0 { queue / n } else { 0.0 };
                    deviation[j][c][k] = if smaller[c] > 0.0 && population[j] >= 1.0 {
                        share(less[j][c][k], smaller[c]) - share(full[c][k], population[c])
                    } else {
                        0.0
                    };
                }
            }
        }
    }
    split.answer(places, classes, &throughput, &full)
}

fn one_less(population: &[f64], class: usize) -> Vec<f64> {
    let mut smaller = population.to_vec();
    smaller[class] = (smaller[class] - 1.0).max(0.0);
    smaller
}

/// The network with each multi-server station split into one server m times as fast and a delay.
struct Split {
    /// Demand at the queueing part, by class and station.
    queueing: Vec<Vec<f64>>,
    /// Demand at the delay part, by class and station.
    delay: Vec<Vec<f64>>,
    think: Vec<f64>,
}

impl Split {
    fn new(places: &[MulticlassStation], classes: &[Customers]) -> Self {
        let share = |place: &MulticlassStation| place.servers.map_or(0.0, |m| 1.0 / f64::from(m));
        let by = |of: &dyn Fn(f64) -> f64| -> Vec<Vec<f64>> {
            classes
                .iter()
                .map(|c| c.demands.iter().zip(places).map(|(d, p)| d * of(share(p))).collect())
                .collect()
        };
        let think = classes.iter().map(|c| c.think).collect();
        Self { queueing: by(&|share| share), delay: by(&|share| 1.0 - share), think }
    }

    fn even_start(&self, population: &[f64]) -> Vec<Vec<f64>> {
        let stations = self.queueing.first().map_or(0, Vec::len);
        population.iter().map(|n| vec![n / stations.max(1) as f64; stations]).collect()
    }

    /// Queue seen at station k by a customer of class j: Σ_c (N_c − [c = j])·(F_ck +
    /// deviation_jck).
    fn seen(
        &self,
        population: &[f64],
        queue: &[Vec<f64>],
        deviation: &[Vec<f64>],
        j: usize,
        k: usize,
    ) -> f64 {
        (0..population.len())
            .filter(|c| population[*c] > 0.0)
            .map(|c| {
                let others = population[c] - f64::from(u8::from(c == j));
                (others.max(0.0) * (queue[c][k] / population[c] + deviation[c][k])).max(0.0)
            })
            .sum()
    }

    /// Iterates X, R and Q until the queues settle. Returns throughputs and queues of the queueing
    /// parts.
    fn core(
        &self,
        solver: &str,
        population: &[f64],
        deviation: &[Vec<Vec<f64>>],
        mut queue: Vec<Vec<f64>>,
    ) -> Result<(Vec<f64>, Vec<Vec<f64>>), Error> {
        let mut throughput = vec![0.0; population.len()];
        let mut apart = 0.0;
        for _ in 0..100_000 {
            let mut next = queue.clone();
            apart = 0.0_f64;
            for c in 0..population.len() {
                if population[c] == 0.0 {
                    next[c].fill(0.0);
                    continue;
                }
                for (k, residence) in next[c].iter_mut().enumerate() {
                    *residence =
                        self.queueing[c][k] * (1.0 + self.seen(population, &queue, &deviation[c], c, k));
                }
                let delay: f64 = self.delay[c].iter().sum();
                throughput[c] = population[c] / (self.think[c] + delay + next[c].iter().sum::<f64>());
                for (new, old) in next[c].iter_mut().zip(&queue[c]) {
                    *new *= throughput[c];
                    apart = apart.max((*new - old).abs() / population[c]);
                }
            }
            queue = next;
            if apart < 1e-10 {
                return Ok((throughput, queue));
            }
        }
        Err(Error::NotConverged {
            solver: solver.into(),
            what: format!("queues still move by {apart:e} after 100000 rounds"),
        })
    }

    fn answer(
        &self,
        places: &[MulticlassStation],
        classes: &[Customers],
        throughput: &[f64],
        queue: &[Vec<f64>],
    ) -> Result<PopulationPoint, Error> {
        let residence: Vec<Vec<f64>> = (0..classes.len())
            .map(|c| {
                (0..places.len())
                    .map(|k| {
                        if throughput[c] > 0.0 { queue[c][k] / throughput[c] + self.delay[c][k] } else { 0.0 }
                    })
                    .collect()
            })
            .collect();
        let queue =
            residence.iter().zip(throughput).map(|(r, x)| r.iter().map(|r| r * x).collect()).collect();
        let answer = PopulationPoint { throughput: throughput.to_vec(), residence, queue };
        check_answer(places, classes, &answer, 1e-6)?;
        Ok(answer)
    }
}

fn check_input(places: &[MulticlassStation], classes: &[Customers]) -> Result<(), Error> {
    for class in classes {
        let name = format!("class `{}`", class.name);
        if class.demands.len() != places.len() {
            let why = format!("has {} demands for {} stations", class.demands.len(), places.len());
            return Err(Error::invalid(name, why, "give one demand for each station"));
        }
        let times = class.demands.iter().chain([&class.think]);
        if let Some(time) = times.clone().find(|t| !(t.is_finite() && **t >= 0.0)) {
            return Err(Error::invalid(
                name,
                format!("has a time of {time}"),
                "times must be ≥ 0 and finite",
            ));
        }
        if class.population > 0 && times.sum::<f64>() <= 0.0 {
            return Err(Error::invalid(name, "takes no time at all", "give it a demand, or a think time"));
        }
    }
    match places.iter().find(|p| p.servers == Some(0)) {
        None => Ok(()),
        Some(place) => {
            Err(Error::invalid(format!("station `{}`", place.name), "has no servers", "give it at least one"))
        }
    }
}

fn check_answer(
    places: &[MulticlassStation],
    classes: &[Customers],
    answer: &PopulationPoint,
    slack: f64,
) -> Result<(), Error> {
    let broken = |station: &str, law: String| Err(Error::Violated { station: station.into(), law });
    for (c, class) in classes.iter().enumerate().filter(|(_, class)| class.population > 0) {
        let x = answer.throughput[c];
        let n = class.population as f64;
        if !(x.is_finite() && x > 0.0) {
            return broken(&class.name, format!("throughput {x}, must be above 0"));
        }
        let least = class.think + class.demands.iter().sum::<f64>();
        if x > n / least * (1.0 + slack) {
            return broken(&class.name, format!("throughput {x}, at most N / (D + Z) = {}", n / least));
        }
        let total = x * class.think + answer.queue[c].iter().sum::<f64>();
        if (total - n).abs() > slack * n {
            return broken(&class.name, format!("ΣQ + X·Z = {total}, must be N = {n}"));
        }
    }
    for (k, place) in places.iter().enumerate() {
        let busy: f64 = answer.throughput.iter().zip(classes).map(|(x, c)| x * c.demands[k]).sum();
        if let Some(servers) = place.servers
            && busy > f64::from(servers) * (1.0 + slack)
        {
            return broken(&place.name, format!("{busy} busy servers, at most {servers}"));
        }
        if let Some(queue) = answer.queue.iter().map(|q| q[k]).find(|q| !(q.is_finite() && *q >= -slack)) {
            return broken(&place.name, format!("queue {queue}, must be ≥ 0"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::single::{self, ClassStation};

    fn close(value: f64, expected: f64, tolerance: f64) {
        assert!((value / expected - 1.0).abs() <= tolerance, "{value} is not {expected}");
    }

    fn place(servers: u32) -> MulticlassStation {
        MulticlassStation { name: format!("{servers} servers"), servers: Some(servers) }
    }

    fn customers(population: u64, think: f64, demands: &[f64]) -> Customers {
        Customers { name: format!("{population} customers"), population, think, demands: demands.to_vec() }
    }

    /// The case by which the anchors compare tools: 3 × 50 customers, 5 stations.
    pub(crate) fn three_by_fifty() -> (Vec<MulticlassStation>, Vec<Customers>) {
        let by_station = [
            [0.02, 0.01, 0.03],
            [0.01, 0.02, 0.01],
            [0.03, 0.01, 0.02],
            [0.02, 0.02, 0.02],
            [0.01, 0.03, 0.02],
        ];
        let classes = (0..3).map(|c| customers(50, 0.0, &by_station.map(|s| s[c]))).collect();
        (vec![place(1); 5], classes)
    }

    /// With all its customers the case is solved in `tests/all/faults.rs`, to six digits of every
    /// class.
    #[test]
    fn approximations_are_near_the_exact_answer() {
        let (places, mut classes) = three_by_fifty();
        classes.iter_mut().for_each(|c| c.population = 15);
        let answer = exact(&places, &classes).unwrap();
        for (near, within) in [(schweitzer(&places, &classes), 0.03), (linearizer(&places, &classes), 0.003)]
        {
            for (x, exact) in near.unwrap().throughput.iter().zip(&answer.throughput) {
                close(*x, *exact, within);
            }
        }
    }

    /// Two classes that do the same are one class; with several servers too.
    #[test]
    fn equal_classes_are_one_class() {
        let places = [place(1), place(4), MulticlassStation { name: "net".into(), servers: None }, place(3)];
        let demands = [0.02, 0.1, 0.05, 0.06];
        let answer = exact(&places, &[customers(12, 0.3, &demands), customers(7, 0.3, &demands)]).unwrap();
        let single = single::solve(
            &[
                ClassStation::fixed("a", 0.02),
                ClassStation::servers("b", 0.1, 4),
                ClassStation::delay("net", 0.05),
                ClassStation::servers("c", 0.06, 3),
            ],
            0.3,
            19,
        )
        .unwrap();
        close(answer.throughput.iter().sum(), single.throughput(19), 1e-11);
        for k in 0..4 {
            close(answer.queue[0][k] + answer.queue[1][k], single.queue(k, 19), 1e-10);
        }
    }

    /// The product form summed term by term, for two classes at one pair of servers and one delay
    /// each.
    #[test]
    fn several_servers_agree_with_the_product_form_written_out() {
        let (think, demand) = ([0.4, 0.9], [0.3, 0.2]);
        let population = [5_u64, 4];
        let answer =
            exact(&[place(2)], &[customers(5, think[0], &demand[..1]), customers(4, think[1], &demand[1..])])
                .unwrap();
        let factorial = |n: u64| (1..=n).map(|i| i as f64).product::<f64>();
        // G(n): Σ over those at the station, (a+b)!/(a! b!) D^a D^b / Π min(j, 2) · Z^rest / rest!
        let sum = |n: [u64; 2]| {
            let mut sum = 0.0;
            for a in 0..=n[0] {
                for b in 0..=n[1] {
                    let slowed: f64 = (1..=a + b).map(|j| j.min(2) as f64).product();
                    let station = factorial(a + b) / (factorial(a) * factorial(b) * slowed)
                        * demand[0].powi(a as i32)
                        * demand[1].powi(b as i32);
                    let thinking = [n[0] - a, n[1] - b]
                        .iter()
                        .zip(think)
                        .map(|(rest, z)| z.powi(*rest as i32) / factorial(*rest))
                        .product::<f64>();
                    sum += station * thinking;
                }
            }
            sum
        };
        close(answer.throughput[0], sum([population[0] - 1, population[1]]) / sum(population), 1e-12);
        close(answer.throughput[1], sum([population[0], population[1] - 1]) / sum(population), 1e-12);
    }

    /// Two classes without think time at stations A and B of two servers each: P visits both, Q
    /// only B. Processor sharing has the same means, and then the number of P at A alone is a
    /// birth–death chain, solved here without mean value analysis.
    #[test]
    fn a_class_that_visits_one_station_of_several_servers_is_solved_in_any_order() {
        let (p_at_a, p_at_b, q_at_b) = (0.3, 0.2, 0.5);
        for (p_count, q_count) in [(1_u32, 2_u32), (2, 1), (3, 4)] {
            let rate_at_b = |at_a: u32, there: u32, demand: f64| {
                let all = p_count - at_a + q_count;
                f64::from(there) / f64::from(all) * f64::from(all.min(2)) / demand
            };
            let to_a: Vec<f64> = (0..p_count).map(|a| rate_at_b(a, p_count - a, p_at_b)).collect();
            let to_b: Vec<f64> = (1..=p_count).map(|a| f64::from(a.min(2)) / p_at_a).collect();
            let shares = crate::station::birth_death(&to_a, &to_b).unwrap();
            let mean = |rate: &dyn Fn(u32) -> f64| -> f64 {
                (0..).zip(&shares).map(|(a, share)| share * rate(a)).sum()
            };
            let expected: [f64; 2] =
                [mean(&|a| f64::from(a.min(2)) / p_at_a), mean(&|a| rate_at_b(a, q_count, q_at_b))];

            let p = customers(u64::from(p_count), 0.0, &[p_at_a, p_at_b]);
            let q = customers(u64::from(q_count), 0.0, &[0.0, q_at_b]);
            let places = [place(2), place(2)];
            let first = exact(&places, &[p.clone(), q.clone()]).unwrap().throughput;
            let last = exact(&places, &[q, p]).unwrap().throughput;
            for (x, expected) in first.iter().chain(last.iter().rev()).zip(expected.iter().cycle()) {
                close(*x, *expected, 1e-12);
            }
        }
    }

    #[test]
    fn what_is_too_large_is_refused_and_linearizer_takes_it() {
        let (places, mut classes) = three_by_fifty();
        classes.iter_mut().for_each(|c| c.population = 2_000);
        assert!(matches!(exact(&places, &classes), Err(Error::TooLarge { .. })));
        let answer = linearizer(&places, &classes).unwrap();
        assert!(answer.throughput.iter().all(|x| *x > 0.0));
    }

    #[test]
    fn a_class_without_customers_takes_nothing() {
        let (places, mut classes) = three_by_fifty();
        classes[1].population = 0;
        classes.iter_mut().for_each(|c| c.population = c.population.min(10));
        let (all, two) = (exact(&places, &classes).unwrap(), linearizer(&places, &classes).unwrap());
        assert!(all.throughput[1].abs() < 1e-300 && two.throughput[1].abs() < 1e-300);
        close(two.throughput[0], all.throughput[0], 0.01);
    }
}
