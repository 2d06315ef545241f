//! `krarup plan`, `krarup run` and `krarup report`: an experiment from its spec to its page.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::PathBufValueParser;
use krarup_analysis::results::{BUILD, Environment};
use krarup_analysis::trial::Trial;
use krarup_lab::campaign::{self, CampaignEnd, CampaignError, CampaignEvent, CampaignStore, DisturbedTrials};
use krarup_lab::change::Changes;
use krarup_lab::identities::{Identities, TrialsThere};
use krarup_lab::plan::{Plan, PlannedCell, least_time, trial_time};
use krarup_lab::platform::Platform;
use krarup_lab::shipped;
use krarup_lab::spec::{Baseline, Spec, Testbed};
use krarup_lab::stop::Stop;
use krarup_lab::store::{ResultsDirectory, TrialSystem, folders};
use krarup_lab::testbed::baselines::{self, KeptScale};
use krarup_lab::testbed::builds::builds;
use krarup_lab::testbed::error::StationError;
use krarup_lab::testbed::hosts::Hosts;
use krarup_lab::testbed::local::Local;
use krarup_lab::testbed::netns::{self, Namespaces};
use krarup_lab::testbed::pods::fleet::PodFleet;
use krarup_lab::testbed::pods::shape::PodShape;
use krarup_lab::testbed::ssh::fleet::Fleet;
use krarup_lab::testbed::stations::{self, Caps, LoadSeconds, Starter};
use krarup_lab::testbed::trial::with_few_threads;
use krarup_net::clock::wall;
use krarup_record::scaled::ReachedBaseline;
use krarup_report::document::{Column, Table, TableValue};
use krarup_settings::{Mistake, Mistakes};
use krarup_units::text::{count, timestamp};
use krarup_units::{Address, Seconds, Unit};

use crate::failure::Failure;
use crate::flags::WithWords;
use crate::live_report::{LIVE_ADDRESS, LiveReport};
use crate::reporting::{self, Also, ENVIRONMENT, RecordedExperiment};
use crate::sheet::{self, GuessSource};
use crate::telling::{Telling, wait};
use crate::written::RESULTS;
use crate::{input, output, stations as stations_check, trials};

/// Show what a spec means: its cells, the order of the trials, and how long they take.
#[derive(Args)]
#[command(after_help = "Example:\n  krarup plan asl2018/3.1 --quick")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    spec: SpecArgs,
    /// Print the questions of its sheet, as a file of guesses to fill in for `krarup run --answers`
    #[arg(long)]
    sheet: bool,
}

/// Carry out an experiment: every trial of a spec, then analysis and report.
///
/// A trial is a folder that gets its name when it is complete. Stop a run when you like: the same
/// command goes on where it was. The report's path is the last line.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  krarup run demo --quick\n  krarup plan sweep.toml && krarup run sweep.toml --out sweep-results\n  \
    krarup run sweep.toml --serve"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    spec: SpecArgs,
    /// Where the results go, or are already [default: krarup-NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace trials of another plan in the directory without asking: a script, which has no
    /// terminal to ask on, needs this. Also go on where machine or programs are no longer those
    /// that its trials were measured on
    #[arg(long)]
    yes: bool,
    /// Go on with what a disturbed machine gives, marked, in place of running each such trial twice
    #[arg(long)]
    keep_disturbed: bool,
    /// Serve the report to browsers while trials run, renewed after each [default ADDRESS:
    /// 127.0.0.1:8080]; a port alone is one of 127.0.0.1, port 0 any free one
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = LIVE_ADDRESS, value_parser = live_address)]
    serve: Option<Address>,
    #[command(flatten)]
    guesses: GuessSource,
}

/// An address, or a port alone, or a hint about the word that may follow.
fn live_address(text: &str) -> Result<Address, Mistake> {
    let hint = "write it like 127.0.0.1:8080, and the spec before it: krarup run SPEC --serve";
    let own = format!("127.0.0.1:{text}");
    let address = if text.parse::<u16>().is_ok() { own.as_str() } else { text };
    address.parse().map_err(|mistake: Mistake| Mistake { hint: hint.into(), ..mistake })
}

/// The spec of the demo whose trials are in a directory; there is none where others are.
pub(crate) const DEMO: &str = ".demo";

/// What is said of trials that earlier versions ran, when others are added.
const UNKNOWN_BUILDS: &str = "an earlier version measured trials that are there, and did not write down which builds of the programs \
    they ran: these builds are taken to be the same as now";

/// How a run goes about what it finds.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunManner {
    /// Trials of another plan are replaced without a question, and trials of another system added
    /// to.
    yes: bool,
    /// Trials that are there are thrown away.
    anew: bool,
    disturbed: DisturbedTrials,
    /// Where the report is served while trials run.
    serve: Option<Address>,
    guesses: GuessSource,
}

impl RunManner {
    /// All trials are run, whatever is there of an earlier run.
    pub(crate) fn anew() -> Self {
        Self { anew: true, ..Self::default() }
    }

