//! What `krarup top` shows: pages of a terminal, drawn into a buffer, and the same as text.
//!
//! ```text
//! keys ─▶ TopView  which page, sorted how
//!            │
//! TopState ──┴─▶ draw ─▶ Buffer ─▶ a terminal, or lines of text
//! ```
//!
//! A column has one unit, whatever stands in it and however often it is drawn. Where a terminal is
//! narrow the columns that matter least are left out, and in a low one the lines above the table.

mod draw;
mod grid;
mod page;
mod pages;
mod view;

#[cfg(test)]
mod tests;

pub use draw::{draw, text};
pub use page::TopPage;
pub use view::{TopKey, TopView};
