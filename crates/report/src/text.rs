//! Tables for a terminal: aligned columns, headings with their units, no colour.

use krarup_units::Unit;

use crate::document::{Table, TableValue};

/// The table as lines of text, each ended by a newline; words to the left, numbers to the right.
///
/// A blank line parts the groups (rows that share their first column).
pub fn table(table: &Table) -> String {
    let columns: Vec<Vec<String>> = (0..table.columns.len()).map(|index| column(table, index)).collect();
    let widths: Vec<usize> = columns
        .iter()
        .map(|cells| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let group_starts = table.group_starts();
    let mut out = String::new();
    for line in 0..table.rows.len() + 2 {
        if line >= 2 && group_starts[line - 2] {
            out.push('\n');
        }
        let mut text = String::new();
        for ((cells, width), column) in columns.iter().zip(&widths).zip(&table.columns) {
            if column.unit == Unit::Text {
                text.push_str(&format!("{:<width$}  ", cells[line]));
            } else {
                text.push_str(&format!("{:>width$}  ", cells[line]));
            }
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

/// Heading, unit, then the cells; within a column the `±` stand under each other.
fn column(table: &Table, index: usize) -> Vec<String> {
    let column = &table.columns[index];
    let scale = table.scale(index);
    let mut cells = vec![column.heading.clone(), scale.symbol.to_owned()];
    let shown: Vec<_> = table.rows.iter().map(|row| row[index].shown(scale)).collect();
    let spread = shown.iter().filter_map(|(_, half)| half.as_ref()).map(|half| half.chars().count()).max();
    for (row, (value, half)) in shown.into_iter().enumerate() {
        cells.push(match (spread, half) {
            (Some(width), Some(half)) => format!("{value} ± {half:>width$}"),
            // An estimate without an interval leaves the place of the interval free.
            (Some(width), None) if !matches!(table.rows[row][index], TableValue::Text(_)) => {
                format!("{value}{:1$}", "", width + 3)
            }
            _ => value,
        });
    }
    cells
}

/// The text with letters of ASCII alone, one for one.
pub(crate) fn ascii(text: &str) -> String {
    let letter = |letter: char| match letter {
        '–' => '-',
        'µ' => 'u',
        '×' => 'x',
        '█' => '#',
        '▓' => '=',
        '▒' => '~',
        '·' => '.',
        '±' => '+',
        ascii if ascii.is_ascii() => ascii,
        _ => '?',
    };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Column, EstimateCell};

    #[test]
    fn columns_are_aligned_and_groups_apart() {
        let measured = |value, half| {
            TableValue::Measured(EstimateCell { value, interval: Some((value - half, value + half)), n: 5 })
        };
        let table = Table {
            columns: vec![
                Column::new("workload", Unit::Text),
                Column::new("clients", Unit::Count),
                Column::new("throughput", Unit::PerSecond),
                Column::new("p99", Unit::Seconds),
            ],
            rows: vec![
                vec!["read".into(), 1.0.into(), measured(9_120.0, 210.0), 0.000_21.into()],
                vec!["read".into(), 64.0.into(), measured(24_100.0, 88.0), 0.003_1.into()],
                vec!["write".into(), 1.0.into(), TableValue::Number(4_100.0), TableValue::Missing],
            ],
            ..Table::default()
        };
        let expected = "\
workload  clients    throughput    p99
                             /s     ms
read            1   9,120 ± 210  0.210
read           64  24,100 ±  88   3.10

write           1   4,100            –
";
        assert_eq!(super::table(&table), expected);
    }
}