    /// Writes down what is asked for; results of another plan go. A demo may be thrown
    /// away by the next one only as it was left: what `krarup run` goes on with is none.
    fn keep_plan(
        &self,
        RecordedExperiment { spec, plan, store }: RecordedExperiment<'_>,
        identities: &Identities,
        text: &[u8],
    ) -> std::io::Result<()> {
        let same = Identities::of_directory(store, plan).is_ok_and(|known| known == *identities);
        if self.anew || !same {
            store.remove(RESULTS)?;
        }
        identities.write(store)?;
        if self.anew {
            store.write(DEMO, text)?;
        } else {
            store.remove(DEMO)?;
        }
        store.write("spec.toml", text)?;
        store.write("plan.csv", krarup_report::csv::table(&cells(spec, plan)).as_bytes())
    }

    /// Throws away what this manner does not keep.
    fn clear(&self, store: &ResultsDirectory) -> std::io::Result<()> {
        let cells = [store.trials(), store.directory().join("failed")].map(|folder| folders(&folder));
        cells.iter().flatten().filter(|_| self.anew).try_for_each(fs::remove_dir_all)
    }
}

/// Write the report of a directory of results anew: from its trials alone, the same bytes for the
/// same trials.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  krarup report krarup-demo --markdown\n  krarup report june --against march april may"
)]
pub(crate) struct ReportArgs {
    /// The directory, as `krarup run` made it
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Also write every table, and every figure's data, for LaTeX: tables/*.tex
    #[arg(long)]
    latex: bool,
    /// Also write the whole report as Markdown: report.md
    #[arg(long)]
    markdown: bool,
    /// Also write the trials under the names that course handouts ask for: client_NN.log,
    /// mw_NN.log, processed.log, README
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Also show the history: older directories of results of the same or an overlapping plan,
    /// beside this one in the order of their time, with the changes that are real
    #[arg(long, value_name = "OLDER", num_args = 1..)]
    against: Vec<PathBuf>,
}

#[derive(Args)]
struct SpecArgs {
    /// A TOML file, or the name of a spec that comes with the program, as demo or asl2018/2.1
    /// (a wrong name lists them)
    #[arg(value_name = "SPEC", value_parser = spec_name(), hide_possible_values = true)]
    spec: PathBuf,
    /// The spec's quick form: what its table `quick` says
    #[arg(long)]
    quick: bool,
    /// Where it runs, in place of what the spec says: local, netns, ssh or kubernetes
    #[arg(long, value_name = "TESTBED", value_parser = testbed)]
    testbed: Option<&'static str>,
}

/// The name of a testbed.
fn testbed(text: &str) -> Result<&'static str, Mistake> {
    let names = || Testbed::NAMES.map(|(_, name)| name).into_iter();
    let what = || format!("`{text}` is no testbed");
    names().find(|name| *name == text).ok_or_else(|| Mistake::none_of(what(), text, names()))
}

/// A path; a shell completes the specs that come with the program, too.
fn spec_name() -> WithWords<PathBufValueParser> {
    let words = shipped::SPECS.iter().map(|(name, _)| *name).collect();
    WithWords { parser: PathBufValueParser::new(), words }
}

/// A spec and its text.
pub(crate) struct SpecSource {
    /// The text that is kept with the results.
    pub(crate) text: String,
    pub(crate) spec: Spec,
    /// What paths in it are relative to.
    pub(crate) base: PathBuf,
}

impl SpecSource {
    pub(crate) fn of(name: &str, text: String) -> Result<Self, Failure> {
        Self::read_by(Spec::parse, name, text)
    }

    pub(crate) fn read_by(
        parse: fn(&str, &str) -> Result<Spec, Mistakes>,
        name: &str,
        text: String,
    ) -> Result<Self, Failure> {
        let spec = parse(&text, name).map_err(refused)?;
        Ok(Self { text, spec, base: PathBuf::from(".") })
    }

    /// With a scale that fits into the processors here, where it is to be chosen and none is `kept`
    /// already.
    fn scaled(mut self, kept: Option<&KeptScale>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        self.spec.choose_scale(kept.map(|kept| &kept.testbed), cores);
        self
    }

    fn read(args: &SpecArgs) -> Result<Self, Failure> {
        let name = args.spec.display().to_string();
        let text = match fs::read_to_string(&args.spec) {
            Ok(text) => text,
            Err(error) => shipped::spec(&name).map(str::to_owned).ok_or_else(|| no_spec(args, &error))?,
        };
        let base = args.spec.parent().filter(|parent| parent.is_dir()).unwrap_or(Path::new(".")).to_owned();
        if !args.quick && args.testbed.is_none() {
            return Ok(Self { base, ..Self::of(&name, text)? });
        }
        let mut changes = Changes::of(&text, &name)?;
        let mut how = Vec::new();
        if args.quick {
            changes.quick().map_err(|mistake| wrong(&name, mistake))?;
            how.push("quick");
        }
        if let Some(testbed) = args.testbed {
            changes.set(&["testbed"], testbed);
            how.push(testbed);
        }
        let (changed, called) = (changes.source(), format!("{name} ({})", how.join(", ")));
        let spec = Spec::parse(&changed, &called)
            .map_err(|mistakes| refused(where_written(&mistakes, (&name, &text), &called)))?;
        Ok(Self { text: changed, spec, base })
    }
}

