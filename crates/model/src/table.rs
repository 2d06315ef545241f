//! Results as rows with units. Nothing is computed here; how rows are written is the report's
//! concern.

use krarup_units::Unit;
use serde::{Deserialize, Serialize};

/// Named columns with units, and rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultTable {
    /// What the table shows.
    pub title: String,
    /// Names and units.
    pub columns: Vec<ColumnHead>,
    /// One cell for each column.
    pub rows: Vec<Vec<TableCell>>,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnHead {
    /// Name, in the words of the project.
    pub name: String,
    /// Unit of the numbers.
    pub unit: Unit,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TableCell {
    /// A number in the unit of its column.
    Number(f64),
    /// Text.
    Text(String),
    /// An estimate with the number of observations it rests on.
    Estimate {
        /// The value.
        value: f64,
        /// Ends of its interval; `None` where the run was too short to know one.
        interval: Option<(f64, f64)>,
        /// Observations.
        n: u64,
    },
    /// Not known or without meaning here; `null` in JSON.
    Empty,
}

impl From<f64> for TableCell {
    /// A number that is not finite is not known.
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Number(value) } else { Self::Empty }
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<f64>> for TableCell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Empty, Self::from)
    }
}

impl ResultTable {
    /// A table without rows; each column as `(name, unit)`.
    pub fn new(title: impl Into<String>, columns: &[(&str, Unit)]) -> Self {
        let columns =
            columns.iter().map(|(name, unit)| ColumnHead { name: (*name).into(), unit: *unit }).collect();
        Self { title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// In debug builds, if it has not one cell for each column.
    pub fn push(&mut self, row: Vec<TableCell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column of `{}`", self.title);
        self.rows.push(row);
    }

    /// The numbers of a column, by name; none where a cell has no number or the column is not
    /// there.
    pub fn numbers(&self, column: &str) -> Vec<Option<f64>> {
        let place = self.columns.iter().position(|c| c.name == column);
        self.rows
            .iter()
            .map(|row| match place.map(|place| &row[place]) {
                Some(TableCell::Number(value)) => Some(*value),
                _ => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_gaps_stay_gaps() {
        let mut table = ResultTable::new("t", &[("station", Unit::Text), ("response", Unit::Seconds)]);
        table.push(vec!["a".into(), (1.0 / 3.0).into()]);
        table.push(vec!["b".into(), f64::NAN.into()]);
        assert_eq!(table.numbers("response"), [Some(1.0 / 3.0), None]);
        assert_eq!(table.numbers("nothing"), [None, None]);
    }

    #[test]
    fn what_is_not_known_is_null_in_json() {
        let mut table = ResultTable::new("t", &[("x", Unit::PerSecond)]);
        table.push(vec![TableCell::Empty]);
        assert!(serde_json::to_string(&table).unwrap().contains("[[null]]"));
    }
}
