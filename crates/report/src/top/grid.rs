//! A table whose columns have one unit each and matter more or less, sorted and fitted to a width.

use std::cmp::Ordering;

use krarup_units::Scale;

use crate::document::TableValue;

/// Between two columns.
pub(super) const GAP: usize = 2;
/// A column of numbers is at least so wide: it does not jump with every digit.
const NUMBER: usize = 5;
/// Text in a narrow grid is cut to so many letters at least.
const LEAST_TEXT: usize = 4;
/// Text in any grid is cut to so many.
const MOST_TEXT: usize = 40;

/// What stands in a column, and so how it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum GridUnit {
    Text,
    Number(Scale),
}

const fn number(factor: f64, symbol: &'static str) -> GridUnit {
    GridUnit::Number(Scale { factor, symbol })
}

pub(super) const TEXT: GridUnit = GridUnit::Text;
pub(super) const COUNT: GridUnit = number(1.0, "");
pub(super) const PER_SECOND: GridUnit = number(1.0, "/s");
pub(super) const MILLISECONDS: GridUnit = number(1e3, "ms");
pub(super) const SECONDS: GridUnit = number(1.0, "s");
pub(super) const PERCENT: GridUnit = number(100.0, "%");
pub(super) const CORES: GridUnit = number(1.0, "cores");
pub(super) const TIMES: GridUnit = number(1.0, "×");
pub(super) const KIBIBYTES: GridUnit = number(1.0 / 1024.0, "KiB/s");

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct GridColumn {
    pub(super) heading: &'static str,
    pub(super) unit: GridUnit,
    /// Where there is not room for all, those with the highest rank are left out first.
    pub(super) rank: u8,
}

/// How a row is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RowTone {
    #[default]
    Plain,
    /// It does not work.
    Bad,
    /// It works in part.
    Warning,
}

/// A row; it has one cell for each column.
#[derive(Clone, Debug, Default)]
pub(super) struct GridRow {
    pub(super) cells: Vec<TableValue>,
    pub(super) tone: RowTone,
    /// Whether it stays behind all others however they are sorted: the sum of what is not listed.
    pub(super) last: bool,
    /// A column of words, and the number by which the row is sorted there.
    pub(super) sorts_as: Option<(usize, f64)>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(super) struct TopGrid {
    pub(super) columns: &'static [GridColumn],
    pub(super) rows: Vec<GridRow>,
}

/// One column of those that fit, as it is written.
#[derive(Clone, Debug)]
pub(super) struct FittedColumn {
    /// Which of the grid's columns it is.
    pub(super) index: usize,
    pub(super) heading: String,
    pub(super) symbol: &'static str,
    pub(super) is_text: bool,
    pub(super) width: usize,
    pub(super) cells: Vec<String>,
}

impl TopGrid {
    /// Sorts by a column: numbers from the largest, words from A, or the other way round; what is
    /// missing comes behind them either way.
    pub(super) fn sort(&mut self, column: usize, reversed: bool) {
        let place = |row: &GridRow| (row.last, row.kind(column));
        let size = |row: &GridRow| row.number(column).unwrap_or(0.0);
        self.rows.sort_by(|a, b| {
            let known = match (a.cells.get(column), b.cells.get(column)) {
                _ if a.number(column).or(b.number(column)).is_some() => size(b).total_cmp(&size(a)),
                (Some(TableValue::Text(first)), Some(TableValue::Text(second))) => first.cmp(second),
                _ => Ordering::Equal,
            };
            place(a).cmp(&place(b)).then(if reversed { known.reverse() } else { known })
        });
    }

    /// The columns as they fit, each as it is written: first those that matter most, then those
    /// that were left out, and so on, each time beside the first column and the `sorted` one.
    pub(super) fn parts(&self, width: usize, sorted: Option<(usize, bool)>) -> Vec<Vec<FittedColumn>> {
        let mut left: Vec<usize> = (0..self.columns.len()).collect();
        let mut parts: Vec<Vec<FittedColumn>> = Vec::new();
        loop {
            let part = self.fitted(&left, width, sorted);
            let stay = |index: usize| stays(index, sorted);
            // Where there is room for no other column, no key brings one.
            if !parts.is_empty() && part.iter().all(|column| stay(column.index)) {
                return parts;
            }
            let shown: Vec<usize> = part.iter().map(|column| column.index).collect();
            parts.push(part);
            left.retain(|index| stay(*index) || !shown.contains(index));
            if left.iter().all(|index| stay(*index)) {
                return parts;
            }
        }
    }

