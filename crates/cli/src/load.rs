//! `krarup load`: load on memcached servers, measured from when each request was due.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use krarup_lab::platform::host_name;
use krarup_load::config::{Extent, LoadShare};
use krarup_load::merge::{MergeError, sources};
use krarup_load::result::{FOR_A_TRACE, GeneratorResult};
use krarup_load::schedule::{Arrivals, Leg, Open};
use krarup_load::search::{FoundMax, SearchTrial, TrialLimit};
use krarup_load::settings::{LoadConfig, Options};
use krarup_load::{Conductor, Load, LoadError, LoadProgress, LoadResult, LoadWarning, table};
use krarup_net::Clock;
use krarup_record::file;
use krarup_record::histogram::LONGEST;
use krarup_settings::Mistakes;
use krarup_units::text::{parse_duration, parse_instant};
use krarup_units::{Nanos, Seconds};

use files::LoadFiles;

use crate::failure::Failure;
use crate::flags::{Flags, whole};
use crate::rows::{RowFileArgs, RowKeyArgs};
use crate::share::WorkShare;
use crate::{input, output, written};

mod files;

/// Put load on memcached servers or message queues and measure how they answer.
///
/// Closed loop by default: each connection sends its next request when it has its answer. With
/// --rate requests come at their own pace, whatever the servers do. Response times count from when
/// a request was due, so delays of the generator or of a stalled connection are never hidden. The
/// result goes to stdout, progress to stderr. SIGINT ends a run early and still reports.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup load --populate --ratio 1:10 --connections 64 --seconds 30 --warm-up 5s\n  \
    krarup load --rate 20000 --arrivals poisson --data-size etc --key-law zipf:0.99 --json result.json\n  \
    krarup load --config classes.toml\n  \
    krarup load --replay rows.parquet --replay-speed 2\n  \
    krarup load --merge a.json,b.json --json both.json\n  \
    krarup load --share 3/8 --start-at 2026-11-22T07:30:00Z --json 3.json")]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    flags: Flags<Options>,
    /// A configuration file, for several classes of clients and for keeping; flags take precedence
    /// over its top level
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the configuration that would be used, as a commented file, and end
    #[arg(long)]
    print_config: bool,
    /// Print every call of memtier_benchmark in a script as a call of krarup load, and end;
    /// --print-config makes files of these
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "print_config", "share", "populate", "populate_only", "start_at", "find_max", "json", "csv", "hlog", "rows"])]
    from_memtier: Option<PathBuf>,
    /// Print what memtier_benchmark wrote, its table or its JSON, as JSON in seconds and per
    /// second, and end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "print_config", "from_memtier", "share", "populate", "populate_only", "start_at", "find_max", "csv", "hlog", "rows"])]
    memtier_result: Option<PathBuf>,
    /// Merge results that several generators wrote with --json into that of all, and end
    #[arg(long, value_name = "FILE", value_delimiter = ',', num_args = 1.., conflicts_with_all = ["config", "print_config", "from_memtier", "memtier_result", "populate", "populate_only", "start_at", "find_max", "csv", "hlog", "rows"])]
    merge: Vec<PathBuf>,
    /// Wait so long for results that are not there yet
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "merge")]
    merge_within: Option<Seconds>,
    /// Send only share I of N of the load (I+1/N where I counts from 0): the shares that N
    /// generators send are together what one with N times as many threads sends; --merge takes all
    /// of them, or none. Of --populate share 1 stores all keys
    #[arg(long, value_name = "I/N", conflicts_with_all = ["find_max", "merge"])]
    share: Option<WorkShare>,
    /// First store every key, in order and exactly once, and verify that all are there
    #[arg(long)]
    populate: bool,
    /// Populate, and end
    #[arg(long)]
    populate_only: bool,
    /// Connect, then begin when the wall clock shows this: nanoseconds since 1970, or
    /// 2026-11-22T07:30:00Z (RFC 3339). Generators that are told the same instant begin together
    #[arg(long, value_name = "INSTANT", value_parser = parse_instant, conflicts_with_all = ["find_max", "populate_only"])]
    start_at: Option<Nanos>,
    /// Before --start-at, do not ask the first server for `stats` until its second begins. By that
    /// --merge compares the clocks of generators
    #[arg(long, requires = "start_at")]
    no_clock_check: bool,
    /// A line per second on stderr: auto (only on a terminal), human, json (one object per line),
    /// none
    #[arg(long, value_name = "HOW", default_value = "auto", default_missing_value = "human", num_args = 0..=1)]
    progress: ProgressStyle,
    /// Search for the highest rate whose 99th percentile of response time stays below this; each
    /// trial takes --seconds
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["requests", "think", "csv", "hlog"])]
    find_max: Option<Seconds>,
    /// How often --find-max is repeated, for an interval
    #[arg(long, value_name = "N", default_value_t = 3, requires = "find_max", value_parser = whole::<u32>(1, 100))]
    repetitions: u32,
    /// Write the result as JSON; `-` for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write what happened second by second, per operation, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the histograms of every second as an HdrHistogram log, which merges exactly
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Write a row of every request as Parquet, in the columns of every rows.parquet; `station` is
    /// the number of the class
    #[arg(long, value_name = "FILE", conflicts_with = "find_max")]
    rows: Option<PathBuf>,
    #[command(flatten)]
    row_files: RowFileArgs,
    #[command(flatten)]
    row_keys: RowKeyArgs,
}

