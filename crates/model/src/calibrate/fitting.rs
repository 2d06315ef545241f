//! Several forms fitted to the same rows, each believed as far as it says rows that it did not see.
//!
//! ```text
//!   rows ─▶ each form fitted ─▶ each row left out once ─▶ cost of a form ─▶ weight exp(−cost/0.08²)
//!                                                                     X, R: the mean of logarithms
//! ```

use serde::{Deserialize, Serialize};

use super::correction::FormCorrection;
use super::doubts::{CalibrationDoubt, calibration_doubts};
use super::forms::{CurveFamily, fit};
use super::mixture::{FormFit, ModelMixture, plateau};
use super::percentiles::{ResponseSpread, spread};
use super::rows::{
    CalibrationResidual, CalibrationRow, LAW_TOLERANCE, check_anchors, check_rows, configurations,
};
use crate::Error;
use crate::flow::check_population;
use crate::laws::LawCheck;

/// A model with everything needed to judge it and to do it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The forms with their weights.
    pub model: ModelMixture,
    /// The rows it was calibrated on: predictions for these are no predictions.
    pub rows: Vec<CalibrationRow>,
    /// How far each row is from the model.
    pub residuals: Vec<CalibrationResidual>,
    /// Mean |error| of X and R over rows left out one at a time, for each form tried; infinite (and
    /// `null` in JSON) where the rest never sufficed.
    #[serde(deserialize_with = "crate::infinite::scores")]
    pub scores: Vec<(CurveFamily, f64)>,
    /// Laws that rows break.
    pub broken: Vec<LawCheck>,
    /// What speaks against every prediction of it.
    pub doubts: Vec<CalibrationDoubt>,
    /// How response times vary, where rows have percentiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<ResponseSpread>,
}

/// Repeated configurations may differ by this much.
const ANCHOR_TOLERANCE: f64 = 0.1;
/// The relative error by which a form's weight falls to 1/e.
const BELIEF: f64 = 0.08;
/// What weighs less than this is left out: it would only cost time.
const LIGHTEST: f64 = 1e-3;

/// Calibrates: every form is fitted to the rows, and to the rows without those of each
/// configuration; the better it says the rows that it did not see, the more it weighs (Bayesian
/// model averaging with a cross-validated likelihood; Hoeting et al. 1999). The middlewares' number
/// of cores is what `cores` gives, else what the rows do.
///
/// # Errors
/// [`Error::Measurements`] where there are fewer than three rows, or runs of the same configuration
/// or cores of different rows disagree.
pub fn calibrate(rows: &[CalibrationRow], cores: Option<u32>) -> Result<Calibration, Error> {
    let known = match cores {
        Some(cores) => Some(cores),
        None => written_down(rows)?,
    };
    let contention = known.map_or(CurveFamily::UnknownCores, |cores| CurveFamily::Cores { cores });
    let forms = [
        contention,
        CurveFamily::Processors,
        CurveFamily::ProcessorsBusy,
        CurveFamily::LinesOutside,
        CurveFamily::Server,
        CurveFamily::Curves,
    ];
    calibrate_as(rows, &forms)
}

/// The number of cores that rows have with them, if they have one.
fn written_down(rows: &[CalibrationRow]) -> Result<Option<u32>, Error> {
    let mut known = rows.iter().filter_map(|row| Some((row.place.as_str(), row.cores?)));
    let Some((first, cores)) = known.next() else { return Ok(None) };
    match known.find(|(_, other)| *other != cores) {
        None => Ok(Some(cores)),
        Some((place, other)) => Err(Error::Measurements {
            what: format!(
                "the rows were not measured on one kind of machine: {first} has {cores} cores, {place} {other}"
            ),
            hint: "calibrate each kind of machine by itself, or give one number of cores for all".into(),
        }),
    }
}

/// As [`calibrate`], with the forms given.
///
/// # Errors
/// As [`calibrate`], and where no form has enough rows.
pub fn calibrate_as(rows: &[CalibrationRow], forms: &[CurveFamily]) -> Result<Calibration, Error> {
    check_anchors(rows, ANCHOR_TOLERANCE)?;
    let trials = trials(rows, forms)?;
    let model = mixed(&trials, rows);
    let residuals: Vec<CalibrationResidual> = rows
        .iter()
        .enumerate()
        .map(|(out, row)| {
            let answer = model.solve(row.population as usize, row.workers as usize)?;
            let held_out = held_out(&trials, rows, out).map(|(x, r)| (x.exp_m1(), r.exp_m1()));
            Ok(CalibrationResidual {
                place: row.place.clone(),
                throughput: answer.throughput / row.throughput - 1.0,
                response: answer.response / row.response - 1.0,
                held_out,
            })
        })
        .collect::<Result<_, Error>>()?;
    let scores = trials.iter().map(|trial| (trial.form, trial.score())).collect();
    let broken = check_rows(rows, LAW_TOLERANCE).into_iter().filter(|check| !check.holds).collect();
    let doubts = calibration_doubts(rows, &residuals);
    let spread = spread(rows, &model);
    Ok(Calibration { model, rows: rows.to_vec(), residuals, scores, broken, doubts, spread })
}

/// A form fitted to all rows, and to all but each of them.
#[derive(Clone, Debug)]
pub(super) struct FormTrial {
    pub(super) form: CurveFamily,
    pub(super) model: FormFit,
    /// The model without the rows of each configuration; none where the others do not suffice.
    pub(super) without: Vec<Option<FormFit>>,
    /// Of each row, the configuration that it is of.
    configurations: Vec<usize>,
    /// ln of model over measured, X and R, of each row that was left out.
    errors: Vec<Option<(f64, f64)>>,
}