/// Why a spec is none.
fn refused(mistakes: Mistakes) -> Failure {
    Failure::from(mistakes).or_hint("docs/reference/spec.md lists every key")
}

/// The mistakes of a spec that flags have changed, and that is `called` so, where they stand in its
/// file. What only the change has made stands on no line.
fn where_written(changed: &Mistakes, (name, text): (&str, &str), called: &str) -> Mistakes {
    let mut written = Spec::parse(text, name).map_or_else(|written| written.0, |_| Vec::new());
    written.retain(|one| changed.0.iter().any(|other| other.what == one.what));
    let is_new = |one: &&Mistake| !written.iter().any(|other| other.what == one.what);
    let new = changed.0.iter().filter(is_new);
    let new: Vec<Mistake> = new.map(|one| Mistake { place: called.to_owned(), ..one.clone() }).collect();
    Mistakes([written, new].concat())
}

/// Why there is no spec: no file, and none of those that come with the program.
fn no_spec(args: &SpecArgs, error: &std::io::Error) -> Failure {
    let unread = input::unread(&args.spec, error);
    if error.kind() != ErrorKind::NotFound {
        return unread.or_hint("a spec is a TOML file; docs/reference/spec.md lists every key");
    }
    let name = args.spec.display().to_string();
    let names = shipped::SPECS.iter().map(|(name, _)| *name);
    let near = Mistake::unknown(String::new(), &name, names.clone()).hint;
    if !near.is_empty() {
        return unread.hint(near);
    }
    let all = names.collect::<Vec<_>>().join(", ");
    unread.hint(format!("give a file, or one of the specs that come with the program: {all}"))
}

pub(crate) fn wrong(name: &str, mistake: Mistake) -> Failure {
    Mistakes::from(mistake.of(name)).into()
}

/// Shows a plan.
pub(crate) fn plan(args: &PlanArgs) -> Result<(), Failure> {
    let SpecSource { spec, .. } = SpecSource::read(&args.spec)?.scaled(None);
    if args.sheet {
        return sheet::print_template(&spec, &args.spec.spec.display().to_string());
    }
    let plan = Plan::of(&spec);
    stations_check::words(&spec, &plan)?;
    print!("{}", output::table(&cells(&spec, &plan)));
    for repetition in 0..spec.repetitions.min {
        let order: Vec<String> =
            plan.block(repetition).iter().map(|cell| (cell.number + 1).to_string()).collect();
        println!("{}", output::prose(format_args!("block {}: {}", repetition + 1, order.join(" "))));
    }
    for line in pods(&spec, &plan) {
        println!("{}", output::prose(format_args!("{line}")));
    }
    for fault in &spec.faults {
        let fault = fault.get_ref();
        let levels = fault.when.iter().map(|(name, level)| format!("{name} {level}")).collect::<Vec<_>>();
        let when =
            if levels.is_empty() { "in all cells".into() } else { format!("with {}", levels.join(", ")) };
        println!("{}", output::prose(format_args!("fault: {fault}, {when}")));
    }
    print_scale(&spec, &plan);
    let (least, most) = (spec.repetitions.min as usize, spec.repetitions.most() as usize);
    let number = plan.cells.len();
    let anchors = plan.in_block(&spec) - number;
    let mut trials = counted(number * least, "trial");
    let mut more =
        if most > least { format!(", at most {}", count((number * most) as f64)) } else { String::new() };
    if anchors > 0 {
        trials += &format!(" and {} of the anchor", counted(anchors * least, "run"));
        if most > least {
            more += &format!(" and {}", count((anchors * most) as f64));
        }
    }
    println!("{}, {trials}{more}, about {}", counted(number, "cell"), wait(least_time(&spec, &plan)));
    // A plan may be made for another machine.
    if let Err(failure) = stations_check::programs(&spec, &plan) {
        failure.warn("`krarup run` refuses this here");
    }
    Ok(())
}

/// What a scale makes of each station.
fn print_scale(spec: &Spec, plan: &Plan) {
    let Some(testbed) = spec.scaled_testbed(Vec::new()) else { return };
    let say = |line: &str| println!("{}", output::prose(line));
    let (by, cores) = (count(testbed.by), std::thread::available_parallelism().map_or(1, usize::from));
    say(&format!(
        "scaled by {by}: the stations stand for {} processors, and here are {cores}; rates are 1/{by} of what is shown, times {by} times as long",
        count(spec.processors())
    ));
    testbed.stations.iter().for_each(|station| say(&format!("  {}: {station}", station.station)));
    for baseline in spec.scale.iter().flat_map(|scale| &scale.baselines) {
        let Baseline { station, levels, throughput, .. } = baseline.get_ref();
        let levels: Vec<String> = levels.iter().map(|(name, level)| format!("{name} {level}")).collect();
        say(&format!(
            "  the share of the {} is found before the first trial: one alone gives {}/s here, {}/s as published ({})",
            station.name(),
            count(throughput / testbed.by),
            count(*throughput),
            levels.join(", ")
        ));
    }
    let time = spec.calibration_time();
    if time > 0.0 {
        say(&format!("  that takes about {} at most where nothing disturbs it", wait(time)));
    }
    for (name, threads) in with_few_threads(spec, &plan.cells) {
        say(&format!(
            "  {name}: {}, and more processors: how many of them it can use here depends on the scale; \
             write cpu = {threads}, give it as many threads, or say by a baseline what one alone gave",
            counted(threads as usize, "thread")
        ));
    }
}