    /// Of some columns those for which there is room. `sorted` is one of them.
    fn fitted(&self, of: &[usize], width: usize, sorted: Option<(usize, bool)>) -> Vec<FittedColumn> {
        let mut columns: Vec<FittedColumn> = of.iter().map(|index| self.column(*index, sorted)).collect();
        let needed = |columns: &[FittedColumn]| -> usize {
            columns.iter().map(|column| column.width + GAP).sum::<usize>().saturating_sub(GAP)
        };
        while needed(&columns) > width {
            let least = columns
                .iter()
                .enumerate()
                .filter(|(_, column)| !stays(column.index, sorted))
                .max_by_key(|(_, column)| self.columns[column.index].rank);
            let Some((place, _)) = least else { break };
            // A name that is long gives way before a figure does, down to a third of the width.
            let over = needed(&columns) - width;
            let name = &mut columns[0];
            let shortest = name.width.min((width / 3).max(LEAST_TEXT));
            if name.width - shortest >= over {
                name.width -= over;
                break;
            }
            columns.remove(place);
        }
        let over = needed(&columns).saturating_sub(width);
        if let Some(name) = columns.first_mut() {
            name.width = name.width.saturating_sub(over).max(1.min(width));
        }
        columns.into_iter().map(FittedColumn::cut).collect()
    }

    fn column(&self, index: usize, sorted: Option<(usize, bool)>) -> FittedColumn {
        let GridColumn { heading, unit, .. } = self.columns[index];
        let numbers = unit != TEXT || self.rows.iter().any(|row| row.number(index).is_some());
        let mark = match sorted {
            Some((column, reversed)) if column == index && reversed != numbers => "▼",
            Some((column, _)) if column == index => "▲",
            _ => "",
        };
        let scale = match unit {
            GridUnit::Number(scale) => scale,
            GridUnit::Text => Scale { factor: 1.0, symbol: "" },
        };
        let cells: Vec<String> = self.rows.iter().map(|row| shown(row.cells.get(index), scale)).collect();
        let heading = format!("{heading}{mark}");
        let least = if unit == TEXT { 0 } else { NUMBER };
        let widest = cells.iter().chain([&heading]).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let width = widest.max(scale.symbol.chars().count()).max(least);
        let width = if unit == TEXT { width.min(MOST_TEXT) } else { width };
        FittedColumn { index, heading, symbol: scale.symbol, is_text: unit == TEXT, width, cells }
    }
}

/// Whether a column is there at every width: the first, and the one that the rows are sorted by.
fn stays(index: usize, sorted: Option<(usize, bool)>) -> bool {
    index == 0 || sorted.is_some_and(|(sorted, _)| sorted == index)
}

impl FittedColumn {
    fn cut(mut self) -> Self {
        let width = self.width;
        let each = self.cells.iter_mut().chain([&mut self.heading]);
        each.filter(|text| text.chars().count() > width).for_each(|text| *text = cut(text, width));
        self
    }
}

/// The text in so many letters, with a sign that it goes on.
pub(super) fn cut(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let front: String = text.chars().take(letters.saturating_sub(1)).collect();
    if letters == 0 { front } else { front + "…" }
}

fn shown(cell: Option<&TableValue>, scale: Scale) -> String {
    match cell {
        Some(TableValue::Number(value)) if value.is_infinite() => "never".to_owned(),
        Some(cell) => match cell.shown(scale) {
            (value, Some(half)) => format!("{value} ± {half}"),
            (value, None) => value,
        },
        None => String::new(),
    }
}

impl GridRow {
    /// The number by which it is sorted in a column; none: there are words, or nothing.
    fn number(&self, column: usize) -> Option<f64> {
        match self.cells.get(column)? {
            TableValue::Number(value) => Some(*value),
            TableValue::Measured(estimate) => Some(estimate.value),
            TableValue::Text(_) => self.sorts_as.filter(|(of, _)| *of == column).map(|(_, number)| number),
            TableValue::Missing => None,
        }
    }

