//! What a calibrated model says of other configurations, how far that can be believed, and when it
//! says nothing.
//!
//! ```text
//!   ln X ± t·s      s² = error of rows left out  +  forms that disagree  +  rows that decide (jackknife)
//! ```

use std::borrow::Cow;

use krarup_stats::{Interval, USUAL_LEVEL};
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::doubts::{PredictionDoubt, WIDE, prediction_doubts};
use super::fitting::{Calibration, FormTrial, trials, weights};
use super::mixture::FormFit;
use super::percentiles::predicted as predicted_percentiles;
use super::resources::{ThroughputBound, bounds};
use super::rows::{CalibrationRow, configurations};
use crate::Error;
use crate::flow::FlowAnswer;

/// A middle value and the ends of an interval at 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval95 {
    /// The model's value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Percentiles of the response time at the clients, with intervals for one new measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedPercentiles {
    /// The median.
    pub p50: Interval95,
    /// The 90th percentile.
    pub p90: Interval95,
    /// The 99th.
    pub p99: Interval95,
}

impl PredictedPercentiles {
    /// Why nothing can be concluded of them: the upper end over the lower of the widest interval,
    /// where rows that were left out had another shape. None where they say something.
    pub fn too_wide(&self) -> Option<f64> {
        let ratios = [self.p50, self.p90, self.p99].map(|interval| interval.high / interval.low);
        Some(ratios.into_iter().fold(0.0, f64::max)).filter(|widest| *widest > WIDE)
    }
}

/// A prediction with its intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Everything the model says, with R as the client sees it without what it thinks.
    pub answer: FlowAnswer,
    /// X with the interval for one new measurement.
    pub throughput: Interval95,
    /// R at the middleware with the interval for one new measurement.
    pub response: Interval95,
    /// Percentiles at the clients, where rows had them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<PredictedPercentiles>,
    /// Whether this configuration was among the calibration rows.
    pub calibrated: bool,
    /// Whether it lies outside of the range of busy workers that was measured.
    pub extrapolated: bool,
    /// What allows no more, where rows say how much of it was in use and the forms said more: X is
    /// that then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<ThroughputBound>,
    /// Why nothing can be concluded; empty where the prediction holds.
    pub doubts: Vec<PredictionDoubt>,
}

impl Predicted {
    /// The doubts in words, where there are any.
    pub fn no_conclusion(&self) -> Option<String> {
        let words: Vec<String> = self.doubts.iter().map(ToString::to_string).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Rows that were left out count as so many more, with errors of this size of X and of R: five
/// rows alone do not tell how far a model is off.
const PRIOR: (f64, [f64; 2]) = (2.0, [0.06, 0.10]);
/// Degrees of freedom for each row.
const DEGREES: f64 = 2.0;
/// Share of the jackknife's variance that counts: rows that decide something are also those whose
/// leaving out is felt in the errors.
const DECIDING: f64 = 0.25;

/// A calibration that is ready to predict.
#[derive(Clone, Debug)]
pub struct CalibratedPredictor<'a> {
    calibration: Cow<'a, Calibration>,
    trials: Vec<FormTrial>,
    weights: Vec<f64>,
    /// How long a worker holds a request, relative to what was measured.
    hold: f64,
}

impl CalibratedPredictor<'_> {
    /// As [`Calibration::predict_all`].
    ///
    /// # Errors
    /// As [`crate::flow::FlowModel::solve`].
    pub fn predict(&self, configurations: &[(usize, usize)]) -> Result<Vec<Predicted>, Error> {
        let asked = configurations.iter();
        asked
            .map(|asked| self.calibration.predict_with(&self.trials, &self.weights, *asked, self.hold))
            .collect()
    }

    /// What would be if a worker held each request that many times as long. Of another factor than
    /// 1 there are no percentiles: no row was measured whose shape they could have.
    #[must_use]
    pub fn with_hold(&self, factor: f64) -> Self {
        let mut changed = self.clone();
        if factor == 1.0 {
            return changed;
        }
        changed.hold *= factor;
        let calibration = changed.calibration.to_mut();
        calibration.spread = None;
        // What binds there may be what takes another time now.
        calibration.model.plateau = None;
        calibration.model.parts.iter_mut().for_each(|part| part.model = part.model.with_hold(factor));
        changed.trials.iter_mut().for_each(|trial| trial.hold(factor));
        changed
    }
}

impl Calibration {
    /// What the clients of the rows think, in the mean: part of the model's time outside.
    pub fn think(&self) -> Seconds {
        self.rows.iter().map(|row| row.think).sum::<f64>() / self.rows.len().max(1) as f64
    }

