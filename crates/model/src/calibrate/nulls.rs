//! What a sceptic would try first: models that know nothing of middlewares, on the same rows and
//! the same folds.

use krarup_stats::{Intercept, Ordered, Predictor, Regression, USUAL_LEVEL};
use krarup_units::{Seconds, Unit};
use serde::Serialize;

use super::crowd::downhill;
use super::fitting::Calibration;
use super::rows::CalibrationRow;
use crate::Error;
use crate::laws;
use crate::station;
use crate::table::{ResultTable, TableCell};
use crate::usl::Scalability;

/// A model to be better than.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NullModel {
    /// M servers before N clients (machine repair), with the mean hold time and the mean time
    /// outside.
    ClosedMmm,
    /// The universal scalability law over clients.
    UslClients,
    /// The same over min(N, a·M), a fitted: clients beyond what the workers can take change
    /// nothing.
    UslUsable,
    /// ln X and ln R linear in ln N and ln M.
    LogLinear,
    /// The row nearest in factors of N and M, as it is.
    NearestRow,
    /// The row that was measured last, as it is.
    LastValue,
}

/// What a null model says of one configuration.
#[derive(Clone, Copy, Debug)]
struct NullAnswer {
    throughput: f64,
    response: Seconds,
    p99: Option<Seconds>,
}

impl NullModel {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ClosedMmm,
        Self::UslClients,
        Self::UslUsable,
        Self::LogLinear,
        Self::NearestRow,
        Self::LastValue,
    ];

    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClosedMmm => "closed M/M/m",
            Self::UslClients => "USL over clients",
            Self::UslUsable => "USL over min(N, a·M)",
            Self::LogLinear => "log-linear regression",
            Self::NearestRow => "nearest row",
            Self::LastValue => "last value",
        }
    }

    /// Fitted to `rows`, of one configuration; none where the rows do not suffice.
    fn answer(self, rows: &[CalibrationRow], population: u64, workers: u64) -> Option<NullAnswer> {
        let n = population as f64;
        let as_measured = |row: &CalibrationRow| NullAnswer {
            throughput: row.throughput,
            response: row.response,
            p99: row.percentiles.map(|percentiles| percentiles.p99),
        };
        let mean = |of: fn(&CalibrationRow) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
        // A model that knows a mean only takes times to be exponential.
        let exponential = |throughput: f64, response: Seconds| {
            let at_clients = laws::outside(n, throughput, mean(|row| row.think)).max(response);
            let p99 = rows.iter().any(|row| row.percentiles.is_some()).then(|| 100_f64.ln() * at_clients);
            NullAnswer { throughput, response, p99 }
        };
        match self {
            Self::LastValue => rows.last().map(as_measured),
            Self::NearestRow => {
                let apart = |row: &CalibrationRow| {
                    let factor = |a: u64, b: u64| (a as f64 / b as f64).ln().powi(2);
                    factor(row.population, population) + factor(row.workers, workers)
                };
                rows.iter().min_by(|one, other| apart(one).total_cmp(&apart(other))).map(as_measured)
            }
            Self::ClosedMmm => {
                let outside = mean(CalibrationRow::outside).max(0.0);
                let hold = mean(CalibrationRow::hold);
                let said = station::mmm_n(population as u32, outside, hold, workers as u32).ok()?;
                Some(exponential(said.throughput, said.response))
            }
            Self::LogLinear => {
                let ln =
                    |of: fn(&CalibrationRow) -> f64| rows.iter().map(|row| of(row).ln()).collect::<Vec<_>>();
                let (clients, pool) = (ln(|row| row.population as f64), ln(|row| row.workers as f64));
                let columns = [Predictor::new("clients", &clients), Predictor::new("workers", &pool)];
                let said = |y: Vec<f64>| -> Option<f64> {
                    let fit = Regression::fit(&columns, Intercept::Fitted, &y, USUAL_LEVEL).ok()?;
                    let at = [1.0, n.ln(), (workers as f64).ln()];
                    Some(
                        fit.coefficients.iter().zip(at).map(|(c, x)| c.estimate.value * x).sum::<f64>().exp(),
                    )
                };
                Some(exponential(said(ln(|row| row.throughput))?, said(ln(|row| row.response))?))
            }
            Self::UslClients | Self::UslUsable => {
                let law = fitted_law(rows, self == Self::UslUsable);
                let throughput = law.throughput(population, workers);
                let shortest = rows.iter().map(|row| row.response).fold(f64::INFINITY, f64::min);
                let response = (n / throughput - mean(CalibrationRow::outside)).max(shortest);
                Some(exponential(throughput, response))
            }
        }
    }
}

/// The law with the share of clients that the workers can take.
struct UsableLaw {
    law: Scalability,
    per_worker: Option<f64>,
}

impl UsableLaw {
    fn throughput(&self, population: u64, workers: u64) -> f64 {
        let n = population as f64;
        let usable = self.per_worker.map_or(n, |each| n.min(each * workers as f64).max(1.0));
        self.law.throughput(usable)
    }
}

