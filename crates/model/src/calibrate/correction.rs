//! What a form misses of the rows that it was fitted to, taken along to configurations near them.
//!
//! A form has a handful of parameters and does not run through its rows. What it misses there, ln
//! of measured over said, is interpolated over the state of the system: two configurations with as
//! many busy workers and as many requests outside miss the same, whatever their N and M. That is
//! simple kriging (Matheron 1963), with the form as its mean:
//!
//! ```text
//!   ln X ← ln X + Σ wᵢ·exp(−|s − sᵢ|/2)     s = (ln busy workers, ln requests outside)
//!   ln R ← ln R + Σ vᵢ·exp(−|s − sᵢ|/2)     s = (ln busy workers, ln requests at the middleware)
//!   (K + 0.05·I)·w = ln measured/said,  Kᵢⱼ = exp(−|sᵢ − sⱼ|/2)
//! ```
//! Far from every row the form stands as it is.

use serde::{Deserialize, Serialize};

use super::crowd::solved;
use super::rows::CalibrationRow;
use crate::flow::{FlowAnswer, FlowModel};

/// States a factor of e² apart miss things that go together by 1/e.
const REACH: f64 = 2.0;
/// Share of what is missed that is the row's noise, and is not followed.
const NOISE: f64 = 0.05;
/// Counts below this are alike: hardly ever is one busy, outside or there.
const FEWEST: f64 = 0.05;

/// How much a form misses near one of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateCorrection {
    /// Where: logarithms of the busy workers, and of the requests outside (for X) or at the
    /// middleware (for R).
    pub state: [f64; 2],
    /// Its weight, added to the logarithm.
    pub weight: f64,
}

impl StateCorrection {
    fn at(&self, state: [f64; 2]) -> f64 {
        self.weight * alike(self.state, state)
    }
}

/// How alike two states are: 1 where they are the same.
fn alike(one: [f64; 2], other: [f64; 2]) -> f64 {
    (-(one[0] - other[0]).hypot(one[1] - other[1]) / REACH).exp()
}

/// What a form misses of its rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FormCorrection {
    /// Of X.
    pub throughput: Vec<StateCorrection>,
    /// Of R at the middleware.
    pub response: Vec<StateCorrection>,
}

impl FormCorrection {
    /// Of a form that was fitted to these rows. Nothing is corrected where it has no answer.
    pub(super) fn of(model: &FlowModel, rows: &[CalibrationRow]) -> Self {
        let said: Option<Vec<FlowAnswer>> =
            rows.iter().map(|row| model.solve(row.population as usize, row.workers as usize).ok()).collect();
        let Some(said) = said else { return Self::default() };
        let missed = |measured: fn(&CalibrationRow) -> f64, of: fn(&FlowAnswer) -> f64| {
            rows.iter().zip(&said).map(|(row, said)| (measured(row) / of(said)).ln()).collect::<Vec<_>>()
        };
        let states = |of: fn(&FlowAnswer) -> [f64; 2]| said.iter().map(of).collect::<Vec<_>>();
        Self {
            throughput: weighed(
                &states(of_throughput),
                &missed(|row| row.throughput, |said| said.throughput),
            ),
            response: weighed(&states(of_response), &missed(|row| row.response, |said| said.response)),
        }
    }

    /// The answer of the form, corrected. No law is broken that held before: no more requests are
    /// at the middleware than there are, and no more workers busy.
    pub(super) fn applied(&self, said: FlowAnswer) -> FlowAnswer {
        if self.throughput.is_empty() {
            return said;
        }
        let sum = |all: &[StateCorrection], state| all.iter().map(|one| one.at(state)).sum::<f64>();
        let throughput = said.throughput * sum(&self.throughput, of_throughput(&said)).exp();
        let factor = sum(&self.response, of_response(&said)).exp();
        let response = (said.response * factor).min(said.population as f64 / throughput);
        said.within_laws(throughput, response, said.hold() * (response / said.response))
    }
}

fn of_throughput(said: &FlowAnswer) -> [f64; 2] {
    let outside = said.population as f64 - said.throughput * said.response;
    [said.busy.max(FEWEST).ln(), outside.max(FEWEST).ln()]
}

fn of_response(said: &FlowAnswer) -> [f64; 2] {
    [said.busy.max(FEWEST).ln(), (said.throughput * said.response).max(FEWEST).ln()]
}

/// Weights with which all states together give back what is missed, but for its noise.
fn weighed(states: &[[f64; 2]], missed: &[f64]) -> Vec<StateCorrection> {
    let system = states.iter().zip(missed).enumerate().map(|(i, (one, missed))| {
        let row = states.iter().enumerate().map(|(j, other)| {
            let noise = if i == j { NOISE } else { 0.0 };
            alike(*one, *other) + noise
        });
        row.chain([*missed]).collect()
    });
    let weights = solved(system.collect());
    let all = states.iter().zip(weights);
    all.map(|(state, weight)| StateCorrection { state: *state, weight }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Curve, OutsideCount};

    fn model() -> FlowModel {
        FlowModel {
            hold: Curve::Line { constant: 2e-3, slope: 1e-5 },
            outside: Curve::Line { constant: 1e-3, slope: 0.0 },
            outside_over: OutsideCount::BusyWorkers,
        }
    }

    /// Rows whose X is 4 % above and whose R is 7 % below what the form says, at any load.
    fn rows() -> Vec<CalibrationRow> {
        [(2, 4), (24, 4), (96, 16), (8, 16)]
            .map(|(n, m)| {
                let said = model().solve(n, m).unwrap();
                CalibrationRow::measured(n as u64, m as u64, 1.04 * said.throughput)
                    .with_times(0.93 * said.response, 0.93 * said.wait)
            })
            .to_vec()
    }

    #[test]
    fn what_a_form_misses_is_missed_near_its_rows_and_not_far_away() {
        let correction = FormCorrection::of(&model(), &rows());
        let at = |n, m| {
            let said = model().solve(n, m).unwrap();
            let corrected = correction.applied(said);
            (corrected.throughput / said.throughput, corrected.response / said.response)
        };
        let (x, r) = at(24, 4);
        assert!((x - 1.04).abs() < 0.004 && (r - 0.93).abs() < 0.01, "{x} {r}");
        let (x, r) = at(16, 8);
        assert!((x - 1.04).abs() < 0.01 && (r - 0.93).abs() < 0.02, "{x} {r}");
        let (x, _) = at(1_000_000, 2_000);
        assert!((x - 1.0).abs() < 0.01, "{x}");
    }

    #[test]
    fn the_laws_hold_of_what_is_corrected() {
        let correction = FormCorrection::of(&model(), &rows());
        for (n, m) in [(1, 1), (3, 2), (40, 4), (500, 64)] {
            let said = correction.applied(model().solve(n, m).unwrap());
            assert!(said.throughput * said.response <= n as f64 * (1.0 + 1e-9), "{said:?}");
            assert!(said.busy <= m as f64 * (1.0 + 1e-9) && said.wait >= 0.0, "{said:?}");
            assert!((said.client_response * said.throughput - n as f64).abs() < 1e-6, "{said:?}");
        }
        let none = FormCorrection::default();
        let said = model().solve(40, 4).unwrap();
        assert_eq!(none.applied(said), said);
    }
}