/// How a long run tells how far it is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressStyle {
    Auto,
    Human,
    Json,
    None,
}

impl ProgressStyle {
    /// What `auto` means, for a stderr that is a terminal or not.
    pub(crate) fn unless_piped(self, is_terminal: bool) -> Self {
        match self {
            Self::Auto if is_terminal => Self::Human,
            Self::Auto => Self::None,
            other => other,
        }
    }
}

impl LoadArgs {
    /// What the file says, with the flags over it.
    fn settings(&self) -> Result<LoadConfig, Failure> {
        let from_file = match &self.config {
            None => LoadConfig::default(),
            Some(path) => {
                let name = path.display().to_string();
                let text = input::text(path)
                    .map_err(|why| why.or_hint(format!("krarup load --print-config > {name} makes one")))?;
                LoadConfig::parse(&text, &name).map_err(wrong)?
            }
        };
        let said = self.flags.said().map(|(row, texts)| (row.key, texts.join(",")));
        from_file.with_flags(said).map_err(wrong)
    }
}

fn wrong(mistakes: impl Into<Mistakes>) -> Failure {
    Failure::from(mistakes.into())
        .or_hint("krarup load --help shows every flag, --print-config every key of a file")
}

/// The load that these words ask for, where the subcommand would take them.
pub(crate) fn asked(args: &LoadArgs) -> Result<Load, Failure> {
    loaded(args, &args.settings()?)
}

/// The load of these settings, which the flags are among.
fn loaded(args: &LoadArgs, settings: &LoadConfig) -> Result<Load, Failure> {
    let load = settings.load().map_err(wrong)?;
    if !load.replays() && args.flags.said().any(|(row, _)| row.key == "replay_speed") {
        return Err(Failure::usage("--replay-speed belongs to a trace, and none is sent")
            .hint("name the trace with --replay"));
    }
    Ok(load)
}

/// Refuses flags of a load where nothing is sent.
fn refuse_unused(args: &LoadArgs) -> Result<(), Failure> {
    let reading = [
        ("--merge", !args.merge.is_empty()),
        ("--from-memtier", args.from_memtier.is_some()),
        ("--memtier-result", args.memtier_result.is_some()),
    ];
    let reading = reading.into_iter().find(|(_, is_given)| *is_given);
    let (Some((reads, _)), Some((row, _))) = (reading, args.flags.said().next()) else { return Ok(()) };
    let flag = row.flag_name();
    Err(Failure::usage(format!("{reads} sends nothing, so --{flag} has no effect"))
        .hint(format!("leave out --{flag}")))
}