/// Least squares of ln X, each parameter tied weakly to where it begins.
fn fitted_law(rows: &[CalibrationRow], with_workers: bool) -> UsableLaw {
    const SPRING: f64 = 0.05;
    let single = rows.iter().map(|row| row.throughput / row.population as f64).fold(0.0, f64::max);
    let most = rows.iter().map(|row| row.throughput).fold(0.0, f64::max);
    let mut from = vec![single.ln(), (single / most).min(0.5).ln(), 1e-5_f64.ln()];
    from.extend(with_workers.then(|| 1.5_f64.ln()));
    let law = |p: &[f64]| UsableLaw {
        law: Scalability { single: p[0].exp(), contention: p[1].exp().min(1.0), coherence: p[2].exp() },
        per_worker: p.get(3).map(|each| each.exp()),
    };
    let residuals = |p: &[f64]| {
        let law = law(p);
        let misses =
            rows.iter().map(|row| (law.throughput(row.population, row.workers) / row.throughput).ln());
        let springs = p.iter().zip(&from).map(|(at, from)| SPRING * (at - from));
        misses.chain(springs).collect()
    };
    law(&downhill(&from, residuals))
}

/// Errors of one model over the same rows that it had not seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldOutErrors {
    /// The model.
    pub model: String,
    /// |relative errors| of X, of R at the middleware, and of the 99th percentile at the clients
    /// where rows have it; a row that a model could not answer is not among them.
    pub throughput: Vec<f64>,
    /// Of R.
    pub response: Vec<f64>,
    /// Of p99.
    pub p99: Vec<f64>,
}

impl HeldOutErrors {
    fn none(model: &str) -> Self {
        let model = model.to_owned();
        Self { model, throughput: Vec::new(), response: Vec::new(), p99: Vec::new() }
    }

    fn push(&mut self, row: &CalibrationRow, throughput: f64, response: Seconds, p99: Option<Seconds>) {
        self.throughput.push((throughput / row.throughput - 1.0).abs());
        self.response.push((response / row.response - 1.0).abs());
        if let (Some(said), Some(measured)) = (p99, row.percentiles) {
            self.p99.push((said / measured.p99 - 1.0).abs());
        }
    }

    /// Median and largest.
    pub fn median_and_worst(errors: &[f64]) -> Option<(f64, f64)> {
        let ordered = Ordered::new(errors.to_vec()).ok()?;
        Some((ordered.quantile(0.5).ok()?, errors.iter().copied().fold(0.0, f64::max)))
    }
}

/// The model, then every null model: fitted to the calibration rows and tried on `held_out`, of
/// which those that were calibrated on are left out; without any, on each calibration row with the
/// model fitted to those of other configurations.
///
/// # Errors
/// As [`crate::flow::FlowModel::solve`]; [`Error::Measurements`] where no row is left.
pub fn against_nulls(
    calibration: &Calibration,
    held_out: Option<&[CalibrationRow]>,
) -> Result<Vec<HeldOutErrors>, Error> {
    let rows = &calibration.rows;
    let mut ours = HeldOutErrors::none("this model");
    let mut nulls: Vec<HeldOutErrors> =
        NullModel::ALL.iter().map(|null| HeldOutErrors::none(null.name())).collect();
    let mut tried = |others: &[CalibrationRow], row: &CalibrationRow| {
        for (null, errors) in NullModel::ALL.iter().zip(&mut nulls) {
            if let Some(said) = null.answer(others, row.population, row.workers) {
                errors.push(row, said.throughput, said.response, said.p99);
            }
        }
    };
    match held_out {
        Some(all) => {
            let seen = |row: &&CalibrationRow| {
                !rows.iter().any(|used| (used.population, used.workers) == (row.population, row.workers))
            };
            let asked: Vec<&CalibrationRow> = all.iter().filter(seen).collect();
            let places: Vec<(usize, usize)> =
                asked.iter().map(|row| (row.population as usize, row.workers as usize)).collect();
            for (row, said) in asked.iter().zip(calibration.predict_all(&places)?) {
                let p99 = said.percentiles.map(|percentiles| percentiles.p99.value);
                ours.push(row, said.throughput.value, said.response.value, p99);
                tried(rows, row);
            }
        }
        None => {
            for (row, residual) in rows.iter().zip(&calibration.residuals) {
                let Some((x, r)) = residual.held_out else { continue };
                ours.push(row, row.throughput * (1.0 + x), row.response * (1.0 + r), None);
                let place = |row: &CalibrationRow| (row.population, row.workers);
                let others = rows.iter().filter(|other| place(other) != place(row));
                tried(&others.cloned().collect::<Vec<_>>(), row);
            }
        }
    }
    if ours.throughput.is_empty() {
        return Err(Error::Measurements {
            what: "no row is left that the model has not seen".into(),
            hint: "give rows of configurations that were not calibrated on".into(),
        });
    }
    Ok(std::iter::once(ours).chain(nulls).collect())
}