/// The pods of each kind of station, where it runs in pods: what they are in which cells.
fn pods(spec: &Spec, plan: &Plan) -> Vec<String> {
    let Some(cluster) = spec.kubernetes.as_ref().filter(|_| spec.testbed == Testbed::Kubernetes) else {
        return Vec::new();
    };
    let kinds = stations::kinds(spec);
    let mut lines = Vec::new();
    for (name, station) in spec.stations().filter(|(_, station)| station.addresses.is_empty()) {
        let count = kinds.iter().find(|kind| name.starts_with(kind.letter)).map_or(1, |kind| kind.count);
        let mut shapes: Vec<(PodShape, Vec<String>)> = Vec::new();
        for cell in &plan.cells {
            let (shape, number) = (PodShape::of(station, cell, cluster), (cell.number + 1).to_string());
            match shapes.iter_mut().find(|(known, _)| *known == shape) {
                Some((_, cells)) => cells.push(number),
                None => shapes.push((shape, vec![number])),
            }
        }
        let several = shapes.len() > 1;
        lines.extend(shapes.into_iter().map(|(shape, cells)| {
            let plural = if cells.len() == 1 { "" } else { "s" };
            let cells = if several { format!(", cell{plural} {}", cells.join(" ")) } else { String::new() };
            format!("pods: {name}{cells}: {count} × {shape}")
        }));
    }
    lines
}

/// `1 cell`, `12 cells`.
fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number as f64))
}

/// The cells and their levels.
fn cells(spec: &Spec, plan: &Plan) -> Table {
    let factors = spec.factors.iter().map(|factor| factor.name.get_ref().as_str());
    let columns = std::iter::once(Column::new("cell", Unit::Count))
        .chain(factors.map(|name| Column::new(name, Unit::Text)));
    let row = |cell: &PlannedCell| {
        let levels = cell.levels.iter().map(|(_, level)| TableValue::from(level.0.as_str()));
        std::iter::once(TableValue::from((cell.number + 1) as f64)).chain(levels).collect()
    };
    Table {
        name: "plan".into(),
        title: spec.title.clone(),
        caption: String::new(),
        columns: columns.collect(),
        rows: plan.cells.iter().map(row).collect(),
    }
}

/// Runs what is left of an experiment, and reports.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let source = SpecSource::read(&args.spec)?;
    let name = args.spec.spec.to_string_lossy();
    let stem = name.strip_suffix(".toml").unwrap_or(&name).trim_matches(['/', '.']).replace('/', "-");
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("krarup-{stem}")));
    let kept = trials::kept_scale(&out)?.filter(|kept| source.spec.stands_for_those_of(&kept.testbed));
    let source = source.scaled(kept.as_ref());
    let disturbed = if args.keep_disturbed { DisturbedTrials::Keep } else { DisturbedTrials::Repeat };
    let manner = RunManner {
        yes: args.yes,
        anew: false,
        disturbed,
        serve: args.serve.clone(),
        guesses: args.guesses.clone(),
    };
    carry_out(&source, &out, &manner)
}

/// The plan of a spec that can be carried out here.
fn checked_plan(spec: &Spec) -> Result<Plan, Failure> {
    let plan = Plan::of(spec);
    stations_check::words(spec, &plan)?;
    stations_check::programs(spec, &plan)?;
    Ok(plan)
}

