//! The report of an experiment that goes on: its page so far, and what makes it live.
//!
//! The page itself is that of [`crate::html::page`], byte for byte, but for two things, which stand
//! in no file: its policy lets it ask the server that it comes from, and between `<!--live-->` and
//! `<!--/live-->` stand a line on top and a script. [`without`] takes both away.

use std::fmt::Write;

use krarup_analysis::cell::Cell;
use krarup_analysis::so_far::{AwaitedCell, NotYet};
use krarup_record::quantities;
use krarup_units::{Seconds, Unit};
use serde::Serialize;

use crate::document::{Column, Document, Note, Table, TableValue};
use crate::estimates::measured;
use crate::html;

const STYLE: &str = include_str!("../assets/live.css");
const SCRIPT: &str = include_str!("../assets/live.js");
const BEGIN: &str = "<!--live-->";
const END: &str = "<!--/live-->\n";
const POLICY: &str = "img-src data:\"/>";
const LIVE_POLICY: &str = "img-src data:; connect-src 'self'\"/>";
const BODY: &str = "<body>\n";
const SCRIPTS: &str = "</body>\n<script>";

/// Where an experiment is: what an event tells a page that is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveStatus {
    /// Which making of the page is the newest.
    pub page: u64,
    /// What is done: `Running`, `The run has ended`.
    pub state: String,
    /// What runs now, with its figures, or how it ended.
    pub line: String,
    /// Trials that are complete, of all.
    pub share: f64,
    /// About when all is done, in seconds since 1970; none where nothing is to come.
    pub ends: Option<Seconds>,
    /// The same in words, as of when it was said.
    pub left: String,
    /// Whether nothing is to come.
    pub over: bool,
}

impl LiveStatus {
    /// One line of JSON.
    pub fn event(&self) -> String {
        serde_json::to_string(self).expect("a status is plain data")
    }
}

/// The page before any trial is complete.
pub fn nothing_yet(title: &str, footer: &str) -> Document {
    Document {
        title: title.to_owned(),
        subtitle: "no trial is complete yet".into(),
        notes: vec![Note::hint(
            "The report begins with the first trial that is complete, and is renewed after each.",
        )],
        footer: footer.to_owned(),
        ..Document::default()
    }
}

/// The cells of which nothing is concluded yet, with what is known of them.
pub fn not_yet(cells: &[(&AwaitedCell, NotYet, Option<&Cell>)]) -> Table {
    let row = |(awaited, why, cell): &(&AwaitedCell, NotYet, Option<&Cell>)| {
        vec![
            TableValue::from(awaited.name.as_str()),
            TableValue::from(why.to_string().as_str()),
            cell.map(|cell| measured(&cell.throughput)).into(),
            cell.map(|cell| measured(&cell.response.mean)).into(),
        ]
    };
    Table {
        name: "no-conclusion-yet".into(),
        title: String::new(),
        caption: String::new(),
        columns: vec![
            Column::new("cell", Unit::Text),
            Column::new("so far", Unit::Text),
            Column::named("throughput", quantities::THROUGHPUT),
            Column::named("response time", quantities::RESPONSE_TIME),
        ],
        rows: cells.iter().map(row).collect(),
    }
}

/// A page with what makes it live. `cells` is how many there are, `not_yet` those without a
/// conclusion.
pub fn page(html: &str, status: &LiveStatus, cells: usize, not_yet: &Table) -> String {
    let mut top = String::from(BEGIN);
    let state = if status.over { "over" } else { "running" };
    let share = status.share * 100.0;
    let _ = write!(
        top,
        "<aside class=\"live\" data-page=\"{}\" data-state=\"{state}\" aria-label=\"How far the experiment is\">\n\
         <p><strong>{}</strong> <span>{}</span> <em>{}</em></p>\n\
         <div class=\"done\"><i style=\"width: {share:.1}%\"></i></div>\n",
        status.page,
        html::escape(&status.state),
        html::escape(&status.line),
        html::escape(&status.left),
    );
    if !not_yet.rows.is_empty() {
        let _ = write!(
            top,
            "<details class=\"not-yet\"><summary>No conclusion yet in {} of {cells} cells</summary>\n\
             <small>What the page says of these, and with them, may change.</small>\n",
            not_yet.rows.len()
        );
        html::table(&mut top, not_yet);
        top.push_str("</details>\n");
    }
    let _ = write!(top, "</aside>\n<style>{STYLE}</style>{END}");
    let script = format!("{BEGIN}<script>\n\"use strict\";\n{SCRIPT}</script>{END}");
    html.replacen(POLICY, LIVE_POLICY, 1).replacen(BODY, &format!("{BODY}{top}"), 1).replacen(
        SCRIPTS,
        &format!("</body>\n{script}<script>"),
        1,
    )
}

/// The page without what makes it live.
pub fn without(live: &str) -> String {
    let mut plain = String::with_capacity(live.len());
    let mut rest = live;
    while let Some((before, inside)) = rest.split_once(BEGIN) {
        plain.push_str(before);
        rest = inside.split_once(END).map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain.replacen(LIVE_POLICY, POLICY, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Block, Section};

    #[test]
    fn what_makes_a_page_live_can_be_taken_away_and_nothing_else_is_changed() {
        let text = "a page that names </body>, <body> and <!--live--> itself".to_owned();
        let sections = vec![Section { title: text.clone(), blocks: vec![Block::Code(text.clone())] }];
        for document in
            [Document { title: text, sections, ..Document::default() }, nothing_yet("t", "Krarup")]
        {
            let plain = html::page(&document);
            let status = LiveStatus { line: "trial 1 of 2 <b>".into(), page: 7, ..LiveStatus::default() };
            let awaited = AwaitedCell { name: "clients 1".into(), factors: Vec::new(), runs: 3 };
            let live = page(&plain, &status, 2, &not_yet(&[(&awaited, NotYet::NotRun, None)]));
            assert_eq!(without(&live), plain);
            assert!(live.contains("connect-src 'self'") && !plain.contains("connect-src"));
            assert!(live.contains("trial 1 of 2 &lt;b&gt;") && live.contains("data-page=\"7\""));
            assert!(live.contains("No conclusion yet in 1 of 2 cells"), "{live}");
            assert_eq!(live.matches(BEGIN).count(), 2);
        }
    }

    #[test]
    fn an_event_is_one_line() {
        let status = LiveStatus { line: "a\nb".into(), ..LiveStatus::default() };
        assert!(!status.event().contains('\n'), "{}", status.event());
    }
}
