//! A document as Markdown: for a repository, an issue, a mail. Figures are their captions and data.

use std::fmt::Write;

use krarup_record::quantities::QuantityDefinition;
use krarup_units::Unit;

use crate::document::{Block, Document, Finding, Note, NoteLevel, Section, Table};
use crate::figures::Figure;

/// The whole document, links to the CSV files relative to the page's directory.
pub fn document(document: &Document) -> String {
    let mut out = format!("# {}\n\n{}\n\n", inline(&document.title), inline(&document.subtitle));
    notes(&mut out, &document.notes);
    findings(&mut out, &document.summary);
    for fact in &document.facts {
        let (label, value) = (inline(&fact.label), inline(&fact.value));
        let _ = writeln!(out, "- {label}: **{value}** ({})", inline(&fact.detail));
    }
    if !document.facts.is_empty() {
        out.push('\n');
    }
    for part in &document.sections {
        section(&mut out, part);
    }
    glossary(&mut out, &document.glossary());
    let _ = writeln!(out, "---\n{}", inline(&document.footer));
    out
}

/// A line for each verdict, then the sentences.
fn findings(out: &mut String, findings: &[Finding]) {
    let lines: Vec<_> = findings.iter().filter_map(|one| Some((&one.about, one.line.as_ref()?))).collect();
    if !lines.is_empty() {
        out.push_str(
            "| workload | most throughput | with | limit | what to do next |\n|---|---|---|---|---|\n",
        );
        for (about, line) in lines {
            let [about, figure, load, verdict, cause, next] =
                [about, &line.figure, &line.load, &line.verdict, &line.cause, &line.next]
                    .map(|text| inline(text));
            let _ = writeln!(out, "| {about} | {figure} | {load} | **{verdict}**: {cause} | {next} |");
        }
        out.push('\n');
    }
    for finding in findings {
        let _ = write!(out, "**{}**: {}\n\n", inline(&finding.about), inline(&finding.text));
    }
}

fn section(out: &mut String, section: &Section) {
    let _ = write!(out, "## {}\n\n", inline(&section.title));
    for block in &section.blocks {
        match block {
            Block::Paragraph(text) => {
                let _ = write!(out, "{}\n\n", inline(text));
            }
            Block::List(points) => {
                for point in points {
                    let _ = writeln!(out, "- {}", inline(point));
                }
                out.push('\n');
            }
            Block::Table(table) | Block::InWords(table, _) => captioned_table(out, table),
            Block::Figure(figure) => self::figure(out, figure),
            Block::Note(note) => notes(out, std::slice::from_ref(note)),
            Block::Properties(pairs) => {
                for (name, value) in pairs {
                    let _ = writeln!(out, "- {}: {}", inline(name), inline(value));
                }
                out.push('\n');
            }
            Block::Data(table) => linked_table(out, table, ""),
            Block::Sliders(table, _) => linked_table(out, table, "figures/"),
            Block::Code(text) => {
                for line in text.lines() {
                    let _ = writeln!(out, "    {line}");
                }
                out.push('\n');
            }
        }
    }
}

/// A table that stands in a file alone, in this folder beside the page.
fn linked_table(out: &mut String, table: &Table, folder: &str) {
    let (name, title, caption) = (&table.name, inline(&table.title), inline(&table.caption));
    let _ = write!(out, "[{name}.csv]({folder}{name}.csv): {title}. {caption}\n\n");
}

fn captioned_table(out: &mut String, table: &Table) {
    let _ = write!(out, "### {}\n\n", inline(&table.title));
    out.push_str(&self::table(table));
    out.push('\n');
    let caption = table.full_caption();
    if !caption.is_empty() {
        let _ = write!(out, "{}\n\n", inline(&caption));
    }
}

fn figure(out: &mut String, figure: &Figure) {
    let _ = write!(out, "### {}\n\n", inline(&figure.title));
    if !figure.quantities.is_empty() {
        let shown: Vec<String> = figure.quantities.iter().map(|quantity| inline(&quantity.title())).collect();
        let _ = write!(out, "Shown: {} ([definitions](#definitions)). ", shown.join(", "));
    }
    let _ = write!(out, "{}\n\n", inline(&figure.caption));
    notes(out, &figure.notes);
    let _ = write!(out, "Data: [{0}.csv](figures/{0}.csv)\n\n", figure.name);
}

/// The table alone: a heading with units, numbers to the right.
pub fn table(table: &Table) -> String {
    let mut out = String::from("|");
    let mut rule = String::from("|");
    let scales: Vec<_> = (0..table.columns.len()).map(|index| table.scale(index)).collect();
    for (column, scale) in table.columns.iter().zip(&scales) {
        let symbol = scale.symbol;
        let heading = inline(&column.heading);
        if symbol.is_empty() {
            let _ = write!(out, " {heading} |");
        } else {
            let _ = write!(out, " {heading} ({symbol}) |");
        }
        rule.push_str(if column.unit == Unit::Text { "---|" } else { "---:|" });
    }
    let _ = write!(out, "\n{rule}\n");
    for row in &table.rows {
        out.push('|');
        for (value, scale) in row.iter().zip(&scales) {
            let (value, interval) = value.with_interval(*scale);
            let interval = interval.map(|interval| format!(" {interval}")).unwrap_or_default();
            let _ = write!(out, " {}{interval} |", inline(&value));
        }
        out.push('\n');
    }
    out
}

/// Every quantity of the document, defined once.
fn glossary(out: &mut String, quantities: &[QuantityDefinition]) {
    if quantities.is_empty() {
        return;
    }
    out.push_str("## Definitions\n\n| quantity | symbol, formula | unit | definition |\n|---|---|---|---|\n");
    for quantity in quantities {
        let cells = [quantity.name, quantity.symbol, quantity.unit.base(), quantity.text].map(inline);
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

fn notes(out: &mut String, notes: &[Note]) {
    for note in notes {
        let word = match note.level {
            NoteLevel::Hint => "Note",
            NoteLevel::Warning => "Warning",
        };
        let text = format!("{} {}", note.text, note.next_step);
        let _ = write!(out, "> **{word}:** {}\n\n", inline(text.trim_end()));
    }
}

/// One line in which nothing is markup: a name such as `a|b_*` stays what it is.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '|' | '*' | '_' | '`' | '<' | '[' | ']' | '#' => out.extend(['\\', letter]),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Column, TableValue};

    #[test]
    fn a_table_is_aligned_by_its_units_and_its_text_is_no_markup() {
        let table = Table {
            columns: vec![Column::new("workload", Unit::Text), Column::new("p99", Unit::Seconds)],
            rows: vec![
                vec![TableValue::from("a|b"), TableValue::from(0.0015)],
                vec![TableValue::from("c"), TableValue::Missing],
            ],
            ..Table::default()
        };
        assert_eq!(
            super::table(&table),
            "| workload | p99 (ms) |\n|---|---:|\n| a\\|b | 1.50 |\n| c | – |\n"
        );
    }
}