/// Runs what is left of `source` in the directory `out`, and reports.
pub(crate) fn carry_out(source: &SpecSource, out: &Path, manner: &RunManner) -> Result<(), Failure> {
    let SpecSource { spec, .. } = source;
    let plan = checked_plan(spec)?;
    if spec.testbed == Testbed::Netns {
        enter_namespaces(manner.serve.is_some())?;
    }
    let guesses = sheet::gather(&manner.guesses, spec, out)?;
    let live = manner.serve.as_ref().map(|address| LiveReport::at(address, &spec.title)).transpose()?;
    // Other machines are asked when they are reached.
    let kind_on =
        |hosts: &Hosts| stations::kind(&spec.stations.servers, hosts).map_err(|error| station(&error));
    let kind_here = (!spec.testbed.is_elsewhere()).then(|| kind_on(&Hosts::Here)).transpose()?;
    let unwritable = unwritable_in(out);
    let made_here = !out.exists();
    let store = ResultsDirectory::open(out).map_err(unwritable)?;
    manner.clear(&store).map_err(unwritable)?;
    let identities = Identities::meant_by(&store, spec, &plan);
    let there = identities.beside(&store, &plan, spec.repetitions.most());
    take_over(out, &there, manner.yes)?;
    // Not before: Ctrl-C ends what asks and waits for an answer, and nothing is started yet.
    let stop = Stop::on_signals().map_err(|error| Failure::run(format!("signals are refused: {error}")))?;
    let krarup = own_program()?;
    let hosts = hosts((source, &plan), &krarup, &store, &stop).map_err(|error| ended(&stop, &error))?;
    let kind = kind_here.map_or_else(|| kind_on(&hosts), Ok)?;
    eprintln!("servers: {} × {kind}", server_counts(spec));
    let mut starter = starter(spec, (krarup.clone(), hosts), &store, &stop);
    let records = RecordedExperiment { spec, plan: &plan, store: &store };
    // Nothing of an earlier machine or program is in results that begin now.
    let begins = there.kept == 0 || !out.join(ENVIRONMENT).is_file();
    let mut here = trials::system(&kind, &starter, spec);
    let builds = builds(spec, &plan, &krarup);
    here.versions.extend(build_versions(&builds));
    same_system(&store, begins, &there.systems, &here, manner.yes)?;
    let started = now();
    let seal = sheet::seal(guesses, spec, &store, timestamp(started as u64), unwritable)?;
    let keep_plan = || manner.keep_plan(records, &identities, source.text.as_bytes()).map_err(unwritable);
    // With other shares than those of trials that are there it may be refused: then all stays.
    let may_differ = have_shares(&there.systems);
    if !may_differ {
        keep_plan()?;
    }
    let shares = reach_baselines(records, &mut starter, &builds, (&there.systems, manner.yes), &stop)?;
    if may_differ {
        keep_plan()?;
    }
    calibrate(records, begins, &mut starter, (&here, started), &stop)?;
    let system = trials::kept_system(&here, shares);
    let seconds = starter.seconds.clone();
    let mut testbed = Local::new(spec, starter);
    let mut progress = Telling::begin(trial_time(spec), seconds, spec.slower());
    let mut live = live.map(|live| live.of(records));
    let disturbed = manner.disturbed;
    let (seal, system) = (seal.as_deref(), Some(&system));
    let results = CampaignStore { store: &store, identities: &identities, disturbed, seal, system };
    let ended = campaign::run(spec, &plan, results, &mut testbed, &stop, &now, &mut |event| {
        if matches!(event, CampaignEvent::Complete(..)) {
            // Those that are there are of other trials; those of these are made at the end.
            let _ = store.remove(RESULTS);
            // Where it is not written down the trial says it.
            let _ = add_builds(&store, &here, &progress);
        }
        let running = progress.tell(event);
        if let Some(live) = &mut live {
            live.follow(event, running.as_ref(), now());
        }
    });
    progress.end();
    let closed = testbed.end();
    drop(testbed);
    store.ledger().settle();
    say_other_builds(records, &here, &krarup);
    let ended = match ended {
        Ok(ended) => ended,
        Err(CampaignError::Stopped) => {
            // Guesses that are sealed stay, and shares that were found.
            let found = spec.scale.as_ref().is_some_and(|scale| !scale.baselines.is_empty());
            let fresh = made_here && !found && seal.is_none() && store.failures().is_empty();
            let complete = identities.beside(&store, &plan, spec.repetitions.most()).kept;
            return Err(stopped(complete, out, fresh, manner.anew));
        }
        Err(CampaignError::Store(error)) => return Err(unwritable(error)),
    };
    closed.map_err(|error| station(&error))?;
    let report = records.report(&ended, Also::default())?;
    if let Some(live) = live {
        live.end(&report.html, &stop);
    }
    report.judged()
}

/// What starts this program's stations on these hosts.
fn starter(spec: &Spec, (krarup, hosts): (PathBuf, Hosts), store: &ResultsDirectory, stop: &Stop) -> Starter {
    Starter {
        krarup,
        stop: stop.clone(),
        ledger: store.ledger(),
        hosts,
        caps: Caps::of(spec),
        calibrations: Vec::new(),
        seconds: LoadSeconds::default(),
    }
}