/// Runs the subcommand.
pub(crate) fn run(args: &LoadArgs) -> Result<(), Failure> {
    refuse_unused(args)?;
    // Where there is no result the file is not asked for.
    let json = args.json.as_deref().filter(|_| !args.print_config && !args.populate_only);
    json.map_or(Ok(()), written::writable)?;
    if !args.merge.is_empty() {
        return merge(args);
    }
    if let Some(path) = &args.from_memtier {
        let calls = krarup_load::memtier::script::calls(&memtier_text(path)?)
            .map_err(|wrong| misread(path, wrong))?;
        for call in &calls {
            for note in &call.memtier.notes {
                eprintln!("note: line {}: {note}", call.line);
            }
        }
        let lines: String = calls.iter().map(|call| format!("{}\n", call.command())).collect();
        return written::to_stdout(&lines);
    }
    if let Some(path) = &args.memtier_result {
        let read =
            krarup_load::memtier::read::read(&memtier_text(path)?).map_err(|wrong| misread(path, wrong))?;
        return write_json(args.json.as_deref().unwrap_or(Path::new("-")), &read);
    }
    let mut settings = args.settings()?;
    if args.print_config {
        return written::to_stdout(&settings.commented());
    }
    // A rate would take the place of a trace and of think times: these are refused below.
    if args.find_max.is_some() && !["rate", "replay", "think"].iter().any(|key| settings.says(key)) {
        settings = settings.with_flags([("rate", "1000".to_owned())]).map_err(wrong)?;
    }
    let load = own_share(args, loaded(args, &settings)?)?;
    let search = args.find_max.map(|p99| searched(&load, p99).map(|open| (p99, open))).transpose()?;
    krarup_net::files::allow_many();
    let mut tell = observer(args.progress);
    // Of populating nothing is kept, and what other runs have written stays.
    let [csv, hlog] = [&args.csv, &args.hlog].map(|path| path.as_deref().filter(|_| !args.populate_only));
    let mut records = LoadFiles::begin(csv, hlog, &load)?;
    let mut observe = |event: &LoadProgress<'_>| {
        tell(event);
        records.keep(event);
    };
    let mut conductor = Conductor::new(true).map_err(|error| Failure::run(error.to_string()))?;
    if (args.populate || args.populate_only) && load.share.is_none_or(|share| share.number == 1) {
        let (stored, verified) = conductor.populate(&load, &mut observe).map_err(failure)?;
        let which = if verified == stored { " and".to_owned() } else { format!(", {verified} of them") };
        if stored == 0 {
            eprintln!("nothing to populate: {NO_KEYS}");
        } else {
            eprintln!("populated: {stored} keys stored{which} verified");
        }
    }
    if args.populate_only {
        return Ok(());
    }
    if let Some((p99, open)) = search {
        return find_max(args, load, &open, TrialLimit { p99, carried: CARRIED }, &mut conductor);
    }
    let plan = |path: &PathBuf| args.row_keys.over(args.row_files.plan(path.clone(), host_name));
    conductor.keep_rows(args.rows.as_ref().map(plan));
    conductor.begin_at(args.start_at, !args.no_clock_check);
    let result = conductor.run(&load, &mut observe).map_err(failure)?;
    // The result is told in any case: the run is not had again.
    let kept = records.finish();
    let told = report(args, &result).and(kept);
    let rows = conductor.rows_problem().map_or(Ok(()), |problem| Err(failure(LoadError::Rows(problem))));
    Failure::of_both(rows, told)?;
    verdict(&result)
}

/// Why populating has stored nothing.
const NO_KEYS: &str = "a queue has no keys, and a trace that names its keys stores them itself";

/// The load of which this generator sends a share, where it is told so.
fn own_share(args: &LoadArgs, load: Load) -> Result<Load, Failure> {
    let Some(WorkShare { number, of }) = args.share else { return Ok(load) };
    let start_at = args.start_at.map(|instant| instant.0);
    let share = Some(LoadShare { number: number as u32, of: of as u32, start_at });
    let load = Load { share, ..load };
    load.check().map_err(wrong)?;
    Ok(load)
}

/// The text of what was written for memtier_benchmark, or by it.
fn memtier_text(path: &Path) -> Result<String, Failure> {
    input::text(path).map_err(|why| why.or_hint(MEMTIER))
}

const MEMTIER: &str = "a script calls memtier_benchmark; a result is the table or the JSON that it wrote";

fn misread(path: &Path, wrong: impl Into<Mistakes>) -> Failure {
    Failure::from(wrong.into().of(&path.display().to_string())).or_hint(MEMTIER)
}

/// Merges the results of several generators.
fn merge(args: &LoadArgs) -> Result<(), Failure> {
    if let Some(limit) = args.merge_within {
        wait_for(&args.merge, limit)?;
    }
    let merged = merged(&args.merge)?;
    report(args, &merged)?;
    verdict(&merged)
}

/// The result of all generators that wrote these.
fn merged(files: &[PathBuf]) -> Result<LoadResult, Failure> {
    let read = |path: &PathBuf| -> Result<LoadResult, Failure> {
        input::json(path).map_err(|why| why.or_hint("a result is what krarup load --json FILE wrote"))
    };
    let results = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    each_once(&results, files)?;
    merged_of(&results, files)
}

