//! Percentiles of the response time at the clients.
//!
//! A request that finds J others before it waits as long as J leave, then holds a worker, and was
//! outside. Each part has a law of its own, and what requests find is known
//! ([`crate::flow::FlowModel`]):
//!
//! ```text
//!   wait     mean J·T(M)/M, coefficient of variation c/√J      R = wait + hold + outside, a lognormal
//!   hold     mean T(n), lognormal, σ of ln                     with the mean and variance of the sum
//!   outside  mean Z, lognormal, σ of ln                        (Fenton 1960), mixed over all J
//! ```
//!
//! Three parameters, fitted to the shapes q/mean of the rows. A prediction is the predicted mean
//! times the shape that was *measured* at the nearest row times what the model says the shape
//! changes from there.

use krarup_stats::law::Law;
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::crowd::downhill;
use super::mixture::ModelMixture;
use super::rows::{CalibrationRow, ResponsePercentiles};
use crate::Error;

/// How the parts of a response time vary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseSpread {
    /// c: coefficient of variation of the time between two that leave.
    pub wait: f64,
    /// σ of ln of the hold time.
    pub hold: f64,
    /// σ of ln of the time outside.
    pub outside: f64,
    /// Root mean square of ln of predicted over measured shape, of rows with percentiles, those of
    /// one configuration left out at a time: p50, p90, p99.
    pub errors: [f64; 3],
    /// Rows with percentiles.
    pub rows: usize,
}

/// Where the parameters begin and stay unless rows say otherwise.
const USUAL: [f64; 3] = [0.7, 0.4, 0.3];
/// As in the fit of the means.
const SPRING: f64 = 0.05;
/// States that a request may find are joined to about so many groups.
const GROUPS: f64 = 40.0;
/// A shape is known so well before rows say how well.
const PRIOR: (f64, f64) = (2.0, 0.1);

/// The parameters, where rows have percentiles; of two configurations at least, so that one can be
/// left out.
pub(super) fn spread(rows: &[CalibrationRow], model: &ModelMixture) -> Option<ResponseSpread> {
    let known: Vec<(&CalibrationRow, [f64; 3], Vec<AlikeRequests>)> = rows
        .iter()
        .filter_map(|row| {
            let shape = measured_shape(row)?;
            let groups = groups(model, row.population as usize, row.workers as usize, row.think).ok()?;
            Some((row, shape, groups))
        })
        .collect();
    if known.is_empty() {
        return None;
    }
    let all: Vec<(&[f64; 3], &[AlikeRequests])> = known.iter().map(|(_, s, g)| (s, g.as_slice())).collect();
    let found = fitted(&all);
    let (mut squares, mut count) = ([0.0; 3], 0.0);
    for (row, measured, here) in &known {
        // What was measured again says by itself what is left out.
        let others = || known.iter().filter(|(other, _, _)| apart(other, row) > 0.0);
        let without: Vec<(&[f64; 3], &[AlikeRequests])> =
            others().map(|(_, s, g)| (s, g.as_slice())).collect();
        let parameters = fitted(&without);
        let near = others().min_by(|a, b| apart(a.0, row).total_cmp(&apart(b.0, row)));
        let (_, near_measured, near_groups) = near?;
        let (said, nearby) = (shape(here, parameters), shape(near_groups, parameters));
        // Rows of one configuration say together as much as one.
        let weight = 1.0 / known.iter().filter(|(other, _, _)| apart(other, row) == 0.0).count() as f64;
        count += weight;
        for part in 0..3 {
            squares[part] +=
                weight * (said[part] / nearby[part] * near_measured[part] / measured[part]).ln().powi(2);
        }
    }
    let errors = squares.map(|sum| ((sum + PRIOR.0 * PRIOR.1 * PRIOR.1) / (count + PRIOR.0)).sqrt());
    let [wait, hold, outside] = found;
    Some(ResponseSpread { wait, hold, outside, errors, rows: known.len() })
}