/// Finds the shares with which single stations give what was published of them, each once, and
/// writes them down: each when it is found, or, where trials that are there had shares, all once it
/// is certain that these may be used. Returns the share of each kind of station; nothing where
/// there is no scale.
fn reach_baselines(
    records: RecordedExperiment<'_>,
    starter: &mut Starter,
    builds: &[(String, String)],
    (systems, yes): (&[TrialSystem], bool),
    stop: &Stop,
) -> Result<BTreeMap<String, f64>, Failure> {
    let RecordedExperiment { spec, plan, store } = records;
    let Some(scale) = &spec.scale else { return Ok(BTreeMap::new()) };
    let kept = trials::kept_scale(store.directory())?;
    let here = Platform::this();
    let machine = format!("{}, {} processors, {}", here.cpu, here.cores, here.kernel);
    let search = |baseline| {
        let search = baselines::identity(spec, plan, baseline).expect("its cell was checked to be there");
        (search, baselines::builds((spec, plan), baseline, &starter.krarup, builds))
    };
    let searches: Vec<_> = scale.baselines.iter().map(|baseline| search(baseline.get_ref())).collect();
    let mut found: Vec<Option<ReachedBaseline>> = searches
        .iter()
        .map(|(search, builds)| kept.as_ref()?.found(&machine, search, builds).cloned())
        .collect();
    let write = |found: &[Option<ReachedBaseline>]| {
        let pairs = found.iter().zip(&searches);
        let there = pairs.filter_map(|(found, search)| Some((found.clone()?, search.clone())));
        let (reached, (searches, builds)) = there.unzip();
        let testbed = spec.scaled_testbed(reached).expect("it has a scale");
        let kept = KeptScale { testbed, machine: machine.clone(), searches, builds };
        let text = serde_json::to_string_pretty(&kept).expect("it is plain data");
        store.write(baselines::FILE, text.as_bytes()).map_err(unwritable_in(store.directory()))
    };
    for (place, baseline) in scale.baselines.iter().enumerate() {
        let baseline = baseline.get_ref();
        let reached = match found[place].take() {
            Some(known) => known,
            None => {
                let mut folder = || store.begin();
                let mut tell = |line: &str| eprintln!("{}", output::talk(line));
                baselines::reach((spec, plan), baseline, starter, &mut folder, &mut tell)
                    .map_err(|error| ended(stop, &error))?
            }
        };
        eprintln!("{}", output::talk(&reached));
        starter.caps = starter.caps.with(baseline.station, reached.share);
        found[place] = Some(reached);
        if !have_shares(systems) {
            write(&found)?;
        }
    }
    let testbed = spec.scaled_testbed(found.iter().flatten().cloned().collect()).expect("it has a scale");
    let shares = testbed.stations.into_iter().map(|one| (one.station, one.share)).collect();
    same_shares(store.directory(), systems, &shares, yes)?;
    write(&found)?;
    Ok(shares)
}

/// The builds that an experiment runs, as they stand among versions.
fn build_versions(builds: &[(String, String)]) -> Vec<(String, String)> {
    builds.iter().map(|(program, build)| (format!("{program}{BUILD}"), build.clone())).collect()
}

/// Says which builds are others now than those before the first trial, which all trials name:
/// stations are started from the files. To other machines the program was brought before.
fn say_other_builds(records: RecordedExperiment<'_>, before: &Environment, krarup: &Path) {
    if records.spec.testbed.is_elsewhere() {
        return;
    }
    let now = build_versions(&builds(records.spec, records.plan, krarup));
    let others = now.iter().filter(|one| !before.versions.contains(one));
    let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
    if !others.is_empty() {
        let what = format!(
            "{} changed while trials ran: later ones may be of the new build, and name the one before; \
             measure them anew in another directory",
            others.join(", ")
        );
        eprintln!("{}", output::talk(what));
    }
}

/// Adds what has run a trial, `now` that one is complete, to what the trials were measured on: the
/// builds of programs that no trial ran before; and, where an earlier version wrote down none, all
/// of them, beside those of its trials, which are not known.
fn add_builds(store: &ResultsDirectory, now: &Environment, telling: &Telling) -> Result<(), Failure> {
    let directory = store.directory();
    let mut kept: Environment = input::json(&directory.join(ENVIRONMENT))?;
    let is_build = |(name, _): &&(String, String)| name.ends_with(BUILD);
    let are_unknown = !kept.versions.iter().any(|one| is_build(&one));
    let is_new = |(name, _): &&(String, String)| kept.versions.iter().all(|(known, _)| known != name);
    let builds = now.versions.iter().filter(is_build).filter(is_new);
    let build = |(name, build): &(String, String)| {
        (name.clone(), if are_unknown { format!("not known and {build}") } else { build.clone() })
    };
    let added: Vec<(String, String)> = builds.map(build).collect();
    if added.is_empty() {
        return Ok(());
    }
    if are_unknown {
        telling.say(UNKNOWN_BUILDS);
    }
    kept.versions.extend(added);
    write_environment(store, &kept).map_err(unwritable_in(directory))
}

/// Trials that are there, where results do not begin now, were measured on the machine and by the
/// programs that are here `now`, by what stands beside them and what each says itself; where the
/// user wants to go on with others, results name both.
fn same_system(
    store: &ResultsDirectory,
    begins: bool,
    systems: &[TrialSystem],
    now: &Environment,
    yes: bool,
) -> Result<(), Failure> {
    if begins {
        return Ok(());
    }
    let directory = store.directory();
    let mut kept: Environment = input::json(&directory.join(ENVIRONMENT))?;
    let mut others = trials::also_on(&mut kept, now);
    others.extend(systems.iter().flat_map(|trial| trials::also_before(&mut kept, trial)));
    if others.is_empty() {
        return Ok(());
    }
    let what = format!("its trials were measured on another system: {}", others.join("; "));
    goes_on(directory, what, yes)?;
    write_environment(store, &kept).map_err(unwritable_in(directory))
}

