//! What the analysis makes of the numbers: the least that suffices, the law of the response times,
//! the factors that matter.

use krarup_analysis::cell::Cell;
use krarup_analysis::change::{Measure, MeasureChange};
use krarup_analysis::configurations::Configuration;
use krarup_analysis::demands::{MeasuredDemand, Resource};
use krarup_analysis::design::{Model, Study};
use krarup_analysis::distribution::{QUANTILES, ResponseShape};
use krarup_analysis::relative::Relative;
use krarup_analysis::results::Results;
use krarup_analysis::trial::CellLevels;
use krarup_record::{quantities, stamps};
use krarup_stats::law::Law;
use krarup_units::{Unit, text};

use crate::comparison::change_in_words;
use crate::document::{Block, Column, EstimateCell, Note, Table, TableValue};
use crate::estimates::{self, measured};
use crate::figures::{Axis, Figure, Plot, Scatter, ScatterGroup, Tint};
use crate::tables::name_part;
use crate::workloads::{clients, drawn_at_limits, not_drawn};

/// For each mix its best cell, and the least that comes near.
pub(crate) fn configurations(results: &Results) -> Option<Table> {
    let row = |configuration: &Configuration, best: bool| {
        let cell = results.cell(if best { &configuration.best } else { &configuration.least })?;
        let middleware = cell.middleware.as_ref();
        Some(vec![
            TableValue::from(configuration.mix.as_str()),
            TableValue::from(if best { "most throughput" } else { "least within 5 % of it" }),
            TableValue::from(middleware.and_then(|m| m.workers).map(f64::from)),
            TableValue::from(f64::from(cell.levels.clients)),
            TableValue::Measured(measured(&cell.throughput)),
            TableValue::from(if best { 1.0 } else { configuration.share }),
            TableValue::Measured(measured(&cell.response.mean)),
            TableValue::from(middleware.map(|m| m.queue.mean.value)),
            TableValue::from(middleware.and_then(|m| m.queue_length).map(|length| length.value)),
            TableValue::from(middleware.map(|m| m.server.mean.value)),
        ])
    };
    let rows: Vec<Vec<TableValue>> = results
        .configurations
        .iter()
        .flat_map(|configuration| {
            // Where the best is the least, too, once suffices.
            let least = (configuration.best != configuration.least).then(|| row(configuration, false));
            [row(configuration, true), least.flatten()]
        })
        .flatten()
        .collect();
    (!rows.is_empty()).then(|| Table {
        name: "configurations".into(),
        title: "The most throughput, and the least that comes near to it".into(),
        caption: "For each mix the cell with the highest throughput, and among those within 5 % of it the one with the fewest workers, then the fewest \
                  clients, where that is another. A cell that is best of many is a little better by luck."
            .into(),
        columns: vec![
            Column::new("mix", Unit::Text),
            Column::new("configuration", Unit::Text),
            Column::new("workers", Unit::Count),
            Column::new("clients", Unit::Count),
            Column::of(quantities::THROUGHPUT),
            Column::new("of the most", Unit::Share),
            Column::of(quantities::RESPONSE_TIME),
            Column::of(stamps::QUEUE_TIME),
            Column::of(quantities::QUEUE_LENGTH),
            Column::of(stamps::SERVER_TIME),
        ],
        rows,
    })
}

/// Each cell beside the base that the spec names.
pub(crate) fn relative(results: &Results) -> Option<Block> {
    let in_numbers = |change: &MeasureChange| -> TableValue {
        let interval = change.ratio_interval.map(|interval| (interval.low - 1.0, interval.high - 1.0));
        let n = change.compared.unwrap_or(change.base.n + change.other.n);
        change.ratio.map(|ratio| EstimateCell { value: ratio - 1.0, interval, n }).into()
    };
    (!results.relative.is_empty()).then(|| {
        let words = relative_table(results, Unit::Text, change_in_words);
        Block::InWords(words, relative_table(results, Unit::Share, in_numbers))
    })
}

