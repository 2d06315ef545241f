//! The report of an experiment, served to browsers while its trials run.
//!
//! ```text
//! campaign ─▶ a trial ends ─▶ results so far ─▶ page ─┐ between two trials
//!          ─▶ a trial begins ─▶ the line on top ──────┤
//!                                                     ▼
//! browser ◀── /  /report.html  /events ◀── threads of the server: they hand out bytes
//! ```
//!
//! All that takes time is done between two trials, by the thread that runs them: while one is
//! measured, the server only hands out what is there.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use krarup_analysis::results::Results;
use krarup_analysis::so_far::{self, AwaitedCell};
use krarup_analysis::warning::Warning;
use krarup_lab::campaign::CampaignEvent;
use krarup_lab::stop::Stop;
use krarup_net::http::events::HttpEvents;
use krarup_net::http::{self, HttpMethod, HttpResponse, HttpServer};
use krarup_net::mio::{Events, Poll, Token};
use krarup_net::signal::SignalStream;
use krarup_net::snapshots::lock;
use krarup_report::live::{self, LiveStatus};
use krarup_report::{document::Table, html};
use krarup_units::{Address, Seconds};

use crate::failure::Failure;
use crate::reporting::{RecordedExperiment, document};
use crate::telling::{RunningTrial, in_words};
use crate::trials::KnownTrials;
use crate::written;

/// Where it is served where no address is given.
pub(crate) const LIVE_ADDRESS: &str = "127.0.0.1:8080";

/// A page that no browser has shown for so long is closed, and not being loaded again.
const CLOSED: Duration = Duration::from_secs(2);

const PATHS: &str = "krarup run: GET / for the report, /report.html for its file, /events for what happens\n";

/// What is handed out.
#[derive(Debug, Default)]
struct ServedReport {
    /// The page as it would stand in its file.
    html: String,
    /// Of how many cells, and those without a conclusion.
    cells: usize,
    not_yet: Table,
    status: LiveStatus,
}

/// An address at which a report is served.
pub(crate) struct LiveReport {
    served: Arc<Mutex<ServedReport>>,
    events: HttpEvents,
    server: HttpServer,
}

/// The report of one experiment, at that address.
pub(crate) struct FollowedReport<'a> {
    live: LiveReport,
    records: RecordedExperiment<'a>,
    plan: Vec<AwaitedCell>,
    known: KnownTrials,
    /// Whether it was said that the report cannot be made.
    failed: bool,
}

impl LiveReport {
    /// Listens, and says where.
    pub(crate) fn at(address: &Address, title: &str) -> Result<Self, Failure> {
        let status = LiveStatus { state: "Starting".into(), ..LiveStatus::default() };
        let html = html::page(&live::nothing_yet(title, &written::footer()));
        let events = HttpEvents::at("/events", status.event());
        let served = Arc::new(Mutex::new(ServedReport { html, status, ..ServedReport::default() }));
        let its = Arc::clone(&served);
        let server = http::serve_with_events(address, &events, move |method, path, _| {
            answer(method, path, &lock(&its))
        });
        let server = server.map_err(|why| {
            Failure::usage(why.of("--serve"))
                .or_hint("another address, as --serve 127.0.0.1:0 for any free port")
        })?;
        eprintln!("report, live: http://{}/", server.address);
        Ok(Self { served, events, server })
    }

