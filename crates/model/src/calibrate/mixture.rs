//! Several models that explain the same rows, with weights.

use serde::{Deserialize, Serialize};

use super::forms::CurveFamily;
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
}

/// What the forms say together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelMixture {
    /// The forms, in the order in which they were tried.
    pub parts: Vec<FormFit>,
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
        let answers = self.parts.iter().map(|part| Ok((part.weight, part.model.solve(population, workers)?)));
        Ok(together(&answers.collect::<Result<Vec<_>, Error>>()?))
    }

    /// Solves for every population 1..=`population`.
    ///
    /// # Errors
    /// As [`FlowModel::solve`].
    pub fn sweep(&self, population: usize, workers: usize) -> Result<Vec<FlowAnswer>, Error> {
        let all = self.parts.iter().map(|part| Ok((part.weight, part.model.sweep(population, workers)?)));
        let all = all.collect::<Result<Vec<_>, Error>>()?;
        let at = |n: usize| all.iter().map(|(weight, answers)| (*weight, answers[n])).collect::<Vec<_>>();
        Ok((0..population).map(|n| together(&at(n))).collect())
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
    let (population, workers) = (answers[0].1.population, answers[0].1.workers);
    if let [(_, only)] = answers {
        return *only;
    }
    let throughput = mean(|answer| answer.throughput);
    let response = mean(|answer| answer.response);
    let hold = mean(|answer| answer.response - answer.wait);
    let wait = (response - hold).max(0.0);
    FlowAnswer {
        population,
        workers,
        throughput,
        response,
        wait,
        client_response: population as f64 / throughput,
        busy: throughput * hold,
        waiting: throughput * wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Curve, OutsideCount};

    fn part(weight: f64, hold: f64) -> FormFit {
        let line = |constant| Curve::Line { constant, slope: 0.0 };
        let model =
            FlowModel { hold: line(hold), outside: line(1e-3), outside_over: OutsideCount::BusyWorkers };
        FormFit { form: CurveFamily::Lines, weight, model }
    }

    /// Two forms that differ by a factor of four: the one in the middle is twice the one and half
    /// the other, and the laws hold of it.
    #[test]
    fn forms_are_averaged_by_factors() {
        let mixture = ModelMixture { parts: vec![part(0.5, 1e-3), part(0.5, 4e-3)] };
        for (population, workers) in [(1, 1), (40, 4), (200, 64)] {
            let answer = mixture.solve(population, workers).unwrap();
            let one = mixture.parts[0].model.solve(population, workers).unwrap();
            let other = mixture.parts[1].model.solve(population, workers).unwrap();
            assert!((answer.throughput.powi(2) / (one.throughput * other.throughput) - 1.0).abs() < 1e-9);
            assert!(answer.busy <= workers as f64 * (1.0 + 1e-9) && answer.wait <= answer.response);
            assert!(answer.throughput * answer.response <= population as f64 * (1.0 + 1e-9));
            assert_eq!(mixture.sweep(population, workers).unwrap()[population - 1], answer);
        }
        assert_eq!(mixture.name(), "lines 50 %, lines 50 %");
    }
}