/// Percentiles of a configuration whose clients see the mean response time `mean`.
///
/// # Errors
/// As [`crate::flow::FlowModel::solve`].
pub(super) fn predicted(
    rows: &[CalibrationRow],
    model: &ModelMixture,
    spread: &ResponseSpread,
    (population, workers): (usize, usize),
    mean: Seconds,
) -> Result<[Seconds; 3], Error> {
    let parameters = [spread.wait, spread.hold, spread.outside];
    let asked = CalibrationRow::measured(population as u64, workers as u64, 1.0);
    let known = rows.iter().filter(|row| row.percentiles.is_some());
    let near = known.min_by(|a, b| apart(a, &asked).total_cmp(&apart(b, &asked)));
    let near = near.expect("a spread comes from rows with percentiles");
    let measured = measured_shape(near).expect("it has percentiles");
    let at = |n: usize, m: usize| Ok(shape(&groups(model, n, m, near.think)?, parameters));
    let here = at(population, workers)?;
    let nearby = at(near.population as usize, near.workers as usize)?;
    let mut values = [0, 1, 2].map(|part| mean * here[part] / nearby[part] * measured[part]);
    // Each is predicted by itself; a higher percentile is no shorter.
    values[1] = values[1].max(values[0]);
    values[2] = values[2].max(values[1]);
    Ok(values)
}

/// Percentiles over the mean.
fn measured_shape(row: &CalibrationRow) -> Option<[f64; 3]> {
    let mean = row.at_clients();
    row.percentiles.filter(|_| mean > 0.0).map(|p| p.values().map(|value| value / mean))
}

/// How far two configurations are from each other, in factors of clients and of workers.
fn apart(one: &CalibrationRow, other: &CalibrationRow) -> f64 {
    let logarithm = |a: u64, b: u64| (a as f64 / b as f64).ln().powi(2);
    logarithm(one.population, other.population) + logarithm(one.workers, other.workers)
}

/// Requests that find much the same.
struct AlikeRequests {
    share: f64,
    /// Mean wait, and mean of wait²/J.
    wait: (Seconds, f64),
    hold: Seconds,
    outside: Seconds,
}

/// What requests find, in the form that is believed most; clients that think do not wait while they
/// do.
fn groups(
    model: &ModelMixture,
    population: usize,
    workers: usize,
    think: Seconds,
) -> Result<Vec<AlikeRequests>, Error> {
    let found = model.heaviest().model.found_on_arrival(population, workers)?;
    let mut groups: Vec<AlikeRequests> = Vec::new();
    for state in found.iter().filter(|state| state.share > 1e-7) {
        let share = state.share;
        let per_place = if state.ahead > 0.0 { state.wait * state.wait / state.ahead } else { 0.0 };
        let outside = (state.outside - think).max(0.0);
        match groups.last_mut() {
            Some(group) if group.share + share < 1.0 / GROUPS => {
                let all = group.share + share;
                let mean = |a: f64, b: f64| (a * group.share + b * share) / all;
                *group = AlikeRequests {
                    share: all,
                    wait: (mean(group.wait.0, state.wait), mean(group.wait.1, per_place)),
                    hold: mean(group.hold, state.hold),
                    outside: mean(group.outside, outside),
                };
            }
            _ => {
                groups.push(AlikeRequests {
                    share,
                    wait: (state.wait, per_place),
                    hold: state.hold,
                    outside,
                });
            }
        }
    }
    Ok(groups)
}

/// Percentiles over the mean, by the model.
fn shape(groups: &[AlikeRequests], [wait, hold, outside]: [f64; 3]) -> [f64; 3] {
    let spread = |sigma: f64| (sigma * sigma).exp_m1();
    let laws: Vec<(f64, Law)> = groups
        .iter()
        .map(|group| {
            let mean = group.wait.0 + group.hold + group.outside;
            let variance = wait * wait * group.wait.1
                + spread(hold) * group.hold * group.hold
                + spread(outside) * group.outside * group.outside;
            let sigma = (variance / (mean * mean)).ln_1p().sqrt().max(1e-6);
            (group.share, Law::LogNormal { mu: mean.ln() - sigma * sigma / 2.0, sigma })
        })
        .collect();
    let all: f64 = groups.iter().map(|group| group.share).sum();
    let mean = groups.iter().map(|g| g.share * (g.wait.0 + g.hold + g.outside)).sum::<f64>() / all;
    ResponsePercentiles::SHARES.map(|share| {
        let below = |x: f64| laws.iter().map(|(weight, law)| weight * law.cdf(x)).sum::<f64>() / all;
        // Between a thousandth and a thousand times the mean, by halving in logarithms.
        let (mut low, mut high) = ((mean / 1e3).ln(), (mean * 1e3).ln());
        for _ in 0..32 {
            let middle = f64::midpoint(low, high);
            if below(middle.exp()) < share { low = middle } else { high = middle }
        }
        f64::midpoint(low, high).exp() / mean
    })
}

