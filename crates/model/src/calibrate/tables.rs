//! What a calibration says, as tables.

use krarup_record::{quantities, stamps};
use krarup_units::Unit;

use super::fitting::Calibration;
use super::predicting::Predicted;
use crate::table::ResultTable;

impl Calibration {
    /// Each form that was tried, its parameters, its mean error over rows left out one at a time,
    /// and what it weighs.
    pub fn forms_table(&self) -> ResultTable {
        let columns = [
            ("form", Unit::Text),
            ("parameters", Unit::Count),
            ("error of rows left out", Unit::Share),
            ("weight", Unit::Share),
        ];
        let mut table = ResultTable::new("Forms tried, by leaving one row out at a time", &columns);
        for (form, score) in &self.scores {
            let part = self.model.parts.iter().find(|part| part.form == *form);
            table.push(vec![
                form.name().into(),
                (form.parameters(self.rows.len()) as f64).into(),
                (*score).into(),
                part.map_or(0.0, |part| part.weight).into(),
            ]);
        }
        table
    }

    /// The calibration rows: what they say of busy workers, hold time and time outside, think time
    /// left out, and how far the model is from them, in the fit and with the row left out.
    pub fn rows_table(&self) -> ResultTable {
        let columns = [
            ("row", Unit::Text),
            quantities::POPULATION.column(),
            ("workers", Unit::Count),
            quantities::THROUGHPUT.column(),
            stamps::RESPONSE_TIME.column(),
            ("busy", Unit::Count),
            stamps::HOLD_TIME.column(),
            quantities::OUTSIDE.column(),
            ("error of X", Unit::Share),
            ("error of R", Unit::Share),
            ("of X, left out", Unit::Share),
            ("of R, left out", Unit::Share),
        ];
        let mut table = ResultTable::new(format!("Calibration rows ({})", self.model.name()), &columns);
        for (row, residual) in self.rows.iter().zip(&self.residuals) {
            table.push(vec![
                row.place.as_str().into(),
                (row.population as f64).into(),
                (row.workers as f64).into(),
                row.throughput.into(),
                row.response.into(),
                row.busy().into(),
                row.hold().into(),
                (row.at_clients() - row.response).into(),
                residual.throughput.into(),
                residual.response.into(),
                residual.held_out.map(|e| e.0).into(),
                residual.held_out.map(|e| e.1).into(),
            ]);
        }
        table
    }

    /// The laws that rows break; `None` when all hold.
    pub fn broken_table(&self) -> Option<ResultTable> {
        let columns = [
            ("row", Unit::Text),
            ("law", Unit::Text),
            // Times of one law, numbers of another: each with its unit.
            ("measured", Unit::Text),
            ("implied", Unit::Text),
            ("difference", Unit::Share),
        ];
        let mut table = ResultTable::new("Laws that rows break", &columns);
        for check in &self.broken {
            table.push(vec![
                check.place.as_str().into(),
                check.law.as_str().into(),
                check.unit.show(check.measured).into(),
                check.unit.show(check.implied).into(),
                check.difference.into(),
            ]);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}

/// Predictions with their intervals; those for calibrated or far configurations say so.
pub fn prediction_table(predictions: &[Predicted]) -> ResultTable {
    let columns = [
        quantities::POPULATION.column(),
        ("workers", Unit::Count),
        quantities::THROUGHPUT.column(),
        ("low", Unit::PerSecond),
        ("high", Unit::PerSecond),
        stamps::RESPONSE_TIME.column(),
        ("low", Unit::Seconds),
        ("high", Unit::Seconds),
        stamps::QUEUE_TIME.column(),
        ("busy", Unit::Count),
        ("remark", Unit::Text),
    ];
    let mut table = ResultTable::new("Predictions with intervals for one new measurement (95 %)", &columns);
    for p in predictions {
        let bound = p.bound.as_ref().map(|bound| {
            format!("bound by the {}: {}", bound.resource, Unit::PerSecond.show(bound.throughput))
        });
        let trust = match (p.calibrated, p.no_conclusion(), p.extrapolated) {
            (true, ..) => Some("calibrated on this configuration: no prediction".to_owned()),
            (false, Some(why), _) => Some(format!("no conclusion: {why}")),
            (false, None, true) => Some("outside of the busy workers measured".to_owned()),
            (false, None, false) => None,
        };
        let remark = bound.into_iter().chain(trust).collect::<Vec<_>>().join("; ");
        table.push(vec![
            (p.answer.population as f64).into(),
            (p.answer.workers as f64).into(),
            p.throughput.value.into(),
            p.throughput.low.into(),
            p.throughput.high.into(),
            p.response.value.into(),
            p.response.low.into(),
            p.response.high.into(),
            p.answer.wait.into(),
            p.answer.busy.into(),
            remark.into(),
        ]);
    }
    table
}

/// Percentiles of the response time at the clients with their intervals; none where the rows had
/// none.
pub fn percentile_table(predictions: &[Predicted]) -> Option<ResultTable> {
    let mut columns = vec![quantities::POPULATION.column(), ("workers", Unit::Count)];
    let each =
        [["p50", "p50 low", "p50 high"], ["p90", "p90 low", "p90 high"], ["p99", "p99 low", "p99 high"]];
    columns.extend(each.as_flattened().iter().map(|name| (*name, Unit::Seconds)));
    let mut table = ResultTable::new("Response time at the clients, predicted percentiles", &columns);
    for predicted in predictions {
        let Some(percentiles) = &predicted.percentiles else { continue };
        let mut cells =
            vec![(predicted.answer.population as f64).into(), (predicted.answer.workers as f64).into()];
        for p in [percentiles.p50, percentiles.p90, percentiles.p99] {
            cells.extend([p.value.into(), p.low.into(), p.high.into()]);
        }
        table.push(cells);
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use krarup_record::quantities;

    use super::super::{CalibrationRow, CurveFamily, calibrate_as};
    use crate::table::TableCell;

    /// N/X − R has both.
    #[test]
    fn what_clients_think_is_no_time_outside() {
        let rows = [(2, 0.3e-3), (12, 0.6e-3), (48, 1.5e-3)].map(|(n, response)| {
            let row = CalibrationRow::measured(n, 48, n as f64 / (response + 41e-3));
            CalibrationRow { think: 40e-3, ..row.with_times(response, 0.0) }
        });
        let table = calibrate_as(&rows, &[CurveFamily::Lines]).unwrap().rows_table();
        let outside = table.numbers(quantities::OUTSIDE.name);
        assert_eq!(outside.len(), 3);
        for time in outside {
            assert!((time.unwrap() - 1e-3).abs() < 1e-12, "{table:?}");
        }
    }

    #[test]
    fn both_sides_of_a_law_are_shown_in_its_unit() {
        let mut rows = [(2, 0.3e-3), (12, 0.6e-3), (48, 1.5e-3)].map(|(n, response)| {
            CalibrationRow::measured(n, 48, n as f64 / (response + 1e-3)).with_times(response, 0.0)
        });
        rows[2].client_response = Some(1e-3);
        let calibration = calibrate_as(&rows, &[CurveFamily::Lines]).unwrap();
        let table = calibration.broken_table().unwrap();
        let slower = &table.rows[0];
        assert_eq!(slower[1], TableCell::Text("middleware R ≤ client R".into()), "{table:?}");
        let sides = ["1.50 ms", "1.00 ms"].map(|side| TableCell::Text(side.into()));
        assert_eq!(slower[2..4], sides, "{table:?}");
    }
}