/// Refuses results of which two hold the same generator, as of parts and their sum. No two began in
/// the same nanosecond and did exactly as much.
fn each_once(results: &[LoadResult], files: &[PathBuf]) -> Result<(), Failure> {
    let mut seen: Vec<(GeneratorResult, &PathBuf)> = Vec::new();
    for (result, file) in results.iter().zip(files) {
        for generator in sources(result) {
            if let Some((_, other)) = seen.iter().find(|(earlier, _)| *earlier == generator) {
                let (file, other) = (file.display(), other.display());
                let what = format!("a generator of {file} is in {other} too, and would count twice");
                return Err(Failure::usage(what)
                    .hint("name the result of each generator once, and none that --merge made of these"));
            }
            seen.push((generator, file));
        }
    }
    Ok(())
}

/// The same of results that were read from these.
pub(crate) fn merged_of(results: &[LoadResult], files: &[PathBuf]) -> Result<LoadResult, Failure> {
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    krarup_load::merge::merge(results, &names).map_err(|error| match error {
        MergeError::Results(wrong) => Failure::from(wrong),
        MergeError::Incomplete(wrong) | MergeError::Clocks(wrong) => Failure::run(wrong),
    })
}

/// How often results that are not there yet are looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Waits for files, which are whole once they have their names.
fn wait_for(files: &[PathBuf], limit: Seconds) -> Result<(), Failure> {
    let clock = Clock::start();
    loop {
        let missing: Vec<String> =
            files.iter().filter(|file| !file.exists()).map(|file| file.display().to_string()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if clock.now().0 >= Nanos::from_seconds(limit).0 {
            let (count, all, limit) = (missing.len(), files.len(), krarup_units::text::duration(limit));
            let what = format!("after {limit} {count} of {all} results are missing: {}", missing.join(", "));
            return Err(Failure::run(what).hint(
                "a generator that was lost writes none (the sum of the others would be a lower figure), or has not ended yet: wait longer with --merge-within",
            ));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// A rate was not carried where less than this share of what was due was answered.
const CARRIED: f64 = 0.98;

/// The arrivals of a load whose highest rate can be searched for, with this limit.
fn searched(load: &Load, p99: Seconds) -> Result<Open, Failure> {
    let (wrong, hint) = match (&load.arrivals, load.extent) {
        _ if p99 >= LONGEST.as_seconds() => {
            ("with a limit below 100 s", "longer times are not told apart: say less with --find-max")
        }
        _ if !load.classes.is_empty() => {
            ("with one class of clients", "leave out what the file says of classes")
        }
        (Arrivals::Replay(_), _) => ("with an open load, not with a trace", "leave out `replay`"),
        (Arrivals::Closed(_), _) => ("with an open load, whose clients do not think", "leave out `think`"),
        (_, Extent::Requests(_)) => ("in trials of one length", "say `seconds` instead of `requests`"),
        (Arrivals::Open(open), _) => return Ok(open.clone()),
    };
    Err(Failure::usage(format!("the highest rate is searched for {wrong}")).hint(hint))
}

/// Searches for the highest rate, several times over, and reports it.
fn find_max(
    args: &LoadArgs,
    mut load: Load,
    open: &Open,
    limit: TrialLimit,
    conductor: &mut Conductor,
) -> Result<(), Failure> {
    let (process, start, seed) = (open.process, open.legs[0].to, load.seed);
    let max = FoundMax::search(limit, args.repetitions, start, seed, |number, rate| {
        let legs = vec![Leg { from: rate, to: rate, seconds: 0.0 }];
        load.arrivals = Arrivals::Open(Open { process, legs });
        load.seed = load.seed.wrapping_add(1);
        let stopped = || Failure::stopped("interrupted: the search was not at its end");
        let result = conductor.run(&load, &mut |_| {}).map_err(|error| match error {
            LoadError::Interrupted(_) => stopped(),
            other => failure(other),
        })?;
        if result.interrupted {
            return Err(stopped());
        }
        verified(&result)?;
        let trial = SearchTrial::new(number, rate, limit, result);
        eprintln!("{}", output::talk(table::trial(&trial)));
        Ok(trial)
    })?;
    if args.json.as_deref() != Some(Path::new("-")) {
        written::to_stdout(&table::found_max(&max))?;
    }
    args.json.as_deref().map_or(Ok(()), |path| write_json(path, &max))?;
    if max.found.is_empty() {
        Err(Failure::run("not even one request per second was carried"))
    } else {
        Ok(())
    }
}

fn failure(error: LoadError) -> Failure {
    let failure = Failure::run(error.to_string());
    match error {
        LoadError::Config(mistake) => Failure::usage(mistake),
        LoadError::Trace { path, why } => Failure::usage(why.of(&path.display().to_string()))
            .or_hint("a trace is the rows of a run (krarup load --rows, krarup proxy --rows), or CSV like time,op,key,size"),
        LoadError::Rows(_) => failure.hint("choose another file with --rows"),
        LoadError::Unreachable(mistake) => {
            Failure::run(mistake).or_hint("is a server listening there? `memcached -l 127.0.0.1 -p 11211` starts one, so does `krarup cache`")
        }
        LoadError::Populate { .. } => failure.hint(
            "look at the server's memory limit (-m) and largest item (-I), and at what a proxy before it answers to a `set`",
        ),
        LoadError::TooLate { .. } => failure.hint(
            "give --start-at a later instant: the clients have to be connected by then, and clocks of other machines may differ",
        ),
        LoadError::Interrupted(why) => Failure::stopped(why),
        LoadError::System(_) => failure.hint("each connection takes a file descriptor: `ulimit -n` shows how many there may be"),
    }
}

/// A row of less time, in seconds, is no line of progress.
const LEAST_SHOWN: f64 = 0.05;

/// Tells what happens, once a second.
fn observer(progress: ProgressStyle) -> impl FnMut(&LoadProgress<'_>) {
    let progress = progress.unless_piped(io::stderr().is_terminal());
    move |event| {
        let Some(all) = event.rows.first() else { return };
        match progress {
            // What is left of the last second at the end may be no time at all.
            ProgressStyle::Human if all.length < LEAST_SHOWN => {}
            ProgressStyle::Human => {
                eprintln!("{}", table::progress(event.phase, event.of, all, output::stderr_width()));
            }
            ProgressStyle::Json => {
                let line = serde_json::json!({ "phase": event.phase, "of": event.of, "second": all });
                eprintln!("{line}");
            }
            ProgressStyle::Auto | ProgressStyle::None => {}
        }
    }
}

fn report(args: &LoadArgs, result: &LoadResult) -> Result<(), Failure> {
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if !to_stdout {
        written::to_stdout(&table::table(result, output::width()))?;
    }
    args.json.as_deref().map_or(Ok(()), |path| write_json(path, result))
}

fn write_json(path: &Path, result: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(result).map_err(|error| Failure::run(error.to_string()))?;
    text.push('\n');
    if path == Path::new("-") {
        return written::to_stdout(&text);
    }
    // Others may wait for the name of a file: it is whole then.
    file::save(path, |out| Ok(out.write_all(text.as_bytes())?))
        .map_err(|error| written::unwritten(path, &error.problem))
}

/// Whether all values that were verified are what was stored, and any came where some were asked
/// for.
fn verified(result: &LoadResult) -> Result<(), Failure> {
    let Some(verified) = &result.verified else { return Ok(()) };
    let populate = if result.config.replays() { FOR_A_TRACE } else { "--populate stores all of them" };
    if verified.mismatched > 0 {
        return Err(Failure::run(format!(
            "verification failed: {} of {} values are not what was stored",
            verified.mismatched, verified.checked
        ))
        .hint(format!("has something else written these keys? {populate}")));
    }
    if verified.checked == 0 && result.account.misses > 0 {
        return Err(Failure::run("nothing was verified: all that was asked for was missing")
            .hint(format!("are these keys there? {populate}")));
    }
    Ok(())
}

/// Whether the run was what was asked for.
pub(crate) fn verdict(result: &LoadResult) -> Result<(), Failure> {
    verified(result)?;
    if let Some(share) = result.config.share.filter(|_| result.interrupted) {
        let what = format!("stopped before its end: this is not the whole of share {}", share.number);
        return Err(Failure::run(what).hint("run all shares again; --merge refuses this one"));
    }
    if result.account.answered == 0 {
        let failed = result.warnings.iter().find(|one| matches!(one, LoadWarning::ConnectionFailed { .. }));
        let why = failed.map_or_else(String::new, |failed| format!(": {failed}"));
        return Err(Failure::run(format!("not one request was answered{why}")));
    }
    if !result.interrupted && result.warnings.contains(&LoadWarning::NothingMeasured) {
        return Err(Failure::run("nothing was measured").hint("make --warm-up shorter, or the run longer"));
    }
    Ok(())
}
