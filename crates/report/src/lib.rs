//! Results as pages, tables and figures that a stranger understands. Computes nothing.
//!
//! A [`document::Document`] is a value: summary, sections, tables, [`figures`], notes. [`Page`] is
//! what it becomes on disk: one HTML file that works without a network, and a CSV for each table
//! and figure. [`text`] and [`markdown`] write the same tables for a terminal and for a repository.
//! [`sweep::document`] is the report of a sweep, [`requests::document`] that of the rows of one
//! run.

#![forbid(unsafe_code)]

mod against;
mod chart;
pub mod comparison;
pub mod csv;
pub mod demand;
pub mod document;
mod estimates;
pub mod figures;
pub mod headroom;
pub mod history;
pub mod html;
mod inside_figures;
pub mod latex;
pub mod live;
pub mod markdown;
mod page;
pub mod redline;
pub mod requests;
pub mod sheet;
mod study_figures;
pub mod sweep;
mod sweep_figures;
mod sweep_model;
mod sweep_notes;
mod tables;
pub mod text;
mod tidy;
pub mod top;
mod workloads;

pub use page::Page;