    /// R as the client sees it: what the model says of a cycle, N/X, less the think time.
    pub(super) fn at_clients(&self, answer: &FlowAnswer) -> Seconds {
        (answer.client_response - self.think()).max(answer.response)
    }

    /// Predicts one configuration; see [`Calibration::predict_all`].
    ///
    /// # Errors
    /// As [`crate::flow::FlowModel::solve`].
    pub fn predict(&self, population: usize, workers: usize) -> Result<Predicted, Error> {
        Ok(self.predict_all(&[(population, workers)])?.swap_remove(0))
    }

    /// Predicts configurations (population, workers), with intervals for one new measurement: as
    /// wide as rows that were left out were off, forms disagree and single rows decide.
    ///
    /// # Errors
    /// As [`crate::flow::FlowModel::solve`].
    pub fn predict_all(&self, configurations: &[(usize, usize)]) -> Result<Vec<Predicted>, Error> {
        self.predictor()?.predict(configurations)
    }

    /// What predicts any number of times: the forms without each row are fitted here, which is what
    /// a prediction costs.
    ///
    /// # Errors
    /// As fitting a form.
    pub fn predictor(&self) -> Result<CalibratedPredictor<'_>, Error> {
        let forms: Vec<_> = self.scores.iter().map(|(form, _)| *form).collect();
        let trials = trials(&self.rows, &forms)?;
        let weights = weights(&trials, None);
        Ok(CalibratedPredictor { calibration: Cow::Borrowed(self), trials, weights, hold: 1.0 })
    }

    /// Mean squares of ln of model over measured of rows that were left out: X and R.
    fn left_out_squares(&self) -> [f64; 2] {
        let (configurations, _) = configurations(&self.rows);
        let (count, sizes) = PRIOR;
        let square = |error: f64| error.max(-0.99).ln_1p().powi(2);
        let (mut sums, mut known) = ([0.0; 2], 0.0);
        for (residual, of) in self.residuals.iter().zip(&configurations) {
            let Some((x, r)) = residual.held_out else { continue };
            // Rows of one configuration say together as much as one.
            let part = 1.0 / configurations.iter().filter(|other| *other == of).count() as f64;
            sums = [sums[0] + part * square(x), sums[1] + part * square(r)];
            known += part;
        }
        [0, 1].map(|i| (sums[i] + count * sizes[i] * sizes[i]) / (known + count))
    }

    fn predict_with(
        &self,
        trials: &[FormTrial],
        weights: &[f64],
        (population, workers): (usize, usize),
        hold: f64,
    ) -> Result<Predicted, Error> {
        let free = self.model.solve(population, workers)?;
        let bound = bounds(&self.rows).into_iter().next().map(|mut bound| {
            // A request that is held longer may also keep the processors longer.
            bound.throughput /= hold.max(1.0);
            bound
        });
        let bound = bound.filter(|bound| free.throughput > bound.throughput);
        let answer = bound.as_ref().map_or(free, |bound| held_to(free, bound.throughput));
        let middle = [answer.throughput.ln(), answer.response.ln()];
        let mut variance = self.left_out_squares();
        for (trial, weight) in trials.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
            let said = |form: &FormFit| {
                let answer = form.solve(population, workers).ok()?;
                Some([answer.throughput.ln(), answer.response.ln()])
            };
            let Some(of_form) = said(&trial.model).filter(|_| bound.is_none()) else { continue };
            let without: Vec<[f64; 2]> = trial.without.iter().flatten().filter_map(said).collect();
            for part in 0..2 {
                variance[part] += weight * (of_form[part] - middle[part]).powi(2);
                variance[part] += weight * DECIDING * jackknife(without.iter().map(|said| said[part]));
            }
        }
        let (_, count) = configurations(&self.rows);
        let degrees = DEGREES * count as f64;
        let around = |value: f64, variance: f64| -> Result<Interval95, Error> {
            let found =
                Interval::student(value.ln(), variance.sqrt(), degrees, USUAL_LEVEL).map_err(statistics)?;
            Ok(Interval95 { value, low: found.low.exp(), high: found.high.exp() })
        };
        let (throughput, response) =
            (around(answer.throughput, variance[0])?, around(answer.response, variance[1])?);
        let mean = self.at_clients(&answer);
        let percentiles = match &self.spread {
            None => None,
            Some(spread) => {
                let values =
                    predicted_percentiles(&self.rows, &self.model, spread, (population, workers), mean)?;
                // Of the mean N/X - Z, X tells the less the more clients think.
                let of_mean = if self.think() > 0.0 { variance[0].max(variance[1]) } else { variance[0] };
                let [p50, p90, p99] =
                    [0, 1, 2].map(|part| around(values[part], of_mean + spread.errors[part].powi(2)));
                Some(PredictedPercentiles { p50: p50?, p90: p90?, p99: p99? })
            }
        };
        let busy = self.rows.iter().map(CalibrationRow::busy);
        let (most, least) = (busy.clone().fold(0.0, f64::max), busy.fold(f64::INFINITY, f64::min));
        let same = |r: &CalibrationRow| r.population == population as u64 && r.workers == workers as u64;
        let ratios = [throughput, response].map(|interval| interval.high / interval.low);
        Ok(Predicted {
            answer: FlowAnswer { client_response: mean, ..answer },
            throughput,
            response,
            percentiles,
            calibrated: self.rows.iter().any(same),
            extrapolated: answer.busy > most * 1.02 || answer.busy < least * 0.98,
            bound,
            doubts: prediction_doubts(
                &self.rows,
                &self.residuals,
                &self.doubts,
                (population, workers),
                ratios,
            ),
        })
    }
}

