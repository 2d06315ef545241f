//! `krarup model`: networks solved, bounded, calibrated, changed, and set beside measurements.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use krarup_model::calibrate::{self, Calibration};
use krarup_model::solve::{Method, Solution};
use krarup_model::table::{Cell, Table, Unit};
use krarup_model::{Error, Network, form, limits, solve, whatif};
use krarup_report::document::{self, Block, Document, Note, Section};
use krarup_report::figures::{Axis, Figure, LineSeries, Lines, Plot, Point, Tint};
use krarup_report::{Page, csv, quantity, text};
use serde_json::json;

use crate::failure::Failure;

/// Say what a system of queues will do, and how far that can be believed.
///
/// A network file (TOML or JSON; `krarup model example` prints a commented one) is solved exactly where theory allows; what is
/// approximated is said, and what cannot be treated is refused by name. Measured rows become a model by `calibrate`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup model example > network.toml && krarup model solve network.toml\n  \
    krarup model whatif network.toml --change workers.size=128 --change memcached.replicas=3\n  \
    krarup model calibrate rows.csv --unit ms --cores 8 --out model.json && krarup model predict model.json --population 96,192 --workers 64")]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Print a commented network file with every key
    Example,
    /// Solve a network: throughput and response at every population, and each station
    Solve(SolveArgs),
    /// What no such network can exceed: capacities, bounds, the knee; and which station matters most
    Bounds(BoundsArgs),
    /// Make a model of measured rows (population, workers, throughput, response, wait)
    Calibrate(CalibrateArgs),
    /// Predict other configurations with a calibrated model, with intervals
    Predict(PredictArgs),
    /// Change something and solve before and after
    Whatif(WhatifArgs),
    /// Set a network's solution or a calibrated model beside measured rows
    Compare(CompareArgs),
}

#[derive(Args)]
struct Output {
    /// Print JSON with full precision instead of tables
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV with full precision instead of tables
    #[arg(long)]
    csv: bool,
    /// Also write a page with figures into this directory
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum MethodArg {
    Auto,
    Exact,
    Linearizer,
    Schweitzer,
}

impl From<MethodArg> for Method {
    fn from(method: MethodArg) -> Self {
        match method {
            MethodArg::Auto => Self::Auto,
            MethodArg::Exact => Self::Exact,
            MethodArg::Linearizer => Self::Linearizer,
            MethodArg::Schweitzer => Self::Schweitzer,
        }
    }
}

#[derive(Args)]
struct SolveArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE")]
    network: PathBuf,
    /// How several closed classes are solved
    #[arg(long, value_enum, default_value = "auto")]
    method: MethodArg,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct BoundsArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE")]
    network: PathBuf,
    /// Populations to bound [default: some up to the network's own]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    population: Vec<u64>,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum UnitArg {
    S,
    Ms,
    Us,
}

impl UnitArg {
    fn seconds(self) -> f64 {
        match self {
            Self::S => 1.0,
            Self::Ms => 1e-3,
            Self::Us => 1e-6,
        }
    }
}