    /// Numbers before words before nothing.
    fn kind(&self, column: usize) -> u8 {
        match self.cells.get(column) {
            _ if self.number(column).is_some() => 0,
            Some(TableValue::Text(_)) => 1,
            _ => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: &[GridColumn] = &[
        GridColumn { heading: "server", unit: TEXT, rank: 0 },
        GridColumn { heading: "rate", unit: PER_SECOND, rank: 1 },
        GridColumn { heading: "p99", unit: MILLISECONDS, rank: 2 },
        GridColumn { heading: "losses", unit: COUNT, rank: 3 },
    ];

    fn grid(rows: &[(&str, f64, Option<f64>)]) -> TopGrid {
        let row = |(name, rate, p99): &(&str, f64, Option<f64>)| GridRow {
            cells: vec![(*name).into(), (*rate).into(), (*p99).into(), 0.0.into()],
            ..GridRow::default()
        };
        TopGrid { columns: COLUMNS, rows: rows.iter().map(row).collect() }
    }

    fn order(grid: &TopGrid) -> Vec<String> {
        let name = |row: &'_ GridRow| match &row.cells[0] {
            TableValue::Text(name) => name.clone(),
            other => panic!("a name is a text: {other:?}"),
        };
        grid.rows.iter().map(name).collect()
    }

    #[test]
    fn numbers_are_sorted_from_the_largest_words_from_a_and_what_is_missing_is_last() {
        let mut grid = grid(&[("b", 1.0, None), ("c", 3.0, Some(0.2)), ("a", 2.0, Some(0.1))]);
        grid.rows.push(GridRow {
            cells: vec!["others".into(), 9.0.into()],
            last: true,
            ..GridRow::default()
        });
        for (column, reversed, expected) in [
            (0, false, ["a", "b", "c", "others"]),
            (0, true, ["c", "b", "a", "others"]),
            (1, false, ["c", "a", "b", "others"]),
            (1, true, ["b", "a", "c", "others"]),
            (2, false, ["c", "a", "b", "others"]),
            (2, true, ["a", "c", "b", "others"]),
        ] {
            grid.sort(column, reversed);
            assert_eq!(order(&grid), expected, "{column} {reversed}");
        }
    }

    #[test]
    fn words_that_begin_with_a_number_are_sorted_by_it() {
        let row = |name: &str, needed: Option<f64>| GridRow {
            cells: vec![name.into()],
            sorts_as: needed.map(|needed| (0, needed)),
            ..GridRow::default()
        };
        let rows = vec![row("few", None), row("3 (2 – 4)", Some(3.0)), row("12 (9 – 14)", Some(12.0))];
        let mut grid = TopGrid { columns: &COLUMNS[..1], rows };
        grid.sort(0, false);
        assert_eq!(order(&grid), ["12 (9 – 14)", "3 (2 – 4)", "few"]);
        assert_eq!(grid.parts(80, Some((0, false)))[0][0].heading, "server▼");
        grid.sort(0, true);
        assert_eq!(order(&grid), ["3 (2 – 4)", "12 (9 – 14)", "few"]);
    }

    #[test]
    fn a_narrow_grid_leaves_out_what_matters_least_but_not_what_it_is_sorted_by() {
        let grid = grid(&[("10.0.0.1:11211", 4_467.0, Some(0.001_9))]);
        let headings = |width, sorted| -> Vec<String> {
            grid.parts(width, sorted).swap_remove(0).into_iter().map(|column| column.heading).collect()
        };
        assert_eq!(headings(80, None), ["server", "rate", "p99", "losses"]);
        assert_eq!(headings(29, None), ["server", "rate", "p99"]);
        assert_eq!(headings(22, Some((3, false))), ["server", "losses▼"]);
        let narrow = grid.parts(9, None);
        assert_eq!((narrow.len(), narrow[0].len(), narrow[0][0].cells[0].as_str()), (1, 1, "10.0.0.1…"));
        let parts = |width, sorted| -> Vec<Vec<String>> {
            let part = |part: Vec<FittedColumn>| part.into_iter().map(|column| column.heading).collect();
            grid.parts(width, sorted).into_iter().map(part).collect()
        };
        assert_eq!(parts(29, None), [vec!["server", "rate", "p99"], vec!["server", "losses"]]);
        assert_eq!(parts(22, Some((3, false)))[0], ["server", "losses▼"]);
        assert_eq!(parts(80, None).len(), 1);
    }

    #[test]
    fn a_column_has_one_unit() {
        let grid = grid(&[("a", 1.0, Some(0.000_012)), ("b", 1.0, Some(2.5))]);
        let p99 = &grid.parts(80, None)[0][2];
        assert_eq!((p99.symbol, &p99.cells), ("ms", &vec!["0.0120".to_owned(), "2,500".to_owned()]));
    }

    proptest! {
        #[test]
        fn what_is_fitted_fits(
            rows in prop::collection::vec(("\\PC{0,60}", 0.0..1e9_f64, prop::option::of(0.0..1e3_f64)), 0..8),
            width in 0_usize..120,
            sorted in prop::option::of((0_usize..4, any::<bool>())),
        ) {
            let rows: Vec<_> = rows.iter().map(|(name, rate, p99)| (name.as_str(), *rate, *p99)).collect();
            let mut grid = grid(&rows);
            if let Some((column, reversed)) = sorted {
                grid.sort(column, reversed);
            }
            let parts = grid.parts(width, sorted);
            let shown = |index: usize| parts.iter().flatten().any(|column| column.index == index);
            prop_assert!(width < 80 || (0..COLUMNS.len()).all(shown), "every column is in a part");
            let fitted = &parts[0];
            prop_assert!(!fitted.is_empty());
            // A figure is never cut: where there is only room for a name and what the rows are
            // sorted by, the latter may stand out.
            let widths: usize = fitted.iter().map(|column| column.width + GAP).sum::<usize>() - GAP;
            prop_assert!(widths <= width || fitted.len() <= 2);
            for column in fitted {
                prop_assert!(column.cells.iter().all(|cell| cell.chars().count() <= column.width));
                prop_assert_eq!(column.cells.len(), rows.len());
            }
        }
    }
}
