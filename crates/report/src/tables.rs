//! Tables of a report, and the notes beside them.

use std::fmt;

use krarup_record::quantities::QuantityDefinition;
use krarup_units::{Scale, Unit};

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteLevel {
    /// Good to know.
    Hint,
    /// The figures may mislead.
    Warning,
}

/// A remark at the place it concerns.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// How much it matters.
    pub level: NoteLevel,
    /// What was seen, with the evidence.
    pub text: String,
    /// What to do about it; may be empty.
    pub next_step: String,
}

/// A table; its columns know their units, so one value prints alike in a page, a terminal and a CSV
/// file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// File name stem of its CSV: lower-case letters, digits and hyphens.
    pub name: String,
    /// The heading.
    pub title: String,
    /// What a reader must know to read it; may be empty.
    pub caption: String,
    /// The columns, left to right.
    pub columns: Vec<Column>,
    /// The rows; each has one value for each column.
    pub rows: Vec<Vec<TableValue>>,
}

/// How long a part of a file's name may be that is made of a spec's words, in bytes. What stands
/// before and behind it has room, also where a file system encrypts names.
const LONGEST_PART: usize = 100;

/// What of these letters may be a part of a file's name.
pub(crate) fn name_part(letters: &str) -> &str {
    letters.get(..LONGEST_PART).unwrap_or(letters)
}

impl Table {
    /// A table that needs no heading, as for a terminal: columns by their heading and unit.
    pub fn untitled(name: &str, columns: &[(&str, Unit)], rows: Vec<Vec<TableValue>>) -> Self {
        let columns = columns.iter().map(|&(heading, unit)| Column::new(heading, unit)).collect();
        Self { name: name.to_owned(), title: String::new(), caption: String::new(), columns, rows }
    }
}

/// A column's heading and what stands in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading, without the unit.
    pub heading: String,
    /// The unit of every number in the column. [`Unit::Text`] aligns left, the others right.
    pub unit: Unit,
    /// What the numbers are, where the glossary defines it.
    pub quantity: Option<QuantityDefinition>,
}

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum TableValue {
    /// Words.
    Text(String),
    /// A number in the column's base unit.
    Number(f64),
    /// An estimate in the column's base unit.
    Measured(EstimateCell),
    /// Nothing was measured here: no zero, no blank that could be one.
    Missing,
}

/// An estimate: the value, where the true one may lie, and the number of observations it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimateCell {
    /// The estimate.
    pub value: f64,
    /// Lower and upper end of the interval, where there is one.
    pub interval: Option<(f64, f64)>,
    /// How many observations (repetitions, windows) it rests on.
    pub n: u64,
}

impl EstimateCell {
    /// Half of its interval: the upper half where the lower one ends at zero.
    pub fn half(&self) -> Option<f64> {
        let (low, high) = self.interval?;
        Some(if low == 0.0 && self.value >= 0.0 { high - self.value } else { (high - low) / 2.0 })
    }

    /// Both ends of its interval where they are not equally far away, which no ± tells. One that is
    /// cut off at zero is told by its upper half.
    fn uneven(&self) -> Option<(f64, f64)> {
        let (low, high) = self.interval?;
        let is_cut = low == 0.0 && self.value >= 0.0;
        let apart = ((high - self.value) - (self.value - low)).abs();
        (!is_cut && apart > 0.05 * (high - low)).then_some((low, high))
    }
}

impl TableValue {
    /// The value as text in the scale of its column, and its half width where there is an interval.
    pub fn shown(&self, scale: Scale) -> (String, Option<String>) {
        match self {
            Self::Text(text) => (text.clone(), None),
            Self::Number(value) => (scale.show(*value), None),
            Self::Missing => ("–".into(), None),
            Self::Measured(measured) => (
                scale.show(measured.value),
                measured.half().map(|half| scale.show_beside(half, measured.value)),
            ),
        }
    }

    /// Both ends of its interval, where that reaches farther to one side.
    fn uneven(&self) -> Option<(f64, f64)> {
        match self {
            Self::Measured(measured) => measured.uneven(),
            _ => None,
        }
    }

    /// The value as text, and what stands beside it: `± 90`, or where the interval reaches farther
    /// to one side, both its ends: `(105 to 214)`.
    pub(crate) fn with_interval(&self, scale: Scale) -> (String, Option<String>) {
        let (text, half) = self.shown(scale);
        let interval = match self.uneven() {
            Some((low, high)) => Some(format!("({} to {})", scale.show(low), scale.show(high))),
            None => half.map(|half| format!("± {half}")),
        };
        (text, interval)
    }
}

impl From<&str> for TableValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<f64> for TableValue {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<Option<f64>> for TableValue {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Missing, Self::Number)
    }
}

impl From<Option<EstimateCell>> for TableValue {
    fn from(value: Option<EstimateCell>) -> Self {
        value.map_or(Self::Missing, Self::Measured)
    }
}

