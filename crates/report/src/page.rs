//! What a report is on disk: the page and, beside it, a CSV for each table and figure.

use std::io;
use std::path::{Path, PathBuf};

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

    /// Writes `report.html` and `figures/*.csv` into a directory, which is made where it does not exist. The answer is
    /// the page's path.
    ///
    /// # Errors
    /// What the file system said, with the path it said it about.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        let figures = directory.join("figures");
        named(&figures, std::fs::create_dir_all(&figures))?;
        for (name, text) in &self.csv {
            let path = figures.join(name);
            named(&path, std::fs::write(&path, text))?;
        }
        let page = directory.join("report.html");
        named(&page, std::fs::write(&page, &self.html))?;
        Ok(page)
    }
}

fn named(path: &Path, result: io::Result<()>) -> io::Result<()> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn data(block: &Block) -> Option<Table> {
    match block {
        Block::Table(table) => Some(table.clone()),
        Block::Figure(figure) => Some(figure.data()),
        _ => None,
    }
}
