//! A report's files: the page and, beside it, a CSV for each table and figure.

use crate::document::{Block, Document, Table};
use crate::{csv, html};

/// A rendered report, not yet written.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The page itself.
    pub html: String,
    /// File name and contents of each CSV of a table or a figure.
    pub csv: Vec<(String, String)>,
    /// The same of the tables for programs, which stand beside the page itself.
    pub data: Vec<(String, String)>,
}

impl Page {
    /// Renders the document. Same document, same bytes.
    pub fn of(document: &Document) -> Self {
        let blocks = || document.sections.iter().flat_map(|section| &section.blocks);
        let file = |table: &Table| (format!("{}.csv", table.name), csv::table(table));
        let data = blocks().filter_map(|block| match block {
            Block::Data(table) => Some(file(table)),
            _ => None,
        });
        Self {
            html: html::page(document),
            csv: blocks().filter_map(shown).map(|table| file(&table)).collect(),
            data: data.collect(),
        }
    }
}

fn shown(block: &Block) -> Option<Table> {
    match block {
        Block::Table(table) | Block::InWords(_, table) | Block::Sliders(table, _) => Some(table.clone()),
        Block::Figure(figure) => Some(figure.data()),
        _ => None,
    }
}