impl Column {
    /// A column.
    pub fn new(heading: impl Into<String>, unit: Unit) -> Self {
        Self { heading: heading.into(), unit, quantity: None }
    }

    /// A column of a quantity, under its name.
    pub fn of(quantity: QuantityDefinition) -> Self {
        Self::named(quantity.name, quantity)
    }

    /// A column of a quantity, under another heading: `p50`, `X predicted`.
    pub fn named(heading: impl Into<String>, quantity: QuantityDefinition) -> Self {
        Self { heading: heading.into(), unit: quantity.unit, quantity: Some(quantity) }
    }
}

impl Table {
    /// The caption; where a ± is more than its value it also says that the interval ends at zero,
    /// and where both ends of an interval stand beside its value, why.
    pub fn full_caption(&self) -> String {
        let ends_at_zero = |value: &TableValue| match value {
            TableValue::Measured(measured) => {
                measured.interval.is_some_and(|(low, _)| low == 0.0)
                    && measured.half().is_some_and(|half| half > measured.value && measured.value > 0.0)
            }
            _ => false,
        };
        let mut words: Vec<&str> =
            Some(self.caption.as_str()).filter(|text| !text.is_empty()).into_iter().collect();
        if self.rows.iter().flatten().any(ends_at_zero) {
            words.push("Where a ± is more than its value, the interval begins at zero.");
        }
        if self.rows.iter().flatten().any(|value| value.uneven().is_some()) {
            words.push("Where an interval reaches farther to one side, both its ends stand in brackets.");
        }
        words.join(" ")
    }

    /// The scale of column `index`: the one that suits the middle of its numbers.
    pub fn scale(&self, index: usize) -> Scale {
        let mut sizes: Vec<f64> = self
            .rows
            .iter()
            .filter_map(|row| match row.get(index) {
                Some(TableValue::Number(value)) => Some(value.abs()),
                Some(TableValue::Measured(measured)) => Some(measured.value.abs()),
                _ => None,
            })
            .filter(|size| *size > 0.0)
            .collect();
        sizes.sort_by(f64::total_cmp);
        self.columns[index].unit.scale(sizes.get(sizes.len() / 2).copied().unwrap_or(0.0))
    }

    /// For each row, whether it starts a group: its first column differs from the row above. A
    /// table in which no two neighbours are alike has no groups.
    pub fn group_starts(&self) -> Vec<bool> {
        let mut starts: Vec<bool> =
            self.rows.windows(2).map(|pair| pair[0].first() != pair[1].first()).collect();
        if starts.iter().all(|start| *start) {
            starts.fill(false);
        }
        starts.insert(0, false);
        starts
    }
}

impl fmt::Display for Note {
    /// `warning: what was seen. What to do.`, for a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.level {
            NoteLevel::Hint => "note",
            NoteLevel::Warning => "warning",
        };
        write!(f, "{word}: {}", [&*self.text, &*self.next_step].join(" ").trim_end())
    }
}

impl Note {
    /// A note that warns.
    pub fn warning(text: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self { level: NoteLevel::Warning, text: text.into(), next_step: next_step.into() }
    }

    /// A note that is good to know.
    pub fn hint(text: impl Into<String>) -> Self {
        Self { level: NoteLevel::Hint, text: text.into(), next_step: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_says_where_an_interval_begins_at_zero() {
        let table = |value, low, high| {
            let cell = EstimateCell { value, interval: Some((low, high)), n: 3 };
            let table = Table::untitled("t", &[("x", Unit::Count)], vec![vec![TableValue::Measured(cell)]]);
            Table { caption: "Said.".into(), ..table }.full_caption()
        };
        assert_eq!(table(2.0, 1.0, 3.0), "Said.");
        assert_eq!(table(2.0, 0.0, 3.0), "Said.");
        assert_eq!(
            table(2.0, 0.0, 5.0),
            "Said. Where a ± is more than its value, the interval begins at zero."
        );
        assert_eq!(
            table(2.0, 1.0, 5.0),
            "Said. Where an interval reaches farther to one side, both its ends stand in brackets."
        );
    }

    #[test]
    fn half_of_an_interval_that_ends_at_zero_is_its_upper_half() {
        let half = |low, high| EstimateCell { value: 2.0, interval: Some((low, high)), n: 3 }.half();
        assert_eq!((half(1.0, 3.0), half(0.0, 5.0)), (Some(1.0), Some(3.0)));
        assert_eq!(EstimateCell { value: 2.0, interval: None, n: 1 }.half(), None);
    }

    #[test]
    fn an_interval_that_reaches_farther_to_one_side_has_both_ends() {
        let beside = |low, high| {
            let cell = EstimateCell { value: 2.0, interval: Some((low, high)), n: 3 };
            TableValue::Measured(cell).with_interval(Unit::Count.scale(2.0)).1.unwrap()
        };
        assert_eq!(beside(1.0, 3.0), "± 1");
        assert_eq!(beside(0.0, 5.0), "± 3");
        assert_eq!(beside(1.0, 5.0), "(1 to 5)");
    }
}
