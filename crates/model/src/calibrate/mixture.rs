//! Several models that explain the same rows, with weights.

use serde::{Deserialize, Serialize};

use super::correction::FormCorrection;
use super::forms::CurveFamily;
use super::rows::CalibrationRow;
use crate::Error;
use crate::flow::{FlowAnswer, FlowModel};

/// One form, fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FormFit {
    /// The form.
    pub form: CurveFamily,
    /// How much it is believed; those of a mixture add up to 1.
    pub weight: f64,
    /// Its curves.
    pub model: FlowModel,
    /// What it misses of the rows that it was fitted to.
    #[serde(default)]
    pub correction: FormCorrection,
}

impl FormFit {
    /// What the form says, corrected by what it misses of its rows.
    ///
    /// # Errors
    /// As [`FlowModel::solve`].
    pub fn solve(&self, population: usize, workers: usize) -> Result<FlowAnswer, Error> {
        Ok(self.correction.applied(self.model.solve(population, workers)?))
    }
}

/// What the forms say together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelMixture {
    /// The forms, in the order in which they were tried.
    pub parts: Vec<FormFit>,
    /// X that rows of different pools agree on, per second: more clients and more workers do not
    /// raise it. None where the rows have no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plateau: Option<f64>,
}

/// Rows this far below the largest X still agree with it, where their intervals are not wider.
const SAME: f64 = 0.02;
/// No row is known so badly that it agrees with more.
const LEAST_SAME: f64 = 0.05;
/// Rows that must agree before X is called constant.
const AGREED: usize = 3;

/// The X that rows agree on: at least three of the rows come as near to the largest X as they are
/// known, and these are of two pools at least, the largest among them. Something that no pool
/// changes binds there: a link, a server, the load generator.
pub(super) fn plateau<'a>(rows: impl Iterator<Item = &'a CalibrationRow> + Clone) -> Option<f64> {
    let most = rows.clone().map(|row| row.throughput).fold(0.0, f64::max);
    let largest = rows.clone().map(|row| row.workers).max()?;
    let known = |row: &CalibrationRow| row.half_width.unwrap_or(0.0).clamp(SAME, LEAST_SAME);
    let agreed: Vec<&CalibrationRow> =
        rows.filter(|row| row.throughput > most * (1.0 - known(row))).collect();
    let pools = |is: fn(u64, u64) -> bool| agreed.iter().any(|row| is(row.workers, largest));
    if agreed.len() < AGREED || !pools(|pool, largest| pool == largest) || !pools(|pool, most| pool < most) {
        return None;
    }
    Some((agreed.iter().map(|row| row.throughput.ln()).sum::<f64>() / agreed.len() as f64).exp())
}

/// Held to a plateau: what comes as near as rows that agree is that X, what is farther below is
/// left, and between them the one goes over into the other.
fn held(said: FlowAnswer, plateau: f64) -> FlowAnswer {
    let (leave, reach) = (plateau * (1.0 - 2.0 * SAME), plateau * (1.0 - SAME));
    if said.throughput <= leave {
        return said;
    }
    let risen = leave + (said.throughput - leave) * (plateau - leave) / (reach - leave);
    said.within_laws(risen.min(plateau), said.response, said.hold())
}

impl ModelMixture {
    /// The form that weighs most.
    ///
    /// # Panics
    /// Never of a calibration: it has a form.
    pub fn heaviest(&self) -> &FormFit {
        let heaviest = self.parts.iter().max_by(|one, other| one.weight.total_cmp(&other.weight));
        heaviest.expect("a calibration has a form")
    }

