//! A report as a value: what is said, in which order, before it is a page.

use crate::figures::Figure;
pub use crate::tables::{Column, EstimateCell, Note, NoteLevel, QuantityDefinition, Table, TableValue};

/// A whole report. Every text in it is plain text: the writers escape it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What was examined.
    pub title: String,
    /// When, where, by what: one line under the title. No writer adds a date of its own.
    pub subtitle: String,
    /// The answer in plain words.
    pub summary: Vec<Finding>,
    /// The few numbers to remember.
    pub facts: Vec<Fact>,
    /// What concerns the whole report rather than one figure.
    pub notes: Vec<Note>,
    /// The body.
    pub sections: Vec<Section>,
    /// The last line of the page: program, version.
    pub footer: String,
}

/// A thing that was learnt.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What it is about: a workload.
    pub about: String,
    /// A few sentences.
    pub text: String,
}

/// A number to remember, large on the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What it is: `most throughput`.
    pub label: String,
    /// The number with its unit.
    pub value: String,
    /// Under which load it holds: no response time without the load it was seen at.
    pub detail: String,
}

/// A part of the body with its own heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The heading; also the entry in the contents.
    pub title: String,
    /// What stands in it, in order.
    pub blocks: Vec<Block>,
}

/// One thing in a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Running text.
    Paragraph(String),
    /// Points, one line each.
    List(Vec<String>),
    /// A table.
    Table(Table),
    /// A figure with its caption, its notes and its data.
    Figure(Figure),
    /// A note that concerns this place.
    Note(Note),
    /// Words and what they mean.
    Definitions(Vec<QuantityDefinition>),
    /// Names and plain values: the environment.
    Properties(Vec<(String, String)>),
    /// Text as typed: a command line.
    Code(String),
}
