//! A report as a value: what is said, in which order, before it is a page.

use krarup_record::quantities::{self, QuantityDefinition};

use crate::figures::Figure;
pub use crate::tables::{Column, EstimateCell, Note, NoteLevel, Table, TableValue};

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
    /// The quantities that the summary names.
    pub quantities: Vec<QuantityDefinition>,
    /// The body.
    pub sections: Vec<Section>,
    /// The last line of the page: program, version.
    pub footer: String,
}

/// A thing that was learnt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// What it is about: a workload.
    pub about: String,
    /// The answer in one line; none where the sentences are all there is.
    pub line: Option<VerdictLine>,
    /// A few sentences: the answer, or the evidence of its line.
    pub text: String,
}

/// A verdict in one line.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictLine {
    /// The figure with its interval: `24,100/s ± 1.2 %`.
    pub figure: String,
    /// The load at which it was seen, and the response time there.
    pub load: String,
    /// The verdict's own words: `limit reached`.
    pub verdict: String,
    /// What it rests on: what is full.
    pub cause: String,
    /// What to do next, or that nothing follows.
    pub next: String,
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
    /// A table with values in words, as `24,100/s ± 1.2 %`, and the same in numbers: its CSV.
    InWords(Table, Table),
    /// A table of which a reader picks one row, by sliders over its first so many columns.
    Sliders(Table, usize),
    /// A figure with its caption, its notes and its data.
    Figure(Figure),
    /// A note that concerns this place.
    Note(Note),
    /// Names and plain values: the environment.
    Properties(Vec<(String, String)>),
    /// Text as typed: a command line.
    Code(String),
    /// A table for programs alone: the page offers it for download, and it stands beside the page.
    Data(Table),
}

impl Finding {
    /// One that is sentences alone.
    pub fn words(about: impl Into<String>, text: impl Into<String>) -> Self {
        Self { about: about.into(), line: None, text: text.into() }
    }
}

impl Document {
    /// The quantities of its summary, figures and tables, and those that their definitions name,
    /// each once: what the glossary of the page holds.
    pub fn glossary(&self) -> Vec<QuantityDefinition> {
        let shown = self.sections.iter().flat_map(|section| &section.blocks).flat_map(shown);
        quantities::glossary(self.quantities.iter().copied().chain(shown))
    }
}

/// The quantities that a block shows.
fn shown(block: &Block) -> Vec<QuantityDefinition> {
    match block {
        Block::Figure(figure) => figure.quantities.clone(),
        Block::Table(table) | Block::InWords(table, _) | Block::Sliders(table, _) => {
            table.columns.iter().filter_map(|column| column.quantity).collect()
        }
        _ => Vec::new(),
    }
}
