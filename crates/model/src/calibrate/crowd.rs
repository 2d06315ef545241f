//! The forms whose time outside depends on how many requests are outside, fitted with the rest.
//!
//! ```text
//!   T(n) = a + d·(1 + (n/C)³)^⅓    or a + b·n         Z(o) = z + s·o    or z + z₂·n²
//! ```
//! Least squares of ln X and ln R over the rows, by the method of Levenberg (1944) and Marquardt
//! (1963) in the logarithms of the parameters. Each parameter is tied by a weak spring to where the
//! rows by themselves put it, so that one that no row says anything about stays there.

use krarup_units::Seconds;

use super::regression::{line, square};
use super::resources::bounds;
use super::rows::CalibrationRow;
use crate::Error;
use crate::flow::{Curve, FlowModel, OutsideCount, Surroundings};

/// Which curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldShape {
    /// a + d·(1 + (n/C)³)^⅓.
    Processors,
    /// a + b·n.
    Line,
}

/// What a parameter that moves by a factor of e costs, beside a relative error: as much as one
/// value that is off by 5 %.
const SPRING: f64 = 0.05;
/// Steps after which a search is given up: five parameters need 5 to 20.
const STEPS: usize = 60;
/// A step that lowers the loss by less than this share is the last.
const ENOUGH: f64 = 1e-6;
/// The step of a logarithm by which a slope is taken.
const TINY: f64 = 1e-4;
/// No step moves a logarithm by more.
const STRIDE: f64 = 1.0;

/// The model of this form that is nearest to the rows.
///
/// # Errors
/// [`Error::Measurements`] where the rows do not determine a line of the hold time.
pub(super) fn fitted(
    rows: &[CalibrationRow],
    hold: HoldShape,
    over: OutsideCount,
) -> Result<FlowModel, Error> {
    let start = start(rows, hold, over)?;
    let curves = |p: &[f64]| {
        let (times, outside) = p.split_at(p.len() - 2);
        let hold = match hold {
            HoldShape::Processors => {
                Curve::Processors { latency: times[0], work: times[1], processors: times[2] }
            }
            HoldShape::Line => Curve::Line { constant: times[0], slope: times[1] },
        };
        let outside = match over {
            OutsideCount::Outside => Curve::Line { constant: outside[0], slope: outside[1] },
            OutsideCount::BusyWorkers => Curve::Square { constant: outside[0], square: outside[1] },
        };
        (hold, outside)
    };
    let mut places: Vec<Surroundings> = rows
        .iter()
        .map(|row| {
            let still = Curve::Line { constant: 1.0, slope: 0.0 };
            Surroundings::new(&still, over, row.population as usize, row.workers as usize)
        })
        .collect();
    let residuals = |logarithms: &[f64]| {
        let parameters: Vec<f64> = logarithms.iter().map(|l| l.exp()).collect();
        let (hold, outside) = curves(&parameters);
        let mut residuals = Vec::with_capacity(2 * rows.len() + logarithms.len());
        for (row, place) in rows.iter().zip(&mut places) {
            place.surround(&outside, over);
            let (throughput, response) = place.solve(&hold);
            residuals.push((throughput / row.throughput).ln());
            residuals.push((response / row.response).ln());
        }
        residuals.extend(logarithms.iter().zip(&start).map(|(at, from)| SPRING * (at - from.ln())));
        residuals
    };
    let from: Vec<f64> = start.iter().map(|p| p.ln()).collect();
    let found: Vec<f64> = downhill(&from, residuals).iter().map(|l| l.exp()).collect();
    let (hold, outside) = curves(&found);
    Ok(FlowModel { hold, outside, outside_over: over })
}

/// Where the parameters begin, and stay unless rows say otherwise: the shortest hold time is half
/// latency and half work, the slope of the hold times is that work over its processors, and most of
/// the shortest time outside is there whatever the crowd. Where rows say how much of what makes the
/// load, and of what works inside, was in use, they say what all of it carries: 1/s and C/d.
fn start(rows: &[CalibrationRow], hold: HoldShape, over: OutsideCount) -> Result<Vec<f64>, Error> {
    let points =
        |of: fn(&CalibrationRow) -> Seconds| rows.iter().map(|row| (row.busy(), of(row))).collect::<Vec<_>>();
    let (holds, outsides) = (points(CalibrationRow::hold), points(CalibrationRow::outside));
    let least = |points: &[(f64, f64)]| points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let shortest = least(&holds);
    // Rows whose clocks disagree may have no time outside: it is then short beside the hold.
    let nearest = least(&outsides).max(shortest / 100.0);
    let [constant, slope] = line(&holds)?;
    let known = bounds(rows);
    let carries = |of_load: bool| {
        known.iter().find(|bound| bound.resource.is_load() == of_load).map(|bound| bound.throughput)
    };
    let (inside, outside) = (carries(false), carries(true));
    let mut start = match hold {
        HoldShape::Processors => {
            let work = shortest / 2.0;
            let processors = inside.map_or(work / slope.max(1e-12), |carries| work * carries);
            vec![shortest / 2.0, work, processors.clamp(0.5, 1e4)]
        }
        HoldShape::Line => vec![constant.max(shortest / 100.0), slope.max(shortest / 1e4)],
    };
    match over {
        OutsideCount::Outside => {
            let shared = outside.map_or(0.05 * nearest, |carries| 1.0 / carries);
            start.extend([0.8 * nearest, shared]);
        }
        OutsideCount::BusyWorkers => {
            let Curve::Square { constant, square } = square(&outsides)? else { unreachable!("a square") };
            start.extend([constant.max(nearest / 10.0), square.max(nearest / 1e5)]);
        }
    }
    Ok(start)
}

