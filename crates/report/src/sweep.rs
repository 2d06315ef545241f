//! The report of a sweep: results of the analysis, put into words, tables and figures.

use krarup_analysis::cell::{Cell, ProcessLoad};
use krarup_analysis::results::{ProcessorLimit, Results};
use krarup_analysis::saturation::parts;
use krarup_analysis::trial::{HostLink, StretchOperation};
use krarup_analysis::verdict::{Bottleneck, ResponsePart, Verdict};
use krarup_record::scaled::ScaledTestbed;
use krarup_record::watch::Watch;
use krarup_record::{quantities, stamps};
use krarup_units::{Unit, text};

use crate::document::{Block, Column, Document, Finding, Note, Section, Table, TableValue, VerdictLine};
use crate::estimates::{half_of, measured};
use crate::figures::Figure;
use crate::headroom;
use crate::history;
use crate::inside_figures::{by_operation, inside, inside_percentiles, percentiles_by_factor};
use crate::sheet;
use crate::study_figures;
use crate::sweep_figures as figures;
use crate::sweep_model;
use crate::sweep_notes::{Topic, notes};
use crate::tidy;
use crate::workloads::{at_limits, clients, load_of};

/// The whole report. `footer` names the program and its version.
pub fn document(results: &Results, footer: &str) -> Document {
    let mut sections: Vec<Section> = sheet::section(results).into_iter().collect();
    sections.push(first_section(results));
    sections.extend(results.history.as_ref().map(history::section));
    sections.extend(section(
        "Where the time goes",
        [
            figure(figures::breakdown(results)),
            figure(inside(results)),
            breakdown_table(results).map(Block::Table),
        ],
    ));
    sections.extend(section("Before and after each fault", [course(results).map(Block::Table)]));
    sections.extend(section(
        "How the response times are distributed",
        [
            figure(figures::histogram(results)),
            figure(figures::over_time(results)),
            figure(inside_percentiles(results)),
            figure(study_figures::law_quantiles(results)),
            study_figures::laws(results).map(Block::Table),
        ],
    ));
    let operations: Vec<Block> =
        by_operation(results).into_iter().filter_map(|one| figure(Some(one))).collect();
    if !operations.is_empty() {
        sections.push(Section { title: "Each operation apart".into(), blocks: operations });
    }
    let studies = study_figures::studies(results);
    if !studies.is_empty() {
        sections.push(Section { title: "Which factors matter".into(), blocks: studies });
    }
    sections.extend(section("One run, second by second", [figure(figures::run(results))]));
    sections.extend(section(
        "Utilization",
        [
            load_table(results).map(Block::Table),
            study_figures::machine(results).map(Block::Table),
            study_figures::demands(results).map(Block::Table),
            link_table(results).map(Block::Table),
            server_table(results).map(Block::Table),
        ],
    ));
    sections.extend(section("Whether it adds up", [figure(figures::interactive_law(results))]));
    sections.extend(sweep_model::predictions(results));
    sections.extend(section("What headroom says", [headroom::of_results(results)]));
    sections
        .extend(section("Whether the machine stayed the same", [anchor_table(results).map(Block::Table)]));
    sections.push(measurement(results));
    Document {
        title: results.title.clone(),
        subtitle: subtitle(results),
        summary: results.verdicts.iter().map(finding).chain(model_findings(results)).collect(),
        facts: Vec::new(),
        notes: notes(results, Topic::Whole),
        quantities: vec![quantities::KNEE],
        sections,
        footer: footer.to_owned(),
    }
}

/// What was asked for: throughput, response time, and the cells.
fn first_section(results: &Results) -> Section {
    let drawn = [
        figure(Some(figures::throughput(results))),
        figure(Some(figures::percentiles(results))),
        figure(figures::tails(results)),
        Some(Block::Table(table(results))),
        Some(Block::Data(tidy::cells(results))),
        Some(Block::Data(tidy::trials(results))),
        figure(Some(figures::response_at_throughput(results))),
    ];
    let mut blocks: Vec<Block> = drawn.into_iter().flatten().collect();
    if !matches!(blocks.first(), Some(Block::Figure(first)) if !first.notes.is_empty()) {
        // Where there is no figure to stand at.
        blocks.splice(0..0, notes(results, Topic::Throughput).into_iter().map(Block::Note));
    }
    blocks.extend(percentiles_by_factor(results).into_iter().map(Block::Figure));
    blocks.extend(study_figures::configurations(results).map(Block::Table));
    blocks.extend(study_figures::relative(results));
    Section { title: "Throughput and response time".into(), blocks }
}