/// The answer of a system that is held to a throughput: what a cycle takes longer is spent waiting
/// at the middleware.
fn held_to(answer: FlowAnswer, throughput: f64) -> FlowAnswer {
    let longer = answer.population as f64 / throughput - answer.client_response;
    answer.with(throughput, answer.response + longer, answer.hold())
}

/// Variance of what the model says, from models that lack a row each (Quenouille 1956, Tukey 1958).
fn jackknife(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = values.clone().sum::<f64>() / count;
    (count - 1.0) / count * values.map(|value| (value - mean).powi(2)).sum::<f64>()
}

fn statistics(error: impl std::fmt::Display) -> Error {
    Error::Measurements { what: error.to_string(), hint: "calibrate on more rows".into() }
}

#[cfg(test)]
mod tests {
    use super::super::rows::ResponsePercentiles;
    use super::super::uses::ResourceUse;
    use super::super::{calibrate, prediction_table};
    use super::*;
    use crate::flow::{Curve, FlowModel, OutsideCount};
    use crate::table::TableCell;

    /// Rows of a system whose workers are few: the forms say that twice as many do nearly twice as
    /// much. The machine was three quarters busy.
    fn rows(busy: Option<f64>) -> Vec<CalibrationRow> {
        let line = |constant| Curve::Line { constant, slope: 0.0 };
        let truth =
            FlowModel { hold: line(2e-3), outside: line(1e-3), outside_over: OutsideCount::BusyWorkers };
        [(2, 4), (12, 4), (48, 4), (12, 8), (96, 8)]
            .map(|(n, m)| {
                let said = truth.solve(n, m).unwrap();
                let mut row = CalibrationRow::measured(n as u64, m as u64, said.throughput)
                    .with_times(said.response, said.wait);
                row.uses = busy
                    .map(|busy| ResourceUse::machine(busy * said.throughput / 4_000.0))
                    .into_iter()
                    .collect();
                row
            })
            .to_vec()
    }

    #[test]
    fn no_prediction_exceeds_what_the_processors_allow() {
        let free = calibrate(&rows(None), None).unwrap().predict(96, 16).unwrap();
        assert!(free.throughput.value > 6_500.0 && free.bound.is_none(), "{free:?}");
        let held = calibrate(&rows(Some(0.75)), None).unwrap().predict(96, 16).unwrap();
        let bound = held.bound.clone().unwrap().throughput;
        assert!((bound / (4_000.0 / 0.75) - 1.0).abs() < 0.01, "{held:?}");
        assert_eq!(held.throughput.value, bound);
        // N = X·(R + Z): all that a cycle takes longer is spent at the middleware.
        let outside = |said: &Predicted| said.answer.client_response - said.answer.response;
        assert!((outside(&held) / outside(&free) - 1.0).abs() < 0.05, "{held:?} {free:?}");
        assert!((held.answer.client_response - 96.0 / bound).abs() < 1e-12, "{held:?}");
        // What binds is told first, whatever else is to be said of it.
        let table = prediction_table(std::slice::from_ref(&held));
        let told = |said: &String| said.starts_with("bound by the processors of the machine: 5,33");
        let cell = table.rows[0].last();
        assert!(held.extrapolated || !held.doubts.is_empty(), "{held:?}");
        assert!(
            matches!(cell, Some(TableCell::Text(said)) if told(said) && said.contains("/s; ")),
            "{cell:?}"
        );
        // Where the forms say less, nothing is held.
        assert!(calibrate(&rows(Some(0.75)), None).unwrap().predict(12, 4).unwrap().bound.is_none());
    }

