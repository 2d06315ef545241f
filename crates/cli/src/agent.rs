//! `krarup agent`: what a runner elsewhere has done on this machine. People do not call it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use krarup_lab::agent::{self, Order};
use krarup_lab::delay;
use krarup_lab::monitor::Subject;
use krarup_units::Address;
use krarup_units::Nanos;

use crate::broker;
use crate::failure::Failure;

/// Do on this machine what `krarup run` elsewhere asks for; not meant for people.
///
/// `krarup run` copies itself to the machines of an `ssh` testbed, and into the pods of a
/// `kubernetes` one, and calls itself there in this way. What an agent has started ends when the agent is told so, when its line is closed, or when
/// nothing came over it for 20 seconds.
#[derive(Args)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Make the run's folder, tell what machine this is, and leave nothing of the run behind at the
    /// end
    Hold {
        /// The run's folder
        folder: PathBuf,
    },
    /// Stay as the first process of a pod, until no agent has worked beside it for some time
    Stay {
        /// For how many seconds
        seconds: u64,
        /// The run that agents work for
        run: String,
    },
    /// Copy this program
    Copy {
        /// Where to
        to: PathBuf,
    },
    /// Begin again with other words, with variables in the environment
    With {
        /// The variables
        #[arg(value_name = "NAME=VALUE", value_parser = variable)]
        variables: Vec<(String, String)>,
        /// The words
        #[arg(last = true, required = true, value_name = "WORD", allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Run a program to its end, or until its connection is closed or silent
    Run {
        /// The run's folder
        #[arg(long, value_name = "DIR")]
        run: PathBuf,
        /// Processors that it may use
        #[arg(long, value_name = "NUMBER")]
        cpu: Option<f64>,
        /// A folder that is made before
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
        /// Tell when connections are taken here
        #[arg(long, value_name = "ADDRESS")]
        accepts: Option<SocketAddr>,
        /// The program and its words
        #[arg(last = true, required = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Look at the machine each second
    Watch {
        /// Where what was seen is written
        folder: PathBuf,
        /// A process whose name is known
        #[arg(long, value_name = "PROCESS=NAME", value_parser = subject)]
        subject: Vec<Subject>,
        /// Seconds until the clients begin
        #[arg(long, default_value_t = 0.0)]
        lead: f64,
    },
    /// Tell what a limit of processor time gives here, by a busy loop of a second or two
    Calibrate {
        /// This machine's name
        machine: String,
        /// Processors
        cpu: f64,
        /// The run's folder
        #[arg(long, value_name = "DIR")]
        run: PathBuf,
    },
    /// Answer each line with the time, in nanoseconds since 1970
    Clock,
    /// Tell a port that is free
    Port {
        /// An address of this machine
        address: String,
    },
    /// Ask a station what comes on standard input
    Ask {
        /// Where it listens
        address: Address,
    },
    /// Tell how long connections to a station take, in seconds
    Ping {
        /// Where it listens
        address: Address,
        /// How many
        count: u32,
    },
    /// Write the files of a folder to standard output
    Give {
        /// The folder
        folder: PathBuf,
    },
    /// Make the files that come on standard input
    Take {
        /// Where
        folder: PathBuf,
    },
    /// Throw away what is in a folder
    Empty {
        /// The folder
        folder: PathBuf,
    },
    /// Keep what a namespace sends for a while, and pass it on to another
    Delay {
        /// For how many nanoseconds
        nanos: u64,
        /// The namespace, which gets the device eth0
        host: String,
        /// The other
        switch: String,
        /// The device there
        name: String,
    },
    /// Keep a database of its own at this address, until it is told to end: the station `postgres`
    Postgres {
        /// An address of this machine; port 0 asks the system for a free one
        listen: SocketAddr,
        /// Further words for PostgreSQL, as `-c work_mem=8MB`
        #[arg(last = true, value_name = "WORD")]
        settings: Vec<String>,
    },
    /// Take what one pours, and tell how many bits per second it was
    Sink {
        /// An address of this machine
        address: String,
    },
    /// Send as much as possible for a moment
    Pour {
        /// Where a sink listens
        to: SocketAddr,
    },
}

fn subject(text: &str) -> Result<Subject, String> {
    let parts =
        text.split_once('=').and_then(|(process, name)| Some((process.parse().ok()?, name.to_owned())));
    let (process, name) = parts.ok_or_else(|| "write PROCESS=NAME, as 17=proxy".to_owned())?;
    Ok(Subject { name, process })
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "write NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Does it; the exit code is that of the program that was run.
pub(crate) fn run(args: AgentArgs) -> Result<ExitCode, Failure> {
    let done = |result: io::Result<()>| result.map(|()| ExitCode::SUCCESS);
    let failed = |error: io::Error| Failure::run(format!("agent: {error}"));
    if !matches!(args.job, Job::Hold { .. }) {
        agent::goes_on().map_err(failed)?;
    }
    let result = match args.job {
        Job::Hold { folder } => done(agent::hold(&folder)),
        Job::Stay { seconds, run } => done(agent::stay(Duration::from_secs(seconds), &run)),
        Job::Copy { to } => done(agent::copy(&to)),
        Job::With { variables, words } => done(agent::with(&variables, &words)),
        Job::Run { run, cpu, folder, accepts, words } => {
            agent::run(&Order { words, accepts, cpu, run, folder }).map(ExitCode::from)
        }
        Job::Watch { folder, subject, lead } => done(agent::watch(&folder, subject, lead)),
        Job::Calibrate { machine, cpu, run } => done(agent::calibrate(&machine, cpu, &run)),
        Job::Clock => done(agent::clock()),
        Job::Port { address } => done(agent::port(&address)),
        Job::Ask { address } => done(agent::ask(&address)),
        Job::Ping { address, count } => done(agent::ping(&address, count)),
        Job::Give { folder } => done(agent::give(&folder)),
        Job::Take { folder } => done(agent::take(&folder)),
        Job::Empty { folder } => done(agent::empty(&folder)),
        Job::Delay { nanos, host, switch, name } => done(delay::run(Nanos(nanos), &host, &switch, &name)),
        Job::Postgres { listen, settings } => {
            return broker::postgres_station(listen, &settings).map(|()| ExitCode::SUCCESS);
        }
        Job::Sink { address } => done(agent::sink(&address)),
        Job::Pour { to } => done(agent::pour(to)),
    };
    result.map_err(failed)
}
