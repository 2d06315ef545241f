//! A sheet as a table: guess, model and measurement side by side.

use krarup_analysis::graded::{Grade, GradedSheet, GradedStep, ORDER, SheetAnswer};
use krarup_analysis::results::Results;
use krarup_units::Unit;
use krarup_units::text::{count, three_digits};

use crate::document::{Block, Column, Note, Section, Table, TableValue};

/// The section of the page; none where nothing was guessed.
pub(crate) fn section(results: &Results) -> Option<Section> {
    let sheet = results.sheet.as_ref()?;
    let mut blocks: Vec<Block> = notes(sheet).into_iter().map(Block::Note).collect();
    blocks.push(Block::InWords(table(sheet), numbers(sheet)));
    blocks.push(Block::List(sheet.steps.iter().map(origin).collect()));
    Some(Section { title: "Guessed, computed, measured".into(), blocks })
}

/// The table, for the page and for a terminal.
pub fn table(sheet: &GradedSheet) -> Table {
    let rows = sheet.steps.iter().map(|step| {
        let words = [
            step.id.clone(),
            guess(step),
            step.grade.to_string(),
            model(step),
            model_grade(step),
            measured(step),
        ];
        words.iter().map(|word| TableValue::from(word.as_str())).collect()
    });
    let sealed = match (sheet.sealed.as_str(), sheet.before.max(sheet.trials_there)) {
        ("", _) => "The guesses are gone.".to_owned(),
        (time, 0) => format!("The guesses were sealed at {time}, before anything was measured."),
        (time, _) => format!("The guesses were sealed at {time}."),
    };
    Table {
        name: "sheet".into(),
        title: "Guesses and models beside what was measured".into(),
        caption: format!(
            "{sealed} Right is what lies in the 95 % interval or within a tolerance, a tenth unless the sheet says otherwise (of changes two points); of the right order what is wrong by less \
             than a factor of {}. What has no measurement is held against the model.",
            count(ORDER)
        ),
        columns: ["question", "guess", "the guess is", "model", "the model is", "measured"]
            .map(|heading| Column::new(heading, Unit::Text))
            .to_vec(),
        rows: rows.collect(),
    }
}

/// The same for programs: every number by itself, in the base unit that its row names.
fn numbers(sheet: &GradedSheet) -> Table {
    let row = |step: &GradedStep| {
        let (value, ends) = match &step.measured {
            SheetAnswer::Measured { value, interval, .. } => (Some(*value), *interval),
            SheetAnswer::NotAsked | SheetAnswer::NoConclusion { .. } => (None, None),
        };
        vec![
            TableValue::from(step.id.as_str()),
            TableValue::from(unit(step).base()),
            step.guess.into(),
            TableValue::Text(step.grade.to_string()),
            step.model.as_ref().map(|figure| figure.value).into(),
            TableValue::Text(model_grade(step)),
            value.into(),
            ends.map(|(low, _)| low).into(),
            ends.map(|(_, high)| high).into(),
        ]
    };
    Table {
        columns: vec![
            Column::new("question", Unit::Text),
            Column::new("unit", Unit::Text),
            Column::new("guess", Unit::Count),
            Column::new("the guess is", Unit::Text),
            Column::new("model", Unit::Count),
            Column::new("the model is", Unit::Text),
            Column::new("measured", Unit::Count),
            Column::new("measured low", Unit::Count),
            Column::new("measured high", Unit::Count),
        ],
        rows: sheet.steps.iter().map(row).collect(),
        name: "sheet".into(),
        ..Table::default()
    }
}

/// What is wrong with the seal.
pub fn notes(sheet: &GradedSheet) -> Vec<Note> {
    let GradedSheet { sealed, trials, changed, before, trials_there, reworded, .. } = sheet;
    let of = |number: usize| format!("{} of {} trials", count(number as f64), count(*trials as f64));
    let mut notes = Vec::new();
    if *changed > 0 {
        let what = if sealed.is_empty() { "sheet.json is gone" } else { "sheet.json is another file" };
        notes.push(Note::warning(
            format!(
                "The guesses were changed after they had been sealed: {} were measured under others, {what}.",
                of(*changed)
            ),
            "Grades say nothing: put the sealed file back, or measure again in a directory of its own.",
        ));
    }
    if *before > 0 && !sealed.is_empty() {
        notes.push(Note::warning(
            format!("{} were measured before the guesses were sealed.", of(*before)),
            "Give another directory with --out to guess first.",
        ));
    }
    let beside = trials_there.saturating_sub(*before);
    // Trials under other guesses may be among those that were there.
    if beside > 0 && *changed == 0 {
        let plural = if beside == 1 { "" } else { "s" };
        notes.push(Note::warning(
            format!(
                "{} trial{plural} beside these had been measured when the guesses were sealed: of another plan, of the anchor, or attempts that failed.",
                count(beside as f64)
            ),
            "Give another directory with --out to guess first.",
        ));
    }
    if !reworded.is_empty() {
        notes.push(Note::warning(
            format!("The spec asks something else now than was asked, or no more: {}.", reworded.join(", ")),
            "Compare sheet.json and spec.toml.",
        ));
    }
    notes
}