/// Whether there are trials whose stations had shares of a processor.
fn have_shares(systems: &[TrialSystem]) -> bool {
    systems.iter().any(|trial| !trial.shares.is_empty())
}

/// Stations have the shares of a processor that they had in the trials that are there, or in some
/// of them: then it was asked before others were added.
fn same_shares(
    directory: &Path,
    systems: &[TrialSystem],
    now: &BTreeMap<String, f64>,
    yes: bool,
) -> Result<(), Failure> {
    let scaled = systems.iter().filter(|trial| !trial.shares.is_empty());
    let others: Vec<Vec<String>> = scaled.map(|trial| trials::other_shares(trial, now)).collect();
    let asked = others.iter().any(Vec::is_empty);
    let mut others = others.concat();
    others.sort();
    others.dedup();
    if others.is_empty() {
        return Ok(());
    }
    let what = format!("its trials had other shares of a processor: {}", others.join("; "));
    goes_on(directory, what, yes || asked)
}

/// Says in what trials that are there differ from those to come; only where the user wants it are
/// they added to.
fn goes_on(directory: &Path, what: String, yes: bool) -> Result<(), Failure> {
    if !yes {
        return Err(Failure::usage(what).at(&directory.display().to_string()).hint(
            "--out takes another directory; --yes goes on, and results are of both; `krarup report` shows what is there",
        ));
    }
    eprintln!("{}", output::talk(what));
    Ok(())
}

/// Finds out what the limits of the spec give, and writes down what all of it runs on, where the
/// results begin now: this system, at this time.
fn calibrate(
    records: RecordedExperiment<'_>,
    begins: bool,
    starter: &mut Starter,
    (system, started): (&Environment, Seconds),
    stop: &Stop,
) -> Result<(), Failure> {
    let RecordedExperiment { spec, store, .. } = records;
    if !begins {
        let kept: Environment = input::json(&store.directory().join(ENVIRONMENT))?;
        starter.calibrations = trials::calibrations(&kept, system);
    }
    let known = starter.calibrations.len();
    starter.calibrate(spec).map_err(|error| ended(stop, &error))?;
    for found in &starter.calibrations[known..] {
        eprintln!("{found}");
    }
    if begins {
        let environment = trials::environment(system, timestamp(started as u64), starter, spec);
        let environment = environment.map_err(|error| ended(stop, &error))?;
        write_environment(store, &environment).map_err(unwritable_in(store.directory()))?;
    }
    Ok(())
}

/// How many servers there are, as "1 or 2" where cells differ.
fn server_counts(spec: &Spec) -> String {
    let counts = match spec.stations.servers.addresses.len() {
        0 => spec.counts(&spec.stations.servers, spec.stations.servers.usual_servers()),
        running => vec![running as u32],
    };
    let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
    counts.join(" or ")
}

fn unwritable_in(out: &Path) -> impl Fn(std::io::Error) -> Failure + Copy {
    move |error| reporting::unwritable_in(out)(error).hint("choose another directory with --out")
}

fn write_environment(store: &ResultsDirectory, environment: &Environment) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(environment).expect("an environment is plain data");
    store.write(ENVIRONMENT, text.as_bytes())
}

/// The path of this program, which stations are started from. The kernel tells it in /proc.
fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::run(format!("the path of this program is not known: {error}"))
            .hint("mount /proc: the kernel tells there what each process runs")
    })
}

/// Where namespaces of the network take a user namespace, this process begins again in one.
fn enter_namespaces(serves: bool) -> Result<(), Failure> {
    if serves && !krarup_lab::platform::is_root() {
        let what =
            "--serve: without root this experiment runs in a network of its own, which no browser reaches";
        return Err(Failure::usage(what).hint(
            "run it as root, or leave out --serve; `krarup report DIR` writes the report of what is complete",
        ));
    }
    let krarup = own_program()?;
    let again = netns::rootless(&krarup, std::env::args_os().skip(1)).map_err(|error| station(&error))?;
    match again {
        // It is this process that goes there.
        Some(mut again) => Err(Failure::run(format!("`unshare` cannot be run: {}", again.exec()))),
        None => Ok(()),
    }
}

/// What is said after a stop on request; a directory that is `fresh` and holds no trial goes.
fn stopped(kept: usize, out: &Path, fresh: bool, anew: bool) -> Failure {
    if kept == 0 && fresh {
        let _ = fs::remove_dir_all(out);
        return Failure::stopped("stopped on request; everything started was ended");
    }
    let is = if kept == 1 { "is" } else { "are" };
    let kept = counted(kept, "trial");
    let hint = if anew {
        let out = out.display();
        format!("`krarup run {out}/spec.toml --out {out}` goes on from here, the same command begins anew")
    } else {
        "the same command goes on from here".to_owned()
    };
    Failure::stopped(format!("stopped on request; everything started was ended, {kept} {is} kept")).hint(hint)
}