    /// To measure all again says how much the machine varies, and nothing of other configurations.
    #[test]
    fn rows_that_were_measured_twice_are_left_out_together() {
        let mut once = rows(None);
        // Something that no form has.
        for (number, row) in once.iter_mut().enumerate() {
            row.throughput *= 1.0 + 0.06 * (number % 2) as f64;
            let mean = row.population as f64 / row.throughput;
            let long = mean * (1.5 + 0.7 * number as f64);
            row.percentiles = Some(ResponsePercentiles { p50: 0.8 * mean, p90: 1.2 * mean, p99: long });
        }
        let twice: Vec<CalibrationRow> = once.iter().chain(&once).cloned().collect();
        let [once, twice] = [once, twice].map(|rows| calibrate(&rows, None).unwrap());
        assert_eq!(once.scores.len(), twice.scores.len());
        for ((form, one), (_, other)) in once.scores.iter().zip(&twice.scores) {
            assert!((other / one - 1.0).abs() < 0.15, "{form:?}: {one} {other}");
        }
        let wide = |of: &Interval95| (of.high / of.low).ln();
        for place in [(24, 4), (48, 8), (200, 16)] {
            let [one, other] = [&once, &twice].map(|model| model.predict(place.0, place.1).unwrap());
            let p99 = |said: &Predicted| said.percentiles.unwrap().p99;
            let pairs = [
                (one.throughput, other.throughput),
                (one.response, other.response),
                (p99(&one), p99(&other)),
            ];
            for (one, other) in pairs {
                assert!((0.85..1.15).contains(&(wide(&other) / wide(&one))), "{place:?}: {one:?} {other:?}");
            }
        }
        // Of shapes as far from each other as these no percentile is told.
        assert!(twice.predict(24, 4).unwrap().percentiles.unwrap().too_wide().is_some());
        // Five times the same says nothing of another place.
        let same = vec![once.rows[0].clone(); 5];
        let error = calibrate(&same, None).unwrap_err().to_string();
        assert!(error.contains("one configuration is too few"), "{error}");
    }

    /// Little of a cycle is response time: that X is known well does not tell it.
    #[test]
    fn percentiles_of_clients_that_think_are_no_surer_than_the_response_time() {
        let line = |constant| Curve::Line { constant, slope: 0.0 };
        let think = 40e-3;
        let truth =
            FlowModel { hold: line(2e-3), outside: line(think), outside_over: OutsideCount::BusyWorkers };
        let places = [(20, 4), (40, 4), (80, 8), (120, 8), (160, 16), (240, 16)];
        let row = |(number, (n, m)): (usize, (usize, usize))| {
            let said = truth.solve(n, m).unwrap();
            let times = if number.is_multiple_of(2) { 0.8 } else { 1.25 };
            let mut row = CalibrationRow::measured(n as u64, m as u64, said.throughput)
                .with_times(times * said.response, times * said.wait);
            row.think = think;
            let mean = row.at_clients();
            row.percentiles = Some(ResponsePercentiles { p50: 0.8 * mean, p90: 1.5 * mean, p99: 3.0 * mean });
            row
        };
        let rows: Vec<CalibrationRow> = places.into_iter().enumerate().map(row).collect();
        let said = calibrate(&rows, None).unwrap().predict(100, 8).unwrap();
        let wide = |of: Interval95| of.high / of.low;
        let p99 = said.percentiles.unwrap().p99;
        assert!(wide(said.response) > 1.5 && wide(p99) >= wide(said.response), "{said:?}");
        // The mean is of the same times as its percentiles: without thinking.
        let mean = said.answer.client_response;
        assert!(said.response.value <= mean && mean < p99.value.min(think / 2.0), "{said:?}");
    }

    /// The spread of a prediction is wider where single rows decide more.
    #[test]
    fn the_jackknife_is_that_of_the_mean() {
        let values = [1.0, 2.0, 4.0, 9.0];
        let without = |out: usize| (values.iter().sum::<f64>() - values[out]) / 3.0;
        let mean = 4.0;
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / 3.0 / 4.0;
        assert!((jackknife((0..4).map(without)) - variance).abs() < 1e-12);
        assert_eq!(jackknife([3.0].into_iter()), 0.0);
    }
}