/// The three parameters by least squares of ln of the shapes.
fn fitted(known: &[(&[f64; 3], &[AlikeRequests])]) -> [f64; 3] {
    let parameters = |logarithms: &[f64]| [0, 1, 2].map(|i| logarithms[i].exp().clamp(1e-3, 5.0));
    let from: Vec<f64> = USUAL.iter().map(|p| p.ln()).collect();
    let residuals = |logarithms: &[f64]| {
        let at = parameters(logarithms);
        let mut residuals: Vec<f64> = known
            .iter()
            .flat_map(|(measured, groups)| {
                let said = shape(groups, at);
                [0, 1, 2].map(|part| (said[part] / measured[part]).ln())
            })
            .collect();
        residuals.extend(logarithms.iter().zip(&from).map(|(at, from)| SPRING * (at - from)));
        residuals
    };
    parameters(&downhill(&from, residuals))
}

#[cfg(test)]
mod tests {
    use super::super::{CurveFamily, FormCorrection, FormFit};
    use super::*;
    use crate::flow::{Curve, FlowModel, OutsideCount};

    fn model() -> ModelMixture {
        let model = FlowModel {
            hold: Curve::Processors { latency: 5e-4, work: 5e-4, processors: 4.0 },
            outside: Curve::Line { constant: 6e-4, slope: 1e-5 },
            outside_over: OutsideCount::Outside,
        };
        let correction = FormCorrection::default();
        let form = FormFit { form: CurveFamily::Processors, weight: 1.0, model, correction };
        ModelMixture { parts: vec![form], plateau: None }
    }

    /// A row whose percentiles are those of three parameters.
    fn row(population: u64, workers: u64, parameters: [f64; 3]) -> CalibrationRow {
        let model = model();
        let (n, m) = (population as usize, workers as usize);
        let answer = model.solve(n, m).unwrap();
        let [p50, p90, p99] = shape(&groups(&model, n, m, 0.0).unwrap(), parameters)
            .map(|shape| shape * answer.client_response);
        CalibrationRow {
            percentiles: Some(ResponsePercentiles { p50, p90, p99 }),
            ..CalibrationRow::measured(population, workers, answer.throughput)
                .with_times(answer.response, answer.wait)
        }
    }

    const TRUTH: [f64; 3] = [1.1, 0.7, 0.2];

    #[test]
    fn percentiles_of_other_configurations_are_found() {
        let rows = [(4, 8), (96, 8), (48, 16), (96, 64), (192, 64)].map(|(n, m)| row(n, m, TRUTH));
        let spread = spread(&rows, &model()).unwrap();
        assert_eq!(spread.rows, 5);
        for (n, m) in [(24, 8), (150, 16), (300, 64)] {
            let asked = row(n, m, TRUTH);
            let found =
                predicted(&rows, &model(), &spread, (n as usize, m as usize), asked.at_clients()).unwrap();
            for (said, is) in found.iter().zip(asked.percentiles.unwrap().values()) {
                assert!((said / is - 1.0).abs() < 0.03, "{n} {m}: {found:?} {:?}", asked.percentiles);
            }
        }
    }

    /// One request alone, and parts that hardly vary: all percentiles are the mean.
    #[test]
    fn what_does_not_vary_has_one_percentile() {
        let all = shape(&groups(&model(), 1, 1, 0.0).unwrap(), [1e-3; 3]);
        assert!(all.iter().all(|one| (one - 1.0).abs() < 0.01), "{all:?}");
        assert!(spread(&[row(4, 8, TRUTH)], &model()).is_none(), "one row cannot be left out");
    }
}