/// The question, and where the model's figure comes from.
pub fn origin(step: &GradedStep) -> String {
    let model = match &step.model {
        Some(figure) => figure.from.clone(),
        None => "no figure: it takes a measurement that is not there".into(),
    };
    let why = match &step.measured {
        SheetAnswer::Measured { at, .. } => format!(" Measured: {at}."),
        SheetAnswer::NotAsked => " Nothing is measured for it.".into(),
        SheetAnswer::NoConclusion { why } => format!(" No conclusion: {why}."),
    };
    format!("{}: {} Model: {model}.{why}", step.id, step.ask)
}

fn unit(step: &GradedStep) -> Unit {
    step.unit.into()
}

fn shown(step: &GradedStep, value: f64) -> String {
    match unit(step) {
        // What a change adds.
        Unit::Share => format!("{}{} %", if value > 0.0 { "+" } else { "" }, three_digits(value * 100.0)),
        Unit::Count => count(if value.abs() >= 10.0 { value.round() } else { value }),
        unit => unit.show(value),
    }
}

fn guess(step: &GradedStep) -> String {
    step.guess.map_or_else(|| "–".into(), |value| shown(step, value))
}

fn model(step: &GradedStep) -> String {
    step.model.as_ref().map_or_else(|| "–".into(), |figure| shown(step, figure.value))
}

fn model_grade(step: &GradedStep) -> String {
    match step.model_grade {
        Grade::None => "–".into(),
        ref grade => grade.to_string(),
    }
}

fn measured(step: &GradedStep) -> String {
    match &step.measured {
        SheetAnswer::Measured { value, interval: Some((low, high)), .. } => {
            format!("{} ({} to {})", shown(step, *value), shown(step, *low), shown(step, *high))
        }
        SheetAnswer::Measured { value, interval: None, .. } => {
            format!("{} (no interval)", shown(step, *value))
        }
        SheetAnswer::NotAsked => "–".into(),
        SheetAnswer::NoConclusion { .. } => "no conclusion".into(),
    }
}

#[cfg(test)]
mod tests {
    use krarup_analysis::graded::SheetUnit;
    use krarup_model::sheet::SheetFigure;

    use super::*;

    fn sheet() -> GradedSheet {
        GradedSheet {
            sealed: "2026-11-25 10:00:00 UTC".into(),
            trials: 6,
            changed: 0,
            before: 0,
            trials_there: 0,
            reworded: Vec::new(),
            steps: vec![GradedStep {
                id: "reads".into(),
                ask: "How many?".into(),
                unit: SheetUnit::PerSecond,
                guess: Some(6_000.0),
                model: Some(SheetFigure { value: 2_949.0, from: "bound of the link".into() }),
                measured: SheetAnswer::Measured {
                    value: 2_938.0,
                    interval: Some((2_930.0, 2_946.0)),
                    at: "read-only, 24 clients".into(),
                },
                grade: Grade::RightOrder { times: 2.04 },
                model_grade: Grade::Right,
            }],
        }
    }

    #[test]
    fn a_step_has_guess_model_and_measurement_in_one_row() {
        let words: Vec<TableValue> = [
            "reads",
            "6,000/s",
            "right order, 2.04 times too high",
            "2,949/s",
            "right",
            "2,938/s (2,930/s to 2,946/s)",
        ]
        .map(TableValue::from)
        .to_vec();
        assert_eq!(table(&sheet()).rows, [words]);
        assert_eq!(
            crate::csv::table(&numbers(&sheet())),
            "question,unit,guess,the_guess_is,model,the_model_is,measured,measured_low,measured_high\n\
             reads,1/s,6000,\"right order, 2.04 times too high\",2949,right,2938,2930,2946\n"
        );
        assert_eq!(
            origin(&sheet().steps[0]),
            "reads: How many? Model: bound of the link. Measured: read-only, 24 clients."
        );
        assert_eq!(notes(&sheet()), []);
    }

    #[test]
    fn a_broken_seal_is_told() {
        let broken = GradedSheet { changed: 4, before: 2, reworded: vec!["reads".into()], ..sheet() };
        let said: Vec<String> = notes(&broken).iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 3);
        assert!(said[0].contains("changed after they had been sealed: 4 of 6 trials"), "{said:?}");
        assert!(said[1].contains("2 of 6 trials were measured before"), "{said:?}");
        let gone = GradedSheet { sealed: String::new(), ..broken };
        assert!(notes(&gone)[0].text.contains("sheet.json is gone"));
    }

    #[test]
    fn trials_of_another_plan_count_as_measured_before() {
        assert!(table(&sheet()).caption.contains(", before anything was measured."));
        let late = GradedSheet { trials_there: 12, before: 2, ..sheet() };
        let said: Vec<String> = notes(&late).iter().map(ToString::to_string).collect();
        assert!(said.len() == 2 && said[1].contains("10 trials beside these had been measured"), "{said:?}");
        let sealed_anew = GradedSheet { trials_there: 6, changed: 6, ..sheet() };
        assert_eq!(notes(&sealed_anew).len(), 1, "they are these, and none beside them");
        let replaced = GradedSheet { trials_there: 1, ..sheet() };
        assert!(notes(&replaced)[0].text.starts_with("1 trial beside these"));
        assert!(!table(&replaced).caption.contains("before anything"), "{:?}", table(&replaced));
    }
}
