//! Tables for LaTeX: one `tabular` each, with booktabs' rules, and the definitions of what they
//! show, to be read in by `\input`.

use std::fmt::Write;

use krarup_record::quantities::QuantityDefinition;
use krarup_units::Unit;

use crate::document::{Block, Document, Table};

/// Every table of a document, the data of every figure, and the definitions of all that they show:
/// file name and text.
pub fn files(document: &Document) -> Vec<(String, String)> {
    let blocks = document.sections.iter().flat_map(|section| &section.blocks);
    let tables = blocks.filter_map(|block| match block {
        Block::Table(table) | Block::InWords(table, _) | Block::Sliders(table, _) => Some(table.clone()),
        Block::Figure(figure) => Some(figure.in_words(figure.data())),
        _ => None,
    });
    let tables = tables.map(|table| (format!("{}.tex", table.name), self::table(&table)));
    tables.chain(glossary(&document.glossary()).map(|text| ("definitions.tex".to_owned(), text))).collect()
}

/// Each quantity once, as a list of descriptions; none where nothing is shown.
fn glossary(quantities: &[QuantityDefinition]) -> Option<String> {
    let mut out = String::from("% Definitions\n\\begin{description}\n");
    for quantity in quantities {
        let (title, meaning) = (escaped(&quantity.title()), escaped(&quantity.meaning()));
        let _ = write!(out, "\\item[{title}] {meaning}");
        match quantity.unit.base() {
            "" => out.push('\n'),
            unit => {
                let _ = writeln!(out, " ({})", escaped(unit));
            }
        }
    }
    out.push_str("\\end{description}\n");
    (!quantities.is_empty()).then_some(out)
}

/// The table alone, in the units that suit its columns.
pub fn table(table: &Table) -> String {
    let scales: Vec<_> = (0..table.columns.len()).map(|index| table.scale(index)).collect();
    let alignment: String =
        table.columns.iter().map(|column| if column.unit == Unit::Text { 'l' } else { 'r' }).collect();
    let headings: Vec<String> = table
        .columns
        .iter()
        .zip(&scales)
        .map(|(column, scale)| match scale.symbol {
            "" => escaped(&column.heading),
            symbol => format!("{} ({})", escaped(&column.heading), escaped(symbol)),
        })
        .collect();
    let mut out = format!("% {}\n", table.title.replace(['\n', '\r'], " "));
    let _ = write!(out, "\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{}\\midrule\n", row(&headings));
    let groups = table.group_starts();
    for (cells, starts) in table.rows.iter().zip(groups) {
        if starts {
            out.push_str("\\addlinespace\n");
        }
        let values = cells.iter().zip(&scales).map(|(value, scale)| {
            let (shown, interval) = value.with_interval(*scale);
            match interval {
                Some(interval) => format!("{} {}", escaped(&shown), escaped(&interval)),
                None => escaped(&shown),
            }
        });
        out.push_str(&row(&values.collect::<Vec<_>>()));
    }
    out.push_str("\\bottomrule\n\\end{tabular}\n");
    out
}

/// One line of a table. What stands before it, a rule or the end of the line above, would take a
/// `[` or `*` at its beginning for its own.
fn row(cells: &[String]) -> String {
    let text = cells.join(" & ");
    let guard = if text.trim_start().starts_with(['[', '*']) { "{}" } else { "" };
    format!("{guard}{text} \\\\\n")
}

/// A text in which nothing is a command.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', letter]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("$<$"),
            '>' => out.push_str("$>$"),
            '−' => out.push_str("$-$"),
            '±' => out.push_str("$\\pm$"),
            '×' => out.push_str("$\\times$"),
            '÷' => out.push_str("$\\div$"),
            '≈' => out.push_str("$\\approx$"),
            '·' => out.push_str("$\\cdot$"),
            'µ' => out.push_str("$\\mu$"),
            'σ' => out.push_str("$\\sigma$"),
            'λ' => out.push_str("$\\lambda$"),
            '–' => out.push_str("--"),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Column, EstimateCell, Section, TableValue};

    #[test]
    fn a_table_is_a_tabular_and_its_text_is_no_command() {
        let estimate = EstimateCell { value: 24_100.0, interval: Some((24_000.0, 24_200.0)), n: 3 };
        let table = Table {
            title: "All cells".into(),
            columns: vec![
                Column::new("workload_x", Unit::Text),
                Column::new("throughput", Unit::PerSecond),
                Column::new("p99", Unit::Seconds),
            ],
            rows: vec![
                vec![
                    TableValue::from("a & 50 %"),
                    TableValue::Measured(estimate),
                    TableValue::from(0.000_015),
                ],
                vec![TableValue::from("b\\c"), TableValue::Missing, TableValue::Missing],
            ],
            ..Table::default()
        };
        let text = "% All cells\n\\begin{tabular}{lrr}\n\\toprule\nworkload\\_x & throughput (/s) & p99 ($\\mu$s) \\\\\n\\midrule\n\
                    a \\& 50 \\% & 24,100 $\\pm$ 100 & 15.0 \\\\\nb\\textbackslash{}c & -- & -- \\\\\n\\bottomrule\n\\end{tabular}\n";
        assert_eq!(super::table(&table), text);
    }

    #[test]
    fn every_table_is_a_file_and_what_is_for_programs_alone_is_none() {
        let table = |name: &str| Table::untitled(name, &[("x", Unit::Count)], vec![vec![1.0.into()]]);
        let blocks = vec![
            Block::Table(table("plain")),
            Block::InWords(table("words"), table("words")),
            Block::Sliders(table("explore"), 1),
            Block::Data(table("cells")),
        ];
        let sections = vec![Section { title: "all".into(), blocks }];
        let files = files(&Document { sections, ..Document::default() });
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["plain.tex", "words.tex", "explore.tex"]);
    }

    #[test]
    fn the_beginning_of_a_row_belongs_to_no_command_before_it() {
        let columns = [("[x]", Unit::Text), ("y", Unit::Text)];
        let rows = ["[a]", "*b", "c"].map(|name| vec![TableValue::from(name), TableValue::from("[d]")]);
        let text = table(&Table::untitled("t", &columns, rows.to_vec()));
        let lines = "{}[x] & y \\\\\n\\midrule\n{}[a] & [d] \\\\\n{}*b & [d] \\\\\nc & [d] \\\\\n";
        assert!(text.contains(lines), "{text}");
    }
}
