//! What a calibration says, as tables.

use super::fitting::{Calibration, Predicted};
use crate::table::{ColumnUnit, ResultTable};

impl Calibration {
    /// Each form that was tried, its parameters, and its mean error over rows left out one at a
    /// time.
    pub fn forms_table(&self) -> ResultTable {
        let columns = [
            ("form", ColumnUnit::Text),
            ("parameters", ColumnUnit::Count),
            ("error of rows left out", ColumnUnit::Share),
            ("chosen", ColumnUnit::Text),
        ];
        let mut table = ResultTable::new("Forms tried, by leaving one row out at a time", &columns);
        for (form, score) in &self.scores {
            let chosen = if *form == self.form { "yes" } else { "" };
            table.push(vec![
                form.name().into(),
                (form.parameters(self.rows.len()) as f64).into(),
                (*score).into(),
                chosen.into(),
            ]);
        }
        table
    }

    /// The calibration rows: what they say of busy workers, hold time and time outside, and how far
    /// the model is from them, in the fit and with the row left out.
    pub fn rows_table(&self) -> ResultTable {
        let columns = [
            ("row", ColumnUnit::Text),
            ("population", ColumnUnit::Count),
            ("workers", ColumnUnit::Count),
            ("throughput", ColumnUnit::PerSecond),
            ("response", ColumnUnit::Seconds),
            ("busy", ColumnUnit::Count),
            ("hold", ColumnUnit::Seconds),
            ("outside", ColumnUnit::Seconds),
            ("error of X", ColumnUnit::Share),
            ("error of R", ColumnUnit::Share),
            ("of X, left out", ColumnUnit::Share),
            ("of R, left out", ColumnUnit::Share),
        ];
        let mut table = ResultTable::new(
            format!("Calibration rows ({}, seed {})", self.form.name(), self.seed),
            &columns,
        );
        for (row, residual) in self.rows.iter().zip(&self.residuals) {
            table.push(vec![
                row.place.as_str().into(),
                (row.population as f64).into(),
                (row.workers as f64).into(),
                row.throughput.into(),
                row.response.into(),
                row.busy().into(),
                row.hold().into(),
                row.outside().into(),
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
            ("row", ColumnUnit::Text),
            ("law", ColumnUnit::Text),
            ("measured", ColumnUnit::Count),
            ("implied", ColumnUnit::Count),
            ("difference", ColumnUnit::Share),
        ];
        let mut table = ResultTable::new("Laws that rows break", &columns);
        for check in &self.broken {
            table.push(vec![
                check.place.as_str().into(),
                check.law.as_str().into(),
                check.measured.into(),
                check.implied.into(),
                check.difference.into(),
            ]);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}

/// Predictions with their intervals; those for calibrated or far configurations say so.
pub fn prediction_table(predictions: &[Predicted]) -> ResultTable {
    let columns = [
        ("population", ColumnUnit::Count),
        ("workers", ColumnUnit::Count),
        ("throughput", ColumnUnit::PerSecond),
        ("low", ColumnUnit::PerSecond),
        ("high", ColumnUnit::PerSecond),
        ("response", ColumnUnit::Seconds),
        ("low", ColumnUnit::Seconds),
        ("high", ColumnUnit::Seconds),
        ("wait", ColumnUnit::Seconds),
        ("busy", ColumnUnit::Count),
        ("remark", ColumnUnit::Text),
    ];
    let mut table = ResultTable::new("Predictions with intervals for one new measurement (95 %)", &columns);
    for p in predictions {
        let remark = match (p.calibrated, p.extrapolated) {
            (true, _) => "calibrated on this configuration: no prediction",
            (false, true) => "outside of the busy workers measured",
            (false, false) => "",
        };
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
