//! krarup: the middleware that knows its queues. One file per subcommand; no arithmetic here.

#![forbid(unsafe_code)]

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
    let done = |()| ExitCode::SUCCESS;
    let result = match memtier::called_by_its_name() {
        Some(flags) => memtier::run_line(&flags).map(done),
        None => match parsed() {
            // Its exit code is that of what it ran.
            Ok(Cli { job: Job::Agent(args) }) => agent::run(args),
            // Its exit code is part of its answer.
            Ok(Cli { job: Job::Headroom(args) }) => headroom::run(&args),
            Ok(Cli { job: Job::Redline(args) }) => redline::run(&args),
            Ok(Cli { job: Job::Compare(args) }) => compare::run(&args),
            Ok(cli) => run(&cli).map(done),
            // Help and the version are answers, and no errors.
            Err(answer)
                if !answer.use_stderr()
                    || answer.kind() == Kind::DisplayHelpOnMissingArgumentOrSubcommand =>
            {
                answer.exit()
            }
            Err(error) => {
                let job = std::env::args().nth(1);
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

/// The command line, with what [`pages::complete`] adds to help.
fn parsed() -> Result<Cli, clap::Error> {
    let mut krarup = pages::complete(Cli::command());
    let matches = krarup.try_get_matches_from_mut(std::env::args_os())?;
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
