//! A model's tables as the report has them, and the page.

use krarup_model::table::{ColumnHead, ResultTable, TableCell};
use krarup_record::quantities;
use krarup_report::document::{self, Block, Document, Note, Section};

use super::answer::Answer;

/// 1, 2, 5, 10, … and the last.
pub(super) fn selection(most: u64) -> Vec<u64> {
    let decades = std::iter::successors(Some(1_u64), |decade| decade.checked_mul(10));
    let mut chosen: Vec<u64> =
        decades.flat_map(|decade| [1, 2, 5].map(|digit| decade.saturating_mul(digit))).collect();
    chosen.retain(|n| *n < most);
    chosen.push(most);
    chosen
}

/// Some of the populations, for people; CSV and JSON have them all.
pub(super) fn thinned(table: &ResultTable) -> ResultTable {
    let most = table.rows.len() as u64;
    if most <= 12 {
        return table.clone();
    }
    let rows = selection(most).iter().map(|n| table.rows[*n as usize - 1].clone()).collect();
    ResultTable { rows, ..table.clone() }
}

/// A column under its heading, defined where that is the name of a quantity.
fn column(head: &ColumnHead) -> document::Column {
    document::Column { heading: head.name.clone(), unit: head.unit, quantity: quantities::named(&head.name) }
}

pub(super) fn shown(table: &ResultTable) -> document::Table {
    let name: String =
        table.title.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    document::Table {
        name: name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-"),
        title: table.title.clone(),
        caption: String::new(),
        columns: table.columns.iter().map(column).collect(),
        rows: table
            .rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|cell| match cell {
                        TableCell::Number(value) => document::TableValue::Number(*value),
                        TableCell::Text(text) => document::TableValue::Text(text.clone()),
                        TableCell::Estimate { value, interval, n } => {
                            document::TableValue::Measured(document::EstimateCell {
                                value: *value,
                                interval: *interval,
                                n: *n,
                            })
                        }
                        TableCell::Empty => document::TableValue::Missing,
                    })
                    .collect()
            })
            .collect(),
    }
}

pub(super) fn page(answer: &Answer) -> Document {
    let figures = Section {
        title: "Figures".into(),
        blocks: answer.figures.iter().cloned().map(Block::Figure).collect(),
    };
    let tables = Section {
        title: "Tables".into(),
        // A selection of rows: the figures have all of them as data.
        blocks: answer.tables.iter().map(|t| Block::Table(shown(t))).collect(),
    };
    Document {
        title: answer.title.clone(),
        notes: answer.notes.iter().map(Note::hint).collect(),
        sections: [figures, tables].into_iter().filter(|s| !s.blocks.is_empty()).collect(),
        footer: crate::written::footer(),
        ..Document::default()
    }
}
