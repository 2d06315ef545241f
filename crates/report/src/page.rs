//! A report's files: the page and, beside it, a CSV for each table and figure.

use crate::document::{Block, Document, Table};
use crate::{csv, html};

/// A rendered report, not yet written.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The page itself.
    pub html: String,
    /// File name and contents of each CSV.
    pub csv: Vec<(String, String)>,
}

impl Page {
    /// Renders the document. Same document, same bytes.
    pub fn of(document: &Document) -> Self {
        let tables = document.sections.iter().flat_map(|section| &section.blocks).filter_map(data);
        let csv = tables.map(|table| (format!("{}.csv", table.name), csv::table(&table))).collect();
        Self { html: html::page(document), csv }
    }
}

fn data(block: &Block) -> Option<Table> {
    match block {
        Block::Table(table) => Some(table.clone()),
        Block::Figure(figure) => Some(figure.data()),
        _ => None,
    }
}