/// The table whose changes are what `shown` makes of them, in `unit`.
fn relative_table(results: &Results, unit: Unit, shown: impl Fn(&MeasureChange) -> TableValue) -> Table {
    let name = |levels: &CellLevels| format!("{}, {}", levels.workload, clients(levels.clients));
    let row = |one: &Relative| {
        let mut row = vec![TableValue::Text(name(&one.levels)), TableValue::Text(name(&one.base))];
        for change in one.changes.iter().filter(|change| change.measure != Measure::P99) {
            row.push(shown(change));
            row.push(TableValue::Text(change.verdict.to_string()));
        }
        row
    };
    Table {
        name: "relative".into(),
        title: "Change relative to the base".into(),
        caption: "Each cell beside the one that has the base's levels and is otherwise the same, over the repetitions that both have. In brackets stands Welch's 95 % \
                  interval, of the logarithms of the runs of both; where it covers 0 there is no conclusion. What is better or worse is so with an error of 5 % for all comparisons of this table together (Holm 1979)."
            .to_owned() + estimates::compared_early(results),
        columns: vec![
            Column::new("cell", Unit::Text),
            Column::new("base", Unit::Text),
            Column::new("throughput", unit),
            Column::new("which is", Unit::Text),
            Column::new("response time", unit),
            Column::new("and is", Unit::Text),
        ],
        rows: results.relative.iter().map(row).collect(),
    }
}

/// What a request demands of each resource; of many, those nearest to their bounds.
pub(crate) fn demands(results: &Results) -> Option<Table> {
    let row = |demand: &MeasuredDemand| {
        let what = match demand.resource {
            Resource::Processor => "processor",
            Resource::Link => "link",
        };
        vec![
            TableValue::from(demand.workload.as_str()),
            TableValue::Text(format!("{what} of {}", demand.name)),
            TableValue::Measured(measured(&demand.demand)),
            TableValue::from(demand.bound),
            TableValue::from(demand.reached),
        ]
    };
    let mut rows: Vec<Vec<TableValue>> = Vec::new();
    for verdict in &results.verdicts {
        let of_workload = results.demands.iter().filter(|demand| demand.workload == verdict.at.workload);
        rows.extend(of_workload.take(MOST_DEMANDS).map(row));
    }
    (!rows.is_empty()).then(|| Table {
        name: "demands".into(),
        title: "What a request demands, and how far each resource would go".into(),
        caption: "D by the utilization law B = X · D: a line through zero over the workload's cells, ± half its 95 % interval. The resource with the least X at 100 % is \
                  the bottleneck, if nothing else is; what it does without requests is in D, too."
            .into(),
        columns: vec![
            Column::new("workload", Unit::Text),
            Column::new("resource", Unit::Text),
            Column::named("demand D", quantities::SERVICE_DEMAND),
            Column::named("X at 100 %", quantities::CAPACITY),
            Column::new("reached", Unit::Share),
        ],
        rows,
    })
}

/// Resources that are far from full tell a reader nothing.
const MOST_DEMANDS: usize = 4;

