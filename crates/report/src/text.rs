//! Tables for a terminal: aligned columns, headings with their units, no colour.

use krarup_units::Unit;

use crate::document::{Column, Table, TableValue};

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

/// The same in lines of at most `width` letters, as far as a column alone is no wider: what does
/// not fit beside the first columns stands below, beside the first columns again.
pub fn fitted(table: &Table, width: usize) -> String {
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|index| column(table, index).iter().map(|cell| cell.chars().count()).max().unwrap_or(0) + 2)
        .collect();
    // Two blanks stand between columns, none after the last.
    let fits = |sum: usize| sum <= width + 2;
    if fits(widths.iter().sum()) {
        return self::table(table);
    }
    let is_key = |column: &Column| matches!(column.unit, Unit::Text | Unit::Count);
    let keys = table.columns.iter().take(MOST_KEYS).take_while(|column| is_key(column)).count().max(1);
    let of_keys: usize = widths[..keys].iter().sum();
    let mut parts: Vec<(Vec<usize>, usize)> = Vec::new();
    for (index, wide) in widths.iter().enumerate().skip(keys) {
        match parts.last_mut().filter(|(_, sum)| fits(sum + wide)) {
            Some((part, sum)) => {
                part.push(index);
                *sum += wide;
            }
            None => parts.push(((0..keys).chain([index]).collect(), of_keys + wide)),
        }
    }
    let part = |(part, _): &(Vec<usize>, usize)| {
        self::table(&Table {
            columns: part.iter().map(|index| table.columns[*index].clone()).collect(),
            rows: table
                .rows
                .iter()
                .map(|row| part.iter().map(|index| row[*index].clone()).collect())
                .collect(),
            ..Table::default()
        })
    };
    parts.iter().map(part).collect::<Vec<_>>().join("\n")
}

/// So many columns at most say what a row is.
const MOST_KEYS: usize = 2;

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
    use crate::document::EstimateCell;

    #[test]
    fn what_does_not_fit_stands_below_beside_the_first_columns_again() {
        let columns = ["workload", "throughput", "response time"].map(|name| match name {
            "workload" => Column::new(name, Unit::Text),
            name => Column::new(name, Unit::PerSecond),
        });
        let table = Table {
            columns: columns.to_vec(),
            rows: vec![vec!["read".into(), 9_120.0.into(), 210.0.into()]],
            ..Table::default()
        };
        assert_eq!(fitted(&table, 35), super::table(&table));
        let folded = "workload  throughput\n                  /s\nread           9,120\n\n\
                      workload  response time\n                     /s\nread                210\n";
        assert_eq!(fitted(&table, 34), folded);
        assert_eq!(fitted(&table, 3), folded, "a column is not cut");
    }

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
