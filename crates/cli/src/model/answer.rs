//! What a job of `krarup model` comes to.

use krarup_model::table::ResultTable;
use krarup_report::figures::Figure;

/// Everything a job has to say: tables for people, a value for programs, figures for the page.
pub(super) struct Answer {
    pub(super) title: String,
    pub(super) notes: Vec<String>,
    pub(super) tables: Vec<ResultTable>,
    /// Tables with every row, where `tables` shows a selection.
    pub(super) full: Option<Vec<ResultTable>>,
    pub(super) figures: Vec<Figure>,
    /// Null where nothing is left to say.
    pub(super) value: serde_json::Value,
}
