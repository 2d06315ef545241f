//! Tables as CSV (RFC 4180), in base units and all digits, for programs to read.

use crate::document::{Column, Table, TableValue};

/// The table: one heading row, then one line for each row.
///
/// A column with estimates becomes four: the value, `…_low` and `…_high` (the interval's ends) and
/// `…_n`. Headings are lower-case with underscores and end in the base unit: `_s`, `_per_s`,
/// `_ratio`, `_cores`; a count has none.
/// Nothing measured is an empty field.
pub fn table(table: &Table) -> String {
    let measured: Vec<bool> = (0..table.columns.len())
        .map(|index| table.rows.iter().any(|row| matches!(row[index], TableValue::Measured(_))))
        .collect();
    let mut out = String::new();
    let mut headings = Vec::new();
    for (column, measured) in table.columns.iter().zip(&measured) {
        let name = heading(column);
        if *measured {
            headings.extend([
                name.clone(),
                format!("{name}_low"),
                format!("{name}_high"),
                format!("{name}_n"),
            ]);
        } else {
            headings.push(name);
        }
    }
    line(&mut out, &headings);
    for row in &table.rows {
        let mut fields = Vec::new();
        for (value, measured) in row.iter().zip(&measured) {
            let width = if *measured { 4 } else { 1 };
            let start = fields.len();
            match value {
                TableValue::Text(text) => fields.push(text.clone()),
                TableValue::Number(value) => fields.push(number(*value)),
                TableValue::Measured(estimate) => {
                    let ends = estimate.interval.map(|(low, high)| (number(low), number(high)));
                    let (low, high) = ends.unwrap_or_default();
                    fields.extend([number(estimate.value), low, high, estimate.n.to_string()]);
                }
                TableValue::Missing => {}
            }
            fields.resize(start + width, String::new());
        }
        line(&mut out, &fields);
    }
    out
}

/// What the column is called.
pub(crate) fn heading(column: &Column) -> String {
    let mut name = key(&column.heading);
    if !name.ends_with(column.unit.suffix()) {
        name += column.unit.suffix();
    }
    name
}

/// The shortest text that reads back as the same number; nothing for what is no number.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

fn key(heading: &str) -> String {
    let mut key = String::new();
    for letter in heading.chars() {
        if letter.is_alphanumeric() {
            key.extend(letter.to_lowercase());
        } else if !key.is_empty() && !key.ends_with('_') {
            key.push('_');
        }
    }
    key.trim_end_matches('_').to_owned()
}

fn line(out: &mut String, fields: &[String]) {
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        if field.contains(['"', ',', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(field);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::EstimateCell;
    use krarup_units::Unit;

    #[test]
    fn an_estimate_brings_its_interval_and_its_n() {
        let estimate = EstimateCell { value: 0.0015, interval: Some((0.001, 0.002)), n: 3 };
        let alone = EstimateCell { value: 0.5, interval: None, n: 1 };
        let table = Table {
            columns: vec![
                Column::new("Workload", Unit::Text),
                Column::new("response time (mean)", Unit::Seconds),
            ],
            rows: vec![
                vec![TableValue::Text("read-only, \"hot\"".into()), TableValue::Measured(estimate)],
                vec![TableValue::Text("mix".into()), TableValue::Measured(alone)],
                vec![TableValue::Text("=1+1".into()), TableValue::Missing],
            ],
            ..Table::default()
        };
        assert_eq!(
            super::table(&table),
            "workload,response_time_mean_s,response_time_mean_s_low,response_time_mean_s_high,response_time_mean_s_n\n\
             \"read-only, \"\"hot\"\"\",0.0015,0.001,0.002,3\n\
             mix,0.5,,,1\n\
             =1+1,,,,\n"
        );
    }
}