/// Says how many trials are there already, and what becomes of those of another plan; before any is
/// replaced, the user is asked where there is one.
fn take_over(out: &Path, there: &TrialsThere, yes: bool) -> Result<(), Failure> {
    let TrialsThere { kept, replaced, aside, why, .. } = there;
    if replaced + aside == 0 {
        if *kept > 0 {
            let (trials, is) = (counted(*kept, "trial"), if *kept == 1 { "is" } else { "are" });
            let what = format!("{trials} of this plan {is} there already: kept, and not run again");
            eprintln!("{}", output::talk(what));
        }
        return Ok(());
    }
    eprintln!("{} holds trials of another plan:", out.display());
    let why = why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    for (number, what) in [
        (kept, "are of this plan, too: kept, and not run again".to_owned()),
        (replaced, format!("stand in the place of others{why}: replaced when those are run")),
        (
            aside,
            "are of cells or repetitions that are no longer asked for: they stay, and are in no figure"
                .to_owned(),
        ),
    ] {
        if *number > 0 {
            eprintln!("{}", output::talk(format_args!("  {} {what}", count(*number as f64))));
        }
    }
    if *replaced == 0 || yes {
        return Ok(());
    }
    let hint = "--yes replaces them; --out takes another directory";
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        let what =
            format!("{} would be replaced, and there is no terminal to ask on", counted(*replaced, "trial"));
        return Err(Failure::usage(what).at(&out.display().to_string()).hint(hint));
    }
    output::eprint(format_args!("Replace {}? [y/N] ", count(*replaced as f64)));
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure::usage("nothing was changed").hint(hint))
}

/// The hosts of a spec, made or reached.
fn hosts(
    (source, plan): (&SpecSource, &Plan),
    krarup: &Path,
    store: &ResultsDirectory,
    stop: &Stop,
) -> Result<Hosts, StationError> {
    let (spec, ledger) = (&source.spec, store.ledger());
    let kinds = stations::kinds(spec);
    match spec.testbed {
        Testbed::Local => Ok(Hosts::Here),
        Testbed::Netns => Ok(Hosts::Spaces(Arc::new(Namespaces::new(&kinds, krarup, &ledger, stop)?))),
        Testbed::Ssh => {
            let places = (&*source.base, &*store.unfinished());
            Ok(Hosts::Fleet(Arc::new(Fleet::reach_all(spec, &kinds, places, krarup, &ledger, stop)?)))
        }
        Testbed::Kubernetes => {
            let places = (&*source.base, &*store.unfinished());
            let first = plan.cells.first();
            Ok(Hosts::Pods(Arc::new(PodFleet::begin(spec, &kinds, places, first, &ledger, stop)?)))
        }
    }
}

/// What is said of a run that came to nothing, or was stopped, before its first trial.
fn ended(stop: &Stop, error: &StationError) -> Failure {
    if stop.asked() {
        Failure::stopped("stopped on request; everything started was ended")
    } else {
        station(error)
    }
}

fn station(error: &StationError) -> Failure {
    Failure::run(error)
}

/// A directory of results.
struct Directory {
    source: SpecSource,
    plan: Plan,
    store: ResultsDirectory,
}

impl Directory {
    fn at(path: &Path) -> Result<Self, Failure> {
        let spec = path.join("spec.toml");
        let text = input::text(&spec)
            .map_err(|why| why.or_hint("a directory of results is what `krarup run` makes"))?;
        let source = SpecSource::read_by(Spec::parse_recorded, &spec.display().to_string(), text)?;
        let source = source.scaled(trials::kept_scale(path)?.as_ref());
        Ok(Self { plan: Plan::of(&source.spec), store: ResultsDirectory::at(path), source })
    }
}

/// Writes the results of a directory anew.
pub(crate) fn analyze(path: &Path) -> Result<(), Failure> {
    let Directory { source, plan, store } = Directory::at(path)?;
    let records = RecordedExperiment { spec: &source.spec, plan: &plan, store: &store };
    records.analyse(&CampaignEnd::default(), &[])?;
    let written = path.join(RESULTS);
    println!("{}", written.canonicalize().unwrap_or(written).display());
    Ok(())
}

/// Every trial of a directory that is complete, with the folder of its records.
pub(crate) fn complete(path: &Path) -> Result<Vec<(PathBuf, Trial)>, Failure> {
    let Directory { source, plan, store } = Directory::at(path)?;
    trials::with_folders(&source.spec, &plan, &store)
}

/// Writes the report of a directory anew.
pub(crate) fn report(args: &ReportArgs) -> Result<(), Failure> {
    let Directory { source, plan, store } = Directory::at(&args.directory)?;
    let also = Also {
        latex: args.latex,
        markdown: args.markdown,
        export: args.export.as_deref(),
        against: &args.against,
    };
    let records = RecordedExperiment { spec: &source.spec, plan: &plan, store: &store };
    records.report(&CampaignEnd::default(), also)?.judged()
}

/// The wall clock, in seconds since 1970.
fn now() -> Seconds {
    wall().as_seconds()
}