#[derive(Args)]
struct CalibrateArgs {
    /// The rows, CSV: population, workers, throughput, response, wait; times may end in _s, _ms, _us
    #[arg(value_name = "FILE")]
    rows: PathBuf,
    /// Unit of times whose column does not name one
    #[arg(long, value_enum, default_value = "s")]
    unit: UnitArg,
    /// Middlewares, where a column `wt` counts the workers of one
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    middlewares: u64,
    /// Cores of a middleware: offers the form of curve that knows them
    #[arg(long, value_name = "COUNT")]
    cores: Option<u32>,
    /// Seed of the prediction intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to write the model
    #[arg(long, value_name = "FILE", default_value = "model.json")]
    out: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct PredictArgs {
    /// A model that `calibrate` wrote
    #[arg(value_name = "FILE")]
    model: PathBuf,
    /// Numbers of clients
    #[arg(long, value_name = "N,…", value_delimiter = ',', required = true)]
    population: Vec<usize>,
    /// Numbers of workers, all middlewares together
    #[arg(long, value_name = "M,…", value_delimiter = ',', required = true)]
    workers: Vec<usize>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct WhatifArgs {
    /// The network, TOML or JSON
    #[arg(value_name = "FILE")]
    network: PathBuf,
    /// memcached.servers=4, .speed=2, .replicas=3; workers.size=128; get.population=300, .think=1ms, .rate=5000, .mix=9:1
    #[arg(long, value_name = "NAME.KEY=VALUE", required = true)]
    change: Vec<String>,
    /// How several closed classes are solved
    #[arg(long, value_enum, default_value = "auto")]
    method: MethodArg,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct CompareArgs {
    /// A network (TOML or JSON), or a model that `calibrate` wrote
    #[arg(value_name = "FILE")]
    model: PathBuf,
    /// Measured rows, CSV: as for calibrate; a network needs population, throughput and response only
    #[arg(value_name = "ROWS")]
    rows: PathBuf,
    /// Unit of times whose column does not name one
    #[arg(long, value_enum, default_value = "s")]
    unit: UnitArg,
    /// Middlewares, where a column `wt` counts the workers of one
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    middlewares: u64,
    #[command(flatten)]
    output: Output,
}

/// Everything a job has to say: tables for people, a value for programs, figures for the page.
struct Answer {
    title: String,
    notes: Vec<String>,
    tables: Vec<Table>,
    /// Tables with every row, where `tables` shows a selection.
    full: Option<Vec<Table>>,
    figures: Vec<Figure>,
    value: serde_json::Value,
}

pub(crate) fn run(args: &ModelArgs) -> Result<(), Failure> {
    let (answer, output) = match &args.job {
        Job::Example => {
            print!("{}", form::EXAMPLE);
            return Ok(());
        }
        Job::Solve(args) => (solved(args)?, &args.output),
        Job::Bounds(args) => (bounded(args)?, &args.output),
        Job::Calibrate(args) => (calibrated(args)?, &args.output),
        Job::Predict(args) => (predicted(args)?, &args.output),
        Job::Whatif(args) => (changed(args)?, &args.output),
        Job::Compare(args) => (compared(args)?, &args.output),
    };
    for note in &answer.notes {
        eprintln!("note: {note}");
    }
    if output.json {
        println!("{:#}", answer.value);
    } else {
        for (index, table) in
            answer.full.as_ref().filter(|_| output.csv).unwrap_or(&answer.tables).iter().enumerate()
        {
            if index > 0 {
                println!();
            }
            let shown = shown(table);
            if output.csv {
                print!("{}", csv::table(&shown));
            } else {
                println!("{}", shown.title);
                print!("{}", text::table(&shown));
            }
        }
    }
    if let Some(directory) = &output.html {
        let page = Page::of(&page(&answer))
            .write(directory)
            .map_err(|error| Failure::run(format!("{}: {error}", directory.display())))?;
        eprintln!("page: {}", page.display());
    }
    Ok(())
}

// ------------------------------------------------------------------------------------ the jobs

fn solved(args: &SolveArgs) -> Result<Answer, Failure> {
    let network = read_network(&args.network)?;
    let solution =
        solve::solve(&network, args.method.into()).map_err(|error| failed(&args.network, &error))?;
    let classes = solution.class_table();
    let stations = [Some(solution.station_table()), solution.pool_table()];
    let with_stations = |classes: Table| {
        std::iter::once(classes).chain(stations.iter().flatten().cloned()).collect::<Vec<_>>()
    };
    let bounds = limits::of(&network).ok();
    let figures = if solution.points.len() > 1 {
        vec![classes_figure(&solution, bounds.as_ref(), &[]), stations_figure(&solution)]
    } else {
        Vec::new()
    };
    Ok(Answer {
        title: format!("{}: solution", name(&network)),
        notes: solution.notes.clone(),
        tables: with_stations(thinned(&classes)),
        full: Some(with_stations(classes)),
        figures,
        value: json!(solution),
    })
}

fn bounded(args: &BoundsArgs) -> Result<Answer, Failure> {
    let network = read_network(&args.network)?;
    let fail = |error: Error| failed(&args.network, &error);
    let limits = limits::of(&network).map_err(fail)?;
    let most = network.classes[0].population().unwrap_or(1);
    let populations = if args.population.is_empty() { selection(most) } else { args.population.clone() };
    let mut tables = vec![limits.table()];
    let mut notes = Vec::new();
    if network.classes[0].population().is_some() {
        tables.push(limits.bounds_table(&populations));
        notes.push(format!("the knee is at N* = {}", krarup_units::text::count(limits.knee)));
    }
    if let Some(bottleneck) = &limits.bottleneck {
        notes.push(format!(
            "the bottleneck is {bottleneck}: {}/s",
            krarup_units::text::count(limits.capacity)
        ));
    }
    match whatif::sensitivity(&network, Method::Auto) {
        Ok(table) => tables.push(table),
        Err(error) => notes.push(format!("no sensitivities: {error}")),
    }
    let value = json!({ "limits": limits, "tables": tables });
    Ok(Answer {
        title: format!("{}: bounds", name(&network)),
        notes,
        tables,
        full: None,
        figures: Vec::new(),
        value,
    })
}

fn calibrated(args: &CalibrateArgs) -> Result<Answer, Failure> {
    let source = read(&args.rows)?;
    let fail = |error: Error| failed(&args.rows, &error);
    let rows = calibrate::read_csv(&source, args.unit.seconds(), args.middlewares).map_err(fail)?;
    let calibration = calibrate::calibrate(&rows, args.cores, args.seed).map_err(fail)?;
    let json = serde_json::to_string_pretty(&calibration).map_err(|e| Failure::run(e.to_string()))?;
    fs::write(&args.out, json).map_err(|error| Failure::run(format!("{}: {error}", args.out.display())))?;
    eprintln!("model: {}", args.out.display());
    let mut notes = Vec::new();
    let mut tables = vec![calibration.forms_table(), calibration.rows_table()];
    if let Some(broken) = calibration.broken_table() {
        notes.push(
            "some rows break laws that hold for every system: find out why before you believe the model"
                .into(),
        );
        tables.push(broken);
    }
    let title = format!("{}: calibration", args.rows.display());
    Ok(Answer { title, notes, tables, full: None, figures: Vec::new(), value: json!(calibration) })
}

fn predicted(args: &PredictArgs) -> Result<Answer, Failure> {
    let calibration = read_calibration(&args.model, &read(&args.model)?)?;
    let configurations: Vec<(usize, usize)> = args
        .workers
        .iter()
        .flat_map(|workers| args.population.iter().map(|population| (*population, *workers)))
        .collect();
    let predictions =
        calibration.predict_all(&configurations).map_err(|error| failed(&args.model, &error))?;
    let series = args.workers.iter().enumerate().map(|(index, workers)| LineSeries {
        name: format!("{workers} workers"),
        tint: Tint::Series(index),
        points: predictions
            .iter()
            .filter(|p| p.answer.workers == *workers)
            .map(|p| Point {
                x: p.answer.population as f64,
                y: [p.throughput, p.response]
                    .map(|i| {
                        let interval = Some((i.low, i.high));
                        Some(document::Measured {
                            value: i.value,
                            interval,
                            n: calibration.rows.len() as u64,
                        })
                    })
                    .into(),
            })
            .collect(),
    });
    let caption = "Bars: 95 % intervals for one new measurement, from drawing the calibration rows again.";
    let figure = lines("predictions", "Predictions", caption, series.collect());
    Ok(Answer {
        title: format!("{}: predictions", args.model.display()),
        notes: vec![format!("calibrated on {} rows, {}", calibration.rows.len(), calibration.form.name())],
        tables: vec![calibrate::prediction_table(&predictions)],
        full: None,
        figures: vec![figure],
        value: json!({ "calibrated_on": calibration.rows, "predictions": predictions }),
    })
}

fn changed(args: &WhatifArgs) -> Result<Answer, Failure> {
    let network = read_network(&args.network)?;
    let fail = |error: Error| failed(&args.network, &error);
    let changes = args
        .change
        .iter()
        .map(|text| text.parse())
        .collect::<Result<Vec<whatif::Change>, Error>>()
        .map_err(fail)?;
    let (before, after, table) = whatif::what_if(&network, &changes, args.method.into()).map_err(fail)?;
    Ok(Answer {
        title: format!("{}: {}", name(&network), args.change.join(", ")),
        notes: after.notes.clone(),
        value: json!({ "changes": args.change, "before": before.last(), "after": after.last(), "table": table }),
        tables: vec![table],
        full: None,
        figures: Vec::new(),
    })
}

fn compared(args: &CompareArgs) -> Result<Answer, Failure> {
    let source = read(&args.model)?;
    let rows = read(&args.rows)?;
    let fail = |error: Error| failed(&args.rows, &error);
    let mut figures = Vec::new();
    let mut notes = Vec::new();
    let is_calibration = source.trim_start().starts_with('{') && source.contains("\"residuals\"");
    let table = if is_calibration {
        let calibration = read_calibration(&args.model, &source)?;
        let rows = calibrate::read_csv(&rows, args.unit.seconds(), args.middlewares).map_err(fail)?;
        limits::compare_calibration(&calibration, &rows).map_err(fail)?
    } else {
        let network = parse_network(&args.model, &source)?;
        let measured = calibrate::read_measured(&rows, args.unit.seconds()).map_err(fail)?;
        let solution = solve::solve(&network, Method::Auto).map_err(|error| failed(&args.model, &error))?;
        notes.extend(solution.notes.clone());
        figures.push(classes_figure(&solution, limits::of(&network).ok().as_ref(), &measured));
        limits::compare_solution(&solution, &measured)
    };
    let error = limits::mean_error(&table);
    match error {
        Some((x, r)) => notes.push(format!(
            "mean error of rows the model had not seen: X {}, R {}",
            quantity::Unit::Share.show(x),
            quantity::Unit::Share.show(r)
        )),
        None => notes.push("no row that the model had not seen: its errors are no evidence".into()),
    }
    Ok(Answer {
        title: format!("{}: measured and model", args.model.display()),
        notes,
        value: json!({ "table": table, "mean_error": error }),
        tables: vec![table],
        full: None,
        figures,
    })
}

// ------------------------------------------------------------------------------------ files

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn read_network(path: &Path) -> Result<Network, Failure> {
    parse_network(path, &read(path)?)
}

fn parse_network(path: &Path, source: &str) -> Result<Network, Failure> {
    let json = path.extension().is_some_and(|extension| extension == "json");
    let network = if json { form::from_json(source) } else { form::from_toml(source) };
    network.map_err(|error| failed(path, &error))
}

fn read_calibration(path: &Path, source: &str) -> Result<Calibration, Failure> {
    serde_json::from_str(source).map_err(|error| {
        Failure::usage(format!("{}, line {}: not a calibrated model: {error}", path.display(), error.line()))
            .hint("krarup model calibrate ROWS --out FILE writes one")
    })
}

fn failed(path: &Path, error: &Error) -> Failure {
    let message = match error {
        Error::Form { line: Some(line), what, .. } => format!("{}, line {line}: {what}", path.display()),
        other => format!("{}: {other}", path.display()),
    };
    let failure = match error {
        Error::Form { .. } | Error::Invalid { .. } => Failure::usage(message),
        _ => Failure::run(message),
    };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn name(network: &Network) -> &str {
    if network.name.is_empty() { "the network" } else { &network.name }
}

// ------------------------------------------------------------------------------------ what is shown

/// 1, 2, 5, 10, … and the last.
fn selection(most: u64) -> Vec<u64> {
    let decades = std::iter::successors(Some(1_u64), |decade| decade.checked_mul(10));
    let mut chosen: Vec<u64> =
        decades.flat_map(|decade| [1, 2, 5].map(|digit| decade.saturating_mul(digit))).collect();
    chosen.retain(|n| *n < most);
    chosen.push(most);
    chosen
}

/// Some of the populations, for people; CSV and JSON have them all.
fn thinned(table: &Table) -> Table {
    let most = table.rows.len() as u64;
    if most <= 12 {
        return table.clone();
    }
    let rows = selection(most).iter().map(|n| table.rows[*n as usize - 1].clone()).collect();
    Table { rows, ..table.clone() }
}

fn unit(unit: Unit) -> quantity::Unit {
    match unit {
        Unit::Text => quantity::Unit::Text,
        Unit::Count => quantity::Unit::Count,
        Unit::PerSecond => quantity::Unit::PerSecond,
        Unit::Seconds => quantity::Unit::Seconds,
        Unit::Share => quantity::Unit::Share,
    }
}

fn shown(table: &Table) -> document::Table {
    let name: String =
        table.title.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    document::Table {
        name: name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-"),
        title: table.title.clone(),
        caption: String::new(),
        columns: table.columns.iter().map(|c| document::Column::new(&c.name, unit(c.unit))).collect(),
        rows: table
            .rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|cell| match cell {
                        Cell::Number(value) => document::Value::Number(*value),
                        Cell::Text(text) => document::Value::Text(text.clone()),
                        Cell::Empty => document::Value::Missing,
                    })
                    .collect()
            })
            .collect(),
    }
}

fn page(answer: &Answer) -> Document {
    let figures = Section {
        title: "Figures".into(),
        blocks: answer.figures.iter().cloned().map(Block::Figure).collect(),
    };
    let tables = Section {
        title: "Tables".into(),
        blocks: answer
            .full
            .as_ref()
            .unwrap_or(&answer.tables)
            .iter()
            .map(|t| Block::Table(shown(t)))
            .collect(),
    };
    Document {
        title: answer.title.clone(),
        notes: answer.notes.iter().map(Note::hint).collect(),
        sections: [figures, tables].into_iter().filter(|s| !s.blocks.is_empty()).collect(),
        footer: format!("krarup {}", env!("CARGO_PKG_VERSION")),
        ..Document::default()
    }
}

fn exactly(value: f64) -> Option<document::Measured> {
    value.is_finite().then_some(document::Measured { value, interval: None, n: 1 })
}

fn lines(name: &str, title: &str, caption: &str, series: Vec<LineSeries>) -> Figure {
    let plot = Plot::Lines(Lines {
        x: Axis::linear("clients N", quantity::Unit::Count),
        y: vec![
            Axis::linear("throughput X", quantity::Unit::PerSecond),
            Axis::linear("response time R", quantity::Unit::Seconds),
        ],
        series,
    });
    figure(name, title, caption, plot)
}

fn figure(name: &str, title: &str, caption: &str, plot: Plot) -> Figure {
    let (name, title, caption) = (name.into(), title.into(), caption.into());
    Figure { name, title, caption, definitions: Vec::new(), plot, notes: Vec::new() }
}

/// X and R of the model over N, between their bounds, with measured points.
fn classes_figure(
    solution: &Solution,
    limits: Option<&limits::Limits>,
    measured: &[calibrate::Measured],
) -> Figure {
    let classes = || solution.points.iter().flat_map(|p| &p.classes);
    let point = |n: f64, x: f64, r: f64| Point { x: n, y: vec![exactly(x), exactly(r)] };
    let mut series = vec![LineSeries {
        name: "model".into(),
        tint: Tint::Series(0),
        points: classes()
            .filter_map(|c| c.population.map(|n| point(n as f64, c.throughput, c.response)))
            .collect(),
    }];
    if let Some(limits) = limits {
        let bound = limits.bounds_table(&classes().filter_map(|c| c.population).collect::<Vec<_>>());
        let column = |name: &str| bound.numbers(name);
        let points = column("population")
            .into_iter()
            .zip(column("throughput at most"))
            .zip(column("response at least"))
            .filter_map(|((n, x), r)| Some(point(n?, x?, r?)))
            .collect();
        series.push(LineSeries { name: "bound".into(), tint: Tint::Series(1), points });
    }
    if !measured.is_empty() {
        let points = measured
            .iter()
            .map(|m| Point {
                x: m.population as f64,
                y: vec![exactly(m.throughput), m.response.and_then(exactly)],
            })
            .collect();
        series.push(LineSeries { name: "measured".into(), tint: Tint::Series(2), points });
    }
    let caption = "The bound is the most X and the least R that any network of these demands can have.";
    lines("throughput-and-response", "Throughput and response against clients", caption, series)
}

/// U and Q of each station over N.
fn stations_figure(solution: &Solution) -> Figure {
    let stations = &solution.last().stations;
    let series = stations.iter().enumerate().map(|(index, station)| LineSeries {
        name: station.name.clone(),
        tint: Tint::Series(index),
        points: solution
            .points
            .iter()
            .filter_map(|p| {
                let (n, there) = (p.classes[0].population?, &p.stations[index]);
                Some(Point {
                    x: n as f64,
                    y: vec![exactly(there.utilization), there.queue.and_then(exactly)],
                })
            })
            .collect(),
    });
    let plot = Plot::Lines(Lines {
        x: Axis::linear("clients N", quantity::Unit::Count),
        y: vec![
            Axis::linear("utilization U (a delay: mean number)", quantity::Unit::Count),
            Axis::linear("queue length Q", quantity::Unit::Count),
        ],
        series: series.collect(),
    });
    let caption = "U is the share of its servers that are busy; Q counts those in service, too.";
    figure("stations", "Stations against clients", caption, plot)
}
