//! Headroom of what was recorded: the rows of one proxy, or what the proxy of each trial of a
//! directory said of itself, or its rows.

use std::path::{Path, PathBuf};

use krarup_analysis::headroom::{self, TrialHeadroom};
use krarup_analysis::trial::Trial;
use krarup_model::headroom::{Headroom, HeadroomQuestion, LiveSystem, NamedChange, ResponseTarget, judge};
use krarup_record::file::rows::RowRun;
use krarup_record::summary::MiddlewareSummary;
use krarup_record::{KEPT_OF_ROWS, LiveRows, LiveSnapshot};
use krarup_units::text::count;
use krarup_units::{Mistake, Nanos, Seconds, Stamp};

use crate::failure::Failure;
use crate::{input, output, rows, trials};

/// The seed unless another is said.
pub(crate) const SEED: u64 = 1;

/// The file in which a proxy that ends leaves what it says of its headroom.
pub(crate) const AT_END: &str = "headroom.json";

/// What is said of the headroom of a proxy that ends: at which rate the first resource is full.
pub(crate) fn at_end(traffic: LiveSnapshot, system: &LiveSystem) -> Headroom {
    judge(
        &traffic.at_last_reply(),
        system,
        &HeadroomQuestion { target: None, changes: Vec::new(), seed: SEED },
    )
}

/// What is asked of rows.
#[derive(Clone, Debug)]
pub(crate) struct RowsQuestion {
    pub(crate) target: Option<ResponseTarget>,
    /// Changes to look at; none: the usual ones.
    pub(crate) what_if: Vec<NamedChange>,
    /// Workers of the proxy; none: what stands beside the rows.
    pub(crate) workers: Option<u32>,
    /// Names of its servers; none: what stands beside the rows.
    pub(crate) server_names: Vec<String>,
    /// Which part of the run.
    pub(crate) from: Option<Seconds>,
    pub(crate) to: Option<Seconds>,
    pub(crate) seed: u64,
}

/// What is known of the proxy that wrote rows.
#[derive(Default)]
struct KnownProxy {
    names: Vec<String>,
    workers: Option<u32>,
    /// Whether it is a broker, whose requests wait otherwise: in one queue before its database, or
    /// for a message.
    free_when_answered: bool,
}

impl KnownProxy {
    /// What stands beside the rows: with them, or with their folder. None where nothing does, as of
    /// a proxy that has not ended.
    fn beside(rows: &Path) -> Result<Option<Self>, Failure> {
        let with = [rows.join("summary.json"), rows.with_file_name("summary.json")];
        let Some(summary) = with.into_iter().find(|file| file.is_file()) else {
            return Ok(None);
        };
        let summary: MiddlewareSummary = input::json(&summary)?;
        let names = summary.servers.into_iter().map(|server| server.name).collect();
        let (workers, free_when_answered) = (summary.run.workers, summary.run.free_when_answered);
        Ok(Some(Self { names, workers, free_when_answered }))
    }

    /// The same with what was said instead.
    fn or(self, args: &RowsQuestion) -> Self {
        let names = if args.server_names.is_empty() { self.names } else { args.server_names.clone() };
        Self { names, workers: args.workers.or(self.workers), ..self }
    }

    /// The system with at least so many servers; one without a name has its number.
    fn system(&self, servers: usize) -> LiveSystem {
        let name = |number: usize| self.names.get(number).cloned().unwrap_or_else(|| number.to_string());
        let workers = self.workers;
        LiveSystem { workers, ..LiveSystem::of((0..servers.max(self.names.len())).map(name)) }
    }
}

/// Refuses what was recorded on a testbed that is slower: it says nothing of the machines that
/// figures speak of.
fn not_slower(path: &Path) -> Result<(), Failure> {
    let Some(by) = trials::slower(path) else { return Ok(()) };
    let what = format!("{}: a testbed that is {by} times slower says nothing of headroom", path.display());
    Err(Failure::usage(what).hint(
        "measure on a machine with the processors that the spec speaks of, without [scale], or ask a proxy that serves: krarup headroom HOST:PORT",
    ))
}

/// The headroom when the last of the rows was written.
pub(crate) fn judge_rows(args: &RowsQuestion, path: &Path) -> Result<Headroom, Failure> {
    not_slower(path)?;
    let changes = |system: &LiveSystem| {
        if args.what_if.is_empty() {
            return NamedChange::usual(system, args.target);
        }
        args.what_if.clone()
    };
    let beside = KnownProxy::beside(path)?;
    let are_workers_known = beside.is_some() || args.workers.is_some();
    let known = beside.unwrap_or_default().or(args);
    let mut runs = rows::runs(path)?;
    let (name, run) = runs.remove(0);
    if let Some((another, _)) = runs.first() {
        return Err(Failure::usage(format!(
            "{} has rows of several programs: {name} and {another}",
            path.display()
        ))
        .hint("give the folder, or the file, of one of them"));
    }
    if let Some(why) = unfit(&run, &known)? {
        return Err(Failure::usage(why).at(&name));
    }
    if !are_workers_known {
        eprintln!("{}", output::talk(NO_SUMMARY));
    }
    judge_run(&name, &run, (args.from, args.to), &known, (args.target, args.seed), changes)
}

/// Workers that were full first would not be seen.
const NO_SUMMARY: &str = "warning: there is no summary.json beside these rows, which a proxy writes when it \
    ends: workers count as unlimited; --workers says how many the proxy had";

/// Of how many rows one may be missing, or one visit in none of them.
const ONE_MISSING_OF: u64 = 100;