/// The machine at each workload's limit, where it was watched.
pub(crate) fn machine(results: &Results) -> Option<Table> {
    let row = |cell: &Cell| {
        let machine = cell.machine.as_ref()?;
        let name = format!("{}, {}", cell.levels.workload, clients(cell.levels.clients));
        let lost: u64 = machine.lost.iter().map(|(_, packets)| packets).sum();
        let numbers = [
            machine.own,
            machine.foreign,
            machine.kernel,
            machine.steal,
            machine.run_queue,
            machine.switches,
            lost as f64,
        ];
        Some(std::iter::once(TableValue::from(name.as_str())).chain(numbers.map(TableValue::from)).collect())
    };
    let limits = results.verdicts.iter().filter_map(|verdict| results.cell(&verdict.at));
    let rows: Vec<Vec<TableValue>> = limits.filter_map(row).collect();
    (!rows.is_empty()).then(|| Table {
        name: "machine".into(),
        title: "The machine meanwhile".into(),
        caption: "Processors kept busy by the experiment's own programs, by others, by the kernel's own threads and interrupts, and taken away by the machine's \
                  host; threads that ran or were ready to; changes of threads; packets that links threw away. At the fewest clients that reach 95 % of each \
                  workload's highest throughput. Each trial's folder monitor has them second by second, by core, thread and link."
            .into(),
        columns: vec![
            Column::new("cell", Unit::Text),
            Column::new("own", Unit::Cores),
            Column::new("others", Unit::Cores),
            Column::new("kernel", Unit::Cores),
            Column::new("steal", Unit::Cores),
            Column::new("run queue", Unit::Count),
            Column::new("switches", Unit::PerSecond),
            Column::new("packets lost", Unit::Count),
        ],
        rows,
    })
}

/// Law and parameters in words.
fn in_words(law: Law) -> String {
    match law {
        Law::Exponential { mean } => format!("mean {}", text::duration(mean)),
        Law::Gamma { shape, scale } => {
            format!("shape {}, scale {}", text::three_digits(shape), text::duration(scale))
        }
        Law::LogNormal { mu, sigma } => {
            format!("median {}, σ {}", text::duration(mu.exp()), text::three_digits(sigma))
        }
        Law::Weibull { shape, scale } => {
            format!("shape {}, scale {}", text::three_digits(shape), text::duration(scale))
        }
    }
}

/// The laws of the response times, nearest first.
pub(crate) fn laws(results: &Results) -> Option<Table> {
    let rows = results.shapes.iter().flat_map(|shape| {
        let name = format!("{}, {}", shape.levels.workload, clients(shape.levels.clients));
        shape.laws.iter().map(move |candidate| {
            vec![
                TableValue::from(name.as_str()),
                TableValue::from(candidate.law.family().to_string().as_str()),
                TableValue::from(in_words(candidate.law).as_str()),
                TableValue::from(candidate.distance),
                TableValue::from(candidate.law.cov()),
                TableValue::from(shape.variation),
            ]
        })
    });
    let rows: Vec<Vec<TableValue>> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        name: "laws".into(),
        title: "Which law the response times look like".into(),
        caption: "Fitted to 200 quantiles at equal steps. The distance is the largest difference between the share of requests answered within a time and \
                  the share by the law; up to 5 % a law may stand for the measurement in a model. An exponential law has a coefficient of variation (CoV) of 1."
            .into(),
        columns: vec![
            Column::new("cell", Unit::Text),
            Column::new("law", Unit::Text),
            Column::new("parameters", Unit::Text),
            Column::new("distance", Unit::Share),
            Column::new("its CoV", Unit::Count),
            Column::new("measured CoV", Unit::Count),
        ],
        rows,
    })
}

/// Each fourth quantile is drawn.
const EACH: usize = 4;

