//! What is kept of the requests that this broker has carried out, in however many turns and shards.

use std::path::{Path, PathBuf};

use krarup_lab::platform;
use krarup_net::Clock;
use krarup_record::file::rows::{Lane, RowWriter};
use krarup_record::summary::{MiddlewareSummary, RunSummary, ServerSummary};
use krarup_record::{Recorder, file, recorder};
use krarup_serve::broker::engine::BrokerEnd;
use krarup_store::postgres::Database;
use krarup_units::{Nanos, Stamp};

use super::args::BrokerArgs;
use crate::failure::Failure;
use crate::proxy::save_json;
use crate::rows::listener;

pub(super) struct BrokerRecords {
    rows: Option<(RowWriter, PathBuf)>,
    folder: Option<PathBuf>,
    run: file::RunMetadata,
    all: Recorder,
    /// The span of all event loops' records.
    span: Option<(Stamp, Stamp)>,
    /// Whether each that began has ended.
    complete: bool,
    workers: Option<u32>,
    /// Where the database is.
    store: Option<String>,
}

/// An empty book for one event loop.
pub(super) fn recorder() -> Recorder {
    Recorder::new(recorder::RecorderSettings::default()).expect("the default settings are valid")
}

impl BrokerRecords {
    pub(super) fn begin(args: &BrokerArgs, place: Option<&Database>, clock: &Clock) -> Result<Self, Failure> {
        let run = file::RunMetadata { epoch_unix: clock.wall_epoch() };
        let rows = match &args.rows {
            None => None,
            Some(path) => {
                let plan = args.row_files.plan(path.clone(), || listener(&args.listen));
                let clock = *clock;
                let (now, epoch) = (move || clock.now(), move || clock.wall_epoch_now());
                let writer = RowWriter::begin(&plan, (run, false), now, epoch).map_err(|error| {
                    Failure::usage(error.to_string()).hint("choose another file with --rows")
                })?;
                Some((writer, path.clone()))
            }
        };
        Ok(Self {
            rows,
            folder: args.stats_dir.clone(),
            run,
            all: recorder(),
            span: None,
            complete: true,
            workers: args.workers(),
            store: place.map(Database::servers),
        })
    }

    /// Where an event loop leaves its rows, if they are wanted.
    pub(super) fn lane(&self) -> Option<Lane> {
        self.rows.as_ref().map(|(writer, _)| writer.lane())
    }

    /// An event loop has ended.
    pub(super) fn add(&mut self, ended: &mut BrokerEnd) {
        ended.broker.end_rows();
        self.all.merge(ended.broker.recorder()).expect("all record alike");
        let (from, to) = self.span.unwrap_or((ended.started, ended.stopped));
        self.span = Some((from.min(ended.started), to.max(ended.stopped)));
    }

    /// An event loop was given up: its last rows are missing.
    pub(super) fn give_up(&mut self) {
        self.complete = false;
    }

    /// Writes what is to be written, whatever the broker came to. Where no event loop has ended
    /// before it failed, the files of an earlier run stay.
    pub(super) fn end(self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        if outcome.is_err() && self.span.is_none() {
            return outcome;
        }
        Failure::of_both(outcome, self.write())
    }

    /// Where no event loop has begun, what an earlier run has written stays; where there is none,
    /// what is written is empty: an experiment knows by it that this broker was there.
    fn write(mut self) -> Result<(), Failure> {
        let has_begun = self.span.is_some() || !self.complete;
        let is_new = |path: &Path| has_begun || !path.is_file();
        let mut rows = Ok(());
        if let Some((writer, path)) = self.rows.take().filter(|(_, path)| is_new(path)) {
            rows = crate::rows::finish(writer, &path.display().to_string());
            if !self.complete {
                eprintln!("warning: the rows in {} are not complete", path.display());
            }
        }
        if let Some(folder) = self.folder.as_ref().filter(|folder| is_new(&folder.join("summary.json"))) {
            let summary = self.summary();
            let saved = file::save_all(folder, &self.all, self.run)
                .and_then(|()| save_json(&folder.join("summary.json"), &summary))
                .map(|()| eprintln!("statistics in {}", folder.display()))
                .map_err(|error| Failure::run(format!("the statistics cannot be written: {error}")));
            return Failure::of_both(rows, saved);
        }
        rows
    }

    /// What it says of its run as a middleware before its database.
    fn summary(&self) -> MiddlewareSummary {
        let span = self.span.unwrap_or_default();
        let mut run = RunSummary::of(&self.all, span, self.workers);
        run.free_when_answered = true;
        run.cpu_seconds = platform::cpu_time(std::process::id()).map(Nanos::as_seconds);
        run.cores = Some(platform::Platform::this().cores);
        let asked = self.all.servers().fold((0, 0), |(requests, errors), (_, totals)| {
            (requests + totals.requests, errors + totals.errors)
        });
        let server = |name: &String| ServerSummary { name: name.clone(), requests: asked.0, errors: asked.1 };
        MiddlewareSummary { run, servers: self.store.iter().map(server).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use krarup_record::file::rows::RowFile;
    use krarup_record::{Operation, Visit};

    use super::*;

    /// As where a shard's database does not answer when the broker is stopped.
    #[test]
    fn an_event_loop_that_was_given_up_costs_no_other_its_rows() {
        let path = std::env::temp_dir().join(format!("krarup-given-up-{}.parquet", std::process::id()));
        let args = BrokerArgs::of(&format!("--rows {}", path.display()));
        let mut records = BrokerRecords::begin(&args, None, &Clock::start()).unwrap();
        let (mut ended, given_up) = (records.lane().unwrap(), records.lane().unwrap());
        ended.push(&Visit::at(Stamp(0), Operation::Put), &[]);
        drop(ended);
        records.give_up();
        records.end(Ok(())).unwrap();
        assert_eq!(RowFile::open(&path).unwrap().rows(), 1);
        drop(given_up);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_broker_that_never_had_its_turn_leaves_what_an_earlier_run_has_written() {
        let folder = std::env::temp_dir().join(format!("krarup-no-turn-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (rows, summary) = (folder.join("rows.parquet"), folder.join("summary.json"));
        let flags = format!("--rows {} --stats-dir {}", rows.display(), folder.display());
        let ends = || {
            let records = BrokerRecords::begin(&BrokerArgs::of(&flags), None, &Clock::start()).unwrap();
            records.end(Ok(())).unwrap();
        };
        ends();
        assert_eq!(RowFile::open(&rows).unwrap().rows(), 0);
        assert!(summary.is_file(), "an experiment counts its brokers by these");
        for file in [&rows, &summary] {
            fs::write(file, "earlier").unwrap();
        }
        ends();
        let left = [&rows, &summary].map(|file| fs::read_to_string(file).unwrap());
        assert_eq!(left, ["earlier", "earlier"]);
        // The thread of the rows may still be removing what it had begun.
        let _ = fs::remove_dir_all(folder);
    }
}
