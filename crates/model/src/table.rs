//! Results as rows: one form for people, for CSV and for JSON. Nothing is computed here.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Named columns with units, and rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What the table shows, under which assumptions.
    pub title: String,
    /// Names and units.
    pub columns: Vec<Column>,
    /// One cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Name, in the words of the project.
    pub name: String,
    /// Unit of the numbers; empty for pure numbers and text.
    pub unit: String,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number in the unit of its column.
    Number(f64),
    /// Text.
    Text(String),
    /// Not known or without meaning here; `null` in JSON.
    Empty,
}

impl From<f64> for Cell {
    /// A number that is not finite is not known.
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Number(value) } else { Self::Empty }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Empty, Self::from)
    }
}

impl Table {
    /// A table without rows; each column as `(name, unit)`.
    pub fn new(title: impl Into<String>, columns: &[(&str, &str)]) -> Self {
        let columns = columns
            .iter()
            .map(|(name, unit)| Column { name: (*name).into(), unit: (*unit).into() })
            .collect();
        Self { title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// In debug builds, if it has not one cell for each column.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column of `{}`", self.title);
        self.rows.push(row);
    }

    /// The numbers of a column, by name; empty where a cell is none.
    pub fn numbers(&self, column: &str) -> Vec<Option<f64>> {
        let place = self.columns.iter().position(|c| c.name == column);
        self.rows
            .iter()
            .map(|row| match place.map(|place| &row[place]) {
                Some(Cell::Number(value)) => Some(*value),
                _ => None,
            })
            .collect()
    }

    /// As CSV: a head of `name_unit`, full precision, empty cells empty.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        let heads: Vec<String> = self.columns.iter().map(|c| quoted(&c.head())).collect();
        text.push_str(&heads.join(","));
        text.push('\n');
        for row in &self.rows {
            for (i, cell) in row.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                match cell {
                    Cell::Number(value) => write!(text, "{value}").expect("a string takes all text"),
                    Cell::Text(words) => text.push_str(&quoted(words)),
                    Cell::Empty => {}
                }
            }
            text.push('\n');
        }
        text
    }
}

impl Column {
    /// `name_unit`, as CSV files head their columns: `response_s`.
    fn head(&self) -> String {
        let words = |text: &str| text.replace([' ', '/'], "_").replace('%', "pct");
        match self.unit.as_str() {
            "" => words(&self.name),
            unit => format!("{}_{}", words(&self.name), words(unit)),
        }
    }
}

/// RFC 4180: quotes around what would break a row.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_keeps_full_precision_and_quotes_what_would_break() {
        let mut table = Table::new("t", &[("station", ""), ("response", "s"), ("error", "%")]);
        table.push(vec!["a,b".into(), (1.0 / 3.0).into(), f64::NAN.into()]);
        assert_eq!(table.to_csv(), "station,response_s,error_pct\n\"a,b\",0.3333333333333333,\n");
        assert_eq!(table.numbers("response"), [Some(1.0 / 3.0)]);
    }

    #[test]
    fn what_is_not_known_is_null_in_json() {
        let mut table = Table::new("t", &[("x", "1/s")]);
        table.push(vec![Cell::Empty]);
        assert!(serde_json::to_string(&table).unwrap().contains("[[null]]"));
    }
}
