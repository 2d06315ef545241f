//! Tables for a terminal: aligned columns, headings with their units, no colour.

use krarup_units::{Unit, lines};

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
        .map(|index| column(table, index).iter().map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let parts = lines::side_by_side(&widths, keys(table), GAP, width);
    let part = |part: &Vec<usize>| {
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

/// So many blanks stand between columns.
const GAP: usize = 2;

/// So many columns say what a row is where they are words and counts; more, up to the second
/// number, where these do not tell the rows apart.
const KEYS: (usize, usize) = (2, 3);

/// How many of the first columns say what a row is.
fn keys(table: &Table) -> usize {
    let is_key = |column: &&Column| matches!(column.unit, Unit::Text | Unit::Count);
    let possible = table.columns.iter().take_while(is_key).count();
    let tell_apart = |keys: usize| {
        let mut before = table.rows.iter().enumerate();
        before.all(|(place, row)| table.rows[..place].iter().all(|other| other[..keys] != row[..keys]))
    };
    let (usual, most) = (possible.min(KEYS.0), possible.min(KEYS.1));
    (usual..=most).find(|keys| tell_apart(*keys)).unwrap_or(usual).max(1)
}

/// Heading, unit, then the cells; within a column the `±` stand under each other.
fn column(table: &Table, index: usize) -> Vec<String> {
    let column = &table.columns[index];
    let scale = table.scale(index);
    let mut cells = vec![column.heading.clone(), scale.symbol.to_owned()];
    let shown: Vec<_> = table.rows.iter().map(|row| row[index].with_interval(scale)).collect();
    let spread = shown.iter().filter_map(|(_, beside)| beside.as_ref()).map(|one| one.chars().count()).max();
    for (row, (value, beside)) in shown.into_iter().enumerate() {
        cells.push(match (spread, beside) {
            (Some(width), Some(beside)) => match beside.strip_prefix("± ") {
                Some(half) => {
                    let room = width - 2;
                    format!("{value} ± {half:>room$}")
                }
                None => format!("{value} {beside:>width$}"),
            },
            // An estimate without an interval leaves the place of the interval free.
            (Some(width), None) if !matches!(table.rows[row][index], TableValue::Text(_)) => {
                format!("{value}{:1$}", "", width + 1)
            }
            _ => value,
        });
    }
    cells
}

/// The text with letters of ASCII alone, one for one.
pub(crate) fn ascii(text: &str) -> String {
    let letter = |letter: char| match letter {
        '–' | '−' => '-',
        'µ' => 'u',
        '×' => 'x',
        '█' => '#',
        '▓' => '=',
        '▒' | '≈' | '…' => '~',
        '↓' => 'v',
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
    fn a_third_column_is_a_key_where_two_do_not_tell_the_rows_apart() {
        let columns = [
            ("workload", Unit::Text),
            ("clients", Unit::Count),
            ("measure", Unit::Text),
            ("base", Unit::Text),
            ("verdict", Unit::Text),
        ];
        let row = |clients: f64, measure: &str, verdict: &str| {
            vec!["read".into(), clients.into(), measure.into(), "24,100/s".into(), verdict.into()]
        };
        let two = vec![row(1.0, "throughput", "better"), row(1.0, "p99", "worse")];
        let folded = "\
workload  clients  measure     base

read            1  throughput  24,100/s
read            1  p99         24,100/s

workload  clients  measure     verdict

read            1  throughput  better
read            1  p99         worse
";
        assert_eq!(fitted(&Table::untitled("changes", &columns, two), 40), folded);
        let apart = vec![row(1.0, "p99", "better"), row(2.0, "p99", "worse")];
        let folded = fitted(&Table::untitled("changes", &columns, apart), 36);
        assert!(folded.contains("workload  clients  verdict\n"), "{folded}");
    }

    #[test]
    fn letters_of_ascii_stand_for_the_others() {
        assert_eq!(ascii("≈ 0 a… ↓ 3 more, −2 – 1"), "~ 0 a~ v 3 more, -2 - 1");
    }

    #[test]
    fn an_interval_with_both_ends_stands_under_the_others() {
        let measured = |value, low, high| {
            TableValue::Measured(EstimateCell { value, interval: Some((low, high)), n: 5 })
        };
        let rows = vec![
            vec![measured(120.0, 110.0, 130.0)],
            vec![measured(120.0, 110.0, 190.0)],
            vec![TableValue::Missing],
        ];
        let table = Table::untitled("t", &[("x", Unit::Count)], rows);
        let expected = "               x\n\n120 ±         10\n120 (110 to 190)\n  –\n";
        assert_eq!(super::table(&table), expected);
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