/// Walks downhill in the sum of squares: each step solves the linear problem of the tangent, held
/// short by damping until it helps. Ends where no step does.
pub(super) fn downhill(from: &[f64], mut residuals: impl FnMut(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let squares = |r: &[f64]| -> f64 {
        let sum: f64 = r.iter().map(|e| e * e).sum();
        if sum.is_finite() { sum } else { f64::INFINITY }
    };
    let mut at = from.to_vec();
    let mut here = residuals(&at);
    let mut loss = squares(&here);
    let mut damping = 1e-3;
    for _ in 0..STEPS {
        let slopes: Vec<Vec<f64>> = (0..at.len())
            .map(|i| {
                let mut beside = at.clone();
                beside[i] += TINY;
                residuals(&beside).iter().zip(&here).map(|(there, here)| (there - here) / TINY).collect()
            })
            .collect();
        let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let before = loss;
        loop {
            let system: Vec<Vec<f64>> = (0..at.len())
                .map(|i| {
                    let row = (0..at.len()).map(|j| {
                        let value = product(&slopes[i], &slopes[j]);
                        if i == j { value * (1.0 + damping) } else { value }
                    });
                    row.chain([-product(&slopes[i], &here)]).collect()
                })
                .collect();
            let step = solved(system);
            let there: Vec<f64> =
                at.iter().zip(&step).map(|(at, step)| at + step.clamp(-STRIDE, STRIDE)).collect();
            let tried = residuals(&there);
            let reached = squares(&tried);
            if reached < loss {
                (at, here, loss) = (there, tried, reached);
                damping = (damping / 10.0).max(1e-9);
                break;
            }
            damping *= 10.0;
            if damping > 1e9 {
                return at;
            }
        }
        if before - loss <= ENOUGH * before {
            break;
        }
    }
    at
}

/// The solution of a small symmetric system with a positive diagonal, its right side as the last
/// column: elimination with the largest pivot.
pub(super) fn solved(mut system: Vec<Vec<f64>>) -> Vec<f64> {
    let size = system.len();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| system[*a][column].abs().total_cmp(&system[*b][column].abs()))
            .unwrap_or(column);
        system.swap(column, pivot);
        let (above, below) = system.split_at_mut(column + 1);
        let chosen = &above[column];
        for row in below {
            let factor = row[column] / chosen[column];
            row.iter_mut().zip(chosen).skip(column).for_each(|(value, from)| *value -= factor * from);
        }
    }
    let mut solution = vec![0.0; size];
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|j| system[row][j] * solution[j]).sum();
        solution[row] = (system[row][size] - known) / system[row][row];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::super::uses::ResourceUse;
    use super::*;

    /// Rows that the form itself gives, without noise.
    fn rows(model: &FlowModel) -> Vec<CalibrationRow> {
        [(2, 8), (16, 8), (120, 8), (24, 32), (120, 32), (60, 64), (300, 64)]
            .map(|(population, workers)| {
                let answer = model.solve(population, workers).unwrap();
                CalibrationRow::measured(population as u64, workers as u64, answer.throughput)
                    .with_times(answer.response, answer.wait)
            })
            .to_vec()
    }

    #[test]
    fn what_the_form_gives_is_found() {
        let truth = FlowModel {
            hold: Curve::Processors { latency: 6e-4, work: 3e-4, processors: 5.0 },
            outside: Curve::Line { constant: 7e-4, slope: 4e-5 },
            outside_over: OutsideCount::Outside,
        };
        let found = fitted(&rows(&truth), HoldShape::Processors, OutsideCount::Outside).unwrap();
        for (population, workers) in [(8, 16), (64, 128), (400, 16)] {
            let (said, is) =
                (found.solve(population, workers).unwrap(), truth.solve(population, workers).unwrap());
            assert!((said.throughput / is.throughput - 1.0).abs() < 0.01, "{found:?}");
            assert!((said.response / is.response - 1.0).abs() < 0.02, "{found:?}");
        }
    }

    /// Three rows at low load do not tell how many processors there are; how busy they were does.
    #[test]
    fn how_busy_processors_are_tells_how_many_there_are() {
        let truth = FlowModel {
            hold: Curve::Processors { latency: 5e-4, work: 5e-4, processors: 4.0 },
            outside: Curve::Line { constant: 7e-4, slope: 1e-6 },
            outside_over: OutsideCount::Outside,
        };
        let carries = |rows: &[CalibrationRow]| {
            let found = fitted(rows, HoldShape::Processors, OutsideCount::Outside).unwrap();
            let Curve::Processors { work, processors, .. } = found.hold else { panic!("{found:?}") };
            processors / work
        };
        let mut few = [(1, 8), (3, 8), (5, 16)].map(|(n, m)| {
            let said = truth.solve(n, m).unwrap();
            CalibrationRow::measured(n as u64, m as u64, said.throughput).with_times(said.response, said.wait)
        });
        let blind = carries(&few);
        few.iter_mut().for_each(|row| row.uses.push(ResourceUse::machine(row.throughput / 8_000.0)));
        let seen = carries(&few);
        assert!((seen / 8_000.0).ln().abs() < 0.2, "{seen}");
        assert!((seen / 8_000.0).ln().abs() < (blind / 8_000.0).ln().abs(), "{seen} {blind}");
    }

    #[test]
    fn elimination_solves() {
        let solution = solved(vec![vec![4.0, 1.0, 9.0], vec![1.0, 3.0, 5.0]]);
        assert!((solution[0] - 2.0).abs() < 1e-12 && (solution[1] - 1.0).abs() < 1e-12);
    }
}
