//! krarup: the middleware that knows its queues. One file per subcommand; no arithmetic here.

#![forbid(unsafe_code)]
// Here is where data goes to stdout; talk goes to stderr.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod cache;
mod demo;
mod failure;
mod load;
mod pages;
mod proxy;

use failure::Failure;

/// The middleware that knows its queues.
#[derive(Parser)]
#[command(name = "krarup", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    Proxy(proxy::ProxyArgs),
    Cache(cache::CacheArgs),
    Load(Box<load::LoadArgs>),
    Demo(demo::DemoArgs),
    Man(pages::ManArgs),
    Completions(pages::CompletionsArgs),
}

fn main() -> ExitCode {
    // clap itself prints usage errors, with the nearest known flag, and exits with 2.
    let cli = Cli::parse();
    let result: Result<(), Failure> = match &cli.job {
        Job::Proxy(args) => proxy::run(args),
        Job::Cache(args) => cache::run(args),
        Job::Load(args) => load::run(args),
        Job::Demo(args) => demo::run(args),
        Job::Man(args) => pages::man(args),
        Job::Completions(args) => {
            pages::completions(args);
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