/// A figure where it says more than a table.
fn figure(figure: Option<Figure>) -> Option<Block> {
    figure.filter(Figure::has_several_points).map(Block::Figure)
}

/// A sentence for each model that was asked for: how far it was off where it had not looked.
pub fn model_findings(results: &Results) -> Vec<Finding> {
    sweep_model::findings(results)
}

/// The notes that stand at the summary and at the figures of the page, for a terminal.
pub fn all_notes(results: &Results) -> Vec<Note> {
    Topic::ALL.into_iter().flat_map(|place| notes(results, place)).collect()
}

/// A section of the blocks there are; none where there is none.
fn section<const N: usize>(title: &str, blocks: [Option<Block>; N]) -> Option<Section> {
    let blocks: Vec<Block> = blocks.into_iter().flatten().collect();
    (!blocks.is_empty()).then(|| Section { title: title.into(), blocks })
}

fn subtitle(results: &Results) -> String {
    let environment = &results.environment;
    let runs: usize = results.cells.iter().map(|cell| cell.repetitions.len()).sum();
    let cores = match environment.cores {
        0 => String::new(),
        1 => "1 processor".into(),
        cores => format!("{cores} processors"),
    };
    let some = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let runs = format!("{} of {}", some(runs, "run"), some(results.cells.len(), "cell"));
    let completed: u64 = results.cells.iter().map(|cell| cell.completed).sum();
    let failed = match results.cells.iter().map(|cell| cell.errors).sum::<u64>() {
        0 => "none failed".into(),
        errors => format!("{} failed", text::count(errors as f64)),
    };
    let answered = format!("{} requests answered, {failed}", text::count(completed as f64));
    let scaled = results.scaled.as_ref();
    let scaled = scaled.map_or(String::new(), |testbed| format!("scaled by k = {}", text::count(testbed.by)));
    let words = [environment.started.clone(), scaled, runs, answered, environment.cpu.clone(), cores];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// A verdict as one line, and its evidence in words.
fn finding(verdict: &Verdict) -> Finding {
    let throughput = &verdict.throughput;
    let (half, without) = match throughput.half_share() {
        Some(half) => (format!(" ± {}", Unit::Share.show(half)), ""),
        None => (String::new(), "no interval; "),
    };
    let line = VerdictLine {
        figure: format!("{}{half}", Unit::PerSecond.show(throughput.value)),
        load: format!(
            "{without}{}, {} (p99 {})",
            clients(verdict.at.clients),
            text::duration(verdict.response),
            text::duration(verdict.p99)
        ),
        verdict: verdict.word().into(),
        cause: match verdict.bottleneck {
            Bottleneck::NotKnown => verdict.too_wide(),
            _ => verdict.cause(),
        },
        next: verdict.next_step(),
    };
    Finding { about: verdict.at.workload.clone(), line: Some(line), text: verdict.to_string() }
}

/// The table of all cells, for the page and for a terminal.
pub fn table(results: &Results) -> Table {
    let mut columns = vec![
        Column::new("workload", Unit::Text),
        Column::new("clients", Unit::Count),
        Column::of(quantities::THROUGHPUT),
        Column::named("p50", quantities::PERCENTILE),
        Column::named("p90", quantities::PERCENTILE),
        Column::named("p99", quantities::PERCENTILE),
        Column::of(stamps::QUEUE_TIME),
        Column::of(stamps::SERVER_TIME),
        Column::of(stamps::OWN_TIME),
        Column::of(quantities::HIT_RATIO),
    ];
    let (keys, watched) = (figures::keys_matter(results), figures::machine_was_watched(results));
    if keys {
        columns.insert(3, Column::of(quantities::KEY_RATE));
    }
    if watched {
        columns.push(Column::new("processors busy", Unit::Cores));
    }
    let row = |cell: &Cell| {
        let middleware = cell.middleware.as_ref();
        let mut row = vec![
            TableValue::from(cell.levels.workload.as_str()),
            TableValue::from(f64::from(cell.levels.clients)),
            TableValue::Measured(measured(&cell.throughput)),
            TableValue::from(cell.response.p50.value),
            TableValue::from(cell.response.p90.value),
            TableValue::from(cell.response.p99.value),
            TableValue::from(middleware.map(|middleware| middleware.queue.mean.value)),
            TableValue::from(middleware.map(|middleware| middleware.server.mean.value)),
            TableValue::from(middleware.map(|middleware| middleware.own.mean.value)),
            TableValue::from(cell.hit_ratio),
        ];
        if keys {
            row.insert(3, cell.keys.map(|keys| keys.value).into());
        }
        row.extend(watched.then(|| TableValue::from(cell.machine.as_ref().map(Watch::busy))));
        row
    };
    let recorded = if results.cells.iter().any(|cell| cell.middleware.is_some()) {
        "queue, server and own time are means at the middleware"
    } else {
        "no middleware recorded queue, server and own time"
    };
    Table {
        name: "all-cells".into(),
        title: "All cells".into(),
        caption: format!("Response time percentiles at the clients; {recorded}. {}", half_of(results)),
        columns,
        rows: results.cells.iter().map(row).collect(),
    }
}

/// What was answered before and after each fault; none where nothing was done to a station.
pub fn course(results: &Results) -> Option<Table> {
    let columns = vec![
        Column::new("workload", Unit::Text),
        Column::new("clients", Unit::Count),
        Column::new("from", Unit::Seconds),
        Column::new("what happens", Unit::Text),
        Column::new("operation", Unit::Text),
        Column::of(quantities::THROUGHPUT),
        Column::of(quantities::RESPONSE_TIME),
        Column::new("found", Unit::Share),
        Column::new("missed", Unit::Share),
        Column::new("errors", Unit::Share),
    ];
    let share = |part: u64, all: u64| TableValue::from((all > 0).then(|| part as f64 / all as f64));
    let mut rows: Vec<Vec<TableValue>> = Vec::new();
    for (cell, stretch) in
        results.cells.iter().flat_map(|cell| cell.course.iter().map(move |stretch| (cell, stretch)))
    {
        let nothing = StretchOperation { name: "none answered".into(), ..StretchOperation::default() };
        let nothing = stretch.operations.is_empty().then_some(&nothing);
        for one in stretch.operations.iter().chain(nothing) {
            // What was answered with an error is neither found nor missed.
            let keys = one.hits + one.misses;
            rows.push(vec![
                TableValue::from(cell.levels.workload.as_str()),
                TableValue::from(f64::from(cell.levels.clients)),
                TableValue::from(stretch.start),
                TableValue::from(if stretch.after.is_empty() { "–" } else { stretch.after.as_str() }),
                TableValue::from(one.name.as_str()),
                TableValue::from((stretch.length > 0.0).then(|| one.completed as f64 / stretch.length)),
                TableValue::from((one.completed > 0).then_some(one.response)),
                share(one.hits, keys),
                share(one.misses, keys),
                share(one.errors, one.completed),
            ]);
        }
    }
    let late =
        results.cells.iter().flat_map(|cell| &cell.course).map(|stretch| stretch.late).fold(0.0, f64::max);
    (!rows.is_empty()).then(|| Table {
        name: "faults".into(),
        title: "What was answered before and after each fault".into(),
        caption: format!(
            "All repetitions together, by the generators' seconds: a second belongs to what was done at its beginning or before. Found and missed are \
             shares of the keys that were answered for, errors of all requests. At the latest a fault was done {} after its instant.",
            text::duration(late)
        ),
        columns,
        rows,
    })
}

fn breakdown_table(results: &Results) -> Option<Table> {
    let cells: Vec<&Cell> = results.cells.iter().filter(|cell| cell.middleware.is_some()).collect();
    if cells.is_empty() {
        return None;
    }
    let mut columns = vec![
        Column::new("workload", Unit::Text),
        Column::new("clients", Unit::Count),
        Column::of(quantities::RESPONSE_TIME),
    ];
    columns.extend(
        [ResponsePart::Queue, ResponsePart::Server, ResponsePart::Own]
            .map(|part| Column::of(part.quantity())),
    );
    columns.push(Column::named("outside", ResponsePart::Outside.quantity()));
    columns.push(Column::of(quantities::QUEUE_LENGTH));
    columns.push(Column::of(quantities::WORKERS_HELD));
    let rows = cells.into_iter().map(|cell| {
        let middleware = cell.middleware.as_ref();
        let mut row = vec![
            TableValue::from(cell.levels.workload.as_str()),
            TableValue::from(f64::from(cell.levels.clients)),
            TableValue::Measured(measured(&cell.response.mean)),
        ];
        row.extend(parts(cell).into_iter().flatten().map(|(_, time)| TableValue::Measured(measured(&time))));
        row.push(middleware.and_then(|m| m.queue_length.as_ref()).map(measured).into());
        row.push(middleware.and_then(|m| m.workers_busy).into());
        row
    });
    Some(Table {
        name: "mean-times".into(),
        title: "Mean times".into(),
        caption: format!("The four parts sum to the response time. {}", half_of(results)),
        columns,
        rows: rows.collect(),
    })
}

/// Utilization of each process at each workload's limit.
fn load_table(results: &Results) -> Option<Table> {
    let mut names: Vec<&str> = Vec::new();
    for process in at_limits(results).flat_map(|(_, cell)| &cell.load) {
        if !names.contains(&process.name.as_str()) {
            names.push(&process.name);
        }
    }
    // Processors of several machines that stations stand for are no sum.
    let in_all = results.scaled.is_none();
    let mut columns = vec![Column::new("cell", Unit::Text)];
    columns.extend(in_all.then(|| Column::new("busy in all", Unit::Cores)));
    columns.extend(names.iter().map(|name| Column::named(*name, quantities::UTILIZATION)));
    let rows = at_limits(results).map(|(verdict, cell)| {
        let busy: f64 = cell.load.iter().map(|process| process.busy).sum();
        let mut row = vec![TableValue::from(load_of(verdict).as_str())];
        row.extend(in_all.then(|| busy.into()));
        row.extend(names.iter().map(|name| {
            TableValue::from(
                cell.load.iter().find(|process| process.name == *name).map(ProcessLoad::utilization),
            )
        }));
        row
    });
    (!names.is_empty()).then(|| Table {
        name: "processes".into(),
        title: "How busy the processes are".into(),
        caption: format!(
            "Utilization of each process at the fewest clients that reach 95 % of each workload's highest throughput. \
             At 100 % a process uses all the processors it can: {}.",
            can_use(results)
        ),
        columns,
        rows: rows.collect(),
    })
}

/// Utilization of each host's link at each workload's limit.
fn link_table(results: &Results) -> Option<Table> {
    let mut links: Vec<&HostLink> = Vec::new();
    for link in at_limits(results).flat_map(|(_, cell)| &cell.links) {
        if !links.iter().any(|known| known.name == link.name) {
            links.push(link);
        }
    }
    let mut columns = vec![Column::new("cell", Unit::Text)];
    columns.extend(links.iter().map(|link| {
        Column::new(format!("{} ({} Mbit/s)", link.name, text::count(link.bandwidth / 1e6)), Unit::Share)
    }));
    let rows = at_limits(results).map(|(verdict, cell)| {
        let mut row = vec![TableValue::from(load_of(verdict).as_str())];
        row.extend(links.iter().map(|link| {
            TableValue::from(
                cell.links.iter().find(|other| other.name == link.name).map(HostLink::utilization),
            )
        }));
        row
    });
    (!links.is_empty()).then(|| Table {
        name: "links".into(),
        title: "How full the links are".into(),
        caption: "What each host sends, headers included, as a share of what its link carries, at the same cells. c: clients, m: middlewares, \
                  s: servers."
            .into(),
        columns,
        rows: rows.collect(),
    })
}

/// `load 2, proxy 1, …`: how many processors each process can use.
fn can_use(results: &Results) -> String {
    let mut words: Vec<String> = Vec::new();
    for process in at_limits(results).flat_map(|(_, cell)| &cell.load) {
        let word = format!("{} {}", process.name, text::count(process.cores));
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(", ")
}

/// Each server's share of what was sent to servers, at each workload's limit.
fn server_table(results: &Results) -> Option<Table> {
    let mut names: Vec<&str> = Vec::new();
    for server in at_limits(results).flat_map(|(_, cell)| &cell.servers) {
        if !names.contains(&server.name.as_str()) {
            names.push(&server.name);
        }
    }
    let mut columns = vec![Column::new("cell", Unit::Text), Column::new("sent to servers", Unit::Count)];
    columns.extend(names.iter().map(|name| Column::new(*name, Unit::Share)));
    let rows = at_limits(results).map(|(verdict, cell)| {
        let sent: u64 = cell.servers.iter().map(|server| server.requests).sum();
        let mut row = vec![TableValue::from(load_of(verdict).as_str()), TableValue::from(sent as f64)];
        row.extend(names.iter().map(|name| {
            TableValue::from(
                cell.servers.iter().find(|server| server.name == *name).map(|server| server.share),
            )
        }));
        row
    });
    (!names.is_empty()).then(|| Table {
        name: "servers".into(),
        title: "How the requests are spread over the servers".into(),
        caption: "Each server's share of the requests sent to servers; a replicated or sharded request counts at each server \
                  it goes to."
            .into(),
        columns,
        rows: rows.collect(),
    })
}

/// The runs of the anchor, by time.
fn anchor_table(results: &Results) -> Option<Table> {
    let anchor = results.anchor.as_ref()?;
    let begin = anchor.runs.first()?.started_unix;
    let rows = anchor.runs.iter().map(|run| {
        vec![
            (run.started_unix - begin).into(),
            f64::from(run.block + 1).into(),
            run.throughput.into(),
            run.response.into(),
            if anchor.left_out.contains(&run.block) { "not pooled" } else { "" }.into(),
        ]
    });
    let drift = anchor.drift.as_ref().map_or(String::new(), |drift| {
        let half = drift.interval.map_or(f64::NAN, |interval| interval.half_width());
        format!(
            " From the first run that is pooled to the last its throughput changed by {} ± {}.",
            Unit::Share.show(drift.value),
            Unit::Share.show(half)
        )
    });
    Some(Table {
        name: "anchor".into(),
        title: format!("One cell again and again: {}", anchor.about),
        caption: format!(
            "Repetitions whose anchor differs by more than {} from most others are in no figure.{drift}",
            Unit::Share.show(anchor.within)
        ),
        columns: vec![
            Column::new("after", Unit::Seconds),
            Column::new("repetition", Unit::Count),
            Column::of(quantities::THROUGHPUT),
            Column::of(quantities::RESPONSE_TIME),
            Column::new("remark", Unit::Text),
        ],
        rows: rows.collect(),
    })
}

/// What was scaled, by how much, and how near single stations come to what was published of them.
fn scaled(testbed: &ScaledTestbed) -> Vec<(String, String)> {
    let stations = testbed.stations.iter().map(|one| (format!("scaled {}", one.station), one.to_string()));
    let baselines =
        testbed.baselines.iter().map(|one| (format!("baseline of {}", one.station), one.to_string()));
    stations.chain(baselines).collect()
}

/// A limit of processor time in words.
fn limit(limit: &ProcessorLimit) -> (String, String) {
    let place = if limit.machine == "here" { String::new() } else { format!(" on {}", limit.machine) };
    let said = match (limit.plain, limit.got) {
        (Some(plain), Some(got)) if limit.written != limit.asked => format!(
            "a busy loop got {got:.3} by a quota for {:.3}, which is set, and {plain:.3} by one for {}",
            limit.written, limit.asked
        ),
        (Some(plain), _) => format!("a busy loop got {plain:.3} by its quota"),
        (None, _) => "a busy loop could not tell what its quota gives: others had the processors, or there are no more of them".to_owned(),
    };
    (format!("cpu = {}{place}", limit.asked), said)
}

/// The environment, and everything that did not add up.
fn measurement(results: &Results) -> Section {
    let environment = &results.environment;
    let mut properties: Vec<(String, String)> = [
        ("started", environment.started.clone()),
        ("processor", environment.cpu.clone()),
        ("processors", if environment.cores == 0 { String::new() } else { environment.cores.to_string() }),
        ("memory", environment.memory.clone()),
        ("system", environment.kernel.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    properties.extend(environment.versions.iter().cloned());
    properties.extend(environment.ways.iter().map(|way| {
        let rate = way.bits_per_second.map_or("too little came to tell".into(), |bits| {
            format!("{:.3} Mbit/s without headers", bits / 1e6)
        });
        (format!("{} to {}", way.from, way.to), rate)
    }));
    properties.extend(environment.limits.iter().map(limit));
    properties.extend(results.scaled.iter().flat_map(scaled));
    properties.extend(results.round_trips.iter().map(|way| {
        let asked = if way.asked > 0.0 {
            format!(", where the delays are {}", text::duration(way.asked))
        } else {
            String::new()
        };
        let times = format!(
            "{} there and back at least, {} usually",
            text::duration(way.least),
            text::duration(way.median)
        );
        (format!("{} and {}", way.from, way.to), times + &asked)
    }));
    properties.retain(|(_, value)| !value.is_empty());
    let mut blocks = vec![Block::Properties(properties)];
    if !environment.command_line.is_empty() {
        blocks.push(Block::Code(environment.command_line.clone()));
    }
    blocks.extend(concern_table(results).map(Block::Table));
    Section { title: "How it was measured".into(), blocks }
}

/// Every warning with its cell: the notes at the figures name the worst of each kind.
fn concern_table(results: &Results) -> Option<Table> {
    let rows: Vec<Vec<TableValue>> = results
        .concerns
        .iter()
        .map(|concern| {
            let workload = concern.levels.as_ref().map_or("all", |levels| levels.workload.as_str());
            let clients = concern.levels.as_ref().map(|levels| f64::from(levels.clients));
            vec![workload.into(), clients.into(), concern.warning.to_string().as_str().into()]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        name: "checks".into(),
        title: "What the checks found".into(),
        caption: "Every run is checked against the interactive law, Little's law, the counts of both sides, errors and load.".into(),
        columns: vec![
            Column::new("workload", Unit::Text),
            Column::new("clients", Unit::Count),
            Column::new("found", Unit::Text),
        ],
        rows,
    })
}
