//! The page as text: golden files, well-formedness, downloads, what it must not contain.
//!
//! `UPDATE=1 cargo test -p krarup-report` rewrites the golden files and the generated part of the
//! reference page.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use krarup_analysis::trial::{
    CellLevels, ClientSide, ClientWindow, MiddlewareSide, ProcessCpu, SystemPart, TrialHistogram, TrialTimes,
};
use krarup_analysis::warning::Concern;
use krarup_analysis::{Trial, Warning};
use krarup_record::quantities::QUANTITIES;
use krarup_report::document::{Block, Table};
use krarup_report::{Page, csv, html, latex, markdown, sweep, text};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::{fixture, kinds};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares with a golden file, or rewrites it where `UPDATE=1`.
fn golden(path: &str, actual: &str) {
    let path = here(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((line, (expected, actual))) =
        expected.lines().zip(actual.lines()).enumerate().find(|(_, (expected, actual))| expected != actual)
    {
        panic!("{}, line {}:\nexpected {expected}\n     got {actual}", path.display(), line + 1);
    }
    assert_eq!(expected.lines().count(), actual.lines().count(), "{}", path.display());
}

#[test]
fn every_kind_of_block_and_figure_reads_as_before() {
    golden("tests/golden/kinds.html", &html::body(&kinds::document()));
    golden("tests/golden/kinds.md", &markdown::document(&kinds::document()));
}

#[test]
fn the_report_of_a_sweep_reads_as_before() {
    let results = fixture::results(3);
    golden("tests/golden/sweep.md", &markdown::document(&sweep::document(&results, "Krarup")));
    golden("tests/golden/sweep.txt", &text::table(&sweep::table(&results)));
}

#[test]
fn intervals_of_cells_that_ended_when_their_runs_agreed_are_called_too_narrow() {
    let mut results = fixture::results(6);
    for is_said in [false, true] {
        results.ended_early = is_said;
        let markdown = markdown::document(&sweep::document(&results, "Krarup"));
        for caption in [
            "bars are their 95 % t intervals.",
            "± is half the 95 % t interval of 6 repetitions.",
            "for all comparisons of this table together (Holm 1979).",
        ] {
            let said = format!("{caption} Runs ended when their spread was small: these intervals are");
            assert_eq!(markdown.contains(&said), is_said, "{markdown}");
        }
    }
}

#[test]
fn the_history_of_a_sweep_stands_in_every_form() {
    let results = fixture::with_history(3);
    let document = sweep::document(&results, "Krarup");
    let markdown = markdown::document(&document);
    for said in ["## History", "better +25.0 % in spring", "winter lacks ", "no conclusion"] {
        assert!(markdown.contains(said), "{said}: {markdown}");
    }
    let real = results.history.as_ref().unwrap().changes.iter().filter(|one| one.is_real() && !one.overall);
    assert!(real.clone().all(|one| one.to == 1), "nothing changed from spring to now");
    let page = Page::of(&document);
    let files = || page.csv.iter().chain(&page.data);
    let csv = |name: &str| &files().find(|(known, _)| known == name).unwrap().1;
    let marked = csv("history-1-read-only.csv").matches(",better").count();
    let of_workload = real.filter(|one| one.levels.workload == "read-only").count();
    assert!(marked > 0 && marked == of_workload, "{marked} and {of_workload}");
    assert!(
        csv("history-comparisons.csv").contains(",better\n") && csv("history-runs.csv").contains("winter")
    );
    assert!(
        text::table(&krarup_report::history::changes(results.history.as_ref().unwrap())).contains("lacks it")
    );
    assert!(latex::files(&document).iter().any(|(name, _)| name == "history.tex"));
}

#[test]
fn the_history_says_where_bars_are_of_windows() {
    let said = |repetitions| {
        let document = sweep::document(&fixture::with_history(repetitions), "Krarup");
        let markdown = markdown::document(&document);
        ["one repetition, bars are of its windows", "or where a cell has one, of its windows"]
            .map(|words| markdown.contains(words))
    };
    assert_eq!((said(1), said(3)), ([true, true], [false, false]));
}

#[test]
fn a_mean_of_three_repetitions_rests_on_three() {
    let page = Page::of(&sweep::document(&fixture::results(3), "Krarup"));
    for name in ["response-time-qq.csv", "throughput-and-response-time.csv"] {
        let (_, csv) = page.csv.iter().find(|(known, _)| known == name).unwrap();
        assert!(csv.lines().skip(1).all(|line| line.ends_with(",3")), "{csv}");
    }
}

/// Along the factor with the most levels, a line for each of the others; not a place for each cell.
#[test]
fn many_workloads_are_drawn_along_a_factor() {
    let document = sweep::document(&fixture::many_workloads(), "Krarup");
    let page = Page::of(&document);
    let csv = |name: &str| &page.csv.iter().find(|(known, _)| known == name).unwrap().1;
    let lines = csv("throughput-and-response-time.csv");
    assert!(lines.starts_with("series,policy,"), "{lines}");
    assert!(lines.contains("\"rate 2000/s, pauses\",two choices,") && lines.lines().count() == 61, "{lines}");
    assert!(csv("where-the-time-goes.csv").contains("slow ejected"));
    for (name, most) in [("processes.csv", 8), ("servers.csv", 6)] {
        let columns = csv(name).lines().next().unwrap().split(',').count();
        assert!(columns <= most, "{name}: {columns} columns");
    }
    let drawn: std::collections::BTreeSet<&str> = csv("response-time-histogram.csv")
        .lines()
        .skip(1)
        .filter_map(|line| line.split('"').nth(1))
        .collect();
    assert_eq!(drawn.len(), 12, "the twelve with the highest p99: {drawn:?}");
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let page = || Page::of(&sweep::document(&fixture::results(3), "Krarup"));
    assert_eq!(page(), page());
}

#[test]
fn the_page_is_well_formed_and_its_links_lead_somewhere() {
    let documents = [fixture::results(3), fixture::with_history(3)].map(|it| sweep::document(&it, "Krarup"));
    for document in documents.into_iter().chain([kinds::document()]) {
        let body = html::body(&document);
        let parsed = roxmltree::Document::parse(&body).unwrap();
        let mut ids = HashSet::new();
        for id in parsed.descendants().filter_map(|node| node.attribute("id")) {
            assert!(ids.insert(id), "two elements are called {id}");
        }
        for target in parsed.descendants().filter_map(|node| node.attribute("href")) {
            let known = target.strip_prefix('#').is_some_and(|id| ids.contains(id));
            assert!(known || target.starts_with("data:text/csv"), "{target}");
        }
        for table in parsed.descendants().filter(|node| node.has_tag_name("tr")) {
            let columns = table.parent().unwrap().parent().unwrap().descendants();
            let headings = columns.filter(|node| node.has_tag_name("th")).count();
            assert_eq!(table.children().filter(roxmltree::Node::is_element).count(), headings);
        }
    }
}

#[test]
fn the_links_of_the_markdown_report_lead_to_files_beside_it() {
    for document in [sweep::document(&fixture::results(3), "Krarup"), kinds::document()] {
        let page = Page::of(&document);
        let data = page.data.iter().map(|(name, _)| name.clone());
        let files: HashSet<String> =
            page.csv.iter().map(|(name, _)| format!("figures/{name}")).chain(data).collect();
        let text = markdown::document(&document);
        let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let targets: HashSet<&str> = targets.filter(|target| !target.starts_with('#')).collect();
        assert!(!targets.is_empty());
        for target in targets {
            assert!(files.contains(target), "{target}");
        }
    }
}

#[test]
fn a_warning_counts_other_cells_and_not_how_often_it_was_given() {
    let mut results = fixture::results(1);
    let busy = |clients, name: &str| Concern {
        levels: Some(CellLevels { workload: "read-only".into(), clients }),
        warning: Warning::GeneratorBusy { name: name.into(), utilization: 0.99 },
    };
    let unread =
        || Concern { levels: None, warning: Warning::Unread { file: "f".into(), why: "it is cut".into() } };
    let mut said = |concerns: Vec<Concern>| {
        results.concerns = concerns;
        sweep::all_notes(&results).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let one = said(vec![busy(8, "load 1"), busy(8, "load 2")]);
    assert!(one.contains("(load 1) was busy") && !one.contains("The same holds"), "{one}");
    let two = said(vec![busy(8, "load 1"), busy(8, "load 2"), busy(16, "load 1"), busy(16, "load 2")]);
    assert!(two.contains("The same holds for one other cell."), "{two}");
    let trials = said(vec![unread(), unread()]);
    assert!(trials.contains("The same holds for one other."), "{trials}");
    // What rose is not said to have fallen.
    let drifts = |clients, share| Concern {
        levels: Some(CellLevels { workload: "read-only".into(), clients }),
        warning: Warning::Drifts { share, p_value: 0.001 },
    };
    let both = said(vec![drifts(8, -0.08), drifts(16, 0.17), drifts(32, -0.1)]);
    assert!(both.contains("fell by 10.0 %") && both.contains("rose by 17.0 %"), "{both}");
    assert_eq!(both.matches("The same holds for one other cell.").count(), 1, "{both}");
}

/// Naming the first cell would hide the one in which most requests fail.
#[test]
fn a_warning_names_the_cell_in_which_it_is_worst() {
    let mut results = fixture::results(1);
    let of = |clients, warning| {
        let levels = Some(CellLevels { workload: "read-only".into(), clients });
        Concern { levels, warning }
    };
    let errors = |errors| Warning::Errors { errors, completed: 100_000 };
    let busy = |name: &str, utilization| Warning::GeneratorBusy { name: name.into(), utilization };
    results.concerns = vec![
        of(1, errors(2)),
        of(8, errors(60_000)),
        of(16, errors(3)),
        of(1, busy("load 1", 0.81)),
        of(1, busy("load 2", 0.99)),
    ];
    let notes: Vec<String> = sweep::all_notes(&results).iter().map(ToString::to_string).collect();
    let said = notes.join("\n");
    assert!(said.contains("read-only, 8 clients: 60,000 of 100,000 requests failed."), "{said}");
    assert!(said.contains("The same holds for 2 other cells."), "{said}");
    assert!(said.contains("(load 2) was busy 99.0 % of the time."), "{said}");
}

#[test]
fn a_download_in_the_page_is_the_file_beside_it() {
    let document = kinds::document();
    let body = html::body(&document);
    let parsed = roxmltree::Document::parse(&body).unwrap();
    let page = Page::of(&document);
    let mut links = 0;
    for link in parsed.descendants().filter(|node| node.attribute("download").is_some()) {
        let data = link.attribute("href").unwrap().strip_prefix("data:text/csv;charset=utf-8,").unwrap();
        let file = page
            .csv
            .iter()
            .chain(&page.data)
            .find(|(name, _)| Some(name.as_str()) == link.attribute("download"))
            .unwrap();
        assert_eq!(percent_decoded(data), file.1);
        links += 1;
    }
    assert_eq!((links, page.data.len()), (page.csv.len() + 1, 1));
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits: String = rest.by_ref().take(2).map(char::from).collect();
            bytes.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_data_of_a_chart_cannot_end_its_script() {
    let body = html::body(&kinds::document());
    let parsed = roxmltree::Document::parse(&body).unwrap();
    let mut names = Vec::new();
    for script in parsed.descendants().filter(|node| node.has_tag_name("script")) {
        let chart: serde_json::Value = serde_json::from_str(script.text().unwrap()).unwrap();
        for panel in chart["panels"].as_array().unwrap() {
            if let Some(names) = panel["x"]["names"].as_array() {
                assert_eq!(names.len(), panel["xs"].as_array().unwrap().len());
            }
            for series in panel["series"].as_array().unwrap() {
                assert_eq!(series["values"].as_array().unwrap().len(), panel["xs"].as_array().unwrap().len());
                names.push(series["name"].as_str().unwrap().to_owned());
            }
        }
    }
    assert!(names.contains(&kinds::AWKWARD.to_owned()), "the name is the same after reading");
    assert_eq!(body.matches("</script>").count(), 9, "one for each figure and no more");
}

#[test]
fn the_page_needs_no_network_and_little_room() {
    let page = Page::of(&sweep::document(&fixture::results(3), "Krarup")).html;
    for outside in ["src=", "@import", "url(", "fetch(", "XMLHttpRequest", "href=\"http", "//cdn"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn the_vendored_files_are_what_their_readme_says() {
    let readme = std::fs::read_to_string(here("assets/vendor/uplot/README.md")).unwrap();
    for name in ["uPlot.iife.min.js", "uPlot.min.css", "LICENSE"] {
        let bytes = std::fs::read(here("assets/vendor/uplot").join(name)).unwrap();
        let hash =
            Sha256::digest(&bytes).iter().fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"));
        assert!(readme.contains(&format!("| {name} | {hash} |")), "{name} has SHA-256 {hash}");
    }
}

fn any_trial() -> impl Strategy<Value = Trial> {
    let times =
        || (0.0..2.0_f64).prop_map(|mean| TrialTimes { mean, p50: mean, p90: mean * 2.0, p99: mean * 3.0 });
    let histogram = || {
        prop::collection::btree_map(0..3_000_000_u64, 0..9_u64, 0..20)
            .prop_map(|counts| TrialHistogram { width: 1e-4, counts: counts.into_iter().collect() })
    };
    let client = (0..2_000_u64, 0..3_u64, 0..9_u64, times(), histogram()).prop_map(
        |(completed, errors, hits, response, histogram)| ClientSide {
            completed,
            errors,
            hits,
            misses: errors,
            response,
            histogram,
            windows: (0..completed % 4)
                .map(|k| ClientWindow { start: k as f64, length: 1.0, completed: k, response: None })
                .collect(),
            ..ClientSide::default()
        },
    );
    let middleware = (0..2_000_u64, times(), histogram(), prop::option::of(0..3_u32)).prop_map(
        |(requests, response, histogram, workers)| MiddlewareSide {
            requests,
            response,
            server: response,
            workers,
            queue_length: workers.map(f64::from),
            histogram,
            ..MiddlewareSide::default()
        },
    );
    let levels =
        ("[a-z<&\"|]{0,3}", 0..5_u32).prop_map(|(workload, clients)| CellLevels { workload, clients });
    let process = (0..3_u32).prop_map(|cores| ProcessCpu {
        station: SystemPart::Server,
        name: "a<b".into(),
        busy: 1.0,
        cores: f64::from(cores),
    });
    (levels, client, prop::option::of(middleware), prop::collection::vec(process, 0..3)).prop_map(
        |(levels, client, middleware, cpu)| Trial {
            levels,
            repetition: 0,
            length: 2.0,
            think: 0.0,
            client,
            middleware,
            servers: Vec::new(),
            cpu,
            links: Vec::new(),
            ways: Vec::new(),
            factors: Vec::new(),
            machine: None,
            machines: Vec::new(),
            course: Vec::new(),
            disturbed: None,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Empty cells, lone cells, sides that say nothing: whatever a run brings, there is a page.
    #[test]
    fn any_trials_have_a_page(trials in prop::collection::vec(any_trial(), 1..6)) {
        let environment = krarup_analysis::Environment { cores: 2, ..Default::default() };
        let results = krarup_analysis::summarise("any", environment, &trials).unwrap();
        let document = sweep::document(&results, "Krarup");
        let body = html::body(&document);
        prop_assert!(roxmltree::Document::parse(&body).is_ok());
        prop_assert!(!body.contains("NaN") && !body.contains(">inf"), "{}", markdown::document(&document));
        prop_assert!(!text::table(&sweep::table(&results)).is_empty());
    }
}

#[test]
fn a_table_for_programs_has_a_column_for_each_factor_and_a_row_for_each_run() {
    let results = fixture::results(3);
    let page = Page::of(&sweep::document(&results, "Krarup"));
    let file = |name: &str| &page.data.iter().find(|(known, _)| known == name).unwrap().1;
    let (cells, trials) = (file("cells.csv"), file("trials.csv"));
    assert_eq!(cells.lines().count(), 1 + results.cells.len());
    assert_eq!(trials.lines().count(), 1 + 3 * results.cells.len());
    let factors: Vec<&str> = results.cells[0].factors.iter().map(|(name, _)| name.as_str()).collect();
    assert!(!factors.is_empty());
    for text in [cells, trials] {
        let headings: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        assert_eq!(headings[..factors.len()], factors[..]);
        let mut once = headings.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), headings.len(), "each name once");
        for heading in ["throughput_per_s", "response_time_p99_s", "requests_answered"] {
            assert!(headings.contains(&heading), "{heading} in {headings:?}");
        }
    }
    assert!(cells.contains("hit_ratio,") && !cells.contains("hit_ratio_ratio"));
}

/// The reference page lists what each table and figure shows, its columns, and all definitions.
#[test]
fn the_reference_page_is_up_to_date() {
    let path = here("../../docs/reference/report.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let marker = "<!-- from here on generated: UPDATE=1 cargo test -p krarup-report -->\n";
    let (written, _) = page.split_once(marker).expect("the page has its marker");
    golden("../../docs/reference/report.md", &format!("{written}{marker}{}", reference()));
}

fn reference() -> String {
    let document = sweep::document(&fixture::with_history(3), "Krarup");
    let mut out = String::from("\n## Tables and figures of a sweep\n\n");
    let columns = |table: &Table| {
        let line = csv::table(table).lines().next().unwrap_or_default().replace(',', "`, `");
        format!("`{}.csv`: `{line}`", table.name)
    };
    for block in document.sections.iter().flat_map(|section| &section.blocks) {
        let (title, caption, data) = match block {
            Block::Table(table) => (&table.title, &table.caption, columns(table)),
            Block::InWords(table, numbers) => (&table.title, &table.caption, columns(numbers)),
            Block::Data(table) => (&table.title, &table.caption, columns(table)),
            Block::Figure(figure) if figure.name == "one-run" => {
                (&"One run, window by window".to_owned(), &figure.caption, columns(&figure.data()))
            }
            Block::Figure(figure) => (&figure.title, &figure.caption, columns(&figure.data())),
            _ => continue,
        };
        let _ = write!(out, "### {title}\n\n{caption}\n\n{data}\n\n");
    }
    out.push_str("## Definitions\n\n| quantity | symbol, formula | unit | definition |\n|---|---|---|---|\n");
    for quantity in document.glossary() {
        let unit = quantity.unit.base();
        let _ = writeln!(out, "| {} | {} | {unit} | {} |", quantity.name, quantity.symbol, quantity.text);
    }
    out
}

/// What a figure or a table shows is defined once on the page, whichever format it has.
#[test]
fn every_quantity_of_a_page_is_defined_once_and_in_no_caption() {
    let document = sweep::document(&fixture::results(3), "Krarup");
    let glossary = document.glossary();
    assert!(glossary.len() > 15, "{} quantities", glossary.len());
    let html = html::body(&document);
    let parsed = roxmltree::Document::parse(&html).unwrap();
    let definitions = parsed.descendants().filter(|node| node.has_tag_name("dd"));
    let texts: Vec<String> = definitions
        .map(|node| node.descendants().filter(roxmltree::Node::is_text).filter_map(|t| t.text()).collect())
        .collect();
    // Without the escapes of `_` and its like.
    let markdown = markdown::document(&document).replace('\\', "");
    let latex: Vec<(String, String)> = latex::files(&document);
    let (_, definitions) = latex.iter().find(|(name, _)| name == "definitions.tex").unwrap();
    for quantity in QUANTITIES {
        let expected = usize::from(glossary.contains(quantity));
        let times = |count: usize, what: &str| assert_eq!(count, expected, "{} in {what}", quantity.name);
        times(texts.iter().filter(|text| text.contains(quantity.text)).count(), "HTML");
        times(markdown.matches(quantity.text).count(), "Markdown");
        times(definitions.matches(&format!("\\item[{}] ", quantity.title())).count(), "LaTeX");
    }
    let captions = parsed.descendants().filter(|node| node.has_tag_name("figcaption"));
    assert!(captions.clone().count() > 10);
    for caption in captions {
        let link = caption.descendants().find(|node| node.attribute("class") == Some("quantity"));
        assert!(link.is_some_and(|link| link.attribute("title").is_some()), "{:?}", caption.text());
        let said: String = caption.descendants().filter_map(|node| node.text()).collect();
        let repeated = QUANTITIES.iter().find(|quantity| said.contains(quantity.text));
        assert_eq!(repeated, None, "{said}");
    }
}
