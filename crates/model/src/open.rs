//! Open networks, and open classes beside closed ones.
//!
//! In a product-form network each station behaves as if it were alone, fed by its share of the arrivals
//! (Jackson 1957; Baskett, Chandy, Muntz & Palacios 1975). Open classes beside closed ones
//! only make the stations slower for those: D becomes D / (1 − ρ_open) (Lazowska et al. 1984, 7.5).

use krarup_units::Seconds;

use crate::multi::{self, Answer, Customers, Place};
use crate::{Error, laws, station};

/// An open class.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
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

/// Solves an open network exactly: M/M/1 and M/M/m stations (a station of several servers must serve all
/// classes with the same mean time), processor sharing, preemptive LIFO and delays.
///
/// # Errors
/// [`Error::Unstable`], naming the station; [`Error::Invalid`] for impossible input.
pub fn solve(places: &[Place], classes: &[Arrivals]) -> Result<OpenAnswer, Error> {
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

/// Solves closed classes beside open ones: exactly with `solve_closed` = [`multi::exact`], else as good as the
/// approximation given.
///
/// # Errors
/// [`Error::Unstable`] where the open classes alone overload a station; [`Error::Refused`] for a station of several
/// servers that both kinds visit; and those of `solve_closed`.
pub fn mixed(
    places: &[Place],
    open: &[Arrivals],
    closed: &[Customers],
    solve_closed: impl Fn(&[Place], &[Customers]) -> Result<Answer, Error>,
) -> Result<(OpenAnswer, Answer), Error> {
    let alone = solve(places, open)?;
    let mut slower = closed.to_vec();
    for (k, place) in places.iter().enumerate() {
        let both = alone.utilization[k] > 0.0 && closed.iter().any(|c| c.demands[k] > 0.0);
        match place.servers {
            Some(servers) if both && servers > 1 => {
                return Err(Error::Refused {
                    solver: "the mixed-network solver".into(),
                    feature: format!("{servers} servers at `{}` with open and closed classes", place.name),
                    hint: "simulate, or give each kind its own station".into(),
                });
            }
            Some(_) if both => {
                slower.iter_mut().for_each(|c| c.demands[k] /= 1.0 - alone.utilization[k]);
            }
            _ => {}
        }
    }
    let answer = solve_closed(places, &slower)?;
    let mut beside = alone;
    for (k, place) in places.iter().enumerate() {
        // Busy with either kind; the closed part works at full speed, not at the slowed one.
        let closed_busy: f64 = answer.throughput.iter().zip(closed).map(|(x, c)| x * c.demands[k]).sum();
        beside.utilization[k] += closed_busy / f64::from(place.servers.unwrap_or(1));
        if place.servers.is_some() && beside.utilization[k] > 1.0 + 1e-6 {
            let law = format!("utilization {}, at most 1", beside.utilization[k]);
            return Err(Error::Violated { station: place.name.clone(), law });
        }
        if place.servers == Some(1) {
            let closed_queue: f64 = answer.queue.iter().map(|q| q[k]).sum();
            for (c, class) in open.iter().enumerate() {
                beside.residence[c][k] *= 1.0 + closed_queue;
                beside.queue[c][k] = class.rate * beside.residence[c][k];
            }
        }
    }
    Ok((beside, answer))
}

fn check_input(places: &[Place], classes: &[Arrivals]) -> Result<(), Error> {
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

    fn place(servers: Option<u32>) -> Place {
        Place { name: format!("{servers:?}"), servers }
    }

    #[test]
    fn each_station_of_an_open_network_is_as_if_alone() {
        let places = [place(Some(1)), place(Some(4)), place(None)];
        let class = Arrivals { name: "c".into(), rate: 10.0, demands: vec![0.05, 0.3, 1.0] };
        let answer = solve(&places, std::slice::from_ref(&class)).unwrap();
        assert!((answer.residence[0][0] - station::mm1(10.0, 0.05).unwrap().response).abs() < 1e-12);
        assert!((answer.residence[0][1] - station::mmm(10.0, 0.3, 4).unwrap().response).abs() < 1e-12);
        assert!((answer.response(0) - answer.queue[0].iter().sum::<f64>() / 10.0).abs() < 1e-12);
        let error = solve(&places, &[Arrivals { rate: 20.0, ..class }]).unwrap_err();
        assert!(error.to_string().starts_with("Some(1) cannot keep up"), "{error}");
    }

    /// One server, one closed customer with think time: an open class sees it as part of the queue. In the limit of
    /// few arrivals the closed class is as if alone.
    #[test]
    fn few_arrivals_leave_the_closed_class_alone() {
        let places = [place(Some(1))];
        let closed = [Customers { name: "batch".into(), population: 4, think: 1.0, demands: vec![0.2] }];
        let open = |rate| [Arrivals { name: "web".into(), rate, demands: vec![0.1] }];
        let alone = multi::exact(&places, &closed).unwrap();
        let (_, few) = mixed(&places, &open(1e-9), &closed, multi::exact).unwrap();
        assert!((few.throughput[0] - alone.throughput[0]).abs() < 1e-6);
        let (web, many) = mixed(&places, &open(5.0), &closed, multi::exact).unwrap();
        assert!(many.throughput[0] < alone.throughput[0]);
        assert!(web.utilization[0] < 1.0 && web.utilization[0] > 0.5);
        // R_open = D (1 + Q_closed) / (1 − ρ_open)
        assert!((web.residence[0][0] - 0.1 * (1.0 + many.queue[0][0]) / 0.5).abs() < 1e-12);
    }
}