    /// Serves the report of this experiment from now on.
    pub(crate) fn of(self, records: RecordedExperiment<'_>) -> FollowedReport<'_> {
        let plan = records.awaited();
        let mut followed =
            FollowedReport { live: self, records, plan, known: KnownTrials::default(), failed: false };
        followed.renew();
        followed
    }

    /// Changes what is handed out, and tells those that listen.
    fn change(&self, change: impl FnOnce(&mut ServedReport)) {
        let mut served = lock(&self.served);
        change(&mut served);
        self.events.tell(served.status.event());
    }
}

fn answer(method: HttpMethod, path: &str, served: &ServedReport) -> HttpResponse {
    let page = |body| HttpResponse { status: 200, kind: "text/html; charset=utf-8", body };
    match (method, path) {
        (HttpMethod::Get, "/") => {
            page(live::page(&served.html, &served.status, served.cells, &served.not_yet))
        }
        (HttpMethod::Get, "/report.html") => page(served.html.clone()),
        (_, "/" | "/report.html" | "/events") => HttpResponse::text(405, PATHS),
        _ => HttpResponse::text(404, PATHS),
    }
}

impl FollowedReport<'_> {
    /// Shows what happens in the campaign; `running` is the trial that begins, at `now`.
    pub(crate) fn follow(&mut self, event: &CampaignEvent<'_>, running: Option<&RunningTrial>, now: Seconds) {
        if matches!(event, CampaignEvent::Complete(..)) {
            self.renew();
        }
        let Some(running) = running else { return };
        self.live.change(|served| {
            served.status.state = "Running".into();
            served.status.line = format!("trial {} of {}: {}", running.number, running.all, running.what);
            served.status.share = (running.number - 1) as f64 / running.all.max(1) as f64;
            served.status.ends = Some(now + running.left);
            served.status.left = in_words(running.left);
        });
    }

    /// Makes the page again from what is complete.
    fn renew(&mut self) {
        match self.records.so_far(&mut self.known) {
            Ok(Some(mut results)) => {
                // More runs of each cell are to come: one of each is no fault of the spec.
                if self.records.spec.repetitions.most() > 1 {
                    results.concerns.retain(|concern| concern.warning != Warning::OneRepetition);
                }
                self.show(html::page(&document(&results)), Some(&results));
            }
            Ok(None) => {
                let same = lock(&self.live.served).html.clone();
                self.show(same, None);
            }
            // The trials go on, and the report is made at their end.
            Err(why) => {
                if !self.failed {
                    why.warn("the report that is served stays as it is until the end");
                }
                self.failed = true;
            }
        }
    }

    fn show(&self, html: String, results: Option<&Results>) {
        let not_yet = live::not_yet(&so_far::not_yet(&self.plan, results));
        let cells = self.plan.len();
        self.live.change(|served| {
            served.status.page += 1;
            *served = ServedReport { html, cells, not_yet, status: std::mem::take(&mut served.status) };
        });
    }

    /// Shows the page that stands in the file now. While a browser has it open, it is served on,
    /// until Ctrl-C at the latest.
    pub(crate) fn end(self, html: &str, stop: &Stop) {
        let file = self.records.store.directory().join("report.html");
        let file = file.canonicalize().unwrap_or(file);
        let LiveReport { events, server, .. } = &self.live;
        // A Ctrl-C that comes from here on ends the waiting; one that came before has been seen.
        let released = release_on_signals(events.clone());
        self.live.change(|served| {
            let page = served.status.page + 1;
            *served = ServedReport { html: html.to_owned(), ..ServedReport::default() };
            served.status = LiveStatus {
                page,
                state: "The run has ended.".into(),
                line: format!("This page is {}.", file.display()),
                share: 1.0,
                over: true,
                ..LiveStatus::default()
            };
        });
        if released.is_err() || stop.asked() {
            events.release();
        }
        if events.until_listened(CLOSED) {
            eprintln!(
                "the report is open in a browser: http://{}/ is served until that is closed, or until Ctrl-C",
                server.address
            );
        }
        events.until_left(CLOSED);
    }
}

/// The signals that end a work end the waiting for browsers.
fn release_on_signals(events: HttpEvents) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let signals = SignalStream::ending(poll.registry(), Token(0))?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let _kept = signals;
        let mut seen = Events::with_capacity(4);
        while seen.is_empty() {
            match poll.poll(&mut seen, None) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
                _ => {}
            }
        }
        events.release();
    })?;
    Ok(())
}