/// Median and worst errors of each model, the best of each column marked.
pub fn null_table(found: &[HeldOutErrors]) -> ResultTable {
    let mut columns = vec![("model", Unit::Text), ("rows", Unit::Count)];
    for (quantity, worst) in [("X", "worst X"), ("R", "worst R"), ("p99", "worst p99")] {
        columns.extend([(quantity, Unit::Share), (worst, Unit::Share)]);
    }
    columns.push(("best of", Unit::Text));
    let mut table =
        ResultTable::new("Rows held out: median |error|, and the worst, beside null models", &columns);
    let of: [fn(&HeldOutErrors) -> &Vec<f64>; 3] = [|e| &e.throughput, |e| &e.response, |e| &e.p99];
    let medians = of.map(|of| -> Vec<Option<(f64, f64)>> {
        found.iter().map(|errors| HeldOutErrors::median_and_worst(of(errors))).collect()
    });
    let least = medians
        .clone()
        .map(|medians| medians.iter().flatten().map(|(median, _)| *median).fold(f64::INFINITY, f64::min));
    for (place, errors) in found.iter().enumerate() {
        let mut cells: Vec<TableCell> =
            vec![errors.model.as_str().into(), (errors.throughput.len() as f64).into()];
        let mut best = Vec::new();
        for ((medians, least), name) in medians.iter().zip(least).zip(["X", "R", "p99"]) {
            let here = medians[place];
            cells.extend([here.map(|(median, _)| median).into(), here.map(|(_, worst)| worst).into()]);
            if here.is_some_and(|(median, _)| median <= least) {
                best.push(name);
            }
        }
        cells.push(best.join(", ").as_str().into());
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::ResponsePercentiles;

    /// Machine repair itself: M/M/m explains it, and rows of one M let the law follow, too.
    fn rows() -> Vec<CalibrationRow> {
        [(1, 4), (4, 4), (12, 4), (40, 4), (40, 16), (120, 16), (12, 16)]
            .map(|(population, workers)| {
                let said = station::mmm_n(population, 2e-3, 4e-3, workers).unwrap();
                CalibrationRow::measured(u64::from(population), u64::from(workers), said.throughput)
                    .with_times(said.response, said.wait)
            })
            .to_vec()
    }

    #[test]
    fn each_null_model_says_what_it_is() {
        let rows = rows();
        let said = |null: NullModel, n, m| null.answer(&rows, n, m).unwrap();
        let repair = station::mmm_n(64, 2e-3, 4e-3, 8).unwrap();
        assert!((said(NullModel::ClosedMmm, 64, 8).throughput / repair.throughput - 1.0).abs() < 1e-6);
        assert_eq!(said(NullModel::NearestRow, 44, 4).throughput, rows[3].throughput);
        assert_eq!(said(NullModel::LastValue, 1, 1).response, rows[6].response);
        // Clients that no worker takes change nothing.
        let (few, many) = (said(NullModel::UslUsable, 400, 4), said(NullModel::UslUsable, 4_000, 4));
        assert!((few.throughput / many.throughput - 1.0).abs() < 1e-9, "{few:?} {many:?}");
        assert!(said(NullModel::UslClients, 400, 4).throughput > 0.0);
        let loglinear = said(NullModel::LogLinear, 12, 4).throughput;
        assert!((loglinear / rows[2].throughput - 1.0).abs() < 0.5, "{loglinear}");
        assert!(NullModel::ALL.iter().all(|null| null.answer(&rows, 9, 9).unwrap().p99.is_none()));
    }

    #[test]
    fn what_clients_think_is_no_part_of_their_response_time() {
        let percentiles = Some(ResponsePercentiles { p50: 4e-3, p90: 1e-2, p99: 2e-2 });
        let thinking = rows().into_iter().map(|row| CalibrationRow { think: 1.5e-3, percentiles, ..row });
        let rows: Vec<CalibrationRow> = thinking.collect();
        let said = NullModel::ClosedMmm.answer(&rows, 64, 8).unwrap();
        let expected = 100_f64.ln() * (64.0 / said.throughput - 1.5e-3);
        assert!((said.p99.unwrap() / expected - 1.0).abs() < 1e-9, "{said:?}");
    }

    #[test]
    fn the_best_is_marked_whichever_it_is() {
        let errors = |model: &str, x: f64, r: f64| HeldOutErrors {
            throughput: vec![x],
            response: vec![r],
            ..HeldOutErrors::none(model)
        };
        let table = null_table(&[errors("this model", 0.05, 0.02), errors("nearest row", 0.04, 0.2)]);
        let marks: Vec<String> = table.rows.iter().map(|row| format!("{:?}", row[8])).collect();
        assert!(marks[0].contains('R') && !marks[0].contains('X') && marks[1].contains('X'), "{marks:?}");
    }
}