    /// Its forms in words, the heaviest first, as far as they matter.
    pub fn name(&self) -> String {
        let mut parts: Vec<&FormFit> = self.parts.iter().filter(|part| part.weight >= 0.05).collect();
        parts.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        match parts[..] {
            [only] => only.form.name().to_owned(),
            _ => {
                let named = |part: &&FormFit| format!("{} {:.0} %", part.form.name(), 100.0 * part.weight);
                parts.iter().map(named).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Solves each form and takes the mean of the logarithms of X, of the hold time and of R: as
    /// many percent above as below. What holds for each of the forms (X·hold ≤ M, X·R ≤ N) holds
    /// for that mean.
    ///
    /// # Errors
    /// As [`FlowModel::solve`].
    pub fn solve(&self, population: usize, workers: usize) -> Result<FlowAnswer, Error> {
        let answers = self.parts.iter().map(|part| Ok((part.weight, part.solve(population, workers)?)));
        Ok(self.bounded(together(&answers.collect::<Result<Vec<_>, Error>>()?)))
    }

    fn bounded(&self, said: FlowAnswer) -> FlowAnswer {
        self.plateau.map_or(said, |plateau| held(said, plateau))
    }

    /// The mean hold time with so many busy workers, over the forms.
    pub fn hold_at(&self, busy: f64) -> f64 {
        self.parts.iter().map(|part| part.weight * part.model.hold.at(busy, true)).sum()
    }
}

/// The answers of several models as one.
fn together(answers: &[(f64, FlowAnswer)]) -> FlowAnswer {
    let all: f64 = answers.iter().map(|(weight, _)| weight).sum();
    let mean = |of: fn(&FlowAnswer) -> f64| {
        (answers.iter().map(|(weight, answer)| weight * of(answer).ln()).sum::<f64>() / all).exp()
    };
    let first = answers[0].1;
    if answers.len() == 1 {
        return first;
    }
    first.with(mean(|answer| answer.throughput), mean(|answer| answer.response), mean(FlowAnswer::hold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Curve, OutsideCount};

    fn part(weight: f64, hold: f64) -> FormFit {
        let line = |constant| Curve::Line { constant, slope: 0.0 };
        let model =
            FlowModel { hold: line(hold), outside: line(1e-3), outside_over: OutsideCount::BusyWorkers };
        FormFit { form: CurveFamily::Lines, weight, model, correction: FormCorrection::default() }
    }

    /// Two forms that differ by a factor of four: the one in the middle is twice the one and half
    /// the other, and the laws hold of it.
    #[test]
    fn forms_are_averaged_by_factors() {
        let mixture = ModelMixture { parts: vec![part(0.5, 1e-3), part(0.5, 4e-3)], plateau: None };
        for (population, workers) in [(1, 1), (40, 4), (200, 64)] {
            let answer = mixture.solve(population, workers).unwrap();
            let one = mixture.parts[0].model.solve(population, workers).unwrap();
            let other = mixture.parts[1].model.solve(population, workers).unwrap();
            assert!((answer.throughput.powi(2) / (one.throughput * other.throughput) - 1.0).abs() < 1e-9);
            assert!(answer.busy <= workers as f64 * (1.0 + 1e-9) && answer.wait <= answer.response);
            assert!(answer.throughput * answer.response <= population as f64 * (1.0 + 1e-9));
        }
        assert_eq!(mixture.name(), "lines 50 %, lines 50 %");
    }
    fn row(workers: u64, throughput: f64) -> CalibrationRow {
        CalibrationRow::measured(10, workers, throughput)
    }

    #[test]
    fn rows_of_different_pools_that_agree_are_a_limit() {
        let flat = [row(8, 900.0), row(8, 3_000.0), row(16, 2_990.0), row(64, 3_010.0)];
        let found = plateau(flat.iter()).unwrap();
        assert!((found - 3_000.0).abs() < 1.0, "{found}");
        // One pool that is full says nothing of others, nor do two rows, nor smaller pools alone.
        assert!(plateau([row(8, 3_000.0), row(8, 3_000.0), row(8, 3_000.0)].iter()).is_none());
        assert!(plateau(flat[1..3].iter()).is_none());
        let smaller = [&flat[1..], &[row(128, 2_000.0)]].concat();
        assert!(plateau(smaller.iter()).is_none());
        // A row that is known to 4 % agrees from as far.
        let mut wide = [row(8, 2_900.0), row(16, 2_990.0), row(64, 3_010.0)];
        assert!(plateau(wide.iter()).is_none());
        wide[0].half_width = Some(0.04);
        assert!(plateau(wide.iter()).is_some());
    }

    #[test]
    fn nothing_exceeds_the_limit_and_less_is_left_as_it_is() {
        let free = ModelMixture { parts: vec![part(1.0, 1e-3)], plateau: None };
        let bounded = ModelMixture { plateau: Some(3_000.0), ..free.clone() };
        let mut before = 0.0;
        for population in 1..=64 {
            let (free, said) = (free.solve(population, 8).unwrap(), bounded.solve(population, 8).unwrap());
            assert!(said.throughput <= 3_000.0 && said.throughput >= before, "{said:?}");
            assert!(said.busy <= 8.0 + 1e-9 && said.response <= said.client_response, "{said:?}");
            if free.throughput < 2_880.0 {
                assert_eq!(free, said);
            }
            before = said.throughput;
        }
        assert_eq!(before, 3_000.0);
    }
}
