//! Curves that need no parameter: through what was measured, and moved until the model says what
//! was measured.

use super::regression::{line, square};
use super::rows::CalibrationRow;
use crate::Error;
use crate::flow::{Curve, FlowModel, OutsideCount};

/// Points of a measured curve nearer to each other than this (relative) are averaged: the line
/// between them is noise.
const SAME_BUSY: f64 = 0.15;
/// A row that the model says by less than this is left as it is: measured values are off by as
/// much.
const MISSED: f64 = 0.03;
/// Rounds in which curves are moved until the model says of its rows what was measured; three are
/// enough.
const ROUNDS: usize = 4;
/// By how much one point is moved at most, all rounds together.
const MOVED: f64 = 2.5;

/// Both curves through the measured points, then moved. A point stands at the *mean* number of busy
/// workers, and the model averages over all numbers there are: where few clients meet a server that
/// takes each the same time, as a link does, that is not the same. So the points of a row that the
/// model misses are multiplied by what is missing, until it says what was measured.
pub(super) fn curves(
    rows: &[CalibrationRow],
    holds: &[(f64, f64)],
    outsides: &[(f64, f64)],
) -> Result<FlowModel, Error> {
    let through_all = |factors: &[(f64, f64)]| {
        let scaled = |points: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| -> Vec<(f64, f64)> {
            points.iter().zip(factors).map(|(point, factor)| (point.0, point.1 * of(factor))).collect()
        };
        let (holds, outsides) = (scaled(holds, |factor| factor.0), scaled(outsides, |factor| factor.1));
        let [constant, slope] = line(&holds)?;
        let outside = square(&outsides)?;
        let hold = through(holds, &Curve::Line { constant, slope });
        let outside = through(outsides, &outside);
        Ok::<_, Error>(FlowModel { hold, outside, outside_over: OutsideCount::BusyWorkers })
    };
    let mut factors = vec![(1.0, 1.0); rows.len()];
    let mut model = through_all(&factors)?;
    for _ in 0..ROUNDS {
        let before = factors.clone();
        for (row, factor) in rows.iter().zip(&mut factors) {
            let Ok(said) = model.solve(row.population as usize, row.workers as usize) else { continue };
            let missed = |said: f64, measured: f64| (said / measured).ln().abs();
            let worst = missed(said.throughput, row.throughput).max(missed(said.response, row.response));
            if worst <= MISSED {
                continue;
            }
            let moved = |factor: f64, measured: f64, said: f64| {
                let step = measured / said;
                let possible = step.is_finite() && step > 0.0;
                if possible { (factor * step.clamp(0.5, 2.0)).clamp(1.0 / MOVED, MOVED) } else { factor }
            };
            factor.0 = moved(factor.0, row.hold(), said.response - said.wait);
            factor.1 = moved(factor.1, row.outside(), said.client_response - said.response);
        }
        if factors == before {
            break;
        }
        model = through_all(&factors)?;
    }
    Ok(model)
}

/// A curve through points: sorted, near ones averaged; beyond the first and the last the trend of
/// all points goes on from there, not the slope of the last two, which is mostly noise.
fn through(mut points: Vec<(f64, f64)>, trend: &Curve) -> Curve {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut groups: Vec<Vec<(f64, f64)>> = Vec::new();
    for point in points {
        match groups.last_mut() {
            Some(group) if point.0 <= group[0].0 * (1.0 + SAME_BUSY) => group.push(point),
            _ => groups.push(vec![point]),
        }
    }
    let mean = |group: &Vec<(f64, f64)>| {
        let count = group.len() as f64;
        let sum = group.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
        (sum.0 / count, sum.1 / count)
    };
    let mut curve: Vec<(f64, f64)> = groups.iter().map(mean).collect();
    let (first, last) = (curve[0], curve[curve.len() - 1]);
    let shift = |from: (f64, f64), to: f64| from.1 + trend.at(to, false) - trend.at(from.0, false);
    curve.insert(0, (0.0, shift(first, 0.0).max(first.1 / 4.0)));
    curve.extend([1.25, 1.5, 2.0, 3.0, 4.0].map(|times| (times * last.0, shift(last, times * last.0))));
    Curve::Points(curve)
}