/// Why rows do not say what servers did for all requests; none where they do.
fn unfit(rows: &RowRun, known: &KnownProxy) -> Result<Option<Mistake>, Failure> {
    const ASK: &str = "ask its admin address while it runs: krarup headroom HOST:PORT";
    if rows.of_clients() {
        let what = "a load generator wrote these rows, which do not say when servers answered";
        return Ok(Some(Mistake::new(what, "krarup proxy --stats-dir DIR --rows writes those of a proxy")));
    }
    if let Some(keys) = rows.sample() {
        let what = format!("these are the rows of {keys} of the keys, and servers worked for the others too");
        return Ok(Some(Mistake::new(what, format!("write rows without --rows-sample, or {ASK}"))));
    }
    let (kept, lost) = (rows.lengths().iter().sum::<u64>(), rows.lost());
    if lost > kept / ONE_MISSING_OF {
        let [lost, kept] = [lost, kept].map(|number| count(number as f64));
        let what = format!("{lost} rows are missing beside the {kept} there are");
        let hint = format!("write rows to a disk that is quick enough and has room, or {ASK}");
        return Ok(Some(Mistake::new(what, hint)));
    }
    let apart = rows.apart();
    if apart > kept / ONE_MISSING_OF {
        let [apart, kept] = [apart, kept].map(|number| count(number as f64));
        let what = format!(
            "servers answered {apart} times for no client that waited (copies of `writes`, hedges, refills, shadows), which none of the {kept} rows shows"
        );
        return Ok(Some(Mistake::new(what, ASK)));
    }
    let mut of_broker = known.free_when_answered;
    rows.for_each_of(0..1, |visit, _| of_broker |= visit.operation.is_of_queue())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let what = "a broker wrote these rows, which do not say for what its requests waited";
    Ok(of_broker.then(|| Mistake::new(what, ASK)))
}

fn judge_run(
    name: &str,
    rows: &RowRun,
    (from, to): (Option<Seconds>, Option<Seconds>),
    known: &KnownProxy,
    (target, seed): (Option<ResponseTarget>, u64),
    changes: impl FnOnce(&LiveSystem) -> Vec<NamedChange>,
) -> Result<Headroom, Failure> {
    let begin = rows.span().map_or(0, |(begin, _)| begin.0);
    let at = |time: Seconds| Stamp(begin.saturating_add(Nanos::from_seconds(time).0));
    let (from, to) = (from.map_or(Stamp(0), at), to.map_or(Stamp(u64::MAX), at));
    let mut live = LiveRows::new(KEPT_OF_ROWS);
    rows.for_each_by_reply(|visit, servers| {
        if visit.replied >= from && visit.replied <= to {
            live.see(visit, servers);
        }
    })
    .map_err(|error| Failure::usage(error.to_string()))?;
    if live.servers() == 0 {
        let what = format!("{name}: no row in it names a server");
        return Err(Failure::usage(what).hint("see --from and --to"));
    }
    let system = known.system(live.servers());
    let snapshot = live.snapshot().expect("there was a row");
    let changes = changes(&system).iter().map(|change| change.of(&system)).collect::<Result<_, _>>()?;
    Ok(judge(&snapshot, &system, &HeadroomQuestion { target, changes, seed }))
}

/// The headroom at the end of each trial of one proxy, beside what all measured: from its rows, or
/// what it said itself where nothing else is asked.
pub(crate) fn judge_trials(
    args: &RowsQuestion,
    trials: &[(PathBuf, Trial)],
) -> Result<Vec<TrialHeadroom>, Failure> {
    trials.iter().try_for_each(|(folder, _)| not_slower(folder))?;
    let as_it_was =
        args.target.is_none() && args.workers.is_none() && args.server_names.is_empty() && args.seed == SEED;
    let mut found = Vec::new();
    for (folder, trial) in trials {
        let answer = of_trial(folder, (args.target, args.seed), as_it_was, |known| known.or(args))?;
        found.push((trial.clone(), answer));
    }
    Ok(headroom::beside_measured(found, args.target))
}

/// The same for a report: without a target, and without what cannot be read any more.
pub(crate) fn reported(trials: &[(PathBuf, Trial)]) -> Vec<TrialHeadroom> {
    let judged = |(folder, trial): &(PathBuf, Trial)| {
        let answer = of_trial(folder, (None, SEED), true, |known| known).unwrap_or_else(|why| {
            why.warn("nothing is said of the headroom of its trial");
            None
        });
        (trial.clone(), answer)
    };
    headroom::beside_measured(trials.iter().map(judged).collect(), None)
}

fn of_trial(
    folder: &Path,
    question: (Option<ResponseTarget>, u64),
    as_it_was: bool,
    known: impl Fn(KnownProxy) -> KnownProxy,
) -> Result<Option<Headroom>, Failure> {
    let of_proxy = folder.join("middleware/1");
    // A testbed that is slower says nothing of the machines that figures speak of.
    if folder.join("middleware/2").exists() || trials::slower(folder).is_some() {
        return Ok(None);
    }
    let said = of_proxy.join(AT_END);
    if as_it_was && said.is_file() {
        return input::json(&said).map(Some);
    }
    let Some(rows) = rows::of_program(&of_proxy)? else { return Ok(None) };
    let known = known(KnownProxy::beside(&of_proxy)?.unwrap_or_default());
    if unfit(&rows, &known)?.is_some() {
        return Ok(None);
    }
    let name = of_proxy.display().to_string();
    judge_run(&name, &rows, (None, None), &known, question, |_| Vec::new()).map(Some)
}