/// Measured quantiles against those of the nearest law.
pub(crate) fn law_quantiles(results: &Results) -> Option<Figure> {
    let group = |(index, shape): (usize, &ResponseShape)| {
        let nearest = shape.laws.first()?.law.family();
        let n = results.cell(&shape.levels)?.repetitions.len() as u64;
        let point = |(place, (by_law, measured)): (usize, &(f64, f64))| {
            let share = krarup_analysis::distribution::share_of(place);
            (format!("{:.1} %", share * 100.0), *by_law, EstimateCell { value: *measured, interval: None, n })
        };
        Some(ScatterGroup {
            name: format!("{}, {}: {nearest}", shape.levels.workload, clients(shape.levels.clients)),
            tint: Tint::Series(index),
            // The last one, at 99.75 %, is always there.
            points: shape
                .quantiles
                .iter()
                .enumerate()
                .skip((QUANTILES - 1) % EACH)
                .step_by(EACH)
                .map(point)
                .collect(),
        })
    };
    let drawn = drawn_at_limits(results);
    let is_drawn = |shape: &&ResponseShape| {
        results.verdicts.len() == drawn.len() || drawn.iter().any(|(_, cell)| cell.levels == shape.levels)
    };
    let groups: Vec<ScatterGroup> =
        results.shapes.iter().filter(is_drawn).enumerate().filter_map(group).collect();
    let far: Vec<String> = results
        .shapes
        .iter()
        .filter(|shape| !shape.is_near())
        .map(|shape| shape.levels.workload.clone())
        .collect();
    let notes = if far.is_empty() {
        Vec::new()
    } else {
        vec![Note::hint(format!(
            "No law comes within 5 % of the response times of {}: use the measured quantiles themselves, or look for two kinds of requests mixed.",
            far.join("; ")
        ))]
    };
    (!groups.is_empty()).then(|| Figure {
        name: "response-time-qq".into(),
        title: "Response times: measured quantiles against those of the nearest law".into(),
        caption: "On the line, the measurement is as the law says; above it in the upper right corner, the slowest requests are slower than the law has them. \
                  Each point is a quantile, the mean of each repetition's own."
            .to_owned() + &not_drawn(results),
        quantities: vec![quantities::RESPONSE_TIME, quantities::PERCENTILE],
        notes,
        plot: Plot::Scatter(Scatter {
            x: Axis::linear("response time by the law", Unit::Seconds),
            y: Axis::of(quantities::RESPONSE_TIME, "measured"),
            diagonal: true,
            groups,
        }),
    })
}

/// Everything about a 2^k·r design.
pub(crate) fn studies(results: &Results) -> Vec<Block> {
    of_all(&results.studies)
}

fn of_all(studies: &[Study]) -> Vec<Block> {
    let stems: Vec<String> = studies.iter().map(file_stem).collect();
    let of = |(place, one): (usize, &Study)| {
        // Where letters and digits do not tell two parts apart, the later one has its number.
        let is_taken = stems[..place].contains(&stems[place]);
        let number = if is_taken { format!("-{}", place + 1) } else { String::new() };
        study(one, &format!("{}{number}", stems[place]))
    };
    studies.iter().enumerate().flat_map(of).collect()
}

/// The cells that it is of, in the words of a sentence; empty where it is of all.
fn part(study: &Study) -> String {
    let levels: Vec<String> = study.part.iter().map(|(name, level)| format!("{name} {level}")).collect();
    levels.join(", ")
}

/// Before a title: the cells that it is of.
fn of_part(study: &Study) -> String {
    if study.part.is_empty() { String::new() } else { format!("{}: ", part(study)) }
}