impl FormTrial {
    /// The same where a worker holds each request that many times as long.
    pub(super) fn hold(&mut self, factor: f64) {
        let models = std::iter::once(&mut self.model).chain(self.without.iter_mut().flatten());
        models.for_each(|form| form.model = form.model.with_hold(factor));
    }

    /// Mean squared error of the rows left out, in logarithms; without those of configuration
    /// `but`.
    fn cost(&self, but: Option<usize>) -> f64 {
        let known = self.errors.iter().zip(&self.configurations).filter(|(_, of)| Some(**of) != but);
        mean(known.filter_map(|(error, _)| error.map(|(x, r)| f64::midpoint(x * x, r * r))))
    }

    /// Mean |relative error| of the rows left out.
    fn score(&self) -> f64 {
        let size = |(x, r): (f64, f64)| f64::midpoint(x.exp_m1().abs(), r.exp_m1().abs());
        mean(self.errors.iter().flatten().map(|error| size(*error)))
    }
}

/// A mean; infinite of nothing.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { f64::INFINITY }
}

/// Each form that the rows suffice for.
///
/// # Errors
/// [`Error::Measurements`] where they suffice for none; [`Error::TooLarge`] where one has more
/// clients than are solved for.
pub(super) fn trials(rows: &[CalibrationRow], forms: &[CurveFamily]) -> Result<Vec<FormTrial>, Error> {
    rows.iter().try_for_each(|row| check_population(row.population as usize))?;
    let (configurations, count) = configurations(rows);
    let tried = forms.iter().filter(|form| form.least_rows() <= count).filter_map(|form| {
        let fitted = |rows: &[CalibrationRow]| {
            let model = fit(rows, *form).ok()?;
            let correction = FormCorrection::of(&model, rows);
            Some(FormFit { form: *form, weight: 1.0, model, correction })
        };
        let model = fitted(rows)?;
        // What was measured again says by itself what is left out.
        let without: Vec<Option<FormFit>> = (0..count)
            .map(|out| {
                let others = rows.iter().zip(&configurations).filter(|(_, of)| **of != out);
                fitted(&others.map(|(row, _)| row.clone()).collect::<Vec<_>>())
            })
            .collect();
        let error = |(row, of): (&CalibrationRow, &usize)| distance(without[*of].as_ref()?, row);
        let errors = rows.iter().zip(&configurations).map(error).collect();
        Some(FormTrial { form: *form, model, without, configurations: configurations.clone(), errors })
    });
    let tried: Vec<FormTrial> = tried.collect();
    if tried.is_empty() {
        return Err(Error::Measurements {
            what: match count {
                _ if count == rows.len() => format!("{count} rows are too few to calibrate on"),
                1 => "one configuration is too few to calibrate on, however often it was measured".into(),
                _ => format!(
                    "{count} configurations are too few to calibrate on, however often they were measured"
                ),
            },
            hint: "measure at low load, saturated with the smallest and the largest pool, and between".into(),
        });
    }
    Ok(tried)
}

/// ln of model over measured, X and R.
fn distance(model: &FormFit, row: &CalibrationRow) -> Option<(f64, f64)> {
    let answer = model.solve(row.population as usize, row.workers as usize).ok()?;
    Some(((answer.throughput / row.throughput).ln(), (answer.response / row.response).ln()))
}

/// The weight of each form; where configuration `but` is to be predicted, without what was seen of
/// it. Where
/// no form could leave a row out, each weighs what it did before.
pub(super) fn weights(trials: &[FormTrial], but: Option<usize>) -> Vec<f64> {
    let costs: Vec<f64> = trials.iter().map(|trial| trial.cost(but)).collect();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let weight = |(trial, cost): (&FormTrial, &f64)| {
        let seen = if least.is_infinite() { 0.0 } else { (cost - least) / (BELIEF * BELIEF) };
        trial.form.prior() * (-seen).exp()
    };
    let raw: Vec<f64> =
        trials.iter().zip(&costs).map(weight).map(|w| if w < LIGHTEST { 0.0 } else { w }).collect();
    let all: f64 = raw.iter().sum();
    raw.iter().map(|weight| weight / all).collect()
}

/// The forms that weigh something.
fn mixed(trials: &[FormTrial], rows: &[CalibrationRow]) -> ModelMixture {
    let parts = trials.iter().zip(weights(trials, None)).filter(|(_, weight)| *weight > 0.0);
    let parts = parts.map(|(trial, weight)| FormFit { weight, ..trial.model.clone() });
    ModelMixture { parts: parts.collect(), plateau: plateau(rows.iter()) }
}

/// ln of model over measured, X and R, of a row that neither the fits nor the weights have seen.
fn held_out(trials: &[FormTrial], rows: &[CalibrationRow], out: usize) -> Option<(f64, f64)> {
    let of = trials[0].configurations[out];
    let parts = trials.iter().zip(weights(trials, Some(of))).filter(|(_, weight)| *weight > 0.0);
    let parts: Vec<FormFit> =
        parts.filter_map(|(trial, weight)| Some(FormFit { weight, ..trial.without[of].clone()? })).collect();
    if parts.is_empty() {
        return None;
    }
    let row = &rows[out];
    let others = rows.iter().zip(&trials[0].configurations).filter(|(_, one)| **one != of);
    let others = others.map(|(row, _)| row);
    let model = ModelMixture { parts, plateau: plateau(others) };
    let answer = model.solve(row.population as usize, row.workers as usize).ok()?;
    Some(((answer.throughput / row.throughput).ln(), (answer.response / row.response).ln()))
}
