//! What is answered about the headroom of a running program, as a page for a browser.

use krarup_model::headroom::Headroom;
use krarup_report::{headroom, html};

/// The page; `of` is what the program is called in it.
pub(crate) fn page(answer: &Headroom, of: &str) -> String {
    html::page(&headroom::document(answer, of, &crate::written::footer()))
}