/// Its blocks; the names of their files end in this stem.
fn study(study: &Study, stem: &str) -> Vec<Block> {
    let name = study.measure.name();
    let levels: Vec<String> =
        study.factors.iter().map(|(name, low, high)| format!("{name} (−1: {low}, +1: {high})")).collect();
    let effects = &study.effects;
    let choice = format!(
        "{}{}: the {} model, because {}. {} runs of each cell. Factors: {}.",
        capital(&of_part(study)),
        if study.part.is_empty() { capital(name) } else { name.to_owned() },
        study.model,
        study.choice,
        effects.repetitions,
        levels.join(", ")
    );
    let (table, figure) = (effects_block(study, stem), residuals(study, stem));
    let mut blocks = vec![Block::Paragraph(choice), table, Block::Figure(figure)];
    if !study.qq.is_empty() {
        blocks.push(Block::Figure(normal_quantiles(study, stem)));
    }
    blocks
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The name of a file: letters and digits of the levels that it is of, and the measure.
fn file_stem(study: &Study) -> String {
    let letters = |text: &str| {
        let text = text.to_lowercase();
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
    };
    let (part, measure) = (letters(&part(study)), letters(study.measure.name()));
    format!("{}-{measure}", name_part(&part)).trim_start_matches('-').to_owned()
}

/// The effects. Where they multiply, the mean is no ratio as they are: it stands there in words.
fn effects_block(study: &Study, stem: &str) -> Block {
    let numbers = effects_table(study, stem);
    if study.model == Model::Multiplicative
        && let TableValue::Measured(mean) = numbers.rows[0][1]
    {
        let show = |value: f64| measure_unit(study).show(value);
        let interval = mean.interval.map(|(low, high)| format!(" ({} to {})", show(low), show(high)));
        let mut words = numbers.clone();
        words.rows[0][1] = TableValue::Text(show(mean.value) + &interval.unwrap_or_default());
        return Block::InWords(words, numbers);
    }
    Block::Table(numbers)
}

fn effects_table(study: &Study, stem: &str) -> Table {
    let multiplied = study.model == Model::Multiplicative;
    let shown = |estimate: &krarup_stats::Estimate| {
        let estimate = if multiplied { estimate.map(f64::exp).ok()? } else { *estimate };
        Some(EstimateCell {
            value: estimate.value,
            interval: Some((estimate.interval.low, estimate.interval.high)),
            n: estimate.n,
        })
    };
    let mut rows = vec![vec![
        TableValue::from("mean"),
        shown(&study.effects.mean).into(),
        TableValue::Missing,
        TableValue::from(""),
    ]];
    rows.extend(study.effects.effects.iter().map(|effect| {
        vec![
            TableValue::from(effect.name.as_str()),
            shown(&effect.estimate).into(),
            TableValue::from(effect.share),
            TableValue::from(if effect.estimate.differs_from_zero() { "yes" } else { "no" }),
        ]
    }));
    let blocks = study.effects.blocks;
    let of_blocks = blocks.map(|blocks| ("repetitions", blocks.share)).into_iter();
    rows.extend(of_blocks.chain([("error", study.effects.error_share)]).map(|(name, share)| {
        vec![TableValue::from(name), TableValue::Missing, TableValue::from(share), TableValue::from("")]
    }));
    let how = if blocks.is_some() {
        "Effects are taken within repetitions, since the runs of one meet the machine in the same state. What repetitions differ by stands beside the error; \
         each interval is from one value of each repetition."
    } else {
        "The cells have fewer than two repetitions that are known to be common, so that all runs are taken to be independent: what repetitions differ by is in the error."
    };
    let meaning = if multiplied {
        format!(
            "An effect of 1.2 multiplies by 1.2 at the high level and divides by it at the low one; the mean is geometric, in the unit of the {}.",
            study.measure.name()
        )
    } else {
        "An effect is half of what going from the low level to the high one changes.".into()
    };
    Table {
        name: format!("effects-{stem}"),
        title: capital(&format!(
            "{}effects on {}, {} model",
            of_part(study),
            study.measure.name(),
            study.model
        )),
        caption: format!(
            "{meaning} ± is half the 95 % interval. {how} The share of variation says how much a factor matters; whether it differs from none is another question."
        ),
        columns: vec![
            Column::new("factor", Unit::Text),
            Column::new("effect", unit(study)),
            Column::new("share of variation", Unit::Share),
            Column::new("differs from none", Unit::Text),
        ],
        rows,
    }
}

fn scatter(
    study: &Study,
    name: String,
    title: &str,
    caption: &str,
    axes: [Axis; 2],
    points: &[(f64, f64)],
) -> Figure {
    let [x, y] = axes;
    let point = |(number, (x, y)): (usize, &(f64, f64))| {
        (format!("run {}", number + 1), *x, EstimateCell { value: *y, interval: None, n: 1 })
    };
    Figure {
        name,
        title: capital(title),
        caption: caption.to_owned(),
        quantities: vec![if study.measure == Measure::Throughput {
            quantities::THROUGHPUT
        } else {
            quantities::RESPONSE_TIME
        }],
        notes: Vec::new(),
        plot: Plot::Scatter(Scatter {
            x,
            y,
            diagonal: false,
            groups: vec![ScatterGroup {
                name: study.measure.name().to_owned(),
                tint: Tint::Series(0),
                points: points.iter().enumerate().map(point).collect(),
            }],
        }),
    }
}

/// In which unit effects and residuals are.
fn unit(study: &Study) -> Unit {
    match study.model {
        Model::Multiplicative => Unit::Count,
        Model::Additive => measure_unit(study),
    }
}

/// In which unit it was measured.
fn measure_unit(study: &Study) -> Unit {
    if study.measure == Measure::Throughput { Unit::PerSecond } else { Unit::Seconds }
}

fn of(study: &Study) -> String {
    let logarithm = if study.model == Model::Multiplicative { "logarithm of " } else { "" };
    format!("{logarithm}{}", study.measure.name())
}

fn residuals(study: &Study, stem: &str) -> Figure {
    let x = format!("{}, by the model", study.measure.name());
    let (x, points, caption) = match study.model {
        Model::Additive => (
            Axis::linear(x, measure_unit(study)),
            study.residuals.clone(),
            "Each point is a run: measured − the model's. A cloud without a shape is as it should be; a funnel asks for the multiplicative model.",
        ),
        // An axis of ratios: of logarithms, 0 may lie far beside the points.
        Model::Multiplicative => (
            Axis::log(x, measure_unit(study)),
            study.residuals.iter().map(|(predicted, residual)| (predicted.exp(), *residual)).collect(),
            "Each point is a run: the logarithm of measured ÷ the model's. A cloud without a shape is as it should be; a funnel says that errors do not grow in proportion either.",
        ),
    };
    let blocks =
        if study.effects.blocks.is_some() { " What repetitions differ by is in the model." } else { "" };
    scatter(
        study,
        format!("residuals-{stem}"),
        &format!("{}residuals of {} against what the model says", of_part(study), of(study)),
        &(caption.to_owned() + blocks),
        [x, Axis::linear("residual", unit(study))],
        &points,
    )
}

fn normal_quantiles(study: &Study, stem: &str) -> Figure {
    let axes = [Axis::linear("normal quantile", Unit::Count), Axis::linear("residual", unit(study))];
    scatter(
        study,
        format!("residual-quantiles-{stem}"),
        &format!("{}residuals of {} against quantiles of the normal law", of_part(study), of(study)),
        "On a straight line, errors are normal, as the intervals take them to be.",
        axes,
        &study.qq,
    )
}

#[cfg(test)]
mod tests {
    use krarup_analysis::design::DesignReason;
    use krarup_stats::effects::{KnownError, recover};
    use krarup_stats::factorial::TwoLevel;

    use super::*;
    use crate::figures::AxisScale;

    /// A study whose effects multiply, by the logarithms of two means; each effect has ± 0.29.
    fn multiplied(measure: Measure, means: [f64; 2]) -> Study {
        let error = KnownError::HalfWidth { half: 0.29, level: 0.95 };
        Study {
            part: Vec::new(),
            measure,
            model: Model::Multiplicative,
            choice: DesignReason::WideRange { ratio: 10.0 },
            factors: vec![("servers".into(), "1".into(), "3".into())],
            effects: recover(&["servers"], &means, 2, error, 0.95).unwrap(),
            residuals: means.map(|mean| (mean, 0.1)).to_vec(),
            qq: Vec::new(),
        }
    }

    #[test]
    fn two_parts_of_the_same_letters_have_files_of_their_own() {
        let of = |level: &str| Study {
            part: vec![("size".into(), level.into())],
            qq: vec![(-1.0, -0.1), (1.0, 0.1)],
            ..multiplied(Measure::Throughput, [-0.3, 0.3])
        };
        let blocks = of_all(&[of("<1KiB"), of(">1KiB")]);
        let names: Vec<&str> = blocks
            .iter()
            .filter_map(|block| match block {
                Block::InWords(words, numbers) if words.name == numbers.name => Some(words.name.as_str()),
                Block::Figure(figure) => Some(figure.name.as_str()),
                _ => None,
            })
            .collect();
        assert!(names.len() == 6 && names[0] == "effects-size-1kib-throughput", "{names:?}");
        assert!((1..6).all(|place| !names[..place].contains(&names[place])), "{names:?}");
        // A file's name has 255 bytes at most.
        let long = file_stem(&of(&"x".repeat(230)));
        assert!(long.len() < 200 && long.ends_with("x-throughput"), "{long}");
    }

    #[test]
    fn what_repetitions_differ_by_stands_beside_the_error() {
        let independent = multiplied(Measure::Throughput, [-0.3, 0.3]);
        let table = effects_table(&independent, "s");
        assert!(table.rows.len() == 3 && table.caption.contains("taken to be independent"), "{table:?}");
        assert!(!residuals(&independent, "s").caption.contains("repetitions"));
        let cells = [100.0, 120.0].map(|mean| vec![mean - 18.0, mean + 18.0]).to_vec();
        let design = TwoLevel::new(&["servers"], cells).unwrap();
        let effects = design.effects_in_blocks(0.95).unwrap();
        let study = Study { model: Model::Additive, effects, ..independent };
        let table = effects_table(&study, "s");
        let names: Vec<String> = table.rows.iter().map(|row| format!("{:?}", row[0])).collect();
        assert!(names[2].contains("repetitions") && names[3].contains("error"), "{names:?}");
        // Of a variation of 1,696 the factor has 400.
        assert!(matches!(table.rows[2][2], TableValue::Number(share) if (share - 0.764).abs() < 0.001));
        assert!(table.caption.contains("within repetitions"), "{}", table.caption);
        assert!(residuals(&study, "s").caption.contains("repetitions differ by is in the model"));
    }

    #[test]
    fn a_mean_beside_ratios_has_its_unit() {
        let study = multiplied(Measure::Response, [200e-6_f64.ln(), 400e-6_f64.ln()]);
        let Block::InWords(words, numbers) = effects_block(&study, "s") else {
            panic!("the mean has its unit")
        };
        let shown = crate::text::table(&words);
        assert!(shown.contains("283 µs (212 µs to 378 µs)") && shown.contains("(1.06 to 1.8"), "{shown}");
        assert!(words.caption.contains("in the unit of the response time"), "{}", words.caption);
        assert!(
            matches!(numbers.rows[0][1], TableValue::Measured(mean) if (mean.value - 282.8e-6).abs() < 1e-7)
        );
    }

    #[test]
    fn residuals_of_ratios_lie_along_an_axis_of_ratios() {
        let study = multiplied(Measure::Response, [200e-6_f64.ln(), 400e-6_f64.ln()]);
        let figure = residuals(&study, "s");
        assert!(figure.caption.contains("do not grow in proportion either"), "{}", figure.caption);
        let Plot::Scatter(scatter) = figure.plot else { panic!("points are drawn") };
        assert_eq!((scatter.x.scale, scatter.x.unit), (AxisScale::Log, Unit::Seconds));
        assert_eq!((scatter.y.scale, scatter.y.unit), (AxisScale::Linear, Unit::Count));
        assert!((scatter.groups[0].points[0].1 - 200e-6).abs() < 1e-9, "{scatter:?}");
    }

    #[test]
    fn an_effect_that_multiplies_has_both_ends_of_its_interval() {
        let table = effects_table(&multiplied(Measure::Throughput, [-0.3, 0.3]), "s");
        for shown in [crate::markdown::table(&table), crate::text::table(&table)] {
            assert!(shown.contains("(1.01 to 1.8"), "{shown}");
        }
        assert!(table.full_caption().contains("both its ends stand in brackets"), "{}", table.full_caption());
    }
}
