//! The page in a real browser: no script fails, every series leaves its colour on its canvas, no
//! two look alike, no switch is hidden inside a picture, nothing is fetched.
//!
//! Needs Chromium (`KRARUP_CHROMIUM`, or one of the usual names in PATH); without it the test says
//! so and passes.

#![allow(clippy::disallowed_methods, reason = "a page is looked at by a browser, which is a process")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use krarup_report::document::{Block, Column, Document, Table, TableValue};
use krarup_report::{Page, sweep};
use krarup_units::Unit;

use crate::{fixture, kinds};

/// How long a browser may take: it is there to end a hanging one, not to measure.
const PATIENCE: Duration = Duration::from_secs(120);

fn chromium() -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("KRARUP_CHROMIUM") {
        return Some(chosen.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// What the page says of itself at this window width: its document after the scripts, and the
/// browser's log.
fn opened(chromium: &Path, document: &Document, name: &str, width: u32) -> (String, String) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{name}-{width}"));
    std::fs::create_dir_all(&directory).unwrap();
    let page = directory.join("report.html");
    std::fs::write(&page, Page::of(document).html).unwrap();
    let mut browser = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-sync",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("file://{}#self-check", page.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let read = |mut pipe: Box<dyn Read + Send>| {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
        });
        receiver
    };
    let output = read(Box::new(browser.stdout.take().unwrap()));
    let log = read(Box::new(browser.stderr.take().unwrap()));
    let answer = output.recv_timeout(PATIENCE);
    if answer.is_err() {
        browser.kill().unwrap();
    }
    browser.wait().unwrap();
    let answer = (answer.expect("the browser ends in time"), log.recv_timeout(PATIENCE).unwrap());
    std::fs::remove_dir_all(directory).unwrap();
    answer
}

/// The value of an attribute at each place it stands.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    page.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// What the columns of `in_words` are from the least to the most; what was not measured is last.
const ASCENDING: [[&str; 4]; 4] = [
    ["16 (14 to 18)", "900/s", "1,200/s ± 1.2 %", "–"],
    ["-50.0 %", "-3.0 %", "+1.25 % (+1.1 % to +1.4 %)", "+1.5 %"],
    ["−2.00 ms", "950 µs", "1.20 ms", "3.00 s"],
    ["2 clients", "16 clients", "read", "write"],
];

/// A table whose quantities stand in words, its columns in no order.
fn in_words() -> Table {
    let row = |places: [usize; 4]| {
        let cells = ASCENDING.iter().zip(places).map(|(column, place)| TableValue::from(column[place]));
        cells.collect::<Vec<_>>()
    };
    Table {
        name: "words".into(),
        title: "In words".into(),
        columns: ["rate", "change", "time", "load"].map(|name| Column::new(name, Unit::Text)).to_vec(),
        rows: [[3, 3, 2, 1], [2, 0, 3, 3], [0, 2, 1, 0], [1, 1, 0, 2]].map(row).to_vec(),
        ..Table::default()
    }
}

#[test]
fn the_charts_draw_in_a_browser() {
    let Some(chromium) = chromium() else {
        let why = "no Chromium in PATH (install it, or set KRARUP_CHROMIUM)";
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
        return;
    };
    let sweep = sweep::document(&fixture::with_history(3), "Krarup");
    // Panels: 4 + 3 + 8 + 8 + 3 + 4 of lines, 4 of bars, 4 of histograms, 1 of quantiles, 3 over
    // time, 1 of X and R, 1 of a law, 2 of a model, 12 of the history; and 2, 2, 1, 2, 1, 1, 2, 1,
    // 1 of the kinds, 1 of each to be looked at.
    let many = sweep::document(&fixture::many_workloads(), "Krarup");
    let mut of_kinds = kinds::document();
    of_kinds.sections[0].blocks.extend(kinds::looked_at());
    of_kinds.sections[1].blocks.push(Block::Table(in_words()));
    for (document, name, width, panels) in [
        (&sweep, "sweep", 1280, Some(58)),
        (&sweep, "sweep", 500, Some(58)),
        (&of_kinds, "kinds", 1280, Some(18)),
        // Of so many series some hide others.
        (&many, "many", 1280, None),
    ] {
        let (page, log) = opened(&chromium, document, name, width);
        assert_eq!(
            attributes(&page, "data-checked"),
            ["true"],
            "{name} at {width}: the script ended early\n{log}"
        );
        assert_eq!(attributes(&page, "data-failures"), [""], "{name} at {width}");
        let said: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(said.is_empty(), "{name} at {width}: {said:?}");
        if name == "kinds" {
            let sorted = attributes(&page, "data-ascending");
            for column in ASCENDING.map(|column| column.join(" | ")) {
                assert!(sorted.contains(&column.as_str()), "{column} in {sorted:#?}");
            }
        }
        let Some(panels) = panels else { continue };
        let drawn = attributes(&page, "data-drawn");
        assert_eq!(drawn, attributes(&page, "data-expected"), "{name} at {width}: series drawn, by panel");
        assert_eq!(drawn.len(), panels, "{name} at {width}");
    }
}
