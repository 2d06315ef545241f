//! krarup: the middleware that knows its queues. One file per subcommand; no arithmetic here.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind as Kind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

// First, so that its macros are everywhere.
#[macro_use]
mod output;

mod agent;
mod analyze;
mod at;
mod broker;
mod cache;
mod compare;
mod demand;
mod demo;
mod experiment;
mod export;
mod failure;
mod flags;
mod folders;
mod form;
mod headroom;
mod headroom_page;
mod health;
mod history;
mod input;
mod last_steps;
mod limits;
mod live_report;
mod load;
mod manual;
mod memtier;
mod model;
mod pages;
mod panics;
mod prometheus;
mod proxy;
mod recorded_headroom;
mod redline;
mod reporting;
mod rows;
mod share;
mod sheet;
mod stations;
mod telling;
mod tls;
mod top;
mod trials;
mod written;

use failure::Failure;
use stations::StationJob;

/// musl's own allocator asks the kernel for each piece of 128 KiB and more, and gives it back at
/// once, so that every large value costs its page faults anew.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The middleware that knows its queues.
#[derive(Parser)]
#[command(name = "krarup", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    #[command(flatten)]
    Station(StationJob),
    Memtier(memtier::MemtierArgs),
    Model(model::ModelArgs),
    Top(top::TopArgs),
    Headroom(headroom::HeadroomArgs),
    Redline(redline::RedlineArgs),
    Health(health::HealthArgs),
    Demo(demo::DemoArgs),
    Plan(experiment::PlanArgs),
    Run(experiment::RunArgs),
    Analyze(analyze::AnalyzeArgs),
    Report(experiment::ReportArgs),
    Compare(compare::CompareArgs),
    At(at::AtArgs),
    #[command(hide = true)]
    Agent(agent::AgentArgs),
    Man(pages::ManArgs),
    Completions(pages::CompletionsArgs),
}

fn main() -> ExitCode {
    panics::end_with_vital_threads(|| {
        output::settle();
        std::process::exit(panics::PANICKED);
    });
    // Where the system refuses, a file that is too long ends the process as it did.
    let _ = krarup_net::signal::fail_beyond_file_limit();
    if std::process::id() == 1 {
        // Where the system refuses, they are lost as they were.
        let _ = krarup_net::signal::end_first_process();
    }
    let done = |()| ExitCode::SUCCESS;
    let result = match memtier::called_by_its_name() {
        Some(flags) => memtier::run_line(&flags).map(done),
        None => match parsed(std::env::args_os()) {
            // Its exit code is that of what it ran.
            Ok(Cli { job: Job::Agent(args) }) => agent::run(args),
            // Its exit code is part of its answer.
            Ok(Cli { job: Job::Headroom(args) }) => answered(headroom::run(&args)),
            Ok(Cli { job: Job::Redline(args) }) => redline::run(&args),
            Ok(Cli { job: Job::Compare(args) }) => answered(compare::run(&args)),
            Ok(cli) => run(&cli).map(done),
            // Help and the version are answers, and no errors.
            Err(answer)
                if !answer.use_stderr()
                    || answer.kind() == Kind::DisplayHelpOnMissingArgumentOrSubcommand =>
            {
                answer.exit()
            }
            Err(error) => {
                let job = std::env::args_os().nth(1).map(|job| job.to_string_lossy().into_owned());
                let job = job.filter(|job| Cli::command().find_subcommand(job).is_some());
                Err(Failure::command_line(&error, job.as_deref()))
            }
        },
    };
    let code = match result.and_then(|code| output::finish().map(|()| code)) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    };
    output::settle();
    code
}

/// How a command ends whose exit code 1 is an answer: one that cannot be written is none.
fn answered(result: Result<ExitCode, Failure>) -> Result<ExitCode, Failure> {
    result.and_then(|code| output::finish().map(|()| code)).map_err(Failure::beside_answers)
}

/// A command line, with what [`pages::complete`] adds to help.
fn parsed(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut krarup = pages::complete(Cli::command());
    let matches = krarup.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut krarup))
}

fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.job {
        Job::Station(StationJob::Proxy(args)) => proxy::run(args),
        Job::Station(StationJob::Broker(args)) => broker::run(args),
        Job::Station(StationJob::Cache(args)) => cache::run(args),
        Job::Station(StationJob::Load(args)) => load::run(args),
        Job::Memtier(args) => memtier::run(args),
        Job::Model(args) => model::run(args),
        Job::Top(args) => top::run(args),
        Job::Health(args) => health::run(args),
        Job::Demo(args) => demo::run(args),
        Job::Plan(args) => experiment::plan(args),
        Job::Run(args) => experiment::run(args),
        Job::Analyze(args) => analyze::run(args),
        Job::Report(args) => experiment::report(args),
        Job::At(args) => at::run(args),
        Job::Agent(_) | Job::Headroom(_) | Job::Redline(_) | Job::Compare(_) => Ok(()),
        Job::Man(args) => pages::man(args, pages::complete(Cli::command())),
        Job::Completions(args) => {
            pages::completions(args, &pages::complete(Cli::command()));
            Ok(())
        }
    }
}

#[cfg(test)]
#[path = "../tests/all/support/commands.rs"]
mod commands;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::commands::{commands, documents, root, words};

    /// What is wrong with a command. No `--help` is added: that is answered before what flags
    /// exclude and need is looked at.
    fn wrong(command: &str) -> Option<String> {
        let words = words(command);
        let why = match parsed(words.iter().map(OsString::from)) {
            // Its flags are another program's.
            Ok(Cli { job: Job::Memtier(_) }) => krarup_load::memtier::parse(&words[2..]).err()?.to_string(),
            Err(error) if error.use_stderr() => error.to_string(),
            _ => return None,
        };
        Some(format!("`{command}`: {why}"))
    }

    #[test]
    fn every_command_in_the_documents_is_understood() {
        let (mut tried, mut all) = (0, Vec::new());
        for path in documents() {
            let shown = commands(&fs::read_to_string(&path).expect("a document can be read"));
            tried += shown.len();
            all.extend(shown.iter().filter_map(|command| Some((path.clone(), wrong(command)?))));
        }
        assert!(tried >= 100, "the documents show commands: {tried}");
        assert!(all.is_empty(), "{all:#?}");
        for command in ["krarup compare a b --json --csv", "krarup compare a", "krarup load --sevrers a:1"] {
            assert!(wrong(command).is_some(), "{command}");
        }
        assert_eq!(wrong("krarup load --help"), None);
    }

    /// Of a service as systemd would start it: variables have the values that the unit's first
    /// lines show, or that systemd gives them.
    fn started(unit: &str) -> Option<String> {
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/"))?;
        let mut command = line.replace("${CREDENTIALS_DIRECTORY}", "/run/credentials");
        for line in unit.lines().filter_map(|line| line.strip_prefix("#   ")) {
            if let Some((name, value)) = line.split_once('=') {
                command = command.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
            }
        }
        Some(command)
    }

    #[test]
    fn every_unit_starts_a_command_that_is_understood() {
        let entries = fs::read_dir(root().join("packaging")).expect("the folder is there");
        let paths = entries.map(|entry| entry.expect("it can be listed").path());
        let units: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|ending| ending == "service")).collect();
        assert!(units.len() >= 2, "{units:?}");
        for path in units {
            let unit = fs::read_to_string(&path).expect("a unit can be read");
            // /proc/stat is read: the processors' load.
            assert!(!unit.lines().any(|line| line == "ProcSubset=pid"), "{}", path.display());
            let command = started(&unit);
            let command = command.unwrap_or_else(|| panic!("{}: nothing is started", path.display()));
            // Nor a specifier: the systemd of Ubuntu 22.04 (249) does not know all, such as %d.
            assert!(!command.contains(['$', '%']), "{}: `{command}`", path.display());
            assert_eq!(wrong(&command), None, "{}", path.display());
        }
    }
}
